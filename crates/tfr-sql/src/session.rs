//! The query session: threads, memory, and the settings that make runs reproducible.

use std::fmt;
use std::fs;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;

use chrono::{DateTime, Utc};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::config::ConfigNonZeroUsize;
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SessionStateBuilder, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tfrecord::TemporaryDirectory;
use rlimit::Resource;
use sysinfo::{MemoryRefreshKind, ProcessRefreshKind, ProcessesToUpdate, RefreshKind, System};
use tfr_engine::Bounds;
use tfr_files::memory::{ReadBounds, batch_bytes};
use tfr_files::{FilesFunction, Findings, SessionStores, door_of};
use tfr_formats::PipedFiles;
use tfr_stores::{Door, StoreOptions, Stores};
use tokio_util::sync::CancellationToken;

use crate::cli::Resources;
use crate::error::{Error, Result};
use crate::printer::{bytes, counted};
use crate::spill::{SpillDirectory, SpillFiles};

/// Number of operators named when memory runs out. Unwrapped at compile time, so it cannot fail at run time.
const NAMED_CONSUMERS: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// Values in a batch of wide rows: 8 MiB of numbers, which are still in the last-level cache when they are encoded row
/// by row.
const WIDE_BATCH_VALUES: usize = 1 << 20;

/// Minimum rows of a batch of wide rows, because each batch has a fixed cost.
const LEAST_BATCH_ROWS: usize = 256;

/// Minimum rows of a batch of long rows.
const LEAST_LONG_ROWS: usize = 16;

/// Bounds on the bytes of Parquet footers that a session keeps. The engine's default is the minimum, enough for some 3,000
/// files.
const LEAST_FOOTERS: usize = 50 << 20;
const MOST_FOOTERS: usize = 1 << 30;

/// Stack size in bytes of the engine's threads, which evaluate expressions recursively.
pub const WORKER_STACK: usize = 32 << 20;

/// The resources that the query may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Number of threads of the engine. The same number encodes and compresses.
    pub threads: NonZeroUsize,
    /// Number of partitions of the query. Output depends on it.
    pub partitions: NonZeroUsize,
    /// Bytes of memory for the operators of the query.
    pub memory: u64,
}

impl Limits {
    /// Returns the user's limits. Defaults are all cores, one partition per thread,
    /// and 60 % of the memory available to this process.
    pub fn new(resources: &Resources) -> Result<Self> {
        let cores = || thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let threads = resources.threads.unwrap_or_else(cores);
        let memory = match resources.memory_limit {
            Some(limit) => limit.get(),
            None => available_memory(threads)? / 10 * 6,
        };
        Ok(Self { threads, partitions: resources.partitions.unwrap_or(threads), memory })
    }

    /// Returns the size limits of batches and values.
    fn bounds(&self) -> Bounds {
        Bounds { batch: batch_bytes(self.memory, self.partitions.get()), value: self.memory }
    }

    /// Bytes of Parquet footers to keep. Planning passes over all files several times: a footer that is forgotten in between
    /// is read and decoded again.
    fn footers(&self) -> usize {
        let share = usize::try_from(self.memory / 8).unwrap_or(usize::MAX);
        share.clamp(LEAST_FOOTERS, MOST_FOOTERS)
    }

    /// Bytes that each partition of a sort reserves for merging its spilled data. All of them together take a quarter
    /// of the memory, to leave room for rows.
    fn sort_reservation(&self) -> usize {
        usize::try_from(self.memory / 4).unwrap_or(usize::MAX) / self.partitions
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} of memory", counted(self.threads.get() as u64, "thread"), bytes(self.memory))
    }
}

/// Returns the memory of the machine in bytes, or less if the control groups of this process or its address space
/// (RLIMIT_AS) limit it.
fn available_memory(threads: NonZeroUsize) -> Result<u64> {
    let memory = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let mut system = System::new_with_specifics(memory).map_err(Error::UnknownMemory)?;
    let own = sysinfo::get_current_pid().ok().and_then(|pid| {
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), false, ProcessRefreshKind::nothing());
        // The minimum over its group and the enclosing groups.
        system.process(pid)?.cgroup_limits()
    });
    let groups = [own, system.cgroup_limits()].into_iter().flatten().map(|limits| limits.total_memory);
    let limits = groups.filter(|limit| *limit > 0).chain(free_addresses(threads));
    Ok(limits.fold(system.total_memory(), u64::min))
}

/// Returns the bytes of addresses that a limit of the address space leaves for memory, if there is such a limit. The
/// program and the stacks of its threads take addresses, whether or not they are memory. Of the rest, a half is left to
/// the allocator, which moves a buffer that grows, and keeps the addresses of what was freed.
fn free_addresses(threads: NonZeroUsize) -> Option<u64> {
    let limit = Resource::AS.get_soft().ok().filter(|limit| *limit != rlimit::INFINITY)?;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let size =
        status.lines().find_map(|line| line.strip_prefix("VmSize:")?.trim().strip_suffix("kB")?.trim().parse().ok());
    let taken = size.unwrap_or(0u64).saturating_mul(1024) + (threads.get() as u64 + 1) * WORKER_STACK as u64;
    Some(limit.saturating_sub(taken) / 2)
}

/// The time of the queries of a session: what `now()` returns.
struct QueryTime(DateTime<Utc>);

/// Creates a session with our formats and stores and without tables, which opens what the door of `stores` allows. It
/// spills into the directory `spill`, and stops
/// planning once `stop` is cancelled. `now()` is `time`.
pub fn open(
    limits: Limits,
    spill: &SpillDirectory,
    stores: StoreOptions,
    time: DateTime<Utc>,
    stop: CancellationToken,
) -> Result<SessionContext> {
    let door = stores.door.clone();
    let stores = Stores::new(stores);
    let files = Arc::new(spill.files());
    let config = SessionConfig::new().with_target_partitions(limits.partitions.get());
    let mut config = datafusion_tfrecord::reproducible(config)
        .with_extension(Arc::clone(stores.uploads()))
        .with_extension(Arc::new(door))
        .with_extension(Arc::new(Findings::default()))
        .with_extension(Arc::new(PipedFiles::default()))
        .with_extension(Arc::new(QueryTime(time)))
        .with_extension(Arc::new(TemporaryDirectory(spill.parent().to_owned())))
        .with_extension(Arc::clone(&files));
    let options = config.options_mut();
    // Identifiers keep their case: `UserId` is not `userid` when it becomes a feature. See `names` for
    // case-insensitive matches.
    options.sql_parser.enable_ident_normalization = false;
    options.sql_parser.collect_spans = true;

    // One batch in each file that an exchange spills. With two batches, the exchange can wait for ever:
    // https://github.com/apache/datafusion/issues/24883
    options.execution.max_spill_file_size_bytes = ConfigNonZeroUsize::try_new(1)?;

    let reserved = &mut options.execution.sort_spill_reservation_bytes;
    *reserved = limits.sort_reservation().min(*reserved);

    let disk = DiskManagerBuilder::default().with_temp_file_factory(files);
    // A fair pool lets every sort spill. The default pool fails the last operator to ask.
    let pool = FairSpillPool::new(usize::try_from(limits.memory).unwrap_or(usize::MAX));
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(TrackConsumersPool::new(pool, NAMED_CONSUMERS)))
        .with_disk_manager_builder(disk)
        .with_object_store_registry(Arc::new(SessionStores::from(stores)))
        .with_metadata_cache_limit(limits.footers())
        .build_arc()?;

    let corrected = tfr_engine::exact(
        SessionStateBuilder::new().with_config(config).with_runtime_env(runtime).with_default_features(),
    );
    let mut state = tfr_engine::within(corrected, limits.bounds())
        // Replaces the engine's own factories, which also read hidden files and treat null partitions as text.
        .with_table_factories(
            tfr_formats::STORED_AS.iter().map(|format| ((*format).to_owned(), tfr_formats::table_factory())).collect(),
        )
        .build();
    datafusion_tfrecord::functions::register(&mut state)?;
    tfr_engine::at_time(&mut state, time)?;
    state.register_udtf(FilesFunction::NAME, Arc::new(FilesFunction::until(stop)));
    Ok(SessionContext::new_with_state(state))
}

/// Returns what the session may open.
pub fn door(context: &SessionContext) -> Door {
    door_of(context.state_ref().read().config())
}

/// Returns the findings of the session's scans.
pub fn findings(context: &SessionContext) -> Arc<Findings> {
    Findings::of(context.state_ref().read().config()).unwrap_or_default()
}

/// Returns the time of the session's queries.
pub fn time(context: &SessionContext) -> DateTime<Utc> {
    let time = context.state_ref().read().config().get_extension::<QueryTime>();
    time.map_or_else(Utc::now, |time| time.0)
}

/// Limits the bytes of all temporary files that the engine has at a time.
pub fn limit_temporary_files(context: &SessionContext, bytes: u64) {
    if let Some(files) = context.state_ref().read().config().get_extension::<SpillFiles>() {
        files.set_limit(bytes);
    }
}

/// Returns the session's copies of pipes.
pub fn piped_files(context: &SessionContext) -> Arc<PipedFiles> {
    PipedFiles::of(context.state_ref().read().config()).unwrap_or_default()
}

/// Returns the context for executing a plan. Batches have fewer rows if the rows are wide or long.
pub fn task_context(context: &SessionContext, plan: &dyn ExecutionPlan) -> Arc<TaskContext> {
    let state = context.state();
    let wide = (WIDE_BATCH_VALUES / widest(plan).max(1)).max(LEAST_BATCH_ROWS);
    let long = (ReadBounds::of(&state).batch / longest(plan).max(1)).max(LEAST_LONG_ROWS);
    let rows = wide.min(long);
    if rows >= state.config().batch_size() {
        return context.task_ctx();
    }
    let config = state.config().clone().with_batch_size(rows);
    Arc::new(TaskContext::from(&state).with_session_config(config))
}

/// Returns the longest average row of a table in the plan, in bytes, as far as files record it: all columns,
/// decompressed.
fn longest(plan: &dyn ExecutionPlan) -> usize {
    let children = plan.children();
    if children.is_empty() {
        let Ok(statistics) = StatisticsContext::new().compute(plan, &StatisticsArgs::new()) else { return 0 };
        let (bytes, rows) = (statistics.total_byte_size.get_value(), statistics.num_rows.get_value());
        return bytes.zip(rows).and_then(|(bytes, rows)| bytes.checked_div(*rows)).unwrap_or_default();
    }
    children.into_iter().map(|input| longest(input.as_ref())).fold(0, usize::max)
}

/// Returns the maximum number of values in a row of any operator in the plan. A list of any length counts as one
/// value.
fn widest(plan: &dyn ExecutionPlan) -> usize {
    plan.children().into_iter().map(|input| widest(input.as_ref())).fold(values(&plan.schema()), usize::max)
}

fn values(schema: &Schema) -> usize {
    fn of(data_type: &DataType) -> usize {
        match data_type {
            DataType::Struct(fields) => fields.iter().map(|field| of(field.data_type())).fold(0, usize::saturating_add),
            DataType::FixedSizeList(item, len) => {
                of(item.data_type()).saturating_mul(usize::try_from(*len).unwrap_or_default())
            }
            _ => 1,
        }
    }
    schema.fields().iter().map(|field| of(field.data_type())).fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Field;
    use datafusion::physical_plan::empty::EmptyExec;

    use super::*;

    fn batch_rows(columns: usize, data_type: &DataType) -> usize {
        let fields = (0..columns).map(|column| Field::new(column.to_string(), data_type.clone(), true));
        let plan = EmptyExec::new(Arc::new(Schema::new(fields.collect::<Vec<_>>())));
        let context = SessionContext::new();
        task_context(&context, &plan).session_config().batch_size()
    }

    #[test]
    fn batches_of_wide_rows_have_fewer() {
        let default = SessionConfig::new().batch_size();
        assert_eq!(batch_rows(0, &DataType::Int64), default);
        assert_eq!(batch_rows(128, &DataType::Int64), default);
        assert_eq!(batch_rows(2048, &DataType::Int64), 512);
        assert_eq!(batch_rows(100_000, &DataType::Int64), LEAST_BATCH_ROWS);
        let embedding = DataType::FixedSizeList(Arc::new(Field::new_list_field(DataType::Float32, true)), 1024);
        assert_eq!(batch_rows(1, &embedding), 1024);
    }
}
