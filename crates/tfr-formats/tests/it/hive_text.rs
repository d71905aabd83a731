//! Hive text files.

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
};
use datafusion::arrow::util::display::array_value_to_string;
use datafusion::error::Result;
use serde_json::Value;

use crate::corpus::{corpus, manifest, outcome, wrong};
use crate::support::{chain, read, row_count, rows, session, texts, write};

/// Reads `content` with `options`.
async fn table(content: &[u8], options: &str) -> Result<Vec<Vec<String>>> {
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("000000_0", content)])?;
    texts(&read(&format!("\"{}\"{options}", dir.path().join("000000_0").display())).await?)
}

/// Returns the error's message, without the scratch directory.
async fn refused(content: &[u8], options: &str) -> String {
    let message = chain(&table(content, options).await.expect_err("refused"));
    let start = message.find("000000_0").unwrap_or_default();
    message[start..].to_owned()
}

/// Hive writes line ends in texts in this form, and reads them from any writer.
#[tokio::test]
async fn escaped_line_ends_are_line_ends() -> Result<()> {
    let found = table(b"a\\nb\\rc\\\\n,\\d\\\n", ",\"delimiter=,\",escape=\\,\"schema=s STRING, t STRING\"").await?;
    assert_eq!(found, [["a\nb\rc\\n", "d\\"]]);
    Ok(())
}

#[tokio::test]
async fn hive_text_is_detected_by_its_separator() -> Result<()> {
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("t/000000_0", b"1\x01a\x02b\n\\N\x01\n"), ("t/000001_0", b"2\x01c\x01d\n")])?;
    let found = rows(&format!(
        "SELECT _col2, _col1, _col0 FROM '{}' ORDER BY _col2 NULLS FIRST, _col0 NULLS LAST",
        dir.path().join("t").display()
    ))
    .await?;
    assert_eq!(found, [["NULL", "a\u{2}b", "1"], ["NULL", "", "NULL"], ["d", "c", "2"]]);
    let empty = refused(b"", ",format=hive-text").await;
    assert_eq!(empty, "000000_0: no columns: the file contains no record");
    Ok(())
}

#[tokio::test]
async fn hive_text_types_follow_the_declaration() -> Result<()> {
    let schema = "schema=\"id BIGINT, tags ARRAY<STRING>, props MAP<STRING,INT>, p STRUCT<x:DOUBLE,y:DATE>, u UNIONTYPE<INT,STRING>\"";
    let text = b"7\x01a\x02\\N\x02\x01k\x033\x02l\x03\x01.5\x022024-02-29\x011\x02z\n\\N\x01\x01\\N\x01\x01\\N\n8\n";
    let found = table(text, &format!(",format=hive-text,{schema}")).await?;
    assert_eq!(
        found,
        [
            ["7", "[a, NULL, ]", "{k: 3, l: NULL}", "{x: 0.5, y: 2024-02-29}", "{tag: 1, field0: NULL, field1: z}"],
            ["NULL", "[]", "NULL", "{x: NULL, y: NULL}", "NULL"],
            ["8", "NULL", "NULL", "NULL", "NULL"],
        ]
    );
    Ok(())
}

#[tokio::test]
async fn statements_declare_columns_too() -> Result<()> {
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("t/dt=1/000000_0", b"1|2024-01-01 10:00:00.5|a:b|x,y\nz|\\N||\n")])?;
    let ctx = session(2);
    let location = dir.path().join("t").display().to_string();
    ctx.sql(&format!(
        "CREATE EXTERNAL TABLE t (n INT, at TIMESTAMP(6), s VARCHAR, l VARCHAR[]) STORED AS TEXTFILE PARTITIONED BY (dt) \
         LOCATION '{location}' OPTIONS ('field.delim' '|', 'colelction.delim' ',')"
    ))
    .await?;
    let found = texts(&ctx.sql("SELECT dt, l, s, at, n FROM t").await?.collect().await?)?;
    assert_eq!(found, [["1", "[x, y]", "a:b", "2024-01-01T10:00:00.500", "1"], ["1", "[]", "", "NULL", "NULL"]]);
    let twice =
        format!("CREATE EXTERNAL TABLE u (n INT) STORED AS TEXTFILE LOCATION '{location}' OPTIONS ('schema' 'n INT')");
    let message = chain(&ctx.sql(&twice).await.expect_err("twice"));
    assert!(message.contains("declared twice"), "{message}");
    let message =
        chain(&read(&format!("{location},delimiter=|,\"schema=n INT, dt STRING\"")).await.expect_err("in path"));
    assert!(message.ends_with("000000_0: column \"dt\" is both in the file and in its path"), "{message}");
    let unsigned =
        format!("CREATE EXTERNAL TABLE z (n INT UNSIGNED, b BIGINT UNSIGNED) STORED AS TEXTFILE LOCATION '{location}'");
    ctx.sql(&unsigned).await?;
    let message = chain(&ctx.sql("SELECT * FROM z").await?.collect().await.expect_err("no such type"));
    assert!(
        message.contains("000000_0: column \"b\" is declared as UInt64, which Hive text does not hold"),
        "{message}"
    );
    Ok(())
}

#[tokio::test]
async fn hive_text_reads_dialects() -> Result<()> {
    let schema = "schema=\"a string, b array<string>\"";
    for (text, options) in [
        (&b"x;y\x01p\x02q\n"[..], ""),
        (b"x;y\tp,q\r\n", "delimiter=\\t,collection_delimiter=\",\","),
        (b"x\\;y;p\\,q\r", "delimiter=;,escape=\\,collection_delimiter=|,"),
        (b"x;y\xfep\xeaq\n", "delimiter=\\xfe,collection_delimiter=\\352,"),
        (b"head\nx;y\x01p\x02q\nfoot\nfeet", "skip_header=1,skip_footer=2,"),
    ] {
        let found = table(text, &format!(",format=hive-text,{options}{schema}")).await?;
        let expected = if options.contains("escape") { "[p,q]" } else { "[p, q]" };
        assert_eq!(found, [["x;y", expected]], "{options}");
    }
    assert_eq!(table(b"NA\x01b\n", ",null=NA").await?, [["NULL", "b"]]);
    assert_eq!(table(b"\xcf\xf0\x01b\n", ",encoding=cp1251").await?, [["Пр", "b"]]);
    assert_eq!(refused(b"a\x01b\nc\x01\xe9\n", "").await, "000000_0: line 2, column \"_col1\": not UTF-8");
    Ok(())
}

#[tokio::test]
async fn cells_that_do_not_fit_are_null_or_errors() -> Result<()> {
    let schema = "schema=\"n TINYINT, v VARCHAR(2), m MAP<INT,STRING>\"";
    for (line, read, message) in [
        ("128\x01a\x01", ["NULL", "a", "{}"], "column \"n\": expected Int8, found \"128\""),
        ("1.5\x01a\x01", ["1", "a", "{}"], "column \"n\": expected Int8, found \"1.5\""),
        ("1\x01abc\x01", ["1", "ab", "{}"], "column \"v\": expected Utf8, found \"abc\""),
        ("1\x01a\x01x\x03y", ["1", "a", "{}"], "column \"m\": expected Int32, found \"x\""),
        ("1\x01a\x011\x03x\x021\x03y", ["1", "a", "{1: x}"], "column \"m\": the key \"1\" occurs twice in a map"),
        ("1\x01a\x011\x03x\x02+01\x03y", ["1", "a", "{1: x}"], "column \"m\": the key \"+01\" occurs twice in a map"),
        ("1\x01a", ["1", "a", "NULL"], "expected 3 cells, found 2"),
        ("1\x01a\x01\x01b", ["1", "a", "{}"], "expected 3 cells, found 4"),
    ] {
        let text = format!("\x01\\N\x01\n{line}\n");
        let options = format!(",format=hive-text,{schema}");
        assert_eq!(table(text.as_bytes(), &options).await?[1], read, "{line:?}");
        let found = refused(text.as_bytes(), &format!("{options},on_error=error")).await;
        assert_eq!(found, format!("000000_0: line 2: {message}"));
    }
    Ok(())
}

#[tokio::test]
async fn hive_text_reports_integers_that_no_double_represents() -> Result<()> {
    let options = ",format=hive-text,schema=x DOUBLE";
    assert_eq!(table(b"9007199254740993\n", options).await?, [["9007199254740992.0"]]);
    let message = refused(b"0.1\n9007199254740993\n", &format!("{options},on_error=error")).await;
    assert_eq!(message, "000000_0: line 2: column \"x\": expected Float64, found \"9007199254740993\"");
    Ok(())
}

#[tokio::test]
async fn hive_text_is_selected_by_options() -> Result<()> {
    assert_eq!(table(b"1,a\n", ",delimiter=\",\",schema=\"n INT, s STRING\"").await?, [["1", "a"]]);
    assert_eq!(table(b"n\x01s\n1\x01a\n", ",delimiter=\\x01,header=true").await?, [["1", "a"]]);
    let message = chain(&table(b"1\n", ",format=hive-text,schema=n FOO").await.expect_err("no type"));
    assert!(message.ends_with("expected a type at \"FOO\""), "{message}");
    Ok(())
}

#[tokio::test]
async fn hive_text_is_detected_in_any_compression_and_encoding() -> Result<()> {
    use async_compression::tokio::write::{BzEncoder, XzEncoder, ZstdEncoder};
    use tokio::io::AsyncWriteExt;
    macro_rules! packed {
        ($encoder:ident, $text:expr) => {{
            let mut encoder = $encoder::new(Vec::new());
            encoder.write_all($text.as_bytes()).await?;
            encoder.shutdown().await?;
            encoder.into_inner()
        }};
    }
    let hive: String = (0..50_000).map(|row| format!("{row}\x01é{}\n", row * 7919 % 1000)).collect();
    let csv = hive.replace('\x01', ",");
    for (packed, kind) in [
        (packed!(BzEncoder, hive), "_col0"),
        (packed!(XzEncoder, hive), "_col0"),
        (packed!(ZstdEncoder, hive), "_col0"),
        (packed!(BzEncoder, csv), "0"),
        (packed!(XzEncoder, csv), "0"),
        (packed!(ZstdEncoder, csv), "0"),
    ] {
        let dir = tempfile::tempdir()?;
        write(dir.path(), &[("000000_0", &packed)])?;
        let batches = read(&dir.path().join("000000_0").display().to_string()).await?;
        assert_eq!(batches[0].schema().field(0).name(), kind);
        assert_eq!(row_count(&batches), if kind == "0" { 49_999 } else { 50_000 });
    }
    // The second byte of this letter in UTF-16 is 0x01, the delimiter.
    let utf16: Vec<u8> = "a,b\nŁ,1\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(table(&utf16, ",encoding=utf-16").await?, [["Ł", "1"]]);
    Ok(())
}

#[tokio::test]
async fn compressed_and_in_parts() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let text: String = (0..5000).map(|row| format!("é{row}\x01{row}\r\n")).collect();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut encoder, text.as_bytes())?;
    write(dir.path(), &[("a/1", text.as_bytes()), ("b/1.gz", &encoder.finish()?)])?;
    for (folder, partitions) in [("a", 7), ("b", 1)] {
        let ctx = session(7);
        ctx.state_ref().write().config_mut().options_mut().optimizer.repartition_file_min_size = 1;
        let spec = format!("t={}/,\"schema=s string, n int\"", dir.path().join(folder).display()).parse()?;
        ctx.register_table("t", tfr_formats::open_table(&ctx.state(), &spec).await?)?;
        let frame = ctx.sql("SELECT count(DISTINCT s), sum(n), count(*) FROM t").await?;
        assert_eq!(texts(&frame.collect().await?)?, [["5000", "12497500", "5000"]]);
        let limited = ctx.sql("SELECT n FROM t LIMIT 3").await?.collect().await?;
        assert_eq!(row_count(&limited), 3);
        let plan = ctx.sql("SELECT * FROM t").await?.create_physical_plan().await?;
        let found = plan.properties().output_partitioning().partition_count();
        assert!(found >= partitions, "{folder}: {found} partitions");
    }
    Ok(())
}

#[tokio::test]
async fn a_line_of_separators_does_not_eat_the_memory() {
    let fields: Vec<_> = (0..100).map(|field| format!("f{field}:double")).collect();
    let schema = format!("schema=\"a ARRAY<STRUCT<{}>>\"", fields.join(","));
    let text = "\x02".repeat(4 << 20);
    let message = refused(text.as_bytes(), &format!(",format=hive-text,{schema}")).await;
    assert_eq!(message, "000000_0: line 1: column \"a\": the lines of a batch hold more than 67108864 values");
    let wide = "\x01".repeat(1 << 17);
    let message = refused(wide.as_bytes(), "").await;
    assert_eq!(message, "000000_0: line 1: the line has 131073 cells, and a table at most 65536 columns");
}

/// Options from a file's table declaration that the manifest lacks, or how to compare with its expectation.
const OPTIONS: &[(&str, &str)] = &[
    // NULL DEFINED AS ''
    ("hive/parquet_array_null_element.txt", "null="),
];

/// Files with times beyond 64-bit nanoseconds, read in microseconds: the digits cut off are not compared.
const IN_MICROSECONDS: &[&str] = &[
    "hive/avro_timestamp.txt",
    "hive/schema_evolution/complex_struct1_a.txt",
    "hive/schema_evolution/complex_struct2_a.txt",
    "hive/schema_evolution/complex_struct2_b.txt",
    "hive/timestamps.txt",
];

/// Files that differ from the expectation, and how.
const KNOWN: &[(&str, &str)] = &[
    // ORC files, which Hive reads as such among any other files.
    ("l3_clarity__l3_monthly_dw_factplan_datajoin_1_s2_2018022300104_1/000000_0", "the content is ORC"),
    ("l3_clarity__l3_monthly_dw_factplan_dw_stg_2018022300104_1/000000_0", "the content is ORC"),
    ("hive/bucket_pruning", "the content is ORC"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_file_of_the_corpus() -> Result<()> {
    let Some(corpus) = corpus() else { return Ok(()) };
    let mut outcomes = Vec::new();
    let (mut raw, mut typed) = (0, 0);
    for row in manifest(&corpus, "hive_text").await? {
        let (raw_file, typed_file) = match row["expected"].split_once(' ') {
            Some((raw, typed)) => (raw, Some(typed)),
            None => (row["expected"].as_str(), None),
        };
        // The cells unchanged.
        let mut options = dialect(&row, false);
        let expected = if raw_file.is_empty() { Vec::new() } else { expected(&corpus.join(raw_file)) };
        let by_byte = expected.iter().any(|row| row.to_string().contains("$b64"));
        options.push_str(if by_byte { ",encoding=latin1" } else { "" });
        let mut outcome = outcome(&corpus, &row, &options).await;
        if row["expect"] == "ok" && outcome.is_ok() {
            // These cells are not unescaped; ours have a value only after that.
            if typed_file.is_none() || !row["dialect"].contains("escape") {
                raw += 1;
                let cells: Vec<_> = expected.iter().map(|row| row["raw"].clone()).collect();
                outcome = compare(&corpus.join(&row["path"]), &options, &cells, by_byte).await;
            }
        }
        if let (Some(typed_file), Ok(_)) = (typed_file, &outcome) {
            typed += 1;
            let expected = self::expected(&corpus.join(typed_file));
            let by_byte =
                expected.iter().any(|row| row.to_string().contains("$b64")) && !row["columns"].contains("binary");
            let mut options = dialect(&row, true);
            options.push_str(if by_byte { ",encoding=latin1" } else { "" });
            outcome = compare(&corpus.join(&row["path"]), &options, &expected, by_byte).await;
        }
        outcomes.push((row["path"].clone(), outcome));
    }
    println!("cells compared in {raw} files, values in {typed}");
    assert_eq!(wrong(&outcomes, KNOWN), Vec::<String>::new());
    Ok(())
}

/// Files that are not UTF-8, and next to them the same in UTF-8, or the result of their table's declaration.
#[tokio::test]
async fn encodings_of_the_corpus() -> Result<()> {
    let Some(corpus) = corpus() else { return Ok(()) };
    let folder = corpus.join("hive_text/impala");
    let table = async |file: &str, options: &str| {
        texts(&read(&format!("\"{}\",format=hive-text{options}", folder.join(file).display())).await?)
    };
    for (file, encoding) in [("cp1251", "cp1251"), ("latin1", "latin1"), ("shift_jis", "cp932")] {
        let twin = table(&format!("charcodec/{file}_names_utf8.txt"), "").await?;
        let found = table(&format!("charcodec/{file}_names.txt"), &format!(",encoding={encoding}")).await?;
        assert_eq!(found, twin, "{file}");
    }
    let message =
        chain(&table("charcodec/shift_jis_names_error.txt", ",encoding=shift_jis").await.expect_err("broken"));
    assert!(message.contains("shift_jis_names_error.txt: after byte 0: not Shift_JIS"), "{message}");
    // FIELDS TERMINATED BY '-2' ESCAPED BY '-22'
    let found =
        table("data/text-thorn-ecirc-newline.txt", ",delimiter=-2,escape=-22").await.map_err(|error| chain(&error));
    let message = found.expect_err("a lone byte of a character");
    assert!(message.contains("line 2, column \"_col0\": not UTF-8"), "{message}");
    let commas = table("data/text-comma-backslash-newline.txt", ",delimiter=\",\",escape=\\").await?;
    let first: Vec<_> = commas.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(first, ["one", "one,one", "one\\", "one\\,one", "one\\\\"]);
    Ok(())
}

/// Folders are tables with all their rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_folder_of_the_corpus() -> Result<()> {
    let Some(corpus) = corpus() else { return Ok(()) };
    let text = std::fs::read_to_string(corpus.join("DATASETS.json"))?;
    let datasets: Vec<Value> = serde_json::from_str(&text).expect("DATASETS.json is JSON");
    let mut outcomes = Vec::new();
    for dataset in datasets.iter().filter(|dataset| dataset["kind"] == "hive_text") {
        let folder = dataset["folder"].as_str().unwrap_or_default();
        let expected = dataset["rows"].as_u64().unwrap_or_default();
        let outcome = match read(&format!("\"{}\",format=hive-text", corpus.join(folder).display())).await {
            Ok(batches) if row_count(&batches) as u64 == expected => Ok("read".to_owned()),
            Ok(batches) => Err(format!("{} rows, expected {expected}", row_count(&batches))),
            Err(error) => Err(chain(&error)),
        };
        outcomes.push((folder.to_owned(), outcome));
    }
    assert_eq!(wrong(&outcomes, KNOWN), Vec::<String>::new());
    Ok(())
}

fn expected(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("expectations are JSON")).collect()
}

/// Returns the options for the dialect that the manifest specifies as JSON, with or without the columns.
fn dialect(row: &BTreeMap<String, String>, typed: bool) -> String {
    let text = Some(row["dialect"].as_str()).filter(|text| !text.is_empty()).unwrap_or("{}");
    let dialect: BTreeMap<String, Value> = serde_json::from_str(text).expect("the dialect is JSON");
    let mut options = ",format=hive-text".to_owned();
    let mut push = |key: &str, value: &str| {
        options.push_str(&format!(",{key}=\"{}\"", value.replace('"', "\"\"")));
    };
    if let Some(delimiter) = dialect.get("field").and_then(Value::as_str) {
        push("delimiter", delimiter);
    }
    if !typed {
        push("null", "no cell is this");
        return options;
    }
    for (key, option) in [
        ("coll", "collection_delimiter"),
        ("map", "map_key_delimiter"),
        ("escape", "escape"),
        ("header", "skip_header"),
        ("footer", "skip_footer"),
    ] {
        match dialect.get(key) {
            Some(Value::String(text)) => push(option, text),
            Some(number) => push(option, &number.to_string()),
            None => {}
        }
    }
    let unit =
        if IN_MICROSECONDS.iter().any(|path| row["path"].ends_with(path)) { "timestamp(6)" } else { "timestamp(9)" };
    push(
        "schema",
        &row["columns"]
            .replace("; ", ", ")
            .replace(": timestamp", &format!(": {unit}"))
            .replace("<timestamp", &format!("<{unit}"))
            .replace("timestamp>", &format!("{unit}>"))
            .replace(":timestamp", &format!(":{unit}")),
    );
    for (path, more) in OPTIONS {
        if row["path"].ends_with(path) {
            options.push_str(&format!(",{more}"));
        }
    }
    options
}

/// Reads a file and compares its first rows, each an array of cells or an object of columns.
async fn compare(path: &Path, options: &str, expected: &[Value], by_byte: bool) -> Result<String, String> {
    let batches = read(&format!("\"{}\"{options}", path.display())).await.map_err(|error| chain(&error))?;
    let mut expected = expected.iter();
    for batch in &batches {
        for row in 0..batch.num_rows() {
            let Some(expected) = expected.next() else { return Ok("ok: read".to_owned()) };
            for (index, column) in batch.columns().iter().enumerate() {
                let name = batch.schema_ref().field(index).name();
                let expected = match expected {
                    Value::Array(cells) => cells.get(index).unwrap_or(&Value::Null),
                    columns => &columns[name.as_str()],
                };
                if !is(column, row, expected, by_byte) {
                    let found = array_value_to_string(column, row).unwrap_or_default();
                    return Err(format!("row {row}, column {name}: {found:?}, expected {expected}"));
                }
            }
        }
    }
    match expected.next() {
        None => Ok("ok: read".to_owned()),
        Some(expected) => Err(format!("there is no row {expected}")),
    }
}

/// Whether a value matches the expectation.
fn is(array: &ArrayRef, row: usize, expected: &Value, by_byte: bool) -> bool {
    if expected.get("$unsure").is_some() {
        return true;
    }
    if array.is_null(row) || expected.is_null() {
        return array.is_null(row) && expected.is_null();
    }
    let bytes = |expected: &Value| match expected {
        Value::String(text) => text.clone().into_bytes(),
        other => STANDARD.decode(other["$b64"].as_str().unwrap_or("?")).expect("base64"),
    };
    let float = |expected: &Value| expected.as_f64().or_else(|| expected.as_str()?.parse().ok());
    let is_float =
        |found: f64| float(expected).is_some_and(|expected| found == expected || (found.is_nan() && expected.is_nan()));
    let each = |items: &ArrayRef| {
        let expected = expected.as_array().map_or(&[][..], Vec::as_slice);
        items.len() == expected.len()
            && expected.iter().enumerate().all(|(row, expected)| is(items, row, expected, by_byte))
    };
    match array.data_type() {
        DataType::Boolean => Some(array.as_boolean().value(row)) == expected.as_bool(),
        DataType::Int8 => Some(array.as_primitive::<Int8Type>().value(row).into()) == expected.as_i64(),
        DataType::Int16 => Some(array.as_primitive::<Int16Type>().value(row).into()) == expected.as_i64(),
        DataType::Int32 => Some(array.as_primitive::<Int32Type>().value(row).into()) == expected.as_i64(),
        DataType::Int64 => Some(array.as_primitive::<Int64Type>().value(row)) == expected.as_i64(),
        DataType::Float32 => is_float(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => is_float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal128(..) => {
            Some(array.as_primitive::<Decimal128Type>().value_as_string(row).as_str()) == expected.as_str()
        }
        DataType::Utf8 if by_byte => {
            let found = array.as_string::<i32>().value(row).chars().map(|c| u8::try_from(c).expect("Latin-1"));
            found.collect::<Vec<_>>() == bytes(expected)
        }
        DataType::Utf8 => Some(array.as_string::<i32>().value(row)) == expected.as_str(),
        DataType::Binary => array.as_binary::<i32>().value(row) == bytes(expected),
        DataType::Date32 => array_value_to_string(array, row).ok().as_deref() == expected.as_str(),
        DataType::Timestamp(unit, _) => {
            let digits = if *unit == datafusion::arrow::datatypes::TimeUnit::Microsecond { 26 } else { 29 };
            let shortened = |text: &str| {
                let text = text.replace('T', " ");
                let text = &text[..text.len().min(digits)];
                if text.contains('.') {
                    text.trim_end_matches('0').trim_end_matches('.').to_owned()
                } else {
                    text.to_owned()
                }
            };
            array_value_to_string(array, row)
                .is_ok_and(|found| expected.as_str().map(shortened) == Some(shortened(&found)))
        }
        DataType::List(_) => each(&array.as_list::<i32>().value(row)),
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let expected = expected.as_array().map_or(&[][..], Vec::as_slice);
            entries.len() == expected.len()
                && expected.iter().enumerate().all(|(row, pair)| {
                    is(entries.column(0), row, &pair[0], by_byte) && is(entries.column(1), row, &pair[1], by_byte)
                })
        }
        DataType::Struct(fields) => {
            let parts = array.as_struct().columns();
            match expected["tag"].as_i64().and_then(|tag| usize::try_from(tag).ok()) {
                Some(tag) => {
                    is(&parts[0], row, &expected["tag"], by_byte)
                        && is(&parts[tag + 1], row, &expected["value"], by_byte)
                }
                None => fields
                    .iter()
                    .zip(parts)
                    .all(|(field, part)| is(part, row, &expected[field.name().as_str()], by_byte)),
            }
        }
        other => panic!("no comparison for {other}"),
    }
}
