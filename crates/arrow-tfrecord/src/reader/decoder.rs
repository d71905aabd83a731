//! [`Decoder`]: the bytes of a TFRecord file in, record batches out.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tfrecord_framing::{Position, RecordDecoder};

use super::batch::BatchDecoder;
use crate::error::{Error, Result};

/// Decodes the bytes of a TFRecord file, in pieces of any length, to record batches.
///
/// For a caller that has the bytes come to it, and does not block on a [`Read`](std::io::Read): [`Reader`] is for that.
/// The contract is that of `arrow-csv`'s decoder: [`decode`](Self::decode) takes bytes until a batch is full,
/// [`flush`](Self::flush) makes the batch, and `decode` of no bytes says that there are no more.
///
/// [`Reader`]: crate::Reader
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use arrow_tfrecord::{ReaderBuilder, WriterBuilder};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let batch = RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef)])?;
/// let mut writer = WriterBuilder::new(batch.schema()).build(Vec::new())?;
/// writer.write(&batch)?;
/// let file = writer.finish()?;
///
/// let mut decoder = ReaderBuilder::new(batch.schema()).with_batch_size(2).build_decoder()?;
/// let mut bytes = file.as_slice();
/// let mut rows = Vec::new();
/// loop {
///     let taken = decoder.decode(bytes)?;
///     bytes = &bytes[taken..];
///     if taken == 0 || decoder.capacity() == 0 {
///         match decoder.flush()? {
///             Some(batch) => rows.push(batch.num_rows()),
///             None => break,
///         }
///     }
/// }
/// assert_eq!(rows, [2, 1]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Decoder {
    framing: RecordDecoder,
    batches: BatchDecoder,
    /// What is wrong with a record taken.
    error: Option<Error>,
    finished: bool,
}

impl Decoder {
    pub(super) fn new(framing: RecordDecoder, batches: BatchDecoder) -> Self {
        Self { framing, batches, error: None, finished: false }
    }

    /// Takes records from `input` until a batch is full, and returns how many bytes were taken. An empty `input` says
    /// that the file ends.
    ///
    /// Records are decoded where they lie in `input`, so pieces are best much longer than records: 256 KiB and more.
    /// Where few lie in a piece, they are copied.
    ///
    /// # Errors
    /// [`Framing`](crate::ErrorKind::Framing): damage between records, a damaged record, or a file that ends where none
    /// may. The records before are kept, and [`flush`](Self::flush) gives them.
    pub fn decode(&mut self, input: &[u8]) -> Result<usize> {
        let mut rest = input;
        loop {
            if self.capacity() == 0 {
                break;
            }
            let frames = self.framing.decode_frames(&mut rest, self.batches.step())?;
            if !frames.is_empty() {
                self.error = self.batches.append(&frames).err();
                continue;
            }
            if input.is_empty() && !self.finished {
                self.finished = true;
                self.framing.finish()?;
            }
            break;
        }
        Ok(input.len() - rest.len())
    }

    /// The rows of the records taken since the last call, as a batch; none if there are none, because no record was
    /// taken or none of them passed the [filter](crate::RowFilter).
    ///
    /// # Errors
    /// A record that is no `tf.train.Example`, or that does not fit the schema; a filter that fails. The records taken
    /// are gone then.
    pub fn flush(&mut self) -> Result<Option<RecordBatch>> {
        match self.error.take() {
            Some(error) => {
                self.batches.clear();
                Err(error)
            }
            None => self.batches.finish(),
        }
    }

    /// How many more records are certain to have a place in the batch; 0 when it is to be
    /// [flushed](Self::flush). A batch of long records, 256 MiB together, is full before it has as many rows as were
    /// asked for; so is one of long lists of fixed size, even if they are null.
    pub fn capacity(&self) -> usize {
        if self.error.is_some() { 0 } else { self.batches.capacity() }
    }

    /// The schema of the batches.
    pub fn schema(&self) -> SchemaRef {
        SchemaRef::clone(self.batches.schema())
    }

    /// Where the next record starts.
    pub fn position(&self) -> Position {
        self.framing.position()
    }
}
