//! Deleted rows, and columns that files lack.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray, StructArray, TimestampMicrosecondArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field};
use serde_json::{Value, json};
use tfr_tests::{Scratch, run, tfr_sql};

use super::edit;
use super::written::{File, Table};
use crate::lake::read_with;

fn longs(values: impl IntoIterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(Int64Array::from_iter(values))
}

fn texts(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

/// The lines that a query on a table gives, without the header.
fn ask(table: &Path, query: &str) -> Vec<String> {
    let query = query.replace(" t ", &format!(" '{}/' ", table.display()));
    let found = run(tfr_sql().args([&query, "--format", "csv"])).success();
    found.stdout.lines().skip(1).map(str::to_owned).collect()
}

/// A key that is written again lives, a null is a key, and a delete of a partition leaves the others alone.
#[test]
fn iceberg_keys_are_deleted_up_to_their_sequence_number() {
    let scratch = Scratch::default();
    let mut table = Table::new(&scratch, "t");
    table.specs = json!([
        {"spec-id": 0, "fields": []},
        {"spec-id": 1, "fields": [{"name": "p", "transform": "identity", "source-id": 2, "field-id": 1000}]},
    ]);
    let data = |name: &str, ids: &[Option<i64>], p: &'static str, sequence| {
        let values = [("id", Some(1), longs(ids.iter().copied())), ("p", Some(2), texts(&vec![Some(p); ids.len()]))];
        let file = table.parquet(&format!("t/{name}.parquet"), &values, 2);
        File { sequence, spec: 1, part: Some(p), ..file }
    };
    let keys = |name: &str, ids: &[Option<i64>], sequence| {
        let file = table.parquet(&format!("t/{name}.parquet"), &[("id", Some(1), longs(ids.iter().copied()))], 9);
        File { content: 2, sequence, ids: vec![1], ..file }
    };
    let all = [Some(1), Some(2), None, Some(4), Some(5)];
    table.files = vec![
        data("a1", &all, "a", 1),
        data("b1", &all, "b", 1),
        data("a2", &[Some(1), Some(2)], "a", 2),
        data("a3", &[Some(1)], "a", 3),
        keys("global", &[Some(1), None], 2),
        File { spec: 1, part: Some("a"), ..keys("of-a", &[Some(2), Some(5)], 3) },
    ];
    let table = table.write();
    let query = "SELECT p || coalesce(CAST(id AS VARCHAR), 'null') AS x FROM t ORDER BY x";
    let expected = ["a1", "a1", "a4", "b2", "b4", "b5"];
    assert_eq!(ask(&table, query), expected);
    assert_eq!(ask(&table, "SELECT count(*) FROM t "), [expected.len().to_string()]);
    assert_eq!(ask(&table, "SELECT count(*) FROM t WHERE id = 2"), ["1"]);
}

/// Keys of several columns, one of them in a struct, that the data and the deletes have under other names.
#[test]
fn iceberg_keys_may_be_parts_of_structs() {
    let scratch = Scratch::default();
    let mut table = Table::new(&scratch, "t");
    table.fields = json!([
        {"id": 1, "name": "id", "required": false, "type": "long"},
        {"id": 3, "name": "s", "required": false, "type": {"type": "struct", "fields": [
            {"id": 4, "name": "x", "required": false, "type": "long"}]}},
    ]);
    let structs = |values: &[Option<i64>]| -> ArrayRef {
        let field = Field::new("y", DataType::Int64, true);
        let field = field.with_metadata([("PARQUET:field_id".to_owned(), "4".to_owned())].into());
        Arc::new(StructArray::from(vec![(Arc::new(field), longs(values.iter().copied()))]))
    };
    let file = |name: &str, ids: &[i64], values: &[Option<i64>]| {
        let ids = longs(ids.iter().copied().map(Some));
        table.parquet(&format!("t/{name}.parquet"), &[("n", Some(1), ids), ("r", Some(3), structs(values))], 9)
    };
    table.files = vec![
        file("a", &[1, 1, 2, 2], &[Some(1), None, Some(1), Some(2)]),
        File { content: 2, sequence: 2, ids: vec![4, 1], ..file("d", &[1, 2], &[None, Some(1)]) },
    ];
    let table = table.write();
    assert_eq!(ask(&table, "SELECT id, s['x'] AS x FROM t ORDER BY id, x"), ["1,1", "2,2"]);
}

/// Positions in row groups that several partitions read.
#[test]
fn iceberg_deleted_rows_stay_deleted_in_divided_files() {
    let scratch = Scratch::default();
    let mut table = Table::new(&scratch, "t");
    let data = table.parquet("t/a.parquet", &[("id", Some(1), longs((0..1000).map(Some)))], 64);
    let deleted: Vec<i64> = (0..1000).filter(|id| id % 7 == 0 || (128..192).contains(id)).collect();
    let rows: Vec<_> = deleted.iter().map(|position| (data.path.as_str(), *position)).collect();
    let positions = table.positions("t/d.parquet", &rows);
    table.files = vec![data, positions];
    let table = table.write();
    let left: Vec<i64> = (0..1000).filter(|id| !deleted.contains(id)).collect();
    for (threads, condition) in [("1", "true"), ("4", "id >= 100"), ("4", "id % 2 = 0")] {
        let divide = "SET datafusion.optimizer.repartition_file_min_size = 0";
        let query = format!("{divide}; SELECT id FROM '{}/' WHERE {condition}", table.display());
        let found = run(tfr_sql().args(["--threads", threads, "--format", "csv", &query])).success();
        let mut found: Vec<i64> = found.stdout.lines().skip(1).map(|id| id.parse().unwrap()).collect();
        found.sort();
        let passes = |id: &i64| match condition {
            "true" => true,
            "id >= 100" => *id >= 100,
            _ => id % 2 == 0,
        };
        assert_eq!(found, left.iter().copied().filter(passes).collect::<Vec<_>>(), "{threads} threads, {condition}");
    }
}

/// Files of Hive: their columns have no ids, and those of the path are not in them.
#[test]
fn iceberg_files_without_ids_are_read_by_the_names_of_the_mapping() {
    let scratch = Scratch::default();
    let mut table = Table::new(&scratch, "t");
    table.specs = json!([
        {"spec-id": 0, "fields": [{"name": "p", "transform": "identity", "source-id": 2, "field-id": 1000}]},
    ]);
    let file = |part: Option<&'static str>, ids: &[i64]| {
        let name = format!("hive/p={}/a.parquet", part.unwrap_or("null"));
        let file = table.parquet(&name, &[("old", None, longs(ids.iter().copied().map(Some)))], 9);
        File { part, ..file }
    };
    let files = vec![file(Some("a b"), &[1, 2]), file(None, &[3]), file(Some(""), &[4])];
    table.files = files;
    let refused = table.write();
    let found = run(tfr_sql().arg(format!("SELECT * FROM '{}/'", refused.display()))).exits_with(1);
    assert!(found.stderr.contains("finds its columns by ids, but the file does not record them"), "{}", found.stderr);
    table.properties = json!({"schema.name-mapping.default": r#"[{"field-id": 1, "names": ["id", "old"]}]"#});
    let table = table.write();
    assert_eq!(ask(&table, "SELECT id, p FROM t ORDER BY id"), ["1,a b", "2,a b", "3,", "4,\"\""]);
    assert_eq!(ask(&table, "SELECT id FROM t WHERE p IS NULL"), ["3"]);
}

/// Without its key, a delete would be of other rows; without a value, a column would be NULL.
#[test]
fn iceberg_files_without_a_column_that_they_need_are_refused() {
    let scratch = Scratch::default();
    let mut table = Table::new(&scratch, "t");
    let data = table.parquet("t/a.parquet", &[("id", Some(1), longs([Some(1), None]))], 9);
    let keys = table.parquet("t/d.parquet", &[("other", Some(9), longs([Some(1)]))], 9);
    table.files = vec![data.clone(), File { content: 2, sequence: 2, ids: vec![1], ..keys }];
    let refused = table.write();
    let read = |table: &Path| {
        let query = format!("SELECT * FROM '{}/' ORDER BY id", table.display());
        run(tfr_sql().args([&query, "--format", "csv"]))
    };
    let found = read(&refused).exits_with(1);
    assert!(found.stderr.contains("d.parquet: it has no column \"id (field 1)\""), "{}", found.stderr);
    // Of two specs, one has the values of the column.
    table.specs = json!([
        {"spec-id": 0, "fields": []},
        {"spec-id": 1, "fields": [{"name": "p", "transform": "identity", "source-id": 2, "field-id": 1000}]},
    ]);
    let columns = [("id", Some(1), longs([Some(3)])), ("p", Some(2), texts(&[Some("x")]))];
    let has_column = File { spec: 1, part: Some("x"), ..table.parquet("t/b.parquet", &columns, 9) };
    let lacks_column =
        File { spec: 1, part: Some("y"), ..table.parquet("t/c.parquet", &[("id", Some(1), longs([Some(4)]))], 9) };
    table.files = vec![data, has_column];
    assert_eq!(read(&table.write()).success().stdout, "id,p\n1,\n3,x\n,\n");
    table.files.push(lacks_column);
    let found = read(&table.write()).exits_with(1);
    assert!(found.stderr.contains("c.parquet: it has no column \"p\""), "{}", found.stderr);
}

/// By the specification, positions apply in the partition of their file. Iceberg's own reader does not compare it where a
/// file is of one data file, so such a table would have other rows there.
#[test]
fn iceberg_positions_apply_in_their_partition() {
    let scratch = Scratch::default();
    let mut table = Table::new(&scratch, "t");
    table.specs = by_p(0);
    let data = |p: &'static str| {
        let values = [("id", Some(1), longs([Some(1), Some(2)])), ("p", Some(2), texts(&[Some(p), Some(p)]))];
        File { part: Some(p), ..table.parquet(&format!("t/{p}.parquet"), &values, 9) }
    };
    let (a, b) = (data("a"), data("b"));
    let of_b = table.positions("t/of-b.parquet", &[(&b.path, 0)]);
    let of_both = table.positions("t/of-both.parquet", &[(&a.path, 1), (&b.path, 1)]);
    let query = "SELECT p || id AS x FROM t ORDER BY x";
    let mut with = |delete: File| {
        table.files = vec![a.clone(), b.clone(), delete];
        table.write()
    };
    assert_eq!(ask(&with(File { part: Some("a"), ..of_both }), query), ["a1", "b1", "b2"]);
    // Whether the manifest names the data file, or the bounds of paths do.
    let bounded = File { bound: Some(b.path.clone()), ..of_b.clone() };
    let referenced = File { referenced: Some(b.path.clone()), ..of_b.clone() };
    for delete in [bounded, referenced] {
        assert_eq!(ask(&with(File { part: Some("b"), ..delete.clone() }), query), ["a1", "a2", "b2"]);
        let found = read_with(&with(File { part: Some("a"), ..delete }), "");
        assert!(
            found.code == Some(1) && found.stderr.contains("b.parquet, which is in another partition"),
            "{found:?}"
        );
    }
    let of_a = File { referenced: Some(a.path.clone()), part: Some("a"), ..of_b };
    let found = read_with(&with(of_a), "");
    assert!(found.code == Some(1) && found.stderr.contains("b.parquet, but its manifest records"), "{found:?}");
}

/// A spec by the values of `p`.
fn by_p(id: i64) -> Value {
    json!([{"spec-id": id, "fields": [{"name": "p", "transform": "identity", "source-id": 2, "field-id": 1000}]}])
}

/// Old tables: the metadata file names the manifests, and each has its partition spec itself.
#[test]
fn iceberg_manifests_without_a_list_have_their_own_spec() {
    let scratch = Scratch::default();
    let mut table = Table::new(&scratch, "t");
    table.specs = json!([{"spec-id": 0, "fields": []}, by_p(1)[0]]);
    table.is_unlisted = true;
    let file = table.parquet("t/a.parquet", &[("id", Some(1), longs([Some(1), Some(2)]))], 9);
    table.files = vec![File { spec: 1, part: Some("x"), ..file }];
    let directory = table.write();
    assert_eq!(ask(&directory, "SELECT id, p FROM t ORDER BY id"), ["1,x", "2,x"]);
    edit(&directory, |metadata| metadata["partition-specs"] = by_p(0));
    let found = read_with(&directory, "");
    assert!(found.code == Some(1) && found.stderr.contains("it has partition spec 1, which the metadata"), "{found:?}");
}

/// Its metadata file is not in the folder of the table, which has not been moved.
#[test]
fn iceberg_metadata_may_be_elsewhere_than_its_table() {
    let scratch = Scratch::default();
    let mut table = Table::new(&scratch, "t");
    let elsewhere = scratch.join("other/metadata");
    table.properties = json!({"write.metadata.path": format!("file:{}", elsewhere.display())});
    table.files = vec![table.parquet("t/data/a.parquet", &[("id", Some(1), longs([Some(1)]))], 9)];
    let directory = table.write();
    fs::create_dir_all(&elsewhere).unwrap();
    let file = elsewhere.join("00001-eb068871-6f6d-4dfc-a7d8-f7300410f782.metadata.json");
    fs::rename(directory.join("metadata/v1.metadata.json"), &file).unwrap();
    let found = run(tfr_sql().args([&format!("SELECT id FROM '{}'", file.display()), "--format", "csv"])).success();
    assert_eq!((found.stdout.as_str(), found.stderr.as_str()), ("id\n1\n", ""));
    // A copy of all of it.
    fs::rename(scratch.path().join("t"), scratch.join("moved")).unwrap();
    fs::create_dir_all(scratch.join("moved/metadata")).unwrap();
    let copied = scratch.join("moved/metadata").join(file.file_name().unwrap());
    fs::copy(&file, &copied).unwrap();
    let found = run(tfr_sql().args([&format!("SELECT id FROM '{}'", copied.display()), "--format", "csv"])).success();
    assert!(found.stdout == "id\n1\n" && found.stderr.contains("its files are read below"), "{found:?}");
}

/// A struct with one field.
fn structs(name: &str, id: i32, values: ArrayRef, is_valid: &[bool]) -> ArrayRef {
    let field = Field::new(name, values.data_type().clone(), true);
    let field = field.with_metadata([("PARQUET:field_id".to_owned(), id.to_string())].into());
    let nulls = Some(NullBuffer::from(is_valid.to_vec()));
    Arc::new(StructArray::try_new(vec![field].into(), vec![values], nulls).unwrap())
}

/// All fields of a struct are newer than the file: it is NULL where the struct in the file is.
#[test]
fn iceberg_struct_with_none_of_the_fields_of_a_file_is_not_null() {
    let scratch = Scratch::default();
    let mut table = Table::new(&scratch, "t");
    table.fields = json!([
        {"id": 1, "name": "id", "required": false, "type": "long"},
        {"id": 3, "name": "s", "required": false, "type": {"type": "struct", "fields": [
            {"id": 5, "name": "n", "required": false, "type": "long"},
            {"id": 6, "name": "d", "required": false, "type": "string", "initial-default": "new"}]}},
    ]);
    let ids = longs([Some(1), Some(2)]);
    let s = structs("old", 4, longs([Some(7), Some(8)]), &[true, false]);
    table.files = vec![table.parquet("t/a.parquet", &[("id", Some(1), ids), ("s", Some(3), s)], 9)];
    let table = table.write();
    let query = "SELECT id, s IS NULL AS x, s['n'] AS n, s['d'] AS d FROM t ORDER BY id";
    assert_eq!(ask(&table, query), ["1,false,,new", "2,true,,"]);
    assert_eq!(ask(&table, "SELECT id FROM t WHERE s['d'] = 'new'"), ["1"]);
}

/// The partition has its value, which a part of a column cannot have.
#[test]
fn iceberg_field_by_which_files_are_partitioned_must_be_in_them() {
    let scratch = Scratch::default();
    let mut table = Table::new(&scratch, "t");
    table.fields = json!([
        {"id": 1, "name": "id", "required": false, "type": "long"},
        {"id": 3, "name": "s", "required": false, "type": {"type": "struct", "fields": [
            {"id": 4, "name": "x", "required": false, "type": "string"},
            {"id": 5, "name": "y", "required": false, "type": "string"}]}},
    ]);
    table.specs = json!([
        {"spec-id": 0, "fields": [{"name": "s_x", "transform": "identity", "source-id": 4, "field-id": 1000}]},
    ]);
    let mut with = |name: &str, id: i32| {
        let columns =
            [("id", Some(1), longs([Some(1)])), ("s", Some(3), structs(name, id, texts(&[Some("v")]), &[true]))];
        table.files = vec![File { part: Some("v"), ..table.parquet("t/a.parquet", &columns, 9) }];
        table.write()
    };
    assert_eq!(ask(&with("x", 4), "SELECT id, s['x'] AS x FROM t "), ["1,v"]);
    let found = read_with(&with("y", 5), "");
    assert!(found.code == Some(1) && found.stderr.contains("a.parquet: it has no column \"s.x\""), "{found:?}");
}

/// Files of others may have them. The other way round, the zone is UTC.
#[test]
fn iceberg_times_without_a_zone_are_not_read_from_instants() {
    let scratch = Scratch::default();
    let with = |in_table: &str, zone: Option<&str>| {
        let mut table = Table::new(&scratch, "t");
        table.fields = json!([{"id": 1, "name": "x", "required": false, "type": in_table}]);
        let times = TimestampMicrosecondArray::from(vec![1]).with_timezone_opt(zone.map(str::to_owned));
        table.files = vec![table.parquet("t/a.parquet", &[("x", Some(1), Arc::new(times) as ArrayRef)], 9)];
        table.write()
    };
    assert_eq!(ask(&with("timestamptz", None), "SELECT x FROM t "), ["1970-01-01T00:00:00.000001Z"]);
    let found = read_with(&with("timestamp", Some("UTC")), "");
    let hint = "the file has instants and the table times without a zone, and nothing records which zone is meant";
    assert!(found.code == Some(1) && found.stderr.contains(hint), "{}", found.stderr);
}
