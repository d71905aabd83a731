//! The manifests of a snapshot: which files a table has, and which of their rows are deleted.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array, StructArray};
use datafusion_common::{Result, ScalarValue};
use datafusion_session::Session;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path;
use tfr_files::memory::ReadBounds;

use super::metadata::{Metadata, PartitionSpec, Snapshot};
use super::paths::Paths;
use super::records::Record;
use super::values;
use crate::avro::{Whole, read_whole};
use crate::error::{Error, TableError};
use crate::forward::InputFile;
use crate::table::Place;

/// Manifests that are fetched at a time.
const REQUESTS: usize = 16;

/// The column with the paths in files with positions of deleted rows, and its id.
pub(super) const FILE_PATH: (&str, i32) = ("file_path", 2_147_483_546);

/// The newest version of manifests that is read.
const NEWEST: u32 = 3;

/// What a file of a table contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DataContent {
    Data,
    PositionDeletes,
    EqualityDeletes,
}

/// A file of a table.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) content: DataContent,
    pub(super) path: Path,
    pub(super) format: String,
    pub(super) partition: Partition,
    pub(super) records: u64,
    pub(super) size: u64,
    /// When its rows were written, in the order of commits.
    pub(super) sequence: i64,
    /// The columns of the keys of deleted rows.
    pub(super) equality_ids: Vec<i32>,
    /// The only data file with deleted rows.
    pub(super) referenced: Option<Path>,
    /// The only data file with deleted rows by the bounds of their paths.
    pub(super) bounded: Option<Path>,
    /// Where a deletion vector is in the file, and its length.
    pub(super) blob: Option<(u64, u64)>,
}

/// The partition of a file.
#[derive(Debug, Clone)]
pub(super) struct Partition {
    pub(super) spec: Arc<PartitionSpec>,
    pub(super) values: Vec<ScalarValue>,
    /// What identifies the partition.
    pub(super) key: PartitionKey,
}

/// What identifies a partition: the spec, and comparable values.
pub(super) type PartitionKey = (i32, Vec<Option<Vec<u8>>>);

/// A manifest, as its list describes it.
#[derive(Debug, Clone)]
struct Manifest {
    path: Path,
    length: Option<u64>,
    /// The partition spec that the list records.
    spec: Option<Arc<PartitionSpec>>,
    has_deletes: bool,
    sequence: i64,
    /// The numbers of files and rows that were added, existed before, and were deleted.
    counts: [(Option<u64>, Option<u64>); 3],
}

/// The states of an entry, in the order of their numbers.
const EXISTING: usize = 0;
const ADDED: usize = 1;
const DELETED: usize = 2;

/// Where the counts of the states are in a list. Older writers have other names.
const COUNTS: [([&str; 2], &str); 3] = [
    (["existing_files_count", "existing_data_files_count"], "existing_rows_count"),
    (["added_files_count", "added_data_files_count"], "added_rows_count"),
    (["deleted_files_count", "deleted_data_files_count"], "deleted_rows_count"),
];

/// Reads the manifests of a table.
pub(super) struct Manifests<'a> {
    pub(super) place: &'a Place,
    pub(super) paths: &'a Paths<'a>,
    pub(super) metadata: &'a Metadata,
    pub(super) bounds: ReadBounds,
}

impl<'a> Manifests<'a> {
    pub(super) fn of(session: &dyn Session, place: &'a Place, paths: &'a Paths<'a>, metadata: &'a Metadata) -> Self {
        Self { place, paths, metadata, bounds: ReadBounds::of(session) }
    }

    /// Returns the files of a snapshot.
    ///
    /// # Errors
    /// A file is missing, is damaged, or has something that is not supported.
    pub(super) async fn entries(&self, snapshot: &Snapshot) -> Result<Vec<Entry>> {
        let manifests = match (&snapshot.manifest_list, &snapshot.manifests) {
            (Some(list), _) => self.list(list, snapshot.snapshot_id).await?,
            (None, Some(paths)) => paths.iter().map(|path| self.unlisted(path)).collect::<Result<_, _>>()?,
            (None, None) => {
                let reason = format!("snapshot {} has no list of manifests", snapshot.snapshot_id);
                return Err(self.place.damaged(self.place.table(), reason).into());
            }
        };
        // Collected first: a closure over references is not general enough for the compiler inside a stream.
        let reads: Vec<BoxFuture<'_, _>> = manifests.into_iter().map(|manifest| self.read(manifest).boxed()).collect();
        let entries: Vec<Vec<Entry>> = futures::stream::iter(reads).buffered(REQUESTS).try_collect().await?;
        Ok(entries.into_iter().flatten().collect())
    }

    /// A manifest of an old table, which no list describes.
    fn unlisted(&self, path: &str) -> Result<Manifest, Error> {
        let path = self.paths.resolve(path)?;
        Ok(Manifest { path, length: None, spec: None, has_deletes: false, sequence: 0, counts: [(None, None); 3] })
    }

    fn spec(&self, id: i64, file: &str) -> Result<Arc<PartitionSpec>, Error> {
        let spec = i32::try_from(id).ok().and_then(|id| self.metadata.spec(id));
        spec.map(Arc::new).ok_or_else(|| {
            self.place
                .damaged(file.to_owned(), format!("it has partition spec {id}, which the metadata file does not list"))
        })
    }

    async fn list(&self, list: &str, snapshot: i64) -> Result<Vec<Manifest>> {
        let path = self.paths.resolve(list)?;
        let file = self.place.name(&path);
        let Whole { header, batches } = self.avro(&path, None).await?;
        // Some writers do not record it.
        if header.get("snapshot-id").is_some_and(|id| id.parse() != Ok(snapshot)) {
            return Err(self.place.damaged(file, format!("it is not the list of snapshot {snapshot}")).into());
        }
        // Lists of version 1 have no sequence numbers, and lists of that time need not name their version.
        let is_numbered = header.get("format-version").is_some_and(|version| version != "1");
        let mut manifests = Vec::new();
        for batch in batches {
            let fields = StructArray::from(batch);
            for row in 0..fields.len() {
                let record = Record { fields: &fields, row };
                if is_numbered && !record.has("sequence_number") {
                    return Err(self.place.damaged(file, "a manifest has no sequence number".to_owned()).into());
                }
                manifests.push(self.manifest(record, &file)?);
            }
        }
        Ok(manifests)
    }

    fn manifest(&self, record: Record<'_>, file: &str) -> Result<Manifest, Error> {
        let damage = |reason| self.place.damaged(file.to_owned(), reason);
        if record.has("key_metadata") {
            return Err(self.place.unsupported("encryption".to_owned()));
        }
        let mut counts = [(None, None); 3];
        for (count, (files, rows)) in counts.iter_mut().zip(COUNTS) {
            let found = files.iter().find(|name| record.has(name)).unwrap_or(&files[0]);
            *count = (record.optional_count(found).map_err(damage)?, record.optional_count(rows).map_err(damage)?);
        }
        let content = record.optional_long("content").map_err(damage)?.unwrap_or_default();
        if !(0..=1).contains(&content) {
            return Err(damage(format!("a manifest has the content {content}")));
        }
        Ok(Manifest {
            path: self.paths.resolve(record.text("manifest_path").map_err(damage)?)?,
            length: Some(record.count("manifest_length").map_err(damage)?),
            spec: Some(self.spec(record.long("partition_spec_id").map_err(damage)?, file)?),
            has_deletes: content == 1,
            sequence: record.optional_long("sequence_number").map_err(damage)?.unwrap_or_default(),
            counts,
        })
    }

    /// Reads an Avro file, which has this length if it is recorded.
    async fn avro(&self, path: &Path, length: Option<u64>) -> Result<Whole> {
        let name = self.place.name(path);
        let Some(meta) = self.place.head(path).await? else {
            return Err(Error::from(TableError::missing(name, &self.place.table())).into());
        };
        if let Some(length) = length.filter(|length| *length != meta.size) {
            let reason = format!("it has {} bytes, but its list records {length}", meta.size);
            return Err(self.place.damaged(name, reason).into());
        }
        let input = InputFile { store: Arc::clone(self.place.store()), meta, name: name.into() };
        read_whole(input, self.bounds).await
    }

    /// Reads the live entries of a manifest.
    async fn read(&self, manifest: Manifest) -> Result<Vec<Entry>> {
        let file = self.place.name(&manifest.path);
        let damage = |reason| self.place.damaged(file.clone(), reason);
        let Whole { header, batches } = self.avro(&manifest.path, manifest.length).await?;
        let spec = &match &manifest.spec {
            Some(spec) => Arc::clone(spec),
            None => self.spec(own_spec(&header).map_err(damage)?, &file)?,
        };
        self.check_header(&header, spec, manifest.has_deletes).map_err(damage)?;
        let (mut entries, mut found) = (Vec::new(), [(0_u64, 0_u64); 3]);
        for batch in batches {
            let fields = StructArray::from(batch);
            for row in 0..fields.len() {
                let record = Record { fields: &fields, row };
                let status = record.count("status").map_err(damage)?;
                let state = usize::try_from(status).ok().and_then(|status| found.get_mut(status));
                let (files, rows) = state.ok_or_else(|| damage(format!("an entry has the status {status}")))?;
                let data_file = record.record("data_file").map_err(damage)?;
                *files += 1;
                *rows = rows.saturating_add(data_file.count("record_count").map_err(damage)?);
                if status != DELETED as u64 {
                    let sequence = sequence(record, status == ADDED as u64, manifest.sequence).map_err(damage)?;
                    entries.push(self.entry(data_file, sequence, (spec, manifest.has_deletes), &file)?);
                }
            }
        }
        for (state, name) in [(EXISTING, "existing"), (ADDED, "added"), (DELETED, "deleted")] {
            let (files, rows) = found[state];
            let (recorded_files, recorded_rows) = manifest.counts[state];
            for (what, found, recorded) in [("files", files, recorded_files), ("rows", rows, recorded_rows)] {
                if let Some(recorded) = recorded.filter(|recorded| *recorded != found) {
                    return Err(damage(format!("it has {found} {name} {what}, but its list records {recorded}")).into());
                }
            }
        }
        Ok(entries)
    }

    /// Checks what a manifest contains about itself.
    fn check_header(
        &self,
        header: &HashMap<String, String>,
        spec: &PartitionSpec,
        has_deletes: bool,
    ) -> Result<(), String> {
        match header.get("format-version").map(|version| version.parse::<u32>()) {
            None | Some(Ok(1..=NEWEST)) => {}
            Some(_) => return Err(format!("it is of version {} of the format", header["format-version"])),
        }
        let id = spec.spec_id;
        if header.get("partition-spec-id").is_some_and(|found| found.parse() != Ok(id)) {
            return Err(format!("it is not of partition spec {id}, as its list records"));
        }
        if header.get("partition-spec").is_some_and(|text| !spec.is_same(text)) {
            return Err(format!("its fields of partition spec {id} are not those of the metadata file"));
        }
        match (header.get("content").map(String::as_str), has_deletes) {
            (None, _) | (Some("data"), false) | (Some("deletes"), true) => Ok(()),
            (Some(content), _) => Err(format!("it is a manifest of {content}, but its list records otherwise")),
        }
    }

    fn entry(
        &self,
        record: Record<'_>,
        sequence: i64,
        (spec, has_deletes): (&Arc<PartitionSpec>, bool),
        file: &str,
    ) -> Result<Entry, Error> {
        let damage = |reason| self.place.damaged(file.to_owned(), reason);
        if record.has("key_metadata") {
            return Err(self.place.unsupported("encryption".to_owned()));
        }
        let content = match record.optional_long("content").map_err(damage)? {
            None | Some(0) => DataContent::Data,
            Some(1) => DataContent::PositionDeletes,
            Some(2) => DataContent::EqualityDeletes,
            Some(other) => return Err(self.place.unsupported(format!("files of the content {other}"))),
        };
        if (content != DataContent::Data) != has_deletes {
            return Err(damage("it has a file of other content than its list records".to_owned()));
        }
        let path = self.paths.resolve(record.text("file_path").map_err(damage)?)?;
        let referenced = record.optional_text("referenced_data_file").map_err(damage)?;
        let bounded = match content {
            DataContent::PositionDeletes => only_path(record),
            _ => None,
        };
        let offset = record.optional_count("content_offset").map_err(damage)?;
        let length = record.optional_count("content_size_in_bytes").map_err(damage)?;
        Ok(Entry {
            content,
            path,
            format: record.text("file_format").map_err(damage)?.to_ascii_uppercase(),
            partition: partition(record, spec).map_err(damage)?,
            records: record.count("record_count").map_err(damage)?,
            size: record.count("file_size_in_bytes").map_err(damage)?,
            sequence,
            equality_ids: record.ids("equality_ids").map_err(damage)?,
            referenced: referenced.map(|path| self.paths.resolve(path)).transpose()?,
            // A bound that is cut is no path of a file.
            bounded: bounded.and_then(|path| self.paths.resolve(&path).ok()),
            blob: offset.zip(length),
        })
    }
}

/// Returns the partition spec that a manifest records itself.
fn own_spec(header: &HashMap<String, String>) -> Result<i64, String> {
    let Some(id) = header.get("partition-spec-id") else { return Ok(0) };
    id.parse().map_err(|_| format!("its partition spec is {id:?}"))
}

/// Returns the sequence number of an entry. One that was just added has that of its manifest, which is written before
/// the number is known.
fn sequence(record: Record<'_>, is_added: bool, of_manifest: i64) -> Result<i64, String> {
    match record.optional_long("sequence_number")? {
        Some(sequence) => Ok(sequence),
        // Manifests of version 1 have no numbers.
        None if is_added || of_manifest == 0 => Ok(of_manifest),
        None => Err("an entry has no sequence number".to_owned()),
    }
}

/// Returns the path of the only data file whose rows a file deletes, if the bounds of its paths are equal.
fn only_path(record: Record<'_>) -> Option<String> {
    let (lower, upper) = (record.bound("lower_bounds", FILE_PATH.1)?, record.bound("upper_bounds", FILE_PATH.1)?);
    (lower == upper).then(|| String::from_utf8(lower.to_vec()).ok()).flatten()
}

/// Returns the partition of a file: a value for each field of the spec, in its order.
fn partition(record: Record<'_>, spec: &Arc<PartitionSpec>) -> Result<Partition, String> {
    let parts = record.record("partition")?;
    let columns = parts.fields.columns();
    if columns.len() != spec.fields.len() {
        return Err(format!(
            "a partition has {} parts, but partition spec {} has {}",
            columns.len(),
            spec.spec_id,
            spec.fields.len()
        ));
    }
    // A manifest may have them in another order. Names that are not valid in Avro are written in another form.
    let names = spec.fields.iter().map(|field| parts.fields.column_by_name(&field.name));
    let named = names.collect::<Option<Vec<_>>>();
    let columns = named.unwrap_or_else(|| columns.iter().collect());
    let mut found = Vec::with_capacity(columns.len());
    let mut key = Vec::with_capacity(columns.len());
    for column in columns {
        let value = ScalarValue::try_from_array(column, parts.row).map_err(|error| error.to_string())?;
        key.push(
            values::comparable(&value).map_err(|data_type| format!("a partition has a part of type {data_type}"))?,
        );
        found.push(value);
    }
    Ok(Partition { spec: Arc::clone(spec), values: found, key: (spec.spec_id, key) })
}
