//! Scans of files.

mod file_name;
pub(crate) mod guard;
mod hooks;
mod known;
pub(crate) mod read_ahead;
mod reader;
pub(crate) mod store;

pub use guard::GuardedSource;
pub use hooks::ScanHooks;
pub(crate) use known::{known_text, with_known};
pub use reader::{Batches, Division, FileReader, FilterUse, ReaderFormat, Scan};
pub use store::store_of_scan;
