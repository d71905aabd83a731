//! [`Content`]: the kind of a file, detected from its first bytes.

use std::io::Read;
use std::sync::Arc;

use flate2::read::{MultiGzDecoder, ZlibDecoder};
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use tfrecord_framing::{Container, HEADER_LEN};

use crate::arrow::message::begins_stream;
use crate::error::{Error, ErrorKind, Result};
use crate::foreign::{ForeignFormat, UnsupportedFormat};
use crate::input_format::InputFormat;
use crate::text::compression::Compression;

/// The kind of a file, detected from its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// A format with a magic number, or with a record header whose checksum matches, compressed or not.
    Format(InputFormat),
    /// A format that has a magic number but is not supported.
    Unsupported(UnsupportedFormat),
    /// Compressed bytes.
    Compressed(Compression),
    /// No magic number: presumably text.
    Text,
}

/// Magic numbers of the supported formats.
const MAGIC: &[(&[u8], InputFormat)] = &[
    (b"PAR1", InputFormat::Parquet),
    (b"ORC", InputFormat::Orc),
    (b"Obj\x01", InputFormat::Avro),
    (b"ARROW1", InputFormat::Arrow),
    // The continuation marker of a stream's first message. No text begins with it, in any encoding.
    (b"\xff\xff\xff\xff", InputFormat::Arrow),
];

impl Content {
    /// Number of bytes that [`Self::of`] needs: enough to unpack the header of the first record.
    pub(crate) const LEN: usize = 4096;

    /// Detects the kind from the first bytes of a file.
    pub(crate) fn of(head: &[u8]) -> Self {
        if let Some((_, format)) = MAGIC.iter().find(|(magic, _)| head.starts_with(magic)) {
            // A text may begin with "ORC", and Hive's files have no extension that would identify them.
            let is_text =
                *format == InputFormat::Orc && head.iter().all(|byte| *byte >= b' ' || b"\t\r\n".contains(byte));
            return if is_text { Self::Text } else { Self::Format(*format) };
        }
        if let Some(foreign) = ForeignFormat::of(head) {
            return Self::Unsupported(foreign.format);
        }
        if begins_stream(head) {
            return Self::Format(InputFormat::Arrow);
        }
        if Container::detect(head) == Some(Container::ArrayRecord) {
            return Self::Format(InputFormat::ArrayRecord);
        }
        if begins_with_record(head) {
            return Self::Format(InputFormat::TfRecord);
        }
        Compression::detect(head).map_or(Self::Text, Self::Compressed)
    }

    pub(crate) fn describe(self) -> String {
        match self {
            Self::Format(format) => format.name().to_owned(),
            Self::Unsupported(format) => format!("that of {format}"),
            Self::Compressed(compression) => format!("{compression}-compressed"),
            Self::Text => "text (no magic number of another format at its start)".to_owned(),
        }
    }
}

/// Whether a file begins with a TFRecord header, uncompressed or in one of TFRecord's two compressions.
fn begins_with_record(head: &[u8]) -> bool {
    use tfrecord_framing::Compression::{Gzip, None, Zlib};
    let unpacked = |reader: &mut dyn Read| {
        let mut start = [0; HEADER_LEN];
        // The bytes after the header may be cut off or damaged.
        reader.read_exact(&mut start).is_ok() && is_record_header(&start)
    };
    match tfrecord_framing::Compression::detect(head) {
        Some(None) => is_record_header(head),
        Some(Gzip) => unpacked(&mut MultiGzDecoder::new(head)),
        Some(Zlib) => unpacked(&mut ZlibDecoder::new(head)),
        _ => false,
    }
}

/// Whether the length at the start matches its checksum. A random match occurs once in 2^32 files.
fn is_record_header(head: &[u8]) -> bool {
    head.len() >= HEADER_LEN && tfrecord_framing::Compression::detect(head) == Some(tfrecord_framing::Compression::None)
}

/// Reads the first bytes of a file.
pub(crate) async fn head(store: &Arc<dyn ObjectStore>, file: &ObjectMeta, name: &str) -> Result<bytes::Bytes> {
    if file.size == 0 {
        return Ok(bytes::Bytes::new());
    }
    let end = file.size.min(Content::LEN as u64);
    let head = store.get_range(&file.location, 0..end).await;
    head.map_err(|error| Error::read(name, error.into()))
}

/// Returns the error for a file that is not of the format `expected`; `None` if it is, and so damaged.
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
    fn content_detects_compressed_tfrecords() -> Result<(), Box<dyn std::error::Error>> {
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
}
