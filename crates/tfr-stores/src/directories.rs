//! [`DirectoryStore`]: what a file system can do that object stores cannot.

use async_trait::async_trait;
use object_store::path::Path;
use object_store::{ObjectMeta, Result};

/// What the names of files begin with that are not complete yet. Readers skip them, and so does whoever inspects a target.
pub const UNFINISHED: &str = ".tfr.";

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// A file.
    File,
    /// A directory.
    Directory,
}

/// A store with real directories, which are renamed in one step. A set appears there by a rename: if its files appeared one by
/// one, readers that list the directory would see a part of it.
///
/// Requests are repeated if their answer is lost, so each of them first compares what it finds with what it should do.
#[async_trait]
pub trait DirectoryStore: Send + Sync {
    /// Returns what is at a path.
    async fn found(&self, path: &Path) -> Result<Option<Found>>;

    /// Returns the directories in a directory, which may be absent, with the times when something was last put into them or
    /// removed.
    async fn directories(&self, path: &Path) -> Result<Vec<ObjectMeta>>;

    /// Makes a directory, and those above it.
    async fn make_directory(&self, path: &Path) -> Result<()>;

    /// Renames a directory to a path that is absent or an empty directory, in one step.
    ///
    /// # Errors
    /// If there is no such directory ([`NotFound`](object_store::Error::NotFound)), or something is at the path
    /// ([`AlreadyExists`](object_store::Error::AlreadyExists)).
    async fn rename_directory(&self, from: &Path, to: &Path) -> Result<()>;

    /// Gives a directory the permissions of another one.
    async fn keep_permissions(&self, of: &Path, to: &Path) -> Result<()>;

    /// Removes a directory with everything in it, if it exists.
    async fn remove_directory(&self, path: &Path) -> Result<()>;
}
