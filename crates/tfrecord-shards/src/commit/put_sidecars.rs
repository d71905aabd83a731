//! [`put_sidecars`]: adds sidecars to a published set.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::commit::settling::Settling;
use crate::commit::staging::{MadeDirectories, create_hidden, lock_set};
use crate::commit::staging_names::{hidden_name, lock_name};
use crate::commit::target::resolve;
use crate::error::{AtPath, ErrorKind, Result};
use crate::set::MANIFEST_NAME;
use crate::set::format_version::FORMAT_VERSION;
use crate::set::manifest::Manifest;
use crate::set::names::RunId;
use crate::set::sidecar::{Sidecar, SidecarEntry};

/// Writes sidecars to `dir`, replacing those of the same names, and lists them in the `manifest`, if the directory has
/// one, together with `indexes`, which exist already. Other sidecars remain listed.
///
/// All are written under hidden names before the first is renamed, the manifest last. Creates the directory if it is
/// missing.
///
/// # Errors
/// If the manifest is not the one that was read ([`ErrorKind::Superseded`]), or a file cannot be written.
pub fn put_sidecars(
    dir: &Path,
    manifest: Option<&Manifest>,
    sidecars: &[Sidecar],
    indexes: Vec<SidecarEntry>,
) -> Result<()> {
    let run = RunId::new();
    let _lock = manifest.and_then(|_| lock_set(dir, Some(&dir.join(lock_name(&run)))));
    let mut all: Vec<(String, Vec<u8>)> =
        sidecars.iter().map(|sidecar| (sidecar.path.clone(), sidecar.content.clone())).collect();
    if let Some(manifest) = manifest {
        if Manifest::read(dir)? != *manifest {
            return Err(ErrorKind::Superseded { path: dir.to_owned() }.into());
        }
        let mut manifest = manifest.clone();
        let new: Vec<_> = sidecars.iter().map(SidecarEntry::from).chain(indexes).collect();
        manifest.sidecars.retain(|old| new.iter().all(|new| new.path != old.path));
        manifest.sidecars.extend(new);
        manifest.format_version = manifest.format_version.max(FORMAT_VERSION);
        manifest.refuse_contradiction(dir)?;
        all.push((MANIFEST_NAME.to_owned(), manifest.to_json()?));
    }
    // Removed again if nothing is written to them.
    let mut made = MadeDirectories::default();
    for missing in resolve(dir)?.1 {
        made.create(&missing)?;
    }
    if !dir.exists() {
        made.create(dir)?;
    }
    let mut hidden = Hidden(Vec::new());
    let mut locked = Vec::new();
    for (name, content) in &all {
        let path = dir.join(hidden_name(name, &run));
        hidden.0.push(path.clone());
        let mut file = create_hidden(&path).at("create", &path)?;
        file.write_all(content).and_then(|()| file.sync_all()).at("write", &path)?;
        locked.push(file);
    }
    let _settling = Settling::begin();
    for (from, (name, _)) in hidden.0.iter().zip(&all) {
        let to = dir.join(name);
        if let Ok(old) = fs::metadata(&to) {
            fs::set_permissions(from, old.permissions()).at("set permissions of", from)?;
        }
        fs::rename(from, &to).at("rename to", &to)?;
    }
    made.keep();
    File::open(dir).and_then(|dir| dir.sync_all()).at("sync", dir)
}

/// Files under hidden names, removed unless they were renamed to their final ones.
struct Hidden(Vec<PathBuf>);

impl Drop for Hidden {
    fn drop(&mut self) {
        for path in &self.0 {
            // Renamed files no longer exist under this path. Other errors cannot be reported here.
            let _unremoved = fs::remove_file(path);
        }
    }
}
