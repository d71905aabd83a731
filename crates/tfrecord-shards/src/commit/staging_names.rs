//! Names of staging directories and their files, and of hidden files.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::set::names::RunId;

/// Prefix of staging directories. The dot hides them from globs and from other tools' listings.
pub(crate) const PREFIX: &str = ".tfr-";

/// Name of the directory for the old files, in a staging directory within the target.
pub(crate) const REPLACED_NAME: &str = "replaced";

/// Suffix of shards until they get their final names.
const STAGED_SUFFIX: &str = ".staged";

/// Suffix of their indexes.
const INDEX_SUFFIX: &str = ".idx";

/// Returns the name of a shard in the staging directory.
pub(crate) fn shard_name(partition: u32, sequence: u32) -> String {
    format!("{partition:05}-{sequence:05}{STAGED_SUFFIX}")
}

/// Returns the name of a shard's index in the staging directory.
pub(crate) fn index_name(partition: u32, sequence: u32) -> String {
    shard_name(partition, sequence) + INDEX_SUFFIX
}

/// Whether a file in a staging directory has the name of a shard or of its index.
pub(crate) fn is_shard_name(name: &str) -> bool {
    let name = name.strip_suffix(INDEX_SUFFIX).unwrap_or(name);
    let parse = || {
        let (partition, sequence) = name.strip_suffix(STAGED_SUFFIX)?.split_once('-')?;
        Some(shard_name(partition.parse().ok()?, sequence.parse().ok()?) == name)
    };
    parse().unwrap_or(false)
}

/// Returns the staging directory of `run` next to `target`.
pub(crate) fn path_beside(parent: &Path, target: &OsStr, run: &RunId) -> PathBuf {
    let mut name = OsString::from(format!("{PREFIX}{run}-"));
    name.push(target);
    parent.join(name)
}

/// Returns the directory for what `run` replaces, where directories cannot be exchanged.
pub(crate) fn replaced_beside(parent: &Path, target: &OsStr, run: &RunId) -> PathBuf {
    let mut name = OsString::from(format!("{PREFIX}{run}.{REPLACED_NAME}-"));
    name.push(target);
    parent.join(name)
}

/// Returns the staging directory of `run` in the target.
pub(crate) fn path_inside(target: &Path, run: &RunId) -> PathBuf {
    target.join(format!("{PREFIX}{run}"))
}

/// Returns the run whose staging directory in a target has this name.
pub(crate) fn run_inside(name: &OsStr) -> Option<RunId> {
    name.to_str()?.strip_prefix(PREFIX)?.parse().ok()
}

/// Returns the run whose staging directory next to `target` has this name.
pub(crate) fn run_beside(name: &OsStr, target: &OsStr) -> Option<RunId> {
    let rest = name.as_encoded_bytes().strip_prefix(PREFIX.as_bytes())?;
    let run = str::from_utf8(rest.strip_suffix(target.as_encoded_bytes())?.strip_suffix(b"-")?).ok()?;
    run.strip_suffix(REPLACED_NAME).and_then(|run| run.strip_suffix('.')).unwrap_or(run).parse().ok()
}

/// Returns the hidden name under which `run` writes the next version of file `name`.
pub(crate) fn hidden_name(name: &str, run: &RunId) -> String {
    format!(".{name}.{run}")
}

/// Returns the run whose hidden file has this name.
pub(crate) fn hidden_run(name: &str) -> Option<&str> {
    let (file, run) = name.strip_prefix('.')?.rsplit_once('.')?;
    (!file.is_empty() && RunId::is_generated(run)).then_some(run)
}
