//! One file for each type of the Parquet format, and files of old and later writers: `tests/data/parquet`.
//!
//! The expected values are those of pyarrow 26 and DuckDB 2.0, except where a comment differs.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use datafusion::error::Result;
use datafusion::parquet::arrow::encode_arrow_schema;
use datafusion::parquet::data_type::{ByteArray, ByteArrayType};
use datafusion::parquet::file::metadata::KeyValue;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::parquet::file::writer::SerializedFileWriter;
use datafusion::parquet::schema::parser::parse_message_type;

use crate::support::{chain, read, rows, session, texts};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/parquet").join(format!("{name}.parquet"))
}

fn table(name: &str) -> String {
    format!("'{}'", path(name).display())
}

/// Returns the values of the column `u` of a file, or why it is rejected.
async fn values(name: &str) -> Result<Vec<String>, String> {
    let found = rows(&format!("SELECT u FROM {} ORDER BY id", table(name))).await;
    found.map(|rows| rows.concat()).map_err(|error| chain(&error))
}

#[tokio::test]
async fn every_type_is_right() -> Result<()> {
    let point = "0101000000000000000000f03f0000000000000040";
    for (name, expected) in [
        ("string", vec!["a", "é"]),
        // pyarrow reads it as bytes, DuckDB as text, which is what the format specifies.
        ("enum", vec!["A", "B"]),
        ("json", vec!["{}", "[1]"]),
        ("bson", vec!["0500000000", "0500000000"]),
        ("uuid", vec!["000102030405060708090a0b0c0d0e0f", "00000000000000000000000000000000"]),
        ("float16", vec!["1", "-1"]),
        ("geometry", vec![point, point]),
        ("geography", vec![point, point]),
        ("int8", vec!["-128", "1"]),
        ("int16", vec!["-32768", "1"]),
        ("int32", vec!["-2147483648", "1"]),
        ("int64", vec!["-9223372036854775808", "1"]),
        ("uint8", vec!["255", "1"]),
        ("uint16", vec!["65535", "1"]),
        ("uint32", vec!["4294967295", "1"]),
        ("uint64", vec!["18446744073709551615", "1"]),
        ("date", vec!["1969-12-31", "2022-01-08"]),
        ("time_millis", vec!["00:00:00.001", "23:59:59.999"]),
        ("time_micros", vec!["00:00:00.000001", "23:59:59.999999"]),
        ("time_nanos", vec!["00:00:00.000000001", "23:59:59.999999999"]),
        ("timestamp_millis", vec!["1970-01-01T00:00:00.001Z", "1969-12-31T23:59:59.999Z"]),
        ("timestamp_micros", vec!["1970-01-01T00:00:00.000001Z", "1969-12-31T23:59:59.999999Z"]),
        ("timestamp_nanos", vec!["1970-01-01T00:00:00.000000001", "1969-12-31T23:59:59.999999999"]),
        ("decimal_int32", vec!["123.45", "-0.01"]),
        ("decimal_int64", vec!["123.45", "-0.01"]),
        ("decimal_fixed", vec!["12.34", "-0.01"]),
        ("decimal_bytes", vec!["123.45", "-0.01"]),
        ("decimal_int32_of_12_digits", vec!["123.45", "-21474836.48"]),
        ("decimal_int64_of_25_digits", vec!["123.45", "-0.01"]),
        ("decimal_fixed_of_20_digits", vec!["0.48", "-0.01"]),
        ("decimal_without_scale", vec!["5", "6"]),
        ("interval", vec!["14 mons 3 days 1.500000000 secs", "0 secs", "12 mons 40 days 24 hours"]),
        ("list_of_two_levels", vec!["[1, 2]", "[]"]),
        ("list_without_annotation", vec!["[1, 2]", "[]"]),
        ("later_type_of_bytes", vec!["6162", "63"]),
        ("later_type_of_integers", vec!["1", "2"]),
        ("later_type_of_dates", vec!["1970-01-02", "1970-01-03"]),
        ("null_of_parquet_cpp_1_5", vec!["NULL", "NULL"]),
        // Both read nulls, though the values are present.
        ("interval_of_parquet_mr_1_12", vec!["14 mons 3 days 1.500000000 secs", "14 mons 3 days 1.500000000 secs"]),
        ("root_with_repetition", vec!["1", "2"]),
        ("without_count", vec!["1", "2"]),
        // pyarrow wraps distant values, DuckDB truncates the nanoseconds.
        ("int96_nanoseconds", vec!["1970-01-01T00:00:00.000000001", "2024-10-04T00:00:00.123456789"]),
        ("int96_far", vec!["9999-12-31T00:00:00", "2024-10-04T00:00:00.123456"]),
    ] {
        assert_eq!(values(name).await, Ok(expected.into_iter().map(str::to_owned).collect()), "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn parquet_unsupported_type_fails_only_its_column() -> Result<()> {
    for (name, reason) in [
        ("int128", "an integer of 128 bits is not supported"),
        ("decimal_of_77_digits", "is not supported"),
        ("uuid_of_8_bytes", "is not supported"),
        ("no_such_converted_type", "converted type 77 is not supported"),
    ] {
        let message = values(name).await.expect_err(name);
        assert!(message.contains(&format!("{name}.parquet: column \"u\": ")) && message.ends_with(reason), "{message}");
        assert_eq!(rows(&format!("SELECT id FROM {} WHERE id > 0", table(name))).await?, [["1"]], "{name}");
        assert_eq!(rows(&format!("SELECT count(*) FROM {}", table(name))).await?, [["2"]], "{name}");
        assert_eq!(rows(&format!("SELECT * EXCLUDE (u) FROM {}", table(name))).await?, [["0"], ["1"]], "{name}");
        assert!(rows(&format!("SELECT * FROM {}", table(name))).await.is_err(), "{name}");
        assert!(rows(&format!("SELECT id FROM {} WHERE u IS NULL", table(name))).await.is_err(), "{name}");
    }
    Ok(())
}

#[tokio::test]
async fn values_that_do_not_fit_are_named_by_row() {
    for (name, expected) in [
        ("int96_far_and_fine", "row 1: column \"u\": 1728000000.000000001 seconds since 1970 does not fit"),
        ("int96_malformed", "row 1: column \"u\": an INT96 of 86400000000000 nanoseconds on Julian day 2440588"),
        ("interval_beyond", "row 1: column \"u\": an interval of 2147483648 months and 0 days does not fit"),
        ("not_utf8", "row 1: column \"u\": the text is not UTF-8"),
    ] {
        let message = values(name).await.expect_err(name);
        assert!(message.contains(&format!("{name}.parquet: {expected}")), "{message}");
    }
}

#[tokio::test]
async fn parquet_int96_unit_is_an_option() -> Result<()> {
    let far = path("int96_far").display().to_string();
    let message = chain(&read(&format!("\"{far}\",timestamps=ns")).await.expect_err("beyond 2262"));
    assert!(message.contains("row 0: column \"u\": 253402214400.000000000 seconds since 1970"), "{message}");
    let fine = path("int96_nanoseconds").display().to_string();
    let message = chain(&read(&format!("\"{fine}\",timestamps=us")).await.expect_err("finer"));
    assert!(message.contains("row 0: column \"u\": 0.000000001 seconds since 1970"), "{message}");
    let found = texts(&read(&format!("\"{fine}\",timestamps=ns")).await?)?;
    assert_eq!(found[1][1], "2024-10-04T00:00:00.123456789");
    Ok(())
}

#[tokio::test]
async fn text_that_is_not_utf8_is_readable_as_bytes() -> Result<()> {
    let location = path("not_utf8").display().to_string();
    let expected = [["0", "6f6b"], ["1", "fffe"], ["2", "7a"]];
    assert_eq!(texts(&read(&format!("\"{location}\",binary=u")).await?)?, expected);
    let message = chain(&read(&format!("\"{location}\",binary=v")).await.expect_err("no such column"));
    assert!(message.contains("option binary=\"v\""), "{message}");
    let ctx = session(1);
    ctx.sql(&format!("CREATE EXTERNAL TABLE t (id BIGINT, u BYTEA) STORED AS PARQUET LOCATION '{location}'")).await?;
    assert_eq!(texts(&ctx.sql("SELECT * FROM t ORDER BY id").await?.collect().await?)?, expected);
    assert_eq!(rows(&format!("SELECT count(*), max(id) FROM '{location}'")).await?, [["3", "2"]]);
    Ok(())
}

/// The bounds suggest that no row passes, but are meaningless.
#[tokio::test]
async fn bounds_without_meaning_skip_no_rows() -> Result<()> {
    for (name, condition, expected) in [
        ("bounds_without_order", "u < 10", vec!["0", "1"]),
        ("bounds_of_signed_bytes", "u < 'b'", vec!["0"]),
        ("bounds_without_null_count", "u IS NULL", vec!["1"]),
        ("shortened_bounds", "u > 'abb'", vec!["1"]),
        ("bounds_of_unsigned", "u > 2", vec!["0"]),
        ("int96_far", "u > '2100-01-01'", vec!["0"]),
    ] {
        let found = rows(&format!("SELECT id FROM {} WHERE {condition} ORDER BY id", table(name))).await?;
        assert_eq!(found.concat(), expected, "{name}");
    }
    Ok(())
}

/// Writes two rows of `first` and `second` to each column. The schema that a writer stores has `hint` as text.
fn write_bytes(path: &Path, first: &[u8], second: &[u8]) -> Result<()> {
    let hint = Schema::new(vec![Field::new("hint", DataType::Utf8, false)]);
    let hint = KeyValue::new("ARROW:schema".to_owned(), encode_arrow_schema(&hint));
    let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![hint])).build();
    let schema = parse_message_type("message m { required binary hint; }")?;
    let mut writer = SerializedFileWriter::new(
        File::create(path.with_file_name("hint.parquet"))?,
        Arc::new(schema),
        Arc::new(properties),
    )?;
    write_rows(&mut writer, first, second)?;
    writer.close()?;
    let schema = "message m { required binary plain; required binary json (JSON); required binary enum (ENUM); \
                  required binary bson (BSON); required binary text (UTF8); }";
    let schema = Arc::new(parse_message_type(schema)?);
    let mut writer = SerializedFileWriter::new(File::create(path)?, schema, Arc::default())?;
    write_rows(&mut writer, first, second)?;
    writer.close()?;
    Ok(())
}

fn write_rows(writer: &mut SerializedFileWriter<File>, first: &[u8], second: &[u8]) -> Result<()> {
    let mut group = writer.next_row_group()?;
    while let Some(mut column) = group.next_column()? {
        let values = [first, second].map(|bytes| ByteArray::from(bytes.to_vec()));
        column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
        column.close()?;
    }
    group.close()?;
    Ok(())
}

/// The library checks only columns that the file annotates as UTF8, whatever they are decoded as.
#[tokio::test]
async fn bytes_decoded_as_text_are_checked() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t.parquet");
    let columns = ["plain", "json", "enum", "bson", "text"];
    let (file, hinted) = (path.display().to_string(), dir.path().join("hint.parquet").display().to_string());
    let declared = columns.map(|column| format!("{column} VARCHAR")).join(", ");
    let query = async |query: &str| {
        let ctx = session(1);
        ctx.sql(&format!("CREATE EXTERNAL TABLE t ({declared}) STORED AS PARQUET LOCATION '{file}'")).await?;
        texts(&ctx.sql(query).await?.collect().await?)
    };
    write_bytes(&path, b"ok", b"caf\xc3\xa9")?;
    assert_eq!(query("SELECT plain, json, enum, bson, text FROM t").await?, [["ok"; 5], ["caf\u{e9}"; 5]]);
    assert_eq!(query("SELECT count(*) FROM t WHERE plain LIKE 'caf_'").await?, [["1"]]);
    assert_eq!(rows(&format!("SELECT hint FROM '{hinted}'")).await?, [["6f6b"], ["636166c3a9"]]);
    assert_eq!(rows(&format!("SELECT json, enum FROM '{file}'")).await?, [["ok"; 2], ["caf\u{e9}"; 2]]);

    write_bytes(&path, b"ok", b"caf\xe9")?;
    assert_eq!(rows(&format!("SELECT hint FROM '{hinted}'")).await?, [["6f6b"], ["636166e9"]]);
    assert_eq!(rows(&format!("SELECT plain FROM '{file}'")).await?, [["6f6b"], ["636166e9"]]);
    for column in columns {
        let expected = format!("t.parquet: row 1: column \"{column}\": the text is not UTF-8");
        for declared in [format!("SELECT {column} FROM t"), format!("SELECT 1 FROM t WHERE {column} LIKE 'caf_'")] {
            let message = chain(&query(&declared).await.expect_err(column));
            assert!(message.contains(&expected), "{declared}: {message}");
        }
        // It reads the other columns, too.
        let message = chain(&read(&format!("\"{file}\",types={column} STRING")).await.expect_err(column));
        assert!(message.contains("the text is not UTF-8"), "{message}");
    }
    let message = chain(&rows(&format!("SELECT json FROM '{file}'")).await.expect_err("an annotated column"));
    assert!(message.contains("t.parquet: row 1: column \"json\": the text is not UTF-8"), "{message}");
    Ok(())
}
