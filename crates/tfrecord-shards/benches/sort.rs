//! Sorting, in memory and spilled, beside copying the same bytes.
//!
//! `cargo bench -p tfrecord-shards --bench sort` times a million records as a whole; then it tells for more of them what
//! each step takes, `ROWS=5000000` of them if not told otherwise.

#![allow(missing_docs, reason = "a benchmark has no interface")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark fails and speaks as a program does")]

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Float32Array, RecordBatch, StringArray, UInt64Array};
use arrow_tfrecord::{Encoder, Mapping, MappingOptions, RecordBuffer};
use criterion::{BatchSize, Criterion, Throughput, criterion_group};
use tfrecord_shards::Sharding;
use tfrecord_shards::sort::{EqualRecords, RecordSorter, SortKey, SorterOptions, TempDirSpill};
use xxhash_rust::xxh3::xxh3_64;

/// What a table writer hands over at a time.
const BUFFER_ROWS: u64 = 20_000;

/// Keys and records of an input.
type Input = Vec<(Vec<SortKey>, RecordBuffer)>;

/// So many Examples of five features and 100 framed bytes or so, each different from the others, in two inputs.
fn inputs(rows: u64, distinct: u64) -> [Input; 2] {
    let mut inputs = [Vec::new(), Vec::new()];
    let mut first = 0;
    let mut encoder = None;
    while first < rows {
        let numbers: Vec<u64> = (first..rows.min(first + BUFFER_ROWS)).map(|row| row % distinct).collect();
        first += BUFFER_ROWS;
        let kinds = ["alpha", "beta", "gamma", "delta"];
        let hash = |number: &u64| xxh3_64(&number.to_le_bytes());
        let batch = RecordBatch::try_from_iter([
            ("id", Arc::new(UInt64Array::from(numbers.clone())) as ArrayRef),
            ("user", Arc::new(numbers.iter().map(|number| Some(hash(number) >> 24)).collect::<UInt64Array>())),
            ("label", Arc::new(numbers.iter().map(|number| Some(hash(number) & 1)).collect::<UInt64Array>())),
            ("price", Arc::new(numbers.iter().map(|number| Some(hash(number) as f32)).collect::<Float32Array>())),
            ("kind", Arc::new(numbers.iter().map(|number| Some(kinds[*number as usize % 4])).collect::<StringArray>())),
        ])
        .unwrap();
        let encoder = encoder.get_or_insert_with(|| {
            Encoder::new(Arc::new(Mapping::try_new(&batch.schema(), &MappingOptions::default()).unwrap()))
        });
        let mut records = RecordBuffer::default();
        encoder.encode(&batch, &mut records).unwrap();
        let keys = (0..records.len()).map(|record| SortKey::shuffled(0, records.payload(record), 1)).collect();
        inputs[(first / BUFFER_ROWS % 2) as usize].push((keys, records));
    }
    inputs
}

/// What the steps of sorting took.
#[derive(Debug, Clone, Copy)]
struct Steps {
    push: Duration,
    finish: Duration,
    cut: Duration,
    read: Duration,
}

/// Sorts with at most so many bytes in memory for each input, and reads everything on two threads.
fn sort(inputs: [Input; 2], memory: usize, sharding: Sharding) -> Steps {
    let options = SorterOptions::new(Arc::new(TempDirSpill::default()));
    let sorter = RecordSorter::new(options.with_equal(EqualRecords::Spread { seed: 1 }));
    let start = Instant::now();
    rayon::scope(|scope| {
        for input in inputs {
            let mut sorted = sorter.input();
            scope.spawn(move |_| {
                for (keys, records) in input {
                    sorted.push(&keys, &records).unwrap();
                    if sorted.memory() > memory {
                        sorted.spill().unwrap();
                    }
                }
                sorted.finish().unwrap();
            });
        }
    });
    let pushed = Instant::now();
    let sorted = sorter.finish().unwrap();
    let finished = Instant::now();
    let plan = sorted.cut(|_| sharding).unwrap();
    let cut = Instant::now();
    let tasks = std::sync::atomic::AtomicUsize::new(0);
    rayon::scope(|scope| {
        for _ in 0..rayon::current_num_threads() {
            scope.spawn(|_| {
                let mut out = Vec::new();
                loop {
                    let task = tasks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if task >= plan.tasks() {
                        return;
                    }
                    let mut records = plan.read_once(task);
                    while let Some(block) = records.next() {
                        let block = block.unwrap();
                        out.clear();
                        out.extend_from_slice(block.records.bytes());
                        black_box(&out);
                        records.recycle(block.records);
                    }
                }
            });
        }
    });
    let read = Instant::now();
    Steps { push: pushed - start, finish: finished - pushed, cut: cut - finished, read: read - cut }
}

const CASES: [(&str, usize); 2] = [("memory", usize::MAX), ("spilled", 64 << 20)];

fn million(criterion: &mut Criterion) {
    const ROWS: u64 = 1_000_000;
    let bytes: u64 = inputs(ROWS, ROWS).iter().flatten().map(|(_, records)| records.bytes().len() as u64).sum();
    let mut group = criterion.benchmark_group("sort");
    group.sample_size(10).throughput(Throughput::ElementsAndBytes { elements: ROWS, bytes });
    for (name, memory) in CASES {
        group.bench_function(name, |bencher| {
            let begin = || inputs(ROWS, ROWS);
            bencher.iter_batched(begin, |inputs| sort(inputs, memory, Sharding::default()), BatchSize::PerIteration);
        });
    }
    let framed: Vec<u8> = vec![1; bytes as usize];
    let mut copy = vec![0; framed.len()];
    group.bench_function("memcpy", |bencher| bencher.iter(|| copy.copy_from_slice(black_box(&framed))));
    group.finish();
}

/// Each step by itself.
fn steps() {
    let rows: u64 = std::env::var("ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(5_000_000);
    let spilled = std::env::var("SPILL").ok().and_then(|bytes| bytes.parse().ok()).unwrap_or(192usize << 20);
    let count = Sharding::Count(NonZeroUsize::new(16).unwrap());
    let cases = [
        ("memory", usize::MAX, rows, count),
        ("memory", usize::MAX, rows, count),
        ("spilled", spilled, rows, count),
        ("spilled, 128 MiB shards", spilled, rows, Sharding::default()),
        ("spilled, every record twice", spilled, rows / 2, count),
        ("spilled, 100 distinct records", spilled, 100, count),
    ];
    println!("ns a record of {rows}, on {} threads", rayon::current_num_threads());
    for (name, memory, distinct, sharding) in cases {
        let inputs = inputs(rows, distinct);
        let framed: Vec<&[u8]> = inputs.iter().flatten().map(|(_, records)| records.bytes()).collect();
        let mut copy = vec![0; framed.iter().map(|bytes| bytes.len()).sum()];
        let start = Instant::now();
        let mut rest = copy.as_mut_slice();
        for bytes in framed {
            let (now, later) = rest.split_at_mut(bytes.len());
            now.copy_from_slice(bytes);
            rest = later;
        }
        let memcpy = start.elapsed();
        drop(copy);
        let Steps { push, finish, cut, read } = sort(inputs, memory, sharding);
        let each = |time: Duration| time.as_nanos() as f64 / rows as f64;
        println!(
            "{name:30} push {:6.1} finish {:6.1} cut {:6.1} read {:6.1}: {:6.1}, {:5.1} of memcpy",
            each(push),
            each(finish),
            each(cut),
            each(read),
            each(push + finish + cut + read),
            (push + finish + cut + read).as_secs_f64() / memcpy.as_secs_f64(),
        );
    }
}

criterion_group!(benches, million);

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
    steps();
}
