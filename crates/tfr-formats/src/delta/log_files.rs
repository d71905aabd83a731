//! [`LogFiles`]: the files in `_delta_log/`, and those of them that a version consists of.

use std::collections::{BTreeMap, BTreeSet};

use object_store::ObjectMeta;

/// The log files of a table, by version.
#[derive(Debug, Default)]
pub(super) struct LogFiles {
    pub(super) commits: BTreeMap<u64, ObjectMeta>,
    /// The files of each complete checkpoint.
    pub(super) checkpoints: BTreeMap<u64, Vec<ObjectMeta>>,
    /// The file that names the newest checkpoint.
    pub(super) last_checkpoint: Option<ObjectMeta>,
}

/// The file that names the newest checkpoint, so that a reader need not list the log.
const LAST_CHECKPOINT: &str = "_last_checkpoint";

/// What a name in `_delta_log/` means.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LogName {
    Commit(u64),
    /// A checkpoint in one file.
    Checkpoint(u64),
    /// A checkpoint in one file, whose name is unique.
    UniqueCheckpoint(u64),
    /// A part of a checkpoint, and the number of its parts.
    Part(u64, u32, u32),
}

impl LogName {
    fn parse(name: &str) -> Option<Self> {
        let (version, rest) = name.split_once('.')?;
        let version = number(version, 20)?;
        let parts: Vec<_> = rest.split('.').collect();
        match parts.as_slice() {
            ["json"] => Some(Self::Commit(version)),
            ["checkpoint", "parquet"] => Some(Self::Checkpoint(version)),
            ["checkpoint", part, count, "parquet"] => {
                let narrow = |text| u32::try_from(number(text, 10)?).ok();
                Some(Self::Part(version, narrow(part)?, narrow(count)?))
            }
            ["checkpoint", _, "json" | "parquet"] => Some(Self::UniqueCheckpoint(version)),
            _ => None,
        }
    }
}

/// Parses a number with this many digits.
fn number(text: &str, digits: usize) -> Option<u64> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// A version that cannot be read from the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Missing {
    /// The log has no commits and no checkpoint.
    Everything,
    /// A version that is not there.
    Version { asked: u64, newest: u64 },
    /// The file of a version that is needed.
    Commit(u64),
}

/// The files of one version of a table.
#[derive(Debug)]
pub(super) struct VersionFiles<'a> {
    pub(super) version: u64,
    pub(super) checkpoint: &'a [ObjectMeta],
    /// The version of the checkpoint.
    pub(super) checkpoint_version: Option<u64>,
    /// The commits after the checkpoint, in order.
    pub(super) commits: Vec<&'a ObjectMeta>,
}

impl LogFiles {
    /// Sorts the files of the directory.
    pub(super) fn of(files: Vec<ObjectMeta>) -> Self {
        let mut log = Self::default();
        let mut parts: BTreeMap<(u64, u32), BTreeMap<u32, ObjectMeta>> = BTreeMap::new();
        let mut unique: BTreeMap<u64, ObjectMeta> = BTreeMap::new();
        for meta in files {
            match meta.location.filename().and_then(LogName::parse) {
                Some(LogName::Commit(version)) => drop(log.commits.insert(version, meta)),
                Some(LogName::Checkpoint(version)) => drop(log.checkpoints.insert(version, vec![meta])),
                // The first by name, so that the choice is the same each time.
                Some(LogName::UniqueCheckpoint(version)) => match unique.get(&version) {
                    Some(first) if first.location <= meta.location => {}
                    _ => drop(unique.insert(version, meta)),
                },
                Some(LogName::Part(version, part, count)) => {
                    parts.entry((version, count)).or_default().insert(part, meta);
                }
                None if meta.location.filename() == Some(LAST_CHECKPOINT) => log.last_checkpoint = Some(meta),
                None => {}
            }
        }
        for ((version, count), files) in parts {
            if files.keys().copied().eq(1..=count) {
                log.checkpoints.entry(version).or_insert_with(|| files.into_values().collect());
            }
        }
        for (version, file) in unique {
            log.checkpoints.entry(version).or_insert_with(|| vec![file]);
        }
        log
    }

    /// Returns the newest version.
    pub(super) fn newest(&self) -> Option<u64> {
        self.commits.keys().chain(self.checkpoints.keys()).max().copied()
    }

    /// Returns the files of a version, by default the newest.
    ///
    /// # Errors
    /// The version is not there, or lacks a file.
    pub(super) fn version(&self, asked: Option<u64>) -> Result<VersionFiles<'_>, Missing> {
        let newest = self.newest().ok_or(Missing::Everything)?;
        let version = asked.unwrap_or(newest);
        if version > newest {
            return Err(Missing::Version { asked: version, newest });
        }
        let checkpoint = self.checkpoints.range(..=version).next_back();
        let first = checkpoint.map_or(Some(0), |(at, _)| at.checked_add(1));
        let needed: BTreeSet<u64> =
            first.into_iter().flat_map(|first| first..=version).take(1 + self.commits.len()).collect();
        let commits = needed.into_iter().map(|version| self.commits.get(&version).ok_or(Missing::Commit(version)));
        let commits = commits.collect::<Result<_, _>>()?;
        let checkpoint_version = checkpoint.map(|(version, _)| *version);
        let checkpoint = checkpoint.map_or(&[][..], |(_, files)| files);
        Ok(VersionFiles { version, checkpoint, checkpoint_version, commits })
    }
}

#[cfg(test)]
mod tests {
    use object_store::path::Path;

    use super::*;

    fn log(names: &[&str]) -> LogFiles {
        let meta = |name: &&str| ObjectMeta {
            location: Path::from(format!("t/_delta_log/{name}")),
            last_modified: Default::default(),
            size: 1,
            e_tag: None,
            version: None,
        };
        LogFiles::of(names.iter().map(meta).collect())
    }

    fn names(files: &[&ObjectMeta]) -> Vec<String> {
        files.iter().map(|meta| meta.location.filename().unwrap_or_default().to_owned()).collect()
    }

    const C: [&str; 4] = [
        "00000000000000000000.json",
        "00000000000000000001.json",
        "00000000000000000002.json",
        "00000000000000000003.json",
    ];

    #[test]
    fn delta_version_is_the_newest_checkpoint_and_the_commits_after_it() {
        let log = log(&[
            C[0],
            C[1],
            C[2],
            C[3],
            "00000000000000000001.checkpoint.parquet",
            "00000000000000000002.checkpoint.0000000001.0000000002.parquet",
            "_last_checkpoint",
            "00000000000000000000.crc",
            "00000000000000000000.00000000000000000003.compacted.json",
            "4.json",
        ]);
        let newest = log.version(None).unwrap();
        assert_eq!((newest.version, names(&newest.commits)), (3, vec![C[2].to_owned(), C[3].to_owned()]));
        assert_eq!(newest.checkpoint.len(), 1);
        let first = log.version(Some(0)).unwrap();
        assert_eq!((first.checkpoint.len(), names(&first.commits)), (0, vec![C[0].to_owned()]));
        let at_checkpoint = log.version(Some(1)).unwrap();
        assert_eq!((at_checkpoint.checkpoint.len(), at_checkpoint.commits.len()), (1, 0));
        assert_eq!(log.version(Some(4)).unwrap_err(), Missing::Version { asked: 4, newest: 3 });
    }

    #[test]
    fn delta_version_without_one_of_its_commits_is_refused() {
        assert_eq!(log(&[C[0], C[2]]).version(None).unwrap_err(), Missing::Commit(1));
        assert_eq!(log(&[C[1], C[2]]).version(None).unwrap_err(), Missing::Commit(0));
        assert_eq!(log(&["18446744073709551615.json"]).version(None).unwrap_err(), Missing::Commit(0));
        assert_eq!(log(&[]).version(None).unwrap_err(), Missing::Everything);
        let part = "00000000000000000003.checkpoint.0000000002.0000000002.parquet";
        assert_eq!(log(&[C[3], part]).version(None).unwrap_err(), Missing::Commit(0));
    }

    #[test]
    fn delta_checkpoint_of_several_files_must_be_complete() {
        let parts = [
            "00000000000000000003.checkpoint.0000000002.0000000002.parquet",
            "00000000000000000003.checkpoint.0000000001.0000000002.parquet",
        ];
        assert_eq!(log(&parts).version(None).unwrap().checkpoint.len(), 2);
        let unique = "00000000000000000003.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json";
        let log = log(&[unique, parts[0]]);
        assert_eq!(names(&log.version(None).unwrap().checkpoint.iter().collect::<Vec<_>>()), [unique]);
    }
}
