//! Builds columns from cells.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Float32Builder, Float64Builder, Int8Builder,
    Int64Builder, NullBufferBuilder, StringBuilder,
};
use arrow_array::{Array, ArrayRef, ListArray, MapArray, StructArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, TimeUnit};

use super::tally::{Oddity, Tally};
use super::types::{Form, HiveType, MaxChars};
use super::value::{self, Read};
use crate::error::{Error, ErrorKind, FilePlace, Line, Result};

/// Maximum number of values in a batch. A cell of separators can contain one value per byte, and each may be a struct.
const MAX_VALUES: usize = 1 << 26;

/// The dialect of cells.
#[derive(Debug, Clone)]
pub(super) struct Dialect {
    /// The cell delimiter: one byte, or several, which cannot be escaped (MultiDelimitSerDe).
    pub(super) cell_separator: Vec<u8>,
    /// Separators by level, from the second on: between elements, between keys and values, and so on.
    pub(super) separators: Vec<u8>,
    pub(super) escape: Option<u8>,
    pub(super) null: Vec<u8>,
}

impl Dialect {
    /// Splits `bytes` at the separators of a level.
    pub(super) fn split<'a>(&'a self, bytes: &'a [u8], level: usize) -> Split<'a> {
        Split { rest: Some(bytes), separator: self.separator(level), escape: self.escape }
    }

    /// Splits at the first separator of a level.
    fn split_once<'a>(&self, bytes: &'a [u8], level: usize) -> (&'a [u8], Option<&'a [u8]>) {
        match find(bytes, self.separator(level), self.escape) {
            Some(at) => (&bytes[..at], Some(&bytes[at + self.separator(level).len()..])),
            None => (bytes, None),
        }
    }

    fn separator(&self, level: usize) -> &[u8] {
        match level.checked_sub(1) {
            None => &self.cell_separator,
            // A type is never nested deeper than there are separators.
            Some(level) => self.separators.get(level).map(std::slice::from_ref).unwrap_or_default(),
        }
    }

    /// Removes the escapes from a text. An escaped `r` or `n` is a line end, as written by Hive (HIVE-11785).
    fn unescaped<'a>(&self, cell: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(escape) = self.escape else { return Cow::Borrowed(cell) };
        let Some(first) = memchr::memchr(escape, cell) else { return Cow::Borrowed(cell) };
        let mut text = cell[..first].to_vec();
        let mut rest = cell[first..].iter();
        while let Some(byte) = rest.next() {
            // An escape at the end is literal.
            text.push(match (*byte == escape).then(|| rest.next()).flatten() {
                Some(b'r') => b'\r',
                Some(b'n') => b'\n',
                Some(escaped) => *escaped,
                None => *byte,
            });
        }
        Cow::Owned(text)
    }
}

/// Finds the first separator that is not escaped.
fn find(bytes: &[u8], separator: &[u8], escape: Option<u8>) -> Option<usize> {
    let [separator] = *separator else { return memchr::memmem::find(bytes, separator) };
    let Some(escape) = escape else { return memchr::memchr(separator, bytes) };
    let mut from = 0;
    loop {
        let at = from + memchr::memchr2(separator, escape, bytes.get(from..)?)?;
        if bytes[at] == separator {
            return Some(at);
        }
        from = at + 2;
    }
}

/// Iterates over the parts between separators.
pub(super) struct Split<'a> {
    rest: Option<&'a [u8]>,
    separator: &'a [u8],
    escape: Option<u8>,
}

impl<'a> Iterator for Split<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let end = find(rest, self.separator, self.escape);
        self.rest = end.map(|end| &rest[end + self.separator.len()..]);
        Some(&rest[..end.unwrap_or(rest.len())])
    }
}

/// The position of a cell, and state shared by all cells.
pub(super) struct Context<'a> {
    pub(super) dialect: &'a Dialect,
    pub(super) tally: &'a mut Tally,
    pub(super) line: Line,
    pub(super) column: &'a str,
    /// The number of values in the batch.
    pub(super) values: &'a mut usize,
}

impl Context<'_> {
    pub(super) fn count(&mut self, values: usize) -> Result<()> {
        *self.values = self.values.saturating_add(values);
        if *self.values <= MAX_VALUES {
            return Ok(());
        }
        let problem = format!("column \"{}\": the lines of a batch hold more than {MAX_VALUES} values", self.column);
        Err(Error::content(FilePlace::new(self.tally.file(), self.line), problem))
    }

    pub(super) fn odd(&mut self, oddity: Oddity, cell: &[u8], expected: &DataType) -> Result<()> {
        self.tally.cell(oddity, cell, self.line, self.column, expected)
    }

    fn utf8<'a>(&self, text: &'a [u8]) -> Result<&'a str> {
        std::str::from_utf8(text).map_err(|_| {
            let found_at = format!("{}, column \"{}\"", self.line, self.column);
            ErrorKind::Encoding { file: self.tally.file().to_string(), found_at, encoding: "UTF-8" }.into()
        })
    }
}

/// Builds a column, or a part of a nested one.
pub(super) struct HiveColumnBuilder {
    pub(super) data_type: DataType,
    /// The number of values that a null takes.
    pub(super) width: usize,
    pub(super) values: Values,
}

pub(super) enum Values {
    Boolean(BooleanBuilder),
    Integer(i64, i64, Int64Builder),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Decimal(u8, i8, Decimal128Builder),
    Text(Option<MaxChars>, StringBuilder),
    Binary(BinaryBuilder),
    Date(Date32Builder),
    Timestamp(TimeUnit, Int64Builder),
    List(Lists, Box<HiveColumnBuilder>),
    Map(Lists, Box<(HiveColumnBuilder, HiveColumnBuilder)>),
    Struct(NullBufferBuilder, Vec<HiveColumnBuilder>),
    Union(NullBufferBuilder, Int8Builder, Vec<HiveColumnBuilder>),
}

/// The value of a map's key.
#[derive(PartialEq, Eq, Hash)]
enum MapKey<'a> {
    /// A number, a date, or the bits of a float.
    Number(i128),
    Bytes(Cow<'a, [u8]>),
    /// Equal to no other key: NaN.
    Unequal,
}

/// Returns the characters of a key that its type keeps.
fn text_key(text: Cow<'_, [u8]>, max: Option<MaxChars>) -> Cow<'_, [u8]> {
    match std::str::from_utf8(&text) {
        Ok(all) if max.is_some() => Cow::Owned(value::text(all, max).value.as_bytes().to_vec()),
        // Text that is not UTF-8 is an error when it is appended.
        _ => text,
    }
}

/// The offsets and nulls of lists.
pub(super) struct Lists {
    ends: Vec<i32>,
    valid: NullBufferBuilder,
}

impl Lists {
    fn new() -> Self {
        Self { ends: vec![0], valid: NullBufferBuilder::new(0) }
    }

    pub(super) fn push(&mut self, len: usize, is_valid: bool) {
        let last = self.ends.last().copied().unwrap_or_default();
        // `MAX_VALUES` fits 32 bits.
        self.ends.push(last + len as i32);
        self.valid.append(is_valid);
    }

    fn take(&mut self) -> OffsetBuffer<i32> {
        OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(&mut self.ends, vec![0])))
    }
}

impl HiveColumnBuilder {
    pub(super) fn new(hive_type: &HiveType) -> Self {
        let of_each = |types: &[HiveType]| types.iter().map(Self::new).collect::<Vec<_>>();
        let nulls = || NullBufferBuilder::new(0);
        let values = match &hive_type.form {
            Form::Boolean => Values::Boolean(BooleanBuilder::new()),
            Form::Integer(min, max) => Values::Integer(*min, *max, Int64Builder::new()),
            Form::Float32 => Values::Float32(Float32Builder::new()),
            Form::Float64 => Values::Float64(Float64Builder::new()),
            Form::Decimal { precision, scale } => Values::Decimal(*precision, *scale, Decimal128Builder::new()),
            Form::Text(max) => Values::Text(*max, StringBuilder::new()),
            Form::Binary => Values::Binary(BinaryBuilder::new()),
            Form::Date => Values::Date(Date32Builder::new()),
            Form::Timestamp(unit) => Values::Timestamp(*unit, Int64Builder::new()),
            Form::List(item) => Values::List(Lists::new(), Box::new(Self::new(item))),
            Form::Map(entry) => Values::Map(Lists::new(), Box::new((Self::new(&entry.0), Self::new(&entry.1)))),
            Form::Struct(fields) => Values::Struct(nulls(), of_each(fields)),
            Form::Union(types) => Values::Union(nulls(), Int8Builder::new(), of_each(types)),
        };
        let width = match &values {
            Values::Struct(_, fields) | Values::Union(_, _, fields) => {
                1 + fields.iter().map(|field| field.width).sum::<usize>()
            }
            _ => 1,
        };
        Self { data_type: hive_type.data_type.clone(), width, values }
    }

    /// Appends a cell, or a part of one, whose own separator is that of `level`.
    pub(super) fn append(&mut self, cell: Option<&[u8]>, level: usize, context: &mut Context<'_>) -> Result<()> {
        let Some(cell) = cell.filter(|cell| *cell != context.dialect.null) else {
            context.count(self.width)?;
            self.append_null();
            return Ok(());
        };
        context.count(1)?;
        let data_type = &self.data_type;
        macro_rules! primitive {
            ($builder:expr, $read:expr) => {{
                let read = $read;
                match &read {
                    // Hive itself cannot write a null number in any other way if the table's null is a text.
                    None if cell.is_empty() => {}
                    None => context.odd(Oddity::Unfit, cell, data_type)?,
                    Some(read) if read.is_cut => context.odd(Oddity::Cut, cell, data_type)?,
                    Some(_) => {}
                }
                $builder.append_option(read.map(|read| read.value));
            }};
        }
        match &mut self.values {
            Values::Boolean(builder) => {
                primitive!(builder, value::boolean(cell).map(|value| Read { value, is_cut: false }));
            }
            Values::Integer(min, max, builder) => {
                primitive!(builder, value::integer(cell).filter(|read| (*min..=*max).contains(&read.value)));
            }
            Values::Float32(builder) => primitive!(builder, value::float32(cell)),
            Values::Float64(builder) => primitive!(builder, value::float64(cell)),
            Values::Decimal(precision, scale, builder) => {
                primitive!(builder, value::decimal(cell, *precision, *scale));
            }
            Values::Date(builder) => primitive!(builder, value::date(cell)),
            Values::Timestamp(unit, builder) => primitive!(builder, value::timestamp(cell, *unit)),
            Values::Text(max, builder) => {
                let text = context.dialect.unescaped(cell);
                let read = value::text(context.utf8(&text)?, *max);
                if read.is_cut {
                    context.odd(Oddity::Cut, cell, data_type)?;
                }
                builder.append_value(read.value);
            }
            Values::Binary(builder) => builder.append_value(value::binary(cell)),
            Values::List(lists, item) => {
                let mut len = 0;
                if !cell.is_empty() {
                    for part in context.dialect.split(cell, level) {
                        item.append(Some(part), level + 1, context)?;
                        len += 1;
                    }
                }
                lists.push(len, true);
            }
            Values::Map(lists, entry) => {
                let (keys, values) = entry.as_mut();
                let mut seen = HashSet::new();
                let mut len = 0;
                if !cell.is_empty() {
                    for part in context.dialect.split(cell, level) {
                        let (key, value) = context.dialect.split_once(part, level + 1);
                        let found = keys.key(key, context.dialect);
                        match found.map(|found| found == MapKey::Unequal || seen.insert(found)) {
                            None => context.odd(Oddity::Unfit, key, &keys.data_type)?,
                            Some(false) => context.odd(Oddity::RepeatedKey, key, &keys.data_type)?,
                            Some(true) => {
                                keys.append(Some(key), level + 2, context)?;
                                values.append(value, level + 2, context)?;
                                len += 1;
                            }
                        }
                    }
                }
                lists.push(len, true);
            }
            Values::Struct(valid, fields) => {
                let mut parts = context.dialect.split(cell, level);
                for field in fields {
                    field.append(parts.next(), level + 1, context)?;
                }
                valid.append_non_null();
            }
            Values::Union(valid, tags, types) => {
                let (tag, part) = context.dialect.split_once(cell, level);
                let tag = value::integer(tag).and_then(|read| usize::try_from(read.value).ok());
                let tag = tag.filter(|tag| *tag < types.len() && part.is_some());
                if tag.is_none() {
                    context.odd(Oddity::Unfit, cell, data_type)?;
                }
                for (index, of_type) in types.iter_mut().enumerate() {
                    of_type.append(part.filter(|_| tag == Some(index)), level + 1, context)?;
                }
                // There are at most 127 types.
                tags.append_option(tag.map(|tag| tag as i8));
                valid.append(tag.is_some());
            }
        }
        Ok(())
    }

    /// Returns the value of a map's key, in which equal keys are equal however they are written; `None` if the cell is
    /// null or not a value of the type.
    fn key<'a>(&self, cell: &'a [u8], dialect: &Dialect) -> Option<MapKey<'a>> {
        if cell == dialect.null {
            return None;
        }
        let number = |value: i128| Some(MapKey::Number(value));
        match &self.values {
            Values::Boolean(_) => number(value::boolean(cell)?.into()),
            Values::Integer(min, max, _) => {
                number(value::integer(cell).filter(|read| (*min..=*max).contains(&read.value))?.value.into())
            }
            // As in Hive, a double is equal to one that compares as equal, and a float to one of the same bits.
            Values::Float64(_) => match value::float64(cell)?.value {
                value if value.is_nan() => Some(MapKey::Unequal),
                value => number((value + 0.0).to_bits().into()),
            },
            Values::Float32(_) => match value::float32(cell)?.value {
                value if value.is_nan() => Some(MapKey::Unequal),
                value => number(value.to_bits().into()),
            },
            Values::Decimal(precision, scale, _) => number(value::decimal(cell, *precision, *scale)?.value),
            Values::Date(_) => number(value::date(cell)?.value.into()),
            Values::Timestamp(unit, _) => number(value::timestamp(cell, *unit)?.value.into()),
            Values::Binary(_) => Some(MapKey::Bytes(value::binary(cell))),
            Values::Text(max, _) => Some(MapKey::Bytes(text_key(dialect.unescaped(cell), *max))),
            // Not types of keys.
            Values::List(..) | Values::Map(..) | Values::Struct(..) | Values::Union(..) => {
                Some(MapKey::Bytes(Cow::Borrowed(cell)))
            }
        }
    }

    pub(super) fn append_null(&mut self) {
        match &mut self.values {
            Values::Boolean(builder) => builder.append_null(),
            Values::Integer(_, _, builder) | Values::Timestamp(_, builder) => builder.append_null(),
            Values::Float32(builder) => builder.append_null(),
            Values::Float64(builder) => builder.append_null(),
            Values::Decimal(_, _, builder) => builder.append_null(),
            Values::Text(_, builder) => builder.append_null(),
            Values::Binary(builder) => builder.append_null(),
            Values::Date(builder) => builder.append_null(),
            Values::List(lists, _) | Values::Map(lists, _) => lists.push(0, false),
            Values::Struct(valid, fields) => {
                fields.iter_mut().for_each(Self::append_null);
                valid.append_null();
            }
            Values::Union(valid, tags, types) => {
                types.iter_mut().for_each(Self::append_null);
                tags.append_null();
                valid.append_null();
            }
        }
    }

    /// Returns the values so far.
    pub(super) fn take(&mut self) -> Result<ArrayRef, ArrowError> {
        let unexpected = || ArrowError::SchemaError(format!("{} is no type of this column", self.data_type));
        let array: ArrayRef = match &mut self.values {
            Values::Boolean(builder) => Arc::new(builder.finish()),
            Values::Integer(_, _, builder) | Values::Timestamp(_, builder) => Arc::new(builder.finish()),
            Values::Float32(builder) => Arc::new(builder.finish()),
            Values::Float64(builder) => Arc::new(builder.finish()),
            Values::Decimal(precision, scale, builder) => {
                Arc::new(builder.finish().with_precision_and_scale(*precision, *scale)?)
            }
            Values::Text(_, builder) => Arc::new(builder.finish()),
            Values::Binary(builder) => Arc::new(builder.finish()),
            Values::Date(builder) => Arc::new(builder.finish()),
            Values::List(lists, item) => {
                let DataType::List(field) = &self.data_type else { return Err(unexpected()) };
                let (offsets, items) = (lists.take(), item.take()?);
                Arc::new(ListArray::try_new(Arc::clone(field), offsets, items, lists.valid.finish())?)
            }
            Values::Map(lists, entry) => {
                let DataType::Map(field, sorted) = &self.data_type else { return Err(unexpected()) };
                let DataType::Struct(fields) = field.data_type() else { return Err(unexpected()) };
                let entries = vec![entry.0.take()?, entry.1.take()?];
                let entries = StructArray::try_new(fields.clone(), entries, None)?;
                let offsets = lists.take();
                Arc::new(MapArray::try_new(Arc::clone(field), offsets, entries, lists.valid.finish(), *sorted)?)
            }
            Values::Struct(valid, parts) => {
                let DataType::Struct(fields) = &self.data_type else { return Err(unexpected()) };
                let parts = parts.iter_mut().map(Self::take).collect::<Result<Vec<_>, _>>()?;
                let len = valid.len();
                Arc::new(StructArray::try_new_with_length(fields.clone(), parts, valid.finish(), len)?)
            }
            Values::Union(valid, tags, types) => {
                let DataType::Struct(fields) = &self.data_type else { return Err(unexpected()) };
                let mut parts: Vec<ArrayRef> = vec![Arc::new(tags.finish())];
                for of_type in types {
                    parts.push(of_type.take()?);
                }
                Arc::new(StructArray::try_new(fields.clone(), parts, valid.finish())?)
            }
        };
        if array.data_type() == &self.data_type {
            return Ok(array);
        }
        cast_with_options(&array, &self.data_type, &CastOptions { safe: false, ..CastOptions::default() })
    }
}
