//! libsvm and svmlight.

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{Float64Type, Int64Type};
use datafusion::error::Result;
use serde_json::{Value, json};

use crate::corpus::{corpus, manifest, outcome, wrong};
use crate::support::{chain, read, session, texts, write};

/// Reads `content` with `options`; the column names come first.
async fn table(content: &[u8], options: &str) -> Result<Vec<Vec<String>>> {
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("t.libsvm", content)])?;
    let batches = read(&format!("\"{}\"{options}", dir.path().join("t.libsvm").display())).await?;
    let schema = batches.first().map(|batch| batch.schema());
    let header = schema.map(|schema| schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>());
    Ok(header.into_iter().chain(texts(&batches)?).collect())
}

async fn refused(content: &[u8], options: &str) -> String {
    let message = chain(&table(content, options).await.expect_err("refused"));
    let start = message.find("t.libsvm").unwrap_or_default();
    message[start..].to_owned()
}

#[tokio::test]
async fn lines_are_rows() -> Result<()> {
    let text = b"# a comment\n1 3:0.5 1:2 # twice 3:\n\r\n-1\n";
    let expected = [["label", "indices", "values"], ["1.0", "[3, 1]", "[0.5, 2.0]"], ["-1.0", "[]", "[]"]];
    assert_eq!(table(text, "").await?, expected);
    assert_eq!(table(b"0 1:1\n", ",index_base=1").await?[1], ["0.0", "[0]", "[1.0]"]);
    let queries = [["label", "qid", "indices", "values"], ["2.0", "7", "[1]", "[1.0]"], ["0.0", "NULL", "[]", "[]"]];
    assert_eq!(table(b"2 qid:7 1:1\n0\n", "").await?, queries);
    assert_eq!(table(b"2 qid:7 1:1\n", ",qid=false").await?[0], ["label", "indices", "values"]);
    assert_eq!(
        table(b"1,2 1:1\n 2:1\n", ",multilabel=true").await?,
        [["labels", "indices", "values"], ["[1.0, 2.0]", "[1]", "[1.0]"], ["[]", "[2]", "[1.0]"]]
    );
    assert_eq!(
        table(b"1 3:0.5 1:2\n0\n", ",features=3,index_base=1").await?,
        [["label", "features"], ["1.0", "[2.0, 0.0, 0.5]"], ["0.0", "[0.0, 0.0, 0.0]"]]
    );
    Ok(())
}

#[tokio::test]
async fn libsvm_errors_report_line_and_byte() {
    let late = format!("{}1 qid:3\n", "1 1:1\n".repeat(1000));
    for (text, options, message) in [
        ("1 1:1\npython 2:2\n", "", "line 2, byte 1: expected a number as label, found \"python\""),
        ("1 1:1 2:x\n", "", "line 1, byte 9: expected a number as value, found \"x\""),
        ("1 0:1\n", ",index_base=1", "line 1, byte 3: expected an index from 1 on, found 0"),
        ("1 1:1 1:2\n", ",index_base=0,features=3", "line 1, byte 7: feature 1 has two values"),
        ("1 3:1\n", ",index_base=0,features=3", "line 1, byte 3: feature 3 is beyond features=3; the first is 0"),
        (
            &late,
            "",
            "line 1001, byte 1: expected no qid, since the first lines have none; lines with one need qid=true",
        ),
    ] {
        assert_eq!(refused(text.as_bytes(), options).await, format!("t.libsvm: {message}"));
    }
    let message = refused(b"1 1:1\n", ",features=3").await;
    assert!(message.ends_with(r#"option features="3": expected index_base=0 or index_base=1 as well"#), "{message}");
}

#[tokio::test]
async fn statements_choose_columns_and_types() -> Result<()> {
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("t", b"1 qid:3 2:0.5\n")])?;
    let ctx = session(1);
    ctx.sql(&format!(
        "CREATE EXTERNAL TABLE t (\"values\" DOUBLE[], label DOUBLE) STORED AS LIBSVM LOCATION '{}'",
        dir.path().join("t").display()
    ))
    .await?;
    assert_eq!(texts(&ctx.sql("SELECT * FROM t").await?.collect().await?)?, [["[0.5]", "1.0"]]);
    Ok(())
}

#[tokio::test]
async fn labels_may_be_declared_as_integers() -> Result<()> {
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("t.libsvm", b"9007199254740993 1:1\n-2 2:1\n"), ("u.libsvm", b"9007199254740993,1\n")])?;
    let ctx = session(1);
    let table = async |file: &str, column: &str, options: &str| {
        let location = dir.path().join(file).display().to_string();
        let create =
            format!("CREATE OR REPLACE EXTERNAL TABLE t ({column}) STORED AS LIBSVM LOCATION '{location}' {options}");
        ctx.sql(&create).await?;
        texts(&ctx.sql("SELECT * FROM t").await?.collect().await?)
    };
    assert_eq!(table("t.libsvm", "label BIGINT", "").await?, [["9007199254740993"], ["-2"]]);
    let many = "OPTIONS ('multilabel' 'true')";
    assert_eq!(table("u.libsvm", "labels BIGINT[]", many).await?, [["[9007199254740993, 1]"]]);
    let message = refused(b"1 1:1\n9007199254740993 1:1\n", "").await;
    let expected = "no Float64 is 9007199254740993: declare the label as BIGINT in CREATE EXTERNAL TABLE";
    assert_eq!(message, format!("t.libsvm: line 2, byte 1: {expected}"));
    write(dir.path(), &[("t.libsvm", b"1.5 1:1\n")])?;
    let message = chain(&table("t.libsvm", "label BIGINT", "").await.expect_err("no integer"));
    assert!(message.contains("line 1, byte 1: expected a 64-bit integer as label"), "{message}");
    Ok(())
}

#[tokio::test]
async fn libsvm_is_detected_by_labels_and_pairs() -> Result<()> {
    let long = format!("1 {}", (1..2000).map(|index| format!("{index}:0.5 ")).collect::<String>());
    let dir = tempfile::tempdir()?;
    for (text, options, columns) in [
        ("1 1:2 3:4\n-1 2:1", "", &["label", "indices", "values"][..]),
        ("# made by hand\r\n\r\n+1 qid:3 1:2\r\n0.5 qid:3\r\n", "", &["label", "qid", "indices", "values"]),
        (&long, "", &["label", "indices", "values"]),
        (&format!("{long}\n{long}\n"), ",index_base=1", &["label", "indices", "values"]),
        ("1,3 1:1\n", ",multilabel=true", &["labels", "indices", "values"]),
        // Hours and minutes; a label without a pair; indices that are not ascending; text.
        ("10:30\n11:45\n", "", &["10:30"]),
        ("1\n2\n", "", &["1"]),
        ("1 3:1 2:1\n", "", &["1 3:1 2:1"]),
        ("word 1:1\n1 1:1\n", "", &["word 1:1"]),
        ("1 1:1\n", ",header=false", &["column_1"]),
        ("1 1:1\n", ",format=csv", &["1 1:1"]),
    ] {
        write(dir.path(), &[("part-00000", text.as_bytes())])?;
        let spec = format!("t=\"{}\"{options}", dir.path().join("part-00000").display()).parse()?;
        let table = tfr_formats::open_table(&session(1).state(), &spec).await?;
        let schema = datafusion::catalog::TableProvider::schema(table.as_ref());
        let found: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(found, columns, "{}", text.get(..20).unwrap_or(text));
    }
    Ok(())
}

#[tokio::test]
async fn libsvm_wide_rows_make_small_batches() -> Result<()> {
    let text = "1 0:1\n".repeat(100);
    let batches = {
        let dir = tempfile::tempdir()?;
        write(dir.path(), &[("t.svm", text.as_bytes())])?;
        read(&format!("\"{}\",features=1000000,index_base=0", dir.path().join("t.svm").display())).await?
    };
    assert!(batches.iter().all(|batch| batch.num_rows() < 20));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_file_of_the_corpus() -> Result<()> {
    let Some(corpus) = corpus() else { return Ok(()) };
    let mut outcomes = Vec::new();
    for row in manifest(&corpus, "libsvm").await? {
        let mut outcome = outcome(&corpus, &row, ",format=libsvm").await;
        if outcome.is_ok() && !row["expected"].is_empty() && row["expect"] != "error" {
            let spec = format!("\"{}\",format=libsvm", corpus.join(&row["path"]).display());
            let text = std::fs::read_to_string(corpus.join(&row["expected"])).unwrap_or_default();
            let expected: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
            let found = examples(&spec).await?;
            let wrong = expected.iter().zip(&found).position(|(expected, found)| {
                ["label", "index", "value", "qid"].iter().any(|key| expected[*key] != found[*key])
            });
            if let Some(row) = wrong {
                outcome = Err(format!("row {row}: {}, expected {}", found[row], expected[row]));
            }
        }
        outcomes.push((row["path"].clone(), outcome));
    }
    assert_eq!(wrong(&outcomes, &[]), Vec::<String>::new());
    Ok(())
}

/// Converts the rows to the corpus's form.
async fn examples(spec: &str) -> Result<Vec<Value>> {
    let mut examples = Vec::new();
    for batch in read(spec).await? {
        let label = batch["label"].as_primitive::<Float64Type>();
        let (indices, values) = (batch["indices"].as_list::<i32>(), batch["values"].as_list::<i32>());
        let qid = batch.column_by_name("qid").map(|qids| qids.as_primitive::<Int64Type>());
        for row in 0..batch.num_rows() {
            let (indices, values) = (indices.value(row), values.value(row));
            let mut example = json!({
                "label": [label.value(row)],
                "index": indices.as_primitive::<Int64Type>().values().to_vec(),
                "value": values.as_primitive::<Float64Type>().values().to_vec(),
            });
            if let Some(qid) = qid.filter(|qid| qid.is_valid(row)) {
                example["qid"] = qid.value(row).into();
            }
            examples.push(example);
        }
    }
    Ok(examples)
}
