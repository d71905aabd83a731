//! Merges the schemas of files into one, and converts their values.

pub(crate) mod adapter;
pub(crate) mod common_type;
pub(crate) mod convert;
pub(crate) mod extension;
mod kinds;
pub(crate) mod merge;
pub(crate) mod path_columns;
pub(crate) mod unreadable;

pub use adapter::ExactAdapterFactory;
pub use common_type::{LeafRule, TypeConflict, common_type, common_type_or};
pub use convert::{UnfitValue, can_convert, convert};
pub use extension::only_extension;
pub use merge::{Joining, NamesByCase, check_path_columns, merge, names_by_case, warn_of_names_by_case};
pub use unreadable::{unreadable, unreadable_field};
