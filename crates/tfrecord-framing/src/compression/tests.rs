use super::*;
use crate::{RecordWriter, masked_crc32c};

const ALL: [Compression; 3] = [Compression::None, Compression::Gzip, Compression::Zlib];

fn file(compression: Compression, level: Level) -> Vec<u8> {
    let mut writer = RecordWriter::with_compression(Vec::new(), compression, level);
    writer.write_record(b"a record").unwrap();
    writer.finish().unwrap()
}

#[test]
fn names_read_back() {
    for compression in ALL {
        assert_eq!(compression.to_string().parse(), Ok(compression));
        assert_eq!(compression.to_string().to_uppercase().parse(), Ok(compression));
    }
    assert_eq!("".parse(), Ok(Compression::None));
    let error = "lz4".parse::<Compression>().unwrap_err();
    assert_eq!(error.to_string(), r#"unknown compression "lz4", expected none, gzip or zlib"#);
}

#[test]
fn compression_accepts_the_names_of_spark_and_hadoop() {
    for (name, expected) in [
        ("GzipCodec", Compression::Gzip),
        ("org.apache.hadoop.io.compress.GzipCodec", Compression::Gzip),
        ("org.apache.hadoop.io.compress.DefaultCodec", Compression::Zlib),
        ("DeflateCodec", Compression::Zlib),
        ("deflate", Compression::Zlib),
        ("uncompressed", Compression::None),
    ] {
        assert_eq!(name.parse(), Ok(expected), "{name}");
    }
    for other in ["org.apache.hadoop.io.compress.SnappyCodec", "BZip2Codec", "com.example.GzipCodec"] {
        assert!(other.parse::<Compression>().is_err(), "{other}");
    }
}

#[test]
fn levels_are_zlibs() {
    assert_eq!(Level::default().get(), 6);
    assert_eq!(Level::try_from(9).unwrap().to_string(), "9");
    assert_eq!(Level::try_from(10).unwrap_err().to_string(), "compression level is 10, expected 0 to 9");
}

#[test]
fn detects_every_level_of_every_compression() {
    for compression in ALL {
        for level in 0..=9 {
            let file = file(compression, Level::try_from(level).unwrap());
            assert_eq!(Compression::detect(&file), Some(compression));
            assert_eq!(Compression::detect(&file[..HEADER_LEN]), Some(compression));
        }
    }
}

#[test]
fn compression_is_not_detected_in_other_bytes() {
    assert_eq!(Compression::detect(b""), Some(Compression::None));
    assert_eq!(Compression::detect(b"PAR1 and more bytes"), None);
    assert_eq!(Compression::detect(&[0; 20]), None);
    assert_eq!(Compression::detect(&file(Compression::None, Level::default())[..11]), None);
}

/// A record of 40,056 bytes starts like a zlib stream.
#[test]
fn an_intact_header_outranks_magic_bytes() {
    let len = u64::from(u16::from_le_bytes([0x78, 0x9c])).to_le_bytes();
    let header = [&len[..], &masked_crc32c(&len).to_le_bytes()].concat();
    assert_eq!(Compression::detect(&header), Some(Compression::None));
    assert_eq!(Compression::detect(&len), Some(Compression::Zlib));
}

#[test]
fn a_member_has_no_time_and_no_name() {
    let mut out = b"before".to_vec();
    gzip_member(b"some bytes", Level::default(), &mut out);
    // RFC 1952, section 2.3: ID1, ID2, CM, FLG, MTIME
    assert_eq!(&out[..14], b"before\x1f\x8b\x08\0\0\0\0\0");
}
