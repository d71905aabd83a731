//! [`Sidecar`]: a file beside the shards that tells another reader of the set.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tfrecord_framing::{crc32c, crc32c_append};

use crate::error::{AtPath, Result};
use crate::set::scalar;

/// Bytes of a file that are read at once.
const READ_LEN: usize = 64 << 10;

/// A file beside the shards that tells another reader of the set, before it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sidecar {
    /// Its path from the set's directory, with `/`.
    pub path: String,
    /// What it holds.
    pub content: Vec<u8>,
}

/// What a manifest says of a file beside the shards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SidecarEntry {
    /// Its path from the set's directory, with `/`.
    pub path: String,
    /// Bytes of the file.
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
    /// Of a file in the directory of a set.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of_file(dir: &Path, path: impl Into<String>) -> Result<Self> {
        let path = path.into();
        let file = dir.join(&path);
        let content = File::open(&file).at("open", &file)?;
        Self::read(path, content).at("read", &file)
    }

    /// Of a file at `path` from the set's directory that has this content.
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

    /// Whether it tells of one of these shards alone, so that it stays true when others are added.
    pub(crate) fn is_index_of<'a>(&self, mut shards: impl Iterator<Item = &'a str>) -> bool {
        shards.any(|shard| index_path(shard) == self.path)
    }
}

/// What is told of a file's content, as far as it has been passed.
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

/// The path of a shard's index.
pub(crate) fn index_path(shard: &str) -> String {
    IndexName::Idx.beside(Path::new(shard)).to_string_lossy().into_owned()
}

/// An index that is written and synced, but not yet published with its shard.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StagedIndex {
    /// The file.
    pub path: PathBuf,
    /// Bytes of it.
    pub file_bytes: u64,
    /// CRC-32C of it, not masked.
    pub crc32c: u32,
}

impl StagedIndex {
    /// What the manifest says of it, beside the shard of this path.
    pub(crate) fn entry(&self, shard: &str) -> SidecarEntry {
        SidecarEntry { path: index_path(shard), file_bytes: self.file_bytes, crc32c: self.crc32c }
    }
}

/// What index files are called. What is in them is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum IndexName {
    /// `train.tfrecord.idx`, as users of NVIDIA DALI have it.
    #[default]
    Idx,
    /// `train.tfindex`, as users of the PyTorch reader `tfrecord` have it.
    TfIndex,
}

impl IndexName {
    /// The index of a file: beside it.
    ///
    /// ```
    /// use std::path::Path;
    /// use tfrecord_shards::IndexName;
    ///
    /// let file = Path::new("shards/train-00000-of-00002.tfrecord");
    /// assert_eq!(IndexName::Idx.beside(file), Path::new("shards/train-00000-of-00002.tfrecord.idx"));
    /// assert_eq!(IndexName::TfIndex.beside(file), Path::new("shards/train-00000-of-00002.tfindex"));
    /// ```
    pub fn beside(self, file: &Path) -> PathBuf {
        match self {
            Self::TfIndex if file.extension().is_some_and(|extension| extension == "tfrecord") => {
                file.with_extension("tfindex")
            }
            Self::TfIndex => with_suffix(file, ".tfindex"),
            Self::Idx => with_suffix(file, ".idx"),
        }
    }
}

fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut path = OsString::from(file);
    path.push(suffix);
    path.into()
}
