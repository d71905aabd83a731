//! [`resolve`]: the file that a path leads to.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Resolved {
    /// A path without links and without `..`. Nothing need exist there.
    Path(PathBuf),
    /// A descriptor of this process that is no file of the file system.
    Descriptor(u32),
}

/// The number of links that the system follows, too.
const MOST_LINKS: usize = 40;

/// Resolves all links and `..` of a path. The part that does not exist is taken as it is.
///
/// The links of `/proc/self/fd` are followed by their text. So a descriptor of a file is that file, and one of a pipe is
/// [`Resolved::Descriptor`].
///
/// # Errors
/// There are too many links, a directory cannot be searched, or a `..` follows a name that does not exist.
pub(super) fn resolve(path: &Path) -> io::Result<Resolved> {
    let absolute = if path.is_absolute() { path.to_owned() } else { std::env::current_dir()?.join(path) };
    let mut rest = names(&absolute);
    let mut found = PathBuf::from("/");
    let mut links = 0;
    let mut exists = true;
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            if !exists {
                return Err(io::Error::new(io::ErrorKind::NotFound, "a directory that does not exist has no parent"));
            }
            // It has no links, so that its parent is the one that the system would find.
            found.pop();
            continue;
        }
        let next = found.join(&name);
        let metadata = match fs::symlink_metadata(&next) {
            Ok(metadata) => metadata,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                (found, exists) = (next, false);
                continue;
            }
            Err(error) => return Err(error),
        };
        if !metadata.is_symlink() {
            found = next;
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(io::Error::other("too many symbolic links"));
        }
        let target = fs::read_link(&next)?;
        if target.is_absolute() {
            found = PathBuf::from("/");
        } else if let Some(number) = descriptor(&found, &name) {
            return match rest.is_empty() {
                true => Ok(Resolved::Descriptor(number)),
                false => Err(io::ErrorKind::NotADirectory.into()),
            };
        }
        let mut followed = names(&target);
        followed.extend(rest);
        rest = followed;
    }
    Ok(Resolved::Path(found))
}

/// Returns the names and `..` in a path.
fn names(path: &Path) -> VecDeque<OsString> {
    let name = |component: Component<'_>| match component {
        Component::Normal(_) | Component::ParentDir => Some(component.as_os_str().to_owned()),
        Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
    };
    path.components().filter_map(name).collect()
}

/// Returns the number of a descriptor of this process, if `name` in `directory` is one: `/proc/17/fd/5`, or that of one of
/// its threads. Its link has no path if it is a pipe.
fn descriptor(directory: &Path, name: &OsString) -> Option<u32> {
    let own = PathBuf::from(format!("/proc/{}", std::process::id()));
    let below = directory.strip_prefix(own).ok()?;
    let names: Vec<_> = below.iter().collect();
    let is_of_process = matches!(names.as_slice(), [fd] if *fd == "fd");
    let is_of_thread = matches!(names.as_slice(), [task, _, fd] if *task == "task" && *fd == "fd");
    (is_of_process || is_of_thread).then(|| name.to_str()?.parse().ok()).flatten()
}
