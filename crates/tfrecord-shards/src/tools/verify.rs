//! [`verify`]: reports every defect of files and sets.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use arrow_tfrecord::FeatureNames;
use rayon::prelude::*;
use tfrecord_framing::{FOOTER_LEN, HEADER_LEN, Position};

use crate::error::{AtPath, ErrorKind, Result};
use crate::error::{Finding, FindingKind};
use crate::set::difference::ShardFigures;
use crate::set::manifest::Manifest;
use crate::set::sidecar::SidecarEntry;
use crate::tools::frames::{FrameSink, OnDamage, read_through};
use crate::tools::inputs::{InputFile, Inputs, first_path};
use crate::tools::progress::Progress;
use crate::tools::saved_dataset::SavedDataset;
use crate::tools::stored::Input;

/// The result of [`verify`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Verification {
    /// Number of TFRecord files read.
    pub files: u64,
    /// Number of intact records in them.
    pub records: u64,
    /// Length in bytes of the intact records with their frames, before compression.
    pub framed_bytes: u64,
    /// Length of the files in bytes.
    pub file_bytes: u64,
    /// The defects: first those of directories, then those of files in order. Empty if there are none.
    pub findings: Vec<Finding>,
}

/// Reports every defect of files and directories.
///
/// * Of a file: checksums, lengths, truncated or trailing bytes, zero padding, the ends of compressed streams. All
///   damage is reported, up to 10,000 ranges per file. The compression is detected from the content. Records are not
///   decoded, except for the names of features in the first 1000 records of a shard.
/// * Of a set, and of a file that the manifest next to it lists: also shards that are missing, not listed, or differ
///   from the manifest in records, bytes or CRC-32C; a schema or mapping that cannot be read or does not match the
///   features of the records; a manifest changed after it was written; a missing `_SUCCESS`; leftovers of killed runs;
///   and sidecars that differ from the manifest.
/// * Of a directory: every file and directory in it, except sidecars and names that start with `.` or `_`. If there is
///   a manifest, it specifies which files are shards. Without one, the number of elements in the metadata of a saved
///   dataset of `tf.data` is compared with the number of records.
///
/// A link in a directory counts as its target, as in SQL. A file found by more than one path is read once.
///
/// Files of a store are checked in the same way; a store has no staged files and no links.
///
/// Files are read in parallel, on the caller's rayon pool. Memory is bounded: per thread, about twice the length of the
/// longest record. A record may have up to 2 GiB, even in a compressed file of a few MiB.
///
/// ```
/// use tfrecord_framing::RecordWriter;
/// use tfrecord_shards::{Progress, verify};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # std::env::set_current_dir(&dir)?;
/// let mut writer = RecordWriter::new(Vec::new());
/// writer.write_record(b"first")?;
/// writer.write_record(b"second")?;
/// let mut file = writer.finish()?;
/// file.extend([0; 5]);
/// std::fs::write("a.tfrecord", file)?;
///
/// let seen = verify(&["a.tfrecord"], &Progress::default())?;
/// assert_eq!(seen.records, 2);
/// let lines: Vec<_> = seen.findings.iter().map(ToString::to_string).collect();
/// assert_eq!(lines, ["a.tfrecord: record 2 at byte 43: zero bytes where a record should start, 5 bytes lost"]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When a path leads nowhere or to a pipe or device, there is no file to read, or the run was stopped. All else is
/// findings.
pub fn verify<I: Clone + Into<Input>>(inputs: &[I], progress: &Progress) -> Result<Verification> {
    let inputs = Input::all(inputs);
    let Inputs { files, findings, .. } = Inputs::find(&inputs)?;
    if files.is_empty() && findings.is_empty() {
        return Err(ErrorKind::NoFiles { path: first_path(&inputs) }.into());
    }
    let mut saved = Vec::new();
    let mut records = Vec::with_capacity(files.len());
    for file in files {
        match SavedDataset::read(&file) {
            Ok(Some(dataset)) => saved.push(dataset),
            // Reported when it is read as a file of records.
            Ok(None) | Err(_) => records.push(file),
        }
    }
    let files = records;
    progress.expect(files.iter().map(|file| file.len).sum());
    let seen: Vec<_> = files.par_iter().map(|file| verify_file(file, progress)).collect::<Result<_>>()?;
    let mut verification = Verification { findings, ..Verification::default() };
    for dataset in saved {
        let own = || files.iter().zip(&seen).filter(|(file, _)| dataset.contains(&file.path)).map(|(_, seen)| seen);
        // The number of records of a damaged file differs in any case.
        if own().all(|(_, findings)| findings.is_empty()) {
            verification.findings.extend(dataset.compare(own().map(|(figures, _)| figures.rows).sum()));
        }
    }
    for (figures, findings) in seen {
        verification.files += 1;
        verification.records += figures.rows;
        verification.framed_bytes += figures.framed_bytes;
        verification.file_bytes += figures.file_bytes;
        verification.findings.extend(findings);
    }
    verification.findings.extend(beside(&files));
    Ok(verification)
}

/// Number of records of each shard whose features are compared with the manifest, as many as readers sample.
const NAMED_RECORDS: usize = 1000;

/// Collects the names of features in the first records of a file.
struct FirstNames {
    /// Number of records left to check.
    left: usize,
    names: FeatureNames,
}

impl FrameSink for FirstNames {
    fn push(&mut self, frame: &[u8]) {
        let Some(left) = self.left.checked_sub(1) else { return };
        self.left = left;
        let end = frame.len().saturating_sub(FOOTER_LEN);
        let payload = frame.get(HEADER_LEN..end).unwrap_or_default();
        // A record without features has no names to compare.
        let _ = self.names.observe(payload, Position::default());
    }

    fn pause(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Returns the defects of the sidecars next to the shards of sets.
fn beside(files: &[InputFile]) -> Vec<Finding> {
    let of_sets = files.iter().filter(|file| !file.named);
    let sets: BTreeMap<&Path, (&InputFile, &Manifest)> =
        of_sets.filter_map(|file| Some((file.origin(), (file, &*file.listed.as_ref()?.0)))).collect();
    let mut findings = Vec::new();
    for (dir, (file, manifest)) in sets {
        for listed in &manifest.sidecars {
            let path = dir.join(&listed.path);
            let read = file.open_beside(&path).and_then(|content| SidecarEntry::read(&listed.path, content));
            match read {
                Ok(found) if found == *listed => {}
                Ok(_) => findings.push(Finding::new(&path, FindingKind::ChangedSidecar)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    findings.push(Finding::new(&path, FindingKind::MissingSidecar));
                }
                Err(source) => {
                    let error = Err::<(), _>(source).at("read", &path).err();
                    findings.extend(error.map(|error| Finding::new(&path, FindingKind::Unreadable(error))));
                }
            }
        }
    }
    findings
}

fn verify_file(input: &InputFile, progress: &Progress) -> Result<(ShardFigures, Vec<Finding>)> {
    let mapping = input.listed.as_ref().and_then(|(manifest, _)| manifest.to_mapping());
    let mut names =
        FirstNames { left: if mapping.is_some() { NAMED_RECORDS } else { 0 }, names: FeatureNames::default() };
    let read = read_through(input, OnDamage::PassOver, progress, &mut names).map(|(figures, mut findings)| {
        let unmapped = mapping.map(|mapping| names.names.unmapped(&mapping)).filter(|features| !features.is_empty());
        let finding = unmapped.map(|features| Finding::new(&input.path, FindingKind::UnmappedFeatures { features }));
        findings.extend(finding);
        (figures, findings)
    });
    match read {
        Err(error) if !matches!(error.kind(), ErrorKind::Stopped) => {
            Ok((ShardFigures::default(), vec![Finding::new(&input.path, FindingKind::Unreadable(error))]))
        }
        read => read,
    }
}
