//! Whole files: TensorFlow's, ours under every compression, and damaged ones.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{BufRead, Read};

use flate2::bufread::GzDecoder;
use proptest::{collection::vec, prelude::*, sample::Index};
use tfrecord_framing::{Compression, Error, GZIP_BLOCK_LEN, Level, RecordReader, RecordWriter};

const ALL: [Compression; 3] = [Compression::None, Compression::Gzip, Compression::Zlib];

/// Returns the records before the first damage, and the damage.
fn read(file: &[u8], compression: Compression) -> (Vec<Vec<u8>>, Result<(), Error>) {
    let mut reader = RecordReader::with_compression(file, compression);
    let mut records = Vec::new();
    loop {
        let mut record = Vec::new();
        match reader.read_record(&mut record) {
            Ok(true) => records.push(record),
            Ok(false) => return (records, Ok(())),
            Err(error) => return (records, Err(error)),
        }
    }
}

fn write<R: AsRef<[u8]>>(records: &[R], compression: Compression, level: u32) -> Vec<u8> {
    let mut writer = RecordWriter::with_compression(Vec::new(), compression, Level::try_from(level).unwrap());
    for record in records {
        writer.write_record(record.as_ref()).unwrap();
    }
    writer.finish().unwrap()
}

/// Written by TensorFlow 2.21 from the same records.
#[test]
fn reads_and_writes_what_tensorflow_wrote() {
    let plain = include_bytes!("data/mixed.tfrecord");
    let (records, end) = read(plain, Compression::None);
    end.unwrap();
    assert_eq!(records.len(), 3);
    assert_eq!(write(&records, Compression::None, 6), plain);

    for (file, compression) in [
        (&include_bytes!("data/mixed.tfrecord.gzip")[..], Compression::Gzip),
        (&include_bytes!("data/mixed.tfrecord.zlib")[..], Compression::Zlib),
    ] {
        assert_eq!(Compression::detect(file), Some(compression));
        let (compressed, end) = read(file, compression);
        end.unwrap();
        assert_eq!(compressed, records);
    }
}

const SMALL: [&[u8]; 3] = [b"", b"hello", b"\x0a\x0b\x0a\x09\x0a\x01a\x12\x04\x1a\x02\x0a\x00"];

#[test]
fn every_flipped_bit_is_noticed() {
    let file = write(&SMALL, Compression::None, 6);
    for bit in 0..8 * file.len() {
        let mut damaged = file.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let (records, end) = read(&damaged, Compression::None);
        let error = end.expect_err("damage must be noticed");
        assert_eq!(records, SMALL[..records.len()]);
        assert_eq!(error.position().record, records.len() as u64);
    }
}

/// Some bits of a gzip header have no effect, such as the time. No bit flip may change a record.
#[test]
fn no_flipped_bit_changes_a_compressed_record() {
    for compression in [Compression::Gzip, Compression::Zlib] {
        let file = write(&SMALL, compression, 6);
        for bit in 0..8 * file.len() {
            let mut damaged = file.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let (records, end) = read(&damaged, compression);
            assert_eq!(records, SMALL[..records.len()]);
            assert!(end.is_err() || records.len() == SMALL.len());
        }
    }
}

#[test]
fn every_cut_but_between_records_is_noticed() {
    let file = write(&SMALL, Compression::None, 6);
    let ends: Vec<usize> = (0..=SMALL.len()).map(|n| write(&SMALL[..n], Compression::None, 6).len()).collect();
    for len in 0..=file.len() {
        let (records, end) = read(&file[..len], Compression::None);
        assert_eq!(end.is_ok(), ends.contains(&len), "at {len}");
        assert_eq!(records, SMALL[..ends.iter().filter(|&&end| end != 0 && end <= len).count()]);
    }
}

#[test]
fn every_cut_of_a_compressed_file_is_noticed() {
    for compression in [Compression::Gzip, Compression::Zlib] {
        let file = write(&SMALL, compression, 6);
        for len in 1..file.len() {
            assert!(read(&file[..len], compression).1.is_err(), "{compression} at {len}");
        }
    }
}

/// The uncompressed bytes of each gzip member.
fn members(mut file: &[u8]) -> Vec<Vec<u8>> {
    let mut members = Vec::new();
    while !file.fill_buf().unwrap().is_empty() {
        let mut member = Vec::new();
        GzDecoder::new(&mut file).read_to_end(&mut member).unwrap();
        members.push(member);
    }
    members
}

#[test]
fn gzip_member_ends_with_the_record_that_fills_it() {
    // 1,024 frames of 1,024 bytes fill a block exactly; 1,025 of 1,023 and 1,023 of 1,025 are one byte short of it.
    for (len, counts) in [(1024 - 16, [1024, 976]), (1023 - 16, [1026, 974]), (1025 - 16, [1024, 976])] {
        let file = write(&vec![vec![7; len]; 2000], Compression::Gzip, 1);
        let found: Vec<usize> = members(&file).iter().map(|member| member.len() / (len + 16)).collect();
        assert_eq!(found, counts);
    }
}

fn any_compression() -> impl Strategy<Value = Compression> {
    proptest::sample::select(ALL.as_slice())
}

/// A few MiB in total, mostly long records, so that gzip writes several members.
fn some_mebibytes() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let record = (prop_oneof![0..100_usize, 100_000..400_000_usize, Just(GZIP_BLOCK_LEN - 16)], any::<u8>())
        .prop_map(|(len, seed)| (0..len).map(|i| (i as u8).wrapping_mul(seed) ^ (i >> 8) as u8).collect());
    vec(record, 0..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn records_survive(records in vec(vec(any::<u8>(), 0..600), 0..40), compression in any_compression(), level in 0..10_u32) {
        let (found, end) = read(&write(&records, compression, level), compression);
        prop_assert!(end.is_ok());
        prop_assert_eq!(found, records);
    }

    #[test]
    fn any_bytes_end_in_records_or_an_error(bytes in vec(any::<u8>(), 0..2000), compression in any_compression()) {
        let (records, _) = read(&bytes, compression);
        prop_assert!(records.iter().map(Vec::len).sum::<usize>() <= bytes.len());
    }

    #[test]
    fn damage_never_changes_a_record(
        records in vec(vec(any::<u8>(), 0..300), 1..20),
        compression in any_compression(),
        damage in vec((any::<Index>(), any::<u8>()), 1..5),
    ) {
        let mut file = write(&records, compression, 6);
        for (at, byte) in damage {
            *at.get_mut(&mut file) = byte;
        }
        let (found, end) = read(&file, compression);
        prop_assert_eq!(&found[..], &records[..found.len()]);
        prop_assert!(end.is_err() || found.len() == records.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// A file's bytes depend only on its records; each gzip member contains whole records.
    #[test]
    fn bytes_do_not_depend_on_how_records_are_handed_over(
        records in some_mebibytes(),
        cuts in vec(any::<Index>(), 0..6),
    ) {
        let framed = write(&records, Compression::None, 1);
        let mut ends = vec![0];
        for record in &records {
            ends.push(ends[ends.len() - 1] + record.len() + 16);
        }
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| *cut.get(&ends)).chain([0, framed.len()]).collect();
        cuts.sort_unstable();

        for compression in ALL {
            let one_by_one = write(&records, compression, 1);
            let mut writer = RecordWriter::with_compression(Vec::new(), compression, Level::try_from(1).unwrap());
            for piece in cuts.windows(2) {
                writer.write_framed(&framed[piece[0]..piece[1]]).unwrap();
            }
            prop_assert!(writer.finish().unwrap() == one_by_one, "{} differs", compression);

            if compression == Compression::Gzip {
                let members = members(&one_by_one);
                prop_assert!(members.concat() == framed);
                for member in &members {
                    prop_assert!(read(member, Compression::None).1.is_ok());
                }
                let full = members.len() - 1;
                prop_assert!(members[..full].iter().all(|member| member.len() >= GZIP_BLOCK_LEN));
            }
        }
    }
}
