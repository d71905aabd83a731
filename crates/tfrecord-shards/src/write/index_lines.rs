//! [`IndexLines`]: the text of an index.

use std::mem;

use prefetch_index::prefetch_index;

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
    /// Of `high`, if it is not zero and not greater than [`MOST_HIGH`].
    high_digits: Digits,
}

/// A number of up to eight digits, the first one in the lowest byte, and how many they are.
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

    /// Of the next number. The text is counted up as a number: what is stored by bytes has to be waited for by a load of all.
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

/// The greatest number of which digits are kept: of places in files of a terabyte. Those that a block may still come to have
/// eight digits, too.
const MOST_HIGH: u64 = 99_999_999 - HIGHS as u64;

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

    /// Adds the records between these bounds, as far as [`put`](Self::put) makes their lines and they fit. Tells how many that
    /// were.
    pub(crate) fn push_between(&mut self, bounds: &[usize]) -> usize {
        let mut text = mem::take(&mut self.text);
        let made = self.put(bounds, text.get_mut(self.filled..).unwrap_or_default());
        self.text = text;
        self.filled += made.bytes;
        made.records
    }

    /// Makes lines in a text of the caller's: of the records between these bounds, from the first on, some at a time. It ends
    /// before less than a group of them, before what is not as most records are, and where there is not
    /// [room for any block](Self::LONGEST_BLOCK).
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

    /// The lines of one block, or of what there is of it. What `numbers` hold is of no use later.
    #[inline]
    fn put_block(&mut self, bounds: &[usize], text: &mut [u8], numbers: &mut Numbers) -> MadeLines {
        let records = BLOCK.min(bounds.len().saturating_sub(1) / GROUP * GROUP);
        let (true, Some(begins @ [first, ..]), Some(ends @ [.., last])) =
            (self.has_digits(), bounds.get(..records), bounds.get(1..=records))
        else {
            return MadeLines::default();
        };
        // Where an end is, from where the last four digits were zero.
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

/// Lines that were made.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MadeLines {
    /// How many.
    pub(crate) records: usize,
    /// What they take.
    pub(crate) bytes: usize,
}

/// Lines that are made together, at most. With fewer, what writes them waits for their numbers.
const BLOCK: usize = 64;

/// Lines that are made together, at least: their numbers fill vectors.
const GROUP: usize = 16;

/// Bytes of text that are fetched into the cache while those before them are made: a block of lines, or some more. The text
/// goes where it was last written to many records ago, and what is stored there would wait for it: a quarter of the time.
const AHEAD: usize = BLOCK * 16;

/// Bytes that the cache fetches at a time. Where it is another number, that is no more than a fetch too many or one too few.
const CACHE_LINE: usize = 64;

/// Numbers before the last four digits that places in a block may have: those of its first record, of the record after it, and
/// between.
const HIGHS: usize = (LOW as usize + BLOCK * MOST_LEN) / LOW as usize + 1;

/// Where the records of a block start, as their lines are made from it.
#[derive(Debug, Default)]
struct Numbers {
    /// Of each record, the last four digits, and which of `highs` stands before them: how often there was a carry since the
    /// block began.
    lows: [[u32; GROUP]; BLOCK / GROUP],
    carries: [[u16; GROUP]; BLOCK / GROUP],
    /// Digits, so many of them filled, and all of this length.
    highs: [u64; HIGHS],
    high_count: usize,
    high_len: usize,
}

impl Numbers {
    fn highs(&self) -> &[u64] {
        self.highs.get(..self.high_count).unwrap_or_default()
    }

    /// The digits of a number and of so many after it, as far as they are not more digits.
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

    /// Writes lines until one is of a long record, or its start has more digits than the first. A function of its own, in which
    /// all that is needed for a line is in registers.
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

/// Writes a line: digits, the last four of where the record starts behind them, and one of [`TAILS`]. Tells how long it is.
#[inline(always)]
fn write_line(line: &mut [u8], high: Digits, low: u32, tail: u64) -> Option<usize> {
    // Copied in one width; what is too much is written over.
    *line.first_chunk_mut()? = high.text.to_le_bytes();
    let line = line.get_mut(high.len..high.len + 12)?;
    line[..4].copy_from_slice(&low.to_le_bytes());
    line[4..].copy_from_slice(&tail.to_le_bytes());
    Some(high.len + (tail >> 56) as usize)
}

/// Fills in lows and carries. `low` are the last four digits of where the first record starts. Of records further from it than
/// lines are made of, nothing true is told.
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

/// Lines of records that are shorter than this are made together.
const MOST_LEN: usize = 4096;

/// What stands in a line behind where a record starts, if it has so many bytes. The last byte is no part of the line, but says
/// how many bytes that is, with the last four digits of the start.
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

/// How many times [`LOW`] is in a number, if that is the place of a record in a block: a sixteenth of the number, by a 625th of
/// it, which is a multiplication that is exact for such numbers.
#[inline(always)]
const fn myriads(number: u32) -> u16 {
    high_half((number >> 4) as u16, 26_844) >> 8
}

/// The digits of a number below [`LOW`], with leading zeros, the first one in the lowest byte.
#[inline(always)]
const fn four_digits(number: u16) -> u32 {
    let [first, second] = digit_pairs(number);
    first as u32 | (second as u32) << 16
}

/// The first two of them, and the last two.
#[inline(always)]
const fn digit_pairs(number: u16) -> [u16; 2] {
    let hundreds = high_half(number, 5243) >> 3;
    [two_digits(hundreds), two_digits(number.wrapping_sub(hundreds.wrapping_mul(100)))]
}

/// The digits of a number below a hundred.
#[inline(always)]
const fn two_digits(number: u16) -> u16 {
    let tens = number.wrapping_mul(103) >> 10;
    (tens | number.wrapping_sub(tens.wrapping_mul(10)) << 8).wrapping_add(u16::from_le_bytes(*b"00"))
}

/// The upper half of a product.
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

    /// Asserts what lines records of these lengths have, one by one and together, and tells how many were made together.
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
            // Beyond a terabyte lines are made one by one.
            let expected = match digits {
                ..12 => 3500..,
                12 => 500..,
                _ => 0..,
            };
            assert!(expected.contains(&by_blocks), "{digits}: {by_blocks}");
        }
    }
}
