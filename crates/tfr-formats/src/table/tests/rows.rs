//! Deleted rows, numbers of rows, and single files.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::DataType;
use datafusion_common::stats::Precision;
use datafusion_common::{Result, ScalarValue};
use datafusion_datasource::file_scan_config::FileScanConfig;
use datafusion_datasource::source::DataSourceExec;
use futures::TryStreamExt;
use orc_rust::ArrowWriterBuilder;
use tfr_files::{DataFormat, FilesWithoutIds, TableFiles};

use super::support::{Column, FILES, columns, deleted, file, open, query, rows, session, texts};
use super::types::{avro, long};
use crate::calendar::CalendarOption;
use crate::error::{Error, ErrorKind, TableError};

/// Number of rows of the files below, each with its number and a text.
const ROWS: i64 = 20_000;

fn wanted() -> Vec<Column> {
    vec![
        Column::new("row", 1, DataType::Int64).named(&["n"]),
        Column::new("text", 2, DataType::Utf8).named(&["t"]),
        Column::new("more", 3, DataType::Int32).or(ScalarValue::Int32(Some(5))),
    ]
}

/// Writes an ORC file of many stripes and an Avro file of many blocks, both without ids.
fn write_files(directory: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let batch = |start: i64, end: i64| {
        let texts = (start..end).map(|row| format!("text {row}"));
        let columns: [(&str, ArrayRef); 2] = [
            ("n", Arc::new(Int64Array::from_iter_values(start..end))),
            ("t", Arc::new(StringArray::from_iter_values(texts))),
        ];
        RecordBatch::try_from_iter(columns)
    };
    let out = std::fs::File::create(directory.join("rows.orc"))?;
    let mut writer = ArrowWriterBuilder::new(out, batch(0, 0)?.schema()).with_stripe_byte_size(1 << 14).try_build()?;
    for start in (0..ROWS).step_by(500) {
        writer.write(&batch(start, start + 500)?)?;
    }
    writer.close()?;
    let blocks = (0..ROWS).step_by(700).map(|start| {
        let rows = start..(start + 700).min(ROWS);
        let records = rows.clone().flat_map(|row| {
            let text = format!("text {row}");
            [long(row), long(text.len() as i64), text.into_bytes()].concat()
        });
        (rows.end - rows.start, records.collect())
    });
    let schema = r#"{"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}, {"name": "t", "type": "string"}]}"#;
    std::fs::write(directory.join("rows.avro"), avro(schema, &blocks.collect::<Vec<_>>()))?;
    Ok(())
}

/// Filters that skip stripes, limits and partitions must not change which rows are deleted.
#[tokio::test]
async fn table_files_leave_out_deleted_rows() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    write_files(directory.path())?;
    let gone = [(0, 3), (499, 502), (7_000, 7_001), (12_000, 15_000), (19_999, 20_000)];
    let left = |row: &i64| !gone.iter().any(|(start, end)| (*start..*end).contains(&(*row as u64)));
    for name in ["rows.orc", "rows.avro"] {
        for partitions in [1, 3] {
            let ctx = session(partitions);
            let table = async || {
                let change = |table: &mut TableFiles| {
                    table.files[0].deleted = deleted(&gone);
                    table.files[0].rows = Some(ROWS as u64);
                };
                open(&ctx, directory.path(), &[name], &wanted(), change).await
            };
            let expected: Vec<_> = (0..ROWS).filter(left).map(|row| format!("{row} | text {row} | 5")).collect();
            let found = query(&ctx, table().await?, "SELECT * FROM t ORDER BY row").await?;
            assert!(found == expected, "{name}: {} rows of {}", found.len(), expected.len());
            let counts = "SELECT count(*), count(more), min(row), max(row) FROM t";
            assert_eq!(query(&ctx, table().await?, counts).await?, ["16992 | 16992 | 3 | 19998"], "{name}");
            // No column of the file is read.
            assert_eq!(query(&ctx, table().await?, "SELECT sum(more) FROM t").await?, ["84960"], "{name}");
            let filter = "SELECT row FROM t WHERE row BETWEEN 11998 AND 15001 ORDER BY row";
            assert_eq!(query(&ctx, table().await?, filter).await?, ["11998", "11999", "15000", "15001"], "{name}");
            let filter = "SELECT count(*) FROM t WHERE more = 5 AND row < 1000";
            assert_eq!(query(&ctx, table().await?, filter).await?, ["994"], "{name}");
            let none = "SELECT count(*) FROM t WHERE more IS NULL OR row = 7000";
            assert_eq!(query(&ctx, table().await?, none).await?, ["0"], "{name}");
            let limit = query(&ctx, table().await?, "SELECT row FROM t LIMIT 5").await?;
            assert!(limit.len() == 5 && limit.iter().all(|row| left(&row.parse().unwrap())), "{name}: {limit:?}");
        }
    }
    Ok(())
}

/// A file all of whose rows are deleted has none.
#[tokio::test]
async fn table_files_may_have_no_row_left() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    write_files(directory.path())?;
    for name in ["rows.orc", "rows.avro"] {
        let ctx = session(2);
        let change = |table: &mut TableFiles| table.files[0].deleted = deleted(&[(0, 20_000)]);
        let table = open(&ctx, directory.path(), &[name], &wanted(), change).await?;
        assert_eq!(query(&ctx, table, "SELECT count(*), max(row) FROM t").await?, ["0 | NULL"], "{name}");
    }
    Ok(())
}

fn table_error(error: &datafusion_common::DataFusionError) -> Option<&TableError> {
    let datafusion_common::DataFusionError::External(source) = error.find_root() else { return None };
    match source.downcast_ref::<Error>()?.kind() {
        ErrorKind::Table(table) => Some(table),
        _ => None,
    }
}

/// ORC records its number of rows in its footer; Avro has it only at the end.
#[tokio::test]
async fn table_files_compare_numbers_of_rows() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    write_files(directory.path())?;
    let fewer: fn(&mut TableFiles) = |table| table.files[0].rows = Some(19_999);
    let beyond: fn(&mut TableFiles) = |table| table.files[0].deleted = deleted(&[(20_000, 20_001)]);
    for (change, expected) in [(fewer, "19999 rows"), (beyond, "a deleted row at position 20000")] {
        let ctx = session(1);
        let orc = open(&ctx, directory.path(), &["rows.orc"], &wanted(), change).await.unwrap_err();
        let avro = open(&ctx, directory.path(), &["rows.avro"], &wanted(), change).await?;
        let avro = query(&ctx, avro, "SELECT max(row) FROM t").await.unwrap_err();
        for error in [orc, avro] {
            let Some(TableError::RowsDisagree { found: 20_000, recorded, .. }) = table_error(&error) else {
                panic!("another error: {error}");
            };
            assert_eq!(recorded, expected);
        }
    }
    // An exact number of rows is not taken from metadata that nobody has compared.
    let ctx = session(1);
    for (name, expected) in [("rows.orc", Precision::Exact(20_000)), ("rows.avro", Precision::Inexact(20_000))] {
        let recorded = |table: &mut TableFiles| table.files[0].rows = Some(20_000);
        let table = open(&ctx, directory.path(), &[name], &wanted(), recorded).await?;
        let plan = datafusion_catalog::TableProvider::scan(&table, &ctx.state(), None, &[], None).await?;
        let scan = plan.downcast_ref::<DataSourceExec>();
        let config = scan.and_then(|scan| scan.data_source().downcast_ref::<FileScanConfig>());
        assert_eq!(config.map(|config| config.statistics().num_rows), Some(expected), "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn table_file_is_read_in_its_order() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    write_files(directory.path())?;
    let ctx = session(3);
    for name in ["rows.orc", "rows.avro"] {
        let (location, found) = file(&ctx, directory.path(), name).await?;
        let (schema, columns) = columns(&wanted()[..1]);
        let stream =
            super::super::read(&ctx.state(), &location, found, schema, columns, CalendarOption::default()).await?;
        let found = texts(&stream.try_collect::<Vec<_>>().await?)?;
        assert!(found == (0..ROWS).map(|row| row.to_string()).collect::<Vec<_>>(), "{name}");
    }
    let (location, found) = file(&ctx, Path::new(FILES), "nested-1.parquet").await?;
    let (schema, columns) = columns(&wanted()[..1]);
    let stream = super::super::read(&ctx.state(), &location, found, schema, columns, CalendarOption::default()).await?;
    assert_eq!(texts(&stream.try_collect::<Vec<_>>().await?)?, ["0", "1", "2"]);
    Ok(())
}

#[tokio::test]
async fn table_files_of_several_formats_are_refused() -> Result<()> {
    let id = [Column::new("id", 1, DataType::Int64)];
    let error = rows(Path::new(FILES), &["orc-1.orc", "avro-1.avro"], &id).await.unwrap_err();
    let Some(TableError::SeveralFormats { found, expected, .. }) = table_error(&error) else {
        panic!("another error: {error}");
    };
    assert_eq!((*found, *expected), (DataFormat::Avro, DataFormat::Orc));
    Ok(())
}

/// Without names for them, files without ids are refused in all formats.
#[tokio::test]
async fn table_files_without_ids_are_refused() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    write_files(directory.path())?;
    std::fs::copy(Path::new(FILES).join("added-2.parquet"), directory.path().join("rows.parquet"))?;
    let ctx = session(1);
    for name in ["rows.parquet", "rows.orc", "rows.avro"] {
        let refuse = |table: &mut TableFiles| {
            let mut columns = table.columns.as_ref().clone();
            columns.without_ids = FilesWithoutIds::Refuse;
            table.columns = Arc::new(columns);
        };
        let error = open(&ctx, directory.path(), &[name], &wanted(), refuse).await.unwrap_err();
        let Some(TableError::Unusable { problem, .. }) = table_error(&error) else { panic!("{name}: {error}") };
        assert_eq!(problem, "the table finds its columns by ids, but the file does not record them", "{name}");
    }
    Ok(())
}
