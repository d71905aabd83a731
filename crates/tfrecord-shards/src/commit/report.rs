//! [`TaskReport`]: what one attempt of a task has staged.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::commit::attempt_id::AttemptId;
use crate::commit::publication::StagedShard;
use crate::commit::shared_staging::SHARED_FORMAT;
use crate::commit::staging_names;
use crate::error::{AtPath, AttemptError, Error, ErrorKind, Result};
use crate::set::group::ShardGroup;
use crate::set::names::RunId;
use crate::sort::SharedRuns;

/// Suffix of a report until it is synced.
const NEW_SUFFIX: &str = ".new";

/// What one attempt of a task has staged. It is the last file that an attempt writes: its presence means that the attempt
/// is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskReport {
    /// The format of the report.
    pub format: u32,
    /// The run that writes the set.
    pub run: RunId,
    /// The task: the write partition of its shards.
    pub partition: u32,
    /// The attempt of the task.
    pub attempt: AttemptId,
    /// The machine that the attempt ran on. Empty if it is not known.
    pub host: String,
    /// Number of rows of the task.
    pub rows: u64,
    /// The shards. None if the task has no rows.
    pub shards: Vec<StagedShard>,
    /// Statistics of the values, in the form of whoever collected them.
    #[serde(default, with = "base64_bytes", skip_serializing_if = "Option::is_none")]
    pub statistics: Option<Vec<u8>>,
    /// What the user is to be told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The number of damaged records of the inputs that the task passed over.
    #[serde(default)]
    pub damaged_records: u64,
    /// The [sorted rows](crate::sort::SharedRuns) of the task, as bytes, if they are yet to be written to shards.
    #[serde(default, with = "base64_bytes", skip_serializing_if = "Option::is_none")]
    pub runs: Option<Vec<u8>>,
    /// The groups of these rows, by the numbers that the task gave them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<ShardGroup>,
}

impl TaskReport {
    /// Describes a complete attempt.
    pub fn new(run: RunId, partition: u32, attempt: AttemptId, shards: Vec<StagedShard>) -> Self {
        let host = host();
        let rows = shards.iter().map(|shard| shard.rows).fold(0, u64::saturating_add);
        let (format, statistics, notes, runs, groups) = (SHARED_FORMAT, None, Vec::new(), None, Vec::new());
        let damaged_records = 0;
        Self { format, run, partition, attempt, host, rows, shards, statistics, notes, damaged_records, runs, groups }
    }

    /// Sets the sorted rows, and their groups by number.
    ///
    /// # Errors
    /// As [`SharedRuns::to_bytes`].
    pub fn with_runs(mut self, runs: &SharedRuns, groups: Vec<ShardGroup>) -> Result<Self> {
        self.runs = Some(runs.to_bytes()?);
        self.rows = runs.rows();
        self.groups = groups;
        Ok(self)
    }

    /// Sets the statistics.
    #[must_use]
    pub fn with_statistics(mut self, statistics: Vec<u8>) -> Self {
        self.statistics = Some(statistics);
        self
    }

    /// Sets the number of damaged records that were passed over.
    #[must_use]
    pub fn with_damaged_records(mut self, number: u64) -> Self {
        self.damaged_records = number;
        self
    }

    /// Adds a note.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Writes the report to a directory of attempts, complete or not at all.
    pub(crate) fn write(&self, attempts: &Path) -> Result<()> {
        let path = attempts.join(staging_names::report_name(self.partition, self.attempt));
        let new = attempts.join(staging_names::report_name(self.partition, self.attempt) + NEW_SUFFIX);
        let json = serde_json::to_vec(self)?;
        let write = || {
            let mut file = File::create_new(&new)?;
            file.write_all(&json)?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(attempts)?.sync_all()
        };
        write().at("write", &path)
    }

    /// Reads and checks the report of an attempt.
    pub(crate) fn read(attempts: &Path, run: &RunId, partition: u32, attempt: AttemptId) -> Result<Self> {
        let path = attempts.join(staging_names::report_name(partition, attempt));
        let json = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(AttemptError::NoReport { path }.into());
            }
            json => json.at("read", &path)?,
        };
        let report = Self::parse(&json, &path, partition, attempt)?;
        report.check(attempts, run)?;
        Ok(report)
    }

    /// Returns the report as JSON.
    ///
    /// # Errors
    /// Never for a report that was made here.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        Ok(serde_json::to_vec(self)?)
    }

    /// Reads and checks the report of an attempt whose shards are uploads, at `path`.
    ///
    /// # Errors
    /// If this is not the report of such an attempt.
    pub fn from_uploads(json: &[u8], path: &Path, run: &RunId, partition: u32, attempt: AttemptId) -> Result<Self> {
        let report = Self::parse(json, path, partition, attempt)?;
        report.check_contents(path, run, None)?;
        Ok(report)
    }

    /// Reads a report, and checks whose it is.
    fn parse(json: &[u8], path: &Path, partition: u32, attempt: AttemptId) -> Result<Self> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let syntax = |source| AttemptError::ReportSyntax { path: path.to_owned(), source };
        // The format first, because the rest of another one may have any structure.
        let Format { format: found } = serde_json::from_slice(json).map_err(syntax)?;
        if found != SHARED_FORMAT {
            return Err(AttemptError::Format { expected: SHARED_FORMAT, found }.into());
        }
        let report: Self = serde_json::from_slice(json).map_err(syntax)?;
        if (report.partition, report.attempt) != (partition, attempt) {
            let problem = format!("is of attempt {} of task {}", report.attempt, report.partition);
            return Err(AttemptError::Report { path: path.to_owned(), problem }.into());
        }
        Ok(report)
    }

    /// Returns the complete attempts in a directory of attempts, in the order of tasks and attempts.
    pub(crate) fn list(attempts: &Path) -> Result<Vec<(u32, AttemptId)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(attempts).at("list", attempts)? {
            let name = entry.at("list", attempts)?.file_name();
            found.extend(name.to_str().and_then(staging_names::parse_report_name));
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Checks that the report is of this run and agrees with itself and with the files of its attempt. It may name no
    /// other files.
    pub(crate) fn check(&self, attempts: &Path, run: &RunId) -> Result<()> {
        let path = attempts.join(staging_names::report_name(self.partition, self.attempt));
        self.check_contents(&path, run, Some(attempts))?;
        for shard in &self.shards {
            check_file(&attempts.join(&shard.staged), shard.file_bytes)?;
            if let Some(index) = &shard.index {
                check_file(&index.path, index.file_bytes)?;
            }
        }
        Ok(())
    }

    /// Checks that the report, which is at `path`, is of this run and agrees with itself. Its shards are files in the
    /// directory `attempts`, or uploads.
    fn check_contents(&self, path: &Path, run: &RunId, attempts: Option<&Path>) -> Result<()> {
        let refuse = |problem| AttemptError::Report { path: path.to_owned(), problem };
        if self.run != *run {
            return Err(refuse(format!("expected a report of run {run}, found one of run {}", self.run)).into());
        }
        let mut rows: u64 = 0;
        for shard in &self.shards {
            self.check_shard(shard, attempts).map_err(refuse)?;
            shard.group.check()?;
            rows = rows.saturating_add(shard.rows);
        }
        if let Some(runs) = &self.runs {
            let runs = SharedRuns::from_bytes(runs)?;
            let prefix = staging_names::attempt_run_prefix(self.attempt);
            if let Some(other) = runs.files().find(|name| !name.starts_with(&prefix)) {
                return Err(refuse(format!("expected files {prefix}..., found {other:?}")).into());
            }
            self.groups.iter().try_for_each(ShardGroup::check)?;
            rows = rows.saturating_add(runs.rows());
        }
        if rows != self.rows {
            return Err(refuse(format!("expected {} rows, found {rows}", self.rows)).into());
        }
        Ok(())
    }

    fn check_shard(&self, shard: &StagedShard, attempts: Option<&Path>) -> std::result::Result<(), String> {
        let StagedShard { staged, partition, sequence, upload, .. } = shard;
        if *partition != self.partition {
            return Err(format!("expected shards of task {}, found {staged:?} of task {partition}", self.partition));
        }
        let name = staging_names::attempt_shard_name(self.partition, *sequence, self.attempt);
        match (attempts, upload) {
            (Some(_), _) if *staged != name => return Err(format!("expected shard {name:?}, found {staged:?}")),
            (Some(_), Some(_)) => return Err(format!("shard {name:?} is an upload, expected a file")),
            (None, None) => return Err(format!("shard {staged:?} is a file, expected an upload")),
            (Some(_), None) | (None, Some(_)) => {}
        }
        let index = staging_names::attempt_index_name(self.partition, *sequence, self.attempt);
        let index = attempts.unwrap_or(Path::new("")).join(index);
        match &shard.index {
            Some(found) if found.path != index => Err(format!("expected index {index:?}, found {:?}", found.path)),
            _ => Ok(()),
        }
    }
}

/// Returns the name of this machine, for messages. Empty if it is not known.
fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim_end().to_owned());
    name.or_else(|_| env::var("HOSTNAME")).unwrap_or_default()
}

/// Checks that a regular file of this length exists.
fn check_file(path: &Path, expected: u64) -> Result<()> {
    // Opened, not only inspected: a client of NFS may have cached the attributes of a directory without the file.
    let metadata = fs::symlink_metadata(path).and_then(|found| match found.is_file() {
        true => File::open(path)?.metadata(),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    });
    let found = metadata.at("inspect", path)?.len();
    if found != expected {
        return Err(ErrorKind::ShardLength { path: path.to_owned(), expected, found }.into());
    }
    Ok(())
}

/// Returns the reports of complete attempts, which are given in the order of tasks. An attempt whose report or files are
/// damaged does not count if the task has another one.
///
/// # Errors
/// If a report cannot be read, or all attempts of a task are damaged ([`AttemptError::DamagedTask`]).
pub fn sound_reports(read: impl IntoIterator<Item = (u32, Result<TaskReport>)>) -> Result<Vec<TaskReport>> {
    let mut reports: Vec<TaskReport> = Vec::new();
    let mut damaged: BTreeMap<u32, Error> = BTreeMap::new();
    for (task, report) in read {
        match report {
            Ok(report) => reports.push(report),
            Err(error) if is_damage(&error) => drop(damaged.insert(task, error)),
            Err(error) => return Err(error),
        }
    }
    reports.iter().for_each(|report| drop(damaged.remove(&report.partition)));
    match damaged.pop_first() {
        Some((task, error)) => Err(AttemptError::DamagedTask { task, source: Box::new(error) }.into()),
        None => Ok(reports),
    }
}

/// Whether an attempt's report or files are not what the attempt has written, so that only another attempt helps.
fn is_damage(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::ShardLength { .. } => true,
        ErrorKind::Attempt(error) => matches!(error, AttemptError::Report { .. } | AttemptError::ReportSyntax { .. }),
        // A file was removed, or replaced by something else.
        ErrorKind::Io { source, .. } => {
            matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput)
        }
        _ => false,
    }
}

/// Chooses one report for each task: that of its newest attempt. All reports must be of complete attempts. The result is
/// in the order of the tasks.
///
/// `tasks` is the number of tasks of the set, if it is known. Without it, the tasks are those up to the last that has
/// reported.
///
/// # Errors
/// If tasks have not reported ([`AttemptError::Missing`]), or others have ([`AttemptError::Unexpected`]).
pub fn choose_reports(reports: impl IntoIterator<Item = TaskReport>, tasks: Option<u32>) -> Result<Vec<TaskReport>> {
    let mut newest: BTreeMap<u32, TaskReport> = BTreeMap::new();
    for report in reports {
        match newest.get(&report.partition) {
            Some(other) if other.attempt >= report.attempt => {}
            _ => drop(newest.insert(report.partition, report)),
        }
    }
    let reported = newest.last_key_value().map_or(0, |(last, _)| last.saturating_add(1));
    let tasks = tasks.unwrap_or(reported);
    if let Some((&partition, _)) = newest.range(tasks..).next() {
        return Err(AttemptError::Unexpected { partition, tasks }.into());
    }
    let count = (tasks as usize).saturating_sub(newest.len());
    if count > 0 {
        let missing = (0..tasks).filter(|partition| !newest.contains_key(partition));
        return Err(
            AttemptError::Missing { partitions: missing.take(AttemptError::MOST_TASKS).collect(), count }.into()
        );
    }
    Ok(newest.into_values().collect())
}

/// Bytes as base64 in JSON.
mod base64_bytes {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &Option<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
        bytes.as_ref().map(|bytes| BASE64_STANDARD.encode(bytes)).serialize(serializer)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(deserializer: D) -> Result<Option<Vec<u8>>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| BASE64_STANDARD.decode(text).map_err(D::Error::custom)).transpose()
    }
}
