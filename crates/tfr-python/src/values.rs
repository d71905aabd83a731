//! [`Values`]: columns of a batch as vectors that numpy can own.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, BinaryArray, PrimitiveArray, RecordBatch, StringArray};
use arrow_buffer::OffsetBuffer;
use arrow_cast::cast;
use arrow_schema::{DataType, TimeUnit};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple, PyType};

use crate::columns::{Columns, Padding};
use crate::error::{Failure, Result};

/// Declares [`Numbers`] with one variant for each type.
macro_rules! numbers {
    ($($variant:ident $native:ty,)+) => {
        /// Numbers of one type.
        #[derive(Debug)]
        pub(crate) enum Numbers {
            $(#[allow(missing_docs, reason = "named by their types")] $variant(Vec<$native>),)+
        }

        impl Numbers {
            /// Returns rows of `width` numbers: the values of each list, then zeros.
            fn pad(self, offsets: &OffsetBuffer<i32>, width: usize) -> Self {
                match self { $(Self::$variant(values) => Self::$variant(pad(&values, offsets, width)),)+ }
            }

            fn into_py(self, py: Python<'_>) -> Bound<'_, PyAny> {
                match self { $(Self::$variant(values) => PyArray1::from_vec(py, values).into_any(),)+ }
            }
        }
    };
}

numbers! {
    Bool bool,
    Int8 i8,
    Int16 i16,
    Int32 i32,
    Int64 i64,
    UInt8 u8,
    UInt16 u16,
    UInt32 u32,
    UInt64 u64,
    Float16 half::f16,
    Float32 f32,
    Float64 f64,
}

/// A column, or a part of one.
#[derive(Debug)]
pub(crate) enum Values {
    /// A flat array.
    Numbers(Numbers),
    /// A flat array of times, of this numpy type.
    Times(Numbers, &'static str),
    /// A flat array of `str` or None.
    Text(StringArray),
    /// A flat array of `bytes` or None.
    Bytes(BinaryArray),
    /// A flat array of None, of this length.
    Nothing(usize),
    /// An array with a row of `width` values for each of `rows`.
    Fixed { values: Box<Values>, rows: usize, width: usize },
    /// Rows of any length, and the bounds of the rows.
    Ragged { values: Box<Values>, splits: Vec<i64> },
    /// A dictionary of columns.
    Fields(Vec<(String, Values)>),
}

/// Returns the columns of a batch.
pub(crate) fn columns_of(batch: RecordBatch, columns: &Columns) -> Result<Vec<(String, Values)>> {
    let (_, arrays, _) = batch.into_parts();
    columns
        .paddings()
        .zip(arrays)
        .map(|((name, padding), array)| {
            let values = values_of(&array, padding)
                .map_err(|problem| Failure::other(format!("column {name:?}: cannot make a numpy array: {problem}")))?;
            Ok((name.to_owned(), values))
        })
        .collect()
}

fn values_of(array: &dyn Array, padding: Padding) -> Result<Values, String> {
    use DataType as T;

    Ok(match array.data_type() {
        T::Null => Values::Nothing(array.len()),
        T::Boolean => Values::Numbers(Numbers::Bool(array.as_boolean().values().iter().collect())),
        T::Int8 => Values::Numbers(Numbers::Int8(integers::<Int8Type>(array))),
        T::Int16 => Values::Numbers(Numbers::Int16(integers::<Int16Type>(array))),
        T::Int32 => Values::Numbers(Numbers::Int32(integers::<Int32Type>(array))),
        T::Int64 => Values::Numbers(Numbers::Int64(integers::<Int64Type>(array))),
        T::UInt8 => Values::Numbers(Numbers::UInt8(integers::<UInt8Type>(array))),
        T::UInt16 => Values::Numbers(Numbers::UInt16(integers::<UInt16Type>(array))),
        T::UInt32 => Values::Numbers(Numbers::UInt32(integers::<UInt32Type>(array))),
        T::UInt64 => Values::Numbers(Numbers::UInt64(integers::<UInt64Type>(array))),
        T::Float16 => {
            Values::Numbers(Numbers::Float16(or_missing(array.as_primitive::<Float16Type>(), half::f16::NAN)))
        }
        T::Float32 => Values::Numbers(Numbers::Float32(or_missing(array.as_primitive::<Float32Type>(), f32::NAN))),
        T::Float64 => Values::Numbers(Numbers::Float64(or_missing(array.as_primitive::<Float64Type>(), f64::NAN))),
        T::Date32 => {
            let days = array.as_primitive::<Date32Type>().iter().map(|day| day.map_or(i64::MIN, i64::from));
            Values::Times(Numbers::Int64(days.collect()), "datetime64[D]")
        }
        T::Date64 => times(array, "datetime64[ms]")?,
        T::Timestamp(unit, _) => times(array, unit_name(*unit, true))?,
        T::Duration(unit) | T::Time32(unit) | T::Time64(unit) => times(array, unit_name(*unit, false))?,
        T::Utf8 => Values::Text(array.as_string::<i32>().clone()),
        T::Binary => Values::Bytes(array.as_binary::<i32>().clone()),
        T::List(_) => {
            let list = array.as_list::<i32>();
            let (offsets, values) = rebased(list.offsets(), list.values())?;
            match padding {
                Padding::Ragged => ragged(&offsets, &*values)?,
                Padding::Width(width) => padded(&offsets, &*values, width)?,
                Padding::Longest => padded(&offsets, &*values, offsets.lengths().max().unwrap_or_default())?,
            }
        }
        T::Map(..) => {
            let map = array.as_map();
            let (offsets, entries) = rebased(map.offsets(), map.entries())?;
            ragged(&offsets, &*entries)?
        }
        T::FixedSizeList(_, width) => {
            let list = array.as_fixed_size_list();
            let width = usize::try_from(*width).map_err(|error| error.to_string())?;
            let values = list.values();
            if values.data_type().is_nested() && !matches!(values.data_type(), T::FixedSizeList(..)) {
                let splits = (0..=list.len()).map(|row| (row * width) as i64).collect();
                let values = Box::new(values_of(values, Padding::Ragged)?);
                return Ok(Values::Ragged { values, splits });
            }
            let mut values = values_of(values, Padding::Ragged)?;
            if let Some(nulls) = list.nulls() {
                let missing = (0..list.len()).filter(|row| nulls.is_null(*row));
                missing.for_each(|row| values.forget(row * width..(row + 1) * width));
            }
            Values::Fixed { values: Box::new(values), rows: list.len(), width }
        }
        T::Struct(fields) => {
            let columns = array.as_struct().columns();
            let parts = fields.iter().zip(columns);
            let parts = parts.map(|(field, column)| Ok((field.name().clone(), values_of(column, Padding::Ragged)?)));
            Values::Fields(parts.collect::<Result<_, String>>()?)
        }
        other => return Err(format!("unsupported type {other}")),
    })
}

/// Returns the values of an array without nulls.
fn integers<T: ArrowPrimitiveType>(array: &dyn Array) -> Vec<T::Native> {
    array.as_primitive::<T>().values().to_vec()
}

/// Returns the values of an array, with `missing` in place of nulls.
fn or_missing<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, missing: T::Native) -> Vec<T::Native> {
    if array.null_count() == 0 {
        return array.values().to_vec();
    }
    array.iter().map(|value| value.unwrap_or(missing)).collect()
}

/// Returns times as numpy stores them.
fn times(array: &dyn Array, name: &'static str) -> Result<Values, String> {
    let integers = match array.data_type() {
        DataType::Time32(_) => cast(array, &DataType::Int32).and_then(|array| cast(&array, &DataType::Int64)),
        _ => cast(array, &DataType::Int64),
    };
    let integers = integers.map_err(|error| error.to_string())?;
    Ok(Values::Times(Numbers::Int64(or_missing(integers.as_primitive::<Int64Type>(), i64::MIN)), name))
}

fn unit_name(unit: TimeUnit, is_point: bool) -> &'static str {
    match (unit, is_point) {
        (TimeUnit::Second, true) => "datetime64[s]",
        (TimeUnit::Millisecond, true) => "datetime64[ms]",
        (TimeUnit::Microsecond, true) => "datetime64[us]",
        (TimeUnit::Nanosecond, true) => "datetime64[ns]",
        (TimeUnit::Second, false) => "timedelta64[s]",
        (TimeUnit::Millisecond, false) => "timedelta64[ms]",
        (TimeUnit::Microsecond, false) => "timedelta64[us]",
        (TimeUnit::Nanosecond, false) => "timedelta64[ns]",
    }
}

/// Returns the offsets of lists from 0, and the values that they refer to.
fn rebased(
    offsets: &OffsetBuffer<i32>,
    values: &dyn Array,
) -> Result<(OffsetBuffer<i32>, arrow_array::ArrayRef), String> {
    let len = |end: i32| usize::try_from(end).map_err(|error| error.to_string());
    let (start, end) = (len(offsets.first().copied().unwrap_or(0))?, len(offsets.last().copied().unwrap_or(0))?);
    Ok((OffsetBuffer::from_lengths(offsets.lengths()), values.slice(start, end - start)))
}

fn ragged(offsets: &OffsetBuffer<i32>, values: &dyn Array) -> Result<Values, String> {
    let splits = offsets.iter().map(|offset| i64::from(*offset)).collect();
    Ok(Values::Ragged { values: Box::new(values_of(values, Padding::Ragged)?), splits })
}

/// Returns rows of `width` values: the values of each list, then zeros or empty values.
fn padded(offsets: &OffsetBuffer<i32>, values: &dyn Array, width: usize) -> Result<Values, String> {
    let rows = offsets.len().saturating_sub(1);
    let values = match values_of(values, Padding::Ragged)? {
        Values::Numbers(numbers) => Values::Numbers(numbers.pad(offsets, width)),
        Values::Times(numbers, name) => Values::Times(numbers.pad(offsets, width), name),
        Values::Text(texts) => {
            let texts: Vec<_> = texts.iter().collect();
            Values::Text(pad_with(&texts, offsets, width, Some("")).into_iter().collect())
        }
        Values::Bytes(blobs) => {
            let blobs: Vec<_> = blobs.iter().collect();
            Values::Bytes(pad_with(&blobs, offsets, width, Some(b"".as_slice())).into_iter().collect())
        }
        Values::Nothing(_) => Values::Nothing(rows * width),
        Values::Fixed { .. } | Values::Ragged { .. } | Values::Fields(_) => {
            return Err("only lists of scalars can be padded".to_owned());
        }
    };
    Ok(Values::Fixed { values: Box::new(values), rows, width })
}

fn pad<T: Copy + Default>(values: &[T], offsets: &OffsetBuffer<i32>, width: usize) -> Vec<T> {
    pad_with(values, offsets, width, T::default())
}

fn pad_with<T: Copy>(values: &[T], offsets: &OffsetBuffer<i32>, width: usize, padding: T) -> Vec<T> {
    let mut out = Vec::with_capacity(offsets.len().saturating_sub(1) * width);
    for (start, len) in offsets.iter().zip(offsets.lengths()) {
        let start = *start as usize;
        let row = values.get(start..start + len.min(width)).unwrap_or_default();
        out.extend_from_slice(row);
        out.extend(std::iter::repeat_n(padding, width - row.len()));
    }
    out
}

impl Values {
    /// Replaces floats by NaN: those of a missing list of fixed size.
    fn forget(&mut self, range: std::ops::Range<usize>) {
        match self {
            Self::Numbers(Numbers::Float16(values)) => fill(values, range, half::f16::NAN),
            Self::Numbers(Numbers::Float32(values)) => fill(values, range, f32::NAN),
            Self::Numbers(Numbers::Float64(values)) => fill(values, range, f64::NAN),
            _ => {}
        }
    }

    /// Moves the values to Python.
    pub(crate) fn into_py(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        Ok(match self {
            Self::Numbers(numbers) => numbers.into_py(py),
            Self::Times(numbers, name) => numbers.into_py(py).call_method1("view", (name,))?,
            Self::Text(texts) => {
                let text = |text: Option<&str>| match text {
                    Some(text) => PyString::new(py, text).into_any().unbind(),
                    None => py.None(),
                };
                PyArray1::from_vec(py, texts.iter().map(text).collect()).into_any()
            }
            Self::Bytes(blobs) => {
                let blob = |blob: Option<&[u8]>| match blob {
                    Some(blob) => PyBytes::new(py, blob).into_any().unbind(),
                    None => py.None(),
                };
                PyArray1::from_vec(py, blobs.iter().map(blob).collect()).into_any()
            }
            Self::Nothing(len) => PyArray1::from_vec(py, (0..len).map(|_| py.None()).collect()).into_any(),
            Self::Fixed { values, rows, width } => {
                let values = values.into_py(py)?;
                let shape: Vec<usize> = values.getattr("shape")?.extract()?;
                let shape = [rows, width].into_iter().chain(shape.into_iter().skip(1));
                values.call_method1("reshape", (PyTuple::new(py, shape.collect::<Vec<_>>())?,))?
            }
            Self::Ragged { values, splits } => {
                let splits = PyArray1::from_vec(py, splits);
                ragged_class(py)?.call1((values.into_py(py)?, splits))?
            }
            Self::Fields(fields) => into_dict(py, fields)?.into_any(),
        })
    }
}

/// Moves columns to a Python dictionary.
pub(crate) fn into_dict(py: Python<'_>, columns: Vec<(String, Values)>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for (name, values) in columns {
        dict.set_item(name, values.into_py(py)?)?;
    }
    Ok(dict)
}

fn ragged_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static RAGGED: PyOnceLock<Py<PyType>> = PyOnceLock::new();

    RAGGED.import(py, "tfr_sql._ragged", "Ragged")
}

fn fill<T: Copy>(values: &mut [T], range: std::ops::Range<usize>, value: T) {
    if let Some(values) = values.get_mut(range) {
        values.fill(value);
    }
}
