//! Tables by their names in a Hive Metastore: real servers of Hive 4.0.1 and 3.1.3, with tables made for each test.
//!
//! `tests/hive/metastore.sh` starts a server; it needs Java 17 and, the first time, Maven. Where that fails, the tests say
//! that they are skipped. What servers do wrong is tested in `tfr-formats/src/metastore/client/tests.rs`.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use serde_json::{Value, json};
use tfr_tests::{Run, Scratch, finish, repository, run, tfr_sql};

use crate::lake::copy;
use crate::lake::rows::{rows_of, sorted};

/// The metadata of an Iceberg table, as a catalog names it.
const METADATA: &str = "meta_uuid/metadata/00002-a2c687ad-8579-456d-87d9-d9e3dd7fa671.metadata.json";

/// A server, which ends with the test.
struct Server {
    scratch: Scratch,
    port: u16,
}

impl Server {
    /// Starts a server of this version of Hive; `None` if it does not start within a minute.
    fn start(version: &str) -> Option<Self> {
        Self::start_with(version, &[])
    }

    fn start_with(version: &str, environment: &[(&str, &str)]) -> Option<Self> {
        let scratch = Scratch::default();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Self { scratch, port };
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hive-metastore");
        let mut command = Command::new("timeout");
        command.args(["60", "bash"]).arg(script()).arg("start").arg(server.directory()).arg(port.to_string());
        if std::env::var_os("METASTORE_CACHE").is_none() {
            command.env("METASTORE_CACHE", cache);
        }
        let started = run(command.env("METASTORE_VERSION", version).envs(environment.iter().copied()));
        if started.code != Some(0) {
            println!("skipped: no metastore of Hive {version}: {}", started.stderr.trim());
            return None;
        }
        Some(server)
    }

    fn directory(&self) -> PathBuf {
        self.scratch.join("metastore")
    }

    /// Puts tables into it.
    fn fill(&self, tables: &Value) {
        let file = self.scratch.text("tables.json", &tables.to_string());
        let address = format!("127.0.0.1:{}", self.port);
        run(Command::new("python3").arg(repository().join("tests/hive/fill.py")).arg(address).arg(file)).success();
    }

    /// Runs the command with this metastore.
    fn run(&self, arguments: &[&str]) -> Run {
        let mut command = tfr_sql();
        command.current_dir(self.scratch.path()).args(arguments);
        run(command.env("TFR_SQL_HIVE_METASTORE", format!("thrift://127.0.0.1:{}", self.port)))
    }

    /// The rows of a query, in the order of their texts.
    #[track_caller]
    fn rows(&self, query: &str) -> Vec<Value> {
        let out = self.scratch.join("rows.arrow");
        self.run(&[query, "--out", out.to_str().unwrap(), "--mode", "overwrite"]).success();
        let rows = arrow_rows(&out);
        sorted(rows).iter().map(|text| serde_json::from_str(text).unwrap()).collect()
    }

    /// The error of a query.
    #[track_caller]
    fn error(&self, query: &str) -> String {
        let ended = self.run(&[query]).exits_with(1);
        assert_eq!(ended.stdout, "");
        ended.stderr.trim().to_owned()
    }

    fn path(&self, name: &str) -> String {
        format!("file:{}", self.scratch.join(name).display())
    }

    fn text(&self, name: &str, text: &str) {
        let path = self.scratch.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let stop = Command::new("bash").arg(script()).arg("stop").arg(self.directory()).spawn();
        stop.map(finish).unwrap();
    }
}

fn script() -> PathBuf {
    repository().join("tests/hive/metastore.sh")
}

/// The rows of an Arrow file.
fn arrow_rows(path: &Path) -> Vec<Value> {
    let file = arrow::ipc::reader::FileReader::try_new(fs::File::open(path).unwrap(), None).unwrap();
    let mut stream = Vec::new();
    let mut writer = arrow::ipc::writer::StreamWriter::try_new(&mut stream, &file.schema()).unwrap();
    file.for_each(|batch| writer.write(&batch.unwrap()).unwrap());
    writer.finish().unwrap();
    drop(writer);
    rows_of(&stream)
}

/// Makes files for the tables, and the tables.
fn shop(server: &Server) {
    server.text("plain/000000_0", "1,a\n2,NULL\n");
    server.text("part/dt=2026-01-01/s=a%2Fb/n=1/000000_0", "5\u{1}x\u{2}y\n");
    let columns: [(&str, ArrayRef); 1] = [("id", Arc::new(Int64Array::from(vec![6])))];
    server.scratch.parquet("elsewhere/a.parquet", &RecordBatch::try_from_iter(columns).unwrap(), 10);
    server.text("cells/f", "\"x;y\";\n");
    server.text("objects/f", "{\"ID\":\"7\",\"m\":{\"k\":1}}\n");
    // As ALTER TABLE without CASCADE leaves them: the partitions have the columns of their time.
    server.text("changed/p=1/000000_0", "1\u{1}x\u{1}10\n");
    server.text("changed/p=2/000000_0", "2\u{1}y\u{1}not of the partition\n");
    server.text("changed/p=3/000000_0", "3\u{1}z\u{1}30\u{1}300\n");
    let columns: [(&str, ArrayRef); 2] =
        [("a", Arc::new(Int64Array::from(vec![1]))), ("b", Arc::new(StringArray::from(vec!["x"])))];
    server.scratch.parquet("renamed/p=1/a.parquet", &RecordBatch::try_from_iter(columns).unwrap(), 10);
    copy(&repository().join("tests/data/delta/tables/dv_file"), &server.scratch.join("dv_file"));
    copy(&repository().join("tests/data/iceberg/tables/meta_uuid"), &server.scratch.join("meta_uuid"));
    fs::create_dir_all(server.scratch.join("empty")).unwrap();
    let changed = |value: &str, columns: Value| json!({"values": [value], "location": server.path(&format!("changed/p={value}")), "columns": columns});
    server.fill(&json!([
        {"db": "shop", "table": "plain", "columns": [["id", "int"], ["s", "string"]], "location": server.path("plain"),
         "serde_properties": {"field.delim": ",", "serialization.null.format": "NULL"}},
        {"db": "shop", "table": "part", "columns": [["id", "bigint"], ["tags", "array<string>"]],
         "partition_keys": [["dt", "date"], ["s", "string"], ["n", "int"]], "location": server.path("part"),
         "partitions": [
            {"values": ["2026-01-01", "a/b", "1"], "location": server.path("part/dt=2026-01-01/s=a%2Fb/n=1")},
            {"values": ["2026-01-02", "it's", "2"], "location": server.path("empty"), "format": "orc"},
            {"values": ["2026-01-03", "__HIVE_DEFAULT_PARTITION__", "10"], "location": server.path("elsewhere"),
             "format": "parquet"}]},
        {"db": "shop", "table": "changed", "location": server.path("changed"), "partition_keys": [["p", "int"]],
         "columns": [["a", "bigint"], ["bb", "string"], ["c", "int"], ["d", "int"]],
         "partitions": [
            changed("1", json!([["a", "int"], ["b", "string"], ["c", "int"]])),
            changed("2", json!([["a", "int"], ["b", "string"]])),
            changed("3", json!([["a", "int"], ["bb", "string"], ["c", "int"], ["d", "int"]])),
            changed("4", json!([["a", "int"]]))]},
        {"db": "shop", "table": "renamed", "location": server.path("renamed"), "partition_keys": [["p", "int"]],
         "columns": [["a", "bigint"], ["bb", "string"]], "format": "parquet",
         "partitions": [{"values": ["1"], "location": server.path("renamed/p=1"), "columns": [["a", "bigint"], ["b", "string"]]}]},
        {"db": "shop", "table": "narrowed", "location": server.path("changed"), "partition_keys": [["p", "int"]],
         "columns": [["a", "int"]],
         "partitions": [{"values": ["1"], "location": server.path("changed/p=1"), "columns": [["a", "bigint"]]}]},
        {"db": "shop", "table": "empty", "columns": [["id", "int"]], "location": server.path("empty"), "format": "orc"},
        {"db": "shop", "table": "absent", "columns": [["id", "int"]], "location": server.path("absent")},
        {"db": "shop", "table": "outside", "columns": [["id", "int"]], "location": "file:/etc"},
        {"db": "shop", "table": "a_view", "columns": [["id", "int"]], "view": "SELECT id FROM shop.plain"},
        {"db": "shop", "table": "hbase", "columns": [["id", "int"]],
         "properties": {"storage_handler": "org.apache.hadoop.hive.hbase.HBaseStorageHandler"}},
        {"db": "shop", "table": "cells", "columns": [["a", "string"], ["b", "string"]], "location": server.path("cells"), "format": "csv",
         "serde_properties": {"separatorChar": ";"}},
        {"db": "shop", "table": "objects", "columns": [["id", "int"], ["m", "map<string,int>"]], "location": server.path("objects"),
         "format": "json"},
        {"db": "shop", "table": "acid", "columns": [["id", "int"]], "format": "orc", "type": "MANAGED_TABLE",
         "properties": {"transactional": "true", "transactional_properties": "insert_only"}},
        {"db": "shop", "table": "rc", "columns": [["id", "int"]], "location": server.path("empty"), "format": "rc"},
        {"db": "shop", "table": "deleted", "columns": [["x", "int"]], "location": server.path("dv_file"),
         "properties": {"spark.sql.sources.provider": "delta"}},
        {"db": "shop", "table": "snapshots", "columns": [["x", "int"]], "location": server.path("meta_uuid"),
         "serde": "org.apache.iceberg.mr.hive.HiveIcebergSerDe",
         "properties": {"table_type": "ICEBERG", "metadata_location": server.path(METADATA)}},
        {"db": "other", "table": "t", "columns": [["id", "int"]], "location": server.path("plain")},
    ]));
    // The server makes them.
    for directory in ["absent", "changed/p=4"] {
        fs::remove_dir(server.scratch.join(directory)).unwrap();
    }
}

fn tables_of_a_server(version: &str) {
    let Some(server) = Server::start(version) else { return };
    shop(&server);
    assert_eq!(server.rows("SELECT * FROM hive.shop.plain"), [json!({"id": 1, "s": "a"}), json!({"id": 2, "s": null})]);
    // Names have any case, and a column or its table may be named alone.
    assert_eq!(server.rows("SELECT plain.ID FROM Hive.SHOP.Plain WHERE S = 'a'"), [json!({"id": 1})]);
    let part = "hive.shop.part";
    let first = json!({"id": 5, "tags": ["x", "y"], "dt": "2026-01-01", "s": "a/b", "n": 1});
    let third = json!({"id": 6, "tags": null, "dt": "2026-01-03", "s": null, "n": 10});
    assert_eq!(sorted(server.rows(&format!("SELECT * FROM {part}"))), sorted(vec![third.clone(), first.clone()]));
    for (filter, expected) in [
        ("n = 1", vec![&first]),
        ("n >= 2", vec![&third]),
        ("dt > DATE '2026-01-01'", vec![&third]),
        ("s = 'a/b' AND dt = DATE '2026-01-01'", vec![&first]),
        ("s IS NULL", vec![&third]),
        ("s < 'b'", vec![&first]),
        ("n IN (1, 2) AND id = 5", vec![&first]),
        ("n = 1 OR s IS NULL", vec![&third, &first]),
        ("n = 7", vec![]),
        ("s = '__HIVE_DEFAULT_PARTITION__'", vec![]),
    ] {
        let found = server.rows(&format!("SELECT * FROM {part} WHERE {filter}"));
        assert_eq!(sorted(found), sorted(expected.into_iter().cloned().collect()), "{filter}");
    }
    assert_eq!(server.rows(&format!("SELECT count(*) AS rows FROM {part}")), [json!({"rows": 2})]);
    // As Hive shows them: by position, of what the partition had.
    assert_eq!(
        server.rows("SELECT * FROM hive.shop.changed"),
        [
            json!({"a": 1, "bb": "x", "c": 10, "d": null, "p": 1}),
            json!({"a": 2, "bb": "y", "c": null, "d": null, "p": 2}),
            json!({"a": 3, "bb": "z", "c": 30, "d": 300, "p": 3}),
        ]
    );
    assert_eq!(server.rows("SELECT d, p FROM hive.shop.changed WHERE bb = 'z'"), [json!({"d": 300, "p": 3})]);
    let strict = server.run(&["SELECT * FROM hive.shop.changed", "--out", "strict", "--strict"]).exits_with(1);
    assert!(strict.stderr.contains("changed/p=4"), "{}", strict.stderr);
    assert_eq!(server.rows("SELECT * FROM hive.shop.renamed"), [json!({"a": 1, "bb": null, "p": 1})]);
    assert_eq!(server.rows("SELECT * FROM hive.shop.cells"), [json!({"a": "x;y", "b": ""})]);
    assert_eq!(server.rows("SELECT id, m['k'] AS k FROM hive.shop.objects"), [json!({"id": 7, "k": 1})]);
    assert_eq!(server.rows("SELECT * FROM hive.shop.empty"), Vec::<Value>::new());
    for (table, path) in [("deleted", "dv_file/"), ("snapshots", METADATA)] {
        let count = |table: &str| server.run(&[&format!("SELECT count(*) FROM {table}")]).success().stdout;
        assert_eq!(count(&format!("hive.shop.{table}")), count(&format!("'{path}'")), "{table}");
    }
    assert_eq!(
        server.rows("SELECT * FROM hive.information_schema.tables WHERE table_schema = 'other'"),
        [json!({"table_schema": "other", "table_name": "t"})]
    );
    let databases = server.rows("SELECT schema_name FROM hive.information_schema.schemata");
    assert!(databases.contains(&json!({"schema_name": "shop"})), "{databases:?}");

    // This server records no transactions, and those of Hive 3 are not asked.
    let acid = server.error("SELECT * FROM hive.shop.acid");
    assert!(acid.contains(if version == "3" { "hive.shop.acid" } else { "get_open_txns" }), "{acid}");
    let tables = ["a_view", "hbase", "rc", "narrowed", "absent", "plian"];
    let errors = tables.map(|table| server.error(&format!("SELECT * FROM hive.shop.{table}")));
    let errors = errors.join("\n\n").replace(&server.scratch.path().display().to_string(), "DIR");
    insta::assert_snapshot!("metastore_errors", errors.replace(&server.port.to_string(), "PORT"));

    // Whoever may open a directory only reads no table elsewhere, and asks no other metastore.
    let allowed = |extra: &[&str], query: &str| {
        let (here, metastore) =
            (server.scratch.path().to_str().unwrap().to_owned(), format!("thrift://127.0.0.1:{}", server.port));
        let mut arguments = vec![query, "--allow", &here, "--temp-dir", &here];
        let metastore = ["--allow", &metastore];
        arguments.extend(if extra.is_empty() { &metastore[..] } else { &[] });
        server.run(&arguments)
    };
    allowed(&[], "SELECT * FROM hive.shop.plain").success();
    for (extra, query) in [(&[][..], "SELECT * FROM hive.shop.outside"), (&["no"], "SELECT * FROM hive.shop.plain")] {
        let ended = allowed(extra, query).exits_with(1);
        assert!(ended.stderr.contains("--allow"), "{}", ended.stderr);
    }
    sets_of_a_server(&server);
}

/// Sets are the same in tasks, and written again as long as the partitions are the same.
fn sets_of_a_server(server: &Server) {
    let query = "SELECT * FROM hive.shop.part";
    server.run(&[query, "--out", "set", "--partitions", "2"]).success();
    let manifest: Value =
        serde_json::from_slice(&fs::read(server.scratch.join("set/_manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["inputs"], json!(["hive.shop.part"]));
    assert!(manifest["options"]["metastore"]["hive.shop.part"].is_string());
    server.run(&["rebuild", "set", "--out", "again"]).success();
    server.run(&[query, "--out", "tasks", "--partitions", "2", "--plan", "plan"]).success();
    // Tasks have the address from the plan.
    let task = |arguments: &[&str]| {
        run(tfr_sql().current_dir(server.scratch.path()).env_remove("TFR_SQL_HIVE_METASTORE").args(arguments)).success()
    };
    for index in ["0", "1"] {
        task(&["task", "plan", "--index", index]);
    }
    task(&["finish", "plan"]);
    let payloads = |set: &str| tfr_tests::read_shards(&server.scratch.join(set));
    assert_eq!(payloads("tasks"), payloads("set"));
    server.text("part/dt=2026-01-01/s=a%2Fb/n=1/000001_0", "7\n");
    let ended = server.run(&["rebuild", "set", "--out", "third"]).exits_with(1);
    assert!(ended.stderr.contains("hive.shop.part"), "{}", ended.stderr);
}

#[test]
fn metastore_of_hive_4_gives_tables_by_name() {
    tables_of_a_server("4");
}

#[test]
fn metastore_of_hive_3_gives_tables_by_name() {
    tables_of_a_server("3");
}

/// Compiles classes by the names of those of Hive's that a server must find to take a transactional table of ORC. `None`
/// without a compiler.
fn acid_classes(scratch: &Scratch) -> Option<PathBuf> {
    let package = "org.apache.hadoop.hive.ql.io";
    let sources = ["Input", "Output"].into_iter().flat_map(|way| {
        let interface =
            (format!("Acid{way}Format"), format!("package {package}; public interface Acid{way}Format {{}}"));
        let class =
            format!("package {package}.orc; public class Orc{way}Format implements {package}.Acid{way}Format {{}}");
        [interface, (format!("Orc{way}Format"), class)]
    });
    let files: Vec<_> = sources.map(|(name, source)| scratch.text(&format!("{name}.java"), &source)).collect();
    let classes = scratch.join("classes");
    let compiled = Command::new("javac").arg("-d").arg(&classes).args(files).status();
    match compiled {
        Ok(status) if status.success() => Some(classes),
        compiled => {
            println!("skipped: javac: {compiled:?}");
            None
        }
    }
}

/// Tables of a real Hive 4.0.1. The server records which of their transactions were committed.
#[test]
fn metastore_of_hive_4_gives_transactional_tables() {
    let compiled = Scratch::default();
    let Some(classes) = acid_classes(&compiled) else { return };
    let environment = [("METASTORE_TXN", "1"), ("METASTORE_CLASSPATH", classes.to_str().unwrap())];
    let Some(server) = Server::start_with("4", &environment) else { return };
    let data = repository().join("tests/data/hive_acid");
    // The server takes tables of its own in its warehouse alone.
    let warehouse = |name: &str| server.directory().join("warehouse").join(name);
    let url = |name: &str| format!("file:{}", warehouse(name).display());
    let table = |name: &str, columns: Value, kind: Value, transactions: Value| {
        copy(&data.join(name).join("table"), &warehouse(name));
        let mut table = json!({"db": "acid", "table": name, "columns": columns, "location": url(name), "format": "orc",
            "type": "MANAGED_TABLE", "properties": {"transactional": "true"}, "transactions": transactions});
        table.as_object_mut().unwrap().extend(kind.as_object().unwrap().clone());
        table
    };
    let columns = json!([["id", "int"], ["name", "string"]]);
    let partition = |table: &str, directory: &str, value: &str| json!({"values": [value], "location": url(&format!("{table}/p={directory}"))});
    let texts = json!({"format": "text", "partition_keys": [["p", "int"]],
        "properties": {"transactional": "true", "transactional_properties": "insert_only"},
        "partitions": [partition("io_text", "1", "1"), partition("io_text", "2", "2")]});
    let parts = ["x", "y", "a/b", "__HIVE_DEFAULT_PARTITION__", "absent"];
    let parts = parts.map(|value| partition("full_part", &value.replace('/', "%2F"), value));
    let parts = json!({"partition_keys": [["p", "string"]], "partitions": parts});
    let three = json!(["committed", "committed", "committed"]);
    server.fill(&json!([
        table("full_open", columns.clone(), json!({}), json!(["committed", "open"])),
        table("full_aborted", columns.clone(), json!({}), json!(["committed", "aborted", "committed"])),
        table("io_text", columns.clone(), texts, three.clone()),
        table("full_part", columns, parts, three),
    ]));
    // The server makes it.
    fs::remove_dir(warehouse("full_part/p=absent")).unwrap();
    for (name, names) in [
        ("full_open", &["id", "name"][..]),
        ("full_aborted", &["id", "name"]),
        ("io_text", &["id", "name", "p"]),
        ("full_part", &["id", "name", "p"]),
    ] {
        let expected = fs::read_to_string(data.join(name).join("rows.jsonl")).unwrap();
        let expected = expected.lines().map(|line| {
            // Hive prints the null of a partition by the name of its directory.
            let values: Vec<Value> =
                serde_json::from_str(&line.replace("\"__HIVE_DEFAULT_PARTITION__\"", "null")).unwrap();
            Value::Object(names.iter().map(|name| (*name).to_owned()).zip(values).collect())
        });
        let found = server.rows(&format!("SELECT * FROM hive.acid.{name}"));
        assert_eq!(sorted(found), sorted(expected.collect()), "{name}");
    }
    let warned = server.run(&["SELECT count(*) FROM hive.acid.full_part"]).success();
    assert!(warned.stderr.contains("full_part/p=absent") && warned.stderr.contains("no rows"), "{}", warned.stderr);
    let strict = server.run(&["SELECT * FROM hive.acid.full_part", "--out", "strict", "--strict"]).exits_with(1);
    assert!(strict.stderr.contains("full_part/p=absent"), "{}", strict.stderr);
}
