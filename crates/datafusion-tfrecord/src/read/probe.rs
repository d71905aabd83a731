//! [`probe`]: inspects the first records of files, to determine properties of all of them.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow_tfrecord::ErrorKind as RecordErrorKind;
use bytes::Bytes;
use datafusion_common::Result;
use datafusion_session::Session;
use futures::StreamExt;
use object_store::{ObjectMeta, ObjectStore};
use tfrecord_framing::{Container, Position, RecordDecoder, RecordScanner, Records};

use super::blocks::Blocks;
use super::options::ReadOptions;
use crate::error::ErrorKind;
use tfr_stores::FileNames;

/// Number of records inspected in one go.
const STEP: usize = 64;

/// Inspects records.
pub(super) trait RecordObserver {
    /// Whether to ignore damage between records, which is reported when the file is read.
    const LEAVES_DAMAGE: bool;

    /// Inspects a record.
    fn observe(&mut self, record: &[u8], position: Position) -> arrow_tfrecord::Result<()>;

    /// Whether no more records are needed.
    fn has_enough(&mut self) -> bool;
}

/// The extent of an inspection.
pub(super) struct Probed {
    /// The container of each file that was inspected.
    pub(super) containers: Vec<Option<Container>>,
    /// Number of files inspected.
    pub(super) probed_files: usize,
    /// Whether these are all records of all files.
    pub(super) is_all: bool,
}

/// Passes the first records of all `files`, or of an evenly spaced sample of them, to `observer` until it has enough.
pub(super) async fn probe<O: RecordObserver>(
    session: &dyn Session,
    store: &Arc<dyn ObjectStore>,
    files: &[ObjectMeta],
    names: &FileNames,
    options: &ReadOptions,
    observer: &mut O,
) -> Result<Probed> {
    let mut containers = vec![None; files.len()];
    let mut probed_files = 0;
    let mut is_all = sample(files.len(), options.infer_files).count() == files.len();
    // Collected first: a closure over references is not general enough for the compiler inside a stream.
    let mut first: Vec<_> = sample(files.len(), options.infer_files)
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
    // The first file is often enough.
    let others = first.split_off(first.len().min(1));
    let concurrency = session.config_options().execution.meta_fetch_concurrency.get();
    let others = futures::stream::iter(others).buffered(concurrency);
    let mut heads = futures::stream::iter(first).buffered(1).chain(others);
    while let Some((index, name, mut blocks, first)) = heads.next().await {
        probed_files += 1;
        let mut head = Head::new(options);
        let mut block = first?;
        loop {
            let observed = match head.observe(block.as_ref(), observer) {
                Err(error) if O::LEAVES_DAMAGE && matches!(error.kind(), RecordErrorKind::Framing(_)) => {
                    is_all = false;
                    break;
                }
                observed => observed.map_err(|error| ErrorKind::Inference { file: name.to_string(), error })?,
            };
            if observed.is_break() {
                is_all &= head.has_ended(files[index].size);
                break;
            }
            if block.is_none() {
                break;
            }
            block = blocks.next().await?;
        }
        containers[index] = head.framing.container();
        if observer.has_enough() {
            is_all &= probed_files == files.len();
            break;
        }
    }
    Ok(Probed { containers, probed_files, is_all })
}

/// Returns the positions of at most `most` files out of `files`, evenly spaced.
fn sample(files: usize, most: Option<usize>) -> impl Iterator<Item = usize> {
    let taken = most.map_or(files, |most| most.clamp(1, files.max(1)).min(files));
    // Computed as u128, so that no product overflows.
    (0..taken).map(move |position| (position as u128 * files as u128 / taken as u128) as usize)
}

/// Finds records in a file.
enum Framing {
    /// Damage is an error.
    Whole(RecordDecoder),
    /// Damage is passed over. The scan of the table reports it.
    PastDamage(RecordScanner),
}

impl Framing {
    fn container(&self) -> Option<Container> {
        match self {
            Self::Whole(decoder) => decoder.container(),
            Self::PastDamage(scanner) => scanner.container(),
        }
    }

    fn position(&self) -> Position {
        match self {
            Self::Whole(decoder) => decoder.position(),
            Self::PastDamage(scanner) => scanner.position(),
        }
    }

    fn decode(&mut self, input: &mut &[u8], limit: usize, records: &mut Records) -> tfrecord_framing::Result<usize> {
        match self {
            Self::Whole(decoder) => decoder.decode(input, limit, records),
            Self::PastDamage(scanner) => scanner.scan(input, limit, records, &mut Vec::new()),
        }
    }

    /// Ends the file. Past damage, its end may reveal more records.
    fn finish(&mut self, records: &mut Records) -> tfrecord_framing::Result<()> {
        match self {
            Self::Whole(decoder) => decoder.finish(),
            Self::PastDamage(scanner) => scanner.finish(records, &mut Vec::new()),
        }
    }
}

/// Reads the first records of a file.
struct Head {
    framing: Framing,
    records: Records,
    /// Number of records still to be inspected.
    left: usize,
}

impl Head {
    fn new(options: &ReadOptions) -> Self {
        let framing = if options.skips_damaged {
            Framing::PastDamage(options.container.map_or_else(RecordScanner::detect, RecordScanner::with_container))
        } else {
            let decoder = options.container.map_or_else(RecordDecoder::detect, RecordDecoder::with_container);
            Framing::Whole(decoder.with_crc_policy(options.crc))
        };
        Self { framing, records: Records::new(), left: options.infer_records.unwrap_or(usize::MAX).max(1) }
    }

    /// Whether all records of a file of `size` bytes have been seen, as far as that is known before its end is read.
    fn has_ended(&self, size: u64) -> bool {
        self.framing.container() == Some(Container::PLAIN) && self.framing.position().byte == size
    }

    /// Inspects the records of the next block, or the remaining records if there is no block. Breaks when enough
    /// records have been seen.
    fn observe(
        &mut self,
        block: Option<&Bytes>,
        observer: &mut impl RecordObserver,
    ) -> arrow_tfrecord::Result<ControlFlow<()>> {
        let mut rest = block.map_or(&[][..], Bytes::as_ref);
        loop {
            self.records.clear();
            let decoded = self.framing.decode(&mut rest, self.left.min(STEP), &mut self.records);
            // The records before the damage come first: they may explain it.
            for (record, position) in self.records.iter().zip(self.records.positions()) {
                observer.observe(record, *position)?;
            }
            let decoded = decoded?;
            self.left -= decoded;
            if self.left == 0 || (decoded > 0 && observer.has_enough()) {
                return Ok(ControlFlow::Break(()));
            }
            if decoded == 0 {
                break;
            }
        }
        if block.is_none() {
            self.records.clear();
            self.framing.finish(&mut self.records)?;
            for (record, position) in self.records.iter().zip(self.records.positions()).take(self.left) {
                observer.observe(record, *position)?;
            }
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
