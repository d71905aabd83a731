//! [`integers`]: converts every type that Arrow stores as an integer to int64.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, UInt8Type, UInt16Type, UInt32Type};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType;

/// The values of any type that is stored as an integer.
pub fn integers(array: &ArrayRef) -> ScalarBuffer<i64> {
    fn widen<T: ArrowPrimitiveType<Native: Into<i64>>>(array: &ArrayRef) -> ScalarBuffer<i64> {
        array.as_primitive::<T>().values().iter().map(|value| (*value).into()).collect()
    }
    match array.data_type() {
        DataType::Int8 => widen::<Int8Type>(array),
        DataType::Int16 => widen::<Int16Type>(array),
        DataType::Int32 => widen::<Int32Type>(array),
        DataType::UInt8 => widen::<UInt8Type>(array),
        DataType::UInt16 => widen::<UInt16Type>(array),
        DataType::UInt32 => widen::<UInt32Type>(array),
        // 64-bit integers, and dates and times of either width.
        data_type => {
            let data = array.to_data();
            match (data_type.primitive_width(), data.buffers().first()) {
                (Some(4), Some(buffer)) => {
                    let values = ScalarBuffer::<i32>::new(buffer.clone(), data.offset(), data.len());
                    values.iter().map(|value| i64::from(*value)).collect()
                }
                (_, Some(buffer)) => ScalarBuffer::new(buffer.clone(), data.offset(), data.len()),
                (_, None) => ScalarBuffer::from(Vec::new()),
            }
        }
    }
}
