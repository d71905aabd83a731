//! Writing: files that appear whole under their names, and directories that are renamed.
//!
//! The namenode renames in one step and creates exclusively. A file is complete once it is closed: until then it has another
//! name, which readers skip ([`UNFINISHED`]).
//!
//! The client recovers from a datanode that fails while a block is sent, but not from one that is away when a block begins, and
//! does not ask for others then. So
//! an upload keeps each part until all datanodes of its block have it on their disks (`hsync`). If that fails, the namenode
//! closes the file (`recoverLease`), its length shows how much has arrived, and the rest is appended. Datanodes compare the
//! checksum and the position of every packet. The checksum of a file (`getFileChecksum`) is not compared: the client does not
//! ask for it.
//!
//! The file stays open from part to part, because it is not safe to append to a block that was closed a moment ago: the
//! namenode may not have heard from all datanodes yet, and then the client writes to some of them and leaves the generation
//! stamp of the block as it was, so that a shorter replica counts as good. Only a file of erasure coding, which begins a new
//! block for each part, and one whose last block was recovered are appended to.

use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use hdfs_native::client::{FileStatus, WriteOptions};
use hdfs_native::file::FileWriter;
use hdfs_native::{Client, HdfsError};
use object_store::path::Path;

use super::fault::Fault;
use super::file::tag_of;
use super::place::Place;
use crate::directories::UNFINISHED;
use crate::error::Answer;

/// Maximum number of bytes that are sent within the time limit of one answer.
const PIECE: usize = 1 << 20;

/// Milliseconds to wait each time for another run that replaces the same file.
const WAITS: [u64; 6] = [100, 300, 600, 1000, 2000, 4000];

/// Returns the path of a file until it is complete: next to `path`, with a name that contains `id`.
pub(super) fn unfinished(path: &Path, id: &str) -> Path {
    let mut parts: Vec<_> = path.parts().collect();
    parts.pop();
    parts.push(format!("{UNFINISHED}{id}").into());
    Path::from_iter(parts)
}

/// Returns the bytes from `skip` on, in pieces.
fn pieces(content: &[Bytes], skip: u64) -> impl Iterator<Item = Bytes> {
    let mut skip = usize::try_from(skip).unwrap_or(usize::MAX);
    content.iter().flat_map(move |bytes| {
        let from = skip.min(bytes.len());
        skip -= from;
        let bytes = bytes.slice(from..);
        (0..bytes.len()).step_by(PIECE).map(move |start| bytes.slice(start..bytes.len().min(start + PIECE)))
    })
}

/// What becomes of a file after a part of it was sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    StayOpen,
    Close,
}

/// The numbers of replicas of a file that is written while datanodes are away.
#[derive(Default)]
struct Replicas {
    /// What it is to have.
    all: Option<u32>,
    /// What is asked for.
    fewer: Option<u32>,
}

impl Place {
    /// Writes a file, and closes it.
    pub(super) async fn write(&self, content: &[Bytes]) -> Result<(), Fault> {
        self.write_from(0, content, &mut None, After::Close).await
    }

    /// Appends to the file of an upload, which has `start` bytes; the first bytes create it. When this returns, the datanodes
    /// have all of the bytes. `writer` is that of the file where it is open.
    pub(super) async fn write_from(
        &self,
        start: u64,
        content: &[Bytes],
        writer: &mut Option<FileWriter>,
        after: After,
    ) -> Result<(), Fault> {
        let mut replicas = Replicas::default();
        let written = self.write_with(start, content, writer, after, &mut replicas).await;
        if let Some(all) = replicas.all {
            let restored =
                self.ask(move |client, path| async move { client.set_replication(&path, all).await }.boxed());
            if let Err(fault) = restored.await {
                log::warn!("{}: may have fewer than {all} replicas: {fault}", self.path);
            }
        }
        written
    }

    async fn write_with(
        &self,
        start: u64,
        content: &[Bytes],
        writer: &mut Option<FileWriter>,
        after: After,
        replicas: &mut Replicas,
    ) -> Result<(), Fault> {
        let end = start + content.iter().map(|bytes| bytes.len() as u64).sum::<u64>();
        let (mut at, mut retries) = (start, self.namespace.patience().retries());
        loop {
            let opened = match writer.take() {
                Some(open) => Ok(open),
                None => self.open(at, replicas.fewer).await,
            };
            let sent = match opened {
                Ok(open) => self.send(open, pieces(content, at - start), after, end).await,
                Err(fault) => Err(fault),
            };
            let fault = match sent {
                Ok(open) => {
                    *writer = open;
                    return Ok(());
                }
                Err(fault) => fault,
            };
            self.namespace.wait(&mut retries, fault).await?;
            if start > 0 {
                at = self.settled_length().await?;
                if !(start..=end).contains(&at) {
                    let reason = format!("{} has {at} bytes, expected {start} to {end}", self.path);
                    return Err(Fault::Failed(reason));
                }
                if at == end {
                    return Ok(());
                }
            }
            self.ask_for_fewer(replicas, at > 0).await;
        }
    }

    /// Asks for one replica less, if there are several. The client does not leave out a datanode that it cannot reach, and the
    /// namenode names it for the next block, too, until it has detected that: of fewer datanodes, it may not be one.
    async fn ask_for_fewer(&self, replicas: &mut Replicas, is_set: bool) {
        let found = self.status().await.ok().and_then(|status| status.replication);
        let Some(found @ 2..) = found else { return };
        replicas.all.get_or_insert(found);
        let fewer = found - 1;
        replicas.fewer = Some(fewer);
        if is_set {
            // If this fails, the same number is asked for again.
            let _same =
                self.ask(move |client, path| async move { client.set_replication(&path, fewer).await }.boxed()).await;
        }
    }

    /// Opens the file behind its first `at` bytes.
    async fn open(&self, at: u64, replicas: Option<u32>) -> Result<FileWriter, Fault> {
        let client = self.namespace.client().await?;
        match at {
            // The name is that of one upload, so what is there is from an earlier attempt.
            0 => {
                let mut options = WriteOptions::default().overwrite(true).create_parent(false);
                options.permission = 0o666 & !self.namespace.umask();
                options.replication = replicas;
                self.step(client.create(&self.path, options)).await
            }
            _ => self.step(client.append(&self.path)).await,
        }
    }

    /// Sends bytes once, after which the file has `end` bytes. Returns the writer if the file is still open.
    async fn send(
        &self,
        mut writer: FileWriter,
        pieces: impl Iterator<Item = Bytes>,
        after: After,
        end: u64,
    ) -> Result<Option<FileWriter>, Fault> {
        for piece in pieces {
            self.step(writer.write_bytes(piece)).await?;
        }
        if after == After::StayOpen {
            match self.namespace.limited(writer.hsync()).await {
                Ok(Ok(())) => return Ok(Some(writer)),
                // A file of erasure coding is closed after each part. To append to it begins a new block.
                Ok(Err(HdfsError::OperationFailed(_))) => {}
                answer => self.explain(answer)?,
            }
        }
        self.step(writer.close()).await?;
        self.check_length(end).await.map(|()| None)
    }

    /// Waits for a step of a writer, which asks the namenode or a datanode.
    async fn step<T>(&self, answer: impl Future<Output = Result<T, HdfsError>>) -> Result<T, Fault> {
        self.explain(self.namespace.limited(answer).await)
    }

    fn explain<T>(&self, answer: Result<Result<T, HdfsError>, Fault>) -> Result<T, Fault> {
        match answer {
            Ok(Err(HdfsError::IOError(error))) => {
                Err(Fault::Unreachable(format!("{}: a datanode or the namenode: {error}", self.path)))
            }
            Ok(answer) => answer.map_err(Fault::from),
            // The client panics if several datanodes fail at once.
            Err(Fault::Failed(reason)) => Err(Fault::Lost(reason)),
            Err(fault) => Err(fault),
        }
    }

    async fn check_length(&self, expected: u64) -> Result<(), Fault> {
        match self.status().await?.length as u64 {
            found if found == expected => Ok(()),
            found => Err(Fault::Lost(format!("{} has {found} bytes, expected {expected}", self.path))),
        }
    }

    /// Closes the file, which a writer may have left open, and returns its length.
    pub(super) async fn settled_length(&self) -> Result<u64, Fault> {
        let mut retries = self.namespace.patience().retries();
        while !self.ask(|client, path| async move { client.recover_lease(&path).await }.boxed()).await? {
            let text = format!("the last block of {} is being recovered", self.path);
            let answer = Answer { status: None, code: None, text: Some(text) };
            self.namespace.wait(&mut retries, Fault::NotReady(answer)).await?;
        }
        Ok(self.status().await?.length as u64)
    }

    /// Makes the directory, and those above it.
    pub(super) async fn make_directory(&self) -> Result<(), Fault> {
        let permission = 0o777 & !self.namespace.umask();
        self.ask(move |client, path| async move { client.mkdirs(&path, permission, true).await }.boxed()).await
    }

    /// Returns the directory that this is in.
    pub(super) fn parent(&self) -> Self {
        let parent = self.path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let path = if parent.is_empty() { "/" } else { parent };
        Self { namespace: self.namespace.clone(), path: path.to_owned() }
    }

    /// Removes a file; with `all`, a directory with everything in it.
    pub(super) async fn remove(&self, all: bool) -> Result<(), Fault> {
        let removed = self.ask(move |client, path| async move { client.delete(&path, all).await }.boxed()).await?;
        if removed { Ok(()) } else { Err(Fault::NotFound) }
    }

    pub(super) async fn set_permission(&self, permission: u32) -> Result<(), Fault> {
        self.ask(move |client, path| async move { client.set_permission(&path, permission).await }.boxed()).await
    }

    /// Renames a file or a directory. With `replace`, a file takes the place of another one, and a directory that of an empty
    /// one.
    ///
    /// If a request is repeated because its answer was lost, the namenode finds nothing to rename.
    pub(super) async fn rename(&self, to: &Self, replace: bool) -> Result<(), Fault> {
        if !std::sync::Arc::ptr_eq(&self.namespace, &to.namespace) {
            return Err(Fault::Failed(format!("{} and {} are in different mounts", self.path, to.path)));
        }
        let before = self.status().await?;
        let mut retries = self.namespace.patience().retries();
        loop {
            let renamed = match self.namespace.client().await {
                Ok(client) => {
                    let answer = self.namespace.limited(client.rename(&self.path, &to.path, replace)).await;
                    answer.and_then(|answer| answer.map_err(Fault::from))
                }
                Err(fault) => Err(fault),
            };
            let Err(fault) = renamed else { return Ok(()) };
            if fault.may_pass() {
                self.namespace.wait(&mut retries, fault).await?;
                if self.was_renamed(to, &before).await? {
                    return Ok(());
                }
            } else if self.was_renamed(to, &before).await? {
                return Ok(());
            } else {
                return Err(fault);
            }
        }
    }

    async fn was_renamed(&self, to: &Self, before: &FileStatus) -> Result<bool, Fault> {
        match (self.status().await, to.status().await) {
            (Err(Fault::NotFound), Ok(found)) => Ok(is_same(&found, before)),
            (Ok(_) | Err(Fault::NotFound), Ok(_) | Err(Fault::NotFound)) => Ok(false),
            (Err(fault), _) | (_, Err(fault)) => Err(fault),
        }
    }

    /// Puts this file in the place of `to`, if that is still the version `tag`.
    ///
    /// The namenode has no such request. So a run first gives its file the name `claim`, which follows from the version: only one
    /// run can have it. A claim whose run does not go on, because it was killed, is removed by the next run. Without its
    /// claim, a run that was only slow cannot replace anything.
    pub(super) async fn replace(&self, to: &Self, claim: &Self, tag: &str) -> Result<(), Fault> {
        let ours = self.status().await?;
        let lost = |fault| if matches!(fault, Fault::Exists | Fault::NotFound) { Fault::Changed } else { fault };
        match self.rename(claim, false).await {
            Err(Fault::Exists) => {
                claim.await_replacement(to, tag).await?;
                self.rename(claim, false).await.map_err(lost)?;
            }
            renamed => renamed?,
        }
        if !to.has_version(tag).await? {
            let _unremoved = claim.remove(false).await;
            return Err(Fault::Changed);
        }
        claim.rename(to, true).await.map_err(lost)?;
        // The claim may have been that of the next run.
        match to.status().await {
            Ok(found) if is_same(&found, &ours) => Ok(()),
            Ok(_) => Err(Fault::Changed),
            Err(fault) => Err(fault),
        }
    }

    /// Waits until the run that has claimed a version has replaced it; removes the claim if it does not.
    async fn await_replacement(&self, to: &Self, tag: &str) -> Result<(), Fault> {
        for wait in WAITS {
            tokio::time::sleep(Duration::from_millis(wait)).await;
            if !to.has_version(tag).await? {
                return Err(Fault::Changed);
            }
        }
        match self.remove(false).await {
            Err(Fault::NotFound) => Ok(()),
            removed => removed,
        }
    }

    async fn has_version(&self, tag: &str) -> Result<bool, Fault> {
        match self.status().await {
            Ok(found) => Ok(tag_of(&found) == tag),
            Err(Fault::NotFound) => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// Sends a request, as often as it takes.
    async fn ask<T>(
        &self,
        ask: impl Fn(Client, String) -> BoxFuture<'static, Result<T, HdfsError>>,
    ) -> Result<T, Fault> {
        self.namespace.request(|client| ask(client, self.path.clone())).await
    }
}

/// Whether two descriptions are of the same file or directory, which may have been renamed.
fn is_same(one: &FileStatus, other: &FileStatus) -> bool {
    let identity = |status: &FileStatus| (status.isdir, status.length, status.modification_time, status.permission);
    identity(one) == identity(other) && one.owner == other.owner
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hdfs_pieces_of_a_part_begin_where_the_file_ends() {
        let content = [Bytes::from(vec![1; 3]), Bytes::from(vec![2; PIECE + 2])];
        for skip in [0, 2, 3, 4, PIECE as u64 + 4] {
            let sent = pieces(&content, skip).flatten().collect::<Vec<_>>();
            assert_eq!(sent, content.concat()[skip as usize..]);
        }
        assert_eq!(pieces(&content, 0).map(|piece| piece.len()).collect::<Vec<_>>(), [3, PIECE, 2]);
        assert_eq!(pieces(&content, PIECE as u64 + 5).count(), 0);
    }

    #[test]
    fn hdfs_unfinished_files_are_hidden_next_to_their_places() {
        assert_eq!(unfinished(&Path::from("a/day=1/x.tfrecord"), "7").as_ref(), "a/day=1/.tfr.7");
        assert_eq!(unfinished(&Path::from("x"), "7").as_ref(), ".tfr.7");
    }
}
