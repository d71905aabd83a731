//! Options for JSON files.

use crate::csv::Types;
use crate::input_format::InputFormat;
use crate::text::{Compression, Encoding, TextLayout};

/// Options for JSON files and for the conversion of their values to columns.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JsonOptions {
    /// The encoding of the text.
    pub encoding: Encoding,
    /// The compression; `None`: detected from the content of each file.
    pub compression: Option<Compression>,
    /// The types of the columns.
    pub types: Types,
    /// Number of objects of each file from which types are inferred.
    pub infer_rows: usize,
    /// Whether an object may span lines; if not, a file can be read in parts. `None`: detected from the first objects.
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
    pub(super) fn layout(&self) -> TextLayout {
        let Self { compression, encoding, .. } = *self;
        TextLayout { format: InputFormat::Json, compression, encoding, terminator: b'\n' }
    }
}
