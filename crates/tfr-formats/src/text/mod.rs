//! Converts the bytes of a file to UTF-8 text: decompression, byte order mark, encoding. All text formats use it.

pub(crate) mod compression;
mod encoding;
pub(crate) mod lines;
mod members;
mod part;
pub(crate) mod rows;

use std::io;
use std::ops::Range;
use std::sync::Arc;

use async_compression::tokio::bufread::{BzDecoder, XzDecoder, ZstdDecoder};
use bytes::{Bytes, BytesMut};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};
use object_store::{GetOptions, ObjectMeta, ObjectStore};
use tfr_files::named_compression;
use tokio_util::io::{ReaderStream, StreamReader};

use crate::content::Content;
use crate::error::{Error, ErrorKind, Result};
use crate::foreign::UnsupportedFormat;
use crate::input_format::InputFormat;

use compression::CHUNK_LEN;
pub use compression::Compression;
pub use encoding::Encoding;
pub(crate) use part::{TextLayout, TextPart, part};

/// The bytes of a file as the store delivers them.
pub(crate) type Bytestream = BoxStream<'static, io::Result<Bytes>>;

/// Pieces of text that should be UTF-8; the record decoder validates it.
pub(crate) type TextStream = BoxStream<'static, Result<Bytes>>;

/// Fetches a byte range of a file.
pub(crate) async fn bytes(
    store: &Arc<dyn ObjectStore>,
    meta: &ObjectMeta,
    name: &str,
    range: Range<u64>,
) -> Result<Bytestream, Error> {
    if range.is_empty() {
        return Ok(futures::stream::empty().boxed());
    }
    let options = GetOptions { range: Some(range.clone().into()), ..GetOptions::default() };
    let failed = |error: object_store::Error| Error::read(name, error.into());
    let got = store.get_opts(&meta.location, options).await.map_err(failed)?;
    let bytes = got.into_stream().map_err(io::Error::from).boxed();
    Ok(exactly(bytes, range.end - range.start))
}

/// Decompresses and decodes `bytes`, the whole of `file`, which is read as `format`.
///
/// # Errors
/// The content has another format or encoding, or the store or the decompressor fails.
pub(crate) async fn text(
    file: &str,
    format: InputFormat,
    bytes: Bytestream,
    compression: Option<Compression>,
    encoding: Encoding,
) -> Result<TextStream> {
    let (head, bytes) = peek(bytes, Content::LEN).await.map_err(|error| Error::read(file, error))?;
    let content = Content::of(&head);
    if let (None, Content::Text, Some(codec)) = (compression, content, named_compression(file)) {
        let found = if head.is_empty() { "an empty file".to_owned() } else { content.describe() };
        return Err(ErrorKind::NotCompressed { file: file.to_owned(), codec, found }.into());
    }
    let compression = match (compression, content) {
        (Some(Compression::None), Content::Compressed(_)) | (None, Content::Text) => Compression::None,
        (Some(asked), _) => asked,
        (None, Content::Compressed(found)) => found,
        (None, Content::Format(_) | Content::Unsupported(_)) => {
            let found = content.describe();
            return Err(ErrorKind::WrongFormat { file: file.to_owned(), expected: format.name(), found }.into());
        }
    };
    if compression == Compression::None
        && let Some(format) = unread_codec(file, &head)
    {
        return Err(ErrorKind::UnsupportedFormat { file: file.to_owned(), format }.into());
    }
    let bytes = decompress(bytes, compression);
    let (head, bytes) = peek(bytes, 4).await.map_err(|error| Error::read(file, error))?;
    let (decoder, mark) = Transcoder::choose(encoding, &head);
    if encoding == Encoding::Utf8 && matches!(head.as_ref(), [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) {
        let found_at = "the file starts with the byte order mark of UTF-16".to_owned();
        return Err(ErrorKind::Encoding { file: file.to_owned(), found_at, encoding: encoding.name() }.into());
    }
    Ok(transcode(file.to_owned(), skip(bytes, mark), decoder, encoding).boxed())
}

/// Decompresses the first `len` bytes of a compressed file, or as many as can be unpacked.
pub(crate) async fn start(
    store: &Arc<dyn ObjectStore>,
    meta: &ObjectMeta,
    name: &str,
    compression: Compression,
    len: usize,
) -> Vec<u8> {
    let mut start = Vec::new();
    if let Ok(bytes) = bytes(store, meta, name, 0..meta.size).await {
        let mut unpacked = decompress(bytes, compression);
        // Errors are reported when the file is read.
        while start.len() < len
            && let Ok(Some(piece)) = unpacked.try_next().await
        {
            start.extend_from_slice(&piece);
        }
    }
    start.truncate(len);
    start
}

/// Returns the unsupported codec that the extension implies, if the file does not begin like text. Hadoop's codecs have
/// no magic number.
pub(crate) fn unread_codec(name: &str, head: &[u8]) -> Option<UnsupportedFormat> {
    let (_, ending) = name.rsplit_once('.')?;
    let codec = match ending.to_ascii_lowercase().as_str() {
        "snappy" | "sz" => "snappy",
        "lz4" => "LZ4",
        "lzo" | "lzo_deflate" | "lzop" => "LZO",
        "br" => "Brotli",
        "z" => "compress",
        "lzma" => "LZMA",
        _ => return None,
    };
    is_binary(head).then_some(UnsupportedFormat::CompressedText(codec))
}

/// Whether the bytes are not UTF-8 text: they contain a zero byte or an invalid sequence.
pub(crate) fn is_binary(head: &[u8]) -> bool {
    head.contains(&0) || std::str::from_utf8(head).is_err_and(|error| error.error_len().is_some())
}

/// Whether a range of the file can be read without the bytes before it.
pub(crate) fn can_split(head: &[u8], compression: Option<Compression>, encoding: Encoding) -> bool {
    let compressed = match compression {
        Some(compression) => compression != Compression::None,
        None => matches!(Content::of(head), Content::Compressed(_)),
    };
    !compressed && encoding.is_by_byte()
}

/// Decodes a part of a file that does not begin at the file's start.
pub(crate) fn text_of_part(file: &str, bytes: Bytestream, encoding: Encoding) -> TextStream {
    let (decoder, _) = Transcoder::choose(encoding, &[]);
    transcode(file.to_owned(), bytes, decoder, encoding).boxed()
}

/// Reads ahead until `len` bytes are buffered or the stream ends, and puts them back.
pub(crate) async fn peek(mut bytes: Bytestream, len: usize) -> io::Result<(Bytes, Bytestream)> {
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

/// Fails if the stream has fewer than `len` bytes: a file truncated after listing would silently lose rows.
pub(crate) fn exactly(bytes: Bytestream, len: u64) -> Bytestream {
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

/// Returns the lines that start within `range`, given the file's bytes from one before `range` on.
pub(crate) fn lines_in(bytes: Bytestream, range: Range<u64>, terminator: u8) -> Bytestream {
    let line_end = move |piece: &[u8]| piece.iter().position(|byte| *byte == terminator).map(|at| at + 1);
    // The offset of the next piece in the file, and whether it starts a line.
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
            // The line that contains the last byte of the range is the last one.
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
    // All bytes to skip are in the first piece: `peek` put them there.
    bytes.map_ok(move |mut piece| piece.split_off(std::mem::take(&mut len).min(piece.len()))).boxed()
}

fn decompress(bytes: Bytestream, compression: Compression) -> Bytestream {
    macro_rules! with {
        ($decoder:ident) => {{
            let mut decoder = $decoder::new(StreamReader::new(bytes));
            // All members, not only the first: pbzip2, pzstd and `cat a.gz b.gz` write several.
            decoder.multiple_members(true);
            ReaderStream::with_capacity(decoder, CHUNK_LEN).boxed()
        }};
    }
    match compression {
        Compression::None => bytes,
        Compression::Gzip => members::gunzip(bytes),
        Compression::Zlib => members::inflate(bytes),
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
            let found_at = format!("after byte {position}");
            Error::from(ErrorKind::Encoding { file: file.to_owned(), found_at, encoding: encoding.name() })
        };
        match bytes.try_next().await.map_err(|error| Error::read(&file, error))? {
            Some(piece) => {
                let next = position + piece.len() as u64;
                let text = decoder.decode(piece).ok_or_else(|| invalid(&file))?;
                Ok(Some((text, Some((bytes, decoder, next, file)))))
            }
            None => {
                let rest = decoder.finish().ok_or_else(|| invalid(&file))?;
                Ok((!rest.is_empty()).then_some((rest, None)))
            }
        }
    })
}

/// Converts pieces of a text to UTF-8.
enum Transcoder {
    Utf8,
    Latin1,
    Utf16 { big_endian: bool, rest: Vec<u8> },
    Utf32 { big_endian: bool, rest: Vec<u8> },
    Other(encoding_rs::Decoder),
}

impl Transcoder {
    /// Returns the decoder for a text that starts with `head`, and the length of its byte order mark.
    fn choose(encoding: Encoding, head: &[u8]) -> (Self, usize) {
        let utf16 = |big_endian| Self::Utf16 { big_endian, rest: Vec::new() };
        let utf32 = |big_endian| Self::Utf32 { big_endian, rest: Vec::new() };
        match (encoding, head) {
            (Encoding::Utf8, [0xef, 0xbb, 0xbf, ..]) => (Self::Utf8, 3),
            (Encoding::Utf8, _) => (Self::Utf8, 0),
            (Encoding::Latin1, _) => (Self::Latin1, 0),
            (Encoding::Utf16 | Encoding::Utf16Be, [0xfe, 0xff, ..]) => (utf16(true), 2),
            (Encoding::Utf16 | Encoding::Utf16Le, [0xff, 0xfe, ..]) => (utf16(false), 2),
            (Encoding::Utf16Be, _) => (utf16(true), 0),
            (Encoding::Utf16 | Encoding::Utf16Le, _) => (utf16(false), 0),
            (Encoding::Utf32 | Encoding::Utf32Be, [0, 0, 0xfe, 0xff, ..]) => (utf32(true), 4),
            (Encoding::Utf32 | Encoding::Utf32Le, [0xff, 0xfe, 0, 0, ..]) => (utf32(false), 4),
            (Encoding::Utf32Be, _) => (utf32(true), 0),
            (Encoding::Utf32 | Encoding::Utf32Le, _) => (utf32(false), 0),
            (Encoding::Other(encoding), _) => (Self::Other(encoding.new_decoder_without_bom_handling()), 0),
        }
    }

    /// Decodes a piece; `None` if it is not valid in this encoding.
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
                // Keep the first half of a surrogate pair until the second arrives.
                if end >= 2 && (0xd800..0xdc00).contains(&unit(&rest[end - 2..end])) {
                    end -= 2;
                }
                let units = rest[..end].chunks_exact(2).map(unit);
                let text = char::decode_utf16(units).collect::<Result<String, _>>().ok()?;
                rest.drain(..end);
                Some(text.into())
            }
            Self::Utf32 { big_endian, rest } => {
                rest.extend_from_slice(&piece);
                let end = rest.len() / 4 * 4;
                let unit = |four: &[u8]| match *big_endian {
                    true => u32::from_be_bytes([four[0], four[1], four[2], four[3]]),
                    false => u32::from_le_bytes([four[0], four[1], four[2], four[3]]),
                };
                let text = rest[..end].chunks_exact(4).map(|four| char::from_u32(unit(four)));
                let text = text.collect::<Option<String>>()?;
                rest.drain(..end);
                Some(text.into())
            }
            Self::Other(decoder) => decode_with(decoder, &piece, false),
        }
    }

    /// Returns the rest of the last piece; `None` if the text ends within a character.
    fn finish(&mut self) -> Option<Bytes> {
        match self {
            Self::Utf8 | Self::Latin1 => Some(Bytes::new()),
            Self::Utf16 { rest, .. } | Self::Utf32 { rest, .. } => rest.is_empty().then(Bytes::new),
            Self::Other(decoder) => decode_with(decoder, &[], true),
        }
    }
}

fn decode_with(decoder: &mut encoding_rs::Decoder, piece: &[u8], is_last: bool) -> Option<Bytes> {
    // Large enough for all of it, so that the output never fills up.
    let mut text = String::with_capacity(decoder.max_utf8_buffer_length_without_replacement(piece.len())?);
    let (result, _) = decoder.decode_to_string_without_replacement(piece, &mut text, is_last);
    matches!(result, encoding_rs::DecoderResult::InputEmpty).then(|| text.into())
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
        text.extend(decoder.finish()?);
        String::from_utf8(text).ok()
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

    #[test]
    fn utf32_in_pieces_of_any_size() {
        let text = "é,🦀\n";
        let little: Vec<u8> = text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
        let big: Vec<u8> = "\u{feff}".chars().chain(text.chars()).flat_map(|c| u32::from(c).to_be_bytes()).collect();
        for piece in 1..8 {
            assert_eq!(decoded(Encoding::Utf32, &little, piece).as_deref(), Some(text));
            assert_eq!(decoded(Encoding::Utf32, &big, piece).as_deref(), Some(text));
        }
        assert_eq!(decoded(Encoding::Utf32Le, b"a\0\0", 2), None);
        assert_eq!(decoded(Encoding::Utf32Le, &[0, 0xd8, 0, 0], 4), None);
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
    async fn text_scan_rejects_a_truncated_file() {
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

    #[test]
    fn encodings_by_their_names_in_pieces_of_any_size() -> Result<(), Box<dyn std::error::Error>> {
        for (name, bytes, text) in [
            ("windows-1252", &b"\x80,\xe9"[..], "€,é"),
            ("CP1251", b"\xcf\xf0\xe8", "При"),
            ("koi8_r", b"\xf0\xd2\xc9", "При"),
            ("shift_jis", b"\x93\xfa\x96\x7b,\xb1", "日本,ｱ"),
            ("cp932", b"\x93\xfa", "日"),
            ("gbk", b"\xd6\xd0\xce\xc4", "中文"),
            ("gb18030", b"\x81\x30\x81\x30", "\u{80}"),
            ("big5", b"\xa4\xa4", "中"),
            ("euc_kr", b"\xc7\xd1", "한"),
            ("iso-8859-15", b"\xa4", "€"),
        ] {
            let encoding = Encoding::parse(name).ok_or(name)?;
            for piece in 1..=bytes.len() {
                assert_eq!(decoded(encoding, bytes, piece).as_deref(), Some(text), "{name}");
            }
        }
        let gbk = Encoding::parse("gbk").ok_or("gbk")?;
        assert_eq!(decoded(gbk, b"\xd6\xd0\xce", 2), None, "half a character");
        assert_eq!(decoded(gbk, b"\xff", 1), None, "no character");
        assert_eq!(Encoding::parse("klingon"), None);
        // The standard decodes these to a single replacement character.
        assert_eq!(Encoding::parse("iso-2022-kr"), None);
        Ok(())
    }
}
