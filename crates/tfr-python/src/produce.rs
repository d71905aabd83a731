//! [`Plan`]: decodes segments on threads, and makes batches of them in order.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use arrow_select::interleave::interleave_record_batch;

use crate::dataset::{DataSet, Segment};
use crate::error::{Failure, Result};
use crate::order::Order;
use crate::segment::{Decoding, SegmentReader};
use crate::values::{Values, columns_of};

/// Decoded batches of a segment that wait for their turn.
const WAITING: usize = 16;

/// The batches of a reader.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) data: Arc<DataSet>,
    pub(crate) decoding: Decoding,
    pub(crate) order: Order,
    pub(crate) batch_size: usize,
    pub(crate) drop_remainder: bool,
    /// The seed, and the number of rows that are shuffled together: a multiple of the batch size.
    pub(crate) window: Option<(u64, usize)>,
    pub(crate) threads: usize,
}

/// A batch, and the position after it.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) columns: Vec<(String, Values)>,
    pub(crate) epoch: u64,
    pub(crate) step: u64,
}

/// A message to the consumer. After an error or the end there are no more.
pub(crate) enum Message {
    Batch(Batch),
    Failed(Failure),
    End,
}

/// The rows of a segment, to be decoded and sent.
type Task = (Segment, SyncSender<Result<RecordBatch>>);

/// Why no more batches are made.
enum Stop {
    /// The consumer is gone.
    Gone,
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl Plan {
    /// Returns the number of batches in an epoch.
    pub(crate) fn steps(&self) -> u64 {
        let (rows, size) = (self.order.rows(&self.data), self.batch_size as u64);
        if self.drop_remainder { rows / size } else { rows.div_ceil(size) }
    }

    /// Makes the batches that follow this position, up to the start of the epoch `end`. Returns soon after the receiver
    /// is dropped and `is_stopped` is set.
    pub(crate) fn produce(
        &self,
        epoch: u64,
        step: u64,
        end: Option<u64>,
        batches: &SyncSender<Message>,
        is_stopped: &AtomicBool,
    ) {
        let (tasks, queue) = channel::<Task>();
        let queue = Mutex::new(queue);
        thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| self.decode(&queue));
            }
            let decoders = Decoders { tasks: &tasks, threads: self.threads, is_stopped };
            let last = match self.make((epoch, step), end, &decoders, batches) {
                Ok(()) => Some(Message::End),
                Err(Stop::Failed(failure)) => Some(Message::Failed(failure)),
                Err(Stop::Gone) => None,
            };
            drop(tasks);
            if let Some(last) = last {
                // Nobody waits for it if the consumer is gone.
                let _ = batches.send(last);
            }
        });
    }

    /// Decodes segments, one after the other.
    fn decode(&self, queue: &Mutex<Receiver<Task>>) {
        loop {
            let task = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok((segment, rows)) = task else { return };
            let mut reader = match SegmentReader::open(&self.data, &self.decoding, segment) {
                Ok(Some(reader)) => reader,
                Ok(None) => continue,
                Err(failure) => {
                    let _ = rows.send(Err(failure));
                    continue;
                }
            };
            loop {
                let next = reader.next().transpose();
                let Some(next) = next else { break };
                let is_failure = next.is_err();
                // The receiver is gone if nobody wants more rows.
                if rows.send(next).is_err() || is_failure {
                    break;
                }
            }
        }
    }

    fn make(
        &self,
        mut position: (u64, u64),
        end: Option<u64>,
        decoders: &Decoders<'_>,
        batches: &SyncSender<Message>,
    ) -> Result<(), Stop> {
        while end.is_none_or(|end| position.0 < end) {
            let (epoch, step) = position;
            let steps = self.steps();
            if steps == 0 && end.is_none() {
                return Err(Failure::usage("no batch in an epoch, and epochs without end".to_owned()).into());
            }
            match self.window {
                Some((seed, rows)) => self.shuffled(epoch, step, steps, (seed, rows), decoders, batches)?,
                None => self.in_order(epoch, step, steps, decoders, batches)?,
            }
            position = (epoch + 1, 0);
        }
        Ok(())
    }

    /// Sends the batches of an epoch in order.
    fn in_order(
        &self,
        epoch: u64,
        step: u64,
        steps: u64,
        decoders: &Decoders<'_>,
        batches: &SyncSender<Message>,
    ) -> Result<(), Stop> {
        let start = step.saturating_mul(self.batch_size as u64);
        let mut rows = Rows::new(self.order.segments(&self.data, epoch, start), decoders);
        for step in step..steps {
            let parts = rows.take(self.batch_size)?;
            let batch = match parts.as_slice() {
                [batch] => batch.clone(),
                [first, ..] => concat_batches(&first.schema(), &parts).map_err(memory)?,
                [] => return Err(Failure::other("the rows ended early".to_owned()).into()),
            };
            drop(parts);
            self.send(batch, epoch, step, batches)?;
        }
        if self.drop_remainder { Ok(()) } else { Ok(rows.check_end()?) }
    }

    /// Sends the batches of an epoch, shuffled in windows.
    fn shuffled(
        &self,
        epoch: u64,
        step: u64,
        steps: u64,
        (seed, window): (u64, usize),
        decoders: &Decoders<'_>,
        batches: &SyncSender<Message>,
    ) -> Result<(), Stop> {
        let steps_of_window = (window / self.batch_size) as u64;
        // The first window may have been read in part.
        let first_step = step;
        let mut step = first_step / steps_of_window * steps_of_window;
        let mut start = step * self.batch_size as u64;
        let mut rows = Rows::new(self.order.segments(&self.data, epoch, start), decoders);
        while step < steps {
            let parts = rows.take(window)?;
            let places: Vec<(usize, usize)> = parts
                .iter()
                .enumerate()
                .flat_map(|(part, batch)| (0..batch.num_rows()).map(move |row| (part, row)))
                .collect();
            let order = self.order.window(seed, epoch, start, places.len());
            let order: Vec<_> = order.into_iter().filter_map(|row| places.get(row).copied()).collect();
            let parts: Vec<_> = parts.iter().collect();
            for places in order.chunks(self.batch_size) {
                if (first_step..steps).contains(&step) {
                    let batch = interleave_record_batch(&parts, places).map_err(memory)?;
                    self.send(batch, epoch, step, batches)?;
                }
                step += 1;
            }
            start += window as u64;
        }
        if self.drop_remainder { Ok(()) } else { Ok(rows.check_end()?) }
    }

    fn send(&self, batch: RecordBatch, epoch: u64, step: u64, batches: &SyncSender<Message>) -> Result<(), Stop> {
        let columns = columns_of(batch, &self.decoding.columns)?;
        batches.send(Message::Batch(Batch { columns, epoch, step: step + 1 })).map_err(|_| Stop::Gone)
    }
}

/// The threads that decode segments.
struct Decoders<'a> {
    tasks: &'a Sender<Task>,
    threads: usize,
    /// Whether nobody wants more rows.
    is_stopped: &'a AtomicBool,
}

/// The rows of segments, decoded ahead.
struct Rows<'a> {
    segments: VecDeque<Segment>,
    decoders: &'a Decoders<'a>,
    /// The segments being decoded, in order, with the number of rows that are still to come.
    decoding: VecDeque<(u64, Receiver<Result<RecordBatch>>)>,
    /// Rows that were received and not taken.
    rest: Option<RecordBatch>,
}

fn memory(error: arrow_schema::ArrowError) -> Stop {
    Failure::other(error.to_string()).into()
}

impl<'a> Rows<'a> {
    fn new(segments: Vec<Segment>, decoders: &'a Decoders<'a>) -> Self {
        Self { segments: segments.into(), decoders, decoding: VecDeque::new(), rest: None }
    }

    /// Returns the next `count` rows, or fewer at the end.
    fn take(&mut self, count: usize) -> Result<Vec<RecordBatch>> {
        let mut parts = Vec::new();
        let mut missing = count;
        while missing > 0 {
            let Some(batch) = self.rest.take().map_or_else(|| self.next(), |rest| Ok(Some(rest)))? else { break };
            let rows = batch.num_rows();
            if rows > missing {
                self.rest = Some(batch.slice(missing, rows - missing));
                parts.push(batch.slice(0, missing));
                break;
            }
            missing -= rows;
            parts.push(batch);
        }
        Ok(parts)
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        // A segment more than there are threads, so that none waits.
        let at_once = self.decoders.threads + 1;
        loop {
            if self.decoders.is_stopped.load(Ordering::Relaxed) {
                return Err(stopped());
            }
            while self.decoding.len() < at_once
                && let Some(segment) = self.segments.pop_front()
            {
                let (rows, received) = sync_channel(WAITING);
                self.decoding.push_back((segment.rows, received));
                self.decoders.tasks.send((segment, rows)).map_err(|_| stopped())?;
            }
            let Some((left, rows)) = self.decoding.front_mut() else { return Ok(None) };
            match rows.recv() {
                Ok(batch) => {
                    let batch = batch?;
                    *left = left.saturating_sub(batch.num_rows() as u64);
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
