//! A session configured like the command's, and tables over files in a scratch directory.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use tfr_formats::TableSpec;

/// Creates a session with paths as tables and our table factories, with `partitions` partitions.
pub fn session(partitions: usize) -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(partitions);
    config.options_mut().execution.enable_file_stream_work_stealing = false;
    let builder = SessionStateBuilder::new().with_config(config).with_default_features();
    let ctx = SessionContext::new_with_state(tfr_engine::exact(builder).build());
    let state = ctx.state_weak_ref();
    let session: tfr_formats::CurrentSession =
        Arc::new(move || state.upgrade().map(|state| Arc::new(state.read().clone()) as Arc<dyn Session>));
    let catalogs = tfr_formats::paths_as_tables(Arc::clone(ctx.state().catalog_list()), session);
    ctx.register_catalog_list(catalogs);
    for format in tfr_formats::STORED_AS {
        let factories = ctx.state_ref();
        factories.write().table_factories_mut().insert((*format).to_owned(), tfr_formats::table_factory());
    }
    ctx
}

/// Opens `t=<spec>` and reads all of it, in file order.
pub async fn read(spec: &str) -> Result<Vec<RecordBatch>> {
    let ctx = session(1);
    let spec: TableSpec = format!("t={spec}").parse()?;
    let table = tfr_formats::open_table(&ctx.state(), &spec).await?;
    ctx.read_table(table as Arc<dyn TableProvider>)?.collect().await
}

/// Returns the rows of `query`, each cell as text.
pub async fn rows(query: &str) -> Result<Vec<Vec<String>>> {
    let batches = session(2).sql(query).await?.collect().await?;
    texts(&batches)
}

/// Returns every cell as text; null is `NULL`.
pub fn texts(batches: &[RecordBatch]) -> Result<Vec<Vec<String>>> {
    use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
    let options = FormatOptions::new().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            rows.push(columns.iter().map(|column| column.value(row).to_string()).collect());
        }
    }
    Ok(rows)
}

pub fn row_count(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// Writes files under `dir`, creating directories as needed.
pub fn write(dir: &Path, files: &[(&str, &[u8])]) -> std::io::Result<()> {
    for (name, content) in files {
        let path = dir.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, content)?;
    }
    Ok(())
}

/// Formats an error with all its causes, as the command prints it.
pub fn chain(error: &DataFusionError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let message = cause.to_string();
        if !text.ends_with(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        source = cause.source();
    }
    text
}
