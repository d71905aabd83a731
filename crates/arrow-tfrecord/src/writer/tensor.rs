//! Serializes arrays as tensors: [`serialize`].

use std::fmt;
use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use arrow_schema::DataType;
use tfr_arrow::nested::{Lists, item};

use super::values::{BytesValues, bytes};

use crate::dtype::{STRING, TensorShape, dtype, value_type};
use crate::lists::{Nulls, lists};

/// Serialized tensors, concatenated.
#[derive(Debug, Default)]
pub(crate) struct SerializedTensors {
    pub(crate) data: Vec<u8>,
    pub(crate) lengths: Vec<usize>,
}

/// Why an element cannot be a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoTensor {
    /// It contains a null.
    Null,
    /// Its lists have different lengths.
    Uneven,
    /// The number of its values does not fit the shape.
    Count { found: usize, shape: Vec<Option<i64>> },
}

impl fmt::Display for NoTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("a null, which a tensor cannot represent"),
            Self::Uneven => f.write_str("lists of different lengths, which make no tensor"),
            Self::Count { found, shape } => {
                let sizes: Vec<_> =
                    shape.iter().map(|size| size.map_or("-1".to_owned(), |size| size.to_string())).collect();
                write!(f, "{found} values, which make no tensor of shape [{}]", sizes.join(", "))
            }
        }
    }
}

/// Serializes every element of `array`, and returns the elements that cannot be tensors, with the reason. These and
/// nulls have no bytes. `None` if the values have no dtype.
pub(crate) fn serialize(array: &ArrayRef, shape: &TensorShape) -> Option<(SerializedTensors, Vec<(usize, NoTensor)>)> {
    let (lists, shapes) = match shape {
        TensorShape::Beside => {
            let fields = array.as_struct_opt()?;
            let shapes = fields.column_by_name("shape")?;
            let sizes = Elements::within(shapes);
            let wide = arrow_cast::cast(&sizes.leaf, &DataType::Int64).ok()?;
            (fields.column_by_name("data")?, Some((sizes, wide)))
        }
        _ => (array, None),
    };
    let elements = Elements::within(lists);
    let dtype = dtype(elements.leaf.data_type())?;
    let content = Content::of(&elements.leaf)?;
    let nulls = Nulls::of(array);

    let (mut blobs, mut mismatches) = (SerializedTensors::default(), Vec::new());
    let (mut scratch, mut shape_scratch, mut dimensions) = (Scratch::default(), Scratch::default(), Vec::new());
    for row in 0..array.len() {
        let start = blobs.data.len();
        if !nulls.any(row) {
            match elements.of(row, &mut scratch, &mut dimensions) {
                Err(reason) => mismatches.push((row, reason)),
                Ok(()) => {
                    let count = scratch.runs.iter().map(Range::len).sum();
                    let given = match shape {
                        TensorShape::Lists => Ok(()),
                        TensorShape::Given(given) => {
                            fit(given.iter().map(|size| size.map(|size| size as i64)), count, &mut dimensions)
                        }
                        TensorShape::Beside => beside(shapes.as_ref(), row, count, &mut shape_scratch, &mut dimensions),
                    };
                    match given {
                        Ok(()) => append(&mut blobs.data, dtype, &dimensions, &content, &scratch.runs, count),
                        Err(reason) => mismatches.push((row, reason)),
                    }
                }
            }
        }
        blobs.lengths.push(blobs.data.len() - start);
    }
    Some((blobs, mismatches))
}

/// Reads the shape of a row from the field next to the values.
fn beside(
    shapes: Option<&(Elements, ArrayRef)>,
    row: usize,
    count: usize,
    scratch: &mut Scratch,
    dimensions: &mut Vec<usize>,
) -> Result<(), NoTensor> {
    let Some((elements, sizes)) = shapes else { return Ok(()) };
    elements.of(row, scratch, dimensions)?;
    let sizes = sizes.as_primitive::<Int64Type>();
    fit(scratch.runs.iter().cloned().flatten().map(|position| Some(sizes.value(position))), count, dimensions)
}

/// The shape for this number of values, if it fits.
fn fit(
    shape: impl Iterator<Item = Option<i64>> + Clone,
    count: usize,
    dimensions: &mut Vec<usize>,
) -> Result<(), NoTensor> {
    let mismatch = || NoTensor::Count { found: count, shape: shape.clone().collect() };
    let mut known = 1usize;
    for size in shape.clone().flatten() {
        let size = usize::try_from(size).map_err(|_| mismatch())?;
        known = known.checked_mul(size).ok_or_else(mismatch)?;
    }
    let open = count.checked_div(known).unwrap_or_default();
    dimensions.clear();
    dimensions.extend(shape.clone().map(|size| size.and_then(|size| usize::try_from(size).ok()).unwrap_or(open)));
    let found = if shape.clone().any(|size| size.is_none()) { known * open } else { known };
    if found == count { Ok(()) } else { Err(mismatch()) }
}

/// The values of nested lists.
struct Elements {
    levels: Vec<ListLevel>,
    leaf: ArrayRef,
    nulls: Nulls,
}

/// Elements of one array as ranges of positions, with a buffer for those of the next.
#[derive(Default)]
struct Scratch {
    runs: Vec<Range<usize>>,
    within: Vec<Range<usize>>,
}

/// The lists of one level.
struct ListLevel {
    /// Start and length of each list in the next level.
    lists: Vec<(usize, usize)>,
    nulls: Nulls,
    /// The fixed length of each, if the type has one.
    len: Option<usize>,
}

impl Elements {
    fn within(array: &ArrayRef) -> Self {
        let mut levels = Vec::new();
        let mut array = ArrayRef::clone(array);
        loop {
            let nulls = Nulls::of(&array);
            if item(array.data_type()).is_none() {
                // Casting from encoded to plain values cannot fail.
                let leaf = arrow_cast::cast(&array, value_type(array.data_type()));
                return Self { levels, leaf: leaf.unwrap_or_else(|_| ArrayRef::clone(&array)), nulls };
            }
            let len = Lists::of(&array).and_then(|lists| lists.fixed_len());
            let (lists, within) = lists(&array, (0..array.len()).filter(|list| !nulls.any(*list)));
            levels.push(ListLevel { lists, nulls, len });
            array = within;
        }
    }

    /// Finds the values of an element and its dimensions.
    fn of(&self, row: usize, scratch: &mut Scratch, dimensions: &mut Vec<usize>) -> Result<(), NoTensor> {
        let Scratch { runs, within } = scratch;
        dimensions.clear();
        runs.clear();
        runs.push(row..row + 1);
        for level in &self.levels {
            let mut len = None;
            within.clear();
            for list in runs.iter().cloned().flatten() {
                if level.nulls.any(list) {
                    return Err(NoTensor::Null);
                }
                let (start, own) = level.lists[list];
                if *len.get_or_insert(own) != own {
                    return Err(NoTensor::Uneven);
                }
                match within.last_mut() {
                    Some(last) if last.end == start => last.end += own,
                    _ => within.push(start..start + own),
                }
            }
            dimensions.push(len.or(level.len).unwrap_or_default());
            std::mem::swap(runs, within);
        }
        match runs.iter().cloned().flatten().any(|value| self.nulls.any(value)) {
            true => Err(NoTensor::Null),
            false => Ok(()),
        }
    }
}

/// Values in the form of a tensor's content.
enum Content {
    Numbers { width: usize, bytes: Buffer },
    Strings(BytesValues),
}

impl Content {
    fn of(array: &ArrayRef) -> Option<Self> {
        let data_type = array.data_type();
        if dtype(data_type)? == STRING {
            return bytes(array).ok().map(Self::Strings);
        }
        if *data_type == DataType::Boolean {
            let bytes: Vec<u8> = array.as_boolean().values().iter().map(u8::from).collect();
            return Some(Self::Numbers { width: 1, bytes: bytes.into() });
        }
        let (data, width) = (array.to_data(), data_type.primitive_width()?);
        let bytes = data.buffers().first()?.slice_with_length(data.offset() * width, data.len() * width);
        Some(Self::Numbers { width, bytes })
    }
}

fn append(out: &mut Vec<u8>, dtype: u8, dimensions: &[usize], content: &Content, runs: &[Range<usize>], count: usize) {
    // A dimension is a message with its size in field 1. Protobuf omits a size of 0.
    let size_len = |size: usize| if size == 0 { 0 } else { 1 + varint_len(size) };
    let shape_len = dimensions.iter().map(|size| 2 + size_len(*size)).sum();
    out.extend_from_slice(&[0x08, dtype, 0x12]);
    push_varint(out, shape_len);
    for size in dimensions {
        out.extend_from_slice(&[0x12, size_len(*size) as u8]);
        if *size > 0 {
            out.push(0x08);
            push_varint(out, *size);
        }
    }
    match content {
        Content::Numbers { width, bytes } if count > 0 => {
            out.push(0x22);
            push_varint(out, count * width);
            runs.iter().for_each(|run| out.extend_from_slice(&bytes[run.start * width..run.end * width]));
        }
        Content::Numbers { .. } => {}
        Content::Strings(values) => {
            for position in runs.iter().cloned().flatten() {
                let value = values.get(position);
                out.push(0x42);
                push_varint(out, value.len());
                out.extend_from_slice(value);
            }
        }
    }
}

fn varint_len(value: usize) -> usize {
    crate::wire::varint_len(value as u64)
}

fn push_varint(out: &mut Vec<u8>, value: usize) {
    let mut bytes = [0; crate::wire::MAX_VARINT_LEN];
    let len = crate::wire::put_varint(&mut bytes, 0, value as u64);
    out.extend_from_slice(&bytes[..len]);
}
