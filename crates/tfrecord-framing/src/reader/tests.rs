use super::*;
use crate::{HEADER_LEN, Level, MAX_RECORD_LEN, RecordWriter, masked_crc32c};

/// Limit of the memory allocated for bytes that are not present.
const SMALL_LEN: usize = 1 << 20;

fn file(records: &[&[u8]], compression: Compression) -> Vec<u8> {
    let mut writer = RecordWriter::with_compression(Vec::new(), compression, Level::default());
    for record in records {
        writer.write_record(record).unwrap();
    }
    writer.finish().unwrap()
}

/// An intact header that announces `len` bytes.
fn header(len: u64) -> Vec<u8> {
    let len = len.to_le_bytes();
    [&len[..], &masked_crc32c(&len).to_le_bytes()].concat()
}

/// Returns one byte at a time, each after an interruption, and fails at the end.
struct Slow<'a> {
    bytes: &'a [u8],
    interrupt: bool,
}

impl Read for Slow<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.interrupt = !self.interrupt;
        if self.interrupt {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if self.bytes.is_empty() {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let len = buf.len().min(1);
        self.bytes.read(&mut buf[..len])
    }
}

#[test]
fn a_failing_input_is_reported_with_its_cause() {
    for compression in [Compression::None, Compression::Gzip, Compression::Zlib] {
        let file = file(&[b"first", b"second"], compression);
        let mut reader = RecordReader::with_compression(Slow { bytes: &file, interrupt: false }, compression);
        let mut record = Vec::new();
        assert!(reader.read_record(&mut record).unwrap());
        assert_eq!(record, b"first");
        assert!(reader.read_record(&mut record).unwrap());
        assert_eq!(record, b"second");

        let error = reader.read_record(&mut record).unwrap_err();
        assert_eq!(error.position(), Position { record: 2, byte: 21 + 22 });
        let ErrorKind::Io { source, .. } = error.into_kind() else { panic!("expected Io") };
        assert_eq!(source.kind(), io::ErrorKind::ConnectionReset);
    }
}

#[test]
fn a_long_record_is_refused_by_its_header() {
    let mut record = Vec::new();
    for len in [MAX_RECORD_LEN as u64 + 1, u64::MAX] {
        let error = RecordReader::new(header(len).as_slice()).read_record(&mut record).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::RecordTooLong { max: MAX_RECORD_LEN, .. }));
    }

    let file = file(&[&[0; 10]], Compression::None);
    assert!(RecordReader::new(file.as_slice()).with_max_record_len(10).read_record(&mut record).unwrap());
    let mut record = Vec::new();
    let error = RecordReader::new(file.as_slice()).with_max_record_len(9).read_record(&mut record).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::RecordTooLong { len: 10, max: 9, .. }));
    assert_eq!(record.capacity(), 0);
}

#[test]
fn a_length_without_its_bytes_gets_no_memory() {
    let mut record = Vec::new();
    let file = [header(MAX_RECORD_LEN as u64), vec![0; 100]].concat();
    let error = RecordReader::new(file.as_slice()).read_record(&mut record).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Truncated { found: 112, .. }));
    assert!(record.is_empty());
    assert!(record.capacity() < SMALL_LEN);
}

#[test]
fn reading_goes_on_after_a_damaged_payload() {
    let mut file = file(&[b"first", b"second", b"third"], Compression::None);
    file[21 + HEADER_LEN] ^= 1;
    let mut reader = RecordReader::new(file.as_slice());
    let mut record = Vec::new();
    assert!(reader.read_record(&mut record).unwrap());
    let error = reader.read_record(&mut record).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::DataCrc { position: Position { record: 1, byte: 21 }, len: 6, .. }));
    assert!(record.is_empty());
    assert!(reader.read_record(&mut record).unwrap());
    assert_eq!(record, b"third");
    assert!(!reader.read_record(&mut record).unwrap());
}

#[test]
fn reading_ends_after_a_damaged_length() {
    let mut file = file(&[b"first", b"second", b"third"], Compression::None);
    file[21] ^= 1;
    let mut reader = RecordReader::new(file.as_slice());
    let mut record = Vec::new();
    assert!(reader.read_record(&mut record).unwrap());
    let error = reader.read_record(&mut record).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::LengthCrc { position: Position { record: 1, byte: 21 }, .. }));
    assert!(!reader.read_record(&mut record).unwrap());
}

#[test]
fn reader_distinguishes_a_cut_stream_from_a_damaged_one() {
    for compression in [Compression::Gzip, Compression::Zlib] {
        let file = file(&[&[7; 5000], b"second"], compression);
        let kind = |file: &[u8]| {
            let mut reader = RecordReader::with_compression(file, compression);
            let mut record = Vec::new();
            loop {
                match reader.read_record(&mut record) {
                    Ok(true) => {}
                    Ok(false) => panic!("damage went unnoticed"),
                    Err(error) => match error.into_kind() {
                        ErrorKind::Compression { source, .. } => return source.kind(),
                        other => panic!("expected Compression, found {other}"),
                    },
                }
            }
        };
        assert_eq!(kind(&file[..file.len() - 1]), io::ErrorKind::UnexpectedEof);
        let mut damaged = file.clone();
        *damaged.last_mut().unwrap() ^= 1;
        assert_eq!(kind(&damaged), io::ErrorKind::InvalidData);
    }
}
