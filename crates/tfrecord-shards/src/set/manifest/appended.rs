//! [`AppendedRun`]: a run that added shards to a set.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use chrono::{DateTime, SubsecRound, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Manifest, RejectedRows, SetDescription, ShardEntry, TOOL, Totals};
use crate::error::Result;
use crate::set::format_version::FORMAT_VERSION;
use crate::set::names::RunId;
use crate::set::scalar;
use crate::write::sharding::Sharding;

/// A run that added shards to a set, with the options that may differ between runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AppendedRun {
    /// The run. The names of its shards contain it.
    pub run: String,
    /// When its shards were published.
    #[serde(with = "scalar::rfc3339")]
    pub created: DateTime<Utc>,
    /// The tool that wrote them, with its version.
    pub tool: String,
    /// The query, without secrets.
    pub query: Option<String>,
    /// The inputs, without secrets.
    pub inputs: Vec<String>,
    /// Other options of the user, without secrets.
    pub options: BTreeMap<String, Value>,
    /// Seed of the shuffle.
    pub seed: Option<u64>,
    /// Number of tasks that wrote their own shards.
    pub write_partitions: u32,
    /// How rows were assigned to shards.
    pub sharding: Sharding,
    /// The number of damaged records of its inputs that it passed over. Since format 1.5.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub damaged_records: u64,
    /// The rows that did not fit, if it rejected such rows. Since format 1.5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejects: Option<RejectedRows>,
    /// Number of its shards in the set. Later runs may have replaced others.
    pub shards: u64,
    /// The directories of the partitions that it replaced. Since format 1.5.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced_partitions: Vec<String>,
}

impl Manifest {
    /// Creates the manifest of this set, whose path is `out`, with further shards, added now by a new run. They replace
    /// all shards of their partitions if the description says so. Fails as [`check_append`](Self::check_append).
    pub(crate) fn with_appended(
        &self,
        description: SetDescription,
        shards: Vec<ShardEntry>,
        run: &RunId,
        out: &Path,
    ) -> Result<Self> {
        let mut manifest = self.grown(&description, out)?;
        let replaced_partitions = match description.replace_partitions {
            true => manifest.remove_partitions(&shards),
            false => Vec::new(),
        };
        manifest.format_version = FORMAT_VERSION;
        manifest.appended.push(AppendedRun {
            run: run.to_string(),
            created: Utc::now().trunc_subsecs(3),
            tool: TOOL.to_owned(),
            query: description.query,
            inputs: description.inputs,
            options: description.options,
            seed: description.seed,
            write_partitions: description.write_partitions,
            sharding: description.sharding,
            damaged_records: description.damaged_records,
            rejects: description.rejects,
            shards: shards.len() as u64,
            replaced_partitions,
        });
        // Sidecars that describe the set as it was are outdated.
        let kept: BTreeSet<_> = manifest.shards.iter().map(|shard| shard.path.as_str()).collect();
        manifest.sidecars.retain(|sidecar| sidecar.is_index_of(kept.iter().copied()));
        manifest.shards.extend(shards);
        manifest.totals = Totals::of(&manifest.shards);
        manifest.describe_splits();
        manifest.replaced = self.file_names().difference(&manifest.file_names()).cloned().collect();
        Ok(manifest)
    }

    /// Removes all shards of the partitions that these shards are of, and returns the directories of those that had some.
    fn remove_partitions(&mut self, shards: &[ShardEntry]) -> Vec<String> {
        let named: BTreeSet<_> = shards.iter().map(|shard| &shard.partition_values).collect();
        let is_replaced = |shard: &ShardEntry| named.contains(&shard.partition_values);
        // The shards of each run follow those of the runs before it.
        let mut end = self.shards.len();
        for run in self.appended.iter_mut().rev() {
            let start = end.saturating_sub(usize::try_from(run.shards).unwrap_or(usize::MAX));
            let of_run = self.shards.get(start..end).unwrap_or_default();
            run.shards = of_run.iter().filter(|shard| !is_replaced(shard)).count() as u64;
            end = start;
        }
        let removed = self.shards.extract_if(.., |shard| is_replaced(shard));
        let directory = |shard: ShardEntry| Some(shard.path.rsplit_once('/')?.0.to_owned());
        removed.filter_map(directory).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(super) fn is_zero(number: &u64) -> bool {
    *number == 0
}
