//! `schema`: prints the columns of a table, as a query would see them, in a choice of renderings.

use arrow_tfrecord::Mapping;
use chrono::Utc;
use datafusion::datasource::TableProvider as _;
use datafusion::error::DataFusionError;
use tfr_files::unreadable;
use tfr_formats::open_locations;
use tfr_stores::{LocationText, threads};
use tfrecord_framing::Container;
use tfrecord_sidecars::TableDescription;

use crate::cli::{Resources, SchemaArgs};
use crate::error::{Error, Result};
use crate::exit::ExitStatus;
use crate::origin;
use crate::query::input_options;
use crate::session::{self, Limits};
use crate::spill::SpillDirectory;
use crate::tool::Work;

/// A comment for a statement or module whose location has had its secrets removed.
const FILL_IN: &str =
    "*** replaces the user, the password or the query of the URL, which are not printed: fill them in";

/// Opens the table and prints its columns.
pub fn print(args: &SchemaArgs, work: Work<'_>) -> Result<ExitStatus> {
    let limits = Limits::new(&Resources { threads: None, partitions: None, memory_limit: None, temp_dir: None })?;
    let spill = SpillDirectory::none();
    let context = session::open(limits, &spill, args.stores.options(&work.door), Utc::now(), work.interrupt.stop())?;
    let runtime = threads::start("schema", limits.threads.get(), session::WORKER_STACK)
        .map_err(|source| Error::Start { what: "the threads that read", source })?;
    let (state, mut options) = (context.state(), input_options(&args.inference));
    for (key, value) in &args.options {
        options.set(key, value).map_err(DataFusionError::from)?;
    }
    let table = runtime.block_on(async {
        tokio::select! {
            table = open_locations(&state, &args.paths, &options, None) => table.map(Ok),
            status = work.interrupt.received() => Ok(Err(status)),
        }
    });
    // After a signal, files may still be in use.
    threads::end(runtime);
    let table = match table? {
        Ok(table) => table,
        Err(status) => return Ok(status),
    };
    let schema = table.schema();
    let unreadable = schema.fields().iter().filter_map(|field| Some((field.name(), unreadable(field)?)));
    for (column, reason) in unreadable {
        work.printer.note(format!("column \"{column}\" cannot be read: {reason} is not supported"));
    }
    let form = origin::records_form(&table);
    let mapping = Mapping::try_new(&schema, &form.map(|form| form.mapping.clone()).unwrap_or_default())?;
    let shown: Vec<_> = args.paths.iter().map(LocationText::to_string).collect();
    let mut description = TableDescription::new(&mapping, shown.join(" "));
    if args.paths.iter().any(LocationText::hides_secrets) {
        description = description.with_note(FILL_IN);
    }
    // Of TFRecord, the Python module detects the compression, which may differ.
    if form.and_then(|form| form.found) == Some(Container::ArrayRecord) {
        description = description.with_container(Container::ArrayRecord);
    }
    let text = description.render(args.form)?;
    work.printer.data(text.as_bytes()).map_err(Error::Stdout)?;
    work.printer.note(format!("types from {}", origin::types_source(form)));
    Ok(ExitStatus::Done)
}
