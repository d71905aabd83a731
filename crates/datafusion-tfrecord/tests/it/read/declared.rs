//! Declared columns compared with what was written: no column is null because of a wrong name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_tfrecord::{MappingOptions, NullPolicy, RecordType};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use datafusion_tfrecord::{ReadOptions, TfRecordFormatFactory};
use tempfile::tempdir;

use super::support::{
    example, int64s, keep_warnings, rows, sequence, shown, shown_with, texts, warnings, write_records,
};

fn list(item: DataType) -> DataType {
    DataType::new_list(item, true)
}

fn structs<const N: usize>(fields: [(&str, DataType); N]) -> DataType {
    DataType::Struct(fields.map(|(name, data_type)| Field::new(name, data_type, true)).into_iter().collect())
}

/// These columns, declared.
fn declared<const N: usize>(columns: [(&str, DataType); N]) -> ReadOptions {
    let fields = columns.map(|(name, data_type)| Field::new(name, data_type, true));
    ReadOptions { schema: Some(Arc::new(Schema::new(fields.to_vec()))), ..ReadOptions::default() }
}

/// Writes the result of a query as a set.
async fn write_set(query: &str, out: &Path, options: &str) -> Result<PathBuf> {
    let mut state = SessionStateBuilder::new().with_default_features().build();
    state.register_file_format(Arc::new(TfRecordFormatFactory), true)?;
    let context = SessionContext::new_with_state(state);
    let options = if options.is_empty() { String::new() } else { format!("OPTIONS ({options})") };
    let copy = format!("COPY ({query}) TO '{}/' STORED AS TFRECORD {options}", out.display());
    context.sql(&copy).await?.collect().await?;
    Ok(out.to_owned())
}

const ALL: &str = "SELECT * FROM r";

#[tokio::test]
async fn declared_sequences_are_detected_from_the_records() -> Result<()> {
    let dir = tempdir()?;
    let record = sequence(
        [("id", int64s(&[1])), ("tags", texts(&["a", "b"]))],
        [("q", vec![int64s(&[1]), int64s(&[2])]), ("r", vec![int64s(&[3]), int64s(&[4, 5])])],
    );
    let file = write_records(&dir.path().join("f.tfrecord"), &[record])?;
    let printed = async |options: &ReadOptions| shown_with(dir.path(), &file, ALL, options).await;
    let columns = declared([
        ("id", DataType::Int32),
        ("tags", list(DataType::Utf8)),
        ("q", list(DataType::Int64)),
        ("r", list(list(DataType::Int64))),
    ]);
    insta::assert_snapshot!(printed(&columns).await, @r"
    +----+--------+--------+---------------+
    | id | tags   | q      | r             |
    +----+--------+--------+---------------+
    | 1  | [a, b] | [1, 2] | [[3], [4, 5]] |
    +----+--------+--------+---------------+
    ");
    // A value where there is a feature list, and the reverse.
    insta::assert_snapshot!(printed(&declared([("q", DataType::Int64)])).await, @r##"
    DIR/f.tfrecord: column "q": Int64 is read from feature "q", but the records have feature list "q"
    "##);
    insta::assert_snapshot!(printed(&declared([("tags", list(list(DataType::Utf8)))])).await, @r##"
    DIR/f.tfrecord: column "tags": List(List(Utf8)) is read from feature list "tags", but the records have feature "tags"
    "##);
    let mapping = MappingOptions::default().with_record_type(RecordType::SequenceExample).with_sequence("tags");
    let said = ReadOptions { mapping: Some(mapping), ..declared([("tags", list(DataType::Utf8))]) };
    insta::assert_snapshot!(printed(&said).await, @r##"
    DIR/f.tfrecord: column "tags": List(Utf8) is read from feature list "tags", but the records have feature "tags"
    "##);
    Ok(())
}

#[tokio::test]
async fn declared_columns_reject_data_under_other_features() -> Result<()> {
    let dir = tempdir()?;
    let record = example([
        ("Label", int64s(&[1])),
        ("plain", int64s(&[1, 2])),
        ("r/ragged_flat_values", int64s(&[1, 2])),
        ("r/ragged_row_lengths_0", int64s(&[2])),
        ("s/x", int64s(&[1])),
        ("s/y", texts(&["a"])),
    ]);
    let file = write_records(&dir.path().join("f.tfrecord"), &[record])?;
    let mut said = String::new();
    for (name, data_type) in [
        ("r", list(DataType::Int64)),
        ("s", DataType::Int64),
        ("plain", list(list(DataType::Int64))),
        ("plain", structs([("x", DataType::Int64)])),
        ("label", DataType::Int64),
        ("s", structs([("X", DataType::Int64)])),
    ] {
        let refused = shown_with(dir.path(), &file, ALL, &declared([(name, data_type)])).await;
        said.push_str(&format!("{refused}\n\n"));
    }
    insta::assert_snapshot!(said, @r##"
    DIR/f.tfrecord: column "r": List(Int64) is read from feature "r", but the records have feature "r/ragged_flat_values", feature "r/ragged_row_lengths_0"

    DIR/f.tfrecord: column "s": Int64 is read from feature "s", but the records have feature "s/x", feature "s/y"

    DIR/f.tfrecord: column "plain": List(List(Int64)) is read from feature "plain/ragged_flat_values", but the records have feature "plain"

    DIR/f.tfrecord: column "plain": Struct("x": Int64) is read from feature "plain/x", but the records have feature "plain"

    DIR/f.tfrecord: column "label": Int64 is read from feature "label", but the records have feature "Label"

    DIR/f.tfrecord: column "s": Struct("X": Int64) is read from feature "s/X", but the records have feature "s/x"
    "##);
    Ok(())
}

/// A feature that never occurs may also be null throughout.
#[tokio::test]
async fn declared_columns_warn_about_absent_features() -> Result<()> {
    let dir = tempdir()?;
    keep_warnings();
    let record = || example([("label", int64s(&[1])), ("s/x", int64s(&[1]))]);
    for file in ["a.tfrecord", "b.tfrecord"] {
        write_records(&dir.path().join(file), &[record(), record()])?;
    }
    let columns = declared([("label", DataType::Int64), ("s", structs([("x", DataType::Int64)]))]);
    shown_with(dir.path(), dir.path(), ALL, &columns).await;
    assert_eq!(warnings(), "");
    let columns = declared([
        ("lable", DataType::Int64),
        ("confidence", DataType::Float32),
        ("s", structs([("x", DataType::Int64), ("yy", DataType::Utf8)])),
    ]);
    insta::assert_snapshot!(shown_with(dir.path(), dir.path(), ALL, &columns).await, @r"
    +-------+------------+--------------+
    | lable | confidence | s            |
    +-------+------------+--------------+
    |       |            | {x: 1, yy: } |
    |       |            | {x: 1, yy: } |
    |       |            | {x: 1, yy: } |
    |       |            | {x: 1, yy: } |
    +-------+------------+--------------+
    ");
    insta::assert_snapshot!(warnings(), @r##"
    column "confidence": 4 records looked at in 2 files, none of which has feature "confidence", so it is null there; they have label, s/x
    column "lable": 4 records looked at in 2 files, none of which has feature "lable", so it is null there; did you mean "label"?
    column "s": 4 records looked at in 2 files, none of which has feature "s/yy", so it is null there; they have label, s/x
    "##);
    // As many records are inspected as for inference, so that a rare column is found.
    let rare = example([("label", int64s(&[2])), ("lable", int64s(&[3])), ("confidence", int64s(&[1]))]);
    write_records(&dir.path().join("c.tfrecord"), &[record(), rare])?;
    shown_with(dir.path(), dir.path(), ALL, &declared([("lable", DataType::Int64)])).await;
    assert_eq!(warnings(), "");
    let one = ReadOptions { infer_files: Some(1), ..declared([("lable", DataType::Int64)]) };
    shown_with(dir.path(), dir.path(), ALL, &one).await;
    assert!(warnings().contains("2 records looked at in 1 file"));
    Ok(())
}

#[tokio::test]
async fn declared_columns_reject_records_of_other_messages() -> Result<()> {
    let dir = tempdir()?;
    // As TensorFlow Metadata writes statistics: numbers in place of a feature's name.
    let file = write_records(&dir.path().join("f.tfrecord"), &[vec![0x0a, 0x02, 0x10, 0x01]])?;
    insta::assert_snapshot!(shown_with(dir.path(), &file, ALL, &declared([("id", DataType::Int64)])).await, @r"
    DIR/f.tfrecord: record 0 at byte 0: no feature, but fields that tf.train.Example does not have, at byte 2 of its payload
    ");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_that_no_set_has_are_refused() -> Result<()> {
    let dir = tempdir()?;
    write_set("SELECT 1 AS id, named_struct('x', 1, 'y', 'a') AS s", &dir.path().join("day=1"), "").await?;
    write_set("SELECT 2 AS id, named_struct('x', 2, 'z', 0) AS s, 'cat' AS label", &dir.path().join("day=2"), "")
        .await?;
    let printed =
        async |options: &ReadOptions| shown_with(dir.path(), dir.path(), "SELECT * FROM r ORDER BY day", options).await;
    // Columns of one set are null in the others.
    let s = structs([("x", DataType::Int64), ("y", DataType::Utf8), ("z", DataType::Int64)]);
    insta::assert_snapshot!(printed(&declared([("s", s), ("label", DataType::Utf8)])).await, @r"
    +-------------------+-------+-----+
    | s                 | label | day |
    +-------------------+-------+-----+
    | {x: 1, y: a, z: } |       | 1   |
    | {x: 2, y: , z: 0} | cat   | 2   |
    +-------------------+-------+-----+
    ");
    let mut said = String::new();
    for (name, data_type) in [
        ("lable", DataType::Utf8),
        ("confidence", DataType::Float32),
        ("s", structs([("x", DataType::Int64), ("w", DataType::Int64)])),
        ("s", structs([("X", DataType::Int64)])),
    ] {
        said.push_str(&format!("{}\n\n", printed(&declared([(name, data_type)])).await));
    }
    insta::assert_snapshot!(said, @r##"
    DIR/day=1 and 1 more set: no column "lable" was written; the columns are id, label, s

    DIR/day=1 and 1 more set: no column "confidence" was written; the columns are id, label, s

    DIR/day=1 and 1 more set: no column "s.w" was written; the columns are s.x, s.y, s.z

    DIR/day=1 and 1 more set: no column "s.X" was written; the columns are s.x, s.y, s.z
    "##);
    Ok(())
}

/// A struct is null if all its written fields are, whichever are declared.
#[tokio::test(flavor = "multi_thread")]
async fn declared_struct_may_omit_fields() -> Result<()> {
    let dir = tempdir()?;
    let table = "SELECT * FROM (VALUES \
        (1, named_struct('x', 5, 'y', NULL, 'in', named_struct('a', 1, 'b', NULL)), [named_struct('p', 1, 'q', 'u')]), \
        (2, named_struct('x', NULL, 'y', 'b', 'in', NULL), []), \
        (3, NULL, NULL)) AS t(id, s, l)";
    let columns = declared([
        ("id", DataType::Int64),
        ("s", structs([("in", structs([("b", DataType::Int64)])), ("y", DataType::Utf8View)])),
        ("l", list(structs([("q", DataType::Utf8)]))),
    ]);
    let queries = [
        "SELECT * FROM r ORDER BY id",
        "SELECT id FROM r WHERE s IS NULL",
        "SELECT id, s FROM r WHERE s['in'] IS NOT NULL",
        "SELECT l FROM r WHERE s['y'] = 'b'",
    ];
    let mut said = Vec::new();
    for nulls in ["absent", "mask"] {
        let out = write_set(table, &dir.path().join(nulls), &format!("'tfrecord.null' '{nulls}'")).await?;
        let mut answers = String::new();
        for query in queries {
            answers.push_str(&format!("{}\n", shown_with(dir.path(), &out, query, &columns).await));
        }
        said.push(answers);
    }
    insta::assert_snapshot!(said[0], @r"
    +----+------------------+----------+
    | id | s                | l        |
    +----+------------------+----------+
    | 1  | {in: {b: }, y: } | [{q: u}] |
    | 2  | {in: , y: b}     | []       |
    | 3  |                  |          |
    +----+------------------+----------+
    +----+
    | id |
    +----+
    | 3  |
    +----+
    +----+------------------+
    | id | s                |
    +----+------------------+
    | 1  | {in: {b: }, y: } |
    +----+------------------+
    +----+
    | l  |
    +----+
    | [] |
    +----+
    ");
    assert_eq!(said[1], said[0]);

    // Without the manifest, only the records contain the other fields.
    keep_warnings();
    std::fs::remove_file(dir.path().join("absent/_manifest.json"))?;
    shown_with(dir.path(), dir.path().join("absent"), ALL, &declared([("s", structs([("y", DataType::Utf8)]))])).await;
    insta::assert_snapshot!(warnings(), @r##"
    column "s": the records have s/in/a, s/x, too, which is not declared: a row that has nothing else of it is read as null
    "##);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn null_masks_are_detected_without_options() -> Result<()> {
    let dir = tempdir()?;
    keep_warnings();
    let table = "SELECT 7 AS id, [1, NULL, 3] AS l, [[1], [NULL]] AS r, named_struct('x', [NULL, 2]) AS s";
    let out = write_set(table, &dir.path().join("set"), "'tfrecord.null' 'mask'").await?;
    shown(dir.path(), &out, ALL).await;
    assert_eq!(warnings(), "");
    std::fs::remove_file(out.join("_manifest.json"))?;
    let values = shown(dir.path(), &out, "SELECT l FROM r").await;
    assert!(values.contains("[1, 0, 3]"), "{values}");
    insta::assert_snapshot!(warnings(), @r##"
    column "l": nulls in it are read as values; feature "l/is_null" says where they are, and the option map='l: null=mask' reads them as nulls
    column "r": nulls in it are read as values; features "r/is_null", "r/is_null_0" say where they are, and the option map='r: null=mask' reads them as nulls, of a column that is declared
    column "s/x": nulls in it are read as values; feature "s/x/is_null" says where they are, and the option map='s/x: null=mask' reads them as nulls
    "##);
    let mapping = MappingOptions::default().with_nulls(NullPolicy::Mask);
    let masked = ReadOptions { mapping: Some(mapping.clone()), ..ReadOptions::default() };
    insta::assert_snapshot!(shown_with(dir.path(), &out, ALL, &masked).await, @r"
    +----+----------+-----------+-------------+----------------------+------------------------+-------+
    | id | l        | r/is_null | r/is_null_0 | r/ragged_flat_values | r/ragged_row_lengths_0 | s/x   |
    +----+----------+-----------+-------------+----------------------+------------------------+-------+
    | 7  | [1, , 3] | [0, 1]    | [0, 0]      | [1, 0]               | [1, 1]                 | [, 2] |
    +----+----------+-----------+-------------+----------------------+------------------------+-------+
    ");
    insta::assert_snapshot!(warnings(), @r##"
    column "r": nulls in it are read as values; features "r/is_null", "r/is_null_0" say where they are, and the option map='r: null=mask' reads them as nulls, of a column that is declared
    "##);

    let columns = declared([("l", list(DataType::Int64)), ("s", structs([("x", list(DataType::Int64))]))]);
    shown_with(dir.path(), &out, ALL, &columns).await;
    insta::assert_snapshot!(warnings(), @r##"
    column "l": nulls in it are read as values; feature "l/is_null" says where they are, and the option map='l: null=mask' reads them as nulls
    column "s/x": nulls in it are read as values; feature "s/x/is_null" says where they are, and the option map='s/x: null=mask' reads them as nulls
    "##);
    let masked = ReadOptions { mapping: Some(mapping), ..columns };
    insta::assert_snapshot!(shown_with(dir.path(), &out, ALL, &masked).await, @r"
    +----------+------------+
    | l        | s          |
    +----------+------------+
    | [1, , 3] | {x: [, 2]} |
    +----------+------------+
    ");
    assert_eq!(warnings(), "");
    // In a complete set the manifest specifies them, whatever is declared.
    assert_eq!(
        rows(write_set(table, &dir.path().join("again"), "'tfrecord.null' 'mask'").await?, ALL).await?.num_rows(),
        1
    );
    Ok(())
}

/// A part counts as unmasked once its values were seen without a mask.
#[tokio::test]
async fn null_masks_apply_to_parts_that_appear_late() -> Result<()> {
    let dir = tempdir()?;
    let first = || [("s/x", int64s(&[1])), ("s/x/is_null", int64s(&[0]))];
    let [x, x_is_null] = first();
    let later = example([x, x_is_null, ("s/l", int64s(&[0, 5])), ("s/l/is_null", int64s(&[1, 0]))]);
    let file = write_records(&dir.path().join("f.tfrecord"), &[example(first()), later])?;
    let lists = structs([("x", list(DataType::Int64)), ("l", list(DataType::Int64))]);
    let mapping = Some(MappingOptions::default().with_nulls(NullPolicy::Mask));
    let one = ReadOptions { mapping, infer_records: Some(1), ..declared([("s", lists)]) };
    insta::assert_snapshot!(shown_with(dir.path(), &file, ALL, &one).await, @r"
    +--------------------+
    | s                  |
    +--------------------+
    | {x: [1], l: }      |
    | {x: [1], l: [, 5]} |
    +--------------------+
    ");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn vocabulary_maps_declared_columns_of_ranks() -> Result<()> {
    let dir = tempdir()?;
    let table = "SELECT * FROM (VALUES ('dog', named_struct('kind', 'b, c')), ('cat', NULL)) AS t(label, s)";
    let out =
        write_set(table, &dir.path().join("set"), r#"'tfrecord.vocabulary' 'label: cat, dog; s/kind: a, "b, c"'"#)
            .await?;
    let whole = shown(dir.path(), &out, "SELECT * FROM r ORDER BY label").await;
    insta::assert_snapshot!(whole, @r"
    +-------+--------------+
    | label | s            |
    +-------+--------------+
    | cat   |              |
    | dog   | {kind: b, c} |
    +-------+--------------+
    ");
    std::fs::remove_file(out.join("_manifest.json"))?;
    let ranks = shown(dir.path(), &out, "SELECT label, \"s/kind\" FROM r ORDER BY label").await;
    assert!(ranks.contains("| 1     | 1      |"), "{ranks}");
    let columns = declared([("label", DataType::Utf8), ("s", structs([("kind", DataType::Utf8View)]))]);
    let mapping = MappingOptions::default()
        .with_vocabulary("label", vec!["cat".to_owned(), "dog".to_owned()])
        .with_vocabulary("s/kind", vec!["a".to_owned(), "b, c".to_owned()]);
    let said = ReadOptions { mapping: Some(mapping), ..columns };
    assert_eq!(shown_with(dir.path(), &out, "SELECT * FROM r ORDER BY label", &said).await, whole);
    Ok(())
}
