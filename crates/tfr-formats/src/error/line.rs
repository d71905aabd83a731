//! [`Line`]: a place in a text file.

use std::fmt;

/// Where in a text file a record starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Counted from 1.
    pub number: u64,
    /// The byte of the file from which lines were counted, if that is not the start.
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
