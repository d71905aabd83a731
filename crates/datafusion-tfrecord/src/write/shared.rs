//! [`SharedWrite`]: what another process must know to carry on a write by tasks.

use std::path::Path;

use datafusion_common::{DataFusionError, Result, exec_err};
use datafusion_common_runtime::SpawnedTask;
use datafusion_execution::TaskContext;
use serde::{Deserialize, Serialize};
use tfrecord_shards::objects::{Occupant, SharedUploads};
use tfrecord_shards::{ErrorKind, Leftover, LocalCommit, Manifest, RunId, SaveMode, SharedPlace, SharedStaging};

use super::target::WriteTarget;
use super::upload::{ControlArea, UploadTarget, end_dead_runs};
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
        matches!(self.shards, SharedPlace::Store(_))
    }

    /// Returns the local directories in which tasks create files, or that they remove.
    pub fn directories(&self) -> Vec<&Path> {
        let shards = match &self.shards {
            SharedPlace::Directory(at) => Some(at),
            SharedPlace::Store(_) => None,
        };
        shards.into_iter().chain(&self.scratch).flat_map(SharedStaging::places).collect()
    }

    /// Returns the manifest of the set if it is published and in a directory, and removes what the run has left there.
    ///
    /// # Errors
    /// The manifest cannot be read.
    pub fn published(&self) -> Result<Option<Manifest>> {
        match &self.shards {
            SharedPlace::Directory(at) => LocalCommit::published(at).map_err(shards_error),
            SharedPlace::Store(_) => Ok(None),
        }
    }

    /// Removes everything that tasks have staged for a set at `out`. Tasks that still run fail. Does nothing if the set is
    /// published or abandoned.
    ///
    /// # Errors
    /// The file system or the store fails, or another process goes on with the run.
    pub async fn abandon(&self, out: &WriteTarget, mode: SaveMode, context: &TaskContext) -> Result<()> {
        match &self.shards {
            SharedPlace::Store(at) => {
                at.check_format().map_err(shards_error)?;
                control_area(out, at, context)?.end(&Default::default()).await?;
            }
            SharedPlace::Directory(at) => {
                let at = at.clone();
                blocking(move || match LocalCommit::resume(&at, mode) {
                    Err(error) if !matches!(error.kind(), ErrorKind::Ended) => Err(shards_error(error)),
                    commit => {
                        drop(commit.map(LocalCommit::abort));
                        Ok(())
                    }
                })
                .await?;
            }
        }
        self.remove_scratch().await
    }

    /// Removes the sorted rows.
    pub(super) async fn remove_scratch(&self) -> Result<()> {
        let Some(scratch) = self.scratch.clone() else { return Ok(()) };
        blocking(move || scratch.remove_scratch().map_err(shards_error)).await
    }
}

/// Returns the control objects of a run.
pub(super) fn control_area(out: &WriteTarget, at: &SharedUploads, context: &TaskContext) -> Result<ControlArea> {
    let WriteTarget::Store(location) = out else { return exec_err!("{out} is not in an object store") };
    let place = UploadTarget::find(location, &context.runtime_env(), context.session_config())?;
    // A set that is added to changes in place.
    let place = if at.current.is_none() { place.shared(&at.run)? } else { place };
    Ok(ControlArea::new(place, at.run.clone()))
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

pub(super) async fn blocking<T: Send + 'static>(job: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let joined = SpawnedTask::spawn_blocking(job).await;
    joined.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
}
