//! Evaluates a query's filters while records are decoded.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use arrow_tfrecord::RowFilter;
use datafusion_common::Result;
use datafusion_physical_expr::expressions::DynamicFilterTracking;
use datafusion_physical_expr::split_conjunction;
use datafusion_physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion_physical_expr_common::physical_expr::{PhysicalExpr, is_volatile};

use super::narrow::narrowed;

/// Returns the columns of the files that a filter reads. `None` if it reads other columns, too, or if its result may
/// vary.
pub(super) fn file_columns(filter: &Arc<dyn PhysicalExpr>, file_schema: &Schema) -> Option<Vec<usize>> {
    // A filter that changes while the query runs may later exclude rows that pass now. The operators above apply it.
    if is_volatile(filter) || DynamicFilterTracking::classify(filter).contains_dynamic_filter() {
        return None;
    }
    let mut columns: Vec<usize> = collect_columns(filter).iter().map(|column| column.index()).collect();
    columns.sort_unstable();
    columns.dedup();
    (!columns.is_empty() && columns.iter().all(|column| *column < file_schema.fields().len())).then_some(columns)
}

/// Converts a conjunction to predicates that are evaluated one after the other, for a reader of files with the
/// columns `file_schema`.
pub(super) fn row_filter(filter: &Arc<dyn PhysicalExpr>, file_schema: &SchemaRef) -> Result<Option<RowFilter>> {
    let mut all: Option<RowFilter> = None;
    for filter in split_conjunction(filter) {
        let Some(columns) = file_columns(filter, file_schema) else { continue };
        let given = Arc::new(file_schema.project(&columns)?);
        let filter = reassign_expr_columns(Arc::clone(filter), &given)?;
        let next = RowFilter::new(columns, move |batch: RecordBatch| {
            let rows = batch.num_rows();
            let answer = filter.evaluate(&narrowed(batch, &given)?).map_err(ArrowError::from)?;
            let answer = answer.into_array(rows).map_err(ArrowError::from)?;
            let answer = answer.as_boolean_opt().cloned();
            answer.ok_or_else(|| ArrowError::ComputeError(format!("{filter} is not a filter")))
        });
        all = Some(match all {
            Some(before) => before.and(next),
            None => next,
        });
    }
    Ok(all)
}
