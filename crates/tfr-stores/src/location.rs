//! The location of a table, as the user wrote it: a path, a URL or a pattern of either.

use std::fs;
use std::path::{Component, Path as FsPath, PathBuf};

use crate::store_url::StoreUrl;
use glob::Pattern;
use object_store::path::Path;
use url::Url;

use crate::error::{Error, ErrorKind, Result};
use crate::location_text::{LocationText, is_scheme, mistyped_url, percent_decode, query_start};

/// The location of a table's files: an object store and a path or pattern in it.
///
/// Accepts local paths, relative or absolute, and URLs (`file:///data/`, `s3://bucket/key`). The path may contain the
/// patterns `*`, `?`, `[..]` within a component and `**` for any number of directories.
///
/// The path of a `file` or `http` URL is percent-decoded, and `?` starts the query of an `http` URL. The path of any
/// other URL is the literal key, as in Hadoop and the stores' own tools: `s3://bucket/dt=10%3A30/a b#1.csv` names an
/// object with a `%` in its key.
///
/// Potential secrets are not shown, as in [`LocationText`].
///
/// ```
/// use tfr_stores::Location;
///
/// let location = Location::parse("/data/events/dt=*/*.parquet")?;
/// assert!(location.is_pattern());
/// assert_eq!(location.to_string(), "/data/events/dt=*/*.parquet");
/// # Ok::<(), tfr_stores::Error>(())
/// ```
#[derive(Clone)]
pub struct Location {
    /// As the user wrote it.
    text: LocationText,
    store: StoreUrl,
    /// The components before the first pattern.
    prefix: Path,
    /// The components from the first pattern on.
    pattern: Vec<Segment>,
    /// The whole path with the pattern taken literally: a file may be named `a[1].csv`.
    literal: Path,
    /// The text ends in `/`, so it cannot be a file.
    is_directory: bool,
    names: FileNames,
}

/// One component of a pattern.
#[derive(Debug, Clone)]
pub enum Segment {
    /// A name.
    Literal(String),
    /// A name with `*`, `?` or `[..]`.
    Pattern(Pattern),
    /// `**`
    AnyDepth,
}

/// How files are named in messages: relative to the current directory if the user wrote a relative path, else in
/// full.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileNames {
    /// `/` for local files, `s3://bucket/` and the like for others.
    root: String,
    /// The current directory as a path of the store, with a trailing `/`.
    base: Option<String>,
    /// Whether paths are percent-encoded in names.
    encoded: bool,
}

impl FileNames {
    /// Returns the name of `path` for a message.
    pub fn name(&self, path: &Path) -> String {
        if self.encoded
            && let Some(url) = encoded(&self.root, path)
        {
            return url;
        }
        let path = path.as_ref();
        match self.base.as_deref().and_then(|base| path.strip_prefix(base)) {
            Some(relative) => relative.to_owned(),
            None => format!("{}{path}", self.root),
        }
    }
}

impl FileNames {
    /// Returns the store's root followed by `path` as the store has it: not percent-encoded and not relative.
    pub fn in_full(&self, path: &Path) -> String {
        format!("{}{path}", self.root)
    }
}

impl Location {
    /// Parses a path, a URL or a pattern.
    ///
    /// # Errors
    /// The text is empty, not a valid URL, a URL without `//` that names no local file, or contains a malformed pattern.
    pub fn parse(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Err(invalid(text, "it is empty"));
        }
        match text.split_once("://") {
            Some((scheme, rest)) if is_scheme(scheme) => match scheme.to_ascii_lowercase().as_str() {
                "file" => Self::local(text, &file_url_path(text)?),
                "http" | "https" => Self::http(text),
                _ => Self::keyed(text, scheme, rest),
            },
            _ => match mistyped_url(text).filter(|_| FsPath::new(text).symlink_metadata().is_err()) {
                Some(url) => Err(invalid(text, &format!("a URL is meant: {url}; a local path is written as ./NAME"))),
                None => Self::local(text, FsPath::new(text)),
            },
        }
    }

    /// Parses the absolute path or the URL of a directory as a program records it: no character is a pattern or an escape,
    /// and a local path may be `file:/x`, as Java writes it.
    ///
    /// # Errors
    /// The path is not absolute, has `..`, or is on another host; the URL is not that of a store with literal keys.
    pub fn recorded(text: &str) -> Result<Self> {
        let local = match text.strip_prefix("file:") {
            Some(rest) => Some(rest.strip_prefix("//").unwrap_or(rest)),
            None => text.starts_with('/').then_some(text),
        };
        let location = match (local, text.split_once("://")) {
            (Some(path), _) if path.starts_with('/') => Self::parse("/").map(|root| (root, path)),
            (Some(_), _) => return Err(invalid(text, "it is not an absolute path of this host")),
            (None, Some((scheme, rest))) if is_scheme(scheme) && !scheme.to_ascii_lowercase().starts_with("http") => {
                let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
                Self::keyed(text, scheme, &format!("{authority}/")).map(|root| (root, path))
            }
            _ => return Err(invalid(text, "it is neither an absolute path nor the URL of a store")),
        };
        let (root, path) = location?;
        let segments: Vec<_> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        let path = Path::parse(segments.join("/")).map_err(|error| invalid(text, &error.to_string()))?;
        Ok(Self { text: text.into(), prefix: path.clone(), literal: path, is_directory: true, ..root })
    }

    /// Returns the store that contains the files.
    pub fn object_store(&self) -> &StoreUrl {
        &self.store
    }

    /// Returns the path in the store, with a pattern taken literally.
    pub fn key(&self) -> &Path {
        &self.literal
    }

    /// Returns the directory below which the pattern matches, or the path of a location without a pattern.
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// Returns the components from the first pattern on.
    pub fn pattern(&self) -> &[Segment] {
        &self.pattern
    }

    /// Whether the text ends in `/`, so that it cannot be a file.
    pub fn is_directory(&self) -> bool {
        self.is_directory
    }

    /// Whether the location is a pattern rather than one path.
    pub fn is_pattern(&self) -> bool {
        !self.pattern.is_empty()
    }

    /// Returns the number of path components that the location names, itself or by a pattern. Everything below that
    /// depth is included. `None` if a pattern matches names at any depth.
    pub fn depth(&self) -> Option<usize> {
        let any_depth = self.pattern.iter().any(|segment| matches!(segment, Segment::AnyDepth));
        (!any_depth).then(|| self.prefix.parts_count() + self.pattern.len())
    }

    /// Whether the last component is a name, so that its directory may not have been listed.
    pub fn ends_in_name(&self) -> bool {
        !matches!(self.pattern.last(), Some(Segment::Pattern(_) | Segment::AnyDepth))
    }

    /// Whether the location is in the local file system.
    pub fn is_local(&self) -> bool {
        self.store == StoreUrl::local_files()
    }

    /// Rejects a local path to a pipe, a device or a socket. The store would wait for the other end of a pipe, and treat a
    /// device as a file of 0 bytes.
    ///
    /// # Errors
    /// The path is one of these.
    pub fn check_file(&self, path: &Path) -> Result<()> {
        let is_special = |path| fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
        match self.is_local() && is_special(format!("/{path}")) {
            true => Err(ErrorKind::NotAFile { file: self.names.name(path) }.into()),
            false => Ok(()),
        }
    }

    /// Returns how files at this location are named in messages.
    pub fn file_names(&self) -> &FileNames {
        &self.names
    }

    fn local(text: &str, path: &FsPath) -> Result<Self> {
        let current = if path.is_absolute() {
            None
        } else {
            Some(std::env::current_dir().map_err(|error| invalid(text, &error.to_string()))?)
        };
        let absolute = resolve_parents(&current.clone().unwrap_or_default().join(path));
        let segments = absolute
            .components()
            .filter_map(|component| match component {
                Component::Normal(name) => Some(name.to_str().map(str::to_owned)),
                _ => None,
            })
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| invalid(text, "it is not UTF-8"))?;
        let base = current
            .and_then(|dir| Path::from_absolute_path(dir).ok())
            .map(|dir| if dir.as_ref().is_empty() { String::new() } else { format!("{dir}/") });
        let names = FileNames { root: "/".to_owned(), base, encoded: false };
        Self::from_segments(text, StoreUrl::local_files(), &segments, names)
    }

    /// Parses a URL whose path is a literal key of the store.
    fn keyed(text: &str, scheme: &str, rest: &str) -> Result<Self> {
        let (authority, key) = rest.split_once('/').unwrap_or((rest, ""));
        let root =
            Url::parse(&format!("{scheme}://{authority}/")).map_err(|error| invalid(text, &error.to_string()))?;
        if root.password().is_some() || query_start(scheme, rest).is_some() {
            let reason =
                "credentials and queries have no place in the URL of a store; put credentials into the environment";
            return Err(invalid(text, reason));
        }
        // Normalizes aliases of a service, so that equal stores have equal URLs.
        let scheme = match root.scheme() {
            "s3a" => "s3",
            "gcs" => "gs",
            "abfs" => "abfss",
            other => other,
        };
        let store = StoreUrl::parse(format!("{scheme}{}", &root[url::Position::AfterScheme..]))
            .map_err(|_| invalid(text, "the part before the path does not name a store"))?;
        let segments: Vec<_> = key.split('/').filter(|segment| !segment.is_empty()).map(str::to_owned).collect();
        let names = FileNames { root: LocationText::from(root.as_str()).to_string(), ..FileNames::default() };
        Self::from_segments(text, store, &segments, names)
    }

    /// Parses an HTTP URL. Its user info and its query are part of the store, since they are sent with every request.
    fn http(text: &str) -> Result<Self> {
        let mut url = Url::parse(text).map_err(|error| invalid(text, &error.to_string()))?;
        let path = Path::from_url_path(url.path()).map_err(|error| invalid(text, &error.to_string()))?;
        let segments: Vec<_> = path.parts().map(|part| part.as_ref().to_owned()).collect();
        let is_directory = url.path().ends_with('/');
        let query = url.query().map(str::to_owned);
        url.set_fragment(None);
        url.set_query(None);
        url.set_path("/");
        let mut store = url.clone();
        // These fail for a URL that cannot have a host; this one has a host.
        let _ = url.set_username("").and_then(|()| url.set_password(None));
        if let Some(query) = query {
            if store != url {
                return Err(invalid(text, "it has both a user and a query"));
            }
            let _ = store.set_username(QUERY).and_then(|()| store.set_password(Some(&query.replace('%', "%25"))));
        }
        let store = StoreUrl::parse(&store).map_err(|error| invalid(text, &error.to_string()))?;
        let names = FileNames { root: url.into(), base: None, encoded: true };
        let location = Self::from_segments(text, store, &segments, names)?;
        Ok(Self { is_directory, ..location })
    }

    fn from_segments(text: &str, store: StoreUrl, segments: &[String], names: FileNames) -> Result<Self> {
        let first = segments.iter().position(|segment| has_pattern(segment)).unwrap_or(segments.len());
        let (literal, rest) = segments.split_at(first);
        let path =
            |segments: &[String]| Path::parse(segments.join("/")).map_err(|error| invalid(text, &error.to_string()));
        let pattern = rest
            .iter()
            .map(|segment| match segment.as_str() {
                "**" => Ok(Segment::AnyDepth),
                literal if !has_pattern(literal) => Ok(Segment::Literal(literal.to_owned())),
                pattern => Pattern::new(pattern)
                    .map(Segment::Pattern)
                    .map_err(|error| invalid(text, &format!("pattern {pattern:?}: {}", error.msg))),
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            text: text.into(),
            store,
            prefix: path(literal)?,
            pattern,
            literal: path(segments)?,
            is_directory: text.ends_with('/'),
            names,
        })
    }
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.text.fmt(f)
    }
}

/// The URL of the store may contain secrets.
impl std::fmt::Debug for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Location").field(&self.text).finish()
    }
}

impl std::str::FromStr for Location {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

fn invalid(location: &str, reason: &str) -> Error {
    ErrorKind::Location { location: LocationText::from(location).to_string(), reason: reason.to_owned() }.into()
}

/// The user name that distinguishes a query from a password in the URL of a store.
const QUERY: &str = "?";

/// Returns the query to send with every request to the web store at `url`, usually a signature.
///
/// It is part of the location that the user wrote. The URL of a store cannot contain a query, so it is stored in the
/// place of the password.
pub fn query_of_store(url: &Url) -> Option<String> {
    (percent_decode(url.username()) == QUERY).then(|| url.password().map(percent_decode)).flatten()
}

/// Returns the user and password to send with every request to the store at `url`, separated by a colon.
pub fn user_of_store(url: &Url) -> Option<String> {
    let is_user = query_of_store(url).is_none() && !(url.username().is_empty() && url.password().is_none());
    is_user
        .then(|| format!("{}:{}", percent_decode(url.username()), percent_decode(url.password().unwrap_or_default())))
}

/// Returns `path` below the URL `root`, percent-encoded.
fn encoded(root: &str, path: &Path) -> Option<String> {
    let mut url = Url::parse(root).ok()?;
    url.path_segments_mut().ok()?.clear().extend(path.parts().map(|part| part.as_ref().to_owned()));
    Some(url.into())
}

fn has_pattern(segment: &str) -> bool {
    segment.contains(['*', '?', '['])
}

fn file_url_path(text: &str) -> Result<PathBuf> {
    let escaped = text.replace('?', "%3F").replace('#', "%23");
    let url = Url::parse(&escaped).map_err(|error| invalid(text, &error.to_string()))?;
    url.to_file_path().map_err(|()| invalid(text, "a file URL has no host and an absolute path"))
}

/// Resolves `..` in a path. Reads the file system, because the component before `..` may be a symbolic link.
fn resolve_parents(path: &FsPath) -> PathBuf {
    let components: Vec<_> = path.components().collect();
    let Some(last) = components.iter().rposition(|component| *component == Component::ParentDir) else {
        return path.to_owned();
    };
    let (head, tail) = components.split_at(last + 1);
    let head: PathBuf = head.iter().collect();
    let mut resolved = head.canonicalize().unwrap_or_else(|_| {
        let mut lexical = PathBuf::new();
        for component in head.components() {
            match component {
                Component::ParentDir => drop(lexical.pop()),
                other => lexical.push(other),
            }
        }
        lexical
    });
    resolved.extend(tail);
    resolved
}

#[cfg(test)]
mod tests;
