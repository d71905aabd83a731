//! Parquet files: lossless types, detection of damage, shared work.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float32Array, Float64Array, Int32Array, Int64Array, StringArray};
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::TableProvider;
use datafusion::error::Result;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::data_type::{
    ByteArray, ByteArrayType, FixedLenByteArrayType, Int32Type, Int64Type, Int96, Int96Type,
};
use datafusion::parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use datafusion::parquet::file::writer::SerializedFileWriter;
use datafusion::parquet::schema::parser::parse_message_type;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::TryStreamExt;
use tfr_files::Findings;
use tfr_formats::TableSpec;

use crate::support::{chain, read, row_count, rows, session, texts, write};

fn column(name: &str, values: impl Into<ArrayRef>) -> Result<RecordBatch> {
    Ok(RecordBatch::try_from_iter([(name, values.into())])?)
}

fn ints(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

/// Writes row groups of 1000 rows.
fn write_parquet(path: &Path, batch: &RecordBatch) -> Result<()> {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(1000)).build();
    let mut writer = ArrowWriter::try_new(File::create(path)?, batch.schema(), Some(properties))?;
    writer.write(batch)?;
    writer.close()?;
    Ok(())
}

async fn refused(spec: &str) -> String {
    chain(&read(spec).await.expect_err(spec))
}

/// Writes a column `t` of INT96: nanoseconds of a day, and the Julian day.
fn write_int96(path: &Path, values: &[(u32, u32)]) -> Result<()> {
    let schema = Arc::new(parse_message_type("message m { required int96 t; }")?);
    let mut writer = SerializedFileWriter::new(File::create(path)?, schema, Arc::default())?;
    let mut group = writer.next_row_group()?;
    let mut column = group.next_column()?.expect("one column");
    let values = values.iter().map(|(nanoseconds, day)| {
        let mut value = Int96::new();
        value.set_data(*nanoseconds, 0, *day);
        value
    });
    column.typed::<Int96Type>().write_batch(&values.collect::<Vec<_>>(), None, None)?;
    column.close()?;
    group.close()?;
    writer.close()?;
    Ok(())
}

/// The Julian days of 0001-01-01, 2024-01-31 and 9999-12-31.
const DAYS: [u32; 3] = [1_721_426, 2_460_341, 5_373_484];

/// Nanoseconds and the year 1 in one column: no unit fits both.
#[tokio::test]
async fn int96_timestamps_are_cut_on_request() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t.parquet");
    write_int96(&path, &[(0, DAYS[0]), (123_456_789, DAYS[1]), (999_999_999, DAYS[2]), (5_000, DAYS[1])])?;
    let message = refused(&path.display().to_string()).await;
    assert!(message.contains("row 1: column \"t\": 1706659200.123456789 seconds since 1970"), "{message}");
    let spec: TableSpec = format!("t=\"{}\",timestamps=cut", path.display()).parse()?;
    for is_strict in [false, true] {
        let findings = Arc::new(Findings::default());
        findings.set_strict(is_strict);
        let config = SessionConfig::new().with_target_partitions(1).with_extension(Arc::clone(&findings));
        let ctx = SessionContext::new_with_config(config);
        let table = tfr_formats::open_table(&ctx.state(), &spec).await?;
        ctx.register_table("t", table)?;
        let found = ctx.sql("SELECT t, t > '2200-01-01' AS late FROM t").await?.collect().await;
        if is_strict {
            let message = chain(&found.expect_err("strict"));
            assert!(message.contains("row 1: column \"t\": 1706659200.123456789 seconds since 1970"), "{message}");
            continue;
        }
        let found = found?;
        assert_eq!(*found[0].column(0).data_type(), DataType::Timestamp(TimeUnit::Microsecond, None));
        assert_eq!(
            texts(&found)?,
            [
                ["0001-01-01T00:00:00", "false"],
                ["2024-01-31T00:00:00.123456", "false"],
                ["9999-12-31T00:00:00.999999", "true"],
                ["2024-01-31T00:00:00.000005", "false"],
            ]
        );
        let [finding] = &findings.all()[..] else { panic!("{:?}", findings.all()) };
        assert_eq!((finding.count, finding.row, finding.column.as_deref()), (2, 1, Some("t")));
        assert_eq!(finding.value, "1706659200.123456789 seconds since 1970");
    }
    // A filter leaves rows out before they are counted, and their numbers stay.
    let findings = Arc::new(Findings::default());
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_extension(Arc::clone(&findings)));
    ctx.register_table("t", tfr_formats::open_table(&ctx.state(), &spec).await?)?;
    let found = ctx.sql("SELECT t FROM t WHERE t > '2200-01-01'").await?.collect().await?;
    assert_eq!(texts(&found)?, [["9999-12-31T00:00:00.999999"]]);
    let [finding] = &findings.all()[..] else { panic!("{:?}", findings.all()) };
    assert!(finding.row == 1 || finding.row == 2, "{finding}");
    Ok(())
}

#[tokio::test]
async fn an_int96_of_the_year_9999_survives() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("000000_0");
    write_int96(&path, &[(1000, DAYS[2])])?;
    let batches = read(&path.display().to_string()).await?;
    assert_eq!(batches[0].column(0).data_type(), &DataType::Timestamp(TimeUnit::Microsecond, None));
    assert_eq!(texts(&batches)?, [["9999-12-31T00:00:00.000001"]]);
    Ok(())
}

#[tokio::test]
async fn a_flipped_bit_in_a_page_with_a_checksum_is_noticed() -> Result<()> {
    let sound = include_bytes!("data/checksummed.parquet");
    let value = 0x1122_3344_5566_7788_i64.to_le_bytes();
    let at = sound.windows(8).position(|window| window == value).expect("the value stands in a plain page");
    let mut flipped = sound.to_vec();
    flipped[at] ^= 1;
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("sound", sound), ("flipped", &flipped)])?;
    assert_eq!(row_count(&read(&dir.path().join("sound").display().to_string()).await?), 4);
    let path = dir.path().join("flipped").display().to_string();
    let message = refused(&path).await;
    assert!(message.contains(&format!("{path}: row group 0, column \"")), "{message}");
    assert!(message.contains("the page at byte ") && message.contains("has the checksum 0x"), "{message}");
    // Without the checksum, the value is one of another bit.
    let (sound, skipped) = (dir.path().join("sound").display().to_string(), format!("\"{path}\",crc=skip"));
    let (sound, found) = (texts(&read(&sound).await?)?, texts(&read(&skipped).await?)?);
    let different = sound.iter().flatten().zip(found.iter().flatten()).filter(|(sound, found)| sound != found);
    assert_eq!(
        different.map(|(_, found)| found.as_str()).collect::<Vec<_>>(),
        [(0x1122_3344_5566_7789_i64).to_string()]
    );
    Ok(())
}

#[tokio::test]
async fn damage_names_the_file() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = |name: &str| dir.path().join(name).display().to_string();
    write_parquet(&dir.path().join("sound.parquet"), &column("x", ints(0..10))?)?;
    let sound = std::fs::read(dir.path().join("sound.parquet"))?;
    write(
        dir.path(),
        &[
            ("cut.parquet", &sound[..sound.len() - 20]),
            ("empty.parquet", b""),
            ("text.parquet", b"a,b\n1,2\n"),
            ("table.csv", &sound),
            ("mixed/a.parquet", &sound),
            ("mixed/b.parquet", b"nonsense that is no Parquet"),
        ],
    )?;
    for (name, expected) in [
        ("cut.parquet", "cut.parquet: cannot be read"),
        ("empty.parquet", "empty.parquet: the file is empty (0 bytes)"),
        ("text.parquet", "text.parquet: the name says Parquet, but the content is text (no magic number"),
        ("table.csv", "table.csv: the name says CSV, but the content is Parquet"),
        ("mixed", "mixed/b.parquet: the content is text (no magic number of another format at its start), but"),
    ] {
        let message = refused(&path(name)).await;
        assert!(message.contains(expected), "{message}");
    }
    let message = refused(&format!("{},format=csv", path("sound.parquet"))).await;
    assert!(message.contains("sound.parquet: the content is Parquet, but the table is read as CSV"), "{message}");
    let message = refused(&format!("{},header=true", path("sound.parquet"))).await;
    assert!(message.contains("option \"header\" is for CSV, but this is Parquet"), "{message}");
    assert_eq!(row_count(&read(&format!("{},format=parquet", path("table.csv"))).await?), 10);
    Ok(())
}

#[tokio::test]
async fn columns_are_matched_by_name_across_files() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let first = RecordBatch::try_from_iter([("a", ints([1])), ("b", ints([2]))])?;
    let text: ArrayRef = Arc::new(StringArray::from(vec!["new"]));
    let second = RecordBatch::try_from_iter([("c", text), ("a", ints([3]))])?;
    write_parquet(&dir.path().join("1"), &first)?;
    write_parquet(&dir.path().join("2"), &second)?;
    let table = dir.path().display().to_string();
    assert_eq!(texts(&read(&table).await?)?, [["1", "2", "NULL"], ["3", "NULL", "new"]]);

    write_parquet(&dir.path().join("3"), &column("b", floats([4.5]))?)?;
    let message = refused(&table).await;
    assert!(message.contains(&format!("{table}/3: column \"b\": found Float64, but {table}/1 has Int64")), "{message}");
    Ok(())
}

/// Returns the rows of each partition of a plan that is only the scan.
async fn partitions(spec: &str, target: usize) -> Result<Vec<Vec<Vec<String>>>> {
    let ctx = session(target);
    ctx.state_ref().write().config_mut().options_mut().optimizer.repartition_file_min_size = 1;
    let table = tfr_formats::open_table(&ctx.state(), &spec.parse::<TableSpec>()?).await?;
    let plan: Arc<dyn ExecutionPlan> = table.scan(&ctx.state(), None, &[], None).await?;
    let mut partitions = Vec::new();
    for partition in 0..plan.properties().output_partitioning().partition_count() {
        let batches: Vec<_> = plan.execute(partition, ctx.task_ctx())?.try_collect().await?;
        partitions.push(texts(&batches)?);
    }
    Ok(partitions)
}

#[tokio::test]
async fn one_big_file_is_read_by_every_partition() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("big.parquet");
    write_parquet(&path, &column("x", ints(0..8000))?)?;
    let spec = format!("t={}", path.display());
    let found = partitions(&spec, 4).await?;
    assert!(found.len() == 4 && found.iter().all(|rows| rows.len() >= 1000), "each reads some of the 8 row groups");
    assert_eq!(found, partitions(&spec, 4).await?);
    let values: Vec<_> = found.concat().concat();
    assert_eq!(values, (0..8000).map(|value| value.to_string()).collect::<Vec<_>>());
    Ok(())
}

#[tokio::test]
async fn parquet_footers_answer_counts_and_bounds() -> Result<()> {
    let dir = tempfile::tempdir()?;
    for file in 0..3 {
        write_parquet(&dir.path().join(format!("{file}.parquet")), &column("x", ints(file * 10..file * 10 + 10))?)?;
    }
    let table = format!("'{}'", dir.path().display());
    let plan = rows(&format!("EXPLAIN SELECT count(*) FROM {table}")).await?.concat().concat();
    assert!(!plan.contains("DataSourceExec"), "the count needs no scan: {plan}");
    assert_eq!(rows(&format!("SELECT count(*), min(x), max(x) FROM {table}")).await?, [["30", "0", "29"]]);
    let plan = rows(&format!("EXPLAIN SELECT x FROM {table} LIMIT 15")).await?.concat().concat();
    assert!(plan.contains("1.parquet") && !plan.contains("2.parquet"), "two files hold 15 rows: {plan}");
    assert_eq!(rows(&format!("SELECT x FROM {table} WHERE x >= 28 ORDER BY x")).await?, [["28"], ["29"]]);
    assert_eq!(rows(&format!("SELECT x FROM {table} ORDER BY x DESC LIMIT 2")).await?, [["29"], ["28"]]);
    Ok(())
}

#[tokio::test]
async fn columns_of_one_name_are_refused() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t.parquet");
    write_parquet(&path, &RecordBatch::try_from_iter([("x", ints(0..3)), ("y", ints(0..3)), ("x", ints(3..6))])?)?;
    let error = refused(&path.display().to_string()).await;
    assert!(error.contains("t.parquet: two columns are named \"x\""), "{error}");
    Ok(())
}

#[tokio::test]
async fn text_comes_as_views_or_not() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t.parquet");
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    write_parquet(&path, &column("s", text)?)?;
    for (views, expected) in [(true, DataType::Utf8View), (false, DataType::Utf8)] {
        let ctx = session(1);
        ctx.state_ref().write().config_mut().options_mut().execution.parquet.schema_force_view_types = views;
        let table = tfr_formats::open_table(&ctx.state(), &format!("t={}", path.display()).parse()?).await?;
        let batches = ctx.read_table(table as Arc<dyn TableProvider>)?.collect().await?;
        assert_eq!(batches[0].column(0).data_type(), &expected);
        assert_eq!(texts(&batches)?, [["a"]]);
    }
    Ok(())
}

fn floats(values: impl IntoIterator<Item = f64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(values))
}

/// Writes `batch` in row groups of `rows`, under `properties`.
fn write_groups(path: &Path, batch: &RecordBatch, rows: usize, properties: WriterPropertiesBuilder) -> Result<()> {
    let properties = properties.set_max_row_group_row_count(Some(rows)).build();
    let mut writer = ArrowWriter::try_new(File::create(path)?, batch.schema(), Some(properties))?;
    writer.write(batch)?;
    writer.close()?;
    Ok(())
}

/// Bounds ignore NaN, so those of `[1.0, NaN, 1.0]` suggest that every value is 1.0.
#[tokio::test]
async fn a_nan_among_equal_values_is_read_as_written() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t.parquet");
    let singles: ArrayRef = Arc::new(Float32Array::from_iter_values([1.0, f32::NAN, 1.0]));
    let batch = RecordBatch::try_from_iter([("x", floats([1.0, f64::NAN, 1.0])), ("y", singles)])?;
    write_groups(&path, &batch, 3, WriterProperties::builder())?;
    let table = format!("'{}'", path.display());
    let expected = [["1.0", "1.0"], ["NaN", "NaN"], ["1.0", "1.0"]];
    assert_eq!(rows(&format!("SELECT * FROM {table}")).await?, expected);
    assert_eq!(rows(&format!("SELECT min(x), max(x) FROM {table}")).await?, [["1.0", "NaN"]]);
    Ok(())
}

/// The second row group lacks bounds, so the file's bounds are those of the first.
#[tokio::test]
async fn a_row_group_without_bounds_is_read_as_written() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t.parquet");
    let nan = floats([1.0, 1.0, f64::NAN, f64::NAN]);
    let text: ArrayRef =
        Arc::new(StringArray::from(vec!["ok".to_owned(), "ok".to_owned(), "ok".to_owned(), "z".repeat(6000)]));
    write_groups(&path, &RecordBatch::try_from_iter([("x", nan), ("s", text)])?, 2, WriterProperties::builder())?;
    let table = format!("'{}'", path.display());
    let found = rows(&format!("SELECT x, length(s) FROM {table}")).await?;
    assert_eq!(found, [["1.0", "2"], ["1.0", "2"], ["NaN", "2"], ["NaN", "6000"]]);
    let found = rows(&format!("SELECT min(x), max(x), min(s), length(max(s)), count(s) FROM {table}")).await?;
    assert_eq!(found, [["1.0", "NaN", "ok", "6000", "4"]]);
    Ok(())
}

/// In Arrow's order NaN is above every number, but bounds do not show it.
#[tokio::test]
async fn filters_keep_the_rows_with_nan() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t.parquet");
    let batch = RecordBatch::try_from_iter([
        ("id", ints(0..6)),
        ("x", floats([1.0, f64::NAN, 1.0, 1.0, 3.0, 2.0])),
        ("y", floats([0.0, 0.0, 0.0, 0.0, 0.0, 0.0])),
    ])?;
    write_groups(&path, &batch, 2, WriterProperties::builder())?;
    let table = format!("'{}'", path.display());
    for (condition, expected) in [
        ("x > 2.0", &["1", "4"][..]),
        ("NOT (x = 1.0)", &["1", "4", "5"]),
        ("x > 2.0 AND id < 3", &["1"]),
        ("x + y > 2.0", &["1", "4"]),
        ("x = 'NaN'", &["1"]),
    ] {
        let found = rows(&format!("SELECT id FROM {table} WHERE {condition} ORDER BY id")).await?;
        assert_eq!(found.concat(), expected, "{condition}");
    }
    let found = rows(&format!("SELECT id FROM {table} ORDER BY x DESC LIMIT 2")).await?;
    assert_eq!(found, [["1"], ["4"]]);
    Ok(())
}

#[tokio::test]
async fn parquet_prunes_row_groups_by_other_filters() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t.parquet");
    let batch = RecordBatch::try_from_iter([("id", ints(0..8)), ("x", floats((0..8).map(f64::from)))])?;
    write_groups(&path, &batch, 2, WriterProperties::builder())?;
    let query = format!("EXPLAIN ANALYZE SELECT id FROM '{}' WHERE id >= 6 AND x < 100.0", path.display());
    let plan = rows(&query).await?.concat().concat();
    assert!(plan.contains("predicate=id@0 >= 6,"), "{plan}");
    assert!(plan.contains("row_groups_pruned_statistics=4 total → 1 matched"), "{plan}");
    Ok(())
}

#[tokio::test]
async fn a_file_without_rows_has_no_partition_value_to_give() -> Result<()> {
    let dir = tempfile::tempdir()?;
    for (partition, rows) in [("p=1", 0), ("p=2", 3)] {
        std::fs::create_dir(dir.path().join(partition))?;
        write_parquet(&dir.path().join(partition).join("f"), &column("x", ints(0..rows))?)?;
    }
    let table = format!("'{}'", dir.path().display());
    assert_eq!(rows(&format!("SELECT min(p), max(p), count(*) FROM {table}")).await?, [["2", "2", "3"]]);
    Ok(())
}

#[tokio::test]
async fn parquet_partition_column_may_repeat_in_the_file() -> Result<()> {
    let dir = tempfile::tempdir()?;
    std::fs::create_dir(dir.path().join("a=1"))?;
    std::fs::create_dir(dir.path().join("a=2"))?;
    // As written by Polars; one file has the column in another type, and one lacks it.
    let small: ArrayRef = Arc::new(Int32Array::from(vec![2]));
    write_parquet(&dir.path().join("a=1/f"), &RecordBatch::try_from_iter([("a", ints([1, 1])), ("x", ints([3, 4]))])?)?;
    write_parquet(&dir.path().join("a=2/f"), &RecordBatch::try_from_iter([("x", ints([5])), ("a", small)])?)?;
    write_parquet(&dir.path().join("a=2/g"), &column("x", ints([6]))?)?;
    let table = dir.path().display().to_string();
    assert_eq!(texts(&read(&table).await?)?, [["3", "1"], ["4", "1"], ["5", "2"], ["6", "2"]]);

    write_parquet(&dir.path().join("a=1/f"), &RecordBatch::try_from_iter([("a", ints([1, 2])), ("x", ints([3, 4]))])?)?;
    let message = refused(&table).await;
    assert!(message.ends_with("a=1/f: column \"a\" is both in the file and in its path"), "{message}");
    assert_eq!(texts(&read(&dir.path().join("a=1").display().to_string()).await?)?, [["1", "3"], ["2", "4"]]);
    Ok(())
}

#[tokio::test]
async fn parquet_column_names_may_ignore_case() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let names = ["userId", "B"];
    write_parquet(&dir.path().join("1"), &RecordBatch::try_from_iter(names.into_iter().zip([ints([1]), ints([2])]))?)?;
    write_parquet(&dir.path().join("2"), &RecordBatch::try_from_iter([("b", ints([4])), ("USERID", ints([3]))])?)?;
    let location = dir.path().display();
    let found = read(&format!("\"{location}\",names=insensitive")).await?;
    assert_eq!(texts(&found)?, [["1", "2"], ["3", "4"]]);
    assert_eq!(found[0].schema().field(0).name(), "userid");
    let ctx = session(1);
    ctx.sql(&format!(
        "CREATE EXTERNAL TABLE t (\"UserID\" BIGINT, b BIGINT) STORED AS PARQUET LOCATION '{location}' \
         OPTIONS (names 'insensitive')"
    ))
    .await?;
    let query = "SELECT b + 1, \"UserID\" FROM t WHERE \"UserID\" > 1 AND b < 9";
    assert_eq!(texts(&ctx.sql(query).await?.collect().await?)?, [["5", "3"]]);
    assert!(read(&format!("\"{location}\"")).await?[0].num_columns() == 4, "by default the case matters");

    write_parquet(&dir.path().join("3"), &RecordBatch::try_from_iter([("b", ints([4])), ("B", ints([3]))])?)?;
    let message = refused(&format!("\"{location}\",names=insensitive")).await;
    assert!(message.ends_with("3: two columns are named \"b\", so neither can be selected"), "{message}");
    Ok(())
}

/// Hive and Impala store decimals in various physical types, and old dates unchanged.
#[tokio::test]
async fn decimals_of_every_physical_type_and_old_dates() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("000000_0");
    let schema = "message m { required int32 a (DECIMAL(9,2)); required int64 b (DECIMAL(18,2)); \
                  required binary c (DECIMAL(20,2)); required fixed_len_byte_array(5) d (DECIMAL(11,2)); \
                  required int32 e (DATE); }";
    let mut writer =
        SerializedFileWriter::new(File::create(&path)?, Arc::new(parse_message_type(schema)?), Arc::default())?;
    let mut group = writer.next_row_group()?;
    let negative = |len: usize| ByteArray::from((-12_345_i64).to_be_bytes()[8 - len..].to_vec());
    let mut number = 0;
    while let Some(mut column) = group.next_column()? {
        match number {
            0 => column.typed::<Int32Type>().write_batch(&[-12_345], None, None)?,
            1 => column.typed::<Int64Type>().write_batch(&[-12_345], None, None)?,
            2 => column.typed::<ByteArrayType>().write_batch(&[negative(3)], None, None)?,
            3 => column.typed::<FixedLenByteArrayType>().write_batch(&[negative(5).into()], None, None)?,
            // 1500-01-01, 82 years before the calendar was reformed.
            _ => column.typed::<Int32Type>().write_batch(&[-171_664], None, None)?,
        };
        column.close()?;
        number += 1;
    }
    group.close()?;
    writer.close()?;
    let found = texts(&read(&path.display().to_string()).await?)?;
    assert_eq!(found, [["-123.45", "-123.45", "-123.45", "-123.45", "1500-01-01"]]);
    Ok(())
}

#[tokio::test]
async fn parquet_declared_columns_must_exist_in_some_file() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t.parquet");
    let small: ArrayRef = Arc::new(Int32Array::from(vec![7]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    write_parquet(&path, &RecordBatch::try_from_iter([("x", floats([1.5])), ("n", small), ("s", text)])?)?;
    let ctx = session(1);
    let table = async |columns: &str| {
        let location = path.display();
        let create = format!("CREATE OR REPLACE EXTERNAL TABLE t {columns} STORED AS PARQUET LOCATION '{location}'");
        ctx.sql(&create).await.map(drop)
    };
    table("(s VARCHAR, n BIGINT)").await?;
    assert_eq!(texts(&ctx.sql("SELECT * FROM t").await?.collect().await?)?, [["a", "7"]]);
    table("(n SMALLINT)").await?;
    assert_eq!(texts(&ctx.sql("SELECT * FROM t").await?.collect().await?)?, [["7"]]);
    table("(x INT)").await?;
    let message = chain(&ctx.sql("SELECT * FROM t").await?.collect().await.expect_err("1.5"));
    assert!(
        message.contains("t.parquet: row 0: column \"x\": the Float64 value 1.5 is not exact as Int32"),
        "{message}"
    );
    for (columns, expected) in [
        ("(s INT)", "t.parquet: column \"s\": declared as Int32, but the file has Utf8View"),
        ("(n BIGINT, y INT)", "t.parquet: the file has no column \"y\" of type Int32; it has x, n, s"),
    ] {
        let message = chain(&table(columns).await.expect_err(columns));
        assert!(message.ends_with(expected), "{message}");
    }
    // A file written before a column was added.
    let old = column("s", Arc::new(StringArray::from(vec!["b"])) as ArrayRef)?;
    write_parquet(&dir.path().join("u.parquet"), &old)?;
    let create = format!(
        "CREATE EXTERNAL TABLE both (s VARCHAR, n BIGINT) STORED AS PARQUET LOCATION '{}/'",
        dir.path().display()
    );
    ctx.sql(&create).await?;
    let found = ctx.sql("SELECT * FROM both ORDER BY s").await?.collect().await?;
    assert_eq!(texts(&found)?, [["a", "7"], ["b", "NULL"]]);
    Ok(())
}

/// As writers before 2018 wrote it: the bounds of `a`, `é`, `b` are `é` and `b`.
#[tokio::test]
async fn parquet_ignores_bounds_in_signed_byte_order() -> Result<()> {
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("t.parquet", include_bytes!("data/legacy-bounds.parquet"))])?;
    let table = format!("'{}'", dir.path().join("t.parquet").display());
    assert_eq!(rows(&format!("SELECT s FROM {table} WHERE s = 'é'")).await?, [["é"]]);
    assert_eq!(rows(&format!("SELECT s FROM {table} WHERE s > 'b'")).await?, [["é"]]);
    assert_eq!(rows(&format!("SELECT s FROM {table} ORDER BY s DESC LIMIT 1")).await?, [["é"]]);
    Ok(())
}
