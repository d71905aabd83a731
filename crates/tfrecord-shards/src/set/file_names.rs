//! What files in a directory are, by their names.

use std::ffi::OsStr;

use crate::set::names::ShardName;

/// Extensions of files next to shards that are not shards: sidecars for other tools, indexes, notes.
const SIDECARS: [&str; 12] =
    ["json", "pbtxt", "pb", "py", "html", "idx", "tfindex", "index", "txt", "md", "csv", "crc"];

/// Sidecars of TensorFlow Datasets with an extension that tables also have.
const DESCRIPTIONS: [&str; 2] = ["dataset_info.json", "features.json"];

/// Whether readers of a directory skip a file or directory in it, because its name starts with `.` or `_`, or because
/// Hadoop is copying it there (`a.csv._COPYING_`).
///
/// Hive and Spark allow columns such as `_id`: the directory `_id=7` is a partition.
pub fn is_hidden(name: &str, is_directory: bool) -> bool {
    let is_named = |start| name.starts_with(start);
    is_named('.') || is_named('_') && !(is_directory && name.contains('=')) || name.ends_with("._COPYING_")
}

/// Whether a file is a sidecar by the suffix of its name: a file next to shards that is not a shard, such as a note, an
/// index, a schema, or metadata for another tool.
///
/// ```
/// use tfrecord_shards::is_sidecar;
///
/// assert!(is_sidecar("README.md") && is_sidecar("dataset_info.json") && is_sidecar("part-00000.tfrecord.idx"));
/// assert!(!is_sidecar("part-00000.tfrecord") && !is_sidecar("json"));
/// ```
pub fn is_sidecar(name: &str) -> bool {
    extension(name).is_some_and(|extension| SIDECARS.contains(&extension.as_str()))
}

/// Whether a file is a sidecar if the files next to it may also be tables of other formats. `beside_records`: whether
/// there certainly is a file of records.
pub fn is_sidecar_of_table(name: &str, beside_records: bool) -> bool {
    match extension(name).as_deref() {
        Some("csv" | "json") => DESCRIPTIONS.contains(&name),
        Some("txt") => beside_records || name.ends_with(".labels.txt"),
        _ => is_sidecar(name),
    }
}

/// Whether a file certainly contains records, by its name: `a.tfrecord`, `a.tfrecords.gz`, `a.tfrec`,
/// `a.tfrecord-00000-of-00002`, `a.array_record`.
pub fn is_record_file(name: &str) -> bool {
    (name.contains(".tfrec") || is_array_record(name)) && !is_sidecar(name)
}

/// Whether a file has the name of a shard, ours or written by other tools.
pub(crate) fn is_shard(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    !is_ignored(name.as_ref().as_ref(), false) && (is_record_file(&name) || name.parse::<ShardName>().is_ok())
}

/// Whether a file or directory in a directory of records is ignored: it is hidden, or a sidecar.
pub(crate) fn is_ignored(name: &OsStr, is_directory: bool) -> bool {
    let name = name.to_string_lossy();
    is_hidden(&name, is_directory) || (!is_directory && is_sidecar(&name))
}

/// Whether a file has the name of an ArrayRecord file.
///
/// ```
/// use tfrecord_shards::is_array_record;
///
/// assert!(is_array_record("a.array_record") && is_array_record("a-train.array_record-00000-of-00002"));
/// assert!(!is_array_record("a.tfrecord") && !is_array_record("a.array_record.json"));
/// ```
pub fn is_array_record(name: &str) -> bool {
    let last = extension(name).unwrap_or_default();
    last.strip_prefix("array_record").is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn extension(name: &str) -> Option<String> {
    let (stem, extension) = name.rsplit_once('.')?;
    (!stem.is_empty()).then(|| extension.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_directories_of_hidden_columns_are_read() {
        assert!(is_hidden("a.csv._COPYING_", false) && !is_hidden("a_COPYING_", false));
        assert!(is_hidden("_id=7", false) && is_hidden("_temporary", true) && is_hidden(".id=7", true));
        assert!(!is_hidden("_id=7", true));
        assert!(is_ignored("notes.json".as_ref(), false) && !is_ignored("notes.json".as_ref(), true));
    }

    #[test]
    fn sidecars_of_tables_need_more_than_an_extension() {
        assert!(is_sidecar("part.json") && !is_sidecar_of_table("part.json", true));
        assert!(is_sidecar_of_table("features.json", false));
        assert!(is_sidecar_of_table("notes.txt", true) && !is_sidecar_of_table("notes.txt", false));
        assert!(is_shard("part.tfrec".as_ref()) && !is_shard("part.tfrec.json".as_ref()));
    }
}
