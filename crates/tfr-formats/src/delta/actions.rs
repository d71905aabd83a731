//! The actions in the log of a Delta table, as far as a reader needs them.
//!
//! Names are those of the [protocol](https://github.com/delta-io/delta/blob/master/PROTOCOL.md).

use std::collections::BTreeMap;

use serde::Deserialize;

/// An action: one of these is set, unless it is one that a reader may ignore.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Action {
    pub(super) add: Option<Add>,
    pub(super) remove: Option<Remove>,
    pub(super) meta_data: Option<Metadata>,
    pub(super) protocol: Option<Protocol>,
    pub(super) sidecar: Option<Sidecar>,
    pub(super) checkpoint_metadata: Option<CheckpointMetadata>,
    pub(super) commit_info: Option<CommitInfo>,
}

/// Adds a file, or replaces its deletion vector.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Add {
    pub(super) path: String,
    /// The values of the partition columns, by their names in the files.
    #[serde(default)]
    pub(super) partition_values: BTreeMap<String, Option<String>>,
    pub(super) size: u64,
    /// JSON. Checkpoints may lack it.
    pub(super) stats: Option<String>,
    /// The same in columns of a checkpoint.
    #[serde(rename = "stats_parsed")]
    pub(super) stats_parsed: Option<Statistics>,
    pub(super) deletion_vector: Option<DeletionVector>,
}

impl Add {
    /// Returns the number of rows in the file, if it is recorded. The error is the defect of what is recorded.
    pub(super) fn rows(&self) -> Result<Option<u64>, String> {
        let in_json = match self.stats.as_deref() {
            None | Some("") => None,
            Some(text) => {
                let stats: Statistics =
                    serde_json::from_str(text).map_err(|error| format!("statistics that are not valid: {error}"))?;
                stats.num_records
            }
        };
        let parsed = self.stats_parsed.as_ref().and_then(|stats| stats.num_records);
        match (in_json, parsed) {
            (Some(in_json), Some(parsed)) if in_json != parsed => {
                Err(format!("{in_json} rows in its statistics, but {parsed} in their parsed form"))
            }
            _ => Ok(in_json.or(parsed)),
        }
    }
}

/// What the log records about the rows of a file, as far as it is compared.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Statistics {
    num_records: Option<u64>,
}

/// Removes a file, or its version with one deletion vector.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Remove {
    pub(super) path: String,
    pub(super) deletion_vector: Option<DeletionVector>,
}

/// Where the deleted positions of a file are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeletionVector {
    pub(super) storage_type: String,
    pub(super) path_or_inline_dv: String,
    pub(super) offset: Option<u64>,
    pub(super) size_in_bytes: u64,
    pub(super) cardinality: u64,
}

/// The schema and the properties of the table.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) format: Format,
    /// JSON. A table that is being created may have none.
    pub(super) schema_string: Option<String>,
    pub(super) partition_columns: Vec<String>,
    #[serde(default)]
    pub(super) configuration: BTreeMap<String, Option<String>>,
}

impl Metadata {
    pub(super) fn property(&self, key: &str) -> Option<&str> {
        self.configuration.get(key)?.as_deref()
    }
}

/// The format of the data files.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Format {
    pub(super) provider: String,
}

/// What a reader must support.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Protocol {
    pub(super) min_reader_version: u32,
    pub(super) reader_features: Option<Vec<String>>,
}

/// What a checkpoint of version 2 is of.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct CheckpointMetadata {
    pub(super) version: u64,
}

/// A file with more actions of a checkpoint.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sidecar {
    pub(super) path: String,
    pub(super) size_in_bytes: u64,
}

/// When a version was written.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CommitInfo {
    /// Milliseconds since 1970.
    pub(super) in_commit_timestamp: Option<i64>,
}
