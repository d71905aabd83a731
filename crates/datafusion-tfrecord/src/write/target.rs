//! [`WriteTarget`]: the destination of a shard set.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tfr_files::Error;
use tfr_stores::Location;

/// The destination of a shard set: a local directory, or a key prefix in an object store.
///
/// ```
/// use datafusion_tfrecord::write::WriteTarget;
///
/// let target = WriteTarget::parse("s3://bucket/train/")?;
/// assert!(matches!(target, WriteTarget::Store(_)));
/// assert_eq!(target.to_string(), "s3://bucket/train/");
/// assert!(WriteTarget::parse("shards/")?.local().is_some());
/// # Ok::<(), tfr_files::Error>(())
/// ```
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "there is one of it in a run")]
pub enum WriteTarget {
    /// A local directory.
    Local(PathBuf),
    /// A URL; patterns are taken literally. The store must be registered in the session's
    /// [`UploadStores`](tfr_stores::UploadStores).
    Store(Location),
}

impl WriteTarget {
    /// Parses a path, or the URL of a directory.
    ///
    /// # Errors
    /// The text is not a valid URL.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if !text.contains("://") {
            return Ok(Self::Local(text.into()));
        }
        let location = Location::parse(text)?;
        if location.is_local() {
            return Ok(Self::Local(PathBuf::from(format!("/{}", location.key()))));
        }
        Ok(Self::Store(location))
    }

    /// Returns the target's name for messages.
    pub(crate) fn named(&self) -> PathBuf {
        match self {
            Self::Local(path) => path.clone(),
            Self::Store(location) => location.to_string().into(),
        }
    }

    /// Returns the local directory, if the target is one.
    pub fn local(&self) -> Option<&Path> {
        match self {
            Self::Local(path) => Some(path),
            Self::Store(_) => None,
        }
    }
}

impl fmt::Display for WriteTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => path.display().fmt(f),
            Self::Store(location) => location.fmt(f),
        }
    }
}

impl FromStr for WriteTarget {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text)
    }
}

impl From<PathBuf> for WriteTarget {
    fn from(path: PathBuf) -> Self {
        Self::Local(path)
    }
}

impl From<&Path> for WriteTarget {
    fn from(path: &Path) -> Self {
        Self::Local(path.to_owned())
    }
}

impl From<&PathBuf> for WriteTarget {
    fn from(path: &PathBuf) -> Self {
        Self::Local(path.clone())
    }
}
