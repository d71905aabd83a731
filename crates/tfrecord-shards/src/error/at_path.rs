//! [`AtPath`]: adds the path to an I/O error.

use std::io;
use std::path::Path;

use super::{ErrorKind, Result};

/// Adds to an I/O error what was to be done, and to which file or directory.
pub(crate) trait AtPath<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T>;
}

impl<T, E: Into<io::Error>> AtPath<T> for Result<T, E> {
    fn at(self, action: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| ErrorKind::Io { action, path: path.to_owned(), source: source.into() }.into())
    }
}
