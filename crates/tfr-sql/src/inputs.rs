//! The inputs of a tool: paths, shell-style patterns, and URLs.

use std::path::{Path, PathBuf};

use tfr_stores::{Door, LocationText};
use tfrecord_shards::Input;

use crate::access;
use crate::cli::{StoreArgs, is_remote};
use crate::error::{Error, Result};
use crate::exit::ExitStatus;
use crate::stored::ObjectStores;
use crate::tool::Work;

/// Returns the files that the paths, patterns and URLs name, in order, or the exit status after a signal.
pub fn open(paths: &[PathBuf], stores: &StoreArgs, work: &mut Work<'_>) -> Result<Result<Vec<Input>, ExitStatus>> {
    let mut reached = None;
    let mut inputs = Vec::with_capacity(paths.len());
    for path in paths {
        match url(path) {
            Some(url) => {
                let stores = match &reached {
                    Some(stores) => stores,
                    None => reached.insert(ObjectStores::new(stores.options(&work.door), work.reads.clone())?),
                };
                match stores.find(&url, &work.interrupt)? {
                    Ok(found) => inputs.extend(found.into_iter().map(Input::from)),
                    Err(status) => return Ok(Err(status)),
                }
            }
            None => inputs.extend(expand(std::slice::from_ref(path), &work.door)?.into_iter().map(Input::from)),
        }
    }
    Ok(Ok(inputs))
}

/// Returns the inputs in the local file system.
pub fn local(inputs: &[Input]) -> Vec<PathBuf> {
    let path = |input: &Input| match input {
        Input::Path(path) => Some(path.clone()),
        _ => None,
    };
    inputs.iter().filter_map(path).collect()
}

/// Parses `path` as a URL. An existing file of that name takes precedence.
pub fn url(path: &Path) -> Option<LocationText> {
    let url = path.to_str().filter(|text| is_remote(text) && path.symlink_metadata().is_err());
    url.map(LocationText::from)
}

/// Replaces each pattern by the paths that it matches, sorted by name. An existing path is not treated as a pattern.
/// The door must allow all of them, and the targets of their links.
pub fn expand(paths: &[PathBuf], door: &Door) -> Result<Vec<PathBuf>> {
    let mut expanded = Vec::with_capacity(paths.len());
    for path in paths {
        if let Some(url) = url(path) {
            return Err(Error::RemoteInput { url });
        }
        match pattern(path) {
            Some(pattern) => {
                access::check_pattern(pattern, door)?;
                let before = expanded.len();
                let found = glob::glob_with(pattern, OPTIONS)
                    .map_err(|error| Error::Pattern { pattern: pattern.to_owned(), reason: error.msg })?;
                for entry in found {
                    expanded.push(entry.map_err(|error| {
                        let path = error.path().to_owned();
                        Error::Read { path, source: error.into() }
                    })?);
                }
                if expanded.len() == before {
                    return Err(Error::NoMatch { pattern: pattern.to_owned() });
                }
            }
            None => expanded.push(path.clone()),
        }
    }
    expanded.iter().try_for_each(|path| access::check_input(path, door))?;
    Ok(expanded)
}

/// Shell rules: `*` matches neither `/` nor the leading dot of a hidden file.
const OPTIONS: glob::MatchOptions =
    glob::MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

fn pattern(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    (text.contains(['*', '?', '[']) && path.symlink_metadata().is_err()).then_some(text)
}
