//! [`LocalDirectory`]: lists a local directory, and reports the files that cannot be read.
//!
//! The listing of `object_store` leaves out every file whose metadata cannot be read, whatever the reason, and every
//! link without a target. Their rows would be missing without a word.

use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::path::Path as FsPath;

use object_store::path::Path;
use object_store::{ListResult, ObjectMeta};
use tfr_stores::{Door, local_meta, refused_io};

use crate::error::{Error, ErrorKind};

/// The contents of a directory.
pub(super) struct LocalDirectory {
    pub(super) listed: ListResult,
    /// The files that cannot be read.
    pub(super) unreadable: Vec<Unreadable>,
}

/// A name in a directory that is not a readable file.
pub(super) struct Unreadable {
    pub(super) name: String,
    pub(super) reason: Reason,
}

impl Unreadable {
    /// Returns the error for the file, which is in a directory that messages call `directory`.
    pub(super) fn into_error(self, directory: &str) -> Error {
        let file = format!("{}/{}", directory.trim_end_matches('/'), self.name);
        match self.reason {
            Reason::Dangling(target) => ErrorKind::DanglingLink { file, target }.into(),
            Reason::Failed(source) => ErrorKind::Examine { file, source }.into(),
            Reason::Refused(error) => error,
            Reason::Name => ErrorKind::FileName { file }.into(),
        }
    }
}

/// Why a file cannot be read.
pub(super) enum Reason {
    /// It is a link to a file or directory that does not exist.
    Dangling(std::path::PathBuf),
    /// The system does not return its metadata.
    Failed(io::Error),
    /// Its name has a control character or is not UTF-8.
    Name,
    /// It is a link that leads outside of what may be opened.
    Refused(Error),
}

/// An entry of a directory.
enum Entry {
    Directory(Path),
    File(ObjectMeta),
    Unreadable(Reason),
    /// It was removed meanwhile, or is a temporary file.
    None,
}

impl LocalDirectory {
    /// Lists a directory. A directory that does not exist is empty. Blocks the thread.
    ///
    /// # Errors
    /// The directory cannot be read, or is outside of what the door allows.
    pub(super) fn list(directory: &Path, door: &Door) -> io::Result<Self> {
        let resolved = door.check_path(FsPath::new(&format!("/{directory}"))).map_err(refused_io)?;
        let listed = ListResult { common_prefixes: Vec::new(), objects: Vec::new() };
        let mut found = Self { listed, unreadable: Vec::new() };
        let entries = match fs::read_dir(resolved) {
            Ok(entries) => entries,
            Err(error) if is_missing(&error) => return Ok(found),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            match Entry::of(directory, &entry, door) {
                Entry::Directory(path) => found.listed.common_prefixes.push(path),
                Entry::File(meta) => found.listed.objects.push(meta),
                Entry::Unreadable(reason) => {
                    let name = entry.file_name().to_string_lossy().into_owned();
                    found.unreadable.push(Unreadable { name, reason });
                }
                Entry::None => {}
            }
        }
        // The order of a directory differs from one file system to the next.
        found.listed.common_prefixes.sort();
        found.listed.objects.sort_by(|left, right| left.location.cmp(&right.location));
        found.unreadable.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(found)
    }
}

impl Entry {
    fn of(directory: &Path, entry: &DirEntry, door: &Door) -> Self {
        let path = entry.path();
        let is_link = door.is_limited() && entry.file_type().map_or(true, |kind| kind.is_symlink());
        if is_link && let Err(error) = door.check_path(&path) {
            return Self::Unreadable(Reason::Refused(error.into()));
        }
        let metadata = match metadata(&path) {
            Ok(metadata) => metadata,
            Err(Reason::Failed(error)) if error.kind() == io::ErrorKind::NotFound => return Self::None,
            Err(reason) => return Self::Unreadable(reason),
        };
        let name = entry.file_name();
        let location = name.to_str().and_then(|name| Path::parse(format!("{directory}/{name}")).ok());
        match (location, metadata.modified()) {
            (None, _) => Self::Unreadable(Reason::Name),
            (Some(location), _) if metadata.is_dir() => Self::Directory(location),
            // The store does not open these.
            (Some(location), _) if is_of_upload(&location) => Self::None,
            (Some(_), Err(error)) => Self::Unreadable(Reason::Failed(error)),
            (Some(location), Ok(modified)) => Self::File(local_meta(location, &metadata, modified)),
        }
    }
}

/// Returns the metadata of a file, or of the target of a link.
fn metadata(path: &FsPath) -> Result<Metadata, Reason> {
    let error = match fs::metadata(path) {
        Ok(metadata) => return Ok(metadata),
        Err(error) => error,
    };
    let link = fs::symlink_metadata(path).map_err(Reason::Failed)?;
    match fs::read_link(path) {
        Ok(target) if is_missing(&error) => Err(Reason::Dangling(target)),
        // It was created again after the first attempt.
        Err(_) if is_missing(&error) && !link.is_symlink() => Ok(link),
        _ => Err(Reason::Failed(error)),
    }
}

/// Whether the path or a directory in it does not exist.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Whether the file is the unfinished one of an upload by `object_store`: `a.parquet#1`.
fn is_of_upload(path: &Path) -> bool {
    let suffix = path.filename().and_then(|name| name.split_once('#'));
    suffix.is_some_and(|(_, number)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the target of a link that does not exist; `None` if the path is no such link.
pub(super) fn dangling_target(path: &Path) -> Option<std::path::PathBuf> {
    match metadata(FsPath::new(&format!("/{path}"))) {
        Err(Reason::Dangling(target)) => Some(target),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    use object_store::ObjectStore;
    use object_store::local::LocalFileSystem;

    use super::*;

    #[tokio::test]
    async fn sound_directories_are_listed_as_the_store_lists_them() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        fs::create_dir_all(dir.path().join("sub/x"))?;
        for name in ["a", "b#1", "c#x", "é %41 ~[1].csv", "sub/z"] {
            fs::write(dir.path().join(name), name)?;
        }
        symlink("sub", dir.path().join("link"))?;
        symlink("sub/z", dir.path().join("z"))?;
        let path = Path::from_absolute_path(dir.path())?;
        let expected = LocalFileSystem::new().list_with_delimiter(Some(&path)).await?;
        let found = LocalDirectory::list(&path, &Door::default())?;
        assert_eq!(found.listed.common_prefixes, expected.common_prefixes);
        let mut objects = expected.objects;
        objects.sort_by(|left, right| left.location.cmp(&right.location));
        assert_eq!(found.listed.objects, objects);
        assert_eq!(found.listed.objects.len(), 4);
        assert!(found.unreadable.is_empty());
        assert!(LocalDirectory::list(&path.clone().join("none"), &Door::default())?.listed.objects.is_empty());
        assert!(LocalDirectory::list(&path.clone().join("a"), &Door::default())?.listed.objects.is_empty());
        Ok(())
    }

    #[test]
    fn unreadable_names_are_reported() -> Result<(), Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        symlink("/none/such", dir.path().join("1"))?;
        symlink("2", dir.path().join("2"))?;
        fs::write(dir.path().join("3\n"), "")?;
        fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"4\xff")), "")?;
        let found = LocalDirectory::list(&Path::from_absolute_path(dir.path())?, &Door::default())?;
        let reasons: Vec<_> = found.unreadable.iter().map(|file| (file.name.as_str(), &file.reason)).collect();
        assert!(matches!(reasons[0], ("1", Reason::Dangling(target)) if target.ends_with("none/such")));
        assert!(matches!(reasons[1], ("2", Reason::Failed(_))), "a link to itself");
        assert!(matches!(reasons[2], ("3\n", Reason::Name)));
        assert!(matches!(reasons[3], ("4\u{fffd}", Reason::Name)));
        assert_eq!(reasons.len(), 4);
        Ok(())
    }
}
