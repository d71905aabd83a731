//! Encoding, compared to its lower bound (copying the same bytes) and to encoding via message objects. Also the compact
//! form of the records, compared to encoding them.
//!
//! `cargo bench -p arrow-tfrecord` prints bytes and rows a second of each, and the ratios at the end.

#![allow(missing_docs, reason = "a benchmark has no interface")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark fails and speaks as a program does")]

mod tables;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::DataType;
use arrow_tfrecord::{CompactForm, Encoder, Mapping, MappingOptions, RecordBuffer};
use criterion::{Criterion, Throughput, criterion_group};
use prost::Message;
use tfr_proto::tensorflow::feature::Kind;
use tfr_proto::tensorflow::{BytesList, Example, Feature, Features, FloatList, Int64List};

/// The default batch of the engine.
const ROWS: usize = 8192;

type Table = fn(usize) -> RecordBatch;

const TABLES: [(&str, Table); 3] =
    [("lineitem", tables::lineitem), ("ctr", tables::ctr), ("five columns", five_columns)];

/// Rows of a few short values, as in shuffles.
fn five_columns(rows: usize) -> RecordBatch {
    // Fibonacci hashing makes numbers without much of a pattern.
    let number = |row: usize, bits: u32| (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits);
    let numbers = |bits| Int64Array::from_iter_values((0..rows).map(|row| number(row, bits) as i64));
    let price = Float64Array::from_iter_values((0..rows).map(|row| number(row, 10) as f64 / 8.0));
    let kinds = ["alpha", "beta", "gamma", "delta"];
    let kind = StringArray::from_iter_values((0..rows).map(|row| kinds[number(row, 2) as usize]));
    RecordBatch::try_from_iter([
        ("id", Arc::new(numbers(25)) as ArrayRef),
        ("user", Arc::new(numbers(40))),
        ("label", Arc::new(numbers(1))),
        ("price", Arc::new(price)),
        ("kind", Arc::new(kind)),
    ])
    .unwrap()
}

fn encoder(batch: &RecordBatch) -> Encoder {
    Encoder::new(Arc::new(Mapping::try_new(&batch.schema(), &MappingOptions::default()).unwrap()))
}

fn int64(value: i64) -> Kind {
    Kind::Int64List(Int64List { value: vec![value] })
}

fn float(value: f32) -> Kind {
    Kind::FloatList(FloatList { value: vec![value] })
}

fn bytes(value: &str) -> Kind {
    Kind::BytesList(BytesList { value: vec![value.as_bytes().to_vec()] })
}

/// One row as a message object.
fn example(batch: &RecordBatch, row: usize) -> Example {
    let mut feature = BTreeMap::new();
    for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        if array.is_null(row) {
            continue;
        }
        let kind = match array.data_type() {
            DataType::Int64 => int64(array.as_primitive::<Int64Type>().value(row)),
            DataType::Int32 => int64(array.as_primitive::<Int32Type>().value(row).into()),
            DataType::Float64 => float(array.as_primitive::<Float64Type>().value(row) as f32),
            DataType::Utf8 => bytes(array.as_string::<i32>().value(row)),
            DataType::Utf8View => bytes(array.as_string_view().value(row)),
            _ => {
                let values = array.as_list::<i32>().value(row);
                match values.data_type() {
                    DataType::Int64 => {
                        let value = values.as_primitive::<Int64Type>().values().to_vec();
                        Kind::Int64List(Int64List { value })
                    }
                    _ => {
                        let value = values.as_primitive::<Float32Type>().values().to_vec();
                        Kind::FloatList(FloatList { value })
                    }
                }
            }
        };
        feature.insert(field.name().clone(), Feature { kind: Some(kind) });
    }
    Example { features: Some(Features { feature }) }
}

fn through_messages(batch: &RecordBatch, out: &mut Vec<u8>) {
    out.clear();
    for row in 0..batch.num_rows() {
        tfrecord_framing::append_record(out, |out| example(batch, row).encode(out)).unwrap();
    }
}

fn encode(criterion: &mut Criterion) {
    for (name, table) in TABLES {
        let batch = table(ROWS);
        let encoder = encoder(&batch);
        let mut records = RecordBuffer::default();
        encoder.encode(&batch, &mut records).unwrap();
        let framed = records.bytes().to_vec();
        let mut messages = Vec::new();
        through_messages(&batch, &mut messages);
        assert!(framed == messages, "both ways give the same file");

        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::ElementsAndBytes { elements: ROWS as u64, bytes: framed.len() as u64 });
        group.bench_function("encode", |bencher| {
            bencher.iter(|| {
                records.clear();
                encoder.encode(black_box(&batch), &mut records).unwrap();
            });
        });
        let mut copy = vec![0; framed.len()];
        group.bench_function("memcpy", |bencher| bencher.iter(|| copy.copy_from_slice(black_box(&framed))));
        group.bench_function("prost", |bencher| bencher.iter(|| through_messages(black_box(&batch), &mut messages)));
        group.finish();
    }
}

/// Measures the ratios from interleaved runs, so that a machine that slows down affects both equally.
fn ratios() {
    const TURNS: u32 = 40;
    for (name, table) in TABLES {
        let batch = table(ROWS);
        let encoder = encoder(&batch);
        let mut records = RecordBuffer::default();
        encoder.encode(&batch, &mut records).unwrap();
        let framed = records.bytes().to_vec();
        let (mut copy, mut messages) = (vec![0; framed.len()], Vec::new());
        let [mut encoding, mut copying, mut building] = [Duration::MAX; 3];
        let timed = |least: &mut Duration, work: &mut dyn FnMut()| {
            let start = Instant::now();
            work();
            *least = start.elapsed().min(*least);
        };
        let form = CompactForm::of(&records);
        let mut compact = vec![0; framed.len()];
        let mut compact_ends = Vec::with_capacity(ROWS);
        let mut restored = RecordBuffer::default();
        let [mut compacting, mut restoring] = [Duration::MAX; 2];
        for _ in 0..TURNS {
            timed(&mut encoding, &mut || {
                records.clear();
                encoder.encode(black_box(&batch), &mut records).unwrap();
            });
            timed(&mut copying, &mut || copy.copy_from_slice(black_box(&framed)));
            timed(&mut building, &mut || through_messages(black_box(&batch), &mut messages));
            timed(&mut compacting, &mut || {
                compact_ends.clear();
                let mut end = 0;
                for record in 0..ROWS {
                    end += form.compact(&records, record, &mut compact[end..]).unwrap();
                    compact_ends.push(end);
                }
            });
            timed(&mut restoring, &mut || {
                restored.clear();
                let mut start = 0;
                for (record, end) in compact_ends.iter().enumerate() {
                    let frame_len = records.record_end(record) - records.record_start(record);
                    assert!(form.restore(&compact[start..], end - start, frame_len, &mut restored));
                    start = *end;
                }
            });
        }
        assert!(restored.bytes() == framed, "records are restored");
        println!(
            "{name}: {} framed bytes a row; encode {:.2} GB/s, {:.2} M rows/s; {:.2} of memcpy, {:.1} times prost",
            framed.len() / ROWS,
            framed.len() as f64 / encoding.as_secs_f64() / 1e9,
            ROWS as f64 / encoding.as_secs_f64() / 1e6,
            copying.as_secs_f64() / encoding.as_secs_f64(),
            building.as_secs_f64() / encoding.as_secs_f64(),
        );
        println!(
            "{name}: {} compact bytes a row; made {:.2} of encoding, restored {:.2}; {:.0} and {:.0} ns a row",
            compact_ends.last().unwrap() / ROWS,
            compacting.as_secs_f64() / encoding.as_secs_f64(),
            restoring.as_secs_f64() / encoding.as_secs_f64(),
            compacting.as_secs_f64() * 1e9 / ROWS as f64,
            restoring.as_secs_f64() * 1e9 / ROWS as f64,
        );
    }
}

criterion_group!(benches, encode);

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
    ratios();
}
