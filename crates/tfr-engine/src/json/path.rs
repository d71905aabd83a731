//! Paths into JSON, such as `$.a[0].b`.

/// A step from a value to one inside of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// The value of a key of an object.
    Key(String),
    /// An item of an array. Negative indexes count from its end.
    Index(i64),
    /// The value of a key of an object, or the item of an array.
    KeyOrIndex(String),
}

/// The steps from the whole value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path(pub(super) Vec<Step>);

impl Path {
    /// Parses a path that begins with `$`.
    ///
    /// # Errors
    /// With the reason, if the text is not a path, or selects several values.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut rest = text.strip_prefix('$').ok_or("it does not begin with $")?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, after) = match rest.strip_prefix('.') {
                Some(rest) => key(rest)?,
                None => item(rest)?,
            };
            steps.push(step);
            rest = after;
        }
        Ok(Self(steps))
    }
}

/// Parses a key after a point.
fn key(text: &str) -> Result<(Step, &str), String> {
    if let Some(quoted) = text.strip_prefix('"') {
        let (key, rest) = until_quote(quoted, '"')?;
        return Ok((Step::Key(key), rest));
    }
    let end = text.find(['.', '[']).unwrap_or(text.len());
    match text.split_at(end) {
        ("", _) => Err("a key is empty".to_owned()),
        ("*", _) => Err("* selects several values, which is not supported".to_owned()),
        (key, rest) => Ok((Step::Key(key.to_owned()), rest)),
    }
}

/// Parses an index or a key in brackets.
fn item(text: &str) -> Result<(Step, &str), String> {
    let inside = text.strip_prefix('[').ok_or_else(|| format!("expected a point or [ before {text}"))?;
    let (step, rest) = if let Some(quote @ ('"' | '\'')) = inside.chars().next() {
        let (key, rest) = until_quote(&inside[1..], quote)?;
        (Step::Key(key), rest)
    } else {
        let end = inside.find(']').ok_or("a [ has no ]")?;
        let (index, rest) = inside.split_at(end);
        // The form of DuckDB and SQLite for indexes from the end.
        let (sign, digits) = match index.strip_prefix("#-") {
            Some(digits) => (-1, digits),
            None => (1, index),
        };
        let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        let index = match digits.parse::<i64>() {
            Ok(index) if is_number => sign * index,
            _ if index == "*" => return Err("* selects several values, which is not supported".to_owned()),
            _ => return Err(format!("[{index}] is not an index")),
        };
        (Step::Index(index), rest)
    };
    Ok((step, rest.strip_prefix(']').ok_or("a [ has no ]")?))
}

fn until_quote(text: &str, quote: char) -> Result<(String, &str), String> {
    match text.split_once(quote) {
        Some((key, rest)) => Ok((key.to_owned(), rest)),
        None => Err("a quote has no end".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_path_parses_into_steps() {
        let key = |key: &str| Step::Key(key.to_owned());
        for (text, steps) in [
            ("$", vec![]),
            ("$.a", vec![key("a")]),
            ("$.a[0].b", vec![key("a"), Step::Index(0), key("b")]),
            ("$[1][#-1]", vec![Step::Index(1), Step::Index(-1)]),
            ("$.\"a.b\"['c.d'][\"e]\"]", vec![key("a.b"), key("c.d"), key("e]")]),
        ] {
            assert_eq!(Path::parse(text), Ok(Path(steps)), "{text}");
        }
        for text in [
            "",
            "a",
            "$a",
            "$.",
            "$..a",
            "$[",
            "$[x]",
            "$[-1]",
            "$[*]",
            "$.*",
            "$.a[1",
            "$['a]",
            "$[99999999999999999999]",
        ] {
            assert!(Path::parse(text).is_err(), "{text}");
        }
    }
}
