//! Infers the type of a key's values.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields};

use super::tape::{Node, NodeKind, Tape};
use crate::csv::CellType;

/// The type of all values of a key seen so far.
///
/// The conversion loses nothing: a number beyond 64 bits is text. Values of several types are also text, with those
/// that are not strings as JSON.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum Shape {
    /// Only null.
    #[default]
    Unknown,
    /// Numbers, `true` and `false`.
    Scalar(CellType),
    /// Strings, or values of several types.
    Text,
    Array(Box<Shape>),
    Object(Members),
}

/// The keys of an object, in order of first occurrence.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Members {
    positions: HashMap<String, usize>,
    shapes: Vec<(String, Shape)>,
}

impl Members {
    /// Records the keys and values of an object, and returns the number of new keys, including those of nested objects.
    pub(super) fn observe(&mut self, tape: &Tape, object: u32) -> usize {
        let mut new = 0;
        // If keys come in the same order, `guess` avoids look-ups.
        for (guess, (key, value)) in tape.entries(object).enumerate() {
            let key = tape.text(tape.node(key));
            let position = match self.shapes.get(guess) {
                Some((name, _)) if name == key => guess,
                _ => {
                    let known = self.shapes.len();
                    let position = self.position(key);
                    new += self.shapes.len() - known;
                    position
                }
            };
            if let Some((_, shape)) = self.shapes.get_mut(position) {
                new += shape.observe(tape, value);
            }
        }
        new
    }

    fn position(&mut self, name: &str) -> usize {
        match self.positions.get(name) {
            Some(position) => *position,
            None => {
                let position = self.shapes.len();
                self.positions.insert(name.to_owned(), position);
                self.shapes.push((name.to_owned(), Shape::Unknown));
                position
            }
        }
    }

    /// Merges the observations of other objects.
    pub(super) fn merge(&mut self, other: Self) {
        for (name, shape) in other.shapes {
            let position = self.position(&name);
            if let Some((_, known)) = self.shapes.get_mut(position) {
                *known = std::mem::take(known).join(shape);
            }
        }
    }

    /// Renames the keys; keys that get the same name are joined.
    pub(super) fn renamed(self, rename: impl Fn(&str) -> String) -> Self {
        let mut renamed = Self::default();
        for (name, shape) in self.shapes {
            let position = renamed.position(&rename(&name));
            if let Some((_, known)) = renamed.shapes.get_mut(position) {
                *known = std::mem::take(known).join(shape);
            }
        }
        renamed
    }

    /// Returns the names of the keys.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.shapes.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the columns for the keys; all are text if `text`.
    pub(super) fn fields(&self, text: bool) -> Fields {
        let field = |(name, shape): &(String, Shape)| -> FieldRef {
            let data_type = if text { DataType::Utf8 } else { shape.data_type() };
            Arc::new(Field::new(name, data_type, true))
        };
        self.shapes.iter().map(field).collect()
    }
}

impl Shape {
    /// Records a value, and returns the number of new keys.
    fn observe(&mut self, tape: &Tape, value: u32) -> usize {
        let node = tape.node(value);
        match (&mut *self, node.kind) {
            (_, NodeKind::Null | NodeKind::Column) | (Self::Text, _) => 0,
            (Self::Array(item), NodeKind::Array) => {
                tape.elements(value).map(|element| item.observe(tape, element)).sum()
            }
            (Self::Object(members), NodeKind::Object) => members.observe(tape, value),
            (Self::Unknown, NodeKind::Array) => {
                *self = Self::Array(Box::default());
                self.observe(tape, value)
            }
            (Self::Unknown, NodeKind::Object) => {
                *self = Self::Object(Members::default());
                self.observe(tape, value)
            }
            (shape, _) => {
                *shape = std::mem::take(shape).join(Self::of_scalar(tape, node));
                0
            }
        }
    }

    fn of_scalar(tape: &Tape, node: Node) -> Self {
        match node.kind {
            NodeKind::True | NodeKind::False => Self::Scalar(CellType::Boolean),
            NodeKind::Number => match number_type(tape.text(node)) {
                CellType::Text => Self::Text,
                number => Self::Scalar(number),
            },
            _ => Self::Text,
        }
    }

    /// Returns the type that fits the values of both.
    fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, known) | (known, Self::Unknown) => known,
            (Self::Scalar(left), Self::Scalar(right)) => match left.join(right) {
                CellType::Text => Self::Text,
                joined => Self::Scalar(joined),
            },
            (Self::Array(left), Self::Array(right)) => Self::Array(Box::new(left.join(*right))),
            (Self::Object(mut left), Self::Object(right)) => {
                left.merge(right);
                Self::Object(left)
            }
            _ => Self::Text,
        }
    }

    /// Returns the Arrow type of a column. Only nulls, or objects without keys, become text, which fits all later
    /// values.
    fn data_type(&self) -> DataType {
        match self {
            Self::Unknown | Self::Text => DataType::Utf8,
            Self::Scalar(scalar) => scalar.data_type(),
            Self::Array(item) => DataType::new_list(item.data_type(), true),
            Self::Object(members) if members.shapes.is_empty() => DataType::Utf8,
            Self::Object(members) => DataType::Struct(members.fields(false)),
        }
    }
}

/// Returns the type of a number: a 64-bit integer, a float64, or text if neither fits.
pub(super) fn number_type(text: &str) -> CellType {
    // JSON numbers have no leading zeros, so only the sign of zero needs a check.
    CellType::of(if text == "-0" { "0" } else { text })
}
