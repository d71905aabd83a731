//! Nested columns put together of their features: [`assemble`].
//!
//! Level by level, for all rows at once, as they were taken apart: what a level hands to the next is how many elements
//! each row has there, and which of them are null because of what is around them. Nothing that a feature says is
//! believed before all features around it have said the same.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, MapArray, NullArray, StructArray};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType, FieldRef, Fields};

use super::misfit::Misfit;
use super::nest;
use super::restore::offsets;
use super::steps::Steps;
use super::tensor;
use super::values::Values;
use crate::feature::FeatureShape;
use crate::mapping::{Conversion, Leaf, Node, NodeKind};
use crate::options::{NullPolicy, NullRule};

/// What was read of one feature.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) shape: FeatureShape,
    /// If it is a feature list, which of its steps are those of which rows. To all else here, the steps are rows.
    pub(super) steps: Option<Steps>,
    /// Of all rows, one behind the other; where a row has none, as many as its shape has.
    pub(super) values: Values,
    /// Rows that have the feature.
    pub(super) nulls: Option<NullBuffer>,
    /// Where each row's values end, if the number may differ.
    pub(super) ends: Vec<usize>,
}

/// Why features make no column.
#[derive(Debug)]
pub(super) enum Flaw {
    /// A row does not have this feature, and should.
    Missing { feature: usize, row: usize },
    /// It is not, in a row, what other features of the column make of it.
    Uneven { feature: usize, row: usize, expected: String, found: String },
    /// Values of it are no array. An element is a row.
    Misfit(usize, Misfit),
    /// What Arrow or a part without a feature says.
    Other(Misfit),
}

impl Flaw {
    /// The same with rows where steps were taken for them.
    fn in_rows(self, row_of: impl Fn(usize) -> usize) -> Self {
        match self {
            Self::Missing { feature, row } => Self::Missing { feature, row: row_of(row) },
            Self::Uneven { feature, row, expected, found } => {
                Self::Uneven { feature, row: row_of(row), expected, found }
            }
            Self::Misfit(feature, Misfit::Value { element, value }) => {
                Self::Misfit(feature, Misfit::Value { element: row_of(element), value })
            }
            other => other,
        }
    }
}

impl From<Misfit> for Flaw {
    fn from(misfit: Misfit) -> Self {
        Self::Other(misfit)
    }
}

/// The column with the layout `root`, of as many rows. Parts are by the feature's position in the mapping; those that
/// were not read are none.
pub(super) fn assemble(root: &Node, parts: &mut [Option<Part>], rows: usize) -> Result<ArrayRef, Flaw> {
    Assembler { parts }.node(root, &Level { len: rows, ends: None, nulls: None, in_steps: false })
}

/// What a feature of a column is read as.
#[derive(Debug, Clone, Copy)]
pub(super) enum Feature<'a> {
    /// Not at all: a scalar that is null is not there, whatever its mask says.
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

/// What each of the features of a column with this layout is read as.
pub(super) fn features(root: &Node, count: usize) -> Vec<Feature<'_>> {
    /// `empty_is_null`: whether something around is written as features without values where it is null.
    fn add<'a>(node: &'a Node, in_list: bool, empty_is_null: bool, out: &mut [Feature<'a>]) {
        let empty_is_null = empty_is_null || node.nullable && node.nulls.is(NullPolicy::Empty);
        let numbers = Feature::Numbers { empty_is_null };
        if let Some(mask) = node.mask {
            let is_read = in_list || matches!(node.kind, NodeKind::Struct(_));
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
    /// Where each row's elements end. Without lists around, every row has one.
    ends: Option<Vec<usize>>,
    /// Elements that are null because what is around them is.
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

    /// The same elements, some more of which are null.
    fn with_nulls(&self, nulls: Option<&NullBuffer>) -> Self {
        let nulls = NullBuffer::union(self.nulls.as_ref(), nulls);
        Self { len: self.len, ends: self.ends.clone(), nulls, in_steps: self.in_steps }
    }
}

impl Part {
    fn is_there(&self, row: usize) -> bool {
        self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
    }

    fn count(&self, row: usize) -> usize {
        match self.shape {
            FeatureShape::Scalar => 1,
            FeatureShape::Fixed(len) => len,
            FeatureShape::List => self.ends[row] - row.checked_sub(1).map_or(0, |before| self.ends[before]),
        }
    }

    /// Whether it is there and says something, where nulls are written as empty lists.
    fn has_values(&self, row: usize) -> bool {
        self.is_there(row) && self.count(row) > 0
    }

    fn int64s(&self) -> &[i64] {
        match &self.values {
            Values::Int64(values) => values,
            _ => &[],
        }
    }
}

struct Assembler<'a> {
    parts: &'a mut [Option<Part>],
}

impl Assembler<'_> {
    fn node(&mut self, node: &Node, level: &Level) -> Result<ArrayRef, Flaw> {
        let plain = self.plain(node, level)?;
        match &node.packed {
            Some(data_type) => Ok(nest::packed(&plain, data_type)?),
            None => Ok(plain),
        }
    }

    fn plain(&mut self, node: &Node, level: &Level) -> Result<ArrayRef, Flaw> {
        match &node.kind {
            NodeKind::Leaf(None) => Ok(Arc::new(NullArray::new(level.len))),
            NodeKind::Leaf(Some(leaf)) => self.leaf(node, leaf, level),
            NodeKind::Struct(children) => {
                let nulls = self.null_structs(node, level)?;
                let within = level.with_nulls(nulls.as_ref());
                let arrays = children.iter().map(|child| self.node(child, &within));
                let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
                let fields = match &node.data_type {
                    DataType::Struct(fields) => fields.clone(),
                    _ => Fields::empty(),
                };
                let array = StructArray::try_new_with_length(fields, arrays, within.nulls, level.len);
                Ok(Arc::new(array.map_err(Misfit::Arrow)?))
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
                let ends = ends.collect::<Result<Vec<_>, Flaw>>()?;
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
                // To whoever asks, a step is what its row is.
                let row_of = |step: usize| ends.partition_point(|end| *end <= step);
                let elements = self.node(item, &within).map_err(|flaw| flaw.in_rows(row_of))?;
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
                // Lengths that no value stands behind may say anything.
                let Some(elements) = level.len.checked_mul(*len) else { return Err(Flaw::Other(Misfit::TooMany)) };
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

    fn leaf(&mut self, node: &Node, leaf: &Leaf, level: &Level) -> Result<ArrayRef, Flaw> {
        let feature = leaf.values;
        let own = if level.is_rows() {
            let part = self.part(feature)?;
            if let Some(nulls) = &part.nulls
                && !node.nullable
                && let Some(row) = (0..level.len).find(|row| nulls.is_null(*row) && !level.is_null(*row))
            {
                return Err(Flaw::Missing { feature, row });
            }
            NullBuffer::union(part.nulls.as_ref(), self.mask_in_steps(node, level)?.as_ref())
        } else {
            self.same_count(feature, level)?;
            self.mask(node, level)?
        };
        let nulls = NullBuffer::union(own.as_ref(), level.nulls.as_ref());
        let Some(part) = self.parts[feature].take() else { return Err(Flaw::Other(Misfit::TooMany)) };
        let array = match (&part.values, &leaf.conversion) {
            (Values::Bytes(tensors), Conversion::Tensor(shape)) => {
                tensor::parse(level.len, |element| tensors.get(element), nulls.as_ref(), &node.data_type, shape)
            }
            _ => nest::elements(part.values, nulls, &leaf.conversion, &node.data_type),
        };
        array.map_err(|misfit| match misfit {
            Misfit::Value { element, value } => {
                Flaw::Misfit(feature, Misfit::Value { element: level.row_of(element), value })
            }
            other => Flaw::Misfit(feature, other),
        })
    }

    fn part(&self, feature: usize) -> Result<&Part, Flaw> {
        // A part is there until its leaf has been made, which nothing comes after.
        self.parts[feature].as_ref().ok_or(Flaw::Other(Misfit::TooMany))
    }

    /// Every row has as many values of the feature as the level has elements.
    fn same_count(&self, feature: usize, level: &Level) -> Result<(), Flaw> {
        let part = self.part(feature)?;
        let differing = (0..level.rows()).find(|row| part.count(*row) != level.count(*row));
        differing.map_or(Ok(()), |row| Err(uneven(feature, row, level.count(row), part.count(row))))
    }

    /// The elements that a part's mask says are null.
    fn mask(&self, node: &Node, level: &Level) -> Result<Option<NullBuffer>, Flaw> {
        let Some(feature) = node.mask else { return Ok(None) };
        self.same_count(feature, level)?;
        self.flags(feature, level).map(Some)
    }

    fn flags(&self, feature: usize, level: &Level) -> Result<NullBuffer, Flaw> {
        let flags = self.part(feature)?.int64s();
        match flags.iter().position(|flag| flag & !1 != 0) {
            Some(element) => {
                let (expected, found) = ("0 for a value or 1 for a null".to_owned(), flags[element].to_string());
                Err(Flaw::Uneven { feature, row: level.row_of(element), expected, found })
            }
            None => Ok(BooleanBuffer::collect_bool(flags.len(), |element| flags[element] == 0).into()),
        }
    }

    /// The same where a step could be told to be null by what it is without values, too.
    fn mask_in_steps(&self, node: &Node, level: &Level) -> Result<Option<NullBuffer>, Flaw> {
        if level.in_steps { self.mask(node, level) } else { Ok(None) }
    }

    /// The steps of each row, as every feature has them.
    fn steps(&mut self, node: &Node, level: &Level) -> Result<Steps, Flaw> {
        let mut features = Vec::new();
        node.features(&mut features);
        let mut first: Option<(usize, Steps)> = None;
        for feature in features {
            let steps = self.parts[feature].as_mut().and_then(|part| part.steps.take());
            let steps = steps.ok_or(Flaw::Other(Misfit::TooMany))?;
            let Some((leader, expected)) = &first else {
                first = Some((feature, steps));
                continue;
            };
            let is_there = |steps: &Steps, row| steps.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
            for row in 0..level.len {
                let (here, there) = (is_there(&steps, row), is_there(expected, row));
                if here != there {
                    return Err(partial(if here { *leader } else { feature }, row));
                }
                if steps.ends[row] != expected.ends[row] {
                    let count = |ends: &[usize]| ends[row] - row.checked_sub(1).map_or(0, |before| ends[before]);
                    return Err(uneven(feature, row, count(&expected.ends), count(&steps.ends)));
                }
            }
        }
        let Some((feature, steps)) = first else { return Err(Flaw::Other(Misfit::TooMany)) };
        let missing = |nulls: &NullBuffer| (0..level.len).find(|row| nulls.is_null(*row));
        match steps.nulls.as_ref().filter(|_| !node.nullable).and_then(missing) {
            Some(row) => Err(Flaw::Missing { feature, row }),
            None => Ok(steps),
        }
    }

    /// The null ones of structs.
    fn null_structs(&self, node: &Node, level: &Level) -> Result<Option<NullBuffer>, Flaw> {
        if level.in_steps || !level.is_rows() {
            return self.mask(node, level);
        }
        if let Some(feature) = node.mask {
            let part = self.part(feature)?;
            return match (0..level.len).find(|row| !part.is_there(*row) && !level.is_null(*row)) {
                Some(row) => Err(Flaw::Missing { feature, row }),
                None => self.flags(feature, level).map(Some),
            };
        }
        // Where no null was written, a struct of nulls is one.
        let has_nulls = !matches!(node.nulls, NullRule::Default(_) | NullRule::Policy(NullPolicy::Error));
        if !node.nullable || !has_nulls && !node.kind.is_always_there() {
            return Ok(None);
        }
        let mut leaves = Vec::new();
        node.leaves(&mut leaves);
        let empty_is_null = node.nulls.is(NullPolicy::Empty);
        let features = leaves.iter().flat_map(|leaf| leaf.lengths.iter().chain([&leaf.values]));
        let parts = features.map(|feature| self.part(*feature)).collect::<Result<Vec<_>, _>>()?;
        let is_there =
            |row| parts.iter().any(|part| if empty_is_null { part.has_values(row) } else { part.is_there(row) });
        Ok(Some(BooleanBuffer::collect_bool(level.len, is_there).into()))
    }

    /// The null ones of lists without lists around: all of their features are there, or none is. And the first leaf.
    fn null_lists<'n>(&self, node: &'n Node, level: &Level) -> Result<(Option<NullBuffer>, Option<&'n Leaf>), Flaw> {
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
                let (here, there) = (part.is_there(row), self.part(leader)?.is_there(row));
                let is_null = level.is_null(row) || empty_is_null && part.count(row) == 0;
                if here != there && !is_null {
                    return Err(partial(if here { leader } else { feature }, row));
                }
            }
        }
        let missing = |nulls: &NullBuffer| (0..level.len).find(|row| nulls.is_null(*row) && !level.is_null(*row));
        match nulls.as_ref().filter(|_| !node.nullable).and_then(missing) {
            Some(row) => Err(Flaw::Missing { feature: leader, row }),
            None => Ok((nulls, first_leaf)),
        }
    }

    /// How long the outermost list of a row is, by its first leaf.
    fn outermost_len(&self, item: &Node, leaf: &Leaf, row: usize) -> Result<usize, Flaw> {
        let feature = leader(leaf);
        let count = self.part(feature)?.count(row);
        let width = width(item);
        if width == 0 || count % width != 0 {
            let (expected, found) = (format!("a multiple of {width} values"), count.to_string());
            return Err(Flaw::Uneven { feature, row, expected, found });
        }
        Ok(count / width)
    }

    /// Where the lists of a level end, as every leaf has it.
    fn row_lengths(&self, node: &Node, depth: usize, level: &Level) -> Result<Vec<usize>, Flaw> {
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
                return Err(Flaw::Uneven { feature, row, expected, found });
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
                    Err(Flaw::Uneven { feature, row: level.row_of(element), expected, found })
                }
            }
        });
        ends.collect()
    }
}

/// The refusal of so many values.
fn uneven(feature: usize, row: usize, expected: usize, found: usize) -> Flaw {
    let expected = format!("as many values as its column's other features tell, {expected}");
    Flaw::Uneven { feature, row, expected, found: found.to_string() }
}

/// The refusal of a feature that is not there while others are.
fn partial(feature: usize, row: usize) -> Flaw {
    let expected = "a list, as its column's other features have one".to_owned();
    Flaw::Uneven { feature, row, expected, found: "none".to_owned() }
}

/// The feature that tells how many elements the outermost list of a leaf has.
fn leader(leaf: &Leaf) -> usize {
    leaf.lengths.first().copied().unwrap_or(leaf.values)
}

/// How many entries of the next lengths, or values, an element of a list has.
fn width(item: &Node) -> usize {
    match &item.kind {
        NodeKind::Fixed { item, len } => len * width(item),
        NodeKind::Struct(children) => children.iter().find(|child| child.first_leaf().is_some()).map_or(1, width),
        NodeKind::Leaf(_) | NodeKind::List { .. } | NodeKind::Steps(_) => 1,
    }
}

/// Lists of `data_type`, or a map.
fn list(
    data_type: &DataType,
    elements: ArrayRef,
    ends: &[usize],
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, Misfit> {
    match data_type {
        DataType::Map(entries, is_sorted) => {
            let entry = elements.as_struct().clone();
            let map = MapArray::try_new(FieldRef::clone(entries), offsets(ends)?, entry, nulls, *is_sorted);
            Ok(Arc::new(map?))
        }
        list => nest::lists(list, elements, ends, nulls),
    }
}
