//! [`DirectWriter`]: writes framed records to staged shards.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use arrow_tfrecord::RecordBuffer;
use rayon::ThreadPool;
use tfrecord_framing::{Compression, Level};

use crate::commit::local::LocalCommit;
use crate::commit::publication::StagedShard;
use crate::error::Result;
use crate::write::job::Job;
use crate::write::open_shards::OpenShards;
use crate::write::sharding::{ShardRule, Sharding};

/// Maximum number of shards being synced in addition to those being written.
const MAX_CLOSING: usize = 16;

/// Writes records to the shards of a set. Complete shards are synced in the background.
pub(crate) struct DirectWriter {
    pool: Arc<ThreadPool>,
    commit: LocalCommit,
    rule: ShardRule,
    /// Number of shards to create even if they get no records.
    required: usize,
    open: OpenShards,
    /// Shards being finished and synced, oldest first.
    closing: VecDeque<Job<Result<StagedShard>>>,
    staged: Vec<StagedShard>,
}

impl DirectWriter {
    /// `rule` must implement `sharding`. Shards are compressed and synced on `pool`.
    pub(crate) fn new(
        commit: LocalCommit,
        pool: Arc<ThreadPool>,
        (sharding, rule): (Sharding, ShardRule),
        (compression, level): (Compression, Level),
    ) -> Result<Self> {
        let required = if let Sharding::Count(count) = sharding { count.get() } else { 1 };
        let mut open = OpenShards::new(commit.clone(), 0, compression, level);
        if !rule.is_sequential() {
            // Open all shards first, so that a limit on open files is reported before any work is done.
            (0..required).try_for_each(|shard| open.open(shard))?;
        }
        Ok(Self { pool, commit, rule, required, open, closing: VecDeque::new(), staged: Vec::new() })
    }

    /// Adds records to their shards.
    pub(crate) fn write(&mut self, records: &RecordBuffer) -> Result<()> {
        let pieces = self.rule.place(records.len(), |record| records.record_end(record));
        let sequential = self.rule.is_sequential();
        let step = if sequential { OpenShards::MAX_PIECES } else { pieces.len().max(1) };
        for pieces in pieces.chunks(step) {
            let appended = self.pool.install(|| self.open.append(records, pieces));
            appended.map_err(|error| error.with_path(self.commit.out()))?;
            if sequential {
                self.close_before(pieces.last().map_or(0, |piece| piece.shard))?;
            }
        }
        Ok(())
    }

    fn close_before(&mut self, shard: usize) -> Result<()> {
        for complete in self.open.take_before(shard) {
            self.wait(MAX_CLOSING - 1)?;
            let out = self.commit.out().to_owned();
            let seal = move || complete.seal().map_err(|error| error.with_path(&out));
            self.closing.push_back(Job::start(&self.pool, seal));
        }
        Ok(())
    }

    /// Finishes every shard.
    pub(crate) fn finish(mut self) -> Result<Vec<StagedShard>> {
        self.close_before(usize::MAX)?;
        self.wait(0)?;
        let there: BTreeSet<_> = self.staged.iter().map(|shard| shard.sequence as usize).collect();
        for shard in (0..self.required).filter(|shard| !there.contains(shard)) {
            self.open.open(shard)?;
            self.close_before(usize::MAX)?;
        }
        self.wait(0)?;
        Ok(std::mem::take(&mut self.staged))
    }

    /// Waits until at most `closing` shards are being closed.
    fn wait(&mut self, closing: usize) -> Result<()> {
        while self.closing.len() > closing
            && let Some(oldest) = self.closing.pop_front()
        {
            self.staged.push(oldest.wait()??);
        }
        Ok(())
    }
}

impl Drop for DirectWriter {
    fn drop(&mut self) {
        // Unwanted shards must be gone when this returns, because the process may exit right after.
        for shard in self.closing.drain(..) {
            shard.end(&self.pool);
        }
    }
}
