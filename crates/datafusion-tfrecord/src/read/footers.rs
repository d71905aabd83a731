//! [`count`]: takes the numbers of records of ArrayRecord files from their footers.

use std::sync::Arc;

use datafusion_common::Result;
use datafusion_session::Session;
use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use tfrecord_framing::array_record::{self, BLOCK_LEN, Footer};
use tfrecord_framing::{Container, Position};
use tfrecord_shards::is_array_record;

use super::known::KnownFile;
use super::options::ReadOptions;
use super::sets::TableFiles;
use crate::error::{ErrorKind, refused};

/// Adds the numbers of records in the footers of ArrayRecord files that no manifest lists, so that counting reads no
/// record, and a file that is read is compared with them. A file is one of ArrayRecord by the option, by its first
/// bytes if they were read, or else by its name.
///
/// # Errors
/// A file has no intact footer, or the store fails.
pub(super) async fn count(session: &dyn Session, files: &mut TableFiles, options: &ReadOptions) -> Result<()> {
    let is_one = |file: &ObjectMeta, known: &Option<KnownFile>| {
        let container = options.container.or_else(|| known.as_ref().and_then(|known| known.container));
        let is_named = || file.location.filename().is_some_and(is_array_record);
        container.map_or_else(is_named, |container| container == Container::ArrayRecord)
            && known.as_ref().is_none_or(|known| !known.is_counted)
    };
    let listed = files.listing.files().iter().zip(&files.known).enumerate();
    let wanted = listed.filter(|(_, (file, known))| is_one(file, known));
    // Collected first: a closure over references is not general enough for the compiler inside a stream.
    let reads: Vec<_> = wanted
        .map(|(index, (file, _))| {
            let (store, file) = (Arc::clone(files.listing.store()), file.clone());
            let name = files.listing.names().name(&file.location);
            async move { Ok::<_, datafusion_common::DataFusionError>((index, end(&store, &file, name).await?)) }
        })
        .collect();
    let concurrency = session.config_options().execution.meta_fetch_concurrency.get();
    let ends: Vec<_> = futures::stream::iter(reads).buffered(concurrency).try_collect().await?;
    for (index, end) in ends {
        let name = || files.listing.names().name(&files.listing.files()[index].location);
        let known = files.known[index].get_or_insert_default();
        if let Some(expected) = known.end.filter(|expected| expected.record != end.record) {
            let (file, found, expected) = (name(), end.record, expected.record);
            let problem = format!("{file}: {found} records by its footer, expected {expected} by dataset_info.json");
            return Err(refused(problem).into());
        }
        known.container = Some(Container::ArrayRecord);
        known.end = Some(end);
        known.is_counted = true;
    }
    Ok(())
}

/// Returns the end of a file's records.
async fn end(store: &Arc<dyn ObjectStore>, file: &ObjectMeta, name: String) -> Result<Position> {
    let damaged = |source: array_record::Error| {
        let position = Position::default();
        let error = tfrecord_framing::Error::from(tfrecord_framing::ErrorKind::ArrayRecord { position, source });
        ErrorKind::Record { file: name.clone(), error: error.into(), inferred: false }
    };
    let read = async |range: std::ops::Range<u64>| match range.is_empty() {
        true => Ok(bytes::Bytes::new()),
        false => store.get_range(&file.location, range).await,
    };
    let last_block = read(file.size.saturating_sub(BLOCK_LEN)..file.size).await?;
    let range = Footer::locate(&last_block, file.size).map_err(damaged)?;
    let footer = Footer::decode(&read(range.clone()).await?, range.start).map_err(damaged)?;
    Ok(Position { record: footer.records(), byte: footer.framed_len() })
}
