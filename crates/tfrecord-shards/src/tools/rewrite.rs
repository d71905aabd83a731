//! Copies records to a new set without decoding them: [`reshard`] copies whole files, [`salvage`] the intact records of
//! damaged ones.
//!
//! ```text
//! files -> frames, checked -> buffers of about 2 MiB -> shards
//!          (a thread a file, some files ahead)          (pool)
//! ```
//! Buffers are written in the order of the files, so the shards do not depend on the number of threads.

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
use tfrecord_framing::Framing;

use crate::commit::local::LocalCommit;
use crate::commit::publication::{check_description, check_prefix};
use crate::commit::save_mode::SaveMode;
use crate::error::{AtPath, Error, ErrorKind, Result};
use crate::error::{Finding, FindingKind};
use crate::set::difference::FormDifference;
use crate::set::manifest::{MAPPING_OPTION, Manifest, SetDescription};
use crate::set::names::RunId;
use crate::tools::frames::{Count, FrameSink, OnDamage, count, read_through};
use crate::tools::inputs::{InputFile, Inputs, first_path};
use crate::tools::progress::Progress;
use crate::tools::stored::Input;
use crate::write::direct_writer::DirectWriter;
use crate::write::job::thread_pool;
use crate::write::sharding::{ShardRanges, ShardRule, Sharding};

/// Framed bytes per buffer.
const BUFFER_BYTES: usize = 2 << 20;

/// Maximum number of buffers of one file that wait to be written.
const BUFFERS_AHEAD: usize = 2;

/// How long a failed run waits for the removal of its staging directory, that is, for syncs in progress.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(60);

/// Output options of [`reshard`] and [`salvage`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RewriteOptions {
    /// How records are assigned to shards. The default is 128 MiB each. Records stay in order, so with
    /// [`Sharding::Count`] every shard has a contiguous range of records, and sizes differ by at most one.
    pub sharding: Sharding,
    /// The format of the shards, and their compression. The default is TFRecord without compression.
    pub framing: Framing,
    /// Prefix of shard names. The default is `part`.
    pub prefix: String,
    /// How to proceed if the target exists. The default is to fail, as with [`SaveMode::Ignore`].
    pub mode: SaveMode,
    /// The threads that compress: one per core if `None`. As many threads read.
    pub pool: Option<Arc<ThreadPool>>,
}

impl Default for RewriteOptions {
    fn default() -> Self {
        Self {
            sharding: Sharding::default(),
            framing: Framing::default(),
            prefix: "part".to_owned(),
            mode: SaveMode::default(),
            pool: None,
        }
    }
}

/// Copies the records of files and sets to a new set.
///
/// Records and their checksums are copied unchanged after the checksums are checked. The order is that of the inputs;
/// in a set that of its shards, in another directory that of the names. A link in a directory counts as its target, as
/// in SQL. The new manifest has the schema and mapping of the inputs, and the query if all inputs have the same. A file
/// that was named itself gets those of the manifest next to it, if that lists the file, whatever its length.
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
/// If an input is damaged ([`ErrorKind::Damaged`], by file, record and byte), is an incomplete set
/// ([`ErrorKind::NotWhole`]), is a pipe or device, or cannot be read; if a file would be read twice
/// ([`ErrorKind::Twice`]); if manifests differ in schema, mapping or record type, or only some inputs have one
/// ([`ErrorKind::MixedForms`]); if records of different splits or `key=value` directories would be mixed; as
/// [`LocalCommit::begin`] and [`LocalCommit::publish`]; or if the run was stopped. Nothing is left behind.
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

/// The result of [`reshard`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Reshard {
    /// The new set.
    pub manifest: Manifest,
    /// Defects of the inputs that lose no records: skipped shards that the manifest does not list, named files that
    /// differ from the manifest, leftovers of killed runs.
    pub findings: Vec<Finding>,
}

/// Returns the first file whose record format differs from that of the preceding ones, with the difference.
fn form_difference(files: &[InputFile]) -> Option<(&InputFile, FormDifference)> {
    let manifest = |file: &'_ InputFile| file.listed.as_ref().map(|(manifest, _)| Arc::clone(manifest));
    let (first, others) = files.split_first()?;
    let expected = manifest(first);
    let mut before = expected.clone();
    others.iter().find_map(|file| {
        let found = manifest(file);
        // All files of a set share one record format.
        if found.as_ref().map(Arc::as_ptr) == before.as_ref().map(Arc::as_ptr) {
            return None;
        }
        let difference = FormDifference::find(found.as_deref(), first.origin(), expected.as_deref());
        before = found;
        Some((file, difference?))
    })
}

/// The result of [`salvage`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Salvage {
    /// The new set.
    pub manifest: Manifest,
    /// Defects of the inputs: the lost bytes of each file, and whatever else [`verify`](fn@crate::verify) reports.
    pub findings: Vec<Finding>,
}

/// Copies every intact record of files and sets, damaged or not, to a new set.
///
/// A record is intact if both its checksums match; the search continues after damage. Records of different record
/// formats are mixed, which is reported as a finding, and the new manifest then has no schema or mapping. Otherwise
/// like [`reshard`].
///
/// # Errors
/// If a path does not exist, is a pipe or device, or contains no file; if a file would be read twice, or records of
/// different splits or `key=value` directories would be mixed; if there is damage and no intact record
/// ([`ErrorKind::NothingSound`]); as [`LocalCommit::begin`] and [`LocalCommit::publish`]; or if the run was stopped.
/// Everything else is a finding.
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

/// The copy of files to a new set.
struct Rewrite<'a> {
    inputs: &'a [Input],
    files: Vec<InputFile>,
    out: &'a Path,
    options: &'a RewriteOptions,
    on_damage: OnDamage,
    progress: &'a Progress,
}

impl Rewrite<'_> {
    /// Writes the set, and returns the defects of the files.
    fn run(self) -> Result<(Manifest, Vec<Finding>)> {
        if self.files.is_empty() {
            return Err(ErrorKind::NoFiles { path: first_path(self.inputs) }.into());
        }
        self.check_groups()?;
        check_prefix(&self.options.prefix)?;
        check_description(&self.describe())?;
        let pool = self.options.pool.clone().map_or_else(thread_pool, Ok)?;
        let commit = LocalCommit::begin(self.out, self.options.mode, RunId::new(), &Input::local(self.inputs))?;
        if let Some(current) = commit.current() {
            current.check_append(&self.describe(), commit.out())?;
        }
        let removal = commit.removal();
        let written = self.write(commit, pool);
        if written.is_err() {
            // Shards may still be being synced.
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
        let RewriteOptions { sharding, framing, .. } = *self.options;
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
        let shards = (sharding.least_shards(), rule);
        let mut writer = DirectWriter::new((Arc::new(commit.clone()), 0), commit.out(), pool, shards, framing)?;
        let findings = self.read(threads, |records| writer.write_records(records))?;
        let staged = writer.finish()?;
        self.progress.advance(0)?;
        if !findings.is_empty() && staged.iter().all(|shard| shard.rows == 0) {
            let path = first_path(self.inputs);
            return Err(ErrorKind::NothingSound { path, findings }.into());
        }
        Ok((commit.publish(staged, self.describe())?, findings))
    }

    fn count(&self, pool: &ThreadPool) -> Result<Count> {
        let count = |file| match count(file, self.on_damage, self.progress) {
            // Reported when the file is read.
            Err(error) if self.passes_over(&error) => Ok(Count::default()),
            counted => counted,
        };
        pool.install(|| self.files.par_iter().map(count).try_reduce(Count::default, |one, other| Ok(one + other)))
    }

    fn passes_over(&self, error: &Error) -> bool {
        self.on_damage == OnDamage::PassOver && !matches!(error.kind(), ErrorKind::Stopped)
    }

    /// Reads the files, several at a time, passes their records to `take` in order, and returns their defects.
    fn read(&self, threads: usize, mut take: impl FnMut(RecordBuffer) -> Result<RecordBuffer>) -> Result<Vec<Finding>> {
        let (tasks, receivers): (VecDeque<_>, Vec<_>) = self.files.iter().map(FileTask::new).unzip();
        let reading = ReadQueue { tasks: Mutex::new(tasks), free: Mutex::default(), ended: AtomicBool::new(false) };
        thread::scope(|scope| {
            // Whatever happens here, the threads end.
            let _end = EndOnDrop(&reading.ended);
            for _ in 0..threads.min(self.files.len()) {
                let work = || self.read_files(&reading);
                thread::Builder::new().spawn_scoped(scope, work).at("start a thread to read for", self.out)?;
            }
            let mut findings = Vec::new();
            for receiver in receivers {
                loop {
                    // A thread that panics closes its channel; the panic is resumed when the threads are joined.
                    match receiver.recv().map_err(|_| ErrorKind::Failed)? {
                        Message::Records(records) => reading.give_back(take(records)?),
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

    /// Runs one thread. Files are claimed in order, so that the file whose records are awaited is always being read.
    fn read_files(&self, reading: &ReadQueue<'_>) {
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
            // If the receiver is gone, no set is written.
            let _unwanted = sender.send(Message::End(found));
        }
    }

    /// Returns the description of the new set for its manifest.
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
        description.set_framing(options.framing);
        description.sharding = options.sharding;
        description.replace_partitions = options.mode == SaveMode::OverwritePartitions;
        description.inputs = self.inputs.iter().map(|input| input.path().display().to_string()).collect();
        description
    }

    /// Returns a manifest if the manifests of all files agree in this part.
    fn common<'a, T: PartialEq>(&'a self, part: impl Fn(&'a Manifest) -> T) -> Option<&'a Manifest> {
        let mut manifests = self.files.iter().map(|file| file.listed.as_ref().map(|(manifest, _)| &**manifest));
        let first = manifests.next()??;
        manifests.all(|manifest| manifest.is_some_and(|manifest| part(manifest) == part(first))).then_some(first)
    }
}

/// State shared by the reading threads.
struct ReadQueue<'a> {
    /// Files not yet claimed.
    tasks: Mutex<VecDeque<FileTask<'a>>>,
    /// Buffers for reuse.
    free: Mutex<Vec<RecordBuffer>>,
    /// Whether records are no longer needed.
    ended: AtomicBool,
}

/// A file to read, and the destination of its records.
struct FileTask<'a> {
    file: &'a InputFile,
    sender: SyncSender<Message>,
}

enum Message {
    Records(RecordBuffer),
    /// All records were sent, or reading failed.
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

impl<'a> ReadQueue<'a> {
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

/// Collects records into batches and sends them.
struct Batches<'a, 'f> {
    records: RecordBuffer,
    sender: &'a SyncSender<Message>,
    reading: &'a ReadQueue<'f>,
}

impl Batches<'_, '_> {
    fn send(&mut self) -> Result<()> {
        let records = std::mem::replace(&mut self.records, self.reading.take_buffer());
        // The receiver is gone if something else failed, and that error is reported.
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
