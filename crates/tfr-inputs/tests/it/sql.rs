//! Paths and external tables in SQL.

use datafusion::error::Result;

use crate::support::{chain, rows, session, texts, write};

async fn refused(query: &str) -> String {
    chain(&rows(query).await.expect_err(query))
}

#[tokio::test]
async fn a_path_that_leads_nowhere_is_not_a_missing_table() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().display();
    let message = refused(&format!("SELECT * FROM '{path}/x.parquet'")).await;
    assert!(message.contains(&format!("{path}/x.parquet: no such file or directory")), "{message}");
    let message = refused("SELECT * FROM lineitem_that_is_not_there").await;
    assert!(message.contains("table 'datafusion.public.lineitem_that_is_not_there' not found"), "{message}");
    Ok(())
}

#[tokio::test]
async fn external_tables() -> Result<()> {
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("t/1", b"id;d;v\n007;2024-01-01;1.25\n"), ("t/_SUCCESS", b"x")])?;
    let ctx = session(2);
    let location = dir.path().join("t").display().to_string();
    let create = |columns: &str, options: &str| {
        format!("CREATE OR REPLACE EXTERNAL TABLE t {columns} STORED AS CSV LOCATION '{location}' OPTIONS ({options})")
    };
    let table = async |columns: &str, options: &str| {
        ctx.sql(&create(columns, options)).await?;
        texts(&ctx.sql("SELECT * FROM t").await?.collect().await?)
    };
    assert_eq!(table("", "'delimiter' ';', 'format.has_header' 'true'").await?, [["007", "2024-01-01", "1.25"]]);
    assert_eq!(table("(v DECIMAL(5,3), id BIGINT)", "'delimiter' ';'").await?, [["1.250", "7"]]);
    assert_eq!(table("(d DATE)", "'delimiter' ';'").await?, [["2024-01-01"]]);

    let message = chain(&table("(x BIGINT)", "'delimiter' ';'").await.expect_err("no such column"));
    assert!(message.contains("t/1: the header has no column \"x\"; it has id, d, v"), "{message}");
    let message = chain(&table("(d BIGINT)", "'delimiter' ';'").await.expect_err("no number"));
    assert!(message.contains("t/1: line 2: column \"d\": expected Int64, found \"2024-01-01\""), "{message}");
    let message = chain(&table("", "'delimeter' ';'").await.expect_err("no such option"));
    assert!(message.contains("unknown option \"delimeter\"; known are format, delimiter"), "{message}");
    Ok(())
}

#[tokio::test]
async fn a_declared_column_without_header_is_matched_by_position() -> Result<()> {
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("t.csv", b"1,a\n2,b\n")])?;
    let ctx = session(2);
    let location = dir.path().join("t.csv").display().to_string();
    ctx.sql(&format!(
        "CREATE EXTERNAL TABLE t (n INT, s VARCHAR) STORED AS CSV LOCATION '{location}' OPTIONS ('header' 'false')"
    ))
    .await?;
    let found = texts(&ctx.sql("SELECT s, n FROM t").await?.collect().await?)?;
    assert_eq!(found, [["a", "1"], ["b", "2"]]);
    Ok(())
}
