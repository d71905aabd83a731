//! Hashes of values, identical in every run and on every machine.

use xxhash_rust::xxh3::xxh3_64;

/// The finalizer of MurmurHash3: a permutation of all words, so that different numbers have different hashes.
/// Source: `fmix64` in <https://github.com/aappleby/smhasher/blob/master/src/MurmurHash3.cpp>.
#[inline(always)]
pub(super) fn word(word: u64) -> u64 {
    let mut mixed = word.wrapping_add(GOLDEN_RATIO);
    mixed ^= mixed >> 33;
    mixed = mixed.wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^= mixed >> 33;
    mixed = mixed.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ mixed >> 33
}

/// 2^64 divided by the golden ratio. Used because the permutation maps zero to itself.
pub(super) const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// The maximum length of values with a branchless hash: the length of a view's inline value. Source:
/// <https://arrow.apache.org/docs/format/Columnar.html#variable-size-binary-view-layout>
const SHORT: usize = 12;

/// The maximum length of values with the second branchless hash: three times 16 bytes, which may overlap.
const MEDIUM: usize = 48;

/// The hash of a value: computed from bytes and length for short and medium values, XXH3 for longer ones.
#[inline(always)]
pub(super) fn bytes(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    let number =
        |place: usize| bytes.get(place..place + 4).and_then(|four| four.try_into().ok()).map(u32::from_le_bytes);
    let four = |place: usize| u128::from(number(place).unwrap_or_default());
    let padded = match len {
        // Overlapping parts have the same bytes at the same position.
        8..=SHORT => four(0) | four(4) << 32 | four(len - 4) << (8 * (len - 4)),
        4..8 => four(0) | four(len - 4) << (8 * (len - 4)),
        0..4 => bytes.iter().rev().fold(0, |word, byte| word << 8 | u128::from(*byte)),
        16..=MEDIUM => return medium(bytes),
        13..16 => {
            // Two overlapping words of eight bytes.
            let eight = |place: usize| bytes.get(place..place + 8).and_then(|eight| eight.try_into().ok());
            let part = |place: usize| u128::from(eight(place).map(u64::from_le_bytes).unwrap_or_default());
            return word(product(part(0) | part(len - 8) << 64) ^ len as u64);
        }
        _ => return xxh3_64(bytes),
    };
    short(padded | (len as u128) << 96)
}

/// The hash of the value of a view, if stored inline. Equal to that of the same [`bytes`].
#[inline(always)]
pub(super) fn view(view: u128) -> Option<u64> {
    (view as u32 as usize <= SHORT).then(|| short(view.rotate_right(32)))
}

/// The sum of three products, as in XXH3 for such lengths, but always of three.
#[inline(always)]
fn medium(bytes: &[u8]) -> u64 {
    let sixteen = |place: usize| bytes.get(place..place + 16).and_then(|bytes| bytes.try_into().ok());
    let part = |place: usize| sixteen(place).map(u128::from_le_bytes).unwrap_or_default();
    let last = bytes.len() - 16;
    let sum = product_with(part(0), SECRETS[0]).wrapping_add(product_with(part(last.min(16)), SECRETS[1]));
    word(sum.wrapping_add(product_with(part(last), SECRETS[2])) ^ bytes.len() as u64)
}

/// Folds the 128-bit product of the two halves, which rarely collides.
#[inline(always)]
pub(super) fn product(number: u128) -> u64 {
    product_with(number, SECRETS[0])
}

/// Source: `_wymix` in <https://github.com/wangyi-fudan/wyhash/blob/master/wyhash.h>.
#[inline(always)]
fn product_with(number: u128, [low_secret, high_secret]: [u64; 2]) -> u64 {
    let (low, high) = (number as u64 ^ low_secret, (number >> 64) as u64 ^ high_secret);
    let product = u128::from(low) * u128::from(high);
    product as u64 ^ (product >> 64) as u64
}

/// Odd numbers with half of their bits set: those of wyhash, then those of its first versions.
const SECRETS: [[u64; 2]; 3] = [
    [0x2d35_8dcc_aa6c_78a5, 0x8bb8_4b93_962e_acc9],
    [0x4b33_a62e_d433_d4a3, 0x4d5a_2da5_1de1_aa47],
    [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db],
];

/// The bytes, padded with zeros, followed by their number.
#[inline(always)]
fn short(padded: u128) -> u64 {
    word(product(padded))
}

#[cfg(test)]
mod tests {
    use arrow_array::StringViewArray;

    use super::*;

    /// Any single differing bit changes the hash.
    #[test]
    fn hash_changes_with_every_bit() {
        for len in 1..=64 {
            let bytes: Vec<u8> = (0..len).collect();
            let mut hashes = std::collections::BTreeSet::from([super::bytes(&bytes)]);
            for bit in 0..usize::from(len) * 8 {
                let mut other = bytes.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                assert!(hashes.insert(super::bytes(&other)), "bit {bit} of {len} bytes");
            }
        }
    }

    /// For all short lengths, and some longer ones.
    #[test]
    fn views_hash_as_their_bytes() {
        let text = "0123456789abcdef\u{0}\u{0}";
        let words: Vec<&str> = (0..=text.len()).flat_map(|end| (0..=end).map(move |start| &text[start..end])).collect();
        let views = StringViewArray::from_iter_values(&words);
        for (word, of_view) in words.iter().zip(views.views()) {
            assert_eq!(view(*of_view), (word.len() <= 12).then(|| bytes(word.as_bytes())), "{word}");
        }
        let distinct = |words: &mut dyn Iterator<Item = u64>| words.collect::<std::collections::BTreeSet<_>>().len();
        let hashes = distinct(&mut words.iter().map(|word| bytes(word.as_bytes())));
        assert_eq!(hashes, words.iter().collect::<std::collections::BTreeSet<_>>().len());
    }
}
