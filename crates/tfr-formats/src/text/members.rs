//! Compressed files with several members.

use std::io;
use std::pin::Pin;

use async_compression::tokio::bufread::GzipDecoder;
use bytes::{Buf, Bytes, BytesMut};
use flate2::{Decompress, FlushDecompress, Status};
use futures::{StreamExt, TryStreamExt};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};
use tokio_util::io::StreamReader;

use super::Bytestream;
use super::compression::CHUNK_LEN;

type MemberReader = StreamReader<Bytestream, Bytes>;

/// Decompresses concatenated gzip members. Zeros after a member, with which tapes and block devices pad files, are
/// ignored.
pub(super) fn gunzip(bytes: Bytestream) -> Bytestream {
    let decoder = Some(GzipDecoder::new(StreamReader::new(bytes)));
    futures::stream::try_unfold(decoder, |decoder| async move {
        let Some(mut decoder) = decoder else { return Ok(None) };
        loop {
            let mut chunk = BytesMut::with_capacity(CHUNK_LEN);
            if decoder.read_buf(&mut chunk).await? > 0 {
                return Ok::<_, io::Error>(Some((chunk.freeze(), Some(decoder))));
            }
            let mut rest: MemberReader = decoder.into_inner();
            if !skip_zeros(&mut rest).await? {
                return Ok(None);
            }
            decoder = GzipDecoder::new(rest);
        }
    })
    .boxed()
}

/// Whether anything but zeros is left.
async fn skip_zeros(reader: &mut MemberReader) -> io::Result<bool> {
    loop {
        let buffer = reader.fill_buf().await?;
        if buffer.is_empty() {
            return Ok(false);
        }
        let zeros = buffer.iter().take_while(|byte| **byte == 0).count();
        let is_more = zeros < buffer.len();
        Pin::new(&mut *reader).consume(zeros);
        if is_more {
            return Ok(true);
        }
    }
}

/// A zlib stream, possibly one of several concatenated ones, as Hadoop reads `.deflate` files.
struct Inflate {
    bytes: Bytestream,
    input: Bytes,
    decoder: Decompress,
    /// Whether the last stream has ended.
    is_complete: bool,
    is_at_end: bool,
}

/// Decompresses concatenated zlib streams.
pub(super) fn inflate(bytes: Bytestream) -> Bytestream {
    let (input, decoder) = (Bytes::new(), Decompress::new(true));
    let inflate = Inflate { bytes, input, decoder, is_complete: false, is_at_end: false };
    futures::stream::try_unfold(inflate, |mut inflate| async move {
        Ok(inflate.next().await?.map(|chunk| (chunk, inflate)))
    })
    .boxed()
}

impl Inflate {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            while self.input.is_empty() && !self.is_at_end {
                match self.bytes.try_next().await? {
                    Some(piece) => self.input = piece,
                    None => self.is_at_end = true,
                }
            }
            if self.is_complete {
                if self.input.is_empty() {
                    return Ok(None);
                }
                self.decoder.reset(true);
                self.is_complete = false;
            }
            let mut chunk = Vec::with_capacity(CHUNK_LEN);
            let before = self.decoder.total_in();
            let status = self.decoder.decompress_vec(&self.input, &mut chunk, FlushDecompress::None)?;
            let used = self.decoder.total_in() - before;
            self.input.advance(usize::try_from(used).unwrap_or(usize::MAX).min(self.input.len()));
            self.is_complete = status == Status::StreamEnd;
            if !chunk.is_empty() {
                return Ok(Some(chunk.into()));
            }
            if !self.is_complete && used == 0 {
                let kind = if self.is_at_end { io::ErrorKind::UnexpectedEof } else { io::ErrorKind::InvalidData };
                return Err(io::Error::new(kind, "the zlib stream does not end"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::compression::begins_zlib;
    use super::*;

    async fn unpacked(unpack: fn(Bytestream) -> Bytestream, file: &[u8], piece: usize) -> io::Result<Vec<u8>> {
        let pieces: Vec<_> = file.chunks(piece).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        let text: Vec<Bytes> = unpack(futures::stream::iter(pieces).boxed()).try_collect().await?;
        Ok(text.concat())
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        io::Write::write_all(&mut encoder, text).expect("memory");
        encoder.finish().expect("memory")
    }

    fn zlib(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        io::Write::write_all(&mut encoder, text).expect("memory");
        encoder.finish().expect("memory")
    }

    /// Python's gzip module and GNU gzip read such files in the same way.
    #[tokio::test]
    async fn gzip_zero_padding_is_ignored() -> io::Result<()> {
        let padded = [gzip(b"a,b\n"), vec![0; 1000], gzip(b""), gzip(b"1,2\n"), vec![0; 7]].concat();
        for piece in [1, 7, 100, padded.len()] {
            assert_eq!(unpacked(gunzip, &padded, piece).await?, b"a,b\n1,2\n");
        }
        let cut = &gzip(b"a,b\n1,2\n")[..20];
        assert!(unpacked(gunzip, cut, 7).await.is_err());
        let garbage = [gzip(b"a\n"), b"\0\0x".to_vec()].concat();
        assert!(unpacked(gunzip, &garbage, 7).await.is_err());
        Ok(())
    }

    #[tokio::test]
    async fn zlib_streams_are_read_to_their_end() -> io::Result<()> {
        let long: Vec<u8> = (0..50_000_u32).flat_map(u32::to_le_bytes).collect();
        let file = [zlib(b"1\x01x\n"), zlib(&long), zlib(b"")].concat();
        assert_eq!(unpacked(inflate, &zlib(b"1\x01x\n"), 1).await?, b"1\x01x\n");
        for piece in [1000, 40_000, file.len()] {
            assert_eq!(unpacked(inflate, &file, piece).await?, [b"1\x01x\n".as_slice(), &long].concat());
        }
        for wrong in [&file[..file.len() - 1], &file[..20], b"x", &[zlib(b"a"), b"b".to_vec()].concat()] {
            assert!(unpacked(inflate, wrong, 1000).await.is_err());
        }
        assert!(begins_zlib(&file[..100]) && begins_zlib(&zlib(b"")) && begins_zlib(&zlib(b"a")));
        for text in ["x^y,z\n1,2\n", "x\u{1}zz", "x\u{9c}", "x"] {
            assert!(!begins_zlib(text.as_bytes()), "{text}");
        }
        Ok(())
    }
}
