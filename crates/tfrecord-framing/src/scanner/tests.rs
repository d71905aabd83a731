use std::{collections::HashSet, convert::Infallible};

use super::*;
use crate::{GZIP_BLOCK_LEN, HEADER_LEN, append_record, gzip_member};
use crate::{Level, RecordWriter, masked_crc32c};

fn file(records: &[&[u8]]) -> Vec<u8> {
    let mut writer = RecordWriter::with_compression(Vec::new(), Compression::None, Level::default());
    for record in records {
        writer.write_record(record).unwrap();
    }
    writer.finish().unwrap()
}

fn header(len: u64) -> Vec<u8> {
    let len = len.to_le_bytes();
    [&len[..], &masked_crc32c(&len).to_le_bytes()].concat()
}

/// Returns the intact records and the damage of a file, which together cover it.
fn scan(mut scanner: RecordScanner, mut file: &[u8]) -> (Records, Vec<Damage>) {
    let (first, len) = (scanner.position.byte, file.len() as u64);
    let (mut records, mut damage) = (Records::new(), Vec::new());
    while scanner.scan(&mut file, 2, &mut records, &mut damage).unwrap() > 0 {}
    scanner.finish(&mut records, &mut damage).unwrap();

    let frames = records.positions().iter().zip(records.iter());
    let frames = frames.map(|(at, payload)| (at.byte..at.byte + (OVERHEAD + payload.len()) as u64, at.record));
    let mut parts: Vec<_> = frames.chain(damage.iter().map(|damage| (damage.range.clone(), damage.record))).collect();
    parts.sort_by_key(|(range, _)| range.start);
    let mut covered = first;
    for (i, (range, record)) in parts.iter().enumerate() {
        assert_eq!((range.start, *record), (covered, i as u64), "{parts:?}");
        covered = range.end;
    }
    assert_eq!(covered, first + len);
    (records, damage)
}

const RECORDS: [&[u8]; 5] = [b"first", b"", b"the third record", b"4", b"the last"];

#[test]
fn a_sound_file_has_no_damage() {
    for records in [&RECORDS[..], &[]] {
        let (found, damage) = scan(RecordScanner::new(), &file(records));
        assert_eq!(found.iter().collect::<Vec<_>>(), records);
        assert_eq!(damage, []);
    }
}

#[test]
fn every_other_record_is_recovered_after_any_flipped_bit() {
    let whole = file(&RECORDS);
    for bit in 0..8 * whole.len() {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let hit = (1..5).rfind(|&n| file(&RECORDS[..n]).len() <= bit / 8).unwrap_or(0);
        let (found, damage) = scan(RecordScanner::new(), &damaged);
        let others = RECORDS.iter().enumerate().filter(|(i, _)| *i != hit);
        assert_eq!(found.iter().collect::<Vec<_>>(), others.map(|(_, record)| *record).collect::<Vec<_>>());
        let frame = file(&RECORDS[..hit]).len() as u64..file(&RECORDS[..=hit]).len() as u64;
        assert_eq!((damage.len(), &damage[0].range, damage[0].record), (1, &frame, hit as u64), "at bit {bit}");
    }
}

#[test]
fn records_are_found_from_any_byte_on() {
    let whole = file(&RECORDS);
    let starts: Vec<usize> = (0..=5).map(|n| file(&RECORDS[..n]).len()).collect();
    for from in 1..whole.len() {
        let position = Position { record: 0, byte: from as u64 };
        let (found, damage) = scan(RecordScanner::new().with_position(position), &whole[from..]);
        let next = starts.iter().position(|&start| start >= from).unwrap();
        assert_eq!(found.iter().collect::<Vec<_>>(), RECORDS[next..]);
        assert_eq!(damage.is_empty(), starts.contains(&from), "{damage:?}");
        assert_eq!(found.positions().iter().map(|at| at.byte as usize).collect::<Vec<_>>(), starts[next..5]);
    }
}

/// Bytes removed, duplicated or inserted, not only changed.
#[test]
fn records_are_found_behind_a_hole() {
    let whole = file(&RECORDS);
    let third = file(&RECORDS[..2]).len();
    for (from, to) in [(third + 14, third + 20), (third + 2, third + 9), (third + 12, third + 28)] {
        let holed = [&whole[..from], &whole[to..]].concat();
        let (found, damage) = scan(RecordScanner::new(), &holed);
        assert_eq!(found.iter().collect::<Vec<_>>(), [RECORDS[0], RECORDS[1], RECORDS[3], RECORDS[4]]);
        assert_eq!(damage.len(), 1);

        let stuffed = [&whole[..from], b"in between", &whole[from..]].concat();
        let (found, damage) = scan(RecordScanner::new(), &stuffed);
        assert_eq!(found.iter().collect::<Vec<_>>(), [RECORDS[0], RECORDS[1], RECORDS[3], RECORDS[4]]);
        assert_eq!(damage.len(), 1);
    }
}

#[test]
fn a_payload_that_holds_records_is_one_record() {
    let inner = file(&[b"inner", b"records"]);
    let whole = file(&[b"before", &inner, b"after"]);
    let (found, damage) = scan(RecordScanner::new(), &whole);
    assert_eq!(found.iter().collect::<Vec<_>>(), [b"before", inner.as_slice(), b"after"]);
    assert_eq!(damage, []);

    // A flip in the payload or its checksum leaves the length trustworthy; one in the header does not.
    for at in 22..22 + OVERHEAD + inner.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 4;
        let (found, damage) = scan(RecordScanner::new(), &damaged);
        let found: Vec<_> = found.iter().collect();
        if at < 22 + HEADER_LEN {
            assert_eq!(found, [b"before".as_slice(), b"inner", b"records", b"after"]);
        } else {
            assert_eq!(found, [b"before".as_slice(), b"after"]);
            assert_eq!((damage.len(), &damage[0].kind), (1, &DamageKind::DataCrc));
        }
    }
}

#[test]
fn records_longer_than_allowed_are_damage() {
    let whole = file(&[b"short", &[7; 100], b"short"]);
    let (found, damage) = scan(RecordScanner::new().with_max_record_len(99), &whole);
    assert_eq!(found.len(), 2);
    assert_eq!(
        damage,
        [Damage { kind: DamageKind::RecordTooLong { len: 100 }, record: 1, range: 21..137, passed_over: None }]
    );
}

/// Intact headers close together, whose long payloads fail their checksums. Quadratic time would be hours.
#[test]
fn hostile_headers_cost_linear_time() {
    let len = 3_000_000;
    let hostile: Vec<u8> = header(len / 2).into_iter().cycle().take(len as usize).collect();
    let (found, damage) = scan(RecordScanner::new(), &[&hostile, &file(&RECORDS)[..]].concat());
    assert_eq!(found.iter().collect::<Vec<_>>(), RECORDS);
    assert_eq!(damage, [Damage { kind: DamageKind::DataCrc, record: 0, range: 0..len, passed_over: None }]);

    // An intact record follows each header, so the scanner meets every header where a record should start. (The
    // length must not lead to a header, or the scan would continue there.)
    let one = [header(len / 2 + 1), file(&[b""])].concat();
    let hostile: Vec<u8> = one.iter().copied().cycle().take(one.len() * (len as usize / one.len())).collect();
    let (found, damage) = scan(RecordScanner::new(), &hostile);
    assert_eq!((found.len(), damage.len()), (len as usize / one.len(), len as usize / one.len()));
}

/// A memory-mapped file, for example, is a single piece.
#[test]
fn a_long_piece_is_not_copied_whole() {
    let whole = file(&[&[7; 1000][..]; 4000]);
    let mut scanner = RecordScanner::new();
    let (mut input, mut records, mut damage) = (whole.as_slice(), Records::new(), Vec::new());
    let mut found = 0;
    loop {
        match scanner.scan(&mut input, 100, &mut records, &mut damage).unwrap() {
            0 => break,
            scanned => found += scanned,
        }
        records.clear();
        assert!(scanner.window.tail().capacity() < 1 << 20);
    }
    assert_eq!((found, damage.len()), (4000, 0));
}

/// A range of zeros, as a crashed writer leaves it.
#[test]
fn scanner_reports_zero_padding_separately() {
    let (before, after) = (file(&[b"before"]), file(&[b"after"]));
    let whole = [&before[..], &[0; 4096], &after].concat();
    let (found, damage) = scan(RecordScanner::new(), &whole);
    assert_eq!(found.iter().collect::<Vec<_>>(), [b"before".as_slice(), b"after"]);
    assert_eq!(damage, [Damage { kind: DamageKind::ZeroPadding, record: 1, range: 22..22 + 4096, passed_over: None }]);
}

/// Returns records of about 100 bytes in members of 1 MiB each, and the records of each member.
fn gzip_file() -> (Vec<u8>, Vec<Vec<u8>>) {
    let records: Vec<_> = (0..40_000_u32).map(|i| i.wrapping_mul(0x9e37_79b9).to_le_bytes().repeat(25)).collect();
    let mut writer = RecordWriter::with_compression(Vec::new(), Compression::Gzip, Level::default());
    records.iter().for_each(|record| writer.write_record(record).unwrap());
    (writer.finish().unwrap(), records)
}

fn scan_gzip(file: &[u8], piece: usize) -> (Vec<Vec<u8>>, Vec<Damage>) {
    let mut scanner = RecordScanner::with_compression(Compression::Gzip);
    let (mut records, mut damage) = (Records::new(), Vec::new());
    for mut piece in file.chunks(piece) {
        while scanner.scan(&mut piece, 1000, &mut records, &mut damage).unwrap() > 0 {}
    }
    scanner.finish(&mut records, &mut damage).unwrap();
    (records.iter().map(<[u8]>::to_vec).collect(), damage)
}

#[test]
fn behind_a_damaged_gzip_member_the_next_one_is_read() {
    let (file, records) = gzip_file();
    let members: Vec<_> = (0..file.len()).filter(|&at| file[at..].starts_with(&[0x1f, 0x8b, 8, 0])).collect();
    let per_member = GZIP_BLOCK_LEN.div_ceil(116);
    assert_eq!(members.len(), records.len().div_ceil(per_member));
    let known: HashSet<_> = records.iter().collect();
    for at in [3, 11, 3000, members[1] / 2, members[2] - 6, members[2] + 1, members[2] + 15, members[3] + 40_000] {
        let mut damaged = file.clone();
        damaged[at] ^= 0x54;
        let hit = members.iter().rposition(|&start| start <= at).unwrap();
        let (found, damage) = scan_gzip(&damaged, 10_000);
        // Every record before and after the damaged member, and some of those in it.
        let (before, behind) = (hit * per_member, (hit + 1) * per_member);
        assert!(found.len() < records.len() || at == members[2] - 6, "byte {at}");
        assert!(found[..before] == records[..before], "byte {at}");
        assert!(found[found.len() - (records.len() - behind)..] == records[behind..], "byte {at}: {damage:?}");
        assert!(found.iter().all(|record| known.contains(record)));
        // Bytes inflated before the damage was detected may be reported as damage of their own.
        let Some(Damage { passed_over: Some(passed_over), .. }) = damage.last() else {
            panic!("byte {at}: {damage:?}")
        };
        assert_eq!(passed_over.end, members[hit + 1] as u64, "byte {at}");
        assert!(passed_over.start > members[hit] as u64, "byte {at}");
        assert_eq!(scan_gzip(&damaged, 777), (found, damage), "byte {at}");
    }
}

#[test]
fn two_damaged_gzip_members_are_two_damages() {
    let (mut file, records) = gzip_file();
    let members: Vec<_> = (0..file.len()).filter(|&at| file[at..].starts_with(&[0x1f, 0x8b, 8, 0])).collect();
    // In the second member, and with a hole over the end of the fourth.
    file[members[1] + 500] ^= 1;
    file[members[4] - 2_000..members[4]].fill(0);
    let (found, damage) = scan_gzip(&file, 4096);
    let places: Vec<_> = damage.iter().filter_map(|damage| Some(damage.passed_over.as_ref()?.end as usize)).collect();
    assert_eq!(places, [members[2], members[4]], "{damage:?}");
    let per_member = GZIP_BLOCK_LEN.div_ceil(116);
    assert!(found.len() > records.len() - 2 * per_member);
    let line = damage[1].to_string();
    assert!(line.ends_with(&format!(" to {} of the file passed over", members[2])), "{line}");
}

#[test]
fn scanner_ignores_false_starts_of_gzip_members() {
    let (mut file, records) = gzip_file();
    let members: Vec<_> = (0..file.len()).filter(|&at| file[at..].starts_with(&[0x1f, 0x8b, 8, 0])).collect();
    // Many starts of members, whole and truncated.
    let mut rubbish = [&[0x1f, 0x8b, 8, 0][..], b"0123456789", &[0x1f, 0x1f, 0x8b, 7]].concat().repeat(500);
    rubbish.push(0x1f);
    file.splice(members[1]..members[1], rubbish);
    let (found, damage) = scan_gzip(&file, 1000);
    assert!(found == records, "{} records, {damage:?}", found.len());
    assert_eq!(damage.len(), 1, "{damage:?}");
}

#[test]
fn a_byte_of_a_gzip_member_costs_no_record_of_another() {
    let payload = |record: u32| record.wrapping_mul(0x9e37_79b9).to_le_bytes().repeat(1 + record as usize % 7);
    let mut file = Vec::new();
    let mut members = Vec::new();
    for member in 0..6 {
        let mut block = Vec::new();
        for record in member * 4..member * 4 + 4 {
            let fill = |bytes: &mut Vec<u8>| {
                bytes.extend(payload(record));
                Ok::<_, Infallible>(())
            };
            append_record(&mut block, fill).unwrap();
        }
        members.push(file.len());
        gzip_member(&block, Level::default(), &mut file);
    }
    let records: Vec<_> = (0..24).map(payload).collect();
    for at in 0..file.len() {
        for change in [1, 4, 0x80, 0xff] {
            let mut damaged = file.clone();
            damaged[at] ^= change;
            let hit = members.iter().rposition(|&start| start <= at).unwrap();
            let (found, damage) = scan_gzip(&damaged, 50);
            // The time, system and flags of a header are not checked.
            assert!(found == records || !damage.is_empty(), "byte {at}");
            let mut others = records.clone();
            others.drain(hit * 4..hit * 4 + 4);
            let mut found = found.iter().filter(|record| others.contains(record));
            assert!(others.iter().all(|record| found.next() == Some(record)), "byte {at}, {change:#x}: {damage:?}");
            assert!(damage.is_sorted_by_key(|damage| damage.record), "byte {at}: {damage:?}");
        }
    }
}
