//! The metadata file of an Iceberg table, and the snapshot in it that is read.
//!
//! Names are those of the [specification](https://iceberg.apache.org/spec/#table-metadata-and-snapshots).

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use chrono::{DateTime, SecondsFormat};
use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::IcebergOptions;
use super::schema::Schema;
use crate::table::types::Defect;

/// The newest version of the format that is read.
const NEWEST: u32 = 3;

/// The branch that is read unless another one is named.
const MAIN: &str = "main";

/// The property with the names of columns in files without ids.
const NAME_MAPPING: &str = "schema.name-mapping.default";

/// The property with the directory of the metadata files.
const METADATA_PATH: &str = "write.metadata.path";

/// Files of metadata are decompressed up to this size.
const MAX_LEN: u64 = 1 << 30;

const GZIP: &[u8] = b"\x1f\x8b";

/// A metadata file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Metadata {
    pub(super) location: String,
    /// The only schema of old tables.
    schema: Option<Schema>,
    #[serde(default)]
    schemas: Vec<Schema>,
    current_schema_id: Option<i32>,
    /// The only partition spec of old tables.
    partition_spec: Option<Vec<PartitionField>>,
    #[serde(default)]
    partition_specs: Vec<PartitionSpec>,
    properties: Option<BTreeMap<String, String>>,
    current_snapshot_id: Option<i64>,
    snapshots: Option<Vec<Snapshot>>,
    snapshot_log: Option<Vec<LogEntry>>,
    refs: Option<BTreeMap<String, Reference>>,
    encryption_keys: Option<Vec<IgnoredAny>>,
}

/// How files are assigned to partitions.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct PartitionSpec {
    pub(super) spec_id: i32,
    pub(super) fields: Vec<PartitionField>,
}

/// A part of the partition of a file.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct PartitionField {
    pub(super) name: String,
    /// The column. Transforms of several columns have none.
    source_id: Option<i32>,
    /// The columns, as some writers of version 3 have it for one column, too.
    source_ids: Option<Vec<i32>>,
    transform: String,
}

impl PartitionField {
    fn source(&self) -> Option<i32> {
        self.source_id.or(match self.source_ids.as_deref() {
            Some([id]) => Some(*id),
            _ => None,
        })
    }

    /// Whether the part has the values of its column.
    fn is_identity(&self) -> bool {
        self.transform == "identity"
    }
}

impl PartitionSpec {
    /// Whether fields that a manifest has as JSON are those of this spec. What has another form is not compared.
    pub(super) fn is_same(&self, fields: &str) -> bool {
        let Ok(fields) = serde_json::from_str::<Vec<PartitionField>>(fields) else { return true };
        let parts = |field: &PartitionField| (field.source(), field.transform.clone());
        fields.iter().map(parts).eq(self.fields.iter().map(parts))
    }

    /// Whether all files are of one partition.
    pub(super) fn is_unpartitioned(&self) -> bool {
        self.fields.iter().all(|field| field.transform == "void")
    }

    /// Returns the columns, and the fields of structs, whose values the parts have.
    pub(super) fn identities(&self) -> impl Iterator<Item = i32> {
        self.fields.iter().filter(|field| field.is_identity()).filter_map(PartitionField::source)
    }

    /// Returns the position of the part that has the values of a column.
    pub(super) fn identity_of(&self, column: i32) -> Option<usize> {
        self.fields.iter().position(|field| field.is_identity() && field.source() == Some(column))
    }
}

/// The state of a table at a time.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Snapshot {
    pub(super) snapshot_id: i64,
    pub(super) manifest_list: Option<String>,
    /// The manifests of a snapshot without a list, which old tables may have.
    pub(super) manifests: Option<Vec<String>>,
    schema_id: Option<i32>,
    /// The key of an encrypted list.
    key_id: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct LogEntry {
    timestamp_ms: i64,
    snapshot_id: i64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Reference {
    snapshot_id: i64,
    #[serde(rename = "type")]
    kind: String,
}

/// Why a snapshot cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unread {
    /// The metadata file is damaged, or the table needs something that is not supported.
    Defect(Defect),
    /// There is no such snapshot: what was asked for, and the reason.
    NoSuch(String, String),
}

/// Maximum number of names in a message.
const SHOWN: usize = 20;

impl Unread {
    fn damaged(reason: String) -> Self {
        Self::Defect(Defect::Damaged(reason))
    }

    fn unsupported(feature: String) -> Self {
        Self::Defect(Defect::Unsupported(feature))
    }
}

impl Metadata {
    /// Parses a metadata file, which may be compressed. The error is a description of the defect.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Unread> {
        let bytes = text(bytes).map_err(Unread::damaged)?;
        /// What every version has.
        #[derive(Deserialize)]
        #[serde(rename_all = "kebab-case")]
        struct Version {
            format_version: u32,
        }
        let invalid = |error: serde_json::Error| Unread::damaged(error.to_string());
        match serde_json::from_slice::<Version>(&bytes).map_err(invalid)?.format_version {
            1..=NEWEST => {}
            version => return Err(Unread::unsupported(format!("version {version} of the format"))),
        }
        let metadata: Self = serde_json::from_slice(&bytes).map_err(invalid)?;
        let is_encrypted = metadata.property("encryption.key-id").is_some();
        if is_encrypted || metadata.encryption_keys.as_ref().is_some_and(|keys| !keys.is_empty()) {
            return Err(Unread::unsupported("encryption".to_owned()));
        }
        metadata.check_ids().map_err(Unread::damaged)?;
        Ok(metadata)
    }

    /// Checks that no id is that of two snapshots, schemas or partition specs. The error is the defect.
    fn check_ids(&self) -> Result<(), String> {
        fn check(what: &str, ids: impl Iterator<Item = i64>) -> Result<(), String> {
            let mut known = BTreeSet::new();
            match ids.into_iter().find(|id| !known.insert(*id)) {
                Some(id) => Err(format!("it has two {what} with the id {id}")),
                None => Ok(()),
            }
        }
        check("snapshots", self.snapshots.iter().flatten().map(|snapshot| snapshot.snapshot_id))?;
        check("schemas", self.schemas.iter().map(|schema| schema.schema_id.into()))?;
        check("partition specs", self.partition_specs.iter().map(|spec| spec.spec_id.into()))
    }

    /// Returns the directory of the metadata files, if it is not the usual one.
    pub(super) fn metadata_path(&self) -> Option<&str> {
        self.property(METADATA_PATH)
    }

    fn property(&self, key: &str) -> Option<&str> {
        self.properties.as_ref()?.get(key).map(String::as_str)
    }

    /// Returns the names of columns in files without ids, as JSON.
    pub(super) fn name_mapping(&self) -> Option<&str> {
        self.property(NAME_MAPPING)
    }

    /// Returns all schemas that the table has had, the newest last.
    pub(super) fn schemas(&self) -> Vec<&Schema> {
        let mut schemas: Vec<_> = self.schemas.iter().collect();
        if schemas.is_empty() {
            schemas.extend(&self.schema);
        }
        schemas.sort_by_key(|schema| schema.schema_id);
        schemas
    }

    /// Returns the partition spec with an id.
    pub(super) fn spec(&self, id: i32) -> Option<PartitionSpec> {
        match (&self.partition_spec, self.partition_specs.as_slice()) {
            (Some(fields), []) if id == 0 => Some(PartitionSpec { spec_id: 0, fields: fields.clone() }),
            (_, specs) => specs.iter().find(|spec| spec.spec_id == id).cloned(),
        }
    }

    /// Returns the snapshot to read and the schema to read it with. A table that was never written to has no snapshot.
    ///
    /// A branch is read with the schema of the table, and any other snapshot with its own, as by Iceberg itself, unless the
    /// options name one.
    pub(super) fn select(&self, options: &IcebergOptions) -> Result<(Option<&Snapshot>, &Schema), Unread> {
        self.check_main()?;
        let (snapshot, usual) = self.select_usual(options)?;
        let schema = match options.schema {
            Some(id) => self.schemas().into_iter().find(|schema| schema.schema_id == id).ok_or_else(|| {
                let ids: Vec<_> = self.schemas().iter().map(|schema| schema.schema_id.to_string()).collect();
                Unread::NoSuch(format!("schema {id}"), format!("there is {}", ids.join(", ")))
            })?,
            None => usual?,
        };
        Ok((snapshot, schema))
    }

    /// Returns the snapshot to read, and its usual schema.
    fn select_usual(&self, options: &IcebergOptions) -> Result<(Option<&Snapshot>, Result<&Schema, Unread>), Unread> {
        let (asked, id) = match options {
            IcebergOptions { snapshot: Some(id), .. } => (format!("snapshot {id}"), *id),
            IcebergOptions { timestamp: Some(time), .. } => {
                let asked = format!("snapshot of {}", time.to_rfc3339_opts(SecondsFormat::Millis, true));
                let id = self
                    .snapshot_at(time.timestamp_millis())
                    .map_err(|reason| Unread::NoSuch(asked.clone(), reason))?;
                (asked, id)
            }
            IcebergOptions { tag: Some(name), .. } => {
                let asked = format!("tag {name:?}");
                (asked.clone(), self.reference(name, "tag").map_err(|reason| Unread::NoSuch(asked, reason))?)
            }
            IcebergOptions { branch, .. } => {
                let name = branch.as_deref().unwrap_or(MAIN);
                let asked = format!("branch {name:?}");
                let id = match (self.current(), name) {
                    (current, MAIN) => current,
                    _ => Some(self.reference(name, "branch").map_err(|reason| Unread::NoSuch(asked.clone(), reason))?),
                };
                let snapshot = id.map(|id| self.snapshot(id, asked)).transpose()?;
                return Ok((snapshot, self.current_schema()));
            }
        };
        let snapshot = self.snapshot(id, asked)?;
        let schema = match snapshot.schema_id {
            Some(id) => self.schema(id),
            None => self.current_schema(),
        };
        Ok((Some(snapshot), schema))
    }

    /// Returns the newest snapshot of the main branch.
    fn current(&self) -> Option<i64> {
        self.current_snapshot_id.filter(|id| *id != -1)
    }

    fn check_main(&self) -> Result<(), Unread> {
        let main = self.refs.as_ref().and_then(|refs| refs.get(MAIN)).map(|main| main.snapshot_id);
        match main.is_none() || main == self.current() {
            true => Ok(()),
            false => Err(Unread::damaged("its current snapshot is not that of its branch main".to_owned())),
        }
    }

    fn snapshot(&self, id: i64, asked: String) -> Result<&Snapshot, Unread> {
        let snapshots = self.snapshots.as_deref().unwrap_or_default();
        let Some(snapshot) = snapshots.iter().find(|snapshot| snapshot.snapshot_id == id) else {
            let ids: Vec<_> = snapshots.iter().map(|snapshot| snapshot.snapshot_id.to_string()).collect();
            let reason = match ids.as_slice() {
                [] => "there are no snapshots".to_owned(),
                ids => format!("expected {}", one_of(ids)),
            };
            return Err(Unread::NoSuch(asked, reason));
        };
        match snapshot.key_id {
            Some(_) => Err(Unread::unsupported("encryption".to_owned())),
            None => Ok(snapshot),
        }
    }

    /// Returns the snapshot that was the newest of the main branch at a time.
    fn snapshot_at(&self, millis: i64) -> Result<i64, String> {
        let log = self.snapshot_log.as_deref().unwrap_or_default();
        let found = log.iter().rfind(|entry| entry.timestamp_ms <= millis);
        found.map(|entry| entry.snapshot_id).ok_or_else(|| match log.first() {
            Some(first) => {
                let time = DateTime::from_timestamp_millis(first.timestamp_ms).unwrap_or_default();
                format!("its history begins at {}", time.to_rfc3339_opts(SecondsFormat::Millis, true))
            }
            None => "it has no history".to_owned(),
        })
    }

    fn reference(&self, name: &str, kind: &str) -> Result<i64, String> {
        let refs = || self.refs.iter().flatten();
        match refs().find(|(known, _)| *known == name) {
            Some((_, found)) if found.kind == kind => Ok(found.snapshot_id),
            Some((_, found)) => Err(format!("that is a {}", found.kind)),
            None => {
                let known: Vec<_> =
                    refs().filter(|(_, found)| found.kind == kind).map(|(name, _)| name.clone()).collect();
                Err(match known.as_slice() {
                    [] => format!("the table has no {kind}"),
                    known => format!("expected {}", one_of(known)),
                })
            }
        }
    }

    fn current_schema(&self) -> Result<&Schema, Unread> {
        match (self.schemas.as_slice(), &self.schema, self.current_schema_id) {
            ([], Some(schema), _) => Ok(schema),
            ([], None, _) => Err(Unread::damaged("it has no schema".to_owned())),
            (_, _, Some(id)) => self.schema(id),
            (_, _, None) => Err(Unread::damaged("it does not name its current schema".to_owned())),
        }
    }

    fn schema(&self, id: i32) -> Result<&Schema, Unread> {
        let found = self.schemas().into_iter().find(|schema| schema.schema_id == id);
        found.ok_or_else(|| Unread::damaged(format!("it has no schema {id}")))
    }
}

/// Formats the last names of a list that may be long.
fn one_of(names: &[String]) -> String {
    let shown = &names[names.len().saturating_sub(SHOWN)..];
    match (names, names.len() - shown.len()) {
        ([name], _) => name.clone(),
        (_, 0) => format!("one of {}", shown.join(", ")),
        (_, more) => format!("one of {more} others or {}", shown.join(", ")),
    }
}

/// Decompresses a metadata file if it is compressed. The error is a description of the defect.
pub(super) fn text(bytes: &[u8]) -> Result<Vec<u8>, String> {
    if !bytes.starts_with(GZIP) {
        return Ok(bytes.to_vec());
    }
    let mut text = Vec::new();
    MultiGzDecoder::new(bytes).take(MAX_LEN + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
    match text.len() as u64 > MAX_LEN {
        true => Err(format!("it has more than {MAX_LEN} bytes when decompressed")),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests;
