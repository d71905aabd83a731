//! [`SchemaInference`]: a schema for records that came without one.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::mem::replace;
use std::ops::Range;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use tfrecord_framing::{Position, RecordReader, Records};

use super::locate::{entry_name, entry_value};
use super::values::{Blobs, Sink};
use super::wire::{FieldValue, Malformed, WireResult, field};
use crate::error::{Error, ErrorKind, Result};
use crate::mapping::FeatureKind;

/// Records read at a time.
const STEP: usize = 64;

/// The field of a `tf.train.SequenceExample` that a `tf.train.Example` does not have.
const FEATURE_LISTS: u64 = 2;

/// The schema of the records of `source`, looking at the first `max_records` or at all, and how many were looked at.
/// The compression is told from the content. For several files, [observe](SchemaInference::observe) them all.
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
/// Damage between records or in one; those of [`SchemaInference::observe`].
pub fn infer_schema<R: BufRead>(source: R, max_records: Option<usize>) -> Result<(Schema, usize)> {
    let mut inference = SchemaInference::new();
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

/// Learns a schema from records, of as many files as there are.
///
/// A feature that has one value in every record that has the feature is a scalar, otherwise a list; int64 is `Int64`,
/// float is `Float32`, bytes are `Utf8` if all of them are valid UTF-8, otherwise `Binary`. A feature that never has a
/// kind is `Null`. Columns are sorted by name, and all may be null. A feature without a name has no column.
#[derive(Debug, Clone, Default)]
pub struct SchemaInference {
    features: BTreeMap<Box<str>, Observed>,
    records: u64,
    fixed_size_lists: bool,
}

/// What was seen of one feature.
#[derive(Debug, Clone, Default)]
struct Observed {
    kind: Option<FeatureKind>,
    /// The number of values, while every record had as many.
    len: Option<usize>,
    varies: bool,
    binary: bool,
}

impl SchemaInference {
    /// Nothing is known yet: the schema has no columns.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether a feature that always has the same number of values, more than one, is a `FixedSizeList`; a `List`
    /// otherwise.
    #[must_use]
    pub fn with_fixed_size_lists(mut self, fixed_size_lists: bool) -> Self {
        self.fixed_size_lists = fixed_size_lists;
        self
    }

    /// How many records were looked at.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Looks at a record. Its position is for errors.
    ///
    /// # Errors
    /// A record that is no `tf.train.Example`, or a message of another type that protobuf takes for one: with feature lists,
    /// or without a feature and with other fields; a feature of another kind than in a record before.
    pub fn observe(&mut self, record: &[u8], position: Position) -> Result<()> {
        let malformed = |feature: Option<&str>, error: Malformed| -> Error {
            let feature = feature.map(str::to_owned);
            ErrorKind::Malformed { position, feature, at: Some(error.at), reason: error.reason }.into()
        };
        let entries = entries(record).map_err(|error| malformed(None, error))?;
        for (name, entry) in entries.into_iter().filter(|(name, _)| !name.is_empty()) {
            let found = Found::in_entry(record, entry).map_err(|error| malformed(Some(name), error))?;
            if !self.features.contains_key(name) {
                self.features.insert(name.into(), Observed::default());
            }
            if let (Some(observed), Some(found)) = (self.features.get_mut(name), found) {
                observed.add(&found).map_err(|expected| ErrorKind::KindMismatch {
                    position,
                    feature: name.to_owned(),
                    expected: Some(expected),
                    found: found.kind,
                })?;
            }
        }
        self.records += 1;
        Ok(())
    }

    /// The schema of the records seen.
    pub fn finish(self) -> Schema {
        let fixed = self.fixed_size_lists;
        let field = |(name, observed): (Box<str>, Observed)| Field::new(name, observed.data_type(fixed), true);
        Schema::new(self.features.into_iter().map(field).collect::<Vec<_>>())
    }
}

impl Observed {
    /// Adds a record's values, or returns the kind that they should have had.
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
    /// None if the feature has no kind.
    fn in_entry(record: &[u8], entry: Range<usize>) -> WireResult<Option<Self>> {
        fn read<S: Sink + Default>(record: &[u8], parts: &[Range<usize>]) -> WireResult<S> {
            let mut values = S::default();
            parts.iter().try_for_each(|part| values.push_all(&record[..part.end], part.start))?;
            Ok(values)
        }

        let mut parts = Vec::new();
        let Some(kind) = entry_value(&record[..entry.end], entry.start, &mut parts)? else { return Ok(None) };
        let (len, binary) = match kind {
            FeatureKind::Int64 => (read::<Vec<i64>>(record, &parts)?.count(), false),
            FeatureKind::Float => (read::<Vec<f32>>(record, &parts)?.count(), false),
            FeatureKind::Bytes => {
                let values: Blobs = read(record, &parts)?;
                (values.count(), (0..values.count()).any(|value| str::from_utf8(values.get(value)).is_err()))
            }
        };
        Ok(Some(Self { kind, len, binary }))
    }
}

/// The map entries of a record by name, the last one of each.
///
/// Protobuf passes over fields that it does not know, so nearly any message is an Example, of no features. Where nobody
/// has said that these are Examples, that is no answer.
fn entries(record: &[u8]) -> WireResult<BTreeMap<&str, Range<usize>>> {
    let mut entries = BTreeMap::new();
    let mut unknown = None;
    let mut pos = 0;
    while pos < record.len() {
        let example = field(record, pos)?;
        let at = replace(&mut pos, example.end);
        if example.number == FEATURE_LISTS && matches!(example.value, FieldValue::Delimited(_)) {
            return Err(Malformed {
                at,
                reason: "feature lists, which tf.train.SequenceExample has and tf.train.Example not",
            });
        }
        let Some(features) = example.message(1)? else {
            unknown.get_or_insert(at);
            continue;
        };
        let record = &record[..features.end];
        let mut pos = features.start;
        while pos < record.len() {
            let feature = field(record, pos)?;
            let at = replace(&mut pos, feature.end);
            let Some(entry) = feature.message(1)? else {
                unknown.get_or_insert(at);
                continue;
            };
            let name = entry_name(&record[..entry.end], entry.start)?;
            let at = name.start;
            let name = str::from_utf8(&record[name])
                .map_err(|_| Malformed { at, reason: "the name of a feature that is not UTF-8" })?;
            if let Some(replaced) = entries.insert(name, entry) {
                // Of no meaning, but it has to be well-formed.
                entry_value(&record[..replaced.end], replaced.start, &mut Vec::new())?;
            }
        }
    }
    match unknown {
        Some(at) if entries.is_empty() => {
            Err(Malformed { at, reason: "no feature, but fields that tf.train.Example does not have" })
        }
        _ => Ok(entries),
    }
}
