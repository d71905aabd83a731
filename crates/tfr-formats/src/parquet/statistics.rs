//! Removes bounds of row groups that are meaningless and must not be used to skip rows.

use parquet::basic::{ColumnOrder, SortOrder, Type};
use parquet::errors::Result;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::statistics::Statistics;

use super::metadata::with_chunks;

/// Removes the statistics that the engine would misinterpret:
///
/// - Bounds of columns whose order the format does not define, or only in a later version: intervals, geometries.
/// - Bounds without a column order, which the format requires for them.
/// - Bounds in the deprecated fields, except of signed numbers: writers before 2018 compared texts as signed bytes.
/// - Bounds without a null count, which the engine takes as zero.
pub(super) fn without_meaningless(metadata: ParquetMetaData) -> Result<ParquetMetaData> {
    let orders: Vec<bool> =
        (0..metadata.file_metadata().schema_descr().num_columns()).map(|column| has_order(&metadata, column)).collect();
    let is_believed = |column: usize, chunk: &ColumnChunkMetaData| {
        let Some(statistics) = chunk.statistics() else { return true };
        let has_nulls_counted = statistics.null_count_opt().is_some() || chunk.column_descr().max_def_level() == 0;
        has_nulls_counted && has_meaning(statistics, chunk, orders.get(column).copied().unwrap_or(false))
    };
    let mut groups = metadata.row_groups().iter();
    if groups.all(|group| group.columns().iter().enumerate().all(|(column, chunk)| is_believed(column, chunk))) {
        return Ok(metadata);
    }
    with_chunks(metadata, |column, chunk| match is_believed(column, chunk) {
        true => None,
        false => Some(chunk.clone().into_builder().clear_statistics()),
    })
}

/// Whether the format defines the order of a column's values.
pub(super) fn has_order(metadata: &ParquetMetaData, column: usize) -> bool {
    let orders = metadata.file_metadata().column_orders();
    let order = orders.and_then(|orders| orders.get(column));
    matches!(order, Some(ColumnOrder::TYPE_DEFINED_ORDER(order)) if *order != SortOrder::UNDEFINED)
}

fn has_meaning(statistics: &Statistics, chunk: &ColumnChunkMetaData, has_order: bool) -> bool {
    if statistics.min_bytes_opt().is_none() && statistics.max_bytes_opt().is_none() {
        return true;
    }
    if !statistics.is_min_max_deprecated() {
        return has_order;
    }
    let is_number =
        matches!(chunk.column_type(), Type::BOOLEAN | Type::INT32 | Type::INT64 | Type::FLOAT | Type::DOUBLE);
    is_number && chunk.column_descr().sort_order() == SortOrder::SIGNED
}
