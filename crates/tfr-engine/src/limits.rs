//! Limits between sorts, windows and aggregations.
//!
//! The engine's rule that places sorts moves the limit of a sort down with it, even below aggregations that require
//! the order: `SELECT DISTINCT ... ORDER BY ... LIMIT` lost rows (apache/datafusion#24927). While that rule runs,
//! limits are therefore separate operators, and no sort passes them. The rule for limits, which runs later, merges
//! them into sorts again.
//!
//! The limit at which an aggregation may stop is valid only for the plan at that time: once its input is sorted, the
//! aggregation fails (apache/datafusion#25350).

use std::fmt;
use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::OrderingRequirements;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_optimizer::output_requirements::OutputRequirementExec;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties as _, InputDistributionRequirements,
    PlanProperties,
};
use datafusion_common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion_common::{Result, internal_err};

/// Runs the engine's rule with limits as separate operators.
#[derive(Debug, Default)]
pub struct LimitsInPlace(EnsureRequirements);

impl PhysicalOptimizerRule for LimitsInPlace {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan =
            plan.transform_up(|plan| Ok(in_place(&plan).map_or_else(|| Transformed::no(plan), Transformed::yes)))?;
        let plan = self.0.optimize(plan.data, config)?;
        let plan = plan.transform_up(|plan| match plan.downcast_ref::<Limit>() {
            Some(Limit(limit)) => Ok(Transformed::yes(Arc::clone(limit))),
            None => Ok(Transformed::no(plan)),
        })?;
        Ok(plan.data)
    }

    fn name(&self) -> &str {
        "limits_in_place"
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Returns an operator with its limit as a separate operator.
fn in_place(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let rows = plan.fetch()?;
    if let Some(output) = plan.downcast_ref::<OutputRequirementExec>() {
        // The limit is below.
        let order = plan.required_input_ordering().pop().flatten();
        let distribution = plan.input_distribution_requirements().into_per_child().pop()?;
        return Some(Arc::new(OutputRequirementExec::new(output.input(), order, distribution, None)));
    }
    if plan.is::<GlobalLimitExec>() || plan.is::<LocalLimitExec>() {
        return Some(Arc::new(Limit(Arc::clone(plan))));
    }
    if !(plan.is::<SortExec>() || plan.is::<SortPreservingMergeExec>() || plan.is::<CoalescePartitionsExec>()) {
        return None;
    }
    let all = plan.with_fetch(None)?;
    let order = all.output_ordering().cloned();
    let limit: Arc<dyn ExecutionPlan> = if all.output_partitioning().partition_count() == 1 {
        let mut limit = GlobalLimitExec::new(all, 0, Some(rows));
        limit.set_required_ordering(order);
        Arc::new(limit)
    } else {
        let mut limit = LocalLimitExec::new(all, rows);
        limit.set_required_ordering(order);
        Arc::new(limit)
    };
    Some(Arc::new(Limit(limit)))
}

/// Replaces a limit. Hides its maximum number of rows, and requires the order of its input.
#[derive(Debug)]
struct Limit(Arc<dyn ExecutionPlan>);

impl DisplayAs for Limit {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Limit")
    }
}

impl ExecutionPlan for Limit {
    fn name(&self) -> &str {
        "Limit"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.0.children()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.0.input_distribution_requirements()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.0.children().into_iter().map(|input| Some(input.output_ordering()?.clone().into())).collect()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.0.benefits_from_input_partitioning()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self(replace_children_if_necessary(Arc::clone(&self.0), children)?)))
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        internal_err!("a limit was executed while its plan was optimized")
    }
}

/// Removes the limits from aggregations that can no longer stop at them.
///
/// Replaces the engine's rule that makes aggregations keep the first groups of an order. That rule did so even below
/// windows, which require all groups (apache/datafusion#25066).
#[derive(Debug)]
pub struct WholeAggregates;

impl PhysicalOptimizerRule for WholeAggregates {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(|plan| match plan.downcast_ref::<AggregateExec>() {
            Some(aggregate)
                if aggregate.limit_options().is_some() && !aggregate.is_unordered_unfiltered_group_by_distinct() =>
            {
                Ok(Transformed::yes(Arc::new(aggregate.with_new_limit_options(None)) as Arc<dyn ExecutionPlan>))
            }
            _ => Ok(Transformed::no(plan)),
        })?;
        Ok(plan.data)
    }

    fn name(&self) -> &str {
        "whole_aggregates"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
