//! Values that no text can hold, in every output; and features and columns that are not there.

use std::fs;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Date32Array, Decimal128Array, DictionaryArray, DurationMillisecondArray, DurationSecondArray,
    Int8Array, ListArray, RecordBatch, StructArray, Time32SecondArray, Time64MicrosecondArray,
    TimestampMicrosecondArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::Field;
use arrow::ipc::reader::FileReader;
use tfr_tests::{Scratch, run, tfr_sql};
use tfrecord_framing::RecordWriter;

/// Columns whose second row has no text, by name: of each kind, alone and inside of others.
fn columns() -> Vec<(&'static str, ArrayRef)> {
    let times: ArrayRef = Arc::new(Time64MicrosecondArray::from(vec![0, 4_294_967_296_000_000, 1]));
    let field = |name: &str, values: &ArrayRef| Arc::new(Field::new(name, values.data_type().clone(), true));
    let milliseconds: ArrayRef = Arc::new(DurationMillisecondArray::from(vec![1, i64::MIN]));
    let decimals = Decimal128Array::from(vec![12_345, 123_456, -1]).with_precision_and_scale(5, 2).unwrap();
    let dates: ArrayRef = Arc::new(Date32Array::from(vec![0, i32::MAX, 1]));
    vec![
        ("dec", Arc::new(decimals)),
        ("time", Arc::clone(&times)),
        ("seconds", Arc::new(Time32SecondArray::from(vec![0, 86_400, 1]))),
        ("date", Arc::clone(&dates)),
        ("timestamp", Arc::new(TimestampMicrosecondArray::from(vec![0, i64::MAX, 1]))),
        ("zoned", Arc::new(TimestampMicrosecondArray::from(vec![0, i64::MAX, 1]).with_timezone("+02:00"))),
        ("duration", Arc::new(DurationSecondArray::from(vec![0, i64::MAX, 1]))),
        ("dictionary", Arc::new(DictionaryArray::new(Int8Array::from(vec![0, 1, 0]), milliseconds))),
        ("list", Arc::new(ListArray::new(field("item", &times), OffsetBuffer::from_lengths([1; 3]), times, None))),
        ("record", Arc::new(StructArray::from(vec![(field("x", &dates), dates)]))),
    ]
}

/// Which rows a value is missing from, is said; and nothing is left behind.
#[test]
fn outputs_reject_values_without_text() {
    let scratch = Scratch::default();
    let batch = RecordBatch::try_from_iter(columns()).unwrap();
    let table = scratch.arrow("t.arrow", &batch);
    let table = table.display();
    let refused = |name: &str, query: &str, arguments: &[&str]| {
        let found = run(tfr_sql().current_dir(scratch.path()).arg(query).args(arguments));
        assert_ne!(found.code, Some(0), "{query} {arguments:?}\n{}", found.stdout);
        let row = found.stderr.contains(&format!("column \"{name}\", row 1: "));
        assert!(row, "{query} {arguments:?}\n{}", found.stderr);
        assert!(!found.stdout.contains("invalid") && !found.stdout.contains("ERROR"), "{}", found.stdout);
        assert_eq!(scratch.listing(), ["t.arrow"], "{query} {arguments:?}");
    };
    for (name, column) in columns() {
        let select = format!("SELECT {name} FROM '{table}'");
        let is_nested = column.data_type().is_nested();
        for format in ["csv", "json", "jsonl", "table", "markdown"] {
            refused(name, &select, &["--format", format]);
        }
        for out in ["out.json", "out.jsonl", "out.jsonl.gz"] {
            refused(name, &select, &["--out", out]);
        }
        if !is_nested {
            for out in ["out.csv", "out.csv.gz"] {
                refused(name, &select, &["--out", out]);
            }
            let cast = format!("SELECT CAST({name} AS VARCHAR) AS text FROM '{table}'");
            refused(name, &cast, &["--format", "csv"]);
            refused(name, &cast, &["--out", "out"]);
            refused(name, &cast, &["--out", "out.parquet"]);
        }
        if name != "record" {
            let map = format!("{name}: string");
            refused(name, &select, &["--out", "out", "--map", &map]);
            refused(name, &select, &["--out", "out", "--map", &map, "--emit", "stats,tfds"]);
            refused(name, &select, &["--out", "out", "--map", &map, "--shuffle"]);
        }
        if !is_nested && !["duration", "dictionary"].contains(&name) {
            let select = format!("SELECT {name}, 1 AS x FROM '{table}'");
            refused(name, &select, &["--out", "out", "--partition-by", name]);
        }
    }
    refused("dec", &format!("SELECT dec FROM '{table}'"), &["--out", "out.parquet"]);
}

/// An Arrow file has every value as it was, whether it has text or not.
#[test]
fn arrow_files_keep_every_value() {
    let scratch = Scratch::default();
    let batch = RecordBatch::try_from_iter(columns()).unwrap();
    let table = scratch.arrow("t.arrow", &batch);
    let out = scratch.join("out.arrow");
    let query = format!("SELECT * FROM '{}'", table.display());
    run(tfr_sql().arg(query).arg("--out").arg(&out)).success();
    let mut found = FileReader::try_new(fs::File::open(out).unwrap(), None).unwrap();
    let found = found.next().unwrap().unwrap();
    for (name, column) in columns() {
        assert_eq!(found.column_by_name(name).unwrap().to_data(), column.to_data(), "{name}");
    }
}

/// A record of `features`, each a name and an integer.
fn example(features: &[(&str, u8)]) -> Vec<u8> {
    let feature = |(name, value): &(&str, u8)| {
        let value = [0x12, 5, 0x1a, 3, 0x0a, 1, *value];
        let entry = [&[0x0a, name.len() as u8], name.as_bytes(), &value].concat();
        [&[0x0a, entry.len() as u8], entry.as_slice()].concat()
    };
    let features: Vec<u8> = features.iter().flat_map(feature).collect();
    [&[0x0a, features.len() as u8], features.as_slice()].concat()
}

#[test]
fn a_feature_without_a_name_is_not_lost_in_silence() {
    let scratch = Scratch::default();
    let mut writer = RecordWriter::new(Vec::new());
    writer.write_record(&example(&[("", 1), ("a", 2)])).unwrap();
    fs::write(scratch.join("x.tfrecord"), writer.finish().unwrap()).unwrap();
    let found = run(tfr_sql().current_dir(scratch.path()).arg("SELECT * FROM 'x.tfrecord'")).success();
    assert_eq!(found.stdout, "a\n2\n");
    assert!(found.stderr.contains("a feature without a name"), "{}", found.stderr);
}

/// Records without features are a table without columns. Its rows count, and none is lost.
#[test]
fn a_table_without_columns_has_rows() {
    let scratch = Scratch::default();
    let mut writer = RecordWriter::new(Vec::new());
    for _ in 0..3 {
        writer.write_record(&[0x0a, 0]).unwrap();
    }
    fs::write(scratch.join("x.tfrecord"), writer.finish().unwrap()).unwrap();
    let tfr_sql = || {
        let mut command = tfr_sql();
        command.current_dir(scratch.path());
        command
    };
    let count = run(tfr_sql().arg("SELECT count(*) AS n FROM 'x.tfrecord'")).success();
    assert_eq!(count.stdout, "n\n3\n");
    for out in ["out", "out.parquet", "out.arrow", "out.csv", "out.json", "out.jsonl"] {
        let written = run(tfr_sql().args(["SELECT * FROM 'x.tfrecord'", "--out", out]));
        if written.code == Some(0) {
            let count = run(tfr_sql().arg(format!("SELECT count(*) AS n FROM '{out}'"))).success();
            assert_eq!(count.stdout, "n\n3\n", "{out}");
        } else {
            assert!(written.stderr.contains("column"), "{out}: {}", written.stderr);
            assert!(!scratch.join(out).exists());
        }
    }
}
