//! The names of a run's temporary directory and of what is in it.

/// Prefix of the directory names.
pub const PREFIX: &str = "tfr-sql-";

/// The file that a run keeps locked. The system releases the lock when the run dies.
pub const LOCK: &str = "lock";

/// Its name before it is locked.
pub const UNLOCKED: &str = "unlocked";

/// The directory for the engine's files.
pub const LIVE: &str = "live";

/// Its name after the run has ended.
pub const GONE: &str = "gone";

/// The copy of standard input. Messages show this name.
pub const STANDARD_INPUT: &str = "standard input";

/// Prefix of the names of copies of pipes.
pub const PIPE: &str = "pipe ";

/// Prefix of the names of files with the rejected rows of a partition.
pub const REJECTS: &str = "rejects ";

/// A table file that is uploaded when complete.
pub const TABLE: &str = "table";
