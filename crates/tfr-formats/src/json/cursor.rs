//! [`Cursor`]: reads the tokens of a row.

use std::borrow::Cow;

use super::number::number_len;
use super::stop::{Parsed, Stop, describe, shortened};
use super::tape::TextPlace;

const TEXT: &str = "a character or \"";
const ESCAPE: &str = "one of \" \\ / b f n r t u";
const DIGITS: &str = "four hexadecimal digits";

/// A position in the text of a row. Methods that fail leave it where the error is.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    /// The start of `bytes` that is valid UTF-8.
    valid: &'a str,
    at: usize,
    /// Number of UTF-8 continuation bytes before `at`, for counting characters.
    inner: usize,
    line: u64,
    /// The character in its line at which `bytes` would start if no line ended before `at`, counted from 1.
    first_character: i64,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the start of a text, which is at `start` in the file. `valid` is the start of the text that
    /// is valid UTF-8.
    pub(super) fn new(bytes: &'a [u8], valid: &'a str, start: TextPlace) -> Self {
        Self { bytes, valid, at: 0, inner: 0, line: start.line, first_character: start.character as i64 }
    }

    /// Returns the number of bytes read.
    pub(super) fn len(&self) -> usize {
        self.at
    }

    pub(super) fn place(&self) -> TextPlace {
        let character = (self.at - self.inner) as i64 + self.first_character;
        TextPlace { line: self.line, character: character as u64 }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Skips blanks and returns the byte that follows them.
    pub(super) fn token(&mut self, expected: &'static str) -> Parsed<u8> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\r') => self.at += 1,
                Some(b'\n') => {
                    self.at += 1;
                    self.line += 1;
                    self.first_character = 1 - (self.at - self.inner) as i64;
                }
                Some(byte) => return Ok(byte),
                None => return Err(self.end(expected)),
            }
        }
    }

    /// Skips a token of one byte.
    pub(super) fn skip(&mut self) {
        self.at += 1;
    }

    /// Returns the error that this byte at the cursor is.
    pub(super) fn unexpected(&self, expected: &'static str, byte: u8) -> Box<Stop> {
        Box::new(Stop::Syntax { at: self.place(), expected, found: describe(byte) })
    }

    /// Moves to the end of the text, which lacks the rest of a token, and returns the error that it is.
    fn end(&mut self, expected: &'static str) -> Box<Stop> {
        self.advance(self.bytes.len());
        Box::new(Stop::End { at: self.place(), expected })
    }

    /// Moves over a part of a line that may contain any characters.
    fn advance(&mut self, to: usize) {
        let part = self.bytes.get(self.at..to).unwrap_or_default();
        self.inner += part.iter().filter(|byte| **byte & 0xc0 == 0x80).count();
        self.at = to;
    }

    /// Returns the string at the cursor, which is at `begun`, without quotes and escapes.
    pub(super) fn string(&mut self, begun: TextPlace) -> Parsed<Cow<'a, str>> {
        self.at += 1;
        let first = self.unescaped()?;
        let text = match self.peek() {
            Some(b'"') => first.map(Cow::Borrowed),
            _ => self.rest_of_string(first)?.map(Cow::Owned),
        };
        self.at += 1;
        text.ok_or_else(|| Box::new(Stop::Encoding { at: begun }))
    }

    /// Returns the string that starts with `first`, up to its end; `None` if it is not valid UTF-8.
    fn rest_of_string(&mut self, first: Option<&str>) -> Parsed<Option<String>> {
        let mut text = first.map(str::to_owned);
        let mut half = None;
        loop {
            match self.peek() {
                Some(b'"') => return Ok(text),
                Some(b'\\') => self.at += 1,
                Some(byte) => return Err(self.unexpected(TEXT, byte)),
                None => return Err(self.end(TEXT)),
            }
            let character = self.escape(&mut half)?;
            let part = match half {
                Some(unit) if self.peek().is_some_and(|byte| byte != b'\\' && byte >= b' ') => {
                    return Err(self.half_character(unit));
                }
                _ => self.unescaped()?,
            };
            text = text.zip(part).map(|(mut text, part)| {
                text.extend(character);
                text.push_str(part);
                text
            });
        }
    }

    /// Returns the text up to a quote, a backslash or a control character; `None` if it is not valid UTF-8.
    fn unescaped(&mut self) -> Parsed<Option<&'a str>> {
        let Some(len) = self.bytes.get(self.at..).and_then(special) else { return Err(self.end(TEXT)) };
        let end = self.at + len;
        let content = self.valid.get(self.at..end);
        match content {
            Some(content) if content.is_ascii() => self.at = end,
            _ => self.advance(end),
        }
        Ok(content)
    }

    /// Returns the character for the escape after a backslash. The first half of a surrogate pair becomes `half`; the
    /// escape after it is the second.
    fn escape(&mut self, half: &mut Option<u16>) -> Parsed<Option<char>> {
        let Some(byte) = self.peek() else { return Err(self.end(ESCAPE)) };
        let character = match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\x08',
            b'f' => '\x0c',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.code_unit(half),
            _ => return Err(self.unexpected(ESCAPE, byte)),
        };
        if let Some(unit) = *half {
            return Err(self.half_character(unit));
        }
        self.at += 1;
        Ok(Some(character))
    }

    /// Returns the character for `uXXXX`, or keeps it as the first half of one.
    fn code_unit(&mut self, half: &mut Option<u16>) -> Parsed<Option<char>> {
        let mut unit = 0;
        for _ in 0..4 {
            self.at += 1;
            let Some(byte) = self.peek() else { return Err(self.end(DIGITS)) };
            let Some(digit) = char::from(byte).to_digit(16) else { return Err(self.unexpected(DIGITS, byte)) };
            unit = unit << 4 | digit as u16;
        }
        if half.is_none() && (0xd800..0xdc00).contains(&unit) {
            *half = Some(unit);
            self.at += 1;
            return Ok(None);
        }
        match char::decode_utf16(half.take().into_iter().chain([unit])).next() {
            Some(Ok(character)) => {
                self.at += 1;
                Ok(Some(character))
            }
            _ => Err(self.half_character(unit)),
        }
    }

    fn half_character(&self, unit: u16) -> Box<Stop> {
        let found = format!("half of one, \\u{unit:04x}");
        Box::new(Stop::Syntax { at: self.place(), expected: "a Unicode character", found })
    }

    /// Returns the number at the cursor.
    pub(super) fn number(&mut self) -> Parsed<&'a str> {
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let text = |len| self.valid.get(self.at..self.at + len).unwrap_or_default();
        if let Some(len) = number_len(rest)
            && rest.get(len).is_some_and(|byte| !is_part(byte))
        {
            let number = text(len);
            self.at += len;
            return Ok(number);
        }
        let Some(len) = rest.iter().position(|byte| !is_part(byte)) else {
            return Err(self.end("the rest of a number"));
        };
        match (text(len), rest.get(len)) {
            ("-", Some(b'I')) => self.literal("-Infinity"),
            (number, _) => {
                Err(Box::new(Stop::Syntax { at: self.place(), expected: "a number", found: shortened(number) }))
            }
        }
    }

    /// Skips this word, of which the first byte is at the cursor.
    pub(super) fn literal(&mut self, word: &'static str) -> Parsed<&'static str> {
        if self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes())) {
            self.at += word.len();
            return Ok(word);
        }
        for wanted in word.bytes() {
            match self.peek() {
                Some(byte) if byte == wanted => self.at += 1,
                Some(byte) => return Err(self.unexpected(word, byte)),
                None => break,
            }
        }
        Err(self.end(word))
    }
}

/// Finds the first quote, backslash or control character.
fn special(bytes: &[u8]) -> Option<usize> {
    const LOW: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    // Eight bytes at a time: the lowest bit set marks the first such byte; bits above it may be wrong.
    let less_than = |word: u64, limit: u8| word.wrapping_sub(LOW * u64::from(limit)) & !word & HIGH;
    let equal = |word: u64, byte: u8| less_than(word ^ (LOW * u64::from(byte)), 1);
    let mut at = 0;
    while let Some(eight) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*eight);
        let found = equal(word, b'"') | equal(word, b'\\') | less_than(word, b' ');
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    let rest = bytes.get(at..)?.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f));
    rest.map(|rest| at + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_special_byte_is_found() {
        for len in 0..40_usize {
            let mut bytes = vec![b'x'; len];
            bytes.extend([0x7f, 0xc3, 0xbf, 0xff]);
            assert_eq!(special(&bytes), None);
            for byte in [b'"', b'\\', 0, 0x1f] {
                let mut bytes = bytes.clone();
                bytes[len] = byte;
                // Later matches do not hide it.
                bytes[len + 1] = b'"';
                assert_eq!(special(&bytes), Some(len), "{byte} behind {len}");
            }
        }
    }
}
