//! Arrow IPC files and streams.
//!
//! Messages are parsed here and passed to arrow-ipc one by one, because its own readers trust the lengths in a file.
//! They allocate whatever a damaged file specifies, and panic on buffers beyond the end.

mod check;
mod endian;
mod file;
mod fit;
pub(crate) mod message;
mod rebuild;
mod refusal;
mod stream;

use std::sync::Arc;

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion_common::Result;
use datafusion_datasource::file_format::FileFormat;
use tfr_stores::FileNames;

pub use stream::ArrowPipe;

use crate::content::head;
use crate::error::Error;
use crate::forward::{FilePart, ForwardFiles, ForwardReader, InputFile};
use crate::hugging_face;
use crate::input_format::InputFormat;
use crate::names::ColumnNames;
use tfr_files::scan::{Batches, ReaderFormat};

/// The magic number of the file format; anything else is a stream.
const MAGIC: &[u8] = b"ARROW1";

/// Returns the format; `names` determines the files' names in messages. `needs_end`: whether a stream must have its
/// end-of-stream marker.
pub(crate) fn format(names: FileNames, columns: ColumnNames, needs_end: bool) -> Arc<dyn FileFormat> {
    Arc::new(ReaderFormat::new(ForwardFiles::new(ArrowReader { needs_end }, names, columns)))
}

#[derive(Debug)]
struct ArrowReader {
    needs_end: bool,
}

#[async_trait]
impl ForwardReader for ArrowReader {
    fn name(&self) -> &'static str {
        "arrow"
    }

    fn format(&self) -> InputFormat {
        InputFormat::Arrow
    }

    /// The file format has an index of its batches. A stream is read by the part that contains its start.
    fn can_split(&self) -> bool {
        true
    }

    async fn schema(&self, file: InputFile) -> Result<SchemaRef> {
        let schema = match is_file(&file).await? {
            true => file::ArrowFooter::read(&file).await?.layout.schema,
            false => stream::schema(&file).await?,
        };
        hugging_face::warn_of_damage(schema.metadata(), &file.name);
        Ok(schema)
    }

    async fn batches(&self, part: FilePart) -> Result<Batches> {
        match is_file(&part.file).await? {
            true => file::batches(part).await,
            false => stream::batches(part, self.needs_end).await,
        }
    }
}

async fn is_file(file: &InputFile) -> Result<bool, Error> {
    Ok(head(&file.store, &file.meta, &file.name).await?.starts_with(MAGIC))
}
