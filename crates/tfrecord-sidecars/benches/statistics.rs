//! What statistics add to the writing of records, on tables like those of the conversion benchmarks.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

#[path = "../../arrow-tfrecord/benches/tables/mod.rs"]
mod tables;

use std::hint::black_box;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_tfrecord::{Encoder, Mapping, MappingOptions, RecordBuffer};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tfrecord_sidecars::stats::{Detail, Statistics};

/// Rows that a scan hands over at a time, and enough of them that what is exact for few values is no more.
const BATCH_ROWS: usize = 8192;
const BATCHES: usize = 32;

fn statistics(criterion: &mut Criterion) {
    table(criterion, "lineitem", &tables::lineitem(BATCHES * BATCH_ROWS));
    table(criterion, "ctr", &tables::ctr(BATCHES * BATCH_ROWS / 4));
}

fn table(criterion: &mut Criterion, name: &str, table: &RecordBatch) {
    let mapping = Arc::new(Mapping::try_new(&table.schema(), &MappingOptions::default()).unwrap());
    let encoder = Encoder::new(Arc::clone(&mapping));
    let starts = (0..table.num_rows()).step_by(BATCH_ROWS);
    let batches: Vec<_> = starts.map(|start| table.slice(start, BATCH_ROWS.min(table.num_rows() - start))).collect();
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(table.num_rows() as u64)).sample_size(10);

    let mut records = RecordBuffer::default();
    group.bench_function("encode", |bencher| {
        bencher.iter(|| {
            for batch in &batches {
                records.clear();
                encoder.encode(batch, &mut records).unwrap();
                black_box(&records);
            }
        });
    });
    for (what, detail) in [("presence", Detail::Presence), ("values", Detail::Values)] {
        // What is gathered in many batches goes on in the same statistics, as it does in a conversion.
        let mut statistics = Statistics::new(&mapping, detail);
        let bound: Vec<_> = batches.iter().map(|batch| encoder.bind(batch).unwrap()).collect();
        group.bench_function(what, |bencher| {
            bencher.iter(|| bound.iter().for_each(|batch| statistics.update(batch)));
        });
        black_box(&statistics);
    }
    group.finish();
}

criterion_group!(benches, statistics);
criterion_main!(benches);
