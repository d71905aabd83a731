//! Lists files and reads the columns in their paths.

pub(crate) mod listed;
pub(crate) mod local;
pub(crate) mod objects;
pub(crate) mod owner;
pub(crate) mod partition;
pub(crate) mod search;
pub(crate) mod table_format;
mod traversal;

pub use listed::{Listing, store_of};
pub use objects::{FoundObjects, Objects};
pub use owner::OwnedFiles;
pub use partition::{PartitionColumns, text_of_length};
pub use search::{FoundFiles, files_of_directory, find_files, list_directory};
pub use table_format::{Owner, TableFormat};
