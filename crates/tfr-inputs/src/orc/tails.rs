//! [`Tails`]: the tails of the files of a table, each fetched once.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion_tfrecord::directory::FileNames;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};

use super::tail::Tail;
use super::types::TimestampUnit;
use crate::error::{Error, ErrorKind, Result};
use crate::names::ColumnNames;

/// The tails of the files of a table: its schema, its statistics and its scans want the same.
#[derive(Debug)]
pub(super) struct Tails {
    names: FileNames,
    unit: Option<TimestampUnit>,
    columns: ColumnNames,
    known: Mutex<HashMap<Path, (ObjectMeta, Arc<Tail>)>>,
}

impl Tails {
    pub(super) fn new(names: FileNames, unit: Option<TimestampUnit>, columns: ColumnNames) -> Self {
        Self { names, unit, columns, known: Mutex::default() }
    }

    /// How messages call a file.
    pub(super) fn name(&self, file: &ObjectMeta) -> String {
        self.names.name(&file.location)
    }

    /// The tail of a file.
    pub(super) async fn get(&self, store: &Arc<dyn ObjectStore>, file: &ObjectMeta) -> Result<Arc<Tail>> {
        if let Some((_, tail)) = self.known().get(&file.location).filter(|(meta, _)| meta == file) {
            return Ok(Arc::clone(tail));
        }
        let tail = Arc::new(Tail::fetch(store, file, &self.name(file), self.unit).await?);
        let mut names = HashSet::new();
        if let Some(column) = self.column_names(&tail).into_iter().find(|name| !names.insert(name.clone())) {
            return Err(Error::from(ErrorKind::DuplicateColumn { file: self.name(file), column }));
        }
        self.known().insert(file.location.clone(), (file.clone(), Arc::clone(&tail)));
        Ok(tail)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<Path, (ObjectMeta, Arc<Tail>)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the table calls the columns of a file. Where these have no names but `_col0`, `_col1`, ..., as Hive wrote
    /// before version 2, that is what was declared, in its order.
    pub(super) fn column_names(&self, tail: &Tail) -> Vec<String> {
        let mut numbered = tail.columns.iter().enumerate();
        let has_no_names = numbered.all(|(index, column)| column.name == format!("_col{index}"));
        let declared = self.columns.declared().filter(|_| has_no_names).unwrap_or_default();
        let named = tail.columns.iter().enumerate();
        named
            .map(|(index, column)| match declared.get(index) {
                Some(declared) => declared.clone(),
                None => self.columns.in_table(&column.name),
            })
            .collect()
    }
}
