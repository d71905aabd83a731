//! Locates the steps of the requested feature lists of a `tf.train.SequenceExample`: [`StepLocator`].

use std::collections::HashMap;
use std::ops::Range;

use arrow_buffer::{NullBuffer, NullBufferBuilder};

use super::entry::{entry_name, entry_steps};
use super::locate::{Locator, Slot, is_message};
use super::wire::{Malformed, WireResult, field};
use crate::error::MESSAGE_FOR_NAME;

/// The steps of each row.
#[derive(Debug)]
pub(super) struct Steps {
    /// Rows that have the feature list.
    pub(super) nulls: Option<NullBuffer>,
    /// The end of each row's steps.
    pub(super) ends: Vec<usize>,
}

/// The requested feature lists of a block of records, and the number of steps of earlier rows.
#[derive(Debug)]
pub(super) struct StepLocator {
    by_name: HashMap<Box<[u8]>, usize>,
    lists: Vec<List>,
    /// The feature lists of the current record.
    found: Vec<Vec<Range<usize>>>,
    /// Whether each of them exists.
    is_present: Vec<bool>,
}

#[derive(Debug)]
struct List {
    /// The steps of the block.
    slots: Vec<Slot>,
    /// The block's first row, and the position of its first step among all steps.
    block: (usize, usize),
    ends: Vec<usize>,
    nulls: NullBufferBuilder,
}

impl StepLocator {
    /// Creates a locator of the feature lists `names`, which must be distinct.
    pub(super) fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let by_name: HashMap<_, _> =
            names.into_iter().enumerate().map(|(number, name)| (name.as_bytes().into(), number)).collect();
        let list = || List { slots: Vec::new(), block: (0, 0), ends: Vec::new(), nulls: NullBufferBuilder::new(0) };
        Self {
            lists: by_name.iter().map(|_| list()).collect(),
            found: vec![Vec::new(); by_name.len()],
            is_present: vec![false; by_name.len()],
            by_name,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// Discards the previous block.
    pub(super) fn start_block(&mut self) {
        for list in &mut self.lists {
            list.slots.clear();
            list.block = (list.ends.len(), list.ends.last().copied().unwrap_or_default());
        }
    }

    /// Discards all rows.
    pub(super) fn clear(&mut self) {
        for list in &mut self.lists {
            *list = List { slots: Vec::new(), block: (0, 0), ends: Vec::new(), nulls: NullBufferBuilder::new(0) };
        }
    }

    /// The steps of a feature list in the block.
    pub(super) fn slots(&self, list: usize) -> &[Slot] {
        &self.lists[list].slots
    }

    /// The row of a step, both counted within the block.
    pub(super) fn row_of(&self, list: usize, step: usize) -> usize {
        let List { block: (first_row, first_step), ends, .. } = &self.lists[list];
        ends[*first_row..].partition_point(|end| *end <= first_step + step)
    }

    /// The steps of each row, for all appended rows.
    pub(super) fn of_all_rows(&self, list: usize) -> Steps {
        let List { ends, nulls, .. } = &self.lists[list];
        Steps { nulls: nulls.finish_cloned(), ends: ends.clone() }
    }

    /// Locates the requested feature lists of the record at `record` in `records`. `locator` stores joined lists.
    pub(super) fn locate(&mut self, locator: &mut Locator, records: &[u8], record: Range<usize>) -> WireResult<()> {
        let bytes = &records[..record.end];
        self.found.iter_mut().for_each(Vec::clear);
        self.is_present.fill(false);
        let mut pos = record.start;
        while pos < bytes.len() {
            let example = field(bytes, pos)?;
            pos = example.end;
            let Some(lists) = example.message(2)? else { continue };
            let bytes = &bytes[..lists.end];
            let mut pos = lists.start;
            while pos < bytes.len() {
                let list = field(bytes, pos)?;
                pos = list.end;
                let Some(entry) = list.message(1)? else { continue };
                let bytes = &bytes[..entry.end];
                let name = entry_name(bytes, entry.start)?;
                if is_message(bytes, entry.start, &name) {
                    return Err(Malformed { at: name.start, reason: MESSAGE_FOR_NAME });
                }
                if let Some(number) = self.by_name.get(&bytes[name]) {
                    self.is_present[*number] = true;
                    let found = &mut self.found[*number];
                    // The last entry of a name counts.
                    found.clear();
                    entry_steps(bytes, entry.start, found)?;
                }
            }
        }
        for ((list, found), is_present) in self.lists.iter_mut().zip(&self.found).zip(&self.is_present) {
            for feature in found {
                list.slots.push(locator.feature(bytes, feature.clone())?);
            }
            list.ends.push(list.ends.last().copied().unwrap_or_default() + found.len());
            list.nulls.append(*is_present);
        }
        Ok(())
    }
}
