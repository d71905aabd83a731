//! The part of a text file that one partition of a scan reads.

use std::sync::Arc;

use datafusion_datasource::PartitionedFile;
use datafusion_physical_plan::metrics::Count;
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectStore;

use super::{Bytestream, Compression, Encoding, TextStream, bytes, can_split, lines_in, peek, text};
use crate::content::Content;
use crate::error::{Error, Result};
use crate::input_format::InputFormat;

/// The text properties of a table's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextLayout {
    /// The format that the text is read as.
    pub(crate) format: InputFormat,
    /// `None`: detected from the content of each file.
    pub(crate) compression: Option<Compression>,
    pub(crate) encoding: Encoding,
    /// The byte that always ends a line.
    pub(crate) terminator: u8,
}

/// The text that a partition reads.
pub(crate) struct TextPart {
    pub(crate) text: TextStream,
    /// The byte from which lines are counted; `None`: the start of the file.
    pub(crate) after_byte: Option<u64>,
}

/// Opens the text of the range of `file`: the lines that start in it. If a file cannot be split, the part at its start
/// reads all lines and the others read nothing.
///
/// # Errors
/// The content has another format or encoding, or the store or the decompressor fails.
pub(crate) async fn part(
    store: &Arc<dyn ObjectStore>,
    file: &PartitionedFile,
    name: &str,
    layout: TextLayout,
    scanned: &Count,
) -> Result<Option<TextPart>> {
    let TextLayout { format, compression, encoding, terminator } = layout;
    let meta = &file.object_meta;
    let range = file.range.as_ref().map_or(0..meta.size, |range| range.start as u64..range.end as u64);
    let is_whole = range.start == 0 && range.end >= meta.size;
    let can_split = !is_whole && {
        let (head, _) = peek(bytes(store, meta, name, 0..meta.size).await?, Content::LEN)
            .await
            .map_err(|error| Error::read(name, error))?;
        can_split(&head, compression, encoding)
    };
    if !can_split {
        if range.start > 0 {
            return Ok(None);
        }
        let bytes = counted(bytes(store, meta, name, 0..meta.size).await?, scanned);
        let text = text(name, format, bytes, compression, encoding).await?;
        return Ok(Some(TextPart { text, after_byte: None }));
    }
    // Include the byte before: it may end the previous line.
    let bytes = counted(bytes(store, meta, name, range.start.saturating_sub(1)..meta.size).await?, scanned);
    let lines = lines_in(bytes, range.clone(), terminator);
    Ok(Some(match range.start {
        0 => TextPart { text: text(name, format, lines, compression, encoding).await?, after_byte: None },
        start => TextPart { text: super::text_of_part(name, lines, encoding), after_byte: Some(start) },
    }))
}

fn counted(bytes: Bytestream, scanned: &Count) -> Bytestream {
    let scanned = scanned.clone();
    bytes.inspect_ok(move |piece| scanned.add(piece.len())).boxed()
}
