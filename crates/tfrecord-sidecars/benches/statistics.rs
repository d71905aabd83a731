//! What statistics add to the writing of records, on tables like those of the conversion benchmarks.
//!
//! `cargo bench -p tfrecord-sidecars --bench statistics [lineitem|ctr]` prints the CPU time of a row, and its ratio to that
//! of encoding; then that of a value of each column. It counts processor time and not, as criterion does, time of day:
//! what is measured here is small beside what other programs do to the clock.

#![allow(missing_docs, reason = "a benchmark has no interface")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark fails and speaks as a program does")]

#[path = "../../arrow-tfrecord/benches/tables/mod.rs"]
mod tables;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use arrow_tfrecord::{BoundBatch, Encoder, Mapping, MappingOptions, RecordBuffer};
use tfrecord_sidecars::stats::{Detail, Statistics};

/// Rows that a scan hands over at a time, and enough of them that what is exact for few values is no more.
const BATCH_ROWS: usize = 8192;
const BATCHES: usize = 32;

/// Each is measured so often, in turns.
const TURNS: u32 = 10;

/// The system books the time of a thread in steps of some milliseconds: an order less than a turn should be.
const PASSES: u32 = 25;

/// The time that this thread had a processor, where the system tells, or else the time of day.
fn now(start: Instant) -> Duration {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let run = schedule.split(' ').next().and_then(|run| run.parse().ok());
    run.map_or_else(|| start.elapsed(), Duration::from_nanos)
}

/// Nanoseconds a row of each way to handle `rows` rows, so many times in each turn.
fn measure<const N: usize>(rows: usize, passes: u32, mut ways: [&mut dyn FnMut(); N]) -> [f64; N] {
    let start = Instant::now();
    let mut total = [Duration::ZERO; N];
    for turn in 0..=TURNS {
        for (way, total) in ways.iter_mut().zip(&mut total) {
            let before = now(start);
            (0..passes).for_each(|_| way());
            // The first turn is to warm up.
            if turn > 0 {
                *total += now(start) - before;
            }
        }
    }
    total.map(|total| total.as_nanos() as f64 / f64::from(TURNS * passes) / rows as f64)
}

/// Columns of few words as a reader of Parquet makes them from dictionaries: a word that is there again is the same view.
fn from_dictionaries(table: &RecordBatch) -> RecordBatch {
    let from_dictionary = |column: &ArrayRef| {
        if *column.data_type() != DataType::Utf8View {
            return Arc::clone(column);
        }
        let words = column.as_string_view();
        let mut views = StringViewBuilder::new().with_deduplicate_strings();
        words.iter().for_each(|word| views.append_option(word));
        Arc::new(views.finish())
    };
    RecordBatch::try_new(table.schema(), table.columns().iter().map(from_dictionary).collect()).unwrap()
}

fn batches(table: &RecordBatch) -> Vec<RecordBatch> {
    let starts = (0..table.num_rows()).step_by(BATCH_ROWS);
    starts.map(|start| table.slice(start, BATCH_ROWS.min(table.num_rows() - start))).collect()
}

fn report(name: &str, table: &RecordBatch) {
    let mapping = Arc::new(Mapping::try_new(&table.schema(), &MappingOptions::default()).unwrap());
    let encoder = Encoder::new(Arc::clone(&mapping));
    let batches = batches(table);
    let bound: Vec<_> = batches.iter().map(|batch| encoder.bind(batch).unwrap()).collect();
    let mut records = RecordBuffer::default();
    let mut encode = || {
        for batch in &batches {
            records.clear();
            encoder.encode(batch, &mut records).unwrap();
            black_box(&records);
        }
    };
    // What is gathered in many batches goes on in the same statistics, as it does in a conversion.
    let update = |detail| {
        let mut statistics = Statistics::new(&mapping, detail);
        let bound = &bound;
        move || bound.iter().for_each(|batch: &BoundBatch<'_>| statistics.update(black_box(batch)))
    };
    let (mut presence, mut values) = (update(Detail::Presence), update(Detail::Values));
    let rows = table.num_rows();
    let [encode, presence, values] = measure(rows, 1, [&mut encode, &mut presence, &mut values]);
    println!("{name}: encode {encode:.0} ns a row, presence {presence:.1}, values {values:.0}");
    println!("{name}: values cost {:.2} of encode", values / encode);

    for (index, field) in table.schema().fields().iter().enumerate() {
        let column = table.project(&[index]).unwrap();
        let mapping = Arc::new(Mapping::try_new(&column.schema(), &MappingOptions::default()).unwrap());
        let encoder = Encoder::new(Arc::clone(&mapping));
        let batches = self::batches(&column);
        let bound: Vec<_> = batches.iter().map(|batch| encoder.bind(batch).unwrap()).collect();
        let mut statistics = Statistics::new(&mapping, Detail::Values);
        let mut update = || bound.iter().for_each(|batch| statistics.update(black_box(batch)));
        let [values] = measure(rows, PASSES, [&mut update]);
        let per_row = statistics.features().iter().map(|feature| feature.total_values()).sum::<u64>() as f64
            / statistics.rows() as f64;
        println!("  {:<16} {values:6.1} ns a row, {:5.1} a value", field.name(), values / per_row);
    }
}

fn main() {
    let named = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    if "lineitem".contains(&named) {
        report("lineitem", &from_dictionaries(&tables::lineitem(BATCHES * BATCH_ROWS)));
    }
    if "ctr".contains(&named) {
        report("ctr", &tables::ctr(BATCHES * BATCH_ROWS / 4));
    }
}
