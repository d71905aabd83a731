//! [`SchemaInference`]: infers a schema for records that came without one.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::ops::Range;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema};
use tfr_arrow::nested::with_struct_fields;
use tfrecord_framing::{Position, RecordReader, Records};

use super::entry::{entry_steps, entry_value, feature_value};
use super::outline::{Entries, Outline, malformed};
use super::values::{Blobs, Sink};
use super::wire::{Malformed, WireResult};
use crate::error::{ErrorKind, HAS_FEATURE_LISTS, Result};
use crate::feature::FeatureKind;
use crate::options::{MappingOptions, RecordType};

/// The column of the examples of an ExampleListWithContext.
const EXAMPLES: &str = "examples";

/// Records read at a time.
const STEP: usize = 64;

/// Infers the schema of the Examples of `source` from the first `max_records`, or from all. Returns it with the number
/// of records read. The compression is detected from the content. For several files, or for records of other types, which
/// also need mapping options, [observe](SchemaInference::observe) every record instead.
///
/// ```
/// use tfrecord_framing::RecordWriter;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut writer = RecordWriter::new(Vec::new());
/// writer.write_record(b"\x0a\x0c\x0a\x0a\x0a\x01a\x12\x05\x1a\x03\x0a\x01\x07")?; // { a: int64_list [7] }
/// let (schema, records) = arrow_tfrecord::infer_schema(writer.finish()?.as_slice(), Some(1000))?;
/// assert_eq!((schema.field(0).to_string(), records), (r#"Field { "a": nullable Int64 }"#.to_owned(), 1));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Fails on damage between or in records, on the errors of [`SchemaInference::observe`], or on a record of another type.
pub fn infer_schema<R: BufRead>(source: R, max_records: Option<usize>) -> Result<(Schema, usize)> {
    let mut inference = SchemaInference { only_examples: true, ..SchemaInference::new() };
    let mut reader = RecordReader::detect(source);
    let mut records = Records::new();
    loop {
        let seen = usize::try_from(inference.records()).unwrap_or(usize::MAX);
        let limit = max_records.map_or(STEP, |most| most.saturating_sub(seen).min(STEP));
        records.clear();
        if reader.read_records(limit, &mut records)? == 0 {
            return Ok((inference.finish(), seen));
        }
        for (record, position) in records.iter().zip(records.positions()) {
            inference.observe(record, *position)?;
        }
    }
}

/// Infers a schema, and the mapping options needed to read with it, from the records of any number of files.
///
/// A feature is a scalar if it has one value in every record that contains it, otherwise a list. Int64 becomes `Int64`,
/// float `Float32`, and bytes `Utf8` if all are valid UTF-8, otherwise `Binary`. A feature that never has a kind is
/// `Null`. Columns are sorted by name and nullable. A feature without a name has no column.
///
/// Records with feature lists are [SequenceExamples](RecordType::SequenceExample). Their context is treated as an
/// Example's features. A feature list becomes a list of scalars, which is then a [sequence](MappingOptions::sequences),
/// or a list of lists.
///
/// Of records with the structure of an [`ExampleListWithContext`](RecordType::ExampleListWithContext), the context is
/// treated likewise, and the examples become a column `examples`, a list of structs. Its name ends in `_` where a feature
/// has that name. Features of examples that never have a kind become no field.
///
/// ```
/// use arrow_schema::DataType;
/// use arrow_tfrecord::{ReaderBuilder, SchemaInference};
/// use tfrecord_framing::{Position, RecordWriter};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // { feature_lists { q: [ int64_list [7], int64_list [8] ] } }
/// let record = b"\x12\x15\x0a\x13\x0a\x01q\x12\x0e\x0a\x05\x1a\x03\x0a\x01\x07\x0a\x05\x1a\x03\x0a\x01\x08";
/// let mut inference = SchemaInference::new();
/// inference.observe(record, Position::default())?;
/// let (mapping, schema) = (inference.mapping(), inference.finish());
/// assert_eq!(schema.field(0).data_type(), &DataType::new_list(DataType::Int64, true));
///
/// let mut writer = RecordWriter::new(Vec::new());
/// writer.write_record(record)?;
/// let file = writer.finish()?;
/// let reader = ReaderBuilder::new(schema.into()).with_mapping(mapping).build(file.as_slice())?;
/// assert_eq!(reader.collect::<Result<Vec<_>, _>>()?[0].num_rows(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct SchemaInference {
    features: BTreeMap<Box<str>, Observed>,
    /// The steps of feature lists.
    lists: BTreeMap<Box<str>, Observed>,
    /// The features of examples.
    examples: BTreeMap<Box<str>, Observed>,
    record_type: RecordType,
    records: u64,
    /// Records that have a feature without a name.
    unnamed: u64,
    fixed_size_lists: bool,
    only_examples: bool,
    /// Features that have a type already.
    typed: BTreeSet<String>,
}

/// The observed properties of one feature.
#[derive(Debug, Clone, Default)]
struct Observed {
    kind: Option<FeatureKind>,
    /// The number of values, as long as it is equal in every record.
    len: Option<usize>,
    varies: bool,
    binary: bool,
}

impl SchemaInference {
    /// Creates an inference without columns.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether a feature that always has the same number of values, more than one, is a `FixedSizeList` instead of
    /// a `List`.
    #[must_use]
    pub fn with_fixed_size_lists(mut self, fixed_size_lists: bool) -> Self {
        self.fixed_size_lists = fixed_size_lists;
        self
    }

    /// Sets the type of the records, if it is known to be an [`ExampleListWithContext`](RecordType::ExampleListWithContext).
    /// Other types are determined from each record.
    #[must_use]
    pub fn with_record_type(mut self, record_type: RecordType) -> Self {
        if record_type == RecordType::ExampleListWithContext {
            self.record_type = record_type;
        }
        self
    }

    /// Sets features whose types are known. They may be of several kinds, of which the first one found counts here.
    #[must_use]
    pub fn with_typed(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.typed = names.into_iter().collect();
        self
    }

    /// The number of records observed.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The number of these records that have a feature without a name, which becomes no column.
    pub fn unnamed(&self) -> u64 {
        self.unnamed
    }

    /// Observes a record. The position is used in errors.
    ///
    /// # Errors
    /// Fails on a record that is neither a `tf.train.Example`, a `tf.train.SequenceExample` nor an
    /// `ExampleListWithContext`. This includes messages of other types that protobuf accepts as one: without features,
    /// but with other fields. Also fails on a feature whose kind differs from that in an earlier record, a feature list
    /// or a feature of examples with the name of a feature of the context, or an `ExampleListWithContext` among records
    /// of other types.
    pub fn observe(&mut self, record: &[u8], position: Position) -> Result<()> {
        let outline = Outline::of(record, self.record_type).map_err(|error| malformed(position, None, error))?;
        if let Some(reason) = self.other_type(&outline) {
            return Err(malformed(position, None, Malformed { at: 0, reason }));
        }
        if let Some((_, at)) = outline.lists.as_ref().filter(|_| self.only_examples) {
            return Err(malformed(position, None, Malformed { at: *at, reason: HAS_FEATURE_LISTS }));
        }
        let lists = outline.lists.iter().flat_map(|(lists, _)| lists.keys());
        let of_examples = outline.examples.iter().flatten().flat_map(BTreeMap::keys);
        if outline.features.keys().chain(lists).chain(of_examples).any(|name| name.is_empty()) {
            self.unnamed += 1;
        }
        observe_all(&mut self.features, record, outline.features, &self.typed, position)?;
        if let Some(examples) = outline.examples {
            self.record_type = RecordType::ExampleListWithContext;
            for example in examples {
                observe_all(&mut self.examples, record, example, &self.typed, position)?;
            }
        }
        if let Some((lists, _)) = outline.lists {
            self.record_type = RecordType::SequenceExample;
            for (name, entry) in lists.into_iter().filter(|(name, _)| !name.is_empty()) {
                let steps = Found::in_steps(record, entry).map_err(|error| malformed(position, Some(name), error))?;
                observe_one(&mut self.lists, name, None, position)?;
                for step in steps {
                    observe_one(&mut self.lists, name, step, position)?;
                }
            }
        }
        let mut others = self.lists.keys().chain(self.examples.keys());
        if let Some(name) = others.find(|name| self.features.contains_key(*name)) {
            return Err(ErrorKind::AmbiguousName { position, feature: name.to_string() }.into());
        }
        self.records += 1;
        Ok(())
    }

    /// The reason for rejecting a record whose type does not go with that of earlier records.
    fn other_type(&self, outline: &Outline<'_>) -> Option<&'static str> {
        let is_first = self.features.is_empty() && self.lists.is_empty();
        match &outline.examples {
            Some(_) if self.only_examples => Some("an ExampleListWithContext in place of a tf.train.Example"),
            Some(_) if self.record_type != RecordType::ExampleListWithContext && !is_first => {
                Some("an ExampleListWithContext among records of another type")
            }
            _ => None,
        }
    }

    /// The mapping options of the observed records.
    pub fn mapping(&self) -> MappingOptions {
        let is_sequence = |steps: &Observed| {
            let data_type = steps.data_type(self.fixed_size_lists);
            data_type != DataType::Null && !data_type.is_nested()
        };
        let sequences = self.lists.iter().filter(|(_, steps)| is_sequence(steps));
        let sequences = sequences.map(|(name, _)| name.to_string()).collect();
        MappingOptions { record_type: self.record_type, sequences, ..MappingOptions::default() }
    }

    /// The schema of the observed records.
    pub fn finish(self) -> Schema {
        let fixed = self.fixed_size_lists;
        let mut column = EXAMPLES.to_owned();
        while self.features.contains_key(column.as_str()) || self.examples.contains_key(column.as_str()) {
            column.push('_');
        }
        let features = self.features.into_iter().map(|(name, observed)| (name, observed.data_type(fixed)));
        let lists = self.lists.into_iter().map(|(name, steps)| match steps.data_type(fixed) {
            DataType::Null => (name, DataType::Null),
            step => (name, DataType::new_list(step, true)),
        });
        let field = |(name, data_type): (Box<str>, DataType)| Field::new(name, data_type, true);
        // A field without a type would be null, whatever later records have.
        let of_examples = self.examples.into_iter().map(|(name, observed)| (name, observed.data_type(fixed)));
        let of_examples: Fields =
            of_examples.filter(|(_, data_type)| *data_type != DataType::Null).map(field).collect();
        let has_examples = !of_examples.is_empty();
        let examples = DataType::new_list(with_struct_fields(of_examples), true);
        let examples = has_examples.then(|| (column.into(), examples));
        let columns: BTreeMap<_, _> = features.chain(lists).chain(examples).collect();
        Schema::new(columns.into_iter().map(field).collect::<Vec<_>>())
    }
}

/// Records the values found of the features of an Example or a context.
fn observe_all(
    observed: &mut BTreeMap<Box<str>, Observed>,
    record: &[u8],
    features: Entries<'_>,
    typed: &BTreeSet<String>,
    position: Position,
) -> Result<()> {
    for (name, entry) in features.into_iter().filter(|(name, _)| !name.is_empty()) {
        let mut found = Found::in_entry(record, entry).map_err(|error| malformed(position, Some(name), error))?;
        if typed.contains(name)
            && let Some(kind) = observed.get(name).and_then(|observed| observed.kind)
            && let Some(found) = &mut found
        {
            found.kind = kind;
        }
        observe_one(observed, name, found, position)?;
    }
    Ok(())
}

/// Records the values found of a feature, or only its presence.
fn observe_one(
    observed: &mut BTreeMap<Box<str>, Observed>,
    name: &str,
    found: Option<Found>,
    position: Position,
) -> Result<()> {
    if !observed.contains_key(name) {
        observed.insert(name.into(), Observed::default());
    }
    let (Some(observed), Some(found)) = (observed.get_mut(name), found) else { return Ok(()) };
    observed.add(&found).map_err(|expected| {
        let (feature, expected) = (name.to_owned(), Some(expected));
        ErrorKind::KindMismatch { position, feature, expected, found: found.kind }.into()
    })
}

impl Observed {
    /// Adds a record's values. Returns the expected kind as the error.
    fn add(&mut self, found: &Found) -> Result<(), FeatureKind> {
        match self.kind {
            Some(kind) if kind != found.kind => return Err(kind),
            _ => self.kind = Some(found.kind),
        }
        self.varies |= self.len.is_some_and(|len| len != found.len);
        self.len = Some(found.len);
        self.binary |= found.binary;
        Ok(())
    }

    fn data_type(&self, fixed_size_lists: bool) -> DataType {
        let item = match self.kind {
            None => return DataType::Null,
            Some(FeatureKind::Int64) => DataType::Int64,
            Some(FeatureKind::Float) => DataType::Float32,
            Some(FeatureKind::Bytes) if self.binary => DataType::Binary,
            Some(FeatureKind::Bytes) => DataType::Utf8,
        };
        let list = |item| Arc::new(Field::new_list_field(item, true));
        match self.len.filter(|_| !self.varies) {
            Some(1) => item,
            Some(len) if len > 1 && fixed_size_lists => match i32::try_from(len) {
                Ok(len) => DataType::FixedSizeList(list(item), len),
                Err(_) => DataType::List(list(item)),
            },
            _ => DataType::List(list(item)),
        }
    }
}

/// The values of a feature in one record.
struct Found {
    kind: FeatureKind,
    len: usize,
    binary: bool,
}

impl Found {
    /// The values of an entry. `None` if the feature has no kind.
    fn in_entry(record: &[u8], entry: Range<usize>) -> WireResult<Option<Self>> {
        let mut parts = Vec::new();
        let kind = entry_value(&record[..entry.end], entry.start, &mut parts)?;
        kind.map(|kind| Self::in_parts(record, kind, &parts)).transpose()
    }

    /// The values of each step of a feature list. `None` if a step has no kind.
    fn in_steps(record: &[u8], entry: Range<usize>) -> WireResult<Vec<Option<Self>>> {
        let mut steps = Vec::new();
        entry_steps(&record[..entry.end], entry.start, &mut steps)?;
        let step = |step: Range<usize>| {
            let (mut kind, mut parts) = (None, Vec::new());
            feature_value(&record[..step.end], step.start, &mut kind, &mut parts)?;
            kind.map(|kind| Self::in_parts(record, kind, &parts)).transpose()
        };
        steps.into_iter().map(step).collect()
    }

    fn in_parts(record: &[u8], kind: FeatureKind, parts: &[Range<usize>]) -> WireResult<Self> {
        fn read<S: Sink + Default>(record: &[u8], parts: &[Range<usize>]) -> WireResult<S> {
            let mut values = S::default();
            parts.iter().try_for_each(|part| values.push_all(&record[..part.end], part.start))?;
            Ok(values)
        }

        let (len, binary) = match kind {
            FeatureKind::Int64 => (read::<Vec<i64>>(record, parts)?.count(), false),
            FeatureKind::Float => (read::<Vec<f32>>(record, parts)?.count(), false),
            FeatureKind::Bytes => {
                let values: Blobs = read(record, parts)?;
                (values.count(), (0..values.count()).any(|value| str::from_utf8(values.get(value)).is_err()))
            }
        };
        Ok(Self { kind, len, binary })
    }
}
