//! `verify`: checks files and shard sets, and prints a line for each finding.

use std::fs;
use std::path::PathBuf;

use tfr_stores::Service;
use tfrecord_shards::{
    Finding, FindingKind, Input, Leftover, MANIFEST_NAME, Verification, leftovers, remove_leftovers, verify,
};

use crate::access;
use crate::cli::{TableTarget, VerifyArgs};
use crate::error::finding_hint;
use crate::error::{Error, Result};
use crate::exit::ExitStatus;
use crate::inputs;
use crate::printer::escape_names;
use crate::report::{FindingReport, Outcome, Report, VerifyReport};
use crate::stored::ObjectStores;
use crate::tool::Work;

/// Checks files and shard sets.
pub fn run(args: &VerifyArgs, mut work: Work<'_>) -> Result<ExitStatus> {
    let removes = args.remove_leftovers;
    for path in args.paths.iter().filter(|path| removes && inputs::url(path).is_none()) {
        // What is left behind is in its parent, too.
        access::check_output(path, &work.door)?;
    }
    let Cleared { mut removed, left } = if removes {
        match remove_in_stores(args, &work)? {
            Ok(cleared) => cleared,
            Err(status) => return Ok(status),
        }
    } else {
        Cleared { removed: Vec::new(), left: args.paths.clone() }
    };
    let inputs = match inputs::open(&left, &args.stores, &mut work)? {
        Ok(inputs) => inputs,
        Err(status) => return Ok(status),
    };
    let verified = work.with_progress(args.threads, move |progress, _| {
        let Removed { leftovers: removed, tables, left } =
            if removes { remove(inputs)? } else { Removed { left: inputs, ..Default::default() } };
        let verification = if left.is_empty() { None } else { Some(verify(&left, progress)?) };
        Ok((removed, tables, verification))
    })?;
    let (local, tables, verification) = match verified {
        Ok(verified) => verified,
        Err(status) => return Ok(status),
    };
    removed.extend(local);
    for Leftover { path, run, .. } in &removed {
        work.printer.note(format!("removed {}: left behind by run {run}, which was killed", path.display()));
    }
    for table in tables {
        work.printer.note(format!("{}: not checked, because a table is not a TFRecord file", table.display()));
    }
    let Verification { files, records, framed_bytes, file_bytes, findings, .. } = verification.unwrap_or_default();
    let is_sound = findings.is_empty();
    let has_leftovers = findings.iter().any(|finding| matches!(finding.kind, FindingKind::Leftover { .. }));
    let text = match args.report {
        None => lines(&findings),
        Some(_) => String::new(),
    };
    let findings = findings.iter().map(finding).collect();
    let removed = args.remove_leftovers.then(|| removed.iter().map(|left| left.path.display().to_string()).collect());
    let outcome = VerifyReport { ok: is_sound, files, records, framed_bytes, file_bytes, removed, findings };
    let report = Report::new(Outcome::Verify(outcome), work.started.elapsed());
    let text = if args.report.is_some() { report.to_json() } else { text };
    work.printer.data(text.as_bytes()).map_err(Error::Stdout)?;
    work.printer.note(report.summary());
    for (path, run) in live_runs(&args.paths) {
        work.printer.note(format!("{}: run {run} is writing here", path.display()));
    }
    if has_leftovers && !args.remove_leftovers {
        work.printer.note("verify --remove-leftovers removes what killed runs have left");
    }
    Ok(if is_sound { ExitStatus::Done } else { ExitStatus::Failed })
}

/// Returns the local directories that live runs write or replace, each with a run.
fn live_runs(paths: &[PathBuf]) -> impl Iterator<Item = (&PathBuf, String)> {
    let directories = paths.iter().filter(|path| path.is_dir());
    directories.filter_map(|path| {
        let mut found = leftovers(path).ok()?.into_iter();
        Some((path, found.find(|leftover| leftover.live)?.run))
    })
}

/// The leftovers that were removed from object stores.
struct Cleared {
    removed: Vec<Leftover>,
    /// Paths and URLs to check.
    left: Vec<PathBuf>,
}

/// Removes leftovers in object stores. Returns the exit status instead after a signal.
fn remove_in_stores(args: &VerifyArgs, work: &Work<'_>) -> Result<Result<Cleared, ExitStatus>> {
    let mut stores = None;
    let (mut paths, mut removed) = (Vec::new(), Vec::new());
    for path in &args.paths {
        if let Some(url) = inputs::url(path) {
            let scheme = url.with_secrets().split_once("://").map(|(scheme, _)| Service::of(scheme));
            if !matches!(scheme, Some(Some(Service::S3 | Service::Gcs | Service::Azure))) {
                return Err(Error::RemoteInput { url });
            }
            let stores = match &stores {
                Some(stores) => stores,
                None => stores.insert(ObjectStores::new(args.stores.options(&work.door), work.reads.clone())?),
            };
            let found = match stores.remove_leftovers(&url, &work.interrupt)? {
                Ok(found) => found,
                Err(status) => return Ok(Err(status)),
            };
            let had_nothing_else = found.is_empty && !found.removed.is_empty();
            removed.extend(found.removed);
            if had_nothing_else {
                continue;
            }
        }
        paths.push(path.clone());
    }
    Ok(Ok(Cleared { removed, left: paths }))
}

/// The removed leftovers, and the remaining inputs to check.
#[derive(Default)]
struct Removed {
    leftovers: Vec<Leftover>,
    /// Tables in other formats, which cannot be checked.
    tables: Vec<PathBuf>,
    left: Vec<Input>,
}

/// Removes the leftovers of killed runs. Inputs that had nothing else need no check.
fn remove(inputs: Vec<Input>) -> tfrecord_shards::Result<Removed> {
    let mut removed = Removed::default();
    for input in inputs {
        let Input::Path(path) = &input else {
            removed.left.push(input);
            continue;
        };
        let found = remove_leftovers(path)?.removed;
        let is_table = TableTarget::of(path).is_some() && !path.join(MANIFEST_NAME).exists();
        // A directory for sorted rows stays, and is empty.
        let is_empty = fs::read_dir(path).map_or(!path.exists(), |mut entries| entries.next().is_none());
        match is_empty {
            false if is_table => removed.tables.push(path.clone()),
            true if !found.is_empty() => {}
            _ => removed.left.push(input),
        }
        removed.leftovers.extend(found);
    }
    Ok(removed)
}

/// Formats a line for each finding.
pub fn lines(findings: &[Finding]) -> String {
    // A name with a line end must not look like two findings, and none may control the terminal.
    findings.iter().map(|finding| escape_names(&text(finding)) + "\n").collect()
}

/// Formats a finding with its hint.
fn text(finding: &Finding) -> String {
    finding_hint(finding).map_or_else(|| finding.to_string(), |hint| format!("{finding}; {hint}"))
}

/// Returns a finding for the JSON report.
pub fn finding(finding: &Finding) -> FindingReport {
    let mut report = FindingReport {
        path: finding.path.display().to_string(),
        kind: kind(&finding.kind),
        text: text(finding),
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
        FindingKind::WrongContainer { .. } => "wrong-compression",
        FindingKind::Unreadable(_) => "unreadable",
        FindingKind::Figures { .. } => "figures",
        FindingKind::MixedForms(_) => "mixed-forms",
        FindingKind::UnmappedFeatures { .. } => "unmapped-features",
        FindingKind::ChangedManifest { .. } => "changed-manifest",
        FindingKind::MissingParts(_) => "missing-parts",
        FindingKind::SavedElements { .. } => "saved-elements",
        FindingKind::MissingShard => "missing-shard",
        FindingKind::UnlistedShard => "unlisted-shard",
        FindingKind::MissingSidecar => "missing-sidecar",
        FindingKind::ChangedSidecar => "changed-sidecar",
        FindingKind::NoSuccess => "no-success",
        FindingKind::Unpublished { .. } => "unpublished",
        FindingKind::Leftover { .. } => "leftover",
        _ => "other",
    }
}
