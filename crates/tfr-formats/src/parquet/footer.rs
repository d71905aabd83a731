//! [`Footers`]: the metadata of a table's files, corrected for the library.

use std::any::Any;
use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use arrow_schema::Schema;
use bytes::Bytes;
use datafusion_common::HashMap as EngineMap;
use datafusion_execution::cache::cache_manager::{CachedFileMetadataEntry, FileMetadata, FileMetadataCache};
use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use parquet::arrow::async_reader::MetadataFetch;
use parquet::errors::{ParquetError, Result};
use parquet::file::FOOTER_SIZE;
use parquet::file::metadata::{
    FooterTail, ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader, ParquetStatisticsPolicy,
};

use super::extension::with_logical_types;
use super::hint::with_hint;
use super::index::with_index;
use super::metadata::{key_values, with_file_metadata};
use super::old::{with_dictionary_headers, with_possible_dictionaries};
use super::pages::Pages;
use super::schema::{CorrectedSchema, LeafKind};
use super::statistics::without_meaningless;
use super::thrift;
use crate::calendar::unknown_hive_zone;

/// Number of bytes at the end of a file fetched first, unless the session specifies it: most footers are shorter.
const TAIL: usize = 64 << 10;

/// The corrected footer of a file.
#[derive(Debug)]
pub(super) struct CorrectedFooter {
    pub(super) metadata: Arc<ParquetMetaData>,
    /// The columns in the types to which the library decodes them.
    pub(super) schema: Schema,
    /// The content of each leaf.
    pub(super) leaves: Vec<LeafKind>,
    /// The unreadable columns, with the reasons.
    pub(super) unreadable: HashMap<String, String>,
    /// The names of all columns in order, including those without leaves.
    pub(super) columns: Vec<String>,
    /// Checks pages before they are decompressed.
    pub(super) pages: Pages,
}

impl CorrectedFooter {
    /// Returns bytes that were fetched from `start` on as the library reads them, unless they contain a page that is too
    /// long.
    pub(super) fn checked(&self, start: u64, bytes: Bytes) -> Result<Bytes> {
        self.pages.checked(&self.metadata, start, bytes)
    }
}

impl FileMetadata for CorrectedFooter {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn memory_size(&self) -> usize {
        self.metadata.memory_size()
    }

    fn extra_info(&self) -> EngineMap<String, String> {
        EngineMap::from([("page_index".to_owned(), self.metadata.offset_index().is_some().to_string())])
    }
}

/// The footers of the files of a table, in the session's cache.
#[derive(Debug, Clone)]
pub(super) struct Footers {
    cache: Arc<FileMetadataCache>,
    size_hint: Option<usize>,
    /// Maximum bytes of a page.
    page_bound: u64,
    /// Whether the checksums of pages are ignored.
    skip_crc: bool,
    /// The columns, by their names in the files, whose texts are decoded as bytes.
    as_bytes: Arc<BTreeSet<String>>,
    /// The columns, by their names in the files, whose bytes are decoded as text.
    as_text: Arc<BTreeSet<String>>,
}

/// A cached footer.
struct Cached(Arc<CorrectedFooter>);

impl FileMetadata for Cached {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn memory_size(&self) -> usize {
        self.0.memory_size()
    }

    fn extra_info(&self) -> EngineMap<String, String> {
        self.0.extra_info()
    }
}

impl Footers {
    pub(super) fn new(
        cache: Arc<FileMetadataCache>,
        size_hint: Option<usize>,
        page_bound: u64,
        skip_crc: bool,
    ) -> Self {
        Self { cache, size_hint, page_bound, skip_crc, as_bytes: Arc::default(), as_text: Arc::default() }
    }

    /// Returns the same footers with texts of these columns as bytes.
    pub(super) fn with_bytes(&self, columns: BTreeSet<String>) -> Self {
        Self { as_bytes: Arc::new(columns), ..self.clone() }
    }

    /// Returns the same footers with bytes of these columns as text.
    pub(super) fn with_text(&self, columns: BTreeSet<String>) -> Self {
        Self { as_text: Arc::new(columns), ..self.clone() }
    }

    /// Returns the columns whose texts are decoded as bytes.
    pub(super) fn as_bytes(&self) -> &BTreeSet<String> {
        &self.as_bytes
    }

    /// Returns the footer of a file.
    pub(super) async fn get(&self, store: &dyn ObjectStore, file: &ObjectMeta) -> Result<Arc<CorrectedFooter>> {
        let key = self.key(file);
        if let Some(cached) = self.cache.get(&key).filter(|cached| cached.is_valid_for(file))
            && let Some(Cached(footer)) = cached.file_metadata.as_any().downcast_ref()
        {
            return Ok(Arc::clone(footer));
        }
        let footer = Arc::new(self.fetch(store, file).await?);
        let entry = CachedFileMetadataEntry::new(file.clone(), Arc::new(Cached(Arc::clone(&footer))));
        self.cache.put(&key, entry);
        Ok(footer)
    }

    /// Returns a cache key that differs from the engine's: the footers that it caches are not corrected.
    fn key(&self, file: &ObjectMeta) -> Path {
        let mut hasher = DefaultHasher::new();
        (self.skip_crc, &self.as_bytes, &self.as_text).hash(&mut hasher);
        Path::from(format!("{}#{:x}", file.location, hasher.finish()))
    }

    async fn fetch(&self, store: &dyn ObjectStore, file: &ObjectMeta) -> Result<CorrectedFooter> {
        let bytes = footer_bytes(store, file, self.size_hint).await?;
        let footer = file.size.saturating_sub((bytes.len() + FOOTER_SIZE) as u64);
        let (layout, metadata) = match thrift::schema(&bytes) {
            Some(elements) => {
                let (as_bytes, as_text) = (&self.as_bytes, &self.as_text);
                let layout =
                    CorrectedSchema::new(&elements, |name| as_bytes.contains(name), |name| as_text.contains(name))?;
                let options = ParquetMetaDataOptions::new().with_schema(Arc::clone(&layout.schema));
                (layout, decoded(&bytes, options)?)
            }
            // The library reports the defect.
            None => {
                ParquetMetaDataReader::decode_metadata(&bytes)?;
                return Err(ParquetError::General("the schema in the footer cannot be decoded".to_owned()));
            }
        };
        let metadata = with_possible_dictionaries(without_meaningless(with_rows(metadata))?)?;
        let metadata = with_dictionary_headers(metadata, footer, Fetch { store, file }).await?;
        let metadata = with_index(metadata, file.size, Fetch { store, file }).await?;
        let mut unreadable = layout.unreadable;
        let (metadata, schema) = with_hint(metadata, &self.as_bytes, &mut unreadable)?;
        unreadable.extend(without_zone(&metadata, &layout.leaves));
        let schema = with_logical_types(schema, metadata.file_metadata().schema_descr(), &layout.json);
        Ok(CorrectedFooter {
            pages: Pages::new(&metadata, self.page_bound, self.skip_crc),
            metadata: Arc::new(metadata),
            schema,
            leaves: layout.leaves,
            unreadable: unreadable.into_iter().collect(),
            columns: layout.columns,
        })
    }
}

/// Returns the columns whose INT96 timestamps Hive wrote in a time zone that is unknown, with the reason.
fn without_zone(metadata: &ParquetMetaData, leaves: &[LeafKind]) -> Vec<(String, String)> {
    let keys = key_values(metadata);
    let Some(zone) = unknown_hive_zone(|key| keys.get(key).copied()) else { return Vec::new() };
    let schema = metadata.file_metadata().schema_descr();
    let int96 = leaves.iter().enumerate().filter(|(_, leaf)| **leaf == LeafKind::Int96);
    let column = |index| schema.get_column_root(index).name().to_owned();
    int96.map(|(index, _)| (column(index), format!("an INT96 timestamp of Hive in the time zone {zone:?}"))).collect()
}

/// Fetches the encoded footer of a file.
async fn footer_bytes(store: &dyn ObjectStore, file: &ObjectMeta, size_hint: Option<usize>) -> Result<Bytes> {
    let least = FOOTER_SIZE as u64;
    if file.size < least {
        return Err(ParquetError::General(format!(
            "Invalid Parquet file. Size is smaller than footer ({least} bytes)"
        )));
    }
    let fetched = (size_hint.unwrap_or(TAIL).max(FOOTER_SIZE) as u64).min(file.size);
    let tail = fetch(store, file, file.size - fetched..file.size).await?;
    let Some((before, end)) = tail.split_last_chunk::<FOOTER_SIZE>() else {
        return Err(ParquetError::EOF("the footer is cut off".to_owned()));
    };
    let end = FooterTail::try_new(end)?;
    if end.is_encrypted_footer() {
        return Err(ParquetError::General(
            "Parquet file has an encrypted footer but decryption properties were not provided".to_owned(),
        ));
    }
    let length = end.metadata_length() as u64;
    if length > file.size - least {
        let available = file.size - least;
        return Err(ParquetError::EOF(format!("the footer has {length} bytes, but the file {available} before it")));
    }
    match before.len().checked_sub(end.metadata_length()) {
        Some(start) => Ok(tail.slice(start..before.len())),
        None => fetch(store, file, file.size - least - length..file.size - least).await,
    }
}

async fn fetch(store: &dyn ObjectStore, file: &ObjectMeta, range: Range<u64>) -> Result<Bytes> {
    let length = range.end - range.start;
    let bytes = store.get_range(&file.location, range).await.map_err(|error| ParquetError::External(error.into()))?;
    match bytes.len() as u64 == length {
        true => Ok(bytes),
        false => Err(ParquetError::EOF(format!("expected {length} bytes, found {}", bytes.len()))),
    }
}

/// Decodes a footer. If that fails, retries without the fields that are not needed to read rows: another writer may use
/// them differently.
fn decoded(bytes: &[u8], options: ParquetMetaDataOptions) -> Result<ParquetMetaData> {
    ParquetMetaDataReader::decode_metadata_with_options(bytes, Some(&options)).or_else(|error| {
        let options = options.with_column_stats_policy(ParquetStatisticsPolicy::SkipAll);
        let essential = thrift::essential(bytes);
        let decoded = essential
            .and_then(|bytes| ParquetMetaDataReader::decode_metadata_with_options(&bytes, Some(&options)).ok());
        decoded.ok_or(error)
    })
}

/// Sets the number of rows from the row groups if the footer lacks it.
fn with_rows(metadata: ParquetMetaData) -> ParquetMetaData {
    let rows = metadata.row_groups().iter().fold(0_i64, |rows, group| rows.saturating_add(group.num_rows()));
    match metadata.file_metadata().num_rows() {
        0 if rows > 0 => {
            let key_values = metadata.file_metadata().key_value_metadata().cloned();
            with_file_metadata(metadata, rows, key_values)
        }
        _ => metadata,
    }
}

/// Fetches ranges of a file.
pub(super) struct Fetch<'a> {
    pub(super) store: &'a dyn ObjectStore,
    pub(super) file: &'a ObjectMeta,
}

impl MetadataFetch for Fetch<'_> {
    fn fetch(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        fetch(self.store, self.file, range).boxed()
    }
}
