//! [`RecordOpener`]: opens a file or a part of one.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrow_tfrecord::{Decoder, ReaderBuilder};
use bytes::{Buf, Bytes};
use datafusion_common::{Result, internal_datafusion_err};
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::file_stream::{FileOpenFuture, FileOpener};
use datafusion_physical_plan::metrics::Count;
use futures::{FutureExt, StreamExt};
use object_store::ObjectStore;
use tfrecord_framing::{Container, CrcPolicy, Position, RecordDecoder};

use super::blocks::Blocks;
use super::boundary_scan::BoundaryScan;
use super::known::KnownFile;
use super::narrow::narrowed;
use crate::error::{Error, ErrorKind, encode_error};
use tfr_files::{Finding, Findings};
use tfr_stores::FileNames;

/// Opens a file or a part of one, and returns batches of the requested columns.
#[derive(Clone)]
pub(super) struct RecordOpener {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) names: FileNames,
    pub(super) reader: ReaderBuilder,
    /// The schema of the batches. Structs of the reader may have more fields.
    pub(super) schema: SchemaRef,
    pub(super) container: Option<Container>,
    pub(super) crc: CrcPolicy,
    /// Whether damaged records are passed over.
    pub(super) skips_damaged: bool,
    /// Whether the types were inferred.
    pub(super) inferred: bool,
    /// Collects the features that are no columns, if they are counted.
    pub(super) unknown_features: Option<Arc<Findings>>,
    /// Collects the damage that is passed over. `None` logs it.
    pub(super) damage: Option<Arc<Findings>>,
    /// Whether the number of rows is limited.
    pub(super) limited: bool,
    pub(super) bytes_scanned: Count,
}

/// A part of a file: whole records, or everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FilePart {
    /// The range of bytes in the file.
    pub(super) bytes: Range<u64>,
    /// Position of the first record.
    pub(super) start: Position,
    /// End of the last record, if known.
    pub(super) end: Option<Position>,
    /// How the file contains its records, if known.
    pub(super) container: Option<Container>,
}

impl FileOpener for RecordOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let opener = self.clone();
        Ok(async move {
            let name: Arc<str> = opener.names.name(&file.object_meta.location).into();
            let Some(part) = opener.part(&file).await? else { return Ok(futures::stream::empty().boxed()) };
            let batches = Batches {
                decoder: opener.decoder(&part)?,
                blocks: Blocks::new(opener.store, file.object_meta, Arc::clone(&name), part.bytes),
                block: Bytes::new(),
                is_last: false,
                name,
                schema: opener.schema,
                // Records may be missing.
                end: part.end.filter(|_| !opener.skips_damaged),
                damaged: 0,
                inferred: opener.inferred,
                unknown_features: opener.unknown_features,
                damage: opener.damage,
                bytes_scanned: opener.bytes_scanned,
            };
            let batches = futures::stream::try_unfold(batches, |mut batches| async {
                Ok(batches.next().await?.map(|batch| (batch, batches)))
            });
            Ok(batches.boxed())
        }
        .boxed())
    }
}

impl RecordOpener {
    /// Returns the records that begin in a file's range, if any.
    async fn part(&self, file: &PartitionedFile) -> Result<Option<FilePart>> {
        let meta = &file.object_meta;
        let known = file.extension::<KnownFile>().cloned().unwrap_or_default();
        let container = self.container.or(known.container);
        let (from, to) = file.range();
        let whole = FilePart { bytes: 0..meta.size, start: Position::default(), end: known.end, container };
        let is_whole = from == 0 && to >= meta.size;
        if is_whole {
            return Ok(Some(whole));
        }
        // The range was made from these positions. A position that is not among them would silently lose records.
        let known_place = |divided: Option<Divided>| {
            divided.ok_or_else(|| internal_datafusion_err!("no record is known to begin at byte {from} or {to}"))
        };
        let divided = match file.extension::<BoundaryScan>() {
            _ if !known.offsets.is_empty() => Some(known_place(known.part(from..to, meta.size))?),
            // Finding the boundaries may take longer than reading a few rows.
            Some(scan) if !self.limited => match scan.boundaries(&self.store, meta).await? {
                Some(boundaries) => Some(known_place(scanned(scan.cuts(), &boundaries, from..to, meta.size))?),
                None => None,
            },
            _ => None,
        };
        Ok(match divided {
            Some((bytes, start, end)) if !bytes.is_empty() => {
                // A compressed file is only split if its manifest specifies the compression.
                let container = Some(container.unwrap_or_default());
                Some(FilePart { bytes, start, end: end.or(known.end), container })
            }
            Some(_) => None,
            // A file that cannot be split is read by the partition that has its start.
            None => (from == 0).then_some(whole),
        })
    }

    fn decoder(&self, part: &FilePart) -> Result<Decoder> {
        if self.skips_damaged {
            // Files are not divided.
            let reader = self.reader.clone();
            let reader = part.container.into_iter().fold(reader, ReaderBuilder::with_container);
            return reader.build_decoder().map_err(encode_error);
        }
        let framing = part.container.map_or_else(RecordDecoder::detect, RecordDecoder::with_container);
        let framing = framing.with_crc_policy(self.crc).with_position(part.start);
        self.reader.clone().build_decoder_over(framing).map_err(encode_error)
    }
}

/// A part of a file: its bytes, the start of its first record and, except for the last part, the end of its last
/// record.
type Divided = (Range<u64>, Position, Option<Position>);

/// Returns the part between two cuts of a record-boundary scan.
fn scanned(cuts: &[u64], boundaries: &[Position], range: Range<u64>, size: u64) -> Option<Divided> {
    let boundary = |cut: u64| boundaries.get(cuts.binary_search(&cut).ok()?).copied();
    let start = if range.start == 0 { Position::default() } else { boundary(range.start)? };
    if range.end >= size {
        return Some((start.byte..size, start, None));
    }
    let end = boundary(range.end)?;
    Some((start.byte..end.byte, start, Some(end)))
}

impl KnownFile {
    /// Returns the part between two of the positions.
    fn part(&self, range: Range<u64>, size: u64) -> Option<Divided> {
        let start = if range.start == 0 { Position::default() } else { self.offset(range.start)? };
        let end = if range.end >= size { None } else { Some(self.offset(range.end)?) };
        Some((range, start, end))
    }
}

/// The batches of a file or part.
struct Batches {
    decoder: Decoder,
    blocks: Blocks,
    /// The rest of the current block.
    block: Bytes,
    /// Whether there are no more blocks.
    is_last: bool,
    name: Arc<str>,
    schema: SchemaRef,
    end: Option<Position>,
    inferred: bool,
    unknown_features: Option<Arc<Findings>>,
    damage: Option<Arc<Findings>>,
    /// Number of damaged ranges so far.
    damaged: u64,
    bytes_scanned: Count,
}

impl Batches {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.block.is_empty() && !self.is_last {
                match self.blocks.next().await? {
                    Some(block) => {
                        self.bytes_scanned.add(block.len());
                        self.block = block;
                    }
                    None => self.is_last = true,
                }
            }
            let taken = self.decoder.decode(&self.block).map_err(|error| self.record_error(error))?;
            self.block.advance(taken);
            let is_full = self.decoder.capacity() == 0;
            if self.is_last && !is_full {
                self.check_end()?;
            }
            if self.is_last || is_full {
                let batch = self.decoder.flush().map_err(|error| self.record_error(error))?;
                self.report_unknown_features()?;
                self.report_damage();
                return Ok(batch.map(|batch| narrowed(batch, &self.schema)).transpose()?);
            }
        }
    }

    /// Checks that the part ends at the expected position.
    fn check_end(&self) -> Result<()> {
        let found = self.decoder.position();
        match self.end.filter(|expected| *expected != found) {
            Some(expected) => Err(ErrorKind::End { file: self.name.to_string(), expected, found }.into()),
            None => Ok(()),
        }
    }

    /// Reports the features that are no columns, of the records since the last call.
    fn report_unknown_features(&mut self) -> Result<(), Error> {
        let Some(findings) = &self.unknown_features else { return Ok(()) };
        for feature in self.decoder.take_unknown_features() {
            let (file, record) = (self.name.to_string(), feature.first.record);
            if findings.is_strict() {
                return Err(ErrorKind::UnknownFeature { file, record, feature: feature.name }.into());
            }
            let what = "records with a feature that is no column, because the inspected records lack it".to_owned();
            let (column, count, value) = (Some(feature.name), feature.records, "not read".to_owned());
            findings.add(Finding { file, column, what, row: record, value, count });
        }
        Ok(())
    }

    /// Reports the damage passed over since the last call.
    fn report_damage(&mut self) {
        let damage = self.decoder.take_damage();
        let Some(first) = damage.first() else { return };
        self.damaged += damage.len() as u64;
        let Some(findings) = &self.damage else {
            damage.iter().for_each(|damage| log::warn!("{}: passed over: {damage}", self.name));
            return;
        };
        let file = self.name.to_string();
        findings.add_running(Finding::damaged_records(file, self.damaged, first.record, first.to_string()));
    }

    fn record_error(&self, error: arrow_tfrecord::Error) -> Error {
        ErrorKind::Record { file: self.name.to_string(), error, inferred: self.inferred }.into()
    }
}
