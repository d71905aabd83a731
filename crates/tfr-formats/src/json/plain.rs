//! [`Parser::read_plain`]: parses plain rows in one pass.
//!
//! Most rows are on one line that is completely in the current piece of text. A loop for each part of these is twice as
//! fast as a state for each byte. All other rows, and invalid ones, are left to the state machine, from their start.

use std::borrow::Cow;

use super::keys::Key;
use super::number::number_len;
use super::parse::{MAX_DEPTH, Parser};
use super::tape::Kind;

/// Bytes of a row.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
    /// Number of continuation bytes before `at`, for counting characters.
    inner: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn takes(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    /// Returns the string at the cursor without quotes and escapes.
    fn string(&mut self) -> Option<Cow<'a, str>> {
        self.at += 1;
        let first = self.unescaped()?;
        if self.takes(b'"') {
            return Some(Cow::Borrowed(first));
        }
        let mut text = first.to_owned();
        while self.takes(b'\\') {
            text.push(self.escape()?);
            text.push_str(self.unescaped()?);
        }
        self.takes(b'"').then_some(Cow::Owned(text))
    }

    /// Returns the text up to a quote, a backslash or a control character.
    fn unescaped(&mut self) -> Option<&'a str> {
        let rest = self.text.get(self.at..)?;
        let content = &rest[..special(rest.as_bytes())?];
        self.at += content.len();
        if !content.is_ascii() {
            self.inner += content.len() - content.chars().count();
        }
        Some(content)
    }

    /// Returns the character for the escape after a backslash.
    fn escape(&mut self) -> Option<char> {
        let byte = self.peek()?;
        self.at += 1;
        Some(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\x08',
            b'f' => '\x0c',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.unit()?;
                let second = if (0xd800..0xdc00).contains(&first) {
                    self.literal("\\u")?;
                    Some(self.unit()?)
                } else {
                    None
                };
                let mut characters = char::decode_utf16([first].into_iter().chain(second));
                let character = characters.next()?.ok()?;
                return characters.next().is_none().then_some(character);
            }
            _ => return None,
        })
    }

    fn unit(&mut self) -> Option<u16> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        let is_hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_hexadecimal.then(|| u16::from_str_radix(digits, 16).ok()).flatten()
    }

    /// Returns the number at the cursor, unless the text ends with it.
    fn number(&mut self) -> Option<&'a str> {
        let rest = self.text.get(self.at..)?;
        let len = number_len(rest.as_bytes())?;
        self.at += len;
        match self.peek()? {
            b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E' => None,
            _ => rest.get(..len),
        }
    }

    fn literal(&mut self, word: &str) -> Option<()> {
        let is_next = self.text.as_bytes().get(self.at..)?.starts_with(word.as_bytes());
        self.at += word.len();
        is_next.then_some(())
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

impl Parser {
    /// Parses the object at the start of `text` if it is plain. Returns its length in bytes; otherwise reads nothing.
    pub(super) fn read_plain(&mut self, text: &str) -> Option<usize> {
        let (nodes, len, guess) = (self.tape.nodes.len(), self.tape.text.len(), self.guess);
        let mut cursor = Cursor { text, at: 0, inner: 0 };
        self.guess = 0;
        self.tape.rows.push(nodes as u32);
        if self.plain_object(&mut cursor, 1).is_none() {
            self.tape.truncate(nodes, len);
            self.tape.rows.pop();
            self.guess = guess;
            return None;
        }
        self.spans_lines |= std::mem::replace(&mut self.row_line, self.line) == self.line;
        self.character += (cursor.at - cursor.inner) as u64;
        self.row_len = cursor.at as u64;
        self.end_row();
        Some(cursor.at)
    }

    /// Records that a value begins at the cursor.
    fn begin_at(&mut self, cursor: &Cursor<'_>) {
        self.begun = (self.line, self.character + (cursor.at - cursor.inner) as u64 + 1);
    }

    pub(super) fn push_text(&mut self, kind: Kind, text: &str) {
        let start = self.tape.text.len();
        self.tape.text.push_str(text);
        self.push(kind, start, start + text.len());
    }

    fn plain_value(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Option<()> {
        self.begin_at(cursor);
        match cursor.peek()? {
            b'"' => self.push_text(Kind::String, &cursor.string()?),
            b'-' | b'0'..=b'9' => self.push_text(Kind::Number, cursor.number()?),
            b'{' => self.plain_object(cursor, depth + 1)?,
            b'[' => self.plain_array(cursor, depth + 1)?,
            byte => {
                let (kind, word) = match byte {
                    b'n' => (Kind::Null, "null"),
                    b't' => (Kind::True, "true"),
                    b'f' => (Kind::False, "false"),
                    _ => return None,
                };
                cursor.literal(word)?;
                self.push(kind, 0, 0);
            }
        }
        Some(())
    }

    fn plain_object(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Option<()> {
        let object = self.open_plain(cursor, Kind::Object, depth)?;
        if cursor.takes(b'}') {
            return self.close_plain(object);
        }
        loop {
            if cursor.peek() != Some(b'"') {
                return None;
            }
            self.begin_at(cursor);
            let key = cursor.string()?;
            let found = self.keys.as_ref().filter(|_| depth == 1).map(|keys| keys.find(&key, self.guess));
            let before = (self.tape.nodes.len(), self.tape.text.len());
            match found {
                None => self.push_text(Kind::String, &key),
                Some(Key::Column(column)) => {
                    self.guess = column + 1;
                    self.push(Kind::Column, column as usize, 0);
                }
                Some(Key::Unwanted) => {}
                Some(Key::Unknown | Key::InPath) => return None,
            }
            cursor.skip_blanks();
            if !cursor.takes(b':') {
                return None;
            }
            cursor.skip_blanks();
            self.plain_value(cursor, depth)?;
            if found == Some(Key::Unwanted) {
                self.tape.truncate(before.0, before.1);
            }
            cursor.skip_blanks();
            if cursor.takes(b'}') {
                return self.close_plain(object);
            }
            if !cursor.takes(b',') {
                return None;
            }
            cursor.skip_blanks();
        }
    }

    fn plain_array(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Option<()> {
        let array = self.open_plain(cursor, Kind::Array, depth)?;
        if cursor.takes(b']') {
            return self.close_plain(array);
        }
        loop {
            self.plain_value(cursor, depth)?;
            cursor.skip_blanks();
            if cursor.takes(b']') {
                return self.close_plain(array);
            }
            if !cursor.takes(b',') {
                return None;
            }
            cursor.skip_blanks();
        }
    }

    fn open_plain(&mut self, cursor: &mut Cursor<'_>, kind: Kind, depth: usize) -> Option<usize> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.begin_at(cursor);
        let node = self.tape.nodes.len();
        self.push(kind, 0, 0);
        cursor.at += 1;
        cursor.skip_blanks();
        Some(node)
    }

    fn close_plain(&mut self, node: usize) -> Option<()> {
        let end = self.tape.nodes.len() as u32;
        self.tape.nodes.get_mut(node)?.end = end;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::super::keys::Keys;
    use super::super::tape::{Node, Position};
    use super::*;
    use crate::names::ColumnNames;

    type Outcome = Result<(Vec<Node>, Vec<Position>, String, Vec<u32>, bool), String>;

    /// Parses a text in pieces of this size. With pieces of one byte no row is plain.
    fn outcome(text: &str, size: usize, keys: Option<&Arc<Keys>>) -> Outcome {
        let mut parser = Parser::new("t".into(), keys.cloned(), None);
        let mut read = || {
            for mut piece in text.as_bytes().chunks(size) {
                while !piece.is_empty() {
                    piece = &piece[parser.read(piece, usize::MAX)?..];
                }
            }
            parser.finish()
        };
        read().map_err(|error| error.to_string())?;
        let is_plain = parser.has_row_a_line();
        let Parser { tape, .. } = parser;
        Ok((tape.nodes, tape.positions, tape.text, tape.rows, is_plain))
    }

    fn any_rows() -> impl Strategy<Value = String> {
        let value = prop_oneof![
            Just("null"),
            Just("true"),
            Just("fals"),
            Just("-12.5e+3"),
            Just("NaN"),
            Just("-Infinity"),
            Just("Infinit"),
            Just("0"),
            Just("01"),
            Just("\"\""),
            Just("\"k\""),
            Just("\"a long text, with é and 🦀 in it\""),
            Just("\"\\u00e9\\ud83e\\udd80\\n\\/\""),
            Just("\"\\ud83e\""),
            Just("\"\\u+12f\""),
            Just("[1, [],\t{}]"),
            Just("{\"k\": {\"é\": [\"x\\\\\"]}, \"z\" : 1 }"),
            Just("[1,\n2]"),
            Just("[,]"),
        ];
        let key = prop_oneof![Just("k"), Just("a"), Just("é"), Just("other"), Just("\\u006b")];
        let entries = proptest::collection::vec((key, value), 0..5);
        let row = entries.prop_map(|entries| {
            let entries: Vec<_> = entries.into_iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
            format!("{{{}}}", entries.join(", "))
        });
        let end = prop_oneof![8 => Just("\n"), 2 => Just("\r\n"), 1 => Just(" "), 1 => Just(""), 1 => Just(","), 1 => Just("}")];
        let rows = proptest::collection::vec((row, end), 0..6);
        (any::<bool>(), rows).prop_map(|(is_array, rows)| match is_array {
            true => format!("[{}]", rows.into_iter().map(|(row, _)| row).collect::<Vec<_>>().join(",\n")),
            false => rows.into_iter().map(|(row, end)| format!("{row}{end}")).collect(),
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        /// The state machine is the oracle.
        #[test]
        fn json_plain_row_equals_the_state_machine(text in any_rows(), open in any::<bool>(), known in any::<bool>()) {
            let keys = Arc::new(Keys::new(&["k", "a", "é"], &[2, 0], vec!["other".to_owned()], open, ColumnNames::default()));
            let keys = known.then_some(&keys);
            prop_assert_eq!(outcome(&text, text.len().max(1), keys), outcome(&text, 1, keys));
        }
    }

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
