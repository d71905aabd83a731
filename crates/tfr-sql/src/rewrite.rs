//! What `reshard` and `salvage` have in common: they write the records of files as a new shard set.

use std::path::Path;
use std::sync::Arc;

use tfrecord_shards::{ErrorKind, Input, Preflight, Progress, RewriteOptions, SaveMode, preflight};

use crate::access;
use crate::cli::{Declared, Moving, ReportFormat, RewriteArgs};
use crate::error::{Error, Result};
use crate::exit::ExitStatus;
use crate::inputs;
use crate::report::{IgnoredReport, Outcome, Report};
use crate::tool::Work;

/// Writes the records by `rewrite`. Returns the exit status if nothing was written: the run was stopped, or there was an
/// output and `--mode ignore` leaves it unchanged.
pub fn rewrite<T: Send + 'static>(
    args: &RewriteArgs,
    work: &mut Work<'_>,
    rewrite: fn(&[Input], &Path, &RewriteOptions, &Progress) -> tfrecord_shards::Result<T>,
) -> Result<Result<T, ExitStatus>> {
    let inputs = match inputs::open(&args.paths, &args.stores, work)? {
        Ok(inputs) => inputs,
        Err(status) => return Ok(Err(status)),
    };
    access::check_output(&args.out, &work.door)?;
    let (out, mut options) = (args.out.clone(), rewrite_options(&args.shards));
    let mode = options.mode;
    if let Preflight::Ignore { found } = preflight(&out, mode, &inputs::local(&inputs))? {
        return ignored(args, found, work).map(Err);
    }
    let written = work.with_progress(args.threads, move |progress, pool| {
        options.pool = Some(Arc::clone(pool));
        rewrite(&inputs, &out, &options, progress)
    });
    // Another run has published a set during this one.
    if let Err(Error::Shards(error)) = &written
        && let ErrorKind::NotEmpty { found, .. } = error.kind()
        && mode == SaveMode::Ignore
    {
        return ignored(args, found.clone(), work).map(Err);
    }
    let written = written?;
    if written.is_err() {
        work.printer.note("stopped; nothing was written");
    }
    Ok(written)
}

/// Reports an output that `--mode ignore` leaves unchanged.
fn ignored(args: &RewriteArgs, found: Vec<String>, work: &Work<'_>) -> Result<ExitStatus> {
    report_outcome(Outcome::Ignored(IgnoredReport::new(&args.out, found)), args.report, work)
}

/// Reports the outcome.
pub fn report_outcome(outcome: Outcome, format: Option<ReportFormat>, work: &Work<'_>) -> Result<ExitStatus> {
    let report = Report::new(outcome, work.started.elapsed());
    work.printer.note(report.summary());
    if format.is_some() {
        work.printer.data(report.to_json().as_bytes()).map_err(Error::Stdout)?;
    }
    Ok(ExitStatus::Done)
}

/// Returns the options of the new shards.
fn rewrite_options(shards: &Declared<Moving>) -> RewriteOptions {
    let write = shards.options();
    let mut options = RewriteOptions::default();
    options.sharding = write.sharding;
    // A conflict was reported with the arguments.
    options.framing = write.framing().unwrap_or_default();
    options.prefix = write.prefix;
    options.mode = write.mode;
    options
}
