//! Sets that a Ballista cluster uploads to a server that speaks S3. `tests/cluster/run` builds the command with
//! `--cluster` and runs this; `TFR_CLUSTER_BIN` is its path.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tfr_examples::trips_path;
use tfr_tests::{Fault, Operation, S3Server, Scratch, run};

const ARRANGEMENTS: [(&str, &[&str], bool); 4] = [
    ("rows", &["--shard-rows", "300", "--compression", "gzip"], false),
    ("shuffle", &["--shuffle", "--seed", "3", "--shards", "6"], true),
    ("count", &["--shards", "5", "--emit", "index"], true),
    ("split", &["--split", "train=0.8,val=0.2", "--split-by", "zone_id", "--partition-by", "city"], true),
];

/// The command with a cluster, and the server's credentials in its environment.
fn command(server: &S3Server) -> Command {
    let program = std::env::var_os("TFR_CLUSTER_BIN").expect("TFR_CLUSTER_BIN is the path of the command");
    let mut command = Command::new(program);
    for (name, value) in server.tfr_sql().get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
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

impl Process {
    fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A scheduler and two executors, with the credentials of a server.
struct Cluster<'a> {
    server: &'a S3Server,
    scratch: Scratch,
    address: String,
    executors: Vec<Process>,
    _scheduler: Process,
}

impl<'a> Cluster<'a> {
    fn new(server: &'a S3Server) -> Self {
        let scratch = Scratch::default();
        for directory in ["trips", "sorted"] {
            fs::create_dir(scratch.join(directory)).unwrap();
        }
        for copy in 0..4 {
            fs::copy(trips_path(), scratch.join("trips").join(format!("{copy}.parquet"))).unwrap();
        }
        let mut scheduler = command(server);
        scheduler.args(["scheduler", "--bind", "127.0.0.1:0", "--executor-timeout", "10"]);
        let (scheduler, line) = Process::start(&mut scheduler);
        let address = line.rsplit(' ').next().unwrap().to_owned();
        let mut cluster = Self { server, scratch, address, executors: Vec::new(), _scheduler: scheduler };
        (0..2).for_each(|_| cluster.add_executor());
        cluster
    }

    fn add_executor(&mut self) {
        let ports = ["--port", "0", "--task-port", "0", "--threads", "1"];
        let mut executor = command(self.server);
        executor.args(["executor", "--scheduler", &self.address]).args(ports);
        self.executors.push(Process::start(&mut executor).0);
    }

    /// A write in one process.
    fn alone(&self, key: &str, arguments: &[&str]) -> Command {
        let query = format!("SELECT * FROM '{}/*.parquet' WHERE fare > 8", self.scratch.join("trips").display());
        let mut command = command(self.server);
        command.args([&query, "--out", &self.server.url(key), "--quiet"]).args(arguments);
        command
    }

    /// The same on the cluster.
    fn together(&self, key: &str, arguments: &[&str], sorts: bool) -> Command {
        let mut command = self.alone(key, arguments);
        command.args(["--cluster", &self.address]);
        if sorts {
            command.arg("--scratch").arg(self.scratch.join("sorted"));
        }
        command
    }

    /// The objects of a set, apart from the manifest.
    fn objects(&self, prefix: &str) -> BTreeMap<String, Vec<u8>> {
        let keys = self.server.keys().into_iter();
        let shards = keys.filter(|key| key.starts_with(prefix) && !key.ends_with("_manifest.json"));
        shards.map(|key| (key[prefix.len()..].to_owned(), self.server.object(&key))).collect()
    }

    #[track_caller]
    fn assert_no_leftovers(&self, case: &str) {
        let hidden: Vec<_> = self.server.keys().into_iter().filter(|key| key.contains(".tfr-")).collect();
        assert!(hidden.is_empty(), "{case}: {hidden:?}");
        // After a kill there may be uploads without a part, whose ids nobody has seen.
        assert_eq!(self.server.open_parts(), 0, "{case}");
        assert_eq!(fs::read_dir(self.scratch.join("sorted")).unwrap().count(), 0, "{case}");
    }
}

#[test]
#[ignore = "needs the command with a cluster: tests/cluster/run"]
fn executors_upload_the_set_of_one_process() {
    let server = S3Server::default();
    let mut cluster = Cluster::new(&server);
    for executors in [1, 2, 3] {
        cluster.executors.truncate(executors);
        while cluster.executors.len() < executors {
            cluster.add_executor();
        }
        for (name, arguments, sorts) in ARRANGEMENTS {
            let arguments = [&["--partitions", "3"], arguments].concat();
            let keys = ["alone", "together"].map(|parent| format!("{parent}/{executors}/{name}/"));
            run(&mut cluster.alone(&keys[0], &arguments)).success();
            run(&mut cluster.together(&keys[1], &arguments, sorts)).success();
            let [alone, together] = keys.map(|key| cluster.objects(&key));
            assert!(alone.keys().eq(together.keys()), "{name} by {executors}: {:?}", together.keys());
            assert!(alone == together, "{name} by {executors}: other bytes");
            cluster.assert_no_leftovers(name);
        }
    }
    assert_eq!(server.open_uploads(), Vec::<String>::new());
}

#[test]
#[ignore = "needs the command with a cluster: tests/cluster/run"]
fn uploads_of_killed_executors_are_aborted() {
    let server = S3Server::default();
    let mut cluster = Cluster::new(&server);
    for (name, arguments, sorts) in [ARRANGEMENTS[0], ARRANGEMENTS[1]] {
        let arguments = [&["--partitions", "3"], arguments].concat();
        run(&mut cluster.alone(&format!("alone/{name}/"), &arguments)).success();
        for operation in [Operation::CreateUpload, Operation::UploadPart] {
            let (case, key) = (format!("{name}, {operation:?}"), format!("together/{name}/{operation:?}/"));
            let seen = server.count(operation);
            server.delay(Duration::from_millis(20));
            let mut driver = Process(cluster.together(&key, &arguments, sorts).spawn().unwrap());
            until(&mut driver, || server.count(operation) > seen + 1);
            drop(cluster.executors.remove(0));
            server.delay(Duration::ZERO);
            assert!(driver.0.wait().unwrap().success(), "{case}");
            assert!(cluster.objects(&key) == cluster.objects(&format!("alone/{name}/")), "{case}: other bytes");
            cluster.assert_no_leftovers(&case);
            cluster.add_executor();
        }
    }
}

#[test]
#[ignore = "needs the command with a cluster: tests/cluster/run"]
fn uploads_of_a_killed_driver_are_removed_after_a_day() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let server = S3Server::default();
    let mut cluster = Cluster::new(&server);
    let (name, arguments, sorts) = ARRANGEMENTS[1];
    let arguments = [&["--partitions", "3"], arguments].concat();
    run(&mut cluster.alone("alone/", &arguments)).success();
    let expected = cluster.objects("alone/");
    for (operation, number) in [
        (Operation::CreateUpload, 0),
        (Operation::UploadPart, 1),
        (Operation::CompleteUpload, 0),
        (Operation::CompleteUpload, 2),
        (Operation::CompleteUpload, 5),
    ] {
        let (case, key) = (format!("{name}, {operation:?} {number}"), format!("{operation:?}/{number}/"));
        let seen = server.count(operation);
        server.delay(Duration::from_millis(20));
        let mut driver = Process(cluster.together(&key, &arguments, sorts).spawn().unwrap());
        until(&mut driver, || server.count(operation) > seen + number);
        driver.kill();
        server.delay(Duration::ZERO);
        cluster.executors.clear();
        server.age(&key, DAY);
        let sorted = cluster.scratch.join("sorted");
        expire_leases(&sorted);
        let is_left = fs::read_dir(&sorted).unwrap().next().is_some();
        let scratch = is_left.then(|| sorted.display().to_string());
        for place in scratch.into_iter().chain([server.url(&key)]) {
            run(server.tfr_sql().args(["verify", "--remove-leftovers", "--quiet", &place])).success();
        }
        cluster.assert_no_leftovers(&case);
        let found = cluster.objects(&key);
        assert!(found.is_empty() || found == expected, "{case}: {:?}", found.keys());
        (0..2).for_each(|_| cluster.add_executor());
        run(cluster.together(&key, &arguments, sorts).args(["--mode", "overwrite"])).success();
        assert!(cluster.objects(&key) == expected, "{case}: other bytes");
        cluster.assert_no_leftovers(&case);
    }
}

#[test]
#[ignore = "needs the command with a cluster: tests/cluster/run"]
fn a_task_runs_again_if_the_store_fails_for_long() {
    /// More than the tries of one request.
    const TRIES: usize = 12;
    let server = S3Server::default();
    let cluster = Cluster::new(&server);
    // A single part in a single upload.
    let arguments = ["--partitions", "1"];
    run(&mut cluster.alone("alone/", &arguments)).success();
    let (parts, uploads) = (server.count(Operation::UploadPart), server.count(Operation::CreateUpload));
    assert_eq!((parts, uploads), (1, 1));
    for number in parts..parts + TRIES {
        server.fail(Operation::UploadPart, number, Fault::slow_down());
    }
    run(&mut cluster.together("together/", &arguments, false)).success();
    assert!(server.count(Operation::CreateUpload) > uploads + 1, "no task ran again");
    assert!(cluster.objects("together/") == cluster.objects("alone/"));
    cluster.assert_no_leftovers("503");
}

/// Waits until a condition holds. The process must not end before.
#[track_caller]
fn until(process: &mut Process, condition: impl Fn() -> bool) {
    while !condition() {
        assert_eq!(process.0.try_wait().unwrap(), None, "ended too early");
        std::thread::yield_now();
    }
}

/// Lets the leases of all runs that keep sorted rows in a directory expire.
fn expire_leases(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            expire_leases(&path);
        } else if path.ends_with("lease") {
            fs::write(path, "2026-01-01T00:00:00Z").unwrap();
        }
    }
}
