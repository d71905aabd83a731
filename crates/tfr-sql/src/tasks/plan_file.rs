//! [`PlanFile`]: what a task must know. Once its set is published, a note takes its place.
//!
//! The file has three parts:
//!
//! 1. a line of JSON, the `Header`: the number of tasks, the length of the file, and the length and checksum of part 2
//! 2. the [`PlanFile`], a line of JSON
//! 3. the file groups of the scans, one after the other, as [`tfr_files::planned`] encodes them. Part 2 has the place and
//!    the checksum of each. A task reads those of its own rows only.
//!
//! The note is a JSON document.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use datafusion_tfrecord::WriteOptions;
use datafusion_tfrecord::write::SharedWrite;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tempfile::NamedTempFile;
use tfr_files::planned::PlannedScans;
use tfr_stores::Door;
use tfrecord_framing::crc32c;

use super::stored_query::StoredQuery;
use crate::access;
use crate::error::{Result, TaskError};
use crate::version::{COMMIT, RELEASE, build};

/// Version of the file's format.
const FORMAT: u32 = 4;

/// Maximum bytes of the first line.
const MOST_HEADER: u64 = 4096;

/// A plan for tasks, as JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    /// The rows to write.
    pub query: StoredQuery,
    /// How to write them.
    pub options: WriteOptions,
    /// Where.
    pub staging: SharedWrite,
    /// The tables and scans, if tasks need not read them all again.
    scans: Option<PlannedScans>,
    /// The places of the file groups of all scans.
    groups: Vec<Block>,
    /// The file that was read.
    #[serde(skip)]
    file: Option<PlanBytes>,
}

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: u32,
    /// The release of tfr-sql. Another one may plan the query differently.
    release: String,
    /// The commit that tfr-sql was built from, if it is known. Another one may plan the query differently, too.
    commit: Option<String>,
    /// Number of tasks.
    tasks: u32,
    /// The length of the file in bytes.
    len: u64,
    /// The second line, without its end.
    plan: Block,
}

/// A part of a plan file.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Block {
    /// Its first byte, counted from the end of the line before.
    start: u64,
    /// Its length in bytes.
    len: u64,
    /// Its checksum.
    crc32c: u32,
}

impl Block {
    fn new(start: u64, bytes: &[u8]) -> Self {
        Self { start, len: bytes.len() as u64, crc32c: crc32c(bytes) }
    }
}

/// An open plan file.
#[derive(Debug)]
struct PlanBytes {
    path: PathBuf,
    file: File,
    /// The offset of the first file group.
    start: u64,
}

impl PlanBytes {
    /// Reads a block, which begins `start` bytes after the offset.
    fn read(&self, block: Block) -> Result<Vec<u8>, TaskError> {
        let Self { path, file, start } = self;
        let mut bytes = vec![0; usize::try_from(block.len).unwrap_or(usize::MAX)];
        let offset = start.saturating_add(block.start);
        file.read_exact_at(&mut bytes, offset).map_err(|source| of_file("read", path, source))?;
        if crc32c(&bytes) != block.crc32c {
            return Err(TaskError::Damaged { path: path.clone(), offset });
        }
        Ok(bytes)
    }
}

fn of_file(action: &'static str, path: &Path, source: io::Error) -> TaskError {
    TaskError::File { action, path: path.to_owned(), source }
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
    /// Describes tasks that read all tables again to plan the query.
    pub fn new(query: StoredQuery, options: WriteOptions, staging: SharedWrite) -> Self {
        Self { query, options, staging, scans: None, groups: Vec::new(), file: None }
    }

    /// Returns the tables and scans, if tasks need not read them all again.
    pub fn scans(&self) -> Option<&PlannedScans> {
        self.scans.as_ref()
    }

    /// Checks that the door allows the places that are written to. They could be others than those of the arguments.
    ///
    /// # Errors
    /// One of them is outside.
    pub fn check_places(&self, door: &Door) -> Result<()> {
        access::check_target(&self.options.out, door)?;
        for directory in self.staging.directories() {
            door.check_tree(directory)?;
        }
        Ok(())
    }

    /// Returns the encoded files of a file group.
    ///
    /// # Errors
    /// The plan file cannot be read, or is damaged.
    pub fn group(&self, index: usize) -> Result<Vec<u8>, TaskError> {
        match (&self.file, self.groups.get(index)) {
            (Some(file), Some(block)) => file.read(*block),
            (file, _) => {
                let path = file.as_ref().map(|file| file.path.clone()).unwrap_or_default();
                Err(TaskError::Damaged { path, offset: 0 })
            }
        }
    }

    /// Returns the bytes of the file. `groups` are the encoded files of each group.
    fn to_bytes(&self, groups: &[Vec<u8>]) -> io::Result<Vec<u8>> {
        let plan = serde_json::to_vec(self).map_err(io::Error::other)?;
        let plan_block = Block::new(0, &plan);
        let after = plan.len() as u64 + 1 + groups.iter().map(|group| group.len() as u64).sum::<u64>();
        let (release, commit) = (RELEASE.to_owned(), COMMIT.map(str::to_owned));
        let mut header =
            Header { format: FORMAT, release, commit, tasks: self.query.tasks(), len: 0, plan: plan_block };
        // The number of digits of the length depends on the length.
        let mut line = Vec::new();
        while header.len != after + line.len() as u64 + 1 {
            header.len = after + line.len() as u64 + 1;
            line = serde_json::to_vec(&header).map_err(io::Error::other)?;
        }
        let mut bytes = line;
        bytes.push(b'\n');
        bytes.extend_from_slice(&plan);
        bytes.push(b'\n');
        groups.iter().for_each(|group| bytes.extend_from_slice(group));
        Ok(bytes)
    }
}

/// Returns the places of file groups.
fn blocks(groups: &[Vec<u8>]) -> Vec<Block> {
    let mut start = 0;
    let block = |group: &Vec<u8>| {
        let block = Block::new(start, group);
        start += block.len;
        block
    };
    groups.iter().map(block).collect()
}

/// Returns the absolute path of a plan file. A command changes to the directory of its plan, where a relative path would
/// name another file.
pub fn absolute(path: &Path) -> Result<PathBuf, TaskError> {
    std::path::absolute(path).map_err(|source| TaskError::File { action: "find", path: path.to_owned(), source })
}

/// Reads a plan, or the note of a published one.
pub fn read(path: &Path) -> Result<Content, TaskError> {
    #[derive(Deserialize)]
    struct Version {
        format: u32,
        release: String,
        commit: Option<String>,
        published: Option<Value>,
    }
    let failed = |source| of_file("read", path, source);
    let syntax = |source| TaskError::Syntax { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?.len();
    let mut reader = BufReader::new(&file);
    let mut line = Vec::new();
    reader.by_ref().take(MOST_HEADER).read_until(b'\n', &mut line).map_err(failed)?;
    if let Ok(Version { format, release, commit, published: None }) = serde_json::from_slice(&line)
        && (format != FORMAT || release != RELEASE || commit.as_deref() != COMMIT)
    {
        return Err(other_build(path, &release, commit.as_deref()));
    }
    let Ok(Header { len, plan, .. }) = serde_json::from_slice(&line) else {
        // A note, or the plan of a release before format 4.
        let mut json = line;
        reader.read_to_end(&mut json).map_err(failed)?;
        let Version { release, commit, published, .. } = serde_json::from_slice(&json).map_err(syntax)?;
        if published.is_none() {
            return Err(other_build(path, &release, commit.as_deref()));
        }
        let Note { published, .. } = serde_json::from_slice(&json).map_err(syntax)?;
        return Ok(Content::Published(published));
    };
    let damaged = |offset| TaskError::Damaged { path: path.to_owned(), offset };
    if found != len || plan.start.saturating_add(plan.len) > found {
        return Err(damaged(found.min(len)));
    }
    let mut bytes = PlanBytes { path: path.to_owned(), file, start: line.len() as u64 };
    let json = bytes.read(plan)?;
    bytes.start += plan.len + 1;
    let mut plan: PlanFile = serde_json::from_slice(&json).map_err(syntax)?;
    if let Some(block) = plan.groups.iter().find(|block| block.len > found) {
        return Err(damaged(block.start));
    }
    plan.file = Some(bytes);
    Ok(Content::Plan(Box::new(plan)))
}

fn other_build(path: &Path, release: &str, commit: Option<&str>) -> TaskError {
    let (found, expected) = (build(release, commit), build(RELEASE, COMMIT));
    TaskError::Release { path: path.to_owned(), found, expected }
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
        let replaces = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(of_file(error)),
            Ok(found) if found.len() == 0 || matches!(read(path), Ok(Content::Published(_))) => true,
            Ok(_) => return Err(of_file(io::ErrorKind::AlreadyExists.into())),
        };
        Ok(Self { path: path.to_owned(), file: temporary(path).map_err(of_file)?, replaces })
    }

    /// Writes the plan, complete or not at all. `scans` are the tables and scans of the query, if tasks need not read them
    /// all again, and the encoded files of each group.
    pub fn write(self, mut plan: PlanFile, scans: Option<(PlannedScans, Vec<Vec<u8>>)>) -> Result<()> {
        let Self { path, mut file, replaces } = self;
        let of_file = |source| TaskError::File { action: "write", path: path.clone(), source };
        let (scans, groups) = scans.unzip();
        let groups = groups.unwrap_or_default();
        (plan.scans, plan.groups) = (scans, blocks(&groups));
        let bytes = plan.to_bytes(&groups).map_err(of_file)?;
        file.write_all(&bytes).and_then(|()| file.as_file().sync_all()).map_err(of_file)?;
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

    fn plan_with(content: &Value) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.tfrplan");
        fs::write(&path, content.to_string()).unwrap();
        (dir, path)
    }

    #[test]
    fn plan_of_another_commit_is_refused() {
        let header = serde_json::json!({"format": FORMAT, "release": RELEASE, "commit": "0a1b2c"});
        let (_dir, path) = plan_with(&header);
        let TaskError::Release { found, expected, .. } = read(&path).unwrap_err() else { panic!("another error") };
        assert_eq!(found, format!("{RELEASE} (commit 0a1b2c)"));
        assert_eq!(expected, build(RELEASE, COMMIT));
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
        let (_dir, path) = plan_with(&serde_json::to_value(&note).unwrap());
        assert!(matches!(read(&path).unwrap(), Content::Published(found) if found.out == "out"));
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
