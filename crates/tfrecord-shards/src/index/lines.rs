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
        let mut lines = IndexLines::default();
        let (mut expected, mut start) = (String::new(), 0);
        let short = (0..3000_u64).map(|i| i * i % 1201);
        let long = [9, 10, 99, 100, 999, 1000, 9999, 10_000, 99_999, 1 << 40, 1 << 62, 7, 1 << 63, 123];
        for len in short.clone().chain(long).chain(short) {
            lines.push(len);
            writeln!(expected, "{start} {len}").unwrap();
            start += len;
        }
        assert_eq!(str::from_utf8(lines.text()).unwrap(), expected);
        assert!(expected.lines().all(|line| line.len() < IndexLines::LONGEST));
        lines.clear();
        lines.push(5);
        assert_eq!(lines.text(), format!("{start} 5\n").as_bytes());
    }
}
