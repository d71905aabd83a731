//! [`LineParser`]: parses lines, each of which is one object.

use std::sync::Arc;

use super::parse::Parser;
use super::stop::{SourceText, Stop, describe};
use super::tape::{NodeKind, Tape, TextPlace};
use crate::error::{Line, Result};

/// Parses lines, each of which is one object, as Jackson does: whatever follows the object is ignored, and `NaN` is no
/// number.
pub(crate) struct LineParser {
    parser: Parser,
}

impl LineParser {
    pub(crate) fn new(file: Arc<str>) -> Self {
        let source = SourceText { file, after_byte: None, row_bound: u64::MAX };
        Self { parser: Parser::new(source, None) }
    }

    /// Parses a line into a tape, whose first node is the object. The tape is empty if the line is `null`.
    ///
    /// # Errors
    /// The line does not begin with an object.
    pub(crate) fn parse(&mut self, line: &[u8], at: Line) -> Result<&Tape> {
        let parser = &mut self.parser;
        parser.tape.clear();
        (parser.source.after_byte, parser.tape_line) = (at.after_byte, at.number);
        // Each line may begin with a byte order mark.
        let marked = if line.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let blanks = line[marked..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let start = marked + blanks;
        let text = &line[start..];
        let place = TextPlace { line: at.number, character: start as u64 + 1 };
        match text.first() {
            Some(b'{') => {}
            Some(b'n') if text.trim_ascii_end() == b"null" => return Ok(&parser.tape),
            found => {
                let found = found.map_or_else(|| "the end of the line".to_owned(), |byte| describe(*byte));
                return Err(parser.source.unexpected(place, "an object", &found));
            }
        }
        let valid = match std::str::from_utf8(text) {
            Ok(valid) => valid,
            Err(error) => std::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or_default(),
        };
        if let Err(stop) = parser.parse(text, valid, place) {
            return Err(match *stop {
                Stop::End { at, expected } => parser.source.unexpected(at, expected, "the end of the line"),
                stop => parser.source.error(stop),
            });
        }
        let tape = &parser.tape;
        let is_word =
            |node: &super::tape::Node| node.kind == NodeKind::Number && tape.text(*node).ends_with(['N', 'y']);
        if let Some(node) = tape.nodes.iter().position(is_word) {
            let place = TextPlace { character: tape.positions[node].character.into(), ..place };
            return Err(parser.source.unexpected(place, "a number", tape.text(tape.nodes[node])));
        }
        Ok(&parser.tape)
    }
}
