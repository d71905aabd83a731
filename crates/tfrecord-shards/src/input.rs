//! [`Inputs`]: the TFRecord files that paths lead to, and what manifests tell of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tfrecord_framing::Compression;

use crate::commit::Leftover;
use crate::error::{AtPath, Error, ErrorKind, Result};
use crate::finding::{Finding, FindingKind};
use crate::manifest::{Manifest, ShardEntry};
use crate::names::{MANIFEST_NAME, SUCCESS_NAME, ShardName};
use crate::staging;

/// What files that lie beside shards, and are none, end in: sidecars for other tools, indexes, notes.
const SIDECARS: [&str; 12] =
    ["json", "pbtxt", "pb", "py", "html", "idx", "tfindex", "index", "txt", "md", "csv", "crc"];

/// A TFRecord file to read.
#[derive(Debug, Clone)]
pub(crate) struct InputFile {
    pub(crate) path: PathBuf,
    /// Bytes of the file.
    pub(crate) len: u64,
    /// The set that lists it, and its place there.
    pub(crate) listed: Option<(Arc<Manifest>, usize)>,
    /// Whether it was named itself, and not found in a directory.
    pub(crate) named: bool,
    /// What its records have in common and do not tell themselves: the split, and the `key=value` directories that the
    /// file lies in. Of a file that was named itself the user knows.
    pub(crate) group: Option<String>,
}

impl InputFile {
    /// What the manifest tells of it.
    pub(crate) fn entry(&self) -> Option<&ShardEntry> {
        self.listed.as_ref().and_then(|(manifest, index)| manifest.shards.get(*index))
    }

    /// The compression that the manifest tells, or else the file's name.
    pub(crate) fn expected_compression(&self) -> Option<Compression> {
        if let Some((manifest, _)) = &self.listed {
            return Some(manifest.compression);
        }
        match self.path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "gz" | "gzip" => Some(Compression::Gzip),
            "zlib" | "zz" => Some(Compression::Zlib),
            _ => None,
        }
    }
}

/// The TFRecord files that files and directories lead to: of a set the shards that its manifest lists, in its order; of
/// another directory all files in it and below, by name, but for hidden ones and sidecars. And what is wrong with the
/// directories: shards that are missing, what killed runs have left.
///
/// # Errors
/// When a path leads to no file and no directory.
pub fn files(paths: &[PathBuf]) -> Result<(Vec<PathBuf>, Vec<Finding>)> {
    let Inputs { files, findings, .. } = Inputs::find(paths)?;
    Ok((files.into_iter().map(|file| file.path).collect(), findings))
}

/// Whether a file in a directory is passed over: hidden, a mark of a tool, or a sidecar.
fn is_passed_over(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let extension = Path::new(name.as_ref()).extension().and_then(OsStr::to_str).unwrap_or_default();
    name.starts_with(['.', '_']) || SIDECARS.contains(&extension.to_ascii_lowercase().as_str())
}

/// Whether a file's name is one that shards have, of ours or of others.
fn is_shard_name(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    !is_passed_over(name.as_ref().as_ref()) && (name.parse::<ShardName>().is_ok() || name.contains(".tfrec"))
}

/// What the records of a file in a directory have in common: see [`InputFile::group`].
fn group(path: &Path, listed: Option<&ShardEntry>) -> String {
    let split = listed.and_then(|shard| shard.split.as_deref());
    let dirs = path.parent().unwrap_or(Path::new(""));
    let keys = dirs.iter().map(OsStr::to_string_lossy).filter(|name| name.contains('='));
    split.map(Into::into).into_iter().chain(keys).collect::<Vec<_>>().join("/")
}

/// Something in a directory.
struct Entry {
    path: PathBuf,
    is_dir: bool,
    len: u64,
}

/// The files that paths lead to.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    /// The files, in the order in which they were named; those of a set in its order, others of a directory by name.
    pub(crate) files: Vec<InputFile>,
    /// What is wrong with directories and manifests.
    pub(crate) findings: Vec<Finding>,
    /// The files and directories met, by their resolved paths, so that none is taken twice.
    met: BTreeSet<PathBuf>,
    /// Manifests beside files that were named themselves, by directory.
    beside: BTreeMap<PathBuf, Option<Arc<Manifest>>>,
}

impl Inputs {
    /// Finds the files. A file that is met twice is taken once.
    ///
    /// # Errors
    /// When a path leads to no file and no directory.
    pub(crate) fn find(paths: &[PathBuf]) -> Result<Self> {
        let mut inputs = Self::default();
        for path in paths {
            let metadata = fs::metadata(path).at("open", path)?;
            if metadata.is_dir() {
                inputs.add_leftovers(staging::beside_of(path));
                inputs.add_directory(path);
            } else {
                inputs.add_named(path, metadata.len());
            }
        }
        Ok(inputs)
    }

    fn meet(&mut self, path: &Path) -> bool {
        // What cannot be resolved cannot be opened either, which is found out then.
        fs::canonicalize(path).map_or(true, |path| self.met.insert(path))
    }

    fn add_named(&mut self, path: &Path, len: u64) {
        if !self.meet(path) {
            return;
        }
        let dir = path.parent().unwrap_or(Path::new(""));
        let manifest = self.beside.entry(dir.to_owned()).or_insert_with(|| {
            // A file that was named itself is read whatever is beside it.
            Manifest::read(dir).ok().map(Arc::new)
        });
        let listed = manifest.as_ref().and_then(|manifest| {
            let is_it = |shard: &ShardEntry| path.file_name().is_some_and(|name| name == OsStr::new(&shard.path));
            Some((Arc::clone(manifest), manifest.shards.iter().position(is_it)?))
        });
        self.files.push(InputFile { path: path.to_owned(), len, listed, named: true, group: None });
    }

    /// Adds what is in a directory and below.
    fn add_directory(&mut self, dir: &Path) {
        if !self.meet(dir) {
            return;
        }
        match Manifest::read(dir) {
            Ok(manifest) => return self.add_set(dir, Arc::new(manifest)),
            Err(error) if matches!(error.kind(), ErrorKind::NoManifest { .. }) => {}
            Err(error) => self.find_unreadable(&dir.join(MANIFEST_NAME), error),
        }
        if let Some(leftover) = staging::inside(dir).unwrap_or_default().pop() {
            self.findings.push(Finding::new(dir, FindingKind::Unpublished { run: leftover.run }));
        }
        self.add_leftovers(staging::beside_any(dir));
        for Entry { path, is_dir, len } in self.entries(dir) {
            if is_dir {
                self.add_directory(&path);
            } else if self.meet(&path) {
                let group = Some(group(&path, None));
                self.files.push(InputFile { path, len, listed: None, named: false, group });
            }
        }
    }

    fn add_set(&mut self, dir: &Path, manifest: Arc<Manifest>) {
        self.add_leftovers(staging::inside(dir));
        if !dir.join(SUCCESS_NAME).is_file() {
            self.findings.push(Finding::new(dir, FindingKind::NoSuccess));
        }
        for (index, shard) in manifest.shards.iter().enumerate() {
            let path = dir.join(&shard.path);
            match fs::metadata(&path) {
                Ok(metadata) if self.meet(&path) => {
                    let listed = Some((Arc::clone(&manifest), index));
                    let group = Some(group(&path, Some(shard)));
                    self.files.push(InputFile { path, len: metadata.len(), listed, named: false, group });
                }
                Ok(_) => {}
                Err(_) => self.findings.push(Finding::new(&path, FindingKind::MissingShard)),
            }
        }
        self.add_unlisted(dir);
    }

    /// Notes shards in and below the directory of a set that the set does not list.
    fn add_unlisted(&mut self, dir: &Path) {
        for Entry { path, is_dir, .. } in self.entries(dir) {
            if is_dir {
                if self.meet(&path) {
                    self.add_unlisted(&path);
                }
            } else if path.file_name().is_some_and(is_shard_name) && self.meet(&path) {
                self.findings.push(Finding::new(&path, FindingKind::UnlistedShard));
            }
        }
    }

    fn add_leftovers(&mut self, leftovers: Result<Vec<Leftover>>) {
        // Where nothing can be listed there is more to complain about than leftovers.
        for Leftover { path, run, live } in leftovers.unwrap_or_default() {
            if !live && self.meet(&path) {
                self.findings.push(Finding::new(&path, FindingKind::Leftover { run }));
            }
        }
    }

    fn find_unreadable(&mut self, path: &Path, error: Error) {
        self.findings.push(Finding::new(path, FindingKind::Unreadable(error)));
    }

    /// The files and directories in a directory that are not passed over, by name. Links are followed, but not to a
    /// directory that has been met.
    fn entries(&mut self, dir: &Path) -> Vec<Entry> {
        let list = || -> io::Result<Vec<Entry>> {
            let mut entries = Vec::new();
            for entry in fs::read_dir(dir)? {
                let path = entry?.path();
                if path.file_name().is_none_or(is_passed_over) {
                    continue;
                }
                // A link that leads nowhere is not a file.
                let Ok(metadata) = fs::metadata(&path) else { continue };
                if metadata.is_dir() || metadata.is_file() {
                    entries.push(Entry { path, is_dir: metadata.is_dir(), len: metadata.len() });
                }
            }
            entries.sort_by(|one, other| one.path.cmp(&other.path));
            Ok(entries)
        };
        list().at("list", dir).unwrap_or_else(|error| {
            self.find_unreadable(dir, error);
            Vec::new()
        })
    }
}
