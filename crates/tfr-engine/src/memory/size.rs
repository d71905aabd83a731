//! Computes the bytes of rows if each has its own copy of its values.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray as _, RecordBatch, RecordBatchOptions, UInt32Array, make_array};
use arrow::compute::take;
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, StringViewType};
use arrow::error::ArrowError;
use arrow_select::dictionary::garbage_collect_any_dictionary;

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
    /// are counted for each row.
    pub(super) fn of(array: &'a dyn Array) -> Self {
        match array.data_type() {
            DataType::Utf8 => Self::ranges(array.as_string::<i32>().value_offsets(), Self::Fixed(1)),
            DataType::LargeUtf8 => Self::ranges(array.as_string::<i64>().value_offsets(), Self::Fixed(1)),
            DataType::Binary => Self::ranges(array.as_binary::<i32>().value_offsets(), Self::Fixed(1)),
            DataType::LargeBinary => Self::ranges(array.as_binary::<i64>().value_offsets(), Self::Fixed(1)),
            DataType::Utf8View => Self::views::<StringViewType>(array),
            DataType::BinaryView => Self::views::<BinaryViewType>(array),
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                Self::ranges(list.value_offsets(), Self::of(list.values().as_ref()))
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                Self::ranges(list.value_offsets(), Self::of(list.values().as_ref()))
            }
            DataType::Map(..) => {
                let map = array.as_map();
                Self::ranges(map.value_offsets(), Self::of(map.entries()))
            }
            DataType::FixedSizeList(_, len) => {
                let len = usize::try_from(*len).unwrap_or_default();
                match Self::of(array.as_fixed_size_list().values().as_ref()) {
                    Self::Fixed(size) => Self::Fixed(size.saturating_mul(len as u64)),
                    Self::Each(size) => Self::Each(Box::new(move |row| (row * len..(row + 1) * len).map(&size).sum())),
                }
            }
            DataType::Struct(_) => {
                let mut fixed = 0;
                let mut each = Vec::new();
                for column in array.as_struct().columns() {
                    match Self::of(column.as_ref()) {
                        Self::Fixed(size) => fixed += size,
                        Self::Each(size) => each.push(size),
                    }
                }
                match each.is_empty() {
                    true => Self::Fixed(fixed),
                    false => Self::Each(Box::new(move |row| fixed + each.iter().map(|size| size(row)).sum::<u64>())),
                }
            }
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                // All keys are null.
                if dictionary.values().is_empty() {
                    return Self::Fixed(0);
                }
                match Self::of(dictionary.values().as_ref()) {
                    Self::Fixed(size) => Self::Fixed(size),
                    Self::Each(size) => {
                        let (keys, len) = (dictionary.normalized_keys(), dictionary.values().len());
                        let keys_of = dictionary.keys();
                        // The keys of nulls may point anywhere.
                        Self::Each(Box::new(move |row| match keys_of.is_valid(row) && keys[row] < len {
                            true => size(keys[row]),
                            false => 0,
                        }))
                    }
                }
            }
            DataType::FixedSizeBinary(width) => Self::Fixed(u64::try_from(*width).unwrap_or_default()),
            other => Self::Fixed(other.primitive_width().unwrap_or(size_of::<u64>()) as u64),
        }
    }

    fn ranges<O: Copy + TryInto<usize>>(offsets: &'a [O], items: Self) -> Self {
        let range = move |row: usize| {
            let at = |index: usize| offsets[index].try_into().unwrap_or_default();
            at(row)..at(row + 1)
        };
        match items {
            Self::Fixed(size) => Self::Each(Box::new(move |row| range(row).len() as u64 * size)),
            Self::Each(size) => Self::Each(Box::new(move |row| range(row).map(&size).sum())),
        }
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
    fn total(&self, rows: usize) -> u64 {
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
        DataType::FixedSizeList(..) => true,
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

/// Removes unused values of views and dictionaries. Other arrays have already been copied.
fn without_unused(array: ArrayRef) -> Result<ArrayRef, ArrowError> {
    Ok(match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        DataType::Dictionary(..) => garbage_collect_any_dictionary(array.as_any_dictionary())?,
        data_type if data_type.is_nested() => {
            let data = array.to_data();
            let children =
                data.child_data().iter().map(|child| Ok(without_unused(make_array(child.clone()))?.to_data()));
            let children = children.collect::<Result<Vec<_>, ArrowError>>()?;
            make_array(data.into_builder().child_data(children).build()?)
        }
        _ => array,
    })
}
