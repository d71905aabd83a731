//! [`observe`]: collects the strings in a part of a column.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, BooleanArray, StructArray, UInt64Array};
use arrow::compute::{nullif, take};
use arrow::datatypes::{DataType, Field};
use arrow_tfrecord::Vocabulary;
use datafusion::error::DataFusionError;

use crate::error::Result;

/// Returns the part of `name` after `of`, if `name` names the column or part `of` itself or a part of it.
pub fn rest_of<'a>(name: &'a str, of: &str, separator: &str) -> Option<&'a str> {
    let rest = name.strip_prefix(of)?;
    (rest.is_empty() || rest.starts_with(separator)).then_some(rest)
}

/// Adds the strings of a part to its vocabulary: all that are not null, in lists and structs at any depth. `rest`
/// identifies the part: its name after the name of `array`.
pub fn observe(vocabulary: &mut Vocabulary, array: &ArrayRef, rest: &str, separator: &str) -> Result<()> {
    let mut add_fields = |entries: &StructArray, names: &[&str]| -> Result<()> {
        for (name, column) in names.iter().zip(entries.columns()) {
            let rest = match rest.strip_prefix(separator) {
                Some(part) => rest_of(part, name, separator),
                None => rest.is_empty().then_some(rest),
            };
            if let Some(rest) = rest {
                observe(vocabulary, &visible(column, entries)?, rest, separator)?;
            }
        }
        Ok(())
    };
    match array.data_type() {
        DataType::Struct(fields) => {
            let names: Vec<_> = fields.iter().map(|field| field.name().as_str()).collect();
            add_fields(array.as_struct(), &names)
        }
        DataType::Map(..) => add_fields(elements(array)?.as_struct(), &["key", "value"]),
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
            observe(vocabulary, &elements(array)?, rest, separator)
        }
        data_type if rest.is_empty() && is_text(data_type) => Ok(vocabulary.observe(array)?),
        // Values of other types cannot become ranks.
        _ => Ok(()),
    }
}

/// Whether a type contains strings.
pub fn has_text(data_type: &DataType) -> bool {
    let is_text_field = |field: &Arc<Field>| has_text(field.data_type());
    match data_type {
        DataType::Struct(fields) => fields.iter().any(is_text_field),
        DataType::Map(field, _)
        | DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _) => is_text_field(field),
        other => is_text(other),
    }
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_text(values),
        DataType::RunEndEncoded(_, values) => is_text(values.data_type()),
        other => matches!(other, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View),
    }
}

/// Returns a field of structs, null where the structs are null.
fn visible(column: &ArrayRef, entries: &StructArray) -> Result<ArrayRef> {
    match entries.nulls() {
        Some(nulls) => {
            let hidden = BooleanArray::new(!nulls.inner(), None);
            Ok(nullif(column, &hidden).map_err(DataFusionError::from)?)
        }
        None => Ok(Arc::clone(column)),
    }
}

/// Returns the elements of lists or maps that are not null.
fn elements(array: &ArrayRef) -> Result<ArrayRef> {
    let (values, ends): (ArrayRef, Vec<Range<usize>>) = match array.data_type() {
        DataType::Map(..) => {
            let map = array.as_map();
            let ends = map.value_offsets().windows(2).map(|ends| ends[0] as usize..ends[1] as usize);
            (Arc::new(map.entries().clone()), ends.collect())
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let ends = list.value_offsets().windows(2).map(|ends| ends[0] as usize..ends[1] as usize);
            (Arc::clone(list.values()), ends.collect())
        }
        DataType::FixedSizeList(..) => {
            let list = array.as_fixed_size_list();
            let len = usize::try_from(list.value_length()).unwrap_or_default();
            (Arc::clone(list.values()), (0..list.len()).map(|row| row * len..(row + 1) * len).collect())
        }
        _ => {
            let list = array.as_list::<i32>();
            let ends = list.value_offsets().windows(2).map(|ends| ends[0] as usize..ends[1] as usize);
            (Arc::clone(list.values()), ends.collect())
        }
    };
    let valid = ends.into_iter().enumerate().filter(|(row, _)| array.is_valid(*row));
    let rows: UInt64Array = valid.flat_map(|(_, range)| range).map(|row| row as u64).collect();
    Ok(take(&values, &rows, None).map_err(DataFusionError::from)?)
}
