//! Splits: disjoint by key, the same in every run, and with exact row counts.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::Path;

use datafusion::error::Result;
use datafusion_tfrecord::WriteOptions;
use tempfile::tempdir;
use tfrecord_shards::{Manifest, Sharding};

use super::super::support::{Pace, Partitions, count, external, ids, options, partitions, plan, run, session};
use super::support::{splits, tree};

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
