//! [`LoadedRecords`]: loads some records of a window.

use std::cmp::Ordering;
use std::mem;

use prefetch_index::prefetch_index;

use super::entry::Item;
use super::merge::{Window, WindowPlace};
use super::run::RunSet;
use super::slabs::{FrameOrder, LocatedRecord, RecordLocation};
use crate::error::Result;

/// Gaps up to this length in bytes are read rather than skipped.
const GAP: u64 = 4 << 10;

/// Marks a record that is not in a file.
const IN_MEMORY: RecordLocation = RecordLocation::NOWHERE;

/// Bytes of two long records that are compared at a time.
const COMPARE_BYTES: usize = 64 << 10;

/// Number of records prefetched before the first of them is used.
const FETCH: usize = 16;

/// Some records of a window, loaded in few, large reads.
#[derive(Debug, Default)]
pub(super) struct LoadedRecords {
    /// Never shortened, which saves clearing it.
    bytes: Vec<u8>,
    /// Where each requested item of the window is, or [`IN_MEMORY`].
    at: Vec<RecordLocation>,
    wanted: Vec<u32>,
}

impl LoadedRecords {
    /// Reads the records of these places in the window's order.
    pub(super) fn load(&mut self, set: &RunSet, window: &Window, places: &[WindowPlace]) -> Result<()> {
        self.wanted.clear();
        self.wanted.extend(places.iter().map(|place| place.item));
        // Items are grouped by run, or by bucket and run, and within that are in the order of their records.
        if places.len() == window.items.len() {
            self.wanted.clear();
            self.wanted.extend((0..).take(places.len()));
        } else {
            self.wanted.sort_unstable();
        }
        self.at.resize(window.items.len().max(self.at.len()), RecordLocation::default());
        let items = self.wanted.iter().map(|&number| window.item(number));
        let in_file = items.filter(|item| set.place(item).is_some());
        let len = in_file.map(|item| item.location.len(item.len) as usize).sum::<usize>();
        if self.bytes.len() < len {
            self.bytes.reserve_exact(len - self.bytes.len());
            self.bytes.resize(len, 0);
        }
        let mut filled = 0;
        let mut wanted = self.wanted.iter().map(|&number| (number, window.item(number))).peekable();
        while let Some((first_number, first)) = wanted.next() {
            let Some((file, place)) = set.place(&first) else {
                if let Some(at) = self.at.get_mut(first_number as usize) {
                    *at = IN_MEMORY;
                }
                continue;
            };
            let start = first.location.offset();
            let end_of = |item: &Item| item.location.offset() + u64::from(item.location.len(item.len));
            let mut end = end_of(&first);
            if let Some(at) = self.at.get_mut(first_number as usize) {
                *at = first.location.at(filled);
            }
            while let Some((number, item)) =
                wanted.next_if(|(_, item)| item.run == first.run && item.location.offset() <= end.saturating_add(GAP))
            {
                if let Some(at) = self.at.get_mut(number as usize) {
                    *at = item.location.at(filled + (item.location.offset() - start) as usize);
                }
                end = end_of(&item);
            }
            let until = filled + (end - start) as usize;
            if self.bytes.len() < until {
                self.bytes.resize(until, 0);
            }
            set.read(file, self.bytes.get_mut(filled..until).unwrap_or_default(), place)?;
            filled = until;
        }
        Ok(())
    }

    /// Returns loaded records, in the order of these places.
    #[inline]
    pub(super) fn records<'a>(
        &'a self,
        set: &'a RunSet,
        window: &'a Window,
        places: &'a [WindowPlace],
    ) -> impl Iterator<Item = LocatedRecord<'a>> {
        places.iter().enumerate().map(move |(number, place)| {
            if let Some(later) = places.get(number + FETCH) {
                prefetch_index(&self.at, later.item as usize);
            }
            self.record(set, window, place)
        })
    }

    /// Returns a loaded record of the window.
    #[inline]
    pub(super) fn record<'a>(&'a self, set: &'a RunSet, window: &Window, place: &WindowPlace) -> LocatedRecord<'a> {
        match self.at.get(place.item as usize) {
            None | Some(&IN_MEMORY) => set.memory_record(&window.item(place.item)).unwrap_or_default(),
            Some(&location) => {
                let bytes = self.bytes.get(location.offset() as usize..).unwrap_or_default();
                LocatedRecord::new(bytes, set.form(|| window.item(place.item).run), location, place.len)
            }
        }
    }

    /// Frees memory allocated for single long records.
    pub(super) fn shrink(&mut self, len: usize) {
        if self.bytes.len() > len {
            self.bytes.truncate(len);
            self.bytes.shrink_to_fit();
        }
    }
}

/// Passes on records that are scattered in memory, prefetching the next ones.
#[inline]
pub(super) fn fetch<'a>(records: impl Iterator<Item = LocatedRecord<'a>>, mut each: impl FnMut(LocatedRecord<'a>)) {
    let mut ahead = [LocatedRecord::default(); FETCH];
    let mut asked = 0;
    for record in records {
        record.prefetch();
        if let Some(slot) = ahead.get_mut(asked % FETCH) {
            let next = mem::replace(slot, record);
            if asked >= FETCH {
                each(next);
            }
        }
        asked += 1;
    }
    (asked.saturating_sub(FETCH)..asked).filter_map(|at| ahead.get(at % FETCH)).for_each(|record| each(*record));
}

/// Compares records that are too long to be loaded together.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    one: Vec<u8>,
    other: Vec<u8>,
}

impl Comparison {
    /// Compares by length, then bytes.
    pub(super) fn compare(&mut self, set: &RunSet, one: &Item, other: &Item) -> Result<Ordering> {
        if one.len != other.len {
            return Ok(one.len.cmp(&other.len));
        }
        if one.location.compact_len().is_some() || other.location.compact_len().is_some() {
            return self.compare_whole(set, one, other);
        }
        let len = one.len as usize;
        let mut from = 0;
        while from < len {
            let part = COMPARE_BYTES.min(len - from);
            self.one.resize(part, 0);
            self.other.resize(part, 0);
            set.read_part(one, from as u64, &mut self.one)?;
            set.read_part(other, from as u64, &mut self.other)?;
            match self.one.cmp(&self.other) {
                Ordering::Equal => from += part,
                unequal => return Ok(unequal),
            }
        }
        Ok(Ordering::Equal)
    }

    /// Compares records of which at least one is compact, and so not long.
    fn compare_whole(&mut self, set: &RunSet, one_item: &Item, other_item: &Item) -> Result<Ordering> {
        for (item, bytes) in [(one_item, &mut self.one), (other_item, &mut self.other)] {
            bytes.resize(item.location.len(item.len) as usize, 0);
            set.read_part(item, 0, bytes)?;
        }
        let one = LocatedRecord::new(&self.one, set.form(|| one_item.run), one_item.location, one_item.len);
        let other = LocatedRecord::new(&self.other, set.form(|| other_item.run), other_item.location, other_item.len);
        Ok(FrameOrder::default().cmp(one, other))
    }

    /// Sorts places of a window's order that have the same key, by length, then bytes.
    pub(super) fn sort(&mut self, set: &RunSet, items: &[Item], places: &mut [WindowPlace]) -> Result<()> {
        if places.len() < 2 {
            return Ok(());
        }
        // A merge sort, because those of the standard library cannot return errors.
        let (low, high) = places.split_at_mut(places.len() / 2);
        self.sort(set, items, low)?;
        self.sort(set, items, high)?;
        let mut merged = Vec::with_capacity(low.len() + high.len());
        let (mut low, mut high) = (low.iter().copied().peekable(), high.iter().copied().peekable());
        while let (Some(one), Some(other)) = (low.peek(), high.peek()) {
            let item = |place: &WindowPlace| items.get(place.item as usize).copied().unwrap_or_default();
            let next = match self.compare(set, &item(one), &item(other))? {
                Ordering::Greater => high.next(),
                Ordering::Less | Ordering::Equal => low.next(),
            };
            merged.extend(next);
        }
        merged.extend(low.chain(high));
        places.copy_from_slice(&merged);
        Ok(())
    }
}
