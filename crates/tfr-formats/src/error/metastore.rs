//! [`MetastoreError`]: why a table of a Hive Metastore cannot be read.

use arrow_schema::DataType;

use super::hive::HiveRefusal;

/// Why a Hive Metastore, or one of its tables, cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetastoreError {
    /// The address of a metastore is not valid.
    #[error("metastore {address:?}: expected thrift://host:9083, found {reason}")]
    Address {
        /// The address as the user wrote it.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No server of a metastore answers.
    #[error("no metastore answers: {}", servers.iter().map(|(server, problem)| format!("{server}: {problem}")).collect::<Vec<_>>().join("; "))]
    Unreachable {
        /// The servers, each with its last problem.
        servers: Vec<(String, String)>,
    },
    /// A server does not speak Thrift's binary protocol without a further layer.
    #[error("metastore {server}: it speaks {protocol}, which is not supported")]
    Protocol {
        /// The server.
        server: String,
        /// What it speaks: `SASL`.
        protocol: &'static str,
    },
    /// A server has failed, or an answer of it is not valid.
    #[error("metastore {server}: {problem}")]
    Answer {
        /// The server.
        server: String,
        /// The first line of its message, or what was found.
        problem: String,
    },
    /// There is no such table.
    #[error(
        "no table {database}.{name} in the metastore {server}{}",
        similar.as_ref().map(|similar| format!("; did you mean {similar}?")).unwrap_or_default()
    )]
    NoTable {
        /// The servers.
        server: String,
        /// The database.
        database: String,
        /// The table.
        name: String,
        /// A database or a table with a similar name.
        similar: Option<String>,
    },
    /// A table cannot be read, by its classes and properties.
    #[error("{table}: {refusal}")]
    Refused {
        /// The table.
        table: String,
        /// The reason.
        refusal: HiveRefusal,
        /// The query of a view.
        view: Option<String>,
    },
    /// The server cannot be asked what of a transactional table was committed.
    #[error("{table}: it is transactional, and the metastore {server} is of Hive {version}; Hive 4 is supported")]
    Transactions {
        /// The server.
        server: String,
        /// The database and the table.
        table: String,
        /// The version of the server.
        version: String,
    },
    /// What is recorded about a table contradicts itself, or is not complete.
    #[error("{table}: {reason}")]
    Recorded {
        /// The database and the table, or the partition.
        table: String,
        /// The defect.
        reason: String,
    },
    /// A partition has columns that cannot be read as those of the table.
    #[error("{table}: partition {partition} has column \"{column}\" as {found}, and the table as {expected}")]
    PartitionColumn {
        /// The database and the table.
        table: String,
        /// The values of the partition.
        partition: String,
        /// The column of the table.
        column: String,
        /// Its type in the partition.
        found: DataType,
        /// Its type in the table.
        expected: DataType,
    },
}

impl MetastoreError {
    /// Returns the error of an answer that is not valid.
    pub(crate) fn invalid(server: String, found: &str) -> Self {
        Self::Answer { server, problem: format!("an answer is not valid: {found}") }
    }

    /// Returns the error of a call that the server answers with a message of its own, of which the first line is shown.
    pub(crate) fn failed(server: String, method: &str, message: &str) -> Self {
        Self::Answer { server, problem: format!("{method} failed: {message}") }
    }
}
