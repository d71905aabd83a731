use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, RecordBatch};
use arrow_tfrecord::{Encoder, Mapping, MappingOptions};
use proptest::collection::vec;
use proptest::prelude::*;
use rayon::ThreadPoolBuilder;
use tfrecord_framing::RecordReader;
use tfrecord_framing::array_record::{ArrayRecordWriter, ChunkOptions};

use super::*;

const ALL: [Compression; 3] = [Compression::None, Compression::Gzip, Compression::Zlib];

/// Returns records of about these lengths, which compress a little.
fn records(lens: &[usize]) -> RecordBuffer {
    let value = |(row, &len): (usize, &usize)| (0..len).map(|i| ((i * i + row * 31) >> 3) as u8).collect::<Vec<_>>();
    let values: Vec<_> = lens.iter().enumerate().map(value).collect();
    let column = BinaryArray::from_iter_values(values.iter());
    let batch = RecordBatch::try_from_iter([("v", Arc::new(column) as ArrayRef)]).unwrap();
    let mapping = Mapping::try_new(&batch.schema(), &MappingOptions::default()).unwrap();
    let mut buffer = RecordBuffer::default();
    Encoder::new(Arc::new(mapping)).encode(&batch, &mut buffer).unwrap();
    buffer
}

/// Writes the shard of these records, appended in runs of these lengths.
fn shard(records: &RecordBuffer, runs: &[usize], compression: Compression) -> (Vec<u8>, ShardStats) {
    fill(ShardWriter::new(Vec::new(), (compression, Level::default())), records, runs)
}

fn fill(mut writer: ShardWriter<Vec<u8>>, records: &RecordBuffer, runs: &[usize]) -> (Vec<u8>, ShardStats) {
    let mut runs = runs.iter().copied().cycle();
    let mut start = 0;
    while start < records.len() {
        let end = records.len().min(start + runs.next().unwrap_or(1));
        writer.append(records, start..end).unwrap();
        start = end;
    }
    assert_eq!(writer.rows(), records.len() as u64);
    assert_eq!(writer.framed_bytes(), records.bytes().len() as u64);
    writer.finish().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn shard_writer_matches_the_record_writer(
        lens in vec(prop_oneof![8 => 0usize..3_000, 1 => 60_000usize..400_000], 0..60),
        runs in vec(1usize..40, 1..4),
    ) {
        let records = records(&lens);
        for compression in ALL {
            let (bytes, stats) = shard(&records, &runs, compression);
            let mut oracle = RecordWriter::with_compression(Vec::new(), compression, Level::default());
            oracle.write_framed(records.bytes()).unwrap();
            prop_assert!(bytes == oracle.finish().unwrap(), "{} differs", compression);
            prop_assert_eq!(stats.rows, lens.len() as u64);
            prop_assert_eq!(stats.framed_bytes, records.bytes().len() as u64);
            prop_assert_eq!(stats.file_bytes, bytes.len() as u64);
            prop_assert_eq!(stats.crc32c, crc32c::crc32c(&bytes));
            let direct = ShardWriter::new(Vec::new(), (compression, Level::default())).without_collecting();
            prop_assert!(fill(direct, &records, &runs) == (bytes, stats), "{} differs", compression);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn array_record_shards_match_the_array_record_writer(
        lens in vec(prop_oneof![8 => 0usize..3_000, 1 => 60_000usize..400_000], 0..60),
        runs in vec(1usize..40, 1..4),
        group_size in prop_oneof![Just(1_u32), 2_u32..20],
        threads in 1usize..4,
    ) {
        let records = records(&lens);
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        for codec in [ChunkCodec::None, ChunkCodec::Zstd] {
            let options = ChunkOptions { group_size: group_size.try_into().unwrap(), codec };
            let (bytes, stats) = pool.install(|| fill(ShardWriter::new(Vec::new(), options), &records, &runs));
            let mut oracle = ArrayRecordWriter::new(Vec::new(), options);
            (0..records.len()).try_for_each(|record| oracle.write_record(records.payload(record))).unwrap();
            prop_assert!(bytes == oracle.finish().unwrap(), "{:?} differs", options);
            let crc32c = crc32c::crc32c(&bytes);
            let (rows, framed_bytes) = (lens.len() as u64, records.bytes().len() as u64);
            let file_bytes = bytes.len() as u64;
            prop_assert_eq!(stats, ShardStats { rows, framed_bytes, file_bytes, crc32c, ..ShardStats::default() });
        }
    }
}

/// Returns the offsets of a shard of records of these framed lengths, straight from the definition: the first record
/// start, or member start, at or past each multiple of the interval. Without the positions in the file.
fn expected_offsets(lens: &[usize], interval: u64, compression: Compression) -> Vec<(u64, u64)> {
    let mut starts = Vec::new();
    let (mut framed, mut in_member) = (0, 0);
    for (record, len) in lens.iter().enumerate() {
        if in_member == 0 {
            starts.push((record as u64, framed as u64));
        }
        framed += len;
        in_member += len;
        if compression == Compression::None || in_member >= GZIP_BLOCK_LEN {
            in_member = 0;
        }
    }
    let mut offsets: Vec<_> = (1..=framed as u64 / interval)
        .filter_map(|multiple| starts.iter().copied().find(|(_, framed)| *framed >= multiple * interval))
        .collect();
    offsets.dedup();
    offsets
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_reader_can_begin_at_every_offset(
        lens in vec(prop_oneof![8 => 0usize..3_000, 1 => 60_000usize..400_000], 0..80),
        runs in vec(1usize..40, 1..4),
        interval in prop_oneof![1_000_u64..50_000, 500_000_u64..4_000_000],
    ) {
        let records = records(&lens);
        let payloads: Vec<_> = RecordReader::new(records.bytes()).into_payloads();
        let framed: Vec<_> = (0..records.len()).map(|i| records.slice(i..i + 1).len()).collect();
        for compression in ALL {
            let mut writer = ShardWriter::new(Vec::new(), (compression, Level::default()));
            writer.offsets.interval = interval;
            let (file, ShardStats { offsets, .. }) = fill(writer, &records, &runs);
            let places: Vec<_> = offsets.iter().map(|offset| (offset.record, offset.framed)).collect();
            if compression == Compression::Zlib {
                prop_assert_eq!(places, []);
                continue;
            }
            prop_assert_eq!(places, expected_offsets(&framed, interval, compression));
            for RecordOffset { record, file: start, .. } in offsets {
                let rest = RecordReader::with_compression(&file[start as usize..], compression).into_payloads();
                prop_assert!(rest == payloads[record as usize..], "{} from record {}", compression, record);
            }
        }
    }
}

/// Reads all records.
trait IntoPayloads {
    fn into_payloads(self) -> Vec<Vec<u8>>;
}

impl IntoPayloads for RecordReader<&[u8]> {
    fn into_payloads(mut self) -> Vec<Vec<u8>> {
        let mut record = Vec::new();
        std::iter::from_fn(|| self.read_record(&mut record).unwrap().then(|| record.clone())).collect()
    }
}

#[test]
fn offsets_are_16_mib_apart() {
    let records = records(&[1 << 20; 40]);
    let (_, stats) = shard(&records, &[7], Compression::None);
    let places: Vec<_> = stats.offsets.iter().map(|offset| (offset.record, offset.framed, offset.file)).collect();
    let framed =
        |record| (record, records.record_start(record as usize) as u64, records.record_start(record as usize) as u64);
    assert_eq!(places, [framed(16), framed(32)]);
}

#[test]
fn threads_do_not_change_a_byte() {
    let records = records(&vec![900; 6_000]); // five members
    let of_threads = |threads| {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| shard(&records, &[6_000], Compression::Gzip))
    };
    let (bytes, stats) = of_threads(1);
    assert!(stats.framed_bytes > 5 << 20);
    let mut oracle = RecordWriter::with_compression(Vec::new(), Compression::Gzip, Level::default());
    oracle.write_framed(records.bytes()).unwrap();
    assert!(bytes == oracle.finish().unwrap());
    assert_eq!(of_threads(3), (bytes, stats));
}

#[test]
fn an_empty_shard_can_be_read() {
    for compression in ALL {
        let (bytes, stats) = shard(&RecordBuffer::default(), &[1], compression);
        assert_eq!((stats.rows, stats.file_bytes), (0, bytes.len() as u64));
        assert_eq!(bytes.is_empty(), compression == Compression::None);
        let mut reader = RecordReader::with_compression(bytes.as_slice(), compression);
        assert!(!reader.read_record(&mut Vec::new()).unwrap());
    }
}

/// Records the length of each write.
#[derive(Default)]
struct Writes(Vec<usize>);

impl Write for Writes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.push(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn large_blocks_go_through_and_small_ones_are_collected() {
    let records = records(&vec![1_000; 1_000]);
    let writes = |run: usize| {
        let mut writer = ShardWriter::new(Writes::default(), (Compression::None, Level::default()));
        (0..records.len()).step_by(run).for_each(|at| writer.append(&records, at..at + run).unwrap());
        writer.finish().unwrap().0.0
    };
    assert_eq!(writes(100).len(), 10);
    let small = writes(1);
    let collected = COALESCE_LEN - DIRECT_LEN..=COALESCE_LEN;
    assert!(small.iter().rev().skip(1).all(|len| collected.contains(len)), "{small:?}");
}

#[test]
fn a_failing_sink_is_an_error_of_its_kind() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let records = records(&[100; 20]);
    for compression in ALL {
        let mut writer = ShardWriter::new(Full, (compression, Level::default()));
        let failed = writer.append(&records, 0..20).and_then(|()| writer.finish().map(drop));
        let error = failed.unwrap_err();
        assert!(matches!(error.kind(), crate::ErrorKind::Write(source) if source.kind() == io::ErrorKind::StorageFull));
    }
}
