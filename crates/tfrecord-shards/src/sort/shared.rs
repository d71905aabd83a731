//! [`SharedRuns`] and [`SharedPlan`]: sorts records in several processes.
//!
//! ```text
//! every process   RecordSorter::share          its records as runs in named files, and a description of them
//! one process     RecordSorter::add_runs       all runs; finish and cut as usual, which read keys and equal records
//!                 ShardPlan::share             where shards begin, and which records are in them
//! every process   SharedPlan::open             reads some of the tasks
//! ```
//!
//! The shards are those of a sort in one process. Descriptions are read from files that others wrote, so nothing in
//! them is trusted: each run is checked against the length of its file, and its blocks have checksums.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow_tfrecord::CompactForm;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tfrecord_framing::crc32c;

use super::buckets::BucketBits;
use super::key::SortKey;
use super::merge::Chunks;
use super::plan::{PlannedShard, ShardPlan, Task};
use super::run::{BucketFile, BucketPlace, EntryForm, FileRun, Run, RunFile, RunSet, Sample, Stored};
use super::spill::{SpillFile, SpillStore};
use super::{CHUNK_BYTES, RecordSorter};
use crate::error::{AtPath, ErrorKind, Result};

/// The order of the groups of a process, in which all processes agree, whatever numbers they use.
pub trait GroupOrder: Send + Sync + fmt::Debug {
    /// Returns the numbers of all groups so far, in that order.
    fn order(&self) -> Vec<u32>;
}

/// Describes the runs of one process.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SharedRuns {
    pub(super) files: Vec<SharedFile>,
    pub(super) forms: Vec<CompactForm>,
    pub(super) runs: Vec<SharedRun>,
    pub(super) rows: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SharedFile {
    pub(super) name: String,
    pub(super) len: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SharedRun {
    /// Index of the file.
    pub(super) file: usize,
    /// Index of the form.
    pub(super) form: usize,
    pub(super) entries: u64,
    /// The last key, or a greater one.
    pub(super) last: SortKey,
    pub(super) stored: SharedStored,
    /// If the file has ranks of groups: the groups, by rank.
    pub(super) groups: Option<Vec<u32>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum SharedStored {
    Sorted { records_at: u64, records_len: u64, form: EntryForm, samples: Vec<Sample> },
    Buckets { bits: BucketBits, first: usize, places: Vec<BucketPlace> },
}

/// Begins the bytes of descriptions.
const RUNS_MAGIC: &[u8; 8] = b"tfrruns1";
const PLAN_MAGIC: &[u8; 8] = b"tfrplan1";

impl SharedRuns {
    /// Returns the number of records.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the names of the files.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| &*file.name)
    }

    /// Returns the description as bytes, with a checksum.
    ///
    /// # Errors
    /// Never for a description that was made here.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        to_bytes(RUNS_MAGIC, self)
    }

    /// Reads a description.
    ///
    /// # Errors
    /// If these are not the bytes of a description.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        from_bytes(RUNS_MAGIC, bytes)
    }

    /// Describes runs, all of which are in files.
    fn of<'a>(set: &RunSet, runs: impl Iterator<Item = &'a Run>, rows: u64) -> Result<Self> {
        let mut shared = Self { forms: set.forms.clone(), rows, ..Self::default() };
        let mut numbers = BTreeMap::new();
        for run in runs {
            let file = run.file().ok_or(ErrorKind::Failed)?;
            let (file, last) = file.parts();
            let file = file.ok_or(ErrorKind::Failed)?;
            let name = file.share().at("write a temporary file", &set.path)?.to_owned();
            let number = *numbers.entry(name).or_insert_with_key(|name| {
                shared.files.push(SharedFile { name: name.clone(), len: 0 });
                shared.files.len() - 1
            });
            let (stored, groups) = match &run.stored {
                Stored::File(FileRun { records_at, records_len, form, groups, .. }) => {
                    let (records_at, records_len, form) = (*records_at, *records_len, *form);
                    let samples = run.samples.clone();
                    (SharedStored::Sorted { records_at, records_len, form, samples }, groups.as_deref())
                }
                Stored::BucketFile(BucketFile { bits, first, places, .. }) => {
                    (SharedStored::Buckets { bits: *bits, first: *first, places: places.clone() }, None)
                }
                Stored::Memory(_) | Stored::Buckets(_) => return Err(ErrorKind::Failed.into()),
            };
            let groups = groups.map(<[u32]>::to_vec);
            let run = SharedRun { file: number, form: run.form, entries: run.entries, last, stored, groups };
            if let (Some(file), Some(end)) = (shared.files.get_mut(number), run.end()) {
                file.len = file.len.max(end);
            }
            shared.runs.push(run);
        }
        Ok(shared)
    }

    /// Opens the runs. `groups` maps the groups of the process that wrote them; without it they stay as they are.
    fn open(&self, spill: &dyn SpillStore, groups: Option<&[u32]>, bits: BucketBits) -> Result<Vec<Run>> {
        let damaged = |problem: &str| damaged(spill, problem);
        let open = |file: &SharedFile| {
            let opened = spill.open(&file.name, file.len).at("open a temporary file", spill.path())?;
            Ok(Arc::from(opened))
        };
        let files: Vec<Arc<dyn SpillFile>> = self.files.iter().map(open).collect::<Result<_>>()?;
        let mut runs = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            let (Some(file), Some(len)) = (files.get(run.file), self.files.get(run.file).map(|file| file.len)) else {
                return Err(damaged("a run is in no file"));
            };
            if run.end().is_none_or(|end| end > len) || u32::try_from(run.entries).is_err() {
                return Err(damaged("a run ends after its file"));
            }
            let table = run.groups_by_rank(groups).ok_or_else(|| damaged("a run has unknown groups"))?;
            let key = |key: &SortKey| match groups.filter(|_| table.is_some()) {
                Some(groups) => Some(SortKey::new(*groups.get(key.group() as usize)?, key.key())),
                None => Some(*key),
            };
            let last = key(&run.last).ok_or_else(|| damaged("a run has unknown groups"))?;
            let file = RunFile::new(Some(Arc::clone(file)), last);
            let (stored, samples) = match &run.stored {
                SharedStored::Sorted { records_at, records_len, form, samples } => {
                    let sample = |sample: &Sample| Some(Sample { key: key(&sample.key)?, ..*sample });
                    let samples: Option<Vec<_>> = samples.iter().map(sample).collect();
                    let samples = samples.filter(|samples| are_samples_of(samples, run.entries));
                    let samples = samples.ok_or_else(|| damaged("the samples of a run are not in order"))?;
                    let (records_at, records_len, form, entries) = (*records_at, *records_len, *form, run.entries);
                    let groups = table.clone();
                    (Stored::File(FileRun { file, records_at, records_len, entries, form, groups }), samples)
                }
                SharedStored::Buckets { bits: found, first, places } => {
                    if *found != bits || first.checked_add(places.len()).is_none_or(|end| end > bits.number()) {
                        return Err(damaged("runs have different buckets"));
                    }
                    let samples = samples_of_places(*found, *first, places);
                    let (bits, first, places) = (*found, *first, places.clone());
                    (Stored::BucketFile(BucketFile { file, bits, first, places }), samples)
                }
            };
            runs.push(Run::new(stored, run.entries, samples));
        }
        Ok(runs)
    }
}

impl SharedRun {
    /// Returns the end of the run in its file; `None` if that is no number.
    fn end(&self) -> Option<u64> {
        match &self.stored {
            SharedStored::Sorted { records_at, records_len, form, .. } => {
                u32::try_from(self.entries).ok()?;
                records_at.checked_add(*records_len)?.checked_add(form.len(self.entries))
            }
            SharedStored::Buckets { places, .. } => {
                let mut end = 0;
                let mut rows = 0;
                for place in places {
                    let records = place.start.checked_add(place.entries_len() as u64)?;
                    if place.start < end || place.end < records {
                        return None;
                    }
                    end = place.end;
                    rows += u64::from(place.rows);
                }
                (rows == self.entries).then_some(end)
            }
        }
    }

    /// Returns the groups by rank, which must increase, after mapping them; `Some(None)` if the file has no ranks.
    fn groups_by_rank(&self, map: Option<&[u32]>) -> Option<Option<Arc<[u32]>>> {
        let Some(groups) = &self.groups else { return Some(None) };
        let mapped = |group: &u32| match map {
            Some(map) => map.get(*group as usize).copied(),
            None => Some(*group),
        };
        let groups: Vec<u32> = groups.iter().map(mapped).collect::<Option<_>>()?;
        groups.is_sorted_by(|one, next| one < next).then(|| Some(groups.into()))
    }
}

/// Whether samples are in order and of existing entries.
fn are_samples_of(samples: &[Sample], entries: u64) -> bool {
    samples.is_sorted_by(|one, next| one.key <= next.key && one.entry < next.entry && one.weight <= next.weight)
        && samples.last().is_none_or(|last| last.entry < entries)
}

/// Returns one sample per bucket.
fn samples_of_places(bits: BucketBits, first: usize, places: &[BucketPlace]) -> Vec<Sample> {
    let (mut entry, mut weight) = (0, 0);
    let sample = |(bucket, place): (usize, &BucketPlace)| {
        let sample = Sample { key: bits.start(bucket)?, entry, weight };
        entry += u64::from(place.rows);
        weight += place.end - place.start;
        Some(sample)
    };
    (first..).zip(places).filter_map(sample).collect()
}

impl RecordSorter {
    /// Describes the runs of a [shared](super::SorterOptions::shared) sorter, all of whose inputs are finished, for
    /// [`add_runs`](Self::add_runs) in another process. Their files are complete on disk.
    ///
    /// # Errors
    /// If an input is not finished, or a file cannot be completed.
    pub fn share(self) -> Result<SharedRuns> {
        let (runs, rows) = self.take_runs()?;
        let set = RunSet { runs: Vec::new(), forms: self.forms(), path: self.options().spill.path().to_owned() };
        SharedRuns::of(&set, runs.iter().map(|run| &**run), rows)
    }

    /// Adds the runs of another process, whose files are in this sorter's store. `groups` maps that process's numbers
    /// of groups to those of this sorter, which must have the same order. It is only used for runs that were
    /// [shared by](super::SorterOptions::shared_by) an order of groups.
    ///
    /// # Errors
    /// If a file does not exist or has another length, or the description is invalid.
    pub fn add_runs(&self, shared: &SharedRuns, groups: &[u32]) -> Result<()> {
        let bits = BucketBits::new(self.options().chunk_bytes);
        let mut runs = shared.open(&*self.options().spill, Some(groups), bits)?;
        // Copies of equal records are likely to have the form of their originals.
        if let Some(first) = shared.forms.first() {
            self.0.form.get_or_init(|| first.clone());
        }
        let forms = self.forms();
        let mut state = self.state();
        let mut numbers = Vec::with_capacity(shared.forms.len());
        for form in &shared.forms {
            let known = forms.iter().chain(&state.forms).position(|known| known == form);
            numbers.push(known.map_or(forms.len() + state.forms.len(), |known| known));
            if known.is_none() {
                state.forms.push(form.clone());
            }
        }
        for (run, described) in runs.iter_mut().zip(&shared.runs) {
            run.form = numbers.get(described.form).copied().unwrap_or(usize::MAX);
        }
        state.stats.runs += runs.len() as u64;
        state.runs.extend(runs.into_iter().map(Arc::new));
        state.rows += shared.rows;
        Ok(())
    }
}

/// A [`ShardPlan`] for other processes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SharedPlan {
    runs: SharedRuns,
    /// Bitmaps of the entries of each run that an equal record in another run represents.
    dropped: Vec<Option<Vec<u64>>>,
    chunk_bytes: usize,
    shards: Vec<PlannedShard>,
    tasks: Vec<Task>,
}

impl ShardPlan {
    /// Describes the plan of a [shared](super::SorterOptions::shared) sorter for [`SharedPlan::open`] in another
    /// process.
    ///
    /// # Errors
    /// If a file cannot be completed.
    pub fn share(&self) -> Result<SharedPlan> {
        let Chunks { set, chunk_bytes, .. } = &self.0.chunks;
        let rows = self.shards().iter().map(|shard| shard.rows).sum();
        let runs = SharedRuns::of(set, set.runs.iter().map(|run| &**run), rows)?;
        let dropped = set.runs.iter().map(|run| run.dropped()).collect();
        let (shards, tasks) = (self.shards().to_vec(), self.0.tasks.clone());
        Ok(SharedPlan { runs, dropped, chunk_bytes: *chunk_bytes, shards, tasks })
    }
}

impl SharedPlan {
    /// Returns the description as bytes, with a checksum.
    ///
    /// # Errors
    /// Never for a description that was made here.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        to_bytes(PLAN_MAGIC, self)
    }

    /// Reads a description.
    ///
    /// # Errors
    /// If these are not the bytes of a description.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        from_bytes(PLAN_MAGIC, bytes)
    }

    /// Opens the runs in this store, to read tasks of the plan.
    ///
    /// # Errors
    /// If a file does not exist or has another length, or the description is invalid.
    pub fn open(&self, spill: &dyn SpillStore) -> Result<ShardPlan> {
        let bits = self.runs.runs.iter().find_map(|run| match run.stored {
            SharedStored::Buckets { bits, .. } => Some(bits),
            SharedStored::Sorted { .. } => None,
        });
        let mut runs = self.runs.open(spill, None, bits.unwrap_or(BucketBits::new(self.chunk_bytes)))?;
        let parts = self.runs.runs.iter().zip(&self.dropped);
        for (run, (described, dropped)) in runs.iter_mut().zip(parts) {
            run.form = described.form;
            if let Some(words) = dropped {
                run.set_dropped(words);
            }
        }
        let is_in_order = self.tasks.is_sorted_by(|one, next| one.shard < next.shard && one.start <= next.start)
            && self.tasks.first().is_none_or(|first| first.shard == 0)
            && self.tasks.last().is_none_or(|last| last.shard < self.shards.len());
        if !is_in_order || self.tasks.is_empty() != self.shards.is_empty() {
            return Err(damaged(spill, "the tasks are not in order"));
        }
        let runs = runs.into_iter().map(Arc::new).collect();
        let set = RunSet { runs, forms: self.runs.forms.clone(), path: spill.path().to_owned() };
        let chunks = Chunks::new(Arc::new(set), self.chunk_bytes.clamp(1, CHUNK_BYTES));
        Ok(ShardPlan::new(chunks, self.shards.clone(), self.tasks.clone()))
    }
}

fn damaged(spill: &dyn SpillStore, problem: &str) -> crate::Error {
    ErrorKind::SpillDamaged { path: spill.path().to_owned(), problem: problem.to_owned() }.into()
}

fn to_bytes(magic: &[u8; 8], value: &impl Serialize) -> Result<Vec<u8>> {
    let mut bytes = postcard::to_extend(value, magic.to_vec()).map_err(ErrorKind::SharedSort)?;
    let checksum = crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    Ok(bytes)
}

fn from_bytes<T: DeserializeOwned>(magic: &[u8; 8], bytes: &[u8]) -> Result<T> {
    let invalid = ErrorKind::SharedSort(postcard::Error::DeserializeBadCrc);
    let Some((body, checksum)) = bytes.split_last_chunk() else { return Err(invalid.into()) };
    let Some(body) = body.strip_prefix(magic).filter(|_| crc32c(body) == u32::from_le_bytes(*checksum)) else {
        return Err(invalid.into());
    };
    Ok(postcard::from_bytes(body).map_err(ErrorKind::SharedSort)?)
}
