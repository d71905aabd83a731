use std::sync::Arc;

use arrow::datatypes::{Field, Fields, IntervalUnit, UnionFields};

use tfrecord_framing::Position;

use super::*;

/// A column `c` without a place, for a part of it.
fn unsupported(part: DataType) -> ErrorKind {
    ErrorKind::UnsupportedType { column: "c".to_owned(), data_type: part.clone(), part }
}

fn out_of_range(data_type: DataType) -> ErrorKind {
    ErrorKind::OutOfRange { column: "c".to_owned(), row: 0, value: String::new(), target: "an int64", data_type }
}

fn beyond_precision(data_type: DataType) -> ErrorKind {
    ErrorKind::BeyondPrecision { column: "c".to_owned(), row: 0, value: String::new(), data_type }
}

fn no_text(data_type: DataType) -> ErrorKind {
    ErrorKind::NoText(NoTextError { column: "c".to_owned(), row: 0, value: String::new(), data_type })
}

fn null_element(can_be_dropped: bool) -> ErrorKind {
    ErrorKind::NullElement { column: "c".to_owned(), row: 0, can_be_dropped }
}

#[test]
fn unwritable_column_errors_have_hints() {
    let column = || "c".to_owned();
    let fields = [Field::new("none", DataType::Null, true), Field::new("n", DataType::Int64, true)];
    let lists = DataType::FixedSizeList(Arc::new(Field::new_list_field(DataType::Null, true)), 0);
    let hints: Vec<_> = [
        unsupported(DataType::Interval(IntervalUnit::DayTime)),
        unsupported(DataType::Union(UnionFields::from_fields(fields), arrow::datatypes::UnionMode::Sparse)),
        unsupported(DataType::Null),
        unsupported(DataType::Struct(Fields::empty())),
        unsupported(lists),
        unsupported(DataType::Date32),
        ErrorKind::NoDtype { data_type: DataType::Date32 },
        ErrorKind::NoStrings { data_type: DataType::Date32 },
        ErrorKind::DuplicateFeature { feature: "point/x".to_owned(), first: 0, second: 1 },
        ErrorKind::DuplicatePart { part: column(), first: 0, second: 1 },
        ErrorKind::EmptyFeatureName { column: 0 },
        ErrorKind::Narrowed { lossy: Vec::new() },
        ErrorKind::Null { column: column(), row: 0, rule: "null=error is set" },
        ErrorKind::NotBytes { columns: Vec::new() },
        null_element(true),
        null_element(false),
        out_of_range(DataType::UInt64),
        out_of_range(DataType::Float64),
        out_of_range(DataType::Decimal128(38, 2)),
        out_of_range(DataType::Int64),
        beyond_precision(DataType::Decimal128(4, 2)),
        beyond_precision(DataType::Decimal256(4, 2)),
        no_text(DataType::Decimal128(4, 2)),
        no_text(DataType::Date64),
        ErrorKind::Tensor { column: Some(column()), row: 0, reason: String::new() },
        ErrorKind::InvalidDefault { column: column(), data_type: DataType::Int64, value: "x".to_owned() },
        ErrorKind::NoVocabulary { column: column() },
        ErrorKind::NotInVocabulary { column: column(), row: 0, value: "emu".to_owned() },
        ErrorKind::RecordTooLong { row: 0, len: 1 << 31 },
    ]
    .map(|kind| hint(&kind.into()).unwrap())
    .into();
    insta::assert_snapshot!(hints.join("\n"), @"
    write it as text with --map 'c: string', or cast it to a number
    write it as text with --map 'c: string', or take one type: union_extract(c, 'n')
    cast it to a list of one type: CAST(c AS BIGINT[])
    its elements have no field with a value, and so no number; leave it out
    its lists have length 0; leave it out
    cast it in the query, or leave it out
    cast the values to a type that TensorFlow has
    cast it to VARCHAR
    rename one of them: ... AS point/x_2
    rename one of them, or put something else between the names with --separator
    name it: SELECT ... AS name
    choose an exact form for each with --map 'column: choice', or run without --strict
    replace nulls in the query with coalesce(c, ...), filter them out, or write them as absent
    select the one column, as BYTEA or VARCHAR, or write records of type example
    write where nulls are with --map 'c: null=mask', leave them out with null=drop, or put a value in their place with null=default=VALUE
    write where nulls are with --map 'c: null=mask' or put a value in their place with null=default=VALUE
    write it as two's complement with --map 'c: wrap', or cast it in the query
    keep it exact with --map 'c: bits' (or string, tensor), or filter the row
    keep it exact with --map 'c: string'
    keep it exact with --map 'c: string', or cast it in the query
    Decimal128(4, 2) has fewer digits; cast it in the query: CAST(c AS DECIMAL(38, 2))
    Decimal256(4, 2) has fewer digits; cast it in the query to a type with more
    filter such rows out, or cast c to a decimal type with more digits
    filter such rows out, or select the integer that is stored: arrow_cast(c, 'Int64')
    write it as lists, without --map 'c: tensor', or filter the row out
    write a value of Int64 as text; that of a struct or list is for all parts in it
    give its values, with the option vocabulary='c: cat, dog' or in a file for --map-file
    add \"emu\" to the vocabulary, or replace it in the query
    leave the row's large values out, or split them
    ");
    let tensor = ErrorKind::Tensor { column: None, row: 0, reason: String::new() };
    assert_eq!(hint(&tensor.into()), None);
}

#[test]
fn unreadable_record_errors_have_hints() {
    let (column, feature, position) = ("c".to_owned(), "f".to_owned(), Position::default());
    let hints: Vec<_> = [
        ErrorKind::RowTooLong { column: column.clone(), data_type: DataType::Int64, len: 2, max: 1 },
        ErrorKind::TextNotRead { column, data_type: DataType::Date32 },
        ErrorKind::AmbiguousName { position, feature: feature.clone() },
        ErrorKind::Malformed { position, feature: None, at: None, reason: "" },
        ErrorKind::KindMismatch { position, feature: feature.clone(), expected: None, found: FeatureKind::Float },
        ErrorKind::ValueCount { position, feature: feature.clone(), data_type: DataType::Int64, found: 2 },
        ErrorKind::UnevenFeatures { position, feature: feature.clone(), expected: String::new(), found: String::new() },
        ErrorKind::ExamplesTooLong { position, examples: 3, len: 2, max: 1 },
        ErrorKind::MissingFeature { position, feature: feature.clone() },
        ErrorKind::InvalidValue {
            position,
            feature,
            value: String::new(),
            data_type: DataType::Int64,
            kind: FeatureKind::Bytes,
        },
    ]
    .map(|kind| hint(&kind.into()).unwrap())
    .into();
    insta::assert_snapshot!(hints.join("\n"), @r##"
    declare c with a type of any length, or leave it out
    read c as VARCHAR
    declare the columns that are to be read: f is the feature of the context, unless it is named as a sequence
    the records may be of another type, such as sequence-example or elwc, or of a broken writer
    no type holds two kinds: declare the columns without f, or as FLOAT if every record of the table has it as float_list
    declare f as a list of any length
    read with the mapping that the records were written with, or declare the features as columns of their own
    declare the lists in the examples with types of any length, or leave them out
    declare f as nullable
    declare f as BYTEA, which every bytes_list fits
    "##);
}
