//! `reshard`: writes the records of files as a new shard set, unchanged.

use tfrecord_shards::{Input, Reshard, reshard};

use crate::cli::RewriteArgs;
use crate::error::Result;
use crate::exit::ExitStatus;
use crate::report::{Outcome, ShardsReport};
use crate::rewrite::{report_outcome, rewrite};
use crate::tool::Work;

/// Moves the records.
pub fn run(args: &RewriteArgs, mut work: Work<'_>) -> Result<ExitStatus> {
    let Reshard { manifest, findings, .. } = match rewrite(args, &mut work, reshard::<Input>)? {
        Ok(moved) => moved,
        Err(status) => return Ok(status),
    };
    let warnings: Vec<_> = findings.iter().map(ToString::to_string).collect();
    warnings.iter().for_each(|warning| work.printer.warning(warning));
    let outcome = Outcome::Shards(ShardsReport::new(&args.out, &manifest, warnings));
    report_outcome(outcome, args.report, &work)
}
