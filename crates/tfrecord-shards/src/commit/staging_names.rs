//! The names of staging directories and of the files in them, and of hidden files.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::set::names::RunId;

/// What the names of staging directories start with. The dot hides them from globs and from other tools' listings.
pub(crate) const PREFIX: &str = ".tfr-";

/// In a staging directory within the target: where the old files are kept.
pub(crate) const REPLACED_NAME: &str = "replaced";

/// What the names of shards end in until they have their final name.
const STAGED_SUFFIX: &str = ".staged";

/// What the names of their indexes end in.
const INDEX_SUFFIX: &str = ".idx";

/// The name of a shard in the staging directory.
pub(crate) fn shard_name(partition: u32, sequence: u32) -> String {
    format!("{partition:05}-{sequence:05}{STAGED_SUFFIX}")
}

/// The name of a shard's index in the staging directory.
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

/// The staging directory of `run` beside `target`.
pub(crate) fn path_beside(parent: &Path, target: &OsStr, run: &RunId) -> PathBuf {
    let mut name = OsString::from(format!("{PREFIX}{run}-"));
    name.push(target);
    parent.join(name)
}

/// Where `run` puts what it replaces, when it cannot exchange directories.
pub(crate) fn replaced_beside(parent: &Path, target: &OsStr, run: &RunId) -> PathBuf {
    let mut name = OsString::from(format!("{PREFIX}{run}.{REPLACED_NAME}-"));
    name.push(target);
    parent.join(name)
}

/// The staging directory of `run` in the target.
pub(crate) fn path_inside(target: &Path, run: &RunId) -> PathBuf {
    target.join(format!("{PREFIX}{run}"))
}

/// The run whose staging directory, in a target, has this name.
pub(crate) fn run_inside(name: &OsStr) -> Option<RunId> {
    name.to_str()?.strip_prefix(PREFIX)?.parse().ok()
}

/// The run whose staging directory, beside `target`, has this name.
pub(crate) fn run_beside(name: &OsStr, target: &OsStr) -> Option<RunId> {
    let rest = name.as_encoded_bytes().strip_prefix(PREFIX.as_bytes())?;
    let run = str::from_utf8(rest.strip_suffix(target.as_encoded_bytes())?.strip_suffix(b"-")?).ok()?;
    run.strip_suffix(REPLACED_NAME).and_then(|run| run.strip_suffix('.')).unwrap_or(run).parse().ok()
}

/// The hidden name, next to the file `name`, of what `run` is about to put in its place.
pub(crate) fn hidden_name(name: &str, run: &RunId) -> String {
    format!(".{name}.{run}")
}

/// The run whose hidden file has this name.
pub(crate) fn hidden_run(name: &str) -> Option<&str> {
    let (file, run) = name.strip_prefix('.')?.rsplit_once('.')?;
    (!file.is_empty() && RunId::is_generated(run)).then_some(run)
}
