//! The schema of an Iceberg table: its columns, and how they are found in files.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::extension::EXTENSION_TYPE_NAME_KEY;
use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use serde::Deserialize;
use serde_json::Value;
use tfr_files::{ColumnInFiles, unreadable_field};

use super::values;
use crate::table::types::{Defect, Parts, Readable, check_unique, decimal, list_of, map_of, struct_of};

/// The type of UUIDs, and the extension type that they have in Arrow.
const UUID: &str = "uuid";
const UUID_EXTENSION: &str = "arrow.uuid";

/// The bytes of a UUID.
const UUID_LEN: i32 = 16;

/// The columns of a table at a time.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Schema {
    #[serde(default)]
    pub(super) schema_id: i32,
    pub(super) fields: Vec<Column>,
}

/// A column, or a field of a struct.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Column {
    pub(super) id: i32,
    pub(super) name: String,
    #[serde(rename = "type")]
    data_type: Type,
    /// Whether each row has a value.
    #[serde(default)]
    required: bool,
    /// The value in files that lack the column.
    initial_default: Option<Value>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Type {
    Primitive(String),
    Nested(Nested),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "kebab-case")]
enum Nested {
    Struct { fields: Vec<Column> },
    List { element: Box<Type> },
    Map { key: Box<Type>, value: Box<Type> },
}

/// The names by which columns are found in files without ids, by the ids of the columns.
#[derive(Debug, Default)]
pub(super) struct NameMapping(HashMap<i32, Vec<String>>);

impl NameMapping {
    /// Parses the property of a table. The error is the defect.
    pub(super) fn parse(json: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "kebab-case")]
        struct Mapped {
            field_id: Option<i32>,
            names: Vec<String>,
            #[serde(default)]
            fields: Vec<Mapped>,
        }
        fn collect(mapped: Vec<Mapped>, found: &mut HashMap<i32, Vec<String>>) {
            for Mapped { field_id, names, fields } in mapped {
                if let Some(id) = field_id {
                    found.entry(id).or_default().extend(names);
                }
                collect(fields, found);
            }
        }
        let mapped: Vec<Mapped> =
            serde_json::from_str(json).map_err(|error| format!("a name mapping that is not valid: {error}"))?;
        let mut found = HashMap::new();
        collect(mapped, &mut found);
        Ok(Self(found))
    }

    fn names(&self, id: i32) -> Vec<String> {
        self.0.get(&id).cloned().unwrap_or_default()
    }
}

/// Returns the columns of a schema, and how they are found in files.
///
/// Columns are nullable, whatever the table promises: nothing has checked the files. A column of a type that cannot be
/// read is marked, with `table` for messages.
pub(super) fn columns(
    schema: &Schema,
    mapping: &NameMapping,
    table: &str,
) -> Result<(Vec<FieldRef>, Vec<ColumnInFiles>), Defect> {
    let columns: Vec<_> = schema.fields.iter().map(|column| column.parts(mapping, table)).collect::<Result<_, _>>()?;
    let (fields, mut in_files): (Vec<FieldRef>, Vec<ColumnInFiles>) = columns.into_iter().unzip();
    for ((column, field), in_file) in schema.fields.iter().zip(&fields).zip(&mut in_files) {
        in_file.is_required = column.required && column.initial_default.is_none() && !field.data_type().is_nested();
    }
    check_unique(&in_files, str::to_owned)?;
    Ok((fields, in_files))
}

/// Returns the column with an id, or the field of a struct in it, in the newest of the schemas that has it: a column
/// with only the parts that lead to it.
pub(super) fn column(schemas: &[&Schema], id: i32) -> Option<Column> {
    schemas.iter().rev().find_map(|schema| leading_to(schema, id)).map(|(_, column)| column)
}

/// Returns the column with an id, or the field of a struct in it, with the name that leads there: a column with only the
/// parts that lead to it.
pub(super) fn leading_to(schema: &Schema, id: i32) -> Option<(String, Column)> {
    schema.fields.iter().find_map(|column| column.leading_to(id))
}

impl Column {
    fn leading_to(&self, id: i32) -> Option<(String, Self)> {
        if self.id == id {
            return Some((self.name.clone(), self.clone()));
        }
        let Type::Nested(Nested::Struct { fields }) = &self.data_type else { return None };
        let (rest, field) = fields.iter().find_map(|field| field.leading_to(id))?;
        let data_type = Type::Nested(Nested::Struct { fields: vec![field] });
        Some((format!("{}.{rest}", self.name), Self { data_type, ..self.clone() }))
    }

    /// Returns why a default is not read.
    fn unread_default(&self, default: &Value, data_type: &DataType) -> Defect {
        let default = format!("the default {default} of the column {:?}", self.name);
        match data_type.is_nested() {
            true => Defect::Unsupported(default),
            false => Defect::Damaged(format!("{default} is not a value of type {data_type}")),
        }
    }

    fn is_uuid(&self) -> bool {
        matches!(&self.data_type, Type::Primitive(name) if name == UUID)
    }

    /// Returns the column, and how it is found in files.
    pub(super) fn parts(&self, mapping: &NameMapping, table: &str) -> Result<(FieldRef, ColumnInFiles), Defect> {
        let (data_type, parts) = self.data_type.parts(mapping, table)?;
        let field = match &data_type {
            Ok(data_type) if self.is_uuid() => {
                let extension = (EXTENSION_TYPE_NAME_KEY.to_owned(), UUID_EXTENSION.to_owned());
                Field::new(&self.name, data_type.clone(), true).with_metadata([extension].into())
            }
            Ok(data_type) => Field::new(&self.name, data_type.clone(), true),
            Err(reason) => unreadable_field(&self.name, table, reason),
        };
        let default = match (&self.initial_default, &data_type) {
            (Some(default), Ok(data_type)) => {
                let parsed = values::parse(default, data_type);
                Some(parsed.ok_or_else(|| self.unread_default(default, data_type))?)
            }
            _ => None,
        };
        let (name, names) = (self.name.clone(), mapping.names(self.id));
        let id = Some(self.id);
        let column = ColumnInFiles { in_file: name.clone(), name, id, parts, default, names, is_required: false };
        Ok((Arc::new(field), column))
    }
}

impl Type {
    fn parts(&self, mapping: &NameMapping, table: &str) -> Result<Parts, Defect> {
        match self {
            Self::Primitive(name) => Ok((primitive(name), Vec::new())),
            Self::Nested(Nested::Struct { fields }) => {
                let fields = fields.iter().map(|column| column.parts(mapping, table));
                let (data_type, parts) = struct_of(fields.collect::<Result<_, _>>()?);
                check_unique(&parts, str::to_owned)?;
                Ok((data_type, parts))
            }
            Self::Nested(Nested::List { element }) => Ok(list_of(element.parts(mapping, table)?)),
            Self::Nested(Nested::Map { key, value }) => {
                Ok(map_of(key.parts(mapping, table)?, value.parts(mapping, table)?))
            }
        }
    }
}

fn primitive(name: &str) -> Readable {
    let timestamp = |unit, is_instant: bool| DataType::Timestamp(unit, is_instant.then(|| "UTC".into()));
    Ok(match name {
        "boolean" => DataType::Boolean,
        "int" => DataType::Int32,
        "long" => DataType::Int64,
        "float" => DataType::Float32,
        "double" => DataType::Float64,
        "date" => DataType::Date32,
        "time" => DataType::Time64(TimeUnit::Microsecond),
        "timestamp" => timestamp(TimeUnit::Microsecond, false),
        "timestamptz" => timestamp(TimeUnit::Microsecond, true),
        "timestamp_ns" => timestamp(TimeUnit::Nanosecond, false),
        "timestamptz_ns" => timestamp(TimeUnit::Nanosecond, true),
        "string" => DataType::Utf8,
        UUID => DataType::FixedSizeBinary(UUID_LEN),
        "binary" => DataType::Binary,
        _ => match (decimal(name), fixed(name)) {
            (Some(decimal), _) => decimal,
            (None, Some(len)) => DataType::FixedSizeBinary(len),
            (None, None) => return Err(format!("the type {name:?}")),
        },
    })
}

fn fixed(name: &str) -> Option<i32> {
    name.strip_prefix("fixed[")?.strip_suffix(']')?.trim().parse().ok().filter(|len| *len > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion_common::ScalarValue;

    fn schema(fields: &str) -> Schema {
        serde_json::from_str(&format!(r#"{{"type": "struct", "schema-id": 1, "fields": [{fields}]}}"#)).unwrap()
    }

    #[test]
    fn iceberg_columns_have_ids_defaults_and_names_for_files_without_ids() {
        let schema = schema(
            r#"{"id": 1, "name": "a", "required": true, "type": "long", "initial-default": 7},
               {"id": 2, "name": "s", "required": false, "type": {"type": "struct", "fields": [
                   {"id": 3, "name": "x", "required": false, "type": "decimal(9, 2)", "initial-default": "1.50"}]}}"#,
        );
        let mapping = r#"[{"field-id": 1, "names": ["a", "A1"]}, {"field-id": 2, "names": ["s"],
            "fields": [{"field-id": 3, "names": ["y"]}]}]"#;
        let (fields, columns) = columns(&schema, &NameMapping::parse(mapping).unwrap(), "t").unwrap();
        assert_eq!((fields[0].data_type(), fields[0].is_nullable()), (&DataType::Int64, true));
        assert_eq!((columns[0].id, &columns[0].default), (Some(1), &Some(ScalarValue::Int64(Some(7)))));
        assert_eq!(columns[0].names, ["a", "A1"]);
        let part = &columns[1].parts[0];
        assert_eq!((part.id, part.names.as_slice()), (Some(3), ["y".to_owned()].as_slice()));
        assert_eq!(part.default, Some(ScalarValue::Decimal128(Some(150), 9, 2)));
    }

    #[test]
    fn iceberg_columns_of_unknown_types_are_marked() {
        let schema = schema(
            r#"{"id": 1, "name": "v", "required": false, "type": "variant"},
               {"id": 2, "name": "l", "required": false, "type": {"type": "list", "element-id": 4,
                   "element-required": false, "element": "geometry(OGC:CRS84)"}},
               {"id": 3, "name": "u", "required": false, "type": "uuid"}"#,
        );
        let (fields, _) = columns(&schema, &NameMapping::default(), "t").unwrap();
        let marks: Vec<_> = fields.iter().map(|field| tfr_files::unreadable(field)).collect();
        assert_eq!(marks, [Some("the type \"variant\""), Some("the type \"geometry(OGC:CRS84)\""), None]);
        assert_eq!(fields[2].extension_type_name(), Some("arrow.uuid"));
    }

    #[test]
    fn iceberg_column_is_found_in_old_schemas() {
        let old = schema(r#"{"id": 1, "name": "a", "required": false, "type": "int"}"#);
        let new = Schema { schema_id: 2, ..schema(r#"{"id": 2, "name": "b", "required": false, "type": "int"}"#) };
        assert_eq!(column(&[&old, &new], 1).unwrap().name, "a");
        assert!(column(&[&old, &new], 3).is_none());
        let twice = schema(
            r#"{"id": 1, "name": "a", "required": false, "type": "int"},
               {"id": 1, "name": "b", "required": false, "type": "int"}"#,
        );
        columns(&twice, &NameMapping::default(), "t").unwrap_err();
    }

    #[test]
    fn iceberg_defaults_of_other_types_are_damage() {
        let error = |data_type: &str, default: &str| {
            let field = format!(r#"{{"id": 1, "name": "a", "type": {data_type}, "initial-default": {default}}}"#);
            columns(&schema(&field), &NameMapping::default(), "t").unwrap_err()
        };
        for (data_type, default) in
            [(r#""long""#, r#""7""#), (r#""date""#, r#""2026-02-30""#), (r#""fixed[2]""#, r#""00""#)]
        {
            assert!(matches!(error(data_type, default), Defect::Damaged(_)), "{data_type}");
        }
        // Valid, and not read.
        let of_struct = error(r#"{"type": "struct", "fields": []}"#, "{}");
        assert!(matches!(of_struct, Defect::Unsupported(_)), "{of_struct:?}");
    }
}
