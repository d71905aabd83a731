//! [`BallistaCluster`]: runs plans on the executors of a scheduler.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ballista_core::BALLISTA_VERSION;
use ballista_core::client::BallistaClient;
use ballista_core::error::BallistaError;
use ballista_core::extension::{BallistaConfigGrpcEndpoint, SessionConfigExt as _, SessionConfigHelperExt as _};
use ballista_core::serde::protobuf::execute_query_params::Query;
use ballista_core::serde::protobuf::execute_query_result::Result as Submitted;
use ballista_core::serde::protobuf::job_status::Status;
use ballista_core::serde::protobuf::scheduler_grpc_client::SchedulerGrpcClient;
use ballista_core::serde::protobuf::{CancelJobParams, ExecuteQueryParams, GetJobStatusParams, PartitionLocation};
use ballista_core::utils::{GrpcClientConfig, create_grpc_client_endpoint};
use ballista_core::version::{check_compatibility, insert_version_header, version_from_metadata};
use datafusion::arrow::array::RecordBatch;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use datafusion_proto::physical_plan::AsExecutionPlan as _;
use datafusion_proto::protobuf::PhysicalPlanNode;
use futures::TryStreamExt as _;
use prost::Message as _;
use tfr_sql::cluster::{Cluster, ClusterError, Retry};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tonic::Code;
use tonic::transport::Channel;
use uuid::Uuid;

use crate::codec::FragmentCodec;
use crate::settings::{MESSAGE_BYTES, session};
use crate::tls::Tls;

/// How often the scheduler is asked for the state of a job.
const POLL: Duration = Duration::from_millis(100);

/// How long a scheduler may not answer before a job counts as failed.
const SILENCE: Duration = Duration::from_secs(60);

/// How long a scheduler may not know a job that it has accepted. It does not at once, nor after it was started again.
const UNKNOWN: Duration = Duration::from_secs(10);

/// How long the scheduler may take to answer that a job is cancelled.
const CANCEL: Duration = Duration::from_secs(10);

/// How long a scheduler may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// How often a job is begun again because of exchanged rows that are lost.
const RESTARTS: u32 = 3;

/// What the scheduler says of a job without executors. It reports all failures as text.
const NO_EXECUTORS: &str = "all executors were lost";

/// A Ballista cluster, known by its scheduler.
#[derive(Debug)]
pub struct BallistaCluster {
    /// `HOST:PORT`.
    address: String,
    tls: Option<Tls>,
}

/// Returns the cluster of the scheduler at `HOST:PORT`.
///
/// # Errors
/// The address has another form, or the certificates cannot be read.
pub fn connect(address: &str) -> Result<Arc<dyn Cluster>, ClusterError> {
    match address.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok() => {
            let tls = Tls::from_environment().map_err(|error| ClusterError::Certificates { source: error.into() })?;
            Ok(Arc::new(BallistaCluster { address: address.to_owned(), tls }))
        }
        _ => Err(ClusterError::Address { address: address.to_owned() }),
    }
}

type Client = SchedulerGrpcClient<Channel>;

impl BallistaCluster {
    async fn client(&self) -> Result<Client, ClusterError> {
        let config = GrpcClientConfig::from(&self.session().ballista_config());
        let endpoint = create_grpc_client_endpoint(format!("http://{}", self.address), Some(&config));
        let mut endpoint = endpoint.map_err(|error| self.unreachable(error))?;
        if let Some(tls) = &self.tls {
            endpoint = tls.clients()(endpoint).map_err(|error| ClusterError::Certificates { source: error })?;
        }
        let client = match endpoint.connect().await {
            Ok(channel) => Client::new(channel),
            Err(error) => return Err(self.not_connected(error).await),
        };
        Ok(client.max_encoding_message_size(MESSAGE_BYTES as usize).max_decoding_message_size(MESSAGE_BYTES as usize))
    }

    fn session(&self) -> SessionConfig {
        session(self.tls.as_ref())
    }

    fn unreachable(&self, source: impl StdError + Send + Sync + 'static) -> ClusterError {
        ClusterError::Unreachable { address: self.address.clone(), source: Box::new(source) }
    }

    /// Returns the error of a first request that did not get through. A process that accepts connections runs, so trying
    /// again does not help: mostly, the certificates do not match, or only one side has any.
    async fn not_connected(&self, source: impl StdError + Send + Sync + 'static) -> ClusterError {
        match timeout(CONNECT, TcpStream::connect(&self.address)).await {
            Ok(Ok(_)) => ClusterError::Refused { address: self.address.clone(), source: Box::new(source) },
            Ok(Err(_)) | Err(_) => self.unreachable(source),
        }
    }

    /// Returns the error of a job that has failed.
    fn failed(&self, message: &str) -> ClusterError {
        match ClusterError::failed(message) {
            ClusterError::Failed { message } if message.contains(NO_EXECUTORS) => {
                ClusterError::NoExecutors { address: self.address.clone() }
            }
            error => error,
        }
    }

    /// Submits a plan, and returns the id of the job.
    async fn submit(&self, client: &mut Client, plan: Arc<dyn ExecutionPlan>) -> Result<String, ClusterError> {
        let failed = |error: &dyn StdError| ClusterError::failed(&error.to_string());
        let plan = PhysicalPlanNode::try_from_physical_plan(plan, &FragmentCodec::default());
        let query = Query::PhysicalPlan(plan.map_err(|error| failed(&error))?.encode_to_vec());
        let mut request = tonic::Request::new(ExecuteQueryParams {
            session_id: Uuid::now_v7().to_string(),
            settings: self.session().to_key_value_pairs(),
            operation_id: Uuid::now_v7().to_string(),
            query: Some(query),
        });
        insert_version_header(request.metadata_mut());
        let response = match client.execute_query(request).await {
            Ok(response) => response,
            // A fault of the connection, for example if only one side has certificates.
            Err(status) if status.source().is_some() => return Err(self.not_connected(status).await),
            Err(status) if status.code() == Code::Unavailable => return Err(self.unreachable(status)),
            Err(status) => return Err(failed(&status)),
        };
        check_compatibility(Some(BALLISTA_VERSION), version_from_metadata(response.metadata()))
            .map_err(|message| ClusterError::failed(&message))?;
        match response.into_inner().result {
            Some(Submitted::Success(job)) => Ok(job.job_id),
            Some(Submitted::Failure(failure)) => Err(ClusterError::failed(&format!("{failure:?}"))),
            None => Err(ClusterError::failed("the scheduler did not answer")),
        }
    }

    /// Waits until a job has ended, and returns where its rows are. Asks again if the scheduler does not answer for a while.
    async fn wait(&self, client: &mut Client, job_id: &str) -> Result<Vec<PartitionLocation>, ClusterError> {
        let (mut answered, mut known) = (Instant::now(), Instant::now());
        loop {
            match client.get_job_status(GetJobStatusParams { job_id: job_id.to_owned() }).await {
                Ok(response) => {
                    answered = Instant::now();
                    match response.into_inner().status.and_then(|job| job.status) {
                        Some(Status::Successful(job)) => return Ok(job.partition_location),
                        Some(Status::Failed(job)) => return Err(self.failed(&job.error)),
                        Some(Status::Queued(_) | Status::Running(_)) => known = Instant::now(),
                        None if known.elapsed() > UNKNOWN => {
                            return Err(ClusterError::Lost { address: self.address.clone() });
                        }
                        None => {}
                    }
                }
                Err(status) if answered.elapsed() > SILENCE => return Err(self.unreachable(status)),
                Err(status) => log::warn!("{}: {status}", self.address),
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Runs a plan, and returns where its rows are.
    async fn finish(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Vec<PartitionLocation>, ClusterError> {
        for _ in 0..RESTARTS {
            match self.run_job(Arc::clone(&plan)).await {
                Err(ClusterError::Worker(error)) if error.retry == Retry::Query => {
                    log::warn!("{}; the job begins again", error.causes.join(": "));
                }
                done => return done,
            }
        }
        self.run_job(plan).await
    }

    /// Runs a job, and returns where its rows are.
    async fn run_job(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Vec<PartitionLocation>, ClusterError> {
        let mut client = self.client().await?;
        let job_id = self.submit(&mut client, plan).await?;
        log::info!("job {job_id} on {}", self.address);
        let mut running = Running { job: Some((client.clone(), job_id.clone())) };
        let done = self.wait(&mut client, &job_id).await;
        running.job = None;
        done
    }

    /// Reads the rows of a partition, which the scheduler passes on.
    async fn fetch(&self, location: PartitionLocation) -> Result<Vec<RecordBatch>, BallistaError> {
        let config = self.session().ballista_config();
        let (host, port) = self.address.rsplit_once(':').unwrap_or_default();
        let port = port.parse().unwrap_or_default();
        let (retries, wait) =
            (config.io_retries_times().min(u8::MAX.into()) as u8, config.io_retry_wait_time_ms() as u64);
        let customize = self.tls.as_ref().map(|tls| Arc::new(BallistaConfigGrpcEndpoint::new(tls.clients())));
        let mut client = BallistaClient::try_new(
            host,
            port,
            MESSAGE_BYTES as usize,
            self.tls.is_some(),
            customize,
            retries,
            wait,
            0,
            0,
        )
        .await?;
        let layout = location.layout();
        let missing = || BallistaError::General("a partition without a place".to_owned());
        let executor = location.executor_meta.ok_or_else(missing)?;
        let partition = location.partition_id.ok_or_else(missing)?.into();
        let (host, port) = (executor.host.as_str(), executor.port as u16);
        let rows = client
            .fetch_partition_proxied(&executor.id, &partition, location.file_id, layout, host, port, true)
            .await?;
        rows.try_collect().await.map_err(BallistaError::from)
    }
}

#[async_trait]
impl Cluster for BallistaCluster {
    async fn run(&self, plan: Arc<dyn ExecutionPlan>) -> Result<(), ClusterError> {
        self.finish(plan).await.map(drop)
    }

    async fn collect(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Vec<RecordBatch>, ClusterError> {
        let mut rows = Vec::new();
        for location in self.finish(plan).await? {
            rows.extend(self.fetch(location).await.map_err(|error| self.unreachable(error))?);
        }
        Ok(rows)
    }
}

/// Cancels a job when dropped.
struct Running {
    job: Option<(Client, String)>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some((mut client, job_id)) = self.job.take() else { return };
        // The command ends soon, and with it the threads of this runtime.
        let cancelled = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let cancel = client.cancel_job(CancelJobParams { job_id: job_id.clone() });
                match timeout(CANCEL, cancel).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(status)) => log::warn!("job {job_id} was not cancelled: {status}"),
                    Err(_) => log::warn!("job {job_id} was not cancelled: no answer"),
                }
            });
            Ok::<_, std::io::Error>(())
        });
        let _ = cancelled.join();
    }
}
