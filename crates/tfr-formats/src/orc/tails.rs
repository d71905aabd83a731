//! [`Tails`]: caches the tails of a table's files.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};
use tfr_files::{ColumnsInFiles, Findings, FoundBy};
use tfr_stores::FileNames;

use super::tail::Tail;
use super::types::{TimestampUnit, TypeRules};
use crate::calendar::{CalendarOption, note};
use crate::error::{Error, ErrorKind, Result};
use crate::mapped::names_in_table;
use crate::names::ColumnNames;

/// The tails of a table's files, which its schema, its statistics and its scans share.
#[derive(Debug)]
pub(super) struct Tails {
    names: FileNames,
    rules: TypeRules,
    calendar: CalendarOption,
    columns: ColumnNames,
    /// Whether the declared columns are those of a file in their order, whatever their names.
    by_position: bool,
    /// Collects the counts of ambiguous values.
    findings: Option<Arc<Findings>>,
    known: Mutex<HashMap<Path, (ObjectMeta, Arc<Tail>)>>,
}

impl Tails {
    pub(super) fn new(
        names: FileNames,
        unit: Option<TimestampUnit>,
        by_position: bool,
        calendar: CalendarOption,
        columns: ColumnNames,
        findings: Option<Arc<Findings>>,
    ) -> Self {
        // Only tables with ids have files with such attributes.
        let mapped = columns.mapped();
        let attributes = mapped.is_some_and(|columns| columns.by == FoundBy::Id);
        let acid = mapped.map(|columns| columns.acid).unwrap_or_default();
        let rules = TypeRules { unit, attributes, acid };
        Self { names, rules, calendar, columns, by_position, findings, known: Mutex::default() }
    }

    /// Returns where ambiguous values are counted, if that was requested.
    pub(super) fn findings(&self) -> Option<&Arc<Findings>> {
        self.findings.as_ref()
    }

    /// Adds a note if some of these columns may have ambiguous values in these files, by the tails fetched so far.
    pub(super) fn note_doubts(&self, files: &[&ObjectMeta], is_read: impl Fn(&str) -> bool) {
        let Some(findings) = &self.findings else { return };
        let (mut reason, mut noted, mut columns) = (None, Vec::new(), Vec::new());
        for file in files {
            let Some((_, tail)) = self.known().get(&file.location).cloned() else { continue };
            for (name, column) in self.column_names(&tail).into_iter().zip(&tail.columns) {
                let found = column.watched.leaves.iter().find_map(|watch| watch.reason()).filter(|_| is_read(&name));
                if found.is_some() {
                    reason = found;
                    noted.push(self.name(file));
                    columns.push(name);
                }
            }
        }
        if let Some(reason) = reason {
            findings.note(note(reason.describe(), noted, columns));
        }
    }

    /// Returns a file's name for messages.
    pub(super) fn name(&self, file: &ObjectMeta) -> String {
        self.names.name(&file.location)
    }

    /// Returns the tail of a file, fetching it once.
    pub(super) async fn get(&self, store: &Arc<dyn ObjectStore>, file: &ObjectMeta) -> Result<Arc<Tail>> {
        if let Some((_, tail)) = self.known().get(&file.location).filter(|(meta, _)| meta == file) {
            return Ok(Arc::clone(tail));
        }
        let tail = Arc::new(Tail::fetch(store, file, &self.name(file), self.rules, &self.calendar).await?);
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

    /// Whether digits of timestamps beyond a microsecond are cut off.
    pub(super) fn cuts_timestamps(&self) -> bool {
        self.rules.unit == Some(TimestampUnit::MicrosecondCut)
    }

    /// Returns how the columns are found, where the metadata of a table determines it.
    pub(super) fn mapped(&self) -> Option<&Arc<ColumnsInFiles>> {
        self.columns.mapped()
    }

    /// Returns the declared columns behind those of a file, if columns are found by position. They are null: the table got
    /// them after the file was written.
    pub(super) fn later_columns(&self, tail: &Tail) -> &[String] {
        let declared = self.columns.declared().filter(|_| self.by_position).unwrap_or_default();
        declared.get(tail.columns.len()..).unwrap_or_default()
    }

    /// Returns the table's names for the columns of a file. Hive before version 2 named them `_col0`, `_col1`, ...;
    /// such columns get the declared names, in order.
    pub(super) fn column_names(&self, tail: &Tail) -> Vec<String> {
        if let Some(columns) = self.mapped() {
            let names = names_in_table(columns, tail.schema().fields()).into_iter().zip(&tail.columns);
            // Such a name is in no table.
            return names.map(|(name, column)| name.unwrap_or_else(|| format!("\0{}", column.name))).collect();
        }
        if let Some(declared) = self.columns.declared().filter(|_| self.by_position) {
            let named = tail.columns.iter().enumerate();
            // Such a name is in no table.
            return named
                .map(|(index, column)| declared.get(index).cloned().unwrap_or_else(|| format!("\0{}", column.name)))
                .collect();
        }
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
