//! [`DataSet`]: the files to read, their records, and the columns.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::{DataType, FieldRef, Schema, SchemaRef};
use arrow_tfrecord::{MappingOptions, RecordType, SchemaInference};
use serde::{Deserialize, Serialize};
use tfrecord_framing::{Container, CrcPolicy};
use tfrecord_shards::{
    CountedFile, Manifest, MissingParts, Progress, ReadSeek, RecordOffset, SchemaDescription, SetLayout, count_intact,
    count_records,
};
use xxhash_rust::xxh3::Xxh3;

use crate::buckets::{Access, Object};
use crate::error::{Failure, Result};
use crate::files::Files;
use crate::framing::{PassedOver, RecordFile};
use crate::listing::Found;

/// Number of files whose first records are inspected to infer columns, and the number of these records.
const INFER_FILES: usize = 256;
const INFER_RECORDS: usize = 1000;

/// Records inspected at a time.
const STEP: usize = 64;

/// The name of ArrayRecord in [`Shard`].
const ARRAY_RECORD: &str = "array_record";

/// One file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Shard {
    pub(crate) path: PathBuf,
    /// Length of the file in bytes.
    pub(crate) len: u64,
    pub(crate) rows: u64,
    /// Length in bytes of the records with their frames, before compression.
    pub(crate) framed: u64,
    /// The name of the container: `array_record`, or the compression of TFRecord.
    container: String,
    /// Positions other than the start where a reader can start, in order.
    pub(crate) offsets: Vec<RecordOffset>,
    /// The damaged records to pass over; `rows` are those between them.
    pub(crate) damage: Option<PassedOver>,
    /// The object, if the file is in a store.
    pub(crate) object: Option<Object>,
    /// The path and the checksum that the manifest records, if one lists the file.
    listed: Option<(String, u32)>,
}

impl Shard {
    pub(crate) fn new(file: CountedFile, object: Option<Object>) -> Self {
        let listed = file.entry().map(|entry| (entry.path.clone(), entry.crc32c));
        let CountedFile { path, len, container, rows, framed_bytes: framed, offsets, damage, .. } = file;
        let damage = damage.map(|(count, first)| PassedOver::new(count, &first));
        let container = container.compression().map_or_else(|| ARRAY_RECORD.to_owned(), |name| name.to_string());
        Self { path, len, rows, framed, container, offsets, damage, object, listed }
    }

    pub(crate) fn container(&self) -> Container {
        match self.container.as_str() {
            ARRAY_RECORD => Container::ArrayRecord,
            compression => Container::TfRecord(compression.parse().unwrap_or_default()),
        }
    }

    /// Opens the file, to read it up to the byte `until`.
    pub(crate) fn open(&self, files: &Files, until: u64) -> Result<Box<dyn ReadSeek>> {
        files.open(&self.path, self.object.as_ref(), until)
    }

    /// Fetches the bytes of these records soon, if the file is in a store.
    pub(crate) fn fetch_soon(&self, files: &Files, records: Range<u64>) {
        if let Some(object) = &self.object {
            files.fetch_soon(&self.path, object, self.start_before(records.start).file, self.end_after(records.end));
        }
    }

    /// Returns the first position in the file, known to be one, behind all records before `record`.
    pub(crate) fn end_after(&self, record: u64) -> u64 {
        let before = self.offsets.partition_point(|offset| offset.record < record);
        self.offsets.get(before).map_or(self.len, |offset| offset.file)
    }

    /// Returns the last position at or before a record where a reader can start.
    pub(crate) fn start_before(&self, record: u64) -> RecordOffset {
        let behind = self.offsets.partition_point(|offset| offset.record <= record);
        let before = behind.checked_sub(1).and_then(|last| self.offsets.get(last));
        before.copied().unwrap_or(RecordOffset { record: 0, framed: 0, file: 0 })
    }
}

/// Consecutive records of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The shard's index.
    pub(crate) shard: usize,
    /// The first record.
    pub(crate) first: u64,
    /// Number of records, not 0.
    pub(crate) rows: u64,
}

/// Files with the numbers of their records, and how their columns are stored.
#[derive(Debug, Clone)]
pub(crate) struct DataSet {
    pub(crate) shards: Vec<Shard>,
    pub(crate) schema: SchemaRef,
    pub(crate) mapping: MappingOptions,
    /// Whether the columns were inferred from the first records.
    pub(crate) inferred: bool,
    /// The files that are missing in the directories that were named, as the names of the others record.
    pub(crate) missing: Vec<String>,
    /// What may be opened, and where parts of objects are kept.
    pub(crate) access: Access,
    rows: u64,
}

/// A data set as JSON.
#[derive(Serialize, Deserialize)]
struct Stored {
    shards: Vec<Shard>,
    schema: SchemaDescription,
    mapping: MappingOptions,
    inferred: bool,
    access: Access,
}

impl DataSet {
    /// Finds the files at `paths` and counts their records, which must all be intact unless damaged ones are skipped.
    /// Uses the columns of `schema`, or else those of the manifests, or else infers them from the first records.
    pub(crate) fn open(
        paths: &[PathBuf],
        split: Option<&str>,
        schema: Option<SchemaRef>,
        skips_damaged: bool,
        (access, source, progress): (Access, &Files, &Progress),
    ) -> Result<Self> {
        let Found { inputs, directories, mut objects } = Found::at(paths, source)?;
        let mut files = match skips_damaged {
            true => count_intact(&inputs, progress)?,
            false => count_records(&inputs, progress)?,
        };
        let missing = missing_parts(&directories, &files);
        if let Some(split) = split {
            files = only_split(files, split)?;
        }
        let written = written_form(&files, schema.is_some())?;
        let (schema, mapping, inferred) = match (schema, written) {
            (Some(schema), Some((_, mapping))) => {
                let mapping = options_of(&schema, mapping);
                (schema, mapping, false)
            }
            (Some(schema), None) => (schema, MappingOptions::default(), false),
            (None, Some((schema, mapping))) => (schema, mapping, false),
            (None, None) => {
                let (schema, mapping) = infer(&files, source, &objects)?;
                (schema, mapping, true)
            }
        };
        let shards = files.into_iter().map(|file| {
            let object = objects.remove(&file.path);
            Shard::new(file, object)
        });
        let data = Self::new(shards.collect(), schema, mapping, inferred);
        Ok(Self { missing, access, ..data })
    }

    fn new(shards: Vec<Shard>, schema: SchemaRef, mapping: MappingOptions, inferred: bool) -> Self {
        let rows = shards.iter().map(|shard| shard.rows).fold(0, u64::saturating_add);
        Self { shards, schema, mapping, inferred, missing: Vec::new(), access: Access::default(), rows }
    }

    /// The number of records.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Length in bytes of the records with their frames, before compression.
    pub(crate) fn framed(&self) -> u64 {
        self.shards.iter().map(|shard| shard.framed).fold(0, u64::saturating_add)
    }

    /// Returns all records, divided where readers can start.
    pub(crate) fn segments(&self) -> Vec<Segment> {
        let mut segments = Vec::new();
        for (index, shard) in self.shards.iter().enumerate() {
            let mut first = 0;
            let ends = shard.offsets.iter().map(|offset| offset.record).chain([shard.rows]);
            for end in ends.filter(|end| *end <= shard.rows) {
                if end > first {
                    segments.push(Segment { shard: index, first, rows: end - first });
                    first = end;
                }
            }
        }
        segments
    }

    /// Whether a reader can start at any record at the cost of reading at most the lengths of those of a block before.
    pub(crate) fn has_open_blocks(&self) -> bool {
        self.shards.iter().all(|shard| shard.container().is_plain() && shard.damage.is_none())
    }

    /// Returns a checksum of the names and figures of the files, to recognize the data set.
    pub(crate) fn checksum(&self) -> u32 {
        self.shards.iter().fold(0, |crc, shard| {
            let name = shard.path.file_name().unwrap_or_default().to_string_lossy();
            let figures = format!("{name}\0{}\0{}\0{}\0", shard.len, shard.rows, shard.framed);
            tfrecord_framing::crc32c_append(crc, figures.as_bytes())
        })
    }

    /// Returns a fingerprint of the records: equal for the same files in another directory, and another one if a file was
    /// written again with other records.
    ///
    /// It is made of the path, length and figures of each file, in their order, and of its checksum in the manifest. Of a
    /// file that no manifest lists, the name is used for the path, and there is no checksum.
    pub(crate) fn fingerprint(&self) -> String {
        let mut hash = Xxh3::new();
        for shard in &self.shards {
            let Shard { path, len, rows, framed, .. } = shard;
            let (name, crc) = match &shard.listed {
                Some((name, crc)) => (name.into(), format!("{crc:08x}")),
                None => (path.file_name().unwrap_or_default().to_string_lossy(), String::new()),
            };
            hash.update(format!("{name}\0{len}\0{rows}\0{framed}\0{crc}\0").as_bytes());
        }
        format!("{:032x}", hash.digest128())
    }

    pub(crate) fn to_json(&self) -> Result<String> {
        let Self { shards, schema, mapping, inferred, access, .. } = self;
        let stored = Stored {
            shards: shards.clone(),
            schema: SchemaDescription::try_new(schema)?,
            mapping: mapping.clone(),
            inferred: *inferred,
            access: access.clone(),
        };
        serde_json::to_string(&stored).map_err(|error| Failure::other(error.to_string()))
    }

    pub(crate) fn from_json(json: &str) -> Result<Self> {
        let stored: Stored = serde_json::from_str(json).map_err(|error| Failure::usage(error.to_string()))?;
        let data = Self::new(stored.shards, stored.schema.to_schema()?, stored.mapping, stored.inferred);
        Ok(Self { access: stored.access, ..data })
    }
}

/// Returns which files are missing, as the names of the others record. Files that are named themselves are read as named,
/// and those of a manifest may have any names.
fn missing_parts(directories: &[PathBuf], files: &[CountedFile]) -> Vec<String> {
    let is_found = |path: &&Path| directories.iter().any(|directory| path.starts_with(directory));
    let unlisted = files.iter().filter(|file| file.listed.is_none()).map(|file| file.path.as_path());
    let names = unlisted.filter(is_found).filter_map(Path::to_str);
    MissingParts::among(names).iter().map(ToString::to_string).collect()
}

/// Returns the files of a split.
fn only_split(files: Vec<CountedFile>, split: &str) -> Result<Vec<CountedFile>> {
    let mut names: Vec<String> = Vec::new();
    let mut kept = Vec::new();
    for file in files {
        let name = file.entry().and_then(|entry| entry.split.clone());
        if name.as_deref() == Some(split) {
            kept.push(file);
        } else if let Some(name) = name.filter(|name| !names.contains(name)) {
            names.push(name);
        }
    }
    if kept.is_empty() {
        let found = if names.is_empty() { "no splits".to_owned() } else { names.join(", ") };
        return Err(Failure::usage(format!("no shard of split {split:?}: the manifests list {found}")));
    }
    Ok(kept)
}

/// Returns the columns that the manifests record, and how they are stored. `None` if no file has a manifest with
/// columns. Sets may have different columns, unless the types of one differ and the caller `is_given` none.
fn written_form(files: &[CountedFile], is_given: bool) -> Result<Option<(SchemaRef, MappingOptions)>> {
    let mut form: Option<(SchemaRef, MappingOptions, &Path)> = None;
    let mut unknown: Option<&Path> = None;
    let mut last: Option<&Arc<Manifest>> = None;
    for file in files {
        let manifest = file.listed.as_ref().map(|(manifest, _)| manifest);
        if let (Some(manifest), Some(last)) = (manifest, last)
            && Arc::ptr_eq(manifest, last)
        {
            continue;
        }
        last = manifest;
        if manifest.is_some_and(|manifest| manifest.layout == SetLayout::Snapshot) {
            let path = file.path.display();
            return Err(Failure::usage(format!("{path}: the records of a snapshot are tensors, expected Examples")));
        }
        let schema = manifest.map(|manifest| manifest.arrow_schema()).transpose()?.flatten();
        let (Some(manifest), Some(schema)) = (manifest, schema) else {
            unknown.get_or_insert(&file.path);
            continue;
        };
        let mapping = manifest.mapping_options()?.with_items_named(&schema);
        match &form {
            None => form = Some((schema, mapping, &file.path)),
            Some((known, known_mapping, first)) => {
                let paths = || format!("{} and {}", first.display(), file.path.display());
                let Some(mapping) = all_options((known, known_mapping), (&schema, &mapping)) else {
                    let problem = format!("{}: their manifests record different options of columns", paths());
                    return Err(Failure::usage(problem).with_hint("Read the sets one by one."));
                };
                let wider = match all_columns(known, &schema) {
                    _ if is_given => Arc::clone(known),
                    Ok(wider) => wider,
                    Err((name, has_common_type)) => {
                        let hint = if has_common_type {
                            "Read the sets one by one, or pass schema= with types that fit both."
                        } else {
                            "Read the sets one by one: one kind of feature has no type that reads the other."
                        };
                        let problem = format!("{}: their manifests record different types of {name:?}", paths());
                        return Err(Failure::usage(problem).with_hint(hint));
                    }
                };
                form = Some((wider, mapping, first));
            }
        }
    }
    match (form, unknown) {
        (Some((_, _, first)), Some(unknown)) => {
            let (first, unknown) = (first.display(), unknown.display());
            Err(Failure::usage(format!("{first} has a manifest that records its columns, {unknown} has none"))
                .with_hint("Read the files one by one."))
        }
        (form, _) => Ok(form.map(|(schema, mapping, _)| (schema, mapping))),
    }
}

/// Returns the options of the columns of two sets. `None` if those of a column that both have differ.
fn all_options(first: (&Schema, &MappingOptions), second: (&Schema, &MappingOptions)) -> Option<MappingOptions> {
    let is_common = |field: &&FieldRef| second.0.field_with_name(field.name()).is_ok();
    let common = Schema::new(first.0.fields().iter().filter(is_common).cloned().collect::<Vec<_>>());
    if options_of(&common, first.1.clone()) != options_of(&common, second.1.clone()) {
        return None;
    }
    let (mut all, more) = (first.1.clone(), second.1.clone());
    // Those of columns that both have are equal.
    all.choices.extend(more.choices);
    all.column_nulls.extend(more.column_nulls);
    all.vocabularies.extend(more.vocabularies);
    all.sequences.extend(more.sequences);
    Some(all)
}

/// Whether values of two types may be in features of one kind, which a third type can read.
fn have_one_kind(first: &DataType, second: &DataType) -> bool {
    let is_text = |data_type: &DataType| data_type.is_string() || data_type.is_binary();
    let kinds: [&dyn Fn(&DataType) -> bool; 3] = [&is_text, &DataType::is_floating, &DataType::is_integer];
    kinds.iter().any(|is_of| is_of(first) && is_of(second)) || (first.is_temporal() && second.is_temporal())
}

/// Returns the columns of two sets, first those of the first. One that only one of them has is null in the other's rows. The
/// error is the name of a column with two types, and whether another type can read both.
fn all_columns(first: &Schema, second: &Schema) -> Result<SchemaRef, (String, bool)> {
    let mut fields = Vec::with_capacity(first.fields().len());
    for field in first.fields() {
        fields.push(match second.field_with_name(field.name()) {
            Err(_) => field.as_ref().clone().with_nullable(true),
            Ok(other) => {
                let is_nullable = field.is_nullable() || other.is_nullable();
                let field = field.as_ref().clone().with_nullable(is_nullable);
                if field != other.clone().with_nullable(is_nullable) {
                    return Err((field.name().clone(), have_one_kind(field.data_type(), other.data_type())));
                }
                field
            }
        });
    }
    let is_new = |field: &&FieldRef| first.field_with_name(field.name()).is_err();
    fields.extend(second.fields().iter().filter(is_new).map(|field| field.as_ref().clone().with_nullable(true)));
    Ok(Arc::new(Schema::new_with_metadata(fields, first.metadata().clone())))
}

/// Returns the options of the columns of `schema`, without those of others.
fn options_of(schema: &Schema, mut mapping: MappingOptions) -> MappingOptions {
    let all = mapping.clone();
    let is_known = |name: &str| schema.fields().iter().any(|field| all.part_of_column(name, field).is_some());
    mapping.choices.retain(|name, _| is_known(name));
    mapping.column_nulls.retain(|name, _| is_known(name));
    mapping.vocabularies.retain(|name, _| is_known(name));
    // The name of the column of examples keeps another list of structs from being read as them.
    let has_examples = mapping.record_type == RecordType::ExampleListWithContext;
    mapping.sequences.retain(|name| has_examples || is_known(name));
    mapping
}

/// Infers the columns from the first records of all files, or of an evenly spaced sample of them.
fn infer(
    files: &[CountedFile],
    source: &Files,
    objects: &HashMap<PathBuf, Object>,
) -> Result<(SchemaRef, MappingOptions)> {
    let mut inference = SchemaInference::new().with_fixed_size_lists(true);
    let step = files.len().div_ceil(INFER_FILES).max(1);
    for file in files.iter().step_by(step) {
        let in_file = |error: arrow_tfrecord::Error| Failure::record(&file.path, &error);
        let open = source.open(&file.path, objects.get(&file.path), 0)?;
        let mut reader = RecordFile::new(file.path.clone(), open, CrcPolicy::Verify, file.damage.is_some());
        let mut left = INFER_RECORDS;
        while left > 0 {
            let records = reader.read(left.min(STEP))?;
            if records.is_empty() {
                break;
            }
            left = left.saturating_sub(records.len());
            for (record, position) in records.iter().zip(records.positions()) {
                inference.observe(record, *position).map_err(in_file)?;
            }
        }
    }
    let mapping = inference.mapping();
    Ok((Arc::new(inference.finish()), mapping))
}

/// Returns the positions of the wanted columns, in the order wanted; of all if `columns` is `None`.
pub(crate) fn project(schema: &Schema, columns: Option<&[String]>) -> Result<Vec<usize>> {
    let Some(columns) = columns else { return Ok((0..schema.fields().len()).collect()) };
    let position = |name: &String| {
        schema.index_of(name).map_err(|_| {
            let known: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            Failure::usage(format!("no column {name:?}: the columns are {}", known.join(", ")))
        })
    };
    columns.iter().map(position).collect()
}
