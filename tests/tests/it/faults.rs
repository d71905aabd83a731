//! What a run that cannot succeed leaves behind: nothing that a reader would take for data.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use serde_json::Value;
use tfr_tests::{Run, Scratch, finish, read_file, read_shards, repository, run, shard_files, tfr_sql};

use crate::checker::assert_empty;

mod calls;
mod disks;
mod finishes;
mod outputs;
mod pairs;

/// More rows than any test waits for, and no file to read them from.
const ENDLESS: &str = "SELECT value, value * 2 AS double FROM generate_series(1, 100000000000)";

fn write(query: &str, out: &Path) -> Command {
    let mut command = tfr_sql();
    command.arg(query).arg("--out").arg(out);
    command
}

fn integers(rows: impl Iterator<Item = i64>) -> RecordBatch {
    RecordBatch::try_from_iter([("d", Arc::new(Int64Array::from_iter_values(rows)) as ArrayRef)]).unwrap()
}

/// A directory beside which nothing else lies, so that a hidden sibling would show too.
fn target(scratch: &Scratch) -> (PathBuf, PathBuf) {
    let parent = scratch.join("target");
    fs::create_dir(&parent).unwrap();
    (parent.join("shards"), parent)
}

#[test]
fn division_by_zero_in_the_last_partition() {
    let scratch = Scratch::default();
    let (out, parent) = target(&scratch);
    for part in 0..3 {
        scratch.parquet(&format!("in/{part}.parquet"), &integers(1..=5_000), 1_000);
    }
    scratch.parquet("in/3.parquet", &integers((1..5_000).chain([0])), 1_000);
    let query = format!("SELECT 100 / d AS ratio FROM '{}'", scratch.join("in").display());
    let failed = run(write(&query, &out).args(["--threads", "4", "--shards", "8"])).exits_with(1);
    assert!(failed.stderr.to_lowercase().contains("by zero"), "{}", failed.stderr);
    assert_empty(&parent);
}

/// One bit of the last of four shards, far behind what other threads have written already.
#[test]
fn a_flipped_bit_in_the_last_shard() {
    let scratch = Scratch::default();
    let (out, parent) = target(&scratch);
    let shards = scratch.join("in");
    run(write("SELECT value, value AS again FROM generate_series(1, 400000)", &shards).args(["--shards", "4"]))
        .success();
    let last = shard_files(&shards).pop().unwrap();
    let place = format!("part-00003-of-00004.tfrecord: record {} at byte ", read_file(&last).len() - 1);
    let mut bytes = fs::read(&last).unwrap();
    let flipped = bytes.len() - 10;
    bytes[flipped] ^= 1;
    fs::write(&last, bytes).unwrap();
    let query = format!("SELECT * FROM '{}'", shards.display());
    for arguments in [&["--threads", "4"][..], &["--threads", "1", "--shard-rows", "1000", "--compression", "gzip"]] {
        let failed = run(write(&query, &out).args(arguments)).exits_with(1);
        assert!(failed.stderr.contains(&place), "{}", failed.stderr);
        assert_empty(&parent);
    }
}

/// The last page of `bad_checksum.parquet` differs from what was written in one bit; only its checksum tells.
#[test]
fn a_page_with_a_bad_checksum() {
    let scratch = Scratch::default();
    let (out, parent) = target(&scratch);
    let table = repository().join("tests/data/bad_checksum.parquet");
    let failed = run(&mut write(&format!("SELECT * FROM '{}'", table.display()), &out)).exits_with(1);
    assert!(failed.stderr.contains("bad_checksum.parquet"), "{}", failed.stderr);
    assert_empty(&parent);
}

/// The names of staged directories contain that of the target, which may be as long as a file system allows.
#[test]
fn targets_have_names_of_any_length() {
    let scratch = Scratch::default();
    let (_, parent) = target(&scratch);
    fs::write(scratch.join("in.csv"), "value\n".to_owned() + &"7\n".repeat(100)).unwrap();
    let query = &format!("SELECT value FROM '{}'", scratch.join("in.csv").display());
    for len in [217, 218, 230, 255] {
        let name = format!("{}{}", "é".repeat(100), "x".repeat(len - 200));
        for out in [parent.join(&name), parent.join(name[..name.len() - 8].to_owned() + ".parquet")] {
            run(&mut write(query, &out)).success();
            run(write(query, &out).args(["--mode", "overwrite"])).success();
            if !out.is_dir() {
                continue;
            }
            run(write(query, &out).args(["--mode", "append"])).success();
            assert_eq!(read_shards(&out).len(), 200);
            run(tfr_sql().arg("verify").arg(&out)).success();
            // What a killed run leaves has the shortened name, too.
            let plan = scratch.join("p.tfrplan");
            let planned = scratch.join(format!("plan-{len}"));
            fs::create_dir(&planned).unwrap();
            let next = planned.join(out.file_name().unwrap());
            run(write(query, &next).args(["--plan"]).arg(&plan).args(["--shards", "1"])).success();
            let staged: Vec<_> = fs::read_dir(&planned).unwrap().map(|entry| entry.unwrap().path()).collect();
            assert_eq!(staged.len(), 1, "{staged:?}");
            let kept = planned.join("kept");
            fs::rename(&staged[0], &kept).unwrap();
            fs::create_dir(&staged[0]).unwrap();
            fs::write(staged[0].join("00000-00000.staged"), "").unwrap();
            run(&mut write(query, &next)).success();
            let left = run(tfr_sql().arg("verify").arg(&next)).exits_with(1);
            assert!(left.stdout.contains("which was killed"), "{}", left.stdout);
            run(tfr_sql().args(["verify", "--remove-leftovers"]).arg(&next)).success();
            assert!(!staged[0].exists());
            fs::remove_file(&plan).unwrap();
        }
    }
}

/// A disk that fills up, told by a limit on the size of files.
#[test]
fn a_file_that_cannot_grow() {
    let scratch = Scratch::default();
    let (out, parent) = target(&scratch);
    // `ulimit -f` counts blocks of 512 or 1024 bytes. The signal is ignored, so that the write fails instead.
    let line = "trap '' XFSZ; ulimit -f 512; exec \"$@\"";
    let failed = run(wrap(Command::new("sh").args(["-c", line, "sh"]), &write(ENDLESS, &out))).exits_with(1);
    assert!(failed.stderr.contains("File too large"), "{}", failed.stderr);
    assert_empty(&parent);
}

/// A disk that is full, and is its own mount point: the set is staged inside it.
#[test]
fn a_full_disk() {
    if Command::new("unshare").arg("--version").output().is_err() {
        println!("skipped: unshare is not there");
        return;
    }
    let scratch = Scratch::default();
    let disk = scratch.join("disk");
    fs::create_dir(&disk).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=2m tmpfs '{disk}' || exit 99; \"$@\"; code=$?; ls -A '{disk}' | sed 's/^/left: /'; exit $code",
        disk = disk.display()
    );
    for out in [disk.join("shards"), disk.clone()] {
        let mut private = Command::new("unshare");
        private.args(["--mount", "--map-root-user"]);
        let failed = run(wrap(private.args(["sh", "-c", &script, "sh"]), &write(ENDLESS, &out)));
        if failed.code == Some(99) || failed.stderr.contains("unshare") {
            println!("skipped: no mount of our own: {}", failed.stderr.trim());
            return;
        }
        let failed = failed.exits_with(1);
        assert!(failed.stderr.contains("No space left on device"), "{}", failed.stderr);
        assert!(!failed.stdout.contains("left: "), "{}", failed.stdout);
    }
}

/// A process that may open few files fails at each of its steps in turn.
#[test]
fn no_file_can_be_opened() {
    for name in ["shards", "x.csv", "x.parquet/"] {
        let mut outcomes = [0; 2];
        for files in 4..36 {
            let scratch = Scratch::default();
            let (_, parent) = target(&scratch);
            let write = write("SELECT 1 AS one", &parent.join("new").join(name));
            let line = format!("ulimit -n {files}; exec \"$@\"");
            let mut limited = Command::new("sh");
            wrap(limited.args(["-c", &line, "sh"]), &write).env("TMPDIR", scratch.path());
            let ended = run(limited.args(["--threads", "1"]));
            let succeeded = ended.code == Some(0);
            let names: Vec<_> = scratch.listing().into_iter().filter(|name| name.starts_with("tfr-sql-")).collect();
            assert_eq!(names, [""; 0], "{files} files: {}", ended.stderr);
            outcomes[usize::from(succeeded)] += 1;
            if !succeeded {
                assert_empty(&parent);
            }
        }
        assert!(outcomes.iter().all(|count| *count > 0), "{outcomes:?}");
    }
}

/// In a directory that can be written to and not read, names cannot be made durable: what is there by then is said to be.
#[test]
fn a_directory_that_cannot_be_synced() {
    let scratch = Scratch::default();
    let (_, parent) = target(&scratch);
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    fs::set_permissions(scratch.path(), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&parent, Permissions::from_mode(0o333)).unwrap();
    for name in ["x.csv", "shards"] {
        let write = write("SELECT 1 AS one", &parent.join(name));
        // Nothing is forbidden to root.
        let arguments = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        let failed = match is_root {
            true => run(wrap(Command::new("setpriv").args(arguments), &write)),
            false => run(Command::new(write.get_program()).args(write.get_args()).current_dir(repository())),
        };
        if failed.stderr.contains("setpriv:") {
            println!("skipped: {}", failed.stderr.trim());
            break;
        }
        let failed = failed.success();
        assert!(
            failed.stderr.contains("written completely, but finishing up failed")
                && failed.stderr.contains("Permission denied"),
            "{}",
            failed.stderr
        );
        assert!(parent.join(name).exists());
    }
    fs::set_permissions(&parent, Permissions::from_mode(0o755)).unwrap();
    let staged: Vec<_> = scratch.listing().into_iter().filter(|name| is_staging(name)).collect();
    assert!(staged.is_empty(), "{staged:?}");
}

#[test]
fn interrupt_and_termination_leave_nothing() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let scratch = Scratch::default();
        let (out, parent) = target(&scratch);
        let child = spawn(&mut write(ENDLESS, &out));
        until(|| has_staged_bytes(&scratch));
        kill(signal, &child);
        assert_eq!(finish(child), Some(code), "SIG{signal}");
        assert_empty(&parent);
    }
}

#[test]
fn leftovers_are_reported_and_removed() {
    let scratch = Scratch::default();
    let (out, parent) = target(&scratch);
    let child = spawn(&mut write(ENDLESS, &out));
    until(|| has_staged_bytes(&scratch));
    kill("KILL", &child);
    assert_eq!(finish(child), None);
    assert!(!out.exists(), "a part of a set is visible");
    let left: Vec<_> = scratch.listing().into_iter().filter(|name| is_staging(name)).collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let leftover = Path::new(&left[0]).file_name().unwrap().to_str().unwrap();

    let reported = run(&mut write("SELECT 1 AS one", &out)).success();
    assert!(reported.stderr.contains(leftover), "{}", reported.stderr);
    assert_eq!(set_rows(&out), Some(1));

    let removed = run(write("SELECT 1 AS one UNION ALL SELECT 2", &out).args(["--mode", "overwrite"])).success();
    assert!(removed.stderr.contains(leftover), "{}", removed.stderr);
    assert_eq!(set_rows(&out), Some(2));
    let names: Vec<_> = fs::read_dir(&parent).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["shards"]);
}

/// Killed at every change that can be seen from outside, a run that replaces a set leaves the old one or the new one,
/// whole; one that writes where there was none leaves nothing, or the set. The next run clears up.
#[test]
fn write_killed_at_every_step_leaves_old_or_new() {
    let (old, new) = (numbers(3), numbers(5));
    killed_at_every_step(&new, &[Some(3), Some(5)], |out| {
        run(write(&old, out).args(["--mode", "overwrite"])).success();
    });
    killed_at_every_step(&new, &[None, Some(5)], |_| {});
    killed_at_every_step(&new, &[None, Some(5)], |out| fs::create_dir(out).unwrap());
}

/// Kills a run one visible step later each time, from the state that `prepare` makes, until it is the quicker one for
/// some times in a row: on a busy machine steps go by unseen.
fn killed_at_every_step(query: &str, allowed: &[Option<usize>], prepare: impl Fn(&Path)) {
    let (mut step, mut quicker) = (0, 0);
    while quicker < 3 {
        let scratch = Scratch::default();
        let (out, _) = target(&scratch);
        prepare(&out);
        let command = || {
            let mut command = write(query, &out);
            command.args(["--mode", "overwrite", "--shards", "3"]);
            command
        };
        let code = kill_after_changes(&scratch, spawn(&mut command()), step);
        let rows = set_rows(&out);
        assert!(allowed.contains(&rows), "step {step}: {rows:?} rows in {:?}", scratch.listing());
        match code {
            None => (step, quicker) = (step + 1, 0),
            Some(code) => {
                assert_eq!((code, rows), (0, Some(5)), "step {step}");
                quicker += 1;
            }
        }
        run(&mut command()).success();
        assert_eq!(set_rows(&out), Some(5), "after step {step}");
        let left: Vec<_> = scratch.listing().into_iter().filter(|name| is_staging(name)).collect();
        assert!(left.is_empty(), "after step {step}: {left:?}");
    }
}

fn numbers(rows: usize) -> String {
    format!("SELECT value FROM generate_series(1, {rows})")
}

/// The rows of a set by its manifest, which must agree with the shards; nothing where there is no set.
fn set_rows(out: &Path) -> Option<usize> {
    if !out.join("_SUCCESS").exists() {
        return None;
    }
    let manifest: Value = serde_json::from_reader(File::open(out.join("_manifest.json")).unwrap()).unwrap();
    let listed: Vec<_> =
        manifest["shards"].as_array().unwrap().iter().map(|shard| shard["path"].as_str().unwrap()).collect();
    let found: Vec<_> =
        shard_files(out).iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(listed, found);
    let rows = read_shards(out).len();
    assert_eq!(manifest["totals"]["rows"], rows);
    Some(rows)
}

/// Kills a process after `steps` changes of what lies in the directory, and gives its exit code if it was quicker.
fn kill_after_changes(scratch: &Scratch, mut child: Child, steps: usize) -> Option<i32> {
    let mut last = scratch.listing();
    let mut seen = 0;
    while seen < steps {
        if child.try_wait().unwrap().is_some() {
            break;
        }
        let now = scratch.listing();
        if now != last {
            seen += 1;
            last = now;
        }
        thread::yield_now();
    }
    kill("KILL", &child);
    finish(child)
}

fn is_staging(name: &str) -> bool {
    Path::new(name).file_name().is_some_and(|name| name.to_string_lossy().starts_with(".tfr-"))
}

/// Whether a shard that is not yet part of a set holds anything.
fn has_staged_bytes(scratch: &Scratch) -> bool {
    let staged = scratch.listing().into_iter().filter(|name| name.split('/').any(|part| part.starts_with(".tfr-")));
    staged.map(|name| scratch.join(name)).any(|path| path.is_file() && path.metadata().is_ok_and(|file| file.len() > 0))
}

/// Waits for something to happen.
#[track_caller]
fn until(happened: impl Fn() -> bool) {
    let started = Instant::now();
    while !happened() {
        assert!(started.elapsed() < Duration::from_secs(60), "did not happen");
        thread::sleep(Duration::from_millis(5));
    }
}

fn spawn(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn kill(signal: &str, child: &Child) {
    // The process may be gone already; its exit code tells.
    let _: Run = run(Command::new("sh").args(["-c", &format!("kill -s {signal} {}", child.id())]));
}

/// The command as the last arguments of another.
fn wrap<'a>(outer: &'a mut Command, inner: &Command) -> &'a mut Command {
    outer.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    outer.arg(inner.get_program()).args(inner.get_args()).current_dir(repository())
}

/// Whether more is asked for than what every commit must pass.
fn is_long() -> bool {
    std::env::var("FAULTS").is_ok_and(|asked| asked == "all")
}
