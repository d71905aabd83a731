//! The `tfr-sql` command with a cluster: `--cluster HOST:PORT`, and the tools `scheduler` and `executor`.

mod client;
mod codec;
mod executor;
mod free_threads;
mod scheduler;
mod settings;
mod tls;

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use ballista_core::error::BallistaError;
use clap::{Command, Parser, Subcommand};
use tfr_sql::cluster::ClusterSupport;
use tokio::runtime;

/// As in the command without a cluster.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The processes of a cluster.
#[derive(Debug, Parser)]
#[command(name = "tfr-sql", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    process: Process,
}

#[derive(Debug, Subcommand)]
enum Process {
    Scheduler(scheduler::SchedulerArgs),
    Executor(executor::ExecutorArgs),
}

fn main() -> ExitCode {
    let first = std::env::args().nth(1);
    if !matches!(first.as_deref(), Some("scheduler" | "executor")) {
        let processes = Process::augment_subcommands(Command::new("")).get_subcommands().cloned().collect();
        return tfr_sql::command(Some(ClusterSupport { connect: Arc::new(client::connect), processes }));
    }
    let Cli { process } = Cli::parse();
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).init();
    let done =
        runtime::Builder::new_multi_thread().enable_all().build().map_err(BallistaError::from).and_then(|runtime| {
            runtime.block_on(async {
                match process {
                    Process::Scheduler(args) => scheduler::run(args).await,
                    Process::Executor(args) => executor::run(args).await,
                }
            })
        });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Writes a line for the person who started the process.
fn tell(line: &str) {
    // Without standard error, there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "{line}");
}
