//! [`Listener`]: receives the rows, messages and progress of a run on behalf of the caller.

use std::io;
use std::time::Duration;

use anstream::adapter::strip_str;

use crate::cli::Display;
use crate::error::ErrorDetails;
use crate::secrets::Secrets;

/// Receives the output of a run. [`Terminal`](crate::Terminal) is the listener of the command.
///
/// Event texts contain no secrets from the arguments or the SQL text. Control characters in the data are passed on
/// unchanged.
pub trait Listener: Send + Sync {
    /// Called once, after the arguments have been parsed and before anything runs. A logger can use `secrets` to
    /// redact its records.
    fn begin(&self, display: &Display, secrets: &Secrets) {
        let _ = (display, secrets);
    }

    /// Receives a message or progress. May be called from several threads.
    fn event(&self, event: Event<'_>);

    /// Writes rows, a plan or a report to the run's output. An error of [`io::ErrorKind::BrokenPipe`] ends the run with
    /// success.
    fn data(&self, data: &[u8]) -> io::Result<()>;

    /// Writes the help or version text that the arguments request, with ANSI styles. By default it is data, without styles.
    fn help(&self, text: &str) -> io::Result<()> {
        self.data(strip_str(text).to_string().as_bytes())
    }

    /// Returns whether a person reads the data. Rows are then printed as a table, otherwise as CSV, unless the
    /// arguments specify a format.
    fn is_terminal(&self) -> bool {
        false
    }

    /// Returns the interval between progress reports, or `None` for no reports.
    fn progress_interval(&self) -> Option<Duration> {
        None
    }
}

/// An event of a run.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The arguments are invalid: the message and the usage, with ANSI styles.
    Usage(&'a str),
    /// Information, such as the closing summary.
    Note(&'a str),
    /// A problem that does not end the run.
    Warning(&'a str),
    /// Information that the output loses by the mapping of a column, which `--strict` refuses.
    Loss(&'a str),
    /// The error that ends the run.
    Error {
        /// What failed.
        message: &'a str,
        /// The causes, from the outermost in.
        causes: &'a [String],
        /// How to fix it.
        hint: Option<&'a str>,
        /// Its class and location.
        details: &'a ErrorDetails,
    },
    /// Progress, at the [interval](Listener::progress_interval) that the listener requests; `None` when the work ends.
    Progress(Option<&'a Progress>),
}

/// The progress of a run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// The finished fraction of the work, from 0 to 1, if its size is known.
    pub share: Option<f64>,
    /// The rows written, or read if none have been written, if they are counted.
    pub rows: Option<u64>,
    /// Rows, speed and remaining time, as text.
    pub message: String,
}
