//! [`TableError`]: why a table of a table format cannot be read.

use arrow_schema::DataType;
use tfr_files::DataFormat;

/// Why a table whose metadata determines its files cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// A directory that should be a Delta table has no log.
    #[error("{table}: not a Delta table: _delta_log/ has no commit and no checkpoint")]
    NotDelta {
        /// The table.
        table: String,
    },
    /// A table needs something that is not supported.
    #[error("{table}: {format} with {feature} is not supported")]
    Feature {
        /// The table.
        table: String,
        /// What it is: `a Delta table`.
        format: &'static str,
        /// What it needs.
        feature: String,
    },
    /// A directory or a file that should be an Iceberg table cannot be read.
    #[error("{table}: {reason}")]
    NotIceberg {
        /// The table.
        table: String,
        /// The reason.
        reason: String,
    },
    /// A directory has the metadata of an Iceberg table, and is not the table.
    #[error("{directory}: it has the metadata of an Iceberg table, and none of its rows")]
    IcebergMetadata {
        /// The directory.
        directory: String,
    },
    /// An Iceberg table does not have the snapshot.
    #[error("{table}: the Iceberg table has no {asked}: {reason}")]
    IcebergSnapshot {
        /// The table.
        table: String,
        /// What was asked for: `snapshot 5`.
        asked: String,
        /// The reason.
        reason: String,
    },
    /// A Delta table does not have the version.
    #[error("{table}: the Delta table has no version {asked}; its newest is {newest}")]
    DeltaVersion {
        /// The table.
        table: String,
        /// The version.
        asked: u64,
        /// The newest version.
        newest: u64,
    },
    /// A Delta table has no version of a time.
    #[error("{table}: the Delta table has no version of {asked}: {reason}")]
    DeltaTime {
        /// The table.
        table: String,
        /// The time.
        asked: String,
        /// The reason.
        reason: String,
    },
    /// The metadata of a table has a text for a partition column that is not a value of the column's type.
    #[error("{file}: the log has {value:?} for partition column \"{column}\", which is not a value of type {expected}")]
    PartitionValue {
        /// The file whose rows would have the value.
        file: String,
        /// The column.
        column: String,
        /// The text.
        value: String,
        /// The column's type.
        expected: DataType,
    },
    /// The newest versions of a Delta table are missing.
    #[error("{table}: `_last_checkpoint` names version {checkpoint} of the Delta table, but its log ends at {newest}")]
    DeltaEnd {
        /// The table.
        table: String,
        /// The version of the checkpoint.
        checkpoint: u64,
        /// The newest version in the log.
        newest: u64,
    },
    /// The log of a Delta table lacks the commit of a version.
    #[error("{table}: the log of the Delta table lacks version {version}, and no complete checkpoint follows it")]
    DeltaCommit {
        /// The table.
        table: String,
        /// The version.
        version: u64,
    },
    /// The metadata of a table names a path that cannot be used.
    #[error("{table}: {format} names the file {path:?}: {reason}")]
    Path {
        /// The table.
        table: String,
        /// What it is: `a Delta table`.
        format: &'static str,
        /// The path.
        path: String,
        /// The reason.
        reason: String,
    },
    /// A file is not as its table needs it.
    #[error("{file}: damaged file of {format}: {reason}")]
    Damaged {
        /// The file.
        file: String,
        /// What the table is: `a Delta table`.
        format: &'static str,
        /// The defect.
        reason: String,
    },
    /// Directories of a table were replaced while they were listed.
    #[error("{directory}: its directories were replaced while they were listed")]
    ReplacedMeanwhile {
        /// The directory of the table or the partition.
        directory: String,
    },
    /// The deleted rows of a file cannot be determined.
    #[error("{file}: its deletion vector in {vector} is damaged: {reason}")]
    DeletionVector {
        /// The data file.
        file: String,
        /// The file with the vector, or the log.
        vector: String,
        /// The defect.
        reason: String,
    },
    /// A file that the metadata of a table names does not exist.
    #[error("{file}: no such file, but the metadata of the table {table} lists it")]
    MissingInTable {
        /// The file.
        file: String,
        /// The table.
        table: String,
    },
    /// A file has other rows than the metadata of its table records.
    #[error("{file}: it has {found} rows, but the metadata of its table records {recorded}")]
    RowsDisagree {
        /// The file.
        file: String,
        /// The number of rows.
        found: u64,
        /// What the metadata records.
        recorded: String,
    },
    /// Several columns of a file could be one of the table.
    #[error("{file}: column \"{column}\" of the table could be any of {}", .found.join(", "))]
    AmbiguousColumn {
        /// The file.
        file: String,
        /// The column of the table.
        column: String,
        /// The columns of the file.
        found: Vec<String>,
    },
    /// A file has a column in a type whose values are not those of the table's type.
    #[error("{file}: column \"{column}\": the table has {expected}, but the file {found}")]
    TypeInFile {
        /// The file.
        file: String,
        /// The column of the table.
        column: String,
        /// Its type.
        expected: DataType,
        /// The type in the file.
        found: DataType,
    },
    /// A file that describes a Hugging Face data set is damaged, or describes more than is read.
    #[error("{file}: cannot read the data set: {reason}")]
    HuggingFace {
        /// The file.
        file: String,
        /// The defect.
        reason: String,
    },
    /// A table does not have the split.
    #[error(
        "{table}: no split {split:?}; {}",
        if known.is_empty() { "it has no splits".to_owned() } else { format!("the splits are {}", known.join(", ")) }
    )]
    NoSplit {
        /// The table.
        table: String,
        /// The split.
        split: String,
        /// The splits that it has.
        known: Vec<String>,
    },
    /// The files of a table have several formats.
    #[error(
        "{file}: it is {found}, but other files of the table {table} are {expected}: such tables are not supported"
    )]
    SeveralFormats {
        /// The file.
        file: String,
        /// Its format.
        found: DataFormat,
        /// The table.
        table: String,
        /// The format of the files before it.
        expected: DataFormat,
    },
    /// A file lacks a column whose values nothing else determines.
    #[error("{file}: it has no column \"{column}\", whose values its table does not record otherwise")]
    LacksColumn {
        /// The file.
        file: String,
        /// The column of the table.
        column: String,
    },
    /// A file lacks the ids by which a table finds its columns.
    #[error("{file}: the table finds its columns by ids, but the file does not record them")]
    NoFieldIds {
        /// The file.
        file: String,
    },
}
