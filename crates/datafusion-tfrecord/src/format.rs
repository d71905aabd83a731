//! [`TfRecordFormat`]: TFRecord as a file format of DataFusion.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion_common::parsers::CompressionTypeVariant;
use datafusion_common::{GetExt, Result, Statistics};
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_compression_type::FileCompressionType;
use datafusion_datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion_datasource::file_scan_config::{FileScanConfig, FileScanConfigBuilder};
use datafusion_datasource::file_sink_config::FileSinkConfig;
use datafusion_datasource::source::DataSourceExec;
use datafusion_datasource::table_schema::TableSchema;
use datafusion_physical_expr_common::sort_expr::LexRequirement;
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::sorts::sort::SortExec;
use datafusion_physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion_session::Session;
use object_store::{ObjectMeta, ObjectStore};
use tfrecord_framing::Compression;

use crate::error::ErrorKind;
use crate::options::sql;
use crate::read::{RecordFiles, RecordForm};
use crate::write::{WriteOptions, WriteTarget, plan_write};
use tfr_files::{FileReader, GuardedSource, ReaderFormat};
use tfr_stores::FileNames;

/// The file extension, which is also the format's name in SQL.
const EXTENSION: &str = "tfrecord";

/// Registers TFRecord with a session, for `STORED AS TFRECORD`.
///
/// ```
/// use std::sync::Arc;
/// use datafusion::execution::SessionStateBuilder;
/// use datafusion::prelude::SessionContext;
/// use datafusion_tfrecord::TfRecordFormatFactory;
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let out = dir.path().join("shards");
/// let mut state = SessionStateBuilder::new().with_default_features().build();
/// state.register_file_format(Arc::new(TfRecordFormatFactory), true)?;
/// let session = SessionContext::new_with_state(state);
/// let copy = format!(
///     "COPY (VALUES (1, 'cat'), (2, 'dog')) TO '{}' STORED AS TFRECORD OPTIONS ('tfrecord.shards' '2')",
///     out.display()
/// );
/// session.sql(&copy).await?.collect().await?;
/// assert!(out.join("part-00001-of-00002.tfrecord").exists());
/// # Ok(())
/// # }
/// ```
///
/// The target is a directory, local or in an object store. Options of `COPY`:
///
/// | option | value | default |
/// |---|---|---|
/// | `tfrecord.shards` | the exact number of shards of each split, or of individual splits: `train=256, val=16` | |
/// | `tfrecord.shard_size` | maximum framed bytes per shard: `64MiB`, `1000000` | `128MiB` |
/// | `tfrecord.shard_rows` | maximum rows per shard | |
/// | `tfrecord.hosts` | number of reading hosts: 10 shards per host, of at least 100 MiB each | |
/// | `tfrecord.shuffle` | `true` shuffles all rows | `false` |
/// | `tfrecord.seed` | seed of the shuffle | `0` |
/// | `tfrecord.split` | splits and their fractions of the keys: `train=0.9, val=0.1`; or exact numbers of shuffled rows: `train=rest, val=200rows` | |
/// | `tfrecord.split_by` | the key columns: `user, day` | the whole record |
/// | `tfrecord.split_column` | the column whose values are the names of the splits | |
/// | `tfrecord.partition_by` | columns whose values become directories; same as `PARTITIONED BY (day)` | |
/// | `tfrecord.keep_partition_columns` | `true` keeps the partition columns in the records | `false` |
/// | `tfrecord.prefix` | prefix of file names, unless there are splits | `part` |
/// | `tfrecord.compression` | `none`, `gzip`, `zlib` | `none` |
/// | `tfrecord.level` | 0 to 9 | `6` |
/// | `tfrecord.mode` | `error`, `overwrite`, `overwrite-partitions`, `append`, `ignore` | `error` |
/// | `tfrecord.add_columns` | `true` adds columns to the set that is appended to, null in its existing rows | `false` |
/// | `tfrecord.record_type` | `example`, `sequence-example`, `elwc`, `bytes` | `example` |
/// | `tfrecord.null` | `absent`, `unset`, `empty`, `error`, `mask`, `drop` | `absent` |
/// | `tfrecord.map` | rules for columns or parts of them: `price: string, id: wrap, null=mask` | |
/// | `tfrecord.sequence` | list columns whose elements are the steps of a sequence: `a, b` | |
/// | `tfrecord.separator` | separator between the name of a column and that of its part | `/` |
/// | `tfrecord.vocabulary` | the values of columns that are written as integers, in order: `label: cat, dog; "a, b": x, "y, z"` | |
/// | `tfrecord.strict` | `true` rejects columns that would lose information | `false` |
/// | `tfrecord.expected_rows` | the number of rows, for an ordered query with `tfrecord.shards` | |
///
/// Options of `CREATE EXTERNAL TABLE`, in addition to `tfrecord.record_type`, `null`, `map`, `sequence`, `separator` and
/// `vocabulary`, which specify how the records were written:
///
/// | option | value | default |
/// |---|---|---|
/// | `tfrecord.compression` | `auto`, `none`, `gzip`, `zlib` | detected from the content |
/// | `tfrecord.crc` | whether to verify checksums: `verify`, `skip` | `verify` |
/// | `tfrecord.damaged` | what to do at damaged records: `error`, `skip` | `error` |
/// | `tfrecord.infer_files` | number of files to infer the columns from, or `all` | `256` |
/// | `tfrecord.infer_records` | number of records of each of these files, or `all` | `1000` |
/// | `tfrecord.fixed_size_lists` | `true` infers lists of equal length as fixed-size lists | `false` |
///
/// Manifests are used by [`read::open`](crate::read::open()), but not by the engine's own listing.
#[derive(Debug, Default, Clone, Copy)]
pub struct TfRecordFormatFactory;

impl FileFormatFactory for TfRecordFormatFactory {
    fn create(&self, _: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        let (write, options) = sql::parse(options)?;
        let records = RecordFiles {
            form: RecordForm::of(&options),
            names: FileNames::default(),
            options,
            unknown_features: None,
            damage: None,
        };
        Ok(Arc::new(TfRecordFormat { write, records }))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(TfRecordFormat::of_files(RecordFiles::default()))
    }
}

impl GetExt for TfRecordFormatFactory {
    fn get_ext(&self) -> String {
        EXTENSION.to_owned()
    }
}

/// The TFRecord file format of DataFusion: reads files and writes shard sets.
#[derive(Debug)]
pub struct TfRecordFormat {
    /// Write options, except the target.
    write: WriteOptions,
    /// Read options.
    records: RecordFiles,
}

impl TfRecordFormat {
    /// Creates the format for these files.
    pub(crate) fn of_files(records: RecordFiles) -> Self {
        Self { write: WriteOptions::new(PathBuf::new()), records }
    }

    /// Returns the record format of the files that are read, and the source of their columns.
    pub fn form(&self) -> &RecordForm {
        &self.records.form
    }
}

#[async_trait]
impl FileFormat for TfRecordFormat {
    fn get_ext(&self) -> String {
        EXTENSION.to_owned()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        let compression = match compression.get_variant() {
            CompressionTypeVariant::UNCOMPRESSED => Compression::None,
            CompressionTypeVariant::GZIP => Compression::Gzip,
            _ => {
                let what = "compression other than gzip and zlib";
                return Err(ErrorKind::Unsupported { what, instead: "set 'tfrecord.compression'" }.into());
            }
        };
        Ok(format!("{EXTENSION}{}", compression.suffix()))
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        match self.write.compression {
            Compression::None => Some(FileCompressionType::UNCOMPRESSED),
            Compression::Gzip => Some(FileCompressionType::GZIP),
            // Not supported by the engine.
            Compression::Zlib => None,
        }
    }

    async fn infer_schema(
        &self,
        session: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        self.records.schema(session, store, files).await
    }

    async fn infer_stats(
        &self,
        _: &dyn Session,
        _: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        _: &ObjectMeta,
    ) -> Result<Statistics> {
        Ok(Statistics::new_unknown(&schema))
    }

    async fn create_physical_plan(
        &self,
        session: &dyn Session,
        config: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let config = ReaderFormat::planned(session, config)?;
        let source = Arc::clone(config.file_source());
        let source = GuardedSource::new(source, self.records.names.clone()).with_all_filters();
        let config = FileScanConfigBuilder::from(config).with_source(Arc::new(source)).build();
        Ok(DataSourceExec::from_data_source(config))
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        session: &dyn Session,
        sink: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if sink.original_url.is_empty() {
            let instead = "use COPY (query) TO 'directory' STORED AS TFRECORD, and to add to a set OPTIONS ('tfrecord.mode' 'append')";
            return Err(ErrorKind::Unsupported { what: "INSERT INTO", instead }.into());
        }
        let mut options = WriteOptions {
            out: WriteTarget::parse(&sink.original_url)?,
            ordered: order.is_some() && is_sorted(&input),
            ..self.write.clone()
        };
        if !sink.table_partition_cols.is_empty() {
            if !options.partition_by.is_empty() {
                return Err(sql::excluding("tfrecord.partition_by", "PARTITIONED BY").into());
            }
            options.partition_by = sink.table_partition_cols.into_iter().map(|(column, _)| column).collect();
            options.keep_partition_columns |= sink.keep_partition_by_columns;
        }
        if options.keep_partition_columns && options.partition_by.is_empty() {
            let expected = "'tfrecord.partition_by' as well".to_owned();
            return Err(sql::invalid("tfrecord.keep_partition_columns", "true", expected).into());
        }
        Ok(plan_write(input, options, session)?)
    }

    fn file_source(&self, schema: TableSchema) -> Arc<dyn FileSource> {
        ReaderFormat::new(self.records.clone()).file_source(schema)
    }
}

/// Whether the query sorts its rows and nothing after the sort reorders them. An order that the engine merely infers
/// does not count: the user did not ask for it.
fn is_sorted(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if plan.is::<SortExec>() || plan.is::<SortPreservingMergeExec>() {
        return true;
    }
    match (plan.children().as_slice(), plan.maintains_input_order().as_slice()) {
        ([child], [true]) => is_sorted(child),
        _ => false,
    }
}
