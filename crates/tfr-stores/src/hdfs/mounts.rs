//! [`Mounts`]: where the directories of a file system are, and what is in them.
//!
//! The client has mounts, too, but only with a fallback, and a listing of its root does not contain them.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use hdfs_native::client::FileStatus;
use object_store::path::Path;
use object_store::{ListResult, ObjectMeta};

use super::fault::Fault;
use super::file::{is_being_written, meta_of};
use super::namespace::Namespace;
use super::place::Place;

/// Maximum number of concurrent questions about the files of one directory.
const QUESTIONS: usize = 32;

/// The mounts of a file system, the longest directories first. HDFS itself has one, of its root.
pub(super) struct Mounts(pub(super) Vec<Mount>);

/// A directory, and where its files are.
pub(super) struct Mount {
    /// Without a slash at its end.
    pub(super) directory: String,
    /// The namenodes with the directory there; a target that is not supported.
    pub(super) target: Result<(Arc<Namespace>, String), String>,
}

impl Mounts {
    /// Returns where a path is.
    pub(super) fn place(&self, path: &Path) -> Result<Place, Fault> {
        let path = if path.as_ref().is_empty() { String::new() } else { format!("/{path}") };
        let inside = |directory: &str| {
            let rest = path.strip_prefix(directory)?;
            (rest.is_empty() || rest.starts_with('/')).then_some(rest)
        };
        let mut mounts = self.0.iter().filter_map(|mount| Some((mount, inside(&mount.directory)?)));
        let Some((mount, rest)) = mounts.next() else { return Err(Fault::NotFound) };
        let (namespace, root) = mount.target.as_ref().map_err(|target| {
            Fault::Failed(format!("{} is mounted at {target}, which is not HDFS", mount.directory))
        })?;
        let path = match format!("{root}{rest}") {
            path if path.is_empty() => "/".to_owned(),
            path => path,
        };
        Ok(Place { namespace: Arc::clone(namespace), path })
    }

    /// Returns the names of mounts in a directory, and of directories that lead to mounts.
    fn mounted_in(&self, directory: &Path) -> BTreeSet<&str> {
        let prefix = if directory.as_ref().is_empty() { "/".to_owned() } else { format!("/{directory}/") };
        let inside = self.0.iter().filter_map(|mount| mount.directory.strip_prefix(prefix.as_str()));
        inside.filter_map(|rest| rest.split('/').next()).filter(|name| !name.is_empty()).collect()
    }

    /// Lists a directory. One that does not exist is empty.
    pub(super) async fn list(&self, directory: &Path) -> Result<ListResult, Fault> {
        let mounted = self.mounted_in(directory).into_iter().map(|name| directory.clone().join(name));
        let mut directories: BTreeSet<Path> = mounted.collect();
        let statuses = match self.place(directory) {
            Ok(place) => place.list().await,
            Err(fault) => Err(fault),
        };
        let statuses = match statuses {
            Err(Fault::NotFound) => Vec::new(),
            statuses => statuses?,
        };
        let (mut objects, mut empty) = (Vec::new(), Vec::new());
        for status in statuses {
            let name = status.path.rsplit('/').next().unwrap_or_default();
            let location = Path::parse(format!("{directory}/{name}").trim_start_matches('/'));
            let location = location.map_err(|_| Fault::Failed(format!("the name {} is not supported", status.path)))?;
            if status.isdir {
                directories.insert(location);
                continue;
            }
            let meta = meta_of(&status, location)?;
            match meta.size {
                0 => empty.push((meta, status)),
                _ => objects.push(meta),
            }
        }
        // Collected first: a closure over references is not general enough for the compiler inside a stream.
        let mut confirmed = Vec::new();
        for (meta, status) in empty {
            confirmed.push(with_length(self.place(&meta.location)?, meta, status));
        }
        objects.extend(stream::iter(confirmed).buffered(QUESTIONS).try_collect::<Vec<_>>().await?);
        // A mount hides what is below it.
        objects.retain(|meta| !directories.contains(&meta.location));
        Ok(ListResult { common_prefixes: directories.into_iter().collect(), objects })
    }
}

/// Returns the description of a file that is listed as empty. Empty files of a table are passed over; one that is being
/// written is not empty, but has no complete block. It gets a length here, and is refused when it is opened.
async fn with_length(place: Place, meta: ObjectMeta, status: FileStatus) -> Result<ObjectMeta, Fault> {
    match place.summary().await {
        Ok(summary) if is_being_written(&status, 0, &summary) => Ok(ObjectMeta { size: 1, ..meta }),
        Ok(_) | Err(Fault::NotFound) => Ok(meta),
        Err(fault) => Err(fault),
    }
}
