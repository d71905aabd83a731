//! The part of the protobuf wire format that writing `tf.train.Example` needs.
//!
//! ```text
//! Example  { features: Features = 1 }                     0a <len>
//! Features { feature: map<string, Feature> = 1 }          0a <len> for each entry
//! entry    { key: string = 1, value: Feature = 2 }        0a <len> key  12 <len>
//! Feature  { bytes_list = 1 | float_list = 2 | int64_list = 3 }   0a | 12 | 1a <len>
//! *List    { repeated value = 1 }                         0a <len>, numbers packed
//! ```
//!
//! Source: `tensorflow/core/example/{example,feature}.proto`; encoding: <https://protobuf.dev/programming-guides/encoding>.

use crate::feature::FeatureKind;

/// Field 1, length-delimited: `Example.features`, `Features.feature`, the entry's key, and `value` of every list.
pub(crate) const FIELD_1: u8 = 0x0a;
/// Field 2, length-delimited: the entry's value.
pub(crate) const FIELD_2: u8 = 0x12;

/// The maximum length of a 64-bit varint.
pub(crate) const MAX_VARINT_LEN: usize = 10;

impl FeatureKind {
    /// The tag of the list in `Feature.kind`.
    pub(crate) fn tag(self) -> u8 {
        match self {
            Self::Bytes => 0x0a,
            Self::Float => 0x12,
            Self::Int64 => 0x1a,
        }
    }
}

/// Bytes of `value` as a varint: 1 to 10.
#[inline(always)]
pub(crate) fn varint_len(value: u64) -> usize {
    // Seven bits a byte: ceil(bits / 7) without a division, exact for 1 to 64 bits.
    let bits = 64 - (value | 1).leading_zeros() as usize;
    (bits * 9 + 64) / 64
}

/// Writes `value` as a varint at `pos` and returns the position after it. Requires [`MAX_VARINT_LEN`] bytes at `pos`,
/// and may write more of them than the varint has.
#[inline(always)]
pub(crate) fn put_varint(out: &mut [u8], pos: usize, value: u64) -> usize {
    put_varint_of_len(out, pos, value, varint_len(value))
}

/// The same for a value whose [`varint_len`] is known to be `len`.
#[inline(always)]
pub(crate) fn put_varint_of_len(out: &mut [u8], pos: usize, value: u64, len: usize) -> usize {
    /// The continuation bit in each of eight bytes.
    const MORE: u64 = 0x8080_8080_8080_8080;

    if len <= 8 {
        // Spreads seven bits to every byte by halves, quarters and eighths, then writes all eight bytes in one store.
        let spread = (value & 0x0fff_ffff) | ((value & 0x00ff_ffff_f000_0000) << 4);
        let spread = (spread & 0x0000_3fff_0000_3fff) | ((spread & 0x0fff_c000_0fff_c000) << 2);
        let spread = (spread & 0x007f_007f_007f_007f) | ((spread & 0x3f80_3f80_3f80_3f80) << 1);
        let more = MORE & !(u64::MAX << (8 * (len - 1)));
        out[pos..pos + 8].copy_from_slice(&(spread | more).to_le_bytes());
    } else {
        fill_varint(&mut out[pos..pos + len], value);
    }
    pos + len
}

/// Writes `value` as a varint into exactly the bytes of `out`, without touching others.
pub(crate) fn fill_varint(out: &mut [u8], mut value: u64) {
    if let Some((last, others)) = out.split_last_mut() {
        for byte in others {
            *byte = value as u8 | 0x80;
            value >>= 7;
        }
        *last = value as u8;
    }
}

/// Writes a tag and a length at `pos` and returns the position after them. Requires [`MAX_VARINT_LEN`] bytes after the
/// tag.
#[inline(always)]
pub(crate) fn put_header(out: &mut [u8], pos: usize, tag: u8, len: usize) -> usize {
    out[pos] = tag;
    put_varint(out, pos + 1, len as u64)
}

/// Bytes of a length-delimited field with a tag of one byte and `len` bytes of content.
#[inline]
pub(crate) fn field_len(len: usize) -> usize {
    1 + varint_len(len as u64) + len
}

/// Copies `bytes` to `pos` and returns the position after them.
#[inline(always)]
pub(crate) fn put_bytes(out: &mut [u8], pos: usize, bytes: &[u8]) -> usize {
    let end = pos + bytes.len();
    out[pos..end].copy_from_slice(bytes);
    end
}

/// Bytes that one copy of a [`Template`] writes, whatever its length.
const TEMPLATE_WIDTH: usize = 48;

/// Everything before the value of a feature with one short value: tags, key, and four lengths of one byte each.
///
/// Copying a constant length compiles to a few wide stores, a variable length to a call. So a template is copied whole,
/// and the bytes past its length are overwritten by what follows.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    /// The template with the lengths of an empty value.
    bytes: [u8; TEMPLATE_WIDTH],
    /// A mask of the four length bytes to which the length of the value is added: entry, feature, list, value.
    lengths: [u8; TEMPLATE_WIDTH],
    /// A mask of the bytes that belong to the template.
    within: [u8; TEMPLATE_WIDTH],
    len: usize,
    longest: usize,
}

impl Template {
    /// Bytes required after the last value that follows a template.
    pub(crate) const WIDTH: usize = TEMPLATE_WIDTH;

    /// The template of feature `name`. `None` if the name is too long.
    pub(crate) fn new(name: &str, kind: FeatureKind) -> Option<Self> {
        let list_len = field_len(0);
        let feature_len = field_len(list_len);
        let entry_len = field_len(name.len()) + field_len(feature_len);
        let longest = 127usize.checked_sub(entry_len)?;
        let mut bytes = [0; TEMPLATE_WIDTH];
        if entry_len + 2 > bytes.len() - MAX_VARINT_LEN {
            return None;
        }
        let pos = put_header(&mut bytes, 0, FIELD_1, entry_len);
        let pos = put_header(&mut bytes, pos, FIELD_1, name.len());
        let pos = put_bytes(&mut bytes, pos, name.as_bytes());
        let pos = put_header(&mut bytes, pos, FIELD_2, feature_len);
        let pos = put_header(&mut bytes, pos, kind.tag(), list_len);
        let len = put_header(&mut bytes, pos, FIELD_1, 0);
        let mut lengths = [0; TEMPLATE_WIDTH];
        for at in [1, len - 5, len - 3, len - 1] {
            lengths[at] = u8::MAX;
        }
        let mut within = [0; TEMPLATE_WIDTH];
        within[..len].fill(u8::MAX);
        Some(Self { bytes, lengths, within, len, longest })
    }

    /// The maximum length of a value whose lengths all fit in one byte.
    #[inline(always)]
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// The number of bytes before the value.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The length of the value, if these bytes are what the template [writes](Self::put) before it.
    #[inline(always)]
    pub(crate) fn value_len(&self, found: &[u8; TEMPLATE_WIDTH]) -> Option<usize> {
        let value_len = found[self.len - 1];
        let mut differs = 0;
        let expected = self.bytes.iter().zip(&self.lengths).map(|(byte, length)| byte.wrapping_add(length & value_len));
        for ((found, expected), within) in found.iter().zip(expected).zip(&self.within) {
            differs |= (found ^ expected) & within;
        }
        (differs == 0 && usize::from(value_len) <= self.longest).then_some(usize::from(value_len))
    }

    /// Writes everything before a value of `value_len` bytes, at most [`longest`](Self::longest), and returns the
    /// position of the value.
    #[inline(always)]
    pub(crate) fn put(&self, out: &mut [u8], pos: usize, value_len: usize) -> usize {
        let value_len = value_len as u8;
        let mut bytes = self.bytes;
        for (byte, length) in bytes.iter_mut().zip(&self.lengths) {
            *byte = byte.wrapping_add(length & value_len);
        }
        out[pos..pos + TEMPLATE_WIDTH].copy_from_slice(&bytes);
        pos + self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_shortest() {
        let mut values: Vec<u64> = (0..64).flat_map(|shift| [1 << shift, (1 << shift) - 1, (1 << shift) + 1]).collect();
        values.extend([0, u64::MAX, i64::MIN as u64]);
        for value in values {
            let mut ours = [0; MAX_VARINT_LEN];
            let len = put_varint(&mut ours, 0, value);
            let mut theirs = Vec::new();
            prost::encoding::encode_varint(value, &mut theirs);
            assert_eq!(&ours[..len], theirs, "{value}");
            assert_eq!(varint_len(value), len, "{value}");
        }
    }

    #[test]
    fn template_matches_the_whole_feature_header() {
        let template = Template::new("a", FeatureKind::Int64).unwrap();
        let mut out = [0; Template::WIDTH];
        let end = template.put(&mut out, 0, 1);
        assert_eq!(&out[..end], b"\x0a\x0a\x0a\x01a\x12\x05\x1a\x03\x0a\x01");
        assert_eq!(template.longest() + 9, 127);
        assert_eq!((template.len(), template.value_len(&out)), (end, Some(1)));
        for at in 0..end {
            let mut other = out;
            other[at] ^= 4;
            assert_eq!(template.value_len(&other), None, "byte {at}");
        }
        assert!(Template::new(&"n".repeat(40), FeatureKind::Int64).is_none());
    }
}
