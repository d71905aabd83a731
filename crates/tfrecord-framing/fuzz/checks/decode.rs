//! Checks that decoding any bytes gives the same records, errors and positions for all divisions into pieces and all
//! readers.

use std::io::{self, Read};

use tfrecord_framing::{
    CrcPolicy, FOOTER_LEN, HEADER_LEN, Position, RecordDecoder, RecordReader, Records, seal_record,
};

/// The record length limit. A few bytes of deflate can expand to a long record.
const MAX_RECORD_LEN: usize = 1 << 20;

pub fn check(file: &[u8]) {
    let decoded = check_pieces(file, CrcPolicy::Verify);
    let reader = RecordReader::detect(Slow(file, 29)).with_max_record_len(MAX_RECORD_LEN);
    assert_eq!(read(reader), decoded);
    check_pieces(file, CrcPolicy::Skip);
    let sealed = sealed(file);
    if sealed != file {
        check_pieces(&sealed, CrcPolicy::Verify);
    }
}

/// Repairs the checksums of all frames that fit, so that mutated bytes get past the checksum checks.
fn sealed(file: &[u8]) -> Vec<u8> {
    let mut sealed = file.to_vec();
    let mut rest = sealed.as_mut_slice();
    while let Some(len) = rest.first_chunk().map(|len| u64::from_le_bytes(*len)) {
        let len = usize::try_from(len).ok().and_then(|len| len.checked_add(HEADER_LEN + FOOTER_LEN));
        let Some((frame, behind)) = len.and_then(|len| rest.split_at_mut_checked(len)) else { break };
        seal_record(frame);
        rest = behind;
    }
    sealed
}

fn check_pieces(file: &[u8], policy: CrcPolicy) -> Decoded {
    let decoder = || RecordDecoder::detect().with_crc_policy(policy).with_max_record_len(MAX_RECORD_LEN);
    let whole = decode(decoder(), file, file.len().max(1), usize::MAX);
    assert_eq!(decode(decoder(), file, 13, 2), whole);
    assert_eq!(decode_frames(decoder(), file, 1, 1), whole);
    assert_eq!(decode_frames(decoder(), file, 100, 7), whole);

    let (records, errors, end) = &whole;
    for pair in records.windows(2) {
        let [(before, payload), (position, _)] = pair else { unreachable!("windows of two") };
        assert!(position.byte >= before.byte + (HEADER_LEN + payload.len() + FOOTER_LEN) as u64);
    }
    if errors.is_empty() {
        let framed: usize = records.iter().map(|(_, payload)| HEADER_LEN + payload.len() + FOOTER_LEN).sum();
        assert_eq!(*end, Position { record: records.len() as u64, byte: framed as u64 });
    }
    whole
}

/// Records with their positions, errors in order, and the position of the next record.
type Decoded = (Vec<(Position, Vec<u8>)>, Vec<String>, Position);

fn decode(mut decoder: RecordDecoder, file: &[u8], piece: usize, limit: usize) -> Decoded {
    let (mut records, mut errors) = (Records::new(), Vec::new());
    for mut piece in file.chunks(piece) {
        loop {
            match decoder.decode(&mut piece, limit, &mut records) {
                Ok(0) => break,
                Ok(decoded) => assert!(decoded <= limit),
                Err(error) => errors.push(error.to_string()),
            }
        }
        assert!(piece.is_empty());
    }
    errors.extend(decoder.finish().err().map(|error| error.to_string()));
    let records = records.positions().iter().copied().zip(records.iter().map(<[u8]>::to_vec));
    (records.collect(), errors, decoder.position())
}

fn decode_frames(mut decoder: RecordDecoder, file: &[u8], piece: usize, limit: usize) -> Decoded {
    let (mut records, mut errors) = (Vec::new(), Vec::new());
    for mut piece in file.chunks(piece) {
        loop {
            match decoder.decode_frames(&mut piece, limit) {
                Ok(frames) if frames.is_empty() => break,
                Ok(frames) => {
                    assert!(frames.len() <= limit);
                    records.extend(frames.iter().map(|(payload, at)| (at, frames.bytes()[payload].to_vec())));
                }
                Err(error) => errors.push(error.to_string()),
            }
        }
        assert!(piece.is_empty());
    }
    errors.extend(decoder.finish().err().map(|error| error.to_string()));
    (records, errors, decoder.position())
}

fn read(mut reader: RecordReader<Slow<'_>>) -> Decoded {
    let (mut records, mut errors) = (Vec::new(), Vec::new());
    let mut record = Vec::new();
    loop {
        match reader.read_record(&mut record) {
            Ok(true) => {
                let mut position = reader.position();
                position.record -= 1;
                position.byte -= (HEADER_LEN + record.len() + FOOTER_LEN) as u64;
                records.push((position, record.clone()));
            }
            Ok(false) => return (records, errors, reader.position()),
            Err(error) => errors.push(error.to_string()),
        }
    }
}

/// Returns at most this many bytes per read.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = buf.len().min(self.1);
        self.0.read(&mut buf[..len])
    }
}
