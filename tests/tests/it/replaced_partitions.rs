//! `--mode overwrite-partitions`: the partitions that the rows name are replaced, and no other file changes.

use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tfr_tests::{Run, S3Server, Scratch, finish, run, tfr_sql};

const REPLACE: [&str; 2] = ["--mode", "overwrite-partitions"];

/// Ten rows of each of these days, with a number that tells when they were written.
fn days(days: RangeInclusive<u32>, version: u32) -> String {
    let (first, last) = (days.start() * 10, days.end() * 10 + 9);
    format!(
        "SELECT value AS id, {version} AS version, concat('2026-01-0', value / 10) AS dt FROM generate_series({first}, {last})"
    )
}

fn write(mut command: Command, query: &str, out: &str, arguments: &[&str]) -> Command {
    command.args([query, "--out", out, "--partition-by", "dt", "--quiet"]).args(arguments);
    command
}

/// For each day the number of rows and their version, as the command reads them.
fn read(mut command: Command, table: &str) -> Vec<String> {
    let query =
        format!("SELECT dt, count(DISTINCT id), min(version), max(version) FROM '{table}' GROUP BY dt ORDER BY dt");
    let read = run(command.args([&query, "--format", "csv", "--quiet"])).success().stdout;
    read.lines().skip(1).map(str::to_owned).collect()
}

/// The days of these versions.
fn versions(expected: &[(u32, u32)]) -> Vec<String> {
    expected.iter().map(|(day, version)| format!("2026-01-0{day},10,{version},{version}")).collect()
}

/// Each file below a directory: its content, when it was modified, and its inode.
fn files(root: &Path) -> BTreeMap<String, (Vec<u8>, i64, i64, u64)> {
    fn add(root: &Path, directory: &Path, found: &mut BTreeMap<String, (Vec<u8>, i64, i64, u64)>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                add(root, &path, found);
                continue;
            }
            let (name, metadata) = (path.strip_prefix(root).unwrap().to_str().unwrap(), path.metadata().unwrap());
            let state = (fs::read(&path).unwrap(), metadata.mtime(), metadata.mtime_nsec(), metadata.ino());
            found.insert(name.to_owned(), state);
        }
    }
    let mut found = BTreeMap::new();
    add(root, root, &mut found);
    found
}

fn is_of_days(name: &str, days: &[u32]) -> bool {
    days.iter().any(|day| name.starts_with(&format!("dt=2026-01-0{day}/")))
}

/// The files in the directories of days, but for those that the manifest lists.
fn unlisted(names: impl IntoIterator<Item = String>, manifest: &[u8]) -> Vec<String> {
    let manifest: Value = serde_json::from_slice(manifest).unwrap();
    let files = ["shards", "sidecars"].map(|key| manifest[key].as_array().cloned().unwrap_or_default());
    let listed: Vec<_> = files.iter().flatten().map(|file| file["path"].as_str().unwrap().to_owned()).collect();
    names.into_iter().filter(|name| name.starts_with("dt=") && !listed.contains(name)).collect()
}

#[test]
fn other_partitions_keep_their_files() {
    let scratch = Scratch::default();
    let out = scratch.join("set");
    let arguments = [&["--emit", "index", "--shards", "2"][..], &["--split", "train=0.8,val=0.2", "--split-by", "id"]];
    for arguments in arguments {
        let replaces = [&REPLACE, arguments].concat();
        let write =
            |query: &str, arguments: &[&str]| run(&mut write(tfr_sql(), query, out.to_str().unwrap(), arguments));
        // A set that is not there yet is written.
        write(&days(1..=3, 1), &replaces).success();
        let before = files(&out);
        write(&days(2..=2, 2), &replaces).success();
        write(&days(2..=2, 3), &replaces).success();
        write(&days(3..=4, 4), &replaces).success();
        let after = files(&out);
        assert_eq!(read(tfr_sql(), out.to_str().unwrap()), versions(&[(1, 1), (2, 3), (3, 4), (4, 4)]));
        for (name, state) in before.iter().filter(|(name, _)| is_of_days(name, &[1])) {
            assert_eq!(after.get(name), Some(state), "{name}");
        }
        let replaced = before.keys().filter(|name| is_of_days(name, &[2, 3]) && after.contains_key(*name));
        assert_eq!(replaced.collect::<Vec<_>>(), Vec::<&String>::new());
        let manifest = fs::read(out.join("_manifest.json")).unwrap();
        assert_eq!(unlisted(after.into_keys(), &manifest), Vec::<String>::new());
        // An append, and a set that is replaced as a whole, go on from there.
        write(&days(5..=5, 5), &[&["--mode", "append"], arguments].concat()).success();
        run(tfr_sql().arg("verify").arg(&out)).success();
        write(&days(6..=6, 6), &[&["--mode", "overwrite"], arguments].concat()).success();
        assert!(files(&out).keys().all(|name| name.starts_with('_') || is_of_days(name, &[6])));
        run(tfr_sql().arg("verify").arg(&out)).success();
        fs::remove_dir_all(&out).unwrap();
    }
}

#[test]
fn rows_of_no_partition_replace_nothing() {
    let scratch = Scratch::default();
    let (out, server) = (scratch.join("set"), S3Server::default());
    for (command, out) in
        [(&tfr_sql as &dyn Fn() -> Command, out.display().to_string()), (&|| server.tfr_sql(), server.url("set/"))]
    {
        run(&mut write(command(), &days(1..=2, 1), &out, &[])).success();
        let mut none = command();
        none.args([&format!("{} WHERE false", days(1..=2, 2)), "--out", &out, "--partition-by", "dt"]).args(REPLACE);
        let shown = run(&mut none).success().stderr;
        assert!(shown.contains(": no partition is replaced, for there are no rows"), "{shown}");
        assert_eq!(read(command(), &out), versions(&[(1, 1), (2, 1)]));
        run(command().args(["verify", &out])).success();
    }
}

/// The steps of tasks are those of one process, in a directory and in a store.
#[test]
fn tasks_replace_partitions() {
    let scratch = Scratch::default();
    let (out, server) = (scratch.join("set"), S3Server::default());
    fs::create_dir(scratch.join("sorted")).unwrap();
    fs::create_dir(scratch.join("rows")).unwrap();
    for day in 2..=4 {
        let rows = scratch.join(format!("rows/{day}.parquet"));
        run(tfr_sql().arg(days(day..=day, 2)).arg("--out").arg(rows)).success();
    }
    let query = format!("SELECT * FROM '{}'", scratch.join("rows").display());
    for (command, out) in
        [(&tfr_sql as &dyn Fn() -> Command, out.display().to_string()), (&|| server.tfr_sql(), server.url("set/"))]
    {
        run(&mut write(command(), &days(1..=3, 1), &out, &["--emit", "index,stats"])).success();
        let plan = scratch.join("p.tfrplan");
        let mut planned = write(command(), &query, &out, &["--partitions", "2", "--emit", "index"]);
        planned.args(REPLACE).arg("--plan").arg(&plan).arg("--scratch").arg(scratch.join("sorted"));
        run(&mut planned).success();
        for index in ["0", "1"] {
            run(command().arg("task").arg(&plan).args(["--index", index])).success();
        }
        assert_eq!(read(command(), &out), versions(&[(1, 1), (2, 1), (3, 1)]));
        run(command().arg("finish").arg(&plan)).success();
        assert_eq!(read(command(), &out), versions(&[(1, 1), (2, 2), (3, 2), (4, 2)]));
        run(command().args(["verify", &out])).success();
        fs::remove_file(&plan).unwrap();
    }
    let manifest = fs::read(out.join("_manifest.json")).unwrap();
    assert_eq!(unlisted(files(&out).into_keys(), &manifest), Vec::<String>::new());
    let keys = server.keys().into_iter().filter_map(|key| key.strip_prefix("set/").map(str::to_owned));
    assert_eq!(unlisted(keys, &server.object("set/_manifest.json")), Vec::<String>::new());
}

/// Killed at one request after the other, a run leaves the old or the new partitions, and the next run clears up.
#[test]
fn a_store_has_old_or_new_partitions_after_a_kill() {
    let (old, new) = (versions(&[(1, 1), (2, 1), (3, 1)]), versions(&[(1, 1), (2, 2), (3, 1), (4, 2)]));
    let rows = format!("{} UNION ALL {}", days(2..=2, 2), days(4..=4, 2));
    for requests in (2..).step_by(3) {
        let server = S3Server::default();
        let out = server.url("set/");
        run(&mut write(server.tfr_sql(), &days(1..=3, 1), &out, &[])).success();
        let before = server.received();
        server.delay(Duration::from_millis(5));
        let mut command = write(server.tfr_sql(), &rows, &out, &REPLACE);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while server.received() < before + requests && child.try_wait().unwrap().is_none() {
            // Without a pause this takes the core that the command and the server need.
            thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        let code = finish(child);
        server.delay(Duration::ZERO);
        let (found, place) = (read(server.tfr_sql(), &out), format!("killed at request {requests}"));
        assert!(found == new || (found == old && code.is_none()), "{place}: {found:?}");
        run(&mut write(server.tfr_sql(), &rows, &out, &REPLACE)).success();
        assert_eq!(read(server.tfr_sql(), &out), new, "{place}");
        let keys = server.keys().into_iter().filter_map(|key| key.strip_prefix("set/").map(str::to_owned));
        assert_eq!(unlisted(keys, &server.object("set/_manifest.json")), Vec::<String>::new(), "{place}");
        run(server.tfr_sql().args(["verify", &out])).success();
        if code == Some(0) {
            break;
        }
    }
}

/// What cannot have its partitions replaced is refused, and stays as it is.
#[test]
fn sets_without_these_partitions_are_refused() {
    let scratch = Scratch::default();
    let path = |name: &str| scratch.join(name).display().to_string();
    let query = days(1..=2, 2);
    run(tfr_sql().args([&days(1..=3, 1), "--out", &path("plain")])).success();
    run(tfr_sql().args([&days(1..=3, 1), "--out", &path("other"), "--partition-by", "version"])).success();
    run(&mut write(tfr_sql(), &days(1..=3, 1), &path("zipped"), &["--compression", "gzip"])).success();
    run(&mut write(tfr_sql(), &days(1..=3, 1), &path("spark"), &[])).success();
    fs::remove_file(scratch.join("spark/_manifest.json")).unwrap();
    run(&mut write(tfr_sql(), &days(1..=3, 1), &path("described"), &[])).success();
    let refused = |name: &str, arguments: &[&str]| -> String {
        let before = files(&scratch.join(name));
        let Run { stderr, .. } =
            run(&mut write(tfr_sql(), &query, &path(name), &[&REPLACE, arguments].concat())).exits_with(1);
        assert_eq!(files(&scratch.join(name)), before, "{name}");
        stderr.replace(&path(name), name)
    };
    let shown =
        [("plain", &[][..]), ("other", &[]), ("zipped", &[]), ("spark", &[]), ("described", &["--emit", "tfmd"])]
            .map(|(name, arguments)| refused(name, arguments))
            .to_vec();
    insta::assert_snapshot!(shown.join("---\n"), @r##"
    error: plain: none of its partitions is replaced: partitioning is by dt (Utf8), in the set it is none

    hint: name the columns that the set is partitioned by with --partition-by; a set without partitions is replaced as a whole, with --mode overwrite
    ---
    error: other: none of its partitions is replaced: partitioning is by dt (Utf8), in the set it is by version (Int64)

    hint: name the columns that the set is partitioned by with --partition-by; a set without partitions is replaced as a whole, with --mode overwrite
    ---
    error: zipped: not appended to: the compression is none, in the set it is gzip

    hint: write it as the set was written: tfr-sql schema prints its columns, _manifest.json has all options (CAST changes a column's type, NULL AS name adds a column that may be null); or write it to another directory
    ---
    error: spark: neither replaced nor appended to, because it contains files written by other tools: dt=2026-01-01/part-00000-of-00001.tfrecord, dt=2026-01-02/part-00000-of-00001.tfrecord, dt=2026-01-03/part-00000-of-00001.tfrecord

    hint: choose another directory, or move these files away; to go on with the rows that are there, copy them to a set and append to that: tfr-sql "SELECT * FROM 'spark/'" --out DIR
    ---
    error: tfmd cannot describe described by the rows that are added to it: 30 are there already

    hint: append without it, and then describe the whole set: tfr-sql describe described --emit tfmd
    "##);
}
