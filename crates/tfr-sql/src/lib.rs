//! `tfr-sql` as a library: writes the rows of a SQL query as TFRecord shards, as a table or as text, and provides
//! tools for TFRecord files.
//!
//! [`run()`] does what the command does with the same arguments. The caller passes its own [`Interrupt`], to stop the
//! run, and its own [`Listener`], which receives rows, messages and progress. The command uses [`watch_signals`] and
//! [`Terminal`], as [`command`] does.

mod access;
mod cli;
pub mod cluster;
mod confinement;
mod describe;
mod doctor;
mod dry_run;
mod error;
mod exit;
mod feature_names;
mod file_types;
mod forms;
mod index;
mod inputs;
mod interrupt;
mod listener;
mod map_file;
mod mapping;
mod messages;
mod metastore;
mod names;
mod origin;
mod pipe_table;
mod pipes;
mod print;
mod printer;
mod process;
mod progress;
mod query;
mod rebuild;
mod rebuilt;
mod recorded;
mod records;
mod report;
mod reshard;
mod rewrite;
mod row_format;
mod rows;
mod run;
mod salvage;
mod schema;
mod secrets;
mod session;
mod spill;
mod stats;
mod stored;
mod table;
mod tasks;
mod terminal;
mod time_limit;
mod tool;
mod toolbox;
mod used;
mod verify;
mod version;
mod write;

use std::ffi::OsString;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use tfr_stores::Door;

use crate::cli::{Cli, Generated};
use crate::cluster::ClusterSupport;
use crate::error::{Error, Explanation};
use crate::printer::Printer;
use crate::time_limit::TimeLimit;

pub use cli::{Display, MessageTarget, When};
pub use confinement::{Confinement, confine};
pub use error::{ErrorClass, ErrorDetails};
pub use exit::ExitStatus;
pub use interrupt::{EndProcess, Interrupt, watch_signals};
pub use listener::{Event, Listener, Progress};
pub use process::command;
pub use secrets::Secrets;
pub use terminal::Terminal;

/// Runs a query or a tool. Returns after it has ended and cleaned up.
///
/// `arguments` are the arguments of the command, starting with the program name. `interrupt` is called after the query
/// text has been read: reading it from standard input cannot be interrupted. Errors and panics are reported to
/// `listener` as events.
///
/// Queries are planned recursively on the calling thread: deeply nested ones need a large stack. `--shards N` opens N
/// files at once, which the process's file limit must allow.
pub fn run(
    arguments: impl IntoIterator<Item = OsString>,
    interrupt: impl FnOnce() -> io::Result<Interrupt>,
    listener: Arc<dyn Listener>,
) -> ExitStatus {
    run_on(None, arguments, interrupt, listener)
}

/// Same as [`run()`]. With `cluster`, the command has the option `--cluster`.
pub fn run_on(
    cluster: Option<ClusterSupport>,
    arguments: impl IntoIterator<Item = OsString>,
    interrupt: impl FnOnce() -> io::Result<Interrupt>,
    listener: Arc<dyn Listener>,
) -> ExitStatus {
    run_within(cluster, arguments, interrupt, listener, |_| {})
}

/// As [`run_on`]. `confine` is called with what the run may open, before it opens anything and starts a thread.
fn run_within(
    cluster: Option<ClusterSupport>,
    arguments: impl IntoIterator<Item = OsString>,
    interrupt: impl FnOnce() -> io::Result<Interrupt>,
    listener: Arc<dyn Listener>,
    confine: impl FnOnce(&Door),
) -> ExitStatus {
    let arguments: Vec<_> = arguments.into_iter().collect();
    let printer = Printer::new(listener, Secrets::in_arguments(&arguments));
    let interrupt = || interrupt().map_err(|source| Error::Start { what: "the watch for requests to stop", source });
    let messages = MessageTarget::of_arguments(&arguments);
    let done = panic::catch_unwind(AssertUnwindSafe(|| {
        let processes = cluster.as_ref().map(|cluster| cluster.processes.as_slice());
        if let Some(generated) = Generated::of_arguments(&arguments) {
            printer.begin(&Display::default());
            let text = Cli::generate(generated, processes);
            text.and_then(|text| printer.data(&text)).map_err(Error::Stdout)?;
            return Ok(ExitStatus::Done);
        }
        let cli = match Cli::parse(arguments.clone(), processes) {
            Ok(cli) => cli,
            Err(error) => {
                printer.begin(&Display { messages, ..Display::default() });
                return printer.usage(&error).map_err(Error::Stdout);
            }
        };
        printer.begin(&cli.display);
        let door = access::door(&cli.allow)?;
        confine(&door);
        let messages = cli.display.messages.clone();
        let mut time_limit = None;
        let interrupt = || {
            let interrupt = interrupt()?;
            if let Some(limit) = cli.display.timeout {
                let started = TimeLimit::start(limit, interrupt.clone());
                time_limit = Some(started.map_err(|source| Error::Start { what: "the watch of the time", source })?);
            }
            if let Some(messages) = messages {
                messages.stop_at(interrupt.clone());
            }
            Ok::<_, Error>(interrupt)
        };
        match cli.tool {
            None => {
                let connect = cluster.map(|cluster| cluster.connect);
                run::query(&cli.query, &arguments, connect, &door, &printer, interrupt)
            }
            Some(tool) => toolbox::run(tool, door, &printer, interrupt),
        }
    }));
    match done.unwrap_or_else(|panic| Err(Error::panic(panic.as_ref()))) {
        Ok(ExitStatus::TimedOut) => {
            printer.error(Explanation::of(&Error::TimedOut));
            ExitStatus::TimedOut
        }
        Ok(status) => status,
        Err(error) if error.is_closed_pipe() => ExitStatus::Done,
        Err(error) => {
            printer.error(Explanation::of(&error));
            error.status()
        }
    }
}
