//! [`Traversal`]: traverses a store to find the files of a location.

use std::collections::{BTreeMap, BTreeSet};

use datafusion_common_runtime::SpawnedTask;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ListResult, ObjectMeta, ObjectStore, ObjectStoreExt};
use tfr_stores::{Door, Location, Segment};
use tfrecord_shards::{SUCCESS_NAME, is_hidden, is_record_file, is_sidecar_of_table};
use url::Url;

use crate::compressed_names::named_compression;
use crate::error::{ErrorKind, Result, SkipReason, Skipped};
use crate::listing::local::{LocalDirectory, Reason, Unreadable, dangling_target};
use crate::listing::table_format::{Sign, signs};

/// Whether a local directory is a symbolic link to one of its parents. Following two of these is practically endless.
fn is_link_to_parent(path: &Path) -> bool {
    let path = std::path::PathBuf::from(format!("/{path}"));
    let is_on_the_way = |target: std::path::PathBuf| {
        let mut way = path.ancestors().skip(1).filter_map(|above| above.canonicalize().ok());
        way.any(|above| above.starts_with(&target))
    };
    path.is_symlink() && path.canonicalize().is_ok_and(is_on_the_way)
}

/// Whether a pattern requires this extension, rather than any.
fn asks_for_ending(pattern: &glob::Pattern, name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, ending)| pattern.as_str().ends_with(ending))
}

/// A traversal of a store.
pub(crate) struct Traversal<'a> {
    pub(crate) store: &'a dyn ObjectStore,
    pub(crate) door: &'a Door,
    pub(crate) location: &'a Location,
    pub(crate) found: BTreeMap<Path, ObjectMeta>,
    /// Whether the location is the full name of a file.
    pub(crate) is_file: bool,
    /// The visited directories.
    visited: BTreeSet<Path>,
    /// Evidence of tables in the names of visited directories, including hidden names. Directories without signs are
    /// left out.
    pub(crate) signs: BTreeMap<Path, Vec<Sign>>,
    /// The directories that contain [`STAGING_NAME`] and no mark of success. Files named by a pattern are read as named.
    pub(crate) unfinished: Vec<String>,
    /// Files of directories whose names are not supported.
    pub(crate) misnamed: Vec<String>,
    skipped: Skipped,
    pub(crate) passed: BTreeMap<Path, ObjectMeta>,
    /// Whether the directory being visited certainly contains a file of records.
    beside_records: bool,
    /// Whether any file or directory was seen.
    seen: bool,
    /// Whether the store has keys instead of directories, so that one listing returns the keys of many directories.
    pub(crate) is_flat: bool,
    /// Cached listings of a flat store's directories, each with everything below it.
    known: BTreeMap<Path, ListResult>,
    /// The roots of the cached directories.
    trees: Vec<Path>,
}

/// Services that list all keys with a prefix, a thousand per request, as efficiently as those of one directory.
const FLAT: [&str; 9] = ["s3", "s3a", "gs", "gcs", "az", "azure", "adl", "abfs", "abfss"];

/// Maximum number of concurrent requests.
pub(crate) const REQUESTS: usize = 32;

/// The directory in which jobs of Hadoop and Spark stage files, below their output. They remove it at the end.
const STAGING_NAME: &str = "_temporary";

/// A request of the traversal.
enum Step<'a> {
    /// Whether this file exists.
    Head(Path),
    /// Lists a directory: names that match `segment`, and below them those that match `rest`.
    List { directory: Path, segment: Option<&'a glob::Pattern>, pattern: &'a [Segment], rest: &'a [Segment] },
}

/// The response to a [`Step`].
enum Answer<'a> {
    File(ObjectMeta),
    NoFile(Path),
    Directory {
        directory: Path,
        listed: ListResult,
        unreadable: Vec<Unreadable>,
        segment: Option<&'a glob::Pattern>,
        pattern: &'a [Segment],
        rest: &'a [Segment],
    },
    /// A directory and everything below it, to be visited with this pattern.
    Tree {
        root: Path,
        pattern: &'a [Segment],
        directories: BTreeMap<Path, ListResult>,
    },
}

/// Returns the requests that find names matching `pattern` below `directory`.
fn steps(mut directory: Path, mut pattern: &[Segment]) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    loop {
        let (segment, rest) = match pattern.split_first() {
            Some((Segment::Literal(name), [])) => {
                steps.push(Step::Head(directory.join(name.as_str())));
                return steps;
            }
            Some((Segment::Literal(name), rest)) => {
                directory = directory.join(name.as_str());
                pattern = rest;
                continue;
            }
            Some((Segment::AnyDepth, [])) | None => (None, pattern),
            Some((Segment::AnyDepth, rest)) => {
                steps.push(Step::List { directory: directory.clone(), segment: None, pattern, rest: pattern });
                pattern = rest;
                continue;
            }
            Some((Segment::Pattern(pattern), rest)) => (Some(pattern), rest),
        };
        steps.push(Step::List { directory, segment, pattern, rest });
        return steps;
    }
}

/// Groups `objects` by directory, from `root` down, each as a listing would return it.
fn tree(root: &Path, objects: Vec<ObjectMeta>) -> BTreeMap<Path, ListResult> {
    let empty = || ListResult { objects: Vec::new(), common_prefixes: Vec::new() };
    let mut directories = BTreeMap::from([(root.clone(), empty())]);
    // An empty key `root/`, which some tools create for a directory, is the root itself.
    let inside = |meta: &ObjectMeta| meta.location != *root && meta.location.prefix_matches(root);
    for meta in objects.into_iter().filter(inside) {
        let mut directory = meta.location.parent().unwrap_or_default();
        if let Some(known) = directories.get_mut(&directory) {
            known.objects.push(meta);
            continue;
        }
        directories.insert(directory.clone(), ListResult { objects: vec![meta], ..empty() });
        // Up to the first parent that exists already.
        while directory != *root {
            let parent = directory.parent().unwrap_or_default();
            let is_known = directories.contains_key(&parent);
            directories.entry(parent.clone()).or_insert_with(empty).common_prefixes.push(directory);
            if is_known {
                break;
            }
            directory = parent;
        }
    }
    directories
}

/// Returns the signs in the names of a directory, including its own name.
fn signs_in(directory: &Path, listed: &ListResult) -> Vec<Sign> {
    let directories = listed.common_prefixes.iter().filter_map(Path::filename);
    let files = listed.objects.iter().filter_map(|meta| meta.location.filename());
    signs(directory.filename().unwrap_or_default(), directories, files)
}

impl<'a> Traversal<'a> {
    pub(crate) fn new(store: &'a dyn ObjectStore, door: &'a Door, location: &'a Location) -> Self {
        let (found, passed) = (BTreeMap::new(), BTreeMap::new());
        let url: &Url = location.object_store().as_ref();
        let is_flat = FLAT.contains(&url.scheme());
        let (skipped, known) = (Skipped::default(), BTreeMap::new());
        Self {
            store,
            door,
            location,
            found,
            is_file: false,
            visited: BTreeSet::new(),
            signs: BTreeMap::new(),
            unfinished: Vec::new(),
            misnamed: Vec::new(),
            skipped,
            passed,
            beside_records: false,
            seen: false,
            is_flat,
            known,
            trees: Vec::new(),
        }
    }

    pub(crate) async fn find(&mut self) -> Result<()> {
        if !self.location.is_directory()
            && let Some(meta) = self.head(self.location.key()).await?
        {
            self.found.insert(meta.location.clone(), meta);
            self.is_file = true;
            return Ok(());
        }
        let location = self.location;
        let url: &Url = location.object_store().as_ref();
        match self.descend().await {
            // Web servers rarely list directories, and the server has already reported that there is no such file.
            Err(error)
                if matches!(url.scheme(), "http" | "https")
                    && !location.is_directory()
                    && !location.is_pattern()
                    && matches!(error.kind(), ErrorKind::List { .. }) =>
            {
                Err(ErrorKind::NotFound { location: location.to_string() }.into())
            }
            done => done,
        }
    }

    /// Visits directories, one level at a time, each with the part of the pattern that still must match below it.
    async fn descend(&mut self) -> Result<()> {
        let mut level = vec![(self.location.prefix().clone(), self.location.pattern())];
        while !level.is_empty() {
            let steps: Vec<_> =
                level.drain(..).flat_map(|(directory, pattern)| self.steps(directory, pattern)).collect();
            // Collected first: a closure over references is not general enough for the compiler inside a stream.
            let answers: Vec<_> = steps.into_iter().map(|step| self.ask(step).boxed()).collect();
            let answers: Vec<_> = stream::iter(answers).buffered(REQUESTS).try_collect().await?;
            for answer in answers {
                match answer {
                    Answer::File(meta) => drop(self.found.insert(meta.location.clone(), meta)),
                    Answer::NoFile(path) => level.push((path, &[])),
                    Answer::Directory { directory, listed, unreadable, segment, pattern, rest } => {
                        let takes_files = rest.is_empty() || matches!(pattern, [Segment::AnyDepth]);
                        let directory_name = self.location.file_names().name(&directory);
                        self.read_signs(directory, &listed);
                        level.extend(self.visit(listed, segment, takes_files).map(|directory| (directory, rest)));
                        self.check_unreadable(&directory_name, unreadable, segment, takes_files)?;
                    }
                    Answer::Tree { root, pattern, directories } => {
                        self.known.extend(directories);
                        self.trees.push(root.clone());
                        level.push((root, pattern));
                    }
                }
            }
        }
        Ok(())
    }

    fn steps(&self, directory: Path, pattern: &'a [Segment]) -> Vec<Step<'a>> {
        let is_unknown = || !self.known.contains_key(&directory) && !self.is_known_absent(&directory);
        match pattern {
            // List everything below at once, before parts of it are requested.
            [Segment::AnyDepth, ..] if self.is_flat && is_unknown() => {
                vec![Step::List { directory, segment: None, pattern, rest: pattern }]
            }
            _ => steps(directory, pattern),
        }
    }

    async fn ask(&self, step: Step<'a>) -> Result<Answer<'a>> {
        let (directory, segment, pattern, rest) = match step {
            Step::Head(path) => {
                let directory = path.parent().unwrap_or_default();
                let meta = match self.known.get(&directory) {
                    Some(listed) => listed.objects.iter().find(|meta| meta.location == path).cloned(),
                    None if self.is_known_absent(&directory) => None,
                    None => self.head(&path).await?,
                };
                return Ok(match meta {
                    Some(meta) => Answer::File(ObjectMeta { location: path, ..meta }),
                    None => Answer::NoFile(path),
                });
            }
            Step::List { directory, segment, pattern, rest } => (directory, segment, pattern, rest),
        };
        let known = self.known.get(&directory).map(|listed| (listed.objects.clone(), listed.common_prefixes.clone()));
        if known.is_some() || self.is_known_absent(&directory) {
            let (objects, common_prefixes) = known.unwrap_or_default();
            let listed = ListResult { objects, common_prefixes };
            return Ok(Answer::Directory { directory, listed, unreadable: Vec::new(), segment, pattern, rest });
        }
        let failed = |source| ErrorKind::List { location: self.location.file_names().name(&directory), source };
        if self.is_flat && segment.is_none() {
            let objects = self.store.list(Some(&directory)).try_collect().await.map_err(failed)?;
            let directories = tree(&directory, objects);
            return Ok(Answer::Tree { root: directory, pattern, directories });
        }
        let LocalDirectory { listed, unreadable } = self.list(&directory).await.map_err(failed)?;
        Ok(Answer::Directory { directory, listed, unreadable, segment, pattern, rest })
    }

    /// Lists a directory that is not cached.
    pub(super) async fn list(&self, directory: &Path) -> object_store::Result<LocalDirectory> {
        if self.is_local() {
            let (path, door) = (directory.clone(), self.door.clone());
            let listed = SpawnedTask::spawn_blocking(move || LocalDirectory::list(&path, &door)).join().await?;
            return listed.map_err(|error| object_store::Error::Generic { store: "local", source: error.into() });
        }
        let prefix = (!directory.as_ref().is_empty()).then_some(directory);
        let listed = self.store.list_with_delimiter(prefix).await?;
        Ok(LocalDirectory { listed, unreadable: Vec::new() })
    }

    /// Fails if one of these files of a directory may have rows of the table. One that only its directory names is recorded
    /// if nothing but its name is wrong: it does not keep the others from being read.
    fn check_unreadable(
        &mut self,
        directory: &str,
        unreadable: Vec<Unreadable>,
        segment: Option<&glob::Pattern>,
        takes_files: bool,
    ) -> Result<()> {
        self.seen |= !unreadable.is_empty();
        for Unreadable { name, reason } in unreadable {
            // What is below a directory is matched later. Links without a target are usually those of files.
            let is_in_passing = segment.is_none() && !takes_files;
            if is_in_passing && !matches!(reason, Reason::Failed(_) | Reason::Refused(_))
                || !self.takes(&name, None, segment, Some(1))
            {
                continue;
            }
            if matches!(reason, Reason::Name) && !self.location.is_pattern() {
                self.misnamed.push(format!("{}/{name}", directory.trim_end_matches('/')));
                continue;
            }
            return Err(Unreadable { name, reason }.into_error(directory));
        }
        Ok(())
    }

    /// Records the signs of tables in a visited directory, before hidden names are skipped.
    fn read_signs(&mut self, directory: Path, listed: &ListResult) {
        let found = signs_in(&directory, listed);
        if !found.is_empty() {
            self.signs.insert(directory.clone(), found);
        }
        let is_named = |path: &Path, name| path.filename() == Some(name);
        if !self.location.is_pattern()
            && listed.common_prefixes.iter().any(|directory| is_named(directory, STAGING_NAME))
            && !listed.objects.iter().any(|meta| is_named(&meta.location, SUCCESS_NAME))
        {
            self.unfinished.push(self.location.file_names().name(&directory));
        }
        self.visited.insert(directory);
    }

    /// Returns the signs of tables in a directory, if the traversal has seen its names.
    pub(crate) fn signs_of(&self, directory: &Path) -> Option<Vec<Sign>> {
        match self.visited.contains(directory) {
            true => Some(self.signs.get(directory).cloned().unwrap_or_default()),
            false => self
                .listed(directory)
                .map(|listed| listed.map(|listed| signs_in(directory, listed)).unwrap_or_default()),
        }
    }

    /// Returns a cached listing of the directory, if it was listed with everything below it; `Some(None)` if it is
    /// empty.
    pub(crate) fn listed(&self, directory: &Path) -> Option<Option<&ListResult>> {
        match self.known.get(directory) {
            Some(listed) => Some(Some(listed)),
            None => self.is_known_absent(directory).then_some(None),
        }
    }

    /// Whether the directory is certainly empty, since it is missing from the cached listings.
    fn is_known_absent(&self, directory: &Path) -> bool {
        !self.known.contains_key(directory) && self.trees.iter().any(|root| directory.prefix_matches(root))
    }

    /// Adds the files of a directory that belong to the table. Returns the subdirectories to visit.
    fn visit(
        &mut self,
        mut listed: ListResult,
        segment: Option<&glob::Pattern>,
        takes_files: bool,
    ) -> impl Iterator<Item = Path> + use<> {
        listed.objects.sort_by(|left, right| left.location.cmp(&right.location));
        self.seen |= !listed.objects.is_empty() || !listed.common_prefixes.is_empty();
        self.beside_records = listed.objects.iter().any(|meta| meta.location.filename().is_some_and(is_record_file));
        for meta in listed.objects {
            let name = meta.location.filename().unwrap_or_default();
            if takes_files && self.takes(name, None, segment, Some(meta.size)) {
                self.found.insert(meta.location.clone(), meta);
            } else if meta.size == 0 || meta.location.filename().is_some_and(|name| name.starts_with('_')) {
                self.passed.insert(meta.location.clone(), meta);
            }
        }
        listed.common_prefixes.retain(|subdirectory| {
            self.takes(subdirectory.filename().unwrap_or_default(), Some(subdirectory), segment, None)
        });
        listed.common_prefixes.into_iter()
    }

    /// Whether a listed file (with its size) or directory (with its path) belongs to the table, by its name.
    fn takes(
        &mut self,
        name: &str,
        directory: Option<&Path>,
        pattern: Option<&glob::Pattern>,
        size: Option<u64>,
    ) -> bool {
        if pattern.is_some_and(|pattern| !pattern.matches(name)) {
            return false;
        }
        let spelled_out = pattern.is_some_and(|pattern| is_hidden(pattern.as_str(), false));
        let crc_asked = pattern.is_some_and(|pattern| pattern.as_str().ends_with(".crc"));
        let reason = match size {
            _ if is_hidden(name, size.is_none()) && !spelled_out => SkipReason::Hidden,
            Some(_) if name.ends_with(".crc") && !crc_asked => SkipReason::Checksum,
            Some(_)
                if is_sidecar_of_table(name, self.beside_records)
                    && !pattern.is_some_and(|pattern| asks_for_ending(pattern, name)) =>
            {
                SkipReason::Description
            }
            // One with the name of a compressed file was cut off; the reader reports it.
            Some(0) if named_compression(name).is_none() => SkipReason::EmptyFile,
            _ if self.is_local() && directory.is_some_and(is_link_to_parent) => SkipReason::Loop,
            _ => return true,
        };
        let name = if size.is_some() { name.to_owned() } else { format!("{name}/") };
        self.skipped.push(name, reason);
        false
    }

    pub(crate) fn is_local(&self) -> bool {
        self.location.is_local()
    }

    pub(crate) async fn head(&self, path: &Path) -> Result<Option<ObjectMeta>> {
        if path.as_ref().is_empty() {
            return Ok(None);
        }
        let name = self.location.file_names().name(path);
        self.door.check_key(self.location.object_store().as_ref(), path, &name)?;
        self.location.check_file(path)?;
        match self.store.head(path).await {
            Ok(meta) => Ok(Some(meta)),
            Err(object_store::Error::NotFound { .. }) => match self.is_local().then(|| dangling_target(path)).flatten()
            {
                Some(target) => {
                    let file = self.location.file_names().name(path);
                    Err(ErrorKind::DanglingLink { file, target }.into())
                }
                None => Ok(None),
            },
            // Stores also return this for missing files, to users who may not list; a pattern is listed instead.
            Err(object_store::Error::PermissionDenied { .. }) if self.location.is_pattern() => Ok(None),
            Err(source) => Err(ErrorKind::List { location: self.location.file_names().name(path), source }.into()),
        }
    }

    /// Distinguishes an empty directory from a missing one.
    pub(crate) async fn nothing_found(&self) -> Result<crate::error::Error> {
        let location = self.location.to_string();
        if !self.seen && !self.location.is_pattern() && !self.exists(self.location.prefix()).await? {
            return Ok(ErrorKind::NotFound { location }.into());
        }
        let pattern = self.location.is_pattern();
        Ok(ErrorKind::Empty { location, pattern, skipped: self.skipped.clone() }.into())
    }

    async fn exists(&self, directory: &Path) -> Result<bool> {
        if directory.as_ref().is_empty() {
            return Ok(true);
        }
        let parent = directory.as_ref().rsplit_once('/').map_or("", |(parent, _)| parent);
        let parent = Path::parse(parent).unwrap_or_default();
        let LocalDirectory { listed, .. } = self
            .list(&parent)
            .await
            .map_err(|source| ErrorKind::List { location: self.location.to_string(), source })?;
        Ok(listed.common_prefixes.contains(directory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_listing_is_a_tree_of_directories() {
        let meta = |key: &&str| ObjectMeta {
            location: Path::from(*key),
            last_modified: std::time::SystemTime::UNIX_EPOCH.into(),
            size: 1,
            e_tag: None,
            version: None,
        };
        let keys = ["t", "t/a", "t/x/y/z", "t/x/y/w", "t/x/b", "u/c"];
        let found = tree(&Path::from("t"), keys.iter().map(meta).collect());
        let shown: Vec<_> = found
            .iter()
            .map(|(directory, listed)| {
                let objects = listed.objects.iter().map(|meta| meta.location.as_ref());
                let inside: Vec<_> = listed.common_prefixes.iter().map(Path::as_ref).chain(objects).collect();
                format!("{directory}: {}", inside.join(" "))
            })
            .collect();
        assert_eq!(shown, ["t: t/x t/a", "t/x: t/x/y t/x/b", "t/x/y: t/x/y/z t/x/y/w"]);
    }
}
