//! [`OpenFile`]: a file with its blocks, in one version.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use chrono::DateTime;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryFutureExt};
use hdfs_native::client::{ContentSummary, FileStatus};
use hdfs_native::file::FileReader;
use object_store::ObjectMeta;
use object_store::path::Path;

use super::fault::Fault;
use super::place::Place;
use crate::connection::Retries;

/// A file that was opened: the list of its blocks, and the version that they belong to.
pub(super) struct OpenFile {
    place: Place,
    reader: FileReader,
    meta: ObjectMeta,
    tag: String,
}

/// Returns the version of a file. The client does not pass on its number in the namenode: the modification time, in
/// milliseconds, and the length distinguish it.
pub(super) fn tag_of(status: &FileStatus) -> String {
    format!("{:x}-{:x}", status.modification_time, status.length)
}

/// Returns the description of a file.
pub(super) fn meta_of(status: &FileStatus, location: Path) -> Result<ObjectMeta, Fault> {
    // A symbolic link has no blocks. The namenode lists it without its target.
    if status.blocksize == Some(0) {
        return Err(Fault::Failed(format!("{} is a symbolic link, which is not supported", status.path)));
    }
    Ok(ObjectMeta { e_tag: Some(tag_of(status)), ..directory_meta(status, location)? })
}

/// Returns the description of a directory.
pub(super) fn directory_meta(status: &FileStatus, location: Path) -> Result<ObjectMeta, Fault> {
    let modified = i64::try_from(status.modification_time).ok().and_then(DateTime::from_timestamp_millis);
    let last_modified = modified.ok_or_else(|| {
        Fault::Failed(format!("{} was modified at {}, which is not a time", status.path, status.modification_time))
    })?;
    Ok(ObjectMeta { location, last_modified, size: status.length as u64, e_tag: None, version: None })
}

/// The data units and parity units of Hadoop's policies of erasure coding, which all have the same size of cells.
const POLICIES: [(u64, u64); 4] = [(6, 3), (3, 2), (10, 4), (2, 1)];
const CELL: u64 = 1 << 20;

/// Whether a file is open for writing. `complete`: the length of its complete blocks.
///
/// The namenode reports this with the list of blocks, but the client does not pass it on. So it follows from the space
/// that the namenode reserves: a whole block for the last block while it is written, and no more than the bytes of a
/// block that is complete.
pub(super) fn is_being_written(status: &FileStatus, complete: u64, summary: &ContentSummary) -> bool {
    let (Some(block), Some(replicas)) = (status.blocksize, status.replication) else { return false };
    let reserved = complete.checked_add(block).and_then(|bytes| bytes.checked_mul(u64::from(replicas)));
    if reserved == Some(summary.space_consumed) {
        return true;
    }
    // A file of erasure coding has one replica, and its blocks are groups of data and parity.
    let coded = |(data, parity): (u64, u64)| {
        let group = block.checked_mul(data)?;
        let reserved = block.checked_mul(data + parity)?;
        let rest = complete.checked_rem(group)?;
        let parity_of_rest = (rest / (CELL * data)).checked_mul(CELL)?.checked_add(CELL.min(rest % (CELL * data)))?;
        let whole = (complete / group).checked_mul(reserved)?;
        whole.checked_add(rest)?.checked_add(parity_of_rest.checked_mul(parity)?)?.checked_add(reserved)
    };
    replicas == 1 && POLICIES.into_iter().any(|policy| coded(policy) == Some(summary.space_consumed))
}

impl OpenFile {
    /// Opens the file at `place`, which users know as `path`.
    pub(super) async fn open(place: Place, path: Path) -> Result<Self, Fault> {
        // A file that is replaced between the questions is asked about again.
        for _ in 0..3 {
            let reader = place.read().await?;
            // Afterwards: if the version is the listed one now, it was so when the blocks were listed.
            let (status, summary) = futures::try_join!(place.status(), place.summary())?;
            let complete = reader.file_length() as u64;
            if is_being_written(&status, complete, &summary) {
                break;
            }
            let meta = meta_of(&status, path.clone())?;
            if complete == meta.size && summary.length == meta.size {
                return Ok(Self { place, reader, tag: tag_of(&status), meta });
            }
        }
        Err(Fault::BeingWritten(format!("/{path}")))
    }

    pub(super) fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    pub(super) fn tag(&self) -> &str {
        &self.tag
    }

    /// Opens the same version of the file again: its blocks may have moved, and their datanodes may be back.
    async fn again(&self) -> Result<Self, Fault> {
        match Self::open(self.place.clone(), self.meta.location.clone()).await {
            Ok(file) if file.tag == self.tag => Ok(file),
            Ok(_) | Err(Fault::NotFound | Fault::BeingWritten(_)) => Err(Fault::Changed),
            Err(fault) => Err(fault),
        }
    }

    /// Returns the bytes in `range`, which is in the file. The last piece only arrives if the file still has the same
    /// version: the blocks of a file that was cut and appended to keep their names.
    pub(super) fn pieces(self: Arc<Self>, range: Range<u64>) -> BoxStream<'static, Result<Bytes, Fault>> {
        let reading = Reading { retries: None, pieces: None, next: range.start, end: range.end, file: self };
        stream::try_unfold(
            reading,
            |mut reading| async move { Ok(reading.next().await?.map(|piece| (piece, reading))) },
        )
        .boxed()
    }

    async fn check_version(&self) -> Result<(), Fault> {
        let status = self.place.status().map_err(|fault| match fault {
            Fault::NotFound => Fault::Changed,
            fault => fault,
        });
        if tag_of(&status.await?) == self.tag { Ok(()) } else { Err(Fault::Changed) }
    }
}

/// A range of a file that is being read.
struct Reading {
    file: Arc<OpenFile>,
    /// What the client returns, from the byte `next`.
    pieces: Option<BoxStream<'static, hdfs_native::Result<Bytes>>>,
    next: u64,
    end: u64,
    /// The retries since the last piece.
    retries: Option<Retries>,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        while self.next < self.end {
            let fault = match self.piece().await {
                Ok(piece) if piece.is_empty() => continue,
                Ok(piece) => {
                    self.next += piece.len() as u64;
                    self.retries = None;
                    if self.next == self.end {
                        self.file.check_version().await?;
                    }
                    return Ok(Some(piece));
                }
                Err(fault) => fault,
            };
            self.pieces = None;
            let namespace = &self.file.place.namespace;
            let retries = self.retries.get_or_insert_with(|| namespace.patience().retries());
            namespace.wait(retries, fault).await?;
            self.file = Arc::new(self.file.again().await?);
        }
        Ok(None)
    }

    async fn piece(&mut self) -> Result<Bytes, Fault> {
        let left = self.end - self.next;
        let too_long = |_| Fault::Failed("the range has more bytes than this machine can address".to_owned());
        let pieces = match &mut self.pieces {
            Some(pieces) => pieces,
            None => {
                let start = usize::try_from(self.next).map_err(too_long)?;
                let len = usize::try_from(left).map_err(too_long)?;
                self.pieces.insert(self.file.reader.read_range_stream(start, len).boxed())
            }
        };
        match self.file.place.namespace.limited(pieces.next()).await? {
            Some(Ok(piece)) if piece.len() as u64 > left => {
                Err(Fault::Failed(format!("a datanode returned {} bytes, expected {left}", piece.len())))
            }
            Some(piece) => Ok(piece?),
            None => Err(Fault::Lost(format!("the datanodes returned {left} bytes less than the file has"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(blocksize: u64, replication: u32) -> FileStatus {
        FileStatus {
            path: "/f".to_owned(),
            length: 0,
            isdir: false,
            permission: 0o644,
            owner: String::new(),
            group: String::new(),
            modification_time: 1,
            access_time: 1,
            replication: Some(replication),
            blocksize: Some(blocksize),
        }
    }

    /// The lengths and the space are those of a namenode 3.4.2.
    #[test]
    fn hdfs_file_being_written_is_found_by_its_reserved_space() {
        const MB: u64 = 1 << 20;
        for (block, replicas, length, complete, space, open) in [
            (128 * MB, 2, 9000, 0, 268_435_456, true),
            (MB, 2, MB, MB, 4 * MB, true),
            (MB, 2, 2_700_000, 2 * MB, 6 * MB, true),
            (MB, 2, 3 * MB, 3 * MB, 6 * MB, false),
            (128 * MB, 1, 0, 0, 0, false),
            // XOR-2-1: closed, and open.
            (MB, 1, 3 * MB, 3 * MB, 5 * MB, false),
            (MB, 1, 2 * MB, 2 * MB, 6 * MB, true),
            // More replicas in a snapshot.
            (128 * MB, 2, 5000, 5000, 15_000, false),
        ] {
            let summary = ContentSummary {
                length,
                file_count: 1,
                directory_count: 0,
                quota: 0,
                space_consumed: space,
                space_quota: 0,
            };
            let found = is_being_written(&status(block, replicas), complete, &summary);
            assert_eq!(found, open, "{length} of {block}, {replicas} replicas, {space}");
        }
    }
}
