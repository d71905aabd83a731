//! [`FormDifference`]: why the records of two sets cannot stand in one.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::manifest::{MAPPING_OPTION, Manifest};
use crate::names::MANIFEST_NAME;

/// What the manifests of two sets tell differently of their records: the schema, the mapping or the record type. In one
/// set the records of both would look alike and mean something else.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FormDifference {
    /// The other set; a file, if no manifest lists it.
    pub other: PathBuf,
    /// What differs: `column "ts"`.
    pub part: String,
    /// What it is there.
    pub expected: String,
    /// What it is here.
    pub found: String,
}

impl fmt::Display for FormDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { other, part, expected, found } = self;
        write!(f, "{part} is {found}, in {} it is {expected}", other.display())
    }
}

impl FormDifference {
    /// The first difference of the manifest here from that of `other`. No manifest tells as much as one without types.
    pub(crate) fn find(here: Option<&Manifest>, other: &Path, there: Option<&Manifest>) -> Option<Self> {
        let forms = |manifest: Option<&Manifest>| manifest.map(parts).unwrap_or_default();
        let (here, there) = (forms(here), forms(there));
        let new = |part: &str, expected: String, found: String| {
            Some(Self { other: other.to_owned(), part: part.to_owned(), expected, found })
        };
        let told = |parts: &[Part]| match parts {
            [] => "not known".to_owned(),
            _ => format!("told by {MANIFEST_NAME}"),
        };
        if here.is_empty() != there.is_empty() {
            return new("the form of the records", told(&there), told(&here));
        }
        let missing = ("missing".to_owned(), "missing".to_owned());
        (0..here.len().max(there.len())).find_map(|at| {
            let (part, expected) = there.get(at).unwrap_or(&missing);
            let (same, found) = here.get(at).unwrap_or(&missing);
            match part == same {
                true if expected == found => None,
                true => new(part, expected.clone(), found.clone()),
                false => new(&format!("part {} of the form of the records", at + 1), part.clone(), same.clone()),
            }
        })
    }
}

/// A part of the form of records, and what it is.
type Part = (String, String);

/// What a manifest tells of the form of its records, in order; nothing, if it is of a set that was made of files of
/// which nothing was known. Notes beside the columns do not count.
fn parts(manifest: &Manifest) -> Vec<Part> {
    let record_type = manifest.record_type.map(|record_type| ("the record type".to_owned(), record_type.to_string()));
    let fields = manifest.schema.iter().flat_map(|schema| &schema.fields);
    let columns = fields.map(|field| {
        let nullable = if field.nullable { "" } else { ", not null" };
        (format!("column {:?}", field.name), format!("{}{nullable}", field.data_type))
    });
    let mapped = manifest.mapping.iter().flat_map(|mapping| match mapping.get("columns").and_then(Value::as_array) {
        Some(columns) => columns.iter().map(mapped_column).collect(),
        None => vec![("the mapping".to_owned(), mapping.to_string())],
    });
    let choices = manifest.options.get(MAPPING_OPTION).and_then(|options| options.get("choices"));
    let choices = choices.map(|choices| ("the choice of --map".to_owned(), choices.to_string()));
    record_type.into_iter().chain(columns).chain(mapped).chain(choices).collect()
}

/// A column of the mapping as the manifest has it: how its values stand in which features.
fn mapped_column(column: &Value) -> Part {
    let text = |value: &Value, key| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let name = format!("the mapping of column {:?}", text(column, "column"));
    let features = column.get("features").and_then(Value::as_array).into_iter().flatten();
    let features = features.map(|feature| {
        format!("{} feature {:?} ({})", text(feature, "kind"), text(feature, "name"), text(feature, "shape"))
    });
    let form = Some(text(column, "form")).filter(|form| !form.is_empty());
    (name, form.into_iter().chain(features).collect::<Vec<_>>().join(", "))
}
