//! Corrects column chunks as written by some old writers. Some have a dictionary page at byte 0, which means that there
//! is none. Those of parquet-mr before 1.2.9 have a length without the dictionary page's header (PARQUET-816).

use std::collections::HashSet;

use parquet::arrow::async_reader::MetadataFetch;
use parquet::errors::Result;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use super::metadata::with_chunks;
use super::thrift;

/// Upper bound of the bytes of a dictionary page's header.
const HEADER: u64 = 100;

/// Drops dictionary page offsets that cannot be valid: they must be after the magic number and before the data pages.
pub(super) fn with_possible_dictionaries(metadata: ParquetMetaData) -> Result<ParquetMetaData> {
    let is_possible = |chunk: &ColumnChunkMetaData| {
        chunk.dictionary_page_offset().is_none_or(|offset| offset > 0 && offset < chunk.data_page_offset())
    };
    if metadata.row_groups().iter().flat_map(|group| group.columns()).all(is_possible) {
        return Ok(metadata);
    }
    with_chunks(metadata, |_, chunk| {
        (!is_possible(chunk)).then(|| chunk.clone().into_builder().set_dictionary_page_offset(None))
    })
}

/// Adds the headers of dictionary pages to the lengths of chunks. This applies if only then a chunk ends where another
/// one or the footer begins.
///
/// # Errors
/// The file cannot be read.
pub(super) async fn with_dictionary_headers(
    metadata: ParquetMetaData,
    footer: u64,
    mut fetch: impl MetadataFetch,
) -> Result<ParquetMetaData> {
    if !metadata.file_metadata().created_by().is_some_and(leaves_out_headers) {
        return Ok(metadata);
    }
    let starts = metadata.row_groups().iter().flat_map(|group| group.columns()).map(start);
    let ends: HashSet<i64> = starts.chain(i64::try_from(footer)).collect();
    let mut lengths: Vec<Vec<Option<i64>>> = Vec::with_capacity(metadata.num_row_groups());
    for group in metadata.row_groups() {
        let mut of_group = Vec::with_capacity(group.num_columns());
        for chunk in group.columns() {
            let length = chunk.compressed_size();
            let end = start(chunk).saturating_add(length);
            let dictionary = chunk.dictionary_page_offset().and_then(|start| u64::try_from(start).ok());
            let whole = match dictionary.filter(|start| *start < footer && !ends.contains(&end)) {
                Some(start) => {
                    let header = fetch.fetch(start..footer.min(start + HEADER)).await?;
                    thrift::header_length(&header).and_then(|header| length.checked_add(i64::try_from(header).ok()?))
                }
                None => None,
            };
            of_group.push(whole.filter(|whole| ends.contains(&(end - length).saturating_add(*whole))));
        }
        lengths.push(of_group);
    }
    let mut builder = metadata.into_builder();
    let mut groups = builder.take_row_groups();
    for (group, lengths) in groups.iter_mut().zip(&lengths) {
        for (chunk, length) in group.columns_mut().iter_mut().zip(lengths) {
            if let Some(length) = length {
                *chunk = chunk.clone().into_builder().set_total_compressed_size(*length).build()?;
            }
        }
    }
    Ok(builder.set_row_groups(groups).build())
}

fn start(chunk: &ColumnChunkMetaData) -> i64 {
    chunk.dictionary_page_offset().unwrap_or(i64::MAX).min(chunk.data_page_offset())
}

/// Whether the writer is parquet-mr before 1.2.9: `parquet-mr version 1.2.5-cdh4.5.0 (build ...)`.
fn leaves_out_headers(created_by: &str) -> bool {
    let Some(version) = created_by.strip_prefix("parquet-mr version ") else { return false };
    let digits = version.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or_default();
    let mut numbers = digits.split('.').map(|number| number.parse::<u32>().unwrap_or_default());
    let mut next = || numbers.next().unwrap_or_default();
    (next(), next(), next()) < (1, 2, 9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parquet_writers_are_distinguished_by_version() {
        for (created_by, expected) in [
            ("parquet-mr version 1.2.5-cdh4.5.0 (build )", true),
            ("parquet-mr version 1.2.8 (build ab)", true),
            ("parquet-mr version 1.2.9", false),
            ("parquet-mr version 1.12.0 (build ab)", false),
            ("parquet-mr", false),
            ("parquet-cpp version 1.0.0", false),
        ] {
            assert_eq!(leaves_out_headers(created_by), expected, "{created_by}");
        }
    }
}
