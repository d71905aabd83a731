//! [`Mismatch`]: why decoded values do not form an array of their column's type.

use arrow_schema::ArrowError;

/// Why values do not form an array.
#[derive(Debug)]
pub(crate) enum Mismatch {
    /// A value does not fit the type.
    Value { element: usize, value: String },
    /// More bytes or elements than the type's offsets can count.
    TooMany,
    /// Arrow rejects the values.
    Arrow(ArrowError),
}

impl From<ArrowError> for Mismatch {
    fn from(error: ArrowError) -> Self {
        Self::Arrow(error)
    }
}

impl Mismatch {
    pub(super) fn value(element: usize, value: impl ToString) -> Self {
        Self::Value { element, value: value.to_string() }
    }
}
