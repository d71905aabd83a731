//! Sets in a store that renames directories: readers see all files of the old set or of the new one, or no set, and never a
//! part. What a killed run has left between two renames is mended by the next one.

use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::object_store::path::Path;
use datafusion::object_store::{ObjectStoreExt, PutPayload};
use datafusion_tfrecord::write::WriteOptions;
use tfr_stores::DirectoryStore as _;
use tfrecord_shards::SaveMode;

use super::faulty::{Fault, FaultyStore, Request};
use super::{arranged, by_day, count, ids, partitions, to_store, upload};

/// Returns a store with the set of these ids.
async fn with_set(ids: &[i64]) -> Result<FaultyStore> {
    let store = FaultyStore::of_directories();
    upload(&store, &vec![ids.to_vec()], to_store(count(2), SaveMode::Error)?).await?;
    Ok(store)
}

#[tokio::test(flavor = "multi_thread")]
async fn directory_of_a_set_is_renamed_as_a_whole() -> Result<()> {
    let store = with_set(&[7, 8, 9]).await?;
    let expected = ["_SUCCESS", "_manifest.json", "part-00000-of-00002.tfrecord", "part-00001-of-00002.tfrecord"];
    let expected = expected.map(|name| format!("train/{name}"));
    assert_eq!(store.keys().await?, expected);
    upload(&store, &partitions(&[5, 5]), by_day(to_store(count(1), SaveMode::Overwrite)?)).await?;
    assert_eq!(ids(&store.files()).await?, Some((0..10).collect()));
    // Nothing of the old set, and nothing beside it.
    let keys = store.keys().await?;
    assert_eq!(keys.len(), 5, "{keys:?}");
    assert!(keys[2].starts_with("train/day=0/part-00000-of-"), "{keys:?}");
    upload(&store, &vec![vec![10]], by_day(to_store(count(1), SaveMode::Append)?)).await?;
    assert_eq!(ids(&store.files()).await?, Some((0..11).collect()));
    assert_eq!(store.keys().await?.len(), 6);
    Ok(())
}

/// Fails every request in turn, before or after it is carried out.
async fn one_fails(before: &FaultyStore, options: impl Fn() -> Result<WriteOptions>) -> Result<()> {
    let (old, keys) = (ids(&before.files()).await?, before.visible_keys().await?);
    let table = partitions(&[40, 20]);
    let whole = before.fork(None);
    upload(&whole, &table, options()?).await?;
    let new = ids(&whole.files()).await?;
    assert!(new.is_some() && new != old);
    for request in Request::ALL.into_iter().chain(Request::OF_DIRECTORIES) {
        for number in 0..whole.count(request).max(2) {
            for done in [false, true] {
                let store = before.fork(Some(Fault::One { request, number, done }));
                let result = upload(&store, &table, options()?).await;
                let place = format!("{request:?} {number}, done: {done}: {result:?}");
                assert_eq!(
                    ids(&store.files()).await?,
                    if result.is_ok() { new.clone() } else { old.clone() },
                    "{place}"
                );
                let found = store.visible_keys().await?;
                match result {
                    Ok(manifest) => assert!(found.len() >= manifest.shards.len() + 2, "{place}: {found:?}"),
                    Err(_) => assert_eq!(found, keys, "{place}"),
                }
            }
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn directory_store_failing_at_any_request_leaves_the_old_or_the_new_set() -> Result<()> {
    let vacant = FaultyStore::of_directories();
    one_fails(&vacant, || to_store(count(3), SaveMode::Error)).await?;
    one_fails(&vacant, || arranged(to_store(count(2), SaveMode::Append)?)).await?;
    let store = with_set(&[7, 8, 9]).await?;
    one_fails(&store, || to_store(count(3), SaveMode::Overwrite)).await?;
    one_fails(&store, || to_store(count(3), SaveMode::Append)).await
}

/// From some request on the store does not answer, as if the machine were gone.
#[tokio::test(flavor = "multi_thread")]
async fn directory_store_after_a_kill_is_mended_by_the_next_run() -> Result<()> {
    let (vacant, occupied) = (FaultyStore::of_directories(), with_set(&[107, 108]).await?);
    let table = partitions(&[40, 20]);
    let new: Vec<_> = (0..60).collect();
    let mut absent = 0;
    for (before, old) in [(&vacant, vec![]), (&occupied, vec![107, 108])] {
        for first in 0.. {
            let store = before.fork(Some(Fault::From(first)));
            let result = upload(&store, &table, to_store(count(3), SaveMode::Overwrite)?).await;
            let found = ids(&store.files()).await?;
            let place = format!("from {first}: {found:?}, {result:?}");
            assert!(found.is_none() || found.as_ref() == Some(&new) || found.as_ref() == Some(&old), "{place}");
            assert!(result.is_err() || found.as_ref() == Some(&new), "{place}");
            absent += usize::from(found.is_none() && !old.is_empty());
            let next = store.fork(None);
            upload(&next, &vec![vec![200]], to_store(count(1), SaveMode::Append)?).await?;
            let mended = ids(&next.files()).await?.unwrap_or_default();
            let rest = &mended[..mended.len() - 1];
            let expected = [Some(&old), Some(&new)].contains(&Some(&rest.to_vec()));
            assert!(expected && mended.ends_with(&[200]), "{place}: {mended:?}");
            // What was absent was complete, and its name is there now.
            assert!(found.is_some() || old.is_empty() || rest == new, "{place}: {mended:?}");
            if store.requests() <= first {
                break;
            }
        }
    }
    assert!(absent > 0, "no kill was between the two renames");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn directory_store_lets_one_of_two_writers_win() -> Result<()> {
    for (mode, set) in [(SaveMode::Error, false), (SaveMode::Overwrite, false), (SaveMode::Overwrite, true)] {
        for _ in 0..20 {
            let store = if set { with_set(&[107, 108]).await? } else { FaultyStore::of_directories() };
            let tables = [partitions(&[40, 20]), partitions(&[10, 10])];
            let both = futures::join!(
                upload(&store, &tables[0], to_store(count(3), mode)?),
                upload(&store, &tables[1], to_store(count(3), mode)?),
            );
            let found = ids(&store.files()).await?;
            match both {
                (Ok(_), Err(_)) => assert_eq!(found, Some((0..60).collect())),
                (Err(_), Ok(_)) => assert_eq!(found, Some((0..20).collect())),
                // One after the other.
                (Ok(_), Ok(_)) => {
                    assert_eq!(mode, SaveMode::Overwrite);
                    assert!([20, 60].map(|end| Some((0..end).collect())).contains(&found), "{found:?}");
                }
                (Err(one), Err(other)) => panic!("{one}; {other}"),
            }
            assert_eq!(store.keys().await?.len(), 5, "{:?}", store.keys().await?);
        }
    }
    Ok(())
}

/// A run that was adding to the set has made the directory again, between the two renames of another run.
#[tokio::test(flavor = "multi_thread")]
async fn directory_store_is_mended_although_a_hidden_file_is_at_the_target() -> Result<()> {
    let store = with_set(&[107, 108]).await?;
    let new = FaultyStore::of_directories().with_files(&store.files());
    let (target, aside) = (Path::from("train"), Path::parse(".tfr-nightly7.replaced-train")?);
    store.rename_directory(&target, &aside).await?;
    upload(&new, &vec![vec![1, 2, 3]], to_store(count(1), SaveMode::Error)?).await?;
    store.rename_directory(&target, &Path::parse(".tfr-nightly7-train/.tfr.set")?).await?;
    store.put(&Path::from("train/.tfr.0"), PutPayload::from_static(b"half")).await?;
    upload(&store, &vec![vec![4]], to_store(count(1), SaveMode::Append)?).await?;
    assert_eq!(ids(&store.files()).await?, Some(vec![1, 2, 3, 4]));
    assert_eq!(store.keys().await?.len(), 4);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn directory_store_keeps_foreign_files_and_replaced_sets() -> Result<()> {
    let store = FaultyStore::of_directories();
    store.put(&Path::from("train/notes.txt"), PutPayload::from_static(b"mine")).await?;
    for mode in [SaveMode::Error, SaveMode::Overwrite, SaveMode::Append] {
        let error = upload(&store, &vec![vec![1]], to_store(count(1), mode)?).await.expect_err("a file of others");
        assert!(error.to_string().contains("notes.txt"), "{mode:?}: {error}");
        assert_eq!(store.keys().await?, ["train/notes.txt"], "{mode:?}");
    }
    // Moved aside by a run whose set is gone: whoever has removed the target decides.
    let store = with_set(&[7, 8]).await?;
    let aside = Path::parse(".tfr-nightly7.replaced-train")?;
    store.rename_directory(&Path::from("train"), &aside).await?;
    upload(&store, &vec![vec![1]], to_store(count(1), SaveMode::Error)?).await?;
    assert_eq!(ids(&store.files()).await?, Some(vec![1]));
    assert!(store.keys().await?.iter().any(|key| key.starts_with(aside.as_ref())));
    upload(&store, &vec![vec![2]], to_store(count(1), SaveMode::Overwrite)?).await?;
    assert_eq!(store.keys().await?.len(), 3);
    Ok::<_, DataFusionError>(())
}
