//! Kinds of types that are converted alike.

use arrow_schema::{DataType, FieldRef};

/// How a list type stores its items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListKind {
    List,
    LargeList,
    ListView,
    LargeListView,
    FixedSize(i32),
}

impl ListKind {
    /// Returns the kind of a list type, and its item field.
    pub(crate) fn of(data_type: &DataType) -> Option<(Self, &FieldRef)> {
        match data_type {
            DataType::List(item) => Some((Self::List, item)),
            DataType::LargeList(item) => Some((Self::LargeList, item)),
            DataType::ListView(item) => Some((Self::ListView, item)),
            DataType::LargeListView(item) => Some((Self::LargeListView, item)),
            DataType::FixedSizeList(item, size) => Some((Self::FixedSize(*size), item)),
            _ => None,
        }
    }

    pub(crate) fn common(self, other: Self) -> Self {
        let is_large = |kind| matches!(kind, Self::LargeList | Self::LargeListView);
        match (self, other) {
            _ if self == other => self,
            _ if is_large(self) || is_large(other) => Self::LargeList,
            _ => Self::List,
        }
    }

    pub(crate) fn of_items(self, item: FieldRef) -> DataType {
        match self {
            Self::List => DataType::List(item),
            Self::LargeList => DataType::LargeList(item),
            Self::ListView => DataType::ListView(item),
            Self::LargeListView => DataType::LargeListView(item),
            Self::FixedSize(size) => DataType::FixedSizeList(item, size),
        }
    }
}

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
