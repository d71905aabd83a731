//! `write_set`: writes Arrow data as a shard set, without the query engine.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3_arrow::input::AnyRecordBatch;
use tfrecord_framing::{Compression, Level};
use tfrecord_shards::{SaveMode, ShardedWriterBuilder, Sharding};

use crate::error::{Failure, Result};

/// Writes the rows of `data` to a new shard set in the directory `out`, all or nothing. Returns the manifest as JSON.
///
/// `data` is anything with `__arrow_c_stream__` or `__arrow_c_array__`.
#[pyfunction]
#[pyo3(signature = (data, out, *, shards=None, shard_rows=None, compression=None, shuffle=None, overwrite=false))]
#[allow(clippy::too_many_arguments, reason = "keyword arguments")]
pub(crate) fn write_set(
    py: Python<'_>,
    data: AnyRecordBatch,
    out: PathBuf,
    shards: Option<usize>,
    shard_rows: Option<u64>,
    compression: Option<&str>,
    shuffle: Option<u64>,
    overwrite: bool,
) -> PyResult<String> {
    let mut builder = ShardedWriterBuilder::new(data.schema()?);
    match (shards.map(NonZeroUsize::new), shard_rows) {
        (Some(_), Some(_)) => return Err(Failure::usage("expected shards or shard_rows, found both".to_owned()).into()),
        (Some(None), _) | (_, Some(0)) => {
            return Err(Failure::usage("shards or shard_rows is 0, expected at least 1".to_owned()).into());
        }
        (Some(Some(shards)), None) => builder = builder.with_sharding(Sharding::Count(shards)),
        (None, Some(rows)) => builder = builder.with_sharding(Sharding::Rows(rows)),
        (None, None) => {}
    }
    if let Some(name) = compression {
        let compression: Compression = name.parse().map_err(|error| Failure::usage(format!("{error}")))?;
        builder = builder.with_compression(compression, Level::default());
    }
    if let Some(seed) = shuffle {
        builder = builder.with_shuffle(seed);
    }
    if overwrite {
        builder = builder.with_mode(SaveMode::Overwrite);
    }
    let reader = data.into_reader()?;
    let json = py.detach(|| -> Result<Vec<u8>> {
        let mut writer = builder.build(&out)?;
        for batch in reader {
            let batch = batch.map_err(|error| Failure::other(format!("the data cannot be read: {error}")))?;
            writer.write(&batch)?;
        }
        Ok(writer.finish()?.to_json()?)
    })?;
    Ok(String::from_utf8_lossy(&json).into_owned())
}
