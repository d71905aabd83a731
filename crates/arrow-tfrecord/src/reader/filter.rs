//! Which records become rows: [`RowFilter`].
//!
//! [`BatchDecoder`] decodes the columns that a filter reads, asks it, and decodes the other columns of the rows that
//! pass only.

use std::fmt;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use arrow_select::{concat, filter};
use tfrecord_framing::Frames;

use super::locate::BLOCK_ROWS;
use super::rows::{Record, RowDecoder};
use crate::error::{ErrorKind, Result};
use crate::mapping::Mapping;

/// The most records that a filter is asked about at once: few enough that they are still in the cache when the other
/// columns are decoded.
const FILTER_ROWS: usize = 1024;

/// A filter is asked about at least this many times for a batch, and a batch is this much shorter than asked for at
/// most.
const FILTER_PARTS: usize = 8;

/// A batch ends early when its records are as long as this together, 256 MiB, or its lists of fixed size are, which take
/// their room even where they are null.
const MAX_BATCH_BYTES: usize = 256 << 20;

/// Which records become rows, told from some of their columns; given to [`ReaderBuilder::with_row_filter`].
///
/// A filter is one predicate or several, one [after](Self::and) the other. A predicate gets batches of the columns it
/// asked for, and answers for each row: a row passes if the answer is true; null is no. The columns of a later predicate
/// are decoded only for the rows that passed the ones before, and all other columns only for the rows that passed all.
/// No column is decoded twice.
///
/// [`ReaderBuilder::with_row_filter`]: crate::ReaderBuilder::with_row_filter
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::cast::AsArray;
/// use arrow_array::types::Int64Type;
/// use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
/// use arrow_tfrecord::{ReaderBuilder, RowFilter, WriterBuilder};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let batch = RecordBatch::try_from_iter_with_nullable([
///     ("id", Arc::new(Int64Array::from(vec![Some(1), Some(2), None])) as ArrayRef, true),
///     ("label", Arc::new(StringArray::from(vec!["cat", "dog", "owl"])), false),
/// ])?;
/// let mut writer = WriterBuilder::new(batch.schema()).build(Vec::new())?;
/// writer.write(&batch)?;
/// let file = writer.finish()?;
///
/// let filter = RowFilter::new(vec![0], |batch: RecordBatch| {
///     let ids = batch.column(0).as_primitive::<Int64Type>();
///     Ok(BooleanArray::from_unary(ids, |id| id > 1))
/// });
/// let mut reader = ReaderBuilder::new(batch.schema()).with_row_filter(filter).build(file.as_slice())?;
/// assert_eq!(reader.next().transpose()?, Some(batch.slice(1, 1)));
/// assert!(reader.next().is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RowFilter {
    predicates: Vec<Predicate>,
}

#[derive(Clone)]
struct Predicate {
    columns: Vec<usize>,
    evaluate: Arc<Evaluate>,
}

type Evaluate = dyn Fn(RecordBatch) -> Result<BooleanArray, ArrowError> + Send + Sync;

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Predicate").field("columns", &self.columns).finish_non_exhaustive()
    }
}

impl RowFilter {
    /// A filter that reads `columns`, by their positions in the schema of the reader, and is given them in this order.
    /// They need not be columns of the projection.
    pub fn new<F>(columns: Vec<usize>, predicate: F) -> Self
    where
        F: Fn(RecordBatch) -> Result<BooleanArray, ArrowError> + Send + Sync + 'static,
    {
        Self { predicates: vec![Predicate { columns, evaluate: Arc::new(predicate) }] }
    }

    /// A filter that asks `other` about the rows that pass this one. So the cheaper or the stricter one comes first.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.predicates.extend(other.predicates);
        self
    }
}

/// Decodes records to batches, of which only the rows that pass a filter are made.
#[derive(Debug)]
pub(super) struct BatchDecoder {
    schema: SchemaRef,
    batch_size: usize,
    step: usize,
    /// Bytes that a row takes at least.
    row_len: usize,
    stages: Vec<Stage>,
    /// The columns of the batch that no predicate reads.
    rest: RowDecoder,
    /// Where every column of the batch is from.
    sources: Vec<Source>,
    /// What passed of the columns that predicates read, in pieces; by the number of the column.
    passed: Vec<Vec<ArrayRef>>,
    /// Which stage a column that predicates read is last needed for; [`Stage::NONE`] if it is one of the batch.
    last_use: Vec<usize>,
    /// What `append` works on.
    records: Vec<Record>,
    /// Bytes of the payloads that became rows, or that these rows take at least.
    bytes: usize,
}

/// A predicate, and what is decoded for it.
#[derive(Debug)]
struct Stage {
    /// The columns that no stage before decoded.
    columns: RowDecoder,
    schema: SchemaRef,
    /// Which of all decoded columns the predicate is given.
    inputs: Vec<usize>,
    predicate: Predicate,
}

#[derive(Debug, Clone, Copy)]
enum Source {
    /// This column of the rest.
    Rest(usize),
    /// This one of those that predicates read.
    Passed(usize),
}

impl BatchDecoder {
    /// A decoder of the columns of `mapping` at these positions, or of all, to batches of at most `batch_size` rows.
    pub(super) fn try_new(
        mapping: &Mapping,
        projection: Option<&[usize]>,
        filter: Option<RowFilter>,
        batch_size: usize,
    ) -> Result<Self> {
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
                    Source::Passed(number)
                }
                None => {
                    rest.push(*column);
                    Source::Rest(rest.len() - 1)
                }
            });
        }
        let step = if stages.is_empty() { BLOCK_ROWS } else { (batch_size / FILTER_PARTS).clamp(1, FILTER_ROWS) };
        Ok(Self {
            rest: RowDecoder::try_new(mapping, &rest)?,
            schema: projected(mapping, &projection),
            batch_size,
            step,
            row_len: read
                .iter()
                .chain(&rest)
                .map(|column| fixed_len(&mapping.columns()[*column].data_type))
                .fold(1, usize::saturating_add),
            stages,
            sources,
            passed: vec![Vec::new(); read.len()],
            last_use,
            records: Vec::new(),
            bytes: 0,
        })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Rows of the batch so far.
    pub(super) fn len(&self) -> usize {
        self.rest.len()
    }

    /// How many more records are certain to have a place in the batch; 0 if it is to be finished.
    pub(super) fn capacity(&self) -> usize {
        let room = self.batch_size.saturating_sub(self.len());
        // Which records will pass is not known, and asking about few of them is not worth it.
        let is_too_little = room < self.step && !self.stages.is_empty();
        if is_too_little || self.bytes >= MAX_BATCH_BYTES { 0 } else { room }
    }

    /// How many records are best appended now.
    pub(super) fn step(&self) -> usize {
        let fitting = MAX_BATCH_BYTES.saturating_sub(self.bytes) / self.row_len;
        self.capacity().min(self.step).min(fitting.max(1))
    }

    /// Appends a row for each record that passes.
    ///
    /// After an error the rows appended since the last time are of no use, and to be [cleared](Self::clear).
    pub(super) fn append(&mut self, frames: &Frames<'_>) -> Result<()> {
        let records = frames.iter().map(|(payload, position)| Record { payload, position });
        self.records.clear();
        self.records.extend(records);
        let mut decoded: Vec<ArrayRef> = Vec::with_capacity(self.passed.len());
        for (number, stage) in self.stages.iter_mut().enumerate() {
            stage.columns.append(frames.bytes(), &self.records)?;
            decoded.extend_from_slice(stage.columns.finish()?.columns());
            let passes = stage.evaluate(&decoded, &self.records)?;
            match passes.true_count() {
                0 => return Ok(()),
                all if all == self.records.len() => continue,
                _ => {}
            }
            let predicate = filter::FilterBuilder::new(&passes).optimize().build();
            for (column, last_use) in decoded.iter_mut().zip(&self.last_use) {
                if *last_use > number {
                    *column = predicate.filter(column).map_err(|source| ErrorKind::Arrow { source })?;
                }
            }
            let mut passes = passes.values().iter();
            self.records.retain(|_| passes.next() == Some(true));
        }
        self.rest.append(frames.bytes(), &self.records)?;
        for ((passed, column), last_use) in self.passed.iter_mut().zip(decoded).zip(&self.last_use) {
            if *last_use == Stage::NONE {
                passed.push(column);
            }
        }
        self.bytes += self.records.iter().map(|record| record.payload.len().max(self.row_len)).sum::<usize>();
        Ok(())
    }

    /// The rows appended since the last time, as a batch.
    pub(super) fn finish(&mut self) -> Result<RecordBatch> {
        let rows = self.len();
        let batch = self.finish_columns(rows);
        self.clear();
        batch
    }

    fn finish_columns(&mut self, rows: usize) -> Result<RecordBatch> {
        let rest = self.rest.finish()?;
        let column = |source: &Source| match source {
            Source::Rest(column) => Ok(ArrayRef::clone(rest.column(*column))),
            Source::Passed(number) => {
                let pieces: Vec<&dyn Array> = self.passed[*number].iter().map(AsRef::as_ref).collect();
                concat::concat(&pieces)
            }
        };
        let columns = self.sources.iter().map(column).collect::<Result<_, _>>();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        columns
            .and_then(|columns| RecordBatch::try_new_with_options(SchemaRef::clone(&self.schema), columns, &options))
            .map_err(|source| ErrorKind::Arrow { source }.into())
    }

    /// Forgets the rows appended since the last time.
    pub(super) fn clear(&mut self) {
        self.stages.iter_mut().for_each(|stage| stage.columns.clear());
        self.rest.clear();
        self.passed.iter_mut().for_each(Vec::clear);
        self.bytes = 0;
    }
}

impl Stage {
    /// Behind all stages.
    const NONE: usize = usize::MAX;

    /// Which records pass: an answer without nulls.
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
            Ok(if passes.null_count() > 0 { filter::prep_null_mask_filter(&passes) } else { passes })
        };
        answer().map_err(|source| {
            let position = records.first().map(|record| record.position).unwrap_or_default();
            ErrorKind::RowFilter { position, source }.into()
        })
    }
}

/// Bytes that a value of a list of fixed size takes while it is decoded, even if it is null; 1 of any other type.
fn fixed_len(data_type: &DataType) -> usize {
    match data_type {
        DataType::FixedSizeList(item, len) => {
            let items = usize::try_from(*len).unwrap_or_default();
            size_of::<u64>().max(fixed_len(item.data_type())).saturating_mul(items.max(1))
        }
        _ => 1,
    }
}

fn projected(mapping: &Mapping, columns: &[usize]) -> SchemaRef {
    let fields: Vec<_> =
        columns.iter().filter_map(|column| mapping.schema().fields().get(*column)).map(Arc::clone).collect();
    Arc::new(Schema::new_with_metadata(fields, mapping.schema().metadata().clone()))
}
