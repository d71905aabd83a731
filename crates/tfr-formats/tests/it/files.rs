//! Files as rows: `files('dir/**')`.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_plan::{ExecutionPlan, collect_partitioned, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tfrecord::reproducible;
use tfr_files::FilesFunction;

use crate::support::{chain, row_count, texts, write};

/// Creates a session of a program that uses nothing of ours but the function.
fn session(partitions: usize) -> SessionContext {
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(partitions));
    ctx.register_udtf(FilesFunction::NAME, Arc::new(FilesFunction::default()));
    ctx
}

async fn rows(query: &str) -> Result<Vec<Vec<String>>> {
    texts(&session(2).sql(query).await?.collect().await?)
}

async fn refused(query: &str) -> String {
    chain(&rows(query).await.expect_err(query)).replace("External error: ", "")
}

/// Files of different lengths, each containing its own name many times.
fn some_files(dir: &Path, count: usize) -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for number in 0..count {
        let name = format!("{number:03}.txt");
        let mut content = String::new();
        (0..=number % 7 * 50).try_for_each(|_| write!(content, "{name} ")).expect("a string takes it");
        write(dir, &[(&name, content.as_bytes())])?;
        files.push((dir.join(name).display().to_string(), content));
    }
    Ok(files)
}

fn with_content(batches: &[RecordBatch]) -> Vec<(String, String)> {
    let of_batch = |batch: &RecordBatch| {
        let contents = batch.column(1).as_binary::<i32>().iter().flatten();
        let contents = contents.map(|content| String::from_utf8_lossy(content).into_owned());
        let paths = batch.column(0).as_string::<i32>().iter().flatten().map(str::to_owned);
        paths.zip(contents).collect::<Vec<_>>()
    };
    batches.iter().flat_map(of_batch).collect()
}

async fn plan(ctx: &SessionContext, query: &str) -> Result<Arc<dyn ExecutionPlan>> {
    ctx.sql(query).await?.create_physical_plan().await
}

/// Every file is a row of its assigned partition, in listing order.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn files_are_divided_and_read_in_their_order() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let files = some_files(dir.path(), 60)?;
    let query = format!("SELECT path, content FROM files('{}/*')", dir.path().display());
    let ctx = SessionContext::new_with_config(reproducible(SessionConfig::new().with_target_partitions(4)));
    ctx.register_udtf(FilesFunction::NAME, Arc::new(FilesFunction::default()));
    let plan = plan(&ctx, &query).await?;
    for _ in 0..2 {
        let partitions = collect_partitioned(Arc::clone(&plan), ctx.task_ctx()).await?;
        let counts: Vec<_> = partitions.iter().map(|batches| row_count(batches)).collect();
        assert_eq!(counts, [16, 15, 15, 14]);
        assert!(with_content(&partitions.concat()) == files);
    }
    Ok(())
}

/// If a session assigns files to idle partitions, each is still read exactly once.
#[tokio::test(flavor = "multi_thread")]
async fn every_file_is_read_once() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let files = some_files(dir.path(), 60)?;
    let ctx = session(4);
    let query = format!("SELECT path, content FROM files('{}/*')", dir.path().display());
    for _ in 0..5 {
        let mut found = with_content(&ctx.sql(&query).await?.collect().await?);
        found.sort();
        assert!(found == files, "{} files", found.len());
    }
    Ok(())
}

/// The function also works on a single-threaded runtime.
#[tokio::test]
async fn a_single_thread_is_enough() -> Result<()> {
    let dir = tempfile::tempdir()?;
    some_files(dir.path(), 5)?;
    assert_eq!(rows(&format!("SELECT count(*) FROM files('{}')", dir.path().display())).await?, [["5"]]);
    Ok(())
}

/// The extensions of a plan's files are lost if the plan passes through another process.
#[tokio::test]
async fn files_function_reads_without_plan_extensions() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let files = some_files(dir.path(), 9)?;
    let ctx = session(2);
    let query = format!("SELECT path, content FROM files('{}')", dir.path().display());
    let plan = plan(&ctx, &query).await?;
    let scan = plan.downcast_ref::<DataSourceExec>().expect("a scan");
    let mut config = scan.data_source().downcast_ref::<FileScanConfig>().expect("of files").clone();
    for group in &mut config.file_groups {
        let files = group.files().iter().cloned().map(|mut file| {
            file.extensions = Default::default();
            file
        });
        *group = files.collect::<Vec<_>>().into();
    }
    let batches = collect_partitioned(DataSourceExec::from_data_source(config), ctx.task_ctx()).await?.concat();
    assert_eq!(batches.len(), 9);
    let mut found = with_content(&batches);
    found.sort();
    assert_eq!(found, files);
    Ok(())
}

#[tokio::test]
async fn batches_are_bounded_by_bytes() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let long = vec![b'x'; 6 << 20];
    for number in 0..5 {
        write(dir.path(), &[(&format!("{number}"), &long)])?;
    }
    write(dir.path(), &[("5", &vec![b'y'; 20 << 20]), ("6", b"z")])?;
    let batches =
        session(1).sql(&format!("SELECT content FROM files('{}')", dir.path().display())).await?.collect().await?;
    let counts: Vec<_> = batches.iter().map(RecordBatch::num_rows).collect();
    assert_eq!(counts, [2, 2, 1, 1, 1]);
    Ok(())
}

#[tokio::test]
async fn files_function_answers_from_the_listing() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().display();
    write(dir.path(), &[("label=cat/1.jpg", b"a"), ("label=dog/2.jpg", b"bb"), ("label=dog/3.png", b"ccc")])?;
    let ctx = session(2);
    let query = format!(
        "SELECT content, size, label FROM files('{path}/**') WHERE label = 'dog' AND path LIKE '%.jpg' AND size < 3"
    );
    let plan = plan(&ctx, &query).await?;
    let shown = displayable(plan.as_ref()).indent(false).to_string();
    assert!(shown.starts_with("DataSourceExec: file_groups={1 group: [["), "{shown}");
    assert!(shown.contains("label=dog/2.jpg]]}") && !shown.contains("Filter"), "{shown}");
    assert_eq!(texts(&collect_partitioned(plan, ctx.task_ctx()).await?.concat())?, [["6262", "2", "dog"]]);

    // Missing files do not matter if they are not read.
    let frame = ctx.sql(&format!("SELECT path, modified FROM files('{path}/**') LIMIT 2")).await?;
    std::fs::remove_file(dir.path().join("label=cat/1.jpg"))?;
    let batches = frame.collect().await?;
    assert_eq!(row_count(&batches), 2);
    let found: BTreeSet<_> =
        texts(&batches)?.into_iter().map(|row| row[0].rsplit_once('/').expect("a path").1.to_owned()).collect();
    assert_eq!(found, BTreeSet::from(["1.jpg".to_owned(), "2.jpg".to_owned()]));
    Ok(())
}

#[tokio::test]
async fn directories_of_partitions_are_columns() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().display();
    write(dir.path(), &[("n=1/b", b"x"), ("n=__HIVE_DEFAULT_PARTITION__/a", b"yy"), ("n=7/_SUCCESS", b"")])?;
    let found = rows(&format!("SELECT n, size + coalesce(n, 0) FROM files('{path}') ORDER BY size")).await?;
    assert_eq!(found, [["1", "2"], ["NULL", "2"]]);
    write(dir.path(), &[("size=1/b", b"x")])?;
    let refused = refused(&format!("SELECT * FROM files('{path}/size=*')")).await;
    assert!(refused.ends_with("size=1/b: column \"size\" is both in the file and in its path"), "{refused}");
    Ok(())
}

#[tokio::test]
async fn files_function_rejects_a_file_that_changed() -> Result<()> {
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("1", b"a"), ("2", b"b")])?;
    let frame = session(1).sql(&format!("SELECT content FROM files('{}')", dir.path().display())).await?;
    write(dir.path(), &[("2", b"longer")])?;
    let error = chain(&frame.collect().await.expect_err("another file"));
    assert!(error.contains("/2: the file changed while it was read"), "{error}");
    Ok(())
}

/// Among all rows computed together, the failing one is reported.
#[tokio::test]
async fn an_expression_that_fails_names_the_file() -> Result<()> {
    let dir = tempfile::tempdir()?;
    write(dir.path(), &[("1", b"12"), ("2", b"x"), ("3", b"14")])?;
    let query = "SELECT CAST(CAST(content AS VARCHAR) AS INT) FROM files";
    let refused = refused(&format!("{query}('{}')", dir.path().display())).await;
    assert!(refused.contains("/2: the query fails over this file: "), "{refused}");
    assert!(refused.contains("Cannot cast string 'x'"), "{refused}");
    Ok(())
}
