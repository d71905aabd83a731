//! Reads lists of any layout row by row.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, DynComparator, FixedSizeListArray, GenericListArray, ListArray,
    OffsetSizeTrait, UInt64Array, make_comparator,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{Float16Type, Float32Type, Float64Type};
use arrow_schema::{DataType, Field};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::ColumnarValue;

use crate::comparable::values::comparable_leaves;

/// The items of the lists in a column, or of one list for all rows.
pub(super) struct ListRows {
    items: ArrayRef,
    item_nulls: Option<NullBuffer>,
    offsets: Vec<usize>,
    nulls: Option<NullBuffer>,
    is_constant: bool,
}

impl ListRows {
    /// Returns the rows, or `None` if the type is not a list.
    pub(super) fn of(value: &ColumnarValue) -> Result<Option<Self>> {
        fn offsets<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> Vec<usize> {
            lists.offsets().iter().map(|offset| offset.as_usize()).collect()
        }
        let (lists, is_constant) = match value {
            ColumnarValue::Array(lists) => (Arc::clone(lists), false),
            ColumnarValue::Scalar(list) => (list.to_array()?, true),
        };
        let (items, offsets) = match lists.data_type() {
            DataType::List(_) => (lists.as_list::<i32>().values(), offsets(lists.as_list::<i32>())),
            DataType::LargeList(_) => (lists.as_list::<i64>().values(), offsets(lists.as_list::<i64>())),
            DataType::FixedSizeList(_, length) => {
                let length = usize::try_from(*length).unwrap_or_default();
                let offsets = (0..=lists.len()).map(|row| row * length).collect();
                (lists.as_fixed_size_list().values(), offsets)
            }
            _ => return Ok(None),
        };
        let item_nulls = items.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        Ok(Some(Self { items: Arc::clone(items), item_nulls, offsets, nulls: lists.nulls().cloned(), is_constant }))
    }

    pub(super) fn items(&self) -> &ArrayRef {
        &self.items
    }

    /// Returns the places of the items in a row, or `None` if the list is null.
    pub(super) fn range(&self, row: usize) -> Option<Range<usize>> {
        let row = if self.is_constant { 0 } else { row };
        let is_null = self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        (!is_null).then(|| self.offsets[row]..self.offsets[row + 1])
    }

    pub(super) fn is_null_item(&self, item: usize) -> bool {
        self.item_nulls.as_ref().is_some_and(|nulls| nulls.is_null(item))
    }

    /// Returns the lists without their NULL items.
    pub(super) fn without_null_items(&self) -> Result<ColumnarValue> {
        let mut retained = Vec::new();
        let mut lengths = Vec::with_capacity(self.offsets.len());
        for row in 0..self.offsets.len() - 1 {
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
        let array: ArrayRef = match array.data_type() {
            DataType::List(item) => {
                let (_, offsets, _, nulls) = array.as_list::<i32>().clone().into_parts();
                Arc::new(GenericListArray::<i32>::try_new(Arc::clone(item), offsets, items, nulls)?)
            }
            DataType::LargeList(item) => {
                let (_, offsets, _, nulls) = array.as_list::<i64>().clone().into_parts();
                Arc::new(GenericListArray::<i64>::try_new(Arc::clone(item), offsets, items, nulls)?)
            }
            DataType::FixedSizeList(item, length) => {
                Arc::new(FixedSizeListArray::try_new(Arc::clone(item), *length, items, array.nulls().cloned())?)
            }
            _ => return Ok(lists.clone()),
        };
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
