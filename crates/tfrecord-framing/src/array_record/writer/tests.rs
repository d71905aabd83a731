use std::iter::zip;

use super::*;
use crate::array_record::{SIGNATURE, split_varint};

/// Bytes of a record: the numbers from `at` on.
fn record(at: usize, len: usize) -> Vec<u8> {
    (at..at + len).map(|byte| byte as u8).collect()
}

fn options(group_size: u32, codec: ChunkCodec) -> ChunkOptions {
    ChunkOptions { group_size: NonZeroU32::new(group_size).expect("not zero"), codec }
}

fn written(records: &[Vec<u8>], options: ChunkOptions) -> Vec<u8> {
    let mut writer = ArrayRecordWriter::new(Vec::new(), options);
    records.iter().try_for_each(|record| writer.write_record(record)).expect("a Vec takes every byte");
    writer.finish().expect("a Vec takes every byte")
}

#[test]
fn array_record_files_are_those_of_googles_writer() {
    let googles = include_bytes!("../../../tests/data/three.array_record");
    let records = [b"abc".to_vec(), Vec::new(), vec![b'x'; 300]];
    assert!(written(&records, ChunkOptions::default()) == googles);
}

/// Chunks that end at each position around the end of a block, empty records, records of several blocks, no records.
#[test]
fn array_record_files_around_block_ends_are_those_of_googles_writer() {
    let table = include_str!("../../../tests/data/array_record.tsv");
    let mut files = 0;
    for line in table.lines().skip(1) {
        let [group_size, lengths, file_len, crc] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let lengths: Vec<usize> = match lengths.strip_prefix("0*") {
            Some(count) => vec![0; count.parse().expect("a number")],
            None => {
                lengths.split(',').filter(|len| !len.is_empty()).map(|len| len.parse().expect("a number")).collect()
            }
        };
        let records: Vec<_> = lengths.iter().enumerate().map(|(at, &len)| record(at % 256, len)).collect();
        let file = written(&records, options(group_size.parse().expect("a number"), ChunkCodec::None));
        let mut found = flate2::Crc::new();
        found.update(&file);
        assert_eq!(
            (file.len().to_string(), format!("{:08x}", found.sum())),
            (file_len.to_owned(), crc.to_owned()),
            "{line}"
        );
        files += 1;
    }
    assert_eq!(files, 448);
}

/// A chunk of a file: where it begins, and its data.
struct Found {
    begin: u64,
    header: ChunkHeader,
    data: Vec<u8>,
}

/// Reads a file by the description alone: block headers are taken out of the way byte by byte, and checked against the
/// chunks.
fn read(file: &[u8]) -> Vec<Found> {
    let mut found = Vec::new();
    let mut blocks = Vec::new();
    let mut position = 0;
    while position < file.len() {
        let begin = position as u64;
        let mut take = |len: usize| {
            let mut bytes = Vec::with_capacity(len);
            while bytes.len() < len {
                if position.is_multiple_of(1 << 16) {
                    let header = file[position..].first_chunk().expect("a block header");
                    blocks.push((position as u64, BlockHeader::decode(header).expect("sound")));
                    position += 24;
                }
                let now = (len - bytes.len()).min((1 << 16) - position % (1 << 16));
                bytes.extend_from_slice(&file[position..position + now]);
                position += now;
            }
            bytes
        };
        let header = ChunkHeader::decode(take(40).first_chunk().expect("40 bytes")).expect("sound");
        let data = take(header.data_len as usize);
        header.check_data(&data).expect("sound");
        let after_data = begin + header.records;
        while (position as u64) < after_data || (1..=24).contains(&(position % (1 << 16))) {
            take_one(file, &mut position, &mut blocks);
        }
        for (at, block) in blocks.drain(..) {
            assert_eq!(block, BlockHeader { previous: at - begin, next: position as u64 - at }, "at {at}");
        }
        found.push(Found { begin, header, data });
    }
    assert_eq!(position % (1 << 16), 0);
    found
}

/// Takes a byte of padding.
fn take_one(file: &[u8], position: &mut usize, blocks: &mut Vec<(u64, BlockHeader)>) {
    if position.is_multiple_of(1 << 16) {
        let header = file[*position..].first_chunk().expect("a block header");
        blocks.push((*position as u64, BlockHeader::decode(header).expect("sound")));
        *position += 24;
    }
    assert_eq!(file[*position], 0);
    *position += 1;
}

/// The records of a chunk.
fn records(Found { header, data, .. }: &Found) -> Vec<Vec<u8>> {
    let unpacked = |bytes: &[u8]| match data[0] {
        0 => bytes.to_vec(),
        b'z' => {
            let (len, bytes) = split_varint(bytes).expect("a length");
            let unpacked = zstd::bulk::decompress(bytes, len as usize).expect("a frame");
            assert_eq!(unpacked.len() as u64, len);
            unpacked
        }
        other => panic!("codec {other}"),
    };
    let (sizes_len, rest) = split_varint(&data[1..]).expect("a length");
    let (sizes, values) = rest.split_at(sizes_len as usize);
    let (sizes, values) = (unpacked(sizes), unpacked(values));
    assert_eq!(values.len() as u64, header.decoded_len);
    let (mut sizes, mut values) = (sizes.as_slice(), values.as_slice());
    let mut records = Vec::new();
    while !sizes.is_empty() {
        let (len, rest) = split_varint(sizes).expect("a size");
        sizes = rest;
        let (record, rest) = values.split_at(len as usize);
        values = rest;
        records.push(record.to_vec());
    }
    assert_eq!((records.len() as u64, values.len()), (header.records, 0));
    records
}

fn check(expected: &[Vec<u8>], options: ChunkOptions) {
    let file = written(expected, options);
    assert_eq!(file[..64], SIGNATURE);
    let found = read(&file);
    let groups = expected.len().div_ceil(options.group_size.get() as usize);
    let chunks = &found[1..=groups];
    assert!(chunks.iter().flat_map(records).eq(expected.iter().cloned()));
    assert!(
        chunks[..groups.saturating_sub(1)]
            .iter()
            .all(|chunk| chunk.header.records == u64::from(options.group_size.get()))
    );
    let footer = records(&found[groups + 1]);
    let metadata = FooterMetadata::decode(&footer[0]).expect("sound");
    assert_eq!((metadata.chunks, metadata.records), (groups as u64, expected.len() as u64));
    for (entry, chunk) in zip(&footer[1..], chunks) {
        let ChunkHeader { decoded_len, records, .. } = chunk.header;
        assert_eq!(ChunkEntry::decode(entry), Ok(ChunkEntry { position: chunk.begin, decoded_len, records }));
    }
    let postscripts = found.iter().rfind(|chunk| chunk.header.kind == ChunkKind::Simple).expect("a postscript");
    assert_eq!(postscripts.begin, file.len() as u64 - BLOCK_LEN);
    let postscript = Postscript { footer: found[groups + 1].begin };
    assert!(records(postscripts).iter().all(|found| Postscript::decode(found) == Ok(postscript)));
}

#[test]
fn array_record_files_have_their_records_in_groups_of_any_size() {
    let mixed: Vec<_> = (0..700).map(|at| record(at, at * at % 977)).chain([record(1, 1 << 20), Vec::new()]).collect();
    for codec in [ChunkCodec::None, ChunkCodec::Zstd] {
        for group_size in [1, 2, 7, 350, 702, 10_000] {
            check(&mixed, options(group_size, codec));
        }
        check(&[], options(4, codec));
        // Less data than records: the chunk is padded.
        check(&vec![Vec::new(); 70_000], options(69_999, codec));
    }
}

#[test]
fn array_record_chunks_may_be_encoded_elsewhere() {
    let all: Vec<_> = (0..100).map(|at| record(at, at * 50)).collect();
    for codec in [ChunkCodec::None, ChunkCodec::Zstd] {
        let options = options(10, codec);
        let mut writer = ArrayRecordWriter::new(Vec::new(), options);
        let mut encoder = ChunkEncoder::new(codec);
        all[..20].iter().try_for_each(|record| writer.write_record(record)).expect("written");
        assert!(writer.is_at_chunk());
        for group in all[20..90].chunks(10) {
            let chunk = encoder.encode(group.iter().map(Vec::as_slice)).expect("encoded");
            writer.write_chunk(chunk).expect("written");
        }
        all[90..].iter().try_for_each(|record| writer.write_record(record)).expect("written");
        assert!(writer.finish().expect("written") == written(&all, options));
    }
}
