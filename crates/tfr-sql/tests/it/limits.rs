//! Many shards and directories with few file handles and little memory.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tfrecord_shards::{Manifest, SetState, check};

use crate::workbench::{Workbench, tell};

/// Runs the command in a shell that lets a process open so many files.
fn run_with_handles(bench: &Workbench, handles: usize, arguments: &[&str]) -> Output {
    let plain = bench.command(arguments);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {handles} && exec \"$0\" \"$@\"")]);
    command.arg(plain.get_program()).args(plain.get_args());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(directory) = plain.get_current_dir() {
        command.current_dir(directory);
    }
    command.output().unwrap()
}

/// Every shard, in order: its path and its bytes.
fn shards(out: &Path) -> Vec<(String, Vec<u8>)> {
    let read = |path: String| (path.clone(), fs::read(out.join(path)).unwrap());
    Manifest::read(out).unwrap().shards.into_iter().map(|shard| read(shard.path)).collect()
}

#[test]
fn a_handful_of_files_is_too_few_to_start() {
    let bench = Workbench::new();
    for handles in [5, 6, 7, 8] {
        assert_eq!(
            tell(&run_with_handles(&bench, handles, &["SELECT 1"])),
            "exit 2\n-- stderr\nerror: cannot start the watch for requests to stop\n  cause: Too many open files (os error 24)\n",
            "{handles}"
        );
    }
}

#[test]
fn five_thousand_directories_need_no_more_than_256_files() {
    let bench = Workbench::new();
    let query = "SELECT value AS id, value % 5000 AS bucket, repeat('x', CAST(value % 50 AS INT)) AS text \
                 FROM generate_series(0, 59999)";
    let mut sets = Vec::new();
    for (out, limit) in [("small", "16MiB"), ("large", "1GiB")] {
        let arguments = [query, "--out", out, "--partition-by", "bucket", "--memory-limit", limit, "--quiet"];
        let output = run_with_handles(&bench, 256, &arguments);
        assert_eq!(tell(&output), "exit 0\n");
        let out = bench.path().join(out);
        let SetState::Whole(manifest) = check(&out).unwrap() else { panic!("not whole") };
        assert_eq!((manifest.shards.len(), manifest.totals.rows), (5000, 60_000));
        assert!(manifest.shards.iter().all(|shard| shard.rows == 12));
        sets.push(shards(&out));
    }
    assert!(sets[0] == sets[1]);
    let count = "SELECT count(*) AS n, min(id) AS first, max(id) AS last FROM 'small/' WHERE bucket = 4711";
    let output = run_with_handles(&bench, 256, &[count, "--format", "csv"]);
    assert_eq!(tell(&output), "exit 0\n-- stdout\nn,first,last\n12,4711,59711\n");
}

#[test]
fn thousand_shards_respect_memory_and_file_limits() {
    let bench = Workbench::new();
    let query = "SELECT value AS id, repeat('x', CAST(value % 100 AS INT)) AS text FROM generate_series(0, 39999)";
    for compression in ["none", "gzip"] {
        let mut sets = Vec::new();
        for (limit, handles) in [("8GiB", 1500), ("256MiB", 1500), ("8GiB", 256), ("16MiB", 256)] {
            let out = format!("{compression}-{limit}-{handles}");
            let options = ["--shards", "1000", "--compression", compression, "--memory-limit", limit, "--quiet"];
            let output = run_with_handles(&bench, handles, &[&[query, "--out", &out], options.as_slice()].concat());
            assert_eq!(tell(&output), "exit 0\n", "{out}");
            sets.push(shards(&bench.path().join(out)));
        }
        assert_eq!(sets[0].len(), 1000);
        assert!(sets.iter().all(|set| *set == sets[0]), "{compression}");
    }
}
