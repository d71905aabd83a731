//! Types: the schema of the table decides.

use std::path::Path;

use arrow_schema::{DataType, TimeUnit};
use datafusion_common::Result;
use tfr_files::TableFiles;

use super::support::{Column, FILES, MICROS, deleted, instant, open, query, rows, session};
use crate::error::{Error, ErrorKind, TableError};

/// Encodes a number in Avro.
pub(super) fn long(value: i64) -> Vec<u8> {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    let mut bytes = Vec::new();
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

/// Builds an Avro file of blocks, each a number of records and their bytes.
pub(super) fn avro(schema: &str, blocks: &[(i64, Vec<u8>)]) -> Vec<u8> {
    const SYNC: [u8; 16] = *b"0123456789abcdef";
    let text = |bytes: &[u8]| [long(bytes.len() as i64), bytes.to_vec()].concat();
    let mut file = b"Obj\x01".to_vec();
    file.extend([long(1), text(b"avro.schema"), text(schema.as_bytes()), long(0)].concat());
    file.extend(SYNC);
    for (records, data) in blocks {
        file.extend([long(*records), text(data), SYNC.to_vec()].concat());
    }
    file
}

async fn avro_rows(fields: &str, record: Vec<u8>, wanted: &[Column]) -> Result<Vec<String>> {
    let directory = tempfile::tempdir()?;
    let schema = format!(r#"{{"type": "record", "name": "r", "fields": [{fields}]}}"#);
    std::fs::write(directory.path().join("f.avro"), avro(&schema, &[(1, record)]))?;
    rows(directory.path(), &["f.avro"], wanted).await
}

/// Iceberg escapes names, and writes maps whose keys are no strings as arrays.
#[tokio::test]
async fn table_files_of_avro_have_names_and_maps_of_iceberg() -> Result<()> {
    let fields = r#"
        {"name": "a_x20b", "type": "int", "field-id": 1},
        {"name": "m", "field-id": 2, "type": {"type": "array", "logicalType": "map", "items": {
            "type": "record", "name": "k3_v4", "fields": [
                {"name": "key", "type": "int", "field-id": 3},
                {"name": "value", "type": ["null", {"type": "record", "name": "v", "fields": [
                    {"name": "_1", "type": "string", "field-id": 6}]}], "field-id": 4}]}}},
        {"name": "u", "field-id": 5, "type": {"type": "fixed", "name": "uuid", "size": 2, "logicalType": "uuid"}}"#;
    let record = [
        long(7),
        long(2),
        [long(1), long(1), long(1), b"x".to_vec()].concat(),
        [long(2), long(0)].concat(),
        long(0),
        vec![0xab, 0xcd],
    ];
    let wanted = [
        Column::new("a b", 1, DataType::Int64),
        Column::map(
            "m",
            2,
            Column::new("key", 3, DataType::Int64),
            Column::structure("value", 4, vec![Column::new("1", 6, DataType::Utf8)]),
        ),
        Column::new("u", 5, DataType::FixedSizeBinary(2)),
    ];
    assert_eq!(avro_rows(fields, record.concat(), &wanted).await?, ["7 | {1: {1: x}, 2: NULL} | abcd"]);
    Ok(())
}

/// Whether a timestamp has a zone is a property of the table; a file with one is not one without.
#[tokio::test]
async fn table_files_of_avro_have_the_zones_of_the_table() -> Result<()> {
    let fields = r#"
        {"name": "a", "type": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": false}, "field-id": 1},
        {"name": "b", "type": {"type": "long", "logicalType": "timestamp-micros"}, "field-id": 2},
        {"name": "c", "type": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": true}, "field-id": 3},
        {"name": "d", "type": {"type": "long", "logicalType": "timestamp-nanos"}, "field-id": 4}"#;
    let record = [long(1), long(2), long(3), long(4_000)].concat();
    let nanos = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let wanted = [
        Column::new("a", 1, MICROS),
        Column::new("b", 2, instant()),
        Column::new("c", 3, instant()),
        Column::new("d", 4, nanos),
    ];
    let expected = "1970-01-01T00:00:00.000001 | 1970-01-01T00:00:00.000002Z | 1970-01-01T00:00:00.000003Z | \
                    1970-01-01T00:00:00.000004";
    assert_eq!(avro_rows(fields, record.clone(), &wanted).await?, [expected]);
    let error = avro_rows(fields, record, &[Column::new("c", 3, MICROS)]).await.unwrap_err();
    assert!(is_type_in_file(&error), "{error}");
    Ok(())
}

fn is_type_in_file(error: &datafusion_common::DataFusionError) -> bool {
    let datafusion_common::DataFusionError::External(source) = error.find_root() else { return false };
    let kind = source.downcast_ref::<Error>().map(|error| error.kind());
    matches!(kind, Some(ErrorKind::Table(TableError::TypeInFile { .. })))
}

/// Types that Iceberg widens are converted exactly.
#[tokio::test]
async fn table_files_are_converted_to_wider_types() -> Result<()> {
    let wanted = [
        Column::new("late", 16, DataType::Int64),
        Column::new("d", 6, MICROS),
        Column::new("amt", 3, DataType::Decimal128(20, 2)),
    ];
    for files in [["orc-2.orc"], ["avro-2.avro"]] {
        let found = rows(Path::new(FILES), &files, &wanted).await?;
        assert_eq!(found, ["7 | 2024-03-04T00:00:00 | 1172.85", "7 | 2024-03-05T00:00:00 | NULL"], "{files:?}");
        for other in [DataType::Utf8, DataType::Binary, instant()] {
            let error = rows(Path::new(FILES), &files, &[Column::new("d", 6, other)]).await.unwrap_err();
            assert!(is_type_in_file(&error), "{error}");
        }
    }
    Ok(())
}

/// The row of a value that does not fit is not known where rows are left out.
#[tokio::test]
async fn table_files_refuse_values_that_do_not_fit() -> Result<()> {
    let wanted = [Column::new("amt", 3, DataType::Decimal128(5, 2)), Column::new("id", 1, DataType::Int64)];
    for name in ["orc-1.orc", "avro-1.avro"] {
        let ctx = session(1);
        let table = open(&ctx, Path::new(FILES), &[name], &wanted, |_| {}).await?;
        let error = query(&ctx, table, "SELECT * FROM t").await.unwrap_err().to_string();
        assert!(error.contains("row 0") && error.contains("-5000.00"), "{error}");
        let delete = |table: &mut TableFiles| table.files[0].deleted = deleted(&[(0, 1)]);
        let table = open(&ctx, Path::new(FILES), &[name], &wanted, delete).await?;
        let error = query(&ctx, table, "SELECT * FROM t").await.unwrap_err().to_string();
        assert!(!error.contains("row ") && error.contains("-3765.43"), "{error}");
    }
    Ok(())
}

/// A number that is none would leave the column NULL.
#[tokio::test]
async fn table_files_of_avro_with_malformed_ids_are_refused() {
    for id in [r#""1""#, "1.5", "4294967296", "null"] {
        let fields = format!(r#"{{"name": "a", "type": "int", "field-id": {id}}}"#);
        let error = avro_rows(&fields, long(7), &[Column::new("a", 1, DataType::Int64)]).await.unwrap_err();
        let datafusion_common::DataFusionError::External(source) = error.find_root() else { panic!("{error}") };
        let kind = source.downcast_ref::<Error>().map(|error| error.kind());
        let Some(ErrorKind::Content { problem, .. }) = kind else { panic!("{id}: {error}") };
        assert!(problem.starts_with("the schema in its header cannot be used: "), "{id}: {error}");
        assert!(problem.contains(&format!("has the id {id}")), "{id}: {error}");
    }
}
