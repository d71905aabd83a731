//! [`Findings`]: doubtful values that scans have found, reported to the user before rows are published.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion_execution::config::SessionConfig;

/// The findings of a session's scans. Register it as an extension of the session's configuration:
///
/// ```
/// # use std::sync::Arc;
/// # use datafusion::prelude::SessionConfig;
/// use tfr_files::Findings;
///
/// let findings = Arc::new(Findings::default());
/// let config = SessionConfig::new().with_extension(Arc::clone(&findings));
/// ```
///
/// Scans add notes when they are planned, and findings while they read. A write logs the findings as warnings after
/// the last row was read and before the shards are published. Callers of queries that write no shards get them from
/// [`unreported`](Self::unreported).
#[derive(Debug, Default)]
pub struct Findings {
    is_strict: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    notes: BTreeSet<String>,
    found: BTreeMap<(String, Option<String>, String), Found>,
}

#[derive(Debug)]
struct Found {
    finding: Finding,
    is_reported: bool,
}

/// Doubtful values of one column of one file, or damaged records of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file, as messages name it.
    pub file: String,
    /// The column, or the path to the part of one; `None` for whole records.
    pub column: Option<String>,
    /// What is doubtful, as a noun phrase in the plural: `dates before 1582-10-15 in a file that ...`.
    pub what: String,
    /// The first row with such a value, or the first such record, from 0.
    pub row: u64,
    /// The value in that row, or a description of that record.
    pub value: String,
    /// Number of such values read.
    pub count: u64,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, column, what, row, value, count } = self;
        match column {
            Some(column) => write!(f, "{file}: column \"{column}\": {what}: {count}, the first in row {row}: {value}"),
            None => write!(f, "{file}: {what}: {count}, the first: {value}"),
        }
    }
}

/// What a [`Finding`] of damaged records is about.
const DAMAGED_RECORDS: &str = "damaged records passed over";

impl Finding {
    /// Reports damaged records of a file that are passed over: their number so far, and a description of the first, which
    /// is record `row`.
    pub fn damaged_records(file: String, count: u64, row: u64, value: String) -> Self {
        Self { file, column: None, what: DAMAGED_RECORDS.to_owned(), row, value, count }
    }

    fn is_of_damaged_records(&self) -> bool {
        self.column.is_none() && self.what == DAMAGED_RECORDS
    }
}

impl Findings {
    /// Returns the number of damaged records passed over.
    pub fn damaged_records(&self) -> u64 {
        let state = self.state();
        let found = state.found.values().map(|found| &found.finding);
        found.filter(|finding| finding.is_of_damaged_records()).map(|finding| finding.count).sum()
    }

    /// Returns the findings of a session, if it has them.
    pub fn of(config: &SessionConfig) -> Option<Arc<Self>> {
        config.get_extension::<Self>()
    }

    /// Sets whether a scan fails at the first doubtful value.
    pub fn set_strict(&self, is_strict: bool) {
        self.is_strict.store(is_strict, Ordering::Relaxed);
    }

    /// Whether a scan fails at the first doubtful value.
    pub fn is_strict(&self) -> bool {
        self.is_strict.load(Ordering::Relaxed)
    }

    /// Adds a note about a planned scan. Equal notes are kept once.
    pub fn note(&self, note: String) {
        self.state().notes.insert(note);
    }

    /// Removes and returns the notes about planned scans, sorted.
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut self.state().notes).into_iter().collect()
    }

    /// Adds a finding of a batch. Findings in the same column of the same file are merged.
    pub fn add(&self, finding: Finding) {
        self.merge(finding, u64::saturating_add);
    }

    /// Adds a finding whose count is that of its whole scan so far. If several scans read a file, its doubtful values
    /// are counted once.
    pub fn add_running(&self, finding: Finding) {
        self.merge(finding, u64::max);
    }

    fn merge(&self, finding: Finding, total: fn(u64, u64) -> u64) {
        let key = (finding.file.clone(), finding.column.clone(), finding.what.clone());
        let mut state = self.state();
        let Some(found) = state.found.get_mut(&key) else {
            state.found.insert(key, Found { finding, is_reported: false });
            return;
        };
        let count = total(found.finding.count, finding.count);
        if count == found.finding.count {
            return;
        }
        if finding.row < found.finding.row {
            found.finding = finding;
        }
        found.finding.count = count;
        found.is_reported = false;
    }

    /// Removes all findings, because the rows are read again.
    pub fn clear(&self) {
        self.state().found.clear();
    }

    /// Returns all findings, by file and column.
    pub fn all(&self) -> Vec<Finding> {
        self.state().found.values().map(|found| found.finding.clone()).collect()
    }

    /// Returns the findings that this method has not returned yet, by file and column.
    pub fn unreported(&self) -> Vec<Finding> {
        let mut state = self.state();
        let new = state.found.values_mut().filter(|found| !found.is_reported);
        new.map(|found| {
            found.is_reported = true;
            found.finding.clone()
        })
        .collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(row: u64, value: &str, count: u64) -> Finding {
        let (file, column, what) = ("f.orc".to_owned(), Some("d".to_owned()), "odd values".to_owned());
        Finding { file, column, what, row, value: value.to_owned(), count }
    }

    #[test]
    fn findings_of_a_column_add_up_to_the_first_row() {
        let findings = Findings::default();
        findings.add(finding(8192, "b", 2));
        findings.add(finding(3, "a", 1));
        findings.add(finding(9000, "c", 1));
        assert_eq!(findings.all(), [finding(3, "a", 4)]);
        assert_eq!(findings.unreported(), [finding(3, "a", 4)]);
        assert!(findings.unreported().is_empty());
        findings.add(finding(9001, "d", 1));
        assert_eq!(findings.unreported(), [finding(3, "a", 5)]);
        findings.clear();
        assert!(findings.all().is_empty());
    }
}
