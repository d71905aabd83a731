//! The lists of an array, and its nulls: [`lists`], [`Nulls`].

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{ArrowNativeType, NullBuffer};
use arrow_schema::DataType;

/// The elements of an array that are themselves null.
#[derive(Default)]
pub(crate) struct Nulls(Option<NullBuffer>);

impl Nulls {
    pub(crate) fn of(array: &ArrayRef) -> Self {
        Self(array.logical_nulls().filter(|nulls| nulls.null_count() > 0))
    }

    /// Whether no element is null.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether the element at this position is null.
    #[inline]
    pub(crate) fn any(&self, position: usize) -> bool {
        self.0.as_ref().is_some_and(|nulls| nulls.is_null(position))
    }
}

/// Start and length of every list of an array, and the elements that the lists at `positions` use.
pub(crate) fn lists(
    array: &ArrayRef,
    positions: impl Iterator<Item = usize> + Clone,
) -> (Vec<(usize, usize)>, ArrayRef) {
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
            let entries: ArrayRef = Arc::new(map.entries().clone());
            (offsets(map.offsets()), entries)
        }
        _ => {
            let list = array.as_list::<i32>();
            (offsets(list.offsets()), ArrayRef::clone(list.values()))
        }
    };
    let used = positions.map(|position| lists[position]).filter(|(_, len)| *len > 0);
    let first = used.clone().map(|(start, _)| start).min().unwrap_or_default();
    let end = used.map(|(start, len)| start + len).max().unwrap_or_default();
    for (start, _) in &mut lists {
        *start = start.saturating_sub(first);
    }
    (lists, elements.slice(first, end.saturating_sub(first)))
}
