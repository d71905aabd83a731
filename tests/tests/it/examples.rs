//! The programs and the data of `examples/`.

mod jobs;

use std::fs::File;

use arrow::array::AsArray;
use arrow::compute::{concat_batches, sum};
use arrow::datatypes::{Decimal128Type, DecimalType};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use tfr_examples::{TRIPS, trips, trips_path};
use tfr_tests::{Feature, Scratch, example, read_shards, run, shard_files};

#[test]
fn trips_file_matches_its_generator() {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(trips_path()).unwrap()).unwrap();
    let schema = reader.schema().clone();
    let batches: Vec<_> = reader.build().unwrap().collect::<Result<_, _>>().unwrap();
    let stored = concat_batches(&schema, &batches).unwrap();
    let made = trips().unwrap();
    assert_eq!(stored.schema().fields(), made.schema().fields());
    assert!(stored.columns() == made.columns(), "run `cargo run --example generate_trips`");
}

#[test]
fn library_without_an_engine() {
    let scratch = Scratch::default();
    let out = scratch.join("shards");
    let finished = run(example("write_shards").arg(&out)).success();
    assert!(finished.stdout.starts_with("2000 rows in 4 shards"), "{}", finished.stdout);
    assert_eq!(shard_files(&out).len(), 4);
    let records = read_shards(&out);
    assert_eq!(records.len(), TRIPS as usize);
    let (name, fare) = records[0].iter().find(|(name, _)| name == "fare").unwrap();
    assert!(matches!(fare, Feature::Int64(cents) if cents.len() == 1), "{name}: {fare:?}");
}

#[test]
fn library_with_datafusion() {
    let scratch = Scratch::default();
    let out = scratch.join("shards");
    let finished = run(example("copy_to").arg(&out)).success();
    let records = read_shards(&out);
    assert!(!records.is_empty());
    assert!(finished.stdout.contains(&format!("{} rows", records.len())), "{}", finished.stdout);
}

/// What one example writes the others read.
#[test]
fn shards_are_read_back() {
    let scratch = Scratch::default();
    let out = scratch.join("shards");
    run(example("write_shards").arg(&out)).success();
    let read = run(example("read_shards").arg(&out)).success();
    let fares =
        trips().unwrap().column_by_name("fare").map(|fares| sum(fares.as_primitive::<Decimal128Type>())).unwrap();
    let fares = Decimal128Type::format_decimal(fares.unwrap(), 38, 2);
    assert_eq!(read.stdout.trim(), format!("2000 trips, {fares} in fares"));
    let queried = run(example("query_shards").arg(&out)).success();
    insta::assert_snapshot!(queried.stdout, @"
    +----------+-------+------+--------+
    | city     | trips | km   | tipped |
    +----------+-------+------+--------+
    | Kyoto    | 427   | 15.7 | 130    |
    | Lisbon   | 413   | 15.3 | 114    |
    | Montréal | 364   | 15.5 | 130    |
    | Oslo     | 427   | 15.1 | 147    |
    | Quito    | 369   | 15.8 | 130    |
    +----------+-------+------+--------+
    ");
}
