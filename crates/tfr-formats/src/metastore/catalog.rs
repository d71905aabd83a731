//! What a metastore records about databases, tables and partitions.

use std::collections::BTreeMap;

use super::client::{Client, first_line};
use super::thrift::{Struct, Value};
use crate::error::{Error, MetastoreError, Result};

/// The name of the catalog in queries: `hive.database.table`.
pub(super) const CATALOG: &str = "hive";

/// `ClientCapability.INSERT_ONLY_TABLES`: servers refuse insert-only tables to clients without it.
const INSERT_ONLY_TABLES: i32 = 2;

/// How many partitions are asked for at once. One has some kilobytes.
const PARTITIONS_AT_ONCE: usize = 500;

/// A column, or a key of partitions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HiveColumn {
    /// The name, in lower case.
    pub name: String,
    /// The type in Hive's words: `array<string>`.
    pub hive_type: String,
}

/// Where the rows of a table or a partition are, and how they are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Storage {
    /// The columns, without the keys of partitions.
    pub columns: Vec<HiveColumn>,
    /// The directory, as the metastore has it.
    pub location: Option<String>,
    /// The class that reads records: `org.apache.hadoop.mapred.TextInputFormat`.
    pub input_format: String,
    /// The class that reads the columns of a record.
    pub serde: String,
    /// The properties of that class.
    pub serde_properties: BTreeMap<String, String>,
}

/// A table as a metastore records it.
#[derive(Debug, Clone, Default)]
pub struct RecordedTable {
    /// The database.
    pub database: String,
    /// The name.
    pub name: String,
    /// `MANAGED_TABLE`, `EXTERNAL_TABLE`, `VIRTUAL_VIEW` or `MATERIALIZED_VIEW`.
    pub table_type: String,
    /// Where its rows are. Partitions have their own.
    pub storage: Storage,
    /// The keys of its partitions.
    pub keys: Vec<HiveColumn>,
    /// Its properties.
    pub properties: BTreeMap<String, String>,
    /// The query of a view.
    pub view: Option<String>,
}

/// A partition as a metastore records it.
#[derive(Debug, Clone)]
pub struct RecordedPartition {
    /// The value of each key, as text.
    pub values: Vec<String>,
    /// Where its rows are.
    pub storage: Storage,
}

impl Storage {
    fn of(mut fields: Struct) -> Self {
        let columns = columns(&mut fields, 1);
        let (location, input_format) = (fields.text(2).filter(|text| !text.is_empty()), fields.text(3));
        let mut serde = fields.structure(7);
        Self {
            columns,
            location,
            input_format: input_format.unwrap_or_default(),
            serde: serde.text(2).unwrap_or_default(),
            serde_properties: serde.properties(3),
        }
    }
}

fn columns(fields: &mut Struct, number: i16) -> Vec<HiveColumn> {
    let column = |mut fields: Struct| HiveColumn {
        name: fields.text(1).unwrap_or_default().to_lowercase(),
        hive_type: fields.text(2).unwrap_or_default(),
    };
    fields.structs(number).map(column).collect()
}

impl RecordedTable {
    fn of(mut fields: Struct) -> Self {
        Self {
            name: fields.text(1).unwrap_or_default(),
            database: fields.text(2).unwrap_or_default(),
            storage: Storage::of(fields.structure(7)),
            keys: columns(&mut fields, 8),
            properties: fields.properties(9),
            view: fields.text(10).filter(|text| !text.is_empty()),
            table_type: fields.text(12).unwrap_or_default(),
        }
    }
}

impl Client {
    /// Returns the names of all databases.
    pub async fn databases(&self) -> Result<Vec<String>> {
        let mut result = self.call("get_all_databases", Struct::default()).await?;
        self.refuse("get_all_databases", &mut result)?;
        Ok(result.texts(0))
    }

    /// Returns the names of all tables and views of a database; none if there is no such database.
    pub async fn tables(&self, database: &str) -> Result<Vec<String>> {
        let mut result = self.call("get_all_tables", Struct::of([(1, database.into())])).await?;
        self.refuse("get_all_tables", &mut result)?;
        Ok(result.texts(0))
    }

    /// Returns a table; `None` if there is none of this name.
    pub async fn table(&self, database: &str, name: &str) -> Result<Option<RecordedTable>> {
        /// The exception for a table or a database that does not exist.
        const NO_SUCH_OBJECT: i16 = 2;
        let capabilities = Struct::of([(1, Value::List(vec![Value::I32(INSERT_ONLY_TABLES)]))]);
        let request = [(1, database.into()), (2, name.into()), (3, Value::Struct(capabilities))];
        let arguments = Struct::of([(1, Value::Struct(Struct::of(request)))]);
        let mut result = self.call("get_table_req", arguments).await?;
        if result.take(NO_SUCH_OBJECT).is_some() {
            return Ok(None);
        }
        self.refuse("get_table_req", &mut result)?;
        Ok(Some(RecordedTable::of(result.structure(0).structure(1))))
    }

    /// Returns the partitions of a table: all of them, or those that satisfy a filter.
    pub async fn partitions(&self, table: &RecordedTable, filter: Option<&str>) -> Result<Vec<RecordedPartition>> {
        let of_table = || [(1, table.database.as_str().into()), (2, table.name.as_str().into())];
        let Some(filter) = filter else {
            // In parts: all of them may be more than an answer can have.
            let arguments = of_table().into_iter().chain([(3, Value::I16(-1))]);
            let mut result = self.call("get_partition_names", Struct::of(arguments)).await?;
            self.refuse("get_partition_names", &mut result)?;
            let (names, mut partitions) = (result.texts(0), Vec::new());
            for names in names.chunks(PARTITIONS_AT_ONCE) {
                let names = Value::List(names.iter().map(|name| name.as_str().into()).collect());
                let method = "get_partitions_by_names";
                let mut result = self.call(method, Struct::of(of_table().into_iter().chain([(3, names)]))).await?;
                partitions.extend(self.partitions_in(method, &mut result, table)?);
            }
            return match partitions.len() == names.len() {
                true => Ok(partitions),
                false => Err(self.damaged(format!("{} of {} partitions", partitions.len(), names.len()))),
            };
        };
        let arguments = of_table().into_iter().chain([(3, filter.into()), (4, Value::I16(-1))]);
        let mut result = self.call("get_partitions_by_filter", Struct::of(arguments)).await?;
        self.partitions_in("get_partitions_by_filter", &mut result, table)
    }

    fn partitions_in(
        &self,
        method: &'static str,
        result: &mut Struct,
        table: &RecordedTable,
    ) -> Result<Vec<RecordedPartition>> {
        self.refuse(method, result)?;
        let partition = |mut fields: Struct| RecordedPartition {
            values: fields.texts(1),
            storage: Storage::of(fields.structure(6)),
        };
        let partitions: Vec<_> = result.structs(0).map(partition).collect();
        match partitions.iter().find(|partition| partition.values.len() != table.keys.len()) {
            Some(other) => {
                Err(self.damaged(format!("a partition of {} with {} values", table.name, other.values.len())))
            }
            None => Ok(partitions),
        }
    }

    /// Returns an exception that the method declares as an error.
    fn refuse(&self, method: &'static str, result: &mut Struct) -> Result<()> {
        let Some(number) = result.numbers().find(|number| *number != 0) else { return Ok(()) };
        let message = result.structure(number).text(1).unwrap_or_default();
        let (server, message) = (self.addresses(), first_line(&message));
        Err(MetastoreError::Exception { server, method, message }.into())
    }

    fn damaged(&self, found: String) -> Error {
        MetastoreError::Answer { server: self.addresses(), found }.into()
    }
}
