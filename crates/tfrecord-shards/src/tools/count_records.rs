//! [`count_records`] and [`count_intact`]: count the records of files, and find where readers can start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tfrecord_framing::array_record::Footer;
use tfrecord_framing::{Container, Damage};

use crate::error::{ErrorKind, Result};
use crate::set::manifest::{Manifest, OFFSET_INTERVAL, RecordOffset, ShardEntry};
use crate::tools::frames::{Count, DamageNoted, FrameReader, OnDamage, count, hop, read_footer};
use crate::tools::inputs::{InputFile, Inputs, first_path};
use crate::tools::progress::Progress;
use crate::tools::stored::{Input, ReadSeek};

/// A file with the number of its records.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CountedFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Length of the file in bytes.
    pub len: u64,
    /// How it contains its records.
    pub container: Container,
    /// Number of records.
    pub rows: u64,
    /// Length in bytes of the records with their frames, before compression.
    pub framed_bytes: u64,
    /// Positions other than the start where a reader can start, in order: about one per [`OFFSET_INTERVAL`]. Empty for
    /// a file that can only be read from its start.
    pub offsets: Vec<RecordOffset>,
    /// The manifest that lists the file, and the file's index in [`Manifest::shards`].
    pub listed: Option<(Arc<Manifest>, usize)>,
    /// The damaged ranges that [`count_intact`] passed over: their number, and the first of them.
    pub damage: Option<(u64, Damage)>,
}

impl CountedFile {
    /// Returns the file's entry in its manifest.
    pub fn entry(&self) -> Option<&ShardEntry> {
        self.listed.as_ref().and_then(|(manifest, index)| manifest.shards.get(*index))
    }
}

/// Counts the records of files, and finds positions where readers can start. The files are those of
/// [`files`](crate::files); an incomplete set is refused.
///
/// A manifest specifies the figures of its shards. Of other uncompressed files, the headers of records are read and
/// checked. The footers of ArrayRecord files have their numbers. Other compressed files are read completely. These
/// files can only be read from their start.
///
/// ```
/// use tfrecord_framing::RecordWriter;
/// use tfrecord_shards::{Progress, count_records};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let file = dir.path().join("a.tfrecord");
/// let mut writer = RecordWriter::new(std::fs::File::create(&file)?);
/// writer.write_record(b"first")?;
/// writer.write_record(b"second")?;
/// writer.finish()?;
///
/// let counted = count_records(&[file], &Progress::default())?;
/// assert_eq!((counted[0].rows, counted[0].framed_bytes), (2, 43));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If a path does not exist or is a pipe or device, there is no file, a set is incomplete, a shard's length differs
/// from its manifest, a file without a manifest is damaged, or the run was stopped.
pub fn count_records<I: Clone + Into<Input>>(inputs: &[I], progress: &Progress) -> Result<Vec<CountedFile>> {
    count_files(&Input::all(inputs), |file| count_file(file, progress))
}

/// Counts the intact records of files, and passes over damaged ones. Reads every file completely and checks both
/// checksums of every record, whatever a manifest specifies. A damaged file can only be read from its start.
///
/// # Errors
/// If a path does not exist or is a pipe or device, there is no file, a set is incomplete, a shard's length differs
/// from its manifest, a file cannot be read, or the run was stopped.
pub fn count_intact<I: Clone + Into<Input>>(inputs: &[I], progress: &Progress) -> Result<Vec<CountedFile>> {
    count_files(&Input::all(inputs), |file| count_intact_file(file, progress))
}

fn count_files(inputs: &[Input], count: impl Fn(InputFile) -> Result<CountedFile>) -> Result<Vec<CountedFile>> {
    let Inputs { files, mut findings, .. } = Inputs::find(inputs)?;
    if let Some(at) = findings.iter().position(|finding| finding.is_gap()) {
        return Err(findings.swap_remove(at).into_error());
    }
    if files.is_empty() {
        return Err(ErrorKind::NoFiles { path: first_path(inputs) }.into());
    }
    files.into_iter().map(count).collect()
}

/// Returns the index at the end of an open ArrayRecord file, by which its records are read by number. Errors name `path`.
///
/// # Errors
/// If the file cannot be read, or is damaged there.
pub fn array_record_footer(path: &Path, file: &mut dyn ReadSeek) -> Result<Footer> {
    read_footer(path, file)
}

/// Returns the bounds of the records of an open, uncompressed file, in bytes: record `i` has the frame
/// `bounds[i]..bounds[i + 1]`. Reads and checks the headers of records only. Errors name `path`.
///
/// # Errors
/// If the file cannot be read, a header is damaged, the last record is truncated, or the run was stopped.
pub fn record_bounds(path: &Path, file: Box<dyn ReadSeek>, progress: &Progress) -> Result<Vec<u64>> {
    let (mut bounds, mut end) = (vec![0], 0);
    hop(path, file, progress, |len| {
        end += len;
        bounds.push(end);
        Ok(())
    })?;
    Ok(bounds)
}

fn count_file(file: InputFile, progress: &Progress) -> Result<CountedFile> {
    if let Some((manifest, index)) = &file.listed
        && let Some(entry) = file.entry()
        && has_listed_length(&file)?
    {
        return Ok(CountedFile {
            container: manifest.container(),
            rows: entry.rows,
            framed_bytes: entry.framed_bytes,
            offsets: entry.offsets.clone(),
            listed: Some((Arc::clone(manifest), *index)),
            damage: None,
            path: file.path,
            len: file.len,
        });
    }
    let container = FrameReader::open(&file, OnDamage::Refuse, &Progress::default())?.container();
    let mut offsets = Vec::new();
    let seekable = if container.is_plain() { file.open_seekable()? } else { None };
    let Count { rows, framed_bytes } = if let Some(seekable) = seekable {
        let mut total = Count::default();
        let mut next = OFFSET_INTERVAL;
        hop(&file.path, seekable, progress, |len| {
            note_offset(&mut offsets, &mut next, total);
            total = total + Count { rows: 1, framed_bytes: len };
            Ok(())
        })?;
        total
    } else {
        // A named file whose length differs from its manifest must not be counted by it.
        let unlisted = InputFile { listed: None, ..file.clone() };
        count(&unlisted, OnDamage::Refuse, progress)?
    };
    let (listed, damage) = (None, None);
    Ok(CountedFile { path: file.path, len: file.len, container, rows, framed_bytes, offsets, listed, damage })
}

/// Whether a file has the length that its manifest specifies; false if the manifest does not count.
///
/// # Errors
/// The lengths differ, unless the user named the file: it is read whatever its manifest records.
fn has_listed_length(file: &InputFile) -> Result<bool> {
    match file.entry() {
        Some(entry) if entry.file_bytes != file.len && !file.named => {
            let (path, expected, found) = (file.path.clone(), entry.file_bytes, file.len);
            Err(ErrorKind::ShardLength { path, expected, found }.into())
        }
        entry => Ok(entry.is_some_and(|entry| entry.file_bytes == file.len)),
    }
}

/// Adds a position after `total` of an uncompressed file, if the last one is far enough before it.
fn note_offset(offsets: &mut Vec<RecordOffset>, next: &mut u64, total: Count) {
    let Count { rows: record, framed_bytes: framed } = total;
    if framed >= *next {
        offsets.push(RecordOffset { record, framed, file: framed });
        *next = (framed / OFFSET_INTERVAL + 1) * OFFSET_INTERVAL;
    }
}

fn count_intact_file(file: InputFile, progress: &Progress) -> Result<CountedFile> {
    progress.expect(file.len);
    let is_listed = has_listed_length(&file)?;
    let mut reader = FrameReader::open(&file, OnDamage::PassOver, progress)?;
    let container = reader.container();
    let (mut offsets, mut next, mut total) = (Vec::new(), OFFSET_INTERVAL, Count::default());
    let mut each = |frame: &[u8]| {
        note_offset(&mut offsets, &mut next, total);
        total = total + Count { rows: 1, framed_bytes: frame.len() as u64 };
    };
    while reader.read(&mut each)? {}
    let (_, DamageNoted { kept, more: (more, _) }) = reader.finish();
    let number = more + kept.len() as u64;
    let damage = kept.into_iter().next().map(|first| (number, first));
    // Of an intact file, the manifest knows positions within compressed data, too.
    let of_manifest = file.entry().filter(|entry| is_listed && entry.rows == total.rows).map(|entry| &entry.offsets);
    let offsets = match (&damage, of_manifest) {
        (None, Some(of_manifest)) => of_manifest.clone(),
        (None, None) if container.is_plain() => offsets,
        _ => Vec::new(),
    };
    let Count { rows, framed_bytes } = total;
    let listed = file.listed.filter(|_| is_listed);
    Ok(CountedFile { path: file.path, len: file.len, container, rows, framed_bytes, offsets, listed, damage })
}
