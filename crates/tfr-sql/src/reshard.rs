//! `reshard`: writes the records of files as a new shard set, unchanged.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tfrecord_shards::{ErrorKind, Preflight, Reshard, RewriteOptions, SaveMode, preflight, reshard};

use crate::cli::{Declared, Moving, ReportFormat, ReshardArgs};
use crate::error::{Error, Result};
use crate::exit::ExitStatus;
use crate::inputs;
use crate::report::{IgnoredReport, Outcome, Report, ShardsReport};
use crate::tool::Work;

/// Moves the records.
pub fn run(args: &ReshardArgs, mut work: Work<'_>) -> Result<ExitStatus> {
    let inputs = match inputs::open(&args.paths, &args.stores, &mut work)? {
        Ok(inputs) => inputs,
        Err(status) => return Ok(status),
    };
    let (out, mut options) = (args.out.clone(), rewrite_options(&args.shards));
    let mode = options.mode;
    if let Some(existing) = existing_output(&args.out, mode, &inputs::local(&inputs))? {
        return report_outcome(existing, args.report, &work);
    }
    let moved = work.with_progress(args.threads, move |progress, pool| {
        options.pool = Some(Arc::clone(pool));
        reshard(&inputs, &out, &options, progress)
    });
    if let Some(existing) = concurrent_output(&args.out, mode, &moved) {
        return report_outcome(existing, args.report, &work);
    }
    let Reshard { manifest, findings, .. } = match moved? {
        Ok(moved) => moved,
        Err(status) => {
            work.printer.note("stopped; nothing was written");
            return Ok(status);
        }
    };
    let warnings: Vec<_> = findings.iter().map(ToString::to_string).collect();
    warnings.iter().for_each(|warning| work.printer.warning(warning));
    let outcome = Outcome::Shards(ShardsReport::new(&args.out, &manifest, warnings));
    report_outcome(outcome, args.report, &work)
}

/// Returns the existing output that `--mode ignore` leaves unchanged, if there is one.
pub fn existing_output(out: &Path, mode: SaveMode, inputs: &[PathBuf]) -> Result<Option<Outcome>> {
    Ok(match preflight(out, mode, inputs)? {
        Preflight::Ignore { found } => Some(Outcome::Ignored(IgnoredReport::new(out, found))),
        _ => None,
    })
}

/// Like [`existing_output`], if another run has published a set during this one.
pub fn concurrent_output<T>(out: &Path, mode: SaveMode, written: &Result<T>) -> Option<Outcome> {
    match written {
        Err(Error::Shards(error)) if mode == SaveMode::Ignore => match error.kind() {
            ErrorKind::NotEmpty { found, .. } => Some(Outcome::Ignored(IgnoredReport::new(out, found.clone()))),
            _ => None,
        },
        _ => None,
    }
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
pub fn rewrite_options(shards: &Declared<Moving>) -> RewriteOptions {
    let write = shards.options();
    let mut options = RewriteOptions::default();
    options.sharding = write.sharding;
    options.compression = write.compression;
    options.level = write.level;
    options.prefix = write.prefix;
    options.mode = write.mode;
    options
}
