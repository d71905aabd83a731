//! [`UnchangedFiles`]: a store that refuses listed files which have changed.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use datafusion_datasource::file_groups::FileGroup;
use datafusion_execution::object_store::ObjectStoreUrl;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    OBJECT_STORE_COALESCE_DEFAULT, ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, RenameOptions, Result, coalesce_ranges,
};
use tfr_stores::{Change, FileNames, range_of, strong_tag};

use super::local::{LocalFile, OpenFile, changed};

/// A store that only returns bytes of the listed versions of files. Every reader of a table reads through it.
///
/// - In a remote store, every request for a listed file requires the listed entity tag. Since some servers ignore the
///   condition, the version in every answer is compared, too.
/// - A local file is compared when it is opened and after every read. In a scan it stays open, so that a file that is
///   replaced meanwhile is read to its end.
///
/// A changed file is an error of the kind [`Changed`](crate::ErrorKind::Changed), as the source of a
/// [`Precondition`](object_store::Error::Precondition). Requests for other files are passed on.
pub struct UnchangedFiles {
    inner: Arc<dyn ObjectStore>,
    names: FileNames,
    files: Arc<[ObjectMeta]>,
    /// The indices of the files, sorted by path.
    order: Vec<usize>,
    is_local: bool,
    /// The local files that were used last.
    open: Mutex<VecDeque<Arc<LocalFile>>>,
    most_open: usize,
}

impl UnchangedFiles {
    /// Creates a store of `files`, which were listed in the store `inner` at `url`. Files are named as `names`
    /// specifies, and local files are opened for each request.
    pub fn new(inner: Arc<dyn ObjectStore>, url: &ObjectStoreUrl, names: FileNames, files: Arc<[ObjectMeta]>) -> Self {
        let mut order: Vec<_> = (0..files.len()).collect();
        order.sort_by(|left, right| files[*left].location.cmp(&files[*right].location));
        let is_local = *url == ObjectStoreUrl::local_filesystem();
        Self { inner, names, files, order, is_local, open: Mutex::default(), most_open: 0 }
    }

    /// Creates a store of the files of some partitions of a scan. A local file stays open while a partition reads it.
    pub(crate) fn of_scan(
        inner: Arc<dyn ObjectStore>,
        url: &ObjectStoreUrl,
        names: FileNames,
        groups: &[FileGroup],
    ) -> Self {
        let files = groups.iter().flat_map(FileGroup::iter).map(|file| file.object_meta.clone()).collect();
        // A partition opens the next file before it has read the last rows of this one.
        let most_open = groups.len().saturating_mul(2);
        Self { most_open, ..Self::new(inner, url, names, files) }
    }

    fn listed(&self, path: &Path) -> Option<&ObjectMeta> {
        let place = self.order.binary_search_by(|index| self.files[*index].location.cmp(path)).ok()?;
        self.files.get(*self.order.get(place)?)
    }

    fn open_files(&self) -> MutexGuard<'_, VecDeque<Arc<LocalFile>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the open file; `None` if the store does not return files.
    async fn local(&self, listed: &ObjectMeta) -> Result<Option<Arc<LocalFile>>> {
        if !self.is_local {
            return Ok(None);
        }
        let known = {
            let mut open = self.open_files();
            let place = open.iter().position(|file| file.location == listed.location);
            let file = place.and_then(|place| open.remove(place));
            open.extend(file.clone());
            file
        };
        if known.is_some() {
            return Ok(known);
        }
        let opened = self.inner.get_opts(&listed.location, GetOptions::default()).await;
        let opened = opened.map_err(|error| self.explain(&listed.location, error))?;
        let GetResultPayload::File(file, _) = opened.payload else { return Ok(None) };
        let file = Arc::new(LocalFile::new(file, &opened.meta, listed, self.name(&listed.location).into())?);
        if self.most_open > 0 {
            let mut open = self.open_files();
            open.push_back(Arc::clone(&file));
            while open.len() > self.most_open {
                open.pop_front();
            }
        }
        Ok(Some(file))
    }

    fn name(&self, path: &Path) -> String {
        self.names.name(path)
    }

    /// Returns the error that the file has changed, if it has; otherwise this error.
    async fn with_change(&self, listed: &ObjectMeta, error: object_store::Error) -> object_store::Error {
        let now = self.inner.head(&listed.location).await;
        match now.ok().and_then(|now| Change::between(listed, &now)) {
            Some(change) => changed(&listed.location, &self.name(&listed.location), change),
            None => error,
        }
    }

    /// Converts a store's error about a listed file.
    fn explain(&self, path: &Path, error: object_store::Error) -> object_store::Error {
        let change = match error {
            object_store::Error::Precondition { .. } => Change::Superseded,
            object_store::Error::NotFound { .. } => Change::Removed,
            error => return error,
        };
        changed(path, &self.name(path), change)
    }
}

fn invalid_range(listed: &ObjectMeta) -> object_store::Error {
    let source = format!("{}: the requested range is not in its {} bytes", listed.location, listed.size).into();
    object_store::Error::Generic { store: "local", source }
}

#[async_trait]
impl ObjectStore for UnchangedFiles {
    async fn get_opts(&self, location: &Path, mut options: GetOptions) -> Result<GetResult> {
        let Some(listed) = self.listed(location).filter(|_| !options.head) else {
            return self.inner.get_opts(location, options).await;
        };
        if let Some(file) = self.local(listed).await? {
            options.check_preconditions(listed)?;
            OpenFile::answer(&options, &file);
            let range = range_of(options.range.as_ref(), listed.size).ok_or_else(|| invalid_range(listed))?;
            let payload = GetResultPayload::Stream(file.pieces(range.clone()));
            return Ok(GetResult { payload, meta: listed.clone(), range, attributes: Attributes::default() });
        }
        if options.if_match.is_none() && !self.is_local {
            options.if_match = strong_tag(listed).map(str::to_owned);
        }
        let result = match self.inner.get_opts(location, options).await.map_err(|error| self.explain(location, error)) {
            // A server that ignores If-Match answers with "416 Range Not Satisfiable", or closes the connection.
            Err(error @ object_store::Error::Generic { .. }) => return Err(self.with_change(listed, error).await),
            result => result?,
        };
        if let Some(change) = Change::between(listed, &result.meta) {
            return Err(changed(location, &self.name(location), change));
        }
        let payload = match result.payload {
            GetResultPayload::Stream(stream) => {
                let (names, path) = (self.names.clone(), location.clone());
                let explain = move |error| match error {
                    object_store::Error::Precondition { .. } => changed(&path, &names.name(&path), Change::Superseded),
                    error => error,
                };
                GetResultPayload::Stream(stream.map_err(explain).boxed())
            }
            file => file,
        };
        Ok(GetResult { payload, ..result })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let Some(listed) = self.listed(location) else {
            return self.inner.get_ranges(location, ranges).await;
        };
        if let Some(file) = self.local(listed).await? {
            return file.ranges(ranges.to_vec()).await;
        }
        coalesce_ranges(ranges, |range| self.get_range(location, range), OBJECT_STORE_COALESCE_DEFAULT).await
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

impl fmt::Debug for UnchangedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnchangedFiles").field("inner", &self.inner).field("files", &self.files.len()).finish()
    }
}

impl fmt::Display for UnchangedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
