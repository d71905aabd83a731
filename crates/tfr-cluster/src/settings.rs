//! Settings that the client, the scheduler and the executors share.

use ballista_core::extension::SessionConfigExt as _;
use datafusion::prelude::SessionConfig;

use crate::tls::Tls;

/// Maximum bytes of a message. The tasks that an executor gets at once are one, and each has the plan of its stage.
pub const MESSAGE_BYTES: u32 = 256 << 20;

/// Returns the settings of a job. With `tls`, executors exchange rows by encrypted connections.
pub fn session(tls: Option<&Tls>) -> SessionConfig {
    let config = settings();
    match tls {
        Some(tls) => {
            config.with_ballista_use_tls(true).with_ballista_override_create_grpc_client_endpoint(tls.clients())
        }
        None => config,
    }
}

fn settings() -> SessionConfig {
    let mut config = SessionConfig::new_with_ballista()
        .with_ballista_grpc_client_max_message_size(MESSAGE_BYTES as usize)
        // Rows are divided by our planner alone.
        .with_ballista_adaptive_query_planner(false)
        .with_ballista_coalesce_enabled(false)
        .with_ballista_broadcast_join_threshold_bytes(0)
        .with_ballista_broadcast_join_threshold_rows(0)
        .with_round_robin_repartition(false);
    // A task is what runs again after a failure.
    config.options_mut().execution.target_partitions = 1;
    config.set_u64("ballista.scheduler.max_partitions_per_task", 1)
}
