//! Texts in quotes as Hive writes them, where a backslash begins an escape.

/// Replaces the escapes of a text. A backslash before anything else is kept.
pub(super) fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let escaped = &rest[at + 1..];
        let (c, len) = match escaped.chars().next() {
            Some('n') => ('\n', 1),
            Some('r') => ('\r', 1),
            Some('t') => ('\t', 1),
            Some('b') => ('\u{8}', 1),
            Some('Z') => ('\u{1a}', 1),
            Some(c @ ('\\' | '\'' | '"' | ';')) => (c, 1),
            Some('u') if let Some(c) = code(escaped, 1..5, 16) => (c, 5),
            Some('0'..='7') if let Some(c) = code(escaped, 0..3, 8) => (c, 3),
            Some('0') => ('\0', 1),
            _ => ('\\', 0),
        };
        out.push(c);
        rest = &escaped[len..];
    }
    out.push_str(rest);
    out
}

/// Returns the character of a code in digits.
fn code(text: &str, digits: std::ops::Range<usize>, radix: u32) -> Option<char> {
    let digits = text.get(digits).filter(|digits| digits.chars().all(|c| c.is_digit(radix)))?;
    u32::from_str_radix(digits, radix).ok().and_then(char::from_u32)
}

/// Doubles the quotes that are behind a backslash, in the texts of a statement that creates a table, so that they do not
/// end the texts. `None` if there are none.
pub(super) fn requoted(text: &str) -> Option<String> {
    if !text.contains("\\'") || !text.trim_start().get(..6).is_some_and(|word| word.eq_ignore_ascii_case("create")) {
        return None;
    }
    let mut out = String::with_capacity(text.len() + 8);
    let mut chars = text.chars().peekable();
    let (mut in_text, mut is_changed) = (false, false);
    while let Some(c) = chars.next() {
        match c {
            '\\' if in_text => match chars.next() {
                Some('\'') => {
                    out.push_str("\'\'");
                    is_changed = true;
                }
                escaped => {
                    out.push(c);
                    out.extend(escaped);
                }
            },
            '\'' => {
                in_text = !in_text;
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    is_changed.then_some(out)
}
