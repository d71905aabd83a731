//! The door of a run, as the arguments and the environment describe it, and what the arguments name, compared with it.
//! What the SQL names is compared where it is opened.

use std::env;
use std::path::{Component, Path};

use datafusion_tfrecord::write::WriteTarget;
use tfr_stores::{Door, Location};

use crate::cli::{AllowArgs, QueryArgs, QuerySource, Target, is_remote};
use crate::error::{Error, Result};

/// The variable with more entries, for whoever starts the command for others.
const VARIABLE: &str = "TFR_SQL_ALLOW";

/// Returns the door that the arguments and the environment of this process allow.
pub fn door(args: &AllowArgs) -> Result<Door> {
    let of_environment = match environment()? {
        Some(entries) => Door::to(&entries).map_err(|source| Error::Allow { from: VARIABLE, source })?,
        None => Door::default(),
    };
    Ok(of_environment.and(&door_to(&args.entries)?))
}

/// Returns the door to these entries, or to everything if there are none.
pub fn door_to(entries: &[String]) -> Result<Door> {
    match entries {
        [] => Ok(Door::default()),
        entries => Door::to(entries).map_err(|source| Error::Allow { from: "--allow", source }),
    }
}

/// Returns the entries of the variable, if it is set.
pub fn environment() -> Result<Option<Vec<String>>> {
    let Some(value) = env::var_os(VARIABLE) else { return Ok(None) };
    // Whoever has set the variable wants something to be refused.
    let unusable = |reason: &str| {
        let (location, reason) = (value.to_string_lossy().into_owned(), reason.to_owned());
        Error::Allow { from: VARIABLE, source: tfr_stores::ErrorKind::Location { location, reason }.into() }
    };
    let text = value.to_str().ok_or_else(|| unusable("it is not UTF-8"))?;
    let entries: Vec<_> = text.split(',').map(str::to_owned).collect();
    match entries.iter().any(String::is_empty) {
        true => Err(unusable("it has an empty entry; unset it to allow everything")),
        false => Ok(Some(entries)),
    }
}

/// Checks the files that the arguments of a query name, apart from inputs.
pub fn check_arguments(args: &QueryArgs, door: &Door) -> Result<()> {
    if let QuerySource::File(path) = args.source() {
        door.check_path(&path)?;
    }
    let files = [&args.mapping.map_file, &args.output.plan, &args.output.scratch];
    for path in files.into_iter().flatten() {
        door.check_path(path)?;
    }
    if let Some(scratch) = &args.output.scratch {
        door.check_tree(scratch)?;
    }
    if let Some(rejects) = &args.output.rejects {
        check_target(rejects, door)?;
    }
    match args.output.target() {
        Some(Target::Shards(out)) => check_target(out, door),
        Some(Target::Table(table)) => match &table.store {
            Some(location) => Ok(door.check_location(location)?),
            None => check_output(&table.path, door),
        },
        None => Ok(()),
    }
}

/// Checks the target of a shard set.
pub fn check_target(out: &WriteTarget, door: &Door) -> Result<()> {
    match out {
        WriteTarget::Local(out) => check_output(out, door),
        WriteTarget::Store(location) => Ok(door.check_location(location)?),
    }
}

/// Checks a local directory or file to write. Its parent must be allowed, since the output is prepared there.
pub fn check_output(out: &Path, door: &Door) -> Result<()> {
    if !door.is_limited() {
        return Ok(());
    }
    let resolved = door.check_path(out)?;
    door.check_tree(&resolved)?;
    match resolved.parent() {
        Some(parent) if door.check_path(parent).is_err() => Err(Error::OutputParent { path: out.to_owned() }),
        _ => Ok(()),
    }
}

/// Checks an input of a tool: a path, a pattern or a URL. Whatever a directory has links to must be allowed.
pub fn check_input(path: &Path, door: &Door) -> Result<()> {
    if !door.is_limited() {
        return Ok(());
    }
    match path.to_str().filter(|text| is_remote(text)) {
        Some(url) if path.symlink_metadata().is_err() => Ok(door.check_location(&Location::parse(url)?)?),
        _ => Ok(door.check_tree(path)?),
    }
}

/// Checks a pattern before the directories that it names are listed.
pub fn check_pattern(pattern: &str, door: &Door) -> Result<()> {
    if !door.is_limited() {
        return Ok(());
    }
    // Behind a name that any link may match, it could be the parent of any directory.
    if Path::new(pattern).components().any(|component| component == Component::ParentDir) {
        door.check_path(Path::new("/"))?;
    }
    Ok(door.check_location(&Location::parse(pattern)?)?)
}
