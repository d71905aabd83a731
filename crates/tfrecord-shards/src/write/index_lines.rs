//! [`IndexLines`]: formats the text of an index.

use std::mem;

use prefetch_index::prefetch_index;

/// The lines of an index, one per record: the offset and the length of its frame.
///
/// Offsets increase in small steps, so usually only the last four digits change.
#[derive(Debug, Default)]
pub(crate) struct IndexLines {
    /// Longer than its filled part.
    text: Vec<u8>,
    filled: usize,
    /// The last four decimal digits of the next record's offset; `high` is the rest.
    low: u64,
    high: u64,
    /// Digits of `high`, if it is not zero and not greater than [`MOST_HIGH`].
    high_digits: Digits,
}

/// A number of up to eight digits: its text, the first digit in the lowest byte, and its length.
#[derive(Debug, Clone, Copy, Default)]
struct Digits {
    text: u64,
    len: usize,
}

impl Digits {
    #[cold]
    fn of(number: u64) -> Self {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(number).as_bytes();
        let text = digits.iter().rev().fold(0, |text, digit| text << 8 | u64::from(*digit));
        Self { text, len: digits.len() }
    }

    /// Returns the next number. The text is incremented arithmetically, because a wide load after byte stores would
    /// stall.
    #[inline(always)]
    fn next(self) -> Self {
        let last = 8 * self.len.wrapping_sub(1) as u32;
        match self.text.checked_shr(last) {
            Some(digit) if digit < u64::from(b'9') => Self { text: self.text + (1 << last), ..self },
            _ => self.carried(),
        }
    }

    #[cold]
    fn carried(self) -> Self {
        let mut text = self.text;
        for place in (0..self.len).rev().map(|digit| 8 * digit) {
            if (text >> place) & 0xff < u64::from(b'9') {
                return Self { text: text + (1 << place), ..self };
            }
            text -= 9 << place;
        }
        Self { text: text << 8 | u64::from(b'1'), len: self.len + 1 }
    }
}

/// The greatest `high` whose digits are cached: offsets up to a terabyte. The numbers that a block may still reach have
/// eight digits too.
const MOST_HIGH: u64 = 99_999_999 - HIGHS as u64;

/// Modulus of the last four digits.
const LOW: u64 = 10_000;

impl IndexLines {
    /// Maximum length of a line: two numbers of up to 20 digits, and the separators.
    pub(crate) const LONGEST: usize = 42;

    /// Maximum length of the lines of a block.
    pub(crate) const LONGEST_BLOCK: usize = BLOCK * Self::LONGEST;

    /// Allocates room for `bytes` bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { text: vec![0; bytes], ..Self::default() }
    }

    /// Returns the text since the last `clear`.
    pub(crate) fn text(&self) -> &[u8] {
        self.text.get(..self.filled).unwrap_or_default()
    }

    /// Clears the text, but not the offset of the next record.
    pub(crate) fn clear(&mut self) {
        self.filled = 0;
    }

    /// Adds a record whose frame has `len` bytes.
    pub(crate) fn push(&mut self, len: u64) {
        if self.text.len() < self.filled + Self::LONGEST {
            self.text.resize(2 * self.filled + Self::LONGEST, 0);
        }
        let tail = usize::try_from(len).ok().and_then(|len| TAILS.get(len)).filter(|_| self.has_digits());
        let line = self.text.get_mut(self.filled..).unwrap_or_default();
        match tail.and_then(|tail| write_line(line, self.high_digits, four_digits(self.low as u16), *tail)) {
            Some(len) => self.filled += len,
            None => self.push_any(len),
        }
        self.low += len;
        if self.low >= LOW {
            self.carry();
        }
    }

    /// Appends the records between these bounds, as far as [`put`](Self::put) can format them and they fit. Returns
    /// their number.
    pub(crate) fn push_between(&mut self, bounds: &[usize]) -> usize {
        let mut text = mem::take(&mut self.text);
        let made = self.put(bounds, text.get_mut(self.filled..).unwrap_or_default());
        self.text = text;
        self.filled += made.bytes;
        made.records
    }

    /// Formats lines into the caller's buffer, for the records between these bounds, starting at the first. Stops where
    /// less than a group of records is left, at an unusual record, and where there is no [room for any
    /// block](Self::LONGEST_BLOCK).
    pub(crate) fn put(&mut self, bounds: &[usize], text: &mut [u8]) -> MadeLines {
        let (mut made, mut numbers) = (MadeLines::default(), Numbers::default());
        while let Some(text) = text.get_mut(made.bytes..made.bytes + Self::LONGEST_BLOCK)
            && let Some(bounds) = bounds.get(made.records..)
        {
            for line in 0..AHEAD / CACHE_LINE {
                prefetch_index(&*text, AHEAD + line * CACHE_LINE);
            }
            let block = self.put_block(bounds, text, &mut numbers);
            if block.records == 0 {
                break;
            }
            made = MadeLines { records: made.records + block.records, bytes: made.bytes + block.bytes };
        }
        made
    }

    /// Formats the lines of one block or less. The contents of `numbers` are not used later.
    #[inline]
    fn put_block(&mut self, bounds: &[usize], text: &mut [u8], numbers: &mut Numbers) -> MadeLines {
        let records = BLOCK.min(bounds.len().saturating_sub(1) / GROUP * GROUP);
        let (true, Some(begins @ [first, ..]), Some(ends @ [.., last])) =
            (self.has_digits(), bounds.get(..records), bounds.get(1..=records))
        else {
            return MadeLines::default();
        };
        // Offset of an end from where the last four digits were zero.
        let low = self.low;
        let place = |end: usize| low.wrapping_add(end.wrapping_sub(*first) as u64);
        fill_starts(numbers, begins.as_chunks().0, low as u32);
        numbers.fill_highs(self.high_digits, place(*last) / LOW);
        let made = numbers.write_lines(*first, ends, text);
        if let Some(end) = made.records.checked_sub(1).and_then(|last| ends.get(last)) {
            let carries = place(*end) / LOW;
            self.low = place(*end) % LOW;
            self.high += carries;
            self.high_digits = match numbers.highs().get(carries as usize) {
                Some(text) => Digits { text: *text, len: self.high_digits.len },
                None => Digits::of(self.high),
            };
        }
        made
    }

    fn push_any(&mut self, len: u64) {
        let mut digits = itoa::Buffer::new();
        for (number, behind) in [(self.high * LOW + self.low, b" ".as_slice()), (len, b"\n")] {
            for bytes in [digits.format(number).as_bytes(), behind] {
                if let Some(place) = self.text.get_mut(self.filled..self.filled + bytes.len()) {
                    place.copy_from_slice(bytes);
                }
                self.filled += bytes.len();
            }
        }
    }

    #[cold]
    fn carry(&mut self) {
        self.high += self.low / LOW;
        self.low %= LOW;
        self.high_digits = Digits::of(self.high);
    }

    fn has_digits(&self) -> bool {
        (1..=MOST_HIGH).contains(&self.high)
    }
}

/// The lines that were formatted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MadeLines {
    /// Their number.
    pub(crate) records: usize,
    /// Their length in bytes.
    pub(crate) bytes: usize,
}

/// Maximum number of lines formatted together. With fewer, writing them would wait for their numbers.
const BLOCK: usize = 64;

/// Minimum number of lines formatted together: their numbers fill vectors.
const GROUP: usize = 16;

/// Bytes of text prefetched while the preceding ones are written: at least a block of lines. This part of the buffer
/// was last used many records ago, and stores would wait for it: a quarter of the time.
const AHEAD: usize = BLOCK * 16;

/// Bytes the cache fetches at a time. A different size costs at most a useless or a missing prefetch.
const CACHE_LINE: usize = 64;

/// Number of distinct `high` values of the offsets in a block, including the record after it.
const HIGHS: usize = (LOW as usize + BLOCK * MOST_LEN) / LOW as usize + 1;

/// The offsets of the records of a block, prepared for formatting.
#[derive(Debug, Default)]
struct Numbers {
    /// For each record, the last four digits, and the index in `highs` of the digits before them: the number of carries
    /// since the start of the block.
    lows: [[u32; GROUP]; BLOCK / GROUP],
    carries: [[u16; GROUP]; BLOCK / GROUP],
    /// The digits before the last four: this many entries are filled, all of this length.
    highs: [u64; HIGHS],
    high_count: usize,
    high_len: usize,
}

impl Numbers {
    fn highs(&self) -> &[u64] {
        self.highs.get(..self.high_count).unwrap_or_default()
    }

    /// Fills in the digits of a number and of the `more` numbers after it, as long as they have equally many digits.
    fn fill_highs(&mut self, mut digits: Digits, more: u64) {
        (self.high_count, self.high_len) = (0, digits.len);
        for text in self.highs.iter_mut().take(more as usize + 1) {
            *text = digits.text;
            self.high_count += 1;
            digits = digits.next();
            if digits.len != self.high_len {
                break;
            }
        }
    }

    /// Writes lines until a record is long or its offset has more digits than the first. A separate function, so that
    /// everything needed for a line is in registers.
    #[inline(never)]
    fn write_lines(&self, mut begin: usize, ends: &[usize], text: &mut [u8]) -> MadeLines {
        let (highs, len) = (self.highs(), self.high_len);
        let mut made = MadeLines::default();
        for ((end, low), carries) in ends.iter().zip(self.lows.as_flattened()).zip(self.carries.as_flattened()) {
            let Some(tail) = TAILS.get(end.wrapping_sub(begin)) else { break };
            let Some(high) = highs.get(usize::from(*carries)) else { break };
            let Some(line) = text.get_mut(made.bytes..made.bytes + IndexLines::LONGEST) else { break };
            let Some(line_len) = write_line(line, Digits { text: *high, len }, *low, *tail) else { break };
            made.bytes += line_len;
            made.records += 1;
            begin = *end;
        }
        made
    }
}

/// Writes a line: `high`, the last four digits of the offset, and one of [`TAILS`]. Returns its length.
#[inline(always)]
fn write_line(line: &mut [u8], high: Digits, low: u32, tail: u64) -> Option<usize> {
    // Copied at a fixed width; the excess is overwritten.
    *line.first_chunk_mut()? = high.text.to_le_bytes();
    let line = line.get_mut(high.len..high.len + 12)?;
    line[..4].copy_from_slice(&low.to_le_bytes());
    line[4..].copy_from_slice(&tail.to_le_bytes());
    Some(high.len + (tail >> 56) as usize)
}

/// Fills in lows and carries. `low` is the last four digits of the first record's offset. Results beyond the range of a
/// block are not valid.
#[cfg_attr(target_arch = "x86_64", multiversion::multiversion(targets("x86_64+avx2+bmi1+bmi2+lzcnt")))]
fn fill_starts(Numbers { lows, carries, .. }: &mut Numbers, begins: &[[usize; GROUP]], low: u32) {
    let first = begins.as_flattened().first().copied().unwrap_or_default();
    for ((lows, carries), begins) in lows.iter_mut().zip(carries).zip(begins) {
        let mut starts = [0; GROUP];
        for (start, begin) in starts.iter_mut().zip(begins) {
            *start = (begin.wrapping_sub(first) as u32).wrapping_add(low);
        }
        let mut remainders = [0; GROUP];
        for ((remainder, carries), start) in remainders.iter_mut().zip(carries).zip(starts) {
            *carries = myriads(start);
            *remainder = (start as u16).wrapping_sub(carries.wrapping_mul(LOW as u16));
        }
        let (mut firsts, mut seconds) = ([0; GROUP], [0; GROUP]);
        for ((first, second), remainder) in firsts.iter_mut().zip(&mut seconds).zip(remainders) {
            [*first, *second] = digit_pairs(remainder);
        }
        for ((low, first), second) in lows.iter_mut().zip(firsts).zip(seconds) {
            *low = u32::from(first) | u32::from(second) << 16;
        }
    }
}

/// Lines of records shorter than this are formatted together.
const MOST_LEN: usize = 4096;

/// The rest of a line after the offset, by frame length. The last byte is not part of the line: it is the length of the
/// rest and the last four digits of the offset.
static TAILS: [u64; MOST_LEN] = {
    let mut tails = [0; MOST_LEN];
    let mut len = 0;
    while len < MOST_LEN {
        let zeros = (len < 1000) as u32 + (len < 100) as u32 + (len < 10) as u32;
        let number = (four_digits(len as u16) as u64 | (b'\n' as u64) << 32) >> (8 * zeros);
        tails[len] = number << 8 | b' ' as u64 | ((10 - zeros) as u64) << 56;
        len += 1;
    }
    tails
};

/// Divides a block's offset by [`LOW`]: a sixteenth of the number divided by 625, as a multiplication that is exact in
/// this range.
#[inline(always)]
const fn myriads(number: u32) -> u16 {
    high_half((number >> 4) as u16, 26_844) >> 8
}

/// Returns the digits of a number below [`LOW`], with leading zeros, the first in the lowest byte.
#[inline(always)]
const fn four_digits(number: u16) -> u32 {
    let [first, second] = digit_pairs(number);
    first as u32 | (second as u32) << 16
}

/// Returns its first two digits and its last two.
#[inline(always)]
const fn digit_pairs(number: u16) -> [u16; 2] {
    let hundreds = high_half(number, 5243) >> 3;
    [two_digits(hundreds), two_digits(number.wrapping_sub(hundreds.wrapping_mul(100)))]
}

/// Returns the digits of a number below a hundred.
#[inline(always)]
const fn two_digits(number: u16) -> u16 {
    let tens = number.wrapping_mul(103) >> 10;
    (tens | number.wrapping_sub(tens.wrapping_mul(10)) << 8).wrapping_add(u16::from_le_bytes(*b"00"))
}

/// Returns the upper half of a product.
#[inline(always)]
const fn high_half(a: u16, b: u16) -> u16 {
    ((a as u32 * b as u32) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn digits_of_all_numbers() {
        for number in 0..LOW as u16 {
            assert_eq!(four_digits(number).to_le_bytes(), *format!("{number:04}").as_bytes());
        }
    }

    #[test]
    fn myriads_of_all_places_in_a_block() {
        let most = LOW as usize + BLOCK * MOST_LEN;
        assert!((0..most as u32).all(|number| u32::from(myriads(number)) == number / LOW as u32));
    }

    #[test]
    fn digits_of_the_next_number() {
        for power in (1..8).map(|digits| 10_u64.pow(digits)) {
            for number in power.saturating_sub(120)..power + 120 {
                let (next, expected) = (Digits::of(number).next(), Digits::of(number + 1));
                assert_eq!((next.text, next.len), (expected.text, expected.len), "{number}");
            }
        }
    }

    /// Asserts the lines of records of these lengths, formatted singly and together. Returns how many were formatted
    /// together.
    fn lines_of(lens: &[u64]) -> usize {
        let (mut lines, mut blocks) = (IndexLines::default(), IndexLines::with_capacity(1 << 20));
        let (mut expected, mut start) = (String::new(), 0);
        for len in lens {
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
        assert!(expected.lines().all(|line| line.len() < IndexLines::LONGEST));
        lines.clear();
        lines.push(5);
        assert_eq!(lines.text(), format!("{start} 5\n").as_bytes());
        by_blocks
    }

    #[test]
    fn lines_of_records_of_all_lengths() {
        let short = (0..3000_u64).map(|i| i * i % 1201);
        let medium = (0..3000_u64).map(|i| i * i % 9001);
        let long = [9, 10, 99, 100, 999, 1000, 4095, 4096, 9999, 10_000, 99_999, 1 << 40, 1 << 62, 7, 1 << 63, 123];
        let lens: Vec<u64> = short.clone().chain(medium).chain(long).chain(short).collect();
        let by_blocks = lines_of(&lens);
        assert!(by_blocks > 4000, "{by_blocks}");
    }

    #[test]
    fn lines_where_places_get_another_digit() {
        for digits in 5..16 {
            let before = 10_u64.pow(digits) - 1_000_000.min(10_u64.pow(digits - 1));
            let lens: Vec<u64> = std::iter::once(before).chain((0..4000).map(|i| 300 + i * i % 4001 / 8)).collect();
            let by_blocks = lines_of(&lens);
            // Beyond a terabyte, lines are formatted singly.
            let expected = match digits {
                ..12 => 3500..,
                12 => 500..,
                _ => 0..,
            };
            assert!(expected.contains(&by_blocks), "{digits}: {by_blocks}");
        }
    }
}
