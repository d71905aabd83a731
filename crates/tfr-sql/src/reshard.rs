//! `reshard`: the records of files as a new set, as they are.

use std::sync::Arc;

use tfrecord_shards::{Reshard, RewriteOptions, reshard};

use crate::cli::{ReshardArgs, ShardArgs};
use crate::error::{Error, Result};
use crate::exit::ExitStatus;
use crate::inputs;
use crate::report::{Outcome, Report, ShardsReport};
use crate::tool::Work;

/// Moves the records.
pub fn run(args: &ReshardArgs, mut work: Work<'_>) -> Result<ExitStatus> {
    let paths = inputs::expand(&args.paths)?;
    let (out, mut options) = (args.out.clone(), rewrite_options(&args.shards));
    let moved = work.with_progress(args.threads, move |progress, pool| {
        options.pool = Some(Arc::clone(pool));
        reshard(&paths, &out, &options, progress)
    })?;
    let Reshard { manifest, findings, .. } = match moved {
        Ok(moved) => moved,
        Err(status) => {
            work.printer.note("stopped; nothing was written");
            return Ok(status);
        }
    };
    let warnings: Vec<_> = findings.iter().map(ToString::to_string).collect();
    warnings.iter().for_each(|warning| work.printer.warning(warning));
    let outcome = Outcome::Shards(ShardsReport::new(&args.out, &manifest, warnings));
    let report = Report::new(outcome, work.started.elapsed());
    work.printer.note(report.summary());
    if args.report.is_some() {
        work.printer.data(report.to_json().as_bytes()).map_err(Error::Stdout)?;
    }
    Ok(ExitStatus::Done)
}

/// What the options say of the new shards.
pub fn rewrite_options(shards: &ShardArgs) -> RewriteOptions {
    let mut options = RewriteOptions::default();
    options.sharding = shards.sharding();
    options.compression = shards.compression;
    options.level = shards.level();
    options.prefix.clone_from(&shards.prefix);
    options.mode = shards.mode();
    options
}
