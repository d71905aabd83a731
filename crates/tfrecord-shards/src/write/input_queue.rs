//! [`InputQueue`]: the encoded rows of one input that are next to be appended, assigned to shards.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_tfrecord::RecordBuffer;

use crate::write::sharding::{Piece, ShardRule};

/// The units of one input that are appended next, in order.
#[derive(Clone)]
pub(crate) struct InputQueue {
    rule: ShardRule,
    records_per_row: usize,
    /// Whether the input takes turns with others.
    takes_turns: bool,
    /// Rows of the input up to the last unit that was added.
    rows: u64,
    /// The unit being appended.
    current: Option<PlacedUnit>,
    later: VecDeque<RecordBuffer>,
    /// Total number of rows, if it is known.
    end: Option<u64>,
}

/// Records and the shards they are assigned to.
#[derive(Clone)]
struct PlacedUnit {
    records: Arc<RecordBuffer>,
    placed: Placed,
    /// Number of pieces taken.
    taken: usize,
}

/// The assignment of records to shards.
#[derive(Clone, Default)]
struct Placed {
    pieces: Vec<Piece>,
    /// Number of pieces before the end of each turn, if inputs take turns.
    turn_ends: VecDeque<usize>,
}

/// Pieces to append now.
pub(crate) struct Turn {
    pub(crate) records: Arc<RecordBuffer>,
    pub(crate) pieces: Vec<Piece>,
    /// Whether the records of the next input follow.
    pub(crate) is_last: bool,
}

impl InputQueue {
    /// Creates an empty queue. If the input `takes_turns`, the rule must be [`ShardRule::Deal`], and a turn is a round.
    pub(crate) fn new(rule: ShardRule, takes_turns: bool) -> Self {
        Self { rule, records_per_row: 1, takes_turns, rows: 0, current: None, later: VecDeque::new(), end: None }
    }

    pub(crate) fn set_records_per_row(&mut self, records: usize) {
        self.records_per_row = records.max(1);
    }

    pub(crate) fn is_sequential(&self) -> bool {
        self.rule.is_sequential()
    }

    /// Returns the number of rows before the next unit to add.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    pub(crate) fn set_end(&mut self, rows: Option<u64>) {
        self.end = rows;
    }

    /// Whether all records are taken.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_empty() && self.end == Some(self.rows)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.current.is_none() && self.later.is_empty()
    }

    /// Adds the next unit.
    pub(crate) fn push(&mut self, records: RecordBuffer) {
        self.add_rows(records.len());
        self.later.push_back(records);
    }

    /// Assigns the records of a buffer from this one on, which are the next rows of the input, and counts them as
    /// taken.
    pub(crate) fn place_next(&mut self, records: &RecordBuffer, start: usize) -> Vec<Piece> {
        self.add_rows(records.len() - start);
        self.place(records, start).pieces
    }

    /// Adds the remaining pieces of a unit that is [placed](Self::place_next) already.
    pub(crate) fn push_placed(&mut self, records: RecordBuffer, pieces: Vec<Piece>) {
        let placed = Placed { pieces, turn_ends: VecDeque::new() };
        self.current = Some(PlacedUnit { records: Arc::new(records), placed, taken: 0 });
    }

    /// Takes at most this many pieces that come next.
    pub(crate) fn next_turn(&mut self, most: usize) -> Option<Turn> {
        let mut unit = match self.current.take() {
            Some(unit) => unit,
            None => {
                let records = self.later.pop_front()?;
                PlacedUnit { placed: self.place(&records, 0), records: Arc::new(records), taken: 0 }
            }
        };
        let PlacedUnit { records, placed: Placed { pieces, turn_ends }, taken } = &mut unit;
        let turn_end = turn_ends.front().copied();
        let end = turn_end.unwrap_or(pieces.len()).min(taken.saturating_add(most));
        let now = pieces.get(*taken..end).unwrap_or_default().to_vec();
        *taken = end;
        let is_last = turn_end == Some(end);
        if is_last {
            turn_ends.pop_front();
        }
        let is_used_up = end == pieces.len();
        let records = Arc::clone(records);
        self.current = (!is_used_up).then_some(unit);
        Some(Turn { records, pieces: now, is_last })
    }

    fn add_rows(&mut self, records: usize) {
        self.rows += (records / self.records_per_row) as u64;
    }

    /// Assigns the records of a buffer to shards, starting with record `start`.
    fn place(&mut self, records: &RecordBuffer, start: usize) -> Placed {
        let count = records.len() - start;
        let mut placed = Placed::default();
        match &mut self.rule {
            ShardRule::Deal(deal) => {
                // The records of a row stay together.
                let (rows, per_row) = (count / self.records_per_row, self.records_per_row);
                let mut row = 0;
                while row < rows {
                    let block = deal.deal_block(rows - row);
                    let records = row * per_row..(row + block.rows) * per_row;
                    match placed.pieces.last_mut() {
                        Some(last) if last.shard == block.shard && !self.takes_turns => last.records.end = records.end,
                        _ => placed.pieces.push(Piece { shard: block.shard, records }),
                    }
                    row += block.rows;
                    if block.ends_round && self.takes_turns {
                        placed.turn_ends.push_back(placed.pieces.len());
                    }
                }
            }
            rule => {
                let start_byte = records.record_start(start);
                placed.pieces = rule.place(count, |record| records.record_end(start + record) - start_byte);
            }
        }
        for Piece { records, .. } in &mut placed.pieces {
            *records = records.start + start..records.end + start;
        }
        placed
    }
}
