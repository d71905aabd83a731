//! Spilled rows that are damaged on disk are an error, whichever operator has spilled them.

use std::fs::File;
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicUsize;

use chrono::Utc;
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::compute::SortOptions;
use datafusion::common::{JoinType, NullEquality};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SessionStateBuilder, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::joins::SortMergeJoinExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties as _, Partitioning};
use datafusion::prelude::SessionContext;
use futures::future::join_all;
use futures::{StreamExt as _, TryStreamExt as _};
use tempfile::{TempDir, tempdir};
use tfr_stores::{Door, StoreOptions};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::error::Explanation;
use crate::session::{self, Limits};
use crate::spill::SpillDirectory;

/// What happens to a file after every write has succeeded.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Damage {
    Nothing,
    /// It ends between two batches when it is read. The engine takes that for its end.
    Cut,
    /// A bit in its middle has changed when it is read.
    Flip,
    /// It ends between two batches when it is finished.
    CutAtFinish,
}

/// Damages the files of one operator.
struct Meddler {
    files: SpillFiles,
    /// A part of the engine's description of the files.
    operator: &'static str,
    damage: Damage,
    number: Arc<AtomicUsize>,
}

struct MeddledFile {
    file: Arc<dyn SpillFile>,
    damage: Damage,
    messages: Arc<Mutex<Vec<u64>>>,
}

struct MeddledWriter {
    writer: Box<dyn SpillWriter>,
    damage: Damage,
    path: PathBuf,
    at: u64,
    messages: Arc<Mutex<Vec<u64>>>,
}

impl TempFileFactory for Meddler {
    fn create_temp_file(&self, description: &str) -> EngineResult<Arc<dyn SpillFile>> {
        let file = self.files.create_temp_file(description)?;
        if !description.contains(self.operator) {
            return Ok(file);
        }
        self.number.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(MeddledFile { file, damage: self.damage, messages: Arc::default() }))
    }
}

/// Cuts a file where a message of an Arrow stream begins.
fn cut(path: &Path, messages: &Mutex<Vec<u64>>) {
    let messages = messages.lock().unwrap();
    File::options().write(true).open(path).unwrap().set_len(messages[messages.len() / 2]).unwrap();
}

impl SpillFile for MeddledFile {
    fn path(&self) -> Option<&Path> {
        self.file.path()
    }

    fn size(&self) -> Option<u64> {
        self.file.size()
    }

    fn read_stream(&self) -> EngineResult<Pin<Box<dyn Stream<Item = EngineResult<Bytes>> + Send>>> {
        let path = self.file.path().unwrap();
        match self.damage {
            Damage::Nothing | Damage::CutAtFinish => {}
            Damage::Cut => cut(path, &self.messages),
            Damage::Flip => {
                let file = File::options().read(true).write(true).open(path).unwrap();
                let (mut byte, middle) = ([0], self.file.size().unwrap() / 2);
                file.read_exact_at(&mut byte, middle).unwrap();
                file.write_all_at(&[byte[0] ^ 4], middle).unwrap();
            }
        }
        self.file.read_stream()
    }

    fn open_writer(&self) -> EngineResult<Box<dyn SpillWriter>> {
        let (writer, path) = (self.file.open_writer()?, self.file.path().unwrap().to_owned());
        Ok(Box::new(MeddledWriter { writer, path, at: 0, damage: self.damage, messages: Arc::clone(&self.messages) }))
    }
}

impl Write for MeddledWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.starts_with(&[0xff; 4]) {
            self.messages.lock().unwrap().push(self.at);
        }
        let len = self.writer.write(bytes)?;
        self.at += len as u64;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl SpillWriter for MeddledWriter {
    fn finish(&mut self) -> EngineResult<()> {
        if self.damage == Damage::CutAtFinish {
            cut(&self.path, &self.messages);
        }
        self.writer.finish()
    }
}

/// 16 MiB, twice the memory of the queries.
const ROWS: &str =
    "(SELECT 1 AS k, concat(md5(CAST(value AS VARCHAR)), repeat('x', 800)) AS text FROM generate_series(1, 20000))";

/// Runs a query that spills. Returns the number of rows, or the messages of its error.
fn run(operator: &'static str, query: &str, damage: Damage) -> Result<usize, String> {
    let dir = tempdir().unwrap();
    let spill = SpillDirectory::create(Some(dir.path()), &Door::default()).unwrap();
    // One partition, so that nothing is exchanged.
    let limits = Limits { threads: NonZeroUsize::MIN, partitions: NonZeroUsize::MIN, memory: 8 << 20 };
    let opened = session::open(limits, &spill, StoreOptions::default(), Utc::now(), CancellationToken::new()).unwrap();
    let number = Arc::<AtomicUsize>::default();
    let meddler = Arc::new(Meddler { files: spill.files(), operator, damage, number: Arc::clone(&number) });
    let disk = DiskManagerBuilder::default().with_temp_file_factory(meddler);
    let runtime = RuntimeEnvBuilder::from_runtime_env(&opened.runtime_env()).with_disk_manager_builder(disk);
    let state = SessionStateBuilder::new_from_existing(opened.state()).with_runtime_env(runtime.build_arc().unwrap());
    let context = SessionContext::new_with_state(state.build());
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let counted = threads.block_on(async {
        context.sql("SET datafusion.execution.batch_size = 500").await?.collect().await?;
        let mut rows = context.sql(query).await?.execute_stream().await?;
        let mut number = 0;
        while let Some(batch) = rows.next().await {
            number += batch?.num_rows();
        }
        Ok::<_, DataFusionError>(number)
    });
    assert!(number.load(Ordering::Relaxed) > 0, "{operator} has spilled nothing: {counted:?}");
    counted.map_err(|error| messages(&error, &dir))
}

/// Returns the messages of an error, in which the directory is `DIR`.
fn messages(error: &DataFusionError, dir: &TempDir) -> String {
    let explanation = Explanation::of(error);
    let text = [explanation.causes, explanation.hint.into_iter().collect()].concat().join("\n");
    text.replace(&dir.path().display().to_string(), "DIR")
}

/// Checks that damage is found in files of an operator. The query returns 20,000 rows.
fn check(operator: &'static str, query: &str) {
    assert_eq!(run(operator, query, Damage::Nothing), Ok(20_000));
    for (damage, expected) in [
        (Damage::Cut, "DIR: spilled rows are damaged: a file ends before byte"),
        (Damage::Flip, " of a file are not those that were written"),
        (Damage::CutAtFinish, "that were written\nfree space there"),
    ] {
        let found = run(operator, query, damage).expect_err(expected);
        assert!(found.starts_with("DIR: spilled rows are damaged: "), "{damage:?}: {found}");
        assert!(found.contains(expected), "{damage:?}: {found}");
    }
}

#[test]
fn damage_to_the_files_of_a_sort_is_found() {
    check("Sorting", &format!("SELECT text FROM {ROWS} ORDER BY text"));
}

#[test]
fn damage_to_the_files_of_an_aggregation_is_found() {
    check("Agg", &format!("SELECT text, count(*) FROM {ROWS} GROUP BY text"));
}

/// Runs the partitions of a plan at the same time, without memory, so that every batch is spilled. Returns the number of
/// rows, or the messages of the error.
async fn run_without_memory(operator: &'static str, damage: Damage, plan: &dyn ExecutionPlan) -> Result<usize, String> {
    let dir = tempdir().unwrap();
    let spill = SpillDirectory::create(Some(dir.path()), &Door::default()).unwrap();
    let number = Arc::<AtomicUsize>::default();
    let meddler = Arc::new(Meddler { files: spill.files(), operator, damage, number: Arc::clone(&number) });
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(GreedyMemoryPool::new(0)))
        .with_disk_manager_builder(DiskManagerBuilder::default().with_temp_file_factory(meddler))
        .build_arc()
        .unwrap();
    let context = Arc::new(TaskContext::default().with_runtime(runtime));
    let partitions = (0..plan.output_partitioning().partition_count()).map(|partition| {
        let rows = plan.execute(partition, Arc::clone(&context)).unwrap();
        rows.try_fold(0, |sum, batch| async move { Ok(sum + batch.num_rows()) })
    });
    let rows = join_all(partitions).await.into_iter().sum::<EngineResult<usize>>();
    assert!(number.load(Ordering::Relaxed) > 0, "{operator} has spilled nothing: {rows:?}");
    rows.map_err(|error| messages(&error, &dir))
}

/// Returns a table with `batches` batches of `rows` rows: the key 1 and a number.
fn table(batches: i64, rows: i64) -> Arc<dyn ExecutionPlan> {
    let batch = |number: i64| {
        let values = Int64Array::from_iter_values(number * rows..(number + 1) * rows);
        let keys = Int64Array::from_value(1, values.len());
        let columns: [(&str, ArrayRef); 2] = [("k", Arc::new(keys)), ("n", Arc::new(values))];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    let batches: Vec<_> = (0..batches).map(batch).collect();
    let schema = batches[0].schema();
    MemorySourceConfig::try_new_exec(&[batches], schema, None).unwrap()
}

fn assert_damaged(found: Result<usize, String>, damage: Damage) {
    let found = found.expect_err("damage");
    assert!(found.starts_with("DIR: spilled rows are damaged: "), "{damage:?}: {found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_to_the_files_of_a_merge_join_is_found() {
    let (left, right) = (table(1, 1), table(10, 1000));
    let key = || Arc::new(Column::new("k", 0)) as Arc<dyn PhysicalExpr>;
    let (on, sorted) = (vec![(key(), key())], vec![SortOptions::default()]);
    let nulls = NullEquality::NullEqualsNothing;
    let join = SortMergeJoinExec::try_new(left, right, on, None, JoinType::Inner, sorted, nulls).unwrap();
    let run = |damage| run_without_memory("sort_merge_join", damage, &join);
    assert_eq!(run(Damage::Nothing).await, Ok(10_000));
    for damage in [Damage::Cut, Damage::Flip, Damage::CutAtFinish] {
        assert_damaged(run(damage).await, damage);
    }
}

/// An exchange reads files that are still being written. They are not finished when it reads their last batch.
#[tokio::test(flavor = "multi_thread")]
async fn damage_to_the_files_of_an_exchange_is_found() {
    // With one input, since the engine's exchange of several can stop for ever when it spills.
    let run = async |damage| {
        let exchange = RepartitionExec::try_new(table(100, 1000), Partitioning::RoundRobinBatch(2)).unwrap();
        run_without_memory("SpillPool", damage, &exchange).await
    };
    assert_eq!(run(Damage::Nothing).await, Ok(100_000));
    for damage in [Damage::Cut, Damage::Flip] {
        assert_damaged(run(damage).await, damage);
    }
}

#[tokio::test]
async fn spill_file_is_readable_while_written() {
    let dir = tempdir().unwrap();
    let spill = SpillDirectory::create(Some(dir.path()), &Door::default()).unwrap();
    let file = spill.files().create_temp_file("rows").unwrap();
    let mut writer = file.open_writer().unwrap();
    let mut stream = file.read_stream().unwrap();
    let long: Vec<u8> = (0..300_000_u32).map(|byte| (byte % 251) as u8).collect();
    let mut read = Vec::new();
    let mut at = 0;
    for end in [1, 10, 131_000, 131_072, 200_000, 300_000] {
        writer.write_all(&long[at..end]).unwrap();
        at = end;
        while read.len() < end {
            read.extend_from_slice(&stream.next().await.unwrap().unwrap());
        }
    }
    assert!(read == long);
    // The engine would take the end of the stream for that of the rows.
    let error = stream.next().await.unwrap().unwrap_err().to_string();
    assert!(error.ends_with("spilled rows are damaged: a file was read before it was complete"), "{error}");
    writer.finish().unwrap();
    let again: Vec<u8> = file.read_stream().unwrap().map_ok(|bytes| bytes.to_vec()).try_concat().await.unwrap();
    assert!(again == long);
    assert_eq!(file.size(), Some(300_000));
}

#[test]
fn spill_limit_counts_files_while_they_exist() {
    let dir = tempdir().unwrap();
    let spill = SpillDirectory::create(Some(dir.path()), &Door::default()).unwrap();
    let files = spill.files();
    files.set_limit(10);
    let create = || files.create_temp_file("rows").unwrap();
    let first = create();
    first.open_writer().unwrap().write_all(b"12345").unwrap();
    let error = create().open_writer().unwrap().write_all(b"123456").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::QuotaExceeded);
    let found = messages(&DataFusionError::IoError(error), &dir);
    assert_eq!(
        found,
        "DIR: spilled rows take more than 10 bytes, which is the limit\n\
         raise datafusion.runtime.max_temp_directory_size with SET, before the query"
    );
    let path = first.path().unwrap().to_owned();
    drop(first);
    assert!(!path.exists());
    create().open_writer().unwrap().write_all(b"1234567890").unwrap();
}

/// An error of the system names neither a file nor a directory.
#[test]
fn errors_name_the_directory() {
    let dir = tempdir().unwrap();
    let space = Space { directory: dir.path().to_owned(), limit: 1.into(), used: AtomicU64::new(0) };
    let source = io::Error::from_raw_os_error(28);
    let found = messages(&DataFusionError::IoError(into_io(space.failed("write", source))), &dir);
    assert_eq!(
        found,
        "DIR: cannot write spilled rows\nNo space left on device (os error 28)\n\
         free space there, or name another directory with --temp-dir"
    );
}
