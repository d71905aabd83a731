//! Sets that a Ballista cluster uploads to a server that speaks S3. `tests/cluster/run` builds the command with
//! `--cluster` and runs this; `TFR_CLUSTER_BIN` is its path.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use tfr_examples::trips_path;
use tfr_tests::{S3Server, Scratch, run};

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

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The objects of a set, apart from the manifest.
fn objects(server: &S3Server, prefix: &str) -> BTreeMap<String, Vec<u8>> {
    let keys = server.keys().into_iter().filter(|key| key.starts_with(prefix) && !key.ends_with("_manifest.json"));
    keys.map(|key| (key[prefix.len()..].to_owned(), server.object(&key))).collect()
}

#[test]
#[ignore = "needs the command with a cluster: tests/cluster/run"]
fn executors_upload_the_set_of_one_process() {
    let (scratch, server) = (Scratch::default(), S3Server::default());
    for directory in ["trips", "sorted"] {
        fs::create_dir(scratch.join(directory)).unwrap();
    }
    for copy in 0..4 {
        fs::copy(trips_path(), scratch.join("trips").join(format!("{copy}.parquet"))).unwrap();
    }
    let (_scheduler, line) = Process::start(command(&server).args(["scheduler", "--bind", "127.0.0.1:0"]));
    let address = line.rsplit(' ').next().unwrap();
    let _executors = [0, 1].map(|_| {
        let ports = ["--port", "0", "--task-port", "0", "--threads", "1"];
        Process::start(command(&server).args(["executor", "--scheduler", address]).args(ports)).0
    });
    let query = format!("SELECT * FROM '{}/*.parquet' WHERE fare > 8", scratch.join("trips").display());
    for (name, arguments, sorts) in ARRANGEMENTS {
        let write = |parent: &str| {
            let mut command = command(&server);
            let out = server.url(&format!("{parent}/{name}/"));
            command.args([&query, "--out", &out, "--partitions", "3", "--quiet"]).args(arguments);
            command
        };
        run(&mut write("alone")).success();
        let mut together = write("together");
        together.args(["--cluster", address]);
        if sorts {
            together.arg("--scratch").arg(scratch.join("sorted"));
        }
        run(&mut together).success();
        let [alone, together] = ["alone", "together"].map(|parent| objects(&server, &format!("{parent}/{name}/")));
        assert!(alone.keys().eq(together.keys()), "{name}: {:?}", together.keys());
        assert!(alone == together, "{name}: other bytes");
    }
    assert_eq!(server.open_uploads(), Vec::<String>::new());
    assert_eq!(fs::read_dir(scratch.join("sorted")).unwrap().count(), 0);
}
