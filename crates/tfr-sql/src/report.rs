//! What a run did: the summary for a person, and `--report json` for a program.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use tfrecord_shards::Manifest;

use crate::printer::{bytes, counted};

/// Version of the report's form: it changes when a reader of the earlier form would go wrong.
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

/// What came of it.
#[derive(Debug, Serialize)]
#[serde(tag = "report", rename_all = "lowercase")]
pub enum Outcome {
    /// A query's rows, or the records of files, as a set of shards.
    Shards(ShardsReport),
    /// A query's rows as a table.
    Table(TableReport),
    /// What is wrong with files.
    Verify(VerifyReport),
    /// What was saved of damaged files.
    Salvage(SalvageReport),
}

/// A published set of shards.
#[derive(Debug, Serialize)]
pub struct ShardsReport {
    /// The directory of the shards, as the user wrote it.
    pub out: String,
    /// The run's id, which the manifest has too.
    pub run: String,
    /// Records written.
    pub rows: u64,
    /// Shards written.
    pub shards: u64,
    /// Bytes of framed records, before compression.
    pub framed_bytes: u64,
    /// Bytes of the shards on disk.
    pub file_bytes: u64,
    /// What the user was warned of.
    pub warnings: Vec<String>,
}

/// A published table.
#[derive(Debug, Serialize)]
pub struct TableReport {
    /// The file or directory, as the user wrote it.
    pub out: String,
    /// What the names of such files end in: `csv.gz`.
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

/// What is wrong with files.
#[derive(Debug, Serialize)]
pub struct VerifyReport {
    /// Whether nothing is.
    pub ok: bool,
    /// TFRecord files.
    pub files: u64,
    /// Sound records in them.
    pub records: u64,
    /// Bytes of the sound records with their frames, before compression.
    pub framed_bytes: u64,
    /// Bytes of the files.
    pub file_bytes: u64,
    /// What is wrong, in the order of the files.
    pub findings: Vec<FindingReport>,
}

/// What was saved of damaged files.
#[derive(Debug, Serialize)]
pub struct SalvageReport {
    /// The new set.
    #[serde(flatten)]
    pub shards: ShardsReport,
    /// What was lost, in the order of the files.
    pub findings: Vec<FindingReport>,
}

/// One thing that is wrong.
#[derive(Debug, Serialize)]
pub struct FindingReport {
    /// The file or directory.
    pub path: String,
    /// The word for what it is.
    pub kind: &'static str,
    /// The sentence that a person gets.
    pub text: String,
    /// The record, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<u64>,
    /// The first byte that is lost, before compression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub byte: Option<u64>,
    /// Bytes that are lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl ShardsReport {
    /// The set that `manifest` describes.
    pub fn new(out: &Path, manifest: &Manifest, warnings: Vec<String>) -> Self {
        let totals = manifest.totals;
        Self {
            out: out.display().to_string(),
            run: manifest.run.clone(),
            rows: totals.rows,
            shards: totals.shards,
            framed_bytes: totals.framed_bytes,
            file_bytes: totals.file_bytes,
            warnings,
        }
    }

    /// What was written, for a person.
    fn written(&self, rows: &str) -> String {
        let size = match self.framed_bytes == self.file_bytes {
            true => bytes(self.file_bytes),
            false => format!("{} ({} before compression)", bytes(self.file_bytes), bytes(self.framed_bytes)),
        };
        format!("{} in {}, {size}", counted(self.rows, rows), counted(self.shards, "shard"))
    }
}

impl Report {
    /// The report of a run that took so long.
    pub fn new(outcome: Outcome, elapsed: Duration) -> Self {
        Self {
            version: VERSION,
            tool: Program { name: env!("CARGO_PKG_NAME"), version: env!("CARGO_PKG_VERSION") },
            outcome,
            seconds: elapsed.as_secs_f64(),
        }
    }

    /// Whether nothing was written because there was nothing.
    pub fn is_empty(&self) -> bool {
        match &self.outcome {
            Outcome::Shards(shards) => shards.rows == 0,
            Outcome::Table(table) => table.rows == 0,
            Outcome::Salvage(salvage) => salvage.shards.rows == 0,
            Outcome::Verify(verify) => verify.files == 0,
        }
    }

    /// One JSON object on one line.
    pub fn to_json(&self) -> String {
        format!("{}\n", serde_json::json!(self))
    }

    /// One line for a person.
    pub fn summary(&self) -> String {
        let seconds = self.seconds;
        match &self.outcome {
            Outcome::Shards(shards) => format!("{}, {seconds:.1} s: {}", shards.written("row"), shards.out),
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
