//! [`IndexLines`]: the text of an index.

/// The lines of an index, one for each record: where its frame starts, and how long it is.
///
/// Starts grow by little, so of most the last four digits are new.
#[derive(Debug, Default)]
pub(crate) struct IndexLines {
    /// Longer than what is filled.
    text: Vec<u8>,
    filled: usize,
    /// The last four digits of where the next record starts, and those before.
    low: u64,
    high: u64,
    /// The digits of `high`, and how many they are: none of zero.
    high_text: [u8; HIGH_DIGITS],
    high_len: usize,
}

/// Digits of the greatest number but for the last four.
const HIGH_DIGITS: usize = 16;

/// What the last four digits of a number are a remainder of.
const LOW: u64 = 10_000;

impl IndexLines {
    /// Room for a line: two numbers of up to 20 digits, and what stands behind each.
    pub(crate) const LONGEST: usize = 42;

    /// Room for the lines of a block.
    pub(crate) const LONGEST_BLOCK: usize = BLOCK * Self::LONGEST;

    /// Lines with room for so many bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { text: vec![0; bytes], ..Self::default() }
    }

    /// The text since it was last cleared.
    pub(crate) fn text(&self) -> &[u8] {
        self.text.get(..self.filled).unwrap_or_default()
    }

    /// Forgets the text, and not where the next record starts.
    pub(crate) fn clear(&mut self) {
        self.filled = 0;
    }

    /// Adds a record whose frame has `len` bytes.
    pub(crate) fn push(&mut self, len: u64) {
        if self.text.len() < self.filled + Self::LONGEST {
            self.text.resize(2 * self.filled + Self::LONGEST, 0);
        }
        if self.high_len == 0 || len >= LOW {
            self.push_any(len);
        } else {
            let zeros = usize::from(len < 1000) + usize::from(len < 100) + usize::from(len < 10);
            let start = u64::from(four_digits(self.low)) | u64::from(b' ') << 32;
            let digits = u64::from(four_digits(len) >> (8 * zeros)) | u64::from(b'\n') << (32 - 8 * zeros);
            // Copied in one width; what is too much is written over.
            let high_text = self.high_text;
            self.put(&high_text, self.high_len);
            self.put(&start.to_le_bytes(), 5);
            self.put(&digits.to_le_bytes(), 5 - zeros);
        }
        self.low += len;
        if self.low >= LOW {
            self.carry();
        }
    }

    /// Adds records whose frames have these lengths.
    pub(crate) fn push_block(&mut self, lens: &[u64; BLOCK]) {
        let most = self.filled + Self::LONGEST_BLOCK;
        if self.text.len() < most {
            self.text.resize(2 * most, 0);
        }
        let mut text = std::mem::take(&mut self.text);
        let put = text.get_mut(self.filled..).and_then(|room| self.put_block(lens, room));
        self.text = text;
        match put {
            Some(len) => self.filled += len,
            None => lens.iter().for_each(|len| self.push(*len)),
        }
    }

    /// Adds records whose frames have these lengths to a text of the caller's instead, and tells how many bytes that took.
    /// Several lines are made at a time. Nothing is done where they are not as most are, or there is no room for
    /// [any block](Self::LONGEST_BLOCK).
    #[inline]
    pub(crate) fn put_block(&mut self, lens: &[u64; BLOCK], text: &mut [u8]) -> Option<usize> {
        let lengths_fit = lens.iter().fold(true, |fit, len| fit & (*len < LOW));
        if self.high_len == 0 || !lengths_fit || text.len() < Self::LONGEST_BLOCK {
            return None;
        }
        let mut texts = LineTexts::default();
        fill(&mut texts, self.low as u32, &lens.map(|len| len as u32));
        // What changes with every line is not kept in memory.
        let (mut filled, mut high_text, mut high_len) = (0, self.high_text, self.high_len);
        let LineTexts { starts, lens, short_lens, carries, low } = texts;
        for (((start, len), short_len), carry) in starts.into_iter().zip(lens).zip(short_lens).zip(carries) {
            let line = text.get_mut(filled..filled + Self::LONGEST)?;
            // Copied in one width; what is too much is written over.
            line[..HIGH_DIGITS].copy_from_slice(&high_text);
            let line = line.get_mut(high_len..high_len + 13)?;
            line[..8].copy_from_slice(&start.to_le_bytes());
            line[5..].copy_from_slice(&len.to_le_bytes());
            filled += high_len + short_len as usize;
            if carry != 0 {
                self.low = LOW;
                self.carry();
                (high_text, high_len) = (self.high_text, self.high_len);
            }
        }
        self.low = u64::from(low);
        Some(filled)
    }

    fn push_any(&mut self, len: u64) {
        let mut digits = itoa::Buffer::new();
        for (number, behind) in [(self.high * LOW + self.low, b" "), (len, b"\n")] {
            let number = digits.format(number).as_bytes();
            self.put(number, number.len());
            self.put(behind, 1);
        }
    }

    /// Writes `bytes`, of which so many count. There is room for a line.
    #[inline(always)]
    fn put(&mut self, bytes: &[u8], len: usize) {
        if let Some(place) = self.text.get_mut(self.filled..self.filled + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        self.filled += len;
    }

    #[cold]
    fn carry(&mut self) {
        self.high += self.low / LOW;
        self.low %= LOW;
        let mut digits = itoa::Buffer::new();
        let text = digits.format(self.high).as_bytes();
        if let Some(place) = self.high_text.get_mut(..text.len()) {
            place.copy_from_slice(text);
        }
        self.high_len = text.len();
    }
}

/// Lines that are made together.
pub(crate) const BLOCK: usize = 16;

/// What the lines of a block are put together from.
#[derive(Default)]
struct LineTexts {
    /// The last four digits of where each record starts, and a space.
    starts: [u64; BLOCK],
    /// The digits of the length, and a line feed.
    lens: [u64; BLOCK],
    /// Bytes of the line but for the digits of the start that are before the last four.
    short_lens: [u32; BLOCK],
    /// Whether the next record starts behind the next multiple of [`LOW`].
    carries: [u32; BLOCK],
    /// The last four digits of where the record behind the block starts.
    low: u32,
}

/// Tells the texts of records of these lengths, below [`LOW`], of which the first starts at `low`.
#[cfg_attr(target_arch = "x86_64", multiversion::multiversion(targets("x86_64+avx2+bmi1+bmi2+lzcnt")))]
fn fill(texts: &mut LineTexts, low: u32, lens: &[u32; BLOCK]) {
    let mut starts = [0; BLOCK];
    let mut next = low;
    for ((start, len), carry) in starts.iter_mut().zip(lens).zip(&mut texts.carries) {
        *start = next;
        next += len;
        *carry = u32::from(next >= LOW as u32);
        next -= *carry * LOW as u32;
    }
    texts.low = next;
    for (text, start) in texts.starts.iter_mut().zip(starts) {
        *text = u64::from(four_digits(u64::from(start))) | u64::from(b' ') << 32;
    }
    for ((text, short_len), len) in texts.lens.iter_mut().zip(&mut texts.short_lens).zip(lens) {
        let zeros = u32::from(*len < 1000) + u32::from(*len < 100) + u32::from(*len < 10);
        *short_len = 10 - zeros;
        *text = (u64::from(four_digits(u64::from(*len))) | u64::from(b'\n') << 32) >> (8 * zeros);
    }
}

/// The digits of a number below [`LOW`], with leading zeros, the first one in the lowest byte.
///
/// Two numbers of two digits are divided side by side, by multiplications that are exact for so small ones.
#[inline]
fn four_digits(number: u64) -> u32 {
    let number = number as u32;
    let hundreds = (number * 10_486) >> 20;
    let pairs = hundreds | (number - hundreds * 100) << 16;
    let tens = (pairs * 103) >> 10 & 0x000f_000f;
    (tens | (pairs - tens * 10) << 8) | u32::from_le_bytes(*b"0000")
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn digits_of_all_numbers() {
        for number in 0..LOW {
            assert_eq!(four_digits(number).to_le_bytes(), *format!("{number:04}").as_bytes());
        }
    }

    #[test]
    fn lines_of_records_of_all_lengths() {
        let (mut lines, mut blocks) = (IndexLines::default(), IndexLines::default());
        let (mut expected, mut start) = (String::new(), 0);
        let short = (0..3000_u64).map(|i| i * i % 1201);
        let long = [9, 10, 99, 100, 999, 1000, 9999, 10_000, 99_999, 1 << 40, 1 << 62, 7, 1 << 63, 123];
        let lens: Vec<u64> = short.clone().chain(long).chain(short).collect();
        for len in &lens {
            lines.push(*len);
            writeln!(expected, "{start} {len}").unwrap();
            start += len;
        }
        assert_eq!(str::from_utf8(lines.text()).unwrap(), expected);
        for lens in lens.chunks(BLOCK) {
            match lens.try_into() {
                Ok(block) => blocks.push_block(block),
                Err(_) => lens.iter().for_each(|len| blocks.push(*len)),
            }
        }
        assert_eq!(str::from_utf8(blocks.text()).unwrap(), expected);
        assert!(expected.lines().all(|line| line.len() < IndexLines::LONGEST));
        lines.clear();
        lines.push(5);
        assert_eq!(lines.text(), format!("{start} 5\n").as_bytes());
    }
}
