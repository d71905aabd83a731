//! [`Interrupt`]: a request to stop a run, and [`watch_signals`], which makes one of Ctrl-C and SIGTERM.

use std::future;
use std::io;
use std::sync::{Arc, OnceLock};
use std::thread;

use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::exit::ExitStatus;

/// A file has reached the limit that `ulimit -f` sets; 25 on Linux and macOS (signal(7)). The write fails with an error
/// of its own if the signal does not end the process.
const SIGXFSZ: i32 = 25;

/// Asks a run to clean up and stop. Clones ask the same run.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    first: Arc<OnceLock<ExitStatus>>,
    /// Cancelled once the status is set.
    stop: CancellationToken,
}

impl Interrupt {
    /// Asks the run to stop and to return `status`. Returns false if it was asked before.
    pub fn request(&self, status: ExitStatus) -> bool {
        let is_first = self.first.set(status).is_ok();
        self.stop.cancel();
        is_first
    }

    /// Waits for the request. Returns how the run is to end.
    pub(crate) async fn received(&self) -> ExitStatus {
        self.stop.cancelled().await;
        match self.already() {
            Some(status) => status,
            None => future::pending().await,
        }
    }

    /// Returns how the run is to end, if it was asked to stop.
    pub(crate) fn already(&self) -> Option<ExitStatus> {
        self.first.get().copied()
    }

    /// Returns a token that is cancelled by the request, for work that nothing else can interrupt.
    pub(crate) fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }
}

/// Takes over Ctrl-C and SIGTERM: the first asks the run to stop, each further one calls `kill`, which should end the
/// process. Also ignores SIGXFSZ, which would end the process in the middle of a write.
///
/// The signals have a thread of their own, so that they are answered while the query's runtime is busy or shutting down.
pub fn watch_signals(kill: impl Fn(ExitStatus) + Send + 'static) -> io::Result<Interrupt> {
    let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut interrupt, mut terminate) = {
        let _entered = runtime.enter();
        // What is watched stays taken over when nobody waits for it.
        drop(signal(SignalKind::from_raw(SIGXFSZ))?);
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let requested = Interrupt::default();
    let request = requested.clone();
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async move {
            loop {
                let status = tokio::select! {
                    _ = interrupt.recv() => ExitStatus::Interrupted,
                    _ = terminate.recv() => ExitStatus::Terminated,
                };
                if !request.request(status) {
                    kill(status);
                }
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
