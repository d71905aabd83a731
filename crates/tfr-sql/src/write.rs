//! [`WriteShards`]: the rows of a query as a set of TFRecord shards.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use arrow_tfrecord::MappingOptions;
use datafusion::common::stats::Precision;
use datafusion::dataframe::DataFrame;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use datafusion_tfrecord::write::WriteTarget;
use datafusion_tfrecord::{WriteOptions, plan_write};
use tfrecord_shards::Sharding;

use crate::cli::QueryArgs;
use crate::error::{Error, Result};
use crate::exit::ExitStatus;
use crate::interrupt::Interrupt;
use crate::printer::Printer;
use crate::progress::Progress;
use crate::query::Query;
use crate::report::{Outcome, Report, ShardsReport};
use crate::session::Limits;

/// A run that writes shards.
pub struct WriteShards<'a> {
    /// Where they go, and how they are cut.
    pub options: WriteOptions,
    /// Who is told.
    pub printer: &'a Printer,
    /// When the command started.
    pub started: Instant,
}

/// What `args` say of a write to `out`, with the options of the mapping.
pub fn options(
    args: &QueryArgs,
    limits: Limits,
    query: &Query,
    out: &WriteTarget,
    mapping: MappingOptions,
) -> WriteOptions {
    let shards = &args.output.shards;
    WriteOptions {
        mapping,
        sharding: shards.sharding(),
        prefix: shards.prefix.clone(),
        compression: shards.compression,
        level: shards.level(),
        mode: shards.mode(),
        ordered: query.is_ordered(),
        threads: Some(limits.threads),
        query: Some(query.text.clone()),
        inputs: query.inputs.iter().cloned().collect(),
        recorded: query.recorded.clone(),
        ..WriteOptions::new(out.clone())
    }
}

impl WriteShards<'_> {
    /// Runs the query and publishes its rows. The report is for the caller to give; there is none after a signal.
    pub async fn run(
        self,
        context: &SessionContext,
        query: Query,
        interrupt: &mut Interrupt,
    ) -> Result<Result<Report, ExitStatus>> {
        let mut options = self.options.clone();
        let out = PathBuf::from(options.out.to_string());
        if must_count(&options, &query)?.is_some() {
            let counted = async {
                check(context, &query, options.clone()).await?;
                self.count_rows(context, &query).await
            };
            options.expected_rows = Some(tokio::select! {
                rows = counted => rows?,
                status = interrupt.received() => return Ok(Err(status)),
            });
        }
        let commit = plan_write(query.physical, options, &context.state())?;
        let warnings = commit.mapping().map(|mapping| mapping.warnings()).unwrap_or_default();
        for warning in &warnings {
            self.printer.warning(warning);
        }
        let ended = {
            let _progress = Progress::watch(self.printer, Arc::clone(&commit) as _);
            tokio::select! {
                written = collect(Arc::clone(&commit) as _, context.task_ctx()) => Ok(written),
                status = interrupt.received() => Err(status),
            }
        };
        // Whatever happened, nothing staged outlives the command.
        commit.settled().await;
        // Also if the signal came when the set was as good as published.
        if let Some(manifest) = commit.summary() {
            let shards = ShardsReport::new(&out, &manifest, warnings);
            return Ok(Ok(Report::new(Outcome::Shards(shards), self.started.elapsed())));
        }
        match ended {
            Ok(Ok(_)) => Err(Error::Panic("the shards were written, but no set came of it".to_owned())),
            Ok(Err(error)) => Err(error.into()),
            Err(status) => Ok(Err(status)),
        }
    }

    /// Rows of the query, by running it once: cutting ranges of an ordered result needs the number beforehand.
    async fn count_rows(&self, context: &SessionContext, query: &Query) -> Result<u64> {
        self.printer.note("counting rows, so that each shard can hold a range of them");
        let rows = DataFrame::new(context.state(), query.logical.clone()).count().await?;
        Ok(rows as u64)
    }
}

/// Refuses what the write would refuse, before rows are counted for it.
pub async fn check(context: &SessionContext, query: &Query, options: WriteOptions) -> Result<()> {
    if let Some(shards) = must_count(&options, query)?
        && query.varies()?
    {
        return Err(Error::VaryingRows { shards });
    }
    let options = WriteOptions { expected_rows: Some(0), ..options };
    plan_write(Arc::clone(&query.physical), options, &context.state())?.inspect_target(&context.task_ctx()).await?;
    Ok(())
}

/// The shards, if their ranges of an ordered result need the number of rows: unless planning knows it or one takes all.
fn must_count(options: &WriteOptions, query: &Query) -> Result<Option<NonZeroUsize>> {
    let ranges = match options.sharding {
        Sharding::Count(shards) if options.ordered && shards.get() > 1 => Some(shards),
        _ => None,
    };
    let known = || query.statistics().map(|statistics| matches!(statistics.num_rows, Precision::Exact(_)));
    Ok(if ranges.is_some() && known()? { None } else { ranges })
}
