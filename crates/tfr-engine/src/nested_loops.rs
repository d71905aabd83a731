//! Joins without an equality that exceed the memory limit.
//!
//! If the engine's operator may write temporary files, it spills one side and reads the other several times. It lost
//! and repeated rows, and an input that cannot be read twice caused an error or a panic (apache/datafusion#24745,
//! #22641, #24676). It therefore runs without temporary files, and exceeding the limit is an error. Its inputs may
//! still spill.
//!
//! Upstream: apache/datafusion#22641, #24676, #24745. Held by the tests below.

use std::fmt;
use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties, Statistics,
    StatisticsArgs,
};
use datafusion_common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion_common::{Result, internal_err};

/// Keeps nested loop joins in memory.
#[derive(Debug)]
pub struct NestedLoopsInMemory;

impl PhysicalOptimizerRule for NestedLoopsInMemory {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(|plan| {
            if !plan.is::<NestedLoopJoinExec>() {
                return Ok(Transformed::no(plan));
            }
            Ok(Transformed::yes(Arc::new(NestedLoopsInMemoryExec::try_new(plan)?) as Arc<dyn ExecutionPlan>))
        })?;
        Ok(plan.data)
    }

    fn name(&self) -> &str {
        "nested_loops_in_memory"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A nested loop join that must not spill.
#[derive(Debug)]
pub struct NestedLoopsInMemoryExec {
    /// The join as shown in plans.
    join: Arc<dyn ExecutionPlan>,
    /// The join that is executed.
    executed: Arc<dyn ExecutionPlan>,
}

impl NestedLoopsInMemoryExec {
    fn try_new(join: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let inputs = join.children().into_iter().map(|input| Arc::new(WithDisk(Arc::clone(input))) as _).collect();
        Ok(Self { executed: replace_children_if_necessary(Arc::clone(&join), inputs)?, join })
    }
}

impl DisplayAs for NestedLoopsInMemoryExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.join.fmt_as(t, f)
    }
}

impl ExecutionPlan for NestedLoopsInMemoryExec {
    fn name(&self) -> &str {
        self.join.name()
    }

    /// To whoever asks for the kind of join, it is one.
    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.join.as_ref())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.join.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.join.children()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.join.input_distribution_requirements()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.join.maintains_input_order()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.join.apply_expressions(f)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::try_new(replace_children_if_necessary(Arc::clone(&self.join), children)?)?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let no_disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
        let runtime = RuntimeEnvBuilder::from_runtime_env(&context.runtime_env()).with_disk_manager_builder(no_disk);
        let in_memory = TaskContext::new(
            context.task_id(),
            context.session_id(),
            context.session_config().clone().with_extension(Arc::new(Outer(Arc::clone(&context)))),
            context.scalar_functions().clone(),
            context.higher_order_functions().clone(),
            context.aggregate_functions().clone(),
            context.window_functions().clone(),
            runtime.build_arc()?,
        );
        self.executed.execute(partition, Arc::new(in_memory))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.executed.metrics()
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.join.child_stats_requests(partition)
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        self.join.statistics_from_inputs(inputs, args)
    }
}

/// The context outside a nested loop join.
#[derive(Debug)]
struct Outer(Arc<TaskContext>);

/// An input of a nested loop join, which may spill.
#[derive(Debug)]
struct WithDisk(Arc<dyn ExecutionPlan>);

impl DisplayAs for WithDisk {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_as(t, f)
    }
}

impl ExecutionPlan for WithDisk {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.0]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) if children.is_empty() => Ok(Arc::new(Self(input))),
            _ => internal_err!("WithDisk has one input"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        match context.session_config().get_extension::<Outer>() {
            Some(outer) => self.0.execute(partition, Arc::clone(&outer.0)),
            None => internal_err!("an input of a join was executed without it"),
        }
    }
}
