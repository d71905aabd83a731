//! How a column is taken apart into features, and put together again: a [`Node`] for every part of its type.
//!
//! Every [`Leaf`] of the type has a feature with all of its values in one row, and one for the lengths of every level of
//! lists that those do not tell by themselves. So a leaf has all that it takes to be read alone, as `tf.io.RaggedFeature`
//! does. With [`Mask`](crate::NullPolicy::Mask) a part that may be null has a feature that says where it is.

use arrow_schema::DataType;

use super::Conversion;
use crate::error::Result;
use crate::options::{NullPolicy, NullRule};
use crate::writer::default_values;

/// A part of a column's type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    /// Its name: the column's, and those of the fields that lead to it.
    pub(crate) path: String,
    pub(crate) data_type: DataType,
    /// The dictionary or the runs in which its nested values are.
    pub(crate) packed: Option<DataType>,
    pub(crate) nullable: bool,
    pub(crate) nulls: NullRule,
    /// The feature that says where it is null, by its position among the features of the column.
    pub(crate) mask: Option<usize>,
    pub(crate) kind: NodeKind,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NodeKind {
    /// None of the type Null.
    Leaf(Option<Leaf>),
    Struct(Vec<Node>),
    /// A list of any length, in any of Arrow's layouts, or a map: a list of its entries.
    List {
        item: Box<Node>,
        /// Which of its leaves' `lengths` are its own. None for the outermost list, whose length the values tell.
        level: Option<usize>,
    },
    Fixed {
        item: Box<Node>,
        len: usize,
    },
    /// The outermost list of a column of feature lists: every element is a step, and to what is in it as a row is to
    /// other columns.
    Steps(Box<Node>),
}

/// Where the values of a leaf are, by positions among the features of the column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Leaf {
    pub(crate) values: usize,
    /// Lengths of inner lists, from the outside in.
    pub(crate) lengths: Vec<usize>,
    pub(crate) conversion: Conversion,
}

impl Node {
    /// The leaves at or below this part that have features, in the order of the schema.
    pub(crate) fn leaves<'a>(&'a self, out: &mut Vec<&'a Leaf>) {
        match &self.kind {
            NodeKind::Leaf(leaf) => out.extend(leaf),
            NodeKind::Struct(children) => children.iter().for_each(|child| child.leaves(out)),
            NodeKind::List { item, .. } | NodeKind::Fixed { item, .. } | NodeKind::Steps(item) => item.leaves(out),
        }
    }

    /// The features of this part and of what is in it.
    pub(crate) fn features(&self, out: &mut Vec<usize>) {
        out.extend(self.mask);
        match &self.kind {
            NodeKind::Leaf(leaf) => {
                out.extend(leaf.iter().flat_map(|leaf| leaf.lengths.iter().chain([&leaf.values])));
            }
            NodeKind::Struct(children) => children.iter().for_each(|child| child.features(out)),
            NodeKind::List { item, .. } | NodeKind::Fixed { item, .. } | NodeKind::Steps(item) => item.features(out),
        }
    }

    /// The first of the leaves.
    pub(crate) fn first_leaf(&self) -> Option<&Leaf> {
        match &self.kind {
            NodeKind::Leaf(leaf) => leaf.as_ref(),
            NodeKind::Struct(children) => children.iter().find_map(Self::first_leaf),
            NodeKind::List { item, .. } | NodeKind::Fixed { item, .. } | NodeKind::Steps(item) => item.first_leaf(),
        }
    }

    /// Whether something of this part, which stands in no list, is there in every record in which what is around it is
    /// not null.
    fn is_always_there(&self) -> bool {
        !self.nullable && self.kind.is_always_there()
    }

    /// Whether there is always a value, too.
    fn always_has_values(&self) -> bool {
        !self.nullable && self.kind.always_has_values()
    }

    /// Whether every element has a value or a length of its own, if this is what the elements of a list are.
    fn elements_have_values(&self) -> bool {
        match &self.kind {
            NodeKind::Struct(children) => children.iter().any(Self::elements_have_values),
            NodeKind::List { .. } => true,
            kind => kind.always_has_values(),
        }
    }

    /// Refuses a text in place of nulls that is no value of one of the leaves.
    pub(crate) fn has_default(&self, text: &str) -> Result<()> {
        match &self.kind {
            NodeKind::Leaf(None) => Ok(()),
            NodeKind::Leaf(Some(leaf)) => default_values(text, &self.data_type, &leaf.conversion, &self.path).map(drop),
            NodeKind::Struct(children) => children.iter().try_for_each(|child| child.has_default(text)),
            NodeKind::List { item, .. } | NodeKind::Fixed { item, .. } | NodeKind::Steps(item) => {
                item.has_default(text)
            }
        }
    }

    /// Refuses one that is no value of any.
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
            NodeKind::List { item, .. } | NodeKind::Fixed { item, .. } | NodeKind::Steps(item) => {
                item.some_have_default(text)
            }
        }
    }

    /// Whether a null can be lost or has to be written here by other means than leaving the feature out.
    pub(crate) fn replaces_nulls(&self) -> bool {
        self.nullable && (matches!(self.nulls, NullRule::Default(_)) || self.nulls.is(NullPolicy::Drop))
    }
}

impl NodeKind {
    /// Whether something is there in every record in which the part is not null.
    pub(crate) fn is_always_there(&self) -> bool {
        match self {
            Self::Leaf(leaf) => leaf.is_some(),
            Self::Struct(children) => children.iter().any(Node::is_always_there),
            Self::List { .. } | Self::Fixed { .. } | Self::Steps(_) => true,
        }
    }

    /// Whether there is always a value, or a length.
    pub(crate) fn always_has_values(&self) -> bool {
        match self {
            Self::Leaf(leaf) => leaf.is_some(),
            Self::Struct(children) => children.iter().any(Node::always_has_values),
            // The elements are there even if they are null.
            Self::Fixed { item, len } => *len > 0 && item.elements_have_values(),
            Self::List { .. } | Self::Steps(_) => false,
        }
    }
}
