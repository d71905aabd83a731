//! How a run ended, as the shell sees it.

use std::process::ExitCode;

/// The command's exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// The rows are written or printed; also when the reader of standard output went away.
    Done,
    /// The query or the data failed.
    Failed,
    /// The arguments make no sense.
    Usage,
    /// Ctrl-C (SIGINT).
    Interrupted,
    /// SIGTERM.
    Terminated,
}

impl ExitStatus {
    /// The number the shell gets: 128 + the signal's number after a signal, as shells report it.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status.code())
    }
}
