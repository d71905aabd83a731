//! Merges the schemas of many files into one.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use tfr_arrow::common_type::{LeafRule, TypeConflict, checked_rule, common_type_or};
use tfr_arrow::convert::{can_convert, shares_fields};
use tfr_arrow::nested::{item, key_and_value, same_type};
use tfr_arrow::sql::sql_type;

use crate::error::{ErrorKind, Result};
use crate::schema::extension::{same_extension, without_extension};

/// How the types of a column in different files are merged.
#[derive(Debug, Clone, Copy)]
pub enum Joining {
    /// The types must be equal.
    Same,
    /// The common type, or the rule's result for types without one.
    Common(LeafRule),
}

impl Joining {
    fn join(self, left: &DataType, right: &DataType) -> Result<DataType, TypeConflict> {
        match self {
            Self::Common(rule) => common_type_or(left, right, rule),
            Self::Same if left == &DataType::Null => Ok(right.clone()),
            Self::Same if right == &DataType::Null || same_type(left, right) => Ok(left.clone()),
            Self::Same => Err(TypeConflict { path: String::new(), left: left.clone(), right: right.clone() }),
        }
    }
}

/// A column of the merged schema.
struct Column {
    field: Field,
    /// Number of files that have the column.
    files: usize,
}

/// Merges schemas by column name. Columns are in the order in which they first occur.
///
/// A column that some files lack is nullable. A column in `types` gets its type from there, if the values of every
/// file can be converted to it. The types of other columns are merged as `joining` specifies.
pub fn merge(
    schemas: &[SchemaRef],
    types: Option<&Schema>,
    joining: Joining,
    file_name: impl Fn(usize) -> String,
) -> Result<SchemaRef> {
    let mut columns: Vec<Column> = Vec::new();
    let mut positions: HashMap<&str, usize> = HashMap::new();
    for (file, schema) in schemas.iter().enumerate() {
        let mut names = HashSet::new();
        for field in schema.fields() {
            if !names.insert(field.name()) {
                return Err(ErrorKind::DuplicateColumn { file: file_name(file), column: field.name().clone() }.into());
            }
            let declared = types.and_then(|types| types.field_with_name(field.name()).ok());
            if let Some(declared) = declared {
                check_convertible(declared, schemas, file, field.data_type(), &file_name)?;
            }
            let column = match positions.entry(field.name()) {
                Entry::Vacant(entry) => {
                    entry.insert(columns.len());
                    let field = declared.unwrap_or(field.as_ref());
                    columns.push(Column { field: field.clone(), files: 1 });
                    continue;
                }
                Entry::Occupied(entry) => &mut columns[*entry.get()],
            };
            column.files += 1;
            let nullable = column.field.is_nullable() || field.is_nullable();
            if declared.is_none() {
                let data_type = joining
                    .join(column.field.data_type(), field.data_type())
                    .map_err(|_| conflict(schemas, file, field, joining, &file_name))?;
                // If the type of a column is unknown, so is everything else about it.
                if column.field.data_type() == &DataType::Null {
                    column.field = field.as_ref().clone();
                } else if field.data_type() != &DataType::Null && !same_extension(&column.field, field)
                    || data_type != *column.field.data_type()
                {
                    // Not all values are of the extension type, or are stored as it specifies.
                    column.field = without_extension(column.field.clone());
                }
                column.field = column.field.clone().with_data_type(data_type);
            }
            column.field.set_nullable(nullable);
        }
    }
    if let (Some(types), false) = (types, schemas.is_empty()) {
        for declared in types.fields() {
            check_known(declared, schemas, &file_name)?;
        }
    }
    let fields = columns.into_iter().map(|Column { field, files }| {
        let nullable = field.is_nullable() || files < schemas.len();
        field.with_nullable(nullable)
    });
    Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
}

/// Creates the error for a file whose column type has no common type with those of earlier files.
fn conflict(
    schemas: &[SchemaRef],
    file: usize,
    field: &Field,
    joining: Joining,
    file_name: impl Fn(usize) -> String,
) -> ErrorKind {
    let before = schemas[..file].iter().enumerate();
    let mut before = before.filter_map(|(file, schema)| Some((file, schema.field_with_name(field.name()).ok()?)));
    let with = |other: &Field| joining.join(other.data_type(), field.data_type()).err();
    let found = before.clone().find_map(|(file, other)| Some((file, other, Some(with(other)?))));
    // No pair of files need conflict: three integer and float types may.
    let found = found.or_else(|| before.next().map(|(file, other)| (file, other, None)));
    let (first_file, expected, reason) = match found {
        Some((file, other, reason)) => (file_name(file), other.data_type().clone(), reason),
        None => (String::new(), DataType::Null, None),
    };
    ErrorKind::SchemaConflict {
        column: field.name().clone(),
        declarable: match joining {
            Joining::Common(_) => declarable(&types_of(schemas, field.name())),
            Joining::Same => None,
        },
        first_file,
        expected,
        file: file_name(file),
        found: field.data_type().clone(),
        part: reason.filter(|reason| !reason.path.is_empty()).map(|reason| reason.to_string()),
    }
}

/// Rejects a file with a column that is also in its path: one of the two values would be silently dropped.
pub fn check_path_columns(path: &[FieldRef], schemas: &[SchemaRef], file_name: impl Fn(usize) -> String) -> Result<()> {
    for (file, schema) in schemas.iter().enumerate() {
        if let Some(field) = path.iter().find(|field| schema.column_with_name(field.name()).is_some()) {
            return Err(ErrorKind::ColumnInPath { file: file_name(file), column: field.name().clone() }.into());
        }
    }
    Ok(())
}

/// Rejects a declared column that no file has, unless `absent_is_null`, or whose values cannot be converted to the declared type. Files
/// written before a column was added have nulls for it, if it is nullable.
pub(crate) fn check_declared(
    declared: &Schema,
    schemas: &[SchemaRef],
    absent_is_null: bool,
    file_name: impl Fn(usize) -> String,
) -> Result<()> {
    for field in declared.fields() {
        if let Err(error) = check_known(field, schemas, &file_name) {
            match absent_is_null {
                true => log::warn!("{error}: it is NULL"),
                false => return Err(error),
            }
        }
        for (file, schema) in schemas.iter().enumerate() {
            match schema.field_with_name(field.name()) {
                Ok(found) => check_convertible(field, schemas, file, found.data_type(), &file_name)?,
                Err(_) if field.is_nullable() => {}
                Err(_) => return Err(missing(field, schemas, file, &file_name).into()),
            }
        }
    }
    Ok(())
}

/// Rejects a column, or a struct field in it, that no file has.
fn check_known(declared: &Field, schemas: &[SchemaRef], file_name: impl Fn(usize) -> String) -> Result<()> {
    let types = types_of(schemas, declared.name());
    if types.is_empty() && !schemas.is_empty() {
        return Err(missing(declared, schemas, 0, &file_name).into());
    }
    match unknown_part(declared.data_type(), &types) {
        Some(part) => Err(ErrorKind::UnknownPart { column: declared.name().clone(), part }.into()),
        None => Ok(()),
    }
}

/// Returns the fields of a struct, the item of a list, or the key and value of a map.
fn parts(data_type: &DataType) -> Vec<&FieldRef> {
    match data_type {
        DataType::Struct(fields) => fields.iter().collect(),
        _ => match key_and_value(data_type) {
            Some((key, value)) => vec![key, value],
            None => item(data_type).into_iter().collect(),
        },
    }
}

/// Returns the path of a declared struct field that no file has.
fn unknown_part(declared: &DataType, found: &[&DataType]) -> Option<String> {
    if found.is_empty() {
        return None;
    }
    let is_struct = matches!(declared, DataType::Struct(_));
    let found: Vec<Vec<&FieldRef>> = found.iter().map(|data_type| parts(data_type)).collect();
    for (index, field) in parts(declared).into_iter().enumerate() {
        let of_files = found.iter().filter_map(|parts| match is_struct {
            true => parts.iter().find(|part| part.name() == field.name()),
            false => parts.get(index),
        });
        let of_files: Vec<&DataType> = of_files.map(|part| part.data_type()).collect();
        // If the files contain only nulls, their fields are unknown.
        if is_struct && of_files.is_empty() && found.iter().any(|parts| !parts.is_empty()) {
            return Some(field.name().clone());
        }
        if let Some(part) = unknown_part(field.data_type(), &of_files) {
            return Some(if is_struct { format!("{}.{part}", field.name()) } else { part });
        }
    }
    None
}

fn missing(declared: &Field, schemas: &[SchemaRef], file: usize, file_name: impl Fn(usize) -> String) -> ErrorKind {
    ErrorKind::MissingColumn {
        file: file_name(file),
        column: declared.name().clone(),
        declared: declared.data_type().clone(),
        found: schemas[file].fields().iter().map(|field| field.name().clone()).collect(),
    }
}

fn check_convertible(
    declared: &Field,
    schemas: &[SchemaRef],
    file: usize,
    found: &DataType,
    file_name: impl Fn(usize) -> String,
) -> Result<()> {
    if can_convert(found, declared.data_type()) && shares_fields(found, declared.data_type()) {
        return Ok(());
    }
    let types = types_of(schemas, declared.name());
    Err(ErrorKind::DeclaredType {
        file: file_name(file),
        column: declared.name().clone(),
        declared: declared.data_type().clone(),
        found: found.clone(),
        declarable: declarable(&types),
        files_differ: types.iter().any(|of_file| *of_file != found),
    }
    .into())
}

/// Returns the types of a column in the files.
fn types_of<'a>(schemas: &'a [SchemaRef], column: &str) -> Vec<&'a DataType> {
    let fields = schemas.iter().filter_map(|schema| schema.column_with_name(column));
    fields.map(|(_, field)| field.data_type()).collect()
}

/// Returns how to declare a column in SQL so that the values of all these types can be converted to it, if SQL has
/// such a type.
fn declarable(types: &[&DataType]) -> Option<String> {
    let (first, rest) = types.split_first()?;
    let joined = rest.iter().try_fold((*first).clone(), |joined, found| common_type_or(&joined, found, checked_rule));
    let (sql, declared) = sql_type(&joined.ok()?)?;
    types.iter().all(|found| can_convert(found, &declared)).then_some(sql)
}

/// Returns the column names of each file.
pub(crate) fn names_of(schemas: &[SchemaRef]) -> Vec<Vec<&str>> {
    schemas.iter().map(|schema| schema.fields().iter().map(|field| field.name().as_str()).collect()).collect()
}

/// Finds column names that differ only by case and are never in the same file: most likely one column, spelled in two
/// ways.
///
/// `files` contains the column names of each file. Returns each such pair with the first file of each name.
fn names_by_case<'a>(files: &[Vec<&'a str>]) -> Vec<NamesByCase<'a>> {
    let mut first_seen: HashMap<String, Vec<(&'a str, usize)>> = HashMap::new();
    let mut order = Vec::new();
    for (file, names) in files.iter().enumerate() {
        for name in names {
            let folded = name.to_lowercase();
            let seen = first_seen.entry(folded.clone()).or_default();
            if seen.is_empty() {
                order.push(folded);
            }
            if !seen.iter().any(|(other, _)| other == name) {
                seen.push((name, file));
            }
        }
    }
    let is_in_one_file =
        |left: &str, right: &str| files.iter().any(|names| names.contains(&left) && names.contains(&right));
    let mut found = Vec::new();
    for folded in order {
        let seen = &first_seen[&folded];
        let Some(((first, first_file), others)) = seen.split_first() else { continue };
        found.extend(others.iter().filter(|(other, _)| !is_in_one_file(first, other)).map(|(second, second_file)| {
            NamesByCase { first, first_file: *first_file, second, second_file: *second_file }
        }));
    }
    found
}

/// Two column names that differ only by case.
struct NamesByCase<'a> {
    /// The name that was found first.
    first: &'a str,
    /// The first file with it.
    first_file: usize,
    /// The other name.
    second: &'a str,
    /// The first file with the other name.
    second_file: usize,
}

/// Logs a warning for each two column names that differ only by case and are never in the same file: most likely one
/// column, spelled in two ways. `files` contains the column names of each file.
pub fn warn_of_names_by_case(files: &[Vec<&str>], file_name: impl Fn(usize) -> String) {
    for NamesByCase { first, first_file, second, second_file } in names_by_case(files) {
        log::warn!(
            "columns \"{first}\" (in {}) and \"{second}\" (in {}) differ only by case and are read as two columns; the \
             option names=insensitive makes them one",
            file_name(first_file),
            file_name(second_file)
        );
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::TimeUnit;

    use super::*;

    #[test]
    fn same_type_compares_struct_field_names() {
        let list = |names: [&str; 2]| {
            let fields = names.map(|name| Field::new(name, DataType::Int64, true));
            DataType::new_list(DataType::Struct(fields.into_iter().collect()), true)
        };
        assert!(same_type(&list(["x", "y"]), &list(["x", "y"])));
        assert!(!same_type(&list(["x", "y"]), &list(["p", "q"])));
    }

    fn schema(fields: &[(&str, DataType, bool)]) -> SchemaRef {
        let fields = fields.iter().map(|(name, data_type, nullable)| Field::new(*name, data_type.clone(), *nullable));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    fn merged(schemas: &[SchemaRef]) -> Result<SchemaRef> {
        merge(schemas, None, Joining::Common(|_, _| None), |index| format!("f{index}"))
    }

    #[test]
    fn merges_by_name_and_a_missing_column_is_nullable() -> Result<()> {
        let first = schema(&[("a", DataType::Int64, false), ("b", DataType::Null, true)]);
        let second =
            schema(&[("b", DataType::Utf8, true), ("c", DataType::Int8, false), ("a", DataType::Int64, false)]);
        let expected =
            schema(&[("a", DataType::Int64, false), ("b", DataType::Utf8, true), ("c", DataType::Int8, true)]);
        assert_eq!(merged(&[first, second])?, expected);
        Ok(())
    }

    #[test]
    fn the_type_that_holds_all_is_named_in_sql() {
        use DataType::{Decimal128, Float32, Int32, Int64, UInt32, Utf8};
        let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        for (types, expected) in [
            ([Int32, Int64], Some("BIGINT")),
            ([Int64, Int32], Some("BIGINT")),
            ([Int32, UInt32], Some("BIGINT")),
            ([Int32, Float32], Some("DOUBLE")),
            ([Decimal128(9, 2), Decimal128(11, 3)], Some("DECIMAL(11, 3)")),
            ([DataType::LargeUtf8, Utf8], Some("VARCHAR")),
            ([DataType::new_list(Int32, true), DataType::new_list(Int64, true)], Some("BIGINT[]")),
            ([DataType::Null, Int32], Some("INT")),
            ([Int64, Float32], Some("DOUBLE")),
            ([Int64, DataType::UInt64], Some("DECIMAL(20, 0)")),
            ([Int32, Utf8], Some("VARCHAR")),
            ([zoned.clone(), DataType::Timestamp(TimeUnit::Microsecond, None)], Some("VARCHAR")),
            ([DataType::new_list(Int32, true), Int32], None),
            // This declaration has no zone.
            ([zoned.clone(), zoned], None),
        ] {
            assert_eq!(declarable(&[&types[0], &types[1]]).as_deref(), expected, "{types:?}");
        }
    }

    #[test]
    fn a_conflict_names_both_files() {
        let schemas = [
            schema(&[("x", DataType::Null, true)]),
            schema(&[("x", DataType::Int64, true)]),
            schema(&[("x", DataType::Utf8, true)]),
        ];
        let message = merged(&schemas).expect_err("conflict").to_string();
        assert_eq!(message, "f2: column \"x\": found Utf8, but f1 has Int64");
    }

    #[test]
    fn merge_rejects_duplicate_column_names() {
        let twice = schema(&[("x", DataType::Int64, true), ("x", DataType::Int64, true)]);
        let message = merged(&[twice]).expect_err("duplicate").to_string();
        assert_eq!(message, "f0: column \"x\" occurs more than once");
    }
}
