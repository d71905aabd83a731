//! The files that a location matches.

use std::sync::Arc;

use datafusion::error::Result;
use tempfile::TempDir;
use tfr_files::{Findings, Listing};
use tfr_stores::Location;

use crate::support::{chain, read, row_count, session, texts, write};

/// Creates a scratch directory in which each file contains its own name.
fn directory(names: &[&str]) -> std::io::Result<TempDir> {
    let dir = tempfile::tempdir()?;
    for name in names {
        write(dir.path(), &[(name, format!("name\n{name}\n").as_bytes())])?;
    }
    Ok(dir)
}

/// Returns the names read from the table at `location`, below `dir`.
async fn found(dir: &TempDir, location: &str) -> Result<Vec<String>> {
    let batches = read(&format!("\"{}\",format=csv,types=string", dir.path().join(location).display())).await?;
    let mut names: Vec<_> = texts(&batches)?.into_iter().map(|mut row| row.remove(0)).collect();
    names.sort();
    Ok(names)
}

async fn refused(dir: &TempDir, location: &str) -> String {
    let error = found(dir, location).await.expect_err(location);
    chain(&error).replace(&format!("{}/", dir.path().display()), "").replace("External error: ", "")
}

#[tokio::test]
async fn listing_skips_files_of_hadoop_tools() -> Result<()> {
    let dir = directory(&[
        "t/000000_0",
        "t/part-0.csv",
        "t/sub/deep/part-1",
        "t/_SUCCESS",
        "t/_temporary/0/part-2",
        "t/.part-0.csv.crc",
        "t/part-0.csv.crc",
        "t/.hive-staging_1/part-3",
    ])?;
    write(dir.path(), &[("t/empty", b""), ("t/_metadata", b"")])?;
    assert_eq!(found(&dir, "t").await?, ["t/000000_0", "t/part-0.csv", "t/sub/deep/part-1"]);
    assert_eq!(found(&dir, "t/").await?.len(), 3);
    Ok(())
}

/// A job that has not finished leaves its staging directory and no mark of success.
#[tokio::test]
async fn listing_reports_directories_of_unfinished_jobs() -> Result<()> {
    let dir = directory(&["t/part-0.csv", "t/_temporary/0/part-1.csv", "u/part-0.csv"])?;
    let unfinished = async |location: &str| -> Result<Vec<String>> {
        let location =
            Location::parse(dir.path().join(location).to_str().unwrap_or_default()).map_err(tfr_files::Error::from)?;
        let listing = Listing::list(&session(1).state(), &[location]).await?;
        let root = format!("{}/", dir.path().display());
        Ok(listing.unfinished().iter().map(|directory| directory.replace(&root, "")).collect())
    };
    assert_eq!(unfinished("t").await?, ["t"]);
    assert_eq!(unfinished("u").await?, [""; 0]);
    // A pattern names the files.
    assert_eq!(unfinished("t/part-*").await?, [""; 0]);
    // It is a warning, and an error where doubtful input is refused.
    assert_eq!(found(&dir, "t").await?, ["t/part-0.csv"]);
    let strict = session(1);
    let findings = Arc::new(Findings::default());
    findings.set_strict(true);
    strict.state_ref().write().config_mut().set_extension(findings);
    let query = format!("SELECT * FROM '{}/'", dir.path().join("t").display());
    let error = chain(&strict.sql(&query).await.expect_err("strict"));
    assert!(error.contains("it contains _temporary and no _SUCCESS"), "{error}");
    write(dir.path(), &[("t/_SUCCESS", b"")])?;
    assert_eq!(unfinished("t").await?, [""; 0]);
    Ok(())
}

/// The CSV reader would take the first object of a JSON file for a header.
#[tokio::test]
async fn listing_rejects_a_mix_of_text_formats() -> Result<()> {
    let dir = directory(&["t/a.csv", "t/b.csv"])?;
    write(dir.path(), &[("t/c.json", b"{\"name\": 1}\n{\"name\": 2}\n")])?;
    let error = read(&format!("\"{}\"", dir.path().join("t").display())).await.expect_err("two formats");
    let message = chain(&error);
    assert!(message.contains("t/c.json: the name says JSON, but the table is read as CSV, since "), "{message}");
    Ok(())
}

/// Files of Hive and Spark have no extensions.
#[tokio::test]
async fn listing_detects_mixed_text_formats_without_extensions() -> Result<()> {
    let json: &[u8] = b"\xef\xbb\xbf{\"a\": 1}\n";
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut gzip, json)?;
    let gzip = gzip.finish()?;
    for (first, second, expected) in [
        (&b"a\n1\n"[..], json, "t/2: the content says JSON, but the table is read as CSV, since "),
        (b"a\n1\n", &gzip, "t/2: the content says JSON, but the table is read as CSV, since "),
        (json, b"a\n1\n", "t/2: the content says CSV, but the table is read as JSON, since "),
        (b"a\n1\n", b"1\x01x\n", "t/2: the content says Hive text, but the table is read as CSV, since "),
        (b"1\x01x\n", json, "t/2: the content says JSON, but the table is read as Hive text, since "),
    ] {
        let dir = tempfile::tempdir()?;
        write(dir.path(), &[("t/1", first), ("t/2", second)])?;
        let message = chain(&read(&dir.path().join("t").display().to_string()).await.expect_err(expected));
        assert!(message.contains(expected), "{message}");
    }
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("t/1", b"1\x01x\n"), ("t/2", b"2\n"), ("t/3", b"\n")])?;
    let hive = read(&dir.path().join("t").display().to_string()).await?;
    assert_eq!(row_count(&hive), 3);
    // A specified format is accepted.
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("t/1", b"a\n1\n"), ("t/2", b"a\n{\"\n"), ("t/3", b"{\"a\": 1}\n")])?;
    let csv = read(&format!("{},format=csv,quote=none", dir.path().join("t").display())).await?;
    assert_eq!(row_count(&csv), 2);
    Ok(())
}

/// Of many files some are probed, from the first to the last.
#[tokio::test]
async fn listing_probes_the_last_of_many_files() -> Result<()> {
    let dir = tempfile::tempdir()?;
    for number in 0..100 {
        write(dir.path(), &[(&format!("t/{number:03}"), b"a\n1\n")])?;
    }
    write(dir.path(), &[("t/100", b"{\"a\": 1}\n")])?;
    let message = chain(&read(&dir.path().join("t").display().to_string()).await.expect_err("the last one"));
    assert!(message.contains("t/100: the content says JSON"), "{message}");
    Ok(())
}

/// Links are followed, but not in cycles: two that lead back would make a tree of 2^40 directories.
#[cfg(unix)]
#[tokio::test]
async fn listing_does_not_follow_links_in_cycles() -> Result<()> {
    use std::os::unix::fs::symlink;
    let dir = directory(&["t/a/1.csv", "t/b/2.csv", "elsewhere/3.csv"])?;
    for (target, link) in [("..", "t/a/up"), ("../../t", "t/b/up"), ("../elsewhere", "t/c")] {
        symlink(target, dir.path().join(link))?;
    }
    for location in ["t", "t/**", "t/**/*.csv"] {
        assert_eq!(found(&dir, location).await?, ["elsewhere/3.csv", "t/a/1.csv", "t/b/2.csv"], "{location}");
    }
    // Each leads to all others, and none upwards.
    let dir = directory(&["t/a/1.csv", "t/b/2.csv", "t/c/3.csv"])?;
    for (from, to) in ["ab", "ac", "ba", "bc", "ca", "cb"].map(|pair| pair.split_at(1)) {
        symlink(format!("../{to}"), dir.path().join(format!("t/{from}/{to}")))?;
    }
    // Five paths to each file: direct, through one other directory (two paths), and through both (two paths).
    assert_eq!(found(&dir, "t").await?.len(), 15);
    Ok(())
}

/// As git-annex and DVC leave them for files that were not fetched. Their rows would be missing without a word.
#[cfg(unix)]
#[tokio::test]
async fn listing_rejects_broken_links_that_would_be_read() -> Result<()> {
    use std::os::unix::fs::symlink;
    let dir = directory(&["t/a.csv", "t/p1/b.csv"])?;
    let links = ["t/c.csv", "t/p1/d.csv", "t/.hidden", "t/README.md", "t/e"];
    for link in links {
        symlink("../nowhere/x", dir.path().join(link))?;
    }
    for (location, link) in [
        ("t", "t/c.csv"),
        ("t/*.csv", "t/c.csv"),
        ("t/**/[cd].csv", "t/c.csv"),
        ("t/p1", "t/p1/d.csv"),
        ("t/*/d.csv", "t/c.csv"),
        ("t/p*/d.csv", "t/p1/d.csv"),
        ("t/c.csv", "t/c.csv"),
        ("t/.hid*", "t/.hidden"),
        ("t/*.md", "t/README.md"),
    ] {
        let expected = format!("{link}: the symbolic link has no target: ../nowhere/x does not exist");
        assert_eq!(refused(&dir, location).await, expected, "{location}");
    }
    for (location, expected) in
        [("t/a*", "t/a.csv"), ("t/**/b.csv", "t/p1/b.csv"), ("t/p*/b.csv", "t/p1/b.csv"), ("t/a.csv", "t/a.csv")]
    {
        assert_eq!(found(&dir, location).await?, [expected], "{location}");
    }
    for link in ["t/c.csv", "t/p1/d.csv", "t/e"] {
        std::fs::remove_file(dir.path().join(link))?;
    }
    assert_eq!(found(&dir, "t/**").await?, ["t/a.csv", "t/p1/b.csv"]);
    Ok(())
}

/// One file with an odd name does not block the others, unless a pattern names it.
#[cfg(unix)]
#[tokio::test]
async fn listing_skips_unsupported_names_unless_they_are_named() -> Result<()> {
    let dir = directory(&["t/a.csv", "t/b\n.csv"])?;
    assert_eq!(found(&dir, "t").await?, ["t/a.csv"]);
    let strict = session(1);
    let findings = Arc::new(Findings::default());
    findings.set_strict(true);
    strict.state_ref().write().config_mut().set_extension(findings);
    let query = format!("SELECT * FROM '{}/'", dir.path().join("t").display());
    let error = chain(&strict.sql(&query).await.expect_err("strict"));
    assert!(error.contains("t/b\\n.csv: the name has a control character or is not UTF-8"), "{error}");
    std::os::unix::fs::symlink("loop", dir.path().join("t/loop"))?;
    assert_eq!(found(&dir, "t/a*").await?, ["t/a.csv"]);
    let message = refused(&dir, "t/b*").await;
    assert_eq!(message, "t/b\\n.csv: the name has a control character or is not UTF-8");
    // Whether a link to itself is a directory or a file is unknown.
    let message = refused(&dir, "t/l*").await;
    assert!(message.starts_with("t/loop: cannot be examined: "), "{message}");
    let message = refused(&dir, "t/**/a.csv").await;
    assert!(message.starts_with("t/loop: cannot be examined: "), "{message}");
    Ok(())
}

#[tokio::test]
async fn listing_skips_files_that_describe_records() -> Result<()> {
    let descriptions =
        ["t/a.idx", "t/a.tfindex", "t/dataset_info.json", "t/features.json", "t/label.labels.txt", "t/schema.pbtxt"];
    let dir = directory(&[descriptions.as_slice(), &["t/a"]].concat())?;
    assert_eq!(found(&dir, "t").await?, ["t/a"]);
    assert_eq!(found(&dir, "t/*").await?, ["t/a"]);
    for name in descriptions.into_iter().chain(["t/*.idx", "t/*.txt"]) {
        assert_eq!(found(&dir, name).await?.len(), 1, "{name}");
    }
    Ok(())
}

/// Notes next to data files are not rows. A file that may be a table of its own is not a note merely because of its
/// extension.
#[tokio::test]
async fn listing_skips_notes() -> Result<()> {
    let dir = directory(&["t/README.md", "t/part-0.csv", "t/part-1.json", "t/part-2.txt", "t/card.html"])?;
    assert_eq!(found(&dir, "t").await?, ["t/part-0.csv", "t/part-1.json", "t/part-2.txt"]);
    assert_eq!(found(&dir, "t/*.md").await?, ["t/README.md"]);
    let dir = directory(&["t/README.txt", "t/a.tfrecord", "t/sub/a.txt"])?;
    assert_eq!(found(&dir, "t").await?, ["t/a.tfrecord", "t/sub/a.txt"]);
    Ok(())
}

#[tokio::test]
async fn listing_reads_hidden_files_named_explicitly() -> Result<()> {
    let dir = directory(&["_part", ".hidden", "x.crc", "a[1].csv", "50% #2 ä=b.csv"])?;
    for name in ["_part", ".hidden", "x.crc", "a[1].csv", "50% #2 ä=b.csv", "_p*", ".h*", "*.crc"] {
        assert_eq!(found(&dir, name).await?.len(), 1, "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn listing_matches_patterns() -> Result<()> {
    let dir = directory(&["a/x1.csv", "a/x2.csv", "a/b/x1.csv", "a/b/c/y1.txt", "d1/x1.csv", "a/_x1.csv"])?;
    for (pattern, expected) in [
        ("a/x?.csv", vec!["a/x1.csv", "a/x2.csv"]),
        ("a/x[2-9].csv", vec!["a/x2.csv"]),
        ("a/x[!2].csv", vec!["a/x1.csv"]),
        ("a/*1*", vec!["a/x1.csv"]),
        ("*/x1.csv", vec!["a/x1.csv", "d1/x1.csv"]),
        ("a/**/x1.csv", vec!["a/b/x1.csv", "a/x1.csv"]),
        ("**/*.txt", vec!["a/b/c/y1.txt"]),
        ("a/**", vec!["a/b/c/y1.txt", "a/b/x1.csv", "a/x1.csv", "a/x2.csv"]),
        ("a/b*", vec!["a/b/c/y1.txt", "a/b/x1.csv"]),
        ("a/b/../x1.csv", vec!["a/x1.csv"]),
        ("a/./x1.csv", vec!["a/x1.csv"]),
    ] {
        assert_eq!(found(&dir, pattern).await?, expected, "{pattern}");
    }
    Ok(())
}

#[tokio::test]
async fn several_locations_are_one_table() -> Result<()> {
    let dir = directory(&["a.csv", "b/c.csv"])?;
    let path = dir.path().display();
    let batches = read(&format!("{path}/a.csv,path={path}/b")).await?;
    assert_eq!(texts(&batches)?, [["a.csv"], ["b/c.csv"]]);
    Ok(())
}

#[tokio::test]
async fn listing_explains_missing_files() -> Result<()> {
    let dir = directory(&["t/_SUCCESS", "t/.x.crc", "t/y.crc", "t/_a/b", "file"])?;
    write(dir.path(), &[("t/zero", b"")])?;
    std::fs::create_dir(dir.path().join("void"))?;
    assert_eq!(
        refused(&dir, "t").await,
        "t: no file to read in this directory; passed over: .x.crc (hidden), _SUCCESS (hidden), y.crc (checksum), zero (0 bytes), _a/ (hidden)"
    );
    assert_eq!(refused(&dir, "void").await, "void: no file to read in this directory");
    assert_eq!(refused(&dir, "nowhere").await, "nowhere: no such file or directory");
    assert_eq!(refused(&dir, "nowhere/x.csv").await, "nowhere/x.csv: no such file or directory");
    assert_eq!(refused(&dir, "*.parquet").await, "*.parquet: no file matches");
    assert_eq!(refused(&dir, "nowhere/*").await, "nowhere/*: no file matches");
    assert_eq!(refused(&dir, "t/*").await.split(';').next(), Some("t/*: no file matches"));
    assert_eq!(refused(&dir, "t/[").await, "t/[: not a usable path: pattern \"[\": invalid range pattern");
    let scheme = read("s3://bucket/key").await.expect_err("no store");
    let message = chain(&scheme);
    assert!(message.starts_with("External error: s3://bucket/key: its store cannot be opened"), "{message}");
    Ok(())
}

#[tokio::test]
async fn listing_turns_key_directories_into_columns() -> Result<()> {
    let dir = tempfile::tempdir()?;
    write(
        dir.path(),
        &[
            ("t/n=1/s=a%2Fb/f.csv", b"x\n1\n"),
            ("t/n=2/s=__HIVE_DEFAULT_PARTITION__/f.csv", b"x\n2\n3\n"),
            ("t/n=__HIVE_DEFAULT_PARTITION__/s=c/f.csv", b"x\n4\n"),
        ],
    )?;
    let table = format!("'{}'", dir.path().join("t").display());
    let rows = async |query: &str| crate::support::rows(&query.replace("$t", &table)).await;
    assert_eq!(
        rows("SELECT x, n, s FROM $t ORDER BY x").await?,
        [["1", "1", "a/b"], ["2", "2", "NULL"], ["3", "2", "NULL"], ["4", "NULL", "c"]]
    );
    assert_eq!(rows("SELECT count(*) FROM $t WHERE s IS NULL").await?, [["2"]]);
    assert_eq!(rows("SELECT x FROM $t WHERE n + 1 = 2").await?, [["1"]]);
    assert_eq!(rows("SELECT max(n), min(s) FROM $t").await?, [["2", "a/b"]]);
    let plan = rows("EXPLAIN SELECT x FROM $t WHERE n = 1").await?.concat().concat();
    assert!(plan.contains("n=1/") && !plan.contains("n=2/"), "only the directory asked for is read: {plan}");
    Ok(())
}

#[cfg(unix)]
#[tokio::test]
async fn listing_rejects_devices_and_sockets() -> Result<()> {
    let message = chain(&read("/dev/null").await.expect_err("refused"));
    assert!(message.ends_with("/dev/null: not a regular file"), "{message}");
    let dir = tempfile::tempdir()?;
    let _listener = std::os::unix::net::UnixListener::bind(dir.path().join("socket.csv"))?;
    assert!(refused(&dir, "socket.csv").await.ends_with("socket.csv: not a regular file"));
    Ok(())
}
