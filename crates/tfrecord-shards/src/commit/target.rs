//! Inspects the target directory: its contents, whether it may be replaced, and whether it holds a complete shard set.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::commit::directory_scan::{DirectoryScan, Ours};
use crate::commit::publication::{Leftover, SetState};
use crate::commit::save_mode::SaveMode;
use crate::commit::staging;
use crate::commit::step::Target;
use crate::error::{AtPath, ErrorKind, Result};
use crate::set::file_names;
use crate::set::manifest::{Disagreement, Manifest, ShardEntry};
use crate::set::names::RunId;
use crate::set::{MANIFEST_NAME, SUCCESS_NAME};

/// Maximum number of names listed in a message.
pub(crate) const NAMES_SHOWN: usize = 3;

/// Returns the target's path with links resolved, and its missing parent directories, outermost first.
///
/// A link to a directory is followed: renaming onto it would replace the link.
pub(crate) fn resolve(out: &Path) -> Result<(PathBuf, Vec<PathBuf>)> {
    let absolute = std::path::absolute(out).at("resolve", out)?;
    let existing = absolute.ancestors().find(|path| path.symlink_metadata().is_ok()).unwrap_or(&absolute);
    let mut resolved = fs::canonicalize(existing).at("resolve", existing)?;
    let missing: Vec<_> = absolute.strip_prefix(existing).unwrap_or(Path::new("")).components().collect();
    let mut missing_parents = Vec::new();
    for (index, component) in missing.iter().enumerate() {
        let Component::Normal(name) = component else {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "a directory that does not exist has no parent");
            return Err(source).at("resolve", out);
        };
        resolved.push(name);
        if index + 1 < missing.len() {
            missing_parents.push(resolved.clone());
        }
    }
    Ok((resolved, missing_parents))
}

/// The action of a run on its target.
#[derive(Debug, Clone, PartialEq)]
pub enum Preflight {
    /// Write a set, replacing an existing one if any.
    Write,
    /// Append to this set, or replace partitions of it.
    Append(Box<Manifest>),
    /// Do nothing, because the target is not empty and the mode is [`SaveMode::Ignore`].
    Ignore {
        /// Up to three entries of the target.
        found: Vec<String>,
    },
}

/// Returns what [`LocalCommit::begin`](crate::LocalCommit::begin) would do with the target, without creating anything.
///
/// # Errors
/// As `begin`, as far as errors can be detected in advance. In [`SaveMode::Ignore`] a non-empty target is not an error.
pub fn preflight(out: impl AsRef<Path>, mode: SaveMode, inputs: &[PathBuf]) -> Result<Preflight> {
    let (out, _) = resolve(out.as_ref())?;
    guard(&out, inputs)?;
    refuse_inside_set(&out)?;
    match inspect(&out, mode, None) {
        Ok(Target::Set(manifest)) => Ok(Preflight::Append(manifest)),
        Ok(_) => Ok(Preflight::Write),
        Err(error) => match error.into_kind() {
            ErrorKind::NotEmpty { found, .. } if mode == SaveMode::Ignore => Ok(Preflight::Ignore { found }),
            kind => Err(kind.into()),
        },
    }
}

/// Rejects targets that must never be written to, whatever they contain: the root of the file system, a home directory,
/// and a target that overlaps one of `inputs`. Returns the target's path with links resolved. Does not inspect its
/// contents.
///
/// # Errors
/// [`ErrorKind::Protected`], [`ErrorKind::Overlap`], or if a path cannot be resolved.
pub(crate) fn guarded(out: impl AsRef<Path>, inputs: &[PathBuf]) -> Result<PathBuf> {
    let (out, _) = resolve(out.as_ref())?;
    guard(&out, inputs)?;
    Ok(out)
}

/// Rejects targets that must not hold sets, whatever they contain.
pub(crate) fn guard(out: &Path, inputs: &[PathBuf]) -> Result<()> {
    let protected = |what| Err(ErrorKind::Protected { path: out.to_owned(), what }.into());
    if out.parent().is_none() {
        return protected("the root of the file system");
    }
    let home = env::home_dir().and_then(|home| fs::canonicalize(home).ok());
    if home.is_some_and(|home| home.starts_with(out)) {
        return protected("a home directory, or a directory that contains it,");
    }
    // Home directories of other users, on Linux and macOS.
    if [Path::new("/home"), Path::new("/Users")].iter().any(|homes| out.parent() == Some(homes)) {
        return protected("a home directory");
    }
    for input in inputs {
        // A missing input is reported when it is opened.
        let resolved = fs::canonicalize(input).or_else(|_| std::path::absolute(input)).at("resolve", input)?;
        if out.starts_with(&resolved) || resolved.starts_with(out) {
            return Err(ErrorKind::Overlap { path: out.to_owned(), input: input.clone() }.into());
        }
    }
    Ok(())
}

/// Rejects a target below a directory that holds a shard set. A reader of that set must not find another one in it.
pub(crate) fn refuse_inside_set(out: &Path) -> Result<()> {
    // Other tools have files of that name, too.
    let holds_set = |dir: &&Path| dir.join(MANIFEST_NAME).is_file() && Manifest::read_changed(dir).is_ok();
    match out.ancestors().skip(1).find(holds_set) {
        Some(set) => Err(ErrorKind::InsideSet { path: out.to_owned(), set: set.to_owned() }.into()),
        None => Ok(()),
    }
}

/// Whether another directory can be renamed onto `out`. That is impossible for a mount point. It is not done to a
/// current directory, because a shell in it would be left in a deleted directory.
pub(crate) fn can_be_renamed(out: &Path) -> bool {
    let is_occupied = env::current_dir().is_ok_and(|current| current.starts_with(out));
    !is_occupied && !is_mount_point(out)
}

#[cfg(target_os = "linux")]
fn is_mount_point(dir: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    // Device numbers do not reveal bind mounts. Since Linux 5.8; before, the rename fails and is reported.
    statx(CWD, dir, AtFlags::empty(), StatxFlags::empty())
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(not(target_os = "linux"))]
fn is_mount_point(dir: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).ok();
    dir.parent().is_some_and(|parent| dir.exists() && device(dir) != device(parent))
}

/// Returns some names in a directory, for a message.
pub(crate) fn some_names(dir: &Path) -> Result<Vec<String>> {
    Ok(shown(dir, DirectoryScan::of(dir, &Ours::default())?.foreign))
}

/// Returns up to [`NAMES_SHOWN`] entries of a directory for a message. Files of records come before hidden files, and the
/// files of a directory stand for it.
fn shown(dir: &Path, mut entries: Vec<String>) -> Vec<String> {
    entries.sort_by_cached_key(|entry| (is_hidden(entry), entry.clone()));
    let mut names = Vec::new();
    for entry in entries {
        if names.len() >= NAMES_SHOWN {
            break;
        }
        let inside = match entry.ends_with('/') && !is_hidden(&entry) {
            // A directory that cannot be listed is named itself.
            true => DirectoryScan::of(&dir.join(&entry), &Ours::default()).unwrap_or_default().foreign,
            false => Vec::new(),
        };
        match inside.is_empty() {
            true => names.push(entry),
            false => names.extend(shown(&dir.join(&entry), inside).into_iter().map(|name| format!("{entry}{name}"))),
        }
    }
    names.truncate(NAMES_SHOWN);
    names
}

/// Whether readers of a directory skip this path in it: a name in it starts with `.` or `_`, as `._SUCCESS.crc` does.
/// `_id=7/` is a partition.
pub(crate) fn is_hidden(path: &str) -> bool {
    path.split('/').any(|name| file_names::is_hidden(name, true))
}

/// Returns the target's contents if they may be replaced or appended to. Ignores the staging directory of `run`.
pub(crate) fn inspect(out: &Path, mode: SaveMode, run: Option<&RunId>) -> Result<Target> {
    match fs::metadata(out) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return Err(ErrorKind::NotADirectory { path: out.to_owned() }.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            refuse_moved_aside(out, mode)?;
            return Ok(Target::Vacant);
        }
        Err(error) => return Err(error).at("inspect", out),
    }
    let mut others = staging::inside(out)?;
    others.retain(|leftover| run.is_none_or(|run| leftover.run != run.as_str()));
    if let Some(Leftover { run, .. }) = others.iter().find(|leftover| leftover.live) {
        return Err(ErrorKind::Busy { path: out.to_owned(), run: run.clone() }.into());
    }
    match mode {
        SaveMode::Error | SaveMode::Ignore => match some_names(out)? {
            found if found.is_empty() => Ok(Target::Vacant),
            found => Err(ErrorKind::NotEmpty { path: out.to_owned(), found }.into()),
        },
        SaveMode::Overwrite => replaceable(out, &others),
        SaveMode::Append | SaveMode::OverwritePartitions => match appendable(out, &others)? {
            Target::Vacant => refuse_moved_aside(out, mode).map(|()| Target::Vacant),
            target => Ok(target),
        },
    }
}

/// Returns what [`SaveMode::Overwrite`] replaces.
fn replaceable(out: &Path, others: &[Leftover]) -> Result<Target> {
    let manifest = Manifest::find(out)?;
    let mut ours = Ours { listed: BTreeSet::new(), has_manifest: manifest.is_some(), runs: Vec::new() };
    ours.listed.extend(manifest.iter().flat_map(Manifest::own_names));
    for Leftover { path, .. } in others {
        for manifest in staging::manifests(path) {
            ours.has_manifest = true;
            ours.listed.extend(manifest.own_names());
        }
    }
    ours.runs.extend(staging::dead(out)?.into_iter().map(|leftover| leftover.run));
    let DirectoryScan { ours: files, foreign, directories } = DirectoryScan::of(out, &ours)?;
    if !foreign.is_empty() {
        return Err(ErrorKind::ForeignFiles { path: out.to_owned(), files: shown(out, foreign) }.into());
    }
    if files.is_empty() && directories.is_empty() && others.is_empty() {
        return Ok(Target::Vacant);
    }
    Ok(Target::Occupied { manifest: manifest.map(Box::new), files, directories })
}

/// Returns the set that shards are added to.
fn appendable(out: &Path, others: &[Leftover]) -> Result<Target> {
    let not = |why| Err(ErrorKind::NotAppendable { path: out.to_owned(), why }.into());
    let Some(manifest) = Manifest::find(out)? else {
        if let Some(Leftover { run, .. }) = others.first() {
            return not(format!("run {run}, which was killed, has not published its shards"));
        }
        let found = some_names(out)?;
        if !found.is_empty() {
            return Err(ErrorKind::ForeignFiles { path: out.to_owned(), files: found }.into());
        }
        return Ok(Target::Vacant);
    };
    match missing(out, &manifest)? {
        Some(disagreement) => not(format!("the set is not complete: {disagreement}")),
        None => Ok(Target::Set(Box::new(manifest))),
    }
}

/// Rejects an empty target whose set a run has moved aside to replace it, if that run is live or, in
/// a mode that [keeps the set](SaveMode::keeps_set), was killed.
fn refuse_moved_aside(out: &Path, mode: SaveMode) -> Result<()> {
    let mut moved = staging::all(out)?.into_iter().filter(staging::keeps_replaced);
    match moved.find(|leftover| leftover.live || mode.keeps_set()) {
        Some(Leftover { run, live: true, .. }) => Err(ErrorKind::Busy { path: out.to_owned(), run }.into()),
        Some(Leftover { path, run, .. }) => {
            let why =
                format!("run {run}, which was killed while it replaced the set, has left that in {}", path.display());
            Err(ErrorKind::NotAppendable { path: out.to_owned(), why }.into())
        }
        None => Ok(()),
    }
}

/// Returns what is missing for a complete set in `dir`.
fn missing(dir: &Path, manifest: &Manifest) -> Result<Option<Disagreement>> {
    let mut sizes = BTreeMap::new();
    for ShardEntry { path, .. } in &manifest.shards {
        match fs::metadata(dir.join(path)) {
            Ok(metadata) => drop(sizes.insert(path.as_str(), metadata.len())),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(error) => return Err(error).at("inspect", &dir.join(path)),
        }
    }
    let success = dir.join(SUCCESS_NAME).is_file();
    Ok(manifest.disagreement(|path| sizes.get(path).copied(), success))
}

/// Checks whether a directory is a complete set: it contains a `_SUCCESS`, a manifest, and every listed file with the
/// listed length.
///
/// File contents are not read.
///
/// # Errors
/// If the directory or the manifest cannot be read.
pub fn check(dir: impl AsRef<Path>) -> Result<SetState> {
    let dir = dir.as_ref();
    match fs::metadata(dir) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return Ok(SetState::Foreign),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(SetState::Absent),
        Err(error) => return Err(error).at("inspect", dir),
    }
    let incomplete = |why: String| Ok(SetState::Incomplete { why });
    let manifest = match Manifest::read(dir) {
        Ok(manifest) => manifest,
        Err(error) if matches!(error.kind(), ErrorKind::NoManifest { .. }) => {
            return match staging::inside(dir)?.first() {
                Some(Leftover { run, .. }) => incomplete(format!("run {run} has not published its shards")),
                None if fs::read_dir(dir).at("list", dir)?.next().is_none() => Ok(SetState::Absent),
                None => Ok(SetState::Foreign),
            };
        }
        Err(error) => return Err(error),
    };
    if let Some(disagreement) = missing(dir, &manifest)? {
        return incomplete(disagreement.to_string());
    }
    Ok(SetState::Whole(Box::new(manifest)))
}
