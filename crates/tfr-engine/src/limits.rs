//! Limits between sorts, windows and aggregations.
//!
//! The engine's rule that places sorts moves the limit of a sort down with it, even below aggregations that require
//! the order: `SELECT DISTINCT ... ORDER BY ... LIMIT` lost rows (apache/datafusion#24927). While that rule runs,
//! limits are therefore separate operators, and no sort passes them. The rule for limits, which runs later, merges
//! them into sorts again.
//!
//! Limits, and the query as a whole, take the order of a sort below other operators, such as a projection without the
//! sort's keys. The engine's rule dropped such a sort, or divided its rows among partitions. While it runs, the operators
//! above the sort have one partition and keep its order.
//!
//! The limit at which an aggregation may stop is valid only for the plan at that time: once its input is sorted, the
//! aggregation fails (apache/datafusion#25350).
//!
//! Upstream: apache/datafusion#24927, #24932, #25066, #25349, #25350. Held by `tests/slt/answers.slt`: A limit stays above the groups

use std::fmt;
use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::OrderingRequirements;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_optimizer::output_requirements::OutputRequirementExec;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties as _,
    InputDistributionRequirements, PlanProperties,
};
use datafusion_common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion_common::{Result, internal_err};

use crate::orders::OF_AN_ORDER;

/// Runs the engine's rule with limits as separate operators.
#[derive(Debug, Default)]
pub struct LimitsInPlace(EnsureRequirements);

impl PhysicalOptimizerRule for LimitsInPlace {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan =
            plan.transform_up(|plan| Ok(in_place(&plan).map_or_else(|| Transformed::no(plan), Transformed::yes)))?;
        let (plan, _) = with_orders(plan.data, true)?;
        let plan = self.0.optimize(plan, config)?;
        let plan = plan.transform_up(|plan| match plan.downcast_ref::<InPlace>() {
            Some(InPlace { plan, .. }) => Ok(Transformed::yes(match plan.downcast_ref::<GlobalLimitExec>() {
                Some(limit) if is_without_limit(limit) => Arc::clone(limit.input()),
                _ => Arc::clone(plan),
            })),
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
        return Some(Arc::new(InPlace { plan: Arc::clone(plan), has_order: false }));
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
    Some(Arc::new(InPlace { plan: limit, has_order: false }))
}

/// Replaces the operators that take the order of a sort below them, and those in between. `wanted` is whether the order
/// of the plan has an effect. Returns the plan, and whether it has the order of a sort.
fn with_orders(plan: Arc<dyn ExecutionPlan>, wanted: bool) -> Result<(Arc<dyn ExecutionPlan>, bool)> {
    let is_sort = plan.is::<SortExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<OutputRequirementExec>() && plan.required_input_ordering().iter().any(Option::is_some);
    let follows = wanted && !is_sort && keeps_order(plan.as_ref());
    let depends = plan.is::<InPlace>() || depends_on_order(plan.as_ref());
    let mut has_order = false;
    let mut children = Vec::new();
    for (index, child) in plan.children().into_iter().enumerate() {
        let (child, is_ordered) = with_orders(Arc::clone(child), index == 0 && (follows || depends))?;
        has_order |= is_ordered;
        children.push(child);
    }
    let plan = replace_children_if_necessary(plan, children)?;
    if is_sort && wanted {
        if plan.is::<OutputRequirementExec>() {
            return Ok((plan, true));
        }
        let all = Arc::new(GlobalLimitExec::new(plan, 0, None));
        return Ok((Arc::new(InPlace { plan: all, has_order: true }), true));
    }
    Ok(match has_order && !plan.is::<InPlace>() {
        true => (Arc::new(InPlace { plan, has_order: true }), follows),
        false => (plan, has_order && follows),
    })
}

/// Whether a limit, which keeps its place for a sort, selects all rows.
fn is_without_limit(limit: &GlobalLimitExec) -> bool {
    limit.skip() == 0 && limit.fetch().is_none()
}

/// Whether an operator returns the rows of its first input in their order, if that has one partition.
fn keeps_order(plan: &dyn ExecutionPlan) -> bool {
    let keeps = plan.is::<UnnestExec>() || plan.maintains_input_order().first() == Some(&true);
    let inputs = plan.children().len();
    let requires = plan.required_input_ordering().first().is_some_and(Option::is_some);
    plan.is::<InPlace>() || keeps && !requires && (inputs == 1 || plan.is::<ScalarSubqueryExec>())
}

/// Whether the rows of an operator depend on the order of its input, and it requires none.
fn depends_on_order(plan: &dyn ExecutionPlan) -> bool {
    if plan.is::<WindowAggExec>() || plan.is::<BoundedWindowAggExec>() {
        return plan.required_input_ordering().iter().all(Option::is_none);
    }
    let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else { return false };
    matches!(aggregate.mode(), AggregateMode::Partial | AggregateMode::Single)
        && aggregate
            .aggr_expr()
            .iter()
            .any(|function| function.order_bys().is_empty() && OF_AN_ORDER.contains(&function.fun().name()))
}

/// Replaces a limit, or an operator whose input has the order of a sort. Hides the maximum number of rows, and requires
/// the order of the input.
#[derive(Debug)]
struct InPlace {
    plan: Arc<dyn ExecutionPlan>,
    /// Whether the input has an order, which several partitions would lose.
    has_order: bool,
}

impl DisplayAs for InPlace {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InPlace")
    }
}

impl ExecutionPlan for InPlace {
    fn name(&self) -> &str {
        "InPlace"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.plan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.plan.children()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let requirements = self.plan.input_distribution_requirements();
        if !self.has_order {
            return requirements;
        }
        let mut requirements = requirements.into_per_child();
        if let Some(first) = requirements.first_mut() {
            *first = Distribution::SinglePartition;
        }
        InputDistributionRequirements::new(requirements)
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.plan.children().into_iter().map(|input| Some(input.output_ordering()?.clone().into())).collect()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false; self.plan.children().len()]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        match self.has_order {
            true => vec![false; self.plan.children().len()],
            false => self.plan.benefits_from_input_partitioning(),
        }
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = replace_children_if_necessary(Arc::clone(&self.plan), children)?;
        Ok(Arc::new(Self { plan, has_order: self.has_order }))
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        internal_err!("an operator was executed while its plan was optimized")
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
