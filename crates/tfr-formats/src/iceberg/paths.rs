//! [`Paths`]: where the files are that the metadata of a table names.

use object_store::path::{Path, PathPart};

use super::metadata::Metadata;
use super::versions::METADATA;
use tfr_stores::StoreUrl;

use crate::error::Result;
use crate::table::{OTHER_STORE, Place, split};

/// Resolves the paths in the metadata of a table: absolute, and not percent-encoded.
///
/// A table may have been moved or copied. What its metadata names below the location that it records is then below the
/// folder that the user named.
pub(super) struct Paths<'a> {
    place: &'a Place,
    /// Where the table is.
    folder: Path,
    moved: Option<Moved>,
}

/// A table that is elsewhere than its metadata records.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Moved {
    store: StoreUrl,
    from: Path,
    to: Path,
}

impl<'a> Paths<'a> {
    /// Returns the paths of a table whose metadata records `location`. `folder` is where it is; `None` if that is not
    /// known, so that files are where their paths name them.
    ///
    /// # Errors
    /// The location is not valid.
    pub(super) fn of(place: &'a Place, location: &str, folder: Option<Path>) -> Result<Self> {
        let (store, from) = absolute(location).map_err(|reason| place.unusable(location, reason))?;
        let is_here = |to: &Path| store == *place.location().object_store() && *to == from;
        let moved = folder.filter(|to| !is_here(to)).map(|to| Moved { store, from: from.clone(), to });
        let folder = moved.as_ref().map_or(from, |moved| moved.to.clone());
        Ok(Self { place, folder, moved })
    }

    /// Returns the folder of a table that is elsewhere than its metadata records.
    pub(super) fn moved_to(&self) -> Option<String> {
        self.moved.as_ref().map(|moved| self.place.name(&moved.to))
    }

    /// Whether a file is below the folder of the table.
    pub(super) fn is_inside(&self, path: &Path) -> bool {
        path.prefix_matches(&self.folder)
    }

    /// Returns the path of a file in the store of the table.
    ///
    /// # Errors
    /// The path is not absolute, contains `..`, or is in another store than the table.
    pub(super) fn resolve(&self, named: &str) -> Result<Path> {
        let unusable = |reason| self.place.unusable(named, reason);
        let (store, path) = absolute(named).map_err(unusable)?;
        if let Some(Moved { store: recorded, from, to }) = &self.moved
            && store == *recorded
            && let Some(rest) = path.prefix_match(from)
        {
            return Ok(Path::from_iter(to.parts().chain(rest)));
        }
        match store == *self.place.location().object_store() {
            true => Ok(path),
            false => Err(unusable(OTHER_STORE.to_owned())),
        }
    }
}

/// Returns the folder of a table by its metadata file. That is in a directory of the folder, unless the table has another
/// place for it: `None` if that place does not determine the folder.
pub(super) fn folder_of(place: &Place, file: &Path, metadata: &Metadata) -> Option<Path> {
    let directory = file.parent()?;
    let recorded = metadata.metadata_path().and_then(|named| absolute(named).ok());
    if let Some((store, path)) = recorded {
        if store == *place.location().object_store() && path == directory {
            return None;
        }
        let table = absolute(&metadata.location).ok();
        let below: Vec<_> = table.iter().filter_map(|(_, table)| path.prefix_match(table)).flatten().collect();
        if !below.is_empty()
            && let Some(folder) = before(&directory, &below)
        {
            return Some(folder);
        }
    }
    before(&directory, &[METADATA.into()])
}

/// Returns the beginning of a path that ends with these parts.
fn before(path: &Path, end: &[PathPart<'_>]) -> Option<Path> {
    let parts: Vec<_> = path.parts().collect();
    parts.strip_suffix(end).map(|rest| rest.iter().cloned().collect())
}

/// Parses an absolute path. The error is the reason why it is not valid.
fn absolute(named: &str) -> Result<(StoreUrl, Path), String> {
    let (store, path) = match split(named)? {
        Some(found) => found,
        None if named.starts_with('/') => (StoreUrl::local_files(), named),
        None => return Err("it is not absolute".to_owned()),
    };
    let segments: Vec<_> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let path = Path::parse(segments.join("/")).map_err(|error| error.to_string())?;
    Ok((store, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iceberg_paths_are_absolute_and_literal() {
        let path = |named| absolute(named).map(|(store, path)| (store.as_str().to_owned(), path.to_string()));
        let local = |path: &str| Ok(("file:///".to_owned(), path.to_owned()));
        assert_eq!(path("file:/a/p=%20/b c.parquet"), local("a/p=%20/b c.parquet"));
        assert_eq!(path("file:///a//b/"), local("a/b"));
        assert_eq!(path("/a/b"), local("a/b"));
        assert_eq!(path("s3a://bucket/a/b"), Ok(("s3://bucket/".to_owned(), "a/b".to_owned())));
        for named in ["a/b", "", "file:/a/../b", "file://host/a", "s3:/a", "data:x"] {
            path(named).unwrap_err();
        }
    }
}
