//! [`Rebuilt`]: what a query takes from a manifest instead of its arguments and the current state of its inputs.

use std::collections::BTreeMap;

use arrow_tfrecord::MappingOptions;
use datafusion_tfrecord::write::ExpectedSet;
use serde_json::{Map, Value};
use tfr_files::TableVersion;

use crate::error::{RebuildProblem, Result};

/// What a query takes from a manifest, so that it writes the same set again.
#[derive(Clone, Debug)]
pub struct Rebuilt {
    /// The set.
    pub expected: ExpectedSet,
    /// The mapping with its vocabularies, unless records are not mapped.
    pub mapping: Option<MappingOptions>,
    /// The versions of tables, by their names or paths.
    pub versions: BTreeMap<String, TableVersion>,
    /// The number and size of the files of the other tables, as the manifest records them.
    pub files: Map<String, Value>,
}

impl Rebuilt {
    /// Compares the files of tables with those that the manifest records.
    ///
    /// # Errors
    /// A table has other files.
    pub fn check_files(&self, found: &Map<String, Value>) -> Result<()> {
        for (table, expected) in &self.files {
            if let Some(found) = found.get(table).filter(|found| *found != expected) {
                let (expected, found) = (text(expected), text(found));
                return Err(RebuildProblem::Files { table: table.clone(), expected, found }.into());
            }
        }
        Ok(())
    }
}

fn text(files: &Value) -> String {
    let number = |key: &str| files.get(key).and_then(Value::as_u64).unwrap_or_default();
    format!("{} with {} bytes", crate::printer::counted(number("files"), "file"), number("bytes"))
}
