//! [`Checksums`]: the length and the contents of a temporary file, as they were written.

use tfrecord_framing::crc32c_append;

/// Bytes of a block. A file is read back a block at a time.
pub const BLOCK: u64 = 128 << 10;

/// The length of a file and the CRC-32C of each of its blocks, which are computed while the file is written.
///
/// They stay in memory, 4 bytes for a block. So a file that has lost its end, or all of its contents, is recognized too.
#[derive(Debug, Default)]
pub struct Checksums {
    len: u64,
    /// The blocks that are complete.
    blocks: Vec<u32>,
    /// The checksum of the bytes after the last complete block.
    rest: u32,
}

impl Checksums {
    /// Adds bytes at the end of the file.
    pub fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = BLOCK - self.len % BLOCK;
            let (part, later) = bytes.split_at(bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX)));
            self.rest = crc32c_append(self.rest, part);
            self.len += part.len() as u64;
            if self.len.is_multiple_of(BLOCK) {
                self.blocks.push(self.rest);
                self.rest = 0;
            }
            bytes = later;
        }
    }

    /// Returns the length of the file in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns the end of the block that contains byte `at`, and the checksum of that block up to there. The last block
    /// ends with the file. `None` if the file ends before `at`.
    pub fn block(&self, at: u64) -> Option<(u64, u32)> {
        let number = at / BLOCK;
        match usize::try_from(number).ok().and_then(|number| self.blocks.get(number)) {
            Some(checksum) => Some(((number + 1) * BLOCK, *checksum)),
            None => (at < self.len).then_some((self.len, self.rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use tfrecord_framing::crc32c;

    use super::*;

    #[test]
    fn blocks_do_not_depend_on_the_pieces_that_are_written() {
        let bytes: Vec<u8> = (0..300_000_u32).map(|byte| (byte * 7 % 251) as u8).collect();
        for piece in [1, 999, 131_072, 200_000, 300_000] {
            let mut checksums = Checksums::default();
            bytes.chunks(piece).for_each(|piece| checksums.append(piece));
            assert_eq!(checksums.len(), 300_000);
            assert_eq!(checksums.block(0), Some((131_072, crc32c(&bytes[..131_072]))), "{piece}");
            assert_eq!(checksums.block(131_072), Some((262_144, crc32c(&bytes[131_072..262_144]))), "{piece}");
            assert_eq!(checksums.block(299_999), Some((300_000, crc32c(&bytes[262_144..]))), "{piece}");
            assert_eq!(checksums.block(300_000), None);
        }
    }
}
