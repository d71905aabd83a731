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

fn read(mut inflate: Inflate<&[u8]>) -> Result<Vec<u8>, InflateError> {
    let mut out = Vec::new();
    match inflate.read_to_end(&mut out) {
        Ok(_) => Ok(out),
        Err(error) => Err(error.downcast().expect("a slice never fails")),
    }
}

/// Bytes that compress to more than a few, in every kind of deflate block.
fn sample() -> Vec<u8> {
    (0..3000_u32).flat_map(|i| (i * i).to_le_bytes()).collect()
}

#[test]
fn gzip_members_are_one_stream() {
    let chain = [gzip(b"one, "), gzip(b""), gzip(b"two")].concat();
    assert_eq!(read(Inflate::gzip(&chain)).unwrap(), b"one, two");
}

#[test]
fn nothing_may_follow_a_zlib_stream() {
    assert_eq!(read(Inflate::zlib(&zlib(b"one"))).unwrap(), b"one");
    let chain = [zlib(b"one"), zlib(b"two")].concat();
    assert!(matches!(read(Inflate::zlib(&chain)), Err(InflateError::Trailing)));
}

#[test]
fn nothing_but_members_may_follow_a_gzip_member() {
    for tail in [&[0; 16][..], b"not a member at all"] {
        let padded = [&gzip(b"one"), tail].concat();
        assert!(matches!(read(Inflate::gzip(&padded)), Err(InflateError::Damaged(_))));
    }
}

/// Inside the header, the data and the trailer alike.
#[test]
fn every_cut_is_noticed() {
    let (gzip, zlib) = (gzip(&sample()), zlib(&sample()));
    for len in 1..gzip.len() {
        assert!(matches!(read(Inflate::gzip(&gzip[..len])), Err(InflateError::Cut)), "at {len}");
    }
    for len in 1..zlib.len() {
        assert!(matches!(read(Inflate::zlib(&zlib[..len])), Err(InflateError::Cut)), "at {len}");
    }
}

#[test]
fn a_stream_of_no_bytes_is_empty() {
    assert!(read(Inflate::gzip(b"")).unwrap().is_empty());
    assert!(read(Inflate::zlib(b"")).unwrap().is_empty());
}

#[test]
fn another_format_is_damage() {
    let (gzip, zlib) = (gzip(&sample()), zlib(&sample()));
    assert!(matches!(read(Inflate::gzip(&zlib)), Err(InflateError::Damaged(_))));
    assert!(matches!(read(Inflate::zlib(&gzip)), Err(InflateError::Damaged(_))));
    assert!(matches!(read(Inflate::gzip(&sample())), Err(InflateError::Damaged(_))));
}
