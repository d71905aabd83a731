//! `tests/interop/check_shards.py`: what TensorFlow reads, against what an independent oracle expects.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tfr_tests::{Run, Scratch, python, python_with_tfx, run, skip};

use crate::came_back::Rules;

/// A conversion that was run, and what to compare its output with. The script describes the fields.
pub struct Job {
    name: String,
    source: PathBuf,
    rows: Option<u64>,
    key: Option<String>,
    choices: BTreeMap<String, String>,
    nulls: &'static str,
    record_type: &'static str,
    sequences: Vec<String>,
    int96: Vec<String>,
    intervals: Vec<String>,
    out: PathBuf,
    outcome: Run,
}

impl Job {
    /// The run that should have made the directory `out` of the table `source`.
    pub fn new(name: impl Into<String>, source: impl Into<PathBuf>, out: impl Into<PathBuf>, outcome: Run) -> Self {
        Self {
            name: name.into(),
            source: source.into(),
            rows: None,
            key: None,
            choices: BTreeMap::new(),
            nulls: "absent",
            record_type: "example",
            sequences: Vec::new(),
            int96: Vec::new(),
            intervals: Vec::new(),
            out: out.into(),
            outcome,
        }
    }

    /// The number of rows in all, where the source holds the first of them only.
    pub fn rows(self, rows: u64) -> Self {
        Self { rows: Some(rows), ..self }
    }

    /// The column by whose values rows are told, where their order may differ.
    pub fn key(self, column: &str) -> Self {
        Self { key: Some(column.to_owned()), ..self }
    }

    /// What was said of the columns.
    pub fn rules(mut self, rules: &Rules) -> Self {
        self.choices = rules.choices.iter().map(|(column, choice)| (column.to_string(), choice.to_string())).collect();
        self.nulls = if rules.masks { "mask" } else { "absent" };
        if let Some(sequences) = rules.sequences {
            self.record_type = "sequence-example";
            self.sequences = sequences.iter().map(|column| column.to_string()).collect();
        }
        self
    }

    /// The columns that are stored as INT96.
    pub fn int96(self, columns: Vec<String>) -> Self {
        Self { int96: columns, ..self }
    }

    /// The columns that are stored as INTERVAL.
    pub fn intervals(self, columns: Vec<String>) -> Self {
        Self { intervals: columns, ..self }
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "source": self.source,
            "rows": self.rows,
            "key": self.key,
            "choices": self.choices,
            "nulls": self.nulls,
            "record_type": self.record_type,
            "sequences": self.sequences,
            "int96": self.int96,
            "intervals": self.intervals,
            "out": self.out,
            "exit": self.outcome.code,
            "stderr": self.outcome.stderr,
        })
    }
}

/// What became of a job; the script describes the outcomes.
#[derive(Debug)]
pub struct Answer {
    pub name: String,
    pub outcome: String,
    pub reason: String,
}

/// What TensorFlow says of each job; nothing where there is no TensorFlow, and the test is to be skipped.
pub fn check(jobs: &[Job]) -> Option<Vec<Answer>> {
    let jobs: Vec<Value> = jobs.iter().map(Job::json).collect();
    let answers = script("tests/interop/check_shards.py", &Value::from(jobs))?;
    let text = |answer: &Value, field: &str| answer[field].as_str().unwrap_or_default().to_owned();
    let answers = answers.as_array().expect("a list of answers").iter();
    Some(
        answers
            .map(|answer| Answer {
                name: text(answer, "name"),
                outcome: text(answer, "outcome"),
                reason: text(answer, "reason"),
            })
            .collect(),
    )
}

/// Runs a script that reads JSON and answers with JSON.
fn script(path: &str, input: &Value) -> Option<Value> {
    let scratch = Scratch::default();
    let input = scratch.text("input.json", &input.to_string());
    let output = with_tensorflow(path, |command| command.stdin(Stdio::from(File::open(input).unwrap())))?;
    Some(serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{path}: {error}: {}", output.stdout)))
}

/// Runs a script with TensorFlow, or says why it is skipped.
pub fn with_tensorflow(path: &str, arguments: impl FnOnce(&mut Command) -> &mut Command) -> Option<Run> {
    run_or_skip(python(path), arguments)
}

/// Runs a script with TensorFlow Data Validation and tfx_bsl, or says why it is skipped.
pub fn with_tfx(path: &str, arguments: impl FnOnce(&mut Command) -> &mut Command) -> Option<Run> {
    run_or_skip(python_with_tfx(path), arguments)
}

fn run_or_skip(script: Result<Command, String>, arguments: impl FnOnce(&mut Command) -> &mut Command) -> Option<Run> {
    match script {
        Ok(mut command) => Some(run(arguments(&mut command)).success()),
        Err(reason) => {
            skip(&reason);
            None
        }
    }
}

/// What a failed or refused run may leave under a directory: nothing, visible or hidden.
#[track_caller]
pub fn assert_empty(directory: &Path) {
    let left: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "left in {}: {left:?}", directory.display());
}
