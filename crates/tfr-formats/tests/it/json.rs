//! JSON in every layout.

use std::io::Write;

use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::error::Result;
use proptest::prelude::*;
use serde_json::{Map, Value};

use crate::corpus::{corpus, manifest, outcome, wrong};
use crate::support::{chain, read, row_count, rows, session, texts, write};
use crate::values::{first_difference, lines, members, objects};

/// Writes `content` as `name` and reads it with `options`; returns the columns and the rows.
async fn table(name: &str, content: &[u8], options: &str) -> Result<(Vec<(String, DataType)>, Vec<Vec<String>>)> {
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[(name, content)])?;
    let batches = read(&format!("\"{}\"{options}", dir.path().join(name).display())).await?;
    let columns = batches.first().map(|batch| {
        batch.schema().fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
    });
    Ok((columns.unwrap_or_default(), texts(&batches)?))
}

/// Returns the error's message, without the scratch directory.
async fn refused(content: &str, options: &str) -> String {
    let dir = tempfile::tempdir().expect("a scratch directory");
    write(dir.path(), &[("t.json", content.as_bytes())]).expect("a file");
    let path = dir.path().join("t.json");
    let error = read(&format!("{}{options}", path.display())).await.expect_err("refused");
    chain(&error).replace(&format!("{}/", dir.path().display()), "").replace("External error: ", "")
}

#[tokio::test]
async fn json_inferred_types_represent_every_value() -> Result<()> {
    let text = br#"{"i": 1, "f": 1, "b": true, "t": "x", "big": 1, "n": null, "o": {"k": 1}, "l": [], "m": 1, "e": {}}
        {"i": -2, "f": 2.5, "b": null, "t": "\u00e9\n", "big": 18446744073709551616, "o": {"k": null, "z": "q"}, "l": [1], "m": {"a": [true, null]}, "e": {}}"#;
    let (columns, found) = table("t.json", text, "").await?;
    let fields = [Field::new("k", DataType::Int64, true), Field::new("z", DataType::Utf8, true)];
    let expected = [
        ("i", DataType::Int64),
        ("f", DataType::Float64),
        ("b", DataType::Boolean),
        ("t", DataType::Utf8),
        ("big", DataType::Utf8),
        ("n", DataType::Utf8),
        ("o", DataType::Struct(fields.into_iter().collect())),
        ("l", DataType::new_list(DataType::Int64, true)),
        ("m", DataType::Utf8),
        ("e", DataType::Utf8),
    ];
    assert_eq!(columns, expected.map(|(name, data_type)| (name.to_owned(), data_type)));
    assert_eq!(found[0], ["1", "1.0", "true", "x", "1", "NULL", "{k: 1, z: NULL}", "[]", "1", "{}"]);
    let second = [
        "-2",
        "2.5",
        "NULL",
        "é\n",
        "18446744073709551616",
        "NULL",
        "{k: NULL, z: q}",
        "[1]",
        "{\"a\":[true,null]}",
        "{}",
    ];
    assert_eq!(found[1], second);
    Ok(())
}

#[tokio::test]
async fn json_reads_lines_arrays_and_pretty_printed_objects() -> Result<()> {
    let pretty = "{\n  \"a\": 1,\n  \"b\": [\n    \"x\"\n  ]\n}\n{\"a\": 2,\n\"b\": []}";
    let array = "\u{feff}[{\"a\": 1, \"b\": [\"x\"]},\r\n {\"a\": 2, \"b\": []}]\r\n";
    let lines = "\r\n{\"a\":1,\"b\":[\"x\"]}\r\n\r\n  {\"a\":2,\"b\":[]}";
    let behind = "{\"a\":1,\"b\":[\"x\"]}{\"a\":2,\"b\":[]}";
    for text in [pretty, array, lines, behind] {
        let (_, found) = table("t.json", text.as_bytes(), "").await?;
        assert_eq!(found, [["1", "[x]"], ["2", "[]"]], "{text:?}");
    }
    assert_eq!(table("t.json", b"[]", "").await?.1.len(), 0);
    Ok(())
}

/// Pieces of any size: each gzip member is a separate piece.
#[tokio::test]
async fn json_values_may_be_cut_anywhere() -> Result<()> {
    let text =
        "{\"k\\u00e9y\": \"a\\\\\\ud83e\\udd80é\", \"n\": -12.50e+3, \"t\": true, \"z\": null, \"l\": [[1], []]}\n";
    let expected = ["a\\🦀é", "-12500.0", "true", "NULL", "[[1], []]"];
    for cut in 1..text.len() {
        let mut file = Vec::new();
        for part in [&text.as_bytes()[..cut], &text.as_bytes()[cut..]] {
            let mut encoder = flate2::write::GzEncoder::new(&mut file, flate2::Compression::fast());
            encoder.write_all(part)?;
            encoder.finish()?;
        }
        let (columns, found) = table("t.json.gz", &file, "").await?;
        assert_eq!(columns[0].0, "kéy", "cut at {cut}");
        assert_eq!(found, [expected], "cut at {cut}");
    }
    Ok(())
}

#[tokio::test]
async fn encodings() -> Result<()> {
    let text = "{\"a\": \"é🦀\"}\n";
    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
    assert_eq!(table("t.json", &utf16, ",encoding=utf-16be").await?.1, [["é🦀"]]);
    assert_eq!(table("t.json", b"{\"a\": \"\xe9\"}\n", ",encoding=latin1").await?.1, [["é"]]);
    Ok(())
}

#[tokio::test]
async fn json_syntax_errors_report_the_position() {
    for (text, message) in [
        ("{\"a\": 1}\n{\"a\": tru}", "t.json: line 2, character 10: expected true, found }"),
        ("{\"é\": 'x'}", "t.json: line 1, character 7: expected a value, found '"),
        ("{\"a\": 1}\n[1]", "t.json: line 2, character 1: expected an object, found ["),
        ("{\"a\": 1}\n17", "t.json: line 2, character 1: expected an object, found 1"),
        ("{\"a\": 01}", "t.json: line 1, character 7: expected a number, found 01"),
        ("{\"a\": None}", "t.json: line 1, character 8: expected NaN, found o"),
        ("{\"a\": \"x\n\"}", "t.json: line 1, character 9: expected a character or \", found the end of the line"),
        ("{\"a\": \"\\ud800x\"}", "expected a Unicode character, found half of one, \\ud800"),
        ("{\"a\": {\"b\": 1}\n", "t.json: line 2, character 1: expected , or }, found the end of the file"),
        ("[{\"a\": 1},]", "t.json: line 1, character 11: expected an object, found ]"),
        ("[{\"a\": 1}]\n[]", "t.json: line 2, character 1: expected nothing behind the array, found ["),
        ("{\"a\": 1,}", "t.json: line 1, character 9: expected a key in double quotes, found }"),
    ] {
        let found = refused(text, "").await;
        assert!(found.contains(message), "{text:?}: {found}");
    }
    let deep = format!("{{\"a\": {}1{}}}", "[".repeat(200), "]".repeat(200));
    assert!(refused(&deep, "").await.contains("at most 128 objects and arrays in each other"));
}

#[tokio::test]
async fn json_values_outside_the_inferred_schema_report_the_position() {
    for (value, message) in [
        ("{\"a\": 1.5, \"o\": {}}", "t.json: line 2, character 7: column \"a\": expected Int64, found 1.5"),
        ("{\"a\": \"1\", \"o\": {}}", "t.json: line 2, character 7: column \"a\": expected Int64, found \"1\""),
        ("{\"a\": 9223372036854775808}", "column \"a\": expected Int64, found 9223372036854775808"),
        (
            "{\"a\": 1, \"b\": 1}",
            "t.json: line 2, character 10: key \"b\": the first objects, which determine the columns",
        ),
        ("{\"o\": {\"x\": 1}}", "t.json: line 2, character 8: key \"o.x\": the first objects"),
        ("{\"o\": {\"l\": [{\"k\": false}]}}", "column \"o.l[].k\": expected Int64, found false"),
        ("{\"f\": 9007199254740993}", "column \"f\": expected Float64, found 9007199254740993"),
    ] {
        let text = format!("{{\"a\": 0, \"f\": 0.5, \"o\": {{\"l\": [{{\"k\": 1}}]}}}}\n{value}\n");
        let found = refused(&text, ",infer_rows=1").await;
        assert!(found.contains(message), "{value}: {found}");
    }
}

#[tokio::test]
async fn json_columns_are_inferred_from_all_files() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let files: [(&str, &[u8]); 3] =
        [("a.json", b"{\"x\": 1}\n"), ("b.jsonl", b"{\"y\": \"q\"}\n{\"x\": 2.5}"), ("c.json", b"[]")];
    write(dir.path(), &files)?;
    let found = rows(&format!("SELECT x, y FROM '{}' ORDER BY x", dir.path().display())).await?;
    assert_eq!(found, [["1.0", "NULL"], ["2.5", "NULL"], ["NULL", "q"]]);
    Ok(())
}

#[tokio::test]
async fn json_duplicate_key_keeps_the_last_value() -> Result<()> {
    assert_eq!(table("t.json", b"{\"a\": 1, \"o\": {\"k\": 1, \"k\": 2}, \"a\": 3}", "").await?.1, [["3", "{k: 2}"]]);
    Ok(())
}

/// Not valid JSON, but Python's default output.
#[tokio::test]
async fn nan_and_infinities_are_numbers() -> Result<()> {
    let text = b"{\"x\": NaN, \"l\": [1, -Infinity], \"n\": 1}\n{\"x\":-Infinity,\"l\":[Infinity],\"n\":2.5}\n{\"x\": 1.5, \"l\": [], \"n\": NaN}";
    let (columns, found) = table("t.json", text, "").await?;
    assert_eq!(columns[0].1, DataType::Float64);
    assert_eq!(columns[1].1, DataType::new_list(DataType::Float64, true));
    assert_eq!(found, [["NaN", "[1.0, -inf]", "1.0"], ["-inf", "[inf]", "2.5"], ["1.5", "[]", "NaN"]]);
    assert_eq!(table("t.json", text, ",types=string").await?.1[0], ["NaN", "[1,-Infinity]", "1"]);
    assert_eq!(texts(&declared("x REAL", "{\"x\": -Infinity}").await?)?, [["-inf"]]);
    let error = declared("x INT", "{\"x\": NaN}").await.expect_err("no integer");
    assert!(chain(&error).contains("column \"x\": expected Int32, found NaN"), "{error}");
    for (text, message) in [
        ("{\"x\": Nan}", "line 1, character 9: expected NaN, found n"),
        ("{\"x\": -Inf}", "line 1, character 11: expected -Infinity, found }"),
        ("{\"x\": +Infinity}", "line 1, character 7: expected a value, found +"),
        ("{\"x\": NaN1}", "line 1, character 10: expected , or }, found 1"),
    ] {
        assert_eq!(refused(text, "").await, format!("t.json: {message}"));
    }
    Ok(())
}

#[tokio::test]
async fn text_only() -> Result<()> {
    let (columns, found) =
        table("t.json", b"{\"a\": 1.50, \"b\": [1, {\"c\" : \"\\\"\"}], \"c\": \"x\"}", ",types=string").await?;
    assert!(columns.iter().all(|(_, data_type)| *data_type == DataType::Utf8));
    assert_eq!(found, [["1.50", "[1,{\"c\":\"\\\"\"}]", "x"]]);
    Ok(())
}

/// Declares `columns` for one file and reads all of it.
async fn declared(columns: &str, content: &str) -> Result<Vec<datafusion::arrow::array::RecordBatch>> {
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("t.json", content.as_bytes())])?;
    let ctx = session(1);
    let location = dir.path().join("t.json").display().to_string();
    ctx.sql(&format!("CREATE EXTERNAL TABLE t ({columns}) STORED AS JSON LOCATION '{location}'")).await?;
    ctx.sql("SELECT * FROM t").await?.collect().await
}

#[tokio::test]
async fn declared_columns() -> Result<()> {
    let batches = declared(
        "at TIMESTAMP, day DATE, price DECIMAL(9, 2), n SMALLINT, raw VARCHAR, absent INT",
        "{\"at\": \"2026-01-02T03:04:05.25\", \"day\": \"2026-01-02\", \"price\": 12.50, \"n\": \"7\", \"raw\": {\"a\": 1}, \"other\": 1}",
    )
    .await?;
    let at = batches[0].schema().field(0).data_type().clone();
    assert_eq!(at, DataType::Timestamp(TimeUnit::Nanosecond, None));
    assert_eq!(texts(&batches)?, [["2026-01-02T03:04:05.250", "2026-01-02", "12.50", "7", "{\"a\":1}", "NULL"]]);
    let nested = "{\"o\": {\"k\": 1, \"l\": [1, null], \"other\": true}, \"raw\": [1]}\n{\"o\": null, \"raw\": []}";
    let batches = declared("o STRUCT<l SMALLINT[], k DOUBLE>, raw INT[]", nested).await?;
    assert_eq!(texts(&batches)?, [["{l: [1, NULL], k: 1.0}", "[1]"], ["NULL", "[]"]]);
    for (column, value, message) in [
        ("n SMALLINT", "40000", "column \"n\": expected Int16, found 40000"),
        ("n SMALLINT", "1.5", "column \"n\": expected Int16, found 1.5"),
        ("n DECIMAL(5, 1)", "1.25", "column \"n\": expected Decimal128(5, 1), found 1.25"),
        ("n DATE", "\"yesterday\"", "column \"n\": expected Date32, found \"yesterday\""),
        ("n INT NOT NULL", "null", "column \"n\": expected Int32, found nothing"),
    ] {
        let error = declared(column, &format!("{{\"n\": {value}}}")).await.expect_err("refused");
        assert!(chain(&error).contains(message), "{column} {value}: {error}");
    }
    let error = declared("Name VARCHAR", "{\"Name\": \"x\"}").await.expect_err("refused");
    assert!(chain(&error).contains("the objects have no key \"name\", but \"Name\""), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_large_file_is_read_in_parts() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let lines: String = (0..2000).map(|n| format!("{{\"n\": {n}, \"text\": \"line {n}\"}}\n")).collect();
    // An object that spans lines, after the probed ones.
    let late = format!("{lines}{{\"n\":\n 7, \"text\": \"\"}}\n{lines}");
    write(dir.path(), &[("a.json", lines.as_bytes()), ("b.json", late.as_bytes())])?;
    for (name, options, expected) in [
        ("a.json", "", Ok(1_999_000)),
        ("b.json", ",newlines_in_values=true", Ok(3_998_007)),
        ("b.json", ",infer_rows=10", Err("expected")),
    ] {
        let ctx = session(4);
        ctx.state_ref().write().config_mut().options_mut().optimizer.repartition_file_min_size = 1024;
        let spec: tfr_formats::TableSpec = format!("t={}{options}", dir.path().join(name).display()).parse()?;
        let table = tfr_formats::open_table(&ctx.state(), &spec).await?;
        ctx.register_table("t", table)?;
        let found = ctx.sql("SELECT sum(n) FROM t").await?.collect().await;
        match expected {
            Ok(sum) => assert_eq!(texts(&found?)?, [[sum.to_string()]], "{name}{options}"),
            // The split may be elsewhere; then the file is read correctly.
            Err(message) => match found {
                Ok(found) => assert_eq!(texts(&found)?, [["3998007"]]),
                Err(error) => assert!(chain(&error).contains(message), "{error}"),
            },
        }
    }
    Ok(())
}

/// Whether a value matches the corpus: absent is null, and text may contain other values as JSON.
fn same(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Number(found), Value::Number(expected)) => found.as_f64() == expected.as_f64(),
        (Value::String(found), Value::String(expected)) => found == expected,
        (Value::String(json), expected) => {
            serde_json::from_str::<Value>(json).is_ok_and(|found| !found.is_string() && same(&found, expected))
        }
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

/// Any value with few keys, so that rows often differ in the type of one.
fn any_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1000..1000).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    scalar.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            any_object(inner).prop_map(Value::Object),
        ]
    })
}

fn any_object(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    let key = prop_oneof!["[ab]", any::<String>()];
    proptest::collection::vec((key, value), 0..4).prop_map(|members| members.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// serde_json is the oracle: its output, in any layout, is read unchanged.
    #[test]
    fn json_objects_round_trip(rows in proptest::collection::vec(any_object(any_value()), 1..6)) {
        let rows: Vec<Value> = rows.into_iter().map(Value::Object).collect();
        let texts = |write: fn(&Value) -> serde_json::Result<String>| {
            rows.iter().map(|row| write(row).expect("JSON")).collect::<Vec<_>>().join("\n")
        };
        let array = serde_json::to_string_pretty(&rows).expect("JSON");
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        for text in [texts(serde_json::to_string), texts(serde_json::to_string_pretty), array] {
            let dir = tempfile::tempdir().expect("a scratch directory");
            write(dir.path(), &[("t.json", text.as_bytes())]).expect("a file");
            let spec = dir.path().join("t.json").display().to_string();
            let batches = runtime.block_on(read(&spec)).expect("it is read");
            prop_assert_eq!(row_count(&batches), rows.len());
            prop_assert_eq!(first_difference(&objects(&batches), &rows, same), Ok(()), "{}", text);
        }
    }
}

/// Almost valid JSON.
fn any_text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("{\"a\":"),
        Just("}"),
        Just("["),
        Just("]"),
        Just(","),
        Just(":"),
        Just("\""),
        Just("\\"),
        Just("\\u12"),
        Just("-1.5e"),
        Just("7"),
        Just("null"),
        Just("tr"),
        Just("\n"),
        Just(" "),
        Just("é"),
        Just("\"b\""),
        Just("{"),
    ];
    proptest::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// serde_json is the oracle: text that it rejects is rejected with its position, and never by a panic.
    #[test]
    fn json_matches_serde_json_on_malformed_text(text in any_text()) {
        let is_objects = serde_json::Deserializer::from_str(&text).into_iter::<Value>().all(|value| {
            value.is_ok_and(|value| match value {
                Value::Object(_) => true,
                Value::Array(rows) => rows.iter().all(Value::is_object),
                _ => false,
            })
        });
        let dir = tempfile::tempdir().expect("a scratch directory");
        write(dir.path(), &[("t.json", text.as_bytes())]).expect("a file");
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let spec = dir.path().join("t.json").display().to_string();
        match runtime.block_on(read(&format!("{spec},format=json"))) {
            Ok(_) => prop_assert!(is_objects),
            // An empty file is skipped; an array must be the only value.
            Err(error) if text.is_empty() || is_objects => {
                let message = chain(&error);
                prop_assert!(text.is_empty() || text.contains('['), "{}", message);
            }
            Err(error) => prop_assert!(chain(&error).contains("t.json: line "), "{}", chain(&error)),
        }
    }
}

/// Files whose outcome differs from the corpus, and why.
const KNOWN: &[(&str, &str)] = &[
    // Two objects on a line are two rows, as written by Firehose; the expectation omits such lines.
    ("spark-rapids/malformed3.ndjson", "row 2: {\"number\":3}, expected {\"number\":5}"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_json_file() -> Result<()> {
    let Some(corpus) = corpus() else { return Ok(()) };
    let mut outcomes = Vec::new();
    for row in manifest(&corpus, "json").await? {
        let encoding = row["special"].split("; ").find_map(|part| part.strip_prefix("encoding ")).unwrap_or("utf-8");
        let options = format!(",format=json,encoding={encoding}");
        let mut outcome = outcome(&corpus, &row, &options).await;
        if !row["expected"].is_empty() && outcome.as_ref().is_ok_and(|outcome| outcome.ends_with("read")) {
            let batches = read(&format!("\"{}\"{options}", corpus.join(&row["path"]).display())).await?;
            let expected = lines(&corpus.join(&row["expected"]));
            let compared = first_difference(&objects(&batches), &expected, same);
            outcome = compared.and(outcome).and_then(|outcome| match row_count(&batches).to_string() == row["rows"] {
                true => Ok(outcome),
                false => Err(format!("{} rows, expected {}", row_count(&batches), row["rows"])),
            });
        }
        outcomes.push((row["path"].clone(), outcome));
    }
    assert_eq!(wrong(&outcomes, KNOWN), Vec::<String>::new());
    Ok(())
}
