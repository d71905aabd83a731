//! The shards depend only on the rows, whichever thread appends them.

use std::fs;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::Path;

use arrow_array::{ArrayRef, Int64Array, StringArray, UInt32Array};
use arrow_tfrecord::{Encoder, Mapping, MappingOptions};
use datafusion_execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};
use datafusion_physical_plan::metrics::{Count, Time};
use proptest::prelude::*;
use tfrecord_framing::Level;
use tfrecord_shards::{LocalCommit, RunId, SaveMode, ShardDeal, Sharding};

use super::*;
use crate::write::options::WriteOptions;
use crate::write::sealing::Sealing;
use crate::write::staging::Staging;

/// Rows of all units.
const ROWS: usize = 3000;

/// Rows of texts of up to 600 bytes.
fn rows(rows: Range<usize>) -> RecordBatch {
    let texts = rows.clone().map(|row| "x".repeat(row * row % 601));
    let columns = [
        ("id", Arc::new(Int64Array::from_iter_values(rows.map(|row| row as i64))) as ArrayRef),
        ("text", Arc::new(StringArray::from_iter_values(texts))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn mapping() -> Arc<Mapping> {
    Arc::new(Mapping::try_new(&rows(0..1).schema(), &MappingOptions::default()).unwrap())
}

/// How rows are assigned to shards, and the expected result.
#[derive(Debug, Clone, Copy)]
enum Rule {
    Rows(usize),
    Dealt(usize),
}

impl Rule {
    fn placement(self) -> Placement {
        match self {
            Self::Rows(most) => Placement::Rule(ShardRule::new(Sharding::Rows(most as u64))),
            Self::Dealt(_) => Placement::Dealt,
        }
    }

    /// The shard of each row.
    fn shards(self) -> Vec<u32> {
        match self {
            Self::Rows(most) => (0..ROWS).map(|row| (row / most) as u32).collect(),
            Self::Dealt(shards) => {
                let pieces = ShardDeal::new(NonZeroUsize::new(shards).unwrap()).deal(ROWS);
                pieces.iter().flat_map(|piece| piece.records.clone().map(|_| piece.shard as u32)).collect()
            }
        }
    }

    /// The expected contents of the shards.
    fn expected(self) -> Vec<Vec<u8>> {
        let mut records = RecordBuffer::default();
        Encoder::new(mapping()).encode(&rows(0..ROWS), &mut records).unwrap();
        let mut shards = vec![Vec::new(); self.shards().into_iter().max().unwrap() as usize + 1];
        for (record, shard) in self.shards().into_iter().enumerate() {
            shards[shard as usize].extend_from_slice(records.slice(record..record + 1));
        }
        shards
    }

    fn unit(self, unit: &Range<usize>) -> Unit {
        let mut batches = vec![rows(unit.clone())];
        if let Self::Dealt(_) = self {
            let shards = UInt32Array::from(self.shards()[unit.clone()].to_vec());
            let columns = batches[0].schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
            let columns = columns.into_iter().zip(batches[0].columns().to_vec());
            let with_shards = columns.chain([("shard".to_owned(), Arc::new(shards) as ArrayRef)]);
            batches = vec![RecordBatch::try_from_iter(with_shards).unwrap()];
        }
        // Some come in several batches.
        if unit.len() % 2 == 1 {
            let (first, batch) = (unit.len() / 3, batches.remove(0));
            batches = vec![batch.slice(0, first), batch.slice(first, unit.len() - first)];
        }
        Unit { rows_before: unit.start as u64, batches }
    }
}

/// A writer at work in a directory of its own.
struct Work {
    dir: tempfile::TempDir,
    run: Arc<Run>,
    writer: UnitWriter,
}

impl Work {
    fn begin(rule: Rule, compression: Compression) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let options = WriteOptions { compression, threads: NonZeroUsize::new(2), ..WriteOptions::new(out.as_path()) };
        let commit = LocalCommit::begin(&out, SaveMode::Error, RunId::new(), &[]).unwrap();
        let run = Run::begin(Staging::Local(commit), &options, None).unwrap();
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(usize::MAX));
        let open = OpenShards::new(Sealing::new(&run, 1).sinks(), 0, compression, Level::default());
        let writer = UnitWriter::new(
            &run,
            RowEncoder::new(&mapping(), &options).unwrap(),
            PartitionPlace { partition: 0, partitions: 1 },
            (open, rule.placement()),
            WriteMetrics {
                rows_written: Count::new(),
                bytes_written: Count::new(),
                shards: Count::new(),
                elapsed_compute: Time::new(),
            },
            MemoryConsumer::new("test").register(&pool),
        );
        Self { dir, run, writer }
    }

    /// Finishes what is complete, and appends all that is left.
    fn seal(&self, mut written: Written) {
        loop {
            assert!(written.complete.len() <= OpenShards::MAX_PIECES, "{} shards at once", written.complete.len());
            written.complete.into_iter().for_each(close);
            let Some(rest) = written.rest else { return };
            written = self.writer.append(rest, &self.run).unwrap();
        }
    }

    /// The bytes of all shards, by their number.
    fn finish(self) -> Vec<Vec<u8>> {
        let (complete, records) = self.writer.finish().unwrap();
        assert_eq!(records, ROWS as u64);
        complete.into_iter().for_each(close);
        let mut files = Vec::new();
        find(self.dir.path(), &mut files);
        files.sort();
        files.iter().map(|file| fs::read(file).unwrap()).collect()
    }
}

fn close(shard: OpenShard<ShardSink>) {
    let (ShardSink::File(file), stats) = shard.finish().unwrap() else { panic!("not a file") };
    file.seal(stats).unwrap();
}

fn find(dir: &Path, shards: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find(&path, shards);
        } else if path.metadata().unwrap().len() > 0 {
            shards.push(path);
        }
    }
}

/// Cuts the rows to units.
fn units(lens: &[usize]) -> Vec<Range<usize>> {
    let (mut units, mut start) = (Vec::new(), 0);
    for len in lens.iter().cycle() {
        let end = ROWS.min(start + len);
        units.push(start..end);
        start = end;
        if start == ROWS {
            return units;
        }
    }
    units
}

fn rules() -> impl Strategy<Value = Rule> {
    prop_oneof![
        // A unit makes far more shards than may be open for some of these; for others, several units make one shard.
        prop::sample::select(vec![3, 10, 40, 700, ROWS]).prop_map(Rule::Rows),
        (1_usize..9).prop_map(Rule::Dealt),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Units are started in any order within the window.
    #[test]
    fn units_in_any_order_make_the_same_shards(
        rule in rules(),
        lens in prop::collection::vec(1_usize..900, 1..6),
        window in 1_usize..6,
        seed in any::<prop::sample::Index>(),
    ) {
        let work = Work::begin(rule, Compression::None);
        let mut under_way = Vec::new();
        let mut units = units(&lens).into_iter();
        loop {
            under_way.extend(units.by_ref().take(window - under_way.len()));
            if under_way.is_empty() {
                break;
            }
            let unit = under_way.remove(seed.index(under_way.len()));
            work.seal(work.writer.write(rule.unit(&unit), &work.run).unwrap());
        }
        prop_assert!(work.finish() == rule.expected(), "{rule:?}");
    }
}

/// Threads take units as they get to them. Complete shards are sealed while other threads continue.
#[test]
fn threads_make_the_same_shards() {
    for rule in [Rule::Rows(7), Rule::Rows(500), Rule::Dealt(3)] {
        for _ in 0..10 {
            let work = Work::begin(rule, Compression::None);
            let units = Mutex::new(units(&[130, 61, 300, 9]).into_iter());
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let next = || units.lock().unwrap().next();
                        while let Some(unit) = next() {
                            work.seal(work.writer.write(rule.unit(&unit), &work.run).unwrap());
                        }
                    });
                }
            });
            assert!(work.finish() == rule.expected(), "{rule:?}");
        }
    }
}

/// Whole units are appended if their members are compressed in parallel.
#[test]
fn compressed_units_wait_for_their_turn() {
    let (rule, compression) = (Rule::Rows(400), Compression::Gzip);
    let ordered = Work::begin(rule, compression);
    let reversed = Work::begin(rule, compression);
    let units = units(&[130, 61]);
    for unit in &units {
        ordered.seal(ordered.writer.write(rule.unit(unit), &ordered.run).unwrap());
    }
    for unit in units.iter().rev() {
        reversed.seal(reversed.writer.write(rule.unit(unit), &reversed.run).unwrap());
    }
    let shards = ordered.finish();
    assert_eq!(shards.len(), ROWS.div_ceil(400));
    assert!(shards == reversed.finish());
}

#[test]
fn units_that_are_missing_are_an_error() {
    let rule = Rule::Rows(100);
    let work = Work::begin(rule, Compression::None);
    let units = units(&[500]);
    work.seal(work.writer.write(rule.unit(&units[1]), &work.run).unwrap());
    assert!(work.writer.finish().is_err_and(|error| error.to_string().contains("1 units were not appended")));
}

#[test]
fn blocks_keep_together_what_is_dealt_together() {
    let of = |rows, dealt: &[u32], block_rows| blocks(rows, dealt, block_rows).collect::<Vec<_>>();
    assert_eq!(of(5, &[], 2), [0..2, 2..4, 4..5]);
    assert_eq!(of(6, &[0, 1, 1, 1, 2, 2], 2), [0..4, 4..6]);
    assert!(of(0, &[], 0).is_empty());
    assert_eq!(of(2, &[], 0), [0..1, 1..2]);
}
