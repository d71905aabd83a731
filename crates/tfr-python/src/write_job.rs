//! `WriteJob` and `TaskWriter`: a shard set that tasks in several processes write.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_tfrecord::{ColumnRule, MappingOptions};
use bytesize::ByteSize;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};
use pyo3_arrow::PySchema;
use pyo3_arrow::input::AnyRecordBatch;
use rayon::ThreadPoolBuilder;
use serde::{Deserialize, Serialize};
use tfrecord_framing::array_record::{ChunkCodec, ChunkOptions};
use tfrecord_framing::{Compression, Framing, Level, RecordFormat};
use tfrecord_shards::{
    AttemptId, ErrorKind, LocalCommit, RunId, SaveMode, SchemaDescription, ShardedWriterBuilder, Sharding,
    SharedStaging, TaskWriter,
};

use crate::error::{Failure, Result, chain};
use crate::signals::each_batch;

/// A set that is started and not yet published.
#[pyclass(name = "WriteJob", module = "tfr_sql._native", frozen)]
pub(crate) struct PyWriteJob(Job);

/// What every process that writes to the set must know.
#[derive(Debug, Serialize, Deserialize)]
struct Job {
    shared: SharedStaging,
    settings: Settings,
}

/// The settings of a [`ShardedWriterBuilder`], as text or numbers.
#[derive(Debug, Serialize, Deserialize)]
struct Settings {
    schema: SchemaDescription,
    mapping: MappingOptions,
    sharding: Sharding,
    record_format: String,
    group_size: Option<NonZeroU32>,
    compression: String,
    level: Option<u32>,
    prefix: String,
    mode: SaveMode,
    indexed: bool,
}

/// What a task returns to whoever publishes: which attempt is complete.
#[derive(Debug, Serialize, Deserialize)]
struct Message {
    run: RunId,
    task: u32,
    attempt: AttemptId,
    rows: u64,
}

#[pymethods]
impl PyWriteJob {
    /// Starts a set in the directory `out` of rows with the columns of `schema`.
    #[classmethod]
    #[pyo3(signature = (
        out, schema, *, shard_rows=None, shard_size=None, compression=None, level=None, prefix="part", mode="error",
        mapping=None, null=None, record_type=None, sequence=Vec::new(), separator=None, strict=false, index=false,
        record_format="tfrecord", group_size=None
    ))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments")]
    fn start(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        out: PathBuf,
        schema: PySchema,
        shard_rows: Option<u64>,
        shard_size: Option<&str>,
        compression: Option<&str>,
        level: Option<u32>,
        prefix: &str,
        mode: &str,
        mapping: Option<BTreeMap<String, String>>,
        null: Option<&str>,
        record_type: Option<&str>,
        sequence: Vec<String>,
        separator: Option<&str>,
        strict: bool,
        index: bool,
        record_format: &str,
        group_size: Option<u32>,
    ) -> PyResult<Self> {
        let mut options = MappingOptions::default().with_strict(strict);
        for (column, rule) in mapping.unwrap_or_default() {
            let rule: ColumnRule = rule.parse().map_err(|error| usage("mapping", &error))?;
            options = options.with_rule(column, rule);
        }
        for column in sequence {
            options = options.with_sequence(column);
        }
        if let Some(null) = null {
            options = options.with_nulls(null.parse().map_err(|error| usage("null", &error))?);
        }
        if let Some(record_type) = record_type {
            options = options.with_record_type(record_type.parse().map_err(|error| usage("record_type", &error))?);
        }
        if let Some(separator) = separator {
            options = options.with_separator(separator);
        }
        let schema = SchemaDescription::try_new(&schema.into_inner()).map_err(Failure::from)?;
        let settings = Settings {
            schema,
            mapping: options,
            sharding: sharding(shard_rows, shard_size)?,
            record_format: record_format.to_owned(),
            group_size: group_size.map(size_of_groups).transpose()?,
            compression: compression.unwrap_or("none").to_owned(),
            level,
            prefix: prefix.to_owned(),
            mode: save_mode(mode)?,
            indexed: index,
        };
        let builder = settings.builder()?;
        let shared = py.detach(|| -> Result<_> { Ok(builder.start(&out)?) })?;
        Ok(Self(Job { shared, settings }))
    }

    /// Restores a job that `__reduce__` stored.
    #[classmethod]
    fn from_json(_class: &Bound<'_, PyType>, json: &str) -> PyResult<Self> {
        let job = serde_json::from_str(json).map_err(|error| Failure::usage(format!("not a write job: {error}")))?;
        Ok(Self(job))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        let json = serde_json::to_string(&slf.get().0)
            .map_err(|error| Failure::usage(format!("the job cannot be pickled: {error}")))?;
        Ok((slf.get_type().getattr("from_json")?, (json,)))
    }

    /// The directory of the set.
    #[getter]
    fn out(&self) -> PathBuf {
        self.0.shared.out().to_owned()
    }

    /// The run, as in the manifest.
    #[getter]
    fn run(&self) -> &str {
        self.0.shared.run().as_str()
    }

    /// Begins a new attempt of a task.
    #[pyo3(signature = (task, *, threads=1))]
    fn task(&self, py: Python<'_>, task: u32, threads: usize) -> PyResult<PyTaskWriter> {
        let threads =
            NonZeroUsize::new(threads).ok_or_else(|| Failure::usage("threads is 0, expected at least 1".to_owned()))?;
        let builder = self.0.settings.builder()?;
        let writer = py.detach(|| -> Result<_> {
            // A pool of its own: that of another writer would not survive a fork.
            let pool = ThreadPoolBuilder::new().num_threads(threads.get()).build();
            let pool = pool.map_err(|error| Failure::other(format!("cannot start threads: {error}")))?;
            Ok(builder.with_pool(Arc::new(pool)).stage(&self.0.shared, task)?)
        })?;
        Ok(PyTaskWriter(Mutex::new(Some(writer))))
    }

    /// Publishes what the tasks with these messages have staged. Returns the manifest as JSON.
    #[pyo3(signature = (messages, *, tasks=None))]
    fn commit(&self, py: Python<'_>, messages: Vec<Vec<u8>>, tasks: Option<u32>) -> PyResult<String> {
        let mut attempts = Vec::with_capacity(messages.len());
        for message in messages {
            let message: Message = serde_json::from_slice(&message)
                .map_err(|error| Failure::usage(format!("not a report of a task: {error}")))?;
            if message.run != *self.0.shared.run() {
                return Err(Failure::usage(format!(
                    "expected reports of run {}, found one of run {}",
                    self.run(),
                    message.run
                ))
                .into());
            }
            attempts.push((message.task, message.attempt));
        }
        let builder = self.0.settings.builder()?;
        let commit = || -> Result<Vec<u8>> { Ok(builder.commit(&self.0.shared, &attempts, tasks)?.to_json()?) };
        let json = py.detach(commit)?;
        Ok(String::from_utf8_lossy(&json).into_owned())
    }

    /// Discards what is staged. Does nothing if the set is published or aborted.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        let abort = || match LocalCommit::resume(&self.0.shared, self.0.settings.mode) {
            Ok(commit) => {
                drop(commit.abort());
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::Ended) => Ok(()),
            Err(error) => Err(Failure::from(error)),
        };
        Ok(py.detach(abort)?)
    }
}

/// Writes the rows of one attempt of a task.
#[pyclass(name = "TaskWriter", module = "tfr_sql._native", frozen)]
pub(crate) struct PyTaskWriter(Mutex<Option<TaskWriter>>);

#[pymethods]
impl PyTaskWriter {
    /// Adds the rows of `data`: anything with `__arrow_c_stream__` or `__arrow_c_array__`.
    fn write(&self, py: Python<'_>, data: AnyRecordBatch) -> PyResult<()> {
        each_batch(py, data.into_reader()?, |batch| {
            let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(writer.as_mut().ok_or_else(closed)?.write(batch)?)
        })
    }

    /// Completes the attempt. Returns the message for `WriteJob.commit`.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let json = py.detach(|| -> Result<Vec<u8>> {
            let report = self.take().ok_or_else(closed)?.finish()?;
            let (run, task, attempt, rows) = (report.run, report.partition, report.attempt, report.rows);
            let message = serde_json::to_vec(&Message { run, task, attempt, rows });
            message.map_err(|error| Failure::other(format!("the report cannot be written: {error}")))
        })?;
        Ok(PyBytes::new(py, &json))
    }

    /// Removes what the attempt has written, unless it is complete.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.take()));
    }
}

impl PyTaskWriter {
    fn take(&self) -> Option<TaskWriter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Settings {
    fn builder(&self) -> Result<ShardedWriterBuilder> {
        let format: RecordFormat = self.record_format.parse().map_err(|error| usage("record_format", &error))?;
        let (compression, codec) = match self.compression.parse::<Compression>() {
            Ok(compression) => (compression, ChunkCodec::None),
            Err(error) => (Compression::None, self.compression.parse().map_err(|_| usage("compression", &error))?),
        };
        let level = match self.level {
            Some(_) if compression == Compression::None => {
                return Err(Failure::usage("level needs compression".to_owned()));
            }
            Some(level) => Level::try_from(level).map_err(|error| usage("level", &error))?,
            None => Level::default(),
        };
        let of_chunks = (codec, self.group_size);
        let framing = Framing::try_new(format, (compression, level), of_chunks);
        let framing = framing.map_err(|conflict| Failure::usage(conflict.to_string()))?;
        if self.indexed && format != RecordFormat::TfRecord {
            return Err(Failure::usage(format!("an index is for shards of record format tfrecord, found {format}")));
        }
        if self.indexed && compression != Compression::None {
            let found = format!("an index is for uncompressed shards, found compression {compression}");
            return Err(Failure::usage(found));
        }
        Ok(ShardedWriterBuilder::new(self.schema.to_schema()?)
            .with_mapping(self.mapping.clone())
            .with_sharding(self.sharding)
            .with_framing(framing)
            .with_prefix(&self.prefix)
            .with_mode(self.mode)
            .with_indexes(self.indexed))
    }
}

/// Returns the number of records of a chunk.
fn size_of_groups(records: u32) -> Result<NonZeroU32> {
    let most = ChunkOptions::MAX_GROUP_SIZE;
    let size = NonZeroU32::new(records).filter(|size| *size <= most);
    size.ok_or_else(|| Failure::usage(format!("group_size is {records}, expected 1 to {most}")))
}

/// Returns how a task assigns its rows to shards.
fn sharding(rows: Option<u64>, size: Option<&str>) -> Result<Sharding> {
    match (rows, size) {
        (Some(_), Some(_)) => Err(Failure::usage("expected shard_rows or shard_size, found both".to_owned())),
        (Some(0), None) => Err(Failure::usage("shard_rows is 0, expected at least 1".to_owned())),
        (Some(rows), None) => Ok(Sharding::Rows(rows)),
        (None, Some(size)) => match size.trim().parse() {
            Ok(ByteSize(bytes)) if bytes > 0 => Ok(Sharding::Bytes(bytes)),
            _ => Err(Failure::usage(format!("shard_size is {size:?}, expected a size such as \"128MiB\""))),
        },
        (None, None) => Ok(Sharding::default()),
    }
}

fn save_mode(mode: &str) -> Result<SaveMode> {
    match mode {
        "error" | "errorifexists" => Ok(SaveMode::Error),
        "overwrite" => Ok(SaveMode::Overwrite),
        "append" => Ok(SaveMode::Append),
        _ => Err(Failure::usage(format!("mode is {mode:?}, expected \"error\", \"overwrite\" or \"append\""))),
    }
}

fn usage(option: &str, error: &dyn std::error::Error) -> Failure {
    Failure::usage(format!("{option}: {}", chain(error)))
}

fn closed() -> Failure {
    Failure::usage("the task is complete, or has failed".to_owned())
}
