//! [`UnitWriter`]: encodes the units of a write partition and returns complete shards.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_tfrecord::RecordBuffer;
use datafusion_common::{Result, internal_datafusion_err};
use datafusion_execution::memory_pool::MemoryReservation;
use tfrecord_framing::Compression;
use tfrecord_shards::{OpenShard, OpenShards, Piece, ShardRule};

use super::metrics::WriteMetrics;
use super::observe::RowEncoder;
use super::run::Run;
use super::staging::{ShardSink, Sinks};
use super::units::{PartitionPlace, UNIT_BYTES, Unit, UnitSize};
use crate::error::shards_error;

/// How rows are assigned to shards.
#[derive(Debug, Clone)]
pub(super) enum Placement {
    /// By the last column.
    Dealt,
    /// By this rule, which the partition applies to its rows.
    Rule(ShardRule),
}

impl Placement {
    /// Whether a shard is complete once records go to a later one.
    fn is_sequential(&self) -> bool {
        matches!(self, Self::Rule(rule) if rule.is_sequential())
    }
}

/// Encodes units, any number at the same time, and appends them to the partition's shards in the order of their rows.
///
/// A thread that finishes a unit also appends the units that follow, including those of other threads, so no thread
/// waits. If its own unit is next and not encoded yet, it encodes and appends a block of records at a time, which
/// stays in the second-level cache.
pub(super) struct UnitWriter {
    encoder: RowEncoder,
    place: PartitionPlace,
    size: Arc<UnitSize>,
    buffers: Buffers,
    metrics: WriteMetrics,
    /// Memory reserved for an open shard.
    shard_bytes: usize,
    is_dealt: bool,
    /// Whether blocks are appended, not only whole units.
    in_blocks: bool,
    turn: Mutex<Turn>,
}

/// The order in which units are appended.
struct Turn {
    /// `None` while a thread appends.
    shards: Option<Shards>,
    /// Rows of the partition before the next unit.
    rows: u64,
    /// Encoded units that must wait, by the number of rows before them.
    waiting: BTreeMap<u64, EncodedUnit>,
}

/// The open shards of a partition.
struct Shards {
    open: OpenShards<Sinks>,
    placement: Placement,
    /// Number of records assigned to them.
    records: u64,
}

/// The records of a unit.
struct EncodedUnit {
    rows_before: u64,
    rows: u64,
    buffer: RecordBuffer,
    /// The shards of records that are assigned round-robin.
    dealt: Vec<Piece>,
}

/// The result of writing a unit and those that follow it.
pub(super) struct Written {
    /// Complete shards.
    pub(super) complete: Vec<OpenShard<ShardSink>>,
    /// Records to [append](UnitWriter::append) while these shards are being sealed.
    pub(super) rest: Option<Rest>,
}

/// A suspended append: its worker has reached the limit of shards waiting to be sealed.
pub(super) struct Rest {
    shards: Shards,
    rows: u64,
    buffer: RecordBuffer,
    pieces: Vec<Piece>,
    /// Number of pieces already appended.
    appended: usize,
}

impl UnitWriter {
    /// Creates the writer of a partition, without open shards.
    pub(super) fn new(
        run: &Run,
        encoder: RowEncoder,
        place: PartitionPlace,
        (open, placement): (OpenShards<Sinks>, Placement),
        metrics: WriteMetrics,
        reservation: MemoryReservation,
    ) -> Self {
        Self {
            // Members of a unit are compressed in parallel, which requires a whole unit.
            in_blocks: run.compression == Compression::None && encoder.encodes_some(),
            is_dealt: matches!(placement, Placement::Dealt),
            shard_bytes: run.staging.memory_per_shard(run.compression),
            buffers: Buffers { free: Mutex::default(), reservation },
            turn: Mutex::new(Turn {
                shards: Some(Shards { open, placement, records: 0 }),
                rows: 0,
                waiting: BTreeMap::new(),
            }),
            size: Arc::new(UnitSize::new(UNIT_BYTES)),
            encoder,
            place,
            metrics,
        }
    }

    /// Returns the number of rows per unit.
    pub(super) fn size(&self) -> Arc<UnitSize> {
        Arc::clone(&self.size)
    }

    /// Encodes a unit, and appends the units that are next.
    pub(super) fn write(&self, unit: Unit, run: &Run) -> Result<Written> {
        self.go_on(Some(unit), None, run)
    }

    /// Appends the rest, then the units that are next.
    pub(super) fn append(&self, rest: Rest, run: &Run) -> Result<Written> {
        self.go_on(None, Some(rest), run)
    }

    fn go_on(&self, mut unit: Option<Unit>, mut rest: Option<Rest>, run: &Run) -> Result<Written> {
        let _timer = self.metrics.elapsed_compute.timer();
        let mut complete = Vec::new();
        loop {
            if let Some(some) = rest.take() {
                rest = self.append_pieces(some, &mut complete, run)?;
            }
            if rest.is_some() {
                if let Some(unit) = unit.take() {
                    self.leave(self.encode(&unit)?);
                }
                return Ok(Written { complete, rest });
            }
            let own = unit.as_ref().filter(|_| self.in_blocks).map(|unit| unit.rows_before);
            rest = match (self.next(own), unit.take()) {
                (Some((shards, Some(next))), own) => {
                    unit = own;
                    Some(shards.rest(next))
                }
                (Some((shards, None)), Some(own)) => Some(self.append_blocks(shards, &own, &mut complete, run)?),
                (None, Some(own)) => {
                    self.leave(self.encode(&own)?);
                    None
                }
                (_, None) => return Ok(Written { complete, rest: None }),
            };
        }
    }

    /// Takes the shards if the next unit is waiting, which is returned, too, or if it is the caller's own.
    fn next(&self, own: Option<u64>) -> Option<(Shards, Option<EncodedUnit>)> {
        let turn = &mut *self.turn();
        turn.shards.as_ref()?;
        let waiting = turn.waiting.remove(&turn.rows);
        if waiting.is_none() && own != Some(turn.rows) {
            return None;
        }
        Some((turn.shards.take()?, waiting))
    }

    /// Leaves a unit to the thread that reaches its position, which may be the caller.
    fn leave(&self, unit: EncodedUnit) {
        self.turn().waiting.insert(unit.rows_before, unit);
    }

    fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn encode(&self, unit: &Unit) -> Result<EncodedUnit> {
        let mut buffer = self.buffers.take();
        let capacity_before = buffer.capacity();
        let mut dealt = Vec::new();
        let mut first_row = unit.rows_before;
        for batch in &unit.batches {
            let start = buffer.len();
            let (rows, shards) = self.split_shards(batch)?;
            let encoded = self.encoder.encode(&rows, first_row, &mut buffer);
            encoded.map_err(|error| self.place.encode_error(error, first_row))?;
            dealt.extend(runs(shards, start, self.encoder.records_per_row()));
            first_row += batch.num_rows() as u64;
        }
        self.buffers.reserve(capacity_before, buffer.capacity());
        self.size.note(&buffer);
        Ok(EncodedUnit { rows_before: unit.rows_before, rows: first_row - unit.rows_before, buffer, dealt })
    }

    /// Encodes a unit and appends it a block at a time. Stops when so many shards are complete that they must be
    /// sealed first, and returns the rest.
    fn append_blocks(
        &self,
        mut shards: Shards,
        unit: &Unit,
        complete: &mut Vec<OpenShard<ShardSink>>,
        run: &Run,
    ) -> Result<Rest> {
        let mut buffer = self.buffers.take();
        let capacity_before = buffer.capacity();
        let mut held: Option<Vec<Piece>> = None;
        let mut first_row = unit.rows_before;
        for batch in &unit.batches {
            let error = |error| self.place.encode_error(error, first_row);
            let (rows, dealt) = self.split_shards(batch)?;
            let bound = self.encoder.bind(&rows).map_err(error)?;
            for block in blocks(rows.num_rows(), dealt, self.size.block_rows()) {
                if held.is_none() {
                    buffer.clear();
                }
                let start = buffer.len();
                bound.encode(block.clone(), &mut buffer).map_err(|failed| error(failed.into()))?;
                let pieces = match &mut shards.placement {
                    Placement::Dealt => runs(dealt.get(block).unwrap_or_default(), start, 1).collect(),
                    Placement::Rule(rule) => place(rule, &buffer, start),
                };
                match &mut held {
                    Some(held) => held.extend(pieces),
                    None if shards.placement.is_sequential()
                        && complete.len() + pieces.len() > OpenShards::MAX_PIECES =>
                    {
                        held = Some(pieces);
                    }
                    None => complete.extend(self.append_to(&mut shards, &buffer, &pieces, run)?),
                }
            }
            self.encoder.observe(&bound, &rows, first_row).map_err(error)?;
            first_row += batch.num_rows() as u64;
        }
        self.buffers.reserve(capacity_before, buffer.capacity());
        self.size.note(&buffer);
        let pieces = held.unwrap_or_default();
        Ok(Rest { shards, rows: first_row - unit.rows_before, buffer, pieces, appended: 0 })
    }

    /// Appends pieces until too many shards are complete, and returns the rest. If there is none, other threads may
    /// append.
    fn append_pieces(
        &self,
        mut rest: Rest,
        complete: &mut Vec<OpenShard<ShardSink>>,
        run: &Run,
    ) -> Result<Option<Rest>> {
        let most = if rest.shards.placement.is_sequential() { OpenShards::MAX_PIECES } else { usize::MAX };
        while let Some(pieces) = rest.pieces.get(rest.appended..).filter(|pieces| !pieces.is_empty()) {
            let room = most.saturating_sub(complete.len());
            if room == 0 {
                return Ok(Some(rest));
            }
            let pieces = pieces.get(..room).unwrap_or(pieces);
            rest.appended += pieces.len();
            complete.extend(self.append_to(&mut rest.shards, &rest.buffer, pieces, run)?);
        }
        self.buffers.give_back(rest.buffer);
        let turn = &mut *self.turn();
        turn.rows += rest.rows;
        turn.shards = Some(rest.shards);
        Ok(None)
    }

    /// Appends pieces to their shards, and returns the shards that are complete.
    fn append_to(
        &self,
        shards: &mut Shards,
        buffer: &RecordBuffer,
        pieces: &[Piece],
        run: &Run,
    ) -> Result<Vec<OpenShard<ShardSink>>> {
        let Shards { open, placement, records } = shards;
        for piece in pieces {
            if !open.is_open(piece.shard) {
                self.buffers.reserve_shard(self.shard_bytes);
                open.open(piece.shard).map_err(shards_error)?;
            }
        }
        open.append(buffer, pieces).map_err(|error| run.write_error(error))?;
        for piece in pieces {
            *records += piece.records.len() as u64;
            self.metrics.rows_written.add(piece.records.len());
            self.metrics.bytes_written.add(buffer.slice(piece.records.clone()).len());
        }
        let current = pieces.last().map_or(0, |piece| piece.shard);
        Ok(if placement.is_sequential() { open.take_before(current) } else { Vec::new() })
    }

    /// Records that a complete shard has been sealed.
    pub(super) fn sealed(&self) {
        self.buffers.release_shard(self.shard_bytes);
        self.metrics.shards.add(1);
    }

    /// Returns the last shards after all units are written, and the total number of records.
    pub(super) fn finish(&self) -> Result<(Vec<OpenShard<ShardSink>>, u64)> {
        let turn = &mut *self.turn();
        match turn.shards.take() {
            Some(mut shards) if turn.waiting.is_empty() => Ok((shards.open.take_before(usize::MAX), shards.records)),
            _ => Err(internal_datafusion_err!("{} units were not appended", turn.waiting.len())),
        }
    }

    /// Splits a batch into its rows and, if rows were assigned round-robin, their shards from the last column.
    fn split_shards<'a>(&self, batch: &'a RecordBatch) -> Result<(RecordBatch, &'a [u32])> {
        if !self.is_dealt {
            return Ok((batch.clone(), &[]));
        }
        let no_shards = || internal_datafusion_err!("rows to write do not tell their shards");
        let (shards, columns) = batch.columns().split_last().ok_or_else(no_shards)?;
        let shards = shards.as_primitive_opt::<UInt32Type>().ok_or_else(no_shards)?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let schema = self.encoder.mapping().schema().clone();
        Ok((RecordBatch::try_new_with_options(schema, columns.to_vec(), &options)?, shards.values()))
    }
}

impl Shards {
    /// Prepares a unit to be appended now.
    fn rest(mut self, EncodedUnit { rows, buffer, dealt, .. }: EncodedUnit) -> Rest {
        let pieces = match &mut self.placement {
            Placement::Dealt => dealt,
            Placement::Rule(rule) => place(rule, &buffer, 0),
        };
        Rest { shards: self, rows, buffer, pieces, appended: 0 }
    }
}

/// Assigns the records of a buffer to shards, starting with record `start`.
fn place(rule: &mut ShardRule, buffer: &RecordBuffer, start: usize) -> Vec<Piece> {
    let start_byte = buffer.record_start(start);
    let mut pieces = rule.place(buffer.len() - start, |record| buffer.record_end(start + record) - start_byte);
    for Piece { records, .. } in &mut pieces {
        *records = records.start + start..records.end + start;
    }
    pieces
}

/// Groups neighbouring records of the same shard, starting with record `start`.
fn runs(shards: &[u32], start: usize, records_per_row: usize) -> impl Iterator<Item = Piece> {
    shards.chunk_by(|first, second| first == second).scan(start, move |start, run| {
        let records = *start..*start + run.len() * records_per_row;
        *start = records.end;
        Some(Piece { shard: run.first().map_or(0, |shard| *shard as usize), records })
    })
}

/// Splits rows into blocks of about this size. Consecutive rows of one shard stay together: small pieces are copied
/// once more.
fn blocks(rows: usize, dealt: &[u32], block_rows: usize) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let mut end = (start + block_rows.max(1)).min(rows);
        if let Some(shard) = end.checked_sub(1).and_then(|last| dealt.get(last)) {
            end += dealt.get(end..).unwrap_or_default().iter().take_while(|next| *next == shard).count();
        }
        let block = start..end;
        start = end;
        (!block.is_empty()).then_some(block)
    })
}

/// Buffers that are reused between encoding and writing, and the engine's memory reservation for them and for open
/// shards.
struct Buffers {
    free: Mutex<Vec<RecordBuffer>>,
    reservation: MemoryReservation,
}

impl Buffers {
    /// Takes the buffer that was returned last, which may still be in the caches.
    fn take(&self) -> RecordBuffer {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn give_back(&self, mut buffer: RecordBuffer) {
        buffer.clear();
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }

    /// Reserves the growth of a buffer. Infallible: buffers are few and bounded, and without them there is no
    /// progress. Operators that can spill make room.
    fn reserve(&self, before: usize, now: usize) {
        self.reservation.grow(now.saturating_sub(before));
    }

    /// Reserves what an open shard buffers until there is enough to write or to compress. Infallible: planning
    /// ensures that the shards open at the same time take only a part of the memory.
    fn reserve_shard(&self, bytes: usize) {
        self.reservation.grow(bytes);
    }

    fn release_shard(&self, bytes: usize) {
        self.reservation.shrink(bytes);
    }
}

#[cfg(test)]
mod tests;
