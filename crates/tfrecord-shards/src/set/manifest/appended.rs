//! [`AppendedRun`]: a run that appended to a set.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::set::scalar;
use crate::write::sharding::Sharding;

/// A run that appended shards to a set, with the options that may differ between runs.
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
    /// Number of shards it appended.
    pub shards: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(super) fn is_zero(number: &u64) -> bool {
    *number == 0
}
