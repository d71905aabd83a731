//! The work of one write partition: rows in, staged shards out.
//!
//! ```text
//! input -> units of about 2 MiB -> encode, some at a time -> append to shards, one unit at a time -> seal, or send parts
//!          (engine's task)         (pool)                    (pool)                                  (blocking threads, or tasks)
//! ```
//! Units leave the encoder in the order in which they went in, so the number of threads does not show in the shards.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_tfrecord::RecordBuffer;
use datafusion_common::{Result, internal_datafusion_err};
use datafusion_execution::SendableRecordBatchStream;
use datafusion_execution::memory_pool::MemoryReservation;
use datafusion_physical_plan::metrics::{Count, Time};
use futures::{TryStreamExt, pin_mut};
use tfrecord_shards::{OpenShard, OpenShards, Piece, ShardRule};
use tokio::sync::mpsc;

use super::observe::RowEncoder;
use super::report::PartitionReport;
use super::run::Run;
use super::sealing::Sealing;
use super::staging::{ShardSink, Sinks};
use super::units::{PartitionPlace, UNIT_BYTES, Unit, UnitSize, units};
use crate::error::shards_error;

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
    pub(super) encoder: RowEncoder,
    pub(super) metrics: WriteMetrics,
    pub(super) reservation: MemoryReservation,
}

impl PartitionWrite {
    /// Writes all rows of `input`.
    pub(super) async fn write(self, input: SendableRecordBatchStream) -> Result<PartitionReport> {
        let buffers = Arc::new(Buffers { free: Mutex::default(), reservation: self.reservation });
        let observer = self.encoder.observer();
        let encode = Encode {
            encoder: self.encoder,
            dealt: matches!(self.placement, Placement::Dealt),
            buffers: Arc::clone(&buffers),
            size: Arc::new(UnitSize::new(UNIT_BYTES)),
            time: self.metrics.elapsed_compute.clone(),
            place: PartitionPlace { partition: self.partition, partitions: self.partitions },
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
        let run = Arc::clone(&self.run);
        let (_, report) = futures::try_join!(encode.run(self.run, window, input, sender), append.run(receiver))?;
        run.keep_statistics(report.partition, report.rows, observer.as_deref())?;
        Ok(report)
    }
}

/// The records of a unit.
struct EncodedUnit {
    buffer: RecordBuffer,
    /// The shards of dealt records.
    dealt: Vec<Piece>,
}

/// The first half of the work.
struct Encode {
    encoder: RowEncoder,
    dealt: bool,
    buffers: Arc<Buffers>,
    size: Arc<UnitSize>,
    time: Time,
    place: PartitionPlace,
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
        let encoded = units(input, Arc::clone(&this.size))
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

    fn encode(&self, unit: Unit) -> Result<EncodedUnit> {
        let _timer = self.time.timer();
        let mut buffer = self.buffers.take();
        let capacity_before = buffer.capacity();
        let mut dealt = Vec::new();
        let mut first_row = unit.rows_before;
        for batch in &unit.batches {
            let start = buffer.len();
            let error = |error| self.place.encode_error(error, first_row);
            if self.dealt {
                let (rows, shards) = self.split_shards(batch)?;
                self.encoder.encode(&rows, first_row, &mut buffer).map_err(error)?;
                dealt.extend(runs(shards, start, self.encoder.records_per_row()));
            } else {
                self.encoder.encode(batch, first_row, &mut buffer).map_err(error)?;
            }
            first_row += batch.num_rows() as u64;
        }
        self.buffers.book(capacity_before, buffer.capacity());
        self.size.note(&buffer);
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
}

/// Neighbouring records of the same shard, the first of them record `start`.
fn runs(shards: &[u32], start: usize, records_per_row: usize) -> impl Iterator<Item = Piece> {
    shards.chunk_by(|first, second| first == second).scan(start, move |start, run| {
        let records = *start..*start + run.len() * records_per_row;
        *start = records.end;
        Some(Piece { shard: run.first().map_or(0, |shard| *shard as usize), records })
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

    /// Books what an open shard holds back until it is enough to write or to compress. Never refused: planning has seen to
    /// it that those that are open at the same time take only a part of the memory.
    fn book_shard(&self, bytes: usize) {
        self.reservation.grow(bytes);
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
                        buffers.book_shard(shard_bytes);
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
