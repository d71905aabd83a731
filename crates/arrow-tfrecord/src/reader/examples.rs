//! Finds the examples of each record, whose features are then located as those of rows: [`ExampleLocator`].

use std::ops::Range;

use super::example_list::{Part, feature_at, not_examples, parts};
use super::locate::Locator;
use super::unknown::UnknownFeatures;
use super::wire::WireResult;

/// The examples of a block of records, and the number of examples of earlier rows.
#[derive(Debug)]
pub(super) struct ExampleLocator {
    /// Locates features in examples, each of which is a row.
    pub(super) locator: Locator,
    /// The examples of the block.
    pub(super) found: Vec<Range<usize>>,
    /// The end of each row's examples, for all appended rows.
    ends: Vec<usize>,
    /// The block's first row, and the position of its first example among all examples.
    block: (usize, usize),
    is_wanted: bool,
}

impl ExampleLocator {
    /// Creates a locator of the features `names`, which must be distinct.
    pub(super) fn new<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> Self {
        let is_wanted = names.len() > 0;
        let locator = Locator::new(names).only_examples(true).within_messages();
        Self { locator, found: Vec::new(), ends: Vec::new(), block: (0, 0), is_wanted }
    }

    /// Counts the features of examples that are not in `unknown`.
    pub(super) fn counting(self, unknown: UnknownFeatures) -> Self {
        Self { locator: self.locator.counting(unknown), is_wanted: true, ..self }
    }

    /// Whether any feature of the examples is read or counted.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Discards the previous block.
    pub(super) fn start_block(&mut self) {
        self.found.clear();
        self.block = (self.ends.len(), self.ends.last().copied().unwrap_or_default());
    }

    /// Discards all rows.
    pub(super) fn clear(&mut self) {
        self.ends.clear();
        self.start_block();
    }

    /// Records the examples of the record at `record` in `bytes`, and the ranges of its context.
    pub(super) fn split(
        &mut self,
        bytes: &[u8],
        record: Range<usize>,
        context: &mut Vec<Range<usize>>,
    ) -> WireResult<()> {
        context.clear();
        // Only the locator looks into examples otherwise.
        let mut is_checked = self.is_wanted;
        parts(bytes, record, |part| {
            match part {
                Part::Example(example) => {
                    if !is_checked && let Some(at) = feature_at(bytes, example.clone()) {
                        return Err(not_examples(at));
                    }
                    is_checked |= !example.is_empty();
                    self.found.push(example);
                }
                Part::Context(part) => context.push(part),
                Part::Unknown(_) => {}
            }
            Ok(())
        })?;
        self.ends.push(self.block.1 + self.found.len());
        Ok(())
    }

    /// The number of examples of the last record.
    pub(super) fn last_len(&self) -> usize {
        let before = self.ends.len().checked_sub(2).map_or(0, |row| self.ends[row]);
        self.ends.last().map_or(0, |end| end - before)
    }

    /// The row of an example, both counted within the block.
    pub(super) fn row_of(&self, example: usize) -> usize {
        let (first_row, first_example) = self.block;
        self.ends[first_row..].partition_point(|end| *end <= first_example + example)
    }

    /// The end of each row's examples, for all appended rows.
    pub(super) fn ends(&self) -> &[usize] {
        &self.ends
    }
}
