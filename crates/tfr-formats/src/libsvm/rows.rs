//! Builds batches from lines.

use std::sync::Arc;

use arrow_array::builder::{Float64Builder, Int64Builder, ListBuilder};
use arrow_array::{ArrayRef, FixedSizeListArray, Float64Array, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, SchemaRef};
use datafusion_common::DataFusionError;

use super::line::{Example, Wrong};
use super::options::LibSvmOptions;
use crate::error::{Error, FilePlace, Line, Result, Within};
use crate::text::rows::Rows;

/// The columns that a file may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LibSvmColumn {
    Label,
    Labels,
    Qid,
    Indices,
    Values,
    Features,
}

impl LibSvmColumn {
    pub(super) const ALL: [Self; 6] =
        [Self::Label, Self::Labels, Self::Qid, Self::Indices, Self::Values, Self::Features];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::Labels => "labels",
            Self::Qid => "qid",
            Self::Indices => "indices",
            Self::Values => "values",
            Self::Features => "features",
        }
    }

    /// Returns the column's type, with `features` values in a dense list, and with integer labels if `whole_labels`.
    pub(super) fn data_type(self, features: Option<usize>, whole_labels: bool) -> DataType {
        match self {
            Self::Label if whole_labels => DataType::Int64,
            Self::Labels if whole_labels => DataType::new_list(DataType::Int64, true),
            Self::Label => DataType::Float64,
            Self::Qid => DataType::Int64,
            Self::Indices => DataType::new_list(DataType::Int64, true),
            Self::Labels | Self::Values => DataType::new_list(DataType::Float64, true),
            Self::Features => {
                let count = features.and_then(|count| i32::try_from(count).ok()).unwrap_or_default();
                DataType::new_fixed_size_list(DataType::Float64, count, true)
            }
        }
    }
}

/// The rows of a file.
pub(super) struct LibSvmRows {
    file: Arc<str>,
    options: Arc<LibSvmOptions>,
    /// The requested columns; a file has no others.
    schema: SchemaRef,
    columns: Vec<ColumnBuilder>,
    /// Whether the table has a query column, or was declared without one.
    may_have_qid: bool,
    example: Example,
    rows: usize,
    text_len: usize,
}

enum ColumnBuilder {
    /// The file lacks this column.
    Null,
    Label(Float64Builder),
    Labels(ListBuilder<Float64Builder>),
    WholeLabel(Int64Builder),
    WholeLabels(ListBuilder<Int64Builder>),
    Qid(Int64Builder),
    Indices(ListBuilder<Int64Builder>),
    Values(ListBuilder<Float64Builder>),
    /// A value for each feature, row after row.
    Features(Vec<f64>),
}

impl LibSvmRows {
    pub(super) fn new(
        file: Arc<str>,
        options: Arc<LibSvmOptions>,
        schema: SchemaRef,
        may_have_qid: bool,
        whole_labels: bool,
    ) -> Self {
        let column = |field: &Arc<Field>| match LibSvmColumn::ALL.into_iter().find(|part| part.name() == field.name()) {
            Some(LibSvmColumn::Label) if !options.multilabel && whole_labels => {
                ColumnBuilder::WholeLabel(Int64Builder::new())
            }
            Some(LibSvmColumn::Labels) if options.multilabel && whole_labels => {
                ColumnBuilder::WholeLabels(ListBuilder::new(Int64Builder::new()))
            }
            Some(LibSvmColumn::Label) if !options.multilabel => ColumnBuilder::Label(Float64Builder::new()),
            Some(LibSvmColumn::Labels) if options.multilabel => {
                ColumnBuilder::Labels(ListBuilder::new(Float64Builder::new()))
            }
            Some(LibSvmColumn::Qid) => ColumnBuilder::Qid(Int64Builder::new()),
            Some(LibSvmColumn::Indices) if options.features.is_none() => {
                ColumnBuilder::Indices(ListBuilder::new(Int64Builder::new()))
            }
            Some(LibSvmColumn::Values) if options.features.is_none() => {
                ColumnBuilder::Values(ListBuilder::new(Float64Builder::new()))
            }
            Some(LibSvmColumn::Features) if options.features.is_some() => ColumnBuilder::Features(Vec::new()),
            _ => ColumnBuilder::Null,
        };
        let columns = schema.fields().iter().map(column).collect();
        let example = Example::new(whole_labels);
        Self { file, options, schema, columns, may_have_qid, example, rows: 0, text_len: 0 }
    }

    fn wrong(&self, line: Line, wrong: Wrong) -> Error {
        Error::content(FilePlace::new(&self.file, Within::LineByte(line, wrong.at + 1)), wrong.reason)
    }
}

impl Rows for LibSvmRows {
    fn push(&mut self, line: &[u8], at: Line) -> Result<()> {
        let is_row = match self.example.read(line, &self.options) {
            Ok(is_row) => is_row,
            Err(wrong) => return Err(self.wrong(at, wrong)),
        };
        if !is_row {
            return Ok(());
        }
        let Self { example, columns, .. } = self;
        if example.qid.is_some() && !self.may_have_qid {
            let reason = "expected no qid, since the first lines have none; lines with one need qid=true".to_owned();
            return Err(self.wrong(at, Wrong { at: 0, reason }));
        }
        for column in columns {
            match column {
                ColumnBuilder::Null => {}
                ColumnBuilder::Label(labels) => labels.append_option(example.labels.first().copied()),
                ColumnBuilder::Labels(labels) => labels.append_value(example.labels.iter().copied().map(Some)),
                ColumnBuilder::WholeLabel(labels) => labels.append_option(example.integers.first().copied()),
                ColumnBuilder::WholeLabels(labels) => labels.append_value(example.integers.iter().copied().map(Some)),
                ColumnBuilder::Qid(qids) => qids.append_option(example.qid),
                ColumnBuilder::Indices(indices) => indices.append_value(example.indices.iter().copied().map(Some)),
                ColumnBuilder::Values(values) => values.append_value(example.values.iter().copied().map(Some)),
                ColumnBuilder::Features(features) => {
                    let count = self.options.features.unwrap_or_default();
                    if let Err(wrong) = append_dense(features, count, example) {
                        return Err(self.wrong(at, wrong));
                    }
                }
            }
        }
        self.rows += 1;
        self.text_len += line.len() + self.options.features.unwrap_or_default().saturating_mul(size_of::<f64>());
        Ok(())
    }

    fn len(&self) -> usize {
        self.rows
    }

    fn size(&self) -> usize {
        // `1:1` takes four bytes in a line and sixteen in a batch.
        self.text_len.saturating_mul(4)
    }

    fn take(&mut self) -> Result<RecordBatch, DataFusionError> {
        let rows = self.rows;
        let mut arrays = Vec::with_capacity(self.columns.len());
        for (field, column) in self.schema.fields().iter().zip(&mut self.columns) {
            let array: ArrayRef = match column {
                ColumnBuilder::Null => new_null_array(field.data_type(), rows),
                ColumnBuilder::Label(builder) => Arc::new(builder.finish()),
                ColumnBuilder::Labels(builder) | ColumnBuilder::Values(builder) => Arc::new(builder.finish()),
                ColumnBuilder::Qid(builder) | ColumnBuilder::WholeLabel(builder) => Arc::new(builder.finish()),
                ColumnBuilder::Indices(builder) | ColumnBuilder::WholeLabels(builder) => Arc::new(builder.finish()),
                ColumnBuilder::Features(values) => {
                    let item = Arc::new(Field::new_list_field(DataType::Float64, true));
                    let count = self.options.features.and_then(|count| i32::try_from(count).ok()).unwrap_or_default();
                    let values = Float64Array::from(std::mem::take(values));
                    Arc::new(FixedSizeListArray::try_new(item, count, Arc::new(values), None)?)
                }
            };
            let is_declared_so = array.data_type() == field.data_type();
            let options = CastOptions { safe: false, ..CastOptions::default() };
            arrays.push(if is_declared_so { array } else { cast_with_options(&array, field.data_type(), &options)? });
        }
        (self.rows, self.text_len) = (0, 0);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?)
    }
}

/// Appends a value for each of `count` features.
fn append_dense(features: &mut Vec<f64>, count: usize, example: &Example) -> Result<(), Wrong> {
    let start = features.len();
    features.resize(start + count, 0.0);
    let row = &mut features[start..];
    // Repeated indices are found by sorting: a zero in `row` does not show whether a value was written.
    let mut order: Vec<usize> = (0..example.indices.len()).collect();
    order.sort_by_key(|pair| example.indices[*pair]);
    for pair in order.windows(2) {
        let index = example.indices[pair[0]];
        if index == example.indices[pair[1]] {
            let reason = format!("feature {index} has two values");
            return Err(Wrong { at: example.positions[pair[1]], reason });
        }
    }
    for ((index, value), at) in example.indices.iter().zip(&example.values).zip(&example.positions) {
        let slot = usize::try_from(*index).ok().and_then(|index| row.get_mut(index));
        let Some(slot) = slot else {
            let reason = format!("feature {index} is beyond features={count}; the first is 0");
            return Err(Wrong { at: *at, reason });
        };
        *slot = *value;
    }
    Ok(())
}
