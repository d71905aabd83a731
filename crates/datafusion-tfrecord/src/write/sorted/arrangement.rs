//! [`Arrangement`]: the sort order of rows, determined by planning.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Schema, SchemaRef};
use datafusion_common::Result;
use tfrecord_shards::{RowSplits, ShardGroup, Sharding, Splits, check_key_type};

use super::partition_text::{is_partition_type, is_text};
use crate::error::{ErrorKind, RowSplitsConflict, unknown_split};
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
    /// The whole set is one group of the sort, which is cut into splits of exact numbers of rows.
    Rows(RowSplits),
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

/// How a row's split is determined by the row alone.
#[derive(Debug, Clone)]
pub(super) enum SplitRule {
    /// By the hash of the key columns. If there are none, the record itself is the key.
    Hash { splits: Splits, by: Vec<usize> },
    /// A column has its name.
    Column(PartitionColumn),
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
        let splits = options.splits.as_ref().map(|splits| SplitRule::try_new(schema, splits)).transpose()?.flatten();
        check_split_shards(options)?;
        let mut left_out: Vec<PartitionColumn> = Vec::new();
        if !options.keep_partition_columns {
            left_out.extend(partitions.iter().cloned());
        }
        if let Some(SplitRule::Column(column)) = &splits {
            if partitions.iter().any(|partition| partition.index == column.index) {
                return Err(ErrorKind::ColumnTwice { role: "split", column: column.name.to_string() }.into());
            }
            left_out.push(column.clone());
        }
        let groups = match (order, &options.splits) {
            (RecordOrder::RoundRobin { shards }, _) => GroupRule::Shards(shards),
            (_, Some(SplitOptions::Rows(splits))) => GroupRule::Rows(splits.clone()),
            _ if partitions.is_empty() && splits.is_none() => GroupRule::All,
            _ => GroupRule::Columns { partitions, splits },
        };
        if left_out.is_empty() {
            return Ok((Self { groups, order, record_columns: None }, Arc::clone(schema)));
        }
        let is_left = |index: &usize| left_out.iter().all(|column| column.index != *index);
        let record_columns: Vec<_> = (0..schema.fields().len()).filter(is_left).collect();
        if record_columns.is_empty() {
            let columns = left_out.iter().map(|column| column.name.to_string()).collect();
            return Err(ErrorKind::NoColumnsLeft { columns }.into());
        }
        let records = Arc::new(schema.project(&record_columns)?);
        Ok((Self { groups, order, record_columns: Some(record_columns) }, records))
    }

    /// Returns the columns of the records.
    pub(in crate::write) fn records(&self, rows: &RecordBatch) -> Result<RecordBatch> {
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
    /// Returns `None` if other rows determine the split of a row, too.
    fn try_new(schema: &Schema, options: &SplitOptions) -> Result<Option<Self>> {
        match options {
            SplitOptions::Hash { splits, by } => {
                Ok(Some(Self::Hash { splits: splits.clone(), by: key_columns(schema, by)? }))
            }
            SplitOptions::Rows(_) => Ok(None),
            SplitOptions::Column(name) => {
                let (index, field) = find(schema, "split", name)?;
                if !is_text(field.data_type()) {
                    let data_type = field.data_type().clone();
                    return Err(ErrorKind::SplitColumnType { column: name.clone(), data_type }.into());
                }
                Ok(Some(Self::Column(PartitionColumn { index, name: name.as_str().into() })))
            }
        }
    }

    /// Returns the name of a split by its number, if splits are numbered.
    pub(super) fn name(&self, split: usize) -> Option<&str> {
        match self {
            Self::Hash { splits, .. } => splits.name(split),
            Self::Column(_) => None,
        }
    }
}

/// Finds the columns of a key.
fn key_columns(schema: &Schema, names: &[String]) -> Result<Vec<usize>> {
    let mut by = Vec::with_capacity(names.len());
    for name in names {
        let (index, field) = find(schema, "split", name)?;
        if by.contains(&index) {
            return Err(ErrorKind::ColumnTwice { role: "split", column: name.clone() }.into());
        }
        check_key_type(field.data_type()).map_err(|source| ErrorKind::SplitKeyType { column: name.clone(), source })?;
        by.push(index);
    }
    Ok(by)
}

/// Returns the key columns of rows.
pub(super) fn key(by: &[usize], rows: &RecordBatch) -> Vec<ArrayRef> {
    by.iter().filter_map(|&index| rows.columns().get(index).cloned()).collect()
}

/// Checks that splits of exact numbers of rows are possible.
///
/// # Errors
/// [`ErrorKind::RowSplits`], or that the numbers do not fit `rows`, if these are known.
pub(in crate::write) fn check_row_splits(splits: &RowSplits, options: &WriteOptions, rows: Option<u64>) -> Result<()> {
    let conflict = match () {
        () if options.mode.keeps_set() => RowSplitsConflict::Append,
        () if !options.partition_by.is_empty() => RowSplitsConflict::Directories,
        () if options.shuffle.is_none() => RowSplitsConflict::Unshuffled,
        () => {
            let sizes = rows.map(|rows| splits.sizes(rows)).transpose();
            return sizes.map(drop).map_err(|source| ErrorKind::RowSplitSizes { source }.into());
        }
    };
    Err(ErrorKind::RowSplits { splits: splits.to_string(), conflict }.into())
}

impl fmt::Display for Arrangement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.order {
            RecordOrder::Shuffled { seed } => write!(f, "shuffled by {seed}"),
            RecordOrder::Kept => f.write_str("sorted by input"),
            RecordOrder::RoundRobin { shards } => write!(f, "sorted by {shards} shards"),
        }?;
        if let GroupRule::Rows(splits) = &self.groups {
            return write!(f, ", splits=[{splits}]");
        }
        let GroupRule::Columns { partitions, splits } = &self.groups else { return Ok(()) };
        if !partitions.is_empty() {
            let names: Vec<_> = partitions.iter().map(|column| &*column.name).collect();
            write!(f, ", partition_by=[{}]", names.join(", "))?;
        }
        match splits {
            Some(SplitRule::Hash { splits, .. }) => write!(f, ", splits=[{splits}]"),
            Some(SplitRule::Column(column)) => write!(f, ", split_column={}", column.name),
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
    let splits = options.splits.as_ref();
    let is_split = |name: &str| splits.is_some_and(|splits| splits.may_have(name));
    match options.split_shards.keys().find(|name| !is_split(name)) {
        Some(split) => {
            let known: Vec<_> = splits.into_iter().flat_map(SplitOptions::names).map(str::to_owned).collect();
            Err(unknown_split(split, &known).into())
        }
        None => Ok(()),
    }
}
