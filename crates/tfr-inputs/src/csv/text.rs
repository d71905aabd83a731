//! From the bytes of a file to UTF-8 text: decompression, byte order mark, encoding.

use std::io;
use std::ops::Range;

use async_compression::tokio::bufread::{BzDecoder, GzipDecoder, XzDecoder, ZstdDecoder};
use bytes::{Bytes, BytesMut};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};
use tokio_util::io::{ReaderStream, StreamReader};

use super::options::{Compression, Encoding};
use crate::detect::Content;
use crate::error::{Error, ErrorKind, Result};

/// How much text a decompressor hands on at a time.
const CHUNK_LEN: usize = 64 * 1024;

/// The bytes of a file as the store sends them.
pub(super) type Bytestream = BoxStream<'static, io::Result<Bytes>>;

/// UTF-8 text in pieces, or bytes that claim to be; the record decoder verifies.
pub(super) type TextStream = BoxStream<'static, Result<Bytes>>;

/// Decompresses and decodes `bytes`, the whole of `file`.
///
/// # Errors
/// The content is of another format or encoding; the store or the decompressor fails.
pub(super) async fn text(
    file: &str,
    bytes: Bytestream,
    compression: Option<Compression>,
    encoding: Encoding,
) -> Result<TextStream> {
    let (head, bytes) = peek(bytes, Content::LEN).await.map_err(|error| read_error(file, error))?;
    let content = Content::of(&head);
    let compression = match (compression, content) {
        (Some(Compression::None), Content::Compressed(_)) | (None, Content::Text) => Compression::None,
        (Some(asked), _) => asked,
        (None, Content::Compressed(found)) => found,
        (None, Content::Parquet | Content::TfRecord | Content::Unsupported(_)) => {
            let found = content.describe();
            return Err(ErrorKind::WrongFormat { file: file.to_owned(), expected: "CSV", found }.into());
        }
    };
    let bytes = decompress(bytes, compression);
    let (head, bytes) = peek(bytes, 3).await.map_err(|error| read_error(file, error))?;
    let (decoder, mark) = Transcoder::choose(encoding, &head);
    if encoding == Encoding::Utf8 && matches!(head.as_ref(), [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) {
        let place = Some("the file starts with the byte order mark of UTF-16".to_owned());
        return Err(ErrorKind::Encoding { file: file.to_owned(), place, encoding: encoding.name() }.into());
    }
    Ok(transcode(file.to_owned(), skip(bytes, mark), decoder, encoding).boxed())
}

/// Whether a range of the file can be read without what stands before it.
pub(super) fn can_split(head: &[u8], compression: Option<Compression>, encoding: Encoding) -> bool {
    let compressed = match compression {
        Some(compression) => compression != Compression::None,
        None => matches!(Content::of(head), Content::Compressed(_)),
    };
    !compressed && matches!(encoding, Encoding::Utf8 | Encoding::Latin1)
}

/// Decodes a part of a file that does not start at its beginning.
pub(super) fn text_of_part(file: &str, bytes: Bytestream, encoding: Encoding) -> TextStream {
    let (decoder, _) = Transcoder::choose(encoding, &[]);
    transcode(file.to_owned(), bytes, decoder, encoding).boxed()
}

pub(super) fn read_error(file: &str, source: io::Error) -> Error {
    ErrorKind::Read { file: file.to_owned(), source }.into()
}

/// Reads ahead until `len` bytes are there or the stream ends, and puts them back.
pub(super) async fn peek(mut bytes: Bytestream, len: usize) -> io::Result<(Bytes, Bytestream)> {
    let mut head = BytesMut::new();
    while head.len() < len {
        match bytes.try_next().await? {
            Some(more) => head.extend_from_slice(&more),
            None => break,
        }
    }
    let head = head.freeze();
    let whole = futures::stream::once(std::future::ready(Ok(head.clone()))).chain(bytes).boxed();
    Ok((head, whole))
}

/// Fails if fewer than `len` bytes come: a file that was cut after it was listed would lose rows in silence.
pub(super) fn exactly(bytes: Bytestream, len: u64) -> Bytestream {
    futures::stream::try_unfold((bytes, len), |(mut bytes, missing)| async move {
        match bytes.try_next().await? {
            Some(piece) => {
                let missing = missing.saturating_sub(piece.len() as u64);
                Ok(Some((piece, (bytes, missing))))
            }
            None if missing == 0 => Ok(None),
            None => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("the file is {missing} bytes shorter than when it was listed"),
            )),
        }
    })
    .boxed()
}

/// The lines that start within `range`, out of the bytes of the file from one before `range` on.
pub(super) fn lines_in(bytes: Bytestream, range: Range<u64>, terminator: u8) -> Bytestream {
    let line_end = move |piece: &[u8]| piece.iter().position(|byte| *byte == terminator).map(|at| at + 1);
    // Where the next piece starts in the file, and whether it starts a line.
    let start = (range.start.saturating_sub(1), range.start == 0);
    futures::stream::try_unfold(Some((bytes, start)), move |state| async move {
        let Some((mut bytes, (mut position, mut aligned))) = state else { return Ok(None) };
        while let Some(mut piece) = bytes.try_next().await? {
            if !aligned {
                let skipped = line_end(&piece).unwrap_or(piece.len());
                aligned = piece.get(skipped.wrapping_sub(1)) == Some(&terminator);
                position += skipped as u64;
                piece = piece.split_off(skipped);
                if aligned && position >= range.end {
                    break;
                }
            }
            if piece.is_empty() {
                continue;
            }
            // The line that holds the last byte of the range is the last.
            let last = usize::try_from((range.end - 1).saturating_sub(position)).unwrap_or(usize::MAX);
            if let Some(end) = piece.get(last..).and_then(line_end) {
                piece.truncate(last + end);
                return Ok(Some((piece, None)));
            }
            position += piece.len() as u64;
            return Ok(Some((piece, Some((bytes, (position, aligned))))));
        }
        Ok(None)
    })
    .boxed()
}

fn skip(bytes: Bytestream, mut len: usize) -> Bytestream {
    // The bytes to skip are in the first piece: `peek` put them there.
    bytes.map_ok(move |mut piece| piece.split_off(std::mem::take(&mut len).min(piece.len()))).boxed()
}

fn decompress(bytes: Bytestream, compression: Compression) -> Bytestream {
    macro_rules! with {
        ($decoder:ident) => {{
            let mut decoder = $decoder::new(StreamReader::new(bytes));
            // Whole files, not their first member: pbzip2, pzstd and `cat a.gz b.gz` write several.
            decoder.multiple_members(true);
            ReaderStream::with_capacity(decoder, CHUNK_LEN).boxed()
        }};
    }
    match compression {
        Compression::None => bytes,
        Compression::Gzip => with!(GzipDecoder),
        Compression::Bzip2 => with!(BzDecoder),
        Compression::Xz => with!(XzDecoder),
        Compression::Zstd => with!(ZstdDecoder),
    }
}

fn transcode(
    file: String,
    bytes: Bytestream,
    decoder: Transcoder,
    encoding: Encoding,
) -> impl Stream<Item = Result<Bytes>> {
    let state = Some((bytes, decoder, 0_u64, file));
    futures::stream::try_unfold(state, move |state| async move {
        let Some((mut bytes, mut decoder, position, file)) = state else { return Ok(None) };
        let invalid = |file: &str| {
            let place = Some(format!("after byte {position}"));
            Error::from(ErrorKind::Encoding { file: file.to_owned(), place, encoding: encoding.name() })
        };
        match bytes.try_next().await.map_err(|error| read_error(&file, error))? {
            Some(piece) => {
                let next = position + piece.len() as u64;
                let text = decoder.decode(piece).ok_or_else(|| invalid(&file))?;
                Ok(Some((text, Some((bytes, decoder, next, file)))))
            }
            None if decoder.is_complete() => Ok(None),
            None => Err(invalid(&file)),
        }
    })
}

/// Turns pieces of a text into UTF-8.
enum Transcoder {
    Utf8,
    Latin1,
    Utf16 { big_endian: bool, rest: Vec<u8> },
}

impl Transcoder {
    /// The decoder for a text that starts with `head`, and the length of its byte order mark.
    fn choose(encoding: Encoding, head: &[u8]) -> (Self, usize) {
        let utf16 = |big_endian| Self::Utf16 { big_endian, rest: Vec::new() };
        match (encoding, head) {
            (Encoding::Utf8, [0xef, 0xbb, 0xbf, ..]) => (Self::Utf8, 3),
            (Encoding::Utf8, _) => (Self::Utf8, 0),
            (Encoding::Latin1, _) => (Self::Latin1, 0),
            (Encoding::Utf16 | Encoding::Utf16Be, [0xfe, 0xff, ..]) => (utf16(true), 2),
            (Encoding::Utf16 | Encoding::Utf16Le, [0xff, 0xfe, ..]) => (utf16(false), 2),
            (Encoding::Utf16Be, _) => (utf16(true), 0),
            (Encoding::Utf16 | Encoding::Utf16Le, _) => (utf16(false), 0),
        }
    }

    /// `None`: not text in this encoding.
    fn decode(&mut self, piece: Bytes) -> Option<Bytes> {
        match self {
            Self::Utf8 => Some(piece),
            Self::Latin1 if piece.is_ascii() => Some(piece),
            Self::Latin1 => Some(piece.iter().copied().map(char::from).collect::<String>().into()),
            Self::Utf16 { big_endian, rest } => {
                rest.extend_from_slice(&piece);
                let mut end = rest.len() / 2 * 2;
                let unit = |pair: &[u8]| match *big_endian {
                    true => u16::from_be_bytes([pair[0], pair[1]]),
                    false => u16::from_le_bytes([pair[0], pair[1]]),
                };
                // The first half of a surrogate pair waits for the second.
                if end >= 2 && (0xd800..0xdc00).contains(&unit(&rest[end - 2..end])) {
                    end -= 2;
                }
                let units = rest[..end].chunks_exact(2).map(unit);
                let text = char::decode_utf16(units).collect::<Result<String, _>>().ok()?;
                rest.drain(..end);
                Some(text.into())
            }
        }
    }

    fn is_complete(&self) -> bool {
        match self {
            Self::Utf8 | Self::Latin1 => true,
            Self::Utf16 { rest, .. } => rest.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(encoding: Encoding, bytes: &[u8], piece: usize) -> Option<String> {
        let (mut decoder, mark) = Transcoder::choose(encoding, bytes);
        let mut text = Vec::new();
        for piece in bytes[mark..].chunks(piece) {
            text.extend(decoder.decode(Bytes::copy_from_slice(piece))?);
        }
        decoder.is_complete().then(|| String::from_utf8(text).ok()).flatten()
    }

    #[test]
    fn utf16_in_pieces_of_any_size() {
        let text = "é,🦀\n1,2\n";
        let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = [0xfeff_u16].into_iter().chain(text.encode_utf16()).flat_map(u16::to_be_bytes).collect();
        for piece in 1..8 {
            assert_eq!(decoded(Encoding::Utf16, &little, piece).as_deref(), Some(text));
            assert_eq!(decoded(Encoding::Utf16, &big, piece).as_deref(), Some(text));
        }
    }

    #[tokio::test]
    async fn every_line_is_in_one_range() -> io::Result<()> {
        let text = b"a\n\nbc\nd";
        for piece in 1..text.len() {
            for cut in 1..text.len() {
                let mut found = Vec::new();
                for range in [0..cut, cut..text.len()] {
                    let from = range.start.saturating_sub(1);
                    let pieces: Vec<_> =
                        text[from..].chunks(piece).map(|piece| Ok(Bytes::from_static(piece))).collect();
                    let lines =
                        lines_in(futures::stream::iter(pieces).boxed(), range.start as u64..range.end as u64, b'\n');
                    let lines: Vec<_> = lines.try_collect().await?;
                    let lines = lines.concat();
                    assert!(range.start == 0 || lines.is_empty() || text[text.len() - lines.len() - 1] == b'\n');
                    found.extend(lines);
                }
                assert_eq!(found, text, "cut at {cut}, pieces of {piece}");
            }
        }
        Ok(())
    }

    #[tokio::test]
    async fn a_file_that_was_cut_is_noticed() {
        let pieces = [Ok(Bytes::from_static(b"abc"))];
        let read: io::Result<Vec<_>> = exactly(futures::stream::iter(pieces).boxed(), 5).try_collect().await;
        let message = read.err().map(|error| error.to_string());
        assert_eq!(message.as_deref(), Some("the file is 2 bytes shorter than when it was listed"));
    }

    #[test]
    fn half_a_character_is_refused() {
        assert_eq!(decoded(Encoding::Utf16Le, b"a\0b", 2), None);
        assert_eq!(decoded(Encoding::Utf16Le, &[0x3e, 0xd8], 2), None);
        assert_eq!(decoded(Encoding::Utf16Le, &[0, 0xdc], 2), None);
    }

    #[test]
    fn latin1_is_the_first_256_characters() {
        assert_eq!(decoded(Encoding::Latin1, &[b'a', 0xe9, 0xff], 2).as_deref(), Some("aéÿ"));
    }
}
