//! The stream format: a sequence of messages.

use std::fmt;
use std::io;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use datafusion_common::Result;
use datafusion_physical_plan::metrics::Count;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};

use super::MAGIC;
use super::message::{CONTINUATION, Decoder, Message};
use super::refusal::{Refusal, refused};
use crate::content::Content;
use crate::error::Error;
use crate::forward::{FilePart, Forward, InputFile};
use crate::input_format::InputFormat;
use tfr_files::scan::Batches;

/// The defect of a pipe that was closed before its stream has ended.
const WITHOUT_END: &str = "the stream ends without its end-of-stream marker: the program that writes it has failed, or \
                           did not close it";

/// Returns the columns of a stream.
pub(super) async fn schema(file: &InputFile) -> Result<SchemaRef, Error> {
    let mut messages = Messages::open(file, false).await?;
    Ok(messages.layout().await?.schema)
}

/// Returns the batches of a stream; none for a part that does not contain its start. `needs_end`: whether the stream
/// must have its end-of-stream marker.
pub(super) async fn batches(part: FilePart, needs_end: bool) -> Result<Batches> {
    if part.range.start > 0 {
        return Ok(futures::stream::empty().boxed());
    }
    let mut messages = Messages::open(&part.file, needs_end).await?;
    let decoder = Decoder::new(messages.layout().await?, |name| part.wants(name));
    Ok(decoded(messages, decoder, part.bytes_scanned))
}

/// Decodes the messages that follow the schema.
fn decoded(messages: Messages, decoder: Decoder, bytes_scanned: Count) -> Batches {
    let batches = futures::stream::try_unfold((messages, decoder), move |(mut messages, mut decoder)| {
        let scanned = bytes_scanned.clone();
        async move {
            let before = messages.bytes.position();
            let batch = messages.next_batch(&mut decoder).await?;
            scanned.add((messages.bytes.position() - before) as usize);
            Ok(batch.map(|batch| (batch, (messages, decoder))))
        }
    });
    batches.boxed()
}

/// An Arrow stream on a pipe, which is read once.
pub struct ArrowPipe {
    schema: SchemaRef,
    messages: Messages,
    decoder: Decoder,
}

impl ArrowPipe {
    /// Whether a table with these first bytes is an Arrow stream, as opposed to a file.
    pub fn is_begun_by(head: &[u8]) -> bool {
        !head.starts_with(MAGIC) && Content::of(head) == Content::Format(InputFormat::Arrow)
    }

    /// Waits for the schema. Messages call the pipe `name`. `needs_end`: whether the stream must have its end-of-stream
    /// marker, without which a writer that failed cannot be distinguished from one that is done.
    ///
    /// # Errors
    /// The bytes are not an Arrow stream, or cannot be read.
    pub async fn open(
        name: &str,
        bytes: BoxStream<'static, io::Result<Bytes>>,
        needs_end: bool,
    ) -> Result<Self, Error> {
        let name: Arc<str> = name.into();
        let mut messages = Messages { bytes: Forward::of_pipe(&name, bytes), name, needs_end };
        let layout = messages.layout().await?;
        Ok(Self { schema: Arc::clone(&layout.schema), messages, decoder: Decoder::new(layout, |_| true) })
    }

    /// Returns the columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the rows, in batches of at most `rows`.
    pub fn batches(self, rows: usize) -> Batches {
        let decoded = decoded(self.messages, self.decoder, Count::new());
        let cut = decoded.map_ok(move |batch| {
            let starts = (0..batch.num_rows()).step_by(rows.max(1));
            let cut = move |start| Ok(batch.slice(start, rows.min(batch.num_rows() - start)));
            futures::stream::iter(starts.map(cut))
        });
        cut.try_flatten().boxed()
    }
}

impl fmt::Debug for ArrowPipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrowPipe").field("name", &self.messages.name).finish_non_exhaustive()
    }
}

/// Reads messages from the start of a file or a pipe.
struct Messages {
    /// The name in messages.
    name: Arc<str>,
    bytes: Forward,
    needs_end: bool,
}

impl Messages {
    async fn open(file: &InputFile, needs_end: bool) -> Result<Self, Error> {
        Ok(Self { name: Arc::clone(&file.name), bytes: Forward::open(file).await?, needs_end })
    }

    async fn layout(&mut self) -> Result<super::message::Layout, Error> {
        let Some(message) = self.message().await? else {
            return Err(refused(&self.name, 0, Refusal::Damaged("it does not begin with a schema".to_owned())));
        };
        message.layout().map_err(|refusal| refused(&self.name, 0, refusal))
    }

    async fn next_batch(&mut self, decoder: &mut Decoder) -> Result<Option<RecordBatch>, Error> {
        loop {
            let start = self.bytes.position();
            let Some(message) = self.message().await? else { return Ok(None) };
            let len = message.body_len().map_err(|refusal| refused(&self.name, start, refusal))?;
            let body = self.bytes.take(len).await?;
            let batch = decoder.decode(&message, Buffer::from(body));
            let batch = batch.map_err(|refusal| refused(&self.name, start, refusal))?;
            if batch.is_some() {
                return Ok(batch);
            }
        }
    }

    /// Returns the metadata of the next message; `None` at the end of the stream.
    async fn message(&mut self) -> Result<Option<Message>, Error> {
        let start = self.bytes.position();
        if self.bytes.is_at_end().await? {
            return match self.needs_end {
                true => Err(refused(&self.name, start, Refusal::Damaged(WITHOUT_END.to_owned()))),
                false => Ok(None),
            };
        }
        let mut len = self.bytes.take(4).await?;
        if *len == CONTINUATION {
            len = self.bytes.take(4).await?;
        }
        let len = <[u8; 4]>::try_from(len.as_ref()).map(i32::from_le_bytes).unwrap_or_default();
        if len == 0 {
            return self.end().await.map(|()| None);
        }
        let Ok(len) = u64::try_from(len) else {
            return Err(refused(&self.name, start, Refusal::Damaged(format!("a message of {len} bytes"))));
        };
        Ok(Some(Message::new(self.bytes.take(len).await?.to_vec())))
    }

    /// Requires that nothing follows the end of the stream.
    async fn end(&mut self) -> Result<(), Error> {
        if self.bytes.is_at_end().await? {
            return Ok(());
        }
        let more = match self.bytes.left() {
            u64::MAX => "more".to_owned(),
            more => more.to_string(),
        };
        let refusal = Refusal::Damaged(format!("{more} bytes behind the end of the stream"));
        Err(refused(&self.name, self.bytes.position(), refusal))
    }
}
