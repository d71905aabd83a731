//! [`Staging`]: holds the shards of a run until they are published.

use std::sync::Arc;

use tfrecord_shards::{LocalCommit, Manifest, SetCommit};
use tfrecord_sidecars::SidecarKind;

use super::options::WriteOptions;
use super::shards::Shards;
use super::task_staging::TaskStaging;
use super::upload::UploadSet;

/// The unpublished shards of a run. They are removed when the last reference is dropped.
pub(crate) struct Staging {
    pub(super) shards: Shards,
    /// What publishes them, unless another process does.
    pub(super) commit: Option<Arc<dyn SetCommit>>,
    /// The task that they are of, if another process publishes them.
    pub(super) task: Option<TaskStaging>,
}

impl Staging {
    /// Stages a local set, as these options ask.
    pub(super) fn local(commit: LocalCommit, options: &WriteOptions) -> Self {
        let commit = commit.with_indexes(options.emit.has(SidecarKind::Index));
        Self { shards: Shards::Files(Arc::new(commit.clone())), commit: Some(Arc::new(commit)), task: None }
    }

    /// Stages a set in an object store.
    pub(super) fn uploads(set: Arc<UploadSet>) -> Self {
        Self { shards: Shards::Uploads(Arc::clone(&set)), commit: Some(set), task: None }
    }

    /// Returns the existing set that the shards are appended to, if there is one. For a task, the process that publishes
    /// its shards compares the sets.
    pub(super) fn current(&self) -> Option<&Manifest> {
        self.commit.as_ref().and_then(|commit| commit.current())
    }
}
