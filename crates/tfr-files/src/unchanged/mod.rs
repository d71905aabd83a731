//! Refuses files that change between the listing of a table and the end of its scan.

mod local;
pub(crate) mod store;

pub use local::{LocalFile, OpenFile};
pub use store::UnchangedFiles;
