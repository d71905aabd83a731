//! [`AvroColumn`]: reads the values of a column into an Arrow array.

use std::sync::Arc;

use arrow_array::builder::{BooleanBufferBuilder, NullBufferBuilder};
use arrow_array::types::{
    Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int32Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType,
};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, DictionaryArray, FixedSizeBinaryArray, Int32Array, ListArray, MapArray,
    NullArray, PrimitiveArray, StringArray, StructArray, UnionArray,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer, i256};
use arrow_schema::{ArrowError, DataType, Field, Fields, UnionFields};

use super::bytes::{Bytes, Fault, Result};
use super::schema::{AvroType, Branches, entries, union_fields};

/// The values of a column.
pub(super) struct AvroColumn {
    kind: ValueBuilder,
    /// The null buffer; `None` if the column is not nullable.
    nulls: Option<NullBufferBuilder>,
    len: usize,
}

enum ValueBuilder {
    Null,
    Boolean(BooleanBufferBuilder),
    Int(Vec<i32>, DataType),
    Long(Vec<i64>, DataType),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Bytes {
        ends: Vec<i32>,
        data: Vec<u8>,
        is_text: bool,
    },
    Fixed {
        size: usize,
        data: Vec<u8>,
    },
    Duration(Vec<IntervalMonthDayNano>),
    Decimal {
        values: Vec<i256>,
        precision: u8,
        scale: i8,
        size: Option<usize>,
    },
    Enum {
        symbols: Arc<[String]>,
        keys: Vec<i32>,
    },
    Array {
        ends: Vec<i32>,
        min_len: usize,
        item: Box<AvroColumn>,
        field: Arc<Field>,
    },
    Map {
        ends: Vec<i32>,
        min_len: usize,
        keys: Box<AvroColumn>,
        values: Box<AvroColumn>,
        field: Arc<Field>,
    },
    Record {
        columns: Vec<(String, AvroColumn)>,
        fields: Fields,
    },
    /// A union of null and one other type.
    Optional {
        branches: Vec<AvroType>,
        value: Box<AvroColumn>,
    },
    /// A union of numbers of several types, and possibly null.
    Numbers {
        branches: Vec<AvroType>,
        values: Box<AvroColumn>,
    },
    Union {
        type_ids: Vec<i8>,
        offsets: Vec<i32>,
        columns: Vec<AvroColumn>,
        fields: UnionFields,
    },
}

impl AvroColumn {
    pub(super) fn new(data_type: &AvroType) -> Self {
        Self { kind: ValueBuilder::new(data_type), nulls: None, len: 0 }
    }

    fn nullable(data_type: &AvroType) -> Self {
        Self { nulls: Some(NullBufferBuilder::new(0)), ..Self::new(data_type) }
    }

    /// Reads one value.
    pub(super) fn read(&mut self, bytes: &mut Bytes<'_>) -> Result<()> {
        match &mut self.kind {
            ValueBuilder::Null => {}
            ValueBuilder::Boolean(values) => values.append(bytes.boolean()?),
            ValueBuilder::Int(values, _) => values.push(bytes.int()?),
            ValueBuilder::Long(values, _) => values.push(bytes.long()?),
            ValueBuilder::Float(values) => values.push(f32::from_le_bytes(bytes.array()?)),
            ValueBuilder::Double(values) => values.push(f64::from_le_bytes(bytes.array()?)),
            ValueBuilder::Bytes { ends, data, is_text } => {
                let value = bytes.bytes()?;
                if *is_text && std::str::from_utf8(value).is_err() {
                    return Err(Fault::new("a string that is not UTF-8"));
                }
                data.extend_from_slice(value);
                ends.push(offset(data.len())?);
            }
            ValueBuilder::Fixed { size, data } => data.extend_from_slice(bytes.take(*size)?),
            ValueBuilder::Duration(values) => values.push(duration(bytes)?),
            ValueBuilder::Decimal { values, precision, size, .. } => {
                let unscaled = match size {
                    Some(size) => bytes.take(*size)?,
                    None => bytes.bytes()?,
                };
                values.push(decimal(unscaled, *precision)?);
            }
            ValueBuilder::Enum { symbols, keys } => {
                let key = bytes.int()?;
                if !usize::try_from(key).is_ok_and(|key| key < symbols.len()) {
                    return Err(Fault::new(format!("symbol {key} of an enum of {}", symbols.len())));
                }
                keys.push(key);
            }
            ValueBuilder::Array { ends, min_len, item, .. } => {
                bytes.blocks(*min_len, |bytes| item.read(bytes))?;
                ends.push(offset(item.len)?);
            }
            ValueBuilder::Map { ends, min_len, keys, values, .. } => {
                bytes.blocks(*min_len, |bytes| {
                    keys.read(bytes)?;
                    values.read(bytes)
                })?;
                ends.push(offset(keys.len)?);
            }
            ValueBuilder::Record { columns, .. } => {
                for (name, column) in columns {
                    column.read(bytes).map_err(|fault| fault.within(name))?;
                }
            }
            ValueBuilder::Optional { branches, value } => match branches[bytes.branch(branches.len())?] {
                AvroType::Null => value.push_null(),
                _ => value.read_valid(bytes)?,
            },
            ValueBuilder::Numbers { branches, values } => {
                let number = match branches[bytes.branch(branches.len())?] {
                    AvroType::Null => None,
                    AvroType::Int(_) => Some(Number::Long(bytes.int()?.into())),
                    AvroType::Float => Some(Number::Double(f32::from_le_bytes(bytes.array()?).into())),
                    AvroType::Double => Some(Number::Double(f64::from_le_bytes(bytes.array()?))),
                    _ => Some(Number::Long(bytes.long()?)),
                };
                values.push_number(number);
            }
            ValueBuilder::Union { type_ids, offsets, columns, .. } => {
                let branch = bytes.branch(columns.len())?;
                type_ids.push(branch as i8);
                offsets.push(offset(columns[branch].len)?);
                columns[branch].read(bytes)?;
            }
        }
        self.len += 1;
        Ok(())
    }

    /// Reads a value that is not null.
    fn read_valid(&mut self, bytes: &mut Bytes<'_>) -> Result<()> {
        self.read(bytes)?;
        if let Some(nulls) = &mut self.nulls {
            nulls.append_non_null();
        }
        Ok(())
    }

    fn push_number(&mut self, number: Option<Number>) {
        match (&mut self.kind, number) {
            (_, None) => return self.push_null(),
            (ValueBuilder::Long(values, _), Some(Number::Long(value))) => values.push(value),
            (ValueBuilder::Double(values), Some(Number::Double(value))) => values.push(value),
            // An int, which fits a float64.
            (ValueBuilder::Double(values), Some(Number::Long(value))) => values.push(value as f64),
            (_, Some(_)) => return,
        }
        if let Some(nulls) = &mut self.nulls {
            nulls.append_non_null();
        }
        self.len += 1;
    }

    fn push_null(&mut self) {
        if let Some(nulls) = &mut self.nulls {
            nulls.append_null();
        }
        self.push_nothing();
    }

    /// Appends a placeholder for a value that is null or in a null record.
    fn push_nothing(&mut self) {
        match &mut self.kind {
            ValueBuilder::Null => {}
            ValueBuilder::Boolean(values) => values.append(false),
            ValueBuilder::Int(values, _) => values.push(0),
            ValueBuilder::Long(values, _) => values.push(0),
            ValueBuilder::Float(values) => values.push(0.0),
            ValueBuilder::Double(values) => values.push(0.0),
            ValueBuilder::Bytes { ends, .. } | ValueBuilder::Array { ends, .. } | ValueBuilder::Map { ends, .. } => {
                ends.push(ends.last().copied().unwrap_or_default());
            }
            ValueBuilder::Fixed { size, data } => data.resize(data.len() + *size, 0),
            ValueBuilder::Duration(values) => values.push(IntervalMonthDayNano::ZERO),
            ValueBuilder::Decimal { values, .. } => values.push(i256::ZERO),
            ValueBuilder::Enum { keys, .. } => keys.push(0),
            ValueBuilder::Record { columns, .. } => columns.iter_mut().for_each(|(_, column)| column.push_nothing()),
            ValueBuilder::Optional { value: inner, .. } | ValueBuilder::Numbers { values: inner, .. } => {
                inner.push_null()
            }
            ValueBuilder::Union { type_ids, offsets, columns, .. } => {
                type_ids.push(0);
                if let Some(column) = columns.first_mut() {
                    // It grows by one per offset, and the offsets fit.
                    offsets.push(column.len as i32);
                    column.push_nothing();
                }
            }
        }
        self.len += 1;
    }

    /// Returns the values read as an array and resets the builder.
    pub(super) fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let len = std::mem::take(&mut self.len);
        let nulls = self.nulls.as_mut().and_then(NullBufferBuilder::finish);
        Ok(match &mut self.kind {
            ValueBuilder::Null => Arc::new(NullArray::new(len)),
            ValueBuilder::Boolean(values) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            ValueBuilder::Int(values, data_type) => primitive::<Int32Type>(values, nulls, data_type)?,
            ValueBuilder::Long(values, data_type) => primitive::<Int64Type>(values, nulls, data_type)?,
            ValueBuilder::Float(values) => primitive::<Float32Type>(values, nulls, &DataType::Float32)?,
            ValueBuilder::Double(values) => primitive::<Float64Type>(values, nulls, &DataType::Float64)?,
            ValueBuilder::Bytes { ends, data, is_text } => {
                let (offsets, data) = (offsets(ends), Buffer::from_vec(std::mem::take(data)));
                match is_text {
                    true => Arc::new(StringArray::try_new(offsets, data, nulls)?),
                    false => Arc::new(BinaryArray::try_new(offsets, data, nulls)?),
                }
            }
            ValueBuilder::Fixed { size: 0, .. } => {
                Arc::new(BinaryArray::try_new(OffsetBuffer::new_zeroed(len), Buffer::default(), nulls)?)
            }
            ValueBuilder::Fixed { size, data } => {
                let data = Buffer::from_vec(std::mem::take(data));
                // The size was checked to fit.
                Arc::new(FixedSizeBinaryArray::try_new_with_len(*size as i32, data, nulls, len)?)
            }
            ValueBuilder::Duration(values) => {
                Arc::new(PrimitiveArray::<IntervalMonthDayNanoType>::try_new(std::mem::take(values).into(), nulls)?)
            }
            ValueBuilder::Decimal { values, precision, scale, .. } => {
                let values = std::mem::take(values);
                let small: Option<Vec<i128>> = values.iter().map(|value| value.to_i128()).collect();
                match small.filter(|_| *precision <= arrow_schema::DECIMAL128_MAX_PRECISION) {
                    Some(small) => {
                        let array = PrimitiveArray::<Decimal128Type>::try_new(small.into(), nulls)?;
                        Arc::new(array.with_precision_and_scale(*precision, *scale)?)
                    }
                    None => {
                        let array = PrimitiveArray::<Decimal256Type>::try_new(values.into(), nulls)?;
                        Arc::new(array.with_precision_and_scale(*precision, *scale)?)
                    }
                }
            }
            ValueBuilder::Enum { symbols, keys } => {
                let keys = Int32Array::try_new(std::mem::take(keys).into(), nulls)?;
                let symbols = StringArray::from_iter_values(symbols.iter());
                Arc::new(DictionaryArray::<Int32Type>::try_new(keys, Arc::new(symbols))?)
            }
            ValueBuilder::Array { ends, item, field, .. } => {
                Arc::new(ListArray::try_new(Arc::clone(field), offsets(ends), item.finish()?, nulls)?)
            }
            ValueBuilder::Map { ends, keys, values, field, .. } => {
                let DataType::Struct(fields) = field.data_type() else {
                    return Err(ArrowError::SchemaError("the entries of a map are not structs".to_owned()));
                };
                let entries = StructArray::try_new(fields.clone(), vec![keys.finish()?, values.finish()?], None)?;
                Arc::new(MapArray::try_new(Arc::clone(field), offsets(ends), entries, nulls, false)?)
            }
            ValueBuilder::Record { columns, fields } => {
                let columns = columns.iter_mut().map(|(_, column)| column.finish()).collect::<Result<_, _>>()?;
                Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, len)?)
            }
            ValueBuilder::Optional { value: inner, .. } | ValueBuilder::Numbers { values: inner, .. } => {
                inner.finish()?
            }
            ValueBuilder::Union { type_ids, offsets, columns, fields } => {
                let columns = columns.iter_mut().map(Self::finish).collect::<Result<_, _>>()?;
                let type_ids = ScalarBuffer::from(std::mem::take(type_ids));
                let offsets = ScalarBuffer::from(std::mem::take(offsets));
                Arc::new(UnionArray::try_new(fields.clone(), type_ids, Some(offsets), columns)?)
            }
        })
    }
}

impl ValueBuilder {
    fn new(data_type: &AvroType) -> Self {
        match data_type {
            AvroType::Null => Self::Null,
            AvroType::Boolean => Self::Boolean(BooleanBufferBuilder::new(0)),
            AvroType::Int(data_type) => Self::Int(Vec::new(), data_type.clone()),
            AvroType::Long(data_type) => Self::Long(Vec::new(), data_type.clone()),
            AvroType::Float => Self::Float(Vec::new()),
            AvroType::Double => Self::Double(Vec::new()),
            AvroType::Bytes => Self::Bytes { ends: Vec::new(), data: Vec::new(), is_text: false },
            AvroType::String => Self::Bytes { ends: Vec::new(), data: Vec::new(), is_text: true },
            AvroType::Fixed(size) => Self::Fixed { size: *size, data: Vec::new() },
            AvroType::Duration => Self::Duration(Vec::new()),
            AvroType::Decimal { precision, scale, size } => {
                Self::Decimal { values: Vec::new(), precision: *precision, scale: *scale, size: *size }
            }
            AvroType::Enum(symbols) => Self::Enum { symbols: Arc::clone(symbols), keys: Vec::new() },
            AvroType::Array(item) => Self::Array {
                ends: Vec::new(),
                min_len: item.min_len(),
                item: Box::new(AvroColumn::new(item)),
                field: Arc::new(item.field(Field::LIST_FIELD_DEFAULT_NAME)),
            },
            AvroType::Map(value) => Self::Map {
                ends: Vec::new(),
                min_len: value.min_len().saturating_add(1),
                keys: Box::new(AvroColumn::new(&AvroType::String)),
                values: Box::new(AvroColumn::new(value)),
                field: Arc::new(entries(value)),
            },
            AvroType::Record(columns) => Self::Record {
                fields: columns.iter().map(|column| Arc::new(column.field())).collect(),
                columns: columns
                    .iter()
                    .map(|column| (column.name.clone(), AvroColumn::new(&column.data_type)))
                    .collect(),
            },
            AvroType::Union(branches) => match Branches::of(branches) {
                Branches::One(branch) => Self::Optional {
                    value: Box::new(AvroColumn::nullable(&branches[branch])),
                    branches: branches.clone(),
                },
                Branches::Numbers(data_type) => {
                    let number = match data_type {
                        DataType::Int64 => AvroType::Long(DataType::Int64),
                        _ => AvroType::Double,
                    };
                    Self::Numbers { branches: branches.clone(), values: Box::new(AvroColumn::nullable(&number)) }
                }
                Branches::Null => {
                    Self::Optional { value: Box::new(AvroColumn::new(&AvroType::Null)), branches: branches.clone() }
                }
                Branches::Many => Self::Union {
                    type_ids: Vec::new(),
                    offsets: Vec::new(),
                    columns: branches.iter().map(AvroColumn::new).collect(),
                    fields: union_fields(branches),
                },
            },
        }
    }
}

enum Number {
    Long(i64),
    Double(f64),
}

fn primitive<T: arrow_array::ArrowPrimitiveType>(
    values: &mut Vec<T::Native>,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> Result<ArrayRef, ArrowError> {
    let array = PrimitiveArray::<T>::try_new(std::mem::take(values).into(), nulls)?;
    // Dates and times have the same numbers under another type.
    Ok(match data_type {
        data_type if *data_type == T::DATA_TYPE => Arc::new(array),
        data_type => arrow_array::make_array(
            arrow_array::Array::into_data(array).into_builder().data_type(data_type.clone()).build()?,
        ),
    })
}

fn offset(len: usize) -> Result<i32> {
    i32::try_from(len).map_err(|_| Fault::new("values of more than 2 GiB in one batch"))
}

fn offsets(ends: &mut Vec<i32>) -> OffsetBuffer<i32> {
    let mut offsets = Vec::with_capacity(ends.len() + 1);
    offsets.push(0);
    offsets.append(ends);
    // Offsets never decrease: each was the length of a growing array.
    OffsetBuffer::new(offsets.into())
}

/// Reads months, days and milliseconds, each an unsigned 32-bit integer.
fn duration(bytes: &mut Bytes<'_>) -> Result<IntervalMonthDayNano> {
    let mut next = || bytes.array().map(u32::from_le_bytes);
    let (months, days, millis) = (next()?, next()?, next()?);
    let number = |value: u32| {
        i32::try_from(value).map_err(|_| Fault::new(format!("a duration of {months} months and {days} days")))
    };
    Ok(IntervalMonthDayNano::new(number(months)?, number(days)?, i64::from(millis) * 1_000_000))
}

/// Decodes a big-endian number of at most `precision` digits.
fn decimal(bytes: &[u8], precision: u8) -> Result<i256> {
    let negative = bytes.first().is_some_and(|first| *first >= 0x80);
    let fill = if negative { 0xff } else { 0 };
    let mut wide = [fill; 32];
    let extra = bytes.len().saturating_sub(wide.len());
    let (extra, low) = bytes.split_at(extra);
    wide[32 - low.len()..].copy_from_slice(low);
    let value = i256::from_be_bytes(wide);
    let most = i256::from_i128(10).checked_pow(u32::from(precision));
    let fits = most.is_some_and(|most| value < most && value > -most);
    let is_same = extra.iter().all(|byte| *byte == fill) && value.is_negative() == negative;
    match fits && is_same {
        true => Ok(value),
        false => Err(Fault::new(format!("a decimal with more than {precision} digits"))),
    }
}
