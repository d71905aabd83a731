//! Secrets in URLs and in options of SQL show nowhere: whichever command is given them in whichever place, neither in what it
//! prints nor in what it writes.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tfr_tests::{S3Server, Scratch, WebServer, WebServerOptions, run, shard_files, tfr_sql, without_stores};

/// What stands for a user, a password, a signature or a key.
const MARKER: &str = "hush";

/// Forms of `schema --as`.
const FORMS: [&str; 6] = ["arrow", "ddl", "pbtxt", "features.json", "python", "json"];

/// URLs with secrets in every place that a URL has for them. None leads to a request over the network.
fn urls() -> Vec<String> {
    let mut urls = Vec::new();
    for scheme in ["s3", "gs", "az", "abfss"] {
        urls.extend([
            format!("{scheme}://hush-user:hush-pw@data/dir/x.csv"),
            format!("{scheme}://data/dir/x.csv?X-Amz-Signature=hush&sig=hu/hush"),
        ]);
    }
    urls.extend([
        // Keys of AWS have slashes.
        "s3://AKIA:hush/hush@data/dir/".to_owned(),
        // In the test's own bucket.
        "s3://hush@data/none.csv".to_owned(),
        "abfss://files@account.dfs.core.windows.net/dir/?sv=2024-01-01&sig=hush".to_owned(),
        "https://hush-user:hush-pw@data.invalid/x.csv?sig=hush".to_owned(),
        "https://hush-user:hush-pw@data.invalid:99999/x.csv".to_owned(),
        "https://data.invalid:99999/x.csv?sig=hush#hush".to_owned(),
        "hdfs://hush@node:8020/dir/x.csv".to_owned(),
        "hdfs://hush-user:hush-pw@node:8020/dir/x.csv".to_owned(),
        "hdfs://node:8020/dir/?delegation=hush".to_owned(),
        "file:///none/x.csv?sig=hush".to_owned(),
        // A slash or the scheme is missing.
        "https:/hush-user:hush-pw@data.invalid/x.csv".to_owned(),
        "http:hush-user:hush-pw@data.invalid/x.csv".to_owned(),
        "//hush-user:hush-pw@data.invalid/x.csv".to_owned(),
        "s3:/AKIA:hush/hush@data/x.csv".to_owned(),
    ]);
    urls
}

/// Arguments of every command, with `url` in every place that takes one.
fn command_lines(url: &str, scratch: &Scratch, ok: &Path) -> Vec<Vec<String>> {
    let ok = ok.display().to_string();
    let query = |query: &str| query.replace("URL", url);
    let select = query("SELECT * FROM 'URL'");
    let new = || scratch.join(format!("new-{}", COUNT.fetch_add(1, Ordering::Relaxed))).display().to_string();
    let files = [("sql", &select), ("toml", &query("[columns]\nurl = \"URL\"\n"))];
    let [sql, toml] = files.map(|(kind, text)| {
        // Its name begins as those of what is not looked into.
        let name = format!("{INPUT}{}.{kind}", COUNT.fetch_add(1, Ordering::Relaxed));
        scratch.text(&name, text).display().to_string()
    });
    let mut lines = vec![
        vec![select.clone()],
        vec![select.clone(), "--dry-run".to_owned()],
        vec![select.clone(), "--out".to_owned(), new(), "--emit=tfmd,parse-fn,stats".to_owned()],
        vec![select.clone(), "--out".to_owned(), format!("{}.csv", new()), "--report=json".to_owned()],
        vec![select.clone(), "stray".to_owned()],
        vec!["-f".to_owned(), sql],
        vec![select.clone(), "--map-file".to_owned(), toml],
        vec![query("EXPLAIN SELECT * FROM 'URL'")],
        vec![query("SELEC * FROM 'URL'")],
        vec![query("SELECT * FROM 'URL' WHERE nothing 'URL'")],
        vec![query("SELECT path FROM files('URL')")],
        vec![query("COPY (SELECT 1) TO 'URL'")],
        vec![query("DROP TABLE \"URL\"; SELECT 1")],
        vec![query("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'URL'; SELECT * FROM t")],
        vec![query("CREATE EXTERNAL TABLE t STORED AS NONE LOCATION 'URL'; SELECT * FROM t")],
        vec!["SELECT * FROM t".to_owned(), query("--table=t=URL")],
        vec!["SELECT * FROM t".to_owned(), query("--table=t=URL,path=URL,format=csv")],
        vec!["SELECT * FROM t".to_owned(), query("--table=t=URL,key")],
        vec!["SELECT * FROM t".to_owned(), query("--table=t=URL,nothing=URL")],
        vec!["SELECT * FROM t".to_owned(), format!("--table=t={ok},schema={url}")],
        vec!["SELECT * FROM 's3://data/none'".to_owned(), query("--s3-endpoint=URL")],
        vec!["salvage".to_owned(), url.to_owned(), "--out".to_owned(), new()],
        vec!["reshard".to_owned(), url.to_owned(), "--out".to_owned(), new(), "--report=json".to_owned()],
        vec!["verify".to_owned(), url.to_owned(), "--report=json".to_owned()],
        vec!["verify".to_owned(), url.to_owned(), "--remove-leftovers".to_owned()],
        vec!["schema".to_owned(), ok.clone(), query("--option=schema=URL")],
        vec!["schema".to_owned(), ok.clone(), query("--option=nothing=URL")],
        vec!["schema".to_owned(), url.to_owned(), url.to_owned()],
    ];
    lines.extend(["head", "cat", "index", "describe", "stats"].map(|tool| vec![tool.to_owned(), url.to_owned()]));
    lines.extend(FORMS.map(|form| vec!["schema".to_owned(), url.to_owned(), "--as".to_owned(), form.to_owned()]));
    // What is a file URL is a path there, and a path has no secrets.
    if !url.starts_with("file:") {
        lines.extend([
            vec!["SELECT 1 AS one".to_owned(), "--out".to_owned(), url.to_owned()],
            vec!["SELECT 1 AS one".to_owned(), "--dry-run".to_owned(), "--out".to_owned(), url.to_owned()],
            vec!["SELECT 1 AS one".to_owned(), "--out".to_owned(), format!("{url}.parquet")],
            vec!["SELECT 1 AS one".to_owned(), "--out".to_owned(), format!("{url}/x.csv/")],
            vec!["reshard".to_owned(), ok.clone(), "--out".to_owned(), url.to_owned()],
            vec!["salvage".to_owned(), ok.clone(), "--out".to_owned(), url.to_owned()],
            vec!["describe".to_owned(), ok.clone(), "--out".to_owned(), url.to_owned()],
            vec!["stats".to_owned(), ok, "--html".to_owned(), url.to_owned()],
        ]);
    }
    lines
}

static COUNT: AtomicUsize = AtomicUsize::new(0);

/// How the names of files with secrets of the test's own begin.
const INPUT: &str = "input-";

/// Everything that was written, with its names.
fn written(scratch: &Scratch) -> String {
    let mut all = String::new();
    for name in scratch.listing().into_iter().filter(|name| !name.starts_with(INPUT)) {
        let content = fs::read(scratch.join(&name)).unwrap_or_default();
        all.push_str(&format!("{name}\n{}\n", String::from_utf8_lossy(&content)));
    }
    all
}

/// Runs the command with all that it logs, and finds no secret in what it prints.
#[track_caller]
fn said(mut command: Command) -> String {
    let said = run(command.arg("-vv"));
    let said = format!("{}{}", said.stdout, said.stderr);
    assert!(!said.contains(MARKER), "{command:?}:\n{said}");
    said
}

fn shards(scratch: &Scratch) -> std::path::PathBuf {
    let out = scratch.join("shards");
    run(tfr_sql().args(["SELECT value AS n FROM generate_series(1, 3)", "--shards", "1", "--out"]).arg(&out)).success();
    out
}

#[test]
fn secrets_of_urls_are_in_no_message() {
    let (server, scratch) = (S3Server::default(), Scratch::default());
    let ok = shards(&scratch);
    let lines: Vec<_> = urls().iter().flat_map(|url| command_lines(url, &scratch, &ok)).collect();
    thread::scope(|scope| {
        for chunk in lines.chunks(lines.len().div_ceil(4)) {
            let server = &server;
            scope.spawn(move || {
                for line in chunk {
                    let mut command = server.tfr_sql();
                    // Where nobody is asked for credentials.
                    command.env("GOOGLE_SKIP_SIGNATURE", "true").env("AZURE_SKIP_SIGNATURE", "true").args(line);
                    let said = said(command);
                    assert!(!said.contains("internal error"), "{line:?}\n{said}");
                }
            });
        }
    });
    let written = written(&scratch);
    assert!(!written.contains(MARKER), "{written}");
}

/// With a server that answers, so that outputs are written.
#[test]
fn secrets_of_urls_are_in_no_output() {
    let scratch = Scratch::default();
    let shard = fs::read(shard_files(&shards(&scratch)).pop().unwrap()).unwrap();
    let options = WebServerOptions { head: true, ranges: true };
    let server = WebServer::new(
        options,
        [
            ("/c.csv", b"x\n1\n".to_vec()),
            ("/r.tfrecord", shard),
            ("/schema.pbtxt", b"feature { name: \"n\" type: INT }".to_vec()),
        ],
    );
    let host = server.authority();
    for secret in ["user", "query"] {
        let url = |file: &str| match secret {
            "user" => format!("http://hush-user:hush-pw@{host}/{file}"),
            _ => format!("http://{host}/{file}?sv=1&X-Amz-Signature=hush"),
        };
        let (csv, records, schema) = (url("c.csv"), url("r.tfrecord"), url("schema.pbtxt"));
        let out = |name: &str| scratch.join(format!("{secret}-{name}")).display().to_string();
        let create = format!("CREATE EXTERNAL TABLE d STORED AS CSV LOCATION '{csv}'");
        let query = format!(
            "SET datafusion.execution.batch_size = 100; {create};
             SELECT a.x, f.size FROM '{csv}' AS a JOIN t ON a.x = t.x JOIN d ON a.x = d.x CROSS JOIN files('{csv}') AS f"
        );
        for out in [out("set"), out("table.parquet")] {
            let mut command = without_stores(tfr_sql());
            command.args([&query, "--table", &format!("t={csv}"), "--report=json", "--out", &out]);
            if !out.ends_with("parquet") {
                command.args(["--emit=tfds,tfmd,parse-fn,stats,index", "--shards=1"]);
            }
            said(command);
            assert!(Path::new(&out).exists(), "{out}");
        }
        let manifest = fs::read_to_string(Path::new(&out("set")).join("_manifest.json")).unwrap();
        assert!(manifest.contains("c.csv") && manifest.contains("***"), "{manifest}");
        let tool = |arguments: &[&str]| {
            let mut command = without_stores(tfr_sql());
            command.args(arguments);
            said(command)
        };
        let with_schema = format!("t={records},format=tfrecord,schema={schema}");
        assert!(tool(&["SELECT * FROM t", "--table", &with_schema, "--out", &out("schema")]).contains("3 rows in"));
        for arguments in [&["head"][..], &["cat", "--as", "textproto"], &["cat", "--as", "hex"], &["verify"]] {
            tool(&[arguments, &[&records]].concat());
        }
        for job in ["reshard", "salvage"] {
            let said = tool(&[job, &records, "--out", &out(job), "--report=json"]);
            assert!(said.contains("3 record") || said.contains("3 row"), "{said}");
        }
        for form in FORMS {
            let said = tool(&["schema", &records, "--as", form]);
            if matches!(form, "ddl" | "python") {
                assert!(said.contains("*** replaces the user, the password or the query"), "{said}");
                assert!(said.contains("r.tfrecord") && said.contains("***"), "{said}");
            }
        }
    }
    let written = written(&scratch);
    assert!(!written.contains(MARKER), "{written}");
}

#[test]
fn secrets_of_options_are_in_no_message() {
    let scratch = Scratch::default();
    let csv = scratch.text("a.csv", "x\n1\n").display().to_string();
    for query in [
        "SET x.secret = 'hush'; SELECT 1",
        "SET datafusion.execution.token = 'hush'; SELECT 1",
        "SET aws.secret_access_key TO hush SELECT 1",
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'a.csv' OPTIONS ('aws.secret_access_key' 'hush'); SELECT * FROM t",
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'a.csv' OPTIONS (aws.secret_access_key hush'); SELECT * FROM t",
        "CREATE EXTERNAL TABLE t STORED AS CSV OPTIONS (token 'hush' 'hush') LOCATION 'a.csv'; SELECT * FROM t",
        "CREATE EXTERNAL TABLE t (x INT) STORED AS TEXTFILE LOCATION 'a.csv' TBLPROPERTIES ('fs.azure.account.key'='hush'); SELECT x y z FROM t",
        "COPY (SELECT 1) TO 's3://b/x' OPTIONS (sas 'hush')",
        "COPY (SELECT 1) TO 's3://b/x' OPTIONS (sas 'hush'); SELECT 1",
        "CREATE TABLE t (x INT) WITH (password = 'hush'); SELECT 1",
    ] {
        let query = query.replace("'a.csv'", &format!("'{csv}'"));
        let file = scratch.text("q.sql", &query);
        let out = scratch.join("out");
        let mut command = tfr_sql();
        command.arg("-f").arg(file).arg("--out").arg(&out).args(["--mode", "overwrite"]);
        said(command);
        let mut command = tfr_sql();
        command.args([&query, "stray"]);
        said(command);
        let mut command = tfr_sql();
        command.arg(&query);
        said(command);
        let manifest = fs::read_to_string(out.join("_manifest.json")).unwrap_or_default();
        assert!(!manifest.contains(MARKER), "{manifest}");
    }
    for arguments in
        [["SELECT 1", &format!("--table=t={csv},aws_secret_access_key=hush")], ["schema", "--option=token=hush"]]
    {
        let mut command = tfr_sql();
        command.args(arguments).arg(&csv);
        said(command);
    }
}
