//! The run: SQL text, then a plan, then rows on standard output or shards on disk.

use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use datafusion::common::stats::Precision;
use datafusion::dataframe::DataFrame;
use datafusion::physical_plan::{collect, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion_tfrecord::{WriteOptions, plan_write};
use futures::{FutureExt as _, StreamExt as _};
use tfrecord_shards::Sharding;
use tokio::runtime;
use tokio::task::spawn_blocking;

use crate::cli::{Cli, QuerySource, ReportFormat, RowFormat};
use crate::dry_run::DryRun;
use crate::error::{Error, Result};
use crate::exit::ExitStatus;
use crate::interrupt::{self, Interrupt};
use crate::printer::Printer;
use crate::progress::Progress;
use crate::query::Query;
use crate::report::Report;
use crate::rows::RowWriter;
use crate::session::{self, Limits};
use crate::spill::SpillDirectory;

/// Does what the command line asks. `kill` ends the process; it is called with the second Ctrl-C.
pub fn command(cli: &Cli, printer: &Printer, kill: impl Fn(ExitStatus) + Send + 'static) -> Result<ExitStatus> {
    // Before Ctrl-C is taken over: reading standard input cannot be cancelled otherwise.
    let text = read_query(cli.query())?;
    let limits = Limits::new(&cli.resources)?;
    log::info!("{limits}");
    let interrupt = interrupt::watch(kill).map_err(|error| cannot_start("the watch for Ctrl-C", error))?;
    // After Ctrl-C is taken over, before what may spill: removed last, on every way out.
    let spill = SpillDirectory::create(cli.resources.temp_dir.as_deref())?;
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(limits.threads.get())
        .enable_all()
        .build()
        .map_err(|error| cannot_start("the query's threads", error))?;
    let run = AssertUnwindSafe(run(cli, &text, limits, &spill, printer, interrupt)).catch_unwind();
    let status = runtime.block_on(run).unwrap_or_else(|panic| Err(Error::panic(panic.as_ref())));
    if let (Ok(ExitStatus::Interrupted | ExitStatus::Terminated), Some(_)) = (&status, &cli.output.out) {
        printer.note("stopped; nothing was written");
    }
    // What has to end in order has ended; a write to a pipe that nobody reads has not.
    runtime.shutdown_background();
    status
}

fn cannot_start(what: &'static str, source: io::Error) -> Error {
    Error::Start { what, source }
}

fn read_query(source: QuerySource) -> Result<String> {
    let (path, text) = match source {
        QuerySource::Argument(text) => return Ok(text),
        QuerySource::Stdin => (PathBuf::from("standard input"), io::read_to_string(io::stdin())),
        QuerySource::File(path) => {
            let text = fs::read_to_string(&path);
            (path, text)
        }
    };
    text.map_err(|source| Error::Read { path, source })
}

async fn run(
    cli: &Cli,
    text: &str,
    limits: Limits,
    spill: &SpillDirectory,
    printer: &Printer,
    mut interrupt: Interrupt,
) -> Result<ExitStatus> {
    let started = Instant::now();
    let context = session::open(limits, spill.path())?;
    let query = tokio::select! {
        query = Query::plan(&context, cli, text) => query?,
        status = interrupt.received() => return Ok(status),
    };
    if cli.output.dry_run {
        if let Some(out) = &cli.output.out {
            check_write(&context, &query, write_options(cli, limits, &query, out))?;
        }
        let text = DryRun::new(cli, &query)?.to_string();
        printer.data(text.as_bytes()).map_err(Error::Stdout)?;
        return Ok(ExitStatus::Done);
    }
    match &cli.output.out {
        Some(out) => {
            let options = write_options(cli, limits, &query, out);
            Write { cli, printer, started }.run(&context, query, options, interrupt).await
        }
        None => {
            tokio::select! {
                printed = print(cli, &context, query, printer) => printed.map(|()| ExitStatus::Done),
                status = interrupt.received() => Ok(status),
            }
        }
    }
}

async fn print(cli: &Cli, context: &SessionContext, query: Query, printer: &Printer) -> Result<()> {
    let format = cli.display.format.unwrap_or_else(|| match printer.is_terminal() {
        true => RowFormat::Table,
        false => RowFormat::Csv,
    });
    let mut progress = Some(Progress::watch(printer, Arc::clone(&query.physical)));
    let mut batches = execute_stream(query.physical, context.task_ctx())?;
    let mut rows = RowWriter::new(format, batches.schema());
    while let Some(batch) = batches.next().await {
        let mut text = Vec::new();
        rows.write(&batch?, &mut text).map_err(Error::Format)?;
        if !text.is_empty() {
            // The rows are progress enough from here on.
            progress = None;
            send(printer, text).await?;
        }
    }
    drop(progress);
    let is_empty = rows.rows() == 0;
    let mut text = Vec::new();
    rows.finish(&mut text).map_err(Error::Format)?;
    send(printer, text).await?;
    if is_empty {
        printer.note("the query yields no rows");
    }
    Ok(())
}

/// Writes to standard output on a thread of its own, since a pipe may block for as long as its reader likes.
async fn send(printer: &Printer, text: Vec<u8>) -> Result<()> {
    let printer = printer.clone();
    let written = spawn_blocking(move || printer.data(&text)).await;
    written.unwrap_or_else(|stopped| Err(io::Error::other(stopped))).map_err(Error::Stdout)
}

fn write_options(cli: &Cli, limits: Limits, query: &Query, out: &Path) -> WriteOptions {
    WriteOptions {
        mapping: cli.mapping.options(&query.physical.schema()),
        sharding: cli.output.sharding(),
        prefix: cli.output.prefix.clone(),
        compression: cli.output.compression,
        level: cli.output.level(),
        mode: cli.output.mode(),
        ordered: query.is_ordered(),
        threads: Some(limits.threads),
        query: Some(query.text.clone()),
        inputs: query.inputs.iter().cloned().collect(),
        recorded: query.recorded.clone(),
        ..WriteOptions::new(out)
    }
}

/// A run that writes shards.
struct Write<'a> {
    cli: &'a Cli,
    printer: &'a Printer,
    started: Instant,
}

impl Write<'_> {
    async fn run(
        self,
        context: &SessionContext,
        query: Query,
        mut options: WriteOptions,
        mut interrupt: Interrupt,
    ) -> Result<ExitStatus> {
        let out = options.out.clone();
        if must_count(&options, &query)?.is_some() {
            check_write(context, &query, options.clone())?;
            options.expected_rows = Some(tokio::select! {
                rows = self.count_rows(context, &query) => rows?,
                status = interrupt.received() => return Ok(status),
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
            self.report(&Report::new(&out, &manifest, self.started.elapsed(), warnings))?;
            return Ok(ExitStatus::Done);
        }
        match ended {
            Ok(written) => written.map(|_| ExitStatus::Done).map_err(Error::from),
            Err(status) => Ok(status),
        }
    }

    fn report(&self, report: &Report) -> Result<()> {
        if report.rows == 0 {
            self.printer.note("the query yields no rows");
        }
        self.printer.note(report.summary());
        match self.cli.display.report {
            Some(ReportFormat::Json) => self.printer.data(report.to_json().as_bytes()).map_err(Error::Stdout),
            None => Ok(()),
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
fn check_write(context: &SessionContext, query: &Query, options: WriteOptions) -> Result<()> {
    if let Some(shards) = must_count(&options, query)?
        && query.varies()?
    {
        return Err(Error::VaryingRows { shards });
    }
    let options = WriteOptions { expected_rows: Some(0), ..options };
    plan_write(Arc::clone(&query.physical), options, &context.state())?;
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
