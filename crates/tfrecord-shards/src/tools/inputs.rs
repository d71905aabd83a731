//! [`Inputs`]: the TFRecord files found at paths, with their manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tfrecord_framing::{Compression, Container};

use crate::commit::publication::Leftover;
use crate::commit::{staging, target};
use crate::error::{AtPath, Error, ErrorKind, Result};
use crate::error::{Finding, FindingKind};
use crate::set::file_names::{is_array_record, is_ignored, is_shard};
use crate::set::manifest::{Manifest, ShardEntry};
use crate::set::names::{RunId, run_id_in};
use crate::set::parts::MissingParts;
use crate::set::{MANIFEST_NAME, SUCCESS_NAME};
use crate::tools::stored::{FileStore, Input, ReadSeek, StoredFiles};

/// A TFRecord file to read.
#[derive(Debug, Clone)]
pub(crate) struct InputFile {
    pub(crate) path: PathBuf,
    /// Length of the file in bytes.
    pub(crate) len: u64,
    /// The set that lists it, and its number there.
    pub(crate) listed: Option<(Arc<Manifest>, usize)>,
    /// Whether the user named it, rather than a directory that contains it.
    pub(crate) named: bool,
    /// The properties that its records share but do not contain: the split, and the `key=value` directories of the
    /// file. `None` for a file that the user named.
    pub(crate) group: Option<String>,
    /// Its store, if it is not in the file system.
    pub(crate) store: Option<Arc<dyn FileStore>>,
}

impl InputFile {
    /// Opens it.
    pub(crate) fn open(&self) -> Result<Box<dyn Read + Send>> {
        self.open_beside(&self.path).at("open", &self.path)
    }

    /// Opens it for reading at any position; `None` if it is in a store that cannot do that.
    pub(crate) fn open_seekable(&self) -> Result<Option<Box<dyn ReadSeek>>> {
        let opened = match &self.store {
            Some(store) => store.open_seekable(&self.path),
            None => Some(File::open(&self.path).map(|file| Box::new(file) as Box<dyn ReadSeek>)),
        };
        opened.transpose().at("open", &self.path)
    }

    /// Opens another file of the same store.
    pub(crate) fn open_beside(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        match &self.store {
            Some(store) => store.open(path),
            None => Ok(Box::new(File::open(path)?)),
        }
    }

    /// Returns the directory of the set that lists it, or the file itself if none does.
    pub(crate) fn origin(&self) -> &Path {
        let depth = self.entry().map_or(0, |shard| Path::new(&shard.path).components().count());
        match self.path.ancestors().nth(depth) {
            Some(path) if !path.as_os_str().is_empty() => path,
            _ => Path::new("."),
        }
    }

    /// Returns its manifest entry.
    pub(crate) fn entry(&self) -> Option<&ShardEntry> {
        self.listed.as_ref().and_then(|(manifest, index)| manifest.shards.get(*index))
    }

    /// Whether it should be compressed, or an ArrayRecord file, so that it has some bytes even if it contains no record. A shard that is read as
    /// one of its set has the length that the manifest lists.
    pub(crate) fn cannot_be_empty(&self) -> bool {
        let is_compressed = self.expected_container().is_some_and(|expected| !expected.is_plain());
        is_compressed && (self.listed.is_none() || self.named)
    }

    /// Whether it was cut to nothing.
    fn is_cut(&self) -> bool {
        // A pipe has no length.
        let is_file = || self.store.is_some() || self.path.is_file();
        self.len == 0 && self.cannot_be_empty() && is_file()
    }

    /// Returns the container that the manifest, or else the file name, specifies.
    pub(crate) fn expected_container(&self) -> Option<Container> {
        if let Some((manifest, _)) = &self.listed {
            return Some(manifest.container());
        }
        if is_array_record(self.path.file_name()?.to_str()?) {
            return Some(Container::ArrayRecord);
        }
        match self.path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "gz" | "gzip" => Some(Compression::Gzip.into()),
            "deflate" | "zlib" | "zz" => Some(Compression::Zlib.into()),
            _ => None,
        }
    }
}

/// Finds the TFRecord files at paths. In a set these are the shards that its manifest lists, in its order. In another
/// directory they are all files in it and below, by name, except hidden ones and sidecars. Also returns the defects of
/// directories: shards that are missing or have another length than the manifest lists, a manifest that was changed,
/// leftovers of killed runs. A file found twice is returned once. A path that is named
/// itself may be a pipe.
///
/// # Errors
/// If a path does not exist.
pub fn files<I: Clone + Into<Input>>(inputs: &[I]) -> Result<(Vec<PathBuf>, Vec<Finding>)> {
    let Inputs { files, findings, .. } = Inputs::locate(&Input::all(inputs))?.with_lengths();
    Ok((files.into_iter().map(|file| file.path).collect(), findings))
}

/// Returns the first path named.
pub(crate) fn first_path(inputs: &[Input]) -> PathBuf {
    inputs.first().map(|input| input.path().to_owned()).unwrap_or_default()
}

/// Returns the possible directories of a manifest that lists the file: its own, and the parents of its partition
/// directories. There, a manifest is looked for if the file is named itself.
pub fn set_directories(file: &Path) -> impl Iterator<Item = &Path> {
    let is_partition = |dir: &Path| dir.file_name().is_some_and(|name| name.as_encoded_bytes().contains(&b'='));
    std::iter::successors(file.parent(), move |dir| dir.parent().filter(|_| is_partition(dir)))
}

/// Returns what the records of a file in a directory share: see [`InputFile::group`].
pub(crate) fn group(path: &Path, listed: Option<&ShardEntry>) -> String {
    let split = listed.and_then(|shard| shard.split.as_deref());
    let dirs = path.parent().unwrap_or(Path::new(""));
    let keys = dirs.iter().map(OsStr::to_string_lossy).filter(|name| name.contains('='));
    split.map(Into::into).into_iter().chain(keys).collect::<Vec<_>>().join("/")
}

/// Returns the defect of a shard that the set around it does not list.
pub(crate) fn unlisted(path: &Path, runs: &[Leftover]) -> Option<Finding> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let run = run_id_in(&name).unwrap_or_default();
    match runs.iter().find(|known| known.run == run) {
        Some(known) if known.live => None,
        None if !RunId::is_generated(run) => Some(Finding::new(path, FindingKind::UnlistedShard)),
        _ => Some(Finding::new(path, FindingKind::Leftover { run: run.to_owned() })),
    }
}

/// Returns the leftovers of runs next to `out`.
fn beside_of(out: &Path) -> Result<Vec<Leftover>> {
    staging::beside(&target::resolve(out)?.0)
}

/// Resolves the links in a path; for a file that is itself a link, all but the last.
fn resolve(path: &Path, is_dir: bool) -> io::Result<PathBuf> {
    match (path.parent(), path.file_name()) {
        (Some(dir), Some(name)) if !is_dir => {
            let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
            Ok(fs::canonicalize(dir)?.join(name))
        }
        _ => fs::canonicalize(path),
    }
}

/// An entry of a directory.
struct DirectoryEntry {
    path: PathBuf,
    is_dir: bool,
    len: u64,
}

/// The files found at the inputs.
///
/// A link to a file counts as a separate file, and a link to a directory as a directory. A link to a directory that
/// contains it is ignored.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    /// The files, in the order of the inputs. Those of a set are in its order, others of a directory are sorted by
    /// name.
    pub(crate) files: Vec<InputFile>,
    /// The defects of directories and manifests.
    pub(crate) findings: Vec<Finding>,
    /// The first file or directory that was found by more than one path.
    pub(crate) twice: Option<PathBuf>,
    /// The first input that is neither a file nor a directory, such as a pipe.
    stream: Option<PathBuf>,
    /// The current input path, and the path it resolves to.
    pub(crate) root: (PathBuf, PathBuf),
    /// The files and directories found, by resolved path. Entries of a directory are relative to its resolved path.
    met: BTreeSet<PathBuf>,
    /// The current directory and its parents up to the input, resolved.
    around: Vec<PathBuf>,
    /// Resolved paths whose findings must not be reported twice.
    reported: BTreeSet<PathBuf>,
    /// Manifests next to files that the user named, by directory.
    beside: BTreeMap<PathBuf, Option<Arc<Manifest>>>,
}

impl Inputs {
    /// Finds the files. A file found by more than one path is listed once.
    ///
    /// # Errors
    /// If a path does not exist, or is neither a file nor a directory.
    pub(crate) fn find(inputs: &[Input]) -> Result<Self> {
        let inputs = Self::locate(inputs)?;
        match inputs.stream {
            Some(path) => Err(ErrorKind::NotAFile { path }.into()),
            None => Ok(inputs),
        }
    }

    /// Finds the files for a run that copies records and must not copy any twice.
    ///
    /// # Errors
    /// As [`find`](Self::find), and if more than one path leads to a file.
    pub(crate) fn find_once(inputs: &[Input]) -> Result<Self> {
        let inputs = Self::find(inputs)?;
        match inputs.twice {
            Some(path) => Err(ErrorKind::Twice { path }.into()),
            None => Ok(inputs),
        }
    }

    /// Adds findings of shards whose length differs from the manifest's, and of empty files that should be compressed,
    /// for readers that do not compare more.
    pub(crate) fn with_lengths(mut self) -> Self {
        let listed = self.files.iter().filter(|file| !file.named).filter_map(|file| Some((file, file.entry()?)));
        let wrong = listed.filter(|(file, entry)| file.len != entry.file_bytes).map(|(file, entry)| {
            Finding::new(&file.path, FindingKind::Length { expected: entry.file_bytes, found: file.len })
        });
        self.findings.extend(wrong.collect::<Vec<_>>());
        let cut: Vec<_> = self.files.iter().filter(|file| file.is_cut()).map(|file| file.path.clone()).collect();
        for path in cut {
            self.find_unreadable(&path, ErrorKind::EmptyCompressed { path: path.clone() }.into());
        }
        self
    }

    /// Adds findings of files that are missing in `dir`, as the names of these others record.
    fn add_missing_parts(&mut self, dir: &Path, files: &[PathBuf]) {
        let names = files.iter().filter_map(|path| path.file_name()?.to_str());
        let missing = MissingParts::among(names).into_iter();
        self.findings.extend(missing.map(|missing| Finding::new(dir, FindingKind::MissingParts(missing))));
    }

    fn locate(named: &[Input]) -> Result<Self> {
        let mut inputs = Self::default();
        for input in named {
            let path = match input {
                Input::Path(path) => path,
                Input::Stored(stored) => {
                    inputs.add_stored(stored)?;
                    continue;
                }
            };
            let metadata = fs::metadata(path).at("open", path)?;
            inputs.root = (path.clone(), resolve(path, metadata.is_dir()).at("open", path)?);
            if metadata.is_dir() {
                inputs.add_leftovers(beside_of(path));
                inputs.add_directory(path);
            } else {
                if !metadata.is_file() {
                    inputs.stream.get_or_insert_with(|| path.clone());
                }
                // A file that the user named is read whatever is next to it.
                inputs.add_named(path, metadata.len(), None, |dir| {
                    Ok(Manifest::read_changed(dir).ok().map(|read| read.0))
                })?;
            }
        }
        Ok(inputs)
    }

    /// Returns the resolved path of a path at or below the root.
    fn place(&self, path: &Path) -> PathBuf {
        let (root, resolved) = &self.root;
        match path.strip_prefix(root) {
            Ok(below) if below.as_os_str().is_empty() => resolved.clone(),
            Ok(below) => resolved.join(below),
            Err(_) => path.to_owned(),
        }
    }

    pub(crate) fn meet(&mut self, path: &Path) -> bool {
        let is_new = self.met.insert(self.place(path));
        if !is_new {
            self.twice.get_or_insert_with(|| path.to_owned());
        }
        is_new
    }

    pub(crate) fn is_met(&self, path: &Path) -> bool {
        self.met.contains(&self.place(path))
    }

    pub(crate) fn add_named(
        &mut self,
        path: &Path,
        len: u64,
        store: Option<&Arc<dyn FileStore>>,
        read_manifest: impl Fn(&Path) -> Result<Option<Manifest>>,
    ) -> Result<()> {
        if !self.meet(path) {
            return Ok(());
        }
        let mut listed = None;
        for dir in set_directories(path) {
            if !self.beside.contains_key(dir) {
                self.beside.insert(dir.to_owned(), read_manifest(dir)?.map(Arc::new));
            }
            let Some(manifest) = self.beside.get(dir).and_then(Option::as_ref) else { continue };
            let Ok(below) = path.strip_prefix(dir) else { continue };
            if let Some(index) = manifest.shards.iter().position(|shard| below == Path::new(&shard.path)) {
                listed = Some((Arc::clone(manifest), index));
                break;
            }
        }
        let store = store.cloned();
        self.files.push(InputFile { path: path.to_owned(), len, listed, named: true, group: None, store });
        Ok(())
    }

    /// Adds the files in a directory and below.
    fn add_directory(&mut self, dir: &Path) {
        if !self.meet(dir) {
            return;
        }
        match Manifest::read_changed(dir) {
            Ok((manifest, changed)) => {
                self.add_changed(dir, changed);
                return self.add_set(dir, Arc::new(manifest));
            }
            Err(error) if matches!(error.kind(), ErrorKind::NoManifest { .. }) => {}
            Err(error) => self.find_unreadable(&dir.join(MANIFEST_NAME), error),
        }
        if let Some(leftover) = staging::inside(dir).unwrap_or_default().pop() {
            self.findings.push(Finding::new(dir, FindingKind::Unpublished { run: leftover.run }));
        }
        self.add_leftovers(staging::beside_any(dir));
        self.inside(dir, |inputs| {
            let mut files = Vec::new();
            for DirectoryEntry { path, is_dir, len } in inputs.entries(dir, true) {
                if is_dir {
                    inputs.add_directory(&path);
                    continue;
                }
                files.push(path.clone());
                if inputs.meet(&path) {
                    let group = Some(group(&path, None));
                    inputs.files.push(InputFile { path, len, listed: None, named: false, group, store: None });
                }
            }
            inputs.add_missing_parts(dir, &files);
        });
    }

    /// Visits the contents of a directory, unless it is a link to one of its parents.
    fn inside(&mut self, dir: &Path, look: impl FnOnce(&mut Self)) {
        // A path that cannot be resolved cannot be listed either, which is reported later.
        let resolved = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
        if !self.around.contains(&resolved) {
            self.around.push(resolved);
            look(self);
            self.around.pop();
        }
    }

    fn add_changed(&mut self, dir: &Path, changed: Option<FindingKind>) {
        self.findings.extend(changed.map(|changed| Finding::new(&dir.join(MANIFEST_NAME), changed)));
    }

    /// Reports the defects of a set, apart from the contents of its shards.
    pub(crate) fn check_set(&mut self, dir: &Path, manifest: &Manifest, has_success: bool) {
        if !has_success {
            self.findings.push(Finding::new(dir, FindingKind::NoSuccess));
        }
        if let Err(error) = manifest.check_form() {
            let path = dir.join(MANIFEST_NAME);
            self.find_unreadable(&path, error.with_path(&path));
        }
    }

    fn add_set(&mut self, dir: &Path, manifest: Arc<Manifest>) {
        self.add_leftovers(staging::inside(dir));
        self.check_set(dir, &manifest, dir.join(SUCCESS_NAME).is_file());
        for (index, shard) in manifest.shards.iter().enumerate() {
            let path = dir.join(&shard.path);
            match fs::metadata(&path) {
                Ok(metadata) if !metadata.is_file() => {
                    self.find_unreadable(&path, ErrorKind::NotAFile { path: path.clone() }.into());
                }
                Ok(metadata) if self.meet(&path) => {
                    let listed = Some((Arc::clone(&manifest), index));
                    let group = Some(group(&path, Some(shard)));
                    self.files.push(InputFile { path, len: metadata.len(), listed, named: false, group, store: None });
                }
                Ok(_) => {}
                Err(_) => self.findings.push(Finding::new(&path, FindingKind::MissingShard)),
            }
        }
        let runs: Vec<_> = [beside_of(dir), staging::inside(dir)].into_iter().flatten().flatten().collect();
        self.add_unlisted(dir, &runs);
    }

    /// Reports shards in and below the directory of a set that the set does not list, except those that one of these
    /// `runs` is about to append.
    fn add_unlisted(&mut self, dir: &Path, runs: &[Leftover]) {
        self.inside(dir, |inputs| {
            for DirectoryEntry { path, is_dir, .. } in inputs.entries(dir, false) {
                if is_dir {
                    inputs.add_unlisted(&path, runs);
                } else if path.file_name().is_some_and(is_shard) && !inputs.is_met(&path) {
                    inputs.findings.extend(unlisted(&path, runs));
                }
            }
        });
    }

    fn add_leftovers(&mut self, leftovers: Result<Vec<Leftover>>) {
        // A directory that cannot be listed is reported elsewhere.
        for Leftover { path, run, live } in leftovers.unwrap_or_default() {
            let resolved = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
            if !live && self.reported.insert(resolved) {
                self.findings.push(Finding::new(&path, FindingKind::Leftover { run }));
            }
        }
    }

    pub(crate) fn find_unreadable(&mut self, path: &Path, error: Error) {
        self.findings.push(Finding::new(path, FindingKind::Unreadable(error)));
    }

    /// Returns the files and directories in a directory that are not ignored, by name. Follows links. If they `are_read`,
    /// reports those that cannot be examined, such as links without a target.
    fn entries(&mut self, dir: &Path, are_read: bool) -> Vec<DirectoryEntry> {
        let mut unreadable = Vec::new();
        let mut list = || -> io::Result<Vec<DirectoryEntry>> {
            let mut entries = Vec::new();
            for entry in fs::read_dir(dir)? {
                let path = entry?.path();
                let is_ignored = |is_directory| path.file_name().is_none_or(|name| is_ignored(name, is_directory));
                if is_ignored(true) {
                    continue;
                }
                let metadata = match fs::metadata(&path) {
                    Ok(metadata) => metadata,
                    Err(error) => {
                        let is_gone =
                            fs::symlink_metadata(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
                        unreadable.extend((are_read && !is_gone && !is_ignored(false)).then_some((path, error)));
                        continue;
                    }
                };
                if (metadata.is_dir() || metadata.is_file()) && !is_ignored(metadata.is_dir()) {
                    entries.push(DirectoryEntry { path, is_dir: metadata.is_dir(), len: metadata.len() });
                }
            }
            entries.sort_by(|one, other| one.path.cmp(&other.path));
            Ok(entries)
        };
        let entries = list().at("list", dir).unwrap_or_else(|error| {
            self.find_unreadable(dir, error);
            Vec::new()
        });
        for (path, source) in unreadable {
            self.find_unreadable(&path, ErrorKind::Io { action: "inspect", path: path.clone(), source }.into());
        }
        entries
    }
}

impl Inputs {
    pub(crate) fn add_stored(&mut self, stored: &StoredFiles) -> Result<()> {
        let root = &stored.root;
        self.root = (root.clone(), root.clone());
        match stored.files.get(root).filter(|_| stored.is_file) {
            Some(len) => self.add_named(root, *len, Some(&stored.store), |dir| match stored.manifest(dir) {
                Ok((manifest, _)) => Ok(Some(manifest)),
                // What is there is not known.
                Err(error) if matches!(error.kind(), ErrorKind::Io { .. }) => Err(error),
                Err(_) => Ok(None),
            }),
            None => {
                self.add_stored_directory(stored, root);
                Ok(())
            }
        }
    }

    fn add_stored_directory(&mut self, stored: &StoredFiles, dir: &Path) {
        if !self.meet(dir) {
            return;
        }
        let manifest = dir.join(MANIFEST_NAME);
        if stored.files.contains_key(&manifest) {
            match stored.manifest(dir) {
                Ok((manifest, changed)) => {
                    self.add_changed(dir, changed);
                    return self.add_stored_set(stored, dir, &Arc::new(manifest));
                }
                Err(error) => self.find_unreadable(&manifest, error),
            }
        }
        let mut last = None;
        let mut files = Vec::new();
        for (path, len) in stored.below(dir) {
            let Some(entry) = path.strip_prefix(dir).ok().and_then(|below| below.components().next()) else { continue };
            let entry = dir.join(entry);
            // Some tools create an empty object to represent a directory.
            let is_directory = entry != *path || (len == 0 && stored.below(path).next().is_some());
            let is_ignored = entry.file_name().is_none_or(|name| is_ignored(name, is_directory));
            if last.as_ref() == Some(&entry) || is_ignored {
                continue;
            }
            if is_directory {
                self.add_stored_directory(stored, &entry);
            } else if self.meet(path) {
                files.push(path.clone());
                self.push_stored(stored, path, len, None);
            }
            last = Some(entry);
        }
        self.add_missing_parts(dir, &files);
    }

    fn add_stored_set(&mut self, stored: &StoredFiles, dir: &Path, manifest: &Arc<Manifest>) {
        self.check_set(dir, manifest, stored.files.contains_key(&dir.join(SUCCESS_NAME)));
        for (index, shard) in manifest.shards.iter().enumerate() {
            let path = dir.join(&shard.path);
            match stored.files.get(&path) {
                Some(len) if self.meet(&path) => {
                    self.push_stored(stored, &path, *len, Some((Arc::clone(manifest), index)));
                }
                Some(_) => {}
                None => self.findings.push(Finding::new(&path, FindingKind::MissingShard)),
            }
        }
        let is_hidden = |path: &Path| {
            let directories = path.strip_prefix(dir).unwrap_or(path).parent();
            directories.is_some_and(|directories| directories.iter().any(|name| is_ignored(name, true)))
        };
        for (path, _) in stored.below(dir) {
            if path.file_name().is_some_and(is_shard) && !is_hidden(path) && !self.is_met(path) {
                self.findings.extend(unlisted(path, &[]));
            }
        }
    }

    fn push_stored(&mut self, stored: &StoredFiles, path: &Path, len: u64, listed: Option<(Arc<Manifest>, usize)>) {
        let shard = listed.as_ref().and_then(|(manifest, index)| manifest.shards.get(*index));
        let group = Some(group(path, shard));
        let store = Some(Arc::clone(&stored.store));
        self.files.push(InputFile { path: path.to_owned(), len, listed, named: false, group, store });
    }
}
