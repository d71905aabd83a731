//! Computes the bytes of rows if each has its own copy of its values.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray as _, OffsetSizeTrait, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, StringViewType, UnionMode};
use arrow::error::ArrowError;
use arrow_select::dictionary::garbage_collect_any_dictionary;
use tfr_arrow::nested::{Encoded, Lists, map_array};

/// Bytes that a batch may hold beyond twice the size of its rows before it is copied. Copying less is not worth it.
const SLACK: usize = 64 << 10;

/// The size in bytes of each row of an array.
pub(super) enum RowSizes<'a> {
    /// The size of every row.
    Fixed(u64),
    /// Returns the size of a row.
    Each(Box<dyn Fn(usize) -> u64 + 'a>),
}

impl<'a> RowSizes<'a> {
    /// Returns the sizes of the rows of `array`. Bitmaps and offsets are not counted. Texts of views and dictionaries
    /// are counted for each row, and so are items that several list views share.
    pub(super) fn of(array: &'a dyn Array) -> Self {
        if let Some(lists) = Lists::of(array) {
            return match (Self::of(lists.items()), lists.fixed_len()) {
                (Self::Fixed(size), Some(len)) => Self::Fixed(size.saturating_mul(len as u64)),
                (Self::Fixed(size), None) => Self::Each(Box::new(move |row| lists.range(row).len() as u64 * size)),
                (Self::Each(size), _) => Self::Each(Box::new(move |row| lists.range(row).map(&size).sum())),
            };
        }
        if let Some(encoded) = Encoded::of(array) {
            return match Self::of(encoded.values()) {
                Self::Fixed(size) => Self::Fixed(if encoded.values().is_empty() { 0 } else { size }),
                Self::Each(size) => Self::Each(Box::new(move |row| encoded.position(row).map_or(0, &size))),
            };
        }
        match array.data_type() {
            DataType::Struct(_) => Self::sum(array.as_struct().columns().iter()),
            // A sparse union has a value of each type in every row.
            DataType::Union(fields, UnionMode::Sparse) => {
                Self::sum(fields.iter().map(|(id, _)| array.as_union().child(id)))
            }
            DataType::Union(fields, UnionMode::Dense) => {
                let union = array.as_union();
                let sizes: HashMap<i8, Self> = fields.iter().map(|(id, _)| (id, Self::of(union.child(id)))).collect();
                let size =
                    move |row| sizes.get(&union.type_id(row)).map_or(0, |sizes| sizes.row(union.value_offset(row)));
                Self::Each(Box::new(size))
            }
            DataType::Utf8 => Self::bytes(array.as_string::<i32>().value_offsets()),
            DataType::LargeUtf8 => Self::bytes(array.as_string::<i64>().value_offsets()),
            DataType::Binary => Self::bytes(array.as_binary::<i32>().value_offsets()),
            DataType::LargeBinary => Self::bytes(array.as_binary::<i64>().value_offsets()),
            DataType::Utf8View => Self::views::<StringViewType>(array),
            DataType::BinaryView => Self::views::<BinaryViewType>(array),
            DataType::FixedSizeBinary(width) => Self::Fixed(u64::try_from(*width).unwrap_or_default()),
            other => Self::Fixed(other.primitive_width().unwrap_or(size_of::<u64>()) as u64),
        }
    }

    fn sum(columns: impl Iterator<Item = &'a ArrayRef>) -> Self {
        let (mut fixed, mut each) = (0_u64, Vec::new());
        for column in columns {
            match Self::of(column) {
                Self::Fixed(size) => fixed += size,
                Self::Each(size) => each.push(size),
            }
        }
        match each.is_empty() {
            true => Self::Fixed(fixed),
            false => Self::Each(Box::new(move |row| fixed + each.iter().map(|size| size(row)).sum::<u64>())),
        }
    }

    /// Returns the sizes of texts or bytes.
    fn bytes<O: OffsetSizeTrait>(offsets: &'a [O]) -> Self {
        Self::Each(Box::new(move |row| (offsets[row + 1] - offsets[row]).as_usize() as u64))
    }

    fn views<T: ByteViewType>(array: &'a dyn Array) -> Self {
        let views = array.as_byte_view::<T>().views();
        // The low half of a view begins with its length.
        Self::Each(Box::new(move |row| u64::from(views[row] as u32)))
    }

    /// Returns the bytes of one row.
    pub(super) fn row(&self, row: usize) -> u64 {
        match self {
            Self::Fixed(size) => *size,
            Self::Each(size) => size(row),
        }
    }

    /// Returns the bytes of the first `rows` rows.
    pub(super) fn total(&self, rows: usize) -> u64 {
        match self {
            Self::Fixed(size) => size.saturating_mul(rows as u64),
            Self::Each(size) => (0..rows).map(size).fold(0, u64::saturating_add),
        }
    }
}

/// Whether rows of a type may differ in length, or share memory.
pub(super) fn varies(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => fields.iter().any(|field| varies(field.data_type())),
        DataType::Dictionary(_, values) => varies(values),
        other => {
            !other.is_primitive() && !matches!(other, DataType::Boolean | DataType::Null | DataType::FixedSizeBinary(_))
        }
    }
}

/// The limits of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Most {
    /// Bytes, unless a single row is longer.
    pub bytes: u64,
    pub rows: usize,
    /// Maximum bytes of a row. A longer one is an error.
    pub row_bytes: u64,
}

/// Splits the batch into pieces within the limits `most`.
pub(super) fn cut(batch: RecordBatch, most: Most) -> Result<Vec<RecordBatch>, RowTooLong> {
    let ends = ends(&batch, most)?;
    if ends.len() <= 1 {
        return Ok(vec![batch]);
    }
    let starts = std::iter::once(0).chain(ends.iter().copied());
    Ok(starts.zip(&ends).map(|(start, end)| batch.slice(start, end - start)).collect())
}

/// A row exceeds the limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowTooLong {
    /// The largest column, and its bytes.
    column: String,
    column_bytes: u64,
    bytes: u64,
    limit: u64,
}

impl fmt::Display for RowTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { column, column_bytes, bytes, limit } = self;
        write!(
            f,
            "a row takes {bytes} bytes, {column_bytes} of them in column {column:?}, more than the memory limit of {limit} bytes"
        )
    }
}

impl std::error::Error for RowTooLong {}

/// Returns the end index of each piece of the batch.
fn ends(batch: &RecordBatch, most: Most) -> Result<Vec<usize>, RowTooLong> {
    let rows = batch.num_rows();
    let sizes: Vec<RowSizes<'_>> = batch.columns().iter().map(|column| RowSizes::of(column.as_ref())).collect();
    let total = sizes.iter().map(|sizes| sizes.total(rows)).fold(0, u64::saturating_add);
    if total <= most.bytes.min(most.row_bytes) && rows <= most.rows {
        return Ok(vec![rows]);
    }
    let mut ends = Vec::new();
    let (mut first, mut piece) = (0, 0_u64);
    for row in 0..rows {
        let size = sizes.iter().map(|sizes| sizes.row(row)).fold(0, u64::saturating_add);
        if size > most.row_bytes {
            return Err(too_long(batch, &sizes, row, size, most.row_bytes));
        }
        if row > first && (piece.saturating_add(size) > most.bytes || row - first >= most.rows) {
            ends.push(row);
            (first, piece) = (row, 0);
        }
        piece = piece.saturating_add(size);
    }
    ends.push(rows);
    Ok(ends)
}

fn too_long(batch: &RecordBatch, sizes: &[RowSizes<'_>], row: usize, bytes: u64, limit: u64) -> RowTooLong {
    let schema = batch.schema_ref();
    let columns = schema.fields().iter().zip(sizes.iter().map(|sizes| sizes.row(row)));
    let longest = columns.max_by_key(|(_, bytes)| *bytes);
    let (column, column_bytes) = longest.map(|(field, bytes)| (field.name().clone(), bytes)).unwrap_or_default();
    RowTooLong { column, column_bytes, bytes, limit }
}

/// Removes memory that only other rows need: copies columns that hold more than twice the size of their rows.
///
/// Batches are often slices, or views of the pages of a file. A retained batch keeps all of that memory, and is
/// counted with all of it.
pub(super) fn compacted(batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
    let rows = batch.num_rows();
    let wastes = |column: &ArrayRef| {
        let needed = RowSizes::of(column.as_ref()).total(rows).saturating_add(16 * rows as u64);
        let needed = usize::try_from(needed).unwrap_or(usize::MAX);
        column.get_buffer_memory_size() > needed.saturating_mul(2).saturating_add(SLACK)
    };
    let wasteful: Vec<bool> = batch.columns().iter().map(wastes).collect();
    if !wasteful.contains(&true) {
        return Ok(batch);
    }
    let all = UInt32Array::from_iter_values(0..u32::try_from(rows).unwrap_or(u32::MAX));
    let columns = batch.columns().iter().zip(&wasteful).map(|(column, wasteful)| match wasteful {
        true => without_unused(take(column.as_ref(), &all, None)?),
        false => Ok(ArrayRef::clone(column)),
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(batch.schema(), columns, &options)
}

/// Returns the bytes of values that rows of a batch share, if each had its own, in columns of which `batch_rows` such rows
/// take more than `least` bytes.
pub(super) fn shared_bytes(batch: &RecordBatch, batch_rows: usize, least: u64) -> u64 {
    let rows = batch.num_rows();
    let shared = batch.columns().iter().map(|column| {
        let needed = RowSizes::of(column.as_ref()).total(rows);
        let merged = u128::from(needed) * batch_rows as u128 / rows.max(1) as u128;
        let held = column.get_buffer_memory_size().saturating_mul(2).saturating_add(SLACK);
        if merged > u128::from(least) && needed > held as u64 { needed } else { 0 }
    });
    shared.fold(0, u64::saturating_add)
}

/// Removes unused values of views, list views and dictionaries. Other arrays have already been copied.
fn without_unused(array: ArrayRef) -> Result<ArrayRef, ArrowError> {
    Ok(match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        DataType::Dictionary(..) => garbage_collect_any_dictionary(array.as_any_dictionary())?,
        // A list view keeps its items where they are; a list has only those of its rows.
        DataType::ListView(item) => {
            let lists = cast(&array, &DataType::List(Arc::clone(item)))?;
            cast(&without_unused(lists)?, array.data_type())?
        }
        DataType::LargeListView(item) => {
            let lists = cast(&array, &DataType::LargeList(Arc::clone(item)))?;
            cast(&without_unused(lists)?, array.data_type())?
        }
        _ => map_array(&array, |child| without_unused(Arc::clone(child)))?,
    })
}

#[cfg(test)]
mod tests;
