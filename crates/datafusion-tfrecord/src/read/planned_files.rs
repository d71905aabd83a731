//! What is known of files of records before they are read, as text that a plan keeps.

use std::collections::{BTreeMap, BTreeSet};

use datafusion_common::{DataFusionError, Result, exec_datafusion_err};
use datafusion_datasource::file_groups::FileGroup;
use datafusion_datasource::{FileExtensions, PartitionedFile};
use object_store::path::Path;
use serde::{Deserialize, Serialize};
use tfr_files::planned::KnownText;
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

/// A [`KnownFile`] as text, with those of its offsets at which a part of the file begins or ends.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlannedFile {
    container: Option<PlannedContainer>,
    /// Number of records, and bytes of all of them including frames.
    end: Option<(u64, u64)>,
    is_counted: bool,
    offsets: Vec<RecordOffset>,
}

/// Returns what is attached to a file or a part of one as text; `None` if there is nothing, or something else.
pub(super) fn known_text(file: &PartitionedFile) -> Option<String> {
    let known = file.extension::<KnownFile>();
    let is_scanned = file.extensions.contains::<BoundaryScan>();
    let understood = usize::from(known.is_some()) + usize::from(is_scanned);
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
    };
    serde_json::to_string(&planned).ok()
}

/// Attaches to files what they had when they were planned. The parts of a file share one record-boundary scan.
///
/// # Errors
/// A text is not one of this version.
pub(super) fn with_known(groups: Vec<FileGroup>) -> Result<Vec<FileGroup>> {
    let mut cuts: BTreeMap<Path, BTreeSet<u64>> = BTreeMap::new();
    for file in groups.iter().flat_map(FileGroup::iter) {
        let ends = ends_inside(file);
        if !ends.is_empty() {
            cuts.entry(file.object_meta.location.clone()).or_default().extend(ends);
        }
    }
    let scans: BTreeMap<_, _> =
        cuts.into_iter().map(|(path, cuts)| (path, BoundaryScan::new(cuts.into_iter().collect::<Vec<_>>()))).collect();
    let read = |mut file: PartitionedFile| -> Result<PartitionedFile> {
        let Some(KnownText(text)) = file.extension::<KnownText>() else { return Ok(file) };
        let planned: PlannedFile = serde_json::from_str(text)
            .map_err(|error| exec_datafusion_err!("a file of records that a plan describes otherwise: {error}"))?;
        let known = KnownFile {
            container: planned.container.map(Container::from),
            end: planned.end.map(|(record, byte)| Position { record, byte }),
            is_counted: planned.is_counted,
            offsets: planned.offsets.into(),
        };
        file.extensions = FileExtensions::new();
        file.extensions.insert(known);
        if let (Some(scan), Some(_)) = (scans.get(&file.object_meta.location), &file.range) {
            file.extensions.insert(scan.clone());
        }
        Ok(file)
    };
    let read_group = |group: FileGroup| {
        let files = group.into_inner().into_iter().map(read).collect::<Result<Vec<_>>>()?;
        Ok::<_, DataFusionError>(FileGroup::new(files))
    };
    groups.into_iter().map(read_group).collect()
}

/// Returns where a part of a file begins and ends, except at the ends of the file.
fn ends_inside(part: &PartitionedFile) -> Vec<u64> {
    let range = part.range.iter().flat_map(|range| [range.start, range.end]);
    let ends = range.filter_map(|end| u64::try_from(end).ok());
    ends.filter(|end| (1..part.object_meta.size).contains(end)).collect()
}
