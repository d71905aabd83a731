//! Second phase of the sort: writes sorted records to staged shards.

use std::ops::Range;
use std::sync::Arc;

use arrow_tfrecord::RecordBuffer;
use datafusion_common::Result;
use futures::FutureExt;
use futures::future::{BoxFuture, try_join_all};
use tfrecord_shards::sort::{SortedBlock, TaskRecords};
use tfrecord_shards::{OpenShards, Piece, StagedShard};

use super::barrier::Visitor;
use super::layout::Layout;
use crate::write::metrics::WriteMetrics;
use crate::write::run::Run;
use crate::write::sealing::Sealing;
use crate::write::staging::Sinks;
use crate::write::units::PartitionPlace;

/// Maximum number of shard files that all partitions have open at a time, in addition to those being synced.
const MOST_OPEN: usize = 64;

/// Writes shards until all shards of the set are taken, as many at a time as this partition's share permits.
pub(super) async fn write_shards(
    run: &Arc<Run>,
    layout: &Arc<Layout>,
    place: PartitionPlace,
    visitor: &Visitor<Arc<Layout>>,
    metrics: &WriteMetrics,
) -> Result<Vec<StagedShard>> {
    let share = |partition: usize| partition * layout.lanes / place.partitions.max(1);
    let lanes = share(place.partition as usize + 1) - share(place.partition as usize);
    let lane = |_| {
        let lane = Lane { run: Arc::clone(run), layout: Arc::clone(layout), metrics: metrics.clone() };
        lane.write(visitor)
    };
    Ok(try_join_all((0..lanes).map(lane)).await?.concat())
}

/// Writes one shard after the other.
struct Lane {
    run: Arc<Run>,
    layout: Arc<Layout>,
    metrics: WriteMetrics,
}

/// The records of a task with the block read last, if there was one.
type Read = (TaskRecords, Option<SortedBlock>);

impl Lane {
    async fn write(self, visitor: &Visitor<Arc<Layout>>) -> Result<Vec<StagedShard>> {
        let run = Arc::clone(&self.run);
        let mut sealing = Sealing::new(&run, self.layout.lanes);
        let mut open = OpenShards::new(sealing.sinks(), 0, run.compression, run.level);
        let mut spare = None;
        while let Some(task) = self.layout.take_task() {
            let shards = self.layout.plan.task_shards(task);
            // The first shard that is not complete.
            let mut shard = shards.start;
            let mut ahead = self.read(self.layout.plan.read_once(task), spare.take());
            while let (records, Some(block)) = ahead.await? {
                // Read the next block while this one is written.
                ahead = self.read(records, spare.take());
                let SortedBlock { records, pieces } = block;
                let records = Arc::new(records);
                let mut pieces = pieces.as_slice();
                while let Some(last) = pieces.last() {
                    visitor.check()?;
                    let step = shard..(last.shard + 1).min(shard + self.most_open());
                    let (now, later) = pieces.split_at(pieces.partition_point(|piece| piece.shard < step.end));
                    pieces = later;
                    shard = if later.is_empty() { last.shard } else { step.end };
                    open = self.append(open, step, &records, now).await?;
                    self.seal(&mut open, shard, &mut sealing).await?;
                }
                spare = Arc::into_inner(records);
            }
            // The remaining shards have no rows.
            while shard < shards.end {
                visitor.check()?;
                let step = shard..shards.end.min(shard + self.most_open());
                shard = step.end;
                open = self.append(open, step, &Arc::default(), &[]).await?;
                self.seal(&mut open, shard, &mut sealing).await?;
            }
        }
        sealing.finish().await
    }

    /// Returns the number of shards that may be open at the same time, for shards of a few rows each.
    fn most_open(&self) -> usize {
        (MOST_OPEN / self.layout.lanes).clamp(1, OpenShards::MAX_PIECES)
    }

    /// Reads some records of a task. Reuses the buffer `spare`, if any.
    fn read(&self, mut records: TaskRecords, spare: Option<RecordBuffer>) -> BoxFuture<'static, Result<Read>> {
        let time = self.metrics.elapsed_compute.clone();
        let read = self.run.compute(move |run| {
            let _timer = time.timer();
            if let Some(spare) = spare {
                records.recycle(spare);
            }
            let block = records.next().transpose().map_err(|error| run.write_error(error))?;
            Ok((records, block))
        });
        read.boxed()
    }

    /// Opens shards of the plan, and appends records to them.
    async fn append(
        &self,
        mut open: OpenShards<Sinks>,
        shards: Range<usize>,
        records: &Arc<RecordBuffer>,
        pieces: &[Piece],
    ) -> Result<OpenShards<Sinks>> {
        let (layout, metrics, records) = (Arc::clone(&self.layout), self.metrics.clone(), Arc::clone(records));
        let number = |piece: &Piece| Ok(Piece { shard: self.layout.place(piece.shard)?.0, ..piece.clone() });
        let pieces: Vec<_> = pieces.iter().map(number).collect::<Result<_>>()?;
        self.run
            .compute(move |run| {
                let _timer = metrics.elapsed_compute.timer();
                for shard in shards {
                    let (number, place) = layout.place(shard)?;
                    open.open_at(number, place).map_err(|error| run.write_error(error))?;
                }
                open.append(&records, &pieces).map_err(|error| run.write_error(error))?;
                for piece in &pieces {
                    metrics.rows_written.add(piece.records.len());
                    metrics.bytes_written.add(records.slice(piece.records.clone()).len());
                }
                Ok(open)
            })
            .await
    }

    /// Starts to finish the shards before this one of the plan.
    async fn seal(&self, open: &mut OpenShards<Sinks>, before: usize, sealing: &mut Sealing) -> Result<()> {
        let end = self.layout.plan.shards().len();
        let number = if before < end { self.layout.place(before)?.0 } else { usize::MAX };
        let shards = self.metrics.shards.clone();
        sealing.seal(&self.run, open.take_before(number), move || shards.add(1)).await
    }
}
