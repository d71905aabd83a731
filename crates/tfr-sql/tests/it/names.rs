//! Where rows come from and how names are resolved.

use std::io::Write as _;
use std::process::Stdio;

use crate::workbench::{Workbench, assert_prints, tell};

fn csv(bench: &Workbench, arguments: &[&str]) -> String {
    let output = bench.run(&[arguments, &["--format", "csv"]].concat());
    assert!(output.status.success(), "{}", tell(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn quoted_paths_are_tables() {
    let bench = Workbench::new();
    for path in
        ["events.parquet", "./events.parquet", "event?.parquet", "{dir}/events.parquet", "file://{dir}/events.parquet"]
    {
        let path = path.replace("{dir}", bench.path().to_str().unwrap());
        assert_eq!(csv(&bench, &[&format!("SELECT count(*) AS n FROM '{path}'")]), "n\n4\n", "{path}");
    }
    assert_eq!(csv(&bench, &["SELECT count(*) AS n FROM 'events.parquet' a, \"events.parquet\" b"]), "n\n16\n");
}

#[test]
fn tables_are_registered_with_options() {
    let query = "SELECT name FROM users WHERE id = 8";
    assert_eq!(csv(&Workbench::new(), &[query, "--table", "users=users.csv,delimiter=;"]), "name\nGrace\n");
    let query = "SELECT name FROM public.users WHERE id = 8";
    assert_eq!(csv(&Workbench::new(), &[query, "--table", "users=users.csv,delimiter=;"]), "name\nGrace\n");
}

#[test]
fn script_runs_statements_before_the_query() {
    let text = "SET datafusion.execution.batch_size = 2;
        CREATE EXTERNAL TABLE users STORED AS CSV LOCATION 'users.csv' OPTIONS (delimiter ';');
        SELECT count(*) AS n FROM users;";
    assert_eq!(csv(&Workbench::new(), &[text]), "n\n3\n");
}

#[test]
fn settings_that_have_an_option_are_refused() {
    let bench = Workbench::new();
    assert_prints!(bench.tell(&["SET datafusion.runtime.memory_limit = '1G'; SELECT 1"]), @r##"
    exit 1
    -- stderr
    error: SET datafusion.runtime.memory_limit is not supported

    hint: use --memory-limit
    "##);
    assert_prints!(bench.tell(&["SET datafusion.execution.enable_file_stream_work_stealing = true; SELECT 1"]), @r##"
    exit 1
    -- stderr
    error: SET datafusion.execution.enable_file_stream_work_stealing is not supported

    hint: leave it off: with it, the shards would differ from run to run; --threads sets how many read at a time
    "##);
    assert_prints!(bench.tell(&["SET datafusion.execution.batch_size = 1000000000; SELECT 1"]), @r##"
    exit 1
    -- stderr
    error: SET datafusion.execution.batch_size = 1000000000: expected at most 1048576
    "##);
}

#[test]
fn the_space_to_spill_into_may_be_limited() {
    let bench = Workbench::new();
    let spill = |space: &str| {
        let query = format!(
            "SET datafusion.runtime.max_temp_directory_size = '{space}';
            SELECT value, md5(CAST(value AS VARCHAR)) AS hash FROM generate_series(1, 300000) ORDER BY hash"
        );
        // The place that --temp-dir says stays in force.
        let limits = ["--memory-limit", "16MiB", "--temp-dir", ".", "--out", "shards", "--mode", "overwrite"];
        tell(&bench.command(&[&[query.as_str()], limits.as_slice()].concat()).env("TMPDIR", "absent").output().unwrap())
    };
    let shown = spill("1M");
    assert!(shown.starts_with("exit 1\n") && shown.contains("max_temp_directory_size"), "{shown}");
    let shown = spill("1G");
    assert!(shown.starts_with("exit 0\n"), "{shown}");
}

#[test]
fn script_rejects_other_statements() {
    let bench = Workbench::new();
    assert_prints!(bench.tell(&["CREATE VIEW v AS SELECT 1; SELECT * FROM v"]), @r##"
    exit 1
    -- stderr
    error: only SET and CREATE EXTERNAL TABLE may precede the query, found: CREATE VIEW v AS SELECT 1
    "##);
    assert_prints!(bench.tell(&["CREATE EXTERNAL TABLE t STORED AS XML LOCATION 't'; SELECT * FROM t"]), @r##"
    exit 1
    -- stderr
    error: CREATE EXTERNAL TABLE: unsupported format: XML

    hint: the formats are STORED AS PARQUET, CSV, TSV, TFRECORD, ARRAYRECORD, ORC, AVRO, JSON, ARROW, TEXTFILE, LIBSVM, DELTA, ICEBERG
    "##);
    assert_prints!(bench.tell(&["SET datafusion.execution.batch_size = 2"]), @r##"
    exit 1
    -- stderr
    error: the last statement must be a query, found: SET datafusion.execution.batch_size = 2
    "##);
    assert_prints!(bench.tell(&["COPY (SELECT 1) TO 'x' STORED AS TFRECORD"]), @r##"
    exit 1
    -- stderr
    error: the last statement must be a query, found: COPY (SELECT 1) TO x STORED AS TFRECORD

    hint: give the inner query and --out DIR
    "##);
    assert_prints!(bench.tell(&["EXPLAIN SELECT 1", "--out", "shards"]), @r##"
    exit 1
    -- stderr
    error: the last statement must be a query, found: EXPLAIN SELECT 1
    "##);
    assert!(bench.leftovers().is_empty());
}

#[test]
fn the_query_comes_from_a_file_or_standard_input() {
    let bench = Workbench::new();
    bench.text("query.sql", "-- how many\nSELECT count(*) AS n\nFROM 'events.parquet'");
    assert_eq!(csv(&bench, &["-f", "query.sql"]), "n\n4\n");

    let mut child =
        bench.command(&["-f", "-", "--format", "csv"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"SELECT 1 AS one").unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"one\n1\n");

    assert_prints!(bench.tell(&["-f", "missing.sql"]), @r##"
    exit 1
    -- stderr
    error: missing.sql: cannot be read
      cause: No such file or directory (os error 2)
    "##);
}

#[test]
fn column_lookup_ignores_case_and_keeps_the_stored_name() {
    assert_eq!(
        csv(&Workbench::new(), &["SELECT userid, LABEL AS Kind FROM 'events.parquet' ORDER BY USERID DESC LIMIT 1"]),
        "UserId,Kind\n9,view\n"
    );
}

#[test]
fn missing_files_tables_and_columns_are_named() {
    let bench = Workbench::new();
    assert_prints!(bench.tell(&["SELECT * FROM 'absent/*.parquet'"]), @r##"
    exit 1
    -- stderr
    error: absent/*.parquet: no file matches
    "##);
    assert_prints!(bench.tell(&["SELECT * FROM 'absent.parquet'"]), @r##"
    exit 1
    -- stderr
    error: absent.parquet: no such file or directory
    "##);
    assert_prints!(bench.tell(&["SELECT lable FROM 'events.parquet'"]), @r##"
    exit 1
    -- stderr
    error: no column named lable

    hint: did you mean label? the columns are UserId, label, score, price
    "##);
    assert_prints!(bench.tell(&["SELECT 1 FROM user", "--table", "users=users.csv,delimiter=;"]), @r##"
    exit 1
    -- stderr
    error: no table named user

    hint: did you mean users?
    "##);
    assert_prints!(bench.tell(&["SELECT 1 FROM events"]), @r##"
    exit 1
    -- stderr
    error: no table named events

    hint: put a path in quotes, as in FROM 'events/*.parquet', or register it with --table NAME=PATH
    "##);
    assert_prints!(bench.tell(&["SELECT 1 FROM trips.parquet"]), @r##"
    exit 1
    -- stderr
    error: no table named trips.parquet

    hint: put a path in single quotes: FROM 'trips.parquet'
    "##);
    assert_prints!(bench.tell(&["SELECT 1 FROM data/trips.parquet"]), @r##"
    exit 1
    -- stderr
    error: SQL: line 1, column 19: expected the end of the query, found /

    hint: put a path in single quotes: FROM 'events/*.parquet'
    "##);
    assert_prints!(bench.tell(&["SELECT summ(1)"]), @r##"
    exit 1
    -- stderr
    error: Invalid function 'summ'

    hint: did you mean 'sum'?
    "##);
    assert_prints!(bench.tell(&["SELECT label FORM 'events.parquet'"]), @r##"
    exit 1
    -- stderr
    error: SQL: line 1, column 19: expected the end of the query, found 'events.parquet'

    hint: did you mean FROM?
    "##);
}

#[test]
fn a_damaged_file_is_named() {
    let bench = Workbench::new();
    bench.text("broken.parquet", "PAR1 this is not the whole file");
    assert_prints!(bench.tell(&["SELECT * FROM 'broken.parquet'"]), @r##"
    exit 1
    -- stderr
    error: broken.parquet: cannot be read
      cause: Invalid Parquet file. Corrupt footer
    "##);
}
