//! Restores the written types of partition columns in the paths of shard sets.

use std::collections::BTreeSet;

use arrow_schema::{DataType, FieldRef};
use datafusion_common::Result;
use tfr_arrow::nested::value_type;
use tfrecord_shards::{Manifest, SchemaDescription};

use crate::error::shards_error;
use tfr_files::{Listing, PartitionColumns};

/// Gives the partition columns of `listing` the types in the manifests. Requires that all files belong to sets with
/// these `manifests`, and that the manifests agree. Also returns the names of the columns that the records contain,
/// too.
///
/// `is_whole`: whether the table consists of entire sets. It then has their columns even if no file's path contains
/// them.
pub(super) fn settle(listing: Listing, manifests: &[&Manifest], is_whole: bool) -> Result<(Listing, BTreeSet<String>)> {
    let mut columns: Option<Vec<FieldRef>> = None;
    for manifest in manifests {
        let found = match &manifest.partition_columns {
            Some(described) => fields(described)?,
            None => Vec::new(),
        };
        match &columns {
            Some(first) if *first != found => return Ok((listing, BTreeSet::new())),
            _ => columns = Some(found),
        }
    }
    let columns = columns.unwrap_or_default();
    let mut kept = BTreeSet::new();
    for column in &columns {
        let has = |described: &SchemaDescription| described.fields.iter().any(|field| field.name == *column.name());
        if manifests.iter().all(|manifest| manifest.schema.as_ref().is_some_and(has)) {
            kept.insert(column.name().clone());
        }
    }
    if columns.is_empty() {
        return Ok((listing, kept));
    }
    let mut partitions = if listing.partitions().fields().is_empty() && is_whole {
        PartitionColumns::nulls(&columns, listing.files().len())?
    } else {
        let name = |index: usize| listing.file_names().nth(index).unwrap_or_default();
        listing.partitions().clone().with_written_types(&columns, name)?
    };
    for column in columns.iter().filter(|column| kept.contains(column.name())) {
        // The empty text shares the directory of nulls; only the records distinguish them.
        if is_text(column.data_type()) && partitions.has_null(column.name()) {
            partitions = partitions.without(column.name());
        }
    }
    Ok((listing.with_partitions(partitions), kept))
}

fn fields(described: &SchemaDescription) -> Result<Vec<FieldRef>> {
    Ok(described.to_schema().map_err(shards_error)?.fields().iter().cloned().collect())
}

fn is_text(data_type: &DataType) -> bool {
    value_type(data_type).is_string()
}
