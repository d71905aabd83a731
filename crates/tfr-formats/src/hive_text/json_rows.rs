//! [`JsonRows`]: lines of JsonSerDe, each of which is a JSON object.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use datafusion_common::DataFusionError;

use super::column::{Context, Dialect, HiveColumnBuilder};
use super::json_values::{JsonValues, append};
use super::serdes::JsonBinary;
use super::tally::Tally;
use super::types::HiveType;
use crate::error::{Error, FilePlace, Line, Result};
use crate::json::LineParser;
use crate::text::rows::Rows;

/// Approximate number of bytes per value.
const VALUE_LEN: usize = 8;

/// The rows of a file.
pub(super) struct JsonRows {
    parser: LineParser,
    binary: JsonBinary,
    dialect: Arc<Dialect>,
    tally: Tally,
    /// The requested columns.
    schema: SchemaRef,
    columns: Vec<HiveColumnBuilder>,
    /// The columns of the table by their names in lower case, with their indices among the requested ones.
    names: HashMap<String, Option<usize>>,
    /// The same in the order of the table: Hive writes `_col0`, `_col1` and so on.
    numbered: Vec<Option<usize>>,
    /// The nodes of the row's values.
    found: Vec<Option<u32>>,
    rows: usize,
    text_len: usize,
    values: usize,
}

impl JsonRows {
    /// Creates a builder for the columns of `schema`, which are at these indices of all columns `names`.
    pub(super) fn new<'a>(
        binary: JsonBinary,
        dialect: Arc<Dialect>,
        tally: Tally,
        schema: SchemaRef,
        names: impl Iterator<Item = &'a str>,
        wanted: &[(usize, HiveType)],
    ) -> Self {
        let index = |column: usize| wanted.iter().position(|(wanted, _)| *wanted == column);
        let names: Vec<_> = names.enumerate().map(|(column, name)| (name.to_lowercase(), index(column))).collect();
        let columns: Vec<_> = wanted.iter().map(|(_, hive_type)| HiveColumnBuilder::new(hive_type)).collect();
        Self {
            parser: LineParser::new(Arc::clone(tally.file())),
            binary,
            dialect,
            tally,
            schema,
            found: vec![None; columns.len()],
            columns,
            numbered: names.iter().map(|(_, index)| *index).collect(),
            names: names.into_iter().collect(),
            rows: 0,
            text_len: 0,
            values: 0,
        }
    }
}

impl Rows for JsonRows {
    fn push(&mut self, line: &[u8], at: Line) -> Result<()> {
        let Self { parser, binary, dialect, tally, schema, columns, names, numbered, found, values, .. } = self;
        let tape = parser.parse(line, at)?;
        found.fill(None);
        for (key, value) in tape.rows().flat_map(|row| tape.entries(row)) {
            let key = tape.text(tape.node(key)).to_lowercase();
            let index = match names.get(&key) {
                Some(index) => *index,
                None => match key.strip_prefix("_col").and_then(|digits| digits.parse::<usize>().ok()) {
                    Some(column) => *numbered.get(column).ok_or_else(|| {
                        let problem = format!("the key {key:?} is that of no column: there are {}", numbered.len());
                        Error::content(FilePlace::new(tally.file(), at), problem)
                    })?,
                    None => None,
                },
            };
            // The last value of a repeated key counts.
            if let Some(index) = index {
                found[index] = Some(value);
            }
        }
        for ((column, value), field) in columns.iter_mut().zip(found).zip(schema.fields()) {
            let mut context = Context { dialect, tally, line: at, column: field.name(), values };
            append(column, &JsonValues { tape, binary: *binary }, *value, &mut context)?;
        }
        self.rows += 1;
        self.text_len += line.len();
        Ok(())
    }

    fn len(&self) -> usize {
        self.rows
    }

    fn size(&self) -> usize {
        self.text_len.saturating_add(self.values.saturating_mul(VALUE_LEN))
    }

    fn take(&mut self) -> Result<RecordBatch, DataFusionError> {
        let arrays = self.columns.iter_mut().map(HiveColumnBuilder::take).collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        (self.rows, self.text_len, self.values) = (0, 0, 0);
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?)
    }
}
