//! `schema`: the columns of a table, as a query would see them, in the words of your choice.

use arrow_tfrecord::Mapping;
use datafusion::datasource::TableProvider as _;
use datafusion_tfrecord::TfRecordFormat;
use datafusion_tfrecord::directory::DirectoryTable;
use datafusion_tfrecord::read::{ColumnOrigin, RecordForm};
use tfr_inputs::open_locations;
use tfrecord_sidecars::TableDescription;
use tokio::runtime;

use crate::cli::{Resources, SchemaArgs};
use crate::error::{Error, Result};
use crate::exit::ExitStatus;
use crate::printer::counted;
use crate::query::input_options;
use crate::session::{self, Limits};
use crate::spill::SpillDirectory;
use crate::tool::Work;

/// Opens the table and prints its columns.
pub fn print(args: &SchemaArgs, mut work: Work<'_>) -> Result<ExitStatus> {
    let limits = Limits::new(&Resources { threads: None, memory_limit: None, temp_dir: None })?;
    let spill = SpillDirectory::create(None)?;
    let context = session::open(limits, spill.path())?;
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(limits.threads.get())
        .enable_all()
        .build()
        .map_err(|source| Error::Start { what: "the threads that read", source })?;
    let (state, options) = (context.state(), input_options(&args.inference));
    let table = runtime.block_on(async {
        tokio::select! {
            table = open_locations(&state, &args.paths, &options, None) => table.map(Ok),
            status = work.interrupt.received() => Ok(Err(status)),
        }
    });
    // After a signal, files are still being read.
    runtime.shutdown_background();
    let table = match table? {
        Ok(table) => table,
        Err(status) => return Ok(status),
    };
    let form = records_form(&table);
    let mapping = Mapping::try_new(&table.schema(), &form.map(|form| form.mapping.clone()).unwrap_or_default())?;
    let text = TableDescription::new(&mapping, args.paths.join(" ")).render(args.form)?;
    work.printer.data(text.as_bytes()).map_err(Error::Stdout)?;
    work.printer.note(format!("types from {}", origin(form)));
    Ok(ExitStatus::Done)
}

/// How rows stand in the files, if these are TFRecord files.
fn records_form(table: &DirectoryTable) -> Option<&RecordForm> {
    table.format().downcast_ref::<TfRecordFormat>().map(TfRecordFormat::form)
}

/// What told the types.
fn origin(form: Option<&RecordForm>) -> String {
    match form.map(|form| &form.origin) {
        Some(ColumnOrigin::Manifest) => "the manifest".to_owned(),
        Some(ColumnOrigin::SchemaFile { file }) => file.clone(),
        Some(ColumnOrigin::Records { looked_into, files }) if looked_into < files => {
            format!("records of {looked_into} of {files} files: --infer-files all looks into every one")
        }
        Some(ColumnOrigin::Records { files, .. }) => format!("records of {}", counted(*files as u64, "file")),
        _ => "the files".to_owned(),
    }
}
