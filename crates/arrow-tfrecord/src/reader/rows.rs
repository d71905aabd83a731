//! Records to record batches: [`RowDecoder`].

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Schema, SchemaRef};
use tfrecord_framing::{Position, Records};

use super::column::{Column, Fault};
use super::locate::{BLOCK_ROWS, Locator};
use super::restore::Misfit;
use crate::error::{Error, ErrorKind, Result};
use crate::mapping::{FeatureKind, Mapping};

/// Decodes records to batches of one schema.
#[derive(Debug)]
pub(super) struct RowDecoder {
    /// With the columns that are read, as they are read.
    schema: SchemaRef,
    columns: Vec<Column>,
    /// The feature of each column, by its number at the locator.
    features: Vec<usize>,
    locator: Locator,
}

impl RowDecoder {
    /// A decoder of the columns of `mapping` at these positions, or of all.
    pub(super) fn try_new(mapping: &Mapping, projection: Option<&[usize]>) -> Result<Self> {
        let every: Vec<usize>;
        let projection = match projection {
            Some(projection) => projection,
            None => {
                every = (0..mapping.columns().len()).collect();
                &every
            }
        };
        if let Some(column) = projection.iter().find(|column| **column >= mapping.columns().len()) {
            return Err(ErrorKind::NoSuchColumn { column: *column, columns: mapping.columns().len() }.into());
        }
        let mapped: Vec<_> = projection.iter().map(|column| &mapping.columns()[*column]).collect();
        let mut numbers = HashMap::new();
        let mut names = Vec::new();
        let features = mapped
            .iter()
            .map(|column| {
                *numbers.entry(column.column.as_str()).or_insert_with(|| {
                    names.push(column.column.as_str());
                    names.len() - 1
                })
            })
            .collect();
        let fields: Vec<_> = projection.iter().map(|column| Arc::clone(&mapping.schema().fields()[*column])).collect();
        Ok(Self {
            schema: Arc::new(Schema::new_with_metadata(fields, mapping.schema().metadata().clone())),
            columns: mapped.into_iter().map(Column::try_new).collect::<Result<_>>()?,
            features,
            locator: Locator::new(names),
        })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// A batch with a row for every record.
    pub(super) fn decode(&mut self, records: &Records) -> Result<RecordBatch> {
        self.decode_columns(records).inspect_err(|_| {
            // What was decoded of the records is of no use any more, and must not come with the next batch.
            self.columns.iter_mut().for_each(Column::clear);
        })
    }

    fn decode_columns(&mut self, records: &Records) -> Result<RecordBatch> {
        let (bytes, ends) = (records.payloads(), records.ends());
        let mut start = 0;
        for (block, block_ends) in ends.chunks(BLOCK_ROWS).enumerate() {
            let first = block * BLOCK_ROWS;
            if !self.columns.is_empty() {
                self.locator.start_block();
                for (row, end) in block_ends.iter().enumerate() {
                    let located = self.locator.locate(bytes, start..*end, row);
                    located.map_err(|error| malformed(records, first + row, None, Some(error.at), error.reason))?;
                    start = *end;
                }
            }
            for (column, feature) in self.features.iter().enumerate() {
                let slots = self.locator.slots(*feature, block_ends.len());
                let appended = self.columns[column].append(slots, &self.locator, bytes);
                appended.map_err(|(row, fault)| self.refusal(column, records, first + row, fault))?;
            }
        }
        let mut arrays = Vec::with_capacity(self.columns.len());
        for column in 0..self.columns.len() {
            let array = self.columns[column].finish();
            arrays.push(array.map_err(|misfit| self.misfit(column, records, misfit))?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(records.len()));
        let batch = RecordBatch::try_new_with_options(SchemaRef::clone(&self.schema), arrays, &options);
        batch.map_err(|source| ErrorKind::Arrow { source }.into())
    }

    fn refusal(&self, column: usize, records: &Records, row: usize, fault: Fault) -> Error {
        let feature = self.schema.field(column).name().clone();
        let Column { data_type, kind, .. } = &self.columns[column];
        let (position, data_type) = (position(records, row), data_type.clone());
        match fault {
            Fault::Kind(found) => ErrorKind::KindMismatch { position, feature, expected: *kind, found }.into(),
            Fault::Count(found) => ErrorKind::ValueCount { position, feature, data_type, found }.into(),
            Fault::Missing => ErrorKind::MissingFeature { position, feature }.into(),
            Fault::Malformed { at, reason } => malformed(records, row, Some(feature), at, reason),
        }
    }

    fn misfit(&self, column: usize, records: &Records, misfit: Misfit) -> Error {
        let name = self.schema.field(column).name().clone();
        let data_type = self.columns[column].data_type.clone();
        match misfit {
            Misfit::Value { element: row, value } => {
                let position = position(records, row);
                // A column without a feature has no values.
                let kind = self.columns[column].kind.unwrap_or(FeatureKind::Bytes);
                ErrorKind::InvalidValue { position, feature: name, value, data_type, kind }.into()
            }
            Misfit::TooMany => ErrorKind::TooManyValues { column: name, data_type, rows: records.len() }.into(),
            Misfit::Arrow(source) => ErrorKind::Arrow { source }.into(),
        }
    }
}

fn position(records: &Records, row: usize) -> Position {
    records.positions().get(row).copied().unwrap_or_default()
}

fn malformed(records: &Records, row: usize, feature: Option<String>, at: Option<usize>, reason: &'static str) -> Error {
    let start = row.checked_sub(1).and_then(|before| records.ends().get(before)).copied().unwrap_or_default();
    let at = at.map(|at| at.saturating_sub(start));
    ErrorKind::Malformed { position: position(records, row), feature, at, reason }.into()
}
