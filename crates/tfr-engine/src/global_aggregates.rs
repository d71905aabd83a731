//! Filters above aggregations that return a row for no input rows, or whose keys are volatile.
//!
//! The engine pushes a filter below an aggregation if its columns are group keys. A filter without columns, such as
//! `HAVING EXISTS (SELECT ...)` or the condition of `JOIN ... ON false`, passes that test. But an aggregation without
//! keys, or with an empty grouping set, returns a row even for no input rows: `SELECT count(*) FROM t HAVING false`
//! returned a 0.
//!
//! A filter on a volatile key, such as `random() < 0.5`, would see other values below the aggregation
//! (apache/datafusion#25415).
//!
//! Upstream: apache/datafusion#11748, #25415. Held by `tests/slt/answers.slt`: An aggregation gives a row of no rows

use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion_common::Result;
use datafusion_common::tree_node::Transformed;
use datafusion_expr::utils::enumerate_grouping_sets;
use datafusion_expr::{Aggregate, Expr, GroupingSet, LogicalPlan};

/// Pushes filters down, but not below such aggregations.
#[derive(Debug, Default)]
pub struct FiltersAboveGlobalAggregates(PushDownFilter);

impl OptimizerRule for FiltersAboveGlobalAggregates {
    fn name(&self) -> &str {
        "filters_above_global_aggregates"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if let LogicalPlan::Filter(_) = &plan
            && let LogicalPlan::Aggregate(aggregate) = below_filters(&plan)
            && (aggregate.group_expr.iter().any(Expr::is_volatile) || gives_row_of_no_rows(aggregate)?)
        {
            return Ok(Transformed::no(plan));
        }
        self.0.rewrite(plan, config)
    }
}

/// Returns the input of one or several filters. The engine merges them before it pushes them down, and the result may
/// have no columns: `k = 1` and `k = 2` become `false`.
fn below_filters(mut plan: &LogicalPlan) -> &LogicalPlan {
    while let LogicalPlan::Filter(filter) = plan {
        plan = &filter.input;
    }
    plan
}

fn gives_row_of_no_rows(aggregate: &Aggregate) -> Result<bool> {
    let sets = enumerate_grouping_sets(aggregate.group_expr.clone())?;
    Ok(match sets.as_slice() {
        [] => true,
        [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => sets.iter().any(Vec::is_empty),
        [Expr::GroupingSet(GroupingSet::Rollup(_) | GroupingSet::Cube(_))] => true,
        _ => false,
    })
}
