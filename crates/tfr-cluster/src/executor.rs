//! `tfr-sql executor`: Ballista's executor, which computes our operator.

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use arrow_flight::flight_service_server::FlightServiceServer;
use ballista_core::ConfigProducer;
use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::error::BallistaError;
use ballista_core::utils::create_grpc_server;
use ballista_executor::ArrowFlightServerProvider;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_executor::flight_service::BallistaFlightService;
use clap::Args;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use tfr_sql::cluster::{Worker, WorkerOptions, memory_limit};

use crate::codec::FragmentCodec;
use crate::settings::{MESSAGE_BYTES, session};
use crate::tls::{Tls, with_cause};

/// How often an executor gives a sign of life, in seconds.
const HEARTBEAT: u64 = 5;

/// How long an executor waits for its scheduler to start, in seconds.
const CONNECT: u16 = 60;

/// Run an executor of a cluster
///
/// It computes parts of queries, and keeps the rows that they exchange in its temporary directory. Credentials of object
/// stores come from its environment. It must see the inputs, and a local output, under the same paths as the machine that
/// starts a query.
#[derive(Debug, Args)]
pub struct ExecutorArgs {
    /// The scheduler
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:50050", value_parser = host_and_port)]
    scheduler: (String, u16),

    /// Listen on this address
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind: IpAddr,

    /// The name or address under which the scheduler and the other executors reach this machine
    #[arg(long, value_name = "HOST", default_value = "localhost")]
    advertise: String,

    /// The port for exchanged rows; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 50051)]
    port: u16,

    /// The port for tasks; 0 takes a free one. Not used with TLS
    #[arg(long, value_name = "PORT", default_value_t = 50052)]
    task_port: u16,

    /// Run this many tasks at the same time [default: all cores]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,

    /// Limit the memory of all tasks before they spill [default: 60% of memory]
    #[arg(long, value_name = "SIZE", value_parser = memory_limit)]
    memory_limit: Option<NonZeroU64>,

    /// Put temporary files and exchanged rows into this existing directory [default: the system's]
    #[arg(long, value_name = "DIR")]
    temp_dir: Option<PathBuf>,
}

fn host_and_port(text: &str) -> Result<(String, u16), String> {
    let (host, port) = text.rsplit_once(':').ok_or("expected HOST:PORT")?;
    let port = port.parse().map_err(|_| format!("{port:?} is not a port"))?;
    if host.is_empty() { Err("expected HOST:PORT".to_owned()) } else { Ok((host.to_owned(), port)) }
}

/// Runs until the process is asked to end.
///
/// # Errors
/// The scheduler cannot be reached, or a port or the temporary directory cannot be used.
pub async fn run(args: ExecutorArgs) -> Result<(), BallistaError> {
    let ExecutorArgs { scheduler, bind, advertise, port, task_port, threads, memory_limit, temp_dir } = args;
    let tls = Tls::from_environment().map_err(|error| BallistaError::General(with_cause(&error)))?;
    let options = WorkerOptions {
        threads,
        memory_limit,
        temp_dir: temp_dir.clone(),
        handles: Some(is_fetch_failure),
        attempt_of: Some(attempt_of),
    };
    let worker = Worker::start(options).map_err(|error| BallistaError::General(error.causes.join(": ")))?;
    let exchanged = match &temp_dir {
        Some(parent) => tempfile::tempdir_in(parent)?,
        None => tempfile::tempdir()?,
    };
    let vcores = threads.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let of_jobs = tls.clone();
    let produce: ConfigProducer = Arc::new(move || session(of_jobs.as_ref()));
    let ports = [free(bind, port)?, free(bind, task_port)?];
    crate::tell(&format!("executor of {}:{} on {bind}, ports {} and {}", scheduler.0, scheduler.1, ports[0], ports[1]));
    let config = ExecutorProcessConfig {
        bind_host: bind.to_string(),
        external_host: Some(advertise),
        port: ports[0],
        grpc_port: ports[1],
        scheduler_host: scheduler.0,
        scheduler_port: scheduler.1,
        scheduler_connect_timeout_seconds: CONNECT,
        vcores,
        work_dir: Some(exchanged.path().display().to_string()),
        job_data_ttl_seconds: 24 * 60 * 60,
        job_data_clean_up_interval_seconds: 60 * 60,
        grpc_max_decoding_message_size: MESSAGE_BYTES,
        grpc_max_encoding_message_size: MESSAGE_BYTES,
        executor_heartbeat_interval_seconds: HEARTBEAT,
        override_config_producer: Some(produce),
        override_physical_codec: Some(Arc::new(FragmentCodec::of(worker))),
        // As in the scheduler.
        task_scheduling_policy: match tls {
            Some(_) => TaskSchedulingPolicy::PullStaged,
            None => TaskSchedulingPolicy::PushStaged,
        },
        override_create_grpc_client_endpoint: tls.as_ref().map(Tls::clients),
        override_arrow_flight_service: tls.map(serve),
        ..ExecutorProcessConfig::default()
    };
    let done = start_executor_process(Arc::new(config)).await;
    drop(exchanged);
    done
}

/// Whether Ballista computes the lost rows again for this error of an exchange.
fn is_fetch_failure(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::External(error) => {
            matches!(error.downcast_ref(), Some(BallistaError::FetchFailed(..) | BallistaError::Cancelled))
        }
        _ => false,
    }
}

/// Finds the attempt of the stage in the name of a task, such as `TID <job>/<stage>.<attempt>/<task>.<attempt of the task>`.
fn attempt_of(context: &TaskContext) -> Option<usize> {
    let name = context.task_id()?;
    let (stage, _) = name.rsplit_once('/')?;
    stage.rsplit_once('/')?.1.split_once('.')?.1.parse().ok()
}

/// Returns what serves exchanged rows as Ballista's own function does, encrypted.
fn serve(tls: Tls) -> Arc<ArrowFlightServerProvider> {
    Arc::new(move |directory, address, mut shutdown, config| {
        let tls = tls.server();
        tokio::spawn(async move {
            let bytes = MESSAGE_BYTES as usize;
            let rows = FlightServiceServer::new(BallistaFlightService::new(directory));
            create_grpc_server(&config)
                .tls_config(tls)?
                .add_service(rows.max_encoding_message_size(bytes).max_decoding_message_size(bytes))
                .serve_with_shutdown(address, shutdown.recv())
                .await
                .map_err(BallistaError::from)
        })
    })
}

/// Returns a port, which is free if it was 0.
fn free(bind: IpAddr, port: u16) -> Result<u16, BallistaError> {
    if port != 0 {
        return Ok(port);
    }
    Ok(TcpListener::bind((bind, 0))?.local_addr()?.port())
}
