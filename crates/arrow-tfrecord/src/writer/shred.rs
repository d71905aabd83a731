//! Splits nested columns of one batch into their features: [`shred`].
//!
//! Works level by level, for all rows at once. A level passes to the next the elements of its array in order, and the
//! number of them per row: [`Slots`]. The rule of the part that is null determines how a null is written, not the rules
//! of its children.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, UInt64Array};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow_select::take::take;

use super::bind::{BoundColumn, BoundSteps, Spans, WireNull, distinct_values, out_of_range, why_no_null};
use super::convert::{Converted, convert, default_values};
use super::values::{Source, Values};
use crate::dtype::of_type;
use crate::error::{ErrorKind, Result};
use crate::lists::{Nulls, lists};
use crate::mapping::{Conversion, Leaf, Node, NodeKind};
use crate::options::{NullPolicy, NullRule};

/// Returns the features of a column with the layout `root`, in the order of its mapping.
pub(super) fn shred(root: &Node, features: usize, array: &ArrayRef) -> Result<Vec<Option<BoundColumn>>> {
    let mut shredder = Shredder { features: (0..features).map(|_| None).collect(), rules: Vec::new() };
    let places = (0..array.len()).map(Place::at).collect();
    let rows = Slots {
        places,
        ends: None,
        nulls: None,
        null_forms: None,
        steps: None,
        unit: Unit::Feature,
        can_be_dropped: false,
    };
    shredder.node(root, array, &rows)?;
    Ok(shredder.features)
}

/// The source of a slot's value: a position in the level's array, or null with the index of the rule that applies. That
/// is the rule of the part that is null, regardless of the rules of its children.
#[derive(Debug, Clone, Copy)]
struct Place(usize);

impl Place {
    fn at(position: usize) -> Self {
        Self(position)
    }

    fn null(rule: usize) -> Self {
        Self(usize::MAX - rule)
    }

    /// Positions are in the lower half of the range, since no array is that long. Nulls are in the upper half.
    #[inline]
    fn position(self) -> Option<usize> {
        (self.0 <= usize::MAX / 2).then_some(self.0)
    }

    /// The rule of a null.
    fn rule(self) -> usize {
        usize::MAX - self.0
    }
}

/// What the values of a row are in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// A feature, which can be absent.
    Feature,
    /// A step of a feature list, which is always present.
    Step,
    /// An example, which is always present. The fields of its struct are features.
    Example,
}

/// The elements of one level. In a column of feature lists or examples, "row" means a step or an example of any row.
struct Slots {
    places: Vec<Place>,
    /// 0, then the end of each row's slots. `None` outside lists, where every row has one slot.
    ends: Option<ScalarBuffer<i64>>,
    /// Rows without slots, because a list that contains them is null.
    nulls: Option<NullBuffer>,
    /// The wire state of each of these nulls, if any is present in the record.
    null_forms: Option<Arc<[WireNull]>>,
    /// 0, then the end of each row's steps or examples, if there are any.
    steps: Option<ScalarBuffer<i64>>,
    unit: Unit,
    /// Whether they are list elements that can be dropped.
    can_be_dropped: bool,
}

/// The row that a slot belongs to.
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

    fn positions(&self) -> impl Iterator<Item = usize> + Clone {
        self.places.iter().filter_map(|place| place.position())
    }

    fn has_nulls(&self) -> bool {
        self.places.iter().any(|place| place.position().is_none())
    }

    fn bind(&self, values: Values) -> BoundColumn {
        let (nulls, null_forms) = (self.nulls.clone(), self.null_forms.clone());
        BoundColumn { nulls, null_forms, spans: self.spans(), index: None, values, steps: None }
    }

    /// The same slots, where null elements become null by `rule`.
    fn with_nulls(&self, nulls: &Nulls, rule: usize) -> Self {
        let place = |place: &Place| match place.position() {
            Some(position) if nulls.any(position) => Place::null(rule),
            _ => *place,
        };
        self.with_places(self.places.iter().map(place).collect())
    }

    fn with_places(&self, places: Vec<Place>) -> Self {
        Self {
            places,
            ends: self.ends.clone(),
            nulls: self.nulls.clone(),
            null_forms: self.null_forms.clone(),
            steps: self.steps.clone(),
            unit: self.unit,
            can_be_dropped: false,
        }
    }

    /// The wire state of a null by each of the rules, if a row without values can represent it.
    fn null_forms(&self, rules: &[NullRule]) -> Vec<Option<WireNull>> {
        let form = |rule: &NullRule| match (WireNull::from(rule), rule) {
            _ if !self.are_rows() => None,
            (_, NullRule::Default(_)) => None,
            (WireNull::Absent, _) if self.unit != Unit::Feature => None,
            (form, _) => Some(form),
        };
        rules.iter().map(form).collect()
    }
}

/// The present rows, and the wire states of the others if any is not absent.
fn nulls_of(forms: &[Option<WireNull>]) -> (Option<NullBuffer>, Option<Arc<[WireNull]>>) {
    let nulls = NullBuffer::from(BooleanBuffer::collect_bool(forms.len(), |row| forms[row].is_none()));
    let is_present = |form: &Option<WireNull>| form.is_some_and(|form| form != WireNull::Absent);
    let some_are_there = forms.iter().any(is_present);
    let forms = some_are_there.then(|| forms.iter().map(|form| form.unwrap_or(WireNull::Absent)).collect());
    ((nulls.null_count() > 0).then_some(nulls), forms)
}

struct Shredder {
    features: Vec<Option<BoundColumn>>,
    /// The null rules of the current part and its ancestors, for those with nulls.
    rules: Vec<NullRule>,
}

impl Shredder {
    fn node(&mut self, node: &Node, array: &ArrayRef, slots: &Slots) -> Result<()> {
        let array = &if node.packed.is_some() { unpacked(array)? } else { ArrayRef::clone(array) };
        let nulls = Nulls::of(array);
        refuse_nulls(node, slots, &nulls)?;
        if nulls.is_empty() {
            return self.part(node, array, slots);
        }
        self.rules.push(node.nulls.clone());
        self.part(node, array, &slots.with_nulls(&nulls, self.rules.len() - 1))?;
        self.rules.pop();
        Ok(())
    }

    /// Splits a part whose null slots are determined.
    fn part(&mut self, node: &Node, array: &ArrayRef, slots: &Slots) -> Result<()> {
        if let Some(mask) = node.mask {
            // A null that is replaced by a default is no longer null.
            let is_null = |place: &Place| place.position().is_none() && self.default_of(*place).is_none();
            let flags = slots.places.iter().map(|place| i64::from(is_null(place)));
            self.features[mask] = Some(slots.bind(Values::Int64(flags.collect())));
        }
        match &node.kind {
            NodeKind::Leaf(None) => Ok(()),
            NodeKind::Leaf(Some(leaf)) => self.leaf(node, leaf, array, slots),
            NodeKind::Struct(children) => {
                let unit = if slots.unit == Unit::Example { Unit::Feature } else { slots.unit };
                let slots = Slots { unit, ..slots.with_places(slots.places.clone()) };
                let columns = array.as_struct().columns();
                children.iter().zip(columns).try_for_each(|(child, column)| self.node(child, column, &slots))
            }
            NodeKind::List { item, level } => {
                let (lists, elements) = lists(array, slots.positions());
                let dropped = if item.nulls.is(NullPolicy::Drop) { Nulls::of(&elements) } else { Nulls::default() };
                let mut lengths = Vec::with_capacity(if level.is_some() { slots.places.len() } else { 0 });
                let within = expand(slots, &self.rules, |place, places| {
                    let before = places.len();
                    match place.position() {
                        Some(position) => {
                            let (start, len) = lists[position];
                            let elements = (start..start + len).filter(|element| !dropped.any(*element));
                            places.extend(elements.map(Place::at));
                        }
                        None if self.default_of(place).is_some() => places.push(place),
                        None => {}
                    }
                    if level.is_some() {
                        lengths.push((places.len() - before) as i64);
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
            NodeKind::Steps(item) | NodeKind::Items(item) => {
                let is_steps = matches!(node.kind, NodeKind::Steps(_));
                let (lists, elements) = lists(array, slots.positions());
                let dropped = if item.nulls.is(NullPolicy::Drop) { Nulls::of(&elements) } else { Nulls::default() };
                let steps = expand(slots, &self.rules, |place, places| match place.position() {
                    Some(position) => {
                        let (start, len) = lists[position];
                        let elements = (start..start + len).filter(|element| !dropped.any(*element));
                        places.extend(elements.map(Place::at));
                    }
                    None => places.push(place),
                });
                let Slots { ends, nulls, .. } = steps;
                let within = Slots {
                    steps: ends.clone(),
                    ends: None,
                    nulls: None,
                    null_forms: None,
                    unit: if is_steps { Unit::Step } else { Unit::Example },
                    places: steps.places,
                    ..steps
                };
                self.node(item, &elements, &within)?;
                // A null list becomes empty under this policy. A list of examples is never absent.
                let nulls = nulls.filter(|_| is_steps && !node.nulls.is(NullPolicy::Empty));
                let ends = ends.unwrap_or_else(|| ScalarBuffer::from(vec![0]));
                let mut features = Vec::new();
                item.features(&mut features);
                for feature in features {
                    if let Some(feature) = &mut self.features[feature] {
                        feature.steps =
                            Some(BoundSteps { nulls: nulls.clone(), spans: Spans::Offsets64(ends.clone()) });
                    }
                }
                Ok(())
            }
            NodeKind::Fixed { item, len } => {
                let within = expand(slots, &self.rules, |place, places| match place.position() {
                    Some(position) => places.extend((position * len..(position + 1) * len).map(Place::at)),
                    None => places.extend(std::iter::repeat_n(place, *len)),
                });
                let within = Slots { can_be_dropped: false, ..within };
                self.node(item, array.as_fixed_size_list().values(), &within)
            }
        }
    }

    /// The default that replaces a null, if any.
    fn default_of(&self, null: Place) -> Option<&str> {
        match &self.rules[null.rule()] {
            NullRule::Default(text) => Some(text),
            NullRule::Policy(_) => None,
        }
    }

    fn leaf(&mut self, node: &Node, leaf: &Leaf, array: &ArrayRef, slots: &Slots) -> Result<()> {
        let (index, distinct) = distinct_values(array, &leaf.conversion);
        let Converted { values, mismatches } = convert(&leaf.conversion, &node.path, &distinct)?;
        let place = |position: usize| index.as_ref().map_or(position, |index| index[position]);
        if !mismatches.is_empty() {
            let mismatch = slots.places.iter().enumerate().find_map(|(slot, at)| {
                let position = at.position().filter(|position| mismatches.binary_search(&place(*position)).is_ok())?;
                Some((slot, position))
            });
            if let Some((slot, position)) = mismatch {
                return Err(out_of_range(&node.path, &leaf.conversion, array, slots.row_of(slot), position));
            }
        }
        // Outside lists, a row's value is at its own position.
        let are_in_order = slots.are_rows() && slots.steps.is_none();
        let column = if !slots.has_nulls() {
            let in_order = are_in_order || slots.positions().enumerate().all(|(slot, position)| slot == position);
            let index = if in_order { index } else { Some(slots.positions().map(place).collect()) };
            BoundColumn { index, ..slots.bind(values) }
        } else {
            let forms = slots.null_forms(&self.rules);
            let form = |place: &Place| if place.position().is_some() { None } else { forms[place.rule()] };
            let absent: Vec<_> = slots.places.iter().map(form).collect();
            let all_are_absent =
                slots.places.iter().zip(&absent).all(|(place, form)| place.position().is_some() || form.is_some());
            let (nulls, null_forms) =
                if slots.are_rows() { nulls_of(&absent) } else { (slots.nulls.clone(), slots.null_forms.clone()) };
            let (index, values) = match all_are_absent {
                true if are_in_order => (index, values),
                true => {
                    let places = slots.places.iter().map(|slot| slot.position().map(place).unwrap_or_default());
                    (Some(places.collect()), values)
                }
                false => {
                    let defaults = self.rules.iter().map(|rule| match rule {
                        NullRule::Default(text) => {
                            default_values(text, &node.data_type, &leaf.conversion, &node.path).map(Some)
                        }
                        NullRule::Policy(_) => Ok(None),
                    });
                    let defaults = defaults.collect::<Result<Vec<_>>>()?;
                    let sources = slots.places.iter().map(|slot| match slot.position() {
                        Some(position) => Source::Value(place(position)),
                        None => defaults[slot.rule()].as_ref().map_or(Source::Nothing, Source::Other),
                    });
                    (None, values.gather(sources))
                }
            };
            BoundColumn { nulls, null_forms, spans: slots.spans(), index, values, steps: None }
        };
        self.features[leaf.values] = Some(column);
        Ok(())
    }
}

/// Rejects nulls that the part's rule does not allow.
fn refuse_nulls(node: &Node, slots: &Slots, nulls: &Nulls) -> Result<()> {
    let rule = why_no_null(node.nullable, &node.nulls);
    let has_place = match &node.nulls {
        _ if rule.is_some() => false,
        nulls if matches!(node.kind, NodeKind::Items(_)) => has_null_lists(nulls),
        _ if slots.are_rows() && slots.unit == Unit::Feature => true,
        NullRule::Default(_) | NullRule::Policy(NullPolicy::Mask) => true,
        NullRule::Policy(NullPolicy::Empty) if matches!(node.kind, NodeKind::List { .. }) => true,
        NullRule::Policy(NullPolicy::Empty | NullPolicy::Unset) => {
            slots.are_rows() && !matches!(node.kind, NodeKind::Struct(_))
        }
        // Nulls that can be dropped have been dropped already.
        NullRule::Policy(_) => false,
    };
    if has_place || nulls.is_empty() || matches!(node.kind, NodeKind::Leaf(None)) {
        return Ok(());
    }
    let is_null = |place: &Place| place.position().is_some_and(|position| nulls.any(position));
    let Some(slot) = slots.places.iter().position(is_null) else { return Ok(()) };
    let (column, row) = (node.path.clone(), slots.row_of(slot) as u64);
    match rule {
        Some(rule) => Err(ErrorKind::Null { column, row, rule }.into()),
        None if matches!(node.kind, NodeKind::Items(_)) => Err(ErrorKind::NullExamples { column, row }.into()),
        None => Err(ErrorKind::NullElement { column, row, can_be_dropped: slots.can_be_dropped }.into()),
    }
}

/// Whether nulls of a list of examples are marked or replaced: the list itself is always there.
fn has_null_lists(nulls: &NullRule) -> bool {
    matches!(nulls, NullRule::Default(_)) || nulls.is(NullPolicy::Mask) || nulls.is(NullPolicy::Empty)
}

/// The slots within the lists of `slots`. `push` appends those of one list or null.
fn expand(slots: &Slots, rules: &[NullRule], mut push: impl FnMut(Place, &mut Vec<Place>)) -> Slots {
    let mut places = Vec::new();
    let steps = slots.steps.clone();
    let Some(ends) = &slots.ends else {
        let forms = slots.null_forms(rules);
        let mut absent = Vec::with_capacity(slots.places.len());
        let mut ends = Vec::with_capacity(slots.places.len() + 1);
        ends.push(0);
        for place in &slots.places {
            let form = if place.position().is_some() { None } else { forms[place.rule()] };
            if form.is_none() {
                push(*place, &mut places);
            }
            absent.push(form);
            ends.push(places.len() as i64);
        }
        let (nulls, null_forms) = nulls_of(&absent);
        let (ends, unit) = (Some(ends.into()), slots.unit);
        return Slots { places, ends, nulls, null_forms, steps, unit, can_be_dropped: true };
    };
    let mut slot = 0;
    let ends = ends.iter().map(|end| {
        while slot < *end as usize {
            push(slots.places[slot], &mut places);
            slot += 1;
        }
        places.len() as i64
    });
    let ends = ScalarBuffer::from_iter(ends);
    let (nulls, null_forms) = (slots.nulls.clone(), slots.null_forms.clone());
    Slots { places, ends: Some(ends), nulls, null_forms, steps, unit: slots.unit, can_be_dropped: true }
}

/// The values of a dictionary or of runs, repeated for every element.
fn unpacked(array: &ArrayRef) -> Result<ArrayRef> {
    let (index, values) = distinct_values(array, &Conversion::Nothing);
    let Some(index) = index else { return Ok(values) };
    let nulls = Nulls::of(array);
    let places = index.into_iter().enumerate();
    let places = places.map(|(element, place)| (!nulls.any(element)).then_some(place as u64));
    let plain = take(&values, &places.collect::<UInt64Array>(), None);
    let plain = plain.and_then(|plain| of_type(plain, values.data_type()));
    plain.map_err(|source| ErrorKind::Arrow { source }.into())
}
