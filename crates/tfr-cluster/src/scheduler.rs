//! `tfr-sql scheduler`: Ballista's scheduler, which knows our operator.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use ballista_core::ConfigProducer;
use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::error::BallistaError;
use ballista_core::extension::BallistaConfigGrpcEndpoint;
use ballista_core::flight_proxy_service::BallistaFlightProxyService;
use ballista_core::serde::protobuf::ExecutorStoppedParams;
use ballista_core::serde::protobuf::scheduler_grpc_server::{SchedulerGrpc as _, SchedulerGrpcServer};
use ballista_core::utils::{GrpcServerConfig, create_grpc_server};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service_with_listener};
use ballista_scheduler::scheduler_server::SchedulerServer;
use clap::Args;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;

use crate::codec::FragmentCodec;
use crate::free_threads::FreeThreads;
use crate::settings::{MESSAGE_BYTES, session};
use crate::tls::{Tls, with_cause};

type Scheduler = SchedulerServer<LogicalPlanNode, PhysicalPlanNode>;

/// Run the scheduler of a cluster
///
/// It distributes the parts of queries among executors, and runs those of dead executors again. It reads and writes no data,
/// and needs no credentials. Whoever reaches its port can read and write what the executors can: it belongs in a network
/// of its own, or needs TLS.
#[derive(Debug, Args)]
pub struct SchedulerArgs {
    /// Listen here
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:50050")]
    bind: SocketAddr,

    /// The name or address under which executors reach this machine
    #[arg(long, value_name = "HOST", default_value = "localhost")]
    advertise: String,

    /// Seconds without a sign of life after which an executor counts as dead
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    executor_timeout: u64,
}

/// Runs until the process is ended.
///
/// # Errors
/// The port cannot be used.
pub async fn run(args: SchedulerArgs) -> Result<(), BallistaError> {
    let SchedulerArgs { bind, advertise, executor_timeout } = args;
    let tls = Tls::from_environment().map_err(|error| BallistaError::General(with_cause(&error)))?;
    let listener = TcpListener::bind(bind).await?;
    let address = listener.local_addr()?;
    let of_jobs = tls.clone();
    let produce: ConfigProducer = Arc::new(move || session(of_jobs.as_ref()));
    let config = SchedulerConfig {
        bind_host: address.ip().to_string(),
        bind_port: address.port(),
        external_host: advertise,
        executor_timeout_seconds: executor_timeout,
        expire_dead_executor_interval_seconds: executor_timeout.div_ceil(6).clamp(1, 15),
        no_executors_grace_period_seconds: executor_timeout,
        grpc_server_max_decoding_message_size: MESSAGE_BYTES,
        grpc_server_max_encoding_message_size: MESSAGE_BYTES,
        grpc_client_max_message_size: MESSAGE_BYTES,
        // The command need not reach the executors.
        enable_embedded_flight_proxy: true,
        override_config_producer: Some(produce),
        override_physical_codec: Some(Arc::new(FragmentCodec::default())),
        // Executors have no encrypted server for tasks, so they ask for them.
        scheduling_policy: if tls.is_some() {
            TaskSchedulingPolicy::PullStaged
        } else {
            TaskSchedulingPolicy::PushStaged
        },
        use_tls: tls.is_some(),
        override_create_grpc_client_endpoint: tls.as_ref().map(Tls::clients),
        ..SchedulerConfig::default()
    };
    config.validate()?;
    if tls.is_none() && !address.ip().is_loopback() {
        log::warn!("whoever reaches {address} can read and write what the executors can");
    }
    let cluster = BallistaCluster::new_from_config(&config).await?;
    let threads = Arc::new(FreeThreads::of(cluster.cluster_state()));
    let cluster = BallistaCluster::new(Arc::clone(&threads) as _, cluster.job_state());
    let scheduler = create_scheduler::<LogicalPlanNode, PhysicalPlanNode>(cluster, Arc::new(config)).await?;
    crate::tell(&format!("scheduler on {address}"));
    let serve = async {
        match tls {
            Some(tls) => serve(listener, scheduler.clone(), &tls).await,
            None => start_grpc_service_with_listener(listener, scheduler.clone()).await,
        }
    };
    tokio::select! {
        ended = serve => ended,
        never = end_waits(&scheduler, &threads, Duration::from_secs(executor_timeout.max(1))) => match never {},
    }
}

/// Ends the waits of queries for executors that are gone.
///
/// When an executor is lost and no other is left, Ballista 55 waits for a while, and fails the queries that had begun before.
/// One that has begun since, or that another executor has left in the meantime, would wait without end. So Ballista is made to
/// look again, by a report that an executor has stopped which never was there.
async fn end_waits(scheduler: &Scheduler, threads: &FreeThreads, interval: Duration) -> Infallible {
    loop {
        tokio::time::sleep(interval).await;
        if threads.are_gone().await {
            let gone = ExecutorStoppedParams { executor_id: "none".to_owned(), reason: "none is left".to_owned() };
            if let Err(status) = scheduler.executor_stopped(tonic::Request::new(gone)).await {
                log::warn!("queries may wait for executors that are gone: {status}");
            }
        }
    }
}

/// Serves what Ballista's own function does, encrypted.
async fn serve(listener: TcpListener, scheduler: Scheduler, tls: &Tls) -> Result<(), BallistaError> {
    let bytes = MESSAGE_BYTES as usize;
    let clients = Arc::new(BallistaConfigGrpcEndpoint::new(tls.clients()));
    let proxy = BallistaFlightProxyService::new(bytes, bytes, true, Some(clients));
    let jobs = SchedulerGrpcServer::new(scheduler);
    create_grpc_server(&GrpcServerConfig::default())
        .tls_config(tls.server())?
        .add_service(jobs.max_encoding_message_size(bytes).max_decoding_message_size(bytes))
        .add_service(FlightServiceServer::new(proxy).max_encoding_message_size(bytes).max_decoding_message_size(bytes))
        .serve_with_incoming(TcpListenerStream::new(listener))
        .await
        .map_err(BallistaError::from)
}
