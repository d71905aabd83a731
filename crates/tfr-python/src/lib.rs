//! The native module `tfr_sql._native`: what the Python package does in its own process.
//!
//! Python code in `python/tfr_sql` has the public classes and checks; this module has what must be fast. It does not
//! contain the query engine.

mod bounds;
mod buckets;
mod cache;
mod columns;
mod dataset;
mod error;
mod feed;
mod files;
mod framing;
mod listing;
mod loader;
mod order;
mod plan;
mod produce;
mod records;
mod segment;
mod signals;
mod stream;
mod tools;
mod values;
mod write_job;

use pyo3::prelude::*;

/// What the Python package does in its own process.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::loader::{PyBatches, PyDataSet, PyPlan};
    #[pymodule_export]
    use crate::records::{PyRecords, PyScanner};
    #[pymodule_export]
    use crate::stream::{PyBatchReader, PyRowReader, PyRows, PyStreamEncoder};
    #[pymodule_export]
    use crate::tools::{PyDecoder, PyEncoder, describe, manifest, shown, verify};
    #[pymodule_export]
    use crate::write_job::{PyTaskWriter, PyWriteJob};
}
