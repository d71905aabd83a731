//! Tells the format of a file from its content.

use std::fmt;
use std::sync::Arc;

use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

use crate::csv::Compression;
use crate::error::{ErrorKind, Result};

/// A format that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InputFormat {
    /// Apache Parquet.
    Parquet,
    /// Delimited text: CSV, TSV and their kin.
    Csv,
}

impl InputFormat {
    /// Reads `parquet`, `csv` or `tsv`, whatever the case.
    pub fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "parquet" => Some(Self::Parquet),
            "csv" | "tsv" => Some(Self::Csv),
            _ => None,
        }
    }

    /// The name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parquet => "Parquet",
            Self::Csv => "CSV",
        }
    }
}

impl fmt::Display for InputFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the first bytes of a file say it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// `PAR1` at the start.
    Parquet,
    /// A format with a magic number that is not read.
    Unsupported(&'static str),
    /// Compressed bytes.
    Compressed(Compression),
    /// No magic number: text, for all one can see.
    Text,
}

/// How formats start that would pass for text or garbage otherwise.
const UNSUPPORTED: &[(&[u8], &str)] = &[
    // Apache Parquet, Encryption.md: files with an encrypted footer.
    (b"PARE", "encrypted Parquet files"),
    // As every writer of JSON lines starts; a CSV file would have to name its first column so.
    (b"{\"", "JSON files"),
    (b"ARROW1", "Arrow IPC files"),
    (b"FEA1", "Feather V1 files"),
    (b"Obj\x01", "Avro files"),
    (b"ORC", "ORC files"),
    (b"SEQ\x06", "Hadoop sequence files"),
    (b"PK\x03\x04", "zip archives"),
    (b"\x89HDF\r\n\x1a\n", "HDF5 files"),
    (b"SQLite format 3\0", "SQLite databases"),
    (b"\x89PNG\r\n\x1a\n", "PNG images as a table"),
    (b"%PDF-", "PDF documents"),
];

impl Content {
    /// How many bytes [`Self::of`] wants to see.
    pub(crate) const LEN: usize = 16;

    /// Reads magic numbers from the first bytes of a file.
    pub(crate) fn of(head: &[u8]) -> Self {
        if head.starts_with(b"PAR1") {
            return Self::Parquet;
        }
        if let Some((_, name)) = UNSUPPORTED.iter().find(|(magic, _)| head.starts_with(magic)) {
            return Self::Unsupported(name);
        }
        Compression::detect(head).map_or(Self::Text, Self::Compressed)
    }

    pub(crate) fn describe(self) -> String {
        match self {
            Self::Parquet => "Parquet".to_owned(),
            Self::Unsupported(name) => format!("that of {name}"),
            Self::Compressed(compression) => format!("{compression}-compressed"),
            Self::Text => "not (no Parquet magic number at its start)".to_owned(),
        }
    }
}

/// The format of a file: what was asked for, else what its content says, with the name as a second witness.
///
/// # Errors
/// The content is of another format than was asked for or than the name says; it is of a format that is not read; a
/// named Parquet file is empty; the store fails.
pub async fn detect(
    store: &Arc<dyn ObjectStore>,
    file: &ObjectMeta,
    name: &str,
    asked: Option<InputFormat>,
) -> Result<InputFormat> {
    let head = head(store, file, name).await?;
    let content = Content::of(&head);
    let named = by_name(name);
    if head.is_empty() && (asked == Some(InputFormat::Parquet) || named == Some(InputFormat::Parquet)) {
        return Err(ErrorKind::EmptyFile { file: name.to_owned() }.into());
    }
    let by_content = match content {
        Content::Unsupported(format) => Some(format),
        _ => None,
    };
    let unsupported = by_content.or_else(|| unsupported_by_name(name)).filter(|_| asked.is_none());
    if let Some(format) = unsupported {
        return Err(ErrorKind::UnsupportedFormat { file: name.to_owned(), format }.into());
    }
    let found = match content {
        Content::Parquet => InputFormat::Parquet,
        Content::Unsupported(_) | Content::Compressed(_) | Content::Text => InputFormat::Csv,
    };
    match (asked, named) {
        (Some(asked), _) if asked != found => {
            Err(ErrorKind::WrongFormat { file: name.to_owned(), expected: asked.name(), found: content.describe() }
                .into())
        }
        (None, Some(named)) if named != found => {
            Err(ErrorKind::Misnamed { file: name.to_owned(), named: named.name(), found: content.describe() }.into())
        }
        _ => Ok(found),
    }
}

/// The format that the ending of a name stands for.
fn by_name(name: &str) -> Option<InputFormat> {
    let mut parts = name.rsplit('/').next()?.rsplit('.');
    let last = parts.next()?;
    match last.to_ascii_lowercase().as_str() {
        "parquet" | "parq" | "pqt" => Some(InputFormat::Parquet),
        "csv" | "tsv" | "tab" | "txt" => Some(InputFormat::Csv),
        _ => None,
    }
}

/// Formats without a magic number that pass for text, by the ending of the name.
fn unsupported_by_name(name: &str) -> Option<&'static str> {
    let (_, ending) = name.rsplit('/').next()?.rsplit_once('.')?;
    match ending.to_ascii_lowercase().as_str() {
        "json" | "jsonl" | "ndjson" => Some("JSON files"),
        "tfrecord" | "tfrecords" => Some("TFRecord files"),
        "libsvm" | "svm" => Some("libsvm files"),
        _ => None,
    }
}

/// The first bytes of a file.
pub(crate) async fn head(store: &Arc<dyn ObjectStore>, file: &ObjectMeta, name: &str) -> Result<bytes::Bytes> {
    if file.size == 0 {
        return Ok(bytes::Bytes::new());
    }
    let end = file.size.min(Content::LEN as u64);
    let head = store.get_range(&file.location, 0..end).await;
    head.map_err(|error| ErrorKind::Read { file: name.to_owned(), source: error.into() }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magic_numbers() {
        assert_eq!(Content::of(b"PAR1\x15\x04"), Content::Parquet);
        assert_eq!(Content::of(b"Obj\x01\x04"), Content::Unsupported("Avro files"));
        assert_eq!(Content::of(b"\x1f\x8b\x08\0"), Content::Compressed(Compression::Gzip));
        assert_eq!(Content::of(b"a,b\n1,2\n"), Content::Text);
        assert_eq!(Content::of(b""), Content::Text);
    }

    #[test]
    fn endings() {
        assert_eq!(by_name("x/part-0.PARQUET"), Some(InputFormat::Parquet));
        assert_eq!(by_name("x.parquet/000000_0"), None);
        assert_eq!(by_name("a.tsv"), Some(InputFormat::Csv));
    }
}
