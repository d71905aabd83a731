//! [`TableFiles`]: what a table format determines about a table, whatever the format of its metadata and of its files.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use arrow_schema::{FieldRef, SchemaRef};
use datafusion_common::ScalarValue;
use object_store::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::listing::TableFormat;

/// The answer of a table format: which files are a table, and how their contents become its rows.
///
/// A [`Listing`](crate::Listing) is made from it as from a directory, and a reader of the files' format reads it.
#[derive(Debug, Clone)]
pub struct TableFiles {
    /// The columns of the table in its order, including those with constant values.
    pub schema: SchemaRef,
    /// The columns that are no part of the files: each file has one value for all of its rows.
    pub constants: Vec<FieldRef>,
    /// How the other columns are called in the files.
    pub columns: Arc<ColumnsInFiles>,
    /// The files, in the order in which the table is read.
    pub files: Vec<TableFile>,
    /// Which version of the table this is, if its versions have numbers.
    pub version: Option<TableVersion>,
}

/// The version of a table that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableVersion {
    /// The format of the table.
    pub format: TableFormat,
    /// The number by which the format identifies the version. `None` for a table that was never written to.
    pub number: Option<u64>,
    /// The id of the schema that it is read with, if the format has several for a version.
    pub schema: Option<i32>,
}

/// A file of a table.
#[derive(Debug, Clone)]
pub struct TableFile {
    /// Its place, size and state.
    pub meta: ObjectMeta,
    /// Its format.
    pub format: DataFormat,
    /// The value of each of the table's constants.
    pub constants: Vec<ScalarValue>,
    /// The number of rows in the file that the metadata records, including deleted ones.
    pub rows: Option<u64>,
    /// The rows that are not part of the table.
    pub deleted: DeletedRows,
}

/// The format of a data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataFormat {
    /// Apache Parquet.
    Parquet,
    /// Apache ORC.
    Orc,
    /// Apache Avro object container files.
    Avro,
}

impl fmt::Display for DataFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Parquet => "Parquet",
            Self::Orc => "ORC",
            Self::Avro => "Avro",
        })
    }
}

/// The deleted rows of a file, by position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeletedRows {
    /// Ascending, not empty, and not adjacent.
    ranges: Vec<Range<u64>>,
    count: u64,
}

impl DeletedRows {
    /// Adds positions after all others. Returns `false` and adds nothing if they are empty or not after the last one.
    pub fn push(&mut self, positions: Range<u64>) -> bool {
        if positions.is_empty() {
            return false;
        }
        let count = positions.end - positions.start;
        match self.ranges.last_mut() {
            Some(last) if positions.start < last.end => return false,
            Some(last) if positions.start == last.end => last.end = positions.end,
            _ => self.ranges.push(positions),
        }
        self.count += count;
        true
    }

    /// Returns the ranges of deleted positions, in ascending order.
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Returns which of the `len` rows from position `first` on are not deleted. `None` if no row is deleted.
    pub fn kept(&self, first: u64, len: usize) -> Option<BooleanBuffer> {
        let end = first.saturating_add(len as u64);
        if len == 0 {
            return None;
        }
        let next = self.ranges.partition_point(|range| range.end <= first);
        let mut deleted = self.ranges[next..].iter().take_while(|range| range.start < end).peekable();
        deleted.peek()?;
        let mut kept = BooleanBufferBuilder::new(len);
        for range in deleted {
            // Both are positions within the rows.
            let (start, stop) = (range.start.max(first) - first, range.end.min(end) - first);
            kept.append_n(start as usize - kept.len(), true);
            kept.append_n((stop - start) as usize, false);
        }
        kept.append_n(len - kept.len(), true);
        Some(kept.finish())
    }

    /// Returns the number of deleted rows.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the position after the last deleted row.
    pub fn end(&self) -> u64 {
        self.ranges.last().map_or(0, |last| last.end)
    }
}

/// How the columns of a table are found in its files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnsInFiles {
    /// What the columns are found by.
    pub by: FoundBy,
    /// Which columns files have that Hive writes for transactions.
    pub acid: AcidColumns,
    /// How a file is read that should have ids and has none.
    pub without_ids: FilesWithoutIds,
    /// The columns of the table that are in files.
    pub columns: Vec<ColumnInFiles>,
}

/// What columns are found by in files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FoundBy {
    /// [Names](ColumnInFiles::in_file), at every depth.
    #[default]
    Name,
    /// The [ids](ColumnInFiles::id) that files record, at every depth.
    Id,
    /// Their position among [`ColumnsInFiles::columns`]; parts of nested ones by name. A file with fewer columns is without
    /// the others.
    Position,
}

/// Which columns an ORC file has in which Hive records the changes of transactions. Other files are not affected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AcidColumns {
    /// Those of any file: one of them is a struct with the columns of the table.
    #[default]
    All,
    /// The fields of that struct.
    Row,
    /// The others, which identify rows.
    RowIds,
}

/// How a file is read that should have ids and has none at all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilesWithoutIds {
    /// It is an error.
    #[default]
    Refuse,
    /// By the [names](ColumnInFiles::names) of the columns.
    ByNames,
}

/// A column of a table, or a part of a nested one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnInFiles {
    /// The name in the table.
    pub name: String,
    /// The name in the files.
    pub in_file: String,
    /// The id in the files.
    pub id: Option<i32>,
    /// The names in files that should have ids and have none. Such a file is without the column if it has none of them.
    pub names: Vec<String>,
    /// The value in files without the column, in the type of the table. A part of a struct has it where the struct is
    /// not null. `None` is null.
    // Not kept: code that stores a column must check that nothing was lost.
    #[serde(skip)]
    pub default: Option<ScalarValue>,
    /// Whether a file without the column, or a part of it, is an error.
    pub is_required: bool,
    /// Its parts: the fields of a struct, the element of a list, or the key and the value of a map. Elements, keys and
    /// values are matched by their position.
    pub parts: Vec<ColumnInFiles>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deleted_rows_join_neighbours_and_refuse_a_position_twice() {
        let mut rows = DeletedRows::default();
        assert!([0..1, 1..2, 4..6, 9..10].into_iter().all(|positions| rows.push(positions)));
        assert_eq!(rows.ranges(), [0..2, 4..6, 9..10]);
        assert_eq!((rows.count(), rows.end()), (5, 10));
        assert!(!rows.push(9..10) && !rows.push(3..4) && !rows.push(11..11));
        assert_eq!(rows.count(), 5);
    }

    #[test]
    fn deleted_rows_are_found_in_every_window() {
        let mut rows = DeletedRows::default();
        assert!([2..4, 6..7, 9..12].into_iter().all(|positions| rows.push(positions)));
        for first in 0..14 {
            for len in 0..14 {
                let expected: Vec<bool> = (first..first + len as u64)
                    .map(|row| !rows.ranges().iter().any(|range| range.contains(&row)))
                    .collect();
                let kept = rows.kept(first, len).map(|kept| kept.iter().collect::<Vec<_>>());
                match expected.iter().all(|kept| *kept) {
                    true => assert_eq!(kept, None, "{first} {len}"),
                    false => assert_eq!(kept, Some(expected), "{first} {len}"),
                }
            }
        }
    }
}
