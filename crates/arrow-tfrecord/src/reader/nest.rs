//! Builds dictionaries, runs and lists around values.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use arrow_array::types::{
    ArrowDictionaryKeyType, Int8Type, Int16Type, Int32Type, Int64Type, RunEndIndexType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, FixedSizeListArray, GenericListArray, GenericListViewArray, OffsetSizeTrait,
    PrimitiveArray, RunArray, UInt64Array, new_empty_array,
};
use arrow_buffer::{ArrowNativeType, NullBuffer, ScalarBuffer};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, FieldRef};
use arrow_select::take::take;

use super::mismatch::Mismatch;
use super::restore::{offsets, restore};
use super::values::{Blobs, DecodedValues};
use crate::dtype::{of_type, retyped};
use crate::mapping::Conversion;

/// Converts `values` to an array of `data_type`, which must not be a list.
pub(super) fn elements(
    values: DecodedValues,
    nulls: Option<NullBuffer>,
    conversion: &Conversion,
    data_type: &DataType,
) -> Result<ArrayRef, Mismatch> {
    match data_type {
        DataType::Dictionary(keys, value_type) => {
            let distinct = Distinct::new(&values, nulls.as_ref());
            let values = distinct.restore(values, None, conversion, value_type)?;
            dictionary(keys, &distinct.positions, nulls, values)
        }
        DataType::RunEndEncoded(_, value_field) => {
            if values.len() == 0 {
                return Ok(new_empty_array(data_type));
            }
            let runs = Distinct::runs(&values, nulls.as_ref());
            let nulls = nulls.map(|nulls| runs.first.iter().map(|element| nulls.is_valid(*element)).collect());
            let len = values.len();
            let run_ends = runs.first.iter().skip(1).copied().chain([len]);
            let values = runs.restore(values, nulls, conversion, value_field.data_type())?;
            runs_of(run_ends, &values, data_type)
        }
        plain => restore(values, nulls, conversion, plain),
    }
}

/// The distinct values, and the index of each element's value.
struct Distinct {
    /// The first element with each value.
    first: Vec<usize>,
    /// The index in `first` of each element's value.
    positions: Vec<usize>,
}

impl Distinct {
    fn new(values: &DecodedValues, nulls: Option<&NullBuffer>) -> Self {
        fn distinct<T: Eq + Hash>(len: usize, nulls: Option<&NullBuffer>, value: impl Fn(usize) -> T) -> Distinct {
            let mut seen = HashMap::new();
            let mut first = Vec::new();
            let position = |element| {
                if nulls.is_some_and(|nulls| nulls.is_null(element)) {
                    return 0;
                }
                *seen.entry(value(element)).or_insert_with(|| {
                    first.push(element);
                    first.len() - 1
                })
            };
            let positions = (0..len).map(position).collect();
            Distinct { first, positions }
        }
        let len = values.len();
        match values {
            DecodedValues::Int64(values) => distinct(len, nulls, |element| values[element]),
            DecodedValues::Float(values) => distinct(len, nulls, |element| values[element].to_bits()),
            DecodedValues::Bytes(values) => distinct(len, nulls, |element| values.get(element)),
        }
    }

    /// Groups runs of equal values.
    fn runs(values: &DecodedValues, nulls: Option<&NullBuffer>) -> Self {
        let is_null = |element: usize| nulls.is_some_and(|nulls| nulls.is_null(element));
        let equal = |a: usize, b: usize| match values {
            DecodedValues::Int64(values) => values[a] == values[b],
            DecodedValues::Float(values) => values[a].to_bits() == values[b].to_bits(),
            DecodedValues::Bytes(values) => values.get(a) == values.get(b),
        };
        let starts = |element: &usize| {
            let before = element.wrapping_sub(1);
            *element == 0 || is_null(*element) != is_null(before) || !(is_null(*element) || equal(*element, before))
        };
        Self { first: (0..values.len()).filter(starts).collect(), positions: Vec::new() }
    }

    /// Builds an array of the distinct values.
    fn restore(
        &self,
        values: DecodedValues,
        nulls: Option<NullBuffer>,
        conversion: &Conversion,
        data_type: &DataType,
    ) -> Result<ArrayRef, Mismatch> {
        let first = self.first.iter();
        let distinct = match values {
            DecodedValues::Int64(values) => DecodedValues::Int64(first.map(|element| values[*element]).collect()),
            DecodedValues::Float(values) => DecodedValues::Float(first.map(|element| values[*element]).collect()),
            DecodedValues::Bytes(values) => {
                let mut distinct = Blobs::default();
                first.for_each(|element| distinct.push(values.get(*element)));
                DecodedValues::Bytes(distinct)
            }
        };
        restore(distinct, nulls, conversion, data_type).map_err(|mismatch| match mismatch {
            Mismatch::Value { element, value } => Mismatch::Value { element: self.first[element], value },
            other => other,
        })
    }
}

/// Encodes nested values as a dictionary or as runs. Candidates for equal values are found by their text and confirmed
/// by Arrow's comparison.
pub(super) fn packed(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, Mismatch> {
    let nulls = array.logical_nulls();
    let is_null = |element: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(element));
    let equal = |one: usize, other: usize| array.slice(one, 1) == array.slice(other, 1);
    let values = |first: &[usize]| -> Result<ArrayRef, Mismatch> {
        let first = UInt64Array::from_iter_values(first.iter().map(|element| *element as u64));
        Ok(of_type(take(array, &first, None)?, array.data_type())?)
    };
    match data_type {
        DataType::Dictionary(keys, _) => {
            let options = FormatOptions::default();
            let formatter = ArrayFormatter::try_new(array, &options)?;
            let mut seen: HashMap<String, Vec<usize>> = HashMap::new();
            let (mut first, mut positions) = (Vec::new(), Vec::with_capacity(array.len()));
            for element in 0..array.len() {
                if is_null(element) {
                    positions.push(0);
                    continue;
                }
                let alike = seen.entry(formatter.value(element).to_string()).or_default();
                let known = alike.iter().find(|position| equal(first[**position], element)).copied();
                positions.push(known.unwrap_or_else(|| {
                    first.push(element);
                    alike.push(first.len() - 1);
                    first.len() - 1
                }));
            }
            dictionary(keys, &positions, nulls.clone(), values(&first)?)
        }
        DataType::RunEndEncoded(..) if array.is_empty() => Ok(new_empty_array(data_type)),
        _ => {
            let starts = |element: &usize| *element == 0 || !equal(*element - 1, *element);
            let first: Vec<_> = (0..array.len()).filter(starts).collect();
            runs_of(first.iter().skip(1).copied().chain([array.len()]), &values(&first)?, data_type)
        }
    }
}

fn dictionary(
    keys: &DataType,
    positions: &[usize],
    nulls: Option<NullBuffer>,
    values: ArrayRef,
) -> Result<ArrayRef, Mismatch> {
    fn of_keys<K: ArrowDictionaryKeyType>(
        positions: &[usize],
        nulls: Option<NullBuffer>,
        values: ArrayRef,
    ) -> Result<ArrayRef, Mismatch> {
        K::Native::from_usize(values.len().saturating_sub(1)).ok_or(Mismatch::TooMany)?;
        let keys: ScalarBuffer<K::Native> = positions.iter().map(|position| K::Native::usize_as(*position)).collect();
        Ok(Arc::new(DictionaryArray::<K>::try_new(PrimitiveArray::new(keys, nulls), values)?))
    }

    match keys {
        DataType::Int8 => of_keys::<Int8Type>(positions, nulls, values),
        DataType::Int16 => of_keys::<Int16Type>(positions, nulls, values),
        DataType::Int32 => of_keys::<Int32Type>(positions, nulls, values),
        DataType::Int64 => of_keys::<Int64Type>(positions, nulls, values),
        DataType::UInt8 => of_keys::<UInt8Type>(positions, nulls, values),
        DataType::UInt16 => of_keys::<UInt16Type>(positions, nulls, values),
        DataType::UInt32 => of_keys::<UInt32Type>(positions, nulls, values),
        _ => of_keys::<UInt64Type>(positions, nulls, values),
    }
}

/// Builds runs of `data_type` that end at `ends`.
fn runs_of(ends: impl Iterator<Item = usize>, values: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, Mismatch> {
    fn of_ends<R: RunEndIndexType>(
        ends: impl Iterator<Item = usize>,
        values: &ArrayRef,
        data_type: &DataType,
    ) -> Result<ArrayRef, Mismatch> {
        let ends: Option<Vec<_>> = ends.map(R::Native::from_usize).collect();
        let ends = PrimitiveArray::<R>::new(ends.ok_or(Mismatch::TooMany)?.into(), None);
        // The fields of the type may have other names than Arrow's defaults.
        Ok(retyped(&RunArray::try_new(&ends, values.as_ref())?, data_type)?)
    }

    let DataType::RunEndEncoded(end, _) = data_type else { return Err(Mismatch::TooMany) };
    match end.data_type() {
        DataType::Int16 => of_ends::<Int16Type>(ends, values, data_type),
        DataType::Int32 => of_ends::<Int32Type>(ends, values, data_type),
        _ => of_ends::<Int64Type>(ends, values, data_type),
    }
}

/// Builds lists of `data_type` that end at `ends`.
pub(super) fn lists(
    data_type: &DataType,
    elements: ArrayRef,
    ends: &[usize],
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, Mismatch> {
    fn list<O: OffsetSizeTrait>(
        item: &FieldRef,
        elements: ArrayRef,
        ends: &[usize],
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, Mismatch> {
        Ok(Arc::new(GenericListArray::<O>::try_new(FieldRef::clone(item), offsets(ends)?, elements, nulls)?))
    }

    fn view<O: OffsetSizeTrait>(
        item: &FieldRef,
        elements: ArrayRef,
        ends: &[usize],
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, Mismatch> {
        let offsets = offsets::<O>(ends)?;
        let sizes = offsets.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let starts = offsets.inner().slice(0, ends.len());
        Ok(Arc::new(GenericListViewArray::<O>::try_new(FieldRef::clone(item), starts, sizes, elements, nulls)?))
    }

    match data_type {
        DataType::List(item) => list::<i32>(item, elements, ends, nulls),
        DataType::LargeList(item) => list::<i64>(item, elements, ends, nulls),
        DataType::ListView(item) => view::<i32>(item, elements, ends, nulls),
        DataType::LargeListView(item) => view::<i64>(item, elements, ends, nulls),
        DataType::FixedSizeList(item, len) => {
            let item = FieldRef::clone(item);
            Ok(Arc::new(FixedSizeListArray::try_new_with_length(item, *len, elements, nulls, ends.len())?))
        }
        _ => Ok(elements),
    }
}
