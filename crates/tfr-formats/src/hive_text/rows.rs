//! Builds batches from lines.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use datafusion_common::DataFusionError;

use super::column::{Context, Dialect, HiveColumnBuilder};
use super::tally::Tally;
use super::types::HiveType;
use crate::error::{Line, Result};
use crate::text::rows::Rows;

/// Approximate number of bytes per value.
const VALUE_LEN: usize = 8;

/// The rows of a file.
pub(super) struct HiveRows {
    dialect: Arc<Dialect>,
    tally: Tally,
    /// The requested columns.
    schema: SchemaRef,
    /// The expected number of cells per line.
    width: usize,
    /// The requested columns, in the order of their cells.
    columns: Vec<Wanted>,
    rows: usize,
    /// Bytes of the lines since the last batch, and the number of their values.
    text_len: usize,
    values: usize,
}

/// A requested column.
struct Wanted {
    /// The index of its cell in a line.
    cell: usize,
    /// The index of its column in the batch.
    index: usize,
    values: HiveColumnBuilder,
}

impl HiveRows {
    /// Creates a builder for the columns of `schema`, each of which is a cell of the line.
    pub(super) fn new(
        dialect: Arc<Dialect>,
        tally: Tally,
        schema: SchemaRef,
        width: usize,
        cells: &[(usize, HiveType)],
    ) -> Self {
        let cells = cells.iter().enumerate();
        let wanted = cells.map(|(index, (cell, hive_type))| Wanted {
            cell: *cell,
            index,
            values: HiveColumnBuilder::new(hive_type),
        });
        let mut columns: Vec<_> = wanted.collect();
        columns.sort_by_key(|wanted| wanted.cell);
        Self { dialect, tally, schema, width, columns, rows: 0, text_len: 0, values: 0 }
    }
}

impl Rows for HiveRows {
    fn push(&mut self, line: &[u8], at: Line) -> Result<()> {
        self.rows += 1;
        self.text_len += line.len();
        // Only the number of rows is requested.
        if self.columns.is_empty() {
            return Ok(());
        }
        let Self { dialect, tally, schema, width, columns, values, .. } = self;
        let mut cells = dialect.split(line, 0);
        let mut found = 0;
        for wanted in columns {
            let mut text = None;
            while found <= wanted.cell {
                text = cells.next();
                if text.is_none() {
                    break;
                }
                found += 1;
            }
            let column = schema.field(wanted.index).name();
            wanted.values.append(text, 1, &mut Context { dialect, tally, line: at, column, values })?;
        }
        // Cells after the requested ones are only counted.
        tally.width(found + cells.count(), *width, at)?;
        Ok(())
    }

    fn len(&self) -> usize {
        self.rows
    }

    fn size(&self) -> usize {
        self.text_len.saturating_add(self.values.saturating_mul(VALUE_LEN))
    }

    fn take(&mut self) -> Result<RecordBatch, DataFusionError> {
        let mut arrays = Vec::with_capacity(self.columns.len());
        for wanted in &mut self.columns {
            arrays.push((wanted.index, wanted.values.take()?));
        }
        arrays.sort_by_key(|(index, _)| *index);
        let arrays = arrays.into_iter().map(|(_, array)| array).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        (self.rows, self.text_len, self.values) = (0, 0, 0);
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?)
    }
}
