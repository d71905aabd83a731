//! What is where a set goes, whether it may be replaced, and whether it is whole.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::commit::directory_scan::{Ours, Survey};
use crate::commit::publication::{Leftover, SaveMode, SetState};
use crate::commit::staging;
use crate::commit::staging_names;
use crate::commit::step::Target;
use crate::error::{AtPath, ErrorKind, Result};
use crate::set::manifest::{Disagreement, Manifest, ShardEntry};
use crate::set::names::RunId;
use crate::set::{MANIFEST_NAME, SUCCESS_NAME};

/// How many names a message lists.
pub(crate) const NAMES_SHOWN: usize = 3;

/// The target's path without links, and those of its parent directories that do not exist yet, outermost first.
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

/// What a run would do with its target.
#[derive(Debug, Clone, PartialEq)]
pub enum Preflight {
    /// Write a set, in the place of what is there or where nothing is.
    Write,
    /// Add to this set.
    Append(Box<Manifest>),
    /// Nothing, as [`SaveMode::Ignore`] has it, for something is there.
    Ignore {
        /// Up to three things in the target.
        found: Vec<String>,
    },
}

/// Tells what [`LocalCommit::begin`](crate::LocalCommit::begin) would refuse, without making anything, and what would
/// become of the target.
///
/// # Errors
/// As `begin`, as far as it can be told beforehand. Only that something is there is none in [`SaveMode::Ignore`].
pub fn preflight(out: impl AsRef<Path>, mode: SaveMode, inputs: &[PathBuf]) -> Result<Preflight> {
    let (out, _) = resolve(out.as_ref())?;
    guard(&out, inputs)?;
    match inspect(&out, mode, None) {
        Ok(Target::Standing(manifest)) => Ok(Preflight::Append(manifest)),
        Ok(_) => Ok(Preflight::Write),
        Err(error) => match error.into_kind() {
            ErrorKind::NotEmpty { found, .. } if mode == SaveMode::Ignore => Ok(Preflight::Ignore { found }),
            kind => Err(kind.into()),
        },
    }
}

/// Refuses a target that nothing of ours may be written to, whatever it holds, and gives its path without links: the root
/// of the file system, a home directory, and what overlaps one of `inputs`. What is there already is not looked at.
///
/// # Errors
/// [`ErrorKind::Protected`], [`ErrorKind::Overlap`], and when a path cannot be resolved.
pub(crate) fn guarded(out: impl AsRef<Path>, inputs: &[PathBuf]) -> Result<PathBuf> {
    let (out, _) = resolve(out.as_ref())?;
    guard(&out, inputs)?;
    Ok(out)
}

/// Refuses targets that are not for sets, whatever they hold.
pub(crate) fn guard(out: &Path, inputs: &[PathBuf]) -> Result<()> {
    let protected = |what| Err(ErrorKind::Protected { path: out.to_owned(), what }.into());
    if out.parent().is_none() {
        return protected("the root of the file system");
    }
    let home = env::home_dir().and_then(|home| fs::canonicalize(home).ok());
    if home.is_some_and(|home| home.starts_with(out)) {
        return protected("a home directory, or one that holds it,");
    }
    // The homes of other users, on Linux and on macOS.
    if [Path::new("/home"), Path::new("/Users")].iter().any(|homes| out.parent() == Some(homes)) {
        return protected("a home directory");
    }
    for input in inputs {
        // An input that is not there will be missed by whoever opens it.
        let resolved = fs::canonicalize(input).or_else(|_| std::path::absolute(input)).at("resolve", input)?;
        if out.starts_with(&resolved) || resolved.starts_with(out) {
            return Err(ErrorKind::Overlap { path: out.to_owned(), input: input.clone() }.into());
        }
    }
    Ok(())
}

/// Whether a directory can be put in the place of `out`. It cannot where another file system begins, and must not where
/// somebody works: their shell would find itself in a directory that is no longer there.
pub(crate) fn can_be_renamed(out: &Path) -> bool {
    let is_occupied = env::current_dir().is_ok_and(|current| current.starts_with(out));
    !is_occupied && !is_mount_point(out)
}

#[cfg(target_os = "linux")]
fn is_mount_point(dir: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    // Device numbers would not tell bind mounts. Since Linux 5.8; before, the rename fails and says so.
    statx(CWD, dir, AtFlags::empty(), StatxFlags::empty())
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(not(target_os = "linux"))]
fn is_mount_point(dir: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).ok();
    dir.parent().is_some_and(|parent| dir.exists() && device(dir) != device(parent))
}

/// Some names in a directory, for a message.
pub(crate) fn some_names(dir: &Path) -> Result<Vec<String>> {
    let mut names = Survey::of(dir, &Ours::default())?.foreign;
    names.truncate(NAMES_SHOWN);
    Ok(names)
}

/// What the target holds, if it may be replaced or added to. The staging directory of `run` itself does not count.
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
        SaveMode::Append => match appendable(out, &others)? {
            Target::Vacant => refuse_moved_aside(out, mode).map(|()| Target::Vacant),
            target => Ok(target),
        },
    }
}

/// What [`SaveMode::Overwrite`] replaces.
fn replaceable(out: &Path, others: &[Leftover]) -> Result<Target> {
    let manifest = Manifest::read_if_any(out)?;
    let mut ours = Ours { listed: BTreeSet::new(), has_manifest: manifest.is_some(), runs: Vec::new() };
    ours.listed.extend(manifest.iter().flat_map(Manifest::file_names));
    for Leftover { path, .. } in others {
        // A run that was killed while it wrote its manifest has published nothing yet.
        for manifest in
            [Manifest::read(path), Manifest::read(path.join(staging_names::REPLACED_NAME))].into_iter().flatten()
        {
            ours.has_manifest = true;
            ours.listed.extend(manifest.file_names());
        }
    }
    ours.runs.extend(staging::dead(out)?.into_iter().map(|leftover| leftover.run));
    let Survey { ours: files, mut foreign, directories } = Survey::of(out, &ours)?;
    foreign.truncate(NAMES_SHOWN);
    if !foreign.is_empty() {
        return Err(ErrorKind::ForeignFiles { path: out.to_owned(), files: foreign }.into());
    }
    if files.is_empty() && directories.is_empty() && others.is_empty() {
        return Ok(Target::Vacant);
    }
    Ok(Target::Occupied { manifest: manifest.map(Box::new), files, directories })
}

/// What [`SaveMode::Append`] adds to.
fn appendable(out: &Path, others: &[Leftover]) -> Result<Target> {
    let not = |why| Err(ErrorKind::NotAppendable { path: out.to_owned(), why }.into());
    let Some(manifest) = Manifest::read_if_any(out)? else {
        if let Some(Leftover { run, .. }) = others.first() {
            return not(format!("run {run}, which was killed, has not published its shards"));
        }
        let found = some_names(out)?;
        if !found.is_empty() {
            return not(format!("there is no {MANIFEST_NAME} beside {}", found.join(", ")));
        }
        return Ok(Target::Vacant);
    };
    match missing(out, &manifest)? {
        Some(disagreement) => not(format!("the set is not whole: {disagreement}")),
        None => Ok(Target::Standing(Box::new(manifest))),
    }
}

/// Refuses to take a target for vacant whose set a run has moved aside to replace it: one that is still at it, or, in
/// [`SaveMode::Append`], one that was killed.
fn refuse_moved_aside(out: &Path, mode: SaveMode) -> Result<()> {
    let mut moved = staging::all(out)?.into_iter().filter(staging::keeps_replaced);
    match moved.find(|leftover| leftover.live || mode == SaveMode::Append) {
        Some(Leftover { run, live: true, .. }) => Err(ErrorKind::Busy { path: out.to_owned(), run }.into()),
        Some(Leftover { path, run, .. }) => {
            let why =
                format!("run {run}, which was killed while it replaced the set, has left that in {}", path.display());
            Err(ErrorKind::NotAppendable { path: out.to_owned(), why }.into())
        }
        None => Ok(()),
    }
}

/// What is missing for the set in `dir` to be whole.
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

/// Tells whether a directory is a whole set: a `_SUCCESS`, a manifest, and every file that it lists, as long as it says.
///
/// What the files hold is not looked at.
///
/// # Errors
/// When the directory or the manifest cannot be read.
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
