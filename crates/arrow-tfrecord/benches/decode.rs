//! Decoding, compared to its lower bound (the checksums of the same records) and to decoding via message objects.
//!
//! `cargo bench -p arrow-tfrecord --bench decode` prints bytes and rows a second of each, and the ratios at the end.

#![allow(missing_docs, reason = "a benchmark has no interface")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark fails and speaks as a program does")]

mod tables;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::builder::{ArrayBuilder, StringViewBuilder, make_builder};
use arrow_array::builder::{Float32Builder, Float64Builder, Int32Builder, Int64Builder, ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use arrow_tfrecord::{Decoder, Encoder, Mapping, MappingOptions, ReaderBuilder, RecordBuffer, RowFilter};
use criterion::{Criterion, Throughput, criterion_group};
use prost::Message;
use tfr_proto::tensorflow::Example;
use tfr_proto::tensorflow::feature::Kind;
use tfrecord_framing::{RecordDecoder, RecordReader};

/// The default batch of the engine.
const ROWS: usize = 8192;

type Table = fn(usize) -> RecordBatch;

const TABLES: [(&str, Table); 2] = [("lineitem", tables::lineitem), ("ctr", tables::ctr)];

fn framed(batch: &RecordBatch) -> Vec<u8> {
    let mut records = RecordBuffer::default();
    let mapping = Mapping::try_new(&batch.schema(), &MappingOptions::default()).unwrap();
    Encoder::new(Arc::new(mapping)).encode(batch, &mut records).unwrap();
    records.bytes().to_vec()
}

/// A reader of one file after the other, which is what a shard set is.
fn reader(schema: &SchemaRef) -> ReaderBuilder {
    ReaderBuilder::new(SchemaRef::clone(schema)).with_batch_size(ROWS)
}

/// Decoders of all columns, of the first and the last, and of all for one row in ten, filtered by the first column.
fn decoders(schema: &SchemaRef) -> [Decoder; 3] {
    let tenth = RowFilter::new(vec![0], |batch| {
        Ok((0..batch.num_rows()).map(|row| Some(row.is_multiple_of(10))).collect::<BooleanArray>())
    });
    let two = vec![0, schema.fields().len() - 1];
    [reader(schema), reader(schema).with_projection(two), reader(schema).with_row_filter(tenth)]
        .map(|reader| reader.build_decoder().unwrap())
}

fn decode(decoder: &mut Decoder, file: &[u8]) -> RecordBatch {
    assert_eq!(decoder.decode(file).unwrap(), file.len());
    decoder.flush().unwrap().unwrap()
}

/// Records found and checked, and nothing decoded.
fn check(file: &[u8]) {
    let (mut decoder, mut rest) = (RecordDecoder::new(), file);
    while !decoder.decode_frames(&mut rest, ROWS).unwrap().is_empty() {}
    assert_eq!(decoder.position().record, ROWS as u64);
}

/// Decodes the same batch via message objects, in the straightforward way.
fn through_messages(schema: &SchemaRef, file: &[u8]) -> RecordBatch {
    let mut builders: Vec<_> = schema.fields().iter().map(|field| make_builder(field.data_type(), ROWS)).collect();
    let mut reader = RecordReader::new(file);
    let mut record = Vec::new();
    while reader.read_record(&mut record).unwrap() {
        let features = Example::decode(record.as_slice()).unwrap().features.unwrap();
        for (field, builder) in schema.fields().iter().zip(&mut builders) {
            let kind = features.feature.get(field.name()).and_then(|feature| feature.kind.as_ref());
            append(builder.as_mut(), field.data_type(), kind);
        }
    }
    let columns: Vec<ArrayRef> = builders.iter_mut().map(|builder| builder.finish()).collect();
    RecordBatch::try_new(SchemaRef::clone(schema), columns).unwrap()
}

fn append(builder: &mut dyn ArrayBuilder, data_type: &DataType, kind: Option<&Kind>) {
    fn of<B: 'static>(builder: &mut dyn ArrayBuilder) -> &mut B {
        builder.as_any_mut().downcast_mut().unwrap()
    }
    let int64 = || if let Some(Kind::Int64List(list)) = kind { Some(list.value[0]) } else { None };
    let float = || if let Some(Kind::FloatList(list)) = kind { Some(list.value[0]) } else { None };
    let text = || if let Some(Kind::BytesList(list)) = kind { str::from_utf8(&list.value[0]).ok() } else { None };
    match data_type {
        DataType::Int64 => of::<Int64Builder>(builder).append_option(int64()),
        DataType::Int32 => of::<Int32Builder>(builder).append_option(int64().map(|value| value.try_into().unwrap())),
        DataType::Float64 => of::<Float64Builder>(builder).append_option(float().map(f64::from)),
        DataType::Utf8 => of::<StringBuilder>(builder).append_option(text()),
        DataType::Utf8View => of::<StringViewBuilder>(builder).append_option(text()),
        _ => {
            let builder = of::<ListBuilder<Box<dyn ArrayBuilder>>>(builder);
            match kind {
                Some(Kind::Int64List(list)) => of::<Int64Builder>(builder.values()).append_slice(&list.value),
                Some(Kind::FloatList(list)) => of::<Float32Builder>(builder.values()).append_slice(&list.value),
                _ => {}
            }
            builder.append(kind.is_some());
        }
    }
}

fn bench(criterion: &mut Criterion) {
    for (name, table) in TABLES {
        let batch = table(ROWS);
        let schema = batch.schema();
        let file = framed(&batch);
        let [mut all, mut two, mut tenth] = decoders(&schema);
        assert!(decode(&mut all, &file) == through_messages(&schema, &file));

        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::ElementsAndBytes { elements: ROWS as u64, bytes: file.len() as u64 });
        group.bench_function("decode", |bencher| bencher.iter(|| decode(&mut all, black_box(&file))));
        group.bench_function("decode 2 columns", |bencher| bencher.iter(|| decode(&mut two, black_box(&file))));
        group.bench_function("decode 1 row in 10", |bencher| bencher.iter(|| decode(&mut tenth, black_box(&file))));
        group.bench_function("crc", |bencher| bencher.iter(|| check(black_box(&file))));
        group.bench_function("prost", |bencher| {
            bencher.iter(|| through_messages(&schema, black_box(&file)));
        });
        group.finish();
    }
}

/// The name of a benchmark, and its function on a file.
type Way<'a> = (&'static str, &'a mut dyn FnMut(&[u8]));

/// Measures the ratios from interleaved runs, so that a machine that slows down affects all equally.
fn ratios() {
    const TURNS: u32 = 40;
    for (name, table) in TABLES {
        let batch = table(ROWS);
        let schema = batch.schema();
        let file = framed(&batch);
        let [mut all, mut two, mut tenth] = decoders(&schema);
        let mut ways: [Way<'_>; 5] = [
            ("all columns", &mut |file| drop(black_box(decode(&mut all, file)))),
            ("2 columns", &mut |file| drop(black_box(decode(&mut two, file)))),
            ("1 row in 10", &mut |file| drop(black_box(decode(&mut tenth, file)))),
            ("checksums only", &mut check),
            ("prost", &mut |file| drop(black_box(through_messages(&schema, file)))),
        ];
        let mut least = [Duration::MAX; 5];
        for _ in 0..TURNS {
            for ((_, way), least) in ways.iter_mut().zip(&mut least) {
                // As if just read. Without transient large allocations, glibc returns all memory to the system after
                // each batch, which is not part of decoding.
                let file = black_box(file.clone());
                let start = Instant::now();
                way(&file);
                *least = start.elapsed().min(*least);
            }
        }
        println!("{name}: {} columns, {} framed bytes a row", schema.fields().len(), file.len() / ROWS);
        for ((way, _), time) in ways.iter().zip(least) {
            let (seconds, ratio) = (time.as_secs_f64(), least[0].as_secs_f64() / time.as_secs_f64());
            let (bytes, rows) = (file.len() as f64 / seconds / 1e9, ROWS as f64 / seconds / 1e6);
            println!("  {way:14} {bytes:6.2} GB/s {rows:6.2} M rows/s, {ratio:5.2} times the speed of all columns");
        }
    }
}

criterion_group!(benches, bench);

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
    ratios();
}
