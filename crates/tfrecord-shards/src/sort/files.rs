//! [`RunFiles`]: the temporary files of one input.

use std::collections::{BTreeMap, btree_map};
use std::io;
use std::mem;
use std::num::NonZeroU16;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use tfrecord_framing::crc32c_append;

use super::RecordSorter;
use super::buckets::{BucketBits, Buckets};
use super::entry::Entry;
use super::key::SortKey;
use super::load::fetch;
use super::run::{BLOCK_ENTRIES, EntryForm, FileEntry, FileRun, MemoryRun, Run, RunFile, Sample, Sampling, Stored};
use super::run::{BucketFile, BucketPlace};
use super::slabs::AS_STORED;
use super::spill::SpillFile;
use crate::error::{AtPath, Result};

/// Length in bytes of a write.
const WRITE_BYTES: u64 = 1 << 20;

/// Number of entries per write: whole blocks, in less than [`WRITE_BYTES`].
const WRITE_ENTRIES: usize = 256 * BLOCK_ENTRIES;

/// Maximum number of files per input. With enough records, each file holds a range of keys. So a file can be deleted
/// when its range has been read, and its memory and disk space are reused for the output.
const MAX_FILES: u64 = 8;

/// Maximum number of buffers that wait to be written.
const WRITE_AHEAD: usize = 8;

/// The temporary files of an input, and the runs in them.
#[derive(Debug, Default)]
pub(super) struct RunFiles {
    /// One file per range of keys.
    files: BTreeMap<usize, WrittenFile>,
    /// The keys at which these ranges begin, except the first. Set by the first run.
    bounds: Option<Vec<SortKey>>,
    runs: Vec<WrittenRun>,
    /// Write buffers for reuse.
    pieces: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct WrittenFile {
    file: Box<dyn SpillFile>,
    /// Its length in bytes.
    len: u64,
}

/// A run in one of the input's files.
#[derive(Debug)]
struct WrittenRun {
    file: usize,
    place: RunPlace,
    entries: u64,
    /// The last key, or a greater one.
    last: SortKey,
    samples: Vec<Sample>,
    /// If the entries have ranks of groups: the groups, by rank.
    groups: Option<Arc<[u32]>>,
}

#[derive(Debug)]
enum RunPlace {
    Sorted { records_at: u64, records_len: u64, form: EntryForm },
    Buckets { bits: BucketBits, first: usize, places: Vec<BucketPlace> },
}

/// Consecutive entries of a run, and the offset of their records in it.
struct Stretch {
    entries: Range<usize>,
    start: u64,
}

impl RunFiles {
    /// Whether there are no runs.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns the memory in bytes.
    pub(super) fn memory(&self) -> usize {
        self.pieces.iter().map(Vec::capacity).sum()
    }

    /// Frees memory reserved for later runs.
    pub(super) fn shrink(&mut self) {
        self.pieces = Vec::new();
    }

    /// Returns the runs for reading.
    pub(super) fn into_runs(self) -> Vec<Run> {
        let files = self.files.into_iter().map(|(number, written)| (number, written.file.into()));
        let files: BTreeMap<usize, Arc<dyn SpillFile>> = files.collect();
        let run = |WrittenRun { file, place, entries, last, samples, groups }| {
            let file = RunFile::new(files.get(&file).cloned(), last);
            let stored = match place {
                RunPlace::Sorted { records_at, records_len, form } => {
                    Stored::File(FileRun { file, records_at, records_len, entries, form, groups })
                }
                RunPlace::Buckets { bits, first, places } => {
                    Stored::BucketFile(BucketFile { file, bits, first, places })
                }
            };
            Run::new(stored, entries, samples)
        };
        self.runs.into_iter().map(run).collect()
    }

    /// Returns the number of files for runs of `len` bytes.
    fn number(sorter: &RecordSorter, len: u64) -> usize {
        if sorter.options().shared {
            // Other processes read the files, so none is deleted early.
            return 1;
        }
        (len / sorter.options().chunk_bytes as u64).clamp(1, MAX_FILES) as usize
    }

    /// Appends buckets to the files, and returns the number of bytes written.
    pub(super) fn write_buckets(&mut self, sorter: &RecordSorter, buckets: &Buckets) -> Result<u64> {
        let (bits, number) = (buckets.bits(), buckets.bits().number());
        if self.bounds.is_none() {
            let lens = (0..number).map(|bucket| buckets.bucket_len(bucket));
            let files = Self::number(sorter, lens.map(|(entries, records)| (entries + records) as u64).sum());
            self.bounds = Some((1..files).filter_map(|file| bits.start(file * number / files)).collect());
        }
        let ends = self.bounds.iter().flatten().map(|bound| bits.end(bound)).chain([number]);
        let (mut start, mut written) = (0, 0);
        for (file, end) in ends.collect::<Vec<_>>().into_iter().enumerate() {
            written += self.write_some_buckets(sorter, buckets, start..end, file)?;
            start = end;
        }
        Ok(written)
    }

    /// Appends consecutive buckets to a file, and returns the number of bytes written.
    fn write_some_buckets(
        &mut self,
        sorter: &RecordSorter,
        buckets: &Buckets,
        range: Range<usize>,
        number: usize,
    ) -> Result<u64> {
        let samples = samples_of(buckets, range.clone());
        let entries = range.clone().map(|bucket| buckets.bucket_rows(bucket) as u64).sum();
        if entries == 0 {
            return Ok(0);
        }
        let (bits, first, last) = (buckets.bits(), range.start, buckets.bits().last(range.end.saturating_sub(1)));
        let written = written_file(&mut self.files, sorter, number)?;
        let mut piece = self.pieces.pop().unwrap_or_default();
        piece.clear();
        piece.reserve_exact(WRITE_BYTES as usize);
        let start = written.len;
        let mut places = Vec::with_capacity(range.len());
        let mut append = |bytes: &[u8]| {
            if piece.len() + bytes.len() > WRITE_BYTES as usize {
                written.file.append(&piece)?;
                piece.clear();
            }
            piece.extend_from_slice(bytes);
            written.len += bytes.len() as u64;
            io::Result::Ok(written.len)
        };
        let write = || {
            for bucket in range {
                let (entries, records) = buckets.bytes(bucket);
                let mut place = BucketPlace { start: append(&[])?, rows: buckets.bucket_rows(bucket) as u32, end: 0 };
                let mut checksum = 0;
                for part in entries {
                    checksum = crc32c_append(checksum, part);
                    append(part)?;
                }
                place.end = append(&checksum.to_le_bytes())?;
                for part in records {
                    place.end = append(part)?;
                }
                places.push(place);
            }
            io::Result::Ok(())
        };
        write()
            .and_then(|()| written.file.append(&piece))
            .at("write to a temporary file", sorter.options().spill.path())?;
        let len = written.len - start;
        self.pieces.push(piece);
        let place = RunPlace::Buckets { bits, first, places };
        self.runs.push(WrittenRun { file: number, place, entries, last, samples, groups: None });
        Ok(len)
    }

    /// Appends sorted records to the files, and returns the number of bytes written.
    pub(super) fn write_sorted(&mut self, sorter: &RecordSorter, run: &MemoryRun, parallel: bool) -> Result<u64> {
        let files = Self::number(sorter, run.entries.iter().map(Entry::weight).sum());
        let bounds = self.bounds.get_or_insert_with(|| {
            let bounds = (1..files).map(|file| file * run.entries.len() / files);
            bounds.filter_map(|entry| run.entries.get(entry)).map(Entry::key).collect()
        });
        let end = |bound: &SortKey| run.entries.partition_point(|entry| entry.key() < *bound);
        let ends: Vec<_> = bounds.iter().map(end).chain([run.entries.len()]).collect();
        let (mut start, mut written) = (0, 0);
        for (file, end) in ends.into_iter().enumerate() {
            if let Some(last) = run.entries.get(start..end).and_then(<[Entry]>::last) {
                written += self.write_run(sorter, run, start..end, (file, last.key()), parallel)?;
                start = end;
            }
        }
        Ok(written)
    }

    /// Appends some of the records to a file, and returns the number of bytes written.
    fn write_run(
        &mut self,
        sorter: &RecordSorter,
        run: &MemoryRun,
        range: Range<usize>,
        (number, last): (usize, SortKey),
        parallel: bool,
    ) -> Result<u64> {
        let path = sorter.options().spill.path();
        let written = written_file(&mut self.files, sorter, number)?;
        let file = &mut written.file;
        let pieces = &mut self.pieces;
        let mut stretches: Vec<Stretch> = Vec::new();
        let mut of_entries: Vec<Stretch> = Vec::new();
        let mut records_len = 0;
        let sorted = run.entries.get(range.clone()).unwrap_or_default();
        for (number, entry) in range.clone().zip(sorted) {
            if (number - range.start).is_multiple_of(WRITE_ENTRIES) {
                of_entries.push(Stretch { entries: number..range.end.min(number + WRITE_ENTRIES), start: records_len });
            }
            let end = records_len + u64::from(entry.location.len(entry.len));
            match stretches.last_mut() {
                Some(last) if end - last.start <= WRITE_BYTES => last.entries.end = number + 1,
                _ => stretches.push(Stretch { entries: number..number + 1, start: records_len }),
            }
            records_len = end;
        }
        let entries = sorted.len() as u64;
        let form = EntryForm::of(sorted, run.counts.get(range).unwrap_or_default());
        append(file, pieces, &stretches, parallel, |stretch, out| {
            let entries = run.entries.get(stretch.entries.clone()).unwrap_or_default();
            if let [long] = entries {
                return Some(long.record(&run.slabs, AS_STORED).bytes());
            }
            out.reserve_exact(WRITE_BYTES as usize);
            fetch(entries.iter().map(|entry| entry.record(&run.slabs, AS_STORED)), |record| {
                out.extend_from_slice(record.bytes())
            });
            None
        })
        .and_then(|()| {
            append(file, pieces, &of_entries, parallel, |stretch, out| {
                let entries = run.entries.get(stretch.entries.clone()).unwrap_or_default();
                let counts = run.counts.get(stretch.entries.clone()).unwrap_or_default();
                let counts = counts.iter().copied().chain(std::iter::repeat(1));
                let mut start = stretch.start;
                let entries = entries.iter().zip(counts).map(|(entry, count)| {
                    let from = start;
                    start += u64::from(entry.location.len(entry.len));
                    let compact_len = entry.location.compact_len().map_or(0, NonZeroU16::get);
                    FileEntry { key: entry.key(), count, start: from, len: entry.len, compact_len }
                });
                form.encode(entries, out);
                None
            })
        })
        .at("write to a temporary file", path)?;
        let len = records_len + form.len(entries);
        let records_at = written.len;
        written.len += len;
        let mut samples = sampling(sorter, len);
        sorted.iter().for_each(|entry| samples.pass(entry));
        let group_of = |key: SortKey| match &run.groups {
            Some(groups) => SortKey { group: groups.get(key.group as usize).copied().unwrap_or_default(), ..key },
            None => key,
        };
        let last = group_of(last);
        let mut samples = samples.finish();
        samples.iter_mut().for_each(|sample| sample.key = group_of(sample.key));
        let place = RunPlace::Sorted { records_at, records_len, form };
        let groups = run.groups.clone();
        self.runs.push(WrittenRun { file: number, place, entries, last, samples, groups });
        Ok(len)
    }
}

/// Returns a file of an input, creating it if missing.
fn written_file<'a>(
    files: &'a mut BTreeMap<usize, WrittenFile>,
    sorter: &RecordSorter,
    number: usize,
) -> Result<&'a mut WrittenFile> {
    match files.entry(number) {
        btree_map::Entry::Occupied(written) => Ok(written.into_mut()),
        btree_map::Entry::Vacant(place) => {
            let spill = &sorter.options().spill;
            let file = spill.create().at("create a temporary file", spill.path())?;
            sorter.note(|stats| stats.files += 1);
            Ok(place.insert(WrittenFile { file, len: 0 }))
        }
    }
}

/// Returns the sampling of a run of about `weight` bytes.
pub(super) fn sampling(sorter: &RecordSorter, weight: u64) -> Sampling {
    Sampling::new(weight, sorter.options().chunk_bytes as u64 / 16)
}

/// Returns one sample per bucket: its first key, which may not be that of a record.
pub(super) fn samples_of(buckets: &Buckets, range: Range<usize>) -> Vec<Sample> {
    let (mut entry, mut weight) = (0, 0);
    let sample = |bucket| {
        let sample = Sample { key: buckets.bits().start(bucket)?, entry, weight };
        let (entries_len, records_len) = buckets.bucket_len(bucket);
        entry += buckets.bucket_rows(bucket) as u64;
        weight += (entries_len + records_len) as u64;
        Some(sample)
    };
    range.filter_map(sample).collect()
}

/// Bytes to be written to a file.
struct Gathered<'a> {
    bytes: Vec<u8>,
    /// A record to be written instead, long enough for a write of its own.
    record: Option<&'a [u8]>,
}

/// Appends stretches of a run. Several buffers are filled in parallel while others are written.
fn append<'a>(
    file: &mut Box<dyn SpillFile>,
    pieces: &mut Vec<Vec<u8>>,
    stretches: &[Stretch],
    parallel: bool,
    fill: impl Fn(&Stretch, &mut Vec<u8>) -> Option<&'a [u8]> + Sync,
) -> io::Result<()> {
    let width = if parallel { rayon::current_num_threads().clamp(1, WRITE_AHEAD) } else { 1 };
    let mut full: Vec<Gathered<'a>> = Vec::new();
    let mut empty: Vec<Gathered<'a>> = Vec::new();
    let mut write = |full: &[Gathered<'a>]| {
        full.iter().try_for_each(|gathered| file.append(gathered.record.unwrap_or(&gathered.bytes)))
    };
    for ahead in stretches.chunks(width) {
        empty.truncate(ahead.len());
        empty.resize_with(ahead.len(), || Gathered { bytes: pieces.pop().unwrap_or_default(), record: None });
        let fill_one = |(gathered, stretch): (&mut Gathered<'a>, &Stretch)| {
            gathered.bytes.clear();
            gathered.record = fill(stretch, &mut gathered.bytes);
        };
        if parallel {
            let (written, ()) = rayon::join(|| write(&full), || empty.par_iter_mut().zip(ahead).for_each(fill_one));
            written?;
        } else {
            write(&full)?;
            empty.iter_mut().zip(ahead).for_each(fill_one);
        }
        mem::swap(&mut full, &mut empty);
    }
    write(&full)?;
    pieces.extend(full.into_iter().chain(empty).map(|gathered| gathered.bytes));
    Ok(())
}
