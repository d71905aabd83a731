//! Files to read, and tables over them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_tfrecord::{ReadOptions, read, reproducible};
use prost::Message;
use tfr_proto::tensorflow::feature::Kind;
use tfr_proto::tensorflow::{
    BytesList, Example, Feature, FeatureList, FeatureLists, Features, FloatList, Int64List, SequenceExample,
};
use tfr_stores::Location;
use tfrecord_framing::{Compression, Level, RecordWriter};

pub(super) use super::super::support::external;

pub(super) fn int64s(values: &[i64]) -> Kind {
    Kind::Int64List(Int64List { value: values.to_vec() })
}

pub(super) fn floats(values: &[f32]) -> Kind {
    Kind::FloatList(FloatList { value: values.to_vec() })
}

pub(super) fn texts(values: &[&str]) -> Kind {
    Kind::BytesList(BytesList { value: values.iter().map(|value| value.as_bytes().to_vec()).collect() })
}

/// A serialized `tf.train.Example` with these features.
pub(super) fn example<const N: usize>(features: [(&str, Kind); N]) -> Vec<u8> {
    let feature = features.map(|(name, kind)| (name.to_owned(), Feature { kind: Some(kind) })).into_iter().collect();
    Example { features: Some(Features { feature }) }.encode_to_vec()
}

/// A serialized `tf.train.SequenceExample` with these features, and feature lists with these steps.
pub(super) fn sequence<const N: usize, const M: usize>(
    context: [(&str, Kind); N],
    lists: [(&str, Vec<Kind>); M],
) -> Vec<u8> {
    let feature = |kind: Kind| Feature { kind: Some(kind) };
    let context = context.map(|(name, kind)| (name.to_owned(), feature(kind))).into_iter().collect();
    let list = |steps: Vec<Kind>| FeatureList { feature: steps.into_iter().map(feature).collect() };
    let lists = lists.map(|(name, steps)| (name.to_owned(), list(steps))).into_iter().collect();
    let (context, lists) = (Features { feature: context }, FeatureLists { feature_list: lists });
    SequenceExample { context: Some(context), feature_lists: Some(lists) }.encode_to_vec()
}

/// Returns the messages logged since the last call, one per line. Tests of one process share them.
pub(super) fn warnings() -> String {
    let mut warnings: Vec<_> = WARNINGS.lock().map(|mut warnings| warnings.drain(..).collect()).unwrap_or_default();
    warnings.sort();
    warnings.join("\n")
}

/// Starts to record warnings.
pub(super) fn keep_warnings() {
    // Another test may have set it already.
    let _ = log::set_logger(&Log);
    log::set_max_level(log::LevelFilter::Warn);
    warnings();
}

static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Log;

impl log::Log for Log {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target().starts_with("datafusion_tfrecord")
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata())
            && let Ok(mut warnings) = WARNINGS.lock()
        {
            warnings.push(record.args().to_string());
        }
    }

    fn flush(&self) {}
}

/// Records with an `id` from `ids`, as many bytes long as `padding` says and a bit.
pub(super) fn examples(ids: std::ops::Range<i64>, padding: impl Fn(i64) -> usize) -> Vec<Vec<u8>> {
    ids.map(|id| {
        let text = "x".repeat(padding(id));
        example([("id", int64s(&[id])), ("text", texts(&[text.as_str()]))])
    })
    .collect()
}

pub(super) fn framed(records: &[Vec<u8>], compression: Compression) -> Result<Vec<u8>> {
    let mut writer = RecordWriter::with_compression(Vec::new(), compression, Level::default());
    for record in records {
        writer.write_record(record).map_err(external)?;
    }
    writer.finish().map_err(external)
}

/// Writes a file of records.
pub(super) fn write_records(path: &Path, records: &[Vec<u8>]) -> Result<PathBuf> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, framed(records, Compression::None)?)?;
    Ok(path.to_owned())
}

/// Creates a session whose scans are divided among this many partitions, however little there is to read.
pub(super) fn session(partitions: usize) -> SessionContext {
    let mut config = reproducible(SessionConfig::new().with_target_partitions(partitions));
    config.options_mut().optimizer.repartition_file_min_size = 1;
    SessionContext::new_with_config(config)
}

/// Creates a session with the files as table `r`.
pub(super) async fn opened(
    location: impl AsRef<Path>,
    options: &ReadOptions,
    partitions: usize,
) -> Result<SessionContext> {
    let context = session(partitions);
    let location = Location::parse(&location.as_ref().to_string_lossy()).map_err(external)?;
    context.register_table("r", read::open(&context.state(), &[location], options).await?)?;
    Ok(context)
}

/// Returns the rows of a query over the files as table `r`.
pub(super) async fn rows(location: impl AsRef<Path>, query: &str) -> Result<RecordBatch> {
    query_rows(&opened(location, &ReadOptions::default(), 1).await?, query).await
}

pub(super) async fn query_rows(context: &SessionContext, query: &str) -> Result<RecordBatch> {
    let frame = context.sql(query).await?;
    let schema = Arc::new(frame.schema().as_arrow().clone());
    Ok(concat_batches(&schema, &frame.collect().await?)?)
}

/// Formats the result of a query over the files, a table or an error, with `dir` as `DIR`.
pub(super) async fn shown(dir: &Path, location: impl AsRef<Path>, query: &str) -> String {
    shown_with(dir, location, query, &ReadOptions::default()).await
}

pub(super) async fn shown_with(dir: &Path, location: impl AsRef<Path>, query: &str, options: &ReadOptions) -> String {
    let answer = async { query_rows(&opened(location, options, 1).await?, query).await };
    let text = match answer.await {
        Ok(batch) => pretty_format_batches(&[batch]).expect("a table").to_string(),
        Err(error) => explained(&error),
    };
    text.replace(&dir.display().to_string(), "DIR")
}

/// Formats our error within the engine's wrappers, its causes, and the hint.
pub(super) fn explained(error: &DataFusionError) -> String {
    let mut text = String::new();
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        let is_wrapper = matches!(
            error.downcast_ref::<DataFusionError>(),
            Some(DataFusionError::External(_) | DataFusionError::Context(..) | DataFusionError::Shared(_))
        );
        if !is_wrapper {
            text.push_str(if text.is_empty() { "" } else { "\ncause: " });
            text.push_str(&error.to_string());
        }
        next = error.source();
    }
    text
}
