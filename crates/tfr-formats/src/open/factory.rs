//! [`table_factory`]: tables of `CREATE EXTERNAL TABLE`.

use std::sync::Arc;

use arrow_schema::{FieldRef, Fields, Schema};
use async_trait::async_trait;
use datafusion_catalog::{TableProvider, TableProviderFactory};
use datafusion_common::{DataFusionError, plan_err};
use datafusion_expr::CreateExternalTable;
use datafusion_session::Session;

use super::{check_partitions, open_locations};
use crate::options::{InputOptions, PinnedVersions};

/// The names of [`table_factory`] in `STORED AS`, as keys of a session's table factories.
pub const STORED_AS: &[&str] = &[
    "PARQUET",
    "CSV",
    "TSV",
    "TFRECORD",
    "ARRAYRECORD",
    "ORC",
    "AVRO",
    "JSON",
    "ARROW",
    "TEXTFILE",
    "LIBSVM",
    "DELTA",
    "ICEBERG",
];

/// Returns the factory for `CREATE EXTERNAL TABLE ... STORED AS ... LOCATION '...' OPTIONS (...)`.
///
/// Register it in the session's table factories under each name in [`STORED_AS`].
pub fn table_factory() -> Arc<dyn TableProviderFactory> {
    Arc::new(InputTableFactory)
}

#[derive(Debug)]
struct InputTableFactory;

#[async_trait]
impl TableProviderFactory for InputTableFactory {
    async fn create(
        &self,
        session: &dyn Session,
        command: &CreateExternalTable,
    ) -> Result<Arc<dyn TableProvider>, DataFusionError> {
        if command.unbounded {
            return plan_err!("CREATE UNBOUNDED EXTERNAL TABLE {}: streams are not supported", command.name);
        }
        if !command.order_exprs.is_empty() {
            return plan_err!("CREATE EXTERNAL TABLE {}: WITH ORDER is not supported", command.name);
        }
        let mut options = InputOptions::default();
        options.set("format", &command.file_type)?;
        // The engine passes `OPTIONS (delimiter ';')` on as `format.delimiter`. Sorted, so that errors are
        // deterministic.
        let mut given: Vec<_> = command.options.iter().collect();
        given.sort();
        for (key, value) in given {
            let key = key.to_ascii_lowercase();
            let key = ["format.", "tfrecord."].iter().find_map(|prefix| key.strip_prefix(prefix)).unwrap_or(&key);
            options.set(key, value)?;
        }
        let pinned = session.config().get_extension::<PinnedVersions>();
        if let Some(version) = pinned.as_ref().and_then(|pinned| pinned.0.get(command.name.table())) {
            options.pin(*version);
        }
        let declared = command.schema.inner();
        let partition_columns = || command.table_partition_cols.iter().map(|column| PartitionColumn(column));
        let is_partition = |field: &&FieldRef| partition_columns().any(|column| column.is(field.name()));
        let (partitions, columns): (Vec<_>, Vec<_>) = declared.fields().iter().partition(is_partition);
        if !partitions.is_empty() {
            if options.partitions.is_some() {
                return plan_err!(
                    "CREATE EXTERNAL TABLE {}: the columns of the path are declared twice: by PARTITIONED BY and by the \
                     option partitions",
                    command.name
                );
            }
            options.partitions = Some(Arc::new(Schema::new(partitions.into_iter().cloned().collect::<Fields>())));
        }
        options.partition_names = partition_columns().map(|column| column.name()).collect();
        // If only partition columns are declared, the other columns come from the files.
        let schema = (!columns.is_empty()).then(|| Arc::clone(declared));
        let locations: Vec<_> = command.locations.iter().map(|text| text.as_str().into()).collect();
        let table = open_locations(session, &locations, &options, schema).await?;
        let found = table.listing().partitions().fields();
        let is_found = partition_columns().zip(found).all(|(column, field)| column.is(field.name()));
        let count = command.table_partition_cols.len();
        if count > 0 && !(is_found && count == found.len()) {
            let names: Vec<_> = found.iter().map(|field| field.name().as_str()).collect();
            return plan_err!(
                "CREATE EXTERNAL TABLE {}: PARTITIONED BY ({}), but the directories are ({})",
                command.name,
                command.table_partition_cols.join(", "),
                names.join(", ")
            );
        }
        check_partitions(&options, &table)?;
        Ok(table)
    }
}

/// A name in `PARTITIONED BY` as written: the engine removes quotes from column names, but not from these.
struct PartitionColumn<'a>(&'a str);

impl PartitionColumn<'_> {
    fn is(&self, name: &str) -> bool {
        self.0 == name || self.name() == name
    }

    /// Returns the name of the column. One without quotes is in lower case.
    fn name(&self) -> String {
        let within = |quote: char| self.0.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        match (within('"'), within('`')) {
            (Some(quoted), _) => quoted.replace("\"\"", "\""),
            (_, Some(quoted)) => quoted.replace("``", "`"),
            _ => self.0.to_lowercase(),
        }
    }
}
