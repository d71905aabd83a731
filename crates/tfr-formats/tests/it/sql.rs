//! Paths and external tables in SQL.

use datafusion::error::{DataFusionError, Result};
use tfr_formats::ErrorKind;

use crate::support::{chain, read, rows, session, texts, write};

async fn refused(query: &str) -> String {
    chain(&rows(query).await.expect_err(query))
}

#[tokio::test]
async fn missing_path_is_not_reported_as_a_missing_table() -> Result<()> {
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
    assert!(message.contains("unknown option \"delimeter\"; did you mean delimiter?"), "{message}");
    Ok(())
}

#[tokio::test]
async fn a_cell_that_a_declared_type_would_change_is_refused() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("t.csv");
    let ctx = session(1);
    let table = async |data_type: &str, cell: &str| {
        std::fs::write(&path, format!("a,x\n1,{cell}\n"))?;
        let location = path.display();
        let create = format!("CREATE OR REPLACE EXTERNAL TABLE t (x {data_type}) STORED AS CSV LOCATION '{location}'");
        ctx.sql(&create).await?;
        texts(&ctx.sql("SELECT x FROM t").await?.collect().await?)
    };
    for (data_type, cell, arrow) in [
        ("DECIMAL(5,2)", "1.239", "Decimal128(5, 2)"),
        ("TIMESTAMP(0)", "2020-01-01 00:00:00.9", "Timestamp(s)"),
        ("TIMESTAMP", "2016-12-31 23:59:60", "Timestamp(ns)"),
        ("DOUBLE", "1e400", "Float64"),
        ("REAL", "1e39", "Float32"),
        ("INT", "3000000000", "Int32"),
    ] {
        let error = table(data_type, cell).await.expect_err(data_type);
        let message = chain(&error);
        assert!(
            message.ends_with(&format!("t.csv: line 2: column \"x\": expected {arrow}, found {cell:?}")),
            "{message}"
        );
        let DataFusionError::External(error) = error.find_root() else { panic!("{error:?}") };
        let kind = error.downcast_ref::<tfr_formats::Error>().map(tfr_formats::Error::kind);
        assert!(matches!(kind, Some(ErrorKind::Cell { declared: true, .. })), "{kind:?}");
    }
    for (data_type, cell, expected) in [
        ("DECIMAL(5,2)", "1.230", "1.23"),
        ("TIMESTAMP(0)", "2020-01-01 00:00:01.000", "2020-01-01T00:00:01"),
        ("REAL", "0.1", "0.1"),
    ] {
        assert_eq!(table(data_type, cell).await?, [[expected]]);
    }
    Ok(())
}

/// A fraction is rounded to the nearest float, as everywhere; an integer may be an identifier.
#[tokio::test]
async fn declared_double_rejects_integers_it_cannot_represent() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let ctx = session(1);
    let table = async |format: &str, data_type: &str, cell: &str| {
        let content = if format == "CSV" { format!("a,x\n1,{cell}\n") } else { format!("{{\"x\": {cell}}}\n") };
        let path = dir.path().join(format!("t.{format}"));
        std::fs::write(&path, content)?;
        let columns = format!("CREATE OR REPLACE EXTERNAL TABLE t (x {data_type})");
        ctx.sql(&format!("{columns} STORED AS {format} LOCATION '{}'", path.display())).await?;
        texts(&ctx.sql("SELECT x FROM t").await?.collect().await?)
    };
    for format in ["CSV", "JSON"] {
        for (data_type, cell, arrow) in [
            ("DOUBLE", "9007199254740993", "Float64"),
            ("DOUBLE", "-18446744073709551617", "Float64"),
            ("REAL", "16777217", "Float32"),
        ] {
            let error = table(format, data_type, cell).await.expect_err(cell);
            let message = chain(&error);
            assert!(message.contains(&format!("t.{format}: line ")), "{message}");
            assert!(message.contains(&format!("column \"x\": expected {arrow}, found ")), "{message}");
        }
        for (data_type, cell, expected) in [
            ("DOUBLE", "9007199254740994", "9007199254740994.0"),
            ("DOUBLE", "9007199254740993.0", "9007199254740992.0"),
            ("DOUBLE", "18446744073709551616", "1.8446744073709552e19"),
            ("BIGINT", "9007199254740993", "9007199254740993"),
            ("DECIMAL(38, 0)", "18446744073709551617", "18446744073709551617"),
        ] {
            assert_eq!(table(format, data_type, cell).await?, [[expected]], "{format} {data_type}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn empty_path_is_rejected() {
    let message = refused("SELECT * FROM ''").await;
    assert!(message.ends_with("'': not a usable path: it is empty"), "{message}");
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

#[tokio::test]
async fn declared_partitions_must_match_the_directories() -> Result<()> {
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("dt=2024-01-01/n=1/f.csv", b"x\n5\n")])?;
    let ctx = session(2);
    let create = async |columns: &str, partitions: &str| {
        let location = dir.path().display();
        ctx.sql(&format!(
            "CREATE OR REPLACE EXTERNAL TABLE t {columns} STORED AS CSV PARTITIONED BY ({partitions}) LOCATION '{location}'"
        ))
        .await
    };
    create("(x INT, dt VARCHAR, n BIGINT)", "dt, n").await?;
    let found = texts(&ctx.sql("SELECT n, dt, x FROM t").await?.collect().await?)?;
    assert_eq!(found, [["1", "2024-01-01", "5"]]);
    create("", "dt, n").await?;
    create("", "\"dt\", N").await?;
    let message = chain(&create("", "n").await.expect_err("other directories"));
    assert!(message.contains("PARTITIONED BY (n), but the directories are (dt, n)"), "{message}");
    Ok(())
}

/// A table partitioned by day, with one null, and by hour.
fn days(dir: &std::path::Path) -> std::io::Result<()> {
    let files = ["dt=2024-02-28/h=01", "dt=2024-03-01/h=02", "dt=__HIVE_DEFAULT_PARTITION__/h=03"];
    for (index, directory) in files.iter().enumerate() {
        write(dir, &[(&format!("{directory}/f.csv"), format!("x\n{index}\n").as_bytes())])?;
    }
    Ok(())
}

#[tokio::test]
async fn partition_columns_have_the_types_that_are_declared() -> Result<()> {
    let dir = tempfile::tempdir()?;
    days(dir.path())?;
    let ctx = session(2);
    let location = dir.path().display();
    let rows = async |query: &str| texts(&ctx.sql(query).await?.collect().await?);
    let all = [["0", "2024-02-28", "1"], ["1", "2024-03-01", "2"], ["2", "NULL", "3"]];
    for columns in [
        "(x INT, dt DATE, h SMALLINT) STORED AS CSV PARTITIONED BY (dt, h)",
        "(x INT) STORED AS CSV PARTITIONED BY (dt DATE, h SMALLINT)",
        "STORED AS CSV PARTITIONED BY (dt DATE, h SMALLINT)",
        "STORED AS CSV PARTITIONED BY (dt DATE, h SMALLINT) OPTIONS ('types' 'string')",
        "STORED AS CSV OPTIONS ('partitions' 'dt DATE, h SMALLINT')",
    ] {
        ctx.sql(&format!("CREATE OR REPLACE EXTERNAL TABLE t {columns} LOCATION '{location}'")).await?;
        let types = rows("SELECT arrow_typeof(dt), arrow_typeof(h) FROM t LIMIT 1").await?;
        assert_eq!(types, [["Date32", "Int16"]], "{columns}");
        assert_eq!(rows("SELECT x, dt, h FROM t ORDER BY x").await?, all, "{columns}");
        assert_eq!(rows("SELECT max(dt), count(dt) FROM t").await?, [["2024-03-01", "2"]], "{columns}");
    }
    Ok(())
}

/// TFRecord files written by other tools, in Hive-style directories.
#[tokio::test]
async fn tfrecord_tables_have_declared_partition_columns() -> Result<()> {
    let dir = tempfile::tempdir()?;
    // tf.train.Example of {"x": int64_list 1}, and of 2.
    let example = |x: u8| [0x0a, 0x0c, 0x0a, 0x0a, 0x0a, 1, b'x', 0x12, 5, 0x1a, 3, 0x0a, 1, x];
    for (day, x) in [("2024-02-28", 1), ("2024-03-01", 2), ("__HIVE_DEFAULT_PARTITION__", 3)] {
        let mut writer = tfrecord_framing::RecordWriter::new(Vec::new());
        writer.write_record(&example(x)).map_err(|error| DataFusionError::External(error.into()))?;
        let file = writer.finish().map_err(|error| DataFusionError::External(error.into()))?;
        write(dir.path(), &[(&format!("dt={day}/h=0{x}/a.tfrecord"), &file)])?;
    }
    let ctx = session(2);
    let location = dir.path().display();
    let rows = async |query: &str| texts(&ctx.sql(query).await?.collect().await?);
    for columns in [
        "(x BIGINT) STORED AS TFRECORD PARTITIONED BY (dt DATE, h SMALLINT)",
        "(x BIGINT, dt DATE, h SMALLINT) STORED AS TFRECORD PARTITIONED BY (dt, h)",
        "STORED AS TFRECORD PARTITIONED BY (dt DATE, h SMALLINT)",
        "STORED AS TFRECORD OPTIONS ('partitions' 'dt DATE, h SMALLINT')",
    ] {
        ctx.sql(&format!("CREATE OR REPLACE EXTERNAL TABLE t {columns} LOCATION '{location}'")).await?;
        let types = rows("SELECT arrow_typeof(dt), arrow_typeof(h) FROM t LIMIT 1").await?;
        assert_eq!(types, [["Date32", "Int16"]], "{columns}");
        let all = [["1", "2024-02-28", "1"], ["2", "2024-03-01", "2"], ["3", "NULL", "3"]];
        assert_eq!(rows("SELECT x, dt, h FROM t ORDER BY x").await?, all, "{columns}");
        assert_eq!(rows("SELECT x FROM t WHERE dt > DATE '2024-02-28'").await?, [["2"]], "{columns}");
    }
    let statement = format!(
        "CREATE OR REPLACE EXTERNAL TABLE t STORED AS TFRECORD PARTITIONED BY (dt INT, h INT) LOCATION '{location}'"
    );
    let message = chain(&ctx.sql(&statement).await.expect_err("no numbers"));
    assert!(message.contains("dt=2024-02-28"), "{message}");
    Ok(())
}

#[tokio::test]
async fn declared_partition_types_prune_files() -> Result<()> {
    let dir = tempfile::tempdir()?;
    days(dir.path())?;
    // Reading the text fails, which shows whether the file was pruned.
    write(dir.path(), &[("dt=2025-01-01/h=04/f.csv", b"x\nnone\n")])?;
    let ctx = session(2);
    let location = dir.path().display();
    ctx.sql(&format!(
        "CREATE EXTERNAL TABLE t (x INT) STORED AS CSV PARTITIONED BY (dt DATE, h SMALLINT) LOCATION '{location}'"
    ))
    .await?;
    let rows = async |query: &str| texts(&ctx.sql(query).await?.collect().await?);
    assert!(rows("SELECT x FROM t").await.is_err());
    let before =
        "SELECT x FROM t WHERE dt + INTERVAL '2 days' >= DATE '2024-03-01' AND dt < DATE '2025-01-01' ORDER BY x";
    assert_eq!(rows(before).await?, [["0"], ["1"]]);
    assert_eq!(rows("SELECT x FROM t WHERE extract(month FROM dt) > 1 ORDER BY x").await?, [["0"], ["1"]]);
    assert_eq!(rows("SELECT x FROM t WHERE dt IS NULL").await?, [["2"]]);
    assert_eq!(rows("SELECT x FROM t WHERE h < 2").await?, [["0"]]);
    Ok(())
}

#[tokio::test]
async fn declared_partition_type_rejects_other_directory_values() -> Result<()> {
    let dir = tempfile::tempdir()?;
    days(dir.path())?;
    write(dir.path(), &[("dt=latest/h=05/f.csv", b"x\n5\n")])?;
    let location = dir.path().display();
    let refusal = async |partitions: &str| {
        let statement =
            format!("CREATE EXTERNAL TABLE t STORED AS CSV PARTITIONED BY ({partitions}) LOCATION '{location}'");
        chain(&session(1).sql(&statement).await.expect_err(partitions))
    };
    let message = refusal("dt DATE, h INT").await;
    let expected =
        "dt=latest/h=05/f.csv: directory \"dt=latest\": \"latest\" is not a value of the declared type Date32";
    assert!(message.ends_with(expected), "{message}");
    let message = refusal("dt VARCHAR, h INT[]").await;
    assert!(message.contains("column \"h\" of the path: declared as List(Int32)"), "{message}");
    let message = chain(&read(&format!("{location},\"partitions=dt STRING, hour INT\"")).await.expect_err("no hour"));
    assert!(message.ends_with("no directory is named hour=...; the directories are those of dt, h"), "{message}");
    Ok(())
}

#[tokio::test]
async fn the_types_of_partition_columns_are_an_option() -> Result<()> {
    let dir = tempfile::tempdir()?;
    days(dir.path())?;
    let batches = read(&format!("{},\"partitions=h TINYINT, dt DATE\"", dir.path().display())).await?;
    let schema = batches[0].schema();
    let types: Vec<_> = schema.fields().iter().map(|field| field.data_type().to_string()).collect();
    assert_eq!(types, ["Int64", "Date32", "Int8"]);
    Ok(())
}
