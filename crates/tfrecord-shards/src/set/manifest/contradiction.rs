//! Checks a manifest for contradictions and for paths outside of the set.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Manifest, RecordOffset, ShardEntry, SplitDescription, Totals};
use crate::error::{ErrorKind, Result};
use crate::set::group::ShardGroup;
use crate::set::{MANIFEST_NAME, SUCCESS_NAME};

/// Tolerance for the sum of all split fractions, which users round: a third may be written as 0.333333.
const FRACTIONS_TOLERANCE: f64 = 1e-6;

/// The minor format version that introduced declared splits and partition columns.
const GROUPS_SINCE: u32 = 3;

impl Manifest {
    /// Returns the first contradiction.
    pub(crate) fn contradiction(&self) -> Option<String> {
        if let Some(problem) = split_problem(&self.splits, &self.split_by).or_else(|| self.run_problem()) {
            return Some(problem);
        }
        let mut paths = BTreeSet::new();
        for shard in &self.shards {
            let path = &shard.path;
            if leads_out(path) {
                return Some(format!("shard path {path:?} leads out of the set"));
            }
            if !paths.insert(path) {
                return Some(format!("shard {path:?} is listed twice"));
            }
            if !shard.has_ordered_offsets() {
                return Some(format!("the offsets of shard {path:?} are not in order, or lead out of it"));
            }
            if self.format_version.minor >= GROUPS_SINCE
                && let Some(problem) = self.misplaced(shard)
            {
                return Some(format!("shard {path:?} {problem}"));
            }
        }
        for path in self.sidecars.iter().map(|sidecar| &sidecar.path) {
            if leads_out(path) {
                return Some(format!("sidecar path {path:?} leads out of the set"));
            }
            if !paths.insert(path) || [MANIFEST_NAME, SUCCESS_NAME].contains(&path.as_str()) {
                return Some(format!("sidecar {path:?} is listed twice"));
            }
        }
        if let Some(path) = self.replaced.iter().find(|path| leads_out(path)) {
            return Some(format!("replaced path {path:?} leads out of the set"));
        }
        let sums = Totals::of(&self.shards);
        (self.totals != sums).then(|| format!("the shards add up to {sums}, the totals record {}", self.totals))
    }

    /// Returns an error if the manifest to write to `out` contradicts itself.
    ///
    /// # Errors
    /// [`ErrorKind::ManifestContent`].
    pub(crate) fn refuse_contradiction(&self, out: &Path) -> Result<()> {
        match self.contradiction() {
            Some(problem) => Err(ErrorKind::ManifestContent { path: out.join(MANIFEST_NAME), problem }.into()),
            None => Ok(()),
        }
    }

    /// Describes how a shard's path contradicts its split or partition values.
    fn misplaced(&self, shard: &ShardEntry) -> Option<String> {
        match &shard.split {
            Some(split) if !self.splits.iter().any(|known| known.name == *split) => {
                return Some(format!("is of split {split:?}, which the set does not have"));
            }
            None if !self.splits.is_empty() => return Some("is of no split".to_owned()),
            _ => {}
        }
        let columns = self.partition_columns.iter().flat_map(|columns| &columns.fields).map(|field| &field.name);
        let value = |column: &String| Some((column.clone(), shard.partition_values.get(column)?.clone()));
        let partition_values: Vec<_> = columns.clone().map_while(value).collect();
        if partition_values.len() != columns.count() || partition_values.len() != shard.partition_values.len() {
            return Some("does not have one value for each partition column".to_owned());
        }
        if partition_values.is_empty() {
            return None;
        }
        let directory = ShardGroup { partition_values, split: None }.directory();
        let lies_in = shard.path.rsplit_once('/').map(|(directory, _)| directory).unwrap_or_default();
        (lies_in != directory).then(|| format!("is not in {directory:?}, although its partition values say so"))
    }

    fn run_problem(&self) -> Option<String> {
        let mut runs = BTreeSet::new();
        if let Some(run) = self.runs().find(|run| !runs.insert(*run)) {
            return Some(format!("run {run:?} has written shards twice"));
        }
        let appended = self.appended.iter().map(|run| run.shards).fold(0, u64::saturating_add);
        let shards = self.shards.len();
        (appended > shards as u64).then(|| format!("{appended} shards were appended, of {shards} in the set"))
    }
}

impl ShardEntry {
    /// Whether the offsets strictly increase and are less than the end.
    fn has_ordered_offsets(&self) -> bool {
        let start = RecordOffset { record: 0, framed: 0, file: 0 };
        let end = RecordOffset { record: self.rows, framed: self.framed_bytes, file: self.file_bytes };
        let places: Vec<_> = std::iter::once(&start).chain(&self.offsets).chain([&end]).collect();
        self.offsets.is_empty()
            || places
                .is_sorted_by(|one, next| one.record < next.record && one.framed < next.framed && one.file < next.file)
    }
}

fn split_problem(splits: &[SplitDescription], split_by: &[String]) -> Option<String> {
    if splits.is_empty() {
        return (!split_by.is_empty()).then(|| "split columns are listed, but there are no splits".to_owned());
    }
    let mut names = BTreeSet::new();
    if let Some(SplitDescription { name, .. }) = splits.iter().find(|split| !names.insert(&split.name)) {
        return Some(format!("split {name:?} is declared twice"));
    }
    let is_none = |fraction: f64| fraction.is_nan() || fraction <= 0.0;
    if let Some(SplitDescription { name, fraction, .. }) = splits.iter().find(|split| is_none(split.fraction)) {
        return Some(format!("split {name:?} has the fraction {fraction}"));
    }
    let sum: f64 = splits.iter().map(|split| split.fraction).sum();
    ((sum - 1.0).abs() > FRACTIONS_TOLERANCE).then(|| format!("the fractions of the splits add up to {sum}"))
}

/// Whether a path is not a normalized path below the set's directory.
fn leads_out(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "" | "." | ".."))
}
