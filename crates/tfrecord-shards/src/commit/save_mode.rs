//! [`SaveMode`]: how to proceed if the target exists.

use serde::{Deserialize, Serialize};

/// How to proceed if the target exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SaveMode {
    /// Fail, unless the target is an empty directory.
    #[default]
    Error,
    /// Replace the existing set once the new one is complete.
    Overwrite,
    /// Append to the existing set, which must be complete and have the same record format. Write a new set if the
    /// target is empty.
    Append,
    /// Replace the partitions of the existing set that the rows name, and keep all others. The set must be one that can be
    /// [appended](Self::Append) to, with the same partition columns. Write a new set if the target is empty.
    OverwritePartitions,
    /// Do nothing, unless the target is absent or an empty directory.
    Ignore,
}

impl SaveMode {
    /// Whether the run adds its shards to the existing set, which must be complete and have the same record format.
    pub fn keeps_set(self) -> bool {
        matches!(self, Self::Append | Self::OverwritePartitions)
    }
}
