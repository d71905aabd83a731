//! The part of a text file that one partition of a scan reads.

use std::sync::Arc;

use datafusion_datasource::PartitionedFile;
use datafusion_physical_plan::metrics::Count;
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectStore;

use super::{Bytestream, Compression, Encoding, TextStream, bytes, can_split, lines_in, peek, read_error, text};
use crate::content::Content;
use crate::error::Result;
use crate::input_format::InputFormat;

/// How the files of a table are text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// What is to be read from them.
    pub(crate) format: InputFormat,
    /// `None`: told from the content of each file.
    pub(crate) compression: Option<Compression>,
    pub(crate) encoding: Encoding,
    /// The byte that ends a line wherever it stands.
    pub(crate) terminator: u8,
}

/// Text that a partition reads.
pub(crate) struct Part {
    pub(crate) text: TextStream,
    /// The byte of the file from which on the lines were taken; `None`: its start.
    pub(crate) after_byte: Option<u64>,
}

/// Opens what the range of `file` stands for: the lines that start in it, or, of a file that cannot be split, all with
/// the part at its start and nothing with the others.
///
/// # Errors
/// The content is of another format or encoding; the store or the decompressor fails.
pub(crate) async fn part(
    store: &Arc<dyn ObjectStore>,
    file: &PartitionedFile,
    name: &str,
    layout: Layout,
    scanned: &Count,
) -> Result<Option<Part>> {
    let Layout { format, compression, encoding, terminator } = layout;
    let meta = &file.object_meta;
    let range = file.range.as_ref().map_or(0..meta.size, |range| range.start as u64..range.end as u64);
    let is_whole = range.start == 0 && range.end >= meta.size;
    let can_split = !is_whole && {
        let (head, _) = peek(bytes(store, meta, name, 0..meta.size).await?, Content::LEN)
            .await
            .map_err(|error| read_error(name, error))?;
        can_split(&head, compression, encoding)
    };
    if !can_split {
        if range.start > 0 {
            return Ok(None);
        }
        let bytes = counted(bytes(store, meta, name, 0..meta.size).await?, scanned);
        let text = text(name, format, bytes, compression, encoding).await?;
        return Ok(Some(Part { text, after_byte: None }));
    }
    // From one byte before, which may end the line before.
    let bytes = counted(bytes(store, meta, name, range.start.saturating_sub(1)..meta.size).await?, scanned);
    let lines = lines_in(bytes, range.clone(), terminator);
    Ok(Some(match range.start {
        0 => Part { text: text(name, format, lines, compression, encoding).await?, after_byte: None },
        start => Part { text: super::text_of_part(name, lines, encoding), after_byte: Some(start) },
    }))
}

fn counted(bytes: Bytestream, scanned: &Count) -> Bytestream {
    let scanned = scanned.clone();
    bytes.inspect_ok(move |piece| scanned.add(piece.len())).boxed()
}
