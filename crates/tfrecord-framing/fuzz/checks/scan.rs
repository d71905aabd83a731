//! Checks the scan of any bytes. Intact records and damage cover every byte of the file exactly once. The result does
//! not depend on the division into pieces. It includes all records that a decoder reads before the first damage.

use std::ops::Range;

use tfrecord_framing::{
    Container, Damage, FOOTER_LEN, HEADER_LEN, Position, RecordDecoder, RecordScanner, Records, masked_crc32c,
};

/// The record length limit. A few bytes of deflate can expand to a long record.
const MAX_RECORD_LEN: usize = 1 << 20;

pub fn check(file: &[u8]) {
    let whole = scan(file, file.len().max(1), usize::MAX);
    for (piece, limit) in [(1, 1), (13, 2), (100, 7)] {
        assert_eq!(scan(file, piece, limit), whole);
    }
    let Some((container, records, damage)) = whole else { return };

    let framed = |(position, payload): (&Position, &[u8])| {
        position.byte..position.byte + (HEADER_LEN + payload.len() + FOOTER_LEN) as u64
    };
    let sound: Vec<Range<u64>> = records.positions().iter().zip(records.iter()).map(framed).collect();
    let mut stretches: Vec<_> = sound.iter().cloned().zip(records.positions().iter().map(|at| at.record)).collect();
    stretches.extend(damage.iter().map(|damage| (damage.range.clone(), damage.record)));
    stretches.sort_by_key(|(range, record)| (*record, range.start));
    let mut end = 0;
    for (number, (range, record)) in stretches.iter().enumerate() {
        assert_eq!((range.start, *record), (end, number as u64));
        end = range.end;
    }
    if container == Some(Container::PLAIN) {
        assert_eq!(end, file.len() as u64);
        for (range, payload) in sound.iter().zip(records.iter()) {
            let footer = range.end as usize - FOOTER_LEN;
            assert_eq!(file[range.start as usize..][..8], (payload.len() as u64).to_le_bytes());
            assert_eq!(file[footer..][..FOOTER_LEN], masked_crc32c(payload).to_le_bytes());
        }
    }

    let mut decoded = Records::new();
    let mut decoder = RecordDecoder::detect().with_max_record_len(MAX_RECORD_LEN);
    let mut input = file;
    let is_sound = loop {
        match decoder.decode(&mut input, 1, &mut decoded) {
            Ok(0) => break decoder.finish().is_ok(),
            Ok(_) => {}
            Err(_) => break false,
        }
    };
    assert_eq!(is_sound, damage.is_empty());
    let pairs = |records: &Records, len| -> Vec<_> {
        records.positions().iter().copied().zip(records.iter().map(<[u8]>::to_vec)).take(len).collect()
    };
    assert_eq!(pairs(&decoded, decoded.len()), pairs(&records, decoded.len()));
}

/// The container, the intact records and the damage; `None` if the container is rejected.
type Scanned = Option<(Option<Container>, Records, Vec<Damage>)>;

fn scan(file: &[u8], piece: usize, limit: usize) -> Scanned {
    let mut scanner = RecordScanner::detect().with_max_record_len(MAX_RECORD_LEN);
    let (mut records, mut damage) = (Records::new(), Vec::new());
    for mut piece in file.chunks(piece) {
        loop {
            match scanner.scan(&mut piece, limit, &mut records, &mut damage) {
                Ok(0) => break,
                Ok(scanned) => assert!(scanned <= limit),
                Err(_) => return None,
            }
        }
        assert!(piece.is_empty());
    }
    scanner.finish(&mut records, &mut damage).ok()?;
    Some((scanner.container(), records, damage))
}
