//! Arrow IPC, files and streams.
//!
//! The messages are taken apart here and handed to arrow-ipc one by one, because its own readers believe the lengths
//! that they find: they allocate what a damaged file asks for, and panic over buffers beyond the end.

mod check;
mod endian;
mod file;
pub(crate) mod message;
mod refusal;
mod stream;

use std::sync::Arc;

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion_common::Result;
use datafusion_datasource::file_format::FileFormat;
use tfr_files::FileNames;

use crate::content::head;
use crate::error::Error;
use crate::forward::{ForwardFiles, ForwardReader, Input, Part};
use crate::input_format::InputFormat;
use crate::names::ColumnNames;
use tfr_files::scan::{Batches, ReaderFormat};

/// How a file of the file format begins; all else is a stream.
const MAGIC: &[u8] = b"ARROW1";

/// The format, for files that are named in messages as `names` says.
pub(crate) fn format(names: FileNames, columns: ColumnNames) -> Arc<dyn FileFormat> {
    Arc::new(ReaderFormat::new(ForwardFiles::new(ArrowReader, names, columns)))
}

#[derive(Debug)]
struct ArrowReader;

#[async_trait]
impl ForwardReader for ArrowReader {
    fn name(&self) -> &'static str {
        "arrow"
    }

    fn format(&self) -> InputFormat {
        InputFormat::Arrow
    }

    /// The file format has an index of its batches; a stream is read by the part that has its start.
    fn can_split(&self) -> bool {
        true
    }

    async fn schema(&self, file: Input) -> Result<SchemaRef> {
        Ok(match is_file(&file).await? {
            true => file::Footer::read(&file).await?.layout.schema,
            false => stream::schema(&file).await?,
        })
    }

    async fn batches(&self, part: Part) -> Result<Batches> {
        match is_file(&part.file).await? {
            true => file::batches(part).await,
            false => stream::batches(part).await,
        }
    }
}

async fn is_file(file: &Input) -> Result<bool, Error> {
    Ok(head(&file.store, &file.meta, &file.name).await?.starts_with(MAGIC))
}
