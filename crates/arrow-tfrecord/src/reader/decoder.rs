//! [`Decoder`]: decodes the bytes of a TFRecord file to record batches.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tfrecord_framing::{Damage, Position, RecordDecoder};

use super::batch::BatchDecoder;
use super::past_damage::PastDamage;
use super::unknown::UnknownFeature;
use crate::error::{Error, Result};

/// Decodes the bytes of a TFRecord file to record batches, in pieces of any length.
///
/// For callers that push bytes. To block on a [`Read`](std::io::Read), use [`Reader`]. The contract is that of
/// `arrow-csv`'s decoder: [`decode`](Self::decode) consumes bytes until a batch is full, [`flush`](Self::flush) returns
/// the batch, and `decode` of no bytes signals the end.
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
    framing: Framing,
    batches: BatchDecoder,
    /// The error of a decoded record, to be returned by `flush`.
    error: Option<Error>,
    finished: bool,
}

/// Finds the records in the bytes.
#[derive(Debug)]
pub(super) enum Framing {
    /// Damage is an error.
    Whole(RecordDecoder),
    /// Damage is passed over.
    PastDamage(Box<PastDamage>),
}

impl Decoder {
    pub(super) fn new(framing: Framing, batches: BatchDecoder) -> Self {
        Self { framing, batches, error: None, finished: false }
    }

    /// Decodes records from `input` until a batch is full, and returns the number of bytes consumed. An empty `input`
    /// signals the end of the file.
    ///
    /// Records are decoded in place, so pieces should be much longer than records: 256 KiB or more. If a piece contains
    /// few records, they are copied.
    ///
    /// # Errors
    /// [`Framing`](crate::ErrorKind::Framing): damage between records, a damaged record, or a truncated file. The
    /// records before it are retained, and [`flush`](Self::flush) returns them. If damage is skipped, only a file of
    /// another compression is an error.
    pub fn decode(&mut self, input: &[u8]) -> Result<usize> {
        let mut rest = input;
        loop {
            if self.capacity() == 0 {
                break;
            }
            let step = self.batches.step();
            match &mut self.framing {
                Framing::Whole(decoder) => {
                    let frames = decoder.decode_frames(&mut rest, step)?;
                    if !frames.is_empty() {
                        self.error = self.batches.append(frames.bytes(), frames.iter()).err();
                        continue;
                    }
                }
                Framing::PastDamage(past) => {
                    if past.find(&mut rest, step)? {
                        let (frames, records) = past.take(step);
                        self.error = self.batches.append(frames, records).err();
                        continue;
                    }
                }
            }
            if !input.is_empty() || self.finished {
                break;
            }
            self.finished = true;
            match &mut self.framing {
                Framing::Whole(decoder) => {
                    decoder.finish()?;
                    break;
                }
                // The end of the file may reveal more records.
                Framing::PastDamage(past) => past.finish()?,
            }
        }
        Ok(input.len() - rest.len())
    }

    /// Returns the records decoded since the last call as a batch. Returns `None` if there are none, or if none passed
    /// the [filter](crate::RowFilter).
    ///
    /// # Errors
    /// Fails on a record that is not a valid `tf.train.Example` or does not fit the schema, or if a filter fails. The
    /// decoded records are then discarded.
    pub fn flush(&mut self) -> Result<Option<RecordBatch>> {
        match self.error.take() {
            Some(error) => {
                self.batches.clear();
                Err(error)
            }
            None => self.batches.finish(),
        }
    }

    /// The number of further records that certainly fit the batch; 0 when it must be [flushed](Self::flush). A batch is
    /// full before it reaches the batch size if its records total 256 MiB. The same applies to long fixed-size lists,
    /// even if null.
    pub fn capacity(&self) -> usize {
        if self.error.is_some() { 0 } else { self.batches.capacity() }
    }

    /// Removes and returns the features that no column reads, in the records decoded since the last call. Empty unless
    /// the builder [counts them](crate::ReaderBuilder::with_unknown_features).
    pub fn take_unknown_features(&mut self) -> Vec<UnknownFeature> {
        self.batches.take_unknown()
    }

    /// Removes and returns the damaged ranges passed over since the last call. Empty unless the builder
    /// [skips them](crate::ReaderBuilder::with_damaged_skipped).
    pub fn take_damage(&mut self) -> Vec<Damage> {
        match &mut self.framing {
            Framing::Whole(_) => Vec::new(),
            Framing::PastDamage(past) => past.take_damage(),
        }
    }

    /// The schema of the batches.
    pub fn schema(&self) -> SchemaRef {
        SchemaRef::clone(self.batches.schema())
    }

    /// The position of the next record.
    pub fn position(&self) -> Position {
        match &self.framing {
            Framing::Whole(decoder) => decoder.position(),
            Framing::PastDamage(past) => past.position(),
        }
    }
}
