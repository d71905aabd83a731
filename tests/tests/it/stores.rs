//! Tables in object stores and on the web: what is read, what is tried again, what failures say, what never shows.

use std::fs::File;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use tfr_tests::{
    Fault, Operation, Run, S3Server, SECRET_KEY, Scratch, WebServer, WebServerOptions, run, shard_files, tfr_sql,
    without_stores,
};

/// What the command prints for a query.
#[track_caller]
fn rows(command: &mut Command, query: &str) -> String {
    run(command.arg(query).args(["--format", "csv"])).success().stdout
}

/// What the command says of a query that fails.
#[track_caller]
fn refused(command: &mut Command, query: &str) -> String {
    run(command.arg(query)).exits_with(1).stderr
}

fn table(first: i64, rows: i64) -> RecordBatch {
    let schema = Schema::new(vec![Field::new("n", DataType::Int64, false), Field::new("s", DataType::Utf8, false)]);
    let numbers: Vec<i64> = (first..first + rows).collect();
    let texts: Vec<String> = numbers.iter().map(|n| format!("text {n}")).collect();
    RecordBatch::try_new(
        Arc::new(schema),
        vec![Arc::new(Int64Array::from(numbers)), Arc::new(StringArray::from(texts))],
    )
    .unwrap()
}

/// Objects `prefix` + `000.parquet` and so on, of `rows` rows each.
fn put_parquet(server: &S3Server, scratch: &Scratch, prefix: &str, files: i64, rows: i64) {
    for file in 0..files {
        let path = scratch.parquet(&format!("{file}.parquet"), &table(file * rows, rows), 1000);
        server.put(&format!("{prefix}{file:03}.parquet"), std::fs::read(path).unwrap());
    }
}

#[test]
fn files_directories_and_patterns_are_read_from_a_bucket() {
    let (server, scratch) = (S3Server::default(), Scratch::default());
    put_parquet(&server, &scratch, "events/", 3, 5);
    server.put("events/_SUCCESS", "");
    server.put("csv/a.csv", "x,y\n1,a\n2,b\n");
    server.put("csv/b.csv", "x,y\n3,c\n");
    server.put("hive/dt=2026-01-01/country=fr%2Fx/000000_0", "v\n1\n");
    server.put("hive/dt=2026-01-02/country=__HIVE_DEFAULT_PARTITION__/000000_0", "v\n2\n");
    server.put("odd/a b#1+=é%20.csv", "x\n7\n");
    let shards = scratch.join("shards");
    let write = format!("SELECT * FROM '{}'", server.url("events/"));
    run(server.tfr_sql().arg(write).arg("--out").arg(&shards).args(["--shards", "2"])).success();
    server.put_directory("shards/", &shards);

    for (query, expected) in [
        ("SELECT count(*), sum(n) FROM 's3://data/events/'", "15,105"),
        ("SELECT count(*), sum(n) FROM 's3://data/events'", "15,105"),
        ("SELECT count(*), sum(n) FROM 's3://data/events/00[12].parquet'", "10,95"),
        ("SELECT count(*), sum(n) FROM 's3://data/**/000.parquet'", "5,10"),
        ("SELECT s, n FROM 's3://data/events/001.parquet' WHERE n = 7", "text 7,7"),
        ("SELECT count(*), sum(n) FROM 's3://data/shards/'", "15,105"),
        ("SELECT sum(x), max(y) FROM 's3://data/csv/*.csv'", "6,c"),
        ("SELECT dt, country, v FROM 's3://data/hive/' WHERE dt = '2026-01-01'", "2026-01-01,fr/x,1"),
        ("SELECT count(*), count(country) FROM 's3://data/hive/dt=2026-01-0?/'", "2,1"),
        ("SELECT x FROM 's3://data/odd/a b#1+=é%20.csv'", "7"),
        ("SELECT x FROM 's3a://data/odd/'", "7"),
    ] {
        let found = rows(&mut server.tfr_sql(), query);
        assert_eq!(found.lines().nth(1), Some(expected), "{query}");
    }
    let endpoint = server.endpoint();
    let mut command = server.tfr_sql();
    command.env("AWS_ENDPOINT_URL", "http://127.0.0.1:1").args(["--table", "t=s3://data/csv/,format=csv"]);
    let found = rows(command.args(["--s3-endpoint", &endpoint]), "SELECT count(*) FROM t");
    assert_eq!(found.lines().nth(1), Some("3"));
}

#[test]
fn public_buckets_need_no_credentials() {
    let server = S3Server::public();
    server.put("t/dt=1/a.csv", "x\n1\n");
    server.put("t/dt=2/b.csv", "x\n2\n");
    let endpoint = server.endpoint();
    // Google Cloud Storage speaks the same protocol to who asks for no more than this.
    for (scheme, variables) in [
        ("s3", [("AWS_SKIP_SIGNATURE", "true"), ("AWS_ENDPOINT_URL_S3", &endpoint)]),
        ("gs", [("GOOGLE_SKIP_SIGNATURE", "true"), ("STORAGE_EMULATOR_HOST", &endpoint)]),
        ("gcs", [("GOOGLE_SKIP_SIGNATURE", "true"), ("GOOGLE_BASE_URL", &endpoint)]),
    ] {
        let query = format!("SELECT sum(x), sum(dt) FROM '{scheme}://data/t/'");
        let found = rows(without_stores(tfr_sql()).envs(variables), &query);
        assert_eq!(found.lines().nth(1), Some("3,3"), "{scheme}");
        if scheme == "gcs" {
            continue;
        }
        let (query, out) = ("SELECT value FROM generate_series(1, 100)", format!("{scheme}://data/{scheme}/"));
        run(without_stores(tfr_sql()).envs(variables).args([query, "--out", &out, "--shards", "2"])).success();
        let found = rows(without_stores(tfr_sql()).envs(variables), &format!("SELECT sum(value) FROM '{out}'"));
        assert_eq!(found.lines().nth(1), Some("5050"), "{scheme}");
    }
}

#[test]
fn store_listing_reads_every_page() {
    let server = S3Server::default();
    for file in 0..1500 {
        server.put(&format!("many/{file}.csv"), format!("x\n{file}\n"));
    }
    let found = rows(&mut server.tfr_sql(), "SELECT count(*), sum(x) FROM 's3://data/many/'");
    assert_eq!(found.lines().nth(1), Some("1500,1124250"));
    assert!(server.count(Operation::List) >= 2, "{}", server.count(Operation::List));
}

#[test]
fn a_big_file_is_fetched_in_parts() {
    let server = S3Server::default();
    let text: String = (0..2_000_000).map(|row| format!("{row},{}\n", row % 7)).collect();
    assert!(text.len() > 16 << 20);
    server.put("big.csv", format!("x,y\n{text}"));
    let found = rows(&mut server.tfr_sql(), "SELECT count(*), sum(x) FROM 's3://data/big.csv'");
    assert_eq!(found.lines().nth(1), Some("2000000,1999999000000"));
    let parts = server.requests().into_iter().filter(|asked| asked.operation == Operation::Get).count();
    assert!(parts > 3, "{parts}");
}

#[test]
fn directories_of_a_bucket_are_one_listing() {
    let server = S3Server::default();
    for day in 0..60 {
        server.put(&format!("t/day={day}/part/0.csv"), "x\n1\n");
        server.put(&format!("t/day={day}/_temporary/0.csv"), "y\n1\n");
    }
    server.put("t/.hidden/a/b.csv", "y\n1\n");
    for (pattern, expected) in [("t/", "60,1770"), ("t/**/part/*.csv", "60,1770"), ("t/**/0.csv", "60,1770")] {
        let before = server.count(Operation::List);
        let query = format!("SELECT count(*), sum(day) FROM '{}'", server.url(pattern));
        let found = run(server.tfr_sql().args([&query, "--format", "csv"])).success().stdout;
        assert_eq!(found.lines().nth(1), Some(expected), "{pattern}");
        // The other one is of the directory above, which may be that of a table.
        assert_eq!(server.count(Operation::List) - before, 2, "{pattern}");
    }
    let day = "SELECT sum(day) FROM 's3://data/t/day=[12]/**/0.csv'";
    assert_eq!(rows(&mut server.tfr_sql(), day).lines().nth(1), Some("3"));
}

#[test]
fn store_reads_retry_transient_failures() {
    for fault in [Fault::slow_down(), Fault::Status(500, String::new()), Fault::Reset] {
        let (server, scratch) = (S3Server::default(), Scratch::default());
        put_parquet(&server, &scratch, "events/", 2, 5);
        for operation in [Operation::Head, Operation::List, Operation::Get] {
            server.fail(operation, 0, fault.clone());
        }
        server.fail(Operation::Get, 2, fault.clone());
        let found = run(server.tfr_sql().args(["SELECT sum(n) FROM 's3://data/events'", "-v"])).success();
        assert_eq!(found.stdout.lines().nth(1), Some("45"), "{fault:?}");
        assert!(found.stderr.contains("10 retries within 180 s"), "{}", found.stderr);
        if let Fault::Status(status, _) = fault {
            assert!(found.stderr.contains(&format!(": {status}")), "{}", found.stderr);
        }
    }
}

#[test]
fn store_errors_report_url_and_hint() {
    let server = S3Server::default();
    server.put("a.csv", "x\n1\n");
    let check = |command: &mut Command, url: &str, expected: &[&str]| {
        let said = refused(command, &format!("SELECT * FROM '{url}'"));
        for part in expected.iter().chain(&[url]) {
            assert!(said.contains(part), "{part:?} in\n{said}");
        }
    };
    check(&mut server.tfr_sql(), "s3://data/b.csv", &["no such file or directory"]);
    check(&mut server.tfr_sql(), "s3://data/none/*.csv", &["no file matches"]);
    check(
        &mut server.tfr_sql(),
        "s3://other/a.csv",
        &["there is no s3://other: 404 NoSuchBucket", "hint: check the name"],
    );
    check(&mut server.tfr_sql(), "s4://data/a.csv", &["unsupported URL scheme \"s4\"", "hint: known are"]);
    check(
        server.tfr_sql().env("AWS_SECRET_ACCESS_KEY", "wrong"),
        "s3://data/a.csv",
        &["s3://data refuses access: 403", "AWS_SECRET_ACCESS_KEY"],
    );
    check(
        server.tfr_sql().env_remove("AWS_SECRET_ACCESS_KEY"),
        "s3://data/a.csv",
        &["Missing SecretAccessKey", "hint: set AWS_ACCESS_KEY_ID"],
    );
    check(
        server.tfr_sql().env("AWS_ENDPOINT_URL", "127.0.0.1:9000"),
        "s3://data/a.csv",
        &["the endpoint is not a URL of a server", "http://host:9000"],
    );
    check(
        server.tfr_sql().env("AWS_PROFILE", "none").env("HOME", "/nowhere"),
        "s3://data/a.csv",
        &["AWS_PROFILE names the profile \"none\""],
    );
    server.fail_always(Operation::Head, Fault::Status(403, String::new()));
    check(&mut server.tfr_sql(), "s3://data/a.csv", &["s3://data/a.csv: cannot be listed", "refuses access: 403"]);
}

/// No run says or writes any of these.
#[track_caller]
fn assert_hidden(secrets: &[&str], run: &Run, more: &str) {
    for secret in secrets {
        for text in [&run.stdout, &run.stderr, more] {
            assert!(!text.contains(secret), "{secret:?} in\n{text}");
        }
    }
}

#[test]
fn store_credentials_are_never_shown() {
    const TOKEN: &str = "FwoGZXIvYXdzEXAMPLEtoken";
    let (server, scratch) = (S3Server::default(), Scratch::default());
    server.put("a.csv", "x\n1\n");
    let out = scratch.join("out");
    let command = || {
        let mut command = server.tfr_sql();
        command.args(["SELECT * FROM 's3://data/a.csv'", "-vv"]);
        command
    };
    let written = run(command().arg("--out").arg(&out)).success();
    let manifest = std::fs::read_to_string(out.join("_manifest.json")).unwrap();
    assert!(manifest.contains("s3://data/a.csv"), "{manifest}");
    assert_hidden(&[SECRET_KEY], &written, &manifest);
    assert!(written.stderr.contains("/data/a.csv: 200"), "requests are logged\n{}", written.stderr);

    server.fail_always(Operation::Head, Fault::Echo);
    server.fail_always(Operation::Get, Fault::Echo);
    let failed = run(command().env("AWS_SESSION_TOKEN", TOKEN)).exits_with(1);
    assert!(failed.stderr.contains("refuses access: 403"), "{}", failed.stderr);
    assert_hidden(&[SECRET_KEY, TOKEN, "Signature="], &failed, "");
    server.fail_always(Operation::List, Fault::Echo);
    let failed = run(command().env("AWS_SESSION_TOKEN", TOKEN).arg("--table=t=s3://data/*.csv")).exits_with(1);
    assert!(failed.stderr.contains("AccessDenied"), "{}", failed.stderr);
    assert_hidden(&[SECRET_KEY, TOKEN, "Signature="], &failed, "");
}

const ALL: WebServerOptions = WebServerOptions { head: true, ranges: true };

#[test]
fn web_file_is_read_by_url() {
    let scratch = Scratch::default();
    let parquet = std::fs::read(scratch.parquet("t.parquet", &table(0, 5000), 1000)).unwrap();
    for options in [
        ALL,
        WebServerOptions { head: false, ..ALL },
        WebServerOptions { ranges: false, ..ALL },
        WebServerOptions { head: false, ranges: false },
    ] {
        let server =
            WebServer::new(options, [("/dir/a%20b.parquet", parquet.clone()), ("/c.csv", b"x\n1\n2\n".to_vec())]);
        let root = format!("http://{}", server.authority());
        for (query, expected) in [
            (format!("SELECT count(*), sum(n) FROM '{root}/dir/a%20b.parquet'"), "5000,12497500"),
            (format!("SELECT count(*), sum(x) FROM '{root}/c.csv'"), "2,3"),
        ] {
            let found = rows(&mut without_stores(tfr_sql()), &query);
            assert_eq!(found.lines().nth(1), Some(expected), "{options:?} {query}");
        }
        let asked = server.requests();
        assert!(!asked.iter().any(|(line, _)| line.starts_with("PROPFIND")), "{asked:?}");
        let said = refused(&mut without_stores(tfr_sql()), &format!("SELECT * FROM '{root}/none/'"));
        assert!(said.contains("WebDAV"), "{said}");
        let said = refused(&mut without_stores(tfr_sql()), &format!("SELECT * FROM '{root}/none.csv'"));
        assert!(said.contains("/none.csv: no such file or directory"), "{said}");
    }
}

#[test]
fn url_credentials_are_sent_only_to_the_server() {
    let scratch = Scratch::default();
    let server = WebServer::new(ALL, [("/c.csv", b"x\n1\n".to_vec())]);
    let host = server.authority();
    let out = scratch.join("out");
    let signed = format!("http://{host}/c.csv?X-Amz-Signature=hush&sv=1");
    let named = format!("http://me:hush@{host}/c.csv");
    let query = format!("SELECT a.x FROM '{signed}' AS a JOIN t ON a.x = t.x");
    let mut command = without_stores(tfr_sql());
    command.args([&query, "-vv", "--table", &format!("t={named}"), "--out"]).arg(&out);
    let written = run(&mut command).success();
    let manifest = std::fs::read_to_string(out.join("_manifest.json")).unwrap();
    assert_hidden(&["hush"], &written, &manifest);
    assert!(manifest.contains(&format!("http://{host}/c.csv?***")), "{manifest}");
    let asked = server.requests();
    assert!(asked.iter().any(|(line, _)| line.ends_with("/c.csv?X-Amz-Signature=hush&sv=1")), "{asked:?}");
    // me:hush
    let by_name = asked.iter().filter(|(line, _)| line.ends_with("/c.csv"));
    let sent: Vec<_> = by_name.map(|(_, headers)| headers["authorization"].to_str().unwrap()).collect();
    assert!(!sent.is_empty() && sent.iter().all(|sent| *sent == "Basic bWU6aHVzaA=="), "{sent:?}");

    for query in [
        format!("EXPLAIN SELECT * FROM '{signed}', '{named}'"),
        format!("SELECT * FROM '{}', '{named}'", signed.replace("c.csv", "none.csv")),
        format!("SELECT nothing FROM '{signed}', '{named}'"),
        format!("SELEC * FROM '{signed}'"),
        // Options are refused as they were typed.
        format!("--table=t={signed},key"),
        format!("--table=t={named},key"),
    ] {
        let said = run(without_stores(tfr_sql()).args([&query, "-vv"]));
        assert_hidden(&["hush"], &said, "");
    }
}

#[test]
fn standard_input_is_a_table() {
    let scratch = Scratch::default();
    let parquet = scratch.parquet("t.parquet", &table(0, 10), 3);
    let piped = |path: &std::path::Path, arguments: &[&str]| {
        let temp = scratch.join("temp");
        std::fs::create_dir_all(&temp).unwrap();
        let mut command = tfr_sql();
        command.args(arguments).arg("--temp-dir").arg(&temp).stdin(Stdio::from(File::open(path).unwrap()));
        let run = run(&mut command);
        assert_eq!(std::fs::read_dir(&temp).unwrap().count(), 0, "nothing stays behind");
        run
    };
    let found = piped(&parquet, &["SELECT sum(a.n), count(*) FROM '-' AS a JOIN '-' AS b ON a.n = b.n"]).success();
    assert_eq!(found.stdout.lines().nth(1), Some("45,10"));
    let csv = scratch.text("t.csv", "x;y\n1;2\n");
    let found = piped(&csv, &["SELECT y FROM t", "--table", "t=-,format=csv,delimiter=;"]).success();
    assert_eq!(found.stdout, "y\n2\n");
    let declared = "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '-' OPTIONS (delimiter ';'); SELECT x FROM t";
    assert_eq!(piped(&csv, &[declared]).success().stdout, "x\n1\n");
    let ragged = scratch.text("ragged.csv", "x,y\n1\n");
    let failed = piped(&ragged, &["SELECT * FROM '-'"]).exits_with(1);
    assert!(failed.stderr.contains("standard input: line 2"), "{}", failed.stderr);
    let sql = scratch.text("q.sql", "SELECT * FROM '-'");
    let failed = piped(&sql, &["-f", "-"]).exits_with(2);
    assert!(failed.stderr.contains("standard input is both"), "{}", failed.stderr);
}

#[test]
fn an_output_is_kept_apart_from_an_input_that_is_a_file_url() {
    let scratch = Scratch::default();
    let table = scratch.parquet("in/t.parquet", &table(0, 10), 3);
    for url in [format!("file://{}", table.display()), format!("FILE://{}", scratch.join("in").display())] {
        let mut command = tfr_sql();
        command
            .arg(format!("SELECT * FROM '{url}'"))
            .arg("--out")
            .arg(scratch.join("in"))
            .args(["--mode", "overwrite"]);
        let failed = run(&mut command).exits_with(1);
        assert!(failed.stderr.contains("overlaps with input"), "{}", failed.stderr);
        assert!(table.exists());
    }
}

#[test]
fn small_files_are_read_many_at_a_time() {
    const FILES: usize = 200;
    let (server, scratch) = (S3Server::default(), Scratch::default());
    put_parquet(&server, &scratch, "parquet/", FILES as i64, 3);
    for file in 0..FILES {
        server.put(&format!("csv/{file:03}.csv"), format!("n,s\n{file},x\n"));
    }
    let shards = scratch.join("shards");
    let write = format!("SELECT * FROM '{}'", server.url("parquet/"));
    run(server.tfr_sql().arg(write).arg("--out").arg(&shards).args(["--shards", "200"])).success();
    // Without the manifest: columns are told by the records of every file.
    for file in shard_files(&shards) {
        server.put(&format!("tfrecord/{}", file.file_name().unwrap().to_str().unwrap()), std::fs::read(&file).unwrap());
    }
    server.delay(Duration::from_millis(20));
    for format in ["parquet", "csv", "tfrecord"] {
        let (before, started) = (server.received(), Instant::now());
        rows(server.tfr_sql().args(["--threads", "2"]), &format!("SELECT sum(n) FROM 's3://data/{format}/'"));
        let (asked, elapsed) = (server.requests().split_off(before), started.elapsed());
        let waiting: Vec<_> =
            asked.iter().filter(|asked| asked.operation == Operation::Get).map(|asked| asked.waiting).collect();
        let most = |waiting: &[usize]| waiting.iter().max().copied().unwrap_or_default();
        // Of the last of them each file's rows are read.
        let (columns, rows) = waiting.split_at(waiting.len().saturating_sub(FILES));
        println!("{format}: {} at once to tell columns, {} for rows, in {elapsed:.2?}", most(columns), most(rows));
        assert!((16..=64).contains(&most(columns)), "{format}: {columns:?}");
        assert!((16..=64).contains(&most(rows)), "{format}: {rows:?}");
    }
}

/// Each request in turn meets the new version of the file.
#[test]
fn a_file_that_is_replaced_on_a_web_server_is_not_read_on() {
    let scratch = Scratch::default();
    let version = |first: i64| std::fs::read(scratch.parquet("t.parquet", &table(first, 300_000), 50_000)).unwrap();
    let (old, new) = (version(0), version(300_000));
    let options = WebServerOptions { head: true, ranges: true };
    for honours in [true, false] {
        let mut refusals = 0;
        for after in 1.. {
            let server = WebServer::new(options, [("/t.parquet", old.clone())]);
            server.replace_after(after, "/t.parquet", new.clone(), honours);
            let url = format!("http://{}/t.parquet", server.authority());
            let query = format!("SELECT min(n) AS low, max(n) AS high, count(s) AS rows FROM '{url}' WHERE s > ''");
            let found = run(without_stores(tfr_sql()).arg(query).args(["--format", "csv", "--threads", "1"]));
            if server.gets() <= after {
                assert_eq!(found.success().stdout, "low,high,rows\n0,299999,300000\n");
                break;
            }
            let message = found.exits_with(1).stderr;
            let expected = format!("{url}: the file changed while it was read: ");
            assert!(message.contains(&expected) && message.contains("run it again"), "request {after}: {message}");
            refusals += 1;
        }
        assert!(refusals > 2, "{refusals}");
    }
}
