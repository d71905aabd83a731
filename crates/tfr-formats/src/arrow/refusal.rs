//! [`Refusal`]: why a message cannot be decoded.

use arrow_schema::ArrowError;

/// Why a message cannot be decoded, without the name of the file.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It is inconsistent or contradicts earlier messages.
    Damaged(String),
    /// It uses an unsupported feature.
    Unsupported(&'static str),
    /// Arrow's decoder returned an error.
    Undecoded(ArrowError),
}

impl From<ArrowError> for Refusal {
    fn from(error: ArrowError) -> Self {
        Self::Undecoded(error)
    }
}

pub(super) fn damaged<T>(reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Damaged(reason.into()))
}
