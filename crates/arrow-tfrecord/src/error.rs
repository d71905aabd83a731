//! [`Error`]: what can go wrong between record batches and records.

use std::fmt;
use std::io;

use arrow_schema::{ArrowError, DataType};
use tfrecord_framing::Position;

use crate::feature::FeatureKind;
use crate::options::Choice;
use crate::text::NoTextError;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong and where.
pub struct Error(Box<ErrorKind>);

/// The kinds of [`Error`]. Rows are counted from 0, in the batch given, or from wherever
/// [`Error::with_row_offset`] says.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A column whose type has no place in a record.
    #[error("column {column:?}: type {data_type} has no feature to go to")]
    UnsupportedType {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
        /// The type in it that has no place.
        part: DataType,
    },
    /// Values to be serialized as tensors, or parsed from them, of a type for which TensorFlow has no dtype.
    #[error("column \"tensor\": type {data_type} has no feature to go to")]
    NoDtype {
        /// The type.
        data_type: DataType,
    },
    /// Values for a vocabulary that are not strings.
    #[error("column \"vocabulary\": type {data_type} has no feature to go to")]
    NoStrings {
        /// Their type.
        data_type: DataType,
    },
    /// An option names a column that the schema does not have.
    #[error("no column {column:?} to map: the columns are {}", list(known))]
    UnknownColumn {
        /// The name in the option.
        column: String,
        /// The columns that there are.
        known: Vec<String>,
    },
    /// A choice that the column's type does not have.
    #[error("column {column:?}: \"{choice}\" is not a choice for type {data_type}{}", among(allowed))]
    InvalidChoice {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
        /// What was chosen.
        choice: Choice,
        /// What can be.
        allowed: Vec<Choice>,
    },
    /// A text in place of nulls that is no value of the column's type.
    #[error(
        "column {column:?}: nulls cannot become {value:?}, which is no value of type {data_type}, or none that its feature can hold"
    )]
    InvalidDefault {
        /// The column, or the part of it.
        column: String,
        /// Its type.
        data_type: DataType,
        /// The text.
        value: String,
    },
    /// Ranks without a vocabulary.
    #[error("column {column:?}: \"index\" needs a vocabulary")]
    NoVocabulary {
        /// The column, or the part of it.
        column: String,
    },
    /// A vocabulary with a value twice.
    #[error("column {column:?}: {value:?} stands in its vocabulary twice")]
    AmbiguousVocabulary {
        /// The column, or the part of it.
        column: String,
        /// The value.
        value: String,
    },
    /// A vocabulary of more values than it may have.
    #[error("more than {most} distinct values for a vocabulary")]
    LongVocabulary {
        /// The most that it may have.
        most: usize,
    },
    /// A value without a rank.
    #[error("column {column:?}, row {row}: {value:?} is not in the vocabulary")]
    NotInVocabulary {
        /// The column, or the part of it.
        column: String,
        /// The row.
        row: u64,
        /// The value.
        value: String,
    },
    /// A column that is no sequence.
    #[error("column {column:?}: type {data_type} is no sequence: {reason}")]
    NoSequence {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
        /// Why not.
        reason: &'static str,
    },
    /// Columns that are not the one that records of bytes are made of.
    #[error("records of type bytes are the values of one column of strings or bytes, and there are: {}", list(columns))]
    NotBytes {
        /// The columns, with their types.
        columns: Vec<String>,
    },
    /// Two columns, or two parts of one, that would become the same feature.
    #[error("{} would both become feature {feature:?}", both(*first, *second))]
    DuplicateFeature {
        /// The feature.
        feature: String,
        /// Position of the first column, from 0.
        first: usize,
        /// Position of the second.
        second: usize,
    },
    /// Two parts of columns that would have one name, so that nothing can be said of one of them.
    #[error("{} would both have a part {part:?}", both(*first, *second))]
    DuplicatePart {
        /// The name.
        part: String,
        /// Position of the first column, from 0.
        first: usize,
        /// Position of the second.
        second: usize,
    },
    /// A column without a name.
    #[error("column {column} has no name, and a feature needs one")]
    EmptyFeatureName {
        /// Position of the column, from 0.
        column: usize,
    },
    /// Columns that would lose information where that was forbidden.
    #[error("{} would lose information: {}", columns(lossy), reasons(lossy))]
    Narrowed {
        /// Each column and what it would lose.
        lossy: Vec<(String, String)>,
    },
    /// A null where none may be.
    #[error("column {column:?}, row {row}: null, and {rule}")]
    Null {
        /// The column.
        column: String,
        /// The row.
        row: u64,
        /// Who forbids it.
        rule: &'static str,
    },
    /// A null inside a list.
    #[error("column {column:?}, row {row}: null inside a list, which a feature cannot hold")]
    NullElement {
        /// The column.
        column: String,
        /// The row.
        row: u64,
        /// Whether it is an element that the list could do without.
        can_be_dropped: bool,
    },
    /// A value that its feature cannot hold.
    #[error("column {column:?}, row {row}: {value} does not fit {target}")]
    OutOfRange {
        /// The column.
        column: String,
        /// The row.
        row: u64,
        /// The value.
        value: String,
        /// What it should have become.
        target: &'static str,
        /// The column's type.
        data_type: DataType,
    },
    /// A decimal of more digits than its type has.
    #[error("column {column:?}, row {row}: {value} does not fit its own type")]
    BeyondPrecision {
        /// The column.
        column: String,
        /// The row.
        row: u64,
        /// The value.
        value: String,
        /// The column's type.
        data_type: DataType,
    },
    /// A value that is no tensor, or a tensor that is no value.
    #[error("{}row {row}: {reason}", of_column(column))]
    Tensor {
        /// The column, if it is one.
        column: Option<String>,
        /// The row.
        row: u64,
        /// What it is instead.
        reason: String,
    },
    /// A value that has no text, in a column that is written as text.
    #[error(transparent)]
    NoText(#[from] NoTextError),
    /// A value without a text form.
    #[error("column {column:?}: a value of type {data_type} has no text form")]
    Text {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
        /// What Arrow says.
        source: ArrowError,
    },
    /// A row that would make a record longer than a protobuf message can be.
    #[error("row {row}: a record of {len} bytes; at most {} can be read", tfrecord_framing::MAX_RECORD_LEN)]
    RecordTooLong {
        /// The row.
        row: u64,
        /// Bytes of the record without its frame.
        len: usize,
    },
    /// A batch that does not have the schema of the mapping.
    #[error("column {column}: expected {expected}, found {found}")]
    SchemaMismatch {
        /// Position of the column, from 0.
        column: usize,
        /// What the mapping was made for.
        expected: String,
        /// What the batch has.
        found: String,
    },
    /// The sink failed.
    #[error("cannot write records")]
    Io(#[from] io::Error),
    /// The record writer failed, or the file being read is damaged.
    #[error(transparent)]
    Framing(#[from] tfrecord_framing::Error),
    /// A projection of a column that the schema does not have.
    #[error("no column {column} to read: there are {columns}")]
    NoSuchColumn {
        /// The position asked for, from 0.
        column: usize,
        /// How many columns there are.
        columns: usize,
    },
    /// A column written as text of a type whose text is not read.
    #[error("column {column:?}: type {data_type} is not read back from text")]
    TextNotRead {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// A column whose rows take more room than a batch has, whatever is in them.
    #[error(
        "column {column:?}: one row of type {data_type} takes {len} bytes, even if it is null; a batch has at most {max}"
    )]
    RowTooLong {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
        /// Bytes that a row takes while it is decoded.
        len: usize,
        /// The most that a batch takes.
        max: usize,
    },
    /// A record that is no `tf.train.Example`.
    #[error("{position}: {}{reason}{}", of_feature(feature), at_byte(*at))]
    Malformed {
        /// The record.
        position: Position,
        /// The feature, where it is known which.
        feature: Option<String>,
        /// The byte of the record's payload, from 0; none where a feature stands in several places of it.
        at: Option<usize>,
        /// What is wrong there.
        reason: &'static str,
    },
    /// A name that a feature of the context and a feature list have.
    #[error("{position}: {feature:?} is a feature of the context and a feature list, and one column cannot be both")]
    AmbiguousName {
        /// The record in which the second of the two was found.
        position: Position,
        /// Their name.
        feature: String,
    },
    /// A feature of another kind than the schema says.
    #[error("{position}: feature {feature:?}: expected {}, found {}", list_of(*expected), list_of(Some(*found)))]
    KindMismatch {
        /// The record.
        position: Position,
        /// The feature.
        feature: String,
        /// The kind that the schema asks for; none for a column of type Null.
        expected: Option<FeatureKind>,
        /// The kind that it has.
        found: FeatureKind,
    },
    /// A feature with more or fewer values than its column's type has.
    #[error("{position}: feature {feature:?}: expected {}, found {found}", value_count(data_type))]
    ValueCount {
        /// The record.
        position: Position,
        /// The feature.
        feature: String,
        /// The column's type: not a list, or one of fixed size.
        data_type: DataType,
        /// How many values there are.
        found: usize,
    },
    /// A feature of a nested column that is not what other features of the column make of it.
    #[error("{position}: feature {feature:?}: expected {expected}, found {found}")]
    UnevenFeatures {
        /// The record.
        position: Position,
        /// The feature.
        feature: String,
        /// What there should be.
        expected: String,
        /// What there is.
        found: String,
    },
    /// A record without a feature whose column is never null.
    #[error("{position}: feature {feature:?} is missing, and the schema says that it never is")]
    MissingFeature {
        /// The record.
        position: Position,
        /// The feature.
        feature: String,
    },
    /// A value that the column's type does not have.
    #[error("{position}: feature {feature:?}: {value} does not fit {data_type}")]
    InvalidValue {
        /// The record.
        position: Position,
        /// The feature.
        feature: String,
        /// The value, or what it is like.
        value: String,
        /// The column's type.
        data_type: DataType,
        /// The kind of the feature.
        kind: FeatureKind,
    },
    /// A batch with more distinct values than the keys of a dictionary can tell apart, or with more bytes or elements
    /// than offsets can count.
    #[error("column {column:?}: {rows} rows have more values than {data_type} can hold in one batch")]
    TooManyValues {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
        /// Rows of the batch.
        rows: usize,
    },
    /// A row filter that failed, or did not answer for every row.
    #[error("{position}: cannot tell whether this and the records after it pass the filter")]
    RowFilter {
        /// The first of the records that it was asked about.
        position: Position,
        /// What the filter says.
        source: ArrowError,
    },
    /// Arrow does not take the columns that were read.
    #[error("cannot make a record batch")]
    Arrow {
        /// What Arrow says.
        source: ArrowError,
    },
}

impl Error {
    /// What went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    /// The same error, its row counted from `rows_before` rows earlier.
    #[must_use]
    pub fn with_row_offset(self, rows_before: u64) -> Self {
        self.map_row(|row| row + rows_before)
    }

    /// The same error, its row counted in another way.
    pub(crate) fn map_row(mut self, count: impl FnOnce(u64) -> u64) -> Self {
        match self.0.as_mut() {
            ErrorKind::Null { row, .. }
            | ErrorKind::NullElement { row, .. }
            | ErrorKind::OutOfRange { row, .. }
            | ErrorKind::BeyondPrecision { row, .. }
            | ErrorKind::Tensor { row, .. }
            | ErrorKind::NotInVocabulary { row, .. }
            | ErrorKind::RecordTooLong { row, .. } => *row = count(*row),
            ErrorKind::NoText(error) => error.row = count(error.row),
            _ => {}
        }
        self
    }
}

/// What is wrong with a record of another type than was said.
pub(crate) const HAS_FEATURE_LISTS: &str = "feature lists, which tf.train.SequenceExample has and tf.train.Example not";

fn both(first: usize, second: usize) -> String {
    if first == second { format!("two parts of column {first}") } else { format!("columns {first} and {second}") }
}

fn of_column(column: &Option<String>) -> String {
    column.as_ref().map(|column| format!("column {column:?}, ")).unwrap_or_default()
}

fn of_feature(feature: &Option<String>) -> String {
    feature.as_ref().map(|feature| format!("feature {feature:?}: ")).unwrap_or_default()
}

fn at_byte(at: Option<usize>) -> String {
    at.map(|at| format!(", at byte {at} of its payload")).unwrap_or_default()
}

fn list_of(kind: Option<FeatureKind>) -> String {
    kind.map_or_else(|| "no value".to_owned(), |kind| format!("{kind}_list"))
}

fn value_count(data_type: &DataType) -> String {
    match data_type {
        DataType::FixedSizeList(_, len) => format!("{len} values"),
        _ => "1 value".to_owned(),
    }
}

fn list(names: &[String]) -> String {
    names.join(", ")
}

fn among(allowed: &[Choice]) -> String {
    if allowed.is_empty() {
        return ", which has one form only".to_owned();
    }
    let words: Vec<_> = allowed.iter().map(Choice::to_string).collect();
    format!(": choose among {}", words.join(", "))
}

fn columns(lossy: &[(String, String)]) -> &'static str {
    if lossy.len() == 1 { "a column" } else { "columns" }
}

fn reasons(lossy: &[(String, String)]) -> String {
    let reasons: Vec<_> = lossy.iter().map(|(column, reason)| format!("{column:?} ({reason})")).collect();
    reasons.join(", ")
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
        self.0.source()
    }
}

impl<E: Into<ErrorKind>> From<E> for Error {
    fn from(kind: E) -> Self {
        Self(Box::new(kind.into()))
    }
}

impl From<Error> for ArrowError {
    fn from(error: Error) -> Self {
        Self::ExternalError(Box::new(error))
    }
}
