//! Real files that other systems wrote: `../shared/corpus`, where it is there.
//!
//! Every Parquet and CSV file of its `MANIFEST.csv` is converted by the command; a table with nulls inside lists, which is
//! refused, once more with masks. What came out is read back, and must be what went in; and TensorFlow reads it, against
//! the corpus's own expectations. `tests/interop/corpus_table.txt` holds the summary that must come out, and
//! `corpus_exceptions.txt` the files that differ from their expectation, each with the reason.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use parquet::basic::{ConvertedType, Type};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;
use tfr_tests::{Corpus, Entry, Run, Scratch, repository, run, tfr_sql};

use crate::came_back::Rules;
use crate::checker::{Answer, Job, assert_empty, check};
use crate::{round_trip, session};

#[test]
fn parquet_and_csv_convert_to_the_expected_values() {
    let Some(corpus) = Corpus::find() else { return };
    let entries = corpus.entries(&["parquet", "csv"]);
    let scratch = Scratch::default();
    let outcomes = convert_all(&corpus, &entries, &scratch);
    round_trip::report(read_all_back(&corpus, &entries, &outcomes, &scratch));

    let (mut jobs, mut answers) = (Vec::new(), Vec::new());
    for (number, (entry, converted)) in entries.iter().zip(outcomes).enumerate() {
        match judge(entry, converted, &corpus, &output(&scratch, number)) {
            Verdict::Compare(job) => jobs.push(*job),
            Verdict::Said(outcome, reason) => {
                answers.push(Answer { name: entry.path.clone(), outcome: outcome.to_owned(), reason });
            }
        }
    }
    let Some(compared) = check(&jobs) else { return };
    answers.extend(compared);
    compare_with_record(&entries, &answers);
}

/// Why a sound file is refused: what it holds has no place in a record.
const REFUSALS: [&str; 3] = [
    // Unions and intervals, for which the hint names the text form.
    "cannot be written as a feature",
    // A float64 beyond the range of a feature's float.
    "does not fit a float",
    // Two columns of one name.
    "occurs more than once",
];

/// Formats whose values `tfr-formats` compares with the expectations: what was read of them comes back.
#[test]
fn other_formats_convert_to_the_expected_values() {
    let Some(corpus) = Corpus::find() else { return };
    let mut entries = corpus.entries(&["orc", "json", "arrow_ipc", "avro"]);
    // Not those that take minutes.
    entries.retain(|entry| entry.rows.is_none_or(|rows| rows < 1_000_000));
    let scratch = Scratch::default();
    let outcomes = convert_all(&corpus, &entries, &scratch);
    let mut wrong = read_all_back(&corpus, &entries, &outcomes, &scratch);
    // Without a manifest its columns are told from the first 1000 records, in which three of them are null.
    let missed = wrong.remove("orc/hive/alltypesorc").unwrap_or_default();
    assert!(matches!(missed.as_slice(), [missed] if missed.starts_with("inferred ")), "{missed:?}");
    for (entry, Converted { outcome, .. }) in entries.iter().zip(&outcomes) {
        let is_expected = match (entry.expect.as_str(), outcome.code) {
            _ if outcome.stderr.contains("panicked at") => false,
            ("ok" | "either", Some(0)) | ("error" | "either", Some(1)) => true,
            ("ok", Some(1)) => REFUSALS.iter().any(|reason| outcome.stderr.contains(reason)),
            _ => false,
        };
        if !is_expected {
            wrong.entry(entry.path.clone()).or_default().push(format!("{:?}: {}", outcome.code, outcome.stderr));
        }
    }
    round_trip::report(wrong);
}

enum Verdict {
    /// TensorFlow and the oracle have the word.
    Compare(Box<Job>),
    /// There is nothing to compare.
    Said(&'static str, String),
}

/// What the command's run says by itself.
fn judge(entry: &Entry, converted: Converted, corpus: &Corpus, out: &Path) -> Verdict {
    let Converted { outcome, masks } = converted;
    let file_name = Path::new(&entry.path).file_name().unwrap().to_str().unwrap();
    let failed = |reason: &str| Verdict::Said("failed", format!("{reason}: {}", outcome.stderr.trim()));
    if outcome.stderr.contains("panicked at") || !matches!(outcome.code, Some(0 | 1)) {
        return failed("crashed");
    }
    if outcome.code == Some(1) && fs::read_dir(out.parent().unwrap()).unwrap().next().is_some() {
        return failed("left something behind");
    }
    match (entry.expect.as_str(), outcome.code) {
        ("error", Some(0)) => failed("converted a file that is not sound"),
        // A type is refused before the damage is met.
        ("error" | "either", Some(1)) if outcome.stderr.contains("cannot be written as a feature") => {
            Verdict::Said("type", outcome.stderr.trim().to_owned())
        }
        // The oracle says whether there is such a value.
        ("either", Some(1)) if outcome.stderr.contains("does not fit its own type") => {
            compare(entry, masks, outcome, corpus, out)
        }
        ("error" | "either", Some(1)) if !outcome.stderr.contains(file_name) => failed("does not name the file"),
        ("error" | "either", Some(1)) => Verdict::Said("refused", outcome.stderr.trim().to_owned()),
        (_, Some(0)) if entry.expected.is_empty() => {
            Verdict::Said(if masks { "masked" } else { "converted" }, "nothing to compare it with".to_owned())
        }
        _ => compare(entry, masks, outcome, corpus, out),
    }
}

fn compare(entry: &Entry, masks: bool, outcome: Run, corpus: &Corpus, out: &Path) -> Verdict {
    let mut job = Job::new(&entry.path, corpus.join(&entry.expected), out, outcome);
    job = entry.rows.into_iter().fold(job, Job::rows);
    job = job.rules(&Rules { masks, ..Rules::default() });
    let source = corpus.join(&entry.path);
    let int96 = columns_of(&source, |column| column.physical_type() == Type::INT96);
    let intervals = columns_of(&source, |column| column.converted_type() == ConvertedType::INTERVAL);
    Verdict::Compare(Box::new(job.int96(int96).intervals(intervals)))
}

/// The last run of the command on a file.
struct Converted {
    outcome: Run,
    /// Whether masks were to say where nulls are, since without them there was no place for some.
    masks: bool,
}

/// Runs the command on every file, two at a time.
fn convert_all(corpus: &Corpus, entries: &[Entry], scratch: &Scratch) -> Vec<Converted> {
    let next = AtomicUsize::new(0);
    let outcomes: Vec<Mutex<Option<Converted>>> = entries.iter().map(|_| Mutex::new(None)).collect();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(entry) = entries.get(number) else { break };
                    let out = output(scratch, number);
                    fs::create_dir_all(out.parent().unwrap()).unwrap();
                    let mut converted =
                        Converted { outcome: run(convert(corpus, entry).arg("--out").arg(&out)), masks: false };
                    if converted.outcome.stderr.contains("null inside a list, which a feature cannot represent") {
                        assert_empty(out.parent().unwrap());
                        let outcome = run(convert(corpus, entry).args(["--null", "mask"]).arg("--out").arg(&out));
                        converted = Converted { outcome, masks: true };
                    }
                    *outcomes[number].lock().unwrap() = Some(converted);
                }
            });
        }
    });
    outcomes.into_iter().map(|outcome| outcome.into_inner().unwrap().expect("every file was run")).collect()
}

/// Reads everything back that was converted, with the manifest and without, and says what came back as something else.
fn read_all_back(
    corpus: &Corpus,
    entries: &[Entry],
    outcomes: &[Converted],
    scratch: &Scratch,
) -> BTreeMap<String, Vec<String>> {
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let runtime = tokio::runtime::Runtime::new().unwrap();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(entry) = entries.get(number) else { break };
                    if outcomes[number].outcome.code != Some(0) {
                        continue;
                    }
                    let rules = Rules { masks: outcomes[number].masks, ..Rules::default() };
                    let differences = runtime.block_on(async {
                        let table = table(corpus, entry);
                        match session::select_all_of(&session::of_command(1), &table).await {
                            Ok(source) => round_trip::compare(&source, &output(scratch, number), &rules).await,
                            Err(error) => vec![format!("cannot be read again: {error}")],
                        }
                    });
                    wrong.lock().unwrap().insert(entry.path.clone(), differences);
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    println!("{} tables read back", wrong.len());
    wrong
}

fn output(scratch: &Scratch, number: usize) -> PathBuf {
    scratch.join(format!("{number}/out"))
}

/// The command for one file without its output, under a limit of memory that no small file has a reason to reach.
pub fn convert(corpus: &Corpus, entry: &Entry) -> Command {
    let inner = tfr_sql();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 8000000; exec \"$@\"", "sh"]).arg(inner.get_program()).current_dir(repository());
    command.args(["SELECT * FROM t", "--table", &table(corpus, entry), "--shards", "1", "--threads", "1", "--quiet"]);
    command
}

/// The value of `--table`. Cells of CSV stay text, and the header line is a row, as in the expectations.
fn table(corpus: &Corpus, entry: &Entry) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let path = corpus.join(&entry.path).display().to_string();
    let format = if entry.kind == "arrow_ipc" { "arrow" } else { &entry.kind };
    let mut table = format!("t={},format={format}", quoted(&path));
    if entry.kind == "json"
        && let Some(encoding) = entry.special.split("; ").find_map(|part| part.strip_prefix("encoding "))
    {
        write!(table, ",encoding={encoding}").unwrap();
    }
    if entry.kind == "csv" {
        // The expectations have an empty text for an empty cell.
        table += ",header=false,types=string,null=no such cell";
        for option in ["delimiter", "quote", "escape", "encoding"] {
            let value = entry.dialect[option].as_str();
            // Other encodings are refused with or without their names.
            let value = value.filter(|value| option != "encoding" || matches!(*value, "latin1" | "utf-16"));
            if let Some(value) = value {
                write!(table, ",{option}={}", quoted(value)).unwrap();
            }
        }
    }
    table
}

/// The top-level columns of a Parquet file with a leaf of some kind; none if the file is no sound one.
fn columns_of(path: &Path, is_meant: impl Fn(&ColumnDescriptor) -> bool) -> Vec<String> {
    let Ok(reader) = SerializedFileReader::new(File::open(path).unwrap()) else { return Vec::new() };
    let leaves = reader.metadata().file_metadata().schema_descr().columns().iter();
    leaves.filter(|leaf| is_meant(leaf)).map(|leaf| leaf.path().parts()[0].clone()).collect()
}

/// Prints the table and compares it, and the files that failed, with what is on record.
fn compare_with_record(entries: &[Entry], answers: &[Answer]) {
    let mut counts = BTreeMap::<(&str, &str, &str), usize>::new();
    for answer in answers {
        let entry = entries.iter().find(|entry| entry.path == answer.name).unwrap();
        *counts.entry((&entry.kind, &entry.expect, &answer.outcome)).or_default() += 1;
    }
    let mut table = String::from("kind     expect  outcome    files\n");
    for ((kind, expect, outcome), files) in counts {
        writeln!(table, "{kind:<8} {expect:<7} {outcome:<10} {files:>5}").unwrap();
    }
    println!("{table}");
    for answer in answers.iter().filter(|answer| matches!(answer.outcome.as_str(), "type" | "value")) {
        println!(
            "{}: refused by {}: {}",
            answer.name,
            answer.outcome,
            answer.reason.lines().next().unwrap_or_default()
        );
    }

    let record = |name: &str| repository().join("tests/interop").join(name);
    let exceptions = fs::read_to_string(record("corpus_exceptions.txt")).unwrap();
    let mut known: BTreeMap<&str, &str> = exceptions
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split_once(": ").expect("path: reason"))
        .collect();
    let mut unexpected = String::new();
    for answer in answers.iter().filter(|answer| answer.outcome == "failed") {
        match known.remove(answer.name.as_str()) {
            Some(reason) => println!("{}: {reason}", answer.name),
            None => writeln!(unexpected, "{}: {}\n", answer.name, answer.reason).unwrap(),
        }
    }
    assert!(unexpected.is_empty(), "not as expected:\n\n{unexpected}");
    assert!(known.is_empty(), "no longer an exception: {known:#?}");
    let recorded = fs::read_to_string(record("corpus_table.txt")).unwrap();
    assert_eq!(table, recorded, "tests/interop/corpus_table.txt is another");
}
