//! Errors and kills at the system calls of a run, by strace. `FAULTS=all tests/run -E 'test(faults::)' --no-capture` tries every
//! call, and every error at each.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use tfr_tests::{Scratch, run, shard_files, tfr_sql};

use super::outputs::{Ending, OUTPUTS, Tally, Trial};
use super::{is_long, wrap};

/// Calls that change something. strace counts those of each thread.
const CHANGES: &str = "mkdir,rename,renameat2,unlink,unlinkat,rmdir,fsync,fdatasync,ftruncate,fallocate,linkat,flock,chmod,\
                       fchmod,write,pwrite64";

/// Calls that find something out, or go before a change: most of a process are of other files, so these are counted where they
/// are of the target, its parents, or its manifest. `close` is not among them: an error of it, which no file system has for what
/// was read only, Rust's library passes over for files and panics at for directories.
const LOOKS: &str = "openat,statx,getdents64";

const ERRORS: [&str; 3] = ["ENOSPC", "EIO", "EACCES"];

/// Of so many calls, the short form tries one.
const STRIDE: usize = 11;

/// The n-th call of this name in a thread.
pub type Point = (bool, String, usize);

#[test]
fn outputs_survive_errors_of_system_calls() {
    try_outputs(Ending::Error);
}

#[test]
fn outputs_survive_kills_at_system_calls() {
    try_outputs(Ending::Kill);
}

/// Whether runs can be traced; says so if not.
pub fn has_strace() -> bool {
    let tried = Command::new("strace").args(["-f", "--seccomp-bpf", "-e", "trace=none", "true"]).output();
    let has = tried.is_ok_and(|run| run.status.success());
    if !has {
        println!("skipped: strace is not there, or not permitted");
    }
    has
}

/// A panic, which an error of `closedir` provokes, ends as one error and with the exit code of a run that failed.
#[test]
fn a_panic_is_an_error() {
    if !has_strace() {
        return;
    }
    let scratch = Scratch::default();
    let out = scratch.join("set");
    run(tfr_sql().args(["SELECT 1 AS one", "--out"]).arg(&out)).success();
    let mut strace = Command::new("strace");
    strace.args(["-f", "-e", "trace=close", "-e", "signal=none", "--inject=close:error=EIO:when=1", "-P"]).arg(&out);
    let failed = run(wrap(strace.arg("-o").arg(scratch.join("log")), tfr_sql().arg("verify").arg(&out))).exits_with(1);
    let lines: Vec<_> = failed.stderr.lines().filter(|line| !line.starts_with("strace: ")).collect();
    assert!(lines[0].starts_with("error: internal error: unexpected error during closedir"), "{lines:#?}");
    assert_eq!(lines[1..], ["", "hint: this is a bug; please report it with what -v prints"]);
}

/// A file whose metadata a network disk does not return is not taken for one that is gone.
#[test]
fn a_listed_file_that_cannot_be_examined_is_an_error() {
    if !has_strace() {
        return;
    }
    let scratch = Scratch::default();
    fs::create_dir_all(scratch.join("d/p=1")).unwrap();
    let file = scratch.join("d/p=1/b.csv");
    for name in ["a", "b", "c"] {
        fs::write(scratch.join(format!("d/p=1/{name}.csv")), "a\n1\n").unwrap();
    }
    let count = |injection: &str, place: &str| {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-e", "trace=statx", "-e", "signal=none", &format!("--inject=statx:{injection}"), "-P"]);
        strace.arg(&file).arg("-o").arg(scratch.join("log"));
        let query = format!("SELECT count(*) AS n FROM '{}'", scratch.join(place).display());
        run(wrap(&mut strace, tfr_sql().arg(query).args(["--format", "csv"])))
    };
    let whole = count("error=EIO:when=9999", "d").success();
    assert_eq!(whole.stdout, "n\n3\n");
    for (place, error) in [("d", "EIO"), ("d", "ESTALE"), ("d/*/*.csv", "EIO"), ("d/**/b.csv", "ESTALE")] {
        for when in ["1", "1+"] {
            let refused = count(&format!("error={error}:when={when}"), place).exits_with(1);
            assert!(refused.stderr.contains("b.csv: cannot be "), "{place}: {}", refused.stderr);
        }
    }
}

/// The scan of record boundaries reads first. If it passed over an error, the file would be read in one piece, and its rows
/// in another order.
#[test]
fn an_error_while_a_file_of_records_is_divided_is_an_error() {
    if !has_strace() {
        return;
    }
    let scratch = Scratch::default();
    let set = scratch.join("set");
    let query = "SELECT value, repeat('x', 1000) AS text FROM generate_series(1, 12000)";
    run(tfr_sql().args([query, "--shards", "1", "--out"]).arg(&set)).success();
    let file = scratch.join("a.tfrecord");
    fs::rename(&shard_files(&set)[0], &file).unwrap();
    let read = |injection: &str| {
        let mut strace = Command::new("strace");
        strace.args(["-f", "-e", "trace=pread64", "-e", "signal=none", &format!("--inject=pread64:{injection}"), "-P"]);
        strace.arg(&file).arg("-o").arg(scratch.join("log"));
        let query = format!("SELECT value FROM '{}'", file.display());
        let settings = ["--format", "csv", "--threads", "2", "--partitions", "2"];
        run(wrap(&mut strace, tfr_sql().arg(query).args(settings)))
    };
    let whole = read("error=EIO:when=9999").success();
    assert_eq!(whole.stdout.lines().count(), 12_001);
    let reads = fs::read_to_string(scratch.join("log")).unwrap().matches("pread64(").count();
    for when in 1..=reads.min(12) {
        // strace counts the calls of each thread.
        let failed = read(&format!("error=EIO:when={when}"));
        let is_injected = fs::read_to_string(scratch.join("log")).unwrap().contains("INJECTED");
        if is_injected && failed.code != Some(0) {
            let refused = failed.exits_with(1);
            assert!(refused.stderr.contains("a.tfrecord"), "{when}: {}", refused.stderr);
            continue;
        }
        // The bytes of a failed read may not have been needed: a reader that looks ahead ends with the last row.
        let rows = failed.success().stdout;
        let mut rows: Vec<u32> = rows.lines().skip(1).map(|row| row.parse().unwrap()).collect();
        rows.sort_unstable();
        assert!(rows.iter().copied().eq(1..=12_000), "{when}");
    }
}

fn try_outputs(ending: Ending) {
    if !has_strace() {
        return;
    }
    let mut tally = Tally::default();
    for (number, output) in OUTPUTS.into_iter().enumerate() {
        let trial = Trial::new(output);
        let mut points: Vec<_> = points(&trial, false).into_iter().chain(points(&trial, true)).collect();
        if !is_long() {
            // And all syncs of those that are added to: after one of them is the commit, behind which something is removed.
            let is_added_to = ["appended to sidecars", "replaced partitions"].contains(&output.name);
            let is_sync = |point: &Point| is_added_to && point.1 == "fsync";
            let mut index = number % STRIDE;
            points.retain(|point| {
                index += 1;
                index.is_multiple_of(STRIDE) || is_sync(point)
            });
        }
        for (index, point) in points.iter().enumerate() {
            let errors = if is_long() { &ERRORS[..] } else { &ERRORS[index % ERRORS.len()..][..1] };
            let injections: Vec<_> = match ending {
                // Threads wake each other by writes, which do not fail. What fails for files, full disks show.
                Ending::Error if point.1.contains("write") => Vec::new(),
                Ending::Error => errors.iter().map(|error| format!("error={error}")).collect(),
                Ending::Kill => vec!["signal=KILL".to_owned()],
            };
            for injection in injections {
                tally.count(&point.1);
                if let Err(problem) = try_point(&trial, point, &injection, ending) {
                    tally.fault(&format!("{}, {injection} at {point:?}: {problem}", output.name));
                }
            }
        }
    }
    tally.finish(&format!("{ending:?}"));
}

fn try_point(trial: &Trial, point: &Point, injection: &str, ending: Ending) -> Result<(), String> {
    let (looks, call, number) = point;
    trial.reset();
    let ended = run(&mut strace(trial, *looks, &[&format!("--inject={call}:{injection}:when={number}")]));
    let log = fs::read_to_string(trial.path("log")).unwrap();
    let hit: String = log.lines().filter(|line| line.contains("INJECTED")).map(|line| format!("\n{line}")).collect();
    let removes = ["unlink", "unlinkat", "rmdir", "getdents64", "openat"].contains(&call.as_str());
    let judged = trial.judge(&ended, ending, removes).and_then(|()| match ending {
        Ending::Error => trial.clear(),
        // With what was left, or without it.
        Ending::Kill if number % 2 == 0 => trial.clear().and_then(|()| trial.once_more()),
        Ending::Kill => trial.once_more().and_then(|()| trial.clear()),
    });
    judged.map_err(|problem| format!("{problem}{hit}"))
}

/// The calls that are of the target, and not preceded by one of something else that strace would take for the same: it
/// counts the calls of each thread.
pub fn points(trial: &Trial, looks: bool) -> BTreeSet<Point> {
    trial.reset();
    let _traced = run(&mut strace(trial, looks, &[])).success();
    let (mut counts, mut met) = (BTreeMap::new(), BTreeSet::new());
    let mut points = BTreeSet::new();
    let work = trial.work();
    for line in fs::read_to_string(trial.path("log")).unwrap().lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let Some((name, _)) = call.trim_start().split_once('(') else { continue };
        if name.starts_with(['<', '+', '-']) {
            continue;
        }
        let count: &mut usize = counts.entry((thread.to_owned(), name.to_owned())).or_default();
        *count += 1;
        let is_first = met.insert((name.to_owned(), *count));
        if is_first && line.contains(work.to_str().unwrap()) {
            points.insert((looks, name.to_owned(), *count));
        }
    }
    points
}

pub fn strace(trial: &Trial, looks: bool, arguments: &[&str]) -> Command {
    let mut strace = Command::new("strace");
    let calls = if looks { LOOKS } else { CHANGES };
    strace.args(["-f", "-y", "--seccomp-bpf", "-e", "signal=none", "-e", &format!("trace={calls}"), "-o"]);
    strace.arg(trial.path("log")).args(arguments);
    if looks {
        let (work, out) = (trial.work(), trial.out());
        let parents = out.ancestors().take_while(|path| path.starts_with(&work));
        let names = ["_manifest.json", "_SUCCESS", ""].map(|name| out.join(name));
        for path in parents.map(Path::to_owned).chain(names) {
            strace.arg("-P").arg(path);
        }
    }
    wrap(&mut strace, &trial.command());
    strace
}
