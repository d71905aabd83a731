//! [`Refusal`]: why a message cannot be decoded.

use arrow_schema::ArrowError;

use crate::error::{Error, ErrorKind};
use crate::foreign::UnsupportedFormat;

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

/// Returns the error for a refusal at a byte of a file or pipe of this name.
pub(super) fn refused(file: &str, byte: u64, refusal: Refusal) -> Error {
    let file = file.to_owned();
    match refusal {
        Refusal::Damaged(reason) => ErrorKind::Damaged { file, stripe: None, byte: Some(byte), reason }.into(),
        Refusal::Unsupported(format) => {
            ErrorKind::UnsupportedFormat { file, format: UnsupportedFormat::Named(format) }.into()
        }
        Refusal::Undecoded(source) => ErrorKind::Message { file, byte, source }.into(),
    }
}

pub(super) fn damaged<T>(reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Damaged(reason.into()))
}
