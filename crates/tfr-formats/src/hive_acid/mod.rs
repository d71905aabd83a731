//! Transactional tables of Apache Hive: directories of bases, deltas and deleted rows.
//!
//! The files do not record which transactions were committed. So what is read follows from write ids: those that a metastore
//! answers, or declared ones ([`WriteIds`]). `state` chooses directories by them, `roots` finds their files. Deleted rows,
//! which are recorded by ids, become positions in each file (`events`). A full transactional table becomes [`TableFiles`],
//! whose columns are found by position, as Hive does. The files of an insert-only table are listed, and read in any format.
//!
//! Whatever can be compared is: names of files and directories with the ids in them, the order of ids, codes of changes.

mod events;
mod names;
mod roots;
mod state;
pub(crate) mod write_ids;

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use datafusion_common::{Result, ScalarValue, plan_err};
use datafusion_session::Session;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use tfr_arrow::common_type::common_type;
use tfr_files::{
    AcidColumns, ColumnInFiles, ColumnsInFiles, DataFormat, DirectoryTable, FoundBy, Listing, PartitionColumns,
    TableFile, TableFiles, store_of, unreadable,
};
use tfr_stores::Location;

use crate::content::{Content, head};
use crate::error::{Error, TableError};
use crate::input_format::InputFormat;
use crate::names::NameMatching;
use crate::options::InputOptions;
use crate::orc::{self, AcidFooter as Footer};
use crate::table::{self, Place, types::parts_by_name};
use events::DeleteEvents;
use names::AcidName;
use roots::{AcidFile, Root, discover};

pub(crate) use write_ids::Transactions;
pub use write_ids::WriteIds;

/// What a table of this kind is in messages.
const A_TABLE: &str = "a transactional (ACID) Hive table";

/// What of a table is read.
#[derive(Debug, Clone)]
pub(crate) struct AcidSnapshot {
    /// The write ids that were committed.
    pub(crate) ids: WriteIds,
    /// The transactions that were committed; all if it is not known.
    pub(crate) transactions: Option<Transactions>,
}

/// A table, or the files of one.
pub(crate) enum Opened {
    /// A table of ORC files.
    Table(Arc<DirectoryTable>),
    /// The files of an insert-only table in another format, each of which has rows of the table only.
    Files(Box<Listing>),
}

/// Opens the table in the directory at `location`. `None` if no write ids are declared, and its directories are not those of
/// a table that needs none.
///
/// # Errors
/// - A directory or a file cannot be read, or is damaged.
/// - The write ids lack what a directory needs.
/// - The table has features that are not supported.
pub(crate) async fn open(
    session: &dyn Session,
    location: &Location,
    options: &InputOptions,
    schema: Option<SchemaRef>,
) -> Result<Option<Opened>> {
    let place = Arc::new(Place::of(session, location, A_TABLE)?);
    let snapshot = options.write_ids.clone().map(|ids| AcidSnapshot { ids, transactions: None });
    let roots = match find(&place, snapshot.as_ref()).await {
        Ok(roots) => roots,
        // The caller has an error for it.
        Err(_) if snapshot.is_none() => None,
        Err(error) => return Err(error),
    };
    let Some(roots) = roots else { return Ok(None) };
    let of_option = options.hive_text.columns.as_ref().map(|columns| Arc::new(columns.schema()));
    if of_option.is_some() && schema.is_some() {
        return plan_err!("the columns are declared twice: by the statement and by its option schema");
    }
    let directories: Vec<_> = roots.iter().map(|root| root.directory.clone()).collect();
    let typed: Vec<_> = schema.iter().chain(&options.partitions).map(SchemaRef::as_ref).collect();
    let known = typed.iter().flat_map(|schema| schema.fields()).map(|field| field.name().as_str());
    let partitions = PartitionColumns::of_directories(
        location.key(),
        &directories,
        known.chain(options.partition_names.iter().map(String::as_str)),
        &typed,
        |index| place.name(&directories[index]),
    )?;
    let declared = schema.clone().or_else(|| of_option.clone());
    if !is_orc(&roots, options).await? {
        let files = listed(&roots)?.into_iter().flatten().collect();
        let (store_url, store) = store_of(session, std::slice::from_ref(location))?;
        let listing = Listing::of_files(store_url, store, vec![(location, files)])?;
        return Ok(Some(Opened::Files(Box::new(listing))));
    }
    let values = (0..roots.len()).map(|index| partitions.values(index).to_vec()).collect();
    let source = Source { session, location, options, snapshot: snapshot.as_ref() };
    source.open(&roots, partitions.fields(), values, declared.as_deref()).await.map(Some)
}

/// The directories of a table whose partitions and write ids a metastore records.
pub(crate) struct Recorded(Vec<Root>);

impl Recorded {
    /// Finds the files of these directories.
    ///
    /// # Errors
    /// Same as [`open`].
    pub(crate) async fn find(session: &dyn Session, locations: &[Location], snapshot: &AcidSnapshot) -> Result<Self> {
        let find = |location: Location| async move {
            let place = Arc::new(Place::of(session, &location, A_TABLE)?);
            Root::find(place, location.key().clone(), Some(snapshot)).await
        };
        // Collected first: a closure over references is not general enough for the compiler inside a stream.
        let finds: Vec<BoxFuture<'_, Result<Option<Root>>>> =
            locations.iter().cloned().map(|location| find(location).boxed()).collect();
        let roots: Vec<Option<Root>> = futures::stream::iter(finds).buffered(roots::REQUESTS).try_collect().await?;
        Ok(Self(roots.into_iter().flatten().collect()))
    }

    /// Checks that nothing that was committed until now has replaced one of the directories before it was listed.
    ///
    /// # Errors
    /// It has, or a directory cannot be listed.
    pub(crate) async fn check_unchanged(&self, now: &AcidSnapshot) -> Result<()> {
        let checks: Vec<BoxFuture<'_, Result<()>>> =
            self.0.iter().map(|root| root.check_unchanged(now).boxed()).collect();
        futures::stream::iter(checks).buffered(roots::REQUESTS).try_collect().await
    }
}

/// Opens directories of a table whose columns, partitions and write ids a metastore records. `None` if they have no files.
///
/// # Errors
/// Same as [`open`].
pub(crate) async fn open_recorded(
    session: &dyn Session,
    locations: &[Location],
    Recorded(roots): Recorded,
    (fields, values): (&[FieldRef], Vec<Vec<ScalarValue>>),
    snapshot: &AcidSnapshot,
    options: &InputOptions,
    schema: &SchemaRef,
) -> Result<Option<Opened>> {
    let [location, ..] = locations else { return Ok(None) };
    // A directory that does not exist has a warning, or is an error.
    let absent = roots.iter().zip(locations).zip(&values).filter(|((root, _), _)| root.is_empty);
    let (absent, of_absent): (Vec<_>, Vec<_>) =
        absent.map(|((_, location), values)| (location.clone(), values.clone())).unzip();
    if !absent.is_empty() {
        Listing::of_partitions(session, &absent, fields, of_absent).await?;
    }
    if roots.iter().all(|root| root.data.is_empty()) {
        return Ok(None);
    }
    if is_orc(&roots, options).await? {
        let source = Source { session, location, options, snapshot: Some(snapshot) };
        return source.open(&roots, fields, values, Some(schema)).await.map(Some);
    }
    let found = locations.iter().zip(listed(&roots)?).collect();
    Ok(Some(Opened::Files(Box::new(Listing::of_partition_files(session, found, fields, values)?))))
}

/// Finds the directories of a table. `None` if their rows need write ids, and there are none.
async fn find(place: &Arc<Place>, snapshot: Option<&AcidSnapshot>) -> Result<Option<Vec<Root>>> {
    let root = place.location().key();
    if root.filename().is_some_and(|name| AcidName::parse(name).is_some()) {
        let reason = "it is a part of a table: name the directory of the table".to_owned();
        return Err(damaged(place.table(), reason).into());
    }
    let mut roots = Vec::new();
    for directory in discover(place, root).await? {
        match Root::find(Arc::clone(place), directory, snapshot).await? {
            Some(root) => roots.push(root),
            None => return Ok(None),
        }
    }
    Ok(Some(roots))
}

/// Whether the files are ORC. Those with ids of rows are.
async fn is_orc(roots: &[Root], options: &InputOptions) -> Result<bool> {
    if let Some(format) = options.format {
        return Ok(format == InputFormat::Orc);
    }
    let has_ids = |root: &Root| !root.deletes.is_empty() || root.data.iter().any(|file| file.has_ids);
    let Some(root) = roots.iter().find(|root| !root.data.is_empty()) else { return Ok(true) };
    if roots.iter().any(has_ids) {
        return Ok(true);
    }
    let file = &root.data[0];
    let head = head(root.place.store(), &file.meta, &name(root, file)).await?;
    Ok(Content::of(&head) == Content::Format(InputFormat::Orc))
}

/// Returns the files of each root of an insert-only table, which have no ids of rows.
fn listed(roots: &[Root]) -> Result<Vec<Vec<object_store::ObjectMeta>>, Error> {
    let metas = roots.iter().map(|root| {
        let files = root.data.iter().map(|file| match (file.has_ids, file.is_filtered()) {
            (true, _) => Err(damaged(name(root, file), "it has ids of rows, which only ORC has".to_owned())),
            (_, true) => Err(damaged(name(root, file), UNFILTERED.to_owned())),
            _ => Ok(file.meta.clone()),
        });
        match root.deletes.first() {
            Some(file) => Err(damaged(name(root, file), "it has ids of rows, which only ORC has".to_owned())),
            None => files.collect(),
        }
    });
    metas.collect()
}

/// Why a file without ids of rows cannot be read of which only some rows are.
const UNFILTERED: &str = "it has no ids of rows, and some of its rows were not committed, or are in other files, too";

fn name(root: &Root, file: &AcidFile) -> String {
    root.place.name(&file.meta.location)
}

/// A table whose files are ORC.
struct Source<'a> {
    session: &'a dyn Session,
    location: &'a Location,
    options: &'a InputOptions,
    snapshot: Option<&'a AcidSnapshot>,
}

impl Source<'_> {
    /// Opens the files of `roots`, for each of which `values` has the values of the columns `constants`.
    async fn open(
        &self,
        roots: &[Root],
        constants: &[FieldRef],
        values: Vec<Vec<ScalarValue>>,
        declared: Option<&Schema>,
    ) -> Result<Opened> {
        let mut footers = Vec::with_capacity(roots.len());
        let mut files = Vec::new();
        for (root, values) in roots.iter().zip(values) {
            let of_root = self.footers(root).await?;
            let deletes = DeleteEvents { session: self.session, root, snapshot: self.snapshot };
            let deleted = deletes.of(&of_root).await?;
            files.extend(root.data.iter().zip(deleted).map(|(file, deleted)| TableFile {
                meta: file.meta.clone(),
                format: DataFormat::Orc,
                constants: values.clone(),
                rows: None,
                deleted,
            }));
            footers.extend(root.data.iter().cloned().zip(of_root));
        }
        let is_constant = |name: &str| constants.iter().any(|constant| constant.name() == name);
        let columns: Vec<FieldRef> = match declared {
            Some(declared) => {
                let fields = declared.fields().iter().filter(|field| !is_constant(field.name()));
                fields.map(|field| Arc::new(field.as_ref().clone().with_nullable(true))).collect()
            }
            None => self.columns(&footers)?,
        };
        if let Some(column) = columns.iter().find(|column| is_constant(column.name())) {
            let (file, column) = (self.location.to_string(), column.name().clone());
            return Err(tfr_files::Error::from(tfr_files::ErrorKind::ColumnInPath { file, column }).into());
        }
        // Those of partitions are where they are declared, else behind the others.
        let mut fields: Vec<FieldRef> = match declared {
            Some(declared) => {
                let mut columns = columns.iter();
                let fields = declared.fields().iter().map(|field| {
                    let constant = constants.iter().find(|constant| constant.name() == field.name());
                    constant.or_else(|| columns.next()).map_or_else(|| Arc::clone(field), Arc::clone)
                });
                fields.collect()
            }
            None => columns.clone(),
        };
        let missing = |constant: &&FieldRef| !fields.iter().any(|field| field.name() == constant.name());
        let missing: Vec<_> = constants.iter().filter(missing).cloned().collect();
        fields.extend(missing);
        let in_files = columns.iter().map(|field| ColumnInFiles {
            name: field.name().clone(),
            in_file: field.name().clone(),
            parts: parts_by_name(field.data_type()),
            ..ColumnInFiles::default()
        });
        let table = TableFiles {
            schema: Arc::new(Schema::new(fields)),
            constants: constants.to_vec(),
            columns: Arc::new(ColumnsInFiles {
                by: FoundBy::Position,
                acid: AcidColumns::Row,
                columns: in_files.collect(),
                ..ColumnsInFiles::default()
            }),
            files,
            version: None,
        };
        let (orc, calendar) = (&self.options.orc, self.options.calendar.clone());
        Ok(Opened::Table(Arc::new(table::open_orc(self.session, self.location, table, orc, calendar).await?)))
    }

    /// Reads the footers of the files with rows, and then of those with deleted rows.
    async fn footers(&self, root: &Root) -> Result<Vec<Footer>> {
        let read = |file: &AcidFile| {
            let (meta, name) = (file.meta.clone(), name(root, file));
            async move {
                let footer =
                    orc::acid_footer(root.place.store(), &meta, &name, &self.options.orc, &self.options.calendar);
                footer.await
            }
            .boxed()
        };
        // Collected first: a closure over references is not general enough for the compiler inside a stream.
        let reads: Vec<BoxFuture<'_, _>> = root.data.iter().chain(&root.deletes).map(read).collect();
        let concurrency = self.session.config_options().execution.meta_fetch_concurrency.get();
        Ok(futures::stream::iter(reads).buffered(concurrency.max(1)).try_collect().await?)
    }

    /// Returns the columns with the names of the newest file, in types that hold the values of all files.
    fn columns(&self, files: &[(AcidFile, Footer)]) -> Result<Vec<FieldRef>> {
        let newest = files.iter().max_by_key(|(file, _)| file.write_ids().1);
        let Some((_, newest)) = newest else {
            let feature = "no rows, whose columns are not declared,";
            return Err(unsupported_at(self.location.to_string(), feature.to_owned()).into());
        };
        let types = self.options.types.as_deref();
        let columns = newest.columns.fields().iter().enumerate().map(|(index, field)| {
            let name = match self.options.names {
                NameMatching::Exact => field.name().clone(),
                NameMatching::Insensitive => field.name().to_lowercase(),
            };
            let asked = types.and_then(|types| types.field_with_name(&name).ok()).map(Field::data_type);
            let others = files.iter().filter_map(|(_, footer)| footer.columns.fields().get(index));
            let others = others.filter(|other| unreadable(other).is_none()).map(|other| other.data_type());
            let common = |found: DataType, other: &DataType| match (&found, other) {
                // Years beyond nanoseconds.
                (DataType::Timestamp(TimeUnit::Nanosecond, _), DataType::Timestamp(TimeUnit::Microsecond, _)) => {
                    other.clone()
                }
                (DataType::Timestamp(TimeUnit::Microsecond, _), DataType::Timestamp(..)) => found,
                // Their fields are those of the newest file.
                _ if found.is_nested() => found,
                _ => common_type(&found, other).unwrap_or(found),
            };
            let data_type = match (asked, unreadable(field)) {
                (Some(asked), _) => asked.clone(),
                (None, Some(_)) => field.data_type().clone(),
                (None, None) => others.fold(field.data_type().clone(), common),
            };
            Arc::new(field.as_ref().clone().with_name(name).with_data_type(data_type))
        });
        let columns: Vec<FieldRef> = columns.collect();
        let is_column = |name: &str| columns.iter().any(|column| column.name() == name);
        match types.and_then(|types| types.fields().iter().find(|field| !is_column(field.name()))) {
            Some(field) => plan_err!("option types: the table has no column {:?}", field.name()),
            None => Ok(columns),
        }
    }
}

/// Returns the error of a table with something that is not supported.
fn unsupported(place: &Place, feature: String) -> Error {
    unsupported_at(place.table(), feature)
}

fn unsupported_at(table: String, feature: String) -> Error {
    TableError::unusable(table, format!("{A_TABLE} with {feature} is not supported")).into()
}

/// Returns the error of a damaged file.
fn damaged(file: String, reason: String) -> Error {
    TableError::unusable(file, format!("damaged file of {A_TABLE}: {reason}")).into()
}
