//! Parsers for options about columns, sequences and splits.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use arrow_tfrecord::{Choice, ColumnRule};

/// The seed used when none is given. It is fixed, so that equal commands have equal results.
pub const DEFAULT_SEED: u64 = 0;

/// Parses the rule of one column: `column: rule`, as described by [`ColumnRule`]. A column name that contains a colon
/// is written in double quotes; quotes within it are doubled.
///
/// # Errors
/// A description of the mistake.
pub fn parse_rule(text: &str) -> Result<(String, ColumnRule), String> {
    let (column, rule) = named(text)
        .filter(|(column, _)| !column.is_empty())
        .ok_or("expected 'column: rule', or '\"column\": rule' for a name with a colon")?;
    Ok((column, rule.parse().map_err(|error: arrow_tfrecord::ParseOptionError| error.to_string())?))
}

/// Parses rules of several columns, separated by commas or semicolons: `price: string, "a, b": bits, null=mask`. The
/// value of `null=default=` ends at a semicolon; it may contain commas.
///
/// ```
/// let rules = datafusion_tfrecord::options::parse_rules("price: bits, null=mask, city: null=default=a, b; day: string")?;
/// let rules: Vec<_> = rules.into_iter().map(|(column, rule)| format!("{column}: {rule}")).collect();
/// assert_eq!(rules, ["price: bits, null=mask", "city: null=default=a, b", "day: string"]);
/// # Ok::<_, String>(())
/// ```
///
/// # Errors
/// A description of the expected text.
pub fn parse_rules(text: &str) -> Result<Vec<(String, ColumnRule)>, String> {
    let expected = || {
        let choices: Vec<_> = Choice::ALL.iter().map(Choice::to_string).collect();
        format!("'column: rule, ...', where a rule is one of {}, or null=POLICY, or both", choices.join(", "))
    };
    let mut rules = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let is_name = |name: &str| !name.is_empty() && (rest.starts_with('"') || !name.contains([',', ';']));
        let (column, after) = named(rest).filter(|(column, _)| is_name(column)).ok_or_else(expected)?;
        let (rule, next) = after.split_at(end_of_rule(after));
        rules.push((column, rule.parse().map_err(|_| expected())?));
        rest = next.get(1..).unwrap_or_default().trim_start();
    }
    Ok(rules)
}

/// Parses column names, separated by commas.
///
/// # Errors
/// A description of the expected text.
pub fn parse_columns(text: &str) -> Result<Vec<String>, String> {
    let expected = || "names of columns, with commas between, in double quotes if they hold one".to_owned();
    let mut columns = Vec::new();
    let mut rest = Some(text);
    while let Some(text) = rest {
        let (column, after) = name(text, [',']).ok_or_else(expected)?;
        if column.is_empty() {
            return Err(expected());
        }
        columns.push(column);
        let after = after.trim_start();
        rest = match after.strip_prefix(',') {
            None if !after.is_empty() => return Err(expected()),
            next => next,
        };
    }
    Ok(columns)
}

/// The largest number of shards of a set or split: all are open at once, or are written in several passes.
const MOST_SHARDS: usize = 100_000;

/// Checks a number of shards.
///
/// # Errors
/// A description of the expected number.
pub(super) fn check_shards(shards: NonZeroUsize) -> Result<NonZeroUsize, String> {
    match shards.get() > MOST_SHARDS {
        true => Err(format!("at most {MOST_SHARDS} shards; is a size in bytes meant (shard_size)?")),
        false => Ok(shards),
    }
}

/// Parses the number of shards of each split: `train=256, val=16`.
///
/// # Errors
/// A description of the expected text.
pub fn parse_split_shards(text: &str) -> Result<BTreeMap<String, NonZeroUsize>, String> {
    let mut shards = BTreeMap::new();
    for part in text.split(',') {
        let split = part.split_once('=').and_then(|(name, count)| Some((name.trim(), count.trim().parse().ok()?)));
        let (name, count) = split.ok_or("a number of shards for each split, 1 or more: train=256,val=16")?;
        if shards.insert(name.to_owned(), check_shards(count)?).is_some() {
            return Err(format!("one number of shards for {name}"));
        }
    }
    Ok(shards)
}

/// Parses vocabularies, the values of integer-encoded columns in the order of their ranks: `label: cat, dog; "a: b":
/// "x, y", z`.
pub(super) fn parse_vocabularies(text: &str) -> Result<Vec<(String, Vec<String>)>, String> {
    let expected = || {
        "'column: value, value; ...', with values in double quotes if they hold a comma, a semicolon or a quote"
            .to_owned()
    };
    let mut vocabularies = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (column, mut after) = named(rest).filter(|(column, _)| !column.is_empty()).ok_or_else(expected)?;
        let mut values = Vec::new();
        loop {
            let (value, behind) = name(after, [',', ';']).ok_or_else(expected)?;
            values.push(value);
            let behind = behind.trim_start();
            match behind.strip_prefix(',') {
                Some(next) => after = next,
                None => {
                    rest = match behind.strip_prefix(';') {
                        Some(next) => next.trim_start(),
                        None if behind.is_empty() => behind,
                        None => return Err(expected()),
                    };
                    break;
                }
            }
        }
        vocabularies.push((column, values));
    }
    Ok(vocabularies)
}

/// Splits `column: rest`.
fn named(text: &str) -> Option<(String, &str)> {
    let (column, after) = name(text, [':'])?;
    Some((column, after.trim_start().strip_prefix(':')?))
}

/// Splits off a name, which is quoted or ends before one of `ends`.
fn name<const N: usize>(text: &str, ends: [char; N]) -> Option<(String, &str)> {
    let text = text.trim_start();
    let Some(mut rest) = text.strip_prefix('"') else {
        let (name, after) = text.split_at(text.find(ends).unwrap_or(text.len()));
        return Some((name.trim_end().to_owned(), after));
    };
    let mut name = String::new();
    loop {
        let (before, after) = rest.split_once('"')?;
        name.push_str(before);
        match after.strip_prefix('"') {
            Some(after) => {
                name.push('"');
                rest = after;
            }
            None => return Some((name, after)),
        }
    }
}

/// Returns the end of the first rule in `text`: a semicolon, or a comma that is not part of the rule.
fn end_of_rule(text: &str) -> usize {
    let mut part = 0;
    loop {
        let rest = &text[part..];
        let ends: &[char] = if rest.trim_start().starts_with("null=default=") { &[';'] } else { &[',', ';'] };
        let Some(end) = rest.find(ends).map(|end| part + end) else { return text.len() };
        let behind = text[end + 1..].trim_start();
        let word = behind.split([',', ';']).next().unwrap_or_default().trim_end();
        let goes_on = behind.starts_with("null=") || word.parse::<Choice>().is_ok();
        if text[end..].starts_with(';') || !goes_on {
            return end;
        }
        part = end + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Result<Vec<String>, String> {
        Ok(parse_rules(text)?.into_iter().map(|(column, rule)| format!("{column}| {rule}")).collect())
    }

    #[test]
    fn rules_end_where_a_column_begins() -> Result<(), String> {
        assert_eq!(rules("a: bits")?, ["a| bits"]);
        assert_eq!(
            rules("a: bits, null=mask, b: null=drop , string,")?,
            ["a| bits, null=mask", "b| string, null=drop"]
        );
        assert_eq!(rules(r#""x, y: ""z""": wrap;point/x : bits"#)?, [r#"x, y: "z"| wrap"#, "point/x| bits"]);
        assert_eq!(rules("a: null=default=1, b: 2; c: bits")?, ["a| null=default=1, b: 2", "c| bits"]);
        assert_eq!(rules("a: string, null=default=;b: bits")?, ["a| string, null=default=", "b| bits"]);
        for text in ["a", "a: ", "a: exact", "a: bits b: bits", r#""a: bits"#, ": bits", "a: bits,, b: bits"] {
            assert!(rules(text).is_err(), "{text}");
        }
        Ok(())
    }

    #[test]
    fn columns_may_be_quoted() -> Result<(), String> {
        assert_eq!(parse_columns(r#"a, "b, ""c""" ,d e"#)?, ["a", r#"b, "c""#, "d e"]);
        for text in ["", "a,", ",a", r#""a" b"#, r#""a"#] {
            assert!(parse_columns(text).is_err(), "{text}");
        }
        Ok(())
    }

    #[test]
    fn splits_have_numbers_of_shards() -> Result<(), String> {
        let shards = parse_split_shards("train=256, val = 16")?;
        let shards: Vec<_> = shards.iter().map(|(split, shards)| (split.as_str(), shards.get())).collect();
        assert_eq!(shards, [("train", 256), ("val", 16)]);
        for text in ["", "train", "train=", "train=0", "train=1,", "train=1.5", "train=1,train=2"] {
            assert!(parse_split_shards(text).is_err(), "{text}");
        }
        Ok(())
    }

    #[test]
    fn vocabularies_are_values_in_order() -> Result<(), String> {
        let read = |text: &str| parse_vocabularies(text);
        let values = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
        assert_eq!(read("label: dog, cat")?, [("label".to_owned(), values(&["dog", "cat"]))]);
        let several = read(r#""a: b": "x, y", "say ""z""",; s/kind: one;"#)?;
        let expected = [("a: b", values(&["x, y", r#"say "z""#, ""])), ("s/kind", values(&["one"]))];
        assert_eq!(several, expected.map(|(column, values)| (column.to_owned(), values)));
        for text in ["label", ": a", r#"label: "a" b"#, r#"label: "a"#] {
            assert!(read(text).is_err(), "{text}");
        }
        Ok(())
    }
}
