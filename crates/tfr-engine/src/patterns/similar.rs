//! Translates patterns of `SIMILAR TO` to regular expressions.
//!
//! The engine takes them for regular expressions: `'abcabc' SIMILAR TO 'a|b'` was true, and `'aXb' SIMILAR TO 'a_b%'`
//! was false.

use std::iter::Peekable;
use std::str::Chars;

use datafusion_common::{Result, exec_datafusion_err};
use regex::Regex;

/// Returns the regular expression that matches the same texts.
///
/// # Errors
/// If the pattern is not valid.
pub(super) fn similar_to_regex(pattern: &str, escape: &str) -> Result<String> {
    let invalid = |reason: String| exec_datafusion_err!("the pattern '{pattern}' of SIMILAR TO is not valid: {reason}");
    let escape = escape.chars().next();
    let mut result = String::from("(?s)^(?:");
    let mut chars = pattern.chars().peekable();
    while let Some(next) = chars.next() {
        match next {
            next if Some(next) == escape => {
                let escaped = escaped(&mut chars).map_err(&invalid)?;
                push_literal(&mut result, escaped);
            }
            '%' => result.push_str(".*"),
            '_' => result.push('.'),
            '(' => result.push_str("(?:"),
            ')' | '|' | '*' | '+' | '?' | '{' | '}' => result.push(next),
            '[' => push_class(&mut result, &mut chars, escape).map_err(&invalid)?,
            other => push_literal(&mut result, other),
        }
    }
    result.push_str(")$");
    match Regex::new(&result) {
        Ok(_) => Ok(result),
        Err(error) => Err(invalid(error.to_string().lines().last().unwrap_or_default().to_owned())),
    }
}

/// Returns the character after an escape character, which must be special.
fn escaped(chars: &mut Peekable<Chars<'_>>) -> std::result::Result<char, String> {
    match chars.next() {
        Some(letter) if letter.is_alphanumeric() => {
            Err(format!("the escape character stands before {letter}, which has no special meaning"))
        }
        Some(escaped) => Ok(escaped),
        None => Err("it ends with its escape character".to_owned()),
    }
}

fn push_literal(regex: &mut String, literal: char) {
    regex.push_str(&regex::escape(literal.encode_utf8(&mut [0; 4])));
}

/// Translates a class of characters, whose `[` has been read.
fn push_class(
    regex: &mut String,
    chars: &mut Peekable<Chars<'_>>,
    escape: Option<char>,
) -> std::result::Result<(), String> {
    const OPEN: &str = "a [ has no ]";
    regex.push('[');
    if chars.next_if_eq(&'^').is_some() {
        regex.push('^');
    }
    let mut is_first = true;
    loop {
        let next = chars.next().ok_or(OPEN)?;
        match next {
            ']' if !is_first => break,
            next if Some(next) == escape => push_member(regex, escaped(chars)?),
            '[' if chars.peek() == Some(&':') => {
                chars.next();
                let name: String = std::iter::from_fn(|| chars.next_if(|next| *next != ':')).collect();
                if chars.next() != Some(':') || chars.next() != Some(']') {
                    return Err(OPEN.to_owned());
                }
                // Those of the engine are ASCII.
                match name.as_str() {
                    "alpha" => regex.push_str(r"\p{Alphabetic}"),
                    "upper" => regex.push_str(r"\p{Uppercase}"),
                    "lower" => regex.push_str(r"\p{Lowercase}"),
                    "alnum" => regex.push_str(r"\p{Alphabetic}0-9"),
                    "space" => regex.push_str(r"\s"),
                    name => regex.extend(["[:", name, ":]"]),
                }
            }
            // A range, unless it is the first or last character.
            '-' if !is_first && chars.peek() != Some(&']') => regex.push('-'),
            other => push_member(regex, other),
        }
        is_first = false;
    }
    regex.push(']');
    Ok(())
}

/// Adds a character to a class. The engine has operators of classes, such as `&&`.
fn push_member(regex: &mut String, member: char) {
    if matches!(member, '\\' | '[' | ']' | '^' | '-' | '&' | '~') {
        regex.push('\\');
    }
    regex.push(member);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_texts() {
        for (text, pattern, matches) in [
            ("abcabc", "a|b", false),
            ("bc", "a|bc", true),
            ("abc", "a|bc", false),
            ("ac", "(a|b)c", true),
            ("aXb", "a_b%", true),
            ("a\nb", "a_b", true),
            ("a\nb\n", "a%", true),
            ("", "", true),
            ("a", "", false),
            ("a.c", "a.c", true),
            ("abc", "a.c", false),
            ("a%c", r"a\%c", true),
            ("abc", r"a\%c", false),
            ("a$", "a$", true),
            ("a^", "a^", true),
            ("aaa", "a{3}", true),
            ("aaa", "a{2,}", true),
            ("aaa", "a{1,2}", false),
            ("aXc", "a[A-Z]c", true),
            ("a%c", "a[%]c", true),
            ("abc", "a[%]c", false),
            ("a^c", "a[^b]c", true),
            ("a]c", "a[]]c", true),
            ("a[b", "a[[]b", true),
            ("a&&b", "a[&&]+b", true),
            ("a~~b", "a[~~]*b", true),
            ("a-b", "a[x-]b", true),
            ("a-b", "a[-x]b", true),
            ("a1", "a[[:digit:]]", true),
            ("é1", "[[:alpha:]][^[:alpha:]]", true),
            ("a\"c", "a\"c", true),
            ("a#b", "a#b", true),
            ("a<b", "a[<>]b", true),
        ] {
            let regex = Regex::new(&similar_to_regex(pattern, r"\").unwrap()).unwrap();
            assert_eq!(regex.is_match(text), matches, "{text} SIMILAR TO {pattern}");
        }
        assert!(Regex::new(&similar_to_regex("a#%", "#").unwrap()).unwrap().is_match("a%"));
        assert!(Regex::new(&similar_to_regex(r"a\b", "#").unwrap()).unwrap().is_match(r"a\b"));
    }

    #[test]
    fn invalid_patterns_are_errors() {
        for pattern in ["a(b", "a{b", "a[b", r"a\", r"a\d", "(?:abc)", "+", "[z-a]"] {
            let message = similar_to_regex(pattern, r"\").unwrap_err().to_string();
            assert!(message.contains("SIMILAR TO is not valid"), "{message}");
        }
    }
}
