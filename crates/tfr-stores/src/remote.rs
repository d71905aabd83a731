//! [`Remote`]: a store whose errors are rewritten for users.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::client::HttpError;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartId, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result, UploadPart,
};

use crate::directories::{DirectoryStore, Found};
use crate::error::{Answer, Error, ErrorKind};
use crate::location_text::redacted;
use crate::parts::{PART, in_parts};
use crate::service::Service;
use crate::wire::{Refusal, innermost};

/// A store accessed over a network. Each of its errors has an [`Error`] as its source.
pub(crate) struct Remote<S> {
    pub(crate) inner: Arc<S>,
    pub(crate) origin: Origin,
}

/// The store that an error comes from.
#[derive(Clone)]
pub(crate) struct Origin {
    /// `s3://bucket`.
    pub(crate) store: Arc<str>,
    pub(crate) service: Service,
}

impl Origin {
    /// Returns the entity tag in the form of a condition. The listings of Azure have tags without quotes, and so have the
    /// answers of old versions of its interface; If-Match requires them. Other servers compare a tag as they have sent it.
    fn condition(&self, tag: String) -> String {
        match self.service {
            Service::Azure if !tag.starts_with(['"', '*']) => format!("\"{tag}\""),
            _ => tag,
        }
    }

    /// Converts the error of a store's client.
    pub(crate) fn explain(&self, error: object_store::Error) -> object_store::Error {
        use object_store::Error as Client;
        let answered = |status| {
            let store = self.store.to_string();
            let answer = Answer { status: Some(status), ..Answer::default() };
            let kind = match (self.service, status) {
                (Service::Hdfs, 404) => ErrorKind::Failed { store, reason: "no such file or directory".to_owned() },
                (Service::Hdfs, 412) => ErrorKind::Failed { store, reason: "the file changed".to_owned() },
                _ => ErrorKind::Refused { store, answer },
            };
            Box::new(Error::from(kind))
        };
        match error {
            Client::NotFound { path, .. } => Client::NotFound { path, source: answered(404) },
            Client::AlreadyExists { path, .. } => Client::AlreadyExists { path, source: answered(409) },
            Client::Precondition { path, .. } => Client::Precondition { path, source: answered(412) },
            Client::NotModified { path, .. } => Client::NotModified { path, source: answered(304) },
            Client::NotImplemented { .. } | Client::InvalidPath { .. } | Client::JoinError { .. } => error,
            error => {
                if let Some(refusal) = Error::refusal_in(&error) {
                    return Client::PermissionDenied { path: self.store.to_string(), source: Box::new(refusal) };
                }
                let explained = Error::from(self.tell(&error));
                match explained.kind() {
                    ErrorKind::Denied { .. } => {
                        Client::PermissionDenied { path: self.store.to_string(), source: Box::new(explained) }
                    }
                    _ => Client::Generic { store: "remote", source: Box::new(explained) },
                }
            }
        }
    }

    fn tell(&self, error: &object_store::Error) -> ErrorKind {
        let (store, service) = (self.store.to_string(), self.service);
        let chain = || std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |error| error.source());
        if let Some(refusal) = chain().find_map(|error| error.downcast_ref::<Refusal>()) {
            return match refusal {
                Refusal::Answer(answer) if matches!(answer.status, Some(401 | 403)) => {
                    ErrorKind::Denied { store, service, answer: answer.clone() }
                }
                Refusal::Denied(answer) => ErrorKind::Denied { store, service, answer: answer.clone() },
                Refusal::Answer(answer) => ErrorKind::Refused { store, answer: answer.clone() },
                Refusal::NoBucket(answer) => ErrorKind::NoBucket { store, answer: answer.clone() },
                Refusal::OtherRegion(region) => ErrorKind::OtherRegion { store, region: region.clone() },
                Refusal::NoListing(answer) => ErrorKind::NoListing { store, answer: answer.clone() },
                Refusal::NoParts => ErrorKind::NoParts { store },
                Refusal::NoCredentials(reason) => ErrorKind::NoCredentials { store, service, reason: reason.clone() },
                Refusal::Unreachable(reason) => ErrorKind::Unreachable { store, service, reason: reason.clone() },
                Refusal::BeingWritten(path) => ErrorKind::BeingWritten { store, path: path.clone() },
                Refusal::Failed(reason) => ErrorKind::Failed { store, reason: redacted(reason).into_owned() },
            };
        }
        let reason = innermost(error);
        match chain().any(|error| error.is::<HttpError>()) {
            true => ErrorKind::Unreachable { store, service, reason },
            false => ErrorKind::Failed { store, reason },
        }
    }
}

#[async_trait]
impl<S: ObjectStore> ObjectStore for Remote<S> {
    async fn put_opts(&self, location: &Path, payload: PutPayload, mut opts: PutOptions) -> Result<PutResult> {
        if let PutMode::Update(version) = &mut opts.mode {
            version.e_tag = version.e_tag.take().map(|tag| self.origin.condition(tag));
        }
        self.inner.put_opts(location, payload, opts).await.map_err(|error| self.origin.explain(error))
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let upload = self.inner.put_multipart_opts(location, opts).await;
        let inner = upload.map_err(|error| self.origin.explain(error))?;
        Ok(Box::new(RemoteUpload { inner, origin: self.origin.clone() }))
    }

    async fn get_opts(&self, location: &Path, mut options: GetOptions) -> Result<GetResult> {
        options.if_match = options.if_match.map(|tag| self.origin.condition(tag));
        let mut result = self.inner.get_opts(location, options).await.map_err(|error| self.origin.explain(error))?;
        if let GetResultPayload::Stream(mut stream) = result.payload {
            let range = result.range.clone();
            // A web server may not support ranges.
            if range.end - range.start > PART && self.origin.service != Service::Http {
                let mut meta = result.meta.clone();
                meta.e_tag = meta.e_tag.map(|tag| self.origin.condition(tag));
                stream = in_parts(Arc::clone(&self.inner), &meta, range, stream);
            }
            let origin = self.origin.clone();
            result.payload = GetResultPayload::Stream(stream.map_err(move |error| origin.explain(error)).boxed());
        }
        Ok(result)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(location, ranges).await.map_err(|error| self.origin.explain(error))
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let origin = self.origin.clone();
        self.inner.delete_stream(locations).map_err(move |error| origin.explain(error)).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let origin = self.origin.clone();
        self.inner.list(prefix).map_err(move |error| origin.explain(error)).boxed()
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        let origin = self.origin.clone();
        self.inner.list_with_offset(prefix, offset).map_err(move |error| origin.explain(error)).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await.map_err(|error| self.origin.explain(error))
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await.map_err(|error| self.origin.explain(error))
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await.map_err(|error| self.origin.explain(error))
    }
}

#[async_trait]
impl<S: MultipartStore> MultipartStore for Remote<S> {
    async fn create_multipart(&self, path: &Path) -> Result<MultipartId> {
        self.inner.create_multipart(path).await.map_err(|error| self.origin.explain(error))
    }

    async fn put_part(&self, path: &Path, id: &MultipartId, part_idx: usize, data: PutPayload) -> Result<PartId> {
        self.inner.put_part(path, id, part_idx, data).await.map_err(|error| self.origin.explain(error))
    }

    async fn complete_multipart(&self, path: &Path, id: &MultipartId, parts: Vec<PartId>) -> Result<PutResult> {
        self.inner.complete_multipart(path, id, parts).await.map_err(|error| self.origin.explain(error))
    }

    async fn abort_multipart(&self, path: &Path, id: &MultipartId) -> Result<()> {
        self.inner.abort_multipart(path, id).await.map_err(|error| self.origin.explain(error))
    }
}

#[async_trait]
impl<S: DirectoryStore> DirectoryStore for Remote<S> {
    async fn found(&self, path: &Path) -> Result<Option<Found>> {
        self.inner.found(path).await.map_err(|error| self.origin.explain(error))
    }

    async fn directories(&self, path: &Path) -> Result<Vec<ObjectMeta>> {
        self.inner.directories(path).await.map_err(|error| self.origin.explain(error))
    }

    async fn make_directory(&self, path: &Path) -> Result<()> {
        self.inner.make_directory(path).await.map_err(|error| self.origin.explain(error))
    }

    async fn rename_directory(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename_directory(from, to).await.map_err(|error| self.origin.explain(error))
    }

    async fn keep_permissions(&self, of: &Path, to: &Path) -> Result<()> {
        self.inner.keep_permissions(of, to).await.map_err(|error| self.origin.explain(error))
    }

    async fn remove_directory(&self, path: &Path) -> Result<()> {
        self.inner.remove_directory(path).await.map_err(|error| self.origin.explain(error))
    }
}

struct RemoteUpload {
    inner: Box<dyn MultipartUpload>,
    origin: Origin,
}

#[async_trait]
impl MultipartUpload for RemoteUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let origin = self.origin.clone();
        self.inner.put_part(data).map(move |sent| sent.map_err(|error| origin.explain(error))).boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.inner.complete().await.map_err(|error| self.origin.explain(error))
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await.map_err(|error| self.origin.explain(error))
    }
}

impl fmt::Debug for RemoteUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteUpload").field(&self.origin.store).finish()
    }
}

impl<S> fmt::Debug for Remote<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Remote").field(&self.origin.store).finish()
    }
}

impl<S> fmt::Display for Remote<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin.store)
    }
}

#[cfg(test)]
mod tests;
