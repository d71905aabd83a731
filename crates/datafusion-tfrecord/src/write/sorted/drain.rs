//! Second phase of the sort: writes sorted records to staged shards.

use std::sync::Arc;

use datafusion_common::Result;
use futures::future::try_join_all;
use tfrecord_shards::{OpenShards, PlannedSet, PlannedWriter, StagedShard};

use super::layout::PlannedShards;
use crate::write::barrier::Visitor;
use crate::write::metrics::WriteMetrics;
use crate::write::run::Run;
use crate::write::sealing::Sealing;
use crate::write::units::PartitionPlace;

/// Maximum number of shard files that all partitions have open at a time, in addition to those being synced.
const MOST_OPEN: usize = 64;

/// Writes shards until all shards of the set are taken, as many at a time as this partition's share permits.
pub(super) async fn write_shards(
    run: &Arc<Run>,
    layout: &Arc<PlannedShards>,
    place: PartitionPlace,
    visitor: &Visitor<Arc<PlannedShards>>,
    metrics: &WriteMetrics,
) -> Result<Vec<StagedShard>> {
    let share = |partition: usize| partition * layout.lanes / place.partitions.max(1);
    let lanes = share(place.partition as usize + 1) - share(place.partition as usize);
    let write = |_| write_lane(run, &layout.set, (0, layout.lanes), || visitor.check(), metrics);
    Ok(try_join_all((0..lanes).map(write)).await?.concat())
}

/// Writes one shard after the other, in one of `lanes`, until all are taken. The partition of the shards is `space`.
pub(super) async fn write_lane(
    run: &Arc<Run>,
    set: &Arc<PlannedSet>,
    (space, lanes): (u32, usize),
    check: impl Fn() -> Result<()>,
    metrics: &WriteMetrics,
) -> Result<Vec<StagedShard>> {
    let mut sealing = Sealing::new(run, lanes);
    let open = OpenShards::new(sealing.destination(), space, run.framing);
    let mut writer = PlannedWriter::new(open, MOST_OPEN / lanes.max(1));
    loop {
        check()?;
        let (set, metrics_of_job) = (Arc::clone(set), metrics.clone());
        let written = run.compute(move |run| {
            let _timer = metrics_of_job.elapsed_compute.timer();
            let complete = writer.write_some(&set, &metrics_of_job).map_err(|error| run.write_error(error))?;
            Ok((writer, complete))
        });
        let (again, complete) = written.await?;
        let Some(complete) = complete else { return sealing.finish().await };
        writer = again;
        let shards = metrics.shards.clone();
        sealing.seal(run, complete, move || shards.add(1)).await?;
    }
}
