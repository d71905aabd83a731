//! [`Lengths`]: reads the lengths of lists, maps and texts before their values.
//!
//! The library allocates as many items as the lengths of a batch add up to, and a file may specify any length. So the
//! lengths are summed here first: runs of unsigned integers, versions 1 and 2 of the ORC specification. The parts of
//! timestamps, one of which is signed, are read in the same way.
//!
//! The library also takes a null stream that ends early for the absence of nulls, so its values are counted, too.

use std::io::{self, Read};

/// Iterates over lengths in the order of the values.
pub(super) struct Lengths<R> {
    bytes: R,
    is_v2: bool,
    is_signed: bool,
    run: Vec<u64>,
    /// Number of values consumed from the run.
    taken: usize,
}

/// Sums of lengths.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sums {
    /// Upper bound of the sum over any `window` adjacent lengths.
    pub(super) most: u64,
    /// Sum of all lengths.
    pub(super) total: u64,
}

impl<R: Read> Lengths<R> {
    /// Reads the runs in `bytes`, which should be buffered.
    pub(super) fn new(bytes: R, is_v2: bool) -> Self {
        Self { bytes, is_v2, is_signed: false, run: Vec::with_capacity(512), taken: 0 }
    }

    /// Reads signed integers, each as the bits of an `i64`.
    pub(super) fn signed(bytes: R, is_v2: bool) -> Self {
        Self { is_signed: true, ..Self::new(bytes, is_v2) }
    }

    /// Decodes an integer that is stored individually.
    fn number(&self, stored: u64) -> u64 {
        if self.is_signed { (stored >> 1) ^ (stored & 1).wrapping_neg() } else { stored }
    }

    /// Sums at most `count` lengths: in total, and over any `window` adjacent ones (an upper bound).
    ///
    /// The sum of a truncated or damaged stream ends there; the library detects the same end.
    pub(super) fn sums(mut self, count: u64, window: u64) -> Sums {
        let mut sums = Sums::default();
        // Any window is covered by two that begin at its multiples.
        let (mut before, mut current, mut in_current) = (0_u64, 0_u64, 0_u64);
        for _ in 0..count {
            let Some(length) = self.next() else { break };
            sums.total = sums.total.saturating_add(length);
            current = current.saturating_add(length);
            sums.most = sums.most.max(before.saturating_add(current));
            in_current += 1;
            if in_current == window {
                (before, current, in_current) = (current, 0, 0);
            }
        }
        sums
    }

    fn read_run(&mut self) -> io::Result<()> {
        let header = self.byte()?;
        if !self.is_v2 {
            return self.read_v1(header);
        }
        match header >> 6 {
            0 => self.read_short_repeat(header),
            1 => self.read_direct(header),
            2 => self.read_patched(header),
            _ => self.read_delta(header),
        }
    }

    fn read_v1(&mut self, header: u8) -> io::Result<()> {
        if header >= 128 {
            for _ in 0..=!header {
                let value = self.varint()?;
                self.run.push(self.number(value));
            }
            return Ok(());
        }
        let delta = i64::from(self.byte()? as i8);
        let first = self.varint()?;
        let first = self.number(first);
        let values = (0..i64::from(header) + 3).map(|index| first.wrapping_add_signed(index * delta));
        self.run.extend(values);
        Ok(())
    }

    fn read_short_repeat(&mut self, header: u8) -> io::Result<()> {
        let value = self.big_endian(usize::from(header >> 3 & 7) + 1)?;
        self.run.extend(std::iter::repeat_n(self.number(value), usize::from(header & 7) + 3));
        Ok(())
    }

    fn read_direct(&mut self, header: u8) -> io::Result<()> {
        let count = self.count(header)?;
        let mut values = self.packed(count, width(header >> 1 & 31))?;
        values.iter_mut().for_each(|value| *value = self.number(*value));
        self.run.extend(values);
        Ok(())
    }

    fn read_patched(&mut self, header: u8) -> io::Result<()> {
        let count = self.count(header)?;
        let value_width = width(header >> 1 & 31);
        let (third, fourth) = (self.byte()?, self.byte()?);
        let (base_len, patch_width) = (usize::from(third >> 5) + 1, width(third & 31));
        let (gap_width, patches) = (u32::from(fourth >> 5) + 1, usize::from(fourth & 31));
        let base = self.big_endian(base_len)?;
        // The highest bit is the sign, the rest is the magnitude.
        let sign = 1_u64 << (base_len * 8 - 1);
        let base = if base & sign == 0 { base } else { (base ^ sign).wrapping_neg() };
        let mut values = self.packed(count, value_width)?;
        let mut at = 0_usize;
        for patch in self.packed(patches, closest_width(gap_width + patch_width))? {
            at = at.saturating_add(patch.checked_shr(patch_width).unwrap_or_default() as usize);
            let bits = patch & 1_u64.checked_shl(patch_width).map_or(u64::MAX, |bit| bit - 1);
            if let Some(value) = values.get_mut(at) {
                *value |= bits.checked_shl(value_width).unwrap_or_default();
            }
        }
        self.run.extend(values.into_iter().map(|value| value.wrapping_add(base)));
        Ok(())
    }

    fn read_delta(&mut self, header: u8) -> io::Result<()> {
        let count = self.count(header)?;
        let first = self.varint()?;
        let first = self.number(first);
        let delta = self.varint()?;
        let delta = (delta >> 1) as i64 ^ -((delta & 1) as i64);
        self.run.push(first);
        if header >> 1 & 31 == 0 {
            self.run.extend((1..count as i64).map(|index| first.wrapping_add_signed(index.wrapping_mul(delta))));
            return Ok(());
        }
        let mut value = first.wrapping_add_signed(delta);
        self.run.push(value);
        for step in self.packed(count.saturating_sub(2), width(header >> 1 & 31))? {
            value = if delta < 0 { value.wrapping_sub(step) } else { value.wrapping_add(step) };
            self.run.push(value);
        }
        Ok(())
    }

    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.bytes.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    fn count(&mut self, header: u8) -> io::Result<usize> {
        Ok((usize::from(header & 1) << 8 | usize::from(self.byte()?)) + 1)
    }

    fn varint(&mut self) -> io::Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(io::ErrorKind::InvalidData.into())
    }

    fn big_endian(&mut self, len: usize) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.bytes.read_exact(&mut bytes[8 - len..])?;
        Ok(u64::from_be_bytes(bytes))
    }

    /// Reads values of `width` bits, the first in the highest bits.
    fn packed(&mut self, count: usize, width: u32) -> io::Result<Vec<u64>> {
        let mut values = Vec::with_capacity(count);
        let (mut bits, mut held) = (0_u128, 0);
        for _ in 0..count {
            while held < width {
                bits = bits << 8 | u128::from(self.byte()?);
                held += 8;
            }
            held -= width;
            values.push((bits >> held) as u64 & (u64::MAX >> (64 - width)));
        }
        Ok(values)
    }
}

impl<R: Read> Iterator for Lengths<R> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.taken == self.run.len() {
            self.run.clear();
            self.taken = 0;
            // An empty run would cause an endless loop.
            self.read_run().ok().filter(|()| !self.run.is_empty())?;
        }
        self.taken += 1;
        self.run.get(self.taken - 1).copied()
    }
}

/// Counts the bytes in byte run lengths, up to `wanted`.
pub(super) fn byte_count(mut runs: impl Read, wanted: u64) -> u64 {
    let mut count = 0_u64;
    let mut control = [0];
    while count < wanted && runs.read_exact(&mut control).is_ok() {
        let control = i64::from(control[0] as i8);
        // Literal bytes, or a repeated byte.
        let (bytes, stored) = if control < 0 { (-control, -control) } else { (control + 3, 1) };
        let read = io::copy(&mut runs.by_ref().take(stored.unsigned_abs()), &mut io::sink());
        if !read.is_ok_and(|read| read == stored.unsigned_abs()) {
            break;
        }
        count += bytes.unsigned_abs();
    }
    count.min(wanted)
}

/// Returns the width in bits for a five-bit code.
fn width(code: u8) -> u32 {
    match code {
        0..=23 => u32::from(code) + 1,
        24 => 26,
        25 => 28,
        26 => 30,
        27 => 32,
        28 => 40,
        29 => 48,
        30 => 56,
        _ => 64,
    }
}

/// Returns the smallest width with a code that is at least `bits`.
fn closest_width(bits: u32) -> u32 {
    (0..32).map(width).find(|width| *width >= bits).unwrap_or(64)
}

#[cfg(test)]
mod tests;
