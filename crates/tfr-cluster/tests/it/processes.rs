//! The processes of a cluster, and the sets that they write.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

pub const PARTITIONS: &str = "4";

/// A way to arrange the rows: its name, and the arguments.
pub type Arrangement = (&'static str, &'static [&'static str]);

pub const ARRANGEMENTS: [Arrangement; 6] = [
    ("rows", &["--shard-rows", "300", "--compression", "gzip"]),
    ("count", &["--shards", "5", "--emit", "stats,index"]),
    ("shuffle", &["--shuffle", "--seed", "3", "--shards", "6"]),
    ("split", &["--split", "train=0.8,val=0.2", "--split-by", "zone_id", "--shards", "train=3,val=2"]),
    ("ranks", &["--map", "city: index", "--map", "zone_name: index"]),
    ("directories", &["--partition-by", "city", "--shard-rows", "200"]),
];

pub fn tfr_sql() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tfr-sql"));
    command.env_remove("RUST_LOG");
    command
}

/// A process that is killed at the end of a test.
pub struct Process(pub Child);

impl Process {
    /// Starts a command, whose messages nobody reads.
    pub fn spawn(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Starts a process, and returns it with its first line.
    pub fn start(command: &mut Command) -> (Self, String) {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        // A full pipe would stop the process.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| eprintln!("{line}")));
        (Self(child), line)
    }

    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A scheduler and its executors, with files to read.
pub struct Cluster {
    dir: TempDir,
    pub scheduler: Process,
    pub address: String,
    pub executors: Vec<Process>,
    pub environment: Environment,
}

/// Variables of an environment.
pub type Environment = Vec<(&'static str, PathBuf)>;

/// Starts a scheduler, and returns it with its address.
pub fn start_scheduler(address: &str, environment: &Environment) -> (Process, String) {
    let mut scheduler = tfr_sql();
    scheduler.envs(environment.clone());
    let (scheduler, line) =
        Process::start(scheduler.args(["scheduler", "--bind", address, "--executor-timeout", "10"]));
    (scheduler, line.rsplit(' ').next().unwrap().to_owned())
}

impl Cluster {
    pub fn new(executors: usize) -> Self {
        Self::with_environment(executors, Environment::new())
    }

    pub fn with_environment(executors: usize, environment: Environment) -> Self {
        let dir = TempDir::new().unwrap();
        let trips = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/trips.parquet");
        fs::create_dir(dir.path().join("trips")).unwrap();
        for copy in 0..8 {
            fs::copy(&trips, dir.path().join("trips").join(format!("{copy}.parquet"))).unwrap();
        }
        let (scheduler, address) = start_scheduler("127.0.0.1:0", &environment);
        let mut cluster = Self { dir, scheduler, address, environment, executors: Vec::new() };
        (0..executors).for_each(|_| cluster.add_executor());
        cluster
    }

    pub fn add_executor(&mut self) {
        self.add_executor_in(&std::env::temp_dir());
    }

    /// Starts an executor that has its exchanged rows in a directory below this one.
    pub fn add_executor_in(&mut self, temporary: &Path) {
        let mut executor = tfr_sql();
        executor.envs(self.environment.clone());
        executor.args(["executor", "--scheduler", &self.address, "--port", "0", "--task-port", "0", "--threads", "1"]);
        executor.args(["--memory-limit", "1GiB"]).arg("--temp-dir").arg(temporary);
        self.executors.push(Process::start(&mut executor).0);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The pattern of the trips, quoted.
    pub fn trips(&self) -> String {
        format!("'{}/*.parquet'", self.path("trips").display())
    }

    pub fn query(&self) -> String {
        let zones = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/zones.csv");
        format!(
            "SELECT t.*, z.zone AS zone_name FROM {} t JOIN '{}' z ON t.zone_id = z.zone_id WHERE fare > 8",
            self.trips(),
            zones.display()
        )
    }

    /// A write in one process.
    pub fn alone(&self, query: &str, out: &Path, arguments: &[&str]) -> Command {
        let mut command = tfr_sql();
        command.arg(query).arg("--out").arg(out).args(["--partitions", PARTITIONS, "--quiet"]).args(arguments);
        command
    }

    pub fn local(&self, query: &str, out: &Path, arguments: &[&str]) -> Output {
        self.alone(query, out, arguments).output().unwrap()
    }

    /// The same on the cluster.
    pub fn command(&self, query: &str, out: &Path, arguments: &[&str]) -> Command {
        let mut command = self.alone(query, out, arguments);
        command.args(["--cluster", &self.address]).envs(self.environment.clone());
        command
    }

    /// The files in the directory of outputs.
    pub fn names(&self, dir: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(dir)).into_iter().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

#[track_caller]
pub fn assert_done(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Every file of a set with its bytes, apart from the manifest.
pub fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
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
pub fn assert_same_files(name: &str, found: &Path, expected: &Path) {
    let (found, expected) = (files(found), files(expected));
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{name}");
    for (file, bytes) in found {
        assert!(bytes == expected[&file], "{name}: {file} differs");
    }
}

/// The sorted rows of a set, as lines.
pub fn rows(set: &Path) -> Vec<String> {
    let query = format!("SELECT * FROM '{}'", set.display());
    let output = tfr_sql().args([&query, "--format", "jsonl"]).output().unwrap();
    assert_done(&output);
    let mut lines: Vec<_> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}
