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

/// Messages that wait between an input and an output. Each holds what one batch has for that output, so an input is at
/// most this many batches and the one in its hands ahead of the slowest output.
const CHANNEL_CAPACITY: usize = 2;

/// What goes from an input to an output.
enum Message {
    /// What one batch holds for the output, in order.
    Turns {
        turns: Vec<Turn>,
        /// The memory of the whole batch, for as long as one of its slices waits here.
        reservation: Arc<MemoryReservation>,
    },
    /// The input has ended. Without this word, a channel that closes has lost its input.
    End,
    Failed(Arc<DataFusionError>),
}

/// The outputs of a running exchange that have not been asked for yet.
pub(super) type Unclaimed = Arc<Mutex<Vec<Option<Rotation>>>>;

/// The exchange before it runs.
pub(super) struct Exchange {
    pub(super) shards: NonZeroUsize,
    /// Schema of the outputs.
    pub(super) schema: SchemaRef,
    pub(super) outputs: usize,
}

impl Exchange {
    /// Starts one task for each input partition and gives out the receiving ends, which are to be kept in `unclaimed`.
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

/// Runs one input to its end, and says to every output how it ended.
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
        // An output that is gone needs no word.
        let _ = sender.send(last).await;
    }
}

/// Deals every batch to the outputs.
///
/// Inputs and outputs cannot come to wait for each other in a circle. Let the *place* of an input be (round, number of
/// the input) of the row that comes after all those that it has sent to every output: the first row of the batch in its
/// hands or, at its end, the row that does not come. Of the inputs that wait to send, let `q` be the one with the least
/// place, and `w` the output that it waits for. The channel from `q` to `w` is full, so `w` itself waits, for the end of
/// the turn of another input `p` in some round `r`, and the channel from `p` is empty.
///
/// - `w` has taken all that `p` had for it before the place of `p`, and the turn did not end there: the place of `p` is in
///   round `r` at the latest.
/// - By the rotation, what `w` has left of `q` is of round `r` at the earliest if `q > p`, and of round `r + 1` if
///   `q < p`. It comes from earlier batches than the one in the hands of `q`, so the place of `q` is behind it.
///
/// In both cases `p` has a lesser place than `q`, so it does not wait to send: it waits for its own input, and goes on.
///
/// The argument needs that a batch's rows are sent before the next batch is taken, instead of waiting for more rows to
/// join them, and that a turn's last rows say that they are, so that an output goes on without seeing the next turn.
async fn deal_batches(
    mut batches: SendableRecordBatchStream,
    mut dealer: Dealer,
    senders: &[mpsc::Sender<Message>],
    reservation: MemoryReservation,
) -> Result<()> {
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        // Not refused when memory is short: the batch is there already, and few of them can be.
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

/// One input, as an output sees it.
struct Incoming {
    receiver: mpsc::Receiver<Message>,
    /// What is left of the last message.
    turns: VecDeque<Turn>,
    reservation: Option<Arc<MemoryReservation>>,
}

impl Incoming {
    /// The next turn, or part of one; `None` at the end of the input.
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

/// One output: takes what is for its shards from the inputs in rotation.
pub(super) struct Rotation {
    /// Inputs that have not ended.
    inputs: Vec<Incoming>,
    /// Whose turn it is.
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
    /// An output that is dropped before its end has been cancelled, and the run with it: outputs that have not been
    /// asked for would keep the inputs alive, and be taken for those of the next run.
    fn drop(&mut self) {
        if self.inputs.is_empty() {
            return;
        }
        if let Some(unclaimed) = self.unclaimed.upgrade() {
            let cancelled = mem::take(&mut *unclaimed.lock().unwrap_or_else(PoisonError::into_inner));
            // Not under the lock: these take it too.
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
                // The next one takes its place.
                None => drop(self.inputs.remove(self.next)),
            }
        }
    }

    /// The output's rows.
    pub(super) fn into_batches(self) -> impl Stream<Item = Result<RecordBatch>> + Send {
        futures::stream::try_unfold(self, |mut rotation| async move {
            Ok(rotation.next().await?.map(|batch| (batch, rotation)))
        })
    }
}
