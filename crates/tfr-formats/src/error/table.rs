//! [`TableError`]: why a table of a table format cannot be read.

use arrow_schema::DataType;
use tfr_files::DataFormat;

/// Why a table whose metadata determines its files cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The metadata of a table or one of its files is missing, damaged or not supported, or the table does not have what
    /// was asked for.
    #[error("{place}: {problem}")]
    Unusable {
        /// The table or the file.
        place: String,
        /// What is wrong with it.
        problem: String,
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
    /// Directories of a table were replaced while they were listed.
    #[error("{directory}: its directories were replaced while they were listed")]
    ReplacedMeanwhile {
        /// The directory of the table or the partition.
        directory: String,
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
}

impl TableError {
    /// Returns the error of a table or a file that cannot be used.
    pub(crate) fn unusable(place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Unusable { place: place.into(), problem: problem.into() }
    }

    /// Returns the error of a file that the metadata of a table lists, and that does not exist.
    pub(crate) fn missing(file: String, table: &str) -> Self {
        Self::unusable(file, format!("no such file, but the metadata of the table {table} lists it"))
    }

    /// Returns the error of a file without the ids by which its table finds columns.
    pub(crate) fn without_ids(file: &str) -> Self {
        Self::unusable(file, "the table finds its columns by ids, but the file does not record them")
    }

    /// Returns the error of a file whose deletion vector is damaged.
    pub(crate) fn deletion_vector(file: &str, vector: &str, reason: &str) -> Self {
        Self::unusable(file, format!("its deletion vector in {vector} is damaged: {reason}"))
    }
}
