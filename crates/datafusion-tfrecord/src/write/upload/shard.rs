//! Uploads shards to an object store: [`ShardUpload`] is one shard, and [`PartUploads`] sends the parts of a write
//! partition's shards.
//!
//! ```text
//! ShardWriter -> UploadSink -> Part -> PartUploads -> the store
//! (pool)         (pool)                (engine's tasks, some at a time)
//! ```

use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use datafusion_common::{DataFusionError, Result};
use datafusion_common_runtime::SpawnedTask;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{MultipartId, PutPayload};
use tfrecord_shards::{
    Destination, IndexFile, ShardGroup, ShardPlace, ShardSink, ShardStats, StagedShard, StagedUpload,
};
use tokio::sync::OnceCell;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::UploadSet;
use super::buffer::{CHUNK_LEN, Chunk, ReservedMemory};

/// Maximum number of parts of an upload: the limit of S3 and of Google Cloud Storage.
const MAX_PARTS: usize = 10_000;

/// This many parts have the same length, first [`CHUNK_LEN`]; the next group has twice that length. All parts of
/// shards up to 8 GB are thus alike, as some stores require, and the last possible part ends at 8 TB.
const PARTS_ALIKE: usize = 1_000;

/// Maximum number of parts that all partitions of a run send at the same time.
const MOST_SENDING: usize = 16;

/// One shard: a multipart upload that starts with its first part, and is completed elsewhere.
#[derive(Debug)]
pub(crate) struct ShardUpload {
    set: Arc<UploadSet>,
    partition: u32,
    sequence: u32,
    group: ShardGroup,
    /// Path relative to the set's prefix.
    name: String,
    key: Path,
    id: OnceCell<MultipartId>,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// The store's identifiers of the parts sent so far.
    sent: Vec<Option<String>>,
    /// The writer's counts and the number of parts, once the shard is finished.
    end: Option<(ShardStats, usize)>,
}

impl ShardUpload {
    /// Returns the store's identifier of the upload. Starts the upload if necessary.
    async fn id(self: &Arc<Self>) -> Result<&MultipartId> {
        let begin = || async {
            let upload = Arc::clone(self);
            // Must not be cancelled halfway: an upload with an unknown identifier cannot be aborted.
            let begun = tokio::spawn(async move {
                let number = (upload.partition, upload.sequence);
                upload.set.begin_upload(upload.key.clone(), &upload.name, number).await
            })
            .await;
            begun.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
        };
        self.id.get_or_try_init(begin).await
    }

    /// Sends a part. An empty part only starts the upload.
    async fn send(self: &Arc<Self>, index: usize, chunks: Vec<Chunk>) -> Result<()> {
        let id = self.id().await?;
        if chunks.is_empty() {
            return Ok(());
        }
        let (bytes, _booked): (Vec<_>, Vec<_>) = if chunks.iter().any(Chunk::is_on_disk) {
            let upload = Arc::clone(self);
            SpawnedTask::spawn_blocking(move || {
                let loaded = load(chunks);
                drop(upload);
                loaded
            })
            .await
            .map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??
        } else {
            load(chunks)?
        }
        .into_iter()
        .unzip();
        let part = self.set.send_part(&self.key, id, index, PutPayload::from_iter(bytes)).await?;
        let mut progress = self.progress();
        if progress.sent.len() <= index {
            progress.sent.resize(index + 1, None);
        }
        if let Some(sent) = progress.sent.get_mut(index) {
            *sent = Some(part);
        }
        Ok(())
    }

    /// Takes the shard once it is finished and all its parts are sent. Returns it only once.
    fn take_staged(&self) -> Option<StagedShard> {
        let id = self.id.get()?;
        let mut progress = self.progress();
        let (_, parts) = progress.end.as_ref()?;
        let sent: Vec<_> = progress.sent.iter().flatten().cloned().collect();
        if sent.len() < *parts {
            return None;
        }
        let (stats, _) = progress.end.take()?;
        let upload = StagedUpload { id: id.clone(), parts: sent };
        let staged = StagedShard::new(&self.name, self.partition, self.sequence, stats).with_group(self.group.clone());
        Some(StagedShard { upload: Some(upload), ..staged })
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn load(chunks: Vec<Chunk>) -> io::Result<Vec<(Bytes, ReservedMemory)>> {
    chunks.into_iter().map(Chunk::into_bytes).collect()
}

/// Returns the number of chunks of a part that is not the last.
fn chunks_of(part: usize) -> usize {
    1 << (part / PARTS_ALIKE)
}

/// Receives the bytes of a shard, and cuts them into parts.
#[derive(Debug)]
struct UploadSink {
    parts: UnboundedSender<Part>,
    /// Full chunks of the current part.
    full: Vec<Chunk>,
    chunk: Chunk,
    /// Number of the current part.
    index: usize,
    /// Declared after the chunks: the last reference cleans up the run, and the chunks' memory must be released
    /// before that.
    upload: Arc<ShardUpload>,
}

/// A part that is ready to be sent.
#[derive(Debug)]
struct Part {
    index: usize,
    chunks: Vec<Chunk>,
    /// Declared after the chunks, as in [`UploadSink`].
    upload: Arc<ShardUpload>,
}

impl Part {
    /// Sends the part, and returns its upload.
    async fn send(self) -> Result<Arc<ShardUpload>> {
        let Self { index, chunks, upload } = self;
        upload.send(index, chunks).await?;
        Ok(upload)
    }
}

impl ShardSink for UploadSink {
    /// The remaining bytes become the last part.
    fn seal(mut self: Box<Self>, stats: ShardStats) -> tfrecord_shards::Result<Option<StagedShard>> {
        if self.chunk.len() > 0 {
            self.end_chunk();
        }
        let parts = self.index + usize::from(!self.full.is_empty());
        self.upload.progress().end = Some((stats, parts));
        // Sent even if it is empty: it marks the end, and an empty shard is an upload, too.
        self.end_part()?;
        Ok(None)
    }
}

impl UploadSink {
    fn end_chunk(&mut self) {
        let empty = Chunk::new(&self.upload.set.buffers);
        self.full.push(mem::replace(&mut self.chunk, empty));
    }

    fn end_part(&mut self) -> io::Result<()> {
        if self.index == MAX_PARTS && !self.full.is_empty() {
            return Err(io::Error::other("longer than an upload can be: write more shards"));
        }
        let part = Part { upload: Arc::clone(&self.upload), index: self.index, chunks: mem::take(&mut self.full) };
        // The receiver is gone: the run has failed, and this is about to be dropped.
        self.parts.send(part).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        self.index += 1;
        Ok(())
    }
}

impl Write for UploadSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.chunk.append(bytes)?;
        if self.chunk.len() == CHUNK_LEN {
            self.end_chunk();
            if self.full.len() == chunks_of(self.index) {
                self.end_part()?;
            }
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends the parts of a write partition's shards.
pub(crate) struct PartUploads {
    set: Arc<UploadSet>,
    sender: UnboundedSender<Part>,
    parts: UnboundedReceiver<Part>,
    sending: FuturesUnordered<SpawnedTask<Result<Arc<ShardUpload>>>>,
    /// Maximum number of parts in flight.
    most: usize,
    staged: Vec<StagedShard>,
}

impl PartUploads {
    /// Creates an empty queue for one of `partitions` write partitions.
    pub(crate) fn new(set: &Arc<UploadSet>, partitions: usize) -> Self {
        let (sender, parts) = unbounded_channel();
        // As many as fit into memory, but at least two for each partition, so that it makes progress.
        let most = (set.buffers.chunks().min(MOST_SENDING) / partitions.max(1)).max(2);
        Self { set: Arc::clone(set), sender, parts, sending: FuturesUnordered::new(), most, staged: Vec::new() }
    }

    /// Returns the destination of the partition's shards.
    pub(crate) fn destination(&self) -> UploadDestination {
        UploadDestination { set: Arc::clone(&self.set), parts: self.sender.clone() }
    }

    /// Starts to send the parts that are ready, as the limit of parts in flight permits.
    ///
    /// # Errors
    /// A part could not be sent, now or earlier.
    pub(crate) async fn send(&mut self) -> Result<()> {
        while let Ok(part) = self.parts.try_recv() {
            while self.sending.len() >= self.most {
                self.next().await?;
            }
            self.sending.push(SpawnedTask::spawn(part.send()));
        }
        // Report a failure now, not with the last row.
        while let Some(Some(sent)) = self.sending.next().now_or_never() {
            self.note(sent).await?;
        }
        Ok(())
    }

    /// Waits until all parts are sent, and returns the finished shards.
    ///
    /// # Errors
    /// A part could not be sent.
    pub(crate) async fn finish(mut self) -> Result<Vec<StagedShard>> {
        self.send().await?;
        while !self.sending.is_empty() {
            self.next().await?;
        }
        Ok(self.staged)
    }

    async fn next(&mut self) -> Result<()> {
        match self.sending.next().await {
            Some(sent) => self.note(sent).await,
            None => Ok(()),
        }
    }

    async fn note(&mut self, sent: Result<Result<Arc<ShardUpload>>, tokio::task::JoinError>) -> Result<()> {
        let upload = sent.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
        if let Some(mut staged) = upload.take_staged() {
            self.set.share_index(&mut staged).await?;
            self.staged.push(staged);
        }
        Ok(())
    }
}

/// Creates the shards of a write partition as uploads, which start with their first part.
#[derive(Debug)]
pub(crate) struct UploadDestination {
    set: Arc<UploadSet>,
    parts: UnboundedSender<Part>,
}

impl Destination for UploadDestination {
    fn create(
        &self,
        partition: u32,
        sequence: u32,
        place: Option<ShardPlace<'_>>,
    ) -> tfrecord_shards::Result<Box<dyn ShardSink>> {
        let (name, group) = match place {
            Some(place) => (self.set.names.path(place), place.group.clone()),
            None => (self.set.names.name(partition, sequence), ShardGroup::default()),
        };
        let upload = ShardUpload {
            key: self.set.place.key(&name)?,
            set: Arc::clone(&self.set),
            partition,
            sequence,
            group,
            name,
            id: OnceCell::new(),
            progress: Mutex::default(),
        };
        Ok(Box::new(UploadSink {
            chunk: Chunk::new(&self.set.buffers),
            upload: Arc::new(upload),
            parts: self.parts.clone(),
            full: Vec::new(),
            index: 0,
        }))
    }

    /// The file in which a shard's index is stored until it is uploaded.
    fn index_file(&self, _: u32, _: u32) -> tfrecord_shards::Result<Option<IndexFile>> {
        Ok(self.set.index_file()?.map(IndexFile::from))
    }

    fn takes_small_writes(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limits of S3 and of Google Cloud Storage: 5 TiB for an object, 5 GiB for a part.
    #[test]
    fn upload_parts_grow_to_fit_the_largest_object() {
        let lengths = (0..MAX_PARTS).map(|part| (chunks_of(part) * CHUNK_LEN) as u64);
        assert!(lengths.clone().sum::<u64>() > 5 << 40);
        assert!(lengths.clone().all(|len| len <= 5 << 30));
        assert!(lengths.is_sorted());
    }
}
