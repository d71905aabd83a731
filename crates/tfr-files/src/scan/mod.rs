//! Scans of files.

mod file_name;
pub(crate) mod guard;
pub(crate) mod read_ahead;
mod reader;
pub(crate) mod store;

pub use guard::{Diagnosis, GuardedSource, Rebind, RewriteExpr};
pub use read_ahead::ReadAhead;
pub use reader::{Batches, Division, FileReader, FilterUse, ReaderFormat, Scan};
pub use store::store_of_scan;
