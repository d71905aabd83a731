//! [`BoundBatches`]: inserts [`BoundedBatchesExec`] where batches are created, and where they are retained.

use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec, SortMergeJoinExec, SymmetricHashJoinExec,
};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::partial_sort::PartialSortExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion_common::tree_node::{TreeNode as _, TreeNodeRecursion};

use super::Bounds;
use super::batches::{BoundedBatchesExec, Reader};
use super::functions::BoundedFunction;
use super::projection::HalvingProjectionExec;
use super::size::{Most, varies};
use super::windows::PartitionedWindowExec;

/// Limits the batches of a plan.
#[derive(Debug)]
pub struct BoundBatches(pub Bounds);

impl PhysicalOptimizerRule for BoundBatches {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.below(plan)?;
        Ok(self.bounded(plan, Reader::PassesOn, usize::MAX))
    }

    fn name(&self) -> &str {
        "bound_batches"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl BoundBatches {
    /// Returns the operator with bounded inputs.
    fn below(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let reader = Reader::of(plan.as_ref());
        let children = plan.children();
        if children.is_empty() {
            return Ok(plan);
        }
        let rows = self.rows_beside(constant_bytes(plan.as_ref())?);
        let bounded = children.into_iter().map(|child| Ok(self.bounded(self.below(Arc::clone(child))?, reader, rows)));
        let bounded = bounded.collect::<Result<Vec<_>>>()?;
        let plan = replace_children_if_necessary(plan, bounded)?;
        if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
            let bytes = usize::try_from(self.0.batch).unwrap_or(usize::MAX);
            return Ok(Arc::new(PartitionedWindowExec::new(Arc::new(window.clone()), bytes)));
        }
        match plan.downcast_ref::<ProjectionExec>() {
            Some(projection) if calls_bounded_function(projection)? => {
                Ok(Arc::new(HalvingProjectionExec::new(projection.clone())))
            }
            _ => Ok(plan),
        }
    }

    /// Returns the maximum rows of a batch if an operator copies `constants` bytes for each row.
    fn rows_beside(&self, constants: u64) -> usize {
        match constants {
            0 => usize::MAX,
            bytes => usize::try_from(self.0.batch / bytes).unwrap_or(usize::MAX).max(1),
        }
    }

    /// Returns the input of an operator in batches of at most `rows` rows.
    fn bounded(&self, input: Arc<dyn ExecutionPlan>, reader: Reader, rows: usize) -> Arc<dyn ExecutionPlan> {
        let varies = input.schema().fields().iter().any(|field| varies(field.data_type()));
        match rows < usize::MAX || varies && (reader != Reader::PassesOn || makes_batches(input.as_ref())) {
            true => {
                let most = Most { bytes: self.0.batch, rows, row_bytes: self.0.value };
                Arc::new(BoundedBatchesExec::new(input, most, reader))
            }
            false => input,
        }
    }
}

/// Minimum bytes of a constant that is counted. Long lists and CASE have many shorter ones, which are rarely copied
/// for each row.
pub(super) const LONG_CONSTANT: usize = 1 << 10;

/// Returns the bytes of an operator's long constants, which may be copied for each row, as a column or in results.
fn constant_bytes(plan: &dyn ExecutionPlan) -> Result<u64> {
    let mut bytes = 0_u64;
    plan.apply_expressions(&mut |expr| {
        expr.apply(|expr: &Arc<dyn PhysicalExpr>| {
            let literal = expr.downcast_ref::<Literal>();
            let size = literal.map_or(0, |literal| literal.value().size());
            if size > LONG_CONSTANT {
                bytes = bytes.saturating_add(size as u64);
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(bytes)
}

/// Whether an operator creates batches, rather than only passing on those of its inputs.
fn makes_batches(plan: &dyn ExecutionPlan) -> bool {
    let hands_on = plan.downcast_ref::<CoalescePartitionsExec>().is_some()
        || plan.downcast_ref::<CooperativeExec>().is_some()
        || plan.downcast_ref::<GlobalLimitExec>().is_some()
        || plan.downcast_ref::<LocalLimitExec>().is_some()
        || plan.downcast_ref::<UnionExec>().is_some()
        || plan.downcast_ref::<InterleaveExec>().is_some();
    let has_one_row = plan.downcast_ref::<EmptyExec>().is_some() || plan.downcast_ref::<PlaceholderRowExec>().is_some();
    !hands_on && !has_one_row
}

impl Reader {
    /// Returns what an operator does with the batches of its inputs. Those that retain them reserve memory for everything
    /// that they hold.
    fn of(plan: &dyn ExecutionPlan) -> Self {
        let retains = plan.downcast_ref::<PartialSortExec>().is_some()
            || plan.downcast_ref::<SortPreservingMergeExec>().is_some()
            || plan.downcast_ref::<HashJoinExec>().is_some()
            || plan.downcast_ref::<SymmetricHashJoinExec>().is_some()
            || plan.downcast_ref::<SortMergeJoinExec>().is_some()
            || plan.downcast_ref::<PiecewiseMergeJoinExec>().is_some()
            || plan.is::<NestedLoopJoinExec>()
            || plan.downcast_ref::<CrossJoinExec>().is_some()
            || plan.downcast_ref::<WindowAggExec>().is_some()
            || plan.downcast_ref::<BoundedWindowAggExec>().is_some();
        match plan.downcast_ref::<SortExec>() {
            Some(sort) if sort.fetch().is_none() => Self::Sorts,
            None if !retains => Self::PassesOn,
            _ => Self::Retains,
        }
    }
}

fn calls_bounded_function(projection: &ProjectionExec) -> Result<bool> {
    let mut found = false;
    for expr in projection.expr() {
        expr.expr.apply(|expr: &Arc<dyn PhysicalExpr>| {
            let call = expr.downcast_ref::<ScalarFunctionExpr>();
            found |= call.is_some_and(|call| call.fun().inner().is::<BoundedFunction>());
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
    }
    Ok(found)
}
