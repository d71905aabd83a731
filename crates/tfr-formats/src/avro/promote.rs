//! [`promoted`]: promotions of Avro's schema resolution beyond the common types of all formats.
//!
//! Long and int become double, text and bytes become bytes. A long that no double equals is rejected with its row.

use arrow_schema::DataType;

/// Returns the type as which both can be read, if no type represents all values of both.
pub(crate) fn promoted(left: &DataType, right: &DataType) -> Option<DataType> {
    use DataType::{Binary, Float32, Float64, Int32, Int64, Utf8};
    match (left, right) {
        (Int32 | Int64, Float32 | Float64) => Some(Float64),
        (Utf8, Binary) => Some(Binary),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use tfr_arrow::common_type::common_type_or;

    use super::*;

    #[test]
    fn avro_promotion_is_symmetric() {
        use DataType::{Binary, Boolean, Date32, Float32, Float64, Int32, Int64, Null, Utf8};
        for (left, right, expected) in [
            (Int32, Int64, Some(Int64)),
            (Int32, Float32, Some(Float64)),
            (Int64, Float64, Some(Float64)),
            (Float32, Float64, Some(Float64)),
            (Utf8, Binary, Some(Binary)),
            (Null, Boolean, Some(Boolean)),
            (Int32, Utf8, None),
            (Int32, Date32, None),
            (Boolean, Int32, None),
        ] {
            assert_eq!(common_type_or(&left, &right, promoted).ok(), expected, "{left} {right}");
            assert_eq!(common_type_or(&right, &left, promoted).ok(), expected, "{right} {left}");
        }
    }
}
