//! [`ShardGroup`]: the partition values and split shared by a shard's records, and the directory named after them.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::error::{ErrorKind, Result};

/// Hive's partition name for null or an empty string: `ConfVars.DEFAULTPARTITIONNAME` in its `HiveConf`.
pub const NULL_PARTITION: &str = "__HIVE_DEFAULT_PARTITION__";

/// Maximum length of a file name in bytes on Linux, macOS and HDFS.
pub(crate) const LONGEST_NAME: usize = 255;

/// Maximum length of a partition's directories in bytes: the limit, in characters, of Hive's metastore for a partition
/// name (`PARTITIONS.PART_NAME`). An object key of 1,024 bytes has room for them and the rest of the path.
const LONGEST_DIRECTORY: usize = 767;

/// The partition values and the split that all records of a shard share. Shards are numbered within their group.
///
/// ```
/// use tfrecord_shards::ShardGroup;
///
/// let values = vec![("dt".to_owned(), Some("2026-01-01".to_owned())), ("h".to_owned(), Some("12:30".to_owned()))];
/// let group = ShardGroup { partition_values: values, split: Some("train".to_owned()) };
/// assert_eq!(group.directory(), "dt=2026-01-01/h=12%3A30");
///
/// let group = ShardGroup { partition_values: vec![("dt".to_owned(), None)], split: None };
/// assert_eq!(group.directory(), "dt=__HIVE_DEFAULT_PARTITION__");
/// assert_eq!(ShardGroup::default().directory(), "");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct ShardGroup {
    /// The partition columns with their values as text, in the order of the directories. `None` is null. As in Hive, an
    /// empty string and [`NULL_PARTITION`] itself are null too.
    pub partition_values: Vec<(String, Option<String>)>,
    /// The split.
    pub split: Option<String>,
}

/// A shard's position within its group, for writers that know it before they create the shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardPlace<'a> {
    /// The group.
    pub group: &'a ShardGroup,
    /// Its number in the group, from 0.
    pub index: usize,
    /// Number of shards in the group.
    pub total: usize,
}

impl ShardGroup {
    /// Returns the directory of the group's shards, relative to the set's directory: `key=value` directories separated
    /// by `/`, escaped as in Hive. Empty without partition columns.
    pub fn directory(&self) -> String {
        let mut directory = String::new();
        for (column, value) in &self.partition_values {
            if !directory.is_empty() {
                directory.push('/');
            }
            escape(column, &mut directory);
            directory.push('=');
            match partition_value(value.as_deref()) {
                Some(value) => escape(value, &mut directory),
                None => directory.push_str(NULL_PARTITION),
            }
        }
        directory
    }

    /// Rejects column names that cannot be directory names, hidden ones, and values that are too long.
    ///
    /// # Errors
    /// [`ErrorKind::PartitionName`] and [`ErrorKind::LongName`].
    pub fn check(&self) -> Result<()> {
        if let Some((column, _)) = self.partition_values.iter().find(|(column, _)| !names_directories(column)) {
            return Err(ErrorKind::PartitionName { column: column.clone() }.into());
        }
        let directory = self.directory();
        let too_long =
            |name: &str, limit| Err(ErrorKind::LongName { name: shortened(name), found: name.len(), limit }.into());
        match directory.split('/').find(|name| name.len() > LONGEST_NAME) {
            Some(name) => too_long(name, LONGEST_NAME),
            None if directory.len() > LONGEST_DIRECTORY => too_long(&directory, LONGEST_DIRECTORY),
            None => Ok(()),
        }
    }

    /// Returns the values by column, as a manifest records them.
    pub(crate) fn values(&self) -> BTreeMap<String, Option<String>> {
        let value = |(column, value): &(String, Option<String>)| {
            (column.clone(), partition_value(value.as_deref()).map(str::to_owned))
        };
        self.partition_values.iter().map(value).collect()
    }

    /// Returns the path of a file of the group, relative to the set's directory.
    pub(crate) fn path(&self, name: &str) -> String {
        let directory = self.directory();
        if directory.is_empty() { name.to_owned() } else { directory + "/" + name }
    }

    /// Returns the prefix of its shards' names.
    pub(crate) fn prefix<'a>(&'a self, prefix: &'a str) -> &'a str {
        self.split.as_deref().unwrap_or(prefix)
    }
}

/// Returns a partition value, or `None` if it represents null.
pub(crate) fn partition_value(value: Option<&str>) -> Option<&str> {
    value.filter(|value| !value.is_empty() && *value != NULL_PARTITION)
}

/// Whether directories can be named after a column. Readers ignore hidden directories.
pub(crate) fn names_directories(column: &str) -> bool {
    !column.is_empty() && !column.starts_with('.')
}

/// Shortens a name for a message.
pub(crate) fn shortened(name: &str) -> String {
    const SHOWN: usize = 40;
    name.chars().take(SHOWN).chain("...".chars()).collect()
}

/// Appends a name, escaped like `FileUtils.escapePathName` of Hive (apache/hive, `common`, since 0.14).
fn escape(name: &str, escaped: &mut String) {
    for character in name.chars() {
        match character {
            // A closing brace is not escaped.
            '\0'..='\x1f'
            | '\x7f'
            | '"'
            | '#'
            | '%'
            | '\''
            | '*'
            | '/'
            | ':'
            | '='
            | '?'
            | '\\'
            | '{'
            | '['
            | ']'
            | '^' => {
                // Writing to a `String` cannot fail.
                let _infallible = write!(escaped, "%{:02X}", u32::from(character));
            }
            _ => escaped.push(character),
        }
    }
}

#[cfg(test)]
mod tests;
