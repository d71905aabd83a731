//! Decodes records to batches in stages: [`BatchDecoder`].
//!
//! With a filter, the columns that it reads are decoded first. The other columns are decoded only for the rows that
//! pass.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use arrow_select::concat::concat;
use arrow_select::filter::{FilterBuilder, FilterPredicate, prep_null_mask_filter};
use tfrecord_framing::Position;

use super::filter::{Predicate, RowFilter};
use super::locate::BLOCK_ROWS;
use super::rows::{MAX_BATCH_BYTES, Record, RowDecoder};
use super::unknown::UnknownFeature;
use crate::dtype::{of_type, value_type};
use crate::error::{ErrorKind, Result};
use crate::mapping::Mapping;

/// The maximum number of records per call of a filter: few enough to be in the cache when the other columns are
/// decoded.
const FILTER_ROWS: usize = 1024;

/// The minimum number of filter calls for a full batch.
const FILTER_PARTS: usize = 16;

/// Smaller groups of short frames are collected before they are decoded, since starting a block takes time.
const FEW: usize = 32;
const SHORT: usize = 64 << 10;

/// The number of examples of a record that is assumed before any is read.
const USUAL_EXAMPLES: usize = 1024;

/// The limits of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchSize {
    /// The maximum number of rows.
    pub(super) rows: usize,
    /// Bytes of records after which the batch is full; at most [`MAX_BATCH_BYTES`].
    pub(super) bytes: usize,
}

/// Decodes records to batches of the rows that pass a filter.
#[derive(Debug)]
pub(super) struct BatchDecoder {
    schema: SchemaRef,
    batch_size: usize,
    batch_bytes: usize,
    step: usize,
    /// The minimum number of bytes of a row.
    row_len: usize,
    stages: Vec<Stage>,
    /// The columns of the batch that no predicate reads.
    rest: RowDecoder,
    /// The source of every column of the batch.
    sources: Vec<ColumnSource>,
    /// The rows that passed, of the columns that predicates read, in chunks; indexed by column.
    passed: Vec<Vec<ArrayRef>>,
    /// The last stage that needs each column read by predicates; [`Stage::NONE`] if the batch contains it.
    last_use: Vec<usize>,
    /// Records collected for the next block, and their frames.
    gathered: Vec<Record>,
    gathered_frames: Vec<u8>,
    /// The records being decoded, if they were not collected.
    records: Vec<Record>,
    /// Bytes of the payloads that became rows, or the minimum size of these rows or of their examples if greater.
    bytes: usize,
    /// The minimum size of the examples of a record, by the last ones that were decoded, or else by their usual number.
    examples_len: usize,
}

/// A predicate, and the columns decoded for it.
#[derive(Debug)]
struct Stage {
    /// The columns that no earlier stage decoded.
    columns: RowDecoder,
    schema: SchemaRef,
    /// The decoded columns that are passed to the predicate.
    inputs: Vec<usize>,
    predicate: Predicate,
}

#[derive(Debug, Clone, Copy)]
enum ColumnSource {
    /// A column that no predicate reads.
    Rest(usize),
    /// A column that predicates read.
    Passed(usize),
}

impl BatchDecoder {
    /// Creates a decoder of the columns of `mapping` at these positions, or of all columns, to batches of at most
    /// `batch_size` rows.
    pub(super) fn try_new(
        mapping: &Mapping,
        projection: Option<&[usize]>,
        filter: Option<RowFilter>,
        size: BatchSize,
    ) -> Result<Self> {
        let BatchSize { rows: batch_size, bytes: batch_bytes } = size;
        check_row_len(mapping)?;
        let columns = mapping.columns().len();
        let projection = projection.map_or_else(|| (0..columns).collect(), <[usize]>::to_vec);
        // Positions in the schema of the columns that predicates read, in the order in which they are decoded.
        let mut read: Vec<usize> = Vec::new();
        let mut last_use = Vec::new();
        let mut stages = Vec::new();
        for predicate in filter.into_iter().flat_map(|filter| filter.predicates) {
            let before = read.len();
            let mut inputs = Vec::new();
            for column in &predicate.columns {
                let number = read.iter().position(|known| known == column).unwrap_or_else(|| {
                    read.push(*column);
                    last_use.push(stages.len());
                    read.len() - 1
                });
                last_use[number] = stages.len();
                inputs.push(number);
            }
            let columns = RowDecoder::try_new(mapping, &read[before..])?;
            let schema = projected(mapping, &predicate.columns);
            stages.push(Stage { columns, schema, inputs, predicate });
        }
        let mut rest = Vec::new();
        let mut sources = Vec::new();
        for column in &projection {
            sources.push(match read.iter().position(|known| known == column) {
                Some(number) => {
                    last_use[number] = Stage::NONE;
                    ColumnSource::Passed(number)
                }
                None => {
                    rest.push(*column);
                    ColumnSource::Rest(rest.len() - 1)
                }
            });
        }
        let step = if stages.is_empty() { BLOCK_ROWS } else { (batch_size / FILTER_PARTS).clamp(1, FILTER_ROWS) };
        let decoded = RowDecoder::try_new(mapping, &rest)?;
        let decoders = stages.iter().map(|stage: &Stage| &stage.columns).chain([&decoded]);
        let examples_len = decoders.map(|columns| columns.example_len().saturating_mul(USUAL_EXAMPLES));
        Ok(Self {
            examples_len: examples_len.fold(0, usize::saturating_add),
            rest: decoded,
            schema: projected(mapping, &projection),
            batch_size,
            batch_bytes,
            step,
            row_len: sum(read.iter().chain(&rest).map(|column| fixed_len(&mapping.columns()[*column].data_type))),
            stages,
            sources,
            passed: vec![Vec::new(); read.len()],
            last_use,
            gathered: Vec::new(),
            gathered_frames: Vec::new(),
            records: Vec::new(),
            bytes: 0,
        })
    }

    /// Counts the features that no column of `mapping` reads.
    pub(super) fn counting_unknown(mut self, mapping: &Mapping) -> Self {
        match self.stages.iter().position(|stage| stage.columns.has_columns()) {
            Some(stage) => {
                let Stage { columns, schema, inputs, predicate } = self.stages.remove(stage);
                let columns = columns.counting_unknown(mapping);
                self.stages.insert(stage, Stage { columns, schema, inputs, predicate });
            }
            None => self.rest = self.rest.counting_unknown(mapping),
        }
        self
    }

    /// Removes and returns the counts of features that no column reads.
    pub(super) fn take_unknown(&mut self) -> Vec<UnknownFeature> {
        let stages = self.stages.iter_mut().map(|stage| &mut stage.columns);
        stages.chain([&mut self.rest]).flat_map(RowDecoder::take_unknown).collect()
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The number of further records that certainly fit the batch; 0 if it must be finished.
    pub(super) fn capacity(&self) -> usize {
        let room = self.batch_size.saturating_sub(self.rest.len() + self.gathered.len());
        // The number of passing records is unknown, and calling the filter for few records is not worthwhile.
        let is_too_little = room < self.step && !self.stages.is_empty();
        if is_too_little || self.bytes() >= self.batch_bytes { 0 } else { room }
    }

    /// Bytes of the records that became rows, or may still do so.
    fn bytes(&self) -> usize {
        self.bytes + self.gathered_frames.len().max(self.gathered.len().saturating_mul(self.least_len()))
    }

    /// The minimum number of bytes of a row, as far as is known.
    fn least_len(&self) -> usize {
        self.row_len.max(self.examples_len)
    }

    /// The best number of records to append now.
    pub(super) fn step(&self) -> usize {
        let fitting = self.batch_bytes.saturating_sub(self.bytes()) / self.least_len();
        self.capacity().min(self.step).min(fitting.max(1))
    }

    /// Appends a row for each record that passes. The records are given by the range of their payload in `frames`, and
    /// their position in the file.
    ///
    /// After an error the appended rows are invalid and must be [cleared](Self::clear).
    pub(super) fn append(
        &mut self,
        frames: &[u8],
        records: impl ExactSizeIterator<Item = (Range<usize>, Position)>,
    ) -> Result<()> {
        let count = records.len();
        let records = records.map(|(payload, position)| Record { payload, position });
        if count < FEW && frames.len() < SHORT {
            let start = self.gathered_frames.len();
            self.gathered_frames.extend_from_slice(frames);
            self.gathered.extend(records.map(|Record { payload, position }| {
                let payload = start + payload.start..start + payload.end;
                Record { payload, position }
            }));
            let are_enough = self.gathered.len() >= self.step || self.bytes() >= self.batch_bytes;
            return if are_enough { self.append_gathered() } else { Ok(()) };
        }
        self.append_gathered()?;
        let mut decoding = std::mem::take(&mut self.records);
        decoding.clear();
        decoding.extend(records);
        let appended = self.append_records(frames, &mut decoding);
        self.records = decoding;
        appended
    }

    fn append_gathered(&mut self) -> Result<()> {
        let mut records = std::mem::take(&mut self.gathered);
        let frames = std::mem::take(&mut self.gathered_frames);
        let appended = self.append_records(&frames, &mut records);
        (self.gathered, self.gathered_frames) = (records, frames);
        self.gathered.clear();
        self.gathered_frames.clear();
        appended
    }

    /// Appends a row for each of `records` that passes, and keeps only those in `records`.
    fn append_records(&mut self, bytes: &[u8], records: &mut Vec<Record>) -> Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let mut of_examples = 0;
        let mut decoded: Vec<ArrayRef> = Vec::with_capacity(self.passed.len());
        for (number, stage) in self.stages.iter_mut().enumerate() {
            stage.columns.append(bytes, records)?;
            of_examples += stage.columns.take_examples_bytes() / records.len();
            self.examples_len = of_examples;
            decoded.extend_from_slice(stage.columns.finish()?.columns());
            let passes = stage.evaluate(&decoded, records)?;
            match passes.true_count() {
                0 => return Ok(()),
                all if all == records.len() => continue,
                _ => {}
            }
            let predicate = FilterBuilder::new(&passes).optimize().build();
            for (column, last_use) in decoded.iter_mut().zip(&self.last_use) {
                if *last_use > number {
                    *column = passing(&predicate, column).map_err(|source| ErrorKind::Arrow { source })?;
                }
            }
            let mut passes = passes.values().iter();
            records.retain(|_| passes.next() == Some(true));
        }
        self.rest.append(bytes, records)?;
        of_examples += self.rest.take_examples_bytes() / records.len();
        self.examples_len = of_examples;
        for ((passed, column), last_use) in self.passed.iter_mut().zip(decoded).zip(&self.last_use) {
            if *last_use == Stage::NONE {
                passed.push(column);
            }
        }
        let bytes = records.iter().map(|record| record.payload.len().max(self.row_len)).sum::<usize>();
        self.bytes = self.bytes.saturating_add(bytes.max(of_examples.saturating_mul(records.len())));
        Ok(())
    }

    /// Returns the appended rows as a batch. `None` if there are none.
    pub(super) fn finish(&mut self) -> Result<Option<RecordBatch>> {
        let batch = self.append_gathered().and_then(|()| match self.rest.len() {
            0 => Ok(None),
            rows => self.finish_columns(rows).map(Some),
        });
        self.clear();
        batch
    }

    fn finish_columns(&mut self, rows: usize) -> Result<RecordBatch> {
        let rest = self.rest.finish()?;
        let column = |source: &ColumnSource| match source {
            ColumnSource::Rest(column) => Ok(ArrayRef::clone(rest.column(*column))),
            ColumnSource::Passed(number) => {
                let pieces: Vec<&dyn Array> = self.passed[*number].iter().map(AsRef::as_ref).collect();
                concat(&pieces)
            }
        };
        let columns = self.sources.iter().map(column).collect::<Result<_, _>>();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        columns
            .and_then(|columns| RecordBatch::try_new_with_options(SchemaRef::clone(&self.schema), columns, &options))
            .map_err(|source| ErrorKind::Arrow { source }.into())
    }

    /// Discards the appended rows.
    pub(super) fn clear(&mut self) {
        self.stages.iter_mut().for_each(|stage| stage.columns.clear());
        self.rest.clear();
        self.passed.iter_mut().for_each(Vec::clear);
        self.gathered.clear();
        self.gathered_frames.clear();
        self.bytes = 0;
    }
}

impl Stage {
    /// After all stages.
    const NONE: usize = usize::MAX;

    /// Evaluates the predicate: the records that pass, without nulls.
    fn evaluate(&self, decoded: &[ArrayRef], records: &[Record]) -> Result<BooleanArray> {
        let answer = || {
            let columns = self.inputs.iter().map(|number| ArrayRef::clone(&decoded[*number])).collect();
            let options = RecordBatchOptions::new().with_row_count(Some(records.len()));
            let batch = RecordBatch::try_new_with_options(SchemaRef::clone(&self.schema), columns, &options)?;
            let passes = (self.predicate.evaluate)(batch)?;
            if passes.len() != records.len() {
                let (found, expected) = (passes.len(), records.len());
                let message = format!("a filter of {expected} rows answered for {found}");
                return Err(ArrowError::InvalidArgumentError(message));
            }
            Ok(if passes.null_count() > 0 { prep_null_mask_filter(&passes) } else { passes })
        };
        answer().map_err(|source| {
            let position = records.first().map(|record| record.position).unwrap_or_default();
            ErrorKind::RowFilter { position, source }.into()
        })
    }
}

/// The rows of a column that pass.
fn passing(predicate: &FilterPredicate, column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    of_type(predicate.filter(column)?, column.data_type())
}

/// Rejects columns whose rows exceed the maximum size of a batch.
pub(crate) fn check_row_len(mapping: &Mapping) -> Result<()> {
    for column in mapping.columns() {
        let len = fixed_len(&column.data_type);
        if len > MAX_BATCH_BYTES {
            let (column, data_type) = (column.column.clone(), column.data_type.clone());
            return Err(ErrorKind::RowTooLong { column, data_type, len, max: MAX_BATCH_BYTES }.into());
        }
    }
    Ok(())
}

/// Bytes that a fixed-size value takes while it is decoded, even if null; 1 for types without fixed-size lists or
/// bytes.
fn fixed_len(data_type: &DataType) -> usize {
    match data_type {
        DataType::FixedSizeList(item, len) => {
            let items = usize::try_from(*len).unwrap_or_default();
            size_of::<u64>().max(fixed_len(item.data_type())).saturating_mul(items.max(1))
        }
        DataType::Dictionary(..) | DataType::RunEndEncoded(..) => fixed_len(value_type(data_type)),
        DataType::FixedSizeBinary(width) => usize::try_from(*width).unwrap_or_default().max(1),
        DataType::Struct(fields) => sum(fields.iter().map(|field| fixed_len(field.data_type()))),
        _ => 1,
    }
}

/// The saturating sum of `lens`, at least 1.
fn sum(lens: impl Iterator<Item = usize>) -> usize {
    lens.fold(0, usize::saturating_add).max(1)
}

fn projected(mapping: &Mapping, columns: &[usize]) -> SchemaRef {
    let fields: Vec<_> =
        columns.iter().filter_map(|column| mapping.schema().fields().get(*column)).map(Arc::clone).collect();
    Arc::new(Schema::new_with_metadata(fields, mapping.schema().metadata().clone()))
}
