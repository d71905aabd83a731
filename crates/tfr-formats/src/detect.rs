//! Tells the format of a file from its content.

use std::fmt;
use std::io::Read;
use std::sync::Arc;

use flate2::read::{MultiGzDecoder, ZlibDecoder};
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use tfrecord_framing::HEADER_LEN;

use crate::error::{Error, ErrorKind, Result};
use crate::foreign::ForeignFormat;
use crate::text::{self, Compression};

/// A format that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum InputFormat {
    /// Apache Parquet.
    Parquet,
    /// Delimited text: CSV, TSV and their kin.
    Csv,
    /// TFRecord: records of `tf.train.Example`.
    TfRecord,
    /// Apache ORC.
    Orc,
    /// Apache Avro object container files.
    Avro,
    /// JSON: an object a line.
    Json,
    /// Arrow IPC, file or stream.
    Arrow,
    /// Text as Hive's LazySimpleSerDe writes it.
    HiveText,
    /// libsvm: a label and pairs of index and value a line.
    LibSvm,
}

impl InputFormat {
    /// The formats by the names that users know them by, first the one for messages about names.
    pub(crate) const NAMES: &[(&str, Self)] = &[
        ("parquet", Self::Parquet),
        ("csv", Self::Csv),
        ("tsv", Self::Csv),
        ("tfrecord", Self::TfRecord),
        ("orc", Self::Orc),
        ("avro", Self::Avro),
        ("json", Self::Json),
        ("arrow", Self::Arrow),
        ("hive-text", Self::HiveText),
        ("libsvm", Self::LibSvm),
        // Names that other systems have for them.
        ("textfile", Self::HiveText),
        ("jsonl", Self::Json),
        ("ndjson", Self::Json),
        ("svmlight", Self::LibSvm),
    ];

    /// Reads `parquet`, `csv`, `tsv`, `tfrecord`, `orc`, `avro`, `json`, `arrow`, `hive-text` or `libsvm`, whatever the case.
    pub fn parse(text: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(name, _)| text.eq_ignore_ascii_case(name)).map(|(_, format)| *format)
    }

    /// The name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parquet => "Parquet",
            Self::Csv => "CSV",
            Self::TfRecord => "TFRecord",
            Self::Orc => "ORC",
            Self::Avro => "Avro",
            Self::Json => "JSON",
            Self::Arrow => "Arrow IPC",
            Self::HiveText => "Hive text",
            Self::LibSvm => "libsvm",
        }
    }

    /// Whether its files are text, which may be compressed and in one of several encodings.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Self::Csv | Self::Json | Self::HiveText | Self::LibSvm)
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
    /// A format that has a magic number, or a record header whose checksum holds, compressed or not.
    Format(InputFormat),
    /// A format with a magic number that is not read.
    Unsupported(&'static str),
    /// Compressed bytes.
    Compressed(Compression),
    /// No magic number: text, for all one can see.
    Text,
}

/// How the formats that are read start.
const MAGIC: &[(&[u8], InputFormat)] = &[
    (b"PAR1", InputFormat::Parquet),
    (b"ORC", InputFormat::Orc),
    (b"Obj\x01", InputFormat::Avro),
    (b"ARROW1", InputFormat::Arrow),
    // The continuation marker of a stream's first message; no text, whatever its encoding, starts so.
    (b"\xff\xff\xff\xff", InputFormat::Arrow),
];

impl Content {
    /// How many bytes [`Self::of`] wants to see: enough to unpack the header of the first record.
    pub(crate) const LEN: usize = 4096;

    /// Reads magic numbers from the first bytes of a file.
    pub(crate) fn of(head: &[u8]) -> Self {
        if let Some((_, format)) = MAGIC.iter().find(|(magic, _)| head.starts_with(magic)) {
            // A text may begin so, and Hive's files have no ending to say what they are.
            let is_text =
                *format == InputFormat::Orc && head.iter().all(|byte| *byte >= b' ' || b"\t\r\n".contains(byte));
            return if is_text { Self::Text } else { Self::Format(*format) };
        }
        if let Some(foreign) = ForeignFormat::of(head) {
            return Self::Unsupported(foreign.name);
        }
        if crate::arrow::begins_stream(head) {
            return Self::Format(InputFormat::Arrow);
        }
        if begins_with_record(head) {
            return Self::Format(InputFormat::TfRecord);
        }
        Compression::detect(head).map_or(Self::Text, Self::Compressed)
    }

    pub(crate) fn describe(self) -> String {
        match self {
            Self::Format(format) => format.name().to_owned(),
            Self::Unsupported(name) => format!("that of {name}"),
            Self::Compressed(compression) => format!("{compression}-compressed"),
            Self::Text => "text (no magic number of another format at its start)".to_owned(),
        }
    }
}

/// The format of a text, by its first bytes after decompression: JSON starts with an object or an array of them, Hive puts `\x01` between
/// cells, the lines of libsvm are a label and pairs, and all else is delimited.
fn text_format(head: &[u8]) -> InputFormat {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let start = text.trim_ascii_start();
    // Objects may stand in an array.
    let start = start.strip_prefix(b"[").map_or(start, <[u8]>::trim_ascii_start);
    let object = start.strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
    if object.is_some_and(|object| matches!(object.first(), Some(b'"' | b'}'))) {
        return InputFormat::Json;
    }
    // A zero says that it is UTF-16 or UTF-32, where a one is half a character.
    match head.contains(&1) && !head.contains(&0) {
        true => InputFormat::HiveText,
        false if crate::libsvm::begins_so(text, head.len() < Content::LEN) => InputFormat::LibSvm,
        false => InputFormat::Csv,
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
/// The content is of another format than was asked for or than the name says; it is of a format that is not read, or has
/// zeros where a text in UTF-8 is to be (`takes_utf8`) and no format was asked for; a
/// named Parquet file is empty; the store fails. What is named TFRecord and looks like nothing known is left to the
/// reader, which says at which byte it is damaged.
pub async fn detect(
    store: &Arc<dyn ObjectStore>,
    file: &ObjectMeta,
    name: &str,
    asked: Option<InputFormat>,
    takes_utf8: bool,
) -> Result<InputFormat> {
    let head = head(store, file, name).await?;
    let content = Content::of(&head);
    let named = by_name(name);
    if head.is_empty() && asked.or(named).is_some_and(|format| !format.is_text() && format != InputFormat::TfRecord) {
        return Err(ErrorKind::EmptyFile { file: name.to_owned() }.into());
    }
    if let (Content::Unsupported(format), None) = (content, asked) {
        return Err(ErrorKind::UnsupportedFormat { file: name.to_owned(), format }.into());
    }
    if asked.is_none()
        && named.is_none()
        && let Some(foreign) = unread(store, file, name, content, &head).await
    {
        return Err(ErrorKind::UnsupportedFormat { file: name.to_owned(), format: foreign.name }.into());
    }
    if let Some(format) = text::unread_codec(name, &head).filter(|_| content == Content::Text) {
        return Err(ErrorKind::UnsupportedFormat { file: name.to_owned(), format }.into());
    }
    // Text in UTF-16 has zeros, too; with a byte order mark the reader names it.
    let has_mark = head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff");
    // What is called by the name of another format is told of that.
    let is_called_text = asked.is_none() && named.is_none_or(InputFormat::is_text);
    if content == Content::Text && is_called_text && takes_utf8 && !has_mark && head.contains(&0) {
        let format = "bytes that are no text, with a zero among them,";
        return Err(ErrorKind::UnsupportedFormat { file: name.to_owned(), format }.into());
    }
    let called = asked.or(named);
    let found = match content {
        Content::Format(format) => format,
        Content::Text | Content::Compressed(Compression::Gzip) if called == Some(InputFormat::TfRecord) => {
            InputFormat::TfRecord
        }
        Content::Unsupported(_) | Content::Compressed(_) | Content::Text => match called {
            // No text tells what sort it is; who calls it something knows.
            Some(format) if format.is_text() => format,
            _ => match content {
                Content::Compressed(compression) => {
                    text_format(&text::start(store, file, name, compression, Content::LEN).await)
                }
                _ => text_format(&head),
            },
        },
    };
    match (asked, named) {
        (Some(asked), _) if asked != found => {
            Err(ErrorKind::WrongFormat { file: name.to_owned(), expected: asked.name(), found: content.describe() }
                .into())
        }
        // Any text may be called `.txt` or even `.csv`; what is said to be of another kind is not.
        (None, Some(named)) if named != found && !(named.is_text() && found.is_text()) => {
            Err(ErrorKind::Misnamed { file: name.to_owned(), named: named.name(), found: content.describe() }.into())
        }
        _ => Ok(found),
    }
}

/// A format that is not read and that what is no format of a magic number is in, by its content without compression or by
/// the ending of its name.
async fn unread(
    store: &Arc<dyn ObjectStore>,
    file: &ObjectMeta,
    name: &str,
    content: Content,
    head: &[u8],
) -> Option<&'static ForeignFormat> {
    match content {
        Content::Text => ForeignFormat::by_ending(name, head),
        Content::Compressed(compression) => {
            let unpacked = text::start(store, file, name, compression, Content::LEN).await;
            ForeignFormat::of(&unpacked).or_else(|| ForeignFormat::by_ending(name, &unpacked))
        }
        Content::Format(_) | Content::Unsupported(_) => None,
    }
}

/// The format that the ending of a name stands for.
pub(crate) fn by_name(name: &str) -> Option<InputFormat> {
    let name = name.rsplit('/').next()?.to_ascii_lowercase();
    let mut parts = name
        .rsplit('.')
        .filter(|part| !matches!(*part, "gz" | "gzip" | "zlib" | "bz2" | "xz" | "zst" | "zstd" | "deflate"));
    let last = parts.next()?;
    // A name without an ending.
    parts.next()?;
    // `mnist.tfrecord-00000-of-00001`
    if last.starts_with("tfrecord") {
        return Some(InputFormat::TfRecord);
    }
    match last {
        "parquet" | "parq" | "pqt" => Some(InputFormat::Parquet),
        "csv" | "tsv" | "tab" => Some(InputFormat::Csv),
        "orc" => Some(InputFormat::Orc),
        "avro" => Some(InputFormat::Avro),
        "json" | "jsonl" | "ndjson" => Some(InputFormat::Json),
        "arrow" | "arrows" | "feather" | "ipc" => Some(InputFormat::Arrow),
        "libsvm" | "svm" | "svmlight" => Some(InputFormat::LibSvm),
        _ => None,
    }
}

/// What to say of a file that is not of the format `expected` at all, rather than damaged.
pub(crate) async fn other_format(
    store: &Arc<dyn ObjectStore>,
    file: &ObjectMeta,
    name: &str,
    expected: InputFormat,
) -> Option<Error> {
    let found = match Content::of(&head(store, file, name).await.ok()?) {
        Content::Format(found) if found == expected => return None,
        content => content.describe(),
    };
    Some(ErrorKind::WrongFormat { file: name.to_owned(), expected: expected.name(), found }.into())
}

/// How a text is written, by its first bytes; `None` if they do not tell, or are no text.
pub(crate) async fn text_of(
    store: &Arc<dyn ObjectStore>,
    file: &ObjectMeta,
    name: &str,
) -> Result<Option<InputFormat>> {
    let head = head(store, file, name).await?;
    let head = match Content::of(&head) {
        Content::Text => head.to_vec(),
        Content::Compressed(compression) => text::start(store, file, name, compression, Content::LEN).await,
        Content::Format(_) | Content::Unsupported(_) => return Ok(None),
    };
    Ok((!head.trim_ascii().is_empty()).then(|| text_format(&head)))
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
        assert_eq!(Content::of(b"PAR1\x15\x04"), Content::Format(InputFormat::Parquet));
        assert_eq!(Content::of(b"Obj\x01\x04"), Content::Format(InputFormat::Avro));
        assert_eq!(Content::of(b"\x1f\x8b\x08\0"), Content::Compressed(Compression::Gzip));
        assert_eq!(Content::of(b"a,b\n1,2\n"), Content::Text);
        assert_eq!(Content::of(b""), Content::Text);
        assert_eq!(Content::of(b"ORC\x1d\0\0\x0a"), Content::Format(InputFormat::Orc));
        assert_eq!(Content::of(b"ORCHID,height\r\nlady's slipper,40\n"), Content::Text);
    }

    #[test]
    fn records_are_told_from_other_compressed_files() -> Result<(), Box<dyn std::error::Error>> {
        use tfrecord_framing::{Compression as Codec, Level, RecordWriter};
        for codec in [Codec::None, Codec::Gzip, Codec::Zlib] {
            let mut writer = RecordWriter::with_compression(Vec::new(), codec, Level::default());
            writer.write_record(&[7; 100_000])?;
            let file = writer.finish()?;
            assert_eq!(
                Content::of(&file[..file.len().min(Content::LEN)]),
                Content::Format(InputFormat::TfRecord),
                "{codec}"
            );
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
