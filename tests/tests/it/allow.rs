//! `--allow` and web servers: hosts, paths and redirects.

use std::fs;

use tfr_tests::{S3Server, Scratch, WebServer, WebServerOptions, run, tfr_sql, without_stores};

const SECRET: &str = "topsecret";

fn csv(word: &str) -> Vec<u8> {
    format!("word\n{word}\n").into_bytes()
}

#[test]
fn allow_checks_hosts_paths_and_redirects() {
    let scratch = Scratch::default();
    fs::create_dir(scratch.join("tmp")).unwrap();
    fs::write(scratch.join("s.csv"), csv(SECRET)).unwrap();
    let options = WebServerOptions { head: true, ranges: true };
    let other = WebServer::new(options, [("/pub/s.csv", csv(SECRET)), ("/s.csv", csv(SECRET))]);
    let files = [("/pub/a.csv", csv("open")), ("/pub/b.csv", csv("open")), ("/private/s.csv", csv(SECRET))];
    let server = WebServer::new(options, files);
    let (host, elsewhere) = (server.authority(), other.authority());
    let targets = [
        ("/pub/to_other", format!("http://{elsewhere}/pub/s.csv")),
        ("/pub/to_root_of_other", format!("http://{elsewhere}/s.csv")),
        ("/pub/to_private", "/private/s.csv".to_owned()),
        ("/pub/to_parent", "../private/s.csv".to_owned()),
        ("/pub/to_encoded_parent", "/pub/%2e%2e/private/s.csv".to_owned()),
        ("/pub/to_encoded_slash", "/pub/..%2Fprivate/s.csv".to_owned()),
        ("/pub/to_relative_scheme", format!("//{elsewhere}/pub/s.csv")),
        ("/pub/to_user", format!("http://{host}@{elsewhere}/pub/s.csv")),
        ("/pub/to_file", format!("file://{}", scratch.join("s.csv").display())),
        ("/pub/to_metadata", "http://169.254.169.254/latest/".to_owned()),
        ("/pub/chain", "/pub/chain2".to_owned()),
        ("/pub/chain2", format!("http://{elsewhere}/pub/s.csv")),
        ("/pub/loop", "/pub/loop".to_owned()),
    ];
    for (path, location) in &targets {
        server.redirect(path, location);
    }
    server.redirect("/pub/within", "/pub/b.csv");
    let temp = scratch.join("tmp");
    let ask = |query: &str| {
        let mut command = without_stores(tfr_sql());
        command.arg(query).arg("--temp-dir").arg(&temp).arg("--allow").arg(&temp);
        run(command.args(["--allow", &format!("http://{host}/pub/"), "--format", "csv"]))
    };
    for inside in ["a.csv", "within", "a.csv?v=1"] {
        let query = format!("SELECT word FROM 'http://{host}/pub/{inside}'");
        assert_eq!(ask(&query).success().stdout, "word\nopen\n", "{inside}");
    }
    let mut urls: Vec<_> = targets.iter().map(|(path, _)| format!("http://{host}{path}")).collect();
    urls.extend([
        format!("http://{host}/private/s.csv"),
        format!("http://{host}/pub/../private/s.csv"),
        format!("http://{host}/pub/%2e%2e/private/s.csv"),
        format!("http://{host}/"),
        format!("http://{host}/public/a.csv"),
        format!("http://{elsewhere}/pub/s.csv"),
        format!("http://{host}@{elsewhere}/pub/s.csv"),
        format!("https://{host}/pub/a.csv"),
        format!("http://localhost:{}/pub/a.csv", host.rsplit_once(':').unwrap().1),
    ]);
    for url in urls {
        for query in [format!("SELECT * FROM '{url}'"), format!("SELECT content FROM files('{url}')")] {
            let refused = ask(&query).exits_with(1);
            assert!(!refused.stdout.contains(SECRET) && !refused.stderr.contains(SECRET), "{query}");
        }
    }
    assert!(other.requests().is_empty(), "{:?}", other.requests());
    let outside = |line: &str| !line.contains(" /pub/");
    assert!(server.requests().iter().all(|(line, _)| !outside(line)), "{:?}", server.requests());
}

#[test]
fn allow_checks_keys_of_buckets() {
    let (server, scratch) = (S3Server::default(), Scratch::default());
    server.put("in/a.csv", "word\nopen\n");
    server.put("in2/s.csv", "word\ntopsecret\n");
    server.put("s.csv", "word\ntopsecret\n");
    let temp = scratch.join("tmp");
    fs::create_dir(&temp).unwrap();
    let ask = |arguments: &[&str]| {
        let mut command = server.tfr_sql();
        command.args(arguments).arg("--temp-dir").arg(&temp).arg("--allow").arg(&temp);
        run(command.args(["--allow", &server.url("in/")]))
    };
    let query = |key: &str| format!("SELECT word FROM '{}'", server.url(key));
    for key in ["in/a.csv", "in/", "in/*.csv"] {
        assert_eq!(ask(&[&query(key)]).success().stdout, "word\nopen\n", "{key}");
    }
    for key in ["s.csv", "in2/s.csv", "in2/", "*.csv", "in*/s.csv", "**/s.csv", "in/../s.csv", ""] {
        let refused = ask(&[&query(key)]).exits_with(1);
        assert!(!refused.stdout.contains(SECRET), "{key}");
    }
    let keys = server.keys();
    for out in ["out/", "in2/out/", "out.parquet"] {
        ask(&["SELECT 1 AS x", "--out", &server.url(out)]).exits_with(1);
    }
    assert_eq!(server.keys(), keys);
    ask(&["SELECT 1 AS x", "--out", &server.url("in/out/")]).success();
}
