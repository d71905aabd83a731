//! [`Pipes`]: tables on standard input and on named pipes, such as `/dev/fd/5` and `<(command)` of a shell.

mod two_files;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use bytes::Bytes;
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt as _;
use tfr_formats::{ArrowPipe, InputOptions, PipedFiles};
use tfr_stores::{Door, Location, LocationText};
use tokio::task::spawn_blocking;

use crate::cli::is_remote;
use crate::error::{Error, Result};
use crate::pipe_table::{PipeCopy, PipeStream, PipeTable};
use crate::spill::SpillDirectory;

/// The location that means standard input. A file of this name is `./-`.
const NAME: &str = "-";

/// The pipes of a query. Arrow streams that it reads once are read while they arrive.
///
/// Other pipes are copied to files. Formats are detected from the first bytes, some are read from the end, and a query may
/// read a table twice. Each copy is made once, in the spill directory, before anything else reads it.
#[derive(Debug)]
pub struct Pipes<'a> {
    spill: &'a SpillDirectory,
    /// Whether the query text was read from standard input.
    is_query: bool,
    /// What may be opened.
    door: Door,
    /// Receives the copies of pipes, whose streams must be complete.
    piped: Arc<PipedFiles>,
    /// The copies, by the identity of the pipe: its device and inode.
    copies: HashMap<(u64, u64), String>,
    /// The Arrow streams, by the identity of the pipe.
    streams: HashMap<(u64, u64), (Arc<PipeStream>, SchemaRef)>,
}

/// A pipe, or whatever standard input is.
#[derive(Debug)]
struct Pipe {
    /// The name in messages.
    name: PathBuf,
    /// Its path, or `None` for standard input.
    path: Option<PathBuf>,
    id: (u64, u64),
    /// Whether its end may be that of a program that failed. A file is as long as it is.
    is_pipe: bool,
}

impl<'a> Pipes<'a> {
    /// Creates the state before anything is read.
    pub fn new(spill: &'a SpillDirectory, is_query: bool, piped: Arc<PipedFiles>, door: Door) -> Self {
        Self { spill, is_query, door, piped, copies: HashMap::new(), streams: HashMap::new() }
    }

    /// Returns the table at these locations if they are one pipe with an Arrow stream that is read without options.
    pub async fn stream(
        &mut self,
        locations: &[LocationText],
        options: &InputOptions,
    ) -> Result<Option<Arc<PipeTable>>> {
        let plain = InputOptions::default();
        let mut of_arrow = InputOptions::default();
        let is_plain = *options == plain || of_arrow.set("format", "arrow").is_ok() && *options == of_arrow;
        let [location] = locations else { return Ok(None) };
        let Some(pipe) = self.pipe(location.with_secrets())?.filter(|_| is_plain) else { return Ok(None) };
        if !self.copies.contains_key(&pipe.id) && !self.streams.contains_key(&pipe.id) {
            self.begin(&pipe).await?;
        }
        let table = self
            .streams
            .get(&pipe.id)
            .map(|(stream, schema)| PipeTable::try_new(Arc::clone(stream), Arc::clone(schema)).map(Arc::new));
        Ok(table.transpose()?)
    }

    /// Reads the beginning of a pipe. An Arrow stream can then be read as a table, anything else is copied.
    async fn begin(&mut self, pipe: &Pipe) -> Result<()> {
        let name = pipe.name.display().to_string();
        let failed = |source| Error::Read { path: pipe.name.clone(), source };
        let path = pipe.path.clone();
        // On its own thread, because the writer of the pipe may be slow, or may not have opened it.
        let begun = spawn_blocking(move || {
            let mut file = path.map_or_else(standard_input, File::open)?;
            Ok((begin_stream(&mut file)?, file))
        });
        let (head, rest) = begun.await.unwrap_or_else(|stopped| Err(io::Error::other(stopped))).map_err(failed)?;
        let copy = PipeCopy::new(Arc::clone(self.spill.place()), pipe.path.clone());
        if ArrowPipe::is_begun_by(&head) {
            let bytes = futures::stream::iter([Ok(head.clone())]).boxed();
            // What is wrong with a schema is said by the reader of files.
            if let Ok(opened) = ArrowPipe::open(&name, bytes, false).await
                && is_plain_schema(opened.schema())
            {
                let schema = Arc::clone(opened.schema());
                let stream = PipeStream::new(name, copy, pipe.is_pipe, head, rest);
                self.streams.insert(pipe.id, (Arc::new(stream), schema));
                return Ok(());
            }
        }
        let copy = copy.write(head, rest).await?;
        if let Some(format) = two_files::find(&copy).map_err(failed)? {
            return Err(Error::TwoFiles { input: name, format });
        }
        self.copied(pipe, &copy)
    }

    /// Copies the streams that a plan reads more than once.
    pub async fn keep_for(&self, plan: &dyn ExecutionPlan) -> Result<()> {
        let is_repeated = repeats(plan);
        for (stream, _) in self.streams.values() {
            if is_repeated || stream.scans() > 1 {
                stream.keep().await?;
            }
        }
        Ok(())
    }

    /// Returns the streams.
    pub fn into_streams(self) -> Vec<Arc<PipeStream>> {
        self.streams.into_values().map(|(stream, _)| stream).collect()
    }

    /// Returns the error of opening a table at these locations: that a pipe among them ended before its first byte, or else
    /// `error`.
    pub fn explain(&self, locations: &[LocationText], error: impl Into<Error>) -> Error {
        let is_empty = |pipe: &Pipe| {
            let copy = self.copies.get(&pipe.id).and_then(|copy| fs::metadata(copy).ok());
            copy.is_some_and(|copy| copy.len() == 0)
        };
        let mut pipes = locations.iter().filter_map(|location| self.pipe(location.with_secrets()).ok()?);
        pipes.find(is_empty).map_or_else(|| error.into(), |pipe| Error::EmptyPipe { input: pipe.name })
    }

    /// Returns the locations, with each pipe replaced by its copy.
    pub async fn stand_in(&mut self, locations: &[LocationText]) -> Result<Vec<LocationText>> {
        let mut found = Vec::with_capacity(locations.len());
        for location in locations {
            found.push(match self.pipe(location.with_secrets())? {
                Some(pipe) => self.copy(&pipe).await?.into(),
                None => location.clone(),
            });
        }
        Ok(found)
    }

    /// Returns the pipe that a location names, if it names one.
    fn pipe(&self, location: &str) -> Result<Option<Pipe>> {
        if location == NAME {
            if self.is_query {
                return Err(Error::StandardInputTwice);
            }
            self.door.check_standard_input()?;
            let name = PathBuf::from("standard input");
            let metadata = standard_input().and_then(|file| file.metadata());
            let metadata = metadata.map_err(|source| Error::Read { path: name.clone(), source })?;
            let id = (metadata.dev(), metadata.ino());
            return Ok(Some(Pipe { name, path: None, id, is_pipe: !metadata.is_file() }));
        }
        let path = Path::new(location);
        // A pattern and what is no pipe are compared when they are listed.
        let is_allowed = !is_remote(location) && self.door.check_path(path).is_ok();
        let metadata = if is_allowed { fs::metadata(path).ok() } else { None };
        let fifo = metadata.filter(|metadata| metadata.file_type().is_fifo());
        Ok(fifo.map(|metadata| {
            let (name, path) = (path.to_owned(), Some(path.to_owned()));
            Pipe { name, path, id: (metadata.dev(), metadata.ino()), is_pipe: true }
        }))
    }

    /// Copies a pipe, unless that has been done. Returns the path of the copy.
    async fn copy(&mut self, pipe: &Pipe) -> Result<String> {
        if !self.copies.contains_key(&pipe.id) {
            if !self.streams.contains_key(&pipe.id) {
                self.begin(pipe).await?;
            }
            if let Some((stream, _)) = self.streams.get(&pipe.id).cloned() {
                let copy = stream.keep().await?;
                self.copied(pipe, &copy)?;
            }
        }
        Ok(self.copies.get(&pipe.id).cloned().unwrap_or_default())
    }

    /// Remembers the copy of a pipe.
    fn copied(&mut self, pipe: &Pipe, copy: &Path) -> Result<()> {
        let text = copy.to_str().map(str::to_owned).ok_or_else(|| Error::SpoolInput {
            input: pipe.name.clone(),
            path: copy.to_owned(),
            source: io::ErrorKind::InvalidFilename.into(),
        })?;
        if pipe.is_pipe
            && let Ok(location) = Location::parse(&text)
        {
            self.piped.add(location.key().clone());
        }
        self.copies.insert(pipe.id, text);
        Ok(())
    }
}

/// The longest schema that is read before a stream is known to be one.
const LONGEST_SCHEMA: usize = 64 << 20;

/// Reads the first bytes of a pipe: enough to detect an Arrow stream, and all of its schema.
fn begin_stream(file: &mut File) -> io::Result<Bytes> {
    const ENOUGH: u64 = 4096;
    let mut head = Vec::new();
    file.take(ENOUGH).read_to_end(&mut head)?;
    if ArrowPipe::is_begun_by(&head) {
        // A length, after a marker in streams since Arrow 0.15.
        let start = if head.starts_with(&[0xff; 4]) { 4 } else { 0 };
        let len = head.get(start..start + 4).and_then(|len| len.try_into().ok()).map_or(0, u32::from_le_bytes) as usize;
        let missing = (start + 4).saturating_add(len).saturating_sub(head.len());
        if missing <= LONGEST_SCHEMA {
            file.take(missing as u64).read_to_end(&mut head)?;
        }
    }
    Ok(head.into())
}

/// Whether columns of a stream have distinct names. Tables of files are checked for more.
fn is_plain_schema(schema: &Schema) -> bool {
    let mut names = HashSet::new();
    schema.fields().iter().all(|field| names.insert(field.name()))
}

/// Whether a plan runs a part of itself several times.
fn repeats(plan: &dyn ExecutionPlan) -> bool {
    plan.name() == "RecursiveQueryExec" || plan.children().into_iter().any(|child| repeats(child.as_ref()))
}

/// Returns standard input as a file.
fn standard_input() -> io::Result<File> {
    io::stdin().as_fd().try_clone_to_owned().map(File::from)
}
