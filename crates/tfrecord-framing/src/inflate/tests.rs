use std::io::Write;

use flate2::{Compression, write::ZlibEncoder};

use super::*;
use crate::{Level, gzip_member};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    gzip_member(bytes, Level::default(), &mut out);
    out
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Reads all of the input at once, and in pieces of every small length.
fn read(new: fn() -> Inflate, file: &[u8]) -> Result<Vec<u8>, InflateError> {
    let whole = read_in_pieces(new(), file, file.len().max(1));
    for len in 1..8 {
        let pieces = read_in_pieces(new(), file, len);
        match (&whole, &pieces) {
            (Ok(whole), Ok(pieces)) => assert!(whole == pieces, "differs in pieces of {len}"),
            (Err(whole), Err(pieces)) => assert_eq!(whole.to_string(), pieces.to_string(), "in pieces of {len}"),
            _ => panic!("{whole:?} is {pieces:?} in pieces of {len}"),
        }
    }
    whole
}

fn read_in_pieces(mut inflate: Inflate, file: &[u8], len: usize) -> Result<Vec<u8>, InflateError> {
    let mut out = Vec::new();
    for mut piece in file.chunks(len) {
        let mut before = None;
        while before != Some(out.len()) {
            before = Some(out.len());
            inflate.inflate(&mut piece, &mut out)?;
        }
        assert!(piece.is_empty());
    }
    inflate.finish().map(|()| out)
}

/// Bytes that use every kind of deflate block and compress to more than a few.
fn sample() -> Vec<u8> {
    (0..3000_u32).flat_map(|i| (i * i).to_le_bytes()).collect()
}

#[test]
fn gzip_members_are_one_stream() {
    let chain = [gzip(b"one, "), gzip(b""), gzip(b"two")].concat();
    assert_eq!(read(Inflate::gzip, &chain).unwrap(), b"one, two");
}

#[test]
fn inflate_rejects_bytes_after_a_zlib_stream() {
    assert_eq!(read(Inflate::zlib, &zlib(b"one")).unwrap(), b"one");
    let chain = [zlib(b"one"), zlib(b"two")].concat();
    assert!(matches!(read(Inflate::zlib, &chain), Err(InflateError::Trailing)));
}

#[test]
fn inflate_rejects_bytes_after_gzip_that_are_no_member() {
    let followed_by = |tail: &[u8]| read(Inflate::gzip, &[&gzip(b"one"), tail].concat());
    assert!(matches!(followed_by(&[0; 16]), Err(InflateError::Padding)));
    assert!(matches!(followed_by(b"not a member at all"), Err(InflateError::NoMember)));
    assert!(matches!(followed_by(b"\x1f is not enough"), Err(InflateError::Damaged(_))));
}

/// In the header, the data and the trailer.
#[test]
fn inflate_detects_every_cut() {
    let (gzip, zlib) = (gzip(&sample()), zlib(&sample()));
    for len in 1..gzip.len() {
        assert!(matches!(read_in_pieces(Inflate::gzip(), &gzip[..len], 4096), Err(InflateError::Cut)), "at {len}");
    }
    for len in 1..zlib.len() {
        assert!(matches!(read_in_pieces(Inflate::zlib(), &zlib[..len], 4096), Err(InflateError::Cut)), "at {len}");
    }
}

#[test]
fn a_stream_of_no_bytes_is_empty() {
    assert!(read(Inflate::gzip, b"").unwrap().is_empty());
    assert!(read(Inflate::zlib, b"").unwrap().is_empty());
}

#[test]
fn another_format_is_damage() {
    let (gzip, zlib) = (gzip(&sample()), zlib(&sample()));
    assert!(matches!(read(Inflate::gzip, &zlib), Err(InflateError::Damaged(_))));
    assert!(matches!(read(Inflate::zlib, &gzip), Err(InflateError::Damaged(_))));
    assert!(matches!(read(Inflate::gzip, &sample()), Err(InflateError::Damaged(_))));
}
