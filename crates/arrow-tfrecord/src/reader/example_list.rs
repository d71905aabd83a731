//! The wire form of an ExampleListWithContext: its [`parts`], and how it differs from other records.

use std::ops::Range;

use super::wire::{FieldValue, Malformed, WireResult, field};

/// The fields of an ExampleListWithContext.
const EXAMPLES: u64 = 1;
const CONTEXT: u64 = 2;

/// The field of a map entry that has its value. A Features message does not have it.
const ENTRY_VALUE: u64 = 2;

/// The reason for rejecting a record of another type.
pub(super) const NOT_EXAMPLES: &str = "a feature where an example should be: not an ExampleListWithContext";

/// A part of an ExampleListWithContext, by the range of its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Example(Range<usize>),
    /// Several of them are one message.
    Context(Range<usize>),
    /// A field that the message does not have, by its position.
    Unknown(usize),
}

/// Calls `found` with each part of the ExampleListWithContext at `record` in `bytes`.
pub(super) fn parts(
    bytes: &[u8],
    record: Range<usize>,
    mut found: impl FnMut(Part) -> WireResult<()>,
) -> WireResult<()> {
    let bytes = &bytes[..record.end];
    let mut pos = record.start;
    while pos < bytes.len() {
        let part = field(bytes, pos)?;
        let (at, number) = (pos, part.number);
        pos = part.end;
        found(match number {
            EXAMPLES | CONTEXT => match part.message(number)? {
                Some(example) if number == EXAMPLES => Part::Example(example),
                Some(context) => Part::Context(context),
                None => Part::Unknown(at),
            },
            _ => Part::Unknown(at),
        })?;
    }
    Ok(())
}

/// The position of the first field of a message that a Features message does not have, and a map entry has.
pub(super) fn entry_value_at(bytes: &[u8], message: Range<usize>) -> Option<usize> {
    messages(bytes, message).find(|(number, _)| *number == ENTRY_VALUE).map(|(_, value)| value.start)
}

/// The position of the first feature that is directly in a message where an Example should be. An Example contains its
/// features in one more message.
pub(super) fn feature_at(bytes: &[u8], message: Range<usize>) -> Option<usize> {
    let mut inner = messages(bytes, message).filter(|(number, _)| *number == 1);
    inner.find_map(|(_, features)| entry_value_at(bytes, features))
}

/// Whether the structure of a record is that of a `tensorflow.serving.ExampleListWithContext`, and not that of a
/// `tf.train.Example` or `tf.train.SequenceExample`. False if it has no feature.
///
/// Each of its examples contains features, where those of an Example directly contain map entries, which have values.
///
/// ```
/// use arrow_tfrecord::is_example_list;
///
/// let example = b"\x0a\x0c\x0a\x0a\x0a\x01a\x12\x05\x1a\x03\x0a\x01\x07"; // { a: int64_list [7] }
/// assert!(!is_example_list(example));
/// assert!(is_example_list(&[b"\x0a\x0e", example.as_slice()].concat()));
/// ```
pub fn is_example_list(record: &[u8]) -> bool {
    let whole = messages(record, 0..record.len());
    let parts = whole.filter(|(number, _)| [EXAMPLES, CONTEXT].contains(number)).map(|(_, part)| part);
    let mut inner = parts.flat_map(|part| messages(record, part)).filter(|(number, _)| *number == 1);
    inner.find_map(|(_, features)| is_features(record, features)).unwrap_or_default()
}

/// Whether a message is a Features, not a map entry. `None` if it has no fields to decide by.
fn is_features(record: &[u8], message: Range<usize>) -> Option<bool> {
    if entry_value_at(record, message.clone()).is_some() {
        return Some(false);
    }
    let mut entries = messages(record, message).filter(|(number, _)| *number == 1);
    // The name of a feature is hardly a message with a name and a value. A feature without a value decides nothing.
    entries.find_map(|(_, entry)| {
        let has = |wanted| messages(record, entry.clone()).any(|(number, _)| number == wanted);
        has(ENTRY_VALUE).then(|| has(1))
    })
}

/// The numbers and ranges of messages and strings, up to the first malformed field.
fn messages(bytes: &[u8], message: Range<usize>) -> impl Iterator<Item = (u64, Range<usize>)> {
    let bytes = &bytes[..message.end];
    let mut pos = message.start;
    let fields = std::iter::from_fn(move || {
        let field = (pos < bytes.len()).then(|| field(bytes, pos).ok()).flatten()?;
        pos = field.end;
        Some(field)
    });
    fields.filter_map(|field| match field.value {
        FieldValue::Delimited(range) => Some((field.number, range)),
        _ => None,
    })
}

/// The error for an entry value in a message that should contain features.
pub(super) fn not_examples(at: usize) -> Malformed {
    Malformed { at, reason: NOT_EXAMPLES }
}
