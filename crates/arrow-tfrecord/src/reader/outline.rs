//! The names of features: [`Outline`] of one record, [`FeatureNames`] of many.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::replace;
use std::ops::Range;

use tfrecord_framing::Position;

use super::entry::{entry_name, entry_steps, entry_value};
use super::wire::{FieldValue, Malformed, WireResult, field};
use crate::error::{Error, ErrorKind, Result};
use crate::mapping::Mapping;
use crate::options::RecordType;

/// The field of a `tf.train.SequenceExample` that a `tf.train.Example` does not have.
const FEATURE_LISTS: u64 = 2;

/// Map entries by name. The last entry of a name counts.
pub(super) type Entries<'a> = BTreeMap<&'a str, Range<usize>>;

/// The positions of the features of one record.
pub(super) struct Outline<'a> {
    /// The features of a `tf.train.Example`, or of the context of a `tf.train.SequenceExample`.
    pub(super) features: Entries<'a>,
    /// The feature lists of a `tf.train.SequenceExample`, and the position of the first field with feature lists.
    pub(super) lists: Option<(Entries<'a>, usize)>,
}

impl<'a> Outline<'a> {
    /// Returns the outline of `record`.
    ///
    /// Protobuf skips unknown fields, so nearly any message parses as an Example without features. Without a schema
    /// that confirms the type, such a message is rejected.
    pub(super) fn of(record: &'a [u8]) -> WireResult<Self> {
        let mut outline = Self { features: BTreeMap::new(), lists: None };
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
                continue;
            }
            match part.message(1)? {
                Some(features) => entries(record, features, &mut outline.features, &mut unknown, |bytes, start| {
                    entry_value(bytes, start, &mut Vec::new()).map(drop)
                })?,
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
        let name = entry_name(&record[..entry.end], entry.start)?;
        let at = name.start;
        let name = str::from_utf8(&record[name])
            .map_err(|_| Malformed { at, reason: "the name of a feature that is not UTF-8" })?;
        if is_message(&record[..entry.end], &entry, name)? {
            return Err(Malformed {
                at,
                reason: "a message in place of a name: neither tf.train.Example nor tf.train.SequenceExample",
            });
        }
        if let Some(replaced) = out.insert(name, entry) {
            check(&record[..replaced.end], replaced.start)?;
        }
    }
    Ok(())
}

/// Whether the bytes of the name are a message that itself starts with a name, and the value is missing. Records that
/// contain Examples, such as those of TensorFlow Ranking, have this structure.
fn is_message(bytes: &[u8], entry: &Range<usize>, name: &str) -> WireResult<bool> {
    if !name.starts_with('\n') {
        return Ok(false);
    }
    let mut pos = entry.start;
    while pos < bytes.len() {
        let part = field(bytes, pos)?;
        pos = part.end;
        if part.number == 2 {
            return Ok(false);
        }
    }
    Ok(true)
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
    record_type: RecordType,
    records: u64,
}

impl FeatureNames {
    /// Observes a record. The position is used in errors.
    ///
    /// # Errors
    /// Fails on a record that is neither a `tf.train.Example` nor a `tf.train.SequenceExample`.
    pub fn observe(&mut self, record: &[u8], position: Position) -> Result<()> {
        fn note(names: &mut BTreeSet<Box<str>>, entries: &Entries<'_>) {
            let named = entries.keys().filter(|name| !name.is_empty());
            for name in named {
                if !names.contains(*name) {
                    names.insert((*name).into());
                }
            }
        }

        let outline = Outline::of(record).map_err(|error| malformed(position, None, error))?;
        note(&mut self.features, &outline.features);
        if let Some((lists, _)) = &outline.lists {
            self.record_type = RecordType::SequenceExample;
            note(&mut self.feature_lists, lists);
        }
        self.records += 1;
        Ok(())
    }

    /// Features of Examples, or of the contexts of SequenceExamples.
    pub fn features(&self) -> &BTreeSet<Box<str>> {
        &self.features
    }

    /// Feature lists of SequenceExamples.
    pub fn feature_lists(&self) -> &BTreeSet<Box<str>> {
        &self.feature_lists
    }

    /// The features and feature lists without a column in a mapping: `feature "x"`, `feature list "x"`.
    pub fn unmapped(&self, mapping: &Mapping) -> Vec<String> {
        let features = || mapping.columns().iter().flat_map(|column| &column.features);
        let is_mapped =
            |name: &str, in_steps| features().any(|feature| feature.in_steps == in_steps && feature.name == name);
        let of_place = |names: &BTreeSet<Box<str>>, in_steps, place: &str| {
            let unmapped = names.iter().filter(|name| !is_mapped(name, in_steps));
            unmapped.map(|name| format!("{place} {name:?}")).collect::<Vec<_>>()
        };
        let mut unmapped = of_place(&self.features, false, "feature");
        unmapped.extend(of_place(&self.feature_lists, true, "feature list"));
        unmapped
    }

    /// The type of the records: [`RecordType::SequenceExample`] if any has feature lists.
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
