//! Counts cells that do not fit, and reports them once a file has been read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_schema::DataType;
use datafusion_physical_plan::metrics::Count;

use super::options::OnError;
use crate::error::{ErrorKind, FilePlace, Line, Result};

/// Maximum number of warnings per table: thousands of files may have the same defect.
const MAX_WARNINGS: usize = 20;

/// Number of characters of a cell shown in messages.
const SHOWN_CHARS: usize = 60;

/// A cell that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Oddity {
    /// It is not a valid value of its type, and read as null.
    Unfit,
    /// It is longer or more precise than its type.
    Cut,
    /// A repeated key of a map; the first one counts.
    RepeatedKey,
    /// It is not a value of its type, and read as the value that JsonSerDe makes of it.
    Changed,
}

/// The cells of a file that do not fit. Warns when dropped.
pub(super) struct Tally {
    file: Arc<str>,
    on_error: OnError,
    /// Counts the same for the scan's metrics.
    odd_cells: Count,
    /// The number of warnings so far, over all files of the table.
    warnings: Arc<AtomicUsize>,
    unfit: CellCount,
    cut: CellCount,
    repeated: CellCount,
    changed: CellCount,
    short: CellCount,
    long: CellCount,
}

/// The number of cells of a kind, and the position of the first.
#[derive(Default)]
struct CellCount {
    count: u64,
    first: Option<(Line, Option<String>)>,
}

impl CellCount {
    fn add(&mut self, line: Line, column: Option<&str>) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some((line, column.map(str::to_owned)));
        }
    }

    /// Returns the message about them, if there are any.
    fn message(&self, file: &str, one: &str, many: &str) -> Option<String> {
        let (line, column) = self.first.as_ref()?;
        let column = column.as_ref().map(|column| format!(", column \"{column}\"")).unwrap_or_default();
        Some(match self.count {
            1 => format!("{file}: {line}{column}: {one}"),
            count => format!("{file}: {count} {many}; the first: {line}{column}"),
        })
    }
}

impl Tally {
    pub(super) fn new(file: Arc<str>, on_error: OnError, odd_cells: Count, warnings: Arc<AtomicUsize>) -> Self {
        let [unfit, cut, repeated, changed, short, long] = Default::default();
        Self { file, on_error, odd_cells, warnings, unfit, cut, repeated, changed, short, long }
    }

    pub(super) fn file(&self) -> &Arc<str> {
        &self.file
    }

    /// Records a cell that does not fit its column's type.
    ///
    /// # Errors
    /// Cells that do not fit are errors.
    pub(super) fn cell(
        &mut self,
        oddity: Oddity,
        cell: &[u8],
        line: Line,
        column: &str,
        expected: &DataType,
    ) -> Result<()> {
        if self.on_error == OnError::Error {
            let mut cell = String::from_utf8_lossy(cell).into_owned();
            if let Some((end, _)) = cell.char_indices().nth(SHOWN_CHARS) {
                cell.truncate(end);
                cell.push('…');
            }
            let place = FilePlace::new(&self.file, line);
            return Err(match oddity {
                Oddity::RepeatedKey => {
                    let problem = format!("column \"{column}\": the key {cell:?} occurs twice in a map");
                    ErrorKind::Content { place, problem }
                }
                _ => ErrorKind::Cell { place: place.column(column), expected: expected.clone(), cell, declared: true },
            }
            .into());
        }
        self.odd_cells.add(1);
        match oddity {
            Oddity::Unfit => self.unfit.add(line, Some(column)),
            Oddity::Cut => self.cut.add(line, Some(column)),
            Oddity::RepeatedKey => self.repeated.add(line, Some(column)),
            Oddity::Changed => self.changed.add(line, Some(column)),
        }
        Ok(())
    }

    /// Records a line with `found` cells in a table with `expected` columns.
    ///
    /// # Errors
    /// The numbers differ, and that is an error.
    pub(super) fn width(&mut self, found: usize, expected: usize, line: Line) -> Result<()> {
        if found == expected {
            return Ok(());
        }
        if self.on_error == OnError::Error {
            let place = FilePlace::new(&self.file, line);
            return Err(ErrorKind::Ragged { place, found, more: false, expected }.into());
        }
        self.odd_cells.add(found.abs_diff(expected));
        match found < expected {
            true => self.short.add(line, None),
            false => self.long.add(line, None),
        }
        Ok(())
    }

    /// Returns the messages about the file.
    fn messages(&self) -> impl Iterator<Item = String> {
        let kinds = [
            (
                &self.unfit,
                "a cell is not a value of its type, and is read as null",
                "cells are not values of their type, and are read as null",
            ),
            (&self.cut, "a cell is cut to fit its type", "cells are cut to fit their type"),
            (
                &self.repeated,
                "a key occurs twice in a map, and the first value is used",
                "keys occur twice in a map, and the first value is used",
            ),
            (
                &self.changed,
                "a value is out of range or not of its type, and is read as another one, as in Hive",
                "values are out of range or not of their type, and are read as others, as in Hive",
            ),
            (
                &self.short,
                "the line has fewer cells than there are columns; the others are null",
                "lines have fewer cells than there are columns; the others are null",
            ),
            (
                &self.long,
                "the line has more cells than there are columns; they are passed over",
                "lines have more cells than there are columns; they are passed over",
            ),
        ];
        kinds.into_iter().filter_map(|(kind, one, many)| kind.message(&self.file, one, many))
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        for message in self.messages() {
            match self.warnings.fetch_add(1, Ordering::Relaxed) {
                0..MAX_WARNINGS => log::warn!("{message}"),
                MAX_WARNINGS => log::warn!("{message}; further cells of this table are not reported"),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tally_reports_each_problem_once_with_its_first_line() -> Result<()> {
        let line = |number| Line { number, after_byte: None };
        let odd_cells = Count::new();
        let mut tally = Tally::new("f".into(), OnError::Null, odd_cells.clone(), Arc::default());
        assert_eq!(tally.messages().count(), 0);
        tally.cell(Oddity::Unfit, b"x", line(3), "a", &DataType::Int8)?;
        tally.cell(Oddity::Unfit, b"y", line(4), "b", &DataType::Int8)?;
        tally.cell(Oddity::Cut, b"1.5", line(4), "a", &DataType::Int8)?;
        tally.width(2, 2, line(5))?;
        tally.width(1, 2, line(6))?;
        tally.width(5, 2, line(7))?;
        let messages: Vec<_> = tally.messages().collect();
        assert_eq!(
            messages,
            [
                "f: 2 cells are not values of their type, and are read as null; the first: line 3, column \"a\"",
                "f: line 4, column \"a\": a cell is cut to fit its type",
                "f: line 6: the line has fewer cells than there are columns; the others are null",
                "f: line 7: the line has more cells than there are columns; they are passed over",
            ]
        );
        assert_eq!(odd_cells.value(), 7);
        Ok(())
    }
}
