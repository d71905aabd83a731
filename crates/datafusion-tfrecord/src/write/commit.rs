//! [`TfRecordCommitExec`]: the root of a write plan. Publishes either all shards or none.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_schema::SchemaRef;
use arrow_tfrecord::Mapping;
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::{DataFusionError, Result, assert_eq_or_internal_err, internal_datafusion_err, internal_err};
use datafusion_execution::TaskContext;
use datafusion_physical_expr::EquivalenceProperties;
use datafusion_physical_plan::execution_plan::{EmissionType, EvaluationType, SchedulingType};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, Partitioning, PhysicalExpr, PlanProperties, ReplaceChildrenOptions,
    SendableRecordBatchStream, replace_children_if_necessary, validate_child_count,
};
use futures::{FutureExt, TryStreamExt, stream};
use log::warn;
use tfrecord_shards::{
    ErrorKind, LocalCommit, Manifest, OpenShards, RejectedRows, RunId, SNAPSHOT_RUN, SaveMode, SetDescription,
    ShardGroup, ShardPlace, Sidecar, StagedShard,
};
use tfrecord_sidecars::EmittedSet;
use tfrecord_sidecars::snapshot::{DATASET_SPEC_NAME, METADATA_NAME};
use tfrecord_sidecars::stats::Statistics;

use super::describe::SetForm;
use super::exec::{COUNT_SCHEMA, TfRecordWriteExec, count_batch};
use super::expected::ExpectedSet;
use super::observe::snapshot;
use super::options::{SplitOptions, WriteOptions};
use super::rejects::Rejects;
use super::report::PartitionReport;
use super::run::{Run, describe_panic, with_run};
use super::running::{Begun, Running, Runs, blocking};
use super::sealing::Sealing;
use super::sorted::sharding_of;
use super::staging::Staging;
use super::target::WriteTarget;
use super::upload::{UploadSet, UploadTarget};
use crate::error::{shards_error, sidecar_error};
use tfr_files::Findings;

/// Runs the write nodes below it, collects their staged shards, and publishes them as one set. Yields one row,
/// `count`: the number of records.
///
/// Nothing runs before the stream is polled. If the query fails or the stream is dropped, all staged data is removed
/// once the last job has stopped; [`settled`](Self::settled) waits for that.
#[derive(Debug)]
pub struct TfRecordCommitExec {
    input: Arc<dyn ExecutionPlan>,
    options: Arc<WriteOptions>,
    /// The columns of the query.
    rows: SchemaRef,
    /// Local files that the plan reads. The set must not replace them.
    inputs: Vec<PathBuf>,
    properties: Arc<PlanProperties>,
    /// The outcome of the last successful run.
    outcome: Arc<Mutex<Option<WriteOutcome>>>,
    runs: Runs,
}

/// The outcome of a run.
#[derive(Debug, Clone)]
pub enum WriteOutcome {
    /// The set was published. The manifest describes the whole set, including shards of earlier runs that it was
    /// appended to.
    Written(Arc<Manifest>),
    /// Nothing was written, because the target is not empty and the mode is [`SaveMode::Ignore`].
    Ignored {
        /// Up to three names of existing files.
        found: Vec<String>,
    },
}

impl TfRecordCommitExec {
    pub(super) fn new(
        input: Arc<dyn ExecutionPlan>,
        options: Arc<WriteOptions>,
        rows: SchemaRef,
        inputs: Vec<PathBuf>,
    ) -> Self {
        let properties = Arc::new(Self::compute_properties(&input));
        Self { input, options, rows, inputs, properties, outcome: Arc::default(), runs: Runs::default() }
    }

    fn compute_properties(input: &Arc<dyn ExecutionPlan>) -> PlanProperties {
        PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&COUNT_SCHEMA)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            input.boundedness(),
        )
        .with_evaluation_type(EvaluationType::Eager)
        .with_scheduling_type(SchedulingType::Cooperative)
    }

    /// Returns the write options.
    pub fn options(&self) -> &WriteOptions {
        &self.options
    }

    /// Returns the mapping of columns to features.
    pub fn mapping(&self) -> Option<Arc<Mapping>> {
        write_node(&self.input, |write| Arc::clone(write.mapping()))
    }

    /// Returns the manifest of the published set. Available once the stream has yielded its row or, if the stream was
    /// dropped, once the run has [`settled`](Self::settled).
    pub fn summary(&self) -> Option<Arc<Manifest>> {
        match self.outcome()? {
            WriteOutcome::Written(manifest) => Some(manifest),
            WriteOutcome::Ignored { .. } => None,
        }
    }

    /// Returns the outcome of the last successful run. Available at the same time as [`summary`](Self::summary).
    pub fn outcome(&self) -> Option<WriteOutcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Inspects the contents of a target in an object store, which planning does not.
    ///
    /// # Errors
    /// The target is one that a run would reject before it reads a row.
    pub async fn inspect_target(&self, context: &TaskContext) -> Result<()> {
        if let WriteTarget::Store(location) = &self.options.out {
            let place = UploadTarget::find(location, &context.runtime_env(), context.session_config())?;
            place.inspect(self.options.mode).await?;
        }
        Ok(())
    }

    /// Returns this plan with another plan of the rows, in place of that of [`task_input`](Self::task_input). It must have
    /// the same columns and partitions.
    ///
    /// # Errors
    /// An operator above the rows cannot be rebuilt, which is a bug.
    pub fn with_task_input(&self, input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let below = Arc::clone(&self.input).transform_down(|node| {
            if !node.is::<TfRecordWriteExec>() {
                return Ok(Transformed::no(node));
            }
            let write = replace_children_if_necessary(node, vec![Arc::clone(&input)])?;
            Ok(Transformed::new(write, true, TreeNodeRecursion::Jump))
        })?;
        Ok(Self::new(below.data, Arc::clone(&self.options), Arc::clone(&self.rows), self.inputs.clone()))
    }

    pub(super) fn commit_task(&self) -> Result<CommitTask> {
        self.write_node(|write| CommitTask {
            write_partitions: write.properties().output_partitioning().partition_count(),
            source_partitions: write.source_partitions(),
            expected_rows: write.expected_rows(),
            mapping: Arc::clone(write.mapping()),
            input: Arc::clone(&self.input),
            options: Arc::clone(&self.options),
            rows: Arc::clone(&self.rows),
            writes_together: write.writes_together(),
            inputs: self.inputs.clone(),
            runs: self.runs.clone(),
            outcome: Arc::clone(&self.outcome),
        })
    }

    /// Applies `inspect` to the write node.
    pub(super) fn write_node<T>(&self, inspect: impl Fn(&TfRecordWriteExec) -> T) -> Result<T> {
        let found = write_node(&self.input, inspect);
        found.ok_or_else(|| internal_datafusion_err!("TfRecordCommitExec without a TfRecordWriteExec below it"))
    }

    /// Counts a run that [`settled`](Self::settled) waits for.
    pub(super) fn start_run(&self) -> Running {
        self.runs.start()
    }

    /// Waits until every run of this plan has published its set or removed its staged data. Must be awaited before
    /// the process exits, if the stream was dropped or has failed.
    pub async fn settled(&self) {
        self.runs.settled().await;
    }
}

/// Applies `inspect` to the write node below.
fn write_node<T>(plan: &Arc<dyn ExecutionPlan>, inspect: impl Fn(&TfRecordWriteExec) -> T) -> Option<T> {
    let mut found = None;
    let visit = plan.apply(|node| {
        found = node.downcast_ref::<TfRecordWriteExec>().map(&inspect);
        Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    visit.ok().and(found)
}

impl DisplayAs for TfRecordCommitExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let out = &self.options.out;
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => write!(f, "TfRecordCommitExec: out={out}"),
            DisplayFormatType::TreeRender => write!(f, "out={out}"),
        }
    }
}

impl ExecutionPlan for TfRecordCommitExec {
    fn name(&self) -> &'static str {
        "TfRecordCommitExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        validate_child_count!(self, children);
        let input = children.swap_remove(0);
        Ok(Arc::new(Self {
            properties: Arc::new(Self::compute_properties(&input)),
            input,
            options: Arc::clone(&self.options),
            rows: Arc::clone(&self.rows),
            inputs: self.inputs.clone(),
            outcome: Arc::clone(&self.outcome),
            runs: self.runs.clone(),
        }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        assert_eq_or_internal_err!(partition, 0, "TfRecordCommitExec has one partition");
        let partitions = self.input.output_partitioning().partition_count();
        assert_eq_or_internal_err!(partitions, 1, "TfRecordCommitExec needs one input partition");
        let task = self.commit_task()?;
        let count = async move {
            // A panic of the query would unwind through the caller; report it as an error instead.
            let rows = AssertUnwindSafe(task.run(&context))
                .catch_unwind()
                .await
                .unwrap_or_else(|panic| Err(crate::ErrorKind::Panic { message: describe_panic(&*panic) }.into()))?;
            count_batch(rows)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&COUNT_SCHEMA), stream::once(count))))
    }
}

/// One run, from the empty staging directory to the published set.
pub(super) struct CommitTask {
    input: Arc<dyn ExecutionPlan>,
    options: Arc<WriteOptions>,
    rows: SchemaRef,
    inputs: Vec<PathBuf>,
    mapping: Arc<Mapping>,
    pub(super) write_partitions: usize,
    source_partitions: usize,
    /// Whether write partitions write each other's rows.
    writes_together: bool,
    expected_rows: Option<u64>,
    runs: Runs,
    outcome: Arc<Mutex<Option<WriteOutcome>>>,
}

impl CommitTask {
    /// Runs the plan, and returns the number of rows written.
    async fn run(self, context: &TaskContext) -> Result<u64> {
        let run = match self.begin(context).await? {
            Begun::Run(run) => run,
            Begun::Ignored(found) => {
                *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(WriteOutcome::Ignored { found });
                return Ok(0);
            }
        };
        let reports = self.collect_reports(&run, context).await?;
        run.end_shared();
        let findings = Findings::of(context.session_config());
        for finding in findings.iter().flat_map(|findings| findings.unreported()) {
            warn!("{finding}");
        }
        let damaged = findings.map_or(0, |findings| findings.damaged_records());
        self.publish(&run, reports, damaged).await
    }

    /// Publishes what the write partitions have staged, and returns the number of rows. Reading them has passed over this
    /// number of damaged records.
    pub(super) async fn publish(
        &self,
        run: &Arc<Run>,
        mut reports: BTreeMap<u32, PartitionReport>,
        damaged_records: u64,
    ) -> Result<u64> {
        let rows = self.check(&reports)?;
        let rejects = self.check_rejects(run, rows)?;
        let description = SetDescription { damaged_records, rejects, ..self.describe()? };
        let statistics = merged(reports.values_mut().filter_map(|report| report.statistics.take()))?;
        let mut staged: Vec<_> = reports.into_values().flat_map(|report| report.shards).collect();
        let missing = self.stage_missing(run, &staged).await?;
        staged.extend(missing);
        let (mapping, options) = (Arc::clone(&self.mapping), Arc::clone(&self.options));
        let sidecars = move |manifest: &Manifest| {
            let expected = options.expected.as_ref();
            expected.map(|expected| expected.check(manifest)).transpose()?;
            if let Some(snapshot) = snapshot(&mapping, &options)? {
                let elements = manifest.totals.rows / snapshot.records_per_element() as u64;
                let file = |path: &str, content| Sidecar { path: path.to_owned(), content };
                // The time is recorded in the manifest only, so that equal rows give equal files.
                let metadata = snapshot.metadata(SNAPSHOT_RUN, 0, elements);
                return Ok(vec![file(DATASET_SPEC_NAME, snapshot.dataset_spec()), file(METADATA_NAME, metadata)]);
            }
            let location = expected.map_or_else(|| options.out.to_string(), ExpectedSet::location);
            let set = EmittedSet {
                location,
                mapping: &mapping,
                statistics: statistics.as_ref(),
                files: manifest.shards.iter().map(Into::into).collect(),
                container: Some(manifest.container()),
            };
            let files = options.emit.files(&set)?;
            if let Some(expected) = expected {
                expected.check_sidecars(&files);
            }
            Ok(files)
        };
        let replaces = self.options.mode == SaveMode::OverwritePartitions && run.staging.current().is_some();
        let outcome = Arc::clone(&self.outcome);
        let keep = move |manifest: Manifest| {
            let written = WriteOutcome::Written(Arc::new(manifest));
            *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(written);
        };
        // Once it has begun, it goes on when the stream is no longer polled; the set is published all the same.
        let rejects = self.options.rejects.clone();
        let published = run.compute(move |run| {
            let Some(commit) = &run.staging.commit else { return internal_err!("a task does not publish") };
            let table = rejects.as_ref().map(|rejects| &rejects.table);
            // First, so that no set is there without its rejected rows.
            table.map(|table| table.publish()).transpose()?;
            match commit.publish(staged, description, Box::new(sidecars)) {
                Ok(manifest) => keep(manifest),
                Err(error) => {
                    if let Some(table) = table {
                        table.withdraw();
                    }
                    return Err(ExpectedSet::difference_in(&error).map_or_else(|| shards_error(error), Into::into));
                }
            }
            if let Some(table) = table {
                table.keep();
            }
            Ok(())
        });
        match published.await {
            Err(error) if self.options.mode == SaveMode::Ignore => {
                let found = found_instead(&error).ok_or(error)?;
                *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(WriteOutcome::Ignored { found });
                Ok(0)
            }
            published => published.map(|()| {
                if rows == 0 && replaces {
                    let out = &self.options.out;
                    warn!("{out}: no partition is replaced, for there are no rows");
                }
                rows
            }),
        }
    }

    /// Refuses to describe a growing set by its new rows alone, and warns of files that will be removed.
    fn note_stale(&self, current: &Manifest) -> Result<()> {
        check_appended(&self.options, current)?;
        let stale: Vec<_> = current.describing_sidecars().collect();
        if !stale.is_empty() {
            let (out, stale) = (&self.options.out, stale.join(", "));
            warn!(
                "{out}: {stale} will be removed, for the rows that are added are not in them; describe the set to write them again"
            );
        }
        Ok(())
    }

    /// Stages the shards that belong to the set although they received no rows. When appending, they already exist.
    async fn stage_missing(&self, run: &Arc<Run>, staged: &[StagedShard]) -> Result<Vec<StagedShard>> {
        // Appending no rows adds no shards.
        if run.staging.current().is_some() && staged.iter().all(|shard| shard.rows == 0) {
            return Ok(Vec::new());
        }
        let mut sealing = Sealing::new(run, 1);
        let mut empty = OpenShards::new(sealing.destination(), 0, run.framing);
        for MissingShard { sequence, group, index, total } in missing_shards(&self.options, staged) {
            let place = ShardPlace { group: &group, index, total };
            empty.open_at(sequence, place).map_err(shards_error)?;
            sealing.seal(run, empty.take_before(usize::MAX), || {}).await?;
        }
        sealing.finish().await
    }

    /// Creates the staging directory and the threads.
    pub(super) async fn begin(&self, context: &TaskContext) -> Result<Begun<Arc<Run>>> {
        let begun = self.begin_run(context, &self.describe()?).await?;
        if let Begun::Run(run) = &begun {
            if let Some(current) = run.staging.current() {
                self.note_stale(current)?;
            }
            if let Some(Rejects { table, .. }) = self.options.rejects.clone() {
                let begun = run.wait_for_disk(move |_| table.begin());
                begun.await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
            }
        }
        Ok(begun)
    }

    async fn begin_run(&self, context: &TaskContext, description: &SetDescription) -> Result<Begun<Arc<Run>>> {
        let (options, running) = (Arc::clone(&self.options), self.runs.start());
        let out = match &options.out {
            WriteTarget::Store(location) => {
                let begun = UploadSet::begin(location, &options, description, context, running).await?;
                return Ok(match begun {
                    Begun::Run(set) => Begun::Run(Run::begin(Staging::uploads(set), &options, None)?),
                    Begun::Ignored(found) => Begun::Ignored(found),
                });
            }
            WriteTarget::Local(out) => out.clone(),
        };
        let (inputs, description) = (self.inputs.clone(), description.clone());
        blocking(move || {
            let commit = match LocalCommit::begin(&out, options.mode, RunId::new(), &inputs) {
                Err(error) if options.mode == SaveMode::Ignore => match error.kind() {
                    ErrorKind::NotEmpty { found, .. } => return Ok(Begun::Ignored(found.clone())),
                    _ => return Err(shards_error(error)),
                },
                begun => begun.map_err(shards_error)?,
            };
            if let Some(current) = commit.current() {
                current.check_append(&description, commit.out()).map_err(shards_error)?;
            }
            for leftover in commit.leftovers() {
                let state = if leftover.live { "still going on" } else { "killed" };
                warn!("{}: left by run {}, {state}", leftover.path.display(), leftover.run);
            }
            Run::begin(Staging::local(commit, &options), &options, Some(running)).map(Begun::Run)
        })
        .await
    }

    /// Runs the plan below, and returns what its write partitions have done.
    async fn collect_reports(&self, run: &Arc<Run>, context: &TaskContext) -> Result<BTreeMap<u32, PartitionReport>> {
        let mut rows = self.input.execute(0, Arc::new(with_run(context, run)))?;
        while rows.try_next().await?.is_some() {}
        Ok(run.take_reports())
    }

    /// Checks that every partition has reported, and that every input row is in a shard. Returns the number of rows.
    fn check(&self, reports: &BTreeMap<u32, PartitionReport>) -> Result<u64> {
        if reports.len() != self.write_partitions {
            return internal_err!("{} of {} write partitions have reported", reports.len(), self.write_partitions);
        }
        let (mut found, mut all_staged) = (0, 0);
        for (partition, report) in reports {
            let staged: u64 = report.shards.iter().map(|shard| shard.rows).sum();
            if !self.writes_together && staged != report.rows {
                let rows = report.rows;
                return internal_err!("write partition {partition} took {rows} rows and staged {staged}");
            }
            found += report.rows;
            all_staged += staged;
        }
        if all_staged != found {
            return internal_err!("the write partitions took {found} rows and staged {all_staged}");
        }
        match self.expected_rows {
            Some(expected) if expected != found => Err(crate::ErrorKind::RowCount { expected, found }.into()),
            _ => Ok(found),
        }
    }

    /// Checks that every row is either rejected or in one of the `written` records, and describes the rejected rows.
    fn check_rejects(&self, run: &Run, written: u64) -> Result<Option<RejectedRows>> {
        let Some(rejects) = &self.options.rejects else { return Ok(None) };
        let (checked, rejected) = (run.rejects.checked(), run.rejects.rejected());
        if checked != written + rejected {
            return internal_err!("{checked} rows were checked, {written} of them written and {rejected} rejected");
        }
        Ok(Some(RejectedRows::new(rejected, rejects.table.location())))
    }

    /// Describes the set in the manifest, apart from its shards.
    pub(super) fn describe(&self) -> Result<SetDescription> {
        let form = SetForm { mapping: &self.mapping, options: &self.options, rows: &self.rows };
        form.describe(self.source_partitions)
    }
}

/// Merges the statistics of partitions, in their order.
fn merged(partitions: impl IntoIterator<Item = Statistics>) -> Result<Option<Statistics>> {
    let mut partitions = partitions.into_iter();
    let Some(mut all) = partitions.next() else { return Ok(None) };
    for partition in partitions {
        all.merge(&partition).map_err(sidecar_error)?;
    }
    Ok(Some(all))
}

/// Returns the files that another run has put into the target, if that is why the set was not published.
fn found_instead(error: &DataFusionError) -> Option<Vec<String>> {
    let DataFusionError::External(error) = error else { return None };
    match error.downcast_ref::<tfrecord_shards::Error>()?.kind() {
        ErrorKind::NotEmpty { found, .. } => Some(found.clone()),
        ErrorKind::Superseded { .. } => Some(Vec::new()),
        _ => None,
    }
}

/// Refuses to describe a set that rows are appended to: its existing rows have not been seen.
pub(super) fn check_appended(options: &WriteOptions, current: &Manifest) -> Result<()> {
    if options.emit.describes() {
        let (out, set) = (options.out.to_string(), current.totals.rows);
        return Err(crate::ErrorKind::DescribesAppended { emit: options.emit.to_string(), out, rows: set }.into());
    }
    Ok(())
}

/// A shard that belongs to the set although it received no rows.
#[derive(Debug, PartialEq, Eq)]
struct MissingShard {
    /// Its number among the shards of partition 0.
    sequence: usize,
    group: ShardGroup,
    index: usize,
    total: usize,
}

/// Returns the shards that belong to the set although they received no rows: in each split, those up to the requested
/// number, and at least one. With partition columns, a directory exists only for its rows. Only a set without rows
/// then has such shards, in the directory of nulls.
fn missing_shards(options: &WriteOptions, staged: &[StagedShard]) -> Vec<MissingShard> {
    let follow_rows = !options.partition_by.is_empty() || matches!(options.splits, Some(SplitOptions::Column(_)));
    if follow_rows && !staged.is_empty() {
        return Vec::new();
    }
    let partition_values: Vec<_> = options.partition_by.iter().map(|column| (column.clone(), None)).collect();
    let group = |split| ShardGroup { partition_values: partition_values.clone(), split };
    let groups: Vec<ShardGroup> = match &options.splits {
        Some(split) if !split.names().is_empty() => {
            split.names().into_iter().map(|name| group(Some(name.to_owned()))).collect()
        }
        _ => vec![group(None)],
    };
    let first_free = staged.iter().map(|shard| shard.sequence as usize + 1).max().unwrap_or(0);
    let mut missing = Vec::new();
    for group in groups {
        let written: BTreeSet<_> =
            staged.iter().filter(|shard| shard.group == group).map(|shard| shard.sequence as usize).collect();
        let asked = if options.partition_by.is_empty() { sharding_of(&group, options).least_shards() } else { 1 };
        if written.len() >= asked {
            continue;
        }
        // A split has either all its shards or none, since the sort creates empty ones, too. Other shards are
        // numbered over the whole set.
        let indices = (0..asked).filter(|index| options.splits.is_some() || !written.contains(index));
        for index in indices {
            let sequence = if options.splits.is_some() { first_free + missing.len() } else { index };
            missing.push(MissingShard { sequence, group: group.clone(), index, total: asked });
        }
    }
    missing
}
