//! Records of `tf.train.SequenceExample` without a manifest or options.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_tfrecord::{MappingOptions, NullPolicy, RecordType};
use datafusion::datasource::listing_table_factory::ListingTableFactory;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use datafusion_tfrecord::{ReadOptions, TfRecordFormatFactory};
use tempfile::tempdir;

use super::support::{
    example, explained, external, floats, int64s, query_rows, sequence, shown, shown_with, texts, write_records,
};

/// Records with a list of single values and one of lists.
fn write_sequences(file: &Path) -> Result<PathBuf> {
    let records = [
        sequence(
            [("id", int64s(&[1])), ("tags", texts(&["a", "b"]))],
            [("q", vec![int64s(&[1]), int64s(&[2])]), ("r", vec![floats(&[0.5]), floats(&[1.5, 2.5])])],
        ),
        sequence([("id", int64s(&[2])), ("tags", texts(&[]))], [("q", vec![]), ("r", vec![floats(&[])])]),
        sequence([("id", int64s(&[3]))], [("r", vec![])]),
        // One without feature lists is an Example, too.
        example([("id", int64s(&[4]))]),
    ];
    write_records(file, &records)
}

#[tokio::test]
async fn context_and_feature_lists_are_columns() -> Result<()> {
    let dir = tempdir()?;
    let file = write_sequences(&dir.path().join("f.tfrecord"))?;
    insta::assert_snapshot!(shown(dir.path(), &file, "SELECT * FROM r").await, @r"
    +----+--------+---------------------+--------+
    | id | q      | r                   | tags   |
    +----+--------+---------------------+--------+
    | 1  | [1, 2] | [[0.5], [1.5, 2.5]] | [a, b] |
    | 2  | []     | [[]]                | []     |
    | 3  |        | []                  |        |
    | 4  |        |                     |        |
    +----+--------+---------------------+--------+
    ");
    insta::assert_snapshot!(
        shown(dir.path(), &file, "SELECT id, q[2] AS second FROM r WHERE array_length(r) = 2").await, @r"
    +----+--------+
    | id | second |
    +----+--------+
    | 1  | 2      |
    +----+--------+
    ");
    let types = "SELECT arrow_typeof(q), arrow_typeof(r), arrow_typeof(tags) FROM r LIMIT 1";
    insta::assert_snapshot!(shown(dir.path(), &file, types).await, @r"
    +-------------------+---------------------+----------------------+
    | arrow_typeof(r.q) | arrow_typeof(r.r)   | arrow_typeof(r.tags) |
    +-------------------+---------------------+----------------------+
    | List(Int64)       | List(List(Float32)) | List(Utf8)           |
    +-------------------+---------------------+----------------------+
    ");
    let fixed = ReadOptions { fixed_size_lists: true, infer_records: Some(1), ..ReadOptions::default() };
    insta::assert_snapshot!(shown_with(dir.path(), &file, "SELECT arrow_typeof(tags) FROM r LIMIT 1", &fixed).await, @r"
    +-------------------------+
    | arrow_typeof(r.tags)    |
    +-------------------------+
    | FixedSizeList(2 x Utf8) |
    +-------------------------+
    ");
    Ok(())
}

#[tokio::test]
async fn example_table_rejects_sequence_examples_found_later() -> Result<()> {
    let dir = tempdir()?;
    let file = dir.path().join("f.tfrecord");
    let later = sequence([("id", int64s(&[2]))], [("q", vec![int64s(&[1])])]);
    write_records(&file, &[example([("id", int64s(&[1]))]), later])?;
    let one = ReadOptions { infer_records: Some(1), ..ReadOptions::default() };
    insta::assert_snapshot!(shown_with(dir.path(), &file, "SELECT * FROM r", &one).await, @r"
    DIR/f.tfrecord: record 1 at byte 31: feature lists, which tf.train.SequenceExample has and tf.train.Example not, at byte 15 of its payload
    ");
    let mapping = Some(MappingOptions::default().with_record_type(RecordType::SequenceExample));
    let said = ReadOptions { mapping, ..one };
    insta::assert_snapshot!(shown_with(dir.path(), &file, "SELECT * FROM r", &said).await, @r"
    +----+
    | id |
    +----+
    | 1  |
    | 2  |
    +----+
    ");
    Ok(())
}

#[tokio::test]
async fn tables_reject_lists_of_examples_found_later() -> Result<()> {
    let dir = tempdir()?;
    let file = dir.path().join("f.tfrecord");
    let item = example([("id", int64s(&[2]))]);
    let list = [&[0x0a, u8::try_from(item.len()).expect("a short record")], item.as_slice()].concat();
    write_records(&file, &[example([("id", int64s(&[1]))]), list])?;
    let one = ReadOptions { infer_records: Some(1), ..ReadOptions::default() };
    insta::assert_snapshot!(shown_with(dir.path(), &file, "SELECT * FROM r", &one).await, @r"
    DIR/f.tfrecord: record 1 at byte 31: a message in place of a name: neither tf.train.Example nor tf.train.SequenceExample, at byte 6 of its payload
    ");
    insta::assert_snapshot!(shown(dir.path(), &file, "SELECT * FROM r").await, @r"
    DIR/f.tfrecord: record 1 at byte 31: an ExampleListWithContext among records of another type, at byte 0 of its payload
    ");
    for record_type in [RecordType::SequenceExample, RecordType::ExampleListWithContext] {
        let mapping = Some(MappingOptions::default().with_record_type(record_type));
        let said = ReadOptions { mapping, ..one.clone() };
        assert!(shown_with(dir.path(), &file, "SELECT * FROM r", &said).await.contains("f.tfrecord: "));
    }
    Ok(())
}

#[tokio::test]
async fn infer_rejects_a_name_in_both_context_and_feature_lists() -> Result<()> {
    let dir = tempdir()?;
    let record = sequence([("q", int64s(&[1]))], [("q", vec![int64s(&[1])])]);
    let file = write_records(&dir.path().join("f.tfrecord"), &[record])?;
    insta::assert_snapshot!(shown(dir.path(), &file, "SELECT * FROM r").await, @r##"
    DIR/f.tfrecord: record 0 at byte 0: "q" is a feature of the context and also a feature list or a feature of the examples, and one column cannot be both
    "##);
    Ok(())
}

#[tokio::test]
async fn sequence_option_rejects_features_of_the_context() -> Result<()> {
    let dir = tempdir()?;
    let file = write_sequences(&dir.path().join("f.tfrecord"))?;
    let with = |column: &str| {
        let mapping = Some(MappingOptions::default().with_sequence(column));
        ReadOptions { mapping, ..ReadOptions::default() }
    };
    insta::assert_snapshot!(shown_with(dir.path(), &file, "SELECT * FROM r", &with("tags")).await, @r##"
    DIR/f.tfrecord: column "tags": List(Utf8) is read from feature list "tags", but the records have feature "tags"
    "##);
    let all = shown(dir.path(), &file, "SELECT * FROM r").await;
    for column in ["q", "r"] {
        assert_eq!(shown_with(dir.path(), &file, "SELECT * FROM r", &with(column)).await, all);
    }
    Ok(())
}

#[tokio::test]
async fn masks_of_steps_are_found() -> Result<()> {
    let dir = tempdir()?;
    let record = sequence(
        [("id", int64s(&[1]))],
        [("q", vec![int64s(&[7]), int64s(&[0])]), ("q/is_null", vec![int64s(&[0]), int64s(&[1])])],
    );
    let file = write_records(&dir.path().join("f.tfrecord"), &[record])?;
    let mapping = Some(MappingOptions::default().with_nulls(NullPolicy::Mask));
    let said = ReadOptions { mapping, ..ReadOptions::default() };
    insta::assert_snapshot!(shown_with(dir.path(), &file, "SELECT * FROM r", &said).await, @r"
    +----+-------+
    | id | q     |
    +----+-------+
    | 1  | [7, ] |
    +----+-------+
    ");
    Ok(())
}

/// A table created by the engine gets only a schema from the format.
#[tokio::test]
async fn listing_table_of_the_engine_needs_record_type_options() -> Result<()> {
    let dir = tempdir()?;
    let file = write_sequences(&dir.path().join("f.tfrecord"))?;
    let create =
        |options: &str| format!("CREATE EXTERNAL TABLE t STORED AS TFRECORD LOCATION '{}' {options}", file.display());
    let context = || -> Result<SessionContext> {
        let mut state = SessionStateBuilder::new()
            .with_default_features()
            .with_table_factory("TFRECORD".to_owned(), Arc::new(ListingTableFactory::new()))
            .build();
        state.register_file_format(Arc::new(TfRecordFormatFactory), true).map_err(external)?;
        Ok(SessionContext::new_with_state(state))
    };
    let refused = context()?.sql(&create("")).await.map(drop).expect_err("nobody said that they are sequences");
    insta::assert_snapshot!(explained(&refused), @r"
    the records are of type sequence-example, which the options must specify
    ");
    let printed = context()?;
    printed.sql(&create("OPTIONS ('tfrecord.record_type' 'sequence-example', 'tfrecord.sequence' 'q')")).await?;
    assert_eq!(query_rows(&printed, "SELECT q FROM t WHERE q[2] = 2").await?.num_rows(), 1);
    Ok(())
}
