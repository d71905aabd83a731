//! [`Line`]: a position in a text file.

use std::fmt;

/// The line at which a record starts in a text file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// The line number, counted from 1.
    pub number: u64,
    /// The byte from which lines are counted, if not the start of the file.
    pub after_byte: Option<u64>,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.number)?;
        match self.after_byte {
            Some(byte) if byte > 0 => write!(f, " after byte {byte}"),
            _ => Ok(()),
        }
    }
}
