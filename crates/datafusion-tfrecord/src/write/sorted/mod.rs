//! Writes records in another order than their rows: shuffled, by split and directory, or by shard.
//!
//! ```text
//! every write partition:  input -> units -> encode, key of each record -> the sorter's inputs (memory, else runs on disk)
//!                                           (pool)                        (pool)
//! barrier:                the last one: scan of all keys -> shards of every group, cut by exact ranks or bytes
//!                                       (pool)
//! every write partition:  takes tasks, runs of whole shards -> sorted blocks -> one shard after the other -> seal
//!                                                              (pool)           (pool)
//! ```
//!
//! # Why not an exchange and the engine's sort
//! The sort works on framed records, whose keys are hashes or positions. This has several advantages:
//!
//! - Keys are spread evenly, so runs are read back by key ranges, without a merge row by row.
//! - Frames contain their lengths, so no offsets are spilled.
//! - The ranks and bytes of all groups are known before the first shard is opened, so shards are cut exactly and have
//!   their final names.
//! - Equal records can be distinguished by a number that depends only on how many there are.
//!
//! # What determines the output
//! Only the [`Arrangement`]. Which input of the sorter takes a record, which partition writes a shard, and how groups
//! are numbered depend on timing, and do not affect the output.

mod arrangement;
mod drain;
mod fill;
mod groups;
mod inputs;
mod layout;
mod partition_text;
mod spill;
mod task;

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryLimit};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};

use self::fill::Fill;
use self::groups::Groups;
use self::inputs::{Inputs, Room};
use self::layout::PlannedShards;
use self::spill::DiskSpill;
use super::barrier::{Barrier, Visitor};
use super::metrics::{SortMetrics, WriteMetrics};
use super::observe::RowEncoder;
use super::options::WriteOptions;
use super::report::PartitionReport;
use super::run::Run;
use super::units::PartitionPlace;
use tfrecord_shards::sort::{DirectorySpill, EqualRecords, SorterOptions};

use self::arrangement::GroupRule;

pub use self::spill::TemporaryDirectory;

pub(super) use self::arrangement::{Arrangement, RecordOrder, check_row_splits, sharding_of};
pub(super) use self::task::{SetCut, SortTask};

/// Memory for sorting per thread that suffices for long reads and few runs, if there are many threads.
const MEMORY_OF_THREAD: usize = 64 << 20;

/// Maximum framed bytes to encode in one job: still in the caches when keys and compact records are made of it.
const MOST_UNIT_BYTES: usize = 1 << 20;

/// Lower bound of the same.
const LEAST_UNIT_BYTES: usize = 64 << 10;

/// State shared by the write partitions of a node while they sort.
pub(super) struct Sorting {
    arrangement: Arrangement,
    options: Arc<WriteOptions>,
    groups: Arc<Groups>,
    inputs: Inputs,
    barrier: Arc<Barrier<Arc<PlannedShards>>>,
    /// Number of shards that all partitions together write at the same time.
    lanes: usize,
    unit_bytes: usize,
    /// Memory to read records back and write them.
    reading_bytes: usize,
}

impl Sorting {
    /// Creates the shared state of `partitions` write partitions. `rows` is the number of rows, if it is known
    /// exactly. A task leaves its runs in `shared`.
    pub(super) fn new(
        arrangement: Arrangement,
        write: Arc<WriteOptions>,
        (partitions, rows): (usize, Option<u64>),
        shared: Option<DirectorySpill>,
        run: &Run,
        context: &TaskContext,
    ) -> Self {
        let lanes = run.threads();
        let most = SorterOptions::MEMORY.max(lanes * MEMORY_OF_THREAD);
        let memory = match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(limit) => limit.min(most),
            _ => most,
        };
        let equal = match arrangement.order {
            RecordOrder::Shuffled { seed } => EqualRecords::Spread { seed },
            RecordOrder::Kept | RecordOrder::RoundRobin { .. } => EqualRecords::Keep,
        };
        let groups = Arc::<Groups>::default();
        let options = match shared {
            Some(spill) => {
                let options = SorterOptions::new(Arc::new(spill)).with_equal(equal);
                match arrangement.groups {
                    GroupRule::Columns { .. } => options.shared_by(Arc::clone(&groups) as _),
                    GroupRule::All | GroupRule::Rows(_) | GroupRule::Shards(_) => options.shared(),
                }
            }
            None => {
                let disk = DiskSpill::new(Arc::clone(&context.runtime_env().disk_manager), context.session_config());
                SorterOptions::new(Arc::new(disk)).with_equal(equal).with_memory(memory, lanes)
            }
        };
        let shard_bytes = run.staging.shards.memory_per_shard(run.framing);
        // The readers have their share of the memory; the rest is for records. A sixteenth is for records in progress.
        let room = Room { memory: memory - memory / SorterOptions::SHARE_OF_READERS, rows };
        let reservation =
            MemoryConsumer::new("TfRecordWriteExec: sort").with_can_spill(true).register(context.memory_pool());
        Self {
            reading_bytes: options.reading_memory(lanes) + lanes * shard_bytes,
            inputs: Inputs::new(options, reservation, room),
            arrangement,
            options: write,
            groups,
            barrier: Arc::new(Barrier::new(partitions)),
            lanes,
            unit_bytes: (memory / (16 * 2 * lanes.max(1))).clamp(LEAST_UNIT_BYTES, MOST_UNIT_BYTES),
        }
    }
}

/// The state of one write partition.
pub(super) struct SortedWrite {
    run: Arc<Run>,
    sorting: Arc<Sorting>,
    place: PartitionPlace,
    encoder: RowEncoder,
    metrics: WriteMetrics,
    sort_metrics: SortMetrics,
    visitor: Visitor<Arc<PlannedShards>>,
}

impl SortedWrite {
    /// Creates a partition that has not started. If dropped, it ends the others.
    pub(super) fn new(
        run: Arc<Run>,
        sorting: Arc<Sorting>,
        place: PartitionPlace,
        encoder: RowEncoder,
        metrics: WriteMetrics,
        sort_metrics: SortMetrics,
    ) -> Self {
        let visitor = sorting.barrier.visitor();
        Self { run, sorting, place, encoder, metrics, sort_metrics, visitor }
    }

    /// Sorts all rows of `input` together with those of the other partitions, and writes some of the shards.
    pub(super) async fn write(self, input: SendableRecordBatchStream) -> Result<PartitionReport> {
        let Self { run, sorting, place, encoder, metrics, sort_metrics, visitor } = self;
        let observer = encoder.observer();
        let written = async {
            let fill = Fill::new(Arc::clone(&sorting), place, encoder, metrics.clone(), sort_metrics.clone());
            let rows = fill.run(&run, input).await?;
            let statistics = observer.map(|observer| observer.finish(rows)).transpose()?;
            if visitor.arrive()? {
                let job = {
                    let sorting = Arc::clone(&sorting);
                    run.compute(move |_| PlannedShards::new(&sorting, &sort_metrics).map(Arc::new))
                };
                visitor.open(job.await?);
            }
            let layout = visitor.opened().await?;
            let shards = drain::write_shards(&run, &layout, place, &visitor, &metrics).await?;
            Ok(PartitionReport { rows, shards, statistics, sorted: None })
        };
        match written.await {
            Ok(report) => {
                visitor.leave();
                Ok(report)
            }
            Err(error) => Err(visitor.fail(error)),
        }
    }
}
