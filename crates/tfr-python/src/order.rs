//! The order in which a reader reads rows: [`Order`] divides an epoch between readers, [`Random`] shuffles.
//!
//! Everything here is a pure function of the data set, the seed, the epoch and the reader. So a position in an epoch is
//! one number, and a reader can start there without repeating what came before it.

use crate::dataset::{DataSet, Segment};

/// A generator of random numbers, the same on every machine and in every release: SplitMix64.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// Creates a generator from several numbers.
    pub(crate) fn new(seeds: [u64; 3]) -> Self {
        let mut state = 0;
        for seed in seeds {
            state = Self(state ^ seed).next();
        }
        Self(state)
    }

    /// Returns the next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns a uniform number below `end`, which is not 0, by Lemire's method.
    fn below(&mut self, end: u64) -> u64 {
        loop {
            let product = u128::from(self.next()) * u128::from(end);
            // The lowest products are rejected, so that every result has as many.
            if product as u64 >= end.wrapping_neg() % end {
                return (product >> 64) as u64;
            }
        }
    }

    /// Shuffles `items`, by Fisher and Yates.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }
}

/// Whether all readers get the same number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Equal {
    /// Readers may differ by one row.
    No,
    /// Up to one row less than the number of readers is left out of each epoch.
    Truncate,
    /// Up to one row less than the number of readers is read twice in each epoch.
    Repeat,
}

/// How the rows of an epoch are divided and ordered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    /// The seed of the shuffle, if any.
    pub(crate) seed: Option<u64>,
    /// The number of this reader.
    pub(crate) reader: u64,
    /// The number of readers, not 0.
    pub(crate) readers: u64,
    pub(crate) equal: Equal,
}

/// Separates the random numbers that order segments from those that order the rows of a window.
const SEGMENTS: u64 = 1;
const ROWS: u64 = 2;

impl Order {
    /// Returns the first row of this reader in the order of the epoch, and its number of rows.
    ///
    /// Readers get consecutive rows of the epoch's order. Their numbers of rows differ by one at most.
    fn range(&self, rows: u64) -> (u64, u64) {
        let cut = |reader: u64| (u128::from(rows) * u128::from(reader) / u128::from(self.readers)) as u64;
        let (start, end) = (cut(self.reader), cut(self.reader + 1));
        let len = match self.equal {
            Equal::No => end - start,
            Equal::Truncate => rows / self.readers,
            Equal::Repeat => rows.div_ceil(self.readers),
        };
        (start, len)
    }

    /// Returns the number of rows of this reader in an epoch.
    pub(crate) fn rows(&self, data: &DataSet) -> u64 {
        self.range(data.rows()).1
    }

    /// Returns the segments of this reader in an epoch without its first `skip` rows.
    pub(crate) fn segments(&self, data: &DataSet, epoch: u64, skip: u64) -> Vec<Segment> {
        let mut all = data.segments();
        if let Some(seed) = self.seed {
            Random::new([seed, epoch, SEGMENTS]).shuffle(&mut all);
        }
        let (start, len) = self.range(data.rows());
        // With `Repeat` the range may go beyond the last row: it continues with the first.
        let (mut skip, mut left) = (start + skip.min(len), len - skip.min(len));
        let mut mine = Vec::new();
        for segment in all.iter().cycle() {
            if left == 0 {
                break;
            }
            if skip >= segment.rows {
                skip -= segment.rows;
                continue;
            }
            let rows = (segment.rows - skip).min(left);
            mine.push(Segment { shard: segment.shard, first: segment.first + skip, rows });
            left -= rows;
            skip = 0;
        }
        mine
    }

    /// Returns the order of the rows of a window: of `rows` rows that begin at row `start` of this reader.
    pub(crate) fn window(&self, seed: u64, epoch: u64, start: u64, rows: usize) -> Vec<usize> {
        let window = start.wrapping_mul(self.readers).wrapping_add(self.reader);
        let mut order: Vec<usize> = (0..rows).collect();
        Random::new([seed ^ ROWS.rotate_right(8), epoch, window]).shuffle(&mut order);
        order
    }
}
