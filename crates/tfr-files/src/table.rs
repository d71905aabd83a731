//! [`DirectoryTable`]: the files of a [`Listing`] as one table.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion_catalog::TableProvider;
use datafusion_common::stats::Precision;
use datafusion_common::{Result, Statistics, internal_err, project_schema};
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_format::FileFormat;
use datafusion_datasource::file_groups::FileGroup;
use datafusion_datasource::file_scan_config::{FileScanConfig, FileScanConfigBuilder};
use datafusion_datasource::{FileExtensions, PartitionedFile, TableSchema, compute_all_files_statistics};
use datafusion_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::empty::EmptyExec;
use datafusion_session::Session;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::ObjectMeta;
use serde_json::Value;
use tfr_arrow::common_type::LeafRule;
use tokio::sync::OnceCell;

use crate::findings::Findings;
use crate::listing::listed::Listing;
use crate::listing::partition::over_path_columns;
use crate::planned::{OpenedTable, PlannedTables};
use crate::scan::guard::{guard_future, guarded, scan_config};
use crate::schema::adapter::ExactAdapterFactory;
use crate::schema::merge::{self, Joining};
use crate::schema::{path_columns, unreadable};

/// The files of a [`Listing`], read by one [`FileFormat`], as one table.
///
/// The schema is merged over all files by name. A scan has as many partitions as the session asks for
/// (`datafusion.execution.target_partitions`) if the format can be split, over contiguous ranges of the files in
/// listing order: the same files and settings give the same partitions. Any failure names the file.
#[derive(Debug, Clone)]
pub struct DirectoryTable {
    listing: Listing,
    format: Arc<dyn FileFormat>,
    schema: TableSchema,
    /// The columns in the order of the table, if it is another one than that of `schema`: its schema, and the index of
    /// each column in `schema`.
    order: Option<(SchemaRef, Vec<usize>)>,
    /// One per file, over the table's schema. Read from the footers by the first scan.
    statistics: OnceCell<Vec<Arc<Statistics>>>,
    /// Format-specific data attached to each file, if any.
    extensions: Vec<FileExtensions>,
    /// The table among those that are recorded or replayed.
    opened: Option<OpenedTable>,
}

impl DirectoryTable {
    /// Reads the schema of every file and merges them.
    ///
    /// # Errors
    /// A file is not of the format, is damaged, disagrees with another about the type of a column, or has a column of its
    /// path with another value.
    pub async fn try_new(session: &dyn Session, listing: Listing, format: Arc<dyn FileFormat>) -> Result<Self> {
        Self::try_merged(session, listing, format, None, |_, _| None).await
    }

    /// Same as [`Self::try_new`], but columns in `types` get their type from there. `rule` determines the type of
    /// columns whose types in the files have no common type.
    ///
    /// # Errors
    /// Same as [`Self::try_new`]; a column in `types` is in no file, or its values cannot be converted.
    pub async fn try_merged(
        session: &dyn Session,
        listing: Listing,
        format: Arc<dyn FileFormat>,
        types: Option<&Schema>,
        rule: LeafRule,
    ) -> Result<Self> {
        let infer = |index| infer_schema(session, &listing, &format, index).boxed();
        let schemas = read_each(session, (0..listing.files().len()).map(infer)).await?;
        let name = |index: usize| listing.names().name(&listing.files()[index].location);
        merge::warn_of_names_by_case(&merge::names_of(&schemas), name);
        let merged = merge::merge(&schemas, types, Joining::Common(rule), name)?;
        let merged = unreadable::with_marks(&merged, &schemas, false);
        Ok(Self::with_schema(listing, format, &merged))
    }

    /// Reads the schema of every file and creates a table of the columns `declared`, which may include those of the
    /// path. With `absent_is_null`, a column that no file has is null, with a warning, unless the session is strict.
    ///
    /// # Errors
    /// - A file is not of the format, or is damaged.
    /// - A file has a column whose values cannot be converted to the declared type.
    /// - No file has a declared column, or some files lack one that is not nullable.
    pub async fn try_declared(
        session: &dyn Session,
        listing: Listing,
        format: Arc<dyn FileFormat>,
        declared: &Schema,
        absent_is_null: bool,
    ) -> Result<Self> {
        let is_strict = Findings::of(session.config()).is_some_and(|findings| findings.is_strict());
        let infer = |index| infer_schema(session, &listing, &format, index).boxed();
        let schemas = read_each(session, (0..listing.files().len()).map(infer)).await?;
        let name = |index: usize| listing.names().name(&listing.files()[index].location);
        let declared = unreadable::with_marks(&Arc::new(declared.clone()), &schemas, true);
        let table = Self::with_schema(listing.clone(), format, &declared);
        merge::warn_of_names_by_case(&merge::names_of(&schemas), name);
        merge::check_declared(table.schema.file_schema(), &schemas, absent_is_null && !is_strict, name)?;
        Ok(table)
    }

    /// Creates a table of files that are known to have the columns `schema`, which may include those of the path.
    pub fn with_schema(listing: Listing, format: Arc<dyn FileFormat>, schema: &Schema) -> Self {
        let partitions = listing.partitions().fields();
        let in_path = |name: &str| partitions.iter().any(|partition| partition.name() == name);
        let fields: Vec<_> = schema.fields().iter().filter(|field| !in_path(field.name())).cloned().collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        let schema = TableSchema::builder(schema).with_table_partition_cols(partitions.to_vec()).build();
        Self { listing, format, schema, order: None, statistics: OnceCell::new(), extensions: Vec::new(), opened: None }
    }

    /// Sets known properties of each file: its statistics over the columns of the file, which the format then does
    /// not look up, and its extensions. Both are in the order of the listing.
    #[must_use]
    pub fn with_known_files(self, statistics: Vec<Statistics>, extensions: Vec<FileExtensions>) -> Self {
        let statistics = OnceCell::new_with(Some(self.completed(statistics)));
        Self { statistics, extensions, ..self }
    }

    /// Sets the order of the columns. By default, those of the path follow those of the files.
    ///
    /// # Errors
    /// A name is not that of a column, or a column is missing.
    pub fn in_order<'a>(self, names: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let schema = self.schema.table_schema();
        let order = names.into_iter().map(|name| Ok(schema.index_of(name)?)).collect::<Result<Vec<_>>>()?;
        if order.len() != schema.fields().len() {
            return internal_err!("an order of {} columns for a table of {}", order.len(), schema.fields().len());
        }
        let shown = Arc::new(schema.project(&order)?);
        Ok(Self { order: Some((shown, order)), ..self })
    }

    /// Records the table, and what its format has found out about the files, for processes that plan the query again. Does
    /// nothing if its columns cannot be encoded.
    #[must_use]
    pub fn recorded(mut self, tables: Arc<PlannedTables>, key: String, format: Value) -> Self {
        let path_columns = self.schema.table_partition_cols().len();
        if tables.record_table(&key, self.schema.table_schema(), path_columns, format) {
            self.opened = Some(OpenedTable { tables, key });
        }
        self
    }

    /// Sets the recorded table that this one replays. Its listing has no files.
    #[must_use]
    pub fn replaying(self, tables: Arc<PlannedTables>, key: String) -> Self {
        Self { opened: Some(OpenedTable { tables, key }), ..self }
    }

    /// Extends statistics of files by those of the columns in their paths, and by their sizes if the format does not
    /// estimate the size of their rows: the planner chooses by it which table of a join is read whole.
    fn completed(&self, statistics: Vec<Statistics>) -> Vec<Arc<Statistics>> {
        let of_file = |(index, mut statistics): (usize, Statistics)| {
            if statistics.total_byte_size == Precision::Absent
                && let Ok(size) = usize::try_from(self.listing.files()[index].size)
            {
                statistics.total_byte_size = Precision::Inexact(size);
            }
            over_path_columns(statistics, self.listing.partitions().values(index))
        };
        statistics.into_iter().enumerate().map(of_file).map(Arc::new).collect()
    }

    /// Returns the names of the columns, in their order.
    pub fn column_names(&self) -> impl Iterator<Item = &str> {
        let shown = self.order.as_ref().map_or_else(|| self.schema.table_schema(), |(shown, _)| shown);
        shown.fields().iter().map(|field| field.name().as_str())
    }

    /// Returns the files of the table.
    pub fn listing(&self) -> &Listing {
        &self.listing
    }

    /// Returns the format that reads them.
    pub fn format(&self) -> &Arc<dyn FileFormat> {
        &self.format
    }

    /// Returns the columns that are read from the files: all but those of the path.
    pub fn file_schema(&self) -> &SchemaRef {
        self.schema.file_schema()
    }

    async fn file_statistics(&self, session: &dyn Session) -> Result<&Vec<Arc<Statistics>>> {
        let schema = self.schema.file_schema();
        let infer = |file| infer_statistics(session, &self.listing, &self.format, Arc::clone(schema), file).boxed();
        let read = async {
            let statistics = read_each(session, self.listing.files().iter().map(infer)).await?;
            Ok(self.completed(statistics))
        };
        self.statistics.get_or_try_init(|| read).await
    }

    async fn partitioned_files(&self, session: &dyn Session) -> Result<Vec<PartitionedFile>> {
        let statistics = match session.config().collect_statistics() {
            true => Some(self.file_statistics(session).await?),
            false => None,
        };
        let files = self.listing.files().iter().enumerate().map(|(index, meta)| {
            let mut file = PartitionedFile::new_from_meta(meta.clone())
                .with_partition_values(self.listing.partitions().values(index).to_vec());
            // Not `with_statistics`, which assumes that partition values are never null.
            file.statistics = statistics.map(|statistics| Arc::clone(&statistics[index]));
            file.extensions = self.extensions.get(index).cloned().unwrap_or_default();
            file
        });
        Ok(files.collect())
    }

    /// Whether the path alone can evaluate the filter.
    fn is_partition_filter(&self, filter: &Expr) -> bool {
        self.listing.partitions().decide(filter)
    }

    /// Splits the files into at most `target_partitions` groups: by bytes if the format can be split, else by files.
    fn split(&self, session: &dyn Session, config: FileScanConfig) -> Result<FileScanConfig> {
        let target = session.config().target_partitions().max(1);
        let optimizer = &session.config_options().optimizer;
        if optimizer.repartition_file_scans {
            let min_size = optimizer.repartition_file_min_size;
            if let Some(split) = config.file_source().repartitioned(target, min_size, None, &config)? {
                return Ok(split);
            }
        }
        let files = config.file_groups.iter().flat_map(FileGroup::iter).cloned().collect();
        let groups = FileGroup::new(files).split_files(target);
        Ok(FileScanConfigBuilder::from(config).with_file_groups(groups).build())
    }
}

#[async_trait]
impl TableProvider for DirectoryTable {
    fn schema(&self) -> SchemaRef {
        match &self.order {
            Some((shown, _)) => Arc::clone(shown),
            None => Arc::clone(self.schema.table_schema()),
        }
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
        let schema = self.schema.table_schema();
        let in_order = self.order.as_ref().map(|(_, order)| match projection {
            Some(projection) => projection.iter().map(|index| order[*index]).collect(),
            None => order.clone(),
        });
        let projection = in_order.as_ref().or(projection);
        unreadable::check_projection(schema, projection)?;
        let (path_filters, row_filters): (Vec<Expr>, Vec<Expr>) =
            filters.iter().cloned().partition(|filter| self.is_partition_filter(filter));
        let builder = |files: Vec<FileGroup>, statistics: Statistics| -> Result<FileScanConfigBuilder> {
            let source = self.format.file_source(self.schema.clone());
            Ok(FileScanConfigBuilder::new(self.listing.store_url().clone(), source)
                .with_file_groups(files)
                .with_statistics(statistics)
                .with_projection_indices(projection.cloned())?
                .with_limit(limit)
                .with_expr_adapter(Some(Arc::new(ExactAdapterFactory))))
        };
        let files_limit = limit.filter(|_| row_filters.is_empty());
        let key = |opened: &OpenedTable| {
            let filters: Vec<_> = path_filters.iter().map(Expr::to_string).collect();
            format!("{}: {} LIMIT {files_limit:?}", opened.key, filters.join(" AND "))
        };
        if let Some(opened) = self.opened.as_ref().filter(|opened| !opened.tables.records()) {
            let (number, groups, statistics) = opened.tables.replay(&key(opened))?;
            if groups.is_empty() {
                return Ok(Arc::new(EmptyExec::new(project_schema(schema, projection)?)));
            }
            let config = builder(groups, statistics)?.build();
            let plan = self.format.create_physical_plan(session, config).await?;
            return Ok(guarded(plan, &self.listing, Some(number)));
        }
        let mut files = self.partitioned_files(session).await?;
        let mut passing = self.listing.partitions().passing(session, &path_filters)?.into_iter();
        files.retain(|_| passing.next().unwrap_or(true));
        truncate_to_limit(&mut files, files_limit);
        let record = |source: &Arc<dyn FileSource>, groups: &[FileGroup], statistics: &Statistics| match &self.opened {
            Some(opened) => opened.tables.record_scan(key(opened), source, groups, statistics),
            None => Ok(None),
        };
        if files.is_empty() {
            record(&self.format.file_source(self.schema.clone()), &[], &Statistics::new_unknown(schema))?;
            return Ok(Arc::new(EmptyExec::new(project_schema(schema, projection)?)));
        }
        let (groups, statistics) = compute_all_files_statistics(
            vec![FileGroup::new(files)],
            Arc::clone(schema),
            session.config().collect_statistics(),
            false,
        )?;
        let config = self.split(session, builder(groups, statistics)?.build())?;
        let plan = self.format.create_physical_plan(session, config).await?;
        let number = match (scan_config(&plan), &self.opened) {
            (Some(config), _) => record(config.file_source(), &config.file_groups, &config.statistics())?,
            (None, Some(opened)) => {
                opened.tables.set_incomplete();
                None
            }
            (None, None) => None,
        };
        Ok(guarded(plan, &self.listing, number))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match self.is_partition_filter(filter) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Inexact,
        };
        Ok(filters.iter().map(support).collect())
    }
}

/// Returns the schema of the file at `index`, without the columns of its path.
async fn infer_schema(
    session: &dyn Session,
    listing: &Listing,
    format: &Arc<dyn FileFormat>,
    index: usize,
) -> Result<SchemaRef> {
    let file = &listing.files()[index];
    let name = listing.names().name(&file.location);
    let schema = guard_future(&name, format.infer_schema(session, listing.store(), std::slice::from_ref(file))).await?;
    path_columns::without_path_columns(session, listing, format, index, &schema).await
}

async fn infer_statistics(
    session: &dyn Session,
    listing: &Listing,
    format: &Arc<dyn FileFormat>,
    schema: SchemaRef,
    file: &ObjectMeta,
) -> Result<Statistics> {
    let name = listing.names().name(&file.location);
    guard_future(&name, format.infer_stats(session, listing.store(), schema, file)).await
}

/// Reads footers concurrently, as many at a time as the session allows. Results are in order.
async fn read_each<'a, T>(
    session: &dyn Session,
    reads: impl Iterator<Item = BoxFuture<'a, Result<T>>>,
) -> Result<Vec<T>> {
    // Collected first: a closure over references is not general enough for the compiler inside a stream.
    let reads: Vec<_> = reads.collect();
    let concurrency = session.config_options().execution.meta_fetch_concurrency.get();
    futures::stream::iter(reads).buffered(concurrency).try_collect().await
}

/// Drops the files after those that contain `limit` rows.
fn truncate_to_limit(files: &mut Vec<PartitionedFile>, limit: Option<usize>) {
    let Some(limit) = limit else { return };
    let mut rows = 0;
    let enough = files.iter().position(|file| {
        let Some(Precision::Exact(more)) = file.statistics.as_ref().map(|statistics| statistics.num_rows) else {
            return false;
        };
        rows += more;
        rows >= limit
    });
    if let Some(last) = enough {
        files.truncate(last + 1);
    }
}
