//! How JSON files are written.

use crate::csv::Types;
use crate::input_format::InputFormat;
use crate::text::{Compression, Encoding, Layout};

/// How JSON files are written and how their values become columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonOptions {
    /// The encoding of the text.
    pub encoding: Encoding,
    /// The compression; `None`: told from the content of each file.
    pub compression: Option<Compression>,
    /// What types the columns have.
    pub types: Types,
    /// How many objects of each file decide the types of the columns.
    pub infer_rows: usize,
    /// Whether an object may span lines; if not, a file can be read in parts. `None`: told from the first objects.
    pub newlines_in_values: Option<bool>,
}

impl Default for JsonOptions {
    fn default() -> Self {
        Self {
            encoding: Encoding::Utf8,
            compression: None,
            types: Types::Infer,
            infer_rows: 10_000,
            newlines_in_values: None,
        }
    }
}

impl JsonOptions {
    pub(super) fn layout(&self) -> Layout {
        let Self { compression, encoding, .. } = *self;
        Layout { format: InputFormat::Json, compression, encoding, terminator: b'\n' }
    }
}
