//! [`Listener`]: the caller's side of a run, which receives its rows, messages and progress.

use std::io;
use std::time::Duration;

use crate::cli::Display;
use crate::secrets::Secrets;

/// Receives what a run prints. [`Terminal`](crate::Terminal) is the listener of the command.
///
/// Texts of events contain no secrets of the arguments or of the SQL text, but control characters as they are in the data.
pub trait Listener: Send + Sync {
    /// Called once, when the arguments have been parsed and before anything runs. A logger can hide the `secrets` that may be
    /// in its records.
    fn begin(&self, display: &Display, secrets: &Secrets) {
        let _ = (display, secrets);
    }

    /// Receives a message or progress. Called by several threads.
    fn event(&self, event: Event<'_>);

    /// Writes rows, a plan or a report to the run's output. An error of [`io::ErrorKind::BrokenPipe`] ends the run with
    /// success.
    fn data(&self, data: &[u8]) -> io::Result<()>;

    /// Whether a person reads the data. Rows are then printed as a table, otherwise as CSV, unless the arguments decide.
    fn is_terminal(&self) -> bool {
        false
    }

    /// Returns how often to report progress; never if `None`.
    fn progress_interval(&self) -> Option<Duration> {
        None
    }
}

/// An event of a run.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The help or version that the arguments ask for, with ANSI styles.
    Help(&'a str),
    /// The arguments are wrong: the message and the usage, with ANSI styles.
    Usage(&'a str),
    /// Information, such as the closing summary.
    Note(&'a str),
    /// A problem that does not end the run.
    Warning(&'a str),
    /// The error that ends the run.
    Error {
        /// What failed.
        message: &'a str,
        /// Why, from the outermost cause in.
        causes: &'a [String],
        /// What to do about it.
        hint: Option<&'a str>,
    },
    /// Progress, at the [interval](Listener::progress_interval) that the listener asks for; `None` when the work ends.
    Progress(Option<&'a Progress>),
}

/// How far the run is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The finished share of the work, from 0 to 1, if its size is known.
    pub share: Option<f64>,
    /// Rows, speed and time left, in words.
    pub message: String,
}
