//! [`JsonOpener`]: reads one JSON file of a scan, or a part of one.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, SchemaRef};
use bytes::{Buf, Bytes};
use datafusion_common::Result;
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::file_stream::{FileOpenFuture, FileOpener};
use datafusion_physical_plan::metrics::Count;
use futures::{FutureExt, StreamExt};
use object_store::ObjectStore;
use tfr_arrow::nested::children;
use tfr_files::memory::ReadBounds;
use tfr_stores::FileNames;

use super::decode;
use super::keys::Keys;
use super::options::JsonOptions;
use super::rows::JsonObjects;
use crate::names::ColumnNames;
use crate::text::{self, TextStream};
use tfr_files::scan::Scan;

/// Maximum number of values in a batch, present or not. Objects with thousands of keys that vary by row get smaller
/// batches.
const MAX_BATCH_VALUES: usize = 4 << 20;

/// Counts the leaf columns of a type.
fn leaves(data_type: &DataType) -> usize {
    match data_type {
        DataType::FixedSizeList(item, len) => {
            leaves(item.data_type()).saturating_mul(usize::try_from(*len).unwrap_or_default())
        }
        nested if nested.is_nested() => children(nested).into_iter().map(leaves).sum(),
        _ => 1,
    }
}

/// Opens one file or a part of one.
#[derive(Clone)]
pub(super) struct JsonOpener {
    store: Arc<dyn ObjectStore>,
    options: Arc<JsonOptions>,
    names: FileNames,
    declared: bool,
    keys: Arc<Keys>,
    /// The requested columns.
    schema: SchemaRef,
    batch_size: usize,
    bounds: ReadBounds,
    bytes_scanned: Count,
}

impl JsonOpener {
    /// Creates an opener for the files of a table; `declared` if the user gave the types.
    pub(super) fn try_new(
        store: Arc<dyn ObjectStore>,
        options: Arc<JsonOptions>,
        names: FileNames,
        column_names: &ColumnNames,
        declared: bool,
        scan: &Scan<'_>,
    ) -> Result<Self> {
        let schema = scan.schema()?;
        let in_file = scan.table.file_schema();
        let columns: Vec<&str> = in_file.fields().iter().map(|field| field.name().as_str()).collect();
        let in_path = scan.table.table_partition_cols().iter().map(|field| field.name().clone()).collect();
        let values: usize = schema.fields().iter().map(|field| leaves(field.data_type())).sum();
        Ok(Self {
            store,
            options,
            names,
            declared,
            keys: Arc::new(Keys::new(&columns, scan.wanted, in_path, declared, column_names.clone())),
            schema,
            batch_size: scan.batch_size.min(MAX_BATCH_VALUES / values.max(1)).max(1),
            bounds: scan.bounds,
            bytes_scanned: scan.bytes_scanned(),
        })
    }
}

impl FileOpener for JsonOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let opener = self.clone();
        Ok(async move {
            let name: Arc<str> = opener.names.name(&file.object_meta.location).into();
            let layout = opener.options.layout();
            let Some(part) = text::part(&opener.store, &file, &name, layout, &opener.bytes_scanned).await? else {
                return Ok(futures::stream::empty().boxed());
            };
            // The first of several parts must also end at the end of an object.
            let is_first = file.range.as_ref().is_some_and(|range| (range.end as u64) < file.object_meta.size);
            let after_byte = part.after_byte.or(is_first.then_some(0));
            let rows = JsonObjects::new(name, Some(Arc::clone(&opener.keys)), after_byte).within(opener.bounds);
            let batches = JsonBatches { opener, rows, text: part.text, piece: Bytes::new() };
            let batches = futures::stream::try_unfold(Some(batches), |batches| async {
                let Some(mut batches) = batches else { return Ok(None) };
                let (batch, more) = batches.next().await?;
                Ok(batch.map(|batch| (batch, more.then_some(batches))))
            });
            Ok(batches.boxed())
        }
        .boxed())
    }
}

/// The batches of one file or part.
struct JsonBatches {
    opener: JsonOpener,
    rows: JsonObjects,
    text: TextStream,
    piece: Bytes,
}

impl JsonBatches {
    /// Returns the next batch, if rows are left, and whether more may follow.
    async fn next(&mut self) -> Result<(Option<RecordBatch>, bool)> {
        let batch_size = self.opener.batch_size;
        while !self.rows.is_full(batch_size) {
            if self.piece.is_empty() {
                match self.rows.next_piece(&mut self.text).await? {
                    Some(piece) => self.piece = piece,
                    None => return Ok((self.take_batch()?, false)),
                }
                continue;
            }
            let read = self.rows.read(&self.piece, batch_size)?;
            self.piece.advance(read);
        }
        Ok((self.take_batch()?, true))
    }

    fn take_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.rows.tape().rows.is_empty() {
            return Ok(None);
        }
        let batch = decode::batch(&self.rows.parser, &self.opener.schema, self.opener.declared)?;
        self.rows.clear();
        Ok(Some(batch))
    }
}
