//! Rows on standard output.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use crate::workbench::{Workbench, assert_prints};

const QUERY: &str = "SELECT * FROM 'events.parquet'";

#[test]
fn every_format_shows_the_rows() {
    let bench = Workbench::new();
    assert_prints!(bench.tell(&[QUERY, "--format", "table"]), @r##"
    exit 0
    -- stdout
    +--------+-------+-------+-------+
    | UserId | label | score | price |
    +--------+-------+-------+-------+
    | 7      | click | 0.5   | 10.50 |
    | 8      | view  | 0.25  |       |
    | 7      |       | 0.1   | 0.99  |
    | 9      | view  | 1.0   | -0.01 |
    +--------+-------+-------+-------+
    "##);
    assert_prints!(bench.tell(&[QUERY, "--format", "csv"]), @r##"
    exit 0
    -- stdout
    UserId,label,score,price
    7,click,0.5,10.50
    8,view,0.25,
    7,,0.1,0.99
    9,view,1.0,-0.01
    "##);
    assert_prints!(bench.tell(&[QUERY, "--format", "json"]), @r##"
    exit 0
    -- stdout
    [{"UserId":7,"label":"click","score":0.5,"price":10.50},
     {"UserId":8,"label":"view","score":0.25,"price":null},
     {"UserId":7,"label":null,"score":0.1,"price":0.99},
     {"UserId":9,"label":"view","score":1.0,"price":-0.01}]
    "##);
    assert_prints!(bench.tell(&[QUERY, "--format", "jsonl"]), @r##"
    exit 0
    -- stdout
    {"UserId":7,"label":"click","score":0.5,"price":10.50}
    {"UserId":8,"label":"view","score":0.25,"price":null}
    {"UserId":7,"label":null,"score":0.1,"price":0.99}
    {"UserId":9,"label":"view","score":1.0,"price":-0.01}
    "##);
    assert_prints!(bench.tell(&[QUERY, "--format", "markdown"]), @r##"
    exit 0
    -- stdout
    | UserId | label | score | price |
    |---:|---|---:|---:|
    | 7 | click | 0.5 | 10.50 |
    | 8 | view | 0.25 |  |
    | 7 |  | 0.1 | 0.99 |
    | 9 | view | 1.0 | -0.01 |
    "##);
}

#[test]
fn a_table_is_described() {
    assert_prints!(Workbench::new().tell(&["DESCRIBE 'users.csv'"]), @r##"
    exit 0
    -- stdout
    column_name,data_type,is_nullable
    id;name,Utf8,YES
    "##);
}

#[test]
fn a_pipe_gets_csv() {
    assert_prints!(Workbench::new().tell(&["SELECT 1 AS one"]), @r##"
    exit 0
    -- stdout
    one
    1
    "##);
}

#[test]
fn empty_result_is_reported() {
    let query = "SELECT label FROM 'events.parquet' WHERE \"UserId\" > 100";
    assert_prints!(Workbench::new().tell(&[query]), @r##"
    exit 0
    -- stdout
    label
    -- stderr
    the query yields no rows
    "##);
    assert_prints!(Workbench::new().tell(&[query, "--quiet"]), @r##"
    exit 0
    -- stdout
    label
    "##);
}

#[test]
fn print_exits_with_1_if_the_query_fails() {
    assert_prints!(Workbench::new().tell(&["SELECT 1 / (\"UserId\" - 7) FROM 'events.parquet'"]), @r##"
    exit 1
    -- stderr
    error: division by zero
    "##);
}

#[test]
fn print_treats_a_closed_pipe_as_success() {
    // More rows than any pipe holds.
    let query = "SELECT value FROM generate_series(1, 1000000000)";
    let bench = Workbench::new();
    let mut child = bench.command(&[query]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "value\n");
    drop(stdout);
    let mut talk = String::new();
    child.stderr.take().unwrap().read_to_string(&mut talk).unwrap();
    assert_eq!(talk, "");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn colour_is_for_terminals_or_on_demand() {
    let bench = Workbench::new();
    let talk = |arguments: &[&str]| String::from_utf8(bench.run(arguments).stderr).unwrap();
    assert!(!talk(&["SELECT x"]).contains('\u{1b}'));
    assert!(talk(&["SELECT x", "--color", "always"]).contains("\u{1b}[1m\u{1b}[31merror"));
    let quiet = bench.command(&["SELECT x", "--color", "auto"]).env("NO_COLOR", "1").output().unwrap();
    assert!(!String::from_utf8(quiet.stderr).unwrap().contains('\u{1b}'));
}

#[test]
fn verbose_option_prints_settings_and_plan() {
    let output = Workbench::new().run(&["SELECT 1 AS one", "-v", "--memory-limit", "1GiB"]);
    let talk = String::from_utf8(output.stderr).unwrap();
    assert!(talk.contains("2 threads, 1.0 GiB of memory"), "{talk}");
    assert!(talk.contains("PlaceholderRowExec") || talk.contains("ProjectionExec"), "{talk}");
    assert_eq!(output.stdout, b"one\n1\n");
}
