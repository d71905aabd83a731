use std::error::Error as _;

use super::*;

const POSITION: Position = Position { record: 41_877, byte: 9_034_112 };

/// One error of each kind and its text.
fn every_kind() -> Vec<(Error, &'static str)> {
    let position = POSITION;
    let io = || io::Error::other("the cause");
    vec![
        (ErrorKind::Io { position, source: io() }.into(), "input/output failed"),
        (
            ErrorKind::LengthCrc { position, len: 7, found: 0x12, expected: 0xdead_beef }.into(),
            "length 7 has the checksum 0x00000012, expected 0xdeadbeef",
        ),
        (
            ErrorKind::DataCrc { position, len: 7, found: 0x12, expected: 0xdead_beef }.into(),
            "payload of 7 bytes has the checksum 0x00000012, expected 0xdeadbeef",
        ),
        (
            ErrorKind::Truncated { position, expected: HEADER_LEN, found: 3 }.into(),
            "truncated, expected 12 bytes of a record header, found 3",
        ),
        (
            ErrorKind::Truncated { position, expected: 500, found: 300 }.into(),
            "truncated, expected 500 bytes of a framed record, found 300",
        ),
        (
            ErrorKind::RecordTooLong { position, len: 1 << 40, max: 100 }.into(),
            "record of 1099511627776 bytes, expected at most 100",
        ),
        (
            ErrorKind::Compression { position, compression: Compression::Gzip, source: io() }.into(),
            "invalid gzip stream",
        ),
        (
            ErrorKind::WrongContainer { position, expected: Container::PLAIN, found: Compression::Zlib.into() }.into(),
            "expected compression none, found zlib",
        ),
        (
            ErrorKind::WrongContainer { position, expected: Compression::Gzip.into(), found: Container::ArrayRecord }
                .into(),
            "expected TFRecord with gzip, found ArrayRecord",
        ),
    ]
}

#[test]
fn error_display_reports_position_and_problem() {
    for (error, text) in every_kind() {
        assert_eq!(error.to_string(), format!("record 41877 at byte 9034112: {text}"));
        assert_eq!(error.position(), POSITION);
    }
}

#[test]
fn source_is_kept_and_not_repeated() {
    for (error, _) in every_kind() {
        if let ErrorKind::Io { .. } | ErrorKind::Compression { .. } = error.kind() {
            assert_eq!(error.source().expect("a source").to_string(), "the cause");
            assert!(!error.to_string().contains("the cause"));
        } else {
            assert!(error.source().is_none(), "{error}");
        }
    }
}

#[test]
fn an_error_is_one_pointer() {
    assert_eq!(size_of::<Error>(), size_of::<usize>());
}
