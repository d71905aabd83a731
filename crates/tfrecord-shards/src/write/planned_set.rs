//! [`PlannedSet`] and [`PlannedWriter`]: write sorted records to the shards of a set.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_tfrecord::RecordBuffer;

use crate::error::{ErrorKind, Result};
use crate::set::group::{ShardGroup, ShardPlace};
use crate::sort::{PlannedShard, ShardPlan, SortedBlock, TaskRecords};
use crate::write::open_shards::{OpenShard, OpenShards};
use crate::write::set_writer::WriteListener;
use crate::write::sharding::Piece;

/// All shards of a set, once its records are sorted. Several [`PlannedWriter`]s write them together.
#[derive(Debug)]
pub struct PlannedSet {
    plan: ShardPlan,
    names: PlannedNames,
    next_task: AtomicUsize,
    /// The task before which the writers stop.
    end_task: usize,
}

/// How the shards of a plan map to shards of the set.
#[derive(Debug, Clone)]
pub enum PlannedNames {
    /// The groups of the plan are groups of the set, by their numbers.
    Groups(Vec<ShardGroup>),
    /// Every group of the plan is one of this many shards.
    Shards(NonZeroUsize),
}

impl PlannedSet {
    /// Creates a set whose shards are not written yet.
    pub fn new(plan: ShardPlan, names: PlannedNames) -> Self {
        let tasks = 0..plan.tasks();
        Self::of_tasks(plan, names, tasks)
    }

    /// Creates the part of a set that has the shards of these tasks of the plan. Other processes write the others.
    pub fn of_tasks(plan: ShardPlan, names: PlannedNames, tasks: Range<usize>) -> Self {
        let end_task = tasks.end.min(plan.tasks());
        Self { plan, names, next_task: AtomicUsize::new(tasks.start), end_task }
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> usize {
        self.plan.shards().len()
    }

    /// Takes the next task, which no other writer gets.
    fn take_task(&self) -> Option<usize> {
        let task = self.next_task.fetch_add(1, Ordering::Relaxed);
        (task < self.end_task).then_some(task)
    }

    /// Returns the place of one of the plan's shards in the set, and its number over all shards.
    fn place(&self, shard: usize) -> Result<(usize, ShardPlace<'_>)> {
        static WHOLE_SET: ShardGroup = ShardGroup { partition_values: Vec::new(), split: None };
        let PlannedShard { group, index, of, .. } = self.plan.shards().get(shard).ok_or(ErrorKind::Failed)?;
        match &self.names {
            PlannedNames::Groups(groups) => {
                let group = groups.get(*group as usize).ok_or(ErrorKind::Failed)?;
                Ok((shard, ShardPlace { group, index: *index as usize, total: *of as usize }))
            }
            PlannedNames::Shards(shards) => {
                let index = *group as usize;
                Ok((index, ShardPlace { group: &WHOLE_SET, index, total: shards.get() }))
            }
        }
    }
}

/// Writes shards of a [`PlannedSet`], one after the other, until all are taken.
#[derive(Debug)]
pub struct PlannedWriter {
    open: OpenShards,
    /// Maximum number of shards open at the same time, for shards of a few rows each.
    most_open: usize,
    task: Option<TaskWrite>,
}

/// A task being written.
#[derive(Debug)]
struct TaskWrite {
    records: TaskRecords,
    /// Records that were read and not appended, and the number of their pieces that were.
    block: Option<(SortedBlock, usize)>,
    /// The shards that are not complete.
    shards: Range<usize>,
}

impl PlannedWriter {
    /// Creates a writer without open shards, which opens at most this many at the same time.
    pub fn new(open: OpenShards, most_open: usize) -> Self {
        Self { open, most_open: most_open.clamp(1, OpenShards::MAX_PIECES), task: None }
    }

    /// Writes some records. Returns the shards that are then complete, to be finished by the caller, or `None` if all
    /// shards of the set are taken.
    ///
    /// # Errors
    /// If the records cannot be read, or a shard cannot be created or written to. The set is then unusable.
    pub fn write_some(&mut self, set: &PlannedSet, listener: &impl WriteListener) -> Result<Option<Vec<OpenShard>>> {
        let Some(mut task) = self.task.take().or_else(|| TaskWrite::next(set)) else { return Ok(None) };
        let complete = match task.read()? {
            Some((block, appended)) => {
                let pieces = block.pieces.get(appended..).unwrap_or_default();
                let start = task.shards.start;
                let end = pieces.last().map_or(start, |piece| piece.shard).min(start + self.most_open - 1) + 1;
                let (now, later) = pieces.split_at(pieces.partition_point(|piece| piece.shard < end));
                // The last shard may get records of the next block.
                let next = if later.is_empty() { end - 1 } else { end };
                self.append(set, start..end, &block.records, now, listener)?;
                task.shards.start = next;
                if later.is_empty() {
                    task.records.recycle(block.records);
                } else {
                    let appended = appended + now.len();
                    task.block = Some((block, appended));
                }
                self.complete_before(set, next)?
            }
            // The remaining shards have no rows.
            None => {
                let Range { start, end } = task.shards.clone();
                let step = start..end.min(start + self.most_open);
                task.shards.start = step.end;
                self.append(set, step, &RecordBuffer::default(), &[], listener)?;
                self.open.take_before(usize::MAX)
            }
        };
        self.task = (!task.shards.is_empty()).then_some(task);
        Ok(Some(complete))
    }

    /// Opens shards of the plan, and appends records to them.
    fn append(
        &mut self,
        set: &PlannedSet,
        shards: Range<usize>,
        records: &RecordBuffer,
        pieces: &[Piece],
        listener: &impl WriteListener,
    ) -> Result<()> {
        for shard in shards {
            let (number, place) = set.place(shard)?;
            self.open.open_at(number, place)?;
        }
        let number = |piece: &Piece| Ok(Piece { shard: set.place(piece.shard)?.0, records: piece.records.clone() });
        let pieces: Vec<_> = pieces.iter().map(number).collect::<Result<_>>()?;
        self.open.append(records, &pieces)?;
        for piece in &pieces {
            listener.appended(0, piece.records.len(), records.slice(piece.records.clone()).len());
        }
        Ok(())
    }

    /// Takes the shards before this one of the plan.
    fn complete_before(&mut self, set: &PlannedSet, shard: usize) -> Result<Vec<OpenShard>> {
        let number = if shard < set.shards() { set.place(shard)?.0 } else { usize::MAX };
        Ok(self.open.take_before(number))
    }
}

impl TaskWrite {
    fn next(set: &PlannedSet) -> Option<Self> {
        let task = set.take_task()?;
        Some(Self { records: set.plan.read_once(task), block: None, shards: set.plan.task_shards(task) })
    }

    /// Returns records to append, and the number of their pieces that were appended.
    fn read(&mut self) -> Result<Option<(SortedBlock, usize)>> {
        match self.block.take() {
            Some(block) => Ok(Some(block)),
            None => Ok(self.records.next().transpose()?.map(|block| (block, 0))),
        }
    }
}
