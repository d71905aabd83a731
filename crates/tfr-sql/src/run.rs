//! The main job: plans SQL text, and prints or writes its rows.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use datafusion::physical_plan::execute_stream;
use datafusion::prelude::SessionContext;
use futures::{FutureExt as _, StreamExt as _};
use tfr_files::threads;
use tokio::task::spawn_blocking;

use crate::cli::{QueryArgs, QuerySource, ReportFormat, RowFormat, Target};
use crate::cluster::{self, Cluster, ClusterQuery, Connect};
use crate::dry_run::DryRun;
use crate::error::{Error, Result};
use crate::exit::ExitStatus;
use crate::interrupt::Interrupt;
use crate::mapping::{self, Vocabularies};
use crate::printer::Printer;
use crate::progress::ShownProgress;
use crate::query::Query;
use crate::report::Report;
use crate::rows::RowWriter;
use crate::session::{self, Limits};
use crate::spill::SpillDirectory;
use crate::table::WriteTable;
use crate::tasks::{self, TaskPlanning};
use crate::write::{self, WriteShards};

/// Runs the query of the command line. `interrupt` is called after the query text has been read.
pub fn query(
    args: &QueryArgs,
    arguments: &[OsString],
    connect: Option<Connect>,
    printer: &Printer,
    interrupt: impl FnOnce() -> Result<Interrupt>,
) -> Result<ExitStatus> {
    let cluster = match (&args.output.cluster, connect) {
        (None, _) => None,
        (Some(address), Some(connect)) => Some(connect(address)?),
        (Some(_), None) => return Err(Error::NoCluster),
    };
    // Read before Ctrl-C is handled: otherwise reading standard input could not be cancelled.
    let text = read_query(args.source())?;
    printer.hide_secrets_of(&text);
    let limits = Limits::new(&args.resources)?;
    log::info!("{limits}");
    let interrupt = interrupt()?;
    // Created after Ctrl-C is handled and before anything can spill, so that it is removed last on every exit path.
    let spill = SpillDirectory::create(args.resources.temp_dir.as_deref())?;
    let runtime = threads::start("query", limits.threads.get(), session::WORKER_STACK)
        .map_err(|source| Error::Start { what: "the query's threads", source })?;
    let run = AssertUnwindSafe(run(args, arguments, &text, limits, cluster, &spill, printer, interrupt)).catch_unwind();
    let status = runtime.block_on(run).unwrap_or_else(|panic| Err(Error::panic(panic.as_ref())));
    let is_stopped = matches!(status, Ok(ExitStatus::Interrupted | ExitStatus::Terminated | ExitStatus::HungUp));
    if is_stopped && args.output.target().is_some() {
        printer.note("stopped; nothing was written");
    }
    // Everything that must finish has finished. A write to a pipe that nobody reads may still be blocked.
    threads::end(runtime);
    status
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

#[expect(clippy::too_many_arguments, reason = "each is used once")]
async fn run(
    args: &QueryArgs,
    arguments: &[OsString],
    text: &str,
    limits: Limits,
    cluster: Option<Arc<dyn Cluster>>,
    spill: &SpillDirectory,
    printer: &Printer,
    interrupt: Interrupt,
) -> Result<ExitStatus> {
    let started = Instant::now();
    let context = session::open(limits, spill, args.stores.options(), interrupt.stop())?;
    if args.output.plan.is_some() {
        tasks::prepare(&context);
    }
    if cluster.is_some() {
        cluster::prepare(&context);
    }
    // Tables are doubtful when they are planned, too.
    session::findings(&context).set_strict(args.mapping.declared.options().strict);
    let planning = interrupt.plans();
    let mut query = tokio::select! {
        query = Query::plan(&context, args, text, spill) => match (query, interrupt.already()) {
            // The request to stop explains the error, or makes it irrelevant.
            (_, Some(status)) => return Ok(status),
            (query, None) => query?,
        },
        status = interrupt.received() => return Ok(status),
    };
    drop(planning);
    for note in &query.notes {
        printer.note(note);
    }
    if args.output.writing.options().shuffle.is_some() && query.is_sorted_in_full() {
        printer.note("--shuffle undoes the ORDER BY of the query");
    }
    if args.output.dry_run {
        let schema = query.physical.schema();
        let mapping = mapping::planned(mapping::options(&args.mapping, &schema)?, &schema);
        query.check_strict(mapping.strict)?;
        let plan = match args.output.target() {
            Some(Target::Shards(out)) => {
                let options = write::options(args, limits, &query, out, mapping);
                tokio::select! {
                    checked = write::check(&context, &query, options.clone()) => checked?,
                    status = interrupt.received() => return Ok(status),
                }
                DryRun::new(&options, &query, limits)?
            }
            // The plan does not depend on the directory.
            _ => DryRun::new(&write::options(args, limits, &query, &PathBuf::new().into(), mapping), &query, limits)?,
        };
        let text = match args.rows.report {
            Some(ReportFormat::Json) => plan.report().to_json(),
            None => plan.to_string(),
        };
        printer.data(text.as_bytes()).map_err(Error::Stdout)?;
        return Ok(ExitStatus::Done);
    }
    let written = match args.output.target() {
        Some(Target::Shards(out)) => {
            let mapping = mapping::options(&args.mapping, &query.physical.schema())?;
            query.check_strict(mapping.strict)?;
            let cluster = match &cluster {
                None => None,
                Some(cluster) => {
                    let partitions = match args.resources.partitions {
                        Some(partitions) => partitions,
                        None => cluster::divide(&context, &mut query).await?,
                    };
                    let (cluster, context) = (cluster.as_ref(), &context);
                    Some(ClusterQuery { cluster, context, arguments, text, partitions })
                }
            };
            let collect = async |vocabularies: &mut Vocabularies| match &cluster {
                Some(cluster) => cluster.collect_values(&query, vocabularies).await,
                None => mapping::collect(&context, &query, vocabularies).await,
            };
            let mapping = tokio::select! {
                mapping = mapping::with_vocabularies(mapping, &query, printer, collect) => mapping?,
                status = interrupt.received() => return Ok(status),
            };
            session::findings(&context).set_strict(mapping.strict);
            let options = write::options(args, limits, &query, out, mapping);
            let write = WriteShards { options, printer, started };
            if let Some(file) = &args.output.plan {
                let partitions = limits.partitions;
                let planning = TaskPlanning { arguments, text, partitions, write };
                return tasks::plan(file, planning, &context, query, &interrupt).await;
            }
            match cluster {
                Some(cluster) => cluster.write(write, query, &interrupt).await?,
                None => write.run(&context, query, &interrupt).await?,
            }
        }
        Some(Target::Table(target)) => {
            let mode = args.output.writing.options().mode;
            WriteTable { target, mode, limits, spill, printer, started }.run(&context, query, &interrupt).await?
        }
        None => {
            return tokio::select! {
                printed = print(args, &context, query, printer) => printed.map(|()| ExitStatus::Done),
                status = interrupt.received() => Ok(status),
            };
        }
    };
    match written {
        Ok(report) => print_report(&report, args.rows.report, printer).map(|()| ExitStatus::Done),
        Err(status) => Ok(status),
    }
}

fn print_report(report: &Report, format: Option<ReportFormat>, printer: &Printer) -> Result<()> {
    for note in report.notes() {
        printer.note(note);
    }
    printer.note(report.summary());
    match format {
        Some(ReportFormat::Json) => printer.data(report.to_json().as_bytes()).map_err(Error::Stdout),
        None => Ok(()),
    }
}

async fn print(args: &QueryArgs, context: &SessionContext, query: Query, printer: &Printer) -> Result<()> {
    let format = args.rows.format.unwrap_or_else(|| match printer.is_terminal() {
        true => RowFormat::Table,
        false => RowFormat::Csv,
    });
    if format == RowFormat::Arrow && printer.is_terminal() {
        return Err(Error::ArrowOnTerminal);
    }
    let mut progress = Some(ShownProgress::of_plan(printer, Arc::clone(&query.physical))?);
    let task = session::task_context(context, query.physical.as_ref());
    let mut batches = execute_stream(query.physical, task)?;
    let mut rows = RowWriter::new(format, batches.schema());
    let mut begin = Vec::new();
    rows.begin(&mut begin).map_err(Error::Format)?;
    if !begin.is_empty() {
        send(printer, begin).await?;
    }
    while let Some(batch) = batches.next().await {
        let mut text = Vec::new();
        rows.write(&batch?, &mut text).map_err(Error::Format)?;
        if !text.is_empty() {
            // From here on the rows themselves show progress, if they are text.
            if format != RowFormat::Arrow {
                progress = None;
            }
            send(printer, text).await?;
        }
    }
    drop(progress);
    for finding in session::findings(context).unreported() {
        printer.warning(finding);
    }
    let mut text = Vec::new();
    rows.finish(&mut text).map_err(Error::Format)?;
    send(printer, text).await?;
    if rows.rows() == 0 {
        printer.note("the query yields no rows");
    }
    Ok(())
}

/// Writes to standard output on its own thread, because a pipe may block for as long as its reader likes.
async fn send(printer: &Printer, text: Vec<u8>) -> Result<()> {
    let printer = printer.clone();
    let written = spawn_blocking(move || printer.data(&text)).await;
    written.unwrap_or_else(|stopped| Err(io::Error::other(stopped))).map_err(Error::Stdout)
}
