//! The decisions of the commit: what is published, in which order, and how it is undone.
//!
//! [`Publication`] is a state machine without I/O. It hands out one [`Step`] at a time and is told how it went; a
//! [`Store`] carries the steps out: the local file system. Where nothing can be renamed, [`crate::objects`] decides.
//!
//! The order is what makes a set whole or invisible. Everything is prepared in the staging directory, and synced. Then:
//!
//! | target | steps | dies in between |
//! |---|---|---|
//! | absent or empty | the staging directory is renamed onto it | old or new |
//! | a set of ours | staging directory and target change places | old or new |
//! | the same, without such an exchange | the target is renamed aside, the staging directory takes its place | old, absent or new |
//! | cannot be renamed itself | `_SUCCESS` and the old files are moved aside, then the shards come in, `_manifest.json`, and `_SUCCESS` last | old, incomplete or new |
//! | a set of ours that is added to | shards whose names tell the run come in, then the new manifest takes the place of the old one | old or new |
//!
//! # Two runs at once
//! The first step on the target is a lock, which lasts until the publication ends and which the system releases when a
//! run dies; then the target is inspected. An append goes on only if the manifest is the one that it began with, an
//! overwrite unless that set has grown: so of two appends, or of an append and an overwrite, that begin with the same set
//! one is [superseded](ErrorKind::Superseded). Of two that overwrite the later one stays. Where nothing is, there is
//! nothing to lock: one directory can be renamed there, and no second one.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::commit::step::{Outcome, Place, Spot, Step, Target};
use crate::error::{Error, ErrorKind, Result, SidecarsError};
use crate::set::group::{ShardGroup, ShardPlace};
use crate::set::manifest::{Manifest, RecordOffset, SetDescription, SetLayout, ShardEntry, SplitDescription};
use crate::set::names::{ObjectNames, RunId};
use crate::set::sidecar::{Sidecar, SidecarEntry, StagedIndex};
use crate::set::{MANIFEST_NAME, SUCCESS_NAME};
use crate::write::shard_writer::ShardStats;

/// What to do when the target is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SaveMode {
    /// Refuse, unless it is an empty directory.
    #[default]
    Error,
    /// Replace the set that is there, once the new one is complete.
    Overwrite,
    /// Add to the set that is there, which must be whole and of the same form. Where nothing is, write as usual.
    Append,
    /// Do nothing, if it is there and not an empty directory.
    Ignore,
}

/// A shard that is written and synced, but not yet published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedShard {
    /// Its name in the staging directory, or, of an upload, the one that it will have in the set.
    pub staged: String,
    /// The upload that it is, if it is one to an object store.
    pub upload: Option<StagedUpload>,
    /// The write partition that made it.
    pub partition: u32,
    /// Its place among the partition's shards.
    pub sequence: u32,
    /// What its records have in common.
    pub group: ShardGroup,
    /// Records in it.
    pub rows: u64,
    /// Bytes of its records with their frames, before compression.
    pub framed_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// CRC-32C of the file, not masked.
    pub crc32c: u32,
    /// Places where a reader can begin.
    pub offsets: Vec<RecordOffset>,
    /// Its index, if there is one.
    pub index: Option<StagedIndex>,
}

/// A multipart upload of which all parts are sent, but which is not completed: nobody sees it yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedUpload {
    /// What the store calls the upload.
    pub id: String,
    /// What the store calls its parts, in order. None of an empty shard.
    pub parts: Vec<String>,
}

impl StagedShard {
    /// The shard, in a file, with what its writer counted.
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

    /// The same, of a group.
    #[must_use]
    pub fn with_group(mut self, group: ShardGroup) -> Self {
        self.group = group;
        self
    }

    /// What the manifest says of the shard under its final path.
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

/// Shards in the order that they have in the set: by directory, split, partition and sequence.
///
/// # Errors
/// When two claim the same place, or no directory can be named after a group.
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
    shards.sort_by_cached_key(|shard| (shard.group.directory(), rank(shard)));
    Ok(shards)
}

/// Files of a set that are staged.
#[derive(Default)]
struct StagedFiles {
    /// What the manifest says of the shards.
    entries: Vec<ShardEntry>,
    /// And of their indexes.
    indexes: Vec<SidecarEntry>,
    /// The staged name of each file, and its path in the set.
    names: Vec<(String, String)>,
}

/// Shards that are in order, numbered in their groups.
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

/// The directories on the way to these files, outer ones first.
pub(crate) fn directories<'a>(files: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let outer = |file: &'a String| file.match_indices('/').filter_map(move |(at, _)| file.get(..at));
    let directories: BTreeSet<_> = files.into_iter().flat_map(outer).collect();
    directories.into_iter().map(str::to_owned).collect()
}

/// What a run that was killed, or is still going on, has beside or in a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Its staging directory, or the set that it was about to replace.
    pub path: PathBuf,
    /// The run.
    pub run: String,
    /// Whether that run is still going on, or may be: not every file system can tell.
    pub live: bool,
}

/// What a directory is, as far as shard sets go.
#[derive(Debug, Clone)]
pub enum SetState {
    /// There is no such directory, or nothing in it.
    Absent,
    /// Something else is there.
    Foreign,
    /// A set of ours of which something is missing. Nothing should read it.
    Incomplete {
        /// What is missing.
        why: String,
    },
    /// A whole set.
    Whole(Box<Manifest>),
}

/// Where the staging directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Staging {
    /// Beside the target, to be renamed onto it.
    Beside,
    /// In the target, which cannot be renamed itself: a mount point, or in a directory that is not ours to write to.
    Inside,
}

/// Carries out what a [`Publication`] decides.
pub trait Store {
    /// Does one step, all or nothing.
    ///
    /// # Errors
    /// When it could not be done. The publication is undone then.
    fn perform(&self, step: &Step) -> Result<Outcome>;
}

/// Who publishes, and where.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    /// The target, which errors name.
    pub out: &'a Path,
    /// Where the staging directory is.
    pub staging: Staging,
    /// What to do with what is there.
    pub mode: SaveMode,
    /// The set that was there when the run began.
    pub standing: Option<&'a Manifest>,
    /// The run.
    pub run: &'a RunId,
}

/// A set on its way from the staging directory to where readers look.
#[derive(Debug)]
pub struct Publication {
    out: PathBuf,
    staging: Staging,
    mode: SaveMode,
    /// The set that was there when the run began.
    standing: Option<Box<Manifest>>,
    /// The shards of the new set, or those that are added, and the files beside them.
    files: Vec<String>,
    /// Files beside the shards that do not tell of a set that has grown.
    stale: Vec<String>,
    /// The files of the old one.
    replaced: Vec<String>,
    ahead: VecDeque<Step>,
    /// How to take back what is done outside the staging directory, the last first.
    undo: Vec<Step>,
    committed: bool,
    /// Whether shards are added to a set, so that nothing is replaced but the manifest.
    appends: bool,
}

impl Publication {
    /// Publishes the shards in the order of their groups, partition and sequence, and gives the manifest that will say so.
    ///
    /// # Errors
    /// When two shards claim the same place, names cannot be made of the prefix, the splits or the partition values, or
    /// the shards cannot be added to the set that is there.
    pub fn new(
        setting: Setting<'_>,
        shards: Vec<StagedShard>,
        description: SetDescription,
    ) -> Result<(Self, Manifest)> {
        Self::with_sidecars(setting, shards, description, |_| Ok(Vec::new()))
    }

    /// The same with files beside the shards, which are made when it is known how the shards are called. A set that is added
    /// to gets none: what told of it as it was is removed.
    ///
    /// # Errors
    /// As [`new`](Self::new), and those of `sidecars`.
    pub fn with_sidecars(
        setting: Setting<'_>,
        shards: Vec<StagedShard>,
        description: SetDescription,
        sidecars: impl FnOnce(&Manifest) -> Result<Vec<Sidecar>, SidecarsError>,
    ) -> Result<(Self, Manifest)> {
        let Setting { out, staging, mode, standing, run } = setting;
        let appends_to = standing.filter(|_| mode == SaveMode::Append);
        let names = ObjectNames {
            prefix: description.prefix.clone(),
            total: None,
            compression: description.compression,
            run: appends_to.map(|_| run.clone()),
        };
        check_names(&description)?;
        let StagedFiles { entries, indexes, names } =
            numbered(in_order(shards, &description.splits)?, &names, description.layout);
        let mut manifest = match appends_to {
            Some(standing) => {
                standing.check_append(&description, out)?;
                standing.with_appended(description, entries, run)
            }
            None => Manifest::new(description, entries, run),
        };
        manifest.sidecars.extend(indexes);
        let sidecars = match appends_to {
            Some(_) => Vec::new(),
            None => sidecars(&manifest).map_err(ErrorKind::Sidecars)?,
        };
        manifest.sidecars.extend(sidecars.iter().map(SidecarEntry::from));
        manifest.refuse_contradiction(out)?;

        let mut ahead = VecDeque::with_capacity(names.len() + 10);
        ahead.push_back(Step::Discard { except: names.iter().map(|(staged, _)| staged.clone()).collect() });
        // Then the manifest: from here on it tells which files of a staging directory are ours.
        ahead.push_back(Step::Write { name: MANIFEST_NAME.to_owned(), content: manifest.to_json()? });
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
        if appends_to.is_none() {
            ahead.push_back(Step::Write { name: SUCCESS_NAME.to_owned(), content: Vec::new() });
        }
        ahead.extend([Step::Sync { place: Place::Staging, directories: made }, Step::Lock, Step::Inspect]);
        let publication = Self {
            out: out.to_owned(),
            staging,
            mode,
            standing: standing.cloned().map(Box::new),
            files,
            stale: appends_to.map(|standing| standing.stale_beside(&manifest)).unwrap_or_default(),
            replaced: Vec::new(),
            ahead,
            undo: Vec::new(),
            committed: false,
            appends: false,
        };
        Ok((publication, manifest))
    }

    /// What to do now; `None` when the set is published.
    pub fn next_step(&mut self) -> Option<Step> {
        self.ahead.pop_front()
    }

    /// Takes note of how a step went.
    ///
    /// # Errors
    /// When another run has changed the target since this one began ([`ErrorKind::Superseded`]). The publication is to be
    /// undone then.
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

    /// Takes note of a step that has failed after readers saw the new set. What was replaced stays then, since what is in its
    /// place may not be on disk. Where shards were added there is nothing of the kind: files that tell of the set as it was go.
    pub fn failed_after_commit(&mut self) {
        if !self.appends {
            self.ahead.clear();
        }
    }

    /// The steps that take back what has been done outside the staging directory, to be carried out when a step has
    /// failed before the set was committed.
    pub fn undo(self) -> Vec<Step> {
        self.undo.into_iter().rev().collect()
    }

    /// Plans the rest, once it is known what the target holds.
    fn plan_for(&mut self, target: Target) -> Result<()> {
        let appends_to = if self.mode == SaveMode::Append { self.standing.take() } else { None };
        match (self.staging, target) {
            (_, Target::Standing(found)) => match appends_to {
                Some(standing) if found == standing => self.plan_to_append(),
                _ => return Err(self.superseded()),
            },
            _ if appends_to.is_some() => return Err(self.superseded()),
            (Staging::Beside, Target::Vacant) => self.ahead.extend([install(), Step::SyncName]),
            (Staging::Inside, Target::Vacant) => self.plan_file_by_file(Vec::new(), Vec::new()),
            (staging, Target::Occupied { manifest, files, directories }) => {
                if has_grown(self.standing.as_deref(), manifest.as_deref()) {
                    return Err(self.superseded());
                }
                match staging {
                    // After the exchange the staging directory holds what was replaced.
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
        // `_SUCCESS` first: without it nobody takes what follows for a set. Then the manifest, which goes on telling,
        // from where it is kept, which files are ours.
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

    /// Names that tell the run are nobody else's, so that nobody sees the shards before the manifest lists them.
    fn plan_to_append(&mut self) {
        self.appends = true;
        let touched = directories(&self.files);
        self.plan_to_bring_files(touched);
        self.ahead.extend([Step::Confirm, Step::ReplaceManifest, sync_target()]);
        let stale = std::mem::take(&mut self.stale);
        self.ahead.extend((!stale.is_empty()).then_some(Step::RemoveStale { files: stale }));
        self.ahead.push_back(Step::RemoveStaging);
    }

    /// Brings the files of the set into the target, and makes durable what these directories there hold.
    fn plan_to_bring_files(&mut self, touched: Vec<String>) {
        self.ahead.extend(make(Place::Target, directories(&self.files)));
        for name in std::mem::take(&mut self.files) {
            self.ahead.push_back(carry(name, Place::Staging, Place::Target));
        }
        self.ahead.push_back(Step::Sync { place: Place::Target, directories: touched });
    }

    /// The way around an exchange that the store does not have.
    fn replace_by_two_renames(&mut self) {
        let aside = Step::Move { from: Spot::directory(Place::Target), to: Spot::directory(Place::Replaced) };
        let files = std::mem::take(&mut self.replaced);
        self.ahead = [aside, install(), Step::SyncName, Step::RemoveFiles { place: Place::Replaced, files }].into();
        self.plan_to_remove_leftovers();
    }

    fn plan_to_remove_leftovers(&mut self) {
        if self.mode == SaveMode::Overwrite {
            self.ahead.push_back(Step::RemoveLeftovers);
        }
    }
}

/// Whether a step, once it is done, lets readers see the new set.
fn commits(step: &Step) -> bool {
    match step {
        Step::Exchange | Step::ReplaceManifest => true,
        Step::Move { to: Spot { place: Place::Target, name }, .. } => {
            name.as_deref().is_none_or(|name| name == SUCCESS_NAME)
        }
        _ => false,
    }
}

/// Whether rows were added to a set since it was looked at. Who asked for it to be replaced did not know of them.
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

/// The staging directory becomes the target.
fn install() -> Step {
    Step::Move { from: Spot::directory(Place::Staging), to: Spot::directory(Place::Target) }
}

/// Refuses a description whose prefix or splits cannot start the name of a shard.
pub(crate) fn check_names(description: &SetDescription) -> Result<()> {
    check_prefix(&description.prefix)?;
    description.splits.iter().try_for_each(|split| check_prefix(&split.name))
}

/// Refuses a prefix that would make names hidden from readers, too long for a file system, or lead out of the
/// directory.
///
/// # Errors
/// [`ErrorKind::Prefix`].
pub fn check_prefix(prefix: &str) -> Result<()> {
    /// File systems take names of 255 bytes. Behind the prefix a name has up to 104: a run's id, two numbers of ten digits,
    /// and what stands between and behind them.
    const LONGEST: usize = 150;

    let hidden = prefix.starts_with(['.', '_']);
    let elsewhere = prefix.contains(['/', '\\']);
    if prefix.is_empty() || prefix.len() > LONGEST || hidden || elsewhere || prefix.contains(char::is_control) {
        return Err(ErrorKind::Prefix { prefix: prefix.to_owned() }.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
