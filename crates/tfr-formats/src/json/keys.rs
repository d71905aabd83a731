//! [`Keys`]: which keys of a row are columns.

use std::collections::HashMap;

use crate::names::ColumnNames;

/// The keys of rows that are known.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// By name; `None`: a column that nobody wants.
    columns: HashMap<String, Option<u32>>,
    /// The names of the columns wanted.
    wanted: Vec<String>,
    /// The names of columns that stand in the path of the file and must not stand in it too.
    in_path: Vec<String>,
    /// Other keys are passed over instead of being refused.
    open: bool,
    /// What the table calls a key.
    names: ColumnNames,
}

/// What a key stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// One of the columns wanted.
    Column(u32),
    Unwanted,
    Unknown,
    InPath,
}

impl Keys {
    /// Of all `names`, those at `wanted` are read; a key that is none of them is unknown unless this is `open`.
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

    /// Finds a key; `guess` is the column that it probably is.
    pub(super) fn find(&self, key: &str, guess: u32) -> Key {
        if self.wanted.get(guess as usize).is_some_and(|wanted| wanted == key) {
            return Key::Column(guess);
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
            Some(Some(column)) => Key::Column(*column),
            Some(None) => Key::Unwanted,
            None if self.in_path.iter().any(|column| column == key) => Key::InPath,
            None if self.open => Key::Unwanted,
            None => Key::Unknown,
        }
    }
}
