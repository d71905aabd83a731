//! Columns, names and lists as messages show them.

use arrow::datatypes::{DataType, FieldRef};

/// Formats a column with its type.
pub(super) fn with_type(column: &FieldRef) -> String {
    format!("column {:?}: {}", column.name(), column.data_type())
}

pub(super) fn cast_to(column: &FieldRef, sql: &str) -> String {
    let name = quoted(column.name());
    format!("CAST({name} AS {sql}) AS {name}")
}

/// Returns SQL that selects one type of a union, or reports the type of each row. A cast would make the values of all
/// other types null.
pub(super) fn one_of_union(column: &FieldRef) -> Option<String> {
    let DataType::Union(fields, _) = column.data_type() else { return None };
    let mut fields = fields.iter().map(|(_, field)| field);
    let one = fields.find(|field| *field.data_type() != DataType::Null).map_or("", |field| field.name());
    let (name, one) = (quoted(column.name()), one.replace('\'', "''"));
    Some(format!("select one type of it, union_extract({name}, '{one}'), and which one a row has, union_tag({name})"))
}

/// Returns a name as it can be typed: quoted where the parser requires it.
pub(super) fn quoted(name: &str) -> String {
    match name.chars().all(|c| c.is_alphanumeric() || c == '_') {
        true if !name.starts_with(|c: char| c.is_numeric()) => name.to_owned(),
        _ => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// Returns the first names of a list that may be very long.
pub(super) fn listed(names: impl ExactSizeIterator<Item = String>) -> String {
    const SHOWN: usize = 20;
    let more = names.len().saturating_sub(SHOWN);
    let mut text = names.take(SHOWN).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}
