//! [`Values`]: the values of a column in the kind of its feature, in Arrow's buffers.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{ArrowNativeType, Buffer, OffsetBuffer, ScalarBuffer, ToByteSlice};
use arrow_schema::DataType;

use crate::error::{ErrorKind, Result};

/// The values of a column in the kind of its feature.
#[derive(Debug)]
pub(crate) enum Values {
    Int64(ScalarBuffer<i64>),
    Float(ScalarBuffer<f32>),
    Bytes(BytesValues),
}

/// Byte strings in each of Arrow's layouts.
#[derive(Debug)]
pub(crate) enum BytesValues {
    Offsets32 { offsets: OffsetBuffer<i32>, data: Buffer },
    Offsets64 { offsets: OffsetBuffer<i64>, data: Buffer },
    Views { views: ScalarBuffer<u128>, data: Vec<Buffer> },
    Fixed { width: usize, data: Buffer },
}

impl BytesValues {
    /// The value at `position`.
    #[inline]
    pub(super) fn get(&self, position: usize) -> &[u8] {
        match self {
            Self::Offsets32 { offsets, data } => &data[offsets[position].as_usize()..offsets[position + 1].as_usize()],
            Self::Offsets64 { offsets, data } => &data[offsets[position].as_usize()..offsets[position + 1].as_usize()],
            Self::Fixed { width, data } => &data[position * width..(position + 1) * width],
            Self::Views { views, data } => inline_or_in(&views[position], data),
        }
    }
}

/// The maximum length of a value stored inline in its view. Source:
/// <https://arrow.apache.org/docs/format/Columnar.html#variable-size-binary-view-layout>
pub(super) const MAX_INLINE: usize = 12;

/// The bytes of a view.
#[inline]
fn inline_or_in<'a>(view: &'a u128, data: &'a [Buffer]) -> &'a [u8] {
    let len = *view as u32 as usize;
    if len <= MAX_INLINE {
        return &view.to_byte_slice()[4..][..len];
    }
    behind_view(*view, data)
}

/// The bytes of a view that are not stored inline.
#[inline]
pub(super) fn behind_view(view: u128, data: &[Buffer]) -> &[u8] {
    let (len, buffer, offset) = (view as u32 as usize, (view >> 64) as u32 as usize, (view >> 96) as usize);
    &data[buffer][offset..offset + len]
}

impl Values {
    /// Gathers values from `sources`. All [`Source::Other`] values must have the same kind as these.
    pub(super) fn gather<'a>(&'a self, sources: impl Iterator<Item = Source<'a>>) -> Self {
        fn numbers<'a, T: ArrowNativeType>(
            values: &[T],
            sources: impl Iterator<Item = Source<'a>>,
            other: impl Fn(&'a Values) -> Option<T>,
        ) -> ScalarBuffer<T> {
            let value = |source| match source {
                Source::Value(position) => values[position],
                Source::Other(value) => other(value).unwrap_or_default(),
                Source::Nothing => T::default(),
            };
            sources.map(value).collect()
        }

        match self {
            Self::Int64(values) => Self::Int64(numbers(values, sources, |other| match other {
                Self::Int64(values) => values.first().copied(),
                _ => None,
            })),
            Self::Float(values) => Self::Float(numbers(values, sources, |other| match other {
                Self::Float(values) => values.first().copied(),
                _ => None,
            })),
            Self::Bytes(values) => {
                let mut data = Vec::new();
                let mut lengths = Vec::with_capacity(sources.size_hint().0);
                for source in sources {
                    let value = match source {
                        Source::Value(position) => values.get(position),
                        Source::Other(Self::Bytes(values)) => values.get(0),
                        Source::Other(_) | Source::Nothing => &[],
                    };
                    data.extend_from_slice(value);
                    lengths.push(value.len());
                }
                Self::Bytes(BytesValues::Offsets64 { offsets: OffsetBuffer::from_lengths(lengths), data: data.into() })
            }
        }
    }
}

/// The source of a [gathered](Values::gather) value.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// The value at a position.
    Value(usize),
    /// The single value of other values.
    Other(&'a Values),
    /// A placeholder: 0, or no bytes.
    Nothing,
}

/// The values of a string or binary array, without conversion.
pub(super) fn bytes(array: &ArrayRef) -> Result<BytesValues> {
    Ok(match array.data_type() {
        DataType::Utf8 => {
            let array = array.as_string::<i32>();
            BytesValues::Offsets32 { offsets: array.offsets().clone(), data: array.values().clone() }
        }
        DataType::Binary => {
            let array = array.as_binary::<i32>();
            BytesValues::Offsets32 { offsets: array.offsets().clone(), data: array.values().clone() }
        }
        DataType::LargeUtf8 => {
            let array = array.as_string::<i64>();
            BytesValues::Offsets64 { offsets: array.offsets().clone(), data: array.values().clone() }
        }
        DataType::LargeBinary => {
            let array = array.as_binary::<i64>();
            BytesValues::Offsets64 { offsets: array.offsets().clone(), data: array.values().clone() }
        }
        DataType::Utf8View => {
            let array = array.as_string_view();
            BytesValues::Views { views: array.views().clone(), data: array.data_buffers().to_vec() }
        }
        DataType::BinaryView => {
            let array = array.as_binary_view();
            BytesValues::Views { views: array.views().clone(), data: array.data_buffers().to_vec() }
        }
        DataType::FixedSizeBinary(width) => {
            let array = array.as_fixed_size_binary();
            BytesValues::Fixed { width: width.as_usize(), data: Buffer::from(array.value_data()) }
        }
        _ => return Err(mismatch(array)),
    })
}

/// The error for an array type that does not fit its conversion. The check of the batch's schema rules this out.
pub(super) fn mismatch(array: &ArrayRef) -> crate::Error {
    let found = array.data_type().to_string();
    ErrorKind::SchemaMismatch { expected: "the type the mapping was made for".to_owned(), found }.into()
}
