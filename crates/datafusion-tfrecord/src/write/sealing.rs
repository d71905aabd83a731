//! [`Sealing`]: finishes complete shards, which then wait for the commit.

use std::sync::Arc;

use datafusion_common::{DataFusionError, Result};
use datafusion_common_runtime::SpawnedTask;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use rayon::prelude::*;
use tfrecord_shards::{OpenShard, StagedShard};

use super::run::Run;
use super::staging::{FileSinks, ShardSink, Sinks, Staging};
use super::task_staging::{TaskShards, TaskStaging};
use super::upload::PartUploads;

/// Maximum number of files that all partitions sync at the same time.
const MAX_SYNCING: usize = 64;

/// Maximum for one partition: more is not faster.
const MAX_SYNCING_EACH: usize = 16;

/// The complete shards of a write partition that are being finished.
pub(super) enum Sealing {
    /// Files that are being synced.
    Files {
        sinks: FileSinks,
        /// Maximum number of concurrent syncs.
        most: usize,
        syncing: FuturesUnordered<SpawnedTask<Result<Option<StagedShard>>>>,
        sealed: Vec<StagedShard>,
    },
    /// Uploads whose last parts are being sent.
    Uploads(PartUploads),
}

impl Sealing {
    /// Creates an empty queue for one of `partitions` write partitions.
    pub(super) fn new(run: &Run, partitions: usize) -> Self {
        let sinks = match &run.staging {
            Staging::Local(commit) => FileSinks::Commit(commit.clone().with_indexes(run.indexed)),
            Staging::Task(TaskStaging { shards: TaskShards::Directory(area), .. }) => {
                FileSinks::Task(area.clone().with_indexes(run.indexed))
            }
            Staging::Task(TaskStaging { shards: TaskShards::Store(set), .. }) | Staging::Uploads(set) => {
                return Self::Uploads(PartUploads::new(set, partitions));
            }
        };
        let most = (MAX_SYNCING / partitions.max(1)).clamp(1, MAX_SYNCING_EACH);
        Self::Files { sinks, most, syncing: FuturesUnordered::new(), sealed: Vec::new() }
    }

    /// Returns the factory for the partition's shards.
    pub(super) fn sinks(&self) -> Sinks {
        match self {
            Self::Files { sinks, .. } => Sinks::Files(sinks.clone()),
            Self::Uploads(uploads) => Sinks::Uploads(uploads.sinks()),
        }
    }

    /// Starts to finish shards, as soon as the limit of concurrent work permits. Calls `finished` for each shard that
    /// is done.
    pub(super) async fn seal(
        &mut self,
        run: &Arc<Run>,
        complete: Vec<OpenShard<ShardSink>>,
        finished: impl Fn() + Clone + Send + Sync + 'static,
    ) -> Result<()> {
        match self {
            Self::Files { most, syncing, sealed, .. } => {
                for shard in complete {
                    while syncing.len() >= *most {
                        next(syncing, sealed).await?;
                    }
                    let finished = finished.clone();
                    syncing.push(run.wait_for_disk(move |run| {
                        let staged = close(shard, run)?;
                        finished();
                        Ok(staged)
                    }));
                }
            }
            Self::Uploads(uploads) => {
                if !complete.is_empty() {
                    // Compresses the remaining data of all shards in parallel.
                    run.compute(move |run| {
                        complete.into_par_iter().try_for_each(|shard| {
                            close(shard, run)?;
                            finished();
                            Ok(())
                        })
                    })
                    .await?;
                }
                uploads.send().await?;
            }
        }
        Ok(())
    }

    /// Waits for all shards.
    pub(super) async fn finish(self) -> Result<Vec<StagedShard>> {
        match self {
            Self::Files { mut syncing, mut sealed, .. } => {
                while !syncing.is_empty() {
                    next(&mut syncing, &mut sealed).await?;
                }
                Ok(sealed)
            }
            Self::Uploads(uploads) => uploads.finish().await,
        }
    }
}

/// Closes a shard. A file is then staged; an upload is staged once all its parts are sent.
fn close(shard: OpenShard<ShardSink>, run: &Run) -> Result<Option<StagedShard>> {
    let (sink, stats) = shard.finish().map_err(|error| run.write_error(error))?;
    match sink {
        ShardSink::File(file) => file.seal(stats).map(Some),
        ShardSink::Upload(upload) => upload.end(stats).map(|()| None).map_err(Into::into),
    }
    .map_err(|error| run.write_error(error))
}

async fn next(
    syncing: &mut FuturesUnordered<SpawnedTask<Result<Option<StagedShard>>>>,
    sealed: &mut Vec<StagedShard>,
) -> Result<()> {
    if let Some(synced) = syncing.next().await {
        sealed.extend(synced.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??);
    }
    Ok(())
}
