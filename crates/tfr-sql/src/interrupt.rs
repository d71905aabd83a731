//! [`Interrupt`]: a request to stop a run, and [`watch_signals`], which creates one that Ctrl-C and SIGTERM trigger.

use std::future;
use std::io;
use std::sync::{Arc, OnceLock};
use std::thread;

use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::exit::ExitStatus;

/// Sent when a file reaches the limit set by `ulimit -f`; 25 on Linux and macOS (signal(7)). If the signal does not
/// end the process, the write fails with its own error.
const SIGXFSZ: i32 = 25;

/// Asks a run to clean up and stop. Clones refer to the same run.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    first: Arc<OnceLock<ExitStatus>>,
    /// Cancelled after the status has been set.
    stop: CancellationToken,
}

impl Interrupt {
    /// Asks the run to stop and to return `status`. Returns false if it was already asked.
    pub fn request(&self, status: ExitStatus) -> bool {
        let is_first = self.first.set(status).is_ok();
        self.stop.cancel();
        is_first
    }

    /// Waits for the request. Returns the exit status of the run.
    pub(crate) async fn received(&self) -> ExitStatus {
        self.stop.cancelled().await;
        match self.already() {
            Some(status) => status,
            None => future::pending().await,
        }
    }

    /// Returns the exit status if the run was asked to stop.
    pub(crate) fn already(&self) -> Option<ExitStatus> {
        self.first.get().copied()
    }

    /// Returns a token that the request cancels, for work that cannot be interrupted in any other way.
    pub(crate) fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }
}

/// Handles Ctrl-C and SIGTERM: the first asks the run to stop. One that is repeated calls `kill`, which should end the
/// process. A SIGTERM after Ctrl-C is not a repetition: a terminal sends Ctrl-C to all processes in the foreground, and a
/// program that runs this command may then ask it to stop, too.
///
/// Also ignores SIGXFSZ, which would otherwise end the process in the middle of a write.
///
/// Signals are handled on their own thread, so they are answered while the query's runtime is busy or shutting down.
pub fn watch_signals(kill: impl Fn(ExitStatus) + Send + 'static) -> io::Result<Interrupt> {
    let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut interrupt, mut terminate) = {
        let _entered = runtime.enter();
        // The handler stays installed after this stream is dropped.
        drop(signal(SignalKind::from_raw(SIGXFSZ))?);
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let requested = Interrupt::default();
    let request = requested.clone();
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async move {
            let (mut interrupts, mut terminations) = (0u64, 0u64);
            loop {
                let (status, count) = tokio::select! {
                    _ = interrupt.recv() => (ExitStatus::Interrupted, &mut interrupts),
                    _ = terminate.recv() => (ExitStatus::Terminated, &mut terminations),
                };
                *count += 1;
                if *count > 1 {
                    kill(status);
                }
                request.request(status);
            }
        });
    })?;
    Ok(requested)
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;

    #[test]
    fn a_request_is_received_as_often_as_it_is_waited_for() {
        let interrupt = Interrupt::default();
        assert_eq!(interrupt.already(), None);
        assert!(interrupt.request(ExitStatus::Terminated));
        assert!(!interrupt.request(ExitStatus::Interrupted));
        for _ in 0..2 {
            assert_eq!(block_on(interrupt.received()), ExitStatus::Terminated);
            assert_eq!(interrupt.already(), Some(ExitStatus::Terminated));
        }
    }
}
