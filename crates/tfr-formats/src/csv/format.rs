//! [`CsvFormat`]: CSV as a [`FileReader`].

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion_common::Result;
use datafusion_datasource::file_stream::FileOpener;
use datafusion_session::Session;
use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStore};
use tfr_files::memory::ReadBounds;
use tfr_files::warn_of_names_by_case;
use tfr_stores::FileNames;

use super::decode::Records;
use super::notation::with_point;
use super::null_words::Observed;
use super::options::{CsvOptions, Types};
use super::preamble;
use super::source::{self, column_names};
use crate::error::{Error, ErrorKind};
use crate::input_format::InputFormat;
use crate::names::ColumnNames;
use crate::text;
use tfr_files::scan::{FileReader, Scan};

/// CSV files.
#[derive(Debug)]
pub(crate) struct CsvFormat {
    options: Arc<CsvOptions>,
    names: FileNames,
    columns: ColumnNames,
    declared: bool,
    bounds: ReadBounds,
}

impl CsvFormat {
    /// Creates the format for this dialect; `names` determines the files' names in messages, `columns` the table's
    /// column names.
    pub(crate) fn new(options: CsvOptions, names: FileNames, columns: ColumnNames) -> Self {
        Self { options: Arc::new(options), names, columns, declared: false, bounds: ReadBounds::default() }
    }

    /// Limits the records read for inference to these bounds.
    pub(crate) fn within(mut self, bounds: ReadBounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// Sets whether the user declared the columns. If so, cells are cast to their types; if not, cells must be written
    /// as the inference accepts them.
    pub(crate) fn with_declared(mut self, declared: bool) -> Self {
        self.declared = declared;
        self
    }

    /// Infers the columns of one file from its first records.
    async fn infer_file(
        &self,
        store: &Arc<dyn ObjectStore>,
        file: &ObjectMeta,
    ) -> Result<Vec<(String, Observed)>, Error> {
        let name: Arc<str> = self.names.name(&file.location).into();
        let options = &self.options;
        let bytes = text::bytes(store, file, &name, 0..file.size).await?;
        let text = text::text(&name, InputFormat::Csv, bytes, options.compression, options.encoding).await?;
        let (text, start) = preamble::start(text, options).await?;
        let mut text = source::trimmed(text, options, options.delimiter_for(&name, start.delimiter));
        let mut records = Records::new(name, options, None, start).within(self.bounds);
        let mut inference = CsvInference::new(options);
        while !inference.is_done() {
            match text.try_next().await? {
                Some(piece) => {
                    let mut rest = piece.as_ref();
                    while !rest.is_empty() && !inference.is_done() {
                        let read = records.read(rest, inference.wanted())?;
                        rest = &rest[read..];
                        inference.observe(&mut records)?;
                    }
                }
                None => {
                    records.finish()?;
                    inference.observe(&mut records)?;
                    break;
                }
            }
        }
        let (found, types): (Vec<_>, Vec<_>) = inference.columns.into_iter().unzip();
        let named = self.columns.all_in_table(found.iter().map(String::as_str)).map_err(|column| {
            Error::from(ErrorKind::DuplicateColumn { file: self.names.name(&file.location), column })
        })?;
        Ok(named.into_iter().zip(types).collect())
    }
}

/// The inferred columns of a file.
struct CsvInference<'a> {
    options: &'a CsvOptions,
    nulls: Vec<String>,
    columns: Vec<(String, Observed)>,
    rows: usize,
}

impl<'a> CsvInference<'a> {
    fn new(options: &'a CsvOptions) -> Self {
        Self { options, nulls: options.null_texts(), columns: Vec::new(), rows: 0 }
    }

    /// Returns the maximum number of records to read next: only one at first, since it may be the header.
    fn wanted(&self) -> usize {
        if self.columns.is_empty() { 1 } else { (self.options.infer_rows - self.rows).min(1024) }
    }

    fn is_done(&self) -> bool {
        let rows = if self.options.types == Types::String { 0 } else { self.options.infer_rows };
        !self.columns.is_empty() && self.rows >= rows
    }

    fn observe(&mut self, records: &mut Records) -> Result<(), Error> {
        if records.len() == 0 {
            return Ok(());
        }
        if self.columns.is_empty() {
            let width = records.cells()?.width();
            let names = match self.options.header {
                true => column_names(records)?,
                false => (1..=width).map(|column| format!("column_{column}")).collect(),
            };
            self.columns = names.into_iter().map(|name| (name, Observed::default())).collect();
            if self.options.header {
                records.clear();
                return Ok(());
            }
        }
        let cells = records.cells()?;
        for (column, (_, observed)) in self.columns.iter_mut().enumerate() {
            if self.options.types == Types::String || observed.is_settled() {
                continue;
            }
            for row in cells.rows() {
                let cell = cells.get(row, column);
                if !cell.is_empty() && !self.nulls.iter().any(|null| null == cell) {
                    match with_point(cell, self.options.decimal) {
                        Some(cell) => observed.observe(&cell),
                        None => observed.observe_text(),
                    }
                }
            }
        }
        self.rows += records.len();
        records.clear();
        Ok(())
    }
}

/// Reports a column that would have another type but for words such as NA.
fn note_null_words(file: &str, column: &str, observed: &Observed) {
    let Some((words, cell_type)) = observed.text_for_words() else { return };
    let quoted: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
    let nulls: Vec<_> = words.iter().map(|word| format!("null={word}")).collect();
    log::warn!(
        "{file}: column \"{column}\" is text only because of cells such as {}: with {},null= they are null in all columns, and this one is {}",
        quoted.join(", "),
        nulls.join(","),
        cell_type.data_type()
    );
}

#[async_trait]
impl FileReader for CsvFormat {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ", has_header={}", self.options.header)
    }

    /// Only if a line end always ends a record. The first part of a compressed file reads all of it.
    fn can_split(&self) -> bool {
        !self.options.newlines_in_values && self.options.skip_lines == 0
    }

    /// Infers types that fit the first records of all files; a column with only nulls is text.
    async fn schema(
        &self,
        session: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        // Collected first: a closure over references is not general enough for the compiler inside a stream.
        let reads: Vec<_> = files.iter().map(|file| self.infer_file(store, file)).collect();
        let inferred: Vec<_> = futures::stream::iter(reads)
            .buffered(session.config_options().execution.meta_fetch_concurrency.get())
            .try_collect()
            .await?;
        // Ask for one file at a time to get its error.
        if files.len() > 1 {
            let names: Vec<Vec<&str>> =
                inferred.iter().map(|columns| columns.iter().map(|(name, _)| name.as_str()).collect()).collect();
            warn_of_names_by_case(&names, |index| self.names.name(&files[index].location));
        }
        let mut columns: Vec<(String, Observed)> = Vec::new();
        let mut positions = HashMap::new();
        for (name, observed) in inferred.into_iter().flatten() {
            let position = *positions.entry(name.clone()).or_insert(columns.len());
            match columns.get_mut(position) {
                Some((_, known)) => *known = known.join(observed),
                None => columns.push((name, observed)),
            }
        }
        if let (true, Some(file)) = (columns.is_empty(), files.first()) {
            return Err(Error::from(ErrorKind::NoColumns { file: self.names.name(&file.location) }).into());
        }
        if self.options.types == Types::Infer {
            let file = files.first().map(|file| self.names.name(&file.location)).unwrap_or_default();
            columns.iter().for_each(|(name, observed)| note_null_words(&file, name, observed));
        }
        let fields = columns.into_iter().map(|(name, observed)| Field::new(name, observed.cell_type.data_type(), true));
        Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
    }

    fn opener(self: Arc<Self>, store: Arc<dyn ObjectStore>, scan: &Scan<'_>) -> Result<Arc<dyn FileOpener>> {
        let (options, names, columns) = (Arc::clone(&self.options), self.names.clone(), self.columns.clone());
        Ok(Arc::new(source::CsvOpener::new(store, options, names, columns, self.declared, scan)))
    }
}
