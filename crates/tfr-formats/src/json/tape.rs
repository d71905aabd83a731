//! [`Tape`]: the values of some rows in file order.

use std::ops::Range;

/// The kind of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeKind {
    Null,
    True,
    False,
    /// A number as written: a range of the tape's text.
    Number,
    /// A string without its quotes and escapes: a range of the tape's text.
    String,
    /// `end` is the node after the last element.
    Array,
    /// Alternating keys (strings) and values; `end` is the node after the last value.
    Object,
    /// The key of a row that is column `start` of the columns read.
    Column,
}

/// A value, or the key of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) kind: NodeKind,
    pub(super) start: u32,
    pub(super) end: u32,
}

/// A place in the file, or in a part of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextPlace {
    pub(super) line: u64,
    /// The character in the line, counted from 1.
    pub(super) character: u64,
}

/// The place of a value, or the key of one, on a tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    /// Counted from the first line of the tape.
    pub(super) line: u32,
    /// The character in the line, counted from 1.
    pub(super) character: u32,
}

/// The values of some rows in file order.
#[derive(Debug, Default)]
pub(crate) struct Tape {
    pub(super) nodes: Vec<Node>,
    /// The positions of the nodes. They are separate because only messages need them, and they would take up cache.
    pub(super) positions: Vec<Position>,
    pub(super) text: String,
    /// The object with which each row begins.
    pub(super) rows: Vec<u32>,
}

impl Tape {
    /// Iterates over the objects with which the rows begin.
    pub(crate) fn rows(&self) -> impl Iterator<Item = u32> + '_ {
        self.rows.iter().copied()
    }

    /// Returns the bytes that the nodes and their positions take.
    pub(super) fn node_bytes(&self) -> u64 {
        (self.nodes.len() * (size_of::<Node>() + size_of::<Position>())) as u64
    }

    /// Truncates the tape to these lengths.
    pub(super) fn truncate(&mut self, nodes: usize, text: usize) {
        self.nodes.truncate(nodes);
        self.positions.truncate(nodes);
        self.text.truncate(text);
    }

    pub(super) fn clear(&mut self) {
        self.truncate(0, 0);
        self.rows.clear();
    }

    pub(crate) fn node(&self, index: u32) -> Node {
        self.nodes[index as usize]
    }

    pub(super) fn position(&self, index: u32) -> Position {
        self.positions[index as usize]
    }

    /// Returns the text of a number or string.
    pub(crate) fn text(&self, node: Node) -> &str {
        &self.text[node.start as usize..node.end as usize]
    }

    /// Returns the node after a value.
    pub(super) fn after(&self, index: u32) -> u32 {
        match self.node(index) {
            Node { kind: NodeKind::Array | NodeKind::Object, end, .. } => end,
            _ => index + 1,
        }
    }

    /// Returns the elements of an array.
    pub(crate) fn elements(&self, array: u32) -> impl Iterator<Item = u32> {
        self.values(array + 1..self.node(array).end)
    }

    /// Returns the keys and values of an object.
    pub(crate) fn entries(&self, object: u32) -> impl Iterator<Item = (u32, u32)> {
        let mut nodes = self.values(object + 1..self.node(object).end);
        std::iter::from_fn(move || Some((nodes.next()?, nodes.next()?)))
    }

    fn values(&self, mut range: Range<u32>) -> impl Iterator<Item = u32> {
        std::iter::from_fn(move || {
            let value = range.next()?;
            range.start = self.after(value);
            Some(value)
        })
    }

    /// Writes a value as JSON without blanks, with numbers as in the file.
    pub(super) fn write_json(&self, index: u32, out: &mut String) {
        let node = self.node(index);
        match node.kind {
            NodeKind::Null | NodeKind::Column => out.push_str("null"),
            NodeKind::True => out.push_str("true"),
            NodeKind::False => out.push_str("false"),
            NodeKind::Number => out.push_str(self.text(node)),
            NodeKind::String => write_string(self.text(node), out),
            NodeKind::Array => {
                out.push('[');
                for (position, element) in self.elements(index).enumerate() {
                    if position > 0 {
                        out.push(',');
                    }
                    self.write_json(element, out);
                }
                out.push(']');
            }
            NodeKind::Object => {
                out.push('{');
                for (position, (key, value)) in self.entries(index).enumerate() {
                    if position > 0 {
                        out.push(',');
                    }
                    write_string(self.text(self.node(key)), out);
                    out.push(':');
                    self.write_json(value, out);
                }
                out.push('}');
            }
        }
    }
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}
