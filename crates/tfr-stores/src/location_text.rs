//! [`LocationText`]: a path or URL that hides its secrets.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// A path, URL or pattern as the user wrote it. `Display` and `Debug` hide potential secrets of a URL: its user info
/// and its query. [`with_secrets`](Self::with_secrets) returns the full text, to open the location.
///
/// Hidden parts are shown as `***`. The container in `abfss://container@account` is not a user, and is shown.
///
/// ```
/// use tfr_stores::LocationText;
///
/// let url = LocationText::from("https://me:pw@host/a.csv?sig=x");
/// assert_eq!(url.to_string(), "https://***@host/a.csv?***");
/// assert_eq!(url.with_secrets(), "https://me:pw@host/a.csv?sig=x");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocationText(String);

impl LocationText {
    /// Returns the full text. Use it only to open the location: it must not be printed, logged or written.
    pub fn with_secrets(&self) -> &str {
        &self.0
    }

    /// Whether `Display` hides a part of it.
    pub fn hides_secrets(&self) -> bool {
        self.shown() != self.0
    }

    fn shown(&self) -> Cow<'_, str> {
        match self.0.split_once("://") {
            Some((scheme, rest)) if is_scheme(scheme) => Cow::Owned(format!("{scheme}://{}", hidden(scheme, rest))),
            _ => without_mistyped_user(&self.0),
        }
    }
}

impl fmt::Display for LocationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.shown())
    }
}

impl fmt::Debug for LocationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.shown(), f)
    }
}

impl From<String> for LocationText {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for LocationText {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl FromStr for LocationText {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.into())
    }
}

/// Returns `text` with the URLs in it shown as by [`LocationText`], for messages of libraries. A URL ends at a blank
/// or a quote, and where another URL begins.
///
/// ```
/// use tfr_stores::redacted;
///
/// assert_eq!(redacted("GET https://me:pw@host/a.csv?sig=x: 403"), "GET https://***@host/a.csv?***: 403");
/// ```
pub fn redacted(text: &str) -> Cow<'_, str> {
    /// The `Debug` format of credentials in the URL type.
    const FIELDS: [&str; 2] = ["username: \"", "password: Some(\""];

    let mut shown = redacted_urls(text);
    if shown.contains('@') {
        let words = shown.split_inclusive(|c: char| ends_url(c) || matches!(c, '=' | ',' | '('));
        shown = Cow::Owned(words.map(without_mistyped_user).collect());
    }
    FIELDS.iter().fold(shown, |shown, field| match shown.contains(field) {
        true => Cow::Owned(without_values(&shown, field)),
        false => shown,
    })
}

/// Replaces the value after each `field`, up to the next quote.
fn without_values(text: &str, field: &str) -> String {
    let mut pieces = text.split(field);
    let mut shown = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (value, rest) = piece.split_at(piece.find('"').unwrap_or(piece.len()));
        shown.extend([field, if value.is_empty() { "" } else { HIDDEN }, rest]);
    }
    shown
}

fn redacted_urls(text: &str) -> Cow<'_, str> {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        let scheme = before.rsplit(|c| !is_scheme_char(c)).next().unwrap_or_default();
        let (url, tail) = after.split_at(url_len(scheme, after));
        // Punctuation at the end of a sentence or list item is not part of the URL.
        let (url, punctuation) = url.split_at(url.trim_end_matches([',', '.', ':', ';', ')', ']', '}']).len());
        shown.extend([before, "://", &hidden(scheme, url), punctuation]);
        rest = tail;
    }
    if shown.is_empty() {
        return Cow::Borrowed(text);
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// The schemes of locations. A path that begins with one of them and a colon is a URL that lacks a slash.
const SCHEMES: [&str; 15] =
    ["http", "https", "s3", "s3a", "gs", "gcs", "az", "azure", "adl", "abfs", "abfss", "wasb", "wasbs", "hdfs", "file"];

/// Returns the URL that was probably meant by a path that begins with a scheme and no two slashes (`http:/host/x`), or
/// with a user and no scheme (`//user:password@host/x`). Secrets are hidden.
///
/// ```
/// use tfr_stores::mistyped_url;
///
/// assert_eq!(mistyped_url("s3:/bucket/x").as_deref(), Some("s3://bucket/x"));
/// assert_eq!(mistyped_url("//me:pw@host/x").as_deref(), Some("https://***@host/x"));
/// assert_eq!(mistyped_url("data/x"), None);
/// ```
pub fn mistyped_url(text: &str) -> Option<String> {
    let start = mistyped_start(text)?;
    let (before, rest) = text.split_at(start);
    Some(match before.split_once(':') {
        None => format!("https://{}", hidden("https", rest)),
        Some((scheme, _)) if scheme.eq_ignore_ascii_case("file") => format!("file:///{rest}"),
        Some((scheme, _)) => format!("{scheme}://{}", hidden(scheme, rest)),
    })
}

/// Returns where the host or user begins in a path that was probably meant as a URL.
fn mistyped_start(text: &str) -> Option<usize> {
    const DOUBLE: &str = "//";

    if let Some(rest) = text.strip_prefix(DOUBLE) {
        return user_len(rest).filter(|len| rest[..*len].contains(':')).map(|_| DOUBLE.len());
    }
    let (scheme, rest) = text.split_once(':')?;
    let is_known = SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme));
    (is_known && !rest.starts_with(DOUBLE)).then(|| text.len() - rest.trim_start_matches('/').len())
}

/// Returns the length of the user and password at the start of `text`, if an `@` follows them.
fn user_len(text: &str) -> Option<usize> {
    text[..authority_len(text)].rfind('@')
}

/// Hides the user of a path that was probably meant as a URL.
fn without_mistyped_user(text: &str) -> Cow<'_, str> {
    match mistyped_start(text).and_then(|start| Some((start, start + user_len(&text[start..])?))) {
        Some((start, end)) => Cow::Owned(format!("{}{HIDDEN}{}", &text[..start], &text[end..])),
        None => Cow::Borrowed(text),
    }
}

/// Whether a URL in a text ends before this character.
fn ends_url(c: char) -> bool {
    c.is_whitespace() || c.is_control() || matches!(c, '\'' | '"' | '<' | '>' | '`')
}

/// Returns the length in bytes of the URL at the start of `text`, which follows `://`.
fn url_len(scheme: &str, text: &str) -> usize {
    let url = &text[..text.find(ends_url).unwrap_or(text.len())];
    match url.split_once("://") {
        // The next URL in a list. Within a query it is a value, and as secret as others.
        Some((before, _)) if query_start(scheme, before).is_none() => before.trim_end_matches(is_scheme_char).len(),
        _ => url.len(),
    }
}

/// Shown in place of secrets.
const HIDDEN: &str = "***";

/// Hides the secrets of a URL, given the text after `://`.
fn hidden(scheme: &str, rest: &str) -> String {
    let (authority, path) = rest.split_at(authority_len(rest));
    let mut shown = match authority.rsplit_once('@') {
        Some((container, _)) if has_container(scheme) && !container.contains(':') => authority.to_owned(),
        Some((_, host)) => format!("{HIDDEN}@{host}"),
        None if has_port_or_none(authority) => authority.to_owned(),
        // A user and a password without a host.
        None => return HIDDEN.to_owned(),
    };
    match query_start(scheme, path) {
        Some(start) if start < path.len() => shown.extend([&path[..start], HIDDEN]),
        _ => shown.push_str(path),
    }
    shown
}

/// Returns the length of the authority in bytes. A password may contain `/`, as AWS keys do; the authority then ends
/// at the last `@`.
fn authority_len(rest: &str) -> usize {
    let len = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, after) = rest.split_at(len);
    if authority.contains('@') || has_port_or_none(authority) {
        return len;
    }
    match after.rfind('@') {
        Some(at) => {
            let host = len + at + 1;
            rest[host..].find(['/', '?', '#']).map_or(rest.len(), |end| host + end)
        }
        None => len,
    }
}

/// Whether a colon in `authority`, if there is one, precedes a port, as in `host:80` and `[::1]:80`.
fn has_port_or_none(authority: &str) -> bool {
    let behind_address = authority.rsplit_once(']').map_or(authority, |(_, behind)| behind);
    behind_address.split_once(':').is_none_or(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the start of a URL's query or fragment, after its `?`. In keys of stores `?` is also a pattern; there only
/// `?name=` starts a query, as in SAS tokens and signatures.
pub(crate) fn query_start(scheme: &str, path: &str) -> Option<usize> {
    if ["http", "https"].iter().any(|http| scheme.eq_ignore_ascii_case(http)) {
        return path.find(['?', '#']).map(|at| at + 1);
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~' | '%');
    path.match_indices('?').map(|(at, _)| at + 1).find(|start| {
        let name_len = path[*start..].find(|c| !is_name(c)).unwrap_or(path.len() - start);
        name_len > 0 && path[start + name_len..].starts_with('=')
    })
}

/// Whether the text before `@` names a container, as in Azure's URLs.
fn has_container(scheme: &str) -> bool {
    ["az", "azure", "adl", "abfs", "abfss", "wasb", "wasbs"].iter().any(|azure| scheme.eq_ignore_ascii_case(azure))
}

/// Matches RFC 3986, section 3.1. A single letter is a Windows drive.
pub(crate) fn is_scheme(text: &str) -> bool {
    text.len() > 1 && text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(is_scheme_char)
}

fn is_scheme_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')
}

/// Decodes escapes such as `%2F`, as written by Hive and Spark. Invalid escapes are unchanged.
pub fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = (first == b'%')
            .then(|| tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok()))
            .flatten()
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(escaped.unwrap_or(first));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;

    /// Checks how a text is shown, alone and within a sentence.
    fn check(text: &str, shown: &str) {
        let location = LocationText::from(text);
        assert_eq!(location.to_string(), shown);
        assert_eq!(format!("{location:?}"), format!("{shown:?}"));
        assert_eq!(location.hides_secrets(), text != shown, "{text}");
        assert_eq!(location.with_secrets(), text);
        assert_eq!(redacted(&format!("FROM '{text}' ({text}), x")), format!("FROM '{shown}' ({shown}), x"));
    }

    #[test]
    fn users_and_queries_are_hidden() {
        for (text, shown) in [
            ("https://h/f?sig=a%2Fb", "https://h/f?***"),
            ("HTTPS://user@h/f", "HTTPS://***@h/f"),
            ("https://h/f#access_token=a", "https://h/f#***"),
            ("http://h/f?", "http://h/f?"),
            ("http://h:80/a@b", "http://h:80/a@b"),
            ("http://[::1]:80/a@b", "http://[::1]:80/a@b"),
            ("s3://key:secret@b/x", "s3://***@b/x"),
            ("s3://key:sec/r@et@b/x@1", "s3://***@1"),
            ("s3://key:sec/ret", "s3://***"),
            ("s3://user@b/x", "s3://***@b/x"),
            ("s3://b/x.csv?X-Amz-Signature=a&b=c", "s3://b/x.csv?***"),
            ("gs://b/x?access_token=a/b", "gs://b/x?***"),
            ("az://c/x?sv=2024&sig=a", "az://c/x?***"),
            ("abfss://c@account/x?sv=2024", "abfss://c@account/x?***"),
            ("abfss://key:secret@account/x", "abfss://***@account/x"),
            ("hdfs://user:pw@node:8020/x", "hdfs://***@node:8020/x"),
            ("file:///a?sig=b", "file:///a?***"),
        ] {
            check(text, shown);
        }
    }

    /// Plans and configurations of the engine show stores this way.
    #[test]
    fn redacted_hides_users_in_debug_output() {
        let url = Url::parse("https://me:pw@host:80").unwrap();
        let shown = redacted(&format!("{url:?} of {:?}", Url::parse("file:///").unwrap())).into_owned();
        assert!(shown.contains(r#"username: "***", password: Some("***"), host: Some(Domain("host"))"#), "{shown}");
        assert!(shown.contains(r#"username: "", password: None"#), "{shown}");
    }

    #[test]
    fn paths_patterns_and_containers_are_shown() {
        for text in [
            "a/b?x=1",
            "/C:/odd",
            "s3://b/part-?.csv",
            "s3://b/dt=2026-??/h=?/x=1",
            "file:///C:/odd/a?.csv",
            "hdfs://node:8020/x",
            "az://files@account.blob.core.windows.net/x",
        ] {
            check(text, text);
        }
        for text in ["no URL at all: //", "é://h?x "] {
            assert_eq!(redacted(text), text);
        }
    }

    #[test]
    fn users_of_urls_that_lack_a_part_are_hidden() {
        for (text, shown, meant) in [
            ("http:/u:SECRET@h/x", "http:/***@h/x", Some("http://***@h/x")),
            ("http:u:SECRET@h", "http:***@h", Some("http://***@h")),
            ("s3:k:s/e@b/x", "s3:***@b/x", Some("s3://***@b/x")),
            ("//u:SECRET@h/x", "//***@h/x", Some("https://***@h/x")),
            ("file:/a/b", "file:/a/b", Some("file:///a/b")),
            ("//server/share/a@b", "//server/share/a@b", None),
            ("./http:/h/x", "./http:/h/x", None),
            ("a//u:x@h/x", "a//u:x@h/x", None),
            ("C:/a", "C:/a", None),
        ] {
            assert_eq!(mistyped_url(text).as_deref(), meant, "{text}");
            if meant.is_some() {
                check(text, shown);
                assert_eq!(redacted(&format!("--table t={text}")), format!("--table t={shown}"));
            }
        }
    }

    #[test]
    fn urls_in_lists_are_hidden_one_by_one() {
        for (text, shown) in [
            ("t=s3://k:s@b/x,path=s3://k:s/s@b/y", "t=s3://***@b/x,path=s3://***@b/y"),
            ("https://h/f?next=https://i/g&sig=a, x", "https://h/f?***, x"),
        ] {
            assert_eq!(redacted(text), shown);
        }
    }
}
