//! What the user wrote to say where a table lies: a path, a URL or a pattern of either.

use std::path::{Component, Path as FsPath, PathBuf};

use datafusion_execution::object_store::ObjectStoreUrl;
use glob::Pattern;
use object_store::path::Path;
use url::Url;

use super::error::{ErrorKind, Result};

/// Where the files of a table lie: an object store and a path or pattern in it.
///
/// Accepted are local paths, relative or absolute, and URLs (`file:///data/`, `s3://bucket/key`). The path may hold
/// the patterns `*`, `?`, `[..]` within a component and `**` for any number of directories.
///
/// ```
/// use datafusion_tfrecord::directory::Location;
///
/// let location = Location::parse("/data/events/dt=*/*.parquet")?;
/// assert!(location.is_pattern());
/// assert_eq!(location.to_string(), "/data/events/dt=*/*.parquet");
/// # Ok::<(), datafusion_tfrecord::directory::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Location {
    text: String,
    store: ObjectStoreUrl,
    /// The components before the first pattern.
    pub(crate) prefix: Path,
    /// The components from the first pattern on.
    pub(super) pattern: Vec<Segment>,
    /// The whole path with the pattern taken literally: a file may be named `a[1].csv`.
    pub(crate) literal: Path,
    /// The text ends in `/`, so it cannot be a file.
    pub(super) is_directory: bool,
    names: FileNames,
}

/// One component of a pattern.
#[derive(Debug, Clone)]
pub(super) enum Segment {
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
}

impl FileNames {
    /// The name of `path` for a message.
    pub fn name(&self, path: &Path) -> String {
        let path = path.as_ref();
        match self.base.as_deref().and_then(|base| path.strip_prefix(base)) {
            Some(relative) => relative.to_owned(),
            None => format!("{}{path}", self.root),
        }
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
            Some(("file", _)) => Self::local(text, &file_url_path(text)?),
            Some((scheme, _)) if is_scheme(scheme) => Self::remote(text),
            _ => Self::local(text, FsPath::new(text)),
        }
    }

    /// The store that holds the files.
    pub fn object_store(&self) -> &ObjectStoreUrl {
        &self.store
    }

    /// Whether the location is a pattern rather than one path.
    pub fn is_pattern(&self) -> bool {
        !self.pattern.is_empty()
    }

    /// How many components a path has down to which the location spells names out, itself or by pattern. Of what lies
    /// there it takes everything below. None if a pattern spells out names at any depth.
    pub(crate) fn depth(&self) -> Option<usize> {
        let any_depth = self.pattern.iter().any(|segment| matches!(segment, Segment::AnyDepth));
        (!any_depth).then(|| self.prefix.parts_count() + self.pattern.len())
    }

    /// Whether the last component is a name, so that its directory need not have been listed.
    pub(crate) fn ends_in_name(&self) -> bool {
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
        let names = FileNames { root: "/".to_owned(), base };
        Self::from_segments(text, ObjectStoreUrl::local_filesystem(), &segments, names)
    }

    fn remote(text: &str) -> Result<Self> {
        // `?` is a pattern here, not the start of a URL's query.
        let url = Url::parse(&text.replace('?', "%3F")).map_err(|error| invalid(text, &error.to_string()))?;
        let root = url[..url::Position::BeforePath].to_owned();
        let store = ObjectStoreUrl::parse(&root).map_err(|error| invalid(text, &error.to_string()))?;
        let path = Path::from_url_path(url.path()).map_err(|error| invalid(text, &error.to_string()))?;
        let segments: Vec<String> = path.parts().map(|part| part.as_ref().to_owned()).collect();
        let names = FileNames { root: format!("{root}/"), base: None };
        Self::from_segments(text, store, &segments, names)
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
            text: text.to_owned(),
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
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for Location {
    type Err = super::Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

fn invalid(location: &str, reason: &str) -> super::Error {
    ErrorKind::Location { location: location.to_owned(), reason: reason.to_owned() }.into()
}

/// RFC 3986, section 3.1; one letter is a Windows drive.
fn is_scheme(text: &str) -> bool {
    text.len() > 1
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
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
mod tests {
    use super::*;

    #[test]
    fn relative_paths_are_named_as_they_were_given() -> Result<()> {
        let location = Location::parse("./data//x=1/*.csv")?;
        let file = Path::parse(format!("{}/a b.csv", location.prefix)).expect("a path");
        assert_eq!(location.file_names().name(&file), "data/x=1/a b.csv");
        assert_eq!(location.file_names().name(&Path::from("elsewhere/f")), "/elsewhere/f");
        let location = Location::parse("/data/f")?;
        assert_eq!(location.file_names().name(&location.prefix), "/data/f");
        Ok(())
    }

    #[test]
    fn urls() -> Result<()> {
        for (text, store, prefix, patterns) in [
            ("file:///a%20b/c?.csv", "file:///", "a b", 1),
            ("file:///a/b", "file:///", "a/b", 0),
            ("s3://bucket/dt=1/**/x.parquet", "s3://bucket/", "dt=1", 2),
            ("/C:/odd", "file:///", "C:/odd", 0),
        ] {
            let location = Location::parse(text)?;
            assert_eq!(location.object_store().as_str(), store, "{text}");
            assert_eq!(location.prefix.as_ref(), prefix, "{text}");
            assert_eq!(location.pattern.len(), patterns, "{text}");
            assert_eq!(location.to_string(), text);
        }
        let location = Location::parse("s3://bucket/a/b")?;
        assert_eq!(location.file_names().name(&location.prefix), "s3://bucket/a/b");
        Ok(())
    }

    #[test]
    fn unusable_texts_are_refused() {
        for (text, reason) in [
            ("", "'': not a usable path: it is empty"),
            ("/a/[x", "/a/[x: not a usable path: pattern \"[x\": invalid range pattern"),
            ("file://host/x", "file://host/x: not a usable path: a file URL has no host and an absolute path"),
        ] {
            assert_eq!(Location::parse(text).expect_err(text).to_string(), reason);
        }
    }
}
