//! Finds the schema of records that came without one.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use arrow_tfrecord::{RecordType, SchemaInference};
use bytes::Bytes;
use datafusion_common::Result;
use datafusion_session::Session;
use futures::StreamExt;
use object_store::{ObjectMeta, ObjectStore};
use tfrecord_framing::{Compression, RecordDecoder, Records};

use super::blocks::Blocks;
use super::options::ReadOptions;
use crate::directory::FileNames;
use crate::error::ErrorKind;

/// Records observed at a time.
const STEP: usize = 64;

/// What was learned of the files.
pub(crate) struct Inferred {
    pub(crate) schema: Schema,
    /// The compression of each file that was looked at.
    pub(super) compressions: Vec<Option<Compression>>,
    /// How many files were looked into.
    pub(super) looked_into: usize,
    /// How many records were looked at.
    pub(super) records: u64,
    /// Whether these are all records of all files.
    pub(super) is_all: bool,
}

/// The features of all `files` together, or of an evenly spaced sample of them: those of the first records of each. Of
/// files without records there are none.
pub(crate) async fn infer(
    session: &dyn Session,
    store: &Arc<dyn ObjectStore>,
    files: &[ObjectMeta],
    names: &FileNames,
    options: &ReadOptions,
) -> Result<Inferred> {
    match options.mapping.as_ref().map(|mapping| mapping.record_type) {
        Some(RecordType::SequenceExample) => return Err(ErrorKind::UndeclaredSequences.into()),
        Some(RecordType::Bytes) => {
            let (schema, compressions) = (raw_records(), vec![None; files.len()]);
            return Ok(Inferred { schema, compressions, looked_into: 0, records: 0, is_all: true });
        }
        _ => {}
    }
    let mut inference = SchemaInference::new().with_fixed_size_lists(options.fixed_size_lists);
    let mut compressions = vec![None; files.len()];
    let looked_into = sample(files.len(), options.infer_files).count();
    let mut is_all = looked_into == files.len();
    // Collected first: a closure over references is not general enough for the compiler inside a stream.
    let heads: Vec<_> = sample(files.len(), options.infer_files)
        .map(|index| {
            let file = files[index].clone();
            let name: Arc<str> = names.name(&file.location).into();
            let mut blocks = Blocks::new(Arc::clone(store), file.clone(), Arc::clone(&name), 0..file.size);
            async move {
                let first = blocks.next().await;
                (index, name, blocks, first)
            }
        })
        .collect();
    let concurrency = session.config_options().execution.meta_fetch_concurrency.get();
    let mut heads = futures::stream::iter(heads).buffered(concurrency);
    while let Some((index, name, mut blocks, first)) = heads.next().await {
        let mut head = Head::new(options);
        let mut block = first?;
        loop {
            let observed = head.observe(block.as_ref(), &mut inference).map_err(|error| {
                let file = name.to_string();
                ErrorKind::Inference { file, error }
            })?;
            if observed.is_break() {
                is_all &= head.has_ended(files[index].size);
                break;
            }
            if block.is_none() {
                break;
            }
            block = blocks.next().await?;
        }
        compressions[index] = head.decoder.compression();
    }
    let records = inference.records();
    Ok(Inferred { schema: inference.finish(), compressions, looked_into, records, is_all })
}

/// The column of records that are taken as they are.
pub(super) fn raw_records() -> Schema {
    Schema::new(vec![Field::new("record", DataType::Binary, false)])
}

/// The positions of at most `most` files out of `files`, evenly spaced.
fn sample(files: usize, most: Option<usize>) -> impl Iterator<Item = usize> {
    let taken = most.map_or(files, |most| most.clamp(1, files.max(1)).min(files));
    // In the wider type, so that no product overflows.
    (0..taken).map(move |position| (position as u128 * files as u128 / taken as u128) as usize)
}

/// The first records of a file.
struct Head {
    decoder: RecordDecoder,
    records: Records,
    /// How many more records are to be looked at.
    left: usize,
}

impl Head {
    fn new(options: &ReadOptions) -> Self {
        let decoder = options.compression.map_or_else(RecordDecoder::detect, RecordDecoder::with_compression);
        Self {
            decoder: decoder.with_crc_policy(options.crc),
            records: Records::new(),
            left: options.infer_records.unwrap_or(usize::MAX).max(1),
        }
    }

    /// Whether the records seen are all of a file of so many bytes, as far as that is known before it is read to its end.
    fn has_ended(&self, size: u64) -> bool {
        self.decoder.compression() == Some(Compression::None) && self.decoder.position().byte == size
    }

    /// Looks at the records of the next block, or at those that are left when there is none. Breaks when enough were
    /// seen.
    fn observe(
        &mut self,
        block: Option<&Bytes>,
        inference: &mut SchemaInference,
    ) -> arrow_tfrecord::Result<ControlFlow<()>> {
        let mut rest = block.map_or(&[][..], Bytes::as_ref);
        loop {
            self.records.clear();
            let decoded = self.decoder.decode(&mut rest, self.left.min(STEP), &mut self.records);
            // Those before the damage first: they may say more about it.
            for (record, position) in self.records.iter().zip(self.records.positions()) {
                inference.observe(record, *position)?;
            }
            let decoded = decoded?;
            self.left -= decoded;
            if self.left == 0 {
                return Ok(ControlFlow::Break(()));
            }
            if decoded == 0 {
                break;
            }
        }
        if block.is_none() {
            self.decoder.finish()?;
        }
        Ok(ControlFlow::Continue(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_evenly_spaced() {
        let sampled = |files, most| sample(files, most).collect::<Vec<_>>();
        assert_eq!(sampled(10, Some(4)), [0, 2, 5, 7]);
        assert_eq!(sampled(3, Some(256)), [0, 1, 2]);
        assert_eq!(sampled(3, None), [0, 1, 2]);
        assert_eq!(sampled(3, Some(0)), [0]);
        assert_eq!(sampled(0, Some(4)), [0; 0]);
    }
}
