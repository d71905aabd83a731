//! [`SetWriter`]: appends the rows of one or several inputs to the shards of a set, in a fixed order.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_tfrecord::RecordBuffer;

use crate::error::{ErrorKind, Result};
use crate::write::input_queue::{InputQueue, Turn};
use crate::write::open_shards::{OpenShard, OpenShards};
use crate::write::sharding::{Piece, ShardDeal, ShardRule};
use crate::write::unit::{EncodedUnit, UnitRecords, UnitSize};

/// Records of several units are appended together up to this many framed bytes, so that all shards are compressed in
/// parallel even if a unit has records for one of them only.
const TOGETHER_BYTES: usize = 4 << 20;

/// Reports what a [`SetWriter`] does, to callers that count records or reserve memory. Every method is called from the
/// thread that appends, and returns quickly.
pub trait WriteListener: Send + Sync {
    /// The buffers of encoded records have grown by this many bytes. They are kept for later units.
    fn buffered(&self, bytes: usize) {
        let _ = bytes;
    }

    /// A shard was opened.
    fn opened(&self) {}

    /// This many records and framed bytes of an input were appended to shards.
    fn appended(&self, input: usize, records: usize, framed_bytes: usize) {
        let _ = (input, records, framed_bytes);
    }

    /// Some units were appended completely: [`SetWriter::waiting`] may have changed.
    fn advanced(&self) {}
}

impl WriteListener for () {}

/// Appends rows to the shards of a set. Any thread writes units of rows in any order; the shards depend only on the
/// rows of each input, in their order.
///
/// A thread that has encoded a unit also appends the units that follow, including those of other threads, so that no
/// thread waits. If its own unit is next and not encoded yet, it encodes and appends a block of records at a time,
/// which stays in the second-level cache.
///
/// # Several inputs
/// The rows of several inputs are assigned to a fixed number of shards [round-robin](Self::round_robin): each input
/// applies [`ShardDeal`] to its own rows, and in each round one input after the other gives every shard a block. So
/// every input gives all shards the same number of rows, to within one block, and no row is hashed. Their first shards
/// are spread evenly, so that many short inputs fill all shards. Inputs advance
/// together: a caller pauses an input while too many of its units are [waiting](Self::waiting) for the others.
///
/// ```
/// use std::sync::Arc;
/// # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// # use arrow_tfrecord::{Encoder, Mapping, MappingOptions};
/// use tfrecord_framing::{Compression, Level};
/// use tfrecord_shards::{
///     LocalCommit, OpenShards, RunId, SaveMode, SetDescription, SetWriter, ShardRule, Sharding, UnitRecords,
/// };
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let out = dir.path().join("shards");
/// # let batch = RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef)])?;
/// # let options = MappingOptions::default();
/// # let mapping = Mapping::try_new(&batch.schema(), &options)?;
/// # let encoder = Encoder::new(Arc::new(mapping.clone()));
/// let commit = LocalCommit::begin(&out, SaveMode::Error, RunId::new(), &[])?;
/// let shards = OpenShards::new(Arc::new(commit.clone()), 0, (Compression::None, Level::default()));
/// let writer = SetWriter::new(shards, ShardRule::new(Sharding::Rows(2)), ());
///
/// // The last row comes first, and waits.
/// let encode = |rows: RecordBatch| {
///     let encoder = &encoder;
///     move |records: &mut UnitRecords<'_>| Ok::<_, tfrecord_shards::Error>(encoder.encode(&rows, records.buffer())?)
/// };
/// let nothing = writer.write(0, 2, encode(batch.slice(2, 1)))?;
/// assert!(nothing.complete.is_empty());
/// let first = writer.write(0, 0, encode(batch.slice(0, 2)))?;
/// assert!(first.rest.is_none());
///
/// let complete = first.complete.into_iter().chain(writer.finish()?);
/// let staged = complete.filter_map(|shard| shard.seal().transpose()).collect::<Result<_, _>>()?;
/// let manifest = commit.publish(staged, SetDescription::new(&mapping, &options)?)?;
/// assert_eq!(manifest.shards[1].rows, 1);
/// # Ok(())
/// # }
/// ```
pub struct SetWriter<L: WriteListener = ()> {
    listener: L,
    size: Arc<UnitSize>,
    /// Whether blocks are appended, not only whole units.
    in_blocks: bool,
    /// Empty buffers to reuse. The one that was used last may still be in the caches.
    free: Mutex<Vec<RecordBuffer>>,
    state: Mutex<State>,
}

/// What threads share.
struct State {
    /// `None` while a thread appends.
    shards: Option<Appender>,
    inputs: Vec<Arrived>,
}

/// The units of an input that no thread has taken to append.
#[derive(Default)]
struct Arrived {
    /// By the number of rows before them.
    units: BTreeMap<u64, EncodedUnit>,
    /// Number of encoded units that are not appended completely, including those being appended.
    waiting: usize,
    /// Total number of rows, once the input has ended.
    end: Option<u64>,
}

/// Appends units to the open shards. Owned by the thread that does so.
struct Appender {
    open: OpenShards,
    inputs: Vec<InputQueue>,
    /// The input whose records are next.
    turn: usize,
    is_sequential: bool,
}

/// The result of writing some rows.
pub struct Written {
    /// Complete shards, to be finished by the caller.
    pub complete: Vec<OpenShard>,
    /// Records to [append](SetWriter::append) once the complete shards are being finished: the limit of open shards
    /// was reached.
    pub rest: Option<Rest>,
}

/// A suspended append. No other thread appends meanwhile.
pub struct Rest(Appender);

impl<L: WriteListener> SetWriter<L> {
    /// Creates a writer of one input, whose rows are assigned by this rule. Shards are opened on demand.
    pub fn new(open: OpenShards, rule: ShardRule, listener: L) -> Self {
        Self::with_inputs(open, vec![InputQueue::new(rule, false)], listener)
    }

    /// Creates a writer of several inputs, whose rows are assigned to this many shards round-robin. Each input must be
    /// [ended](Self::end).
    pub fn round_robin(open: OpenShards, shards: NonZeroUsize, inputs: NonZeroUsize, listener: L) -> Self {
        let rule = |input| ShardRule::Deal(ShardDeal::of_input(shards, input, inputs));
        let queue = |input| InputQueue::new(rule(input), inputs.get() > 1);
        Self::with_inputs(open, (0..inputs.get()).map(queue).collect(), listener)
    }

    fn with_inputs(open: OpenShards, inputs: Vec<InputQueue>, listener: L) -> Self {
        let is_sequential = inputs.iter().all(InputQueue::is_sequential);
        let arrived = inputs.iter().map(|_| Arrived::default()).collect();
        Self {
            listener,
            size: Arc::default(),
            // Members and chunks of a unit are compressed in parallel, which requires a whole unit.
            in_blocks: !open.framing().is_compressed(),
            free: Mutex::default(),
            state: Mutex::new(State {
                shards: Some(Appender { open, inputs, turn: 0, is_sequential }),
                inputs: arrived,
            }),
        }
    }

    /// Sets the number of records of each row. The default is one.
    #[must_use]
    pub fn with_records_per_row(self, records: usize) -> Self {
        if let Some(shards) = &mut self.state().shards {
            shards.inputs.iter_mut().for_each(|input| input.set_records_per_row(records));
        }
        self
    }

    /// Returns the listener.
    pub fn listener(&self) -> &L {
        &self.listener
    }

    /// Returns the number of rows to write as one unit.
    pub fn size(&self) -> Arc<UnitSize> {
        Arc::clone(&self.size)
    }

    /// Returns an empty buffer, one that was used before if possible.
    pub fn buffer(&self) -> RecordBuffer {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Returns the number of units of an input that are encoded and not appended. Grows with the lead of the input over
    /// the others. An input that is next never has more than its callers write at the same time.
    pub fn waiting(&self, input: usize) -> usize {
        self.state().inputs.get(input).map_or(0, |input| input.waiting)
    }

    /// Writes a unit: the rows of an input after the first `rows_before`. `encode` adds their records. Also appends the
    /// units that are next.
    ///
    /// # Errors
    /// If the rows cannot be encoded, or a shard cannot be created or written to. The set is then unusable.
    pub fn write<E: From<crate::Error>>(
        &self,
        input: usize,
        rows_before: u64,
        encode: impl FnOnce(&mut UnitRecords<'_>) -> Result<(), E>,
    ) -> Result<Written, E> {
        let mut complete = Vec::new();
        let shards = if self.in_blocks { self.take_for(input, rows_before) } else { None };
        let shards = match shards {
            Some(shards) => Some(self.write_blocks(shards, encode, &mut complete)?),
            None => {
                self.leave(input, self.encode(rows_before, encode)?);
                None
            }
        };
        Ok(self.go_on(shards, complete)?)
    }

    /// Writes a unit of records that are encoded already.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_records(&self, input: usize, rows_before: u64, records: RecordBuffer) -> Result<Written> {
        self.leave(input, EncodedUnit { rows_before, records });
        self.go_on(None, Vec::new())
    }

    /// Appends the rest, then the units that are next.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn append(&self, rest: Rest) -> Result<Written> {
        self.go_on(Some(rest.0), Vec::new())
    }

    /// Ends an input, which has this many rows in total. The units of other inputs no longer wait for it.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn end(&self, input: usize, rows: u64) -> Result<Written> {
        if let Some(input) = self.state().inputs.get_mut(input) {
            input.end = Some(rows);
        }
        self.go_on(None, Vec::new())
    }

    /// Returns the last shards, after all units are appended.
    ///
    /// # Errors
    /// If units are missing before those that were written.
    pub fn finish(&self) -> Result<Vec<OpenShard>> {
        let mut state = self.state();
        match state.shards.take() {
            Some(mut shards) if state.is_complete(&shards) => Ok(shards.open.take_before(usize::MAX)),
            _ => Err(ErrorKind::Failed.into()),
        }
    }

    /// Appends all units that are next.
    fn go_on(&self, mut shards: Option<Appender>, mut complete: Vec<OpenShard>) -> Result<Written> {
        loop {
            let Some(mut taken) = shards.take().or_else(|| self.take()) else {
                return Ok(Written { complete, rest: None });
            };
            if taken.is_sequential && complete.len() >= OpenShards::MAX_PIECES {
                return Ok(Written { complete, rest: Some(Rest(taken)) });
            }
            self.append_next(&mut taken, &mut complete)?;
            shards = self.state().refill(taken);
        }
    }

    /// Takes the shards if records are next that have arrived.
    fn take(&self) -> Option<Appender> {
        let mut state = self.state();
        let shards = state.shards.take()?;
        state.refill(shards)
    }

    /// Takes the shards if the only input's row after these is next, and nothing else is.
    fn take_for(&self, input: usize, rows_before: u64) -> Option<Appender> {
        let mut state = self.state();
        let is_next = |shards: &mut Appender| match shards.inputs.as_slice() {
            [only] => input == 0 && only.is_empty() && only.rows() == rows_before,
            _ => false,
        };
        state.shards.take_if(is_next)
    }

    /// Leaves a unit to the thread that reaches its position, which may be the caller.
    fn leave(&self, input: usize, unit: EncodedUnit) {
        if unit.records.is_empty() {
            return self.give_back(unit.records);
        }
        if let Some(input) = self.state().inputs.get_mut(input) {
            input.waiting += 1;
            input.units.insert(unit.rows_before, unit);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn encode<E>(
        &self,
        rows_before: u64,
        encode: impl FnOnce(&mut UnitRecords<'_>) -> Result<(), E>,
    ) -> Result<EncodedUnit, E> {
        let mut records = self.buffer();
        let capacity = records.capacity();
        encode(&mut UnitRecords::whole(&mut records))?;
        self.listener.buffered(records.capacity().saturating_sub(capacity));
        self.size.note(&records);
        Ok(EncodedUnit { rows_before, records })
    }

    /// Encodes the only input's next unit and appends it a block at a time. Once so many shards are complete that they
    /// must be finished first, the remaining records are kept for later.
    fn write_blocks<E: From<crate::Error>>(
        &self,
        mut shards: Appender,
        encode: impl FnOnce(&mut UnitRecords<'_>) -> Result<(), E>,
        complete: &mut Vec<OpenShard>,
    ) -> Result<Appender, E> {
        let mut records = self.buffer();
        let capacity = records.capacity();
        let mut kept = Vec::new();
        let mut append = |block: &mut RecordBuffer, start: usize| {
            let Some(input) = shards.inputs.first_mut() else { return Ok(()) };
            let pieces = input.place_next(block, start);
            let is_full = shards.is_sequential && complete.len() + pieces.len() > OpenShards::MAX_PIECES;
            self.size.note(block);
            if is_full || !kept.is_empty() {
                kept.extend(pieces);
                return Ok(());
            }
            self.append_pieces(&mut shards, &[(0, block, pieces)], complete)?;
            block.clear();
            Ok(())
        };
        let mut unit = UnitRecords::in_blocks(&mut records, self.size.block_rows(), &mut append);
        encode(&mut unit)?;
        unit.end_block()?;
        self.listener.buffered(records.capacity().saturating_sub(capacity));
        let Some(input) = shards.inputs.first_mut() else { return Ok(shards) };
        if kept.is_empty() {
            self.give_back(records);
        } else {
            input.push_placed(records, kept);
            if let Some(arrived) = self.state().inputs.first_mut() {
                arrived.waiting += 1;
            }
        }
        Ok(shards)
    }

    /// Appends the records that are next, up to a limit.
    fn append_next(&self, shards: &mut Appender, complete: &mut Vec<OpenShard>) -> Result<()> {
        let most = if shards.is_sequential { OpenShards::MAX_PIECES - complete.len() } else { usize::MAX };
        let mut next = Vec::new();
        let (mut pieces, mut bytes) = (0, 0);
        while pieces < most
            && bytes < TOGETHER_BYTES
            && let Some((input, turn)) = shards.next_turn(most - pieces)
        {
            pieces += turn.pieces.len();
            bytes += turn.pieces.iter().map(|piece| turn.records.slice(piece.records.clone()).len()).sum::<usize>();
            next.push((input, turn));
        }
        let borrowed: Vec<_> = next.iter().map(|(input, turn)| (*input, &*turn.records, turn.pieces.clone())).collect();
        self.append_pieces(shards, &borrowed, complete)?;
        let mut has_advanced = false;
        for (input, turn) in next {
            // The queue keeps the records of a unit until its last piece was taken.
            if let Some(records) = Arc::into_inner(turn.records) {
                self.give_back(records);
                if let Some(input) = self.state().inputs.get_mut(input) {
                    input.waiting -= 1;
                }
                has_advanced = true;
            }
        }
        if has_advanced {
            self.listener.advanced();
        }
        Ok(())
    }

    /// Appends pieces to their shards, and takes the shards that are then complete.
    fn append_pieces(
        &self,
        shards: &mut Appender,
        records: &[(usize, &RecordBuffer, Vec<Piece>)],
        complete: &mut Vec<OpenShard>,
    ) -> Result<()> {
        let mut last = 0;
        for piece in records.iter().flat_map(|(.., pieces)| pieces) {
            last = piece.shard;
            if !shards.open.is_open(piece.shard) {
                self.listener.opened();
                shards.open.open(piece.shard)?;
            }
        }
        let runs: Vec<_> = records.iter().map(|(_, records, pieces)| (*records, pieces.as_slice())).collect();
        shards.open.append_all(&runs)?;
        for (input, records, pieces) in records {
            let count = pieces.iter().map(|piece| piece.records.len()).sum();
            let bytes = pieces.iter().map(|piece| records.slice(piece.records.clone()).len()).sum();
            self.listener.appended(*input, count, bytes);
        }
        if shards.is_sequential {
            complete.extend(shards.open.take_before(last));
        }
        Ok(())
    }

    fn give_back(&self, mut records: RecordBuffer) {
        records.clear();
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(records);
    }
}

impl State {
    /// Passes units that have arrived to the queues of their inputs. Returns the shards if records are next; else keeps
    /// them for other threads.
    fn refill(&mut self, mut shards: Appender) -> Option<Appender> {
        for (arrived, queue) in self.inputs.iter_mut().zip(&mut shards.inputs) {
            while let Some(unit) = arrived.units.remove(&queue.rows()) {
                queue.push(unit.records);
            }
            queue.set_end(arrived.end);
        }
        if shards.has_next() {
            return Some(shards);
        }
        self.shards = Some(shards);
        None
    }

    /// Whether all units that were written are appended, and all rows of the inputs that have ended.
    fn is_complete(&self, shards: &Appender) -> bool {
        let is_complete = |(arrived, queue): (&Arrived, &InputQueue)| {
            arrived.waiting == 0 && arrived.end.is_none_or(|end| end == queue.rows())
        };
        self.inputs.iter().zip(&shards.inputs).all(is_complete)
    }
}

impl Appender {
    /// Moves on to the next input that has not ended, and returns whether it has records.
    fn has_next(&mut self) -> bool {
        for _ in 0..self.inputs.len() {
            match self.inputs.get(self.turn) {
                Some(input) if input.has_ended() => self.end_turn(),
                Some(input) => return !input.is_empty(),
                None => return false,
            }
        }
        false
    }

    /// Returns at most this many pieces of the input whose turn it is, and moves on if its turn ends with them.
    fn next_turn(&mut self, most: usize) -> Option<(usize, Turn)> {
        if !self.has_next() {
            return None;
        }
        let input = self.turn;
        let turn = self.inputs.get_mut(input)?.next_turn(most)?;
        if turn.is_last {
            self.end_turn();
        }
        Some((input, turn))
    }

    fn end_turn(&mut self) {
        self.turn = (self.turn + 1) % self.inputs.len().max(1);
    }
}

impl<L: WriteListener> fmt::Debug for SetWriter<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetWriter").field("inputs", &self.state().inputs.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
