//! [`FreeThreads`]: the threads of executors that are free for tasks.
//!
//! Ballista 55 adds and subtracts: the threads of a task are given back when its end is reported. Those of a task whose stage
//! was begun again never are, since it looks for the task in the new attempt, and no query gets them until the scheduler
//! is started again. So they are counted here whenever tasks are distributed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use ballista_core::JobId;
use ballista_core::error::Result;
use ballista_core::serde::protobuf::ExecutorHeartbeat;
use ballista_core::serde::scheduler::{ExecutorData, ExecutorMetadata};
use ballista_scheduler::cluster::memory::InMemoryClusterState;
use ballista_scheduler::cluster::{BoundTask, ClusterState, ClusterStateEventStream, ExecutorSlot};
use ballista_scheduler::config::TaskDistributionPolicy;
use ballista_scheduler::state::task_manager::JobInfoCache;

/// The executors, as Ballista keeps them, with their free threads counted.
pub struct FreeThreads {
    executors: Arc<dyn ClusterState>,
    /// Whether there has been an executor.
    had_executors: AtomicBool,
}

impl FreeThreads {
    /// Counts the threads of these executors.
    pub fn of(executors: Arc<dyn ClusterState>) -> Self {
        Self { executors, had_executors: AtomicBool::new(false) }
    }

    /// Whether all executors are gone. Before the first has come, none is.
    pub async fn are_gone(&self) -> bool {
        self.had_executors.load(Ordering::Relaxed) && self.executors.registered_executor_metadata().await.is_empty()
    }
}

#[async_trait]
impl ClusterState for FreeThreads {
    async fn init(&self) -> Result<()> {
        self.executors.init().await
    }

    async fn bind_schedulable_tasks(
        &self,
        distribution: TaskDistributionPolicy,
        active_jobs: Arc<HashMap<JobId, JobInfoCache>>,
        executors: Option<HashSet<String>>,
    ) -> Result<Vec<BoundTask>> {
        let mut used = HashMap::<_, u32>::new();
        for job in active_jobs.values() {
            let graph = job.execution_graph.read().await;
            for task in graph.running_tasks() {
                let threads = graph.task_vcores(task.stage_id, task.task_id).unwrap_or(1);
                *used.entry(task.executor_id).or_default() += threads;
            }
        }
        let free = InMemoryClusterState::default();
        for executor in self.executors.registered_executor_metadata().await {
            let total = executor.specification.vcores;
            let available = total.saturating_sub(used.get(&executor.id).copied().unwrap_or_default());
            let data =
                ExecutorData { executor_id: executor.id.clone(), total_vcores: total, available_vcores: available };
            free.register_executor(executor, data).await?;
        }
        free.bind_schedulable_tasks(distribution, active_jobs, executors).await
    }

    /// Does nothing: a task that does not run uses no threads.
    async fn unbind_tasks(&self, _: Vec<ExecutorSlot>) -> Result<()> {
        Ok(())
    }

    async fn register_executor(&self, metadata: ExecutorMetadata, data: ExecutorData) -> Result<()> {
        self.had_executors.store(true, Ordering::Relaxed);
        self.executors.register_executor(metadata, data).await
    }

    async fn save_executor_metadata(&self, metadata: ExecutorMetadata) -> Result<()> {
        self.had_executors.store(true, Ordering::Relaxed);
        self.executors.save_executor_metadata(metadata).await
    }

    async fn get_executor_metadata(&self, executor_id: &str) -> Result<ExecutorMetadata> {
        self.executors.get_executor_metadata(executor_id).await
    }

    async fn registered_executor_metadata(&self) -> Vec<ExecutorMetadata> {
        self.executors.registered_executor_metadata().await
    }

    async fn save_executor_heartbeat(&self, heartbeat: ExecutorHeartbeat) -> Result<()> {
        self.executors.save_executor_heartbeat(heartbeat).await
    }

    async fn remove_executor(&self, executor_id: &str) -> Result<()> {
        self.executors.remove_executor(executor_id).await
    }

    fn executor_heartbeats(&self) -> HashMap<String, ExecutorHeartbeat> {
        self.executors.executor_heartbeats()
    }

    fn get_executor_heartbeat(&self, executor_id: &str) -> Option<ExecutorHeartbeat> {
        self.executors.get_executor_heartbeat(executor_id)
    }

    async fn cluster_state_events(&self) -> Result<ClusterStateEventStream> {
        self.executors.cluster_state_events().await
    }
}
