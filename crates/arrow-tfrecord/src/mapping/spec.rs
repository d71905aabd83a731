//! How TensorFlow reads the features of a column: [`ColumnMapping::parse_specs`].

use super::{ColumnMapping, FeatureKind, FeatureMapping, FeatureRole, FeatureShape, Leaf, Node, NodeKind};
use crate::options::{NullPolicy, NullRule};

impl ColumnMapping {
    /// The entries of a `tf.io.parse_example` feature spec that reads the column, as Python: a key, and how it is read.
    /// Row lengths are in the entry of the values that they are of.
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
    /// assert_eq!(mapping.columns()[0].parse_specs(), [(
    ///     "lines".to_owned(),
    ///     "tf.io.RaggedFeature(tf.string, \"lines/ragged_flat_values\", \
    ///      [tf.io.RaggedFeature.RowLengths(\"lines/ragged_row_lengths_0\")])".to_owned(),
    /// )]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn parse_specs(&self) -> Vec<(String, String)> {
        match (&self.layout, self.features.first()) {
            (_, Some(feature)) if feature.role == FeatureRole::Record => Vec::new(),
            (Some(root), _) => {
                let mut specs = Specs { column: self, in_steps: false, specs: Vec::new() };
                specs.add(root, &mut Vec::new(), false);
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
                let may_be_absent = self.nullable && leaves_out(&self.nulls);
                vec![(feature.name.clone(), spec(&feature.name, feature, &dimensions, may_be_absent))]
            }
            (None, None) => Vec::new(),
        }
    }
}

/// Whether a null is a feature without values.
fn leaves_out(nulls: &NullRule) -> bool {
    !matches!(nulls, NullRule::Default(_) | NullRule::Policy(NullPolicy::Error))
}

/// A list around values: of any length, which the values tell; of a fixed one; or by a feature of lengths.
#[derive(Clone)]
enum Step {
    Any,
    Fixed(usize),
    /// By its number among the lengths of a leaf.
    Lengths(usize),
    Named(String),
}

struct Specs<'a> {
    column: &'a ColumnMapping,
    in_steps: bool,
    specs: Vec<(String, String)>,
}

impl Specs<'_> {
    fn add(&mut self, node: &Node, around: &mut Vec<Step>, may_be_absent: bool) {
        let is_row = around.is_empty() && !self.in_steps;
        let may_be_absent = may_be_absent || is_row && node.nullable && leaves_out(&node.nulls);
        if let Some(mask) = node.mask {
            let name = &self.column.features[mask].name;
            // A scalar mask is there where its value is not.
            let may_be_absent = may_be_absent && (self.in_steps || !around.is_empty());
            self.entry(name.clone(), mask, node.first_leaf(), around, may_be_absent);
        }
        match &node.kind {
            NodeKind::Leaf(None) => {}
            NodeKind::Leaf(Some(leaf)) => {
                let name = &self.column.features[leaf.values].name;
                let key = if leaf.lengths.is_empty() { name } else { &node.path };
                self.entry(key.clone(), leaf.values, Some(leaf), around, may_be_absent);
            }
            NodeKind::Struct(children) => {
                children.iter().for_each(|child| self.add(child, around, may_be_absent));
            }
            NodeKind::List { item, level } => {
                around.push(level.map_or(Step::Any, Step::Lengths));
                self.add(item, around, may_be_absent);
                around.pop();
            }
            NodeKind::Steps(item) => {
                self.in_steps = true;
                self.add(item, around, may_be_absent);
            }
            NodeKind::Fixed { item, len } => {
                around.push(Step::Fixed(*len));
                self.add(item, around, may_be_absent);
                around.pop();
            }
        }
    }

    fn entry(&mut self, key: String, feature: usize, leaf: Option<&Leaf>, around: &[Step], may_be_absent: bool) {
        let named = |step: &Step| match step {
            Step::Lengths(level) => {
                let lengths = leaf.and_then(|leaf| leaf.lengths.get(*level));
                Step::Named(lengths.map(|lengths| self.column.features[*lengths].name.clone()).unwrap_or_default())
            }
            other => other.clone(),
        };
        let steps: Vec<_> = around.iter().map(named).collect();
        let mapping = &self.column.features[feature];
        let spec = spec(&key, mapping, &steps, may_be_absent);
        self.specs.push((key, spec));
    }
}

fn spec(key: &str, feature: &FeatureMapping, around: &[Step], may_be_absent: bool) -> String {
    let name = &feature.name;
    let dtype = match feature.kind {
        FeatureKind::Bytes => "tf.string",
        FeatureKind::Float => "tf.float32",
        FeatureKind::Int64 => "tf.int64",
    };
    let fixed: Option<Vec<_>> = around
        .iter()
        .map(|step| match step {
            Step::Fixed(len) => Some(len.to_string()),
            _ => None,
        })
        .collect();
    match fixed {
        Some(lengths) if feature.in_steps => {
            let allow_missing = if may_be_absent { ", allow_missing=True" } else { "" };
            format!("tf.io.FixedLenSequenceFeature([{}], {dtype}{allow_missing})", lengths.join(", "))
        }
        Some(lengths) if !may_be_absent => format!("tf.io.FixedLenFeature([{}], {dtype})", lengths.join(", ")),
        Some(lengths) if lengths.is_empty() => format!("tf.io.VarLenFeature({dtype})"),
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
            match (partitions.is_empty(), key == name.as_str()) {
                (true, true) => format!("tf.io.RaggedFeature({dtype})"),
                (true, false) => format!("tf.io.RaggedFeature({dtype}, {name:?})"),
                (false, _) => format!("tf.io.RaggedFeature({dtype}, {name:?}, [{}])", partitions.join(", ")),
            }
        }
    }
}
