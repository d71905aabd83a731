//! [`Parser`]: parses rows into a [`Tape`].

use std::sync::Arc;

use super::cursor::Cursor;
use super::keys::{FoundKey, Keys};
use super::stop::{MAX_ROW_LEN, Parsed, SourceText, Stop};
use super::tape::{Node, NodeKind, Position, Tape, TextPlace};
use crate::error::Line;

/// Maximum nesting depth; the same limit as serde_json's.
const MAX_DEPTH: usize = 128;

const FIRST_KEY: &str = "a key in double quotes or }";
const NEXT_KEY: &str = "a key in double quotes";
const FIRST_ELEMENT: &str = "a value or ]";
const VALUE: &str = "a value";

/// Parses rows, each as a whole.
pub(super) struct Parser {
    pub(super) source: SourceText,
    pub(super) keys: Option<Arc<Keys>>,
    pub(super) tape: Tape,
    /// The first line of the tape.
    pub(super) tape_line: u64,
    /// The line in which the row starts.
    row_line: u64,
    /// The column that probably comes next.
    guess: u32,
}

impl Parser {
    /// Creates a parser for a text. `keys` are given if the columns are known.
    pub(super) fn new(source: SourceText, keys: Option<Arc<Keys>>) -> Self {
        Self { source, keys, tape: Tape::default(), tape_line: 1, row_line: 1, guess: 0 }
    }

    /// Parses the object at the start of a text, which is at `start` in the file, and adds it to the tape. `valid` is
    /// the start of the text that is valid UTF-8. Returns the object's length in bytes, and the place behind it.
    pub(super) fn parse(&mut self, text: &[u8], valid: &str, start: TextPlace) -> Parsed<(usize, TextPlace)> {
        let (nodes, len) = (self.tape.nodes.len(), self.tape.text.len());
        let mut row = Cursor::new(text, valid, start);
        (self.guess, self.row_line) = (0, start.line);
        self.tape.rows.push(nodes as u32);
        match self.object(&mut row, 1) {
            Ok(()) => Ok((row.len(), row.place())),
            Err(stop) => {
                let stop = self.check_len(&row).err().unwrap_or(stop);
                self.tape.truncate(nodes, len);
                self.tape.rows.pop();
                Err(stop)
            }
        }
    }

    fn value(&mut self, row: &mut Cursor<'_>, expected: &'static str, depth: usize) -> Parsed<()> {
        let byte = row.token(expected)?;
        let begun = row.place();
        match byte {
            b'"' => {
                let text = row.string(begun)?;
                self.push_text(begun, NodeKind::String, &text);
            }
            b'-' | b'0'..=b'9' => {
                let number = row.number()?;
                self.push_text(begun, NodeKind::Number, number);
            }
            b'{' => self.object(row, depth + 1)?,
            b'[' => self.array(row, depth + 1)?,
            b'N' | b'I' => {
                let number = row.literal(if byte == b'N' { "NaN" } else { "Infinity" })?;
                self.push_text(begun, NodeKind::Number, number);
            }
            _ => {
                let (kind, word) = match byte {
                    b'n' => (NodeKind::Null, "null"),
                    b't' => (NodeKind::True, "true"),
                    b'f' => (NodeKind::False, "false"),
                    _ => return Err(row.unexpected(expected, byte)),
                };
                row.literal(word)?;
                self.push(begun, kind, 0, 0);
            }
        }
        self.check_len(row)
    }

    /// Rejects a row of which too much was read.
    fn check_len(&self, row: &Cursor<'_>) -> Parsed<()> {
        let len = row.len() as u64;
        match len > MAX_ROW_LEN || len + self.tape.node_bytes() > self.source.row_bound {
            true => Err(Box::new(Stop::TooLong { at: row.place(), row: self.row_line, len })),
            false => Ok(()),
        }
    }

    fn object(&mut self, row: &mut Cursor<'_>, depth: usize) -> Parsed<()> {
        let object = self.open(row, NodeKind::Object, depth)?;
        let mut expected = FIRST_KEY;
        if row.token(expected)? != b'}' {
            loop {
                match row.token(expected)? {
                    b'"' => self.member(row, depth)?,
                    byte => return Err(row.unexpected(expected, byte)),
                }
                match row.token(", or }")? {
                    b',' => row.skip(),
                    b'}' => break,
                    byte => return Err(row.unexpected(", or }", byte)),
                }
                expected = NEXT_KEY;
            }
        }
        self.close(row, object);
        Ok(())
    }

    /// Parses a key and its value.
    fn member(&mut self, row: &mut Cursor<'_>, depth: usize) -> Parsed<()> {
        let at = row.place();
        let key = row.string(at)?;
        let found = self.keys.as_ref().filter(|_| depth == 1).map(|keys| keys.find(&key, self.guess));
        let (nodes, len) = (self.tape.nodes.len(), self.tape.text.len());
        match found {
            None => self.push_text(at, NodeKind::String, &key),
            Some(FoundKey::Column(column)) => {
                self.guess = column + 1;
                self.push(at, NodeKind::Column, column as usize, 0);
            }
            Some(FoundKey::Unwanted) => {}
            Some(FoundKey::Unknown) => return Err(Box::new(Stop::UnknownKey { at, key: key.into_owned() })),
            Some(FoundKey::InPath) => return Err(Box::new(Stop::KeyInPath { at, key: key.into_owned() })),
        }
        match row.token(":")? {
            b':' => row.skip(),
            byte => return Err(row.unexpected(":", byte)),
        }
        self.value(row, VALUE, depth)?;
        if found == Some(FoundKey::Unwanted) {
            self.tape.truncate(nodes, len);
        }
        Ok(())
    }

    fn array(&mut self, row: &mut Cursor<'_>, depth: usize) -> Parsed<()> {
        let array = self.open(row, NodeKind::Array, depth)?;
        let mut expected = FIRST_ELEMENT;
        if row.token(expected)? != b']' {
            loop {
                self.value(row, expected, depth)?;
                match row.token(", or ]")? {
                    b',' => row.skip(),
                    b']' => break,
                    byte => return Err(row.unexpected(", or ]", byte)),
                }
                expected = VALUE;
            }
        }
        self.close(row, array);
        Ok(())
    }

    fn open(&mut self, row: &mut Cursor<'_>, kind: NodeKind, depth: usize) -> Parsed<usize> {
        let at = row.place();
        if depth > MAX_DEPTH {
            let expected = "at most 128 objects and arrays in each other";
            return Err(Box::new(Stop::Syntax { at, expected, found: "another".to_owned() }));
        }
        let node = self.tape.nodes.len();
        self.push(at, kind, 0, 0);
        row.skip();
        Ok(node)
    }

    fn close(&mut self, row: &mut Cursor<'_>, node: usize) {
        row.skip();
        let end = self.tape.nodes.len() as u32;
        if let Some(node) = self.tape.nodes.get_mut(node) {
            node.end = end;
        }
    }

    fn push_text(&mut self, at: TextPlace, kind: NodeKind, text: &str) {
        let start = self.tape.text.len();
        self.tape.text.push_str(text);
        self.push(at, kind, start, start + text.len());
    }

    fn push(&mut self, at: TextPlace, kind: NodeKind, start: usize, end: usize) {
        let line = u32::try_from(at.line - self.tape_line.min(at.line)).unwrap_or(u32::MAX);
        let character = u32::try_from(at.character).unwrap_or(u32::MAX);
        // A tape holds less than 4 GiB: MAX_TAPE_LEN and one record.
        self.tape.nodes.push(Node { kind, start: start as u32, end: end as u32 });
        self.tape.positions.push(Position { line, character });
    }

    /// Returns the line of a node of the tape.
    pub(super) fn line_of(&self, node: u32) -> Line {
        self.source.line(self.tape_line + u64::from(self.tape.position(node).line))
    }
}
