//! [`Error`]: errors of converting between record batches and records.

use std::io;

use arrow_schema::{ArrowError, DataType};
use tfr_arrow::text::NoTextError;
use tfrecord_framing::Position;

use crate::feature::FeatureKind;
use crate::options::Choice;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

tfrecord_framing::boxed_error! {
    /// An error with its location.
    pub struct Error(Box<ErrorKind>);
}

/// The kinds of [`Error`]. Rows are counted from 0 within the batch, plus the offset set by [`Error::with_row_offset`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A column whose type cannot be written to a record.
    #[error("column {column:?}: type {data_type} cannot be written as a feature")]
    UnsupportedType {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
        /// The unsupported type within it.
        part: DataType,
    },
    /// Tensor values of a type without a TensorFlow dtype, to be serialized or parsed.
    #[error("column \"tensor\": type {data_type} cannot be written as a feature")]
    NoDtype {
        /// The type.
        data_type: DataType,
    },
    /// Values for a vocabulary that are not strings.
    #[error("column \"vocabulary\": type {data_type} cannot be written as a feature")]
    NoStrings {
        /// Their type.
        data_type: DataType,
    },
    /// An option names a column that the schema does not have.
    #[error("no column {column:?} to map: the columns are {}", list(known))]
    UnknownColumn {
        /// The name in the option.
        column: String,
        /// The columns of the schema.
        known: Vec<String>,
    },
    /// A choice that the column's type does not support.
    #[error("column {column:?}: \"{choice}\" is not a choice for type {data_type}{}", among(allowed))]
    InvalidChoice {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
        /// The choice.
        choice: Choice,
        /// The choices that the type supports.
        allowed: Vec<Choice>,
    },
    /// The choice "tensor" for tensors whose dimensions are in another order than their values.
    #[error(
        "column {column:?}: tensors with the permutation {permutation:?}, whose values are not in the order of their \
         dimensions, are not supported"
    )]
    PermutedTensor {
        /// The column, or the part of it.
        column: String,
        /// The order of the dimensions.
        permutation: Vec<usize>,
    },
    /// A default for nulls that is not a valid value of the column's type.
    #[error(
        "column {column:?}: nulls cannot become {value:?}, which is not a value of type {data_type} or does not fit its feature"
    )]
    InvalidDefault {
        /// The column, or the part of it.
        column: String,
        /// Its type.
        data_type: DataType,
        /// The text.
        value: String,
    },
    /// The choice `index` without a vocabulary.
    #[error("column {column:?}: \"index\" needs a vocabulary")]
    NoVocabulary {
        /// The column, or the part of it.
        column: String,
    },
    /// A vocabulary with a duplicate value or too many, or a column that cannot be a feature list.
    #[error("{problem}")]
    Refused {
        /// What is wrong with which column or vocabulary.
        problem: String,
    },
    /// A value that is not in the vocabulary.
    #[error("column {column:?}, row {row}: {value:?} is not in the vocabulary")]
    NotInVocabulary {
        /// The column, or the part of it.
        column: String,
        /// The row.
        row: u64,
        /// The value.
        value: String,
    },
    /// Several columns that can be the examples of an ExampleListWithContext, or none where they are written.
    #[error(
        "records of type elwc need one list of structs, whose elements become the examples, found: {}",
        if found.is_empty() { "none".to_owned() } else { list(found) }
    )]
    NotItems {
        /// The lists of structs.
        found: Vec<String>,
    },
    /// Columns that do not fit records of type bytes, which need exactly one column of strings or binaries.
    #[error("records of type bytes need a single column of strings or bytes, found: {}", list(columns))]
    NotBytes {
        /// The columns, with their types.
        columns: Vec<String>,
    },
    /// Two columns, or two parts of one column, with the same feature name.
    #[error("{} would both become feature {feature:?}", both(*first, *second))]
    DuplicateFeature {
        /// The feature.
        feature: String,
        /// Position of the first column, from 0.
        first: usize,
        /// Position of the second.
        second: usize,
    },
    /// Two parts of columns with the same name, which options cannot distinguish.
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
    /// Columns that would lose information in strict mode.
    #[error("{} would lose information: {}", columns(lossy), reasons(lossy))]
    Narrowed {
        /// Each column and what it would lose.
        lossy: Vec<(String, String)>,
    },
    /// A null where nulls are not allowed.
    #[error("column {column:?}, row {row}: null, but {rule}")]
    Null {
        /// The column.
        column: String,
        /// The row.
        row: u64,
        /// The rule that forbids it.
        rule: &'static str,
    },
    /// A null list of examples.
    #[error("column {column:?}, row {row}: null, but a record of type elwc has no null list of examples")]
    NullExamples {
        /// The column.
        column: String,
        /// The row.
        row: u64,
    },
    /// A null inside a list.
    #[error("column {column:?}, row {row}: null inside a list, which a feature cannot represent")]
    NullElement {
        /// The column.
        column: String,
        /// The row.
        row: u64,
        /// Whether it is an element that could be dropped from the list.
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
        /// The target type.
        target: &'static str,
        /// The column's type.
        data_type: DataType,
    },
    /// A decimal with more digits than the precision of its type.
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
    /// A value that cannot be a tensor, or a tensor that is not a value of the column's type.
    #[error("{}row {row}: {reason}", of_column(column))]
    Tensor {
        /// The column, if the values are from a column.
        column: Option<String>,
        /// The row.
        row: u64,
        /// What was found.
        reason: String,
    },
    /// A value without a text form, in a column that is written as text.
    #[error(transparent)]
    NoText(#[from] NoTextError),
    /// A value that Arrow cannot format as text.
    #[error("column {column:?}: a value of type {data_type} has no text form")]
    Text {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
        /// Arrow's error.
        source: ArrowError,
    },
    /// A row whose record would exceed the maximum length of a protobuf message.
    #[error("row {row}: a record of {len} bytes; at most {} can be read", tfrecord_framing::MAX_RECORD_LEN)]
    RecordTooLong {
        /// The row.
        row: u64,
        /// Bytes of the record without its frame.
        len: usize,
    },
    /// A batch whose columns differ from the mapping's.
    #[error("expected {expected}, found {found}")]
    SchemaMismatch {
        /// The mapping's columns: the first one that differs, or their number.
        expected: String,
        /// The batch's.
        found: String,
    },
    /// The sink failed.
    #[error("cannot write records")]
    Io(#[from] io::Error),
    /// The record writer failed, or the file being read is damaged.
    #[error(transparent)]
    Framing(#[from] tfrecord_framing::Error),
    /// A projection of a column that the schema does not have.
    #[error("no column {column} to read: the columns are {columns}")]
    NoSuchColumn {
        /// The position asked for, from 0.
        column: usize,
        /// How many columns there are.
        columns: usize,
    },
    /// A column written as text whose type cannot be parsed from text.
    #[error("column {column:?}: type {data_type} cannot be read from text")]
    TextNotRead {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// A column whose rows exceed the maximum size of a batch, regardless of their values.
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
        /// The maximum of a batch.
        max: usize,
    },
    /// Examples of an ExampleListWithContext that take too much space, regardless of their features.
    #[error(
        "{position}: {examples} examples take {len} bytes while they are decoded, even without features; at most {max}"
    )]
    ExamplesTooLong {
        /// The record, up to which the examples of the records decoded together are counted.
        position: Position,
        /// The number of examples.
        examples: usize,
        /// Bytes that they take.
        len: usize,
        /// The maximum.
        max: usize,
    },
    /// A record that is not a valid message of its type.
    #[error("{position}: {}{reason}{}", of_feature(feature), at_byte(*at))]
    Malformed {
        /// The record.
        position: Position,
        /// The feature, if known.
        feature: Option<String>,
        /// The byte offset in the record's payload. `None` if the feature is in several places of it.
        at: Option<usize>,
        /// The defect.
        reason: &'static str,
    },
    /// A name shared by a feature of the context and a feature list, or a feature of the examples.
    #[error(
        "{position}: {feature:?} is a feature of the context and also a feature list or a feature of the examples, and one \
         column cannot be both"
    )]
    AmbiguousName {
        /// The record with the second of the two.
        position: Position,
        /// Their name.
        feature: String,
    },
    /// A feature whose kind differs from the schema's.
    #[error("{position}: feature {feature:?}: expected {}, found {}", list_of(*expected), list_of(Some(*found)))]
    KindMismatch {
        /// The record.
        position: Position,
        /// The feature.
        feature: String,
        /// The kind that the schema requires. `None` for a column of type Null.
        expected: Option<FeatureKind>,
        /// The kind found.
        found: FeatureKind,
    },
    /// A feature with more or fewer values than its column's type requires.
    #[error("{position}: feature {feature:?}: expected {}, found {found}", value_count(data_type))]
    ValueCount {
        /// The record.
        position: Position,
        /// The feature.
        feature: String,
        /// The column's type: not a list, or one of fixed size.
        data_type: DataType,
        /// The number of values found.
        found: usize,
    },
    /// A feature of a nested column that is inconsistent with other features of the column.
    #[error("{position}: feature {feature:?}: expected {expected}, found {found}")]
    UnevenFeatures {
        /// The record.
        position: Position,
        /// The feature.
        feature: String,
        /// What the other features imply.
        expected: String,
        /// What was found.
        found: String,
    },
    /// A record that lacks the feature of a non-nullable column.
    #[error("{position}: feature {feature:?} is missing, but the schema requires it")]
    MissingFeature {
        /// The record.
        position: Position,
        /// The feature.
        feature: String,
    },
    /// A value that does not fit the column's type.
    #[error("{position}: feature {feature:?}: {value} does not fit {data_type}")]
    InvalidValue {
        /// The record.
        position: Position,
        /// The feature.
        feature: String,
        /// The value, or a description of it.
        value: String,
        /// The column's type.
        data_type: DataType,
        /// The kind of the feature.
        kind: FeatureKind,
    },
    /// A batch with more distinct values than the dictionary's key type can index, or with more bytes or elements than
    /// its offsets can address.
    #[error("column {column:?}: {rows} rows have more values than {data_type} can hold in one batch")]
    TooManyValues {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
        /// Rows of the batch.
        rows: usize,
    },
    /// A row filter that failed, or whose result does not cover every row.
    #[error("{position}: cannot determine whether this and later records pass the filter")]
    RowFilter {
        /// The first record of the batch passed to the filter.
        position: Position,
        /// The filter's error.
        source: ArrowError,
    },
    /// Arrow rejected the columns that were read.
    #[error("cannot make a record batch")]
    Arrow {
        /// Arrow's error.
        source: ArrowError,
    },
}

impl Error {
    /// The position of the record that the error is about, if it is about one.
    pub fn position(&self) -> Option<Position> {
        match self.kind() {
            ErrorKind::Framing(error) => Some(error.position()),
            ErrorKind::Malformed { position, .. }
            | ErrorKind::AmbiguousName { position, .. }
            | ErrorKind::KindMismatch { position, .. }
            | ErrorKind::ValueCount { position, .. }
            | ErrorKind::UnevenFeatures { position, .. }
            | ErrorKind::MissingFeature { position, .. }
            | ErrorKind::InvalidValue { position, .. }
            | ErrorKind::ExamplesTooLong { position, .. }
            | ErrorKind::RowFilter { position, .. } => Some(*position),
            _ => None,
        }
    }

    /// The column or feature whose value the error is about, if it is about one.
    pub fn column(&self) -> Option<&str> {
        match self.kind() {
            ErrorKind::Malformed { feature, .. } => feature.as_deref(),
            ErrorKind::AmbiguousName { feature: column, .. }
            | ErrorKind::KindMismatch { feature: column, .. }
            | ErrorKind::ValueCount { feature: column, .. }
            | ErrorKind::UnevenFeatures { feature: column, .. }
            | ErrorKind::MissingFeature { feature: column, .. }
            | ErrorKind::InvalidValue { feature: column, .. }
            | ErrorKind::Null { column, .. }
            | ErrorKind::NullElement { column, .. }
            | ErrorKind::NullExamples { column, .. }
            | ErrorKind::OutOfRange { column, .. }
            | ErrorKind::BeyondPrecision { column, .. }
            | ErrorKind::NotInVocabulary { column, .. } => Some(column),
            ErrorKind::Tensor { column, .. } => column.as_deref(),
            ErrorKind::NoText(error) => Some(&error.column),
            _ => None,
        }
    }

    /// The row that cannot be written, if the error is about one. Counted as in [`ErrorKind`].
    pub fn row(&self) -> Option<u64> {
        match self.kind() {
            ErrorKind::Null { row, .. }
            | ErrorKind::NullElement { row, .. }
            | ErrorKind::NullExamples { row, .. }
            | ErrorKind::OutOfRange { row, .. }
            | ErrorKind::BeyondPrecision { row, .. }
            | ErrorKind::Tensor { row, .. }
            | ErrorKind::NotInVocabulary { row, .. }
            | ErrorKind::RecordTooLong { row, .. } => Some(*row),
            ErrorKind::NoText(error) => Some(error.row),
            _ => None,
        }
    }

    /// Describes the error without its row and column, which [`row`](Self::row) and [`column`](Self::column) return.
    pub fn reason(&self) -> String {
        let text = self.to_string();
        let place = match (self.column(), self.row()) {
            (Some(column), Some(row)) => format!("column {column:?}, row {row}: "),
            (None, Some(row)) => format!("row {row}: "),
            (_, None) => return text,
        };
        text.strip_prefix(&place).map(str::to_owned).unwrap_or(text)
    }

    /// Adds `rows_before` to the error's row number.
    #[must_use]
    pub fn with_row_offset(self, rows_before: u64) -> Self {
        self.map_row(|row| row + rows_before)
    }

    /// Replaces the error's row number by `count` of it.
    pub(crate) fn map_row(mut self, count: impl FnOnce(u64) -> u64) -> Self {
        match self.0.as_mut() {
            ErrorKind::Null { row, .. }
            | ErrorKind::NullElement { row, .. }
            | ErrorKind::NullExamples { row, .. }
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

/// The reason for rejecting a SequenceExample where Examples are expected.
pub(crate) const HAS_FEATURE_LISTS: &str = "feature lists, which tf.train.SequenceExample has and tf.train.Example not";

/// The reason for rejecting a record that contains Examples where another type is expected.
pub(crate) const MESSAGE_FOR_NAME: &str =
    "a message in place of a name: neither tf.train.Example nor tf.train.SequenceExample";

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

impl From<Error> for ArrowError {
    fn from(error: Error) -> Self {
        Self::ExternalError(Box::new(error))
    }
}
