//! What is known of files of records before they are read, as text that a plan keeps.

use std::collections::{BTreeMap, BTreeSet};

use datafusion_common::{Result, exec_datafusion_err};
use datafusion_datasource::file_groups::FileGroup;
use datafusion_datasource::{FileExtensions, PartitionedFile};
use object_store::path::Path;
use serde::{Deserialize, Serialize};
use tfr_files::planned::{KnownText, map_files};
use tfrecord_framing::{Compression, Container, Position};
use tfrecord_shards::RecordOffset;

use super::boundary_scan::BoundaryScan;
use super::known::KnownFile;

/// A [`Container`] as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PlannedContainer {
    TfRecord,
    TfRecordGzip,
    TfRecordZlib,
    ArrayRecord,
}

impl From<Container> for PlannedContainer {
    fn from(container: Container) -> Self {
        match container {
            Container::TfRecord(Compression::None) => Self::TfRecord,
            Container::TfRecord(Compression::Gzip) => Self::TfRecordGzip,
            Container::TfRecord(Compression::Zlib) => Self::TfRecordZlib,
            Container::ArrayRecord => Self::ArrayRecord,
        }
    }
}

impl From<PlannedContainer> for Container {
    fn from(planned: PlannedContainer) -> Self {
        match planned {
            PlannedContainer::TfRecord => Self::TfRecord(Compression::None),
            PlannedContainer::TfRecordGzip => Self::TfRecord(Compression::Gzip),
            PlannedContainer::TfRecordZlib => Self::TfRecord(Compression::Zlib),
            PlannedContainer::ArrayRecord => Self::ArrayRecord,
        }
    }
}

/// A [`KnownFile`] as text, with only the offsets at which this part begins or ends.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlannedFile {
    container: Option<PlannedContainer>,
    /// Number of records, and bytes of all of them including frames.
    end: Option<(u64, u64)>,
    is_counted: bool,
    offsets: Vec<RecordOffset>,
    /// Where the last part of the file begins, if a record-boundary scan finds where parts begin. Each task scans up to it,
    /// so that all of them find the same: that every part begins with a record, or that one of them reads the whole file.
    last_cut: Option<u64>,
}

/// Returns what is attached to a file or a part of one as text; `None` if there is nothing, or something else.
pub(super) fn known_text(file: &PartitionedFile) -> Option<String> {
    let known = file.extension::<KnownFile>();
    let scan = file.extension::<BoundaryScan>();
    let understood = usize::from(known.is_some()) + usize::from(scan.is_some());
    if understood == 0 || understood != file.extensions.len() {
        return None;
    }
    let KnownFile { container, end, is_counted, offsets } = known.cloned().unwrap_or_default();
    let ends = ends_inside(file);
    let planned = PlannedFile {
        container: container.map(PlannedContainer::from),
        end: end.map(|end| (end.record, end.byte)),
        is_counted,
        offsets: offsets.iter().filter(|offset| ends.contains(&offset.file)).copied().collect(),
        last_cut: scan.and_then(|scan| scan.cuts().last()).copied(),
    };
    serde_json::to_string(&planned).ok()
}

/// Attaches to files what was known of them when they were planned. The parts of a file share one record-boundary scan.
///
/// # Errors
/// A text is not one of this version.
pub(super) fn with_known(groups: Vec<FileGroup>) -> Result<Vec<FileGroup>> {
    let mut cuts: BTreeMap<Path, BTreeSet<u64>> = BTreeMap::new();
    for file in groups.iter().flat_map(FileGroup::iter) {
        if let Some(last_cut) = planned(file)?.and_then(|planned| planned.last_cut) {
            let cuts = cuts.entry(file.object_meta.location.clone()).or_default();
            cuts.extend(ends_inside(file));
            cuts.insert(last_cut);
        }
    }
    let scans: BTreeMap<_, _> =
        cuts.into_iter().map(|(path, cuts)| (path, BoundaryScan::new(cuts.into_iter().collect::<Vec<_>>()))).collect();
    map_files(groups, |mut file| {
        let Some(planned) = planned(&file)? else { return Ok(file) };
        file.extensions = FileExtensions::new();
        file.extensions.insert(KnownFile {
            container: planned.container.map(Container::from),
            end: planned.end.map(|(record, byte)| Position { record, byte }),
            is_counted: planned.is_counted,
            offsets: planned.offsets.into(),
        });
        if let Some(scan) = scans.get(&file.object_meta.location).filter(|_| planned.last_cut.is_some()) {
            file.extensions.insert(scan.clone());
        }
        Ok(file)
    })
}

/// Returns what a plan has of a file.
fn planned(file: &PartitionedFile) -> Result<Option<PlannedFile>> {
    let read = |KnownText(text): &KnownText| {
        serde_json::from_str(text).map_err(|error| {
            exec_datafusion_err!("{}: the plan's description cannot be read: {error}", file.object_meta.location)
        })
    };
    file.extension::<KnownText>().map(read).transpose()
}

/// Returns where a part of a file begins and ends, except at the ends of the file.
fn ends_inside(part: &PartitionedFile) -> Vec<u64> {
    let range = part.range.iter().flat_map(|range| [range.start, range.end]);
    let ends = range.filter_map(|end| u64::try_from(end).ok());
    ends.filter(|end| (1..part.object_meta.size).contains(end)).collect()
}
