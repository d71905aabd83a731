//! [`PrefixScan`]: the files under the prefix of a set, divided into ours and those written by other tools.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;

use super::{Occupant, StoredManifest, control_object};
use crate::commit::save_mode::SaveMode;
use crate::commit::target::{NAMES_SHOWN, is_hidden};
use crate::error::{ErrorKind, Result};
use crate::set::names::ObjectNames;
use crate::set::{MANIFEST_NAME, SUCCESS_NAME};

/// Scans the files under a prefix, path by path, and rejects those that the mode does not replace or append to.
///
/// Files of ours are those that the manifest lists, those that it records as replaced, and those with a run id in their
/// names. A run that was killed, failed or was superseded may have completed the latter without a manifest.
#[derive(Debug)]
pub struct PrefixScan {
    mode: SaveMode,
    manifest: Option<StoredManifest>,
    /// The files that the manifest lists or records as replaced.
    listed: BTreeSet<String>,
    replaced: BTreeSet<String>,
    /// Shards that no manifest lists, next to a set that stays.
    orphans: Vec<String>,
    success: bool,
    /// Files of ours, with their lengths.
    ours: BTreeMap<String, u64>,
    /// Up to three files of other tools.
    foreign: Vec<String>,
    /// Up to three hidden ones, which a message names last.
    hidden: Vec<String>,
}

impl PrefixScan {
    /// Starts a scan. The manifest under the prefix must be read before the files are listed.
    pub fn new(mode: SaveMode, manifest: Option<&StoredManifest>) -> Self {
        Self {
            mode,
            manifest: manifest.cloned(),
            listed: manifest.map(|stored| stored.manifest.file_names()).unwrap_or_default(),
            replaced: manifest.map(|stored| stored.manifest.replaced.iter().cloned().collect()).unwrap_or_default(),
            orphans: Vec::new(),
            success: false,
            ours: BTreeMap::new(),
            foreign: Vec::new(),
            hidden: Vec::new(),
        }
    }

    /// Whether a file is replaced or added to. Next to a set that is added to, files of other tools are allowed.
    fn is_ours(&self, path: &str) -> bool {
        match self.mode {
            SaveMode::Error | SaveMode::Ignore => false,
            SaveMode::Append | SaveMode::OverwritePartitions => self.listed.contains(path),
            SaveMode::Overwrite => {
                self.listed.contains(path) || self.replaced.contains(path) || ObjectNames::has_run_id(path)
            }
        }
    }

    /// Adds a file, by its path relative to the prefix and its length. Breaks if the result is decided. Skips
    /// [control objects](super::ControlName).
    pub fn add(&mut self, path: String, bytes: u64) -> ControlFlow<()> {
        if control_object(&path).is_some() {
            return ControlFlow::Continue(());
        }
        if !self.is_ours(&path) {
            if self.mode.keeps_set() && self.manifest.is_some() {
                let is_orphan = !self.replaced.contains(&path) && ObjectNames::has_run_id(&path);
                if self.mode == SaveMode::OverwritePartitions && is_orphan {
                    self.orphans.push(path);
                }
            } else {
                match is_hidden(&path) {
                    false => self.foreign.push(path),
                    true if self.hidden.len() < NAMES_SHOWN => self.hidden.push(path),
                    true => {}
                }
            }
        } else if path == SUCCESS_NAME {
            self.success = true;
        } else if path != MANIFEST_NAME {
            self.ours.insert(path, bytes);
        }
        if self.foreign.len() < NAMES_SHOWN { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// Returns the contents of the prefix `out`, which errors name.
    ///
    /// # Errors
    /// [`ErrorKind::NotEmpty`], [`ErrorKind::ForeignFiles`] or [`ErrorKind::NotAppendable`].
    pub fn finish(mut self, out: &Path) -> Result<Occupant> {
        let path = out.to_owned();
        self.foreign.append(&mut self.hidden);
        self.foreign.truncate(NAMES_SHOWN);
        match self.mode {
            SaveMode::Error if !self.foreign.is_empty() => {
                Err(ErrorKind::NotEmpty { path, found: self.foreign }.into())
            }
            SaveMode::Overwrite | SaveMode::Append | SaveMode::OverwritePartitions if !self.foreign.is_empty() => {
                Err(ErrorKind::ForeignFiles { path, files: self.foreign }.into())
            }
            SaveMode::Ignore if !self.foreign.is_empty() => Ok(Occupant::Ignored { found: self.foreign }),
            SaveMode::Append | SaveMode::OverwritePartitions => {
                let Some(stored) = self.manifest else { return Ok(Occupant::Vacant) };
                match stored.manifest.disagreement(|path| self.ours.get(path).copied(), self.success) {
                    Some(disagreement) => {
                        let why = format!("the set is not complete: {disagreement}");
                        Err(ErrorKind::NotAppendable { path, why }.into())
                    }
                    None => Ok(Occupant::Set { stored: Box::new(stored), orphans: self.orphans }),
                }
            }
            _ if self.manifest.is_none() && self.ours.is_empty() => Ok(Occupant::Vacant),
            _ => {
                // Includes listed files that are missing. Otherwise, a file being completed right now for a manifest
                // about to be replaced would have no owner.
                let listed = self.listed.into_iter().filter(|path| path != SUCCESS_NAME && path != MANIFEST_NAME);
                let files = listed.chain(self.ours.into_keys()).collect();
                let manifest = self.manifest.map(|stored| stored.version);
                Ok(Occupant::Ours { manifest, success: self.success, files })
            }
        }
    }
}
