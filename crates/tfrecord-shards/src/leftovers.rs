//! What killed runs have left of a set or a table, told and removed.

use std::path::Path;

use crate::commit::{Leftover, SetState};
use crate::error::Result;
use crate::local::{lock_set, remove_empty};
use crate::manifest::Manifest;
use crate::staging;
use crate::survey::{Ours, Survey};
use crate::target::{check, resolve};

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
        if is_safe && !orphan.live {
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

/// Shards in the set at `out` that its manifest does not list, and that their names tell to be of a run that appended; and
/// the directories of partitions.
fn orphans(out: &Path, staged: &[Leftover]) -> Result<(Vec<Leftover>, Vec<String>)> {
    // Where the manifest cannot be understood, nobody knows what is ours.
    let Some(manifest) = Manifest::read(out).ok() else { return Ok(Default::default()) };
    let runs = staged.iter().map(|leftover| leftover.run.clone()).collect();
    let ours = Ours { listed: manifest.file_names(), has_manifest: true, runs };
    let survey = Survey::of(out, &ours)?;
    let orphan = |path: &String| {
        let run = ours.orphan(path)?;
        let live = staged.iter().any(|leftover| leftover.live && leftover.run == run);
        Some(Leftover { path: out.join(path), run: run.to_owned(), live })
    };
    Ok((survey.ours.iter().filter_map(orphan).collect(), survey.directories))
}
