//! [`Arrangement`]: the sort order of rows, determined by planning.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Schema, SchemaRef};
use datafusion_common::Result;
use tfrecord_shards::{ShardGroup, Sharding, Splits, check_key_type};

use super::partition_text::is_partition_type;
use crate::error::ErrorKind;
use crate::write::options::{SplitOptions, WriteOptions};

/// The sort order of rows: first by group, each of which has its own shards, then by the order within the group.
#[derive(Debug, Clone)]
pub(in crate::write) struct Arrangement {
    pub(super) groups: GroupRule,
    pub(super) order: RecordOrder,
    /// Indices of the record columns; `None` for all columns.
    record_columns: Option<Vec<usize>>,
}

/// How rows are grouped. Each group has its own shards.
#[derive(Debug, Clone)]
pub(super) enum GroupRule {
    /// The whole set is one group.
    All,
    /// Every split is a group, in every directory if there are partition columns.
    Columns { partitions: Vec<PartitionColumn>, splits: Option<SplitRule> },
    /// Every shard is a group; rows are assigned to this many shards round-robin.
    Shards(NonZeroUsize),
}

/// The order of records within their group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::write) enum RecordOrder {
    /// By a hash of the record and this seed.
    Shuffled { seed: u64 },
    /// Input order, one input partition after the other.
    Kept,
    /// Round-robin to this many shards: in blocks, in turn over all input
    /// partitions.
    RoundRobin { shards: NonZeroUsize },
}

/// A column whose values name directories.
#[derive(Debug, Clone)]
pub(super) struct PartitionColumn {
    pub(super) index: usize,
    pub(super) name: Arc<str>,
}

/// How a row's split is determined.
#[derive(Debug, Clone)]
pub(super) struct SplitRule {
    pub(super) splits: Splits,
    /// The key columns. If empty, the record itself is the key.
    pub(super) by: Vec<usize>,
}

impl Arrangement {
    /// Applies the options to rows of this schema. Also returns the schema of the records.
    ///
    /// # Errors
    /// - A column does not exist, or cannot name directories or be a key.
    /// - No column is left for the records.
    /// - A number of shards is given for an unknown split.
    pub(in crate::write) fn try_new(
        schema: &SchemaRef,
        options: &WriteOptions,
        order: RecordOrder,
    ) -> Result<(Self, SchemaRef)> {
        let mut partitions: Vec<PartitionColumn> = Vec::new();
        for name in &options.partition_by {
            let (index, field) = find(schema, "partition", name)?;
            if partitions.iter().any(|other| other.index == index) {
                return Err(ErrorKind::ColumnTwice { role: "partition", column: name.clone() }.into());
            }
            if !is_partition_type(field.data_type()) {
                let data_type = field.data_type().clone();
                return Err(ErrorKind::PartitionType { column: name.clone(), data_type }.into());
            }
            partitions.push(PartitionColumn { index, name: name.as_str().into() });
        }
        let splits = options.splits.as_ref().map(|splits| SplitRule::try_new(schema, splits)).transpose()?;
        check_split_shards(options)?;
        let groups = match order {
            RecordOrder::RoundRobin { shards } => GroupRule::Shards(shards),
            _ if partitions.is_empty() && splits.is_none() => GroupRule::All,
            _ => GroupRule::Columns { partitions: partitions.clone(), splits },
        };
        if partitions.is_empty() || options.keep_partition_columns {
            return Ok((Self { groups, order, record_columns: None }, Arc::clone(schema)));
        }
        let is_left = |index: &usize| partitions.iter().all(|partition| partition.index != *index);
        let record_columns: Vec<_> = (0..schema.fields().len()).filter(is_left).collect();
        if record_columns.is_empty() {
            return Err(ErrorKind::NoColumnsLeft { columns: options.partition_by.clone() }.into());
        }
        let records = Arc::new(schema.project(&record_columns)?);
        Ok((Self { groups, order, record_columns: Some(record_columns) }, records))
    }

    /// Returns the columns of the records.
    pub(super) fn records(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        Ok(match &self.record_columns {
            Some(columns) => rows.project(columns)?,
            None => rows.clone(),
        })
    }

    /// Whether the order of records is independent of the partitions their rows come from.
    pub(in crate::write) fn ignores_partitions(&self) -> bool {
        matches!(self.order, RecordOrder::Shuffled { .. })
    }

    /// Returns the partition columns in the order of their names, with their types.
    pub(in crate::write) fn partition_schema(schema: &Schema, options: &WriteOptions) -> Result<Option<Schema>> {
        if options.partition_by.is_empty() {
            return Ok(None);
        }
        let columns: Vec<_> =
            options.partition_by.iter().map(|name| Ok(find(schema, "partition", name)?.0)).collect::<Result<_>>()?;
        Ok(Some(schema.project(&columns)?))
    }
}

impl SplitRule {
    fn try_new(schema: &Schema, options: &SplitOptions) -> Result<Self> {
        let mut by = Vec::with_capacity(options.by.len());
        for name in &options.by {
            let (index, field) = find(schema, "split", name)?;
            if by.contains(&index) {
                return Err(ErrorKind::ColumnTwice { role: "split", column: name.clone() }.into());
            }
            check_key_type(field.data_type())
                .map_err(|source| ErrorKind::SplitKeyType { column: name.clone(), source })?;
            by.push(index);
        }
        Ok(Self { splits: options.splits.clone(), by })
    }

    /// Returns the key columns of these rows.
    pub(super) fn key(&self, rows: &RecordBatch) -> Vec<ArrayRef> {
        self.by.iter().filter_map(|&index| rows.columns().get(index).cloned()).collect()
    }
}

impl fmt::Display for Arrangement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.order {
            RecordOrder::Shuffled { seed } => write!(f, "shuffled by {seed}"),
            RecordOrder::Kept => f.write_str("sorted by input"),
            RecordOrder::RoundRobin { shards } => write!(f, "sorted by {shards} shards"),
        }?;
        let GroupRule::Columns { partitions, splits } = &self.groups else { return Ok(()) };
        if !partitions.is_empty() {
            let names: Vec<_> = partitions.iter().map(|column| &*column.name).collect();
            write!(f, ", partition_by=[{}]", names.join(", "))?;
        }
        match splits {
            Some(rule) => write!(f, ", splits=[{}]", rule.splits),
            None => Ok(()),
        }
    }
}

/// Returns how the rows of a group are distributed over shards.
pub(in crate::write) fn sharding_of(group: &ShardGroup, options: &WriteOptions) -> Sharding {
    let of_split = group.split.as_ref().and_then(|split| options.split_shards.get(split));
    of_split.map_or(options.sharding, |&shards| Sharding::Count(shards))
}

/// Finds a column. Its name must be unique.
fn find<'a>(schema: &'a Schema, role: &'static str, name: &str) -> Result<(usize, &'a arrow_schema::Field)> {
    let mut found = schema.fields().iter().enumerate().filter(|(_, field)| field.name() == name);
    match (found.next(), found.next()) {
        (Some((index, field)), None) => Ok((index, field)),
        (Some(_), Some(_)) => Err(ErrorKind::ColumnTwice { role, column: name.to_owned() }.into()),
        (None, _) => {
            let known = schema.fields().iter().map(|field| field.name().clone()).collect();
            Err(ErrorKind::NoColumn { role, column: name.to_owned(), known }.into())
        }
    }
}

fn check_split_shards(options: &WriteOptions) -> Result<()> {
    let splits = options.splits.as_ref().map(|options| &options.splits);
    let is_split = |name: &str| splits.is_some_and(|splits| splits.position(name).is_some());
    match options.split_shards.keys().find(|name| !is_split(name)) {
        Some(split) => {
            let known = splits.into_iter().flat_map(Splits::iter).map(|(name, _)| name.to_owned()).collect();
            Err(ErrorKind::NoSplit { split: split.clone(), known }.into())
        }
        None => Ok(()),
    }
}
