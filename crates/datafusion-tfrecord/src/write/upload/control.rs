//! [`ControlArea`]: the control objects of a run whose shards are uploaded by tasks.

use std::collections::BTreeSet;
use std::path::PathBuf;

use bytes::Bytes;
use datafusion_common::{DataFusionError, Result};
use futures::{StreamExt, TryStreamExt, stream};
use tfrecord_shards::objects::{
    ControlName, ObjectStep, Occupant, StoredManifest, UploadIntent, control_directory, control_object, may_be_live,
    withdrawal,
};
use tfrecord_shards::{AttemptError, ErrorKind, Leftover, RunId, SaveMode};

use super::target::{MOST_AT_ONCE, UploadTarget};
use crate::error::shards_error;

/// The control objects of a run, next to the shards. [`tfrecord_shards::objects::ControlName`] lists them.
#[derive(Debug, Clone)]
pub(crate) struct ControlArea {
    pub(super) place: UploadTarget,
    pub(super) run: RunId,
}

impl ControlArea {
    pub(crate) fn new(place: UploadTarget, run: RunId) -> Self {
        Self { place, run }
    }

    pub(super) async fn put(&self, name: ControlName, content: Vec<u8>) -> Result<()> {
        self.place.put_file(&name.path(&self.run), content).await
    }

    pub(super) async fn get(&self, name: ControlName) -> Result<Option<Bytes>> {
        self.place.read_file(&name.path(&self.run)).await
    }

    pub(super) async fn remove(&self, names: impl IntoIterator<Item = ControlName>) -> Result<()> {
        let files: Vec<_> = names.into_iter().map(|name| name.path(&self.run)).collect();
        if files.is_empty() { Ok(()) } else { self.place.remove(&files).await }
    }

    /// Whether attempts may upload.
    async fn is_open(&self) -> Result<bool> {
        Ok(self.place.file_bytes(&ControlName::Open.path(&self.run)).await?.is_some())
    }

    /// Checks that attempts may upload.
    ///
    /// # Errors
    /// The set is published or abandoned.
    pub(crate) async fn check_open(&self) -> Result<()> {
        if self.is_open().await? { Ok(()) } else { Err(shards_error(ErrorKind::Ended.into())) }
    }

    pub(super) async fn list(&self) -> Result<Vec<ControlName>> {
        let found = self.place.list_directory(&control_directory(&self.run)).await?;
        // Others have put what has another name.
        let name = |path: String| control_object(&path)?.1.parse().ok();
        let mut names: Vec<_> = found.into_iter().filter_map(|(path, _)| name(path)).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the name of an object for messages.
    pub(super) fn path(&self, name: ControlName) -> PathBuf {
        self.place.out().join(name.path(&self.run))
    }

    pub(super) fn parse<T: serde::de::DeserializeOwned>(&self, name: ControlName, json: &[u8]) -> Result<T> {
        serde_json::from_slice(json).map_err(|source| {
            let path = self.path(name);
            shards_error(AttemptError::ReportSyntax { path, source }.into())
        })
    }

    /// Returns the manifest of the run, if its set is published, complete or not, and whether it is complete.
    pub(crate) async fn published(&self) -> Result<Option<(StoredManifest, bool)>> {
        self.place.unstaged().mend().await?;
        self.begun(&self.place.unstaged()).await
    }

    /// As [`published`](Self::published), of a set that may still be beside the target.
    pub(super) async fn begun(&self, set: &UploadTarget) -> Result<Option<(StoredManifest, bool)>> {
        let Some(current) = set.manifest().await? else { return Ok(None) };
        if current.manifest.last_run() != self.run.as_str() {
            return Ok(None);
        }
        let is_complete = match set.inspect(SaveMode::Append).await {
            Ok(found) => matches!(found, Occupant::Set { .. }),
            Err(error) if is_incomplete(&error) => false,
            Err(error) => return Err(error),
        };
        Ok(Some((current, is_complete)))
    }

    /// Ends the run: aborts all uploads but those that are `completed`, by their ids, and removes the control objects.
    /// What an unfinished publication has made visible is removed, too.
    ///
    /// # Errors
    /// A request fails. Then the run can be ended again.
    pub(crate) async fn end(&self, completed: &BTreeSet<String>) -> Result<()> {
        // First: an attempt that finds it has put its uploads into the list.
        self.remove([ControlName::Open]).await?;
        if self.place.is_staged() {
            // Everything of the run is in one directory. What it has moved aside stays unless its set is there.
            let target = self.place.unstaged();
            target.mend().await?;
            match target.is_of(&self.run).await {
                true => target.clear(&self.run).await,
                false => target.clear_staging(&self.run).await,
            }
            return Ok(());
        }
        let names = self.list().await?;
        let of_upload = |name: &ControlName| matches!(name, ControlName::Upload { .. });
        let uploads = stream::iter(names.iter().copied().filter(of_upload));
        let intents: Vec<UploadIntent> = uploads
            .map(async |name| {
                let intent = self.get(name).await?;
                intent.map(|json| self.parse::<UploadIntent>(name, &json)).transpose()
            })
            .buffer_unordered(MOST_AT_ONCE)
            .try_filter_map(async |intent| Ok(intent))
            .try_collect()
            .await?;
        let abort = async |intent: &UploadIntent| {
            if completed.contains(&intent.id) {
                return Ok(());
            }
            let key = self.place.key(&intent.path).map_err(shards_error)?;
            self.place.abort(&key, &intent.id).await
        };
        stream::iter(&intents).map(abort).buffer_unordered(MOST_AT_ONCE).try_collect::<()>().await?;
        if !matches!(self.published().await?, Some((_, true))) {
            let current = self.place.manifest().await?;
            let paths: BTreeSet<_> = intents.into_iter().map(|intent| intent.path).collect();
            for step in withdrawal(&self.run, current.as_ref().map(|current| &current.manifest), paths) {
                if let ObjectStep::Remove { files } = step {
                    self.place.remove(&files).await?;
                }
            }
        }
        // Those that name uploads last, so that the run can be ended again if this fails.
        let (uploads, others): (Vec<_>, Vec<_>) = names.into_iter().partition(of_upload);
        self.remove(others).await?;
        self.remove(uploads).await?;
        // An object store has no directories.
        self.place.remove_empty(&control_directory(&self.run)).await
    }
}

/// Whether a set that was inspected is not complete.
fn is_incomplete(error: &DataFusionError) -> bool {
    let DataFusionError::External(error) = error else { return false };
    let error = error.downcast_ref::<tfrecord_shards::Error>();
    error.is_some_and(|error| matches!(error.kind(), ErrorKind::NotAppendable { .. }))
}

/// Ends the runs by tasks below a prefix that nobody carries on. Returns the directories that were removed.
///
/// # Errors
/// A request fails.
pub(crate) async fn end_dead_runs(place: &UploadTarget) -> Result<Vec<Leftover>> {
    let mut ended = place.clear_dead().await?;
    for (run, newest) in place.controlled_runs().await? {
        if !may_be_live(newest) {
            let area = ControlArea::new(place.clone(), run);
            area.end(&BTreeSet::new()).await?;
            let path = place.out().join(control_directory(&area.run));
            ended.push(Leftover { path, run: area.run.to_string(), live: false });
        }
    }
    Ok(ended)
}
