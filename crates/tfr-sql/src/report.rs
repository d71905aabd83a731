//! The result of a run: a summary for a person, and `--report json` for a program.

mod features;

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

use arrow_tfrecord::Mapping;
use serde::Serialize;
use serde_json::Value;
use tfrecord_shards::{Manifest, RejectedRows, ShardEntry};

use crate::printer::{bytes, counted, grouped};

pub use features::{FeatureReport, StatsReport};

/// Version of the report format. It increases with each incompatible change.
const VERSION: u32 = 1;

/// The outcome of a run. `schemas/report.schema.json` describes its JSON form.
#[derive(Debug, Serialize)]
pub struct Report {
    version: u32,
    tool: Program,
    #[serde(flatten)]
    outcome: Outcome,
    /// From the command's start to the published output.
    seconds: f64,
}

#[derive(Debug, Serialize)]
struct Program {
    name: &'static str,
    version: &'static str,
}

/// The outcome of a run.
#[derive(Debug, Serialize)]
#[serde(tag = "report", rename_all = "lowercase")]
pub enum Outcome {
    /// A shard set was written, with a query's rows or the records of files.
    Shards(ShardsReport),
    /// A table was written, with a query's rows.
    Table(TableReport),
    /// Nothing was written, because the output exists.
    Ignored(IgnoredReport),
    /// Defects found in files.
    Verify(VerifyReport),
    /// Records saved from damaged files.
    Salvage(SalvageReport),
    /// What a write would do.
    Plan(PlanReport),
    /// Statistics of the features of records.
    Stats(StatsReport),
}

/// The plan of a write, of which nothing has run.
#[derive(Debug, Serialize)]
pub struct PlanReport {
    /// What each column becomes, as in a manifest.
    pub mapping: Mapping,
    /// The number of rows, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Whether that number is exact.
    pub rows_are_exact: bool,
    /// The least number of bytes of framed records, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_bytes: Option<u64>,
    /// The most, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_bytes: Option<u64>,
    /// Descriptions of the shards, one for each split.
    pub shards: Vec<String>,
    /// What is printed for a person.
    pub text: String,
}

/// A published shard set.
#[derive(Debug, Serialize)]
pub struct ShardsReport {
    /// The directory of the shards, as the user wrote it.
    pub out: String,
    /// The run's id, as in the manifest.
    pub run: String,
    /// Records written.
    pub rows: u64,
    /// Shards written.
    pub shards: u64,
    /// Shards without rows.
    #[serde(skip)]
    empty: u64,
    /// Counts for each split, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub splits: Vec<SplitReport>,
    /// Partition directories written to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<u64>,
    /// Directories of the set whose shards these replace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced_partitions: Option<NonZeroU64>,
    /// Bytes of framed records, before compression.
    pub framed_bytes: u64,
    /// Bytes of the shards on disk.
    pub file_bytes: u64,
    /// Whether the files or their chunks are compressed.
    #[serde(skip)]
    is_compressed: bool,
    /// The whole set, if the shards were appended to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<SetReport>,
    /// Damaged records that were passed over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damaged_records: Option<NonZeroU64>,
    /// Rows that do not fit, if they were rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejects: Option<RejectedRows>,
    /// Warnings that the user received.
    pub warnings: Vec<String>,
}

/// A shard set after appending.
#[derive(Debug, Serialize)]
pub struct SetReport {
    /// Records in it.
    pub rows: u64,
    /// Shards in it.
    pub shards: u64,
}

/// Counts of a split.
#[derive(Debug, Serialize)]
pub struct SplitReport {
    /// Its name.
    pub name: String,
    /// Records written.
    pub rows: u64,
    /// Shards written.
    pub shards: u64,
}

/// An existing output that was left unchanged.
#[derive(Debug, Serialize)]
pub struct IgnoredReport {
    /// The output, as the user wrote it.
    pub out: String,
    /// Some of the existing files.
    pub found: Vec<String>,
}

/// A published table.
#[derive(Debug, Serialize)]
pub struct TableReport {
    /// The file or directory, as the user wrote it.
    pub out: String,
    /// The suffix of the file names: `csv.gz`.
    pub format: String,
    /// The run's id.
    pub run: String,
    /// Rows written.
    pub rows: u64,
    /// Files written.
    pub files: u64,
    /// Bytes of the files.
    pub file_bytes: u64,
}

/// Defects found in files.
#[derive(Debug, Serialize)]
pub struct VerifyReport {
    /// Whether there are no findings.
    pub ok: bool,
    /// TFRecord files.
    pub files: u64,
    /// Sound records in them.
    pub records: u64,
    /// Bytes of the sound records with their frames, before compression.
    pub framed_bytes: u64,
    /// Bytes of the files.
    pub file_bytes: u64,
    /// Leftovers of killed runs that were removed; `None` if removal was not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<Vec<String>>,
    /// The defects, in the order of the files.
    pub findings: Vec<FindingReport>,
}

/// Records saved from damaged files.
#[derive(Debug, Serialize)]
pub struct SalvageReport {
    /// The new set.
    #[serde(flatten)]
    pub shards: ShardsReport,
    /// The defects that caused losses, in the order of the files.
    pub findings: Vec<FindingReport>,
}

/// One defect.
#[derive(Debug, Serialize)]
pub struct FindingReport {
    /// The file or directory.
    pub path: String,
    /// The kind of defect.
    pub kind: &'static str,
    /// The description for a person.
    pub text: String,
    /// The number of the record, if the defect is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<u64>,
    /// The offset of the first lost byte, before compression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub byte: Option<u64>,
    /// The number of lost bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl ShardsReport {
    /// Returns the report of the run that ended with `manifest`.
    pub fn new(out: &Path, manifest: &Manifest, warnings: Vec<String>) -> Self {
        let totals = manifest.totals;
        // The shards of earlier runs precede those of this run.
        let before = match manifest.appended.last() {
            Some(last) => totals.shards.saturating_sub(last.shards),
            None => 0,
        };
        let shards = || manifest.shards.iter().skip(usize::try_from(before).unwrap_or(usize::MAX));
        let sum = |figure: fn(&ShardEntry) -> u64| shards().map(figure).sum::<u64>();
        // In a saved dataset, a row is several records.
        let records_per_row = manifest.options.get("records_per_element").and_then(Value::as_u64).unwrap_or(1).max(1);
        let directories: BTreeSet<_> = shards().map(|shard| &shard.partition_values).collect();
        let split = |name: &str| {
            let shards = shards().filter(|shard| shard.split.as_deref() == Some(name));
            let (rows, shards) = shards.fold((0, 0), |(rows, shards), shard| (rows + shard.rows, shards + 1));
            SplitReport { name: name.to_owned(), rows, shards }
        };
        Self {
            out: out.display().to_string(),
            run: manifest.appended.last().map_or(&manifest.run, |last| &last.run).clone(),
            rows: sum(|shard| shard.rows) / records_per_row,
            shards: sum(|_| 1),
            empty: sum(|shard| u64::from(shard.rows == 0)),
            splits: manifest.splits.iter().map(|described| split(&described.name)).collect(),
            partitions: manifest.partition_columns.is_some().then_some(directories.len() as u64),
            replaced_partitions: NonZeroU64::new(
                manifest.appended.last().map_or(0, |last| last.replaced_partitions.len() as u64),
            ),
            framed_bytes: sum(|shard| shard.framed_bytes),
            file_bytes: sum(|shard| shard.file_bytes),
            is_compressed: manifest.framing().is_compressed(),
            damaged_records: NonZeroU64::new(
                manifest.appended.last().map_or(manifest.damaged_records, |last| last.damaged_records),
            ),
            rejects: manifest.appended.last().map_or(&manifest.rejects, |last| &last.rejects).clone(),
            set: (!manifest.appended.is_empty()).then_some(SetReport { rows: totals.rows, shards: totals.shards }),
            warnings,
        }
    }

    /// Returns the number of shards without rows, if other shards have some.
    pub fn empty_shards(&self) -> u64 {
        if self.rows == 0 { 0 } else { self.empty }
    }

    /// Returns the summary of what was written.
    fn written(&self, rows: &str) -> String {
        let size = match self.is_compressed {
            false => bytes(self.file_bytes),
            true => format!("{} ({} before compression)", bytes(self.file_bytes), bytes(self.framed_bytes)),
        };
        let splits: Vec<_> =
            self.splits.iter().map(|split| format!("{} {}", split.name, grouped(split.rows))).collect();
        let splits = if splits.is_empty() { String::new() } else { format!(" ({})", splits.join(", ")) };
        let directories = match self.partitions {
            Some(1) => " of 1 directory".to_owned(),
            Some(directories) => format!(" of {} directories", grouped(directories)),
            None => String::new(),
        };
        let replaced = self.replaced_partitions.map(|number| format!(" ({} replaced)", grouped(number.get())));
        let directories = directories + &replaced.unwrap_or_default();
        format!("{}{splits} in {}{directories}, {size}", counted(self.rows, rows), counted(self.shards, "shard"))
    }
}

impl IgnoredReport {
    /// Creates the report of an output that was not empty.
    pub fn new(out: &Path, found: Vec<String>) -> Self {
        Self { out: out.display().to_string(), found }
    }
}

impl Report {
    /// Creates the report of a run of this duration.
    pub fn new(outcome: Outcome, elapsed: Duration) -> Self {
        Self {
            version: VERSION,
            tool: Program { name: env!("CARGO_PKG_NAME"), version: env!("CARGO_PKG_VERSION") },
            outcome,
            seconds: elapsed.as_secs_f64(),
        }
    }

    /// Whether nothing was written because there were no rows or records.
    pub fn is_empty(&self) -> bool {
        match &self.outcome {
            Outcome::Shards(shards) => shards.rows == 0,
            Outcome::Table(table) => table.rows == 0,
            Outcome::Salvage(salvage) => salvage.shards.rows == 0,
            Outcome::Ignored(_) | Outcome::Plan(_) | Outcome::Stats(_) => false,
            Outcome::Verify(verify) => verify.files == 0,
        }
    }

    /// Returns notes to print in addition to the summary.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let rejects = match &self.outcome {
            Outcome::Shards(shards) => shards.rejects.as_ref().filter(|rejects| rejects.rows > 0),
            _ => None,
        };
        if let Some(RejectedRows { rows, table, .. }) = rejects {
            let does = if *rows == 1 { "does not fit, and is" } else { "do not fit, and are" };
            notes.push(format!("{} {does} in {table}", counted(*rows, "row")));
        } else if self.is_empty() {
            notes.push("the query yields no rows".to_owned());
        }
        if let Outcome::Shards(shards) = &self.outcome
            && shards.empty_shards() > 0
        {
            let (empty, all) = (grouped(shards.empty_shards()), counted(shards.shards, "shard"));
            let rows = counted(shards.rows, "row");
            notes.push(format!("{empty} of {all} are empty: the query yields {rows}"));
        }
        notes
    }

    /// Returns the report as a JSON object on one line.
    pub fn to_json(&self) -> String {
        format!("{}\n", serde_json::json!(self))
    }

    /// Returns the summary, one line for a person.
    pub fn summary(&self) -> String {
        let seconds = self.seconds;
        match &self.outcome {
            Outcome::Shards(shards) => {
                let set = match &shards.set {
                    Some(set) => {
                        format!(", now {} in {}", counted(set.rows, "row"), counted(set.shards, "shard"))
                    }
                    None => String::new(),
                };
                format!("{}, {seconds:.1} s: {}{set}", shards.written("row"), shards.out)
            }
            Outcome::Plan(plan) => plan.text.clone(),
            Outcome::Stats(stats) => {
                format!("{} in {}, {seconds:.1} s", counted(stats.records, "record"), counted(stats.files, "file"))
            }
            Outcome::Ignored(ignored) => match ignored.found.as_slice() {
                [] => format!("kept the existing files: {}", ignored.out),
                found => format!("kept the existing files: {} contains {}", ignored.out, found.join(", ")),
            },
            Outcome::Table(table) => {
                let files =
                    if table.files == 1 { String::new() } else { format!(" in {}", counted(table.files, "file")) };
                let rows = counted(table.rows, "row");
                format!("{rows}{files}, {}, {seconds:.1} s: {}", bytes(table.file_bytes), table.out)
            }
            Outcome::Verify(verify) => {
                let found = match verify.findings.len() as u64 {
                    0 => "all sound".to_owned(),
                    found => format!("damaged: {}", counted(found, "finding")),
                };
                let (records, files) = (counted(verify.records, "record"), counted(verify.files, "file"));
                format!("{records} in {files}, {}, {seconds:.1} s: {found}", bytes(verify.file_bytes))
            }
            Outcome::Salvage(salvage) => {
                let lost = match salvage.findings.len() as u64 {
                    0 => "nothing lost".to_owned(),
                    found => format!("findings: {found}"),
                };
                let written = salvage.shards.written("record");
                format!("{written}, {lost}, {seconds:.1} s: {}", salvage.shards.out)
            }
        }
    }
}
