//! Tests across the crates. One binary, since each links the engine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test may panic and print"
)]

mod checker;
mod corpus;
mod examples;
mod faults;
mod golden;
mod interop;
mod sets;
mod slt;
