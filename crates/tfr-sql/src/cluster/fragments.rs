//! [`Fragments`]: a plan cut into parts whose partitions can run in different processes.

use std::sync::Arc;

use datafusion::error::{DataFusionError, Result as EngineResult};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning, replace_children_if_necessary};

use super::input::{Exchange, FragmentInput};
use crate::error::{Result, TaskError};
use crate::query::{has_limit, is_volatile};
use crate::tasks::partitions::{REPEATABLE, depends_on_order, keeps_right};

/// Operators of which each partition needs only the same partition of its inputs. Joins have rules of their own.
const BY_PARTITION: &[&str] = &[
    "AggregateExec",
    "BoundedBatchesExec",
    "BoundedWindowAggExec",
    "CoalesceBatchesExec",
    "CooperativeExec",
    "DataSourceExec",
    "EmptyExec",
    "FilterExec",
    "GlobalLimitExec",
    "HalvingProjectionExec",
    "LocalLimitExec",
    "PartialSortExec",
    "PlaceholderRowExec",
    "ProjectionExec",
    "SortExec",
    "SortExec(TopK)",
    "SortMergeJoinExec",
    "UnionExec",
    "UnnestExec",
    "WindowAggExec",
];

/// Operators that make each row from one row: in whichever order, the rows are the same.
const BY_ROW: &[&str] = &[
    "BoundedBatchesExec",
    "CoalesceBatchesExec",
    "CooperativeExec",
    "FilterExec",
    "HalvingProjectionExec",
    "ProjectionExec",
    "UnnestExec",
];

/// A part of a plan between exchanges.
#[derive(Debug)]
pub struct Fragment {
    /// Its operators. Those below the exchanges belong to other fragments.
    pub plan: Arc<dyn ExecutionPlan>,
    /// The exchanges in the plan, in the order of a traversal from the root.
    pub inputs: Vec<Input>,
}

/// An exchange at the end of a fragment.
#[derive(Debug)]
pub struct Input {
    /// Its kind.
    pub exchange: Exchange,
    /// The operator.
    pub node: Arc<dyn ExecutionPlan>,
    /// The numbers of the fragments below it.
    pub from: Vec<usize>,
}

/// A plan cut into fragments. Equal plans are cut equally, in every process.
#[derive(Debug, Default)]
pub struct Fragments(Vec<Fragment>);

impl Fragments {
    /// The number of the fragment with the root of the plan.
    pub const ROOT: usize = 0;

    /// Cuts a plan.
    ///
    /// # Errors
    /// An operator cannot run by partitions in different processes, or partitions computed again might have other rows.
    pub fn new(plan: &Arc<dyn ExecutionPlan>, logical: &LogicalPlan) -> Result<Self> {
        let mut fragments = Self::default();
        fragments.cut(plan)?;
        if fragments.0.len() == 1 && plan.output_partitioning().partition_count() == 1 {
            return Ok(fragments);
        }
        if is_volatile(logical)? {
            let reason = "an expression has another value each time, such as random()";
            return Err(TaskError::Varies { reason }.into());
        }
        if has_limit(logical, true)? {
            return Err(TaskError::Varies { reason: "LIMIT without ORDER BY chooses rows" }.into());
        }
        fragments.check_order()?;
        Ok(fragments)
    }

    /// Checks that partitions that run again have the rows that others have seen. After a failure, an engine computes only
    /// the lost partitions of a fragment again, but all those of the root. So what depends on the order of rows may be in
    /// the root or be read by it.
    fn check_order(&self) -> Result<(), TaskError> {
        let of_root = self.0.first().map(|root| root.inputs.as_slice()).unwrap_or_default();
        let read_by_root = |number: &usize| of_root.iter().any(|input| input.from.contains(number));
        for (number, fragment) in self.0.iter().enumerate().skip(1) {
            // Rows of files come in one order.
            if !fragment.inputs.is_empty() && !read_by_root(&number) {
                check_order(&fragment.plan)?;
            }
        }
        Ok(())
    }

    /// Returns a fragment by its number.
    pub fn get(&self, number: usize) -> Result<&Fragment, TaskError> {
        self.0.get(number).ok_or_else(|| TaskError::Plan {
            expected: format!("fragment {number}"),
            found: format!("{} fragments", self.0.len()),
        })
    }

    /// Adds the fragment that begins with this operator, and those below it. Returns its number.
    fn cut(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<usize, TaskError> {
        let number = self.0.len();
        self.0.push(Fragment { plan: Arc::clone(plan), inputs: Vec::new() });
        let mut inputs = Vec::new();
        self.collect(plan, &mut inputs)?;
        if let Some(fragment) = self.0.get_mut(number) {
            fragment.inputs = inputs;
        }
        Ok(number)
    }

    fn collect(&mut self, node: &Arc<dyn ExecutionPlan>, inputs: &mut Vec<Input>) -> Result<(), TaskError> {
        if let Some(exchange) = exchange(node)? {
            let from = node.children().into_iter().map(|child| self.cut(child)).collect::<Result<_, _>>()?;
            inputs.push(Input { exchange, node: Arc::clone(node), from });
            return Ok(());
        }
        check(node)?;
        for child in node.children() {
            if is_shared(node, child)? {
                let from = vec![self.cut(child)?];
                inputs.push(Input { exchange: Exchange::Share, node: Arc::clone(child), from });
            } else {
                self.collect(child, inputs)?;
            }
        }
        Ok(())
    }
}

impl Fragment {
    /// Returns the operators, with their inputs in place of the exchanges.
    pub fn with_inputs(&self, inputs: Vec<FragmentInput>) -> EngineResult<Arc<dyn ExecutionPlan>> {
        replace(&self.plan, None, &mut inputs.into_iter())
    }
}

/// Puts inputs in the place of the exchanges of a fragment, in the order in which they were collected.
fn replace(
    node: &Arc<dyn ExecutionPlan>,
    parent: Option<&Arc<dyn ExecutionPlan>>,
    inputs: &mut impl Iterator<Item = FragmentInput>,
) -> EngineResult<Arc<dyn ExecutionPlan>> {
    let external = |error| DataFusionError::External(Box::new(error));
    let is_shared = parent.map_or(Ok(false), |parent| is_shared(parent, node)).map_err(external)?;
    let exchange = if is_shared { Some(Exchange::Share) } else { exchange(node).map_err(external)? };
    if let Some(exchange) = exchange {
        let input = inputs.next().ok_or_else(|| DataFusionError::Internal("an exchange has no input".to_owned()))?;
        return input.in_place_of(Arc::clone(node), exchange);
    }
    let children =
        node.children().into_iter().map(|child| replace(child, Some(node), inputs)).collect::<EngineResult<_>>()?;
    replace_children_if_necessary(Arc::clone(node), children)
}

/// Whether an input of an operator is one partition that several partitions of the operator need, and that must be computed
/// once: each could otherwise find other rows first.
fn is_shared(node: &Arc<dyn ExecutionPlan>, input: &Arc<dyn ExecutionPlan>) -> Result<bool, TaskError> {
    let counts = [node, input].map(|plan| plan.output_partitioning().partition_count());
    if counts[0] == 1 || counts[1] > 1 {
        return Ok(false);
    }
    let mut input = input;
    loop {
        if exchange(input)?.is_some() {
            return Ok(input.fetch().is_some());
        }
        match input.children()[..] {
            [child] if BY_ROW.contains(&input.name()) && input.fetch().is_none() => input = child,
            _ => return has_exchange(input),
        }
    }
}

/// Returns the kind of an operator that separates fragments.
fn exchange(node: &Arc<dyn ExecutionPlan>) -> Result<Option<Exchange>, TaskError> {
    if let Some(repartition) = node.downcast_ref::<RepartitionExec>() {
        return match repartition.partitioning() {
            // The engine of the cluster computes the keys: it must not have to know our functions.
            Partitioning::Hash(keys, _)
                if !repartition.preserve_order() && keys.iter().all(|key| key.is::<Column>()) =>
            {
                Ok(Some(Exchange::Hash))
            }
            _ => Err(TaskError::Distribution { node: node.name().to_owned() }),
        };
    }
    if node.is::<CoalescePartitionsExec>() || node.is::<SortPreservingMergeExec>() {
        return Ok(Some(Exchange::Gather));
    }
    // Its partitions would not have the numbers of those below it.
    if node.is::<UnionExec>() && has_exchange(node)? {
        return Ok(Some(Exchange::Union));
    }
    Ok(None)
}

/// Checks the operators of a fragment, and the exchanges at its end.
fn check_order(node: &Arc<dyn ExecutionPlan>) -> Result<(), TaskError> {
    if depends_on_order(node) {
        return Err(TaskError::Reordered { node: node.name().to_owned() });
    }
    if exchange(node)?.is_some() {
        return Ok(());
    }
    for child in node.children() {
        if !is_shared(node, child)? {
            check_order(child)?;
        }
    }
    Ok(())
}

fn has_exchange(node: &Arc<dyn ExecutionPlan>) -> Result<bool, TaskError> {
    for child in node.children() {
        if exchange(child)?.is_some() || has_exchange(child)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Checks that each partition of an operator can be computed on its own.
fn check(node: &Arc<dyn ExecutionPlan>) -> Result<(), TaskError> {
    if node.children().is_empty() && !REPEATABLE.contains(&node.name()) {
        return Err(TaskError::Unrepeatable { what: format!("the rows of {}", node.name()) });
    }
    // Computed as a whole wherever it is needed, if all that it reads is there.
    if node.output_partitioning().partition_count() == 1 {
        for child in node.children() {
            let is_divided = child.output_partitioning().partition_count() > 1;
            if is_divided && (exchange(child)?.is_some() || has_exchange(child)?) {
                return Err(TaskError::Distribution { node: node.name().to_owned() });
            }
        }
        return Ok(());
    }
    let can_be_cut = if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        *join.partition_mode() != PartitionMode::CollectLeft || keeps_right(*join.join_type())
    } else if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        keeps_right(*join.join_type())
    } else {
        node.is::<CrossJoinExec>() || BY_PARTITION.contains(&node.name())
    };
    if can_be_cut { Ok(()) } else { Err(TaskError::Distribution { node: node.name().to_owned() }) }
}
