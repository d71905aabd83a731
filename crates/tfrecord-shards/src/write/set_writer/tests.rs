//! The shards depend only on the rows of each input, whichever thread appends them.

use std::io;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_tfrecord::{Encoder, Mapping, MappingOptions};
use proptest::prelude::*;
use tfrecord_framing::{Compression, Level, RecordReader};

use super::*;
use crate::commit::destination::{Destination, ShardSink};
use crate::commit::publication::StagedShard;
use crate::set::group::ShardPlace;

use crate::write::shard_writer::ShardStats;
use crate::write::sharding::Sharding;

/// Shards in memory, once they are sealed.
#[derive(Debug, Clone, Default)]
struct InMemory(Arc<Mutex<Vec<SealedShard>>>);

/// The number and the bytes of a shard.
#[derive(Debug)]
struct SealedShard(usize, Vec<u8>);

impl Destination for InMemory {
    fn create(&self, _: u32, sequence: u32, _: Option<ShardPlace<'_>>) -> Result<Box<dyn ShardSink>> {
        Ok(Box::new(NumberedShard { number: sequence as usize, bytes: Vec::new(), sealed: self.clone() }))
    }
}

/// The bytes of a shard.
#[derive(Debug)]
struct NumberedShard {
    number: usize,
    bytes: Vec<u8>,
    sealed: InMemory,
}

impl ShardSink for NumberedShard {
    fn seal(self: Box<Self>, _: ShardStats) -> Result<Option<StagedShard>> {
        self.sealed.0.lock().unwrap().push(SealedShard(self.number, self.bytes));
        Ok(None)
    }
}

impl io::Write for NumberedShard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Rows of texts of up to 600 bytes. Their ids start at `first`.
fn rows(first: usize, rows: Range<usize>) -> RecordBatch {
    let texts = rows.clone().map(|row| "x".repeat(row * row % 601));
    let columns = [
        ("id", Arc::new(Int64Array::from_iter_values(rows.map(|row| (first + row) as i64))) as ArrayRef),
        ("text", Arc::new(StringArray::from_iter_values(texts))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn encoder() -> Encoder {
    Encoder::new(Arc::new(Mapping::try_new(&rows(0, 0..1).schema(), &MappingOptions::default()).unwrap()))
}

/// A unit: some rows of an input.
#[derive(Debug, Clone)]
struct Unit {
    input: usize,
    rows: Range<usize>,
}

/// The number of the first row of an input.
fn first_id(input: usize) -> usize {
    input * 1_000_000
}

/// A writer at work.
struct Work {
    encoder: Encoder,
    writer: SetWriter,
    sealed: InMemory,
}

impl Work {
    fn begin(rule: Rule, compression: Compression) -> Self {
        let sealed = InMemory::default();
        let open = OpenShards::new(Arc::new(sealed.clone()), 0, (compression, Level::default()));
        let writer = match rule {
            Rule::Rows(most) => SetWriter::new(open, ShardRule::new(Sharding::Rows(most as u64)), ()),
            Rule::RoundRobin { shards, inputs } => SetWriter::round_robin(open, count(shards), count(inputs), ()),
        };
        Self { encoder: encoder(), writer, sealed }
    }

    /// Writes a unit, in two batches if its length is odd.
    fn write(&self, Unit { input, rows: unit }: &Unit) {
        let batch = rows(first_id(*input), unit.clone());
        let first = if unit.len() % 2 == 1 { unit.len() / 3 } else { unit.len() };
        let batches = [batch.slice(0, first), batch.slice(first, unit.len() - first)];
        let encode = |records: &mut UnitRecords<'_>| {
            for batch in &batches {
                let bound = self.encoder.bind(batch)?;
                for block in records.blocks(batch.num_rows()) {
                    bound.encode(block, records.buffer())?;
                    records.end_block()?;
                }
            }
            Ok::<_, crate::Error>(())
        };
        self.settle(self.writer.write(*input, unit.start as u64, encode).unwrap());
    }

    /// Finishes what is complete, and appends all that is left.
    fn settle(&self, mut written: Written) {
        loop {
            assert!(written.complete.len() <= OpenShards::MAX_PIECES, "{} shards at once", written.complete.len());
            self.close(written.complete);
            let Some(rest) = written.rest else { return };
            written = self.writer.append(rest).unwrap();
        }
    }

    fn close(&self, complete: Vec<OpenShard>) {
        complete.into_iter().for_each(|shard| assert!(shard.seal().unwrap().is_none()));
    }

    /// Returns the records of each shard, by its number, up to the last one that has any.
    fn finish(self) -> Vec<Vec<Vec<u8>>> {
        self.close(self.writer.finish().unwrap());
        let sealed = self.sealed.0.lock().unwrap();
        let mut all = vec![Vec::new(); sealed.iter().map(|SealedShard(number, _)| number + 1).max().unwrap_or(0)];
        for SealedShard(number, bytes) in &*sealed {
            assert!(all[*number].is_empty(), "shard {number} twice");
            all[*number] = records(bytes);
        }
        all
    }
}

fn records(shard: &[u8]) -> Vec<Vec<u8>> {
    let (mut reader, mut records, mut record) = (RecordReader::detect(shard), Vec::new(), Vec::new());
    while reader.read_record(&mut record).unwrap() {
        records.push(record.clone());
    }
    records
}

/// How rows are assigned to shards.
#[derive(Debug, Clone, Copy)]
enum Rule {
    Rows(usize),
    RoundRobin { shards: usize, inputs: usize },
}

impl Rule {
    /// Returns the expected records of each shard, for inputs of these numbers of rows.
    fn expected(self, lengths: &[usize]) -> Vec<Vec<Vec<u8>>> {
        match self {
            Self::Rows(most) => payloads(0, lengths[0]).chunks(most).map(<[_]>::to_vec).collect(),
            Self::RoundRobin { shards, inputs } => {
                let mut blocks = Vec::new();
                for (input, &len) in lengths.iter().enumerate() {
                    let (payloads, mut round, mut rows_per_shard) = (payloads(input, len), 0, 0);
                    let mut rows = payloads.as_slice();
                    while !rows.is_empty() {
                        let len = (rows_per_shard / 32).clamp(1, 256);
                        for place in 0..shards {
                            let shard = (input * shards / inputs + place) % shards;
                            let (block, rest) = rows.split_at(len.min(rows.len()));
                            blocks.push(((shard, round, input), block.to_vec()));
                            rows = rest;
                        }
                        rows_per_shard += len;
                        round += 1;
                    }
                }
                blocks.sort();
                let mut expected = vec![Vec::new(); shards];
                for ((shard, ..), block) in blocks.into_iter().filter(|(_, block)| !block.is_empty()) {
                    expected[shard].extend(block);
                }
                // A shard without rows is not opened.
                expected.truncate(expected.iter().rposition(|shard| !shard.is_empty()).map_or(0, |last| last + 1));
                expected
            }
        }
    }
}

/// Returns the records of an input.
fn payloads(input: usize, len: usize) -> Vec<Vec<u8>> {
    let mut records = RecordBuffer::default();
    encoder().encode(&rows(first_id(input), 0..len), &mut records).unwrap();
    (0..len).map(|record| records.payload(record).to_vec()).collect()
}

/// Divides the rows of an input into units of these lengths, in turn.
fn units(input: usize, rows: usize, lens: &[usize]) -> Vec<Unit> {
    let (mut units, mut start) = (Vec::new(), 0);
    let mut lens = lens.iter().cycle();
    while start < rows {
        let end = rows.min(start + lens.next().unwrap());
        units.push(Unit { input, rows: start..end });
        start = end;
    }
    units
}

fn count(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

/// Writes the units of each input in order, within a window in any order, and from the inputs in any order.
fn write(rule: Rule, compression: Compression, lengths: &[usize], lens: &[usize], window: usize, seed: &[usize]) {
    let work = Work::begin(rule, compression);
    let mut inputs: Vec<_> =
        lengths.iter().enumerate().map(|(input, &rows)| (units(input, rows, lens), rows)).collect();
    let mut seed = seed.iter().cycle().copied();
    let mut open: Vec<_> = (0..lengths.len()).collect();
    while !open.is_empty() {
        let at = seed.next().unwrap() % open.len();
        let (units, rows) = &mut inputs[open[at]];
        if units.is_empty() {
            work.settle(work.writer.end(open[at], *rows as u64).unwrap());
            open.swap_remove(at);
        } else {
            work.write(&units.remove(seed.next().unwrap() % window.min(units.len())));
        }
    }
    assert!(work.finish() == rule.expected(lengths), "{rule:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn units_in_any_order_make_the_same_shards(
        // A unit makes far more shards than may be open for some of these; for others, several units make one shard.
        most in prop::sample::select(vec![3, 10, 40, 700, 3000]),
        lens in prop::collection::vec(1_usize..900, 1..6),
        window in 1_usize..6,
        seed in prop::collection::vec(any::<usize>(), 1..20),
    ) {
        write(Rule::Rows(most), Compression::None, &[3000], &lens, window, &seed);
    }

    #[test]
    fn set_writer_takes_inputs_in_turn_whatever_their_speed(
        lengths in prop::collection::vec(prop_oneof![Just(1), 1..40_usize, 1..3000_usize], 1..5),
        shards in 1_usize..12,
        lens in prop::collection::vec(1_usize..900, 1..6),
        window in 1_usize..4,
        seed in prop::collection::vec(any::<usize>(), 1..20),
    ) {
        let rule = Rule::RoundRobin { shards, inputs: lengths.len() };
        write(rule, Compression::None, &lengths, &lens, window, &seed);
    }
}

/// Threads write units as they get to them. Complete shards are finished while other threads continue.
#[test]
fn threads_make_the_same_shards() {
    let round_robin = Rule::RoundRobin { shards: 3, inputs: 2 };
    for (rule, lengths) in [(Rule::Rows(7), &[3000][..]), (Rule::Rows(500), &[3000]), (round_robin, &[2500, 900])] {
        for _ in 0..10 {
            let work = Work::begin(rule, Compression::None);
            let all: Vec<_> =
                lengths.iter().enumerate().flat_map(|(input, &rows)| units(input, rows, &[130, 61, 300, 9])).collect();
            let units = Mutex::new(all.into_iter());
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let next = || units.lock().unwrap().next();
                        while let Some(unit) = next() {
                            work.write(&unit);
                        }
                    });
                }
            });
            for (input, &rows) in lengths.iter().enumerate() {
                work.settle(work.writer.end(input, rows as u64).unwrap());
            }
            assert!(work.finish() == rule.expected(lengths), "{rule:?}");
        }
    }
}

/// Whole units are appended if their members are compressed in parallel.
#[test]
fn set_writer_keeps_the_order_of_compressed_units() {
    for window in [1, 4] {
        write(Rule::Rows(400), Compression::Gzip, &[3000], &[130, 61], window, &[0, 3, 2]);
        let rule = Rule::RoundRobin { shards: 5, inputs: 2 };
        write(rule, Compression::Zlib, &[3000, 700], &[130, 61], window, &[0, 3, 2]);
    }
}

/// The records of a row go to one shard.
#[test]
fn rows_of_several_records_stay_together() {
    let sealed = InMemory::default();
    let open = OpenShards::new(Arc::new(sealed.clone()), 0, (Compression::None, Level::default()));
    let rule = ShardRule::new(Sharding::Count(count(2)));
    let writer = SetWriter::new(open, rule, ()).with_records_per_row(3);
    let encode =
        |records: &mut UnitRecords<'_>| Ok::<_, crate::Error>(encoder().encode(&rows(0, 0..12), records.buffer())?);
    assert!(writer.write(0, 0, encode).unwrap().rest.is_none());
    writer.finish().unwrap().into_iter().for_each(|shard| assert!(shard.seal().unwrap().is_none()));
    let shards: Vec<_> = sealed.0.lock().unwrap().iter().map(|SealedShard(_, bytes)| records(bytes)).collect();
    let all = payloads(0, 12);
    let expected = [[&all[0..3], &all[6..9]].concat(), [&all[3..6], &all[9..12]].concat()];
    assert_eq!(shards, expected);
}

#[test]
fn an_input_that_is_ahead_reports_waiting_units() {
    let rule = Rule::RoundRobin { shards: 2, inputs: 2 };
    let work = Work::begin(rule, Compression::None);
    let ahead = units(1, 30, &[10]);
    ahead.iter().for_each(|unit| work.write(unit));
    assert_eq!((work.writer.waiting(0), work.writer.waiting(1)), (0, 3));
    work.write(&units(0, 12, &[12])[0]);
    assert_eq!((work.writer.waiting(0), work.writer.waiting(1)), (0, 2));
    work.settle(work.writer.end(0, 12).unwrap());
    assert_eq!(work.writer.waiting(1), 0);
}

#[test]
fn missing_units_are_an_error() {
    for rule in [Rule::Rows(100), Rule::RoundRobin { shards: 2, inputs: 2 }] {
        let work = Work::begin(rule, Compression::None);
        work.write(&units(0, 3000, &[500])[1]);
        work.settle(work.writer.end(0, 1000).unwrap());
        assert!(work.writer.finish().is_err(), "{rule:?}");
    }
    // An input that ended early.
    let work = Work::begin(Rule::RoundRobin { shards: 2, inputs: 2 }, Compression::None);
    work.settle(work.writer.end(0, 1000).unwrap());
    work.settle(work.writer.end(1, 0).unwrap());
    assert!(work.writer.finish().is_err());
}
