//! Parses serialized tensors to arrays: [`parse`].

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, StructArray, make_array};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_schema::DataType;
use tfr_arrow::nested::item;

use super::mismatch::Mismatch;
use super::nest;
use super::restore::restore;
use super::values::{Blobs, DecodedValues};
use super::wire::{FieldValue, WireResult, field, varint};

use crate::dtype::{STRING, TensorShape, dtype, dtype_name as name, innermost, is_dtype, value_type, width};
use crate::mapping::Conversion;

/// The maximum number of empty lists of one tensor, and of repeated values that it may omit. Large enough for practical
/// tensors, and small enough that a short message cannot exhaust memory.
const MOST_IMPLIED: usize = 1 << 20;

/// Parses `count` tensors to an array of `data_type` with one element per tensor.
pub(crate) fn parse<'a>(
    count: usize,
    tensor: impl Fn(usize) -> &'a [u8],
    nulls: Option<&NullBuffer>,
    data_type: &DataType,
    shape: &TensorShape,
) -> Result<ArrayRef, Mismatch> {
    if let (TensorShape::Beside, DataType::Struct(fields)) = (shape, data_type) {
        return beside(count, tensor, nulls, fields);
    }
    let mut build = Builder::new(data_type);
    let mut read = Tensor::default();
    for row in 0..count {
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            build.null();
        } else {
            read.read(tensor(row)).map_err(|reason| Mismatch::value(row, reason))?;
            build.push(&read).map_err(|reason| Mismatch::value(row, reason))?;
        }
    }
    build.finish(data_type, nulls.cloned())
}

/// Parses tensors to `arrow.variable_shape_tensor`, with the shape next to the values.
fn beside<'a>(
    count: usize,
    tensor: impl Fn(usize) -> &'a [u8],
    nulls: Option<&NullBuffer>,
    fields: &arrow_schema::Fields,
) -> Result<ArrayRef, Mismatch> {
    let mut arrays = Vec::with_capacity(2);
    for field in fields {
        let data_type = field.data_type();
        let mut build = Builder::new(data_type);
        let mut read = Tensor::default();
        for row in 0..count {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                build.null();
                continue;
            }
            read.read(tensor(row)).map_err(|reason| Mismatch::value(row, reason))?;
            let pushed =
                if field.name() == "data" { build.push(&read) } else { build.push(&read.own_shape(data_type)) };
            pushed.map_err(|reason| Mismatch::value(row, reason))?;
        }
        arrays.push(build.finish(data_type, nulls.cloned())?);
    }
    Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), arrays, nulls.cloned(), count)?))
}

/// A tensor as serialized.
#[derive(Default)]
struct Tensor<'a> {
    dtype: u64,
    dimensions: Vec<usize>,
    /// Numbers of the dtype's width, little-endian.
    numbers: Cow<'a, [u8]>,
    strings: Vec<&'a [u8]>,
}

impl<'a> Tensor<'a> {
    /// Replaces the previous tensor by the one in `bytes`. Fails if they are not a tensor with values of a supported
    /// type.
    fn read(&mut self, bytes: &'a [u8]) -> Result<(), String> {
        match self.read_values(bytes) {
            Some(true) => Ok(()),
            Some(false) => Err(format!("a tensor of dtype {}, which no Arrow type has", name(self.dtype))),
            None => Err("a value that is not a TensorProto".to_owned()),
        }
    }

    /// Returns whether the values have a supported type. `None` if `bytes` are not a tensor.
    fn read_values(&mut self, bytes: &'a [u8]) -> Option<bool> {
        let (dimensions, strings) = (&mut self.dimensions, &mut self.strings);
        dimensions.clear();
        strings.clear();
        let (mut dtype, mut is_known) = (0, true);
        let mut content: &[u8] = &[];
        let mut listed = Vec::new();
        let mut pos = 0;
        while pos < bytes.len() {
            let field = field(bytes, pos).ok()?;
            pos = field.end;
            match (field.number, field.value) {
                (1, FieldValue::Varint(value)) => dtype = value,
                (2, FieldValue::Delimited(shape)) => {
                    is_known &= read_shape(&bytes[..shape.end], shape.start, dimensions).ok()?;
                }
                (4, FieldValue::Delimited(range)) => content = &bytes[range],
                (8, FieldValue::Delimited(range)) => strings.push(&bytes[range]),
                // The typed value lists, used instead of the content.
                (5..=7 | 10 | 11 | 13 | 16 | 17, value) => listed.push((field.number, value, field.start..field.end)),
                _ => {}
            }
        }
        self.dtype = dtype;
        let count = dimensions.iter().try_fold(1usize, |count, size| count.checked_mul(*size)).filter(|_| is_known)?;
        if dtype == u64::from(STRING) {
            return fill(strings, count).map(|()| true);
        }
        let Some(width) = width(dtype) else {
            // 0 is not a valid dtype, so this is not a tensor.
            return is_dtype(dtype).then_some(false);
        };
        self.numbers = if content.is_empty() && count > 0 {
            let mut values = Vec::new();
            for (number, value, range) in listed {
                push_listed(&mut values, bytes, number, value, range, width)?;
            }
            fill(&mut values, count)?;
            Cow::Owned(values.iter().flat_map(|value| &value[..width]).copied().collect())
        } else {
            Cow::Borrowed(content)
        };
        (count.checked_mul(width) == Some(self.numbers.len())).then_some(true)
    }

    /// The shape as a tensor of rank 1, of the integer type within `data_type`.
    fn own_shape(&self, data_type: &DataType) -> Tensor<'static> {
        let sizes = &self.dimensions;
        let dtype = dtype(innermost(data_type)).unwrap_or_default().into();
        let width = width(dtype).unwrap_or_default();
        let bytes = sizes.iter().flat_map(|size| size.to_le_bytes().into_iter().take(width)).collect();
        Tensor { dtype, dimensions: vec![sizes.len()], numbers: Cow::Owned(bytes), strings: Vec::new() }
    }
}

/// TensorFlow omits trailing values that equal the last one, and all values if they are 0.
fn fill<T: Clone + Default>(values: &mut Vec<T>, count: usize) -> Option<()> {
    if values.len() < count {
        if count > MOST_IMPLIED {
            return None;
        }
        values.resize(count, values.last().cloned().unwrap_or_default());
    }
    (values.len() == count).then_some(())
}

/// Appends the sizes of a `TensorShapeProto`. Returns false if any is unknown.
fn read_shape(bytes: &[u8], mut pos: usize, dimensions: &mut Vec<usize>) -> WireResult<bool> {
    let mut is_known = true;
    while pos < bytes.len() {
        let dimension = field(bytes, pos)?;
        pos = dimension.end;
        match (dimension.number, dimension.value) {
            (2, FieldValue::Delimited(range)) => {
                let (bytes, mut pos, mut size) = (&bytes[..range.end], range.start, 0);
                while pos < bytes.len() {
                    let field = field(bytes, pos)?;
                    pos = field.end;
                    if let (1, FieldValue::Varint(value)) = (field.number, field.value) {
                        size = value as i64;
                    }
                }
                is_known &= size >= 0;
                dimensions.push(usize::try_from(size).unwrap_or_default());
            }
            (3, FieldValue::Varint(unknown_rank)) => is_known &= unknown_rank == 0,
            _ => {}
        }
    }
    Ok(is_known)
}

/// Appends the values of one of the typed lists, packed or not, if its width matches.
fn push_listed(
    values: &mut Vec<[u8; 8]>,
    bytes: &[u8],
    number: u64,
    value: FieldValue,
    field: std::ops::Range<usize>,
    width: usize,
) -> Option<()> {
    /// `float_val` and `double_val`, whose values have a fixed width.
    const FIXED: [(u64, usize); 2] = [(5, 4), (6, 8)];

    let mut push = |value: &[u8]| {
        let mut wide = [0; 8];
        wide[..value.len()].copy_from_slice(value);
        values.push(wide);
    };
    let fixed = FIXED.iter().find(|(field, _)| *field == number).map(|(_, width)| *width);
    match (value, fixed) {
        (FieldValue::Varint(value), None) => push(&value.to_le_bytes()),
        (FieldValue::Delimited(range), None) => {
            let (bytes, mut pos) = (&bytes[..range.end], range.start);
            while pos < bytes.len() {
                let (value, end) = varint(bytes, pos).ok()?;
                push(&value.to_le_bytes());
                pos = end;
            }
        }
        (FieldValue::Delimited(range), Some(fixed)) if fixed == width && range.len() % fixed == 0 => {
            bytes[range].chunks_exact(fixed).for_each(push);
        }
        (FieldValue::Fixed32(value), Some(4)) if width == 4 => push(&value),
        (FieldValue::Other, Some(8)) if width == 8 && field.len() > 8 => push(&bytes[field.end - 8..field.end]),
        _ => return None,
    }
    Some(())
}

/// Builds an array of nested lists, tensor by tensor.
struct Builder<'a> {
    dtype: u64,
    leaf: &'a DataType,
    /// The list levels, outermost first.
    levels: Vec<BuilderLevel<'a>>,
    numbers: Vec<u8>,
    strings: Blobs,
    count: usize,
}

struct BuilderLevel<'a> {
    data_type: &'a DataType,
    fixed: Option<usize>,
    ends: Vec<usize>,
}

impl<'a> Builder<'a> {
    fn new(data_type: &'a DataType) -> Self {
        let mut levels = Vec::new();
        let mut leaf = data_type;
        while let Some(item) = item(leaf) {
            let fixed = match leaf {
                DataType::FixedSizeList(_, len) => usize::try_from(*len).ok(),
                _ => None,
            };
            levels.push(BuilderLevel { data_type: leaf, fixed, ends: Vec::new() });
            leaf = item.data_type();
        }
        let dtype = dtype(value_type(leaf)).unwrap_or_default().into();
        Self { dtype, leaf, levels, numbers: Vec::new(), strings: Blobs::default(), count: 0 }
    }

    /// Appends a placeholder element.
    fn null(&mut self) {
        let mut lists = 1;
        for level in &mut self.levels {
            lists = level.push(lists, level.fixed.unwrap_or_default());
        }
        self.count += lists;
        self.numbers.resize(self.count * width(self.dtype).unwrap_or_default(), 0);
        if self.dtype == u64::from(STRING) {
            self.strings.ends.resize(self.count, self.strings.data.len());
        }
    }

    fn push(&mut self, tensor: &Tensor<'_>) -> Result<(), String> {
        if tensor.dtype != self.dtype {
            return Err(format!("a tensor of dtype {}, where {} is expected,", name(tensor.dtype), name(self.dtype)));
        }
        let count = tensor.dimensions.iter().product();
        let flat = [count];
        let dimensions = match self.levels.len() {
            0 if count == 1 => &[],
            0 => return Err(format!("a tensor of shape {:?}", tensor.dimensions)),
            // A single list accepts any shape.
            1 => flat.as_slice(),
            levels if levels == tensor.dimensions.len() => tensor.dimensions.as_slice(),
            _ => return Err(format!("a tensor of shape {:?}", tensor.dimensions)),
        };
        let fits = self.levels.iter().zip(dimensions).all(|(level, size)| level.fixed.is_none_or(|len| len == *size));
        let lists = dimensions.iter().scan(1usize, |lists, size| {
            *lists = lists.saturating_mul(*size);
            Some(*lists)
        });
        if !fits || lists.clone().any(|lists| lists > count.max(MOST_IMPLIED)) {
            return Err(format!("a tensor of shape {:?}", tensor.dimensions));
        }
        let mut lists = 1;
        for (level, size) in self.levels.iter_mut().zip(dimensions) {
            lists = level.push(lists, *size);
        }
        self.count += count;
        if self.dtype == u64::from(STRING) {
            tensor.strings.iter().for_each(|value| self.strings.push(value));
        } else {
            self.numbers.extend_from_slice(&tensor.numbers);
        }
        Ok(())
    }

    fn finish(self, data_type: &DataType, nulls: Option<NullBuffer>) -> Result<ArrayRef, Mismatch> {
        // Nulls apply to the outermost list, and to fixed-size lists within it.
        let mut validity = vec![nulls];
        for level in &self.levels {
            let outer = validity.last().cloned().flatten();
            validity.push(outer.and_then(|nulls| Some(nulls.expand(level.fixed?))));
        }
        let plain_type = value_type(self.leaf);
        let leaf_nulls = validity.pop().flatten();
        let plain: ArrayRef = match plain_type {
            _ if self.dtype == u64::from(STRING) => {
                restore(DecodedValues::Bytes(self.strings), leaf_nulls, &Conversion::Bytes, plain_type)?
            }
            DataType::Boolean => {
                let values = self.numbers.iter().map(|value| *value != 0).collect();
                Arc::new(BooleanArray::new(values, leaf_nulls))
            }
            _ => {
                let data = arrow_array::Int8Array::from(Vec::<i8>::new()).to_data().into_builder();
                let data = data.data_type(plain_type.clone()).len(self.count).nulls(leaf_nulls);
                make_array(data.buffers(vec![Buffer::from_vec(self.numbers)]).align_buffers(true).build()?)
            }
        };
        let mut array = if plain_type == self.leaf { plain } else { arrow_cast::cast(&plain, self.leaf)? };
        for (level, nulls) in self.levels.iter().zip(validity).rev() {
            array = nest::lists(level.data_type, array, &level.ends, nulls)?;
        }
        debug_assert_eq!(array.data_type(), data_type);
        Ok(array)
    }
}

impl BuilderLevel<'_> {
    /// Appends `lists` lists of length `len`, and returns their total number of elements.
    fn push(&mut self, lists: usize, len: usize) -> usize {
        let before = self.ends.last().copied().unwrap_or_default();
        self.ends.extend((1..=lists).map(|list| before + list * len));
        lists * len
    }
}
