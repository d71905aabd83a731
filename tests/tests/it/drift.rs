//! Files of one table whose columns have different types.

mod topics;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{DataFusionError, Result};
use datafusion::prelude::SessionContext;
use tfr_files::ErrorKind;
use tfr_formats::TableSpec;
use tfr_tests::{Scratch, repository, run, tfr_sql};

use self::topics::{TOPICS, Topic};
use crate::session;

const FORMATS: [&str; 4] = ["parquet", "arrow", "orc", "avro"];

/// The rows of a query, cells separated by `|`.
async fn rows(context: &SessionContext, sql: &str) -> Result<Vec<String>> {
    let options = FormatOptions::new().with_null("NULL");
    let mut rows = Vec::new();
    let plan = context.state().statement_to_plan(tfr_engine::parse(sql)?).await?;
    for batch in context.execute_logical_plan(plan).await?.collect().await? {
        let columns: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options)).collect::<Result<_, _>>()?;
        rows.extend((0..batch.num_rows()).map(|row| {
            let cells: Vec<_> = columns.iter().map(|column| column.value(row).to_string()).collect();
            cells.join("|")
        }));
    }
    Ok(rows)
}

/// The two files of a topic in a directory, the one that is named first to be read first; `None` if the format lacks the
/// types.
fn files(scratch: &Scratch, topic: &str, format: &str, order: [&str; 2]) -> Option<PathBuf> {
    let source = repository().join("tests/data/drift").join(topic);
    let target = scratch.join(format!("{topic}-{format}-{}", order[0]));
    fs::create_dir_all(&target).unwrap();
    for (number, age) in order.iter().enumerate() {
        let from = source.join(format!("{age}.{format}"));
        if !from.exists() {
            return None;
        }
        fs::copy(from, target.join(format!("{number}.{format}"))).unwrap();
    }
    Some(target)
}

#[tokio::test]
async fn files_that_differ_without_loss_are_one_table() {
    let scratch = Scratch::default();
    let mut tables = 0;
    for Topic { name, columns, rows: expected, filters } in TOPICS {
        for format in FORMATS {
            for order in [["old", "new"], ["new", "old"]] {
                let Some(table) = files(&scratch, name, format, order) else { continue };
                tables += 1;
                let context = session::of_command(tables % 2 + 1);
                let (table, what) = (table.display(), format!("{name} {format} {order:?}"));
                let select = format!("SELECT {columns} FROM '{table}/' ORDER BY id");
                assert_eq!(rows(&context, &select).await.expect(&what), expected, "{what}");
                for (filter, ids) in *filters {
                    let ids: Vec<_> = ids.iter().map(i64::to_string).collect();
                    let select = format!("SELECT id FROM '{table}/' WHERE {filter} ORDER BY id");
                    assert_eq!(rows(&context, &select).await.expect(&what), ids, "{what}: {filter}");
                }
                let nulls = "SELECT count(*) - count(v), count(*) FILTER (WHERE v IS NULL)";
                let nulls = rows(&context, &format!("{nulls} FROM '{table}/'")).await.expect(&what);
                let of_filter =
                    filters.iter().find(|(filter, _)| *filter == "v IS NULL").map_or(0, |(_, ids)| ids.len());
                assert_eq!(nulls, [format!("{of_filter}|{of_filter}")], "{what}");
            }
        }
    }
    assert!(tables > 60, "{tables}");
}

#[tokio::test]
async fn filters_are_right_where_the_scan_evaluates_them() {
    let scratch = Scratch::default();
    for Topic { name, filters, .. } in TOPICS {
        let Some(table) = files(&scratch, name, "parquet", ["old", "new"]) else { continue };
        let mut settings = session::settings(1);
        settings.options_mut().execution.parquet.pushdown_filters = true;
        let context = session::open(settings);
        for (filter, ids) in *filters {
            let ids: Vec<_> = ids.iter().map(i64::to_string).collect();
            let select = format!("SELECT id FROM '{}/' WHERE {filter} ORDER BY id", table.display());
            assert_eq!(rows(&context, &select).await.expect(filter), ids, "{name}: {filter}");
        }
    }
}

#[tokio::test]
async fn shards_have_the_values_of_both_files() -> Result<()> {
    let scratch = Scratch::default();
    for order in [["old", "new"], ["new", "old"]] {
        let table = files(&scratch, "struct", "parquet", order).expect("files");
        let out = scratch.join(order[0]);
        let query = format!("SELECT id, v['a'] AS a, v['b'] AS b, v['c'] AS c FROM '{}/'", table.display());
        run(tfr_sql().arg(query).arg("--out").arg(&out)).success();
        let context = session::of_command(1);
        let found = rows(&context, &format!("SELECT a, b, c FROM '{}/' ORDER BY id", out.display())).await?;
        let topic = TOPICS.iter().find(|topic| topic.name == "struct").expect("a topic");
        assert_eq!(found, topic.rows);
    }
    Ok(())
}

fn batch(column: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter([("x", column)]).unwrap()
}

fn doubles(values: &[f64]) -> RecordBatch {
    batch(Arc::new(Float64Array::from(values.to_vec())))
}

fn longs(values: &[i64]) -> RecordBatch {
    batch(Arc::new(Int64Array::from(values.to_vec())))
}

fn texts(values: &[&str]) -> RecordBatch {
    batch(Arc::new(StringArray::from(values.to_vec())))
}

async fn of_table(context: &SessionContext, name: &str, spec: &str) -> Result<()> {
    let spec: TableSpec = spec.parse().map_err(DataFusionError::from)?;
    let table = tfr_formats::open_table(&context.state(), &spec).await?;
    context.register_table(name, table).map(drop)
}

/// The kind of an error of the module `directory`.
fn kind(error: &DataFusionError) -> &ErrorKind {
    match error.find_root() {
        DataFusionError::External(source) => source.downcast_ref::<tfr_files::Error>().expect("an error").kind(),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn drift_that_loses_values_is_rejected_with_a_type_hint() -> Result<()> {
    let scratch = Scratch::default();
    let context = session::of_command(1);
    let cases = [
        (
            "float",
            longs(&[1, 1 << 53]),
            doubles(&[0.5]),
            "DOUBLE",
            "types=x DOUBLE",
            ["0.5", "1.0", "9007199254740992.0"],
        ),
        ("text", longs(&[1, 10]), texts(&["a"]), "VARCHAR", "types=x STRING", ["1", "10", "a"]),
    ];
    for (name, first, second, sql, option, expected) in cases {
        scratch.parquet(&format!("{name}/1.parquet"), &first, 10);
        scratch.parquet(&format!("{name}/2.parquet"), &second, 10);
        let table = scratch.join(name);
        let refused = rows(&context, &format!("SELECT * FROM '{}/'", table.display())).await.expect_err(name);
        let ErrorKind::SchemaConflict { column, declarable, .. } = kind(&refused) else { panic!("{refused}") };
        assert_eq!((column.as_str(), declarable.as_deref()), ("x", Some(sql)));
        of_table(&context, name, &format!("{name}={}/,{option}", table.display())).await?;
        assert_eq!(rows(&context, &format!("SELECT x FROM {name} ORDER BY x")).await?, expected);
    }
    Ok(())
}

#[tokio::test]
async fn a_value_that_a_declared_type_cannot_hold_is_named_with_its_row() -> Result<()> {
    let scratch = Scratch::default();
    let context = session::of_command(1);
    let big = (1 << 53) + 1;
    let batch = longs(&[1, 2, 3, big]);
    scratch.parquet("t/1.parquet", &batch, 2);
    let table = scratch.join("t");
    for (types, sql_type, expected) in
        [("DOUBLE", "DOUBLE", "Float64"), ("INT", "INT", "Int32"), ("TINYINT", "TINYINT", "Int8")]
    {
        of_table(&context, "o", &format!("o={}/,types=x {types}", table.display())).await?;
        let create =
            format!("CREATE EXTERNAL TABLE d (x {sql_type}) STORED AS PARQUET LOCATION '{}/'", table.display());
        context.sql(&create).await?;
        for name in ["o", "d"] {
            let error = rows(&context, &format!("SELECT x FROM {name}")).await.expect_err(types);
            let ErrorKind::UnfitValue { row, column, value, expected: declared, file, .. } = kind(&error) else {
                panic!("{error}")
            };
            assert_eq!((*row, column.as_str(), value.as_str()), (Some(3), "x", "9007199254740993"));
            assert_eq!(declared.to_string(), expected);
            assert!(file.ends_with("t/1.parquet"), "{file}");
            context.deregister_table(name)?;
        }
    }
    // Nothing is wrong with the values that are read.
    of_table(&context, "o", &format!("o={}/,\"types=x DECIMAL(18,2)\"", table.display())).await?;
    assert_eq!(rows(&context, "SELECT x FROM o WHERE x > 2").await?, ["3.00", "9007199254740993.00"]);
    Ok(())
}

/// A file without any of the declared fields has another struct, which is not the declared one with NULLs.
#[tokio::test]
async fn a_declared_struct_shares_a_field_with_each_file() -> Result<()> {
    let scratch = Scratch::default();
    let context = session::of_command(1);
    let structs = |name: &str| {
        let field = Field::new(name, DataType::Int64, true);
        let values: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        batch(Arc::new(StructArray::from(vec![(Arc::new(field), values)])))
    };
    scratch.parquet("t/1.parquet", &structs("a"), 10);
    scratch.parquet("t/2.parquet", &structs("b"), 10);
    let location = scratch.join("t");
    let create =
        format!("CREATE EXTERNAL TABLE d (x STRUCT<a BIGINT>) STORED AS PARQUET LOCATION '{}/'", location.display());
    let refused = context.sql(&create).await.expect_err("2.parquet has no field a");
    let ErrorKind::DeclaredType { file, column, .. } = kind(&refused) else { panic!("{refused}") };
    assert!(file.ends_with("2.parquet") && column == "x", "{file} {column}");
    Ok(())
}

#[tokio::test]
async fn times_are_never_wrapped() -> Result<()> {
    let scratch = Scratch::default();
    let context = session::of_command(1);
    let micros = |values: Vec<i64>| batch(Arc::new(TimestampMicrosecondArray::from(values)));
    // 9999-12-31, which is beyond nanoseconds.
    let far = 253_402_214_400_000_000;
    scratch.arrow("far.arrow", &micros(vec![0, far]));
    let nanos = arrow::array::TimestampNanosecondArray::from(vec![1]);
    scratch.arrow("fine.arrow", &batch(Arc::new(nanos)));
    scratch.parquet("p/far.parquet", &micros(vec![0, far]), 10);
    let nanos = arrow::array::TimestampNanosecondArray::from(vec![1]);
    scratch.parquet("p/fine.parquet", &batch(Arc::new(nanos)), 10);
    let error = rows(&context, &format!("SELECT x FROM '{}/*.arrow'", scratch.path().display())).await;
    assert!(error.expect_err("far").to_string().contains("row 1: column \"x\""));
    let pattern = format!("{}/p/*.parquet", scratch.path().display());
    let error = rows(&context, &format!("SELECT x FROM '{pattern}'")).await.expect_err("far");
    let ErrorKind::UnfitValue { row, value, .. } = kind(&error) else { panic!("{error}") };
    assert_eq!((*row, value.as_str()), (Some(1), "9999-12-31T00:00:00"));
    // Microseconds hold both, but for the nanosecond.
    of_table(&context, "t", &format!("t={},types=x TIMESTAMP", scratch.join("p/far.parquet").display())).await?;
    assert_eq!(rows(&context, "SELECT x FROM t ORDER BY x").await?, ["1970-01-01T00:00:00", "9999-12-31T00:00:00"]);
    Ok(())
}

/// Each format: two files with `Id` and `ID`, of which each has a row.
fn by_case(scratch: &Scratch) -> Vec<PathBuf> {
    let named = |name: &str, value: i64| {
        RecordBatch::try_from_iter([(name, Arc::new(Int64Array::from(vec![value])) as ArrayRef)]).unwrap()
    };
    for format in ["parquet", "arrow", "csv", "json", "avro", "orc"] {
        fs::create_dir(scratch.join(format)).unwrap();
    }
    for (number, name) in [(1, "Id"), (2, "ID")] {
        scratch.parquet(&format!("parquet/{number}.parquet"), &named(name, number), 10);
        scratch.arrow(&format!("arrow/{number}.arrow"), &named(name, number));
        scratch.text(&format!("csv/{number}.csv"), &format!("{name}\n{number}\n"));
        scratch.text(&format!("json/{number}.json"), &format!("{{\"{name}\": {number}}}\n"));
        for format in ["avro", "orc"] {
            let from = repository().join(format!("tests/data/drift/names/{name}.{format}"));
            fs::copy(from, scratch.join(format!("{format}/{number}.{format}"))).unwrap();
        }
    }
    ["parquet", "arrow", "csv", "json", "avro", "orc"].map(|format| scratch.join(format)).to_vec()
}

#[tokio::test]
async fn drift_of_case_is_merged_on_request() -> Result<()> {
    let scratch = Scratch::default();
    let context = session::of_command(1);
    for table in by_case(&scratch) {
        let (table, what) = (table.display(), table.display().to_string());
        of_table(&context, "exact", &format!("exact={table}/")).await?;
        let exact = rows(&context, "SELECT \"Id\", \"ID\" FROM exact ORDER BY 1 NULLS LAST").await.expect(&what);
        assert_eq!(exact, ["1|NULL", "NULL|2"], "{what}");
        of_table(&context, "folded", &format!("folded={table}/,names=insensitive")).await?;
        assert_eq!(rows(&context, "SELECT * FROM folded ORDER BY id").await.expect(&what), ["1", "2"], "{what}");
        assert_eq!(rows(&context, "SELECT id FROM folded WHERE id > 1").await.expect(&what), ["2"], "{what}");
        let format = Path::new(&what).file_name().and_then(|name| name.to_str()).unwrap_or_default().to_uppercase();
        let create = format!(
            "CREATE EXTERNAL TABLE declared (\"iD\" BIGINT) STORED AS {format} LOCATION '{table}/' \
             OPTIONS (names insensitive)"
        );
        context.sql(&create).await?;
        let declared = rows(&context, "SELECT \"iD\" FROM declared ORDER BY \"iD\"").await;
        assert_eq!(declared.expect(&what), ["1", "2"], "{what}");
        for name in ["exact", "folded", "declared"] {
            context.deregister_table(name)?;
        }
    }
    Ok(())
}

#[test]
fn drift_of_case_is_reported() {
    let scratch = Scratch::default();
    for table in by_case(&scratch) {
        let read = run(tfr_sql().arg(format!("SELECT * FROM '{}/'", table.display()))).success();
        let warnings: Vec<_> = read.stderr.lines().filter(|line| line.contains("differ only by case")).collect();
        assert_eq!(warnings.len(), 1, "{}", read.stderr);
        for part in ["\"Id\"", "\"ID\"", "names=insensitive"] {
            assert!(warnings[0].contains(part), "{}", warnings[0]);
        }
    }
}

#[tokio::test]
async fn two_columns_of_one_file_are_not_one() {
    let scratch = Scratch::default();
    let context = session::of_command(1);
    scratch.text("t.csv", "id,ID\n1,2\n");
    let table = scratch.join("t.csv");
    let error = of_table(&context, "t", &format!("t={},names=insensitive", table.display())).await;
    assert!(error.expect_err("two").to_string().contains("\"id\""));
    let read = run(tfr_sql().arg(format!("SELECT * FROM '{}'", table.display()))).success();
    assert!(!read.stderr.contains("differ only by case"), "{}", read.stderr);
}
