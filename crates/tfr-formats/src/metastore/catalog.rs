//! What a metastore records about databases, tables and partitions.

use std::collections::BTreeMap;

use super::client::{Client, first_line};
use super::thrift::{Struct, Value};
use crate::error::{Error, MetastoreError, Result};
use crate::hive_acid::{AcidSnapshot, Transactions, WriteIds};

/// The name of the catalog in queries: `hive.database.table`.
pub(super) const CATALOG: &str = "hive";

/// The property of tables whose changes are transactions.
pub(super) const TRANSACTIONAL: &str = "transactional";

/// `ClientCapability.INSERT_ONLY_TABLES`: servers refuse insert-only tables to clients without it.
const INSERT_ONLY_TABLES: i32 = 2;

/// The first version of Hive whose metastore answers about transactions without a list of those that the client knows.
const TRANSACTIONS_SINCE: u32 = 4;

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

    /// Whether its changes are those of transactions.
    pub fn is_transactional(&self) -> bool {
        self.property(TRANSACTIONAL).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// Returns a property, whose name may have any case.
    pub fn property(&self, name: &str) -> Option<&str> {
        let found = self.properties.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
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

    /// Returns what of a transactional table was committed. The transactions are those from before its write ids, so that a
    /// compaction that ends meanwhile is not taken for a part of them.
    ///
    /// # Errors
    /// The server is older than Hive 4, or its answer is not valid.
    pub(crate) async fn snapshot(&self, table: &RecordedTable) -> Result<AcidSnapshot> {
        let version = self.call("getVersion", Struct::default()).await?.text(0).unwrap_or_default();
        let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        if major.is_none_or(|major| major < TRANSACTIONS_SINCE) {
            let (server, table) = (self.addresses(), format!("{CATALOG}.{}.{}", table.database, table.name));
            return Err(MetastoreError::Transactions { server, table, version }.into());
        }
        let mut result = self.call("get_open_txns", Struct::default()).await?;
        self.refuse("get_open_txns", &mut result)?;
        let mut answer = result.structure(0);
        let high = self.number(&mut answer, 1)?;
        let transactions = Transactions::new(high, self.numbers(&mut answer, 2)?);

        let name = format!("{}.{}", table.database, table.name);
        let names = Value::List(vec![name.as_str().into()]);
        let request = Value::Struct(Struct::of([(1, names)]));
        let mut result = self.call("get_valid_write_ids", Struct::of([(1, request)])).await?;
        self.refuse("get_valid_write_ids", &mut result)?;
        let mut answer = result.structure(0);
        let mut tables = answer.structs(1);
        let (Some(mut answer), None) = (tables.next(), tables.next()) else {
            return Err(self.damaged(format!("write ids, but not those of {name} alone")));
        };
        if answer.text(1).is_none_or(|of| !of.eq_ignore_ascii_case(&name)) {
            return Err(self.damaged(format!("write ids, but not those of {name}")));
        }
        let high = self.number(&mut answer, 2)?;
        let invalid = self.numbers(&mut answer, 3)?;
        let lowest_open = match answer.take(4) {
            Some(Value::I64(id)) => id,
            _ => i64::MAX,
        };
        let Some(Value::Bytes(bits)) = answer.take(5) else {
            return Err(self.damaged(format!("write ids of {name} without those that were aborted")));
        };
        // A bit for each of the others, from the lowest bit of the first byte on.
        let is_aborted = |index: usize| bits.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1);
        let (aborted, open): (Vec<_>, Vec<_>) =
            invalid.into_iter().enumerate().partition(|(index, _)| is_aborted(*index));
        let only = |ids: Vec<(usize, i64)>| ids.into_iter().map(|(_, id)| id).collect();
        let ids = WriteIds::new(name.clone(), high, lowest_open, only(open), only(aborted));
        let ids = ids.map_err(|expected| self.damaged(format!("write ids of {name} without {expected}")))?;
        Ok(AcidSnapshot { ids, transactions: Some(transactions) })
    }

    fn number(&self, answer: &mut Struct, number: i16) -> Result<i64> {
        match answer.take(number) {
            Some(Value::I64(value)) => Ok(value),
            _ => Err(self.damaged(format!("no number as field {number}"))),
        }
    }

    fn numbers(&self, answer: &mut Struct, number: i16) -> Result<Vec<i64>> {
        let items = answer.list(number).into_iter().map(|item| match item {
            Value::I64(value) => Ok(value),
            _ => Err(self.damaged(format!("no list of numbers as field {number}"))),
        });
        items.collect()
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
        Err(MetastoreError::failed(self.addresses(), method, &first_line(&message)).into())
    }

    fn damaged(&self, found: String) -> Error {
        MetastoreError::invalid(self.addresses(), &found).into()
    }
}
