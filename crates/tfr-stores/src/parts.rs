//! Splits long responses into several short ones.
//!
//! A request has a timeout, and a query may take longer than that to read a big file, for example while it sorts.
//! Responses longer than [`PART`] bytes are therefore fetched in parts, one ahead of the reader.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, Result};
use tokio::task::JoinSet;

use crate::change::{Change, strong_tag};

/// Bytes of a part. Two parts are held for each file being read.
pub(crate) const PART: u64 = 8 << 20;

/// Returns the bytes `range` of an object, of which `answer` has started to arrive.
pub(crate) fn in_parts<S: ObjectStore>(
    store: Arc<S>,
    meta: &ObjectMeta,
    range: Range<u64>,
    answer: BoxStream<'static, Result<Bytes>>,
) -> BoxStream<'static, Result<Bytes>> {
    let source = Source { store, meta: Arc::new(meta.clone()) };
    let first = spawned(beginning(answer));
    let start = range.start.saturating_add(PART);
    let parts = stream::try_unfold((Some(first), start), move |(task, start)| {
        let next = (start < range.end).then(|| source.fetch(start..range.end.min(start.saturating_add(PART))));
        async move {
            let Some(mut task) = task else { return Ok(None) };
            let Some(part) = task.join_next().await else { return Ok(None) };
            let part = part.unwrap_or_else(|source| Err(source.into()))?;
            Ok(Some((part, (next, start.saturating_add(PART)))))
        }
    });
    parts.boxed()
}

/// Starts a task that ends with its owner.
fn spawned(task: impl Future<Output = Result<Bytes>> + Send + 'static) -> JoinSet<Result<Bytes>> {
    let mut set = JoinSet::new();
    set.spawn(task);
    set
}

/// The object that the parts are fetched from, in the version of the first part.
struct Source<S> {
    store: Arc<S>,
    meta: Arc<ObjectMeta>,
}

impl<S: ObjectStore> Source<S> {
    fn fetch(&self, range: Range<u64>) -> JoinSet<Result<Bytes>> {
        let (store, meta) = (Arc::clone(&self.store), Arc::clone(&self.meta));
        spawned(async move {
            let options = GetOptions {
                range: Some(GetRange::Bounded(range)),
                if_match: strong_tag(&meta).map(str::to_owned),
                version: meta.version.clone(),
                ..GetOptions::default()
            };
            let part = store.get_opts(&meta.location, options).await?;
            // The server may ignore the condition.
            if let Some(change) = Change::between(&meta, &part.meta) {
                let (path, source) = (meta.location.to_string(), change.to_string().into());
                return Err(object_store::Error::Precondition { path, source });
            }
            part.bytes().await
        })
    }
}

/// Reads the first [`PART`] bytes of a response.
async fn beginning(mut answer: BoxStream<'static, Result<Bytes>>) -> Result<Bytes> {
    let len = usize::try_from(PART).unwrap_or(usize::MAX);
    let mut part = BytesMut::with_capacity(len);
    while part.len() < len
        && let Some(piece) = answer.try_next().await?
    {
        part.extend_from_slice(&piece[..piece.len().min(len - part.len())]);
    }
    Ok(part.freeze())
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use object_store::{GetResultPayload, ObjectStoreExt};

    use super::*;

    #[tokio::test]
    async fn parts_are_the_whole_in_order() -> Result<()> {
        let store = Arc::new(InMemory::new());
        let content: Vec<u8> = (0..3 * PART / 4 * 3).map(|byte| (byte % 251) as u8).collect();
        let path = Path::from("f");
        store.put(&path, content.clone().into()).await?;
        let len = content.len() as u64;
        for range in [0..len, 5..len, PART - 1..PART + 1, 0..PART, 7..2 * PART + 7, 0..0] {
            let options = GetOptions { range: Some(GetRange::Bounded(range.clone())), ..GetOptions::default() };
            let answer = match range.is_empty() {
                true => stream::empty().boxed(),
                false => {
                    let result = store.get_opts(&path, options).await?;
                    let GetResultPayload::Stream(answer) = result.payload else { panic!("a stream") };
                    answer
                }
            };
            let meta = store.head(&path).await?;
            let parts: Vec<_> = in_parts(Arc::clone(&store), &meta, range.clone(), answer).try_collect().await?;
            assert!(parts.iter().all(|part| part.len() as u64 <= PART));
            assert!(parts.concat() == content[range.start as usize..range.end as usize], "{range:?}");
        }
        Ok(())
    }

    #[tokio::test]
    async fn ranged_read_rejects_an_object_that_changed() -> Result<()> {
        let store = Arc::new(InMemory::new());
        let path = Path::from("f");
        store.put(&path, vec![1; 4 << 23].into()).await?;
        let result = store.get(&path).await?;
        let (meta, range) = (result.meta.clone(), result.range.clone());
        let GetResultPayload::Stream(answer) = result.payload else { panic!("a stream") };
        let mut parts = in_parts(Arc::clone(&store), &meta, range, answer);
        parts.try_next().await?;
        store.put(&path, vec![2; 4 << 23].into()).await?;
        // One part may have been in progress.
        let rest: Result<Vec<_>> = parts.try_collect().await;
        assert!(matches!(rest, Err(object_store::Error::Precondition { .. })), "{:?}", rest.map(|parts| parts.len()));
        Ok(())
    }
}
