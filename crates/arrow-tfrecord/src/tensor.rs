//! `TensorProto`, as `tf.io.serialize_tensor` writes it and `tf.io.parse_tensor` reads it: [`serialize_tensor`],
//! [`parse_tensor`].
//!
//! Field 1 is the dtype, field 2 the shape, field 4 the content, little-endian and left out where there is none; strings
//! are in field 8.
//!
//! Source: `tensorflow/core/framework/{tensor,tensor_shape,types}.proto`.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeBinaryArray};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_schema::{DataType, Field};

use crate::error::{ErrorKind, Result};
use crate::reader::tensor as read;
use crate::writer::tensor as write;

/// `DT_STRING`.
pub(crate) const STRING: u8 = 7;

/// The dtype of values of a type, by its number in `types.proto`; none if TensorFlow has no such type.
pub(crate) fn dtype(data_type: &DataType) -> Option<u8> {
    Some(match data_type {
        DataType::Float32 => 1,
        DataType::Float64 => 2,
        DataType::Int32 => 3,
        DataType::UInt8 => 4,
        DataType::Int16 => 5,
        DataType::Int8 => 6,
        text if text.is_string() || text.is_binary() => STRING,
        DataType::FixedSizeBinary(_) => STRING,
        DataType::Int64 => 9,
        DataType::Boolean => 10,
        DataType::UInt16 => 17,
        DataType::Float16 => 19,
        DataType::UInt32 => 22,
        DataType::UInt64 => 23,
        _ => return None,
    })
}

/// Bytes of one value of a dtype in the content of a tensor; none for strings and dtypes that no type has.
pub(crate) fn width(dtype: u64) -> Option<usize> {
    Some(match dtype {
        4 | 6 | 10 => 1,
        5 | 17 | 19 => 2,
        1 | 3 | 22 => 4,
        2 | 9 | 23 => 8,
        _ => return None,
    })
}

/// Whether a number of `types.proto` is a dtype that a serialized tensor can have: those of references are no values.
pub(crate) fn is_dtype(dtype: u64) -> bool {
    (1..=32).contains(&dtype)
}

/// A dtype by TensorFlow's name.
pub(crate) fn dtype_name(dtype: u64) -> String {
    match dtype {
        1 => "float32",
        2 => "float64",
        3 => "int32",
        4 => "uint8",
        5 => "int16",
        6 => "int8",
        7 => "string",
        8 => "complex64",
        9 => "int64",
        10 => "bool",
        11 => "qint8",
        12 => "quint8",
        13 => "qint32",
        14 => "bfloat16",
        15 => "qint16",
        16 => "quint16",
        17 => "uint16",
        18 => "complex128",
        19 => "float16",
        20 => "resource",
        21 => "variant",
        22 => "uint32",
        23 => "uint64",
        other => return format!("number {other}"),
    }
    .to_owned()
}

/// Where the shape of a tensor is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TensorShape {
    /// The lengths of lists in lists.
    Lists,
    /// This one, for the values of one list. A dimension may be left to the number of values.
    Given(Arc<[Option<usize>]>),
    /// Beside the values: the struct of `arrow.variable_shape_tensor`.
    Beside,
}

/// Serialized tensors, one for each element of `values`: of rank 0 for numbers and strings, of rank 1 for lists, and of
/// higher rank for lists in lists, if those are of one length. A null is null.
///
/// With a shape the values of a list become a tensor of this shape, row-major; -1, at most once, stands for whatever
/// the number of values makes of it. Where every element has a shape of its own, `values` are structs of two lists, `data`
/// and `shape`, as those of `arrow.variable_shape_tensor`.
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
/// A type whose values TensorFlow has no dtype for; lists of different lengths, a null in a list, or another number of
/// values than the shape has.
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
                    let reason = format!("{shape:?} is no shape: sizes are 0 or more, and -1 stands for one of them");
                    return Err(ErrorKind::Tensor { column: None, row: 0, reason }.into());
                }
            }
        }
    };
    let (blobs, misfits) = write::serialize(values, &shape).ok_or_else(|| no_dtype(values.data_type()))?;
    match misfits.into_iter().next() {
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

/// The values of serialized tensors: for a type that is no list those of one value each, for a list those of any shape,
/// row-major, and for lists in lists those of as many dimensions; for a struct of two lists, `data` and `shape`, those of any
/// shape, which goes to the second. A null is null.
///
/// # Errors
/// Bytes that are no `TensorProto`, or one of another dtype or shape than `data_type` has; a type that TensorFlow has no
/// dtype for.
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
    parsed.map_err(|misfit| match misfit {
        read::Misfit::Value { element, value } => {
            ErrorKind::Tensor { column: None, row: element as u64, reason: value }.into()
        }
        read::Misfit::TooMany => {
            let (data_type, rows) = (data_type.clone(), tensors.len());
            ErrorKind::TooManyValues { column: "tensor".to_owned(), data_type, rows }.into()
        }
        read::Misfit::Arrow(source) => arrow(source).into(),
    })
}

fn no_dtype(data_type: &DataType) -> ErrorKind {
    ErrorKind::UnsupportedType {
        column: "tensor".to_owned(),
        data_type: data_type.clone(),
        hint: "cast the values to a type that TensorFlow has".to_owned(),
    }
}

/// The type of the values, if this is one of tensors of any shape: of structs with their values and their shape.
pub(crate) fn shaped_data(data_type: &DataType) -> Option<&DataType> {
    let DataType::Struct(fields) = data_type else { return None };
    let list = |name| fields.find(name).map(|(_, field)| field.data_type()).filter(|list| item(list).is_some());
    let shape = item(list("shape")?)?.data_type();
    list("data").filter(|_| fields.len() == 2 && shape.is_integer())
}

/// The field of a list's elements.
pub(crate) fn item(data_type: &DataType) -> Option<&Field> {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => Some(item),
        _ => None,
    }
}

/// The type within all lists.
pub(crate) fn innermost(data_type: &DataType) -> &DataType {
    item(data_type).map_or(data_type, |item| innermost(item.data_type()))
}

/// The type of the values that a dictionary or runs hold, or the type itself.
pub(crate) fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        DataType::RunEndEncoded(_, values) => values.data_type(),
        plain => plain,
    }
}

#[cfg(test)]
mod tests;
