//! [`UsedColumns`]: what a session knows of its queries when it opens a table.

use std::collections::BTreeSet;

/// The columns to which the queries of a session refer, as an extension of its configuration.
///
/// Opening a table may read columns to decide their types: see `timestamps` of [`InputOptions`](crate::InputOptions).
/// Columns of other names are spared that. Without the extension all columns are read.
///
/// ```
/// use std::sync::Arc;
///
/// use datafusion::prelude::SessionConfig;
/// use tfr_formats::UsedColumns;
///
/// let config = SessionConfig::new().with_extension(Arc::new(UsedColumns::new(["id", "created"])));
/// # assert!(config.get_extension::<UsedColumns>().is_some_and(|used| used.contains("ID")));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedColumns(BTreeSet<String>);

impl UsedColumns {
    /// Columns of these names, in whatever case. There may be more names than columns.
    pub fn new(names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self(names.into_iter().map(|name| name.as_ref().to_lowercase()).collect())
    }

    /// Whether a column may be used.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains(&name.to_lowercase())
    }
}
