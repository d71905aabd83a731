//! The partitions of a table, grouped by how they are read.

use std::sync::Arc;

use datafusion_common::{Result, ScalarValue};
use datafusion_expr::Expr;
use datafusion_session::Session;
use tfr_files::{NULL_PARTITION, PartitionColumns};
use tfr_stores::Location;

use super::catalog::{RecordedPartition, RecordedTable, Storage};
use super::reader::{Reader, name};
use crate::error::{Error, MetastoreError};
use crate::hive_text::HiveColumns;

/// Directories of one store that are read alike.
pub(super) struct Group {
    pub reader: Arc<Reader>,
    /// The directories, as the metastore has them.
    pub locations: Vec<Location>,
    /// The values of the keys of partitions for each of them.
    pub values: Vec<Vec<ScalarValue>>,
}

/// Returns the partitions that pass the filters, grouped. The groups are in the order of their first partitions, and
/// partitions are in the order of their values as texts.
///
/// # Errors
/// - A value does not have the type of its key.
/// - A partition has no location, or is read by a class that is not supported.
pub(super) fn groups(
    session: &dyn Session,
    table: &RecordedTable,
    reader_of_table: &Reader,
    keys: &HiveColumns,
    mut partitions: Vec<RecordedPartition>,
    filters: &[Expr],
) -> Result<Vec<Group>> {
    partitions.sort_by(|a, b| a.values.cmp(&b.values));
    let text = |value: &String| (value != NULL_PARTITION).then(|| value.clone());
    let texts = partitions.iter().map(|partition| partition.values.iter().map(text).collect()).collect();
    let name_of = |index: usize| format!("{}: {}", name(table), named(table, &partitions[index]));
    let columns = PartitionColumns::of_texts(&keys.path_schema(), texts, name_of)?;
    let passing = columns.passing(session, filters)?;
    // Few storages differ in more than their locations.
    let mut readers: Vec<(Storage, Arc<Reader>)> = Vec::new();
    let mut groups: Vec<Group> = Vec::new();
    for (index, mut partition) in partitions.into_iter().enumerate().filter(|(index, _)| passing[*index]) {
        let (partition_name, directory) = (named(table, &partition), partition.storage.location.take());
        let storage = partition.storage;
        let reader = match readers.iter().find(|(known, _)| *known == storage) {
            Some((_, reader)) => Arc::clone(reader),
            None => {
                let reader = Arc::new(reader_of_table.of_partition(table, &partition_name, &storage)?);
                readers.push((storage, Arc::clone(&reader)));
                reader
            }
        };
        let directory = directory.ok_or_else(|| {
            let table = name(table);
            Error::from(MetastoreError::Recorded {
                table,
                reason: format!("partition {partition_name} has no location"),
            })
        })?;
        let (location, values) =
            (Location::recorded(&directory).map_err(tfr_files::Error::from)?, columns.values(index).to_vec());
        let is_alike =
            |group: &&mut Group| group.reader == reader && group.locations[0].object_store() == location.object_store();
        match groups.iter_mut().find(is_alike) {
            Some(group) => {
                group.locations.push(location);
                group.values.push(values);
            }
            None => groups.push(Group { reader, locations: vec![location], values: vec![values] }),
        }
    }
    Ok(groups)
}

/// Returns the name of a partition: `dt=2026-01-01/n=1`.
fn named(table: &RecordedTable, partition: &RecordedPartition) -> String {
    let parts = table.keys.iter().zip(&partition.values).map(|(key, value)| format!("{}={value}", key.name));
    parts.collect::<Vec<_>>().join("/")
}
