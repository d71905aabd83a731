//! [`Barrier`]: lets the write partitions of a node wait for each other.

use std::sync::Arc;

use datafusion_common::{DataFusionError, Result, internal_datafusion_err};
use tokio::sync::watch;

/// Blocks partitions until all have arrived and the last one has produced the value they continue with. If a
/// partition fails or is dropped before it leaves, the waiting ones fail with its error.
#[derive(Debug)]
pub(super) struct Barrier<T> {
    state: watch::Sender<Gate<T>>,
    partitions: usize,
}

#[derive(Debug)]
enum Gate<T> {
    /// This many partitions have not arrived yet.
    Closed {
        missing: usize,
    },
    /// All partitions have arrived, and continue with this value.
    Open(T),
    Failed(Arc<DataFusionError>),
}

impl<T: Clone> Barrier<T> {
    pub(super) fn new(partitions: usize) -> Self {
        Self { state: watch::Sender::new(Gate::Closed { missing: partitions }), partitions }
    }

    /// Waits until a partition has failed, and returns its error.
    pub(super) async fn failed(&self) -> DataFusionError {
        let mut changes = self.state.subscribe();
        let state = changes.wait_for(|state| matches!(state, Gate::Failed(_))).await;
        match state.as_deref() {
            Ok(Gate::Failed(error)) => DataFusionError::Shared(Arc::clone(error)),
            _ => internal_datafusion_err!("the state that the write partitions share was dropped"),
        }
    }

    /// Registers a partition.
    pub(super) fn visitor(self: &Arc<Self>) -> Visitor<T> {
        Visitor { barrier: Arc::clone(self), is_through: false }
    }
}

/// A partition at a [`Barrier`]. If dropped before it [leaves](Self::leave), it ends the others.
#[derive(Debug)]
pub(super) struct Visitor<T> {
    barrier: Arc<Barrier<T>>,
    is_through: bool,
}

impl<T: Clone> Visitor<T> {
    /// Records that this partition has arrived. Returns `true` for the last one, which must [open](Self::open) the
    /// barrier.
    ///
    /// # Errors
    /// Another partition has failed, or more partitions arrive than expected.
    pub(super) fn arrive(&self) -> Result<bool> {
        let mut arrived = Ok(false);
        self.barrier.state.send_if_modified(|state| {
            match state {
                Gate::Closed { missing } if *missing > 0 => {
                    *missing -= 1;
                    arrived = Ok(*missing == 0);
                }
                Gate::Failed(error) => arrived = Err(DataFusionError::Shared(Arc::clone(error))),
                Gate::Closed { .. } | Gate::Open(_) => {
                    let partitions = self.barrier.partitions;
                    arrived = Err(internal_datafusion_err!("one of {partitions} write partitions runs twice"));
                }
            }
            false
        });
        arrived
    }

    /// Lets all partitions continue with this value.
    pub(super) fn open(&self, with: T) {
        self.barrier.state.send_if_modified(|state| {
            let is_closed = matches!(state, Gate::Closed { .. });
            if is_closed {
                *state = Gate::Open(with);
            }
            is_closed
        });
    }

    /// Waits until the barrier is open.
    ///
    /// # Errors
    /// Another partition has failed.
    pub(super) async fn opened(&self) -> Result<T> {
        let mut changes = self.barrier.state.subscribe();
        let state = changes.wait_for(|state| !matches!(state, Gate::Closed { .. })).await;
        match &*state.map_err(|_| internal_datafusion_err!("the state that the write partitions share was dropped"))? {
            Gate::Open(with) => Ok(with.clone()),
            Gate::Failed(error) => Err(DataFusionError::Shared(Arc::clone(error))),
            Gate::Closed { .. } => Err(internal_datafusion_err!("a closed barrier was passed")),
        }
    }

    /// Checks whether to continue.
    ///
    /// # Errors
    /// Another partition has failed.
    pub(super) fn check(&self) -> Result<()> {
        match &*self.barrier.state.borrow() {
            Gate::Failed(error) => Err(DataFusionError::Shared(Arc::clone(error))),
            Gate::Closed { .. } | Gate::Open(_) => Ok(()),
        }
    }

    /// Marks this partition as done: dropping it no longer ends the others.
    pub(super) fn leave(mut self) {
        self.is_through = true;
    }

    /// Ends the other partitions with this error, unless they have already ended, and returns the error.
    pub(super) fn fail(mut self, error: DataFusionError) -> DataFusionError {
        self.is_through = true;
        let error = Arc::new(error);
        self.barrier.end(Arc::clone(&error));
        DataFusionError::Shared(error)
    }
}

impl<T> Barrier<T> {
    fn end(&self, error: Arc<DataFusionError>) {
        self.state.send_if_modified(|state| {
            let is_first = !matches!(state, Gate::Failed(_));
            if is_first {
                *state = Gate::Failed(error);
            }
            is_first
        });
    }
}

impl<T> Drop for Visitor<T> {
    fn drop(&mut self) {
        if !self.is_through {
            self.barrier.end(Arc::new(internal_datafusion_err!("a write partition was given up")));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    /// Far longer than any operation here, so that a hanging test fails.
    const LONG: Duration = Duration::from_secs(60);

    fn visitors(partitions: usize) -> Vec<Visitor<u32>> {
        let barrier = Arc::new(Barrier::new(partitions));
        (0..partitions).map(|_| barrier.visitor()).collect()
    }

    fn hangs(_: tokio::time::error::Elapsed) -> DataFusionError {
        internal_datafusion_err!("it waits for ever")
    }

    #[tokio::test]
    async fn barrier_opens_when_the_last_visitor_arrives() -> Result<()> {
        let mut visitors = visitors(3);
        let last = visitors.pop().expect("three");
        let mut waiting = Vec::new();
        for visitor in visitors {
            assert!(!visitor.arrive()?);
            waiting.push(tokio::spawn(async move {
                let with = visitor.opened().await?;
                visitor.leave();
                Ok::<_, DataFusionError>(with)
            }));
        }
        assert!(last.arrive()?);
        last.open(7);
        assert_eq!(last.opened().await?, 7);
        last.leave();
        for waiting in waiting {
            assert_eq!(timeout(LONG, waiting).await.map_err(hangs)?.expect("no panic")?, 7);
        }
        Ok(())
    }

    #[tokio::test]
    async fn barrier_error_ends_waiting_and_later_visitors() -> Result<()> {
        let mut visitors = visitors(3);
        let (failing, late) = (visitors.pop().expect("three"), visitors.pop().expect("two"));
        let early = visitors.pop().expect("one");
        assert!(!early.arrive()?);
        let waiting = tokio::spawn(async move { early.opened().await });
        let own = failing.fail(DataFusionError::Execution("disk full".to_owned()));
        assert!(own.to_string().contains("disk full"), "{own}");
        let error = timeout(LONG, waiting).await.map_err(hangs)?.expect("no panic").expect_err("failed");
        assert!(error.to_string().contains("disk full"), "{error}");
        for error in [late.check(), late.arrive().map(drop)] {
            assert!(error.expect_err("failed").to_string().contains("disk full"));
        }
        Ok(())
    }

    #[tokio::test]
    async fn barrier_drop_ends_waiting_visitors() -> Result<()> {
        for has_arrived in [false, true] {
            let mut visitors = visitors(2);
            let (dropped, waiting) = (visitors.pop().expect("two"), visitors.pop().expect("one"));
            assert!(!waiting.arrive()?);
            if has_arrived {
                assert!(dropped.arrive()?, "the last");
            }
            let waiting = tokio::spawn(async move { waiting.opened().await });
            drop(dropped);
            timeout(LONG, waiting).await.map_err(hangs)?.expect("no panic").expect_err("given up");
        }
        Ok(())
    }

    #[test]
    fn barrier_leave_ends_no_other_visitor() -> Result<()> {
        let mut visitors = visitors(2);
        let (first, second) = (visitors.pop().expect("two"), visitors.pop().expect("one"));
        assert!(!first.arrive()? && second.arrive()?);
        second.open(1);
        first.leave();
        second.check()
    }

    #[test]
    fn barrier_rejects_a_partition_that_runs_twice() -> Result<()> {
        let barrier = Arc::new(Barrier::<u32>::new(1));
        let (first, second) = (barrier.visitor(), barrier.visitor());
        assert!(first.arrive()?);
        second.arrive().expect_err("there is one");
        Ok(())
    }
}
