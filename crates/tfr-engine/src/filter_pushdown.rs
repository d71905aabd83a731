//! Filters pushed down through columns with the same name.
//!
//! The engine's physical rule finds the columns of a filter by name. Below a join there may be two columns of a name,
//! and the rule took the wrong one: a filter for one side of a join removed rows of the other. Plans are therefore cut
//! above operators where a name is ambiguous, and no filter is pushed past a cut. The logical rule, which knows the
//! tables, has already pushed the filters of the query.
//!
//! Upstream: apache/datafusion#25259. Held by `tests/slt/answers.slt`: A filter of one side of a join, where both sides have a column of that name.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow_schema::Schema;
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{ReplaceChildrenOptions, replace_children_if_necessary};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion_common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion_common::{Result, internal_err};

/// Applies the engine's rule between the cuts of a plan.
#[derive(Debug)]
pub struct UnambiguousFilterPushdown {
    rule: FilterPushdown,
    name: &'static str,
}

impl UnambiguousFilterPushdown {
    /// Creates the rule for the filters of the query.
    pub fn new() -> Self {
        Self { rule: FilterPushdown::new(), name: "unambiguous_filter_pushdown" }
    }

    /// Creates the rule for filters that are created while the query runs.
    pub fn new_post_optimization() -> Self {
        Self { rule: FilterPushdown::new_post_optimization(), name: "unambiguous_filter_pushdown_post" }
    }

    /// Optimizes the inputs of an operator that filters must not pass.
    fn below(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let children = plan.children().into_iter().map(|child| self.optimize(Arc::clone(child), config));
        let children = children.collect::<Result<Vec<_>>>()?;
        replace_children_if_necessary(plan, children)
    }
}

impl PhysicalOptimizerRule for UnambiguousFilterPushdown {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let mut cuts = false;
        let cut = plan.transform_down(|plan| {
            if !is_ambiguous(&plan) {
                return Ok(Transformed::no(plan));
            }
            cuts = true;
            let cut: Arc<dyn ExecutionPlan> = Arc::new(CutExec(self.below(plan, config)?));
            Ok(Transformed::new(cut, true, TreeNodeRecursion::Jump))
        })?;
        let optimized = self.rule.optimize(cut.data, config)?;
        if !cuts {
            return Ok(optimized);
        }
        let whole = optimized.transform_up(|plan| match plan.downcast_ref::<CutExec>() {
            Some(CutExec(inner)) => Ok(Transformed::yes(Arc::clone(inner))),
            None => Ok(Transformed::no(plan)),
        })?;
        Ok(whole.data)
    }

    fn name(&self) -> &str {
        self.name
    }

    fn schema_check(&self) -> bool {
        self.rule.schema_check()
    }
}

/// Whether a filter pushed into an operator may get the wrong column.
fn is_ambiguous(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if plan.is::<ProjectionExec>() {
        return has_equal_names(&plan.schema());
    }
    let children = plan.children();
    if children.iter().any(|child| has_equal_names(&child.schema())) {
        return true;
    }
    match plan.downcast_ref::<AggregateExec>() {
        Some(aggregate) => aggregate.group_expr().expr().iter().any(|(key, name)| !is_column(key, name)),
        // Other joins pass on filters by column name only.
        None => children.len() > 1 && !plan.is::<HashJoinExec>() && has_equal_names(&plan.schema()),
    }
}

fn has_equal_names(schema: &Schema) -> bool {
    let mut names = HashSet::with_capacity(schema.fields().len());
    !schema.fields().iter().all(|field| names.insert(field.name()))
}

fn is_column(key: &Arc<dyn PhysicalExpr>, name: &str) -> bool {
    key.downcast_ref::<Column>().is_some_and(|column| column.name() == name)
}

/// Replaces a subplan while the rest is optimized.
#[derive(Debug)]
struct CutExec(Arc<dyn ExecutionPlan>);

impl DisplayAs for CutExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cut")
    }
}

impl ExecutionPlan for CutExec {
    fn name(&self) -> &str {
        "Cut"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        internal_err!("a cut plan was executed")
    }
}
