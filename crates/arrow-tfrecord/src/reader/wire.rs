//! The part of the protobuf wire format that reading needs.
//!
//! Positions are relative to the slice passed in. A slice ends at the end of its message, so no length can point past
//! the message.

use std::ops::Range;

/// The maximum nesting of groups, as in protobuf's own parsers.
const MAX_GROUP_DEPTH: usize = 100;

/// A defect of a message, with its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// The position of the invalid tag, length or number.
    pub(crate) at: usize,
    pub(crate) reason: &'static str,
}

pub(crate) type WireResult<T> = Result<T, Malformed>;

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FieldValue {
    Varint(u64),
    Fixed32([u8; 4]),
    /// The range of a string, a message, or packed numbers.
    Delimited(Range<usize>),
    /// Eight bytes, or a group. The messages read here contain neither.
    Other,
}

/// A field: its position, number and value.
pub(crate) struct Field {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) number: u64,
    pub(crate) value: FieldValue,
}

impl Field {
    /// The range of the message or string, if this is field `number`.
    pub(crate) fn message(self, number: u64) -> WireResult<Option<Range<usize>>> {
        match self.value {
            _ if self.number != number => Ok(None),
            FieldValue::Delimited(range) => Ok(Some(range)),
            _ => Err(Malformed { at: self.start, reason: "a number where a message should be" }),
        }
    }
}

/// Reads a varint, and returns it with the position after it.
#[inline]
pub(crate) fn varint(bytes: &[u8], pos: usize) -> WireResult<(u64, usize)> {
    match bytes.get(pos) {
        Some(byte) if *byte < 0x80 => Ok((u64::from(*byte), pos + 1)),
        _ => long_varint(bytes, pos),
    }
}

fn long_varint(bytes: &[u8], pos: usize) -> WireResult<(u64, usize)> {
    let mut value = 0;
    let rest = bytes.get(pos..).unwrap_or_default();
    for (index, byte) in rest.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            // Nine bytes hold 63 bits.
            let fits = index < 9 || *byte <= 1;
            return if fits { Ok((value, pos + index + 1)) } else { Err(TOO_LONG.at(pos)) };
        }
    }
    Err(if rest.len() < 10 { CUT_SHORT.at(pos) } else { TOO_LONG.at(pos) })
}

/// Reads a varint as [`varint`] does. Faster for sequences of varints of different lengths.
#[inline]
pub(crate) fn next_varint(bytes: &[u8], pos: usize) -> WireResult<(u64, usize)> {
    if let Some(eight) = bytes.get(pos..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*eight);
        let ends = !word & MORE;
        if ends != 0 {
            let last = ends & ends.wrapping_neg();
            return Ok((sevens(word & (last - 1)), pos + 1 + ends.trailing_zeros() as usize / 8));
        }
    }
    varint(bytes, pos)
}

/// The continuation bit in each of eight bytes.
const MORE: u64 = 0x8080_8080_8080_8080;

/// Joins the lower seven bits of each byte, least significant byte first: by pairs, by fours, by eights.
#[inline]
fn sevens(word: u64) -> u64 {
    let bits = word & !MORE;
    let bits = (bits & 0x007f_007f_007f_007f) | ((bits & 0x7f00_7f00_7f00_7f00) >> 1);
    let bits = (bits & 0x0000_3fff_0000_3fff) | ((bits & 0x3fff_0000_3fff_0000) >> 2);
    (bits & 0x0fff_ffff) | ((bits & 0x0fff_ffff_0000_0000) >> 4)
}

/// The varint at `pos`, if it has exactly `len` bytes.
#[inline]
pub(crate) fn varint_of_len(bytes: &[u8], pos: usize, len: usize) -> Option<u64> {
    if let Some(eight) = bytes.get(pos..).and_then(|rest| rest.first_chunk::<8>())
        && (1..=8).contains(&len)
    {
        let word = u64::from_le_bytes(*eight) & (u64::MAX >> (64 - 8 * len));
        if word & MORE != MORE & !(u64::MAX << (8 * (len - 1))) {
            return None;
        }
        return Some(sevens(word));
    }
    match varint(bytes.get(..pos + len)?, pos) {
        Ok((value, end)) if end == pos + len => Some(value),
        _ => None,
    }
}

/// Reads a length, and returns the range of that many bytes after it.
#[inline]
pub(crate) fn delimited(bytes: &[u8], pos: usize) -> WireResult<Range<usize>> {
    let (len, start) = varint(bytes, pos)?;
    match usize::try_from(len).ok().and_then(|len| start.checked_add(len)) {
        Some(end) if end <= bytes.len() => Ok(start..end),
        _ => Err(Malformed { at: pos, reason: "a length that reaches past the end of its message" }),
    }
}

/// Reads a field.
pub(crate) fn field(bytes: &[u8], pos: usize) -> WireResult<Field> {
    let (number, wire_type, start) = tag(bytes, pos)?;
    let (value, end) = match wire_type {
        3 => (FieldValue::Other, skip_group(bytes, start, number)?),
        4 => return Err(Malformed { at: pos, reason: "the end of a group that has not begun" }),
        _ => plain_value(bytes, pos, start, wire_type)?,
    };
    Ok(Field { start: pos, end, number, value })
}

fn tag(bytes: &[u8], pos: usize) -> WireResult<(u64, u8, usize)> {
    let (tag, start) = varint(bytes, pos)?;
    match tag >> 3 {
        0 => Err(Malformed { at: pos, reason: "a field with number 0" }),
        _ if tag > u64::from(u32::MAX) => Err(Malformed { at: pos, reason: "a field number of more than 29 bits" }),
        number => Ok((number, (tag & 7) as u8, start)),
    }
}

/// The value of a field other than a group, with the position after it.
fn plain_value(bytes: &[u8], tag_pos: usize, start: usize, wire_type: u8) -> WireResult<(FieldValue, usize)> {
    let fixed = |len: usize| if bytes.len() - start < len { Err(CUT_SHORT.at(start)) } else { Ok(start + len) };
    Ok(match wire_type {
        0 => {
            let (value, end) = varint(bytes, start)?;
            (FieldValue::Varint(value), end)
        }
        1 => (FieldValue::Other, fixed(8)?),
        2 => {
            let range = delimited(bytes, start)?;
            let end = range.end;
            (FieldValue::Delimited(range), end)
        }
        5 => {
            let four = bytes[start..].first_chunk().ok_or_else(|| CUT_SHORT.at(start))?;
            (FieldValue::Fixed32(*four), start + 4)
        }
        _ => return Err(Malformed { at: tag_pos, reason: "a wire type that protobuf does not have" }),
    })
}

/// The position after a group whose start tag ends at `pos`.
fn skip_group(bytes: &[u8], mut pos: usize, number: u64) -> WireResult<usize> {
    let mut open = vec![number];
    while let Some(innermost) = open.last() {
        let (number, wire_type, start) = tag(bytes, pos)?;
        pos = match wire_type {
            3 if open.len() == MAX_GROUP_DEPTH => {
                return Err(Malformed { at: pos, reason: "groups nested deeper than 100" });
            }
            3 => {
                open.push(number);
                start
            }
            4 if number != *innermost => return Err(Malformed { at: pos, reason: "the end of another group" }),
            4 => {
                open.pop();
                start
            }
            _ => plain_value(bytes, pos, start, wire_type)?.1,
        };
    }
    Ok(pos)
}

/// A reason without a position.
struct Reason(&'static str);

const CUT_SHORT: Reason = Reason("a number that is cut short");
const TOO_LONG: Reason = Reason("a varint of more than 64 bits");

impl Reason {
    fn at(&self, at: usize) -> Malformed {
        Malformed { at, reason: self.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{MAX_VARINT_LEN, put_varint};

    #[test]
    fn varints_of_every_length() {
        let mut values: Vec<u64> = (0..64).flat_map(|shift| [1 << shift, (1 << shift) - 1, (1 << shift) + 1]).collect();
        values.extend([0, u64::MAX, i64::MIN as u64]);
        for value in values {
            let mut bytes = [0xff; MAX_VARINT_LEN + 8];
            let len = put_varint(&mut bytes, 0, value);
            assert_eq!(varint(&bytes[..len], 0), Ok((value, len)));
            for padding in [0, 8] {
                let bytes = &bytes[..len + padding];
                assert_eq!(next_varint(bytes, 0), Ok((value, len)));
                assert_eq!(varint_of_len(bytes, 0, len), Some(value));
                assert_eq!(varint_of_len(bytes, 0, len + 1), None);
                assert_eq!(varint_of_len(bytes, 0, len - 1), None);
            }
        }
        // Not the shortest encoding, but valid.
        assert_eq!(varint(&[0x81, 0x80, 0x00], 0), Ok((1, 3)));
        assert_eq!(next_varint(&[0x81, 0x80, 0x00, 7, 7, 7, 7, 7], 0), Ok((1, 3)));
        assert_eq!(varint_of_len(&[0x81, 0x80, 0x00], 0, 3), Some(1));
    }

    #[test]
    fn varint_rejects_cut_and_too_long_numbers() {
        assert_eq!(varint(&[0x80; 9], 0).unwrap_err().reason, CUT_SHORT.0);
        assert_eq!(varint(&[0x80; 12], 0).unwrap_err().reason, TOO_LONG.0);
        let mut beyond = [0xff; 10];
        beyond[9] = 2;
        assert_eq!(varint(&beyond, 0).unwrap_err().reason, TOO_LONG.0);
        assert_eq!(varint(&[], 0).unwrap_err().at, 0);
    }

    #[test]
    fn groups_are_skipped_whole() {
        // Group 5 { 1: varint, group 6 { 2: "xy" } }, then field 1.
        let bytes = b"\x2b\x08\x01\x33\x12\x02xy\x34\x2c\x08\x07";
        let group = field(bytes, 0).unwrap();
        assert_eq!((group.number, group.value, group.end), (5, FieldValue::Other, 10));
        assert_eq!(field(bytes, 10).unwrap().value, FieldValue::Varint(7));
        for broken in [&b"\x2b\x34"[..], b"\x2b\x08\x01", b"\x2c", &[0x2b; 200]] {
            assert!(field(broken, 0).is_err(), "{broken:?}");
        }
    }
}
