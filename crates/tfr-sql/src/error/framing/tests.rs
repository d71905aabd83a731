use std::io;

use tfrecord_framing::Compression;

use super::*;

#[test]
fn damage_at_the_start_may_be_another_format() {
    let position = Position::default();
    let length: Error = ErrorKind::LengthCrc { position, len: 7, found: 1, expected: 2 }.into();
    assert!(hint(&length).is_some_and(|hint| hint.contains("may not be a TFRecord file")));

    let source = io::Error::other("the cause");
    let gzip: Error = ErrorKind::Compression { position, compression: Compression::Gzip, source }.into();
    assert!(hint(&gzip).is_some_and(|hint| hint.contains("another compression")));
}

#[test]
fn framing_hint_names_zero_bytes() {
    for position in [Position { record: 7, byte: 64 }, Position::default()] {
        let zeros: Error = ErrorKind::LengthCrc { position, len: 0, found: 0, expected: 0x0798_0329 }.into();
        assert!(hint(&zeros).is_some_and(|hint| hint.contains("zero bytes")));
    }
}
