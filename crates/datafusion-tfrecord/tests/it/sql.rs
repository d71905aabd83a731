//! `COPY ... STORED AS TFRECORD`: plans, and errors for unsupported SQL.

use std::path::Path;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::UInt64Type;
use datafusion::error::Result;
use datafusion::physical_plan::displayable;
use datafusion::prelude::SessionContext;
use datafusion_tfrecord::WriteOptions;
use tempfile::tempdir;
use tfrecord_shards::Sharding;

use super::support::{Pace, count, names, options, partitions, plan, session, shards};

/// Runs a statement and returns its `count`.
async fn copied(context: &SessionContext, statement: &str) -> Result<u64> {
    let batches = context.sql(statement).await?.collect().await?;
    Ok(batches[0].column(0).as_primitive::<UInt64Type>().value(0))
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_writes_a_set() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("out");
    let context = session(&partitions(&[1000, 200, 3]), Pace::default())?;
    let copy = format!(
        "COPY (SELECT * FROM t WHERE id % 2 = 0) TO '{}/' STORED AS TFRECORD \
         OPTIONS ('tfrecord.shards' '4', 'tfrecord.compression' 'gzip', prefix 'train')",
        out.display()
    );
    assert_eq!(copied(&context, &copy).await?, 602);
    let mut ids = shards(&out)?.concat();
    ids.sort_unstable();
    assert_eq!(ids, (0..1203).step_by(2).collect::<Vec<_>>());
    let mut names = names(&out)?;
    names.sort();
    assert_eq!(
        names,
        [
            "_SUCCESS",
            "_manifest.json",
            "train-00000-of-00004.tfrecord.gz",
            "train-00001-of-00004.tfrecord.gz",
            "train-00002-of-00004.tfrecord.gz",
            "train-00003-of-00004.tfrecord.gz",
        ]
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_keeps_order() -> Result<()> {
    let dir = tempdir()?;
    let context = session(&partitions(&[1000, 200, 3]), Pace::default())?;
    for (name, option) in [("rows", "'tfrecord.shard_rows' '500'"), ("size", "'tfrecord.shard_size' '20 kB'")] {
        let out = dir.path().join(name);
        let target = out.display();
        let copy =
            format!("COPY (SELECT * FROM t ORDER BY id DESC) TO '{target}' STORED AS TFRECORD OPTIONS ({option})");
        copied(&context, &copy).await?;
        assert_eq!(shards(&out)?.concat(), (0..1203).rev().collect::<Vec<_>>(), "{option}");
    }
    let copy = |more: &str| {
        let target = dir.path().join("count");
        format!(
            "COPY (SELECT * FROM t ORDER BY id DESC) TO '{}' STORED AS TFRECORD OPTIONS ('tfrecord.shards' '3'{more})",
            target.display()
        )
    };
    let error = copied(&context, &copy("")).await.expect_err("nobody knows the count");
    assert!(error.to_string().contains("not known in advance"), "{error}");
    copied(&context, &copy(", 'tfrecord.expected_rows' '1203'")).await?;
    let written = shards(&dir.path().join("count"))?;
    assert_eq!(written.iter().map(Vec::len).collect::<Vec<_>>(), [401; 3]);
    assert_eq!(written.concat(), (0..1203).rev().collect::<Vec<_>>());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_assigns_presorted_rows_round_robin() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("out");
    let source = dir.path().join("ids.csv");
    std::fs::write(&source, "1\n2\n4\n5\n")?;
    let context = session(&partitions(&[1]), Pace::default())?;
    let create = format!(
        "CREATE EXTERNAL TABLE s (id BIGINT NOT NULL) STORED AS CSV WITH ORDER (id) LOCATION '{}' OPTIONS ('format.has_header' 'false')",
        source.display()
    );
    context.sql(&create).await?;
    let copy = format!(
        "COPY (SELECT id, 'row ' || id AS name FROM s WHERE id % 3 <> 0) TO '{}' STORED AS TFRECORD OPTIONS ('tfrecord.shards' '2')",
        out.display()
    );
    assert_eq!(copied(&context, &copy).await?, 4);
    assert_eq!(shards(&out)?, [[1, 4], [2, 5]]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_copy_writes_nothing() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("out");
    let context = session(&partitions(&[10, 10]), Pace::default())?;
    let explain = format!(
        "EXPLAIN FORMAT INDENT COPY (SELECT id FROM t WHERE id > 3) TO '{}' STORED AS TFRECORD OPTIONS ('tfrecord.shards' '4')",
        out.display()
    );
    let batches = context.sql(&explain).await?.collect().await?;
    let text = batches[0].column(1).as_string::<i32>().value(1);
    insta::assert_snapshot!(without_paths(text, dir.path()), @r"
    TfRecordCommitExec: out=DIR/out
      CoalescePartitionsExec
        TfRecordWriteExec: record_type=example, shards=4, round-robin, compression=none
          FilterExec: id@0 > 3
            StreamingTableExec: partition_sizes=2, projection=[id]
    ");
    assert!(names(dir.path())?.is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_shows_how_rows_are_assigned_to_shards() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("out");
    let context = session(&partitions(&[10, 10, 10]), Pace::default())?;
    let explain = async |query: &str, options: WriteOptions| -> Result<String> {
        let plan = plan(&context, query, options).await?;
        Ok(without_paths(&displayable(plan.as_ref()).indent(false).to_string(), dir.path()))
    };
    insta::assert_snapshot!(explain("SELECT id FROM t", options(&out, count(2))).await?, @r"
    TfRecordCommitExec: out=DIR/out
      CoalescePartitionsExec
        TfRecordWriteExec: record_type=example, shards=2, round-robin, compression=none
          StreamingTableExec: partition_sizes=3, projection=[id]
    ");
    insta::assert_snapshot!(explain("SELECT id FROM t", options(&out, Sharding::default())).await?, @r"
    TfRecordCommitExec: out=DIR/out
      CoalescePartitionsExec
        TfRecordWriteExec: record_type=example, shard_size=134217728, compression=none
          StreamingTableExec: partition_sizes=3, projection=[id]
    ");
    let ordered = WriteOptions { ordered: true, expected_rows: Some(30), ..options(&out, count(2)) };
    insta::assert_snapshot!(explain("SELECT id FROM t ORDER BY id", ordered).await?, @r"
    TfRecordCommitExec: out=DIR/out
      TfRecordWriteExec: record_type=example, shards=2, in order, compression=none
        SortPreservingMergeExec: [id@0 ASC NULLS LAST]
          SortExec: expr=[id@0 ASC NULLS LAST], preserve_partitioning=[true]
            StreamingTableExec: partition_sizes=3, projection=[id]
    ");
    Ok(())
}

fn without_paths(text: &str, dir: &Path) -> String {
    text.replace(&dir.display().to_string(), "DIR").trim_end().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn copy_rejects_unsupported_options_by_name() -> Result<()> {
    let dir = tempdir()?;
    let path = dir.path().display();
    let context = session(&partitions(&[10]), Pace::default())?;
    let refusal = async |statement: &str| -> String {
        match context.sql(statement).await {
            Ok(frame) => frame.collect().await.err().map_or_else(|| "accepted".to_owned(), |error| error.to_string()),
            Err(error) => error.to_string(),
        }
    };
    let to = format!("COPY (SELECT id FROM t) TO '{path}/out' STORED AS TFRECORD");
    insta::assert_snapshot!(refusal(&format!("{to} OPTIONS ('tfrecord.shads' '4')")).await, @r##"External error: unknown option "tfrecord.shads": the options are tfrecord.shards, tfrecord.shard_size, tfrecord.shard_rows, tfrecord.hosts, tfrecord.prefix, tfrecord.record_format, tfrecord.group_size, tfrecord.compression, tfrecord.level, tfrecord.mode, tfrecord.add_columns, tfrecord.shuffle, tfrecord.seed, tfrecord.split, tfrecord.split_by, tfrecord.split_column, tfrecord.partition_by, tfrecord.keep_partition_columns, tfrecord.expected_rows, tfrecord.map, tfrecord.null, tfrecord.record_type, tfrecord.sequence, tfrecord.separator, tfrecord.vocabulary, tfrecord.strict, tfrecord.crc, tfrecord.damaged, tfrecord.infer_files, tfrecord.infer_records, tfrecord.fixed_size_lists"##);
    insta::assert_snapshot!(refusal(&format!("{to} PARTITIONED BY (id)")).await, @"External error: no column is left for the records: all are in the names of directories: id");
    insta::assert_snapshot!(refusal("COPY (SELECT id FROM t) TO 's3://bucket/out' STORED AS TFRECORD").await, @"External error: cannot write to s3://bucket/out");
    context.sql(&format!("CREATE EXTERNAL TABLE r (id BIGINT) STORED AS TFRECORD LOCATION '{path}/'")).await?;
    insta::assert_snapshot!(refusal("INSERT INTO r VALUES (1)").await, @"External error: INSERT INTO is not supported for TFRECORD");
    std::fs::write(dir.path().join("r.tfrecord"), "a record")?;
    let refused = refusal("SELECT * FROM r").await;
    let expected = "r.tfrecord: record 0 at byte 0: truncated, expected 12 bytes of a record header, found 8";
    assert!(refused.ends_with(expected), "{refused}");
    Ok(())
}
