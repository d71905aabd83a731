//! Reads files as one table in Apache DataFusion, whatever their format: a file, a directory, a pattern, or a list of
//! these.
//!
//! | task | use |
//! |---|---|
//! | List the files there, with the columns of `key=value` directories | [`Listing`] |
//! | List the files that the metadata of a table format names | [`TableFiles`], and a [`Listing`] of them |
//! | Read these files as a table | [`DirectoryTable`], with any [`FileFormat`] |
//! | Implement another format | [`FileReader`], and [`ReaderFormat`] over it |
//! | Access `s3://`, `gs://`, `az://`, `https://`, `hdfs://` | [`SessionStores`], the session's registry |
//! | Run `SELECT ... FROM files('images/**/*.jpg')` | [`FilesFunction`] |
//! | Refuse what is outside of some directories and URLs | [`Door`](tfr_stores::Door) on the session's configuration, and in its stores |
//! | Report doubtful values before they are published | [`Findings`] on the session's configuration |
//! | Limit the size of batches within a memory limit | [`memory`] |
//!
//! DataFusion's `ListingTable` reads hidden files, fails on `_SUCCESS` and does not support null partitions. A
//! [`DirectoryTable`] reads directories as Hive, Spark and pandas write them, and names the file in every error.
//!
//! ```
//! # use std::sync::Arc;
//! # use datafusion::datasource::file_format::parquet::ParquetFormat;
//! # use datafusion::prelude::SessionContext;
//! use tfr_files::{DirectoryTable, Listing};
//! use tfr_stores::Location;
//!
//! # async fn register(ctx: &SessionContext) -> Result<(), Box<dyn std::error::Error>> {
//! let state = ctx.state();
//! let listing = Listing::list(&state, &[Location::parse("events/dt=2026-*/")?]).await?;
//! let table = DirectoryTable::try_new(&state, listing, Arc::new(ParquetFormat::default())).await?;
//! ctx.register_table("events", Arc::new(table))?;
//! # Ok(())
//! # }
//! ```
//!
//! [`FileFormat`]: datafusion_datasource::file_format::FileFormat

mod compressed_names;
mod error;
pub mod files;
mod findings;
mod listing;
pub mod memory;
pub mod planned;
pub mod scan;
pub mod schema;
mod session;
mod table;
mod table_files;
mod unchanged;
mod used;

pub use compressed_names::named_compression;
pub use error::{Error, ErrorKind, Result, Skipped};
pub use files::FilesFunction;
pub use findings::{Finding, Findings};
pub use listing::{
    FoundFiles, FoundObjects, Listing, Objects, OwnedFiles, Owner, PartitionColumns, TableFormat, files_of_directory,
    find_files, list_directory, store_of, text_of_length,
};
pub use scan::{FileReader, GuardedSource, ReaderFormat, ScanHooks};
pub use schema::{ExactAdapterFactory, unreadable, unreadable_field, warn_of_names_by_case};
pub use session::{SessionStores, door_of};
pub use table::DirectoryTable;
pub use table_files::{
    AcidColumns, ColumnInFiles, ColumnsInFiles, DataFormat, DeletedRows, FilesWithoutIds, FoundBy, TableFile,
    TableFiles, TableVersion,
};
pub use tfrecord_shards::NULL_PARTITION;
pub use unchanged::{LocalFile, OpenFile, UnchangedFiles};
pub use used::UsedColumns;
