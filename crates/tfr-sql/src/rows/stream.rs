//! [`ArrowRows`]: writes record batches as an Arrow IPC stream.

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use arrow::record_batch::RecordBatch;

use crate::file_types::FileTypes;

/// An Arrow IPC stream. Views, which some readers do not support, become strings. Dictionaries are kept.
pub struct ArrowRows {
    writer: StreamWriter<Vec<u8>>,
    types: FileTypes,
}

impl ArrowRows {
    /// Starts a stream of rows with `schema`.
    pub fn new(schema: &SchemaRef) -> Result<Self, ArrowError> {
        let types = FileTypes::of_stream(schema);
        Ok(Self { writer: StreamWriter::try_new(Vec::new(), types.schema())?, types })
    }

    /// Adds the rows of `batch`.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        // Readers of the stream may see the values stored under nulls.
        let batch = tfr_arrow::visible::visible_batch(batch)?;
        self.types.apply(&batch)?.iter().try_for_each(|piece| self.writer.write(piece))
    }

    /// Adds the end-of-stream marker. Without it, readers know that the rows are incomplete.
    pub fn finish(&mut self) -> Result<(), ArrowError> {
        self.writer.finish()
    }

    /// Moves the bytes that have been written so far to `out`.
    pub fn drain(&mut self, out: &mut Vec<u8>) {
        out.append(self.writer.get_mut());
    }
}
