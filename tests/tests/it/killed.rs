//! Runs that are killed at any moment, in every mode and arrangement: readers see the set that was there, the new one, or
//! none.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tfr_tests::{Run, Scratch, finish, run, tfr_sql};

/// How many moments each test takes; `KILL_MOMENTS=50` takes more.
const MOMENTS: u32 = 8;

/// How the rows are arranged, each with a few shards to stage and to publish.
const ARRANGEMENTS: [&[&str]; 4] = [
    &["--shards", "5"],
    &["--shards", "5", "--shuffle", "--seed", "3"],
    &["--split", "train=0.8,val=0.2", "--split-by", "value", "--shards", "train=4,val=2"],
    &["--partition-by", "day"],
];

/// Numbers from `first` to `last`, and the day that they belong to.
fn numbers(first: u32, last: u32) -> String {
    format!("SELECT value, concat('d', value % 5) AS day FROM generate_series({first}, {last})")
}

fn write(query: &str, out: &Path, mode: &str, arrangement: &[&str]) -> Command {
    let mut command = tfr_sql();
    command.arg(query).arg("--out").arg(out).args(["--quiet", "--mode", mode]).args(arrangement);
    command
}

/// How many rows there are, of which numbers; nothing where our reader finds no set.
fn rows(out: &Path) -> Option<String> {
    let query = format!("SELECT count(*), count(DISTINCT value), min(value), max(value) FROM '{}'", out.display());
    let read = run(tfr_sql().args([&query, "--quiet", "--format", "csv"]));
    match read.code {
        Some(0) => read.stdout.lines().nth(1).map(str::to_owned),
        _ => {
            assert!(read.stderr.contains("no such") || read.stderr.contains("not complete"), "{}", read.stderr);
            None
        }
    }
}

fn counted(first: u32, last: u32) -> Option<String> {
    let count = last - first + 1;
    Some(format!("{count},{count},{first},{last}"))
}

/// Kills `command` when it has run for so long, and tells how it ended.
fn kill_after(mut command: Command, moment: Duration) -> Option<i32> {
    let started = Instant::now();
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // The moment is what is tested. Whatever it is, the outcome is checked in the same way.
    std::thread::sleep(moment.saturating_sub(started.elapsed()));
    let _: Run = run(Command::new("sh").args(["-c", &format!("kill -s KILL {}", child.id())]));
    finish(child)
}

/// Numbers that look as if they were drawn, the same in every run (splitmix64).
fn drawn(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) as f64 / u64::MAX as f64
}

fn killed_at_moments(mode: &str, before: Option<(u32, u32)>, new: (u32, u32), after: (u32, u32)) {
    let moments = std::env::var("KILL_MOMENTS").ok().and_then(|moments| moments.parse().ok()).unwrap_or(MOMENTS);
    let old = before.and_then(|(first, last)| counted(first, last));
    let whole = counted(after.0, after.1);
    let mut state = u64::from(new.1);
    let mut takes = [None; ARRANGEMENTS.len()];
    for moment in 0..moments {
        let kind = moment as usize % ARRANGEMENTS.len();
        let arrangement = ARRANGEMENTS[kind];
        let scratch = Scratch::default();
        let out = scratch.join("shards");
        let query = numbers(new.0, new.1);
        let prepare = |out: &Path| {
            if let Some((first, last)) = before {
                run(&mut write(&numbers(first, last), out, "error", arrangement)).success();
            }
        };
        let takes = *takes[kind].get_or_insert_with(|| {
            let undisturbed = scratch.join("undisturbed");
            prepare(&undisturbed);
            let started = Instant::now();
            run(&mut write(&query, &undisturbed, mode, arrangement)).success();
            started.elapsed()
        });
        prepare(&out);
        let moment = takes.mul_f64(drawn(&mut state));
        let code = kill_after(write(&query, &out, mode, arrangement), moment);

        let found = rows(&out);
        let shown = format!("killed after {moment:?} of {takes:?}, exit {code:?}: {arrangement:?} {mode}");
        assert!(found == old || found == whole, "{shown}: {found:?}\n{:?}", scratch.listing());
        assert!(code.is_none() || (code == Some(0) && found == whole), "{shown}: {found:?}");
        if found.is_some() {
            run(tfr_sql().args(["verify", "--remove-leftovers"]).arg(&out)).success();
            assert_eq!(rows(&out), found, "{shown}, leftovers removed");
            run(tfr_sql().arg("verify").arg(&out)).success();
        }
        let mode = if found.is_none() { "overwrite" } else { mode };
        if found == old {
            run(&mut write(&query, &out, mode, arrangement)).success();
        }
        assert_eq!(rows(&out), whole, "{shown}, and once more");
        let left: Vec<_> = scratch
            .listing()
            .into_iter()
            .filter(|name| name.split('/').any(|part| part.starts_with(".tfr-")))
            .collect();
        assert!(left.is_empty(), "{shown}: {left:?}");
    }
}

#[test]
fn killed_first_write_leaves_nothing_or_the_set() {
    killed_at_moments("error", None, (1, 4_000), (1, 4_000));
}

#[test]
fn killed_overwrite_leaves_the_old_or_the_new_set() {
    killed_at_moments("overwrite", Some((1, 1_000)), (2_001, 6_000), (2_001, 6_000));
}

#[test]
fn killed_append_leaves_the_old_or_the_longer_set() {
    killed_at_moments("append", Some((1, 1_000)), (1_001, 5_000), (1, 5_000));
}

/// Readers see the table that was there, the new one, or none; what the killed run has left is removed on demand, whether or
/// not a table is there.
#[test]
fn killed_table_write_leaves_no_partial_table() {
    let (old, new) = ((1, 1_000), (2_001, 6_000));
    let targets =
        [("x.parquet", "error"), ("x.csv.gz", "overwrite"), ("x.parquet/", "overwrite"), ("x.arrow/", "error")];
    let mut state = 7;
    for (name, mode) in targets {
        let mut takes = None;
        for _ in 0..MOMENTS / 2 {
            let scratch = Scratch::default();
            let prepare = |out: &Path| {
                if mode == "overwrite" {
                    run(&mut write(&numbers(old.0, old.1), out, "error", &[])).success();
                }
            };
            let takes = *takes.get_or_insert_with(|| {
                let undisturbed = scratch.join("undisturbed").join(name);
                prepare(&undisturbed);
                let started = Instant::now();
                run(&mut write(&numbers(new.0, new.1), &undisturbed, mode, &[])).success();
                started.elapsed()
            });
            let out = scratch.join("new").join(name);
            prepare(&out);
            let moment = takes.mul_f64(drawn(&mut state));
            let code = kill_after(write(&numbers(new.0, new.1), &out, mode, &[]), moment);

            let found = rows(&out);
            let shown = format!("killed after {moment:?} of {takes:?}, exit {code:?}: {name} {mode}");
            let before = if mode == "overwrite" { counted(old.0, old.1) } else { None };
            assert!(found == before || found == counted(new.0, new.1), "{shown}: {found:?}\n{:?}", scratch.listing());
            let is_left = |name: &String| name.split('/').any(|part| part.starts_with(".tfr-"));
            let any_left = scratch.listing().iter().any(is_left);
            let cleared = run(tfr_sql().args(["verify", "--remove-leftovers"]).arg(&out));
            if any_left || out.exists() {
                cleared.success();
            }
            let left: Vec<_> = scratch.listing().into_iter().filter(is_left).collect();
            assert!(left.is_empty(), "{shown}: {left:?}");
            assert_eq!(rows(&out), found, "{shown}, leftovers removed");
        }
    }
}
