//! Prints the rows of a query.

use std::io;
use std::sync::Arc;

use datafusion::physical_plan::execute_stream;
use datafusion::prelude::SessionContext;
use futures::StreamExt as _;
use tokio::task::spawn_blocking;

use crate::cli::RowFormat;
use crate::error::{Error, Result};
use crate::printer::Printer;
use crate::progress::ShownProgress;
use crate::query::Query;
use crate::rows::RowWriter;
use crate::session;

/// Runs the query and prints its rows, by default as a table on a terminal and as CSV elsewhere.
pub async fn print(format: Option<RowFormat>, context: &SessionContext, query: Query, printer: &Printer) -> Result<()> {
    let format = format.unwrap_or_else(|| match printer.is_terminal() {
        true => RowFormat::Table,
        false => RowFormat::Csv,
    });
    if format == RowFormat::Arrow && printer.is_terminal() {
        return Err(Error::ArrowOnTerminal);
    }
    let mut progress = Some(ShownProgress::of_plan(printer, Arc::clone(&query.physical))?);
    let task = session::task_context(context, query.physical.as_ref());
    let mut batches = execute_stream(query.physical, task)?;
    let mut rows = RowWriter::new(format, batches.schema());
    let mut begin = Vec::new();
    rows.begin(&mut begin).map_err(Error::Format)?;
    if !begin.is_empty() {
        send(printer, begin).await?;
    }
    while let Some(batch) = batches.next().await {
        let mut text = Vec::new();
        rows.write(&batch?, &mut text).map_err(Error::Format)?;
        if !text.is_empty() {
            // From here on the rows themselves show progress, if they are text.
            if format != RowFormat::Arrow {
                progress = None;
            }
            send(printer, text).await?;
        }
    }
    drop(progress);
    for finding in session::findings(context).unreported() {
        printer.warning(finding);
    }
    let mut text = Vec::new();
    rows.finish(&mut text).map_err(Error::Format)?;
    send(printer, text).await?;
    if rows.rows() == 0 {
        printer.note("the query yields no rows");
    }
    Ok(())
}

/// Writes to standard output on its own thread, because a pipe may block for as long as its reader likes.
async fn send(printer: &Printer, text: Vec<u8>) -> Result<()> {
    let printer = printer.clone();
    let written = spawn_blocking(move || printer.data(&text)).await;
    written.unwrap_or_else(|stopped| Err(io::Error::other(stopped))).map_err(Error::Stdout)
}
