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

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::{ErrorKind, Result};
use crate::group::ShardGroup;
use crate::manifest::{Manifest, RecordOffset, SetDescription, ShardEntry};
use crate::names::{MANIFEST_NAME, RunId, SUCCESS_NAME, ShardName};
use crate::shard_writer::ShardStats;

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
        let ShardStats { rows, framed_bytes, file_bytes, crc32c, offsets } = stats;
        let (staged, group) = (staged.into(), ShardGroup::default());
        Self { staged, upload: None, partition, sequence, group, rows, framed_bytes, file_bytes, crc32c, offsets }
    }

    /// The same, of a group.
    #[must_use]
    pub fn with_group(mut self, group: ShardGroup) -> Self {
        self.group = group;
        self
    }

    /// What the manifest says of the shard under its final path.
    pub(crate) fn into_entry(self, path: String) -> ShardEntry {
        ShardEntry {
            path,
            split: self.group.split,
            partition_values: self.group.partition_values.into_iter().collect(),
            rows: self.rows,
            framed_bytes: self.framed_bytes,
            file_bytes: self.file_bytes,
            crc32c: self.crc32c,
            offsets: self.offsets,
        }
    }
}

/// Shards in the order that they have in the set: by partition, then by sequence.
///
/// # Errors
/// When two claim the same place.
pub(crate) fn in_order(mut shards: Vec<StagedShard>) -> Result<Vec<StagedShard>> {
    shards.sort_by_key(|shard| (shard.partition, shard.sequence));
    for pair in shards.windows(2) {
        if let [first, second] = pair
            && (first.partition, first.sequence) == (second.partition, second.sequence)
        {
            return Err(ErrorKind::ShardTwice { partition: first.partition, sequence: first.sequence }.into());
        }
    }
    Ok(shards)
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

/// A directory that a publication deals with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// Where shards are written.
    Staging,
    /// Where what the set replaces is kept until the set is there.
    Replaced,
    /// Where readers look.
    Target,
}

/// A file in one of the directories, or the directory itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Spot {
    /// The directory.
    pub place: Place,
    /// The path of the file in it, with `/`. The directory itself if `None`.
    pub name: Option<String>,
}

impl Spot {
    fn directory(place: Place) -> Self {
        Self { place, name: None }
    }

    fn file(place: Place, name: impl Into<String>) -> Self {
        Self { place, name: Some(name.into()) }
    }
}

/// One step of publishing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Write a file in the staging directory and sync it.
    Write {
        /// Its name.
        name: &'static str,
        /// What it holds.
        content: Vec<u8>,
    },
    /// Rename.
    Move {
        /// What is there.
        from: Spot,
        /// Where it goes. Nothing is there but, maybe, an empty directory.
        to: Spot,
    },
    /// Let staging directory and target change places at once.
    Exchange,
    /// Make the names in a directory durable.
    Sync(Place),
    /// Make the target's own name durable.
    SyncName,
    /// See what the target holds now, and refuse what must not be replaced.
    Inspect,
    /// Remove from the staging directory what is not of the set: shards that were given up.
    Discard {
        /// The shards of the set, by their staged names.
        except: Vec<String>,
    },
    /// Remove these files of a directory, what killed runs have left in it, and the directory, unless something else is
    /// there.
    RemoveFiles {
        /// The directory.
        place: Place,
        /// The files.
        files: Vec<String>,
    },
    /// Remove the staging directory and everything in it.
    RemoveStaging,
    /// Remove what killed runs have left.
    RemoveLeftovers,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Staging => "staging",
            Self::Replaced => "replaced",
            Self::Target => "target",
        })
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{}/{name}", self.place),
            None => self.place.fmt(f),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { name, .. } => write!(f, "write {name}"),
            Self::Move { from, to } => write!(f, "move {from} to {to}"),
            Self::Exchange => f.write_str("exchange"),
            Self::Sync(place) => write!(f, "sync {place}"),
            Self::SyncName => f.write_str("sync the target's name"),
            Self::Inspect => f.write_str("inspect the target"),
            Self::Discard { .. } => f.write_str("discard what is not of the set"),
            Self::RemoveFiles { place, .. } => write!(f, "remove the files of {place}"),
            Self::RemoveStaging => f.write_str("remove staging"),
            Self::RemoveLeftovers => f.write_str("remove leftovers"),
        }
    }
}

/// How a step went, when it did not fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// The store cannot do it, and nothing has changed. Only [`Step::Exchange`] may be answered so.
    Unsupported,
    /// What [`Step::Inspect`] found, if it may be replaced.
    Found(Target),
}

/// What is where the set goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Nothing, or an empty directory.
    Vacant,
    /// Files of ours: their paths from the directory.
    Occupied(Vec<String>),
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

/// A set on its way from the staging directory to where readers look.
#[derive(Debug)]
pub struct Publication {
    staging: Staging,
    mode: SaveMode,
    /// The shards of the new set.
    shards: Vec<String>,
    /// The files of the old one.
    replaced: Vec<String>,
    ahead: VecDeque<Step>,
    done: Vec<Step>,
    committed: bool,
}

impl Publication {
    /// Publishes the shards in the order of their partition and sequence, and gives the manifest that will say so.
    ///
    /// # Errors
    /// When two shards claim the same place, or the prefix cannot start a file name.
    pub fn new(
        staging: Staging,
        mode: SaveMode,
        shards: Vec<StagedShard>,
        description: SetDescription,
        run: &RunId,
    ) -> Result<(Self, Manifest)> {
        check_prefix(&description.prefix)?;
        let shards = in_order(shards)?;
        let total = shards.len();
        let (prefix, compression) = (description.prefix.clone(), description.compression);
        let mut renames = Vec::with_capacity(total);
        let mut entries = Vec::with_capacity(total);
        for (index, shard) in shards.into_iter().enumerate() {
            let path = ShardName { prefix: prefix.clone(), index, total, compression }.to_string();
            renames.push((shard.staged.clone(), path.clone()));
            entries.push(shard.into_entry(path));
        }
        let manifest = Manifest::new(description, entries, run);

        let mut ahead = VecDeque::with_capacity(total + 8);
        ahead.push_back(Step::Discard { except: renames.iter().map(|(staged, _)| staged.clone()).collect() });
        // Then the manifest: from here on it tells which files of a staging directory are ours.
        ahead.push_back(Step::Write { name: MANIFEST_NAME, content: manifest.to_json()? });
        let shards = renames.iter().map(|(_, path)| path.clone()).collect();
        for (staged, path) in renames {
            let (from, to) = (Spot::file(Place::Staging, staged), Spot::file(Place::Staging, path));
            ahead.push_back(Step::Move { from, to });
        }
        ahead.push_back(Step::Write { name: SUCCESS_NAME, content: Vec::new() });
        ahead.push_back(Step::Sync(Place::Staging));
        ahead.push_back(Step::Inspect);
        let replaced = Vec::new();
        Ok((Self { staging, mode, shards, replaced, ahead, done: Vec::new(), committed: false }, manifest))
    }

    /// What to do now; `None` when the set is published.
    pub fn next_step(&mut self) -> Option<Step> {
        self.ahead.pop_front()
    }

    /// Takes note of how a step went.
    pub fn performed(&mut self, step: Step, outcome: Outcome) {
        match outcome {
            Outcome::Done => {
                self.committed |= self.commits(&step);
                self.done.push(step);
            }
            Outcome::Unsupported => self.replace_by_two_renames(),
            Outcome::Found(target) => self.plan_for(target),
        }
    }

    /// Whether readers see the new set. From here on nothing is undone.
    pub fn is_committed(&self) -> bool {
        self.committed
    }

    /// The steps that take back what has been done outside the staging directory, to be carried out when a step has
    /// failed before the set was committed.
    pub fn undo(self) -> Vec<Step> {
        let outside = |spot: &Spot| spot.place != Place::Staging;
        let steps = self.done.into_iter().rev();
        steps
            .filter_map(|step| match step {
                Step::Move { from, to } if outside(&from) || outside(&to) => Some(Step::Move { from: to, to: from }),
                _ => None,
            })
            .collect()
    }

    fn commits(&self, step: &Step) -> bool {
        match step {
            Step::Exchange => true,
            Step::Move { to: Spot { place: Place::Target, name }, .. } => {
                name.as_deref().is_none_or(|name| name == SUCCESS_NAME)
            }
            _ => false,
        }
    }

    /// Plans the rest, once it is known what the target holds.
    fn plan_for(&mut self, target: Target) {
        match (self.staging, target) {
            (Staging::Beside, Target::Vacant) => self.ahead.extend([install(), Step::SyncName]),
            // After the exchange the staging directory holds what was replaced.
            (Staging::Beside, Target::Occupied(files)) => {
                self.replaced.clone_from(&files);
                self.ahead.extend([Step::Exchange, Step::SyncName, Step::RemoveFiles { place: Place::Staging, files }]);
            }
            (Staging::Inside, Target::Vacant) => self.plan_file_by_file(Vec::new()),
            (Staging::Inside, Target::Occupied(files)) => self.plan_file_by_file(files),
        }
        self.plan_to_remove_leftovers();
    }

    fn plan_file_by_file(&mut self, mut old: Vec<String>) {
        let carry =
            |name: String, from, to| Step::Move { from: Spot::file(from, name.clone()), to: Spot::file(to, name) };
        // `_SUCCESS` first: without it nobody takes what follows for a set. Then the manifest, which goes on telling,
        // from where it is kept, which files are ours.
        old.sort_by_key(|name| (name != SUCCESS_NAME, name != MANIFEST_NAME));
        for name in old {
            let is_mark = name == SUCCESS_NAME;
            self.ahead.push_back(carry(name, Place::Target, Place::Replaced));
            if is_mark {
                self.ahead.push_back(Step::Sync(Place::Target));
            }
        }
        for name in std::mem::take(&mut self.shards) {
            self.ahead.push_back(carry(name, Place::Staging, Place::Target));
        }
        for name in [MANIFEST_NAME, SUCCESS_NAME] {
            self.ahead.push_back(Step::Sync(Place::Target));
            self.ahead.push_back(carry(name.to_owned(), Place::Staging, Place::Target));
        }
        self.ahead.extend([Step::Sync(Place::Target), Step::SyncName, Step::RemoveStaging]);
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

/// The staging directory becomes the target.
fn install() -> Step {
    Step::Move { from: Spot::directory(Place::Staging), to: Spot::directory(Place::Target) }
}

/// Refuses a prefix that would make names hidden from readers, too long for a file system, or lead out of the
/// directory.
///
/// # Errors
/// [`ErrorKind::Prefix`].
pub fn check_prefix(prefix: &str) -> Result<()> {
    /// File systems take names of 255 bytes; what stands behind the prefix is far shorter than the rest.
    const LONGEST: usize = 200;

    let hidden = prefix.starts_with(['.', '_']);
    let elsewhere = prefix.contains(['/', '\\']);
    if prefix.is_empty() || prefix.len() > LONGEST || hidden || elsewhere || prefix.contains(char::is_control) {
        return Err(ErrorKind::Prefix { prefix: prefix.to_owned() }.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
