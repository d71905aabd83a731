//! [`ShardPlan`]: the start and size of each shard.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::key::SortKey;
use super::load::LoadedRecords;
use super::merge::{Chunks, KeyMerge, Window};
use super::scan::Tally;
use super::{GroupTotals, SortedRecords};
use crate::error::{ErrorKind, Result};
use crate::write::sharding::Sharding;

/// A shard to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedShard {
    /// The group of its records.
    pub group: u32,
    /// Its number in the group, from 0.
    pub index: u32,
    /// Number of shards of the group.
    pub of: u32,
    /// Number of rows. 0 if its group has more shards than rows.
    pub rows: u64,
    /// Length in bytes of its records with their frames.
    pub bytes: u64,
}

/// The start and size of each shard, and access to the records. Clones share one plan. Temporary files are kept until
/// all clones and readers are dropped.
#[derive(Debug, Clone)]
pub struct ShardPlan(pub(super) Arc<Plan>);

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) chunks: Chunks,
    pub(super) shards: Vec<PlannedShard>,
    pub(super) tasks: Vec<Task>,
    /// Buffers of finished readers.
    scratch: Mutex<Vec<Scratch>>,
    done: Mutex<DoneTasks>,
}

/// Tasks that are no longer read.
#[derive(Debug, Default)]
struct DoneTasks {
    /// The first task that may still be read.
    next: usize,
    /// Finished tasks after it.
    later: BTreeSet<usize>,
}

impl Plan {
    /// Marks a task as no longer read. Deletes files whose records belong to such tasks only.
    pub(super) fn end_task(&self, task: usize) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let DoneTasks { next, later } = &mut *done;
        let before = *next;
        later.insert(task);
        while later.remove(next) {
            *next += 1;
        }
        if *next > before {
            let key = self.tasks.get(*next).map(|task| task.start.key);
            self.chunks.set.runs.iter().for_each(|run| run.release_before(key.as_ref()));
        }
    }

    pub(super) fn scratch(&self) -> MutexGuard<'_, Vec<Scratch>> {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Consecutive shards.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Task {
    /// The first shard.
    pub(super) shard: usize,
    pub(super) start: Start,
}

/// A position between two records: this many records after the first one with this key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub(super) struct Start {
    pub(super) key: SortKey,
    pub(super) ties: u64,
}

impl ShardPlan {
    pub(super) fn new(chunks: Chunks, shards: Vec<PlannedShard>, tasks: Vec<Task>) -> Self {
        Self(Arc::new(Plan { chunks, shards, tasks, scratch: Mutex::default(), done: Mutex::default() }))
    }

    /// Returns every shard, by group, then index. Their positions are the shard numbers of the pieces of a
    /// [`SortedBlock`](super::SortedBlock).
    pub fn shards(&self) -> &[PlannedShard] {
        &self.0.shards
    }

    /// Returns the number of tasks. A task is one or more consecutive whole shards, of at least about a chunk in total.
    /// The tasks cover all shards, in order.
    pub fn tasks(&self) -> usize {
        self.0.tasks.len()
    }

    /// Returns the shards of a task; empty if the task does not exist. Shards without rows have no pieces in any block,
    /// and the caller must create them.
    pub fn task_shards(&self, task: usize) -> Range<usize> {
        let first = |task: usize| self.0.tasks.get(task).map_or(self.0.shards.len(), |task| task.shard);
        first(task)..first(task.saturating_add(1))
    }

    /// Returns the approximate memory of one reader in bytes, not counting single records longer than a chunk. The next
    /// reader reuses it.
    pub fn reader_memory(&self) -> usize {
        super::CHUNKS_OF_READER * self.0.chunks.chunk_bytes
    }

    /// Returns the start of a task.
    pub(super) fn task_start(&self, task: usize) -> Option<Start> {
        self.0.tasks.get(task).map(|task| task.start)
    }
}

/// The large buffers of a reader, reused by the readers of other tasks.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) window: Window,
    pub(super) loaded: LoadedRecords,
}

/// A shard during planning: its start, and the totals before it in its group.
#[derive(Debug, Clone, Copy)]
struct Begin {
    start: Start,
    rows: u64,
    bytes: u64,
}

/// The start of a shard within a chunk, still to be found.
struct Sought {
    /// Its index in `begins`.
    begin: usize,
    group: u32,
    chunk: usize,
    /// Number of the group's rows in the chunk that precede it.
    row: u64,
}

/// Consecutive rows of a group that have their own shards.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupPart {
    /// The group of the shards.
    pub(super) group: u32,
    /// Number of rows. Those of all parts add up to the rows of the group.
    pub(super) rows: u64,
    pub(super) sharding: Sharding,
}

pub(super) fn cut(
    sorted: SortedRecords,
    mut parts_of: impl FnMut(&GroupTotals) -> Vec<GroupPart>,
) -> Result<ShardPlan> {
    let SortedRecords { chunks, tallies, groups } = sorted;
    let mut begins = Vec::new();
    let mut sought = Vec::new();
    let mut keys = None;
    let mut groups_begin = Vec::with_capacity(groups.len());
    // The group of the shards of each part, and the first of them.
    let mut parts = Vec::with_capacity(groups.len());
    for (totals, tallies) in groups.iter().zip(tallies.chunk_by(|one, next| one.group == next.group)) {
        groups_begin.push(begins.len());
        let (begins, sought, keys) = (&mut begins, &mut sought, &mut keys);
        let mut group = GroupCut { chunks: &chunks, totals, tallies, begins, sought, keys };
        let mut end = 0;
        for part in parts_of(totals) {
            parts.push((part.group, group.begins.len()));
            group.divide(end..end + part.rows, part.sharding)?;
            end += part.rows;
        }
        if end != totals.rows {
            let problem = format!("the parts of a group have {end} rows, the group has {}", totals.rows);
            return Err(ErrorKind::SortInput { problem }.into());
        }
    }
    u32::try_from(begins.len()).map_err(|_| ErrorKind::TooManyShards)?;
    find(&chunks, &sought, &mut begins)?;

    let mut shards = Vec::with_capacity(begins.len());
    let ends = parts.iter().skip(1).map(|(_, begin)| *begin).chain([begins.len()]);
    for (&(group, from), until) in parts.iter().zip(ends) {
        let of = until - from;
        let shard = |index| PlannedShard { group, index: index as u32, of: of as u32, rows: 0, bytes: 0 };
        shards.extend((0..of).map(shard));
    }
    let ends = groups_begin.iter().skip(1).copied().chain([begins.len()]);
    for ((totals, &from), until) in groups.iter().zip(&groups_begin).zip(ends) {
        let group = begins.get(from..until).unwrap_or_default();
        let ends = group.iter().skip(1).map(|begin| (begin.rows, begin.bytes)).chain([(totals.rows, totals.bytes)]);
        let shards = shards.get_mut(from..until).unwrap_or_default();
        for ((shard, begin), (rows, bytes)) in shards.iter_mut().zip(group).zip(ends) {
            (shard.rows, shard.bytes) = (rows - begin.rows, bytes - begin.bytes);
        }
    }
    let mut tasks = Vec::new();
    let mut bytes = 0;
    for (shard, (planned, begin)) in shards.iter().zip(&begins).enumerate() {
        if tasks.is_empty() || bytes >= chunks.task_bytes() {
            tasks.push(Task { shard, start: begin.start });
            bytes = 0;
        }
        bytes += planned.bytes;
    }
    Ok(ShardPlan::new(chunks, shards, tasks))
}

/// Divides one group.
struct GroupCut<'a> {
    chunks: &'a Chunks,
    totals: &'a GroupTotals,
    /// The group's totals in each chunk that contains any of its records.
    tallies: &'a [Tally],
    begins: &'a mut Vec<Begin>,
    sought: &'a mut Vec<Sought>,
    /// The chunk read last.
    keys: &'a mut Option<ChunkKeys>,
}

impl GroupCut<'_> {
    /// Divides these rows of the group into shards.
    fn divide(&mut self, rows: Range<u64>, sharding: Sharding) -> Result<()> {
        let number = rows.end - rows.start;
        let share = u128::from(self.totals.bytes) * u128::from(number) / u128::from(self.totals.rows.max(1));
        match sharding.resolve(share as u64) {
            Sharding::Count(count) => {
                let count = count.get() as u64;
                let rank = |shard| (u128::from(number) * u128::from(shard) / u128::from(count)) as u64;
                self.at_rows((0..count).map(|shard| rows.start + rank(shard)));
            }
            Sharding::Rows(max) => self.at_rows(rows.step_by(max.max(1).try_into().unwrap_or(usize::MAX))),
            Sharding::Bytes(max) => self.at_bytes(rows, max)?,
            // Already resolved to a count.
            Sharding::Hosts(_) => self.at_rows(std::iter::once(rows.start)),
        }
        Ok(())
    }

    /// Returns the position before the first record of the group in a chunk.
    fn start(&self, chunk: usize) -> Start {
        let group = SortKey::new(self.totals.group, 0);
        Start { key: self.chunks.start(chunk).map_or(group, |start| start.max(group)), ties: 0 }
    }

    /// Starts shards at these rows, which must not decrease.
    fn at_rows(&mut self, rows: impl Iterator<Item = u64>) {
        let mut before = Begin { start: Start::default(), rows: 0, bytes: 0 };
        let mut tallies = self.tallies.iter().peekable();
        for row in rows {
            while let Some(tally) = tallies.next_if(|tally| row >= before.rows + tally.rows) {
                before.rows += tally.rows;
                before.bytes += tally.bytes;
            }
            let chunk = tallies.peek().map_or(0, |tally| tally.chunk);
            if row > before.rows {
                let (begin, row) = (self.begins.len(), row - before.rows);
                self.sought.push(Sought { begin, group: self.totals.group, chunk, row });
            }
            self.begins.push(Begin { start: self.start(chunk), rows: row, bytes: before.bytes });
        }
    }

    /// Makes shards of these rows, as long as `max` allows.
    fn at_bytes(&mut self, rows: Range<u64>, max: u64) -> Result<()> {
        let mut before = Begin { start: Start::default(), rows: 0, bytes: 0 };
        // The length of the open shard.
        let mut shard_bytes = None;
        for tally in self.tallies {
            let end = before.rows + tally.rows;
            if before.rows >= rows.end {
                break;
            }
            let start = self.start(tally.chunk);
            let is_within = before.rows >= rows.start && end <= rows.end;
            if is_within && shard_bytes.is_none() {
                self.begins.push(Begin { start, ..before });
                shard_bytes = Some(0);
            }
            let whole = shard_bytes.map(|bytes| bytes + tally.bytes).filter(|bytes| is_within && *bytes <= max);
            if whole.is_some() || end <= rows.start {
                shard_bytes = whole;
                before.rows = end;
                before.bytes += tally.bytes;
                continue;
            }
            let mut keys = ChunkKeys::seek(self.chunks, tally.chunk, start.key, self.keys.take())?;
            for _ in 0..tally.rows {
                let (start, len) = keys.next()?.ok_or_else(|| self.chunks.set.damaged("records are missing"))?;
                if rows.contains(&before.rows) {
                    let open = shard_bytes.filter(|bytes| *bytes == 0 || bytes + len <= max);
                    if open.is_none() {
                        self.begins.push(Begin { start, ..before });
                    }
                    shard_bytes = Some(open.unwrap_or(0) + len);
                }
                before.rows += 1;
                before.bytes += len;
            }
            *self.keys = Some(keys);
        }
        Ok(())
    }
}

/// Finds the starts of shards, in several chunks in parallel.
fn find(chunks: &Chunks, sought: &[Sought], begins: &mut [Begin]) -> Result<()> {
    let by_chunk: Vec<_> = sought.chunk_by(|one, next| one.chunk == next.chunk).collect();
    let in_chunk = |sought: &&[Sought]| {
        let mut found = Vec::with_capacity(sought.len());
        let Some(first) = sought.first() else { return Ok(found) };
        let from = SortKey::new(first.group, 0);
        let from = chunks.start(first.chunk).map_or(from, |start| start.max(from));
        let mut keys = ChunkKeys::seek(chunks, first.chunk, from, None)?;
        let (mut group, mut row, mut bytes) = (first.group, 0, 0);
        let mut left = sought.iter().peekable();
        while left.peek().is_some() {
            let (start, len) = keys.next()?.ok_or_else(|| chunks.set.damaged("records are missing"))?;
            if start.key.group() != group {
                (group, row, bytes) = (start.key.group(), 0, 0);
            }
            while let Some(sought) = left.next_if(|sought| sought.group == group && sought.row == row) {
                found.push((sought.begin, start, bytes));
            }
            row += 1;
            bytes += len;
        }
        Ok(found)
    };
    let found: Vec<Vec<_>> = by_chunk.par_iter().map(in_chunk).collect::<Result<_>>()?;
    for (begin, start, bytes) in found.into_iter().flatten() {
        if let Some(begin) = begins.get_mut(begin) {
            begin.start = start;
            begin.bytes += bytes;
        }
    }
    Ok(())
}

/// Reads the records of a chunk in order.
struct ChunkKeys {
    chunk: usize,
    merge: KeyMerge,
    window: Window,
    /// Index of the next record in the window's order, and its position.
    next: usize,
    start: Start,
}

impl ChunkKeys {
    /// Starts at a key in a chunk. Continues from `before` if it has not passed that position.
    fn seek(chunks: &Chunks, chunk: usize, from: SortKey, before: Option<Self>) -> Result<Self> {
        if let Some(mut before) = before
            && before.chunk == chunk
            && before.start.key < from
        {
            let Self { next, window, .. } = &mut before;
            let rest = window.order.get(*next..).unwrap_or_default();
            *next += rest.partition_point(|place| window.item(place.item).key() < from);
            if *next < window.order.len() {
                return Ok(before);
            }
        }
        let merge = KeyMerge::at(chunks, Some(from), chunk..chunk + 1, true)?;
        Ok(Self { chunk, merge, window: Window::default(), next: 0, start: Start::default() })
    }

    /// Returns the position before the next record, and its length.
    fn next(&mut self) -> Result<Option<(Start, u64)>> {
        if self.next == self.window.order.len() {
            if !self.merge.next(&mut self.window)? {
                return Ok(None);
            }
            self.window.sort();
            self.next = 0;
        }
        let item = self.window.order.get(self.next).map(|place| self.window.item(place.item)).unwrap_or_default();
        let key = item.key();
        // Records with the same key are all in one window.
        let ties = if self.next > 0 && key == self.start.key { self.start.ties + 1 } else { 0 };
        self.start = Start { key, ties };
        self.next += 1;
        Ok(Some((self.start, u64::from(item.len))))
    }
}
