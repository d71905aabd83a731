//! Values of features, decoded from the wire format: [`DecodedValues`].

use super::wire::{FieldValue, Malformed, WireResult, delimited, field, next_varint, varint_of_len};
use crate::feature::FeatureKind;
use crate::wire::FIELD_1;

/// Tags of one unpacked number: field 1 as a varint, as four bytes.
const ONE_VARINT: u8 = 0x08;
const ONE_FIXED32: u8 = 0x0d;

/// The values of one column, of one of the three kinds.
#[derive(Debug)]
pub(super) enum DecodedValues {
    Int64(Vec<i64>),
    Float(Vec<f32>),
    Bytes(Blobs),
}

/// Capacity for values: their number and, for byte strings, their total length.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Room {
    values: usize,
    bytes: usize,
}

/// Byte strings, concatenated.
#[derive(Debug, Default)]
pub(super) struct Blobs {
    pub(super) ends: Vec<usize>,
    pub(super) data: Vec<u8>,
}

impl Blobs {
    #[inline]
    pub(super) fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.data[start..self.ends[index]]
    }

    #[inline]
    pub(super) fn push(&mut self, value: &[u8]) {
        self.data.extend_from_slice(value);
        self.ends.push(self.data.len());
    }
}

impl DecodedValues {
    pub(super) fn new(kind: FeatureKind) -> Self {
        match kind {
            FeatureKind::Int64 => Self::Int64(Vec::new()),
            FeatureKind::Float => Self::Float(Vec::new()),
            FeatureKind::Bytes => Self::Bytes(Blobs::default()),
        }
    }

    /// The capacity for the next batch: batches of one file have similar sizes.
    pub(super) fn room(&self) -> Room {
        let and_some = |len: usize| len + len / 8;
        let bytes = if let Self::Bytes(values) = self { values.data.len() } else { 0 };
        Room { values: and_some(self.len()), bytes: and_some(bytes) }
    }

    pub(super) fn reserve(&mut self, room: Room) {
        match self {
            Self::Int64(values) => values.reserve(room.values),
            Self::Float(values) => values.reserve(room.values),
            Self::Bytes(values) => {
                values.ends.reserve(room.values);
                values.data.reserve(room.bytes);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Int64(values) => values.len(),
            Self::Float(values) => values.len(),
            Self::Bytes(values) => values.ends.len(),
        }
    }
}

/// A destination of values of one kind.
pub(super) trait Sink {
    const KIND: FeatureKind;

    fn count(&self) -> usize;

    /// Appends the value of the list `bytes[start..end]`, if the list has one value in a usual encoding. `bytes` may
    /// continue after the list.
    fn push_one(&mut self, bytes: &[u8], start: usize, end: usize) -> bool;

    /// Appends all values of the list from `pos` to the end of `bytes`.
    fn push_all(&mut self, bytes: &[u8], pos: usize) -> WireResult<()>;

    /// Appends all integers of the list from `pos` to the end of `bytes`. Returns `false`, and appends nothing, if they
    /// are not values of this kind.
    fn push_integers(&mut self, _bytes: &[u8], _pos: usize) -> WireResult<bool> {
        Ok(false)
    }

    /// Appends `count` placeholder values.
    fn pad(&mut self, count: usize);
}

impl Sink for Vec<i64> {
    const KIND: FeatureKind = FeatureKind::Int64;

    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn push_one(&mut self, bytes: &[u8], start: usize, end: usize) -> bool {
        let pos = match bytes[start..end] {
            [FIELD_1, len, ..] if usize::from(len) == end - start - 2 => start + 2,
            [ONE_VARINT, ..] => start + 1,
            _ => return false,
        };
        match varint_of_len(bytes, pos, end - pos) {
            Some(value) => {
                self.push(value as i64);
                true
            }
            None => false,
        }
    }

    fn push_all(&mut self, bytes: &[u8], mut pos: usize) -> WireResult<()> {
        while pos < bytes.len() {
            if bytes[pos] == FIELD_1 {
                let packed = delimited(bytes, pos + 1)?;
                let bytes = &bytes[..packed.end];
                pos = packed.start;
                // A value takes at least one byte, so the input bounds the reserved capacity.
                self.reserve(packed.len());
                while pos < bytes.len() {
                    let (value, end) = next_varint(bytes, pos)?;
                    self.push(value as i64);
                    pos = end;
                }
                continue;
            }
            let field = field(bytes, pos)?;
            match field.value {
                _ if field.number != 1 => {}
                FieldValue::Varint(value) => self.push(value as i64),
                _ => return Err(Malformed { at: pos, reason: "no integer in an int64_list" }),
            }
            pos = field.end;
        }
        Ok(())
    }

    fn pad(&mut self, count: usize) {
        self.resize(self.len() + count, 0);
    }
}

impl Sink for Vec<f32> {
    const KIND: FeatureKind = FeatureKind::Float;

    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn push_one(&mut self, bytes: &[u8], start: usize, end: usize) -> bool {
        let value = match bytes[start..end] {
            [FIELD_1, 4, a, b, c, d] | [ONE_FIXED32, a, b, c, d] => [a, b, c, d],
            _ => return false,
        };
        self.push(f32::from_le_bytes(value));
        true
    }

    fn push_all(&mut self, bytes: &[u8], mut pos: usize) -> WireResult<()> {
        while pos < bytes.len() {
            if bytes[pos] == FIELD_1 {
                let packed = delimited(bytes, pos + 1)?;
                let (values, rest) = bytes[packed.clone()].as_chunks();
                if !rest.is_empty() {
                    return Err(Malformed { at: pos, reason: "packed floats that do not fill their length" });
                }
                self.extend(values.iter().map(|value| f32::from_le_bytes(*value)));
                pos = packed.end;
                continue;
            }
            let field = field(bytes, pos)?;
            match field.value {
                _ if field.number != 1 => {}
                FieldValue::Fixed32(value) => self.push(f32::from_le_bytes(value)),
                _ => return Err(Malformed { at: pos, reason: "no float in a float_list" }),
            }
            pos = field.end;
        }
        Ok(())
    }

    /// Only if each integer is exact as a float.
    fn push_integers(&mut self, bytes: &[u8], pos: usize) -> WireResult<bool> {
        let mut integers: Vec<i64> = Vec::new();
        integers.push_all(bytes, pos)?;
        let are_exact = integers.iter().all(|integer| i128::from(*integer) == (*integer as f32) as i128);
        if are_exact {
            self.extend(integers.iter().map(|integer| *integer as f32));
        }
        Ok(are_exact)
    }

    fn pad(&mut self, count: usize) {
        self.resize(self.len() + count, 0.0);
    }
}

impl Sink for Blobs {
    const KIND: FeatureKind = FeatureKind::Bytes;

    fn count(&self) -> usize {
        self.ends.len()
    }

    #[inline]
    fn push_one(&mut self, bytes: &[u8], start: usize, end: usize) -> bool {
        /// Bytes copied at once. Copying a constant length compiles to a few wide moves, a variable length to a call.
        const WIDTH: usize = 32;

        if bytes[start..end].first() != Some(&FIELD_1) {
            return false;
        }
        match delimited(&bytes[..end], start + 1) {
            Ok(value) if value.end == end => {
                match bytes[value.start..].first_chunk::<WIDTH>() {
                    Some(wide) if value.len() <= WIDTH => {
                        let filled = self.data.len() + value.len();
                        self.data.extend_from_slice(wide);
                        self.data.truncate(filled);
                    }
                    _ => self.data.extend_from_slice(&bytes[value]),
                }
                self.ends.push(self.data.len());
                true
            }
            _ => false,
        }
    }

    fn push_all(&mut self, bytes: &[u8], mut pos: usize) -> WireResult<()> {
        while pos < bytes.len() {
            let field = field(bytes, pos)?;
            match field.value {
                _ if field.number != 1 => {}
                FieldValue::Delimited(value) => self.push(&bytes[value]),
                _ => return Err(Malformed { at: pos, reason: "no bytes in a bytes_list" }),
            }
            pos = field.end;
        }
        Ok(())
    }

    fn pad(&mut self, count: usize) {
        self.ends.resize(self.ends.len() + count, self.data.len());
    }
}
