//! [`Parser`]: parses pieces of a text into a [`Tape`].

mod errors;

use std::sync::Arc;

use tfr_files::memory::ReadBounds;

use super::keys::{Key, Keys};
use super::number::number_len;
use super::tape::{Kind, Node, Position, Tape};
use crate::error::{ErrorKind, Line, Result};
use errors::describe;

/// Maximum bytes of an object; a longer one is assumed to lack its end.
const MAX_ROW_LEN: u64 = 256 << 20;

/// Text bytes and values at which a tape counts as full. Its offsets are 32-bit, and one more record may follow.
const MAX_TAPE_LEN: usize = 32 << 20;
const MAX_TAPE_VALUES: usize = 4 << 20;

/// Maximum nesting depth; the same limit as serde_json's.
pub(super) const MAX_DEPTH: usize = 128;

/// The parser's state: what may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Between rows.
    Row,
    /// Between the rows of a file that is one array; `comma` if one was read.
    Element {
        comma: bool,
    },
    /// After a row in a file that is one array.
    AfterElement,
    /// After the array that makes up the file.
    End,
    /// A value; in an array possibly its end instead.
    Value {
        or_end: bool,
    },
    /// A key, or the end of the object.
    Key {
        or_end: bool,
    },
    Colon,
    /// A comma, or the end of the container.
    Next,
    /// Inside a string.
    Text {
        key: bool,
    },
    /// After a backslash.
    Escape {
        key: bool,
    },
    /// The digits of `\uXXXX`.
    Unicode {
        key: bool,
        digits: u8,
        value: u16,
    },
    Number,
    /// `null`, `true` or `false`, or Python's spelling of NaN or an infinity, and how much of it was read.
    Literal {
        word: &'static str,
        read: usize,
    },
}

/// Parses objects: concatenated, or as the elements of one array.
pub(super) struct Parser {
    file: Arc<str>,
    pub(super) keys: Option<Arc<Keys>>,
    pub(super) tape: Tape,
    state: State,
    /// The open containers, as nodes of the tape.
    open: Vec<u32>,
    /// The string or number being read, if it came in pieces or with escapes.
    scratch: Vec<u8>,
    /// The first half of a surrogate pair.
    surrogate: Option<u16>,
    /// The line and the character of the value being read.
    pub(super) begun: (u64, u64),
    /// The value of a key that is not requested: lengths of the tape before it.
    unwanted: Option<(usize, usize)>,
    /// The column that probably comes next.
    pub(super) guess: u32,
    pub(super) line: u64,
    /// Bytes read since the start of the line, counting each character once.
    pub(super) character: u64,
    /// The first line of the tape.
    tape_line: u64,
    /// The byte from which lines are counted, if this is a part of the file.
    after_byte: Option<u64>,
    /// Bytes of the row being read.
    pub(super) row_len: u64,
    /// Bytes of text at which a batch ends.
    batch_len: usize,
    /// Maximum bytes of a row within the memory limit, with those of its values on the tape.
    row_bound: u64,
    rows_read: u64,
    /// Whether the file is one array.
    is_array: bool,
    /// Whether some row is not on a line of its own.
    pub(super) spans_lines: bool,
    pub(super) row_line: u64,
}

impl Parser {
    /// Creates a parser for a text that starts at `after_byte` of the file, if it is only a part. `keys` are given if
    /// the columns are known.
    pub(super) fn new(file: Arc<str>, keys: Option<Arc<Keys>>, after_byte: Option<u64>) -> Self {
        Self {
            file,
            keys,
            tape: Tape::default(),
            state: State::Row,
            open: Vec::new(),
            scratch: Vec::new(),
            surrogate: None,
            begun: (1, 1),
            unwanted: None,
            guess: 0,
            line: 1,
            character: 0,
            tape_line: 1,
            after_byte,
            row_len: 0,
            batch_len: MAX_TAPE_LEN,
            row_bound: u64::MAX,
            rows_read: 0,
            is_array: false,
            spans_lines: false,
            row_line: 0,
        }
    }

    /// Limits batches and rows to the session's bounds.
    pub(super) fn within(mut self, bounds: ReadBounds) -> Self {
        self.batch_len = bounds.batch.min(MAX_TAPE_LEN);
        self.row_bound = bounds.record() as u64;
        self
    }

    /// Returns the buffered rows.
    pub(super) fn tape(&self) -> &Tape {
        &self.tape
    }

    pub(super) fn file(&self) -> &str {
        &self.file
    }

    /// Discards the buffered rows. Not to be called within a row.
    pub(super) fn clear(&mut self) {
        self.tape.clear();
        self.tape_line = self.line;
    }

    /// Whether at least `rows` rows are buffered, or enough text for a batch.
    pub(super) fn is_full(&self, rows: usize) -> bool {
        let tape = &self.tape;
        let values = self.batch_len.div_ceil(MAX_TAPE_LEN / MAX_TAPE_VALUES);
        let is_long = tape.text.len() >= self.batch_len || tape.nodes.len() >= values;
        self.is_between_rows() && (tape.rows.len() >= rows || is_long)
    }

    /// Whether every row read so far is on a line of its own.
    pub(super) fn has_row_a_line(&self) -> bool {
        !self.spans_lines && !self.is_array
    }

    fn is_between_rows(&self) -> bool {
        matches!(self.state, State::Row | State::Element { .. } | State::AfterElement | State::End)
    }

    /// Reads until `rows` rows are buffered; returns the number of bytes read.
    pub(super) fn read(&mut self, input: &[u8], rows: usize) -> Result<usize> {
        // Invalid UTF-8 is detected again when its position is reached.
        let text = match std::str::from_utf8(input) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&input[..error.valid_up_to()]).unwrap_or_default(),
        };
        let mut at = 0;
        while at < input.len() && !self.is_full(rows) {
            if matches!(self.state, State::Row | State::Element { .. })
                && input[at] == b'{'
                && let Some(read) = text.get(at..).and_then(|text| self.read_plain(text))
            {
                at += read;
                continue;
            }
            let read = match self.state {
                State::Text { key } => self.read_text(&input[at..], key)?,
                State::Number => self.read_number(&input[at..])?,
                _ => {
                    self.step(input[at])?;
                    self.character += 1;
                    if input[at] == b'\n' {
                        self.line += 1;
                        self.character = 0;
                    }
                    1
                }
            };
            at += read;
            self.row_len += read as u64;
            let is_too_long = self.row_len > MAX_ROW_LEN || self.row_len + self.tape.node_bytes() > self.row_bound;
            if is_too_long && !self.is_between_rows() {
                return Err(self.too_long());
            }
        }
        Ok(at)
    }

    /// Signals the end of the text.
    pub(super) fn finish(&mut self) -> Result<()> {
        match self.state {
            State::Row | State::End => Ok(()),
            _ => Err(self.unexpected(self.expected(), "the end of the file")),
        }
    }

    fn step(&mut self, byte: u8) -> Result<()> {
        let blank = matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        match (self.state, byte) {
            (State::Text { .. } | State::Number, _) => {}
            (State::Escape { key }, _) => self.escape(byte, key)?,
            (State::Unicode { key, digits, value }, _) => self.unicode(byte, key, digits, value)?,
            (State::Literal { word, read }, _) => self.literal(byte, word, read)?,
            (_, _) if blank => {}
            (State::Row | State::Element { .. }, b'{') => {
                if std::mem::replace(&mut self.row_line, self.line) == self.line {
                    self.spans_lines = true;
                }
                (self.row_len, self.guess) = (0, 0);
                self.tape.rows.push(self.tape.nodes.len() as u32);
                self.open(Kind::Object)?;
            }
            (State::Row, b'[') if self.rows_read == 0 && self.after_byte.is_none() => {
                self.is_array = true;
                self.state = State::Element { comma: false };
            }
            (State::Element { comma: false } | State::AfterElement, b']') => self.state = State::End,
            (State::AfterElement, b',') => self.state = State::Element { comma: true },
            (State::Value { .. }, _) if self.begin_value(byte)? => {}
            (State::Value { or_end: true }, b']') | (State::Key { or_end: true }, b'}') => self.close(),
            (State::Key { .. }, b'"') => self.begin_text(true),
            (State::Colon, b':') => self.state = State::Value { or_end: false },
            (State::Next, b',' | b']' | b'}') => self.next(byte)?,
            (_, byte) => return Err(self.unexpected(self.expected(), &describe(byte))),
        }
        Ok(())
    }

    /// Describes the accepted input, for messages.
    fn expected(&self) -> &'static str {
        let in_array = self.open.last().is_some_and(|open| self.tape.node(*open).kind == Kind::Array);
        match self.state {
            State::Row if self.rows_read == 0 => "an object, or an array of objects",
            State::Row => "an object",
            State::Element { comma: true } => "an object",
            State::Element { comma: false } => "an object or ]",
            State::AfterElement => ", or ]",
            State::End => "nothing behind the array",
            State::Value { or_end: true } => "a value or ]",
            State::Value { or_end: false } => "a value",
            State::Key { or_end: true } => "a key in double quotes or }",
            State::Key { or_end: false } => "a key in double quotes",
            State::Colon => ":",
            State::Next if in_array => ", or ]",
            State::Next => ", or }",
            State::Text { .. } => "a character or \"",
            State::Escape { .. } => "one of \" \\ / b f n r t u",
            State::Unicode { .. } => "four hexadecimal digits",
            State::Number => "the rest of a number",
            State::Literal { word, .. } => word,
        }
    }

    /// Begins the value that starts with this byte; returns whether there is one.
    fn begin_value(&mut self, byte: u8) -> Result<bool> {
        match byte {
            b'{' => self.open(Kind::Object)?,
            b'[' => self.open(Kind::Array)?,
            b'"' => self.begin_text(false),
            b'-' | b'0'..=b'9' => {
                self.begun = self.here();
                self.scratch.clear();
                self.scratch.push(byte);
                self.state = State::Number;
            }
            b'n' | b't' | b'f' | b'N' | b'I' => {
                self.begun = self.here();
                let word = match byte {
                    b'n' => "null",
                    b't' => "true",
                    b'f' => "false",
                    b'N' => "NaN",
                    _ => "Infinity",
                };
                self.state = State::Literal { word, read: 1 };
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn begin_text(&mut self, key: bool) {
        self.begun = self.here();
        self.scratch.clear();
        self.state = State::Text { key };
    }

    fn open(&mut self, kind: Kind) -> Result<()> {
        if self.open.len() == MAX_DEPTH {
            return Err(self.unexpected("at most 128 objects and arrays in each other", "another"));
        }
        self.begun = self.here();
        self.open.push(self.tape.nodes.len() as u32);
        self.push(kind, 0, 0);
        self.state = match kind {
            Kind::Object => State::Key { or_end: true },
            _ => State::Value { or_end: true },
        };
        Ok(())
    }

    fn close(&mut self) {
        let end = self.tape.nodes.len() as u32;
        if let Some(node) = self.open.pop().and_then(|open| self.tape.nodes.get_mut(open as usize)) {
            node.end = end;
        }
        self.end_value();
    }

    fn next(&mut self, byte: u8) -> Result<()> {
        let kind = self.open.last().map(|open| self.tape.node(*open).kind);
        match (kind, byte) {
            (Some(Kind::Array), b',') => self.state = State::Value { or_end: false },
            (Some(Kind::Array), b']') | (Some(Kind::Object), b'}') => self.close(),
            (Some(Kind::Object), b',') => self.state = State::Key { or_end: false },
            _ => return Err(self.unexpected(self.expected(), &describe(byte))),
        }
        Ok(())
    }

    /// Moves to the state after a complete value.
    fn end_value(&mut self) {
        if self.open.len() == 1
            && let Some((nodes, text)) = self.unwanted.take()
        {
            self.tape.truncate(nodes, text);
        }
        self.state = match self.open.is_empty() {
            false => State::Next,
            true => {
                self.spans_lines |= self.line != self.row_line;
                return self.end_row();
            }
        };
    }

    /// Moves to the state after a complete row.
    pub(super) fn end_row(&mut self) {
        self.rows_read += 1;
        self.state = if self.is_array { State::AfterElement } else { State::Row };
    }

    pub(super) fn push(&mut self, kind: Kind, start: usize, end: usize) {
        let (line, character) = self.begun;
        let line = u32::try_from(line - self.tape_line.min(line)).unwrap_or(u32::MAX);
        let character = u32::try_from(character).unwrap_or(u32::MAX);
        // A tape holds less than 4 GiB: MAX_TAPE_LEN and one record.
        self.tape.nodes.push(Node { kind, start: start as u32, end: end as u32 });
        self.tape.positions.push(Position { line, character });
    }

    fn read_text(&mut self, input: &[u8], key: bool) -> Result<usize> {
        let special = |byte: &u8| *byte == b'"' || *byte == b'\\' || *byte < b' ';
        let len = input.iter().position(special).unwrap_or(input.len());
        let (plain, rest) = input.split_at(len);
        if !plain.is_empty() {
            self.end_surrogate()?;
        }
        match rest.first() {
            Some(b'"') if self.scratch.is_empty() && self.surrogate.is_none() => {
                self.character += characters(plain);
                self.end_text(plain, key)?;
            }
            Some(b'"') => {
                self.character += characters(plain);
                self.end_surrogate()?;
                self.scratch.extend_from_slice(plain);
                let text = std::mem::take(&mut self.scratch);
                self.end_text(&text, key)?;
                self.scratch = text;
            }
            Some(b'\\') => {
                self.character += characters(plain);
                self.scratch.extend_from_slice(plain);
                self.state = State::Escape { key };
            }
            Some(byte) => {
                self.character += characters(plain);
                return Err(self.unexpected(self.expected(), &describe(*byte)));
            }
            None => {
                self.character += characters(plain);
                self.scratch.extend_from_slice(plain);
                return Ok(len);
            }
        }
        self.character += 1;
        Ok(len + 1)
    }

    fn end_text(&mut self, bytes: &[u8], key: bool) -> Result<()> {
        let Ok(text) = std::str::from_utf8(bytes) else {
            let line = self.line_at(self.begun.0);
            let place = Some(format!("{line}, in the string at character {}", self.begun.1));
            return Err(ErrorKind::Encoding { file: self.file.to_string(), place, encoding: "UTF-8" }.into());
        };
        if key {
            return self.end_key(text);
        }
        let start = self.tape.text.len();
        self.tape.text.push_str(text);
        self.push(Kind::String, start, start + text.len());
        self.end_value();
        Ok(())
    }

    fn end_key(&mut self, key: &str) -> Result<()> {
        self.state = State::Colon;
        let found = match &self.keys {
            Some(keys) if self.open.len() == 1 => keys.find(key, self.guess),
            _ => {
                let start = self.tape.text.len();
                self.tape.text.push_str(key);
                self.push(Kind::String, start, start + key.len());
                return Ok(());
            }
        };
        let place = || {
            let (line, character) = self.begun;
            (self.file.to_string(), self.line_at(line), character, key.to_owned())
        };
        match found {
            Key::Column(column) => {
                self.guess = column + 1;
                self.push(Kind::Column, column as usize, 0);
            }
            Key::Unwanted => self.unwanted = Some((self.tape.nodes.len(), self.tape.text.len())),
            Key::Unknown => {
                let (file, line, character, column) = place();
                return Err(ErrorKind::JsonKey { file, line, character, column }.into());
            }
            Key::InPath => {
                let (file, line, character, column) = place();
                return Err(ErrorKind::KeyInPath { file, line, character, column }.into());
            }
        }
        Ok(())
    }

    fn read_number(&mut self, input: &[u8]) -> Result<usize> {
        let part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let len = input.iter().position(|byte| !part(byte)).unwrap_or(input.len());
        if len == 0 && self.scratch == b"-" && input.first() == Some(&b'I') {
            self.state = State::Literal { word: "-Infinity", read: 1 };
            return Ok(0);
        }
        self.scratch.extend_from_slice(&input[..len]);
        self.character += len as u64;
        if len < input.len() {
            let bytes = std::mem::take(&mut self.scratch);
            let number = std::str::from_utf8(&bytes).unwrap_or_default();
            if number_len(&bytes) != Some(bytes.len()) {
                let found = shortened(number);
                return Err(self.unexpected_at(self.begun, "a number", &found));
            }
            let start = self.tape.text.len();
            self.tape.text.push_str(number);
            self.push(Kind::Number, start, start + number.len());
            self.scratch = bytes;
            self.end_value();
        }
        Ok(len)
    }

    fn literal(&mut self, byte: u8, word: &'static str, read: usize) -> Result<()> {
        if word.as_bytes().get(read) != Some(&byte) {
            return Err(self.unexpected(word, &describe(byte)));
        }
        if read + 1 < word.len() {
            self.state = State::Literal { word, read: read + 1 };
            return Ok(());
        }
        let kind = match word {
            "null" => Kind::Null,
            "true" => Kind::True,
            "false" => Kind::False,
            number => {
                self.push_text(Kind::Number, number);
                self.end_value();
                return Ok(());
            }
        };
        self.push(kind, 0, 0);
        self.end_value();
        Ok(())
    }

    fn escape(&mut self, byte: u8, key: bool) -> Result<()> {
        let character = match byte {
            b'"' | b'\\' | b'/' => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                self.state = State::Unicode { key, digits: 0, value: 0 };
                return Ok(());
            }
            _ => return Err(self.unexpected(self.expected(), &describe(byte))),
        };
        self.end_surrogate()?;
        self.scratch.push(character);
        self.state = State::Text { key };
        Ok(())
    }

    fn unicode(&mut self, byte: u8, key: bool, digits: u8, value: u16) -> Result<()> {
        let Some(digit) = char::from(byte).to_digit(16) else {
            return Err(self.unexpected(self.expected(), &describe(byte)));
        };
        let value = value << 4 | digit as u16;
        if digits < 3 {
            self.state = State::Unicode { key, digits: digits + 1, value };
            return Ok(());
        }
        self.state = State::Text { key };
        if self.surrogate.is_none() && (0xd800..0xdc00).contains(&value) {
            self.surrogate = Some(value);
            return Ok(());
        }
        let first = self.surrogate.take();
        match char::decode_utf16(first.into_iter().chain([value])).next() {
            Some(Ok(c)) => self.scratch.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            _ => return Err(self.unexpected("a Unicode character", &format!("half of one, \\u{value:04x}"))),
        }
        Ok(())
    }

    /// Rejects a high surrogate without a low one.
    fn end_surrogate(&mut self) -> Result<()> {
        match self.surrogate.take() {
            Some(half) => Err(self.unexpected("a Unicode character", &format!("half of one, \\u{half:04x}"))),
            None => Ok(()),
        }
    }

    fn here(&self) -> (u64, u64) {
        (self.line, self.character + 1)
    }

    fn line_at(&self, number: u64) -> Line {
        Line { number, after_byte: self.after_byte }
    }

    /// Returns the line of a node of the tape.
    pub(super) fn line_of(&self, node: u32) -> Line {
        self.line_at(self.tape_line + u64::from(self.tape.position(node).line))
    }
}

/// Formats a value for messages, truncated if long.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Counts the characters that begin in this part of a text.
fn characters(part: &[u8]) -> u64 {
    let is_start = |byte: &&u8| **byte & 0xc0 != 0x80;
    part.iter().filter(is_start).count() as u64
}
