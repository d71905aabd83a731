//! [`Rows`]: the plan of the rows that another process must have, to compare plans.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::object_store::ObjectMeta;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use serde::{Deserialize, Serialize};
use tfr_files::{DeletedRows, planned};
use tfr_stores::redacted;
use xxhash_rust::xxh3::Xxh3;

use crate::error::{Result, TaskError};

/// Operators that depend on the memory of the machine. They divide rows into batches, and change nothing else.
const BY_MEMORY: [&str; 2] = ["BoundedBatchesExec", "HalvingProjectionExec"];

/// The plan of the rows, to be compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    /// Number of partitions.
    pub(super) tasks: u32,
    /// The operators, a line each.
    pub(super) plan: Vec<String>,
    /// The state of every file that is read.
    pub(super) files: BTreeMap<String, String>,
}

impl Rows {
    /// Describes a plan. With `is_planned`, the files of scans that are recorded or replayed are not described: the plan
    /// has them elsewhere.
    pub fn of(plan: &Arc<dyn ExecutionPlan>, is_planned: bool) -> Result<Self> {
        let mut plan = Arc::clone(plan);
        if is_planned {
            plan = without_files(&plan)?;
        }
        let mut files = BTreeMap::new();
        collect_files(&plan, &mut files);
        let lines = displayable(plan.as_ref()).set_show_schema(true).indent(true).to_string();
        let lines = lines.lines().map(str::trim).filter(|line| !BY_MEMORY.iter().any(|name| line.starts_with(name)));
        let tasks = plan.properties().output_partitioning().partition_count();
        Ok(Self {
            tasks: u32::try_from(tasks).unwrap_or(u32::MAX),
            plan: lines.map(|line| redacted(line).into_owned()).collect(),
            files,
        })
    }

    /// Checks that the rows are those that were planned.
    pub(super) fn check(&self, found: &Self) -> Result<(), TaskError> {
        let missing = || "no such file".to_owned();
        let names = self.files.keys().chain(found.files.keys());
        for name in names {
            let (expected, found) = (self.files.get(name), found.files.get(name));
            if expected != found {
                let state = |state: Option<&String>| state.cloned().unwrap_or_else(missing);
                let (file, expected, found) = (name.clone(), state(expected), state(found));
                return Err(TaskError::Input { file, expected, found });
            }
        }
        let lines = self.plan.iter().map(Some).chain([None]).zip(found.plan.iter().map(Some).chain([None]));
        let text = |line: Option<&String>| line.cloned().unwrap_or_default();
        match lines.into_iter().find(|(expected, found)| expected != found) {
            Some((expected, found)) => {
                let (expected, found) = (text(expected), text(found));
                log::debug!("planned: {expected}");
                log::debug!("planned here: {found}");
                Err(planned_differently(&expected, &found))
            }
            None => Ok(()),
        }
    }
}

/// Returns the error for lines of a plan that differ.
pub(super) fn planned_differently(expected: &str, found: &str) -> TaskError {
    let start = first_difference(expected, found);
    TaskError::Plan { expected: part(expected, start), found: part(found, start) }
}

/// The byte at which two texts begin to differ.
fn first_difference(one: &str, other: &str) -> usize {
    one.char_indices()
        .zip(other.chars())
        .find(|((_, one), other)| one != other)
        .map_or(one.len().min(other.len()), |((at, _), _)| at)
}

/// The part of an operator around a byte, for messages: the line of an operator that reads 10,000 files takes a megabyte.
fn part(line: &str, at: usize) -> String {
    const BEFORE: usize = 200;
    const AFTER: usize = 400;
    let head = line.get(..at).unwrap_or(line);
    let start = head.char_indices().rev().nth(BEFORE).map_or(0, |(start, _)| start);
    let tail = line.get(at..).unwrap_or_default();
    let end = tail.char_indices().nth(AFTER).map_or(line.len(), |(end, _)| at + end);
    let dots = |is_cut: bool| if is_cut { "\u{2026}" } else { "" };
    format!("{}{}{}", dots(start > 0), line.get(start..end).unwrap_or_default(), dots(end < line.len()))
}

/// Returns a plan whose recorded or replayed scans have as many file groups, all of them empty.
fn without_files(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let emptied = Arc::clone(plan).transform_down(|node| {
        let Some((_, config)) = planned::scan_of(&node) else { return Ok(Transformed::no(node)) };
        let groups = vec![FileGroup::default(); config.file_groups.len()];
        Ok(Transformed::yes(planned::with_files(config, groups)?))
    });
    Ok(emptied.data()?)
}

/// Collects the state of all files that a plan reads.
fn collect_files(plan: &Arc<dyn ExecutionPlan>, files: &mut BTreeMap<String, String>) {
    let source = plan.downcast_ref::<DataSourceExec>();
    if let Some(scan) = source.and_then(|source| source.data_source().downcast_ref::<FileScanConfig>()) {
        for file in scan.file_groups.iter().flat_map(|group| group.files()) {
            let (url, meta) = (&scan.object_store_url, &file.object_meta);
            let deleted = file.extensions.get::<DeletedRows>().map(deleted_rows).unwrap_or_default();
            files.insert(file_name(url, meta), state(url, meta) + &deleted);
        }
    }
    plan.children().into_iter().for_each(|child| collect_files(child, files));
}

/// Describes the deleted rows of a file.
fn deleted_rows(rows: &DeletedRows) -> String {
    let mut hash = Xxh3::new();
    let positions = rows.ranges().iter().flat_map(|range| [range.start, range.end]);
    positions.for_each(|position| hash.update(&position.to_le_bytes()));
    format!(", without {} rows ({:016x})", rows.count(), hash.digest())
}

/// Returns the URL of a file, without secrets.
pub fn file_name(store: &ObjectStoreUrl, meta: &ObjectMeta) -> String {
    redacted(&format!("{}{}", store.as_str(), meta.location)).into_owned()
}

/// Describes the state of a file.
pub fn state(store: &ObjectStoreUrl, meta: &ObjectMeta) -> String {
    let mut state = format!("{} bytes of {}", meta.size, meta.last_modified.to_rfc3339());
    // The tag of a local file contains its inode, which differs between copies, and between mounts.
    if *store != ObjectStoreUrl::local_filesystem() {
        let version = [meta.e_tag.as_deref(), meta.version.as_deref()].map(|text| text.unwrap_or("-"));
        state += &format!(", {}", version.join(" "));
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_shown_around_their_first_difference() {
        let line = |middle: &str| format!("{}{middle}{}", "é".repeat(5000), "z".repeat(5000));
        let (one, other) = (line("one"), line("other"));
        let at = first_difference(&one, &other);
        assert_eq!(at, 10_001);
        let shown = part(&one, at);
        assert!(shown.starts_with('…') && shown.ends_with('…') && shown.contains("éonez"), "{shown}");
        assert!(shown.chars().count() < 700, "{}", shown.len());
        assert_eq!(part("short", first_difference("short", "shorter")), "short");
        assert_eq!(part("", 0), "");
    }
}
