//! [`FilePlace`]: a position in a file of a table, for messages.

use std::fmt;

use super::Line;

/// A position in a file of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePlace {
    /// The file.
    pub file: String,
    /// The position in it.
    pub within: Within,
    /// The column, or the path to a part of it.
    pub column: Option<String>,
}

/// A position in a file, in the terms of its format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Within {
    /// No position is known, or the footer.
    File,
    /// A line, or the one in which a record starts.
    Line(Line),
    /// A character of a line, counted from 1.
    Character(Line, u64),
    /// A byte of a line, counted from 1.
    LineByte(Line, usize),
    /// A row.
    Row {
        /// The row, counted from 0.
        row: u64,
        /// The byte from which rows are counted, if not the start of the file.
        after_byte: Option<u64>,
    },
    /// The byte at which a message or a block begins.
    Byte(u64),
    /// A stripe of an ORC file.
    Stripe {
        /// The stripe, counted from 0.
        stripe: usize,
        /// The byte at which it begins.
        byte: u64,
    },
    /// A record of a block of an Avro file.
    Record {
        /// The record in its block, counted from 0.
        record: u64,
        /// The byte at which the block begins.
        block: u64,
    },
}

impl FilePlace {
    pub(crate) fn new(file: &str, within: impl Into<Within>) -> Self {
        Self { file: file.to_owned(), within: within.into(), column: None }
    }

    pub(crate) fn row(file: &str, row: u64) -> Self {
        Self::new(file, Within::Row { row, after_byte: None })
    }

    pub(crate) fn column(self, column: &str) -> Self {
        Self { column: Some(column.to_owned()), ..self }
    }
}

impl From<Line> for Within {
    fn from(line: Line) -> Self {
        Self::Line(line)
    }
}

impl fmt::Display for FilePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        match self.within {
            Within::File => Ok(()),
            Within::Line(line) => write!(f, ": {line}"),
            Within::Character(line, character) => write!(f, ": {line}, character {character}"),
            Within::LineByte(line, byte) => write!(f, ": {line}, byte {byte}"),
            Within::Row { row, after_byte: None } => write!(f, ": row {row}"),
            Within::Row { row, after_byte: Some(byte) } => write!(f, ": row {row} after byte {byte}"),
            Within::Byte(byte) => write!(f, ": at byte {byte}"),
            Within::Stripe { stripe, byte } => write!(f, ": stripe {stripe} at byte {byte}"),
            Within::Record { record, block } => write!(f, ": record {record} of the block at byte {block}"),
        }?;
        self.column.as_ref().map_or(Ok(()), |column| write!(f, ": column \"{column}\""))
    }
}
