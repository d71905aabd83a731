//! Hashes of values, the same in every run and on every machine.

use xxhash_rust::xxh3::xxh3_64;

/// The finalizer of MurmurHash3: a permutation of all words, so that different numbers have different hashes.
/// Source: `fmix64` in <https://github.com/aappleby/smhasher/blob/master/src/MurmurHash3.cpp>.
#[inline]
pub(super) fn word(word: u64) -> u64 {
    let mut mixed = word.wrapping_add(GOLDEN_RATIO);
    mixed ^= mixed >> 33;
    mixed = mixed.wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^= mixed >> 33;
    mixed = mixed.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ mixed >> 33
}

/// 2^64 divided by the golden ratio: the permutation keeps zero where it is.
pub(super) const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// Values of so many bytes have a hash that takes no branch. A view holds as many.
/// Source: <https://arrow.apache.org/docs/format/Columnar.html#variable-size-binary-view-layout>
const SHORT: usize = 12;

/// Of short values by their bytes and their length, of all others XXH3.
#[inline]
pub(super) fn bytes(bytes: &[u8]) -> u64 {
    let len = bytes.len();
    let number =
        |place: usize| bytes.get(place..place + 4).and_then(|four| four.try_into().ok()).map(u32::from_le_bytes);
    let four = |place: usize| u128::from(number(place).unwrap_or_default());
    let padded = match len {
        // What overlaps is the same bytes at the same place.
        8..=SHORT => four(0) | four(4) << 32 | four(len - 4) << (8 * (len - 4)),
        4..8 => four(0) | four(len - 4) << (8 * (len - 4)),
        0..4 => bytes.iter().rev().fold(0, |word, byte| word << 8 | u128::from(*byte)),
        _ => return xxh3_64(bytes),
    };
    short(padded | (len as u128) << 96)
}

/// The hash of the value of a view, if the view holds it: the hash of the same [`bytes`].
#[inline]
pub(super) fn view(view: u128) -> Option<u64> {
    (view as u32 as usize <= SHORT).then(|| short(view.rotate_right(32)))
}

/// The bytes, padded with zeros, and their number behind them.
///
/// A product of which both halves are used, as wyhash has it, and then as a [`word`].
/// Source: `_wymix` in <https://github.com/wangyi-fudan/wyhash/blob/master/wyhash.h>.
#[inline]
fn short(padded: u128) -> u64 {
    let (low, high) = (padded as u64 ^ 0x2d35_8dcc_aa6c_78a5, (padded >> 64) as u64 ^ 0x8bb8_4b93_962e_acc9);
    let product = u128::from(low) * u128::from(high);
    word(product as u64 ^ (product >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use arrow_array::StringViewArray;

    use super::*;

    /// Of all lengths that are short, and some that are not.
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
