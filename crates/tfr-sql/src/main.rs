//! The command `tfr-sql`: the library's [`run`](tfr_sql::run) with this process's arguments, signals and terminal.

use std::backtrace::Backtrace;
use std::panic;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use tfr_sql::{ExitStatus, Terminal, watch_signals};

/// As the engine's own command does: batches come and go, and the C library would hand the memory of each back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Bytes of stack of the thread that plans, which goes through plans by recursion. Memory is taken as it is touched; where not
/// even so many addresses may be had, less has to do.
const PLANNING_STACKS: [usize; 2] = [256 << 20, 32 << 20];

fn main() -> ExitCode {
    for bytes in PLANNING_STACKS {
        if let Ok(thread) = thread::Builder::new().name("main".to_owned()).stack_size(bytes).spawn(command) {
            // Nothing panics outside of what is caught.
            return thread.join().unwrap_or(ExitStatus::Failed).into();
        }
    }
    command().into()
}

fn command() -> ExitStatus {
    // A panic ends as an error that is printed once; where it came from is for those who look for it.
    panic::set_hook(Box::new(|panic| log::info!("{panic}\n{}", Backtrace::capture())));
    // The shards of `--shards N` are all open until the last row. Where the limit cannot be raised, opening them says so.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    tfr_sql::run(std::env::args_os(), || watch_signals(quit), Arc::new(Terminal::with_logger()))
}

/// Leaves at once, whatever is going on: the second Ctrl-C.
#[expect(clippy::exit, reason = "the one place that may, because the user insists")]
fn quit(status: ExitStatus) {
    std::process::exit(status.code().into());
}
