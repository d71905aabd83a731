use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, RecordBatch};
use arrow_tfrecord::{Encoder, Mapping, MappingOptions};
use proptest::collection::vec;
use proptest::prelude::*;
use rayon::ThreadPoolBuilder;
use tfrecord_framing::RecordReader;

use super::*;

const ALL: [Compression; 3] = [Compression::None, Compression::Gzip, Compression::Zlib];

/// Records of about these lengths, which compress a little.
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

/// The shard of these records, handed over in runs of these lengths.
fn shard(records: &RecordBuffer, runs: &[usize], compression: Compression) -> (Vec<u8>, ShardStats) {
    let mut writer = ShardWriter::new(Vec::new(), compression, Level::default());
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
    fn bytes_are_those_of_the_record_writer(
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
        }
    }
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

/// Notes how long each write is.
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
        let mut writer = ShardWriter::new(Writes::default(), Compression::None, Level::default());
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
        let mut writer = ShardWriter::new(Full, compression, Level::default());
        let failed = writer.append(&records, 0..20).and_then(|()| writer.finish().map(drop));
        let error = failed.unwrap_err();
        assert!(matches!(error.kind(), crate::ErrorKind::Write(source) if source.kind() == io::ErrorKind::StorageFull));
        assert!(error.hint().is_some());
    }
}
