//! Hints for columns and values that cannot be converted to features.

use arrow::datatypes::DataType;
use arrow_tfrecord::{Error, ErrorKind, FeatureKind};
use tfr_arrow::text::NoTextError;

use super::framing;

/// Returns a hint for an error from writing or reading records, if there is one.
pub fn hint(error: &Error) -> Option<String> {
    Some(match error.kind() {
        ErrorKind::UnsupportedType { column, part, .. } => unsupported_hint(column, part),
        ErrorKind::NoDtype { .. } => "cast the values to a type that TensorFlow has".to_owned(),
        ErrorKind::NoStrings { .. } => "cast it to VARCHAR".to_owned(),
        ErrorKind::DuplicateFeature { feature, .. } => format!("rename one of them: ... AS {feature}_2"),
        ErrorKind::DuplicatePart { .. } => {
            "rename one of them, or put something else between the names with --separator".to_owned()
        }
        ErrorKind::EmptyFeatureName { .. } => "name it: SELECT ... AS name".to_owned(),
        ErrorKind::Narrowed { .. } => {
            "choose an exact form for each with --map 'column: choice', or run without --strict".to_owned()
        }
        ErrorKind::Null { column, .. } => {
            format!("replace nulls in the query with coalesce({column}, ...), filter them out, or write them as absent")
        }
        ErrorKind::NullExamples { column, .. } => format!(
            "write an empty list with --map '{column}: null=empty' or mark the null with null=mask, rules that its fields \
             inherit, or filter the row out"
        ),
        ErrorKind::NotBytes { .. } => {
            "select the one column, as BYTEA or VARCHAR, or write records of type example".to_owned()
        }
        ErrorKind::NotItems { found } if found.is_empty() => {
            "collect the rows of each query: SELECT query, array_agg({id: id}) AS docs ... GROUP BY query".to_owned()
        }
        ErrorKind::NotItems { .. } => "name the one that becomes the examples with --sequence COL".to_owned(),
        ErrorKind::NullElement { column, can_be_dropped, .. } => {
            let drop = if *can_be_dropped { ", leave them out with null=drop," } else { "" };
            format!(
                "write where nulls are with --map '{column}: null=mask'{drop} or put a value in their place with \
                 null=default=VALUE"
            )
        }
        ErrorKind::OutOfRange { column, data_type, .. } => match data_type {
            DataType::UInt64 => {
                format!("write it as two's complement with --map '{column}: wrap', or cast it in the query")
            }
            DataType::Float64 => {
                format!("keep it exact with --map '{column}: bits' (or string, tensor), or filter the row")
            }
            data_type if data_type.is_decimal() => format!("keep it exact with --map '{column}: string'"),
            _ => format!("keep it exact with --map '{column}: string', or cast it in the query"),
        },
        ErrorKind::BeyondPrecision { column, data_type, .. } => match data_type {
            DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => {
                let most = arrow::datatypes::DECIMAL128_MAX_PRECISION;
                format!(
                    "{data_type} has fewer digits; cast it in the query: CAST({column} AS DECIMAL({most}, {scale}))"
                )
            }
            _ => format!("{data_type} has fewer digits; cast it in the query to a type with more"),
        },
        ErrorKind::NoText(error) => no_text_hint(error),
        ErrorKind::Tensor { column: Some(column), .. } => {
            format!("write it as lists, without --map '{column}: tensor', or filter the row out")
        }
        ErrorKind::PermutedTensor { column, .. } => {
            format!("write the values in the order in which they lie in memory, without --map '{column}: tensor'")
        }
        ErrorKind::InvalidDefault { data_type, .. } => {
            format!("write a value of {data_type} as text; that of a struct or list is for all parts in it")
        }
        ErrorKind::NoVocabulary { column } => {
            format!("give its values, with the option vocabulary='{column}: cat, dog' or in a file for --map-file")
        }
        ErrorKind::NotInVocabulary { value, .. } => {
            format!("add {value:?} to the vocabulary, or replace it in the query")
        }
        ErrorKind::RecordTooLong { .. } => "leave the row's large values out, or split them".to_owned(),
        _ => return read_hint(error),
    })
}

/// Returns a hint for records that cannot be read.
fn read_hint(error: &Error) -> Option<String> {
    match error.kind() {
        ErrorKind::Framing(error) => framing::hint(error).map(str::to_owned),
        ErrorKind::RowTooLong { column, .. } => {
            Some(format!("declare {column} with a type of any length, or leave it out"))
        }
        ErrorKind::ExamplesTooLong { .. } => {
            Some("declare the lists in the examples with types of any length, or leave them out".to_owned())
        }
        ErrorKind::TextNotRead { column, .. } => Some(format!("read {column} as VARCHAR")),
        ErrorKind::AmbiguousName { feature, .. } => Some(format!(
            "declare the columns that are to be read: {feature} is the feature of the context, unless it is named as a \
                 sequence"
        )),
        ErrorKind::Malformed { .. } => Some(
            "the records may be of another type, such as sequence-example or elwc, or of a broken writer".to_owned(),
        ),
        ErrorKind::KindMismatch { feature, expected: Some(expected), found, .. } if are_numbers(*expected, *found) => {
            Some(both_numbers_hint(feature))
        }
        ErrorKind::KindMismatch { feature, found, .. } => Some(format!(
            "no type holds two kinds: declare the columns without {feature}, or as {} if every record of the table has \
                 it as {found}_list",
            widest(*found)
        )),
        ErrorKind::ValueCount { feature, .. } => Some(format!("declare {feature} as a list of any length")),
        ErrorKind::UnevenFeatures { .. } => Some(
            "read with the mapping that the records were written with, or declare the features as columns of their own"
                .to_owned(),
        ),
        ErrorKind::MissingFeature { feature, .. } => Some(format!("declare {feature} as nullable")),
        ErrorKind::InvalidValue { feature, kind, .. } => {
            Some(format!("declare {feature} as {}, which every {kind}_list fits", widest(*kind)))
        }
        ErrorKind::TooManyValues { .. } => {
            Some("read smaller batches, or declare a type with wider keys or offsets".to_owned())
        }
        _ => None,
    }
}

/// Whether one of the kinds is of integers, and the other of floats.
pub(super) fn are_numbers(one: FeatureKind, other: FeatureKind) -> bool {
    use FeatureKind::{Float, Int64};
    matches!((one, other), (Int64, Float) | (Float, Int64))
}

/// Returns a hint for a feature that has integers in some records and floats in others.
pub(super) fn both_numbers_hint(feature: &str) -> String {
    format!(
        "declare {feature} as DOUBLE, or DOUBLE[], which reads both if every integer is exact as a float of 32 bits; else \
         declare the columns without {feature}"
    )
}

/// Returns the SQL type that can represent all values of a kind.
fn widest(kind: FeatureKind) -> &'static str {
    match kind {
        FeatureKind::Bytes => "BYTEA",
        FeatureKind::Float => "FLOAT",
        FeatureKind::Int64 => "BIGINT",
    }
}

/// Returns a hint for a column with a part that cannot become a feature.
fn unsupported_hint(column: &str, part: &DataType) -> String {
    match part {
        DataType::Interval(_) => format!("write it as text with --map '{column}: string', or cast it to a number"),
        // A cast would make the values of all other types null.
        DataType::Union(fields, _) => {
            let mut fields = fields.iter().map(|(_, field)| field);
            let one = fields.find(|field| *field.data_type() != DataType::Null).map_or("", |field| field.name());
            format!(
                "write it as text with --map '{column}: string', or take one type: union_extract({column}, '{one}')"
            )
        }
        DataType::Null => format!("cast it to a list of one type: CAST({column} AS BIGINT[])"),
        DataType::Struct(_) => "its elements have no field with a value, and so no number; leave it out".to_owned(),
        list if list.is_list() => "its lists have length 0; leave it out".to_owned(),
        _ => "cast it in the query, or leave it out".to_owned(),
    }
}

/// Returns a hint for a value that has no text representation.
pub fn no_text_hint(NoTextError { column, data_type, .. }: &NoTextError) -> String {
    match data_type {
        data_type if data_type.is_decimal() => {
            format!("filter such rows out, or cast {column} to a decimal type with more digits")
        }
        _ => format!("filter such rows out, or select the integer that is stored: arrow_cast({column}, 'Int64')"),
    }
}

#[cfg(test)]
mod tests;
