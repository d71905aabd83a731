//! Nested types and arrays: lists of five layouts, maps, structs, unions, dictionaries and runs.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, Int32Type, Int64Type, RunEndIndexType};
use arrow_array::{Array, ArrayRef, RunArray, UInt64Array, make_array};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, NullBuffer};
use arrow_schema::{ArrowError, DataType, FieldRef, Fields, UnionFields};
use arrow_select::take::take;

/// The item field of a list of any layout.
pub fn item(data_type: &DataType) -> Option<&FieldRef> {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => Some(item),
        _ => None,
    }
}

/// The list of the same layout with other items. Other types are returned unchanged.
pub fn with_item(list: &DataType, item: FieldRef) -> DataType {
    match list {
        DataType::List(_) => DataType::List(item),
        DataType::LargeList(_) => DataType::LargeList(item),
        DataType::ListView(_) => DataType::ListView(item),
        DataType::LargeListView(_) => DataType::LargeListView(item),
        DataType::FixedSizeList(_, len) => DataType::FixedSizeList(item, *len),
        other => other.clone(),
    }
}

/// The fields of a struct.
pub fn struct_fields(data_type: &DataType) -> Option<&Fields> {
    match data_type {
        DataType::Struct(fields) => Some(fields),
        _ => None,
    }
}

/// The struct with these fields.
pub fn with_struct_fields(fields: Fields) -> DataType {
    DataType::Struct(fields)
}

/// The key and the value field of a map.
pub fn key_and_value(data_type: &DataType) -> Option<(&FieldRef, &FieldRef)> {
    let DataType::Map(entries, _) = data_type else { return None };
    let DataType::Struct(fields) = entries.data_type() else { return None };
    match fields.as_ref() {
        [key, value] => Some((key, value)),
        _ => None,
    }
}

/// Compares types, ignoring incidental differences between writers: nullability, and the names of list items and map
/// entries. Fields of structs must have the same names, in the same order.
pub fn same_type(left: &DataType, right: &DataType) -> bool {
    left.equals_datatype(right) && same_names(left, right)
}

/// The first column that two tables do not share, as texts: what was expected, and what was found. Columns are pairs of a
/// name and a type; types are compared by [`same_type`].
pub fn difference<'a>(
    expected: impl ExactSizeIterator<Item = (&'a str, &'a DataType)>,
    found: impl ExactSizeIterator<Item = (&'a str, &'a DataType)>,
) -> Option<(String, String)> {
    let counts = (expected.len(), found.len());
    let same =
        |expected: (&str, &DataType), found: (&str, &DataType)| expected.0 == found.0 && same_type(expected.1, found.1);
    let describe = |(name, data_type): (&str, &DataType)| format!("column {name:?} of type {data_type}");
    let differing = expected.zip(found).find(|(expected, found)| !same(*expected, *found));
    differing
        .map(|(expected, found)| (describe(expected), describe(found)))
        .or_else(|| (counts.0 != counts.1).then(|| (format!("{} columns", counts.0), counts.1.to_string())))
}

/// Whether struct fields have the same names, in types that are otherwise equal.
fn same_names(left: &DataType, right: &DataType) -> bool {
    let has_names = |left: &DataType, right: &DataType| match (left, right) {
        (DataType::Struct(left), DataType::Struct(right)) => {
            left.iter().zip(right).all(|(left, right)| left.name() == right.name())
        }
        _ => true,
    };
    // The names of keys and values do not matter.
    let parts = |data_type| match key_and_value(data_type) {
        Some((key, value)) => vec![key.data_type(), value.data_type()],
        None => children(data_type),
    };
    has_names(left, right) && parts(left).into_iter().zip(parts(right)).all(|(left, right)| same_names(left, right))
}

/// The type of the values of dictionaries and runs, or the type itself.
pub fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => value_type(values),
        DataType::RunEndEncoded(_, values) => value_type(values.data_type()),
        plain => plain,
    }
}

/// The type within all lists, dictionaries and runs.
pub fn element_type(data_type: &DataType) -> &DataType {
    let values = value_type(data_type);
    item(values).map_or(values, |item| element_type(item.data_type()))
}

/// The types directly within a type: items, entries of maps, fields, and values of dictionaries and runs.
pub fn children(data_type: &DataType) -> Vec<&DataType> {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        DataType::Union(fields, _) => fields.iter().map(|(_, field)| field.data_type()).collect(),
        DataType::Map(field, _) | DataType::RunEndEncoded(_, field) => vec![field.data_type()],
        DataType::Dictionary(_, values) => vec![values],
        list => item(list).map(|item| item.data_type()).into_iter().collect(),
    }
}

/// Whether a type, or one within it at any depth, satisfies a condition.
pub fn any_type(data_type: &DataType, is: impl Fn(&DataType) -> bool + Copy) -> bool {
    is(data_type) || children(data_type).into_iter().any(|child| any_type(child, is))
}

/// The type of the same layout with other [`children`].
pub fn map_children(data_type: &DataType, mut map: impl FnMut(&DataType) -> DataType) -> DataType {
    if let DataType::Dictionary(keys, values) = data_type {
        return DataType::Dictionary(keys.clone(), Box::new(map(values)));
    }
    let mut map = |field: &FieldRef| {
        let child = map(field.data_type());
        match child == *field.data_type() {
            true => Arc::clone(field),
            false => Arc::new(field.as_ref().clone().with_data_type(child)),
        }
    };
    match data_type {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(map).collect()),
        DataType::Union(fields, mode) => {
            let fields: UnionFields = fields.iter().map(|(id, field)| (id, map(field))).collect();
            DataType::Union(fields, *mode)
        }
        DataType::Map(entries, sorted) => DataType::Map(map(entries), *sorted),
        DataType::RunEndEncoded(ends, values) => DataType::RunEndEncoded(Arc::clone(ends), map(values)),
        list => item(list).map_or_else(|| list.clone(), |item| with_item(list, map(item))),
    }
}

/// The arrays of the [`children`] of an array's type, in the same order.
pub fn child_arrays(array: &dyn Array) -> Vec<ArrayRef> {
    let data = array.to_data();
    data.child_data()[first_child(array)..].iter().map(|child| make_array(child.clone())).collect()
}

/// Run ends are stored like a child.
fn first_child(array: &dyn Array) -> usize {
    usize::from(matches!(array.data_type(), DataType::RunEndEncoded(..)))
}

/// The same array with other [`child_arrays`], whose types are those in `data_type`.
///
/// # Errors
/// A child does not have its type in `data_type`, or is too short.
pub fn with_children(array: &dyn Array, data_type: &DataType, children: &[ArrayRef]) -> Result<ArrayRef, ArrowError> {
    let data = array.to_data();
    let mut all = data.child_data()[..first_child(array)].to_vec();
    all.extend(children.iter().map(|child| child.to_data()));
    Ok(make_array(data.into_builder().data_type(data_type.clone()).child_data(all).build()?))
}

/// Replaces the [`child_arrays`] of an array, which may have other types afterwards. Returns the same array if none of
/// them changes.
///
/// # Errors
/// Those of `map`, and if it returns a child that is too short.
pub fn map_array<E: From<ArrowError>>(
    array: &ArrayRef,
    map: impl FnMut(&ArrayRef) -> Result<ArrayRef, E>,
) -> Result<ArrayRef, E> {
    if children(array.data_type()).is_empty() {
        return Ok(Arc::clone(array));
    }
    let children = child_arrays(array);
    let mapped = children.iter().map(map).collect::<Result<Vec<_>, E>>()?;
    if mapped.iter().zip(&children).all(|(new, old)| Arc::ptr_eq(new, old)) {
        return Ok(Arc::clone(array));
    }
    let mut types = mapped.iter().map(|child| child.data_type().clone());
    let data_type = map_children(array.data_type(), |child| types.next().unwrap_or_else(|| child.clone()));
    Ok(with_children(array, &data_type, &mapped)?)
}

/// The lists of an array of lists of any layout, or the entries of maps.
#[derive(Debug)]
pub struct Lists<'a> {
    items: &'a dyn Array,
    nulls: Option<&'a NullBuffer>,
    ranges: Ranges<'a>,
}

/// Where the items of each row are.
#[derive(Debug)]
enum Ranges<'a> {
    Offsets32(&'a [i32]),
    Offsets64(&'a [i64]),
    Views32(&'a [i32], &'a [i32]),
    Views64(&'a [i64], &'a [i64]),
    Fixed(usize),
}

impl<'a> Lists<'a> {
    /// The lists of an array. `None` if it is of another type.
    pub fn of(array: &'a dyn Array) -> Option<Self> {
        let (items, ranges): (&dyn Array, _) = match array.data_type() {
            DataType::List(_) => {
                let lists = array.as_list::<i32>();
                (lists.values(), Ranges::Offsets32(lists.offsets()))
            }
            DataType::LargeList(_) => {
                let lists = array.as_list::<i64>();
                (lists.values(), Ranges::Offsets64(lists.offsets()))
            }
            DataType::ListView(_) => {
                let lists = array.as_list_view::<i32>();
                (lists.values(), Ranges::Views32(lists.offsets(), lists.sizes()))
            }
            DataType::LargeListView(_) => {
                let lists = array.as_list_view::<i64>();
                (lists.values(), Ranges::Views64(lists.offsets(), lists.sizes()))
            }
            DataType::FixedSizeList(_, len) => {
                (array.as_fixed_size_list().values(), Ranges::Fixed(usize::try_from(*len).unwrap_or_default()))
            }
            DataType::Map(..) => {
                let maps = array.as_map();
                (maps.entries(), Ranges::Offsets32(maps.offsets()))
            }
            _ => return None,
        };
        Some(Self { items, nulls: array.nulls(), ranges })
    }

    /// The items of all rows, and possibly others.
    pub fn items(&self) -> &'a dyn Array {
        self.items
    }

    /// The length of every list, if the type specifies it.
    pub fn fixed_len(&self) -> Option<usize> {
        match self.ranges {
            Ranges::Fixed(len) => Some(len),
            _ => None,
        }
    }

    /// Where the items of a row are. Null lists may have items, which are unspecified; null list views have none.
    pub fn range(&self, row: usize) -> Range<usize> {
        fn view<O: ArrowNativeType>(offsets: &[O], sizes: &[O], row: usize) -> Range<usize> {
            let start = offsets[row].as_usize();
            start..start + sizes[row].as_usize()
        }
        match self.ranges {
            Ranges::Offsets32(offsets) => offsets[row].as_usize()..offsets[row + 1].as_usize(),
            Ranges::Offsets64(offsets) => offsets[row].as_usize()..offsets[row + 1].as_usize(),
            Ranges::Fixed(len) => row * len..(row + 1) * len,
            _ if self.nulls.is_some_and(|nulls| nulls.is_null(row)) => 0..0,
            Ranges::Views32(offsets, sizes) => view(offsets, sizes, row),
            Ranges::Views64(offsets, sizes) => view(offsets, sizes, row),
        }
    }

    /// The items of a row.
    pub fn row(&self, row: usize) -> ArrayRef {
        let range = self.range(row);
        self.items.slice(range.start, range.len())
    }

    /// The number of rows.
    fn rows(&self) -> usize {
        match self.ranges {
            Ranges::Offsets32(offsets) => offsets.len() - 1,
            Ranges::Offsets64(offsets) => offsets.len() - 1,
            Ranges::Views32(offsets, _) => offsets.len(),
            Ranges::Views64(offsets, _) => offsets.len(),
            Ranges::Fixed(len) => self.items.len().checked_div(len).unwrap_or_default(),
        }
    }

    /// Whether each item is in a row that is not null. `None` if all of them are.
    pub fn item_nulls(&self, nulls: Option<&NullBuffer>) -> Option<NullBuffer> {
        let is_in_row = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
        if nulls.is_none_or(|nulls| nulls.null_count() == 0) && self.covers_items() {
            return None;
        }
        let mut is_used = vec![false; self.items.len()];
        for row in (0..self.rows()).filter(|row| is_in_row(*row)) {
            is_used[self.range(row)].fill(true);
        }
        Some(NullBuffer::new(BooleanBuffer::from(is_used)))
    }

    /// Whether every item certainly is in a list.
    fn covers_items(&self) -> bool {
        fn covers<O: ArrowNativeType>(offsets: &[O], items: usize) -> bool {
            offsets.first().is_some_and(|first| first.as_usize() == 0)
                && offsets.last().is_some_and(|last| last.as_usize() == items)
        }
        match self.ranges {
            Ranges::Offsets32(offsets) => covers(offsets, self.items.len()),
            Ranges::Offsets64(offsets) => covers(offsets, self.items.len()),
            Ranges::Fixed(_) => true,
            Ranges::Views32(..) | Ranges::Views64(..) => false,
        }
    }
}

/// The elements of the lists, or the entries of the maps, that are not null. `None` for arrays of other types.
///
/// # Errors
/// Arrow cannot copy the elements.
pub fn elements(array: &dyn Array) -> Option<Result<ArrayRef, ArrowError>> {
    let lists = Lists::of(array)?;
    let rows = (0..array.len()).filter(|row| array.is_valid(*row));
    let positions = UInt64Array::from_iter_values(rows.flat_map(|row| lists.range(row)).map(|item| item as u64));
    Some(take(lists.items(), &positions, None))
}

/// The values of a dictionary or of runs, and where those of each row are.
#[derive(Debug)]
pub struct Encoded<'a> {
    values: &'a ArrayRef,
    /// [`usize::MAX`] for null keys.
    positions: Vec<usize>,
}

impl<'a> Encoded<'a> {
    /// The values of an array. `None` if it is neither a dictionary nor runs.
    pub fn of(array: &'a dyn Array) -> Option<Self> {
        fn runs<R: RunEndIndexType>(array: &RunArray<R>) -> Encoded<'_> {
            let ends = array.run_ends();
            let (start, len) = (ends.offset(), ends.len());
            let mut positions = Vec::with_capacity(len);
            for (run, end) in ends.values().iter().enumerate() {
                let end = end.as_usize().saturating_sub(start).min(len);
                if end > positions.len() {
                    positions.resize(end, run);
                }
            }
            Encoded { values: array.values(), positions }
        }
        Some(match array.data_type() {
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                let values = dictionary.values();
                // Without values all keys are null. The keys of nulls may point anywhere.
                let mut positions =
                    if values.is_empty() { vec![usize::MAX; array.len()] } else { dictionary.normalized_keys() };
                for row in (0..array.len()).filter(|row| dictionary.keys().is_null(*row)) {
                    positions[row] = usize::MAX;
                }
                Self { values, positions }
            }
            DataType::RunEndEncoded(ends, _) => match ends.data_type() {
                DataType::Int16 => runs(array.as_run::<Int16Type>()),
                DataType::Int32 => runs(array.as_run::<Int32Type>()),
                _ => runs(array.as_run::<Int64Type>()),
            },
            _ => return None,
        })
    }

    /// The values, some of which may belong to no row.
    pub fn values(&self) -> &'a ArrayRef {
        self.values
    }

    /// The position of each row's value, [`usize::MAX`] for null keys.
    pub fn positions(&self) -> &[usize] {
        &self.positions
    }

    /// The position of a row's value. `None` for null keys.
    pub fn position(&self, row: usize) -> Option<usize> {
        self.positions.get(row).copied().filter(|position| *position < self.values.len())
    }
}

#[cfg(test)]
mod tests;
