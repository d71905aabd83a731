//! `verify`: what is wrong with files and sets, a line for each thing.

use tfrecord_shards::{Finding, FindingKind, Verification, verify};

use crate::cli::VerifyArgs;
use crate::error::{Error, Result};
use crate::exit::ExitStatus;
use crate::inputs;
use crate::report::{FindingReport, Outcome, Report, VerifyReport};
use crate::tool::Work;

/// Checks files and sets.
pub fn run(args: &VerifyArgs, mut work: Work<'_>) -> Result<ExitStatus> {
    let paths = inputs::expand(&args.paths)?;
    let verified = work.with_progress(args.threads, move |progress, _| verify(&paths, progress))?;
    let Verification { files, records, framed_bytes, file_bytes, findings, .. } = match verified {
        Ok(verification) => verification,
        Err(status) => return Ok(status),
    };
    let is_sound = findings.is_empty();
    let text = match args.report {
        None => lines(&findings),
        Some(_) => String::new(),
    };
    let findings = findings.iter().map(finding).collect();
    let outcome = VerifyReport { ok: is_sound, files, records, framed_bytes, file_bytes, findings };
    let report = Report::new(Outcome::Verify(outcome), work.started.elapsed());
    let text = if args.report.is_some() { report.to_json() } else { text };
    work.printer.data(text.as_bytes()).map_err(Error::Stdout)?;
    work.printer.note(report.summary());
    Ok(if is_sound { ExitStatus::Done } else { ExitStatus::Failed })
}

/// A line for each finding.
pub fn lines(findings: &[Finding]) -> String {
    // A name with a line end in it must not look like two findings.
    findings.iter().map(|finding| finding.to_string().replace('\n', "\\n") + "\n").collect()
}

/// A finding for a program.
pub fn finding(finding: &Finding) -> FindingReport {
    let mut report = FindingReport {
        path: finding.path.display().to_string(),
        kind: kind(&finding.kind),
        text: finding.to_string(),
        record: None,
        byte: None,
        bytes: None,
    };
    match &finding.kind {
        FindingKind::Damage(damage) => {
            report.record = Some(damage.record);
            report.byte = Some(damage.range.start);
            report.bytes = Some(damage.range.end - damage.range.start);
        }
        FindingKind::MoreDamage { bytes, .. } => report.bytes = Some(*bytes),
        _ => {}
    }
    report
}

fn kind(kind: &FindingKind) -> &'static str {
    match kind {
        FindingKind::Damage(_) | FindingKind::MoreDamage { .. } => "damage",
        FindingKind::WrongCompression { .. } => "wrong-compression",
        FindingKind::Unreadable(_) => "unreadable",
        FindingKind::Figures { .. } => "figures",
        FindingKind::MixedForms(_) => "mixed-forms",
        FindingKind::MissingShard => "missing-shard",
        FindingKind::UnlistedShard => "unlisted-shard",
        FindingKind::NoSuccess => "no-success",
        FindingKind::Unpublished { .. } => "unpublished",
        FindingKind::Leftover { .. } => "leftover",
        _ => "other",
    }
}
