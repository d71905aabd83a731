//! [`SharedWrite`]: what another process must know to carry on a write by tasks.

use std::path::Path;

use datafusion_common::{Result, exec_err};
use datafusion_execution::TaskContext;
use serde::{Deserialize, Serialize};
use tfrecord_shards::objects::Occupant;
use tfrecord_shards::{
    AttemptId, Leftover, LocalCommit, Manifest, RunId, SaveMode, SharedPlace, SharedStaging, StagingArea,
};

use super::attempt_store::{AttemptDirectory, AttemptStore};
use super::options::WriteOptions;
use super::running::{Running, blocking};
use super::shards::Shards;
use super::target::WriteTarget;
use super::task_staging::TaskStaging;
use super::upload::{UploadAttempts, UploadTarget, end_dead_runs};
use crate::error::shards_error;

/// What another process must know to take part in a write by tasks, apart from the plan and the options. A small value
/// that can be serialized.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedWrite {
    pub(super) shards: SharedPlace,
    /// For sorted rows, if these are not next to the shards.
    pub(super) scratch: Option<SharedStaging>,
}

impl SharedWrite {
    /// Returns the run that writes the set.
    pub fn run(&self) -> &RunId {
        self.shards.run()
    }

    /// Whether the shards are uploaded to an object store.
    pub fn is_in_store(&self) -> bool {
        self.shards.directory().is_none()
    }

    /// Returns the local directories in which tasks create files, or that they remove.
    pub fn directories(&self) -> Vec<&Path> {
        self.shards.directory().into_iter().chain(&self.scratch).flat_map(SharedStaging::places).collect()
    }

    /// Returns the manifest of the set if it is published and in a directory, and removes what the run has left there.
    ///
    /// # Errors
    /// The manifest cannot be read.
    pub fn published(&self) -> Result<Option<Manifest>> {
        self.shards.directory().map_or(Ok(None), |at| LocalCommit::published(at).map_err(shards_error))
    }

    /// Removes everything that tasks have staged for a set with these options. Tasks that still run fail. Does nothing if
    /// the set is published or abandoned.
    ///
    /// # Errors
    /// The file system or the store fails, or another process goes on with the run.
    pub async fn abandon(&self, options: &WriteOptions, context: &TaskContext) -> Result<()> {
        self.attempts(options, context)?.abandon().await?;
        self.remove_scratch().await
    }

    /// Returns where attempts of tasks stage the shards.
    pub(super) fn attempts<'a>(
        &'a self,
        options: &'a WriteOptions,
        context: &'a TaskContext,
    ) -> Result<Box<dyn AttemptStore + 'a>> {
        Ok(match &self.shards {
            SharedPlace::Directory(at) => Box::new(AttemptDirectory::new(at, options)),
            SharedPlace::Store(at) => Box::new(UploadAttempts::new(at, options, context)?),
        })
    }

    /// Begins a new attempt of a task.
    ///
    /// # Errors
    /// The set is published or abandoned.
    pub(super) async fn join(
        &self,
        options: &WriteOptions,
        context: &TaskContext,
        running: Running,
    ) -> Result<(Shards, TaskStaging)> {
        let id = AttemptId::new();
        let scratch = self.scratch.as_ref().map(|scratch| StagingArea::join(scratch, id)).transpose();
        let scratch = scratch.map_err(shards_error)?;
        let begun = self.attempts(options, context)?.begin(id, running).await?;
        Ok(TaskStaging::new(self.run().clone(), id, begun, scratch))
    }

    /// Removes the sorted rows.
    pub(super) async fn remove_scratch(&self) -> Result<()> {
        let Some(scratch) = self.scratch.clone() else { return Ok(()) };
        blocking(move || scratch.remove_scratch().map_err(shards_error)).await
    }
}

/// The result of [`remove_upload_leftovers`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UploadLeftovers {
    /// The directories of what was removed.
    pub removed: Vec<Leftover>,
    /// Whether there is nothing else below the target.
    pub is_empty: bool,
}

/// Removes what tasks have uploaded to `out`, a prefix in an object store, in runs that nobody has carried on for 24
/// hours. The set there is not changed.
///
/// # Errors
/// The session has no uploads to this store, or a request fails.
pub async fn remove_upload_leftovers(out: &WriteTarget, context: &TaskContext) -> Result<UploadLeftovers> {
    let WriteTarget::Store(location) = out else { return exec_err!("{out} is not in an object store") };
    let place = UploadTarget::find(location, &context.runtime_env(), context.session_config())?;
    let removed = end_dead_runs(&place).await?;
    let is_empty = place.inspect(SaveMode::Ignore).await? == Occupant::Vacant;
    Ok(UploadLeftovers { removed, is_empty })
}
