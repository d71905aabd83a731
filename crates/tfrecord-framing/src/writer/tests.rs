use super::*;
use crate::RecordReader;

const ALL: [Compression; 3] = [Compression::None, Compression::Gzip, Compression::Zlib];

fn writer<W: Write>(inner: W, compression: Compression) -> RecordWriter<W> {
    RecordWriter::with_compression(inner, compression, Level::default())
}

/// Accepts `left` bytes, then fails like a full disk.
struct Full {
    left: usize,
}

impl Write for Full {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let taken = buf.len().min(self.left);
        self.left -= taken;
        if taken == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_file_without_records_is_valid() {
    for compression in ALL {
        let file = writer(Vec::new(), compression).finish().unwrap();
        assert_eq!(file.is_empty(), compression == Compression::None);
        let mut reader = RecordReader::with_compression(file.as_slice(), compression);
        assert!(!reader.read_record(&mut Vec::new()).unwrap());
    }
}

#[test]
fn position_counts_framed_bytes_under_every_compression() {
    for compression in ALL {
        let mut writer = writer(Vec::new(), compression);
        writer.write_record(&[0; 100]).unwrap();
        writer.write_record(b"").unwrap();
        assert_eq!(writer.position(), Position { record: 2, byte: 116 + 16 });
    }
}

#[test]
fn a_full_disk_is_reported_with_its_cause() {
    for compression in ALL {
        let mut writer = writer(Full { left: 5 }, compression);
        writer.write_record(b"a record").unwrap();
        let Err(error) = writer.finish() else { panic!("{compression} wrote past a full disk") };
        assert_eq!(error.position().record, 1);
        let ErrorKind::Io { source, .. } = error.into_kind() else { panic!("expected Io") };
        assert_eq!(source.kind(), io::ErrorKind::StorageFull);
    }
}

#[test]
fn a_dropped_writer_ends_no_stream() {
    for compression in ALL {
        let mut file = Vec::new();
        let mut writer = writer(&mut file, compression);
        writer.write_record(b"a record").unwrap();
        drop(writer);
        assert!(file.is_empty(), "{compression}");
    }
}

#[test]
fn writer_rejects_incomplete_frames() {
    let mut frames = RecordWriter::new(Vec::new());
    frames.write_record(b"first").unwrap();
    frames.write_record(b"second").unwrap();
    let frames = frames.finish().unwrap();
    let refused = |framed: &[u8]| {
        let mut writer = RecordWriter::new(Vec::new());
        let error = writer.write_framed(framed).unwrap_err();
        assert_eq!(error.position(), Position { record: 1, byte: 21 });
        assert_eq!(writer.position(), Position { record: 1, byte: 21 });
        error.into_kind()
    };

    assert!(matches!(refused(&frames[..30]), ErrorKind::Truncated { expected: HEADER_LEN, found: 9, .. }));
    assert!(matches!(refused(&frames[..40]), ErrorKind::Truncated { expected: 22, found: 19, .. }));
    let mut damaged = frames.clone();
    damaged[21] ^= 1;
    assert!(matches!(refused(&damaged), ErrorKind::LengthCrc { len: 7, .. }));
}
