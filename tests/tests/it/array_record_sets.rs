//! Every set of the tests of the mapping, written as ArrayRecord too: its records are those of the set of TFRecord, read
//! by `array_record`, grain and TensorFlow Datasets.
//!
//! With `ARRAY_RECORD=all`, also every file of `../shared/corpus` that can be converted.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tfr_examples::trips_path;
use tfr_tests::{Corpus, Entry, Scratch, golden_table, run, tfr_sql};

use crate::came_back::Rules;
use crate::checker::with_tensorflow;
use crate::interop::{CHOICES, GOLDEN, table_of_choices};
use crate::{corpus, kinds};

/// How the sets are written as ArrayRecord, in turn.
const FORMS: [&[&str]; 3] = [&[], &["--group-size", "7"], &["--group-size", "16", "--compression", "zstd"]];

/// Kinds of files of the corpus, as in the tests of [`corpus`].
const KINDS: [&str; 6] = ["parquet", "csv", "arrow_ipc", "avro", "orc", "json"];

/// A set: a command without its output.
struct Case {
    name: String,
    command: Box<dyn Fn() -> Command + Sync>,
}

#[test]
fn array_record_sets_of_the_mapping_have_the_records_of_tfrecord() {
    let scratch = Scratch::default();
    let mut cases = of_the_mapping(&scratch);
    if std::env::var("ARRAY_RECORD").is_ok_and(|asked| asked == "all") {
        cases.extend(of_the_corpus());
    }
    let next = AtomicUsize::new(0);
    let (written, wrong) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(number) else { break };
                    match write(case, number, &scratch) {
                        Ok(Some(pair)) => written.lock().unwrap().push((number, pair)),
                        Ok(None) => {}
                        Err(difference) => wrong.lock().unwrap().push(difference),
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let mut written = written.into_inner().unwrap();
    written.sort();
    println!("{} sets of {} cases, the others are refused", written.len(), cases.len());
    assert!(written.len() >= 40);
    let pairs: String =
        written.iter().map(|(_, [plain, array])| format!("{}\t{}\n", plain.display(), array.display())).collect();
    let pairs = scratch.text("pairs.tsv", &pairs);
    let read = with_tensorflow("tests/interop/check_array_record.py", |command| command.arg("--pairs").arg(pairs));
    let Some(read) = read else { return };
    println!("{}", read.stdout);
    assert!(read.stdout.ends_with(" files\n"), "{}", read.stdout);
}

/// What is added to the command of a case, in turn, until it writes: not every set can be described for TensorFlow
/// Datasets, and some have nulls that need masks.
const ATTEMPTS: [&[&str]; 3] = [&["--emit", "tfds"], &[], &["--null", "mask"]];

/// Writes a set in both formats. `None` if both are refused with the same message.
fn write(case: &Case, number: usize, scratch: &Scratch) -> Result<Option<[PathBuf; 2]>, String> {
    let outs = [scratch.join(format!("sets/{number}-tfrecord")), scratch.join(format!("sets/{number}"))];
    let run = |out: &Path, arguments: &[&str]| run((case.command)().arg("--out").arg(out).args(arguments));
    let mut attempts = ATTEMPTS.iter().map(|more| (run(&outs[0], more), more));
    let written = attempts.find(|(plain, _)| plain.code == Some(0));
    let (plain, more) = written.unwrap_or_else(|| (run(&outs[0], &[]), &ATTEMPTS[1]));
    let format = [&["--record-format", "array_record"], FORMS[number % FORMS.len()], more].concat();
    let array = run(&outs[1], &format);
    let message = |text: &str| text.replace(".array_record", ".tfrecord");
    match (plain.code, array.code) {
        (Some(0), Some(0)) => Ok(Some(outs)),
        (Some(1 | 2), code) if code == plain.code && message(&array.stderr) == message(&plain.stderr) => Ok(None),
        _ => Err(format!("{}: {:?}: {}\n{:?}: {}", case.name, plain.code, plain.stderr, array.code, array.stderr)),
    }
}

fn case(name: impl Into<String>, table: PathBuf, arguments: Vec<String>) -> Case {
    let command = move || {
        let mut command = tfr_sql();
        command.arg(format!("SELECT * FROM '{}'", table.display())).args(&arguments).arg("--quiet");
        command
    };
    Case { name: name.into(), command: Box::new(command) }
}

/// The tables of `interop`: those of `golden/tables`, without and with masks, every nested kind, every choice, and shards of
/// several numbers.
fn of_the_mapping(scratch: &Scratch) -> Vec<Case> {
    let one_shard = |rules: &Rules| [vec!["--shards".to_owned(), "1".to_owned()], rules.arguments()].concat();
    let masks = Rules { masks: true, ..Rules::default() };
    let mut cases = Vec::new();
    for name in GOLDEN {
        let table = scratch.parquet(&format!("{name}.parquet"), &golden_table(name), 1024);
        cases.push(case(name, table.clone(), one_shard(&Rules::default())));
        cases.push(case(format!("{name} with masks"), table, one_shard(&masks)));
    }
    for kinds::Case { name, table, rules } in kinds::cases() {
        let table = scratch.parquet(&format!("{name}.parquet"), &table, 1024);
        cases.push(case(name, table, one_shard(&rules)));
    }
    let choices = scratch.parquet("choices.parquet", &table_of_choices(), 2);
    let most = CHOICES.iter().map(|(_, choices)| choices.len()).max().unwrap();
    for turn in 0..most {
        let chosen = CHOICES.map(|(column, choices)| (column, choices[turn % choices.len()]));
        let rules = Rules { choices: chosen.into(), ..Rules::default() };
        cases.push(case(format!("choices, turn {turn}"), choices.clone(), one_shard(&rules)));
    }
    for layout in [&["--shards", "3"][..], &["--shard-rows", "300", "--threads", "1"], &["--shards", "64"]] {
        let arguments = layout.iter().map(|argument| (*argument).to_owned()).collect();
        cases.push(case(format!("trips, {layout:?}"), trips_path(), arguments));
    }
    cases
}

/// The files of the corpus.
fn of_the_corpus() -> Vec<Case> {
    let Some(corpus) = Corpus::find() else { return Vec::new() };
    let corpus: &'static Corpus = Box::leak(Box::new(corpus));
    let case = |entry: Entry| {
        let name = entry.path.clone();
        Case { name, command: Box::new(move || corpus::convert(corpus, &entry)) }
    };
    corpus.entries(&KINDS).into_iter().map(case).collect()
}
