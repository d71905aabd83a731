//! What killed runs have left of a set or a table, told and removed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use crate::commit::directory_scan::{Ours, Survey};
use crate::commit::publication::{Leftover, SetState};
use crate::commit::staging;
use crate::commit::staging::{lock_set, remove_empty};
use crate::commit::staging_names;
use crate::commit::target::{check, resolve};
use crate::error::Result;
use crate::set::manifest::Manifest;

/// What runs that were killed, or are going on, have beside and in `out`: staging directories, what was about to be
/// replaced, and shards that were about to be appended.
///
/// # Errors
/// When a directory cannot be listed.
pub fn leftovers(out: impl AsRef<Path>) -> Result<Vec<Leftover>> {
    let (out, _) = resolve(out.as_ref())?;
    let mut found = staging::all(&out)?;
    let orphans = orphans(&out, &found)?.0;
    found.extend(orphans);
    Ok(found)
}

/// What [`remove_leftovers`] has done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RemovedLeftovers {
    /// What is gone.
    pub removed: Vec<Leftover>,
    /// What stays: of runs that are going on, what holds files of others, and, as long as the target is not whole, a set
    /// or table that a killed run was about to replace.
    pub kept: Vec<Leftover>,
}

/// Removes what killed runs have left beside and in `out`. The set there stays as it is.
///
/// # Errors
/// When something cannot be listed or removed.
pub fn remove_leftovers(out: impl AsRef<Path>) -> Result<RemovedLeftovers> {
    let (out, _) = resolve(out.as_ref())?;
    let state = if out.is_file() { SetState::Foreign } else { check(&out)? };
    let is_whole = matches!(state, SetState::Whole(_));
    // Nobody who appends has shards in the set that the manifest does not list yet, as long as this is held.
    let lock = if is_whole { lock_set(&out) } else { None };
    let found = staging::all(&out)?;
    let (orphans, directories) = orphans(&out, &found)?;
    let has_live = found.iter().any(|leftover| leftover.live);
    let mut result = RemovedLeftovers::default();
    for leftover in found {
        // What was moved aside to be replaced stays until something is in its place.
        let is_replaced = (is_whole || !staging::keeps_replaced(&leftover))
            && (!matches!(state, SetState::Absent) || !staging::keeps_replaced_table(&leftover));
        let removed = !leftover.live && is_replaced && staging::remove(&out, &leftover)?;
        if removed { &mut result.removed } else { &mut result.kept }.push(leftover);
    }
    // Without a lock, runs that are going on are all that tells that one may be appending.
    let is_safe = is_whole && (lock.is_some() || !has_live);
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
        remove_empty(&out, &directories);
    }
    Ok(result)
}

/// Shards in the set at `out` that its manifest does not list, and that their names tell to be of a run that appended, and what
/// runs were about to put in the place of other files; and the directories of partitions.
fn orphans(out: &Path, staged: &[Leftover]) -> Result<(Vec<Leftover>, Vec<String>)> {
    // Where the manifest cannot be understood, nobody knows what is ours, but by its hidden name.
    let Some(manifest) = Manifest::read(out).ok() else {
        let entries = fs::read_dir(out).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        return Ok((with_lives(names.filter_map(|name| hidden(out, &name)).collect(), staged), Vec::new()));
    };
    let runs = staged.iter().map(|leftover| leftover.run.clone()).collect();
    let ours = Ours { listed: manifest.file_names(), has_manifest: true, runs };
    let survey = Survey::of(out, &ours)?;
    let orphan = |path: &String| {
        let shard = || Some(Leftover { path: out.join(path), run: ours.orphan(path)?.to_owned(), live: false });
        hidden(out, path).or_else(shard)
    };
    Ok((with_lives(survey.ours.iter().filter_map(orphan).collect(), staged), survey.directories))
}

/// What a run was about to put in the place of another file, if the file at `path` below `out` is that by its name.
fn hidden(out: &Path, path: &str) -> Option<Leftover> {
    let run = staging_names::hidden_run(path.rsplit('/').next()?)?;
    let path = out.join(path);
    Some(Leftover { live: staging::is_live(&path), path, run: run.to_owned() })
}

/// A run of which anything is live lives.
fn with_lives(mut orphans: Vec<Leftover>, staged: &[Leftover]) -> Vec<Leftover> {
    let live: BTreeSet<_> =
        orphans.iter().chain(staged).filter(|left| left.live).map(|left| left.run.clone()).collect();
    orphans.iter_mut().for_each(|orphan| orphan.live = live.contains(&orphan.run));
    orphans
}
