//! `rebuild`: writes a shard set again from its manifest, byte for byte.
//!
//! The manifest records the query and the options that decide what is written, as arguments. They are parsed as those of a query.
//! What the arguments leave to the moment comes from the manifest, too: vocabularies, the versions of tables ([`Rebuilt`]). Before
//! the set is published, its shards are compared with those of the manifest.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use arrow_tfrecord::MappingOptions;
use datafusion_tfrecord::write::ExpectedSet;
use serde::Deserialize as _;
use serde_json::{Map, Value};
use tfr_files::{TableFormat, TableVersion};
use tfrecord_shards::{MANIFEST_NAME, Manifest};

use crate::cli::{Cli, RebuildArgs};
use crate::error::{RebuildProblem, Result};
use crate::exit::ExitStatus;
use crate::printer::counted;
use crate::rebuilt::Rebuilt;
use crate::recorded::ARGUMENTS;
use crate::secrets::HIDDEN;
use crate::tool::Work;

/// Writes the set again, and compares it with the manifest.
pub fn run(args: RebuildArgs, work: Work<'_>) -> Result<ExitStatus> {
    let directory = match args.manifest.file_name().is_some_and(|name| name == MANIFEST_NAME) {
        true => args.manifest.parent().map(Path::to_owned).unwrap_or_default(),
        false => args.manifest.clone(),
    };
    let path = directory.join(MANIFEST_NAME);
    work.door.check_path(&path)?;
    let manifest = Manifest::read(&directory)?;
    let arguments = arguments(&manifest)?;
    let rebuilt = Rebuilt {
        expected: ExpectedSet::new(manifest.clone(), directory.display().to_string()),
        mapping: mapping(&manifest)?,
        versions: versions(&manifest),
        files: table(&manifest, "files"),
    };
    let parsed = Cli::parse(arguments.iter().map(OsString::from).collect(), None);
    let mut query = parsed.map_err(|error| RebuildProblem::Arguments { message: error.to_string() })?.query;
    let partitions = query.resources.partitions.ok_or(RebuildProblem::NotRecorded)?;
    if let (Some(rejects), None) = (&manifest.rejects, &args.rejects) {
        return Err(RebuildProblem::Rejects { rows: rejects.rows }.into());
    }
    query.output.max_rejects = manifest.rejects.as_ref().map(|rejects| rejects.rows);
    query.output.rejects = args.rejects;
    query.write_shards_to(args.out);
    query.resources = args.resources.with_partitions(partitions);
    query.stores = args.stores;
    query.rows.report = args.report;
    query.rebuilt = Some(rebuilt);
    let arguments: Vec<_> = arguments.iter().map(OsString::from).collect();
    let status = crate::run::query(&query, &arguments, None, &work.door, work.printer, || Ok(work.interrupt))?;
    if status == ExitStatus::Done {
        let shards = counted(manifest.shards.len() as u64, "shard");
        work.printer.note(format!("{shards} with the checksums that {} records", path.display()));
    }
    Ok(status)
}

/// Returns the arguments of the query, from the program name on.
fn arguments(manifest: &Manifest) -> Result<Vec<String>, RebuildProblem> {
    if !manifest.appended.is_empty() {
        return Err(RebuildProblem::Appended { runs: manifest.appended.len() });
    }
    let recorded = manifest.options.get(ARGUMENTS).and_then(Value::as_array).ok_or(RebuildProblem::NotRecorded)?;
    let recorded = recorded.iter().map(|argument| argument.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
    let recorded = recorded.ok_or(RebuildProblem::NotRecorded)?;
    if let Some(argument) = recorded.iter().find(|argument| argument.contains(HIDDEN)) {
        return Err(RebuildProblem::Secret { argument: argument.clone() });
    }
    let is_pipe = |input: &&String| *input == "-" || input.starts_with("/dev/fd/") || *input == "/dev/stdin";
    if let Some(table) = manifest.inputs.iter().find(is_pipe) {
        return Err(RebuildProblem::Pipe { table: table.clone() });
    }
    let [query, options @ ..] = recorded.as_slice() else { return Err(RebuildProblem::NotRecorded) };
    let mut arguments = vec!["tfr-sql".to_owned(), "--out=rebuilt".to_owned()];
    arguments.extend_from_slice(options);
    // A query may begin with a comment.
    arguments.extend(["--".to_owned(), query.clone()]);
    Ok(arguments)
}

/// Returns the mapping, with its vocabularies.
fn mapping(manifest: &Manifest) -> Result<Option<MappingOptions>, RebuildProblem> {
    let Some(recorded) = manifest.options.get("mapping") else { return Ok(None) };
    MappingOptions::deserialize(recorded).map(Some).map_err(|_| RebuildProblem::NotRecorded)
}

/// Returns the versions of tables.
fn versions(manifest: &Manifest) -> BTreeMap<String, TableVersion> {
    let version = |recorded: &Value| {
        let format = TableFormat::named(recorded.get("format")?.as_str()?)?;
        Some(TableVersion { format, number: recorded.get("version").and_then(Value::as_u64) })
    };
    let recorded = table(manifest, "versions");
    recorded.iter().filter_map(|(name, recorded)| Some((name.clone(), version(recorded)?))).collect()
}

fn table(manifest: &Manifest, key: &str) -> Map<String, Value> {
    manifest.options.get(key).and_then(Value::as_object).cloned().unwrap_or_default()
}
