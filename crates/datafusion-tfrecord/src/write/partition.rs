//! Write partitions that append rows to shards as they come.
//!
//! ```text
//! input -> units of about 2 MiB -> encode, some at a time, and append in order, by blocks or units -> seal, or send parts
//!          (engine's task)         (pool)                                                            (blocking threads, or tasks)
//! ```
//! A [`SetWriter`] appends units in a fixed order, so the shards do not depend on the number of threads. With one
//! input, the unit that is next is appended while it is encoded, a block at a time; all others are encoded whole first.
//! Partitions that write the same shards have one writer together.

use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;

use datafusion_common::{DataFusionError, Result};
use datafusion_execution::SendableRecordBatchStream;
use datafusion_execution::memory_pool::MemoryReservation;
use datafusion_physical_plan::metrics::Time;
use futures::TryStreamExt;
use futures::future::{Either, select};
use tfrecord_shards::{OpenShards, SetWriter, ShardRule, StagedShard, UnitSize, WriteListener, Written};
use tokio::sync::{Mutex, watch};

use super::barrier::{Barrier, Visitor};
use super::metrics::WriteMetrics;
use super::observe::RowEncoder;
use super::report::PartitionReport;
use super::run::Run;
use super::sealing::Sealing;
use super::units::{PartitionPlace, Unit, UnitError, units};

/// Maximum number of encoded units of a partition that wait for other partitions, in addition to those being encoded.
const MOST_WAITING: usize = 2;

/// The shards that one or several write partitions write together.
pub(super) struct SharedShards {
    writer: SetWriter<Listener>,
    /// `None` once all shards are sealed.
    sealing: Mutex<Option<Sealing>>,
    barrier: Arc<Barrier<()>>,
}

/// How the rows of the partitions are assigned to their shards.
pub(super) enum RowRule {
    /// The rows of one partition by this rule. Its shards are numbered within this space.
    Single { rule: ShardRule, shard_space: u32 },
    /// The rows of this many partitions round-robin.
    RoundRobin { shards: NonZeroUsize, partitions: NonZeroUsize },
}

/// Counts what is written, and reserves memory for it. Reservations are infallible: buffers are few and bounded, and
/// planning ensures that the shards open at the same time take only a part of the memory.
struct Listener {
    /// The metrics of the partitions that write the shards.
    metrics: Vec<WriteMetrics>,
    reservation: MemoryReservation,
    /// What an open shard buffers until there is enough to write or to compress.
    shard_bytes: usize,
    /// Changes whenever fewer units wait.
    advanced: watch::Sender<()>,
}

impl WriteListener for Listener {
    fn buffered(&self, bytes: usize) {
        self.reservation.grow(bytes);
    }

    fn opened(&self) {
        self.reservation.grow(self.shard_bytes);
    }

    fn appended(&self, input: usize, records: usize, framed_bytes: usize) {
        if let Some(metrics) = self.metrics.get(input) {
            metrics.appended(input, records, framed_bytes);
        }
    }

    fn advanced(&self) {
        self.advanced.send_replace(());
    }
}

impl SharedShards {
    /// Creates shards for all write partitions, of which there are `partitions`, or for one of them.
    pub(super) fn new(
        run: &Run,
        partitions: usize,
        rule: RowRule,
        records_per_row: usize,
        metrics: Vec<WriteMetrics>,
        reservation: MemoryReservation,
    ) -> Self {
        let writers = metrics.len();
        let sealing = Sealing::new(run, run.partitions_here(partitions).div_ceil(writers.max(1)));
        let shard_bytes = run.staging.shards.memory_per_shard(run.framing);
        let listener = Listener { metrics, reservation, shard_bytes, advanced: watch::Sender::new(()) };
        let open = |space| OpenShards::new(sealing.destination(), space, run.framing);
        let writer = match rule {
            RowRule::Single { rule, shard_space } => SetWriter::new(open(shard_space), rule, listener),
            RowRule::RoundRobin { shards, partitions } => SetWriter::round_robin(open(0), shards, partitions, listener),
        };
        Self {
            writer: writer.with_records_per_row(records_per_row),
            sealing: Mutex::new(Some(sealing)),
            barrier: Arc::new(Barrier::new(writers)),
        }
    }

    fn listener(&self) -> &Listener {
        self.writer.listener()
    }

    fn write(
        &self,
        input: usize,
        unit: &Unit,
        encoder: &RowEncoder,
        place: PartitionPlace,
        run: &Run,
    ) -> Result<Written> {
        let written = self.writer.write(input, unit.rows_before, |records| encoder.encode_unit(unit, place, records));
        written.map_err(|error| match error {
            UnitError::Rows(error) => error,
            UnitError::Shards(error) => run.write_error(error),
        })
    }

    /// Waits while many units of an input wait for those of other inputs.
    ///
    /// The input that is next never waits here for another one: its units are appended as soon as they are encoded. So
    /// the others can go on once it has caught up, and no input waits for ever.
    async fn wait_for_others(&self, input: usize) -> Result<()> {
        let mut advanced = self.listener().advanced.subscribe();
        while self.writer.waiting(input) > MOST_WAITING {
            match select(pin!(advanced.changed()), pin!(self.barrier.failed())).await {
                Either::Left(_) => {}
                Either::Right((error, _)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Starts to finish the complete shards, and appends what is left.
    async fn settle(self: &Arc<Self>, run: &Arc<Run>, input: usize, mut written: Written) -> Result<()> {
        loop {
            let Written { complete, rest } = written;
            if let Some(sealing) = &mut *self.sealing.lock().await {
                let shards = Arc::clone(self);
                sealing.seal(run, complete, move || shards.sealed(input)).await?;
            }
            let Some(rest) = rest else { return Ok(()) };
            let (shards, time) = (Arc::clone(self), self.time(input));
            written = run
                .compute(move |run| {
                    let _timer = time.as_ref().map(Time::timer);
                    shards.writer.append(rest).map_err(|error| run.write_error(error))
                })
                .await?;
        }
    }

    /// Records that a complete shard has been sealed.
    fn sealed(&self, input: usize) {
        let listener = self.listener();
        listener.reservation.shrink(listener.shard_bytes);
        if let Some(metrics) = listener.metrics.get(input) {
            metrics.shards.add(1);
        }
    }

    fn time(&self, input: usize) -> Option<Time> {
        self.listener().metrics.get(input).map(|metrics| metrics.elapsed_compute.clone())
    }

    /// Seals the last shards, and returns all of them.
    async fn finish(self: &Arc<Self>, run: &Arc<Run>, input: usize) -> Result<Vec<StagedShard>> {
        let complete = self.writer.finish().map_err(|error| run.write_error(error))?;
        self.settle(run, input, Written { complete, rest: None }).await?;
        let sealing = self.sealing.lock().await.take();
        let mut staged = match sealing {
            Some(sealing) => sealing.finish().await?,
            None => Vec::new(),
        };
        staged.sort_by_key(|shard| shard.sequence);
        Ok(staged)
    }
}

/// The state of one write partition.
pub(super) struct PartitionWrite {
    run: Arc<Run>,
    shards: Arc<SharedShards>,
    /// The partition's number among those that write the shards.
    input: usize,
    place: PartitionPlace,
    encoder: RowEncoder,
    visitor: Visitor<()>,
}

impl PartitionWrite {
    /// Creates a partition that has not started. If dropped, it ends the others that write its shards.
    pub(super) fn new(
        run: Arc<Run>,
        shards: Arc<SharedShards>,
        input: usize,
        place: PartitionPlace,
        encoder: RowEncoder,
    ) -> Self {
        let visitor = shards.barrier.visitor();
        Self { run, shards, input, place, encoder, visitor }
    }

    /// Writes all rows of `rows`. The partition that ends last reports the shards that are complete then.
    pub(super) async fn write(self, rows: SendableRecordBatchStream) -> Result<PartitionReport> {
        let Self { run, shards, input, place, encoder, visitor } = self;
        let records_per_row = encoder.records_per_row() as u64;
        let observer = encoder.observer();
        let written = async {
            let rows = write_rows(&run, &shards, input, place, encoder, rows).await?;
            let statistics = observer.map(|observer| observer.finish(rows)).transpose()?;
            let is_last = visitor.arrive()?;
            let shards = if is_last { shards.finish(&run, input).await? } else { Vec::new() };
            Ok(PartitionReport { rows: rows * records_per_row, shards, statistics, sorted: None })
        };
        match written.await {
            Ok(report) => {
                visitor.leave();
                Ok(report)
            }
            Err(error) => Err(visitor.fail(error)),
        }
    }
}

/// Writes all rows of an input, and returns their number.
async fn write_rows(
    run: &Arc<Run>,
    shards: &Arc<SharedShards>,
    input: usize,
    place: PartitionPlace,
    encoder: RowEncoder,
    rows: SendableRecordBatchStream,
) -> Result<u64> {
    let (size, encoder): (Arc<UnitSize>, _) = (shards.writer.size(), Arc::new(encoder));
    let written = units(rows, size)
        .and_then(|unit| {
            let shards = Arc::clone(shards);
            async move { shards.wait_for_others(input).await.map(|()| unit) }
        })
        .map_ok(|unit| {
            let (shards, encoder, time) = (Arc::clone(shards), Arc::clone(&encoder), shards.time(input));
            run.compute(move |run| {
                let _timer = time.as_ref().map(Time::timer);
                Ok::<_, DataFusionError>((unit.rows(), shards.write(input, &unit, &encoder, place, run)?))
            })
        })
        .try_buffered(run.window(place.partitions));
    let mut written = pin!(written);
    let mut rows = 0;
    while let Some((more, written)) = written.try_next().await? {
        rows += more;
        shards.settle(run, input, written).await?;
    }
    let ending = Arc::clone(shards);
    let ended = run.compute(move |run| ending.writer.end(input, rows).map_err(|error| run.write_error(error))).await?;
    shards.settle(run, input, ended).await?;
    Ok(rows)
}
