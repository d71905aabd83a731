//! CRC-32C: plain, masked as stored in a frame, and [`CrcPolicy`], which decides whether readers check it.

#[cfg(target_arch = "x86_64")]
mod lanes;

use std::{fmt, str::FromStr};

use crc_fast::{CrcAlgorithm::Crc32Iscsi, Digest, crc32_iscsi};

/// Added to the rotated checksum: `kMaskDelta` of TensorFlow's `tsl/lib/hash/crc32c.h`.
const MASK_DELTA: u32 = 0xa282_ead8;

/// Computes the CRC-32C (Castagnoli) of `bytes`; catalogues list it as CRC-32/ISCSI.
///
/// ```
/// use tfrecord_framing::{crc32c, crc32c_append};
///
/// assert_eq!(crc32c(b"123456789"), 0xe306_9283);
/// assert_eq!(crc32c_append(crc32c(b"1234"), b"56789"), 0xe306_9283);
/// ```
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    let crc = lanes::crc32c(bytes);
    #[cfg(not(target_arch = "x86_64"))]
    let crc = crc32_iscsi(bytes);
    crc
}

/// Continues the CRC-32C `crc` of preceding bytes with `bytes`; 0 is the CRC of no bytes.
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(Crc32Iscsi, u64::from(!crc));
    digest.update(bytes);
    digest.finalize() as u32
}

/// Computes the masked CRC-32C of `bytes`, as a frame stores it.
#[inline]
pub fn masked_crc32c(bytes: &[u8]) -> u32 {
    mask_crc(crc32c(bytes))
}

/// Computes the masked CRC-32C of a frame's length, which is stored as eight bytes, little-endian.
#[inline]
pub(crate) fn masked_crc32c_of_len(len: u64) -> u32 {
    let [b0, b1, rest @ ..] = len.to_le_bytes();
    if rest == [0; 6] {
        mask_crc(SHORT_LENGTHS[0][usize::from(b0)] ^ SHORT_LENGTHS[1][usize::from(b1)])
    } else {
        mask_crc(crc32_iscsi(&len.to_le_bytes()))
    }
}

/// Contributions of the two low bytes of a length below 64 KiB to its CRC.
static SHORT_LENGTHS: [[u32; 256]; 2] = {
    let mut table = [[0; 256]; 2];
    let mut byte = 0;
    while byte < 256 {
        // Seven or six bytes follow the byte. The first half includes the effect of the initial value over all eight.
        table[0][byte] = !behind_bits(behind_bits(byte as u32 ^ u32::MAX, 32), 32);
        table[1][byte] = behind_bits(byte as u32, 56);
        byte += 1;
    }
    table
};

/// The polynomial, bits reversed: RFC 3720, section 12.1.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Advances a CRC state over this many zero bits.
const fn behind_bits(mut state: u32, bits: usize) -> u32 {
    let mut bit = 0;
    while bit < bits {
        state = (state >> 1) ^ if state & 1 == 1 { POLYNOMIAL } else { 0 };
        bit += 1;
    }
    state
}

/// Masks a CRC-32C.
///
/// Checksums stored next to the bytes they cover are masked, because the CRC of a string that contains its own CRC
/// carries little information.
#[inline]
pub const fn mask_crc(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// Unmasks a masked CRC-32C; the inverse of [`mask_crc`].
#[inline]
pub const fn unmask_crc(masked: u32) -> u32 {
    masked.wrapping_sub(MASK_DELTA).rotate_left(15)
}

/// Whether a reader checks checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CrcPolicy {
    /// Check both checksums of every record.
    #[default]
    Verify,
    /// Check no checksum, for files whose writer omits them. Damage is then found only where a length exceeds the
    /// limit or extends past the end of the file. 16 zero bytes are an empty record.
    Skip,
}

impl fmt::Display for CrcPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Verify => "verify",
            Self::Skip => "skip",
        })
    }
}

impl FromStr for CrcPolicy {
    type Err = UnknownCrcPolicy;

    /// Parses `verify` or `skip`, ignoring case.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name.to_ascii_lowercase().as_str() {
            "verify" => Ok(Self::Verify),
            "skip" => Ok(Self::Skip),
            _ => Err(UnknownCrcPolicy(name.into())),
        }
    }
}

/// A name that is not a valid [`CrcPolicy`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown checksum policy {0:?}, expected verify or skip")]
pub struct UnknownCrcPolicy(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_policy_parses_what_it_prints() {
        for policy in [CrcPolicy::Verify, CrcPolicy::Skip] {
            assert_eq!(policy.to_string().parse(), Ok(policy));
            assert_eq!(policy.to_string().to_uppercase().parse(), Ok(policy));
        }
        let error = CrcPolicy::from_str("never").unwrap_err();
        assert_eq!(error.to_string(), "unknown checksum policy \"never\", expected verify or skip");
    }

    /// Test vectors of RFC 3720 (iSCSI), appendix B.4.
    #[test]
    fn crc_is_castagnoli() {
        let ascending: Vec<u8> = (0..32).collect();
        for (bytes, crc) in [(&[0; 32][..], 0x8a91_36aa), (&[0xff; 32][..], 0x62a8_ab43), (&ascending, 0x46dd_794e)] {
            assert_eq!(unmask_crc(masked_crc32c(bytes)), crc);
        }
    }

    #[test]
    fn lengths_have_the_crc_of_their_bytes() {
        let long = (16..64).flat_map(|shift| [1 << shift, (1 << shift) - 1, 0xdead_beef_cafe_f00d >> (64 - shift)]);
        for len in (0..1 << 16).chain(long) {
            assert_eq!(masked_crc32c_of_len(len), mask_crc(crc32c::crc32c(&u64::to_le_bytes(len))), "{len}");
        }
    }

    /// Compares with another library at every length that is summed in lanes and many that are not, with many start
    /// and end offsets.
    #[test]
    fn runs_have_the_crc_that_another_library_gives() {
        let bytes: Vec<u8> = (0..1 << 16).map(|at: u32| (at.wrapping_mul(0x9e37_79b1) >> 13) as u8).collect();
        for start in [0, 1, 7] {
            for len in (0..2000).chain((2000..bytes.len() - 7).step_by(499)) {
                let run = &bytes[start..start + len];
                let expected = crc32c::crc32c(run);
                assert_eq!(crc32c(run), expected, "{len} bytes from {start}");
                let (first, rest) = run.split_at(len / 3);
                assert_eq!(crc32c_append(crc32c(first), rest), expected, "{len} bytes from {start} in two parts");
            }
        }
    }

    #[test]
    fn mask_rotates_and_adds() {
        assert_eq!(mask_crc(0), 0xa282_ead8);
        assert_eq!(mask_crc(1), 0x0002_0000 + 0xa282_ead8);
        for crc in [0, 1, 0x8000_0000, 0xdead_beef, u32::MAX] {
            assert_eq!(unmask_crc(mask_crc(crc)), crc);
        }
    }
}
