//! Sets that a cluster of processes writes are those of one process, whatever is killed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may panic and print"
)]

mod bytes;
mod failures;
mod help;
mod processes;
mod sql;
mod tls;
