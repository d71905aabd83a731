//! The masked CRC-32C that guards a frame's length and its payload, and whether to check it: [`CrcPolicy`].

use std::{fmt, str::FromStr};

/// Added to the rotated checksum: `kMaskDelta` of TensorFlow's `tsl/lib/hash/crc32c.h`.
const MASK_DELTA: u32 = 0xa282_ead8;

/// The masked CRC-32C (Castagnoli) of `bytes`, as a frame stores it.
#[inline]
pub fn masked_crc32c(bytes: &[u8]) -> u32 {
    mask_crc(crc32c::crc32c(bytes))
}

/// Masks a CRC-32C.
///
/// A checksum stored next to the bytes it covers is masked, because the CRC of a string that holds its own CRC
/// carries little information.
#[inline]
pub const fn mask_crc(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// The CRC-32C behind a masked one; the inverse of [`mask_crc`].
#[inline]
pub const fn unmask_crc(masked: u32) -> u32 {
    masked.wrapping_sub(MASK_DELTA).rotate_left(15)
}

/// Whether a reader checks checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CrcPolicy {
    /// Both checksums of every record are checked.
    #[default]
    Verify,
    /// None is, for files of writers that leave them out. What is damaged is then found only where a length leads past
    /// the end of the file or is longer than allowed, and 16 zero bytes are an empty record.
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

    /// Reads `verify` or `skip` in any case.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name.to_ascii_lowercase().as_str() {
            "verify" => Ok(Self::Verify),
            "skip" => Ok(Self::Skip),
            _ => Err(UnknownCrcPolicy(name.into())),
        }
    }
}

/// A name that is no [`CrcPolicy`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown checksum policy {0:?}, expected verify or skip")]
pub struct UnknownCrcPolicy(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_as_they_are_printed() {
        for policy in [CrcPolicy::Verify, CrcPolicy::Skip] {
            assert_eq!(policy.to_string().parse(), Ok(policy));
            assert_eq!(policy.to_string().to_uppercase().parse(), Ok(policy));
        }
        let error = CrcPolicy::from_str("never").unwrap_err();
        assert_eq!(error.to_string(), "unknown checksum policy \"never\", expected verify or skip");
    }

    /// Vectors of RFC 3720 (iSCSI), appendix B.4.
    #[test]
    fn crc_is_castagnoli() {
        let ascending: Vec<u8> = (0..32).collect();
        for (bytes, crc) in [(&[0; 32][..], 0x8a91_36aa), (&[0xff; 32][..], 0x62a8_ab43), (&ascending, 0x46dd_794e)] {
            assert_eq!(unmask_crc(masked_crc32c(bytes)), crc);
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
