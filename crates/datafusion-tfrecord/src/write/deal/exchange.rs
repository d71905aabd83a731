//! The channels between the inputs and outputs of a [`DealExec`](super::DealExec).

use std::collections::VecDeque;
use std::mem;
use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion_common::{DataFusionError, Result, internal_datafusion_err};
use datafusion_common_runtime::SpawnedTask;
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::{FutureExt, Stream, StreamExt};
use tokio::sync::mpsc;

use super::{Dealer, Turn};
use crate::error::ErrorKind;
use crate::write::run::describe_panic;

/// Messages buffered between an input and an output. Each holds one batch's rows for that output. An input is thus at
/// most this many batches, plus the one it is processing, ahead of the slowest output.
const CHANNEL_CAPACITY: usize = 2;

/// A message from an input to an output.
enum Message {
    /// The rows of one batch for the output, in order.
    Turns {
        turns: Vec<Turn>,
        /// The memory of the whole batch, reserved while one of its slices waits here.
        reservation: Arc<MemoryReservation>,
    },
    /// The input has ended. A channel that closes without this message has lost its input.
    End,
    Failed(Arc<DataFusionError>),
}

/// The outputs of a running exchange that have not been requested yet.
pub(super) type Unclaimed = Arc<Mutex<Vec<Option<Rotation>>>>;

/// An exchange that has not started.
pub(super) struct Exchange {
    pub(super) shards: NonZeroUsize,
    /// Schema of the outputs.
    pub(super) schema: SchemaRef,
    pub(super) outputs: usize,
}

impl Exchange {
    /// Starts one task for each input partition. Returns the receiving ends, to be kept in `unclaimed`.
    pub(super) fn start(
        self,
        input: &Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
        unclaimed: &Unclaimed,
    ) -> Result<Vec<Option<Rotation>>> {
        let inputs = input.output_partitioning().partition_count();
        let mut receivers: Vec<Vec<_>> = (0..self.outputs).map(|_| Vec::with_capacity(inputs)).collect();
        let mut tasks = Vec::with_capacity(inputs);
        for partition in 0..inputs {
            let batches = input.execute(partition, Arc::clone(&context))?;
            let mut senders = Vec::with_capacity(self.outputs);
            for receivers in &mut receivers {
                let (sender, receiver) = mpsc::channel(CHANNEL_CAPACITY);
                senders.push(sender);
                receivers.push(Incoming { receiver, turns: VecDeque::new(), reservation: None });
            }
            let reservation = MemoryConsumer::new(format!("DealExec[{partition}]")).register(context.memory_pool());
            let dealer = Dealer::new(self.shards, self.outputs, Arc::clone(&self.schema));
            tasks.push(SpawnedTask::spawn(run_input(batches, dealer, senders, reservation)));
        }
        let tasks = Arc::new(tasks);
        let rotation =
            |inputs| Rotation { inputs, next: 0, unclaimed: Arc::downgrade(unclaimed), _tasks: Arc::clone(&tasks) };
        Ok(receivers.into_iter().map(rotation).map(Some).collect())
    }
}

/// Runs one input to its end, and reports the result to every output.
async fn run_input(
    batches: SendableRecordBatchStream,
    dealer: Dealer,
    senders: Vec<mpsc::Sender<Message>>,
    reservation: MemoryReservation,
) {
    let dealt = AssertUnwindSafe(deal_batches(batches, dealer, &senders, reservation)).catch_unwind().await;
    let result = dealt.unwrap_or_else(|panic| Err(ErrorKind::Panic { message: describe_panic(&*panic) }.into()));
    let failure = result.err().map(Arc::new);
    for sender in &senders {
        let last = failure.as_ref().map_or(Message::End, |error| Message::Failed(Arc::clone(error)));
        // An output that has been dropped needs no message.
        let _ = sender.send(last).await;
    }
}

/// Sends the rows of every batch to the outputs.
///
/// This cannot deadlock. Let the *place* of an input be (round, number of the input) of the first row that it has not
/// yet sent to every output. This is the first row of the batch it is processing or, at its end, the position after
/// its last row. Of the inputs blocked in sending, let `q` be the one with the least place, and `w` the output it is
/// blocked on. The channel from `q` to `w` is full, so `w` itself waits for the end of the turn of another input `p`
/// in some round `r`, and the channel from `p` is empty.
///
/// - `w` has received all rows of `p` before the place of `p`, and the turn did not end there. So the place of `p` is
///   in round `r` at the latest.
/// - By the rotation, the rows of `q` that `w` has not taken are of round `r` at the earliest if `q > p`, and of
///   round `r + 1` if `q < p`. They come from batches before the one that `q` is processing, so the place of `q` is
///   after them.
///
/// In both cases the place of `p` is less than that of `q`. So `p` is not blocked in sending: it waits for its own
/// input, and continues.
///
/// The argument requires two properties. A batch's rows are sent before the next batch is read, instead of waiting
/// for more rows to join them. The last rows of a turn are marked as such, so that an output continues without seeing
/// the next turn.
async fn deal_batches(
    mut batches: SendableRecordBatchStream,
    mut dealer: Dealer,
    senders: &[mpsc::Sender<Message>],
    reservation: MemoryReservation,
) -> Result<()> {
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        // Infallible: the batch already exists, and there are only a few.
        let reservation = Arc::new(reservation.new_empty());
        reservation.grow(batch.get_array_memory_size());
        let mut turns: Vec<Vec<Turn>> = senders.iter().map(|_| Vec::new()).collect();
        for turn in dealer.deal(&batch)? {
            if let Some(turns) = turns.get_mut(turn.output) {
                turns.push(turn);
            }
        }
        drop(batch);
        let mut listeners = 0;
        for (sender, turns) in senders.iter().zip(turns) {
            let wanted = if turns.is_empty() {
                !sender.is_closed()
            } else {
                sender.send(Message::Turns { turns, reservation: Arc::clone(&reservation) }).await.is_ok()
            };
            listeners += usize::from(wanted);
        }
        if listeners == 0 {
            break;
        }
    }
    Ok(())
}

/// One input, as seen by an output.
struct Incoming {
    receiver: mpsc::Receiver<Message>,
    /// The rest of the last message.
    turns: VecDeque<Turn>,
    reservation: Option<Arc<MemoryReservation>>,
}

impl Incoming {
    /// Returns the next turn, or part of one; `None` at the end of the input.
    async fn next(&mut self) -> Result<Option<Turn>> {
        while self.turns.is_empty() {
            self.reservation = None;
            match self.receiver.recv().await {
                Some(Message::Turns { turns, reservation }) => {
                    self.turns = turns.into();
                    self.reservation = Some(reservation);
                }
                Some(Message::End) => return Ok(None),
                Some(Message::Failed(error)) => return Err(DataFusionError::Shared(error)),
                None => return Err(internal_datafusion_err!("DealExec: an input partition went away without an end")),
            }
        }
        Ok(self.turns.pop_front())
    }
}

/// One output: reads the rows of its shards from the inputs in rotation.
pub(super) struct Rotation {
    /// Inputs that have not ended.
    inputs: Vec<Incoming>,
    /// The input to read next.
    next: usize,
    unclaimed: Weak<Mutex<Vec<Option<Rotation>>>>,
    /// Dropped with the last output.
    _tasks: Arc<Vec<SpawnedTask<()>>>,
}

impl std::fmt::Debug for Rotation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rotation").field("inputs", &self.inputs.len()).field("next", &self.next).finish_non_exhaustive()
    }
}

impl Drop for Rotation {
    /// An output dropped before its end means that the run was cancelled. Outputs that have not been requested would
    /// keep the inputs alive, and be mistaken for those of the next run.
    fn drop(&mut self) {
        if self.inputs.is_empty() {
            return;
        }
        if let Some(unclaimed) = self.unclaimed.upgrade() {
            let cancelled = mem::take(&mut *unclaimed.lock().unwrap_or_else(PoisonError::into_inner));
            // Outside the lock: their drop takes it too.
            drop(cancelled);
        }
    }
}

impl Rotation {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.next >= self.inputs.len() {
                self.next = 0;
            }
            let Some(input) = self.inputs.get_mut(self.next) else {
                return Ok(None);
            };
            match input.next().await? {
                Some(turn) => {
                    self.next += usize::from(turn.complete);
                    return Ok(Some(turn.rows));
                }
                // The next input moves to this position.
                None => drop(self.inputs.remove(self.next)),
            }
        }
    }

    /// Returns the output's rows.
    pub(super) fn into_batches(self) -> impl Stream<Item = Result<RecordBatch>> + Send {
        futures::stream::try_unfold(self, |mut rotation| async move {
            Ok(rotation.next().await?.map(|batch| (batch, rotation)))
        })
    }
}
