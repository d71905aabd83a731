//! `tfr-sql`: the rows of a SQL query as TFRecord shards, as a table, or on standard output; and a toolbox for TFRecord
//! files.

mod cli;
mod describe;
mod dry_run;
mod error;
mod exit;
mod feature_names;
mod index;
mod inputs;
mod interrupt;
mod map_file;
mod mapping;
mod names;
mod origin;
mod printer;
mod progress;
mod query;
mod recorded;
mod records;
mod report;
mod reshard;
mod row_format;
mod rows;
mod run;
mod salvage;
mod schema;
mod secrets;
mod session;
mod spill;
mod stats;
mod stdin;
mod stored;
mod table;
mod tool;
mod toolbox;
mod used;
mod verify;
mod write;

use std::backtrace::Backtrace;
use std::io::Write as _;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::thread;

use crate::cli::Cli;
use crate::error::{Error, Explanation};
use crate::exit::ExitStatus;
use crate::printer::Printer;
use crate::secrets::Secrets;

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
    let secrets = Secrets::in_arguments(&std::env::args_os().collect::<Vec<_>>());
    let cli = match Cli::from_process() {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to standard output and is no failure; there is nobody to tell when printing fails.
            if !error.use_stderr() {
                let _ = error.print();
                return ExitStatus::Done;
            }
            let _ = write!(anstream::stderr(), "{}", secrets.hide(&error.render().ansi().to_string()));
            return ExitStatus::Usage;
        }
    };
    let printer = Printer::new(&cli.display, secrets);
    printer.log(cli.display.verbose);
    // A panic ends as an error that is printed once; where it came from is for those who look for it.
    panic::set_hook(Box::new(|panic| log::info!("{panic}\n{}", Backtrace::capture())));
    // The shards of `--shards N` are all open until the last row. Where the limit cannot be raised, opening them says so.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let done = panic::catch_unwind(AssertUnwindSafe(|| match cli.tool {
        None => run::query(&cli.query, &printer, quit),
        Some(tool) => toolbox::run(tool, &printer, quit),
    }));
    match done.unwrap_or_else(|panic| Err(Error::panic(panic.as_ref()))) {
        Ok(status) => status,
        Err(error) if error.is_closed_pipe() => ExitStatus::Done,
        Err(error) => {
            printer.error(&Explanation::of(&error));
            if error.is_usage() { ExitStatus::Usage } else { ExitStatus::Failed }
        }
    }
}

/// Leaves at once, whatever is going on: the second Ctrl-C.
#[expect(clippy::exit, reason = "the one place that may, because the user insists")]
fn quit(status: ExitStatus) {
    std::process::exit(status.code().into());
}
