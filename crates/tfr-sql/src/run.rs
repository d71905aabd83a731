//! The main job: plans SQL text, and prints or writes its rows.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use chrono::Utc;
use futures::FutureExt as _;
use tfr_files::planned::PlannedTables;
use tfr_stores::{Door, threads};

use crate::access;
use crate::cli::{QueryArgs, QuerySource, ReportFormat};
use crate::cluster::{self, Cluster, Connect};
use crate::error::{Error, Result};
use crate::exit::ExitStatus;
use crate::forms::{Job, form};
use crate::interrupt::Interrupt;
use crate::printer::Printer;
use crate::query::Query;
use crate::report::Report;
use crate::session::{self, Limits};
use crate::spill::SpillDirectory;
use crate::tasks;

/// Runs the query of the command line. `interrupt` is called after the query text has been read.
pub fn query(
    args: &QueryArgs,
    arguments: &[OsString],
    connect: Option<Connect>,
    door: &Door,
    printer: &Printer,
    interrupt: impl FnOnce() -> Result<Interrupt>,
) -> Result<ExitStatus> {
    let cluster = match (&args.output.cluster, connect) {
        (None, _) => None,
        (Some(address), Some(connect)) => Some(connect(address)?),
        (Some(_), None) => return Err(Error::NoCluster),
    };
    access::check_arguments(args, door)?;
    // Read before Ctrl-C is handled: otherwise reading standard input could not be cancelled.
    let text = read_query(args.source())?;
    printer.hide_secrets_of(&text);
    let limits = Limits::new(&args.resources)?;
    log::info!("{limits}");
    let interrupt = interrupt()?;
    // Created after Ctrl-C is handled and before anything can spill, so that it is removed last on every exit path.
    let spill = SpillDirectory::create(args.resources.temp_dir.as_deref(), door)?;
    let runtime = threads::start("query", limits.threads.get(), session::WORKER_STACK)
        .map_err(|source| Error::Start { what: "the query's threads", source })?;
    let started = Instant::now();
    let run = async {
        // Dropped before the threads end.
        let interrupt = interrupt;
        let context = session::open(limits, &spill, args.stores.options(door), Utc::now(), interrupt.stop())?;
        let (text, spill, interrupt) = (&text, &spill, &interrupt);
        let job = Job { args, arguments, text, limits, context, spill, printer, interrupt, started };
        job.run(cluster).await
    };
    let run = AssertUnwindSafe(run).catch_unwind();
    let status = runtime.block_on(run).unwrap_or_else(|panic| Err(Error::panic(panic.as_ref())));
    if status.as_ref().is_ok_and(|status| status.is_stopped()) && args.output.target().is_some() {
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

impl Job<'_> {
    /// Plans the query, and does with its rows what the command line asks for.
    async fn run(&self, cluster: Option<Arc<dyn Cluster>>) -> Result<ExitStatus> {
        let Self { args, context, printer, .. } = self;
        if args.output.plan.is_some() {
            tasks::prepare(context);
            tasks::set_tables(context, PlannedTables::recording());
        }
        if cluster.is_some() {
            cluster::prepare(context);
        }
        let query = match self.plan().await? {
            Ok(query) => query,
            Err(status) => return Ok(status),
        };
        for note in &query.notes {
            printer.note(note);
        }
        if args.output.writing.options().shuffle.is_some() && query.is_sorted_in_full() {
            printer.note("--shuffle undoes the ORDER BY of the query");
        }
        match form(args, cluster).run(self, query).await? {
            Ok(report) => report.map_or(Ok(()), |report| print_report(&report, args.rows.report, printer))?,
            Err(status) => return Ok(status),
        }
        Ok(ExitStatus::Done)
    }

    /// Plans the query. Returns the exit status instead after a signal.
    async fn plan(&self) -> Result<Result<Query, ExitStatus>> {
        let _planning = self.interrupt.plans();
        tokio::select! {
            query = Query::plan(&self.context, self.args, self.text, self.spill) => match self.interrupt.already() {
                // The request to stop explains the error, or makes it irrelevant.
                Some(status) => Ok(Err(status)),
                None => query.map(Ok),
            },
            status = self.interrupt.received() => Ok(Err(status)),
        }
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
