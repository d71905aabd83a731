//! [`PlannedTables`]: what one process has found out about tables, so that others can plan the same query without it.
//!
//! The process that plans *records*: the schema of each table, and the file groups of each scan. Another process
//! *replays*: it opens no file and lists no directory to plan the query. Its scans have the recorded statistics, and
//! one stand-in for each file group. The files of the groups that it reads replace the stand-ins later
//! ([`with_files`]). A stand-in that is left cannot be read, since there is no such file.
//!
//! A table takes part if its format supports it, and if its files have nothing that [`PlannedTables`] cannot record.
//! If any scan of the session has, nothing is recorded at all ([`PlannedTables::recorded`]).

mod group;
mod statistics;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_schema::{FieldRef, Schema};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use datafusion_common::{Result, Statistics, exec_err};
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_groups::FileGroup;
use datafusion_datasource::file_scan_config::{FileScanConfig, FileScanConfigBuilder};
use datafusion_datasource::source::DataSourceExec;
use datafusion_execution::config::SessionConfig;
use datafusion_physical_plan::ExecutionPlan;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tfr_stores::LocationText;

use crate::files::source::FilesSource;
use crate::scan::guard::{GuardedSource, scan_config};
use crate::scan::with_known;
use statistics::StoredStatistics;

pub use group::decode_group;

/// The tables and scans of a session, as an extension of its configuration.
#[derive(Debug)]
pub struct PlannedTables {
    mode: Mode,
    /// Number of tables that were opened. Sessions with the same statements open the same tables in the same order.
    opened: AtomicUsize,
}

#[derive(Debug)]
enum Mode {
    Records(Mutex<Recording>),
    Replays(Arc<PlannedScans>),
}

#[derive(Debug, Default)]
struct Recording {
    scans: PlannedScans,
    groups: Vec<Vec<u8>>,
    /// Whether a scan cannot be recorded.
    is_incomplete: bool,
}

/// The tables and scans of a session, without the files.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedScans {
    tables: BTreeMap<String, PlannedTable>,
    scans: Vec<PlannedScan>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedTable {
    /// Its columns, as the Base64 of an Arrow IPC stream without rows. Those of the path are the last.
    columns: String,
    /// Number of columns in the path.
    path_columns: usize,
    /// What its format has found out about the files.
    pub format: Value,
}

/// A scan of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlannedScan {
    /// The table, the filters on its path and the limit.
    key: String,
    groups: Vec<PlannedGroup>,
    statistics: StoredStatistics,
}

/// A file group of a scan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlannedGroup {
    /// The index of its encoded files.
    index: usize,
    /// Its size in bytes.
    bytes: u64,
}

/// What a table has attached to a file, as a [`FileReader`](crate::FileReader) has written it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownText(pub String);

/// A table that a session has opened.
#[derive(Debug, Clone)]
pub(crate) struct OpenedTable {
    pub(crate) tables: Arc<PlannedTables>,
    pub(crate) key: String,
}

impl PlannedTables {
    /// Creates an extension that records.
    pub fn recording() -> Self {
        Self { mode: Mode::Records(Mutex::default()), opened: AtomicUsize::new(0) }
    }

    /// Creates an extension that replays what another process has recorded.
    pub fn replaying(scans: Arc<PlannedScans>) -> Self {
        Self { mode: Mode::Replays(scans), opened: AtomicUsize::new(0) }
    }

    /// Returns the extension of a session.
    pub fn of(config: &SessionConfig) -> Option<Arc<Self>> {
        config.get_extension()
    }

    /// Returns the key of the table that a session opens next.
    pub fn next_key(&self, locations: &[LocationText]) -> String {
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        locations.iter().fold(number.to_string(), |key, location| format!("{key} {location}"))
    }

    /// Whether tables are recorded.
    pub fn records(&self) -> bool {
        matches!(self.mode, Mode::Records(_))
    }

    /// Returns a recorded table, if tables are replayed.
    pub fn table(&self, key: &str) -> Option<&PlannedTable> {
        match &self.mode {
            Mode::Records(_) => None,
            Mode::Replays(scans) => scans.tables.get(key),
        }
    }

    /// Returns the recorded tables and scans, and the encoded files of their groups; `None` if there are none, or if a
    /// scan of the session cannot be recorded. `rows` is the plan whose scans must have the recorded groups.
    pub fn recorded(&self, rows: &Arc<dyn ExecutionPlan>) -> Option<(PlannedScans, Vec<Vec<u8>>)> {
        let recording = self.recording_state()?;
        let is_complete = !recording.is_incomplete && !recording.scans.scans.is_empty();
        (is_complete && recording.has_groups_of(rows)).then(|| (recording.scans.clone(), recording.groups.clone()))
    }

    fn recording_state(&self) -> Option<MutexGuard<'_, Recording>> {
        match &self.mode {
            Mode::Records(recording) => Some(recording.lock().unwrap_or_else(PoisonError::into_inner)),
            Mode::Replays(_) => None,
        }
    }

    /// Records a table. Returns whether it can be recorded.
    pub(crate) fn record_table(&self, key: &str, columns: &Schema, path_columns: usize, format: Value) -> bool {
        let (Some(columns), Some(mut recording)) = (schema_text(columns), self.recording_state()) else {
            return false;
        };
        recording.scans.tables.insert(key.to_owned(), PlannedTable { columns, path_columns, format });
        true
    }

    /// Notes that a scan cannot be recorded, so that nothing of the session is.
    pub(crate) fn set_incomplete(&self) {
        if let Some(mut recording) = self.recording_state() {
            recording.is_incomplete = true;
        }
    }

    /// Records a scan of file groups with these statistics. Returns its number, if it can be recorded.
    pub(crate) fn record_scan(
        &self,
        key: String,
        source: &Arc<dyn FileSource>,
        files: &[FileGroup],
        statistics: &Statistics,
    ) -> Result<Option<usize>> {
        let Some(mut recording) = self.recording_state() else { return Ok(None) };
        let mut groups = Vec::with_capacity(files.len());
        for files in files {
            match group::encode_group(files, source)? {
                Some(encoded) => groups.push(encoded),
                None => break,
            }
        }
        let statistics = StoredStatistics::new(statistics)?.filter(|_| groups.len() == files.len());
        let Some(statistics) = statistics else {
            log::debug!("{key}: tasks plan this scan again: its files have properties that a plan does not keep");
            recording.is_incomplete = true;
            return Ok(None);
        };
        let known = recording.scans.scans.iter().position(|scan| scan.key == key);
        if let Some(known) = known {
            // The same scan of another plan of the query.
            let scan = &recording.scans.scans[known];
            let is_same = scan.statistics == statistics
                && scan.groups.iter().map(|group| &recording.groups[group.index]).eq(&groups);
            recording.is_incomplete |= !is_same;
            return Ok(Some(known));
        }
        let first = recording.groups.len();
        let described = files.iter().enumerate().map(|(index, files)| PlannedGroup {
            index: first + index,
            bytes: files.iter().map(PartitionedFile::effective_size).sum(),
        });
        let scan = PlannedScan { key, groups: described.collect(), statistics };
        recording.groups.append(&mut groups);
        recording.scans.scans.push(scan);
        Ok(Some(recording.scans.scans.len() - 1))
    }

    /// Returns the number of a recorded scan, a stand-in for each of its groups, and its statistics.
    pub(crate) fn replay(&self, key: &str) -> Result<(usize, Vec<FileGroup>, Statistics)> {
        let scans = match &self.mode {
            Mode::Replays(scans) => &scans.scans,
            Mode::Records(_) => return exec_err!("a scan is replayed while it is recorded"),
        };
        let Some((number, scan)) = scans.iter().enumerate().find(|(_, scan)| scan.key == key) else {
            return exec_err!("the plan has no such scan: {key}");
        };
        let stand_in = |(index, group): (usize, &PlannedGroup)| {
            // It is a part of a longer file, since parts are not divided again.
            let file = PartitionedFile::new(format!("file group {index} of a plan"), group.bytes.saturating_add(1));
            FileGroup::new(vec![file.with_range(0, i64::try_from(group.bytes).unwrap_or(i64::MAX))])
        };
        let groups = scan.groups.iter().enumerate().map(stand_in).collect();
        Ok((number, groups, scan.statistics.decode()?))
    }
}

impl Recording {
    /// Whether the scans of a plan have the recorded groups: an optimizer rule may have divided files.
    fn has_groups_of(&self, plan: &Arc<dyn ExecutionPlan>) -> bool {
        let is_same = scan_of(plan).is_none_or(|(number, config)| {
            let recorded = self.scans.scans.get(number).into_iter().flat_map(|scan| &scan.groups);
            let recorded = recorded.map(|group| self.groups.get(group.index).map(Vec::as_slice));
            let source = config.file_source();
            let encode = |files| group::encode_group(files, source).ok().flatten();
            let found = config.file_groups.iter().map(encode);
            let found: Vec<_> = found.collect();
            recorded.eq(found.iter().map(Option::as_deref))
        });
        is_same && plan.children().into_iter().all(|child| self.has_groups_of(child))
    }
}

impl PlannedScans {
    /// Returns the index of the encoded files of each group of a scan.
    pub fn groups(&self, scan: usize) -> impl Iterator<Item = usize> + '_ {
        self.scans.get(scan).into_iter().flat_map(|scan| &scan.groups).map(|group| group.index)
    }
}

impl PlannedTable {
    /// Returns the columns, and those of the path.
    ///
    /// # Errors
    /// They are not an Arrow schema.
    pub fn columns(&self) -> Result<(Schema, Vec<FieldRef>)> {
        let schema = schema_of_text(&self.columns)?;
        let of_files = schema.fields().len().saturating_sub(self.path_columns);
        let path = schema.fields().iter().skip(of_files).cloned().collect();
        Ok((schema, path))
    }
}

/// Returns a schema as text; `None` if the text would not have all of it.
pub fn schema_text(schema: &Schema) -> Option<String> {
    let text = BASE64_STANDARD.encode(group::encode_schema(schema).ok()?);
    schema_of_text(&text).is_ok_and(|found| found == *schema).then_some(text)
}

/// Returns the schema of a text.
///
/// # Errors
/// It is not one of [`schema_text`].
pub fn schema_of_text(text: &str) -> Result<Schema> {
    let Ok(bytes) = BASE64_STANDARD.decode(text) else { return exec_err!("columns that are not Base64") };
    group::decode_schema(&bytes)
}

/// Returns the scan of a plan's root, if it is recorded or replayed, and its number.
pub fn scan_of(plan: &Arc<dyn ExecutionPlan>) -> Option<(usize, &FileScanConfig)> {
    let config = scan_config(plan)?;
    let source = config.file_source();
    let number = match source.downcast_ref::<GuardedSource>() {
        Some(guarded) => guarded.planned(),
        None => source.downcast_ref::<FilesSource>()?.planned(),
    };
    Some((number?, config))
}

/// Replaces each file of the groups.
///
/// # Errors
/// Those of `f`.
pub fn map_files(
    groups: Vec<FileGroup>,
    mut f: impl FnMut(PartitionedFile) -> Result<PartitionedFile>,
) -> Result<Vec<FileGroup>> {
    let map_group = |group: FileGroup| {
        let files = group.into_inner().into_iter().map(&mut f).collect::<Result<Vec<_>>>()?;
        Ok(FileGroup::new(files))
    };
    groups.into_iter().map(map_group).collect()
}

/// Returns a scan of other files, which it reads as they were listed.
///
/// # Errors
/// The format cannot read them.
pub fn with_files(config: &FileScanConfig, groups: Vec<FileGroup>) -> Result<Arc<dyn ExecutionPlan>> {
    let groups = with_known(config.file_source(), groups)?;
    if groups.iter().flat_map(FileGroup::iter).any(|file| file.extensions.contains::<KnownText>()) {
        return exec_err!("a file group of a plan has properties that its format does not read");
    }
    let config = FileScanConfigBuilder::from(config.clone()).with_file_groups(groups).build();
    let source: Arc<dyn FileSource> = match config.file_source().downcast_ref::<GuardedSource>() {
        Some(guarded) => Arc::new(guarded.of_files(&config)?),
        None => Arc::clone(config.file_source()),
    };
    Ok(DataSourceExec::from_data_source(FileScanConfigBuilder::from(config).with_source(source).build()))
}

#[cfg(test)]
mod tests;
