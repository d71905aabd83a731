//! The page index of a file, which is optional: an inconsistent one is dropped.

use parquet::arrow::async_reader::MetadataFetch;
use parquet::errors::Result;
use parquet::file::metadata::{
    ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData,
};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::PageLocation;

use super::metadata::with_chunks;
use super::statistics::has_order;

/// Returns the metadata with the file's page index, if it has one that matches the column chunks.
pub(super) async fn with_index(
    metadata: ParquetMetaData,
    size: u64,
    fetch: impl MetadataFetch,
) -> Result<ParquetMetaData> {
    let has_index =
        |chunk: &ColumnChunkMetaData| chunk.offset_index_offset().is_some() || chunk.column_index_offset().is_some();
    let is_inside = |chunk: &ColumnChunkMetaData| {
        is_inside(chunk.offset_index_offset(), chunk.offset_index_length(), size)
            && is_inside(chunk.column_index_offset(), chunk.column_index_length(), size)
    };
    if !chunks(&metadata).any(has_index) {
        return Ok(metadata);
    }
    if chunks(&metadata).all(is_inside) {
        let mut reader = ParquetMetaDataReader::new_with_metadata(metadata.clone())
            .with_page_index_policy(PageIndexPolicy::Optional);
        // If the store fails now, it fails again when rows are read.
        if reader.load_page_index(fetch).await.is_ok()
            && let Ok(indexed) = reader.finish()
            && agrees(&indexed)
        {
            return without_meaningless_index(indexed);
        }
    }
    with_chunks(metadata, |_, chunk| {
        let chunk = chunk.clone().into_builder();
        let chunk = chunk.set_offset_index_offset(None).set_offset_index_length(None);
        Some(chunk.set_column_index_offset(None).set_column_index_length(None))
    })
}

fn chunks(metadata: &ParquetMetaData) -> impl Iterator<Item = &ColumnChunkMetaData> {
    metadata.row_groups().iter().flat_map(RowGroupMetaData::columns)
}

/// Whether the byte range is inside the file, or absent.
fn is_inside(offset: Option<i64>, length: Option<i32>, size: u64) -> bool {
    let (Some(offset), Some(length)) = (offset, length) else { return offset.is_none() };
    let end = offset.checked_add(length.into()).and_then(|end| u64::try_from(end).ok());
    offset >= 0 && length >= 0 && end.is_some_and(|end| end <= size)
}

/// Whether pages are consecutive and inside their column chunks, and so are their rows.
fn agrees(metadata: &ParquetMetaData) -> bool {
    let Some(offsets) = metadata.offset_index() else { return metadata.column_index().is_none() };
    let columns = metadata.column_index();
    let groups = metadata.row_groups().iter().zip(offsets).enumerate();
    groups.into_iter().all(|(number, (group, offsets))| {
        let chunks = group.columns().iter().zip(offsets).enumerate();
        chunks.into_iter().all(|(column, (chunk, offsets))| {
            let pages = offsets.page_locations();
            let index = columns.and_then(|columns| columns.get(number)?.get(column));
            let is_as_long = match index {
                None | Some(ColumnIndexMetaData::NONE) => true,
                Some(index) => index.num_pages() == pages.len() as u64,
            };
            is_as_long && has_pages(chunk, pages, group.num_rows())
        })
    })
}

fn has_pages(chunk: &ColumnChunkMetaData, pages: &[PageLocation], rows: i64) -> bool {
    let start = chunk.dictionary_page_offset().unwrap_or(i64::MAX).min(chunk.data_page_offset());
    let end = start.saturating_add(chunk.compressed_size());
    let (mut offset, mut row) = (chunk.data_page_offset(), -1);
    for page in pages {
        let is_next = page.offset >= offset && page.compressed_page_size > 0 && page.first_row_index > row;
        let is_first = row >= 0 || page.first_row_index == 0;
        offset = page.offset.saturating_add(page.compressed_page_size.into());
        if !is_next || !is_first || offset > end || page.first_row_index >= rows {
            return false;
        }
        row = page.first_row_index;
    }
    true
}

/// Drops page bounds whose order the format does not define.
fn without_meaningless_index(metadata: ParquetMetaData) -> Result<ParquetMetaData> {
    let meaningless: Vec<usize> = (0..metadata.file_metadata().schema_descr().num_columns())
        .filter(|column| !has_order(&metadata, *column))
        .collect();
    if meaningless.is_empty() || metadata.column_index().is_none() {
        return Ok(metadata);
    }
    let mut builder = metadata.into_builder();
    let mut index = builder.take_column_index().unwrap_or_default();
    for group in &mut index {
        for column in &meaningless {
            if let Some(bounds) = group.get_mut(*column) {
                *bounds = ColumnIndexMetaData::NONE;
            }
        }
    }
    Ok(builder.set_column_index(Some(index)).build())
}
