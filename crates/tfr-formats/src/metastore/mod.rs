//! Tables by their names in a Hive Metastore: `hive.database.table`.
//!
//! A metastore records where the rows of a table are, how its columns are called, and which class of Hive reads them, for
//! the table and for each of its partitions. [`Metastore`] asks it, over Thrift (`thrift`, `client`, `catalog`), and what
//! it answers becomes a table of this crate's own readers: [`MetastoreTable`]. Partitions are asked for when a query is planned,
//! with the filters that mean the same on the server (`filter`), and only the directories of those that pass are listed.
//!
//! Tables of Delta Lake and Iceberg that are registered in a metastore are read by their own metadata.

mod catalog;
mod client;
mod filter;
mod partitions;
mod reader;
mod table;
mod thrift;

use std::fmt;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use datafusion_catalog::{MemTable, TableProvider};
use datafusion_common::Result;
use datafusion_session::Session;
use datafusion_tfrecord::similar;
use tfr_files::TableVersion;
use tfr_stores::Door;

use crate::error::{Error, MetastoreError};
use client::Client;

pub use catalog::{HiveColumn, RecordedPartition, RecordedTable, Storage};
pub use table::{MetastoreTable, Used};

/// A Hive Metastore.
///
/// Register it as an extension of a session's configuration, and its tables as the queries name them.
pub struct Metastore {
    client: Arc<Client>,
}

impl Metastore {
    /// The name of the catalog in queries: `hive.database.table`.
    pub const CATALOG: &str = catalog::CATALOG;

    /// The database with the tables about databases and tables.
    const INFORMATION: &str = "information_schema";

    /// Creates a client of the metastore at `addresses`: `thrift://host:9083`, or several of them with commas. The first
    /// call connects.
    ///
    /// # Errors
    /// An address is not valid, or the door does not allow it.
    pub fn new(addresses: &str, door: &Door) -> Result<Self> {
        Ok(Self { client: Arc::new(Client::new(addresses, door)?) })
    }

    /// Opens a table by its name, in any case. Of a table of Delta Lake or Iceberg, `pinned` is the version. `information_schema.schemata` and `information_schema.tables` have the
    /// names of all databases and tables.
    ///
    /// # Errors
    /// - No server answers, or not validly.
    /// - There is no such table.
    /// - It is a view, or is read by a class that is not supported.
    pub async fn open(
        &self,
        session: &dyn Session,
        database: &str,
        name: &str,
        pinned: Option<TableVersion>,
    ) -> Result<Arc<dyn TableProvider>> {
        let (database, name) = (database.to_lowercase(), name.to_lowercase());
        if database == Self::INFORMATION {
            return self.information(&name).await;
        }
        match self.client.table(&database, &name).await? {
            Some(recorded) => table::open(session, Arc::clone(&self.client), recorded, pinned).await,
            None => Err(self.no_table(database, name).await?.into()),
        }
    }

    /// Returns the error for a table that does not exist.
    async fn no_table(&self, database: String, name: String) -> Result<Error, Error> {
        let tables = self.client.tables(&database).await?;
        let similar = match tables.is_empty() {
            true => {
                let databases = self.client.databases().await?;
                similar(&database, databases.iter().map(String::as_str)).map(|found| format!("{found}.{name}"))
            }
            false => similar(&name, tables.iter().map(String::as_str)).map(|found| format!("{database}.{found}")),
        };
        let similar = similar.filter(|similar| *similar != format!("{database}.{name}"));
        Ok(MetastoreError::NoTable { server: self.client.addresses(), database, name, similar }.into())
    }

    /// Returns a table with the names of all databases, or of all tables.
    async fn information(&self, name: &str) -> Result<Arc<dyn TableProvider>> {
        let databases = self.client.databases().await?;
        let columns = match name {
            "schemata" => vec![("schema_name", databases)],
            "tables" => {
                let (mut schemas, mut names) = (Vec::new(), Vec::new());
                for database in databases {
                    let tables = self.client.tables(&database).await?;
                    schemas.extend(std::iter::repeat_n(database, tables.len()));
                    names.extend(tables);
                }
                vec![("table_schema", schemas), ("table_name", names)]
            }
            _ => {
                let (server, database, name) = (self.client.addresses(), Self::INFORMATION.to_owned(), name.to_owned());
                let similar = Some(format!("{database}.tables or {database}.schemata"));
                return Err(Error::from(MetastoreError::NoTable { server, database, name, similar }).into());
            }
        };
        let fields: Vec<_> = columns.iter().map(|(name, _)| Field::new(*name, DataType::Utf8, false)).collect();
        let texts = columns.into_iter().map(|(_, texts)| Arc::new(StringArray::from(texts)) as ArrayRef);
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), texts.collect())?;
        Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
    }
}

impl fmt::Debug for Metastore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Metastore").field(&self.client.addresses()).finish()
    }
}
