//! [`SetForm`]: describes a shard set in the manifest, apart from its shards.

use arrow_schema::Schema;
use arrow_tfrecord::Mapping;
use datafusion_common::{Result, internal_datafusion_err};
use serde_json::json;
use tfrecord_shards::{SaveMode, SchemaDescription, SetDescription, SplitDescription};

use super::observe::snapshot;
use super::options::{Layout, SplitOptions, WriteOptions};
use super::sorted::Arrangement;
use crate::error::{ErrorKind, shards_error};

/// The properties of a set known at planning.
pub(super) struct SetForm<'a> {
    pub(super) mapping: &'a Mapping,
    pub(super) options: &'a WriteOptions,
    /// The columns of the query: those of the records and those of the directories.
    pub(super) rows: &'a Schema,
}

impl SetForm<'_> {
    /// Describes a set that is written from this many partitions.
    pub(super) fn describe(&self, source_partitions: usize) -> Result<SetDescription> {
        let options = self.options;
        let mut description = match options.layout {
            Layout::Shards => SetDescription::new(self.mapping, &options.mapping).map_err(shards_error)?,
            // The records are tensors, which the mapping does not describe.
            Layout::Snapshot(_) => {
                SetDescription { layout: tfrecord_shards::SetLayout::Snapshot, ..SetDescription::of_records() }
            }
        };
        description.add_columns = options.add_columns;
        description.replace_partitions = options.mode == SaveMode::OverwritePartitions;
        description.prefix.clone_from(&options.prefix);
        description.set_framing(options.framing().map_err(ErrorKind::from)?);
        description.sharding = options.sharding;
        description.query.clone_from(&options.query);
        description.inputs.clone_from(&options.inputs);
        description.write_partitions = u32::try_from(source_partitions)
            .map_err(|_| internal_datafusion_err!("{source_partitions} input partitions"))?;
        description.seed = options.shuffle;
        match &options.splits {
            Some(SplitOptions::Hash { splits, by }) => {
                description.splits =
                    splits.iter().map(|(name, fraction)| SplitDescription::new(name, fraction)).collect();
                description.split_by.clone_from(by);
            }
            // Their fractions follow from the rows.
            Some(SplitOptions::Rows(splits)) => {
                let exact = |name| SplitDescription { rows: Some(0), ..SplitDescription::new(name, 0.0) };
                description.splits = splits.names().map(exact).collect();
            }
            Some(SplitOptions::Column(column)) => description.split_column = Some(column.clone()),
            None => {}
        }
        let partition_columns = Arrangement::partition_schema(self.rows, options)?;
        let described = partition_columns.map(|schema| SchemaDescription::try_new(&schema)).transpose();
        description.partition_columns = described.map_err(shards_error)?;
        description.options.extend(options.recorded.clone());
        description.options.insert("ordered".to_owned(), json!(options.ordered && options.shuffle.is_none()));
        if !options.split_shards.is_empty() {
            description.options.insert("split_shards".to_owned(), json!(options.split_shards));
        }
        if let Some(snapshot) = snapshot(self.mapping, options)? {
            description.options.insert("records_per_element".to_owned(), json!(snapshot.records_per_element()));
        }
        if !options.emit.is_empty() {
            description.options.insert("emit".to_owned(), json!(options.emit.to_string()));
        }
        Ok(description)
    }
}
