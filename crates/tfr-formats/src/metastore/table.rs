//! [`MetastoreTable`]: a table whose partitions, locations and classes a metastore records.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_schema::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion_catalog::TableProvider;
use datafusion_common::{Result, ScalarValue, project_schema};
use datafusion_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{Column, Literal, cast};
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::empty::EmptyExec;
use datafusion_physical_plan::projection::ProjectionExec;
use datafusion_physical_plan::union::UnionExec;
use datafusion_session::Session;
use tfr_files::{DirectoryTable, Listing, PartitionColumns, TableVersion};
use tfr_stores::{Location, LocationText};

use super::catalog::RecordedTable;
use super::client::Client;
use super::filter;
use super::partitions::{Group, groups};
use super::reader::{Reader, described, hive_columns, name, reader_of, wrong};
use crate::hive_acid::{self, AcidSnapshot, Opened, Recorded};
use crate::hive_table::HiveReader;
use crate::hive_text::HiveColumns;
use crate::input_format::InputFormat;
use crate::open::{open_listing, open_locations};

/// A table of a metastore whose files Hive's classes read. Its partitions and files are looked for when a query is
/// planned.
pub struct MetastoreTable {
    client: Arc<Client>,
    recorded: RecordedTable,
    /// The columns, and then the keys of partitions.
    schema: SchemaRef,
    keys: HiveColumns,
    reader: Arc<Reader>,
    /// The columns in the path of the files, to compare filters with.
    path_columns: PartitionColumns,
    /// What of a transactional table is read.
    snapshot: Option<AcidSnapshot>,
    used: Mutex<Used>,
}

/// The files that queries read of a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Their number.
    pub files: usize,
    /// Their size in bytes.
    pub bytes: u64,
}

/// Opens a table that a metastore records.
///
/// # Errors
/// It has no files of its own, or its class is not supported.
pub(super) async fn open(
    session: &dyn Session,
    client: Arc<Client>,
    recorded: RecordedTable,
    pinned: Option<TableVersion>,
) -> Result<Arc<dyn TableProvider>> {
    let reader = reader_of(&recorded, &described(&recorded, &recorded.storage))?;
    for warning in &reader.warnings {
        log::warn!("{}: {warning}", name(&recorded));
    }
    if matches!(reader.format, InputFormat::Delta | InputFormat::Iceberg) {
        return open_by_metadata(session, &recorded, &reader, pinned).await;
    }
    let reader = Reader::of_table(&recorded)?;
    let keys = hive_columns(&recorded, &recorded.keys)?;
    let path_schema = keys.path_schema();
    let path_columns = PartitionColumns::of_texts(&path_schema, Vec::new(), |_| String::new())?;
    let fields = reader.schema.fields().iter().chain(path_columns.fields()).cloned();
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let snapshot = match recorded.is_transactional() {
        true => Some(client.snapshot(&recorded).await?),
        false => None,
    };
    let reader = Arc::new(reader);
    let used = Mutex::default();
    Ok(Arc::new(MetastoreTable { client, recorded, schema, keys, reader, path_columns, snapshot, used }))
}

/// Opens a table of Delta Lake or Iceberg by its own metadata.
async fn open_by_metadata(
    session: &dyn Session,
    recorded: &RecordedTable,
    reader: &HiveReader,
    pinned: Option<TableVersion>,
) -> Result<Arc<dyn TableProvider>> {
    // Spark's location of a table whose classes are not those of its files.
    let path = recorded.storage.serde_properties.get("path").filter(|_| reader.format == InputFormat::Delta);
    let found = reader.location.as_deref().or(path.map(String::as_str)).or(recorded.storage.location.as_deref());
    let found = found.ok_or_else(|| wrong(recorded, "it has no location".to_owned()))?;
    let mut options = reader.input_options()?;
    pinned.into_iter().for_each(|version| options.pin(version));
    // A local path as Java writes it.
    let text = found.strip_prefix("file:").map_or(found, |path| path.strip_prefix("//").unwrap_or(path));
    let table = open_locations(session, &[LocationText::from(text)], &options, None).await?;
    Ok(table)
}

impl MetastoreTable {
    /// Returns the table as the metastore records it.
    pub fn recorded(&self) -> &RecordedTable {
        &self.recorded
    }

    /// Returns the files that queries of the session read of it so far.
    pub fn used(&self) -> Used {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn groups(&self, session: &dyn Session, filters: &[Expr]) -> Result<Vec<Group>> {
        if self.recorded.keys.is_empty() {
            let reader = Arc::clone(&self.reader);
            let directory = self.recorded.storage.location.as_deref();
            let directory = directory.ok_or_else(|| wrong(&self.recorded, "it has no location".to_owned()))?;
            return Ok(vec![Group {
                reader,
                locations: vec![Location::recorded(directory).map_err(tfr_files::Error::from)?],
                values: vec![Vec::new()],
            }]);
        }
        let filter = filter::of_all(filters, &self.recorded.keys);
        log::debug!("{}: partitions with {}", name(&self.recorded), filter.as_deref().unwrap_or("any values"));
        let partitions = self.client.partitions(&self.recorded, filter.as_deref()).await?;
        groups(session, &self.recorded, &self.reader, &self.keys, partitions, filters)
    }

    /// Opens a group; `None` if it has no files.
    async fn open_group(&self, session: &dyn Session, group: Group) -> Result<Option<Arc<DirectoryTable>>> {
        let Group { reader, locations, values } = group;
        let (fields, options) = (self.path_columns.fields(), &reader.options);
        let listing = match &self.snapshot {
            Some(snapshot) => {
                let found = Recorded::find(session, &locations, snapshot).await?;
                found.check_unchanged(&self.client.snapshot(&self.recorded).await?).await?;
                let (partitions, schema) = ((fields, values), &reader.schema);
                match hive_acid::open_recorded(session, &locations, found, partitions, snapshot, options, schema)
                    .await?
                {
                    Some(Opened::Table(table)) => return Ok(Some(table)),
                    Some(Opened::Files(listing)) => *listing,
                    None => return Ok(None),
                }
            }
            None => Listing::of_partitions(session, &locations, fields, values).await?,
        };
        if listing.files().is_empty() {
            return Ok(None);
        }
        open_listing(session, &locations, listing, false, options, None, None).await.map(Some)
    }

    /// Plans the scan of a group; `None` if it has no files.
    async fn scan_group(
        &self,
        session: &dyn Session,
        group: Group,
        projection: &[usize],
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let reader = Arc::clone(&group.reader);
        let Some(table) = self.open_group(session, group).await? else { return Ok(None) };
        {
            let files = table.listing().files();
            let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            used.files += files.len();
            used.bytes += files.iter().map(|file| file.size).sum::<u64>();
        }
        let Some(columns) = &reader.columns else {
            return Ok(Some(table.scan(session, Some(&projection.to_vec()), filters, limit).await?));
        };
        // The position of a column in the files, or of a key behind them.
        let of_files = reader.schema.fields().len();
        let position = |index: &usize| match columns.get(*index) {
            Some(position) => *position,
            None => Some(of_files + index - columns.len()),
        };
        let positions: Vec<Option<usize>> = projection.iter().map(position).collect();
        let read: Vec<usize> = positions.iter().flatten().copied().collect();
        // Those of the files have other names.
        let filters: Vec<_> = filters.iter().filter(|filter| self.path_columns.decide(filter)).cloned().collect();
        let plan = table.scan(session, Some(&read), &filters, limit).await?;
        let (schema, mut next) = (plan.schema(), 0..);
        let expressions = projection.iter().zip(&positions).map(|(index, position)| {
            let field = self.schema.field(*index);
            let expression: Arc<dyn PhysicalExpr> = match position {
                Some(_) => {
                    let index = next.next().unwrap_or_default();
                    let column = Arc::new(Column::new(schema.field(index).name(), index));
                    cast(column, &schema, field.data_type().clone())?
                }
                None => Arc::new(Literal::new(ScalarValue::try_from(field.data_type())?)),
            };
            Ok((expression, field.name().clone()))
        });
        let expressions = expressions.collect::<Result<Vec<_>>>()?;
        Ok(Some(Arc::new(ProjectionExec::try_new(expressions, plan)?)))
    }
}

#[async_trait]
impl TableProvider for MetastoreTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
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
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let columns = projection.unwrap_or(&all);
        let of_keys: Vec<_> = filters.iter().filter(|filter| self.path_columns.decide(filter)).cloned().collect();
        let mut plans = Vec::new();
        for group in self.groups(session, &of_keys).await? {
            plans.extend(self.scan_group(session, group, columns, filters, limit).await?);
        }
        match plans.len() {
            0 => Ok(Arc::new(EmptyExec::new(project_schema(&self.schema, projection)?))),
            1 => Ok(plans.remove(0)),
            _ => UnionExec::try_new(plans),
        }
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match self.path_columns.decide(filter) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Inexact,
        };
        Ok(filters.iter().map(support).collect())
    }
}

impl fmt::Debug for MetastoreTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MetastoreTable").field(&name(&self.recorded)).finish()
    }
}
