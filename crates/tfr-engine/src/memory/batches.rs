//! [`BoundedBatchesExec`]: splits batches by bytes, and compacts those that are retained.

use std::fmt;
use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, Statistics, StatisticsArgs,
};
use datafusion_common::internal_err;
use datafusion_common::tree_node::TreeNodeRecursion;
use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::functions::{Found, ResultTooLarge};
use super::size::{Most, compacted, cut, shared_bytes};

/// What an operator does with the batches that it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    PassesOn,
    /// Retains them. They should then hold only the memory that their rows need.
    Retains,
    /// Retains them, and merges their rows into batches of the engine's number of rows. It counts shared values once, and
    /// copies them for each row when it spills: 3000 rows of one text of 1 MB took 2 GB. More of them than the memory limit
    /// are rejected.
    Sorts,
}

/// Outputs the rows of its input in batches within the limits.
#[derive(Debug)]
pub struct BoundedBatchesExec {
    input: Arc<dyn ExecutionPlan>,
    most: Most,
    reader: Reader,
}

impl BoundedBatchesExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, most: Most, reader: Reader) -> Self {
        Self { input, most, reader }
    }
}

impl DisplayAs for BoundedBatchesExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BoundedBatchesExec: bytes={}, ", self.most.bytes)?;
        if self.most.rows < usize::MAX {
            write!(f, "rows={}, ", self.most.rows)?;
        }
        write!(f, "compact={}", self.reader != Reader::PassesOn)
    }
}

impl ExecutionPlan for BoundedBatchesExec {
    fn name(&self) -> &'static str {
        "BoundedBatchesExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) if children.is_empty() => Ok(Arc::new(Self::new(input, self.most, self.reader))),
            _ => internal_err!("BoundedBatchesExec has one input"),
        }
    }

    fn repartitioned(&self, partitions: usize, config: &ConfigOptions) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let input = self.input.repartitioned(partitions, config)?;
        Ok(input.map(|input| Arc::new(Self::new(input, self.most, self.reader)) as _))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batch_rows = context.session_config().batch_size();
        let input = self.input.execute(partition, context)?;
        let (schema, most, reader) = (input.schema(), self.most, self.reader);
        let mut shared = 0_u64;
        let batches = input
            .map(move |batch| -> Result<_> {
                let pieces = cut(batch?, most).map_err(|error| DataFusionError::External(Box::new(error)))?;
                if reader == Reader::Sorts {
                    let bytes = pieces.iter().map(|piece| shared_bytes(piece, batch_rows, most.row_bytes / 4));
                    shared = bytes.fold(shared, u64::saturating_add);
                    if shared > most.row_bytes {
                        return Err(ResultTooLarge::new("", Found::Sorted, shared, most.row_bytes).into());
                    }
                }
                Ok(stream::iter(
                    pieces
                        .into_iter()
                        .map(move |piece| Ok(if reader == Reader::PassesOn { piece } else { compacted(piece)? })),
                ))
            })
            .try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches.boxed())))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        match inputs {
            [input] => Ok(Arc::clone(input)),
            _ => internal_err!("BoundedBatchesExec has one input"),
        }
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(parent_filters, &self.children())
    }

    fn handle_child_pushdown_result(
        &self,
        _phase: FilterPushdownPhase,
        child_pushdown_result: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(FilterPushdownPropagation::if_all(child_pushdown_result))
    }
}
