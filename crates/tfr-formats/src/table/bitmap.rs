//! Reads the positions in a serialized deletion vector of Delta or Iceberg: a list of Roaring bitmaps.
//!
//! See [the format of 32-bit bitmaps](https://github.com/RoaringBitmap/RoaringFormatSpec). Lengths are never trusted:
//! what is read is at most what the bytes contain.

use tfr_files::DeletedRows;

/// Starts a list of bitmaps in the portable format.
const MAGIC: u32 = 1_681_511_377;

/// The first bytes of a bitmap with and without containers of runs.
const WITHOUT_RUNS: u32 = 12_346;
const WITH_RUNS: u16 = 12_347;

/// From this number of containers on, a bitmap with runs has offsets.
const OFFSETS_FROM: usize = 4;

/// The most values of a container that is a sorted array.
const ARRAY: usize = 4096;

/// The bytes of a container that is a bitmap of 65,536 bits.
const BITS: usize = 8192;

/// Reads the positions of deleted rows. The error is a description of the defect.
pub(crate) fn deleted_rows(bytes: &[u8]) -> Result<DeletedRows, String> {
    let mut reader = LittleEndianReader(bytes);
    match reader.u32()? {
        MAGIC => {}
        magic => return Err(format!("it begins with {magic}, not with {MAGIC}")),
    }
    let mut rows = DeletedRows::default();
    for _ in 0..reader.u64()? {
        let high = u64::from(reader.u32()?) << 32;
        if high > u64::MAX >> 1 {
            return Err(format!("a position of {high} or more"));
        }
        bitmap(&mut reader, high, &mut rows)?;
    }
    match reader.0.len() {
        0 => Ok(rows),
        rest => Err(format!("{rest} bytes follow its end")),
    }
}

fn bitmap(reader: &mut LittleEndianReader<'_>, high: u64, rows: &mut DeletedRows) -> Result<(), String> {
    let cookie = reader.u32()?;
    let (count, runs) = match cookie {
        WITHOUT_RUNS => (reader.u32()? as usize, None),
        cookie if cookie as u16 == WITH_RUNS => {
            let count = (cookie >> 16) as usize + 1;
            (count, Some(reader.take(count.div_ceil(8))?))
        }
        cookie => return Err(format!("a bitmap begins with {cookie}")),
    };
    if count > 1 << 16 {
        return Err(format!("a bitmap of {count} containers"));
    }
    let mut headers = LittleEndianReader(reader.take(count * 4)?);
    if runs.is_none() || count >= OFFSETS_FROM {
        reader.take(count * 4)?;
    }
    let has_runs = |index: usize| runs.is_some_and(|runs| runs[index / 8] >> (index % 8) & 1 == 1);
    for index in 0..count {
        let base = high | u64::from(headers.u16()?) << 16;
        let cardinality = usize::from(headers.u16()?) + 1;
        let before = rows.count();
        let mut push = |first: u64, last: u64| match rows.push(base | first..(base | last) + 1) {
            true => Ok(()),
            false => Err(format!("position {} is out of order", base | first)),
        };
        if has_runs(index) {
            for _ in 0..reader.u16()? {
                let (start, length) = (u64::from(reader.u16()?), u64::from(reader.u16()?));
                if start + length > u64::from(u16::MAX) {
                    return Err(format!("a run of {} positions from {start} on", length + 1));
                }
                push(start, start + length)?;
            }
        } else if cardinality <= ARRAY {
            for _ in 0..cardinality {
                let value = u64::from(reader.u16()?);
                push(value, value)?;
            }
        } else {
            for (byte, bits) in reader.take(BITS)?.iter().enumerate() {
                let values = (0..8).filter(|bit| bits >> bit & 1 == 1).map(|bit| (byte * 8 + bit) as u64);
                values.into_iter().try_for_each(|value| push(value, value))?;
            }
        }
        let found = rows.count() - before;
        if found != cardinality as u64 {
            return Err(format!("a container has {found} positions, but records {cardinality}"));
        }
    }
    Ok(())
}

/// Reads numbers with the least significant byte first.
struct LittleEndianReader<'a>(&'a [u8]);

impl<'a> LittleEndianReader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or("it is cut off")?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (taken, rest) = self.0.split_first_chunk().ok_or("it is cut off")?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u16(&mut self) -> Result<u16, String> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_le_bytes)
    }
}

/// The digits of Z85.
const DIGITS: &[u8; 85] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/// Decodes [Z85](https://rfc.zeromq.org/spec/32/): five digits are four bytes.
pub(crate) fn decode_z85(text: &str) -> Option<Vec<u8>> {
    let (groups, []) = text.as_bytes().as_chunks::<5>() else { return None };
    let mut bytes = Vec::with_capacity(groups.len() * 4);
    for group in groups {
        let mut value = 0_u32;
        for digit in group {
            let digit = DIGITS.iter().position(|known| known == digit)?;
            value = value.checked_mul(85)?.checked_add(u32::try_from(digit).ok()?)?;
        }
        bytes.extend(value.to_be_bytes());
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of one bitmap with these containers: high bits, cardinality - 1, whether it has runs, and contents.
    fn list(containers: &[(u16, u16, bool, Vec<u8>)]) -> Vec<u8> {
        let count = containers.len();
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.extend(1_u64.to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
        let has_runs = containers.iter().any(|(_, _, has_runs, _)| *has_runs);
        match has_runs {
            true => {
                bytes.extend((u32::from(WITH_RUNS) | ((count - 1) as u32) << 16).to_le_bytes());
                let mut flags = vec![0_u8; count.div_ceil(8)];
                for (index, (_, _, has_runs, _)) in containers.iter().enumerate() {
                    flags[index / 8] |= u8::from(*has_runs) << (index % 8);
                }
                bytes.extend(flags);
            }
            false => {
                bytes.extend(WITHOUT_RUNS.to_le_bytes());
                bytes.extend((count as u32).to_le_bytes());
            }
        }
        for (high, cardinality, _, _) in containers {
            bytes.extend(high.to_le_bytes());
            bytes.extend(cardinality.to_le_bytes());
        }
        if !has_runs || count >= OFFSETS_FROM {
            bytes.extend(vec![0; count * 4]);
        }
        containers.iter().for_each(|(_, _, _, contents)| bytes.extend(contents));
        bytes
    }

    fn numbers(numbers: &[u16]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    #[test]
    fn deletion_vectors_may_have_arrays_runs_and_bits() {
        const FIRST: u64 = 1 << 32;
        let mut bits = vec![0_u8; BITS];
        bits[..640].fill(0xff);
        let plain = list(&[(0, 1, false, numbers(&[3, 65_535])), (2, 5119, false, bits)]);
        let rows = deleted_rows(&plain).unwrap();
        assert_eq!(
            rows.ranges(),
            [FIRST + 3..FIRST + 4, FIRST + 65_535..FIRST + 65_536, FIRST + 131_072..FIRST + 131_072 + 5120]
        );
        let runs = list(&[(0, 10, true, numbers(&[2, 0, 4, 10, 5])), (1, 0, false, numbers(&[0]))]);
        let rows = deleted_rows(&runs).unwrap();
        assert_eq!(rows.ranges(), [FIRST..FIRST + 5, FIRST + 10..FIRST + 16, FIRST + 65_536..FIRST + 65_537]);
        for length in 0..runs.len() {
            deleted_rows(&runs[..length]).expect_err("it is cut off");
        }
        let four: Vec<_> =
            (0..4).map(|high| (high, 0, high == 1, numbers(if high == 1 { &[1, 7, 0] } else { &[7] }))).collect();
        assert_eq!(deleted_rows(&list(&four)).unwrap().count(), 4);
    }

    #[test]
    fn deletion_vectors_with_contradictions_are_refused() {
        for (bytes, defect) in [
            (list(&[(0, 1, false, numbers(&[4, 3]))]), "position 4294967299 is out of order"),
            (list(&[(0, 2, true, numbers(&[1, 0, 1]))]), "a container has 2 positions, but records 3"),
            (list(&[(0, 1, true, numbers(&[1, 65_535, 1]))]), "a run of 2 positions from 65535 on"),
            ([list(&[(0, 0, false, numbers(&[1]))]), vec![0]].concat(), "1 bytes follow its end"),
            (vec![0; 4], "it begins with 0, not with 1681511377"),
        ] {
            assert_eq!(deleted_rows(&bytes).unwrap_err(), defect);
        }
        assert_eq!(deleted_rows(&[&MAGIC.to_le_bytes()[..], &[0; 8]].concat()).unwrap().count(), 0);
    }

    #[test]
    fn z85_is_decoded_as_its_specification_shows() {
        assert_eq!(decode_z85("HelloWorld").unwrap(), [0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B]);
        for text in ["Hell", "#####", "Hell\""] {
            assert_eq!(decode_z85(text), None, "{text}");
        }
    }
}
