//! [`plan_write`]: builds a plan that writes the rows of another plan as shards.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_schema::{Fields, Schema, SchemaRef};
use arrow_tfrecord::Mapping;
use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion_common::{DataFusionError, Result};
use datafusion_datasource::file_scan_config::FileScanConfig;
use datafusion_datasource::source::DataSourceExec;
use datafusion_execution::config::SessionConfig;
use datafusion_execution::memory_pool::MemoryLimit;
use datafusion_physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion_physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion_physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_session::Session;
use rlimit::Resource;
use tfr_arrow::labels::without_labels;
use tfrecord_framing::{Compression, RecordFormat};
use tfrecord_shards::{Preflight, SaveMode, Sharding, check_prefix, preflight};
use tfrecord_sidecars::SidecarKind;

use super::commit::{TfRecordCommitExec, check_appended};
use super::describe::SetForm;
use super::exec::{ShardAssignment, TfRecordWriteExec, exact_rows};
use super::fitting::FittingRowsExec;
use super::observe::snapshot;
use super::options::{Layout, SplitOptions, WriteOptions};
use super::rejects::reject_schema;
use super::shards::memory_per_shard;
use super::sorted::{Arrangement, RecordOrder, check_row_splits};
use super::target::WriteTarget;
use super::upload::UploadTarget;
use crate::error::{ErrorKind, encode_error, refused, shards_error, sidecar_error};
use tfr_files::GuardedSource;
use tfr_stores::Location;

/// Plans to write the rows of `input` as one shard set.
///
/// `input` may be a finished plan, or one that is still to be optimized: every node states its requirements on its
/// input. Planning writes nothing and creates no files.
///
/// # Errors
/// - A column cannot be mapped to a feature: [`arrow_tfrecord::Error`].
/// - The target cannot be written: [`tfrecord_shards::Error`]. Targets in an object store are checked when the plan
///   runs, but planning fails if the session lacks the store ([`ErrorKind::NoStore`]) or its uploads
///   ([`ErrorKind::NoUploads`]).
/// - A column to partition or split by does not exist or has an unsuitable type: [`ErrorKind::NoColumn`],
///   [`ErrorKind::PartitionType`], [`ErrorKind::SplitKeyType`].
/// - No column is left for the records: [`ErrorKind::NoColumnsLeft`].
/// - Splits of exact numbers of rows are not possible: [`ErrorKind::RowSplits`], [`ErrorKind::RowSplitSizes`].
/// - An ordered query has a number of shards but an unknown number of rows: [`ErrorKind::UnknownRowCount`].
pub fn plan_write(
    input: Arc<dyn ExecutionPlan>,
    options: WriteOptions,
    session: &dyn Session,
) -> Result<Arc<TfRecordCommitExec>> {
    plan(input, options, session, Planning::Here)
}

/// Plans the tasks of a write that another process has planned, from the same rows and its options
/// ([`TfRecordCommitExec::task_input`]). The target is not inspected.
///
/// # Errors
/// As [`plan_write`].
pub fn plan_tasks(
    input: Arc<dyn ExecutionPlan>,
    options: WriteOptions,
    session: &dyn Session,
) -> Result<Arc<TfRecordCommitExec>> {
    plan(input, options, session, Planning::Elsewhere)
}

/// Where a write is planned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Planning {
    Here,
    /// In another process, which has inspected the target.
    Elsewhere,
}

fn plan(
    input: Arc<dyn ExecutionPlan>,
    options: WriteOptions,
    session: &dyn Session,
    planning: Planning,
) -> Result<Arc<TfRecordCommitExec>> {
    if options.mode == SaveMode::OverwritePartitions && options.partition_by.is_empty() {
        return Err(shards_error(tfrecord_shards::ErrorKind::NoPartitionColumns.into()));
    }
    let rows = input.schema();
    let is_ordered = options.ordered && options.shuffle.is_none() && has_order(&input);
    if let Some(SplitOptions::Rows(splits)) = &options.splits {
        check_row_splits(splits, &options, known_rows(&input, &options)?)?;
    }
    let order = record_order(&options, is_ordered, session);
    let (arrangement, records) = Arrangement::try_new(&rows, &options, order.unwrap_or(RecordOrder::Kept))?;
    let mapping = Arc::new(Mapping::of_writer(&described(&records, &options), &options.mapping).map_err(encode_error)?);
    check_prefix(&options.prefix).map_err(shards_error)?;
    check_emit(&mapping, &options, order)?;
    check_layout(&mapping, &options, order)?;
    if options.rejects.is_some() {
        reject_schema(&rows)?;
    }
    let options = Arc::new(options);
    let description = SetForm { mapping: &mapping, options: &options, rows: &rows };
    let mut inputs = Vec::new();
    match &options.out {
        _ if planning == Planning::Elsewhere => {}
        WriteTarget::Local(out) => {
            inputs = local_inputs(&input, &options.inputs);
            if let Preflight::Append(current) = preflight(out, options.mode, &inputs).map_err(shards_error)? {
                current.check_append(&description.describe(1)?, out).map_err(shards_error)?;
                check_appended(&options, &current)?;
            }
        }
        WriteTarget::Store(out) => {
            // The target's contents are inspected when the plan runs.
            UploadTarget::find(out, session.runtime_env(), session.config())?;
            refuse_overlap(out, &input, &options.inputs)?;
        }
    }
    let of_records = arrangement.clone();
    let (input, assignment) = if is_ordered {
        let rows = range_rows(&input, &options)?;
        let ordering = input.output_ordering().cloned();
        let input = match &ordering {
            Some(ordering) if input.output_partitioning().partition_count() > 1 => {
                Arc::new(SortPreservingMergeExec::new(ordering.clone(), input))
            }
            _ => input,
        };
        let ordering = ordering.map(Into::into);
        match order {
            Some(_) => (input, ShardAssignment::Sorted { arrangement, ordering }),
            None => (input, ShardAssignment::InOrder { ordering, rows }),
        }
    } else {
        let input = spread(input, session)?;
        match options.sharding {
            _ if order.is_some() => (input, ShardAssignment::Sorted { arrangement, ordering: None }),
            Sharding::Count(shards) => (input, ShardAssignment::RoundRobin(shards)),
            _ => (input, ShardAssignment::Cut),
        }
    };
    let input = match &options.rejects {
        Some(rejects) => {
            let mapping = Arc::clone(&mapping);
            Arc::new(FittingRowsExec::try_new(input, mapping, of_records, rejects.clone())?)
        }
        None => input,
    };
    let mut plan: Arc<dyn ExecutionPlan> =
        Arc::new(TfRecordWriteExec::new(input, Arc::clone(&options), mapping, assignment));
    if plan.output_partitioning().partition_count() > 1 {
        plan = Arc::new(CoalescePartitionsExec::new(plan));
    }
    Ok(Arc::new(TfRecordCommitExec::new(plan, options, rows, inputs)))
}

/// Rejects sidecar files that are not possible for this set.
fn check_emit(mapping: &Mapping, options: &WriteOptions, order: Option<RecordOrder>) -> Result<()> {
    options.emit.check(mapping, options.framing().map_err(ErrorKind::from)?).map_err(sidecar_error)?;
    if !options.emit.has(SidecarKind::Tfds) {
        return Ok(());
    }
    if !options.partition_by.is_empty() {
        return Err(ErrorKind::TfdsInDirectories.into());
    }
    let are_numbered = order.is_some() || matches!(options.sharding, Sharding::Count(_));
    if options.out.local().is_none() && !are_numbered {
        return Err(ErrorKind::TfdsUnnumbered.into());
    }
    Ok(())
}

/// Rejects a saved dataset that cannot be written.
fn check_layout(mapping: &Mapping, options: &WriteOptions, order: Option<RecordOrder>) -> Result<()> {
    if snapshot(mapping, options)?.is_none() {
        return Ok(());
    }
    let shards = match options.sharding {
        Sharding::Count(shards) => Some(shards.get()),
        _ => None,
    };
    let is_ordered = options.ordered && shards != Some(1);
    let problem = match () {
        () if options.out.local().is_none() => "goes to a local directory",
        () if order.is_some() => "is not shuffled, split, partitioned, or cut into more shards than can be open",
        () if shards.is_none() || is_ordered => "has a number of shards, and one if its rows are in order",
        () if options.mode.keeps_set() => "cannot be appended to",
        () if !options.emit.is_empty() => "has no sidecar files",
        () if options.rejects.is_some() => "rejects no rows",
        () if options.record_format != RecordFormat::TfRecord => "has files of TFRecord",
        () if options.compression == Compression::Zlib => "is compressed with gzip or not at all",
        () => return Ok(()),
    };
    Err(refused(format!("a saved dataset of tf.data {problem}")).into())
}

/// Returns the schema of the records: all columns of the rows except those that become directories.
///
/// # Errors
/// Same as [`plan_write`], for columns to partition and split by.
pub fn record_schema(rows: &SchemaRef, options: &WriteOptions) -> Result<SchemaRef> {
    Ok(Arrangement::try_new(rows, options, RecordOrder::Kept)?.1)
}

/// Returns how records must be sorted, if at all. Sorting is required when an option needs all rows at once, or when
/// too many shards would be open at the same time.
fn record_order(options: &WriteOptions, is_ordered: bool, session: &dyn Session) -> Option<RecordOrder> {
    if let Some(seed) = options.shuffle {
        return Some(RecordOrder::Shuffled { seed });
    }
    match options.sharding {
        _ if options.splits.is_some() || !options.partition_by.is_empty() => Some(RecordOrder::Kept),
        // The number of shards depends on the total size.
        Sharding::Hosts(_) => Some(RecordOrder::Kept),
        Sharding::Count(shards) if !is_ordered && !can_be_open(shards, options, session) => {
            Some(RecordOrder::RoundRobin { shards })
        }
        _ => None,
    }
}

/// Open shards may take 1/4 of the engine's memory; the rest is for the query.
const SHARE_OF_MEMORY: usize = 4;

/// File handles for everything except shards: inputs, temporary files and the process's libraries.
const OTHER_FILES: u64 = 128;

/// Whether this many shards can be open at the same time. The answer does not affect the output.
fn can_be_open(shards: NonZeroUsize, options: &WriteOptions, session: &dyn Session) -> bool {
    let is_local = options.out.local().is_some();
    // A conflict was reported before.
    let framing = options.framing().unwrap_or_default();
    let memory = memory_per_shard(is_local, framing).saturating_mul(shards.get());
    let fits = match session.runtime_env().memory_pool.memory_limit() {
        MemoryLimit::Finite(limit) => memory <= limit / SHARE_OF_MEMORY,
        _ => true,
    };
    let files = Resource::NOFILE.get_soft().unwrap_or(u64::MAX);
    fits && (!is_local || (shards.get() as u64).saturating_add(OTHER_FILES) <= files)
}

/// Returns session settings that assign each partition the same rows in the same order in every run. Shards are then
/// identical whenever the rows and the number of partitions are, provided the query itself is deterministic: joins
/// and aggregations are not, unless they are ordered.
///
/// - Each file stays with its partition, instead of going to an idle one.
/// - Batches are not repartitioned round-robin after the scan. Encoding, the most expensive step, uses all threads
///   whatever the number of partitions.
/// - Scans get no filters from `MIN` and `MAX`: a partition in which all values are NULL makes these filters, and so the
///   results, wrong at random ([#25147](https://github.com/apache/datafusion/issues/25147)).
pub fn reproducible(mut config: SessionConfig) -> SessionConfig {
    let options = config.options_mut();
    options.execution.enable_file_stream_work_stealing = false;
    options.optimizer.enable_round_robin_repartition = false;
    options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    config
}

/// Whether there is an order to preserve. Several unordered partitions have none among them.
fn has_order(input: &Arc<dyn ExecutionPlan>) -> bool {
    input.output_ordering().is_some() || input.output_partitioning().partition_count() == 1
}

/// Returns the number of shards if each gets a range of the rows, and the number of rows must be counted for it first:
/// neither [`WriteOptions::expected_rows`] nor planning knows it. [`plan_write`] fails then.
///
/// # Errors
/// Statistics of the input cannot be computed.
pub fn shards_to_count_for(input: &Arc<dyn ExecutionPlan>, options: &WriteOptions) -> Result<Option<NonZeroUsize>> {
    let is_known =
        || Ok::<_, DataFusionError>(options.expected_rows.is_some() || known_rows(input, options)?.is_some());
    match options.sharding {
        // One shard takes all rows, however many.
        Sharding::Count(shards) if shards.get() > 1 && are_ranges(input, options) && !is_known()? => Ok(Some(shards)),
        _ => Ok(None),
    }
}

/// Returns the number of rows that will be written, if it is known before they are read.
fn known_rows(input: &Arc<dyn ExecutionPlan>, options: &WriteOptions) -> Result<Option<u64>> {
    if options.rejects.is_some() { Ok(None) } else { exact_rows(input) }
}

/// Returns a plan of the rows that [`plan_write`] would write. It counts the others, and fails if there are too many.
/// Without [`rejects`](WriteOptions::rejects), all rows are written.
///
/// # Errors
/// As [`plan_write`], for the columns.
pub fn fitting_rows(input: Arc<dyn ExecutionPlan>, options: &WriteOptions) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(rejects) = &options.rejects else { return Ok(input) };
    let (arrangement, records) = Arrangement::try_new(&input.schema(), options, RecordOrder::Kept)?;
    let mapping = Arc::new(Mapping::of_writer(&described(&records, options), &options.mapping).map_err(encode_error)?);
    Ok(Arc::new(FittingRowsExec::try_new(input, mapping, arrangement, rejects.clone())?))
}

/// Returns the columns of records as they are described: names of labels only where they are those of all values.
fn described(records: &Schema, options: &WriteOptions) -> SchemaRef {
    let fields = records.fields().iter().map(|field| match options.unlabelled.contains(field.name()) {
        true => without_labels(field),
        false => Arc::clone(field),
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Fields>(), records.metadata().clone()))
}

/// Whether a number of shards means ranges of ordered rows. Sorted records are counted on the way, and a saved dataset
/// has one shard, and more records than rows.
fn are_ranges(input: &Arc<dyn ExecutionPlan>, options: &WriteOptions) -> bool {
    let is_sorted = options.shuffle.is_some() || options.splits.is_some() || !options.partition_by.is_empty();
    options.ordered && has_order(input) && !is_sorted && options.layout == Layout::Shards
}

/// Returns the number of rows that ranges are made of.
fn range_rows(input: &Arc<dyn ExecutionPlan>, options: &WriteOptions) -> Result<Option<u64>> {
    if let Some(shards) = shards_to_count_for(input, options)? {
        return Err(ErrorKind::UnknownRowCount { shards: shards.get() }.into());
    }
    match options.sharding {
        _ if !are_ranges(input, options) => Ok(None),
        Sharding::Count(_) if options.expected_rows.is_none() => known_rows(input, options),
        _ => Ok(options.expected_rows),
    }
}

/// Splits a scan into the session's number of partitions, by ranges of its files. The optimizer does this only below
/// operators that compute. Writing is such work, but the optimizer does not see it when it is handed a finished plan.
pub fn spread(input: Arc<dyn ExecutionPlan>, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
    let config = session.config_options();
    let partitions = config.execution.target_partitions;
    if !config.optimizer.repartition_file_scans || input.output_partitioning().partition_count() >= partitions {
        return Ok(input);
    }
    Ok(input.repartitioned(partitions, config)?.unwrap_or(input))
}

/// Returns the local files that a plan reads, and the local directories that it, or one of `inputs`, reads in full.
/// The output must not overlap them.
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

/// Rejects a target in an object store that the plan reads from, or that is within a location that one of `inputs`
/// reads in full, now or in later runs.
fn refuse_overlap(out: &Location, plan: &Arc<dyn ExecutionPlan>, inputs: &[String]) -> Result<()> {
    let target = out.key();
    let overlap = |input: String| -> DataFusionError {
        shards_error(tfrecord_shards::ErrorKind::Overlap { path: out.to_string().into(), input: input.into() }.into())
    };
    for input in inputs {
        let Ok(location) = Location::parse(input) else { continue };
        let takes_all = !location.is_pattern() || location.depth().is_none();
        let is_same_store = location.object_store() == out.object_store();
        let prefix = location.prefix();
        if is_same_store && takes_all && (target.prefix_matches(prefix) || prefix.prefix_matches(target)) {
            return Err(overlap(location.to_string()));
        }
    }
    let mut read = None;
    // The closure does not fail.
    let _ = plan.apply(|node| {
        let scan = node.downcast_ref::<DataSourceExec>().and_then(|source| source.data_source().downcast_ref());
        if let Some(scan) =
            scan.filter(|scan: &&FileScanConfig| scan.object_store_url.as_str() == out.object_store().as_str())
        {
            let mut files = scan.file_groups.iter().flat_map(|group| group.files());
            read = files.find(|file| file.object_meta.location.prefix_matches(target)).cloned();
        }
        Ok(if read.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    read.map_or(Ok(()), |file| Err(overlap(out.file_names().name(&file.object_meta.location))))
}

/// Returns the local directory that an input reads in full, now and in later runs: a directory it names, or the part
/// of a pattern before `**`.
fn input_directory(input: &str) -> Option<PathBuf> {
    let location = Location::parse(input).ok()?;
    let is_local = location.is_local();
    let takes_all = !location.is_pattern() || location.depth().is_none();
    let directory = local_path(location.prefix());
    (is_local && takes_all && directory.is_dir()).then_some(directory)
}

/// Converts a path of the engine's local file system, which omits the leading `/`.
fn local_path(path: &object_store::path::Path) -> PathBuf {
    PathBuf::from(format!("/{path}"))
}
