//! Splits text into records and builds batches of them.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::types::{Date32Type, Float64Type, Int64Type, TimestampMicrosecondType, TimestampNanosecondType};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, RecordBatch, RecordBatchOptions, StringArray,
    new_null_array,
};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, SchemaRef, TimeUnit};
use csv_core::{ReadRecordResult, Reader};
use datafusion_common::DataFusionError;
use tfr_files::memory::ReadBounds;

use super::exact;
use super::infer::{CellType, parse_date, parse_float, parse_micros, parse_nanos};
use super::notation::{castable, with_point};
use super::options::CsvOptions;
use super::preamble::Start;
use super::quotes::QuotedCells;
use crate::error::{Error, ErrorKind, FilePlace, Line, Result};
use crate::names::MAX_COLUMNS;

/// Bytes of text at which a batch is emitted early, unless a lower limit is set.
const MAX_BATCH_LEN: usize = 64 << 20;

/// Number of characters of a cell shown in messages.
const SHOWN_CHARS: usize = 60;

/// Splits text into records and buffers them.
pub(super) struct Records {
    file: Arc<str>,
    reader: Reader,
    /// Bytes of text at which a batch is emitted.
    batch_len: usize,
    /// Maximum bytes of a record within the memory limit.
    record_bound: usize,
    delimiter: u8,
    options: Arc<CsvOptions>,
    /// The required number of cells per record; `None` before the first.
    width: Option<usize>,
    /// Cells without their quotes, concatenated; the bytes from `len` on are unused.
    text: Vec<u8>,
    len: usize,
    /// Ends of the cells in `text`, after a leading 0; the entries from `cells + 1` on are unused.
    ends: Vec<usize>,
    cells: usize,
    /// The line at which each record starts in the file.
    lines: Vec<u64>,
    /// The start of the record being read in `text` and in `ends`.
    record: (usize, usize),
    state: SplitState,
    /// Blank lines since the last record.
    blank: Vec<u64>,
    /// The byte from which lines are counted, if not the start of the file.
    after_byte: Option<u64>,
    /// The quote, if empty cells in quotes differ from those without.
    significant_quote: Option<u8>,
    /// The quoted cells of the record being read, as far as earlier input contained it.
    opening: Option<QuotedCells>,
    /// The buffered records with fewer cells than columns, and their numbers of cells.
    short: Vec<(usize, usize)>,
    /// The buffered cells that are empty but quoted.
    quoted_empty: Vec<usize>,
}

/// The context of the next byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SplitState {
    /// A new line; the previous byte may have been the CR of a CR LF.
    LineStart {
        after_cr: bool,
    },
    Comment,
    Record,
}

impl Records {
    pub(super) fn new(file: Arc<str>, options: &Arc<CsvOptions>, width: Option<usize>, start: Start) -> Self {
        let delimiter = options.delimiter_for(&file, start.delimiter);
        let mut reader = options.reader(delimiter);
        reader.set_line(start.lines + 1);
        Self {
            reader,
            batch_len: MAX_BATCH_LEN,
            record_bound: usize::MAX,
            delimiter,
            significant_quote: options.quote.filter(|_| options.null_texts().iter().any(String::is_empty)),
            file,
            options: Arc::clone(options),
            width,
            text: Vec::new(),
            len: 0,
            ends: vec![0],
            cells: 0,
            lines: Vec::new(),
            record: (0, 0),
            state: SplitState::LineStart { after_cr: false },
            blank: Vec::new(),
            after_byte: start.after_byte,
            opening: None,
            short: Vec::new(),
            quoted_empty: Vec::new(),
        }
    }

    /// Limits batches and records to the session's bounds.
    pub(super) fn within(mut self, bounds: ReadBounds) -> Self {
        self.batch_len = bounds.batch.min(MAX_BATCH_LEN);
        self.record_bound = bounds.record();
        self
    }

    /// Returns the number of complete records buffered.
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether the buffered records should be taken before more are read.
    pub(super) fn is_full(&self, max_records: usize) -> bool {
        self.len() >= max_records || self.record.0 >= self.batch_len
    }

    /// Reads the non-empty `input` to its end or until there are `max_records`; returns the number of bytes read.
    pub(super) fn read(&mut self, input: &[u8], max_records: usize) -> Result<usize> {
        let mut read = 0;
        while read < input.len() && !self.is_full(max_records) {
            let next = &input[read..];
            let len = self.len_to_feed(next);
            read += self.read_record(&next[..len])?;
        }
        Ok(read)
    }

    /// Ends the last record if the text does not end with a line end.
    pub(super) fn finish(&mut self) -> Result<()> {
        if self.state == SplitState::Record {
            let records = self.len();
            self.read_record(&[self.options.terminator.unwrap_or(b'\n')])?;
            // A line end ends every record, but is data inside quotes.
            if self.len() == records {
                return Err(self.unbalanced("a quoted cell does not end"));
            }
        }
        self.take_blank_lines();
        Ok(())
    }

    /// Returns how much of `input` to pass to csv_core next. csv_core silently skips blank lines and comments. Passing
    /// these one at a time allows counting the blank ones.
    fn len_to_feed(&mut self, input: &[u8]) -> usize {
        let first = input[0];
        match self.state {
            SplitState::LineStart { .. } if self.options.comment == Some(first) => self.state = SplitState::Comment,
            SplitState::LineStart { after_cr } if self.ends_line(first) => {
                if !(after_cr && first == b'\n') {
                    self.blank.push(self.reader.line());
                }
                self.state = SplitState::LineStart { after_cr: first == b'\r' };
                return 1;
            }
            SplitState::LineStart { .. } => self.state = SplitState::Record,
            SplitState::Comment | SplitState::Record => {}
        }
        if self.state == SplitState::Record {
            return input.len();
        }
        // csv_core ends a comment at LF, whatever the record terminator is.
        match input.iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                self.state = SplitState::LineStart { after_cr: false };
                end + 1
            }
            None => input.len(),
        }
    }

    fn ends_line(&self, byte: u8) -> bool {
        match self.options.terminator {
            Some(terminator) => byte == terminator,
            None => matches!(byte, b'\r' | b'\n'),
        }
    }

    /// In a file of one column a blank line is an empty cell. Adds records for the blank lines before the current
    /// record.
    fn take_blank_lines(&mut self) {
        if self.blank.is_empty() || self.width != Some(1) {
            self.blank.clear();
            return;
        }
        let (text, cells) = self.record;
        let count = self.blank.len();
        grow(&mut self.ends, self.cells + 1 + count);
        self.ends.copy_within(cells + 1..self.cells + 1, cells + 1 + count);
        self.ends[cells + 1..][..count].fill(text);
        self.cells += count;
        self.record.1 += count;
        self.lines.append(&mut self.blank);
    }

    /// Discards the complete records, but not an unfinished one.
    pub(super) fn clear(&mut self) {
        let (text, cells) = self.record;
        self.text.copy_within(text..self.len, 0);
        self.len -= text;
        self.ends.copy_within(cells + 1..self.cells + 1, 1);
        self.cells -= cells;
        // The ends of an unfinished record, too, are relative to the start of the text.
        for end in self.ends.iter_mut().skip(1).take(self.cells) {
            *end -= text;
        }
        self.record = (0, 0);
        self.lines.clear();
        self.quoted_empty.clear();
        self.short.clear();
    }

    /// Sets the required number of cells per record.
    pub(super) fn set_width(&mut self, width: usize) {
        self.width = Some(width);
    }

    fn read_record(&mut self, input: &[u8]) -> Result<usize> {
        // Without its quotes a cell is never longer than in the file, so `text` cannot fill up.
        grow(&mut self.text, self.len + input.len() + 1);
        // One cell too many suffices to detect the error.
        let cells = self.width.map_or(16, |width| width + 1 - (self.cells - self.record.1));
        grow(&mut self.ends, self.cells + 1 + cells);
        let ends = &mut self.ends[self.cells + 1..][..cells];
        let (result, read, written, ended) = self.reader.read_record(input, &mut self.text[self.len..], ends);
        // csv_core counts from the start of the record.
        for end in &mut self.ends[self.cells + 1..][..ended] {
            *end += self.record.0;
        }
        self.len += written;
        self.cells += ended;
        let found = self.cells - self.record.1;
        let too_many = self.width.is_some_and(|width| found > width);
        match result {
            ReadRecordResult::Record if !too_many && self.width.is_none_or(|width| self.fits(found, width)) => {
                let line = self.start_line(input[..read].last());
                if !self.options.newlines_in_values && self.line_ends_in_record() > 0 {
                    return Err(ErrorKind::LineEnd { place: self.place(line) }.into());
                }
                self.width.get_or_insert(found);
                self.take_blank_lines();
                self.find_quoted_empty(&input[..read]);
                self.fill_up(found);
                self.lines.push(line);
                self.record = (self.len, self.cells);
                self.state = SplitState::LineStart { after_cr: input[..read].last() == Some(&b'\r') };
            }
            ReadRecordResult::Record => return Err(self.ragged(found, false, self.start_line(input[..read].last()))),
            _ if self.width.is_none() && found > MAX_COLUMNS => {
                return Err(Error::too_many_columns(&self.file, self.line(self.start_line(None))));
            }
            // The rest of the record is not needed to detect that it is too long.
            _ if too_many => return Err(self.ragged(found, true, self.start_line(None))),
            _ if self.len - self.record.0 > self.record_bound.min(self.options.record_limit) => {
                if self.record_bound < self.options.record_limit {
                    let place = self.place(self.start_line(None));
                    return Err(ErrorKind::LongRecord { place, bytes: self.record_bound as u64 }.into());
                }
                let limit = self.options.record_limit;
                return Err(
                    self.unbalanced(&format!("the record is longer than {limit} bytes, as if a quote did not end"))
                );
            }
            // The rest of the record follows.
            _ if self.state == SplitState::Record => {
                if let Some(quote) = self.significant_quote {
                    let new = || QuotedCells::new(quote, self.options.escape, self.delimiter, self.record.1);
                    self.opening.get_or_insert_with(new).read(&input[..read]);
                }
            }
            _ => {}
        }
        Ok(read)
    }

    /// Records which empty cells of the last record are quoted, which csv_core does not report. `input` is the end of
    /// the record's text in the file.
    fn find_quoted_empty(&mut self, input: &[u8]) {
        let Some(quote) = self.significant_quote else { return };
        let first = self.record.1;
        let has_empty = self.ends[first..=self.cells].windows(2).any(|ends| ends[0] == ends[1]);
        // A quoted empty cell is two adjacent quotes.
        let has_pair = |text: &[u8]| memchr::memchr_iter(quote, text).any(|at| text.get(at + 1) == Some(&quote));
        let opened = self.opening.take();
        if has_empty && (opened.is_some() || has_pair(input)) {
            let new = || QuotedCells::new(quote, self.options.escape, self.delimiter, first);
            let mut opened = opened.unwrap_or_else(new);
            opened.read(input);
            let is_empty = |cell: &usize| *cell < self.cells && self.ends[*cell] == self.ends[*cell + 1];
            self.quoted_empty.extend(opened.cells.into_iter().filter(is_empty));
        }
    }

    /// Whether a record with this many cells is accepted.
    fn fits(&self, found: usize, width: usize) -> bool {
        found == width || self.options.short_rows && found < width
    }

    /// Adds the missing cells of the last record.
    fn fill_up(&mut self, found: usize) {
        let missing = self.width.unwrap_or_default().saturating_sub(found);
        if missing > 0 {
            grow(&mut self.ends, self.cells + 1 + missing);
            self.ends[self.cells + 1..][..missing].fill(self.len);
            self.cells += missing;
            self.short.push((self.lines.len(), found));
        }
    }

    /// Returns the line at which the last record starts, given the last byte read of it.
    fn start_line(&self, last: Option<&u8>) -> u64 {
        let inside = self.line_ends_in_record();
        let end = self.reader.line() - u64::from(last == Some(&b'\n'));
        end.saturating_sub(inside).max(1)
    }

    fn line_ends_in_record(&self) -> u64 {
        self.text[self.record.0..self.len].iter().filter(|byte| **byte == b'\n').count() as u64
    }

    fn line(&self, number: u64) -> Line {
        Line { number, after_byte: self.after_byte }
    }

    fn place(&self, line: u64) -> FilePlace {
        FilePlace::new(&self.file, self.line(line))
    }

    fn ragged(&self, found: usize, more: bool, line: u64) -> Error {
        let (place, expected) = (self.place(line), self.width.unwrap_or_default());
        ErrorKind::Ragged { place, found, more, expected }.into()
    }

    fn unbalanced(&self, reason: &str) -> Error {
        ErrorKind::Quote { place: self.place(self.start_line(None)), reason: reason.to_owned() }.into()
    }

    /// Returns the buffered records after validating that they are UTF-8.
    pub(super) fn cells(&self) -> Result<Cells<'_>> {
        let bytes = &self.text[..self.record.0];
        let ends = &self.ends[..self.record.1 + 1];
        let width = self.width.unwrap_or_default();
        let (text, invalid) = match std::str::from_utf8(bytes) {
            Ok(text) => (text, ends.iter().find(|end| !text.is_char_boundary(**end)).copied()),
            Err(error) => ("", Some(error.valid_up_to() + 1)),
        };
        let Some(invalid) = invalid else { return Ok(Cells { records: self, text, ends, width }) };
        let cell = ends.partition_point(|end| *end < invalid).saturating_sub(1);
        let line = self.line(self.lines.get(cell / width.max(1)).copied().unwrap_or_default());
        let found_at = format!("{line}, cell {}", cell % width.max(1) + 1);
        Err(ErrorKind::Encoding { file: self.file.to_string(), found_at, encoding: "UTF-8" }.into())
    }
}

fn grow<T: Default + Clone>(buffer: &mut Vec<T>, len: usize) {
    if buffer.len() < len {
        buffer.resize(len.next_power_of_two(), T::default());
    }
}

/// Records as text.
pub(super) struct Cells<'a> {
    records: &'a Records,
    text: &'a str,
    ends: &'a [usize],
    width: usize,
}

impl<'a> Cells<'a> {
    /// Returns the number of cells per record.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Returns the indices of the records.
    pub(super) fn rows(&self) -> Range<usize> {
        0..self.records.len()
    }

    pub(super) fn get(&self, row: usize, column: usize) -> &'a str {
        let cell = row * self.width + column;
        &self.text[self.ends[cell]..self.ends[cell + 1]]
    }

    /// Whether the record lacks this cell.
    pub(super) fn is_missing(&self, row: usize, column: usize) -> bool {
        let short = &self.records.short;
        short.binary_search_by_key(&row, |(row, _)| *row).is_ok_and(|index| column >= short[index].1)
    }

    /// Whether a cell is empty and not quoted.
    pub(super) fn is_bare(&self, row: usize, column: usize) -> bool {
        let cell = row * self.width + column;
        self.ends[cell] == self.ends[cell + 1] && self.records.quoted_empty.binary_search(&cell).is_err()
    }
}

/// Maps the cells of a file to the columns of a batch.
pub(super) struct ColumnMapping {
    /// The requested columns.
    pub(super) schema: SchemaRef,
    /// The cell for each requested column; `None` if the file lacks the column.
    pub(super) cells: Vec<Option<usize>>,
    /// Texts that represent null.
    pub(super) nulls: Arc<[String]>,
    /// The decimal separator of numbers.
    pub(super) decimal: u8,
    /// Whether the types were declared by the user or inferred from cells.
    pub(super) declared: bool,
}

impl ColumnMapping {
    /// Builds a batch from the buffered records.
    pub(super) fn batch(&self, records: &Records) -> Result<RecordBatch, DataFusionError> {
        let cells = records.cells()?;
        let columns = self.schema.fields().iter().zip(&self.cells).map(|(field, cell)| match cell {
            Some(cell) => CellColumn { field, cell: *cell, cells: &cells, columns: self }.build(),
            None => Ok(new_null_array(field.data_type(), records.len())),
        });
        let columns = columns.collect::<Result<_, DataFusionError>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(records.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

/// One column of a batch.
struct CellColumn<'a> {
    field: &'a Field,
    cell: usize,
    cells: &'a Cells<'a>,
    columns: &'a ColumnMapping,
}

impl<'a> CellColumn<'a> {
    fn build(&self) -> Result<ArrayRef, DataFusionError> {
        let data_type = self.field.data_type();
        if *data_type == DataType::Utf8 {
            return Ok(Arc::new(self.texts().collect::<StringArray>()));
        }
        if self.columns.declared {
            return self.cast();
        }
        Ok(match data_type {
            DataType::Boolean => {
                Arc::new(self.values(|cell| Some(cell.eq_ignore_ascii_case("true"))).collect::<Result<BooleanArray>>()?)
            }
            DataType::Int64 => self.primitive::<Int64Type>(|cell| cell.parse().ok())?,
            DataType::Float64 => self.primitive::<Float64Type>(parse_float)?,
            DataType::Date32 => self.primitive::<Date32Type>(parse_date)?,
            DataType::Timestamp(TimeUnit::Nanosecond, _) => self.primitive::<TimestampNanosecondType>(parse_nanos)?,
            DataType::Timestamp(..) => self.primitive::<TimestampMicrosecondType>(parse_micros)?,
            _ => return self.cast(),
        })
    }

    fn primitive<T: ArrowPrimitiveType>(&self, parse: impl Fn(&str) -> Option<T::Native>) -> Result<ArrayRef> {
        let values = self.values(parse).collect::<Result<PrimitiveArray<T>>>()?;
        Ok(Arc::new(values.with_data_type(self.field.data_type().clone())))
    }

    /// Parses the cells as values of an inferred type. Rejects cells that the inference would not have accepted.
    fn values<T>(&self, parse: impl Fn(&str) -> Option<T>) -> impl Iterator<Item = Result<Option<T>>> {
        self.texts().enumerate().map(move |(row, cell)| {
            let Some(cell) = cell else { return Ok(None) };
            let fits = |cell: &Cow<'_, str>| CellType::shape(cell).fits(self.field.data_type());
            let value = with_point(cell, self.columns.decimal).filter(fits).and_then(|cell| parse(&cell));
            value.map(Some).ok_or_else(|| self.unfit(row))
        })
    }

    /// Casts the cells to a declared type by Arrow's cast. Rejects cells that the cast would change.
    fn cast(&self) -> Result<ArrayRef, DataFusionError> {
        let data_type = self.field.data_type();
        let castable = |cell| castable(cell, data_type, self.columns.decimal);
        let texts: StringArray = self.texts().map(|cell| cell.map(castable)).collect();
        let values = cast_with_options(&texts, data_type, &CastOptions { safe: true, ..CastOptions::default() })?;
        let is_lost = |row| values.is_null(row) || !exact::holds(data_type, texts.value(row));
        let unfit = (0..texts.len()).find(|&row| texts.is_valid(row) && is_lost(row));
        match unfit {
            Some(row) => Err(self.unfit(row).into()),
            None => Ok(values),
        }
    }

    /// Returns the cells, with null for the null texts. An empty cell is only valid as text, and only if it is quoted.
    fn texts(&self) -> impl Iterator<Item = Option<&'a str>> {
        let is_text = matches!(self.field.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        let nulls = &self.columns.nulls;
        let null_if_bare = nulls.iter().any(String::is_empty);
        self.cells.rows().map(move |row| {
            let cell = self.cells.get(row, self.cell);
            let is_null = match cell.is_empty() {
                true => {
                    !is_text
                        || null_if_bare && self.cells.is_bare(row, self.cell)
                        || self.cells.is_missing(row, self.cell)
                }
                false => nulls.iter().any(|null| null == cell),
            };
            (!is_null).then_some(cell)
        })
    }

    fn unfit(&self, row: usize) -> Error {
        let records = self.cells.records;
        let mut cell: String = self.cells.get(row, self.cell).to_owned();
        if let Some((end, _)) = cell.char_indices().nth(SHOWN_CHARS) {
            cell.truncate(end);
            cell.push('…');
        }
        ErrorKind::Cell {
            place: records.place(records.lines.get(row).copied().unwrap_or_default()).column(self.field.name()),
            expected: self.field.data_type().clone(),
            cell,
            declared: self.columns.declared,
        }
        .into()
    }
}

#[cfg(test)]
mod tests;
