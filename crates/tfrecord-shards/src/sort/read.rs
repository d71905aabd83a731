//! [`TaskRecords`]: reads the records of a task, in order.

use std::mem;
use std::ops::Range;

use arrow_tfrecord::RecordBuffer;
use tfrecord_framing::{FOOTER_LEN, HEADER_LEN, Position, frame_len};

use super::entry::Item;
use super::load::{Comparison, fetch};
use super::merge::{KeyMerge, WindowPlace};
use super::plan::{Scratch, ShardPlan};
use super::run::RunSet;
use super::slabs::FrameOrder;
use crate::error::Result;
use crate::write::sharding::Piece;

/// Some records of a task.
#[derive(Debug, Clone, Default)]
pub struct SortedBlock {
    /// The records, framed.
    pub records: RecordBuffer,
    /// The assignment of all of them to shards of [`ShardPlan::shards`], in order; no piece is empty.
    pub pieces: Vec<Piece>,
}

/// Reads the records of a task, in order, block by block.
///
/// Returns nothing after an error.
#[derive(Debug)]
pub struct TaskRecords {
    plan: ShardPlan,
    task: usize,
    /// Whether the task is read for the last time.
    once: bool,
    /// The incomplete shards.
    shards: Range<usize>,
    /// Rows read of the first of them.
    rows: u64,
    bytes: u64,
    reading: Option<Reading>,
    spare: Option<RecordBuffer>,
}

#[derive(Debug)]
struct Reading {
    merge: KeyMerge,
    scratch: Scratch,
    /// Number of records of the window's order that were returned or skipped.
    next: usize,
    /// The end of the loaded records.
    until: usize,
    /// Number of records to skip, because they belong to the previous task.
    skip: u64,
}

impl ShardPlan {
    /// Reads the records of a task in order. Tasks may be read in any order, repeatedly, and in parallel.
    pub fn read(&self, task: usize) -> TaskRecords {
        TaskRecords::new(self.clone(), task, false)
    }

    /// Reads the records of a task for the last time. A temporary file is deleted as soon as all tasks with records in
    /// it have been read completely by this method.
    pub fn read_once(&self, task: usize) -> TaskRecords {
        TaskRecords::new(self.clone(), task, true)
    }
}

impl TaskRecords {
    fn new(plan: ShardPlan, task: usize, once: bool) -> Self {
        let shards = plan.task_shards(task);
        Self { plan, task, once, shards, rows: 0, bytes: 0, reading: None, spare: None }
    }

    /// Returns a buffer, to be reused for a later block.
    pub fn recycle(&mut self, mut records: RecordBuffer) {
        if records.capacity() <= 2 * self.plan.0.chunks.chunk_bytes {
            records.clear();
            self.spare = Some(records);
        }
    }

    fn next_block(&mut self) -> Result<Option<SortedBlock>> {
        self.pass_complete()?;
        if self.shards.is_empty() {
            // A task without rows, or one that was read completely.
            if mem::take(&mut self.once) {
                self.plan.0.end_task(self.task);
            }
            return Ok(None);
        }
        let mut reading = match self.reading.take() {
            Some(reading) => reading,
            None => self.begin()?,
        };
        let set = self.plan.0.chunks.set.clone();
        let chunk_bytes = self.plan.0.chunks.chunk_bytes;
        while reading.next == reading.scratch.window.order.len() {
            if !reading.next_window(&set, chunk_bytes)? {
                return Err(set.damaged("records are missing"));
            }
        }
        if reading.next == reading.until {
            reading.load(&set, chunk_bytes)?;
        }
        let block = self.fill(&mut reading, &set)?;
        self.reading = Some(reading);
        self.pass_complete()?;
        if self.shards.is_empty() && mem::take(&mut self.once) {
            self.plan.0.end_task(self.task);
        }
        Ok(Some(block))
    }

    fn begin(&self) -> Result<Reading> {
        let chunks = &self.plan.0.chunks;
        let start = self.plan.task_start(self.task).unwrap_or_default();
        let chunk = chunks.bounds.partition_point(|bound| *bound <= start.key);
        let mut merge = KeyMerge::at(chunks, Some(start.key), chunk..chunks.len(), true)?;
        if let Some(next) = self.plan.task_start(self.task + 1) {
            merge.set_fence(next.key);
        }
        let mut scratch = self.plan.0.scratch().pop().unwrap_or_default();
        scratch.window.clear();
        Ok(Reading { merge, scratch, next: 0, until: 0, skip: start.ties })
    }

    /// Moves past the shards whose rows were all read.
    fn pass_complete(&mut self) -> Result<()> {
        while let Some(shard) = self.plan.shards().get(self.shards.start).filter(|_| !self.shards.is_empty()) {
            if self.rows < shard.rows {
                return Ok(());
            }
            if self.bytes != shard.bytes {
                return Err(self.plan.0.chunks.set.damaged("records have other lengths"));
            }
            self.shards.start += 1;
            (self.rows, self.bytes) = (0, 0);
        }
        Ok(())
    }

    /// Returns some of the loaded records.
    fn fill(&mut self, reading: &mut Reading, set: &RunSet) -> Result<SortedBlock> {
        let Reading { scratch: Scratch { window, loaded }, next, until, .. } = reading;
        let mut block = SortedBlock { records: self.spare.take().unwrap_or_default(), pieces: Vec::new() };
        let chunk_bytes = self.plan.0.chunks.chunk_bytes;
        let most = (chunk_bytes / BLOCKS_PER_CHUNK).max(chunk_bytes.min(LEAST_BLOCK_BYTES)) as u64;
        let mut filled = 0;
        let mut records = 0;
        let mut at = *next;
        while !self.shards.is_empty() && at < *until {
            let planned = self.plan.shards().get(self.shards.start).map_or(0, |shard| shard.rows);
            let first = records;
            while self.rows < planned
                && at < *until
                && let Some(place) = window.order.get(at)
                && (records == 0 || filled + u64::from(place.len) <= most)
            {
                filled += u64::from(place.len);
                self.bytes += u64::from(place.len);
                self.rows += 1;
                records += 1;
                at += 1;
            }
            if records > first {
                block.pieces.push(Piece { shard: self.shards.start, records: first..records });
            }
            if self.rows < planned {
                break;
            }
            self.pass_complete()?;
        }
        let places = window.order.get(*next..at).unwrap_or_default();
        let mut sound = true;
        let mut headers = SoundHeaders::default();
        fetch(loaded.records(set, window, places), |record| {
            sound &= record.frame().is_none_or(|frame| headers.is_sound(frame));
            sound &= record.restore(&mut block.records);
        });
        if !sound {
            return Err(set.damaged("a record has another length"));
        }
        *next = at;
        Ok(block)
    }
}

/// Headers that were verified, because many records have the same length.
struct SoundHeaders([[u8; HEADER_LEN]; 256]);

impl Default for SoundHeaders {
    fn default() -> Self {
        // Not the header of any record: none is that long.
        Self([[0xff; HEADER_LEN]; 256])
    }
}

impl SoundHeaders {
    /// Whether a frame's length matches its header, and the header its checksum.
    #[inline]
    fn is_sound(&mut self, frame: &[u8]) -> bool {
        let Some(header) = frame.first_chunk::<HEADER_LEN>() else { return false };
        let len = header.first_chunk().map_or(0, |len| u64::from_le_bytes(*len));
        if len.checked_add((HEADER_LEN + FOOTER_LEN) as u64) != Some(frame.len() as u64) {
            return false;
        }
        let Some(known) = self.0.get_mut(usize::from(header[0])) else { return false };
        if known != header {
            if frame_len(header, Position::default()).is_err() {
                return false;
            }
            *known = *header;
        }
        true
    }
}

/// Number of blocks per chunk, so that the next bytes to write are still in the cache.
const BLOCKS_PER_CHUNK: usize = 4;

/// Minimum length of a block in bytes, unless a chunk is shorter, because each block has a fixed cost.
const LEAST_BLOCK_BYTES: usize = 512 << 10;

impl Reading {
    fn next_window(&mut self, set: &RunSet, chunk_bytes: usize) -> Result<bool> {
        (self.next, self.until) = (0, 0);
        if !self.merge.next(&mut self.scratch.window)? {
            return Ok(false);
        }
        self.scratch.window.sort();
        self.sort_ties(set, chunk_bytes)?;
        let skip = self.skip.min(self.scratch.window.order.len() as u64);
        self.skip -= skip;
        self.next = skip as usize;
        self.until = self.next;
        Ok(true)
    }

    /// Sorts records of equal keys and lengths by their bytes.
    fn sort_ties(&mut self, set: &RunSet, chunk_bytes: usize) -> Result<()> {
        let Scratch { window, loaded } = &mut self.scratch;
        let ties: Vec<_> = window.ties(true).collect();
        for tie in ties {
            let mut places = window.order.get(tie.clone()).unwrap_or_default().to_vec();
            let bytes = places.iter().map(|place| place.len as usize).sum::<usize>();
            if bytes <= chunk_bytes {
                loaded.load(set, window, &places)?;
                let record = |place: &WindowPlace| loaded.record(set, window, place);
                let mut order = FrameOrder::default();
                places.sort_unstable_by(|one, other| order.cmp(record(one), record(other)));
            } else {
                Comparison::default().sort(set, &window.items, &mut places)?;
            }
            window.order.get_mut(tie).unwrap_or_default().copy_from_slice(&places);
        }
        Ok(())
    }

    /// Loads about a chunk of the next records.
    fn load(&mut self, set: &RunSet, chunk_bytes: usize) -> Result<()> {
        let Self { scratch: Scratch { window, loaded }, next, until, .. } = self;
        // Chunks exceed their intended length slightly; a short remainder would cost a read per run.
        let most = chunk_bytes as u64 * 3 / 2;
        let places = window.order.get(*next..).unwrap_or_default();
        let kept_len = |item: &Item| u64::from(item.location.len(item.len));
        let fit = if *next == 0 && window.items.iter().map(kept_len).sum::<u64>() <= most {
            places.len()
        } else {
            let mut bytes = 0;
            let fit = places.iter().take_while(|place| {
                bytes += kept_len(&window.item(place.item));
                bytes <= most
            });
            fit.count().max(1).min(places.len())
        };
        loaded.shrink(2 * chunk_bytes);
        loaded.load(set, window, places.get(..fit).unwrap_or_default())?;
        *until = *next + fit;
        Ok(())
    }
}

impl Iterator for TaskRecords {
    type Item = Result<SortedBlock>;

    fn next(&mut self) -> Option<Self::Item> {
        let block = self.next_block();
        if block.is_err() {
            self.shards = 0..0;
            self.once = false;
        }
        block.transpose()
    }
}

impl Drop for TaskRecords {
    fn drop(&mut self) {
        if let Some(mut reading) = self.reading.take() {
            reading.scratch.loaded.shrink(2 * self.plan.0.chunks.chunk_bytes);
            self.plan.0.scratch().push(reading.scratch);
        }
    }
}
