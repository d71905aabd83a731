//! [`Destination`]: where the shards of a set go. [`SetCommit`] makes them a set, [`TaskAttempt`] a part of one.
//!
//! | | [`Destination`]: create, seal | then |
//! |---|---|---|
//! | a local set | [`LocalCommit`]: files in a staging directory | [`SetCommit`]: publish, or detach to tasks |
//! | a task of a local set | [`StagingArea`]: files next to those of other attempts | [`TaskAttempt`]: report |
//! | a set in an object store, or a task of one | uploads that are not completed | either |
//!
//! The last is outside of this crate, which has no network: a caller with async requests waits for them in these methods, on
//! threads that may block.

use std::fmt;
use std::io::Write;

use serde::{Deserialize, Serialize};

use crate::commit::local::LocalCommit;
use crate::commit::objects::SharedUploads;
use crate::commit::publication::StagedShard;
use crate::commit::report::TaskReport;
use crate::commit::shard_file::ShardFile;
use crate::commit::shared_staging::SharedStaging;
use crate::commit::staging_area::StagingArea;
use crate::error::{Result, SidecarsError};
use crate::set::group::{ShardGroup, ShardPlace};
use crate::set::manifest::{Manifest, SetDescription};
use crate::set::names::RunId;
use crate::set::sidecar::Sidecar;
use crate::write::index_writer::IndexFile;
use crate::write::shard_writer::ShardStats;

/// Where shards are until they are published: a staging directory, an attempt of a task there, or an object store.
pub trait Destination: Send + Sync {
    /// Creates shard `sequence` of write partition `partition`. Shards of the set are numbered in this order. `place` is
    /// its position in the set, if that is known before all rows are written.
    ///
    /// # Errors
    /// If the shard was created before or cannot be created.
    fn create(&self, partition: u32, sequence: u32, place: Option<ShardPlace<'_>>) -> Result<Box<dyn ShardSink>>;

    /// Returns the file for a shard's index, if indexes are written.
    ///
    /// # Errors
    /// If it cannot be created.
    fn index_file(&self, partition: u32, sequence: u32) -> Result<Option<IndexFile>> {
        let _ = (partition, sequence);
        Ok(None)
    }

    /// Whether small writes are as fast as large ones, so that shards need no buffer.
    fn takes_small_writes(&self) -> bool {
        false
    }
}

/// Receives the bytes of one shard.
pub trait ShardSink: Write + Send + fmt::Debug {
    /// Completes the shard, which has received all of its bytes. May wait for the disk. Returns `None` if the shard is
    /// staged later: once other threads have sent its bytes.
    ///
    /// # Errors
    /// If the bytes cannot be stored, or their number is not that of `stats`.
    fn seal(self: Box<Self>, stats: ShardStats) -> Result<Option<StagedShard>>;
}

impl ShardSink for ShardFile {
    fn seal(self: Box<Self>, stats: ShardStats) -> Result<Option<StagedShard>> {
        ShardFile::seal(*self, stats).map(Some)
    }
}

/// A set whose shards are staged, to be published completely or not at all. What is staged is removed when the last
/// reference is dropped, unless it was published or [detached](Self::detach).
pub trait SetCommit: Send + Sync {
    /// Returns the run that writes the set.
    fn run(&self) -> &RunId;

    /// Returns the existing set that the shards are appended to, if there is one.
    fn current(&self) -> Option<&Manifest>;

    /// Publishes a set of these shards, or appends them to the existing set, with the sidecars that `sidecars` produces.
    /// Returns the manifest of the whole set. May wait for the disk or for requests.
    ///
    /// # Errors
    /// If the set cannot be published. The target is then unchanged, as far as possible.
    fn publish(&self, shards: Vec<StagedShard>, set: SetDescription, sidecars: MakeSidecars) -> Result<Manifest>;

    /// Leaves the set to tasks in other processes, before anything is staged.
    ///
    /// # Errors
    /// If shards are open, or what tasks need cannot be stored.
    fn detach(&self) -> Result<SharedPlace>;
}

/// Produces the sidecars of a set whose manifest is known.
pub type MakeSidecars = Box<dyn FnOnce(&Manifest) -> Result<Vec<Sidecar>, SidecarsError> + Send>;

/// An attempt of a task of such a set, which is complete once it has reported. What it has staged is removed when the last
/// reference is dropped, unless it has reported.
pub trait TaskAttempt: Send + Sync {
    /// Puts the report, which makes the attempt complete. Its shards are left to the process that publishes the set.
    ///
    /// # Errors
    /// If the set is published or aborted ([`ErrorKind::Ended`](crate::ErrorKind::Ended)), or the report cannot be stored.
    fn put_report(&self, report: &TaskReport) -> Result<()>;
}

/// Where the staged shards of a set are that tasks write: what other processes must know to join. A small value that can be
/// serialized.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SharedPlace {
    /// In a directory that all processes see.
    Directory(SharedStaging),
    /// In an object store, as uploads that are not completed.
    Store(SharedUploads),
}

impl SharedPlace {
    /// Returns the run that writes the set.
    pub fn run(&self) -> &RunId {
        match self {
            Self::Directory(at) => at.run(),
            Self::Store(at) => &at.run,
        }
    }

    /// Returns the directory, if the shards are in one.
    pub fn directory(&self) -> Option<&SharedStaging> {
        match self {
            Self::Directory(at) => Some(at),
            Self::Store(_) => None,
        }
    }
}

fn group(place: Option<ShardPlace<'_>>) -> ShardGroup {
    place.map(|place| place.group.clone()).unwrap_or_default()
}

impl Destination for LocalCommit {
    fn create(&self, partition: u32, sequence: u32, place: Option<ShardPlace<'_>>) -> Result<Box<dyn ShardSink>> {
        Ok(Box::new(self.create_shard_in(partition, sequence, group(place))?))
    }

    fn index_file(&self, partition: u32, sequence: u32) -> Result<Option<IndexFile>> {
        Ok(self.has_indexes().then(|| LocalCommit::index_file(self, partition, sequence)))
    }
}

impl Destination for StagingArea {
    fn create(&self, partition: u32, sequence: u32, place: Option<ShardPlace<'_>>) -> Result<Box<dyn ShardSink>> {
        Ok(Box::new(self.create_shard_in(partition, sequence, group(place))?))
    }

    fn index_file(&self, partition: u32, sequence: u32) -> Result<Option<IndexFile>> {
        Ok(self.has_indexes().then(|| StagingArea::index_file(self, partition, sequence)))
    }
}

impl SetCommit for LocalCommit {
    fn run(&self) -> &RunId {
        self.run()
    }

    fn current(&self) -> Option<&Manifest> {
        self.current()
    }

    fn publish(&self, shards: Vec<StagedShard>, set: SetDescription, sidecars: MakeSidecars) -> Result<Manifest> {
        self.clone().publish_with(shards, set, sidecars)
    }

    fn detach(&self) -> Result<SharedPlace> {
        self.clone().detach().map(SharedPlace::Directory)
    }
}

impl TaskAttempt for StagingArea {
    fn put_report(&self, report: &TaskReport) -> Result<()> {
        self.put_report(report)
    }
}
