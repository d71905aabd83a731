//! Types of values: TensorFlow's [`dtype`] of an Arrow type, and the types within lists, dictionaries and runs.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, make_array};
use arrow_schema::{ArrowError, DataType};
use tfr_arrow::nested::item;

/// `DT_STRING`.
pub(crate) const STRING: u8 = 7;

/// The dtype of values of a type, by its number in `types.proto`. `None` if TensorFlow has no such type.
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

/// Bytes of one value of a dtype in the content of a tensor. `None` for strings and dtypes without an Arrow type.
pub(crate) fn width(dtype: u64) -> Option<usize> {
    Some(match dtype {
        4 | 6 | 10 => 1,
        5 | 17 | 19 => 2,
        1 | 3 | 22 => 4,
        2 | 9 | 23 => 8,
        _ => return None,
    })
}

/// Whether a number of `types.proto` is a dtype that a serialized tensor can have. Reference dtypes are not values.
pub(crate) fn is_dtype(dtype: u64) -> bool {
    (1..=32).contains(&dtype)
}

/// TensorFlow's name of a dtype.
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

/// The source of a tensor's shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TensorShape {
    /// The lengths of lists in lists.
    Lists,
    /// This shape, for the values of one list. A `None` dimension is inferred from the number of values.
    Given(Arc<[Option<usize>]>),
    /// A field next to the values: the struct of `arrow.variable_shape_tensor`.
    Beside,
}

/// The type of the values, if this is a variable-shape tensor: a struct of values and shape.
pub(crate) fn shaped_data(data_type: &DataType) -> Option<&DataType> {
    let DataType::Struct(fields) = data_type else { return None };
    let list = |name| fields.find(name).map(|(_, field)| field.data_type()).filter(|list| item(list).is_some());
    let shape = item(list("shape")?)?.data_type();
    list("data").filter(|_| fields.len() == 2 && shape.is_integer())
}

/// The type within all lists.
pub(crate) fn innermost(data_type: &DataType) -> &DataType {
    item(data_type).map_or(data_type, |item| innermost(item.data_type()))
}

/// The value type of a dictionary or of runs, or the type itself.
pub(crate) fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        DataType::RunEndEncoded(_, values) => values.data_type(),
        plain => plain,
    }
}

/// Reinterprets the buffers as another type of the same layout.
pub(crate) fn retyped(array: &dyn Array, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    Ok(make_array(array.to_data().into_builder().data_type(data_type.clone()).build()?))
}

/// Restores the type of rows taken from an array, since Arrow's kernels rename the fields of runs.
pub(crate) fn of_type(array: ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == data_type { Ok(array) } else { retyped(&array, data_type) }
}
