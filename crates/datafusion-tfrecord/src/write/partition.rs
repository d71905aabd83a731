//! One write partition: reads rows and stages shards.
//!
//! ```text
//! input -> units of about 2 MiB -> encode, some at a time, and append in order, a block at a time -> seal, or send parts
//!          (engine's task)         (pool)                                                            (blocking threads, or tasks)
//! ```
//! Units are appended in input order, so the shards do not depend on the number of threads.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_execution::SendableRecordBatchStream;
use datafusion_execution::memory_pool::MemoryReservation;
use futures::{TryStreamExt, pin_mut};
use tfrecord_shards::OpenShards;

use super::metrics::WriteMetrics;
use super::observe::RowEncoder;
use super::report::PartitionReport;
use super::run::Run;
use super::sealing::Sealing;
use super::unit_writer::{Placement, Rest, UnitWriter, Written};
use super::units::{PartitionPlace, units};

/// The state of one write partition.
pub(super) struct PartitionWrite {
    pub(super) run: Arc<Run>,
    pub(super) partition: u32,
    /// The number of write partitions.
    pub(super) partitions: usize,
    pub(super) placement: Placement,
    /// The number space of the partition's shards: its own number, or 0 if shards are numbered over all partitions.
    pub(super) shard_space: u32,
    pub(super) encoder: RowEncoder,
    pub(super) metrics: WriteMetrics,
    pub(super) reservation: MemoryReservation,
}

impl PartitionWrite {
    /// Writes all rows of `input`.
    pub(super) async fn write(self, input: SendableRecordBatchStream) -> Result<PartitionReport> {
        let Self { run, partition, partitions, .. } = self;
        let mut sealing = Sealing::new(&run, partitions);
        let observer = self.encoder.observer();
        let open = OpenShards::new(sealing.sinks(), self.shard_space, run.compression, run.level);
        let writer = Arc::new(UnitWriter::new(
            &run,
            self.encoder,
            PartitionPlace { partition, partitions },
            (open, self.placement),
            self.metrics,
            self.reservation,
        ));
        // Enough jobs for this partition's share of the pool, and one more to start when one is done.
        let window = run.threads().div_ceil(partitions) + 1;
        let written = units(input, writer.size())
            .map_ok(|unit| {
                let writer = Arc::clone(&writer);
                run.compute(move |run| writer.write(unit, run))
            })
            .try_buffered(window);
        pin_mut!(written);
        while let Some(mut written) = written.try_next().await? {
            while let Some(rest) = seal(&run, &mut sealing, &writer, written).await? {
                let writer = Arc::clone(&writer);
                written = run.compute(move |run| writer.append(rest, run)).await?;
            }
        }
        let (complete, rows) = writer.finish()?;
        seal(&run, &mut sealing, &writer, Written { complete, rest: None }).await?;
        let mut shards = sealing.finish().await?;
        shards.sort_by_key(|shard| shard.sequence);
        run.keep_statistics(partition, rows, observer.as_deref())?;
        Ok(PartitionReport { partition, rows, shards })
    }
}

/// Starts to finish the complete shards, and returns the rest.
async fn seal(
    run: &Arc<Run>,
    sealing: &mut Sealing,
    writer: &Arc<UnitWriter>,
    Written { complete, rest }: Written,
) -> Result<Option<Rest>> {
    let writer = Arc::clone(writer);
    sealing.seal(run, complete, move || writer.sealed()).await?;
    Ok(rest)
}
