//! [`Keys`]: maps the keys of a row to columns.

use std::collections::HashMap;

use crate::names::ColumnNames;

/// The known keys of rows.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// Columns by name; `None`: not requested.
    columns: HashMap<String, Option<u32>>,
    /// The names of the requested columns.
    wanted: Vec<String>,
    /// The names of partition columns, which must not also be in the file.
    in_path: Vec<String>,
    /// Whether unknown keys are ignored instead of rejected.
    open: bool,
    /// Maps keys to the table's column names.
    names: ColumnNames,
}

/// The result of looking up a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoundKey {
    /// A requested column.
    Column(u32),
    Unwanted,
    Unknown,
    InPath,
}

impl Keys {
    /// Of all `names`, those at `wanted` are read. Other keys are unknown, and ignored if `open`.
    pub(super) fn new(
        names: &[&str],
        wanted: &[usize],
        in_path: Vec<String>,
        open: bool,
        names_of_table: ColumnNames,
    ) -> Self {
        let mut columns: HashMap<_, _> = names.iter().map(|name| ((*name).to_owned(), None)).collect();
        let wanted: Vec<String> = wanted.iter().map(|index| names[*index].to_owned()).collect();
        for (position, name) in (0..).zip(&wanted) {
            columns.insert(name.clone(), Some(position));
        }
        Self { columns, wanted, in_path, open, names: names_of_table }
    }

    /// Looks up a key; `guess` is the column that probably matches.
    pub(super) fn find(&self, key: &str, guess: u32) -> FoundKey {
        if self.wanted.get(guess as usize).is_some_and(|wanted| wanted == key) {
            return FoundKey::Column(guess);
        }
        let folded;
        let key = match self.names.is_exact() {
            true => key,
            false => {
                folded = self.names.in_table(key);
                &folded
            }
        };
        match self.columns.get(key) {
            Some(Some(column)) => FoundKey::Column(*column),
            Some(None) => FoundKey::Unwanted,
            None if self.in_path.iter().any(|column| column == key) => FoundKey::InPath,
            None if self.open => FoundKey::Unwanted,
            None => FoundKey::Unknown,
        }
    }
}
