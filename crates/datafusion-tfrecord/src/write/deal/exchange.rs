//! The channels between the inputs and outputs of a [`DealExec`](super::DealExec).

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion_common::{DataFusionError, Result, internal_datafusion_err};
use datafusion_common_runtime::SpawnedTask;
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::{FutureExt, Stream, StreamExt};
use tokio::sync::mpsc;

use super::{Dealer, DealtRows};
use crate::error::ErrorKind;
use crate::write::run::describe_panic;

/// Messages that wait between an input and an output. Each holds what one batch has for that output, so an input is at
/// most this many batches and the one in its hands ahead of the slowest output.
const CHANNEL_CAPACITY: usize = 2;

/// What goes from an input to an output.
enum Message {
    /// What one batch holds for the output, in order.
    Rows {
        rows: Vec<DealtRows>,
        /// The memory of the whole batch, for as long as one of its slices waits here.
        reservation: Arc<MemoryReservation>,
    },
    /// The input has ended. Without this word, a channel that closes has lost its input.
    End,
    Failed(Arc<DataFusionError>),
}

/// The exchange before it runs.
pub(super) struct Exchange {
    pub(super) shards: NonZeroUsize,
    /// Schema of the outputs.
    pub(super) schema: SchemaRef,
    pub(super) outputs: usize,
}

impl Exchange {
    /// Starts one task for each input partition and gives out the receiving ends.
    pub(super) fn start(self, input: &Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<Vec<Rotation>> {
        let inputs = input.output_partitioning().partition_count();
        let mut receivers: Vec<Vec<_>> = (0..self.outputs).map(|_| Vec::with_capacity(inputs)).collect();
        let mut tasks = Vec::with_capacity(inputs);
        for partition in 0..inputs {
            let batches = input.execute(partition, Arc::clone(&context))?;
            let mut senders = Vec::with_capacity(self.outputs);
            for receivers in &mut receivers {
                let (sender, receiver) = mpsc::channel(CHANNEL_CAPACITY);
                senders.push(sender);
                receivers.push(Incoming { receiver, rows: VecDeque::new(), reservation: None });
            }
            let reservation = MemoryConsumer::new(format!("DealExec[{partition}]")).register(context.memory_pool());
            let dealer = Dealer::new(self.shards, Arc::clone(&self.schema));
            tasks.push(SpawnedTask::spawn(run_input(batches, dealer, senders, reservation)));
        }
        let tasks = Arc::new(tasks);
        let shards = self.shards.get();
        Ok(receivers
            .into_iter()
            .enumerate()
            .map(|(output, inputs)| Rotation {
                inputs,
                turn: 0,
                blocks: 0,
                blocks_per_turn: (output..shards).step_by(self.outputs).len(),
                _tasks: Arc::clone(&tasks),
            })
            .collect())
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
/// some block of round `r` from another input `p`, whose channel is empty.
///
/// - `w` has taken all that `p` had for it before the place of `p`, and the block did not end there: the place of `p` is
///   in round `r` at the latest.
/// - By the rotation, what `w` has left of `q` is of round `r` at the earliest if `q > p`, and of round `r + 1` if
///   `q < p`. It comes from earlier batches than the one in the hands of `q`, so the place of `q` is behind it.
///
/// In both cases `p` has a lesser place than `q`, so it does not wait to send: it waits for its own input, and goes on.
///
/// The argument needs that a batch's rows are sent before the next batch is taken, instead of waiting for more rows to
/// join them, and that a block's last rows say that they are, so that an output goes on without seeing the next block.
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
        let mut rows: Vec<Vec<DealtRows>> = senders.iter().map(|_| Vec::new()).collect();
        for dealt in dealer.deal(&batch) {
            let dealt = dealt?;
            if let Some(rows) = rows.get_mut(dealt.shard % senders.len()) {
                rows.push(dealt);
            }
        }
        drop(batch);
        let mut listeners = 0;
        for (sender, rows) in senders.iter().zip(rows) {
            let wanted = if rows.is_empty() {
                !sender.is_closed()
            } else {
                sender.send(Message::Rows { rows, reservation: Arc::clone(&reservation) }).await.is_ok()
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
    rows: VecDeque<DealtRows>,
    reservation: Option<Arc<MemoryReservation>>,
}

impl Incoming {
    /// The next rows, or `None` at the end of the input.
    async fn next(&mut self) -> Result<Option<DealtRows>> {
        while self.rows.is_empty() {
            self.reservation = None;
            match self.receiver.recv().await {
                Some(Message::Rows { rows, reservation }) => {
                    self.rows = rows.into();
                    self.reservation = Some(reservation);
                }
                Some(Message::End) => return Ok(None),
                Some(Message::Failed(error)) => return Err(DataFusionError::Shared(error)),
                None => return Err(internal_datafusion_err!("DealExec: an input partition went away without an end")),
            }
        }
        Ok(self.rows.pop_front())
    }
}

/// One output: takes the blocks of its shards from the inputs in rotation.
pub(super) struct Rotation {
    /// Inputs that have not ended.
    inputs: Vec<Incoming>,
    /// Whose turn it is.
    turn: usize,
    /// Blocks that have ended in this turn.
    blocks: usize,
    /// As many as the output has shards.
    blocks_per_turn: usize,
    /// Dropped with the last output.
    _tasks: Arc<Vec<SpawnedTask<()>>>,
}

impl std::fmt::Debug for Rotation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rotation").field("inputs", &self.inputs.len()).field("turn", &self.turn).finish_non_exhaustive()
    }
}

impl Rotation {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.turn >= self.inputs.len() {
                self.turn = 0;
            }
            let Some(input) = self.inputs.get_mut(self.turn) else {
                return Ok(None);
            };
            let Some(dealt) = input.next().await? else {
                self.inputs.remove(self.turn);
                self.blocks = 0;
                continue;
            };
            self.blocks += usize::from(dealt.ends_block);
            if self.blocks == self.blocks_per_turn {
                self.blocks = 0;
                self.turn += 1;
            }
            return Ok(Some(dealt.rows));
        }
    }

    /// The output's rows.
    pub(super) fn into_batches(self) -> impl Stream<Item = Result<RecordBatch>> + Send {
        futures::stream::try_unfold(self, |mut rotation| async move {
            Ok(rotation.next().await?.map(|batch| (batch, rotation)))
        })
    }
}
