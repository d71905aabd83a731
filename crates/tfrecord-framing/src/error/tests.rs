use std::error::Error as _;

use super::*;

const POSITION: Position = Position { record: 41_877, byte: 9_034_112 };

/// One error of each kind, its text, and whether it says what to do.
fn every_kind() -> Vec<(Error, &'static str, bool)> {
    let position = POSITION;
    let io = || io::Error::other("the cause");
    vec![
        (ErrorKind::Io { position, source: io() }.into(), "input/output failed", false),
        (
            ErrorKind::LengthCrc { position, len: 7, found: 0x12, expected: 0xdead_beef }.into(),
            "length 7 has the checksum 0x00000012, expected 0xdeadbeef",
            true,
        ),
        (
            ErrorKind::DataCrc { position, len: 7, found: 0x12, expected: 0xdead_beef }.into(),
            "payload of 7 bytes has the checksum 0x00000012, expected 0xdeadbeef",
            true,
        ),
        (
            ErrorKind::Truncated { position, expected: HEADER_LEN, found: 3 }.into(),
            "truncated, expected 12 bytes of a record header, found 3",
            true,
        ),
        (
            ErrorKind::Truncated { position, expected: 500, found: 300 }.into(),
            "truncated, expected 500 bytes of a framed record, found 300",
            true,
        ),
        (
            ErrorKind::RecordTooLong { position, len: 1 << 40, max: 100 }.into(),
            "record of 1099511627776 bytes, expected at most 100",
            false,
        ),
        (
            ErrorKind::Compression { position, compression: Compression::Gzip, source: io() }.into(),
            "invalid gzip stream",
            false,
        ),
        (
            ErrorKind::WrongCompression { position, expected: Compression::None, found: Compression::Zlib }.into(),
            "expected compression none, found zlib",
            true,
        ),
    ]
}

#[test]
fn every_kind_says_where_and_what() {
    for (error, text, hinted) in every_kind() {
        assert_eq!(error.to_string(), format!("record 41877 at byte 9034112: {text}"));
        assert_eq!(error.position(), POSITION);
        assert_eq!(error.hint().is_some(), hinted, "{error}");
    }
}

#[test]
fn source_is_kept_and_not_repeated() {
    for (error, ..) in every_kind() {
        if let ErrorKind::Io { .. } | ErrorKind::Compression { .. } = error.kind() {
            assert_eq!(error.source().expect("a source").to_string(), "the cause");
            assert!(!error.to_string().contains("the cause"));
        } else {
            assert!(error.source().is_none(), "{error}");
        }
    }
}

#[test]
fn damage_at_the_start_may_be_another_format() {
    let position = Position::default();
    let length: Error = ErrorKind::LengthCrc { position, len: 7, found: 1, expected: 2 }.into();
    assert!(length.hint().is_some_and(|hint| hint.contains("may not be a TFRecord file")));

    let source = io::Error::other("the cause");
    let gzip: Error = ErrorKind::Compression { position, compression: Compression::Gzip, source }.into();
    assert!(gzip.hint().is_some_and(|hint| hint.contains("another compression")));
}

#[test]
fn zero_bytes_are_called_so() {
    for position in [POSITION, Position::default()] {
        let zeros: Error = ErrorKind::LengthCrc { position, len: 0, found: 0, expected: 0x0798_0329 }.into();
        assert!(zeros.hint().is_some_and(|hint| hint.contains("zero bytes")));
    }
}

#[test]
fn an_error_is_one_pointer() {
    assert_eq!(size_of::<Error>(), size_of::<usize>());
}
