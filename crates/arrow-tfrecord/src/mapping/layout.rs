//! How a column is taken apart into features, and put together again: a [`Node`] for every part of its type.
//!
//! Every [`Leaf`] of the type has a feature with all of its values in one row, and one for the lengths of every level of
//! lists that those do not tell by themselves. So a leaf has all that it takes to be read alone, as `tf.io.RaggedFeature`
//! does. With [`Mask`](crate::NullPolicy::Mask) a part that may be null has a feature that says where it is.

use arrow_schema::DataType;

use super::Conversion;
use crate::options::{NullPolicy, NullRule};

/// A part of a column's type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    /// Its name: the column's, and those of the fields that lead to it.
    pub(crate) path: String,
    pub(crate) data_type: DataType,
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

    /// Whether something in this part, which stands in no list, is there in every record in which what is around it
    /// is not null.
    pub(crate) fn is_always_there(&self) -> bool {
        !self.nullable
            && match &self.kind {
                NodeKind::Leaf(leaf) => leaf.is_some(),
                NodeKind::Struct(children) => children.iter().any(Self::is_always_there),
                NodeKind::List { .. } | NodeKind::Fixed { .. } | NodeKind::Steps(_) => true,
            }
    }

    /// Whether a null can be lost or has to be written here by other means than leaving the feature out.
    pub(crate) fn replaces_nulls(&self) -> bool {
        self.nullable && (matches!(self.nulls, NullRule::Default(_)) || self.nulls.is(NullPolicy::Drop))
    }
}
