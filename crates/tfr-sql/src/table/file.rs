//! [`TableFile`]: writes one file of a table.

use std::error::Error as StdError;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions};
use arrow::record_batch::RecordBatch;
use tfr_arrow::text::find_beyond_precision;
use tfrecord_framing::{Level, gzip_member};

use super::Encoder;
use super::dictionaries::Dictionaries;
use super::parquet::ParquetFile;
use crate::cli::{RowFormat, TableFormat, TableTarget};
use crate::error::{Error, Result};
use crate::file_types::FileTypes;
use crate::rows::RowWriter;

/// Bytes of text that are written, and compressed, at a time. Blocks have exactly this size, so that compressed files
/// do not depend on batch boundaries.
const TEXT_BLOCK: usize = 1 << 20;

/// An open file of a table.
pub struct TableFile {
    writer: FormatWriter,
    types: FileTypes,
    /// A handle of the same file, to sync it.
    file: File,
    /// Its name in messages.
    shown: PathBuf,
    rows: u64,
}

/// The size of a written file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStats {
    /// Rows in the file.
    pub rows: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

impl FileStats {
    /// Returns the sum of both.
    pub fn with(self, other: Self) -> Self {
        Self { rows: self.rows + other.rows, bytes: self.bytes + other.bytes }
    }
}

/// The cause of a write error: an I/O error, or a type that the format does not support.
type Cause = Box<dyn StdError + Send + Sync>;

enum FormatWriter {
    Text(Box<TextFile>),
    Arrow(Box<ArrowFile>),
    Parquet(Box<ParquetFile>),
}

impl FormatWriter {
    fn create(file: File, target: &TableTarget, schema: &SchemaRef, encoder: &Arc<Encoder>) -> Result<Self, Cause> {
        let text = |file, format| {
            let rows = RowWriter::new(format, Arc::clone(schema));
            Self::Text(Box::new(TextFile { file, rows, text: Vec::new(), gzip: target.gzip }))
        };
        Ok(match target.format {
            TableFormat::Csv => text(file, RowFormat::Csv),
            TableFormat::Json => text(file, RowFormat::Json),
            TableFormat::JsonLines => text(file, RowFormat::Jsonl),
            TableFormat::Arrow => Self::Arrow(Box::new(ArrowFile::create(file, schema)?)),
            TableFormat::Parquet => Self::Parquet(Box::new(ParquetFile::create(file, schema, encoder)?)),
        })
    }

    fn write(&mut self, batch: RecordBatch) -> Result<(), Cause> {
        match self {
            Self::Text(text) => text.write(&batch),
            Self::Arrow(arrow) => Ok(arrow.write(batch)?),
            Self::Parquet(parquet) => Ok(parquet.write(&batch)?),
        }
    }

    fn finish(self) -> Result<(), Cause> {
        match self {
            Self::Text(text) => text.finish(),
            Self::Arrow(arrow) => Ok(arrow.finish()?),
            Self::Parquet(parquet) => Ok(parquet.finish()?),
        }
    }
}

impl TableFile {
    /// Creates the file at `path`. Messages call it `shown`.
    pub fn create(
        path: PathBuf,
        shown: PathBuf,
        target: &TableTarget,
        types: FileTypes,
        encoder: &Arc<Encoder>,
    ) -> Result<Self> {
        let create = || {
            let file = File::create_new(path)?;
            let writer = FormatWriter::create(file.try_clone()?, target, types.schema(), encoder)?;
            Ok((file, writer))
        };
        let (file, writer) = create().map_err(|source: Cause| Error::Write { path: shown.clone(), source })?;
        Ok(Self { writer, types, file, shown, rows: 0 })
    }

    /// Appends the rows of `batch`.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if matches!(self.writer, FormatWriter::Parquet(_)) {
            self.refuse_long_decimals(batch)?;
        }
        self.rows += batch.num_rows() as u64;
        // Readers of the file may see the values stored under nulls.
        let mut write = || {
            let pieces = self.types.apply(&tfr_arrow::visible::visible_batch(batch)?)?;
            pieces.into_iter().try_for_each(|piece| self.writer.write(piece))
        };
        write().map_err(|source| Error::Write { path: self.shown.clone(), source })
    }

    /// Rejects decimals with more digits than their type. Parquet has room for the digits of the type only, and its
    /// writer cuts off the others.
    fn refuse_long_decimals(&self, batch: &RecordBatch) -> Result<()> {
        let schema = batch.schema();
        for (field, column) in schema.fields().iter().zip(batch.columns()) {
            if let Some(found) = find_beyond_precision(column) {
                let source = Box::new(found.in_column(field.name(), self.rows));
                return Err(Error::Write { path: self.shown.clone(), source });
            }
        }
        Ok(())
    }

    /// Writes the remaining data and syncs the file.
    pub fn finish(self) -> Result<FileStats> {
        let Self { writer, file, shown, rows, .. } = self;
        let finish = || {
            writer.finish()?;
            file.sync_all()?;
            Ok(FileStats { rows, bytes: file.metadata()?.len() })
        };
        finish().map_err(|source| Error::Write { path: shown, source })
    }
}

/// CSV and JSON, in the format that is printed.
struct TextFile {
    file: File,
    rows: RowWriter,
    /// Text that has not been written yet.
    text: Vec<u8>,
    gzip: bool,
}

impl TextFile {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Cause> {
        self.rows.write(batch, &mut self.text)?;
        let whole = self.text.len() - self.text.len() % TEXT_BLOCK;
        for block in self.text.get(..whole).unwrap_or_default().chunks(TEXT_BLOCK) {
            write_block(&mut self.file, block, self.gzip)?;
        }
        self.text.drain(..whole);
        Ok(())
    }

    fn finish(mut self) -> Result<(), Cause> {
        self.rows.finish(&mut self.text)?;
        // Even without text: a gzip file needs at least one member.
        Ok(write_block(&mut self.file, &self.text, self.gzip)?)
    }
}

fn write_block(file: &mut File, block: &[u8], gzip: bool) -> std::io::Result<()> {
    if !gzip {
        return file.write_all(block);
    }
    let mut member = Vec::with_capacity(block.len() / 2);
    gzip_member(block, Level::default(), &mut member);
    file.write_all(&member)
}

/// An Arrow IPC file, with buffers compressed by LZ4, which readers support.
struct ArrowFile {
    writer: FileWriter<BufWriter<File>>,
    dictionaries: Dictionaries,
}

impl ArrowFile {
    fn create(file: File, schema: &SchemaRef) -> Result<Self, ArrowError> {
        let options = IpcWriteOptions::default()
            .try_with_compression(Some(CompressionType::LZ4_FRAME))?
            .with_dictionary_handling(DictionaryHandling::Delta);
        let writer = FileWriter::try_new_with_options(BufWriter::new(file), schema, options)?;
        Ok(Self { writer, dictionaries: Dictionaries::new(schema)? })
    }

    fn write(&mut self, batch: RecordBatch) -> Result<(), ArrowError> {
        self.writer.write(&self.dictionaries.merge(batch)?)
    }

    fn finish(mut self) -> Result<(), ArrowError> {
        self.writer.finish()?;
        Ok(self.writer.get_mut().flush()?)
    }
}
