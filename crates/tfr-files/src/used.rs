//! [`UsedColumns`]: the columns that a session's queries use, available when a table is opened.

use std::collections::BTreeSet;

/// The columns that a session's queries refer to, as an extension of its configuration.
///
/// Opening a table may read columns to determine their types. Columns with other names are not read. Without the
/// extension all columns are read, and columns that a table lacks may be missed.
///
/// ```
/// use std::sync::Arc;
///
/// use datafusion::prelude::SessionConfig;
/// use tfr_files::UsedColumns;
///
/// let config = SessionConfig::new().with_extension(Arc::new(UsedColumns::new(["id", "created"])));
/// # assert!(config.get_extension::<UsedColumns>().is_some_and(|used| used.contains("ID")));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedColumns(BTreeSet<String>);

impl UsedColumns {
    /// Creates a set of names, compared without case. It may contain names that are not columns.
    pub fn new(names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self(names.into_iter().map(|name| name.as_ref().to_lowercase()).collect())
    }

    /// Whether a column may be used.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains(&name.to_lowercase())
    }
}
