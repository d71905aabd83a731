//! [`Interrupt`]: a request to stop a run, and [`watch_signals`], which creates one that Ctrl-C, SIGTERM and SIGHUP trigger.

use std::fs;
use std::future;
use std::io;
use std::sync::{Arc, OnceLock};
use std::thread;

use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
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

/// Handles Ctrl-C, SIGTERM and SIGHUP: the first asks the run to stop. One that is repeated calls `kill`, which should end the
/// process. A SIGTERM after Ctrl-C is not a repetition: a terminal sends Ctrl-C to all processes in the foreground, and a
/// program that runs this command may then ask it to stop, too.
///
/// A signal that was ignored when the process began stays ignored, as `nohup` and background jobs of scripts need it. Where
/// the system does not report these signals (it has no `/proc`), SIGHUP is not handled.
///
/// Also ignores SIGXFSZ, which would otherwise end the process in the middle of a write.
///
/// Signals are handled on their own thread, so they are answered while the query's runtime is busy or shutting down.
pub fn watch_signals(kill: impl Fn(ExitStatus) + Send + 'static) -> io::Result<Interrupt> {
    let runtime = runtime::Builder::new_current_thread().enable_io().build()?;
    let ignored = ignored_signals();
    let watch = |kind: SignalKind| match ignored {
        Some(ignored) if is_in(ignored, kind) => Ok(None),
        None if kind == SignalKind::hangup() => Ok(None),
        _ => signal(kind).map(Some),
    };
    let (mut interrupt, mut terminate, mut hang_up) = {
        let _entered = runtime.enter();
        // The handler stays installed after this stream is dropped.
        drop(signal(SignalKind::from_raw(SIGXFSZ))?);
        (watch(SignalKind::interrupt())?, watch(SignalKind::terminate())?, watch(SignalKind::hangup())?)
    };
    let requested = Interrupt::default();
    let request = requested.clone();
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async move {
            let (mut interrupts, mut terminations, mut hang_ups) = (0u64, 0u64, 0u64);
            loop {
                let (status, count) = tokio::select! {
                    () = received(&mut interrupt) => (ExitStatus::Interrupted, &mut interrupts),
                    () = received(&mut terminate) => (ExitStatus::Terminated, &mut terminations),
                    () = received(&mut hang_up) => (ExitStatus::HungUp, &mut hang_ups),
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

/// Waits for a signal, or for ever if it is not watched.
async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => future::pending().await,
    }
}

/// Returns the signals that this process ignores, as a bit each, or `None` if the system does not report them.
fn ignored_signals() -> Option<u64> {
    parse_ignored(&fs::read_to_string("/proc/self/status").ok()?)
}

/// Finds the ignored signals in a process's status, as in proc(5).
fn parse_ignored(status: &str) -> Option<u64> {
    let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(bits.trim(), 16).ok()
}

fn is_in(signals: u64, kind: SignalKind) -> bool {
    u32::try_from(kind.as_raw_value() - 1).is_ok_and(|bit| signals.checked_shr(bit).unwrap_or_default() & 1 == 1)
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;

    #[test]
    fn ignored_signals_are_in_the_status() {
        let ignored =
            parse_ignored("SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000002\n");
        assert_eq!(ignored, Some(0x1001));
        assert!(is_in(0x1001, SignalKind::hangup()) && is_in(0x1001, SignalKind::pipe()));
        assert!(!is_in(0x1001, SignalKind::interrupt()) && !is_in(0x1001, SignalKind::terminate()));
        assert_eq!(parse_ignored("Name:\ttfr-sql\n"), None);
    }

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
