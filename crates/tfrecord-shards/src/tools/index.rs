//! [`index`]: writes the offset of each record of a file, for random access.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use rayon::prelude::*;

use crate::commit::staging::create_hidden;
use crate::commit::staging_names::hidden_name;
use crate::error::{AtPath, ErrorKind, Result};
use crate::error::{Finding, FindingKind};
use crate::set::names::RunId;
use crate::set::sidecar::IndexName;
use crate::tools::frames::{FrameReader, OnDamage, hop};
use crate::tools::inputs::{InputFile, Inputs};
use crate::tools::progress::Progress;
use crate::tools::stored::Input;
use crate::write::index_lines::IndexLines;

/// Bytes of an index written at once.
const WRITE_BYTES: usize = 64 << 10;

/// The result of [`index`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Indexing {
    /// The indexes, in the order of the files.
    pub indexes: Vec<Index>,
    /// Defects of the sets: shards that are missing or not listed, a missing `_SUCCESS`, leftovers of killed runs.
    pub findings: Vec<Finding>,
}

/// An index that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Index {
    /// Path of the index.
    pub path: PathBuf,
    /// Number of records in it.
    pub records: u64,
}

/// Writes an index next to each file. It has a line for each record, with the offset and the length of its frame in
/// bytes: `9034112 187`. An existing index is replaced, where [`IndexName::find`] finds it.
///
/// Checks lengths against their checksums and reads nothing else; [`verify`](fn@crate::verify) checks everything. Files
/// are found as described there, and read in parallel on the caller's rayon pool.
///
/// ```
/// use tfrecord_framing::RecordWriter;
/// use tfrecord_shards::{IndexName, Progress, index};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let file = dir.path().join("a.tfrecord");
/// let mut writer = RecordWriter::new(std::fs::File::create(&file)?);
/// writer.write_record(b"first")?;
/// writer.write_record(b"second")?;
/// writer.finish()?;
///
/// let written = index(&[file], IndexName::Idx, &Progress::default())?;
/// let written = written.indexes;
/// assert_eq!(written[0].records, 2);
/// assert_eq!(std::fs::read_to_string(&written[0].path)?, "0 21\n21 22\n");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If a path is a pipe or device, two files have the same index path ([`ErrorKind::SameIndex`]), a file is compressed
/// ([`ErrorKind::CompressedIndex`]), damaged ([`ErrorKind::Damaged`], by record and byte) or cannot be read, an index
/// cannot be written, or the run was stopped. No index is renamed to its final path before all are written.
pub fn index(inputs: &[PathBuf], name: IndexName, progress: &Progress) -> Result<Indexing> {
    let Inputs { files, mut findings, .. } = Inputs::find(&Input::all(inputs))?.with_lengths();
    let prevents = |finding: &Finding| {
        let kind = &finding.kind;
        matches!(kind, FindingKind::Unreadable(_) | FindingKind::ChangedManifest { .. } | FindingKind::Length { .. })
    };
    if let Some(at) = findings.iter().position(prevents) {
        return Err(findings.swap_remove(at).into_error());
    }
    if files.is_empty() {
        return Err(ErrorKind::NoFiles { path: inputs.first().cloned().unwrap_or_default() }.into());
    }
    let mut paths = BTreeMap::new();
    for file in &files {
        let path = name.find(&file.path);
        if let Some(first) = paths.insert(path.clone(), &file.path) {
            let (first, second) = (first.clone(), file.path.clone());
            return Err(ErrorKind::SameIndex { path, first, second }.into());
        }
    }
    progress.expect(files.iter().map(|file| file.len).sum());
    let run = RunId::new();
    let written: Vec<_> = files
        .par_iter()
        .enumerate()
        .map(|(number, file)| {
            let mut index = NewIndex::write(file, name.find(&file.path), &run, progress)?;
            // An index that stays locked shows that its run is live.
            index.lock.take_if(|_| number > 0);
            Ok(index)
        })
        .collect::<Result<_>>()?;
    let indexes = written.into_iter().map(NewIndex::put_in_place).collect::<Result<_>>()?;
    Ok(Indexing { indexes, findings })
}

/// An index under a hidden name, removed on drop unless it was renamed to its final path.
struct NewIndex {
    hidden: PathBuf,
    path: PathBuf,
    records: u64,
    lock: Option<File>,
}

impl NewIndex {
    fn write(input: &InputFile, path: PathBuf, run: &RunId, progress: &Progress) -> Result<Self> {
        let container = FrameReader::open(input, OnDamage::Refuse, &Progress::default())?.container();
        if !container.is_plain() {
            return Err(ErrorKind::CompressedIndex { path: input.path.clone(), container }.into());
        }
        let name = hidden_name(&path.file_name().unwrap_or_default().to_string_lossy(), run);
        let hidden = path.with_file_name(name);
        let mut file = create_hidden(&hidden).at("create", &hidden)?;
        let mut index = Self { hidden, path, records: 0, lock: None };
        let mut lines = IndexLines::with_capacity(WRITE_BYTES + IndexLines::LONGEST);
        let records = Box::new(File::open(&input.path).at("open", &input.path)?);
        hop(&input.path, records, progress, |len| {
            lines.push(len);
            index.records += 1;
            if lines.text().len() >= WRITE_BYTES {
                file.write_all(lines.text()).at("write", &index.path)?;
                lines.clear();
            }
            Ok(())
        })?;
        file.write_all(lines.text()).at("write", &index.path)?;
        index.lock = Some(file);
        Ok(index)
    }

    fn put_in_place(self) -> Result<Index> {
        fs::rename(&self.hidden, &self.path).at("rename to", &self.path)?;
        Ok(Index { path: self.path.clone(), records: self.records })
    }
}

impl Drop for NewIndex {
    fn drop(&mut self) {
        // After a rename there is nothing to remove. Other errors cannot be reported here.
        let _unremoved = fs::remove_file(&self.hidden);
    }
}
