//! Our own shard sets: the manifest is trusted as far as it can be.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_tfrecord::{Choice, MappingOptions};
use datafusion::arrow::array::{
    ArrayRef, Decimal128Array, DictionaryArray, DurationSecondArray, Float64Array, Int8Array, Int64Array, ListArray,
    RecordBatch, StringArray, TimestampMicrosecondArray,
};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{DataType, Field, Int8Type, Int32Type, Schema, TimeUnit};
use datafusion::error::Result;
use datafusion_tfrecord::ReadOptions;
use tempfile::tempdir;
use tfrecord_framing::{Compression, Level};
use tfrecord_shards::{ShardedWriterBuilder, Sharding};

use super::support::{
    example, examples, external, int64s, keep_warnings, opened, query_rows, rows, shown, shown_with, warnings,
    write_records,
};

/// A table none of whose columns inference would restore.
fn table() -> Result<RecordBatch> {
    let prices = Decimal128Array::from(vec![Some(1250), None, Some(-7)]).with_precision_and_scale(9, 2)?;
    let kinds: DictionaryArray<Int8Type> = [Some("cat"), Some("dog"), None].into_iter().collect();
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1)]),
        Some(vec![]),
        Some(vec![Some(2), Some(3)]),
    ]);
    Ok(RecordBatch::try_from_iter_with_nullable([
        ("when", Arc::new(TimestampMicrosecondArray::from(vec![1, 2, 3]).with_timezone("UTC")) as ArrayRef, false),
        ("price", Arc::new(prices) as ArrayRef, true),
        ("kind", Arc::new(kinds) as ArrayRef, true),
        ("small", Arc::new(Int8Array::from(vec![1, -1, 0])) as ArrayRef, false),
        ("exact", Arc::new(Float64Array::from(vec![0.1, 1e300, -0.0])) as ArrayRef, true),
        ("list", Arc::new(lists) as ArrayRef, true),
        ("name", Arc::new(StringArray::from(vec!["a", "b", "c"])) as ArrayRef, true),
    ])?)
}

/// These columns, declared.
fn declared<const N: usize>(columns: [(&str, DataType); N]) -> ReadOptions {
    let fields = columns.map(|(name, data_type)| Field::new(name, data_type, true));
    ReadOptions { schema: Some(Arc::new(Schema::new(fields.to_vec()))), ..ReadOptions::default() }
}

/// Writes the table as a shard set with one row per shard.
fn write_set(out: &Path, compression: Compression) -> Result<PathBuf> {
    write_set_as(out, compression, Choice::Bits)
}

/// The same, with column `exact` in some form.
fn write_set_as(out: &Path, compression: Compression, exact: Choice) -> Result<PathBuf> {
    let mapping = MappingOptions::default().with_choice("exact", exact).with_choice("price", Choice::String);
    write_table(out, &table()?, mapping, compression)
}

fn write_table(out: &Path, batch: &RecordBatch, mapping: MappingOptions, compression: Compression) -> Result<PathBuf> {
    let mut writer = ShardedWriterBuilder::new(batch.schema())
        .with_mapping(mapping)
        .with_sharding(Sharding::Rows(1))
        .with_compression(compression, Level::default())
        .build(out)
        .map_err(external)?;
    writer.write(batch).map_err(external)?;
    writer.finish().map_err(external)?;
    Ok(out.to_owned())
}

#[tokio::test]
async fn set_round_trips_with_its_types() -> Result<()> {
    let dir = tempdir()?;
    for compression in [Compression::None, Compression::Gzip, Compression::Zlib] {
        let out = write_set(&dir.path().join(compression.to_string()), compression)?;
        for location in [out.clone(), out.join("part-*")] {
            let batch = rows(&location, "SELECT * FROM r").await?;
            assert_eq!(batch, table()?, "{}", location.display());
        }
        let shard = out.join(format!("part-00001-of-00003.tfrecord{}", compression.suffix()));
        assert_eq!(rows(shard, "SELECT * FROM r").await?, table()?.slice(1, 1));
    }
    Ok(())
}

#[tokio::test]
async fn set_without_manifest_is_read_as_plain_records() -> Result<()> {
    let dir = tempdir()?;
    let out = write_set(&dir.path().join("set"), Compression::None)?;
    fs::remove_file(out.join("_manifest.json"))?;
    insta::assert_snapshot!(shown(dir.path(), &out, "SELECT * FROM r").await, @r"
    +----------------------+------+--------+------+-------+-------+------+
    | exact                | kind | list   | name | price | small | when |
    +----------------------+------+--------+------+-------+-------+------+
    | 4591870180066957722  | cat  | [1]    | a    | 12.50 | 1     | 1    |
    | 9094988921128908188  | dog  | []     | b    |       | -1    | 2    |
    | -9223372036854775808 |      | [2, 3] | c    | -0.07 | 0     | 3    |
    +----------------------+------+--------+------+-------+-------+------+
    ");
    Ok(())
}

#[tokio::test]
async fn rows_are_counted_without_reading() -> Result<()> {
    let dir = tempdir()?;
    let out = write_set(&dir.path().join("set"), Compression::None)?;
    let context = opened(&out, &ReadOptions::default(), 2).await?;
    // Reading the shards now would fail.
    for shard in 0..3 {
        let shard = out.join(format!("part-0000{shard}-of-00003.tfrecord"));
        let zeros = vec![0; fs::read(&shard)?.len()];
        fs::write(shard, zeros)?;
    }
    let plan = context.sql("EXPLAIN FORMAT INDENT SELECT count(*) FROM r").await?.collect().await?;
    let plan = datafusion::arrow::util::pretty::pretty_format_batches(&plan)?.to_string();
    assert!(!plan.contains("DataSourceExec"), "{plan}");
    let count = query_rows(&context, "SELECT count(*) AS n FROM r").await?;
    assert_eq!(count.column(0).as_ref(), &Int64Array::from(vec![3]));
    assert!(query_rows(&context, "SELECT name FROM r").await.is_err());
    Ok(())
}

#[tokio::test]
async fn read_rejects_incomplete_set() -> Result<()> {
    let dir = tempdir()?;
    let out = write_set(&dir.path().join("set"), Compression::None)?;
    let shard = out.join("part-00001-of-00003.tfrecord");
    let bytes = fs::read(&shard)?;
    let count = async || shown(dir.path(), &out, "SELECT count(*) AS n FROM r").await;

    fs::remove_file(out.join("_SUCCESS"))?;
    insta::assert_snapshot!(count().await, @r"
    DIR/set: the shard set is not complete: _SUCCESS is missing
    ");
    fs::write(out.join("_SUCCESS"), "")?;

    fs::remove_file(&shard)?;
    insta::assert_snapshot!(count().await, @r"
    DIR/set: the shard set is not complete: part-00001-of-00003.tfrecord is missing
    ");
    // The other shards by name, with the types of the manifest.
    assert_eq!(rows(out.join("part-*"), "SELECT * FROM r").await?.num_rows(), 2);

    fs::write(&shard, &bytes[..bytes.len() - 1])?;
    insta::assert_snapshot!(count().await, @r"
    DIR/set: the shard set is not complete: part-00001-of-00003.tfrecord: expected 126 bytes, found 125
    ");
    fs::write(&shard, &bytes)?;
    insta::assert_snapshot!(count().await, @r"
    +---+
    | n |
    +---+
    | 3 |
    +---+
    ");
    Ok(())
}

#[tokio::test]
async fn damaged_manifest_fails_only_reads_that_need_it() -> Result<()> {
    let dir = tempdir()?;
    keep_warnings();
    let out = write_set(&dir.path().join("set"), Compression::None)?;
    fs::write(out.join("_manifest.json"), "{")?;
    let refused = shown(dir.path(), &out, "SELECT count(*) AS n FROM r").await;
    assert!(refused.contains("DIR/set/_manifest.json"), "{refused}");
    // The records contain plain numbers, and nothing specifies their type.
    insta::assert_snapshot!(shown(dir.path(), out.join("part-*"), "SELECT \"when\" FROM r").await, @r"
    the manifest next to the files, which records the types of their columns, cannot be read
    cause: DIR/set/_manifest.json: not a valid manifest
    cause: EOF while parsing an object at line 1 column 1
    ");
    let declared = declared([("exact", DataType::Float64), ("name", DataType::Utf8)]);
    assert_eq!(warnings(), "");
    let mapping = Some(MappingOptions::default().with_choice("exact", Choice::Bits));
    let said = ReadOptions { mapping, ..declared };
    insta::assert_snapshot!(shown_with(dir.path(), out.join("part-*"), "SELECT * FROM r", &said).await, @r"
    +-------+------+
    | exact | name |
    +-------+------+
    | 0.1   | a    |
    | 1e300 | b    |
    | -0.0  | c    |
    +-------+------+
    ");
    let warned = warnings();
    assert!(warned.contains("_manifest.json") && warned.contains("not known"), "{warned}");
    // A file of that name written by another tool.
    fs::write(out.join("_manifest.json"), r#"{"entries": []}"#)?;
    assert_eq!(rows(&out, "SELECT name FROM r").await?.num_rows(), 3);
    Ok(())
}

#[tokio::test]
async fn read_ignores_files_that_the_manifest_does_not_list() -> Result<()> {
    let dir = tempdir()?;
    let out = write_set(&dir.path().join("set"), Compression::None)?;
    let stray = write_records(&out.join("stray.tfrecord"), &examples(0..100, |_| 1))?;
    assert_eq!(rows(&out, "SELECT * FROM r").await?, table()?);
    // On its own it is an ordinary file.
    assert_eq!(rows(stray, "SELECT id FROM r").await?.num_rows(), 100);
    Ok(())
}

#[tokio::test]
async fn read_rejects_pattern_with_files_outside_the_set() -> Result<()> {
    let dir = tempdir()?;
    let out = write_set(&dir.path().join("set"), Compression::None)?;
    write_records(&out.join("stray.tfrecord"), &[example([("small", int64s(&[9]))])])?;
    let pattern = out.join("*.tfrecord");
    insta::assert_snapshot!(shown(dir.path(), &pattern, "SELECT * FROM r").await, @"
    DIR/set/stray.tfrecord is not a shard of the set in DIR/set, whose manifest records the types of its columns
    ");
    let declared = declared([("small", DataType::Int8), ("exact", DataType::Float64)]);
    let sum = "SELECT sum(small), max(exact) FROM r";
    insta::assert_snapshot!(shown_with(dir.path(), &pattern, sum, &declared).await, @r"
    +--------------+--------------+
    | sum(r.small) | max(r.exact) |
    +--------------+--------------+
    | 9            | 1e300        |
    +--------------+--------------+
    ");
    Ok(())
}

#[tokio::test]
async fn a_shard_of_another_size_has_the_types_of_its_set() -> Result<()> {
    let dir = tempdir()?;
    for compression in [Compression::None, Compression::Gzip] {
        let out = write_set(&dir.path().join(compression.to_string()), compression)?;
        let shard = |index| out.join(format!("part-0000{index}-of-00003.tfrecord{}", compression.suffix()));
        let second = [fs::read(shard(1))?, fs::read(shard(0))?].concat();
        fs::write(shard(1), second)?;
        let refused = shown(Path::new("-"), &out, "SELECT * FROM r").await;
        assert!(refused.contains("the shard set is not complete"), "{refused}");
        let pattern = &format!("{}/*.tfrecord*", out.display());
        // Not counted from the manifest either.
        let count = rows(pattern, "SELECT count(*) FROM r").await?;
        assert_eq!(count.column(0).as_ref(), &Int64Array::from(vec![4]));
        let table = table()?;
        let expected = concat_batches(&table.schema(), &[table.slice(0, 2), table.slice(0, 1), table.slice(2, 1)])?;
        assert_eq!(rows(pattern, "SELECT * FROM r").await?, expected);
    }
    Ok(())
}

#[tokio::test]
async fn sets_in_directories_are_one_table() -> Result<()> {
    let dir = tempdir()?;
    for day in ["day=1", "day=2"] {
        write_set(&dir.path().join(day), Compression::Gzip)?;
    }
    let batch = rows(dir.path(), "SELECT * FROM r ORDER BY day, \"when\"").await?;
    assert_eq!(batch.num_rows(), 6);
    assert_eq!(batch.project(&[0, 1, 2, 3, 4, 5, 6])?.slice(3, 3), table()?);
    fs::remove_file(dir.path().join("day=2/_SUCCESS"))?;
    insta::assert_snapshot!(shown(dir.path(), dir.path(), "SELECT * FROM r").await, @r"
    DIR/day=2: the shard set is not complete: _SUCCESS is missing
    ");
    Ok(())
}

#[tokio::test]
async fn table_rejects_sets_with_different_encodings() -> Result<()> {
    let dir = tempdir()?;
    write_set_as(&dir.path().join("day=1"), Compression::None, Choice::Bits)?;
    write_set_as(&dir.path().join("day=2"), Compression::None, Choice::String)?;
    insta::assert_snapshot!(shown(dir.path(), dir.path(), "SELECT * FROM r").await, @r#"
    DIR/day=2: column "exact" has another form than in DIR/day=1
    "#);
    Ok(())
}

#[tokio::test]
async fn a_set_without_rows_has_columns() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("set");
    let batch = table()?.slice(0, 0);
    let shards = Sharding::Count(NonZeroUsize::MIN);
    let mut writer = ShardedWriterBuilder::new(batch.schema()).with_sharding(shards).build(&out).map_err(external)?;
    writer.write(&batch).map_err(external)?;
    writer.finish().map_err(external)?;
    assert_eq!(rows(&out, "SELECT * FROM r").await?, batch);
    insta::assert_snapshot!(shown(dir.path(), &out, "SELECT count(*), max(small) FROM r").await, @r"
    +----------+--------------+
    | count(*) | max(r.small) |
    +----------+--------------+
    | 0        |              |
    +----------+--------------+
    ");
    Ok(())
}

#[tokio::test]
async fn declared_columns_override_the_manifest() -> Result<()> {
    let dir = tempdir()?;
    let out = write_set(&dir.path().join("set"), Compression::None)?;
    // `exact` in the form in which it was written, since its type is unchanged.
    let declared = declared([("exact", DataType::Float64), ("price", DataType::Utf8), ("small", DataType::Int64)]);
    insta::assert_snapshot!(shown_with(dir.path(), &out, "SELECT * FROM r", &declared).await, @r"
    +-------+-------+-------+
    | exact | price | small |
    +-------+-------+-------+
    | 0.1   | 12.50 | 1     |
    | 1e300 |       | -1    |
    | -0.0  | -0.07 | 0     |
    +-------+-------+-------+
    ");
    Ok(())
}

/// Timestamps in two forms, and a duration.
fn write_times(out: &Path) -> Result<PathBuf> {
    let when = TimestampMicrosecondArray::from(vec![1_767_225_600_000_000]);
    let batch = RecordBatch::try_from_iter([
        ("plain", Arc::new(when.clone()) as ArrayRef),
        ("coarse", Arc::new(when.with_timezone("UTC")) as ArrayRef),
        ("took", Arc::new(DurationSecondArray::from(vec![-90])) as ArrayRef),
    ])?;
    let mapping = MappingOptions::default().with_choice("coarse", Choice::Seconds).with_choice("took", Choice::String);
    write_table(out, &batch, mapping, Compression::None)
}

#[tokio::test]
async fn declared_times_must_keep_the_written_unit() -> Result<()> {
    let dir = tempdir()?;
    let out = write_times(&dir.path().join("set"))?;
    let timestamp = |unit| DataType::Timestamp(unit, None);
    let nanos = declared([("plain", timestamp(TimeUnit::Nanosecond))]);
    let refused = shown_with(dir.path(), &out, "SELECT * FROM r", &nanos).await;
    insta::assert_snapshot!(refused, @r#"
    DIR/set: column "plain": declared as Timestamp(ns), but it was written as Timestamp(µs)
    "#);
    assert_eq!(shown_with(dir.path(), out.join("*.tfrecord"), "SELECT * FROM r", &nanos).await, refused);
    let seconds = declared([("coarse", timestamp(TimeUnit::Second))]);
    insta::assert_snapshot!(shown_with(dir.path(), &out, "SELECT * FROM r", &seconds).await, @r#"
    DIR/set: column "coarse": declared as Timestamp(s), but it was written as Timestamp(µs, "UTC")
    "#);
    let took = declared([("took", DataType::Duration(TimeUnit::Millisecond))]);
    insta::assert_snapshot!(shown_with(dir.path(), &out, "SELECT * FROM r", &took).await, @r#"
    DIR/set: column "took": declared as Duration(ms), but it was written as Duration(s)
    "#);
    // The zone is only for display, and numbers may be read as such.
    let micros = timestamp(TimeUnit::Microsecond);
    let options = declared([("plain", DataType::Int64), ("coarse", micros), ("took", DataType::Utf8)]);
    insta::assert_snapshot!(shown_with(dir.path(), &out, "SELECT * FROM r", &options).await, @r"
    +------------------+---------------------+--------+
    | plain            | coarse              | took   |
    +------------------+---------------------+--------+
    | 1767225600000000 | 2026-01-01T00:00:00 | -PT90S |
    +------------------+---------------------+--------+
    ");
    insta::assert_snapshot!(shown(dir.path(), &out, "SELECT took, plain FROM r").await, @r"
    +--------+---------------------+
    | took   | plain               |
    +--------+---------------------+
    | -PT90S | 2026-01-01T00:00:00 |
    +--------+---------------------+
    ");
    Ok(())
}

#[tokio::test]
async fn declared_column_is_rejected_in_both_file_and_path() -> Result<()> {
    let dir = tempdir()?;
    write_set(&dir.path().join("small=1"), Compression::None)?;
    let options = declared([("small", DataType::Int64), ("name", DataType::Utf8)]);
    let refused = shown_with(dir.path(), dir.path(), "SELECT * FROM r", &options).await;
    assert!(refused.contains(r#"column "small" is both in the file and in its path"#), "{refused}");
    Ok(())
}

/// A schema of a few lines must not cause an allocation of gigabytes.
#[tokio::test]
async fn a_set_with_rows_that_no_batch_holds_is_refused() -> Result<()> {
    let dir = tempdir()?;
    let item = Field::new_list_field(DataType::Float32, true).into();
    let schema = Schema::new(vec![Field::new("zz", DataType::FixedSizeList(item, i32::MAX), true)]);
    let batch = RecordBatch::new_empty(Arc::new(schema));
    let out = write_table(&dir.path().join("set"), &batch, MappingOptions::default(), Compression::None)?;
    insta::assert_snapshot!(shown(dir.path(), &out, "SELECT count(*) FROM r").await, @r#"
    column "zz": one row of type FixedSizeList(2147483647 x Float32) takes 17179869176 bytes, even if it is null; a batch has at most 268435456
    "#);
    let pbtxt = r#"feature { name: "zz" type: FLOAT shape { dim { size: 2147483647 } } }"#;
    let file = write_records(&dir.path().join("foreign/f.tfrecord"), &examples(0..1, |_| 1))?;
    fs::write(file.with_file_name("schema.pbtxt"), pbtxt)?;
    let refused = shown(dir.path(), &file, "SELECT count(*) FROM r").await;
    assert!(refused.contains("even if it is null"), "{refused}");
    Ok(())
}
