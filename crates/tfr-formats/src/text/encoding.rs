//! The encodings of text files.

use std::fmt;

/// The encoding of a text file. A byte order mark at the start is never part of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// UTF-8.
    #[default]
    Utf8,
    /// UTF-16 with a byte order mark; little endian without one.
    Utf16,
    /// UTF-16, little endian.
    Utf16Le,
    /// UTF-16, big endian.
    Utf16Be,
    /// UTF-32 with a byte order mark; little endian without one.
    Utf32,
    /// UTF-32, little endian.
    Utf32Le,
    /// UTF-32, big endian.
    Utf32Be,
    /// ISO 8859-1: every byte is the code point of its character.
    Latin1,
    /// Another one of the [Encoding Standard](https://encoding.spec.whatwg.org/#names-and-labels).
    Other(&'static encoding_rs::Encoding),
}

impl Encoding {
    /// The expected values, for errors about unknown encodings.
    pub(crate) const EXPECTED: &str = "utf-8, utf-16, utf-32 (these two also with le or be), latin1, or another encoding of the web by its name, such as windows-1252 or gbk";

    /// Parses an encoding name; `None` if it is not supported.
    ///
    /// Names are those of the Encoding Standard, in any case and with `_` for `-`. As an exception, `latin1` and
    /// `iso-8859-1` mean exactly that, not windows-1252.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let dashed = text.replace('_', "-");
        Some(match dashed.as_str() {
            "utf-8" | "utf8" | "utf-8-sig" | "ascii" | "us-ascii" => Self::Utf8,
            "utf-16" | "utf16" => Self::Utf16,
            "utf-16le" | "utf16le" | "utf-16-le" => Self::Utf16Le,
            "utf-16be" | "utf16be" | "utf-16-be" => Self::Utf16Be,
            "utf-32" | "utf32" => Self::Utf32,
            "utf-32le" | "utf32le" | "utf-32-le" => Self::Utf32Le,
            "utf-32be" | "utf32be" | "utf-32-be" => Self::Utf32Be,
            "latin1" | "latin-1" | "iso-8859-1" | "iso8859-1" => Self::Latin1,
            // Windows' name, which the standard does not list.
            "cp932" => Self::Other(encoding_rs::SHIFT_JIS),
            _ => {
                let by_label = |label: &str| encoding_rs::Encoding::for_label_no_replacement(label.as_bytes());
                // Some labels have `_`, some `-`.
                match by_label(&text).or_else(|| by_label(&dashed))? {
                    encoding if encoding == encoding_rs::UTF_8 => Self::Utf8,
                    encoding if encoding == encoding_rs::UTF_16LE => Self::Utf16Le,
                    encoding if encoding == encoding_rs::UTF_16BE => Self::Utf16Be,
                    encoding => Self::Other(encoding),
                }
            }
        })
    }

    /// Whether a byte below 128 always encodes that character, so that a text can be split at one.
    pub(crate) fn is_by_byte(self) -> bool {
        match self {
            Self::Utf8 | Self::Latin1 => true,
            Self::Utf16 | Self::Utf16Le | Self::Utf16Be => false,
            Self::Utf32 | Self::Utf32Le | Self::Utf32Be => false,
            Self::Other(encoding) => encoding.is_single_byte(),
        }
    }

    /// Returns the name for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::Utf16 | Self::Utf16Le | Self::Utf16Be => "UTF-16",
            Self::Utf32 | Self::Utf32Le | Self::Utf32Be => "UTF-32",
            Self::Latin1 => "Latin-1",
            Self::Other(encoding) => encoding.name(),
        }
    }
}

/// Prints a name that [`Encoding::parse`] accepts.
impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Utf8 => f.write_str("utf-8"),
            Self::Utf16 => f.write_str("utf-16"),
            Self::Utf16Le => f.write_str("utf-16le"),
            Self::Utf16Be => f.write_str("utf-16be"),
            Self::Utf32 => f.write_str("utf-32"),
            Self::Utf32Le => f.write_str("utf-32le"),
            Self::Utf32Be => f.write_str("utf-32be"),
            Self::Latin1 => f.write_str("latin1"),
            Self::Other(encoding) => f.write_str(&encoding.name().to_ascii_lowercase()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_names_round_trip() {
        for name in ["utf-8", "UTF16", "utf_16_be", "utf-32le", "latin1", "windows-1252", "koi8_r", "shift_jis", "gbk"]
        {
            let encoding = Encoding::parse(name);
            assert!(encoding.is_some(), "{name}");
            assert_eq!(encoding.and_then(|encoding| Encoding::parse(&encoding.to_string())), encoding);
        }
    }
}
