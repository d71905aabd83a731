//! `tfr-sql scheduler`: Ballista's scheduler, which knows our operator.

use std::net::SocketAddr;
use std::sync::Arc;

use ballista_core::ConfigProducer;
use ballista_core::error::BallistaError;
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service_with_listener};
use clap::Args;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use tokio::net::TcpListener;

use crate::codec::FragmentCodec;
use crate::settings::{MESSAGE_BYTES, session};

/// Run the scheduler of a cluster
///
/// It distributes the parts of queries among executors, and runs those of dead executors again. It reads and writes no data,
/// and needs no credentials. Whoever reaches its port can read and write what the executors can: it belongs in a network
/// of its own.
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
    let listener = TcpListener::bind(bind).await?;
    let address = listener.local_addr()?;
    let produce: ConfigProducer = Arc::new(session);
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
        ..SchedulerConfig::default()
    };
    config.validate()?;
    if !address.ip().is_loopback() {
        log::warn!("whoever reaches {address} can read and write what the executors can");
    }
    let cluster = BallistaCluster::new_from_config(&config).await?;
    let scheduler = create_scheduler::<LogicalPlanNode, PhysicalPlanNode>(cluster, Arc::new(config)).await?;
    crate::tell(&format!("scheduler on {address}"));
    start_grpc_service_with_listener(listener, scheduler).await
}
