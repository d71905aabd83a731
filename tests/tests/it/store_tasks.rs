//! Plans whose tasks upload to a server that speaks S3: the set is that of one process, whatever is killed or run twice,
//! and nothing is left over.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tfr_examples::trips_path;
use tfr_tests::{Fault, Operation, Run, S3Server, SECRET_KEY, Scratch, finish, run};

/// Ways to arrange the rows, and whether the tasks sort them first.
const ARRANGEMENTS: [(&str, &[&str], bool); 8] = [
    ("rows", &["--shard-rows", "300", "--compression", "gzip"], false),
    ("size", &["--shard-size", "40kB", "--emit", "stats,index"], false),
    ("ordered", &["--shards", "3"], false),
    ("shuffle", &["--shuffle", "--seed", "3", "--shards", "6"], true),
    ("count", &["--shards", "5", "--emit", "index"], true),
    ("split", &["--split", "train=0.8,val=0.2", "--split-by", "zone_id", "--partition-by", "city"], true),
    ("arrays", &["--shard-rows", "300", "--record-format", "array_record", "--emit", "stats"], false),
    ("array groups", &["--shuffle", "--shards", "3", "--record-format", "array_record", "--compression", "zstd"], true),
];

/// Files of trips, a server, and a directory for sorted rows.
struct Job {
    scratch: Scratch,
    server: S3Server,
}

impl Job {
    fn new() -> Self {
        let (scratch, server) = (Scratch::default(), S3Server::default());
        for directory in ["trips", "sorted"] {
            fs::create_dir(scratch.join(directory)).unwrap();
        }
        for copy in 0..3 {
            fs::copy(trips_path(), scratch.join("trips").join(format!("{copy}.parquet"))).unwrap();
        }
        Self { scratch, server }
    }

    fn write(&self, name: &str, key: &str, arguments: &[&str]) -> Command {
        let order = if name == "ordered" { " ORDER BY trip_id, fare, distance_km" } else { "" };
        let trips = self.scratch.join("trips");
        let mut command = self.server.tfr_sql();
        command
            .arg(format!("SELECT * FROM '{}/*.parquet' WHERE fare > 8{order}", trips.display()))
            .args(["--out", &self.server.url(key), "--partitions", "3", "--quiet"])
            .args(arguments);
        command
    }

    /// Plans tasks, and returns the plan file and the number of tasks.
    fn plan(&self, name: &str, key: &str, arguments: &[&str], sorts: bool) -> (PathBuf, u32) {
        let file = self.scratch.join(format!("{name}.tfrplan"));
        let mut command = self.write(name, key, arguments);
        command.arg("--plan").arg(&file);
        if sorts {
            command.arg("--scratch").arg(self.scratch.join("sorted"));
        }
        run(&mut command).success();
        let plan = fs::read(&file).unwrap();
        let text = String::from_utf8_lossy(&plan);
        assert!(!text.contains(SECRET_KEY));
        let header: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        (file, header["tasks"].as_u64().unwrap() as u32)
    }

    fn task(&self, plan: &Path, index: u32) -> Command {
        let mut command = self.server.tfr_sql();
        command.arg("task").arg(plan).args(["--index", &index.to_string(), "--threads", "1", "--quiet"]);
        command
    }

    fn tool(&self, name: &str, plan: &Path) -> Command {
        let mut command = self.server.tfr_sql();
        command.arg(name).arg(plan).arg("--quiet");
        command
    }

    /// Every object below a key with its bytes; of the manifest, without what differs between any two runs.
    fn set(&self, key: &str) -> Vec<(String, Vec<u8>)> {
        let mut found = Vec::new();
        for object in self.server.keys() {
            let Some(name) = object.strip_prefix(key) else { continue };
            let mut bytes = self.server.object(&object);
            if name == "_manifest.json" {
                let mut manifest: Value = serde_json::from_slice(&bytes).unwrap();
                for key in ["run", "created", "manifest_crc32c"] {
                    assert!(!manifest[key].take().is_null(), "{key}");
                }
                bytes = manifest.to_string().into_bytes();
            }
            found.push((name.to_owned(), bytes));
        }
        found
    }

    #[track_caller]
    fn assert_same_set(&self, found: &str, expected: &str) {
        let (found, expected) = (self.set(found), self.set(expected));
        let names = |set: &[(String, Vec<u8>)]| set.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&found), names(&expected));
        for ((name, found), (_, expected)) in found.iter().zip(&expected) {
            assert!(found == expected, "{name} differs");
        }
    }

    /// Nothing is left but, after a kill, uploads without a part: their ids were never seen.
    #[track_caller]
    fn assert_no_leftovers(&self, killed: bool) {
        let hidden: Vec<_> = self.server.keys().into_iter().filter(|key| key.contains(".tfr-")).collect();
        assert!(hidden.is_empty(), "{hidden:?}");
        assert!(killed || self.server.open_uploads().is_empty(), "{:?}", self.server.open_uploads());
        assert_eq!(self.server.open_parts(), 0);
        assert_eq!(fs::read_dir(self.scratch.join("sorted")).unwrap().count(), 0);
    }

    /// Plans a set and runs all of its tasks.
    fn staged(&self, key: &str, arguments: &[&str]) -> PathBuf {
        let (plan, tasks) = self.plan("rows", key, arguments, false);
        for index in 0..tasks {
            run(&mut self.task(&plan, index)).success();
        }
        plan
    }
}

fn spawn(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Kills a command once a condition holds, and returns its exit code.
fn kill_when(command: &mut Command, condition: impl Fn() -> bool) -> Option<i32> {
    let mut child = spawn(command);
    while !condition() && child.try_wait().unwrap().is_none() {
        // Without a pause this takes the core that the command and the server need.
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    finish(child)
}

#[test]
fn tasks_upload_the_set_of_one_process() {
    let job = Job::new();
    for (name, arguments, sorts) in ARRANGEMENTS {
        let (alone, together) = (format!("alone/{name}/"), format!("together/{name}/"));
        run(&mut job.write(name, &alone, arguments)).success();
        let (plan, tasks) = job.plan(name, &together, arguments, sorts);
        assert_eq!(tasks, if name == "ordered" { 1 } else { 3 }, "{name}");
        for index in (0..tasks).rev() {
            run(&mut job.task(&plan, index)).success();
        }
        if sorts {
            run(&mut job.tool("cut", &plan)).success();
            // The last one is left to the end.
            for index in 0..tasks - 1 {
                run(&mut job.task(&plan, index)).success();
            }
        }
        let url = job.server.url(&together);
        let early = run(job.server.tfr_sql().arg(format!("SELECT * FROM '{url}'"))).exits_with(1);
        assert!(early.stderr.contains("no file to read in this directory"), "{name}: {}", early.stderr);
        assert!(!job.server.open_uploads().is_empty(), "{name}");
        run(&mut job.tool("finish", &plan)).success();
        job.assert_same_set(&together, &alone);
        job.assert_no_leftovers(false);
        let again = run(&mut job.tool("finish", &plan)).success();
        assert!(again.stdout.is_empty(), "{name}: {}", again.stdout);
        run(job.server.tfr_sql().args(["verify", &url])).success();
    }
}

#[test]
fn store_tasks_killed_and_repeated_leave_no_trace() {
    let job = Job::new();
    for (name, arguments, sorts) in [ARRANGEMENTS[1], ARRANGEMENTS[3]] {
        let (alone, together) = (format!("alone/{name}/"), format!("together/{name}/"));
        run(&mut job.write(name, &alone, arguments)).success();
        let (plan, tasks) = job.plan(name, &together, arguments, sorts);
        let mut killed = Vec::new();
        for step in 0..if sorts { 2 } else { 1 } {
            for index in 0..tasks {
                // One is killed as soon as it uploads or keeps sorted rows, two run at the same time.
                job.server.delay(Duration::from_millis(20));
                let (keys, uploads) = (job.server.keys().len(), job.server.open_uploads().len());
                killed.push(kill_when(&mut job.task(&plan, index), || match sorts && step == 0 {
                    true => job.server.keys().len() > keys,
                    false => job.server.open_uploads().len() > uploads,
                }));
                job.server.delay(Duration::ZERO);
                let mut twice = [0, 1].map(|_| spawn(&mut job.task(&plan, index)));
                for child in &mut twice {
                    assert!(child.wait().unwrap().success(), "{name}: task {index}");
                }
            }
            if sorts && step == 0 {
                run(&mut job.tool("cut", &plan)).success();
            }
        }
        assert!(killed.contains(&None), "{name}: no task was killed: {killed:?}");
        run(&mut job.tool("finish", &plan)).success();
        job.assert_same_set(&together, &alone);
        job.assert_no_leftovers(true);
    }
}

#[test]
fn tasks_that_fail_or_are_stopped_abort_their_uploads() {
    let job = Job::new();
    let (plan, _) = job.plan("rows", "out/", &["--shard-rows", "100"], false);
    let before = job.server.keys();
    job.server.fail(Operation::UploadPart, 2, Fault::Echo);
    let failed = run(&mut job.task(&plan, 0)).exits_with(1);
    assert!(failed.stderr.contains("refuses access: 403") && !failed.stderr.contains(SECRET_KEY), "{}", failed.stderr);
    assert!(job.server.open_uploads().is_empty(), "{:?}", job.server.open_uploads());
    assert_eq!(job.server.keys(), before);

    job.server.delay(Duration::from_millis(20));
    let mut child = spawn(&mut job.task(&plan, 0));
    while job.server.open_uploads().is_empty() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    let _: Run = run(Command::new("sh").args(["-c", &format!("kill -s TERM {}", child.id())]));
    assert_eq!(finish(child), Some(143));
    job.server.delay(Duration::ZERO);
    assert!(job.server.open_uploads().is_empty(), "{:?}", job.server.open_uploads());
    assert_eq!(job.server.keys(), before);
    run(&mut job.tool("abandon", &plan)).success();
    job.assert_no_leftovers(false);
}

#[test]
fn store_tasks_retry_transient_failures() {
    let job = Job::new();
    let arguments = ["--shard-rows", "300"];
    run(&mut job.write("rows", "alone/", &arguments)).success();
    let (plan, tasks) = job.plan("rows", "out/", &arguments, false);
    for (operation, fault) in [
        (Operation::Head, Fault::slow_down()),
        (Operation::Put, Fault::ResetAfter),
        (Operation::UploadPart, Fault::slow_down()),
        (Operation::CreateUpload, Fault::slow_down()),
    ] {
        job.server.fail(operation, job.server.count(operation) + 1, fault);
    }
    for index in 0..tasks {
        run(&mut job.task(&plan, index)).success();
    }
    for (operation, fault) in [
        (Operation::List, Fault::slow_down()),
        (Operation::Get, Fault::slow_down()),
        (Operation::Put, Fault::ResetAfter),
        (Operation::CompleteUpload, Fault::ResetAfter),
        (Operation::AbortUpload, Fault::slow_down()),
    ] {
        job.server.fail(operation, job.server.count(operation), fault);
    }
    run(&mut job.tool("finish", &plan)).success();
    job.assert_same_set("out/", "alone/");
    job.assert_no_leftovers(false);
}

#[test]
fn store_plan_waits_for_its_tasks_and_can_be_abandoned() {
    let job = Job::new();
    for (name, arguments, sorts) in [ARRANGEMENTS[0], ARRANGEMENTS[3]] {
        let (plan, _) = job.plan(name, "out/", arguments, sorts);
        run(&mut job.task(&plan, 1)).success();
        let missing = run(&mut job.tool("finish", &plan)).exits_with(75);
        assert_eq!(missing.stderr.trim_end(), "error: not reported: tasks 0, 2", "{name}");
        // One that nobody knows of.
        let uploads = job.server.open_uploads().len();
        job.server.delay(Duration::from_millis(20));
        kill_when(&mut job.task(&plan, 0), || job.server.open_uploads().len() > uploads);
        job.server.delay(Duration::ZERO);

        let copy = plan.with_extension("copy");
        fs::copy(&plan, &copy).unwrap();
        run(&mut job.tool("abandon", &plan)).success();
        assert!(!plan.exists(), "{name}");
        for tool in ["task", "finish"] {
            let mut command = if tool == "task" { job.task(&copy, 0) } else { job.tool(tool, &copy) };
            let ended = run(&mut command).exits_with(1);
            assert!(ended.stderr.contains("already been published or aborted"), "{name}, {tool}: {}", ended.stderr);
        }
        job.assert_no_leftovers(true);
        assert_eq!(job.server.keys(), Vec::<String>::new(), "{name}");
        run(&mut job.tool("abandon", &copy)).success();
    }
}

#[test]
fn a_publication_that_is_killed_or_fails_is_finished_later() {
    let job = Job::new();
    for (mode, step) in [("error", 13), ("overwrite", 29), ("append", 31)] {
        let arguments = ["--shard-rows", "500", "--emit", "index", "--mode", mode];
        let prepare = |key: &str| {
            if mode != "error" {
                run(&mut job.write("rows", key, &["--shard-rows", "900"])).success();
            }
        };
        let alone = format!("{mode}/alone/");
        prepare(&alone);
        run(&mut job.write("rows", &alone, &arguments)).success();
        let expected = rows(&job, &alone);
        for (round, requests) in (2..).step_by(step).enumerate() {
            let key = format!("{mode}/{requests}/");
            prepare(&key);
            let before = rows(&job, &key);
            let plan = job.staged(&key, &arguments);
            let started = job.server.received();
            job.server.delay(Duration::from_millis(3));
            let code = kill_when(&mut job.tool("finish", &plan), || job.server.received() >= started + requests);
            job.server.delay(Duration::ZERO);
            let place = format!("{mode}: killed at request {requests}, exit {code:?}");
            let found = rows(&job, &key);
            assert!(found == expected || (found == before && code.is_none()), "{place}: {found:?}");
            if code == Some(0) {
                break;
            }
            if round % 2 == 0 {
                run(&mut job.tool("finish", &plan)).success();
            } else {
                // Two at a time.
                let start = |_| job.tool("finish", &plan).stderr(Stdio::piped()).spawn().unwrap();
                let ended = [0, 1].map(start).map(|child| child.wait_with_output().unwrap());
                let errors = ended.each_ref().map(|output| String::from_utf8_lossy(&output.stderr));
                assert!(ended.iter().any(|output| output.status.success()), "{place}: {errors:?}");
            }
            run(job.server.tfr_sql().args(["verify", &job.server.url(&key)])).success();
            assert_eq!(rows(&job, &key), expected, "{place}");
            job.assert_no_leftovers(true);
        }
    }
}

#[test]
fn an_unfinished_publication_can_be_abandoned() {
    let job = Job::new();
    for number in 0..3 {
        let plan = job.staged("out/", &["--shard-rows", "500"]);
        job.server.fail(Operation::CompleteUpload, job.server.count(Operation::CompleteUpload) + number, Fault::Echo);
        run(&mut job.tool("finish", &plan)).exits_with(1);
        assert!(job.server.keys().contains(&"out/_manifest.json".to_owned()));
        assert_eq!(rows(&job, "out/"), None);
        run(&mut job.tool("abandon", &plan)).success();
        job.assert_no_leftovers(false);
        assert_eq!(job.server.keys(), Vec::<String>::new());
    }
}

#[test]
fn store_tasks_keep_replace_or_append_by_mode() {
    let job = Job::new();
    let write = |mode: &str| {
        let plan = job.staged("out/", &["--shard-rows", "500", "--mode", mode]);
        let written = run(&mut job.tool("finish", &plan));
        if written.code != Some(0) {
            run(&mut job.tool("abandon", &plan)).success();
        }
        written
    };
    write("error").success();
    let once = rows(&job, "out/");
    let again = run(job.write("rows", "out/", &["--shard-rows", "500", "--plan"]).arg(job.scratch.join("no")));
    assert!(again.exits_with(1).stderr.contains("s3://data/out/: not empty"));
    run(job.write("rows", "out/", &["--mode", "ignore", "--plan"]).arg(job.scratch.join("no"))).success();
    assert!(!job.scratch.join("no").exists());
    write("append").success();
    assert_eq!(rows(&job, "out/"), once.map(|rows| 2 * rows));
    write("overwrite").success();
    assert_eq!(rows(&job, "out/"), once);
    job.assert_no_leftovers(false);

    // Another run appends in between.
    let plan = job.staged("out/", &["--shard-rows", "500", "--mode", "append"]);
    run(&mut job.write("rows", "out/", &["--mode", "append"])).success();
    let superseded = run(&mut job.tool("finish", &plan)).exits_with(1);
    assert!(superseded.stderr.contains("s3://data/out/"), "{}", superseded.stderr);
    run(&mut job.tool("abandon", &plan)).success();
    assert_eq!(rows(&job, "out/"), once.map(|rows| 2 * rows));
    job.assert_no_leftovers(false);
}

#[test]
fn store_tasks_with_a_damaged_report_are_run_again() {
    let job = Job::new();
    let arguments = ["--shard-rows", "500"];
    run(&mut job.write("rows", "alone/", &arguments)).success();
    let plan = job.staged("out/", &arguments);
    let is_of_first = |key: &String| key.contains("/00000.") && key.ends_with(".report");
    let report = job.server.keys().into_iter().find(is_of_first).unwrap();
    job.server.put(&report, "{");
    let damaged = run(&mut job.tool("finish", &plan)).exits_with(1);
    assert!(damaged.stderr.contains("task 0 must be run again"), "{}", damaged.stderr);
    run(&mut job.task(&plan, 0)).success();
    run(&mut job.tool("finish", &plan)).success();
    job.assert_same_set("out/", "alone/");
    job.assert_no_leftovers(false);
}

/// The number of rows of a set, if there is a whole one.
fn rows(job: &Job, key: &str) -> Option<u64> {
    let query = format!("SELECT count(*) FROM '{}'", job.server.url(key));
    let read = run(job.server.tfr_sql().args([&query, "--format", "csv", "--quiet"]));
    if read.code == Some(0) {
        return read.stdout.lines().nth(1).map(|count| count.parse().unwrap());
    }
    let is_none = ["is not complete", "no such file", "no file to read"].iter().any(|why| read.stderr.contains(why));
    assert!(is_none, "{}", read.stderr);
    None
}

#[test]
fn store_tasks_abandoned_for_a_day_are_removed() {
    const HOUR: Duration = Duration::from_secs(60 * 60);
    let job = Job::new();
    run(&mut job.write("rows", "out/", &["--shard-rows", "500"])).success();
    let keys = job.server.keys();
    let (new, grown) =
        (job.staged("new/", &["--shard-rows", "500"]), job.plan("append", "out/", &["--mode", "append"], false).0);
    run(&mut job.task(&grown, 0)).success();
    let verify = |key: &str| {
        let url = job.server.url(key);
        run(job.server.tfr_sql().args(["verify", "--remove-leftovers", "--quiet", &url, "--report", "json"]))
    };
    let removed = |verified: &Run| {
        let report: Value = serde_json::from_str(&verified.stdout).unwrap();
        report["removed"].as_array().unwrap().len()
    };
    // Live.
    job.server.age("", 23 * HOUR);
    let staged = job.server.keys();
    assert_eq!(removed(&verify("out/").success()), 0);
    assert_eq!(job.server.keys(), staged);
    job.server.age("", HOUR);
    // Somebody has gone on with one of them.
    run(&mut job.task(&grown, 1)).success();
    assert_eq!(removed(&verify("out/").success()), 0);
    assert_eq!(removed(&verify("new/").success()), 1);
    assert_eq!(removed(&verify("out/").success()), 0);
    run(&mut job.tool("abandon", &new)).success();
    job.server.age("", 24 * HOUR);
    assert_eq!(removed(&verify("out/").success()), 1);
    job.assert_no_leftovers(false);
    assert_eq!(job.server.keys(), keys);
}

#[test]
fn store_tasks_need_a_scratch_directory_to_sort() {
    let job = Job::new();
    let plan = job.scratch.join("plan");
    let refused = run(job.write("shuffle", "out/", &["--shuffle", "--plan"]).arg(&plan)).exits_with(1);
    insta::assert_snapshot!(refused.stderr.trim_end(), @r"
    error: tasks have to sort the rows of this set, and an object store has no place for sorted rows

    hint: give a directory that all machines see for these rows: --scratch DIR
    ");
    let mut missing = job.write("shuffle", "out/", &["--shuffle", "--plan"]);
    let missing = run(missing.arg(&plan).args(["--scratch", "/nowhere"])).exits_with(1);
    assert!(missing.stderr.contains("/nowhere"), "{}", missing.stderr);
    assert!(!plan.exists());
    assert_eq!(job.server.keys(), Vec::<String>::new());
}
