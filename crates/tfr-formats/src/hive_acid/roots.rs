//! [`Root`]: the files of a table, or of one of its partitions, that a snapshot has.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion_common::Result;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ListResult, ObjectMeta};
use serde::Deserialize;

use super::names::{AcidName, DirectoryKind, FileName};
use super::state::{self, AcidDirectory, AcidState, Chosen};
use super::{AcidSnapshot, damaged, unsupported};
use crate::error::{Error, TableError};
use crate::table::Place;

/// The newest form of directories that is known (`_orc_acid_version`).
const KNOWN_VERSION: u64 = 2;

/// The most directories below each other in a table.
const MAX_DEPTH: usize = 64;

/// Directories that are listed at a time.
pub(super) const REQUESTS: usize = 16;

/// The directory of a table without partitions, or of a partition.
pub(super) struct Root {
    pub(super) place: Arc<Place>,
    pub(super) directory: Path,
    /// Whether nothing was found there, as in a directory that does not exist.
    pub(super) is_empty: bool,
    /// Its files with rows, in the order in which they are read.
    pub(super) data: Vec<AcidFile>,
    /// Its files with deleted rows.
    pub(super) deletes: Vec<AcidFile>,
    /// Where these files are.
    state: AcidState,
}

/// A file of a transactional table.
#[derive(Debug, Clone)]
pub(super) struct AcidFile {
    pub(super) meta: ObjectMeta,
    /// The bucket by its name.
    pub(super) bucket: Option<u16>,
    /// Whether its name is one of a file with the ids of rows.
    pub(super) has_ids: bool,
    /// The directory with its changes. `None` for a file from before the table became transactional.
    pub(super) of: Option<Chosen>,
}

impl AcidFile {
    /// Returns the first and the last write id that it may have rows of.
    pub(super) fn write_ids(&self) -> (i64, i64) {
        self.of.as_ref().map_or((0, 0), |of| of.directory.name.write_ids())
    }

    /// Whether some of its rows are not read.
    pub(super) fn is_filtered(&self) -> bool {
        self.of.as_ref().is_some_and(|of| of.is_filtered)
    }
}

/// Finds the directory of a table without partitions, or those of its partitions, by their names.
///
/// # Errors
/// A directory cannot be listed, or has files beside partitions.
pub(super) async fn discover(place: &Place, root: &Path) -> Result<Vec<Path>> {
    let (mut found, mut level) = (Vec::new(), vec![root.clone()]);
    for _ in 0..MAX_DEPTH {
        let mut below = Vec::new();
        for (directory, listed) in list_all(place, std::mem::take(&mut level)).await? {
            let is_partition =
                |path: &&Path| path.filename().is_some_and(|name| name.contains('=')) && !is_hidden(path);
            let partitions: Vec<_> = listed.common_prefixes.iter().filter(is_partition).cloned().collect();
            let mut others = listed.common_prefixes.iter().filter(|path| !is_partition(path) && !is_hidden(path));
            let mut files = listed.objects.iter().filter(|file| !is_hidden(&file.location) && file.size > 0);
            if partitions.is_empty() {
                found.push(directory);
                continue;
            }
            if let Some(other) = others.next().or_else(|| files.next().map(|file| &file.location)) {
                let reason = format!("it is beside partitions such as {}", place.name(&partitions[0]));
                return Err(damaged(place.name(other), reason).into());
            }
            below.extend(partitions);
        }
        if below.is_empty() {
            return Ok(found);
        }
        level = below;
    }
    Err(unsupported(place, format!("partitions in more than {MAX_DEPTH} directories below each other")).into())
}

async fn list_all(place: &Place, directories: Vec<Path>) -> Result<Vec<(Path, ListResult)>> {
    let list = |directory: Path| async move {
        let listed = place.list(&directory).await?;
        Ok::<_, tfr_files::Error>((directory, listed))
    };
    // Collected first: a closure over references is not general enough for the compiler inside a stream.
    let lists: Vec<BoxFuture<'_, _>> = directories.into_iter().map(|directory| list(directory).boxed()).collect();
    Ok(futures::stream::iter(lists).buffered(REQUESTS).try_collect().await?)
}

fn is_hidden(path: &Path) -> bool {
    path.filename().is_some_and(|name| name.starts_with(['_', '.']))
}

impl Root {
    /// Finds the files of a directory. `None` if there is no snapshot, and its rows need one.
    ///
    /// # Errors
    /// - A directory cannot be listed.
    /// - A name, or the form of a directory, is not known.
    /// - The snapshot lacks what a directory needs.
    pub(super) async fn find(
        place: Arc<Place>,
        directory: Path,
        snapshot: Option<&AcidSnapshot>,
    ) -> Result<Option<Self>> {
        let listed = place.list(&directory).await?;
        let directories = directories(&place, &listed).await?;
        let state = match snapshot {
            Some(snapshot) => committed(&place, &directory, directories.clone(), snapshot)?,
            None => match state::compacted(&directories) {
                Ok(state) => state,
                Err(text) => {
                    log::debug!(
                        "{}: it may be of a transaction that was not committed",
                        place.name(&directory.join(text))
                    );
                    return Ok(None);
                }
            },
        };
        if snapshot.is_none_or(|snapshot| snapshot.transactions.is_none()) {
            warn_of_compactions(&place, &directory, &directories, &state);
        }
        let is_empty = listed.objects.is_empty() && listed.common_prefixes.is_empty();
        let mut root = Self { place, directory, is_empty, data: Vec::new(), deletes: Vec::new(), state };
        if root.state.has_originals {
            root.add_originals(&listed).await?;
        }
        for chosen in root.state.chosen.clone() {
            root.add(chosen, snapshot).await?;
        }
        Ok(Some(root))
    }

    /// Checks that none of its directories was replaced before they were listed, by what was committed after that: Hive
    /// removes what a compaction or a statement has replaced.
    ///
    /// # Errors
    /// One was replaced, or a directory cannot be listed.
    pub(super) async fn check_unchanged(&self, now: &AcidSnapshot) -> Result<()> {
        let listed = self.place.list(&self.directory).await?;
        let directories = directories(&self.place, &listed).await?;
        let newer = committed(&self.place, &self.directory, directories, now)?;
        let is_kept = |chosen: &Chosen| newer.chosen.iter().any(|newer| newer.directory == chosen.directory);
        match self.state.chosen.iter().all(is_kept) && (newer.has_originals || !self.state.has_originals) {
            true => Ok(()),
            false => {
                Err(Error::from(TableError::ReplacedMeanwhile { directory: self.place.name(&self.directory) }).into())
            }
        }
    }

    /// Adds the files from before the table became transactional.
    async fn add_originals(&mut self, listed: &ListResult) -> Result<()> {
        let is_other =
            |path: &&Path| !is_hidden(path) && path.filename().is_none_or(|name| AcidName::parse(name).is_none());
        let below = listed.common_prefixes.iter().filter(is_other).cloned().collect();
        let mut files = listed.objects.clone();
        files.extend(self.files_below(below).await?);
        files.sort_by(|left, right| left.location.cmp(&right.location));
        for meta in files.into_iter().filter(|meta| meta.size > 0) {
            match FileName::parse(meta.location.filename().unwrap_or_default()) {
                FileName::Hidden => {}
                FileName::Raw(bucket) => self.data.push(AcidFile { meta, bucket, has_ids: false, of: None }),
                FileName::Bucket(_) | FileName::SideFile(_) => {
                    let reason = "it is not in the directory of a base or a delta".to_owned();
                    return Err(damaged(self.place.name(&meta.location), reason).into());
                }
            }
        }
        Ok(())
    }

    /// Returns the files in these directories and below.
    async fn files_below(&self, mut level: Vec<Path>) -> Result<Vec<ObjectMeta>> {
        let mut files = Vec::new();
        for _ in 0..MAX_DEPTH {
            let mut below = Vec::new();
            for (_, listed) in list_all(&self.place, std::mem::take(&mut level)).await? {
                files.extend(listed.objects);
                for path in listed.common_prefixes.into_iter().filter(|path| !is_hidden(path)) {
                    let name = path.filename().unwrap_or_default();
                    if AcidName::parse(name).is_some() || name.contains('=') {
                        let reason = "it is not directly in the directory of a table or a partition".to_owned();
                        return Err(damaged(self.place.name(&path), reason).into());
                    }
                    below.push(path);
                }
            }
            if below.is_empty() {
                return Ok(files);
            }
            level = below;
        }
        Err(unsupported(&self.place, format!("more than {MAX_DEPTH} directories below each other")).into())
    }

    /// Adds the files of a directory of changes.
    async fn add(&mut self, chosen: Chosen, snapshot: Option<&AcidSnapshot>) -> Result<()> {
        let path = self.directory.clone().join(chosen.directory.text.as_str());
        let listed = self.place.list(&path).await?;
        if let Some(file) = listed.objects.iter().find(|file| file.location.filename() == Some("_orc_acid_version")) {
            self.check_version(file).await?;
        }
        let is_delete = matches!(chosen.directory.name.kind, DirectoryKind::Delta(delta) if delta.is_delete);
        let below: Vec<_> = listed.common_prefixes.into_iter().filter(|path| !is_hidden(path)).collect();
        let mut files = listed.objects;
        files.extend(self.files_below(below).await?);
        files.sort_by(|left, right| left.location.cmp(&right.location));
        let sizes: Vec<_> = files.iter().map(|file| (file.location.clone(), file.size)).collect();
        let mut buckets = HashSet::new();
        for meta in files {
            let (bucket, has_ids) = match FileName::parse(meta.location.filename().unwrap_or_default()) {
                FileName::Hidden => continue,
                FileName::SideFile(of) => {
                    let of = path.clone().join(of);
                    let size = sizes.iter().find(|(known, _)| *known == of).map_or(0, |(_, size)| *size);
                    self.check_side_file(&meta, &of, size).await?;
                    continue;
                }
                FileName::Bucket(bucket) => (Some(bucket), true),
                // Without rows, as everywhere.
                FileName::Raw(_) if meta.size == 0 => continue,
                FileName::Raw(bucket) => (bucket, false),
            };
            let name = || self.place.name(&meta.location);
            if has_ids && !buckets.insert(bucket) {
                let reason = "its directory has another file of the bucket: one of them is of an attempt that failed";
                return Err(damaged(name(), reason.to_owned()).into());
            }
            if is_delete && !has_ids {
                let reason = "its name is not that of a file with deleted rows: bucket_00000".to_owned();
                return Err(damaged(name(), reason).into());
            }
            let mut of = chosen.clone();
            // A compaction leaves out the rows of transactions that were rolled back.
            let (first, last) = of.directory.name.write_ids();
            let is_decided = snapshot.is_none_or(|snapshot| snapshot.ids.is_decided(first, last));
            if !has_ids && of.directory.is_compacted && is_decided && of.floor < first {
                of.is_filtered = false;
            }
            let file = AcidFile { meta, bucket, has_ids, of: Some(of) };
            match is_delete {
                true => self.deletes.push(file),
                false => self.data.push(file),
            }
        }
        Ok(())
    }

    /// Checks the form of a directory.
    async fn check_version(&self, file: &ObjectMeta) -> Result<()> {
        let bytes = self.place.read(&file.location, file.size).await?;
        let text = String::from_utf8_lossy(&bytes);
        match text.trim().parse::<u64>() {
            Ok(version) if version <= KNOWN_VERSION => Ok(()),
            _ => {
                let found = text.chars().take(20).collect::<String>();
                let reason = format!("version {found:?} of its directory is not known");
                Err(damaged(self.place.name(&file.location), reason).into())
            }
        }
    }

    /// Checks that all of a file was committed, of which another one notes how much was.
    async fn check_side_file(&self, side: &ObjectMeta, of: &Path, size: u64) -> Result<()> {
        const NUMBER: u64 = 8;
        let start = (side.size / NUMBER).saturating_sub(1) * NUMBER;
        let last = match side.size {
            0..NUMBER => 0,
            _ => {
                let bytes = self.place.read_range(&side.location, start..start + NUMBER).await?;
                <[u8; 8]>::try_from(bytes.as_ref()).map(u64::from_be_bytes).unwrap_or_default()
            }
        };
        match last == size {
            true => Ok(()),
            false => {
                let reason = format!("it has {size} bytes, of which {last} are committed: a stream still writes to it");
                Err(damaged(self.place.name(of), reason).into())
            }
        }
    }
}

/// Returns the directories of changes in a directory.
async fn directories(place: &Place, listed: &ListResult) -> Result<Vec<AcidDirectory>> {
    let mut directories = Vec::new();
    for path in listed.common_prefixes.iter().filter(|path| !is_hidden(path)) {
        let text = path.filename().unwrap_or_default();
        let Some(name) = AcidName::parse(text) else { continue };
        let name = name.map_err(|reason| damaged(place.name(path), reason))?;
        let is_compacted = match (name.kind, name.visibility) {
            (_, Some(_)) => true,
            (DirectoryKind::Base(_), None) => is_compacted(place, path).await?,
            (DirectoryKind::Delta(_), None) => false,
        };
        directories.push(AcidDirectory { text: text.to_owned(), name, is_compacted });
    }
    Ok(directories)
}

fn committed(
    place: &Place,
    root: &Path,
    directories: Vec<AcidDirectory>,
    snapshot: &AcidSnapshot,
) -> Result<AcidState, Error> {
    let state = state::committed(directories, &snapshot.ids, snapshot.transactions.as_ref());
    state.map_err(|(text, reason)| damaged(place.name(&root.clone().join(text)), reason))
}

/// Whether a compaction has made a base whose name does not have its transaction, as before Hive 4.
async fn is_compacted(place: &Place, base: &Path) -> Result<bool> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct BaseMetadata {
        data_format: Option<String>,
    }
    let Some(file) = place.head(&base.clone().join("_metadata_acid")).await? else { return Ok(false) };
    let bytes = place.read(&file.location, file.size).await?;
    let metadata: BaseMetadata = serde_json::from_slice(&bytes)
        .map_err(|error| damaged(place.name(&file.location), format!("it is not valid JSON: {error}")))?;
    Ok(metadata.data_format.as_deref() == Some("compacted"))
}

/// Warns of compactions that have not been followed by the removal of what they cover: they may have failed.
fn warn_of_compactions(place: &Place, root: &Path, all: &[AcidDirectory], state: &AcidState) {
    for Chosen { directory, .. } in &state.chosen {
        let Some(transaction) = directory.name.visibility else { continue };
        let (first, last) = directory.name.write_ids();
        let covers = |other: &&AcidDirectory| {
            let (other_first, other_last) = other.name.write_ids();
            !state.chosen.iter().any(|chosen| chosen.directory == **other) && first <= other_first && other_last <= last
        };
        if let Some(other) = all.iter().find(covers) {
            let (name, other) = (place.name(&root.clone().join(directory.text.as_str())), &other.text);
            log::warn!(
                "{name}: the compaction is taken for committed, although {other}/, which it covers, is still there: \
                 without a metastore, the state of transaction {transaction} is unknown"
            );
        }
    }
}
