//! The file format: messages, followed by an index of them.

use std::collections::VecDeque;
use std::ops::Range;

use arrow_buffer::Buffer;
use arrow_ipc::Block;
use datafusion_common::Result;
use futures::StreamExt;
use object_store::ObjectStoreExt;

use super::MAGIC;
use super::message::{CONTINUATION, Decoder, Layout, Message};
use super::refusal::{Refusal, damaged};
use crate::error::Error;
use crate::forward::{FilePart, InputFile};
use tfr_files::scan::Batches;

/// Length of the trailer: the length of the footer and the magic number.
const TRAILER_LEN: u64 = 10;

/// The footer of a file.
pub(super) struct ArrowFooter {
    pub(super) layout: Layout,
    dictionaries: Vec<MessageLocation>,
    batches: Vec<MessageLocation>,
}

/// The location of a message: its metadata, followed by its body.
#[derive(Debug, Clone)]
struct MessageLocation {
    metadata: Range<u64>,
    body_len: u64,
}

impl ArrowFooter {
    pub(super) async fn read(file: &InputFile) -> Result<Self, Error> {
        let size = file.meta.size;
        let refused = |refusal| file.refused(size.saturating_sub(TRAILER_LEN), refusal);
        let cut = || refused(Refusal::Damaged("it is cut off: no footer is at its end".to_owned()));
        let Some(start) = size.checked_sub(TRAILER_LEN).filter(|start| *start >= MAGIC.len() as u64) else {
            return Err(cut());
        };
        let trailer = file.bytes(start..size).await?;
        let Some((len, magic)) = trailer.split_first_chunk::<4>() else { return Err(cut()) };
        if magic != MAGIC {
            return Err(cut());
        }
        let len = i32::from_le_bytes(*len);
        let Some(footer_start) = u64::try_from(len).ok().and_then(|len| start.checked_sub(len)) else {
            return Err(refused(Refusal::Damaged(format!("a footer of {len} bytes"))));
        };
        // A copy, for alignment.
        let bytes = file.bytes(footer_start..start).await?.to_vec();
        Self::parse(&bytes, footer_start).map_err(|refusal| file.refused(footer_start, refusal))
    }

    fn parse(bytes: &[u8], start: u64) -> Result<Self, Refusal> {
        let footer =
            arrow_ipc::root_as_footer(bytes).or_else(|error| damaged(format!("the footer is damaged: {error}")))?;
        let Some(schema) = footer.schema() else { return damaged("the footer has no schema") };
        let location = |block: &Block| -> Result<MessageLocation, Refusal> {
            let (offset, metadata, body) = (block.offset(), block.metaDataLength(), block.bodyLength());
            let location = || {
                let (offset, metadata) = (u64::try_from(offset).ok()?, u64::try_from(metadata).ok()?);
                let body_len = u64::try_from(body).ok()?;
                let end = offset.checked_add(metadata)?;
                (end.checked_add(body_len)? <= start).then_some(MessageLocation { metadata: offset..end, body_len })
            };
            match location() {
                Some(location) => Ok(location),
                None => damaged(format!("a message of {metadata} and {body} bytes at byte {offset}")),
            }
        };
        Ok(Self {
            layout: Layout::new(schema)?,
            dictionaries: footer.dictionaries().into_iter().flatten().map(location).collect::<Result<_, _>>()?,
            batches: footer.recordBatches().into_iter().flatten().map(location).collect::<Result<_, _>>()?,
        })
    }
}

/// Returns the batches that begin in the range of the part.
pub(super) async fn batches(part: FilePart) -> Result<Batches> {
    let footer = ArrowFooter::read(&part.file).await?;
    let mut decoder = Decoder::new(footer.layout, |name| part.wants(name));
    for location in &footer.dictionaries {
        part.decode(&mut decoder, location).await?;
    }
    let batches: VecDeque<_> =
        footer.batches.into_iter().filter(|location| part.range.contains(&location.metadata.start)).collect();
    let batches = futures::stream::try_unfold((part, decoder, batches), |(part, mut decoder, mut batches)| async {
        while let Some(location) = batches.pop_front() {
            if let Some(batch) = part.decode(&mut decoder, &location).await? {
                return Ok(Some((batch, (part, decoder, batches))));
            }
        }
        Ok(None)
    });
    Ok(batches.boxed())
}

impl FilePart {
    async fn decode(
        &self,
        decoder: &mut Decoder,
        location: &MessageLocation,
    ) -> Result<Option<arrow_array::RecordBatch>, Error> {
        let (start, end) = (location.metadata.start, location.metadata.end + location.body_len);
        let refused = |refusal| self.file.refused(start, refusal);
        let mut metadata = self.file.bytes(start..end).await?;
        self.bytes_scanned.add(metadata.len());
        let body = metadata.split_off((location.metadata.end - start) as usize);
        let message = metadata.strip_prefix(&CONTINUATION).unwrap_or(&metadata);
        let framed = message.split_first_chunk::<4>().and_then(|(len, message)| {
            let len = usize::try_from(i32::from_le_bytes(*len)).ok()?;
            message.get(..len)
        });
        let Some(framed) = framed else {
            return Err(refused(Refusal::Damaged(
                "the metadata of a message is longer than the footer records".to_owned(),
            )));
        };
        decoder.decode(&Message::new(framed.to_vec()), Buffer::from(body)).map_err(refused)
    }
}

impl InputFile {
    async fn bytes(&self, range: Range<u64>) -> Result<bytes::Bytes, Error> {
        let len = range.end - range.start;
        if len == 0 {
            return Ok(bytes::Bytes::new());
        }
        let failed = |source| Error::read(&self.name, source);
        let bytes = self.store.get_range(&self.meta.location, range).await.map_err(|error| failed(error.into()))?;
        match bytes.len() as u64 == len {
            true => Ok(bytes),
            false => Err(failed(std::io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Returns the error for a refusal at a byte of this file.
    fn refused(&self, byte: u64, refusal: Refusal) -> Error {
        super::refusal::refused(&self.name, byte, refusal)
    }
}
