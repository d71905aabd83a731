//! [`Error`]: an argument that a function does not take, and a value that it cannot make anything of.

use std::fmt;

use datafusion_common::DataFusionError;

/// What went wrong and, through [`Error::hint`], the way out. The engine carries it as [`DataFusionError::External`].
pub struct Error(Box<ErrorKind>);

/// The kinds of [`Error`]. Rows are counted from 0 in the batch that the engine gave to the function.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument of a type that the function does not take, or that is not the same for all rows.
    #[error("{function}: argument {number}: expected {expected}, found {found}")]
    Argument {
        /// The function.
        function: &'static str,
        /// Its number, from 1.
        number: usize,
        /// What it should be.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// A text that is not what the function takes for it.
    #[error("{function}: argument {number}: {text:?}: {reason}")]
    Text {
        /// The function.
        function: &'static str,
        /// The number of the argument, from 1.
        number: usize,
        /// The text.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Columns that become no record, or a value of one that has no place in it.
    #[error("{function}: {error}")]
    Record {
        /// The function.
        function: &'static str,
        /// What is wrong. What is below it is the source of this error.
        error: arrow_tfrecord::Error,
    },
    /// A record that does not have the declared columns, or is none.
    #[error("{function}: row {row}: {}", without_position(error))]
    Parse {
        /// The function.
        function: &'static str,
        /// The row.
        row: u64,
        /// What is wrong. What is below it is the source of this error.
        error: arrow_tfrecord::Error,
    },
    /// A column that no record has where it is looked for, but in another place.
    #[error("{function}: column \"{column}\" is in none of the records, but they have {found}")]
    Elsewhere {
        /// The function.
        function: &'static str,
        /// The column.
        column: String,
        /// What the records have.
        found: String,
    },
    /// Bytes that are no image of a known format, or a damaged one.
    #[error("{function}: row {row}: {reason}")]
    Image {
        /// The function.
        function: &'static str,
        /// The row.
        row: usize,
        /// Why not.
        reason: String,
    },
}

impl Error {
    /// What went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }
}

impl ErrorKind {
    /// What is wrong with one of some records.
    pub(super) fn parse(function: &'static str, error: arrow_tfrecord::Error) -> Self {
        match position(&error) {
            Some(position) => Self::Parse { function, row: position.record, error },
            None => Self::Record { function, error },
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.kind() {
            // Its text is part of this one's.
            ErrorKind::Record { error, .. } | ErrorKind::Parse { error, .. } => error.source(),
            kind => kind.source(),
        }
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self(Box::new(kind))
    }
}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        Self::External(Box::new(error))
    }
}

impl From<ErrorKind> for DataFusionError {
    fn from(kind: ErrorKind) -> Self {
        Error::from(kind).into()
    }
}

/// The place of a record, which is its row: each is taken for the next one of a file.
fn position(error: &arrow_tfrecord::Error) -> Option<tfrecord_framing::Position> {
    use arrow_tfrecord::ErrorKind::{
        AmbiguousName, InvalidValue, KindMismatch, Malformed, MissingFeature, UnevenFeatures, ValueCount,
    };
    match error.kind() {
        Malformed { position, .. }
        | AmbiguousName { position, .. }
        | KindMismatch { position, .. }
        | ValueCount { position, .. }
        | UnevenFeatures { position, .. }
        | MissingFeature { position, .. }
        | InvalidValue { position, .. } => Some(*position),
        _ => None,
    }
}

/// What an error says, but for the place in a file, which there is none of.
fn without_position(error: &arrow_tfrecord::Error) -> String {
    let text = error.to_string();
    let place = position(error).map(|position| format!("{position}: "));
    match place.and_then(|place| text.strip_prefix(&place)) {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}
