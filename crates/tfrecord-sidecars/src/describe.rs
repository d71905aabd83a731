//! [`Description`]: the information for sidecar files, gathered from files written by any tool.
//!
//! The schema comes from the manifest of the set or a `schema.pbtxt` next to the files, or else is inferred from every
//! record. A second pass then computes statistics of several files at a time, on the rayon pool of the caller. For
//! files in an object store, [`SchemaInference`] and [`observe`] do the same, file by file.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::SchemaRef;
use arrow_tfrecord::{Encoder, Mapping, MappingOptions, ReaderBuilder, SchemaInference};
use rayon::prelude::*;
use tfrecord_framing::{Compression, Container, RecordReader, Records};
use tfrecord_shards::{Finding, FindingKind, Manifest};

use crate::error::{ErrorKind, Result};
use crate::form::TableDescription;
use crate::stats::{Detail, Statistics};
use crate::tfds::{DatasetInfo, ShardFile};
use crate::tfmd;

/// The file name of a schema next to shards, by TFX's convention.
pub const SCHEMA_NAME: &str = "schema.pbtxt";

/// Bytes per read of a file.
const READ_LEN: usize = 1 << 20;

/// Records per batch.
const STEP: usize = 256;

/// Options of [`describe`].
#[derive(Debug, Clone, Default)]
pub struct DescribeOptions {
    /// The schema and mapping options, which override those of the directory.
    pub schema: Option<(SchemaRef, MappingOptions)>,
    /// The detail of statistics.
    pub detail: Detail,
    /// Whether a feature that always has the same number of values is inferred as a fixed-size list.
    pub fixed_size_lists: bool,
}

/// The description of a data set.
#[derive(Debug)]
#[non_exhaustive]
pub struct Description {
    /// The columns and their features.
    pub mapping: Arc<Mapping>,
    /// Statistics of the features.
    pub statistics: Statistics,
    /// The files, in order.
    pub files: Vec<ShardFile>,
    /// How they contain their records, if it is the same for all.
    pub container: Option<Container>,
    /// The directories in which files are missing, as the names of the others record.
    pub missing_parts: Vec<Finding>,
}

/// The contents of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Observed {
    /// Number of records.
    pub rows: u64,
    /// Bytes of the records with their frames, before compression.
    pub framed_bytes: u64,
    /// How the file contains its records.
    pub container: Container,
}

/// Describes the data set in a directory: the shards that its manifest lists, or else all files in it and its
/// subdirectories except sidecars. Also accepts a single file.
///
/// ```
/// use std::fs;
/// use tfrecord_framing::RecordWriter;
/// use tfrecord_sidecars::{SchemaForm, describe::describe};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// let mut writer = RecordWriter::new(Vec::new());
/// writer.write_record(b"\x0a\x0c\x0a\x0a\x0a\x01a\x12\x05\x1a\x03\x0a\x01\x07")?; // { a: int64_list [7] }
/// fs::write(dir.join("val-00000-of-00001"), writer.finish()?)?;
///
/// let set = describe(dir, &Default::default())?;
/// assert_eq!(set.statistics.feature("a").and_then(|a| a.max()), Some(7.0));
/// assert_eq!(set.table("records/").render(SchemaForm::Arrow)?, "a  Int64\n");
/// assert_eq!(set.dataset_info("records")?.splits()[0].name, "val");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Fails if there is no file, if a file is unreadable or damaged, if a schema is unreadable or does not fit the
/// records, or if records are not Examples or have features of different kinds.
pub fn describe(dir: &Path, options: &DescribeOptions) -> Result<Description> {
    let (paths, findings) = tfrecord_shards::files(&[dir.to_owned()])?;
    // Incomplete sets are rejected.
    let is_gap = |finding: &Finding| {
        let kind = &finding.kind;
        matches!(
            kind,
            FindingKind::MissingShard
                | FindingKind::Length { .. }
                | FindingKind::ChangedManifest { .. }
                | FindingKind::Unreadable(_)
        )
    };
    if let Some(finding) = findings.iter().find(|finding| is_gap(finding)) {
        return Err(ErrorKind::NotWhole { problem: finding.to_string() }.into());
    }
    let mut missing_parts = findings;
    missing_parts.retain(|finding| matches!(finding.kind, FindingKind::MissingParts(_)));
    if paths.is_empty() {
        return Err(ErrorKind::NoFile { dir: dir.to_owned() }.into());
    }
    let (schema, mapping) = match &options.schema {
        Some((schema, mapping)) => (SchemaRef::clone(schema), mapping.clone()),
        None => match known_schema(dir)? {
            Some(known) => known,
            None => infer(&paths, options.fixed_size_lists)?,
        },
    };
    let mapping = Arc::new(Mapping::try_new(&schema, &mapping)?);
    let encoder = Encoder::new(Arc::clone(&mapping));
    let mut statistics = Statistics::new(&mapping, options.detail);
    let splits = splits(dir)?;
    let (mut files, mut containers) = (Vec::new(), Vec::new());
    let observed = paths.chunks(rayon::current_num_threads().max(1)).flat_map(|some| {
        let one = |path: &PathBuf| {
            let mut own = Statistics::new(&mapping, options.detail);
            let found =
                open(path).and_then(|file| observe(file, &encoder, &mut own).map_err(|error| error.in_file(path)));
            found.map(|found| (path.clone(), found, own))
        };
        some.par_iter().map(one).collect::<Vec<_>>()
    });
    for observed in observed {
        // Merge in the order of the files, so that the result does not depend on threads.
        let (path, found, own) = observed?;
        statistics.merge(&own)?;
        let relative = path.strip_prefix(dir).ok().filter(|relative| !relative.as_os_str().is_empty());
        let relative = relative.or_else(|| path.file_name().map(Path::new)).unwrap_or(&path);
        let relative = relative.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/");
        let split = splits.iter().find(|(shard, _)| *shard == relative).and_then(|(_, split)| split.clone());
        files.push(ShardFile { path: relative, split, rows: found.rows, framed_bytes: found.framed_bytes });
        // An empty file fits any compression.
        containers.extend((found.rows > 0).then_some(found.container));
    }
    let first = containers.first().copied().unwrap_or_default();
    let container = containers.iter().all(|other| *other == first).then_some(first);
    Ok(Description { mapping, statistics, files, container, missing_parts })
}

/// Adds the records of a file to statistics, with the encoder of their mapping.
///
/// # Errors
/// Fails on damage, or on a record that does not fit the schema.
pub fn observe<R: BufRead>(mut source: R, encoder: &Encoder, statistics: &mut Statistics) -> Result<Observed> {
    let start = source.fill_buf().map_err(io_at_start)?;
    let container = Container::detect(start).unwrap_or_default();
    let mapping = encoder.mapping();
    let reader = ReaderBuilder::new(SchemaRef::clone(mapping.schema())).with_mapping(mapping.options().clone());
    let mut decoder = reader.with_container(container).build_decoder()?;
    let mut rows = 0;
    loop {
        let bytes = match source.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(io_at_start(error)),
        };
        let taken = decoder.decode(bytes)?;
        source.consume(taken);
        if taken > 0 && decoder.capacity() > 0 {
            continue;
        }
        match decoder.flush()? {
            Some(batch) => {
                rows += batch.num_rows() as u64;
                statistics.update_batch(encoder, &batch)?;
            }
            None => return Ok(Observed { rows, framed_bytes: decoder.position().byte, container }),
        }
    }
}

impl Description {
    /// The table with its statistics, to be rendered in a [`SchemaForm`](crate::SchemaForm).
    pub fn table(&self, location: impl Into<String>) -> TableDescription<'_> {
        let table = TableDescription::new(&self.mapping, location).with_statistics(&self.statistics);
        match self.container {
            Some(container) => table.with_container(container),
            None => table,
        }
    }

    /// The compression of the files, if it is the same for all. ArrayRecord files have none as a whole.
    pub fn compression(&self) -> Option<Compression> {
        self.container.map(|container| container.compression().unwrap_or_default())
    }

    /// The contents of `dataset_info.json` for the files.
    ///
    /// # Errors
    /// Fails on compressed files, and with those of [`DatasetInfo::try_new`].
    pub fn dataset_info(&self, name: &str) -> Result<DatasetInfo> {
        DatasetInfo::of_files(name, self.files.iter().cloned(), self.container)
    }
}

/// The columns by a manifest, or by a schema next to the files.
fn known_schema(dir: &Path) -> Result<Option<(SchemaRef, MappingOptions)>> {
    if let Some(manifest) = Manifest::find(dir)?
        && let Some(schema) = manifest.arrow_schema()?
    {
        return Ok(Some((schema, manifest.mapping_options()?)));
    }
    let path = dir.join(SCHEMA_NAME);
    let text = match fs::read_to_string(&path) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory
            ) =>
        {
            return Ok(None);
        }
        read => read.map_err(|source| ErrorKind::Io { path: path.clone(), source })?,
    };
    let schema = tfmd::schema_from_pbtxt(&text).map_err(|error| error.in_file(&path))?;
    Ok(Some((Arc::new(schema), MappingOptions::default())))
}

/// The split of each shard.
fn splits(dir: &Path) -> Result<Vec<(String, Option<String>)>> {
    let shards = Manifest::find(dir)?.map(|manifest| manifest.shards).unwrap_or_default();
    Ok(shards.into_iter().map(|shard| (shard.path, shard.split)).collect())
}

fn infer(paths: &[PathBuf], fixed_size_lists: bool) -> Result<(SchemaRef, MappingOptions)> {
    let mut inference = SchemaInference::new().with_fixed_size_lists(fixed_size_lists);
    let mut records = Records::new();
    for path in paths {
        let mut reader = RecordReader::detect(open(path)?);
        let in_file = |error: arrow_tfrecord::Error| crate::Error::from(error).in_file(path);
        while reader.read_records(STEP, &mut records).map_err(|error| in_file(error.into()))? > 0 {
            for (record, position) in records.iter().zip(records.positions()) {
                inference.observe(record, *position).map_err(in_file)?;
            }
            records.clear();
        }
    }
    let mapping = inference.mapping();
    Ok((Arc::new(inference.finish()), mapping))
}

fn open(path: &Path) -> Result<BufReader<File>> {
    let file = File::open(path).map_err(|source| ErrorKind::Io { path: path.to_owned(), source })?;
    Ok(BufReader::with_capacity(READ_LEN, file))
}

fn io_at_start(source: io::Error) -> crate::Error {
    let position = tfrecord_framing::Position::default();
    arrow_tfrecord::Error::from(tfrecord_framing::Error::from(tfrecord_framing::ErrorKind::Io { position, source }))
        .into()
}

#[cfg(test)]
mod tests;
