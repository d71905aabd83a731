//! Uploads: files that are sent in parts, and renamed when they are complete.

use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use hdfs_native::client::FileStatus;
use hdfs_native::file::FileWriter;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{MultipartId, ObjectMeta, PutMode, PutPayload, PutResult, Result};
use tfrecord_shards::RunId;
use tokio::sync::{Mutex, watch};

use super::Hdfs;
use super::fault::Fault;
use super::file::directory_meta;
use super::write::{After, unfinished};
use crate::directories::{DirectoryStore, Found};

/// A file that this process sends in parts.
pub(super) struct Upload {
    /// How much is sent: the number of parts, and of their bytes. `None` after a failure.
    sent: watch::Sender<Option<(usize, u64)>>,
    sending: Mutex<Sending>,
}

#[derive(Default)]
struct Sending {
    /// The file, while it is open.
    writer: Option<FileWriter>,
    /// The length of the last part.
    part_len: u64,
}

/// The least number of bytes of a part, but for the last one. A part that is shorter than the one before is the last one,
/// too.
const SMALLEST_PART: u64 = 5 << 20;

fn put_result() -> PutResult {
    PutResult { e_tag: None, version: None }
}

impl Hdfs {
    /// Puts a file, which is written under another name first.
    pub(super) async fn put(&self, path: &Path, payload: PutPayload, mode: PutMode) -> Result<PutResult, Fault> {
        let place = |path: &Path| self.mounts.place(path);
        let (from, to) = (place(&unfinished(path, RunId::new().as_str()))?, place(path)?);
        // What is to be replaced is in a directory. If that is not there, it was moved, and nothing is to take its place.
        if !matches!(mode, PutMode::Update(_)) {
            from.parent().make_directory().await?;
        }
        let put = async {
            from.write(&bytes_of(payload)).await?;
            match mode {
                PutMode::Create => from.rename(&to, false).await,
                PutMode::Overwrite => from.rename(&to, true).await,
                PutMode::Update(version) => {
                    let tag = version.e_tag.ok_or_else(|| Fault::Failed("a version without a tag".to_owned()))?;
                    from.replace(&to, &place(&unfinished(path, &tag))?, &tag).await
                }
            }
        };
        let put = put.await;
        if put.is_err() {
            let _unremoved = from.remove(false).await;
        }
        put.map(|()| put_result())
    }

    fn upload(&self, id: &MultipartId) -> Result<Arc<Upload>, Fault> {
        let uploads = self.uploads.lock().unwrap_or_else(PoisonError::into_inner);
        uploads.get(id).cloned().ok_or_else(unknown)
    }

    fn forget(&self, id: &MultipartId) -> Option<Arc<Upload>> {
        self.uploads.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
    }

    /// Sends a part once those before it are sent.
    async fn send_part(&self, path: &Path, id: &MultipartId, index: usize, data: PutPayload) -> Result<u64, Fault> {
        let upload = self.upload(id)?;
        let sent = &upload.sent;
        let turn = |sent: &Option<(usize, u64)>| sent.is_none_or(|(parts, _)| parts >= index);
        let start = sent.subscribe().wait_for(turn).await.ok().and_then(|sent| *sent);
        let (_, start) = start.filter(|(parts, _)| *parts == index).ok_or_else(unknown)?;
        let content = bytes_of(data);
        let len = content.iter().map(|bytes| bytes.len() as u64).sum::<u64>();
        let mut sending = upload.sending.lock().await;
        if sent.borrow().is_none() {
            return Err(unknown());
        }
        // So that not all files of a run are open until it ends.
        let after = if len < SMALLEST_PART.max(sending.part_len) { After::Close } else { After::StayOpen };
        sending.part_len = len;
        let place = self.mounts.place(&unfinished(path, id))?;
        let written = place.write_from(start, &content, &mut sending.writer, after).await;
        sent.send_replace(written.is_ok().then_some((index + 1, start + len)));
        written.map(|()| len)
    }

    async fn complete(&self, path: &Path, id: &MultipartId, parts: Vec<PartId>) -> Result<(), Fault> {
        let lengths = parts.iter().map(|part| part.content_id.parse::<u64>());
        let expected = lengths.sum::<Result<u64, _>>().map_err(|_| Fault::Failed("an unknown part".to_owned()))?;
        let (from, to) = (self.mounts.place(&unfinished(path, id))?, self.mounts.place(path)?);
        let mut writer = None;
        if let Ok(upload) = self.upload(id) {
            if *upload.sent.borrow() != Some((parts.len(), expected)) {
                return Err(unknown());
            }
            writer = upload.sending.lock().await.writer.take();
        }
        if parts.is_empty() || writer.is_some() {
            from.write_from(expected, &[], &mut writer, After::Close).await?;
        }
        // If another process has sent the parts, the file may still be open.
        let found = from.settled_length().await?;
        if found != expected {
            return Err(Fault::Failed(format!("{} has {found} bytes, expected {expected}", from.path)));
        }
        from.rename(&to, true).await
    }
}

fn unknown() -> Fault {
    Fault::Failed("the upload was begun elsewhere, or has failed".to_owned())
}

fn bytes_of(payload: PutPayload) -> Vec<Bytes> {
    payload.iter().cloned().collect()
}

#[async_trait]
impl MultipartStore for Hdfs {
    async fn create_multipart(&self, path: &Path) -> Result<MultipartId> {
        let place = self.mounts.place(path).map_err(|fault| fault.at(path.as_ref()))?;
        place.parent().make_directory().await.map_err(|fault| fault.at(path.as_ref()))?;
        let id = RunId::new().to_string();
        let upload = Arc::new(Upload { sent: watch::Sender::new(Some((0, 0))), sending: Mutex::default() });
        self.uploads.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), upload);
        Ok(id)
    }

    async fn put_part(&self, path: &Path, id: &MultipartId, index: usize, data: PutPayload) -> Result<PartId> {
        let sent = self.send_part(path, id, index, data).await.map_err(|fault| fault.at(path.as_ref()))?;
        Ok(PartId { content_id: sent.to_string() })
    }

    async fn complete_multipart(&self, path: &Path, id: &MultipartId, parts: Vec<PartId>) -> Result<PutResult> {
        self.complete(path, id, parts).await.map_err(|fault| fault.at(path.as_ref()))?;
        self.forget(id);
        Ok(put_result())
    }

    async fn abort_multipart(&self, path: &Path, id: &MultipartId) -> Result<()> {
        let abort = async {
            let place = self.mounts.place(&unfinished(path, id))?;
            if let Some(upload) = self.forget(id) {
                upload.sent.send_replace(None);
                // Otherwise the client keeps its connections to the datanodes.
                if let Some(mut writer) = upload.sending.lock().await.writer.take() {
                    let _unclosed = place.namespace.limited(writer.close()).await;
                }
            }
            place.remove(false).await
        };
        abort.await.map_err(|fault: Fault| fault.at(path.as_ref()))
    }
}

#[async_trait]
impl DirectoryStore for Hdfs {
    async fn found(&self, path: &Path) -> Result<Option<Found>> {
        let found = match self.mounts.place(path) {
            Ok(place) => place.status().await,
            Err(fault) => Err(fault),
        };
        match found {
            Ok(found) => Ok(Some(if found.isdir { Found::Directory } else { Found::File })),
            Err(Fault::NotFound) => Ok(None),
            Err(fault) => Err(fault.at(path.as_ref())),
        }
    }

    async fn directories(&self, path: &Path) -> Result<Vec<ObjectMeta>> {
        let list = async {
            let listed = match self.mounts.place(path)?.list().await {
                Err(Fault::NotFound) => Vec::new(),
                listed => listed?,
            };
            let of_directory = |found: &FileStatus| {
                let name = found.path.rsplit('/').next().unwrap_or_default();
                // No run has made one whose name is not valid.
                Some(directory_meta(found, Path::parse(format!("{path}/{name}")).ok()?))
            };
            let directories = listed.iter().filter(|found| found.isdir);
            directories.filter_map(of_directory).collect::<Result<Vec<_>, Fault>>()
        };
        list.await.map_err(|fault: Fault| fault.at(path.as_ref()))
    }

    async fn make_directory(&self, path: &Path) -> Result<()> {
        let made = async { self.mounts.place(path)?.make_directory().await };
        made.await.map_err(|fault: Fault| fault.at(path.as_ref()))
    }

    async fn rename_directory(&self, from: &Path, to: &Path) -> Result<()> {
        if self.found(to).await? == Some(Found::File) {
            return Err(Fault::Exists.at(to.as_ref()));
        }
        let renamed = async { self.mounts.place(from)?.rename(&self.mounts.place(to)?, true).await };
        renamed.await.map_err(|fault| match fault {
            Fault::Exists => fault.at(to.as_ref()),
            fault => fault.at(from.as_ref()),
        })
    }

    async fn keep_permissions(&self, of: &Path, to: &Path) -> Result<()> {
        let kept = async {
            let permission = self.mounts.place(of)?.status().await?.permission;
            self.mounts.place(to)?.set_permission(permission.into()).await
        };
        kept.await.map_err(|fault: Fault| fault.at(to.as_ref()))
    }

    async fn remove_directory(&self, path: &Path) -> Result<()> {
        let removed = async { self.mounts.place(path)?.remove(true).await };
        match removed.await {
            Ok(()) | Err(Fault::NotFound) => Ok(()),
            Err(fault) => Err(fault.at(path.as_ref())),
        }
    }
}
