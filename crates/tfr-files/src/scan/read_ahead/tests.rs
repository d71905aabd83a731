use datafusion_datasource::PartitionedFile;
use object_store::memory::InMemory;

use super::*;

async fn store(files: usize) -> Result<(Arc<InMemory>, Vec<ObjectMeta>)> {
    let store = Arc::new(InMemory::new());
    let mut metas = Vec::new();
    for file in 0..files {
        let path = Path::from(format!("f{file}"));
        store.put(&path, format!("content of {file}").into()).await?;
        metas.push(store.head(&path).await?);
    }
    Ok((store, metas))
}

fn group(metas: &[ObjectMeta]) -> FileGroup {
    FileGroup::new(metas.iter().cloned().map(PartitionedFile::new_from_meta).collect())
}

#[tokio::test]
async fn read_ahead_fetches_files_before_they_are_requested() -> Result<()> {
    let (store, metas) = store(100).await?;
    let ahead = ReadAhead::new(Arc::clone(&store) as _, &[group(&metas)]);
    assert_eq!(ahead.get_range(&metas[0].location, 0..7).await?, "content");
    let fetches: Vec<Fetch> = ahead.partitions[0].fetched.lock().unwrap().values().cloned().collect();
    assert_eq!(fetches.len(), ReadAhead::FILES);
    futures::future::join_all(fetches).await;
    // From now on they are read from memory: the store no longer has them.
    for meta in &metas[..ReadAhead::FILES] {
        store.delete(&meta.location).await?;
    }
    assert_eq!(ahead.get_range(&metas[63].location, 11..13).await?, "63");
    assert_eq!(ahead.get_ranges(&metas[63].location, &[0..3, 11..13]).await?, ["con", "63"]);
    assert_eq!(ahead.get(&metas[63].location).await?.bytes().await?, "content of 63");
    // Earlier files are released.
    assert!(ahead.get(&metas[3].location).await.is_err());
    Ok(())
}

#[tokio::test]
async fn read_ahead_bounds_the_files_it_holds() -> Result<()> {
    let (store, metas) = store(100).await?;
    let groups: Vec<_> = metas.chunks(25).map(group).collect();
    let ahead = ReadAhead::new(store, &groups);
    for position in 0..25 {
        for partition in 0..4 {
            ahead.get(&metas[partition * 25 + position].location).await?;
        }
        let held: usize = ahead.partitions.iter().map(|partition| partition.fetched.lock().unwrap().len()).sum();
        // The file read before each window is held with it.
        assert!(held <= ReadAhead::FILES + 4, "{held}");
    }
    Ok(())
}

#[tokio::test]
async fn read_ahead_forwards_conditional_requests() -> Result<()> {
    let (store, metas) = store(3).await?;
    let ahead = ReadAhead::new(Arc::clone(&store) as _, &[group(&metas)]);
    ahead.get(&metas[0].location).await?;
    let path = &metas[0].location;
    let with = |options: GetOptions| ahead.get_opts(path, options);
    let e_tag = metas[0].e_tag.clone();
    assert!(with(GetOptions { if_match: e_tag.clone(), ..GetOptions::default() }).await.is_ok());
    assert!(with(GetOptions { if_match: Some("other".to_owned()), ..GetOptions::default() }).await.is_err());
    assert!(with(GetOptions { if_none_match: e_tag, ..GetOptions::default() }).await.is_err());
    assert!(ahead.get_range(path, 100..101).await.is_err());
    assert!(ahead.get(&Path::from("none")).await.is_err());
    assert_eq!(ahead.head(path).await?.size, 12);
    Ok(())
}
