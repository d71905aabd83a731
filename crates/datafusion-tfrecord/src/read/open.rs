//! [`open`]: opens the files at some locations as a table.

use std::sync::Arc;

use arrow_schema::Schema;
use arrow_tfrecord::ReaderBuilder;
use datafusion_common::stats::Precision;
use datafusion_common::{Result, Statistics};
use datafusion_datasource::FileExtensions;
use datafusion_session::Session;
use object_store::ObjectMeta;

use super::files::{RecordFiles, RecordForm};
use super::known::KnownFile;
use super::options::ReadOptions;
use super::{footers, sets, types};
use crate::error::ErrorKind;
use crate::format::TfRecordFormat;
use tfr_files::{DirectoryTable, Findings, UsedColumns};
use tfr_stores::{FileNames, Location};

/// Opens the TFRecord or ArrayRecord files at `locations` as one table.
///
/// ```
/// # use datafusion::prelude::SessionContext;
/// use tfr_stores::Location;
/// use datafusion_tfrecord::{ReadOptions, read};
///
/// # async fn register(ctx: &SessionContext) -> Result<(), Box<dyn std::error::Error>> {
/// let table = read::open(&ctx.state(), &[Location::parse("shards/")?], &ReadOptions::default()).await?;
/// ctx.register_table("clicks", table)?;
/// # Ok(())
/// # }
/// ```
///
/// # Trust in manifests
/// The manifest is trusted for files of the size that it specifies. `count(*)` thus reads no file, and a `LIMIT`
/// skips files that it does not need. A shard that was replaced by another file of the same size is detected when it
/// is read, or by [`tfrecord_shards::verify`](fn@tfrecord_shards::verify), but not when its rows are counted.
///
/// # Errors
/// - Those of [`Listing::list`](tfr_files::Listing::list) and
///   [`Listing::with_partition_types`](tfr_files::Listing::with_partition_types).
/// - A shard set is incomplete: [`ErrorKind::IncompleteSet`].
/// - An ArrayRecord file has no intact footer.
/// - The columns are to be inferred, but records are damaged or contradict each other, or there are none.
/// - Damaged records are to be skipped, but the session is strict: [`ErrorKind::SkipsDamagedStrictly`].
/// - A manifest lists some of the files, but not all: [`ErrorKind::StrayFile`].
/// - No file is of the split: [`ErrorKind::Refused`].
/// - A column is declared in another unit than it was written in: [`ErrorKind::DeclaredUnit`].
/// - A column of [`ReadOptions::types`] does not exist: [`ErrorKind::NoColumn`].
/// - A declared column is in no manifest: [`ErrorKind::UnknownColumn`]; or the first records have it in another
///   place: [`ErrorKind::ElsewhereInRecords`].
/// - A manifest cannot be read, and the columns are not declared: [`ErrorKind::UnreadableManifest`].
/// - A column has a type that no feature supports, or a row of more than 256 MiB even if it is null.
pub async fn open(session: &dyn Session, locations: &[Location], options: &ReadOptions) -> Result<Arc<DirectoryTable>> {
    let mut files = sets::find(session, locations, options).await?;
    for declared in options.schema.iter().chain(&options.partition_types) {
        files.listing = files.listing.with_partition_types(declared)?;
    }
    if options.skips_damaged && Findings::of(session.config()).is_some_and(|findings| findings.is_strict()) {
        return Err(ErrorKind::SkipsDamagedStrictly.into());
    }
    let types = types::settle(session, locations, &mut files, options).await?;
    // Past damage, a file has fewer records, and its footer may be damaged, too.
    if !options.skips_damaged {
        footers::count(session, &mut files, options).await?;
    }
    let found = files.known.iter().flatten().find_map(|known| known.container);
    let form = RecordForm {
        found: options.container.or(found),
        mapping: types.mapping,
        decoded: types.decoded,
        inferred: types.inferred,
        origin: types.origin,
        ..RecordForm::of(options)
    };
    let format = format_of(session, files.listing.names().clone(), form.clone());
    let table = DirectoryTable::with_schema(files.listing, Arc::new(format), &types.schema);
    let file_schema = table.file_schema();
    // Reject unsupported columns before reading. Columns that a query does not use are fine.
    let decoded = form.decoded.as_ref().unwrap_or(file_schema);
    let decoder = ReaderBuilder::new(Arc::clone(decoded)).with_mapping(form.mapping).with_projection(Vec::new());
    decoder.build_decoder().map_err(|error| ErrorKind::Columns { error })?;
    let sizes = table.listing().files();
    // A file with damage has fewer rows than its manifest lists.
    let statistics = sizes
        .iter()
        .zip(&files.known)
        .map(|(file, known)| statistics(file, known.as_ref().filter(|_| !options.skips_damaged), file_schema));
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

/// Returns the format of files of this form.
pub(super) fn format_of(session: &dyn Session, names: FileNames, form: RecordForm) -> TfRecordFormat {
    TfRecordFormat::of_files(RecordFiles {
        names,
        options: ReadOptions::default(),
        unknown_features: form.inferred.then(|| unknown_features(session)).flatten(),
        damage: Findings::of(session.config()),
        form,
    })
}

/// Returns what collects the features that are no columns. A query that names all columns that it uses loses none.
fn unknown_features(session: &dyn Session) -> Option<Arc<Findings>> {
    match session.config().get_extension::<UsedColumns>() {
        Some(_) => None,
        None => Findings::of(session.config()),
    }
}

/// Returns the known statistics of a file: the number of rows, if a manifest specifies it, and their approximate
/// bytes.
fn statistics(file: &ObjectMeta, known: Option<&KnownFile>, schema: &Schema) -> Statistics {
    let exact = |rows: u64| usize::try_from(rows).map_or(Precision::Absent, Precision::Exact);
    let about = |bytes: u64| usize::try_from(bytes).map_or(Precision::Absent, Precision::Inexact);
    let end = known.and_then(|known| known.end);
    let rows = end.map_or(Precision::Absent, |end| exact(end.record));
    Statistics {
        num_rows: if known.is_some_and(|known| known.is_counted) { rows } else { rows.to_inexact() },
        total_byte_size: about(end.map_or(file.size, |end| end.byte)),
        ..Statistics::new_unknown(schema)
    }
}
