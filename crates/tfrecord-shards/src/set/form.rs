//! [`FormDifference`]: why the records of two sets cannot be combined.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};
use arrow_tfrecord::RecordType;
use serde_json::Value;
use tfr_arrow::nested::{item, map_children};

use crate::set::MANIFEST_NAME;
use crate::set::difference::FormDifference;
use crate::set::manifest::{MAPPING_OPTION, Manifest, SetDescription};
use crate::set::schema::{FieldDescription, SchemaDescription};

impl FormDifference {
    /// Returns the first difference between the manifest `here` and that of `other`. A missing manifest counts as one
    /// without types.
    pub(crate) fn find(here: Option<&Manifest>, other: &Path, there: Option<&Manifest>) -> Option<Self> {
        let parts =
            |manifest: Option<&Manifest>| manifest.map(|manifest| Form::of(manifest).parts()).unwrap_or_default();
        Self::between(parts(here), other, parts(there))
    }

    /// Returns the first difference between rows to append and the set at `out`.
    ///
    /// A column without nulls fits a nullable one, and Arrow's memory layout of strings, bytes and lists does not
    /// matter. Nulls must map to the same encoding.
    pub(crate) fn on_append(rows: &SetDescription, out: &Path, set: &Manifest) -> Option<Self> {
        let (mut rows, mut set) = (Form::described(rows), Form::of(set));
        let nulls: BTreeSet<_> =
            rows.columns.iter().filter(|column| column.may_hold_nulls()).map(|column| column.name.clone()).collect();
        for column in &mut rows.columns {
            let Some(there) = set.columns.iter_mut().find(|there| there.name == column.name) else { continue };
            column.nullable |= there.nullable;
            if column.arrow != there.arrow {
                // A dictionary has no more values than its keys can distinguish. So a dictionary column fits a plain
                // one, but not the other way around.
                column.forget_layout(true);
                there.forget_layout(false);
            }
        }
        let parts = |form: &Form<'_>| match form.parts() {
            parts if parts.is_empty() => parts,
            parts => parts.into_iter().chain(form.parts_of_appending(&nulls)).collect(),
        };
        Self::between(parts(&rows), out, parts(&set))
    }

    fn between(here: Vec<FormatPart>, other: &Path, there: Vec<FormatPart>) -> Option<Self> {
        let new = |part: &str, expected: String, found: String| {
            Some(Self { other: other.to_owned(), part: part.to_owned(), expected, found })
        };
        let source = |parts: &[FormatPart]| match parts {
            [] => "not known".to_owned(),
            _ => format!("from {MANIFEST_NAME}"),
        };
        if here.is_empty() != there.is_empty() {
            return new("the form of the records", source(&there), source(&here));
        }
        (0..here.len().max(there.len())).find_map(|at| match (there.get(at), here.get(at)) {
            (Some((part, expected)), Some((same, found))) if part == same => {
                if expected == found {
                    return None;
                }
                let (expected, found) = around_difference(expected, found);
                new(part, expected, found)
            }
            (Some((part, expected)), _) if !has(&here, part) => new(part, expected.clone(), "missing".to_owned()),
            (_, Some((part, found))) if !has(&there, part) => new(part, "missing".to_owned(), found.clone()),
            _ => {
                let (expected, found) = around_difference(&names(&there), &names(&here));
                new("the order of columns", expected, found)
            }
        })
    }
}

/// Whether `parts` contains a part of this name.
fn has(parts: &[FormatPart], name: &str) -> bool {
    parts.iter().any(|(part, _)| part == name)
}

/// Returns the columns among `parts`, in order.
fn names(parts: &[FormatPart]) -> String {
    parts.iter().filter_map(|(part, _)| part.strip_prefix(COLUMN)).collect::<Vec<_>>().join(", ")
}

/// Prefix of the name of a part that is a column; the column's name in quotes follows.
const COLUMN: &str = "column ";

/// A part of the record format, and its value.
type FormatPart = (String, String);

/// The record format as a manifest, or the description of rows to write, specifies it.
struct Form<'a> {
    record_type: Option<RecordType>,
    columns: Vec<Column>,
    mapping: Option<&'a Value>,
    options: &'a BTreeMap<String, Value>,
}

/// A column of the rows.
struct Column {
    name: String,
    /// The type as Arrow prints it.
    data_type: String,
    nullable: bool,
    /// The type itself, where it is needed and can be read.
    arrow: Option<DataType>,
}

impl<'a> Form<'a> {
    fn of(manifest: &'a Manifest) -> Self {
        let Manifest { record_type, schema, mapping, options, .. } = manifest;
        Self { record_type: *record_type, columns: columns(schema.as_ref()), mapping: mapping.as_ref(), options }
    }

    fn described(description: &'a SetDescription) -> Self {
        let SetDescription { record_type, schema, mapping, options, .. } = description;
        Self { record_type: *record_type, columns: columns(schema.as_ref()), mapping: mapping.as_ref(), options }
    }

    /// Returns the parts of the record format, in order; none for a set made of files without a manifest. Metadata of
    /// the columns is ignored.
    fn parts(&self) -> Vec<FormatPart> {
        let record_type = self.record_type.map(|record_type| ("the record type".to_owned(), record_type.to_string()));
        let columns = self.columns.iter().map(|Column { name, data_type, nullable, .. }| {
            let nullable = if *nullable { "" } else { ", not null" };
            (format!("{COLUMN}{name:?}"), format!("{data_type}{nullable}"))
        });
        let mapped = self.mapping.iter().flat_map(|mapping| match mapped_columns(mapping) {
            Some(columns) => columns.iter().map(mapped_column).collect(),
            None => vec![("the mapping".to_owned(), mapping.to_string())],
        });
        let choices =
            self.mapping_option("choices").map(|choices| ("the conversion of columns".to_owned(), choices.to_string()));
        record_type.into_iter().chain(columns).chain(mapped).chain(choices).collect()
    }

    /// Returns further parts that must match for an append, given the columns that have nulls in either set.
    fn parts_of_appending(&self, nulls: &BTreeSet<String>) -> Vec<FormatPart> {
        let columns = self.mapping.and_then(mapped_columns).unwrap_or_default();
        let columns = columns.iter().filter(|column| nulls.contains(&text(column, "column")));
        let nulls = columns.map(|column| {
            (format!("what becomes of nulls in column {:?}", text(column, "column")), text(column, "nulls"))
        });
        let vocabularies = self.mapping_option("vocabularies").and_then(Value::as_object).into_iter().flatten();
        let ranks =
            vocabularies.map(|(column, values)| (format!("the vocabulary of column {column:?}"), values.to_string()));
        nulls.chain(ranks).collect()
    }

    fn mapping_option(&self, name: &str) -> Option<&'a Value> {
        self.options.get(MAPPING_OPTION).and_then(|options| options.get(name))
    }
}

fn columns(schema: Option<&SchemaDescription>) -> Vec<Column> {
    let Some(schema) = schema else { return Vec::new() };
    let arrow = schema.to_schema().ok();
    let column = |(at, field): (usize, &FieldDescription)| Column {
        name: field.name.clone(),
        data_type: field.data_type.clone(),
        nullable: field.nullable,
        arrow: arrow.as_ref().and_then(|schema| schema.fields().get(at)).map(|field| field.data_type().clone()),
    };
    schema.fields.iter().enumerate().map(column).collect()
}

impl Column {
    fn may_hold_nulls(&self) -> bool {
        self.nullable || self.arrow.as_ref().is_none_or(DataType::is_nested)
    }

    /// Replaces a type by the common type of all that have the same values.
    fn forget_layout(&mut self, dictionaries: bool) {
        if let Some(data_type) = &self.arrow {
            self.data_type = plain(data_type, dictionaries).to_string();
        }
    }
}

/// Returns the common type of all that have the same values. A dictionary counts as its values if `dictionaries`.
pub(super) fn plain(data_type: &DataType, dictionaries: bool) -> DataType {
    let plain_field = |field: &FieldRef| {
        // Writers name the elements of lists differently.
        Arc::new(Field::new("item", plain(field.data_type(), dictionaries), field.is_nullable()))
    };
    match data_type {
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::LargeBinary | DataType::BinaryView => DataType::Binary,
        DataType::FixedSizeList(field, len) => DataType::FixedSizeList(plain_field(field), *len),
        DataType::Struct(_) => map_children(data_type, |child| plain(child, dictionaries)),
        DataType::Dictionary(_, values) if dictionaries => plain(values, dictionaries),
        list if let Some(field) = item(list) => DataType::List(plain_field(field)),
        other => other.clone(),
    }
}

fn mapped_columns(mapping: &Value) -> Option<&[Value]> {
    mapping.get("columns").and_then(Value::as_array).map(Vec::as_slice)
}

/// Formats a column of the manifest's mapping: the features that encode its values, and how.
fn mapped_column(column: &Value) -> FormatPart {
    let name = format!("the mapping of column {:?}", text(column, "column"));
    let features = column.get("features").and_then(Value::as_array).into_iter().flatten();
    let features = features.map(|feature| {
        format!("{} feature {:?} ({})", text(feature, "kind"), text(feature, "name"), text(feature, "shape"))
    });
    let form = Some(text(column, "form")).filter(|form| !form.is_empty());
    (name, form.into_iter().chain(features).collect::<Vec<_>>().join(", "))
}

/// Returns a member of an object, as text.
fn text(object: &Value, key: &str) -> String {
    match object.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    }
}

/// Returns both texts, or for long texts the parts around their first difference.
fn around_difference(one: &str, other: &str) -> (String, String) {
    /// Length that is still easy to read.
    const LONGEST: usize = 200;
    const BEFORE: usize = 20;

    if one.len().max(other.len()) <= LONGEST {
        return (one.to_owned(), other.to_owned());
    }
    let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    let start = same.saturating_sub(BEFORE);
    let part = |text: &str| {
        let before = if start > 0 { "..." } else { "" };
        let mut shown: String = before.chars().chain(text.chars().skip(start).take(LONGEST)).collect();
        if text.chars().count() > start + LONGEST {
            shown.push_str("...");
        }
        shown
    };
    (part(one), part(other))
}
