//! One column being read: [`Column`].

use arrow_array::{ArrayRef, NullArray};
use arrow_buffer::{BooleanBuffer, NullBuffer, NullBufferBuilder};
use arrow_schema::{DataType, Field};
use std::sync::Arc;

use super::locate::{BLOCK_ROWS, Locator, Slot};
use super::nest;
use super::restore::Misfit;
use super::values::{Blobs, Room, Sink, Values};
use super::wire::Malformed;
use crate::error::{ErrorKind, Result};
use crate::mapping::{ColumnMapping, Conversion, FeatureKind, FeatureShape};
use crate::tensor;

/// Why a record has no value for a column.
#[derive(Debug)]
pub(super) enum Fault {
    /// Another kind than the column's.
    Kind(FeatureKind),
    /// So many values.
    Count(usize),
    /// None at all.
    Missing,
    /// At a position in the records, unless the list had to be joined from several places.
    Malformed { at: Option<usize>, reason: &'static str },
}

/// How to read one column, and what was read of it.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) data_type: DataType,
    /// The kind of its feature; none if it must not have values.
    pub(super) kind: Option<FeatureKind>,
    shape: FeatureShape,
    conversion: Conversion,
    nullable: bool,
    values: Values,
    nulls: NullBufferBuilder,
    /// Where each row's values end, if the number may differ.
    ends: Vec<usize>,
    /// What the batch before took.
    room: Room,
}

impl Column {
    pub(super) fn try_new(mapping: &ColumnMapping) -> Result<Self> {
        let feature = mapping.features.first();
        let kind = feature.map(|feature| feature.kind);
        let column = Self {
            data_type: mapping.data_type.clone(),
            kind,
            shape: feature.map_or(FeatureShape::Scalar, |feature| feature.shape),
            conversion: mapping.conversion,
            nullable: mapping.nullable,
            values: Values::new(kind.unwrap_or(FeatureKind::Bytes)),
            nulls: NullBufferBuilder::new(0),
            ends: Vec::new(),
            room: Room::default(),
        };
        let value_type = value_type(column.element_type());
        let can_be_read =
            matches!(value_type, DataType::Duration(_)) || arrow_cast::can_cast_types(&DataType::LargeUtf8, value_type);
        if column.conversion == Conversion::Text && !can_be_read {
            return Err(ErrorKind::TextNotRead {
                column: mapping.column.clone(),
                data_type: mapping.data_type.clone(),
            }
            .into());
        }
        Ok(column)
    }

    /// The type of a list's elements, or of the rows themselves.
    fn element_type(&self) -> &DataType {
        item(&self.data_type).map_or(&self.data_type, Field::data_type)
    }

    /// Appends the rows of a block that `slots` are of; on error tells which of them.
    pub(super) fn append(&mut self, slots: &[Slot], locator: &Locator, records: &[u8]) -> Result<(), (usize, Fault)> {
        if self.kind.is_none() {
            self.nulls.append_n_nulls(slots.len());
            return match slots.iter().enumerate().find_map(|(row, slot)| Some((row, slot.kind?))) {
                Some((row, kind)) => Err((row, Fault::Kind(kind))),
                None => Ok(()),
            };
        }
        if self.values.len() == 0 {
            self.values.reserve(self.room);
        }
        let rows = Rows {
            slots,
            locator,
            records,
            shape: self.shape,
            nullable: self.nullable,
            nulls: &mut self.nulls,
            ends: &mut self.ends,
        };
        match &mut self.values {
            Values::Int64(values) => rows.append_to(values),
            Values::Float(values) => rows.append_to(values),
            Values::Bytes(values) => rows.append_to(values),
            // Made of bytes, in `finish`.
            Values::Double(_) => Ok(()),
        }
    }

    /// Forgets the rows appended since the last time.
    pub(super) fn clear(&mut self) {
        self.values = Values::new(self.kind.unwrap_or(FeatureKind::Bytes));
        self.nulls = NullBufferBuilder::new(0);
        self.ends.clear();
    }

    /// The rows appended since the last time, or which row, by its number since then, is in the way.
    pub(super) fn finish(&mut self) -> Result<ArrayRef, Misfit> {
        let rows = self.nulls.len();
        let nulls = self.nulls.finish();
        let mut ends = std::mem::take(&mut self.ends);
        let Some(kind) = self.kind else {
            return Ok(Arc::new(NullArray::new(rows)));
        };
        self.room = self.values.room();
        let mut values = std::mem::replace(&mut self.values, Values::new(kind));
        if let Values::Bytes(tensors) = &values
            && self.conversion == Conversion::Float64Tensor
        {
            values = self.tensors(tensors, nulls.as_ref(), &mut ends)?;
        }
        let (element_nulls, list_nulls) = match &self.data_type {
            // What stands under a null list has no meaning, and must have no say in errors.
            DataType::FixedSizeList(_, len) => (nulls.as_ref().map(|nulls| repeated(nulls, *len)), nulls),
            data_type if item(data_type).is_some() => (None, nulls),
            _ => (nulls, None),
        };
        let elements = nest::elements(values, element_nulls, self.conversion, self.element_type());
        let elements = elements.map_err(|misfit| match misfit {
            Misfit::Value { element, value } => Misfit::Value { element: self.row_of(element, &ends), value },
            other => other,
        })?;
        if let DataType::FixedSizeList(..) = self.data_type {
            ends.resize(rows, 0);
        }
        nest::lists(&self.data_type, elements, &ends, list_nulls)
    }

    fn row_of(&self, element: usize, ends: &[usize]) -> usize {
        match &self.data_type {
            DataType::FixedSizeList(_, len) => element / usize::try_from(*len).unwrap_or_default().max(1),
            data_type if item(data_type).is_some() => ends.partition_point(|end| *end <= element),
            _ => element,
        }
    }

    /// What is in the tensors, one a row.
    fn tensors(&self, tensors: &Blobs, nulls: Option<&NullBuffer>, ends: &mut Vec<usize>) -> Result<Values, Misfit> {
        let wanted = match &self.data_type {
            DataType::FixedSizeList(_, len) => usize::try_from(*len).ok(),
            data_type if item(data_type).is_some() => None,
            _ => Some(1),
        };
        let mut doubles = Vec::new();
        for row in 0..tensors.ends.len() {
            if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                doubles.resize(doubles.len() + wanted.unwrap_or_default(), 0.0);
            } else {
                let Some(count) = tensor::read_doubles(tensors.get(row), &mut doubles) else {
                    return Err(Misfit::value(row, "a value that is no TensorProto of doubles"));
                };
                if wanted.is_some_and(|wanted| wanted != count) {
                    return Err(Misfit::value(row, format!("a tensor of {count} values")));
                }
            }
            ends.push(doubles.len());
        }
        Ok(Values::Double(doubles))
    }
}

/// The field of a list's elements.
fn item(data_type: &DataType) -> Option<&Field> {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => Some(item),
        _ => None,
    }
}

/// The type of the values that a dictionary or runs hold, or of the elements themselves.
fn value_type(element_type: &DataType) -> &DataType {
    match element_type {
        DataType::Dictionary(_, values) => values,
        DataType::RunEndEncoded(_, values) => values.data_type(),
        plain => plain,
    }
}

fn repeated(nulls: &NullBuffer, times: i32) -> NullBuffer {
    let times = usize::try_from(times).unwrap_or_default();
    BooleanBuffer::collect_bool(nulls.len() * times, |element| nulls.is_valid(element / times)).into()
}

/// At most [`BLOCK_ROWS`] rows of one column.
struct Rows<'a> {
    slots: &'a [Slot],
    locator: &'a Locator,
    records: &'a [u8],
    shape: FeatureShape,
    nullable: bool,
    nulls: &'a mut NullBufferBuilder,
    ends: &'a mut Vec<usize>,
}

impl Rows<'_> {
    fn append_to<S: Sink>(self, values: &mut S) -> Result<(), (usize, Fault)> {
        let wanted = match self.shape {
            FeatureShape::Scalar => Some(1),
            FeatureShape::Fixed(len) => Some(len),
            FeatureShape::List => None,
        };
        let (is_list, is_one) = (wanted.is_none(), wanted == Some(1));
        let mut valid = [false; BLOCK_ROWS];
        for ((row, slot), valid) in self.slots.iter().enumerate().zip(&mut valid) {
            match slot.kind {
                Some(kind) if kind == S::KIND => {
                    let bytes = self.locator.bytes_of(slot, self.records);
                    let list = slot.range();
                    if !(is_one && values.push_one(bytes, list.start, list.end)) {
                        let before = values.count();
                        values
                            .push_all(&bytes[..list.end], list.start)
                            .map_err(|error| (row, self.fault(slot, error)))?;
                        let found = values.count() - before;
                        if wanted.is_some_and(|wanted| wanted != found) {
                            return Err((row, Fault::Count(found)));
                        }
                    }
                    *valid = true;
                }
                Some(kind) => return Err((row, Fault::Kind(kind))),
                None if !self.nullable => return Err((row, Fault::Missing)),
                None => {
                    values.pad(wanted.unwrap_or_default());
                }
            }
            if is_list {
                self.ends.push(values.count());
            }
        }
        let valid = &valid[..self.slots.len()];
        if valid.iter().all(|valid| *valid) {
            self.nulls.append_n_non_nulls(valid.len());
        } else {
            self.nulls.append_buffer(&BooleanBuffer::collect_bool(valid.len(), |row| valid[row]).into());
        }
        Ok(())
    }

    fn fault(&self, slot: &Slot, error: Malformed) -> Fault {
        Fault::Malformed { at: self.locator.position_of(slot, error.at), reason: error.reason }
    }
}
