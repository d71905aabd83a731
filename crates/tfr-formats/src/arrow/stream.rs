//! The stream format: a sequence of messages.

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use datafusion_common::Result;
use futures::StreamExt;

use super::message::{CONTINUATION, Decoder, Message};
use super::refusal::{Refusal, damaged};
use crate::error::Error;
use crate::forward::{FilePart, Forward, Input};
use tfr_files::scan::Batches;

/// Returns the columns of a stream.
pub(super) async fn schema(file: &Input) -> Result<SchemaRef, Error> {
    let mut messages = Messages::open(file).await?;
    Ok(messages.layout().await?.schema)
}

/// Returns the batches of a stream; none for a part that does not contain its start.
pub(super) async fn batches(part: FilePart) -> Result<Batches> {
    if part.range.start > 0 {
        return Ok(futures::stream::empty().boxed());
    }
    let mut messages = Messages::open(&part.file).await?;
    let decoder = Decoder::new(messages.layout().await?, |name| part.wants(name));
    let batches = futures::stream::try_unfold((messages, decoder), move |(mut messages, mut decoder)| {
        let scanned = part.bytes_scanned.clone();
        async move {
            let before = messages.bytes.position();
            let batch = messages.next_batch(&mut decoder).await?;
            scanned.add((messages.bytes.position() - before) as usize);
            Ok(batch.map(|batch| (batch, (messages, decoder))))
        }
    });
    Ok(batches.boxed())
}

/// Reads messages from the start of a file.
struct Messages {
    file: Input,
    bytes: Forward,
}

impl Messages {
    async fn open(file: &Input) -> Result<Self, Error> {
        Ok(Self { file: file.clone(), bytes: Forward::open(file).await? })
    }

    async fn layout(&mut self) -> Result<super::message::Layout, Error> {
        let refused = |file: &Input, refusal| file.refused(0, refusal);
        let Some(message) = self.message().await? else {
            return Err(refused(&self.file, Refusal::Damaged("it does not begin with a schema".to_owned())));
        };
        message.layout().map_err(|refusal| refused(&self.file, refusal))
    }

    async fn next_batch(&mut self, decoder: &mut Decoder) -> Result<Option<RecordBatch>, Error> {
        loop {
            let start = self.bytes.position();
            let Some(message) = self.message().await? else { return Ok(None) };
            let refused = |file: &Input, refusal| file.refused(start, refusal);
            let len = message.body_len().map_err(|refusal| refused(&self.file, refusal))?;
            let body = self.bytes.take(len).await?;
            let batch = decoder.decode(&message, Buffer::from(body)).map_err(|refusal| refused(&self.file, refusal))?;
            if batch.is_some() {
                return Ok(batch);
            }
        }
    }

    /// Returns the metadata of the next message; `None` at the end of the stream.
    async fn message(&mut self) -> Result<Option<Message>, Error> {
        if self.bytes.left() == 0 {
            return Ok(None);
        }
        let start = self.bytes.position();
        let mut len = self.bytes.take(4).await?;
        if *len == CONTINUATION {
            len = self.bytes.take(4).await?;
        }
        let len = <[u8; 4]>::try_from(len.as_ref()).map(i32::from_le_bytes).unwrap_or_default();
        if len == 0 {
            return self.end().await.map(|()| None);
        }
        let Ok(len) = u64::try_from(len) else {
            return Err(self.file.refused(start, Refusal::Damaged(format!("a message of {len} bytes"))));
        };
        Ok(Some(Message::new(self.bytes.take(len).await?.to_vec())))
    }

    /// Requires that nothing follows the end of the stream.
    async fn end(&mut self) -> Result<(), Error> {
        match self.bytes.left() {
            0 => Ok(()),
            more => {
                let refusal = damaged::<()>(format!("{more} bytes behind the end of the stream"));
                refusal.map_err(|refusal| self.file.refused(self.bytes.position(), refusal))
            }
        }
    }
}
