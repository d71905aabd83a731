//! HDFS, with a client that implements the protocols itself: it needs neither Java nor native libraries.
//!
//! [`Hdfs`] takes from the client nothing on trust that can be compared: the length of
//! a file as its status, its blocks and the sum of its answers have it, and its version from the listing to the last
//! byte. Settings are in [`configuration`], limits and retries in [`namespace`], directories in [`mounts`], and an open
//! file in [`file`]. What writes is in [`write`] and [`uploads`].

mod configuration;
mod fault;
mod file;
mod mounts;
mod namespace;
mod place;
mod uploads;
mod write;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartId,
    MultipartUpload, OBJECT_STORE_COALESCE_DEFAULT, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result, coalesce_ranges,
};
use url::Url;

use self::configuration::Configuration;
use self::fault::Fault;
use self::file::{OpenFile, meta_of};
use self::mounts::{Mount, Mounts};
use self::namespace::Namespace;
use self::uploads::Upload;
use crate::cloud::Built;
use crate::connection::Patience;
use crate::environment::Environment;
use crate::error::SettingsProblem;
use crate::ranges::range_of;

/// Number of files that stay open, each with the list of its blocks: some hundred bytes for a block.
const MOST_OPEN: usize = 1024;

/// Number of files that are removed at the same time.
const REMOVALS: usize = 16;

/// A file system of HDFS, or one of mounts (`viewfs`).
pub(super) struct Hdfs {
    url: String,
    mounts: Arc<Mounts>,
    /// The files that were opened last, with their locations.
    open: Mutex<VecDeque<(Path, Arc<OpenFile>)>>,
    /// The uploads of this process, by their ids.
    uploads: Mutex<HashMap<MultipartId, Arc<Upload>>>,
}

/// Creates the file system of an `hdfs` or `viewfs` URL.
pub(super) fn hdfs(url: &Url, environment: &Environment, patience: Patience) -> Result<Built<Hdfs>, SettingsProblem> {
    if !url.username().is_empty() || url.password().is_some() {
        return Err(SettingsProblem::UserOfHdfs);
    }
    let configuration = Arc::new(Configuration::read(environment)?);
    let resolved = configuration.with_host(url)?;
    // With Kerberos, the client finds the user of the ticket.
    let simple = || environment.get("HADOOP_USER_NAME").filter(|_| !configuration.is_secure());
    let user = environment.get("HADOOP_PROXY_USER").or_else(simple).map(str::to_owned);
    let mut namespaces: BTreeMap<String, Arc<Namespace>> = BTreeMap::new();
    let mut namespace = |url: &Url| -> Result<Arc<Namespace>, SettingsProblem> {
        let authority = configuration.authority(url)?;
        let key = authority.url.clone();
        let created = || Namespace::new(Arc::clone(&configuration), authority, user.clone(), patience);
        Ok(Arc::clone(namespaces.entry(key).or_insert_with(|| Arc::new(created()))))
    };
    let mounts = match resolved.scheme() {
        "viewfs" => {
            let mut mounts = Vec::new();
            for link in configuration.mounts(&resolved)? {
                let target = match Url::parse(&link.target) {
                    Ok(target) if target.scheme() == "hdfs" => {
                        Ok((namespace(&configuration.with_host(&target)?)?, directory_of(&target)))
                    }
                    _ => Err(link.target),
                };
                mounts.push(Mount { directory: link.directory, target });
            }
            mounts
        }
        _ => vec![Mount { directory: String::new(), target: Ok((namespace(&resolved)?, String::new())) }],
    };
    let addresses: BTreeSet<_> = namespaces.values().flat_map(|namespace| namespace.addresses()).collect();
    let addresses: Vec<_> = addresses.into_iter().map(String::as_str).collect();
    let method = if configuration.is_secure() { "Kerberos" } else { "simple authentication" };
    let user = user.map(|user| format!(" as {user}")).unwrap_or_default();
    let server = addresses.join(" ");
    let summary = format!("namenodes {server}, {method}{user}");
    let shown = url.as_str().trim_end_matches('/').to_owned();
    let store =
        Hdfs { url: shown, mounts: Arc::new(Mounts(mounts)), open: Mutex::default(), uploads: Mutex::default() };
    Ok(Built { store, summary, server })
}

/// Returns the path of a URL, without a slash at its end.
fn directory_of(url: &Url) -> String {
    match Path::from_url_path(url.path()) {
        Ok(path) if path.as_ref().is_empty() => String::new(),
        Ok(path) => format!("/{path}"),
        Err(_) => url.path().trim_end_matches('/').to_owned(),
    }
}

impl Hdfs {
    /// Returns the open file, in the version `tag` if one is required.
    async fn opened(&self, path: &Path, tag: Option<&str>) -> Result<Arc<OpenFile>, Fault> {
        if let Some(tag) = tag {
            let known = self.open_files().iter().find(|(known, file)| known == path && file.tag() == tag).cloned();
            if let Some((_, file)) = known {
                return Ok(file);
            }
        }
        let file = Arc::new(OpenFile::open(self.mounts.place(path)?, path.clone()).await?);
        let mut open = self.open_files();
        open.retain(|(known, _)| known != path);
        open.push_back((path.clone(), Arc::clone(&file)));
        while open.len() > MOST_OPEN {
            open.pop_front();
        }
        Ok(file)
    }

    fn open_files(&self) -> MutexGuard<'_, VecDeque<(Path, Arc<OpenFile>)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn head(&self, path: &Path) -> Result<ObjectMeta, Fault> {
        let status = self.mounts.place(path)?.status().await?;
        match status.isdir {
            true => Err(Fault::NotFound),
            false => meta_of(&status, path.clone()),
        }
    }
}

fn not_implemented<T>(operation: &str) -> Result<T> {
    Err(Error::NotImplemented { operation: operation.to_owned(), implementer: "HDFS".to_owned() })
}

#[async_trait]
impl ObjectStore for Hdfs {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let explain = |fault: Fault| fault.at(location.as_ref());
        let attributes = Attributes::default();
        if options.head {
            let meta = self.head(location).await.map_err(explain)?;
            options.check_preconditions(&meta)?;
            let (range, payload) = (0..meta.size, GetResultPayload::Stream(stream::empty().boxed()));
            return Ok(GetResult { payload, meta, range, attributes });
        }
        let file = self.opened(location, options.if_match.as_deref()).await.map_err(explain)?;
        options.check_preconditions(file.meta())?;
        let meta = file.meta().clone();
        let range = range_of(options.range.as_ref(), meta.size).ok_or_else(|| {
            let source = format!("{location}: the requested range is not in its {} bytes", meta.size).into();
            Error::Generic { store: "HDFS", source }
        })?;
        let path = location.to_string();
        let stream = file.pieces(range.clone()).map_err(move |fault| fault.at(&path));
        Ok(GetResult { payload: GetResultPayload::Stream(stream.boxed()), meta, range, attributes })
    }

    /// Returns ranges of one version of a file.
    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let file = self.opened(location, None).await.map_err(|fault| fault.at(location.as_ref()))?;
        let if_match = Some(file.tag().to_owned());
        let fetch = |range| {
            let options = GetOptions {
                range: Some(GetRange::Bounded(range)),
                if_match: if_match.clone(),
                ..GetOptions::default()
            };
            async move { self.get_opts(location, options).await?.bytes().await }
        };
        coalesce_ranges(ranges, fetch, OBJECT_STORE_COALESCE_DEFAULT).await
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let first = (Arc::clone(&self.mounts), vec![prefix.cloned().unwrap_or_default()]);
        let listings = stream::try_unfold(first, |(mounts, mut directories)| async move {
            let Some(directory) = directories.pop() else { return Ok::<_, Error>(None) };
            let listed = mounts.list(&directory).await.map_err(|fault| fault.at(directory.as_ref()))?;
            directories.extend(listed.common_prefixes);
            Ok(Some((stream::iter(listed.objects.into_iter().map(Ok)), (mounts, directories))))
        });
        listings.try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let directory = prefix.cloned().unwrap_or_default();
        self.mounts.list(&directory).await.map_err(|fault| fault.at(directory.as_ref()))
    }

    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.put(location, payload, options.mode).await.map_err(|fault| fault.at(location.as_ref()))
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        not_implemented("put_multipart")
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let mounts = Arc::clone(&self.mounts);
        let remove = move |location: Result<Path>| {
            let mounts = Arc::clone(&mounts);
            async move {
                let location = location?;
                let removed = match mounts.place(&location) {
                    Ok(place) => place.remove(false).await,
                    Err(fault) => Err(fault),
                };
                removed.map(|()| location.clone()).map_err(|fault| fault.at(location.as_ref()))
            }
        };
        locations.map(remove).buffered(REMOVALS).boxed()
    }

    /// Copies a small file.
    async fn copy_opts(&self, from: &Path, to: &Path, _: CopyOptions) -> Result<()> {
        let content = self.get(from).await?.bytes().await?;
        self.put(to, content.into(), PutMode::Overwrite).await.map(drop).map_err(|fault| fault.at(to.as_ref()))
    }

    async fn rename_opts(&self, _: &Path, _: &Path, _: RenameOptions) -> Result<()> {
        not_implemented("rename")
    }
}

impl fmt::Debug for Hdfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hdfs").field(&self.url).finish()
    }
}

impl fmt::Display for Hdfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

#[cfg(test)]
mod tests;
