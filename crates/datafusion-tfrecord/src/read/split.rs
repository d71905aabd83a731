//! Divides the files of a scan among partitions.

use std::sync::Arc;

use datafusion_datasource::PartitionedFile;
use datafusion_datasource::file_groups::FileGroup;
use tfrecord_shards::RecordOffset;

use super::boundary_scan::BoundaryScan;
use super::known::KnownFile;

/// Where files may be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cutting {
    /// Files are read whole.
    Nowhere,
    /// At positions listed in their manifest.
    Listed,
    /// At these positions, and anywhere in uncompressed files, where a record-boundary scan will find a boundary.
    Anywhere,
}

/// Where a file may be split.
enum Cuts {
    /// At these positions.
    Known(Arc<[RecordOffset]>),
    /// Anywhere: a [`BoundaryScan`] finds a boundary nearby.
    Scanned,
    Nowhere,
}

/// Divides `groups` by bytes: in order, each of at most `partitions` groups gets a contiguous part of the files. The
/// result depends only on the files and the number of partitions.
///
/// Files are split where that is certain, as `cutting` says. Returns `None` if the groups contain parts
/// of files that do not add up to whole files, or fewer than `min_size` bytes in all.
pub(super) fn divide(
    groups: &[FileGroup],
    partitions: usize,
    min_size: usize,
    cutting: Cutting,
) -> Option<Vec<FileGroup>> {
    let files = whole_files(groups)?;
    let total: u64 = files.iter().map(|file| file.object_meta.size).sum();
    if partitions < 2 || total == 0 || total < min_size as u64 {
        return None;
    }
    // Computed as u128, so that no product overflows.
    let share = |partition: usize| (u128::from(total) * partition as u128 / partitions as u128) as u64;
    let shares: Vec<u64> = (1..partitions).map(share).collect();
    let partition_at = |byte: u64| shares.partition_point(|share| *share <= byte);
    let mut divided = vec![Vec::new(); partitions];
    let mut start = 0;
    for file in files {
        let size = file.object_meta.size;
        let inside = shares.iter().filter(|share| start < **share && **share < start + size).map(|share| share - start);
        let mut cuts: Vec<u64> = match cuts_of(&file, cutting) {
            Cuts::Known(offsets) => inside.filter_map(|cut| nearest(&offsets, cut, size)).collect(),
            Cuts::Scanned => inside.collect(),
            Cuts::Nowhere => Vec::new(),
        };
        cuts.dedup();
        let middle = |from: u64, to: u64| partition_at(start + from + (to - from) / 2);
        // A cut between two parts of one partition is dropped.
        let ends: Vec<u64> = cuts.iter().copied().chain([size]).collect();
        let parts: Vec<(u64, u64)> = std::iter::once(0).chain(cuts.iter().copied()).zip(ends).collect();
        let mut merged: Vec<(usize, u64, u64)> = Vec::with_capacity(parts.len());
        for (from, to) in parts {
            let partition = middle(from, to);
            match merged.last_mut() {
                Some((last, _, end)) if *last == partition => *end = to,
                _ => merged.push((partition, from, to)),
            }
        }
        let cuts: Arc<[u64]> = merged.iter().skip(1).map(|(_, from, _)| *from).collect();
        let scan = BoundaryScan::new(Arc::clone(&cuts));
        for (partition, from, to) in merged {
            let mut part = file.clone();
            if !cuts.is_empty() {
                part = part.with_range(from as i64, to as i64);
                part.extensions.insert(scan.clone());
            }
            divided[partition].push(part);
        }
        start += size;
    }
    Some(divided.into_iter().filter(|files| !files.is_empty()).map(FileGroup::new).collect())
}

/// Returns the files whose parts are in `groups`, in order. Parts of a file must follow one another.
fn whole_files(groups: &[FileGroup]) -> Option<Vec<PartitionedFile>> {
    let mut files: Vec<PartitionedFile> = Vec::new();
    let mut end = None;
    for part in groups.iter().flat_map(FileGroup::iter) {
        let size = part.object_meta.size;
        let (from, to) = part.range();
        match end.take() {
            // In the middle of a file's parts.
            Some(end) => {
                let file = files.last()?;
                if file.object_meta.location != part.object_meta.location || from != end {
                    return None;
                }
            }
            None if from == 0 => files.push(PartitionedFile { range: None, ..part.clone() }),
            None => return None,
        }
        end = (to < size).then_some(to);
    }
    end.is_none().then_some(files)
}

fn cuts_of(file: &PartitionedFile, cutting: Cutting) -> Cuts {
    let known = file.extension::<KnownFile>();
    match known {
        _ if cutting == Cutting::Nowhere => Cuts::Nowhere,
        Some(known) if !known.offsets.is_empty() => Cuts::Known(Arc::clone(&known.offsets)),
        // A compressed file does not start with a header, so its scan finds at once that it must be read in one
        // piece.
        _ if cutting == Cutting::Anywhere && known.and_then(|known| known.container).unwrap_or_default().is_plain() => {
            Cuts::Scanned
        }
        _ => Cuts::Nowhere,
    }
}

/// Returns the position nearest to `cut`, unless an end of the file is nearer.
fn nearest(offsets: &[RecordOffset], cut: u64, size: u64) -> Option<u64> {
    let behind = offsets.partition_point(|offset| offset.file < cut);
    let around = [behind.checked_sub(1), Some(behind)].into_iter().flatten();
    let places = around.filter_map(|index| offsets.get(index)).map(|offset| offset.file);
    let nearest = places.min_by_key(|place| place.abs_diff(cut))?;
    (nearest.abs_diff(cut) <= cut.min(size - cut)).then_some(nearest)
}

#[cfg(test)]
mod tests;
