//! [`StoredStatistics`]: the statistics of a scan.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use datafusion_common::stats::Precision;
use datafusion_common::{ColumnStatistics, Result, ScalarValue, Statistics, exec_err};
use serde::{Deserialize, Serialize};

use super::group::{decode_batch, encode_batch};

/// The statistics of a scan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredStatistics {
    rows: Stored,
    bytes: Stored,
    /// Number of columns.
    columns: usize,
    /// The columns of which something is known.
    known: Vec<StoredColumn>,
    /// Their bounds: the Base64 of a batch with a column for each minimum and each maximum.
    bounds: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
enum Stored {
    Exact(usize),
    Inexact(usize),
    Absent,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredColumn {
    column: usize,
    nulls: Stored,
    /// The columns of the bounds with the minimum and the maximum, and whether they are exact.
    min: Option<(usize, bool)>,
    max: Option<(usize, bool)>,
}

impl From<Precision<usize>> for Stored {
    fn from(value: Precision<usize>) -> Self {
        match value {
            Precision::Exact(value) => Self::Exact(value),
            Precision::Inexact(value) => Self::Inexact(value),
            Precision::Absent => Self::Absent,
        }
    }
}

impl From<Stored> for Precision<usize> {
    fn from(value: Stored) -> Self {
        match value {
            Stored::Exact(value) => Self::Exact(value),
            Stored::Inexact(value) => Self::Inexact(value),
            Stored::Absent => Self::Absent,
        }
    }
}

impl StoredStatistics {
    /// Stores statistics; `None` if something would be lost.
    pub(super) fn new(statistics: &Statistics) -> Result<Option<Self>> {
        let mut bounds: Vec<ArrayRef> = Vec::new();
        let mut bound = |value: &Precision<ScalarValue>| -> Result<Option<(usize, bool)>> {
            let Some(scalar) = value.get_value() else { return Ok(None) };
            bounds.push(scalar.to_array()?);
            Ok(Some((bounds.len() - 1, matches!(value, Precision::Exact(_)))))
        };
        let mut known = Vec::new();
        for (column, found) in statistics.column_statistics.iter().enumerate() {
            if *found == ColumnStatistics::new_unknown() {
                continue;
            }
            let (min, max) = (bound(&found.min_value)?, bound(&found.max_value)?);
            known.push(StoredColumn { column, nulls: found.null_count.into(), min, max });
        }
        let bounds = match bounds.is_empty() {
            true => None,
            false => {
                let fields = bounds.iter().enumerate();
                let fields =
                    fields.map(|(index, bound)| Field::new(index.to_string(), bound.data_type().clone(), true));
                let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
                Some(BASE64_STANDARD.encode(encode_batch(&RecordBatch::try_new(schema, bounds)?)?))
            }
        };
        let (rows, bytes) = (statistics.num_rows.into(), statistics.total_byte_size.into());
        let stored = Self { rows, bytes, columns: statistics.column_statistics.len(), known, bounds };
        Ok((stored.decode()? == *statistics).then_some(stored))
    }

    /// Returns the statistics.
    pub(super) fn decode(&self) -> Result<Statistics> {
        let bounds = match self.bounds.as_ref().map(|text| BASE64_STANDARD.decode(text)) {
            Some(Ok(bytes)) => Some(decode_batch(&bytes)?),
            Some(Err(_)) => return exec_err!("statistics that are not Base64"),
            None => None,
        };
        let bound = |stored: Option<(usize, bool)>| -> Result<Precision<ScalarValue>> {
            let Some((column, is_exact)) = stored else { return Ok(Precision::Absent) };
            let Some(array) = bounds.as_ref().and_then(|bounds| bounds.columns().get(column)) else {
                return exec_err!("statistics without the bound {column}");
            };
            let value = ScalarValue::try_from_array(array, 0)?;
            Ok(if is_exact { Precision::Exact(value) } else { Precision::Inexact(value) })
        };
        let mut columns = vec![ColumnStatistics::new_unknown(); self.columns];
        for known in &self.known {
            let Some(column) = columns.get_mut(known.column) else { return exec_err!("statistics of no column") };
            column.null_count = known.nulls.into();
            column.min_value = bound(known.min)?;
            column.max_value = bound(known.max)?;
        }
        let (num_rows, total_byte_size) = (self.rows.into(), self.bytes.into());
        Ok(Statistics { num_rows, total_byte_size, column_statistics: columns })
    }
}
