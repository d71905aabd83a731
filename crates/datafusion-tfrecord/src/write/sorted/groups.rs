//! [`Groups`]: numbers the groups that have their own shards, in the order they are first seen.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_tfrecord::RecordBuffer;
use datafusion_common::{DataFusionError, Result, internal_datafusion_err};
use tfr_arrow::text::find_without_text;
use tfrecord_shards::sort::GroupOrder;
use tfrecord_shards::{ShardGroup, check_split_name, key_hashes, record_hash};

use super::arrangement::{PartitionColumn, SplitRule, key};
use super::partition_text::partition_text;
use crate::error::{ErrorKind, shards_error};

/// The groups of a run that are determined by columns, numbered in the order they are first seen. That order depends
/// on timing, so the numbers must not affect the output.
#[derive(Debug, Default)]
pub(super) struct Groups(RwLock<GroupNumbers>);

#[derive(Debug, Default)]
struct GroupNumbers {
    /// Numbers by encoded group key.
    numbers: HashMap<Box<[u8]>, u32>,
    groups: Vec<ShardGroup>,
}

impl Groups {
    /// Returns the group of each row. The rows' records start at record `start`.
    ///
    /// # Errors
    /// A value cannot name a directory. The row number is relative to `first_row`, the row of record `start` in the
    /// partition.
    pub(super) fn of(
        &self,
        (partitions, splits): (&[PartitionColumn], Option<&SplitRule>),
        rows: &RecordBatch,
        (records, start): (&RecordBuffer, usize),
        first_row: u64,
    ) -> Result<Vec<u32>> {
        let named = splits.and_then(SplitRule::column);
        let columns =
            partitions.iter().chain(named).filter_map(|column| Some((&column.name, rows.columns().get(column.index)?)));
        let text = |(name, values): (&Arc<str>, &ArrayRef)| match find_without_text(values) {
            Some(found) => Err(DataFusionError::External(Box::new(found.in_column(name, first_row)))),
            None => partition_text(values, name, first_row),
        };
        let texts: Vec<_> = columns.map(text).collect::<Result<_>>()?;
        let split_of = splits.map(|rule| rule.of(rows, records, start)).transpose()?.flatten();
        let mut numbers: Vec<u32> = Vec::with_capacity(rows.num_rows());
        let (mut key, mut last) = (Vec::new(), Vec::new());
        for row in 0..rows.num_rows() {
            let split = split_of.as_ref().and_then(|splits| splits.get(row).copied());
            write_group_key(&mut key, &texts, row, split);
            // Rows of one group are often adjacent.
            let number = match numbers.last() {
                Some(&number) if key == last => number,
                _ => self.number(&key, || {
                    let mut group = group(partitions, &texts, row, splits, split);
                    let at = first_row + row as u64;
                    if let Some(column) = named {
                        group.split = Some(split_name(column, texts.last(), row, at)?);
                    }
                    let row = at;
                    group.check().map_err(|error| shards_error(error).context(format!("row {row}")))?;
                    Ok(group)
                })?,
            };
            numbers.push(number);
            std::mem::swap(&mut key, &mut last);
        }
        Ok(numbers)
    }

    /// Returns the groups so far, by their numbers.
    pub(super) fn all(&self) -> Vec<ShardGroup> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).groups.clone()
    }

    fn number(&self, key: &[u8], group: impl FnOnce() -> Result<ShardGroup>) -> Result<u32> {
        if let Some(&number) = self.0.read().unwrap_or_else(PoisonError::into_inner).numbers.get(key) {
            return Ok(number);
        }
        let group = group()?;
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have added it.
        if let Some(&number) = known.numbers.get(key) {
            return Ok(number);
        }
        let number = u32::try_from(known.groups.len())
            .map_err(|_| internal_datafusion_err!("more than 2^32 directories and splits"))?;
        known.numbers.insert(key.into(), number);
        known.groups.push(group);
        Ok(number)
    }
}

/// By directory, then split, in an order that only serves to be the same everywhere.
impl GroupOrder for Groups {
    fn order(&self) -> Vec<u32> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut numbered: Vec<_> = known.groups.iter().zip(0..).collect();
        numbered.sort_unstable_by_key(|(group, _)| order_of(group));
        numbered.into_iter().map(|(_, number)| number).collect()
    }
}

/// Returns the key by which all processes order groups.
pub(super) fn order_of(group: &ShardGroup) -> (&[(String, Option<String>)], Option<&str>) {
    (&group.partition_values, group.split.as_deref())
}

impl SplitRule {
    /// Returns the column of the splits' names, if there is one.
    fn column(&self) -> Option<&PartitionColumn> {
        match self {
            Self::Hash { .. } => None,
            Self::Column(column) => Some(column),
        }
    }

    /// Returns the number of each row's split, if splits are numbered.
    fn of(&self, rows: &RecordBatch, records: &RecordBuffer, start: usize) -> Result<Option<Vec<usize>>> {
        let Self::Hash { splits, by } = self else { return Ok(None) };
        if by.is_empty() {
            let hash = |row| record_hash(records.payload(start + row));
            return Ok(Some((0..rows.num_rows()).map(|row| splits.of(hash(row))).collect()));
        }
        let hashes = key_hashes(&key(by, rows)).map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(Some(hashes.into_iter().map(|hash| splits.of(hash)).collect()))
    }
}

/// Returns the name of a row's split, which is row `at` of the partition.
fn split_name(column: &PartitionColumn, texts: Option<&StringArray>, row: usize, at: u64) -> Result<String> {
    let name = texts.filter(|texts| texts.is_valid(row)).map(|texts| texts.value(row));
    let problem = match name.map(check_split_name) {
        None => "no value".to_owned(),
        Some(Err(error)) => error.to_string(),
        Some(Ok(())) => return Ok(name.unwrap_or_default().to_owned()),
    };
    Err(ErrorKind::SplitValue { row: at, column: column.name.to_string(), problem }.into())
}

/// Appends the group key of a row to `key`. Keys of different groups differ.
fn write_group_key(key: &mut Vec<u8>, texts: &[StringArray], row: usize, split: Option<usize>) {
    key.clear();
    for text in texts {
        if text.is_valid(row) {
            let text = text.value(row);
            key.push(1);
            key.extend(text.len().to_le_bytes());
            key.extend(text.as_bytes());
        } else {
            key.push(0);
        }
    }
    key.extend(split.unwrap_or(0).to_le_bytes());
}

fn group(
    partitions: &[PartitionColumn],
    texts: &[StringArray],
    row: usize,
    splits: Option<&SplitRule>,
    split: Option<usize>,
) -> ShardGroup {
    let value = |text: &StringArray| text.is_valid(row).then(|| text.value(row).to_owned());
    let values = partitions.iter().zip(texts).map(|(column, text)| (column.name.to_string(), value(text)));
    let name = |split| splits.and_then(|rule| rule.name(split)).map(str::to_owned);
    ShardGroup { partition_values: values.collect(), split: split.and_then(name) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array};
    use tfrecord_shards::Splits;

    use super::*;

    fn columns() -> Vec<PartitionColumn> {
        let column = |(index, name): (usize, &str)| PartitionColumn { index, name: name.into() };
        [(0, "a"), (1, "b")].map(column).to_vec()
    }

    fn rows(a: &[Option<&str>], b: &[Option<&str>]) -> RecordBatch {
        let column = |values: &[Option<&str>]| Arc::new(StringArray::from(values.to_vec())) as ArrayRef;
        RecordBatch::try_from_iter([("a", column(a)), ("b", column(b))]).expect("two columns")
    }

    fn numbers(groups: &Groups, rows: &RecordBatch) -> Result<Vec<u32>> {
        groups.of((&columns(), None), rows, (&RecordBuffer::default(), 0), 70)
    }

    #[test]
    fn every_combination_of_values_is_a_group() -> Result<()> {
        let groups = Groups::default();
        // Texts with equal concatenations, and nulls next to an empty text.
        let rows = rows(
            &[Some("x"), Some("xy"), Some("x"), None, Some(""), Some("x")],
            &[Some("yz"), Some("z"), Some("yz"), Some("z"), Some("z"), None],
        );
        assert_eq!(numbers(&groups, &rows)?, [0, 1, 0, 2, 2, 3]);
        // The same numbers in another batch.
        assert_eq!(numbers(&groups, &rows.slice(3, 3))?, [2, 2, 3]);
        let directories: Vec<_> = groups.all().iter().map(ShardGroup::directory).collect();
        let null = "__HIVE_DEFAULT_PARTITION__";
        assert_eq!(directories, ["a=x/b=yz", "a=xy/b=z", &format!("a={null}/b=z"), &format!("a=x/b={null}")]);
        Ok(())
    }

    #[test]
    fn a_value_that_names_no_directory_is_refused_with_its_row() {
        let long = "x".repeat(300);
        let rows = rows(&[Some("x"), Some(&long)], &[None, None]);
        let error = numbers(&Groups::default(), &rows).expect_err("too long for a name").to_string();
        assert!(error.contains("row 71"), "{error}");
    }

    #[test]
    fn splits_are_groups_by_their_key_alone() -> Result<()> {
        let halves: Splits = "train=0.5,val=0.5".parse().expect("splits");
        let splits = SplitRule::Hash { splits: halves.clone(), by: vec![0] };
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values((0..100).chain(0..100)));
        let rows = RecordBatch::try_from_iter([("id", ids)])?;
        let groups = Groups::default();
        let numbers = groups.of((&[], Some(&splits)), &rows, (&RecordBuffer::default(), 0), 0)?;
        assert_eq!(numbers[..100], numbers[100..]);
        let names: Vec<_> = groups.all().into_iter().map(|group| group.split).collect();
        assert_eq!(names.len(), 2);
        let hashes = key_hashes(&[Arc::clone(rows.column(0))]).expect("keys");
        for (hash, number) in hashes.into_iter().zip(numbers) {
            assert_eq!(names[number as usize].as_deref(), halves.name(halves.of(hash)));
        }
        Ok(())
    }
}
