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
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// XXH3.
#[inline]
pub(super) fn bytes(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}
