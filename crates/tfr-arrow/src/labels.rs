//! The names of the labels that a column of integers numbers from 0, in the metadata of its field.

use std::sync::Arc;

use arrow_schema::{Field, FieldRef};

/// The key in the metadata of a field. Its value is the names, one a line.
pub const LABELS_KEY: &str = "tfr_sql.labels";

/// Adds the names of labels to a field. Adds no names if one of them contains a line break.
///
/// ```
/// use arrow_schema::{DataType, Field};
/// use tfr_arrow::labels::{labels, with_labels};
///
/// let field = with_labels(Field::new("label", DataType::Int64, true), &["cat".to_owned(), "dog".to_owned()]);
/// assert_eq!(labels(&field), Some(vec!["cat".to_owned(), "dog".to_owned()]));
/// ```
#[must_use]
pub fn with_labels(mut field: Field, names: &[String]) -> Field {
    if !names.is_empty() && !names.iter().any(|name| name.contains(['\n', '\r'])) {
        field.metadata_mut().insert(LABELS_KEY.to_owned(), names.join("\n"));
    }
    field
}

/// Returns the names of the labels of a field, if it has some.
pub fn labels(field: &Field) -> Option<Vec<String>> {
    let text = field.metadata().get(LABELS_KEY)?;
    Some(text.split('\n').map(str::to_owned).collect())
}

/// Returns the field without names of labels.
pub fn without_labels(field: &FieldRef) -> FieldRef {
    if !field.metadata().contains_key(LABELS_KEY) {
        return Arc::clone(field);
    }
    let mut field = field.as_ref().clone();
    field.metadata_mut().remove(LABELS_KEY);
    Arc::new(field)
}
