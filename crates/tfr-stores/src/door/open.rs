//! [`open_resolved`]: opens the file at a resolved path, and no other.

use std::fs::File;
use std::io;
use std::path::Path;

/// Opens a file for reading, without following any link: a path without links that has one now was changed meanwhile.
#[cfg(target_os = "linux")]
pub(super) fn open_resolved(path: &Path) -> io::Result<File> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    use rustix::io::Errno;

    // Not waiting for the other end of a pipe, which has no effect on files.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(CWD, path, flags, Mode::empty(), resolve) {
        // Linux before 5.6, or a filter of system calls that does not know this one.
        Err(Errno::NOSYS | Errno::PERM) => open_last(path),
        opened => Ok(opened?.into()),
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn open_resolved(path: &Path) -> io::Result<File> {
    open_last(path)
}

/// Opens a file whose last name is not a link.
fn open_last(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, open};
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    Ok(open(path, flags, Mode::empty())?.into())
}
