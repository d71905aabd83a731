//! What a run did: the summary for a person, and `--report json` for a program.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use tfrecord_shards::Manifest;

use crate::printer::{bytes, counted};

/// Version of the report's form: it changes when a reader of the earlier form would go wrong.
const VERSION: u32 = 1;

/// The outcome of a run that wrote shards. `schemas/report.schema.json` describes its JSON form.
#[derive(Debug, Serialize)]
pub struct Report {
    version: u32,
    tool: Tool,
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
    /// From the command's start to the published set.
    pub seconds: f64,
    /// What the user was warned of.
    pub warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Tool {
    name: &'static str,
    version: &'static str,
}

impl Report {
    /// The report of a run that published `manifest` after `elapsed`.
    pub fn new(out: &Path, manifest: &Manifest, elapsed: Duration, warnings: Vec<String>) -> Self {
        let totals = manifest.totals;
        Self {
            version: VERSION,
            tool: Tool { name: env!("CARGO_PKG_NAME"), version: env!("CARGO_PKG_VERSION") },
            out: out.display().to_string(),
            run: manifest.run.clone(),
            rows: totals.rows,
            shards: totals.shards,
            framed_bytes: totals.framed_bytes,
            file_bytes: totals.file_bytes,
            seconds: elapsed.as_secs_f64(),
            warnings,
        }
    }

    /// One JSON object on one line.
    pub fn to_json(&self) -> String {
        format!("{}\n", serde_json::json!(self))
    }

    /// One line for a person.
    pub fn summary(&self) -> String {
        let size = match self.framed_bytes == self.file_bytes {
            true => bytes(self.file_bytes),
            false => format!("{} ({} before compression)", bytes(self.file_bytes), bytes(self.framed_bytes)),
        };
        format!(
            "{} in {}, {size}, {:.1} s: {}",
            counted(self.rows, "row"),
            counted(self.shards, "shard"),
            self.seconds,
            self.out
        )
    }
}
