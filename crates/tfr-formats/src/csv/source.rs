//! [`CsvOpener`]: reads one CSV file of a scan, or a part of one.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{FieldRef, Schema, SchemaRef};
use bytes::{Buf, Bytes};
use datafusion_common::Result;
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::file_stream::{FileOpenFuture, FileOpener};
use datafusion_physical_plan::metrics::Count;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStore};
use tfr_files::memory::ReadBounds;
use tfr_stores::FileNames;

use super::decode::{ColumnMapping, Records};
use super::options::CsvOptions;
use super::preamble::{self, Start};
use super::trim::Trim;
use crate::error::{Error, ErrorKind};
use crate::input_format::InputFormat;
use crate::names::ColumnNames;
use crate::text::{self, TextPart, TextStream};
use tfr_files::scan::Scan;

/// Opens one file or a part of one.
#[derive(Clone)]
pub(super) struct CsvOpener {
    store: Arc<dyn ObjectStore>,
    options: Arc<CsvOptions>,
    names: FileNames,
    columns: ColumnNames,
    declared: bool,
    file_schema: SchemaRef,
    /// The partition columns, which must not also be in the file.
    path_columns: Vec<FieldRef>,
    /// The requested columns, as indices into `file_schema`.
    wanted: Vec<usize>,
    batch_size: usize,
    bounds: ReadBounds,
    bytes_scanned: Count,
}

impl FileOpener for CsvOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let opener = self.clone();
        Ok(async move {
            let name: Arc<str> = opener.names.name(&file.object_meta.location).into();
            match opener.part(&name, &file).await? {
                Some(opened) => Ok(opener.batches(name, opened)?.boxed()),
                None => Ok(futures::stream::empty().boxed()),
            }
        }
        .boxed())
    }
}

impl CsvOpener {
    /// Creates an opener for the files of a table; `declared` if the user gave the types.
    pub(super) fn new(
        store: Arc<dyn ObjectStore>,
        options: Arc<CsvOptions>,
        names: FileNames,
        columns: ColumnNames,
        declared: bool,
        scan: &Scan<'_>,
    ) -> Self {
        Self {
            store,
            options,
            names,
            columns,
            declared,
            file_schema: Arc::clone(scan.table.file_schema()),
            path_columns: scan.table.table_partition_cols().to_vec(),
            wanted: scan.wanted.to_vec(),
            batch_size: scan.batch_size,
            bounds: scan.bounds,
            bytes_scanned: scan.bytes_scanned(),
        }
    }

    /// Opens the text to read, and the header if the part does not contain it.
    async fn part(&self, name: &str, file: &PartitionedFile) -> Result<Option<OpenedText>, Error> {
        let options = &self.options;
        let part = text::part(&self.store, file, name, options.layout(), &self.bytes_scanned).await?;
        let Some(TextPart { text, after_byte }) = part else { return Ok(None) };
        if after_byte.is_none() {
            let (text, start) = preamble::start(text, options).await?;
            return Ok(Some(OpenedText { text, start, header: None }));
        }
        if !options.header && options.delimiter.is_some() {
            return Ok(Some(OpenedText { text, start: Start { after_byte, ..Start::default() }, header: None }));
        }
        // The start of the file applies to all of its parts.
        let (header, start) = read_header(&self.store, &file.object_meta, name, options, self.bounds).await?;
        let start = Start { lines: 0, after_byte, ..start };
        Ok(Some(OpenedText { text, start, header: options.header.then_some(header) }))
    }

    fn batches(&self, file: Arc<str>, opened: OpenedText) -> Result<impl Stream<Item = Result<RecordBatch>> + use<>> {
        let OpenedText { text, start, header } = opened;
        let schema: Schema = self.file_schema.project(&self.wanted)?;
        let columns = ColumnMapping {
            schema: Arc::new(schema),
            cells: self.wanted.iter().copied().map(Some).collect(),
            nulls: self.options.null_texts().into(),
            decimal: self.options.decimal,
            declared: self.declared,
        };
        let width = (!self.options.header).then(|| self.file_schema.fields().len());
        let mut batches = CsvBatches {
            records: Records::new(Arc::clone(&file), &self.options, width, start).within(self.bounds),
            text: trimmed(text, &self.options, self.options.delimiter_for(&file, start.delimiter)),
            file,
            opener: self.clone(),
            columns,
            piece: Bytes::new(),
            header_read: !self.options.header,
        };
        if let Some(header) = header {
            batches.take_header(&header)?;
        }
        Ok(futures::stream::try_unfold(Some(batches), |batches| async {
            let Some(mut batches) = batches else { return Ok(None) };
            let (batch, more) = batches.next().await?;
            Ok(batch.map(|batch| (batch, more.then_some(batches))))
        }))
    }
}

/// The text of a file or part, from its first record on.
struct OpenedText {
    text: TextStream,
    start: Start,
    /// The column names, if the text does not begin with them.
    header: Option<Vec<String>>,
}

/// Removes blanks around cells if the options require it.
pub(super) fn trimmed(text: TextStream, options: &CsvOptions, delimiter: u8) -> TextStream {
    if !options.trim {
        return text;
    }
    let mut trim = Trim::new(options, delimiter);
    text.map_ok(move |piece| trim.piece(&piece)).boxed()
}

/// The batches of one file or part.
struct CsvBatches {
    file: Arc<str>,
    opener: CsvOpener,
    records: Records,
    columns: ColumnMapping,
    text: TextStream,
    piece: Bytes,
    header_read: bool,
}

impl CsvBatches {
    /// Returns the next batch, if rows are left, and whether more may follow.
    async fn next(&mut self) -> Result<(Option<RecordBatch>, bool)> {
        let batch_size = self.opener.batch_size;
        loop {
            if self.piece.is_empty() {
                match self.text.try_next().await? {
                    Some(piece) => self.piece = piece,
                    None => {
                        self.records.finish()?;
                        self.header_from_records()?;
                        return Ok((self.take_batch()?, false));
                    }
                }
                continue;
            }
            let wanted = if self.header_read { batch_size } else { 1 };
            let read = self.records.read(&self.piece, wanted)?;
            self.piece.advance(read);
            self.header_from_records()?;
            if self.records.is_full(batch_size) {
                return Ok((self.take_batch()?, true));
            }
        }
    }

    fn take_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.records.len() == 0 {
            return Ok(None);
        }
        let batch = self.columns.batch(&self.records)?;
        self.records.clear();
        Ok(Some(batch))
    }

    fn header_from_records(&mut self) -> Result<()> {
        if self.header_read || self.records.len() == 0 {
            return Ok(());
        }
        let header = column_names(&self.records)?;
        self.records.clear();
        self.take_header(&header)
    }

    /// Finds the table's columns in the header by name.
    fn take_header(&mut self, header: &[String]) -> Result<()> {
        let opener = &self.opener;
        let header = &opener
            .columns
            .all_in_table(header.iter().map(String::as_str))
            .map_err(|column| Error::from(ErrorKind::DuplicateColumn { file: self.file.to_string(), column }))?;
        if let Some(field) = opener.path_columns.iter().find(|field| header.contains(field.name())) {
            let (file, column) = (self.file.to_string(), field.name().clone());
            return Err(tfr_files::Error::from(tfr_files::ErrorKind::ColumnInPath { file, column }).into());
        }
        let position = |name: &str| header.iter().position(|other| other == name);
        if self.opener.declared
            && let Some(field) = opener.file_schema.fields().iter().find(|field| position(field.name()).is_none())
        {
            let (file, column) = (self.file.to_string(), field.name().clone());
            return Err(Error::from(ErrorKind::MissingColumn { file, column, header: header.to_vec() }).into());
        }
        self.columns.cells = self.columns.schema.fields().iter().map(|field| position(field.name())).collect();
        self.records.set_width(header.len());
        self.header_read = true;
        Ok(())
    }
}

/// Returns column names from the first record: an empty name becomes `column_N`, a repeated one gets a number.
pub(super) fn column_names(records: &Records) -> Result<Vec<String>, Error> {
    let cells = records.cells()?;
    let header: Vec<&str> = (0..cells.width()).map(|column| cells.get(0, column)).collect();
    let mut names: Vec<String> = Vec::with_capacity(header.len());
    let mut taken: HashSet<String> = header.iter().map(|name| (*name).to_owned()).collect();
    let mut seen = HashSet::new();
    for (column, name) in header.into_iter().enumerate() {
        if !name.is_empty() && seen.insert(name) {
            names.push(name.to_owned());
            continue;
        }
        let stem = if name.is_empty() { format!("column_{}", column + 1) } else { name.to_owned() };
        let mut unique = stem.clone();
        let mut number = 0;
        while (number == 0 && !name.is_empty()) || !taken.insert(unique.clone()) {
            number += 1;
            unique = format!("{stem}_{number}");
        }
        names.push(unique);
    }
    Ok(names)
}

/// Reads the column names from the first record of a file, and its position.
async fn read_header(
    store: &Arc<dyn ObjectStore>,
    meta: &ObjectMeta,
    name: &str,
    options: &Arc<CsvOptions>,
    bounds: ReadBounds,
) -> Result<(Vec<String>, Start), Error> {
    let bytes = text::bytes(store, meta, name, 0..meta.size).await?;
    let text = text::text(name, InputFormat::Csv, bytes, options.compression, options.encoding).await?;
    let (text, start) = preamble::start(text, options).await?;
    let mut text = trimmed(text, options, options.delimiter_for(name, start.delimiter));
    let mut records = Records::new(name.into(), options, None, start).within(bounds);
    while records.len() == 0 {
        match text.try_next().await? {
            Some(piece) if piece.is_empty() => {}
            Some(piece) => drop(records.read(&piece, 1)?),
            None => {
                records.finish()?;
                break;
            }
        }
    }
    Ok((column_names(&records)?, start))
}
