//! Sets that a cluster of processes writes are those of one process, whatever is killed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may panic and print"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

const PARTITIONS: &str = "4";

/// Ways to arrange the rows.
const ARRANGEMENTS: [(&str, &[&str]); 5] = [
    ("rows", &["--shard-rows", "300", "--compression", "gzip"]),
    ("count", &["--shards", "5", "--emit", "stats,index"]),
    ("shuffle", &["--shuffle", "--seed", "3", "--shards", "6"]),
    ("split", &["--split", "train=0.8,val=0.2", "--split-by", "zone_id", "--shards", "train=3,val=2"]),
    ("directories", &["--partition-by", "city", "--shard-rows", "200"]),
];

fn tfr_sql() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tfr-sql"));
    command.env_remove("RUST_LOG");
    command
}

/// A process that is killed at the end of a test.
struct Process(Child);

impl Process {
    /// Starts a process, and returns it with its first line.
    fn start(command: &mut Command) -> (Self, String) {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        // A full pipe would stop the process.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| eprintln!("{line}")));
        (Self(child), line)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A scheduler and its executors, with files to read.
struct Cluster {
    dir: TempDir,
    scheduler: Process,
    address: String,
    executors: Vec<Process>,
}

impl Cluster {
    fn new(executors: usize) -> Self {
        let dir = TempDir::new().unwrap();
        let trips = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/trips.parquet");
        fs::create_dir(dir.path().join("trips")).unwrap();
        for copy in 0..8 {
            fs::copy(&trips, dir.path().join("trips").join(format!("{copy}.parquet"))).unwrap();
        }
        let mut scheduler = tfr_sql();
        scheduler.args(["scheduler", "--bind", "127.0.0.1:0", "--executor-timeout", "10"]);
        let (scheduler, line) = Process::start(&mut scheduler);
        let address = line.rsplit(' ').next().unwrap().to_owned();
        let mut cluster = Self { dir, scheduler, address, executors: Vec::new() };
        (0..executors).for_each(|_| cluster.add_executor());
        cluster
    }

    fn add_executor(&mut self) {
        let mut executor = tfr_sql();
        executor.args(["executor", "--scheduler", &self.address, "--port", "0", "--task-port", "0", "--threads", "1"]);
        self.executors.push(Process::start(&mut executor).0);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The pattern of the trips, quoted.
    fn trips(&self) -> String {
        format!("'{}/*.parquet'", self.path("trips").display())
    }

    fn query(&self) -> String {
        let zones = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/zones.csv");
        format!(
            "SELECT t.*, z.zone AS zone_name FROM {} t JOIN '{}' z ON t.zone_id = z.zone_id WHERE fare > 8",
            self.trips(),
            zones.display()
        )
    }

    fn local(&self, query: &str, out: &Path, arguments: &[&str]) -> Output {
        let mut command = tfr_sql();
        command.arg(query).arg("--out").arg(out).args(["--partitions", PARTITIONS, "--quiet"]).args(arguments);
        command.output().unwrap()
    }

    fn command(&self, query: &str, out: &Path, arguments: &[&str]) -> Command {
        let mut command = tfr_sql();
        command.arg(query).arg("--out").arg(out).args(["--partitions", PARTITIONS, "--quiet"]);
        command.args(["--cluster", &self.address]).args(arguments);
        command
    }

    /// The files in the directory of outputs.
    fn names(&self, dir: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(dir)).into_iter().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

#[track_caller]
fn assert_done(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Every file of a set with its bytes, apart from the manifest.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.file_name().is_some_and(|name| name != "_manifest.json") {
                let name = path.strip_prefix(dir).unwrap().display().to_string();
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

#[track_caller]
fn assert_same_files(name: &str, found: &Path, expected: &Path) {
    let (found, expected) = (files(found), files(expected));
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{name}");
    for (file, bytes) in found {
        assert!(bytes == expected[&file], "{name}: {file} differs");
    }
}

/// The sorted rows of a set, as lines.
fn rows(set: &Path) -> Vec<String> {
    let query = format!("SELECT * FROM '{}'", set.display());
    let output = tfr_sql().args([&query, "--format", "jsonl"]).output().unwrap();
    assert_done(&output);
    let mut lines: Vec<_> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn any_number_of_executors_writes_the_set_of_one_process() {
    for executors in [1, 2, 3] {
        let cluster = Cluster::new(executors);
        for (name, arguments) in ARRANGEMENTS {
            let (alone, together) = (cluster.path("alone").join(name), cluster.path("together").join(name));
            let query = cluster.query();
            assert_done(&cluster.local(&query, &alone, arguments));
            assert_done(&cluster.command(&query, &together, arguments).output().unwrap());
            assert_same_files(&format!("{name} by {executors}"), &together, &alone);
        }
        assert_eq!(cluster.names("together"), cluster.names("alone"), "nothing is left over");
    }
}

#[test]
fn queries_that_exchange_rows_have_the_rows_of_one_process() {
    let cluster = Cluster::new(2);
    let trips = cluster.trips();
    let queries = [
        ("aggregate", format!("SELECT city, count(*) AS n, sum(fare) > 0 AS paid FROM {trips} GROUP BY city")),
        ("distinct", format!("SELECT DISTINCT zone_id, city FROM {trips}")),
        (
            "join",
            format!(
                "SELECT a.trip_id, a.fare, b.n FROM {trips} a JOIN (SELECT trip_id, count(*) AS n FROM {trips} GROUP BY \
                 trip_id) b ON a.trip_id = b.trip_id"
            ),
        ),
        (
            "left join",
            format!(
                "SELECT a.zone_id, b.m FROM (SELECT DISTINCT zone_id FROM {trips}) a LEFT JOIN (SELECT zone_id, \
                 max(trip_id) AS m FROM {trips} WHERE fare > 60 GROUP BY zone_id) b ON a.zone_id = b.zone_id"
            ),
        ),
        ("window", format!("SELECT trip_id, row_number() OVER (PARTITION BY trip_id ORDER BY fare) AS r FROM {trips}")),
        (
            "union",
            format!(
                "SELECT city, count(*) AS n FROM {trips} GROUP BY city UNION ALL SELECT city, -1 FROM {trips} WHERE \
                 fare > 50"
            ),
        ),
        ("top", format!("SELECT trip_id, fare FROM {trips} ORDER BY fare DESC, trip_id LIMIT 10")),
        ("scalar", format!("SELECT trip_id, fare FROM {trips} WHERE fare > (SELECT avg(fare) FROM {trips})")),
        ("one row", format!("SELECT count(*) AS n, max(fare) AS m FROM {trips}")),
    ];
    for (name, query) in queries {
        let (alone, together) = (cluster.path("alone").join(name), cluster.path("together").join(name));
        assert_done(&cluster.local(&query, &alone, &[]));
        let output = cluster.command(&query, &together, &[]).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let (found, expected) = (rows(&together), rows(&alone));
        assert!(!found.is_empty());
        assert!(found == expected, "{name}: {} rows, expected {}", found.len(), expected.len());
    }
}

#[test]
fn an_ordered_query_keeps_its_order() {
    let cluster = Cluster::new(2);
    let query = format!("SELECT trip_id, fare, zone_id FROM {} ORDER BY trip_id, fare, zone_id", cluster.trips());
    let (alone, together) = (cluster.path("alone/set"), cluster.path("together/set"));
    assert_done(&cluster.local(&query, &alone, &["--shard-rows", "5000"]));
    assert_done(&cluster.command(&query, &together, &["--shard-rows", "5000"]).output().unwrap());
    assert_same_files("ordered", &together, &alone);
}

/// Waits until a condition holds, or the child ends.
fn until(child: &mut Child, condition: impl Fn() -> bool) {
    while !condition() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
}

/// The number of files that tasks have begun.
fn begun(out: &Path) -> usize {
    let below = |dir: &Path| -> Vec<PathBuf> {
        fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let staging = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".tfr-"));
    let inner = below(out.parent().unwrap()).into_iter().filter(|path| staging(path)).flat_map(|path| below(&path));
    inner.filter(|path| staging(path)).map(|path| below(&path).len()).sum()
}

/// A query that takes a while: 40 rows for each.
fn long_query(cluster: &Cluster) -> String {
    format!("SELECT *, unnest(range(0, 40)) AS copy FROM {}", cluster.trips())
}

#[test]
fn the_tasks_of_a_killed_executor_run_elsewhere() {
    for (name, arguments) in [ARRANGEMENTS[0], ARRANGEMENTS[2]] {
        let mut cluster = Cluster::new(2);
        let query = long_query(&cluster);
        let (alone, together) = (cluster.path("alone").join(name), cluster.path("together").join(name));
        assert_done(&cluster.local(&query, &alone, arguments));
        let mut driver = cluster.command(&query, &together, arguments).spawn().unwrap();
        until(&mut driver, || begun(&together) > 1);
        drop(cluster.executors.remove(0));
        assert!(driver.wait().unwrap().success(), "{name}");
        assert_same_files(name, &together, &alone);
        assert_eq!(cluster.names("together"), [name], "nothing is left over");
    }
}

#[test]
fn errors_of_workers_are_those_of_one_process() {
    let cluster = Cluster::new(1);
    let query = format!("SELECT CAST(city AS INT) AS n FROM {}", cluster.trips());
    let out = cluster.path("together/set");
    let text = |output: Output| {
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let found = text(cluster.command(&query, &out, &[]).output().unwrap());
    let expected = text(cluster.local(&query, &out, &[]));
    // Which row is the first to fail depends on the order of the tasks.
    let first_word = |text: &str| text.split(['\'', '"']).next().unwrap().to_owned();
    assert_eq!(first_word(&found), first_word(&expected), "{found}");
    assert!(!found.contains("tfr-sql:"), "{found}");
    assert_eq!(cluster.names("together"), Vec::<String>::new());

    let volatile = format!("SELECT *, random() AS r FROM {}", cluster.trips());
    let found = text(cluster.command(&volatile, &out, &[]).output().unwrap());
    assert!(found.starts_with("error: the rows of this query may differ from task to task"), "{found}");
    let trips = cluster.trips();
    let unordered =
        format!("SELECT a.fare FROM {trips} a JOIN (SELECT * FROM {trips} LIMIT 5) b ON a.trip_id = b.trip_id");
    let found = text(cluster.command(&unordered, &out, &[]).output().unwrap());
    assert!(found.contains("LIMIT without ORDER BY chooses rows"), "{found}");
}

#[test]
fn an_interrupted_driver_leaves_nothing() {
    let cluster = Cluster::new(1);
    let out = cluster.path("together/set");
    let mut driver = cluster.command(&long_query(&cluster), &out, &[]).spawn().unwrap();
    until(&mut driver, || begun(&out) > 0);
    let interrupted = Command::new("kill").args(["-INT", &driver.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    assert_eq!(driver.wait().unwrap().code(), Some(130));
    assert_eq!(cluster.names("together"), Vec::<String>::new());
    // The executor is free again.
    let query = format!("SELECT count(*) AS n FROM {}", cluster.trips());
    assert_done(&cluster.command(&query, &out, &[]).output().unwrap());
}

#[test]
fn a_dead_scheduler_is_an_error_to_try_again() {
    let mut cluster = Cluster::new(0);
    let _ = cluster.scheduler.0.kill();
    let _ = cluster.scheduler.0.wait();
    let out = cluster.path("together/set");
    let output = cluster.command(&cluster.query(), &out, &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(75));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.starts_with(&format!("error: {}: the scheduler cannot be reached", cluster.address)), "{text}");
    assert_eq!(cluster.names("together"), Vec::<String>::new());
}
