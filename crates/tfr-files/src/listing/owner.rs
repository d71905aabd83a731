//! [`Owner`]: the table of a [`TableFormat`] that the files of a location belong to.
//!
//! [`owners`] inspects every directory from the files that a traversal found up to the named directory, and some of
//! those above it. Directories that were already visited need no further request; others are listed once each. A
//! local directory above the named one may be large, so it is not listed but probed for the relevant names.

use std::collections::{BTreeMap, BTreeSet};

use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use tfr_stores::Segment;

use crate::error::{ErrorKind, Result};
use crate::listing::table_format::{MARKER_NAMES, Owner, Sign, TableFormat, signs};
use crate::listing::traversal::{REQUESTS, Traversal};

/// Number of directories above the named one to inspect, not counting those of partitions (`key=value`).
const LEVELS: usize = 8;

/// What a listing does about files that belong to a table of a [`TableFormat`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OwnedFiles {
    /// Fails: such files are rows only if the table's log says so.
    #[default]
    Refuse,
    /// Includes them, and [reports](crate::Listing::owners) the tables they belong to.
    Report,
    /// Includes them, and does not look for tables.
    Ignore,
}

/// A directory with files of the location.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OwnerDirectory {
    directory: Path,
    /// The named directory in the same spelling: with symbolic links, or without.
    named: Path,
}

impl OwnerDirectory {
    /// Returns the directory, its parents up to the named one, and some above that: those that are partitions of a
    /// table, and [`LEVELS`] others.
    fn ancestors(&self) -> Vec<Path> {
        let top = if self.directory.prefix_matches(&self.named) { &self.named } else { &self.directory };
        let is_partition = |directory: &Path| {
            let name = directory.filename().unwrap_or_default();
            name.split_once('=').is_some_and(|(key, _)| !key.is_empty())
        };
        let mut left = LEVELS;
        let above = std::iter::successors(Some(self.directory.clone()), Path::parent);
        let counted = above.take_while(|directory| {
            let is_free = directory.parts_count() >= top.parts_count() || is_partition(directory);
            let is_taken = is_free || left > 0;
            left = left.saturating_sub(usize::from(!is_free));
            is_taken
        });
        counted.collect()
    }

    /// Returns the name of the directory in `root` that leads to this one, if the user wrote it.
    fn spelled_out(&self, root: &Path, pattern: &[Segment]) -> Option<&str> {
        let name = self.directory.as_ref().split('/').nth(root.parts_count())?;
        let is_named = self.named.prefix_matches(&root.clone().join(name));
        let is_in_pattern = pattern.iter().any(|segment| match segment {
            Segment::Literal(literal) => literal == name,
            Segment::Pattern(pattern) => !pattern.as_str().starts_with(['*', '?', '[']) && pattern.matches(name),
            Segment::AnyDepth => false,
        });
        (is_named || is_in_pattern).then_some(name)
    }
}

/// Returns the tables that the files of a traversal belong to. If it found none, returns those in the directories
/// that it visited.
///
/// A path into the metadata of a table, such as `t/_delta_log/`, requests that metadata: it belongs to no table.
///
/// # Errors
/// The store fails. Missing permission to list a directory above the named one is not an error.
pub(crate) async fn owners(traversal: &Traversal<'_>) -> Result<Vec<Owner>> {
    let places = places(traversal);
    let mut directories = BTreeSet::new();
    for place in &places {
        match traversal.found.is_empty() {
            // If no file was found, only the visited directories give evidence.
            true => drop(directories.insert(place.directory.clone())),
            false => directories.extend(place.ancestors()),
        }
    }
    directories.retain(|directory| !is_shared(traversal, directory) && is_allowed(traversal, directory));
    // Collected first: a closure over references is not general enough for the compiler inside a stream.
    let inspected: Vec<_> = directories.iter().map(|directory| inspect(traversal, directory).boxed()).collect();
    let inspected: Vec<_> = stream::iter(inspected).buffered(REQUESTS).try_collect().await?;
    let mut tables = BTreeMap::new();
    for (root, format, marker) in inspected.into_iter().flatten() {
        tables.entry((root, format)).or_insert(marker);
    }
    let owns = |root: &Path, format: TableFormat| {
        places.iter().any(|place| {
            let spelled_out = place.spelled_out(root, traversal.location.pattern());
            place.directory.prefix_matches(root)
                && !spelled_out.is_some_and(|name| format.metadata_directories().contains(&name))
        })
    };
    let mut roots: Vec<(Path, TableFormat)> = Vec::new();
    let mut owners = Vec::new();
    for ((root, format), marker) in tables {
        // A table may have metadata of several formats and markers in its partitions; only the first is reported.
        let is_known =
            |(known, of): &(Path, TableFormat)| root == *known || format == *of && root.prefix_matches(known);
        if !roots.iter().any(is_known) && owns(&root, format) {
            owners.push(Owner { format, directory: traversal.location.file_names().name(&root), marker });
            roots.push((root, format));
        }
    }
    Ok(owners)
}

/// Returns the directories of the files that were found, with and without symbolic links. If there are no files,
/// returns the directories with signs.
fn places(traversal: &Traversal<'_>) -> BTreeSet<OwnerDirectory> {
    let named = traversal.location.prefix();
    let place = |directory: Path| OwnerDirectory { directory, named: named.clone() };
    if traversal.found.is_empty() {
        return traversal.signs.keys().cloned().map(place).collect();
    }
    let directories: BTreeSet<_> = traversal.found.keys().map(|file| file.parent().unwrap_or_default()).collect();
    let mut places = BTreeSet::new();
    if traversal.is_local() {
        let resolved_named = resolve(named).unwrap_or_else(|| named.clone());
        let resolved_place = |directory: Path| OwnerDirectory { directory, named: resolved_named.clone() };
        let links = traversal.found.keys().filter(|file| is_link(file));
        let targets = links.filter_map(|file| resolve(file)?.parent());
        let resolved = directories.iter().filter_map(resolve).chain(targets);
        places.extend(resolved.map(resolved_place));
    }
    places.extend(directories.into_iter().map(place));
    places
}

/// Returns the tables that a directory is, or is a part of: their directory, format and marker.
async fn inspect(traversal: &Traversal<'_>, directory: &Path) -> Result<Vec<(Path, TableFormat, String)>> {
    let found = match traversal.signs_of(directory) {
        Some(signs) => signs,
        None if traversal.is_local() && !directory.prefix_matches(traversal.location.prefix()) => ask(directory),
        None => list(traversal, directory).await?.signs(directory),
    };
    let mut tables = Vec::new();
    for sign in found {
        match sign {
            Sign::Table(format, marker) => tables.push((directory.clone(), format, marker)),
            Sign::Part(format, marker) => tables.push((directory.parent().unwrap_or_default(), format, marker)),
            Sign::Perhaps(format, name) => {
                let listed = list(traversal, &directory.clone().join(name)).await?;
                // Usually the newest one, and for Iceberg the one that describes the table.
                let rank = |file: &&String| (file.contains(".metadata.json"), number_in(file), (*file).clone());
                if let Some(file) = listed.files.iter().filter(|file| format.confirms(file)).max_by_key(rank) {
                    tables.push((directory.clone(), format, format!("{name}/{file}")));
                }
            }
        }
    }
    Ok(tables)
}

/// Returns the first number in a name: `v10.metadata.json` is newer than `v9.metadata.json`.
fn number_in(name: &str) -> Option<u64> {
    let digits = name.find(|c: char| c.is_ascii_digit()).map(|start| &name[start..])?;
    digits[..digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len())].parse().ok()
}

/// The names in a directory.
#[derive(Default)]
struct Names {
    directories: Vec<String>,
    files: Vec<String>,
}

impl Names {
    fn signs(&self, directory: &Path) -> Vec<Sign> {
        let own = directory.filename().unwrap_or_default();
        signs(own, self.directories.iter().map(String::as_str), self.files.iter().map(String::as_str))
    }
}

/// Lists the names in a directory, with one request unless the traversal has cached them. Empty if listing is not
/// permitted.
async fn list(traversal: &Traversal<'_>, directory: &Path) -> Result<Names> {
    let name = |path: &Path| path.filename().map(str::to_owned);
    let names = |listed: &object_store::ListResult| Names {
        directories: listed.common_prefixes.iter().filter_map(name).collect(),
        files: listed.objects.iter().filter_map(|meta| name(&meta.location)).collect(),
    };
    if let Some(listed) = traversal.listed(directory) {
        return Ok(listed.map(names).unwrap_or_default());
    }
    match traversal.list(directory).await {
        Ok(directory) => Ok(names(&directory.listed)),
        Err(error) if is_listing_denied(traversal, &error) => {
            log::debug!("{}: not searched for a table: {error}", traversal.location.file_names().name(directory));
            Ok(Names::default())
        }
        Err(source) => {
            Err(ErrorKind::List { location: traversal.location.file_names().name(directory), source }.into())
        }
    }
}

/// Whether a failed listing is not a failure of the store: a user who may read a directory may lack permission to
/// list the one above it. Stores other than the big clouds have no specific error for this.
fn is_listing_denied(traversal: &Traversal<'_>, error: &object_store::Error) -> bool {
    use object_store::Error::{NotFound, NotImplemented, NotSupported, PermissionDenied, Unauthenticated};
    !traversal.is_flat
        || matches!(
            error,
            NotFound { .. }
                | NotImplemented { .. }
                | NotSupported { .. }
                | PermissionDenied { .. }
                | Unauthenticated { .. }
        )
}

/// Probes a local directory for the names that indicate a table, and returns the signs.
fn ask(directory: &Path) -> Vec<Sign> {
    let mut names = Names::default();
    for name in MARKER_NAMES {
        match std::fs::metadata(format!("/{directory}/{name}")) {
            Ok(metadata) if metadata.is_dir() => names.directories.push((*name).to_owned()),
            Ok(_) => names.files.push((*name).to_owned()),
            Err(_) => {}
        }
    }
    names.signs(directory)
}

/// Whether the names in a directory may be read. Those above the named one may be outside.
fn is_allowed(traversal: &Traversal<'_>, directory: &Path) -> bool {
    traversal.door.check_key(traversal.location.object_store().as_ref(), directory, directory.as_ref()).is_ok()
}

/// Whether a local directory is shared by many users or tools. It is not a table, whatever it contains, unless it is
/// named explicitly.
fn is_shared(traversal: &Traversal<'_>, directory: &Path) -> bool {
    let is_one_of = |shared: std::path::PathBuf| {
        let shared = shared.to_str().and_then(|shared| Path::parse(shared).ok());
        shared.is_some_and(|shared| shared == *directory)
    };
    traversal.is_local()
        && !directory.prefix_matches(traversal.location.prefix())
        && (directory.as_ref().is_empty()
            || std::env::home_dir().is_some_and(is_one_of)
            || is_one_of(std::env::temp_dir()))
}

/// Resolves the symbolic links of a local path. `None` if it has none.
fn resolve(path: &Path) -> Option<Path> {
    let resolved = std::fs::canonicalize(format!("/{path}")).ok()?;
    Path::parse(resolved.to_str()?).ok().filter(|resolved| resolved != path)
}

fn is_link(path: &Path) -> bool {
    std::path::Path::new(&format!("/{path}")).is_symlink()
}
