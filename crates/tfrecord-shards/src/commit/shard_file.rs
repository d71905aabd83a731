//! [`ShardFile`]: a shard being written to a staging directory.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::commit::publication::StagedShard;
use crate::commit::uncached::UncachedFile;
use crate::error::{AtPath, ErrorKind, Result};
use crate::set::group::ShardGroup;
use crate::write::shard_writer::ShardStats;

/// The directory of staged shards. It is retained as long as a shard in it is open.
pub(crate) trait ShardHome: fmt::Debug + Send + Sync {
    fn dir(&self) -> &Path;

    /// A shard is no longer open.
    fn closed(&self) {}
}

/// A shard being written to the staging directory. The directory is retained as long as the shard is open.
///
/// Its bytes bypass the page cache, a few MiB at a time, if the file system supports that.
#[derive(Debug)]
pub struct ShardFile {
    file: UncachedFile,
    name: String,
    partition: u32,
    sequence: u32,
    group: ShardGroup,
    home: Arc<dyn ShardHome>,
}

impl ShardFile {
    /// `number` is the write partition and the number within it.
    pub(crate) fn new(
        file: UncachedFile,
        name: String,
        number: (u32, u32),
        group: ShardGroup,
        home: Arc<dyn ShardHome>,
    ) -> Self {
        Self { file, name, partition: number.0, sequence: number.1, group, home }
    }

    /// Returns its name in the staging directory.
    pub fn staged(&self) -> &str {
        &self.name
    }

    /// Returns its path while it is staged.
    pub fn path(&self) -> PathBuf {
        self.home.dir().join(&self.name)
    }

    /// Syncs the file to disk, which may take a while, and closes it.
    ///
    /// # Errors
    /// If that fails, or the file has another length than its writer recorded.
    pub fn seal(mut self, stats: ShardStats) -> Result<StagedShard> {
        let path = self.path();
        self.file.sync_all().at("sync", &path)?;
        let found = self.file.len().at("inspect", &path)?;
        if found != stats.file_bytes {
            return Err(ErrorKind::ShardLength { path, expected: stats.file_bytes, found }.into());
        }
        Ok(StagedShard::new(&self.name, self.partition, self.sequence, stats).with_group(self.group.clone()))
    }
}

impl Write for ShardFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for ShardFile {
    fn drop(&mut self) {
        self.home.closed();
    }
}
