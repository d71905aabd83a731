//! `NAME=URL[,key=value...]`, the value of `--table`.

use std::collections::HashSet;
use std::str::FromStr;

use tfr_stores::{LocationText, redacted};

use crate::error::{Error, ErrorKind, Result};
use crate::options::{InputOptions, PATH, input_options};

/// A table to register: its name, its locations and its options.
///
/// The text form is `NAME=URL[,format=...,key=value...]`. A part that contains a comma is put in double quotes, and a
/// double quote in it is doubled: `t="a,b.csv",delimiter=","`. `path=URL` adds a location and may be repeated.
#[derive(Debug, Clone, PartialEq)]
pub struct TableSpec {
    /// The name of the table in queries.
    pub name: String,
    /// Paths, URLs or patterns.
    pub locations: Vec<LocationText>,
    /// How to read the files.
    pub options: InputOptions,
}

impl FromStr for TableSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let invalid = |reason: &str| ErrorKind::Spec { spec: redacted(text).into_owned(), reason: reason.to_owned() };
        let mut parts = split(text).ok_or_else(|| invalid("a double quote is not closed"))?.into_iter();
        let (name, location) = parts
            .next()
            .and_then(|first| first.split_once('=').map(|(name, url)| (name.trim().to_owned(), url.to_owned())))
            .ok_or_else(|| invalid("expected NAME=URL, such as t=events.csv"))?;
        if name.is_empty() {
            return Err(invalid("the name is empty").into());
        }
        if location.is_empty() {
            return Err(invalid("the URL is empty").into());
        }
        let mut spec = Self { name, locations: vec![location.into()], options: InputOptions::default() };
        let mut given = HashSet::new();
        for part in parts {
            let (key, value) = part.split_once('=').ok_or_else(|| {
                invalid(&format!("expected key=value, found {part:?}; put a URL with a comma in double quotes"))
            })?;
            match key.trim() {
                key if key == PATH.key => spec.locations.push(value.into()),
                key => {
                    // Otherwise the last value would silently replace the others.
                    if !given.insert(key.to_owned()) && !may_repeat(key) {
                        let hint = match key {
                            "partitions" => ": it takes them all, in double quotes: \"partitions=dt DATE, h INT\"",
                            _ => "",
                        };
                        return Err(invalid(&format!("{key} is given twice{hint}")).into());
                    }
                    spec.options.set(key, value).map_err(with_path)?;
                }
            }
        }
        Ok(spec)
    }
}

/// Whether a key may be repeated.
fn may_repeat(key: &str) -> bool {
    input_options().any(|option| option.text().is_named(key) && option.text().repeats)
}

/// Adds the key that only `--table` has to the list in an unknown-key error.
fn with_path(error: Error) -> Error {
    match error.kind() {
        ErrorKind::UnknownOption { key, known } => {
            let known = std::iter::once(PATH.key).chain(known.iter().copied()).collect();
            ErrorKind::UnknownOption { key: key.clone(), known }.into()
        }
        _ => error,
    }
}

/// Splits at commas outside double quotes and removes the quotes; `None` if one is not closed.
fn split(text: &str) -> Option<Vec<String>> {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let part = parts.last_mut()?;
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                part.push('"');
                chars.next();
            }
            // A quote opens only at the start of a value, so that `quote="` needs no escape.
            '"' if quoted => quoted = false,
            '"' if (part.is_empty() || part.ends_with('=')) && closes(chars.clone()) => quoted = true,
            ',' if !quoted => parts.push(String::new()),
            c => part.push(c),
        }
    }
    (!quoted).then_some(parts)
}

/// Whether a closing quote at the end of the part follows.
fn closes(rest: std::iter::Peekable<std::str::Chars<'_>>) -> bool {
    let mut rest = rest;
    while let Some(c) = rest.next() {
        if c == '"' {
            match rest.peek() {
                Some('"') => drop(rest.next()),
                Some(',') | None => return true,
                Some(_) => {}
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InputFormat;

    fn parse(text: &str) -> Result<TableSpec> {
        text.parse()
    }

    #[test]
    fn name_locations_and_options() -> Result<()> {
        let spec = parse("t=s3://b/dt=1/*.csv,format=csv,path=more.csv,header=false")?;
        assert_eq!(spec.name, "t");
        assert_eq!(spec.locations, ["s3://b/dt=1/*.csv", "more.csv"].map(LocationText::from));
        assert_eq!(spec.options.format, Some(InputFormat::Csv));
        assert!(!spec.options.csv.header);
        Ok(())
    }

    #[test]
    fn commas_and_quotes_in_values() -> Result<()> {
        let spec = parse(r#"t="a,""b"".csv",delimiter=",",quote="""",null="""#)?;
        assert_eq!(spec.locations, [r#"a,"b".csv"#.into()]);
        assert_eq!(spec.options.csv.delimiter, Some(b','));
        assert_eq!(spec.options.csv.quote, Some(b'"'));
        Ok(())
    }

    #[test]
    fn table_spec_rejects_invalid_text() {
        for (text, message) in [
            ("data.csv", "table \"data.csv\": expected NAME=URL, such as t=events.csv"),
            ("=data.csv", "table \"=data.csv\": the name is empty"),
            ("t=", "table \"t=\": the URL is empty"),
            (
                "t=a,b.csv",
                "table \"t=a,b.csv\": expected key=value, found \"b.csv\"; put a URL with a comma in double quotes",
            ),
            ("t=a.csv,header=true,header=false", "table \"t=a.csv,header=true,header=false\": header is given twice"),
            (
                "t=a,partitions=dt DATE,partitions=h INT",
                "table \"t=a,partitions=dt DATE,partitions=h INT\": partitions is given twice: it takes them all, in \
                 double quotes: \"partitions=dt DATE, h INT\"",
            ),
            ("t=a.csv,header=perhaps", "option header=\"perhaps\": expected true or false"),
        ] {
            assert_eq!(parse(text).expect_err(text).to_string(), message);
        }
        let message = |text| parse(text).expect_err("unknown").to_string();
        assert_eq!(message("t=a.csv,delimeter=;"), "unknown option \"delimeter\"; did you mean delimiter?");
        let unlike = message("t=a.csv,snowflake=1");
        assert!(unlike.starts_with("unknown option \"snowflake\"; expected one of path, format,"), "{unlike}");
    }
}
