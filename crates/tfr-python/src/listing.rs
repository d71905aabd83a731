//! [`Found`]: the files at paths and URLs.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::TryStreamExt;
use glob::MatchOptions;
use object_store::path::Path as Key;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use tfr_stores::{Location, LocationText, Segment};
use tfrecord_shards::{FileStore, Input, MANIFEST_NAME, ReadSeek, StoredFiles, set_directories};

use crate::buckets::Object;
use crate::error::{Failure, Result};
use crate::files::Files;

/// The files at paths and URLs.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The paths, and the listings of objects.
    pub(crate) inputs: Vec<Input>,
    /// The directories among them.
    pub(crate) directories: Vec<PathBuf>,
    /// The objects, by their names in messages.
    pub(crate) objects: HashMap<PathBuf, Object>,
}

impl Found {
    /// Lists objects, and checks that everything is allowed. Local patterns are already expanded.
    pub(crate) fn at(paths: &[PathBuf], files: &Files) -> Result<Self> {
        let mut found = Self::default();
        for path in paths {
            match path.to_str().filter(|text| text.contains("://")) {
                Some(url) => found.add_objects(url, files)?,
                None => found.add_path(path, files)?,
            }
        }
        Ok(found)
    }

    fn add_path(&mut self, path: &Path, files: &Files) -> Result<()> {
        let door = files.door();
        if door.is_limited() {
            let refused = |error: tfr_stores::Error| Failure::store(None, &error);
            door.check_path(path).map_err(refused)?;
            // The manifest of a set that lists a file is read with it.
            let beside = set_directories(path).filter(|_| !path.is_dir()).map(|dir| dir.join(MANIFEST_NAME));
            for manifest in beside.filter(|manifest| manifest.symlink_metadata().is_ok()) {
                door.check_path(&manifest).map_err(refused)?;
            }
            // Links below it, and what its manifest names, may lead elsewhere.
            door.check_tree(path).map_err(refused)?;
            for file in tfrecord_shards::files(&[path.to_owned()])?.0 {
                door.check_path(&file).map_err(refused)?;
            }
        }
        self.directories.extend(path.is_dir().then(|| path.to_owned()));
        self.inputs.push(Input::Path(path.to_owned()));
        Ok(())
    }

    fn add_objects(&mut self, url: &str, files: &Files) -> Result<()> {
        let unusable = |error: tfr_stores::Error| Failure::store(None, &error);
        let location = Location::parse(url).map_err(unusable)?;
        if location.is_local() {
            return self.add_path(Path::new(&format!("/{}", location.key())), files);
        }
        files.door().check_location(&location).map_err(unusable)?;
        let store = files.buckets()?.store(location.object_store())?;
        let listing = Listing { location: &location, store: &store, files };
        let roots = listing.find()?;
        let mut objects = HashMap::new();
        for meta in roots.values().flat_map(Root::objects) {
            let name = listing.name(&meta.location);
            let object = Object::new(&name, location.object_store(), meta)?;
            insert(&mut objects, name.clone(), object.clone())?;
            insert(&mut self.objects, name, object)?;
        }
        let listed: Arc<dyn FileStore> =
            Arc::new(Listed { location: location.clone(), store: Arc::clone(&store), files: files.clone(), objects });
        for root in roots.into_values() {
            let listed = Arc::clone(&listed);
            self.inputs.push(Input::Stored(match root {
                Root::File(meta) => StoredFiles::file(listing.name(&meta.location), meta.size, listed),
                Root::Directory(directory, metas) => {
                    let directory = listing.name(&directory);
                    self.directories.push(directory.clone());
                    let lens = metas.iter().map(|meta| (listing.name(&meta.location), meta.size));
                    StoredFiles::directory(directory, lens, listed)
                }
            }));
        }
        Ok(())
    }
}

/// Adds an object. What is read is found by its name, which lacks users and queries: others of the name are refused.
fn insert(objects: &mut HashMap<PathBuf, Object>, name: PathBuf, object: Object) -> Result<()> {
    match objects.entry(name) {
        Entry::Occupied(known) if !known.get().is_same(&object) => {
            let problem =
                "several files have this name: their URLs differ in a query or a user only, which names leave out";
            Err(Failure::usage(format!("{}: {problem}", known.key().display())).with_hint("Read them one by one."))
        }
        known => {
            known.or_insert(object);
            Ok(())
        }
    }
}

/// What a location or a match of its pattern is.
enum Root {
    File(ObjectMeta),
    Directory(Key, Vec<ObjectMeta>),
}

/// Sorted by their names. Several keys may have one name.
type Roots = BTreeMap<(PathBuf, Key), Root>;

impl Root {
    fn objects(&self) -> &[ObjectMeta] {
        match self {
            Self::File(meta) => std::slice::from_ref(meta),
            Self::Directory(_, metas) => metas,
        }
    }
}

/// Lists the objects of a location.
struct Listing<'a> {
    location: &'a Location,
    store: &'a Arc<dyn ObjectStore>,
    files: &'a Files,
}

impl Listing<'_> {
    /// Returns the name of an object in messages, without secrets.
    fn name(&self, key: &Key) -> PathBuf {
        name(self.location, key)
    }

    /// Returns the file, the directory, or the matches of the pattern, by their names.
    fn find(&self) -> Result<Roots> {
        let Self { location, store, files } = self;
        let shown = PathBuf::from(location.to_string());
        let is_stopped = files.stop().as_ref();
        let buckets = files.buckets()?;
        let failed = |error: object_store::Error| Failure::object(&shown, &error);
        if !location.is_directory() && !location.key().as_ref().is_empty() {
            match buckets.answer(|| store.head(location.key()), is_stopped)? {
                Ok(meta) => {
                    return Ok(BTreeMap::from([(
                        (self.name(&meta.location), meta.location.clone()),
                        Root::File(meta),
                    )]));
                }
                // Web servers rarely list directories, and this one has no such file.
                Err(error @ object_store::Error::NotFound { .. }) if is_web(location) => return Err(failed(error)),
                Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        let listed: Vec<ObjectMeta> =
            buckets.answer(|| store.list(Some(location.prefix())).try_collect(), is_stopped)?.map_err(failed)?;
        let roots = match location.is_pattern() {
            true => matches(location, listed),
            false if listed.is_empty() => BTreeMap::new(),
            false => {
                let root = location.key().clone();
                BTreeMap::from([((self.name(&root), root.clone()), Root::Directory(root, listed))])
            }
        };
        if roots.is_empty() {
            let problem = if location.is_pattern() { "no file matches" } else { "no such file or directory" };
            return Err(Failure::missing(&shown, problem));
        }
        Ok(roots)
    }
}

fn name(location: &Location, key: &Key) -> PathBuf {
    let text = location.file_names().in_full(key);
    LocationText::from(text.trim_end_matches('/')).to_string().into()
}

fn is_web(location: &Location) -> bool {
    location.object_store().as_str().starts_with("http")
}

/// Returns the files and directories that match a pattern, with the files in the directories.
fn matches(location: &Location, listed: Vec<ObjectMeta>) -> Roots {
    let mut roots = BTreeMap::new();
    for meta in listed {
        let Some(below) = meta.location.prefix_match(location.prefix()) else { continue };
        let parts: Vec<String> = below.map(|part| part.as_ref().to_owned()).collect();
        let fits = |len: &usize| parts.get(..*len).is_some_and(|parts| is_match(location.pattern(), parts));
        let Some(len) = (1..=parts.len()).find(fits) else { continue };
        if len == parts.len() {
            roots.insert((name(location, &meta.location), meta.location.clone()), Root::File(meta));
            continue;
        }
        let root = parts.iter().take(len).fold(location.prefix().clone(), |root, part| root.join(part.as_str()));
        let key = (name(location, &root), root.clone());
        let found = roots.entry(key).or_insert_with(|| Root::Directory(root, Vec::new()));
        if let Root::Directory(_, metas) = found {
            metas.push(meta);
        }
    }
    roots
}

/// Whether names match a pattern, as Python's glob has it: `*` matches no hidden name.
fn is_match(pattern: &[Segment], names: &[String]) -> bool {
    let options = MatchOptions { require_literal_leading_dot: true, ..MatchOptions::default() };
    match (pattern, names) {
        ([], names) => names.is_empty(),
        ([Segment::AnyDepth, rest @ ..], names) => {
            let hidden = names.iter().position(|name| name.starts_with('.')).unwrap_or(names.len());
            (0..=hidden).any(|skipped| is_match(rest, names.get(skipped..).unwrap_or_default()))
        }
        (_, []) => false,
        ([Segment::Literal(literal), rest @ ..], [name, names @ ..]) => literal == name && is_match(rest, names),
        ([Segment::Pattern(pattern), rest @ ..], [name, names @ ..]) => {
            pattern.matches_with(name, options) && is_match(rest, names)
        }
    }
}

/// The objects of a location, for what reads files of stores.
struct Listed {
    location: Location,
    store: Arc<dyn ObjectStore>,
    files: Files,
    objects: HashMap<PathBuf, Object>,
}

impl fmt::Debug for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listed").field("objects", &self.objects.len()).finish_non_exhaustive()
    }
}

impl Listed {
    fn file(&self, path: &Path) -> io::Result<Box<dyn ReadSeek>> {
        // The number of records of an ArrayRecord file is at its end.
        let has_footer = path.extension().is_some_and(|ending| ending == "array_record" || ending == "arrayrecord");
        let until = |object: &Object| if has_footer { 0 } else { object.size() };
        let open = |object: &Object| self.files.open(path, Some(object), until(object)).map_err(io::Error::other);
        match self.objects.get(path) {
            Some(object) => open(object),
            None => open(&self.beside(path)?),
        }
    }

    /// Finds the manifest of the set that contains a file that was named itself. As for the command, web servers have none.
    /// A server that denies the manifest, and not the file, may have none either: without the right to list files, a
    /// missing one is denied.
    fn beside(&self, path: &Path) -> io::Result<Object> {
        if is_web(&self.location) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let root = name(&self.location, &Key::default());
        let below = path.strip_prefix(root).ok().and_then(Path::to_str);
        let key = below.and_then(|below| Key::parse(below).ok()).ok_or(io::ErrorKind::NotFound)?;
        let buckets = self.files.buckets().map_err(io::Error::other)?;
        match buckets.answer(|| self.store.head(&key), self.files.stop().as_ref()).map_err(io::Error::other)? {
            Ok(meta) => Object::new(path, self.location.object_store(), &meta).map_err(io::Error::other),
            Err(object_store::Error::NotFound { .. }) => Err(io::ErrorKind::NotFound.into()),
            Err(error @ object_store::Error::PermissionDenied { .. })
                if tfr_stores::Error::refusal_in(&error).is_none() =>
            {
                Err(io::ErrorKind::NotFound.into())
            }
            Err(error) => Err(io::Error::other(Failure::object(path, &error))),
        }
    }
}

impl FileStore for Listed {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(self.file(path)?))
    }

    fn open_seekable(&self, path: &Path) -> Option<io::Result<Box<dyn ReadSeek>>> {
        Some(self.file(path))
    }
}
