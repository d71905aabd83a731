//! Assembles nested columns from their features: [`assemble`].
//!
//! Works level by level, for all rows at once, as the writer did. A level passes to the next the number of elements per
//! row and the elements that are null because an ancestor is. A feature's lengths are used only after all features of
//! the same level agree on them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, MapArray, StructArray, new_null_array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType, FieldRef, Fields};
use tfr_arrow::nested::struct_fields;

use super::mismatch::Mismatch;
use super::nest;
use super::restore::offsets;
use super::steps::Steps;
use super::tensor;
use super::values::DecodedValues;
use crate::feature::FeatureShape;
use crate::mapping::{Conversion, Leaf, Node, NodeKind};
use crate::options::{NullPolicy, NullRule};

/// The values read of one feature.
#[derive(Debug)]
pub(super) struct FeaturePart {
    pub(super) shape: FeatureShape,
    /// For a feature list, the steps of each row. All other code here treats steps as rows.
    pub(super) steps: Option<Steps>,
    /// The values of all rows, concatenated. A row without values has padding of the length of its shape.
    pub(super) values: DecodedValues,
    /// Rows that have the feature.
    pub(super) nulls: Option<NullBuffer>,
    /// The end of each row's values, if their number varies.
    pub(super) ends: Vec<usize>,
}

/// Why features cannot form a column.
#[derive(Debug)]
pub(super) enum Defect {
    /// A row lacks a required feature.
    Missing { feature: usize, row: usize },
    /// The feature is inconsistent with other features of the column in a row.
    Uneven { feature: usize, row: usize, expected: String, found: String },
    /// Its values do not form an array. Elements are rows.
    Mismatch(usize, Mismatch),
    /// An error of Arrow, or of a part without a feature.
    Other(Mismatch),
}

impl Defect {
    /// Converts step positions to rows.
    fn in_rows(self, row_of: impl Fn(usize) -> usize) -> Self {
        match self {
            Self::Missing { feature, row } => Self::Missing { feature, row: row_of(row) },
            Self::Uneven { feature, row, expected, found } => {
                Self::Uneven { feature, row: row_of(row), expected, found }
            }
            Self::Mismatch(feature, Mismatch::Value { element, value }) => {
                Self::Mismatch(feature, Mismatch::Value { element: row_of(element), value })
            }
            other => other,
        }
    }
}

impl From<Mismatch> for Defect {
    fn from(mismatch: Mismatch) -> Self {
        Self::Other(mismatch)
    }
}

/// Assembles the column with the layout `root`. `parts` is indexed by the feature's position in the mapping; `None` if
/// the feature was not read.
pub(super) fn assemble(root: &Node, parts: &mut [Option<FeaturePart>], rows: usize) -> Result<ArrayRef, Defect> {
    Assembler { parts }.node(root, &Level { len: rows, ends: None, nulls: None, in_steps: false })
}

/// How a feature of a column is read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Feature<'a> {
    /// Not read: a null scalar is absent, so its mask is redundant.
    Unread,
    /// Lengths or a mask.
    Numbers {
        empty_is_null: bool,
    },
    Values {
        node: &'a Node,
        leaf: &'a Leaf,
        empty_is_null: bool,
    },
}

/// How each feature of a column with this layout is read.
pub(super) fn features(root: &Node, count: usize) -> Vec<Feature<'_>> {
    /// `empty_is_null`: whether nulls of an ancestor are written as features without values.
    fn add<'a>(node: &'a Node, in_list: bool, empty_is_null: bool, out: &mut [Feature<'a>]) {
        let empty_is_null = empty_is_null || node.nullable && node.nulls.is(NullPolicy::Empty);
        let numbers = Feature::Numbers { empty_is_null };
        if let Some(mask) = node.mask {
            let is_read = in_list || matches!(node.kind, NodeKind::Struct(_) | NodeKind::Items(_));
            out[mask] = if is_read { numbers } else { Feature::Unread };
        }
        match &node.kind {
            NodeKind::Leaf(None) => {}
            NodeKind::Leaf(Some(leaf)) => {
                leaf.lengths.iter().for_each(|lengths| out[*lengths] = numbers);
                out[leaf.values] = Feature::Values { node, leaf, empty_is_null };
            }
            NodeKind::Struct(children) => children.iter().for_each(|child| add(child, in_list, empty_is_null, out)),
            NodeKind::List { item, .. } | NodeKind::Fixed { item, .. } => add(item, true, empty_is_null, out),
            // Every element is an example, in which features are as in a record.
            NodeKind::Items(item) => add(item, false, false, out),
            // Without the list there are no steps.
            NodeKind::Steps(item) => add(item, true, false, out),
        }
    }

    let mut features = vec![Feature::Unread; count];
    add(root, false, false, &mut features);
    features
}

/// The elements of one level.
struct Level {
    len: usize,
    /// The end of each row's elements. `None` outside lists, where every row has one.
    ends: Option<Vec<usize>>,
    /// Elements that are null because an ancestor is.
    nulls: Option<NullBuffer>,
    in_steps: bool,
}

impl Level {
    fn is_rows(&self) -> bool {
        self.ends.is_none()
    }

    fn rows(&self) -> usize {
        self.ends.as_ref().map_or(self.len, Vec::len)
    }

    fn end(&self, row: usize) -> usize {
        self.ends.as_ref().map_or(row + 1, |ends| ends[row])
    }

    fn count(&self, row: usize) -> usize {
        self.end(row) - row.checked_sub(1).map_or(0, |before| self.end(before))
    }

    fn row_of(&self, element: usize) -> usize {
        self.ends.as_ref().map_or(element, |ends| ends.partition_point(|end| *end <= element))
    }

    fn is_null(&self, element: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(element))
    }

    /// The same elements with additional nulls.
    fn with_nulls(&self, nulls: Option<&NullBuffer>) -> Self {
        let nulls = NullBuffer::union(self.nulls.as_ref(), nulls);
        Self { len: self.len, ends: self.ends.clone(), nulls, in_steps: self.in_steps }
    }
}

impl FeaturePart {
    fn is_present(&self, row: usize) -> bool {
        self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
    }

    fn count(&self, row: usize) -> usize {
        match self.shape {
            FeatureShape::Scalar => 1,
            FeatureShape::Fixed(len) => len,
            FeatureShape::List => self.ends[row] - row.checked_sub(1).map_or(0, |before| self.ends[before]),
        }
    }

    /// Whether the feature is present in a row and, if nulls are written as empty lists, has values.
    fn has_values(&self, row: usize) -> bool {
        self.is_present(row) && self.count(row) > 0
    }

    fn int64s(&self) -> &[i64] {
        match &self.values {
            DecodedValues::Int64(values) => values,
            _ => &[],
        }
    }
}

struct Assembler<'a> {
    parts: &'a mut [Option<FeaturePart>],
}

impl Assembler<'_> {
    fn node(&mut self, node: &Node, level: &Level) -> Result<ArrayRef, Defect> {
        let plain = self.plain(node, level)?;
        match &node.packed {
            Some(data_type) => Ok(nest::packed(&plain, data_type)?),
            None => Ok(plain),
        }
    }

    fn plain(&mut self, node: &Node, level: &Level) -> Result<ArrayRef, Defect> {
        match &node.kind {
            NodeKind::Leaf(None) => Ok(new_null_array(&node.data_type, level.len)),
            NodeKind::Leaf(Some(leaf)) => self.leaf(node, leaf, level),
            NodeKind::Struct(children) => {
                let nulls = self.null_structs(node, level)?;
                self.structs(node, children, &level.with_nulls(nulls.as_ref()))
            }
            NodeKind::List { item, level: None } => {
                let (nulls, first) = self.null_lists(node, level)?;
                let counts = (0..level.len).map(|row| match (&nulls, first) {
                    (Some(nulls), _) if nulls.is_null(row) => Ok(0),
                    (_, Some(leaf)) => self.outermost_len(item, leaf, row),
                    (_, None) => Ok(0),
                });
                let mut end = 0;
                let ends = counts.map(|count| {
                    end += count?;
                    Ok(end)
                });
                let ends = ends.collect::<Result<Vec<_>, Defect>>()?;
                let within = Level { len: end, ends: Some(ends.clone()), nulls: None, in_steps: level.in_steps };
                let elements = self.node(item, &within)?;
                let nulls = NullBuffer::union(level.nulls.as_ref(), nulls.as_ref());
                let nulls = NullBuffer::union(nulls.as_ref(), self.mask_in_steps(node, level)?.as_ref());
                Ok(list(&node.data_type, elements, &ends, nulls)?)
            }
            NodeKind::List { item, level: Some(depth) } => {
                let nulls = self.mask(node, level)?;
                let ends = self.row_lengths(node, *depth, level)?;
                let within = (0..level.rows()).map(|row| match level.end(row) {
                    0 => 0,
                    element => ends[element - 1],
                });
                let within = Level {
                    len: ends.last().copied().unwrap_or_default(),
                    ends: Some(within.collect()),
                    nulls: None,
                    in_steps: level.in_steps,
                };
                let elements = self.node(item, &within)?;
                Ok(list(&node.data_type, elements, &ends, NullBuffer::union(level.nulls.as_ref(), nulls.as_ref()))?)
            }
            NodeKind::Steps(item) => {
                let Steps { nulls, ends } = self.steps(node, level)?;
                let len = ends.last().copied().unwrap_or_default();
                let within = Level { len, ends: None, nulls: None, in_steps: true };
                // The caller counts rows, not steps.
                let row_of = |step: usize| ends.partition_point(|end| *end <= step);
                let elements = self.node(item, &within).map_err(|defect| defect.in_rows(row_of))?;
                Ok(list(&node.data_type, elements, &ends, NullBuffer::union(level.nulls.as_ref(), nulls.as_ref()))?)
            }
            NodeKind::Items(item) => {
                let nulls = self.marked_if_any(node, level)?;
                let ends = self.examples(item)?;
                let within =
                    Level { len: ends.last().copied().unwrap_or_default(), ends: None, nulls: None, in_steps: false };
                // The caller counts rows, not examples.
                let row_of = |example: usize| ends.partition_point(|end| *end <= example);
                let elements = self.items(item, &within).map_err(|defect| defect.in_rows(row_of))?;
                Ok(list(&node.data_type, elements, &ends, NullBuffer::union(level.nulls.as_ref(), nulls.as_ref()))?)
            }
            NodeKind::Fixed { item, len } => {
                let nulls = match level.is_rows() {
                    true => {
                        let nulls = self.null_lists(node, level)?.0;
                        NullBuffer::union(nulls.as_ref(), self.mask_in_steps(node, level)?.as_ref())
                    }
                    false => self.mask(node, level)?,
                };
                let nulls = NullBuffer::union(level.nulls.as_ref(), nulls.as_ref());
                // Lengths without values behind them can be arbitrarily large.
                let Some(elements) = level.len.checked_mul(*len) else { return Err(Defect::Other(Mismatch::TooMany)) };
                let within = Level {
                    len: elements,
                    ends: Some((0..level.rows()).map(|row| level.end(row) * len).collect()),
                    nulls: nulls.as_ref().map(|nulls| nulls.expand(*len)),
                    in_steps: level.in_steps,
                };
                let elements = self.node(item, &within)?;
                Ok(list(&node.data_type, elements, &vec![0; level.len], nulls)?)
            }
        }
    }

    /// Assembles structs whose nulls are those of the level.
    fn structs(&mut self, node: &Node, children: &[Node], level: &Level) -> Result<ArrayRef, Defect> {
        let arrays = children.iter().map(|child| self.node(child, level));
        let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
        let fields = struct_fields(&node.data_type).cloned().unwrap_or_else(Fields::empty);
        let array = StructArray::try_new_with_length(fields, arrays, level.nulls.clone(), level.len);
        Ok(Arc::new(array.map_err(Mismatch::Arrow)?))
    }

    /// Assembles the elements of a list of examples. Only a mask makes them null.
    fn items(&mut self, item: &Node, level: &Level) -> Result<ArrayRef, Defect> {
        let NodeKind::Struct(children) = &item.kind else { return Err(Defect::Other(Mismatch::TooMany)) };
        let nulls = self.marked_if_any(item, level)?;
        let plain = self.structs(item, children, &level.with_nulls(nulls.as_ref()))?;
        match &item.packed {
            Some(data_type) => Ok(nest::packed(&plain, data_type)?),
            None => Ok(plain),
        }
    }

    /// The end of each row's examples.
    fn examples(&mut self, item: &Node) -> Result<Vec<usize>, Defect> {
        let mut features = Vec::new();
        item.features(&mut features);
        let steps = features.into_iter().find_map(|feature| self.parts[feature].as_mut()?.steps.take());
        steps.map(|steps| steps.ends).ok_or(Defect::Other(Mismatch::TooMany))
    }

    fn leaf(&mut self, node: &Node, leaf: &Leaf, level: &Level) -> Result<ArrayRef, Defect> {
        let feature = leaf.values;
        let own = if level.is_rows() {
            let part = self.part(feature)?;
            if let Some(nulls) = &part.nulls
                && !node.nullable
                && let Some(row) = (0..level.len).find(|row| nulls.is_null(*row) && !level.is_null(*row))
            {
                return Err(Defect::Missing { feature, row });
            }
            NullBuffer::union(part.nulls.as_ref(), self.mask_in_steps(node, level)?.as_ref())
        } else {
            self.same_count(feature, level)?;
            self.mask(node, level)?
        };
        let nulls = NullBuffer::union(own.as_ref(), level.nulls.as_ref());
        let Some(part) = self.parts[feature].take() else { return Err(Defect::Other(Mismatch::TooMany)) };
        let array = match (&part.values, &leaf.conversion) {
            (DecodedValues::Bytes(tensors), Conversion::Tensor(shape)) => {
                tensor::parse(level.len, |element| tensors.get(element), nulls.as_ref(), &node.data_type, shape)
            }
            _ => nest::elements(part.values, nulls, &leaf.conversion, &node.data_type),
        };
        array.map_err(|mismatch| match mismatch {
            Mismatch::Value { element, value } => {
                Defect::Mismatch(feature, Mismatch::Value { element: level.row_of(element), value })
            }
            other => Defect::Mismatch(feature, other),
        })
    }

    fn part(&self, feature: usize) -> Result<&FeaturePart, Defect> {
        // A part is present until its leaf is built, and is not used after that.
        self.parts[feature].as_ref().ok_or(Defect::Other(Mismatch::TooMany))
    }

    /// Checks that every row has as many values of the feature as elements of the level.
    fn same_count(&self, feature: usize, level: &Level) -> Result<(), Defect> {
        let part = self.part(feature)?;
        let differing = (0..level.rows()).find(|row| part.count(*row) != level.count(*row));
        differing.map_or(Ok(()), |row| Err(uneven(feature, row, level.count(row), part.count(row))))
    }

    /// The null elements by a part's mask.
    fn mask(&self, node: &Node, level: &Level) -> Result<Option<NullBuffer>, Defect> {
        let Some(feature) = node.mask else { return Ok(None) };
        self.same_count(feature, level)?;
        self.flags(feature, level).map(Some)
    }

    fn flags(&self, feature: usize, level: &Level) -> Result<NullBuffer, Defect> {
        let flags = self.part(feature)?.int64s();
        match flags.iter().position(|flag| flag & !1 != 0) {
            Some(element) => {
                let (expected, found) = ("0 for a value or 1 for a null".to_owned(), flags[element].to_string());
                Err(Defect::Uneven { feature, row: level.row_of(element), expected, found })
            }
            None => Ok(BooleanBuffer::collect_bool(flags.len(), |element| flags[element] == 0).into()),
        }
    }

    /// The null steps by the mask. Outside feature lists, missing features mark the nulls.
    fn mask_in_steps(&self, node: &Node, level: &Level) -> Result<Option<NullBuffer>, Defect> {
        if level.in_steps { self.mask(node, level) } else { Ok(None) }
    }

    /// The steps of each row, on which all features must agree.
    fn steps(&mut self, node: &Node, level: &Level) -> Result<Steps, Defect> {
        let mut features = Vec::new();
        node.features(&mut features);
        let mut first: Option<(usize, Steps)> = None;
        for feature in features {
            let steps = self.parts[feature].as_mut().and_then(|part| part.steps.take());
            let steps = steps.ok_or(Defect::Other(Mismatch::TooMany))?;
            let Some((leader, expected)) = &first else {
                first = Some((feature, steps));
                continue;
            };
            let is_present = |steps: &Steps, row| steps.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
            for row in 0..level.len {
                let (here, there) = (is_present(&steps, row), is_present(expected, row));
                if here != there {
                    return Err(partial(if here { *leader } else { feature }, row));
                }
                if steps.ends[row] != expected.ends[row] {
                    let count = |ends: &[usize]| ends[row] - row.checked_sub(1).map_or(0, |before| ends[before]);
                    return Err(uneven(feature, row, count(&expected.ends), count(&steps.ends)));
                }
            }
        }
        let Some((feature, steps)) = first else { return Err(Defect::Other(Mismatch::TooMany)) };
        let missing = |nulls: &NullBuffer| (0..level.len).find(|row| nulls.is_null(*row));
        match steps.nulls.as_ref().filter(|_| !node.nullable).and_then(missing) {
            Some(row) => Err(Defect::Missing { feature, row }),
            None => Ok(steps),
        }
    }

    /// The null structs.
    fn null_structs(&self, node: &Node, level: &Level) -> Result<Option<NullBuffer>, Defect> {
        if level.in_steps || !level.is_rows() {
            return self.mask(node, level);
        }
        if node.mask.is_some() {
            return self.marked(node, level);
        }
        // If no nulls were written, a struct of nulls is not itself null.
        let has_nulls = !matches!(node.nulls, NullRule::Default(_) | NullRule::Policy(NullPolicy::Error));
        if !node.nullable || !has_nulls && !node.kind.is_always_there() {
            return Ok(None);
        }
        let mut leaves = Vec::new();
        node.leaves(&mut leaves);
        let empty_is_null = node.nulls.is(NullPolicy::Empty);
        let features = leaves.iter().flat_map(|leaf| leaf.lengths.iter().chain([&leaf.values]));
        let parts = features.map(|feature| self.part(*feature)).collect::<Result<Vec<_>, _>>()?;
        let is_present =
            |row| parts.iter().any(|part| if empty_is_null { part.has_values(row) } else { part.is_present(row) });
        Ok(Some(BooleanBuffer::collect_bool(level.len, is_present).into()))
    }

    /// The nulls of a part outside lists by its mask, which every row has.
    fn marked(&self, node: &Node, level: &Level) -> Result<Option<NullBuffer>, Defect> {
        let Some(feature) = node.mask else { return Ok(None) };
        let part = self.part(feature)?;
        match (0..level.len).find(|row| !part.is_present(*row) && !level.is_null(*row)) {
            Some(row) => Err(Defect::Missing { feature, row }),
            None => self.flags(feature, level).map(Some),
        }
    }

    /// The nulls among lists of examples, or among examples, by the mask. Without it, one is not null: lists and elements
    /// have masks of their own, and the writer of a column needs only that of the part that is nullable.
    fn marked_if_any(&self, node: &Node, level: &Level) -> Result<Option<NullBuffer>, Defect> {
        node.mask.map(|feature| self.flags(feature, level)).transpose()
    }

    /// The null lists among the outermost lists, and the first leaf. A list has either all of its features or none.
    fn null_lists<'n>(&self, node: &'n Node, level: &Level) -> Result<(Option<NullBuffer>, Option<&'n Leaf>), Defect> {
        let mut features = Vec::new();
        node.features(&mut features);
        let first_leaf = node.first_leaf();
        let Some(leader) = first_leaf.map(leader) else { return Ok((None, None)) };
        let empty_is_null = node.nulls.is(NullPolicy::Empty);
        let nulls = self.part(leader)?.nulls.clone();
        for feature in features {
            let part = self.part(feature)?;
            if part.nulls == nulls {
                continue;
            }
            for row in 0..level.len {
                let (here, there) = (part.is_present(row), self.part(leader)?.is_present(row));
                let is_null = level.is_null(row) || empty_is_null && part.count(row) == 0;
                if here != there && !is_null {
                    return Err(partial(if here { leader } else { feature }, row));
                }
            }
        }
        let missing = |nulls: &NullBuffer| (0..level.len).find(|row| nulls.is_null(*row) && !level.is_null(*row));
        match nulls.as_ref().filter(|_| !node.nullable).and_then(missing) {
            Some(row) => Err(Defect::Missing { feature: leader, row }),
            None => Ok((nulls, first_leaf)),
        }
    }

    /// The length of the outermost list of a row, by its first leaf.
    fn outermost_len(&self, item: &Node, leaf: &Leaf, row: usize) -> Result<usize, Defect> {
        let feature = leader(leaf);
        let count = self.part(feature)?.count(row);
        let width = width(item);
        if width == 0 || count % width != 0 {
            let (expected, found) = (format!("a multiple of {width} values"), count.to_string());
            return Err(Defect::Uneven { feature, row, expected, found });
        }
        Ok(count / width)
    }

    /// The ends of the lists of a level, on which all leaves must agree.
    fn row_lengths(&self, node: &Node, depth: usize, level: &Level) -> Result<Vec<usize>, Defect> {
        let mut leaves = Vec::new();
        node.leaves(&mut leaves);
        let features = leaves.iter().map(|leaf| leaf.lengths[depth]);
        let mut first: Option<&[i64]> = None;
        for feature in features.clone() {
            self.same_count(feature, level)?;
            let lengths = self.part(feature)?.int64s();
            let expected = *first.get_or_insert(lengths);
            if let Some(element) = (0..lengths.len()).find(|element| lengths[*element] != expected[*element]) {
                let expected = format!("a length of {}, as other features have it", expected[element]);
                let (row, found) = (level.row_of(element), lengths[element].to_string());
                return Err(Defect::Uneven { feature, row, expected, found });
            }
        }
        let mut end = 0usize;
        let ends = first.unwrap_or_default().iter().enumerate().map(|(element, len)| {
            match usize::try_from(*len).ok().and_then(|len| end.checked_add(len)) {
                Some(next) => {
                    end = next;
                    Ok(end)
                }
                None => {
                    let feature = features.clone().next().unwrap_or_default();
                    let (expected, found) = ("a length".to_owned(), len.to_string());
                    Err(Defect::Uneven { feature, row: level.row_of(element), expected, found })
                }
            }
        });
        ends.collect()
    }
}

/// The error for an unexpected number of values.
fn uneven(feature: usize, row: usize, expected: usize, found: usize) -> Defect {
    let expected = format!("as many values as the other features of its column have, {expected}");
    Defect::Uneven { feature, row, expected, found: found.to_string() }
}

/// The error for a missing feature while others are present.
fn partial(feature: usize, row: usize) -> Defect {
    let expected = "a list, as its column's other features have one".to_owned();
    Defect::Uneven { feature, row, expected, found: "none".to_owned() }
}

/// The feature that determines the number of elements of a leaf's outermost list.
fn leader(leaf: &Leaf) -> usize {
    leaf.lengths.first().copied().unwrap_or(leaf.values)
}

/// The number of values, or of entries of the next lengths, per element of a list.
fn width(item: &Node) -> usize {
    match &item.kind {
        NodeKind::Fixed { item, len } => len * width(item),
        NodeKind::Struct(children) => children.iter().find(|child| child.first_leaf().is_some()).map_or(1, width),
        NodeKind::Leaf(_) | NodeKind::List { .. } | NodeKind::Steps(_) | NodeKind::Items(_) => 1,
    }
}

/// Builds lists or a map of `data_type`.
fn list(
    data_type: &DataType,
    elements: ArrayRef,
    ends: &[usize],
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, Mismatch> {
    match data_type {
        DataType::Map(entries, is_sorted) => {
            let entry = elements.as_struct().clone();
            let map = MapArray::try_new(FieldRef::clone(entries), offsets(ends)?, entry, nulls, *is_sorted);
            Ok(Arc::new(map?))
        }
        list => nest::lists(list, elements, ends, nulls),
    }
}
