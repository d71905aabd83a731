//! [`ExpectedSet`]: a set that a write must produce again.

use std::error::Error as StdError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use log::warn;
use tfrecord_shards::{FieldDescription, Manifest, ShardEntry, Sidecar};

use crate::error::{Error, ErrorKind};

/// A set that a write must produce again. Its shards are compared before they are published.
#[derive(Debug, Clone)]
pub struct ExpectedSet {
    manifest: Arc<Manifest>,
    location: String,
    is_equal: Arc<AtomicBool>,
}

impl ExpectedSet {
    /// Expects the set of this manifest. `location` is that of the set, which some sidecars contain.
    pub fn new(manifest: Manifest, location: String) -> Self {
        Self { manifest: Arc::new(manifest), location, is_equal: Arc::default() }
    }

    /// Whether the shards of a set have been compared, and are equal.
    pub fn is_equal(&self) -> bool {
        self.is_equal.load(Ordering::Acquire)
    }

    /// The location that sidecars contain.
    pub(super) fn location(&self) -> String {
        self.location.clone()
    }

    /// Compares the shards of a set that is to be published.
    pub(super) fn check(&self, found: &Manifest) -> Result<(), Error> {
        let differs = |shard: &str, expected: String, found: String| {
            let (shard, tool) = (shard.to_owned(), self.manifest.tool.clone());
            Err(Error::from(ErrorKind::NotRebuilt { shard, expected, found, tool }))
        };
        let count = |manifest: &Manifest| match manifest.shards.len() {
            1 => "1 shard".to_owned(),
            shards => format!("{shards} shards"),
        };
        if let Some((expected, found)) = difference_of_columns(&self.manifest, found) {
            return differs("the set", expected, found);
        }
        if self.manifest.shards.len() != found.shards.len() {
            return differs("the set", count(&self.manifest), count(found));
        }
        for (expected, found_shard) in self.manifest.shards.iter().zip(&found.shards) {
            let name = |shard: &ShardEntry, run: &str| shard.path.replace(run, "");
            let (path, found_path) = (name(expected, &self.manifest.run), name(found_shard, &found.run));
            if path != found_path {
                return differs(&expected.path, "this name".to_owned(), found_shard.path.clone());
            }
            let (figures, found_figures) = (text(expected), text(found_shard));
            if figures != found_figures {
                return differs(&expected.path, figures, found_figures);
            }
        }
        self.is_equal.store(true, Ordering::Release);
        Ok(())
    }

    /// Returns the difference that [`check`](Self::check) has found, if that is why a set was not published.
    pub(super) fn difference_in(error: &(dyn StdError + 'static)) -> Option<Error> {
        let mut chain = std::iter::successors(Some(error), |&error| error.source());
        match chain.find_map(|error| error.downcast_ref::<Error>())?.kind() {
            ErrorKind::NotRebuilt { shard, expected, found, tool } => {
                let (shard, expected, found, tool) = (shard.clone(), expected.clone(), found.clone(), tool.clone());
                Some(ErrorKind::NotRebuilt { shard, expected, found, tool }.into())
            }
            _ => None,
        }
    }

    /// Compares the sidecars, which other readers use.
    pub(super) fn check_sidecars(&self, found: &[Sidecar]) {
        for sidecar in found {
            let entry = tfrecord_shards::SidecarEntry::from(sidecar);
            let expected = self.manifest.sidecars.iter().find(|expected| expected.path == entry.path);
            if expected != Some(&entry) {
                warn!("{}: differs from the one that the manifest records", entry.path);
            }
        }
    }
}

/// Returns the first difference of the columns of two sets, which their shards need not show: a value may have the same
/// bytes in several types. Columns that are not recorded are not compared.
fn difference_of_columns(expected: &Manifest, found: &Manifest) -> Option<(String, String)> {
    let columns = |manifest: &Manifest| {
        let described = [&manifest.schema, &manifest.partition_columns].map(|columns| columns.as_ref());
        described.map(|columns| columns.map(|columns| columns.fields.iter().map(column).collect::<Vec<_>>()))
    };
    let pairs = columns(expected).into_iter().zip(columns(found));
    let known = pairs.filter_map(|(expected, found)| expected.zip(found));
    known.into_iter().find_map(|(expected, found)| {
        let counts = (expected.len() != found.len()).then(|| (counted(&expected), counted(&found)));
        let differing = expected.into_iter().zip(found).find(|(expected, found)| expected != found);
        differing.or(counts)
    })
}

fn column(field: &FieldDescription) -> String {
    format!("column {:?} of type {}", field.name, field.data_type)
}

fn counted(columns: &[String]) -> String {
    match columns.len() {
        1 => "1 column".to_owned(),
        count => format!("{count} columns"),
    }
}

fn text(shard: &ShardEntry) -> String {
    let ShardEntry { rows, file_bytes, crc32c, .. } = shard;
    format!("rows {rows}, bytes {file_bytes}, CRC-32C {crc32c:08x}")
}
