//! Input in pieces: the result does not depend on how a file, intact or damaged, is divided.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::Read;

use proptest::{collection::vec, prelude::*, sample::Index};
use tfrecord_framing::{
    Compression, CrcPolicy, Damage, Level, Position, RecordDecoder, RecordReader, RecordScanner, RecordWriter, Records,
};

const ALL: [Compression; 3] = [Compression::None, Compression::Gzip, Compression::Zlib];

fn write(records: &[Vec<u8>], compression: Compression) -> Vec<u8> {
    let mut writer = RecordWriter::with_compression(Vec::new(), compression, Level::default());
    for record in records {
        writer.write_record(record).unwrap();
    }
    writer.finish().unwrap()
}

/// The pieces of `file` between `cuts`, some of them empty.
fn pieces<'a>(file: &'a [u8], cuts: &[Index]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(file.len() + 1)).chain([0, file.len()]).collect();
    cuts.sort_unstable();
    cuts.windows(2).map(|cut| &file[cut[0]..cut[1]]).collect()
}

/// Records, errors in order, and the position of the next record.
fn decode(mut decoder: RecordDecoder, pieces: &[&[u8]], limit: usize) -> (Records, Vec<String>, Position) {
    let (mut records, mut errors) = (Records::new(), Vec::new());
    for mut piece in pieces.iter().copied() {
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
    (records, errors, decoder.position())
}

/// Same as `decode`, but copies the records from the input slices.
fn decode_frames(
    mut decoder: RecordDecoder,
    pieces: &[&[u8]],
    limit: usize,
) -> (Vec<Vec<u8>>, Vec<Position>, Vec<String>) {
    let (mut records, mut positions, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    for mut piece in pieces.iter().copied() {
        loop {
            match decoder.decode_frames(&mut piece, limit) {
                Ok(frames) if frames.is_empty() => break,
                Ok(frames) => {
                    assert!(frames.len() <= limit);
                    records.extend(frames.iter().map(|(payload, _)| frames.bytes()[payload].to_vec()));
                    positions.extend(frames.iter().map(|(_, position)| position));
                }
                Err(error) => errors.push(error.to_string()),
            }
        }
        assert!(piece.is_empty());
    }
    errors.extend(decoder.finish().err().map(|error| error.to_string()));
    (records, positions, errors)
}

fn scan(pieces: &[&[u8]], limit: usize) -> (Records, Vec<Damage>, Option<String>) {
    let mut scanner = RecordScanner::detect();
    let (mut records, mut damage) = (Records::new(), Vec::new());
    for mut piece in pieces.iter().copied() {
        loop {
            match scanner.scan(&mut piece, limit, &mut records, &mut damage) {
                Ok(0) => break,
                Ok(scanned) => assert!(scanned <= limit),
                Err(error) => return (records, damage, Some(error.to_string())),
            }
        }
        assert!(piece.is_empty());
    }
    let end = scanner.finish(&mut records, &mut damage).err().map(|error| error.to_string());
    (records, damage, end)
}

/// Returns at most `len` bytes per read.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let len = buf.len().min(self.1);
        self.0.read(&mut buf[..len])
    }
}

/// Mostly intact files, some with bytes changed, removed or added.
fn any_file() -> impl Strategy<Value = Vec<u8>> {
    let records = vec(vec(any::<u8>(), 0..200), 0..20);
    let damage = vec((any::<Index>(), any::<u8>()), 0..3);
    let tail =
        prop_oneof![3 => Just(vec![]), 1 => vec(any::<u8>(), 1..20), 1 => (1..40_usize).prop_map(|n| vec![0; n])];
    let cut = prop_oneof![3 => Just(None), 1 => any::<Index>().prop_map(Some)];
    (records, proptest::sample::select(ALL.as_slice()), damage, tail, cut).prop_map(
        |(records, compression, damage, tail, cut)| {
            let mut file = write(&records, compression);
            if let Some(cut) = cut {
                file.truncate(cut.index(file.len() + 1));
            }
            file.extend(tail);
            if !file.is_empty() {
                damage.into_iter().for_each(|(at, byte)| *at.get_mut(&mut file) = byte);
            }
            file
        },
    )
}

proptest! {
    #[test]
    fn decoding_does_not_depend_on_the_pieces(
        file in any_file(),
        cuts in vec(any::<Index>(), 0..30),
        limit in 1..9_usize,
        policy in proptest::sample::select(&[CrcPolicy::Verify, CrcPolicy::Skip][..]),
    ) {
        let decoder = || RecordDecoder::detect().with_crc_policy(policy);
        let whole = decode(decoder(), &[&file], usize::MAX);
        prop_assert_eq!(&decode(decoder(), &pieces(&file, &cuts), limit), &whole);
        prop_assert_eq!(&decode(decoder(), &file.chunks(1).collect::<Vec<_>>(), limit), &whole);

        let (decoded, errors, _) = whole;
        let (records, positions, frame_errors) = decode_frames(decoder(), &pieces(&file, &cuts), limit);
        prop_assert!(records.iter().map(Vec::as_slice).eq(decoded.iter()));
        prop_assert_eq!(positions, decoded.positions());
        prop_assert_eq!(frame_errors, errors);
    }

    #[test]
    fn scanning_does_not_depend_on_the_pieces(
        file in any_file(),
        cuts in vec(any::<Index>(), 0..30),
        limit in 1..9_usize,
    ) {
        let whole = scan(&[&file], usize::MAX);
        prop_assert_eq!(&scan(&pieces(&file, &cuts), limit), &whole);
        prop_assert_eq!(&scan(&file.chunks(1).collect::<Vec<_>>(), limit), &whole);
    }

    /// Three ways to read the same records up to the first damage. The scanner continues after it.
    #[test]
    fn reader_decoder_and_scanner_agree(file in any_file(), len in 1..50_usize) {
        let (decoded, errors, position) = decode(RecordDecoder::detect(), &[&file], 7);

        let mut reader = RecordReader::detect(Slow(&file, len));
        let (mut records, mut read_errors) = (Vec::new(), Vec::new());
        let mut record = Vec::new();
        loop {
            match reader.read_record(&mut record) {
                Ok(true) => records.push(record.clone()),
                Ok(false) => break,
                Err(error) => read_errors.push(error.to_string()),
            }
        }
        prop_assert!(decoded.iter().eq(records.iter().map(Vec::as_slice)));
        prop_assert_eq!(&read_errors, &errors);
        prop_assert_eq!(reader.position(), position);

        if let (scanned, damage, None) = scan(&[&file], 7) {
            prop_assert_eq!(damage.is_empty(), errors.is_empty(), "{:?} {:?}", damage, errors);
            let sound: Vec<_> = scanned.positions().iter().map(|at| at.byte).zip(scanned.iter()).collect();
            for decoded in decoded.positions().iter().map(|at| at.byte).zip(decoded.iter()) {
                prop_assert!(sound.contains(&decoded));
            }
        }
    }

    #[test]
    fn scanning_any_bytes_ends(file in vec(any::<u8>(), 0..3000)) {
        let (records, _, _) = scan(&[&file], 7);
        prop_assert!(records.payloads().len() <= file.len());
    }
}
