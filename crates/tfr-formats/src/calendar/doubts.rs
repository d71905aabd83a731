//! [`Doubt`]: values of an unrecorded calendar, counted while a file is read.

use std::ops::Range;
use std::slice::Iter;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, TimeUnit};
use tfr_arrow::nested::{Lists, child_arrays};
use tfr_files::{Finding, Findings};

use super::{GREGORIAN_START, START_OF_RULES};
use crate::error::{Error, ErrorKind, FilePlace, Result};

/// Why old values of a file are ambiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The file does not record a calendar; values are read as proleptic Gregorian.
    NoCalendar,
    /// The file does not record a calendar; values are read as those of the hybrid one, as by the format's own reader.
    TakenForHybrid,
    /// The file uses the hybrid calendar, but does not record the time zone in which its instants are dates.
    NoZone,
}

impl Reason {
    /// Describes the ambiguity of old dates, as a relative clause.
    fn clause(self) -> &'static str {
        match self {
            Self::NoCalendar => "whose calendar the file does not record (read as proleptic Gregorian)",
            Self::TakenForHybrid => "whose calendar the file does not record (read as hybrid)",
            Self::NoZone => "whose time zone the file does not record (read as written in UTC)",
        }
    }

    /// Describes the ambiguity, how values are read and what the user can do, as a sentence.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::NoCalendar => {
                "the file does not record its calendar, and is read as proleptic Gregorian; calendar=proleptic or \
                 calendar=hybrid decides"
            }
            Self::TakenForHybrid => {
                "the file does not record its calendar, and is read as hybrid, as Spark and Hive read it; \
                 calendar=proleptic or calendar=hybrid decides"
            }
            Self::NoZone => {
                "the file has the hybrid calendar, but does not record its time zone, and is read as written in UTC; \
                 calendar=hybrid:ZONE decides"
            }
        }
    }
}

/// Which values of a leaf type are ambiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watch {
    /// None.
    Nothing,
    /// Dates, and timestamps without time zone, before 1582-10-15.
    Julian(Reason),
    /// Instants before 1900. Before 1582-10-15 the calendars differ, and after that Java's two sets of time zone rules
    /// (see [`JavaZone`](super::JavaZone)).
    Instants(Reason),
}

impl Watch {
    pub(crate) fn reason(self) -> Option<Reason> {
        match self {
            Self::Nothing => None,
            Self::Julian(reason) | Self::Instants(reason) => Some(reason),
        }
    }

    /// Returns the first unambiguous value, in seconds since 1970.
    pub(crate) fn end(self) -> i64 {
        match self {
            Self::Nothing => i64::MIN,
            Self::Julian(_) => GREGORIAN_START * 86_400,
            Self::Instants(_) => START_OF_RULES,
        }
    }
}

/// A column, and which values of each leaf of its type are ambiguous.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) column: String,
    pub(crate) leaves: Vec<Watch>,
}

/// Ambiguous values of one column in one batch.
#[derive(Debug)]
pub(crate) struct Doubt {
    /// The row in the batch, or its number in the file.
    row: u64,
    value: String,
    count: u64,
    watch: Watch,
}

/// Whether a batch of a column has ambiguous values. This is a fast check with false positives: it also examines values
/// below nulls.
pub(crate) fn has_doubts(array: &ArrayRef, leaves: &[Watch]) -> bool {
    has(array, &mut leaves.iter())
}

fn has(array: &dyn Array, leaves: &mut Iter<'_, Watch>) -> bool {
    if array.data_type().is_nested() {
        // Every part consumes its leaves, whatever the result of the others.
        return child_arrays(array).iter().fold(false, |found, part| has(part, leaves) | found);
    }
    match leaves.next() {
        None | Some(Watch::Nothing) => false,
        Some(watch) => {
            let mut leaf = Leaf { watch: *watch, is_doubtful: false };
            leaf.visit(array, |_| true);
            leaf.is_doubtful
        }
    }
}

struct Leaf {
    watch: Watch,
    is_doubtful: bool,
}

impl Leaf {
    /// Visits valid values until `stop` returns whether one is enough.
    fn visit(&mut self, array: &dyn Array, stop: impl FnMut(usize) -> bool) {
        let end = self.watch.end();
        match array.data_type() {
            DataType::Date32 => self.values::<Date32Type>(array, |days| i64::from(days) < end.div_euclid(86_400), stop),
            DataType::Timestamp(TimeUnit::Second, _) => {
                self.values::<TimestampSecondType>(array, |value| value < end, stop);
            }
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                self.values::<TimestampMillisecondType>(array, |value| value < end.saturating_mul(1_000), stop);
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                self.values::<TimestampMicrosecondType>(array, |value| value < end.saturating_mul(1_000_000), stop);
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                self.values::<TimestampNanosecondType>(array, |value| value < end.saturating_mul(1_000_000_000), stop);
            }
            _ => {}
        }
    }

    fn values<T: ArrowPrimitiveType>(
        &mut self,
        array: &dyn Array,
        is_old: impl Fn(T::Native) -> bool,
        mut stop: impl FnMut(usize) -> bool,
    ) {
        let array = array.as_primitive::<T>();
        for (index, value) in array.values().iter().enumerate() {
            if is_old(*value) && array.is_valid(index) {
                self.is_doubtful = true;
                if stop(index) {
                    return;
                }
            }
        }
    }
}

/// Returns the ambiguous values of a batch of a column, one for each kind. `row_of` maps a row of the batch to its
/// number in the file.
pub(crate) fn doubts(array: &ArrayRef, leaves: &[Watch], row_of: impl Fn(usize) -> u64) -> Vec<Doubt> {
    let mut walk = Walk { row_of, found: Vec::new() };
    walk.part(array, None, None, &mut leaves.iter());
    walk.found
}

struct Walk<F> {
    row_of: F,
    found: Vec<Doubt>,
}

impl<F: Fn(usize) -> u64> Walk<F> {
    /// Visits values that are not null and not below a null. `row` is set if all of them belong to one row.
    fn part(
        &mut self,
        array: &dyn Array,
        nulls: Option<&NullBuffer>,
        row: Option<usize>,
        leaves: &mut Iter<'_, Watch>,
    ) {
        let nulls = NullBuffer::union(nulls, array.nulls());
        if let Some(lists) = Lists::of(array) {
            return self.items((array.len(), nulls.as_ref(), row), leaves, lists.items(), |index| lists.range(index));
        }
        match array.data_type() {
            DataType::Union(fields, _) => {
                let union = array.as_union();
                for (id, _) in fields.iter() {
                    self.items((array.len(), nulls.as_ref(), row), leaves, union.child(id), |index| {
                        let start = union.value_offset(index);
                        if union.type_id(index) == id { start..start + 1 } else { 0..0 }
                    });
                }
            }
            nested if nested.is_nested() => {
                for part in child_arrays(array) {
                    self.part(&part, nulls.as_ref(), row, leaves);
                }
            }
            _ => {
                let Some(watch) = leaves.next().filter(|watch| **watch != Watch::Nothing) else { return };
                let mut old = Vec::new();
                Leaf { watch: *watch, is_doubtful: false }.visit(array, |index| {
                    if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(index)) {
                        old.push(index);
                    }
                    false
                });
                for index in old {
                    self.add(array, index, row.unwrap_or(index), *watch);
                }
            }
        }
    }

    /// Visits the items of each row.
    fn items(
        &mut self,
        (len, nulls, row): (usize, Option<&NullBuffer>, Option<usize>),
        leaves: &mut Iter<'_, Watch>,
        items: &dyn Array,
        range: impl Fn(usize) -> Range<usize>,
    ) {
        let before = leaves.clone();
        let has_any = has(items, leaves);
        for index in (0..len).filter(|index| has_any && nulls.is_none_or(|nulls| nulls.is_valid(*index))) {
            let range = range(index);
            self.part(&items.slice(range.start, range.len()), None, Some(row.unwrap_or(index)), &mut before.clone());
        }
    }

    fn add(&mut self, array: &dyn Array, index: usize, row: usize, watch: Watch) {
        let row = (self.row_of)(row);
        let found = match self.found.iter_mut().find(|found| found.watch == watch) {
            Some(found) => found,
            None => {
                self.found.push(Doubt { row: u64::MAX, value: String::new(), count: 0, watch });
                let last = self.found.len() - 1;
                &mut self.found[last]
            }
        };
        found.count += 1;
        if row < found.row {
            found.row = row;
            let formatter = ArrayFormatter::try_new(array, &FormatOptions::default());
            found.value = formatter.map(|formatter| formatter.value(index).to_string()).unwrap_or_default();
        }
    }
}

impl Doubt {
    /// Describes the ambiguity of values of this type.
    fn what(&self) -> String {
        let what = match self.watch {
            Watch::Instants(_) => "timestamps before 1900",
            _ => "dates before 1582-10-15",
        };
        let clause = self.watch.reason().map(Reason::clause).unwrap_or_default();
        format!("{what} {clause}")
    }
}

/// Counts the ambiguous values of a batch of a column.
///
/// # Errors
/// There are some, and the session rejects them.
pub(crate) fn count(
    findings: &Findings,
    file: &str,
    watched: &Watched,
    array: &ArrayRef,
    row_of: impl Fn(usize) -> u64,
) -> Result<()> {
    if !has_doubts(array, &watched.leaves) {
        return Ok(());
    }
    for doubt in doubts(array, &watched.leaves, row_of) {
        let what = doubt.what();
        if findings.is_strict() {
            let place = FilePlace::row(file, doubt.row).column(&watched.column);
            return Err(Error::from(ErrorKind::DoubtfulDate { place, value: doubt.value, what }));
        }
        let (file, column) = (file.to_owned(), watched.column.clone());
        findings.add(Finding {
            file,
            column: Some(column),
            what,
            row: doubt.row,
            value: doubt.value,
            count: doubt.count,
        });
    }
    Ok(())
}

/// Returns the note for a planned scan of files that may have ambiguous values.
pub(crate) fn note(reason: &str, mut files: Vec<String>, mut columns: Vec<String>) -> String {
    files.sort();
    files.dedup();
    columns.sort();
    columns.dedup();
    let others = match files.len() - 1 {
        0 => String::new(),
        1 => " and 1 other file".to_owned(),
        others => format!(" and {others} other files"),
    };
    let file = files.first().map(String::as_str).unwrap_or_default();
    format!("note: {file}{others}: old dates and timestamps in {} are ambiguous: {reason}", columns.join(", "))
}

#[cfg(test)]
mod tests;
