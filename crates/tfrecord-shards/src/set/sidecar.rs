//! [`Sidecar`]: a file published with the shards that describes the set to another reader.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tfrecord_framing::{crc32c, crc32c_append};

use crate::error::{AtPath, Result};
use crate::set::scalar;

/// Bytes read from a file at once.
const READ_LEN: usize = 64 << 10;

/// A file to be published with the shards that describes the set to another reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sidecar {
    /// Its path relative to the set's directory, with `/`.
    pub path: String,
    /// Its content.
    pub content: Vec<u8>,
}

/// A sidecar as listed in a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SidecarEntry {
    /// Its path relative to the set's directory, with `/`.
    pub path: String,
    /// Length of the file in bytes.
    pub file_bytes: u64,
    /// CRC-32C of the file, not masked. Eight hexadecimal digits in JSON.
    #[serde(with = "scalar::hex")]
    pub crc32c: u32,
}

impl From<&Sidecar> for SidecarEntry {
    fn from(Sidecar { path, content }: &Sidecar) -> Self {
        Self { path: path.clone(), file_bytes: content.len() as u64, crc32c: crc32c(content) }
    }
}

impl SidecarEntry {
    /// Describes a file in the directory of a set.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of_file(dir: &Path, path: impl Into<String>) -> Result<Self> {
        let path = path.into();
        let file = dir.join(&path);
        let content = File::open(&file).at("open", &file)?;
        Self::read(path, content).at("read", &file)
    }

    /// Describes a file with this content, whose path relative to the set's directory is `path`.
    pub(crate) fn read(path: impl Into<String>, mut content: impl Read) -> io::Result<Self> {
        let mut sum = ContentSum::default();
        let mut buffer = vec![0; READ_LEN];
        loop {
            match content.read(&mut buffer) {
                Ok(0) => return Ok(Self { path: path.into(), file_bytes: sum.bytes, crc32c: sum.crc32c }),
                Ok(len) => sum.add(buffer.get(..len).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether it is the index of one of these shards, and so stays valid when other shards are appended.
    pub(crate) fn is_index_of<'a>(&self, mut shards: impl Iterator<Item = &'a str>) -> bool {
        let Some(path) = self.path.strip_suffix(".idx") else { return false };
        let (directory, name) = path.split_at(path.rfind('/').map_or(0, |slash| slash + 1));
        // Earlier releases wrote the name without `_`. No shard's name starts with it.
        let shard = format!("{directory}{}", name.strip_prefix('_').unwrap_or(name));
        shards.any(|other| other == shard)
    }
}

/// Length and checksum of a file's content, computed incrementally.
#[derive(Debug, Default)]
pub(crate) struct ContentSum {
    pub(crate) bytes: u64,
    /// CRC-32C, not masked.
    pub(crate) crc32c: u32,
}

impl ContentSum {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.crc32c = crc32c_append(self.crc32c, bytes);
    }
}

/// Returns the path of a shard's index.
pub(crate) fn index_path(shard: &str) -> String {
    IndexName::Idx.beside(Path::new(shard)).to_string_lossy().into_owned()
}

/// An index that is written and synced, but not yet published with its shard.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StagedIndex {
    /// The file.
    pub path: PathBuf,
    /// Its length in bytes.
    pub file_bytes: u64,
    /// Its CRC-32C, not masked.
    pub crc32c: u32,
}

impl StagedIndex {
    /// Returns its manifest entry, given the path of its shard.
    pub(crate) fn entry(&self, shard: &str) -> SidecarEntry {
        SidecarEntry { path: index_path(shard), file_bytes: self.file_bytes, crc32c: self.crc32c }
    }
}

/// The naming convention of index files. Their content is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum IndexName {
    /// `_train.tfrecord.idx`, as used with NVIDIA DALI. Readers of directories skip names that start with `_`.
    #[default]
    Idx,
    /// `train.tfindex`, as used with the PyTorch reader `tfrecord`.
    TfIndex,
}

impl IndexName {
    /// Returns the path of a file's index, next to the file.
    ///
    /// ```
    /// use std::path::Path;
    /// use tfrecord_shards::IndexName;
    ///
    /// let file = Path::new("shards/train-00000-of-00002.tfrecord");
    /// assert_eq!(IndexName::Idx.beside(file), Path::new("shards/_train-00000-of-00002.tfrecord.idx"));
    /// assert_eq!(IndexName::TfIndex.beside(file), Path::new("shards/train-00000-of-00002.tfindex"));
    /// ```
    pub fn beside(self, file: &Path) -> PathBuf {
        match self {
            Self::TfIndex if file.extension().is_some_and(|extension| extension == "tfrecord") => {
                file.with_extension("tfindex")
            }
            Self::TfIndex => with_suffix(file, ".tfindex"),
            Self::Idx => {
                let mut name = OsString::from("_");
                name.push(file.file_name().unwrap_or_default());
                with_suffix(&file.with_file_name(name), ".idx")
            }
        }
    }

    /// Returns the path of a file's existing index: as [`beside`](Self::beside), or as earlier releases named it. If there
    /// is no index, returns the path of a new one.
    pub fn find(self, file: &Path) -> PathBuf {
        let (path, earlier) = (self.beside(file), self.earlier(file));
        if !path.exists() && earlier.exists() { earlier } else { path }
    }

    /// Returns the path of the index that earlier releases wrote: `train.tfrecord.idx`.
    fn earlier(self, file: &Path) -> PathBuf {
        match self {
            Self::TfIndex => self.beside(file),
            Self::Idx => with_suffix(file, ".idx"),
        }
    }
}

fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut path = OsString::from(file);
    path.push(suffix);
    path.into()
}
