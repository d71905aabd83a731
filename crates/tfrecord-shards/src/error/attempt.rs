//! [`AttemptError`]: what other processes have staged cannot be published.

use std::path::PathBuf;

use super::Error;

/// What tasks in other processes have staged, or are about to stage, cannot be published.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttemptError {
    /// Another release shared the staging directory or wrote the report.
    #[error("staged by another release: expected format {expected}, found {found}")]
    Format {
        /// The format of this release.
        expected: u32,
        /// The format found.
        found: u32,
    },
    /// An attempt has no report, so it is not complete.
    #[error("{}: there is no report, so the attempt is not complete", path.display())]
    NoReport {
        /// The expected path of the report.
        path: PathBuf,
    },
    /// A report is not valid JSON of a report.
    #[error("{}: not a valid report of a task", path.display())]
    ReportSyntax {
        /// The report.
        path: PathBuf,
        /// The defect, with its line and column.
        source: serde_json::Error,
    },
    /// A report contradicts itself or the files of its attempt.
    #[error("{}: {problem}", path.display())]
    Report {
        /// The report.
        path: PathBuf,
        /// The contradiction.
        problem: String,
    },
    /// The bytes of a staged file have changed since its attempt reported it.
    #[error("{}: expected CRC-32C {expected:08x}, found {found:08x}", path.display())]
    Checksum {
        /// The file.
        path: PathBuf,
        /// The checksum in the report.
        expected: u32,
        /// The checksum of the file.
        found: u32,
    },
    /// No attempt of a task has the files that it has reported.
    #[error("task {task} must be run again: what it has staged is damaged")]
    DamagedTask {
        /// The task: the write partition.
        task: u32,
        /// The defect of its newest attempt.
        source: Box<Error>,
    },
    /// Write partitions have no complete attempt.
    #[error("not reported: {}", tasks(partitions, *count))]
    Missing {
        /// The first of the partitions, in order.
        partitions: Vec<u32>,
        /// The number of all of them.
        count: usize,
    },
    /// There are reports of a write partition that the set does not have.
    #[error("task {partition} has reported, expected tasks 0 to {}", tasks.saturating_sub(1))]
    Unexpected {
        /// The partition.
        partition: u32,
        /// The number of partitions of the set.
        tasks: u32,
    },
    /// The file that says how sorted rows are divided into shards is not what a task has written.
    #[error("how the sorted rows are divided into shards cannot be read")]
    CutSyntax {
        /// The defect.
        source: serde_json::Error,
    },
    /// A setting needs all rows in one place.
    #[error("{setting} needs all rows of a set in one process, expected shards of a number of rows or bytes")]
    Setting {
        /// The setting.
        setting: &'static str,
    },
}

impl AttemptError {
    /// Maximum number of partitions listed.
    pub(crate) const MOST_TASKS: usize = 10;
}

/// Lists tasks for a message.
fn tasks(first: &[u32], count: usize) -> String {
    let noun = if count == 1 { "task" } else { "tasks" };
    let shown: Vec<_> = first.iter().map(u32::to_string).collect();
    let more = count.saturating_sub(first.len());
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{noun} {}{more}", shown.join(", "))
}
