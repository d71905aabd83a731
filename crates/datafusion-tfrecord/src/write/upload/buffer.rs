//! [`PartBuffers`]: buffers the unsent bytes of shards, in memory while there is room, else on disk.

use std::io;
use std::mem;
use std::sync::Arc;

use bytes::Bytes;
use datafusion_execution::TaskContext;
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};

use super::spool::{Slot, Spool};

/// Minimum number of bytes sent together, except at the end of a shard. Stores require 5 MiB or more.
pub(super) const CHUNK_LEN: usize = 8 << 20;

/// Initial capacity of a chunk in memory: there may be a thousand, most of them small.
const FIRST_LEN: usize = 64 << 10;

/// Maximum memory for all buffers of a run, whatever the engine's pool has.
const MOST_MEMORY: usize = 1 << 30;

/// Buffers may take at most 1/4 of the engine's memory; the rest is for the query.
const SHARE: usize = 4;

/// Buffers the bytes of all open shards of a run until they fill a part. Memory is reserved with the engine's pool,
/// up to a quarter of it and at most 1 GiB. Beyond that, bytes wait in the engine's temporary files.
#[derive(Debug)]
pub(super) struct PartBuffers {
    reservation: MemoryReservation,
    limit: usize,
    spool: Arc<Spool>,
}

impl PartBuffers {
    pub(super) fn new(context: &TaskContext) -> Self {
        let pool = context.memory_pool();
        let limit = match pool.memory_limit() {
            MemoryLimit::Finite(limit) => (limit / SHARE).min(MOST_MEMORY),
            _ => MOST_MEMORY,
        };
        // Not registered as spillable: every sort would get a smaller share, however little this takes.
        let reservation = MemoryConsumer::new("uploads of shards").register(pool);
        let spool = Spool::new(Arc::clone(&context.runtime_env().disk_manager), CHUNK_LEN);
        Self { reservation, limit, spool: Arc::new(spool) }
    }

    /// Returns how many whole chunks fit into the memory.
    pub(super) fn chunks(&self) -> usize {
        self.limit / CHUNK_LEN
    }

    fn try_grow(&self, bytes: usize) -> bool {
        self.reservation.size() + bytes <= self.limit && self.reservation.try_grow(bytes).is_ok()
    }
}

/// Up to [`CHUNK_LEN`] bytes.
#[derive(Debug)]
pub(super) struct Chunk {
    content: Content,
    reserved: ReservedMemory,
}

#[derive(Debug)]
enum Content {
    Memory(Vec<u8>),
    Disk(Slot),
}

impl Chunk {
    pub(super) fn new(buffers: &Arc<PartBuffers>) -> Self {
        Self {
            content: Content::Memory(Vec::new()),
            reserved: ReservedMemory { buffers: Arc::clone(buffers), bytes: 0 },
        }
    }

    pub(super) fn len(&self) -> usize {
        match &self.content {
            Content::Memory(bytes) => bytes.len(),
            Content::Disk(slot) => slot.len(),
        }
    }

    /// Appends as many bytes as fit, and returns their number.
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(CHUNK_LEN - self.len());
        let bytes = bytes.get(..len).unwrap_or(bytes);
        match &mut self.content {
            Content::Memory(held) => {
                let needed = held.len() + len;
                let capacity = held.capacity();
                if needed > capacity {
                    let wanted = (2 * capacity).clamp(FIRST_LEN, CHUNK_LEN).max(needed);
                    if !self.reserved.buffers.try_grow(wanted - capacity) {
                        return self.spill(bytes);
                    }
                    self.reserved.bytes += wanted - capacity;
                    held.reserve_exact(wanted - held.len());
                }
                held.extend_from_slice(bytes);
            }
            Content::Disk(slot) => slot.append(bytes)?,
        }
        Ok(len)
    }

    /// Moves the buffered bytes to disk, and appends the bytes there.
    fn spill(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut slot = self.reserved.buffers.spool.slot()?;
        if let Content::Memory(held) = &self.content {
            slot.append(held)?;
        }
        slot.append(bytes)?;
        self.content = Content::Disk(slot);
        self.reserved.release();
        Ok(bytes.len())
    }

    /// Whether [`into_bytes`](Self::into_bytes) reads from disk.
    pub(super) fn is_on_disk(&self) -> bool {
        matches!(self.content, Content::Disk(_))
    }

    /// Returns the bytes and their reservation.
    pub(super) fn into_bytes(mut self) -> io::Result<(Bytes, ReservedMemory)> {
        let bytes = match self.content {
            Content::Memory(bytes) => bytes,
            Content::Disk(slot) => {
                // Infallible: only a bounded number of chunks is sent at a time.
                self.reserved.buffers.reservation.grow(slot.len());
                self.reserved.bytes += slot.len();
                slot.read()?
            }
        };
        Ok((bytes.into(), self.reserved))
    }
}

/// Memory that stays reserved until this is dropped.
#[derive(Debug)]
pub(super) struct ReservedMemory {
    buffers: Arc<PartBuffers>,
    bytes: usize,
}

impl ReservedMemory {
    fn release(&mut self) {
        self.buffers.reservation.shrink(mem::take(&mut self.bytes));
    }
}

impl Drop for ReservedMemory {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use datafusion_execution::config::SessionConfig;
    use datafusion_execution::memory_pool::{FairSpillPool, MemoryPool};
    use datafusion_execution::runtime_env::RuntimeEnvBuilder;

    use super::*;

    /// Creates buffers over a pool of this many bytes.
    fn buffers(memory: usize) -> datafusion_common::Result<(Arc<PartBuffers>, Arc<dyn MemoryPool>)> {
        let pool: Arc<dyn MemoryPool> = Arc::new(FairSpillPool::new(memory));
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&pool)).build_arc()?;
        let context = TaskContext::default().with_session_config(SessionConfig::new()).with_runtime(runtime);
        Ok((Arc::new(PartBuffers::new(&context)), pool))
    }

    #[test]
    fn bytes_are_the_same_in_memory_and_on_disk() -> datafusion_common::Result<()> {
        let expected: Vec<u8> = (0..CHUNK_LEN + 1).map(|n| (n % 251) as u8).collect();
        for (memory, on_disk) in [(64 << 20, [false, false]), (12 << 20, [true, true])] {
            let (buffers, pool) = buffers(memory)?;
            let mut chunks = [Chunk::new(&buffers), Chunk::new(&buffers)];
            // One after the other, so that shared state would show.
            for piece in expected.chunks(100_000) {
                for chunk in &mut chunks {
                    let room = CHUNK_LEN - chunk.len();
                    assert_eq!(chunk.append(piece)?, piece.len().min(room));
                }
                assert!(pool.reserved() <= memory / SHARE);
            }
            assert_eq!(chunks.each_ref().map(Chunk::is_on_disk), on_disk, "{memory}");
            for chunk in chunks {
                let (bytes, reserved) = chunk.into_bytes()?;
                assert!(bytes == expected[..CHUNK_LEN]);
                assert!(pool.reserved() >= CHUNK_LEN);
                drop(reserved);
            }
            assert_eq!(pool.reserved(), 0);
        }
        Ok(())
    }

    #[test]
    fn a_slot_is_used_again() -> datafusion_common::Result<()> {
        let (buffers, _) = buffers(0)?;
        let mut first = buffers.spool.slot()?;
        first.append(b"first")?;
        let mut second = buffers.spool.slot()?;
        second.append(b"second")?;
        drop(first);
        let mut third = buffers.spool.slot()?;
        third.append(b"3")?;
        assert_eq!((second.read()?, third.read()?), (b"second".to_vec(), b"3".to_vec()));
        assert!(third.append(&vec![0; CHUNK_LEN]).is_err());
        assert_eq!(format!("{:?}", buffers.spool), "Spool { slots: 2 }");
        Ok(())
    }
}
