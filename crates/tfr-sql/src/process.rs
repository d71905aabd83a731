//! [`command`]: the command as a process, with its arguments, signals and terminal.

use std::backtrace::Backtrace;
use std::panic;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use crate::cluster::ClusterSupport;
use crate::exit::ExitStatus;
use crate::interrupt::watch_signals;
use crate::terminal::Terminal;

/// Stack sizes in bytes for the planning thread, which traverses plans recursively. The system allocates stack memory
/// on first touch. The smaller size is used where the address space is too small for the larger one.
const PLANNING_STACKS: [usize; 2] = [256 << 20, 32 << 20];

/// Calls [`run_on`](crate::run_on) with this process's arguments, signals and terminal. To be called by `main`, once.
pub fn command(cluster: Option<ClusterSupport>) -> ExitCode {
    for bytes in PLANNING_STACKS {
        let cluster = cluster.clone();
        let run = move || run(cluster);
        if let Ok(thread) = thread::Builder::new().name("main".to_owned()).stack_size(bytes).spawn(run) {
            // The thread catches every panic that can occur.
            return thread.join().unwrap_or(ExitStatus::Failed).into();
        }
    }
    run(cluster).into()
}

fn run(cluster: Option<ClusterSupport>) -> ExitStatus {
    // A panic becomes an error that is printed once. The backtrace goes to the log.
    panic::set_hook(Box::new(|panic| log::info!("{panic}\n{}", Backtrace::capture())));
    // The shards of `--shards N` are all open until the last row. If the limit cannot be raised, opening them reports
    // the error.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    crate::run_on(cluster, std::env::args_os(), || watch_signals(quit), Arc::new(Terminal::with_logger()))
}

/// Exits immediately, for the second Ctrl-C.
#[expect(clippy::exit, reason = "the one place that may, because the user insists")]
fn quit(status: ExitStatus) {
    std::process::exit(status.code().into());
}
