//! [`Encoder`]: converts record batches to framed records.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use tfr_arrow::nested;
use tfrecord_framing::{FOOTER_LEN, HEADER_LEN, MAX_RECORD_LEN, seal_record};

use super::bind::{BoundColumn, WireNull};
use super::column::{Cells, FeaturePlan, SPARE, StepCells};
use super::feature::BoundFeature;
use super::shred;
use crate::error::{ErrorKind, Result};
use crate::feature::FeaturePlace;
use crate::mapping::Mapping;
use crate::options::RecordType;
use crate::record_buffer::RecordBuffer;
use crate::wire::{FIELD_1, FIELD_2, MAX_VARINT_LEN, fill_varint, varint_len};

/// Rows that are reserved and written together: few enough that the block and its source values stay in the
/// second-level cache.
const BLOCK_ROWS: usize = 256;

/// The approximate maximum bytes of a block, for long rows.
const BLOCK_BYTES: usize = 1 << 20;

/// An upper bound of the bytes of a record besides its features and examples: context and feature lists, or the context
/// and its features, have a length each.
const RECORD_OVERHEAD: usize = HEADER_LEN + FOOTER_LEN + 2 * (1 + MAX_VARINT_LEN);

/// Converts record batches to framed records: `tf.train.Example`, or another [type](RecordType).
///
/// Of an ExampleListWithContext, the mapping should be one [of a writer](Mapping::of_writer): a reader's may have no
/// column of examples, and then records have none.
///
/// Features are sorted by name, so equal rows give equal bytes. Cloning is cheap, and clones can be used on different
/// threads.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use arrow_tfrecord::{Encoder, Mapping, MappingOptions, RecordBuffer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let batch = RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(vec![7])) as ArrayRef)])?;
/// let encoder = Encoder::new(Arc::new(Mapping::try_new(&batch.schema(), &MappingOptions::default())?));
/// let mut records = RecordBuffer::default();
/// encoder.encode(&batch, &mut records)?;
/// let payload = &records.bytes()[12..records.bytes().len() - 4];
/// assert_eq!(payload, b"\x0a\x0c\x0a\x0a\x0a\x01a\x12\x05\x1a\x03\x0a\x01\x07");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Encoder {
    mapping: Arc<Mapping>,
    /// Sorted by feature name, those of the record first, then those of its examples, then feature lists.
    features: Arc<[PlannedFeature]>,
}

#[derive(Debug)]
struct PlannedFeature {
    /// Position of the column in the schema.
    column: usize,
    /// Position among the features of the column.
    part: usize,
    place: FeaturePlace,
    plan: FeaturePlan,
}

impl Encoder {
    /// Creates an encoder of batches with the mapping's schema.
    pub fn new(mapping: Arc<Mapping>) -> Self {
        let mut features = Vec::new();
        for (column, mapped) in mapping.columns().iter().enumerate() {
            // A column with a layout records the wire state of each null itself.
            let null = if mapped.layout.is_some() { WireNull::Absent } else { WireNull::from(&mapped.nulls) };
            for (part, feature) in mapped.features.iter().enumerate() {
                let (place, plan) = (feature.place(), FeaturePlan::new(feature, null));
                features.push((&feature.name, PlannedFeature { column, part, place, plan }));
            }
        }
        features.sort_by_key(|(name, feature)| (feature.place, *name));
        let features = features.into_iter().map(|(_, feature)| feature).collect();
        Self { features, mapping }
    }

    /// The mapping of the columns.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Appends a record for every row of `batch`. On error, appends nothing.
    ///
    /// # Errors
    /// Those of [`bind`](Self::bind) and [`BoundBatch::encode`].
    pub fn encode(&self, batch: &RecordBatch, out: &mut RecordBuffer) -> Result<()> {
        self.bind(batch)?.encode(0..batch.num_rows(), out)
    }

    /// Converts the columns of `batch` to the kinds of their features, and checks every value. Rows can then be encoded
    /// in pieces.
    ///
    /// # Errors
    /// Fails if the columns of the batch differ from the mapping's in names, types or order, or on a null or value that
    /// the mapping does not allow.
    pub fn bind(&self, batch: &RecordBatch) -> Result<BoundBatch<'_>> {
        self.check_schema(batch)?;
        let mut columns: Vec<_> = self.features.iter().map(|_| None).collect();
        let mut nested: Vec<_> = self.mapping.columns().iter().map(|_| Vec::new()).collect();
        for (bound, feature) in columns.iter_mut().zip(self.features.iter()) {
            let (mapped, array) = (&self.mapping.columns()[feature.column], batch.column(feature.column));
            let Some(root) = &mapped.layout else {
                *bound = Some(BoundColumn::try_new(mapped, array)?);
                continue;
            };
            let parts = &mut nested[feature.column];
            if parts.is_empty() {
                *parts = shred::shred(root, mapped.features.len(), array)?;
            }
            *bound = parts[feature.part].take();
        }
        Ok(BoundBatch { encoder: self, columns: columns.into_iter().flatten().collect(), rows: batch.num_rows() })
    }

    fn check_schema(&self, batch: &RecordBatch) -> Result<()> {
        let expected = self.mapping.columns().iter().map(|column| (column.column.as_str(), &column.data_type));
        let found = batch.schema_ref().fields().iter().map(|field| (field.name().as_str(), field.data_type()));
        match nested::difference(expected, found) {
            Some((expected, found)) => Err(ErrorKind::SchemaMismatch { expected, found }.into()),
            None => Ok(()),
        }
    }
}

/// A batch whose values have been checked and converted to the kinds of their features.
#[derive(Debug)]
pub struct BoundBatch<'a> {
    encoder: &'a Encoder,
    columns: Vec<BoundColumn>,
    rows: usize,
}

impl BoundBatch<'_> {
    /// Number of rows.
    pub fn num_rows(&self) -> usize {
        self.rows
    }

    /// The features of each row's record, sorted by name, with feature lists and the features of examples last.
    pub fn features(&self) -> impl Iterator<Item = BoundFeature<'_>> {
        self.columns.iter().zip(self.encoder.features.iter()).map(|(column, feature)| BoundFeature {
            mapping: &self.encoder.mapping.columns()[feature.column].features[feature.part],
            column,
            wire_null: feature.plan.wire_null,
            rows: self.rows,
        })
    }

    /// Appends a record for each of `rows`. On error, appends nothing. Rows past the last are ignored.
    ///
    /// # Errors
    /// Fails on a record that exceeds the maximum length of a protobuf message.
    pub fn encode(&self, rows: Range<usize>, out: &mut RecordBuffer) -> Result<()> {
        let start = out.len();
        self.append(rows.start..rows.end.min(self.rows), out).inspect_err(|_| out.truncate(start))
    }

    fn append(&self, rows: Range<usize>, out: &mut RecordBuffer) -> Result<()> {
        let columns = || self.columns.iter().zip(self.encoder.features.iter());
        let cells = columns().filter(|(_, feature)| feature.place == FeaturePlace::Record);
        let cells: Vec<_> = cells.map(|(column, feature)| Cells::new(column, &feature.plan)).collect();
        // The features of steps, or of examples.
        let lists: Vec<_> = columns().filter_map(|(column, feature)| StepCells::new(column, &feature.plan)).collect();
        let put_features = |out: &mut [u8], pos: usize, row: usize| put_features(&cells, out, pos, row);
        // Rows of one table have similar lengths, so the last record predicts the varint length of the next.
        let mut length_len = 1;
        match self.encoder.mapping.record_type() {
            RecordType::Example => append_rows(rows, out, &cells, &[], |out, pos, row| {
                put_message(out, pos, FIELD_1, &mut length_len, |out, pos| put_features(out, pos, row))
            }),
            RecordType::SequenceExample => {
                let mut lists_length_len = 1;
                append_rows(rows, out, &cells, &lists, |out, pos, row| {
                    let pos = put_message(out, pos, FIELD_1, &mut length_len, |out, pos| put_features(out, pos, row));
                    put_message(out, pos, FIELD_2, &mut lists_length_len, |out, pos| {
                        lists.iter().fold(pos, |pos, list| list.put(out, pos, row))
                    })
                })
            }
            RecordType::ExampleListWithContext => {
                let mut lengths_len = [1; 3];
                append_rows(rows, out, &cells, &lists, |out, pos, row| {
                    let [around, within, around_context] = &mut lengths_len;
                    let examples = lists.first().map_or(0..0, |list| list.steps(row));
                    let pos = examples.fold(pos, |pos, example| {
                        put_message(out, pos, FIELD_1, around, |out, pos| {
                            put_message(out, pos, FIELD_1, within, |out, pos| {
                                lists.iter().fold(pos, |pos, list| list.put_as_row(out, pos, example))
                            })
                        })
                    });
                    put_message(out, pos, FIELD_2, around_context, |out, pos| {
                        put_message(out, pos, FIELD_1, &mut length_len, |out, pos| put_features(out, pos, row))
                    })
                })
            }
            RecordType::Bytes => append_rows(rows, out, &cells, &[], |out, pos, row| {
                cells.first().map_or(pos, |column| column.put_bare(out, pos, row))
            }),
        }
    }
}

/// Writes the features of `row`, and returns the position after them.
#[cfg_attr(target_arch = "x86_64", multiversion::multiversion(targets("x86_64+avx2+bmi1+bmi2+lzcnt")))]
fn put_features(cells: &[Cells<'_>], out: &mut [u8], pos: usize, row: usize) -> usize {
    let mut end = pos;
    for column in cells {
        end = column.put(out, end, row);
    }
    end
}

/// Appends a record for each of `rows`. `put` writes its payload at a position, and returns the position after it.
#[inline]
fn append_rows(
    rows: Range<usize>,
    out: &mut RecordBuffer,
    cells: &[Cells<'_>],
    lists: &[StepCells<'_>],
    mut put: impl FnMut(&mut [u8], usize, usize) -> usize,
) -> Result<()> {
    let mut start = rows.start;
    while start < rows.end {
        let (block, bound) = block(cells, lists, start..rows.end);
        cells.iter().for_each(|column| column.touch(block.clone()));
        let mut spare = out.spare(bound);
        for row in block.clone() {
            let frame = spare.start();
            let payload = frame + HEADER_LEN;
            let mut end = put(spare.bytes, payload, row);
            if end - payload > MAX_RECORD_LEN {
                return Err(ErrorKind::RecordTooLong { row: row as u64, len: end - payload }.into());
            }
            end += FOOTER_LEN;
            seal_record(&mut spare.bytes[frame..end]);
            spare.push_record(end);
        }
        start = block.end;
    }
    Ok(())
}

/// Writes the output of `fill` as a message with this tag at `pos`, and returns the position after it. Assumes that the
/// length takes `length_len` bytes, and moves the message if it does not.
#[inline(always)]
fn put_message(
    out: &mut [u8],
    pos: usize,
    tag: u8,
    length_len: &mut usize,
    fill: impl FnOnce(&mut [u8], usize) -> usize,
) -> usize {
    let content = pos + 1 + *length_len;
    let mut end = fill(out, content);
    let len = end - content;
    let needed = varint_len(len as u64);
    if needed != *length_len {
        out.copy_within(content..end, pos + 1 + needed);
        end = end - *length_len + needed;
        *length_len = needed;
    }
    out[pos] = tag;
    fill_varint(&mut out[pos + 1..pos + 1 + needed], len as u64);
    end
}

/// The next rows to write together, and an upper bound of their bytes.
fn block(cells: &[Cells<'_>], lists: &[StepCells<'_>], rows: Range<usize>) -> (Range<usize>, usize) {
    let mut block = rows.start..rows.end.min(rows.start + BLOCK_ROWS);
    loop {
        let features: usize = cells.iter().map(|column| column.bound(block.clone())).sum();
        let features = features + lists.iter().map(|list| list.bound(block.clone())).sum::<usize>();
        let bound = features + block.len() * RECORD_OVERHEAD + SPARE;
        if bound <= BLOCK_BYTES || block.len() == 1 {
            return (block, bound);
        }
        block.end = block.start + block.len() / 2;
    }
}
