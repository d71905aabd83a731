//! Registers the tables of a Hive Metastore that a query names.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, SecondsFormat, Utc};
use datafusion::catalog::{CatalogProvider as _, MemoryCatalogProvider, MemorySchemaProvider, TableProvider};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use serde_json::{Map, Value, json};
use tfr_files::{DirectoryTable, TableVersion};
use tfr_formats::metastore::{Metastore, MetastoreTable};

use crate::cli::HiveArgs;
use crate::error::Result;
use crate::names;
use crate::recorded;
use crate::session;

/// The tables of a metastore that a query names, by their full names.
#[derive(Default)]
pub struct MetastoreTables {
    tables: BTreeMap<String, Opened>,
}

/// A table, and the time at which the metastore was asked for it.
struct Opened {
    table: Arc<dyn TableProvider>,
    time: DateTime<Utc>,
}

impl MetastoreTables {
    /// Opens the tables that `query` names in the catalog of a metastore, and registers them with the session. `pinned`
    /// returns the version that another run has read.
    ///
    /// # Errors
    /// No metastore is named, or a table cannot be opened.
    pub async fn register(
        context: &SessionContext,
        args: &HiveArgs,
        query: &mut Statement,
        pinned: impl Fn(&str) -> Option<TableVersion>,
    ) -> Result<Self> {
        let named = names::tables_in(query, Metastore::CATALOG);
        let Some(first) = named.iter().next() else { return Ok(Self::default()) };
        let metastore = args.metastore(&session::door(context), &first.to_string())?;
        let catalog = MemoryCatalogProvider::new();
        let mut tables = BTreeMap::new();
        for reference in named {
            let (name, database) = (reference.to_string(), reference.schema().unwrap_or_default());
            let time = Utc::now();
            let table = metastore.open(&context.state(), database, reference.table(), pinned(&name)).await?;
            let schema = match catalog.schema(database) {
                Some(schema) => schema,
                None => {
                    let schema = Arc::new(MemorySchemaProvider::new());
                    catalog.register_schema(database, Arc::clone(&schema) as _)?;
                    schema
                }
            };
            schema.register_table(reference.table().to_owned(), Arc::clone(&table))?;
            tables.insert(name, Opened { table, time });
        }
        context.register_catalog(Metastore::CATALOG, Arc::new(catalog));
        Ok(Self { tables })
    }

    /// Returns their names.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.tables.keys().cloned()
    }

    /// Returns the versions of those that have some.
    pub fn versions(&self) -> impl Iterator<Item = (String, Value)> {
        let opened = self
            .tables
            .iter()
            .filter_map(|(name, opened)| Some((name, opened.table.downcast_ref::<DirectoryTable>()?)));
        opened.filter_map(|(name, table)| recorded::version(name, table))
    }

    /// Returns the number and size of the files of the others that the planned query reads.
    pub fn files(&self) -> Map<String, Value> {
        let tables = self
            .tables
            .iter()
            .filter_map(|(name, opened)| Some((name, opened.table.downcast_ref::<MetastoreTable>()?)));
        tables.map(|(name, table)| (name.clone(), recorded::count(table.used().files, table.used().bytes))).collect()
    }

    /// Returns when the metastore was asked for each table.
    pub fn times(&self) -> Map<String, Value> {
        let time = |time: &DateTime<Utc>| json!(time.to_rfc3339_opts(SecondsFormat::Secs, true));
        self.tables.iter().map(|(name, opened)| (name.clone(), time(&opened.time))).collect()
    }
}
