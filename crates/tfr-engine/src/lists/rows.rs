//! Reads lists of any layout row by row.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, DynComparator, ListArray, UInt64Array, make_comparator,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{Float16Type, Float32Type, Float64Type};
use arrow_schema::{DataType, Field};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::ColumnarValue;
use tfr_arrow::nested::{Lists, with_children};

use crate::comparable::values::comparable_leaves;

/// The items of the lists in a column, or of one list for all rows.
pub(super) struct ListRows {
    items: ArrayRef,
    item_nulls: Option<NullBuffer>,
    ranges: Vec<Range<usize>>,
    nulls: Option<NullBuffer>,
    is_constant: bool,
}

impl ListRows {
    /// Returns the rows, or `None` if the type is not a list.
    pub(super) fn of(value: &ColumnarValue) -> Result<Option<Self>> {
        let (lists, is_constant) = match value {
            ColumnarValue::Array(lists) => (Arc::clone(lists), false),
            ColumnarValue::Scalar(list) => (list.to_array()?, true),
        };
        let Some(found) = Lists::of(&lists).filter(|_| lists.data_type().is_list()) else { return Ok(None) };
        let ranges = (0..lists.len()).map(|row| found.range(row)).collect();
        let items = found.items().slice(0, found.items().len());
        let item_nulls = items.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        Ok(Some(Self { items, item_nulls, ranges, nulls: lists.nulls().cloned(), is_constant }))
    }

    pub(super) fn items(&self) -> &ArrayRef {
        &self.items
    }

    /// Returns the places of the items in a row, or `None` if the list is null.
    pub(super) fn range(&self, row: usize) -> Option<Range<usize>> {
        let row = if self.is_constant { 0 } else { row };
        let is_null = self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        (!is_null).then(|| self.ranges[row].clone())
    }

    pub(super) fn is_null_item(&self, item: usize) -> bool {
        self.item_nulls.as_ref().is_some_and(|nulls| nulls.is_null(item))
    }

    /// Returns the lists without their NULL items.
    pub(super) fn without_null_items(&self) -> Result<ColumnarValue> {
        let mut retained = Vec::new();
        let mut lengths = Vec::with_capacity(self.ranges.len());
        for row in 0..self.ranges.len() {
            let before = retained.len();
            let items = self.range(row).into_iter().flatten().filter(|item| !self.is_null_item(*item));
            retained.extend(items.map(|item| item as u64));
            lengths.push(retained.len() - before);
        }
        let items = take(&self.items, &UInt64Array::from(retained), None)?;
        let item = Arc::new(Field::new_list_field(items.data_type().clone(), true));
        let lists = ListArray::try_new(item, OffsetBuffer::from_lengths(lengths), items, self.nulls.clone())?;
        Ok(match self.is_constant {
            true => ColumnarValue::Scalar(ScalarValue::List(Arc::new(lists))),
            false => ColumnarValue::Array(Arc::new(lists)),
        })
    }

    /// Returns the lists with one NaN for all. Zeros keep their signs.
    pub(super) fn with_one_nan(&self, lists: &ColumnarValue) -> Result<ColumnarValue> {
        fn one_nan<T: ArrowPrimitiveType>(items: &ArrayRef, one: impl Fn(T::Native) -> T::Native) -> ArrayRef {
            Arc::new(items.as_primitive::<T>().unary::<_, T>(one))
        }
        let items = match self.items.data_type() {
            DataType::Float64 => one_nan::<Float64Type>(&self.items, |x| if x.is_nan() { f64::NAN } else { x }),
            DataType::Float32 => one_nan::<Float32Type>(&self.items, |x| if x.is_nan() { f32::NAN } else { x }),
            DataType::Float16 => one_nan::<Float16Type>(&self.items, |x| if x.is_nan() { half::f16::NAN } else { x }),
            _ => return Ok(lists.clone()),
        };
        let array = lists.to_array(1)?;
        let array = with_children(&array, array.data_type(), &[items])?;
        Ok(match lists {
            ColumnarValue::Array(_) => ColumnarValue::Array(array),
            ColumnarValue::Scalar(_) => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
        })
    }
}

/// Returns a comparison of the values of two arrays of one type by PostgreSQL's rules. NULL equals NULL and is greater
/// than all others, also inside of values.
pub(super) fn comparator(left: &ArrayRef, right: &ArrayRef) -> Result<DynComparator> {
    if left.data_type().is_null() && right.data_type().is_null() {
        return Ok(Box::new(|_, _| std::cmp::Ordering::Equal));
    }
    let options = SortOptions { descending: false, nulls_first: false };
    Ok(make_comparator(&comparable_leaves(left)?, &comparable_leaves(right)?, options)?)
}
