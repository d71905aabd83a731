//! [`FunctionError`]: reports invalid arguments of functions, and values that they cannot process.

use datafusion_common::DataFusionError;

tfrecord_framing::boxed_error! {
    /// An error. The engine carries it as [`DataFusionError::External`].
    pub struct FunctionError(Box<FunctionErrorKind>) includes Record, Parse;
}

/// The kinds of [`FunctionError`]. Rows are counted from 0 within the batch passed to the function.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FunctionErrorKind {
    /// An argument has an unsupported type, or is not constant.
    #[error("{function}: argument {number}: expected {expected}, found {found}")]
    Argument {
        /// The function.
        function: &'static str,
        /// The argument's number, from 1.
        number: usize,
        /// The expected argument.
        expected: &'static str,
        /// The argument given.
        found: String,
    },
    /// The text of an argument is invalid.
    #[error("{function}: argument {number}: {text:?}: {reason}")]
    Text {
        /// The function.
        function: &'static str,
        /// The argument's number, from 1.
        number: usize,
        /// The text.
        text: String,
        /// The reason.
        reason: String,
    },
    /// Columns cannot be mapped to a record, or a value does not fit into one.
    #[error("{function}: {error}")]
    Record {
        /// The function.
        function: &'static str,
        /// The error. Its own source becomes the source of this error.
        error: arrow_tfrecord::Error,
    },
    /// A record is malformed, or does not match the declared columns.
    #[error("{function}: row {row}: {}", without_position(error))]
    Parse {
        /// The function.
        function: &'static str,
        /// The row.
        row: u64,
        /// The error. Its own source becomes the source of this error.
        error: arrow_tfrecord::Error,
    },
    /// The records contain a column in another place than the one it is read from.
    #[error("{function}: column \"{column}\" is in none of the records, but they have {found}")]
    Elsewhere {
        /// The function.
        function: &'static str,
        /// The column.
        column: String,
        /// The features that the records contain.
        found: String,
    },
    /// The bytes are not an image of a known format, or the image is damaged.
    #[error("{function}: row {row}: {reason}")]
    Image {
        /// The function.
        function: &'static str,
        /// The row.
        row: usize,
        /// The reason.
        reason: String,
    },
}

impl FunctionErrorKind {
    /// Creates the error of a record that cannot be parsed.
    pub(super) fn parse(function: &'static str, error: arrow_tfrecord::Error) -> Self {
        match position(&error) {
            Some(position) => Self::Parse { function, row: position.record, error },
            None => Self::Record { function, error },
        }
    }
}

impl From<FunctionError> for DataFusionError {
    fn from(error: FunctionError) -> Self {
        Self::External(Box::new(error))
    }
}

impl From<FunctionErrorKind> for DataFusionError {
    fn from(kind: FunctionErrorKind) -> Self {
        FunctionError::from(kind).into()
    }
}

/// Returns a record's position, which is its row: records are parsed as if they were consecutive in a file.
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

/// Formats an error without its position in a file, which does not exist here.
fn without_position(error: &arrow_tfrecord::Error) -> String {
    let text = error.to_string();
    let place = position(error).map(|position| format!("{position}: "));
    match place.and_then(|place| text.strip_prefix(&place)) {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}
