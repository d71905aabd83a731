//! [`ReadAhead`]: fetches small files of a remote store before they are requested.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use datafusion_common_runtime::SpawnedTask;
use datafusion_datasource::file_groups::FileGroup;
use futures::future::{BoxFuture, Shared};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};
use tfr_stores::range_of;

/// An object store for a scan. A partition reads its files one after the other, and would wait for the network for
/// each of them. The first request for a file of up to [`ReadAhead::SMALL`] bytes fetches the whole file, and the
/// files that follow it in its partition.
///
/// At most [`ReadAhead::FILES`] files are fetched or held at a time, over all partitions together, or two for each
/// partition if that is more. In addition each partition holds the previous file. In total, that is at most 96 MiB
/// for up to 32 partitions.
pub struct ReadAhead {
    inner: Arc<dyn ObjectStore>,
    /// Partition and position of each small file.
    places: HashMap<Path, (usize, usize)>,
    partitions: Vec<Partition>,
    /// Number of files to fetch ahead of the current one.
    ahead: usize,
}

/// The small files of a partition, in reading order.
struct Partition {
    files: Vec<Path>,
    /// Fetches that may still be needed, by position.
    fetched: Mutex<BTreeMap<usize, Fetch>>,
}

/// A fetch in progress or done; `None` if it failed, in which case the caller's own request returns the error.
type Fetch = Shared<BoxFuture<'static, Option<Arc<Fetched>>>>;

struct Fetched {
    bytes: Bytes,
    meta: ObjectMeta,
    attributes: Attributes,
}

impl ReadAhead {
    /// Files up to this size are fetched as a whole: about as much as a store transfers during the latency of a
    /// request.
    pub const SMALL: u64 = 1 << 20;

    /// Number of files fetched or held at a time.
    pub const FILES: usize = 64;

    /// Creates a store for a scan of these file groups, one for each partition.
    #[cfg(test)]
    fn new(store: Arc<dyn ObjectStore>, groups: &[FileGroup]) -> Self {
        Self::part_of(store, groups, groups.len())
    }

    /// The same for some of the groups of a scan, which has `of` groups in all.
    pub(crate) fn part_of(store: Arc<dyn ObjectStore>, groups: &[FileGroup], of: usize) -> Self {
        let small = |group: &FileGroup| {
            let metas = group.iter().map(|file| &file.object_meta).filter(|meta| meta.size <= Self::SMALL);
            metas.map(|meta| meta.location.clone()).collect::<Vec<_>>()
        };
        let files: Vec<_> = groups.iter().map(small).collect();
        let place = |(group, files): (usize, &Vec<Path>)| {
            files.iter().enumerate().map(move |(position, path)| (path.clone(), (group, position))).collect::<Vec<_>>()
        };
        let places = files.iter().enumerate().flat_map(place).collect();
        let partitions = files.into_iter().map(|files| Partition { files, fetched: Mutex::default() }).collect();
        Self { inner: store, places, partitions, ahead: (Self::FILES / of.max(1)).saturating_sub(1).max(1) }
    }

    /// Returns the file if it is one that is fetched as a whole, and starts to fetch the files after it.
    async fn whole(&self, path: &Path) -> Option<Arc<Fetched>> {
        let &(partition, position) = self.places.get(path)?;
        let Partition { files, fetched } = self.partitions.get(partition)?;
        let fetch = {
            let mut fetched = fetched.lock().unwrap_or_else(PoisonError::into_inner);
            // The previous file may still be read while this one is being opened.
            fetched.retain(|known, _| known + 1 >= position && *known <= position + self.ahead);
            for (at, path) in files.iter().enumerate().skip(position).take(1 + self.ahead) {
                fetched.entry(at).or_insert_with(|| fetch(&self.inner, path));
            }
            fetched.get(&position).cloned()
        };
        fetch?.await
    }
}

/// Starts to fetch a file. The fetch continues while the result is referenced.
fn fetch(store: &Arc<dyn ObjectStore>, path: &Path) -> Fetch {
    let (store, path) = (Arc::clone(store), path.clone());
    let task = SpawnedTask::spawn(async move {
        let result = store.get(&path).await.ok()?;
        let (meta, attributes) = (result.meta.clone(), result.attributes.clone());
        // Do not hold a file that has grown meanwhile.
        if meta.size > ReadAhead::SMALL {
            return None;
        }
        let bytes = result.bytes().await.ok()?;
        Some(Arc::new(Fetched { bytes, meta, attributes }))
    });
    async move { task.join().await.ok().flatten() }.boxed().shared()
}

impl Fetched {
    /// Answers a request from the fetched file, unless only the store can.
    fn answer(&self, options: &GetOptions) -> Option<GetResult> {
        let GetOptions {
            if_match, if_none_match, if_modified_since, if_unmodified_since, range, version, head, ..
        } = options;
        let is_plain = if_none_match.is_none()
            && if_modified_since.is_none()
            && if_unmodified_since.is_none()
            && version.is_none()
            && !head
            && if_match.as_ref().is_none_or(|asked| self.meta.e_tag.as_ref() == Some(asked));
        let range = is_plain.then(|| range_of(range.as_ref(), self.bytes.len() as u64)).flatten()?;
        let bytes = self.slice(&range)?;
        Some(GetResult {
            payload: GetResultPayload::Stream(futures::stream::once(async { Ok(bytes) }).boxed()),
            meta: self.meta.clone(),
            range,
            attributes: self.attributes.clone(),
        })
    }

    fn slice(&self, range: &Range<u64>) -> Option<Bytes> {
        let (start, end) = (usize::try_from(range.start).ok()?, usize::try_from(range.end).ok()?);
        (start <= end && end <= self.bytes.len()).then(|| self.bytes.slice(start..end))
    }
}

#[async_trait]
impl ObjectStore for ReadAhead {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if !options.head
            && let Some(answer) = self.whole(location).await.and_then(|fetched| fetched.answer(&options))
        {
            return Ok(answer);
        }
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let whole = self.whole(location).await;
        let parts = whole.and_then(|fetched| ranges.iter().map(|range| fetched.slice(range)).collect());
        match parts {
            Some(parts) => Ok(parts),
            None => self.inner.get_ranges(location, ranges).await,
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}

impl fmt::Debug for ReadAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadAhead").field("inner", &self.inner).field("ahead", &self.ahead).finish_non_exhaustive()
    }
}

impl fmt::Display for ReadAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[cfg(test)]
mod tests;
