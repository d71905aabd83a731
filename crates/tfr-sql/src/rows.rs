//! [`RowWriter`]: converts record batches to text or an Arrow stream, batch by batch.

mod csv;
mod json;
mod stream;

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow::util::pretty::pretty_format_batches_with_schema;
use tfr_arrow::text::find_without_text;

use self::stream::ArrowRows;
use crate::cli::RowFormat;

/// Rows of one aligned table. Widths must be known before the first line, so a longer result is printed as several
/// tables, to bound the memory used.
const TABLE_ROWS: usize = 1000;

/// Writes rows in one format. Each call appends whole lines, or whole messages of an Arrow stream.
pub struct RowWriter {
    format: RowFormat,
    schema: SchemaRef,
    rows: u64,
    /// Rows that do not fill a table yet.
    table: Vec<RecordBatch>,
    /// The stream, once it has begun.
    stream: Option<ArrowRows>,
}

impl RowWriter {
    /// Creates a writer of rows with `schema`.
    pub fn new(format: RowFormat, schema: SchemaRef) -> Self {
        Self { format, schema, rows: 0, table: Vec::new(), stream: None }
    }

    /// Returns the number of rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Appends what readers need before the first row: the schema of an Arrow stream.
    pub fn begin(&mut self, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        if self.format == RowFormat::Arrow && self.stream.is_none() {
            self.stream.insert(ArrowRows::new(&self.schema)?).drain(out);
        }
        Ok(())
    }

    /// Appends `batch` to `out`.
    ///
    /// # Errors
    /// If a value has no text representation: a [`NoTextError`](tfr_arrow::text::NoTextError).
    pub fn write(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.begin(out)?;
        if let Some(stream) = &mut self.stream {
            self.rows += batch.num_rows() as u64;
            stream.write(batch)?;
            stream.drain(out);
            return Ok(());
        }
        for (field, column) in self.schema.fields().iter().zip(batch.columns()) {
            if let Some(found) = find_without_text(column) {
                return Err(ArrowError::ExternalError(Box::new(found.in_column(field.name(), self.rows))));
            }
        }
        match self.format {
            // Written above.
            RowFormat::Arrow => {}
            RowFormat::Table => self.write_table(batch, out)?,
            RowFormat::Csv => {
                if self.rows == 0 {
                    csv::write_header(&self.schema, out);
                }
                csv::write(batch, out)?;
            }
            RowFormat::Jsonl => json::write_lines(batch, out)?,
            RowFormat::Json => {
                let mut lines = Vec::new();
                json::write_lines(batch, &mut lines)?;
                for (i, object) in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).enumerate() {
                    out.extend_from_slice(if self.rows == 0 && i == 0 { b"[" } else { b",\n " });
                    out.extend_from_slice(object);
                }
            }
            RowFormat::Markdown => {
                if self.rows == 0 {
                    write_markdown_header(&self.schema, out);
                }
                write_markdown(batch, out)?;
            }
        }
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Appends what is left: the last table, the end of the array or stream, or the header of an empty result.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        self.begin(out)?;
        if let Some(stream) = &mut self.stream {
            stream.finish()?;
            stream.drain(out);
            return Ok(());
        }
        match self.format {
            RowFormat::Table if self.rows == 0 || !self.table.is_empty() => {
                flush_table(&self.schema, &mut self.table, out)
            }
            RowFormat::Csv if self.rows == 0 => {
                csv::write_header(&self.schema, out);
                Ok(())
            }
            RowFormat::Markdown if self.rows == 0 => {
                write_markdown_header(&self.schema, out);
                Ok(())
            }
            RowFormat::Json => {
                out.extend_from_slice(if self.rows == 0 { b"[]\n" } else { b"]\n" });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn write_table(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        let mut start = 0;
        while start < batch.num_rows() {
            let held: usize = self.table.iter().map(RecordBatch::num_rows).sum();
            let len = (TABLE_ROWS - held).min(batch.num_rows() - start);
            self.table.push(batch.slice(start, len));
            start += len;
            if held + len == TABLE_ROWS {
                flush_table(&self.schema, &mut self.table, out)?;
            }
        }
        Ok(())
    }
}

fn flush_table(schema: &SchemaRef, table: &mut Vec<RecordBatch>, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    let text = pretty_format_batches_with_schema(Arc::clone(schema), table)?;
    out.extend_from_slice(format!("{text}\n").as_bytes());
    table.clear();
    Ok(())
}

fn write_markdown_header(schema: &Schema, out: &mut Vec<u8>) {
    let mut names = String::from("|");
    let mut rules = String::from("|");
    for field in schema.fields() {
        names.push_str(&format!(" {} |", markdown_cell(field.name())));
        rules.push_str(if field.data_type().is_numeric() { "---:|" } else { "---|" });
    }
    out.extend_from_slice(format!("{names}\n{rules}\n").as_bytes());
}

fn write_markdown(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    let options = FormatOptions::default();
    let formatters: Vec<_> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
        .collect::<Result<_, _>>()?;
    let mut line = String::new();
    for row in 0..batch.num_rows() {
        line.clear();
        line.push('|');
        for formatter in &formatters {
            // Writing into a string does not fail.
            let _ = write!(line, " {} |", markdown_cell(&formatter.value(row).try_to_string()?));
        }
        line.push('\n');
        out.extend_from_slice(line.as_bytes());
    }
    Ok(())
}

/// Escapes pipes and line ends, which would end a cell or the table.
fn markdown_cell(text: &str) -> String {
    text.replace('|', "\\|").replace("\r\n", "<br>").replace(['\n', '\r'], "<br>")
}

#[cfg(test)]
mod tests;
