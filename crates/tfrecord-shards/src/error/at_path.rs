//! [`AtPath`]: adds the path to an I/O error.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
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

/// Describes a path that is neither a file nor a directory.
pub(crate) fn file_type(path: &Path) -> &'static str {
    match fs::metadata(path).map(|metadata| metadata.file_type()) {
        Ok(found) if found.is_fifo() => "a pipe",
        Ok(found) if found.is_socket() => "a socket",
        Ok(found) if found.is_char_device() || found.is_block_device() => "a device",
        _ => "something else",
    }
}
