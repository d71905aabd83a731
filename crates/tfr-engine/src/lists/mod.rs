//! List functions by the rules of PostgreSQL, where NULL items are unknown in searches and greater than all others in
//! orders.
//!
//! The engine's `array_has`, which it also calls for `x = ANY(list)`, was false where the list has a NULL instead of
//! the item. `array_has_any` and `array_has_all` took NULL for a value. `array_remove` and `array_replace` changed one
//! item only, and `array_remove(list, NULL)` was NULL. `array_sort` put NULL first. Lengths and positions were
//! unsigned, so that `v[array_length(v)]` matched no function.
//!
//! Upstream: ours (a choice of meaning). Held by `tests/slt/lists.slt`: An item that is NULL may be the one that is searched.

mod any;
mod compare;
mod ranges;
mod rows;
mod sorts;
mod totals;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, GenericListArray, Int64Array, OffsetSizeTrait, UInt64Array, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::Int64Type;
use arrow_schema::{DataType, FieldRef};
use datafusion::functions_nested::{
    array_avg, array_has, array_product, array_sum, cardinality, dimension, length, position, remove, repeat, replace,
    sort,
};
use datafusion_common::{Result, ScalarValue, exec_err, internal_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};

use crate::corrected::{Corrected, Correction, on_arrays};
pub(crate) use any::{AnyItem, Comparison};
pub(crate) use compare::OrderedLists;
pub(crate) use ranges::range_function;
use rows::{ListRows, comparator};
pub(crate) use sorts::WholeSorts;
use totals::Totals;

/// Returns the functions to register in place of the engine's.
pub(crate) fn functions() -> [Arc<ScalarUDF>; 19] {
    [
        Corrected::function(length::array_length_udf(), &Length),
        Corrected::function(cardinality::cardinality_udf(), &Signed),
        Corrected::function(dimension::array_ndims_udf(), &Signed),
        Corrected::function(dimension::array_dims_udf(), &Signed),
        Corrected::function(position::array_position_udf(), &Signed),
        Corrected::function(position::array_positions_udf(), &Signed),
        Corrected::function(array_has::array_has_udf(), &Has),
        Corrected::function(array_has::array_has_any_udf(), &HasItems::Any),
        Corrected::function(array_has::array_has_all_udf(), &HasItems::All),
        Corrected::function(remove::array_remove_udf(), &Remove),
        Corrected::function(remove::array_remove_all_udf(), &Remove),
        Corrected::function(remove::array_remove_n_udf(), &Remove),
        Corrected::function(replace::array_replace_udf(), &Replace),
        Corrected::function(sort::array_sort_udf(), &Sort),
        repeat_function(),
        range_function(),
        Corrected::function(array_sum::array_sum_udf(), &Totals::Sum),
        Corrected::function(array_avg::array_avg_udf(), &Totals::Average),
        Corrected::function(array_product::array_product_udf(), &Totals::Product),
    ]
}

/// Returns `array_repeat`, whose results may be far longer than its arguments.
pub(crate) fn repeat_function() -> Arc<ScalarUDF> {
    Corrected::function(repeat::array_repeat_udf(), &Repeat)
}

/// Returns the functions that the parser and the rule call.
pub(crate) fn internal_functions() -> Vec<Arc<ScalarUDF>> {
    AnyItem::functions().into_iter().chain([compare::order_function()]).collect()
}

/// Lengths and positions are BIGINT.
#[derive(Debug)]
struct Signed;

impl Correction for Signed {
    fn return_type(&self, engine: &ScalarUDF, types: &[DataType]) -> Result<Option<DataType>> {
        Ok(Some(match engine.return_type(types)? {
            DataType::UInt64 => DataType::Int64,
            DataType::List(item) if *item.data_type() == DataType::UInt64 => {
                DataType::List(Arc::new(item.as_ref().clone().with_data_type(DataType::Int64)))
            }
            other => other,
        }))
    }

    fn invoke(&self, engine: &ScalarUDF, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let signed = args.return_field;
        let types: Vec<_> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        args.return_field = Arc::new(signed.as_ref().clone().with_data_type(engine.return_type(&types)?));
        Ok(match engine.invoke_with_args(args)? {
            ColumnarValue::Array(array) => ColumnarValue::Array(cast(&array, signed.data_type())?),
            ColumnarValue::Scalar(value) => ColumnarValue::Scalar(value.cast_to(signed.data_type())?),
        })
    }
}

/// The length in a dimension, which the engine looks up in the first item, also where there is none.
#[derive(Debug)]
struct Length;

impl Correction for Length {
    fn return_type(&self, _: &ScalarUDF, _: &[DataType]) -> Result<Option<DataType>> {
        Ok(Some(DataType::Int64))
    }

    fn invoke(&self, engine: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if args.args.len() == 1 {
            return Signed.invoke(engine, args);
        }
        on_arrays(&args.args, |arrays| {
            let [lists, dimensions] = arrays else { return exec_err!("array_length takes a list and a dimension") };
            let dimensions = dimensions.as_primitive::<Int64Type>();
            let lengths: Int64Array = (0..lists.len())
                .map(|row| match dimensions.is_valid(row) {
                    true => length_in(&lists.slice(row, 1), dimensions.value(row)),
                    false => Ok(None),
                })
                .collect::<Result<_>>()?;
            Ok(Arc::new(lengths))
        })
    }
}

/// Returns the length of a list in a dimension, where `list` is an array of one row.
fn length_in(list: &ArrayRef, dimension: i64) -> Result<Option<i64>> {
    let Some(lists) = ListRows::of(&ColumnarValue::Array(Arc::clone(list)))? else { return Ok(None) };
    let Some(items) = lists.range(0).filter(|_| dimension > 0) else { return Ok(None) };
    match (dimension, items.is_empty()) {
        (1, _) => Ok(i64::try_from(items.len()).ok()),
        (_, true) => Ok(None),
        (_, false) => length_in(&lists.items().slice(items.start, 1), dimension - 1),
    }
}

/// The engine fails where the items of a list column have another name than its own, as in files of Parquet.
#[derive(Debug)]
struct Repeat;

impl Correction for Repeat {
    fn invoke(&self, engine: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let lists = args.return_field.data_type().clone();
        on_arrays(&args.args, |arrays| {
            let [value, counts] = arrays else { return exec_err!("{} takes a value and a count", engine.name()) };
            let counts = counts.as_primitive::<Int64Type>();
            match lists {
                DataType::List(item) => repeated::<i32>(&item, value, counts),
                DataType::LargeList(item) => repeated::<i64>(&item, value, counts),
                other => internal_err!("{} of type {other}", engine.name()),
            }
        })
    }
}

fn repeated<O: OffsetSizeTrait>(item: &FieldRef, values: &ArrayRef, counts: &Int64Array) -> Result<ArrayRef> {
    let lengths: Vec<usize> =
        counts.iter().map(|count| usize::try_from(count.unwrap_or_default()).unwrap_or_default()).collect();
    let total = lengths.iter().try_fold(0_usize, |total, length| total.checked_add(*length));
    if total.and_then(O::from_usize).is_none() {
        return exec_err!("array_repeat: a batch of lists with more items than a list array may have");
    }
    let rows = lengths.iter().enumerate().flat_map(|(row, length)| std::iter::repeat_n(row as u64, *length));
    let items = take(values, &UInt64Array::from_iter_values(rows), None)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(item), offsets, items, counts.nulls().cloned())?))
}

/// `array_has(list, x)` is `x = ANY(list)`: NULL if no item is `x` and an item is NULL.
#[derive(Debug)]
struct Has;

impl Correction for Has {
    fn simplifies_as_engine(&self) -> bool {
        // To `x IN (...)`, which has this rule.
        true
    }

    fn invoke(&self, _: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [list, value] = args.args.as_slice() else { return exec_err!("array_has takes a list and a value") };
        any::evaluate(Comparison::Eq, value, list, args.number_rows)
    }
}

/// Searches for the items of the second list in the first. No item is equal to NULL.
#[derive(Debug, PartialEq, Eq)]
enum HasItems {
    Any,
    All,
}

impl Correction for HasItems {
    fn invoke(&self, engine: &ScalarUDF, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [lists, searched] = args.args.as_mut_slice() else { return exec_err!("{} takes two lists", engine.name()) };
        let (Some(first), Some(second)) = (ListRows::of(lists)?, ListRows::of(searched)?) else {
            return Ok(ColumnarValue::Scalar(ScalarValue::Boolean(None)));
        };
        let is_scalar = matches!((&*lists, &*searched), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        *searched = second.without_null_items()?;
        let found = engine.invoke_with_args(args)?.to_array(rows)?;
        let found = found.as_boolean();
        let result: BooleanArray = (0..rows)
            .map(|row| match (first.range(row), second.range(row)) {
                (Some(_), Some(items)) => {
                    let unknown = *self == Self::All && items.into_iter().any(|item| second.is_null_item(item));
                    Some(found.is_valid(row) && found.value(row) && !unknown)
                }
                _ => None,
            })
            .collect();
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
            false => ColumnarValue::Array(Arc::new(result)),
        })
    }
}

/// Removes all items that are not distinct from a value, or the first of them.
#[derive(Debug)]
struct Remove;

impl Correction for Remove {
    fn invoke(&self, engine: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        on_arrays(&args.args, |arrays| {
            let (list, value, limit) = match arrays {
                [list, value] => (list, value, None),
                [list, value, limit] => (list, value, Some(limit.as_primitive::<Int64Type>())),
                _ => return exec_err!("{} takes a list and a value", engine.name()),
            };
            match list.data_type() {
                DataType::List(item) => removed(list.as_list::<i32>(), item, value, limit),
                DataType::LargeList(item) => removed(list.as_list::<i64>(), item, value, limit),
                DataType::Null => Ok(new_null_array(&DataType::Null, list.len())),
                other => exec_err!("{} takes a list, found {other}", engine.name()),
            }
        })
    }
}

fn removed<O: OffsetSizeTrait>(
    lists: &GenericListArray<O>,
    item: &FieldRef,
    value: &ArrayRef,
    limit: Option<&Int64Array>,
) -> Result<ArrayRef> {
    let compare = comparator(lists.values(), value)?;
    let mut retained = Vec::new();
    let mut lengths = Vec::with_capacity(lists.len());
    for (row, range) in lists.offsets().windows(2).enumerate() {
        let before = retained.len();
        if lists.is_valid(row) {
            let mut left = limit.map_or(i64::MAX, |limit| limit.value(row));
            for index in range[0].as_usize()..range[1].as_usize() {
                if left > 0 && compare(index, row).is_eq() {
                    left -= 1;
                } else {
                    retained.push(index as u64);
                }
            }
        }
        lengths.push(retained.len() - before);
    }
    let items = take(lists.values(), &UInt64Array::from(retained), None)?;
    let nulls = NullBuffer::union(lists.nulls(), limit.and_then(|limit| limit.nulls()));
    Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(item), OffsetBuffer::from_lengths(lengths), items, nulls)?))
}

/// Replaces all items that are not distinct from a value. The engine's function replaces the first.
#[derive(Debug)]
struct Replace;

impl Correction for Replace {
    fn invoke(&self, _: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        replace::array_replace_all_udf().invoke_with_args(args)
    }
}

/// Sorts items with NULL last, or first where the order is descending, as ORDER BY does.
#[derive(Debug)]
struct Sort;

impl Correction for Sort {
    fn invoke(&self, engine: &ScalarUDF, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let text = |text: &str| ColumnarValue::Scalar(ScalarValue::Utf8(Some(text.to_owned())));
        let rows = args.number_rows;
        let list = match args.args.first_mut() {
            Some(list) => list,
            None => return internal_err!("array_sort without a list"),
        };
        // A NaN that is computed has a sign, and would be less than all numbers.
        if let Some(sorted) = ListRows::of(list)? {
            *list = sorted.with_one_nan(list)?;
        }
        if args.args.len() == 1 {
            args.args.push(text("ASC"));
        }
        if args.args.len() == 2 {
            let order = args.args[1].to_array(rows.max(1))?;
            let order = cast(&order, &DataType::Utf8)?;
            let order = order.as_string::<i32>();
            let is_descending = !order.is_empty() && order.is_valid(0) && order.value(0).eq_ignore_ascii_case("DESC");
            args.args.push(text(if is_descending { "NULLS FIRST" } else { "NULLS LAST" }));
        }
        args.arg_fields
            .resize_with(args.args.len(), || Arc::new(arrow_schema::Field::new("order", DataType::Utf8, false)));
        engine.invoke_with_args(args)
    }
}
