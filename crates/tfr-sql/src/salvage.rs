//! `salvage`: writes the sound records of damaged files as a new shard set, and prints a line for each finding.

use std::sync::Arc;

use tfrecord_shards::{Salvage, salvage};

use crate::cli::SalvageArgs;
use crate::error::{Error, Result};
use crate::exit::ExitStatus;
use crate::inputs;
use crate::report::{Outcome, Report, SalvageReport, ShardsReport};
use crate::reshard::{concurrent_output, existing_output, report_outcome, rewrite_options};
use crate::tool::Work;
use crate::verify::{finding, lines};

/// Saves the sound records.
pub fn run(args: &SalvageArgs, mut work: Work<'_>) -> Result<ExitStatus> {
    let inputs = match inputs::open(&args.paths, &args.stores, &mut work)? {
        Ok(inputs) => inputs,
        Err(status) => return Ok(status),
    };
    let (out, mut options) = (args.out.clone(), rewrite_options(&args.shards));
    let mode = options.mode;
    if let Some(existing) = existing_output(&args.out, mode, &inputs::local(&inputs))? {
        return report_outcome(existing, args.report, &work);
    }
    let saved = work.with_progress(args.threads, move |progress, pool| {
        options.pool = Some(Arc::clone(pool));
        salvage(&inputs, &out, &options, progress)
    });
    if let Some(existing) = concurrent_output(&args.out, mode, &saved) {
        return report_outcome(existing, args.report, &work);
    }
    let Salvage { manifest, findings, .. } = match saved? {
        Ok(saved) => saved,
        Err(status) => {
            work.printer.note("stopped; nothing was written");
            return Ok(status);
        }
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
