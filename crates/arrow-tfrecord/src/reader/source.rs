//! [`Reader`]: reads one TFRecord file as record batches.

use std::io::{BufRead, ErrorKind as IoErrorKind};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use tfrecord_framing::{Compression, Container, CrcPolicy, Damage, RecordDecoder, RecordScanner};

use super::batch::{BatchDecoder, BatchSize};
use super::decoder::{Decoder, Framing};
use super::filter::RowFilter;
use super::past_damage::PastDamage;
use super::rows::MAX_BATCH_BYTES;
use crate::error::Result;
use crate::mapping::Mapping;
use crate::options::MappingOptions;

/// The default number of rows of a batch, the same as DataFusion's.
const BATCH_SIZE: usize = 8192;

/// Settings of a [`Reader`] or [`Decoder`].
///
/// The features and encoding of each column follow from the schema and the [`MappingOptions`], as for a writer. With
/// the schema and options of the writer (a manifest contains both), the original columns are restored:
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, RecordBatch};
/// use arrow_tfrecord::{Choice, MappingOptions, ReaderBuilder, WriterBuilder};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let batch = RecordBatch::try_from_iter([("x", Arc::new(Float64Array::from(vec![0.1, 1e300])) as ArrayRef)])?;
/// let options = MappingOptions::default().with_choice("x", Choice::Bits);
/// let mut writer = WriterBuilder::new(batch.schema()).with_mapping(options.clone()).build(Vec::new())?;
/// writer.write(&batch)?;
/// let file = writer.finish()?;
///
/// let mut reader = ReaderBuilder::new(batch.schema()).with_mapping(options).build(file.as_slice())?;
/// assert_eq!(reader.next().transpose()?, Some(batch));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ReaderBuilder {
    schema: SchemaRef,
    mapping: MappingOptions,
    projection: Option<Vec<usize>>,
    batch_size: usize,
    batch_bytes: usize,
    container: Option<Container>,
    crc: CrcPolicy,
    skips_damaged: bool,
    filter: Option<RowFilter>,
    unknown_features: bool,
}

impl ReaderBuilder {
    /// Creates settings to read all of these columns, in batches of 8192 rows, with checksums checked and the
    /// container (TFRecord with its compression, or ArrayRecord) detected from the content.
    pub fn new(schema: SchemaRef) -> Self {
        Self {
            schema,
            mapping: MappingOptions::default(),
            projection: None,
            batch_size: BATCH_SIZE,
            batch_bytes: MAX_BATCH_BYTES,
            container: None,
            crc: CrcPolicy::default(),
            skips_damaged: false,
            filter: None,
            unknown_features: false,
        }
    }

    /// Sets the encoding of columns in the records: the options of the writer.
    #[must_use]
    pub fn with_mapping(mut self, mapping: MappingOptions) -> Self {
        self.mapping = mapping;
        self
    }

    /// Reads only these columns of the schema, by position and in this order. Other features are skipped.
    #[must_use]
    pub fn with_projection(mut self, projection: Vec<usize>) -> Self {
        self.projection = Some(projection);
        self
    }

    /// Reads only the rows that pass `filter`. Repeated calls combine: rows must pass all filters.
    ///
    /// Batches contain only rows that pass. They are as long as without a filter, or up to an eighth shorter, and never
    /// empty. Defects of a record that does not pass are detected only in the columns that the filter reads, or if they
    /// prevent locating these.
    #[must_use]
    pub fn with_row_filter(mut self, filter: RowFilter) -> Self {
        self.filter = Some(match self.filter {
            Some(before) => before.and(filter),
            None => filter,
        });
        self
    }

    /// Sets the maximum number of rows of a batch, at least 1.
    #[must_use]
    pub fn with_batch_size(mut self, batch_size: usize) -> Self {
        self.batch_size = batch_size.max(1);
        self
    }

    /// Sets the total length of records at which a batch ends. The default and maximum is 256 MiB.
    #[must_use]
    pub fn with_batch_bytes(mut self, bytes: usize) -> Self {
        self.batch_bytes = bytes.clamp(1, MAX_BATCH_BYTES);
        self
    }

    /// Sets the compression, instead of detecting it from the content.
    #[must_use]
    pub fn with_compression(self, compression: Compression) -> Self {
        self.with_container(compression.into())
    }

    /// Sets the container, instead of detecting it from the content.
    #[must_use]
    pub fn with_container(mut self, container: Container) -> Self {
        self.container = Some(container);
        self
    }

    /// Sets whether checksums are checked.
    #[must_use]
    pub fn with_crc_policy(mut self, policy: CrcPolicy) -> Self {
        self.crc = policy;
        self
    }

    /// Sets whether to pass over damaged records instead of failing at the first. [`Decoder::take_damage`] returns the
    /// damaged ranges; the records between them are read.
    ///
    /// Both checksums of every record are then checked, whatever [`with_crc_policy`](Self::with_crc_policy) says, since
    /// they show where the next record begins. An intact record that is no valid message, or does not fit the schema,
    /// is still an error. The damaged range of a compressed stream ends at the next gzip member, or at the end of the
    /// file; that of an ArrayRecord file at the next chunk found.
    #[must_use]
    pub fn with_damaged_skipped(mut self, skip: bool) -> Self {
        self.skips_damaged = skip;
        self
    }

    /// Sets whether to count the features that no column of the schema reads, including columns that are not projected:
    /// see [`Decoder::take_unknown_features`]. Reading is slower then. If no column is projected, none is counted.
    #[must_use]
    pub fn with_unknown_features(mut self, count: bool) -> Self {
        self.unknown_features = count;
        self
    }

    /// Creates a reader of `source`.
    ///
    /// # Errors
    /// Those of [`build_decoder`](Self::build_decoder).
    pub fn build<R: BufRead>(self, source: R) -> Result<Reader<R>> {
        Ok(Reader { source, decoder: self.build_decoder()?, ended: false })
    }

    /// Creates a decoder for bytes that the caller pushes.
    ///
    /// # Errors
    /// Those of [`Mapping::try_new`]. Also fails on a projection or filter of a nonexistent column, or a column whose
    /// text form cannot be parsed.
    pub fn build_decoder(self) -> Result<Decoder> {
        if self.skips_damaged {
            let scanner = self.container.map_or_else(RecordScanner::detect, RecordScanner::with_container);
            return self.build_over(Framing::PastDamage(Box::new(PastDamage::new(scanner))));
        }
        let framing = self.container.map_or_else(RecordDecoder::detect, RecordDecoder::with_container);
        let framing = framing.with_crc_policy(self.crc);
        self.build_decoder_over(framing)
    }

    /// Creates a decoder of the records that `framing` finds, for example from the middle of a file. `framing` then
    /// handles compression, checksums and damage.
    ///
    /// # Errors
    /// Those of [`build_decoder`](Self::build_decoder).
    pub fn build_decoder_over(self, framing: RecordDecoder) -> Result<Decoder> {
        self.build_over(Framing::Whole(framing))
    }

    fn build_over(self, framing: Framing) -> Result<Decoder> {
        // Strict mode applies to writing only: what was lost cannot be rejected any more.
        let mapping = Mapping::try_new(&self.schema, &self.mapping.with_strict(false))?;
        let size = BatchSize { rows: self.batch_size, bytes: self.batch_bytes };
        let mut batches = BatchDecoder::try_new(&mapping, self.projection.as_deref(), self.filter, size)?;
        if self.unknown_features {
            batches = batches.counting_unknown(&mapping);
        }
        Ok(Decoder::new(framing, batches))
    }
}

/// Reads one TFRecord or ArrayRecord file as record batches.
///
/// After an error there are no more batches.
#[derive(Debug)]
pub struct Reader<R: BufRead> {
    source: R,
    decoder: Decoder,
    ended: bool,
}

impl<R: BufRead> Reader<R> {
    /// Removes and returns the damaged ranges passed over since the last call. Empty unless the builder
    /// [skips them](ReaderBuilder::with_damaged_skipped).
    pub fn take_damage(&mut self) -> Vec<Damage> {
        self.decoder.take_damage()
    }

    fn read(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let bytes = match self.source.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == IoErrorKind::Interrupted => continue,
                Err(source) => {
                    let position = self.decoder.position();
                    return Err(
                        tfrecord_framing::Error::from(tfrecord_framing::ErrorKind::Io { position, source }).into()
                    );
                }
            };
            let taken = self.decoder.decode(bytes)?;
            self.source.consume(taken);
            if taken == 0 || self.decoder.capacity() == 0 {
                return self.decoder.flush();
            }
        }
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let read = self.read();
        self.ended = !matches!(read, Ok(Some(_)));
        read.map_err(ArrowError::from).transpose()
    }
}

impl<R: BufRead> RecordBatchReader for Reader<R> {
    fn schema(&self) -> SchemaRef {
        self.decoder.schema()
    }
}
