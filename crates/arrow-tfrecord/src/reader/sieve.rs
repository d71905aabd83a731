//! [`Sieve`]: quickly rejects map entries of features that were not requested.

use crate::wire::{FIELD_1, FIELD_2};

/// Bytes of an entry before the name: its tag and its length, if that is one byte.
const BEFORE_NAME: usize = 2;

/// A set of names with false positives but no false negatives: a bitmap of a hash of a name's first bytes, last bytes
/// and length.
#[derive(Debug, Default)]
pub(super) struct Sieve {
    bits: [u64; 1 << (HASH_BITS - 6)],
}

const HASH_BITS: u32 = 10;

impl Sieve {
    /// Adds the feature whose map entry starts with `prefix`: tag, length and bytes of the name, tag of the value.
    pub(super) fn insert(&mut self, prefix: &[u8]) {
        let mut entry = prefix.to_vec();
        entry.extend_from_slice(&[0; size_of::<u64>()]);
        if let Some((hash, _)) = hash(&entry, 0) {
            self.bits[hash >> 6] |= 1 << (hash & 63);
        }
    }

    /// The position of the length of the value of the entry at `pos`, if the entry starts in the usual encoding and its
    /// feature is not in the set. The entry may end before that position.
    #[inline]
    pub(super) fn unwanted_value(&self, bytes: &[u8], pos: usize) -> Option<usize> {
        let (hash, value) = hash(bytes, pos)?;
        let is_kept = self.bits[hash >> 6] >> (hash & 63) & 1 == 1;
        if is_kept { None } else { Some(value) }
    }
}

/// The hash of the name of the entry at `pos`, and the position after the tag of its value. `None` if the name has 128
/// bytes or more, or too few bytes follow.
#[inline]
fn hash(bytes: &[u8], pos: usize) -> Option<(usize, usize)> {
    /// Fibonacci hashing: 2^64 divided by the golden ratio.
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    /// Bytes of a name in the first word.
    const IN_WORD: usize = size_of::<u64>() - BEFORE_NAME;

    let word = |pos: usize| bytes.get(pos..)?.first_chunk().map(|word| u64::from_le_bytes(*word));
    let head = word(pos)?;
    let [tag, len, ..] = head.to_le_bytes();
    let name_len = usize::from(len);
    let value = pos + BEFORE_NAME + name_len;
    if tag != FIELD_1 || len >= 0x80 || *bytes.get(value)? != FIELD_2 {
        return None;
    }
    // The bytes after a short name are masked out; a long name fills the word.
    let mask = u64::MAX >> (8 * (IN_WORD - name_len.min(IN_WORD)));
    let tail = word(pos + name_len.max(IN_WORD) - IN_WORD)?;
    let mixed = (head & mask) ^ (tail & mask).rotate_left(29);
    Some(((mixed.wrapping_mul(MULTIPLIER) >> (64 - HASH_BITS)) as usize, value + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> Vec<u8> {
        [&[FIELD_1, name.len() as u8], name.as_bytes(), &[FIELD_2], &[0; 8]].concat()
    }

    #[test]
    fn sieve_never_skips_requested_features() {
        let mut sieve = Sieve::default();
        let kept: Vec<String> =
            (0..20).map(|len| "n".repeat(len)).chain((0..20).map(|n| format!("feature_{n}"))).collect();
        kept.iter().for_each(|name| sieve.insert(&entry(name)[..name.len() + 3]));
        assert!(kept.iter().all(|name| sieve.unwanted_value(&entry(name), 0).is_none()));
        let others = (20..1000).map(|n| format!("feature_{n}"));
        let unwanted = others.filter(|name| sieve.unwanted_value(&entry(name), 0) == Some(name.len() + 3)).count();
        assert!(unwanted > 900, "{unwanted}");
    }

    #[test]
    fn sieve_leaves_unusual_entries_to_the_full_parser() {
        let sieve = Sieve::default();
        for bytes in [&entry("a")[..7], &entry(&"n".repeat(128)), b"\x12\x01a\x0a\0\0\0\0\0\0\0\0", b""] {
            assert_eq!(sieve.unwanted_value(bytes, 0), None);
        }
        assert_eq!(sieve.unwanted_value(&entry("a"), 0), Some(4));
    }
}
