//! [`Door`]: the files and URLs that a run may open.
//!
//! Whatever names a file or a URL goes through the door of the run before it is opened: the stores of the session
//! ([`DoorStore`] wraps each of them), the listing of local directories, and the callers that open local paths
//! themselves. A local path is compared after its links and `..` are resolved. So a link inside an allowed directory
//! does not lead out of it, and a link to an allowed directory is as good as its name.
//!
//! The store of local files opens the resolved path without following any further link, where the system can do that.
//! Callers that open or create files by name compare first and open later: someone who may change the links inside an
//! allowed directory can act in between. The kernel's own rules stand behind them, where a process has set them.
//!
//! The door does not see through hard links and bind mounts: the names of such files are inside.

mod open;
mod resolve;
mod store;

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::store_url::StoreUrl;
use object_store::path::Path as Key;
use url::Url;

use crate::error::{Error, ErrorKind, Result};
use crate::location::Location;
use crate::location_text::LocationText;
use crate::service::Service;

#[cfg(feature = "hdfs")]
pub(crate) use store::DoorDirectories;
pub(crate) use store::{DoorStore, DoorUploads};

use open::open_resolved;
use resolve::{Resolved, resolve};

/// The location that means standard input.
const STANDARD_INPUT: &str = "-";

/// The files and URLs that a run may open. The default allows everything.
///
/// Clones share the lists. It is one of the [options](crate::StoreOptions::door) of stores:
///
/// ```
/// use std::path::Path;
/// use tfr_stores::Door;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let door = Door::to(&[dir.path().to_str().unwrap_or_default().to_owned(), "https://host/data/".to_owned()])?;
/// assert!(door.check_path(&dir.path().join("a.csv")).is_ok());
/// assert!(door.check_path(&dir.path().join("../a.csv")).is_err());
/// assert!(door.check_path(Path::new("/etc/passwd")).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Door {
    /// Each of the lists must allow a name. Without lists, everything is allowed.
    lists: Vec<Arc<AllowList>>,
}

/// What one list allows.
struct AllowList {
    /// The entries as they were written.
    shown: Vec<String>,
    /// Local files and directories, resolved.
    paths: Vec<PathBuf>,
    /// Inherited descriptors that are no files: pipes and sockets.
    descriptors: BTreeSet<u32>,
    urls: Vec<AllowedUrl>,
}

/// The objects of one store whose keys begin with some names.
struct AllowedUrl {
    /// The URL of the store, without a user.
    store: Url,
    key: Key,
}

impl AllowList {
    fn parse(entries: &[String]) -> Result<Self> {
        let mut list = Self { shown: Vec::new(), paths: Vec::new(), descriptors: BTreeSet::new(), urls: Vec::new() };
        for entry in entries {
            list.shown.push(LocationText::from(entry.as_str()).to_string());
            if entry == STANDARD_INPUT {
                list.descriptors.insert(0);
                continue;
            }
            if entry.contains("://") {
                let location = Location::parse(entry)?;
                if !location.is_local() {
                    let (store, key) = (location.object_store(), location.key().clone());
                    list.urls.push(AllowedUrl { store: without_user(store.as_ref()), key });
                    continue;
                }
                list.add_path(entry, Path::new(&format!("/{}", location.key())))?;
                continue;
            }
            list.add_path(entry, Path::new(entry))?;
        }
        Ok(list)
    }

    fn add_path(&mut self, entry: &str, path: &Path) -> Result<()> {
        let unusable = |reason: String| ErrorKind::Location { location: entry.to_owned(), reason };
        match resolve(path).map_err(|error| unusable(error.to_string()))? {
            Resolved::Descriptor(number) => drop(self.descriptors.insert(number)),
            Resolved::Path(path) => {
                // A directory that is created later could be a link to any other.
                fs::symlink_metadata(&path).map_err(|error| unusable(error.to_string()))?;
                self.paths.push(path);
            }
        }
        Ok(())
    }

    fn has_path(&self, path: &Path) -> bool {
        self.paths.iter().any(|allowed| path.starts_with(allowed))
    }

    fn has_resolved(&self, resolved: &Resolved) -> bool {
        match resolved {
            Resolved::Path(path) => self.has_path(path),
            Resolved::Descriptor(number) => {
                // `/dev/fd` allows all of them.
                let own = format!("/proc/{}/fd", std::process::id());
                self.descriptors.contains(number) || self.has_path(Path::new(&own))
            }
        }
    }
}

/// Removes a user, a password and a query from the URL of a store: they are sent to the host, and do not choose it.
fn without_user(store: &Url) -> Url {
    let mut url = store.clone();
    // The container of an Azure URL is in the place of the user, and chooses the store.
    if Service::of(url.scheme()) == Some(Service::Http) {
        // These fail for a URL that cannot have a host; this one has a host.
        let _ = url.set_username("").and_then(|()| url.set_password(None));
    }
    url.set_path("/");
    url.set_query(None);
    url.set_fragment(None);
    url
}

impl Door {
    /// Creates a door to these paths and URLs, and everything below them. A path must exist. `-` is standard input,
    /// `/dev/fd/5` an inherited pipe, and `/dev/fd` all of these.
    ///
    /// # Errors
    /// An entry is not a path or a URL, or its path does not exist.
    pub fn to(entries: &[String]) -> Result<Self> {
        Ok(Self { lists: vec![Arc::new(AllowList::parse(entries)?)] })
    }

    /// Returns a door to what both allow.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self { lists: self.lists.iter().chain(&other.lists).cloned().collect() }
    }

    /// Whether anything is refused.
    pub fn is_limited(&self) -> bool {
        !self.lists.is_empty()
    }

    /// Returns the entries as they were written, without secrets.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.lists.iter().flat_map(|list| list.shown.iter().map(String::as_str))
    }

    /// Returns the local files and directories that every list allows, resolved.
    pub fn paths(&self) -> Vec<&Path> {
        let all = self.lists.iter().flat_map(|list| &list.paths).map(PathBuf::as_path);
        all.filter(|path| self.lists.iter().all(|list| list.has_path(path))).collect()
    }

    /// Returns the services whose stores are allowed.
    pub fn services(&self) -> impl Iterator<Item = Service> {
        self.lists.iter().flat_map(|list| &list.urls).filter_map(|url| Service::of(url.store.scheme()))
    }

    /// Checks that a local file or directory may be opened. Returns its path with links and `..` resolved, or the path
    /// as it is if everything is allowed. The file need not exist.
    ///
    /// # Errors
    /// It is outside, or cannot be resolved.
    pub fn check_path(&self, path: &Path) -> Result<PathBuf> {
        self.check_named(path, &path.display().to_string())
    }

    /// As [`check_path`](Self::check_path), with a name for the error.
    ///
    /// # Errors
    /// As [`check_path`](Self::check_path).
    pub fn check_named(&self, path: &Path, name: &str) -> Result<PathBuf> {
        if !self.is_limited() {
            return Ok(path.to_owned());
        }
        // A path that cannot be resolved may lead anywhere. The error does not tell whether something exists there.
        let resolved = resolve(path).ok();
        let is_allowed = |resolved: &Resolved| self.lists.iter().all(|list| list.has_resolved(resolved));
        match resolved {
            Some(Resolved::Path(resolved)) if is_allowed(&Resolved::Path(resolved.clone())) => Ok(resolved),
            Some(Resolved::Descriptor(number)) if is_allowed(&Resolved::Descriptor(number)) => Ok(path.to_owned()),
            resolved => Err(self.refusal(path, name, resolved)),
        }
    }

    /// Checks that a local directory may be written to, and that no link in it or below leads outside. It need not exist.
    ///
    /// # Errors
    /// As [`check_path`](Self::check_path); something in the directory cannot be listed.
    pub fn check_tree(&self, directory: &Path) -> Result<()> {
        if !self.is_limited() {
            return Ok(());
        }
        let mut directories = vec![self.check_path(directory)?];
        let mut visited = BTreeSet::new();
        while let Some(directory) = directories.pop() {
            if !visited.insert(directory.clone()) {
                continue;
            }
            let examine = |source| ErrorKind::Examine { file: directory.display().to_string(), source };
            let entries = match fs::read_dir(&directory) {
                Ok(entries) => entries,
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                    continue;
                }
                Err(error) => return Err(examine(error).into()),
            };
            for entry in entries {
                let entry = entry.map_err(examine)?;
                let kind = entry.file_type().map_err(examine)?;
                if kind.is_symlink() {
                    directories.push(self.check_path(&entry.path())?);
                } else if kind.is_dir() {
                    directories.push(entry.path());
                }
            }
        }
        Ok(())
    }

    /// Checks that standard input may be a table.
    ///
    /// # Errors
    /// It is not in a list.
    pub fn check_standard_input(&self) -> Result<()> {
        match self.lists.iter().all(|list| list.has_resolved(&Resolved::Descriptor(0))) {
            true => Ok(()),
            false => Err(self.refusal(Path::new(STANDARD_INPUT), "standard input", None)),
        }
    }

    /// Checks the part of a location before its first pattern.
    ///
    /// # Errors
    /// It is outside.
    pub fn check_location(&self, location: &Location) -> Result<()> {
        self.check_key(location.object_store().as_ref(), location.prefix(), &location.to_string())
    }

    /// Checks a path of the store of a location.
    ///
    /// # Errors
    /// It is outside.
    pub fn check_object(&self, location: &Location, key: &Key) -> Result<()> {
        self.check_key(location.object_store().as_ref(), key, &location.file_names().name(key))
    }

    /// Whether a path of the store of a location may be opened.
    pub fn allows(&self, location: &Location, key: &Key) -> bool {
        self.check_key(location.object_store().as_ref(), key, key.as_ref()).is_ok()
    }

    /// Checks that the object at `key` of the store at `store` may be opened, which the error calls `name`.
    ///
    /// # Errors
    /// It is outside.
    pub fn check_key(&self, store: &Url, key: &Key, name: &str) -> Result<()> {
        if !self.is_limited() {
            return Ok(());
        }
        if store.as_str() == StoreUrl::local_files().as_str() {
            return self.check_named(Path::new(&format!("/{key}")), name).map(drop);
        }
        let store = without_user(store);
        let allows = |url: &AllowedUrl| url.store == store && key.prefix_matches(&url.key);
        match self.lists.iter().all(|list| list.urls.iter().any(allows)) {
            true => Ok(()),
            false => Err(self.refused(name, None)),
        }
    }

    /// Checks that something at the store of this URL is allowed, before the store is built.
    pub(crate) fn check_store(&self, url: &Url) -> Result<()> {
        let store = without_user(url);
        let has_store = |list: &Arc<AllowList>| list.urls.iter().any(|allowed| allowed.store == store);
        let is_local = Service::of(url.scheme()) == Some(Service::File);
        match is_local || self.lists.iter().all(has_store) {
            true => Ok(()),
            false => Err(self.refused(&LocationText::from(store.as_str()).to_string(), None)),
        }
    }

    /// Checks that a service that is not a store may be asked: the URL of its host and port.
    ///
    /// # Errors
    /// It is not in a list.
    pub fn check_url(&self, url: &Url) -> Result<()> {
        self.check_store(url)
    }

    /// Checks the target of a redirect.
    pub(crate) fn check_redirect(&self, url: &Url) -> Result<()> {
        let name = LocationText::from(url.as_str()).to_string();
        // A path that is not a key could mean another one to the server.
        let key = Key::from_url_path(url.path()).map_err(|_| self.refused(&name, None))?;
        self.check_key(&without_user(url), &key, &name)
    }

    /// Opens a local file for reading. It is the resolved file that is opened, even if a link has changed meanwhile,
    /// where the system can do that.
    ///
    /// # Errors
    /// The file is outside, or cannot be opened.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        if !self.is_limited() {
            return File::open(path);
        }
        let resolved = self.check_path(path).map_err(refused_io)?;
        match resolve(path) {
            // A pipe has no path of its own.
            Ok(Resolved::Descriptor(_)) => File::open(path),
            _ => open_resolved(&resolved),
        }
    }

    fn refusal(&self, path: &Path, name: &str, resolved: Option<Resolved>) -> Error {
        // A link outside could tell what is there.
        let is_named_inside = self.lists.iter().all(|list| {
            std::path::absolute(path).is_ok_and(|path| list.has_path(&path) && !path.iter().any(|name| name == ".."))
        });
        let target = match resolved {
            Some(Resolved::Path(target)) if is_named_inside => Some(target),
            _ => None,
        };
        self.refused(name, target)
    }

    fn refused(&self, name: &str, target: Option<PathBuf>) -> Error {
        let allowed = self.entries().map(str::to_owned).collect();
        ErrorKind::NotAllowed { name: name.to_owned(), target, allowed }.into()
    }
}

/// Wraps a refusal, which remains the source.
pub fn refused_io(error: Error) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, error)
}

/// Shows no secrets.
impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.lists.iter().map(|list| &list.shown)).finish()
    }
}

#[cfg(test)]
mod tests;
