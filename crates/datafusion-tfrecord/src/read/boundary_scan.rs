//! [`BoundaryScan`]: the record-boundary scan, which finds where records begin in a file without an index.
//!
//! A record contains its length, but nothing marks where one begins: a payload may itself contain framed records. A
//! position is certain only if a chain of headers leads there from the start of the file. Following that chain takes
//! a fraction of the time of decoding, and pieces of it are scanned in parallel.
//!
//! Each piece starts at a guess, the first valid record after its cut. If a piece ends exactly where the next one
//! began, that guess was right, provided the one before was. If not, the next piece is scanned again from the
//! position that is certain.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::{Bytes, BytesMut};
use datafusion_common_runtime::SpawnedTask;
use futures::future::{BoxFuture, Shared, WeakShared};
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::{GetOptions, ObjectMeta, ObjectStore};
use tfr_files::{LocalFile, OpenFile};
use tfrecord_framing::{FOOTER_LEN, HEADER_LEN, Position, RecordScanner, Records, masked_crc32c};

/// Bytes to read at a time.
const BLOCK_LEN: usize = 1 << 20;

/// Bytes to read at a time if records are longer than a block.
const SPARSE_LEN: usize = 4 << 10;

/// How far after a cut to look for a record. If there is none, the scan of the piece before continues into this one.
const SEARCH_LEN: u64 = 16 << 20;

/// The first record boundary at or after each cut of a file; `None` if the file must be read in one piece.
pub(super) type Boundaries = Option<Arc<[Position]>>;

/// Finds where an uncompressed local file can be split: once, for all parts of the file.
///
/// All callers wait for the same tasks. The tasks do not depend on any caller to progress, and stop when all callers
/// are gone.
#[derive(Clone)]
pub(super) struct BoundaryScan {
    /// Where the file is to be split: byte offsets, in order.
    cuts: Arc<[u64]>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    done: OnceLock<Boundaries>,
    running: Mutex<Option<WeakShared<BoxFuture<'static, Boundaries>>>>,
}

impl BoundaryScan {
    pub(super) fn new(cuts: impl Into<Arc<[u64]>>) -> Self {
        Self { cuts: cuts.into(), state: Arc::default() }
    }

    /// Returns the requested split points.
    pub(super) fn cuts(&self) -> &[u64] {
        &self.cuts
    }

    /// Finds the boundaries, or waits for the caller that does.
    pub(super) async fn boundaries(&self, store: &Arc<dyn ObjectStore>, meta: &ObjectMeta) -> Boundaries {
        if let Some(done) = self.state.done.get() {
            return done.clone();
        }
        let boundaries = self.join_or_start(store, meta).await;
        self.state.done.get_or_init(|| boundaries).clone()
    }

    fn join_or_start(&self, store: &Arc<dyn ObjectStore>, meta: &ObjectMeta) -> Shared<BoxFuture<'static, Boundaries>> {
        let mut running = self.state.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(joined) = running.as_ref().and_then(WeakShared::upgrade) {
            return joined;
        }
        let (store, meta, cuts) = (Arc::clone(store), meta.clone(), Arc::clone(&self.cuts));
        // A separate task, so that it progresses whichever caller is polled.
        let task = SpawnedTask::spawn(async move { scan(&store, &meta, cuts).await });
        let started = async move { task.await.ok().flatten() }.boxed().shared();
        *running = started.downgrade();
        started
    }
}

/// Stops work on other threads when dropped.
#[derive(Default)]
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Scans all pieces in parallel, up to the last cut. Errors are ignored: reading the file fails again, with a better
/// message.
async fn scan(store: &Arc<dyn ObjectStore>, meta: &ObjectMeta, cuts: Arc<[u64]>) -> Boundaries {
    let mut options = GetOptions::default();
    let open = OpenFile::ask(&mut options);
    store.get_opts(&meta.location, options).await.ok()?;
    let file = open.file()?;
    let stop = StopOnDrop::default();
    let scan = PieceScan { file, size: meta.size, stopped: Arc::clone(&stop.0) };
    let stops = stops(&cuts, std::thread::available_parallelism().map_or(1, NonZeroUsize::get));
    let pieces = stops.iter().enumerate().map(|(piece, until)| {
        let (scan, from, until) = (scan.clone(), piece.checked_sub(1).map(|before| stops[before]), *until);
        SpawnedTask::spawn_blocking(move || scan.piece(from, until))
    });
    let pieces: Vec<_> = pieces.collect();
    let scanned = futures::stream::iter(pieces).then(|piece| piece);
    let scanned: Vec<Option<Piece>> = scanned.try_collect().await.ok()?;
    SpawnedTask::spawn_blocking(move || scan.join(&stops, &cuts, &scanned)).await.ok().flatten()
}

/// Returns the ends of the pieces to scan: the cuts and, if there are fewer pieces than threads, points between them,
/// since the partitions wait for the whole scan.
fn stops(cuts: &[u64], threads: usize) -> Vec<u64> {
    let parts = threads.div_ceil(cuts.len().max(1)) as u128;
    let mut stops = Vec::new();
    let mut from = 0;
    for cut in cuts {
        // Computed as u128, so that no product overflows.
        let part = |part: u128| from + (u128::from(cut - from) * part / parts) as u64;
        stops.extend((1..=parts).map(part));
        from = *cut;
    }
    stops.dedup();
    stops
}

/// A scan from one possible start of a record to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    start: u64,
    /// Where it ended, and the number of records it passed; `None` if it met a damaged header.
    end: Option<Position>,
}

#[derive(Clone)]
struct PieceScan {
    file: Arc<LocalFile>,
    size: u64,
    stopped: Arc<AtomicBool>,
}

impl PieceScan {
    /// Scans to the first header at or after `until`, from the start of the file, or from the first valid record
    /// after `from` if there is one nearby.
    fn piece(&self, from: Option<u64>, until: u64) -> Option<Piece> {
        let start = match from {
            None => 0,
            Some(from) => self.first_record(from)?,
        };
        Some(Piece { start, end: self.scan(start, until) })
    }

    /// Returns the certain boundaries at the cuts, which are among the stops, from pieces that may be guesses.
    fn join(&self, stops: &[u64], cuts: &[u64], pieces: &[Option<Piece>]) -> Boundaries {
        let mut certain = Position::default();
        let mut boundaries = Vec::with_capacity(cuts.len());
        for (stop, piece) in stops.iter().zip(pieces) {
            let passed = match piece {
                Some(piece) if piece.start == certain.byte => piece.end?,
                _ => self.scan(certain.byte, *stop)?,
            };
            certain = Position { record: certain.record + passed.record, byte: passed.byte };
            if cuts.binary_search(stop).is_ok() {
                boundaries.push(certain);
            }
        }
        Some(boundaries.into())
    }

    /// Returns the first position at or after `from` where a valid record begins.
    fn first_record(&self, from: u64) -> Option<u64> {
        let end = self.size.min(from.saturating_add(SEARCH_LEN));
        let mut scanner = RecordScanner::new().with_position(Position { record: 0, byte: from });
        let (mut records, mut damage) = (Records::new(), Vec::new());
        let mut start = from;
        while start < end && !self.stopped.load(Ordering::Relaxed) {
            let block = self.bytes(start, (BLOCK_LEN / 4) as u64)?;
            start += block.len() as u64;
            let scanned = scanner.scan(&mut block.as_ref(), 1, &mut records, &mut damage);
            if scanned.is_err() || !records.is_empty() {
                return records.positions().first().map(|position| position.byte);
            }
        }
        None
    }

    /// Reads `len` bytes, or those up to the end of the file.
    fn bytes(&self, start: u64, len: u64) -> Option<Bytes> {
        self.file.read(&(start..self.size.min(start.saturating_add(len))), BytesMut::new()).ok()
    }

    /// Follows headers up to the first position at or after `until`, and counts records.
    fn scan(&self, from: u64, until: u64) -> Option<Position> {
        let mut headers = Headers { scan: self, block: Bytes::new(), start: 0 };
        let mut passed = Position { record: 0, byte: from };
        while passed.byte < until {
            let len = record_len(&headers.at(passed.byte)?)?;
            let frame = len.checked_add((HEADER_LEN + FOOTER_LEN) as u64)?;
            let end = passed.byte.checked_add(frame).filter(|end| *end <= self.size)?;
            passed = Position { record: passed.record + 1, byte: end };
        }
        Some(passed)
    }
}

/// Returns the length in a header, if its checksum is valid.
fn record_len(header: &[u8; HEADER_LEN]) -> Option<u64> {
    let (len, crc) = header.split_first_chunk()?;
    (crc == masked_crc32c(len).to_le_bytes()).then(|| u64::from_le_bytes(*len))
}

/// Reads headers at increasing positions of a file.
struct Headers<'a> {
    scan: &'a PieceScan,
    block: Bytes,
    /// Start of the block.
    start: u64,
}

impl Headers<'_> {
    /// Returns the header at this position, or `None` if the file ends within it or cannot be read.
    fn at(&mut self, place: u64) -> Option<[u8; HEADER_LEN]> {
        let end = self.start + self.block.len() as u64;
        if place < self.start || place + HEADER_LEN as u64 > end {
            if self.scan.stopped.load(Ordering::Relaxed) {
                return None;
            }
            // A header far after the block suggests that the next record is as long as the one just skipped.
            let is_sparse = place > end + BLOCK_LEN as u64;
            let len = if is_sparse { SPARSE_LEN } else { BLOCK_LEN };
            // Released first, so that its memory is used again.
            self.block = Bytes::new();
            self.block = self.scan.bytes(place, len as u64)?;
            self.start = place;
        }
        usize::try_from(place - self.start).ok().and_then(|at| self.block.get(at..)?.first_chunk()).copied()
    }
}

#[cfg(test)]
mod tests;
