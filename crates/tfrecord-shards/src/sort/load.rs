//! [`LoadedRecords`]: the bytes of some records of a window.

use std::cmp::Ordering;
use std::hint::black_box;

use super::run::{Item, RunSet, Stored};
use super::walk::{Place, Window};
use crate::error::Result;

/// Bytes that are rather read than skipped.
const GAP: u64 = 4 << 10;

/// The place of a record that is not in a file.
const IN_MEMORY: usize = usize::MAX;

/// Bytes that two long records are compared by.
const COMPARE_BYTES: usize = 64 << 10;

/// Records that are fetched from memory at the same time.
const FETCH: usize = 16;

/// The bytes of some records of a window, in few and large reads.
#[derive(Debug, Default)]
pub(super) struct LoadedRecords {
    /// As long as it ever was, which saves clearing it.
    bytes: Vec<u8>,
    /// Where the frame of each item of the window is that was asked for, or [`IN_MEMORY`].
    at: Vec<usize>,
    wanted: Vec<u32>,
}

impl LoadedRecords {
    /// Reads the records of these places in the window's order.
    pub(super) fn load(&mut self, set: &RunSet, window: &Window, places: &[Place]) -> Result<()> {
        self.wanted.clear();
        self.wanted.extend(places.iter().map(|place| place.item));
        // Items stand by run, and in order within it, as their records do.
        if places.len() == window.items.len() {
            self.wanted.clear();
            self.wanted.extend((0..).take(places.len()));
        } else {
            self.wanted.sort_unstable();
        }
        self.at.resize(window.items.len().max(self.at.len()), 0);
        let items = self.wanted.iter().map(|&number| window.item(number));
        let in_file = items.filter(|item| matches!(set.stored(item), Some(Stored::File(_))));
        let len = in_file.map(|item| item.len as usize).sum::<usize>();
        if self.bytes.len() < len {
            self.bytes.reserve_exact(len - self.bytes.len());
            self.bytes.resize(len, 0);
        }
        let mut filled = 0;
        let mut wanted = self.wanted.iter().map(|&number| (number, window.item(number))).peekable();
        while let Some((first_number, first)) = wanted.next() {
            let Some(Stored::File(file)) = set.stored(&first) else {
                if let Some(at) = self.at.get_mut(first_number as usize) {
                    *at = IN_MEMORY;
                }
                continue;
            };
            let mut end = first.place + u64::from(first.len);
            if let Some(at) = self.at.get_mut(first_number as usize) {
                *at = filled;
            }
            while let Some((number, item)) =
                wanted.next_if(|(_, item)| item.run == first.run && item.place <= end.saturating_add(GAP))
            {
                if let Some(at) = self.at.get_mut(number as usize) {
                    *at = filled + (item.place - first.place) as usize;
                }
                end = item.place + u64::from(item.len);
            }
            let until = filled + (end - first.place) as usize;
            if self.bytes.len() < until {
                self.bytes.resize(until, 0);
            }
            set.read(file, self.bytes.get_mut(filled..until).unwrap_or_default(), first.place)?;
            filled = until;
        }
        Ok(())
    }

    /// The frame of a record of the window that has been loaded.
    #[inline]
    pub(super) fn frame<'a>(&'a self, set: &'a RunSet, window: &Window, place: &Place) -> &'a [u8] {
        match self.at.get(place.item as usize) {
            None | Some(&IN_MEMORY) => set.memory_frame(&window.item(place.item)).unwrap_or_default(),
            Some(&start) => self.bytes.get(start..start + place.len as usize).unwrap_or_default(),
        }
    }

    /// Gives memory back that single long records have taken.
    pub(super) fn shrink(&mut self, len: usize) {
        if self.bytes.len() > len {
            self.bytes.truncate(len);
            self.bytes.shrink_to_fit();
        }
    }
}

/// Hands on frames that lie scattered in memory. Several are asked for at a time, so that the waits overlap.
#[inline]
pub(super) fn fetch<'a>(frames: impl Iterator<Item = &'a [u8]>, mut each: impl FnMut(&'a [u8])) {
    let mut frames = frames.fuse();
    let mut batch: [&[u8]; FETCH] = [&[]; FETCH];
    loop {
        let mut filled = 0;
        let mut touched = 0u8;
        for (slot, frame) in batch.iter_mut().zip(&mut frames) {
            *slot = frame;
            filled += 1;
        }
        for frame in batch.iter().take(filled) {
            touched ^= frame.first().copied().unwrap_or_default() ^ frame.last().copied().unwrap_or_default();
        }
        black_box(touched);
        batch.iter().take(filled).for_each(|frame| each(frame));
        if filled < FETCH {
            return;
        }
    }
}

/// Compares records that are too long to be loaded together.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    one: Vec<u8>,
    other: Vec<u8>,
}

impl Comparison {
    /// By length, then bytes.
    pub(super) fn compare(&mut self, set: &RunSet, one: &Item, other: &Item) -> Result<Ordering> {
        if one.len != other.len {
            return Ok(one.len.cmp(&other.len));
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

    /// Sorts places of a window's order, which have the same key, by length, then bytes.
    pub(super) fn sort(&mut self, set: &RunSet, items: &[Item], places: &mut [Place]) -> Result<()> {
        if places.len() < 2 {
            return Ok(());
        }
        // A merge sort, since those of the standard library have no way to fail.
        let (low, high) = places.split_at_mut(places.len() / 2);
        self.sort(set, items, low)?;
        self.sort(set, items, high)?;
        let mut merged = Vec::with_capacity(low.len() + high.len());
        let (mut low, mut high) = (low.iter().copied().peekable(), high.iter().copied().peekable());
        while let (Some(one), Some(other)) = (low.peek(), high.peek()) {
            let item = |place: &Place| items.get(place.item as usize).copied().unwrap_or_default();
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
