//! `describe`: writes the sidecars of a directory, whatever tool wrote the records.

use std::fs;
use std::path::{Path, PathBuf};

use datafusion_tfrecord::write::{Emit, SidecarKind};
use tfrecord_framing::{Container, RecordFormat};
use tfrecord_shards::{IndexName, Manifest, Sidecar, SidecarEntry, index, put_sidecars};
use tfrecord_sidecars::describe::{DescribeOptions, Description, describe};
use tfrecord_sidecars::stats::Detail;
use tfrecord_sidecars::{EmittedSet, ErrorKind};

use crate::access;
use crate::cli::{DescribeArgs, is_remote};
use crate::error::{Error, Result};
use crate::exit::ExitStatus;
use crate::printer::counted;
use crate::tool::Work;

/// Reads the records and writes their sidecars.
pub fn run(args: &DescribeArgs, mut work: Work<'_>) -> Result<ExitStatus> {
    let dir = local(&args.dir)?;
    access::check_input(dir, &work.door)?;
    if let Some(out) = &args.out {
        access::check_output(out, &work.door)?;
    }
    if !dir.is_dir() {
        let source = fs::read_dir(dir).err().unwrap_or_else(|| std::io::ErrorKind::NotADirectory.into());
        return Err(Error::Read { path: dir.to_owned(), source });
    }
    let target = args.out.as_deref().unwrap_or(dir);
    let emit = args.emit().unwrap_or_else(|| {
        [SidecarKind::Tfds, SidecarKind::Tfmd, SidecarKind::ParseFn, SidecarKind::Stats].into_iter().collect()
    });
    let detail = emit.detail().unwrap_or(Detail::Presence);
    let described = dir.to_owned();
    let read =
        work.until_signal(move || Ok(describe(&described, &DescribeOptions { detail, ..Default::default() })?))?;
    let description = match read {
        Ok(description) => description,
        Err(status) => return Ok(status),
    };
    description.missing_parts.iter().for_each(|missing| work.printer.warning(missing));
    let sidecars = sidecars(&description, dir, &emit, args.emit().is_some(), &work)?;
    let manifest = if target == dir { Manifest::find(dir)? } else { None };
    let sidecars = writable(sidecars, target, manifest.as_ref(), args, &work)?;
    let mut indexes = Vec::new();
    if emit.has(SidecarKind::Index) {
        let files = vec![dir.to_owned()];
        let written = work.with_progress(None, move |progress, _| index(&files, IndexName::Idx, progress))?;
        let written = match written {
            Ok(written) => written.indexes,
            Err(status) => return Ok(status),
        };
        for index in written {
            let path = index.path.strip_prefix(dir).unwrap_or(&index.path).to_string_lossy().into_owned();
            indexes.push(SidecarEntry::of_file(dir, path)?);
        }
    }
    let names: Vec<PathBuf> = sidecars
        .iter()
        .map(|sidecar| &sidecar.path)
        .chain(indexes.iter().map(|index| &index.path))
        .map(|name| target.join(name))
        .collect();
    put_sidecars(target, manifest.as_ref(), &sidecars, indexes)?;
    let names: String = names.iter().map(|name| format!("{}\n", name.display())).collect();
    work.printer.data(names.as_bytes()).map_err(Error::Stdout)?;
    let (records, files) =
        (counted(description.statistics.rows(), "record"), counted(description.files.len() as u64, "file"));
    work.printer.note(format!("{records} in {files}, {:.1} s", work.started.elapsed().as_secs_f64()));
    Ok(ExitStatus::Done)
}

/// Returns `path` if it is not a URL.
pub fn local(path: &Path) -> Result<&Path> {
    match path.to_str().filter(|text| is_remote(text)) {
        Some(url) => Err(Error::RemoteInput { url: url.into() }),
        None => Ok(path),
    }
}

/// Returns the sidecars to write. Those that are not possible for these records are left out unless `asked` for by
/// name.
fn sidecars(description: &Description, dir: &Path, emit: &Emit, asked: bool, work: &Work<'_>) -> Result<Vec<Sidecar>> {
    let needs_frames =
        |kind: &SidecarKind| kind.needs_frames() && description.container == Some(Container::ArrayRecord);
    if let Some(kind) = emit.kinds().find(needs_frames) {
        let (kind, format) = (kind.to_string(), RecordFormat::ArrayRecord);
        let error = tfrecord_sidecars::Error::from(ErrorKind::OtherFormat { kind, format });
        if asked {
            return Err(error.into());
        }
        work.printer.note(format!("left out: {error}"));
    }
    let emit: &Emit = &emit.kinds().filter(|kind| !needs_frames(kind)).collect();
    let set = EmittedSet {
        location: dir.display().to_string(),
        mapping: &description.mapping,
        statistics: Some(&description.statistics),
        files: description.files.clone(),
        container: description.container,
    };
    match emit.files(&set) {
        Err(error) if !asked && matches!(error.kind(), ErrorKind::Tfds { .. } | ErrorKind::RecordType { .. }) => {
            work.printer.note(format!("left out tfds: {error}"));
            let rest: Emit = emit.kinds().filter(|kind| *kind != SidecarKind::Tfds).collect();
            match rest.files(&set) {
                Err(error) if matches!(error.kind(), ErrorKind::RecordType { .. }) => {
                    work.printer.note(format!("left out tfmd: {error}"));
                    let rest: Emit = rest.kinds().filter(|kind| *kind != SidecarKind::Tfmd).collect();
                    Ok(rest.files(&set)?)
                }
                files => Ok(files?),
            }
        }
        files => Ok(files?),
    }
}

/// Rejects sidecars that would replace files written by other tools, unless the user allows that.
fn writable(
    sidecars: Vec<Sidecar>,
    target: &Path,
    manifest: Option<&Manifest>,
    args: &DescribeArgs,
    work: &Work<'_>,
) -> Result<Vec<Sidecar>> {
    let mut left = Vec::new();
    let lists = |path: &str| manifest.is_some_and(|manifest| manifest.sidecars.iter().any(|ours| ours.path == path));
    for mut sidecar in sidecars {
        // Earlier releases wrote these names without `_`. A set has each file once, where it is.
        if let Some(earlier) = sidecar.path.strip_prefix('_').filter(|earlier| lists(earlier)) {
            sidecar.path = earlier.to_owned();
        }
        let path = target.join(&sidecar.path);
        let is_ours = lists(&sidecar.path);
        let exists = path.symlink_metadata().is_ok();
        let is_same = || fs::read(&path).is_ok_and(|found| found == sidecar.content);
        if args.replace || is_ours || !exists || is_same() {
            left.push(sidecar);
        } else if args.emit().is_some() {
            return Err(Error::SidecarThere { path });
        } else {
            work.printer.note(format!("left as it is: {} (--replace writes another in its place)", path.display()));
        }
    }
    Ok(left)
}
