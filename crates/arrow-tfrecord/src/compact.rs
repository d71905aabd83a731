//! [`CompactForm`]: an encoding of records that omits the bytes they have in common.
//!
//! Most bytes of an Example with short values are names, tags and lengths. These are equal in every record or follow
//! from the values. Buffers and temporary files only need the values:
//!
//! ```text
//! checksum of the payload       4 bytes, as in the frame
//! for each known feature, a varint
//!   0      the record does not have it
//!   1      it has no list
//!   2      <len> list           a list of any other kind, such as one of several strings
//!   3 + n  n bytes              a list of one field of n bytes: packed numbers, or one string
//! ```
//!
//! A record with other contents, another order of features, or more than 65,535 compact bytes has no compact form.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use tfrecord_framing::{FOOTER_LEN, HEADER_LEN, frame_header};

use crate::feature::FeatureKind;
use crate::reader::wire;
use crate::record_buffer::RecordBuffer;
use crate::wire::{FIELD_1, FIELD_2, MAX_VARINT_LEN, Template, field_len, put_header, put_varint, varint_len};

/// Bytes of records that are sampled to learn the features.
const SAMPLE_BYTES: usize = 1 << 20;

/// The longest compact record.
const MAX_COMPACT_LEN: usize = u16::MAX as usize;

/// The maximum number of known features. Each costs one byte in a record without it.
const MAX_FEATURES: usize = 4096;

/// Shorter values are copied in one move of this length.
const SHORT: usize = 16;

/// Bytes that may be written past the end of a record while it is restored: a template, and a value that fits one.
const SLACK: usize = Template::WIDTH + 127 + SHORT;

const NO_FEATURE: u64 = 0;
const NO_LIST: u64 = 1;
const OTHER_LIST: u64 = 2;
const ONE_FIELD: u64 = 3;

/// The features that Examples have in common: their names and kinds, in order.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use arrow_tfrecord::{CompactForm, Encoder, Mapping, MappingOptions, RecordBuffer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let batch = RecordBatch::try_from_iter([("passengers", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef)])?;
/// let mapping = Mapping::try_new(&batch.schema(), &MappingOptions::default())?;
/// let mut records = RecordBuffer::default();
/// Encoder::new(Arc::new(mapping)).encode(&batch, &mut records)?;
///
/// let form = CompactForm::of(&records);
/// let mut compact = [0; 100];
/// let len = form.compact(&records, 1, &mut compact).ok_or("it is an Example")?;
/// let frame = records.slice(1..2);
/// assert_eq!((frame.len(), len), (39, 6)); // a checksum, a length, a number
///
/// let mut restored = RecordBuffer::default();
/// assert!(form.restore(&compact, len, frame.len(), &mut restored));
/// assert_eq!(restored.bytes(), frame);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(into = "Vec<(Vec<u8>, u8)>", from = "Vec<(Vec<u8>, u8)>")]
pub struct CompactForm {
    features: Vec<CompactFeature>,
}

impl PartialEq for CompactForm {
    fn eq(&self, other: &Self) -> bool {
        // Templates follow from the rest.
        let parts = |feature: &CompactFeature| (feature.key.clone(), feature.list_tag);
        self.features.iter().map(parts).eq(other.features.iter().map(parts))
    }
}

/// Returns the key and the tag of the list of each feature.
impl From<CompactForm> for Vec<(Vec<u8>, u8)> {
    fn from(form: CompactForm) -> Self {
        form.features.into_iter().map(|CompactFeature { key, list_tag, .. }| (key, list_tag)).collect()
    }
}

impl From<Vec<(Vec<u8>, u8)>> for CompactForm {
    fn from(features: Vec<(Vec<u8>, u8)>) -> Self {
        let feature =
            |(key, list_tag): (Vec<u8>, u8)| CompactFeature { template: template(&key, list_tag), key, list_tag };
        Self { features: features.into_iter().map(feature).collect() }
    }
}

/// Returns the template for short values of a feature, if its name is short too.
fn template(key: &[u8], list_tag: u8) -> Option<Template> {
    let name = key.get(2..key.len().saturating_sub(1)).and_then(|name| str::from_utf8(name).ok())?;
    let kind = [FeatureKind::Bytes, FeatureKind::Float, FeatureKind::Int64];
    Template::new(name, kind.into_iter().find(|kind| kind.tag() == list_tag)?)
}

#[derive(Debug, Clone)]
struct CompactFeature {
    /// The entry's key, and the tag of its value.
    key: Vec<u8>,
    /// The tag of the list; 0 if no sampled record has a list.
    list_tag: u8,
    /// The template for short values, if the name is short too.
    template: Option<Template>,
}

/// The position of a feature in a record.
struct Entry {
    /// The key, and the tag of the value.
    key: Range<usize>,
    feature: Range<usize>,
}

impl CompactForm {
    /// The form of no records.
    pub const NONE: Self = Self { features: Vec::new() };

    /// Learns the form of these records from the first MiB. It is empty if it would shorten them by less than an
    /// eighth.
    pub fn of(records: &RecordBuffer) -> Self {
        let mut form = Self::default();
        let samples = (0..records.len()).take_while(|&record| records.record_start(record) < SAMPLE_BYTES).count();
        // Records that lack features may not determine the order of all features, so start with the most complete one.
        let complete = (0..samples).max_by_key(|&record| entries(records.payload(record)).count());
        for record in complete.into_iter().chain(0..samples) {
            form.learn(records.payload(record));
        }
        for feature in &mut form.features {
            feature.template = template(&feature.key, feature.list_tag);
        }
        let mut out = vec![0; MAX_COMPACT_LEN];
        let mut len =
            |record| form.compact(records, record, &mut out).unwrap_or(records.slice(record..record + 1).len());
        let compact_len: usize = (0..samples).map(&mut len).sum();
        if form.features.len() <= MAX_FEATURES && compact_len <= records.slice(0..samples).len() / 8 * 7 {
            form
        } else {
            Self::default()
        }
    }

    /// Whether no record has this form.
    pub fn is_empty(&self) -> bool {
        self.features.is_empty()
    }

    /// Adds the features of a record, whose order may differ from the order so far.
    fn learn(&mut self, payload: &[u8]) {
        let mut next = 0;
        for Entry { key, feature } in entries(payload) {
            let key = payload.get(key).unwrap_or_default();
            let list_tag = if feature.is_empty() { 0 } else { payload.get(feature.start).copied().unwrap_or_default() };
            let known = |features: &[CompactFeature]| features.iter().position(|known| known.key == key);
            let further = known(self.features.get(next..).unwrap_or_default());
            if let Some(further) = further {
                next += further;
            } else if let Some(before) = known(&self.features) {
                next -= 1;
                let moved = self.features.remove(before);
                self.features.insert(next, moved);
            } else if self.features.len() > MAX_FEATURES {
                return;
            } else {
                self.features.insert(next, CompactFeature { key: key.to_vec(), list_tag, template: None });
            }
            if let Some(known) = self.features.get_mut(next).filter(|known| known.list_tag == 0) {
                known.list_tag = list_tag;
            }
            next += 1;
        }
    }

    /// Writes the compact form of a record to the start of `out` and returns its length, at most 65,535 bytes. Returns
    /// `None` if the record has no compact form or `out` is too short; the contents of `out` are then unspecified. May
    /// write past the returned length.
    #[inline]
    pub fn compact(&self, records: &RecordBuffer, record: usize, out: &mut [u8]) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        compact(&self.features, records.bytes(), records.record_start(record)..records.record_end(record), out)
    }

    /// Restores a record [in compact form](Self::compact) and appends it to `out`. `len` is the length of the compact
    /// form and `frame_len` that of the original frame. Returns false and leaves `out` unchanged if the bytes are
    /// invalid.
    #[inline]
    pub fn restore(&self, compact: &[u8], len: usize, frame_len: usize, out: &mut RecordBuffer) -> bool {
        restore(&self.features, compact, len, frame_len, out).is_some()
    }
}

// The two functions below call no closures per feature: closures are not inlined into the processor-specific versions
// of a function.

/// Writes the compact form of the frame at a position in `records`.
#[cfg_attr(target_arch = "x86_64", multiversion::multiversion(targets("x86_64+avx2+bmi1+bmi2+lzcnt")))]
fn compact(known: &[CompactFeature], bytes: &[u8], frame: Range<usize>, out: &mut [u8]) -> Option<usize> {
    let end = frame.end.checked_sub(FOOTER_LEN)?;
    let record = bytes.get(..end)?;
    let features = delimited(record, frame.start + HEADER_LEN, FIELD_1)?;
    if features.end != end {
        return None;
    }
    let mut at = features.start;
    let mut pos = put(out, 0, bytes.get(end..frame.end)?)?;
    for known in known {
        // The bytes after the record may be read, but are not taken as part of it.
        if let Some(template) = &known.template
            && let Some(rest) = bytes.get(at..)
            && let Some(window) = rest.first_chunk()
            && let Some(len) = template.value_len(window)
            && let value = at + template.len()
            && value + len <= end
        {
            *out.get_mut(pos)? = ONE_FIELD as u8 + len as u8;
            pos = put_short(out, pos + 1, bytes, value..value + len)?;
            at = value + len;
        } else {
            pos = known.compact(record, &mut at, out, pos)?;
        }
    }
    if at == end && pos <= MAX_COMPACT_LEN { Some(pos) } else { None }
}

/// Appends a frame of `frame_len` bytes whose compact form is the first `len` bytes.
#[cfg_attr(target_arch = "x86_64", multiversion::multiversion(targets("x86_64+avx2+bmi1+bmi2+lzcnt")))]
fn restore(
    known: &[CompactFeature],
    compact: &[u8],
    len: usize,
    frame_len: usize,
    out: &mut RecordBuffer,
) -> Option<()> {
    let payload_len = frame_len.checked_sub(HEADER_LEN + FOOTER_LEN)?;
    // The tag is followed by the length of the features and the features. The length excludes its own bytes.
    let behind_tag = payload_len.checked_sub(1)?;
    let mut features_len = behind_tag.checked_sub(varint_len(behind_tag as u64))?;
    if varint_len(features_len as u64 + 1) + features_len + 1 == behind_tag {
        features_len += 1;
    }
    if varint_len(features_len as u64) + features_len != behind_tag {
        return None;
    }
    let checksum = compact.get(..len)?.first_chunk::<FOOTER_LEN>()?;
    let mut spare = out.spare(frame_len + SLACK);
    let start = spare.start();
    let end = start + frame_len - FOOTER_LEN;
    let bytes = &mut *spare.bytes;
    *bytes.get_mut(start..)?.first_chunk_mut()? = frame_header(payload_len);
    let mut pos = put_header(bytes, start + HEADER_LEN, FIELD_1, features_len);
    let mut at = FOOTER_LEN;
    for known in known {
        let code = u64::from(*compact.get(at)?);
        if let Some(template) = &known.template
            && let Some(value_len) = code.checked_sub(ONE_FIELD)
            && value_len <= template.longest().min(127 - ONE_FIELD as usize) as u64
        {
            let value = at + 1..at + 1 + value_len as usize;
            at = value.end;
            pos = template.put(bytes, pos, value_len as usize);
            pos = put_short(bytes, pos, compact, value)?;
        } else if code == NO_FEATURE {
            at += 1;
        } else {
            pos = known.restore(compact.get(..len)?, &mut at, bytes, pos, end)?;
        }
        if pos > end {
            return None;
        }
    }
    if pos != end || at != len {
        return None;
    }
    *bytes.get_mut(end..)?.first_chunk_mut()? = *checksum;
    spare.push_record(end + FOOTER_LEN);
    Some(())
}

impl CompactFeature {
    /// Writes the compact form of the next feature of a record, if it is this one.
    #[inline(never)]
    fn compact(&self, record: &[u8], at: &mut usize, out: &mut [u8], pos: usize) -> Option<usize> {
        let Some(Entry { feature, .. }) =
            entry(record, *at).filter(|entry| record.get(entry.key.clone()) == Some(&self.key))
        else {
            return put_number(out, pos, NO_FEATURE);
        };
        *at = feature.end;
        if feature.is_empty() {
            return put_number(out, pos, NO_LIST);
        }
        let list = delimited(record.get(..feature.end)?, feature.start, self.list_tag)?;
        if self.list_tag == 0 || list.end != feature.end {
            return None;
        }
        match delimited(record.get(..list.end)?, list.start, FIELD_1) {
            Some(value) if value.end == list.end => {
                let pos = put_number(out, pos, ONE_FIELD + value.len() as u64)?;
                put(out, pos, record.get(value)?)
            }
            _ => {
                let pos = put_number(out, pos, OTHER_LIST)?;
                let pos = put_number(out, pos, list.len() as u64)?;
                put(out, pos, record.get(list)?)
            }
        }
    }

    /// Writes the feature to the record. It ends at `end` or before.
    #[inline(never)]
    fn restore(&self, compact: &[u8], at: &mut usize, out: &mut [u8], pos: usize, end: usize) -> Option<usize> {
        let (code, mut next) = wire::varint(compact, *at).ok()?;
        let len = match code {
            NO_FEATURE | NO_LIST => 0,
            OTHER_LIST => {
                let (len, behind) = wire::varint(compact, next).ok()?;
                next = behind;
                len
            }
            one_field => one_field - ONE_FIELD,
        };
        let value = compact.get(next..)?.get(..usize::try_from(len).ok()?)?;
        *at = next + value.len();
        let list_len = if code == OTHER_LIST { value.len() } else { field_len(value.len()) };
        let feature_len = if code == NO_LIST { 0 } else { field_len(list_len) };
        let entry_len = self.key.len() + varint_len(feature_len as u64) + feature_len;
        if field_len(entry_len) > end.checked_sub(pos)? {
            return None;
        }
        let pos = put_header(out, pos, FIELD_1, entry_len);
        let pos = put(out, pos, &self.key)?;
        let pos = put_varint(out, pos, feature_len as u64);
        if code == NO_LIST {
            return Some(pos);
        }
        let pos = put_header(out, pos, self.list_tag, list_len);
        let pos = if code == OTHER_LIST { pos } else { put_header(out, pos, FIELD_1, value.len()) };
        put(out, pos, value)
    }
}

/// The features of a record, up to the first one that our writer would not write this way.
fn entries(payload: &[u8]) -> impl Iterator<Item = Entry> {
    let features = delimited(payload, 0, FIELD_1).filter(|features| features.end == payload.len());
    let mut at = features.map_or(payload.len(), |features| features.start);
    std::iter::from_fn(move || {
        let entry = entry(payload, at)?;
        at = entry.feature.end;
        Some(entry)
    })
}

/// The feature at `at` in a record, if our writer would write it this way.
fn entry(record: &[u8], at: usize) -> Option<Entry> {
    let entry = delimited(record, at, FIELD_1)?;
    let record = record.get(..entry.end)?;
    let name = delimited(record, entry.start, FIELD_1)?;
    let feature = delimited(record, name.end, FIELD_2)?;
    (feature.end == entry.end).then_some(Entry { key: entry.start..name.end + 1, feature })
}

/// The contents of the field with this tag at `at`, if its length is a minimal varint.
fn delimited(bytes: &[u8], at: usize, tag: u8) -> Option<Range<usize>> {
    if bytes.get(at) != Some(&tag) {
        return None;
    }
    let range = wire::delimited(bytes, at + 1).ok()?;
    (range.start - at - 1 == varint_len(range.len() as u64)).then_some(range)
}

fn put(out: &mut [u8], pos: usize, bytes: &[u8]) -> Option<usize> {
    let end = pos + bytes.len();
    out.get_mut(pos..end)?.copy_from_slice(bytes);
    Some(end)
}

fn put_number(out: &mut [u8], pos: usize, number: u64) -> Option<usize> {
    let mut varint = [0; MAX_VARINT_LEN];
    let len = put_varint(&mut varint, 0, number);
    put(out, pos, varint.get(..len)?)
}

/// Copies what is usually a few bytes. May also copy bytes after them.
#[inline(always)]
fn put_short(out: &mut [u8], pos: usize, bytes: &[u8], value: Range<usize>) -> Option<usize> {
    let end = pos + value.len();
    if value.len() <= SHORT
        && let Some(from) = bytes.get(value.start..value.start + SHORT)
        && let Some(to) = out.get_mut(pos..pos + SHORT)
    {
        to.copy_from_slice(from);
    } else {
        out.get_mut(pos..end)?.copy_from_slice(bytes.get(value)?);
    }
    Some(end)
}
