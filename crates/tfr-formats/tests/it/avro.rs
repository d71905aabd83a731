//! Avro object container files.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::error::{DataFusionError, Result};
use serde_json::{Value, json};

use crate::corpus::{corpus, manifest, outcome, wrong};
use crate::support::{chain, read, row_count, rows, session, texts, write};
use crate::values::{first_difference, lines, members, objects};

const SYNC: [u8; 16] = *b"0123456789abcdef";

fn long(value: i64) -> Vec<u8> {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    let mut bytes = Vec::new();
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

pub fn string(value: &[u8]) -> Vec<u8> {
    [long(value.len() as i64), value.to_vec()].concat()
}

/// Builds a file with this schema and these blocks, each a number of records and their bytes.
pub fn file(schema: &Value, blocks: &[(i64, Vec<u8>)]) -> Vec<u8> {
    let mut file = b"Obj\x01".to_vec();
    file.extend([long(1), string(b"avro.schema"), string(schema.to_string().as_bytes()), long(0)].concat());
    file.extend(SYNC);
    for (records, data) in blocks {
        file.extend([long(*records), string(data), SYNC.to_vec()].concat());
    }
    file
}

fn record(fields: Value) -> Value {
    json!({ "type": "record", "name": "r", "fields": fields })
}

async fn table(content: &[u8]) -> Result<(Vec<DataType>, Vec<Vec<String>>)> {
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("t.avro", content)])?;
    let batches = read(&dir.path().join("t.avro").display().to_string()).await?;
    let types =
        batches.first().map(|batch| batch.schema().fields().iter().map(|field| field.data_type().clone()).collect());
    Ok((types.unwrap_or_default(), texts(&batches)?))
}

async fn refused(content: &[u8]) -> String {
    let dir = tempfile::tempdir().expect("a scratch directory");
    write(dir.path(), &[("t.avro", content)]).expect("a file");
    let error = read(&dir.path().join("t.avro").display().to_string()).await.expect_err("refused");
    chain(&error).replace(&format!("{}/", dir.path().display()), "").replace("External error: ", "")
}

#[tokio::test]
async fn avro_unions_are_read() -> Result<()> {
    let schema = record(json!([
        {"name": "n", "type": ["null", "int", "long"]},
        {"name": "f", "type": ["int", "float", "double", "null"]},
        {"name": "u", "type": ["string", "boolean", "null"]},
        {"name": "e", "type": ["null", {"type": "enum", "name": "e", "symbols": ["a", "b"]}]},
        {"name": "z", "type": ["null"]},
    ]));
    let first =
        [long(1), long(-7), long(2), 0.5_f64.to_le_bytes().to_vec(), long(0), string(b"x"), long(1), long(1), long(0)];
    let second = [long(0), long(0), long(-2), long(2), long(0), long(0)];
    let (types, found) = table(&file(&schema, &[(1, first.concat()), (1, second.concat())])).await?;
    assert_eq!(types[..2], [DataType::Int64, DataType::Float64]);
    assert_eq!(types[3], DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)));
    let expected = [["-7", "0.5", "{string=x}", "b", "NULL"], ["NULL", "-2.0", "{null=NULL}", "NULL", "NULL"]];
    assert_eq!(found, expected);
    Ok(())
}

#[tokio::test]
async fn logical_types() -> Result<()> {
    let schema = record(json!([
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "there", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}},
        {"name": "huge", "type": {"type": "fixed", "name": "h", "size": 20, "logicalType": "decimal", "precision": 40}},
        {"name": "span", "type": {"type": "fixed", "name": "d", "size": 12, "logicalType": "duration"}},
    ]));
    let huge = [vec![0xff; 19], vec![0xfe]].concat();
    let span: Vec<u8> = [1_u32, 2, 3].iter().flat_map(|part| part.to_le_bytes()).collect();
    let data = [long(1), long(1), long(1), long(2), string(&[0xff, 0x85]), huge, span].concat();
    let (types, found) = table(&file(&schema, &[(1, data)])).await?;
    let expected = [
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Decimal128(5, 2),
        DataType::Decimal256(40, 0),
    ];
    assert_eq!(types[..5], expected);
    let texts = [
        "1970-01-02",
        "1970-01-01T00:00:00.001Z",
        "1970-01-01T00:00:00.000002",
        "-1.23",
        "-2",
        "1 mons 2 days 0.003000000 secs",
    ];
    assert_eq!(found, [texts]);
    let price = record(json!([{"name": "p", "type": {"type": "bytes", "logicalType": "decimal", "precision": 2}}]));
    let message = refused(&file(&price, &[(1, string(&[100]))])).await;
    assert!(message.contains("t.avro: record 0 of the block at byte"), "{message}");
    assert!(message.ends_with("column \"p\": a decimal with more than 2 digits"), "{message}");
    Ok(())
}

/// BigQuery's BIGNUMERIC: its values have up to 77 digits, of which 38 are behind the point.
#[tokio::test]
async fn decimals_of_more_digits_than_arrow_has() -> Result<()> {
    let column = |logical: Value| record(json!([{"name": "n", "type": logical}]));
    let bytes = json!({"type": "bytes", "logicalType": "decimal", "precision": 77, "scale": 38});
    let one = 10_i128.pow(38).to_be_bytes();
    let minus = (-15_i128 * 10_i128.pow(36)).to_be_bytes();
    let data = [string(&one), string(&minus), string(&[1])].concat();
    let (types, found) = table(&file(&column(bytes.clone()), &[(3, data)])).await?;
    assert_eq!(types, [DataType::Decimal256(76, 38)]);
    let [zeros, fraction] = ["0".repeat(38), format!("-0.15{}", "0".repeat(36))];
    assert_eq!(found, [[format!("1.{zeros}")], [fraction], [format!("0.{}1", "0".repeat(37))]]);
    // The greatest number of 32 bytes has 77 digits.
    let most = [vec![0x7f], vec![0xff; 31]].concat();
    let message = refused(&file(&column(bytes), &[(1, string(&most))])).await;
    assert!(message.ends_with("column \"n\": a decimal with more than 76 digits"), "{message}");
    let fine = json!({"type": "bytes", "logicalType": "decimal", "precision": 100, "scale": 80});
    let message = refused(&file(&column(fine), &[(1, string(&[1]))])).await;
    assert!(message.contains("a decimal with 80 digits behind the point, more than the 76 digits"), "{message}");
    Ok(())
}

#[tokio::test]
async fn avro_reads_values_that_are_not_records() -> Result<()> {
    let content = file(&json!(["null", "string"]), &[(3, [long(0), long(1), string(b"x"), long(0)].concat())]);
    assert_eq!(table(&content).await?.1, [["NULL"], ["x"], ["NULL"]]);
    Ok(())
}

#[tokio::test]
async fn a_field_of_a_record_that_is_null_is_null() -> Result<()> {
    let inner = json!({"type": "record", "name": "inner", "fields": [{"name": "t", "type": "long"}]});
    let outer = json!({"type": "record", "name": "outer", "fields": [{"name": "s", "type": ["null", inner]}]});
    let schema = record(json!([{"name": "o", "type": ["null", outer]}]));
    let data = [long(0), [long(1), long(0)].concat(), [long(1), long(1), long(3)].concat()].concat();
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("t.avro", &file(&schema, &[(3, data)]))])?;
    let path = dir.path().join("t.avro").display().to_string();
    let found = rows(&format!("SELECT o['s']['t'] AS t, o['s']['t'] IS NULL AS n FROM '{path}'")).await?;
    assert_eq!(found, [["NULL", "true"], ["NULL", "true"], ["3", "false"]]);
    Ok(())
}

/// The engine converts values of the other types to null, which a column without nulls must not contain.
#[tokio::test]
async fn avro_union_cast_rejects_loss() -> Result<()> {
    let schema = record(json!([{"name": "x", "type": ["long", "double"]}]));
    let data = [long(0), long((1 << 53) + 1), long(1), 0.5_f64.to_le_bytes().to_vec()].concat();
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("t.avro", &file(&schema, &[(2, data)]))])?;
    let path = dir.path().join("t.avro").display().to_string();
    let message = chain(&rows(&format!("SELECT CAST(x AS DOUBLE) FROM '{path}'")).await.expect_err("a union"));
    // The words by which the command recognizes the error for its hint.
    assert!(message.contains("is declared as non-nullable but contains null values"), "{message}");
    let found = rows(&format!("SELECT union_extract(x, 'long'), union_extract(x, 'double') FROM '{path}'")).await?;
    assert_eq!(found, [["9007199254740993", "NULL"], ["NULL", "0.5"]]);
    Ok(())
}

#[tokio::test]
async fn avro_fixed_of_size_zero_is_binary() -> Result<()> {
    let none = json!({"type": "fixed", "name": "none", "size": 0});
    let schema = record(
        json!([{"name": "f", "type": none}, {"name": "n", "type": ["null", "none"]}, {"name": "i", "type": "int"}]),
    );
    let (types, found) = table(&file(&schema, &[(2, [long(1), long(7), long(0), long(8)].concat())])).await?;
    assert_eq!(types[..2], [DataType::Binary, DataType::Binary]);
    assert_eq!(found, [["", "", "7"], ["", "NULL", "8"]]);
    Ok(())
}

#[tokio::test]
async fn avro_names_are_resolved_in_their_namespace() -> Result<()> {
    let schema = json!({"type": "record", "name": "r", "namespace": "a.b", "fields": [
        {"name": "x", "type": {"type": "record", "name": "c.Point", "fields": [
            {"name": "p", "type": {"type": "fixed", "name": "Two", "size": 2}}]}},
        {"name": "y", "type": "c.Point"},
        {"name": "z", "type": "c.Two"},
    ]});
    let (_, found) = table(&file(&schema, &[(1, vec![1, 2, 3, 4, 5, 6])])).await?;
    assert_eq!(found, [["{p: 0102}", "{p: 0304}", "0506"]]);
    Ok(())
}

#[tokio::test]
async fn avro_rejects_damaged_and_hostile_files() {
    let plain =
        record(json!([{"name": "s", "type": "string"}, {"name": "n", "type": {"type": "array", "items": "null"}}]));
    let sound = file(&plain, &[(1, [string(b"x"), long(0)].concat())]);
    let mut other_sync = sound.clone();
    if let Some(last) = other_sync.last_mut() {
        *last ^= 1;
    }
    let itself = record(json!([{"name": "next", "type": ["null", "r"]}]));
    let mut doubled = json!("int");
    for level in 0..40 {
        doubled = json!({"type": "record", "name": format!("r{level}"), "fields": [
            {"name": "a", "type": doubled}, {"name": "b", "type": if level == 0 { json!("int") } else { json!(format!("r{}", level - 1)) }}]});
    }
    let twice = record(json!([{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]));
    for (content, message) in [
        (sound[..sound.len() - 1].to_vec(), "it is cut off: 16 bytes should follow, but 15 do"),
        (other_sync, "the sync marker behind a block is not that of the file"),
        (
            file(&plain, &[(1, [string(b"x"), long(1 << 60)].concat())]),
            "column \"n\": 1152921504606846976 elements in 0 bytes",
        ),
        (
            file(&plain, &[(1 << 60, [string(b"x"), long(0)].concat())]),
            "a block of 1152921504606846976 records in 3 bytes",
        ),
        (file(&plain, &[(1, long(1 << 60))]), "column \"s\": 1152921504606846976 bytes should follow, but 0 do"),
        (file(&plain, &[(1, [string(&[0xff]), long(0)].concat())]), "column \"s\": a string that is not UTF-8"),
        (file(&plain, &[(1, [string(b"x"), long(0), long(0)].concat())]), "1 bytes behind the records of a block"),
        (file(&itself, &[]), "the record \"r\", which contains itself"),
        (file(&doubled, &[]), "more than 100000 columns"),
        (
            file(&json!({"type": "fixed", "name": "f"}), &[]),
            "the schema in its header cannot be used: it has a fixed without a size",
        ),
        (file(&twice, &[]), "two fields named \"a\" in the record \"r\""),
        (file(&json!("int"), &[(1, vec![0xff; 10])]), "column \"value\": a number of more than 64 bits"),
    ] {
        let found = refused(&content).await;
        assert!(found.starts_with("t.avro: ") && found.contains(message), "{message}: {found}");
    }
}

/// Every byte of a small file is overwritten in turn, and the file is truncated everywhere: an error or a table, and no
/// panic.
#[tokio::test]
async fn damage_is_an_error_that_names_the_file() -> Result<()> {
    let schema = record(json!([
        {"name": "s", "type": ["null", "string"]},
        {"name": "u", "type": ["int", "boolean"]},
        {"name": "l", "type": {"type": "array", "items": {"type": "map", "values": "double"}}},
        {"name": "e", "type": {"type": "enum", "name": "e", "symbols": ["a", "b"]}},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4}},
    ]));
    let map = [long(1), string(b"k"), 0.5_f64.to_le_bytes().to_vec(), long(0)].concat();
    let row = [long(1), string(b"x"), long(1), vec![1], long(1), map, long(0), long(1), string(&[1])].concat();
    let whole = file(&schema, &[(2, [row.clone(), row].concat())]);
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t.avro");
    let cut = (1..whole.len()).map(|len| whole[..len].to_vec());
    let overwritten = (4..whole.len()).flat_map(|at| [0xff, 0x7f, 0x01].map(|byte| (at, byte))).map(|(at, byte)| {
        let mut damaged = whole.clone();
        damaged[at] = byte;
        damaged
    });
    for damaged in cut.chain(overwritten) {
        std::fs::write(&path, &damaged)?;
        if let Err(error) = read(&format!("{},format=avro", path.display())).await {
            let message = chain(&error);
            assert!(message.contains("t.avro") && !message.contains("the reader failed"), "{message}");
        }
    }
    Ok(())
}

/// However a file is split into parts, each block is read by exactly one.
#[tokio::test]
async fn a_file_is_read_in_parts_by_its_blocks() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let blocks: Vec<_> = (0..20).map(|n| (2, [long(n * 2), long(n * 2 + 1)].concat())).collect();
    let content = file(&record(json!([{"name": "n", "type": "long"}])), &blocks);
    write(dir.path(), &[("t.avro", &content)])?;
    for partitions in 2..60 {
        let ctx = session(partitions);
        ctx.state_ref().write().config_mut().options_mut().optimizer.repartition_file_min_size = 1;
        let sum = format!("SELECT sum(n), count(*) FROM '{}'", dir.path().join("t.avro").display());
        assert_eq!(texts(&ctx.sql(&sum).await?.collect().await?)?, [["780", "40"]], "{partitions}");
    }
    Ok(())
}

#[tokio::test]
async fn columns_by_name_over_files() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let old =
        record(json!([{"name": "a", "type": "int"}, {"name": "skipped", "type": {"type": "map", "values": "bytes"}}]));
    let new = record(json!([{"name": "b", "type": "string"}, {"name": "a", "type": ["null", "int"]}]));
    let map = [long(-1), long(6), string(b"k"), string(b"v"), long(0)].concat();
    let files = [
        ("1.avro", file(&old, &[(2, [long(1), map.clone(), long(2), map].concat())])),
        ("2.avro", file(&new, &[(1, [string(b"x"), long(1), long(3)].concat())])),
    ];
    write(dir.path(), &files.each_ref().map(|(name, content)| (*name, content.as_slice())))?;
    let found = rows(&format!("SELECT b, a FROM '{}' ORDER BY a", dir.path().display())).await?;
    assert_eq!(found, [["NULL", "1"], ["NULL", "2"], ["x", "3"]]);
    let ctx = session(1);
    let declare = format!("CREATE EXTERNAL TABLE t (a BIGINT) STORED AS AVRO LOCATION '{}'", dir.path().display());
    ctx.sql(&declare).await?;
    let found = ctx.sql("SELECT sum(a), count(*) FROM t").await?.collect().await?;
    assert_eq!(texts(&found)?, [["6", "3"]]);
    Ok(())
}

/// Whether a value matches the corpus, which does not apply logical types.
fn same(found: &Value, expected: &Value) -> bool {
    let unscaled = || {
        let (Value::String(text), Some(Value::String(encoded))) = (found, expected.get("$b64")) else { return false };
        let bytes = STANDARD.decode(encoded).expect("expectations are base64");
        let digits: String = text.chars().filter(|c| *c != '.').collect();
        let number = |bytes: &[u8]| {
            let fill = if bytes.first().is_some_and(|byte| *byte >= 0x80) { 0xff } else { 0 };
            let mut wide = [fill; 32];
            wide[32_usize.saturating_sub(bytes.len())..].copy_from_slice(&bytes[bytes.len().saturating_sub(32)..]);
            datafusion::arrow::datatypes::i256::from_be_bytes(wide)
        };
        digits.parse::<datafusion::arrow::datatypes::i256>().ok() == Some(number(&bytes))
    };
    match (found, expected) {
        (Value::Number(found), Value::Number(expected)) => {
            found == expected || found.is_f64() && found.as_f64() == expected.as_f64()
        }
        // A duration: three 32-bit numbers.
        (Value::Array(parts), Value::Object(bytes)) if bytes.contains_key("$b64") => {
            let encoded = bytes["$b64"].as_str().unwrap_or_default();
            let bytes = STANDARD.decode(encoded).expect("expectations are base64");
            let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
            json!(parts) == json!([number(0), number(4), u64::from(number(8)) * 1_000_000])
        }
        (found, Value::Object(bytes)) if bytes.contains_key("$b64") => found == expected || unscaled(),
        (found, Value::Object(_)) => match (members(found), members(expected)) {
            (Some(found), Some(expected)) => {
                found.len() == expected.len()
                    && found
                        .iter()
                        .zip(&expected)
                        .all(|((name, found), (key, value))| name == key && same(found, value))
            }
            _ => false,
        },
        (Value::Array(found), Value::Array(expected)) => {
            found.len() == expected.len() && found.iter().zip(expected).all(|(found, expected)| same(found, expected))
        }
        (found, expected) => found == expected,
    }
}

/// Files whose outcome differs from the corpus, and why.
const KNOWN: &[(&str, &str)] = &[
    // The expectation has the days of the hybrid calendar as stored. Ours are the days that the writer meant, as in
    // Spark.
    (
        "spark/before_1582_timestamp_micros_v2_4_6.avro",
        r#"row 0: {"dt":-30578655476876544}, expected {"dt":-30578137076876544}"#,
    ),
    (
        "spark/before_1582_timestamp_millis_v2_4_6.avro",
        r#"row 0: {"dt":-30578655476877}, expected {"dt":-30578137076877}"#,
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_avro_file() -> Result<()> {
    let Some(corpus) = corpus() else { return Ok(()) };
    let mut outcomes = Vec::new();
    for row in manifest(&corpus, "avro").await? {
        let mut outcome = outcome(&corpus, &row, "").await;
        if !row["expected"].is_empty() && outcome.as_ref().is_ok_and(|outcome| outcome.ends_with("read")) {
            let batches = read(&format!("\"{}\"", corpus.join(&row["path"]).display())).await?;
            let expected = lines(&corpus.join(&row["expected"]));
            let mut found = objects(&batches);
            if row["columns"].starts_with("(not a record)") {
                found.iter_mut().for_each(|row| *row = row["value"].take());
            }
            outcome = first_difference(&found, &expected, same).and(outcome);
            assert_eq!(row_count(&batches).to_string(), row["rows"], "{}", row["path"]);
        }
        outcomes.push((row["path"].clone(), outcome));
    }
    assert_eq!(wrong(&outcomes, KNOWN), Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn corpus_folders_have_all_their_rows() -> Result<()> {
    let Some(corpus) = corpus() else { return Ok(()) };
    let text = std::fs::read_to_string(corpus.join("DATASETS.json"))?;
    let datasets: Vec<Value> = serde_json::from_str(&text).expect("DATASETS.json is JSON");
    for dataset in
        datasets.iter().filter(|dataset| matches!(dataset["kind"].as_str(), Some("avro" | "json" | "arrow_ipc")))
    {
        let folder = dataset["folder"].as_str().unwrap_or_default();
        let mut expected = dataset["rows"].as_u64().unwrap_or_default();
        // One pretty-printed object per file, which counts as `either`.
        if folder.ends_with("18301") {
            expected = 5;
        }
        let batches = read(&format!("\"{}\"", corpus.join(folder).display())).await?;
        assert_eq!(row_count(&batches) as u64, expected, "{folder}");
    }
    Ok(())
}

/// Files from before and after a schema change.
async fn versions(files: &[(Value, Vec<u8>)], query: &str) -> Result<Vec<Vec<String>>> {
    let dir = tempfile::tempdir()?;
    for (index, (schema, data)) in files.iter().enumerate() {
        write(dir.path(), &[(&format!("{index}.avro"), &file(schema, &[(1, data.clone())]))])?;
    }
    let query = query.replace("$t", &format!("'{}'", dir.path().display()));
    texts(&session(1).sql(&query).await?.collect().await?)
}

#[tokio::test]
async fn types_are_promoted_between_files() -> Result<()> {
    let of = |data_type: &str| record(json!([{"name": "x", "type": data_type}]));
    let (float, double) = (0.1_f32.to_le_bytes().to_vec(), 2.5_f64.to_le_bytes().to_vec());
    for (files, data_type, expected) in [
        (vec![(of("int"), long(-3)), (of("long"), long(1 << 40))], "Int64", ["-3", "1099511627776"]),
        (vec![(of("double"), double.clone()), (of("int"), long(7))], "Float64", ["2.5", "7.0"]),
        (vec![(of("long"), long(1 << 53)), (of("double"), double)], "Float64", ["9007199254740992.0", "2.5"]),
        (vec![(of("int"), long(16_777_217)), (of("float"), float)], "Float64", ["16777217.0", "0.10000000149011612"]),
        (vec![(of("string"), string("é".as_bytes())), (of("bytes"), string(b"\xff"))], "Binary", ["c3a9", "ff"]),
    ] {
        let found = versions(&files, "SELECT arrow_typeof(x), x FROM $t").await?;
        assert_eq!(found, [[data_type, expected[0]], [data_type, expected[1]]]);
    }
    // The nearest double is another number.
    let files = [(of("long"), long((1 << 53) + 1)), (of("double"), vec![0; 8])];
    let message = chain(&versions(&files, "SELECT x FROM $t").await.expect_err("inexact"));
    assert!(
        message.contains("0.avro: row 0: column \"x\": the Int64 value 9007199254740993 is not exact as Float64"),
        "{message}"
    );
    let files = [(of("long"), long(1)), (of("string"), string(b"a"))];
    let message = chain(&versions(&files, "SELECT x FROM $t").await.expect_err("no common type"));
    assert!(message.contains("1.avro: column \"x\": found Utf8, but"), "{message}");
    Ok(())
}

#[tokio::test]
async fn avro_promotion_error_names_the_row() -> Result<()> {
    let of = |data_type: &str| record(json!([{"name": "x", "type": data_type}]));
    let block = |from: i64| (1000, (from..from + 1000).flat_map(long).collect::<Vec<_>>());
    let blocks: Vec<_> = (0..20).map(|index| block(index * 1000)).collect();
    let last = (2, [long(0), long((1 << 53) + 1)].concat());
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("0.avro", &file(&of("long"), &[blocks, vec![last]].concat()))])?;
    write(dir.path(), &[("1.avro", &file(&of("double"), &[]))])?;
    let path = dir.path().display().to_string();
    let error = read(&path).await.expect_err("inexact");
    let message = chain(&error);
    assert!(
        message.contains("0.avro: row 20001: column \"x\": the Int64 value 9007199254740993 is not exact as Float64"),
        "{message}"
    );
    let DataFusionError::External(error) = error.find_root() else { panic!("{error:?}") };
    let kind = error.downcast_ref::<tfr_formats::Error>().map(tfr_formats::Error::kind);
    assert!(matches!(kind, Some(tfr_formats::ErrorKind::Unfit { .. })), "{kind:?}");
    Ok(())
}

#[tokio::test]
async fn avro_record_fields_may_be_added_removed_and_reordered() -> Result<()> {
    let list = |fields: Value| {
        let item = json!({"type": "record", "name": "i", "fields": fields});
        record(json!([{"name": "l", "type": {"type": "array", "items": item}}]))
    };
    let old = list(json!([{"name": "a", "type": "int"}, {"name": "b", "type": "string"}]));
    let new = list(json!([{"name": "c", "type": "boolean"}, {"name": "a", "type": "long"}]));
    let files = [
        (old, [long(2), long(1), string(b"x"), long(2), string(b"y"), long(0)].concat()),
        (new, [long(1), vec![1], long(1 << 40), long(0)].concat()),
    ];
    let found = versions(&files, "SELECT l['a'], l['b'], l['c'] FROM (SELECT unnest(l) AS l FROM $t)").await?;
    assert_eq!(found, [["1", "x", "NULL"], ["2", "y", "NULL"], ["1099511627776", "NULL", "true"]]);
    Ok(())
}
