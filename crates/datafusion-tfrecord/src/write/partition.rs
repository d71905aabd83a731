//! The work of one write partition: rows in, staged shards out.
//!
//! ```text
//! input -> units of about 2 MiB -> encode, some at a time -> append to shards, one unit at a time -> seal, or send parts
//!          (engine's task)         (pool)                    (pool)                                  (blocking threads, or tasks)
//! ```
//! Units leave the encoder in the order in which they went in, so the number of threads does not show in the shards.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_tfrecord::{Encoder, RecordBuffer};
use datafusion_common::{DataFusionError, Result, internal_datafusion_err};
use datafusion_execution::SendableRecordBatchStream;
use datafusion_execution::memory_pool::MemoryReservation;
use datafusion_physical_plan::metrics::{Count, Time};
use futures::stream;
use futures::{Stream, TryStreamExt, pin_mut};
use tfrecord_shards::{OpenShard, OpenShards, Piece, ShardDeal, ShardRule};
use tokio::sync::mpsc;

use super::report::PartitionReport;
use super::run::Run;
use super::sealing::Sealing;
use super::staging::{ShardSink, Sinks};
use crate::error::{encode_error, shards_error};

/// Framed bytes to encode in one job: long against the price of a job, short enough to keep several under way.
const UNIT_BYTES: usize = 2 << 20;

/// Most rows of a job: those of one batch of the engine. How long records are is told by those before, so where short ones
/// are followed by long ones a job holds no more than the engine does anyway.
const MAX_UNIT_ROWS: usize = 1 << 13;

/// Shards that a partition may have open however short memory is: without some, nothing moves.
const UNREFUSED_SHARDS: usize = 16;

/// How rows find their shard.
#[derive(Debug, Clone)]
pub(super) enum Placement {
    /// The last column tells.
    Dealt,
    /// The partition applies the rule to its rows.
    Rule(ShardRule),
}

/// What a partition counts.
#[derive(Debug, Clone)]
pub(super) struct WriteMetrics {
    pub(super) rows_written: Count,
    /// Framed bytes.
    pub(super) bytes_written: Count,
    pub(super) shards: Count,
    pub(super) elapsed_compute: Time,
}

/// One write partition at work.
pub(super) struct PartitionWrite {
    pub(super) run: Arc<Run>,
    pub(super) partition: u32,
    /// The number of write partitions.
    pub(super) partitions: usize,
    pub(super) placement: Placement,
    /// What the partition's shards are numbered within: its own number, or 0 if shards are numbered over all partitions.
    pub(super) shard_space: u32,
    pub(super) encoder: Encoder,
    pub(super) metrics: WriteMetrics,
    pub(super) reservation: MemoryReservation,
}

impl PartitionWrite {
    /// Writes all rows of `input`.
    pub(super) async fn write(self, input: SendableRecordBatchStream) -> Result<PartitionReport> {
        let buffers = Arc::new(Buffers { free: Mutex::default(), reservation: self.reservation });
        let encode = Encode {
            encoder: self.encoder,
            dealt: matches!(self.placement, Placement::Dealt),
            buffers: Arc::clone(&buffers),
            record_len: AtomicUsize::new(0),
            time: self.metrics.elapsed_compute.clone(),
            place: (self.partitions > 1).then_some((self.partition, self.partitions)),
        };
        let append = Append {
            run: Arc::clone(&self.run),
            partition: self.partition,
            partitions: self.partitions,
            shard_space: self.shard_space,
            placement: self.placement,
            buffers,
            metrics: self.metrics,
        };
        // Enough under way for this partition's share of the pool, and one more to take up when one is done.
        let window = self.run.threads().div_ceil(self.partitions) + 1;
        let (sender, receiver) = mpsc::channel(1);
        let (_, report) = futures::try_join!(encode.run(self.run, window, input, sender), append.run(receiver))?;
        Ok(report)
    }
}

/// Some rows to encode in one job.
struct Unit {
    /// Rows of the partition before these.
    rows_before: u64,
    batches: Vec<RecordBatch>,
}

/// The records of a unit.
struct EncodedUnit {
    buffer: RecordBuffer,
    /// The shards of dealt records.
    dealt: Vec<Piece>,
}

/// The first half of the work.
struct Encode {
    encoder: Encoder,
    dealt: bool,
    buffers: Arc<Buffers>,
    /// Mean framed length of the last unit's records; 0 before the first.
    record_len: AtomicUsize,
    time: Time,
    /// Which partition this is, of how many, if there are several.
    place: Option<(u32, usize)>,
}

impl Encode {
    async fn run(
        self,
        run: Arc<Run>,
        window: usize,
        input: SendableRecordBatchStream,
        sender: mpsc::Sender<EncodedUnit>,
    ) -> Result<()> {
        let this = Arc::new(self);
        let encoded = units(input, Arc::clone(&this))
            .map_ok(|unit| {
                let this = Arc::clone(&this);
                run.compute(move |_| this.encode(unit))
            })
            .try_buffered(window);
        pin_mut!(encoded);
        while let Some(unit) = encoded.try_next().await? {
            if sender.send(unit).await.is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Rows of a unit that starts with this batch.
    fn rows_per_unit(&self, first: &RecordBatch) -> usize {
        match self.record_len.load(Ordering::Relaxed) {
            // A slice tells the memory of the whole; too much, but that only makes the first units small.
            0 => {
                let len = first.get_array_memory_size() / first.num_rows().max(1);
                (UNIT_BYTES / len.max(1)).clamp(1, ShardDeal::MAX_BLOCK)
            }
            len => (UNIT_BYTES / len).clamp(1, MAX_UNIT_ROWS),
        }
    }

    fn encode(&self, unit: Unit) -> Result<EncodedUnit> {
        let _timer = self.time.timer();
        let mut buffer = self.buffers.take();
        let capacity_before = buffer.capacity();
        let mut dealt = Vec::new();
        for batch in &unit.batches {
            let start = buffer.len();
            let error = |error: arrow_tfrecord::Error| {
                self.locate(encode_error(error.with_row_offset(unit.rows_before + start as u64)))
            };
            if self.dealt {
                let (rows, shards) = self.split_shards(batch)?;
                self.encoder.encode(&rows, &mut buffer).map_err(error)?;
                dealt.extend(runs(shards, start));
            } else {
                self.encoder.encode(batch, &mut buffer).map_err(error)?;
            }
        }
        self.buffers.book(capacity_before, buffer.capacity());
        self.record_len.store((buffer.bytes().len() / buffer.len().max(1)).max(1), Ordering::Relaxed);
        Ok(EncodedUnit { buffer, dealt })
    }

    /// The rows without the last column, and the shards that it tells.
    fn split_shards<'a>(&self, batch: &'a RecordBatch) -> Result<(RecordBatch, &'a [u32])> {
        let no_shards = || internal_datafusion_err!("rows to write do not tell their shards");
        let (shards, columns) = batch.columns().split_last().ok_or_else(no_shards)?;
        let shards = shards.as_primitive_opt::<UInt32Type>().ok_or_else(no_shards)?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let schema = Arc::clone(self.encoder.mapping().schema());
        Ok((RecordBatch::try_new_with_options(schema, columns.to_vec(), &options)?, shards.values()))
    }

    /// Says what rows are counted in, where it is not the whole query.
    fn locate(&self, error: DataFusionError) -> DataFusionError {
        match self.place {
            Some((partition, partitions)) => {
                error.context(format!("write partition {partition} of {partitions}, which counts its own rows"))
            }
            None => error,
        }
    }
}

/// Neighbouring records of the same shard, the first of them record `start`.
fn runs(shards: &[u32], start: usize) -> impl Iterator<Item = Piece> {
    shards.chunk_by(|first, second| first == second).scan(start, |start, run| {
        let records = *start..*start + run.len();
        *start = records.end;
        Some(Piece { shard: run.first().map_or(0, |shard| *shard as usize), records })
    })
}

/// Cuts and joins batches to units.
fn units(input: SendableRecordBatchStream, encode: Arc<Encode>) -> impl Stream<Item = Result<Unit>> + Send {
    struct State {
        input: SendableRecordBatchStream,
        /// What did not fit the last unit.
        rest: Option<RecordBatch>,
        rows: u64,
        encode: Arc<Encode>,
    }
    let state = State { input, rest: None, rows: 0, encode };
    stream::try_unfold(state, |mut state| async move {
        let mut unit = Unit { rows_before: state.rows, batches: Vec::new() };
        let mut room = None;
        while room != Some(0) {
            let mut batch = match state.rest.take() {
                Some(rest) => rest,
                None => match state.input.try_next().await? {
                    Some(batch) => batch,
                    None => break,
                },
            };
            let left = room.get_or_insert_with(|| state.encode.rows_per_unit(&batch));
            if batch.num_rows() > *left {
                state.rest = Some(batch.slice(*left, batch.num_rows() - *left));
                batch = batch.slice(0, *left);
            }
            if batch.num_rows() > 0 {
                *left -= batch.num_rows();
                state.rows += batch.num_rows() as u64;
                unit.batches.push(batch);
            }
        }
        Ok((!unit.batches.is_empty()).then_some((unit, state)))
    })
}

/// Buffers that go round between encoding and writing, and what is booked with the engine for them and for open shards.
struct Buffers {
    free: Mutex<Vec<RecordBuffer>>,
    reservation: MemoryReservation,
}

impl Buffers {
    fn take(&self) -> RecordBuffer {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn give_back(&self, mut buffer: RecordBuffer) {
        buffer.clear();
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }

    /// Books what a buffer has grown. Never refused: buffers are few and bounded, and without them nothing moves. It is
    /// for those who can spill to make room.
    fn book(&self, before: usize, now: usize) {
        self.reservation.grow(now.saturating_sub(before));
    }

    /// Books what an open shard holds back until it is enough to write or to compress. Refused when memory is short and some are
    /// open already.
    fn book_shard(&self, open: usize, bytes: usize) -> Result<()> {
        if open < UNREFUSED_SHARDS {
            self.reservation.grow(bytes);
            return Ok(());
        }
        self.reservation.try_grow(bytes).map_err(|error| {
            error
                .context(format!("{open} shards of a write partition are open: write fewer shards, or raise the limit"))
        })
    }

    fn release_shard(&self, bytes: usize) {
        self.reservation.shrink(bytes);
    }
}

/// The second half of the work.
struct Append {
    run: Arc<Run>,
    partition: u32,
    partitions: usize,
    shard_space: u32,
    placement: Placement,
    buffers: Arc<Buffers>,
    metrics: WriteMetrics,
}

impl Append {
    async fn run(mut self, mut units: mpsc::Receiver<EncodedUnit>) -> Result<PartitionReport> {
        let run = Arc::clone(&self.run);
        let mut sealing = Sealing::new(&run, self.partitions);
        let mut open = OpenShards::new(sealing.sinks(), self.shard_space, run.compression, run.level);
        let mut rows = 0;
        while let Some(EncodedUnit { mut buffer, dealt }) = units.recv().await {
            rows += buffer.len() as u64;
            let (pieces, sequential) = match &mut self.placement {
                Placement::Dealt => (dealt, false),
                Placement::Rule(rule) => {
                    (rule.place(buffer.len(), |record| buffer.record_end(record)), rule.is_sequential())
                }
            };
            let step = if sequential { OpenShards::MAX_PIECES } else { pieces.len().max(1) };
            for pieces in pieces.chunks(step) {
                let current = pieces.last().map_or(0, |piece| piece.shard);
                (open, buffer) = self.append(open, buffer, pieces.to_vec()).await?;
                let complete = if sequential { open.take_before(current) } else { Vec::new() };
                self.seal(complete, &mut sealing).await?;
            }
            self.buffers.give_back(buffer);
        }
        self.seal(open.take_before(usize::MAX), &mut sealing).await?;
        let mut shards = sealing.finish().await?;
        shards.sort_by_key(|shard| shard.sequence);
        Ok(PartitionReport { partition: self.partition, rows, shards })
    }

    /// Appends pieces to their shards, in one job.
    async fn append(
        &self,
        mut open: OpenShards<Sinks>,
        buffer: RecordBuffer,
        pieces: Vec<Piece>,
    ) -> Result<(OpenShards<Sinks>, RecordBuffer)> {
        let metrics = self.metrics.clone();
        let buffers = Arc::clone(&self.buffers);
        let shard_bytes = self.shard_bytes();
        self.run
            .compute(move |run| {
                let _timer = metrics.elapsed_compute.timer();
                for piece in &pieces {
                    if !open.is_open(piece.shard) {
                        buffers.book_shard(open.len(), shard_bytes)?;
                        open.open(piece.shard).map_err(shards_error)?;
                    }
                }
                open.append(&buffer, &pieces).map_err(|error| run.write_error(error))?;
                for piece in &pieces {
                    metrics.rows_written.add(piece.records.len());
                    metrics.bytes_written.add(buffer.slice(piece.records.clone()).len());
                }
                Ok((open, buffer))
            })
            .await
    }

    /// What is booked for an open shard.
    fn shard_bytes(&self) -> usize {
        self.run.staging.memory_per_shard(self.run.compression)
    }

    /// Starts to finish shards that are complete.
    async fn seal(&self, complete: Vec<OpenShard<ShardSink>>, sealing: &mut Sealing) -> Result<()> {
        let (shards, buffers) = (self.metrics.shards.clone(), Arc::clone(&self.buffers));
        let shard_bytes = self.shard_bytes();
        let finished = move || {
            buffers.release_shard(shard_bytes);
            shards.add(1);
        };
        sealing.seal(&self.run, complete, finished).await
    }
}
