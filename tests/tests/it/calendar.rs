//! Dates and timestamps from before the Gregorian calendar: `tests/data/calendar`, with what Spark reads from its files.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use arrow::array::AsArray as _;
use arrow::datatypes::Int64Type;
use chrono::NaiveDateTime;
use tfr_tests::{Run, Scratch, repository, run, tfr_sql};

use crate::session;

fn data(name: &str) -> PathBuf {
    repository().join("tests/data/calendar").join(name)
}

/// What Spark reads: by file, the column and the row.
fn expected() -> BTreeMap<String, BTreeMap<(String, usize), i64>> {
    let mut files: BTreeMap<String, BTreeMap<(String, usize), i64>> = BTreeMap::new();
    for line in fs::read_to_string(data("expected.tsv")).unwrap().lines() {
        let [file, row, column, value] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        // Local timestamps are texts, since Spark has no number for them.
        let value = match value.contains('T') {
            true => micros_of(value),
            false => value.parse().unwrap(),
        };
        files.entry(file.to_owned()).or_default().insert((column.to_owned(), row.parse().unwrap()), value);
    }
    files
}

fn micros_of(local: &str) -> i64 {
    NaiveDateTime::parse_from_str(local, "%Y-%m-%dT%H:%M:%S%.f").unwrap().and_utc().timestamp_micros()
}

/// A query for the numbers that `expected.tsv` has of a file, under the same names.
fn sql(file: &str, table: &str) -> String {
    let timestamps = match file.starts_with("raw") {
        true => [("us", "us"), ("ms", "ms"), ("nt", "n[1]['t']['k']")],
        false => [("ts", "ts"), ("ntz", "ntz"), ("nt", "n[1]['m']['k']")],
    };
    let columns = timestamps.map(|(name, column)| {
        format!("arrow_cast(arrow_cast({column}, 'Timestamp(Microsecond, None)'), 'Int64') AS {name}")
    });
    let dates = "arrow_cast(d, 'Int32') AS d, arrow_cast(n[1]['d'], 'Int32') AS nd";
    format!("SELECT {dates}, {} FROM {table} ORDER BY id", columns.join(", "))
}

/// The values of a CSV with a header, by column and row.
fn values(csv: &str) -> BTreeMap<(String, usize), i64> {
    let mut lines = csv.lines();
    let names: Vec<_> = lines.next().unwrap().split(',').map(str::to_owned).collect();
    let cells = lines.enumerate().flat_map(|(row, line)| {
        let names = &names;
        line.split(',').enumerate().map(move |(column, cell)| ((names[column].clone(), row), cell.parse().unwrap()))
    });
    cells.collect()
}

fn read(arguments: &[&str]) -> Run {
    run(tfr_sql().args(arguments)).success()
}

/// The CSV that a query gives over a table, without a word about doubtful values.
fn without_doubts(query: &str, table: &str) -> String {
    let scratch = Scratch::default();
    let out = scratch.join("rows.csv");
    let run = read(&[query, "--table", table, "--out", &out.display().to_string()]);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    fs::read_to_string(out).unwrap()
}

#[test]
fn files_of_spark_are_read_as_spark_reads_them() {
    let files = expected();
    assert_eq!(files.len(), 25);
    for (file, mut expected) in files {
        if file.ends_with("_millis.parquet") {
            // Written in milliseconds.
            expected.retain(|(column, _), _| column != "ntz");
        }
        let found = read(&[&sql(&file, &format!("'{}'", data(&file).display())), "--threads", "2"]);
        let mut found_values = values(&found.stdout);
        found_values.retain(|key, _| expected.contains_key(key));
        assert_eq!(found_values, expected, "{file}");
        assert_eq!(found.stderr, "", "{file}");
    }
}

/// Row groups of the files have fewer rows than the table, and bounds of the other calendar.
#[tokio::test]
async fn filters_see_the_dates_that_are_read() {
    let files = expected();
    for file in ["raw_utc.parquet", "raw_america_los_angeles.parquet", "spark_asia_tokyo.orc"] {
        let mut rows_of_day: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for ((_, row), days) in files[file].iter().filter(|((column, _), _)| column == "d") {
            rows_of_day.entry(*days).or_default().push(i64::try_from(*row).unwrap());
        }
        for pushed in [false, true] {
            let mut settings = session::settings(2);
            settings.options_mut().execution.parquet.pushdown_filters = pushed;
            let context = session::open(settings);
            for (days, rows) in &rows_of_day {
                let query = format!(
                    "SELECT arrow_cast(id, 'Int64') FROM '{}' \
                     WHERE d = arrow_cast({days}, 'Date32') AND n[1]['d'] = d ORDER BY id",
                    data(file).display()
                );
                let plan = context.state().statement_to_plan(tfr_engine::parse(&query).unwrap()).await.unwrap();
                let found = context.execute_logical_plan(plan).await.unwrap().collect().await.unwrap();
                let ids = found.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
                assert_eq!(&ids.collect::<Vec<_>>(), rows, "{file}, {query}");
            }
        }
    }
}

#[test]
fn dates_of_an_unknown_calendar_are_reported_before_the_set_is_published() {
    let scratch = Scratch::default();
    let file = data("unmarked.parquet");
    let query = format!("SELECT id, d, n[1]['t']['k'] AS t, ms FROM '{}'", file.display());
    let dry = read(&[&query, "--out", &scratch.join("dry").display().to_string(), "--dry-run"]);
    assert!(dry.stderr.contains("old dates and timestamps in d, ms, n are ambiguous"), "{}", dry.stderr);

    let out = scratch.join("out");
    let written = read(&[&query, "--out", &out.display().to_string(), "--threads", "2", "--report", "json"]);
    let lines: Vec<_> = written.stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
    let of = |column: &str, rest: &str| {
        let found = lines.iter().find(|line| line.contains(&format!(": column \"{column}\": ")));
        assert!(found.is_some_and(|line| line.ends_with(rest)), "{column}: {}", written.stderr);
    };
    // Of 36 days 28 are before 1582-10-15 and 32 before 1900, each with two times.
    of("d", ": 56, the first in row 0: -0221-09-04");
    of("ms", ": 64, the first in row 0: -0221-09-04T00:00:00Z");
    of("n", ": 56, the first in row 0: -0221-09-04");
    assert!(written.stdout.contains("dates before 1582-10-15"), "{}", written.stdout);
    let published = written.stderr.find("72 rows").unwrap();
    assert!(written.stderr.find("warning: ").unwrap() < published, "{}", written.stderr);

    let strict = scratch.join("strict");
    let refused = run(tfr_sql().args([&query, "--out"]).arg(&strict).arg("--strict")).exits_with(1);
    assert!(refused.stderr.contains("is one of the "), "{}", refused.stderr);
    assert!(refused.stderr.contains("hint: declare the calendar"), "{}", refused.stderr);
    assert!(!strict.exists());

    // There is nothing to say of columns that are not read.
    let query = format!("SELECT id FROM '{}'", file.display());
    let unread = read(&[&query, "--out", &strict.display().to_string(), "--strict"]);
    assert_eq!(unread.stderr.lines().count(), 1, "{}", unread.stderr);
}

#[test]
fn calendar_option_overrides_the_default() {
    let raw = &expected()["raw_utc.parquet"];
    let table = |options: &str| format!("t={},{options}", data("unmarked.parquet").display());
    let query = sql("raw", "t");
    let hybrid = without_doubts(&query, &table("calendar=hybrid"));
    let mut found = values(&hybrid);
    found.retain(|key, _| raw.contains_key(key));
    assert_eq!(&found, raw);
    let proleptic = without_doubts("SELECT arrow_cast(d, 'Int32') FROM t LIMIT 1", &table("calendar=proleptic"));
    assert_eq!(proleptic.lines().nth(1), Some("-800000"));
}

/// Spark 2.4.6 leaves its version, but no time zone.
#[test]
fn instants_without_a_time_zone_are_reported() {
    let found = read(&[&format!("SELECT d, us FROM '{}' WHERE id < 2", data("spark2.parquet").display())]);
    assert!(found.stderr.contains("does not record its time zone"), "{}", found.stderr);
    assert!(!found.stderr.contains("column \"d\""), "{}", found.stderr);
    let zone = format!("t={},calendar=hybrid:America/Los_Angeles", data("spark2.parquet").display());
    let mut zoned = values(&without_doubts(&sql("raw", "t"), &zone));
    let expected = &expected()["raw_america_los_angeles.parquet"];
    zoned.retain(|key, _| expected.contains_key(key));
    assert_eq!(&zoned, expected);
}

/// The table of Hive's test `orc_legacy_mixed_date.q`, and what it reads there. Hive 2 wrote it.
#[test]
fn orc_without_a_calendar_matches_hive_and_spark() {
    let path = data("hive2_dates.orc").display().to_string();
    let found = read(&[&format!("SELECT * FROM '{path}'")]);
    let expected = [
        "d",
        "2012-02-21",
        "2014-02-11",
        "1947-02-11",
        "8200-02-11",
        "1012-02-21",
        "1014-02-11",
        "0947-02-11",
        "0200-02-11",
    ]; // fmt: skip
    assert_eq!(found.stdout.lines().collect::<Vec<_>>(), expected);
    assert!(found.stderr.contains(": 4, the first in row 4: 1012-02-21"), "{}", found.stderr);
    let raw = read(&["SELECT * FROM t WHERE d < '1013-01-01'", "--table", &format!("t={path},calendar=proleptic")]);
    assert_eq!(raw.stdout, "d\n1012-02-27\n0947-02-16\n0200-02-10\n");
}

#[test]
fn shards_hold_rebased_dates() {
    let scratch = Scratch::default();
    let out = scratch.join("out").display().to_string();
    let query = format!("SELECT id, d::text AS d FROM '{}' WHERE id = 0", data("spark_utc.orc").display());
    read(&[&query, "--out", &out]);
    assert_eq!(read(&[&format!("SELECT d FROM '{out}'")]).stdout, "d\n0001-01-01\n");
}

fn hive(name: &str) -> String {
    repository().join("tests/data/hive").join(name).display().to_string()
}

/// Reads a file of Hive's, of which nothing is ambiguous.
fn of_hive(query: &str, file: &str) -> Vec<String> {
    let rows = without_doubts(query, &format!("t={}", hive(file)));
    let scratch = Scratch::default();
    let shards = scratch.join("shards").display().to_string();
    let all = format!("SELECT * FROM '{}'", hive(file));
    read(&[&all, "--out", &shards, "--strict"]);
    rows.lines().skip(1).map(str::to_owned).collect()
}

/// Hive 4.0.1 in the time zone America/Los_Angeles wrote these files, and its SELECT shows these rows.
#[test]
fn files_of_hive_4_are_read_as_hive_reads_them() {
    let rows = [
        "1,0001-01-01T00:00:00,0001-01-01",
        "2,1500-02-28T23:30:00,1500-02-28",
        "3,1582-10-04T12:00:00,1582-10-04",
        "4,1582-10-15T01:00:00,1582-10-15",
        "5,1899-12-31T10:00:00,1899-12-31",
        "6,1883-11-18T12:00:00,1883-11-18",
        "7,1969-12-31T23:59:59.500,1969-12-31",
        "8,2024-07-01T12:00:00,2024-07-01",
        "9,9999-12-31T23:59:59,9999-12-31",
        "10,2500-07-01T12:00:00,2500-07-01",
        "11,1910-06-01T00:00:00.000001,1910-06-01",
    ];
    let local = "SELECT id, ts, d FROM t ORDER BY id";
    // INT96 by both ways in which Hive converts between time zones.
    assert_eq!(of_hive(local, "int96_all.parquet"), rows);
    assert_eq!(of_hive(local, "int96_legacy.parquet"), rows);
    // INT64 stands for the local time.
    let rows = of_hive("SELECT id, ts, dt FROM t WHERE id IN (3, 4, 6, 9) ORDER BY id", "int64.parquet");
    let expected = [
        "3,0001-01-01T00:00:00,0001-01-01",
        "4,1582-10-04T23:59:59.500,1582-10-04",
        "6,1500-02-28T12:00:00,1500-02-28",
        "9,2024-07-01T12:00:00,2024-07-01",
    ];
    assert_eq!(rows, expected);
}

/// The timestamps of Avro are instants: local times in Los Angeles, in UTC. Local mean time is 7:52:58 behind UTC.
#[test]
fn avro_timestamps_match_hive_4() {
    let rows = [
        "1,0001-01-01T07:52:58Z,0001-01-01",
        "2,1500-03-01T07:22:58Z,1500-02-28",
        "3,1582-10-04T19:52:58Z,1582-10-04",
        "4,1582-10-15T08:52:58Z,1582-10-15",
        "5,1899-12-31T18:00:00Z,1899-12-31",
        "6,1883-11-18T19:52:58Z,1883-11-18",
        "7,1970-01-01T07:59:59.500Z,1969-12-31",
        "8,2024-07-01T19:00:00Z,2024-07-01",
        "9,+10000-01-01T07:59:59Z,9999-12-31",
        "10,2500-07-01T19:00:00Z,2500-07-01",
        "11,1910-06-01T08:00:00Z,1910-06-01",
    ];
    let query = "SELECT id, ts, d FROM t ORDER BY id";
    assert_eq!(of_hive(query, "hybrid.avro"), rows);
    // Hive itself shows these two as 0002-01-01 00:00:00 and 1582-10-24 12:00:00. At 12:00 local mean time, standard
    // time began.
    let legacy = rows.map(|row| match row.split_once(',') {
        Some(("1", _)) => "1,0002-01-01T07:52:58Z,0001-01-01",
        Some(("3", _)) => "3,1582-10-24T19:52:58Z,1582-10-04",
        Some(("6", _)) => "6,1883-11-18T20:00:00Z,1883-11-18",
        _ => row,
    });
    assert_eq!(of_hive(query, "legacy.avro"), legacy);
    let dates = of_hive("SELECT dt FROM t WHERE id IN (3, 4, 6) ORDER BY id", "proleptic.avro");
    assert_eq!(dates, ["0001-01-01", "1582-10-04", "1500-02-28"]);
}

/// As Hive 2 wrote it: the file `hybrid.avro` without keys.
#[test]
fn avro_without_a_calendar_is_ambiguous() {
    let file = hive("unmarked.avro");
    let query = format!("SELECT id, d, ts FROM '{file}'");
    let scratch = Scratch::default();
    let dry = read(&[&query, "--out", &scratch.join("dry").display().to_string(), "--dry-run"]);
    assert!(dry.stderr.contains("old dates and timestamps in d, ts are ambiguous"), "{}", dry.stderr);
    // Read in parts, the rows have the same numbers.
    let parts = format!("SET datafusion.optimizer.repartition_file_min_size = 1; {query}");
    for query in [&query, &parts] {
        let found = read(&[query, "--threads", "2"]);
        let has = |text: &str| assert!(found.stderr.contains(text), "{text}: {}", found.stderr);
        has(
            "column \"d\": dates before 1582-10-15 whose calendar the file does not record (read as proleptic Gregorian): 3, the first in row 0: 0000-12-30",
        );
        has(
            "column \"ts\": timestamps before 1900 whose calendar the file does not record (read as proleptic Gregorian): 6, the first in row 0: ",
        );
    }
    let strict = |columns: &str| {
        let query = format!("SELECT {columns} FROM '{file}'");
        run(tfr_sql().args([&query, "--out"]).arg(scratch.join("strict")).arg("--strict"))
    };
    let refused = strict("id, d").exits_with(1);
    assert!(refused.stderr.contains("0000-12-30 is one of the dates before 1582-10-15"), "{}", refused.stderr);
    // So is a task.
    let plan = scratch.join("strict.tfrplan");
    let query = format!("SELECT id, d FROM '{file}'");
    let out = scratch.join("planned");
    run(tfr_sql().args([&query, "--strict", "--quiet", "--out"]).arg(out).arg("--plan").arg(&plan)).success();
    let refused = run(tfr_sql().arg("task").arg(&plan).args(["--index", "0"])).exits_with(1);
    assert!(refused.stderr.contains("0000-12-30 is one of the dates before 1582-10-15"), "{}", refused.stderr);
    let hybrid = without_doubts("SELECT d FROM t WHERE id < 3", &format!("t={file},calendar=hybrid"));
    assert_eq!(hybrid, "d\n0001-01-01\n1500-02-28\n");
    let unread = strict("id").success();
    assert_eq!(unread.stderr.lines().count(), 1, "{}", unread.stderr);
}

/// A column that cannot be read blocks the queries that select it.
#[test]
fn orc_union_fails_only_queries_that_select_it() {
    let path = repository().join("tests/data/orc/union.orc").display().to_string();
    let found = read(&[&format!("SELECT id FROM '{path}'")]);
    assert!(found.stdout.starts_with("id\n"));
    assert_eq!(read(&[&format!("SELECT * EXCLUDE (u) FROM '{path}'")]).stdout, found.stdout);
    let refused = run(tfr_sql().arg(format!("SELECT * FROM '{path}'"))).exits_with(1);
    assert!(refused.stderr.contains("column \"u\": a union is not supported"), "{}", refused.stderr);
    assert!(refused.stderr.contains("SELECT * EXCLUDE (u)"), "{}", refused.stderr);
}
