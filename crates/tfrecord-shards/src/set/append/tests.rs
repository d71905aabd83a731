use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use arrow_tfrecord::{Choice, Mapping, MappingOptions, NullPolicy, RecordType};
use serde_json::json;
use tfrecord_framing::array_record::{ChunkCodec, ChunkOptions};
use tfrecord_framing::{Compression, Framing};

use super::*;
use crate::set::names::RunId;
use crate::write::sharding::Sharding;

fn described(fields: Vec<Field>, options: &MappingOptions) -> SetDescription {
    SetDescription::new(&Mapping::try_new(&Arc::new(Schema::new(fields)), options).unwrap(), options).unwrap()
}

fn fields(data_type: DataType, nullable: bool) -> Vec<Field> {
    vec![Field::new("id", DataType::Int64, false), Field::new("name", data_type, nullable)]
}

fn plain() -> SetDescription {
    described(fields(DataType::Utf8, true), &MappingOptions::default())
}

fn chunks(group_size: u32, codec: ChunkCodec) -> Framing {
    ChunkOptions { group_size: group_size.try_into().unwrap(), codec }.into()
}

/// Returns the difference that prevents appending rows to a set.
fn difference(set: SetDescription, rows: &SetDescription) -> Option<String> {
    let set = Manifest::new(set, Vec::new(), &RunId::new());
    let error = set.check_append(rows, Path::new("shards")).err()?;
    Some(error.to_string())
}

/// The directories of a text have the same names, however it is in memory.
#[test]
fn append_accepts_partition_columns_of_another_layout() {
    let by = |data_type| SetDescription {
        partition_columns: Some(SchemaDescription::try_new(&Schema::new(fields(data_type, true))).unwrap()),
        ..plain()
    };
    assert_eq!(difference(by(DataType::Utf8View), &by(DataType::Utf8)), None);
    insta::assert_snapshot!(difference(by(DataType::Utf8View), &by(DataType::Int8)).unwrap(), @"shards: not appended to: partitioning is by id (Int64), name (Int8), in the set it is by id (Int64), name (Utf8)");
}

#[test]
fn append_accepts_same_format() {
    let text = |data_type| described(fields(data_type, true), &MappingOptions::default());
    let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let list = |name: &str| DataType::List(Arc::new(Field::new(name, DataType::Utf8, true)));
    for (set, rows) in [
        (plain(), plain()),
        (SetDescription::of_records(), SetDescription::of_records()),
        // A different memory layout.
        (plain(), text(DataType::Utf8View)),
        (text(DataType::Utf8View), text(DataType::LargeUtf8)),
        (plain(), text(dictionary.clone())),
        (text(dictionary.clone()), text(dictionary)),
        (text(list("item")), text(list("element"))),
        // Some of these columns have nulls.
        (plain(), described(fields(DataType::Utf8, false), &MappingOptions::default())),
        // The number of shards and the sources of rows are not part of the record format.
        (
            plain(),
            SetDescription {
                sharding: Sharding::Rows(7),
                seed: Some(1),
                query: Some("SELECT 2".to_owned()),
                prefix: "more".to_owned(),
                write_partitions: 9,
                ..plain()
            },
        ),
    ] {
        assert_eq!(difference(set, &rows), None);
    }
}

#[test]
fn append_reports_the_first_difference() {
    let with = |options: MappingOptions| described(fields(DataType::Utf8, true), &options);
    let split = |name: &str, fraction| SplitDescription::new(name, fraction);
    let splits = |parts: [(&str, f64); 2], by: &[&str]| SetDescription {
        splits: parts.map(|(name, fraction)| split(name, fraction)).to_vec(),
        split_by: by.iter().map(|&column| column.to_owned()).collect(),
        ..plain()
    };
    let partitioned = |fields: Vec<Field>| SetDescription {
        partition_columns: Some(SchemaDescription::try_new(&Schema::new(fields)).unwrap()),
        ..plain()
    };
    let dt = || Field::new("dt", DataType::Utf8, true);
    let mut ranked = plain();
    let (cat, dog) = (json!({ "vocabularies": { "name": ["cat"] } }), json!({ "vocabularies": { "name": ["dog"] } }));
    ranked.options.insert("mapping".to_owned(), cat);
    let mut ranked_otherwise = plain();
    ranked_otherwise.options.insert("mapping".to_owned(), dog);
    let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    for (set, rows, expected) in [
        (
            plain(),
            described(fields(DataType::Int32, true), &MappingOptions::default()),
            "column \"name\" is Int32, in the set it is Utf8",
        ),
        (
            described(fields(DataType::Utf8, false), &MappingOptions::default()),
            plain(),
            "column \"name\" is Utf8, in the set it is Utf8, not null",
        ),
        (
            described(fields(dictionary, true), &MappingOptions::default()),
            plain(),
            "column \"name\" is Utf8, in the set it is Dictionary(Int8, Utf8)",
        ),
        (
            plain(),
            described(fields(DataType::Utf8, true)[..1].to_vec(), &MappingOptions::default()),
            "column \"name\" is missing, in the set it is Utf8",
        ),
        (
            described(fields(DataType::Utf8, true)[1..].to_vec(), &MappingOptions::default()),
            plain(),
            "the set does not have the column \"id\"",
        ),
        (
            plain(),
            described(fields(DataType::Utf8, true).into_iter().rev().collect(), &MappingOptions::default()),
            "the order of columns is \"name\", \"id\", in the set it is \"id\", \"name\"",
        ),
        (
            plain(),
            with(MappingOptions { record_type: RecordType::SequenceExample, ..MappingOptions::default() }),
            "the record type is sequence-example, in the set it is example",
        ),
        (
            plain(),
            with(MappingOptions { nulls: NullPolicy::Empty, ..MappingOptions::default() }),
            "what becomes of nulls in column \"name\" is empty, in the set it is",
        ),
        (ranked, ranked_otherwise, "the vocabulary of column \"name\" is [\"dog\"], in the set it is [\"cat\"]"),
        (
            plain(),
            SetDescription { framing: Compression::Gzip.into(), ..plain() },
            "the compression is gzip, in the set it is none",
        ),
        (
            SetDescription { framing: chunks(1, ChunkCodec::None), ..plain() },
            plain(),
            "the record format is tfrecord, in the set it is array_record",
        ),
        (
            SetDescription { framing: chunks(1, ChunkCodec::None), ..plain() },
            SetDescription { framing: chunks(1, ChunkCodec::Zstd), ..plain() },
            "the compression is zstd, in the set it is none",
        ),
        (
            SetDescription { framing: chunks(1, ChunkCodec::None), ..plain() },
            SetDescription { framing: chunks(128, ChunkCodec::None), ..plain() },
            "the group size is 128, in the set it is 1",
        ),
        (plain(), partitioned(vec![dt()]), "partitioning is by dt (Utf8), in the set it is none"),
        // Not reported as a missing column: the column is in the directories.
        (
            plain(),
            SetDescription {
                partition_columns: Some(
                    SchemaDescription::try_new(&Schema::new(fields(DataType::Utf8, true)[1..].to_vec())).unwrap(),
                ),
                ..described(fields(DataType::Utf8, true)[..1].to_vec(), &MappingOptions::default())
            },
            "partitioning is by name (Utf8), in the set it is none",
        ),
        (
            partitioned(vec![dt()]),
            partitioned(vec![Field::new("dt", DataType::Date32, true)]),
            "partitioning is by dt (Date32), in the set it is by dt (Utf8)",
        ),
        (
            splits([("train", 0.9), ("eval", 0.1)], &[]),
            splits([("train", 0.8), ("eval", 0.2)], &[]),
            "splitting is train=0.8,eval=0.2 by whole records, in the set it is train=0.9,eval=0.1 by whole records",
        ),
        (
            splits([("train", 0.9), ("eval", 0.1)], &["id"]),
            splits([("train", 0.9), ("eval", 0.1)], &["name"]),
            "splitting is train=0.9,eval=0.1 by name, in the set it is train=0.9,eval=0.1 by id",
        ),
        (splits([("train", 0.9), ("eval", 0.1)], &["id"]), plain(), "splitting is none, in the set it is train"),
        (
            plain(),
            SetDescription::of_records(),
            "the form of the records is not known, in the set it is from _manifest.json",
        ),
    ] {
        let found = difference(set, &rows).unwrap();
        assert!(found.starts_with("shards: not appended to: "), "{found}");
        assert!(found.contains(expected), "{found}");
    }
}

fn with_columns(more: Vec<Field>, options: &MappingOptions) -> SetDescription {
    let fields: Vec<_> = [more, fields(DataType::Utf8, true)].concat();
    SetDescription { add_columns: true, ..described(fields, options) }
}

#[test]
fn append_adds_nullable_columns_if_allowed() {
    let set = Manifest::new(plain(), Vec::new(), &RunId::new());
    let options = MappingOptions { nulls: NullPolicy::Drop, ..MappingOptions::default() };
    let options = options.with_choice("label", Choice::Index).with_vocabulary("label", vec!["cat".to_owned()]);
    let options = options.with_column_nulls("name", NullPolicy::Absent);
    let labels = Field::new("label", DataType::Utf8, false);
    let rows = with_columns(
        vec![labels, Field::new_list("tags", Field::new_list_field(DataType::Int64, true), true)],
        &options,
    );

    let refused = SetDescription { add_columns: false, ..rows.clone() };
    let error = set.check_append(&refused, Path::new("shards")).unwrap_err();
    let ErrorKind::NewColumns { columns, .. } = error.kind() else { panic!("{error}") };
    assert_eq!(columns, &["label", "tags"]);

    let grown = set.with_appended(rows.clone(), Vec::new(), &RunId::new(), Path::new("shards")).unwrap();
    let schema = grown.arrow_schema().unwrap().unwrap();
    let columns: Vec<_> = schema.fields().iter().map(|field| (field.name().as_str(), field.is_nullable())).collect();
    assert_eq!(columns, [("id", false), ("name", true), ("label", true), ("tags", true)]);
    let mapping = grown.to_mapping().unwrap();
    assert_eq!(grown.mapping, Some(serde_json::to_value(&mapping).unwrap()));
    assert_eq!(mapping.options().vocabularies["label"], ["cat"]);
    assert_eq!(mapping.columns()[3].nulls, NullPolicy::Drop);
    // The next rows have the columns of the set, or lack one.
    let next = described(schema.fields().iter().map(|field| field.as_ref().clone()).collect(), mapping.options());
    grown.check_append(&next, Path::new("shards")).unwrap();
    assert!(matches!(
        grown.check_append(&plain(), Path::new("shards")).unwrap_err().kind(),
        ErrorKind::OtherForm { .. }
    ));
}

/// A record without the features of such a column is no null there.
#[test]
fn append_rejects_new_columns_that_would_not_be_null() {
    let set = Manifest::new(plain(), Vec::new(), &RunId::new());
    let of = |nulls: NullPolicy| MappingOptions::default().with_column_nulls("new", nulls);
    let flag = || Field::new("new", DataType::Int64, true);
    let point = DataType::Struct(vec![Field::new("x", DataType::Int64, true)].into());
    for rows in [
        with_columns(vec![flag()], &of(NullPolicy::Mask)),
        with_columns(vec![flag()], &of(NullPolicy::Empty)),
        with_columns(vec![flag()], &of(NullPolicy::Error)),
        with_columns(vec![Field::new("new", point, true)], &MappingOptions::default()),
    ] {
        let error = set.check_append(&rows, Path::new("shards")).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NotAppendable { .. }), "{error}");
    }
}

#[test]
fn append_rejects_set_of_unknown_columns() {
    let set = Manifest::new(SetDescription::of_records(), Vec::new(), &RunId::new());
    let rows = described(fields(DataType::Utf8, true), &MappingOptions::default());
    let error = set.check_append(&rows, Path::new("shards")).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::UnknownForm { .. }), "{error}");
    assert!(set.check_append(&SetDescription::of_records(), Path::new("shards")).is_ok());
}

#[test]
fn append_shortens_long_differences() {
    let vocabulary = |last: &str| {
        let mut values: Vec<_> = (0..1000).map(|value| format!("value {value}")).collect();
        values.push(last.to_owned());
        let mut description = plain();
        description.options.insert("mapping".to_owned(), json!({ "vocabularies": { "name": values } }));
        description
    };
    let found = difference(vocabulary("cat"), &vocabulary("dog")).unwrap();
    assert!(found.contains("\"dog\"]") && found.contains("\"cat\"]") && found.len() < 300, "{found}");
}

/// Fields unknown to this release would be lost.
#[test]
fn append_rejects_sets_of_newer_releases() {
    let mut set = Manifest::new(plain(), Vec::new(), &RunId::new());
    set.format_version.minor += 1;
    let error = set.check_append(&plain(), Path::new("shards")).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotAppendable { .. }), "{error}");
    set.format_version.minor = 0;
    set.check_append(&plain(), Path::new("shards")).unwrap();
    let longer = set.with_appended(plain(), Vec::new(), &RunId::new(), Path::new("shards")).unwrap();
    assert_eq!(longer.format_version, FORMAT_VERSION);
}
