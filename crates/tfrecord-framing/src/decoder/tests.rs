use super::*;
use crate::{Level, RecordWriter};

fn file(records: &[&[u8]], compression: Compression) -> Vec<u8> {
    let mut writer = RecordWriter::with_compression(Vec::new(), compression, Level::default());
    for record in records {
        writer.write_record(record).unwrap();
    }
    writer.finish().unwrap()
}

/// Decodes a whole file and returns its records and the first error.
fn decode(mut decoder: RecordDecoder, mut file: &[u8]) -> (Records, Result<()>) {
    let mut records = Records::new();
    loop {
        match decoder.decode(&mut file, 2, &mut records) {
            Ok(0) => return (records, decoder.finish()),
            Ok(_) => {}
            Err(error) => return (records, Err(error)),
        }
    }
}

const RECORDS: [&[u8]; 3] = [b"first", b"", b"third"];

#[test]
fn decoder_stops_at_the_limit_without_skipping() {
    for compression in [Compression::None, Compression::Gzip, Compression::Zlib] {
        let file = file(&RECORDS, compression);
        let mut decoder = RecordDecoder::with_compression(compression);
        let (mut input, mut records) = (file.as_slice(), Records::new());
        assert_eq!(decoder.decode(&mut input, 0, &mut records).unwrap(), 0);
        assert_eq!(decoder.decode(&mut input, 2, &mut records).unwrap(), 2);
        assert_eq!(decoder.position(), Position { record: 2, byte: 37 });
        assert_eq!(decoder.decode(&mut input, 2, &mut records).unwrap(), 1);
        assert_eq!(decoder.decode(&mut input, 2, &mut records).unwrap(), 0);
        decoder.finish().unwrap();
        assert!(input.is_empty());
        assert_eq!(records.iter().collect::<Vec<_>>(), RECORDS);
        assert_eq!(records.positions().iter().map(|at| at.byte).collect::<Vec<_>>(), [0, 21, 37]);
    }
}

#[test]
fn decoder_detects_compression_by_content() {
    for compression in [Compression::None, Compression::Gzip, Compression::Zlib] {
        for records in [&RECORDS[..], &[]] {
            let file = file(records, compression);
            let mut decoder = RecordDecoder::detect();
            let mut found = Records::new();
            while decoder.decode(&mut file.as_slice(), 9, &mut found).unwrap() == 9 {}
            assert_eq!(found.iter().collect::<Vec<_>>(), records);
            if !file.is_empty() {
                decoder.finish().unwrap();
                assert_eq!(decoder.container(), Some(compression.into()));
            }
        }
    }
}

#[test]
fn another_compression_than_expected_is_named() {
    let all = [Compression::None, Compression::Gzip, Compression::Zlib];
    for (named, real) in all.into_iter().flat_map(|named| all.map(|real| (named, real))) {
        let (records, end) = decode(RecordDecoder::with_compression(named), &file(&RECORDS, real));
        if named == real {
            end.unwrap();
            assert_eq!(records.len(), 3);
        } else {
            let error = end.unwrap_err();
            let ErrorKind::WrongContainer { expected, found, .. } = error.kind() else { panic!("{error}") };
            assert_eq!((*expected, *found), (named.into(), real.into()));
        }
    }
}

#[test]
fn an_empty_file_has_no_records_under_any_compression() {
    for decoder in [RecordDecoder::new(), RecordDecoder::detect(), RecordDecoder::with_compression(Compression::Gzip)] {
        let (records, end) = decode(decoder, b"");
        end.unwrap();
        assert!(records.is_empty());
    }
}

#[test]
fn checksums_are_skipped_on_demand() {
    let mut file = file(&RECORDS, Compression::None);
    file[8..12].fill(0);
    file[17..21].fill(0);
    let (records, end) = decode(RecordDecoder::new(), &file);
    assert!(records.is_empty() && matches!(end.unwrap_err().kind(), ErrorKind::LengthCrc { .. }));
    for decoder in [RecordDecoder::new(), RecordDecoder::detect()] {
        let (records, end) = decode(decoder.with_crc_policy(CrcPolicy::Skip), &file);
        end.unwrap();
        assert_eq!(records.iter().collect::<Vec<_>>(), RECORDS);
    }
}

/// No memory is allocated for bytes that a length claims but the file does not contain.
#[test]
fn a_length_without_checksum_gets_no_memory() {
    let mut decoder = RecordDecoder::new().with_crc_policy(CrcPolicy::Skip);
    let mut records = Records::new();
    let file = [&(MAX_RECORD_LEN as u64).to_le_bytes()[..], &[7; 1000]].concat();
    assert_eq!(decoder.decode(&mut file.as_slice(), 1, &mut records).unwrap(), 0);
    assert!(decoder.splitter.partial.capacity() < 1 << 20 && records.memory_size() == 0);
    let error = decoder.finish().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Truncated { found: 1008, .. }));

    let file = (MAX_RECORD_LEN as u64 + 1).to_le_bytes().repeat(2);
    let (_, end) = decode(RecordDecoder::new().with_crc_policy(CrcPolicy::Skip), &file);
    assert!(matches!(end.unwrap_err().kind(), ErrorKind::RecordTooLong { .. }));
}

#[test]
fn decoder_continues_after_a_damaged_payload_in_any_pieces() {
    let mut file = file(&RECORDS, Compression::None);
    file[HEADER_LEN] ^= 1;
    for len in 1..file.len() {
        let (mut decoder, mut records, mut errors) = (RecordDecoder::new(), Records::new(), Vec::new());
        for mut piece in file.chunks(len) {
            loop {
                match decoder.decode(&mut piece, 9, &mut records) {
                    Ok(0) => break,
                    Ok(_) => {}
                    Err(error) => errors.push(error.to_string()),
                }
            }
        }
        decoder.finish().unwrap();
        assert_eq!(records.iter().collect::<Vec<_>>(), RECORDS[1..]);
        assert_eq!(records.positions()[0], Position { record: 1, byte: 21 });
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].starts_with("record 0 at byte 0: payload of 5 bytes"));
    }
}

#[test]
fn decoder_ends_after_a_damaged_length() {
    let mut file = file(&RECORDS, Compression::None);
    file[21] ^= 1;
    let mut decoder = RecordDecoder::new();
    let (mut input, mut records) = (file.as_slice(), Records::new());
    assert_eq!(decoder.decode(&mut input, 1, &mut records).unwrap(), 1);
    decoder.decode(&mut input, 1, &mut records).unwrap_err();
    assert_eq!(decoder.decode(&mut input, 1, &mut records).unwrap(), 0);
    assert!(input.is_empty());
    decoder.finish().unwrap();
}

/// A range of a file, starting at a known record.
#[test]
fn decoding_can_start_at_any_record() {
    let file = file(&RECORDS, Compression::None);
    let start = Position { record: 2, byte: 37 };
    let (records, end) = decode(RecordDecoder::new().with_position(start), &file[37..]);
    end.unwrap();
    assert_eq!((records.get(0), records.positions()), (Some(&b"third"[..]), &[start][..]));

    let (_, end) = decode(RecordDecoder::new().with_position(start), &file[37..50]);
    assert_eq!(end.unwrap_err().position(), start);
}
