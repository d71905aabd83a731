//! [`Input`]: what a tool reads, in the file system or in a store that is none.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{AtPath, ErrorKind, Result};
use crate::finding::{Finding, FindingKind};
use crate::input::{InputFile, Inputs, group, is_passed_over, is_shard_name, unlisted};
use crate::manifest::Manifest;
use crate::names::{MANIFEST_NAME, SUCCESS_NAME};

/// What a tool reads.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Input {
    /// What a path of the file system leads to.
    Path(PathBuf),
    /// Files of a store.
    Stored(StoredFiles),
}

/// A store of files that is not the file system, such as one of objects.
pub trait FileStore: fmt::Debug + Send + Sync {
    /// Opens the file at `path`, a URL as a rule, from its start.
    ///
    /// # Errors
    /// Of the kind [`NotFound`](io::ErrorKind::NotFound) if there is no such file.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>>;
}

/// A file of a store, or all that lie in and below a directory there, as they were listed.
///
/// They are read as files of the file system are: of a set those that its manifest lists, of another directory all but
/// hidden ones and sidecars.
///
/// ```
/// use std::io::{self, Read};
/// use std::path::Path;
/// use std::sync::Arc;
/// use tfrecord_framing::RecordWriter;
/// use tfrecord_shards::{FileStore, Progress, StoredFiles, verify};
///
/// #[derive(Debug)]
/// struct One(Vec<u8>);
///
/// impl FileStore for One {
///     fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
///         match path == Path::new("s3://bucket/a.tfrecord") {
///             true => Ok(Box::new(io::Cursor::new(self.0.clone()))),
///             false => Err(io::ErrorKind::NotFound.into()),
///         }
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut writer = RecordWriter::new(Vec::new());
/// writer.write_record(b"first")?;
/// let file = writer.finish()?;
/// let stored = StoredFiles::file("s3://bucket/a.tfrecord", file.len() as u64, Arc::new(One(file)));
/// assert_eq!(verify(&[stored], &Progress::default())?.records, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct StoredFiles {
    root: PathBuf,
    /// Bytes of each file below the root; of a file, that one.
    files: BTreeMap<PathBuf, u64>,
    is_file: bool,
    store: Arc<dyn FileStore>,
}

impl StoredFiles {
    /// One file that was named itself.
    pub fn file(path: impl Into<PathBuf>, len: u64, store: Arc<dyn FileStore>) -> Self {
        let root = path.into();
        Self { files: BTreeMap::from([(root.clone(), len)]), root, is_file: true, store }
    }

    /// All files in and below a directory with their lengths in bytes: hidden ones and manifests, too. Paths that are not
    /// below it are left out.
    pub fn directory(
        path: impl Into<PathBuf>,
        files: impl IntoIterator<Item = (PathBuf, u64)>,
        store: Arc<dyn FileStore>,
    ) -> Self {
        let root = path.into();
        let below = |path: &Path| path != root && path.starts_with(&root);
        let files = files.into_iter().filter(|(path, _)| below(path)).collect();
        Self { root, files, is_file: false, store }
    }

    /// The file or directory.
    pub fn path(&self) -> &Path {
        &self.root
    }

    fn below<'a>(&'a self, dir: &'a Path) -> impl Iterator<Item = (&'a PathBuf, u64)> + 'a {
        let files = self.files.range::<Path, _>((Bound::Excluded(dir), Bound::Unbounded));
        files.map(|(path, len)| (path, *len)).take_while(move |(path, _)| path.starts_with(dir))
    }

    fn manifest(&self, dir: &Path) -> Result<Manifest> {
        let path = dir.join(MANIFEST_NAME);
        let mut json = Vec::new();
        match self.store.open(&path).and_then(|mut file| file.read_to_end(&mut json)) {
            Ok(_) => Manifest::from_json(&json, &path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ErrorKind::NoManifest { path }.into()),
            Err(error) => Err(error).at("read", &path),
        }
    }
}

impl Input {
    /// Opens a file that was found there.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        match self {
            Self::Path(_) => Ok(Box::new(File::open(path)?)),
            Self::Stored(stored) => stored.store.open(path),
        }
    }

    /// The path or URL that it was named by.
    pub fn path(&self) -> &Path {
        match self {
            Self::Path(path) => path,
            Self::Stored(stored) => stored.path(),
        }
    }

    /// Those of the file system.
    pub(crate) fn local(inputs: &[Self]) -> Vec<PathBuf> {
        let local = |input: &Self| match input {
            Self::Path(path) => Some(path.clone()),
            Self::Stored(_) => None,
        };
        inputs.iter().filter_map(local).collect()
    }

    pub(crate) fn all<I: Clone + Into<Self>>(inputs: &[I]) -> Vec<Self> {
        inputs.iter().cloned().map(Into::into).collect()
    }
}

impl From<PathBuf> for Input {
    fn from(path: PathBuf) -> Self {
        Self::Path(path)
    }
}

impl From<&Path> for Input {
    fn from(path: &Path) -> Self {
        Self::Path(path.to_owned())
    }
}

impl From<&str> for Input {
    fn from(path: &str) -> Self {
        Self::Path(path.into())
    }
}

impl From<StoredFiles> for Input {
    fn from(files: StoredFiles) -> Self {
        Self::Stored(files)
    }
}

impl Inputs {
    pub(crate) fn add_stored(&mut self, stored: &StoredFiles) {
        let root = &stored.root;
        self.root = (root.clone(), root.clone());
        match stored.files.get(root).filter(|_| stored.is_file) {
            Some(len) => self.add_named(root, *len, Some(&stored.store), |dir| stored.manifest(dir)),
            None => self.add_stored_directory(stored, root),
        }
    }

    fn add_stored_directory(&mut self, stored: &StoredFiles, dir: &Path) {
        if !self.meet(dir) {
            return;
        }
        let manifest = dir.join(MANIFEST_NAME);
        if stored.files.contains_key(&manifest) {
            match stored.manifest(dir) {
                Ok(manifest) => return self.add_stored_set(stored, dir, &Arc::new(manifest)),
                Err(error) => self.find_unreadable(&manifest, error),
            }
        }
        let mut last = None;
        for (path, len) in stored.below(dir) {
            let Some(entry) = path.strip_prefix(dir).ok().and_then(|below| below.components().next()) else { continue };
            let entry = dir.join(entry);
            if last.as_ref() == Some(&entry) || entry.file_name().is_none_or(is_passed_over) {
                continue;
            }
            // An object of no bytes by the name of a directory is how some tools make one.
            let is_directory = entry != *path || (len == 0 && stored.below(path).next().is_some());
            if is_directory {
                self.add_stored_directory(stored, &entry);
            } else if self.meet(path) {
                self.push_stored(stored, path, len, None);
            }
            last = Some(entry);
        }
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
            let below = path.strip_prefix(dir).unwrap_or(path);
            below.iter().any(is_passed_over)
        };
        for (path, _) in stored.below(dir) {
            if path.file_name().is_some_and(is_shard_name) && !is_hidden(path) && !self.is_met(path) {
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
