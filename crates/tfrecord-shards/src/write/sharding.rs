//! Assigns rows to shards.
//!
//! The rules are small state machines without I/O. They receive runs of records of any length, and return which pieces
//! of a run go to which shard. The result depends on the preceding records, never on where one run ends and the next
//! begins. So the same rows give the same shards for any batch size.

use std::num::NonZeroUsize;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// How the rows of a set are assigned to its shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Sharding {
    /// Exactly this many shards, balanced by rows.
    Count(NonZeroUsize),
    /// As many as needed to limit shards to this many framed bytes. Only a single longer record may exceed the limit.
    Bytes(u64),
    /// As many as needed to limit shards to this many rows.
    Rows(u64),
    /// TensorFlow's guideline for this number of reading hosts: ten shards per host, but no shard of less than 100 MiB
    /// of framed bytes unless it is the only one.
    Hosts(NonZeroUsize),
}

/// Minimum framed bytes of a shard under [`Sharding::Hosts`], where there is more than one shard. TensorFlow's guide
/// "Better performance with the tf.data API" asks for files of 100 MB or more, and for ten per host.
const HOST_SHARD_BYTES: u64 = 100 << 20;

/// Maximum number of shards per host under [`Sharding::Hosts`].
const SHARDS_PER_HOST: usize = 10;

impl Sharding {
    /// Resolves the sharding for records of this total length in framed bytes: [`Hosts`](Self::Hosts) becomes a number
    /// of shards.
    ///
    /// ```
    /// use std::num::NonZeroUsize;
    /// use tfrecord_shards::Sharding;
    ///
    /// let hosts = |hosts| NonZeroUsize::new(hosts).map(Sharding::Hosts);
    /// let count = |count| NonZeroUsize::new(count).map(Sharding::Count);
    /// let resolved = |hosts: Option<Sharding>, bytes| hosts.map(|hosts| hosts.resolve(bytes));
    /// assert_eq!(resolved(hosts(4), 100 << 30), count(40));
    /// assert_eq!(resolved(hosts(4), 1 << 30), count(10));
    /// assert_eq!(resolved(hosts(4), 5), count(1));
    /// ```
    #[must_use]
    pub fn resolve(self, framed_bytes: u64) -> Self {
        let Self::Hosts(hosts) = self else { return self };
        let most = hosts.get().saturating_mul(SHARDS_PER_HOST);
        let full = usize::try_from(framed_bytes / HOST_SHARD_BYTES).unwrap_or(usize::MAX);
        Self::Count(NonZeroUsize::new(full.min(most)).unwrap_or(NonZeroUsize::MIN))
    }
}

impl Sharding {
    /// Returns the number of shards that a set without rows has.
    pub fn least_shards(self) -> usize {
        if let Self::Count(shards) = self { shards.get() } else { 1 }
    }
}

impl Default for Sharding {
    /// 128 MiB: large enough to read a shard from a remote store as one stream, small enough for several shards per
    /// reader.
    fn default() -> Self {
        Self::Bytes(128 << 20)
    }
}

/// Consecutive records of a run that go to the same shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The shard's number, from 0.
    pub shard: usize,
    /// The records, counted from the start of the run. Never empty.
    pub records: Range<usize>,
}

/// The rows, or a part of the rows, that one shard gets in one round of a [`ShardDeal`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// The shard's number, from 0.
    pub shard: usize,
    /// Number of earlier rounds.
    pub round: u64,
    /// Number of rows before these in the shard's block of this round.
    pub start: usize,
    /// Number of rows.
    pub rows: usize,
    /// Whether these rows complete the round.
    pub ends_round: bool,
}

/// Collects pieces, merging adjacent ones of the same shard.
#[derive(Default)]
struct Pieces(Vec<Piece>);

impl Pieces {
    fn push(&mut self, shard: usize, records: Range<usize>) {
        match self.0.last_mut() {
            Some(last) if last.shard == shard => last.records.end = records.end,
            _ => self.0.push(Piece { shard, records }),
        }
    }
}

/// Assigns rows to a fixed number of shards round-robin, in blocks.
///
/// Each round gives every shard one block, shard 0 first. A block is a 32nd of the rows that a shard has so far, at
/// least one row and at most 256. So no shard is ever more than a block ahead of another, which is within 5 % once
/// shards have 20 rows. Blocks become long enough to be worth a separate write.
///
/// Where several inputs are assigned to the same shards, [each starts at a shard of its own](Self::of_input), so that their
/// last rounds, which may be incomplete, do not all go to the same shards.
///
/// ```
/// use std::num::NonZeroUsize;
/// use tfrecord_shards::{Piece, ShardDeal};
///
/// let mut deal = ShardDeal::new(NonZeroUsize::new(2).ok_or("two is not zero")?);
/// let pieces = deal.deal(3);
/// assert_eq!(pieces[0], Piece { shard: 0, records: 0..1 });
/// assert_eq!(pieces[1], Piece { shard: 1, records: 1..2 });
/// assert_eq!(pieces[2], Piece { shard: 0, records: 2..3 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct ShardDeal {
    shards: usize,
    /// The shard that gets the first block of each round.
    first: usize,
    /// Number of shards that have their block of this round.
    served: usize,
    /// Number of complete rounds.
    round: u64,
    /// Rows that every shard had before this round.
    rows_per_shard: u64,
    /// Rows that the current shard still gets in this round.
    left: usize,
}

impl ShardDeal {
    /// Maximum rows of a block: about 100 KiB of typical records.
    pub const MAX_BLOCK: usize = 256;
    /// A block is at most this fraction of a shard's rows, so that small sets are balanced too.
    const BLOCK_SHARE: u64 = 32;

    /// Creates an assignment to this many shards.
    pub fn new(shards: NonZeroUsize) -> Self {
        Self::of_input(shards, 0, NonZeroUsize::MIN)
    }

    /// Creates the assignment of one of several inputs. Their first shards are spread evenly.
    pub fn of_input(shards: NonZeroUsize, input: usize, inputs: NonZeroUsize) -> Self {
        let shards = shards.get();
        let first = (input % inputs) as u128 * shards as u128 / inputs.get() as u128;
        // Less than the number of shards.
        let first = usize::try_from(first).unwrap_or(0);
        let mut deal = Self { shards, first, served: 0, round: 0, rows_per_shard: 0, left: 0 };
        deal.left = deal.block();
        deal
    }

    /// Returns the shard that gets the next rows.
    fn shard(&self) -> usize {
        let until_last = self.shards - self.first;
        if self.served < until_last { self.first + self.served } else { self.served - until_last }
    }

    /// Returns the rows of a block in this round.
    fn block(&self) -> usize {
        usize::try_from(self.rows_per_shard / Self::BLOCK_SHARE)
            .map_or(Self::MAX_BLOCK, |rows| rows.clamp(1, Self::MAX_BLOCK))
    }

    /// Assigns the next `rows` rows.
    pub fn deal(&mut self, rows: usize) -> Vec<Piece> {
        let mut pieces = Pieces::default();
        let mut start = 0;
        while start < rows {
            let block = self.deal_block(rows - start);
            pieces.push(block.shard, start..start + block.rows);
            start += block.rows;
        }
        pieces.0
    }

    /// Assigns the next block, or as much of it as `rows` rows fill.
    pub fn deal_block(&mut self, rows: usize) -> Block {
        let rows = self.left.min(rows);
        let (shard, round, start) = (self.shard(), self.round, self.block() - self.left);
        self.left -= rows;
        let is_complete = self.left == 0;
        let ends_round = is_complete && self.served + 1 == self.shards;
        if ends_round {
            self.served = 0;
            self.round += 1;
            self.rows_per_shard += self.block() as u64;
        } else if is_complete {
            self.served += 1;
        }
        if is_complete {
            self.left = self.block();
        }
        Block { shard, round, start, rows, ends_round }
    }
}

/// Divides a run of records into as many shards as needed.
///
/// ```
/// use tfrecord_shards::{Piece, ShardCut};
///
/// // Records of 40, 40, 200 and 10 bytes, at most 100 bytes a shard.
/// let ends = [40, 80, 280, 290];
/// let mut cut = ShardCut::at_bytes(100);
/// let pieces = cut.cut(4, |record| ends[record]);
/// assert_eq!(pieces[0], Piece { shard: 0, records: 0..2 });
/// assert_eq!(pieces[1], Piece { shard: 1, records: 2..3 });
/// assert_eq!(pieces[2], Piece { shard: 2, records: 3..4 });
/// ```
#[derive(Debug, Clone)]
pub struct ShardCut {
    max_bytes: u64,
    max_rows: u64,
    shard: usize,
    bytes: u64,
    rows: u64,
}

impl ShardCut {
    /// Limits a shard to `max_bytes` framed bytes; a longer record gets a shard of its own.
    pub fn at_bytes(max_bytes: u64) -> Self {
        Self { max_bytes, max_rows: u64::MAX, shard: 0, bytes: 0, rows: 0 }
    }

    /// Limits a shard to `max_rows` records, at least one.
    pub fn at_rows(max_rows: u64) -> Self {
        Self { max_bytes: u64::MAX, max_rows: max_rows.max(1), shard: 0, bytes: 0, rows: 0 }
    }

    /// Divides the next `records` records. Record `i` ends at byte `record_end(i)` of the run, and ends must not
    /// decrease. `record_end` is called only where a shard may end, not for every record.
    pub fn cut(&mut self, records: usize, record_end: impl Fn(usize) -> usize) -> Vec<Piece> {
        let mut pieces = Pieces::default();
        let mut start = 0;
        while start < records {
            let start_byte = if start == 0 { 0 } else { record_end(start - 1) };
            let room = usize::try_from(self.max_rows - self.rows).unwrap_or(usize::MAX);
            let until = start + room.min(records - start);
            let fits =
                |record: usize| self.bytes.saturating_add((record_end(record) - start_byte) as u64) <= self.max_bytes;
            let mut end = partition_point(start..until, fits);
            if end == start && self.rows == 0 {
                end = start + 1;
            }
            if end > start {
                pieces.push(self.shard, start..end);
                self.rows += (end - start) as u64;
                self.bytes += (record_end(end - 1) - start_byte) as u64;
                start = end;
            }
            if start < records {
                self.shard += 1;
                self.rows = 0;
                self.bytes = 0;
            }
        }
        pieces.0
    }
}

/// Returns the first index of `range` for which `holds` is false. `holds` must be true up to some index and false
/// after.
pub(crate) fn partition_point(range: Range<usize>, holds: impl Fn(usize) -> bool) -> usize {
    let Range { mut start, mut end } = range;
    while start < end {
        let middle = start + (end - start) / 2;
        if holds(middle) {
            start = middle + 1;
        } else {
            end = middle;
        }
    }
    start
}

/// Assigns a contiguous range of rows to every shard, so that an ordered input stays ordered over the shards. The
/// number of rows must be known. Shards differ by at most one row.
///
/// ```
/// use std::num::NonZeroUsize;
/// use tfrecord_shards::{Piece, ShardRanges};
///
/// let mut ranges = ShardRanges::new(NonZeroUsize::new(2).ok_or("two is not zero")?, 5);
/// assert_eq!(ranges.place(2), [Piece { shard: 0, records: 0..2 }]);
/// assert_eq!(ranges.place(3), [Piece { shard: 1, records: 0..3 }]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct ShardRanges {
    shards: usize,
    total_rows: u64,
    shard: usize,
    rows: u64,
}

impl ShardRanges {
    /// Divides `total_rows` rows among this many shards. Excess rows go to the last shard.
    pub fn new(shards: NonZeroUsize, total_rows: u64) -> Self {
        Self { shards: shards.get(), total_rows, shard: 0, rows: 0 }
    }

    /// Returns the exclusive end of the current shard's rows.
    fn shard_end(&self) -> u64 {
        if self.shard + 1 == self.shards {
            return u64::MAX;
        }
        let end = u128::from(self.total_rows) * (self.shard as u128 + 1) / self.shards as u128;
        u64::try_from(end).unwrap_or(u64::MAX)
    }

    /// Assigns the next `rows` rows.
    pub fn place(&mut self, rows: usize) -> Vec<Piece> {
        let mut pieces = Pieces::default();
        let mut start = 0;
        while start < rows {
            let room = usize::try_from(self.shard_end() - self.rows).unwrap_or(usize::MAX);
            let end = start + room.min(rows - start);
            if end > start {
                pieces.push(self.shard, start..end);
                self.rows += (end - start) as u64;
                start = end;
            }
            if start < rows {
                self.shard += 1;
            }
        }
        pieces.0
    }
}

/// Any of the rules, for a writer that has the encoded records.
#[derive(Debug, Clone)]
pub enum ShardRule {
    /// Blocks, round-robin, to a fixed number of shards.
    Deal(ShardDeal),
    /// As many shards as needed.
    Cut(ShardCut),
    /// Contiguous ranges of a known number of rows.
    Ranges(ShardRanges),
}

impl ShardRule {
    /// Returns the rule of a set whose number of rows is unknown. [`Sharding::Hosts`] depends on the set's length; a
    /// caller that knows the length [resolves](Sharding::resolve) it first. Here, it gives the smallest shards allowed.
    pub fn new(sharding: Sharding) -> Self {
        match sharding {
            Sharding::Count(shards) => Self::Deal(ShardDeal::new(shards)),
            Sharding::Bytes(max) => Self::Cut(ShardCut::at_bytes(max)),
            Sharding::Rows(max) => Self::Cut(ShardCut::at_rows(max)),
            Sharding::Hosts(_) => Self::Cut(ShardCut::at_bytes(HOST_SHARD_BYTES)),
        }
    }

    /// Assigns the next `records` records; record `i` ends at byte `record_end(i)` of the run.
    pub fn place(&mut self, records: usize, record_end: impl Fn(usize) -> usize) -> Vec<Piece> {
        match self {
            Self::Deal(deal) => deal.deal(records),
            Self::Cut(cut) => cut.cut(records, record_end),
            Self::Ranges(ranges) => ranges.place(records),
        }
    }

    /// Whether a shard is complete once records go to a later one.
    pub(crate) fn is_sequential(&self) -> bool {
        !matches!(self, Self::Deal(_))
    }
}

#[cfg(test)]
mod tests;
