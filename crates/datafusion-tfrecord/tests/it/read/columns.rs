//! Which columns a table has.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::error::Result;
use datafusion_tfrecord::read::{self, ColumnOrigin};
use datafusion_tfrecord::{ReadOptions, TfRecordFormat};
use tempfile::tempdir;
use tfr_stores::Location;

use super::support::{
    example, examples, external, floats, int64s, rows, session, shown, shown_with, texts, write_records,
};

fn columns(batch: &RecordBatch) -> Vec<String> {
    batch.schema().fields().iter().map(|field| format!("{}: {}", field.name(), field.data_type())).collect()
}

#[tokio::test]
async fn columns_are_the_features_of_all_files() -> Result<()> {
    let dir = tempdir()?;
    let first = [example([("b", texts(&["x"])), ("a", int64s(&[1])), ("n", floats(&[0.5, 1.5]))])];
    let second = [example([("c", floats(&[2.5])), ("b", texts(&["é"]))]), example([("n", floats(&[]))])];
    write_records(&dir.path().join("train-00000-of-00002"), &first)?;
    write_records(&dir.path().join("train-00001-of-00002"), &second)?;
    let batch = rows(dir.path(), "SELECT * FROM r").await?;
    assert_eq!(columns(&batch), ["a: Int64", "b: Utf8", "c: Float32", "n: List(Float32)"]);
    insta::assert_snapshot!(shown(dir.path(), dir.path(), "SELECT * FROM r").await, @r"
    +---+---+-----+------------+
    | a | b | c   | n          |
    +---+---+-----+------------+
    | 1 | x |     | [0.5, 1.5] |
    |   | é | 2.5 |            |
    |   |   |     | []         |
    +---+---+-----+------------+
    ");
    Ok(())
}

#[tokio::test]
async fn later_records_that_contradict_the_first_are_errors() -> Result<()> {
    let dir = tempdir()?;
    let file = dir.path().join("f.tfrecord");
    let mut records = examples(0..10, |_| 3);
    records.push(example([("id", int64s(&[1, 2]))]));
    write_records(&file, &records)?;
    let few = ReadOptions { infer_records: Some(5), ..ReadOptions::default() };
    insta::assert_snapshot!(shown_with(dir.path(), &file, "SELECT id FROM r", &few).await, @r#"
    DIR/f.tfrecord: record 10 at byte 480: feature "id": expected 1 value, found 2
    "#);
    insta::assert_snapshot!(shown_with(dir.path(), &file, "SELECT max(length(text)) FROM r", &few).await, @r"
    +---------------------+
    | max(length(r.text)) |
    +---------------------+
    | 3                   |
    +---------------------+
    ");
    records.pop();
    records.push(example([("id", texts(&["ten"]))]));
    write_records(&file, &records)?;
    insta::assert_snapshot!(shown_with(dir.path(), &file, "SELECT id FROM r", &few).await, @r#"
    DIR/f.tfrecord: record 10 at byte 480: feature "id": expected int64_list, found bytes_list
    "#);
    let all = ReadOptions { infer_records: None, ..ReadOptions::default() };
    insta::assert_snapshot!(shown_with(dir.path(), &file, "SELECT id FROM r", &all).await, @r#"
    DIR/f.tfrecord: record 10 at byte 480: feature "id": expected int64_list, found bytes_list
    "#);
    Ok(())
}

#[tokio::test]
async fn infer_files_limits_the_sampled_files() -> Result<()> {
    let dir = tempdir()?;
    for file in 0..10 {
        let records = match file {
            3 => vec![example([("id", int64s(&[1, 2]))])],
            _ => examples(file..file + 1, |_| 1),
        };
        write_records(&dir.path().join(format!("f{file}.tfrecord")), &records)?;
    }
    let two = ReadOptions { infer_files: Some(2), ..ReadOptions::default() };
    insta::assert_snapshot!(shown_with(dir.path(), dir.path(), "SELECT sum(id) FROM r", &two).await, @r#"
    DIR/f3.tfrecord: record 0 at byte 0: feature "id": expected 1 value, found 2
    "#);
    let all = ReadOptions { infer_files: None, ..ReadOptions::default() };
    insta::assert_snapshot!(shown_with(dir.path(), dir.path(), "SELECT count(id) FROM r", &all).await, @r"
    +-------------+
    | count(r.id) |
    +-------------+
    | 10          |
    +-------------+
    ");
    Ok(())
}

#[tokio::test]
async fn declared_columns_replace_inferred_columns() -> Result<()> {
    let dir = tempdir()?;
    let file = write_records(&dir.path().join("dt=2026-01-02/f"), &examples(0..3, |id| id as usize))?;
    let declared =
        |fields: Vec<Field>| ReadOptions { schema: Some(Arc::new(Schema::new(fields))), ..ReadOptions::default() };
    let options = declared(vec![
        Field::new("dt", DataType::Utf8, true),
        Field::new("text", DataType::LargeBinary, false),
        Field::new("id", DataType::UInt8, true),
        Field::new("absent", DataType::Float32, true),
    ]);
    insta::assert_snapshot!(shown_with(dir.path(), dir.path(), "SELECT * FROM r", &options).await, @r"
    +------+----+--------+------------+
    | text | id | absent | dt         |
    +------+----+--------+------------+
    |      | 0  |        | 2026-01-02 |
    | 78   | 1  |        | 2026-01-02 |
    | 7878 | 2  |        | 2026-01-02 |
    +------+----+--------+------------+
    ");
    let options = declared(vec![Field::new("absent", DataType::Float32, false)]);
    insta::assert_snapshot!(shown_with(dir.path(), &file, "SELECT * FROM r", &options).await, @r#"
    DIR/dt=2026-01-02/f: record 0 at byte 0: feature "absent" is missing, but the schema requires it
    "#);
    let options =
        declared(vec![Field::new("id", DataType::Duration(datafusion::arrow::datatypes::TimeUnit::Second), true)]);
    insta::assert_snapshot!(shown_with(dir.path(), &file, "SELECT * FROM r", &options).await, @r"
    +------+
    | id   |
    +------+
    | P0D  |
    | PT1S |
    | PT2S |
    +------+
    ");
    Ok(())
}

#[tokio::test]
async fn partition_directories_become_columns() -> Result<()> {
    let dir = tempdir()?;
    for (day, ids) in [("dt=1/k=a", 0..2), ("dt=2/k=b", 2..3), ("dt=2/k=__HIVE_DEFAULT_PARTITION__", 3..5)] {
        write_records(&dir.path().join(day).join("part-r-00000"), &examples(ids, |_| 0))?;
    }
    insta::assert_snapshot!(shown(dir.path(), dir.path(), "SELECT * FROM r WHERE k IS NULL OR dt = 1").await, @r"
    +----+------+----+---+
    | id | text | dt | k |
    +----+------+----+---+
    | 0  |      | 1  | a |
    | 1  |      | 1  | a |
    | 3  |      | 2  |   |
    | 4  |      | 2  |   |
    +----+------+----+---+
    ");
    insta::assert_snapshot!(shown(dir.path(), dir.path(), "SELECT dt, count(*) FROM r GROUP BY dt ORDER BY dt").await, @r"
    +----+----------+
    | dt | count(*) |
    +----+----------+
    | 1  | 2        |
    | 2  | 3        |
    +----+----------+
    ");
    Ok(())
}

#[tokio::test]
async fn a_column_in_file_and_path_is_refused() -> Result<()> {
    let dir = tempdir()?;
    write_records(&dir.path().join("id=1/f.tfrecord"), &examples(0..2, |_| 0))?;
    insta::assert_snapshot!(shown(dir.path(), dir.path(), "SELECT * FROM r").await, @r#"DIR/id=1/f.tfrecord: column "id" is both in the file and in its path"#);
    Ok(())
}

#[tokio::test]
async fn infer_finds_no_columns_in_empty_files() -> Result<()> {
    let dir = tempdir()?;
    let file = write_records(&dir.path().join("empty.tfrecord"), &[])?;
    insta::assert_snapshot!(shown(dir.path(), &file, "SELECT count(*) FROM r").await, @r"
    +----------+
    | count(*) |
    +----------+
    | 0        |
    +----------+
    ");
    insta::assert_snapshot!(shown(dir.path(), &file, "SELECT * FROM r").await, @r"
    ++
    ++
    ++
    ");
    insta::assert_snapshot!(shown(dir.path(), &file, "SELECT id FROM r").await, @r"
    Schema error: No field named id.
    cause: Schema error: No field named id.
    cause: No field named id.
    ");
    let declared = ReadOptions {
        schema: Some(Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]))),
        ..ReadOptions::default()
    };
    insta::assert_snapshot!(shown_with(dir.path(), &file, "SELECT count(id), count(*) FROM r", &declared).await, @r"
    +-------------+----------+
    | count(r.id) | count(*) |
    +-------------+----------+
    | 0           | 0        |
    +-------------+----------+
    ");
    Ok(())
}

#[tokio::test]
async fn expressions_are_evaluated_by_the_scan() -> Result<()> {
    let dir = tempdir()?;
    write_records(&dir.path().join("k=7/f.tfrecord"), &examples(0..4, |id| id as usize))?;
    insta::assert_snapshot!(
        shown(dir.path(), dir.path(), "SELECT length(text) + k AS n, id, id * 2 AS twice FROM r WHERE id > 1").await,
        @r"
    +----+----+-------+
    | n  | id | twice |
    +----+----+-------+
    | 9  | 2  | 4     |
    | 10 | 3  | 6     |
    +----+----+-------+
    "
    );
    Ok(())
}

#[tokio::test]
async fn infer_rejects_files_with_different_kinds_of_a_feature() -> Result<()> {
    let dir = tempdir()?;
    write_records(&dir.path().join("a.tfrecord"), &[example([("x", int64s(&[1]))])])?;
    write_records(&dir.path().join("b.tfrecord"), &[example([("x", floats(&[1.5]))])])?;
    insta::assert_snapshot!(shown(dir.path(), dir.path(), "SELECT * FROM r").await, @r#"
    DIR/b.tfrecord: record 0 at byte 0: feature "x": expected int64_list, found float_list
    "#);
    Ok(())
}

#[tokio::test]
async fn table_records_how_much_was_sampled_for_inference() -> Result<()> {
    let dir = tempdir()?;
    for file in 0..4 {
        write_records(&dir.path().join(format!("f{file}.tfrecord")), &examples(0..10, |_| 1))?;
    }
    let location = [Location::parse(&dir.path().to_string_lossy()).map_err(external)?];
    let origin = async |infer_files, infer_records| -> Result<ColumnOrigin> {
        let options = ReadOptions { infer_files, infer_records, ..ReadOptions::default() };
        let table = read::open(&session(1).state(), &location, &options).await?;
        let format = table.format().downcast_ref::<TfRecordFormat>().expect("records");
        Ok(format.form().origin.clone())
    };
    let is = |origin, printed| matches!(origin, ColumnOrigin::Records { probed_files, files: 4, records, is_all, .. } if (probed_files, records, is_all) == printed);
    assert!(is(origin(Some(256), Some(1000)).await?, (4, 40, true)));
    assert!(is(origin(Some(256), Some(10)).await?, (4, 40, true)));
    assert!(is(origin(Some(256), Some(9)).await?, (4, 36, false)));
    assert!(is(origin(Some(2), None).await?, (2, 20, false)));
    assert!(is(origin(None, None).await?, (4, 40, true)));
    Ok(())
}

#[tokio::test]
async fn types_sets_the_type_of_one_column() -> Result<()> {
    let dir = tempdir()?;
    let record = |day: i64| example([("day", int64s(&[day])), ("x", floats(&[0.5])), ("y", floats(&[1.5]))]);
    let file = write_records(&dir.path().join("f.tfrecord"), &[record(0), record(365)])?;
    let typed = |name: &str, data_type: DataType| {
        let types =
            Arc::new(Schema::new(vec![Field::new(name, data_type, true), Field::new("x", DataType::Float64, true)]));
        ReadOptions { types: Some(types), ..ReadOptions::default() }
    };
    let query = "SELECT day, arrow_typeof(x) AS x, arrow_typeof(y) AS y FROM r ORDER BY day";
    insta::assert_snapshot!(shown_with(dir.path(), &file, query, &typed("day", DataType::Date32)).await, @r"
    +------------+---------+---------+
    | day        | x       | y       |
    +------------+---------+---------+
    | 1970-01-01 | Float64 | Float32 |
    | 1971-01-01 | Float64 | Float32 |
    +------------+---------+---------+
    ");
    // An error, not a column of nulls.
    for (name, data_type) in [("dya", DataType::Date32), ("day", DataType::Utf8)] {
        let context = session(1);
        let location = Location::parse(&file.to_string_lossy()).map_err(external)?;
        let answer = async {
            let table = read::open(&context.state(), &[location], &typed(name, data_type)).await?;
            context.register_table("r", table)?;
            context.sql("SELECT day FROM r").await?.collect().await
        };
        assert!(answer.await.is_err(), "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn types_reads_a_feature_of_two_kinds() -> Result<()> {
    let dir = tempdir()?;
    let records = [example([("x", int64s(&[7]))]), example([("x", floats(&[0.5]))]), example([("x", int64s(&[-1]))])];
    let file = write_records(&dir.path().join("f.tfrecord"), &records)?;
    let types = Arc::new(Schema::new(vec![Field::new("x", DataType::Float64, true)]));
    let options = ReadOptions { types: Some(types), ..ReadOptions::default() };
    insta::assert_snapshot!(shown_with(dir.path(), &file, "SELECT x FROM r ORDER BY x", &options).await, @r"
    +------+
    | x    |
    +------+
    | -1.0 |
    | 0.5  |
    | 7.0  |
    +------+
    ");
    Ok(())
}
