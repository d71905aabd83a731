//! [`PlanFile`]: what a task must know. Once its set is published, a note takes its place.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use datafusion_tfrecord::write::{SharedWrite, StoredOptions};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tempfile::NamedTempFile;

use super::stored_query::StoredQuery;
use crate::error::{Result, TaskError};
use crate::version::{COMMIT, RELEASE, build};

/// Version of the file's format.
const FORMAT: u32 = 4;

/// A plan for tasks, as JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    format: u32,
    /// The release of tfr-sql. Another one may plan the query differently.
    release: String,
    /// The commit that tfr-sql was built from, if it is known. Another one may plan the query differently, too.
    commit: Option<String>,
    /// The rows to write.
    pub query: StoredQuery,
    /// How to write them.
    pub options: StoredOptions,
    /// Where.
    pub staging: SharedWrite,
}

/// What a file of this format contains.
#[derive(Debug)]
pub enum Content {
    /// A plan.
    Plan(Box<PlanFile>),
    /// The note of a published plan.
    Published(Published),
}

/// What is left of a plan whose set is published.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The run that wrote the set.
    pub run: String,
    /// The target, as the user wrote it.
    pub out: String,
    /// When the set was written.
    pub time: String,
    /// The report of the set.
    pub report: Value,
}

/// A note as JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    format: u32,
    release: String,
    published: Published,
}

impl PlanFile {
    /// Describes tasks.
    pub fn new(query: StoredQuery, options: StoredOptions, staging: SharedWrite) -> Self {
        let (release, commit) = (RELEASE.to_owned(), COMMIT.map(str::to_owned));
        Self { format: FORMAT, release, commit, query, options, staging }
    }

    /// Returns the plan as JSON.
    ///
    /// # Errors
    /// None that can occur.
    pub fn to_json(&self) -> io::Result<Vec<u8>> {
        serde_json::to_vec_pretty(self).map_err(io::Error::other)
    }
}

/// Returns the absolute path of a plan file. A command changes to the directory of its plan, where a relative path would
/// name another file.
pub fn absolute(path: &Path) -> Result<PathBuf, TaskError> {
    std::path::absolute(path).map_err(|source| TaskError::File { action: "find", path: path.to_owned(), source })
}

/// Reads a plan, or the note of a published one.
pub fn read(path: &Path) -> Result<Content, TaskError> {
    let json = fs::read(path).map_err(|source| TaskError::File { action: "read", path: path.to_owned(), source })?;
    parse(&json, path)
}

fn parse(json: &[u8], path: &Path) -> Result<Content, TaskError> {
    #[derive(Deserialize)]
    struct Version {
        format: u32,
        release: String,
        commit: Option<String>,
        published: Option<Value>,
    }
    let syntax = |source| TaskError::Syntax { path: path.to_owned(), source };
    let Version { format, release, commit, published } = serde_json::from_slice(json).map_err(syntax)?;
    if published.is_some() {
        let Note { published, .. } = serde_json::from_slice(json).map_err(syntax)?;
        return Ok(Content::Published(published));
    }
    let commit = commit.as_deref();
    if format != FORMAT || release != RELEASE || commit != COMMIT {
        let (found, expected) = (build(&release, commit), build(RELEASE, COMMIT));
        return Err(TaskError::Release { path: path.to_owned(), found, expected });
    }
    Ok(Content::Plan(serde_json::from_slice(json).map_err(syntax)?))
}

/// Reads a plan whose set is not published.
pub fn read_plan(path: &Path) -> Result<PlanFile, TaskError> {
    match read(path)? {
        Content::Plan(plan) => Ok(*plan),
        Content::Published(Published { out, time, .. }) => {
            Err(TaskError::Published { path: path.to_owned(), out, time })
        }
    }
}

/// A plan file that is written under a temporary name next to its own. That file is removed if this is dropped.
#[derive(Debug)]
pub struct NewPlan {
    path: PathBuf,
    file: NamedTempFile,
    /// Whether the note of a published plan is replaced, or an empty file.
    replaces: bool,
}

impl NewPlan {
    /// Creates the file. A plan must not exist at `path`, an absolute path.
    pub fn create(path: &Path) -> Result<Self, TaskError> {
        let of_file = |source| TaskError::File { action: "create", path: path.to_owned(), source };
        let replaces = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Ok(json) if json.is_empty() || matches!(parse(&json, path), Ok(Content::Published(_))) => true,
            Err(error) => return Err(of_file(error)),
            Ok(_) => return Err(of_file(io::ErrorKind::AlreadyExists.into())),
        };
        Ok(Self { path: path.to_owned(), file: temporary(path).map_err(of_file)?, replaces })
    }

    /// Writes the plan, complete or not at all.
    pub fn write(self, plan: &PlanFile) -> Result<()> {
        let Self { path, mut file, replaces } = self;
        let of_file = |source| TaskError::File { action: "write", path: path.clone(), source };
        let json = plan.to_json().map_err(of_file)?;
        file.write_all(&json).and_then(|()| file.as_file().sync_all()).map_err(of_file)?;
        let put = if replaces { file.persist(&path) } else { file.persist_noclobber(&path) };
        put.map_err(|error| of_file(error.error))?;
        Ok(())
    }
}

fn temporary(path: &Path) -> io::Result<NamedTempFile> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (prefix, dir) = (format!(".{name}."), path.parent().unwrap_or(Path::new(".")));
    // With the permissions of any other file.
    tempfile::Builder::new().prefix(&prefix).make_in(dir, |path| File::create_new(path))
}

/// Replaces a plan by the note that its set is published.
pub fn put_note(path: &Path, published: Published) -> Result<(), TaskError> {
    let note = Note { format: FORMAT, release: RELEASE.to_owned(), published };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // The next attempt replaces what a killed one has left.
    let new = path.with_file_name(format!(".{name}.published"));
    let put = || {
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec_pretty(&note).map_err(io::Error::other)?)?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    put().map_err(|source| {
        let _unremoved = fs::remove_file(&new);
        TaskError::File { action: "replace", path: path.to_owned(), source }
    })
}

/// Removes a plan file.
pub fn remove(path: &Path) -> Result<(), TaskError> {
    fs::remove_file(path).map_err(|source| TaskError::File { action: "remove", path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_of_another_commit_is_refused() {
        let path = Path::new("p.tfrplan");
        let plan = |commit: Option<&str>| {
            let json = serde_json::json!({"format": FORMAT, "release": RELEASE, "commit": commit});
            parse(json.to_string().as_bytes(), path).unwrap_err()
        };
        let TaskError::Release { found, expected, .. } = plan(Some("0a1b2c")) else { panic!("another error") };
        assert_eq!(found, format!("{RELEASE} (commit 0a1b2c)"));
        assert_eq!(expected, build(RELEASE, COMMIT));
        // Of this build, but without what a plan contains.
        assert!(matches!(plan(COMMIT), TaskError::Syntax { .. }));
    }

    #[test]
    fn published_plan_of_another_commit_is_read() {
        let published = Published {
            run: "1".to_owned(),
            out: "out".to_owned(),
            time: "2026-01-01T00:00:00Z".to_owned(),
            report: Value::Null,
        };
        let note = Note { format: FORMAT - 1, release: "0.0.1".to_owned(), published };
        let json = serde_json::to_vec(&note).unwrap();
        assert!(matches!(parse(&json, Path::new("p")).unwrap(), Content::Published(found) if found.out == "out"));
    }

    #[test]
    fn new_plan_replaces_what_a_killed_one_has_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.tfrplan");
        // A plan that is created does not appear before it is complete.
        let (_, left) = NewPlan::create(&path).unwrap().file.keep().unwrap();
        assert!(!path.exists() && left.exists());
        File::create_new(&path).unwrap();
        let plan = NewPlan::create(&path).unwrap();
        assert!(plan.replaces);
        fs::write(&path, "something else").unwrap();
        let refused = NewPlan::create(&path).unwrap_err();
        let TaskError::File { source, .. } = refused else { panic!("{refused}") };
        assert_eq!(source.kind(), io::ErrorKind::AlreadyExists);
    }
}
