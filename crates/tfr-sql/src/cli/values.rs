//! From the text of an option to its value.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use bytesize::ByteSize;
use datafusion_tfrecord::write::WriteTarget;
use datafusion_tfrecord::{parse_columns, parse_split_shards};
use tfr_formats::InputOptions;
use tfrecord_framing::Level;
use tfrecord_shards::check_prefix;
use url::Url;

use crate::error::shards_hint;

/// Parses `128MiB`, `1.5GB` or a plain number of bytes.
pub fn size(text: &str) -> Result<NonZeroU64, String> {
    let size: ByteSize = text.parse().map_err(|_| "expected a size such as 512KiB, 128MiB or 4GB".to_owned())?;
    NonZeroU64::new(size.as_u64()).ok_or_else(|| "expected a size above zero".to_owned())
}

/// Least memory that a query starts with.
const MIN_MEMORY: u64 = 8 << 20;

pub fn memory(text: &str) -> Result<NonZeroU64, String> {
    let size = size(text)?;
    match size.get() < MIN_MEMORY {
        true => Err("expected 8MiB or more: rows are sorted and written some thousands at a time".to_owned()),
        false => Ok(size),
    }
}

pub fn count(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "expected a whole number, 1 or more".to_owned())
}

/// Numbers of shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardCounts {
    /// Of the set, or of each of its splits.
    Each(NonZeroUsize),
    /// Of these splits.
    Splits(BTreeMap<String, NonZeroUsize>),
}

/// Parses `16` or `train=256,val=16`.
pub fn shard_counts(text: &str) -> Result<ShardCounts, String> {
    if !text.contains('=') {
        let count = text.parse().map_err(|_| "expected a whole number, 1 or more, or train=256,val=16")?;
        return Ok(ShardCounts::Each(count));
    }
    parse_split_shards(text).map(ShardCounts::Splits).map_err(|expected| format!("expected {expected}"))
}

/// How many of something to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample(Option<NonZeroUsize>);

impl Sample {
    /// At most this many; all of them if `None`.
    pub fn limit(self) -> Option<usize> {
        self.0.map(NonZeroUsize::get)
    }
}

/// Parses a count or `all`.
pub fn sample(text: &str) -> Result<Sample, String> {
    match text {
        "all" => Ok(Sample(None)),
        _ => text
            .parse()
            .map(|count| Sample(Some(count)))
            .map_err(|_| "expected a whole number, 1 or more, or all".to_owned()),
    }
}

/// Parses an option of a table: `key=value`.
pub fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, with a key of --table")?;
    let key = key.trim();
    InputOptions::default().set(key, value).map_err(|error| error.to_string())?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Takes a local path, or a `file://` URL for one.
pub fn out(out: OsString) -> Result<PathBuf, String> {
    let is_scheme = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    match out.to_str().and_then(|text| text.split_once("://")) {
        Some(("file", path)) => {
            // Characters of the path, as where URLs name inputs.
            let escaped = path.replace('?', "%3F").replace('#', "%23");
            let url = Url::parse(&format!("file://{escaped}")).ok();
            url.and_then(|url| url.to_file_path().ok())
                .ok_or_else(|| "expected file:// and an absolute path".to_owned())
        }
        Some((scheme, _)) if is_scheme(scheme) => {
            Err(format!("writing to {scheme}:// is not supported here: give a local path, or use a query"))
        }
        _ if out.is_empty() => Err("expected a path".to_owned()),
        _ => Ok(out.into()),
    }
}

/// Takes a local path, or a URL.
pub fn target(out: OsString) -> Result<WriteTarget, String> {
    match out.to_str() {
        Some(text) if is_remote(text) => WriteTarget::parse(text).map_err(|error| error.to_string()),
        _ => self::out(out).map(WriteTarget::Local),
    }
}

/// Whether a text is the URL of something that is not a local file.
pub fn is_remote(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| {
        // RFC 3986, section 3.1.
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
            && scheme != "file"
    })
}

/// Shard names must be single names that readers' globs see and file systems take.
pub fn prefix(text: &str) -> Result<String, String> {
    check_prefix(text)
        .map_err(|error| shards_hint(&error).map_or_else(|| error.to_string(), |hint| format!("{error}; {hint}")))?;
    Ok(text.to_owned())
}

pub fn level(text: &str) -> Result<Level, String> {
    let number: u32 = text.parse().map_err(|_| "expected a number from 0 to 9".to_owned())?;
    Level::try_from(number).map_err(|_| "expected a number from 0 to 9".to_owned())
}

/// Names of columns.
#[derive(Clone, Debug)]
pub struct Columns(pub Vec<String>);

/// Parses names with commas between.
pub fn columns(text: &str) -> Result<Columns, String> {
    parse_columns(text).map(Columns).map_err(|expected| format!("expected {expected}"))
}
