//! `TensorProto`, as `tf.io.serialize_tensor` writes it and `tf.io.parse_tensor` reads it: [`serialize_tensor`],
//! [`parse_tensor`].
//!
//! Field 1 is the dtype, field 2 the shape, and field 4 the little-endian content, omitted if empty. Strings are in
//! field 8.
//!
//! Source: `tensorflow/core/framework/{tensor,tensor_shape,types}.proto`.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeBinaryArray};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_schema::DataType;

use crate::dtype::{TensorShape, dtype, innermost, shaped_data, value_type};
use crate::error::{ErrorKind, Result};
use crate::reader::{Mismatch, tensor as read};
use crate::writer::tensor as write;

/// Serializes every element of `values` as a tensor: rank 0 for numbers and strings, rank 1 for lists, and higher ranks
/// for lists of lists, which must have equal lengths. Nulls stay null.
///
/// With a shape, the values of a list become a tensor of this shape, row-major. One dimension may be -1: it is inferred
/// from the number of values. If every element has its own shape, `values` are structs of two lists, `data` and
/// `shape`, as in `arrow.variable_shape_tensor`.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{Array, ArrayRef, ListArray, types::Int32Type};
/// use arrow_tfrecord::{parse_tensor, serialize_tensor};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([1, 2, 3, 4].map(Some)), None]);
/// let lists: ArrayRef = Arc::new(lists);
/// let tensors = serialize_tensor(&lists, Some(&[2, -1]))?;
/// assert_eq!(tensors.value(0)[..14], *b"\x08\x03\x12\x08\x12\x02\x08\x02\x12\x02\x08\x02\x22\x10");
/// assert!(tensors.is_null(1));
///
/// let tensors: ArrayRef = Arc::new(tensors);
/// assert_eq!(&parse_tensor(&tensors, lists.data_type())?, &lists);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Fails on a type without a TensorFlow dtype, lists of unequal lengths, a null in a list, or a number of values that
/// does not fit the shape.
pub fn serialize_tensor(values: &ArrayRef, shape: Option<&[i64]>) -> Result<LargeBinaryArray> {
    let shape = match shape {
        None if shaped_data(values.data_type()).is_some() => TensorShape::Beside,
        None => TensorShape::Lists,
        Some(shape) => {
            let dimension = |size: &i64| match size {
                -1 => Ok(None),
                size => usize::try_from(*size).map(Some),
            };
            let given: Result<Vec<_>, _> = shape.iter().map(dimension).collect();
            match given {
                Ok(given) if given.iter().filter(|size| size.is_none()).count() < 2 => TensorShape::Given(given.into()),
                _ => {
                    let reason = format!("{shape:?} is not a shape: expected sizes of 0 or more, and at most one -1");
                    return Err(ErrorKind::Tensor { column: None, row: 0, reason }.into());
                }
            }
        }
    };
    let (blobs, mismatches) = write::serialize(values, &shape).ok_or_else(|| no_dtype(values.data_type()))?;
    match mismatches.into_iter().next() {
        Some((row, reason)) => {
            Err(ErrorKind::Tensor { column: None, row: row as u64, reason: reason.to_string() }.into())
        }
        None => {
            let offsets = OffsetBuffer::from_lengths(blobs.lengths);
            let nulls = values.logical_nulls();
            LargeBinaryArray::try_new(offsets, Buffer::from_vec(blobs.data), nulls)
                .map_err(|source| ErrorKind::Arrow { source }.into())
        }
    }
}

/// Parses serialized tensors to values of `data_type`. A non-list type accepts tensors of one value. A list accepts any
/// shape, row-major. Lists of lists accept tensors of as many dimensions. A struct of two lists, `data` and `shape`,
/// accepts any shape and stores it in the second. Nulls stay null.
///
/// # Errors
/// Fails on bytes that are not a valid `TensorProto`, a dtype or shape that does not fit `data_type`, or a type without
/// a TensorFlow dtype.
pub fn parse_tensor(tensors: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    let arrow = |source| ErrorKind::Arrow { source };
    let tensors = arrow_cast::cast(tensors, &DataType::LargeBinary).map_err(arrow)?;
    let tensors = tensors.as_binary::<i64>();
    let (data, shape) = match shaped_data(data_type) {
        Some(data) => (data, TensorShape::Beside),
        None => (data_type, TensorShape::Lists),
    };
    if dtype(value_type(innermost(data))).is_none() {
        return Err(no_dtype(data_type).into());
    }
    let parsed = read::parse(tensors.len(), |row| tensors.value(row), tensors.nulls(), data_type, &shape);
    parsed.map_err(|mismatch| match mismatch {
        Mismatch::Value { element, value } => {
            ErrorKind::Tensor { column: None, row: element as u64, reason: value }.into()
        }
        Mismatch::TooMany => {
            let (data_type, rows) = (data_type.clone(), tensors.len());
            ErrorKind::TooManyValues { column: "tensor".to_owned(), data_type, rows }.into()
        }
        Mismatch::Arrow(source) => arrow(source).into(),
    })
}

fn no_dtype(data_type: &DataType) -> ErrorKind {
    ErrorKind::NoDtype { data_type: data_type.clone() }
}

#[cfg(test)]
mod tests;
