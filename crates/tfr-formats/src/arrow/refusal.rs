//! [`Refusal`]: why a message is not decoded.

use arrow_schema::ArrowError;

/// Why a message is refused, without the name of the file.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It contradicts itself or what came before.
    Damaged(String),
    /// It is something that is not read.
    Unsupported(&'static str),
    /// Arrow's own decoder refused it.
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
