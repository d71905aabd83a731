//! A session with our registrations, as the command has it, in the test's own process.

use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use tfr_files::FilesFunction;
use tfr_formats::{InputOptions, TableSpec};

/// A session in which a path in quotes is a table.
pub fn open(config: SessionConfig) -> SessionContext {
    open_in(config, Arc::default())
}

/// As [`open`], with the memory and the disks of `runtime`.
pub fn open_in(config: SessionConfig, runtime: Arc<RuntimeEnv>) -> SessionContext {
    let builder = SessionStateBuilder::new().with_config(datafusion_tfrecord::reproducible(config));
    with_tables(tfr_engine::exact(builder.with_runtime_env(runtime).with_default_features()).build())
}

/// As [`open`], without the corrections of `tfr-engine`.
pub fn open_plain(config: SessionConfig) -> SessionContext {
    let builder = SessionStateBuilder::new().with_config(datafusion_tfrecord::reproducible(config));
    with_tables(builder.with_default_features().build())
}

fn with_tables(mut state: SessionState) -> SessionContext {
    state.register_file_format(Arc::new(datafusion_tfrecord::TfRecordFormatFactory), true).unwrap();
    for format in tfr_formats::STORED_AS {
        state.table_factories_mut().insert((*format).to_owned(), tfr_formats::table_factory());
    }
    datafusion_tfrecord::functions::register(&mut state).unwrap();
    state.register_udtf(FilesFunction::NAME, Arc::new(FilesFunction::default()));
    let context = SessionContext::new_with_state(state);
    let state = context.state_weak_ref();
    let catalogs = tfr_formats::paths_as_tables(
        Arc::clone(context.state().catalog_list()),
        Arc::new(move || state.upgrade().map(|state| Arc::new(state.read().clone()) as Arc<dyn Session>)),
    );
    context.register_catalog_list(catalogs);
    context
}

/// A session with the settings of the command.
pub fn of_command(threads: usize) -> SessionContext {
    open(settings(threads))
}

/// The settings of the command.
pub fn settings(threads: usize) -> SessionConfig {
    let mut config = SessionConfig::new().with_target_partitions(threads);
    config.options_mut().sql_parser.enable_ident_normalization = false;
    config
}

/// `SELECT *` from a file or directory.
pub async fn select_all(context: &SessionContext, location: &Path) -> Result<RecordBatch> {
    let locations = [location.display().to_string().into()];
    let table = tfr_formats::open_locations(&context.state(), &locations, &InputOptions::default(), None).await?;
    rows(context, table).await
}

/// `SELECT *` from a file or directory with declared columns.
pub async fn select_declared(context: &SessionContext, location: &Path, columns: SchemaRef) -> Result<RecordBatch> {
    let locations = [location.display().to_string().into()];
    let options = InputOptions::default();
    rows(context, tfr_formats::open_locations(&context.state(), &locations, &options, Some(columns)).await?).await
}

/// `SELECT *` from what `--table` names.
pub async fn select_all_of(context: &SessionContext, table: &str) -> Result<RecordBatch> {
    let spec: TableSpec = table.parse().map_err(datafusion::common::DataFusionError::from)?;
    rows(context, tfr_formats::open_table(&context.state(), &spec).await?).await
}

async fn rows(context: &SessionContext, table: Arc<dyn TableProvider>) -> Result<RecordBatch> {
    let rows = context.read_table(table)?;
    let schema = Arc::clone(rows.schema().inner());
    // One partition after the other: the order of the rows is that of the files.
    let partitions = rows.collect_partitioned().await?;
    Ok(concat_batches(&schema, partitions.iter().flatten())?)
}
