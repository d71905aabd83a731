//! [`Writer`]: record batches to one TFRecord file.

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
    /// A writer of batches with this schema, without compression.
    pub fn new(schema: SchemaRef) -> Self {
        Self {
            schema,
            mapping: MappingOptions::default(),
            compression: Compression::default(),
            level: Level::default(),
        }
    }

    /// Sets what columns become.
    #[must_use]
    pub fn with_mapping(mut self, mapping: MappingOptions) -> Self {
        self.mapping = mapping;
        self
    }

    /// Sets how the file is compressed.
    #[must_use]
    pub fn with_compression(mut self, compression: Compression, level: Level) -> Self {
        self.compression = compression;
        self.level = level;
        self
    }

    /// Decides the mapping, and writes to `sink` from now on.
    ///
    /// # Errors
    /// Those of [`Mapping::try_new`].
    pub fn build<W: Write>(self, sink: W) -> Result<Writer<W>> {
        let mapping = Mapping::try_new(&self.schema, &self.mapping)?;
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
/// Every batch is written as it comes. [`finish`](Self::finish) ends the compressed stream, if there is one, and gives
/// the sink back; a writer that is dropped before leaves a file that may be cut short.
pub struct Writer<W: Write> {
    encoder: Encoder,
    records: RecordBuffer,
    rows: u64,
    sink: RecordWriter<W>,
}

impl<W: Write> Writer<W> {
    /// Writes a batch: all of its rows, or on a bad value none of them.
    ///
    /// # Errors
    /// A value that does not fit its feature, naming the row counted from the writer's first; a failing sink.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.records.clear();
        self.encoder.encode(batch, &mut self.records).map_err(|error| error.with_row_offset(self.rows))?;
        self.sink.write_framed(self.records.bytes())?;
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// What the columns become.
    pub fn mapping(&self) -> &Mapping {
        self.encoder.mapping()
    }

    /// Ends the file and gives the sink back.
    ///
    /// # Errors
    /// A failing sink.
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
