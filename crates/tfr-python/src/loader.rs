//! The classes behind `tfr_sql.Loader`: [`PyDataSet`] and [`PyBatches`].

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use arrow_array::{ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, StringArray};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyString, PyType};
use pyo3_arrow::PySchema;
use tfrecord_framing::CrcPolicy;

use crate::buckets::Access;
use crate::columns::Columns;
use crate::dataset::{DataSet, project};
use crate::error::Failure;
use crate::files::{Files, stop_of};
use crate::order::{Equal, Order, Shuffle};
use crate::plan::Plan;
use crate::produce::ProducerMessage;
use crate::segment::Decoding;
use crate::signals::{INTERVAL, interruptible};
use crate::values::into_dict;

/// Length in bytes of the records that are shuffled together by default: 128 MiB. As many may be decoded ahead.
const WINDOW_BYTES: u64 = 128 << 20;

/// Default number of rows that are shuffled together.
const WINDOW_ROWS: u64 = 65_536;

/// Most rows that are shuffled together, without those of the last, smaller step.
const MOST_SHUFFLED: u64 = (1 << 31) - 1;

/// Most places from which a window has rows, and the least length in bytes of what is read at each in an epoch.
const LANES: u64 = 64;
const LANE_BYTES: u64 = 1 << 20;

/// Files with the numbers of their records and their columns.
#[pyclass(name = "DataSet", module = "tfr_sql._native", frozen)]
pub(crate) struct PyDataSet(pub(crate) Arc<DataSet>);

#[pymethods]
impl PyDataSet {
    /// Finds the files at `paths` and counts their records.
    #[new]
    #[pyo3(signature = (
        paths, *, split=None, schema=None, skips_damaged=false, allow=None, cache=PathBuf::new(), cache_size=0,
    ))]
    #[allow(clippy::too_many_arguments, reason = "the keyword arguments of Loader")]
    fn new(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        split: Option<String>,
        schema: Option<PySchema>,
        skips_damaged: bool,
        allow: Option<Vec<String>>,
        cache: PathBuf,
        cache_size: u64,
    ) -> PyResult<Self> {
        let schema = schema.map(PySchema::into_inner);
        let split = split.as_deref();
        let access = Access { allow, cache, cache_size };
        let data = interruptible(py, |progress| {
            let files = Files::new(&access, stop_of(progress))?;
            DataSet::open(&paths, split, schema, skips_damaged, (access, &files, progress))
        })?;
        Ok(Self(Arc::new(data)))
    }

    /// Restores a data set that `__reduce__` stored.
    #[classmethod]
    fn from_json(_class: &Bound<'_, PyType>, json: &str) -> PyResult<Self> {
        Ok(Self(Arc::new(DataSet::from_json(json)?)))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        let json = slf.get().0.to_json()?;
        Ok((slf.get_type().getattr("from_json")?, (json,)))
    }

    /// The number of records.
    fn __len__(&self) -> usize {
        usize::try_from(self.0.rows()).unwrap_or(usize::MAX)
    }

    /// The files that are missing in the directories that were named: a line for each set of files.
    #[getter]
    fn missing(&self) -> Vec<String> {
        self.0.missing.clone()
    }

    /// The damaged records that are passed over: their number, and a line for each file.
    #[getter]
    fn damage(&self) -> (u64, Vec<String>) {
        let damaged = self.0.shards.iter().filter_map(|shard| Some((shard.damage.as_ref()?, &shard.path)));
        let lines = damaged.clone().map(|(damage, path)| damage.describe(path)).collect();
        (damaged.map(|(damage, _)| damage.count).sum(), lines)
    }

    /// The paths and URLs of the files. A `pathlib.Path` has no URLs.
    #[getter]
    fn files(&self) -> Vec<OsString> {
        self.0.shards.iter().map(|shard| shard.path.clone().into_os_string()).collect()
    }

    /// The number of records of each file.
    #[getter]
    fn rows(&self) -> Vec<u64> {
        self.0.shards.iter().map(|shard| shard.rows).collect()
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.0.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Whether the columns were inferred from the first records.
    #[getter]
    fn inferred(&self) -> bool {
        self.0.inferred
    }

    /// The columns, for `pyarrow.schema` and others.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        PySchema::new(Arc::clone(&self.0.schema)).into_pyobject(py)?.into_any().call_method0("__arrow_c_schema__")
    }

    /// A checksum of the names and figures of the files.
    #[getter]
    fn checksum(&self) -> u32 {
        self.0.checksum()
    }

    /// A fingerprint of the records, by what manifests record of the files, or else by their figures.
    #[getter]
    fn fingerprint(&self) -> String {
        self.0.fingerprint()
    }
}

/// Converts a Python scalar to an array of one value.
fn scalar(name: &str, value: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    Ok(if value.is_instance_of::<PyBool>() {
        Arc::new(BooleanArray::from(vec![value.extract::<bool>()?]))
    } else if value.is_instance_of::<PyInt>() {
        Arc::new(Int64Array::from(vec![value.extract::<i64>()?]))
    } else if value.is_instance_of::<PyFloat>() {
        Arc::new(Float64Array::from(vec![value.extract::<f64>()?]))
    } else if let Ok(text) = value.cast::<PyString>() {
        Arc::new(StringArray::from(vec![text.to_str()?]))
    } else if let Ok(bytes) = value.cast::<PyBytes>() {
        Arc::new(BinaryArray::from(vec![bytes.as_bytes()]))
    } else {
        let found = value.get_type().name()?;
        return Err(Failure::usage(format!(
            "fill: column {name:?}: expected a bool, int, float, str or bytes, found {found}"
        ))
        .into());
    })
}

pub(crate) fn scalars(fill: Option<&Bound<'_, PyDict>>) -> PyResult<BTreeMap<String, ArrayRef>> {
    let mut scalars = BTreeMap::new();
    for (name, value) in fill.into_iter().flatten() {
        let name: String = name.extract()?;
        let value = scalar(&name, &value)?;
        scalars.insert(name, value);
    }
    Ok(scalars)
}

pub(crate) fn crc_policy(crc: bool) -> CrcPolicy {
    if crc { CrcPolicy::Verify } else { CrcPolicy::Skip }
}

/// What a reader reads, and in which order.
#[pyclass(name = "Plan", module = "tfr_sql._native", frozen)]
pub(crate) struct PyPlan(Arc<Plan>);

#[pymethods]
impl PyPlan {
    /// Plans the batches of one reader. Checks every argument.
    #[new]
    #[pyo3(signature = (
        data, *, global_batch, columns=None, shuffle=None, shuffle_buffer=None, drop_remainder=false, rank=0,
        world_size=1, worker=0, num_workers=1, equal="none", ragged="splits", pad_to=None, fill=None, threads=1,
        crc=true,
    ))]
    #[allow(clippy::too_many_arguments, reason = "the keyword arguments of Loader")]
    fn new(
        data: &PyDataSet,
        global_batch: u64,
        columns: Option<Vec<String>>,
        shuffle: Option<u64>,
        shuffle_buffer: Option<u64>,
        drop_remainder: bool,
        rank: u64,
        world_size: u64,
        worker: u64,
        num_workers: u64,
        equal: &str,
        ragged: &str,
        pad_to: Option<BTreeMap<String, usize>>,
        fill: Option<&Bound<'_, PyDict>>,
        threads: usize,
        crc: bool,
    ) -> PyResult<Self> {
        let data = Arc::clone(&data.0);
        for (name, value) in [("global_batch", global_batch), ("threads", threads as u64)] {
            if value == 0 {
                return Err(Failure::usage(format!("{name} is 0, expected at least 1")).into());
            }
        }
        // The rows that are shuffled together are numbered.
        if shuffle.is_some() && global_batch.min(data.rows()) > MOST_SHUFFLED {
            let problem = format!("a shuffle of batches of {global_batch} rows, expected at most {MOST_SHUFFLED}");
            return Err(Failure::usage(problem).into());
        }
        for (name, number, count) in [("rank", rank, world_size), ("worker", worker, num_workers)] {
            if number >= count {
                return Err(Failure::usage(format!("{name} {number} of {count}, expected a lower number")).into());
            }
        }
        if !global_batch.is_multiple_of(world_size) {
            let problem = format!("global_batch is {global_batch}, expected a multiple of {world_size}");
            return Err(Failure::usage(problem).into());
        }
        let equal = match equal {
            "none" => Equal::No,
            "truncate" => Equal::Truncate,
            "repeat" => Equal::Repeat,
            _ => return Err(unknown("equal", equal, "none, truncate or repeat").into()),
        };
        let pad = match ragged {
            "splits" => false,
            "pad" => true,
            _ => return Err(unknown("ragged", ragged, "splits or pad").into()),
        };
        let projection = project(&data.schema, columns.as_deref())?;
        let columns = Columns::new(&data.schema, &projection, pad, &pad_to.unwrap_or_default(), &scalars(fill)?)?;
        let shuffle = shuffle.map(|seed| Shuffle {
            seed,
            window: window_steps(&data, global_batch, shuffle_buffer),
            lanes: lanes(&data, global_batch),
        });
        Ok(Self(Arc::new(Plan {
            decoding: Decoding { projection, columns, crc: crc_policy(crc) },
            order: Order { rows: data.rows(), global_batch, rank, ranks: world_size, equal, drop_remainder, shuffle },
            worker,
            workers: num_workers,
            threads,
            data,
        })))
    }

    /// The number of batches of the rank in an epoch.
    #[getter]
    fn steps(&self) -> u64 {
        self.0.order.steps()
    }

    /// The number of steps of an epoch, for any rank.
    #[getter]
    fn all_steps(&self) -> u64 {
        self.0.order.all_steps()
    }

    /// The number of rows of the rank in an epoch.
    #[getter]
    fn rows(&self) -> u64 {
        self.0.order.rank_rows()
    }

    /// The number of rows that are shuffled together, and of the places they are from. None without a shuffle.
    #[getter]
    fn window(&self) -> Option<(u64, u64)> {
        let Order { global_batch, shuffle, .. } = &self.0.order;
        shuffle.map(|shuffle| (shuffle.window.saturating_mul(*global_batch), shuffle.lanes))
    }

    /// Starts a thread that makes the batches of this worker from this position of all workers on, `prefetch` batches
    /// ahead. They end before the epoch `end`.
    #[pyo3(signature = (epoch, step, *, end, prefetch))]
    fn batches(&self, epoch: u64, step: u64, end: Option<u64>, prefetch: usize) -> PyResult<PyBatches> {
        let (send, receive) = sync_channel(prefetch);
        let plan = Arc::clone(&self.0);
        let is_stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_stopped);
        thread::Builder::new()
            .name("tfr-loader".to_owned())
            .spawn(move || plan.produce(epoch, step, end, &send, &is_stopped))
            .map_err(|error| Failure::other(format!("cannot start a thread: {error}")))?;
        Ok(PyBatches(Mutex::new(Some(Running { receive, stop, process: std::process::id() }))))
    }
}

fn unknown(option: &str, found: &str, expected: &str) -> Failure {
    Failure::usage(format!("unknown {option} {found:?}: expected {expected}"))
}

/// Returns the number of steps whose rows are shuffled together, at least one.
fn window_steps(data: &DataSet, global_batch: u64, asked: Option<u64>) -> u64 {
    let fitting = WINDOW_BYTES / data.framed().checked_div(data.rows()).unwrap_or(1).max(1);
    (asked.unwrap_or(fitting.min(WINDOW_ROWS)).min(MOST_SHUFFLED) / global_batch).max(1)
}

/// Returns the number of places from which a window has rows. It depends on the files and the global batch alone.
fn lanes(data: &DataSet, global_batch: u64) -> u64 {
    // A lane may begin within a block, of which compressed data is then decompressed.
    let blocks = if data.has_open_blocks() { data.framed() / LANE_BYTES } else { data.segments().len() as u64 / 2 };
    let most = blocks.min(LANES).min(global_batch).max(1);
    // Ranks have the same lanes in all steps if the number of lanes divides the batch.
    (most / 2 + 1..=most).rev().find(|lanes| global_batch.is_multiple_of(*lanes)).unwrap_or(most)
}

/// Batches that are made by a thread.
#[pyclass(name = "Batches", module = "tfr_sql._native", frozen)]
pub(crate) struct PyBatches(Mutex<Option<Running>>);

struct Running {
    receive: Receiver<ProducerMessage>,
    /// Stops the thread.
    stop: Arc<AtomicBool>,
    /// The process that has the thread.
    process: u32,
}

impl Drop for PyBatches {
    fn drop(&mut self) {
        let running = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(running) = running {
            running.end();
        }
    }
}

impl Running {
    /// Stops the thread. Does not wait for its end, because that would delay Ctrl-C by as long as it takes to shuffle.
    fn end(self) {
        if self.process == std::process::id() {
            self.stop.store(true, Ordering::Relaxed);
        } else {
            // After a fork the thread is not in this process, and may have held a lock of the channel.
            std::mem::forget(self);
        }
    }
}

#[pymethods]
impl PyBatches {
    /// Returns the next batch, with the epoch and step of the position after the next batch of every worker. Returns None after the last.
    #[allow(clippy::type_complexity, reason = "a tuple of Python values")]
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyDict>, u64, u64)>> {
        let message = loop {
            let received = py.detach(|| {
                let running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                match &*running {
                    Some(running) => running.receive.recv_timeout(INTERVAL).map_err(Some),
                    None => Err(None),
                }
            });
            match received {
                Ok(message) => break message,
                Err(Some(RecvTimeoutError::Timeout)) => py.check_signals()?,
                Err(Some(RecvTimeoutError::Disconnected)) => {
                    return Err(Failure::other("the thread that reads has stopped".to_owned()).into());
                }
                Err(None) => return Ok(None),
            }
        };
        match message {
            ProducerMessage::Batch(batch) => {
                Ok(Some((into_dict(py, batch.columns)?, batch.position.0, batch.position.1)))
            }
            ProducerMessage::Failed(failure) => {
                self.close(py);
                Err(failure.into())
            }
            ProducerMessage::End => {
                self.close(py);
                Ok(None)
            }
        }
    }

    /// Stops the thread.
    fn close(&self, py: Python<'_>) {
        // Another thread may wait for a batch, and has the lock meanwhile.
        let running = py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(running) = running {
            running.end();
        }
    }
}
