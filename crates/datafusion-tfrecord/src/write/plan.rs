//! [`plan_write`]: from a plan that yields rows to a plan that leaves shards.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_tfrecord::Mapping;
use datafusion_common::stats::Precision;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{DataFusionError, Result};
use datafusion_datasource::file_scan_config::FileScanConfig;
use datafusion_datasource::source::DataSourceExec;
use datafusion_execution::config::SessionConfig;
use datafusion_execution::object_store::ObjectStoreUrl;
use datafusion_physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion_physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion_physical_plan::{ExecutionPlan, ExecutionPlanProperties, StatisticsArgs, StatisticsContext};
use datafusion_session::Session;
use tfrecord_shards::{Sharding, check_prefix, preflight};

use super::commit::TfRecordCommitExec;
use super::deal::DealExec;
use super::exec::{ShardAssignment, TfRecordWriteExec};
use super::options::WriteOptions;
use super::target::WriteTarget;
use super::upload::Place;
use crate::directory::{GuardedSource, Location};
use crate::error::{ErrorKind, encode_error, shards_error};

/// Plans to write the rows of `input` as one set of shards.
///
/// `input` may be a finished plan, or one that the optimizer still goes over: every node says what it needs of those
/// below. Nothing is written and no file is made before the plan runs.
///
/// # Errors
/// - A column has no feature to go to: [`arrow_tfrecord::Error`].
/// - The target may not be written: [`tfrecord_shards::Error`]; of one in an object store, that is told when the plan runs,
///   unless the session does not have the store ([`ErrorKind::NoStore`]) or its uploads ([`ErrorKind::NoUploads`]).
/// - An ordered query with a number of shards, whose number of rows nobody knows:
///   [`ErrorKind::UnknownRowCount`].
pub fn plan_write(
    input: Arc<dyn ExecutionPlan>,
    options: WriteOptions,
    session: &dyn Session,
) -> Result<Arc<TfRecordCommitExec>> {
    let mapping = Mapping::try_new(&input.schema(), &options.mapping).map_err(encode_error)?;
    check_prefix(&options.prefix).map_err(shards_error)?;
    let mut inputs = Vec::new();
    match &options.out {
        WriteTarget::Local(out) => {
            inputs = local_inputs(&input, &options.inputs);
            preflight(out, options.mode, &inputs).map_err(shards_error)?;
        }
        WriteTarget::Store(out) => {
            // What lies there is looked at when the plan runs.
            Place::find(out, session.runtime_env(), session.config())?;
            refuse_overlap(out, &input, &options.inputs)?;
        }
    }
    let (input, assignment) = if options.ordered && has_order(&input) {
        let rows = range_rows(&input, &options)?;
        let ordering = input.output_ordering().cloned();
        let input = match &ordering {
            Some(ordering) if input.output_partitioning().partition_count() > 1 => {
                Arc::new(SortPreservingMergeExec::new(ordering.clone(), input))
            }
            _ => input,
        };
        (input, ShardAssignment::InOrder { ordering: ordering.map(Into::into), rows })
    } else {
        let input = spread(input, session)?;
        match options.sharding {
            Sharding::Count(shards) => (Arc::new(DealExec::new(input, shards)) as _, ShardAssignment::Dealt),
            _ => (input, ShardAssignment::Cut),
        }
    };
    let options = Arc::new(options);
    let mut plan: Arc<dyn ExecutionPlan> =
        Arc::new(TfRecordWriteExec::new(input, Arc::clone(&options), Arc::new(mapping), assignment));
    if plan.output_partitioning().partition_count() > 1 {
        plan = Arc::new(CoalescePartitionsExec::new(plan));
    }
    Ok(Arc::new(TfRecordCommitExec::new(plan, options, inputs)))
}

/// Session settings under which a plan gives every partition the same rows in the same order, in every run. Shards are
/// then equal whenever the rows and the number of partitions are, as far as the query itself is deterministic: joins
/// and aggregations are not, unless they are ordered.
///
/// - A file stays with its partition, instead of going to whichever is idle.
/// - Batches are not handed out in turn to gain parallelism after the scan. Encoding, which costs the most, uses all
///   threads whatever the number of partitions.
pub fn reproducible(mut config: SessionConfig) -> SessionConfig {
    let options = config.options_mut();
    options.execution.enable_file_stream_work_stealing = false;
    options.optimizer.enable_round_robin_repartition = false;
    config
}

/// Whether there is an order to keep: several partitions without one have none among them.
fn has_order(input: &Arc<dyn ExecutionPlan>) -> bool {
    input.output_ordering().is_some() || input.output_partitioning().partition_count() == 1
}

/// The number of rows that ranges need.
fn range_rows(input: &Arc<dyn ExecutionPlan>, options: &WriteOptions) -> Result<Option<u64>> {
    let Sharding::Count(shards) = options.sharding else {
        return Ok(options.expected_rows);
    };
    if options.expected_rows.is_some() {
        return Ok(options.expected_rows);
    }
    match StatisticsContext::new().compute(input.as_ref(), &StatisticsArgs::new())?.num_rows {
        Precision::Exact(rows) => Ok(Some(rows as u64)),
        // One shard takes all rows, however many.
        _ if shards.get() == 1 => Ok(None),
        _ => Err(ErrorKind::UnknownRowCount { shards: shards.get() }.into()),
    }
}

/// A scan with fewer partitions than the session wants, split by ranges of its files. The optimizer does this below
/// operators that compute; to write is the work here, and it is not at the table when a finished plan comes in.
pub fn spread(input: Arc<dyn ExecutionPlan>, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
    let config = session.config_options();
    let partitions = config.execution.target_partitions;
    if !config.optimizer.repartition_file_scans || input.output_partitioning().partition_count() >= partitions {
        return Ok(input);
    }
    Ok(input.repartitioned(partitions, config)?.unwrap_or(input))
}

/// The local files that a plan reads, and the local directories of which it, or one of `inputs`, reads all that is in
/// them: what the output of the plan must not overlap.
pub fn local_inputs(plan: &Arc<dyn ExecutionPlan>, inputs: &[String]) -> Vec<PathBuf> {
    let mut found: BTreeSet<PathBuf> = inputs.iter().filter_map(|input| input_directory(input)).collect();
    // The closure does not fail.
    let _ = plan.apply(|node| {
        let scan = node.downcast_ref::<DataSourceExec>().and_then(|source| source.data_source().downcast_ref());
        if let Some(scan) = scan.filter(|scan: &&FileScanConfig| scan.object_store_url.as_str().starts_with("file:")) {
            let files = scan.file_groups.iter().flat_map(|group| group.files());
            found.extend(files.map(|file| local_path(&file.object_meta.location)));
            let guarded = scan.file_source().downcast_ref::<GuardedSource>();
            let locations = guarded.into_iter().flat_map(GuardedSource::locations);
            found.extend(locations.filter_map(|location| input_directory(location)));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found.into_iter().collect()
}

/// Refuses a target in an object store that a plan reads from, or that lies in what one of `inputs` reads as a whole, now
/// and in later runs.
fn refuse_overlap(out: &Location, plan: &Arc<dyn ExecutionPlan>, inputs: &[String]) -> Result<()> {
    let target = &out.literal;
    let overlap = |input: String| -> DataFusionError {
        shards_error(tfrecord_shards::ErrorKind::Overlap { path: out.to_string().into(), input: input.into() }.into())
    };
    for input in inputs {
        let Ok(location) = Location::parse(input) else { continue };
        let takes_all = !location.is_pattern() || location.depth().is_none();
        let is_same_store = location.object_store() == out.object_store();
        let prefix = &location.prefix;
        if is_same_store && takes_all && (target.prefix_matches(prefix) || prefix.prefix_matches(target)) {
            return Err(overlap(location.to_string()));
        }
    }
    let mut read = None;
    // The closure does not fail.
    let _ = plan.apply(|node| {
        let scan = node.downcast_ref::<DataSourceExec>().and_then(|source| source.data_source().downcast_ref());
        if let Some(scan) = scan.filter(|scan: &&FileScanConfig| scan.object_store_url == *out.object_store()) {
            let mut files = scan.file_groups.iter().flat_map(|group| group.files());
            read = files.find(|file| file.object_meta.location.prefix_matches(target)).cloned();
        }
        Ok(if read.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    read.map_or(Ok(()), |file| Err(overlap(out.file_names().name(&file.object_meta.location))))
}

/// The local directory of which an input, as the user wrote it, reads all that is in it, now and in later runs: one that
/// it names, or the part of a pattern before `**`.
fn input_directory(input: &str) -> Option<PathBuf> {
    let location = Location::parse(input).ok()?;
    let is_local = *location.object_store() == ObjectStoreUrl::local_filesystem();
    let takes_all = !location.is_pattern() || location.depth().is_none();
    let directory = local_path(&location.prefix);
    (is_local && takes_all && directory.is_dir()).then_some(directory)
}

/// A path of the local file system, which the engine knows without the first `/`.
fn local_path(path: &object_store::path::Path) -> PathBuf {
    PathBuf::from(format!("/{path}"))
}
