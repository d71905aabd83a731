//! The order of rows: [`Order`] divides an epoch into steps of all ranks, and a step between the ranks. [`Random`] shuffles.
//!
//! Everything here is a pure function of the data set, the seed, the epoch and the global batch. Which rows a step has does
//! not depend on the number of ranks, so a position is one number, and another number of ranks can continue there.

use std::collections::BTreeMap;
use std::ops::Range;

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

/// Whether all ranks get the same number of rows in the last step of an epoch, which may be smaller than others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Equal {
    /// Ranks may differ by one row.
    No,
    /// Up to one row less than the number of ranks is left out of each epoch.
    Truncate,
    /// Up to one row less than the number of ranks is read twice in each epoch.
    Repeat,
}

/// The shuffle of an epoch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shuffle {
    pub(crate) seed: u64,
    /// The number of steps whose rows are shuffled together, not 0. They have fewer than 2^31 rows.
    pub(crate) window: u64,
    /// The number of places from which a window has rows, 1 to the global batch.
    pub(crate) lanes: u64,
}

/// How the rows of an epoch are ordered and divided.
///
/// A step has `global_batch` consecutive rows of the epoch's order, the last one the rest. Each rank has consecutive rows
/// of each step.
///
/// Without a shuffle, the epoch's order is that of the files. A shuffle divides the files into blocks, puts them in random
/// order, and cuts the result into lanes of about equal length. Each step has its next rows from every lane: consecutive ones
/// of the step from each, so that a rank reads only some of the lanes. In each lane, the rows of a window are in random
/// order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    /// The number of rows of the data set.
    pub(crate) rows: u64,
    /// The number of rows of a step, a multiple of the number of ranks.
    pub(crate) global_batch: u64,
    pub(crate) rank: u64,
    /// The number of ranks, not 0.
    pub(crate) ranks: u64,
    pub(crate) equal: Equal,
    /// Whether a last step that is smaller than others is left out.
    pub(crate) drop_remainder: bool,
    pub(crate) shuffle: Option<Shuffle>,
}

/// Separates the random numbers that order segments, the rows of a lane, and the rows of a batch.
const SEGMENTS: u64 = 1;
const ROWS: u64 = 2;
const BATCH: u64 = 3;

/// Returns where a part begins, if as many rows are divided into parts of about equal length.
fn cut(rows: u64, part: u64, parts: u64) -> u64 {
    (u128::from(rows) * u128::from(part) / u128::from(parts)) as u64
}

/// The rows of a rank in some steps of a window.
#[derive(Debug)]
pub(crate) struct Window {
    /// For each lane, in order, the rows to read, as rows of the lane.
    pub(crate) lanes: Vec<(u64, Vec<Range<u64>>)>,
    /// The steps. The rows of each are numbered in the order of `lanes`.
    pub(crate) steps: Vec<(u64, Vec<u32>)>,
    /// The number of rows to read.
    pub(crate) rows: u64,
}

/// The rows of a lane in a window.
struct LaneRows {
    /// The row for each place.
    order: Vec<u32>,
    /// The number of each row among those that are read.
    numbers: Vec<u32>,
}

/// Instead of the number of a row that is not read.
const UNREAD: u32 = u32::MAX;

impl Order {
    /// The number of steps with `global_batch` rows.
    fn whole(&self) -> u64 {
        self.rows / self.global_batch
    }

    /// The number of rows after the last of these steps.
    fn rest(&self) -> u64 {
        self.rows % self.global_batch
    }

    fn rows_of(&self, step: u64) -> u64 {
        if step < self.whole() { self.global_batch } else { self.rest() }
    }

    /// Returns the number of rows that all ranks together read in a step.
    fn read_in(&self, step: u64) -> u64 {
        let rows = self.rows_of(step);
        match self.equal {
            _ if step < self.whole() => rows,
            _ if self.drop_remainder => 0,
            Equal::No => rows,
            Equal::Truncate => rows - rows % self.ranks,
            Equal::Repeat => rows.div_ceil(self.ranks) * self.ranks,
        }
    }

    /// Returns the places of this rank in a step. With [`Equal::Repeat`], places may go beyond the last row.
    fn share(&self, step: u64) -> Range<u64> {
        let rows = self.read_in(step);
        cut(rows, self.rank, self.ranks)..cut(rows, self.rank + 1, self.ranks)
    }

    /// Returns the number of steps of an epoch, which does not depend on the number of ranks.
    pub(crate) fn all_steps(&self) -> u64 {
        self.whole() + u64::from(self.rest() > 0 && !self.drop_remainder)
    }

    /// Returns the number of steps of an epoch in which this rank has rows.
    pub(crate) fn steps(&self) -> u64 {
        self.whole() + u64::from(!self.share(self.whole()).is_empty())
    }

    /// Returns the number of rows of this rank in an epoch.
    pub(crate) fn rank_rows(&self) -> u64 {
        let rest = self.share(self.whole());
        self.whole() * (self.global_batch / self.ranks) + (rest.end - rest.start)
    }

    /// Returns the number of rows of this rank in a step.
    pub(crate) fn len(&self, step: u64) -> usize {
        let share = self.share(step);
        (share.end - share.start) as usize
    }

    /// Returns the rows of this rank in a step: each by its step and its place in the step. Rows that are read twice are
    /// those of the step before.
    fn places(&self, step: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let (whole, rows) = (self.whole(), self.rows_of(step));
        self.share(step).map(move |place| match place.checked_sub(rows) {
            None => (step, place),
            Some(_) if whole == 0 => (step, place % rows),
            Some(beyond) => (whole - 1, beyond),
        })
    }

    /// Returns the rows of this rank in a step as rows of the epoch, without a shuffle.
    pub(crate) fn in_order(&self, step: u64) -> Vec<Range<u64>> {
        joined(self.places(step).map(|(step, place)| step * self.global_batch + place))
    }

    /// Returns the segments of an epoch, in order, for each lane.
    pub(crate) fn lanes(&self, data: &DataSet, epoch: u64) -> Vec<Vec<Segment>> {
        let mut all = data.segments();
        let Some(Shuffle { seed, lanes, .. }) = self.shuffle else { return vec![all] };
        Random::new([seed, epoch, SEGMENTS]).shuffle(&mut all);
        let start = |lane: u64| self.whole() * cut(self.global_batch, lane, lanes) + cut(self.rest(), lane, lanes);
        let mut segments = all.into_iter();
        let mut next = segments.next();
        let lane = |lane: u64| {
            let (mut left, mut mine) = (start(lane + 1) - start(lane), Vec::new());
            while let Some(segment) = next.filter(|_| left > 0) {
                let rows = segment.rows.min(left);
                mine.push(Segment { rows, ..segment });
                left -= rows;
                next = if rows == segment.rows {
                    segments.next()
                } else {
                    Some(Segment { first: segment.first + rows, rows: segment.rows - rows, ..segment })
                };
            }
            mine
        };
        (0..lanes).map(lane).collect()
    }

    /// Returns the window that has a step, counted from 0. The last, smaller step is in the window of the one before.
    pub(crate) fn window_of(&self, shuffle: &Shuffle, step: u64) -> u64 {
        let last = self.whole().div_ceil(shuffle.window).saturating_sub(1);
        (step / shuffle.window).min(last)
    }

    /// Returns the rows of this rank in these steps of a window.
    pub(crate) fn window(&self, shuffle: &Shuffle, epoch: u64, steps: &[u64]) -> Window {
        let &Shuffle { seed, window: window_steps, lanes } = shuffle;
        let window = steps.first().map_or(0, |step| self.window_of(shuffle, *step));
        let (first, whole) = (window * window_steps, self.whole());
        let is_last = self.window_of(shuffle, whole) == window;
        let end = if is_last { whole } else { first + window_steps };
        let in_lane = |rows: u64, lane: u64| cut(rows, lane + 1, lanes) - cut(rows, lane, lanes);
        let mut found: BTreeMap<u64, LaneRows> = BTreeMap::new();
        let mut rows_of_steps = Vec::with_capacity(steps.len());
        for step in steps {
            let mut rows = Vec::with_capacity(self.len(*step));
            for (of, place) in self.places(*step) {
                let in_step = self.rows_of(of);
                let lane = ((u128::from(place) + 1) * u128::from(lanes) - 1) / u128::from(in_step);
                let lane = lane as u64;
                let each = in_lane(self.global_batch, lane);
                let cell = (of - first) * each + place - cut(in_step, lane, lanes);
                let of_lane = found.entry(lane).or_insert_with(|| {
                    let rest = if is_last { in_lane(self.rest(), lane) } else { 0 };
                    let mut order: Vec<_> = (0..((end - first) * each + rest) as u32).collect();
                    let number = window.wrapping_mul(lanes).wrapping_add(lane);
                    Random::new([seed ^ ROWS.rotate_right(8), epoch, number]).shuffle(&mut order);
                    LaneRows { numbers: vec![UNREAD; order.len()], order }
                });
                let row = of_lane.order.get(cell as usize).copied().unwrap_or_default();
                if let Some(number) = of_lane.numbers.get_mut(row as usize) {
                    *number = 0;
                }
                rows.push((lane as u32, row));
            }
            rows_of_steps.push((*step, rows));
        }
        let (mut read, mut wanted) = (0, Vec::with_capacity(found.len()));
        for (lane, of_lane) in &mut found {
            let start = first * in_lane(self.global_batch, *lane);
            let rows = of_lane.numbers.iter().enumerate().filter(|(_, number)| **number != UNREAD);
            wanted.push((*lane, joined(rows.map(|(row, _)| start + row as u64))));
            for number in of_lane.numbers.iter_mut().filter(|number| **number != UNREAD) {
                *number = read;
                read += 1;
            }
        }
        let number = |(lane, row): (u32, u32)| found.get(&u64::from(lane))?.numbers.get(row as usize).copied();
        let numbered = rows_of_steps.into_iter().map(|(step, rows)| {
            let mut rows: Vec<_> = rows.into_iter().filter_map(number).collect();
            if lanes > 1 {
                // They are in the order of the lanes.
                let batch = step.wrapping_mul(self.ranks).wrapping_add(self.rank);
                Random::new([seed ^ BATCH.rotate_right(8), epoch, batch]).shuffle(&mut rows);
            }
            (step, rows)
        });
        Window { steps: numbered.collect(), lanes: wanted, rows: u64::from(read) }
    }
}

/// Joins numbers that follow each other.
fn joined(numbers: impl Iterator<Item = u64>) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some(last) if last.end == number => last.end += 1,
            _ => ranges.push(number..number + 1),
        }
    }
    ranges
}

/// The steps of a worker: each with the number of the worker among the steps of its rank, over several epochs.
#[derive(Debug, Clone)]
pub(crate) struct Turns {
    /// The number of steps of an epoch in which the rank has rows.
    steps: u64,
    /// The epoch before which they end.
    end: Option<u64>,
    workers: u64,
    /// The epoch and the step of the next.
    next: (u64, u64),
}

impl Turns {
    /// Returns the first step with rows of this rank, from a position on.
    pub(crate) fn first(order: &Order, (epoch, step): (u64, u64)) -> (u64, u64) {
        let all = order.all_steps().max(1);
        let (epoch, step) = (epoch.saturating_add(step / all), step % all);
        // In the last step, this rank may have no rows.
        if step < order.steps() { (epoch, step) } else { (epoch.saturating_add(1), 0) }
    }

    /// The first worker has the first step from `start` on.
    pub(crate) fn new(order: &Order, start: (u64, u64), end: Option<u64>, worker: u64, workers: u64) -> Self {
        let mut turns = Self { steps: order.steps(), end, workers, next: Self::first(order, start) };
        turns.go_on(worker);
        turns
    }

    fn go_on(&mut self, steps: u64) {
        let (epoch, step) = (self.next.0, self.next.1.saturating_add(steps));
        let all = self.steps.max(1);
        self.next = (epoch.saturating_add(step / all), step % all);
    }

    /// Returns the position after one more step of each worker. It is the end of an epoch rather than the start of the next.
    pub(crate) fn after_all(&self, (epoch, step): (u64, u64)) -> (u64, u64) {
        let step = step.saturating_add(self.workers);
        let most = self.end.map_or(u64::MAX, |end| end.saturating_sub(1)).saturating_sub(epoch);
        let whole = (step - 1).checked_div(self.steps).unwrap_or(0).min(most);
        (epoch.saturating_add(whole), step - whole * self.steps)
    }
}

impl Iterator for Turns {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        let next = self.next;
        if self.steps == 0 || self.end.is_some_and(|end| next.0 >= end) {
            return None;
        }
        self.go_on(self.workers);
        Some(next)
    }
}
