//! [`Interrupt`]: a request to stop a run, and [`watch_signals`], which creates one that Ctrl-C, SIGTERM and SIGHUP trigger.

use std::fs::{self, File};
use std::future;
use std::io;
use std::mem;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use tfrecord_shards::Settling;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::{runtime, time};
use tokio_util::sync::CancellationToken;

use crate::exit::ExitStatus;

/// Sent when a file reaches the limit set by `ulimit -f`; 25 on Linux and macOS (signal(7)). If the signal does not
/// end the process, the write fails with its own error.
const SIGXFSZ: i32 = 25;

/// Number of files that any run may have open beside its own input and output.
const FEWEST_FILES: usize = 8;

/// How long a run may go on after a signal.
const PATIENCE: Duration = Duration::from_secs(10);

/// The interval at which a run that was asked to stop is looked at.
const TICK: Duration = Duration::from_secs(1);

/// How long a run may go on after a signal while it plans its query, and has nothing to remove.
const PLANNING_PATIENCE: Duration = Duration::from_secs(1);

/// Asks a run to clean up and stop. Clones refer to the same run.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    first: Arc<OnceLock<ExitStatus>>,
    /// Cancelled after the status has been set.
    stop: CancellationToken,
    /// Number of [`Planning`] values.
    plans: Arc<AtomicUsize>,
}

/// Exists while a run plans its query, and has nothing to remove.
#[derive(Debug)]
pub(crate) struct Planning(Arc<AtomicUsize>);

impl Drop for Planning {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
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

    /// Records that the run plans its query until the result is dropped. Planning does not react to the request.
    pub(crate) fn plans(&self) -> Planning {
        self.plans.fetch_add(1, Ordering::SeqCst);
        Planning(Arc::clone(&self.plans))
    }

    fn has_nothing_to_remove(&self) -> bool {
        self.plans.load(Ordering::SeqCst) > 0
    }

    /// Returns a token that the request cancels, for work that cannot be interrupted in any other way.
    pub(crate) fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }
}

/// What [`watch_signals`] does to end the process.
pub trait EndProcess: Send + 'static {
    /// Ends the process at once.
    fn end(&self, status: ExitStatus);

    /// Says that the process has not ended yet, because it publishes, or removes what it has staged.
    fn say_why_not(&self);
}

/// Handles Ctrl-C, SIGTERM and SIGHUP: the first asks the run to stop. One that is repeated ends the process. A SIGTERM
/// after Ctrl-C is not a repetition: a terminal sends Ctrl-C to all processes in the foreground, and a program that runs
/// this command may then ask it to stop, too.
///
/// A run that does not react is ended after ten seconds, and after one second while it plans a query, but not while it
/// publishes or removes what it has staged.
///
/// A signal that was ignored when the process began stays ignored, as `nohup` and background jobs of scripts need it. Where
/// the system does not report these signals (it has no `/proc`), SIGHUP is not handled.
///
/// Also ignores SIGXFSZ, which would otherwise end the process in the middle of a write.
///
/// Signals are handled on their own thread, so they are answered while the query's runtime is busy or shutting down.
pub fn watch_signals(process: impl EndProcess) -> io::Result<Interrupt> {
    // Without them the handler itself, and libraries that read the clock, would panic.
    check_descriptors()?;
    check_clock()?;
    let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
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
    let thread = thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async move {
            let (mut interrupts, mut terminations, mut hang_ups) = (0u64, 0u64, 0u64);
            let mut deadline = pin!(end_the_deaf(&request, &process));
            loop {
                let (status, count) = tokio::select! {
                    () = received(&mut interrupt) => (ExitStatus::Interrupted, &mut interrupts),
                    () = received(&mut terminate) => (ExitStatus::Terminated, &mut terminations),
                    () = received(&mut hang_up) => (ExitStatus::HungUp, &mut hang_ups),
                    () = &mut deadline => return,
                };
                *count += 1;
                if *count > 1 {
                    process.end(status);
                }
                request.request(status);
            }
        });
    })?;
    // Never joined, since it ends with the process.
    mem::forget(thread);
    Ok(requested)
}

/// Checks that a few files can be opened.
fn check_descriptors() -> io::Result<()> {
    let opened: io::Result<Vec<File>> = (0..FEWEST_FILES).map(|_| File::open("/dev/null")).collect();
    opened.map(drop)
}

fn check_clock() -> io::Result<()> {
    match SystemTime::now() < SystemTime::UNIX_EPOCH {
        true => Err(io::Error::other("the system's clock shows a time before 1970")),
        false => Ok(()),
    }
}

/// Ends the process if it goes on too long after the first signal.
async fn end_the_deaf(request: &Interrupt, process: &impl EndProcess) {
    let status = request.received().await;
    time::sleep(PLANNING_PATIENCE).await;
    if request.has_nothing_to_remove() {
        return process.end(status);
    }
    // Time without such work: after it, the run still has to report.
    let (began, mut idle, mut reported) = (Instant::now(), PLANNING_PATIENCE, false);
    while idle < PATIENCE {
        time::sleep(TICK).await;
        idle = if Settling::is_any() { Duration::ZERO } else { idle + TICK };
        if idle.is_zero() && !reported && began.elapsed() > PATIENCE {
            reported = true;
            process.say_why_not();
        }
    }
    process.end(status);
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
    fn interrupt_is_received_by_every_waiter() {
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
