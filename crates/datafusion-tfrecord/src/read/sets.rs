//! [`TableFiles`]: the files of a table, and their manifests.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path as FsPath;
use std::sync::Arc;

use datafusion_common::{DataFusionError, Result};
use datafusion_session::Session;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use tfrecord_shards::{MANIFEST_NAME, Manifest, MissingParts, SUCCESS_NAME};
use tfrecord_sidecars::tfds::split_of_file;

use super::known::KnownFile;
use super::options::ReadOptions;
use super::partitions;
use crate::error::{ErrorKind, refused, shards_error};
use tfr_files::store_of;
use tfr_files::{Findings, FoundFiles, door_of, find_files};
use tfr_files::{Listing, named_compression};
use tfr_stores::{Door, Location};

/// A shard set, some or all of whose files belong to the table.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) directory: Path,
    pub(super) manifest: Manifest,
}

/// The files of a table, and their manifests.
pub(super) struct TableFiles {
    pub(super) listing: Listing,
    /// For each file, its properties from the manifest that lists it.
    pub(super) known: Vec<Option<KnownFile>>,
    /// For each file, the index in `sets` of the set that lists its name. Its size may differ.
    pub(super) listed: Vec<Option<usize>>,
    /// Every set that lists a file of the table.
    pub(super) sets: Vec<Set>,
    /// The columns of the path that the records contain, too, with the same values.
    pub(super) kept: BTreeSet<String>,
    /// Errors of unreadable manifests next to files that were named explicitly.
    unreadable: Vec<DataFusionError>,
}

impl TableFiles {
    /// Rejects files next to an unreadable manifest, since no other source specifies their types. If the columns are
    /// declared, logs a warning instead.
    pub(super) fn check_manifests(&mut self, is_declared: bool) -> Result<()> {
        for source in self.unreadable.drain(..) {
            if !is_declared {
                return Err(ErrorKind::UnreadableManifest { source }.into());
            }
            log::warn!("{source}: in which form the declared columns were written is not known");
        }
        Ok(())
    }
}

/// Finds the files at `locations`.
///
/// If a location is a directory with a manifest, the files are the shards that the manifest lists. All of them and
/// the success marker must exist. If the location names files, itself or by a pattern, exactly these files are read.
/// A manifest next to them is then trusted for the types in a file that it lists, and for everything else if the file
/// has the listed size.
pub(super) async fn find(session: &dyn Session, locations: &[Location], options: &ReadOptions) -> Result<TableFiles> {
    let (store_url, store) = store_of(session, locations)?;
    let door = door_of(session.config());
    let mut sets = Vec::new();
    let mut known = HashMap::new();
    let mut members_of = HashMap::new();
    let mut splits = HashMap::new();
    let mut found = Vec::new();
    let mut unreadable = Vec::new();
    let mut owners = Vec::new();
    for location in locations {
        let mut found_files = find_files(store.as_ref(), &door, location, options.owned).await?;
        found_files.check_names(session)?;
        owners.append(&mut found_files.owners);
        let mut files = found_files.take_files();
        let manifests = manifests(&store, &door, location, &found_files, &files, &mut unreadable).await?;
        let mut whole = Vec::new();
        for set in manifests {
            // Parents come first. The manifest of a set lists all that is below its directory.
            let is_inside = |around: &Path| *around != set.directory && set.directory.prefix_matches(around);
            if whole.iter().any(is_inside) {
                continue;
            }
            let members = Members::of(&set, &files, &found_files.passed);
            if takes_all(location, &set.directory) {
                members.check(&set, location)?;
                whole.push(set.directory.clone());
            }
            for (shard, size) in set.manifest.shards.iter().zip(&members.sizes) {
                let Some(path) = member(&set.directory, &shard.path) else { continue };
                members_of.insert(path.clone(), set.directory.clone());
                splits.extend(shard.split.clone().map(|split| (path.clone(), split)));
                if *size == Some(shard.file_bytes) {
                    known.insert(path, KnownFile::of_shard(shard, set.manifest.container()));
                }
            }
            if !sets.iter().any(|other: &Set| other.directory == set.directory) {
                sets.push(set);
            }
        }
        files.retain(|file| {
            let is_in_whole = whole.iter().any(|directory| file.location.prefix_matches(directory));
            !is_in_whole || known.contains_key(&file.location)
        });
        if files.is_empty() && whole.is_empty() {
            found_files.files()?;
        }
        check_names(session, location, &files, &members_of)?;
        found.push((location, files));
    }
    if let Some(split) = &options.split {
        keep_split(split, &mut found, &splits)?;
    }
    let listing = Listing::of_files(store_url, store, found)?.with_owners(owners);
    let known: Vec<_> = listing.files().iter().map(|file| known.remove(&file.location)).collect();
    let directories: Vec<_> = listing.files().iter().map(|file| members_of.get(&file.location)).collect();
    sets.retain(|set| directories.is_empty() || directories.contains(&Some(&set.directory)));
    let set_in = |directory: &Path| sets.iter().position(|set| set.directory == *directory);
    let listed: Vec<_> = directories.into_iter().map(|directory| directory.and_then(set_in)).collect();
    let mut kept = BTreeSet::new();
    let listing = if listed.iter().all(Option::is_some) {
        let is_whole = |set: &Set| locations.iter().any(|location| takes_all(location, &set.directory));
        let manifests: Vec<_> = sets.iter().map(|set| &set.manifest).collect();
        let (listing, in_records) = partitions::settle(listing, &manifests, sets.iter().all(is_whole))?;
        kept = in_records;
        listing
    } else {
        listing
    };
    Ok(TableFiles { listing, known, listed, sets, kept, unreadable })
}

/// Leaves the files of one split.
fn keep_split(
    split: &str,
    found: &mut [(&Location, Vec<ObjectMeta>)],
    in_manifests: &HashMap<Path, String>,
) -> Result<()> {
    let mut known = BTreeSet::new();
    let mut is_found = false;
    for (_, files) in found {
        files.retain(|file| {
            let listed = in_manifests.get(&file.location).cloned();
            let of_file = listed.or_else(|| file.location.filename().and_then(split_of_file));
            let is_kept = of_file.as_deref() == Some(split);
            is_found |= is_kept;
            known.extend(of_file);
            is_kept
        });
    }
    match is_found {
        true => Ok(()),
        false => {
            let known = if known.is_empty() { "none".to_owned() } else { Vec::from_iter(known).join(", ") };
            Err(refused(format!("no file is of the split {split:?}; the splits are: {known}")).into())
        }
    }
}

/// Reports files that are missing in a directory, as the names of the others record: it may be the beginning of a copy.
/// Files that are named themselves or by a pattern are read as named. Rejects empty files whose name is that of a
/// compressed file.
fn check_names(
    session: &dyn Session,
    location: &Location,
    files: &[ObjectMeta],
    members_of: &HashMap<Path, Path>,
) -> Result<()> {
    let unlisted = files.iter().filter(|file| !members_of.contains_key(&file.location));
    let names = location.file_names();
    let is_cut = |file: &&ObjectMeta| {
        file.size == 0 && file.location.filename().is_some_and(|name| named_compression(name).is_some())
    };
    if let Some(empty) = unlisted.clone().find(is_cut) {
        return Err(ErrorKind::EmptyCompressed { file: names.name(&empty.location) }.into());
    }
    let is_found = |file: &&ObjectMeta| {
        file.location.parent().is_some_and(|directory| takes_all(location, &directory)) && !location.is_pattern()
    };
    let found: Vec<_> = unlisted.filter(is_found).map(|file| names.name(&file.location)).collect();
    let Some(missing) = MissingParts::among(found.iter().map(String::as_str)).into_iter().next() else {
        return Ok(());
    };
    if Findings::of(session.config()).is_some_and(|findings| findings.is_strict()) {
        return Err(ErrorKind::MissingParts { missing }.into());
    }
    log::warn!("{missing}");
    Ok(())
}

/// Returns the directory of the set that a partition directory may be in: the path without the trailing `key=value`
/// parts.
fn around_partitions(directory: &Path) -> Option<Path> {
    let parts: Vec<_> = directory.parts().collect();
    let partitions = parts.iter().rev().take_while(|part| part.as_ref().contains('=')).count();
    let around = parts.get(..parts.len() - partitions)?;
    // Unchanged: escaped characters must not be escaped again.
    let path = around.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join("/");
    (partitions > 0).then(|| Path::parse(path).ok()).flatten()
}

/// Whether a location is a directory with one of our manifests.
///
/// # Errors
/// The store is not registered or fails.
pub async fn is_set(session: &dyn Session, locations: &[Location]) -> Result<bool> {
    let (_, store) = store_of(session, locations)?;
    for location in locations.iter().filter(|location| !location.is_pattern()) {
        let directory = location.prefix().clone();
        if read_manifest(&store, location, directory).await?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads the manifests of the directories that were listed, and of those that contain explicitly named files. The
/// latter manifests may be unreadable.
async fn manifests(
    store: &Arc<dyn ObjectStore>,
    door: &Door,
    location: &Location,
    found_files: &FoundFiles,
    files: &[ObjectMeta],
    unreadable: &mut Vec<DataFusionError>,
) -> Result<Vec<Set>> {
    let mut directories: Vec<Path> = found_files
        .passed
        .keys()
        .filter(|path| path.filename() == Some(MANIFEST_NAME))
        .filter_map(Path::parent)
        .collect();
    let mut others: Vec<_> = around_partitions(location.prefix()).into_iter().collect();
    if location.ends_in_name() {
        let spelled_out = files.iter().filter(|file| location.depth() == Some(file.location.parts_count()));
        let beside: BTreeSet<_> = spelled_out.filter_map(|file| file.location.parent()).collect();
        let is_seen = |directory: &Path| directories.iter().any(|seen| directory.prefix_matches(seen));
        others.extend(beside.into_iter().filter(|directory| !is_seen(directory)));
    }
    // A manifest above the location may be outside.
    others.retain(|directory| door.allows(location, directory));
    directories.extend(others);
    directories.sort();
    directories.dedup();
    let mut manifests = Vec::new();
    for directory in directories {
        let is_whole = takes_all(location, &directory);
        match read_manifest(store, location, directory).await {
            // Files that are named explicitly are read whatever the manifest lists.
            Err(error) if !is_whole => unreadable.push(error),
            manifest => manifests.extend(manifest?),
        }
    }
    Ok(manifests)
}

/// Whether a location includes all files in a directory, instead of naming some of them.
fn takes_all(location: &Location, directory: &Path) -> bool {
    location.depth().is_some_and(|depth| directory.parts_count() >= depth)
}

/// Reads the manifest of a directory, if there is one and it is ours.
async fn read_manifest(store: &Arc<dyn ObjectStore>, location: &Location, directory: Path) -> Result<Option<Set>> {
    let path = directory.clone().join(MANIFEST_NAME);
    // The store would wait for the other end of a pipe.
    location.check_file(&path).map_err(tfr_files::Error::from)?;
    let json = match store.get(&path).await {
        Ok(got) => got.bytes().await?,
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // Other tools have files of that name, too. One with a checksum of ours has lost what is missing in it.
    let is_foreign = serde_json::from_slice::<serde_json::Value>(&json).is_ok_and(|value| {
        let has = |key| value.get(key).is_some();
        !(has("manifest_crc32c") || has("format_version") && has("shards"))
    });
    if is_foreign {
        return Ok(None);
    }
    let name = location.file_names().name(&path);
    let manifest = Manifest::from_json(&json, FsPath::new(&name)).map_err(shards_error)?;
    Ok(Some(Set { directory, manifest }))
}

/// Returns the path of a shard's file.
fn member(directory: &Path, shard: &str) -> Option<Path> {
    let separator = if directory.as_ref().is_empty() { "" } else { "/" };
    Path::parse(format!("{directory}{separator}{shard}")).ok()
}

/// The shards of a set that exist.
struct Members {
    /// The size of each shard's file.
    sizes: Vec<Option<u64>>,
    success: bool,
}

impl Members {
    fn of(set: &Set, files: &[ObjectMeta], passed: &BTreeMap<Path, ObjectMeta>) -> Self {
        let size = |path: &Path| {
            let file = files.binary_search_by(|file| file.location.cmp(path)).ok().map(|index| &files[index]);
            file.or_else(|| passed.get(path)).map(|file| file.size)
        };
        let sizes = set.manifest.shards.iter().map(|shard| size(&member(&set.directory, &shard.path)?)).collect();
        Self { sizes, success: passed.contains_key(&set.directory.clone().join(SUCCESS_NAME)) }
    }

    /// Rejects an incomplete set.
    fn check(&self, set: &Set, location: &Location) -> Result<()> {
        let sizes: HashMap<_, _> =
            set.manifest.shards.iter().map(|shard| shard.path.as_str()).zip(&self.sizes).collect();
        let size_of = |path: &str| sizes.get(path).copied().copied().flatten();
        match set.manifest.disagreement(size_of, self.success) {
            Some(problem) => {
                let directory = location.file_names().name(&set.directory);
                Err(ErrorKind::IncompleteSet { directory, problem }.into())
            }
            None => Ok(()),
        }
    }
}
