//! [`Misfit`]: why values that were read are no array of their column's type.

use arrow_schema::ArrowError;

/// Why values are no array.
#[derive(Debug)]
pub(crate) enum Misfit {
    /// This one does not fit the type.
    Value { element: usize, value: String },
    /// More bytes or elements than the type's offsets can count.
    TooMany,
    /// Arrow does not take them.
    Arrow(ArrowError),
}

impl From<ArrowError> for Misfit {
    fn from(error: ArrowError) -> Self {
        Self::Arrow(error)
    }
}

impl Misfit {
    pub(super) fn value(element: usize, value: impl ToString) -> Self {
        Self::Value { element, value: value.to_string() }
    }
}
