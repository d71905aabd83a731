//! [`Sealing`]: shards that are complete, on their way to where they wait for the commit.

use std::sync::Arc;

use datafusion_common::{DataFusionError, Result};
use datafusion_common_runtime::SpawnedTask;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use rayon::prelude::*;
use tfrecord_shards::{LocalCommit, OpenShard, StagedShard};

use super::run::Run;
use super::staging::{ShardSink, Sinks, Staging};
use super::upload::PartUploads;

/// Most files that all partitions sync at the same time.
const MAX_SYNCING: usize = 64;

/// Most of them that one partition syncs: more is not faster.
const MAX_SYNCING_EACH: usize = 16;

/// The shards of a write partition that no more records go to.
pub(super) enum Sealing {
    /// Files, which are synced.
    Files {
        commit: LocalCommit,
        /// Whether shards have indexes.
        indexed: bool,
        /// How many may be synced at the same time.
        most: usize,
        syncing: FuturesUnordered<SpawnedTask<Result<Option<StagedShard>>>>,
        sealed: Vec<StagedShard>,
    },
    /// Uploads, whose last parts are sent.
    Uploads(PartUploads),
}

impl Sealing {
    /// None yet, of one of so many write partitions.
    pub(super) fn new(run: &Run, partitions: usize) -> Self {
        match &run.staging {
            Staging::Local(commit) => {
                let most = (MAX_SYNCING / partitions.max(1)).clamp(1, MAX_SYNCING_EACH);
                let (commit, indexed) = (commit.clone(), run.indexed);
                Self::Files { commit, indexed, most, syncing: FuturesUnordered::new(), sealed: Vec::new() }
            }
            Staging::Uploads(set) => Self::Uploads(PartUploads::new(set, partitions)),
        }
    }

    /// Where the partition's shards are made.
    pub(super) fn sinks(&self) -> Sinks {
        match self {
            Self::Files { commit, indexed, .. } => Sinks::Local { commit: commit.clone(), indexed: *indexed },
            Self::Uploads(uploads) => Sinks::Uploads(uploads.sinks()),
        }
    }

    /// Starts to finish shards, once not too much else is under way, and what else there is to do now and then. `finished`
    /// is called for each.
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
                    // What is left of each is compressed, all in parallel.
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

    /// Waits for all of them.
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

/// Finishes a shard. A file is staged then; an upload when all its parts are sent.
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
