//! The Arrow types of a table's nested columns, and how their parts are found in files.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};
use tfr_arrow::nested::{item, key_and_value, struct_fields, with_struct_fields};
use tfr_files::{ColumnInFiles, unreadable};

/// Digits of a decimal.
const MAX_PRECISION: u8 = 38;

/// Why the columns of a table cannot be determined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Defect {
    /// The metadata contradicts itself, or is not valid.
    Damaged(String),
    /// The table needs this, which is not supported.
    Unsupported(String),
}

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

/// Parses the name of a type of decimals: `decimal(9, 2)`.
pub(crate) fn decimal(name: &str) -> Option<DataType> {
    let (precision, scale) = name.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
    let (precision, scale) = (precision.trim().parse().ok()?, scale.trim().parse().ok()?);
    let is_valid =
        (1..=MAX_PRECISION).contains(&precision) && u8::try_from(scale).is_ok_and(|scale| scale <= precision);
    is_valid.then_some(DataType::Decimal128(precision, scale))
}

/// Checks that no two columns have one name by `key`, or are one column of the files.
pub(crate) fn check_unique(columns: &[ColumnInFiles], key: fn(&str) -> String) -> Result<(), Defect> {
    let (mut names, mut in_files, mut ids) = (HashSet::new(), HashSet::new(), HashSet::new());
    let repeated = columns.iter().find(|column| {
        let is_new = names.insert(key(&column.name)) & in_files.insert(&column.in_file);
        !(is_new & column.id.is_none_or(|id| ids.insert(id)))
    });
    match repeated {
        Some(column) => {
            Err(Defect::Damaged(format!("the column {:?} has the name or the id of another one", column.name)))
        }
        None => Ok(()),
    }
}

/// A part that is matched by its position.
fn unnamed(name: &str, parts: Vec<ColumnInFiles>) -> ColumnInFiles {
    ColumnInFiles { name: name.to_owned(), in_file: name.to_owned(), parts, ..ColumnInFiles::default() }
}
