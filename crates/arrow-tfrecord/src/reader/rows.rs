//! Decodes records to record batches: [`RowDecoder`].

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Schema, SchemaRef};
use tfrecord_framing::Position;

use super::assemble::{self, Defect};
use super::column::{Column, Fault};
use super::examples::ExampleLocator;
use super::locate::{BLOCK_ROWS, Locator};
use super::mismatch::Mismatch;
use super::steps::{StepLocator, Steps};
use super::unknown::{UnknownFeature, UnknownFeatures};
use super::wire::WireResult;
use crate::error::{Error, ErrorKind, Result};
use crate::feature::{FeatureKind, FeaturePlace};
use crate::mapping::{Mapping, Node};
use crate::options::RecordType;

/// A batch ends early when its records reach this total length, 256 MiB. So it does when its fixed-size lists do, which
/// take up space even if null.
pub(super) const MAX_BATCH_BYTES: usize = 256 << 20;

/// The maximum number of bytes that the examples of a block of records take at least, 1 GiB.
const MAX_BLOCK_BYTES: usize = 4 * MAX_BATCH_BYTES;

/// A record: the range of its payload in some bytes, and its position in the file.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) payload: Range<usize>,
    pub(crate) position: Position,
}

/// Decodes a set of columns of records.
#[derive(Debug)]
pub(crate) struct RowDecoder {
    /// The schema of the columns that are read.
    schema: SchemaRef,
    /// Decoders of single-feature columns, and of the features of other columns.
    columns: Vec<Column>,
    /// The source of each decoder's feature.
    features: Vec<FeatureSource>,
    /// The output columns.
    outputs: Vec<Output>,
    locator: Locator,
    steps: StepLocator,
    /// Finds the examples of records that contain several.
    examples: Option<ExampleLocator>,
    /// Bytes that an example takes while it is decoded, even without features; 0 if none is read.
    example_len: usize,
    /// Bytes that the examples of the appended rows take at least.
    examples_bytes: usize,
    /// Whether a record is a value of the single column.
    is_bytes: bool,
    /// The parts of the context of the current record, if it contains examples.
    context: Vec<Range<usize>>,
    /// The position of each row's record.
    positions: Vec<Position>,
}

/// The source of a feature, by its index in the locator.
#[derive(Debug, Clone, Copy)]
enum FeatureSource {
    Feature(usize),
    Steps(usize),
    Example(usize),
}

/// A column of the schema.
#[derive(Debug)]
enum Output {
    /// The column of one decoder.
    Column(usize),
    /// A column assembled from several decoders, indexed by the position of the feature in the column.
    Nested(Arc<Node>, Vec<Option<usize>>),
}

/// Assigns an index to each distinct name.
#[derive(Default)]
struct Names<'a> {
    names: Vec<&'a str>,
    numbers: HashMap<&'a str, usize>,
}

impl<'a> Names<'a> {
    fn number(&mut self, name: &'a str) -> usize {
        *self.numbers.entry(name).or_insert_with(|| {
            self.names.push(name);
            self.names.len() - 1
        })
    }
}

impl RowDecoder {
    /// Creates a decoder of the columns of `mapping` at these positions.
    pub(crate) fn try_new(mapping: &Mapping, projection: &[usize]) -> Result<Self> {
        if let Some(column) = projection.iter().find(|column| **column >= mapping.columns().len()) {
            return Err(ErrorKind::NoSuchColumn { column: *column, columns: mapping.columns().len() }.into());
        }
        let mut columns = Vec::with_capacity(projection.len());
        let mut outputs = Vec::with_capacity(projection.len());
        for column in projection.iter().map(|column| &mapping.columns()[*column]) {
            let Some(root) = &column.layout else {
                outputs.push(Output::Column(columns.len()));
                columns.push(Column::try_new(column)?);
                continue;
            };
            let mut parts = Vec::with_capacity(column.features.len());
            for part in assemble::features(root, column.features.len()) {
                parts.push(match part {
                    assemble::Feature::Unread => None,
                    assemble::Feature::Numbers { .. } | assemble::Feature::Values { .. } => Some(columns.len()),
                });
                let feature = &column.features[parts.len() - 1];
                match part {
                    assemble::Feature::Unread => {}
                    assemble::Feature::Numbers { empty_is_null } => {
                        columns.push(Column::part(feature, None, empty_is_null)?);
                    }
                    assemble::Feature::Values { node, leaf, empty_is_null } => {
                        columns.push(Column::part(feature, Some((node, leaf)), empty_is_null)?);
                    }
                }
            }
            outputs.push(Output::Nested(Arc::clone(root), parts));
        }
        let [mut features, mut lists, mut of_examples] = <[Names<'_>; 3]>::default();
        let sources = columns.iter().map(|column| match column.place {
            FeaturePlace::Record => FeatureSource::Feature(features.number(&column.name)),
            FeaturePlace::Steps => FeatureSource::Steps(lists.number(&column.name)),
            FeaturePlace::Items => FeatureSource::Example(of_examples.number(&column.name)),
        });
        let sources = sources.collect();
        let of_items = columns.iter().filter(|column| column.place == FeaturePlace::Items);
        let example_len = of_items.map(Column::row_len).fold(0, usize::saturating_add);
        let has_examples = mapping.record_type() == RecordType::ExampleListWithContext;
        let only_examples = mapping.record_type() == RecordType::Example || has_examples;
        let locator = Locator::new(features.names).only_examples(only_examples);
        let locator = if has_examples { locator.within_messages() } else { locator };
        let steps = StepLocator::new(lists.names);
        let examples = has_examples.then(|| ExampleLocator::new(of_examples.names.into_iter()));
        let fields: Vec<_> = projection.iter().map(|column| Arc::clone(&mapping.schema().fields()[*column])).collect();
        Ok(Self {
            schema: Arc::new(Schema::new_with_metadata(fields, mapping.schema().metadata().clone())),
            columns,
            features: sources,
            outputs,
            locator,
            steps,
            examples,
            example_len,
            examples_bytes: 0,
            is_bytes: mapping.record_type() == RecordType::Bytes,
            context: Vec::new(),
            positions: Vec::new(),
        })
    }

    /// Counts the features that no column of `mapping` reads.
    pub(super) fn counting_unknown(self, mapping: &Mapping) -> Self {
        let examples = self.examples.map(|examples| examples.counting(UnknownFeatures::of(mapping, true)));
        Self { locator: self.locator.counting(UnknownFeatures::of(mapping, false)), examples, ..self }
    }

    /// Removes and returns the counts of features that no column reads.
    pub(super) fn take_unknown(&mut self) -> Vec<UnknownFeature> {
        let of_examples = self.examples.as_mut().and_then(|examples| examples.locator.unknown());
        let unknown = self.locator.unknown().into_iter().chain(of_examples);
        unknown.flat_map(UnknownFeatures::take).collect()
    }

    /// Whether columns are read, so that records are located.
    pub(super) fn has_columns(&self) -> bool {
        !self.columns.is_empty()
    }

    /// The number of appended rows.
    pub(super) fn len(&self) -> usize {
        self.positions.len()
    }

    /// Appends a row for each of `records`, whose payloads are in `bytes`.
    ///
    /// After an error the appended rows are invalid and must be [cleared](Self::clear).
    pub(crate) fn append(&mut self, bytes: &[u8], records: &[Record]) -> Result<()> {
        self.positions.extend(records.iter().map(|record| record.position));
        if self.columns.is_empty() {
            return Ok(());
        }
        if self.is_bytes {
            for column in &mut self.columns {
                records.iter().for_each(|record| column.append_payload(&bytes[record.payload.clone()]));
            }
            return Ok(());
        }
        for block in records.chunks(BLOCK_ROWS) {
            self.locator.start_block(block.len());
            self.examples.iter_mut().for_each(ExampleLocator::start_block);
            for (row, record) in block.iter().enumerate() {
                self.locate(bytes, record.payload.clone(), row)
                    .map_err(|error| malformed(record, None, Some(error.at), error.reason))?;
                if let Some(unknown) = self.locator.unknown() {
                    unknown.end_record(record.position);
                }
                self.check_examples(record, block[0].payload.start)?;
            }
            if !self.steps.is_empty() {
                self.steps.start_block();
                for record in block {
                    let located = self.steps.locate(&mut self.locator, bytes, record.payload.clone());
                    located.map_err(|error| malformed(record, None, Some(error.at), error.reason))?;
                }
            }
            self.append_examples(bytes, block)?;
            for (column, source) in self.features.iter().enumerate() {
                let slots = match *source {
                    FeatureSource::Example(_) => continue,
                    FeatureSource::Feature(feature) => self.locator.slots(feature, block.len()),
                    FeatureSource::Steps(list) => self.steps.slots(list),
                };
                for (chunk, slots) in slots.chunks(BLOCK_ROWS).enumerate() {
                    let appended = self.columns[column].append(slots, &self.locator, bytes);
                    appended.map_err(|(row, fault)| {
                        let row = match *source {
                            FeatureSource::Steps(list) => self.steps.row_of(list, chunk * BLOCK_ROWS + row),
                            FeatureSource::Feature(_) | FeatureSource::Example(_) => row,
                        };
                        refusal(&self.columns[column], &block[row], fault)
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Locates the features of a record, or of its context if it contains examples.
    fn locate(&mut self, bytes: &[u8], record: Range<usize>, row: usize) -> WireResult<()> {
        let Some(examples) = &mut self.examples else { return self.locator.locate(bytes, record, row) };
        examples.split(bytes, record, &mut self.context)?;
        // A later part of a message replaces or extends an earlier one, as a later entry of a map does.
        self.context.iter().try_for_each(|context| self.locator.locate(bytes, context.clone(), row))
    }

    /// Fails if the examples of the block, which begins at `start`, up to `record` take too much space. An example without
    /// features is only two bytes of its record, but has a place in every column.
    fn check_examples(&self, record: &Record, start: usize) -> Result<()> {
        let Some(examples) = &self.examples else { return Ok(()) };
        let len_of = |examples: usize| examples.saturating_mul(self.example_len);
        let Range { start: first, end } = record.payload;
        let limits = [
            (examples.last_len(), MAX_BATCH_BYTES, end - first),
            (examples.found.len(), MAX_BLOCK_BYTES, end.saturating_sub(start)),
        ];
        // Values that are in the record take at most eight bytes for each of its bytes.
        let max_of = |max: usize, payload: usize| max.saturating_add(payload.saturating_mul(size_of::<u64>()));
        let limits = limits.map(|(examples, max, payload)| (examples, max_of(max, payload)));
        match limits.into_iter().find(|(examples, max)| len_of(*examples) > *max) {
            Some((examples, max)) => {
                let (position, len) = (record.position, len_of(examples));
                Err(ErrorKind::ExamplesTooLong { position, examples, len, max }.into())
            }
            None => Ok(()),
        }
    }

    /// Bytes that an example takes while it is decoded, even without features; 0 if none is read.
    pub(super) fn example_len(&self) -> usize {
        self.example_len
    }

    /// Returns the bytes that the examples of the rows appended since the last call take at least.
    pub(super) fn take_examples_bytes(&mut self) -> usize {
        std::mem::take(&mut self.examples_bytes)
    }

    /// Appends the features of the examples in a block of records.
    fn append_examples(&mut self, bytes: &[u8], block: &[Record]) -> Result<()> {
        let Self { examples, columns, features, example_len, examples_bytes, .. } = self;
        let Some(examples) = examples else { return Ok(()) };
        *examples_bytes = examples_bytes.saturating_add(examples.found.len().saturating_mul(*example_len));
        if !examples.is_wanted() {
            return Ok(());
        }
        let is_counting = examples.locator.unknown().is_some();
        for start in (0..examples.found.len()).step_by(BLOCK_ROWS) {
            let chunk = start..examples.found.len().min(start + BLOCK_ROWS);
            examples.locator.start_block(chunk.len());
            for example in chunk.clone() {
                let located = examples.locator.locate(bytes, examples.found[example].clone(), example - start);
                located
                    .map_err(|error| malformed(&block[examples.row_of(example)], None, Some(error.at), error.reason))?;
                if is_counting {
                    let row = examples.row_of(example);
                    let is_last = example + 1 == examples.found.len() || examples.row_of(example + 1) > row;
                    if let Some(unknown) = examples.locator.unknown().filter(|_| is_last) {
                        unknown.end_record(block[row].position);
                    }
                }
            }
            for (column, source) in columns.iter_mut().zip(features.iter()) {
                let FeatureSource::Example(feature) = *source else { continue };
                let slots = examples.locator.slots(feature, chunk.len());
                let appended = column.append(slots, &examples.locator, bytes);
                appended
                    .map_err(|(example, fault)| refusal(column, &block[examples.row_of(start + example)], fault))?;
            }
        }
        Ok(())
    }

    /// Returns the appended rows as a batch. For errors see [`append`](Self::append).
    pub(crate) fn finish(&mut self) -> Result<RecordBatch> {
        let mut arrays = Vec::with_capacity(self.outputs.len());
        for output in 0..self.outputs.len() {
            arrays.push(match &self.outputs[output] {
                Output::Column(column) => {
                    let column = *column;
                    self.columns[column].finish().map_err(|mismatch| self.mismatch(column, mismatch))?
                }
                Output::Nested(root, parts) => {
                    let mut take = |column: usize| {
                        let steps = match self.features[column] {
                            FeatureSource::Feature(_) => None,
                            FeatureSource::Steps(list) => Some(self.steps.of_all_rows(list)),
                            FeatureSource::Example(_) => {
                                let ends = self.examples.as_ref().map(|examples| examples.ends().to_vec());
                                Some(Steps { nulls: None, ends: ends.unwrap_or_default() })
                            }
                        };
                        self.columns[column].take_part(steps)
                    };
                    let mut taken: Vec<_> = parts.iter().map(|part| part.map(&mut take)).collect();
                    let array = assemble::assemble(root, &mut taken, self.positions.len());
                    array.map_err(|defect| self.defect(output, defect))?
                }
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(self.positions.len()));
        self.positions.clear();
        self.steps.clear();
        self.examples.iter_mut().for_each(ExampleLocator::clear);
        let batch = RecordBatch::try_new_with_options(SchemaRef::clone(&self.schema), arrays, &options);
        batch.map_err(|source| ErrorKind::Arrow { source }.into())
    }

    /// Discards the appended rows.
    pub(crate) fn clear(&mut self) {
        self.examples_bytes = 0;
        self.columns.iter_mut().for_each(Column::clear);
        self.steps.clear();
        self.examples.iter_mut().for_each(ExampleLocator::clear);
        self.positions.clear();
    }

    /// The error for inconsistent features of an assembled column.
    fn defect(&self, output: usize, defect: Defect) -> Error {
        let column = |feature: usize| match &self.outputs[output] {
            Output::Column(column) => *column,
            Output::Nested(_, parts) => parts.get(feature).copied().flatten().unwrap_or_default(),
        };
        let position = |row: usize| self.positions.get(row).copied().unwrap_or_default();
        let name = |feature: usize| self.columns[column(feature)].name.clone();
        match defect {
            Defect::Missing { feature, row } => {
                ErrorKind::MissingFeature { position: position(row), feature: name(feature) }.into()
            }
            Defect::Uneven { feature, row, expected, found } => {
                ErrorKind::UnevenFeatures { position: position(row), feature: name(feature), expected, found }.into()
            }
            Defect::Mismatch(feature, mismatch) => self.mismatch(column(feature), mismatch),
            Defect::Other(Mismatch::Arrow(source)) => ErrorKind::Arrow { source }.into(),
            Defect::Other(_) => {
                let field = self.schema.field(output);
                let (column, data_type) = (field.name().clone(), field.data_type().clone());
                ErrorKind::TooManyValues { column, data_type, rows: self.positions.len() }.into()
            }
        }
    }

    fn mismatch(&self, column: usize, mismatch: Mismatch) -> Error {
        let name = self.columns[column].name.clone();
        let data_type = self.columns[column].data_type.clone();
        match mismatch {
            Mismatch::Value { element: row, value } => {
                let position = self.positions.get(row).copied().unwrap_or_default();
                // A column without a feature has no values.
                let kind = self.columns[column].kind.unwrap_or(FeatureKind::Bytes);
                ErrorKind::InvalidValue { position, feature: name, value, data_type, kind }.into()
            }
            Mismatch::TooMany => {
                ErrorKind::TooManyValues { column: name, data_type, rows: self.positions.len() }.into()
            }
            Mismatch::Arrow(source) => ErrorKind::Arrow { source }.into(),
        }
    }
}

/// The error for a record without a valid value for a column.
fn refusal(column: &Column, record: &Record, fault: Fault) -> Error {
    let Column { name, data_type, kind, .. } = column;
    let feature = name.clone();
    let (position, data_type) = (record.position, data_type.clone());
    match fault {
        Fault::Kind(found) => ErrorKind::KindMismatch { position, feature, expected: *kind, found }.into(),
        Fault::Count(found) => ErrorKind::ValueCount { position, feature, data_type, found }.into(),
        Fault::Missing => ErrorKind::MissingFeature { position, feature }.into(),
        Fault::Malformed { at, reason } => malformed(record, Some(feature), at, reason),
    }
}

fn malformed(record: &Record, feature: Option<String>, at: Option<usize>, reason: &'static str) -> Error {
    let at = at.map(|at| at.saturating_sub(record.payload.start));
    ErrorKind::Malformed { position: record.position, feature, at, reason }.into()
}
