//! Directories of table formats: their files are not read as if each of their rows were one of the table.
//!
//! The layouts are those that Delta Lake, Iceberg, Hudi, Paimon, Hive, Spark and Lance leave; the rows of the tables are
//! what their own libraries give (`deltalake`, `pyiceberg`).

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use tfr_tests::{Fault, Operation, Run, S3Server, Scratch, run, tfr_sql};

/// A scratch directory with these files: rows in those that end in `.parquet`, or have no ending, like Hive's.
fn layout(files: &[&str]) -> Scratch {
    let scratch = Scratch::default();
    for file in files {
        fs::create_dir_all(scratch.join(file).parent().unwrap()).unwrap();
        fs::write(scratch.join(file), content(&scratch, file)).unwrap();
    }
    scratch
}

fn content(scratch: &Scratch, file: &str) -> Vec<u8> {
    match Path::new(file).extension().and_then(|ending| ending.to_str()) {
        Some("parquet") | None => {
            let rows = RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(vec![1])) as _)]).unwrap();
            fs::read(scratch.parquet(".rows", &rows, 1)).unwrap()
        }
        Some("csv") => b"id\n1\n".to_vec(),
        Some("json") => b"{\"id\": 1}\n".to_vec(),
        Some(_) => b"x".to_vec(),
    }
}

fn in_directory(directory: &Path) -> Command {
    let mut command = tfr_sql();
    command.current_dir(directory);
    command
}

fn count(scratch: &Scratch, location: &str) -> Run {
    run(in_directory(scratch.path()).args([&format!("SELECT count(*) FROM '{location}'"), "--format", "csv"]))
}

#[track_caller]
fn assert_rows(scratch: &Scratch, location: &str, rows: usize) {
    let found = count(scratch, location);
    assert_eq!((found.code, found.stdout.lines().nth(1)), (Some(0), Some(&*rows.to_string())), "{location}: {found:?}");
}

#[track_caller]
fn assert_refused(found: Run, table: &str, found_by: &str) {
    let expected = format!(": refusing to read {table} as bare files: {found_by}\n");
    assert!(found.code == Some(1) && found.stderr.contains(&expected), "expected {expected:?}, found {found:?}");
    assert!(found.stdout.is_empty(), "{found:?}");
}

const DELTA: &[&str] = &[
    "lake/delta/_delta_log/00000000000000000000.json",
    "lake/delta/dt=a/part-0.parquet",
    "lake/delta/dt=b/part-1.parquet",
    "lake/plain.csv",
];

const ICEBERG: &[&str] = &[
    "db/t/metadata/00001-eb068871-6f6d-4dfc-a7d8-f7300410f782.metadata.json",
    "db/t/metadata/snap-6730418860391088060-0-713cd401-0633-4d35-afad-092f979b0475.avro",
    "db/t/data/dt=a/00000-0-a46d26cd.parquet",
];

const ACID: &[&str] = &[
    "acid/p=1/base_0000001/bucket_00000",
    "acid/p=1/delta_0000002_0000002_0000/bucket_00000",
    "acid/p=1/delete_delta_0000003_0000003_0000/bucket_00000",
];

#[test]
fn table_formats_are_rejected_on_every_path() {
    let delta = ("a Delta Lake table", "lake/delta has _delta_log/");
    let iceberg =
        ("an Apache Iceberg table", "db/t has metadata/00001-eb068871-6f6d-4dfc-a7d8-f7300410f782.metadata.json");
    let hudi: &[&str] =
        &["h/.hoodie/hoodie.properties", "h/2026/01/01/.hoodie_partition_metadata", "h/2026/01/01/a.parquet"];
    let paimon: &[&str] =
        &["p/snapshot/snapshot-1", "p/schema/schema-0", "p/manifest/manifest-1", "p/dt=1/bucket-0/data-1.parquet"];
    let spark: &[&str] = &["s/_spark_metadata/0", "s/part-0.parquet"];
    let links: &[&str] = &["m/_symlink_format_manifest/manifest", "m/part-0.parquet"];
    let lance: &[&str] = &["l/x.lance/_versions/1.manifest", "l/x.lance/data/0b1c.lance"];
    let ducklake = "ducklake-0197f1c5-7b2a-7c33-9d5e-0f1e2d3c4b5a.parquet";
    let ducklake_file = format!("d/main/t/{ducklake}");
    for (files, locations, (table, found_by)) in [
        (
            DELTA,
            &[
                "lake/delta/dt=a/",
                "lake/delta/dt=*/",
                "lake/delta/*/*.parquet",
                "lake/delta/**",
                "lake",
                "lake/",
                ".",
                "**/*.parquet",
                "lake/*",
                "lake/*/dt=a/*.parquet",
                "lake/*/dt=a/part-0.parquet",
                "lake/delta/dt=a/p*",
                "lake/delta/dt=a/../dt=b/",
            ][..],
            delta,
        ),
        (
            ICEBERG,
            &["db", "db/t", "db/t/", "db/t/data/", "db/t/data/dt=a/", "db/t/data/*/*.parquet", "db/*/data/**"],
            iceberg,
        ),
        (hudi, &["h", "h/2026/", "h/2026/*/*/*.parquet"], ("an Apache Hudi table", "h has .hoodie/")),
        (paimon, &["p/", "p/dt=1/", "p/*/bucket-0/*.parquet"], ("an Apache Paimon table", "p has snapshot/snapshot-1")),
        (
            ACID,
            &["acid/", "acid/p=1/", "acid/p=1/base_0000001/", "acid/p=1/*/bucket_00000", "acid/p=1/base*/*"],
            ("a transactional (ACID) Hive table", "acid/p=1 has base_0000001/"),
        ),
        (spark, &["s", "s/*.parquet"], ("the output of a Spark streaming query", "s has _spark_metadata/")),
        (links, &["m/"], ("a table with Hive symlink manifests", "m has _symlink_format_manifest/")),
        (lance, &["l", "l/x.lance"], ("a Lance dataset", "l/x.lance has _versions/1.manifest")),
        (lance, &["l/x.lance/data/"], ("a Lance dataset", "l/x.lance has _versions/1.manifest")),
        (&[&ducklake_file], &["d", "d/main/t/*.parquet"], ("a DuckLake table", &format!("d/main/t has {ducklake}"))),
    ] {
        let scratch = layout(files);
        for location in locations {
            assert_refused(count(&scratch, location), table, found_by);
        }
    }
}

#[test]
fn table_formats_are_rejected_despite_format_or_declaration() {
    let scratch = layout(DELTA);
    for arguments in [
        &["SELECT * FROM t", "--table", "t=lake/delta,format=parquet"][..],
        &["SELECT * FROM t", "--table", "t=lake/plain.csv,path=lake/delta/"],
        &["CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'lake/delta/'; SELECT * FROM t"],
        &["CREATE EXTERNAL TABLE t (id BIGINT) STORED AS PARQUET LOCATION 'lake/delta/dt=a/'; SELECT * FROM t"],
        &["SELECT 1 WHERE 1 IN (SELECT id FROM 'lake/delta/dt=a')"],
        &["schema", "lake/delta/dt=a"],
    ] {
        let found = run(in_directory(scratch.path()).args(arguments));
        assert_refused(found, "a Delta Lake table", "lake/delta has _delta_log/");
    }
}

#[test]
fn partitions_of_any_depth_belong_to_their_table() {
    let partitions: String = (0..12).map(|level| format!("key{level}=1/")).collect();
    let files = ["lake/t/_delta_log/00000000000000000000.json".to_owned(), format!("lake/t/{partitions}a.parquet")];
    let scratch = layout(&files.each_ref().map(String::as_str));
    for location in [format!("lake/t/{partitions}"), "lake/t/*/*/".to_owned()] {
        assert_refused(count(&scratch, &location), "a Delta Lake table", "lake/t has _delta_log/");
    }
}

#[test]
fn a_table_without_files_is_named_too() {
    let scratch = layout(&["t/.hoodie/hoodie.properties"]);
    assert_refused(count(&scratch, "t"), "an Apache Hudi table", "t has .hoodie/");
    let missing = count(&scratch, "t/dt=9/").exits_with(1);
    assert!(missing.stderr.contains("no such file or directory"), "{missing:?}");
}

#[test]
fn table_format_files_named_explicitly_are_read() {
    let scratch = layout(DELTA);
    // One file in full, whichever way it is said.
    for location in ["lake/delta/dt=a/part-0.parquet", "./lake/delta/dt=a/../dt=b/part-1.parquet"] {
        assert_rows(&scratch, location, 1);
    }
    let both = "t=lake/delta/dt=a/part-0.parquet,path=lake/delta/dt=b/part-1.parquet";
    let found = run(in_directory(scratch.path()).args(["SELECT sum(id) FROM t", "--table", both])).success();
    assert_eq!(found.stdout.lines().nth(1), Some("2"));
    // Files as files, and what the log itself says.
    let files = "SELECT count(*) FROM files('lake/delta/**/*.parquet')";
    assert_eq!(run(in_directory(scratch.path()).arg(files)).success().stdout.lines().nth(1), Some("2"));
    for location in ["lake/delta/_delta_log/", "lake/delta/_delta_log/*.json", "lake/*/_delta_log/*.json", "lake/*.csv"]
    {
        assert_rows(&scratch, location, 1);
    }
    let scratch = layout(ICEBERG);
    assert_rows(&scratch, "db/t/metadata/*.json", 1);
}

#[test]
fn bare_files_are_read_with_one_warning_but_never_strictly() {
    let scratch = layout(DELTA);
    let table = "t=lake/delta,bare_files=true";
    let declared = "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'lake/delta' OPTIONS ('bare_files' 'true');";
    let query = "SELECT count(*) FROM t";
    let warning = "lake/delta: reading the files of a Delta Lake table as they are";
    for arguments in [&["--table", table, query][..], &[&format!("{declared} {query}")]] {
        let found = run(in_directory(scratch.path()).args(arguments)).success();
        assert_eq!(found.stdout.lines().nth(1), Some("2"));
        assert_eq!(found.stderr.matches(warning).count(), 1, "{}", found.stderr);
    }
    let plain =
        run(in_directory(scratch.path()).args(["--table", "t=lake/plain.csv,bare_files=true", query])).success();
    assert_eq!(plain.stderr, "");
    fs::write(scratch.join("strict.toml"), "strict = true\n").unwrap();
    for strict in [&["--strict"][..], &["--strict", "--dry-run"], &["--map-file", "strict.toml"]] {
        for (tables, query) in [(&["--table", table][..], query.to_owned()), (&[], format!("{declared} {query}"))] {
            let found = run(in_directory(scratch.path()).args(tables).args([&query, "--out", "out"]).args(strict));
            let expected =
                "lake/delta: the files of a Delta Lake table are read as they are, which --strict does not allow";
            assert!(found.code == Some(1) && found.stderr.contains(expected), "{strict:?}: {found:?}");
            assert!(!scratch.join("out").exists());
        }
    }
    // A table that is read as partitions, each of which tells the format, is one table.
    let hudi = layout(&["h/.hoodie/hoodie.properties", "h/p=1/.hoodie_partition_metadata", "h/p=1/a.parquet"]);
    let found = run(in_directory(hudi.path()).args(["--table", "t=h,bare_files=true", query])).success();
    assert!(found.stderr.contains("h: reading the files of an Apache Hudi table as they are: "), "{}", found.stderr);
    // Records are listed twice, and warned of once.
    run(in_directory(scratch.path()).args(["SELECT 1 AS x", "--out", "r"])).success();
    fs::rename(scratch.join("r/part-00000-of-00001.tfrecord"), scratch.join("lake/delta/dt=a/a.tfrecord")).unwrap();
    let records = "t=lake/delta/dt=a/*.tfrecord";
    let refused = run(in_directory(scratch.path()).args(["--table", records, query]));
    assert_refused(refused, "a Delta Lake table", "lake/delta has _delta_log/");
    let bare = &format!("{records},bare_files=true");
    let found = run(in_directory(scratch.path()).args(["--table", bare, query])).success();
    assert_eq!(found.stderr.matches(warning).count(), 1, "{}", found.stderr);
    run(in_directory(scratch.path()).args(["--table", bare, query, "--strict", "--out", "out"])).exits_with(1);
}

#[test]
fn directories_that_only_look_like_tables_are_read() {
    for (files, location, rows) in [
        (&["t/a.parquet", "metadata/features.json", "metadata/x.metadata.json"][..], "t", 1),
        (&["t/metadata/a.parquet", "t/data/b.parquet"], "t", 2),
        (&["t/snapshot/a.parquet", "t/schema/b.parquet", "t/manifest/c.parquet"], "t", 3),
        (&["t/base_1/a.parquet", "t/base_20260101/b.parquet", "t/delta_20260101_20260131/c.parquet"], "t", 3),
        (&["t/v=base_0000001/a.parquet"], "t", 1),
        (&["t/delta_log/a.parquet", "t/_delta_log.parquet", "t/b.parquet"], "t", 2),
        (&["lake/delta/_delta_log/0.json", "lake/delta/a.parquet", "lake/plain/b.parquet"], "lake/plain", 1),
        (&["lake/delta/_delta_log/0.json", "lake/delta/a.parquet", "lake/b.parquet"], "lake/*.parquet", 1),
        (&["_delta_log/0.json", "1/2/3/4/5/6/7/8/9/b.parquet"], "1/2/3/4/5/6/7/8/9", 1),
    ] {
        assert_rows(&layout(files), location, rows);
    }
    // A set of ours, with all that may lie beside it.
    let scratch = Scratch::default();
    let set = ["SELECT value % 2 AS p, value FROM generate_series(1, 10)", "--out", "set", "--partition-by", "p"];
    run(in_directory(scratch.path()).args(set).args(["--emit", "tfmd,parse-fn,stats,index"])).success();
    for (location, rows) in [("set", 10), ("set/p=1/", 5), ("set/*/*.tfrecord", 10)] {
        assert_rows(&scratch, location, rows);
    }
}

/// What lies in the home directory or in that for temporary files belongs to nobody in particular.
#[test]
fn table_format_marks_in_home_and_temp_are_ignored() {
    let scratch = layout(&[
        "home/.hoodie/hoodie.properties",
        "home/_delta_log/0.json",
        "home/metadata/v1.metadata.json",
        "home/user/a.parquet",
    ]);
    let query = ["SELECT count(*) FROM 'home/user'", "--format", "csv"];
    for variable in ["HOME", "TMPDIR"] {
        let found = run(in_directory(scratch.path()).env(variable, scratch.join("home")).args(query)).success();
        assert_eq!(found.stdout.lines().nth(1), Some("1"));
    }
    assert_refused(run(in_directory(scratch.path()).args(query)), "a Delta Lake table", "home has _delta_log/");
    let named = run(in_directory(&scratch.join("home")).env("HOME", scratch.join("home")).arg("SELECT * FROM '.'"));
    assert!(named.code == Some(1) && named.stderr.contains("not a Delta table"), "{named:?}");
}

#[cfg(unix)]
#[test]
fn table_formats_are_found_through_links() {
    use std::os::unix::fs::symlink;
    let scratch = layout(DELTA);
    symlink("lake/delta/dt=a", scratch.join("partition")).unwrap();
    fs::create_dir_all(scratch.join("farm/sub")).unwrap();
    symlink("../lake/delta/dt=a/part-0.parquet", scratch.join("farm/a.parquet")).unwrap();
    fs::create_dir_all(scratch.join("nested")).unwrap();
    symlink("../lake/delta/dt=a", scratch.join("nested/link")).unwrap();
    symlink("lake/delta/_delta_log", scratch.join("log")).unwrap();
    for location in ["partition", "partition/", "partition/*.parquet", "farm", "nested", "nested/*/*.parquet"] {
        assert_refused(count(&scratch, location), "a Delta Lake table", "lake/delta has _delta_log/");
    }
    assert_rows(&scratch, "farm/a.parquet", 1);
    assert_rows(&scratch, "log/", 1);
}

fn put(server: &S3Server, files: &[&str]) {
    let scratch = Scratch::default();
    for file in files {
        server.put(file, content(&scratch, file));
    }
}

#[test]
fn tables_in_a_store_are_refused_as_in_directories() {
    let server = S3Server::default();
    put(&server, &[DELTA, ICEBERG, ACID].concat());
    let delta = ("a Delta Lake table", "s3://data/lake/delta has _delta_log/");
    let iceberg = (
        "an Apache Iceberg table",
        "s3://data/db/t has metadata/00001-eb068871-6f6d-4dfc-a7d8-f7300410f782.metadata.json",
    );
    let acid = ("a transactional (ACID) Hive table", "s3://data/acid/p=1 has base_0000001/");
    for (location, (table, found_by)) in [
        ("lake/", delta),
        ("lake/delta/dt=a/", delta),
        ("lake/delta/dt=*/*.parquet", delta),
        ("lake/*/dt=a/*.parquet", delta),
        ("lake/**/*.parquet", delta),
        ("db/t/", iceberg),
        ("db/t/data/", iceberg),
        ("db/t/data/dt=a/*.parquet", iceberg),
        ("acid/", acid),
        ("acid/p=1/base_0000001/", acid),
    ] {
        let before = server.count(Operation::List);
        let query = format!("SELECT count(*) FROM '{}'", server.url(location));
        assert_refused(run(server.tfr_sql().arg(query)), table, found_by);
        let listings = server.count(Operation::List) - before;
        assert!(listings <= 6, "{location}: {listings} listings");
    }
    for location in ["lake/delta/dt=a/part-0.parquet", "lake/*.csv", "lake/delta/_delta_log/", "db/t/metadata/*.json"] {
        let query = format!("SELECT count(*) FROM '{}'", server.url(location));
        assert_eq!(run(server.tfr_sql().arg(query)).success().stdout.lines().nth(1), Some("1"), "{location}");
    }
    // A bucket may be a table as a whole.
    put(&server, &["_delta_log/00000000000000000000.json"]);
    let found = run(server.tfr_sql().arg("SELECT * FROM 's3://data/lake/plain.csv'"));
    assert_eq!(found.code, Some(0), "{found:?}");
    let found = run(server.tfr_sql().arg("SELECT * FROM 's3://data/lake/*.csv'"));
    assert_refused(found, "a Delta Lake table", "s3://data/ has _delta_log/");
}

/// Who may read a prefix need not be allowed to list what is above it.
#[test]
fn table_format_check_tolerates_denied_listings() {
    let server = S3Server::default();
    put(&server, &["a/b/t/part-0.parquet"]);
    let denied = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>".to_owned();
    // The first request lists the named directory.
    for number in 1..4 {
        server.fail(Operation::List, number, Fault::Status(403, denied.clone()));
    }
    let found = run(server.tfr_sql().arg("SELECT count(*) FROM 's3://data/a/b/t/'")).success();
    assert_eq!(found.stdout.lines().nth(1), Some("1"));
    assert_eq!(server.count(Operation::List), 4);
}

#[test]
fn table_format_errors_have_hints() {
    let others = &["h/.hoodie/x", "h/a.parquet", "p/snapshot/snapshot-1", "p/schema/schema-0", "p/manifest/manifest-1"];
    let lance = &["l.lance/_versions/1.manifest", "l.lance/data/0b1c.lance"];
    let scratch = layout(&[DELTA, ICEBERG, ACID, others, lance].concat());
    let shown = |location: &str| {
        let found = count(&scratch, location).exits_with(1);
        found.stderr.replace("; or name one file", "\n    or name one file")
    };
    insta::assert_snapshot!(["lake/", "db/t/", "acid/", "h", "p", "l.lance"].map(shown).join("\n"));
}

/// What there is for a format is named before its directory is.
#[test]
fn table_formats_without_a_reader_are_named_by_format() {
    for (format, table, library) in [
        ("hudi", "an Apache Hudi table", "hudi.HudiTableBuilder.from_base_uri(os.path.abspath('DIRECTORY'))"),
        ("paimon", "an Apache Paimon table", "FileStoreTable.from_path('DIRECTORY')"),
        ("lance", "a Lance dataset", "lance.dataset('DIRECTORY')"),
    ] {
        let table_option = format!("t=x,format={format}");
        let found = run(tfr_sql().args(["SELECT * FROM t", "--table", &table_option])).exits_with(2);
        let message = format!("option format=\"{format}\": {table} is not read\n\nhint: ");
        assert!(found.stderr.contains(&message) && found.stderr.contains(library), "{}", found.stderr);
        let name = format.to_uppercase();
        let declared = format!("CREATE EXTERNAL TABLE t STORED AS {name} LOCATION 'x'; SELECT * FROM t");
        let found = run(tfr_sql().arg(declared)).exits_with(1);
        let message = format!("unsupported format: {name}\n\nhint: ");
        assert!(found.stderr.contains(&message) && found.stderr.contains(library), "{}", found.stderr);
    }
}

/// Files `v9` and `v10` are in this order, and the newest is the one to read by.
#[test]
fn iceberg_directory_is_read_by_its_newest_metadata() {
    let scratch = layout(&["t/metadata/v9.metadata.json", "t/metadata/v10.metadata.json", "t/data/a.parquet"]);
    let found = count(&scratch, "t/").exits_with(1);
    let expected = "t/metadata/v10.metadata.json: damaged file of an Iceberg table: missing field `format-version`";
    assert!(found.stderr.contains(expected), "{}", found.stderr);
    let found = count(&scratch, "t/data/").exits_with(1);
    assert!(
        found.stderr.contains("name the directory of the table, whose metadata has its rows: FROM 't/'"),
        "{found:?}"
    );
}
