//! The `tf.io.parse_example` feature specs of a column: [`ColumnMapping::parse_specs`].

use std::fmt;

use super::{ColumnMapping, Leaf, Node, NodeKind};
use crate::feature::{FeatureKind, FeatureMapping, FeatureRole, FeatureShape};
use crate::options::{NullPolicy, NullRule};

/// How TensorFlow reads a feature. Displayed as a Python expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseSpec {
    /// The kind of its values.
    pub kind: FeatureKind,
    /// The class of the spec, with its arguments.
    pub read_as: ReadAs,
}

/// The classes of feature specs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadAs {
    /// `tf.io.FixedLenFeature`: a tensor of this shape.
    FixedLen {
        /// The shape.
        shape: Vec<usize>,
    },
    /// `tf.io.FixedLenSequenceFeature`: any number of steps of this shape.
    FixedLenSequence {
        /// The shape of a step.
        shape: Vec<usize>,
        /// Whether the feature list may be absent.
        allow_missing: bool,
    },
    /// `tf.io.VarLenFeature`: a sparse tensor.
    VarLen,
    /// `tf.io.RaggedFeature`: a ragged tensor.
    Ragged {
        /// The arguments after the type, in Python: the feature of the values, and the partitions of the rows.
        arguments: String,
    },
}

impl fmt::Display for ParseSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dtype = self.kind.dtype();
        match &self.read_as {
            ReadAs::FixedLen { shape } => write!(f, "tf.io.FixedLenFeature({shape:?}, {dtype})"),
            ReadAs::FixedLenSequence { shape, allow_missing } => {
                let allow_missing = if *allow_missing { ", allow_missing=True" } else { "" };
                write!(f, "tf.io.FixedLenSequenceFeature({shape:?}, {dtype}{allow_missing})")
            }
            ReadAs::VarLen => write!(f, "tf.io.VarLenFeature({dtype})"),
            ReadAs::Ragged { arguments } => write!(f, "tf.io.RaggedFeature({dtype}{arguments})"),
        }
    }
}

impl ColumnMapping {
    /// Returns the entries of a `tf.io.parse_example` feature spec that reads the column: a key, and how it is read.
    /// Row lengths are part of the entry of their values.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arrow_schema::{DataType, Field, Schema};
    /// use arrow_tfrecord::{Mapping, MappingOptions};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let words = DataType::new_list(DataType::Utf8, false);
    /// let schema = Schema::new(vec![Field::new("lines", DataType::new_list(words, false), false)]);
    /// let mapping = Mapping::try_new(&Arc::new(schema), &MappingOptions::default())?;
    /// let [(key, spec)] = &mapping.columns()[0].parse_specs()[..] else { panic!("one entry") };
    /// assert_eq!(key, "lines");
    /// assert_eq!(
    ///     spec.to_string(),
    ///     "tf.io.RaggedFeature(tf.string, \"lines/ragged_flat_values\", \
    ///      [tf.io.RaggedFeature.RowLengths(\"lines/ragged_row_lengths_0\")])"
    /// );
    /// # Ok(())
    /// # }
    /// ```
    pub fn parse_specs(&self) -> Vec<(String, ParseSpec)> {
        match (&self.layout, self.features.first()) {
            (_, Some(feature)) if feature.role == FeatureRole::Record => Vec::new(),
            (Some(root), _) => {
                let mut specs = Specs { column: self, in_steps: false, specs: Vec::new() };
                specs.add(root, &mut Vec::new(), Missing::default());
                specs.specs
            }
            (None, Some(feature)) => {
                let dimensions = match feature.shape {
                    FeatureShape::Scalar => vec![],
                    FeatureShape::Fixed(len) => match &self.tensor_shape {
                        Some(shape) => shape.iter().copied().map(Step::Fixed).collect(),
                        None => vec![Step::Fixed(len)],
                    },
                    FeatureShape::List => vec![Step::Any],
                };
                let missing = Missing { feature: self.nullable && leaves_out(&self.nulls), step: false };
                vec![(feature.name.clone(), spec(&feature.name, feature, &dimensions, missing))]
            }
            (None, None) => Vec::new(),
        }
    }

    /// Returns the null rules that apply to a feature: those of its part of the column and of the nullable parts that
    /// contain it, outermost first.
    pub fn nulls_of(&self, feature: &str) -> Vec<&NullRule> {
        fn add<'a>(node: &'a Node, feature: usize, rules: &mut Vec<&'a NullRule>) {
            let mut features = Vec::new();
            node.features(&mut features);
            if !features.contains(&feature) {
                return;
            }
            if node.nullable {
                rules.push(&node.nulls);
            }
            match &node.kind {
                NodeKind::Leaf(_) => {}
                NodeKind::Struct(children) => children.iter().for_each(|child| add(child, feature, rules)),
                NodeKind::List { item, .. } | NodeKind::Fixed { item, .. } => add(item, feature, rules),
                NodeKind::Steps(item) | NodeKind::Items(item) => add(item, feature, rules),
            }
        }

        let mut rules = Vec::new();
        match (&self.layout, self.features.iter().position(|known| known.name == feature)) {
            (Some(root), Some(feature)) => add(root, feature, &mut rules),
            (None, Some(_)) if self.nullable => rules.push(&self.nulls),
            _ => {}
        }
        rules
    }
}

/// Whether a null is written as a feature without values.
fn leaves_out(nulls: &NullRule) -> bool {
    !matches!(nulls, NullRule::Default(_) | NullRule::Policy(NullPolicy::Error))
}

/// Whether a null step is written as a feature without values. Steps of a feature list always exist.
fn is_left_empty(nulls: &NullRule) -> bool {
    matches!(nulls, NullRule::Policy(NullPolicy::Unset | NullPolicy::Empty))
}

/// What may be missing because of a null.
#[derive(Debug, Clone, Copy, Default)]
struct Missing {
    /// The feature or its values, or the whole feature list.
    feature: bool,
    /// The values of a step of a feature list.
    step: bool,
}

/// A list dimension around values.
#[derive(Clone)]
enum Step {
    Any,
    Fixed(usize),
    /// Lengths by index in [`Leaf::lengths`].
    Lengths(usize),
    Named(String),
}

struct Specs<'a> {
    column: &'a ColumnMapping,
    in_steps: bool,
    specs: Vec<(String, ParseSpec)>,
}

impl Specs<'_> {
    fn add(&mut self, node: &Node, around: &mut Vec<Step>, missing: Missing) {
        // A null inside a list does not make the feature missing.
        let is_missing = around.is_empty() && node.nullable && leaves_out(&node.nulls);
        let missing = match self.in_steps {
            false => Missing { feature: missing.feature || is_missing, ..missing },
            true => Missing { step: missing.step || is_missing && is_left_empty(&node.nulls), ..missing },
        };
        if let Some(mask) = node.mask {
            let name = &self.column.features[mask].name;
            // A scalar mask exists where its value does not.
            let feature = missing.feature && (self.in_steps || !around.is_empty());
            self.entry(name.clone(), mask, node.first_leaf(), around, Missing { feature, ..missing });
        }
        match &node.kind {
            NodeKind::Leaf(None) => {}
            NodeKind::Leaf(Some(leaf)) => {
                let name = &self.column.features[leaf.values].name;
                let key = if leaf.lengths.is_empty() { name } else { &node.path };
                self.entry(key.clone(), leaf.values, Some(leaf), around, missing);
            }
            NodeKind::Struct(children) => {
                children.iter().for_each(|child| self.add(child, around, missing));
            }
            NodeKind::List { item, level } => {
                around.push(level.map_or(Step::Any, Step::Lengths));
                self.add(item, around, missing);
                around.pop();
            }
            NodeKind::Steps(item) => {
                self.in_steps = true;
                self.add(item, around, missing);
            }
            NodeKind::Items(item) => {
                if let Some(mask) = item.mask {
                    let name = &self.column.features[mask].name;
                    self.entry(name.clone(), mask, item.first_leaf(), around, Missing::default());
                }
                // An example lacks the features of a null element, but a null list has no examples.
                let missing = Missing { feature: item.mask.is_some(), step: false };
                if let NodeKind::Struct(children) = &item.kind {
                    children.iter().for_each(|child| self.add(child, around, missing));
                }
            }
            NodeKind::Fixed { item, len } => {
                around.push(Step::Fixed(*len));
                self.add(item, around, missing);
                around.pop();
            }
        }
    }

    fn entry(&mut self, key: String, feature: usize, leaf: Option<&Leaf>, around: &[Step], missing: Missing) {
        let named = |step: &Step| match step {
            Step::Lengths(level) => {
                let lengths = leaf.and_then(|leaf| leaf.lengths.get(*level));
                Step::Named(lengths.map(|lengths| self.column.features[*lengths].name.clone()).unwrap_or_default())
            }
            other => other.clone(),
        };
        let steps: Vec<_> = around.iter().map(named).collect();
        let mapping = &self.column.features[feature];
        let spec = spec(&key, mapping, &steps, missing);
        self.specs.push((key, spec));
    }
}

fn spec(key: &str, feature: &FeatureMapping, around: &[Step], missing: Missing) -> ParseSpec {
    let name = &feature.name;
    let fixed: Option<Vec<_>> = around
        .iter()
        .map(|step| match step {
            Step::Fixed(len) => Some(*len),
            _ => None,
        })
        .collect();
    let read_as = match fixed {
        Some(shape) if feature.in_steps && !missing.step => {
            ReadAs::FixedLenSequence { shape, allow_missing: missing.feature }
        }
        Some(shape) if !feature.in_steps && !missing.feature => ReadAs::FixedLen { shape },
        Some(shape) if !feature.in_steps && shape.is_empty() => ReadAs::VarLen,
        _ => {
            let partitions: Vec<_> = around
                .iter()
                .skip(1)
                .map(|step| match step {
                    Step::Fixed(len) => format!("tf.io.RaggedFeature.UniformRowLength({len})"),
                    Step::Named(lengths) => format!("tf.io.RaggedFeature.RowLengths({lengths:?})"),
                    // Only the outermost list.
                    Step::Any | Step::Lengths(_) => String::new(),
                })
                .collect();
            let arguments = match (partitions.is_empty(), key == name.as_str()) {
                (true, true) => String::new(),
                (true, false) => format!(", {name:?}"),
                (false, _) => format!(", {name:?}, [{}]", partitions.join(", ")),
            };
            ReadAs::Ragged { arguments }
        }
    };
    ParseSpec { kind: feature.kind, read_as }
}
