//! Sorts the records of one input in memory.

use std::mem;

use arrow_tfrecord::CompactForm;
use rayon::prelude::*;

use super::entry::Entry;
use super::key::Prefix;
use super::run::MemoryRun;
use super::slabs::FrameOrder;

/// Number of parts that entries are distributed to before they are sorted.
const PARTS: usize = 1 << PART_BITS;
const PART_BITS: u32 = 8;

/// Parts of at least this many entries are sorted by several threads.
const LONG_PART: usize = 1 << 16;

/// Sorts entries by key, on several threads if asked to.
pub(super) fn sort_entries(entries: &mut [Entry], parallel: bool) {
    let parts = distribute(entries);
    if !parallel {
        return parts.into_iter().for_each(sort_part);
    }
    // Long parts, which occur if keys are not spread evenly, are also divided among threads.
    parts.into_par_iter().for_each(|part| match part.len() {
        0..LONG_PART => sort_part(part),
        _ => part.par_sort_unstable_by_key(Entry::key),
    });
}

/// Distributes entries in place to parts, by the first bits in which their keys differ. The parts are ordered. If keys
/// are spread evenly, each part is short enough to be sorted in the L2 cache.
fn distribute(mut entries: &mut [Entry]) -> Vec<&mut [Entry]> {
    let first = entries.iter().map(Entry::key).min().unwrap_or_default();
    let last = entries.iter().map(Entry::key).max().unwrap_or_default();
    let (prefix, spare_bits) = (Prefix::new(first, last), Prefix::new(first, last).of(last).leading_zeros().min(63));
    let part_of = |entry: &Entry| ((prefix.of(entry.key()) << spare_bits) >> (64 - PART_BITS)) as usize;
    let mut lens = [0; PARTS];
    for entry in &*entries {
        if let Some(len) = lens.get_mut(part_of(entry)) {
            *len += 1;
        }
    }
    // The position for the next entry of each part.
    let mut ends = lens;
    let mut start = 0;
    for end in &mut ends {
        start += mem::replace(end, start);
    }
    let mut part_end = 0;
    for (part, len) in lens.iter().enumerate() {
        part_end += len;
        while let Some(&from) = ends.get(part).filter(|from| **from < part_end) {
            // Swaps the entry with the one at its destination, which may be the same position.
            let to = entries.get(from).map_or(part, part_of);
            let Some(end) = ends.get_mut(to) else { break };
            entries.swap(from, *end);
            *end += 1;
        }
    }
    let mut parts = Vec::with_capacity(PARTS);
    for len in lens {
        let (part, rest) = entries.split_at_mut(len);
        entries = rest;
        parts.push(part);
    }
    parts
}

/// Sorts entries by key, without a branch if they are of one group.
fn sort_part(part: &mut [Entry]) {
    let group = part.first().map(|first| first.group);
    if part.iter().all(|entry| Some(entry.group) == group) {
        part.sort_unstable_by_key(|entry| entry.key);
    } else {
        part.sort_unstable_by_key(Entry::key);
    }
}

/// Sorts records of equal keys. If `collapse` is set, keeps one of equal records, with their count.
pub(super) fn sort_ties(run: &mut MemoryRun, form: &CompactForm, collapse: bool) {
    let MemoryRun { entries, counts, slabs, .. } = run;
    let mut order = FrameOrder::default();
    let record = |entry: &Entry| entry.record(slabs, form);
    let mut any_equal = false;
    for ties in entries.chunk_by_mut(|one, next| one.key() == next.key()) {
        if ties.len() > 1 {
            ties.sort_unstable_by(|one, other| order.cmp(record(one), record(other)));
            any_equal = true;
        }
    }
    if !collapse || !any_equal {
        return;
    }
    counts.reserve_exact(entries.len());
    counts.push(1);
    entries.dedup_by(|next, kept| {
        let equal = next.key() == kept.key() && order.cmp(record(next), record(kept)).is_eq();
        match counts.last_mut() {
            Some(count) if equal => *count += 1,
            _ => counts.push(1),
        }
        equal
    });
}
