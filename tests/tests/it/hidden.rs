//! Values under nulls: what null structs, lists and maps store underneath must come out nowhere.
//!
//! `tests/data/nulls/make_hidden.py` made the files, and the queries with the answers of DuckDB.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::json::WriterBuilder;
use arrow::json::writer::JsonArray;
use datafusion::prelude::{SessionConfig, SessionContext};
use serde_json::{Value, json};
use tfr_tests::{Scratch, read_file, repository, run, shard_files, tfr_sql};

use crate::session;

fn data(name: &str) -> PathBuf {
    repository().join("tests/data/nulls").join(name)
}

/// Rows as arrays of their values, sorted as texts.
fn sorted_rows(batches: &[RecordBatch]) -> Vec<String> {
    let mut writer = WriterBuilder::new().with_explicit_nulls(true).build::<_, JsonArray>(Vec::new());
    writer.write_batches(&batches.iter().collect::<Vec<_>>()).unwrap();
    writer.finish().unwrap();
    let text = writer.into_inner();
    let objects: Vec<BTreeMap<String, Value>> = match text.is_empty() {
        true => Vec::new(),
        false => serde_json::from_slice(&text).unwrap(),
    };
    let names: Vec<String> = match batches.first() {
        Some(batch) => batch.schema().fields().iter().map(|field| field.name().clone()).collect(),
        None => Vec::new(),
    };
    let rows = objects.iter().map(|object| Value::from_iter(names.iter().map(|name| object[name].clone())));
    let mut rows: Vec<String> = rows.map(|row| row.to_string()).collect();
    rows.sort();
    rows
}

async fn table(config: SessionConfig, file: &Path) -> SessionContext {
    let context = session::open(config);
    let locations = [file.display().to_string().into()];
    let table = tfr_formats::open_locations(&context.state(), &locations, &Default::default(), None).await.unwrap();
    context.register_table("t", table).unwrap();
    context
}

/// Every query over the file, with the answer of DuckDB.
async fn as_duckdb_answers(file: &str, config: SessionConfig) {
    let queries: Vec<(String, Vec<String>)> = serde_json::from_slice(&fs::read(data("queries.json")).unwrap()).unwrap();
    assert!(queries.len() >= 100);
    let context = table(config, &data(file)).await;
    let mut wrong = Vec::new();
    for (sql, answer) in &queries {
        let mut expected: Vec<String> =
            answer.iter().map(|row| serde_json::from_str::<Value>(row).unwrap().to_string()).collect();
        expected.sort();
        let found = sorted_rows(&context.sql(sql).await.unwrap().collect().await.unwrap());
        if found != expected {
            wrong.push(format!("{sql}\n  found    {found:?}\n  expected {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn arrow_in_one_thread() {
    as_duckdb_answers("hidden.arrow", session::settings(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn arrow_in_two_threads() {
    as_duckdb_answers("hidden.arrow", session::settings(2)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn avro() {
    as_duckdb_answers("hidden.avro", session::settings(2)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn orc() {
    as_duckdb_answers("hidden.orc", session::settings(2)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parquet_with_required_fields() {
    as_duckdb_answers("hidden.parquet", session::settings(2)).await;
}

/// Filters are evaluated by the scan, row by row.
#[tokio::test(flavor = "multi_thread")]
async fn parquet_with_filters_in_the_scan() {
    let mut config = session::settings(2);
    config.options_mut().execution.parquet.pushdown_filters = true;
    config.options_mut().execution.parquet.reorder_filters = true;
    as_duckdb_answers("hidden.parquet", config).await;
}

/// Without statistics of row groups and pages.
#[tokio::test(flavor = "multi_thread")]
async fn parquet_without_pruning() {
    let mut config = session::settings(1);
    config.options_mut().execution.parquet.pruning = false;
    config.options_mut().execution.parquet.enable_page_index = false;
    config.options_mut().execution.parquet.bloom_filter_on_read = false;
    as_duckdb_answers("hidden.parquet", config).await;
}

/// Every nested column, null where `k` is not positive. Lists with nulls and maps are no features.
const SOME_NULL: &str = "SELECT id, (CASE WHEN k > 0 THEN s END) s, (CASE WHEN k > 0 THEN r END) r, \
                         (CASE WHEN k > 0 THEN array_remove(l, NULL) END) l FROM t ORDER BY id";

/// Features of shards are the same from a file that stores values under nulls and from one that does not.
#[test]
fn hidden_values_are_not_written_to_shards() {
    let scratch = Scratch::default();
    let records = |name: &str| {
        let out = scratch.join(name.replace('.', "-"));
        let mut command = tfr_sql();
        command.arg(SOME_NULL).arg("--table").arg(format!("t={}", data(name).display()));
        run(command.arg("--out").arg(&out).args(["--shards", "1", "--null", "drop"])).success();
        shard_files(&out).iter().flat_map(|file| read_file(file)).collect::<Vec<_>>()
    };
    let expected = records("hidden.orc");
    assert_eq!(expected.len(), 40);
    assert_eq!(records("hidden.arrow"), expected);
    assert_eq!(records("hidden.parquet"), expected);
}

/// A file of the output stores nothing under nulls either, for readers that look there.
#[test]
fn hidden_values_are_not_written_to_arrow_files() {
    let scratch = Scratch::default();
    let out = scratch.join("out.arrow");
    let query = "SELECT s, l, (CASE WHEN k > 0 THEN m END) m FROM t";
    let table = format!("t={}", data("hidden.arrow").display());
    run(tfr_sql().args([query, "--table", &table]).arg("--out").arg(&out)).success();
    let mut rows = 0;
    for batch in arrow::ipc::reader::FileReader::try_new(fs::File::open(out).unwrap(), None).unwrap() {
        let batch = batch.unwrap();
        let (structs, lists, maps) = (batch.column(0).as_struct(), batch.column(1).as_list::<i32>(), batch.column(2));
        for row in (0..batch.num_rows()).filter(|row| structs.is_null(*row)) {
            assert!(structs.columns().iter().all(|column| column.is_null(row)));
        }
        assert!((0..batch.num_rows()).all(|row| lists.is_valid(row) || lists.value_length(row) == 0));
        let maps = maps.as_map();
        assert!((0..batch.num_rows()).all(|row| maps.is_valid(row) || maps.value_length(row) == 0));
        assert!(structs.null_count() > 0 && lists.null_count() > 0 && maps.null_count() > 0);
        rows += batch.num_rows();
    }
    assert_eq!(rows, 40);
}

/// A field of a struct is read from its leaf alone, where the file may have nulls in it; else with the struct's nulls.
#[tokio::test]
async fn fields_are_read_from_their_leaves() {
    let context = table(session::settings(1), &data("leaves.parquet")).await;
    let scanned = async |sql: &str| {
        let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        datafusion::physical_plan::collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
        let mut scan = plan;
        while let [input] = scan.children().as_slice() {
            scan = Arc::clone(input);
        }
        scan.metrics().unwrap().sum_by_name("bytes_scanned").unwrap().as_usize()
    };
    let whole = scanned("SELECT s FROM t").await;
    assert!(scanned("SELECT s['small'] FROM t").await < whole / 10);
    assert!(scanned("SELECT s['small'], s['inner']['x'] FROM t").await < whole / 10);
    assert!(scanned("SELECT id FROM t WHERE s['small'] IS NULL").await < whole / 10);
}

/// Files of one table, of which one has a required field and the other an optional one.
#[tokio::test]
async fn required_in_one_file_and_optional_in_another() {
    for pushdown in [false, true] {
        let mut config = session::settings(2);
        config.options_mut().execution.parquet.pushdown_filters = pushdown;
        let context = table(config, &data("mixed")).await;
        let answer = async |sql: &str| sorted_rows(&context.sql(sql).await.unwrap().collect().await.unwrap());
        let all = ["[1]", "[3]", "[5]", "[null]", "[null]", "[null]", "[null]", "[null]"];
        assert_eq!(answer("SELECT s['a'] v FROM t").await, all);
        assert_eq!(answer("SELECT count(s['a']) v FROM t WHERE s['a'] IS NOT NULL").await, ["[3]"]);
        assert_eq!(answer("SELECT s['a'] v FROM t WHERE s['a'] > 1").await, ["[3]", "[5]"]);
        assert_eq!(answer("SELECT count(*) v FROM t WHERE s['a'] IS NULL").await, ["[5]"]);
    }
}

/// A dictionary whose keys point to nulls: the same answers as for plain columns with these nulls.
#[tokio::test]
async fn keys_of_dictionaries_that_point_to_nulls() {
    let context = table(session::settings(2), &data("dictionaries.arrow")).await;
    let answer = async |sql: &str| {
        let rows = context.sql(sql).await.unwrap().collect().await.unwrap();
        let rows = sorted_rows(&rows).iter().map(|row| serde_json::from_str(row).unwrap()).collect::<Vec<Value>>();
        Value::Array(rows)
    };
    // The file has: id 0 to 4; s: a, null, "", null, a; i: 7, null, 0, null, 7; l: [a, null], [""], [null, a], [], [];
    // p: {d: a}, {d: null}, null, {d: null}, {d: ""}. No key is null.
    let expected = [
        ("id, CAST(s AS VARCHAR)", json!([[0, "a"], [1, null], [2, ""], [3, null], [4, "a"]])),
        ("id, upper(s)", json!([[0, "A"], [1, null], [2, ""], [3, null], [4, "A"]])),
        ("id, length(s)", json!([[0, 1], [1, null], [2, 0], [3, null], [4, 1]])),
        ("id, nullif(s, '')", json!([[0, "a"], [1, null], [2, null], [3, null], [4, "a"]])),
        ("id, [s]", json!([[0, ["a"]], [1, [null]], [2, [""]], [3, [null]], [4, ["a"]]])),
        ("id, s IS NULL", json!([[0, false], [1, true], [2, false], [3, true], [4, false]])),
        ("id, coalesce(i, -1)", json!([[0, 7], [1, -1], [2, 0], [3, -1], [4, 7]])),
        ("id, i + 1", json!([[0, 8], [1, null], [2, 1], [3, null], [4, 8]])),
        ("id, s = ''", json!([[0, false], [1, null], [2, true], [3, null], [4, false]])),
        ("id, l[1]", json!([[0, "a"], [1, ""], [2, null], [3, null], [4, null]])),
        ("id, upper(l[2])", json!([[0, null], [1, null], [2, "A"], [3, null], [4, null]])),
        ("id, p['d']", json!([[0, "a"], [1, null], [2, null], [3, null], [4, ""]])),
        ("id, CAST(p['d'] AS VARCHAR)", json!([[0, "a"], [1, null], [2, null], [3, null], [4, ""]])),
        ("id, concat(s, '!')", json!([[0, "a!"], [1, "!"], [2, "!"], [3, "!"], [4, "a!"]])),
        ("id, rank() OVER (ORDER BY s)", json!([[0, 2], [1, 4], [2, 1], [3, 4], [4, 2]])),
        ("count(s), count(i), count(DISTINCT s), min(s), sum(i)", json!([[3, 3, 2, "", 14]])),
        (
            "id, arrow_try_cast(s, 'Dictionary(Int32, Int64)')",
            json!([[0, null], [1, null], [2, null], [3, null], [4, null]]),
        ),
    ];
    for (columns, expected) in expected {
        assert_eq!(answer(&format!("SELECT {columns} FROM t")).await, expected, "{columns}");
    }
    assert_eq!(answer("SELECT s, count(*) FROM t GROUP BY s").await, json!([["", 1], ["a", 2], [null, 2]]));
    assert_eq!(answer("SELECT a.id v, b.id w FROM t a JOIN t b ON a.s = b.s AND a.id < b.id").await, json!([[0, 4]]));
    assert_eq!(answer("SELECT id FROM t WHERE s IS NULL").await, json!([[1], [3]]));
    assert_eq!(answer("SELECT id FROM t WHERE s <> 'a'").await, json!([[2]]));
    assert_eq!(answer("SELECT DISTINCT s FROM t").await, json!([[""], ["a"], [null]]));
}

/// Types that only Arrow has. Rows 1 and 3 are null, with values underneath.
#[tokio::test]
async fn hidden_values_in_other_arrow_layouts_are_null() {
    let context = table(session::settings(1), &data("layouts.arrow")).await;
    let expected = [
        ("large[1]", json!([1, null, 5, null])),
        ("array_append(large, 5)", json!([[1, 2, 5], [5], [5, 5], [5]])),
        ("flatten([large])", json!([[1, 2], [], [5], []])),
        ("array_append(view, 5)", json!([[1, 2, 5], [5], [5, 5], [5]])),
        ("array_to_string(view, ',')", json!(["1,2", null, "5", null])),
        ("encoded['a']", json!([1, null, 3, null])),
        ("encoded['a'] + 1", json!([2, null, 4, null])),
        ("coalesce(encoded['a'], -1)", json!([1, -1, 3, -1])),
        ("(CASE WHEN id <> 2 THEN encoded END)['a']", json!([1, null, null, null])),
        ("CAST(words AS BIGINT[])", json!([[1], null, [3], null])),
        ("array_length(pair)", json!([2, null, 2, null])),
        ("flatten([pair])", json!([["1", "2"], [], ["3", "4"], []])),
        ("CAST(pair AS BIGINT[])", json!([[1, 2], null, [3, 4], null])),
        ("s['t']", json!(["1", null, "3", null])),
        ("CAST(s['t'] AS BIGINT)", json!([1, null, 3, null])),
        ("upper(s['d'])", json!(["1", null, "3", null])),
        ("union_extract(s['sparse'], '0')", json!([1, null, null, null])),
        ("union_extract(s['sparse'], '1')", json!([null, null, "s", null])),
        ("union_extract(s['dense'], '0')", json!([1, null, null, null])),
        ("union_extract(s['dense'], '1')", json!([null, null, "s", null])),
        ("s['runs']", json!([5, null, 6, null])),
        ("CAST(s['runs'] AS VARCHAR)", json!(["5", null, "6", null])),
    ];
    for (expr, expected) in expected {
        let rows = context.sql(&format!("SELECT id, {expr} v FROM t")).await.unwrap().collect().await.unwrap();
        let rows =
            sorted_rows(&rows).iter().map(|row| serde_json::from_str::<Value>(row).unwrap()[1].clone()).collect();
        assert_eq!(Value::Array(rows), expected, "{expr}");
    }
}

/// The command's outputs of such dictionaries.
#[test]
fn outputs_of_dictionaries_that_point_to_nulls() {
    let scratch = Scratch::default();
    let table = format!("t={}", data("dictionaries.arrow").display());
    let printed = |format: &str| {
        let query = "SELECT id, s, i FROM t ORDER BY id";
        run(tfr_sql().args([query, "--table", &table, "--format", format])).success().stdout
    };
    assert_eq!(printed("csv"), "id,s,i\n0,a,7\n1,,\n2,\"\",0\n3,,\n4,a,7\n");
    let lines: Vec<Value> = printed("jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[1], json!({"id": 1, "s": null, "i": null}));
    assert_eq!(lines[2], json!({"id": 2, "s": "", "i": 0}));
    let out = scratch.join("shards");
    let query = "SELECT id, CAST(s AS VARCHAR) s, i FROM t ORDER BY id";
    run(tfr_sql().args([query, "--table", &table, "--shards", "1"]).arg("--out").arg(&out)).success();
    let records: Vec<_> = shard_files(&out).iter().flat_map(|file| read_file(file)).collect();
    let has = |row: usize, name: &str| records[row].iter().any(|(feature, _)| feature == name);
    assert_eq!([0, 1, 2, 3, 4].map(|row| has(row, "s")), [true, false, true, false, true]);
    assert_eq!([0, 1, 2, 3, 4].map(|row| has(row, "i")), [true, false, true, false, true]);
}
