//! ArrayRecord files that array_record 0.8.6 wrote (`tests/data/array_record/make.py`), intact and damaged.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use tfrecord_framing::array_record::{
    BLOCK_LEN, ChunkEntry, ChunkHeader, ChunkKind, Defect, Footer, FooterMetadata, Postscript, SIGNATURE,
    add_block_headers, chunk_end,
};
use tfrecord_framing::{
    Container, Damage, DamageKind, Error, ErrorKind, RecordDecoder, RecordReader, RecordScanner, Records,
};

fn data(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/array_record").join(name);
    let mut bytes = Vec::new();
    GzDecoder::new(fs::File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    bytes
}

fn expected(name: &str) -> Vec<Vec<u8>> {
    let bytes = data(&format!("{name}.records.gz"));
    let (mut rest, mut records) = (bytes.as_slice(), Vec::new());
    while let Some((len, after)) = rest.split_first_chunk() {
        let (record, after) = after.split_at(u32::from_le_bytes(*len) as usize);
        records.push(record.to_vec());
        rest = after;
    }
    records
}

/// A file of array_record, and its records.
struct Sample {
    name: &'static str,
    file: Vec<u8>,
    records: Vec<Vec<u8>>,
}

fn samples() -> Vec<Sample> {
    let names = [
        ("empty", "none"),
        ("plain-1", "examples"),
        ("plain-3", "examples"),
        ("plain-128", "examples"),
        ("zstd-1", "examples"),
        ("zstd-3", "examples"),
        ("zstd-128", "examples"),
        ("brotli-3", "examples"),
        ("brotli-128", "examples"),
        ("snappy-3", "examples"),
        ("snappy-128", "examples"),
        ("padded-128", "examples"),
        ("blocks-plain-1", "blocks"),
        ("blocks-plain-3", "blocks"),
        ("blocks-zstd-1", "blocks"),
        ("blocks-brotli-3", "blocks"),
        ("blocks-snappy-3", "blocks"),
        ("nothing-plain-128", "nothing"),
        ("nothing-zstd-500", "nothing"),
    ];
    let sample = |(name, records)| Sample { name, file: file(name), records: expected(records) };
    names.into_iter().map(sample).collect()
}

fn file(name: &str) -> Vec<u8> {
    data(&format!("{name}.array_record.gz"))
}

/// Reads a file in pieces: its records up to the first error.
fn read(file: &[u8], piece: usize) -> (Vec<Vec<u8>>, Result<(), Error>) {
    let mut decoder = RecordDecoder::with_container(Container::ArrayRecord);
    let mut records = Records::new();
    let mut decode = || {
        for mut piece in file.chunks(piece) {
            while decoder.decode(&mut piece, 100, &mut records)? > 0 {}
        }
        decoder.finish()
    };
    let ended = decode();
    (records.iter().map(<[u8]>::to_vec).collect(), ended)
}

/// Reads a file past damage, in pieces.
fn scan(file: &[u8], piece: usize) -> (Vec<Vec<u8>>, Vec<Damage>) {
    let mut scanner = RecordScanner::with_container(Container::ArrayRecord);
    let (mut records, mut damage) = (Records::new(), Vec::new());
    for mut piece in file.chunks(piece) {
        while scanner.scan(&mut piece, 100, &mut records, &mut damage).unwrap() > 0 {}
    }
    scanner.finish(&mut records, &mut damage).unwrap();
    (records.iter().map(<[u8]>::to_vec).collect(), damage)
}

fn footer(file: &[u8]) -> Result<Footer, tfrecord_framing::array_record::Error> {
    let last = &file[file.len().saturating_sub(BLOCK_LEN as usize)..];
    let range = Footer::locate(last, file.len() as u64)?;
    Footer::decode(&file[range.start as usize..range.end as usize], range.start)
}

fn defect(ended: Result<(), Error>) -> (u64, Defect) {
    match ended.unwrap_err().into_kind() {
        ErrorKind::ArrayRecord { source, .. } => (source.byte, source.defect),
        other => panic!("{other}"),
    }
}

#[test]
fn array_record_files_have_the_records_that_were_written() {
    for Sample { name, file, records } in samples() {
        for piece in [1000, 65_536, file.len()] {
            let (found, ended) = read(&file, piece);
            ended.unwrap_or_else(|error| panic!("{name}: {error}: {:?}", error.kind()));
            assert!(found == records, "{name} in pieces of {piece}: {} records", found.len());
            let (scanned, damage) = scan(&file, piece);
            assert_eq!((scanned == records, damage), (true, vec![]), "{name}");
        }
    }
    let one_by_one = file("zstd-3");
    assert_eq!(read(&one_by_one, 1).0, expected("examples"));
}

#[test]
fn array_record_is_detected_by_content() {
    let file = file("zstd-128");
    let mut reader = RecordReader::detect(file.as_slice());
    let mut records = Records::new();
    while reader.read_records(7, &mut records).unwrap() > 0 {}
    assert_eq!(reader.container(), Some(Container::ArrayRecord));
    assert_eq!(records.iter().map(<[u8]>::to_vec).collect::<Vec<_>>(), expected("examples"));

    let error = RecordReader::new(file.as_slice()).read_record(&mut Vec::new()).unwrap_err();
    let ErrorKind::WrongContainer { expected, found, .. } = error.kind() else { panic!("{error}") };
    assert_eq!((*expected, *found), (Container::PLAIN, Container::ArrayRecord));
    let (_, ended) = read(b"", 1);
    assert!(matches!(defect(ended), (0, Defect::NoPostscript)));
}

#[test]
fn the_footer_counts_the_records_without_reading_them() {
    for Sample { name, file, records } in samples() {
        let footer = footer(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        let framed: usize = records.iter().map(|record| record.len() + 16).sum();
        assert_eq!((footer.records(), footer.framed_len()), (records.len() as u64, framed as u64), "{name}");
    }
}

#[test]
fn transposed_chunks_are_refused_by_name() {
    let (_, ended) = read(&file("transposed-3"), 1 << 20);
    assert!(matches!(defect(ended), (64, Defect::Transposed)));
    let (records, damage) = scan(&file("transposed-3"), 1 << 20);
    assert!(records.is_empty() && !damage.is_empty());
}

#[test]
fn a_truncated_file_is_an_error_and_its_chunks_are_found() {
    let Sample { file, records, .. } = samples().swap_remove(3);
    assert_eq!(records.len(), 300);
    for len in (0..file.len()).step_by(977).chain([64, 65_536, file.len() - 1]) {
        let (found, ended) = read(&file[..len], 4096);
        let (_, defect) = defect(ended);
        assert!(matches!(defect, Defect::NoPostscript | Defect::Truncated { .. }), "{len}: {defect}");
        assert!(records.starts_with(&found));
        assert!(footer(&file[..len]).is_err());
        let (scanned, damage) = scan(&file[..len], 4096);
        let whole = footer(&file).unwrap();
        let intact = whole.chunks.iter().enumerate().filter(|(at, _)| {
            let end = whole.chunks.get(at + 1).map_or(whole.position, |next| next.position);
            end <= len as u64
        });
        let intact: u64 = intact.map(|(_, chunk)| chunk.records).sum();
        assert_eq!((scanned.len() as u64, scanned == records[..intact as usize]), (intact, true), "{len}");
        assert_eq!(damage.len(), 1, "{len}: {damage:?}");
    }
}

#[test]
fn damage_loses_the_chunks_that_it_is_in() {
    let file = file("blocks-plain-1");
    let records = expected("blocks");
    let chunks = footer(&file).unwrap().chunks;
    assert_eq!(chunks.len(), records.len());
    for (at, chunk) in chunks.iter().enumerate() {
        // In the header of the chunk, then in its data.
        for (offset, lost_at_most) in [(8, usize::MAX), (41, 1)] {
            let mut file = file.clone();
            file[add_block_headers(chunk.position, offset) as usize] ^= 0x10;
            let (found, damage) = scan(&file, 10_000);
            assert!(found.len() < records.len() && records.len() - found.len() <= lost_at_most, "{at}");
            let kept: Vec<_> = records.iter().filter(|record| found.contains(record)).cloned().collect();
            assert!(kept == found || records.iter().filter(|record| record.is_empty()).count() > 1, "{at}");
            let DamageKind::ArrayRecord { reason } = &damage[0].kind else { panic!("{damage:?}") };
            assert!(reason.starts_with(&format!("at byte {} of the file: ", chunk.position)), "{reason}");
            assert_eq!((damage[0].record, damage[0].range.is_empty()), (at as u64, true));
            let passed_over = damage[0].passed_over.clone().unwrap();
            assert_eq!(passed_over.start, chunk.position);
            let next = chunks.get(at + 1).map_or(file.len() as u64, |next| next.position);
            assert!(passed_over.end >= next, "{passed_over:?} {next}");
        }
    }
    // The third record is lost with the header of the second: no block begins between.
    let (found, _) = scan(&damaged(&file, add_block_headers(chunks[1].position, 8)), 1 << 20);
    assert_eq!(found.len(), records.len() - 1);
}

#[test]
fn a_damaged_block_header_loses_no_record() {
    let file = file("blocks-plain-1");
    for block in (0..file.len() as u64).step_by(BLOCK_LEN as usize) {
        let (_, ended) = read(&damaged(&file, block + 9), 1 << 20);
        assert!(matches!(defect(ended), (byte, Defect::Layout(_)) if byte == block));
        let (found, damage) = scan(&damaged(&file, block + 9), 1 << 20);
        assert_eq!((found == expected("blocks"), damage.len()), (true, 1), "{block}: {damage:?}");
    }
}

fn damaged(file: &[u8], byte: u64) -> Vec<u8> {
    let mut file = file.to_vec();
    file[byte as usize] ^= 1;
    file
}

/// Numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end.max(1)
    }

    /// A range of up to `len` bytes, mostly where the file is not padding.
    fn range(&mut self, file: &[u8], len: usize) -> std::ops::Range<usize> {
        let start = loop {
            let at = self.below(file.len());
            if file[at] != 0 || self.below(400) == 0 {
                break at;
            }
        };
        start..(start + 1 + self.below(len)).min(file.len())
    }
}

/// Changes a file in one of many ways. Returns what was done.
fn mutate(numbers: &mut Numbers, file: &mut Vec<u8>, chunks: &[std::ops::Range<usize>]) -> String {
    let kind = numbers.below(10);
    let len = [1, 40, 5000, 70_000][numbers.below(4)];
    let (range, other) = (numbers.range(file, len), numbers.range(file, len));
    match kind {
        0..=2 => {
            let bit = 1 << numbers.below(8);
            file[range.start] ^= bit;
            return format!("bit {bit} of {}", range.start);
        }
        3 => file.truncate(range.start),
        4 => drop(file.drain(range.clone())),
        5 => {
            let copy = file[range.clone()].to_vec();
            file.splice(other.start..other.start, copy);
        }
        6 => file[range.clone()].fill(0),
        7 => {
            let copy = file[range.clone()].to_vec();
            let end = (other.start + copy.len()).min(file.len());
            file[other.start..end].copy_from_slice(&copy[..end - other.start]);
        }
        // Whole chunks are removed, repeated or exchanged.
        _ if chunks.len() > 1 => {
            let (one, two) = (numbers.below(chunks.len()), numbers.below(chunks.len()));
            let (one, two) = (chunks[one.min(two)].clone(), chunks[one.max(two)].clone());
            let (first, second) = (file[one.clone()].to_vec(), file[two.clone()].to_vec());
            match numbers.below(3) {
                0 => drop(file.drain(one.clone())),
                1 => drop(file.splice(two.end..two.end, first)),
                // A file cannot show that chunks with the same lengths were exchanged.
                _ if first.len() != second.len() => {
                    file.splice(two.clone(), first);
                    file.splice(one.clone(), second);
                }
                _ => {}
            }
            return format!("chunks {one:?} {two:?}");
        }
        _ => file.push(0),
    }
    format!("{kind} {range:?} {other:?}")
}

#[test]
fn no_mutation_of_10_000_gives_other_records_in_silence() {
    let samples = samples();
    let (mut noticed, mut harmless) = (0, 0);
    for (number, Sample { name, file, records }) in samples.iter().enumerate() {
        let mut numbers = Numbers(number as u64 + 7);
        let written: HashSet<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let is_written = |record: &Vec<u8>| written.contains(record.as_slice());
        let whole = footer(file).unwrap();
        let starts = whole.chunks.iter().map(|chunk| chunk.position as usize);
        let ends = starts.clone().skip(1).chain([whole.position as usize]);
        let chunks: Vec<_> = starts.zip(ends).map(|(start, end)| start..end).collect();
        // Brotli is slow without optimization.
        let mutations = if name.contains("brotli") { 40 } else { 620 };
        for mutation in 0..mutations {
            let mut mutant = file.clone();
            let what = mutate(&mut numbers, &mut mutant, &chunks);
            let (found, ended) = read(&mutant, 1 << 20);
            match ended {
                Ok(()) => {
                    assert!(found == *records, "{name}: {what}: {} records", found.len());
                    harmless += 1;
                    continue;
                }
                // What came before the damage. The order of whole chunks is only known at the end.
                Err(error) => {
                    let is_start = records.starts_with(&found) || what.starts_with("chunks");
                    assert!(is_start && found.iter().all(is_written), "{name}: {what}: {error}");
                    noticed += 1;
                }
            }
            if let Ok(footer) = footer(&mutant) {
                assert_eq!(footer.records(), records.len() as u64, "{name}: {what}");
            }
            let (scanned, damage) = scan(&mutant, 1 << 20);
            assert!(!damage.is_empty() && scanned.iter().all(is_written), "{name}: {what}");
            // The result does not depend on the pieces.
            if mutation % 40 == 0 {
                assert!((scanned, damage) == scan(&mutant, 997), "{name}: {what}");
            }
        }
    }
    assert!(noticed > 8_000 && noticed + harmless >= 10_000, "{noticed} noticed, {harmless} harmless");
}

/// A file with these chunks, whose hashes hold, and whose footer has these entries.
fn forge(chunks: &[(ChunkHeader, Vec<u8>)], entries: impl FnOnce(Vec<ChunkEntry>) -> Vec<ChunkEntry>) -> Vec<u8> {
    let mut file = SIGNATURE.to_vec();
    let mut push = |header: ChunkHeader, data: &[u8]| {
        let begin = file.len() as u64;
        let end = chunk_end(&header, begin);
        for byte in header.encode().iter().chain(data) {
            if (file.len() as u64).is_multiple_of(BLOCK_LEN) {
                let block = file.len() as u64;
                let header = tfrecord_framing::array_record::BlockHeader { previous: block - begin, next: end - block };
                file.extend(header.encode());
            }
            file.push(*byte);
        }
        assert_eq!(file.len() as u64, end);
        ChunkEntry { position: begin, decoded_len: header.decoded_len, records: header.records }
    };
    let found = chunks.iter().map(|(header, data)| push(*header, data)).collect();
    let entries = entries(found);
    let records = entries.iter().map(|entry| entry.records).sum();
    let metadata = FooterMetadata { chunks: entries.len() as u64, records, writer_options: String::new() };
    let messages = entries.iter().map(|entry| {
        let mut message = Vec::new();
        entry.encode_to(&mut message);
        message
    });
    let messages: Vec<_> = [metadata.encode()].into_iter().chain(messages).collect();
    let (header, data) = plain(&messages);
    let at = push(header, &data).position;
    let padding = |at: u64| {
        let data = vec![0; (BLOCK_LEN - at % BLOCK_LEN) as usize - 40];
        (ChunkHeader::of(ChunkKind::Padding, 0, 0, &data), data)
    };
    let end = add_block_headers(at, 40 + data.len() as u64);
    let (header, data) = padding(end);
    let start = push(header, &data).position + 40 + data.len() as u64;
    let (header, data) = plain(&vec![Postscript { footer: at }.encode(); Postscript::COPIES]);
    push(header, &data);
    let (header, data) = padding(start + 24 + 40 + data.len() as u64);
    push(header, &data);
    file
}

/// An uncompressed chunk. The lengths of the records must be below 128.
fn plain(records: &[Vec<u8>]) -> (ChunkHeader, Vec<u8>) {
    let mut data = vec![0, records.len() as u8];
    data.extend(records.iter().map(|record| record.len() as u8));
    data.extend(records.iter().flatten());
    let decoded_len = records.iter().map(|record| record.len() as u64).sum();
    (ChunkHeader::of(ChunkKind::Simple, records.len() as u64, decoded_len, &data), data)
}

#[test]
fn numbers_that_contradict_each_other_are_errors_although_all_hashes_hold() {
    let records = [b"first".to_vec(), b"second".to_vec()];
    let chunk = || plain(&records);
    let defect_of = |file: Vec<u8>| {
        let (found, ended) = read(&file, 1 << 20);
        assert!(found.len() <= 4);
        defect(ended).1
    };
    let (found, ended) = read(&forge(&[chunk()], |entries| entries), 1 << 20);
    assert_eq!((found, ended.is_ok()), (records.to_vec(), true));

    // The footer has fewer, more or other chunks than the file.
    let fewer = forge(&[chunk(), chunk()], |entries| entries[..1].to_vec());
    assert!(matches!(defect_of(fewer), Defect::Footer { what: "chunks", found: 1, expected: 2 }));
    let counted = |records| {
        forge(&[chunk()], move |mut entries| {
            entries[0].records = records;
            entries
        })
    };
    assert!(matches!(defect_of(counted(3)), Defect::Footer { what: "records", found: 3, expected: 2 }));
    let moved = forge(&[chunk()], |mut entries| {
        entries[0].position += 1;
        entries
    });
    assert!(matches!(defect_of(moved), Defect::FooterChunks));
    let twice = forge(&[chunk()], |entries| [entries.clone(), entries].concat());
    assert!(matches!(defect_of(twice), Defect::FooterChunks));

    // The header of a chunk has another number of records, or other lengths.
    let with = |records, decoded_len, data: &[u8]| {
        let header = ChunkHeader::of(ChunkKind::Simple, records, decoded_len, data);
        forge(&[(header, data.to_vec())], |entries| entries)
    };
    let (_, data) = chunk();
    assert!(matches!(defect_of(with(1, 11, &data)), Defect::Sizes { expected: 1 }));
    assert!(matches!(defect_of(with(3, 11, &data)), Defect::Sizes { expected: 3 }));
    assert!(matches!(defect_of(with(2, 12, &data)), Defect::Len { found: 11, expected: 12, .. }));
    assert!(matches!(defect_of(with(2, 10, &data)), Defect::Len { found: 11, expected: 10, .. }));
    assert!(matches!(defect_of(with(2, 11, b"x")), Defect::Sizes { .. }));
    assert!(matches!(defect_of(with(0, 0, b"")), Defect::Codec { found: 0 }));
    assert!(matches!(defect_of(with(1, 1, b"q\x01\x01a")), Defect::Codec { found: b'q' }));
    assert!(matches!(defect_of(with(1, 1, b"z\x02\x01ab")), Defect::Decompress { codec: "zstd", .. }));
    assert!(matches!(defect_of(with(1, 1, b"b\x02\x01ab")), Defect::Decompress { codec: "brotli", .. }));
    assert!(matches!(defect_of(with(1, 1, b"s\x02\x01ab")), Defect::Decompress { codec: "snappy", .. }));
    // More bytes than the header has are not decompressed.
    assert!(matches!(defect_of(with(1, 1, b"s\xff\xff\xff\x0fab")), Defect::Sizes { .. }));
    assert!(matches!(defect_of(with(1, 1, b"s\x06\xff\xff\xff\x0fab")), Defect::Len { expected: 10, .. }));
    let longest = ChunkHeader { decoded_len: 1 << 40, ..chunk().0 };
    let longest = forge(&[(longest, data)], |entries| entries);
    assert!(matches!(defect_of(longest), Defect::ChunkTooLong { len, .. } if len == 1 << 40));
}
