//! Nested columns of one batch, taken apart into their features: [`shred`].
//!
//! Level by level, for all rows at once. What a level hands to the next is which elements of the next array there are,
//! in order, and how many of them belong to each row: [`Slots`].

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::DataType;

use super::bind::{BoundColumn, Spans, Steps, distinct_values, out_of_range, why_no_null};
use super::column::WireNull;
use super::convert::{Converted, Values, convert};
use crate::error::{ErrorKind, Result};
use crate::mapping::{Leaf, Node, NodeKind, default_value};
use crate::options::{NullPolicy, NullRule};

/// The position of a slot that is null because what is around it is null.
const NOWHERE: usize = usize::MAX;

/// The features of a column of which `root` is the layout, in the order of its mapping.
pub(super) fn shred(root: &Node, features: usize, array: &ArrayRef) -> Result<Vec<Option<BoundColumn>>> {
    let mut shredder = Shredder { features: (0..features).map(|_| None).collect() };
    let rows = Slots { positions: (0..array.len()).collect(), ends: None, nulls: None, steps: None };
    shredder.node(root, array, &rows)?;
    Ok(shredder.features)
}

/// What a null without values is in a record, for every feature of a column.
pub(super) fn wire_nulls(node: &Node, nulls: &mut [WireNull]) {
    match &node.kind {
        NodeKind::Leaf(None) => {}
        NodeKind::Leaf(Some(leaf)) => {
            for feature in leaf.lengths.iter().chain([&leaf.values]) {
                nulls[*feature] = WireNull::from(&node.nulls);
            }
        }
        NodeKind::Struct(children) => children.iter().for_each(|child| wire_nulls(child, nulls)),
        NodeKind::List { item, .. } | NodeKind::Fixed { item, .. } | NodeKind::Steps(item) => wire_nulls(item, nulls),
    }
}

/// The elements of one level. In a column of feature lists, where it says rows the steps of all rows are meant.
struct Slots {
    /// Where each stands in the level's array, or [`NOWHERE`].
    positions: Vec<usize>,
    /// Behind which slot each row ends, and a 0 before the first. Without lists around, every row has one.
    ends: Option<ScalarBuffer<i64>>,
    /// Rows without slots, because a list around is null.
    nulls: Option<NullBuffer>,
    /// Behind which step each row ends, if there are steps; and a 0 before the first.
    steps: Option<ScalarBuffer<i64>>,
}

/// What stands behind a slot: the row that it is of.
fn owner(ends: &ScalarBuffer<i64>, slot: usize) -> usize {
    ends.partition_point(|end| *end <= slot as i64).saturating_sub(1)
}

impl Slots {
    fn spans(&self) -> Spans {
        self.ends.as_ref().map_or(Spans::One, |ends| Spans::Offsets64(ends.clone()))
    }

    fn row_of(&self, slot: usize) -> usize {
        let row = self.ends.as_ref().map_or(slot, |ends| owner(ends, slot));
        self.steps.as_ref().map_or(row, |steps| owner(steps, row))
    }

    fn are_rows(&self) -> bool {
        self.ends.is_none()
    }

    fn bind(&self, values: Values) -> BoundColumn {
        BoundColumn { nulls: self.nulls.clone(), spans: self.spans(), index: None, values, steps: None }
    }

    /// Whether a null without values can be told by what its row is without them. A step is always there.
    fn can_be_absent(&self, nulls: &NullRule) -> bool {
        let has_form = matches!(nulls, NullRule::Policy(NullPolicy::Unset | NullPolicy::Empty));
        self.are_rows() && (self.steps.is_none() || has_form)
    }
}

/// Which elements of an array are null by themselves.
pub(crate) struct Nulls(Option<NullBuffer>);

impl Nulls {
    pub(crate) fn of(array: &ArrayRef) -> Self {
        Self(array.logical_nulls().filter(|nulls| nulls.null_count() > 0))
    }

    /// Whether there is a null of the array's own at `position`.
    #[inline]
    fn own(&self, position: usize) -> bool {
        position != NOWHERE && self.0.as_ref().is_some_and(|nulls| nulls.is_null(position))
    }

    #[inline]
    pub(crate) fn any(&self, position: usize) -> bool {
        position == NOWHERE || self.own(position)
    }
}

struct Shredder {
    features: Vec<Option<BoundColumn>>,
}

impl Shredder {
    fn node(&mut self, node: &Node, array: &ArrayRef, slots: &Slots) -> Result<()> {
        let nulls = Nulls::of(array);
        refuse_nulls(node, slots, &nulls)?;
        if let Some(mask) = node.mask {
            let values = slots.positions.iter().map(|position| i64::from(nulls.any(*position))).collect();
            self.features[mask] = Some(slots.bind(Values::Int64(values)));
        }
        match &node.kind {
            NodeKind::Leaf(None) => Ok(()),
            NodeKind::Leaf(Some(leaf)) => self.leaf(node, leaf, array, slots, &nulls),
            NodeKind::Struct(children) => {
                let positions = slots.positions.iter();
                let positions = positions.map(|position| if nulls.any(*position) { NOWHERE } else { *position });
                let slots = Slots {
                    positions: positions.collect(),
                    ends: slots.ends.clone(),
                    nulls: slots.nulls.clone(),
                    steps: slots.steps.clone(),
                };
                let columns = array.as_struct().columns();
                children.iter().zip(columns).try_for_each(|(child, column)| self.node(child, column, &slots))
            }
            NodeKind::List { item, level } => {
                let (lists, elements) = lists(array, &slots.positions, &nulls);
                let dropped = if item.nulls.is(NullPolicy::Drop) { Nulls::of(&elements) } else { Nulls(None) };
                let mut lengths = Vec::with_capacity(if level.is_some() { slots.positions.len() } else { 0 });
                let within = expand(node, slots, &nulls, |position, positions| {
                    let before = positions.len();
                    match position {
                        Some(position) => {
                            let (start, len) = lists[position];
                            positions.extend((start..start + len).filter(|element| !dropped.own(*element)));
                        }
                        None if matches!(node.nulls, NullRule::Default(_)) => positions.push(NOWHERE),
                        None => {}
                    }
                    if level.is_some() {
                        lengths.push((positions.len() - before) as i64);
                    }
                });
                if let Some(level) = level {
                    let lengths = ScalarBuffer::from(lengths);
                    let mut leaves = Vec::new();
                    node.leaves(&mut leaves);
                    for leaf in leaves {
                        self.features[leaf.lengths[*level]] = Some(slots.bind(Values::Int64(lengths.clone())));
                    }
                }
                self.node(item, &elements, &within)
            }
            NodeKind::Steps(item) => {
                let (lists, elements) = lists(array, &slots.positions, &nulls);
                let dropped = if item.nulls.is(NullPolicy::Drop) { Nulls::of(&elements) } else { Nulls(None) };
                let steps = expand(node, slots, &nulls, |position, positions| match position {
                    Some(position) => {
                        let (start, len) = lists[position];
                        positions.extend((start..start + len).filter(|element| !dropped.own(*element)));
                    }
                    None => positions.push(NOWHERE),
                });
                let within = Slots { positions: steps.positions, ends: None, nulls: None, steps: steps.ends.clone() };
                self.node(item, &elements, &within)?;
                // An empty list where there was none is what was asked for.
                let nulls = steps.nulls.filter(|_| !node.nulls.is(NullPolicy::Empty));
                let ends = steps.ends.unwrap_or_else(|| ScalarBuffer::from(vec![0]));
                let mut features = Vec::new();
                item.features(&mut features);
                for feature in features {
                    if let Some(feature) = &mut self.features[feature] {
                        feature.steps = Some(Steps { nulls: nulls.clone(), spans: Spans::Offsets64(ends.clone()) });
                    }
                }
                Ok(())
            }
            NodeKind::Fixed { item, len } => {
                let within = expand(node, slots, &nulls, |position, positions| match position {
                    Some(position) => positions.extend(position * len..(position + 1) * len),
                    None => positions.extend(std::iter::repeat_n(NOWHERE, *len)),
                });
                self.node(item, array.as_fixed_size_list().values(), &within)
            }
        }
    }

    fn leaf(&mut self, node: &Node, leaf: &Leaf, array: &ArrayRef, slots: &Slots, nulls: &Nulls) -> Result<()> {
        let positions = &slots.positions;
        let (index, distinct) = distinct_values(array, &leaf.conversion);
        let Converted { values, misfits } = convert(&leaf.conversion, &node.path, &distinct)?;
        let place = |position: usize| index.as_ref().map_or(position, |index| index[position]);
        if !misfits.is_empty() {
            let is_misfit = |position: usize| !nulls.any(position) && misfits.binary_search(&place(position)).is_ok();
            if let Some(slot) = positions.iter().position(|position| is_misfit(*position)) {
                return Err(out_of_range(&node.path, &leaf.conversion, array, slots.row_of(slot), positions[slot]));
            }
        }
        let has_nulls = positions.iter().any(|position| nulls.any(*position));
        let default = match &node.nulls {
            NullRule::Default(text) if has_nulls => Some(default(node, leaf, text)?),
            _ => None,
        };
        let gathered = || {
            let places = positions.iter().map(|position| (!nulls.any(*position)).then(|| place(*position)));
            values.gather(places, default.as_ref())
        };
        let column = match (has_nulls, slots.are_rows()) {
            // A row without lists around stands at its own position.
            (false, true) if slots.steps.is_none() => {
                BoundColumn { nulls: None, spans: Spans::One, index, values, steps: None }
            }
            (true, true) if default.is_none() && slots.can_be_absent(&node.nulls) => {
                let valid = BooleanBuffer::collect_bool(positions.len(), |row| !nulls.any(positions[row]));
                let index = match slots.steps {
                    None => index,
                    Some(_) => {
                        Some(positions.iter().map(|slot| if nulls.any(*slot) { 0 } else { place(*slot) }).collect())
                    }
                };
                BoundColumn { nulls: Some(valid.into()), spans: Spans::One, index, values, steps: None }
            }
            (false, _) => {
                let in_order = positions.iter().enumerate().all(|(slot, position)| slot == *position);
                let index = if in_order { index } else { Some(positions.iter().map(|slot| place(*slot)).collect()) };
                BoundColumn { index, ..slots.bind(values) }
            }
            (true, _) => slots.bind(gathered()),
        };
        self.features[leaf.values] = Some(column);
        Ok(())
    }
}

/// Nulls that the part's rule has no place for.
fn refuse_nulls(node: &Node, slots: &Slots, nulls: &Nulls) -> Result<()> {
    let rule = why_no_null(node.nullable, &node.nulls);
    let has_place = match &node.nulls {
        _ if rule.is_some() => false,
        _ if slots.are_rows() && slots.steps.is_none() => true,
        NullRule::Default(_) | NullRule::Policy(NullPolicy::Mask) => true,
        NullRule::Policy(NullPolicy::Empty) if matches!(node.kind, NodeKind::List { .. }) => true,
        NullRule::Policy(NullPolicy::Empty | NullPolicy::Unset) => {
            slots.are_rows() && !matches!(node.kind, NodeKind::Struct(_))
        }
        // Those that could be dropped have been.
        NullRule::Policy(_) => false,
    };
    if has_place || nulls.0.is_none() || matches!(node.kind, NodeKind::Leaf(None)) {
        return Ok(());
    }
    let Some(slot) = slots.positions.iter().position(|position| nulls.own(*position)) else { return Ok(()) };
    let (column, row) = (node.path.clone(), slots.row_of(slot) as u64);
    match rule {
        Some(rule) => Err(ErrorKind::Null { column, row, rule }.into()),
        None => Err(ErrorKind::NullElement { column, row }.into()),
    }
}

/// The value in place of nulls.
fn default(node: &Node, leaf: &Leaf, text: &str) -> Result<Values> {
    let invalid = || ErrorKind::InvalidDefault {
        column: node.path.clone(),
        data_type: node.data_type.clone(),
        value: text.to_owned(),
    };
    let value = default_value(text, &node.data_type).ok_or_else(invalid)?;
    let Converted { values, misfits } = convert(&leaf.conversion, &node.path, &value)?;
    if misfits.is_empty() { Ok(values) } else { Err(invalid().into()) }
}

/// The slots within the lists of `slots`, of which `push` appends those of one list, or of a null.
fn expand(node: &Node, slots: &Slots, nulls: &Nulls, mut push: impl FnMut(Option<usize>, &mut Vec<usize>)) -> Slots {
    let mut positions = Vec::new();
    let mut push_slot = |slot: usize, positions: &mut Vec<usize>| {
        let position = slots.positions[slot];
        push((!nulls.any(position)).then_some(position), positions);
    };
    let Some(ends) = &slots.ends else {
        let can_be_absent = slots.can_be_absent(&node.nulls) && !matches!(node.nulls, NullRule::Default(_));
        let is_absent = |row: usize| can_be_absent && nulls.any(slots.positions[row]);
        let rows = slots.positions.len();
        let valid = BooleanBuffer::collect_bool(rows, |row| !is_absent(row));
        let mut ends = Vec::with_capacity(rows + 1);
        ends.push(0);
        for row in 0..rows {
            if valid.value(row) {
                push_slot(row, &mut positions);
            }
            ends.push(positions.len() as i64);
        }
        let nulls = NullBuffer::from(valid);
        let nulls = (nulls.null_count() > 0).then_some(nulls);
        return Slots { positions, ends: Some(ends.into()), nulls, steps: slots.steps.clone() };
    };
    let mut slot = 0;
    let ends = ends.iter().map(|end| {
        while slot < *end as usize {
            push_slot(slot, &mut positions);
            slot += 1;
        }
        positions.len() as i64
    });
    let ends = ScalarBuffer::from_iter(ends);
    Slots { positions, ends: Some(ends), nulls: slots.nulls.clone(), steps: slots.steps.clone() }
}

/// Start and length of every list of an array, and their elements: no more of them than the lists at `positions` use.
pub(crate) fn lists(array: &ArrayRef, positions: &[usize], nulls: &Nulls) -> (Vec<(usize, usize)>, ArrayRef) {
    fn offsets<O: ArrowNativeType>(offsets: &[O]) -> Vec<(usize, usize)> {
        offsets.windows(2).map(|pair| (pair[0].as_usize(), pair[1].as_usize() - pair[0].as_usize())).collect()
    }
    fn views<O: ArrowNativeType>(offsets: &[O], sizes: &[O]) -> Vec<(usize, usize)> {
        offsets.iter().zip(sizes).map(|(offset, size)| (offset.as_usize(), size.as_usize())).collect()
    }

    let (mut lists, elements) = match array.data_type() {
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            (offsets(list.offsets()), ArrayRef::clone(list.values()))
        }
        DataType::ListView(_) => {
            let list = array.as_list_view::<i32>();
            (views(list.offsets(), list.sizes()), ArrayRef::clone(list.values()))
        }
        DataType::LargeListView(_) => {
            let list = array.as_list_view::<i64>();
            (views(list.offsets(), list.sizes()), ArrayRef::clone(list.values()))
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let entries: ArrayRef = std::sync::Arc::new(map.entries().clone());
            (offsets(map.offsets()), entries)
        }
        _ => {
            let list = array.as_list::<i32>();
            (offsets(list.offsets()), ArrayRef::clone(list.values()))
        }
    };
    let used = positions.iter().filter(|position| !nulls.any(**position)).map(|position| lists[*position]);
    let used = used.filter(|(_, len)| *len > 0);
    let first = used.clone().map(|(start, _)| start).min().unwrap_or_default();
    let end = used.map(|(start, len)| start + len).max().unwrap_or_default();
    for (start, _) in &mut lists {
        *start = start.saturating_sub(first);
    }
    (lists, elements.slice(first, end.saturating_sub(first)))
}
