//! Timestamps before 1970 as written by Arrow's C++ library, and so by pyarrow and pandas: with negative fractions.
//!
//! A timestamp consists of seconds and nanoseconds, which are unsigned in the ORC specification. Java's writers round
//! seconds towards zero and store a positive fraction (ORC-763). The C++ writer stores the signed remainder: -1 for the
//! nanosecond before 1970. Both readers restore the sign. The library used here does not: its result is wrong by 73
//! years, or overflows. So such columns are rewritten to other numbers, from which it decodes the same instants.

use super::lengths::Lengths;

const NANOS: i128 = 1_000_000_000;

/// 2015-01-01, from which seconds are counted.
const EPOCH: i128 = 1_420_070_400;

/// Maximum number of timestamps rewritten in one stripe; each takes 16 bytes.
const MAX_VALUES: usize = 1 << 26;

/// The uncompressed streams of a timestamp column, in run lengths of version 2.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Rewritten {
    pub(super) seconds: Vec<u8>,
    pub(super) nanos: Vec<u8>,
}

/// Whether the stream of nanoseconds contains a negative fraction.
///
/// # Errors
/// A fraction is a second or more.
pub(super) fn has_negative(nanos: Lengths<impl std::io::Read>) -> Result<bool, String> {
    let mut found = false;
    for stored in nanos {
        found |= fraction(stored)? < 0;
    }
    Ok(found)
}

/// Rewrites the timestamps as the same instants without negative fractions.
///
/// # Errors
/// A value is invalid, or there are too many.
pub(super) fn rewritten(
    seconds: Lengths<impl std::io::Read>,
    nanos: Lengths<impl std::io::Read>,
) -> Result<Rewritten, String> {
    let mut values = (Vec::new(), Vec::new());
    for (seconds, stored) in seconds.zip(nanos) {
        if values.0.len() == MAX_VALUES {
            return Err(format!("more than {MAX_VALUES} timestamps, some before 1970 with a fraction below zero"));
        }
        let (seconds, nanos) = pair(seconds as i64, fraction(stored)?);
        let seconds = i64::try_from(seconds).map_err(|_| format!("a timestamp of {seconds} seconds"))?;
        values.0.push((seconds << 1 ^ seconds >> 63) as u64);
        values.1.push((nanos as u64) << 3);
    }
    Ok(Rewritten { seconds: direct(&values.0), nanos: direct(&values.1) })
}

/// Decodes stored nanoseconds: the last three bits are the number of zeros to append, minus one.
fn fraction(stored: u64) -> Result<i128, String> {
    let (value, zeros) = (i128::from(stored as i64 >> 3), (stored & 7) as u32);
    let nanos = value * if zeros == 0 { 1 } else { 10_i128.pow(zeros + 1) };
    match nanos.abs() < NANOS {
        true => Ok(nanos),
        false => Err(format!("a timestamp with a fraction of {nanos} nanoseconds")),
    }
}

/// Returns the seconds since 2015 and non-negative nanoseconds from which the library decodes this instant.
fn pair(seconds: i64, nanos: i128) -> (i128, i128) {
    let seconds = i128::from(seconds) + EPOCH;
    // By the rule of ORC-763.
    let was_rounded = seconds < 0 && nanos > 999_999;
    let instant = (seconds - i128::from(was_rounded)) * NANOS + nanos;
    let floor = instant.div_euclid(NANOS);
    // For negative instants the library subtracts a second if the fraction exceeds a millisecond. So all of these get
    // one more.
    let nanos = instant - (floor - i128::from(instant < 0)) * NANOS;
    (floor - EPOCH, nanos)
}

/// Encodes 64-bit integers in runs of 512.
fn direct(values: &[u64]) -> Vec<u8> {
    const DIRECT_64: u8 = 0b0111_1110;
    let mut bytes = Vec::with_capacity(values.len() * 8 + values.len().div_ceil(512) * 2);
    for run in values.chunks(512) {
        let last = run.len() - 1;
        bytes.extend([DIRECT_64 | (last >> 8) as u8, last as u8]);
        bytes.extend(run.iter().flat_map(|value| value.to_be_bytes()));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what the library decodes from seconds since 2015 and stored nanoseconds.
    fn decoded(seconds: i64, stored: u64) -> i128 {
        let seconds = i128::from(seconds) + EPOCH;
        let nanos = i128::from(stored >> 3);
        (seconds - i128::from(seconds < 0 && nanos > 999_999)) * NANOS + nanos
    }

    #[test]
    fn orc_nanoseconds_decode_every_instant() {
        let mut stored = (Vec::new(), Vec::new());
        let mut expected = Vec::new();
        // As written in C++: both numbers rounded towards zero.
        for seconds in [0_i64, 1, 2, 86_400, 2_208_988_800, 62_135_596_800] {
            for nanos in [0_i64, 1, 5, 999_999, 1_000_000, 1_000_001, 123_456_789, 999_000_000, 999_999_999] {
                expected.push(-(i128::from(seconds) * NANOS + i128::from(nanos)));
                let (seconds, nanos) = (-seconds - EPOCH as i64, -nanos);
                stored.0.push((seconds << 1 ^ seconds >> 63) as u64);
                stored.1.push((nanos << 3) as u64);
            }
        }
        // As written in Java, without trailing zeros.
        expected.extend([-500_000_000, 1_500_000_000, -1_500_000_000]);
        for (seconds, nanos) in
            [(0 - EPOCH as i64, -5_i64 << 3 | 7), (1 - EPOCH as i64, 5 << 3 | 7), (-1 - EPOCH as i64, 5 << 3 | 7)]
        {
            stored.0.push((seconds << 1 ^ seconds >> 63) as u64);
            stored.1.push(nanos as u64);
        }
        let (seconds, nanos) = (direct(&stored.0), direct(&stored.1));
        assert!(has_negative(Lengths::new(nanos.as_slice(), true)).unwrap());
        let rewritten =
            rewritten(Lengths::signed(seconds.as_slice(), true), Lengths::new(nanos.as_slice(), true)).unwrap();
        let seconds = Lengths::signed(rewritten.seconds.as_slice(), true).map(|seconds| seconds as i64);
        let found: Vec<_> = seconds
            .zip(Lengths::new(rewritten.nanos.as_slice(), true))
            .map(|(seconds, stored)| decoded(seconds, stored))
            .collect();
        assert_eq!(found, expected);
        assert!(!has_negative(Lengths::new(rewritten.nanos.as_slice(), true)).is_ok_and(|found| found));
    }

    #[test]
    fn orc_nanoseconds_reject_a_second_or_more() {
        for stored in [1_000_000_000 << 3, -1_000_000_000_i64 << 3, 10 << 3 | 7] {
            assert!(fraction(stored as u64).is_err());
        }
    }
}
