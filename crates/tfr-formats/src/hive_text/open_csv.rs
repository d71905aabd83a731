//! [`OpenCsvRows`]: lines of OpenCSVSerde, whose cells are texts.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use datafusion_common::DataFusionError;

use super::column::{HiveColumnBuilder, Values};
use super::serdes::OpenCsvOptions;
use super::tally::Tally;
use super::types::HiveType;
use crate::error::{ErrorKind, Line, Result};
use crate::text::rows::Rows;

/// The rows of a file.
pub(super) struct OpenCsvRows {
    options: OpenCsvOptions,
    tally: Tally,
    /// The requested columns.
    schema: SchemaRef,
    /// The expected number of cells per line.
    width: usize,
    /// The requested columns, each with the index of its cell in a line.
    columns: Vec<(usize, HiveColumnBuilder)>,
    cells: LineCells,
    rows: usize,
    /// Bytes of the lines since the last batch.
    text_len: usize,
}

/// The cells of a line.
#[derive(Debug, Default)]
struct LineCells {
    text: String,
    cells: Vec<Range<usize>>,
}

impl OpenCsvRows {
    /// Creates a builder for the columns of `schema`, each of which is a cell of the line.
    pub(super) fn new(
        options: OpenCsvOptions,
        tally: Tally,
        schema: SchemaRef,
        width: usize,
        cells: &[(usize, HiveType)],
    ) -> Self {
        let columns = cells.iter().map(|(cell, hive_type)| (*cell, HiveColumnBuilder::new(hive_type))).collect();
        Self { options, tally, schema, width, columns, cells: LineCells::default(), rows: 0, text_len: 0 }
    }
}

impl Rows for OpenCsvRows {
    fn push(&mut self, line: &[u8], at: Line) -> Result<()> {
        self.rows += 1;
        self.text_len += line.len();
        // Only the number of rows is requested.
        if self.columns.is_empty() {
            return Ok(());
        }
        let line = std::str::from_utf8(line).map_err(|_| ErrorKind::Encoding {
            file: self.tally.file().to_string(),
            found_at: at.to_string(),
            encoding: "UTF-8",
        })?;
        self.cells.split(line, self.options);
        for (cell, column) in &mut self.columns {
            match (self.cells.get(*cell), &mut column.values) {
                (Some(text), Values::Text(_, builder)) => builder.append_value(text),
                _ => column.append_null(),
            }
        }
        self.tally.width(self.cells.cells.len(), self.width, at)
    }

    fn len(&self) -> usize {
        self.rows
    }

    fn size(&self) -> usize {
        self.text_len
    }

    fn take(&mut self) -> Result<RecordBatch, DataFusionError> {
        let arrays = self.columns.iter_mut().map(|(_, column)| column.take()).collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        (self.rows, self.text_len) = (0, 0);
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?)
    }
}

impl OpenCsvOptions {
    /// Returns the number of cells in a line.
    pub(super) fn cells(self, line: &[u8]) -> usize {
        let mut cells = LineCells::default();
        cells.split(&String::from_utf8_lossy(line), self);
        cells.cells.len()
    }
}

impl LineCells {
    fn get(&self, cell: usize) -> Option<&str> {
        self.text.get(self.cells.get(cell)?.clone())
    }

    /// Splits a line as version 2.3 of the library opencsv does, which Hive uses.
    ///
    /// An escape is removed wherever it is, but protects a quote or another escape only within quotes or behind the first
    /// character of a cell. A quote in the middle of a cell stays in its text, and nevertheless opens or closes a part in
    /// which the separator has no meaning. A cell whose quotes are open at the end of the line is lost.
    fn split(&mut self, line: &str, options: OpenCsvOptions) {
        let OpenCsvOptions { separator, quote, escape } = options;
        let (separator, quote, escape) = (char::from(separator), char::from(quote), char::from(escape));
        self.text.clear();
        self.cells.clear();
        if line.is_empty() {
            return;
        }
        let (mut start, mut in_quotes, mut in_cell) = (0, false, false);
        let mut before = None;
        // The number of UTF-16 units before the character.
        let mut units = 0;
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            let next = chars.peek().copied();
            let (at, previous) = (units, before.replace(c));
            units += c.len_utf16();
            let is_protected = in_quotes || in_cell;
            if c == escape {
                if let Some(next) = next.filter(|next| is_protected && (*next == quote || *next == escape)) {
                    self.text.push(next);
                    before = chars.next();
                    units += 1;
                }
            } else if c == quote {
                if is_protected && next == Some(quote) {
                    self.text.push(quote);
                    before = chars.next();
                    units += 1;
                } else {
                    let is_inner = at > 2 && previous != Some(separator) && next.is_some_and(|next| next != separator);
                    let is_blank = self.text.len() > start && self.text[start..].chars().all(is_white_space);
                    match is_inner {
                        true if is_blank => self.text.truncate(start),
                        true => self.text.push(quote),
                        false => {}
                    }
                    in_quotes = !in_quotes;
                }
                in_cell = !in_cell;
            } else if c == separator && !in_quotes {
                self.cells.push(start..self.text.len());
                start = self.text.len();
                in_cell = false;
            } else {
                self.text.push(c);
                in_cell = true;
            }
        }
        if !in_quotes {
            self.cells.push(start..self.text.len());
        }
    }
}

/// Whether Java takes a character for white space.
fn is_white_space(c: char) -> bool {
    match c {
        '\u{1c}'..='\u{1f}' => true,
        '\u{85}' | '\u{a0}' | '\u{2007}' | '\u{202f}' => false,
        c => c.is_whitespace(),
    }
}
