//! [`WriteShards`]: writes the rows of a query as a set of TFRecord shards.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use arrow_tfrecord::MappingOptions;
use datafusion::dataframe::DataFrame;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::{ExecutionPlan, collect, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion_tfrecord::write::{
    Layout, RejectTable as _, WriteOutcome, WriteTarget, fitting_rows, shards_to_count_for,
};
use datafusion_tfrecord::{SplitOptions, WriteOptions, plan_write};
use futures::StreamExt as _;
use tfrecord_shards::{SaveMode, Sharding};

use crate::cli::QueryArgs;
use crate::error::{Error, Result};
use crate::exit::ExitStatus;
use crate::interrupt::Interrupt;
use crate::names;
use crate::printer::{Printer, bytes, grouped};
use crate::progress::ShownProgress;
use crate::query::{Query, is_volatile};
use crate::report::{IgnoredReport, Outcome, Report, ShardsReport};
use crate::session::{self, Limits};
use crate::table::RejectedTable;

/// A run that writes shards.
pub struct WriteShards<'a> {
    /// The options of the write, with its target.
    pub options: WriteOptions,
    /// The table of rows that do not fit, if there is one.
    pub rejects: Option<Arc<RejectedTable>>,
    /// Receives notes and warnings.
    pub printer: &'a Printer,
    /// When the command started.
    pub started: Instant,
}

/// Returns the options for a write to `out`: those in `args`, and `mapping`.
pub fn options(
    args: &QueryArgs,
    limits: Limits,
    query: &Query,
    out: &WriteTarget,
    mapping: MappingOptions,
) -> WriteOptions {
    let write = args.output.writing.options();
    let schema = query.physical.schema();
    let columns = |typed: &[String]| typed.iter().map(|typed| names::column(typed, &schema)).collect();
    let layout = args.output.emit.layout(args.mapping.declared.options().nulls);
    let sharding = match (layout, write.sharding) {
        (Layout::Snapshot(_), Sharding::Count(count)) => Sharding::Count(count),
        (Layout::Snapshot(_), _) if query.is_ordered() => Sharding::Count(NonZeroUsize::MIN),
        (Layout::Snapshot(_), _) => Sharding::Count(limits.partitions),
        (_, sharding) => sharding,
    };
    WriteOptions {
        out: out.clone(),
        mapping,
        sharding,
        splits: write.splits.map(|split| match split {
            SplitOptions::Hash { splits, by } => SplitOptions::Hash { splits, by: columns(&by) },
            SplitOptions::Rows(splits) => SplitOptions::Rows(splits),
            SplitOptions::Column(column) => SplitOptions::Column(names::column(&column, &schema)),
        }),
        partition_by: columns(&write.partition_by),
        emit: args.output.emit.emit(),
        layout,
        ordered: query.is_ordered() && write.shuffle.is_none(),
        scratch: args.output.scratch.clone(),
        threads: Some(limits.threads),
        query: Some(query.text.clone()),
        inputs: query.inputs.iter().cloned().collect(),
        recorded: query.recorded.clone(),
        unlabelled: crate::mapping::unlabelled(query),
        expected: args.rebuilt.as_ref().map(|rebuilt| rebuilt.expected.clone()),
        ..write
    }
}

impl WriteShards<'_> {
    /// Runs the query and publishes its rows. The caller prints the report. Returns the exit status instead after a
    /// signal.
    pub async fn run(
        self,
        context: &SessionContext,
        query: Query,
        interrupt: &Interrupt,
    ) -> Result<Result<Report, ExitStatus>> {
        if let Some(rejects) = self.rejects.as_ref().filter(|_| self.options.mode != SaveMode::Ignore) {
            rejects.check()?;
        }
        let count = async || count(context, &query, &self.options).await;
        let options = match self.counted(context, &query, interrupt, count).await? {
            Ok(options) => options,
            Err(status) => return Ok(Err(status)),
        };
        let out = PathBuf::from(options.out.to_string());
        let findings = session::findings(context);
        // Discards the findings of earlier runs, which only counted rows or collected values.
        findings.clear();
        let commit = plan_write(query.physical, options, &context.state())?;
        // The mapping describes records.
        let mapping = commit.mapping().filter(|_| self.options.layout == Layout::Shards);
        let warnings = mapping.map(|mapping| mapping.warnings()).unwrap_or_default();
        for warning in &warnings {
            self.printer.loss(warning);
        }
        let task = session::task_context(context, commit.as_ref());
        let ended = {
            let _progress = ShownProgress::of_plan(self.printer, Arc::clone(&commit) as _)?;
            tokio::select! {
                written = collect(Arc::clone(&commit) as _, task) => Ok(written),
                status = interrupt.received() => Err(status),
            }
        };
        // On every path, staged files are removed before the command ends.
        commit.settled().await;
        // Nothing if the table is published.
        if let Some(rejects) = &self.rejects {
            rejects.withdraw();
        }
        let (files, spilled) = spilled(commit.as_ref());
        if spilled > 0 {
            log::info!("spilled {} to disk, {} times", bytes(spilled), grouped(files));
        }
        // Even if the signal came just before the set was published.
        let outcome = commit.outcome().map(|outcome| match outcome {
            WriteOutcome::Written(manifest) => {
                let found = findings.all().into_iter().map(|finding| finding.to_string());
                let warnings = warnings.into_iter().chain(found).collect();
                Outcome::Shards(ShardsReport::new(&out, &manifest, warnings))
            }
            WriteOutcome::Ignored { found } => Outcome::Ignored(IgnoredReport::new(&out, found)),
        });
        if let Some(outcome) = outcome {
            return Ok(Ok(Report::new(outcome, self.started.elapsed())));
        }
        match ended {
            Ok(Ok(_)) => Err(Error::Panic("the shards were written, but no set came of it".to_owned())),
            Ok(Err(error)) => Err(error.into()),
            Err(status) => Ok(Err(status)),
        }
    }

    /// Returns the options, with the number of rows if it must be known beforehand; or the exit status after a signal.
    /// `count` counts the rows by running the query once: ranges of an ordered result require that.
    pub async fn counted(
        &self,
        context: &SessionContext,
        query: &Query,
        interrupt: &Interrupt,
        count: impl AsyncFnOnce() -> Result<u64>,
    ) -> Result<Result<WriteOptions, ExitStatus>> {
        let mut options = self.options.clone();
        if shards_to_count_for(&query.physical, &options)?.is_some() {
            let counted = async {
                check(context, query, options.clone()).await?;
                self.printer.note("counting rows, so that each shard can contain a range of them");
                query.keep_pipes().await?;
                count().await
            };
            options.expected_rows = Some(tokio::select! {
                rows = counted => rows?,
                status = interrupt.received() => return Ok(Err(status)),
            });
        }
        Ok(Ok(options))
    }
}

/// Counts the rows of a query that will be written, in this process.
pub async fn count(context: &SessionContext, query: &Query, options: &WriteOptions) -> Result<u64> {
    if options.rejects.is_none() {
        return Ok(DataFrame::new(context.state(), query.logical.clone()).count().await? as u64);
    }
    let mut batches = fitting(context, query, options).await?;
    let mut rows = 0;
    while let Some(batch) = batches.next().await {
        rows += batch?.num_rows() as u64;
    }
    Ok(rows)
}

/// Runs a query for the rows that will be written, apart from the write.
pub async fn fitting(
    context: &SessionContext,
    query: &Query,
    options: &WriteOptions,
) -> Result<SendableRecordBatchStream> {
    // A plan may run only once.
    let rows = context.state().create_physical_plan(&query.logical).await?;
    let plan = fitting_rows(rows, options)?;
    let task = session::task_context(context, plan.as_ref());
    Ok(execute_stream(plan, task)?)
}

/// Returns how often the plan has spilled, and how many bytes.
fn spilled(plan: &dyn ExecutionPlan) -> (u64, u64) {
    let mut sum = (0, 0);
    let mut nodes = vec![plan];
    while let Some(node) = nodes.pop() {
        nodes.extend(node.children().into_iter().map(Arc::as_ref));
        if let Some(metrics) = node.metrics() {
            let count = |name| metrics.sum_by_name(name).map_or(0, |value| value.as_usize() as u64);
            sum = (sum.0 + count("spill_count"), sum.1 + count("spilled_bytes"));
        }
    }
    sum
}

/// Rejects what the write would reject, before rows are counted for it.
pub async fn check(context: &SessionContext, query: &Query, options: WriteOptions) -> Result<()> {
    if let Some(shards) = shards_to_count_for(&query.physical, &options)?
        && (query.varies()? || options.rejects.is_some() && is_volatile(&query.logical)?)
    {
        return Err(Error::VaryingRows { shards });
    }
    let options = WriteOptions { expected_rows: Some(0), ..options };
    plan_write(Arc::clone(&query.physical), options, &context.state())?.inspect_target(&context.task_ctx()).await?;
    Ok(())
}
