//! Finds the part of a text of JSON that is a value. The parser is that of serde_json.

use serde::de::{DeserializeOwned, Error as _, IgnoredAny};
use serde_json::{Deserializer, Error};

use super::path::{Path, Step};

/// Checks a whole text.
///
/// # Errors
/// If it is not JSON.
pub(super) fn check(json: &str) -> Result<(), Error> {
    serde_json::from_str::<IgnoredAny>(json).map(drop)
}

/// Returns the text of the value at a path, if the text of JSON has it.
///
/// # Errors
/// If a key on the path is not a text: some escapes are valid only in pairs.
pub(super) fn find<'a>(json: &'a str, path: &Path) -> Result<Option<&'a str>, Error> {
    let mut value = json.trim_matches([' ', '\t', '\n', '\r']);
    for step in &path.0 {
        let inside = match (step, value.as_bytes().first()) {
            (Step::Key(key) | Step::KeyOrIndex(key), Some(b'{')) => member(value, key)?,
            (Step::Index(index), Some(b'[')) => item(value, *index)?,
            (Step::KeyOrIndex(key), Some(b'[')) => match key.parse() {
                Ok(index) => item(value, index)?,
                Err(_) => None,
            },
            _ => None,
        };
        match inside {
            Some(inside) => value = inside,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

/// Returns the value of the last member of that name.
fn member<'a>(object: &'a str, key: &str) -> Result<Option<&'a str>, Error> {
    let mut found = None;
    let mut rest = after(object, '{')?;
    while !rest.starts_with('}') {
        let (name, _, after_name) = next::<String>(rest)?;
        let (_, value, after_value) = next::<IgnoredAny>(after(after_name, ':')?)?;
        if name == key {
            found = Some(value);
        }
        rest = match after_value.starts_with(',') {
            true => after(after_value, ',')?,
            false => after_value,
        };
    }
    Ok(found)
}

fn item(array: &str, index: i64) -> Result<Option<&str>, Error> {
    let mut items = Vec::new();
    let mut rest = after(array, '[')?;
    while !rest.starts_with(']') {
        let (_, value, after_value) = next::<IgnoredAny>(rest)?;
        items.push(value);
        rest = match after_value.starts_with(',') {
            true => after(after_value, ',')?,
            false => after_value,
        };
    }
    let index = match usize::try_from(index) {
        Ok(index) => Some(index),
        Err(_) => usize::try_from(index.unsigned_abs()).ok().and_then(|from_end| items.len().checked_sub(from_end)),
    };
    Ok(index.and_then(|index| items.get(index).copied()))
}

/// Returns the text after a character, without white space.
fn after(text: &str, expected: char) -> Result<&str, Error> {
    match text.strip_prefix(expected) {
        Some(rest) => Ok(rest.trim_start_matches([' ', '\t', '\n', '\r'])),
        None => Err(Error::custom(format_args!("expected {expected}"))),
    }
}

/// Parses the next value. Returns it, its text, and the text after it and its white space.
fn next<T: DeserializeOwned>(text: &str) -> Result<(T, &str, &str), Error> {
    let mut values = Deserializer::from_str(text).into_iter::<T>();
    let value = values.next().unwrap_or_else(|| Err(Error::custom("expected a value")))?;
    let (value_text, rest) =
        text.split_at_checked(values.byte_offset()).ok_or_else(|| Error::custom("a character that is cut"))?;
    Ok((value, value_text, rest.trim_start_matches([' ', '\t', '\n', '\r'])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'a>(json: &'a str, path: &str) -> Option<&'a str> {
        check(json).unwrap();
        find(json, &Path::parse(path).unwrap()).unwrap()
    }

    #[test]
    fn json_path_values_keep_their_source_text() {
        let json =
            r#" { "a" : [ 1.10 , {"b":1e400}, "x\"]" ] ,"é":"\u00e9" , "n":12345678901234567890, "a.b":null,"":{} } "#;
        for (path, value) in [
            ("$.a[0]", Some("1.10")),
            ("$.a[1].b", Some("1e400")),
            ("$.a[1]", Some("{\"b\":1e400}")),
            ("$.a[2]", Some(r#""x\"]""#)),
            ("$.a[#-1]", Some(r#""x\"]""#)),
            ("$.a[3]", None),
            ("$.a[#-4]", None),
            ("$.a.b", None),
            ("$[0]", None),
            ("$.é", Some(r#""\u00e9""#)),
            ("$.n", Some("12345678901234567890")),
            ("$.\"a.b\"", Some("null")),
            ("$.\"\"", Some("{}")),
            ("$.x", None),
        ] {
            assert_eq!(found(json, path), value, "{path}");
        }
        assert_eq!(found(json, "$"), Some(json.trim()));
        assert_eq!(found(r#"{"a":1,"a":{"a":2}}"#, "$.a"), Some("{\"a\":2}"));
        assert_eq!(found(r#"{"\u0061":1}"#, "$.a"), Some("1"));
        assert_eq!(found("[]", "$[0]"), None);
        assert_eq!(found("{}", "$.a"), None);
        assert_eq!(found("[[1,2],[ ]]", "$[0][1]"), Some("2"));
    }

    #[test]
    fn json_path_handles_deep_nesting_without_recursion() {
        let depth = 100_000;
        let json = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(found(&json, "$").map(str::len), Some(2 * depth + 1));
    }

    #[test]
    fn json_check_rejects_invalid_text() {
        for text in ["", "{", "{\"a\":1", "{\"a\":1} x", "{'a':1}", "[1,]", "NaN", "\"\u{1}\"", "01", "tru"] {
            assert!(check(text).is_err(), "{text}");
        }
    }
}
