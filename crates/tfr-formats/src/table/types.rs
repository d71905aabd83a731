//! The Arrow types of a table's nested columns, and how their parts are found in files.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};
use tfr_arrow::nested::{item, key_and_value, struct_fields, with_struct_fields};
use tfr_files::{ColumnInFiles, unreadable};

/// The type of values, or why they cannot be read.
pub(crate) type Readable = Result<DataType, String>;

/// A type, and the parts of it.
pub(crate) type Parts = (Readable, Vec<ColumnInFiles>);

/// Returns the type of structs with these fields.
pub(crate) fn struct_of(fields: Vec<(FieldRef, ColumnInFiles)>) -> Parts {
    let (fields, parts): (Vec<FieldRef>, Vec<ColumnInFiles>) = fields.into_iter().unzip();
    let data_type = match fields.iter().find_map(|field| unreadable(field)) {
        Some(reason) => Err(reason.to_owned()),
        None => Ok(with_struct_fields(fields.into())),
    };
    (data_type, parts)
}

/// Returns the type of lists of such elements.
pub(crate) fn list_of((element, parts): Parts) -> Parts {
    let list = element.map(|element| DataType::List(Arc::new(Field::new("element", element, true))));
    (list, vec![unnamed("element", parts)])
}

/// Returns the type of maps with such keys and values.
pub(crate) fn map_of((key, key_parts): Parts, (value, value_parts): Parts) -> Parts {
    let entries = |key, value| {
        let fields = vec![Field::new("key", key, false), Field::new("value", value, true)];
        DataType::Map(Arc::new(Field::new("key_value", with_struct_fields(fields.into()), false)), false)
    };
    let map = key.and_then(|key| Ok(entries(key, value?)));
    (map, vec![unnamed("key", key_parts), unnamed("value", value_parts)])
}

/// Returns the parts of a type, whose fields have the same names in files.
pub(crate) fn parts_by_name(data_type: &DataType) -> Vec<ColumnInFiles> {
    let named = |field: &FieldRef| unnamed(field.name(), parts_by_name(field.data_type()));
    if let Some(fields) = struct_fields(data_type) {
        return fields.iter().map(named).collect();
    }
    if let Some((key, value)) = key_and_value(data_type) {
        return vec![named(key), named(value)];
    }
    item(data_type).map(named).into_iter().collect()
}

/// A part that is matched by its position.
fn unnamed(name: &str, parts: Vec<ColumnInFiles>) -> ColumnInFiles {
    ColumnInFiles { name: name.to_owned(), in_file: name.to_owned(), parts, ..ColumnInFiles::default() }
}
