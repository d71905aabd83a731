//! The masked CRC-32C that guards a frame's length and its payload.

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

#[cfg(test)]
mod tests {
    use super::*;

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
