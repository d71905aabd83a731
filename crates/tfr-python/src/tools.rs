//! Functions on whole sets, and the conversion of batches to records and back.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array, RecordBatch, StructArray};
use arrow_schema::{Field, Schema, SchemaRef};
use arrow_tfrecord::{Encoder, Mapping, MappingOptions, RecordBuffer, RecordParser};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3_arrow::{PyArray, PyRecordBatch, PySchema};
use tfr_stores::LocationText;
use tfrecord_shards::Manifest;
use tfrecord_sidecars::{SchemaForm, TableDescription};

use crate::error::{Failure, Result, chain};
use crate::loader::PyDataSet;
use crate::signals::interruptible;
use crate::stream::difference;

/// Number of files, intact records, their length in bytes, the length of the files, and the defects: path and text.
type Verified = (u64, u64, u64, u64, Vec<(PathBuf, String)>);

/// Reads the files at `paths` completely and returns every defect.
#[pyfunction]
#[pyo3(signature = (paths, *, threads=None))]
pub(crate) fn verify(py: Python<'_>, paths: Vec<PathBuf>, threads: Option<usize>) -> PyResult<Verified> {
    let verified = interruptible(py, |progress| {
        // A pool of its own: that of the process would not survive a fork.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.unwrap_or(0)).build();
        let pool = pool.map_err(|error| Failure::other(format!("cannot start threads: {error}")))?;
        Ok(pool.install(|| tfrecord_shards::verify(&paths, progress))?)
    })?;
    let findings = verified.findings.iter().map(|finding| (finding.path.clone(), finding.to_string())).collect();
    Ok((verified.files, verified.records, verified.framed_bytes, verified.file_bytes, findings))
}

/// Returns the manifest of the set in a directory, as JSON.
#[pyfunction]
pub(crate) fn manifest(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let json = py.detach(|| -> Result<_> { Ok(Manifest::read(&path)?.to_json()?) })?;
    Ok(String::from_utf8_lossy(&json).into_owned())
}

/// Returns a path or URL for a message, without what may be a secret: a user or a query.
#[pyfunction]
pub(crate) fn shown(location: &str) -> String {
    LocationText::from(location).to_string()
}

/// Describes the columns of a data set in one of the forms of `tfr-sql schema --as`.
#[pyfunction]
pub(crate) fn describe(data: &PyDataSet, location: &str, form: &str) -> PyResult<String> {
    let form: SchemaForm = form.parse().map_err(|error| Failure::usage(format!("{error}")))?;
    let mapping = Mapping::try_new(&data.0.schema, &data.0.mapping.clone().with_strict(false));
    let mapping = mapping.map_err(|error| Failure::usage(chain(&error)))?;
    let rendered = TableDescription::new(&mapping, location).render(form);
    Ok(rendered.map_err(|error| Failure::usage(chain(&error)))?)
}

/// Converts record batches to `tf.train.Example` records.
#[pyclass(name = "Encoder", module = "tfr_sql._native", frozen)]
pub(crate) struct PyEncoder {
    encoder: Encoder,
    schema: SchemaRef,
}

#[pymethods]
impl PyEncoder {
    /// Creates an encoder of batches with the columns of `schema`: anything with `__arrow_c_schema__`.
    #[new]
    fn new(schema: PySchema) -> PyResult<Self> {
        let schema = schema.into_inner();
        Ok(Self { encoder: Encoder::new(Arc::new(mapping(&schema)?)), schema })
    }

    /// Returns the rows of a batch as framed records: the content of a TFRecord file.
    fn encode<'py>(&self, py: Python<'py>, batch: PyRecordBatch) -> PyResult<Bound<'py, PyBytes>> {
        let batch = self.checked(batch)?;
        let records = py.detach(|| -> Result<RecordBuffer> {
            let mut records = RecordBuffer::default();
            self.encoder.encode(&batch, &mut records).map_err(tfrecord_shards::Error::from)?;
            Ok(records)
        })?;
        Ok(PyBytes::new(py, records.bytes()))
    }

    /// Returns the rows of a batch as an Arrow array of serialized messages, without frames.
    fn serialize<'py>(&self, py: Python<'py>, batch: PyRecordBatch) -> PyResult<Bound<'py, PyAny>> {
        let rows = StructArray::from(self.checked(batch)?);
        let records = py
            .detach(|| self.encoder.serialize(&rows))
            .map_err(|error| Failure::from(tfrecord_shards::Error::from(error)))?;
        let field = Field::new("record", records.data_type().clone(), true);
        Ok(PyArray::new(Arc::new(records), Arc::new(field)).into_pyobject(py)?.into_any())
    }
}

impl PyEncoder {
    /// Refuses a batch whose columns have other names: the encoder goes by position.
    fn checked(&self, batch: PyRecordBatch) -> Result<RecordBatch> {
        let batch = batch.into_inner();
        let schema = batch.schema();
        let names = |schema: &Schema| schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
        let (expected, found) = (names(&self.schema), names(&schema));
        if expected != found {
            return Err(Failure::usage(format!("expected the columns {expected:?}, found {found:?}"))
                .with_hint("Select the columns by name, in the order of the schema."));
        }
        match difference(&self.schema, &schema) {
            Some(difference) => Err(Failure::usage(difference)),
            None => Ok(batch),
        }
    }
}

/// Converts `tf.train.Example` records to record batches.
#[pyclass(name = "Decoder", module = "tfr_sql._native", frozen)]
pub(crate) struct PyDecoder(Mutex<RecordParser>);

#[pymethods]
impl PyDecoder {
    /// Creates a decoder of records with the columns of `schema`: anything with `__arrow_c_schema__`.
    #[new]
    fn new(schema: PySchema) -> PyResult<Self> {
        let parser =
            RecordParser::try_new(&mapping(&schema.into_inner())?).map_err(|error| Failure::usage(chain(&error)))?;
        Ok(Self(Mutex::new(parser)))
    }

    /// Returns the columns of an Arrow array of serialized messages, without frames.
    fn parse<'py>(&self, py: Python<'py>, records: PyArray) -> PyResult<Bound<'py, PyAny>> {
        let (records, _) = records.into_inner();
        let rows = py.detach(|| -> Result<StructArray> {
            if records.null_count() > 0 {
                return Err(Failure::usage("a null among the records, expected a message".to_owned()));
            }
            let mut parser = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            parser.parse(&records).map_err(|error| Failure::message(&error))
        })?;
        Ok(PyRecordBatch::new(RecordBatch::from(rows)).into_pyobject(py)?.into_any())
    }
}

fn mapping(schema: &SchemaRef) -> Result<Mapping> {
    let options = MappingOptions::default();
    Mapping::try_new(schema, &options).map_err(|error| Failure::usage(chain(&error)))
}
