//! [`UnknownFeatures`]: counts the features of records that no column of the schema reads.
//!
//! A schema that was inferred from the first records lacks the features that only later records have. Without a count,
//! their values would be dropped silently.

use std::collections::{BTreeMap, HashSet};

use tfrecord_framing::Position;

use crate::feature::FeaturePlace;
use crate::mapping::Mapping;

/// The maximum number of distinct names that are counted.
const MAX_NAMES: usize = 1000;

/// A feature of records or of the examples in them, or a feature list, that no column reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownFeature {
    /// Its name.
    pub name: String,
    /// Number of records that have it.
    pub records: u64,
    /// The first of these records.
    pub first: Position,
}

/// The names of all features that columns read, and the counts of others.
#[derive(Debug, Clone, Default)]
pub(super) struct UnknownFeatures {
    /// Including those of columns that are not requested.
    pub(super) features: HashSet<Box<[u8]>>,
    pub(super) lists: HashSet<Box<[u8]>>,
    /// The names found in the current record.
    found: Vec<Box<[u8]>>,
    counts: BTreeMap<Box<[u8]>, (u64, Position)>,
}

impl UnknownFeatures {
    /// Counts the features of records, or of the examples in them, that `mapping` does not read.
    pub(super) fn of(mapping: &Mapping, of_examples: bool) -> Self {
        let mut unknown = Self::default();
        for feature in mapping.columns().iter().flat_map(|column| &column.features) {
            let names = match feature.place() {
                FeaturePlace::Steps => &mut unknown.lists,
                place if of_examples == (place == FeaturePlace::Items) => &mut unknown.features,
                _ => continue,
            };
            names.insert(feature.name.as_bytes().into());
        }
        unknown
    }

    /// Adds a feature of the current record that is not in [`features`](Self::features).
    pub(super) fn add(&mut self, name: &[u8]) {
        // A feature without a name cannot become a column.
        if !name.is_empty() && !self.found.iter().any(|found| **found == *name) {
            self.found.push(name.into());
        }
    }

    /// Adds a feature list of the current record.
    pub(super) fn add_list(&mut self, name: &[u8]) {
        if !self.lists.contains(name) {
            self.add(name);
        }
    }

    /// Ends the current record.
    pub(super) fn end_record(&mut self, position: Position) {
        for name in self.found.drain(..) {
            if let Some((records, _)) = self.counts.get_mut(&name) {
                *records += 1;
            } else if self.counts.len() < MAX_NAMES {
                self.counts.insert(name, (1, position));
            }
        }
    }

    /// Removes and returns the counts since the last call.
    pub(super) fn take(&mut self) -> Vec<UnknownFeature> {
        let counts = std::mem::take(&mut self.counts);
        let counts = counts.into_iter().map(|(name, (records, first))| UnknownFeature {
            name: String::from_utf8_lossy(&name).into_owned(),
            records,
            first,
        });
        counts.collect()
    }
}
