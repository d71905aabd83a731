//! Filters that are pushed through columns with the same name.
//!
//! The engine's physical rule finds the columns of a filter by their names. Below a join there may be two of a name, and it
//! took the wrong one: a filter for one side of a join removed rows of the other. Plans are cut above the steps where a name
//! does not tell which column is meant; no filter is pushed past a cut. The logical rule, which knows tables, has pushed the
//! filters of the query before.

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

/// The engine's rule, between the cuts of a plan.
#[derive(Debug)]
pub struct UnambiguousFilterPushdown {
    rule: FilterPushdown,
    name: &'static str,
}

impl UnambiguousFilterPushdown {
    /// Filters of the query.
    pub fn new() -> Self {
        Self { rule: FilterPushdown::new(), name: "unambiguous_filter_pushdown" }
    }

    /// Filters that come about while the query runs.
    pub fn new_post_optimization() -> Self {
        Self { rule: FilterPushdown::new_post_optimization(), name: "unambiguous_filter_pushdown_post" }
    }

    /// Optimizes all below a step that must not be passed.
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
            let cut: Arc<dyn ExecutionPlan> = Arc::new(Cut(self.below(plan, config)?));
            Ok(Transformed::new(cut, true, TreeNodeRecursion::Jump))
        })?;
        let optimized = self.rule.optimize(cut.data, config)?;
        if !cuts {
            return Ok(optimized);
        }
        let whole = optimized.transform_up(|plan| match plan.downcast_ref::<Cut>() {
            Some(Cut(inner)) => Ok(Transformed::yes(Arc::clone(inner))),
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

/// Whether a step may take the wrong column for one of a filter above it.
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
        // A join of any other kind passes filters by their names alone.
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

/// Stands for a part of a plan while the rest is optimized.
#[derive(Debug)]
struct Cut(Arc<dyn ExecutionPlan>);

impl DisplayAs for Cut {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cut")
    }
}

impl ExecutionPlan for Cut {
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
