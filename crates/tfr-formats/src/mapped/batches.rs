//! [`MappedBatches`]: makes the columns of a table from those that a reader returns of one file.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use arrow_select::filter::filter_record_batch;
use datafusion_common::{Result, internal_err};
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_expr_adapter::PhysicalExprAdapterFactory;
use datafusion_physical_expr_common::physical_expr::PhysicalExpr;
use tfr_files::{ColumnsInFiles, DeletedRows, ExactAdapterFactory};

use super::{FileColumns, MappedFactory};

/// Makes the columns of a table from those of one file, for readers that return batches.
#[derive(Debug)]
pub(crate) struct MappedBatches {
    read: Vec<usize>,
    /// One for each column of the table, over those that are read.
    columns: Vec<Arc<dyn PhysicalExpr>>,
    wanted: SchemaRef,
    deleted: Option<Arc<DeletedRows>>,
}

impl MappedBatches {
    /// Finds the columns `wanted` of the table in a file, some of whose rows are deleted.
    pub(crate) fn new(
        columns: &Arc<ColumnsInFiles>,
        wanted: &SchemaRef,
        file: &SchemaRef,
        deleted: Option<Arc<DeletedRows>>,
    ) -> Result<Self> {
        let mut read = BTreeSet::new();
        let located = FileColumns::new(columns, file.fields());
        for field in wanted.fields() {
            match located.locate(field) {
                Ok(located) => read.extend(located.map(|located| located.index)),
                Err(ambiguous) => return internal_err!("a column of the table is several of the file: {ambiguous:?}"),
            }
        }
        let read: Vec<_> = read.into_iter().collect();
        let factory = MappedFactory { columns: Arc::clone(columns), inner: Arc::new(ExactAdapterFactory) };
        let adapter = factory.create(Arc::clone(wanted), Arc::new(file.project(&read)?))?;
        let columns = wanted.fields().iter().enumerate();
        let columns = columns.map(|(index, field)| adapter.rewrite(Arc::new(Column::new(field.name(), index))));
        let columns = columns.collect::<Result<_>>()?;
        Ok(Self { read, columns, wanted: Arc::clone(wanted), deleted: deleted.filter(|rows| rows.count() > 0) })
    }

    /// Returns the indices of the columns of the file to read, in ascending order.
    pub(crate) fn read(&self) -> &[usize] {
        &self.read
    }

    /// Returns the deleted rows of the file, if there are any.
    pub(crate) fn deleted(&self) -> Option<&DeletedRows> {
        self.deleted.as_deref()
    }

    /// Makes a batch of the table from one of the columns that are read. `first` is the position of its first row in the
    /// file; it does not matter if no rows are deleted.
    pub(crate) fn adapt(&self, batch: &RecordBatch, first: u64) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let kept = self.deleted.as_ref().and_then(|deleted| deleted.kept(first, rows));
        let batch = match kept {
            Some(kept) => &filter_record_batch(batch, &BooleanArray::new(kept, None))?,
            None => batch,
        };
        let rows = batch.num_rows();
        let columns = self.columns.iter().map(|column| column.evaluate(batch)?.into_array(rows));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.wanted), columns, &options)?)
    }
}
