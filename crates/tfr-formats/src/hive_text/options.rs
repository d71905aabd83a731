//! The dialect of Hive text files.

use super::types::HiveColumns;
use crate::text::{Compression, Encoding};

/// The dialect of Hive text files and what their columns are.
#[derive(Debug, Clone, PartialEq)]
pub struct HiveTextOptions {
    /// Between cells (`field.delim`): one byte, or several as for Hive's MultiDelimitSerDe. Then the last column takes what
    /// follows, whatever is in it.
    pub delimiter: Vec<u8>,
    /// Between the elements of an array, the entries of a map, the fields of a struct (`collection.delim`).
    pub collection_delimiter: u8,
    /// Between a key of a map and its value (`mapkey.delim`).
    pub map_key_delimiter: u8,
    /// Takes the meaning from the next byte (`escape.delim`).
    pub escape: Option<u8>,
    /// The text that stands for null (`serialization.null.format`).
    pub null: String,
    /// How many lines at the start of each file are no rows (`skip.header.line.count`).
    pub skip_header: usize,
    /// How many lines at the end of each file are no rows (`skip.footer.line.count`).
    pub skip_footer: usize,
    /// The encoding of the text.
    pub encoding: Encoding,
    /// The compression; `None`: told from the content of each file.
    pub compression: Option<Compression>,
    /// The columns of the files; `None`: texts `_col0`, `_col1` and so on, as many as the first lines have.
    pub columns: Option<HiveColumns>,
    /// What to make of cells that do not fit.
    pub on_error: OnError,
}

impl Default for HiveTextOptions {
    fn default() -> Self {
        Self {
            delimiter: vec![1],
            collection_delimiter: 2,
            map_key_delimiter: 3,
            escape: None,
            null: r"\N".to_owned(),
            skip_header: 0,
            skip_footer: 0,
            encoding: Encoding::Utf8,
            compression: None,
            columns: None,
            on_error: OnError::Null,
        }
    }
}

/// What to make of a cell that does not fit its column, and of a line with more or fewer cells than there are columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// What Hive makes of it, with a warning: null, or what is left when the text or number is cut; missing cells are
    /// null, further ones are passed over.
    #[default]
    Null,
    /// An error.
    Error,
}
