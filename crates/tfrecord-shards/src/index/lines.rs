//! [`IndexLines`]: the text of an index.

use std::mem;

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
            let start = u64::from(four_digits(self.low as u32)) | u64::from(b' ') << 32;
            let digits = u64::from(four_digits(len as u32) >> (8 * zeros)) | u64::from(b'\n') << (32 - 8 * zeros);
            // Copied in one width; what is too much is written over.
            let high_text = self.high_text;
            self.write(&high_text, self.high_len);
            self.write(&start.to_le_bytes(), 5);
            self.write(&digits.to_le_bytes(), 5 - zeros);
        }
        self.low += len;
        if self.low >= LOW {
            self.carry();
        }
    }

    /// Adds the records between the first of these ends and the last, as far as [`put`](Self::put) makes their lines and they
    /// fit. Tells how many that were.
    pub(crate) fn push_between(&mut self, ends: &[usize]) -> usize {
        let mut text = mem::take(&mut self.text);
        let made = self.put(ends, text.get_mut(self.filled..).unwrap_or_default());
        self.text = text;
        self.filled += made.bytes;
        made.records
    }

    /// Makes lines in a text of the caller's: of the records between the first of these ends and the last, from the first
    /// record on, some at a time. It ends before less than a block of them, before what is not as most records are, and
    /// where there is not [room for any block](Self::LONGEST_BLOCK).
    #[inline]
    pub(crate) fn put(&mut self, ends: &[usize], text: &mut [u8]) -> MadeLines {
        put(self, ends, text)
    }

    fn push_any(&mut self, len: u64) {
        let mut digits = itoa::Buffer::new();
        for (number, behind) in [(self.high * LOW + self.low, b" "), (len, b"\n")] {
            let number = digits.format(number).as_bytes();
            self.write(number, number.len());
            self.write(behind, 1);
        }
    }

    /// Writes `bytes`, of which so many count. There is room for a line.
    #[inline(always)]
    fn write(&mut self, bytes: &[u8], len: usize) {
        if let Some(place) = self.text.get_mut(self.filled..self.filled + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        self.filled += len;
    }

    #[cold]
    fn carry(&mut self) {
        self.high += self.low / LOW;
        self.low %= LOW;
        self.write_high();
    }

    #[inline(always)]
    fn count_high_up(&mut self) {
        self.high += 1;
        match self.high_len.checked_sub(1).and_then(|last| self.high_text.get_mut(last)) {
            Some(last) if *last < b'9' => *last += 1,
            _ => self.write_high(),
        }
    }

    #[inline(always)]
    fn high_number(&self) -> (u128, usize) {
        (u128::from_le_bytes(self.high_text), self.high_len)
    }

    #[cold]
    fn write_high(&mut self) {
        let mut digits = itoa::Buffer::new();
        let text = digits.format(self.high).as_bytes();
        if let Some(place) = self.high_text.get_mut(..text.len()) {
            place.copy_from_slice(text);
        }
        self.high_len = text.len();
    }
}

/// Lines that were made.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MadeLines {
    /// How many.
    pub(crate) records: usize,
    /// What they take.
    pub(crate) bytes: usize,
}

/// Lines that are made together.
const BLOCK: usize = 16;

/// What [`IndexLines::put`] does. All of it is one function, from the ends of records on, which are read as they stand, and
/// arrays are not copied on the way: to load by vectors what was stored piece by piece, or at other places, has to be
/// waited for, and took half of the time.
#[cfg_attr(target_arch = "x86_64", multiversion::multiversion(targets("x86_64+avx2+bmi1+bmi2+lzcnt")))]
fn put(lines: &mut IndexLines, ends: &[usize], text: &mut [u8]) -> MadeLines {
    let mut made = MadeLines::default();
    // What every line takes is not kept in memory: the text is a number.
    let (mut high_text, mut high_len) = lines.high_number();
    while high_len > 0
        && let Some(text) = text.get_mut(made.bytes..made.bytes + IndexLines::LONGEST_BLOCK)
        && let Some(ends) = ends.get(made.records..).and_then(<[usize]>::first_chunk::<{ BLOCK + 1 }>)
    {
        let [first, .., last] = *ends;
        let (begins, ends) = (ends.first_chunk::<BLOCK>(), ends.last_chunk::<BLOCK>());
        let (Some(begins), Some(ends)) = (begins, ends) else { break };
        let (mut lens, mut starts, mut all_lens) = ([0; BLOCK], [0; BLOCK], 0);
        for ((len, end), begin) in lens.iter_mut().zip(ends).zip(begins) {
            let wide = end - begin;
            all_lens |= wide;
            *len = wide as u32;
        }
        if all_lens >= MOST_LEN {
            break;
        }
        for (start, begin) in starts.iter_mut().zip(begins) {
            *start = (begin - first) as u32 + lines.low as u32;
        }
        let (mut lows, mut digits, mut zeros, mut tails) = ([0; BLOCK], [0; BLOCK], [0; BLOCK], [0; BLOCK]);
        for (low, start) in lows.iter_mut().zip(&starts) {
            *low = four_digits(start - myriads(*start) * LOW as u32);
        }
        for ((digits, zeros), len) in digits.iter_mut().zip(&mut zeros).zip(&lens) {
            *digits = four_digits(*len);
            *zeros = u32::from(*len < 1000) + u32::from(*len < 100) + u32::from(*len < 10);
        }
        for ((tail, digits), zeros) in tails.iter_mut().zip(&digits).zip(&zeros) {
            let number = (u64::from(*digits) | u64::from(b'\n') << 32) >> (8 * zeros);
            *tail = number << 8 | u64::from(b' ');
        }
        let (mut filled, mut limit) = (0, LOW as u32);
        for (((start, low), tail), zeros) in starts.iter().zip(&lows).zip(&tails).zip(&zeros) {
            if *start >= limit {
                limit += LOW as u32;
                lines.count_high_up();
                (high_text, high_len) = lines.high_number();
            }
            let Some(line) = text.get_mut(filled..filled + IndexLines::LONGEST) else { break };
            // Copied in one width; what is too much is written over.
            line[..HIGH_DIGITS].copy_from_slice(&high_text.to_le_bytes());
            let Some(line) = line.get_mut(high_len..high_len + 12) else { break };
            line[..4].copy_from_slice(&low.to_le_bytes());
            line[4..].copy_from_slice(&tail.to_le_bytes());
            filled += high_len + 10 - *zeros as usize;
        }
        lines.low += (last - first) as u64;
        if lines.low >= u64::from(limit) {
            limit += LOW as u32;
            lines.count_high_up();
            (high_text, high_len) = lines.high_number();
        }
        lines.low -= u64::from(limit) - LOW;
        made = MadeLines { records: made.records + BLOCK, bytes: made.bytes + filled };
    }
    made
}

/// All lengths of a block are less than this: a power of two, for their bits to tell, below [`LOW`], for four digits to do.
const MOST_LEN: usize = 8192;

/// How many times [`LOW`] is in a number, if that is the place of a record after a few such lengths: a sixteenth of the number,
/// by a 625th of it, which is a multiplication that is exact for such numbers.
#[inline(always)]
fn myriads(number: u32) -> u32 {
    ((number >> 4) * 26_844) >> 24
}

/// The digits of a number below [`LOW`], with leading zeros, the first one in the lowest byte.
///
/// Two numbers of two digits are divided side by side, by multiplications that are exact for so small ones.
#[inline(always)]
fn four_digits(number: u32) -> u32 {
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
        for number in 0..LOW as u32 {
            assert_eq!(four_digits(number).to_le_bytes(), *format!("{number:04}").as_bytes());
        }
    }

    #[test]
    fn myriads_of_all_places_in_a_block() {
        let most = LOW as usize + BLOCK * MOST_LEN;
        assert!((0..most as u32).all(|number| myriads(number) == number / LOW as u32));
    }

    #[test]
    fn lines_of_records_of_all_lengths() {
        let (mut lines, mut blocks) = (IndexLines::default(), IndexLines::with_capacity(1 << 20));
        let (mut expected, mut start) = (String::new(), 0);
        let short = (0..3000_u64).map(|i| i * i % 1201);
        let medium = (0..3000_u64).map(|i| i * i % 9001);
        let long = [9, 10, 99, 100, 999, 1000, 8191, 8192, 9999, 10_000, 99_999, 1 << 40, 1 << 62, 7, 1 << 63, 123];
        let lens: Vec<u64> = short.clone().chain(medium).chain(long).chain(short).collect();
        for len in &lens {
            lines.push(*len);
            writeln!(expected, "{start} {len}").unwrap();
            start += len;
        }
        assert_eq!(str::from_utf8(lines.text()).unwrap(), expected);
        let mut ends = vec![0_usize];
        ends.extend(lens.iter().scan(0_usize, |end, len| {
            *end = end.wrapping_add(*len as usize);
            Some(*end)
        }));
        let (mut next, mut by_blocks) = (0, 0);
        while next < lens.len() {
            let made = blocks.push_between(&ends[next..]);
            (next, by_blocks) = (next + made, by_blocks + made);
            if let Some(len) = lens.get(next) {
                blocks.push(*len);
                next += 1;
            }
        }
        assert_eq!(str::from_utf8(blocks.text()).unwrap(), expected);
        assert!(by_blocks > 6000, "{by_blocks}");
        assert!(expected.lines().all(|line| line.len() < IndexLines::LONGEST));
        lines.clear();
        lines.push(5);
        assert_eq!(lines.text(), format!("{start} 5\n").as_bytes());
    }
}
