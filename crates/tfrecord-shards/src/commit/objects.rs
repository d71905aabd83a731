//! The decisions of a commit to an object store: what is completed, in which order, and how it is undone. An object
//! store does not rename, and a file appears as a whole, under its final name.
//!
//! Shards are multipart uploads to their final keys. A key does not exist until its upload is completed, so nothing is
//! staged elsewhere and nothing is copied. [`ObjectPublication`] is a state machine without I/O: it returns one
//! [`ObjectStep`] at a time and receives its outcome.
//!
//! | under the prefix | steps | after a crash in between |
//! |---|---|---|
//! | nothing | `_manifest.json`, if there is still none; the uploads; the sidecars; `_SUCCESS` | nothing, incomplete or new |
//! | a set of ours | the uploads, with the run id in their names; `_SUCCESS`, if it is missing; `_manifest.json`, replacing exactly the one that was inspected; the sidecars, whose names do not contain the run id. Then the old files are removed | old or new |
//! | a set of ours without a manifest | as with nothing, with the run id in the names. Then the old files are removed | incomplete or new |
//! | a set that is appended to | the uploads, with the run id in their names; `_manifest.json`, replacing exactly the one that the run began with | old or new |
//! | a set, some of whose partitions are replaced | the same. Then the old shards of these partitions are removed | old or new |
//!
//! If there is no manifest, it is put first. It shows readers that the set is incomplete until `_SUCCESS` exists, and
//! shows the next run which files are ours. It is also a claim: of two runs that put the first manifest, the store
//! rejects the second, which has completed nothing yet. So plain names have one owner. Names with a run id are unique
//! anyway. For them the exchange of the manifest decides: of two runs that replace or append to the same one, the store
//! rejects the second, which then removes what it has completed.
//!
//! In a store without conditional requests, only the checks of [`ObjectStep::Inspect`] and [`ObjectStep::Confirm`]
//! separate concurrent runs.
//!
//! # What a killed run leaves behind
//! | killed | left behind | our reader | the next run |
//! |---|---|---|---|
//! | before the first step | open uploads, which are invisible and expire by a lifecycle rule of the bucket | sees the previous contents | finds the previous contents |
//! | without a previous manifest, before `_SUCCESS` | a manifest and some of its shards | rejects the set as incomplete | rejects it, or replaces it in an overwrite |
//! | with a previous manifest, before it is exchanged | shards that no manifest lists, next to the old set | sees the old set | removes them in an overwrite, also of partitions |
//! | after that | old shards, which the manifest lists as [`replaced`](Manifest::replaced) | sees the new set | removes them if it changes the set |
//!
//! A reader that matches names by patterns and ignores the manifest sees shards as their uploads are completed.
//!
//! # Stores that rename directories
//! In HDFS a reader must not see a part of a set. There a new set is written in a directory [beside](Beside) the target by the
//! steps for an empty prefix, and that directory is then renamed: onto nothing, or once the old set is moved aside. A set that
//! is added to is changed in place, as in an object store.

mod beside;
mod control;
mod prefix_scan;

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

pub use self::beside::Beside;
pub use self::control::{
    AttemptChoice, ControlName, ParseControlNameError, SharedUploads, UploadIntent, control_directory, control_object,
    may_be_live, withdrawal,
};
pub use self::prefix_scan::PrefixScan;
use crate::commit::publication::{StagedShard, check_description, in_order};
use crate::error::{ErrorKind, Result, SidecarsError};
use crate::set::manifest::{Manifest, SetDescription, ShardEntry};
use crate::set::names::{RunId, run_id_in};
use crate::set::sidecar::{Sidecar, SidecarEntry, StagedIndex, index_path};
use crate::set::{MANIFEST_NAME, SUCCESS_NAME};

/// The version of a file in a store, as reported by the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct ObjectVersion {
    /// Its entity tag.
    pub e_tag: Option<String>,
    /// Its version number, in stores with versioning.
    pub version: Option<String>,
}

/// A manifest read from a store.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredManifest {
    /// Its content.
    pub manifest: Manifest,
    /// Its version.
    pub version: ObjectVersion,
}

/// The contents of the target prefix.
#[derive(Debug, Clone, PartialEq)]
pub enum Occupant {
    /// Nothing.
    Vacant,
    /// A complete set, to be added to.
    Set {
        /// Its manifest.
        stored: Box<StoredManifest>,
        /// Shards of killed runs that no manifest lists. Only in
        /// [`SaveMode::OverwritePartitions`](crate::SaveMode::OverwritePartitions), which removes them.
        orphans: Vec<String>,
    },
    /// Some files, so that nothing is written: the mode is [`SaveMode::Ignore`](crate::SaveMode::Ignore).
    Ignored {
        /// Up to three files.
        found: Vec<String>,
    },
    /// Files of ours.
    Ours {
        /// The manifest that lists them, if there is one.
        manifest: Option<ObjectVersion>,
        /// Whether [`SUCCESS_NAME`] exists.
        success: bool,
        /// The paths relative to the prefix of all other files, including missing ones that the manifest lists.
        files: BTreeSet<String>,
    },
}

/// The condition for putting a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// There is no manifest.
    Absent,
    /// The manifest is still this one.
    Unchanged(ObjectVersion),
}

/// One step of a publication.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObjectStep {
    /// Inspect what is under the prefix now, and fail on what must not be replaced.
    Inspect,
    /// Put the manifest, on a condition. If the condition fails, the error is [`ErrorKind::Superseded`], unless the
    /// existing manifest is this very one: then only the response to an earlier request was lost.
    PutManifest {
        /// Its content.
        content: Vec<u8>,
        /// The condition.
        condition: Condition,
    },
    /// Complete the uploads of all shards, in any order.
    Complete,
    /// Put sidecars.
    PutSidecars {
        /// The indexes of shards: the file that contains each, and its path relative to the prefix.
        indexes: Vec<(StagedIndex, String)>,
        /// The other sidecars.
        sidecars: Vec<Sidecar>,
    },
    /// Check that the manifest is still the one that was put. If not, the error is [`ErrorKind::Superseded`].
    Confirm,
    /// Put an empty [`SUCCESS_NAME`].
    PutSuccess,
    /// Remove these files, if they exist.
    Remove {
        /// Their paths relative to the prefix.
        files: Vec<String>,
    },
}

/// The outcome of a step that did not fail.
#[derive(Debug, Clone, PartialEq)]
pub enum ObjectOutcome {
    /// It is done.
    Done,
    /// What [`ObjectStep::Inspect`] found.
    Found(Occupant),
}

/// The publication of a set from uploads to visible files.
///
/// ```
/// use std::path::Path;
/// use tfrecord_shards::objects::{ObjectOutcome, ObjectPublication, ObjectStep, Occupant};
/// use tfrecord_shards::{RunId, SetDescription, ShardStats, StagedShard, StagedUpload};
///
/// # fn main() -> tfrecord_shards::Result<()> {
/// let upload = StagedUpload { id: "upload 1".to_owned(), parts: vec!["part 1".to_owned()] };
/// let shard = StagedShard::new("part-00000-00000.tfrecord", 0, 0, ShardStats::default());
/// let shards = vec![StagedShard { upload: Some(upload), ..shard }];
/// let mut publication = ObjectPublication::new(false, shards, SetDescription::of_records(), &RunId::new())?;
///
/// let mut taken = Vec::new();
/// while let Some(step) = publication.next_step() {
///     // Here the store is asked. There is nothing under the prefix, and nothing goes wrong.
///     let outcome = match step {
///         ObjectStep::Inspect => ObjectOutcome::Found(Occupant::Vacant),
///         _ => ObjectOutcome::Done,
///     };
///     publication.performed(&step, outcome, Path::new("s3://bucket/train/"))?;
///     taken.push(step);
/// }
/// assert!(matches!(taken[1], ObjectStep::PutManifest { .. }));
/// assert_eq!(taken[2..], [ObjectStep::Confirm, ObjectStep::Complete, ObjectStep::Confirm, ObjectStep::PutSuccess]);
/// assert!(publication.is_committed());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ObjectPublication {
    /// Whether names contain the run id and so are unique.
    own_names: bool,
    /// The set that is appended to.
    current: Option<Box<StoredManifest>>,
    /// The shards of this run.
    shards: Vec<String>,
    indexes: Indexes,
    /// The other sidecars.
    sidecars: Vec<Sidecar>,
    /// Sidecars that the new shards make outdated, and shards of partitions that they replace.
    stale: Vec<String>,
    manifest: Manifest,
    ahead: VecDeque<ObjectStep>,
    /// The steps that were started: put the first manifest, complete uploads, put [`SUCCESS_NAME`].
    claims: bool,
    completes: bool,
    marks: bool,
    committed: bool,
}

impl ObjectPublication {
    /// Publishes the shards in the order of their groups, partition and sequence. `own_names` is whether their names
    /// contain the run id.
    ///
    /// # Errors
    /// If two shards have the same number, are not in the directories of their groups, or the prefix is not a valid
    /// prefix of file names.
    pub fn new(own_names: bool, shards: Vec<StagedShard>, description: SetDescription, run: &RunId) -> Result<Self> {
        let (entries, indexes) = entries(shards, &description)?;
        let shards = entries.iter().map(|shard| shard.path.clone()).collect();
        Self::of(own_names, None, shards, indexes, Manifest::new(description, entries, run))
    }

    /// Adds the shards, whose names must contain the run id, to the set that existed at `out` when the run began.
    ///
    /// # Errors
    /// As [`new`](Self::new), and if the shards cannot be appended: see [`Manifest::check_append`].
    pub fn append(
        out: &Path,
        current: StoredManifest,
        shards: Vec<StagedShard>,
        description: SetDescription,
        run: &RunId,
    ) -> Result<Self> {
        current.manifest.check_append(&description, out)?;
        let (entries, indexes) = entries(shards, &description)?;
        // They must not overwrite existing shards.
        if let Some(shard) = entries.iter().find(|shard| run_id_in(&shard.path) != Some(run.as_str())) {
            let why = format!("shard {} does not name run {run}", shard.path);
            return Err(ErrorKind::NotAppendable { path: out.to_owned(), why }.into());
        }
        let shards = entries.iter().map(|shard| shard.path.clone()).collect();
        let manifest = current.manifest.with_appended(description, entries, run, out)?;
        Self::of(true, Some(Box::new(current)), shards, indexes, manifest)
    }

    fn of(
        own_names: bool,
        current: Option<Box<StoredManifest>>,
        shards: Vec<String>,
        indexes: Indexes,
        mut manifest: Manifest,
    ) -> Result<Self> {
        manifest.sidecars.extend(indexes.iter().map(|(index, path)| SidecarEntry {
            path: path.clone(),
            file_bytes: index.file_bytes,
            crc32c: index.crc32c,
        }));
        manifest.refuse_contradiction(Path::new(""))?;
        let stale = manifest.replaced.clone();
        Ok(Self {
            own_names,
            current,
            shards,
            indexes,
            sidecars: Vec::new(),
            stale,
            manifest,
            ahead: [ObjectStep::Inspect].into(),
            claims: false,
            completes: false,
            marks: false,
            committed: false,
        })
    }

    /// Adds sidecars, which `sidecars` produces once the names of the shards are known. A set that is appended to gets
    /// none, and the sidecars that describe the old set are removed.
    ///
    /// # Errors
    /// Those of `sidecars`, or if a file is already part of the set.
    pub fn with_sidecars(
        mut self,
        sidecars: impl FnOnce(&Manifest) -> Result<Vec<Sidecar>, SidecarsError>,
    ) -> Result<Self> {
        if self.current.is_none() {
            self.sidecars = sidecars(&self.manifest).map_err(ErrorKind::Sidecars)?;
            self.manifest.sidecars.extend(self.sidecars.iter().map(SidecarEntry::from));
            self.manifest.refuse_contradiction(Path::new(""))?;
        }
        Ok(self)
    }

    /// Sets when the publication began, so that all processes that continue it put the same manifest.
    #[must_use]
    pub fn created(mut self, created: DateTime<Utc>) -> Self {
        match self.manifest.appended.last_mut() {
            Some(appended) if self.current.is_some() => appended.created = created,
            _ => self.manifest.created = created,
        }
        self
    }

    /// Continues after another process of the same run has put `current`, the manifest of this set, and has not
    /// completed the set. `out` is the target, for error messages.
    ///
    /// # Errors
    /// If that process has published other shards or sidecars ([`ErrorKind::Superseded`]).
    pub fn resume(mut self, current: Manifest, out: &Path) -> Result<Self> {
        let files = |manifest: &Manifest| (manifest.shards.clone(), manifest.sidecars.clone());
        if files(&current) != files(&self.manifest) || current.last_run() != self.manifest.last_run() {
            return Err(ErrorKind::Superseded { path: out.to_owned() }.into());
        }
        let replaced = current.replaced.clone();
        self.manifest = current;
        self.claims = true;
        self.ahead = VecDeque::new();
        self.plan_after_claim(replaced);
        Ok(self)
    }

    /// Returns the manifest to publish. It is complete once [`ObjectStep::Inspect`] was performed.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the next step; `None` when the set is published.
    pub fn next_step(&mut self) -> Option<ObjectStep> {
        let step = self.ahead.pop_front();
        // From here on, a failed step may have been performed completely or in part.
        match &step {
            Some(ObjectStep::PutManifest { condition: Condition::Absent, .. }) => self.claims = true,
            Some(ObjectStep::Complete) => self.completes = true,
            Some(ObjectStep::PutSuccess) => self.marks = true,
            _ => {}
        }
        step
    }

    /// Records the outcome of a step. `out` is the target, for error messages.
    ///
    /// # Errors
    /// If files have appeared under an empty prefix, so that plain names cannot be used, or if the set that is appended
    /// to has changed ([`ErrorKind::Superseded`]).
    pub fn performed(&mut self, step: &ObjectStep, outcome: ObjectOutcome, out: &Path) -> Result<()> {
        let superseded = || Err(ErrorKind::Superseded { path: out.to_owned() }.into());
        match (outcome, self.current.take()) {
            (ObjectOutcome::Done, current) => {
                self.current = current;
                self.committed |= self.commits(step);
                Ok(())
            }
            (ObjectOutcome::Found(Occupant::Set { stored, orphans }), Some(current)) if stored == current => {
                self.plan_to_append(*stored, orphans)
            }
            (ObjectOutcome::Found(_), Some(_)) | (ObjectOutcome::Found(Occupant::Set { .. }), None) => superseded(),
            (ObjectOutcome::Found(Occupant::Ignored { .. }), None) => superseded(),
            (ObjectOutcome::Found(occupant), None) if !self.own_names && occupant != Occupant::Vacant => superseded(),
            (ObjectOutcome::Found(Occupant::Vacant), None) => self.plan_for(None, false, BTreeSet::new()),
            (ObjectOutcome::Found(Occupant::Ours { manifest, success, files }), None) => {
                self.plan_for(manifest, success, files)
            }
        }
    }

    /// Whether readers see the new set. From here on nothing is undone.
    pub fn is_committed(&self) -> bool {
        self.committed
    }

    fn commits(&self, step: &ObjectStep) -> bool {
        match step {
            ObjectStep::PutSuccess => self.claims,
            ObjectStep::PutManifest { condition, .. } => *condition != Condition::Absent,
            _ => false,
        }
    }

    /// Returns the steps that undo what was done, after a step failed before the commit. They end at the first one that
    /// fails. `current` is the current manifest. If that is unknown, nothing may be undone.
    pub fn undo(self, current: Option<&Manifest>) -> Vec<ObjectStep> {
        let is_ours = current.is_some_and(|current| current.last_run() == self.manifest.last_run());
        if self.committed || (is_ours && !self.claims) {
            return Vec::new();
        }
        let mut files = Vec::new();
        if self.completes {
            files = self.shards;
            files.extend(self.indexes.into_iter().map(|(_, path)| path));
            // In an overwrite, they come after the set is replaced.
            files.extend(self.sidecars.into_iter().filter(|_| self.claims).map(|sidecar| sidecar.path));
        }
        match current {
            Some(_) if is_ours => files.extend(self.marks.then(|| SUCCESS_NAME.to_owned())),
            // Another run used the same names, in a store that does not reject the second manifest.
            Some(manifest) => {
                let listed = manifest.file_names();
                files.retain(|file| !listed.contains(file));
            }
            None => {}
        }
        // The manifest last: until then it shows that the set is incomplete, and whose it is.
        let files = (!files.is_empty()).then_some(ObjectStep::Remove { files });
        let manifest = is_ours.then(|| ObjectStep::Remove { files: vec![MANIFEST_NAME.to_owned()] });
        files.into_iter().chain(manifest).collect()
    }

    /// Plans the remaining steps of an append to this set. Its runs may have left `orphans`.
    fn plan_to_append(&mut self, current: StoredManifest, orphans: Vec<String>) -> Result<()> {
        let content = self.manifest.to_json()?;
        let condition = Condition::Unchanged(current.version);
        // The new manifest does not name them any more.
        self.plan_to_remove(current.manifest.replaced);
        self.ahead.push_back(ObjectStep::Complete);
        self.plan_to_put(true, false);
        self.ahead.push_back(ObjectStep::PutManifest { content, condition });
        let own = self.manifest.file_names();
        let orphans = orphans.into_iter().filter(|path| !own.contains(path));
        // A live run whose shards are among them began with the manifest that is replaced now, so it does not publish them.
        let stale = std::mem::take(&mut self.stale);
        self.plan_to_remove(stale.into_iter().chain(orphans).collect());
        Ok(())
    }

    /// Plans to put the indexes of the shards, the other sidecars, or both, if there are any.
    fn plan_to_put(&mut self, indexes: bool, sidecars: bool) {
        let indexes = if indexes { self.indexes.clone() } else { Vec::new() };
        let sidecars = if sidecars { self.sidecars.clone() } else { Vec::new() };
        if !indexes.is_empty() || !sidecars.is_empty() {
            self.ahead.push_back(ObjectStep::PutSidecars { indexes, sidecars });
        }
    }

    /// Plans the remaining steps once the contents of the prefix are known.
    fn plan_for(&mut self, current: Option<ObjectVersion>, success: bool, mut old: BTreeSet<String>) -> Result<()> {
        for file in self.manifest.file_names() {
            old.remove(&file);
        }
        self.manifest.replaced = old.iter().cloned().collect();
        let content = self.manifest.to_json()?;
        match current {
            Some(version) => {
                self.ahead.push_back(ObjectStep::Complete);
                self.plan_to_put(true, false);
                self.ahead.extend((!success).then_some(ObjectStep::PutSuccess));
                self.ahead.push_back(ObjectStep::PutManifest { content, condition: Condition::Unchanged(version) });
                // Their names do not contain the run id: until here they belong to the replaced set.
                self.plan_to_put(false, true);
            }
            None => {
                self.ahead.push_back(ObjectStep::PutManifest { content, condition: Condition::Absent });
                self.plan_after_claim(old.into_iter().collect());
                return Ok(());
            }
        }
        self.plan_to_remove(old.into_iter().collect());
        Ok(())
    }

    /// Plans the steps after the first manifest is put. `old` are the replaced files.
    fn plan_after_claim(&mut self, old: Vec<String>) {
        // Before any file of another run could be overwritten: some stores do not check and write atomically, so that
        // both of two runs may find no manifest.
        self.ahead.extend([ObjectStep::Confirm, ObjectStep::Complete]);
        self.plan_to_put(true, true);
        self.ahead.extend([ObjectStep::Confirm, ObjectStep::PutSuccess]);
        self.plan_to_remove(old);
    }

    fn plan_to_remove(&mut self, files: Vec<String>) {
        self.ahead.extend((!files.is_empty()).then_some(ObjectStep::Remove { files }));
    }
}

/// The indexes of shards, each with its path relative to the prefix.
type Indexes = Vec<(StagedIndex, String)>;

/// Returns the manifest entries of uploads, in order.
fn entries(shards: Vec<StagedShard>, description: &SetDescription) -> Result<(Vec<ShardEntry>, Indexes)> {
    check_description(description)?;
    let mut indexes = Vec::new();
    let entry = |shard: StagedShard| {
        let path = shard.staged.clone();
        indexes.extend(shard.index.clone().map(|index| (index, index_path(&path))));
        shard.into_entry(path)
    };
    let entries = in_order(shards, &description.splits)?.into_iter().map(entry).collect();
    Ok((entries, indexes))
}

#[cfg(test)]
mod tests;
