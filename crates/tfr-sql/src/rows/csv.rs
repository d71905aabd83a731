//! Formats rows as comma-separated values. An empty string is `""`, a null is an empty cell.

use arrow::array::Array as _;
use arrow::buffer::NullBuffer;
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use memchr::{memchr, memchr3};

/// Appends the column names.
pub fn write_header(schema: &Schema, out: &mut Vec<u8>) {
    // Readers take this character for a byte order mark if it is the first one. So it is written twice.
    if schema.fields().first().is_some_and(|field| field.name().starts_with('\u{feff}')) {
        out.extend("\u{feff}".bytes());
    }
    for (i, field) in schema.fields().iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_cell(field.name(), out);
    }
    out.push(b'\n');
}

/// Appends a record for each row of `batch`. Lists and structs are written as in the table format.
pub fn write(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    let options = FormatOptions::default();
    let formatters: Vec<_> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
        .collect::<Result<_, _>>()?;
    // A null may be a value of a dictionary.
    let nulls: Vec<Option<NullBuffer>> = batch.columns().iter().map(|column| column.logical_nulls()).collect();
    // Readers skip an empty line, so the row would be lost.
    let is_sole = batch.num_columns() == 1;
    let mut text = String::new();
    for row in 0..batch.num_rows() {
        for (i, (formatter, nulls)) in formatters.iter().zip(&nulls).enumerate() {
            if i > 0 {
                out.push(b',');
            }
            let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            if !is_null || is_sole {
                // A null has no text.
                text.clear();
                formatter.value(row).write(&mut text)?;
                write_cell(&text, out);
            }
        }
        out.push(b'\n');
    }
    Ok(())
}

fn write_cell(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    let is_plain = memchr3(b',', b'"', b'\n', bytes).is_none() && memchr(b'\r', bytes).is_none();
    if is_plain && !text.is_empty() {
        out.extend_from_slice(bytes);
        return;
    }
    out.push(b'"');
    for byte in text.bytes() {
        if byte == b'"' {
            out.push(byte);
        }
        out.push(byte);
    }
    out.push(b'"');
}
