//! Which rows of the files of a table are deleted: by their ids, which become positions in each file.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, Int32Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use datafusion_common::Result;
use datafusion_session::Session;
use futures::TryStreamExt;
use tfr_files::{
    AcidColumns, ColumnInFiles, ColumnsInFiles, DataFormat, DeletedRows, FilesWithoutIds, FoundBy, TableFile,
};

use super::names::{BucketProperty, Delta, DirectoryKind};
use super::roots::{AcidFile, Root};
use super::{AcidSnapshot, Footer, UNFILTERED, damaged};
use crate::calendar::CalendarOption;
use crate::error::Error;
use crate::table;

/// The columns that identify rows.
const COLUMNS: [(&str, DataType); 5] = [
    ("operation", DataType::Int32),
    ("originalTransaction", DataType::Int64),
    ("bucket", DataType::Int32),
    ("rowId", DataType::Int64),
    ("currentTransaction", DataType::Int64),
];

const OPERATION: usize = 0;
const ORIGINAL: usize = 1;
const BUCKET: usize = 2;
const CURRENT: usize = 4;

/// The codes of changes. Before Hive 3, an update was a change of its own, in the files with added rows.
const INSERT: i32 = 0;
const DELETE: i32 = 2;

/// The id of a row: the write id and the bucket that it was written with first, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct RowId {
    write_id: i64,
    bucket: i32,
    row: i64,
}

/// The ids of deleted rows in a bucket, by their write ids.
#[derive(Debug, Default)]
struct Events(BTreeMap<i64, HashSet<(i32, i64)>>);

impl Events {
    fn has(&self, id: RowId) -> bool {
        self.0.get(&id.write_id).is_some_and(|rows| rows.contains(&(id.bucket, id.row)))
    }

    /// Whether rows of these write ids are deleted.
    fn are_in(&self, (first, last): (i64, i64)) -> bool {
        self.0.range(first..=last).next().is_some()
    }
}

/// Determines the deleted rows of the files of a root.
pub(super) struct DeleteEvents<'a> {
    pub(super) session: &'a dyn Session,
    pub(super) root: &'a Root,
    pub(super) snapshot: Option<&'a AcidSnapshot>,
}

impl DeleteEvents<'_> {
    /// Returns the deleted rows of each file with rows. `footers` are those of the files with rows, then of those with
    /// deleted rows.
    ///
    /// # Errors
    /// A file cannot be read, or is damaged.
    pub(super) async fn of(&self, footers: &[Footer]) -> Result<Vec<DeletedRows>> {
        let (of_data, of_deletes) = footers.split_at(self.root.data.len());
        let mut buckets: HashMap<Option<u16>, Events> = HashMap::new();
        for (file, footer) in self.root.deletes.iter().zip(of_deletes) {
            if footer.row_ids.is_none() {
                let name = self.root.place.name(&file.meta.location);
                return Err(damaged(name, "it has no ids of rows".to_owned()).into());
            }
            self.check_bounds(file, footer, DELETE)?;
            self.read_events(file, footer, buckets.entry(file.bucket).or_default()).await?;
        }
        let none = Events::default();
        let mut deleted = Vec::with_capacity(self.root.data.len());
        for (index, (file, footer)) in self.root.data.iter().zip(of_data).enumerate() {
            let events = buckets.get(&file.bucket).unwrap_or(&none);
            deleted.push(match footer.row_ids {
                Some(_) => self.rows_with_ids(file, footer, events).await?,
                None => self.rows_by_position(index, of_data, &buckets)?,
            });
        }
        Ok(deleted)
    }

    /// Reads the ids of deleted rows.
    async fn read_events(&self, file: &AcidFile, footer: &Footer, events: &mut Events) -> Result<()> {
        if footer.rows == 0 {
            return Ok(());
        }
        let is_read = |write_id: i64| self.is_read(file, write_id);
        let take = |id: RowId, current: i64, _: u64| {
            if is_read(current) {
                events.0.entry(id.write_id).or_default().insert((id.bucket, id.row));
            }
            Ok(())
        };
        self.read_ids(file, DELETE, take).await
    }

    /// Returns the deleted rows of a file with ids. They are read only if one of them may be deleted, or is not a row.
    async fn rows_with_ids(&self, file: &AcidFile, footer: &Footer, events: &Events) -> Result<DeletedRows> {
        let mut deleted = DeletedRows::default();
        let is_checked = self.check_bounds(file, footer, INSERT)?;
        let write_ids = bounds(footer, ORIGINAL).unwrap_or_else(|| file.write_ids());
        if footer.rows == 0 || is_checked && !file.is_filtered() && !events.are_in(write_ids) {
            return Ok(deleted);
        }
        let is_filtered = file.is_filtered();
        let take = |id: RowId, current: i64, position: u64| {
            if events.has(id) || is_filtered && !self.is_read(file, current) {
                deleted.push(position..position + 1);
            }
            Ok(())
        };
        self.read_ids(file, INSERT, take).await?;
        Ok(deleted)
    }

    /// Compares the bounds of ids in the footer of a file with its name and that of its directory. Returns whether it has all
    /// of them.
    fn check_bounds(&self, file: &AcidFile, footer: &Footer, operation: i32) -> Result<bool> {
        if footer.rows == 0 {
            return Ok(true);
        }
        let [codes, originals, buckets, currents] =
            [OPERATION, ORIGINAL, BUCKET, CURRENT].map(|column| bounds(footer, column));
        if let Some(codes) = codes.filter(|codes| *codes != (operation.into(), operation.into())) {
            let reason = not_all(codes, operation);
            return Err(damaged(self.root.place.name(&file.meta.location), reason).into());
        }
        let ends = |bounds: Option<(i64, i64)>| bounds.into_iter().flat_map(|(first, last)| [first, last]);
        let checked = ends(buckets).try_for_each(|bucket| {
            let bucket = i32::try_from(bucket).map_err(|_| format!("its bucket is {bucket}"))?;
            check_bucket(file, bucket)
        });
        let checked = checked.and_then(|()| ends(currents).try_for_each(|current| check_write_id(file, current)));
        checked.map_err(|reason| damaged(self.root.place.name(&file.meta.location), reason))?;
        Ok([codes, originals, buckets, currents].iter().all(Option::is_some))
    }

    /// Whether the changes of a write id are read from a file.
    fn is_read(&self, file: &AcidFile, write_id: i64) -> bool {
        let is_committed = self.snapshot.is_none_or(|snapshot| snapshot.ids.is_committed(write_id));
        is_committed && file.of.as_ref().is_none_or(|of| write_id > of.floor)
    }

    /// Returns the deleted rows of a file without ids, whose rows are numbered over the files of its bucket in a directory.
    fn rows_by_position(
        &self,
        index: usize,
        footers: &[Footer],
        buckets: &HashMap<Option<u16>, Events>,
    ) -> Result<DeletedRows> {
        let file = &self.root.data[index];
        let name = || self.root.place.name(&file.meta.location);
        let (write_id, statement) = match file.of.as_ref().map(|of| of.directory.name.kind) {
            None => (0, 0),
            Some(DirectoryKind::Base(id)) => (id.max(0), 0),
            Some(DirectoryKind::Delta(Delta { first, statement, .. })) => (first, statement.unwrap_or_default()),
        };
        if file.is_filtered() {
            return Err(damaged(name(), UNFILTERED.to_owned()).into());
        }
        let ids = |events: &Events| events.0.get(&write_id).cloned().unwrap_or_default();
        let Some(bucket) = file.bucket else {
            return match buckets.values().any(|events| !ids(events).is_empty()) {
                true => Err(damaged(name(), "rows of it are deleted, and its name has no bucket".to_owned()).into()),
                false => Ok(DeletedRows::default()),
            };
        };
        let Some(events) = buckets.get(&Some(bucket)) else { return Ok(DeletedRows::default()) };
        let of = |file: &AcidFile| file.of.as_ref().map(|of| of.directory.text.clone());
        let is_before = |other: &&(usize, &AcidFile)| other.1.bucket == Some(bucket) && of(other.1) == of(file);
        let alike: Vec<_> = self.root.data.iter().enumerate().collect();
        let alike = || alike.iter().filter(is_before).map(|(at, _)| (*at, footers[*at].rows));
        let before: u64 = alike().filter(|(at, _)| *at < index).map(|(_, rows)| rows).sum();
        let all: u64 = alike().map(|(_, rows)| rows).sum();
        let mut positions = Vec::new();
        for (property, row) in ids(events) {
            if BucketProperty::decode(property) != Some(BucketProperty { bucket, statement }) {
                continue;
            }
            let row = u64::try_from(row).ok().filter(|row| *row < all).ok_or_else(|| {
                damaged(name(), format!("row {row} is deleted of {all} in the files of bucket {bucket} with it"))
            })?;
            positions.extend(row.checked_sub(before).filter(|position| *position < footers[index].rows));
        }
        positions.sort_unstable();
        let mut deleted = DeletedRows::default();
        for position in positions {
            deleted.push(position..position + 1);
        }
        Ok(deleted)
    }

    /// Reads the ids of all changes in a file, and compares them with its name and that of its directory. `take` gets the id
    /// of a row, the write id of its change, and its position.
    async fn read_ids(
        &self,
        file: &AcidFile,
        operation: i32,
        mut take: impl FnMut(RowId, i64, u64) -> Result<(), Error>,
    ) -> Result<()> {
        let fields = COLUMNS.map(|(name, data_type)| Field::new(name, data_type, true));
        let columns = COLUMNS.map(|(name, _)| ColumnInFiles {
            name: name.to_owned(),
            in_file: name.to_owned(),
            is_required: true,
            ..ColumnInFiles::default()
        });
        let columns = ColumnsInFiles {
            by: FoundBy::Position,
            acid: AcidColumns::RowIds,
            without_ids: FilesWithoutIds::default(),
            columns: columns.into(),
        };
        let table_file = TableFile {
            meta: file.meta.clone(),
            format: DataFormat::Orc,
            constants: Vec::new(),
            rows: None,
            deleted: DeletedRows::default(),
        };
        let (schema, place) = (Arc::new(Schema::new(fields.to_vec())), &self.root.place);
        let calendar = CalendarOption::default();
        let mut batches =
            table::read(self.session, place.location(), table_file, schema, Arc::new(columns), calendar).await?;
        let name = place.name(&file.meta.location);
        let (mut position, mut last) = (0, None);
        while let Some(batch) = batches.try_next().await? {
            let ids = Ids::of(&batch);
            for row in 0..batch.num_rows() {
                let checked = ids.get(row).and_then(|(code, id, current)| {
                    check(file, operation, code, id, current, last)?;
                    Ok((id, current))
                });
                let (id, current) =
                    checked.map_err(|reason| damaged(name.clone(), format!("row {position}: {reason}")))?;
                last = Some(id);
                take(id, current, position)?;
                position += 1;
            }
        }
        Ok(())
    }
}

/// Compares a change with the names around it, and with the id of the one before. The error is a description of the defect.
fn check(
    file: &AcidFile,
    operation: i32,
    code: i32,
    id: RowId,
    current: i64,
    last: Option<RowId>,
) -> Result<(), String> {
    if code != operation {
        return Err(not_all((code.into(), code.into()), operation));
    }
    check_bucket(file, id.bucket)?;
    check_write_id(file, current)?;
    // A row may be deleted twice, by statements of one transaction.
    let is_ascending = last.is_none_or(|last| if operation == DELETE { last <= id } else { last < id });
    match is_ascending {
        true => Ok(()),
        false => Err("its id does not follow that of the row before".to_owned()),
    }
}

fn check_bucket(file: &AcidFile, property: i32) -> Result<(), String> {
    match BucketProperty::decode(property).map(|property| property.bucket) {
        bucket if bucket.is_some() && bucket == file.bucket => Ok(()),
        Some(bucket) => {
            let of_name = file.bucket.map_or_else(|| "none".to_owned(), |bucket| bucket.to_string());
            Err(format!("it has rows of bucket {bucket}, but is of bucket {of_name} by its name"))
        }
        None => Err(format!("its bucket is {property}, in a form that is not known")),
    }
}

fn check_write_id(file: &AcidFile, current: i64) -> Result<(), String> {
    let (first, last) = file.write_ids();
    match (first..=last).contains(&current) {
        true => Ok(()),
        false => Err(format!("it has the write id {current}, but its directory those from {first} to {last}")),
    }
}

/// Returns the smallest and the largest value of a column, if the file records them.
fn bounds(footer: &Footer, column: usize) -> Option<(i64, i64)> {
    footer.row_ids.as_ref()?.get(column).copied().flatten()
}

fn not_all((first, last): (i64, i64), expected: i32) -> String {
    let found = if first == last { first.to_string() } else { format!("{first} to {last}") };
    format!("the code of its changes is {found}, expected {expected}")
}

/// The columns of a batch.
struct Ids<'a> {
    operation: Option<&'a Int32Array>,
    bucket: Option<&'a Int32Array>,
    /// The write id and the number of a row, and the write id of its change.
    numbers: [Option<&'a Int64Array>; 3],
}

impl<'a> Ids<'a> {
    fn of(batch: &'a RecordBatch) -> Self {
        let int = |index: usize| batch.column(index).as_primitive_opt::<Int32Type>();
        let long = |index: usize| batch.column(index).as_primitive_opt::<Int64Type>();
        Self { operation: int(0), bucket: int(2), numbers: [long(1), long(3), long(4)] }
    }

    fn get(&self, row: usize) -> Result<(i32, RowId, i64), String> {
        let int =
            |column: Option<&Int32Array>| column.filter(|column| column.is_valid(row)).map(|column| column.value(row));
        let long =
            |index: usize| self.numbers[index].filter(|column| column.is_valid(row)).map(|column| column.value(row));
        let found = (|| {
            let id = RowId { write_id: long(0)?, bucket: int(self.bucket)?, row: long(1)? };
            Some((int(self.operation)?, id, long(2)?))
        })();
        found.ok_or_else(|| "a part of its id is null".to_owned())
    }
}
