//! Ctrl-C and SIGTERM: the first asks the run to clean up and leave, the second ends the process at once. And SIGXFSZ,
//! which would end it in the middle of a write.

use std::future;
use std::io;
use std::thread;

use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::exit::ExitStatus;

/// A file has reached the limit that `ulimit -f` sets; 25 on Linux and macOS (signal(7)). The write fails with an error
/// of its own if the signal does not end the process.
const SIGXFSZ: i32 = 25;

/// The first Ctrl-C or SIGTERM.
pub struct Interrupt {
    first: oneshot::Receiver<ExitStatus>,
    stop: CancellationToken,
}

impl Interrupt {
    /// Waits for the signal and tells how the run is to end. Not to be awaited again after that.
    pub async fn received(&mut self) -> ExitStatus {
        match (&mut self.first).await {
            Ok(status) => status,
            Err(_) => future::pending().await,
        }
    }

    /// How the run is to end, if the signal has come and nobody has waited for it.
    pub fn already(&mut self) -> Option<ExitStatus> {
        self.first.try_recv().ok()
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
    let (first, received) = oneshot::channel();
    let stop = CancellationToken::new();
    let told = stop.clone();
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async move {
            let mut first = Some(first);
            loop {
                let status = tokio::select! {
                    _ = interrupt.recv() => ExitStatus::Interrupted,
                    _ = terminate.recv() => ExitStatus::Terminated,
                };
                match first.take() {
                    // Nobody listens when the run has just ended.
                    Some(first) => {
                        first.send(status).ok();
                        told.cancel();
                    }
                    None => kill(status),
                }
            }
        });
    })?;
    Ok(Interrupt { first: received, stop })
}
