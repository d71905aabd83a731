//! `salvage`: writes the sound records of damaged files as a new shard set, and prints a line for each finding.

use tfrecord_shards::{Input, Salvage, salvage};

use crate::cli::RewriteArgs;
use crate::error::{Error, Result};
use crate::exit::ExitStatus;
use crate::report::{Outcome, Report, SalvageReport, ShardsReport};
use crate::rewrite::rewrite;
use crate::tool::Work;
use crate::verify::{finding, lines};

/// Saves the sound records.
pub fn run(args: &RewriteArgs, mut work: Work<'_>) -> Result<ExitStatus> {
    let Salvage { manifest, findings, .. } = match rewrite(args, &mut work, salvage::<Input>)? {
        Ok(saved) => saved,
        Err(status) => return Ok(status),
    };
    let text = lines(&findings);
    let findings = findings.iter().map(finding).collect();
    let outcome = SalvageReport { shards: ShardsReport::new(&args.out, &manifest, Vec::new()), findings };
    let report = Report::new(Outcome::Salvage(outcome), work.started.elapsed());
    let text = if args.report.is_some() { report.to_json() } else { text };
    work.printer.data(text.as_bytes()).map_err(Error::Stdout)?;
    work.printer.note(report.summary());
    Ok(ExitStatus::Done)
}
