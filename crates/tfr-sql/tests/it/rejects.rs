//! `--rejects`: the table of rows that do not fit, and the set of all others.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray as _, Float64Array, Int64Array, ListBuilder, RecordBatch, StringArray, StringBuilder, UInt64Array,
};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};
use tfrecord_shards::Manifest;

use crate::workbench::{Workbench, assert_prints, check_report, tell};

/// 5,000 rows in `rows.parquet`. Each 500th id and, from 100 on, each 1,000th weight do not fit.
fn with_unfit_rows() -> Workbench {
    let bench = Workbench::new();
    let numbers = || 0..5_000_u64;
    let id = |row: u64| if row % 500 == 499 { u64::MAX - row } else { row };
    let weight = |row: u64| if row % 1_000 == 100 { 1e300 } else { row as f64 };
    let day = |row: u64| ["mon", "tue", "wed"][(row % 3) as usize];
    bench.parquet(
        "rows.parquet",
        [
            ("row", Arc::new(Int64Array::from_iter_values(numbers().map(|row| row as i64))) as ArrayRef),
            ("id", Arc::new(UInt64Array::from_iter_values(numbers().map(id)))),
            ("weight", Arc::new(Float64Array::from_iter_values(numbers().map(weight)))),
            ("day", Arc::new(StringArray::from_iter_values(numbers().map(day)))),
        ],
    );
    bench
}

const ROWS: &str = "SELECT * FROM 'rows.parquet'";

/// The condition of the rows that fit.
const FIT: &str = "WHERE row % 500 <> 499 AND row % 1000 <> 100";

/// The rows of a table of rejected rows, read by the library for Parquet.
fn rejected(bench: &Workbench, directory: &str) -> RecordBatch {
    let file = File::open(bench.path().join(directory).join("part-00000-of-00001.parquet")).unwrap();
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let schema = Arc::clone(builder.schema());
    let batches: Vec<_> = builder.build().unwrap().collect::<Result<_, _>>().unwrap();
    arrow::compute::concat_batches(&schema, &batches).unwrap()
}

fn texts(batch: &RecordBatch, column: &str) -> Vec<String> {
    let texts = batch.column_by_name(column).unwrap().as_string::<i32>();
    texts.iter().map(|text| text.unwrap().to_owned()).collect()
}

fn integers(batch: &RecordBatch, column: &str) -> Vec<i64> {
    batch.column_by_name(column).unwrap().as_primitive::<Int64Type>().values().to_vec()
}

/// Every file of a set but the manifest, with its bytes.
fn files(bench: &Workbench, set: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { walk(&path, found) } else { found.push(path) }
        }
    }
    let root = bench.path().join(set);
    let mut found = Vec::new();
    walk(&root, &mut found);
    let named = found.into_iter().filter(|path| !path.ends_with("_manifest.json"));
    named.map(|path| (path.strip_prefix(&root).unwrap().to_owned(), fs::read(&path).unwrap())).collect()
}

fn manifest(bench: &Workbench, set: &str) -> Value {
    serde_json::from_slice(&fs::read(bench.path().join(set).join("_manifest.json")).unwrap()).unwrap()
}

#[test]
fn rejected_rows_have_column_reason_place_and_their_own_values() {
    let bench = Workbench::new();
    let mut tags = ListBuilder::new(StringBuilder::new());
    for row in [Some(vec![Some("a")]), None, Some(vec![Some("a"), None]), Some(vec![]), Some(vec![None])] {
        tags.append_option(row);
    }
    bench.parquet(
        "t.parquet",
        [
            (
                "id",
                Arc::new(UInt64Array::from(vec![Some(1), Some(2), Some(3), Some(u64::MAX), Some(u64::MAX)]))
                    as ArrayRef,
            ),
            ("label", Arc::new(StringArray::from(vec![Some("cat"), Some("cow"), None, Some("dog"), Some("dog")]))),
            ("tags", Arc::new(tags.finish())),
        ],
    );
    bench.text("map.toml", "[columns]\nlabel = { map = \"index\", vocabulary = [\"cat\", \"dog\"] }\n");
    let arguments = ["--map-file", "map.toml", "--rejects", "bad", "--max-rejects", "4", "--report", "json", "--out"];
    let output = bench.run(&[&["SELECT * FROM 't.parquet'"], arguments.as_slice(), &["set"]].concat());
    assert!(output.status.success(), "{}", tell(&output));

    let bad = rejected(&bench, "bad");
    let names: Vec<_> = bad.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["_reject_column", "_reject_reason", "_reject_partition", "_reject_row", "id", "label", "tags"]);
    // The last row has two values that do not fit; the feature of the first name counts.
    assert_eq!(texts(&bad, "_reject_column"), ["label", "tags", "id", "id"]);
    let reasons = texts(&bad, "_reject_reason");
    assert_eq!(
        reasons,
        [
            "\"cow\" is not in the vocabulary",
            "null inside a list, which a feature cannot represent",
            "18446744073709551615 does not fit an int64 (at most 9223372036854775807)",
            "18446744073709551615 does not fit an int64 (at most 9223372036854775807)",
        ]
    );
    assert_eq!(integers(&bad, "_reject_partition"), [0; 4]);
    assert_eq!(integers(&bad, "_reject_row"), [1, 2, 3, 4]);
    assert_eq!(bad.schema().field_with_name("id").unwrap().data_type(), &DataType::UInt64);
    let original = ParquetRecordBatchReaderBuilder::try_new(File::open(bench.path().join("t.parquet")).unwrap());
    let original = original.unwrap().build().unwrap().next().unwrap().unwrap().slice(1, 4);
    for name in ["id", "label", "tags"] {
        assert_eq!(bad.column_by_name(name), original.column_by_name(name), "{name}");
    }

    let described = json!({"rows": 4, "table": "bad"});
    assert_eq!(manifest(&bench, "set")["rejects"], described);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    check_report(&report);
    assert_eq!((&report["rejects"], &report["rows"]), (&described, &json!(1)));
    assert!(tell(&output).contains("4 rows do not fit, and are in bad\n"), "{}", tell(&output));
}

#[test]
fn rejects_give_the_files_of_the_rows_that_fit() {
    let bench = with_unfit_rows();
    let arrangements: [&[&str]; 10] = [
        &[],
        &["--shards", "3"],
        &["--shards", "3", "--partitions", "2"],
        &["--shard-rows", "700"],
        &["--shard-size", "20KiB", "--partitions", "3"],
        &["--shards", "3", "--shuffle", "--seed", "7", "--emit", "tfmd,parse-fn,stats,index"],
        &["--split", "train=0.8,val=0.2", "--split-by", "row", "--shards", "train=3,val=2", "--emit", "stats"],
        &["--split", "train=0.5,val=0.5", "--shuffle", "--partitions", "2"],
        &["--partition-by", "day"],
        &["--hosts", "2", "--shuffle"],
    ];
    for arrangement in arrangements {
        // The name of the set is in some of the files.
        let write = |query: &str, moved: &str, more: &[&str]| {
            let output = bench.run(&[&[query, "--out", "set", "--quiet"], arrangement, more].concat());
            assert!(output.status.success(), "{arrangement:?}: {}", tell(&output));
            fs::rename(bench.path().join("set"), bench.path().join(moved)).unwrap();
        };
        write(ROWS, "all", &["--rejects", "bad", "--max-rejects", "15"]);
        write(&format!("{ROWS} {FIT}"), "fit", &[]);
        let (found, expected) = (files(&bench, "all"), files(&bench, "fit"));
        assert!(found.keys().eq(expected.keys()), "{arrangement:?}: {:?}", found.keys());
        for (name, bytes) in &expected {
            assert!(found[name] == *bytes, "{arrangement:?}: {}", name.display());
        }
        let (all, fit) = (manifest(&bench, "all"), manifest(&bench, "fit"));
        assert_eq!((&all["totals"], &all["totals"]["rows"]), (&fit["totals"], &json!(4_985)), "{arrangement:?}");
        assert_eq!(all["rejects"]["rows"], 15, "{arrangement:?}");
        let expected: Vec<i64> = (0..5_000).filter(|row| row % 500 == 499 || row % 1_000 == 100).collect();
        assert_eq!(integers(&rejected(&bench, "bad"), "row"), expected, "{arrangement:?}");
        for directory in ["all", "fit", "bad"] {
            fs::remove_dir_all(bench.path().join(directory)).unwrap();
        }
    }
}

#[test]
fn rejects_of_an_ordered_query_are_not_in_its_ranges() {
    let bench = with_unfit_rows();
    let ordered = |condition: &str| format!("{ROWS} {condition} ORDER BY row DESC");
    let arguments = ["--shards", "4", "--rejects", "bad", "--max-rejects", "15", "--out", "all"];
    let output = bench.run(&[&[ordered("").as_str()], arguments.as_slice()].concat());
    assert!(output.status.success(), "{}", tell(&output));
    assert!(bench.run(&[&ordered(FIT), "--shards", "4", "--out", "fit", "--quiet"]).status.success());
    assert!(files(&bench, "all") == files(&bench, "fit"));
    let sizes = Manifest::read(bench.path().join("all")).unwrap().shards.into_iter().map(|shard| shard.rows);
    assert_eq!(sizes.collect::<Vec<_>>(), [1_246, 1_246, 1_246, 1_247]);
    // The place is that in the ordered rows, of which the first has the number 4,999.
    let bad = rejected(&bench, "bad");
    let places: Vec<_> = integers(&bad, "row").into_iter().map(|row| 4_999 - row).collect();
    assert_eq!(integers(&bad, "_reject_row"), places);
    // Too many are found while rows are counted.
    let arguments = ["--shards", "4", "--rejects", "few", "--max-rejects", "14", "--out", "none"];
    let output = bench.run(&[&[ordered("").as_str()], arguments.as_slice()].concat());
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(bench.leftovers(), ["all", "bad", "fit", "rows.parquet"].map(PathBuf::from));
}

#[test]
fn rejects_of_partitions_are_in_order() {
    let bench = with_unfit_rows();
    let arguments = ["--partitions", "3", "--rejects", "bad", "--max-rejects", "15", "--out", "set", "--quiet"];
    assert!(bench.run(&[&[ROWS], arguments.as_slice()].concat()).status.success());
    let bad = rejected(&bench, "bad");
    let places: Vec<_> = integers(&bad, "_reject_partition").into_iter().zip(integers(&bad, "_reject_row")).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(integers(&bad, "row").len(), 15);
}

#[test]
fn rejects_do_not_enter_a_vocabulary() {
    let bench = Workbench::new();
    let query = "SELECT CASE WHEN value = 2 THEN arrow_cast(18446744073709551615, 'UInt64') \
                 ELSE arrow_cast(value, 'UInt64') END AS id, concat('label-', value) AS label FROM generate_series(1, 3)";
    let arguments = ["--map", "label: index", "--rejects", "bad", "--max-rejects", "1", "--out", "set", "--quiet"];
    let output = bench.run(&[&[query], arguments.as_slice()].concat());
    assert!(output.status.success(), "{}", tell(&output));
    let vocabularies = &manifest(&bench, "set")["options"]["mapping"]["vocabularies"];
    assert_eq!(*vocabularies, json!({"label": ["label-1", "label-3"]}));
}

#[test]
fn rejects_beyond_the_maximum_publish_nothing() {
    let bench = with_unfit_rows();
    let shown =
        bench.tell(&[ROWS, "--partitions", "1", "--out", "set", "--rejects", "bad", "--max-rejects", "14", "--quiet"]);
    assert_prints!(shown, @r#"
    exit 1
    -- stderr
    error: at least 15 rows do not fit, and at most 14 may be rejected
      cause: column "weight", row 100: 1e300 does not fit a float (at most 3.4028235e38)

    hint: keep it exact with --map 'weight: bits' (or string, tensor), or filter the row; or raise --max-rejects; nothing was published
    "#);
    assert_eq!(bench.leftovers(), [PathBuf::from("rows.parquet")]);
    // By default none may be rejected.
    let shown = bench.tell(&[ROWS, "--partitions", "1", "--out", "set", "--rejects", "bad", "--quiet"]);
    assert!(shown.contains("and at most 0 may be rejected"), "{shown}");
    assert_eq!(bench.leftovers(), [PathBuf::from("rows.parquet")]);
}

#[test]
fn rejects_table_without_rows_replaces_that_of_an_earlier_run() {
    let bench = with_unfit_rows();
    let write = |query: &str, more: &[&str]| {
        let arguments = ["--out", "set", "--rejects", "bad", "--max-rejects", "15", "--quiet"];
        bench.run(&[&[query], arguments.as_slice(), more].concat())
    };
    assert!(write(ROWS, &[]).status.success());
    let fitting = format!("{ROWS} {FIT}");
    // The table is refused, whatever is in it, and the set stays.
    fs::remove_dir_all(bench.path().join("set")).unwrap();
    let refused = write(&fitting, &[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(tell(&refused).contains("bad: already exists"), "{}", tell(&refused));
    assert_eq!(bench.leftovers(), ["bad", "rows.parquet"].map(PathBuf::from));
    assert!(write(&fitting, &["--mode", "overwrite"]).status.success());
    let bad = rejected(&bench, "bad");
    assert_eq!((bad.num_rows(), bad.num_columns()), (0, 8));
    assert_eq!(manifest(&bench, "set")["rejects"], json!({"rows": 0, "table": "bad"}));
    // Nothing is written where the set is kept.
    assert!(write(ROWS, &["--mode", "ignore"]).status.success());
    assert_eq!(rejected(&bench, "bad").num_rows(), 0);
    // Files of others are not replaced.
    bench.text("bad/notes.txt", "mine");
    let refused = write(ROWS, &["--mode", "overwrite"]);
    assert!(!refused.status.success() && tell(&refused).contains("notes.txt"), "{}", tell(&refused));
}

#[test]
fn rejects_of_an_append_are_recorded_with_its_run() {
    let bench = with_unfit_rows();
    let write = |bad: &str, mode: &str| {
        bench.run(&[ROWS, "--out", "set", "--mode", mode, "--rejects", bad, "--max-rejects", "15", "--report", "json"])
    };
    assert!(write("first", "error").status.success());
    let output = write("second", "append");
    assert!(output.status.success(), "{}", tell(&output));
    let manifest = manifest(&bench, "set");
    assert_eq!(manifest["rejects"]["table"], "first");
    assert_eq!(manifest["appended"][0]["rejects"], json!({"rows": 15, "table": "second"}));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["rejects"]["table"], "second");
    assert!(!write("second", "append").status.success());
}

#[test]
fn rejects_refuse_what_cannot_be_right_before_the_first_byte() {
    let bench = with_unfit_rows();
    let refused = |query: &str, arguments: &[&str], code: i32, text: &str| {
        let output = bench.run(&[&[query], arguments].concat());
        let shown = tell(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {shown}");
        assert!(shown.contains(text), "{arguments:?}: {shown}");
        assert_eq!(bench.leftovers(), [PathBuf::from("rows.parquet")], "{arguments:?}");
    };
    let usage = |arguments: &[&str], text: &str| refused(ROWS, arguments, 2, text);
    usage(&["--out", "set", "--max-rejects", "1"], "--max-rejects needs --rejects");
    usage(&["--rejects", "bad"], "--out");
    usage(&["--out", "x.parquet", "--rejects", "bad"], "is for TFRecord shards");
    usage(&["--out", "set", "--rejects", "bad.parquet"], "expected a directory");
    usage(&["--out", "set", "--rejects", "bad", "--plan", "p.tfrplan"], "--plan");
    usage(&["--out", "set", "--rejects", "bad", "--layout", "snapshot"], "--layout snapshot");
    let fails = |arguments: &[&str], text: &str| refused(ROWS, arguments, 1, text);
    fails(&["--out", "set", "--rejects", "set/bad"], "cannot be in each other's directory");
    fails(&["--out", "bad/set", "--rejects", "bad"], "cannot be in each other's directory");
    fails(&["--out", "set", "--rejects", "."], "overlaps with input");
    let own = "SELECT row AS \"_Reject_Row\" FROM 'rows.parquet'";
    refused(own, &["--out", "set", "--rejects", "bad"], 1, "column \"_Reject_Row\": the table of rejected rows");
    // Counted and written rows could differ.
    let varies = "SELECT row, random() AS r FROM 'rows.parquet' ORDER BY row";
    refused(varies, &["--out", "set", "--shards", "3", "--rejects", "bad"], 1, "random()");
}

#[test]
fn rejects_and_their_directory_are_in_the_plan() {
    let bench = with_unfit_rows();
    let shown = bench.tell(&[ROWS, "--out", "set", "--rejects", "bad", "--max-rejects", "20", "--dry-run"]);
    assert!(shown.contains("rejects at most 20 rows to bad\n"), "{shown}");
    assert!(shown.contains("rows    about 5,000 (estimated"), "{shown}");
    assert_eq!(bench.leftovers(), [PathBuf::from("rows.parquet")]);
}

#[test]
fn rejects_must_be_within_what_is_allowed() {
    let bench = with_unfit_rows();
    fs::create_dir(bench.path().join("out")).unwrap();
    let write = |bad: &str| {
        let allowed = ["--allow", "rows.parquet", "--allow", "out", "--temp-dir", "out"];
        let arguments = ["--out", "out/set", "--rejects", bad, "--max-rejects", "15", "--quiet"];
        bench.run(&[&[ROWS], allowed.as_slice(), &arguments].concat())
    };
    let refused = write("elsewhere");
    assert!(!refused.status.success(), "{}", tell(&refused));
    assert_eq!(bench.leftovers(), ["out", "rows.parquet"].map(PathBuf::from));
    let output = write("out/bad");
    assert!(output.status.success(), "{}", tell(&output));
    assert_eq!(rejected(&bench, "out/bad").num_rows(), 15);
}
