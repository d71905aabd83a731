//! Parses option values.

use std::ffi::OsString;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use datafusion_tfrecord::options::values;
use datafusion_tfrecord::write::WriteTarget;
use tfr_formats::{ErrorKind, InputOptions, TableSpec};
use tfr_stores::mistyped_url;
use url::Url;

use crate::error::format_hint;

/// Minimum memory of a query, in bytes.
const MIN_MEMORY: u64 = 8 << 20;

pub fn memory(text: &str) -> Result<NonZeroU64, String> {
    let size = values::bytes(text).map_err(|expected| format!("expected {expected}"))?;
    match size.get() < MIN_MEMORY {
        true => Err("expected 8MiB or more: rows are sorted and written some thousands at a time".to_owned()),
        false => Ok(size),
    }
}

pub fn count(text: &str) -> Result<NonZeroUsize, String> {
    values::count(text).map_err(|expected| format!("expected {expected}"))
}

/// Parses a time: a number, and `s`, `m`, `h` or `d`.
pub fn time(text: &str) -> Result<Duration, String> {
    const EXPECTED: &str = "expected a time, such as 90s, 30m, 12h or 7d";
    let units = [('s', 1), ('m', 60), ('h', 3600), ('d', 86400)];
    let unit = units.iter().find(|(unit, _)| text.ends_with(*unit));
    let (unit, seconds) = unit.ok_or(EXPECTED)?;
    let number = text.strip_suffix(*unit).and_then(|number| number.parse().ok()).filter(|number| *number > 0);
    let seconds = number.and_then(|number: u64| number.checked_mul(*seconds));
    seconds.map(Duration::from_secs).ok_or_else(|| EXPECTED.to_owned())
}

/// Parses `NAME=URL[,key=value...]`.
pub fn table(text: &str) -> Result<TableSpec, String> {
    text.parse().map_err(|error: tfr_formats::Error| match (error.kind(), format_hint(&error)) {
        (ErrorKind::TableFormat { .. }, Some(hint)) => format!("{error}\n\nhint: {hint}"),
        _ => error.to_string(),
    })
}

/// Parses a table option: `key=value`.
pub fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, with a key of --table")?;
    let key = key.trim();
    InputOptions::default().set(key, value).map_err(|error| error.to_string())?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Accepts a local path or a `file://` URL.
pub fn out(out: OsString) -> Result<PathBuf, String> {
    if let Some(url) = out.to_str().and_then(mistyped_url) {
        return Err(format!("a URL is meant: {url}; a local path is written as ./NAME"));
    }
    let is_scheme = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    match out.to_str().and_then(|text| text.split_once("://")) {
        Some(("file", path)) => {
            // These characters belong to the path, as in input URLs.
            let escaped = path.replace('?', "%3F").replace('#', "%23");
            let url = Url::parse(&format!("file://{escaped}")).ok();
            url.and_then(|url| url.to_file_path().ok())
                .ok_or_else(|| "expected file:// and an absolute path".to_owned())
        }
        Some((scheme, _)) if is_scheme(scheme) => {
            Err(format!("writing to {scheme}:// is not supported here: give a local path, or use a query"))
        }
        _ if out.is_empty() => Err("expected a path".to_owned()),
        _ if out.to_string_lossy().contains(char::is_control) => {
            Err("a name with a control character could not be read again".to_owned())
        }
        _ if out == "-" => Err("an output is published when it is complete, which standard output cannot be\n\n\
             hint: name a file or a directory; without --out, a query prints its rows: add --format arrow, csv or jsonl"
            .to_owned()),
        _ => Ok(out.into()),
    }
}

/// Accepts a local path or a URL.
pub fn target(out: OsString) -> Result<WriteTarget, String> {
    match out.to_str() {
        Some(text) if is_remote(text) => WriteTarget::parse(text).map_err(|error| error.to_string()),
        _ => self::out(out).map(WriteTarget::Local),
    }
}

/// Whether `text` is a URL with a scheme other than `file`.
pub fn is_remote(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| {
        // RFC 3986, section 3.1.
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
            && scheme != "file"
    })
}
