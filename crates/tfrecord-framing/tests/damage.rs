//! Every known kind of TFRecord damage: what a reader reports, and what a scanner finds.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{error::Error, fmt::Write};

use tfrecord_framing::{Compression, Level, RecordReader, RecordScanner, RecordWriter, Records};

/// Frames at bytes 0, 21 and 43, end at 64.
const RECORDS: [&[u8]; 3] = [b"first", b"second", b"third"];

fn file(compression: Compression) -> Vec<u8> {
    let mut writer = RecordWriter::with_compression(Vec::new(), compression, Level::default());
    for record in RECORDS {
        writer.write_record(record).unwrap();
    }
    writer.finish().unwrap()
}

/// Formats the lines of the table: the records read, the error that ends reading, and the salvaged records.
fn report(name: &str, file: &[u8], named: Option<Compression>) -> String {
    let mut reader = match named {
        Some(compression) => RecordReader::with_compression(file, compression),
        None => RecordReader::detect(file),
    };
    let mut records = Records::new();
    let end = loop {
        match reader.read_records(9, &mut records) {
            Ok(0) => break "no error".to_owned(),
            Ok(_) => {}
            Err(error) => {
                let source = error.source().map(|source| format!(": {source}"));
                break format!("{error}{}", source.unwrap_or_default());
            }
        }
    };
    let mut lines = format!("{name}\n  read  {} records, {end}\n", records.len());

    let mut scanner = named.map_or_else(RecordScanner::detect, RecordScanner::with_compression);
    let (mut records, mut damage, mut input) = (Records::new(), Vec::new(), file);
    let scanned = loop {
        match scanner.scan(&mut input, 9, &mut records, &mut damage) {
            Ok(0) => break scanner.finish(&mut records, &mut damage),
            Ok(_) => {}
            Err(error) => break Err(error),
        }
    };
    let found = damage.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let found = match scanned {
        Ok(()) if found.is_empty() => "no damage".to_owned(),
        Ok(()) => found,
        Err(error) => format!("refused: {error}"),
    };
    writeln!(lines, "  scan  {} records, {found}", records.len()).unwrap();
    lines
}

#[test]
fn every_known_damage_is_reported() {
    let (plain, gzip, zlib) = (file(Compression::None), file(Compression::Gzip), file(Compression::Zlib));
    let flipped = |at: usize| {
        let mut file = plain.clone();
        file[at] ^= 1;
        file
    };
    let mut bad_gzip_crc = gzip.clone();
    bad_gzip_crc[gzip.len() - 8] ^= 1;
    let table = [
        report("empty file", b"", None),
        report("1 byte after the last record", &[&plain[..], b"x"].concat(), None),
        report("11 bytes after the last record", &[&plain[..], b"eleven byte"].concat(), None),
        report("64 zero bytes after the last record", &[&plain[..], &[0; 64]].concat(), None),
        report("cut between records (cannot be seen without a manifest)", &plain[..43], None),
        report("cut inside a header", &plain[..50], None),
        report("cut inside a payload", &plain[..57], None),
        report("cut inside a footer", &plain[..63], None),
        report("flipped bit: length", &flipped(21), None),
        report("flipped bit: checksum of the length", &flipped(29), None),
        report("flipped bit: payload", &flipped(33), None),
        report("flipped bit: checksum of the payload", &flipped(39), None),
        report("flipped bit: length of the first record", &flipped(0), None),
        report("gzip, two members", &[&gzip[..], &gzip].concat(), None),
        report("gzip without its trailer", &gzip[..gzip.len() - 8], None),
        report("gzip with half its trailer", &gzip[..gzip.len() - 4], None),
        report("gzip with a wrong checksum", &bad_gzip_crc, None),
        report("gzip and zero bytes", &[&gzip[..], &[0; 64]].concat(), None),
        report("gzip cut in its data", &gzip[..30], None),
        report("zlib, two streams", &[&zlib[..], &zlib].concat(), None),
        report("zlib and another byte", &[&zlib[..], b"x"].concat(), None),
        report("zlib without its trailer", &zlib[..zlib.len() - 4], None),
        report("gzip read as none", &gzip, Some(Compression::None)),
        report("none read as gzip", &plain, Some(Compression::Gzip)),
        report("zlib read as gzip", &zlib, Some(Compression::Gzip)),
        report("no TFRecord file", b"version https://git-lfs.github.com/spec/v1\n", None),
    ]
    .concat();
    insta::assert_snapshot!(table, @"
    empty file
      read  0 records, no error
      scan  0 records, no damage
    1 byte after the last record
      read  3 records, record 3 at byte 64: truncated, expected 12 bytes of a record header, found 1
      scan  3 records, record 3 at byte 64: truncated, 1 byte lost
    11 bytes after the last record
      read  3 records, record 3 at byte 64: truncated, expected 12 bytes of a record header, found 11
      scan  3 records, record 3 at byte 64: truncated, 11 bytes lost
    64 zero bytes after the last record
      read  3 records, record 3 at byte 64: length 0 has the checksum 0x00000000, expected 0x07980329
      scan  3 records, record 3 at byte 64: zero bytes where a record should start, 64 bytes lost
    cut between records (cannot be seen without a manifest)
      read  2 records, no error
      scan  2 records, no damage
    cut inside a header
      read  2 records, record 2 at byte 43: truncated, expected 12 bytes of a record header, found 7
      scan  2 records, record 2 at byte 43: truncated, 7 bytes lost
    cut inside a payload
      read  2 records, record 2 at byte 43: truncated, expected 21 bytes of a framed record, found 14
      scan  2 records, record 2 at byte 43: truncated, 14 bytes lost
    cut inside a footer
      read  2 records, record 2 at byte 43: truncated, expected 21 bytes of a framed record, found 20
      scan  2 records, record 2 at byte 43: truncated, 20 bytes lost
    flipped bit: length
      read  1 records, record 1 at byte 21: length 7 has the checksum 0x37d56973, expected 0x119fd7bb
      scan  2 records, record 1 at byte 21: length does not match its checksum, 22 bytes lost
    flipped bit: checksum of the length
      read  1 records, record 1 at byte 21: length 6 has the checksum 0x37d56972, expected 0x37d56973
      scan  2 records, record 1 at byte 21: length does not match its checksum, 22 bytes lost
    flipped bit: payload
      read  1 records, record 1 at byte 21: payload of 6 bytes has the checksum 0xcad3e0d3, expected 0xa0e61673
      scan  2 records, record 1 at byte 21: payload does not match its checksum, 22 bytes lost
    flipped bit: checksum of the payload
      read  1 records, record 1 at byte 21: payload of 6 bytes has the checksum 0xcad3e0d2, expected 0xcad3e0d3
      scan  2 records, record 1 at byte 21: payload does not match its checksum, 22 bytes lost
    flipped bit: length of the first record
      read  0 records, record 0 at byte 0: length 4 has the checksum 0x3e04b2ea, expected 0x04524542
      scan  2 records, record 0 at byte 0: length does not match its checksum, 21 bytes lost
    gzip, two members
      read  6 records, no error
      scan  6 records, no damage
    gzip without its trailer
      read  3 records, record 3 at byte 64: invalid gzip stream: the stream is truncated
      scan  3 records, record 3 at byte 64: invalid gzip stream: the stream is truncated
    gzip with half its trailer
      read  3 records, record 3 at byte 64: invalid gzip stream: the stream is truncated
      scan  3 records, record 3 at byte 64: invalid gzip stream: the stream is truncated
    gzip with a wrong checksum
      read  3 records, record 3 at byte 64: invalid gzip stream: the stream is damaged, or compressed in another way
      scan  3 records, record 3 at byte 64: invalid gzip stream: the stream is damaged, or compressed in another way, bytes 62 to 66 of the file passed over
    gzip and zero bytes
      read  3 records, record 3 at byte 64: invalid gzip stream: zero bytes follow the last gzip member
      scan  3 records, record 3 at byte 64: invalid gzip stream: zero bytes follow the last gzip member, bytes 66 to 130 of the file passed over
    gzip cut in its data
      read  1 records, record 1 at byte 21: invalid gzip stream: the stream is truncated
      scan  1 records, record 1 at byte 21: invalid gzip stream: the stream is truncated, 1 byte lost
    zlib, two streams
      read  3 records, record 3 at byte 64: invalid zlib stream: bytes follow the end of the zlib stream
      scan  6 records, record 3 at byte 64: invalid zlib stream: bytes follow the end of the zlib stream
    zlib and another byte
      read  3 records, record 3 at byte 64: invalid zlib stream: bytes follow the end of the zlib stream
      scan  3 records, record 3 at byte 64: invalid zlib stream: bytes follow the end of the zlib stream
    zlib without its trailer
      read  3 records, record 3 at byte 64: invalid zlib stream: the stream is truncated
      scan  3 records, record 3 at byte 64: invalid zlib stream: the stream is truncated
    gzip read as none
      read  0 records, record 0 at byte 0: expected compression none, found gzip
      scan  0 records, refused: record 0 at byte 0: expected compression none, found gzip
    none read as gzip
      read  0 records, record 0 at byte 0: expected compression gzip, found none
      scan  0 records, refused: record 0 at byte 0: expected compression gzip, found none
    zlib read as gzip
      read  0 records, record 0 at byte 0: expected compression gzip, found zlib
      scan  0 records, refused: record 0 at byte 0: expected compression gzip, found zlib
    no TFRecord file
      read  0 records, record 0 at byte 0: length 2336927755350992246 has the checksum 0x70747468, expected 0x34db5380
      scan  0 records, record 0 at byte 0: length does not match its checksum, 43 bytes lost
    ");
}
