//! [`Refusal`]: why a message cannot be decoded.

use arrow_schema::ArrowError;

use crate::error::{Error, ErrorKind, FilePlace, Within};
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
    match refusal {
        Refusal::Damaged(reason) => Error::damaged(file, Within::Byte(byte), &reason),
        Refusal::Unsupported(format) => {
            ErrorKind::UnsupportedFormat { file: file.to_owned(), format: UnsupportedFormat::Named(format) }.into()
        }
        Refusal::Undecoded(source) => {
            let place = FilePlace::new(file, Within::Byte(byte));
            ErrorKind::Undecoded { place, problem: "the Arrow message cannot be decoded", source }.into()
        }
    }
}

pub(super) fn damaged<T>(reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Damaged(reason.into()))
}
