//! Batches between this process and the command: Arrow data as messages for a pipe, and the rows of a pipe as batches.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use pyo3_arrow::input::AnyRecordBatch;
use pyo3_arrow::{PyRecordBatch, PyRecordBatchReader, PySchema};
use tfr_arrow::nested;

use crate::columns::Columns;
use crate::error::{Failure, Result};
use crate::loader::scalars;
use crate::signals::INTERVAL;
use crate::values::{columns_of, into_dict};

/// Batches that are read ahead of the program.
const AHEAD: usize = 2;

/// Rows of a query.
#[pyclass(name = "RecordBatch", module = "tfr_sql", frozen)]
pub(crate) struct PyRows(RecordBatch);

#[pymethods]
impl PyRows {
    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    /// The number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.num_rows()
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.0.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Returns the columns as numpy arrays, or as `Ragged` if their rows have any length.
    ///
    /// `fill` has values for nulls of columns that have no numpy value for them.
    #[pyo3(signature = (*, fill=None))]
    fn to_numpy<'py>(&self, py: Python<'py>, fill: Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyDict>> {
        // numpy has no dictionaries.
        let schema = self.0.schema();
        let all: Vec<_> = (0..schema.fields().len()).collect();
        let columns = Columns::new(&schema, &all, false, &Default::default(), &scalars(fill)?)?;
        let values = py.detach(|| columns_of(columns.convert(&self.0, Path::new("the rows"), 0)?, &columns))?;
        into_dict(py, values)
    }

    fn __repr__(&self) -> String {
        format!("<RecordBatch of {} rows: {}>", self.0.num_rows(), self.column_names().join(", "))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        schema_capsule(py, &self.0.schema())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let batch = PyRecordBatch::new(self.0.clone()).into_pyobject(py)?.into_any();
        batch.call_method1("__arrow_c_array__", (requested_schema,))
    }
}

/// Reads batches from anything with `__arrow_c_stream__` or `__arrow_c_array__`.
#[pyclass(name = "BatchReader", module = "tfr_sql._native", frozen)]
pub(crate) struct PyBatchReader {
    schema: SchemaRef,
    reader: Mutex<Box<dyn RecordBatchReader + Send>>,
}

#[pymethods]
impl PyBatchReader {
    #[new]
    fn new(data: AnyRecordBatch) -> PyResult<Self> {
        Ok(Self { schema: data.schema()?, reader: Mutex::new(data.into_reader()?) })
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        schema_capsule(py, &self.schema)
    }

    /// Returns the next batch, or None at the end.
    fn next(&self, py: Python<'_>) -> PyResult<Option<PyRows>> {
        let next = py.detach(|| self.reader.lock().unwrap_or_else(PoisonError::into_inner).next());
        match next {
            Some(Ok(batch)) => Ok(Some(PyRows(batch))),
            Some(Err(error)) => Err(Failure::other(format!("the data cannot be read: {error}")).into()),
            None => Ok(None),
        }
    }
}

/// Converts batches to the messages of an Arrow IPC stream.
#[pyclass(name = "StreamEncoder", module = "tfr_sql._native", frozen)]
pub(crate) struct PyStreamEncoder {
    schema: SchemaRef,
    writer: Mutex<StreamWriter<Vec<u8>>>,
}

#[pymethods]
impl PyStreamEncoder {
    /// Creates an encoder of batches with the columns of `schema`.
    #[new]
    fn new(schema: PySchema) -> PyResult<Self> {
        let schema = schema.into_inner();
        let writer = StreamWriter::try_new(Vec::new(), &schema).map_err(unwritable)?;
        Ok(Self { schema, writer: Mutex::new(writer) })
    }

    /// Returns the messages for a batch. Those of the first include the schema.
    fn write<'py>(&self, py: Python<'py>, batch: PyRecordBatch) -> PyResult<Bound<'py, PyBytes>> {
        let batch = batch.into_inner();
        let messages = py.detach(|| -> Result<Vec<u8>> {
            if let Some(difference) = difference(&self.schema, batch.schema_ref()) {
                return Err(Failure::usage(format!("the batches have different columns: {difference}"))
                    .with_hint("Cast the batches to one schema."));
            }
            let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
            writer.write(&batch).map_err(unwritable)?;
            Ok(std::mem::take(writer.get_mut()))
        })?;
        Ok(PyBytes::new(py, &messages))
    }

    /// Returns the rest, which ends with the end-of-stream marker.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.finish().map_err(unwritable)?;
        Ok(PyBytes::new(py, &std::mem::take(writer.get_mut())))
    }
}

fn unwritable(error: ArrowError) -> Failure {
    Failure::usage(format!("the data cannot be written as an Arrow stream: {error}"))
}

/// Describes the first difference of two schemas. Metadata and nullability do not count.
pub(crate) fn difference(expected: &Schema, found: &Schema) -> Option<String> {
    let expected = expected.fields().iter().map(|field| (field.name().as_str(), field.data_type()));
    let found = found.fields().iter().map(|field| (field.name().as_str(), field.data_type()));
    let (expected, found) = nested::difference(expected, found)?;
    Some(format!("expected {expected}, found {found}"))
}

/// The rows that a running command writes.
#[pyclass(name = "RowReader", module = "tfr_sql._native", frozen)]
pub(crate) struct PyRowReader {
    schema: SchemaRef,
    rows: Mutex<Option<Rows>>,
}

#[pymethods]
impl PyRowReader {
    /// Reads the stream at `path`, and waits for its schema.
    ///
    /// `command` is the running command. Its method `finish` is called at the end of the stream: it raises the error of
    /// a command that failed. Its method `cancel` is called when the reader is interrupted.
    #[new]
    fn new(py: Python<'_>, path: PathBuf, command: Py<PyAny>) -> PyResult<Self> {
        let file = File::open(&path).map_err(|error| Failure::io(&path, "open", error))?;
        let (sender, items) = sync_channel(AHEAD);
        let read = move || {
            let mut reader = match StreamReader::try_new_buffered(file, None) {
                Ok(reader) => reader,
                // The receiver is gone after an interrupt.
                Err(error) => return drop(sender.send(Err(error))),
            };
            if sender.send(Ok(Item::Schema(reader.schema()))).is_ok() {
                let _unread = reader.try_for_each(|batch| sender.send(batch.map(Item::Rows)));
            }
        };
        let thread = thread::Builder::new().name("rows".to_owned()).spawn(read);
        thread.map_err(|error| Failure::other(format!("cannot start a thread: {error}")))?;
        let rows = Mutex::new(Rows { items, command });
        let (schema, rows) = py.detach(move || {
            let next = rows.lock().unwrap_or_else(PoisonError::into_inner).next_item();
            (next, rows)
        });
        match schema? {
            Some(Item::Schema(schema)) => {
                let rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
                Ok(Self { schema, rows: Mutex::new(Some(rows)) })
            }
            _ => Err(Failure::other("the command wrote no rows".to_owned()).into()),
        }
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        schema_capsule(py, &self.schema)
    }

    /// Returns the next batch, or None at the end.
    fn next(&self, py: Python<'_>) -> PyResult<Option<PyRows>> {
        let next = py.detach(|| match &mut *self.rows.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(rows) => rows.next_batch(),
            None => Err(Failure::usage("the rows have been taken by another reader".to_owned()).into()),
        })?;
        Ok(next.map(PyRows))
    }

    /// Moves the rows to an Arrow C stream.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Some(rows) = self.rows.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Err(Failure::usage("the rows have been taken by another reader".to_owned()).into());
        };
        let stream = RowStream { schema: Arc::clone(&self.schema), rows };
        let reader = PyRecordBatchReader::new(Box::new(stream)).into_pyobject(py)?.into_any();
        reader.call_method1("__arrow_c_stream__", (requested_schema,))
    }
}

/// What a stream consists of.
enum Item {
    Schema(SchemaRef),
    Rows(RecordBatch),
}

/// The items of a stream, which another thread reads.
struct Rows {
    items: Receiver<Result<Item, ArrowError>>,
    command: Py<PyAny>,
}

impl Rows {
    /// Waits for the next item without Python's lock; `None` at the end of a command that succeeded.
    fn next_item(&mut self) -> PyResult<Option<Item>> {
        loop {
            let error = match self.items.recv_timeout(INTERVAL) {
                Ok(Ok(item)) => return Ok(Some(item)),
                Ok(Err(error)) => Some(error),
                Err(RecvTimeoutError::Disconnected) => None,
                Err(RecvTimeoutError::Timeout) => {
                    Python::attach(|py| {
                        py.check_signals().inspect_err(|_| drop(self.command.call_method0(py, "cancel")))
                    })?;
                    continue;
                }
            };
            // The error of the command explains why its stream ends early.
            Python::attach(|py| self.command.call_method0(py, "finish"))?;
            return match error {
                None => Ok(None),
                Some(error) => Err(Failure::other(format!("the command's rows cannot be read: {error}")).into()),
            };
        }
    }

    fn next_batch(&mut self) -> PyResult<Option<RecordBatch>> {
        Ok(self.next_item()?.and_then(|item| match item {
            Item::Rows(batch) => Some(batch),
            Item::Schema(_) => None,
        }))
    }
}

/// The rows as a reader for other libraries.
struct RowStream {
    schema: SchemaRef,
    rows: Rows,
}

impl Iterator for RowStream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.rows.next_batch().map_err(|error| ArrowError::ExternalError(Box::new(error))).transpose()
    }
}

impl RecordBatchReader for RowStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

fn schema_capsule<'py>(py: Python<'py>, schema: &SchemaRef) -> PyResult<Bound<'py, PyAny>> {
    PySchema::new(Arc::clone(schema)).into_pyobject(py)?.into_any().call_method0("__arrow_c_schema__")
}
