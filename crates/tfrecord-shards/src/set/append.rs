//! Checks whether rows may be appended to a set, and names their shards alike.

use std::path::Path;

use tfrecord_framing::Framing;

use crate::error::{ErrorKind, Result};
use crate::set::difference::FormDifference;
use crate::set::form::plain;
use crate::set::format_version::FORMAT_VERSION;
use crate::set::manifest::{Manifest, SetDescription, SetLayout, SplitDescription};
use crate::set::names::suffix_of;
use crate::set::schema::{FieldDescription, SchemaDescription};

mod added;

impl Manifest {
    /// Checks whether rows of this description may be appended to this set, whose path is `out`. The records must have
    /// the same record format, and be compressed, split and partitioned in the same way. The number of shards and the
    /// order of rows do not matter. Columns that the set does not have must be
    /// [allowed](SetDescription::add_columns), and may be null.
    ///
    /// # Errors
    /// [`ErrorKind::OtherForm`] for the first difference, [`ErrorKind::OtherPartitions`] if partitions are to be
    /// [replaced](SetDescription::replace_partitions) that the set does not have, [`ErrorKind::NewColumns`] for columns that are not allowed,
    /// [`ErrorKind::UnknownForm`] if the set records no columns and the rows have some,
    /// [`ErrorKind::NotAppendable`] for any other obstacle.
    pub fn check_append(&self, description: &SetDescription, out: &Path) -> Result<()> {
        self.grown(description, out).map(drop)
    }

    /// Returns this manifest with the columns that rows of this description add to the set.
    ///
    /// # Errors
    /// As [`check_append`](Self::check_append).
    pub(crate) fn grown(&self, description: &SetDescription, out: &Path) -> Result<Self> {
        let columns = self.new_columns(description);
        if columns.is_empty() {
            self.check_form_of(description, out)?;
            return Ok(self.clone());
        }
        self.check_form_of(&description.without_columns(&columns)?, out)?;
        if !description.add_columns {
            return Err(ErrorKind::NewColumns { path: out.to_owned(), columns }.into());
        }
        self.with_columns(description, &columns, out)
    }

    fn check_form_of(&self, description: &SetDescription, out: &Path) -> Result<()> {
        let path = || out.to_owned();
        if self.format_version > FORMAT_VERSION {
            let why = format!(
                "its manifest is of format {}, of which this release, with format {FORMAT_VERSION}, would lose a part",
                self.format_version
            );
            return Err(ErrorKind::NotAppendable { path: path(), why }.into());
        }
        let has_form = description.record_type.is_some() || description.schema.is_some();
        if has_form && self.record_type.is_none() && self.schema.is_none() {
            return Err(ErrorKind::UnknownForm { path: path() }.into());
        }
        let differs = |part: &str, expected, found| {
            Err(ErrorKind::OtherForm { path: path(), part: part.to_owned(), expected, found }.into())
        };
        // Partition columns are removed from the records, so they are compared first.
        let (expected, found) =
            (columns(self.partition_columns.as_ref()), columns(description.partition_columns.as_ref()));
        if expected != found && description.replace_partitions {
            return Err(ErrorKind::OtherPartitions { path: path(), expected, found }.into());
        }
        if expected != found {
            return differs("partitioning", expected, found);
        }
        if let Some(difference) = FormDifference::on_append(description, out, self) {
            let FormDifference { part, expected, found, .. } = difference;
            return Err(ErrorKind::OtherForm { path: path(), part, expected, found }.into());
        }
        if self.layout != SetLayout::Shards || description.layout != SetLayout::Shards {
            let why = "a saved dataset cannot be appended to".to_owned();
            return Err(ErrorKind::NotAppendable { path: path(), why }.into());
        }
        if let Some((part, expected, found)) = framing_difference(self.framing(), description.framing) {
            return differs(part, expected, found);
        }
        if self.splits.iter().chain(&description.splits).any(|split| split.rows.is_some()) {
            let why = "its splits have exact numbers of rows".to_owned();
            return Err(ErrorKind::NotAppendable { path: path(), why }.into());
        }
        if !self.is_split_alike(description) {
            let expected = splitting(&self.splits, &self.split_by, self.split_column.as_ref());
            let found = splitting(&description.splits, &description.split_by, description.split_column.as_ref());
            return differs("splitting", expected, found);
        }
        Ok(())
    }

    /// Returns the suffix that the names of its shards have, which shards that are appended get too. Earlier releases
    /// wrote `.tfrecord.zlib` for the [`suffix`](Framing::suffix) of zlib.
    pub fn suffix(&self) -> &'static str {
        suffix_of(self.shards.iter().map(|shard| shard.path.as_str()), self.framing())
    }

    /// Whether a row gets the same split in both sets. Fractions are rounded in a manifest.
    fn is_split_alike(&self, description: &SetDescription) -> bool {
        let same = |(one, other): (&SplitDescription, &SplitDescription)| {
            one.name == other.name && (one.fraction - other.fraction).abs() <= 1e-14
        };
        if self.split_column.is_some() || description.split_column.is_some() {
            return self.split_column == description.split_column;
        }
        self.split_by == description.split_by
            && self.splits.len() == description.splits.len()
            && self.splits.iter().zip(&description.splits).all(same)
    }
}

/// Returns what differs between the shards of a set and those to append: the part, and both values. The level may.
fn framing_difference(expected: Framing, found: Framing) -> Option<(&'static str, String, String)> {
    if expected.format() != found.format() {
        return Some(("the record format", expected.format().to_string(), found.format().to_string()));
    }
    if expected.compression() != found.compression() {
        return Some(("the compression", expected.compression().to_string(), found.compression().to_string()));
    }
    let (expected, found) = (expected.chunks()?, found.chunks()?);
    if expected.codec != found.codec {
        return Some(("the compression", expected.codec.to_string(), found.codec.to_string()));
    }
    let differs = expected.group_size != found.group_size;
    differs.then(|| ("the group size", expected.group_size.to_string(), found.group_size.to_string()))
}

/// Formats partition columns, for a comparison and a message. The memory layout of a type is not in the names of directories.
fn columns(columns: Option<&SchemaDescription>) -> String {
    let fields = columns.map(|columns| columns.fields.as_slice()).unwrap_or_default();
    if fields.is_empty() {
        return "none".to_owned();
    }
    let arrow = columns.and_then(|columns| columns.to_schema().ok());
    let field = |(at, field): (usize, &FieldDescription)| {
        let arrow = arrow.as_ref().and_then(|arrow| arrow.fields().get(at));
        let data_type = arrow.map_or(field.data_type.clone(), |arrow| plain(arrow.data_type(), true).to_string());
        format!("{} ({data_type})", field.name)
    };
    format!("by {}", fields.iter().enumerate().map(field).collect::<Vec<_>>().join(", "))
}

/// Formats splits for a message.
fn splitting(splits: &[SplitDescription], split_by: &[String], column: Option<&String>) -> String {
    if let Some(column) = column {
        return format!("by the names in {column}");
    }
    if splits.is_empty() {
        return "none".to_owned();
    }
    let parts = splits.iter().map(|split| format!("{}={}", split.name, split.fraction));
    let by = if split_by.is_empty() { "whole records".to_owned() } else { split_by.join(", ") };
    format!("{} by {by}", parts.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests;
