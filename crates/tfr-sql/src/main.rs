//! The `tfr-sql` command.

use std::process::ExitCode;

/// The C library would return the memory of each batch to the system. Mimalloc, which the engine's own command uses, keeps
/// up to twice the memory that is in use.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    tfr_sql::command(None)
}
