//! Which rows of a table's files are deleted: by deletion vectors, by positions, and by keys.
//!
//! All of them become positions in each data file when the table is opened. See
//! [the rules](https://iceberg.apache.org/spec/#scan-planning).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use datafusion_common::Result;
use datafusion_session::Session;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path;
use tfr_files::{ColumnInFiles, DeletedRows, FilesWithoutIds};

use super::keys::{DeletedKeys, KeyColumns};
use super::manifest::{DataContent, Entry, FILE_PATH, PartitionKey};
use super::metadata::Metadata;
use super::paths::Paths;
use super::schema::NameMapping;
use super::{columns_by_id, file_of, vector};
use crate::calendar::CalendarOption;
use crate::table::{self, Place};

/// Data files whose deleted rows are determined at a time.
const REQUESTS: usize = 16;

/// The format of files with deletion vectors.
const PUFFIN: &str = "PUFFIN";

/// The column with the positions of deleted rows, and its id.
const POS: (&str, i32) = ("pos", 2_147_483_545);

/// The files that delete rows, by what determines to which data files they apply.
#[derive(Default)]
struct Index<'a> {
    vectors: HashMap<&'a Path, &'a Entry>,
    /// Positions in one data file, and those in the data files of a partition.
    of_file: HashMap<&'a Path, Vec<&'a Entry>>,
    of_partition: HashMap<&'a PartitionKey, Vec<&'a Entry>>,
    /// Keys, by the ids of their columns. Those of an unpartitioned spec apply to all partitions.
    keys: BTreeMap<(&'a [i32], Option<&'a PartitionKey>), Vec<&'a Entry>>,
}

/// Determines the deleted rows of data files.
pub(super) struct Deletes<'a> {
    pub(super) session: &'a dyn Session,
    pub(super) place: &'a Place,
    pub(super) paths: &'a Paths<'a>,
    pub(super) metadata: &'a Metadata,
    pub(super) mapping: &'a NameMapping,
    /// How files without ids are read.
    pub(super) without_ids: FilesWithoutIds,
    pub(super) calendar: &'a CalendarOption,
}

/// Positions of deleted rows, by data file.
type Positions = HashMap<Path, Vec<u64>>;

impl Deletes<'_> {
    /// Returns the deleted rows of each data file.
    ///
    /// # Errors
    /// A file cannot be read, is damaged, or needs something that is not supported.
    pub(super) async fn of(&self, data: &[Entry], deletes: &[Entry]) -> Result<Vec<DeletedRows>> {
        let known: HashMap<&Path, &Entry> = data.iter().map(|file| (&file.path, file)).collect();
        let index = self.index(&known, deletes)?;
        let mut positions: HashMap<&Path, Positions> = HashMap::new();
        let used: BTreeSet<&Path> =
            data.iter().flat_map(|file| index.positions(file)).map(|delete| &delete.path).collect();
        for delete in deletes.iter().filter(|delete| used.contains(&delete.path)) {
            positions.insert(&delete.path, self.positions(delete, &known).await?);
        }
        let mut keys = BTreeMap::new();
        for ((ids, partition), files) in &index.keys {
            let columns = KeyColumns::new(ids, self.metadata, self.mapping, self.without_ids, self.place)?;
            let mut deleted = DeletedKeys::new(columns, self.calendar.clone())?;
            let is_used = |delete: &&&Entry| {
                data.iter().any(|file| {
                    file.sequence < delete.sequence
                        && partition.is_none_or(|partition| *partition == file.partition.key)
                })
            };
            for delete in files.iter().filter(is_used) {
                deleted.add(self.session, self.place, delete).await?;
            }
            keys.insert((*ids, *partition), deleted);
        }
        let (index, positions, keys) = (&index, &positions, &keys);
        // Collected first: a closure over references is not general enough for the compiler inside a stream.
        let found: Vec<BoxFuture<'_, Result<DeletedRows>>> = data
            .iter()
            .map(|file| {
                async move {
                    let mut ranges = Vec::new();
                    if let Some(vector) = index.vector(file) {
                        if vector.sequence < file.sequence {
                            let name = self.place.name(&file.path);
                            return Err(self
                                .place
                                .damaged(name, "its deletion vector is older than the file".to_owned())
                                .into());
                        }
                        ranges.extend_from_slice(vector::read(self.place, vector, file).await?.ranges());
                    }
                    for delete in index.positions(file) {
                        let found = positions.get(&delete.path).and_then(|found| found.get(&file.path));
                        ranges
                            .extend(found.into_iter().flatten().map(|position| *position..position.saturating_add(1)));
                    }
                    for ((_, partition), deleted) in keys {
                        if partition.is_none_or(|partition| *partition == file.partition.key) {
                            ranges.extend(deleted.positions(self.session, self.place, file).await?);
                        }
                    }
                    Ok(union(ranges))
                }
                .boxed()
            })
            .collect();
        futures::stream::iter(found).buffered(REQUESTS).try_collect().await
    }

    /// # Errors
    /// A file lacks what determines the data files that it applies to, or that contradicts its partition.
    fn index<'a>(&self, known: &HashMap<&Path, &Entry>, deletes: &'a [Entry]) -> Result<Index<'a>> {
        let mut index = Index::default();
        for delete in deletes {
            let referenced = only_file(delete, known);
            let file = referenced.and_then(|path| known.get(path));
            // Positions apply in their own partition alone, by the specification. Iceberg's own reader does not compare it.
            if let Some(file) = file.filter(|file| file.partition.key != delete.partition.key) {
                let reason =
                    format!("it deletes rows of {}, which is in another partition", self.place.name(&file.path));
                return Err(self.place.damaged(self.place.name(&delete.path), reason).into());
            }
            match (delete.content, delete.format.as_str(), referenced) {
                (DataContent::PositionDeletes, PUFFIN, Some(file)) => {
                    if index.vectors.insert(file, delete).is_some() {
                        let reason = "the table has two deletion vectors of it".to_owned();
                        return Err(self.place.damaged(self.place.name(file), reason).into());
                    }
                }
                (DataContent::PositionDeletes, PUFFIN, None) => {
                    let reason = "its manifest does not record which file its deletion vector is of".to_owned();
                    return Err(self.place.damaged(self.place.name(&delete.path), reason).into());
                }
                (DataContent::PositionDeletes, _, Some(file)) => index.of_file.entry(file).or_default().push(delete),
                (DataContent::PositionDeletes, _, None) => {
                    index.of_partition.entry(&delete.partition.key).or_default().push(delete);
                }
                (DataContent::EqualityDeletes, ..) if delete.equality_ids.is_empty() => {
                    let reason = "its manifest does not record the columns of its keys".to_owned();
                    return Err(self.place.damaged(self.place.name(&delete.path), reason).into());
                }
                (DataContent::EqualityDeletes, ..) => {
                    let partition = (!delete.partition.spec.is_unpartitioned()).then_some(&delete.partition.key);
                    index.keys.entry((&delete.equality_ids, partition)).or_default().push(delete);
                }
                (DataContent::Data, ..) => {}
            }
        }
        Ok(index)
    }

    /// Reads a file with positions of deleted rows.
    async fn positions(&self, delete: &Entry, known: &HashMap<&Path, &Entry>) -> Result<Positions> {
        let fields = [(FILE_PATH, DataType::Utf8), (POS, DataType::Int64)];
        let schema = fields.iter().map(|((name, _), data_type)| Field::new(*name, data_type.clone(), true));
        let columns = fields.iter().map(|((name, id), _)| ColumnInFiles {
            name: (*name).to_owned(),
            in_file: (*name).to_owned(),
            id: Some(*id),
            names: vec![(*name).to_owned()],
            is_required: true,
            ..ColumnInFiles::default()
        });
        let columns = columns_by_id(FilesWithoutIds::ByNames, columns.collect());
        let schema = Arc::new(Schema::new(schema.collect::<Vec<_>>()));
        let file = file_of(self.place, delete).await?;
        let mut batches = table::read(
            self.session,
            self.place.location(),
            file,
            schema,
            Arc::new(columns),
            CalendarOption::default(),
        )
        .await?;
        let name = self.place.name(&delete.path);
        let (mut found, mut resolved): (Positions, HashMap<String, Path>) = Default::default();
        while let Some(batch) = batches.try_next().await? {
            for row in 0..batch.num_rows() {
                let (path, position) = deleted_row(&batch, row)
                    .map_err(|reason| self.place.damaged(name.clone(), format!("row {row}: {reason}")))?;
                let path = match resolved.get(path) {
                    Some(path) => path.clone(),
                    None => resolved.entry(path.to_owned()).or_insert(self.paths.resolve(path)?).clone(),
                };
                found.entry(path).or_default().push(position);
            }
        }
        if let Some(recorded) = only_file(delete, known)
            && let Some(other) = found.keys().find(|path| *path != recorded)
        {
            let (other, recorded) = (self.place.name(other), self.place.name(recorded));
            let reason = format!("it deletes rows of {other}, but its manifest records {recorded}");
            return Err(self.place.damaged(name, reason).into());
        }
        // Files that were rewritten since are not in the table. Those elsewhere may be named by a table that was moved.
        if let Some(path) = found.keys().find(|path| !known.contains_key(path) && !self.paths.is_inside(path)) {
            let path = self.place.name(path);
            log::warn!("{name}: it deletes rows of {path}, which is outside of the table and not one of its files");
        }
        Ok(found)
    }
}

/// Returns the only data file whose rows a file deletes, if its manifest records that.
fn only_file<'a>(delete: &'a Entry, known: &HashMap<&Path, &Entry>) -> Option<&'a Path> {
    let bounded = delete.bounded.as_ref().filter(|path| delete.format != PUFFIN && known.contains_key(path));
    delete.referenced.as_ref().or(bounded)
}

/// Returns the file and the position of a deleted row. The error is a description of the defect.
fn deleted_row(batch: &RecordBatch, row: usize) -> Result<(&str, u64), String> {
    let column = |(name, _): (&str, i32)| batch.column_by_name(name).filter(|column| column.is_valid(row));
    let path = column(FILE_PATH).and_then(|column| column.as_string_opt::<i32>());
    let position = column(POS).and_then(|column| column.as_primitive_opt::<Int64Type>());
    let (path, position) = path.zip(position).ok_or("it has no path or no position")?;
    let position = position.value(row);
    let position = u64::try_from(position).map_err(|_| format!("its position is {position}"))?;
    Ok((path.value(row), position))
}

impl<'a> Index<'a> {
    /// Returns the deletion vector of a data file.
    fn vector(&self, file: &Entry) -> Option<&'a Entry> {
        self.vectors.get(&file.path).copied()
    }

    /// Returns the files with positions that apply to a data file: none if it has a deletion vector, which contains them.
    fn positions(&self, file: &Entry) -> impl Iterator<Item = &'a Entry> {
        let superseded = self.vector(file).is_some();
        let found = self.of_file.get(&file.path).into_iter().chain(self.of_partition.get(&file.partition.key));
        let sequence = file.sequence;
        found.flatten().copied().filter(move |delete| !superseded && sequence <= delete.sequence)
    }
}

/// Returns the positions in any of the ranges.
fn union(mut ranges: Vec<Range<u64>>) -> DeletedRows {
    ranges.sort_by_key(|range| range.start);
    let (mut rows, mut end) = (DeletedRows::default(), 0);
    for range in ranges {
        // What begins before the end of those before it was added in part.
        if rows.push(range.start.max(end)..range.end) {
            end = range.end;
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iceberg_deleted_rows_may_be_deleted_several_times() {
        let rows = union(vec![5..6, 0..3, 1..2, 2..4, 5..6, 9..12, 10..11]);
        assert_eq!(rows.ranges(), [0..4, 5..6, 9..12]);
        assert_eq!(rows.count(), 8);
        assert_eq!(union(Vec::new()), DeletedRows::default());
    }
}
