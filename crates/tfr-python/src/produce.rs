//! [`Plan::produce`]: decodes records on threads, and makes batches of them in order.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use arrow_select::interleave::interleave_record_batch;

use crate::error::{Failure, Result};
use crate::feed::{Feed, Piece};
use crate::files::Files;
use crate::order::Turns;
use crate::plan::Plan;
use crate::segment::SegmentReader;
use crate::values::{Values, columns_of};

/// Decoded batches of a piece that wait for their turn.
const WAITING: usize = 16;

/// Bytes read at once. Many lanes are read in smaller blocks.
const BLOCK_LEN: usize = 1 << 20;
const BLOCK_LEN_OF_LANE: usize = 256 << 10;

/// A batch, and the position after it.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) columns: Vec<(String, Values)>,
    /// The epoch and the step.
    pub(crate) position: (u64, u64),
}

/// A message to the consumer. After an error or the end there are no more.
pub(crate) enum ProducerMessage {
    Batch(Batch),
    Failed(Failure),
    End,
}

/// Records to be decoded and sent.
type Task<'a> = (Piece<'a>, SyncSender<Result<RecordBatch>>);

/// Why no more batches are made.
enum StopReason {
    /// The consumer is gone.
    Gone,
    Failed(Failure),
}

impl From<Failure> for StopReason {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Plan {
    /// Makes the batches that follow this position, up to the start of the epoch `end`. Returns soon after the receiver
    /// is dropped and `is_stopped` is set.
    pub(crate) fn produce(
        &self,
        epoch: u64,
        step: u64,
        end: Option<u64>,
        batches: &SyncSender<ProducerMessage>,
        is_stopped: &Arc<AtomicBool>,
    ) {
        let stop = Arc::clone(is_stopped);
        let files = match Files::new(&self.data.access, Arc::new(move || stop.load(Ordering::Relaxed))) {
            Ok(files) => files,
            Err(failure) => {
                let _ = batches.send(ProducerMessage::Failed(failure));
                return;
            }
        };
        let (tasks, queue) = channel::<Task<'_>>();
        let queue = Mutex::new(queue);
        thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| self.decode(&queue, &files, is_stopped));
            }
            let decoders = Decoders { plan: self, files: &files, tasks: &tasks, threads: self.threads, is_stopped };
            let last = match self.make((epoch, step), end, &decoders, batches) {
                Ok(()) => Some(ProducerMessage::End),
                Err(StopReason::Failed(failure)) => Some(ProducerMessage::Failed(failure)),
                Err(StopReason::Gone) => None,
            };
            drop(tasks);
            // What waits to be decoded is not needed.
            is_stopped.store(true, Ordering::Relaxed);
            if let Some(last) = last {
                // Nobody waits for it if the consumer is gone.
                let _ = batches.send(last);
            }
        });
    }

    /// Decodes pieces, one after the other.
    fn decode<'a>(&'a self, queue: &Mutex<Receiver<Task<'a>>>, files: &Files, is_stopped: &AtomicBool) {
        loop {
            let task = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok((piece, rows)) = task else { return };
            let mut turn = piece.begin();
            if is_stopped.load(Ordering::Relaxed) {
                continue;
            }
            // The receiver is gone if nobody wants more rows.
            let mut send = |batch| rows.send(Ok(batch)).is_ok();
            let read = match turn.reader.take() {
                Some(reader) => Ok(reader),
                None => self.open(&piece, files),
            };
            let read = read.and_then(|mut reader| {
                reader.read(&piece.wanted, &mut send)?;
                Ok(reader)
            });
            match read {
                Ok(reader) => turn.reader = Some(reader),
                Err(failure) => {
                    let _ = rows.send(Err(failure));
                }
            }
        }
    }

    fn open(&self, piece: &Piece<'_>, files: &Files) -> Result<SegmentReader<'_>> {
        let shard = self.data.shards.get(piece.block.segment.shard);
        let shard = shard.ok_or_else(|| Failure::other("a file is not in the data set".to_owned()))?;
        let has_lanes = self.order.shuffle.is_some_and(|shuffle| shuffle.lanes > 1);
        let block = if has_lanes { BLOCK_LEN_OF_LANE } else { BLOCK_LEN };
        SegmentReader::open(&self.data, &self.decoding, (files, shard), piece.records(), block)
    }

    fn make<'a>(
        &'a self,
        start: (u64, u64),
        end: Option<u64>,
        decoders: &Decoders<'_, 'a>,
        batches: &SyncSender<ProducerMessage>,
    ) -> Result<(), StopReason> {
        if self.order.steps() == 0 && end.is_none() {
            return Err(Failure::usage("no batch in an epoch, and epochs without end".to_owned()).into());
        }
        let turns = Turns::new(&self.order, start, end, self.worker, self.workers);
        let mut position = Turns::first(&self.order, start);
        let mut after = |turns: &Turns| {
            position = turns.after_all(position);
            position
        };
        let mut rows = DecodedRows::new(Feed::new(self, turns.clone()), decoders);
        if self.order.shuffle.is_none() {
            for (_, step) in turns.clone() {
                let parts = rows.take(self.order.len(step) as u64)?;
                let batch = match parts.as_slice() {
                    [batch] => batch.clone(),
                    [first, ..] => concat_batches(&first.schema(), &parts).map_err(memory)?,
                    [] => return Err(Failure::other("the rows ended early".to_owned()).into()),
                };
                drop(parts);
                self.send(batch, after(&turns), batches)?;
            }
            return Ok(rows.check_end()?);
        }
        while let Some(window) = rows.feed.next_window()? {
            // While the batches of this window are handed out, the rows of the next are decoded.
            rows.ahead = window.rows;
            let parts = rows.take(window.rows)?;
            let places: Vec<(usize, usize)> = parts
                .iter()
                .enumerate()
                .flat_map(|(part, batch)| (0..batch.num_rows()).map(move |row| (part, row)))
                .collect();
            let parts: Vec<_> = parts.iter().collect();
            for (_, numbers) in window.steps {
                let places: Vec<_> = numbers.into_iter().filter_map(|row| places.get(row as usize).copied()).collect();
                let batch = interleave_record_batch(&parts, &places).map_err(memory)?;
                self.send(batch, after(&turns), batches)?;
            }
        }
        Ok(rows.check_end()?)
    }

    fn send(
        &self,
        batch: RecordBatch,
        position: (u64, u64),
        batches: &SyncSender<ProducerMessage>,
    ) -> Result<(), StopReason> {
        let columns = columns_of(batch, &self.decoding.columns)?;
        batches.send(ProducerMessage::Batch(Batch { columns, position })).map_err(|_| StopReason::Gone)
    }
}

/// The threads that decode pieces.
struct Decoders<'t, 'a> {
    plan: &'a Plan,
    files: &'t Files,
    tasks: &'t Sender<Task<'a>>,
    threads: usize,
    /// Whether nobody wants more rows.
    is_stopped: &'t AtomicBool,
}

/// The rows of pieces, decoded ahead.
struct DecodedRows<'t, 'a> {
    feed: Feed<'a>,
    decoders: &'t Decoders<'t, 'a>,
    /// The pieces being decoded, in order, with the number of rows that are still to come.
    decoding: VecDeque<(u64, Receiver<Result<RecordBatch>>)>,
    /// The number of all rows that are still to come, and how many that may be.
    coming: u64,
    ahead: u64,
    /// Rows that were received and not taken.
    rest: Option<RecordBatch>,
}

fn memory(error: arrow_schema::ArrowError) -> StopReason {
    Failure::other(error.to_string()).into()
}

impl<'t, 'a> DecodedRows<'t, 'a> {
    fn new(feed: Feed<'a>, decoders: &'t Decoders<'t, 'a>) -> Self {
        Self { feed, decoders, decoding: VecDeque::new(), coming: 0, ahead: 0, rest: None }
    }

    /// Returns the next `count` rows, or fewer at the end.
    fn take(&mut self, count: u64) -> Result<Vec<RecordBatch>> {
        let mut parts = Vec::new();
        let mut missing = count;
        while missing > 0 {
            let Some(batch) = self.rest.take().map_or_else(|| self.next(), |rest| Ok(Some(rest)))? else { break };
            let rows = batch.num_rows() as u64;
            if rows > missing {
                self.rest = Some(batch.slice(missing as usize, (rows - missing) as usize));
                parts.push(batch.slice(0, missing as usize));
                break;
            }
            missing -= rows;
            parts.push(batch);
        }
        Ok(parts)
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        // A piece more than there are threads, so that none waits.
        let at_once = self.decoders.threads + 1;
        loop {
            if self.decoders.is_stopped.load(Ordering::Relaxed) {
                return Err(stopped());
            }
            while self.decoding.len() < at_once || self.coming < self.ahead {
                let Some(piece) = self.feed.next() else { break };
                let (rows, received) = sync_channel(WAITING);
                self.decoding.push_back((piece.rows, received));
                let shard = self.decoders.plan.data.shards.get(piece.block.segment.shard);
                if let Some(shard) = shard.filter(|_| piece.is_first()) {
                    shard.fetch_soon(self.decoders.files, piece.records());
                }
                self.coming += piece.rows;
                self.decoders.tasks.send((piece, rows)).map_err(|_| stopped())?;
            }
            let Some((left, rows)) = self.decoding.front_mut() else { return Ok(None) };
            match rows.recv() {
                Ok(batch) => {
                    let batch = batch?;
                    *left = left.saturating_sub(batch.num_rows() as u64);
                    self.coming = self.coming.saturating_sub(batch.num_rows() as u64);
                    return Ok(Some(batch));
                }
                Err(_) if *left == 0 => drop(self.decoding.pop_front()),
                Err(_) => return Err(stopped()),
            }
        }
    }

    /// Waits for the checks at the end of the last file.
    fn check_end(&mut self) -> Result<()> {
        match self.next()? {
            None => Ok(()),
            Some(_) => Err(Failure::other("more rows than expected".to_owned())),
        }
    }
}

fn stopped() -> Failure {
    Failure::other("a thread that decodes records has stopped".to_owned())
}
