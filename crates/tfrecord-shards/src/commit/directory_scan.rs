//! [`DirectoryScan`]: the entries of a directory, divided into ours and those written by other tools.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::commit::staging_names;
use crate::error::{AtPath, Result};
use crate::set::names::{RunId, run_id_in};

/// The criteria for files of ours in a directory.
#[derive(Debug, Default)]
pub(crate) struct Ours {
    /// The paths listed in manifests.
    pub(crate) listed: BTreeSet<String>,
    /// Whether there are manifests. If so, files with a run id in their names are ours too: a run killed during an
    /// append left them.
    pub(crate) has_manifest: bool,
    /// Runs known by their staging directories, whatever the form of their ids.
    pub(crate) runs: Vec<String>,
}

impl Ours {
    /// Creates criteria that match only the paths listed in manifests.
    pub(crate) fn listed(listed: BTreeSet<String>) -> Self {
        Self { listed, ..Self::default() }
    }

    fn has(&self, path: &str) -> bool {
        self.listed.contains(path) || (self.has_manifest && self.orphan(path).is_some())
    }

    /// Returns the run id in the name of a file of ours that no manifest lists: a shard, or a file that was about to
    /// replace another.
    pub(crate) fn orphan<'a>(&self, path: &'a str) -> Option<&'a str> {
        let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
        if let Some(run) = staging_names::hidden_run(name) {
            return Some(run);
        }
        let run = run_id_in(path)?;
        let is_known = RunId::is_generated(run) || self.runs.iter().any(|known| known == run);
        (is_known && !self.listed.contains(path)).then_some(run)
    }

    /// Whether a directory may contain files of ours.
    fn may_hold(&self, directory: &str, name: &str) -> bool {
        let inside = format!("{directory}/");
        let holds_listed = self.listed.range(inside.clone()..).next().is_some_and(|path| path.starts_with(&inside));
        holds_listed || (self.has_manifest && name.contains('='))
    }
}

/// The entries of a directory except staging directories, by path relative to it, with `/`.
#[derive(Debug, Default)]
pub(crate) struct DirectoryScan {
    /// Files of ours.
    pub(crate) ours: Vec<String>,
    /// All other entries. Paths of directories end with `/`.
    pub(crate) foreign: Vec<String>,
    /// Directories that may contain files of ours, parents first.
    pub(crate) directories: Vec<String>,
}

impl DirectoryScan {
    /// Scans `dir`. Links are not followed.
    pub(crate) fn of(dir: &Path, ours: &Ours) -> Result<Self> {
        let mut scan = Self::default();
        scan.add(dir, "", ours)?;
        scan.ours.sort();
        scan.foreign.sort();
        scan.directories.sort();
        Ok(scan)
    }

    fn add(&mut self, dir: &Path, below: &str, ours: &Ours) -> Result<()> {
        for entry in fs::read_dir(dir).at("list", dir)? {
            let entry = entry.at("list", dir)?;
            let is_dir = entry.file_type().at("inspect", &entry.path())?.is_dir();
            // A name that is not UTF-8 is converted to one that none of our manifests lists.
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_dir && below.is_empty() && staging_names::run_inside(&entry.file_name()).is_some() {
                continue;
            }
            let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
            match is_dir {
                true if ours.may_hold(&path, &name) => {
                    self.add(&entry.path(), &path, ours)?;
                    self.directories.push(path);
                }
                true => self.foreign.push(path + "/"),
                false if ours.has(&path) => self.ours.push(path),
                false => self.foreign.push(path),
            }
        }
        Ok(())
    }
}
