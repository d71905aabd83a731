//! Sets and tables that are written to a real HDFS while it fails, is watched, or is written to by others.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tfr_tests::{HdfsCluster, Run, finish, run};

use super::{MANY, SOME, Table};

/// Two shards of some blocks each, or one of many.
fn write(table: &Table, out: &str) -> Command {
    let mut command = HdfsCluster::tfr_sql();
    command.arg(format!("SELECT * FROM '{}'", table.path.display())).args(["--out", out, "--threads", "2"]);
    command
}

fn overwrite(table: &Table, out: &str) -> Command {
    let mut command = write(table, out);
    command.args(["--mode", "overwrite"]);
    command
}

fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// The number of rows of a set whose every record was read, checksums included.
#[track_caller]
fn rows(out: &str) -> usize {
    run(HdfsCluster::tfr_sql().args(["verify", out])).success();
    let counted =
        run(HdfsCluster::tfr_sql().args([&format!("SELECT count(*) AS n FROM '{out}'"), "--format", "csv"])).success();
    counted.stdout.lines().nth(1).unwrap().parse().unwrap()
}

/// The files of a local directory, by name.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .filter(|(name, _)| name.ends_with(".tfrecord"))
        .collect()
}

/// The names in a directory that do not belong to a set.
fn strange(hdfs: &mut HdfsCluster, directory: &str) -> Vec<String> {
    let names = hdfs.ask(&["list", directory]);
    names.split(' ').filter(|name| name.starts_with('.')).map(str::to_owned).collect()
}

#[track_caller]
fn refused(command: &mut Command, expected: &str) -> Run {
    let refused = run(command).exits_with(1);
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    refused
}

/// The steps share a cluster, which takes seconds to start.
#[test]
fn hdfs_set_is_written_whole_or_not_at_all() {
    let mut hdfs = match HdfsCluster::start() {
        Ok(hdfs) => hdfs,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let (many, some) = (Table::new(MANY), Table::new(SOME));
    for (name, step) in [
        ("the files of a local set", same_files as fn(&mut HdfsCluster, &Table, &Table)),
        ("append, overwrite", append_and_overwrite),
        ("a reader looks", watched),
        ("killed at any time", killed),
        ("killed between the renames", killed_between_renames),
        ("two writers", two_writers),
        ("permissions and quotas", denied),
        ("tasks", tasks),
        ("tables", tables),
        ("a namenode is restarted", restarted_namenode),
        ("a datanode is lost", lost_datanode),
    ] {
        let started = Instant::now();
        step(&mut hdfs, &many, &some);
        println!("{name}: {:.1} s", started.elapsed().as_secs_f32());
    }
}

/// The namenode hears of a replica after a second. A file that is closed and opened again before that is written to some of
/// its datanodes only.
#[test]
fn hdfs_replicas_are_all_whole_if_the_namenode_hears_of_them_late() {
    let late = ["dfs.blocksize=134217728", "dfs.blockreport.incremental.intervalMsec=1000"];
    let mut hdfs = match HdfsCluster::start_with(&late) {
        Ok(hdfs) => hdfs,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let many = Table::new(MANY);
    let out = hdfs.file("/late");
    run(write(&many, &out).args(["--shards", "1"])).success();
    assert_eq!(rows(&out), MANY);
    let shard = "/late/part-00000-of-00001.tfrecord";
    let version = hdfs.ask(&["version", shard]);
    let len = u64::from_str_radix(version.split('-').nth(1).unwrap(), 16).unwrap();
    assert!(len > 2 * (8 << 20), "{len} bytes are not several parts");
    assert_eq!(hdfs.ask(&["replicas", shard]), format!("{len} {len}"));
}

/// Hadoop's own client reads the same bytes as are in a local set.
fn same_files(hdfs: &mut HdfsCluster, many: &Table, some: &Table) {
    for (table, rows_of, shards) in [(some, SOME, "3"), (many, MANY, "1"), (many, MANY, "7")] {
        let name = format!("same-{rows_of}-{shards}");
        let out = hdfs.file(&format!("/sets/{name}"));
        let local = many.scratch.join(&name);
        run(write(table, &out).args(["--shards", shards])).success();
        run(write(table, local.to_str().unwrap()).args(["--shards", shards])).success();
        let copy = many.scratch.join(format!("{name}.copy"));
        hdfs.ask(&["get", &format!("/sets/{name}"), copy.to_str().unwrap()]);
        assert!(files(&copy) == files(&local), "{name}");
        assert_eq!(files(&copy).len().to_string(), shards);
        assert_eq!(rows(&out), rows_of);
        assert_eq!(strange(hdfs, "/sets"), [""; 0]);
        refused(&mut write(table, &out), "not empty");
        run(write(table, &out).args(["--mode", "ignore"])).success();
    }
    // Shards without rows, directories of partitions, sidecars.
    let out = hdfs.file("/sets/by-day");
    let mut command = HdfsCluster::tfr_sql();
    command.arg(format!("SELECT id, id % 3 AS day FROM '{}' WHERE id < 2", some.path.display()));
    run(command.args(["--out", &out, "--partition-by", "day", "--shards", "2", "--emit", "index,stats"])).success();
    assert_eq!(rows(&out), 2);
    hdfs.ask(&["make", "/sets/empty"]);
    run(write(some, &hdfs.file("/sets/empty")).args(["--shards", "2"])).success();
    assert_eq!(rows(&hdfs.file("/sets/empty")), SOME);
}

fn append_and_overwrite(hdfs: &mut HdfsCluster, _: &Table, some: &Table) {
    let out = hdfs.file("/changed/set");
    run(&mut overwrite(some, &out)).success();
    hdfs.ask(&["mode", "/changed/set", "750"]);
    for times in 2..4 {
        run(write(some, &out).args(["--mode", "append"])).success();
        assert_eq!(rows(&out), times * SOME);
    }
    // A run that was killed when it had claimed the manifest.
    let version = hdfs.ask(&["version", "/changed/set/_manifest.json"]);
    hdfs.put(&some.path, &format!("/changed/set/.tfr.{version}"));
    run(write(some, &out).args(["--mode", "append"])).success();
    assert_eq!(rows(&out), 4 * SOME);
    assert_eq!(strange(hdfs, "/changed/set"), [""; 0]);
    run(overwrite(some, &out).args(["--shards", "2"])).success();
    assert_eq!(rows(&out), SOME);
    let names = hdfs.ask(&["list", "/changed/set"]);
    assert_eq!(names, "_SUCCESS _manifest.json part-00000-of-00002.tfrecord part-00001-of-00002.tfrecord");
    assert_eq!(strange(hdfs, "/changed"), [""; 0]);
    let denied = run(HdfsCluster::tfr_sql().args(["verify", &out]).env("HADOOP_USER_NAME", "bob")).exits_with(1);
    assert!(denied.stderr.contains("Permission denied"), "{}", denied.stderr);
    // A foreign file is never removed.
    hdfs.put(&some.path, "/changed/set/notes.txt");
    refused(&mut overwrite(some, &out), "notes.txt");
}

fn watched(hdfs: &mut HdfsCluster, many: &Table, some: &Table) {
    hdfs.ask(&["watch", "/watched/set"]);
    let out = hdfs.file("/watched/set");
    let mut expected = vec!["absent".to_owned()];
    for (table, shards) in [(many, "40"), (some, "30"), (many, "20")] {
        run(overwrite(table, &out).args(["--shards", shards])).success();
        let local = many.scratch.join(format!("watched-{shards}"));
        run(write(table, local.to_str().unwrap()).args(["--shards", shards])).success();
        let names = files(&local).into_iter().map(|(name, bytes)| format!("{name}:{}", bytes.len()));
        expected.push(names.collect::<Vec<_>>().join(" "));
    }
    let seen = hdfs.ask(&["seen"]);
    let (looks, seen) = seen.split_once('\t').unwrap();
    let without_manifest = |state: &str| {
        let names: Vec<_> = state.split(' ').filter(|name| !name.starts_with('_')).collect();
        names.join(" ")
    };
    let seen: Vec<_> = seen.split('\t').map(without_manifest).collect();
    println!("looked {looks} times, and saw {} states", seen.len());
    assert!(looks.parse::<usize>().unwrap() > 100);
    for state in &seen {
        assert!(expected.contains(state), "{state}");
    }
    assert_eq!(seen.len(), expected.len(), "{seen:?}");
}

/// Kills a program when HDFS has answered so many questions, of which each takes about a millisecond.
fn kill_after(hdfs: &mut HdfsCluster, questions: usize, mut child: Child) {
    for _ in 0..questions {
        hdfs.ask(&["list", "/"]);
    }
    let _already_ended = child.kill();
    finish(child);
}

/// Kills an overwrite when its shards are complete, a little later each time.
fn killed(hdfs: &mut HdfsCluster, _: &Table, some: &Table) {
    const NEW: usize = 2000;
    let out = hdfs.file("/killed/set");
    let mut found = BTreeMap::<_, usize>::new();
    for kill in 0..20 {
        run(&mut overwrite(some, &out)).success();
        let before = strange(hdfs, "/killed");
        let mut command = HdfsCluster::tfr_sql();
        command.arg(format!("SELECT * FROM '{}' LIMIT {NEW}", some.path.display()));
        let mut child = start(command.args(["--out", &out, "--shards", "8", "--mode", "overwrite"]));
        loop {
            let staging = strange(hdfs, "/killed").into_iter().find(|name| !before.contains(name));
            let set = staging.map(|name| hdfs.ask(&["list", &format!("/killed/{name}/.tfr.set")]));
            if set.is_some_and(|names| names.contains("_manifest.json")) || child.try_wait().unwrap().is_some() {
                break;
            }
        }
        kill_after(hdfs, 8 * kill, child);
        let state = hdfs.ask(&["list", "/killed/set"]);
        let rows = if state == "absent" { 0 } else { rows(&out) };
        assert!([0, SOME, NEW].contains(&rows), "{rows}");
        *found.entry(rows).or_default() += 1;
    }
    println!("killed 20 times: {found:?}");
    run(write(some, &out).args(["--mode", "append"])).success();
    assert!([2 * SOME, NEW + SOME].contains(&rows(&out)));
}

fn killed_between_renames(hdfs: &mut HdfsCluster, _: &Table, some: &Table) {
    let out = hdfs.file("/between/set");
    run(&mut overwrite(some, &out)).success();
    let mut command = HdfsCluster::tfr_sql();
    command.arg(format!("SELECT * FROM '{}' LIMIT 7", some.path.display()));
    run(command.args(["--out", &hdfs.file("/between/new")])).success();
    // As a kill after the first rename leaves it.
    hdfs.ask(&["make", "/between/.tfr-nightly7-set"]);
    hdfs.ask(&["rename", "/between/new", "/between/.tfr-nightly7-set/.tfr.set"]);
    hdfs.ask(&["rename", "/between/set", "/between/.tfr-nightly7.replaced-set"]);
    let read = run(HdfsCluster::tfr_sql().arg(format!("SELECT count(*) FROM '{out}'"))).exits_with(1);
    assert!(read.stderr.contains("no such file or directory"), "{}", read.stderr);
    let appended = run(write(some, &out).args(["--mode", "append"])).success();
    assert!(appended.stderr.contains("run nightly7 had not ended its replacement"), "{}", appended.stderr);
    assert_eq!(rows(&out), 7 + SOME);
    assert_eq!(strange(hdfs, "/between"), [""; 0]);
}

fn two_writers(hdfs: &mut HdfsCluster, _: &Table, some: &Table) {
    let out = hdfs.file("/two/set");
    for (mode, least) in [("error", 1), ("overwrite", 1), ("append", 1), ("append", 1)] {
        let before = if hdfs.ask(&["list", "/two/set"]) == "absent" { 0 } else { rows(&out) };
        let both = [0, 1].map(|_| start(write(some, &out).args(["--mode", mode])));
        let both = both.map(ended);
        let written = both.iter().filter(|(code, _)| *code == Some(0)).count();
        assert!(written >= least, "{mode}: {both:?}");
        let expected = match mode {
            "append" => before + written * SOME,
            _ => SOME,
        };
        assert_eq!(rows(&out), expected, "{mode}: {both:?}");
        assert!(mode != "error" || written == 1);
        assert_eq!(strange(hdfs, "/two"), [""; 0], "{mode}");
    }
}

fn denied(hdfs: &mut HdfsCluster, many: &Table, some: &Table) {
    let out = hdfs.file("/denied/set");
    hdfs.ask(&["make", "/denied"]);
    refused(write(some, &out).env("HADOOP_USER_NAME", "bob"), "Permission denied: user=bob, access=WRITE");
    assert_eq!(hdfs.ask(&["list", "/denied"]), "");
    hdfs.ask(&["quota", "/denied", "20000000"]);
    let full = run(&mut write(many, &out)).exits_with(1);
    assert!(full.stderr.contains("DSQuotaExceededException") && !full.stderr.contains("\tat "), "{}", full.stderr);
    assert_eq!(hdfs.ask(&["list", "/denied"]), "");
    refused(write(some, &hdfs.file("/")).args(["--mode", "overwrite"]), "the root of the file system");
    hdfs.put(&some.path, "/denied-file");
    refused(&mut overwrite(some, &hdfs.file("/denied-file")), "expected a directory, found a file");
}

/// Tasks write the set of one process, whatever is run twice or killed.
fn tasks(hdfs: &mut HdfsCluster, many: &Table, some: &Table) {
    let directory = many.scratch.join("parts");
    fs::create_dir(&directory).unwrap();
    for part in 0..3 {
        fs::copy(&some.path, directory.join(format!("{part}.csv"))).unwrap();
    }
    let job = |out: &str, arguments: &[&str]| {
        let mut command = HdfsCluster::tfr_sql();
        command.arg(format!("SELECT * FROM '{}/*.csv'", directory.display()));
        command.args(["--out", out, "--partitions", "3", "--shard-rows", "700"]).args(arguments);
        command
    };
    let tool = |name: &str, plan: &Path| {
        let mut command = HdfsCluster::tfr_sql();
        command.arg(name).arg(plan);
        command
    };
    let plan = many.scratch.join("set.tfrplan");
    let out = hdfs.file("/tasks/set");
    for (mode, expected) in [("error", 3 * SOME), ("overwrite", 3 * SOME), ("append", 6 * SOME)] {
        run(job(&out, &["--mode", mode, "--emit", "index", "--plan"]).arg(&plan)).success();
        for index in ["0", "1", "1", "2"] {
            kill_after(hdfs, 150, start(tool("task", &plan).args(["--index", index])));
            run(tool("task", &plan).args(["--index", index])).success();
        }
        assert_eq!(hdfs.ask(&["list", "/tasks/set"]) == "absent", mode == "error");
        kill_after(hdfs, 200, start(&mut tool("finish", &plan)));
        run(&mut tool("finish", &plan)).success();
        run(&mut tool("finish", &plan)).success();
        assert_eq!(rows(&out), expected, "{mode}");
        assert_eq!(strange(hdfs, "/tasks"), [""; 0], "{mode}");
    }
    // Rows that were appended after the plan was made are not lost.
    run(job(&out, &["--mode", "overwrite", "--plan"]).arg(&plan)).success();
    run(write(some, &out).args(["--mode", "append"])).success();
    for index in ["0", "1", "2"] {
        run(tool("task", &plan).args(["--index", index])).success();
    }
    run(&mut tool("finish", &plan)).exits_with(1);
    assert_eq!(rows(&out), 7 * SOME);
    run(&mut tool("abandon", &plan)).success();
    assert_eq!(strange(hdfs, "/tasks"), [""; 0]);
    let (local, copy) = (many.scratch.join("tasks"), many.scratch.join("tasks.copy"));
    run(&mut job(local.to_str().unwrap(), &[])).success();
    run(job(&out, &["--mode", "overwrite", "--plan"]).arg(&plan)).success();
    for index in ["2", "0", "1"] {
        run(tool("task", &plan).args(["--index", index])).success();
    }
    run(&mut tool("finish", &plan)).success();
    hdfs.ask(&["get", "/tasks/set", copy.to_str().unwrap()]);
    assert!(files(&copy).into_values().eq(files(&local).into_values()));
    // A plan that is given up leaves the set as it is.
    run(job(&out, &["--mode", "overwrite", "--plan"]).arg(&plan)).success();
    run(tool("task", &plan).args(["--index", "0"])).success();
    run(&mut tool("abandon", &plan)).success();
    assert_eq!(rows(&out), 3 * SOME);
    assert_eq!(strange(hdfs, "/tasks"), [""; 0]);
}

fn tables(hdfs: &mut HdfsCluster, many: &Table, some: &Table) {
    let out = hdfs.file("/tables/t.parquet");
    run(&mut write(many, &out)).success();
    let count = |expected: usize| {
        let query = format!("SELECT count(*) AS n FROM '{out}'");
        let counted = run(HdfsCluster::tfr_sql().args([&query, "--format", "csv"])).success();
        assert_eq!(counted.stdout, format!("n\n{expected}\n"));
    };
    count(MANY);
    refused(&mut write(some, &out), "already exists");
    run(&mut overwrite(some, &out)).success();
    count(SOME);
    let csv = hdfs.file("/tables/t.csv");
    run(&mut write(many, &csv)).success();
    let copy = many.scratch.join("t.copy.csv");
    hdfs.ask(&["get", "/tables/t.csv", copy.to_str().unwrap()]);
    assert!(fs::read_to_string(copy).unwrap() == many.text);
    assert_eq!(hdfs.ask(&["list", "/tables"]), "t.csv t.parquet");
    run(&mut overwrite(some, &hdfs.file("/tables"))).exits_with(1);
    assert_eq!(hdfs.ask(&["list", "/tables"]), "t.csv t.parquet");
}

/// Starts to write, and returns when the first bytes are there.
fn writing(hdfs: &mut HdfsCluster, many: &Table, directory: &str) -> Child {
    let child = start(write(many, &hdfs.file(&format!("{directory}/set"))).args(["--shards", "3", "-v"]));
    let started = Instant::now();
    while hdfs.ask(&["list", directory]) == "absent" {
        assert!(started.elapsed() < Duration::from_secs(60));
    }
    child
}

fn restarted_namenode(hdfs: &mut HdfsCluster, many: &Table, _: &Table) {
    let child = writing(hdfs, many, "/restarted");
    hdfs.ask(&["stop-namenode"]);
    hdfs.ask(&["start-namenode"]);
    let (code, messages) = ended(child);
    assert_eq!(code, Some(0), "{messages}");
    assert!(messages.contains("the request is repeated"), "{messages}");
    assert_eq!(rows(&hdfs.file("/restarted/set")), MANY);
    assert_eq!(strange(hdfs, "/restarted"), [""; 0]);
}

fn lost_datanode(hdfs: &mut HdfsCluster, many: &Table, some: &Table) {
    let child = writing(hdfs, many, "/lost");
    hdfs.ask(&["stop-datanode"]);
    let (code, messages) = ended(child);
    assert_eq!(code, Some(0), "{messages}");
    assert_eq!(rows(&hdfs.file("/lost/set")), MANY);
    // It is away from the start.
    run(&mut write(some, &hdfs.file("/lost/other"))).success();
    assert_eq!(rows(&hdfs.file("/lost/other")), SOME);
    assert_eq!(strange(hdfs, "/lost"), [""; 0]);
    hdfs.ask(&["start-datanode"]);
}
