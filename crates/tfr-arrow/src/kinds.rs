//! Kinds of types that are converted alike.

use arrow_schema::DataType;

pub(crate) fn is_number(data_type: &DataType) -> bool {
    data_type.is_integer() || data_type.is_floating() || data_type.is_decimal()
}

pub(crate) fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

pub(crate) fn is_binary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_))
}

/// Whether the values have an unambiguous text.
pub(crate) fn is_scalar_with_text(data_type: &DataType) -> bool {
    use DataType::{Boolean, Date32, Date64, Time32, Time64, Timestamp};
    is_number(data_type)
        || is_text(data_type)
        || matches!(data_type, Boolean | Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..))
}
