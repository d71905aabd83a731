//! [`Sealing`]: finishes complete shards, which then wait for the commit.

use std::sync::Arc;

use datafusion_common::{DataFusionError, Result};
use datafusion_common_runtime::SpawnedTask;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tfrecord_shards::{Destination, OpenShard, StagedShard};

use super::run::Run;
use super::shards::Shards;
use super::upload::PartUploads;

/// Maximum number of files that all partitions sync at the same time.
const MAX_SYNCING: usize = 64;

/// Maximum for one partition: more is not faster.
const MAX_SYNCING_EACH: usize = 16;

/// The complete shards of a write partition that are being finished: files that are being synced, and uploads whose last
/// parts are being sent.
pub(super) struct Sealing {
    destination: Arc<dyn Destination>,
    /// Maximum number of concurrent syncs.
    most: usize,
    syncing: FuturesUnordered<SpawnedTask<Result<Option<StagedShard>>>>,
    sealed: Vec<StagedShard>,
    uploads: Option<PartUploads>,
}

impl Sealing {
    /// Creates an empty queue for one of `partitions` write partitions.
    pub(super) fn new(run: &Run, partitions: usize) -> Self {
        let (destination, uploads): (Arc<dyn Destination>, _) = match &run.staging.shards {
            Shards::Files(destination) => (Arc::clone(destination), None),
            Shards::Uploads(set) => {
                let uploads = PartUploads::new(set, partitions);
                (Arc::new(uploads.destination()), Some(uploads))
            }
        };
        let most = (MAX_SYNCING / partitions.max(1)).clamp(1, MAX_SYNCING_EACH);
        Self { destination, most, syncing: FuturesUnordered::new(), sealed: Vec::new(), uploads }
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
        for shard in complete {
            while self.syncing.len() >= self.most {
                self.next().await?;
            }
            let finished = finished.clone();
            self.syncing.push(run.wait_for_disk(move |run| {
                let staged = shard.seal().map_err(|error| run.write_error(error))?;
                finished();
                Ok(staged)
            }));
        }
        match &mut self.uploads {
            Some(uploads) => uploads.send().await,
            None => Ok(()),
        }
    }

    /// Waits for all shards.
    pub(super) async fn finish(mut self) -> Result<Vec<StagedShard>> {
        while !self.syncing.is_empty() {
            self.next().await?;
        }
        if let Some(uploads) = self.uploads {
            self.sealed.extend(uploads.finish().await?);
        }
        Ok(self.sealed)
    }

    async fn next(&mut self) -> Result<()> {
        if let Some(synced) = self.syncing.next().await {
            self.sealed.extend(synced.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??);
        }
        Ok(())
    }
}
