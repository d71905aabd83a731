//! Merges the schemas of files into one, and converts their values.

pub(crate) mod adapter;
pub(crate) mod extension;
pub(crate) mod merge;
pub(crate) mod path_columns;
pub(crate) mod unreadable;

pub use adapter::ExactAdapterFactory;
pub use extension::only_extension;
pub use merge::{Joining, check_path_columns, merge, warn_of_names_by_case};
pub use unreadable::{unreadable, unreadable_field};
