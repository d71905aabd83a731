//! The layout of a nested column in features: a tree with a [`Node`] for every part of its type. The writer splits
//! columns by it, and the reader assembles them by it.
//!
//! Every [`Leaf`] has one feature with all of its values in a row, and one feature of lengths for every list level
//! whose lengths the values do not imply. So each leaf can be read alone, as `tf.io.RaggedFeature` does. With
//! [`Mask`](crate::NullPolicy::Mask) a nullable part has a feature that marks its nulls.

use arrow_schema::DataType;

use super::Conversion;
use crate::error::Result;
use crate::options::{NullPolicy, NullRule};
use crate::writer::default_values;

/// A part of a column's type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    /// Its name: the column's name and the names of the fields on the path to it.
    pub(crate) path: String,
    pub(crate) data_type: DataType,
    /// The dictionary or run-end-encoded type that wraps its nested values.
    pub(crate) packed: Option<DataType>,
    pub(crate) nullable: bool,
    pub(crate) nulls: NullRule,
    /// The feature that marks its nulls, by its position among the features of the column.
    pub(crate) mask: Option<usize>,
    pub(crate) kind: NodeKind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NodeKind {
    /// A leaf; `None` for type Null.
    Leaf(Option<Leaf>),
    Struct(Vec<Node>),
    /// A variable-length list in any of Arrow's layouts, or a map, which is a list of its entries.
    List {
        item: Box<Node>,
        /// The index of its lengths in its leaves' `lengths`. `None` for the outermost list, whose length the number of
        /// values implies.
        level: Option<usize>,
    },
    Fixed {
        item: Box<Node>,
        len: usize,
    },
    /// The outermost list of a column of feature lists. Every element is a step, which its children treat as a row.
    Steps(Box<Node>),
    /// The list of structs whose elements are the examples of a record. Every element is an Example, which the fields of
    /// the struct treat as a record.
    Items(Box<Node>),
}

/// The features of a leaf, by their positions among the features of the column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Leaf {
    pub(crate) values: usize,
    /// Lengths of inner lists, outermost first.
    pub(crate) lengths: Vec<usize>,
    pub(crate) conversion: Conversion,
}

impl Node {
    /// The leaves at or below this part that have features, in the order of the schema.
    pub(crate) fn leaves<'a>(&'a self, out: &mut Vec<&'a Leaf>) {
        match &self.kind {
            NodeKind::Leaf(leaf) => out.extend(leaf),
            NodeKind::Struct(children) => children.iter().for_each(|child| child.leaves(out)),
            NodeKind::List { item, .. } | NodeKind::Fixed { item, .. } => item.leaves(out),
            NodeKind::Steps(item) | NodeKind::Items(item) => item.leaves(out),
        }
    }

    /// The features of this part and of its children.
    pub(crate) fn features(&self, out: &mut Vec<usize>) {
        out.extend(self.mask);
        match &self.kind {
            NodeKind::Leaf(leaf) => {
                out.extend(leaf.iter().flat_map(|leaf| leaf.lengths.iter().chain([&leaf.values])));
            }
            NodeKind::Struct(children) => children.iter().for_each(|child| child.features(out)),
            NodeKind::List { item, .. } | NodeKind::Fixed { item, .. } => item.features(out),
            NodeKind::Steps(item) | NodeKind::Items(item) => item.features(out),
        }
    }

    pub(crate) fn first_leaf(&self) -> Option<&Leaf> {
        match &self.kind {
            NodeKind::Leaf(leaf) => leaf.as_ref(),
            NodeKind::Struct(children) => children.iter().find_map(Self::first_leaf),
            NodeKind::List { item, .. } | NodeKind::Fixed { item, .. } => item.first_leaf(),
            NodeKind::Steps(item) | NodeKind::Items(item) => item.first_leaf(),
        }
    }

    /// Whether every record has a feature of this part unless one of its ancestors is null. The part is not inside a
    /// list.
    fn is_always_there(&self) -> bool {
        !self.nullable && self.kind.is_always_there()
    }

    /// Whether such a feature always has a value.
    fn always_has_values(&self) -> bool {
        !self.nullable && self.kind.always_has_values()
    }

    /// Whether every element has a value or a length, if these are the elements of a list.
    fn elements_have_values(&self) -> bool {
        match &self.kind {
            NodeKind::Struct(children) => children.iter().any(Self::elements_have_values),
            NodeKind::List { .. } => true,
            kind => kind.always_has_values(),
        }
    }

    /// Rejects a default that is not a valid value of every leaf.
    pub(crate) fn has_default(&self, text: &str) -> Result<()> {
        match &self.kind {
            NodeKind::Leaf(None) => Ok(()),
            NodeKind::Leaf(Some(leaf)) => default_values(text, &self.data_type, &leaf.conversion, &self.path).map(drop),
            NodeKind::Struct(children) => children.iter().try_for_each(|child| child.has_default(text)),
            NodeKind::List { item, .. } | NodeKind::Fixed { item, .. } => item.has_default(text),
            NodeKind::Steps(item) | NodeKind::Items(item) => item.has_default(text),
        }
    }

    /// Rejects a default that is not a valid value of any leaf.
    pub(crate) fn some_have_default(&self, text: &str) -> Result<()> {
        match &self.kind {
            NodeKind::Leaf(_) => self.has_default(text),
            NodeKind::Struct(children) => {
                let mut refused = Ok(());
                for child in children {
                    refused = child.some_have_default(text);
                    if refused.is_ok() {
                        break;
                    }
                }
                refused
            }
            NodeKind::List { item, .. } | NodeKind::Fixed { item, .. } => item.some_have_default(text),
            NodeKind::Steps(item) | NodeKind::Items(item) => item.some_have_default(text),
        }
    }

    /// Whether nulls here can be lost, or are written in another way than by omitting the feature.
    pub(crate) fn replaces_nulls(&self) -> bool {
        self.nullable && (matches!(self.nulls, NullRule::Default(_)) || self.nulls.is(NullPolicy::Drop))
    }
}

impl NodeKind {
    /// Whether every record in which the part is not null has a feature of it.
    pub(crate) fn is_always_there(&self) -> bool {
        match self {
            Self::Leaf(leaf) => leaf.is_some(),
            Self::Struct(children) => children.iter().any(Node::is_always_there),
            Self::List { .. } | Self::Fixed { .. } | Self::Steps(_) | Self::Items(_) => true,
        }
    }

    /// Whether there is always a value or a length.
    pub(crate) fn always_has_values(&self) -> bool {
        match self {
            Self::Leaf(leaf) => leaf.is_some(),
            Self::Struct(children) => children.iter().any(Node::always_has_values),
            // The elements exist even if they are null.
            Self::Fixed { item, len } => *len > 0 && item.elements_have_values(),
            Self::List { .. } | Self::Steps(_) | Self::Items(_) => false,
        }
    }
}
