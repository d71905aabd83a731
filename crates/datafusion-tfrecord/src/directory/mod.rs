//! Files in a directory as a table: our own listing over any DataFusion [`FileFormat`].
//!
//! [`Location`] is what the user wrote, [`Listing`] the files found there, [`DirectoryTable`] the table over them.
//! DataFusion's `ListingTable` reads hidden files, stumbles over `_SUCCESS` and cannot hold a null partition; this one
//! reads directories as Hive, Spark and pandas leave them and names the file in every error.
//!
//! ```
//! # use std::sync::Arc;
//! # use datafusion::datasource::file_format::parquet::ParquetFormat;
//! # use datafusion::prelude::SessionContext;
//! use datafusion_tfrecord::directory::{DirectoryTable, Listing, Location};
//!
//! # async fn register(ctx: &SessionContext) -> datafusion::error::Result<()> {
//! let state = ctx.state();
//! let listing = Listing::list(&state, &[Location::parse("events/dt=2026-*/")?]).await?;
//! let table = DirectoryTable::try_new(&state, listing, Arc::new(ParquetFormat::default())).await?;
//! ctx.register_table("events", Arc::new(table))?;
//! # Ok(())
//! # }
//! ```
//!
//! [`FileFormat`]: datafusion_datasource::file_format::FileFormat

mod adapter;
mod common_type;
mod convert;
mod error;
mod guard;
pub(crate) mod listing;
mod location;
mod location_text;
mod objects;
mod owner;
mod partition;
mod path_columns;
mod read_ahead;
pub(crate) mod schema;
mod table;
mod table_format;
mod unreadable;
pub(crate) mod walk;

pub use adapter::ExactAdapterFactory;
pub use common_type::{LeafRule, TypeConflict, common_type, common_type_or};
pub use convert::{UnfitValue, can_convert, convert};
pub use error::{Error, ErrorKind, Result, SkipReason, Skipped};
pub use guard::{Diagnosis, GuardedSource, RewriteExpr};
pub use listing::Listing;
pub use location::{FileNames, Location, query_of_store, user_of_store};
pub use location_text::{LocationText, redacted};
pub use objects::{FoundObjects, Objects};
pub use owner::{OwnedFiles, Owner};
pub use partition::PartitionColumns;
pub use read_ahead::ReadAhead;
pub use schema::{NamesByCase, names_by_case, warn_of_names_by_case};
pub use table::DirectoryTable;
pub use table_format::TableFormat;
pub use unreadable::{unreadable, unreadable_field};
