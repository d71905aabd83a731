//! Ctrl-C and SIGTERM: the first asks the run to clean up and leave, the second ends the process at once. And SIGXFSZ,
//! which would end it in the middle of a write.

use std::future;
use std::io;
use std::sync::{Arc, OnceLock};
use std::thread;

use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::exit::ExitStatus;

/// A file has reached the limit that `ulimit -f` sets; 25 on Linux and macOS (signal(7)). The write fails with an error
/// of its own if the signal does not end the process.
const SIGXFSZ: i32 = 25;

/// The first Ctrl-C or SIGTERM. It may be waited for any number of times.
pub struct Interrupt {
    first: Arc<OnceLock<ExitStatus>>,
    /// Cancelled once the status is set.
    stop: CancellationToken,
}

impl Interrupt {
    /// Waits for the signal and tells how the run is to end.
    pub async fn received(&self) -> ExitStatus {
        self.stop.cancelled().await;
        match self.already() {
            Some(status) => status,
            None => future::pending().await,
        }
    }

    /// How the run is to end, if the signal has come.
    pub fn already(&self) -> Option<ExitStatus> {
        self.first.get().copied()
    }

    /// Tells work that nothing else can interrupt.
    pub fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }
}

/// Takes over these signals. `kill` is called with the second
/// Ctrl-C or SIGTERM and does not return.
///
/// The watch has a thread of its own, so that it answers while the query's runtime is busy or shutting down.
pub fn watch(kill: impl Fn(ExitStatus) + Send + 'static) -> Result<Interrupt> {
    start(kill).map_err(|source| Error::Start { what: "the watch for Ctrl-C", source })
}

fn start(kill: impl Fn(ExitStatus) + Send + 'static) -> io::Result<Interrupt> {
    let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut interrupt, mut terminate) = {
        let _entered = runtime.enter();
        // What is watched stays taken over when nobody waits for it.
        drop(signal(SignalKind::from_raw(SIGXFSZ))?);
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let received = Interrupt { first: Arc::default(), stop: CancellationToken::new() };
    let (first, stop) = (Arc::clone(&received.first), received.stop());
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async move {
            loop {
                let status = tokio::select! {
                    _ = interrupt.recv() => ExitStatus::Interrupted,
                    _ = terminate.recv() => ExitStatus::Terminated,
                };
                match first.set(status) {
                    Ok(()) => stop.cancel(),
                    Err(status) => kill(status),
                }
            }
        });
    })?;
    Ok(received)
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;

    #[test]
    fn a_signal_is_received_as_often_as_it_is_waited_for() {
        let interrupt = Interrupt { first: Arc::default(), stop: CancellationToken::new() };
        assert_eq!(interrupt.already(), None);
        interrupt.first.set(ExitStatus::Terminated).unwrap();
        interrupt.stop.cancel();
        for _ in 0..2 {
            assert_eq!(block_on(interrupt.received()), ExitStatus::Terminated);
            assert_eq!(interrupt.already(), Some(ExitStatus::Terminated));
        }
    }
}
