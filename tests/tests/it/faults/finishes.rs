//! `finish` of a plan that meets an error, is killed, or is told to end, at each of its system calls in turn: nothing that
//! the tasks have written is lost, and `finish` again gives the set. `FAULTS=all` tries every call.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tfr_tests::{Run, run};

use super::calls::{Point, has_strace, points, strace};
use super::outputs::{Output, Tally, Trial};
use super::{is_long, wrap};

/// Two tasks with two shards each.
const TASKS: &str = "task {work}/p.tfrplan --index 0 ; task {work}/p.tfrplan --index 1";

/// What is tried: the set that is there before, if any, and how it is written to. `inside` has the target as the current
/// directory, which is never renamed.
const CASES: [(&str, &str, &str, bool); 6] = [
    ("new", "", "--shard-rows 800 --emit stats,index", false),
    ("overwritten", "{old-file} --out {out} --shards 3 --emit stats", "--shard-rows 800 --mode overwrite", false),
    ("appended", "{old-file} --out {out} --shards 3 --emit stats", "--shard-rows 800 --mode append", false),
    ("partitions", "", "--partition-by day", false),
    (
        "replaced partitions",
        "{old-file} --out {out} --partition-by day",
        "--partition-by day --mode overwrite-partitions",
        false,
    ),
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
        beside: "",
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
    let shown = |problem: &str, ended: &Run| {
        let listing = trial.listing();
        Err(format!("{problem}: exit code {:?}\n{}\n{}\n{listing:#?}", ended.code, hit.join("\n"), ended.stderr))
    };
    if ended.stderr.contains("panicked") || ended.stderr.contains("internal error") {
        return shown("a panic", &ended);
    }
    let is_new = || match ended.stderr.contains("not all replaced files could be removed") {
        true => trial.is_new_with_rest(),
        false => trial.is_new(),
    };
    let is_published = is_new();
    match ended.code {
        Some(0) if !is_published => return shown("success without the set", &ended),
        // What failed is a warning.
        Some(0) => {}
        None if ending == "signal=KILL" => {}
        Some(1 | 75 | 143) if is_published => return shown("the set is published, and nothing says so", &ended),
        Some(143) if ending == "signal=TERM" => {}
        Some(1 | 75) if ending.starts_with("error") => {}
        _ => return shown("an exit code that is not documented", &ended),
    }
    if !is_published && !trial.is_old() && ended.code.is_some() {
        return shown("neither the old nor the new set", &ended);
    }
    for again in ["again", "once more"] {
        let repeated = run(&mut trial.command());
        if repeated.code != Some(0) {
            return shown(again, &repeated);
        }
        if !is_new() {
            return shown("the set is another one", &repeated);
        }
    }
    trial.clear()
}

/// The plan of another directory has the same name: it is not touched.
#[test]
fn finish_uses_the_plan_of_the_current_directory() {
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
fn finish_keeps_shards_of_tasks_if_the_target_is_occupied() {
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
    let task = task_of(&staged);
    assert!(refused.stderr.contains(&format!("task {task} must be run again")), "{}", refused.stderr);
    run(&mut trial.tfr_sql(&format!("task {{work}}/p.tfrplan --index {task}"))).success();
    run(&mut trial.tfr_sql("finish {work}/p.tfrplan --verify")).success();
    assert!(trial.is_new());
}

/// A job system tries again what ends so.
#[test]
fn a_plan_or_staging_that_cannot_be_opened_is_to_be_tried_again() {
    if !has_strace() {
        return;
    }
    let trial = trial(0);
    trial.reset();
    let plan = trial.work().join("p.tfrplan");
    let staged = trial.listing().into_iter().find(|name| name.ends_with(".staged")).unwrap();
    let attempts = trial.path(&staged).parent().unwrap().to_owned();
    for (path, line) in [
        (&plan, "task {work}/p.tfrplan --index 0"),
        (&plan, "finish {work}/p.tfrplan"),
        (&plan, "abandon {work}/p.tfrplan"),
        (&attempts, "task {work}/p.tfrplan --index 0"),
    ] {
        for error in ["EMFILE", "EIO", "EACCES"] {
            let mut strace = Command::new("strace");
            strace.args(["-f", "-e", "trace=openat", "-e", "signal=none", "-P"]).arg(path);
            strace.arg(format!("--inject=openat:error={error}")).arg("-o").arg(trial.path("log"));
            let command = match line.strip_prefix("abandon ") {
                Some(_) => trial.abandon(&plan),
                None => trial.tfr_sql(line),
            };
            let ended = run(wrap(&mut strace, &command));
            assert_eq!(ended.code, Some(75), "{error}, {line}: {}", ended.stderr);
        }
    }
    run(&mut trial.command()).success();
    assert!(trial.is_new());
    // A plan that does not exist will not come.
    fs::remove_file(&plan).unwrap();
    run(&mut trial.command()).exits_with(1);
}

/// Returns the task that has staged a shard of this name: `.../00001-00000.ATTEMPT.staged`.
fn task_of(staged: &str) -> u32 {
    let name = staged.rsplit('/').next().unwrap();
    name.split('-').next().unwrap().parse().unwrap()
}

/// Without `--verify`, too, a staged file that is gone or was cut is found, and another attempt takes its place.
#[test]
fn a_task_whose_files_are_damaged_is_run_again() {
    let harms: [fn(&Path); 3] = [
        |path| fs::remove_file(path).unwrap(),
        |path| fs::write(path, &fs::read(path).unwrap()[..50]).unwrap(),
        |path| fs::write(path.with_extension("report"), "{").unwrap(),
    ];
    let trial = trial(0);
    for (number, harm) in harms.into_iter().enumerate() {
        trial.reset();
        let ending = if number == 2 { ".report" } else { ".staged" };
        let found = trial.listing().into_iter().filter(|name| name.ends_with(ending)).nth(1).unwrap();
        harm(&trial.path(&found));
        let task = if number == 2 { found.rsplit('/').next().unwrap()[..5].parse().unwrap() } else { task_of(&found) };
        for _ in 0..2 {
            let refused = run(&mut trial.command()).exits_with(1);
            assert!(refused.stderr.contains(&format!("task {task} must be run again")), "{}", refused.stderr);
            assert!(!trial.out().exists());
        }
        run(&mut trial.tfr_sql(&format!("task {{work}}/p.tfrplan --index {task}"))).success();
        run(&mut trial.command()).success();
        assert!(trial.is_new());
    }
}

/// Rows that all tasks have sorted are written by whoever finishes the plan, if a task has not.
#[test]
fn damaged_shards_of_sorted_rows_are_written_again() {
    for verify in ["", " --verify"] {
        let trial = trial(0);
        trial.reset();
        run(&mut trial.abandon(&trial.work().join("p.tfrplan"))).success();
        let plan = "{two} --out {out} --shards 4 --shuffle --partitions 2 --plan {work}/p.tfrplan";
        for step in [plan, "task {work}/p.tfrplan --index 0", "task {work}/p.tfrplan --index 1", "cut {work}/p.tfrplan"]
        {
            run(&mut trial.tfr_sql(step)).success();
        }
        run(&mut trial.tfr_sql("task {work}/p.tfrplan --index 0")).success();
        let staged = trial.listing().into_iter().find(|name| name.ends_with(".staged")).unwrap();
        let mut bytes = fs::read(trial.path(&staged)).unwrap();
        match verify {
            "" => bytes.truncate(50),
            _ => bytes[40] ^= 1,
        }
        fs::write(trial.path(&staged), &bytes).unwrap();
        run(&mut trial.tfr_sql(&format!("finish {{work}}/p.tfrplan{verify}"))).success();
        assert_eq!(super::set_rows(&trial.out()), Some(3_000));
    }
}
