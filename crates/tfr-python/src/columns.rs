//! [`Columns`]: brings decoded columns to the few types that have a numpy form, and checks their nulls.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, Scalar};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use arrow_select::zip::zip;

use crate::error::{Failure, Result};

/// How the wanted columns become numpy values.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    columns: Vec<Column>,
    /// The schema of the columns in the types that have a numpy form.
    schema: SchemaRef,
}

/// One column.
#[derive(Debug, Clone)]
struct Column {
    /// The value of rows that have none.
    fill: Option<ArrayRef>,
    padding: Padding,
}

/// How a list of scalars becomes an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Padding {
    /// A flat array of values, with the bounds of the rows.
    Ragged,
    /// A matrix as wide as the longest row of the batch.
    Longest,
    /// A matrix of this width.
    Width(usize),
}

impl Columns {
    /// Plans the conversion of the columns of `schema` at these positions.
    ///
    /// `fill` contains one value for each column that has one, as an array of length 1 of any type.
    pub(crate) fn new(
        schema: &Schema,
        projection: &[usize],
        pad: bool,
        pad_to: &BTreeMap<String, usize>,
        fill: &BTreeMap<String, ArrayRef>,
    ) -> Result<Self> {
        let wanted: Vec<_> = projection.iter().filter_map(|column| schema.fields().get(*column)).collect();
        let is_wanted = |name: &String| wanted.iter().any(|field| field.name() == name);
        for (option, name) in pad_to.keys().map(|name| ("pad_to", name)).chain(fill.keys().map(|name| ("fill", name))) {
            if !is_wanted(name) {
                return Err(Failure::usage(format!("{option} names the column {name:?}, which is not read")));
            }
        }
        let mut columns = Vec::new();
        let mut fields = Vec::new();
        for field in wanted {
            let name = field.name();
            let data_type = numpy_type(field.data_type()).ok_or_else(|| {
                Failure::usage(format!("column {name:?}: type {} has no numpy form", field.data_type()))
                    .with_hint("Leave the column out with columns=, or pass schema= with another type for it.")
            })?;
            let can_be_padded = matches!(&data_type, DataType::List(item) if !item.data_type().is_nested());
            let padding = match pad_to.get(name) {
                Some(_) if !can_be_padded => {
                    let found = field.data_type();
                    return Err(Failure::usage(format!(
                        "pad_to: column {name:?} has the type {found}, expected a list of scalars of varying length"
                    )));
                }
                Some(width) => Padding::Width(*width),
                None if pad && can_be_padded => Padding::Longest,
                None => Padding::Ragged,
            };
            let fill = fill.get(name).map(|value| fill_value(name, value, &data_type)).transpose()?;
            columns.push(Column { fill, padding });
            fields.push(Field::new(name, data_type, true));
        }
        Ok(Self { columns, schema: Arc::new(Schema::new(fields)) })
    }

    /// Returns the name and the padding of each column.
    pub(crate) fn paddings(&self) -> impl Iterator<Item = (&str, Padding)> {
        self.schema.fields().iter().zip(&self.columns).map(|(field, column)| (field.name().as_str(), column.padding))
    }

    /// Converts the columns of a batch, fills in values, and refuses nulls that have no numpy form. The rows are the
    /// records of a file that begin with `first`.
    pub(crate) fn convert(&self, batch: &RecordBatch, path: &Path, first: u64) -> Result<RecordBatch> {
        let mut arrays = Vec::with_capacity(self.columns.len());
        for ((array, column), field) in batch.columns().iter().zip(&self.columns).zip(self.schema.fields()) {
            let refuse =
                |row: usize, problem: &str| Failure::data(path, first + row as u64, Some(field.name()), problem);
            let mut array = Arc::clone(array);
            if array.data_type() != field.data_type() {
                array = cast(&array, field.data_type()).map_err(|error| refuse(0, &error.to_string()))?;
            }
            if let Some(fill) = column.fill.as_ref().filter(|_| array.null_count() > 0) {
                array = zip(&null_mask(&array), &Scalar::new(Arc::clone(fill)), &array)
                    .map_err(|error| refuse(0, &error.to_string()))?;
            }
            if let Some(row) = first_refused_null(&array) {
                return Err(refuse(row, "no value, which a numpy array of this type cannot represent")
                    .with_hint("Pass a value for such rows with fill={\"column\": value}."));
            }
            if let (Padding::Width(width), Some(list)) = (column.padding, array.as_list_opt::<i32>())
                && let Some(row) = list.offsets().lengths().position(|len| len > width)
            {
                let len = list.value_length(row);
                return Err(refuse(row, &format!("{len} values, expected at most {width} by pad_to")));
            }
            arrays.push(array);
        }
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)
            .map_err(|error| Failure::other(error.to_string()))
    }
}

/// Returns a mask of the rows without a value.
fn null_mask(array: &ArrayRef) -> arrow_array::BooleanArray {
    let is_null = array.logical_nulls().map(|nulls| !nulls.inner());
    let none = || arrow_buffer::BooleanBuffer::new_unset(array.len());
    arrow_array::BooleanArray::new(is_null.unwrap_or_else(none), None)
}

/// Converts a value for missing rows to the type of its column.
fn fill_value(name: &str, value: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    let refused = || {
        let found = value.data_type();
        Failure::usage(format!("fill: a value of type {found} for the column {name:?}, expected {data_type}"))
    };
    let exact = cast(value, data_type).ok().filter(|array| array.len() == 1 && array.null_count() == 0);
    let exact = exact.ok_or_else(refused)?;
    // A value that is changed by the conversion, such as 1.5 in a column of integers, is not the one that was passed.
    let is_number = value.data_type().is_numeric() && !exact.data_type().is_floating();
    let is_same = !is_number || cast(&exact, value.data_type()).is_ok_and(|back| *back == **value);
    if is_same && !data_type.is_nested() { Ok(exact) } else { Err(refused()) }
}

/// Returns the type that a column has before it becomes a numpy array. `None` if it has no numpy form.
fn numpy_type(data_type: &DataType) -> Option<DataType> {
    use DataType as T;

    let convert_field = |field: &FieldRef| {
        let data_type = numpy_type(field.data_type())?;
        Some(Arc::new(Field::new(field.name(), data_type, true)))
    };
    Some(match data_type {
        T::Utf8 | T::LargeUtf8 | T::Utf8View => T::Utf8,
        T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => T::Binary,
        T::List(item) | T::LargeList(item) | T::ListView(item) | T::LargeListView(item) => {
            T::List(convert_field(item)?)
        }
        T::FixedSizeList(item, len) => T::FixedSizeList(convert_field(item)?, *len),
        T::Struct(fields) => T::Struct(fields.iter().map(convert_field).collect::<Option<Fields>>()?),
        T::Dictionary(_, values) => numpy_type(values)?,
        // Keys and values are not converted.
        T::Map(entries, _) if has_numpy_types(entries.data_type()) => data_type.clone(),
        T::Null | T::Boolean | T::Date32 | T::Date64 => data_type.clone(),
        T::Timestamp(..) | T::Duration(_) | T::Time32(_) | T::Time64(_) => data_type.clone(),
        number if number.is_integer() || number.is_floating() => data_type.clone(),
        number if number.is_decimal() => T::Float64,
        _ => return None,
    })
}

/// Whether all fields of a struct have a type that needs no conversion.
fn has_numpy_types(entries: &DataType) -> bool {
    let is_unchanged = |field: &FieldRef| numpy_type(field.data_type()).is_some_and(|same| same == *field.data_type());
    matches!(entries, DataType::Struct(fields) if fields.iter().all(is_unchanged))
}

/// Returns the first row with a null that has no numpy form. Missing floats are NaN, missing times NaT, missing texts
/// and bytes None, and missing lists empty.
fn first_refused_null(array: &dyn Array) -> Option<usize> {
    use DataType as T;

    let first_null = || array.nulls().and_then(|nulls| nulls.iter().position(|is_valid| !is_valid));
    match array.data_type() {
        T::List(_) => {
            let list = array.as_list::<i32>();
            rows_of(list.offsets(), list.values())
        }
        T::Map(..) => {
            let map = array.as_map();
            rows_of(map.offsets(), map.entries())
        }
        T::FixedSizeList(item, len) => {
            let list = array.as_fixed_size_list();
            if item.data_type().is_floating() {
                return None;
            }
            let in_values = first_refused_null(list.values()).map(|value| value / usize::try_from(*len).unwrap_or(1));
            [first_null(), in_values].into_iter().flatten().min()
        }
        T::Struct(_) => {
            let in_fields = array.as_struct().columns().iter().filter_map(|column| first_refused_null(column)).min();
            [first_null(), in_fields].into_iter().flatten().min()
        }
        T::Boolean => first_null(),
        number if number.is_integer() => first_null(),
        _ => None,
    }
}

/// Returns the row of the first refused null in the values of lists.
fn rows_of(offsets: &arrow_buffer::OffsetBuffer<i32>, values: &dyn Array) -> Option<usize> {
    let (start, end) = (*offsets.first()? as usize, *offsets.last()? as usize);
    let value = start + first_refused_null(&values.slice(start, end - start))?;
    Some(offsets.partition_point(|offset| *offset as usize <= value).saturating_sub(1))
}
