//! What the user wrote to say where a table lies: a path, a URL or a pattern of either.

use std::path::{Component, Path as FsPath, PathBuf};

use datafusion_execution::object_store::ObjectStoreUrl;
use glob::Pattern;
use object_store::path::Path;
use url::Url;

use crate::error::{ErrorKind, Result};
use crate::listing::location_text::{LocationText, is_scheme, percent_decode, query_start};

/// Where the files of a table lie: an object store and a path or pattern in it.
///
/// Accepted are local paths, relative or absolute, and URLs (`file:///data/`, `s3://bucket/key`). The path may hold
/// the patterns `*`, `?`, `[..]` within a component and `**` for any number of directories.
///
/// Of a `file` or `http` URL the path is percent-decoded, and `?` begins the query of an `http` URL. The path of any other
/// URL is the key as it stands, as Hadoop and the stores' own tools have it: `s3://bucket/dt=10%3A30/a b#1.csv` names an
/// object with a `%` in its key.
///
/// What may be secret is not shown, as in [`LocationText`].
///
/// ```
/// use tfr_files::Location;
///
/// let location = Location::parse("/data/events/dt=*/*.parquet")?;
/// assert!(location.is_pattern());
/// assert_eq!(location.to_string(), "/data/events/dt=*/*.parquet");
/// # Ok::<(), tfr_files::Error>(())
/// ```
#[derive(Clone)]
pub struct Location {
    /// As the user wrote it.
    text: LocationText,
    store: ObjectStoreUrl,
    /// The components before the first pattern.
    pub(crate) prefix: Path,
    /// The components from the first pattern on.
    pub(crate) pattern: Vec<Segment>,
    /// The whole path with the pattern taken literally: a file may be named `a[1].csv`.
    pub(crate) literal: Path,
    /// The text ends in `/`, so it cannot be a file.
    pub(crate) is_directory: bool,
    names: FileNames,
}

/// One component of a pattern.
#[derive(Debug, Clone)]
pub(crate) enum Segment {
    Literal(String),
    Pattern(Pattern),
    /// `**`
    AnyDepth,
}

/// How files are named in messages: relative to the current directory when the user wrote a relative path, else in full.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileNames {
    /// `/` for local files, `s3://bucket/` and so on for others.
    root: String,
    /// The current directory as a path of the store, with a trailing `/`.
    base: Option<String>,
    /// Whether paths are percent-encoded in names.
    encoded: bool,
}

impl FileNames {
    /// The name of `path` for a message.
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
    /// What stands before `path` in its store, and `path` as the store has it: not percent-encoded, not relative.
    pub fn in_full(&self, path: &Path) -> String {
        format!("{}{path}", self.root)
    }
}

impl Location {
    /// Reads a path, a URL or a pattern.
    ///
    /// # Errors
    /// The text is empty, not a valid URL, or holds a malformed pattern.
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
            _ => Self::local(text, FsPath::new(text)),
        }
    }

    /// The store that holds the files.
    pub fn object_store(&self) -> &ObjectStoreUrl {
        &self.store
    }

    /// The path in the store, with a pattern taken literally.
    pub fn key(&self) -> &Path {
        &self.literal
    }

    /// The directory from which on the pattern matches; the path of a location without one.
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// Whether the location is a pattern rather than one path.
    pub fn is_pattern(&self) -> bool {
        !self.pattern.is_empty()
    }

    /// How many components a path has down to which the location spells names out, itself or by pattern. Of what lies
    /// there it takes everything below. None if a pattern spells out names at any depth.
    pub fn depth(&self) -> Option<usize> {
        let any_depth = self.pattern.iter().any(|segment| matches!(segment, Segment::AnyDepth));
        (!any_depth).then(|| self.prefix.parts_count() + self.pattern.len())
    }

    /// Whether the last component is a name, so that its directory need not have been listed.
    pub fn ends_in_name(&self) -> bool {
        !matches!(self.pattern.last(), Some(Segment::Pattern(_) | Segment::AnyDepth))
    }

    /// How files under this location are named in messages.
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
        Self::from_segments(text, ObjectStoreUrl::local_filesystem(), &segments, names)
    }

    /// A URL whose path is a key of the store as it stands.
    fn keyed(text: &str, scheme: &str, rest: &str) -> Result<Self> {
        let (authority, key) = rest.split_once('/').unwrap_or((rest, ""));
        let root =
            Url::parse(&format!("{scheme}://{authority}/")).map_err(|error| invalid(text, &error.to_string()))?;
        if root.password().is_some() || query_start(scheme, rest).is_some() {
            let reason =
                "credentials and queries have no place in the URL of a store; put credentials into the environment";
            return Err(invalid(text, reason));
        }
        // Other names of the same service, so that what is named by both is known to be the same.
        let scheme = match root.scheme() {
            "s3a" => "s3",
            "gcs" => "gs",
            "abfs" => "abfss",
            other => other,
        };
        let store = ObjectStoreUrl::parse(format!("{scheme}{}", &root[url::Position::AfterScheme..]))
            .map_err(|_| invalid(text, "what stands before the path names no store"))?;
        let segments: Vec<_> = key.split('/').filter(|segment| !segment.is_empty()).map(str::to_owned).collect();
        let names = FileNames { root: LocationText::from(root.as_str()).to_string(), ..FileNames::default() };
        Self::from_segments(text, store, &segments, names)
    }

    /// A URL of the web. Its user info and its query are part of the store, since they go with every request.
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
        // They fail for a URL that cannot have a host; this one has.
        let _ = url.set_username("").and_then(|()| url.set_password(None));
        if let Some(query) = query {
            if store != url {
                return Err(invalid(text, "it has both a user and a query"));
            }
            let _ = store.set_username(QUERY).and_then(|()| store.set_password(Some(&query.replace('%', "%25"))));
        }
        let store = ObjectStoreUrl::parse(&store).map_err(|error| invalid(text, &error.to_string()))?;
        let names = FileNames { root: url.into(), base: None, encoded: true };
        let location = Self::from_segments(text, store, &segments, names)?;
        Ok(Self { is_directory, ..location })
    }

    fn from_segments(text: &str, store: ObjectStoreUrl, segments: &[String], names: FileNames) -> Result<Self> {
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

/// The URL of the store may hold secrets.
impl std::fmt::Debug for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Location").field(&self.text).finish()
    }
}

impl std::str::FromStr for Location {
    type Err = crate::error::Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

fn invalid(location: &str, reason: &str) -> crate::error::Error {
    ErrorKind::Location { location: LocationText::from(location).to_string(), reason: reason.to_owned() }.into()
}

/// The user name that tells a query from a password in the URL of a store.
const QUERY: &str = "?";

/// The query that goes with every request to the store at `url`, for a store of the web: a signature, as a rule.
///
/// It is part of the location that the user wrote, but the URL of a store has no place for it, so it stands there in the
/// place of a password.
pub fn query_of_store(url: &Url) -> Option<String> {
    (percent_decode(url.username()) == QUERY).then(|| url.password().map(percent_decode)).flatten()
}

/// The user and the password that go with every request to the store at `url`, with a colon between.
pub fn user_of_store(url: &Url) -> Option<String> {
    let is_user = query_of_store(url).is_none() && !(url.username().is_empty() && url.password().is_none());
    is_user
        .then(|| format!("{}:{}", percent_decode(url.username()), percent_decode(url.password().unwrap_or_default())))
}

/// `path` below the URL `root`, percent-encoded.
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

/// Takes `..` out of a path. The file system is asked, because the component before `..` may be a symbolic link.
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
