//! [`FragmentExec`]: a fragment as an operator that travels to other processes.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array as _, RecordBatch, UInt32Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{exec_err, internal_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, Partitioning, PlanProperties, ReplaceChildrenOptions,
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};

use super::fragments::Fragments;
use super::input::{Exchange, ExchangeFailure, FragmentInput};
use super::worker::{Part, Step, Worker};
use crate::mapping::Vocabularies;

/// Computes partitions of a fragment of a plan, which every process plans again.
///
/// The first input has one row for each partition, its number: an engine that divides the partitions among processes
/// divides these rows, too. The other inputs are the exchanges at the end of the fragment.
#[derive(Debug)]
pub struct FragmentExec {
    head: Head,
    /// The plan, for [`Worker`].
    plan: Arc<[u8]>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
    /// `None` in processes that only pass the operator on.
    worker: Option<Arc<Worker>>,
}

/// What of the operator is encoded next to its plan.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    step: Step,
    /// Whether all partitions of an input are read for each partition.
    gathers: Vec<bool>,
}

/// An encoded [`FragmentExec`], apart from its inputs and its schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EncodedFragment {
    /// The operator, as JSON.
    pub head: Vec<u8>,
    /// The plan that all fragments of a job share.
    pub plan: Arc<[u8]>,
}

impl FragmentExec {
    fn new(
        head: Head,
        plan: Arc<[u8]>,
        schema: SchemaRef,
        inputs: Vec<Arc<dyn ExecutionPlan>>,
        worker: Option<Arc<Worker>>,
    ) -> Result<Self> {
        if inputs.len() != head.gathers.len() + 1 {
            return internal_err!("a fragment with {} inputs, expected {}", inputs.len(), head.gathers.len() + 1);
        }
        let Some(numbers) = inputs.first() else { return internal_err!("a fragment without inputs") };
        let partitions = numbers.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Self { head, plan, inputs, properties: Arc::new(properties), worker })
    }

    /// Builds the plan of a job that writes the root of `fragments`, or sorts its rows.
    pub(super) fn write(fragments: &Fragments, plan: &Arc<[u8]>, tasks: usize) -> crate::error::Result<Arc<Self>> {
        let inputs = Self::inputs(fragments, Fragments::ROOT, tasks, plan)?;
        Ok(Arc::new(Self::of(Step::Write, inputs, Arc::clone(plan), counts())?))
    }

    /// Builds the plan of a job that collects the vocabularies of the rows of `fragments`.
    pub(super) fn values(fragments: &Fragments, plan: &Arc<[u8]>) -> crate::error::Result<Arc<dyn ExecutionPlan>> {
        let partitions = fragments.get(Fragments::ROOT)?.plan.output_partitioning().partition_count();
        let inputs = Self::inputs(fragments, Fragments::ROOT, partitions, plan)?;
        let values = Self::of(Step::Values, inputs, Arc::clone(plan), Vocabularies::schema())?;
        Ok(Arc::new(CoalescePartitionsExec::new(Arc::new(values))))
    }

    /// Builds the plan of a job that writes shards of sorted rows.
    pub(super) fn write_sorted(plan: &Arc<[u8]>, tasks: usize) -> crate::error::Result<Arc<Self>> {
        let inputs = (vec![numbers(tasks)?], Vec::new());
        Ok(Arc::new(Self::of(Step::WriteSorted, inputs, Arc::clone(plan), counts())?))
    }

    fn of(
        step: Step,
        (inputs, gathers): (Vec<Arc<dyn ExecutionPlan>>, Vec<bool>),
        plan: Arc<[u8]>,
        schema: SchemaRef,
    ) -> Result<Self> {
        Self::new(Head { step, gathers }, plan, schema, inputs, None)
    }

    /// Builds the plan of the rows of a fragment, which are exchanged or collected.
    pub(super) fn rows(
        fragments: &Fragments,
        number: usize,
        plan: &Arc<[u8]>,
    ) -> crate::error::Result<Arc<dyn ExecutionPlan>> {
        Self::rows_of(fragments, number, plan, true)
    }

    fn rows_of(
        fragments: &Fragments,
        number: usize,
        plan: &Arc<[u8]>,
        is_exchanged: bool,
    ) -> crate::error::Result<Arc<dyn ExecutionPlan>> {
        let fragment = fragments.get(number)?;
        let partitions = fragment.plan.output_partitioning().partition_count();
        let inputs = Self::inputs(fragments, number, partitions, plan)?;
        let step = Step::Rows { fragment: number, is_exchanged };
        Ok(Arc::new(Self::of(step, inputs, Arc::clone(plan), fragment.plan.schema())?))
    }

    #[expect(clippy::type_complexity, reason = "the inputs and whether they are gathered")]
    fn inputs(
        fragments: &Fragments,
        number: usize,
        partitions: usize,
        plan: &Arc<[u8]>,
    ) -> crate::error::Result<(Vec<Arc<dyn ExecutionPlan>>, Vec<bool>)> {
        let mut inputs = vec![numbers(partitions)?];
        let mut gathers = Vec::new();
        for input in &fragments.get(number)?.inputs {
            let mut from = Vec::new();
            for &below in &input.from {
                from.push(Self::rows_of(fragments, below, plan, input.exchange != Exchange::Union)?);
            }
            inputs.push(exchanged(input.exchange, &input.node, from)?);
            gathers.push(matches!(input.exchange, Exchange::Gather | Exchange::Share));
        }
        Ok((inputs, gathers))
    }

    /// Encodes the operator, apart from its inputs and its schema.
    ///
    /// # Errors
    /// The operator cannot be serialized, which is a bug.
    pub fn encode(&self) -> Result<EncodedFragment> {
        let head = serde_json::to_vec(&self.head).map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(EncodedFragment { head, plan: Arc::clone(&self.plan) })
    }

    /// Decodes an operator. Without `worker`, it can only be passed on.
    ///
    /// # Errors
    /// It was encoded by another release.
    pub fn decode(
        encoded: EncodedFragment,
        schema: SchemaRef,
        inputs: Vec<Arc<dyn ExecutionPlan>>,
        worker: Option<Arc<Worker>>,
    ) -> Result<Self> {
        let head = serde_json::from_slice(&encoded.head).map_err(|error| DataFusionError::External(Box::new(error)))?;
        Self::new(head, encoded.plan, schema, inputs, worker)
    }
}

impl DisplayAs for FragmentExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.head.step {
            Step::Rows { fragment, .. } => write!(f, "FragmentExec: rows of fragment {fragment}"),
            Step::Values => write!(f, "FragmentExec: vocabularies"),
            Step::Write => write!(f, "FragmentExec: write"),
            Step::WriteSorted => write!(f, "FragmentExec: write sorted rows"),
        }
    }
}

impl ExecutionPlan for FragmentExec {
    fn name(&self) -> &'static str {
        "FragmentExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    /// An engine that gives each process some partitions must give it all of the inputs that are gathered.
    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let of_input = |gathers: &bool| match gathers {
            true => Distribution::SinglePartition,
            false => Distribution::UnspecifiedDistribution,
        };
        let numbers = [Distribution::UnspecifiedDistribution];
        InputDistributionRequirements::new(numbers.into_iter().chain(self.head.gathers.iter().map(of_input)).collect())
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.inputs.len()]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (head, plan, worker) = (self.head.clone(), Arc::clone(&self.plan), self.worker.clone());
        Ok(Arc::new(Self::new(head, plan, self.schema(), children, worker)?))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(worker) = self.worker.clone() else {
            return internal_err!("this process passes fragments on, and does not compute them");
        };
        let [numbers, inputs @ ..] = self.inputs.as_slice() else { return internal_err!("a fragment without inputs") };
        if self.head.step.is_exchanged() && !inputs.is_empty() {
            worker.check_attempt(&context)?;
        }
        let numbers = numbers.execute(partition, Arc::clone(&context))?;
        let (plan, step, inputs, schema) = (Arc::clone(&self.plan), self.head.step, inputs.to_vec(), self.schema());
        let expected = Arc::clone(&schema);
        let rows = async move {
            let number = number_of(numbers).await?;
            let failure = ExchangeFailure::default();
            let input = |rows| FragmentInput::new(rows, Arc::clone(&context), (number, partition), failure.clone());
            let inputs = inputs.into_iter().map(input).collect();
            worker.compute(Part { plan, step, partition: number, inputs, failure, schema: expected })
        };
        let rows = stream::once(rows).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows.boxed())))
    }
}

/// Returns a plan whose partitions have one row each: the number of the partition.
fn numbers(partitions: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = Arc::new(Schema::new(vec![Field::new("partition", DataType::UInt32, false)]));
    let batch = |number: usize| {
        let Ok(number) = u32::try_from(number) else { return exec_err!("too many partitions: {partitions}") };
        let numbers = UInt32Array::from(vec![number]);
        Ok(vec![RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(numbers)])?])
    };
    let rows = (0..partitions).map(batch).collect::<Result<Vec<_>>>()?;
    Ok(MemorySourceConfig::try_new_exec(&rows, Arc::clone(&schema), None)?)
}

/// Reads the number of a partition.
async fn number_of(mut numbers: SendableRecordBatchStream) -> Result<usize> {
    while let Some(batch) = numbers.next().await {
        let batch = batch?;
        let column = batch.columns().first().and_then(|column| column.as_any().downcast_ref::<UInt32Array>());
        match column {
            Some(numbers) if numbers.len() == 1 => return Ok(numbers.value(0) as usize),
            Some(numbers) if numbers.is_empty() => {}
            _ => return internal_err!("expected the number of one partition"),
        }
    }
    internal_err!("the number of a partition is missing")
}

/// The columns of what a job reports.
fn counts() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("rows", DataType::UInt64, false)]))
}

/// Returns an exchange that any engine knows.
fn exchanged(
    kind: Exchange,
    planned: &Arc<dyn ExecutionPlan>,
    mut from: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    match (kind, from.len()) {
        (Exchange::Union, _) => UnionExec::try_new(from),
        (Exchange::Hash, 1) => {
            let partitioning = planned.output_partitioning().clone();
            Ok(Arc::new(RepartitionExec::try_new(from.swap_remove(0), partitioning)?))
        }
        (Exchange::Gather | Exchange::Share, 1) => Ok(Arc::new(CoalescePartitionsExec::new(from.swap_remove(0)))),
        (_, inputs) => internal_err!("an exchange with {inputs} inputs"),
    }
}
