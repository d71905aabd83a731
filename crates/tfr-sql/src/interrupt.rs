//! Ctrl-C and SIGTERM: the first asks the run to clean up and leave, the second ends the process at once.

use std::io;
use std::thread;

use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::exit::ExitStatus;

/// Takes over both signals. The receiver gets the first; `kill` is called with the second and does not return.
///
/// The watch has a thread of its own, so that it answers while the query's runtime is busy or shutting down.
pub fn watch(kill: impl Fn(ExitStatus) + Send + 'static) -> io::Result<oneshot::Receiver<ExitStatus>> {
    let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut interrupt, mut terminate) = {
        let _entered = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let (first, received) = oneshot::channel();
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
                    Some(first) => drop(first.send(status)),
                    None => kill(status),
                }
            }
        });
    })?;
    Ok(received)
}
