//! Processes of a cluster that are killed, stopped or interrupted at every phase of a write.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::processes::{
    ARRANGEMENTS, Arrangement, Cluster, PARTITIONS, Process, assert_done, assert_same_files, files, rows,
    start_scheduler, tfr_sql,
};

/// How often each row is read, so that a task takes a while.
const COPIES: u32 = if cfg!(debug_assertions) { 40 } else { 150 };

const ROWS: Arrangement = ("rows", &["--shard-rows", "20000", "--compression", "gzip"]);
const SHUFFLE: Arrangement = ARRANGEMENTS[2];

/// How far a write is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The staging directory is there.
    Planned,
    /// A task has begun a file.
    Begun,
    /// A task is complete.
    Reported,
    /// All tasks that read rows are complete.
    AllReported,
    /// The shards of sorted rows are decided.
    Cut,
    /// A task has begun a shard of sorted rows.
    Sorted,
}

/// The phases of a write that does not sort its rows, and of one that does.
const PHASES: [(Arrangement, &[Phase]); 2] = [
    (ROWS, &[Phase::Planned, Phase::Begun, Phase::Reported, Phase::AllReported]),
    (SHUFFLE, &[Phase::Begun, Phase::Reported, Phase::Cut, Phase::Sorted]),
];

fn long_query(cluster: &Cluster) -> String {
    format!("SELECT *, unnest(range(0, {COPIES})) AS copy FROM {}", cluster.trips())
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The directory in which tasks stage their files, if it is there.
fn attempts(out: &Path) -> Option<PathBuf> {
    let hidden = |dir: &Path| {
        let name = names(dir).into_iter().find(|name| name.starts_with(".tfr-"));
        name.map(|name| dir.join(name))
    };
    // Next to the set, or in it if it is there already.
    [out.parent()?, out].into_iter().find_map(|parent| hidden(&hidden(parent)?))
}

/// The tasks of files with this suffix, and their attempts.
fn with_suffix<'a>(names: &'a [String], suffix: &str) -> BTreeSet<(u32, &'a str)> {
    let parse = |name: &'a String| {
        let (numbers, attempt) = name.strip_suffix(suffix)?.split_once('.')?;
        Some((numbers.split('-').next()?.parse().ok()?, attempt))
    };
    names.iter().filter_map(parse).collect()
}

fn has_reached(phase: Phase, out: &Path) -> bool {
    let Some(attempts) = attempts(out) else { return false };
    let names = names(&attempts);
    let reported = || with_suffix(&names, ".report").into_iter().map(|(task, _)| task).collect::<BTreeSet<_>>();
    let shards = || with_suffix(&names, ".staged");
    match phase {
        Phase::Planned => true,
        Phase::Begun => !shards().is_empty() || names.iter().any(|name| name.starts_with("runs.")),
        Phase::Reported => !reported().is_empty(),
        Phase::AllReported => reported().len() == PARTITIONS.parse::<usize>().unwrap(),
        Phase::Cut => names.iter().any(|name| name == "cut"),
        Phase::Sorted => names.iter().any(|name| name == "cut") && !shards().is_empty(),
    }
}

/// Waits until a condition holds, or the process ends. Returns whether it still runs.
fn until(process: &mut Process, condition: impl Fn() -> bool) -> bool {
    while !condition() && process.0.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    process.0.try_wait().unwrap().is_none()
}

/// Checks that not more than one of some failures came too late.
#[track_caller]
fn assert_in_time(in_time: &[bool]) {
    assert!(in_time.iter().filter(|in_time| !**in_time).count() <= 1, "came too late: {in_time:?}");
}

/// Lets the leases of all runs expire, and removes what is left behind.
fn remove_leftovers(out: &Path) {
    let staging = names(out.parent().unwrap()).into_iter().map(|name| out.with_file_name(name));
    let inner = staging.flat_map(|dir| names(&dir).into_iter().map(move |name| dir.join(name)).collect::<Vec<_>>());
    for dir in inner.chain(attempts(out)) {
        if dir.join("lease").exists() {
            fs::write(dir.join("lease"), "2026-01-01T00:00:00Z").unwrap();
        }
    }
    assert_done(&tfr_sql().args(["verify", "--remove-leftovers", "--quiet"]).arg(out).output().unwrap());
}

#[test]
fn killed_executor_has_its_tasks_rerun_elsewhere() {
    for ((name, arguments), phases) in PHASES {
        let mut cluster = Cluster::new(2);
        let query = long_query(&cluster);
        let alone = cluster.path("alone").join(name);
        assert_done(&cluster.local(&query, &alone, arguments));
        let mut in_time = Vec::new();
        for phase in phases {
            let together = cluster.path("together").join(format!("{phase:?}"));
            let mut driver = Process::spawn(&mut cluster.command(&query, &together, arguments));
            in_time.push(until(&mut driver, || has_reached(*phase, &together)));
            drop(cluster.executors.remove(0));
            assert!(driver.0.wait().unwrap().success(), "{name}, {phase:?}");
            assert_same_files(&format!("{name}, {phase:?}"), &together, &alone);
            cluster.add_executor();
        }
        assert_eq!(cluster.names("together").len(), phases.len(), "nothing is left over");
        assert_in_time(&in_time);
    }
}

/// An executor that has rows of the first of two exchanges is lost while some tasks between the exchanges are complete and
/// others run. A killed one is noticed by its readers, a stopped one by the scheduler's timeout.
#[test]
fn lost_executor_between_two_exchanges_changes_no_rows() {
    for signal in ["KILL", "STOP"] {
        let mut cluster = Cluster::new(0);
        let directories = ["lost", "kept"].map(|name| cluster.path(name));
        for directory in &directories {
            fs::create_dir(directory).unwrap();
            cluster.add_executor_in(directory);
        }
        let keys = format!("SELECT trip_id % 100 AS k FROM {} GROUP BY 1", cluster.trips());
        let copies = format!("SELECT k, unnest(range(0, {})) AS copy FROM ({keys})", COPIES * 2_000);
        let query = format!("SELECT copy % 7 AS m, count(*) AS n, sum(k) AS s FROM ({copies}) GROUP BY 1");
        let (alone, together) = (cluster.path("alone"), cluster.path("together/set"));
        assert_done(&cluster.local(&query, &alone, &["--shards", "1"]));
        let mut driver = Process::spawn(&mut cluster.command(&query, &together, &["--shards", "1"]));
        let [lost, kept] = &directories;
        let in_time = until(&mut driver, || has_task_of_stage(kept, "2"));
        assert!(in_time && has_task_of_stage(lost, "1"), "{signal} came too late");
        cluster.executors[0].signal(signal);
        assert!(driver.0.wait().unwrap().success(), "{signal}");
        assert_eq!(rows(&together), rows(&alone), "{signal}");
        assert_eq!(cluster.names("together"), ["set"], "nothing is left over");
    }
}

/// Whether an executor has written all rows of a task of a stage.
fn has_task_of_stage(temporary: &Path, stage: &str) -> bool {
    let within = |dir: &Path| names(dir).into_iter().map(|name| dir.join(name)).collect::<Vec<_>>();
    let jobs = within(temporary).into_iter().flat_map(|dir| within(&dir));
    let tasks = jobs.flat_map(|job| within(&job.join(stage)));
    tasks.into_iter().any(|task| task.join("data.arrow.index").exists())
}

#[test]
fn resumed_executor_changes_nothing() {
    for (name, arguments) in [ROWS, SHUFFLE] {
        let cluster = Cluster::new(2);
        let query = long_query(&cluster);
        let (alone, together) = (cluster.path("alone").join(name), cluster.path("together").join(name));
        assert_done(&cluster.local(&query, &alone, arguments));
        let mut driver = Process::spawn(&mut cluster.command(&query, &together, arguments));
        assert!(until(&mut driver, || has_reached(Phase::Begun, &together)));
        let stopped = &cluster.executors[0];
        stopped.signal("STOP");
        // Until another attempt has begun, so that there are two at once; or, of sorted rows, until the end.
        until(&mut driver, || {
            let names = attempts(&together).map(|attempts| names(&attempts)).unwrap_or_default();
            let shards = with_suffix(&names, ".staged");
            let tasks: BTreeSet<_> = shards.iter().map(|(task, _)| task).collect();
            tasks.len() < shards.len()
        });
        stopped.signal("CONT");
        assert!(driver.0.wait().unwrap().success(), "{name}");
        assert_same_files(name, &together, &alone);
        // With its help.
        let again = cluster.path("together/again");
        assert_done(&cluster.command(&query, &again, arguments).output().unwrap());
        assert_same_files(name, &again, &alone);
        assert_same_files(name, &together, &alone);
        assert_eq!(cluster.names("together"), ["again", name], "nothing is left over");
    }
}

#[test]
fn a_killed_driver_leaves_the_old_set_or_the_new_one() {
    for ((name, arguments), phases) in PHASES {
        let mut in_time = Vec::new();
        for phase in phases {
            let mut cluster = Cluster::new(2);
            let query = long_query(&cluster);
            let (alone, together) = (cluster.path("alone").join(name), cluster.path("together").join(name));
            assert_done(&cluster.local(&query, &alone, arguments));
            // In every other phase there is an old set.
            let mode: &[&str] = match phase {
                Phase::Begun | Phase::AllReported | Phase::Cut => &["--mode", "overwrite"],
                _ => &[],
            };
            let old = (!mode.is_empty()).then(|| {
                assert_done(&cluster.local(&cluster.query(), &together, arguments));
                files(&together)
            });
            let mut driver = Process::spawn(cluster.command(&query, &together, arguments).args(mode));
            in_time.push(until(&mut driver, || has_reached(*phase, &together)));
            driver.kill();
            cluster.executors.clear();
            remove_leftovers(&together);
            let found = together.exists().then(|| files(&together));
            let is_whole = found == old || found == Some(files(&alone));
            assert!(is_whole, "{name}, {phase:?}: {:?}", found.map(|found| found.into_keys().collect::<Vec<_>>()));
            let expected: &[&str] = if found.is_some() { &[name] } else { &[] };
            assert_eq!(cluster.names("together"), expected, "{phase:?}: nothing is left over");
            // What the scheduler still has of the job does no harm.
            cluster.add_executor();
            let mut again = cluster.command(&query, &together, arguments);
            assert_done(&again.args(["--mode", "overwrite"]).output().unwrap());
            assert_same_files(&format!("{name}, {phase:?}"), &together, &alone);
            assert_eq!(cluster.names("together"), [name], "{phase:?}: nothing is left over");
        }
        assert_in_time(&in_time);
    }
}

#[test]
fn concurrent_cluster_writes_leave_one_set() {
    let cluster = Cluster::new(2);
    let query = long_query(&cluster);
    let (alone, together) = (cluster.path("alone/set"), cluster.path("together/set"));
    assert_done(&cluster.local(&query, &alone, ROWS.1));
    let write = || {
        let mut command = cluster.command(&query, &together, ROWS.1);
        Process::spawn(command.args(["--mode", "overwrite"]))
    };
    let statuses = [write(), write()].map(|mut driver| driver.0.wait().unwrap().success());
    assert!(statuses.contains(&true), "{statuses:?}");
    assert_same_files("set", &together, &alone);
    assert_eq!(cluster.names("together"), ["set"], "nothing is left over");
}

#[test]
fn an_interrupted_driver_leaves_nothing() {
    let cluster = Cluster::new(1);
    let mut in_time = Vec::new();
    for (phase, arguments) in [(Phase::Begun, ROWS.1), (Phase::Sorted, SHUFFLE.1)] {
        let out = cluster.path("together/set");
        let mut driver = Process::spawn(&mut cluster.command(&long_query(&cluster), &out, arguments));
        assert!(until(&mut driver, || has_reached(phase, &out)));
        // Where the tests run in the background, Ctrl-C is ignored.
        driver.signal("TERM");
        let code = driver.0.wait().unwrap().code();
        match code {
            Some(143) => {}
            // It was publishing.
            Some(0) => fs::remove_dir_all(&out).unwrap(),
            code => panic!("{phase:?}: ended with {code:?}"),
        }
        in_time.push(code == Some(143));
        assert_eq!(cluster.names("together"), Vec::<String>::new());
    }
    assert_in_time(&in_time);
    // The executor is free again.
    let query = format!("SELECT count(*) AS n FROM {}", cluster.trips());
    assert_done(&cluster.command(&query, &cluster.path("together/set"), &[]).output().unwrap());
}

#[test]
fn losing_all_executors_is_an_error_to_try_again() {
    let mut cluster = Cluster::new(1);
    let out = cluster.path("together/set");
    let mut command = cluster.command(&long_query(&cluster), &out, ROWS.1);
    let mut driver = Process(command.stderr(Stdio::piped()).spawn().unwrap());
    assert!(until(&mut driver, || has_reached(Phase::Begun, &out)));
    cluster.executors.clear();
    let mut text = String::new();
    driver.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(driver.0.wait().unwrap().code(), Some(75), "{text}");
    assert!(text.contains("the scheduler has lost all executors of the query"), "{text}");
    assert_eq!(cluster.names("together"), Vec::<String>::new());
    // A query that finds none of them is not left to wait, either.
    let output = cluster.command(&cluster.query(), &out, &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(75), "{}", String::from_utf8_lossy(&output.stderr));
    // It runs when there is one again.
    cluster.add_executor();
    assert_done(&cluster.command(&cluster.query(), &out, &[]).output().unwrap());
}

#[test]
fn cluster_errors_equal_those_of_one_process() {
    let cluster = Cluster::new(1);
    let query = format!("SELECT CAST(city AS INT) AS n FROM {}", cluster.trips());
    let out = cluster.path("together/set");
    let text = |command: &mut Command| {
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let found = text(&mut cluster.command(&query, &out, &[]));
    let local = cluster.local(&query, &out, &[]);
    let expected = String::from_utf8(local.stderr).unwrap();
    // Which row is the first to fail depends on the order of the tasks.
    let first_word = |text: &str| text.split(['\'', '"']).next().unwrap().to_owned();
    assert_eq!(first_word(&found), first_word(&expected), "{found}");
    assert!(!found.contains("tfr-sql:"), "{found}");
    assert_eq!(cluster.names("together"), Vec::<String>::new());

    let volatile = format!("SELECT *, random() AS r FROM {}", cluster.trips());
    let found = text(&mut cluster.command(&volatile, &out, &[]));
    assert!(found.starts_with("error: the rows of this query may differ from task to task"), "{found}");
    let trips = cluster.trips();
    let unordered =
        format!("SELECT a.fare FROM {trips} a JOIN (SELECT * FROM {trips} LIMIT 5) b ON a.trip_id = b.trip_id");
    let found = text(&mut cluster.command(&unordered, &out, &[]));
    assert!(found.contains("LIMIT without ORDER BY chooses rows"), "{found}");
}

#[test]
fn a_dead_scheduler_is_an_error_to_try_again() {
    for (restart, message) in [(true, "the scheduler has lost the query"), (false, "the scheduler cannot be reached")] {
        let mut cluster = Cluster::new(1);
        let out = cluster.path("together/set");
        let mut command = cluster.command(&long_query(&cluster), &out, SHUFFLE.1);
        let mut driver = Process(command.stderr(Stdio::piped()).spawn().unwrap());
        assert!(until(&mut driver, || has_reached(Phase::Begun, &out)));
        cluster.scheduler.kill();
        if restart {
            cluster.scheduler = start_scheduler(&cluster.address, &cluster.environment).0;
        }
        let mut text = String::new();
        driver.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(driver.0.wait().unwrap().code(), Some(75), "{text}");
        assert!(text.contains(&format!("error: {}: {message}", cluster.address)), "{text}");
        assert_eq!(cluster.names("together"), Vec::<String>::new());
        if !restart {
            // It is not even there at the start.
            let output = cluster.command(&cluster.query(), &out, &[]).output().unwrap();
            let text = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(75), "{text}");
            assert!(text.starts_with(&format!("error: {}: {message}", cluster.address)), "{text}");
        }
    }
}
