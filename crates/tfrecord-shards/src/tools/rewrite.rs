//! Records of files moved to a new set, not decoded: [`reshard`] for whole files, [`salvage`] for what is left of
//! damaged ones.
//!
//! ```text
//! files -> frames, checked -> buffers of about 2 MiB -> shards
//!          (a thread a file, some files ahead)          (pool)
//! ```
//! Buffers come in the order of the files, so the number of threads does not show in the shards.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use arrow_tfrecord::RecordBuffer;
use rayon::ThreadPool;
use rayon::prelude::*;
use serde_json::json;
use tfrecord_framing::{Compression, Level};

use crate::commit::local::LocalCommit;
use crate::commit::publication::{SaveMode, check_prefix};
use crate::error::{AtPath, Error, ErrorKind, Result};
use crate::error::{Finding, FindingKind};
use crate::set::difference::FormDifference;
use crate::set::manifest::{MAPPING_OPTION, Manifest, SetDescription};
use crate::set::names::RunId;
use crate::tools::frames::{Count, FrameSink, OnDamage, count, read_through};
use crate::tools::inputs::{InputFile, Inputs, first_path};
use crate::tools::progress::Progress;
use crate::tools::stored::Input;
use crate::write::filler::ShardFiller;
use crate::write::job::thread_pool;
use crate::write::sharding::{ShardRanges, ShardRule, Sharding};

/// Framed bytes that are handed on at once.
const BUFFER_BYTES: usize = 2 << 20;

/// Buffers of one file that wait to be written.
const BUFFERS_AHEAD: usize = 2;

/// How long a failed run waits at most until its staging directory is gone: for syncs under way.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(60);

/// How [`reshard`] and [`salvage`] write.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RewriteOptions {
    /// How records are spread over shards: 128 MiB each by default. Their order is kept, so with [`Sharding::Count`]
    /// every shard has a contiguous range of records, as many as any other or one more.
    pub sharding: Sharding,
    /// How shards are compressed: not, by default.
    pub compression: Compression,
    /// How hard.
    pub level: Level,
    /// What shard names start with: `part` by default.
    pub prefix: String,
    /// What to do when the target is there already: refuse, by default, and with [`SaveMode::Ignore`] too.
    pub mode: SaveMode,
    /// The threads that compress: as many as there are cores if `None`. As many read.
    pub pool: Option<Arc<ThreadPool>>,
}

impl Default for RewriteOptions {
    fn default() -> Self {
        Self {
            sharding: Sharding::default(),
            compression: Compression::default(),
            level: Level::default(),
            prefix: "part".to_owned(),
            mode: SaveMode::default(),
            pool: None,
        }
    }
}

/// Moves the records of files and sets to a new set.
///
/// Records are copied as they stand, checksums included, once these have been checked. Their order is that of the
/// inputs as named; in a set that of its shards, in another directory that of the names. A link in a directory is what it
/// leads to, as SQL reads it. The types are carried over to the new manifest, and the query if all inputs have the same.
/// A file that was named itself has the types of the manifest beside it, if that lists it, whatever its length.
///
/// ```
/// use std::num::NonZeroUsize;
/// use tfrecord_framing::RecordWriter;
/// use tfrecord_shards::{Progress, RewriteOptions, Sharding, reshard};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let (file, out) = (dir.path().join("a.tfrecord"), dir.path().join("shards"));
/// let mut writer = RecordWriter::new(std::fs::File::create(&file)?);
/// (0..10_u8).try_for_each(|value| writer.write_record(&[value]))?;
/// writer.finish()?;
///
/// let mut options = RewriteOptions::default();
/// options.sharding = Sharding::Count(NonZeroUsize::new(4).ok_or("four is not zero")?);
/// let manifest = reshard(&[file], &out, &options, &Progress::default())?.manifest;
/// assert_eq!(manifest.shards.iter().map(|shard| shard.rows).collect::<Vec<_>>(), [2, 3, 2, 3]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When an input is damaged ([`ErrorKind::Damaged`], by file, record and byte), is a set that is not whole
/// ([`ErrorKind::NotWhole`]), is a pipe or device, or cannot be read; when a file would be read twice
/// ([`ErrorKind::Twice`]); when records would be mixed whose manifests tell different schemas, mappings or record types,
/// or only some have one that does ([`ErrorKind::MixedForms`]), or those of different splits or `key=value` directories;
/// as [`LocalCommit::begin`] and [`LocalCommit::publish`]; or when the run was stopped. Nothing is left behind.
pub fn reshard<I: Clone + Into<Input>>(
    inputs: &[I],
    out: &Path,
    options: &RewriteOptions,
    progress: &Progress,
) -> Result<Reshard> {
    let inputs = &Input::all(inputs);
    let Inputs { files, mut findings, .. } = Inputs::find_once(inputs)?;
    if let Some(at) = findings.iter().position(Finding::is_gap) {
        return Err(findings.swap_remove(at).into_error());
    }
    if let Some((file, difference)) = form_difference(&files) {
        return Err(ErrorKind::MixedForms { path: file.origin().to_owned(), difference }.into());
    }
    let rewrite = Rewrite { inputs, files, out, options, on_damage: OnDamage::Refuse, progress };
    let (manifest, found) = rewrite.run()?;
    findings.extend(found);
    Ok(Reshard { manifest, findings })
}

/// What [`reshard`] has written.
#[derive(Debug)]
#[non_exhaustive]
pub struct Reshard {
    /// The new set.
    pub manifest: Manifest,
    /// What is wrong with the inputs, though no record of theirs is missing: shards that the manifest does not list and
    /// that were left out, named files that are not as it tells, what killed runs have left.
    pub findings: Vec<Finding>,
}

/// The first of the files that has not the form of those before, and what differs.
fn form_difference(files: &[InputFile]) -> Option<(&InputFile, FormDifference)> {
    let manifest = |file: &'_ InputFile| file.listed.as_ref().map(|(manifest, _)| Arc::clone(manifest));
    let (first, others) = files.split_first()?;
    let expected = manifest(first);
    let mut before = expected.clone();
    others.iter().find_map(|file| {
        let found = manifest(file);
        // A set has many files and one form.
        if found.as_ref().map(Arc::as_ptr) == before.as_ref().map(Arc::as_ptr) {
            return None;
        }
        let difference = FormDifference::find(found.as_deref(), first.origin(), expected.as_deref());
        before = found;
        Some((file, difference?))
    })
}

/// What [`salvage`] has written, and what it has not.
#[derive(Debug)]
#[non_exhaustive]
pub struct Salvage {
    /// The new set.
    pub manifest: Manifest,
    /// What is wrong with the inputs: which bytes of which file are lost, and what [`verify`](fn@crate::verify) tells
    /// besides.
    pub findings: Vec<Finding>,
}

/// Moves every sound record of files and sets, damaged or not, to a new set.
///
/// A record is sound if both its checksums hold; behind damage the next one is looked for. Records of different forms are
/// mixed, which is a finding, and the new manifest tells no types then. Otherwise as [`reshard`].
///
/// # Errors
/// When a path leads nowhere or to a pipe or device, there is no file to read, a file would be read twice, or records of different splits or `key=value` directories would
/// be mixed; when there is damage and no sound record ([`ErrorKind::NothingSound`]); as [`LocalCommit::begin`] and
/// [`LocalCommit::publish`]; or when the run was stopped. All else is findings.
pub fn salvage<I: Clone + Into<Input>>(
    inputs: &[I],
    out: &Path,
    options: &RewriteOptions,
    progress: &Progress,
) -> Result<Salvage> {
    let inputs = &Input::all(inputs);
    let Inputs { files, mut findings, .. } = Inputs::find_once(inputs)?;
    if let Some((file, difference)) = form_difference(&files) {
        findings.push(Finding::new(file.origin(), FindingKind::MixedForms(difference)));
    }
    let rewrite = Rewrite { inputs, files, out, options, on_damage: OnDamage::PassOver, progress };
    let (manifest, found) = rewrite.run()?;
    findings.extend(found);
    Ok(Salvage { manifest, findings })
}

/// Files on their way to a new set.
struct Rewrite<'a> {
    inputs: &'a [Input],
    files: Vec<InputFile>,
    out: &'a Path,
    options: &'a RewriteOptions,
    on_damage: OnDamage,
    progress: &'a Progress,
}

impl Rewrite<'_> {
    /// Writes the set, and tells what is wrong with the files.
    fn run(self) -> Result<(Manifest, Vec<Finding>)> {
        if self.files.is_empty() {
            return Err(ErrorKind::NoFiles { path: first_path(self.inputs) }.into());
        }
        self.check_groups()?;
        check_prefix(&self.options.prefix)?;
        let pool = self.options.pool.clone().map_or_else(thread_pool, Ok)?;
        let commit = LocalCommit::begin(self.out, self.options.mode, RunId::new(), &Input::local(self.inputs))?;
        if let Some(standing) = commit.standing() {
            standing.check_append(&self.describe(), commit.out())?;
        }
        let removal = commit.removal();
        let written = self.write(commit, pool);
        if written.is_err() {
            // Shards may still be on their way to the disk.
            removal.wait(REMOVAL_TIMEOUT);
        }
        written
    }

    fn check_groups(&self) -> Result<()> {
        let mut groups = self.files.iter().filter_map(|file| file.group.as_ref());
        if let Some(first) = groups.next()
            && let Some(second) = groups.find(|group| *group != first)
        {
            return Err(ErrorKind::MixedGroups { first: first.clone(), second: second.clone() }.into());
        }
        Ok(())
    }

    fn write(&self, commit: LocalCommit, pool: Arc<ThreadPool>) -> Result<(Manifest, Vec<Finding>)> {
        self.progress.expect(self.files.iter().map(|file| file.len).sum());
        let RewriteOptions { sharding, compression, level, .. } = *self.options;
        let (sharding, rule) = match sharding {
            Sharding::Count(_) | Sharding::Hosts(_) => {
                let Count { rows, framed_bytes } = self.count(&pool)?;
                match sharding.resolve(framed_bytes) {
                    counted @ Sharding::Count(shards) => (counted, ShardRule::Ranges(ShardRanges::new(shards, rows))),
                    other => (other, ShardRule::new(other)),
                }
            }
            _ => (sharding, ShardRule::new(sharding)),
        };
        let threads = pool.current_num_threads();
        let mut filler = ShardFiller::new(commit.clone(), pool, (sharding, rule), (compression, level))?;
        let findings = self.read(threads, |records| filler.fill(records))?;
        let staged = filler.finish()?;
        self.progress.advance(0)?;
        if !findings.is_empty() && staged.iter().all(|shard| shard.rows == 0) {
            let path = first_path(self.inputs);
            return Err(ErrorKind::NothingSound { path, findings }.into());
        }
        Ok((commit.publish(staged, self.describe())?, findings))
    }

    fn count(&self, pool: &ThreadPool) -> Result<Count> {
        let count = |file| match count(file, self.on_damage, self.progress) {
            // It is told of when the file is read.
            Err(error) if self.passes_over(&error) => Ok(Count::default()),
            counted => counted,
        };
        pool.install(|| self.files.par_iter().map(count).try_reduce(Count::default, |one, other| Ok(one + other)))
    }

    fn passes_over(&self, error: &Error) -> bool {
        self.on_damage == OnDamage::PassOver && !matches!(error.kind(), ErrorKind::Stopped)
    }

    /// Reads the files, some at a time, hands their records to `take` in order, and tells what is wrong with them.
    fn read(&self, threads: usize, mut take: impl FnMut(&RecordBuffer) -> Result<()>) -> Result<Vec<Finding>> {
        let (tasks, receivers): (VecDeque<_>, Vec<_>) = self.files.iter().map(FileTask::new).unzip();
        let reading = Reading { tasks: Mutex::new(tasks), free: Mutex::default(), ended: AtomicBool::new(false) };
        thread::scope(|scope| {
            // Whatever happens here, the threads go home.
            let _end = EndOnDrop(&reading.ended);
            for _ in 0..threads.min(self.files.len()) {
                let work = || self.read_files(&reading);
                thread::Builder::new().spawn_scoped(scope, work).at("start a thread to read for", self.out)?;
            }
            let mut findings = Vec::new();
            for receiver in receivers {
                loop {
                    // A thread that panics hangs up; the panic goes on when the threads are joined.
                    match receiver.recv().map_err(|_| ErrorKind::Failed)? {
                        Message::Records(mut records) => {
                            take(&records)?;
                            records.clear();
                            reading.give_back(records);
                        }
                        Message::End(found) => {
                            findings.extend(found?);
                            break;
                        }
                    }
                }
            }
            Ok(findings)
        })
    }

    /// The work of one thread. Files are taken in order, so that the one whose records are waited for is always at
    /// work.
    fn read_files(&self, reading: &Reading<'_>) {
        while let Some(FileTask { file, sender }) = reading.next_task() {
            let mut sink = Batches { records: reading.take_buffer(), sender: &sender, reading };
            let read = read_through(file, self.on_damage, self.progress, &mut sink);
            let found = match (sink.send(), read) {
                (Ok(()), Ok((_, findings))) => Ok(findings),
                (Ok(()), Err(error)) if self.passes_over(&error) => {
                    Ok(vec![Finding::new(&file.path, FindingKind::Unreadable(error))])
                }
                (Ok(()), Err(error)) | (Err(error), _) => Err(error),
            };
            // If nobody waits any more, there is no set.
            let _unwanted = sender.send(Message::End(found));
        }
    }

    /// What the manifest says beside the shards.
    fn describe(&self) -> SetDescription {
        let options = self.options;
        let mut description = SetDescription::of_records();
        let first = self.files.first().and_then(|file| file.listed.as_ref());
        if let Some((manifest, _)) = first.filter(|_| form_difference(&self.files).is_none()) {
            description.schema.clone_from(&manifest.schema);
            description.mapping.clone_from(&manifest.mapping);
            description.record_type = manifest.record_type;
            let mapping = manifest.options.get_key_value(MAPPING_OPTION);
            description.options.extend(mapping.map(|(key, options)| (key.clone(), options.clone())));
        }
        if let Some(manifest) = self.common(|manifest| &manifest.query) {
            description.query.clone_from(&manifest.query);
        }
        description.prefix.clone_from(&options.prefix);
        description.compression = options.compression;
        description.sharding = options.sharding;
        description.inputs = self.inputs.iter().map(|input| input.path().display().to_string()).collect();
        if options.compression != Compression::None {
            description.options.insert("level".to_owned(), json!(options.level.get()));
        }
        description
    }

    /// A manifest that tells of this part what the manifests of all files do.
    fn common<'a, T: PartialEq>(&'a self, part: impl Fn(&'a Manifest) -> T) -> Option<&'a Manifest> {
        let mut manifests = self.files.iter().map(|file| file.listed.as_ref().map(|(manifest, _)| &**manifest));
        let first = manifests.next()??;
        manifests.all(|manifest| manifest.is_some_and(|manifest| part(manifest) == part(first))).then_some(first)
    }
}

/// What the threads that read share.
struct Reading<'a> {
    /// Files that nobody reads yet.
    tasks: Mutex<VecDeque<FileTask<'a>>>,
    /// Buffers to use again.
    free: Mutex<Vec<RecordBuffer>>,
    /// Whether nobody waits for records any more.
    ended: AtomicBool,
}

/// A file to read, and where its records go.
struct FileTask<'a> {
    file: &'a InputFile,
    sender: SyncSender<Message>,
}

enum Message {
    Records(RecordBuffer),
    /// All were sent, or something has failed.
    End(Result<Vec<Finding>>),
}

struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<'a> FileTask<'a> {
    fn new(file: &'a InputFile) -> (Self, Receiver<Message>) {
        let (sender, receiver) = sync_channel(BUFFERS_AHEAD);
        (Self { file, sender }, receiver)
    }
}

impl<'a> Reading<'a> {
    fn next_task(&self) -> Option<FileTask<'a>> {
        if self.ended.load(Ordering::Relaxed) {
            return None;
        }
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn take_buffer(&self) -> RecordBuffer {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn give_back(&self, buffer: RecordBuffer) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }
}

/// Gathers records and sends them on.
struct Batches<'a, 'f> {
    records: RecordBuffer,
    sender: &'a SyncSender<Message>,
    reading: &'a Reading<'f>,
}

impl Batches<'_, '_> {
    fn send(&mut self) -> Result<()> {
        let records = std::mem::replace(&mut self.records, self.reading.take_buffer());
        // Nobody waits any more when something else has failed, which is what is told then.
        self.sender.send(Message::Records(records)).map_err(|_| ErrorKind::Failed.into())
    }
}

impl FrameSink for Batches<'_, '_> {
    fn push(&mut self, frame: &[u8]) {
        self.records.push_frame(frame);
    }

    fn pause(&mut self) -> Result<()> {
        if self.reading.ended.load(Ordering::Relaxed) {
            return Err(ErrorKind::Failed.into());
        }
        if self.records.bytes().len() >= BUFFER_BYTES { self.send() } else { Ok(()) }
    }
}
