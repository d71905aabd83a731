//! CRC-32C of records: byte runs too short for the vector code of the `crc-fast` crate, and mostly at unaligned
//! addresses, which that crate handles slowly.
//!
//! The processor's instruction accepts a word per cycle and has a latency of three cycles. So three checksums are
//! computed in parallel, each of a third of the words, and combined by a carry-less multiplication. Source: Gopal,
//! Ozturk, Guilford, Wolrich, Feghali, Dixon, Karakoyunlu: "Fast CRC Computation for iSCSI Polynomial Using CRC32
//! Instruction" (Intel, 2011).

use crc_fast::crc32_iscsi;

use super::behind_bits;

/// Number of words in the longest lane.
const LONGEST_LANE: usize = 18;

/// Bytes in one word.
const WORD: usize = 8;

/// Byte runs below this length are summed in lanes. From here on `crc-fast` is faster at any address, with AVX-512.
const LONGEST: usize = 3 * LONGEST_LANE * WORD;

/// For each number of words, the factor that advances a state over that many words of zeros.
///
/// The product of two reversed 32-bit polynomials is shifted by one bit, and reducing it by the instruction multiplies
/// by x^32. So the exponent omits 33 of the bits: x^(64 n - 33).
static BEHIND_WORDS: [u32; 2 * LONGEST_LANE + 1] = {
    /// The polynomial 1.
    const ONE: u32 = 1 << 31;
    let mut factors = [0; 2 * LONGEST_LANE + 1];
    let mut factor = behind_bits(ONE, 64 - 33);
    let mut words = 1;
    while words < factors.len() {
        factors[words] = factor;
        factor = behind_bits(factor, 64);
        words += 1;
    }
    factors
};

/// Computes the CRC-32C of `bytes`.
#[inline]
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    if (2 * WORD..LONGEST).contains(&bytes.len()) { short(bytes) } else { crc32_iscsi(bytes) }
}

#[multiversion::multiversion(targets("x86_64+sse4.2+pclmulqdq"))]
fn short(bytes: &[u8]) -> u32 {
    multiversion::target::match_target! {
        "x86_64+sse4.2+pclmulqdq" => {
            use std::arch::x86_64::{
                _mm_clmulepi64_si128, _mm_crc32_u64, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_xor_si128,
            };

            let Some(start) = bytes.first_chunk::<{ 2 * WORD }>() else { return crc32_iscsi(bytes) };
            // Leading zeros do not change a checksum whose initial state is zero, but they would with the first bits
            // inverted. So the bytes that do not fill a word come first, at the end of one, and whole words follow.
            let odd = bytes.len() % WORD;
            let start = u128::from_le_bytes(*start) ^ u128::from(u32::MAX);
            let odd_word = (start << (8 * (WORD - odd))) as u64;
            let first_word = (start >> (8 * odd)) as u64;
            let mut sum = _mm_crc32_u64(_mm_crc32_u64(0, odd_word), first_word);

            let (words, _) = bytes[odd + WORD..].as_chunks::<WORD>();
            let lane = words.len() / 3;
            let (first, rest) = words.split_at(lane);
            let (second, rest) = rest.split_at(lane);
            let (third, rest) = rest.split_at(lane);
            if lane > 0 {
                let (mut second_sum, mut third_sum) = (0, 0);
                for ((first, second), third) in first.iter().zip(second).zip(third) {
                    sum = _mm_crc32_u64(sum, u64::from_le_bytes(*first));
                    second_sum = _mm_crc32_u64(second_sum, u64::from_le_bytes(*second));
                    third_sum = _mm_crc32_u64(third_sum, u64::from_le_bytes(*third));
                }
                let behind = |sum: u64, words: usize| {
                    let factor = _mm_cvtsi64_si128(i64::from(BEHIND_WORDS[words]));
                    _mm_clmulepi64_si128::<0>(_mm_cvtsi64_si128(sum as i64), factor)
                };
                let both = _mm_xor_si128(behind(sum, 2 * lane), behind(second_sum, lane));
                sum = _mm_crc32_u64(0, _mm_cvtsi128_si64(both) as u64) ^ third_sum;
            }
            for word in rest {
                sum = _mm_crc32_u64(sum, u64::from_le_bytes(*word));
            }
            !(sum as u32)
        }
        _ => { crc32_iscsi(bytes) }
    }
}
