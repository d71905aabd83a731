//! [`Sealing`]: finishes complete shards, which then wait for the commit.

use std::sync::Arc;

use datafusion_common::{DataFusionError, Result};
use datafusion_common_runtime::SpawnedTask;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use rayon::prelude::*;
use tfrecord_shards::{Destination, OpenShard, StagedShard};

use super::run::Run;
use super::staging::Staging;
use super::task_staging::{TaskShards, TaskStaging};
use super::upload::PartUploads;

/// Maximum number of files that all partitions sync at the same time.
const MAX_SYNCING: usize = 64;

/// Maximum for one partition: more is not faster.
const MAX_SYNCING_EACH: usize = 16;

/// The complete shards of a write partition that are being finished.
pub(super) struct Sealing {
    destination: Arc<dyn Destination>,
    queue: Queue,
}

enum Queue {
    /// Files that are being synced.
    Files {
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
        let destination: Arc<dyn Destination> = match &run.staging {
            Staging::Local(commit) => Arc::new(commit.clone().with_indexes(run.indexed)),
            Staging::Task(TaskStaging { shards: TaskShards::Directory(area), .. }) => {
                Arc::new(area.clone().with_indexes(run.indexed))
            }
            Staging::Task(TaskStaging { shards: TaskShards::Store(set), .. }) | Staging::Uploads(set) => {
                let uploads = PartUploads::new(set, partitions);
                return Self { destination: Arc::new(uploads.destination()), queue: Queue::Uploads(uploads) };
            }
        };
        let most = (MAX_SYNCING / partitions.max(1)).clamp(1, MAX_SYNCING_EACH);
        Self { destination, queue: Queue::Files { most, syncing: FuturesUnordered::new(), sealed: Vec::new() } }
    }

    /// Returns the destination of the partition's shards.
    pub(super) fn destination(&self) -> Arc<dyn Destination> {
        Arc::clone(&self.destination)
    }

    /// Starts to finish shards, as soon as the limit of concurrent work permits. Calls `finished` for each shard that
    /// is done.
    pub(super) async fn seal(
        &mut self,
        run: &Arc<Run>,
        complete: Vec<OpenShard>,
        finished: impl Fn() + Clone + Send + Sync + 'static,
    ) -> Result<()> {
        match &mut self.queue {
            Queue::Files { most, syncing, sealed } => {
                for shard in complete {
                    while syncing.len() >= *most {
                        next(syncing, sealed).await?;
                    }
                    let finished = finished.clone();
                    syncing.push(run.wait_for_disk(move |run| {
                        let staged = shard.seal().map_err(|error| run.write_error(error))?;
                        finished();
                        Ok(staged)
                    }));
                }
            }
            Queue::Uploads(uploads) => {
                if !complete.is_empty() {
                    // Compresses the remaining data of all shards in parallel. They are staged once their parts are sent.
                    run.compute(move |run| {
                        complete.into_par_iter().try_for_each(|shard| {
                            shard.seal().map_err(|error| run.write_error(error))?;
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
        match self.queue {
            Queue::Files { mut syncing, mut sealed, .. } => {
                while !syncing.is_empty() {
                    next(&mut syncing, &mut sealed).await?;
                }
                Ok(sealed)
            }
            Queue::Uploads(uploads) => uploads.finish().await,
        }
    }
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
