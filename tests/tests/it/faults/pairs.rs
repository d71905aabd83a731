//! Two runs at once on one target.

use std::fs;
use std::ops::RangeInclusive;
use std::process::Command;

use tfr_tests::{run, tfr_sql};

use super::calls::has_strace;
use super::outputs::{OUTPUTS, Tally, Trial};
use super::{is_long, until, wrap};

/// What a run may say that lets another have the target.
const CLEAR: [&str; 4] = ["already exists", "not empty: it contains", "another run wrote here", "is writing here"];

/// The rows that are there before, and those of the two runs.
const BEFORE: RangeInclusive<u64> = 1..=1_500;
const FIRST: RangeInclusive<u64> = 2_001..=5_000;
const SECOND: RangeInclusive<u64> = 6_001..=8_000;

#[test]
fn concurrent_runs_leave_a_whole_output() {
    let strace = has_strace();
    let rounds = if is_long() { 20 } else { 2 };
    let mut tally = Tally::default();
    let outputs = OUTPUTS.into_iter().filter(|output| output.command.contains("{new}"));
    for (number, output) in outputs.enumerate() {
        // Tables are not appended to, and neither are sets whose sidecars describe all rows.
        let modes: &[_] = match output.out.contains("x.") || output.command.contains("--emit tfds") {
            true => &["error", "ignore", "overwrite"],
            false => &["append", "error", "ignore", "overwrite"],
        };
        let modes = if is_long() { modes } else { &modes[number % modes.len()..][..1] };
        for mode in modes.iter().copied() {
            let replaces = ["overwrite", "append"].contains(&mode);
            let before = if replaces { output.command.replace("{new}", "{old}") } else { String::new() };
            let before = before.replace(" --mode overwrite", "").replace(" --mode append", "");
            let trial = Trial::in_state(output, &before);
            for round in 0..rounds {
                match try_pair(&trial, mode, round % 2 == 1 && strace) {
                    Ok(won) => tally.count(format!("{mode}, {won} succeeded")),
                    Err(problem) => tally.fault(&format!("{}, {mode}, round {round}: {problem}", output.name)),
                }
            }
        }
    }
    tally.finish("two at once");
}

/// Runs two at once, or one while the other is stopped with its first file written. Counts those that succeeded.
fn try_pair(trial: &Trial, mode: &str, stops: bool) -> Result<usize, String> {
    trial.reset();
    let line = trial.output.command.replace(" --mode overwrite", "").replace(" --mode append", "");
    let command = |query: &str| trial.tfr_sql(&format!("{} --mode {mode}", line.replace("{new}", query)));
    let (first, second) = std::thread::scope(|scope| match stops {
        false => {
            let first = scope.spawn(|| run(&mut command("{new}")));
            let second = run(&mut command("{other}"));
            (first.join().unwrap(), second)
        }
        true => {
            let log = trial.path("log");
            fs::write(&log, "").unwrap();
            let mut strace = Command::new("strace");
            strace.args(["-f", "-e", "trace=fsync", "--inject=fsync:signal=STOP:when=1", "-o"]).arg(&log);
            wrap(&mut strace, &command("{new}"));
            let first = scope.spawn(move || run(&mut strace));
            let stopped = || {
                let log = fs::read_to_string(&log).unwrap();
                let line = log.lines().find(|line| line.contains("stopped by SIGSTOP"));
                line.map(|line| line.split(' ').next().unwrap().to_owned())
            };
            until(|| stopped().is_some() || first.is_finished());
            let second = run(&mut command("{other}"));
            // Each of its threads may stop it once.
            until(|| {
                if let Some(thread) = stopped() {
                    let _gone = run(Command::new("kill").args(["-s", "CONT", &thread]));
                }
                first.is_finished()
            });
            (first.join().unwrap(), second)
        }
    });
    let ends = [(&first, FIRST), (&second, SECOND)];
    let shown = |problem: &str| {
        let [(first, _), (second, _)] = &ends;
        Err(format!("{problem}: {:?} {:?}\n{}\n{}", first.code, second.code, first.stderr, second.stderr))
    };
    let found = rows(trial);
    let mut won = Vec::new();
    for (ended, rows) in ends.clone() {
        match ended.code {
            Some(0) => won.push(rows),
            Some(1) if mode != "ignore" && CLEAR.iter().any(|text| ended.stderr.contains(text)) => {}
            _ => return shown("an unclear end"),
        }
    }
    let expected: Vec<String> = match mode {
        "append" => vec![counted([BEFORE].into_iter().chain(won.clone()))],
        _ => won.iter().map(|rows| counted([rows.clone()])).collect(),
    };
    if won.is_empty() || (mode == "error" && won.len() > 1) || !expected.contains(&found) {
        return shown(&format!("found {found}"));
    }
    trial.clear()?;
    Ok(won.len())
}

fn rows(trial: &Trial) -> String {
    let query = format!("SELECT count(*), sum(value), count(DISTINCT value) FROM '{}'", trial.out().display());
    run(tfr_sql().args([&query, "--quiet", "--format", "csv"])).success().stdout.lines().nth(1).unwrap().to_owned()
}

fn counted(rows: impl IntoIterator<Item = RangeInclusive<u64>>) -> String {
    let rows: Vec<u64> = rows.into_iter().flatten().collect();
    format!("{},{},{}", rows.len(), rows.iter().sum::<u64>(), rows.len())
}
