//! [`ShardGroup`]: what the records of a shard have in common, and the directory that tells it.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::error::{ErrorKind, Result};

/// What Hive calls the partition of a null, or of an empty text: `ConfVars.DEFAULTPARTITIONNAME` in its `HiveConf`.
pub const NULL_PARTITION: &str = "__HIVE_DEFAULT_PARTITION__";

/// Bytes of a file's name, at most, in the file systems of Linux, macOS and HDFS.
pub(crate) const LONGEST_NAME: usize = 255;

/// Bytes of the directories of a partition, at most. Hive's metastore has room for so many characters of a partition's
/// name (`PARTITIONS.PART_NAME`), and an object's key of 1,024 bytes holds them beside the rest.
const LONGEST_DIRECTORY: usize = 767;

/// What the records of a shard have in common: the values of the partition columns, and the split. Shards are numbered
/// in their group.
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
    /// The partition columns, in the order of their directories, and the value of each as text. `None` is null; so are,
    /// as with Hive, an empty text and [`NULL_PARTITION`] itself.
    pub partition_values: Vec<(String, Option<String>)>,
    /// The split.
    pub split: Option<String>,
}

/// Which of the shards of its group a shard is, where that is known before the shard is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardPlace<'a> {
    /// The group.
    pub group: &'a ShardGroup,
    /// Its number in the group, from 0.
    pub index: usize,
    /// How many shards the group has.
    pub total: usize,
}

impl ShardGroup {
    /// Where its shards lie, from the set's directory: `key=value` directories with `/` between, escaped as Hive does.
    /// Empty without partition columns.
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

    /// Refuses what makes no directory: no name of a column, one that is hidden, or values that are too long.
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

    /// The values by column, as a manifest has them.
    pub(crate) fn values(&self) -> BTreeMap<String, Option<String>> {
        let value = |(column, value): &(String, Option<String>)| {
            (column.clone(), partition_value(value.as_deref()).map(str::to_owned))
        };
        self.partition_values.iter().map(value).collect()
    }

    /// The path of a file of the group, from the set's directory.
    pub(crate) fn path(&self, name: &str) -> String {
        let directory = self.directory();
        if directory.is_empty() { name.to_owned() } else { directory + "/" + name }
    }

    /// What the names of its shards start with.
    pub(crate) fn prefix<'a>(&'a self, prefix: &'a str) -> &'a str {
        self.split.as_deref().unwrap_or(prefix)
    }
}

/// A partition value, if it is not what stands for null.
pub(crate) fn partition_value(value: Option<&str>) -> Option<&str> {
    value.filter(|value| !value.is_empty() && *value != NULL_PARTITION)
}

/// Whether directories can be named after a column. Hidden ones would be read by nobody.
pub(crate) fn names_directories(column: &str) -> bool {
    !column.is_empty() && !column.starts_with('.')
}

/// The beginning of a name that is too long to be shown.
pub(crate) fn shortened(name: &str) -> String {
    const SHOWN: usize = 40;
    name.chars().take(SHOWN).chain("...".chars()).collect()
}

/// Appends a name as `FileUtils.escapePathName` of Hive writes it (apache/hive, `common`, since 0.14).
fn escape(name: &str, escaped: &mut String) {
    for character in name.chars() {
        match character {
            // A closing brace is not among them.
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
                // Texts take everything.
                let _infallible = write!(escaped, "%{:02X}", u32::from(character));
            }
            _ => escaped.push(character),
        }
    }
}

#[cfg(test)]
mod tests;
