//! Partition directories: named as in Hive, and read back as the original columns.

use std::collections::BTreeMap;
use std::path::Path;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::Result;
use datafusion::physical_plan::displayable;
use datafusion::prelude::SessionContext;
use datafusion_tfrecord::{ReadOptions, WriteOptions, read};
use tempfile::tempdir;
use tfr_stores::Location;
use tfrecord_framing::Compression;
use tfrecord_shards::{SetState, Sharding, check};

use super::super::support::{Pace, count, external, names, options, partitions, plan, run, session};
use super::support::{small_session, splits, tree};

fn by(columns: &[&str], options: WriteOptions) -> WriteOptions {
    WriteOptions { partition_by: columns.iter().map(|column| (*column).to_owned()).collect(), ..options }
}

/// Writes a query without a table.
async fn write(query: &str, options: WriteOptions) -> Result<()> {
    let context = session(&partitions(&[0]), Pace::default())?;
    run(&context, plan(&context, query, options).await?).await?;
    Ok(())
}

async fn open(location: &str) -> Result<SessionContext> {
    let context = SessionContext::new();
    let location = Location::parse(location).map_err(external)?;
    context.register_table("r", read::open(&context.state(), &[location], &ReadOptions::default()).await?)?;
    Ok(context)
}

async fn shown(location: &str, query: &str) -> Result<String> {
    Ok(pretty_format_batches(&open(location).await?.sql(query).await?.collect().await?)?.to_string())
}

/// Returns the number of rows and the directories that a query over the shards of `out` reads.
async fn scanned(out: &Path, query: &str) -> Result<String> {
    let context = open(&out.to_string_lossy()).await?;
    let plan = context.sql(query).await?.create_physical_plan().await?;
    Ok(displayable(plan.as_ref()).indent(false).to_string())
}

/// Every type that can name directories, with a null, and texts that need escapes.
const ALL_TYPES: &str = "SELECT column1 AS id, column2 AS word, CAST(column3 AS SMALLINT) AS small, \
     CAST(column4 AS BOOLEAN) AS flag, CAST(column5 AS DATE) AS day, \
     CAST(column6 AS TIMESTAMP(6)) AS time, CAST(column7 AS DECIMAL(10, 2)) AS price, \
     arrow_cast(column2, 'Dictionary(Int32, Utf8)') AS code \
     FROM (VALUES (1, 'a/b=c', 7, true, '2026-01-01', '2026-01-01T09:00:00.5', 1.50), \
                  (2, '007', -7, false, '1969-12-31', '1969-12-31T23:59:59', -0.01), \
                  (3, '%41 {Ä:''\"?', 0, true, '2026-01-01', '2026-01-01T09:00:00', 0.0), \
                  (4, NULL, NULL, NULL, NULL, NULL, NULL)) AS v";

#[tokio::test(flavor = "multi_thread")]
async fn partitioned_set_reads_back_all_columns() -> Result<()> {
    let columns = ["word", "small", "flag", "day", "time", "price", "code"];
    for keep in [false, true] {
        let dir = tempdir()?;
        let out = dir.path().join("out");
        let options = WriteOptions { keep_partition_columns: keep, ..by(&columns, options(&out, count(3))) };
        write(ALL_TYPES, options).await?;
        let SetState::Whole(manifest) = check(&out).map_err(external)? else { panic!("not whole") };
        // No shard is empty, whatever number was requested.
        assert_eq!(manifest.shards.len(), 4);
        let context = session(&partitions(&[0]), Pace::default())?;
        let list = "id, word, small, flag, day, time, price, code";
        let types = "arrow_typeof(word) AS w, arrow_typeof(small) AS s, arrow_typeof(flag) AS f, arrow_typeof(day) AS d, \
                     arrow_typeof(time) AS t, arrow_typeof(price) AS p, arrow_typeof(code) AS c";
        let expected =
            context.sql(&format!("SELECT {list}, {types} FROM ({ALL_TYPES}) ORDER BY id")).await?.collect().await?;
        let expected = pretty_format_batches(&expected)?.to_string();
        let found = shown(&out.to_string_lossy(), &format!("SELECT {list}, {types} FROM r ORDER BY id")).await?;
        assert_eq!(found, expected, "keep: {keep}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_are_named_as_hive_names_them() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("out");
    write(ALL_TYPES, by(&["word", "time"], options(&out, Sharding::default()))).await?;
    let files = tree(&out)?;
    let null = "__HIVE_DEFAULT_PARTITION__";
    let shard = "part-00000-of-00001.tfrecord";
    let names: Vec<_> = files.keys().map(String::as_str).filter(|name| *name != "_SUCCESS").collect();
    let expected = [
        format!("word=%2541 %7BÄ%3A%27%22%3F/time=2026-01-01 09%3A00%3A00/{shard}"),
        format!("word=007/time=1969-12-31 23%3A59%3A59/{shard}"),
        format!("word={null}/time={null}/{shard}"),
        format!("word=a%2Fb%3Dc/time=2026-01-01 09%3A00%3A00.500/{shard}"),
    ];
    assert_eq!(names, expected);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn partition_of_null_and_of_empty_text_share_a_directory() -> Result<()> {
    let query = "SELECT column1 AS id, column2 AS word FROM (VALUES (1, ''), (2, NULL), (3, 'x')) AS v";
    for keep in [false, true] {
        let dir = tempdir()?;
        let out = dir.path().join("out");
        let options = by(&["word"], options(&out, Sharding::default()));
        write(query, WriteOptions { keep_partition_columns: keep, ..options }).await?;
        assert_eq!(tree(&out)?.len(), 3, "two shards and the mark of success");
        let found = shown(&out.to_string_lossy(), "SELECT id, word, word IS NULL AS n FROM r ORDER BY id").await?;
        let words = ["", "", "x"];
        for (line, word) in found.lines().skip(3).zip(words) {
            let cell = line.split('|').nth(2).expect("a second column").trim();
            assert_eq!(cell, word, "{found}");
        }
        assert_eq!(found.matches("true").count(), if keep { 1 } else { 2 }, "{found}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn partition_value_rejects_the_name_of_the_null_directory() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("out");
    let query = "SELECT column1 AS id, column2 AS word FROM (VALUES (1, 'x'), (2, '__HIVE_DEFAULT_PARTITION__')) AS v";
    let error = write(query, by(&["word"], options(&out, Sharding::default()))).await.expect_err("a null").to_string();
    assert!(
        error.ends_with(
            "row 1, partition column \"word\": the text \"__HIVE_DEFAULT_PARTITION__\" cannot be a partition value: it names \
             the directory of nulls"
        ),
        "{error}"
    );
    assert!(!out.exists());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_on_the_columns_of_directories_leave_files_out() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("out");
    let query = "SELECT id, CAST('2026-01-01' AS DATE) + CAST(id % 10 AS INT) AS day FROM t";
    let context = session(&partitions(&[600, 400]), Pace::default())?;
    let options =
        WriteOptions { splits: splits("train=0.7,val=0.3", &["id"]), ..by(&["day"], options(&out, count(2))) };
    run(&context, plan(&context, query, options).await?).await?;
    let scanned = scanned(&out, "SELECT id FROM r WHERE day = DATE '2026-01-04'").await?;
    assert!(scanned.contains("day=2026-01-04") && !scanned.contains("day=2026-01-05"), "{scanned}");
    let out = out.to_string_lossy();
    let count = "SELECT count(*) AS n, min(id) AS first FROM r WHERE day = DATE '2026-01-04'";
    let table = shown(&out, count).await?;
    assert!(table.contains("| 100 | 3     |"), "{table}");
    // One split, over all days or of one.
    for (pattern, days) in [("**/train-*", 10), ("day=*/train-*", 10), ("day=2026-01-04/train-*", 1)] {
        let query = "SELECT count(DISTINCT id) AS ids, count(DISTINCT id % 10) AS days, bool_and(arrow_typeof(id) = 'Int64') AS t FROM r";
        let table = shown(&format!("{out}/{pattern}"), query).await?;
        let cells: Vec<_> = table.lines().nth(3).expect("a row").split('|').map(str::trim).collect();
        let (ids, found): (usize, usize) = (cells[1].parse().expect("ids"), cells[2].parse().expect("days"));
        assert_eq!(found, days, "{pattern}: {table}");
        // A mean of 70 and a deviation of 4.6 for each day; five of them to either side.
        assert!(ids.abs_diff(70 * days) <= 23 * days, "{pattern}: {table}");
    }
    // Directories below the named one add no columns, but the manifest's types still apply.
    let table = shown(&format!("{out}/day=2026-01-04/"), "SELECT * FROM r ORDER BY id LIMIT 1").await?;
    assert!(table.contains("| id |") && table.contains("| 3  |"), "{table}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_do_not_depend_on_memory_batches_or_threads() -> Result<()> {
    let query = "SELECT id, name, id % 50 AS bucket, CASE WHEN id % 7 > 0 THEN id % 7 END AS day FROM t";
    for shuffle in [None, Some(5)] {
        let mut first = None;
        for (memory, batch_size, threads) in [(usize::MAX, 8192, 1), (700 << 10, 128, 2), (700 << 10, 1000, 1)] {
            let dir = tempdir()?;
            let out = dir.path().join("out");
            let context = small_session(&partitions(&[15_000, 9_000]), Pace { batch_size, seed: 3 }, memory)?;
            let threads = std::num::NonZeroUsize::new(threads);
            let options =
                WriteOptions { shuffle, threads, ..by(&["bucket", "day"], options(&out, Sharding::Rows(40))) };
            run(&context, plan(&context, query, options).await?).await?;
            let files = tree(&out)?;
            assert_eq!(
                files
                    .keys()
                    .filter_map(|name| name.split("part-").next())
                    .collect::<std::collections::BTreeSet<_>>()
                    .len(),
                351
            );
            assert!(*first.get_or_insert_with(|| files.clone()) == files, "{memory}, {batch_size}, {threads:?}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ordered_query_is_ordered_in_every_directory() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("out");
    let context = session(&partitions(&[500, 500, 500]), Pace::default())?;
    let query = "SELECT id, name, id % 3 AS part FROM t ORDER BY id DESC";
    let options = WriteOptions { ordered: true, ..by(&["part"], options(&out, count(2))) };
    run(&context, plan(&context, query, options).await?).await?;
    let mut ids: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for name in tree(&out)?.keys().filter(|name| name.ends_with(".tfrecord")) {
        let directory = name.split('/').next().expect("a directory").to_owned();
        ids.entry(directory).or_default().extend(super::super::support::ids(&out.join(name))?);
    }
    for part in 0..3 {
        let expected: Vec<_> = (0..1500).rev().filter(|id| id % 3 == part).collect();
        assert_eq!(ids[&format!("part={part}")], expected);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_without_rows_has_its_columns() -> Result<()> {
    for compression in [Compression::None, Compression::Gzip] {
        let dir = tempdir()?;
        let out = dir.path().join("out");
        let context = session(&partitions(&[0, 0]), Pace::default())?;
        let query = "SELECT id, CAST('2026-01-01' AS DATE) AS day FROM t";
        let options = WriteOptions { compression, ..by(&["day"], options(&out, count(3))) };
        run(&context, plan(&context, query, options).await?).await?;
        let null = "day=__HIVE_DEFAULT_PARTITION__/part-00000-of-00001.tfrecord";
        assert_eq!(tree(&out)?.keys().filter(|name| name.starts_with(null)).count(), 1);
        let found = shown(&out.to_string_lossy(), "SELECT count(*) AS n, arrow_typeof(min(day)) AS t FROM r").await?;
        assert!(found.contains("| 0 | Date32 |"), "{found}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_that_cannot_name_directories_are_refused() -> Result<()> {
    let dir = tempdir()?;
    let context = session(&partitions(&[10]), Pace::default())?;
    let options = || by(&["key"], options(&dir.path().join("out"), count(2)));
    for key in ["[id]", "arrow_cast(name, 'Binary')", "named_struct('a', id)"] {
        let query = format!("SELECT id, {key} AS key FROM t");
        let error = plan(&context, &query, options()).await.expect_err(key).to_string();
        assert!(error.contains("\"key\"") && error.contains("cannot name directories"), "{error}");
    }
    let query = "SELECT id, repeat('x', 300) AS key FROM t";
    let failing = plan(&context, query, options()).await?;
    let error = run(&context, failing.clone()).await.expect_err("longer than a name may be").to_string();
    assert!(error.contains("row 0"), "{error}");
    failing.settled().await;
    assert!(names(dir.path())?.is_empty());
    Ok(())
}
