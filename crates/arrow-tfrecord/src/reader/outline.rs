//! Which features a record has, by name: [`Outline`] of one record, [`FeatureNames`] of many.

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

/// Map entries by name, the last one of each.
pub(super) type Entries<'a> = BTreeMap<&'a str, Range<usize>>;

/// Where the features of one record stand.
pub(super) struct Outline<'a> {
    /// Those of a `tf.train.Example`, or of the context of a `tf.train.SequenceExample`.
    pub(super) features: Entries<'a>,
    /// The feature lists of a `tf.train.SequenceExample`, and where the first of its fields for them stands.
    pub(super) lists: Option<(Entries<'a>, usize)>,
}

impl<'a> Outline<'a> {
    /// The outline of `record`.
    ///
    /// Protobuf passes over fields that it does not know, so nearly any message is an Example, of no features. Where
    /// nobody has said that these are Examples, that is no answer.
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

/// The entries of the map that is the first field of the message at `message`. Those that others replace are of no
/// meaning, but have to be well-formed.
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

/// Whether what stands in place of a name is a message that begins with a name itself, and nothing stands in place of the
/// value: records that hold Examples look like that, such as those of TensorFlow Ranking.
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

/// The names of the features that records have, and of their feature lists. Nothing is decoded.
///
/// For whoever wants to know whether the columns that somebody asks for are there at all: a feature that is in no record
/// is a null in every row, whatever the reason.
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
    /// Looks at a record. Its position is for errors.
    ///
    /// # Errors
    /// A record that is neither a `tf.train.Example` nor a `tf.train.SequenceExample`.
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

    /// The features and feature lists that a mapping has no column for: `feature "x"`, `feature list "x"`.
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

    /// What the records are: [SequenceExamples](RecordType::SequenceExample) if one has feature lists.
    pub fn record_type(&self) -> RecordType {
        self.record_type
    }

    /// How many records were looked at.
    pub fn records(&self) -> u64 {
        self.records
    }
}

/// The refusal of a record.
pub(super) fn malformed(position: Position, feature: Option<&str>, error: Malformed) -> Error {
    let feature = feature.map(str::to_owned);
    ErrorKind::Malformed { position, feature, at: Some(error.at), reason: error.reason }.into()
}
