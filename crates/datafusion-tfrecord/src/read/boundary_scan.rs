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
use datafusion_common::{DataFusionError, Result, SharedResult};
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
    state: Arc<SharedScan>,
}

#[derive(Default)]
struct SharedScan {
    done: OnceLock<Boundaries>,
    running: Mutex<Option<WeakShared<ScanFuture>>>,
}

/// A scan that several callers wait for.
type ScanFuture = BoxFuture<'static, SharedResult<Boundaries>>;

impl BoundaryScan {
    pub(super) fn new(cuts: impl Into<Arc<[u64]>>) -> Self {
        Self { cuts: cuts.into(), state: Arc::default() }
    }

    /// Returns the requested split points.
    pub(super) fn cuts(&self) -> &[u64] {
        &self.cuts
    }

    /// Finds the boundaries, or waits for the caller that does.
    ///
    /// # Errors
    /// The file cannot be read. If it were then read in one piece, the order of the rows would depend on that.
    pub(super) async fn boundaries(&self, store: &Arc<dyn ObjectStore>, meta: &ObjectMeta) -> Result<Boundaries> {
        if let Some(done) = self.state.done.get() {
            return Ok(done.clone());
        }
        let boundaries = self.join_or_start(store, meta).await.map_err(DataFusionError::Shared)?;
        Ok(self.state.done.get_or_init(|| boundaries).clone())
    }

    fn join_or_start(&self, store: &Arc<dyn ObjectStore>, meta: &ObjectMeta) -> Shared<ScanFuture> {
        let mut running = self.state.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(joined) = running.as_ref().and_then(WeakShared::upgrade) {
            return joined;
        }
        let (store, meta, cuts) = (Arc::clone(store), meta.clone(), Arc::clone(&self.cuts));
        // A separate task, so that it progresses whichever caller is polled.
        let task = SpawnedTask::spawn(async move { scan(&store, &meta, cuts).await });
        let started = async move {
            task.await.unwrap_or_else(|error| Err(DataFusionError::ExecutionJoin(Box::new(error)))).map_err(Arc::new)
        };
        let started = started.boxed().shared();
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

/// Converts a store's error, as [`Blocks`](super::blocks::Blocks) does.
fn read_error(error: object_store::Error) -> DataFusionError {
    tfr_files::Error::change_in(&error).map_or_else(|| error.into(), Into::into)
}

/// Scans all pieces in parallel, up to the last cut. Damage is no error: it is reported with its record when the file is
/// read.
async fn scan(store: &Arc<dyn ObjectStore>, meta: &ObjectMeta, cuts: Arc<[u64]>) -> Result<Boundaries> {
    let mut options = GetOptions::default();
    let open = OpenFile::ask(&mut options);
    store.get_opts(&meta.location, options).await.map_err(read_error)?;
    let Some(file) = open.file() else { return Ok(None) };
    let join_error = |error| DataFusionError::ExecutionJoin(Box::new(error));
    let stop = StopOnDrop::default();
    let scan = PieceScan { file, size: meta.size, stopped: Arc::clone(&stop.0) };
    let stops = stops(&cuts, std::thread::available_parallelism().map_or(1, NonZeroUsize::get));
    let pieces = stops.iter().enumerate().map(|(piece, until)| {
        let (scan, from, until) = (scan.clone(), piece.checked_sub(1).map(|before| stops[before]), *until);
        SpawnedTask::spawn_blocking(move || scan.piece(from, until))
    });
    let pieces: Vec<_> = pieces.collect();
    let scanned = futures::stream::iter(pieces).then(|piece| piece);
    let scanned: Vec<object_store::Result<Option<Piece>>> = scanned.try_collect().await.map_err(join_error)?;
    let scanned = scanned.into_iter().collect::<object_store::Result<Vec<_>>>().map_err(read_error)?;
    let joined = SpawnedTask::spawn_blocking(move || scan.join(&stops, &cuts, &scanned)).await;
    joined.map_err(join_error)?.map_err(read_error)
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
    fn piece(&self, from: Option<u64>, until: u64) -> object_store::Result<Option<Piece>> {
        let start = match from {
            None => Some(0),
            Some(from) => self.first_record(from)?,
        };
        start.map(|start| Ok(Piece { start, end: self.scan(start, until)? })).transpose()
    }

    /// Returns the certain boundaries at the cuts, which are among the stops, from pieces that may be guesses.
    fn join(&self, stops: &[u64], cuts: &[u64], pieces: &[Option<Piece>]) -> object_store::Result<Boundaries> {
        let mut certain = Position::default();
        let mut boundaries = Vec::with_capacity(cuts.len());
        for (stop, piece) in stops.iter().zip(pieces) {
            let passed = match piece {
                Some(piece) if piece.start == certain.byte => piece.end,
                _ => self.scan(certain.byte, *stop)?,
            };
            let Some(passed) = passed else { return Ok(None) };
            certain = Position { record: certain.record + passed.record, byte: passed.byte };
            if cuts.binary_search(stop).is_ok() {
                boundaries.push(certain);
            }
        }
        Ok(Some(boundaries.into()))
    }

    /// Returns the first position at or after `from` where a valid record begins.
    fn first_record(&self, from: u64) -> object_store::Result<Option<u64>> {
        let end = self.size.min(from.saturating_add(SEARCH_LEN));
        let mut scanner = RecordScanner::new().with_position(Position { record: 0, byte: from });
        let (mut records, mut damage) = (Records::new(), Vec::new());
        let mut start = from;
        while start < end && !self.stopped.load(Ordering::Relaxed) {
            let block = self.bytes(start, (BLOCK_LEN / 4) as u64)?;
            start += block.len() as u64;
            let scanned = scanner.scan(&mut block.as_ref(), 1, &mut records, &mut damage);
            if scanned.is_err() || !records.is_empty() {
                return Ok(records.positions().first().map(|position| position.byte));
            }
        }
        Ok(None)
    }

    /// Reads `len` bytes, or those up to the end of the file.
    fn bytes(&self, start: u64, len: u64) -> object_store::Result<Bytes> {
        self.file.read(&(start..self.size.min(start.saturating_add(len))), BytesMut::new())
    }

    /// Follows headers up to the first position at or after `until`, and counts records. `None` if it meets a damaged
    /// header.
    fn scan(&self, from: u64, until: u64) -> object_store::Result<Option<Position>> {
        let mut headers = Headers { scan: self, block: Bytes::new(), start: 0 };
        let mut passed = Position { record: 0, byte: from };
        while passed.byte < until {
            let len = headers.at(passed.byte)?.as_ref().and_then(record_len);
            let frame = len.and_then(|len| len.checked_add((HEADER_LEN + FOOTER_LEN) as u64));
            let end = frame.and_then(|frame| passed.byte.checked_add(frame)).filter(|end| *end <= self.size);
            let Some(end) = end else { return Ok(None) };
            passed = Position { record: passed.record + 1, byte: end };
        }
        Ok(Some(passed))
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
    /// Returns the header at this position, or `None` if the file ends within it.
    fn at(&mut self, place: u64) -> object_store::Result<Option<[u8; HEADER_LEN]>> {
        let end = self.start + self.block.len() as u64;
        if place < self.start || place + HEADER_LEN as u64 > end {
            if self.scan.stopped.load(Ordering::Relaxed) {
                return Ok(None);
            }
            // A header far after the block suggests that the next record is as long as the one just skipped.
            let is_sparse = place > end + BLOCK_LEN as u64;
            let len = if is_sparse { SPARSE_LEN } else { BLOCK_LEN };
            // Released first, so that its memory is used again.
            self.block = Bytes::new();
            self.block = self.scan.bytes(place, len as u64)?;
            self.start = place;
        }
        Ok(usize::try_from(place - self.start).ok().and_then(|at| self.block.get(at..)?.first_chunk()).copied())
    }
}

#[cfg(test)]
mod tests;
