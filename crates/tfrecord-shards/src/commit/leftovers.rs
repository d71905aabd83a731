//! Lists and removes what killed runs left behind of a set or a table.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use crate::commit::directory_scan::{DirectoryScan, Ours};
use crate::commit::publication::{Leftover, SetState};
use crate::commit::staging;
use crate::commit::staging::{lock_set, remove_empty};
use crate::commit::staging_names;
use crate::commit::target::{check, resolve};
use crate::error::Result;
use crate::set::manifest::Manifest;

/// Lists what killed or running runs have next to and in `out`: staging directories, sets about to be replaced, and
/// shards about to be appended.
///
/// # Errors
/// If a directory cannot be listed.
pub fn leftovers(out: impl AsRef<Path>) -> Result<Vec<Leftover>> {
    let (out, _) = resolve(out.as_ref())?;
    let mut found = staging::all(&out)?;
    let orphans = orphans(&out, &found)?.0;
    found.extend(orphans);
    Ok(found)
}

/// The result of [`remove_leftovers`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RemovedLeftovers {
    /// What was removed.
    pub removed: Vec<Leftover>,
    /// What was retained: leftovers of running runs, directories with files written by other tools, and, as long as the
    /// target is incomplete, a set or table that a killed run was about to replace.
    pub kept: Vec<Leftover>,
}

/// Removes what killed runs left behind next to and in `out`. The set in `out` is not changed.
///
/// # Errors
/// If something cannot be listed or removed.
pub fn remove_leftovers(out: impl AsRef<Path>) -> Result<RemovedLeftovers> {
    let (out, _) = resolve(out.as_ref())?;
    let state = if out.is_file() { SetState::Foreign } else { check(&out)? };
    let is_whole = matches!(state, SetState::Whole(_));
    // While this lock is held, no appending run has shards in the set that the manifest does not list yet.
    let lock = if is_whole { lock_set(&out, None) } else { None };
    remove_unlisted(&out, &state, lock.is_some())
}

/// Removes what killed runs left behind next to and in the set at `out`, which this run has changed. Without the lock of the
/// set, shards of other runs are retained.
pub(crate) fn remove_from_set(out: &Path, is_locked: bool) -> Result<()> {
    remove_unlisted(out, &check(out)?, is_locked).map(drop)
}

fn remove_unlisted(out: &Path, state: &SetState, is_locked: bool) -> Result<RemovedLeftovers> {
    let is_whole = matches!(state, SetState::Whole(_));
    let found = staging::all(out)?;
    let (orphans, directories) = orphans(out, &found)?;
    let has_live = found.iter().any(|leftover| leftover.live);
    let mut result = RemovedLeftovers::default();
    for leftover in found {
        // A set or table moved aside to be replaced is retained until the target is complete.
        let is_replaced = (is_whole || !staging::keeps_replaced(&leftover))
            && (!matches!(state, SetState::Absent) || !staging::keeps_replaced_table(&leftover));
        let removed = !leftover.live && is_replaced && staging::remove(out, &leftover)?;
        if removed { &mut result.removed } else { &mut result.kept }.push(leftover);
    }
    // Without a lock, only the running runs show that one may be appending.
    let is_safe = is_whole && (is_locked || !has_live);
    for orphan in orphans {
        let is_hidden = orphan.path.file_name().and_then(OsStr::to_str).and_then(staging_names::hidden_run).is_some();
        if (is_safe || is_hidden) && !orphan.live {
            staging::remove_file(&orphan.path)?;
            result.removed.push(orphan);
        } else {
            result.kept.push(orphan);
        }
    }
    if is_safe {
        remove_empty(out, &directories);
    }
    Ok(result)
}

/// Returns shards in the set at `out` that its manifest does not list and whose names contain the id of an appending
/// run; files that the last run has replaced and not removed; files that were about to replace others; and the
/// directories of partitions.
fn orphans(out: &Path, staged: &[Leftover]) -> Result<(Vec<Leftover>, Vec<String>)> {
    // Without a readable manifest, only files with hidden names are known to be ours.
    let Some(manifest) = Manifest::read(out).ok() else {
        let entries = fs::read_dir(out).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        return Ok((with_lives(names.filter_map(|name| hidden(out, &name)).collect(), staged), Vec::new()));
    };
    let runs = staged.iter().map(|leftover| leftover.run.clone()).collect();
    let (listed, own) = (manifest.file_names(), manifest.own_names());
    let ours = Ours { listed: own, has_manifest: true, runs };
    let scan = DirectoryScan::of(out, &ours)?;
    let orphan = |path: &String| {
        // What a manifest records as replaced, its last run has replaced: each run removes that of the one before.
        let is_replaced = ours.listed.contains(path) && !listed.contains(path);
        let run = || if is_replaced { Some(manifest.last_run()) } else { ours.orphan(path) };
        let shard = || Some(Leftover { path: out.join(path), run: run()?.to_owned(), live: false });
        hidden(out, path).or_else(shard)
    };
    Ok((with_lives(scan.ours.iter().filter_map(orphan).collect(), staged), scan.directories))
}

/// Returns the file at `path` below `out` as a leftover if, by its hidden name, it was about to replace another file.
fn hidden(out: &Path, path: &str) -> Option<Leftover> {
    let run = staging_names::hidden_run(path.rsplit('/').next()?)?;
    let path = out.join(path);
    Some(Leftover { live: staging::is_live(&path), path, run: run.to_owned() })
}

/// Marks all leftovers of a run as live if any of them is.
fn with_lives(mut orphans: Vec<Leftover>, staged: &[Leftover]) -> Vec<Leftover> {
    let live: BTreeSet<_> =
        orphans.iter().chain(staged).filter(|left| left.live).map(|left| left.run.clone()).collect();
    orphans.iter_mut().for_each(|orphan| orphan.live = live.contains(&orphan.run));
    orphans
}
