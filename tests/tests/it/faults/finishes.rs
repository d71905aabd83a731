//! `finish` of a plan that meets an error, is killed, or is told to end, at each of its system calls in turn: nothing that
//! the tasks have written is lost, and `finish` again gives the set. `FAULTS=all` tries every call.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;
use tfr_tests::{Run, run};

use super::calls::{Point, has_strace, points, strace};
use super::is_long;
use super::outputs::{Output, Tally, Trial};

/// Two tasks with two shards each.
const TASKS: &str = "task {work}/p.tfrplan --index 0 ; task {work}/p.tfrplan --index 1";

/// What is tried: the set that is there before, if any, and how it is written to. `inside` has the target as the current
/// directory, which is never renamed.
const CASES: [(&str, &str, &str, bool); 5] = [
    ("new", "", "--shard-rows 800 --emit stats,index", false),
    ("overwritten", "{old-file} --out {out} --shards 3 --emit stats", "--shard-rows 800 --mode overwrite", false),
    ("appended", "{old-file} --out {out} --shards 3 --emit stats", "--shard-rows 800 --mode append", false),
    ("partitions", "", "--partition-by day", false),
    (
        "in place",
        "{old-file} --out {out} --shards 3 --emit stats",
        "--shard-rows 800 --emit stats --mode overwrite",
        true,
    ),
];

const ENDINGS: [&str; 5] = ["signal=KILL", "error=EIO", "error=ENOSPC", "signal=TERM", "error=EACCES"];

/// Calls that move or publish something are all tried; of the others one of so many.
const STRIDE: usize = 9;

fn trial(case: usize) -> Trial {
    let (name, before, options, inside) = CASES[case];
    let target = if inside { "." } else { "{out}" };
    let plan = format!("{{two}} --out {target} {options} --partitions 2 --plan {{work}}/p.tfrplan");
    let before: Vec<_> = [before, &plan, TASKS].into_iter().filter(|line| !line.is_empty()).collect();
    let before = before.join(" ; ");
    // They live as long as the program.
    let output = Output {
        name,
        out: "set",
        before: before.leak(),
        command: "finish {work}/p.tfrplan",
        file_by_file: false,
        inside,
    };
    Trial::new(output)
}

#[test]
fn finish_can_be_repeated_after_any_fault() {
    if !has_strace() {
        return;
    }
    let mut tally = Tally::default();
    for case in 0..CASES.len() {
        let trial = trial(case);
        let all: BTreeSet<Point> = points(&trial, false);
        let mut index = case;
        for point in all {
            index += 1;
            let (_, call, _) = &point;
            let moves = call.starts_with("rename");
            if !is_long() && !moves && !index.is_multiple_of(STRIDE) {
                continue;
            }
            let endings = if is_long() { &ENDINGS[..] } else { &ENDINGS[index % ENDINGS.len()..][..1] };
            for ending in endings.iter().filter(|ending| !(call.contains("write") && ending.starts_with("error"))) {
                tally.count(*ending);
                if let Err(problem) = try_point(&trial, &point, ending) {
                    tally.fault(&format!("{}, {ending} at {point:?}: {problem}", trial.output.name));
                }
            }
        }
    }
    tally.finish("finish");
}

fn try_point(trial: &Trial, point: &Point, ending: &str) -> Result<(), String> {
    let (looks, call, number) = point;
    trial.reset();
    let ended = run(&mut strace(trial, *looks, &[&format!("--inject={call}:{ending}:when={number}")]));
    let log = fs::read_to_string(trial.path("log")).unwrap();
    let hit: Vec<_> = log.lines().filter(|line| line.contains("INJECTED") || line.contains("SIGTERM")).collect();
    let told = |problem: &str, ended: &Run| {
        let listing = trial.listing();
        Err(format!("{problem}: exit code {:?}\n{}\n{}\n{listing:#?}", ended.code, hit.join("\n"), ended.stderr))
    };
    if ended.stderr.contains("panicked") || ended.stderr.contains("internal error") {
        return told("a panic", &ended);
    }
    let is_published = trial.is_new();
    match ended.code {
        Some(0) if !is_published => return told("success without the set", &ended),
        // What failed is a warning.
        Some(0) => {}
        None if ending == "signal=KILL" => {}
        Some(1 | 75 | 143) if is_published => return told("the set is published, and nothing says so", &ended),
        Some(143) if ending == "signal=TERM" => {}
        Some(1 | 75) if ending.starts_with("error") => {}
        _ => return told("an exit code that is not documented", &ended),
    }
    if !is_published && !trial.is_old() && ended.code.is_some() {
        return told("neither the old nor the new set", &ended);
    }
    for again in ["again", "once more"] {
        let repeated = run(&mut trial.command());
        if repeated.code != Some(0) {
            return told(again, &repeated);
        }
        if !trial.is_new() {
            return told("the set is another one", &repeated);
        }
    }
    trial.clear()
}

/// The plan of another directory has the same name: it is not touched.
#[test]
fn a_relative_plan_is_that_of_the_current_directory() {
    let trial = trial(0);
    trial.reset();
    let (here, other) = (trial.work().join("here"), trial.work().join("p.tfrplan"));
    fs::create_dir(&here).unwrap();
    fs::copy(&other, here.join("p.tfrplan")).unwrap();
    fs::write(&other, "of another set").unwrap();
    let finish = || run(trial.tfr_sql("finish p.tfrplan --report json").current_dir(&here)).success();
    let first = finish();
    assert_eq!(fs::read_to_string(&other).unwrap(), "of another set");
    // It says again what it has done.
    let again = finish();
    assert_eq!(rows(&first), 3_000);
    assert_eq!(json(&first), json(&again));
    assert!(again.stderr.contains("published already"), "{}", again.stderr);
    let late = run(trial.tfr_sql("task p.tfrplan --index 0").current_dir(&here)).exits_with(1);
    assert!(late.stderr.contains("has been published"), "{}", late.stderr);
    // The note is replaced by the next plan, or removed.
    let plan = "{two} --out {work}/next --shard-rows 900 --partitions 2 --plan p.tfrplan";
    run(trial.tfr_sql(plan).current_dir(&here)).success();
    run(trial.tfr_sql(plan).current_dir(&here)).exits_with(1);
    run(&mut trial.abandon(&here.join("p.tfrplan"))).success();
    run(&mut trial.abandon(&here.join("p.tfrplan"))).exits_with(1);
    assert!(!trial.work().join("next").exists());
    assert_eq!(names(&here), [""; 0]);
}

fn json(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap()
}

fn rows(run: &Run) -> u64 {
    json(run)["rows"].as_u64().unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Two plans for one target: the second is finished once the first set is moved away.
#[test]
fn an_occupied_target_leaves_what_the_tasks_have_written() {
    let trial = trial(0);
    trial.reset();
    let other = "{two} --out {out} --shard-rows 500 --partitions 2 --plan {work}/q.tfrplan";
    run(&mut trial.tfr_sql(other)).success();
    for index in ["0", "1"] {
        run(&mut trial.tfr_sql(&format!("task {{work}}/q.tfrplan --index {index}"))).success();
    }
    run(&mut trial.command()).success();
    for _ in 0..2 {
        let refused = run(&mut trial.tfr_sql("finish {work}/q.tfrplan")).exits_with(1);
        assert!(refused.stderr.contains("nothing that the tasks have written is lost"), "{}", refused.stderr);
        assert!(refused.stderr.contains("not empty"), "{}", refused.stderr);
        assert!(trial.is_new());
    }
    fs::rename(trial.out(), trial.work().join("first")).unwrap();
    run(&mut trial.tfr_sql("finish {work}/q.tfrplan")).success();
    assert_eq!(super::set_rows(&trial.out()), Some(3_000));
}

/// A bit that flips after a task has reported is found on request, and the task can be run again.
#[test]
fn staged_shards_are_verified_on_request() {
    let trial = trial(0);
    trial.reset();
    let staged = trial.listing().into_iter().find(|name| name.ends_with(".staged")).unwrap();
    let path = trial.path(&staged);
    let mut bytes = fs::read(&path).unwrap();
    bytes[40] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let refused = run(&mut trial.tfr_sql("finish {work}/p.tfrplan --verify")).exits_with(1);
    assert!(refused.stderr.contains("expected CRC-32C"), "{}", refused.stderr);
    bytes[40] ^= 1;
    fs::write(&path, &bytes).unwrap();
    run(&mut trial.tfr_sql("finish {work}/p.tfrplan --verify")).success();
    assert!(trial.is_new());
}
