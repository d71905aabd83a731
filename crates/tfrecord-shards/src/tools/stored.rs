//! [`Input`]: an input of a tool, in the file system or in another store.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{AtPath, ErrorKind, FindingKind, Result};
use crate::set::MANIFEST_NAME;
use crate::set::manifest::Manifest;

/// Most bytes of a manifest that is read from a store.
const MANIFEST_MAX: u64 = 1 << 30;

/// An input of a tool.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Input {
    /// A path of the file system.
    Path(PathBuf),
    /// Files of a store.
    Stored(StoredFiles),
}

/// A store of files other than the file system, such as an object store.
pub trait FileStore: fmt::Debug + Send + Sync {
    /// Opens the file at `path`, usually a URL, for reading from its start.
    ///
    /// # Errors
    /// Of the kind [`NotFound`](io::ErrorKind::NotFound) if there is no such file.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>>;

    /// Opens the file at `path` for reading at any position; `None` if files can only be read from their start.
    fn open_seekable(&self, path: &Path) -> Option<io::Result<Box<dyn ReadSeek>>> {
        let _only_from_the_start = path;
        None
    }
}

/// An open file that is read at any position.
pub trait ReadSeek: Read + Seek + Send {}

impl<T: Read + Seek + Send> ReadSeek for T {}

/// A file of a store, or the listing of a directory there.
///
/// They are read like those of the file system: in a set the files that its manifest lists, in another directory all
/// files except hidden ones and sidecars.
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
    pub(super) root: PathBuf,
    /// Length in bytes of each file below the root, or of the file itself.
    pub(super) files: BTreeMap<PathBuf, u64>,
    pub(super) is_file: bool,
    pub(super) store: Arc<dyn FileStore>,
}

impl StoredFiles {
    /// Creates an input of one file, as named by the user.
    pub fn file(path: impl Into<PathBuf>, len: u64, store: Arc<dyn FileStore>) -> Self {
        let root = path.into();
        Self { files: BTreeMap::from([(root.clone(), len)]), root, is_file: true, store }
    }

    /// Creates an input of all files in and below a directory, with their lengths in bytes. Include hidden ones and
    /// manifests. Paths that are not below the directory are ignored.
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

    /// Returns the path of the file or directory.
    pub fn path(&self) -> &Path {
        &self.root
    }

    pub(super) fn below<'a>(&'a self, dir: &'a Path) -> impl Iterator<Item = (&'a PathBuf, u64)> + 'a {
        let files = self.files.range::<Path, _>((Bound::Excluded(dir), Bound::Unbounded));
        files.map(|(path, len)| (path, *len)).take_while(move |(path, _)| path.starts_with(dir))
    }

    pub(super) fn manifest(&self, dir: &Path) -> Result<(Manifest, Option<FindingKind>)> {
        let path = dir.join(MANIFEST_NAME);
        let mut json = Vec::new();
        match self.store.open(&path).and_then(|file| file.take(MANIFEST_MAX + 1).read_to_end(&mut json)) {
            Ok(len) if len as u64 > MANIFEST_MAX => {
                let problem = format!("expected at most {MANIFEST_MAX} bytes of a manifest, found more");
                Err(io::Error::new(io::ErrorKind::FileTooLarge, problem)).at("read", &path)
            }
            Ok(_) => Manifest::from_changed_json(&json, &path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ErrorKind::NoManifest { path }.into()),
            Err(error) => Err(error).at("read", &path),
        }
    }
}

impl Input {
    /// Opens a file of the listing.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        match self {
            Self::Path(_) => Ok(Box::new(File::open(path)?)),
            Self::Stored(stored) => stored.store.open(path),
        }
    }

    /// Returns the path or URL by which the input was named.
    pub fn path(&self) -> &Path {
        match self {
            Self::Path(path) => path,
            Self::Stored(stored) => stored.path(),
        }
    }

    /// Returns the inputs in the file system.
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
