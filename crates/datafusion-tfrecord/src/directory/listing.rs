//! Finds the files of a table in an object store.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow_schema::Schema;
use datafusion_execution::object_store::ObjectStoreUrl;
use datafusion_session::Session;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ListResult, ObjectMeta, ObjectStore, ObjectStoreExt};
use tfrecord_shards::is_sidecar;
use url::Url;

use super::error::{ErrorKind, Result, SkipReason, Skipped};
use super::location::{FileNames, Location, Segment};
use super::partition::{self, PartitionColumns};

/// The files of a table, found once and in a stable order.
///
/// A directory yields every file in it and below it, but for what the tools that fill such directories mean to be
/// passed over: names that start with `_` or `.` (`_SUCCESS`, `_temporary/`, `.part-0.parquet.crc`), `.crc` files, files
/// of 0 bytes, and [sidecars](tfrecord_shards::is_sidecar), which lie beside records and describe them: notes (`.md`,
/// `.html`), schemas, indexes such as `.idx`, `features.json` and `dataset_info.json` of TensorFlow Datasets. What may be
/// rows itself is no sidecar by its ending alone: other `.csv` and `.json` files never, `.txt` files in a directory with
/// files named `.tfrecord` only. A name that the location spells out is taken whatever it is.
#[derive(Debug, Clone)]
pub struct Listing {
    store_url: ObjectStoreUrl,
    store: Arc<dyn ObjectStore>,
    files: Vec<ObjectMeta>,
    partitions: PartitionColumns,
    names: FileNames,
    locations: Vec<String>,
}

impl Listing {
    /// Lists `locations`, which lie in one store, in their order; files within one are sorted by path.
    ///
    /// # Errors
    /// A location does not exist, cannot be listed or holds nothing to read; its store is not registered with the
    /// session; the files lie under different `key=value` directories.
    pub async fn list(session: &dyn Session, locations: &[Location]) -> Result<Self> {
        let (store_url, store) = store_of(session, locations)?;
        let mut found = Vec::with_capacity(locations.len());
        for location in locations {
            let walked = walk(store.as_ref(), location).await?;
            found.push((location, walked.files()?));
        }
        Self::of_files(store_url, store, found)
    }

    /// A table of files that were found under these locations.
    pub(crate) fn of_files(
        store_url: ObjectStoreUrl,
        store: Arc<dyn ObjectStore>,
        found: Vec<(&Location, Vec<ObjectMeta>)>,
    ) -> Result<Self> {
        let names = found.first().map(|(location, _)| location.file_names().clone()).unwrap_or_default();
        let locations = found.iter().map(|(location, _)| location.to_string()).collect();
        let mut files: Vec<ObjectMeta> = Vec::new();
        let mut keys = Vec::new();
        let mut paths = HashSet::new();
        for (location, found) in found {
            for meta in found {
                if paths.insert(meta.location.clone()) {
                    keys.push(partition::keys(&location.prefix, &meta.location));
                    files.push(meta);
                }
            }
        }
        let partitions = PartitionColumns::infer(&keys, |index| names.name(&files[index].location))?;
        Ok(Self { store_url, store, files, partitions, names, locations })
    }

    /// The same files with other columns of their paths.
    pub(crate) fn with_partitions(self, partitions: PartitionColumns) -> Self {
        Self { partitions, ..self }
    }

    /// The same, where those columns of the path that `declared` names have the types that it gives them; its other
    /// columns are of no concern.
    ///
    /// # Errors
    /// A directory has a value that is none of its type, or the type is none that a path can hold.
    pub fn with_partition_types(mut self, declared: &Schema) -> Result<Self> {
        let (files, names) = (&self.files, &self.names);
        self.partitions = self.partitions.with_types(declared, |index| names.name(&files[index].location))?;
        Ok(self)
    }

    /// The files, in the order in which a table reads them.
    pub fn files(&self) -> &[ObjectMeta] {
        &self.files
    }

    /// The files' names as messages show them, in the same order.
    pub fn file_names(&self) -> impl Iterator<Item = String> + '_ {
        self.files.iter().map(|file| self.names.name(&file.location))
    }

    /// How files are named in messages.
    pub fn names(&self) -> &FileNames {
        &self.names
    }

    /// Size of all files in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    /// The store that holds the files.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// The URL under which the session knows the store.
    pub fn store_url(&self) -> &ObjectStoreUrl {
        &self.store_url
    }

    /// The locations as the user wrote them.
    pub fn locations(&self) -> &[String] {
        &self.locations
    }

    /// The columns that `key=value` directories add to every row.
    pub fn partitions(&self) -> &PartitionColumns {
        &self.partitions
    }
}

/// The store in which all of `locations` lie.
pub(crate) fn store_of(
    session: &dyn Session,
    locations: &[Location],
) -> Result<(ObjectStoreUrl, Arc<dyn ObjectStore>)> {
    let first = locations
        .first()
        .ok_or_else(|| ErrorKind::Location { location: String::new(), reason: "no location given".to_owned() })?;
    let store_url = first.object_store().clone();
    if let Some(other) = locations.iter().find(|location| *location.object_store() != store_url) {
        let reason = format!("it lies in another store than {first}");
        return Err(ErrorKind::Location { location: other.to_string(), reason }.into());
    }
    let store = session
        .runtime_env()
        .object_store(&store_url)
        .map_err(|source| ErrorKind::Store { location: first.to_string(), source })?;
    Ok((store_url, store))
}

/// What is under one location.
pub(crate) struct Walked {
    /// The files to read, sorted by path; the error of a table of this location if there is none.
    files: Result<Vec<ObjectMeta>>,
    /// The files that were seen in directories and passed over, by path: empty ones, and those whose name starts with
    /// `_`.
    pub(crate) passed: BTreeMap<Path, ObjectMeta>,
}

impl Walked {
    /// The files to read, sorted by path.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn files(self) -> Result<Vec<ObjectMeta>> {
        self.files
    }

    /// Takes the files to read, or nothing if there are none.
    pub(crate) fn take_files(&mut self) -> Vec<ObjectMeta> {
        self.files.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

/// The file at `path`, if there is one; `location` led to it.
pub(crate) async fn head(store: &dyn ObjectStore, location: &Location, path: &Path) -> Result<Option<ObjectMeta>> {
    Walk::new(store, location).head(path).await
}

/// Looks for the files under `location`.
pub(crate) async fn walk(store: &dyn ObjectStore, location: &Location) -> Result<Walked> {
    let mut walk = Walk::new(store, location);
    walk.find().await?;
    let files = match walk.found.is_empty() {
        true => Err(walk.nothing_found().await?),
        false => Ok(walk.found.into_values().collect()),
    };
    Ok(Walked { files, passed: walk.passed })
}

/// Whether a path of the local file system leads to a pipe, a device or a socket. The store would wait for the other
/// end of a pipe and take a device for a file of 0 bytes.
fn is_special_file(path: &Path) -> bool {
    std::fs::metadata(format!("/{path}")).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// Whether a directory of the local file system is a link to one on the way to it. Two of these, followed, are a tree without
/// end for practical purposes.
fn leads_back(path: &Path) -> bool {
    let path = std::path::PathBuf::from(format!("/{path}"));
    let is_on_the_way = |target: std::path::PathBuf| {
        let mut way = path.ancestors().skip(1).filter_map(|above| above.canonicalize().ok());
        way.any(|above| above.starts_with(&target))
    };
    path.is_symlink() && path.canonicalize().is_ok_and(is_on_the_way)
}

/// Whether a file describes the records beside it. `beside_records`: some file there is certain to hold records.
fn is_description(name: &str, beside_records: bool) -> bool {
    const NAMES: [&str; 2] = ["dataset_info.json", "features.json"];
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    match ending.as_deref() {
        // Tables are kept in these, too.
        Some("csv" | "json") => NAMES.contains(&name),
        Some("txt") => beside_records || name.ends_with(".labels.txt"),
        _ => is_sidecar(name),
    }
}

/// Whether a file holds records, by its name: `a.tfrecord`, `a.tfrecords.gz`, `a.tfrec`, `a.tfrecord-00000-of-00002`.
fn is_records(path: &Path) -> bool {
    path.filename().is_some_and(|name| name.contains(".tfrec") && !is_sidecar(name))
}

/// Whether a pattern is for files of this ending, and not for any.
fn asks_for_ending(pattern: &glob::Pattern, name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, ending)| pattern.as_str().ends_with(ending))
}

/// One walk through a store.
struct Walk<'a> {
    store: &'a dyn ObjectStore,
    location: &'a Location,
    found: BTreeMap<Path, ObjectMeta>,
    skipped: Skipped,
    passed: BTreeMap<Path, ObjectMeta>,
    /// Whether some file of the directory being visited is certain to hold records.
    beside_records: bool,
    /// Whether any file or directory was seen at all.
    seen: bool,
    /// Whether the store knows keys, not directories: all keys of many directories are one listing.
    is_flat: bool,
    /// Directories of a flat store that were listed with all below them.
    known: BTreeMap<Path, ListResult>,
    /// The directories from which on down they are known.
    trees: Vec<Path>,
}

/// Services that list all keys with a prefix, a thousand at a time, as readily as those of one directory.
const FLAT: [&str; 9] = ["s3", "s3a", "gs", "gcs", "az", "azure", "adl", "abfs", "abfss"];

/// Requests at a time.
const REQUESTS: usize = 32;

/// What a walk asks of the store next.
enum Step<'a> {
    /// Whether there is such a file.
    Head(Path),
    /// What is in a directory: what of it fits `segment`, and below that what fits `rest`.
    List { directory: Path, segment: Option<&'a glob::Pattern>, pattern: &'a [Segment], rest: &'a [Segment] },
}

/// What the store said to a [`Step`].
enum Answer<'a> {
    File(ObjectMeta),
    NoFile(Path),
    Directory {
        listed: ListResult,
        segment: Option<&'a glob::Pattern>,
        pattern: &'a [Segment],
        rest: &'a [Segment],
    },
    /// A directory and all below it, which are to be visited with this pattern.
    Tree {
        root: Path,
        pattern: &'a [Segment],
        directories: BTreeMap<Path, ListResult>,
    },
}

/// The steps to what fits `pattern` below `directory`.
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

/// The directories from `root` down in which `objects` lie, each as a listing of it would be.
fn tree(root: &Path, objects: Vec<ObjectMeta>) -> BTreeMap<Path, ListResult> {
    let empty = || ListResult { objects: Vec::new(), common_prefixes: Vec::new() };
    let mut directories = BTreeMap::from([(root.clone(), empty())]);
    // A key `root/` of no bytes, as some tools make for a directory, is the root itself.
    let inside = |meta: &ObjectMeta| meta.location != *root && meta.location.prefix_matches(root);
    for meta in objects.into_iter().filter(inside) {
        let mut directory = meta.location.parent().unwrap_or_default();
        if let Some(known) = directories.get_mut(&directory) {
            known.objects.push(meta);
            continue;
        }
        directories.insert(directory.clone(), ListResult { objects: vec![meta], ..empty() });
        // Up to the first that is known.
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

impl<'a> Walk<'a> {
    fn new(store: &'a dyn ObjectStore, location: &'a Location) -> Self {
        let (found, passed) = (BTreeMap::new(), BTreeMap::new());
        let url: &Url = location.object_store().as_ref();
        let is_flat = FLAT.contains(&url.scheme());
        let (skipped, known) = (Skipped::default(), BTreeMap::new());
        Self {
            store,
            location,
            found,
            skipped,
            passed,
            beside_records: false,
            seen: false,
            is_flat,
            known,
            trees: Vec::new(),
        }
    }

    async fn find(&mut self) -> Result<()> {
        if !self.location.is_directory
            && let Some(meta) = self.head(&self.location.literal).await?
        {
            self.found.insert(meta.location.clone(), meta);
            return Ok(());
        }
        let location = self.location;
        let url: &Url = location.object_store().as_ref();
        match self.descend().await {
            // Servers of the web hardly ever list; that there is no such file they said already.
            Err(error)
                if matches!(url.scheme(), "http" | "https")
                    && !location.is_directory
                    && !location.is_pattern()
                    && matches!(error.kind(), ErrorKind::List { .. }) =>
            {
                Err(ErrorKind::NotFound { location: location.to_string() }.into())
            }
            done => done,
        }
    }

    /// Visits directories, a level at a time, each with the part of the pattern that still has to match below it.
    async fn descend(&mut self) -> Result<()> {
        let mut level = vec![(self.location.prefix.clone(), self.location.pattern.as_slice())];
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
                    Answer::Directory { listed, segment, pattern, rest } => {
                        let takes_files = rest.is_empty() || matches!(pattern, [Segment::AnyDepth]);
                        level.extend(self.visit(listed, segment, takes_files).map(|directory| (directory, rest)));
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
            // All below it at once, before anything of it is asked for.
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
            return Ok(Answer::Directory { listed: ListResult { objects, common_prefixes }, segment, pattern, rest });
        }
        let failed = |source| ErrorKind::List { location: self.location.file_names().name(&directory), source };
        if self.is_flat && segment.is_none() {
            let objects = self.store.list(Some(&directory)).try_collect().await.map_err(failed)?;
            let directories = tree(&directory, objects);
            return Ok(Answer::Tree { root: directory, pattern, directories });
        }
        let listed = self.store.list_with_delimiter(Some(&directory)).await.map_err(failed)?;
        Ok(Answer::Directory { listed, segment, pattern, rest })
    }

    /// Whether nothing lies in the directory, since it is not among those that are known.
    fn is_known_absent(&self, directory: &Path) -> bool {
        !self.known.contains_key(directory) && self.trees.iter().any(|root| directory.prefix_matches(root))
    }

    /// Takes what belongs to the table from a directory; its subdirectories that may hold more of it.
    fn visit(
        &mut self,
        mut listed: ListResult,
        segment: Option<&glob::Pattern>,
        takes_files: bool,
    ) -> impl Iterator<Item = Path> + use<> {
        listed.objects.sort_by(|left, right| left.location.cmp(&right.location));
        self.seen |= !listed.objects.is_empty() || !listed.common_prefixes.is_empty();
        self.beside_records = listed.objects.iter().any(|meta| is_records(&meta.location));
        for meta in listed.objects {
            if takes_files && self.takes(&meta.location, segment, Some(meta.size)) {
                self.found.insert(meta.location.clone(), meta);
            } else if meta.size == 0 || meta.location.filename().is_some_and(|name| name.starts_with('_')) {
                self.passed.insert(meta.location.clone(), meta);
            }
        }
        listed.common_prefixes.retain(|subdirectory| self.takes(subdirectory, segment, None));
        listed.common_prefixes.into_iter()
    }

    /// Whether a file (with its size) or directory that a listing brought up belongs to the table.
    fn takes(&mut self, path: &Path, pattern: Option<&glob::Pattern>, size: Option<u64>) -> bool {
        let name = path.filename().unwrap_or_default();
        if pattern.is_some_and(|pattern| !pattern.matches(name)) {
            return false;
        }
        let spelled_out = pattern.is_some_and(|pattern| pattern.as_str().starts_with(['.', '_']));
        let crc_asked = pattern.is_some_and(|pattern| pattern.as_str().ends_with(".crc"));
        let reason = match size {
            // Hive and Spark know columns such as `_id`; `_id=7/` is a partition, not a hidden directory.
            _ if name.starts_with('.') && !spelled_out => SkipReason::Hidden,
            _ if name.starts_with('_') && !spelled_out && (size.is_some() || !name.contains('=')) => SkipReason::Hidden,
            Some(_) if name.ends_with(".crc") && !crc_asked => SkipReason::Checksum,
            Some(_)
                if is_description(name, self.beside_records)
                    && !pattern.is_some_and(|pattern| asks_for_ending(pattern, name)) =>
            {
                SkipReason::Description
            }
            Some(0) => SkipReason::EmptyFile,
            None if self.is_local() && leads_back(path) => SkipReason::Loop,
            _ => return true,
        };
        let name = if size.is_some() { name.to_owned() } else { format!("{name}/") };
        self.skipped.push(name, reason);
        false
    }

    fn is_local(&self) -> bool {
        *self.location.object_store() == ObjectStoreUrl::local_filesystem()
    }

    async fn head(&self, path: &Path) -> Result<Option<ObjectMeta>> {
        if path.as_ref().is_empty() {
            return Ok(None);
        }
        if self.is_local() && is_special_file(path) {
            return Err(ErrorKind::NotAFile { file: self.location.file_names().name(path) }.into());
        }
        match self.store.head(path).await {
            Ok(meta) => Ok(Some(meta)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            // Said of what is not there, too, to who may not list; a pattern is listed.
            Err(object_store::Error::PermissionDenied { .. }) if self.location.is_pattern() => Ok(None),
            Err(source) => Err(ErrorKind::List { location: self.location.file_names().name(path), source }.into()),
        }
    }

    /// Tells an empty directory from one that is not there.
    async fn nothing_found(&self) -> Result<super::Error> {
        let location = self.location.to_string();
        if !self.seen && !self.location.is_pattern() && !self.exists(&self.location.prefix).await? {
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
        let listed = self
            .store
            .list_with_delimiter(Some(&parent))
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
