//! `rebuild`: writes a shard set again from its manifest, byte for byte.
//!
//! The manifest records the query and the options that decide what is written, as arguments. No others are accepted from it, because
//! somebody may have edited it. They are parsed as those of a query. What depends on the time of the run comes from the manifest, too:
//! vocabularies and the versions of tables ([`Rebuilt`]). Before the set is published, its shards are compared with those of the
//! manifest.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use datafusion_tfrecord::write::ExpectedSet;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tfr_files::{TableFormat, TableVersion};
use tfr_stores::Door;
use tfrecord_shards::{ErrorKind, MANIFEST_NAME, Manifest};

use crate::cli::{Cli, RebuildArgs, is_remote, other_option};
use crate::error::{Error, ErrorClass, Explanation, RebuildProblem, Result};
use crate::exit::ExitStatus;
use crate::printer::counted;
use crate::rebuilt::Rebuilt;
use crate::recorded::ARGUMENTS;
use crate::secrets::HIDDEN;
use crate::tool::Work;

/// Writes the set again, and compares it with the manifest.
pub fn run(args: RebuildArgs, work: Work<'_>) -> Result<ExitStatus> {
    let (path, manifest) = read(&args.manifest, &work.door)?;
    let arguments = arguments(&manifest)?;
    let location = path.parent().unwrap_or(&path).display().to_string();
    let expected = ExpectedSet::new(manifest.clone(), location);
    let rebuilt = Rebuilt {
        expected: expected.clone(),
        mapping: option(&manifest, "mapping")?,
        versions: versions(&manifest)?,
        files: option(&manifest, "files")?.unwrap_or_default(),
    };
    let parsed = Cli::parse(arguments.iter().map(OsString::from).collect(), None);
    let refused = |error| unusable(format!("this release does not accept the recorded arguments: {error}"));
    let mut query = parsed.map_err(refused)?.query;
    let partitions = query.resources.partitions.ok_or_else(not_recorded)?;
    if let (Some(rejects), None) = (&manifest.rejects, &args.rejects) {
        return Err(RebuildProblem::Rejects { rows: rejects.rows }.into());
    }
    query.output.max_rejects = manifest.rejects.as_ref().map(|rejects| rejects.rows);
    query.output.rejects = args.rejects;
    query.write_shards_to(args.out);
    query.resources = args.resources.with_partitions(partitions);
    query.stores = args.stores;
    query.hive = args.hive;
    query.rows.report = args.report;
    query.rebuilt = Some(rebuilt);
    let arguments: Vec<_> = arguments.iter().map(OsString::from).collect();
    let status = crate::run::query(&query, &arguments, None, &work.door, work.printer, || Ok(work.interrupt));
    let status = status.map_err(explained)?;
    if status == ExitStatus::Done && expected.is_equal() {
        let shards = counted(manifest.shards.len() as u64, "shard");
        work.printer.note(format!("{shards} with the checksums that {} records", path.display()));
    }
    Ok(status)
}

/// Reads the manifest in a directory, or a file that is one. Returns its path, too.
fn read(named: &Path, door: &Door) -> Result<(PathBuf, Manifest)> {
    if let Some(url) = named.to_str().filter(|text| is_remote(text)) {
        return Err(RebuildProblem::Remote { url: url.to_owned() }.into());
    }
    door.check_path(named)?;
    // Without slashes at the end, which some sidecars would contain.
    let named: PathBuf = named.components().collect();
    if named.is_file() {
        let json = fs::read(&named).map_err(|source| Error::Read { path: named.clone(), source })?;
        let manifest = Manifest::from_json(&json, &named)?;
        return Ok((named, manifest));
    }
    let path = named.join(MANIFEST_NAME);
    door.check_path(&path)?;
    let manifest = Manifest::read(&named)?;
    Ok((path, manifest))
}

/// Adds to an error of the query what is otherwise for a rebuild.
fn explained(error: Error) -> Error {
    let explanation = Explanation::of(&error);
    let mut chain = std::iter::successors(Some(&error as &(dyn StdError + 'static)), |&error| error.source());
    let shards = chain.find_map(|error| error.downcast_ref::<tfrecord_shards::Error>());
    let is_occupied = shards.is_some_and(|error| matches!(error.kind(), ErrorKind::NotEmpty { .. }));
    let details = &explanation.details;
    let is_relative = |file: &String| !is_remote(file) && Path::new(file).is_relative();
    let hint = if is_occupied {
        "choose another directory".to_owned()
    } else if details.class == ErrorClass::Missing && details.file.as_ref().is_some_and(is_relative) {
        let usual = explanation.hint.map(|hint| format!("{hint}; ")).unwrap_or_default();
        format!("{usual}relative paths of inputs start at the current directory")
    } else {
        return error;
    };
    RebuildProblem::Query { source: Box::new(error), hint }.into()
}

/// Returns the arguments of the query, from the program name on.
fn arguments(manifest: &Manifest) -> Result<Vec<String>, RebuildProblem> {
    if !manifest.appended.is_empty() {
        let runs = counted(manifest.appended.len() as u64, "more run");
        return Err(unusable(format!("{runs} added shards to the set; only a set of one run is written again")));
    }
    if manifest.options.get(ARGUMENTS).is_some_and(Value::is_null) {
        let problem = "the manifest does not record the arguments of the command, which were not text in UTF-8";
        return Err(unusable(problem));
    }
    let recorded: Vec<String> = option(manifest, ARGUMENTS)?.ok_or_else(not_recorded)?;
    let [query, options @ ..] = recorded.as_slice() else { return Err(not_recorded()) };
    if let Some(argument) = other_option(options) {
        let problem = format!("the manifest records {argument:?}, which is no option that decides what is written");
        return Err(unusable(problem));
    }
    if let Some(argument) = recorded.iter().find(|argument| argument.contains(HIDDEN)) {
        return Err(unusable(format!("the manifest records {argument:?} without its secret")));
    }
    let is_pipe = |input: &&String| *input == "-" || input.starts_with("/dev/fd/") || *input == "/dev/stdin";
    if let Some(table) = manifest.inputs.iter().find(is_pipe) {
        return Err(RebuildProblem::Pipe { table: table.clone() });
    }
    let mut arguments = vec!["tfr-sql".to_owned(), "--out=rebuilt".to_owned()];
    arguments.extend_from_slice(options);
    // A query may begin with a comment.
    arguments.extend(["--".to_owned(), query.clone()]);
    Ok(arguments)
}

fn unusable(problem: impl Into<String>) -> RebuildProblem {
    RebuildProblem::Arguments(problem.into())
}

fn not_recorded() -> RebuildProblem {
    unusable("the manifest does not record the arguments of the command: an older release or another program wrote it")
}

/// Returns the versions of tables.
fn versions(manifest: &Manifest) -> Result<BTreeMap<String, TableVersion>, RebuildProblem> {
    #[derive(Deserialize)]
    struct Recorded {
        format: String,
        version: Option<u64>,
        schema: Option<i32>,
    }
    let recorded: BTreeMap<String, Recorded> = option(manifest, "versions")?.unwrap_or_default();
    let version = |(table, recorded): (String, Recorded)| match TableFormat::named(&recorded.format) {
        Some(format @ (TableFormat::Delta | TableFormat::Iceberg)) => {
            Ok((table, TableVersion { format, number: recorded.version, schema: recorded.schema }))
        }
        _ => Err(RebuildProblem::Format { table, format: recorded.format }),
    };
    recorded.into_iter().map(version).collect()
}

/// Returns an option that the manifest records.
fn option<T: DeserializeOwned>(manifest: &Manifest, key: &'static str) -> Result<Option<T>, RebuildProblem> {
    let recorded = manifest.options.get(key).map(T::deserialize).transpose();
    recorded.map_err(|source| RebuildProblem::Form { key, source })
}
