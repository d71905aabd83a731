//! [`open`]: from locations to a table.

use std::sync::Arc;

use arrow_schema::Schema;
use arrow_tfrecord::ReaderBuilder;
use datafusion_common::stats::Precision;
use datafusion_common::{Result, Statistics};
use datafusion_datasource::FileExtensions;
use datafusion_session::Session;
use object_store::ObjectMeta;

use super::known::KnownFile;
use super::options::ReadOptions;
use super::source::RecordForm;
use super::{sets, types};
use crate::directory::{DirectoryTable, Location};
use crate::error::encode_error;
use crate::format::TfRecordFormat;

/// Opens the TFRecord files at `locations` as one table.
///
/// ```
/// # use datafusion::prelude::SessionContext;
/// use datafusion_tfrecord::directory::Location;
/// use datafusion_tfrecord::{ReadOptions, read};
///
/// # async fn register(ctx: &SessionContext) -> datafusion::error::Result<()> {
/// let table = read::open(&ctx.state(), &[Location::parse("shards/")?], &ReadOptions::default()).await?;
/// ctx.register_table("clicks", table)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// - Those of [`Listing::list`](crate::directory::Listing::list).
/// - A set of shards is not whole: [`ErrorKind::IncompleteSet`](crate::ErrorKind::IncompleteSet).
/// - Records that were to tell the columns are damaged or contradict each other, or there are none.
/// - A column of a type that no feature holds.
pub async fn open(session: &dyn Session, locations: &[Location], options: &ReadOptions) -> Result<Arc<DirectoryTable>> {
    let mut files = sets::find(session, locations).await?;
    let types = types::settle(session, locations, &mut files, options).await?;
    let form = RecordForm {
        mapping: types.mapping,
        inferred: types.inferred,
        origin: types.origin,
        ..RecordForm::of(options)
    };
    let format = TfRecordFormat::of_records(form.clone(), files.listing.names().clone());
    let table = DirectoryTable::with_schema(files.listing, Arc::new(format), &types.schema);
    let file_schema = table.file_schema();
    // What cannot be read at all is refused before anything is.
    ReaderBuilder::new(Arc::clone(file_schema)).with_mapping(form.mapping).build_decoder().map_err(encode_error)?;
    let sizes = table.listing().files();
    let statistics = sizes.iter().zip(&files.known).map(|(file, known)| statistics(file, known.as_ref(), file_schema));
    let statistics = statistics.collect();
    let extensions = files.known.into_iter().map(|known| {
        let mut extensions = FileExtensions::new();
        if let Some(known) = known {
            extensions.insert(known);
        }
        extensions
    });
    let extensions = extensions.collect();
    Ok(Arc::new(table.with_known_files(statistics, extensions)))
}

/// What is known of the rows of a file: their number, if a manifest tells, and about how many bytes they are.
fn statistics(file: &ObjectMeta, known: Option<&KnownFile>, schema: &Schema) -> Statistics {
    let exact = |rows: u64| usize::try_from(rows).map_or(Precision::Absent, Precision::Exact);
    let about = |bytes: u64| usize::try_from(bytes).map_or(Precision::Absent, Precision::Inexact);
    let end = known.and_then(|known| known.end);
    Statistics {
        num_rows: end.map_or(Precision::Absent, |end| exact(end.record)),
        total_byte_size: about(end.map_or(file.size, |end| end.byte)),
        ..Statistics::new_unknown(schema)
    }
}
