//! The names of features: [`Outline`] of one record, [`FeatureNames`] of many.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::replace;
use std::ops::Range;

use tfrecord_framing::Position;

use super::entry::{entry_name, entry_steps, entry_value};
use super::example_list::{Part, entry_value_at, is_example_list, not_examples, parts};
use super::locate::is_message;
use super::wire::{FieldValue, Malformed, WireResult, field};
use crate::error::{Error, ErrorKind, MESSAGE_FOR_NAME, Result};
use crate::feature::FeaturePlace;
use crate::mapping::Mapping;
use crate::options::RecordType;

/// The field of a `tf.train.SequenceExample` that a `tf.train.Example` does not have.
const FEATURE_LISTS: u64 = 2;

/// Map entries by name. The last entry of a name counts.
pub(super) type Entries<'a> = BTreeMap<&'a str, Range<usize>>;

/// The positions of the features of one record.
pub(super) struct Outline<'a> {
    /// The features of a `tf.train.Example`, or of the context of another type.
    pub(super) features: Entries<'a>,
    /// The feature lists of a `tf.train.SequenceExample`, and the position of the first field with feature lists.
    pub(super) lists: Option<(Entries<'a>, usize)>,
    /// The features of each example of an ExampleListWithContext.
    pub(super) examples: Option<Vec<Entries<'a>>>,
}

impl<'a> Outline<'a> {
    /// Returns the outline of `record`. If the type of other records of its file is known to be an
    /// ExampleListWithContext, it has that type too. Otherwise its structure determines the type.
    ///
    /// Protobuf skips unknown fields, so nearly any message parses as an Example without features. Without a schema
    /// that confirms the type, such a message is rejected.
    pub(super) fn of(record: &'a [u8], known: RecordType) -> WireResult<Self> {
        if known == RecordType::ExampleListWithContext || is_example_list(record) {
            return Self::of_examples(record);
        }
        let mut outline = Self { features: BTreeMap::new(), lists: None, examples: None };
        let mut unknown = None;
        let mut pos = 0;
        while pos < record.len() {
            let part = field(record, pos)?;
            let at = replace(&mut pos, part.end);
            if part.number == FEATURE_LISTS
                && let FieldValue::Delimited(lists) = part.value
            {
                let (found, _) = outline.lists.get_or_insert_with(|| (BTreeMap::new(), at));
                entries(record, lists, found, &mut None, |bytes, start| entry_steps(bytes, start, &mut Vec::new()))?;
                // An entry without a name and a value is rather the empty context of an ExampleListWithContext.
                if found.len() == 1 && found.get("").is_some_and(Range::is_empty) {
                    outline.lists = None;
                }
                continue;
            }
            match part.message(1)? {
                Some(features) => entries(record, features, &mut outline.features, &mut unknown, feature)?,
                None => {
                    unknown.get_or_insert(at);
                }
            }
        }
        match unknown {
            Some(at) if outline.features.is_empty() && outline.lists.is_none() => {
                Err(Malformed { at, reason: "no feature, but fields that tf.train.Example does not have" })
            }
            _ => Ok(outline),
        }
    }

    fn of_examples(record: &'a [u8]) -> WireResult<Self> {
        let (mut features, mut examples, mut unknown) = (BTreeMap::new(), Vec::new(), None);
        parts(record, 0..record.len(), |part| {
            match part {
                Part::Example(example) => {
                    let mut entries = BTreeMap::new();
                    add_example(record, example, &mut entries, &mut unknown)?;
                    examples.push(entries);
                }
                Part::Context(context) => add_example(record, context, &mut features, &mut unknown)?,
                Part::Unknown(at) => drop(unknown.get_or_insert(at)),
            }
            Ok(())
        })?;
        match unknown {
            Some(at) if features.is_empty() && examples.iter().all(BTreeMap::is_empty) => {
                Err(Malformed { at, reason: "no feature, but fields that ExampleListWithContext does not have" })
            }
            _ => Ok(Self { features, lists: None, examples: Some(examples) }),
        }
    }
}

/// Adds the features of the Example at `example`, which is within a record.
fn add_example<'a>(
    record: &'a [u8],
    example: Range<usize>,
    out: &mut Entries<'a>,
    unknown: &mut Option<usize>,
) -> WireResult<()> {
    let bytes = &record[..example.end];
    let mut pos = example.start;
    while pos < bytes.len() {
        let part = field(bytes, pos)?;
        let at = replace(&mut pos, part.end);
        let Some(features) = part.message(1)? else {
            unknown.get_or_insert(at);
            continue;
        };
        if let Some(at) = entry_value_at(bytes, features.clone()) {
            return Err(not_examples(at));
        }
        entries(record, features, out, unknown, feature)?;
    }
    Ok(())
}

/// Checks that the value of a map entry is a feature.
fn feature(bytes: &[u8], start: usize) -> WireResult<()> {
    entry_value(bytes, start, &mut Vec::new()).map(drop)
}

/// The entries of the map in field 1 of the message at `message`. Replaced entries are ignored, but must be
/// well-formed.
fn entries<'a>(
    record: &'a [u8],
    message: Range<usize>,
    out: &mut Entries<'a>,
    unknown: &mut Option<usize>,
    check: impl Fn(&[u8], usize) -> WireResult<()>,
) -> WireResult<()> {
    let record = &record[..message.end];
    let mut pos = message.start;
    while pos < record.len() {
        let entry = field(record, pos)?;
        let at = replace(&mut pos, entry.end);
        let Some(entry) = entry.message(1)? else {
            unknown.get_or_insert(at);
            continue;
        };
        let bytes = &record[..entry.end];
        let name = entry_name(bytes, entry.start)?;
        let (at, is_message) = (name.start, is_message(bytes, entry.start, &name));
        let name = str::from_utf8(&record[name])
            .map_err(|_| Malformed { at, reason: "the name of a feature that is not UTF-8" })?;
        if is_message {
            return Err(Malformed { at, reason: MESSAGE_FOR_NAME });
        }
        if let Some(replaced) = out.insert(name, entry) {
            check(&record[..replaced.end], replaced.start)?;
        }
    }
    Ok(())
}

/// Collects the names of features and feature lists of records, without decoding values.
///
/// Use it to check whether requested columns exist at all: a feature that is in no record reads as null in every row.
///
/// ```
/// use arrow_tfrecord::{FeatureNames, RecordType};
/// use tfrecord_framing::Position;
///
/// # fn main() -> Result<(), arrow_tfrecord::Error> {
/// let mut names = FeatureNames::default();
/// names.observe(b"\x0a\x0c\x0a\x0a\x0a\x01a\x12\x05\x1a\x03\x0a\x01\x07", Position::default())?;
/// assert!(names.features().contains("a"));
/// assert_eq!(names.record_type(), RecordType::Example);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct FeatureNames {
    features: BTreeSet<Box<str>>,
    feature_lists: BTreeSet<Box<str>>,
    example_features: BTreeSet<Box<str>>,
    record_type: RecordType,
    records: u64,
}

impl FeatureNames {
    /// Sets the type of the records, if it is known to be an [`ExampleListWithContext`](RecordType::ExampleListWithContext).
    /// Other types are determined from each record.
    #[must_use]
    pub fn with_record_type(mut self, record_type: RecordType) -> Self {
        if record_type == RecordType::ExampleListWithContext {
            self.record_type = record_type;
        }
        self
    }

    /// Observes a record. The position is used in errors.
    ///
    /// # Errors
    /// Fails on a record that is neither a `tf.train.Example`, a `tf.train.SequenceExample` nor an
    /// `ExampleListWithContext`.
    pub fn observe(&mut self, record: &[u8], position: Position) -> Result<()> {
        fn note(names: &mut BTreeSet<Box<str>>, entries: &Entries<'_>) {
            let named = entries.keys().filter(|name| !name.is_empty());
            for name in named {
                if !names.contains(*name) {
                    names.insert((*name).into());
                }
            }
        }

        let outline = Outline::of(record, self.record_type).map_err(|error| malformed(position, None, error))?;
        note(&mut self.features, &outline.features);
        if let Some((lists, _)) = &outline.lists {
            self.record_type = RecordType::SequenceExample;
            note(&mut self.feature_lists, lists);
        }
        if let Some(examples) = &outline.examples {
            self.record_type = RecordType::ExampleListWithContext;
            examples.iter().for_each(|entries| note(&mut self.example_features, entries));
        }
        self.records += 1;
        Ok(())
    }

    /// Features of Examples, or of the contexts of records of other types.
    pub fn features(&self) -> &BTreeSet<Box<str>> {
        &self.features
    }

    /// Feature lists of SequenceExamples.
    pub fn feature_lists(&self) -> &BTreeSet<Box<str>> {
        &self.feature_lists
    }

    /// Features of the examples of ExampleListWithContexts.
    pub fn example_features(&self) -> &BTreeSet<Box<str>> {
        &self.example_features
    }

    /// The features and feature lists without a column in a mapping: `feature "x"`, `feature list "x"`.
    pub fn unmapped(&self, mapping: &Mapping) -> Vec<String> {
        let features = || mapping.columns().iter().flat_map(|column| &column.features);
        let is_mapped = |name: &str, place| features().any(|feature| feature.place() == place && feature.name == name);
        let of_place = |names: &BTreeSet<Box<str>>, place, word: &str| {
            let unmapped = names.iter().filter(|name| !is_mapped(name, place));
            unmapped.map(|name| format!("{word} {name:?}")).collect::<Vec<_>>()
        };
        let mut unmapped = of_place(&self.features, FeaturePlace::Record, "feature");
        unmapped.extend(of_place(&self.feature_lists, FeaturePlace::Steps, "feature list"));
        unmapped.extend(of_place(&self.example_features, FeaturePlace::Items, "feature of examples"));
        unmapped
    }

    /// The type of the records: [`RecordType::SequenceExample`] if any has feature lists, and
    /// [`RecordType::ExampleListWithContext`] if any has its structure.
    pub fn record_type(&self) -> RecordType {
        self.record_type
    }

    /// The number of records observed.
    pub fn records(&self) -> u64 {
        self.records
    }
}

/// The error for a malformed record.
pub(super) fn malformed(position: Position, feature: Option<&str>, error: Malformed) -> Error {
    let feature = feature.map(str::to_owned);
    ErrorKind::Malformed { position, feature, at: Some(error.at), reason: error.reason }.into()
}
