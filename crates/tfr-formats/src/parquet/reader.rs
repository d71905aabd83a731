//! Readers of files with corrected footers.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use bytes::Bytes;
use datafusion_common::Result;
use datafusion_datasource::PartitionedFile;
use datafusion_datasource_parquet::ParquetFileReaderFactory;
use datafusion_physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::async_reader::{AsyncFileReader, ParquetRecordBatchStreamBuilder};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::ParquetMetaData;

use super::footer::{CorrectedFooter, Footers};

/// Creates the readers of a scan.
#[derive(Debug)]
pub(super) struct ReaderFactory {
    /// The engine's factory, whose readers count the bytes read.
    pub(super) inner: Arc<dyn ParquetFileReaderFactory>,
    pub(super) footers: Footers,
    pub(super) store: Arc<dyn ObjectStore>,
}

impl ParquetFileReaderFactory for ReaderFactory {
    fn create_reader(
        &self,
        partition_index: usize,
        file: PartitionedFile,
        metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        let meta = file.object_meta.clone();
        let inner = self.inner.create_reader(partition_index, file, metadata_size_hint, metrics)?;
        Ok(Box::new(ScanReader { inner, footers: self.footers.clone(), store: Arc::clone(&self.store), meta }))
    }
}

/// Reads a file for a scan.
struct ScanReader {
    inner: Box<dyn AsyncFileReader + Send>,
    footers: Footers,
    store: Arc<dyn ObjectStore>,
    meta: ObjectMeta,
}

impl AsyncFileReader for ScanReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        async move {
            let start = range.start;
            let bytes = self.inner.get_bytes(range).await?;
            let footer = self.footers.get(self.store.as_ref(), &self.meta).await?;
            footer.checked(start, bytes)
        }
        .boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        async move {
            let starts: Vec<u64> = ranges.iter().map(|range| range.start).collect();
            let pieces = self.inner.get_byte_ranges(ranges).await?;
            let footer = self.footers.get(self.store.as_ref(), &self.meta).await?;
            starts.into_iter().zip(pieces).map(|(start, bytes)| footer.checked(start, bytes)).collect()
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        async { Ok(Arc::clone(&self.footers.get(self.store.as_ref(), &self.meta).await?.metadata)) }.boxed()
    }
}

/// Reads a file outside a scan.
struct FileReader {
    store: Arc<dyn ObjectStore>,
    meta: ObjectMeta,
    footer: Arc<CorrectedFooter>,
}

impl AsyncFileReader for FileReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        async move {
            let start = range.start;
            let read = self.store.get_range(&self.meta.location, range).await;
            self.footer.checked(start, read.map_err(|error| ParquetError::External(error.into()))?)
        }
        .boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        async move {
            let read = self.store.get_ranges(&self.meta.location, &ranges).await;
            let pieces = read.map_err(|error| ParquetError::External(error.into()))?;
            let starts = ranges.iter().map(|range| range.start);
            starts.zip(pieces).map(|(start, bytes)| self.footer.checked(start, bytes)).collect()
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        std::future::ready(Ok(Arc::clone(&self.footer.metadata))).boxed()
    }
}

/// Reads one column, or one leaf, over all rows of a file.
pub(super) fn column(
    store: &Arc<dyn ObjectStore>,
    meta: &ObjectMeta,
    footer: &Arc<CorrectedFooter>,
    projection: Projection,
) -> ParquetResult<BoxStream<'static, ParquetResult<ArrayRef>>> {
    let metadata = ArrowReaderMetadata::try_new(Arc::clone(&footer.metadata), ArrowReaderOptions::new())?;
    let reader = FileReader { store: Arc::clone(store), meta: meta.clone(), footer: Arc::clone(footer) };
    let builder = ParquetRecordBatchStreamBuilder::new_with_metadata(reader, metadata);
    let mask = match projection {
        Projection::Column(index) => ProjectionMask::roots(builder.parquet_schema(), [index]),
        Projection::Leaf(index) => ProjectionMask::leaves(builder.parquet_schema(), [index]),
    };
    let batches = builder.with_projection(mask).build()?;
    Ok(batches.map(|batch| batch.map(|batch| Arc::clone(batch.column(0)))).boxed())
}

/// The column or leaf of a file to read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Projection {
    /// A column, by index in the file.
    Column(usize),
    /// A leaf, by index in the file.
    Leaf(usize),
}
