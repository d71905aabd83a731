//! How a set appears in a store that renames directories: it is written beside the target, and renamed.
//!
//! | target | steps | after a kill in between |
//! |---|---|---|
//! | absent, or an empty directory | the new set is renamed to the target | nothing, or new |
//! | a set, which is replaced | the target is renamed aside; the new set is renamed to the target | old, absent, or new |
//!
//! Such a store cannot exchange two directories. If a run is killed between the two renames, the new set is complete and only
//! its name is missing: the next run that writes there [renames](UploadTarget::mend) it. That is the very request which the run
//! would have sent, so it does no harm to a run that lives: that run finds its set at the target. If rows were appended before the
//! target was renamed, the old set gets its name back, as the run would have done it.

use chrono::{DateTime, Utc};
use datafusion_common::{DataFusionError, Result};
use object_store::ObjectMeta;
use object_store::path::Path;
use tfr_stores::{DirectoryStore, Found};
use tfrecord_shards::objects::{Beside, Occupant, may_be_live};
use tfrecord_shards::{ErrorKind, Leftover, Manifest, RunId, SUCCESS_NAME, SaveMode};

use super::target::{UploadTarget, describe};
use crate::error::shards_error;

/// Number of times that a target is inspected again because another run has changed it.
const TRIES: usize = 5;

/// A target without a set that is to be removed, in the directory of the run that does it.
const VACATED_NAME: &str = ".tfr.vacated";

/// The manifest of the set that a run is to replace, in the directory of the run.
const BEFORE_NAME: &str = "before.json";

/// A directory of a run beside the target.
struct RunDirectory {
    name: String,
    of: Beside,
    modified: DateTime<Utc>,
}

/// Why a set was not installed.
pub(super) struct Uninstalled {
    pub(super) error: DataFusionError,
    /// Whether both sets are beside the target, where the next run finds them.
    pub(super) keeps: bool,
}

impl From<DataFusionError> for Uninstalled {
    fn from(error: DataFusionError) -> Self {
        Self { error, keeps: false }
    }
}

impl UploadTarget {
    /// Returns the same target; files go to a directory beside it. The target itself, if the store does not rename directories.
    ///
    /// # Errors
    /// [`ErrorKind::Protected`]: the target is the root.
    pub(super) fn staged(&self, run: &RunId) -> Result<Self> {
        let prefix = match self.directories {
            Some(_) => self.beside(&self.names(run)?.set),
            None => self.prefix.clone(),
        };
        Ok(self.at(prefix))
    }

    /// Returns the same target, with the directory for what tasks of a new set record: the one that contains the set.
    pub(crate) fn shared(&self, run: &RunId) -> Result<Self> {
        let prefix = match self.directories {
            Some(_) => self.beside(&self.names(run)?.staging),
            None => self.prefix.clone(),
        };
        Ok(self.at(prefix))
    }

    /// Returns the same target, with the files where readers find them.
    pub(super) fn unstaged(&self) -> Self {
        self.at(self.location.key().clone())
    }

    /// Whether the files go to another directory than the target.
    pub(super) fn is_staged(&self) -> bool {
        self.prefix != *self.location.key()
    }

    fn name(&self) -> Result<&str> {
        let root = || ErrorKind::Protected { path: self.out(), what: "the root of the file system" };
        self.location.key().filename().ok_or_else(|| shards_error(root().into()))
    }

    fn names(&self, run: &RunId) -> Result<Beside> {
        Ok(Beside::new(self.name()?, run))
    }

    /// Returns the path of a directory beside the target.
    fn beside(&self, name: &str) -> Path {
        let target = self.location.key().as_ref();
        let parent = target.rsplit_once('/').map_or("", |(parent, _)| parent);
        path(&format!("{parent}/{name}"))
    }

    /// Makes the directory beside the target. Fails before anything is computed if the user must not write there.
    pub(super) async fn make_staging(&self) -> Result<()> {
        let Some(store) = self.directories.as_deref().filter(|_| self.is_staged()) else { return Ok(()) };
        Ok(store.make_directory(&self.prefix).await.map_err(|error| self.error("make", &self.prefix, error))?)
    }

    /// Records the set that a run is to replace.
    pub(super) async fn record_before(&self, run: &RunId, before: &Manifest) -> Result<()> {
        let json = before.to_json().map_err(shards_error)?;
        self.shared(run)?.put_file(BEFORE_NAME, json).await
    }

    /// Returns the set that a run is to replace, as it has recorded it.
    pub(super) async fn recorded_before(&self, run: &RunId) -> Result<Option<Manifest>> {
        let Some(json) = self.shared(run)?.read_file(BEFORE_NAME).await? else { return Ok(None) };
        Ok(Some(Manifest::from_json(&json, &self.out().join(BEFORE_NAME)).map_err(shards_error)?))
    }

    /// Returns the directories of runs beside the target, with their names.
    async fn runs_beside(&self, store: &dyn DirectoryStore) -> Result<Vec<RunDirectory>> {
        let (target, parent) = (self.name()?, self.beside(""));
        let found = store.directories(&parent).await.map_err(|error| self.error("list", &parent, error))?;
        let of_run = |found: ObjectMeta| {
            let name = found.location.filename()?.to_owned();
            Some(RunDirectory { of: Beside::of(&name, target)?, name, modified: found.last_modified })
        };
        Ok(found.into_iter().filter_map(of_run).collect())
    }

    async fn found(&self, store: &dyn DirectoryStore, path: &Path) -> Result<Option<Found>> {
        Ok(store.found(path).await.map_err(|error| self.error("inspect", path, error))?)
    }

    /// Finishes an overwrite that was killed between its two renames.
    ///
    /// # Errors
    /// The target is a file, or a request fails.
    pub(super) async fn mend(&self) -> Result<()> {
        let Some(store) = self.directories.as_deref() else { return Ok(()) };
        let target = self.location.key();
        let runs = self.runs_beside(store).await?;
        let at_target = self.found(store, target).await?;
        if at_target == Some(Found::File) {
            return Err(shards_error(ErrorKind::NotADirectory { path: self.out() }.into()));
        }
        for RunDirectory { name, of: run, .. } in runs {
            let set = self.beside(&run.set);
            let success = path(&format!("{set}/{SUCCESS_NAME}"));
            if !run.is_replaced(&name) || self.found(store, &success).await? != Some(Found::File) {
                continue;
            }
            if at_target.is_some() && !self.vacate(store, &run.staging).await? {
                return Ok(());
            }
            let replaced = self.beside(&name);
            let moved = self.at(replaced.clone()).manifest().await?.map(|stored| stored.manifest);
            if has_grown(self.recorded_before(&run.run).await?.as_ref(), moved.as_ref()) {
                match store.rename_directory(&replaced, target).await {
                    Ok(()) | Err(object_store::Error::NotFound { .. } | object_store::Error::AlreadyExists { .. }) => {
                        return Ok(());
                    }
                    Err(error) => return Err(self.error("publish", &replaced, error).into()),
                }
            }
            match store.rename_directory(&set, target).await {
                Ok(()) => {
                    let (out, run) = (self.out(), &run.run);
                    log::warn!("{}: run {run} had not ended its replacement, which is now done", out.display());
                    self.remove_beside(store, &self.names(run)?).await;
                }
                // The run itself was faster, or another one.
                Err(object_store::Error::NotFound { .. } | object_store::Error::AlreadyExists { .. }) => {}
                Err(error) => return Err(self.error("publish", &set, error).into()),
            }
        }
        Ok(())
    }

    /// Renames the set that `run` has written beside the target. `before` is the set that was there when the run began.
    pub(super) async fn install(
        &self,
        run: &RunId,
        mode: SaveMode,
        before: Option<&Manifest>,
    ) -> Result<(), Uninstalled> {
        let Some(store) = self.directories.as_deref() else { return Ok(()) };
        let target = self.location.key();
        let names = self.names(run)?;
        let (set, replaced) = (self.beside(&names.set), self.beside(&names.replaced));
        let failed = |error| DataFusionError::from(self.error("publish", target, error));
        for _ in 0..TRIES {
            self.mend().await?;
            // An earlier request of this run, another process that ends it, or a run that mends has done it.
            if self.is_of(run).await {
                return Ok(());
            }
            let now =
                if mode == SaveMode::Overwrite { self.manifest().await?.map(|stored| stored.manifest) } else { None };
            if mode == SaveMode::Overwrite {
                if has_grown(before, now.as_ref()) {
                    return Err(self.superseded().into());
                }
                self.inspect(mode).await?;
                if let Some(now) = &now {
                    self.record_before(run, now).await?;
                }
            }
            let has_target = self.found(store, target).await?.is_some();
            if has_target {
                match store.keep_permissions(target, &set).await {
                    Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                    Err(error) => return Err(failed(error).into()),
                }
            }
            if mode != SaveMode::Overwrite || !has_target {
                match self.put_in_place(store, &set, run).await {
                    Ok(()) => return Ok(()),
                    Err(object_store::Error::AlreadyExists { .. }) if mode == SaveMode::Overwrite => continue,
                    Err(object_store::Error::AlreadyExists { .. }) => {
                        return Err(self.refused(store, mode).await?.into());
                    }
                    Err(error) => return Err(failed(error).into()),
                }
            }
            let error = match store.rename_directory(target, &replaced).await {
                Ok(()) => {
                    let moved = self.at(replaced.clone());
                    match moved.manifest().await {
                        // Another process has ended this run meanwhile: its set is moved back.
                        Ok(Some(moved)) if moved.manifest.last_run() == run.as_str() => {
                            let back = store.rename_directory(&replaced, target).await;
                            return back.map_err(|error| Uninstalled { error: failed(error), keeps: true });
                        }
                        // Rows were appended since it was inspected.
                        Ok(moved) if has_grown(now.as_ref(), moved.as_ref().map(|stored| &stored.manifest)) => {
                            self.superseded()
                        }
                        // Files of others may have come since, too.
                        Ok(_) => match moved.inspect(mode).await.map(|_| ()) {
                            Err(error) => error,
                            Ok(()) => match self.put_in_place(store, &set, run).await {
                                Ok(()) => return Ok(()),
                                Err(object_store::Error::AlreadyExists { .. })
                                    if matches!(self.vacate(store, &names.staging).await, Ok(true))
                                        && self.put_in_place(store, &set, run).await.is_ok() =>
                                {
                                    return Ok(());
                                }
                                // Another run has put its set there meanwhile: both have replaced the old set, and
                                // the later one wins.
                                Err(object_store::Error::AlreadyExists { .. })
                                    if matches!(self.manifest().await, Ok(Some(_))) =>
                                {
                                    self.remove_directory(store, &names.replaced).await;
                                    continue;
                                }
                                Err(error) => failed(error),
                            },
                        },
                        Err(error) => error,
                    }
                }
                // Another run is between its two renames.
                Err(object_store::Error::NotFound { .. }) => continue,
                // It may have been done.
                Err(error) => failed(error),
            };
            return Err(match store.rename_directory(&replaced, target).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => error.into(),
                Err(not_back) => {
                    log::warn!(
                        "{}: the set that was there is in {replaced}, and the new one in {set}: {}; the next run that finds \
                         no set at the target publishes the new one",
                        self.out().display(),
                        describe(&not_back)
                    );
                    Uninstalled { error, keeps: true }
                }
            });
        }
        Err(self.superseded().into())
    }

    /// Removes a target without files of sets or of others. A run that was adding to the set when it was moved aside may have made
    /// it. It is moved into `staging` first, so that what is removed is what was inspected. Returns whether it is gone.
    async fn vacate(&self, store: &dyn DirectoryStore, staging: &str) -> Result<bool> {
        if !matches!(self.inspect(SaveMode::Error).await, Ok(Occupant::Vacant)) {
            return Ok(false);
        }
        let (target, aside) = (self.location.key(), self.beside(&format!("{staging}/{VACATED_NAME}")));
        match store.rename_directory(target, &aside).await {
            Ok(()) => {}
            Err(object_store::Error::NotFound { .. }) => return Ok(self.found(store, target).await?.is_none()),
            Err(error) => return Err(self.error("move", target, error).into()),
        }
        if !matches!(self.at(aside.clone()).inspect(SaveMode::Error).await, Ok(Occupant::Vacant)) {
            store.rename_directory(&aside, target).await.map_err(|error| self.error("publish", &aside, error))?;
            return Ok(false);
        }
        store.remove_directory(&aside).await.map_err(|error| self.error("remove", &aside, error))?;
        Ok(true)
    }

    /// Renames the new set to the target.
    async fn put_in_place(&self, store: &dyn DirectoryStore, set: &Path, run: &RunId) -> object_store::Result<()> {
        match store.rename_directory(set, self.location.key()).await {
            // Only the answer was lost, or another run has done it.
            Err(_) if self.is_of(run).await => Ok(()),
            renamed => renamed,
        }
    }

    /// Whether the set at the target is that of `run`.
    pub(super) async fn is_of(&self, run: &RunId) -> bool {
        matches!(self.manifest().await, Ok(Some(found)) if found.manifest.last_run() == run.as_str())
    }

    fn superseded(&self) -> DataFusionError {
        shards_error(ErrorKind::Superseded { path: self.out() }.into())
    }

    /// Returns the error of a run that found something at a target that was absent when it began.
    async fn refused(&self, store: &dyn DirectoryStore, mode: SaveMode) -> Result<DataFusionError> {
        if mode.keeps_set() {
            return Ok(self.superseded());
        }
        let found = match self.inspect(SaveMode::Ignore).await? {
            Occupant::Ignored { found } => found,
            // Directories without files.
            _ => {
                let found = store.directories(self.location.key()).await.unwrap_or_default();
                found.iter().filter_map(|found| found.location.filename()).map(str::to_owned).collect()
            }
        };
        Ok(shards_error(ErrorKind::NotEmpty { path: self.out(), found }.into()))
    }

    /// Removes what a run has beside the target, once it is published or has failed. What stays is hidden, and removed by a
    /// later run.
    pub(super) async fn clear(&self, run: &RunId) {
        if let (Some(store), Ok(names)) = (self.directories.as_deref(), self.names(run)) {
            self.remove_beside(store, &names).await;
        }
    }

    /// As [`clear`](Self::clear), of a run that has replaced nothing. If it has, the next run needs what is there.
    pub(super) async fn clear_staging(&self, run: &RunId) {
        if let (Some(store), Ok(names)) = (self.directories.as_deref(), self.names(run))
            && matches!(store.found(&self.beside(&names.replaced)).await, Ok(None))
        {
            self.remove_directory(store, &names.staging).await;
        }
    }

    /// Removes a directory that contained objects, given its path relative to the prefix.
    pub(super) async fn remove_empty(&self, directory: &str) -> Result<()> {
        let Some(store) = self.directories.as_deref() else { return Ok(()) };
        let path = self.key(directory).map_err(shards_error)?;
        Ok(store.remove_directory(&path).await.map_err(|error| self.error("remove", &path, error))?)
    }

    async fn remove_beside(&self, store: &dyn DirectoryStore, names: &Beside) {
        // The old set last: what is beside the target without it has not replaced anything.
        for name in [&names.staging, &names.replaced] {
            self.remove_directory(store, name).await;
        }
    }

    async fn remove_directory(&self, store: &dyn DirectoryStore, name: &str) {
        if let Err(error) = store.remove_directory(&self.beside(name)).await {
            log::warn!("{}: {name} beside it cannot be removed: {}", self.out().display(), describe(&error));
        }
    }

    /// Removes what other runs have left beside the target: sets that were replaced, and what nobody has changed for 24 hours.
    /// As long as the target is absent, a set that was moved aside stays, with the one that is to replace it.
    ///
    /// # Errors
    /// A request fails.
    pub(crate) async fn clear_dead(&self) -> Result<Vec<Leftover>> {
        let Some(store) = self.directories.as_deref() else { return Ok(Vec::new()) };
        let has_target = self.found(store, self.location.key()).await?.is_some();
        let runs = self.runs_beside(store).await?;
        let mut removed = Vec::new();
        for RunDirectory { name, of, .. } in &runs {
            let has_replaced = runs.iter().any(|other| other.name == of.replaced);
            let is_dead = match runs.iter().find(|other| other.name == of.staging) {
                Some(staging) => {
                    let newest = self.newest_below(&self.beside(&of.staging)).await?;
                    !may_be_live(newest.map_or(staging.modified, |newest| newest.max(staging.modified)))
                }
                // The run has published its set.
                None => true,
            };
            if is_dead && (has_target || !has_replaced) {
                let path = self.beside(name);
                store.remove_directory(&path).await.map_err(|error| self.error("remove", &path, error))?;
                removed.push(Leftover { path: path.as_ref().into(), run: of.run.to_string(), live: false });
            }
        }
        Ok(removed)
    }
}

/// Returns a path whose names are not to be encoded again.
fn path(text: &str) -> Path {
    Path::parse(text).unwrap_or_else(|_| Path::from(text))
}

/// Whether rows were appended to a set since it was to be replaced.
fn has_grown(before: Option<&Manifest>, now: Option<&Manifest>) -> bool {
    before.zip(now).is_some_and(|(before, now)| before.run == now.run && before.appended.len() < now.appended.len())
}
