//! The lists of an array, and its nulls: [`lists`], [`Nulls`].

use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use tfr_arrow::nested::Lists;

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
    let Some(found) = Lists::of(array) else { return (Vec::new(), ArrayRef::clone(array)) };
    let ranges = (0..array.len()).map(|row| found.range(row));
    let mut lists: Vec<_> = ranges.map(|range| (range.start, range.len())).collect();
    let used = positions.map(|position| lists[position]).filter(|(_, len)| *len > 0);
    let first = used.clone().map(|(start, _)| start).min().unwrap_or_default();
    let end = used.map(|(start, len)| start + len).max().unwrap_or_default();
    for (start, _) in &mut lists {
        *start = start.saturating_sub(first);
    }
    (lists, found.items().slice(first, end.saturating_sub(first)))
}
