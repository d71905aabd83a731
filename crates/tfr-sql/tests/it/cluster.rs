//! Plans for a cluster: parts of them are computed from what travels, without an engine that carries them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties as _, collect, collect_partitioned, displayable,
    replace_children_if_necessary,
};
use datafusion::prelude::SessionContext;
use futures::{future, stream};
use tempfile::TempDir;
use tfr_sql::cluster::{Cluster, ClusterError, Connect, FragmentExec, Worker, WorkerOptions};
use tfr_sql::{ExitStatus, Interrupt};

use super::library::Collected;

/// Computes a plan with a worker in this process, from its encoded parts.
#[derive(Debug)]
struct InProcess(Arc<Worker>);

impl InProcess {
    /// Computes what is below an exchange first, as an engine does that stores exchanged rows. Decodes our operators.
    async fn exchanged(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &Arc<TaskContext>,
    ) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        let mut inputs = Vec::new();
        for input in plan.children() {
            inputs.push(Box::pin(self.exchanged(Arc::clone(input), context)).await?);
        }
        if let Some(fragment) = plan.downcast_ref::<FragmentExec>() {
            let worker = Some(Arc::clone(&self.0));
            return Ok(Arc::new(FragmentExec::decode(fragment.encode()?, plan.schema(), inputs, worker)?));
        }
        let stored = |rows: Vec<_>| MemorySourceConfig::try_new_exec(&rows, plan.schema(), None);
        if plan.is::<RepartitionExec>() {
            let plan = replace_children_if_necessary(Arc::clone(&plan), inputs)?;
            return Ok(stored(collect_partitioned(plan, Arc::clone(context)).await?)?);
        }
        if plan.is::<CoalescePartitionsExec>() {
            let rows = stored(collect_partitioned(inputs.remove(0), Arc::clone(context)).await?)?;
            return Ok(Arc::new(CoalescePartitionsExec::new(rows)));
        }
        replace_children_if_necessary(plan, inputs)
    }
}

#[async_trait]
impl Cluster for InProcess {
    async fn run(&self, plan: Arc<dyn ExecutionPlan>) -> Result<(), ClusterError> {
        self.collect(plan).await.map(drop)
    }

    async fn collect(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Vec<RecordBatch>, ClusterError> {
        let context = SessionContext::new().task_ctx();
        let done = async { collect(self.exchanged(plan, &context).await?, Arc::clone(&context)).await };
        done.await.map_err(|error| ClusterError::failed(&format!("{error:?}")))
    }
}

fn in_process() -> Connect {
    Arc::new(|_| Ok(Arc::new(InProcess(Worker::start(WorkerOptions::default()).unwrap()))))
}

/// Files of trips.
struct Inputs(TempDir);

impl Inputs {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("trips")).unwrap();
        for copy in 0..6 {
            fs::copy(example("trips.parquet"), dir.path().join("trips").join(format!("{copy}.parquet"))).unwrap();
        }
        Self(dir)
    }

    fn trips(&self) -> String {
        format!("'{}/*.parquet'", self.0.path().join("trips").display())
    }

    fn out(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a query, on the cluster or not. Returns the exit status and the events.
    fn write(&self, query: &str, out: &Path, cluster: Option<Connect>, options: &[&str]) -> (ExitStatus, Vec<String>) {
        self.write_with(query, out, cluster, &[&["--partitions", "3"], options].concat())
    }

    fn write_with(
        &self,
        query: &str,
        out: &Path,
        cluster: Option<Connect>,
        options: &[&str],
    ) -> (ExitStatus, Vec<String>) {
        let listener = Arc::new(Collected::default());
        let mut arguments = vec!["tfr-sql", query, "--out", out.to_str().unwrap()];
        arguments.extend(options);
        if cluster.is_some() {
            arguments.extend(["--cluster", "here:1"]);
        }
        let arguments = arguments.into_iter().map(Into::into);
        let status = tfr_sql::run_on(
            cluster.map(Into::into),
            arguments,
            || Ok(Interrupt::default()),
            Arc::clone(&listener) as _,
        );
        (status, listener.events())
    }

    #[track_caller]
    fn write_both(&self, query: &str, options: &[&str]) -> [PathBuf; 2] {
        let outs = ["alone", "together"].map(|parent| self.out(parent).join("set"));
        for (out, cluster) in outs.iter().zip([None, Some(in_process())]) {
            let (status, events) = self.write(query, out, cluster, &[&["--mode", "overwrite"], options].concat());
            assert_eq!(status, ExitStatus::Done, "{query}: {events:?}");
        }
        outs
    }
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data").join(name)
}

/// Every file of a set with its bytes, apart from the manifest.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => dirs.push(path),
                false if path.ends_with("_manifest.json") => {}
                false => drop(found.insert(path.strip_prefix(dir).unwrap().to_owned(), fs::read(&path).unwrap())),
            }
        }
    }
    found
}

fn rows(set: &Path) -> Vec<String> {
    let listener = Arc::new(Collected::default());
    let query = format!("SELECT * FROM '{}'", set.display());
    let arguments = ["tfr-sql", &query, "--format", "jsonl"].map(Into::into);
    assert_eq!(tfr_sql::run(arguments, || Ok(Interrupt::default()), Arc::clone(&listener) as _), ExitStatus::Done);
    let mut lines: Vec<_> = listener.text().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn cluster_tasks_write_the_set_of_one_process() {
    let inputs = Inputs::new();
    let query = format!(
        "SELECT t.*, z.zone AS zone_name FROM {} t JOIN '{}' z ON t.zone_id = z.zone_id WHERE fare > 8",
        inputs.trips(),
        example("zones.csv").display()
    );
    for options in [
        &["--shard-rows", "300", "--compression", "gzip"][..],
        &["--shards", "5", "--emit", "stats,index"],
        &["--shuffle", "--seed", "3", "--shards", "6"],
        &["--split", "train=0.8,val=0.2", "--split-by", "zone_id", "--shards", "train=3,val=2"],
        &["--partition-by", "city", "--shard-rows", "200"],
    ] {
        let [alone, together] = inputs.write_both(&query, options).map(|out| files(&out));
        assert!(alone.keys().eq(together.keys()), "{options:?}: {:?}", together.keys());
        let differ: Vec<_> = alone.keys().filter(|name| alone[*name] != together[*name]).collect();
        assert!(differ.is_empty(), "{options:?}: other bytes in {differ:?}");
    }
    // One partition for each 512 MiB.
    let (out, default) = (inputs.out("default"), &["--mode", "overwrite"][..]);
    let (status, events) = inputs.write_with(&query, &out, Some(in_process()), default);
    assert_eq!(status, ExitStatus::Done, "{events:?}");
    let manifest = fs::read_to_string(out.join("_manifest.json")).unwrap();
    assert!(manifest.contains("\"write_partitions\": 1,"), "{manifest}");
    let ordered = format!("SELECT trip_id, fare, zone_id FROM {} ORDER BY trip_id, fare, zone_id", inputs.trips());
    let [alone, together] = inputs.write_both(&ordered, &["--shards", "3"]).map(|out| files(&out));
    assert!(alone == together, "the order is lost");
}

#[test]
fn cluster_exchange_yields_the_rows_of_one_process() {
    let inputs = Inputs::new();
    let trips = inputs.trips();
    for query in [
        format!("SELECT city, count(*) AS n, min(fare) AS low FROM {trips} GROUP BY city"),
        format!("SELECT DISTINCT zone_id, city FROM {trips}"),
        format!(
            "SELECT a.trip_id, a.fare, b.n FROM {trips} a JOIN (SELECT trip_id, count(*) AS n FROM {trips} GROUP BY \
             trip_id) b ON a.trip_id = b.trip_id"
        ),
        // Small tables on the side whose own rows must come out, too.
        format!(
            "SELECT a.zone_id, b.m FROM (SELECT DISTINCT zone_id FROM {trips}) a LEFT JOIN (SELECT zone_id, max(trip_id) \
             AS m FROM {trips} WHERE fare > 60 GROUP BY zone_id) b ON a.zone_id = b.zone_id"
        ),
        format!(
            "SELECT z.zone, t.fare FROM '{}' z FULL JOIN {trips} t ON z.zone_id = t.zone_id + 3",
            example("zones.csv").display()
        ),
        format!("SELECT trip_id, row_number() OVER (PARTITION BY trip_id ORDER BY fare) AS r FROM {trips}"),
        format!(
            "SELECT city, count(*) AS n FROM {trips} GROUP BY city UNION ALL SELECT city, -1 FROM {trips} WHERE fare > 50"
        ),
        format!("SELECT trip_id, fare FROM {trips} ORDER BY fare DESC, trip_id LIMIT 10"),
        format!("SELECT zone_id FROM {trips} ORDER BY fare DESC, trip_id LIMIT 10"),
        format!("SELECT trip_id, fare FROM {trips} WHERE fare > (SELECT avg(fare) FROM {trips})"),
        format!("SELECT count(*) AS n, max(fare) AS m FROM {trips}"),
    ] {
        let [alone, together] = inputs.write_both(&query, &[]).map(|out| rows(&out));
        assert!(!alone.is_empty(), "{query}");
        assert!(alone == together, "{query}: {} rows, expected {}", together.len(), alone.len());
    }
}

/// Records which jobs it has run.
#[derive(Debug)]
struct Recorded(InProcess, Arc<Mutex<Vec<String>>>);

impl Recorded {
    fn record(&self, kind: &str, plan: &Arc<dyn ExecutionPlan>) {
        let plan = displayable(plan.as_ref()).indent(false).to_string();
        let fragment = plan.lines().find(|line| line.contains("FragmentExec")).unwrap_or_default();
        self.1.lock().unwrap().push(format!("{kind} {}", fragment.trim()));
    }
}

#[async_trait]
impl Cluster for Recorded {
    async fn run(&self, plan: Arc<dyn ExecutionPlan>) -> Result<(), ClusterError> {
        self.record("run", &plan);
        self.0.run(plan).await
    }

    async fn collect(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Vec<RecordBatch>, ClusterError> {
        self.record("collect", &plan);
        self.0.collect(plan).await
    }
}

#[test]
fn cluster_runs_the_queries_that_precede_a_write() {
    let inputs = Inputs::new();
    let trips = inputs.trips();
    let tagged = format!(
        "SELECT trip_id, city, make_array(coalesce(city, 'none'), 'z' || coalesce(zone_id, 0)) AS tags FROM {trips} WHERE \
         fare > 8"
    );
    // Both sides of the join are exchanged.
    let joined = format!(
        "SELECT a.trip_id, b.city FROM {trips} a FULL JOIN (SELECT trip_id, city FROM {trips} WHERE fare > 30) b ON \
         a.trip_id = b.trip_id + 1"
    );
    let ordered = format!("SELECT trip_id, fare, zone_id FROM {trips} WHERE fare > 8 ORDER BY trip_id, fare, zone_id");
    let write = "run FragmentExec: write";
    for (query, options, expected) in [
        (
            &tagged,
            &["--map", "city: index", "--map", "tags: index"][..],
            &["collect FragmentExec: vocabularies", write],
        ),
        (&joined, &["--map", "city: index"], &["collect FragmentExec: vocabularies", write]),
        (&ordered, &["--shards", "3"], &["collect FragmentExec: rows of fragment 0", write]),
    ] {
        let [alone, together] = ["alone", "together"].map(|parent| inputs.out(parent).join("set"));
        let jobs = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&jobs);
        let connect: Connect = Arc::new(move |_| {
            let worker = Worker::start(WorkerOptions::default()).unwrap();
            Ok(Arc::new(Recorded(InProcess(worker), Arc::clone(&recorded))))
        });
        let options = [&["--mode", "overwrite"], options].concat();
        for (out, cluster) in [(&alone, None), (&together, Some(connect))] {
            let (status, events) = inputs.write(query, out, cluster, &options);
            assert_eq!(status, ExitStatus::Done, "{query}: {events:?}");
        }
        assert_eq!(*jobs.lock().unwrap(), expected, "{query}");
        assert!(rows(&alone) == rows(&together), "{query}");
    }
}

#[test]
fn cluster_computes_order_dependent_parts_once() {
    /// Keeps the plan, and does not run it.
    #[derive(Debug)]
    struct Planned(Arc<Mutex<String>>);

    #[async_trait]
    impl Cluster for Planned {
        async fn run(&self, plan: Arc<dyn ExecutionPlan>) -> Result<(), ClusterError> {
            *self.0.lock().unwrap() = displayable(plan.as_ref()).indent(false).to_string();
            Err(ClusterError::failed("planned"))
        }

        async fn collect(&self, _: Arc<dyn ExecutionPlan>) -> Result<Vec<RecordBatch>, ClusterError> {
            panic!("nothing is collected")
        }
    }

    let inputs = Inputs::new();
    let trips = inputs.trips();
    // Numbers in any order, and some of the rows with the lowest fare: each partition of the join would have its own.
    let numbered = format!(
        "SELECT a.trip_id, b.number FROM {trips} a JOIN (SELECT city, row_number() OVER () AS number FROM (SELECT DISTINCT \
         city FROM {trips} WHERE fare > 70)) b ON a.city = b.city"
    );
    let lowest = format!("SELECT a.trip_id, b.fare FROM {trips} a, (SELECT fare FROM {trips} ORDER BY fare LIMIT 3) b");
    // Whatever the order, these are the same rows.
    let joined = format!("SELECT a.trip_id FROM {trips} a JOIN (SELECT city FROM {trips}) b ON a.city = b.city");
    let plans = [numbered, lowest, joined].map(|query| {
        let plan = Arc::<Mutex<String>>::default();
        let planned = Arc::clone(&plan);
        let connect: Connect = Arc::new(move |_| Ok(Arc::new(Planned(Arc::clone(&planned)))));
        let (status, events) = inputs.write(&query, &inputs.out("set"), Some(connect), &[]);
        assert_eq!(status, ExitStatus::Failed, "{query}: {events:?}");
        let plan = plan.lock().unwrap();
        plan.lines().filter(|line| !line.contains("DataSourceExec")).collect::<Vec<_>>().join("\n")
    });
    insta::assert_snapshot!("computed_once_on_a_cluster", plans.join("\n\n"));
}

/// An exchange whose process is gone.
#[derive(Debug)]
struct LostRows(SchemaRef, fn() -> DataFusionError);

impl PartitionStream for LostRows {
    fn schema(&self) -> &SchemaRef {
        &self.0
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let lost = stream::once(future::ready(Err((self.1)())));
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.0), lost))
    }
}

/// Computes fragments whose exchanges fail, and records the errors that the engine gets.
#[derive(Debug)]
struct Losing(fn() -> DataFusionError, Arc<Mutex<Vec<DataFusionError>>>);

#[async_trait]
impl Cluster for Losing {
    async fn run(&self, plan: Arc<dyn ExecutionPlan>) -> Result<(), ClusterError> {
        let handles = |error: &DataFusionError| matches!(error.find_root(), DataFusionError::External(_));
        let worker = Worker::start(WorkerOptions { handles: Some(handles), ..WorkerOptions::default() }).unwrap();
        let fragment = plan.downcast_ref::<FragmentExec>().unwrap();
        let children = plan.children().into_iter().enumerate();
        let inputs = children.map(|(number, input)| -> Arc<dyn ExecutionPlan> {
            if number == 0 {
                return Arc::clone(input);
            }
            let partitions = input.output_partitioning().partition_count();
            let lost = (0..partitions).map(|_| Arc::new(LostRows(input.schema(), self.0)) as Arc<dyn PartitionStream>);
            Arc::new(StreamingTableExec::try_new(input.schema(), lost.collect(), None, [], false, None).unwrap())
        });
        let inputs = inputs.collect();
        let decoded = FragmentExec::decode(fragment.encode().unwrap(), plan.schema(), inputs, Some(worker)).unwrap();
        let error = collect(Arc::new(decoded), SessionContext::new().task_ctx()).await.unwrap_err();
        let failed = ClusterError::failed(&format!("{error:?}"));
        self.1.lock().unwrap().push(error);
        Err(failed)
    }

    async fn collect(&self, _: Arc<dyn ExecutionPlan>) -> Result<Vec<RecordBatch>, ClusterError> {
        panic!("nothing is collected")
    }
}

#[test]
fn cluster_exchange_errors_reach_the_engine() {
    /// The error of an engine.
    #[derive(Debug, PartialEq, thiserror::Error)]
    #[error("fetch failed")]
    struct FetchFailed;

    let inputs = Inputs::new();
    let query = format!("SELECT city, sum(fare) AS fare FROM {} GROUP BY city", inputs.trips());
    let lose = |lost: fn() -> DataFusionError| {
        let errors = Arc::<Mutex<Vec<_>>>::default();
        let found = Arc::clone(&errors);
        let connect: Connect = Arc::new(move |_| Ok(Arc::new(Losing(lost, Arc::clone(&found)))));
        let (status, events) = inputs.write(&query, &inputs.out("set"), Some(connect), &[]);
        let error = errors.lock().unwrap().pop();
        (status, error.unwrap_or_else(|| panic!("{events:?}")))
    };
    // As it is.
    let (_, error) = lose(|| DataFusionError::External(Box::new(FetchFailed)));
    let DataFusionError::External(error) = error.find_root() else { panic!("{error:?}") };
    assert_eq!(error.downcast_ref(), Some(&FetchFailed));
    // A connection that breaks, which the task reads again.
    let broken = || DataFusionError::from(ArrowError::IpcError("h2 protocol error: error reading a body".to_owned()));
    let (status, error) = lose(broken);
    assert!(matches!(error.find_root(), DataFusionError::IoError(_)), "{error:?}");
    assert_eq!(status, ExitStatus::TryAgain);
}

/// Changes a file before it computes a plan.
#[derive(Debug)]
struct Late(PathBuf);

#[async_trait]
impl Cluster for Late {
    async fn run(&self, plan: Arc<dyn ExecutionPlan>) -> Result<(), ClusterError> {
        fs::copy(example("trips.parquet"), &self.0).unwrap();
        InProcess(Worker::start(WorkerOptions::default()).unwrap()).run(plan).await
    }

    async fn collect(&self, _: Arc<dyn ExecutionPlan>) -> Result<Vec<RecordBatch>, ClusterError> {
        panic!("nothing is collected")
    }
}

#[test]
fn cluster_worker_rejects_changed_inputs() {
    let inputs = Inputs::new();
    let (out, added) = (inputs.out("set"), inputs.0.path().join("trips/6.parquet"));
    let connect: Connect = Arc::new(move |_| Ok(Arc::new(Late(added.clone()))));
    let (status, events) = inputs.write(&format!("SELECT * FROM {}", inputs.trips()), &out, Some(connect), &[]);
    assert_eq!(status, ExitStatus::Failed);
    let [.., error] = &events[..] else { panic!("{events:?}") };
    assert!(error.contains("6.parquet: changed since the tasks were planned: expected one of 6 files"), "{error}");
    assert!(error.contains("run the query again, while its inputs do not change"), "{error}");
    assert!(!out.exists());
}

#[test]
fn cluster_rejects_unsupported_plans_before_the_start() {
    /// Must not be asked.
    #[derive(Debug)]
    struct Idle;

    #[async_trait]
    impl Cluster for Idle {
        async fn run(&self, _: Arc<dyn ExecutionPlan>) -> Result<(), ClusterError> {
            panic!("the plan was run")
        }

        async fn collect(&self, _: Arc<dyn ExecutionPlan>) -> Result<Vec<RecordBatch>, ClusterError> {
            panic!("the plan was run")
        }
    }

    let inputs = Inputs::new();
    let (out, trips) = (inputs.out("set"), inputs.trips());
    let refused = |query: &str| {
        let connect: Connect = Arc::new(|_| Ok(Arc::new(Idle)));
        let (status, events) = inputs.write(query, &out, Some(connect), &[]);
        assert_eq!(status, ExitStatus::Failed, "{query}");
        assert!(!out.exists(), "{query}");
        let errors: Vec<_> = events.into_iter().filter(|event| event.starts_with("error: ")).collect();
        errors.join("\n")
    };
    let refusals = [
        format!("SELECT *, random() AS r FROM {trips}"),
        format!("SELECT a.fare FROM {trips} a JOIN (SELECT * FROM {trips} LIMIT 5) b ON a.trip_id = b.trip_id"),
        format!("SELECT fare FROM {trips} WHERE trip_id IN (SELECT trip_id FROM {trips} LIMIT 5)"),
        format!("SELECT a.fare, b.fare AS other FROM {trips} a FULL JOIN {trips} b ON a.fare < b.fare"),
        format!("SELECT rank() OVER (PARTITION BY lower(city) ORDER BY fare) AS r FROM {trips}"),
        format!(
            "SELECT number % 7 AS seventh, count(*) AS n FROM (SELECT row_number() OVER (PARTITION BY city ORDER BY fare) \
             AS number FROM {trips}) GROUP BY number % 7 ORDER BY n"
        ),
    ];
    insta::assert_snapshot!("refused_on_a_cluster", refusals.map(|query| refused(&query)).join("\n"));

    // An address is checked first.
    let connect: Connect = Arc::new(|address| Err(ClusterError::Address { address: address.to_owned() }));
    let (status, events) = inputs.write("SELECT 1 AS x", &out, Some(connect), &[]);
    assert_eq!(status, ExitStatus::Usage);
    assert!(events.join("\n").contains("here:1: not the address of a scheduler"), "{events:?}");
}

#[test]
fn cluster_option_is_rejected_without_the_feature() {
    let listener = Arc::new(Collected::default());
    let arguments = ["tfr-sql", "SELECT 1 AS x", "--out", "unused", "--cluster", "here:1"].map(Into::into);
    let status = tfr_sql::run(arguments, || Ok(Interrupt::default()), Arc::clone(&listener) as _);
    assert_eq!(status, ExitStatus::Usage);
    assert!(listener.events().join("\n").contains("this build of tfr-sql has no --cluster"), "{:?}", listener.events());
}
