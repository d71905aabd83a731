//! The decisions of a commit to an object store, where nothing is renamed and a file appears whole, under its final
//! name: what is completed, in which order, and how it is undone.
//!
//! Shards are multipart uploads to their final keys. A key is not there until its upload is completed, so nothing is
//! staged elsewhere and nothing is copied. [`ObjectPublication`] is a state machine without I/O: it hands out one
//! [`ObjectStep`] at a time and is told how it went.
//!
//! | what is under the prefix | steps | dies in between |
//! |---|---|---|
//! | nothing | `_manifest.json`, if there is still none; the uploads; the files beside them; `_SUCCESS` | nothing, incomplete or new |
//! | a set of ours | the uploads, under names that tell the run; `_SUCCESS`, if it is missing; `_manifest.json`, in the place of the very one that was inspected; the files beside the shards, whose names do not tell the run. Then the old files go | old or new |
//! | a set of ours without a manifest | as with nothing, under names that tell the run. Then the old files go | incomplete or new |
//! | a set that is added to | the uploads, under names that tell the run; `_manifest.json`, in the place of the very one that the run began with | old or new |
//!
//! Where there is no manifest, it comes first. It tells readers that what appears now is not whole before `_SUCCESS` is
//! there, and the next run which files are ours. And it is the claim: of two runs that put one where there is none, the
//! store refuses the second, which has completed nothing yet. So plain names have one owner. Names that tell the run are
//! nobody else's anyway, and there the exchange of the manifest decides: of two runs that replace the same one, or add to
//! it, the store refuses the second, which then removes what it has completed.
//!
//! A store without conditional requests keeps nobody apart but by what [`ObjectStep::Inspect`] and
//! [`ObjectStep::Confirm`] see.
//!
//! # What a run leaves that is killed
//! | killed | is left | our reader | the next run |
//! |---|---|---|---|
//! | before the first step | open uploads, which nobody sees and a lifecycle rule of the bucket ends | sees what was there | finds what was there |
//! | where there was no manifest, before `_SUCCESS` | a manifest and some of its shards | refuses the set as not whole | refuses it, or, overwriting, replaces it |
//! | where there was one, before it is exchanged | shards that no manifest lists, beside the old set | sees the old set | overwriting, removes them |
//! | after that | old shards, which the manifest tells as [`replaced`](Manifest::replaced) | sees the new set | overwriting, removes them |
//!
//! Who reads by patterns of names, and not by the manifest, sees shards as their uploads are completed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::path::Path;

use crate::commit::publication::{SaveMode, StagedShard, check_names, in_order};
use crate::commit::target::NAMES_SHOWN;
use crate::error::{ErrorKind, Result, SidecarsError};
use crate::set::manifest::{Manifest, SetDescription, ShardEntry};
use crate::set::names::{ObjectNames, RunId, run_told};
use crate::set::sidecar::{Sidecar, SidecarEntry, StagedIndex, index_path};
use crate::set::{MANIFEST_NAME, SUCCESS_NAME};

/// Which of its versions a file in a store is, as the store tells it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ObjectVersion {
    /// Its entity tag.
    pub e_tag: Option<String>,
    /// Its version, in stores that number them.
    pub version: Option<String>,
}

/// A manifest as it lies in a store.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredManifest {
    /// What it says.
    pub manifest: Manifest,
    /// Which it is.
    pub version: ObjectVersion,
}

/// What is under the prefix where a set goes.
#[derive(Debug, Clone, PartialEq)]
pub enum Occupant {
    /// Nothing.
    Vacant,
    /// A whole set, which is appended to.
    Standing(Box<StoredManifest>),
    /// Something, so that there is nothing to do, as [`SaveMode::Ignore`] has it.
    Ignored {
        /// Up to three files.
        found: Vec<String>,
    },
    /// Files of ours.
    Ours {
        /// The manifest that lists them, if there is one.
        manifest: Option<ObjectVersion>,
        /// Whether there is a [`SUCCESS_NAME`].
        success: bool,
        /// The paths from the prefix of everything but these two; of what the manifest lists also if it is not there.
        files: BTreeSet<String>,
    },
}

/// Sorts what is under a prefix, path by path, and refuses what the mode does not replace or add to.
///
/// Ours is what the manifest lists, what it says was replaced, and what has a name that tells a run: a run that was
/// killed, or failed, or has just been superseded, may have completed that without a manifest.
#[derive(Debug)]
pub struct PrefixSurvey {
    mode: SaveMode,
    manifest: Option<StoredManifest>,
    /// What the manifest lists, and what it says was replaced.
    listed: BTreeSet<String>,
    replaced: BTreeSet<String>,
    success: bool,
    /// Files of ours, and how long they are.
    ours: BTreeMap<String, u64>,
    foreign: Vec<String>,
}

impl PrefixSurvey {
    /// Of a prefix with this manifest, which was read before anything is listed.
    pub fn new(mode: SaveMode, manifest: Option<&StoredManifest>) -> Self {
        Self {
            mode,
            manifest: manifest.cloned(),
            listed: manifest.map(|stored| stored.manifest.file_names()).unwrap_or_default(),
            replaced: manifest.map(|stored| stored.manifest.replaced.iter().cloned().collect()).unwrap_or_default(),
            success: false,
            ours: BTreeMap::new(),
            foreign: Vec::new(),
        }
    }

    /// Whether a file is replaced or added to. Beside a set that is added to, others may have what they like.
    fn is_ours(&self, path: &str) -> bool {
        match self.mode {
            SaveMode::Error | SaveMode::Ignore => false,
            SaveMode::Append => self.listed.contains(path),
            SaveMode::Overwrite => {
                self.listed.contains(path) || self.replaced.contains(path) || ObjectNames::tells_run(path)
            }
        }
    }

    /// Takes note of a file, by its path from the prefix and its length. Breaks if nothing more needs to be known.
    pub fn add(&mut self, path: String, bytes: u64) -> ControlFlow<()> {
        if !self.is_ours(&path) {
            if self.mode != SaveMode::Append || self.manifest.is_none() {
                self.foreign.push(path);
            }
        } else if path == SUCCESS_NAME {
            self.success = true;
        } else if path != MANIFEST_NAME {
            self.ours.insert(path, bytes);
        }
        if self.foreign.len() < NAMES_SHOWN { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// What is there, under the prefix `out`, which is named in errors.
    ///
    /// # Errors
    /// [`ErrorKind::NotEmpty`], [`ErrorKind::ForeignFiles`] or [`ErrorKind::NotAppendable`].
    pub fn finish(self, out: &Path) -> Result<Occupant> {
        let path = out.to_owned();
        match self.mode {
            SaveMode::Error if !self.foreign.is_empty() => {
                Err(ErrorKind::NotEmpty { path, found: self.foreign }.into())
            }
            SaveMode::Overwrite if !self.foreign.is_empty() => {
                Err(ErrorKind::ForeignFiles { path, files: self.foreign }.into())
            }
            SaveMode::Ignore if !self.foreign.is_empty() => Ok(Occupant::Ignored { found: self.foreign }),
            SaveMode::Append if !self.foreign.is_empty() => {
                let why = format!("there is no {MANIFEST_NAME} beside {}", self.foreign.join(", "));
                Err(ErrorKind::NotAppendable { path, why }.into())
            }
            SaveMode::Append => {
                let Some(stored) = self.manifest else { return Ok(Occupant::Vacant) };
                match stored.manifest.disagreement(|path| self.ours.get(path).copied(), self.success) {
                    Some(disagreement) => {
                        let why = format!("the set is not whole: {disagreement}");
                        Err(ErrorKind::NotAppendable { path, why }.into())
                    }
                    None => Ok(Occupant::Standing(Box::new(stored))),
                }
            }
            _ if self.manifest.is_none() && self.ours.is_empty() => Ok(Occupant::Vacant),
            _ => {
                // Listed files that are not there, too: one that is being completed at this moment, for a manifest that is
                // about to be replaced, would be nobody's.
                let listed = self.listed.into_iter().filter(|path| path != SUCCESS_NAME && path != MANIFEST_NAME);
                let files = listed.chain(self.ours.into_keys()).collect();
                let manifest = self.manifest.map(|stored| stored.version);
                Ok(Occupant::Ours { manifest, success: self.success, files })
            }
        }
    }
}

/// What must be so for a manifest to be put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// There is none.
    Absent,
    /// It is still this one.
    Unchanged(ObjectVersion),
}

/// One step of publishing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObjectStep {
    /// See what is under the prefix now, and refuse what must not be replaced.
    Inspect,
    /// Put the manifest, on a condition. If it does not hold, that is an [`ErrorKind::Superseded`], unless the manifest
    /// that is there is this very one: then only the answer to an earlier request had got lost.
    PutManifest {
        /// What it holds.
        content: Vec<u8>,
        /// The condition.
        condition: Condition,
    },
    /// Complete the uploads of all shards, in whatever order.
    Complete,
    /// Put files beside the shards.
    PutSidecars {
        /// Of shards, their indexes: which file holds each, and its path from the prefix.
        indexes: Vec<(StagedIndex, String)>,
        /// The others.
        sidecars: Vec<Sidecar>,
    },
    /// See that the manifest is still the one that was put; if not, that is an [`ErrorKind::Superseded`].
    Confirm,
    /// Put an empty [`SUCCESS_NAME`].
    PutSuccess,
    /// Remove these files, as far as they are there.
    Remove {
        /// Their paths from the prefix.
        files: Vec<String>,
    },
}

/// How a step went, when it did not fail.
#[derive(Debug, Clone, PartialEq)]
pub enum ObjectOutcome {
    /// It is done.
    Done,
    /// What [`ObjectStep::Inspect`] found.
    Found(Occupant),
}

/// A set on its way from uploads to files that readers see.
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
    /// Whether names tell the run, and are nobody else's.
    own_names: bool,
    /// The set that is added to.
    standing: Option<Box<StoredManifest>>,
    /// The shards of this run.
    shards: Vec<String>,
    indexes: Indexes,
    /// What else lies beside them.
    sidecars: Vec<Sidecar>,
    /// Files beside the shards that do not tell of a set that has grown.
    stale: Vec<String>,
    manifest: Manifest,
    ahead: VecDeque<ObjectStep>,
    /// Steps that have been begun: to put the first manifest, to complete uploads, to put the mark of success.
    claims: bool,
    completes: bool,
    marks: bool,
    committed: bool,
}

impl ObjectPublication {
    /// Publishes the shards in the order of their groups, partition and sequence. `own_names` is whether their names tell
    /// the run.
    ///
    /// # Errors
    /// When two shards claim the same place, do not stand where their groups tell, or the prefix cannot start a file name.
    pub fn new(own_names: bool, shards: Vec<StagedShard>, description: SetDescription, run: &RunId) -> Result<Self> {
        let (entries, indexes) = entries(shards, &description)?;
        let shards = entries.iter().map(|shard| shard.path.clone()).collect();
        Self::of(own_names, None, shards, indexes, Manifest::new(description, entries, run))
    }

    /// Adds the shards, whose names must tell the run, to the set that stood at `out` when the run began.
    ///
    /// # Errors
    /// As [`new`](Self::new), and when the shards cannot be added: see [`Manifest::check_append`].
    pub fn append(
        out: &Path,
        standing: StoredManifest,
        shards: Vec<StagedShard>,
        description: SetDescription,
        run: &RunId,
    ) -> Result<Self> {
        standing.manifest.check_append(&description, out)?;
        let (entries, indexes) = entries(shards, &description)?;
        // They must not be written over those that are there.
        if let Some(shard) = entries.iter().find(|shard| run_told(&shard.path) != Some(run.as_str())) {
            let why = format!("shard {} does not tell run {run}", shard.path);
            return Err(ErrorKind::NotAppendable { path: out.to_owned(), why }.into());
        }
        let shards = entries.iter().map(|shard| shard.path.clone()).collect();
        let manifest = standing.manifest.with_appended(description, entries, run);
        Self::of(true, Some(Box::new(standing)), shards, indexes, manifest)
    }

    fn of(
        own_names: bool,
        standing: Option<Box<StoredManifest>>,
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
        let stale = standing.as_ref().map(|stored| stored.manifest.stale_beside(&manifest)).unwrap_or_default();
        Ok(Self {
            own_names,
            standing,
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

    /// Adds files beside the shards, made when it is known how the shards are called. A set that is added to gets none: what
    /// told of it as it was is removed.
    ///
    /// # Errors
    /// Those of `sidecars`; a file that is of the set already.
    pub fn with_sidecars(
        mut self,
        sidecars: impl FnOnce(&Manifest) -> Result<Vec<Sidecar>, SidecarsError>,
    ) -> Result<Self> {
        if self.standing.is_none() {
            self.sidecars = sidecars(&self.manifest).map_err(ErrorKind::Sidecars)?;
            self.manifest.sidecars.extend(self.sidecars.iter().map(SidecarEntry::from));
            self.manifest.refuse_contradiction(Path::new(""))?;
        }
        Ok(self)
    }

    /// What is published; all of it is known once [`ObjectStep::Inspect`] has been performed.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// What to do now; `None` when the set is published.
    pub fn next_step(&mut self) -> Option<ObjectStep> {
        let step = self.ahead.pop_front();
        // From here on: a step that fails may have been done, in whole or in part.
        match &step {
            Some(ObjectStep::PutManifest { condition: Condition::Absent, .. }) => self.claims = true,
            Some(ObjectStep::Complete) => self.completes = true,
            Some(ObjectStep::PutSuccess) => self.marks = true,
            _ => {}
        }
        step
    }

    /// Takes note of how a step went, of a target that is named `out` in errors.
    ///
    /// # Errors
    /// When something has come to be where there was nothing: plain names may not be used beside it; or when the set that
    /// is added to has changed ([`ErrorKind::Superseded`]).
    pub fn performed(&mut self, step: &ObjectStep, outcome: ObjectOutcome, out: &Path) -> Result<()> {
        let superseded = || Err(ErrorKind::Superseded { path: out.to_owned() }.into());
        match (outcome, self.standing.take()) {
            (ObjectOutcome::Done, standing) => {
                self.standing = standing;
                self.committed |= self.commits(step);
                Ok(())
            }
            (ObjectOutcome::Found(Occupant::Standing(found)), Some(standing)) if found == standing => {
                self.plan_to_append(found.version)
            }
            (ObjectOutcome::Found(_), Some(_)) | (ObjectOutcome::Found(Occupant::Standing(_)), None) => superseded(),
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

    /// The steps that take back what has been done, when one has failed before the set was committed; the first of them
    /// that fails is the last. `standing` is the manifest that is there now: where that is not known, nothing may be undone.
    pub fn undo(self, standing: Option<&Manifest>) -> Vec<ObjectStep> {
        let is_ours = standing.is_some_and(|standing| standing.last_run() == self.manifest.last_run());
        if self.committed || (is_ours && !self.claims) {
            return Vec::new();
        }
        let mut files = Vec::new();
        if self.completes {
            files = self.shards;
            files.extend(self.indexes.into_iter().map(|(_, path)| path));
            // Beside a set that is replaced they come when it is.
            files.extend(self.sidecars.into_iter().filter(|_| self.claims).map(|sidecar| sidecar.path));
        }
        match standing {
            Some(_) if is_ours => files.extend(self.marks.then(|| SUCCESS_NAME.to_owned())),
            // Another run that had the same names, in a store that does not refuse the second manifest.
            Some(manifest) => {
                let listed = manifest.file_names();
                files.retain(|file| !listed.contains(file));
            }
            None => {}
        }
        // The manifest last: until then it tells what is not whole, and whose it is.
        let files = (!files.is_empty()).then_some(ObjectStep::Remove { files });
        let manifest = is_ours.then(|| ObjectStep::Remove { files: vec![MANIFEST_NAME.to_owned()] });
        files.into_iter().chain(manifest).collect()
    }

    /// Plans the rest of adding to the set with this version of the manifest.
    fn plan_to_append(&mut self, version: ObjectVersion) -> Result<()> {
        let content = self.manifest.to_json()?;
        let condition = Condition::Unchanged(version);
        self.ahead.push_back(ObjectStep::Complete);
        self.plan_to_put(true, false);
        self.ahead.push_back(ObjectStep::PutManifest { content, condition });
        let stale = std::mem::take(&mut self.stale);
        self.ahead.extend((!stale.is_empty()).then_some(ObjectStep::Remove { files: stale }));
        Ok(())
    }

    /// Plans to put the indexes of the shards, the other files beside them, or both, as far as there are any.
    fn plan_to_put(&mut self, indexes: bool, sidecars: bool) {
        let indexes = if indexes { self.indexes.clone() } else { Vec::new() };
        let sidecars = if sidecars { self.sidecars.clone() } else { Vec::new() };
        if !indexes.is_empty() || !sidecars.is_empty() {
            self.ahead.push_back(ObjectStep::PutSidecars { indexes, sidecars });
        }
    }

    /// Plans the rest, once it is known what is there.
    fn plan_for(&mut self, standing: Option<ObjectVersion>, success: bool, mut old: BTreeSet<String>) -> Result<()> {
        for file in self.manifest.file_names() {
            old.remove(&file);
        }
        self.manifest.replaced = old.iter().cloned().collect();
        let content = self.manifest.to_json()?;
        match standing {
            Some(version) => {
                self.ahead.push_back(ObjectStep::Complete);
                self.plan_to_put(true, false);
                self.ahead.extend((!success).then_some(ObjectStep::PutSuccess));
                self.ahead.push_back(ObjectStep::PutManifest { content, condition: Condition::Unchanged(version) });
                // Their names do not tell the run: until here they are those of the set that is replaced.
                self.plan_to_put(false, true);
            }
            None => {
                self.ahead.extend([
                    ObjectStep::PutManifest { content, condition: Condition::Absent },
                    // Before anything of another run could be written over: some stores look first and write then, so that
                    // both of two runs may be told that there was no manifest.
                    ObjectStep::Confirm,
                    ObjectStep::Complete,
                ]);
                self.plan_to_put(true, true);
                self.ahead.extend([ObjectStep::Confirm, ObjectStep::PutSuccess]);
            }
        }
        if !old.is_empty() {
            self.ahead.push_back(ObjectStep::Remove { files: old.into_iter().collect() });
        }
        Ok(())
    }
}

/// The indexes of shards, each with its path from the prefix.
type Indexes = Vec<(StagedIndex, String)>;

/// What the manifest says of uploads, in order.
fn entries(shards: Vec<StagedShard>, description: &SetDescription) -> Result<(Vec<ShardEntry>, Indexes)> {
    check_names(description)?;
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
