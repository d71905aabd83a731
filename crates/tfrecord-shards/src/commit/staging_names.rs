//! Names of staging directories and their files, and of hidden files.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tfrecord_framing::crc32c_append;

use crate::commit::attempt_id::AttemptId;
use crate::set::names::RunId;

/// Prefix of staging directories. The dot hides them from globs and from other tools' listings.
pub(crate) const PREFIX: &str = ".tfr-";

/// Name of the directory for the old files, in a staging directory within the target.
pub(crate) const REPLACED_NAME: &str = "replaced";

/// Name of the directory in which a set is prepared, in the staging directory of a run that several processes carry out.
/// No set has a directory of this name.
pub(crate) const SET_NAME: &str = ".tfr.set";

/// Suffix of shards until they get their final names.
const STAGED_SUFFIX: &str = ".staged";

/// Suffix of their indexes.
const INDEX_SUFFIX: &str = ".idx";

/// Suffix of the index of a shard that is staged.
pub(crate) const STAGED_INDEX_SUFFIX: &str = ".staged.idx";

/// Suffix of the reports of tasks.
const REPORT_SUFFIX: &str = ".report";

/// Returns the name of a shard in the staging directory.
pub(crate) fn shard_name(partition: u32, sequence: u32) -> String {
    format!("{partition:05}-{sequence:05}{STAGED_SUFFIX}")
}

/// Returns the name of a shard's index in the staging directory.
pub(crate) fn index_name(partition: u32, sequence: u32) -> String {
    shard_name(partition, sequence) + INDEX_SUFFIX
}

/// Returns the name of a shard that an attempt of a task stages.
pub(crate) fn attempt_shard_name(partition: u32, sequence: u32, attempt: AttemptId) -> String {
    format!("{partition:05}-{sequence:05}.{attempt}{STAGED_SUFFIX}")
}

/// Returns the name of such a shard's index.
pub(crate) fn attempt_index_name(partition: u32, sequence: u32, attempt: AttemptId) -> String {
    attempt_shard_name(partition, sequence, attempt) + INDEX_SUFFIX
}

/// Returns what the names of an attempt's sorted runs begin with.
pub(crate) fn attempt_run_prefix(attempt: AttemptId) -> String {
    format!("runs.{attempt}")
}

/// Name of the file in the directory of attempts that describes how sorted runs are cut into shards.
pub(crate) const CUT_NAME: &str = "cut";

/// Whether a file in a staging directory has the name of a shard or of its index.
pub(crate) fn is_shard_name(name: &str) -> bool {
    let name = name.strip_suffix(INDEX_SUFFIX).unwrap_or(name);
    let parse = || {
        let stem = name.strip_suffix(STAGED_SUFFIX)?;
        let (numbers, attempt) = match stem.split_once('.') {
            Some((numbers, attempt)) => (numbers, Some(attempt.parse().ok()?)),
            None => (stem, None),
        };
        let (partition, sequence) = numbers.split_once('-')?;
        let (partition, sequence) = (partition.parse().ok()?, sequence.parse().ok()?);
        let expected = match attempt {
            Some(attempt) => attempt_shard_name(partition, sequence, attempt),
            None => shard_name(partition, sequence),
        };
        Some(expected == name)
    };
    parse().unwrap_or(false)
}

/// Returns the name of the report of an attempt.
pub(crate) fn report_name(partition: u32, attempt: AttemptId) -> String {
    format!("{partition:05}.{attempt}{REPORT_SUFFIX}")
}

/// Returns the partition and the attempt whose report has this name.
pub(crate) fn parse_report_name(name: &str) -> Option<(u32, AttemptId)> {
    let (partition, attempt) = name.strip_suffix(REPORT_SUFFIX)?.split_once('.')?;
    let (partition, attempt) = (partition.parse().ok()?, attempt.parse().ok()?);
    (report_name(partition, attempt) == name).then_some((partition, attempt))
}

/// Returns the directory in a run's staging directory for the attempts of other processes.
///
/// It has the name of a staging directory within a target, so that what removes the latter removes it too.
pub(crate) fn attempts(staging: &Path, run: &RunId) -> PathBuf {
    path_inside(staging, run)
}

/// Longest name of a file in bytes, on all common file systems.
const MAX_NAME: usize = 255;

/// Returns the staging directory of `run` next to `target`.
pub(crate) fn path_beside(parent: &Path, target: &OsStr, run: &RunId) -> PathBuf {
    let mut name = OsString::from(format!("{PREFIX}{run}-"));
    name.push(target_part(target, run));
    parent.join(name)
}

/// Returns the directory for what `run` replaces, where directories cannot be exchanged.
pub(crate) fn replaced_beside(parent: &Path, target: &OsStr, run: &RunId) -> PathBuf {
    let mut name = replaced_prefix(run);
    name.push(target_part(target, run));
    parent.join(name)
}

fn replaced_prefix(run: &RunId) -> OsString {
    format!("{PREFIX}{run}.{REPLACED_NAME}-").into()
}

/// Returns the part of a directory name that names its target. It is the same in both directories of a run.
fn target_part(target: &OsStr, run: &RunId) -> OsString {
    shortened(target, MAX_NAME.saturating_sub(replaced_prefix(run).len()))
}

/// Returns a name of at most `len` bytes: `name`, or its beginning and the checksum of all of it.
fn shortened(name: &OsStr, len: usize) -> OsString {
    let bytes = name.as_bytes();
    if bytes.len() <= len {
        return name.to_owned();
    }
    let checksum = format!("~{:08x}", crc32c_append(0, bytes));
    let is_char_start = |at: &usize| bytes.get(*at).is_none_or(|byte| byte & 0xc0 != 0x80);
    let end = (0..=len.saturating_sub(checksum.len())).rev().find(is_char_start).unwrap_or(0);
    let mut short = OsStr::from_bytes(bytes.get(..end).unwrap_or_default()).to_owned();
    short.push(checksum);
    short
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
    let rest = name.as_bytes().strip_prefix(PREFIX.as_bytes())?;
    // No run id contains a dash.
    let dash = rest.iter().position(|byte| *byte == b'-')?;
    let run = str::from_utf8(rest.get(..dash)?).ok()?;
    let run = run.strip_suffix(REPLACED_NAME).and_then(|run| run.strip_suffix('.')).unwrap_or(run).parse().ok()?;
    (rest.get(dash + 1..)? == target_part(target, &run).as_bytes()).then_some(run)
}

/// Returns the hidden name under which `run` writes the next version of file `name`.
pub(crate) fn hidden_name(name: &str, run: &RunId) -> String {
    let name = shortened(name.as_ref(), MAX_NAME.saturating_sub(run.as_str().len() + 2));
    format!(".{}.{run}", name.to_string_lossy())
}

/// Returns the hidden name by which `run` opens the manifest of a set to lock it.
pub(crate) fn lock_name(run: &RunId) -> String {
    hidden_name("lock", run)
}

/// Returns the run whose hidden file has this name.
pub(crate) fn hidden_run(name: &str) -> Option<&str> {
    let (file, run) = name.strip_prefix('.')?.rsplit_once('.')?;
    (!file.is_empty() && RunId::is_generated(run)).then_some(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_of_targets_are_shortened() {
        let run = RunId::new();
        let (dir, short) = (Path::new("d"), "é".repeat(104));
        let name = |path: PathBuf| path.file_name().unwrap().to_owned();
        assert_eq!(name(path_beside(dir, short.as_ref(), &run)), *format!(".tfr-{run}-{short}"));
        let long = ["é".repeat(105), "é".repeat(127) + "x", "é".repeat(127) + "y"];
        for target in &long {
            let names = [path_beside, replaced_beside].map(|path| name(path(dir, target.as_ref(), &run)));
            for name in &names {
                assert!(name.len() <= MAX_NAME && name.to_str().is_some(), "{name:?}");
                for other in [&short, &long[0], &long[1], &long[2]] {
                    assert_eq!(run_beside(name, other.as_ref()), (target == other).then(|| run.clone()), "{other}");
                }
                // Without the target, as in a directory of targets.
                let part = name.to_str().unwrap().splitn(3, '-').nth(2).unwrap();
                assert_eq!(run_beside(name, part.as_ref()), Some(run.clone()));
                assert_eq!(path_beside(dir, part.as_ref(), &run), path_beside(dir, target.as_ref(), &run));
            }
            let hidden = hidden_name(target, &run);
            assert!(hidden.len() <= MAX_NAME && hidden_run(&hidden) == Some(run.as_str()), "{hidden}");
        }
    }

    #[test]
    fn staged_names_are_recognized() {
        let attempt = AttemptId::new();
        let name = attempt_shard_name(1, 100_000, attempt);
        assert_eq!(name, format!("00001-100000.{attempt}.staged"));
        for name in [shard_name(0, 7), index_name(0, 7), name.clone(), attempt_index_name(1, 100_000, attempt)] {
            assert!(is_shard_name(&name), "{name}");
        }
        let upper = name.replace(&attempt.to_string(), &attempt.to_string().to_uppercase());
        let other = uuid::Uuid::from_u128(0x1234_5678_9abc_4def_8123_4567_89ab_cdef).simple().to_string();
        let of_other_version = name.replace(&attempt.to_string(), &other);
        for name in ["1-2.staged", "00001-00002", "00001-00002..staged", &upper, &of_other_version] {
            assert!(!is_shard_name(name), "{name}");
        }
        assert_eq!(parse_report_name(&report_name(3, attempt)), Some((3, attempt)));
        assert_eq!(parse_report_name(&(report_name(3, attempt) + ".new")), None);
        assert_eq!(parse_report_name(&format!("3.{attempt}.report")), None);
    }
}
