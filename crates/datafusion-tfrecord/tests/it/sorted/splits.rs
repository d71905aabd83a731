//! Splits: disjoint by key, the same in every run, and with exact row counts.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::Path;

use datafusion::error::Result;
use datafusion_tfrecord::{SplitOptions, WriteOptions};
use tempfile::tempdir;
use tfrecord_shards::{Manifest, SaveMode, Sharding, SplitDescription};

use super::super::support::{Pace, Partitions, count, external, ids, options, partitions, plan, run, session};
use super::support::{small_session, splits, tree};

/// The ids in each split, in the order of its shards.
fn by_split(out: &Path) -> Result<BTreeMap<String, Vec<i64>>> {
    let manifest = Manifest::read(out).map_err(external)?;
    let mut found: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for shard in &manifest.shards {
        let split = shard.split.clone().expect("every shard is one of a split");
        assert!(shard.path.starts_with(&format!("{split}-")), "{}", shard.path);
        found.entry(split).or_default().extend(ids(&out.join(&shard.path))?);
    }
    Ok(found)
}

async fn written(table: &Partitions, query: &str, options: WriteOptions) -> Result<()> {
    let context = session(table, Pace::default())?;
    run(&context, plan(&context, query, options).await?).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn split_keeps_keys_in_one_split_when_rows_are_added() -> Result<()> {
    let query = "SELECT *, CAST(id % 1000 AS SMALLINT) AS user FROM t";
    let mut before: Option<BTreeMap<i64, String>> = None;
    for (lengths, shuffle) in [(&[3000, 1000][..], None), (&[5000, 3000, 10], Some(3))] {
        let dir = tempdir()?;
        let out = dir.path().join("out");
        let splits = splits("train=0.8,val=0.15,test=0.05", &["user"]);
        let options = WriteOptions { splits, shuffle, ..options(&out, count(2)) };
        written(&partitions(lengths), query, options).await?;
        let found = by_split(&out)?;
        let mut split_of = BTreeMap::new();
        for (split, ids) in &found {
            for id in ids {
                split_of.insert(*id, split.clone());
                let user = split_of.entry(-1 - id % 1000).or_insert_with(|| split.clone());
                assert_eq!(user, split, "user {}", id % 1000);
            }
        }
        assert_eq!(found.values().map(Vec::len).sum::<usize>(), lengths.iter().sum::<usize>());
        let users: BTreeSet<_> = found["train"].iter().map(|id| id % 1000).collect();
        // A mean of 800 and a deviation of 12.6; four of them to either side.
        assert!((750..850).contains(&users.len()), "{}", users.len());
        if let Some(before) = before.replace(split_of.clone()) {
            assert!(before.iter().all(|(id, split)| split_of[id] == *split));
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn split_by_record_keeps_order_and_its_own_shard_count() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("out");
    let six = NonZeroUsize::new(6).expect("six");
    let options = WriteOptions {
        splits: splits("train=0.9,val=0.1", &[]),
        split_shards: BTreeMap::from([("train".to_owned(), six)]),
        ..options(&out, Sharding::Rows(50))
    };
    written(&partitions(&[900, 300]), "SELECT * FROM t", options).await?;
    let found = by_split(&out)?;
    assert!(found.values().all(|ids| ids.is_sorted()));
    let train = found["train"].len();
    // A mean of 1,080 and a deviation of 10.4; four of them to either side.
    assert!((1038..1122).contains(&train), "{train}");
    let manifest = Manifest::read(&out).map_err(external)?;
    let of = |split: &str| -> Vec<_> {
        manifest.shards.iter().filter(|shard| shard.split.as_deref() == Some(split)).map(|shard| shard.rows).collect()
    };
    assert_eq!(of("train").len(), 6);
    assert!(of("train").iter().all(|rows| rows.abs_diff(train as u64 / 6) <= 1));
    assert_eq!(of("val").len(), (1200 - train).div_ceil(50));
    assert_eq!(manifest.splits.iter().map(|split| split.name.as_str()).collect::<Vec<_>>(), ["train", "val"]);
    assert!(manifest.shards[0].path.starts_with("train-00000-of-00006"), "{}", manifest.shards[0].path);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn row_splits_are_parts_of_the_shuffled_rows() -> Result<()> {
    let dir = tempdir()?;
    let whole = dir.path().join("whole");
    // Equal rows, too: the ids of the last partition are those of the first.
    let table: Partitions = vec![(0..3000).collect(), (3000..5000).collect(), (0..1000).collect()];
    written(&table, "SELECT * FROM t", WriteOptions { shuffle: Some(7), ..options(&whole, count(1)) }).await?;
    let whole = ids(&whole.join("part-00000-of-00001.tfrecord"))?;
    let three = NonZeroUsize::new(3).expect("three");
    let sizes = [("train", 4000), ("val", 1501), ("test", 499)];
    for (sharding, table, memory) in [
        (Sharding::default(), table.clone(), None),
        (Sharding::Bytes(20_000), vec![(0..5000).rev().chain(0..1000).collect()], None),
        (Sharding::Bytes(20_000), table.clone(), Some(600 << 10)),
        (Sharding::Rows(700), table.clone(), Some(600 << 10)),
        (count(2), table.clone(), None),
        (Sharding::Hosts(three), table.clone(), None),
    ] {
        let out = dir.path().join("out");
        let splits = Some(SplitOptions::Rows("train=4000rows,val=rest,test=499rows".parse().map_err(external)?));
        let split_shards = BTreeMap::from([("val".to_owned(), three)]);
        let options = WriteOptions {
            splits,
            split_shards,
            shuffle: Some(7),
            mode: SaveMode::Overwrite,
            ..options(&out, sharding)
        };
        let context = match memory {
            Some(memory) => small_session(&table, Pace::default(), memory)?,
            None => session(&table, Pace::default())?,
        };
        run(&context, plan(&context, "SELECT * FROM t", options).await?).await?;
        let found = by_split(&out)?;
        let mut start = 0;
        let manifest = Manifest::read(&out).map_err(external)?;
        for ((name, rows), described) in sizes.into_iter().zip(&manifest.splits) {
            assert_eq!(found[name], whole[start..start + rows], "{name} of {sharding:?}");
            start += rows;
            let expected =
                SplitDescription { rows: Some(rows as u64), ..SplitDescription::new(name, rows as f64 / 6000.0) };
            assert_eq!(*described, expected);
        }
        let rows_of = |name: &str| -> Vec<u64> {
            let shards = manifest.shards.iter().filter(|shard| shard.split.as_deref() == Some(name));
            shards.map(|shard| shard.rows).collect()
        };
        assert_eq!(rows_of("val"), [500, 500, 501]);
        match sharding {
            Sharding::Bytes(20_000) => {
                assert!(
                    manifest
                        .shards
                        .iter()
                        .all(|shard| shard.split.as_deref() == Some("val") || shard.framed_bytes <= 20_000)
                );
                assert!(rows_of("train").len() > 5);
            }
            Sharding::Rows(_) => {
                assert_eq!(rows_of("train"), [700, 700, 700, 700, 700, 500]);
            }
            Sharding::Count(_) => assert_eq!((rows_of("train").len(), rows_of("test").len()), (2, 2)),
            _ => assert_eq!((rows_of("train").len(), rows_of("test").len()), (1, 1)),
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn row_splits_reject_what_is_not_exact() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("out");
    let context = session(&partitions(&[10]), Pace::default())?;
    let splits = |text: &str| Some(SplitOptions::Rows(text.parse().expect("splits")));
    let base = || WriteOptions { shuffle: Some(1), splits: splits("a=8rows,b=2rows"), ..options(&out, count(1)) };
    let mut refusals = Vec::new();
    for (query, options) in [
        ("SELECT * FROM t", WriteOptions { shuffle: None, ..base() }),
        ("SELECT * FROM t", WriteOptions { partition_by: vec!["name".to_owned()], ..base() }),
        ("SELECT * FROM t", WriteOptions { mode: SaveMode::Append, ..base() }),
        // Their numbers are known when the rows have been read.
        ("SELECT * FROM t WHERE id > 0", base()),
        ("SELECT * FROM t WHERE id < 0", WriteOptions { splits: splits("a=1rows"), ..base() }),
        ("SELECT * FROM t WHERE id >= 0", WriteOptions { splits: splits("a=rest,b=10rows"), ..base() }),
    ] {
        let refused = match plan(&context, query, options).await {
            Ok(plan) => run(&context, plan).await.map(drop),
            Err(error) => Err(error),
        };
        refusals.push(refused.expect_err("refused").to_string().replace("External error: ", ""));
        assert!(!out.exists());
    }
    assert_eq!(
        refusals,
        [
            "splits a=8rows,b=2rows: exact numbers of rows are cut from shuffled rows, and these are not shuffled",
            "splits a=8rows,b=2rows: exact numbers of rows cannot be cut in partition directories",
            "splits a=8rows,b=2rows: exact numbers of rows cannot be cut from rows that are appended to a set",
            "splits a=8rows,b=2rows: expected 10 rows, found 9",
            "splits a=1rows: expected 1 rows, found 0",
            "splits a=rest,b=10rows: expected more than 10 rows, found 10",
        ]
    );
    run(&context, plan(&context, "SELECT * FROM t", base()).await?).await?;
    let append = WriteOptions { mode: SaveMode::Append, ..options(&out, count(1)) };
    let error = plan(&context, "SELECT * FROM t", append).await.expect_err("refused").to_string();
    assert!(error.ends_with("its splits have exact numbers of rows"), "{error}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn split_column_names_the_split_of_each_row() -> Result<()> {
    let dir = tempdir()?;
    let out = dir.path().join("out");
    let query = |part: &str| format!("SELECT *, {part} AS part FROM t");
    let by_id = query("CASE WHEN id % 10 = 3 THEN 'val' ELSE 'train' END");
    let column = || Some(SplitOptions::Column("part".to_owned()));
    let base = || WriteOptions { splits: column(), ..options(&out, Sharding::Rows(500)) };
    written(&partitions(&[1500, 1500]), &by_id, base()).await?;
    let (val, train): (Vec<i64>, Vec<i64>) = (0..3000).partition(|id| id % 10 == 3);
    assert_eq!(by_split(&out)?, BTreeMap::from([("train".to_owned(), train), ("val".to_owned(), val)]));
    let manifest = Manifest::read(&out).map_err(external)?;
    assert_eq!(manifest.splits, [SplitDescription::new("train", 0.9), SplitDescription::new("val", 0.1)]);
    assert_eq!(manifest.split_column.as_deref(), Some("part"));
    let columns = manifest.arrow_schema().map_err(external)?.expect("columns");
    assert_eq!(columns.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), ["id", "name"]);

    let append = WriteOptions { mode: SaveMode::Append, ..base() };
    written(&partitions(&[1000]), &query("'test'"), append.clone()).await?;
    let fractions: Vec<_> =
        Manifest::read(&out).map_err(external)?.splits.into_iter().map(|split| split.fraction).collect();
    assert_eq!(fractions, [0.675, 0.075, 0.25]);

    let context = session(&partitions(&[2000]), Pace::default())?;
    for (query, options, expected) in [
        (query("CASE WHEN id < 7 THEN 'a' END"), append.clone(), "row 7: split column \"part\": no value"),
        (
            query("CASE WHEN id < 7 THEN 'a' ELSE 'a-b' END"),
            append.clone(),
            "row 7: split column \"part\": split \"a-b\": ",
        ),
        (query("CASE WHEN id < 7 THEN 'a' ELSE 'A' END"), append.clone(), "splits \"A\" and \"a\" differ only in case"),
        (query("id"), append.clone(), "split column \"part\": values of type Int64 cannot name splits"),
        (
            "SELECT * FROM t".to_owned(),
            WriteOptions { splits: splits("a=0.5,b=0.5", &[]), ..append.clone() },
            "by the names in part",
        ),
        (
            query("'a'"),
            WriteOptions { split_shards: BTreeMap::from([("b".to_owned(), NonZeroUsize::MIN)]), ..append.clone() },
            "shards for split \"b\": the splits are a",
        ),
        (query("'a'"), WriteOptions { partition_by: vec!["part".to_owned()], ..append }, "\"part\" occurs twice"),
    ] {
        let refused = match plan(&context, &query, options).await {
            Ok(plan) => run(&context, plan).await.map(drop),
            Err(error) => Err(error),
        };
        let refused = refused.expect_err("refused").to_string();
        assert!(refused.contains(expected), "{refused}");
        assert_eq!(Manifest::read(&out).map_err(external)?.totals.rows, 4000);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn split_without_rows_has_empty_shards() -> Result<()> {
    for (sharding, rows, expected) in [
        (count(2), 1, ["a-00000-of-00002", "a-00001-of-00002", "b-00000-of-00002", "b-00001-of-00002"].as_slice()),
        (count(1), 0, &["a-00000-of-00001", "b-00000-of-00001"]),
        (Sharding::default(), 1, &["a-00000-of-00001", "b-00000-of-00001"]),
        (Sharding::default(), 0, &["a-00000-of-00001", "b-00000-of-00001"]),
    ] {
        for shuffle in [None, Some(1)] {
            let dir = tempdir()?;
            let out = dir.path().join("out");
            let options = WriteOptions { splits: splits("a=0.5,b=0.5", &[]), shuffle, ..options(&out, sharding) };
            written(&partitions(&[rows]), "SELECT * FROM t", options).await?;
            let files = tree(&out)?;
            let names: Vec<_> = files.keys().filter_map(|name| name.strip_suffix(".tfrecord")).collect();
            assert_eq!(names, expected, "{sharding:?} of {rows}");
            assert_eq!(by_split(&out)?.values().map(Vec::len).sum::<usize>(), rows);
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn split_rejects_unknown_columns_and_splits() -> Result<()> {
    let dir = tempdir()?;
    let context = session(&partitions(&[10]), Pace::default())?;
    let options = || options(&dir.path().join("out"), count(2));
    let one = NonZeroUsize::MIN;
    let refused = [
        WriteOptions { splits: splits("a=0.5,b=0.5", &["idd"]), ..options() },
        WriteOptions {
            splits: splits("a=0.5,b=0.5", &[]),
            split_shards: BTreeMap::from([("c".to_owned(), one)]),
            ..options()
        },
        WriteOptions { split_shards: BTreeMap::from([("a".to_owned(), one)]), ..options() },
        WriteOptions { partition_by: vec!["day".to_owned()], ..options() },
        WriteOptions { partition_by: vec!["id".to_owned(), "id".to_owned()], ..options() },
        WriteOptions { partition_by: vec!["id".to_owned(), "name".to_owned()], ..options() },
    ];
    let mut kinds = Vec::new();
    for options in refused {
        let error = plan(&context, "SELECT * FROM t", options).await.expect_err("refused");
        let datafusion::error::DataFusionError::External(error) = error else { panic!("{error:?}") };
        let error = error.downcast::<datafusion_tfrecord::Error>().expect("one of ours");
        kinds.push(error.to_string());
    }
    assert_eq!(
        kinds,
        [
            "no split column \"idd\": the columns are id, name",
            "shards for split \"c\": the splits are a, b",
            "shards for split \"a\": there are no splits",
            "no partition column \"day\": the columns are id, name",
            "partition column \"id\" occurs twice",
            "no column is left for the records: all are in the names of directories: id, name",
        ]
    );
    Ok(())
}
