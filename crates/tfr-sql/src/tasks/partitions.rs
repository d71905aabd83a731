//! [`check`]: whether the partitions of a plan can run in different processes.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::error::{Result, TaskError};
use crate::query::{has_limit, is_volatile};

/// Operators that make the rows of a partition from those of the same partition of their inputs, or from files.
const BY_PARTITION: &[&str] = &[
    "BoundedBatchesExec",
    "CoalesceBatchesExec",
    "CooperativeExec",
    "DataSourceExec",
    "EmptyExec",
    "FilterExec",
    "HalvingProjectionExec",
    "PlaceholderRowExec",
    "ProjectionExec",
    "UnionExec",
    "UnnestExec",
];

/// Operators without an input whose rows every process can make.
pub const REPEATABLE: &[&str] = &["DataSourceExec", "EmptyExec", "PlaceholderRowExec"];

/// Checks that each partition of a plan can run on its own, in a process of its own.
///
/// # Errors
/// Partitions exchange rows, or each task would compute a part of the plan that may have other rows each time.
pub fn check(plan: &Arc<dyn ExecutionPlan>, logical: &LogicalPlan) -> Result<()> {
    check_leaves(plan)?;
    if plan.output_partitioning().partition_count() == 1 {
        return Ok(());
    }
    check_node(plan)?;
    if is_volatile(logical)? {
        return Err(TaskError::Varies { reason: "an expression has another value each time, such as random()" }.into());
    }
    if has_limit(logical, false)? {
        return Err(TaskError::Varies { reason: "LIMIT chooses rows" }.into());
    }
    Ok(())
}

fn check_leaves(plan: &Arc<dyn ExecutionPlan>) -> Result<(), TaskError> {
    let children = plan.children();
    if children.is_empty() && !REPEATABLE.contains(&plan.name()) {
        return Err(TaskError::Unrepeatable { what: format!("the rows of {}", plan.name()) });
    }
    children.into_iter().try_for_each(check_leaves)
}

fn check_node(plan: &Arc<dyn ExecutionPlan>) -> Result<(), TaskError> {
    // A single partition is computed as a whole wherever it is needed.
    if plan.output_partitioning().partition_count() == 1 {
        return Ok(());
    }
    let exchange = || TaskError::Exchange { node: plan.name().to_owned() };
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let is_broadcast = *join.partition_mode() == PartitionMode::CollectLeft;
        return if is_broadcast && keeps_right(*join.join_type()) { check_node(join.right()) } else { Err(exchange()) };
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        return if keeps_right(*join.join_type()) { check_node(join.right()) } else { Err(exchange()) };
    }
    if let Some(join) = plan.downcast_ref::<CrossJoinExec>() {
        return check_node(join.right());
    }
    if !BY_PARTITION.contains(&plan.name()) {
        return Err(exchange());
    }
    plan.children().into_iter().try_for_each(check_node)
}

/// Whether every row of a join that collects its left side comes from a row on its right. Rows of the left side alone are
/// known only after all partitions of the right side.
pub fn keeps_right(join: JoinType) -> bool {
    matches!(join, JoinType::Inner | JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark)
}
