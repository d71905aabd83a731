//! [`Feed`]: which records the rows of a reader are, in the order in which they are needed.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::dataset::Segment;
use crate::error::Result;
use crate::order::{Shuffle, Turns, Window};
use crate::plan::Plan;
use crate::segment::SegmentReader;

/// Most ranges of records in a piece.
const RANGES: usize = 65_536;

/// Records of a segment, to be decoded.
pub(crate) struct Piece<'a> {
    pub(crate) block: Arc<Block<'a>>,
    /// The number of pieces of the block before this one.
    turn: u64,
    /// Ranges of records of the file, in ascending order.
    pub(crate) wanted: Vec<Range<u64>>,
    /// The number of records.
    pub(crate) rows: u64,
}

/// A segment whose pieces are decoded one after the other, by one reader. Other segments may be decoded at the same time.
pub(crate) struct Block<'a> {
    pub(crate) segment: Segment,
    state: Mutex<State<'a>>,
    changed: Condvar,
}

#[derive(Default)]
struct State<'a> {
    /// The number of pieces that are done.
    done: u64,
    reader: Option<SegmentReader<'a>>,
}

impl<'a> Piece<'a> {
    /// Whether it is the first piece of its block, whose reader is not open yet.
    pub(crate) fn is_first(&self) -> bool {
        self.turn == 0
    }

    /// Returns the records that the reader of the piece may read: up to the end of its segment.
    pub(crate) fn records(&self) -> Range<u64> {
        let Segment { first, rows, .. } = self.block.segment;
        self.wanted.first().map_or(first, |range| range.start)..first + rows
    }

    /// Waits for the pieces before this one, and returns their reader, if any. The next piece waits until the turn is dropped.
    pub(crate) fn begin(&self) -> Turn<'_, 'a> {
        let mut state = self.block.lock();
        while state.done < self.turn {
            state = self.block.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let reader = state.reader.take();
        Turn { block: &self.block, reader }
    }
}

/// The turn of a piece. The reader that is left in it goes on to the next piece.
pub(crate) struct Turn<'b, 'a> {
    block: &'b Block<'a>,
    pub(crate) reader: Option<SegmentReader<'a>>,
}

impl Drop for Turn<'_, '_> {
    fn drop(&mut self) {
        let mut state = self.block.lock();
        state.reader = self.reader.take();
        state.done += 1;
        self.block.changed.notify_all();
    }
}

impl<'a> Block<'a> {
    fn lock(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lane: segments one after the other, of which rows are read in ascending order.
struct Lane<'a> {
    segments: Vec<Segment>,
    /// The row of the lane at which each segment begins.
    starts: Vec<u64>,
    /// The segment that was read last, the number of its pieces, and the record after the last of them.
    open: Option<(usize, Arc<Block<'a>>, u64, u64)>,
}

impl<'a> Lane<'a> {
    fn new(segments: Vec<Segment>) -> Self {
        let starts = segments.iter().scan(0, |next, segment| {
            let start = *next;
            *next += segment.rows;
            Some(start)
        });
        Self { starts: starts.collect(), segments, open: None }
    }

    /// Divides rows of the lane between segments: the number of a segment, and a range of records of its file.
    fn divide(&self, mut rows: Range<u64>) -> Vec<(usize, Range<u64>)> {
        let mut parts = Vec::new();
        while rows.start < rows.end {
            let number = self.starts.partition_point(|start| *start <= rows.start).saturating_sub(1);
            let (Some(segment), Some(start)) = (self.segments.get(number), self.starts.get(number)) else { break };
            let end = rows.end.min(start + segment.rows);
            if end <= rows.start {
                break;
            }
            let first = segment.first + (rows.start - start);
            parts.push((number, first..first + (end - rows.start)));
            rows.start = end;
        }
        parts
    }

    /// Returns the piece of these records of a segment.
    fn piece(&mut self, number: usize, wanted: Vec<Range<u64>>) -> Option<Piece<'a>> {
        let (first, end) = (wanted.first()?.start, wanted.last()?.end);
        let rows = wanted.iter().map(|range| range.end - range.start).sum();
        let (block, turn) = match self.open.take() {
            Some((open, block, pieces, read)) if open == number && read <= first => (block, pieces),
            _ => {
                let segment = *self.segments.get(number)?;
                (Arc::new(Block { segment, state: Mutex::default(), changed: Condvar::new() }), 0)
            }
        };
        self.open = Some((number, Arc::clone(&block), turn + 1, end));
        Some(Piece { block, turn, wanted, rows })
    }
}

/// Returns the pieces to decode for the steps of a reader, over several epochs.
pub(crate) struct Feed<'a> {
    plan: &'a Plan,
    turns: std::iter::Peekable<Turns>,
    /// The epoch whose lanes are read, and those that have been.
    epoch: Option<u64>,
    unread: BTreeMap<u64, Vec<Segment>>,
    lanes: BTreeMap<u64, Lane<'a>>,
    pieces: VecDeque<Piece<'a>>,
    /// Without a shuffle: the segment and the records of the next piece, which may get more.
    begun: Option<(usize, Vec<Range<u64>>)>,
    /// With a shuffle: windows whose rows were not taken yet.
    windows: VecDeque<Window>,
}

impl<'a> Feed<'a> {
    pub(crate) fn new(plan: &'a Plan, turns: Turns) -> Self {
        Self {
            plan,
            turns: turns.peekable(),
            epoch: None,
            unread: BTreeMap::new(),
            lanes: BTreeMap::new(),
            pieces: VecDeque::new(),
            begun: None,
            windows: VecDeque::new(),
        }
    }

    /// Returns the next piece.
    pub(crate) fn next(&mut self) -> Option<Piece<'a>> {
        while self.pieces.is_empty() && self.more() {}
        self.pieces.pop_front()
    }

    /// Returns the next window, with a shuffle.
    pub(crate) fn next_window(&mut self) -> Result<Option<Window>> {
        while self.windows.is_empty() && self.more() {}
        Ok(self.windows.pop_front())
    }

    /// Adds the pieces of more steps; false at the end.
    fn more(&mut self) -> bool {
        let Some((epoch, step)) = self.turns.next() else {
            let is_begun = self.begun.is_some();
            self.finish_piece();
            return is_begun;
        };
        if self.epoch != Some(epoch) {
            self.finish_piece();
            self.epoch = Some(epoch);
            self.unread = (0..).zip(self.plan.order.lanes(&self.plan.data, epoch)).collect();
            self.lanes.clear();
        }
        match &self.plan.order.shuffle {
            None => self.add_in_order(step),
            Some(shuffle) => self.add_window(shuffle, epoch, step),
        }
        true
    }

    fn lane(&mut self, number: u64) -> &mut Lane<'a> {
        let segments = &mut self.unread;
        self.lanes.entry(number).or_insert_with(|| Lane::new(segments.remove(&number).unwrap_or_default()))
    }

    fn finish_piece(&mut self) {
        if let Some((number, wanted)) = self.begun.take() {
            let piece = self.lane(0).piece(number, wanted);
            self.pieces.extend(piece);
        }
    }

    fn add_in_order(&mut self, step: u64) {
        for rows in self.plan.order.in_order(step) {
            for (number, records) in self.lane(0).divide(rows) {
                match &mut self.begun {
                    Some((open, wanted)) if *open == number && wanted.len() < RANGES => match wanted.last_mut() {
                        Some(last) if last.end == records.start => {
                            last.end = records.end;
                            continue;
                        }
                        Some(last) if last.end < records.start => {
                            wanted.push(records);
                            continue;
                        }
                        _ => {}
                    },
                    _ => {}
                }
                self.finish_piece();
                self.begun = Some((number, vec![records]));
            }
        }
    }

    fn add_window(&mut self, shuffle: &Shuffle, epoch: u64, step: u64) {
        let order = &self.plan.order;
        let number = order.window_of(shuffle, step);
        let mut steps = vec![step];
        let is_in = |next: &(u64, u64)| next.0 == epoch && order.window_of(shuffle, next.1) == number;
        while let Some((_, step)) = self.turns.next_if(is_in) {
            steps.push(step);
        }
        let window = order.window(shuffle, epoch, &steps);
        for (number, rows) in &window.lanes {
            let lane = self.lane(*number);
            let mut wanted: Option<(usize, Vec<Range<u64>>)> = None;
            let mut found = Vec::new();
            for rows in rows {
                for (segment, records) in lane.divide(rows.clone()) {
                    match &mut wanted {
                        Some((open, wanted)) if *open == segment => wanted.push(records),
                        _ => found.extend(wanted.replace((segment, vec![records]))),
                    }
                }
            }
            found.extend(wanted);
            let pieces: Vec<_> =
                found.into_iter().filter_map(|(segment, wanted)| lane.piece(segment, wanted)).collect();
            self.pieces.extend(pieces);
        }
        self.windows.push_back(window);
    }
}
