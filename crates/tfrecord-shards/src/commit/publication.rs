//! The decisions of a commit: what is published, in which order, and how it is undone.
//!
//! [`Publication`] is a state machine without I/O. It returns one [`Step`] at a time and receives its outcome. A
//! [`Store`] performs the steps; it is the local file system. For stores without renames, see [`crate::objects`].
//!
//! The order of steps makes a set either complete or invisible. Everything is prepared and synced in the staging
//! directory. Then:
//!
//! | target | steps | after a crash in between |
//! |---|---|---|
//! | absent or empty | the staging directory is renamed onto it | old or new |
//! | a set of ours | staging directory and target are exchanged | old or new |
//! | the same, without exchange | the target is renamed aside, the staging directory is renamed to the target | old, absent or new |
//! | cannot be renamed itself | `_SUCCESS` and the old files are moved aside, then the shards are moved in, then `_manifest.json`, and `_SUCCESS` last | old, incomplete or new |
//! | a set of ours that is appended to | shards with the run id in their names are moved in, then the new manifest replaces the old one | old or new |
//! | a set of ours, some of whose partitions are replaced | the same; then the old shards of these partitions are removed | old or new |
//!
//! Files that a manifest no longer lists are in its [`replaced`](Manifest::replaced). If a run is killed before it has
//! removed them, the next run that adds to the set does so first, and one that replaces the set treats them as its files.
//!
//! # Concurrent runs
//! The first step on the target is a lock. It lasts until the publication ends, and the system releases it if the run
//! dies. Then the target is inspected. An append or a replacement of partitions continues only if the manifest is the one
//! that it began with, and an overwrite only if that set has not grown. So of two appends, or of an append and an overwrite, that begin with the
//! same set, one is [superseded](ErrorKind::Superseded). Of two overwrites the later one wins. An absent target cannot
//! be locked, but only one directory can be renamed onto it.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::commit::save_mode::SaveMode;
use crate::commit::step::{Outcome, Place, Spot, Step, Target};
use crate::error::{Error, ErrorKind, Result, SidecarsError};
use crate::set::file_names::is_hidden;
use crate::set::group::{ShardGroup, ShardPlace};
use crate::set::manifest::{Manifest, RecordOffset, SetDescription, SetLayout, ShardEntry, SplitDescription};
use crate::set::names::{ObjectNames, RunId};
use crate::set::sidecar::{Sidecar, SidecarEntry, StagedIndex};
use crate::set::{MANIFEST_NAME, SUCCESS_NAME};
use crate::write::shard_writer::ShardStats;

/// A shard that is written and synced, but not yet published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedShard {
    /// Its name in the staging directory; for an upload, its final name in the set.
    pub staged: String,
    /// The upload, if the shard is uploaded to an object store.
    pub upload: Option<StagedUpload>,
    /// The write partition that wrote it.
    pub partition: u32,
    /// Its number within the partition.
    pub sequence: u32,
    /// The partition values and the split that its records share.
    pub group: ShardGroup,
    /// Number of records.
    pub rows: u64,
    /// Length in bytes of its records with their frames, before compression.
    pub framed_bytes: u64,
    /// Length of the file in bytes.
    pub file_bytes: u64,
    /// CRC-32C of the file, not masked.
    pub crc32c: u32,
    /// Positions where a reader can start.
    pub offsets: Vec<RecordOffset>,
    /// Its index, if there is one.
    pub index: Option<StagedIndex>,
}

/// A multipart upload whose parts are all sent but which is not completed, so it is not visible yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedUpload {
    /// The store's id of the upload.
    pub id: String,
    /// The store's ids of its parts, in order. Empty for an empty shard.
    pub parts: Vec<String>,
}

impl StagedShard {
    /// Describes a shard in a file, with the figures that its writer counted.
    pub fn new(staged: impl Into<String>, partition: u32, sequence: u32, stats: ShardStats) -> Self {
        let ShardStats { rows, framed_bytes, file_bytes, crc32c, offsets, index } = stats;
        let (staged, group) = (staged.into(), ShardGroup::default());
        Self {
            staged,
            upload: None,
            partition,
            sequence,
            group,
            rows,
            framed_bytes,
            file_bytes,
            crc32c,
            offsets,
            index,
        }
    }

    /// Sets the group.
    #[must_use]
    pub fn with_group(mut self, group: ShardGroup) -> Self {
        self.group = group;
        self
    }

    /// Returns the manifest entry of the shard, given its final path.
    pub(crate) fn into_entry(self, path: String) -> ShardEntry {
        let (partition_values, split) = (self.group.values(), self.group.split);
        ShardEntry {
            path,
            split,
            partition_values,
            rows: self.rows,
            framed_bytes: self.framed_bytes,
            file_bytes: self.file_bytes,
            crc32c: self.crc32c,
            offsets: self.offsets,
        }
    }
}

/// Sorts shards by their order in the set: directory, split, partition and sequence.
///
/// # Errors
/// If two have the same partition and sequence, or a group cannot be a directory name.
pub(crate) fn in_order(mut shards: Vec<StagedShard>, splits: &[SplitDescription]) -> Result<Vec<StagedShard>> {
    shards.sort_by_key(|shard| (shard.partition, shard.sequence));
    for pair in shards.windows(2) {
        if let [first, second] = pair
            && (first.partition, first.sequence) == (second.partition, second.sequence)
        {
            return Err(ErrorKind::ShardTwice { partition: first.partition, sequence: first.sequence }.into());
        }
    }
    shards.iter().try_for_each(|shard| shard.group.check())?;
    let rank = |shard: &StagedShard| splits.iter().position(|split| Some(&split.name) == shard.group.split.as_ref());
    // Splits that are not declared are ordered by their names.
    shards.sort_by_cached_key(|shard| (shard.group.directory(), rank(shard), shard.group.split.clone()));
    Ok(shards)
}

/// The staged files of a set.
#[derive(Default)]
struct StagedFiles {
    /// The manifest entries of the shards.
    entries: Vec<ShardEntry>,
    /// The manifest entries of their indexes.
    indexes: Vec<SidecarEntry>,
    /// The staged name of each file, and its path in the set.
    names: Vec<(String, String)>,
}

/// Numbers sorted shards within their groups.
fn numbered(shards: Vec<StagedShard>, names: &ObjectNames, layout: SetLayout) -> StagedFiles {
    let same = |one: &StagedShard, next: &StagedShard| {
        one.group.split == next.group.split && one.group.directory() == next.group.directory()
    };
    let totals: Vec<_> = shards.chunk_by(same).map(<[StagedShard]>::len).collect();
    let places = totals.into_iter().flat_map(|total| (0..total).map(move |index| (index, total)));
    let mut files = StagedFiles::default();
    for (shard, (index, total)) in shards.into_iter().zip(places) {
        let named = || names.path(ShardPlace { group: &shard.group, index, total });
        let path = layout.path(index).unwrap_or_else(named);
        files.names.push((shard.staged.clone(), path.clone()));
        if let Some(staged) = &shard.index {
            let entry = staged.entry(&path);
            let name = staged.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.names.push((name, entry.path.clone()));
            files.indexes.push(entry);
        }
        files.entries.push(shard.into_entry(path));
    }
    files
}

/// Returns the parent directories of these files, parents first.
pub(crate) fn directories<'a>(files: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let outer = |file: &'a String| file.match_indices('/').filter_map(move |(at, _)| file.get(..at));
    let directories: BTreeSet<_> = files.into_iter().flat_map(outer).collect();
    directories.into_iter().map(str::to_owned).collect()
}

/// A file or directory of a killed or running run, next to a target or in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Its staging directory, or the set it was about to replace.
    pub path: PathBuf,
    /// The run.
    pub run: String,
    /// Whether that run is still going on, or may be: some file systems cannot tell.
    pub live: bool,
}

/// The state of a directory as a shard set.
#[derive(Debug, Clone)]
pub enum SetState {
    /// The directory does not exist or is empty.
    Absent,
    /// It contains something else.
    Foreign,
    /// An incomplete set of ours. It must not be read.
    Incomplete {
        /// What is missing.
        why: String,
    },
    /// A complete set.
    Whole(Box<Manifest>),
}

/// The location of the staging directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Staging {
    /// Next to the target, to be renamed onto it.
    Beside,
    /// In the target, which cannot be renamed: it is a mount point, or its parent directory is not writable.
    Inside,
}

/// Performs the steps of a [`Publication`].
pub trait Store {
    /// Performs one step, completely or not at all.
    ///
    /// # Errors
    /// If it failed. The publication is then undone.
    fn perform(&self, step: &Step) -> Result<Outcome>;
}

/// The run and the target of a publication.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    /// The target, for error messages.
    pub out: &'a Path,
    /// The location of the staging directory.
    pub staging: Staging,
    /// How to proceed if the target exists.
    pub mode: SaveMode,
    /// The set that existed when the run began.
    pub current: Option<&'a Manifest>,
    /// The run.
    pub run: &'a RunId,
}

/// The publication of a set from the staging directory to the target.
#[derive(Debug)]
pub struct Publication {
    out: PathBuf,
    staging: Staging,
    mode: SaveMode,
    /// The set that existed when the run began.
    current: Option<Box<Manifest>>,
    /// The shards of the new set, or the appended shards, and the sidecars.
    files: Vec<String>,
    /// Sidecars that the new shards make outdated, and shards of partitions that they replace.
    stale: Vec<String>,
    /// Files that an earlier run has replaced in the same way, and perhaps not removed, because it was killed.
    earlier: Vec<String>,
    /// The files of the old set.
    replaced: Vec<String>,
    ahead: VecDeque<Step>,
    /// Steps that undo what was done outside the staging directory, in reverse order.
    undo: Vec<Step>,
    committed: bool,
    /// Whether shards are appended, so that only the manifest is replaced.
    appends: bool,
}

impl Publication {
    /// Publishes the shards in the order of their groups, partition and sequence, and returns the resulting manifest.
    /// `sidecars` produces the sidecars once the names of the shards are known. A set that is appended to gets none,
    /// and the sidecars that describe the old set are removed.
    ///
    /// # Errors
    /// If two shards have the same partition and sequence, the prefix, the splits or the partition values do not give
    /// valid names, or the shards cannot be appended to the existing set; and those of `sidecars`.
    pub fn with_sidecars(
        setting: Setting<'_>,
        shards: Vec<StagedShard>,
        description: SetDescription,
        sidecars: impl FnOnce(&Manifest) -> Result<Vec<Sidecar>, SidecarsError>,
    ) -> Result<(Self, Manifest)> {
        let Setting { out, staging, mode, current, run } = setting;
        let adds_to = current.filter(|_| mode.keeps_set());
        let description = SetDescription { replace_partitions: mode == SaveMode::OverwritePartitions, ..description };
        let names = ObjectNames {
            prefix: description.prefix.clone(),
            total: None,
            suffix: adds_to.map_or(description.framing.suffix(), Manifest::suffix),
            run: adds_to.map(|_| run.clone()),
        };
        check_description(&description)?;
        let StagedFiles { entries, indexes, names } =
            numbered(in_order(shards, &description.splits)?, &names, description.layout);
        let mut manifest = match adds_to {
            Some(current) => current.with_appended(description, entries, run, out)?,
            None => Manifest::new(description, entries, run),
        };
        manifest.sidecars.extend(indexes);
        let sidecars = match adds_to {
            Some(_) => Vec::new(),
            None => sidecars(&manifest).map_err(ErrorKind::Sidecars)?,
        };
        manifest.sidecars.extend(sidecars.iter().map(SidecarEntry::from));
        manifest.refuse_contradiction(out)?;

        let mut ahead = VecDeque::with_capacity(names.len() + 10);
        ahead.push_back(Step::Discard { except: names.iter().map(|(staged, _)| staged.clone()).collect() });
        // Then the manifest, which from here on specifies which files of a staging directory are ours.
        let json = manifest.to_json()?;
        let mut lengths = vec![(MANIFEST_NAME.to_owned(), json.len() as u64)];
        ahead.push_back(Step::Write { name: MANIFEST_NAME.to_owned(), content: json });
        let made = directories(names.iter().map(|(_, path)| path));
        ahead.extend(make(Place::Staging, made.clone()));
        let mut files = Vec::with_capacity(names.len() + sidecars.len());
        for (staged, path) in names {
            let (from, to) = (Spot::file(Place::Staging, staged), Spot::file(Place::Staging, &path));
            ahead.push_back(Step::Move { from, to });
            files.push(path);
        }
        for Sidecar { path, content } in sidecars {
            files.push(path.clone());
            ahead.push_back(Step::Write { name: path, content });
        }
        if adds_to.is_none() {
            ahead.push_back(Step::Write { name: SUCCESS_NAME.to_owned(), content: Vec::new() });
            lengths.push((SUCCESS_NAME.to_owned(), 0));
        }
        let new: BTreeSet<_> = files.iter().collect();
        let shards = manifest.shards.iter().map(|shard| (shard.path.clone(), shard.file_bytes));
        let sidecars = manifest.sidecars.iter().map(|sidecar| (sidecar.path.clone(), sidecar.file_bytes));
        lengths.extend(shards.chain(sidecars).filter(|(path, _)| new.contains(path)));
        let check = Step::CheckFiles { files: lengths };
        ahead.extend([Step::Sync { place: Place::Staging, directories: made }, Step::Lock, check, Step::Inspect]);
        let publication = Self {
            out: out.to_owned(),
            staging,
            mode,
            current: current.cloned().map(Box::new),
            files,
            stale: manifest.replaced.clone(),
            earlier: adds_to.map(|current| current.replaced.clone()).unwrap_or_default(),
            replaced: Vec::new(),
            ahead,
            undo: Vec::new(),
            committed: false,
            appends: false,
        };
        Ok((publication, manifest))
    }

    /// Returns the staged name of each file that is renamed in the staging directory, and its path in the set. Before the
    /// first step, these are all shards and their indexes.
    pub(crate) fn renamed(&self) -> impl Iterator<Item = (&str, &str)> {
        self.ahead.iter().filter_map(|step| match step {
            Step::Move { from: Spot { name: Some(from), .. }, to: Spot { name: Some(to), .. } } => {
                Some((from.as_str(), to.as_str()))
            }
            _ => None,
        })
    }

    /// Returns the next step; `None` when the set is published.
    pub fn next_step(&mut self) -> Option<Step> {
        self.ahead.pop_front()
    }

    /// Records the outcome of a step.
    ///
    /// # Errors
    /// If another run changed the target since this one began ([`ErrorKind::Superseded`]). The publication must then be
    /// undone.
    pub fn performed(&mut self, step: &Step, outcome: Outcome) -> Result<()> {
        match (step, outcome) {
            (_, Outcome::Unsupported) => {
                self.replace_by_two_renames();
                return Ok(());
            }
            (_, Outcome::Found(target)) => self.plan_for(target)?,
            (Step::MakeDirectories { place: Place::Target, .. }, Outcome::Made(directories)) => {
                self.undo.push(Step::RemoveDirectories { place: Place::Target, directories });
            }
            (Step::Move { from, to }, _) if from.place != Place::Staging || to.place != Place::Staging => {
                self.undo.push(Step::Move { from: to.clone(), to: from.clone() });
            }
            _ => {}
        }
        self.committed |= commits(step);
        Ok(())
    }

    /// Whether readers see the new set. From here on nothing is undone.
    pub fn is_committed(&self) -> bool {
        self.committed
    }

    /// Whether shards are appended to the set at the target. Known once the target is inspected.
    pub(crate) fn appends(&self) -> bool {
        self.appends
    }

    /// Records that a step failed after the commit. What was replaced is then retained, because the new set may not be
    /// on disk. After an append nothing was replaced, so outdated sidecars are still removed.
    pub fn failed_after_commit(&mut self) {
        if !self.appends || self.mode != SaveMode::Append {
            self.ahead.clear();
        }
    }

    /// Returns the steps that undo what was done outside the staging directory. To be performed if a step failed before
    /// the commit.
    pub fn undo(self) -> Vec<Step> {
        self.undo.into_iter().rev().collect()
    }

    /// Plans the remaining steps once the target's contents are known.
    fn plan_for(&mut self, target: Target) -> Result<()> {
        let adds_to = if self.mode.keeps_set() { self.current.take() } else { None };
        match (self.staging, target) {
            (_, Target::Set(found)) => match adds_to {
                Some(current) if found == current => self.plan_to_append(),
                _ => return Err(self.superseded()),
            },
            _ if adds_to.is_some() => return Err(self.superseded()),
            (Staging::Beside, Target::Vacant) => self.ahead.extend([install(), Step::SyncName]),
            (Staging::Inside, Target::Vacant) => self.plan_file_by_file(Vec::new(), Vec::new()),
            (staging, Target::Occupied { manifest, files, directories }) => {
                if has_grown(self.current.as_deref(), manifest.as_deref()) {
                    return Err(self.superseded());
                }
                match staging {
                    // After the exchange, the staging directory contains the replaced set.
                    Staging::Beside => {
                        self.replaced.clone_from(&files);
                        let remove = Step::RemoveFiles { place: Place::Staging, files };
                        self.ahead.extend([Step::Exchange, Step::SyncName, remove]);
                    }
                    Staging::Inside => self.plan_file_by_file(files, directories),
                }
            }
        }
        self.plan_to_remove_leftovers();
        Ok(())
    }

    fn superseded(&self) -> Error {
        ErrorKind::Superseded { path: self.out.clone() }.into()
    }

    fn plan_file_by_file(&mut self, mut old: Vec<String>, old_directories: Vec<String>) {
        self.ahead.extend(make(Place::Replaced, directories(&old)));
        // `_SUCCESS` first: without it, readers do not accept the rest as a set. Then the manifest, which specifies
        // from its new place which files are ours.
        old.sort_by_key(|name| (name != SUCCESS_NAME, name != MANIFEST_NAME));
        let touched = directories(old.iter().chain(&self.files));
        for name in old {
            let is_mark = name == SUCCESS_NAME;
            self.ahead.push_back(carry(name, Place::Target, Place::Replaced));
            if is_mark {
                self.ahead.push_back(sync_target());
            }
        }
        self.plan_to_bring_files(touched);
        self.ahead.push_back(carry(MANIFEST_NAME.to_owned(), Place::Staging, Place::Target));
        self.ahead.push_back(sync_target());
        self.ahead.push_back(carry(SUCCESS_NAME.to_owned(), Place::Staging, Place::Target));
        self.ahead.extend([sync_target(), Step::SyncName, Step::RemoveStaging]);
        if !old_directories.is_empty() {
            self.ahead.push_back(Step::RemoveDirectories { place: Place::Target, directories: old_directories });
        }
    }

    /// Names with the run id are unique, and no reader opens the shards before the manifest lists them.
    fn plan_to_append(&mut self) {
        self.appends = true;
        let earlier = std::mem::take(&mut self.earlier);
        self.ahead.extend((!earlier.is_empty()).then_some(Step::RemoveReplaced { files: earlier }));
        let touched = directories(&self.files);
        self.plan_to_bring_files(touched);
        let stale = std::mem::take(&mut self.stale);
        self.ahead.push_back(Step::Confirm);
        // What is removed from the target afterwards might by then be of a set that another run has put there.
        self.ahead.extend((!stale.is_empty()).then_some(Step::LockManifest));
        self.ahead.extend([Step::ReplaceManifest, sync_target()]);
        self.ahead.extend((!stale.is_empty()).then_some(Step::RemoveStale { files: stale }));
        // As long as the set is locked.
        self.ahead.extend((self.mode == SaveMode::OverwritePartitions).then_some(Step::RemoveLeftovers));
        self.ahead.push_back(Step::RemoveStaging);
    }

    /// Moves the files of the set to the target, and syncs these directories there.
    fn plan_to_bring_files(&mut self, touched: Vec<String>) {
        self.ahead.extend(make(Place::Target, directories(&self.files)));
        for name in std::mem::take(&mut self.files) {
            self.ahead.push_back(carry(name, Place::Staging, Place::Target));
        }
        self.ahead.push_back(Step::Sync { place: Place::Target, directories: touched });
    }

    /// Replaces an exchange that the store does not support.
    fn replace_by_two_renames(&mut self) {
        let aside = Step::Move { from: Spot::directory(Place::Target), to: Spot::directory(Place::Replaced) };
        let files = std::mem::take(&mut self.replaced);
        self.ahead = [aside, install(), Step::SyncName, Step::RemoveFiles { place: Place::Replaced, files }].into();
        self.plan_to_remove_leftovers();
    }

    fn plan_to_remove_leftovers(&mut self) {
        if self.mode == SaveMode::Overwrite || (self.mode == SaveMode::OverwritePartitions && !self.appends) {
            self.ahead.push_back(Step::RemoveLeftovers);
        }
    }
}

/// Whether a step makes the new set visible to readers.
fn commits(step: &Step) -> bool {
    match step {
        Step::Exchange | Step::ReplaceManifest => true,
        Step::Move { to: Spot { place: Place::Target, name }, .. } => {
            name.as_deref().is_none_or(|name| name == SUCCESS_NAME)
        }
        _ => false,
    }
}

/// Whether rows were appended to a set since it was inspected. The user who requested the overwrite did not know of
/// them.
fn has_grown(before: Option<&Manifest>, now: Option<&Manifest>) -> bool {
    before.zip(now).is_some_and(|(before, now)| before.run == now.run && before.appended.len() < now.appended.len())
}

fn make(place: Place, directories: Vec<String>) -> Option<Step> {
    (!directories.is_empty()).then_some(Step::MakeDirectories { place, directories })
}

fn carry(name: String, from: Place, to: Place) -> Step {
    Step::Move { from: Spot::file(from, name.clone()), to: Spot::file(to, name) }
}

fn sync_target() -> Step {
    Step::Sync { place: Place::Target, directories: Vec::new() }
}

/// Renames the staging directory to the target.
fn install() -> Step {
    Step::Move { from: Spot::directory(Place::Staging), to: Spot::directory(Place::Target) }
}

/// Rejects a description whose prefix or splits are not valid prefixes of shard names, or that replaces partitions without
/// partition columns.
pub(crate) fn check_description(description: &SetDescription) -> Result<()> {
    if description.replace_partitions && description.partition_columns.is_none() {
        return Err(ErrorKind::NoPartitionColumns.into());
    }
    check_prefix(&description.prefix)?;
    description.splits.iter().try_for_each(|split| check_prefix(&split.name))
}

/// Rejects a prefix that would hide files from readers, exceed the name length of file systems, or escape the
/// directory.
///
/// # Errors
/// [`ErrorKind::Prefix`].
pub fn check_prefix(prefix: &str) -> Result<()> {
    /// File systems allow names of 255 bytes. The part after the prefix has up to 107: a run id, two numbers of ten
    /// digits, and the text between and after them.
    const LONGEST: usize = 148;

    let hidden = is_hidden(prefix, false);
    let elsewhere = prefix.contains(['/', '\\']);
    if prefix.is_empty() || prefix.len() > LONGEST || hidden || elsewhere || prefix.contains(char::is_control) {
        return Err(ErrorKind::Prefix { prefix: prefix.to_owned() }.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
