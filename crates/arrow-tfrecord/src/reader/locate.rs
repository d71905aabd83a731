//! Locates the requested features of a record: [`Locator`].
//!
//! A record is scanned once. Records of one file are similar, so the feature that came next in the previous record is
//! tried first. Features that were not requested are skipped by their length: a [`Sieve`] detects them by a few bytes
//! of the name.

use std::collections::HashMap;
use std::ops::Range;

use super::entry::{entry_name, entry_value, feature_value};
use super::example_list::{entry_value_at, feature_at, not_examples};
use super::sieve::Sieve;
use super::unknown::UnknownFeatures;
use super::wire::{Malformed, WireResult, delimited, field};
use crate::error::{HAS_FEATURE_LISTS, MESSAGE_FOR_NAME};
use crate::feature::FeatureKind;
use crate::wire::{FIELD_1, FIELD_2, MAX_VARINT_LEN, put_varint};

/// Rows that are located and then decoded together: few enough that their records are still in the cache.
pub(super) const BLOCK_ROWS: usize = 128;

/// Features tried in the order of the previous record, before the slower lookup: the number of consecutive features
/// that may be missing.
const GUESSES: usize = 4;

/// The maximum number, and the maximum length, of names of skipped features that are remembered to avoid lookups.
const MAX_REMEMBERED: usize = 4096;
const MAX_REMEMBERED_LEN: usize = 256;

/// The position of the list of one feature in one record.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slot {
    start: usize,
    len: u32,
    /// `None` if the feature is absent or has no kind.
    pub(super) kind: Option<FeatureKind>,
    /// Whether the list was in several places and has been joined into a copy.
    spilled: bool,
}

impl Slot {
    /// The slot of a list at this range. `None` if it is longer than a message can be.
    #[inline]
    fn new(list: Range<usize>, kind: Option<FeatureKind>, spilled: bool) -> Option<Self> {
        Some(Self { start: list.start, len: u32::try_from(list.len()).ok()?, kind, spilled })
    }

    #[inline]
    pub(super) fn range(&self) -> Range<usize> {
        self.start..self.start + self.len as usize
    }
}

/// The positions of the requested features in each record of a block.
#[derive(Debug)]
pub(super) struct Locator {
    known: Vec<KnownFeature>,
    by_name: HashMap<Box<[u8]>, usize>,
    wanted: usize,
    sieve: Sieve,
    /// Whether a feature was found that is not requested.
    unwanted: bool,
    /// Whether feature lists are rejected, since they would otherwise be skipped.
    only_examples: bool,
    /// Whether records are within other messages, which could be records of another type instead.
    is_within: bool,
    /// Counts the features that no column reads. No feature is then skipped without a look at its whole name.
    unknown: Option<Box<UnknownFeatures>>,
    /// The slots, grouped by feature, [`BLOCK_ROWS`] of each.
    slots: Vec<Slot>,
    /// Lists from several places of a record, joined. Protobuf defines this as the same list.
    spill: Vec<u8>,
    parts: Vec<Range<usize>>,
}

#[derive(Debug)]
struct KnownFeature {
    /// The start of its map entry in the usual encoding: tag, length and bytes of the name, tag of the value.
    prefix: Box<[u8]>,
    /// The first bytes of the prefix as one integer, with the mask of their bits.
    head: u128,
    head_mask: u128,
    /// The last bytes of a longer prefix as one integer.
    tail: u128,
    slot: Option<usize>,
    /// The feature that last followed it.
    next: usize,
}

impl KnownFeature {
    fn new(prefix: Vec<u8>, slot: Option<usize>, next: usize) -> Self {
        let mut head = [0; HEAD_LEN];
        let mut head_mask = [0; HEAD_LEN];
        for ((head, mask), byte) in head.iter_mut().zip(&mut head_mask).zip(&prefix) {
            (*head, *mask) = (*byte, u8::MAX);
        }
        let (head, head_mask) = (u128::from_le_bytes(head), u128::from_le_bytes(head_mask));
        let tail = prefix.last_chunk().map_or(0, |tail| u128::from_le_bytes(*tail));
        Self { prefix: prefix.into(), head, head_mask, tail, slot, next }
    }

    /// The start of the value of the entry at `start`, if the entry is of this feature and in the usual encoding. A
    /// faster [`begins`](Self::begins): the caller checks that the entry extends that far. Also `None` for the last
    /// entries of `bytes`.
    #[inline]
    fn value_of(&self, bytes: &[u8], start: usize) -> Option<usize> {
        let head = u128::from_le_bytes(*bytes.get(start..)?.first_chunk()?);
        if (head ^ self.head) & self.head_mask != 0 {
            return None;
        }
        let value = start + self.prefix.len();
        if self.prefix.len() > HEAD_LEN {
            let tail = u128::from_le_bytes(*bytes.get(..value)?.last_chunk()?);
            let between = self.prefix.len() <= 2 * HEAD_LEN || bytes.get(start..value)? == &*self.prefix;
            return (tail == self.tail && between).then_some(value);
        }
        Some(value)
    }

    /// Whether the entry `bytes[pos..end]` is of this feature and in the usual encoding. The bytes after the entry
    /// allow short names to be compared in one step.
    #[inline]
    fn begins(&self, bytes: &[u8], pos: usize, end: usize) -> bool {
        match bytes[pos..].first_chunk() {
            Some(head) if self.prefix.len() <= end - pos => {
                (u128::from_le_bytes(*head) ^ self.head) & self.head_mask == 0
                    && (self.prefix.len() <= HEAD_LEN
                        || bytes[pos + HEAD_LEN..end].starts_with(&self.prefix[HEAD_LEN..]))
            }
            _ => bytes[pos..end].starts_with(&self.prefix),
        }
    }
}

const HEAD_LEN: usize = size_of::<u128>();

/// The virtual feature before the first one of every record.
const START: usize = 0;

impl Locator {
    /// Creates a locator of the features `names`, which must be distinct.
    pub(super) fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let start = KnownFeature::new(Vec::new(), None, START);
        let mut locator = Self {
            known: vec![start],
            by_name: HashMap::new(),
            wanted: 0,
            sieve: Sieve::default(),
            unwanted: false,
            only_examples: false,
            is_within: false,
            unknown: None,
            slots: Vec::new(),
            spill: Vec::new(),
            parts: Vec::new(),
        };
        let mut names: Vec<_> = names.into_iter().enumerate().collect();
        locator.wanted = names.len();
        locator.slots = vec![Slot::default(); names.len() * BLOCK_ROWS];
        // Our own writer sorts features by name.
        names.sort_by_key(|(_, name)| *name);
        let mut last = START;
        for (slot, name) in names {
            last = locator.insert(last, name.as_bytes(), Some(slot));
            locator.sieve.insert(&locator.known[last].prefix);
        }
        locator
    }

    /// Sets whether records with feature lists are rejected.
    pub(super) fn only_examples(mut self, only_examples: bool) -> Self {
        self.only_examples = only_examples;
        self
    }

    /// Rejects messages with the structure of a map entry in place of features.
    pub(super) fn within_messages(mut self) -> Self {
        self.is_within = true;
        self
    }

    /// Counts the features that are not in `unknown`.
    pub(super) fn counting(mut self, unknown: UnknownFeatures) -> Self {
        let mut names: Vec<_> = unknown.features.iter().filter(|name| !self.by_name.contains_key(*name)).collect();
        names.sort();
        for name in names {
            self.insert(START, name, None);
        }
        self.unknown = Some(Box::new(unknown));
        self
    }

    /// The counts of features that no column reads.
    pub(super) fn unknown(&mut self) -> Option<&mut UnknownFeatures> {
        self.unknown.as_deref_mut()
    }

    /// Registers a feature that came after `last`.
    fn insert(&mut self, last: usize, name: &[u8], slot: Option<usize>) -> usize {
        let mut prefix = vec![FIELD_1; 1 + MAX_VARINT_LEN];
        let len = put_varint(&mut prefix, 1, name.len() as u64);
        prefix.truncate(len);
        prefix.extend_from_slice(name);
        prefix.push(FIELD_2);
        let feature = self.known.len();
        self.known.push(KnownFeature::new(prefix, slot, self.known[last].next));
        self.known[last].next = feature;
        self.by_name.insert(name.into(), feature);
        feature
    }

    /// Starts a block of `rows` records.
    pub(super) fn start_block(&mut self, rows: usize) {
        self.slots.chunks_mut(BLOCK_ROWS).for_each(|slots| slots[..rows].fill(Slot::default()));
        self.spill.clear();
    }

    /// The slots of feature `feature` in the first `rows` records of the block.
    pub(super) fn slots(&self, feature: usize, rows: usize) -> &[Slot] {
        let start = feature * BLOCK_ROWS;
        &self.slots[start..start + rows]
    }

    /// The bytes that a slot's range refers to: `records`, or the joined lists.
    #[inline]
    pub(super) fn bytes_of<'a>(&'a self, slot: &Slot, records: &'a [u8]) -> &'a [u8] {
        if slot.spilled { &self.spill } else { records }
    }

    /// Maps a position in a slot's bytes to one in the records. `None` if the list was joined.
    pub(super) fn position_of(&self, slot: &Slot, at: usize) -> Option<usize> {
        (!slot.spilled).then_some(at)
    }

    /// Locates the requested features of the record at `record` in `records`, which is row `row` of the block.
    pub(super) fn locate(&mut self, records: &[u8], record: Range<usize>, row: usize) -> WireResult<()> {
        let bytes = &records[..record.end];
        let mut last = START;
        let mut pos = record.start;
        while pos < bytes.len() {
            let (features, end) = first_field(bytes, pos)?;
            match features {
                Some(features) => {
                    let located = self.features(records, features.clone(), row, &mut last);
                    // The message may be something else altogether.
                    located.map_err(|error| match entry_value_at(bytes, features) {
                        Some(at) if self.is_within => not_examples(at),
                        _ => error,
                    })?;
                }
                None if self.only_examples && bytes[pos] == FIELD_2 => {
                    return Err(Malformed { at: pos, reason: HAS_FEATURE_LISTS });
                }
                None if self.unknown.is_some() => self.count_lists(bytes, pos)?,
                None => {}
            }
            pos = end;
        }
        Ok(())
    }

    /// Counts the feature lists in the field at `pos` that no column reads.
    fn count_lists(&mut self, bytes: &[u8], pos: usize) -> WireResult<()> {
        let Some(unknown) = &mut self.unknown else { return Ok(()) };
        let Some(lists) = field(bytes, pos)?.message(2)? else { return Ok(()) };
        let bytes = &bytes[..lists.end];
        let mut pos = lists.start;
        while pos < bytes.len() {
            let list = field(bytes, pos)?;
            pos = list.end;
            if let Some(entry) = list.message(1)? {
                let name = entry_name(&bytes[..entry.end], entry.start)?;
                unknown.add_list(&bytes[name]);
            }
        }
        Ok(())
    }

    /// Locates the entries of a `Features` message.
    fn features(&mut self, records: &[u8], features: Range<usize>, row: usize, last: &mut usize) -> WireResult<()> {
        let bytes = &records[..features.end];
        let mut pos = features.start;
        while pos < bytes.len() {
            if self.unwanted {
                return self.some_features(bytes, pos, row, last);
            }
            pos = self.expected_entries(records, pos..bytes.len(), row, last);
            if pos < bytes.len() {
                let start = pos;
                let (entry, end) = first_field(bytes, pos)?;
                pos = end;
                match entry {
                    Some(entry) => self.entry(bytes, entry, row, last)?,
                    None => self.no_entry(bytes, start)?,
                }
            }
        }
        Ok(())
    }

    /// Handles a field of a `Features` message at `pos` that is not an entry.
    fn no_entry(&self, bytes: &[u8], pos: usize) -> WireResult<()> {
        match self.is_within && bytes[pos] == FIELD_2 {
            true => Err(not_examples(pos)),
            false => Ok(()),
        }
    }

    /// Locates the entries of the rest of a `Features` message, most of which may be skipped.
    fn some_features(&mut self, bytes: &[u8], mut pos: usize, row: usize, last: &mut usize) -> WireResult<()> {
        while pos < bytes.len() {
            let start = pos;
            let (entry, end) = first_field(bytes, pos)?;
            pos = end;
            let Some(entry) = entry else {
                self.no_entry(bytes, start)?;
                continue;
            };
            if !self.is_unwanted(bytes, &entry) {
                self.entry(bytes, entry, row, last)?;
            }
        }
        Ok(())
    }

    /// Records entries as long as each is short, requested, and of the feature expected next, as nearly all are.
    /// Returns the start of the first other entry. The bytes after the entries allow the last one to be compared in the
    /// same steps.
    #[inline]
    fn expected_entries(&mut self, records: &[u8], entries: Range<usize>, row: usize, last: &mut usize) -> usize {
        let Range { start: mut pos, end } = entries;
        let mut expected = self.known[*last].next;
        while pos < end
            && let Some([FIELD_1, len @ 0..0x80]) = records[pos..].first_chunk()
        {
            let known = &self.known[expected];
            let entry_end = pos + 2 + usize::from(*len);
            let Some(wanted) = known.slot.filter(|_| entry_end <= end) else { break };
            let Some(value) = known.value_of(records, pos + 2).filter(|value| *value <= entry_end) else { break };
            let Some(slot) = short_list(records, value, entry_end) else { break };
            let next = known.next;
            self.slots[wanted * BLOCK_ROWS + row] = slot;
            *last = expected;
            expected = next;
            pos = entry_end;
        }
        pos
    }

    #[inline]
    fn entry(&mut self, bytes: &[u8], entry: Range<usize>, row: usize, last: &mut usize) -> WireResult<()> {
        let mut guess = self.known[*last].next;
        for _ in 0..GUESSES {
            if self.is_usual(guess, bytes, &entry, row) {
                *last = guess;
                return Ok(());
            }
            guess = self.known[guess].next;
        }
        self.unusual_entry(&bytes[..entry.end], entry.start, row, last)
    }

    /// Records the entry if it is of this feature and in the usual encoding, and returns whether it is.
    #[inline]
    fn is_usual(&mut self, guess: usize, bytes: &[u8], entry: &Range<usize>, row: usize) -> bool {
        let known = &self.known[guess];
        if guess == START || !known.begins(bytes, entry.start, entry.end) {
            return false;
        }
        let value = entry.start + known.prefix.len();
        if let Some(wanted) = known.slot
            && let Some(slot) = short_list(bytes, value, entry.end)
        {
            self.slots[wanted * BLOCK_ROWS + row] = slot;
            return true;
        }
        let bytes = &bytes[..entry.end];
        let Some(feature) = rest(bytes, value) else { return false };
        if let Some(wanted) = known.slot {
            let Some(slot) = whole_list(bytes, feature) else { return false };
            self.slots[wanted * BLOCK_ROWS + row] = slot;
        }
        true
    }

    /// Whether an entry is in the usual encoding and can quickly be rejected as not requested.
    #[inline]
    fn is_unwanted(&self, bytes: &[u8], entry: &Range<usize>) -> bool {
        let value = self.sieve.unwanted_value(bytes, entry.start);
        value.is_some_and(|value| rest(&bytes[..entry.end], value).is_some())
    }

    /// Handles an entry that was not expected here, or that is not in the usual encoding.
    #[cold]
    fn unusual_entry(&mut self, bytes: &[u8], pos: usize, row: usize, last: &mut usize) -> WireResult<()> {
        let name = entry_name(bytes, pos)?;
        if is_message(bytes, pos, &name) {
            return Err(Malformed { at: name.start, reason: MESSAGE_FOR_NAME });
        }
        let feature = match self.by_name.get(&bytes[name.clone()]) {
            Some(feature) => {
                self.known[*last].next = *feature;
                *feature
            }
            None if let Some(unknown) = &mut self.unknown => {
                unknown.add(&bytes[name]);
                return Ok(());
            }
            None if !self.unwanted => {
                self.unwanted = true;
                return Ok(());
            }
            None if self.known.len() - self.wanted < MAX_REMEMBERED && name.len() <= MAX_REMEMBERED_LEN => {
                self.insert(*last, &bytes[name], None)
            }
            None => return Ok(()),
        };
        *last = feature;
        let Some(slot) = self.known[feature].slot else { return Ok(()) };
        self.parts.clear();
        let kind = entry_value(bytes, pos, &mut self.parts)?;
        self.slots[slot * BLOCK_ROWS + row] = self.join(bytes, kind).ok_or_else(|| too_long(pos))?;
        Ok(())
    }

    /// Joins the parts of a list. `None` if it is too long.
    fn join(&mut self, bytes: &[u8], kind: Option<FeatureKind>) -> Option<Slot> {
        match self.parts.as_slice() {
            [part] => Slot::new(part.clone(), kind, false),
            parts => {
                let start = self.spill.len();
                parts.iter().for_each(|part| self.spill.extend_from_slice(&bytes[part.clone()]));
                Slot::new(start..self.spill.len(), kind, true)
            }
        }
    }

    /// The list of a bare feature.
    pub(super) fn feature(&mut self, bytes: &[u8], feature: Range<usize>) -> WireResult<Slot> {
        if let Some(slot) = whole_list(&bytes[..feature.end], feature.start) {
            return Ok(slot);
        }
        self.parts.clear();
        let mut kind = None;
        feature_value(&bytes[..feature.end], feature.start, &mut kind, &mut self.parts)?;
        self.join(bytes, kind).ok_or_else(|| too_long(feature.start))
    }
}

/// Whether the name of the entry at `pos` is or contains a map entry itself, with a value, and its own value is missing.
/// Records that contain Examples have this structure.
pub(super) fn is_message(bytes: &[u8], pos: usize, name: &Range<usize>) -> bool {
    bytes.get(name.start) == Some(&FIELD_1)
        && entry_value_at(bytes, pos..bytes.len()).is_none()
        && entry_value_at(bytes, name.clone()).or_else(|| feature_at(bytes, name.clone())).is_some()
}

fn too_long(at: usize) -> Malformed {
    Malformed { at, reason: "a list of 4 GiB or more" }
}

/// The message in the field at `pos`, if it is field 1, and the position after the field.
#[inline]
fn first_field(bytes: &[u8], pos: usize) -> WireResult<(Option<Range<usize>>, usize)> {
    if bytes[pos] == FIELD_1 {
        let message = delimited(bytes, pos + 1)?;
        let end = message.end;
        return Ok((Some(message), end));
    }
    let field = field(bytes, pos)?;
    let end = field.end;
    Ok((field.message(1)?, end))
}

/// The start of the message whose length is at `pos`, if it extends exactly to the end of `bytes`.
#[inline]
fn rest(bytes: &[u8], pos: usize) -> Option<usize> {
    delimited(bytes, pos).ok().filter(|message| message.end == bytes.len()).map(|message| message.start)
}

/// The slot of the feature whose length is at `pos`, if its list extends to `end` and both lengths are of one byte. One
/// comparison detects this usual case.
#[inline]
fn short_list(bytes: &[u8], pos: usize, end: usize) -> Option<Slot> {
    const LENGTHS: u32 = 0x00ff_00ff;

    let word = u32::from_le_bytes(*bytes.get(pos..)?.first_chunk()?);
    // The lengths of the feature and of the list, with the tag of the list between them.
    let len = u32::try_from(end - pos).ok().filter(|len| (3..=0x80).contains(len))?;
    if word & LENGTHS != (len - 1) | (len - 3) << 16 {
        return None;
    }
    let kind = list_kind((word >> 8) as u8)?;
    Some(Slot { start: pos + 3, len: len - 3, kind: Some(kind), spilled: false })
}

/// The kind of a list with this tag.
#[inline]
fn list_kind(tag: u8) -> Option<FeatureKind> {
    match tag {
        0x0a => Some(FeatureKind::Bytes),
        0x12 => Some(FeatureKind::Float),
        0x1a => Some(FeatureKind::Int64),
        _ => None,
    }
}

/// The slot of the feature at `pos`, if its list extends to the end of `bytes`.
#[inline]
fn whole_list(bytes: &[u8], pos: usize) -> Option<Slot> {
    let Some(tag) = bytes.get(pos) else { return Some(Slot::default()) };
    let kind = list_kind(*tag)?;
    let start = rest(bytes, pos + 1)?;
    Slot::new(start..bytes.len(), Some(kind), false)
}
