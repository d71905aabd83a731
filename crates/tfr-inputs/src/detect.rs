//! Tells the format of a file from its content.

use std::fmt;
use std::io::Read;
use std::sync::Arc;

use flate2::read::{MultiGzDecoder, ZlibDecoder};
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use tfrecord_framing::HEADER_LEN;

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
    /// TFRecord: records of `tf.train.Example`.
    TfRecord,
}

impl InputFormat {
    /// Reads `parquet`, `csv`, `tsv` or `tfrecord`, whatever the case.
    pub fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "parquet" => Some(Self::Parquet),
            "csv" | "tsv" => Some(Self::Csv),
            "tfrecord" => Some(Self::TfRecord),
            _ => None,
        }
    }

    /// The name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parquet => "Parquet",
            Self::Csv => "CSV",
            Self::TfRecord => "TFRecord",
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
    /// A record header whose checksum holds, compressed or not.
    TfRecord,
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
    /// How many bytes [`Self::of`] wants to see: enough to unpack the header of the first record.
    pub(crate) const LEN: usize = 4096;

    /// Reads magic numbers from the first bytes of a file.
    pub(crate) fn of(head: &[u8]) -> Self {
        if head.starts_with(b"PAR1") {
            return Self::Parquet;
        }
        if let Some((_, name)) = UNSUPPORTED.iter().find(|(magic, _)| head.starts_with(magic)) {
            return Self::Unsupported(name);
        }
        if begins_with_record(head) {
            return Self::TfRecord;
        }
        Compression::detect(head).map_or(Self::Text, Self::Compressed)
    }

    pub(crate) fn describe(self) -> String {
        match self {
            Self::Parquet => "Parquet".to_owned(),
            Self::TfRecord => "TFRecord".to_owned(),
            Self::Unsupported(name) => format!("that of {name}"),
            Self::Compressed(compression) => format!("{compression}-compressed"),
            Self::Text => "not (no Parquet magic number at its start)".to_owned(),
        }
    }
}

/// Whether a file begins with a record header, as it is or compressed in one of the two ways that TFRecord knows.
fn begins_with_record(head: &[u8]) -> bool {
    use tfrecord_framing::Compression::{Gzip, None, Zlib};
    let unpacked = |reader: &mut dyn Read| {
        let mut start = [0; HEADER_LEN];
        // What follows may be cut off or damaged.
        reader.read_exact(&mut start).is_ok() && is_record_header(&start)
    };
    match tfrecord_framing::Compression::detect(head) {
        Some(None) => is_record_header(head),
        Some(Gzip) => unpacked(&mut MultiGzDecoder::new(head)),
        Some(Zlib) => unpacked(&mut ZlibDecoder::new(head)),
        _ => false,
    }
}

/// Whether the length that a record begins with matches its checksum. By chance it does once in 2^32 files.
fn is_record_header(head: &[u8]) -> bool {
    head.len() >= HEADER_LEN && tfrecord_framing::Compression::detect(head) == Some(tfrecord_framing::Compression::None)
}

/// The format of a file: what was asked for, else what its content says, with the name as a second witness.
///
/// # Errors
/// The content is of another format than was asked for or than the name says; it is of a format that is not read; a
/// named Parquet file is empty; the store fails. What is named TFRecord and looks like nothing known is left to the
/// reader, which says at which byte it is damaged.
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
    let called_records = asked.or(named) == Some(InputFormat::TfRecord);
    let found = match content {
        Content::Parquet => InputFormat::Parquet,
        Content::TfRecord => InputFormat::TfRecord,
        Content::Text | Content::Compressed(Compression::Gzip) if called_records => InputFormat::TfRecord,
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
    let name = name.rsplit('/').next()?.to_ascii_lowercase();
    let mut parts = name.rsplit('.').filter(|part| !matches!(*part, "gz" | "gzip" | "zlib"));
    let last = parts.next()?;
    // `mnist.tfrecord-00000-of-00001`
    if last.starts_with("tfrecord") && parts.next().is_some() {
        return Some(InputFormat::TfRecord);
    }
    match last {
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
    fn records_are_told_from_other_compressed_files() -> Result<(), Box<dyn std::error::Error>> {
        use tfrecord_framing::{Compression as Codec, Level, RecordWriter};
        for codec in [Codec::None, Codec::Gzip, Codec::Zlib] {
            let mut writer = RecordWriter::with_compression(Vec::new(), codec, Level::default());
            writer.write_record(&[7; 100_000])?;
            let file = writer.finish()?;
            assert_eq!(Content::of(&file[..file.len().min(Content::LEN)]), Content::TfRecord, "{codec}");
        }
        let mut text = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut text, b"a,b\n1,2\n3,4\n5,6\n")?;
        assert_eq!(Content::of(&text.finish()?), Content::Compressed(Compression::Gzip));
        // A text that begins like a zlib stream.
        assert_eq!(Content::of(b"x^y,z\n1,2\n3,4\n5,6\n"), Content::Text);
        Ok(())
    }

    #[test]
    fn endings() {
        assert_eq!(by_name("x/part-0.PARQUET"), Some(InputFormat::Parquet));
        assert_eq!(by_name("x.parquet/000000_0"), None);
        assert_eq!(by_name("a.tsv"), Some(InputFormat::Csv));
        for name in ["x/a.tfrecord", "a.TFRecords", "a.tfrecord.gz", "train.tfrecord-00003-of-00016", "a.tfrecord.zlib"]
        {
            assert_eq!(by_name(name), Some(InputFormat::TfRecord), "{name}");
        }
        assert_eq!(by_name("x.tfrecord/tfrecord"), None);
    }
}
