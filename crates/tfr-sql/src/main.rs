//! The `tfr-sql` command.

use std::process::ExitCode;

/// The engine's own command uses mimalloc too: batches are allocated and freed all the time, and the C library would
/// return the memory of each to the system.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    tfr_sql::command(None)
}
