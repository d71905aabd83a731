//! `files('images/**/*.jpg')`: a table with one row per file, including its content.
//!
//! | column | type | value |
//! |---|---|---|
//! | `path` | VARCHAR | the file's name, as in messages: relative if the pattern was |
//! | `size` | BIGINT | length in bytes |
//! | `modified` | TIMESTAMP | modification time, in microseconds |
//! | `content` | BINARY | the file's bytes |
//!
//! Columns of `key=value` directories follow. Files are found by [`Listing`], as for any table. Queries that the
//! listing can answer read no file: a filter that does not use the content, a `LIMIT`, a `count(*)`.
//! [`FilesFunction`] is the function, and [`FilesTable`] its result.

mod read;
pub(crate) mod run;
pub(crate) mod source;

use std::sync::Arc;
use std::thread;

use crate::{Listing, OwnedFiles};
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use datafusion_catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion_common::stats::Precision;
use datafusion_common::{DFSchema, Result, Statistics, internal_datafusion_err, plan_err, project_schema};
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_groups::FileGroup;
use datafusion_datasource::file_scan_config::FileScanConfigBuilder;
use datafusion_datasource::source::DataSourceExec;
use datafusion_datasource::{PartitionedFile, TableSchema};
use datafusion_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::empty::EmptyExec;
use datafusion_session::Session;
use serde_json::Value;
use tfr_stores::{Location, LocationText, threads};
use tokio::runtime;
use tokio_util::sync::CancellationToken;

use run::{CONTENT, Place, Run};
use source::FilesSource;

use crate::error::{Error, ErrorKind};
use crate::memory::ReadBounds;
use crate::planned::{OpenedTable, PlannedTables};

/// Cost of opening a file, in bytes that could be read in the same time. Added to each file's size when work is
/// divided.
const OPEN_COST: u64 = 64 << 10;

/// The table function `files('location', ...)`.
///
/// Register it with a session under [its name](Self::NAME).
///
/// ```
/// # use std::sync::Arc;
/// use datafusion::prelude::SessionContext;
/// use tfr_files::FilesFunction;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::error::Result<()> {
/// let ctx = SessionContext::new();
/// ctx.register_udtf(FilesFunction::NAME, Arc::new(FilesFunction::default()));
/// let sources = ctx.sql("SELECT path, size FROM files('src/**/*.rs') WHERE size > 0").await?;
/// assert!(sources.count().await? > 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct FilesFunction {
    stop: CancellationToken,
}

impl FilesFunction {
    /// The name of the function.
    pub const NAME: &'static str = "files";

    /// Creates a function whose listing stops when `stop` is cancelled. The query is planned on the thread that
    /// lists, so nothing else can interrupt it.
    pub fn until(stop: CancellationToken) -> Self {
        Self { stop }
    }
}

impl TableFunctionImpl for FilesFunction {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let text = |argument: &Expr| match argument {
            Expr::Literal(value, _) => value.try_as_str().flatten().map(str::to_owned),
            _ => None,
        };
        let Some(texts) = args.exprs().iter().map(text).collect::<Option<Vec<_>>>().filter(|texts| !texts.is_empty())
        else {
            return plan_err!("files takes paths, URLs or patterns in quotes: files('images/**/*.jpg')");
        };
        let locations =
            texts.iter().map(|text| Location::parse(text).map_err(Error::from)).collect::<Result<Vec<_>, _>>()?;
        let tables = PlannedTables::of(args.session().config());
        let texts: Vec<_> = texts.into_iter().map(LocationText::from).collect();
        let opened = tables.map(|tables| OpenedTable { key: tables.next_key(&texts), tables });
        if let Some(opened) = &opened
            && let Some(table) = opened.tables.table(&opened.key)
        {
            let listing = Listing::planned(args.session(), &locations, &table.columns()?.1)?;
            return Ok(Arc::new(FilesTable { opened: Some(opened.clone()), ..FilesTable::try_new(listing)? }));
        }
        // The table consists of files, not rows, so it does not matter who owns them.
        let listed = Listing::list_with(args.session(), &locations, OwnedFiles::Ignore);
        let table = FilesTable::try_new(wait(listed, &self.stop)??)?;
        Ok(Arc::new(match opened {
            Some(opened) => table.recorded(opened),
            None => table,
        }))
    }
}

/// Blocks on a future. A table function is called during planning, which is not async.
///
/// The future runs on its own thread and runtime. A thread of the current runtime, which may be the only one, cannot
/// block on work of that runtime.
fn wait<T: Send>(future: impl Future<Output = T> + Send, stop: &CancellationToken) -> Result<T> {
    let run = || -> Result<T> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let done = runtime.block_on(async {
            tokio::select! {
                done = future => Ok(done),
                () = stop.cancelled() => Err(Error::from(ErrorKind::Stopped)),
            }
        });
        threads::end(runtime);
        Ok(done?)
    };
    thread::scope(|scope| {
        let waiting = thread::Builder::new().name("list files".to_owned()).spawn_scoped(scope, run)?;
        waiting.join().map_err(|_| internal_datafusion_err!("the listing of files panicked"))?
    })
}

/// The files of a [`Listing`], with one row per file.
///
/// A scan that reads their content has as many partitions as the session asks for, each a contiguous range of the
/// listing with about the same number of bytes. The same files and settings give the same partitions.
#[derive(Debug)]
pub struct FilesTable {
    listing: Arc<Listing>,
    schema: TableSchema,
    /// The table among those that are recorded or replayed.
    opened: Option<OpenedTable>,
}

impl FilesTable {
    /// Creates a table of these files.
    ///
    /// # Errors
    /// A `key=value` directory has the name of a column of the table.
    pub fn try_new(listing: Listing) -> Result<Self, Error> {
        let modified = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let fields = vec![
            Field::new("path", DataType::Utf8, false),
            Field::new("size", DataType::Int64, false),
            Field::new("modified", modified, false),
            Field::new("content", DataType::Binary, false),
        ];
        let of_path = listing.partitions().fields().to_vec();
        if let Some(twice) = of_path.iter().find(|of_path| fields.iter().any(|field| field.name() == of_path.name())) {
            let file = listing.file_names().next().unwrap_or_default();
            return Err(ErrorKind::ColumnInPath { file, column: twice.name().clone() }.into());
        }
        let schema = TableSchema::builder(Arc::new(Schema::new(fields))).with_table_partition_cols(of_path).build();
        Ok(Self { listing: Arc::new(listing), schema, opened: None })
    }

    /// Records the table for processes that plan the query again, if that is possible.
    fn recorded(self, opened: OpenedTable) -> Self {
        let path_columns = self.schema.table_partition_cols().len();
        let columns = self.schema.table_schema();
        let is_recorded = opened.tables.record_table(&opened.key, columns, path_columns, Value::Null);
        Self { opened: is_recorded.then_some(opened), ..self }
    }

    /// Returns the files.
    pub fn listing(&self) -> &Listing {
        &self.listing
    }

    /// Whether the listing alone can evaluate the filter. Constants count, too: the optimizer may reduce such a filter to one.
    fn is_of_listing(&self, filter: &Expr) -> bool {
        let columns = filter.column_refs();
        let content = self.schema.table_schema().field(CONTENT).name();
        !filter.is_volatile() && columns.iter().all(|column| column.name() != content)
    }

    /// Returns the indices of the files that pass the filters.
    fn passing(&self, session: &dyn Session, filters: &[Expr]) -> Result<Vec<usize>> {
        let all = Run::all(Arc::clone(&self.listing));
        if filters.is_empty() {
            return Ok((0..all.len()).collect());
        }
        let known: Vec<_> =
            (0..self.schema.table_schema().fields().len()).filter(|column| *column != CONTENT).collect();
        let schema = Arc::new(self.schema.table_schema().project(&known)?);
        let columns = known.iter().map(|column| all.column(*column, 0..all.len(), self.listing.names()));
        let listed = RecordBatch::try_new(Arc::clone(&schema), columns.collect::<Result<_>>()?)?;
        let schema = DFSchema::try_from(schema)?;
        let mut keep = vec![true; all.len()];
        for filter in filters {
            let passes = session.create_physical_expr(filter.clone(), &schema)?.evaluate(&listed)?;
            let passes = passes.into_array(all.len())?;
            for (keep, passes) in keep.iter_mut().zip(passes.as_boolean()) {
                *keep &= passes.unwrap_or(false);
            }
        }
        Ok((0..all.len()).filter(|file| keep[*file]).collect())
    }

    /// Divides files into contiguous groups of about the same number of bytes.
    fn divided(&self, files: &[usize], groups: usize) -> Vec<Vec<usize>> {
        let cost = |file: &usize| self.listing.files()[*file].size.saturating_add(OPEN_COST);
        let total: u128 = files.iter().map(|file| u128::from(cost(file))).sum();
        let mut divided = vec![Vec::new(); groups.max(1)];
        let mut before: u128 = 0;
        for file in files {
            let group = before * divided.len() as u128 / total.max(1);
            divided[group as usize].push(*file);
            before += u128::from(cost(file));
        }
        divided.retain(|group| !group.is_empty());
        divided
    }

    /// Creates the file group of one partition, which is read as one run.
    fn group(&self, files: Vec<usize>) -> FileGroup {
        let statistics = Arc::new(self.statistics(&files));
        let first = files.first().copied();
        let run = Arc::new(Run::Listed(Arc::clone(&self.listing), files.clone()));
        let files = files.into_iter().map(|file| {
            let place = if Some(file) == first { Place::First(Arc::clone(&run)) } else { Place::Later };
            PartitionedFile::new_from_meta(self.listing.files()[file].clone())
                .with_partition_values(self.listing.partitions().values(file).to_vec())
                .with_extension(place)
        });
        FileGroup::new(files.collect()).with_statistics(statistics)
    }

    /// Returns the files that pass the filters, up to `limit`, in at most `groups` groups, with their statistics.
    fn listed(
        &self,
        session: &dyn Session,
        filters: &[Expr],
        limit: Option<usize>,
        groups: usize,
    ) -> Result<(Vec<FileGroup>, Statistics)> {
        let mut files = self.passing(session, filters)?;
        files.truncate(limit.unwrap_or(usize::MAX));
        let statistics = self.statistics(&files);
        Ok((self.divided(&files, groups).into_iter().map(|files| self.group(files)).collect(), statistics))
    }

    fn statistics(&self, files: &[usize]) -> Statistics {
        let bytes = files.iter().fold(0, |bytes: u64, file| bytes.saturating_add(self.listing.files()[*file].size));
        Statistics {
            num_rows: Precision::Exact(files.len()),
            total_byte_size: usize::try_from(bytes).map_or(Precision::Absent, Precision::Inexact),
            ..Statistics::new_unknown(self.schema.table_schema())
        }
    }
}

#[async_trait]
impl TableProvider for FilesTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.schema.table_schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let is_read = projection.is_none_or(|columns| columns.contains(&CONTENT));
        let key = |opened: &OpenedTable| {
            let filters: Vec<_> = filters.iter().map(Expr::to_string).collect();
            format!("{}: {} LIMIT {limit:?}, content {is_read}", opened.key, filters.join(" AND "))
        };
        let source =
            FilesSource::new(self.listing.names().clone(), self.schema.clone()).within(ReadBounds::of(session));
        let (number, groups, statistics) = match &self.opened {
            Some(opened) if !opened.tables.records() => {
                let (number, groups, statistics) = opened.tables.replay(&key(opened))?;
                (Some(number), groups, statistics)
            }
            opened => {
                let groups = if is_read { session.config().target_partitions() } else { 1 };
                let (groups, statistics) = self.listed(session, filters, limit, groups)?;
                let recorded = opened.as_ref().map(|opened| {
                    let source: Arc<dyn FileSource> = Arc::new(source.clone());
                    opened.tables.record_scan(key(opened), &source, &groups, &statistics)
                });
                (recorded.transpose()?.flatten(), groups, statistics)
            }
        };
        if groups.is_empty() {
            return Ok(Arc::new(EmptyExec::new(project_schema(&self.schema(), projection)?)));
        }
        let config =
            FileScanConfigBuilder::new(self.listing.store_url().clone(), Arc::new(source.with_planned(number)))
                .with_file_groups(groups)
                .with_statistics(statistics)
                .with_projection_indices(projection.cloned())?
                .with_limit(limit)
                .build();
        Ok(DataSourceExec::from_data_source(config))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match self.is_of_listing(filter) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }
}
