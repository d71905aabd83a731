//! [`check`]: whether the partitions of a plan can run in different processes. [`gathering_operator`]: why there is
//! only one.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode};
use datafusion::physical_plan::{Distribution, ExecutionPlan, ExecutionPlanProperties};

use crate::error::{Result, TaskError};
use crate::query::{has_limit, is_volatile};

/// Operators that make the rows of a partition from those of the same partition of their inputs, or from files.
pub const BY_PARTITION: &[&str] = &[
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

/// Aggregates whose value does not depend on the order of rows.
const OF_ANY_ORDER: &[&str] = &[
    "approx_distinct",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "grouping",
    "max",
    "median",
    "min",
    "stddev",
    "stddev_pop",
    "sum",
    "var",
    "var_pop",
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
        return if is_divided(plan) { check_order(plan) } else { Ok(()) };
    }
    let exchange = || TaskError::Exchange { node: plan.name().to_owned() };
    // Their left side is collected by each partition.
    let is_joined = if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        *join.partition_mode() == PartitionMode::CollectLeft && keeps_right(*join.join_type())
    } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        keeps_right(*join.join_type())
    } else {
        plan.is::<CrossJoinExec>()
    };
    if !is_joined && !BY_PARTITION.contains(&plan.name()) {
        return Err(exchange());
    }
    plan.children().into_iter().try_for_each(check_node)
}

/// Returns the name of the operator that makes one partition of several: the one that needs all of their rows. `None` if
/// no operator has several.
pub fn gathering_operator(plan: &Arc<dyn ExecutionPlan>) -> Option<&str> {
    let required = plan.input_distribution_requirements();
    let gathers = |child| matches!(required.child_distribution(child), Some(Distribution::SinglePartition));
    plan.children().into_iter().enumerate().find_map(|(index, child)| {
        if child.output_partitioning().partition_count() > 1 {
            return Some(plan.name());
        }
        // The engine gathers the rows below the operator that needs them.
        gathering_operator(child).map(|name| {
            let by_child = child.children().iter().any(|input| input.output_partitioning().partition_count() > 1);
            if by_child && gathers(index) { plan.name() } else { name }
        })
    })
}

/// Whether an operator of a plan has several partitions, so that the order of the rows of the plan may differ each time.
fn is_divided(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.output_partitioning().partition_count() > 1 || plan.children().into_iter().any(is_divided)
}

/// Checks that a plan has the same rows each time, although those that it reads come in another order.
fn check_order(plan: &Arc<dyn ExecutionPlan>) -> Result<(), TaskError> {
    if depends_on_order(plan) {
        return Err(TaskError::Reordered { node: plan.name().to_owned() });
    }
    plan.children().into_iter().try_for_each(check_order)
}

/// Whether the rows of an operator may depend on the order of rows that are equal for it, apart from the last digits of
/// sums.
pub fn depends_on_order(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let functions = plan.downcast_ref::<AggregateExec>().map(AggregateExec::aggr_expr).unwrap_or_default();
    // By name, because an operator of tfr-engine takes the place of `WindowAggExec`.
    matches!(plan.name(), "WindowAggExec" | "BoundedWindowAggExec")
        || plan.fetch().is_some()
        || functions.iter().any(|function| !OF_ANY_ORDER.contains(&function.fun().name()))
}

/// Whether every row of a join that collects its left side comes from a row on its right. Rows of the left side alone are
/// known only after all partitions of the right side.
pub fn keeps_right(join: JoinType) -> bool {
    matches!(join, JoinType::Inner | JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark)
}
