//! Columns of tables by ids, and tables of a few files.

use std::path::Path;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, TimeUnit};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_common::{Result, ScalarValue};
use object_store::{ObjectMeta, ObjectStoreExt};
use tfr_arrow::nested::with_struct_fields;
use tfr_files::{
    ColumnInFiles, ColumnsInFiles, DataFormat, DeletedRows, DirectoryTable, FilesWithoutIds, FoundBy, TableFile,
    TableFiles, store_of,
};
use tfr_stores::Location;

use crate::calendar::CalendarOption;

/// The files that Spark wrote.
pub(super) const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/data/iceberg");

/// A column, or a part of one.
#[derive(Clone)]
pub(super) struct Column {
    field: Field,
    in_files: ColumnInFiles,
}

impl Column {
    /// A column that is a leaf.
    pub(super) fn new(name: &str, id: i32, data_type: DataType) -> Self {
        let in_files =
            ColumnInFiles { name: name.to_owned(), in_file: name.to_owned(), id: Some(id), ..Default::default() };
        Self { field: Field::new(name, data_type, true), in_files }
    }

    pub(super) fn structure(name: &str, id: i32, fields: Vec<Self>) -> Self {
        let parts: Fields = fields.iter().map(|field| Arc::new(field.field.clone())).collect();
        Self::new(name, id, with_struct_fields(parts)).with_parts(fields)
    }

    pub(super) fn list(name: &str, id: i32, element: Self) -> Self {
        let list = Field::new_list(name, element.field.clone(), true);
        Self::new(name, id, list.data_type().clone()).with_parts(vec![element])
    }

    pub(super) fn map(name: &str, id: i32, key: Self, value: Self) -> Self {
        let (key_field, value_field) = (key.field.clone().with_nullable(false), value.field.clone());
        let map = Field::new_map(name, "key_value", key_field, value_field, false, true);
        Self::new(name, id, map.data_type().clone()).with_parts(vec![key, value])
    }

    fn with_parts(mut self, parts: Vec<Self>) -> Self {
        self.in_files.parts = parts.into_iter().map(|part| part.in_files).collect();
        self
    }

    pub(super) fn or(mut self, default: ScalarValue) -> Self {
        self.in_files.default = Some(default);
        self
    }

    pub(super) fn named(mut self, names: &[&str]) -> Self {
        self.in_files.names = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }
}

pub(super) const MICROS: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

pub(super) fn instant() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// Returns the columns by ids, and without ids by names.
pub(super) fn columns(columns: &[Column]) -> (Arc<Schema>, Arc<ColumnsInFiles>) {
    let fields: Vec<FieldRef> = columns.iter().map(|column| Arc::new(column.field.clone())).collect();
    let columns = columns.iter().map(|column| column.in_files.clone()).collect();
    let columns =
        ColumnsInFiles { by: FoundBy::Id, without_ids: FilesWithoutIds::ByNames, columns, ..ColumnsInFiles::default() };
    (Arc::new(Schema::new(fields)), Arc::new(columns))
}

/// Returns a session with `partitions` partitions, which divides small files, too.
pub(super) fn session(partitions: usize) -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(partitions).with_repartition_file_min_size(0);
    config.options_mut().execution.enable_file_stream_work_stealing = false;
    SessionContext::new_with_config(config)
}

/// Returns a file without deleted rows.
pub(super) async fn file(ctx: &SessionContext, directory: &Path, name: &str) -> Result<(Location, TableFile)> {
    let location = Location::parse(&format!("{}/", directory.display())).map_err(tfr_files::Error::from)?;
    let (_, store) = store_of(&ctx.state(), std::slice::from_ref(&location))?;
    let meta: ObjectMeta = store.head(&location.prefix().clone().join(name)).await?;
    let format = match name.rsplit_once('.') {
        Some((_, "orc")) => DataFormat::Orc,
        Some((_, "avro")) => DataFormat::Avro,
        _ => DataFormat::Parquet,
    };
    Ok((location, TableFile { meta, format, constants: Vec::new(), rows: None, deleted: DeletedRows::default() }))
}

/// Opens files of a directory as a table, after `change`.
pub(super) async fn open(
    ctx: &SessionContext,
    directory: &Path,
    names: &[&str],
    wanted: &[Column],
    change: impl FnOnce(&mut TableFiles),
) -> Result<DirectoryTable> {
    let (schema, columns) = columns(wanted);
    let mut files = Vec::new();
    let mut at = None;
    for name in names {
        let (location, found) = file(ctx, directory, name).await?;
        files.push(found);
        at = Some(location);
    }
    let mut table = TableFiles { schema, constants: Vec::new(), columns, files, version: None };
    change(&mut table);
    let location = at.ok_or_else(|| datafusion_common::DataFusionError::Plan("no file".to_owned()))?;
    super::super::open(&ctx.state(), &location, table, CalendarOption::default()).await
}

/// Returns the rows of a query on the table `t`, each as one text.
pub(super) async fn query(ctx: &SessionContext, table: DirectoryTable, sql: &str) -> Result<Vec<String>> {
    ctx.deregister_table("t")?;
    ctx.register_table("t", Arc::new(table))?;
    texts(&ctx.sql(sql).await?.collect().await?)
}

/// Returns each row as one text.
pub(super) fn texts(batches: &[RecordBatch]) -> Result<Vec<String>> {
    let options = FormatOptions::new().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let cells: Vec<_> = columns.iter().map(|column| column.value(row).to_string()).collect();
            rows.push(cells.join(" | "));
        }
    }
    Ok(rows)
}

/// Opens the files, and returns all rows of the table.
pub(super) async fn rows(directory: &Path, names: &[&str], wanted: &[Column]) -> Result<Vec<String>> {
    let ctx = session(1);
    let table = open(&ctx, directory, names, wanted, |_| {}).await?;
    query(&ctx, table, "SELECT * FROM t").await
}

/// Returns deleted rows, given the first positions and those after the last.
pub(super) fn deleted(rows: &[(u64, u64)]) -> DeletedRows {
    let mut deleted = DeletedRows::default();
    assert!(rows.iter().all(|(start, end)| deleted.push(*start..*end)));
    deleted
}
