//! Transactional tables of Hive: the rows that a real Hive 4.0.1 gives for its own tables.
//!
//! `tests/data/hive_acid` has the tables, each with Hive's rows and with the committed write ids by its metastore.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tfr_tests::{Run, S3Server, Scratch, repository, run, tfr_sql};

use crate::lake::copy;

mod damaged;

/// The folder of a table in the repository.
fn folder(table: &str) -> PathBuf {
    repository().join("tests/data/hive_acid").join(table)
}

/// Copies a table of the repository. Returns the copy.
fn copied(scratch: &Scratch, table: &str) -> PathBuf {
    let copied = scratch.join(table);
    copy(&folder(table).join("table"), &copied);
    copied
}

/// The committed write ids of a table.
fn write_ids(table: &str) -> String {
    let json: Value = serde_json::from_slice(&fs::read(folder(table).join("table.json")).unwrap()).unwrap();
    json["valid_write_ids"].as_str().unwrap().to_owned()
}

/// The options of a table that its files do not have.
fn options(table: &str) -> &'static str {
    match table {
        "io_text" => ",format=hive-text,\"schema=id INT, name STRING\"",
        _ => "",
    }
}

/// Asks a query of the table `t`.
fn ask(directory: &str, options: &str, query: &str) -> Run {
    let spec = format!("t=\"{directory}\"{options}");
    run(tfr_sql().args(["--table", &spec, query, "--format", "jsonl"]))
}

fn with_ids(ids: &str, table: &str) -> String {
    format!(",\"write_ids={ids}\"{}", options(table))
}

/// The rows that a query has printed, each as the texts of its values by the names of the columns.
fn rows(found: &Run, columns: &[&str]) -> Vec<Vec<String>> {
    let row = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        assert_eq!(row.as_object().unwrap().len(), columns.len(), "{line}");
        columns.iter().map(|column| text(&row[*column])).collect()
    };
    sorted(found.stdout.lines().map(row).collect())
}

/// The rows of Hive.
fn expected(table: &str) -> Vec<Vec<String>> {
    let lines = fs::read_to_string(folder(table).join("rows.jsonl")).unwrap();
    let row = |line: &str| {
        let row: Vec<Value> = serde_json::from_str(line).unwrap();
        row.iter().map(text).collect()
    };
    sorted(lines.lines().map(row).collect())
}

/// The text of a value, without zeros at the end of a fraction. Hive prints the null of a partition by the name of its
/// directory.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) if text.contains('.') => text.trim_end_matches('0').to_owned(),
        Value::String(text) if text == "__HIVE_DEFAULT_PARTITION__" => "null".to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

fn sorted(mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    rows.sort();
    rows
}

/// The columns of the tables, in the order of Hive.
const TABLES: &[(&str, &[&str])] = &[
    ("full_aborted", &["id", "name"]),
    ("full_bucketed", &["id", "name"]),
    ("full_converted", &["id", "name"]),
    ("full_converted_major", &["id", "name"]),
    ("full_loaded_over", &["id", "name"]),
    ("full_major", &["id", "name"]),
    ("full_minor", &["id", "name"]),
    ("full_nested", &["id", "sr"]),
    ("full_open", &["id", "name"]),
    ("full_part", &["id", "name", "p"]),
    ("full_renamed", &["id", "label"]),
    ("full_types", &["id", "de", "dt", "ts", "a", "m", "sr", "ch", "bin"]),
    ("io_orc", &["id", "name"]),
    ("io_text", &["id", "name", "p"]),
];

/// The query of a table whose values Hive prints in another form.
fn query(table: &str) -> &'static str {
    match table {
        // With a blank between date and time.
        "full_types" => {
            "SELECT id, CAST(de AS VARCHAR) AS de, CAST(dt AS VARCHAR) AS dt, \
             replace(CAST(ts AS VARCHAR), 'T', ' ') AS ts, a, m, sr, ch, CAST(bin AS VARCHAR) AS bin FROM t"
        }
        _ => "SELECT * FROM t",
    }
}

#[test]
fn acid_tables_have_the_rows_of_hive() {
    for (table, columns) in TABLES {
        let (directory, options) = (folder(table).join("table"), with_ids(&write_ids(table), table));
        let found = ask(directory.to_str().unwrap(), &options, query(table)).success();
        assert_eq!(rows(&found, columns), expected(table), "{table}");
    }
}

/// Deleted rows are left out below counts, filters and limits, whichever columns are read.
#[test]
fn acid_rows_are_deleted_below_counts_filters_and_limits() {
    for (table, _) in TABLES {
        let (directory, options) = (folder(table).join("table"), with_ids(&write_ids(table), table));
        let (directory, count) = (directory.to_str().unwrap(), expected(table).len());
        let one = |query: &str| ask(directory, &options, query).success().stdout.lines().count();
        let counted = ask(directory, &options, "SELECT count(*) AS n FROM t").success().stdout;
        assert_eq!(counted.trim(), format!("{{\"n\":{count}}}"), "{table}");
        assert_eq!(one("SELECT id FROM t WHERE id > 0"), count, "{table}");
        assert_eq!(one("SELECT id FROM t LIMIT 1"), 1, "{table}");
    }
    let (directory, options) = (folder("full_renamed").join("table"), with_ids(&write_ids("full_renamed"), ""));
    let found = ask(directory.to_str().unwrap(), &options, "SELECT label FROM t WHERE id = 2").success();
    assert_eq!(found.stdout, "{\"label\":\"b\"}\n");
}

/// The files do not have what was rolled back or is open: with all write ids, rows come that Hive does not have.
#[test]
fn acid_rows_depend_on_the_committed_write_ids() {
    for (table, highest, first_rows) in [("full_aborted", 3, 2), ("full_open", 2, 1), ("io_orc", 3, 2)] {
        let directory = folder(table).join("table");
        let directory = directory.to_str().unwrap();
        let all = with_ids(&format!("default.{table}:{highest}:9223372036854775807::"), table);
        let found = ask(directory, &all, "SELECT * FROM t").success();
        assert_ne!(rows(&found, &["id", "name"]), expected(table), "{table}");
        // As of the first write id.
        let first = with_ids(&format!("default.{table}:1:9223372036854775807::"), table);
        let found = ask(directory, &first, "SELECT * FROM t").success();
        assert_eq!(rows(&found, &["id", "name"]).len(), first_rows, "{table}");
    }
    let ids = "option write_ids=\"x\": expected committed write ids as Hive writes them";
    let found = ask(folder("io_orc").join("table").to_str().unwrap(), ",write_ids=x", "SELECT * FROM t");
    assert!(found.code == Some(2) && found.stderr.contains(ids), "{found:?}");
}

#[test]
fn acid_directories_without_write_ids_are_refused() {
    for (table, _) in TABLES {
        let directory = folder(table).join("table");
        let found = ask(directory.to_str().unwrap(), options(table), "SELECT * FROM t");
        assert!(found.code == Some(1) && found.stdout.is_empty(), "{table}: {found:?}");
        assert!(found.stderr.contains("refusing to read a transactional (ACID) Hive table"), "{}", found.stderr);
        assert!(found.stderr.contains("write_ids="), "{}", found.stderr);
    }
    // A part of a table is none.
    let part = folder("full_major").join("table/base_0000002_v0000090");
    for options in ["", ",\"write_ids=t:4:9223372036854775807::\""] {
        let found = ask(part.to_str().unwrap(), options, "SELECT * FROM t");
        assert!(found.code == Some(1) && found.stderr.contains("Hive table"), "{found:?}");
    }
}

#[test]
fn acid_directories_that_a_compaction_covers_need_no_write_ids() {
    let scratch = Scratch::default();
    let table = copied(&scratch, "full_converted_major");
    for later in ["delete_delta_10000003_10000003_0000", "delta_10000003_10000003_0001"] {
        fs::remove_dir_all(table.join(later)).unwrap();
    }
    let found = ask(table.to_str().unwrap(), "", "SELECT * FROM t").success();
    let all = rows(&found, &["id", "name"]);
    assert_eq!(all, [["2", "original"], ["3", "new"]]);
    // What it covers is still there, so that it may have failed.
    assert!(found.stderr.contains("the state of transaction 40 is unknown"), "{}", found.stderr);
    for covered in ["000000_0", "delete_delta_10000002_10000002_0000", "delta_10000001_10000001_0000"] {
        let path = table.join(covered);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap()
        } else {
            fs::remove_file(path).unwrap()
        };
    }
    let found = run(tfr_sql().args([&format!("SELECT * FROM '{}/'", table.display()), "--format", "jsonl"])).success();
    assert_eq!(rows(&found, &["id", "name"]), all);
    assert!(!found.stderr.contains("unknown"), "{}", found.stderr);
}

/// Columns are found by position, in the declared types; partitions have the declared types, too.
#[test]
fn acid_columns_may_be_declared() {
    let ids = |table: &str| format!("OPTIONS (write_ids '{}')", write_ids(table));
    let ask = |statement: String, query: &str| {
        let found = run(tfr_sql().args([&format!("{statement}; {query}"), "--format", "jsonl"]));
        found.success().stdout
    };
    let location = |table: &str| format!("LOCATION '{}/'", folder(table).join("table").display());
    let renamed = format!(
        "CREATE EXTERNAL TABLE t (a BIGINT, b VARCHAR, c INT) STORED AS ORC {} {}",
        location("full_renamed"),
        ids("full_renamed")
    );
    let rows = ask(renamed, "SELECT * FROM t ORDER BY a");
    assert_eq!(rows, "{\"a\":2,\"b\":\"b\",\"c\":null}\n{\"a\":3000000000,\"b\":\"c\",\"c\":null}\n");
    let text = format!(
        "CREATE EXTERNAL TABLE t (id INT, name VARCHAR, p SMALLINT) STORED AS TEXTFILE PARTITIONED BY (p) {} {}",
        location("io_text"),
        ids("io_text")
    );
    let rows = ask(text, "SELECT name, arrow_typeof(p) AS p FROM t WHERE p = 1");
    assert_eq!(rows, "{\"name\":\"over\",\"p\":\"Int16\"}\n");
    let part = format!(
        "CREATE EXTERNAL TABLE t (p VARCHAR, id INT, name VARCHAR) STORED AS ORC PARTITIONED BY (p) {} {}",
        location("full_part"),
        ids("full_part")
    );
    assert_eq!(ask(part, "SELECT * FROM t WHERE p = 'a/b'"), "{\"p\":\"a/b\",\"id\":4,\"name\":\"d\"}\n");
}

/// Insert-only tables have files of any format.
#[test]
fn acid_insert_only_tables_may_be_parquet() {
    let scratch = Scratch::default();
    for (delta, id) in [(1, 10), (2, 20), (3, 30)] {
        let directory = scratch.join(format!("t/delta_000000{delta}_000000{delta}_0000/HIVE_UNION_SUBDIR_1"));
        fs::create_dir_all(&directory).unwrap();
        let file = scratch.join(format!("{delta}.parquet"));
        run(tfr_sql().args([&format!("SELECT {id} AS id"), "--out", file.to_str().unwrap()])).success();
        fs::rename(file, directory.join("000000_0")).unwrap();
    }
    let table = scratch.join("t");
    let found =
        ask(table.to_str().unwrap(), ",\"write_ids=t:3:9223372036854775807::2\"", "SELECT * FROM t ORDER BY id");
    assert_eq!(found.success().stdout, "{\"id\":10}\n{\"id\":30}\n");
}

#[test]
fn acid_tables_are_read_from_object_stores_and_within_what_is_allowed() {
    let server = S3Server::public();
    server.put_directory("lake/", &folder("full_part").join("table"));
    let spec = format!("t={}{}", server.url("lake/"), with_ids(&write_ids("full_part"), ""));
    let found = run(server.tfr_sql().args(["--table", &spec, "SELECT * FROM t", "--format", "jsonl"])).success();
    assert_eq!(rows(&found, &["id", "name", "p"]), expected("full_part"));

    let scratch = Scratch::default();
    fs::create_dir_all(scratch.join("temp")).unwrap();
    let table = copied(&scratch, "full_minor");
    let confined = |allowed: &Path| {
        let spec = format!("t={}{}", table.display(), with_ids(&write_ids("full_minor"), ""));
        let mut command = tfr_sql();
        command.current_dir(scratch.path()).args(["--temp-dir", "temp", "--allow", "temp", "--allow"]).arg(allowed);
        run(command.args(["--table", &spec, "SELECT * FROM t", "--format", "jsonl"]))
    };
    assert_eq!(rows(&confined(&table).success(), &["id", "name"]), expected("full_minor"));
    let found = confined(&scratch.join("temp"));
    assert!(found.code == Some(1) && found.stderr.contains("not allowed"), "{found:?}");
    // A directory of it that leads elsewhere.
    let delta = table.join("delta_0000005_0000005_0000");
    fs::rename(&delta, scratch.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(scratch.join("elsewhere"), delta).unwrap();
    let found = confined(&table);
    assert!(found.code == Some(1) && found.stderr.contains("not allowed"), "{found:?}");
}
