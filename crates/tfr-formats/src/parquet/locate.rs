//! [`Locator`]: finds the column and the row of an unreadable value, or the page.

use std::collections::BTreeSet;
use std::error::Error as StdError;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Schema};
use datafusion_common::DataFusionError;
use futures::TryStreamExt;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use parquet::errors::{ParquetError, Result};
use tfr_arrow::nested::{child_arrays, children, elements};
use tfr_stores::FileNames;

use super::adapter::Unlocated;
use super::footer::Footers;
use super::hint::bytes_type;
use super::pages::wrong_crc;
use super::reader::{Projection, column};
use super::values::{Failure, Mismatch, MismatchReason, convert};
use crate::error::{Error, ErrorKind, FilePlace};
use crate::names::ColumnNames;

/// Rereads a column of a file after a failure to find the row that caused it.
#[derive(Debug)]
pub(super) struct Locator {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) footers: Footers,
    pub(super) names: FileNames,
    pub(super) columns: ColumnNames,
}

impl Locator {
    /// Returns a more precise error for a failure to read a file, or `error` itself. `columns` are the columns of the
    /// table that were read.
    pub(super) async fn diagnose(
        &self,
        file: &ObjectMeta,
        columns: &[String],
        error: DataFusionError,
    ) -> DataFusionError {
        let found = if let Some(unlocated) = find::<Unlocated>(&error) {
            self.mismatch(file, unlocated).await
        } else if says(&error, "utf-8") {
            self.not_text(file, columns).await
        } else if says(&error, "crc checksum") {
            self.damaged_page(file, columns).await
        } else {
            return error;
        };
        // If the search fails too, the first error is more informative.
        match found {
            Ok(Some(kind)) => Error::from(kind).into(),
            Ok(None) | Err(_) => error,
        }
    }

    async fn mismatch(&self, file: &ObjectMeta, unlocated: &Unlocated) -> Result<Option<ErrorKind>> {
        let footer = self.footers.get(self.store.as_ref(), file).await?;
        let Some(index) = footer.columns.iter().position(|name| *name == unlocated.column) else { return Ok(None) };
        let mut batches = column(&self.store, file, &footer, Projection::Column(index))?;
        let mut before = 0_u64;
        while let Some(array) = batches.try_next().await? {
            // Where finer timestamps are cut, the first mismatch can be another one.
            let mismatch = |row: usize| match convert(&array.slice(row, 1), &unlocated.data_type) {
                Err(Failure::Mismatch(mismatch)) if mismatch.reason == unlocated.mismatch.reason => {
                    Some((row, mismatch))
                }
                _ => None,
            };
            let fails = convert(&array, &unlocated.data_type).is_err();
            if let Some(found) = (0..array.len()).filter(|_| fails).find_map(mismatch) {
                return Ok(Some({
                    let (row, Mismatch { value, expected, reason }) = found;
                    let place = FilePlace::row(&self.names.name(&file.location), before + row as u64)
                        .column(&self.columns.in_table(&unlocated.column));
                    match reason {
                        MismatchReason::Malformed => {
                            ErrorKind::Content { place, problem: format!("{value}, of which a day has 86400000000000") }
                        }
                        _ => ErrorKind::Timestamp { place, value, expected },
                    }
                }));
            }
            before += array.len() as u64;
        }
        Ok(None)
    }

    /// Finds the first page of these columns of the table whose checksum is wrong.
    async fn damaged_page(&self, file: &ObjectMeta, columns: &[String]) -> Result<Option<ErrorKind>> {
        let footer = self.footers.get(self.store.as_ref(), file).await?;
        let schema = footer.metadata.file_metadata().schema_descr();
        let is_read = |leaf: &usize| columns.contains(&self.columns.in_table(schema.get_column_root(*leaf).name()));
        let leaves: Vec<_> = (0..schema.num_columns()).filter(is_read).collect();
        for (row_group, leaf, range) in footer.pages.chunks_of(&leaves) {
            let start = range.start;
            let chunk = self.store.get_range(&file.location, range).await;
            let chunk = chunk.map_err(|error| ParquetError::External(error.into()))?;
            if let Some((offset, found, expected)) = wrong_crc(&chunk) {
                let (file, column) = (self.names.name(&file.location), schema.column(leaf).path().string());
                return Ok(Some(ErrorKind::PageChecksum {
                    file,
                    row_group,
                    column,
                    byte: start + offset,
                    found,
                    expected,
                }));
            }
        }
        Ok(None)
    }

    /// Finds the first text in these columns of the table that is not UTF-8.
    async fn not_text(&self, file: &ObjectMeta, columns: &[String]) -> Result<Option<ErrorKind>> {
        let footer = self.footers.get(self.store.as_ref(), file).await?;
        let schema: &Schema = &footer.schema;
        for (index, name) in footer.columns.iter().enumerate() {
            let Some(field) =
                schema.field_with_name(name).ok().filter(|_| columns.contains(&self.columns.in_table(name)))
            else {
                continue;
            };
            if bytes_type(field.data_type()) == *field.data_type() {
                continue;
            }
            let mut as_bytes: BTreeSet<String> = self.footers.as_bytes().clone();
            as_bytes.insert(name.clone());
            let raw = self.footers.with_bytes(as_bytes).get(self.store.as_ref(), file).await?;
            let mut batches = column(&self.store, file, &raw, Projection::Column(index))?;
            let mut before = 0_u64;
            while let Some(array) = batches.try_next().await? {
                if !is_text(&array, field.data_type()) {
                    let row = (0..array.len()).find(|row| !is_text(&array.slice(*row, 1), field.data_type()));
                    let row = before + row.unwrap_or_default() as u64;
                    let place = FilePlace::row(&self.names.name(&file.location), row);
                    return Ok(Some(ErrorKind::NotText { place: place.column(&self.columns.in_table(name)) }));
                }
                before += array.len() as u64;
            }
        }
        Ok(None)
    }
}

/// Whether all bytes that should be text are UTF-8; `data_type` determines which should.
fn is_text(array: &ArrayRef, data_type: &DataType) -> bool {
    let is_utf8 = |bytes: Option<&[u8]>| bytes.is_none_or(|bytes| std::str::from_utf8(bytes).is_ok());
    match (array.data_type(), data_type) {
        (_, DataType::Dictionary(_, values)) => is_text(array, values),
        (DataType::Binary, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => {
            array.as_binary::<i32>().iter().all(is_utf8)
        }
        (DataType::LargeBinary, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => {
            array.as_binary::<i64>().iter().all(is_utf8)
        }
        (DataType::BinaryView, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => {
            array.as_binary_view().iter().all(is_utf8)
        }
        (found, wanted) if found.is_nested() && wanted.is_nested() => {
            let parts = match elements(array) {
                Some(elements) => elements.into_iter().collect(),
                None => child_arrays(array),
            };
            parts.iter().zip(children(wanted)).all(|(part, wanted)| is_text(part, wanted))
        }
        _ => true,
    }
}

/// Returns the first error of a chain that has this type.
fn find<T: StdError + 'static>(error: &DataFusionError) -> Option<&T> {
    chain(error).find_map(|link| match link.downcast_ref::<Arc<DataFusionError>>() {
        Some(shared) => find(shared),
        None => link.downcast_ref(),
    })
}

/// Whether the message of some error in a chain contains a word, in any case.
fn says(error: &DataFusionError, word: &str) -> bool {
    chain(error).any(|link| {
        let text = link.to_string().to_lowercase();
        text.contains(word) || text.contains(&word.replace('-', ""))
    })
}

fn chain(error: &DataFusionError) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    let mut next = Some(error as &(dyn StdError + 'static));
    std::iter::from_fn(move || {
        let link = next?;
        next = link.source();
        Some(link)
    })
}
