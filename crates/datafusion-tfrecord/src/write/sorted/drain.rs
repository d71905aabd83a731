//! Second phase of the sort: writes sorted records to staged shards.

use std::sync::Arc;

use datafusion_common::Result;
use futures::future::try_join_all;
use tfrecord_shards::{OpenShards, PlannedWriter, StagedShard};

use super::layout::Layout;
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
    layout: &Arc<Layout>,
    place: PartitionPlace,
    visitor: &Visitor<Arc<Layout>>,
    metrics: &WriteMetrics,
) -> Result<Vec<StagedShard>> {
    let share = |partition: usize| partition * layout.lanes / place.partitions.max(1);
    let lanes = share(place.partition as usize + 1) - share(place.partition as usize);
    Ok(try_join_all((0..lanes).map(|_| write_lane(run, layout, visitor, metrics))).await?.concat())
}

/// Writes one shard after the other.
async fn write_lane(
    run: &Arc<Run>,
    layout: &Arc<Layout>,
    visitor: &Visitor<Arc<Layout>>,
    metrics: &WriteMetrics,
) -> Result<Vec<StagedShard>> {
    let mut sealing = Sealing::new(run, layout.lanes);
    let open = OpenShards::new(sealing.sinks(), 0, run.compression, run.level);
    let mut writer = PlannedWriter::new(open, MOST_OPEN / layout.lanes.max(1));
    loop {
        visitor.check()?;
        let (layout, metrics_of_job) = (Arc::clone(layout), metrics.clone());
        let written = run.compute(move |run| {
            let _timer = metrics_of_job.elapsed_compute.timer();
            let complete = writer.write_some(&layout.set, &metrics_of_job).map_err(|error| run.write_error(error))?;
            Ok((writer, complete))
        });
        let (again, complete) = written.await?;
        let Some(complete) = complete else { return sealing.finish().await };
        writer = again;
        let shards = metrics.shards.clone();
        sealing.seal(run, complete, move || shards.add(1)).await?;
    }
}
