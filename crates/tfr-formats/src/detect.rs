//! Tells the format of a file from its content.

use std::sync::Arc;

use object_store::{ObjectMeta, ObjectStore};

use crate::content::{Content, head};
use crate::error::{Error, ErrorKind, Result};
use crate::foreign::{ForeignFormat, UnsupportedFormat};
use crate::input_format::InputFormat;
use crate::text::{self, Compression};

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
    let named = InputFormat::of_file_name(name);
    if head.is_empty() && asked.or(named).is_some_and(|format| !format.is_text() && format != InputFormat::TfRecord) {
        return Err(Error::empty_file(name));
    }
    // `a.tfrecord.snappy`: the ending is of no compression that is read.
    let inner = || name.rsplit_once('.').and_then(|(inner, _)| InputFormat::of_file_name(inner));
    if asked.or(named).or_else(inner) == Some(InputFormat::TfRecord)
        && let Some(codec) = codec_of_no_records(name, content, &head)
    {
        let format = UnsupportedFormat::CompressedRecords(codec);
        return Err(ErrorKind::UnsupportedFormat { file: name.to_owned(), format }.into());
    }
    if let (Content::Unsupported(format), None) = (content, asked) {
        return Err(ErrorKind::UnsupportedFormat { file: name.to_owned(), format }.into());
    }
    if asked.is_none()
        && named.is_none()
        && let Some(foreign) = unread(store, file, name, content, &head).await
    {
        return Err(ErrorKind::UnsupportedFormat { file: name.to_owned(), format: foreign.format }.into());
    }
    if let Some(format) = text::unread_codec(name, &head).filter(|_| content == Content::Text) {
        return Err(ErrorKind::UnsupportedFormat { file: name.to_owned(), format }.into());
    }
    // Text in UTF-16 has zeros, too; with a byte order mark the reader names it.
    let has_mark = head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff");
    // What is called by the name of another format gets the error of that format.
    let is_called_text = asked.is_none() && named.is_none_or(InputFormat::is_text);
    if content == Content::Text && is_called_text && takes_utf8 && !has_mark && head.contains(&0) {
        let format = UnsupportedFormat::Binary;
        return Err(ErrorKind::UnsupportedFormat { file: name.to_owned(), format }.into());
    }
    let called = asked.or(named);
    let found = match content {
        Content::Format(format) => format,
        Content::Text | Content::Compressed(Compression::Gzip) if called == Some(InputFormat::TfRecord) => {
            InputFormat::TfRecord
        }
        Content::Text if called == Some(InputFormat::ArrayRecord) => InputFormat::ArrayRecord,
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
            let is_compressed = matches!(content, Content::Compressed(_));
            let (file, named, found) = (name.to_owned(), named.name(), content.describe());
            Err(ErrorKind::Misnamed { file, named, found, is_compressed }.into())
        }
        _ => Ok(found),
    }
}

/// Returns the compression of a file that is called TFRecord, if TFRecord has no such compression.
fn codec_of_no_records(name: &str, content: Content, head: &[u8]) -> Option<&'static str> {
    let format = match content {
        Content::Compressed(codec @ (Compression::Bzip2 | Compression::Xz | Compression::Zstd)) => {
            return Some(codec.name());
        }
        Content::Unsupported(format) => format,
        Content::Text => text::unread_codec(name, head)?,
        Content::Compressed(_) | Content::Format(_) => return None,
    };
    match format {
        UnsupportedFormat::CompressedText(codec) => Some(codec),
        _ => None,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_format_is_detected_by_file_name() {
        assert_eq!(InputFormat::of_file_name("x/part-0.PARQUET"), Some(InputFormat::Parquet));
        assert_eq!(InputFormat::of_file_name("x.parquet/000000_0"), None);
        assert_eq!(InputFormat::of_file_name("a.tsv"), Some(InputFormat::Csv));
        for name in ["x/a.tfrecord", "a.TFRecords", "a.tfrecord.gz", "train.tfrecord-00003-of-00016", "a.tfrecord.zlib"]
        {
            assert_eq!(InputFormat::of_file_name(name), Some(InputFormat::TfRecord), "{name}");
        }
        assert_eq!(InputFormat::of_file_name("x.tfrecord/tfrecord"), None);
    }
}
