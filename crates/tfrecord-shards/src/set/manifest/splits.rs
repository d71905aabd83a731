//! [`SplitDescription`]: a split of a set, and those that follow from the rows of its shards.

use serde::{Deserialize, Serialize};

use super::Manifest;

/// One of the splits of a set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SplitDescription {
    /// Its name, which is the prefix of its shards' names.
    pub name: String,
    /// The approximate fraction of all rows in it.
    pub fraction: f64,
    /// The number of rows in it, if the set was divided by exact numbers of rows. Such a set is not appended to. Since
    /// format 1.5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
}

impl SplitDescription {
    /// Describes a split that gets about this fraction of the rows. It is rounded to 15 decimal places: the number is then
    /// the same after it was written as JSON and read.
    pub fn new(name: impl Into<String>, fraction: f64) -> Self {
        const PLACES: f64 = 1e15;
        Self { name: name.into(), fraction: (fraction * PLACES).round() / PLACES, rows: None }
    }
}

impl Manifest {
    /// Describes the splits whose names are in a column, or that have exact numbers of rows, by the rows of the shards.
    pub(super) fn describe_splits(&mut self) {
        let is_counted = self.split_column.is_some() || self.splits.iter().any(|split| split.rows.is_some());
        if !is_counted {
            return;
        }
        if self.split_column.is_some() {
            // All rows of a split may have been replaced.
            let shards = &self.shards;
            self.splits.retain(|split| shards.iter().any(|shard| shard.split.as_ref() == Some(&split.name)));
            for name in self.shards.iter().filter_map(|shard| shard.split.as_ref()) {
                if self.splits.iter().all(|split| split.name != *name) {
                    self.splits.push(SplitDescription::new(name, 0.0));
                }
            }
        }
        for split in &mut self.splits {
            let shards = self.shards.iter().filter(|shard| shard.split.as_ref() == Some(&split.name));
            let rows = shards.map(|shard| shard.rows).fold(0, u64::saturating_add);
            let rows_before = split.rows;
            *split = SplitDescription::new(&split.name, rows as f64 / self.totals.rows as f64);
            split.rows = rows_before.map(|_| rows);
        }
    }
}
