//! Decodes one column: [`Column`].

use arrow_array::{ArrayRef, new_null_array};
use arrow_buffer::{BooleanBuffer, NullBuffer, NullBufferBuilder};
use arrow_schema::{DataType, Field};
use std::sync::Arc;
use tfr_arrow::nested::item;

use super::assemble::FeaturePart;
use super::locate::{BLOCK_ROWS, Locator, Slot};
use super::mismatch::Mismatch;
use super::nest;
use super::steps::Steps;
use super::tensor;
use super::values::{DecodedValues, Room, Sink};
use super::wire::Malformed;

use crate::dtype::value_type;
use crate::error::{ErrorKind, Result};
use crate::feature::{FeatureKind, FeatureMapping, FeaturePlace, FeatureShape};
use crate::mapping::{ColumnMapping, Conversion, Leaf, Node};
use crate::options::NullPolicy;

/// Why a record has no value for a column.
#[derive(Debug)]
pub(super) enum Fault {
    /// A kind that differs from the column's.
    Kind(FeatureKind),
    /// An unexpected number of values.
    Count(usize),
    /// No value.
    Missing,
    /// Malformed bytes, at a position in the records. `None` if the list was joined from several places.
    Malformed { at: Option<usize>, reason: &'static str },
}

/// The decoder of one column, with the values decoded so far.
#[derive(Debug)]
pub(super) struct Column {
    /// The name of its feature.
    pub(super) name: String,
    /// Where its feature is. Steps and examples are treated as rows.
    pub(super) place: FeaturePlace,
    pub(super) data_type: DataType,
    /// The kind of its feature. `None` if it must not have values.
    pub(super) kind: Option<FeatureKind>,
    shape: FeatureShape,
    conversion: Conversion,
    nullable: bool,
    /// Whether a feature without values is null, if values are required.
    empty_is_null: bool,
    values: DecodedValues,
    nulls: NullBufferBuilder,
    /// The end of each row's values, if their number varies.
    ends: Vec<usize>,
    /// The space that the previous batch needed.
    room: Room,
}

impl Column {
    pub(super) fn try_new(mapping: &ColumnMapping) -> Result<Self> {
        let feature = mapping.features.first();
        let kind = feature.map(|feature| feature.kind);
        let column = Self {
            name: mapping.column.clone(),
            place: FeaturePlace::Record,
            data_type: mapping.data_type.clone(),
            kind,
            shape: feature.map_or(FeatureShape::Scalar, |feature| feature.shape),
            conversion: mapping.conversion.clone(),
            nullable: mapping.nullable,
            empty_is_null: mapping.nulls.is(NullPolicy::Empty),
            values: DecodedValues::new(kind.unwrap_or(FeatureKind::Bytes)),
            nulls: NullBufferBuilder::new(0),
            ends: Vec::new(),
            room: Room::default(),
        };
        check_text(&column.conversion, &mapping.column, &mapping.data_type, column.element_type())?;
        Ok(column)
    }

    /// Creates a decoder of one feature of a column with a layout: the values of `node`, or, without a node, lengths or
    /// a mask.
    pub(super) fn part(feature: &FeatureMapping, node: Option<(&Node, &Leaf)>, empty_is_null: bool) -> Result<Self> {
        let value_type = node.map_or(DataType::Int64, |(node, _)| node.data_type.clone());
        let conversion = node.map_or(Conversion::Integer, |(_, leaf)| leaf.conversion.clone());
        if let Some((node, _)) = node {
            check_text(&conversion, &node.path, &node.data_type, &node.data_type)?;
        }
        let item = |data_type| Arc::new(Field::new_list_field(data_type, true));
        Ok(Self {
            name: feature.name.clone(),
            place: feature.place(),
            data_type: match feature.shape {
                FeatureShape::Scalar => value_type,
                FeatureShape::Fixed(len) => match i32::try_from(len) {
                    Ok(len) => DataType::FixedSizeList(item(value_type), len),
                    Err(_) => DataType::LargeList(item(value_type)),
                },
                FeatureShape::List => DataType::LargeList(item(value_type)),
            },
            kind: Some(feature.kind),
            shape: feature.shape,
            conversion,
            // Other features determine whether it may be missing.
            nullable: true,
            empty_is_null,
            values: DecodedValues::new(feature.kind),
            nulls: NullBufferBuilder::new(0),
            ends: Vec::new(),
            room: Room::default(),
        })
    }

    /// Bytes that a row takes while it is decoded, even without values.
    pub(super) fn row_len(&self) -> usize {
        let values = match self.shape {
            FeatureShape::Fixed(len) => len.max(1),
            FeatureShape::Scalar | FeatureShape::List => 1,
        };
        values.saturating_mul(size_of::<u64>())
    }

    /// Appends a row whose value is the whole record.
    pub(super) fn append_payload(&mut self, payload: &[u8]) {
        if let DecodedValues::Bytes(values) = &mut self.values {
            values.push(payload);
            self.nulls.append_non_null();
        }
    }

    /// Takes the values of the appended rows.
    pub(super) fn take_part(&mut self, steps: Option<Steps>) -> FeaturePart {
        self.room = self.values.room();
        let values = DecodedValues::new(self.kind.unwrap_or(FeatureKind::Bytes));
        FeaturePart {
            shape: self.shape,
            steps,
            values: std::mem::replace(&mut self.values, values),
            nulls: self.nulls.finish(),
            ends: std::mem::take(&mut self.ends),
        }
    }

    /// The type of a list's elements, or of the rows themselves.
    fn element_type(&self) -> &DataType {
        item(&self.data_type).map_or(&self.data_type, |item| item.data_type())
    }

    /// Appends the rows of a block at `slots`. An error includes the row.
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
            accepts_integers: *self.element_type() == DataType::Float64,
            slots,
            locator,
            records,
            shape: self.shape,
            nullable: self.nullable,
            empty_is_null: self.empty_is_null,
            nulls: &mut self.nulls,
            ends: &mut self.ends,
        };
        match &mut self.values {
            DecodedValues::Int64(values) => rows.append_to(values),
            DecodedValues::Float(values) => rows.append_to(values),
            DecodedValues::Bytes(values) => rows.append_to(values),
        }
    }

    /// Discards the appended rows.
    pub(super) fn clear(&mut self) {
        self.values = DecodedValues::new(self.kind.unwrap_or(FeatureKind::Bytes));
        self.nulls = NullBufferBuilder::new(0);
        self.ends.clear();
    }

    /// Returns the appended rows as an array. An error includes the row, counted from the first appended one.
    pub(super) fn finish(&mut self) -> Result<ArrayRef, Mismatch> {
        let rows = self.nulls.len();
        let nulls = self.nulls.finish();
        let mut ends = std::mem::take(&mut self.ends);
        let Some(kind) = self.kind else {
            return Ok(new_null_array(&self.data_type, rows));
        };
        self.room = self.values.room();
        let values = std::mem::replace(&mut self.values, DecodedValues::new(kind));
        if let (DecodedValues::Bytes(tensors), Conversion::Tensor(shape)) = (&values, &self.conversion) {
            return tensor::parse(rows, |row| tensors.get(row), nulls.as_ref(), &self.data_type, shape);
        }
        let (element_nulls, list_nulls) = match &self.data_type {
            // Values under a null list are unspecified and must not cause errors.
            DataType::FixedSizeList(_, len) => (nulls.as_ref().map(|nulls| repeated(nulls, *len)), nulls),
            data_type if item(data_type).is_some() => (None, nulls),
            _ => (nulls, None),
        };
        let elements = nest::elements(values, element_nulls, &self.conversion, self.element_type());
        let elements = elements.map_err(|mismatch| match mismatch {
            Mismatch::Value { element, value } => Mismatch::Value { element: self.row_of(element, &ends), value },
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
}

/// Rejects text of types that cannot be parsed, before reading.
fn check_text(conversion: &Conversion, column: &str, data_type: &DataType, element_type: &DataType) -> Result<()> {
    let value_type = value_type(element_type);
    let can_be_read =
        matches!(value_type, DataType::Duration(_)) || arrow_cast::can_cast_types(&DataType::LargeUtf8, value_type);
    if *conversion == Conversion::Text && !can_be_read {
        let (column, data_type) = (column.to_owned(), data_type.clone());
        return Err(ErrorKind::TextNotRead { column, data_type }.into());
    }
    Ok(())
}

fn repeated(nulls: &NullBuffer, times: i32) -> NullBuffer {
    let times = usize::try_from(times).unwrap_or_default();
    BooleanBuffer::collect_bool(nulls.len() * times, |element| nulls.is_valid(element / times)).into()
}

/// At most [`BLOCK_ROWS`] rows of one column.
struct Rows<'a> {
    /// Whether integers are values of a float column, if they are exact.
    accepts_integers: bool,
    slots: &'a [Slot],
    locator: &'a Locator,
    records: &'a [u8],
    shape: FeatureShape,
    nullable: bool,
    empty_is_null: bool,
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
                        match wanted {
                            Some(wanted) if found == 0 && wanted > 0 && self.empty_is_null && self.nullable => {
                                values.pad(wanted);
                                continue;
                            }
                            Some(wanted) if wanted != found => return Err((row, Fault::Count(found))),
                            _ => {}
                        }
                    }
                    *valid = true;
                }
                Some(kind) => {
                    let (bytes, list, before) =
                        (self.locator.bytes_of(slot, self.records), slot.range(), values.count());
                    let pushed = match self.accepts_integers && kind == FeatureKind::Int64 {
                        true => values.push_integers(&bytes[..list.end], list.start),
                        false => Ok(false),
                    };
                    if !pushed.map_err(|error| (row, self.fault(slot, error)))? {
                        return Err((row, Fault::Kind(kind)));
                    }
                    let found = values.count() - before;
                    if wanted.is_some_and(|wanted| wanted != found) {
                        return Err((row, Fault::Count(found)));
                    }
                    *valid = true;
                }
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
