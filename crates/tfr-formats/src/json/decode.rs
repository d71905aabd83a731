//! Converts a [`Tape`] to Arrow arrays.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, FixedSizeListArray, GenericListArray, OffsetSizeTrait,
    PrimitiveArray, RecordBatch, RecordBatchOptions, StringArray, StructArray, new_null_array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_cast::{CastOptions, cast, cast_with_options};
use arrow_schema::{DataType, Field, FieldRef, Fields, SchemaRef};
use datafusion_common::Result;

use super::infer::number_type;
use super::parse::Parser;
use super::stop::shortened;
use super::tape::{NodeKind, Tape};
use crate::csv::{EXACT_DIGITS, holds, parse_float};
use crate::error::{Error, ErrorKind, FilePlace, Within};

/// Marks a missing value: the key is absent, or its object is null.
const ABSENT: u32 = u32::MAX;

/// Builds a batch of the rows in `parser`, whose keys are the columns of `schema`.
///
/// If the columns were `declared`, values are cast to their types, and keys of nested objects without a column are
/// ignored. If not, values must be as the inference accepts them.
pub(super) fn batch(parser: &Parser, schema: &SchemaRef, declared: bool) -> Result<RecordBatch> {
    let tape = &parser.tape;
    let rows = tape.rows.len();
    let mut columns = vec![vec![ABSENT; rows]; schema.fields().len()];
    for (row, object) in tape.rows.iter().enumerate() {
        for (key, value) in tape.entries(*object) {
            // The last value of a repeated key counts.
            if let Some(column) = columns.get_mut(tape.node(key).start as usize) {
                column[row] = value;
            }
        }
    }
    let values = TapeValues { parser, tape, declared };
    let columns = schema.fields().iter().zip(&columns).map(|(field, column)| {
        if !field.is_nullable()
            && let Some(row) = column.iter().position(|value| values.is_null(*value))
        {
            return Err(values.unfit(tape.rows[row], field.name(), field.data_type(), "nothing").into());
        }
        values.column(field.data_type(), column, field.name())
    });
    let columns = columns.collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// The values of a tape.
struct TapeValues<'a> {
    parser: &'a Parser,
    tape: &'a Tape,
    declared: bool,
}

impl<'a> TapeValues<'a> {
    fn is_null(&self, value: u32) -> bool {
        value == ABSENT || self.tape.node(value).kind == NodeKind::Null
    }

    /// Converts the values at `column` to an array; `path` is the column's name in messages.
    fn column(&self, data_type: &DataType, column: &[u32], path: &str) -> Result<ArrayRef> {
        let unfit = |value| self.unfit_value(value, path, data_type);
        Ok(match data_type {
            DataType::Utf8 => Arc::new(self.texts(column)),
            DataType::LargeUtf8 | DataType::Utf8View => cast(&self.texts(column), data_type)?,
            DataType::Boolean => {
                let values = column.iter().map(|value| match self.kind(*value) {
                    None => Ok(None),
                    Some(NodeKind::True) => Ok(Some(true)),
                    Some(NodeKind::False) => Ok(Some(false)),
                    Some(_) => Err(unfit(*value)),
                });
                Arc::new(values.collect::<Result<BooleanArray, Error>>()?)
            }
            DataType::Int64 => self.numbers::<Int64Type>(data_type, column, path, |text| text.parse().ok())?,
            DataType::Float64 => self.numbers::<Float64Type>(data_type, column, path, |text| {
                // An integer that no float64 equals is not rounded silently.
                let is_fraction = || text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
                let fits = text.len() <= EXACT_DIGITS || is_fraction() || number_type(text).fits(&DataType::Float64);
                fits.then(|| parse_float(text)).flatten()
            })?,
            DataType::Struct(fields) => self.structs(fields, data_type, column, path)?,
            DataType::List(item) => self.lists::<i32>(item, data_type, column, path)?,
            DataType::LargeList(item) => self.lists::<i64>(item, data_type, column, path)?,
            DataType::FixedSizeList(item, len) => self.fixed_size_lists(item, *len, data_type, column, path)?,
            DataType::Null => match column.iter().find(|value| !self.is_null(**value)) {
                Some(value) => return Err(unfit(*value).into()),
                None => new_null_array(data_type, column.len()),
            },
            _ => self.cast(data_type, column, path)?,
        })
    }

    /// Returns the kind of `value`; `None` for null.
    fn kind(&self, value: u32) -> Option<NodeKind> {
        (!self.is_null(value)).then(|| self.tape.node(value).kind)
    }

    /// Returns strings unchanged and other values as JSON.
    fn texts(&self, column: &[u32]) -> StringArray {
        let mut json = String::new();
        let mut builder = arrow_array::builder::StringBuilder::with_capacity(column.len(), 0);
        for value in column {
            match self.kind(*value) {
                None => builder.append_null(),
                Some(NodeKind::String | NodeKind::Number) => {
                    builder.append_value(self.tape.text(self.tape.node(*value)))
                }
                Some(_) => {
                    json.clear();
                    self.tape.write_json(*value, &mut json);
                    builder.append_value(&json);
                }
            }
        }
        builder.finish()
    }

    fn numbers<T: ArrowPrimitiveType>(
        &self,
        data_type: &DataType,
        column: &[u32],
        path: &str,
        parse: impl Fn(&str) -> Option<T::Native>,
    ) -> Result<ArrayRef> {
        let values = column.iter().map(|value| match self.kind(*value) {
            None => Ok(None),
            Some(NodeKind::Number) => parse(self.tape.text(self.tape.node(*value))).map(Some).ok_or(*value),
            Some(_) => Err(*value),
        });
        match values.collect::<Result<PrimitiveArray<T>, u32>>() {
            Ok(array) => Ok(Arc::new(array)),
            // Values of a declared type may be written in other ways.
            Err(_) if self.declared => self.cast(data_type, column, path),
            Err(value) => Err(self.unfit_value(value, path, data_type).into()),
        }
    }

    /// Casts numbers and strings by Arrow's cast. Rejects values that the cast would change.
    fn cast(&self, data_type: &DataType, column: &[u32], path: &str) -> Result<ArrayRef> {
        let texts = column.iter().map(|value| match self.kind(*value) {
            None => Ok(None),
            Some(NodeKind::Number | NodeKind::String) => Ok(Some(self.tape.text(self.tape.node(*value)))),
            Some(_) => Err(self.unfit_value(*value, path, data_type)),
        });
        let texts = texts.collect::<Result<StringArray, Error>>()?;
        let values = cast_with_options(&texts, data_type, &CastOptions { safe: true, ..CastOptions::default() })?;
        let is_lost = |row| values.is_null(row) || !holds(data_type, texts.value(row));
        match (0..texts.len()).find(|&row| texts.is_valid(row) && is_lost(row)) {
            Some(row) => Err(self.unfit_value(column[row], path, data_type).into()),
            None => Ok(values),
        }
    }

    fn structs(&self, fields: &Fields, data_type: &DataType, column: &[u32], path: &str) -> Result<ArrayRef> {
        let names: HashMap<&str, usize> =
            fields.iter().enumerate().map(|(index, field)| (field.name().as_str(), index)).collect();
        let mut children = vec![vec![ABSENT; column.len()]; fields.len()];
        let mut valid = Vec::with_capacity(column.len());
        for (row, value) in column.iter().enumerate() {
            valid.push(!self.is_null(*value));
            match self.kind(*value) {
                None => {}
                Some(NodeKind::Object) => {
                    for (guess, (key, value)) in self.tape.entries(*value).enumerate() {
                        let name = self.tape.text(self.tape.node(key));
                        let position = match fields.get(guess) {
                            Some(field) if field.name() == name => Some(guess),
                            _ => names.get(name).copied(),
                        };
                        match position.and_then(|position| children.get_mut(position)) {
                            Some(child) => child[row] = value,
                            None if self.declared => {}
                            None => return Err(self.unknown_key(key, &format!("{path}.{name}")).into()),
                        }
                    }
                }
                Some(_) => return Err(self.unfit_value(*value, path, data_type).into()),
            }
        }
        let children = fields
            .iter()
            .zip(&children)
            .map(|(field, child)| self.column(field.data_type(), child, &format!("{path}.{}", field.name())));
        let children = children.collect::<Result<_>>()?;
        Ok(Arc::new(StructArray::try_new_with_length(
            fields.clone(),
            children,
            Some(NullBuffer::from(valid)),
            column.len(),
        )?))
    }

    fn lists<O: OffsetSizeTrait>(
        &self,
        item: &FieldRef,
        data_type: &DataType,
        column: &[u32],
        path: &str,
    ) -> Result<ArrayRef> {
        let mut elements = Vec::new();
        let mut lengths = Vec::with_capacity(column.len());
        let mut valid = Vec::with_capacity(column.len());
        for value in column {
            let before = elements.len();
            match self.kind(*value) {
                None => {}
                Some(NodeKind::Array) => elements.extend(self.tape.elements(*value)),
                Some(_) => return Err(self.unfit_value(*value, path, data_type).into()),
            }
            lengths.push(elements.len() - before);
            valid.push(!self.is_null(*value));
        }
        let elements = self.items(item, &elements, path)?;
        let offsets = OffsetBuffer::<O>::from_lengths(lengths);
        let nulls = Some(NullBuffer::from(valid));
        Ok(Arc::new(GenericListArray::try_new(Arc::clone(item), offsets, elements, nulls)?))
    }

    fn fixed_size_lists(
        &self,
        item: &FieldRef,
        len: i32,
        data_type: &DataType,
        column: &[u32],
        path: &str,
    ) -> Result<ArrayRef> {
        let mut elements = Vec::new();
        let mut valid = Vec::with_capacity(column.len());
        let wanted = usize::try_from(len).unwrap_or_default();
        for value in column {
            let end = elements.len() + wanted;
            match self.kind(*value) {
                None => elements.resize(end, ABSENT),
                Some(NodeKind::Array) => elements.extend(self.tape.elements(*value)),
                Some(_) => {}
            }
            if elements.len() != end {
                return Err(self.unfit_value(*value, path, data_type).into());
            }
            valid.push(!self.is_null(*value));
        }
        let elements = self.items(item, &elements, path)?;
        let nulls = Some(NullBuffer::from(valid));
        Ok(Arc::new(FixedSizeListArray::try_new(Arc::clone(item), len, elements, nulls)?))
    }

    fn items(&self, item: &Field, elements: &[u32], path: &str) -> Result<ArrayRef> {
        self.column(item.data_type(), elements, &format!("{path}[]"))
    }

    fn unknown_key(&self, key: u32, column: &str) -> Error {
        ErrorKind::JsonKey { place: self.place_of(key), key: column.to_owned() }.into()
    }

    fn place_of(&self, node: u32) -> FilePlace {
        let character = u64::from(self.tape.position(node).character);
        FilePlace::new(&self.parser.source.file, Within::Character(self.parser.line_of(node), character))
    }

    fn unfit_value(&self, value: u32, path: &str, expected: &DataType) -> Error {
        let mut found = String::new();
        self.tape.write_json(value, &mut found);
        self.unfit(value, path, expected, &shortened(&found))
    }

    fn unfit(&self, value: u32, path: &str, expected: &DataType, found: &str) -> Error {
        ErrorKind::JsonValue {
            place: self.place_of(value).column(path),
            expected: expected.clone(),
            found: found.to_owned(),
            declared: self.declared,
        }
        .into()
    }
}
