//! [`Writer`]: writes record batches to one TFRecord file.

use std::io::Write;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchWriter};
use arrow_schema::{ArrowError, SchemaRef};
use tfrecord_framing::{Compression, Level, RecordWriter};

use super::encoder::Encoder;
use crate::error::Result;
use crate::mapping::Mapping;
use crate::options::MappingOptions;
use crate::record_buffer::RecordBuffer;

/// Settings of a [`Writer`].
#[derive(Debug, Clone)]
pub struct WriterBuilder {
    schema: SchemaRef,
    mapping: MappingOptions,
    compression: Compression,
    level: Level,
}

impl WriterBuilder {
    /// Creates settings for batches with this schema, without compression.
    pub fn new(schema: SchemaRef) -> Self {
        Self {
            schema,
            mapping: MappingOptions::default(),
            compression: Compression::default(),
            level: Level::default(),
        }
    }

    /// Sets the options of the mapping.
    #[must_use]
    pub fn with_mapping(mut self, mapping: MappingOptions) -> Self {
        self.mapping = mapping;
        self
    }

    /// Sets the compression of the file.
    #[must_use]
    pub fn with_compression(mut self, compression: Compression, level: Level) -> Self {
        self.compression = compression;
        self.level = level;
        self
    }

    /// Computes the mapping and creates a writer to `sink`.
    ///
    /// # Errors
    /// Those of [`Mapping::try_new`].
    pub fn build<W: Write>(self, sink: W) -> Result<Writer<W>> {
        let mapping = Mapping::of_writer(&self.schema, &self.mapping)?;
        Ok(Writer {
            encoder: Encoder::new(Arc::new(mapping)),
            records: RecordBuffer::default(),
            rows: 0,
            sink: RecordWriter::with_compression(sink, self.compression, self.level),
        })
    }
}

/// Writes record batches to one TFRecord file.
///
/// Batches are written immediately. [`finish`](Self::finish) ends the compressed stream, if any, and returns the sink.
/// Dropping a writer without it may leave a truncated file.
#[derive(Debug)]
pub struct Writer<W: Write> {
    encoder: Encoder,
    records: RecordBuffer,
    rows: u64,
    sink: RecordWriter<W>,
}

impl<W: Write> Writer<W> {
    /// Writes a batch. On an invalid value, writes none of its rows.
    ///
    /// # Errors
    /// Fails on a value that does not fit its feature, or if the sink fails. Rows in errors are counted from the
    /// writer's first.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.records.clear();
        self.encoder.encode(batch, &mut self.records).map_err(|error| error.with_row_offset(self.rows))?;
        self.sink.write_framed(self.records.bytes())?;
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// The mapping of the columns.
    pub fn mapping(&self) -> &Mapping {
        self.encoder.mapping()
    }

    /// Ends the file and returns the sink.
    ///
    /// # Errors
    /// Fails if the sink fails.
    pub fn finish(self) -> Result<W> {
        Ok(self.sink.finish()?)
    }
}

impl<W: Write> RecordBatchWriter for Writer<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        Ok(Self::write(self, batch)?)
    }

    fn close(self) -> Result<(), ArrowError> {
        self.finish()?;
        Ok(())
    }
}
