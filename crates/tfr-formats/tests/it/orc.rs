//! ORC files: the values of the whole corpus, lossless types, detection of damage.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use datafusion::arrow::compute::{CastOptions, cast_with_options, concat_batches};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
};
use datafusion::arrow::ipc::reader::FileReader;
use datafusion::catalog::TableProvider;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::TryStreamExt;
use orc_rust::ArrowWriterBuilder;
use orc_rust::compression::CompressionType;
use serde_json::{Value, json};

use tfr_files::Findings;
use tfr_formats::TableSpec;

use crate::corpus::{corpus, folders, manifest, outcome, wrong};
use crate::support::{chain, read, row_count, rows, session, texts};

/// Files whose result differs from the corpus, and why.
const KNOWN: &[(&str, &str)] = &[
    // The expectation is off by a second: pyarrow checks the sign of a timestamp after changing the time zone (ORC-763,
    // ORC-1287). Java, which wrote the file, checks it before.
    ("hive/alltypesorc", r#"row 5: ctimestamp1: {"$ts":[-28785,7000000]}, expected {"$ts":[-28786,7000000]}"#),
    // The expectation cannot be read: it contains user metadata of the file that is not UTF-8.
    ("orc/TestOrcFile.metaData.orc", "Unable to get root as footer"),
    // The expectation has the days of the hybrid calendar as stored. Ours are the days that the writer meant, as in
    // Spark and Hive.
    ("hive/orc_legacy_mixed_dates.orc", r#"row 4: d: {"$date":-349852}, expected {"$date":-349846}"#),
    (
        "hive/orc_legacy_mixed_timestamps.orc",
        r#"row 4: {"d":{"$ts":[-30227187111,123000000]}}, expected {"d":{"$ts":[-30226668711,123000000]}}"#,
    ),
    ("impala/data/date_tbl.orc", r#"row 0: d: {"$date":-719162}, expected {"$date":-719164}"#),
    ("impala/data/hive2_pre_gregorian.orc", r#"row 0: d: {"$date":-141438}, expected {"$date":-141428}"#),
    ("impala/data/out_of_range_date.orc", r#"row 2: d: {"$date":-719162}, expected {"$date":-719164}"#),
    (
        "impala/data/out_of_range_timestamp.orc",
        r#"row 0: {"ts":{"$ts":[-21143721600,0]}}, expected {"ts":{"$ts":[-21143116800,0]}}"#,
    ),
    (
        "orc-rust/timestamps_0001.orc",
        r#"row 0: {"c1":{"$ts":[-62135596800,0]}}, expected {"c1":{"$ts":[-62135769600,0]}}"#,
    ),
    ("spark-rapids/hybrid-Julian-calendar.orc", r#"row 0: c1: {"$date":-141439}, expected {"$date":-141429}"#),
    ("spark/test-data/before_1582_date_v2_4.snappy.orc", r#"row 0: dt: {"$date":-281237}, expected {"$date":-281230}"#),
    (
        "spark/test-data/before_1582_ts_v2_4.snappy.orc",
        r#"row 0: {"ts":{"$ts":[-30578684277,123456000]}}, expected {"ts":{"$ts":[-30578165877,123456000]}}"#,
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_file_of_the_corpus() -> Result<()> {
    let Some(corpus) = corpus() else { return Ok(()) };
    let mut outcomes = Vec::new();
    for row in manifest(&corpus, "orc").await? {
        if row["expect"] == "n/a" {
            continue;
        }
        let mut outcome = outcome(&corpus, &row, "").await;
        if outcome.as_ref().is_ok_and(|outcome| outcome.ends_with(": read")) {
            outcome = same_values(&corpus, &row).await.and(outcome);
        }
        outcomes.push((row["path"].clone(), outcome));
    }
    assert_eq!(wrong(&outcomes, KNOWN), Vec::<String>::new());
    Ok(())
}

/// Compares the first rows of a file with the expected ones.
async fn same_values(corpus: &Path, row: &BTreeMap<String, String>) -> Result<(), String> {
    let expected = corpus.join(&row["expected"]);
    let spec = format!("\"{}\"", corpus.join(&row["path"]).display());
    let batches = read(&spec).await.map_err(|error| error.to_string())?;
    let Some(first) = batches.first() else { return Ok(()) };
    let found = concat_batches(&first.schema(), &batches).map_err(|error| error.to_string())?;
    match expected.extension().and_then(|extension| extension.to_str()) {
        Some("arrow") => same_columns(&expected, &found),
        Some("jsonl") => same_rows(&expected, &found),
        _ => Err(format!("there is nothing to compare with in {}", expected.display())),
    }
}

fn same_columns(expected: &Path, found: &RecordBatch) -> Result<(), String> {
    let reader = File::open(expected).map_err(|error| error.to_string())?;
    let reader = FileReader::try_new(reader, None).map_err(|error| error.to_string())?;
    let schema = reader.schema();
    let expected = reader.collect::<Result<Vec<_>, _>>().and_then(|batches| concat_batches(&schema, &batches));
    let expected = expected.map_err(|error| error.to_string())?;
    let names = |batch: &RecordBatch| -> Vec<String> {
        batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    };
    if names(&expected) != names(found) || expected.num_rows() > found.num_rows() {
        return Err(format!("{} rows of {:?}", found.num_rows(), names(found)));
    }
    let found = found.slice(0, expected.num_rows());
    for ((name, expected), found) in names(&found).iter().zip(expected.columns()).zip(found.columns()) {
        // Names of items and entries may differ, and so may the time unit.
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        let expected = cast_with_options(expected, found.data_type(), &strict).map_err(|error| error.to_string())?;
        if expected.to_data() != found.to_data() {
            let row = (0..found.len()).find(|row| value(&expected, *row) != value(found, *row));
            let row = row.unwrap_or_default();
            let (expected, found) = (value(&expected, row), value(found, row));
            return Err(format!("row {row}: {name}: {found}, expected {expected}"));
        }
    }
    Ok(())
}

fn same_rows(expected: &Path, found: &RecordBatch) -> Result<(), String> {
    let text = std::fs::read_to_string(expected).map_err(|error| error.to_string())?;
    let schema = found.schema();
    for (row, expected) in text.lines().enumerate() {
        let expected: Value = serde_json::from_str(expected).map_err(|error| error.to_string())?;
        let columns = schema.fields().iter().zip(found.columns());
        let found: Value = columns
            .map(|(field, column)| (field.name().clone(), value(column, row)))
            .collect::<serde_json::Map<_, _>>()
            .into();
        if expected != found {
            return Err(format!("row {row}: {found}, expected {expected}"));
        }
    }
    Ok(())
}

/// Converts a value to the corpus's JSON.
fn value(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Boolean => array.as_boolean().value(row).into(),
        DataType::Int8 => array.as_primitive::<Int8Type>().value(row).into(),
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::Float32 => number(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => number(array.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal128(..) => array.as_primitive::<Decimal128Type>().value_as_string(row).into(),
        DataType::Utf8 => array.as_string::<i32>().value(row).into(),
        DataType::Binary => json!({"$b64": STANDARD.encode(array.as_binary::<i32>().value(row))}),
        DataType::Date32 => json!({"$date": array.as_primitive::<Date32Type>().value(row)}),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            time(array.as_primitive::<TimestampNanosecondType>().value(row), 1_000_000_000)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            time(array.as_primitive::<TimestampMicrosecondType>().value(row), 1_000_000)
        }
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            (0..items.len()).map(|item| value(&items, item)).collect()
        }
        DataType::Map(..) => {
            let entries: ArrayRef = Arc::new(array.as_map().value(row));
            let parts = entries.as_struct();
            let pair = |entry| json!([value(parts.column(0), entry), value(parts.column(1), entry)]);
            (0..entries.len()).map(pair).collect()
        }
        DataType::Struct(fields) => {
            let parts = fields.iter().zip(array.as_struct().columns());
            parts
                .map(|(field, part)| (field.name().clone(), value(part, row)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
        other => panic!("no value of {other} is in the corpus"),
    }
}

fn number(value: f64) -> Value {
    match value {
        _ if value.is_nan() => "NaN".into(),
        f64::INFINITY => "Infinity".into(),
        f64::NEG_INFINITY => "-Infinity".into(),
        _ => value.into(),
    }
}

fn time(value: i64, per_second: i64) -> Value {
    json!({"$ts": [value.div_euclid(per_second), value.rem_euclid(per_second) * (1_000_000_000 / per_second)]})
}

fn ints(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn words(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

/// Writes stripes of 1000 rows, compressed.
fn write_orc(path: &Path, batch: &RecordBatch) -> std::io::Result<()> {
    let builder = ArrowWriterBuilder::new(File::create(path)?, batch.schema()).with_compression(CompressionType::Zstd);
    let mut writer = builder.try_build().map_err(std::io::Error::other)?;
    for start in (0..batch.num_rows()).step_by(1000) {
        writer.write(&batch.slice(start, (batch.num_rows() - start).min(1000))).map_err(std::io::Error::other)?;
        writer.flush_stripe().map_err(std::io::Error::other)?;
    }
    writer.close().map_err(std::io::Error::other)
}

async fn refused(spec: &str) -> String {
    chain(&read(spec).await.expect_err(spec))
}

#[tokio::test]
async fn columns_are_matched_by_name_across_files() -> Result<()> {
    let dir = tempfile::tempdir()?;
    write_orc(&dir.path().join("1"), &RecordBatch::try_from_iter([("a", ints([1])), ("b", ints([2]))])?)?;
    write_orc(&dir.path().join("2"), &RecordBatch::try_from_iter([("c", words(&["new"])), ("a", ints([3]))])?)?;
    let table = dir.path().display().to_string();
    assert_eq!(texts(&read(&table).await?)?, [["1", "2", "NULL"], ["3", "NULL", "new"]]);
    assert_eq!(rows(&format!("SELECT c, a + 1 FROM '{table}' ORDER BY a")).await?, [["NULL", "2"], ["new", "4"]]);
    assert_eq!(rows(&format!("SELECT b FROM '{table}' WHERE a > 1")).await?, [["NULL"]]);

    write_orc(&dir.path().join("3"), &RecordBatch::try_from_iter([("b", words(&["x"]))])?)?;
    let message = refused(&table).await;
    assert!(message.contains(&format!("{table}/3: column \"b\": found Utf8, but {table}/1 has Int64")), "{message}");
    Ok(())
}

#[tokio::test]
async fn orc_positional_columns_take_declared_names() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let partition = dir.path().join("dt=2024-01-01");
    std::fs::create_dir(&partition)?;
    let small: ArrayRef = Arc::new(Int32Array::from(vec![7]));
    write_orc(&partition.join("000000_0"), &RecordBatch::try_from_iter([("_col0", small), ("_col1", words(&["x"]))])?)?;
    std::fs::write(partition.join("_SUCCESS"), "")?;
    std::fs::write(partition.join(".000000_0.crc"), "crc")?;
    let ctx = session(1);
    let location = dir.path().display();
    ctx.sql(&format!(
        "CREATE EXTERNAL TABLE t (id BIGINT, name VARCHAR, dt VARCHAR) STORED AS ORC LOCATION '{location}' PARTITIONED BY (dt)"
    ))
    .await?;
    let found = ctx.sql("SELECT name, id, dt FROM t WHERE dt > '2023-12-31'").await?.collect().await?;
    assert_eq!(texts(&found)?, [["x", "7", "2024-01-01"]]);
    assert_eq!(rows(&format!("SELECT _col1, dt FROM '{location}'")).await?, [["x", "2024-01-01"]]);
    Ok(())
}

#[tokio::test]
async fn a_file_is_read_by_every_partition_stripe_by_stripe() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("big.orc");
    // Incompressible values.
    let values: Vec<i64> = (1..=8000_i64).map(|value| value.wrapping_mul(0x5851_f42d_4c95_7f2d)).collect();
    let column = || ints(values.iter().copied());
    write_orc(&path, &RecordBatch::try_from_iter([("x", column()), ("y", column())])?)?;
    let ctx = session(4);
    ctx.state_ref().write().config_mut().options_mut().optimizer.repartition_file_min_size = 1;
    let spec: TableSpec = format!("t={}", path.display()).parse()?;
    let table = tfr_formats::open_table(&ctx.state(), &spec).await?;
    let plan: Arc<dyn ExecutionPlan> = table.scan(&ctx.state(), Some(&vec![0]), &[], None).await?;
    let mut found = Vec::new();
    for partition in 0..plan.properties().output_partitioning().partition_count() {
        let batches: Vec<_> = plan.execute(partition, ctx.task_ctx())?.try_collect().await?;
        assert!(row_count(&batches) >= 1000, "each partition reads some of the 8 stripes");
        found.extend(texts(&batches)?.concat());
    }
    assert_eq!(found, values.iter().map(i64::to_string).collect::<Vec<_>>());
    let scanned = plan.metrics().and_then(|metrics| metrics.sum_by_name("bytes_scanned")).map(|sum| sum.as_usize());
    let size = std::fs::metadata(&path)?.len() as usize;
    assert!(scanned.is_some_and(|scanned| scanned > 0 && scanned < size), "one of two columns: {scanned:?} of {size}");
    Ok(())
}

#[tokio::test]
async fn orc_footers_answer_counts_and_bounds() -> Result<()> {
    let dir = tempfile::tempdir()?;
    for file in 0..3 {
        let batch = RecordBatch::try_from_iter([("x", ints(file * 10..file * 10 + 10))])?;
        write_orc(&dir.path().join(format!("{file}.orc")), &batch)?;
    }
    let table = format!("'{}'", dir.path().display());
    let plan = rows(&format!("EXPLAIN SELECT count(*) FROM {table}")).await?.concat().concat();
    assert!(!plan.contains("DataSourceExec"), "the count needs no scan: {plan}");
    assert_eq!(rows(&format!("SELECT count(*), min(x), max(x) FROM {table}")).await?, [["30", "0", "29"]]);
    let plan = rows(&format!("EXPLAIN SELECT x FROM {table} LIMIT 15")).await?.concat().concat();
    assert!(plan.contains("1.orc") && !plan.contains("2.orc"), "two files hold 15 rows: {plan}");
    assert_eq!(rows(&format!("SELECT x FROM {table} ORDER BY x DESC LIMIT 2")).await?, [["29"], ["28"]]);
    Ok(())
}

#[tokio::test]
async fn orc_column_names_may_ignore_case() -> Result<()> {
    let dir = tempfile::tempdir()?;
    write_orc(&dir.path().join("1"), &RecordBatch::try_from_iter([("userId", ints([1])), ("B", ints([2]))])?)?;
    write_orc(&dir.path().join("2"), &RecordBatch::try_from_iter([("b", ints([4])), ("USERID", ints([3]))])?)?;
    let table = format!("\"{}\",names=insensitive", dir.path().display());
    let batches = read(&table).await?;
    assert_eq!(texts(&batches)?, [["1", "2"], ["3", "4"]]);
    assert_eq!(batches[0].schema().field(0).name(), "userid");
    write_orc(&dir.path().join("3"), &RecordBatch::try_from_iter([("b", ints([4])), ("B", ints([3]))])?)?;
    let message = refused(&table).await;
    assert!(message.ends_with("3: two columns are named \"b\", so neither can be selected"), "{message}");
    Ok(())
}

#[tokio::test]
async fn a_timestamp_that_does_not_fit_is_an_error() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t.orc");
    let times: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![0, 1]));
    write_orc(&path, &RecordBatch::try_from_iter([("t", times)])?)?;
    assert_eq!(texts(&read(&path.display().to_string()).await?)?.concat()[1], "1970-01-01T00:00:00.000000001");
    let message = refused(&format!("\"{}\",timestamps=us", path.display())).await;
    let expected = "t.orc: row 1: column \"t\": 1970-01-01T00:00:00.000000001 does not fit into Timestamp(µs)";
    assert!(message.ends_with(expected), "{message}");

    let Some(corpus) = corpus() else { return Ok(()) };
    let path = corpus.join("orc/cudf/TestOrcFile.largeTimestamps.orc").display().to_string();
    assert_eq!(row_count(&read(&path).await?), 900);
    let message = refused(&format!("\"{path}\",timestamps=ns")).await;
    assert!(message.contains(" does not fit into Timestamp(ns)"), "{message}");
    Ok(())
}

/// pyarrow and pandas write the signed remainder of such a timestamp.
#[tokio::test]
async fn fractions_of_seconds_before_1970() -> Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/data/before-1970.orc");
    for column in ["local", "instant", "list[1]"] {
        let query = format!(
            "SELECT count(*), count({column}), count(*) FILTER (WHERE arrow_cast({column}, 'Int64') = i) FROM '{path}'"
        );
        assert_eq!(rows(&query).await?, [["1811", "1810", "1810"]], "{column}");
    }
    assert_eq!(rows(&format!("SELECT local FROM '{path}' WHERE i = -1")).await?, [["1969-12-31T23:59:59.999999999"]]);
    Ok(())
}

/// Whichever byte is changed, the file is read, or rejected by an error that names it.
#[tokio::test]
async fn damage_names_the_file() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t.orc");
    let spec = path.display().to_string();
    let small: ArrayRef = Arc::new(Int32Array::from(vec![Some(7), None]));
    let batch = RecordBatch::try_from_iter([("x", ints([1, 2])), ("s", words(&["a", "b"])), ("n", small)])?;
    write_orc(&path, &batch)?;
    let sound = std::fs::read(&path)?;
    for cut in 1..sound.len() {
        std::fs::write(&path, &sound[..cut])?;
        let message = refused(&spec).await;
        assert!(message.contains("t.orc"), "{message}");
    }
    for (place, flip) in (0..sound.len()).flat_map(|place| [0x01, 0x80, 0xff].map(|flip| (place, flip))) {
        let mut damaged = sound.clone();
        damaged[place] ^= flip;
        std::fs::write(&path, &damaged)?;
        if let Err(error) = read(&spec).await {
            let message = chain(&error);
            assert!(message.contains("t.orc"), "byte {place} ^ {flip}: {message}");
        }
    }
    Ok(())
}

/// Folders of ORC files are tables with all their rows.
#[tokio::test]
async fn every_folder_of_the_corpus() -> Result<()> {
    let Some(corpus) = corpus() else { return Ok(()) };
    assert_eq!(wrong(&folders(&corpus, "orc").await?, &[]), Vec::<String>::new());
    Ok(())
}

/// Returns how many stripes a plan skipped.
fn stripes_skipped(plan: &dyn ExecutionPlan) -> usize {
    let here = plan.metrics().and_then(|metrics| metrics.sum_by_name("stripes_skipped"));
    let below = plan.children().into_iter().map(|child| stripes_skipped(child.as_ref()));
    here.map_or(0, |count| count.as_usize()) + below.sum::<usize>()
}

/// The same rows in memory, where nothing is pruned, are the oracle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orc_filters_lose_no_row_of_the_corpus() -> Result<()> {
    use datafusion::prelude::{ident, lit};
    use datafusion::scalar::ScalarValue;
    let Some(corpus) = corpus() else { return Ok(()) };
    let mut skipped = 0;
    for row in manifest(&corpus, "orc").await? {
        if row["expect"] != "ok" || row["rows"].parse::<u64>().is_ok_and(|rows| !(1000..20_000).contains(&rows)) {
            continue;
        }
        let spec = format!("t=\"{}\"", corpus.join(&row["path"]).display()).parse::<TableSpec>()?;
        let ctx = session(1);
        let table = tfr_formats::open_table(&ctx.state(), &spec).await?;
        let batches = ctx.read_table(Arc::clone(&table) as Arc<dyn TableProvider>)?.collect().await?;
        let Some(first) = batches.first() else { continue };
        let all = concat_batches(&first.schema(), &batches)?;
        let bounded = |data_type: &DataType| {
            data_type.is_integer() || matches!(data_type, DataType::Date32 | DataType::Utf8 | DataType::Utf8View)
        };
        let schema = all.schema();
        let columns = schema.fields().iter().zip(all.columns()).filter(|(field, _)| bounded(field.data_type()));
        for (field, column) in columns.take(3) {
            for row in [0, all.num_rows() / 2] {
                let value = ScalarValue::try_from_array(column, row)?;
                for filter in [ident(field.name()).eq(lit(value.clone())), ident(field.name()).gt(lit(value.clone()))] {
                    let expected = ctx.read_batch(all.clone())?.filter(filter.clone())?.count().await?;
                    let found = ctx.read_table(Arc::clone(&table) as Arc<dyn TableProvider>)?.filter(filter.clone())?;
                    let plan = found.select(vec![ident(field.name())])?.create_physical_plan().await?;
                    let found = datafusion::physical_plan::collect(Arc::clone(&plan), ctx.task_ctx()).await?;
                    assert_eq!(row_count(&found), expected, "{}: {filter}", spec.locations[0]);
                    skipped += stripes_skipped(plan.as_ref());
                }
            }
        }
    }
    assert!(skipped > 0, "no stripe was left out");
    Ok(())
}

/// A table of Hive 4.0.1 whose column `b` was renamed to `bb`, the field `x` of its struct to `xx`, and which got a column
/// `z`. Hive's rows: columns are found by position, fields of structs by name.
#[tokio::test]
async fn orc_columns_are_found_by_position_on_request() -> Result<()> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/data/hive-orc-renamed");
    let schema = "\"schema=a INT, bb STRING, s STRUCT<xx:INT,y:STRING>, z INT\"";
    let spec = |options: &str| format!("\"{}\",{schema}{options}", dir.display());
    let by_position = read(&spec(",by_position=true")).await?;
    let types: Vec<_> = by_position[0].schema().fields().iter().map(|field| field.data_type().to_string()).collect();
    assert_eq!(types, ["Int32", "Utf8", "Struct(\"xx\": Int32, \"y\": Utf8)", "Int32"]);
    let mut rows = texts(&by_position)?;
    rows.sort();
    assert_eq!(rows, [["1", "abc", "{xx: NULL, y: yy}", "NULL"], ["2", "def", "{xx: 6, y: zz}", "NULL"]]);
    // By name, the first file does not have the column.
    let mut by_name = texts(&read(&spec("").replace(", z INT", "")).await?)?;
    by_name.sort();
    assert_eq!(by_name[0], ["1", "NULL", "{xx: NULL, y: yy}"]);
    // A filter uses the bounds of the same columns, and a shorter declaration leaves out the last ones.
    let table = format!(
        "CREATE EXTERNAL TABLE t (n INT, x VARCHAR) STORED AS ORC LOCATION '{}' \
         OPTIONS ('orc.force.positional.evolution' 'true')",
        dir.display()
    );
    let ctx = session(2);
    ctx.sql(&table).await?;
    let found = texts(&ctx.sql("SELECT n, x FROM t WHERE x = 'abc' OR n > 5").await?.collect().await?)?;
    assert_eq!(found, [["1", "abc"]]);
    let undeclared = read(&format!("\"{}\",by_position=true", dir.display())).await;
    let message = undeclared.expect_err("no columns").to_string();
    assert!(message.ends_with("the columns are found by position, but none are declared"), "{message}");
    Ok(())
}

/// A column of Hive 4.0.1 with the years 1 and 9999 and with nanoseconds, which no unit holds.
#[tokio::test]
async fn orc_timestamps_are_cut_on_request() -> Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/data/hive-timestamps.orc");
    let message = refused(path).await;
    let first = "row 1: column \"t\": 2024-01-31T10:11:12.123456789 does not fit into Timestamp(µs)";
    assert!(message.ends_with(first), "{message}");
    let spec: TableSpec = format!("t=\"{path}\",timestamps=cut").parse()?;
    for is_strict in [false, true] {
        let findings = Arc::new(Findings::default());
        findings.set_strict(is_strict);
        let config = SessionConfig::new().with_target_partitions(1).with_extension(Arc::clone(&findings));
        let ctx = SessionContext::new_with_config(config);
        let table = tfr_formats::open_table(&ctx.state(), &spec).await?;
        let found = ctx.read_table(table as Arc<dyn TableProvider>)?.collect().await;
        if is_strict {
            let message = chain(&found.expect_err("strict"));
            assert!(message.ends_with(first), "{message}");
            continue;
        }
        let found = found?;
        assert_eq!(*found[0].column(1).data_type(), DataType::Timestamp(TimeUnit::Microsecond, None));
        assert_eq!(
            texts(&found)?,
            [
                ["1", "0001-01-01T00:00:00"],
                ["2", "2024-01-31T10:11:12.123456"],
                ["3", "9999-12-31T23:59:59.999999"],
                ["4", "1970-01-01T00:00:00.999999"],
            ]
        );
        let [finding] = &findings.all()[..] else { panic!("{:?}", findings.all()) };
        assert_eq!((finding.count, finding.row, finding.column.as_deref()), (3, 1, Some("t")));
        assert_eq!(finding.value, "2024-01-31T10:11:12.123456789");
    }
    Ok(())
}
