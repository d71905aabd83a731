//! What a tool is to look at: paths, and patterns of paths as shells have them.

use std::path::{Path, PathBuf};

use datafusion_tfrecord::directory::redacted;

use crate::cli::is_remote;
use crate::error::{Error, Result};

/// The paths, each pattern replaced by what it fits, by name. A path that is there is no pattern, whatever it is called.
pub fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut expanded = Vec::with_capacity(paths.len());
    for path in paths {
        if let Some(url) = path.to_str().filter(|text| is_remote(text) && path.symlink_metadata().is_err()) {
            return Err(Error::RemoteInput { url: redacted(url).into_owned() });
        }
        match pattern(path) {
            Some(pattern) => {
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
    Ok(expanded)
}

/// As shells do it: `*` fits neither `/` nor the dot of a hidden file.
const OPTIONS: glob::MatchOptions =
    glob::MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

fn pattern(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    (text.contains(['*', '?', '[']) && path.symlink_metadata().is_err()).then_some(text)
}
