//! [`LibSvm`]: libsvm as a [`LineFormat`].

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion_common::Result;
use datafusion_datasource::TableSchema;
use datafusion_physical_plan::metrics::Count;

use super::line::Example;
use super::options::LibSvmOptions;
use super::rows::{LibSvmColumn, LibSvmRows};
use crate::error::{Error, FilePlace, Line, Within};
use crate::input_format::InputFormat;
use crate::text::TextLayout;
use crate::text::rows::{Inference, LineFormat, Rows};

/// Number of rows of a file examined for queries.
const INFER_ROWS: usize = 1000;

/// libsvm files.
#[derive(Debug)]
pub(super) struct LibSvm {
    options: Arc<LibSvmOptions>,
    declared: bool,
    /// Whether the labels were declared as integers.
    whole_labels: bool,
}

impl LibSvm {
    pub(super) fn new(options: LibSvmOptions, declared: Option<&Schema>) -> Self {
        let is_whole = |field: &Field| match field.data_type() {
            DataType::List(item) => item.data_type().is_integer(),
            data_type => data_type.is_integer(),
        };
        let label = if options.multilabel { LibSvmColumn::Labels } else { LibSvmColumn::Label };
        let label = declared.and_then(|schema| schema.field_with_name(label.name()).ok());
        Self { options: Arc::new(options), declared: declared.is_some(), whole_labels: label.is_some_and(is_whole) }
    }
}

impl LineFormat for LibSvm {
    fn layout(&self) -> TextLayout {
        TextLayout {
            format: InputFormat::LibSvm,
            compression: self.options.compression,
            encoding: self.options.encoding,
            terminator: b'\n',
        }
    }

    fn inference(&self, file: Arc<str>) -> Box<dyn Inference> {
        let has_qid = self.options.qid.unwrap_or_default();
        let (options, example) = (Arc::clone(&self.options), Example::new(self.whole_labels));
        Box::new(Queries { file, options, example, rows: 0, has_qid, whole_labels: self.whole_labels })
    }

    fn rows(&self, file: Arc<str>, table: &TableSchema, wanted: &[usize], _odd_cells: Count) -> Result<Box<dyn Rows>> {
        let in_file = table.file_schema();
        let schema = Arc::new(in_file.project(wanted)?);
        // Users who declare columns, or say that there is no query, may omit `qid`.
        let may_have_qid = self.declared
            || self.options.qid == Some(false)
            || in_file.column_with_name(LibSvmColumn::Qid.name()).is_some();
        let options = Arc::clone(&self.options);
        Ok(Box::new(LibSvmRows::new(file, options, schema, may_have_qid, self.whole_labels)))
    }
}

/// Whether the lines of a file have queries.
struct Queries {
    file: Arc<str>,
    options: Arc<LibSvmOptions>,
    example: Example,
    rows: usize,
    has_qid: bool,
    whole_labels: bool,
}

impl Inference for Queries {
    fn observe(&mut self, line: &[u8], at: Line) -> Result<bool, Error> {
        let is_row = self.example.read(line, &self.options).map_err(|wrong| {
            Error::content(FilePlace::new(&self.file, Within::LineByte(at, wrong.at + 1)), wrong.reason)
        })?;
        self.rows += usize::from(is_row);
        self.has_qid |= self.options.qid.is_none() && self.example.qid.is_some();
        Ok(self.options.qid.is_none() && !self.has_qid && self.rows < INFER_ROWS)
    }

    fn schema(&self) -> Result<SchemaRef, Error> {
        let dense = self.options.features;
        let columns = LibSvmColumn::ALL.into_iter().filter(|column| match column {
            LibSvmColumn::Label => !self.options.multilabel,
            LibSvmColumn::Labels => self.options.multilabel,
            LibSvmColumn::Qid => self.has_qid,
            LibSvmColumn::Indices | LibSvmColumn::Values => dense.is_none(),
            LibSvmColumn::Features => dense.is_some(),
        });
        let fields = columns.map(|column| Field::new(column.name(), column.data_type(dense, self.whole_labels), true));
        Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
    }
}
