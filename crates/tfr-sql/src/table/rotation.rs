//! Interleaves several partitions deterministically.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties as _};
use futures::{StreamExt as _, stream};
use tokio::sync::mpsc;

use super::WAITING_BATCHES;

/// Returns one batch of the first partition, one of the second, and so on in rotation, skipping those that have ended.
/// The partitions run concurrently, but their speed does not affect the order.
pub fn rotate(
    plan: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream, DataFusionError> {
    let mut partitions = VecDeque::new();
    for partition in 0..plan.output_partitioning().partition_count() {
        let mut batches = plan.execute(partition, Arc::clone(context))?;
        let (sender, receiver) = mpsc::channel(WAITING_BATCHES);
        let task = SpawnedTask::spawn(async move {
            while let Some(batch) = batches.next().await {
                let failed = batch.is_err();
                if sender.send(batch).await.is_err() || failed {
                    break;
                }
            }
        });
        partitions.push_back((receiver, task));
    }
    let turns = stream::unfold(partitions, |mut partitions| async move {
        loop {
            let (mut receiver, task) = partitions.pop_front()?;
            if let Some(batch) = receiver.recv().await {
                partitions.push_back((receiver, task));
                return Some((batch, partitions));
            }
            // The partition has ended, or its task has panicked, which must not look like an end.
            if let Err(panic) = task.join_unwind().await {
                return Some((Err(DataFusionError::ExecutionJoin(Box::new(panic))), partitions));
            }
        }
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(plan.schema(), turns)))
}
