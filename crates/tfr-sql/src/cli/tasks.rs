//! `task`, `cut`, `finish` and `abandon`: carry out a plan that `--plan` has written.

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use clap::Args;

use super::display::ReportFormat;
use super::query::Resources;
use super::values;

const EXAMPLES: &str = "\
Example, with the array jobs of a cluster in place of the loop:
  tfr-sql \"SELECT * FROM 'events/'\" --out train/ --shuffle --partitions 64 --plan train.tfrplan
  for i in $(seq 0 63); do tfr-sql task train.tfrplan --index $i; done
  tfr-sql cut train.tfrplan
  for i in $(seq 0 63); do tfr-sql task train.tfrplan --index $i; done
  tfr-sql finish train.tfrplan

Exit codes: 0 done, 75 try again later, 1 and 2 as for queries.";

/// `task`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct TaskArgs {
    /// The plan, as written by --plan
    ///
    /// A task writes the rows of one partition. If all rows must be seen before a shard is written, as for --shuffle,
    /// --split, --partition-by and --shards, it sorts them instead; after 'tfr-sql cut', the same tasks write the
    /// shards. A task can be run again at any time, even while it runs elsewhere.
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,

    /// Run this task, counted from 0
    #[arg(long, value_name = "I")]
    pub index: u32,

    #[command(flatten)]
    pub resources: TaskResources,
}

/// `cut`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct CutArgs {
    /// The plan, as written by --plan
    ///
    /// Decides where shards begin, once all tasks have sorted their rows. Reads only the keys of the rows, and equal
    /// rows.
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,

    #[command(flatten)]
    pub resources: TaskResources,
}

/// `finish`.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct FinishArgs {
    /// The plan, as written by --plan
    ///
    /// Publishes the shards of all tasks, complete or not at all. Fails with exit code 75 if tasks are missing. Sorted
    /// rows that no task has written are written here. If it fails or is killed, run it again. The plan becomes a note
    /// of the published set: then nothing is left to do, and the exit code is 0.
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,

    /// Read all shards and compare their checksums before they are published
    #[arg(long)]
    pub verify: bool,

    #[command(flatten)]
    pub resources: TaskResources,

    /// Print a machine-readable summary (json) on standard output
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, help_heading = "Display")]
    pub report: Option<ReportFormat>,
}

/// `abandon`.
#[derive(Debug, Args)]
pub struct AbandonArgs {
    /// The plan, as written by --plan
    ///
    /// Removes what the tasks have written, and the plan. Tasks that still run fail. A set that is published stays.
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
}

/// The resources that a task may use.
#[derive(Debug, Args)]
#[command(next_help_heading = "Resources")]
#[group(skip)]
pub struct TaskResources {
    /// Use this many threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = values::count)]
    threads: Option<NonZeroUsize>,

    /// Limit the memory of the task before it spills [default: 60% of memory]
    #[arg(long, value_name = "SIZE", value_parser = values::memory)]
    memory_limit: Option<NonZeroU64>,

    /// Spill into this existing directory [default: the system's]
    #[arg(long, value_name = "DIR")]
    pub temp_dir: Option<PathBuf>,
}

impl TaskResources {
    /// Returns the resources for a query with this many partitions.
    pub fn with_partitions(&self, partitions: NonZeroUsize) -> Resources {
        let Self { threads, memory_limit, temp_dir } = self;
        let (threads, memory_limit, temp_dir) = (*threads, *memory_limit, temp_dir.clone());
        Resources { threads, partitions: Some(partitions), memory_limit, temp_dir }
    }
}
