//! The exit status of a run.

use std::process::ExitCode;

/// The command's exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExitStatus {
    /// The rows were written or printed. Also returned when the reader of standard output closed the pipe.
    Done,
    /// The query or the data failed.
    Failed,
    /// The arguments are invalid.
    Usage,
    /// A task of a plan failed for a reason that may go away, such as a busy store, or tasks are missing.
    TryAgain,
    /// The time of `--timeout` has passed.
    TimedOut,
    /// Ctrl-C (SIGINT).
    Interrupted,
    /// SIGTERM.
    Terminated,
    /// SIGHUP: the terminal or connection was closed.
    HungUp,
}

impl ExitStatus {
    /// Whether the run was asked to stop before it was done.
    pub(crate) fn is_stopped(self) -> bool {
        matches!(self, Self::TimedOut | Self::Interrupted | Self::Terminated | Self::HungUp)
    }

    /// Returns the exit code. That for trying again is `EX_TEMPFAIL` of sysexits.h, that of a timeout is the one of GNU
    /// `timeout`. After a signal, 128 + the signal's number, as shells report it.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::TryAgain => 75,
            Self::TimedOut => 124,
            Self::Interrupted => 130,
            Self::Terminated => 143,
            Self::HungUp => 129,
        }
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status.code())
    }
}
