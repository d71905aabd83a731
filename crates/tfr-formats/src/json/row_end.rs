//! [`RowEnd`]: finds where a row ends.

use memchr::memchr2;

/// Finds the end of a row that comes in several pieces. Only brackets and strings matter for it: if the row is invalid,
/// its first error is before this end.
#[derive(Debug, Default)]
pub(super) struct RowEnd {
    /// Number of open objects and arrays.
    depth: usize,
    in_string: bool,
    /// Whether a backslash precedes the next byte.
    is_escaped: bool,
}

impl RowEnd {
    /// Returns the length of the row's part in the next piece, if the row ends in it.
    pub(super) fn find(&mut self, piece: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(byte) = piece.get(at) {
            if self.in_string && !self.is_escaped {
                at += memchr2(b'"', b'\\', &piece[at..])?;
                self.in_string = piece[at] != b'"';
                self.is_escaped = self.in_string;
            } else if self.is_escaped {
                self.is_escaped = false;
            } else {
                match byte {
                    b'"' => self.in_string = true,
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' => self.depth -= 1,
                    _ => {}
                }
                if self.depth == 0 {
                    return Some(at + 1);
                }
            }
            at += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_row_ends_behind_its_last_bracket_in_pieces_of_any_size() {
        let row = r#"{"a}\\": "\"]}", "b": [{"c": {}}, "\\"], "d": "é"}"#;
        let text = format!("{row}{{\"next\": 1}}");
        for size in 1..text.len() {
            let mut end = RowEnd::default();
            let found = text
                .as_bytes()
                .chunks(size)
                .enumerate()
                .find_map(|(index, piece)| end.find(piece).map(|len| index * size + len));
            assert_eq!(found, Some(row.len()), "pieces of {size}");
        }
    }
}
