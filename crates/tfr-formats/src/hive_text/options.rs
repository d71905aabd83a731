//! The dialect of Hive text files.

use super::serdes::{HiveSerde, JsonBinary, OpenCsvOptions};
use super::types::HiveColumns;
use crate::text::{Compression, Encoding};

/// The dialect of Hive text files and their columns.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HiveTextOptions {
    /// The cell delimiter (`field.delim`): one byte, or several as in Hive's MultiDelimitSerDe.
    pub delimiter: Vec<u8>,
    /// Between elements of an array, entries of a map and fields of a struct (`collection.delim`).
    pub collection_delimiter: u8,
    /// Between a map's key and its value (`mapkey.delim`).
    pub map_key_delimiter: u8,
    /// Escapes the next byte (`escape.delim`).
    pub escape: Option<u8>,
    /// The text that represents null (`serialization.null.format`).
    pub null: String,
    /// Number of header lines per file that are not rows (`skip.header.line.count`).
    pub skip_header: usize,
    /// Number of footer lines per file that are not rows (`skip.footer.line.count`).
    pub skip_footer: usize,
    /// The encoding of the text.
    pub encoding: Encoding,
    /// The compression; `None`: detected from the content of each file.
    pub compression: Option<Compression>,
    /// The columns of the files; `None`: texts `_col0`, `_col1` and so on, as many as in the first lines.
    pub columns: Option<HiveColumns>,
    /// How cells that do not fit are treated.
    pub on_error: OnError,
    /// What a line is.
    pub serde: HiveSerde,
    /// The characters of OpenCSVSerde.
    pub open_csv: OpenCsvOptions,
    /// How JsonSerDe reads bytes (`json.binary.format`).
    pub json_binary: JsonBinary,
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
            serde: HiveSerde::default(),
            open_csv: OpenCsvOptions::default(),
            json_binary: JsonBinary::default(),
        }
    }
}

/// How a cell that does not fit its column is treated, and a line with more or fewer cells than columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// As in Hive, with a warning: the value is null, or the text or number is cut. Missing cells are null, and extra
    /// ones are ignored.
    #[default]
    Null,
    /// An error.
    Error,
}
