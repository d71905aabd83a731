//! Ranges of bytes in requests.

use std::ops::Range;

use object_store::GetRange;

/// Returns the bytes of a file of `size` bytes that a request asks for; `None` if it has no such bytes.
pub fn range_of(asked: Option<&GetRange>, size: u64) -> Option<Range<u64>> {
    let range = match asked {
        None => return Some(0..size),
        Some(GetRange::Bounded(range)) => range.start..range.end.min(size),
        Some(GetRange::Offset(start)) => *start..size,
        Some(GetRange::Suffix(len)) => size.saturating_sub(*len)..size,
    };
    (range.start < range.end).then_some(range)
}
