//! One schema out of the schemas of many files.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};

use tfrecord_sidecars::sql_type;

use super::error::{ErrorKind, Result};

/// A column of the merged schema and the file that settled its type.
struct Column {
    field: Field,
    first_file: usize,
    files: usize,
}

/// Merges by name, columns in the order in which they first occur.
///
/// A column that some files lack is nullable. Types must agree, or `join` to one; `Null` (a column of which nothing is
/// known) gives way.
pub(crate) fn merge(
    schemas: &[SchemaRef],
    join: impl Fn(&DataType, &DataType) -> Option<DataType>,
    file_name: impl Fn(usize) -> String,
) -> Result<SchemaRef> {
    let mut columns: Vec<Column> = Vec::new();
    let mut positions: HashMap<&str, usize> = HashMap::new();
    for (file, schema) in schemas.iter().enumerate() {
        for field in schema.fields() {
            let column = match positions.entry(field.name()) {
                Entry::Vacant(entry) => {
                    entry.insert(columns.len());
                    columns.push(Column { field: field.as_ref().clone(), first_file: file, files: 1 });
                    continue;
                }
                Entry::Occupied(entry) => &mut columns[*entry.get()],
            };
            column.files += 1;
            if column.files > file + 1 {
                return Err(ErrorKind::DuplicateColumn { file: file_name(file), column: field.name().clone() }.into());
            }
            let nullable = column.field.is_nullable() || field.is_nullable();
            if column.field.data_type() == &DataType::Null && field.data_type() != &DataType::Null {
                column.field = field.as_ref().clone();
                column.first_file = file;
            } else if field.data_type() != &DataType::Null && !same_type(column.field.data_type(), field.data_type()) {
                if let Some(joined) = join(column.field.data_type(), field.data_type()) {
                    column.field = column.field.clone().with_data_type(joined).with_nullable(nullable);
                    continue;
                }
                return Err(ErrorKind::SchemaConflict {
                    column: field.name().clone(),
                    declarable: declarable(&types_of(schemas, field.name())),
                    first_file: file_name(column.first_file),
                    expected: column.field.data_type().clone(),
                    file: file_name(file),
                    found: field.data_type().clone(),
                }
                .into());
            }
            column.field.set_nullable(nullable);
        }
    }
    let fields = columns.into_iter().map(|Column { field, files, .. }| {
        let nullable = field.is_nullable() || files < schemas.len();
        field.with_nullable(nullable)
    });
    Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
}

/// Refuses a file with a column that its path has too: one of the two values would be dropped in silence.
pub(crate) fn check_path_columns(
    path: &[FieldRef],
    schemas: &[SchemaRef],
    file_name: impl Fn(usize) -> String,
) -> Result<()> {
    for (file, schema) in schemas.iter().enumerate() {
        if let Some(field) = path.iter().find(|field| schema.column_with_name(field.name()).is_some()) {
            return Err(ErrorKind::ColumnInPath { file: file_name(file), column: field.name().clone() }.into());
        }
    }
    Ok(())
}

/// Refuses a declared column that no file has, or one of them with values that the declared type may not hold. A file
/// from before a column was added has nulls for it, if the column may be null.
pub(super) fn check_declared(
    declared: &Schema,
    schemas: &[SchemaRef],
    file_name: impl Fn(usize) -> String,
) -> Result<()> {
    for field in declared.fields() {
        let is_known = schemas.iter().any(|schema| schema.column_with_name(field.name()).is_some());
        for (file, schema) in schemas.iter().enumerate() {
            let column = field.name().clone();
            let declared = field.data_type().clone();
            let Some((_, found)) = schema.column_with_name(&column) else {
                if is_known && field.is_nullable() {
                    continue;
                }
                let found = schema.fields().iter().map(|field| field.name().clone()).collect();
                return Err(ErrorKind::MissingColumn { file: file_name(file), column, declared, found }.into());
            };
            if !holds(&declared, found.data_type()) {
                let found = found.data_type().clone();
                let types = types_of(schemas, &column);
                let declarable = declarable(&types);
                let files_differ = types.iter().any(|of_file| !same_type(of_file, &found));
                let file = file_name(file);
                return Err(ErrorKind::DeclaredType { file, column, declared, found, declarable, files_differ }.into());
            }
        }
    }
    Ok(())
}

/// The types that files have for a column.
fn types_of<'a>(schemas: &'a [SchemaRef], column: &str) -> Vec<&'a DataType> {
    let fields = schemas.iter().filter_map(|schema| schema.column_with_name(column));
    fields.map(|(_, field)| field.data_type()).collect()
}

/// How a column is declared in SQL so that it holds every value of all these types, if that can be said.
fn declarable(types: &[&DataType]) -> Option<String> {
    // What two of them may need that is neither.
    const WIDER: [DataType; 4] = [DataType::Int16, DataType::Int32, DataType::Int64, DataType::Float64];
    let named = types.iter().copied().chain(&WIDER).filter_map(sql_type);
    named.into_iter().find(|(_, declared)| types.iter().all(|found| holds(declared, found))).map(|(sql, _)| sql)
}

/// Whether the engine's cast from `found` to `declared` keeps every value or, beyond the range of a finer unit of time,
/// fails.
fn holds(declared: &DataType, found: &DataType) -> bool {
    use DataType::{
        Binary, BinaryView, Dictionary, FixedSizeBinary, Float16, Float32, Float64, Int8, Int16, Int32, Int64,
        LargeBinary, LargeUtf8, List, Null, Time32, Time64, Timestamp, UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    match (declared, found) {
        _ if same_type(declared, found) => true,
        (_, Null) => true,
        (Dictionary(_, declared), found) => holds(declared, found),
        (declared, Dictionary(_, found)) => holds(declared, found),
        (Int16, Int8 | UInt8)
        | (Int32, Int8 | Int16 | UInt8 | UInt16)
        | (Int64, Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32)
        | (UInt16, UInt8)
        | (UInt32, UInt8 | UInt16)
        | (UInt64, UInt8 | UInt16 | UInt32)
        | (Float32, Float16 | Int8 | Int16 | UInt8 | UInt16)
        | (Float64, Float16 | Float32 | Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32)
        | (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View)
        | (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView | FixedSizeBinary(_)) => true,
        (Timestamp(declared, zone), Timestamp(found, found_zone)) => {
            zone.is_some() == found_zone.is_some() && is_finer(*declared, *found)
        }
        (Time32(declared) | Time64(declared), Time32(found) | Time64(found)) => is_finer(*declared, *found),
        (List(declared), List(found)) => holds(declared.data_type(), found.data_type()),
        _ => match (decimal(declared), decimal(found)) {
            (Some((digits, scale)), Some((found_digits, found_scale))) => {
                scale >= found_scale && digits - scale >= found_digits - found_scale
            }
            _ => false,
        },
    }
}

/// Whether `left` is the same unit as `right` or a smaller one.
fn is_finer(left: TimeUnit, right: TimeUnit) -> bool {
    left >= right
}

/// Precision and scale.
fn decimal(data_type: &DataType) -> Option<(i16, i16)> {
    match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => Some((i16::from(*precision), i16::from(*scale))),
        _ => None,
    }
}

/// Equal but for what writers differ in without meaning it: names and nullability of list items and map entries.
fn same_type(left: &DataType, right: &DataType) -> bool {
    left.equals_datatype(right) && same_names(left, right)
}

/// Whether fields of structs have the same names, in types that are equal otherwise.
fn same_names(left: &DataType, right: &DataType) -> bool {
    use DataType::{FixedSizeList, LargeList, LargeListView, List, ListView, Map, RunEndEncoded, Struct};
    match (left, right) {
        (Struct(left), Struct(right)) => left
            .iter()
            .zip(right)
            .all(|(left, right)| left.name() == right.name() && same_names(left.data_type(), right.data_type())),
        (List(left), List(right))
        | (LargeList(left), LargeList(right))
        | (ListView(left), ListView(right))
        | (LargeListView(left), LargeListView(right))
        | (FixedSizeList(left, _), FixedSizeList(right, _))
        | (RunEndEncoded(_, left), RunEndEncoded(_, right)) => same_names(left.data_type(), right.data_type()),
        (Map(left, _), Map(right, _)) => match (left.data_type(), right.data_type()) {
            (Struct(left), Struct(right)) => {
                left.iter().zip(right).all(|(left, right)| same_names(left.data_type(), right.data_type()))
            }
            _ => true,
        },
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_of_other_names_are_other_types() {
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
        merge(schemas, |_, _| None, |index| format!("f{index}"))
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
    fn a_declared_type_holds_every_value_of_the_type_found() {
        use DataType::{Decimal128, Float32, Float64, Int16, Int32, Int64, UInt32, UInt64, Utf8, Utf8View};
        use TimeUnit::{Microsecond, Millisecond};
        let time = |unit| DataType::Timestamp(unit, None);
        let dictionary = |values| DataType::Dictionary(Box::new(Int32), Box::new(values));
        for (wide, narrow) in [
            (Int64, Int16),
            (Int64, UInt32),
            (Float64, Float32),
            (Float64, Int32),
            (Decimal128(10, 3), Decimal128(9, 2)),
            (time(Microsecond), time(Millisecond)),
        ] {
            assert!(holds(&wide, &narrow), "{wide} {narrow}");
            assert!(!holds(&narrow, &wide), "{narrow} {wide}");
        }
        for (left, right) in [(Int64, UInt64), (Float64, Int64), (Utf8, Int64), (Decimal128(9, 3), Decimal128(9, 2))] {
            assert!(!holds(&left, &right) && !holds(&right, &left), "{left} {right}");
        }
        assert!(holds(&Utf8, &Utf8View) && holds(&Utf8View, &dictionary(Utf8)));
        assert!(!holds(&Int32, &dictionary(Int64)));
        let zoned = DataType::Timestamp(Microsecond, Some("UTC".into()));
        assert!(!holds(&zoned, &time(Microsecond)) && !holds(&time(Microsecond), &zoned));
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
            ([Int64, Float32], None),
            ([Int32, Utf8], None),
            // What is declared so has no zone.
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
    fn a_name_that_stands_twice_is_refused() {
        let twice = schema(&[("x", DataType::Int64, true), ("x", DataType::Int64, true)]);
        let message = merged(&[twice]).expect_err("duplicate").to_string();
        assert_eq!(message, "f0: column \"x\" occurs more than once");
    }
}
