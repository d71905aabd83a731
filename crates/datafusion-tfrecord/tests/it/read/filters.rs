//! Filters that are evaluated while records are decoded.

use std::fs;

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::error::Result;
use datafusion::physical_plan::displayable;
use datafusion_tfrecord::ReadOptions;
use tempfile::tempdir;
use tfrecord_framing::Compression;

use super::support::{example, examples, explained, floats, framed, int64s, opened, query_rows, texts, write_records};

/// The scan of a query, as the plan shows it, without its files.
async fn scan(location: &std::path::Path, query: &str) -> Result<String> {
    let context = opened(location, &ReadOptions::default(), 1).await?;
    let plan = context.sql(query).await?.create_physical_plan().await?;
    let text = displayable(plan.as_ref()).indent(false).to_string();
    let line = |line: &str| match line.trim().split_once("DataSourceExec: file_groups={") {
        Some((_, rest)) => format!("scan: {}", rest.split_once("}, ").map_or(rest, |(_, rest)| rest)),
        None => line.trim().to_owned(),
    };
    Ok(text.lines().map(line).collect::<Vec<_>>().join("\n"))
}

#[tokio::test]
async fn filter_is_pushed_into_the_scan_if_it_saves_decoding() -> Result<()> {
    let dir = tempdir()?;
    let file = dir.path().join("k=1/f.tfrecord");
    write_records(&file, &[example([("a", int64s(&[1])), ("b", floats(&[0.5])), ("c", texts(&["x"]))])])?;
    let root = dir.path();
    insta::assert_snapshot!(scan(root, "SELECT c FROM r WHERE a > 1 AND b < 2").await?, @"scan: projection=[c], file_type=tfrecord, predicate=a@0 > 1 AND b@1 < 2");
    // It reads all that is wanted.
    insta::assert_snapshot!(scan(root, "SELECT a FROM r WHERE a > 1").await?, @r"
    FilterExec: a@0 > 1
    scan: projection=[a], file_type=tfrecord
    ");
    // A column that no record has, and another answer each time.
    insta::assert_snapshot!(scan(root, "SELECT c FROM r WHERE a > k").await?, @r"
    FilterExec: k@2 < a@0, projection=[c@1]
    scan: projection=[a, c, k], file_type=tfrecord
    ");
    insta::assert_snapshot!(scan(root, "SELECT c FROM r WHERE a > random() * 10").await?, @r"
    FilterExec: CAST(a@0 AS Float64) > random() * 10, projection=[c@1]
    scan: projection=[a, c], file_type=tfrecord
    ");
    insta::assert_snapshot!(scan(root, "SELECT c FROM r WHERE a > 1 LIMIT 3").await?, @"scan: projection=[c], limit=3, file_type=tfrecord, predicate=a@0 > 1");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn filter_result_is_independent_of_pushdown() -> Result<()> {
    let dir = tempdir()?;
    let records: Vec<_> = (0..3000)
        .map(|id| {
            let text = format!("text {}", id % 7);
            match id % 5 {
                0 => example([("id", int64s(&[id])), ("x", floats(&[]))]),
                1 => example([("id", int64s(&[id])), ("text", texts(&[text.as_str()]))]),
                2 => example([("id", int64s(&[id])), ("x", floats(&[f32::NAN])), ("text", texts(&[text.as_str()]))]),
                _ => example([
                    ("id", int64s(&[id])),
                    ("x", floats(&[id as f32, 1.0])),
                    ("text", texts(&[text.as_str()])),
                ]),
            }
        })
        .collect();
    for compression in [Compression::None, Compression::Gzip] {
        let file = dir.path().join(compression.to_string());
        fs::write(&file, framed(&records, compression)?)?;
        for (filter, expected) in [
            ("id % 3 = 0", 1000),
            ("text = 'text 3'", 343),
            ("text IS NULL", 600),
            ("text IS NULL AND id > 1499", 300),
            ("x[1] > 100", 1160 + 600),
            ("cardinality(x) = 0 OR text = 'text 1'", 943),
            ("id < 0", 0),
        ] {
            for partitions in [1, 3] {
                let context = opened(&file, &ReadOptions::default(), partitions).await?;
                let query = format!("SELECT id, text, x FROM r WHERE {filter} ORDER BY id");
                let scanned = query_rows(&context, &query).await?;
                // What is behind a limit is filtered above it.
                let query = format!("SELECT id, text, x FROM (SELECT * FROM r LIMIT 99999) WHERE {filter} ORDER BY id");
                let after = query_rows(&context, &query).await?;
                assert_eq!(scanned.num_rows(), expected, "{filter}");
                assert_eq!(scanned.column(0), after.column(0), "{filter}");
                assert_eq!(scanned.column(1), after.column(1), "{filter}");
                assert_eq!(scanned.column(2).null_count(), after.column(2).null_count(), "{filter}");
            }
        }
        let context = opened(&file, &ReadOptions::default(), 3).await?;
        let limited = query_rows(&context, "SELECT id, text FROM r WHERE id % 1000 = 999 LIMIT 2").await?;
        assert_eq!(limited.num_rows(), 2);
        let counted = query_rows(&context, "SELECT count(*) FROM r WHERE text = 'text 3'").await?;
        assert_eq!(counted.column(0).as_primitive::<Int64Type>().value(0), 343);
    }
    Ok(())
}

#[tokio::test]
async fn filter_error_names_the_file_and_record() -> Result<()> {
    let dir = tempdir()?;
    let file = write_records(&dir.path().join("f.tfrecord"), &examples(0..10, |_| 1))?;
    let context = opened(&file, &ReadOptions::default(), 1).await?;
    let error =
        query_rows(&context, "SELECT text FROM r WHERE 1 / (id - 5) > 0").await.expect_err("a division by zero");
    let text = explained(&error).replace(&dir.path().display().to_string(), "DIR");
    insta::assert_snapshot!(text, @r"
    DIR/f.tfrecord: record 0 at byte 0: cannot determine whether this and later records pass the filter
    cause: Divide by zero error
    ");
    // The filter that comes first keeps it from that.
    let rows = query_rows(&context, "SELECT text FROM r WHERE id > 5 AND 1 / (id - 5) > 0").await?;
    assert_eq!(rows.num_rows(), 1);
    Ok(())
}
