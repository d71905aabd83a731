//! [`command`]: the command as a process, with its arguments, signals and terminal.

use std::backtrace::Backtrace;
use std::io::{self, Write as _};
use std::mem;
use std::panic;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use tfr_stores::Door;

use crate::cluster::ClusterSupport;
use crate::confinement::confine;
use crate::exit::ExitStatus;
use crate::interrupt::{EndProcess, watch_signals};
use crate::listener::{Event, Listener as _};
use crate::terminal::Terminal;

/// Stack sizes in bytes for the planning thread, which traverses plans recursively. The system allocates stack memory
/// on first touch. The smaller size is used where the address space is too small for the larger one.
const PLANNING_STACKS: [usize; 2] = [256 << 20, 32 << 20];

/// How long the process waits for its last message to be written.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Calls [`run_on`](crate::run_on) with this process's arguments, signals and terminal. To be called by `main`, once.
pub fn command(cluster: Option<ClusterSupport>) -> ExitCode {
    for bytes in PLANNING_STACKS {
        let cluster = cluster.clone();
        let run = move || run(cluster);
        if let Ok(thread) = thread::Builder::new().name("main".to_owned()).stack_size(bytes).spawn(run) {
            // The thread catches every panic that can occur.
            return leave(thread.join().unwrap_or(ExitStatus::Failed));
        }
    }
    leave(run(cluster))
}

/// Ends the process. Threads may still be busy, or ending: no destructor of the process runs beside them.
fn leave(status: ExitStatus) -> ExitCode {
    let is_written = io::stdout().flush().is_ok();
    let status = if is_written || status != ExitStatus::Done { status } else { ExitStatus::Failed };
    signal_hook::low_level::exit(status.code().into())
}

fn run(cluster: Option<ClusterSupport>) -> ExitStatus {
    // A panic becomes an error that is printed once. The backtrace goes to the log.
    panic::set_hook(Box::new(|panic| log::info!("{panic}\n{}", Backtrace::capture())));
    // The shards of `--shards N` are all open until the last row. If the limit cannot be raised, opening them reports
    // the error.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let terminal = Terminal::with_logger();
    let process = Process(terminal.clone());
    let confine = |door: &Door| {
        if door.is_limited() {
            log::info!("--allow: {}", confine(door));
        }
    };
    crate::run_within(cluster, std::env::args_os(), || watch_signals(process), Arc::new(terminal), confine)
}

/// This process.
struct Process(Terminal);

impl EndProcess for Process {
    fn end(&self, status: ExitStatus) {
        if status == ExitStatus::TimedOut {
            self.say(
                Event::Warning("the time of --timeout has passed, and the run did not react: it is ended"),
                LAST_WORDS,
            );
        }
        signal_hook::low_level::exit(status.code().into());
    }

    fn say_why_not(&self) {
        const REASON: &str = "still publishing, or removing what was staged; a second signal ends the command at once";
        self.say(Event::Note(REASON), Duration::ZERO);
    }
}

impl Process {
    /// Reports `event`, and waits for that no longer than `patience`: a pipe that nobody reads must not keep the caller
    /// from signals.
    fn say(&self, event: Event<'static>, patience: Duration) {
        let terminal = self.0.clone();
        let (sender, receiver) = mpsc::channel::<()>();
        let say = move || {
            terminal.event(event);
            drop(sender);
        };
        if let Ok(thread) = thread::Builder::new().spawn(say) {
            mem::forget(thread);
            // Nothing is sent: the channel is closed afterwards.
            let _ = receiver.recv_timeout(patience);
        }
    }
}
