//! The schema of a Delta table: its columns, and how they are called in the files.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use serde::Deserialize;
use serde_json::{Map, Value};
use tfr_files::{ColumnInFiles, unreadable_field};

use super::actions::{Metadata, Protocol};
use crate::table::types::{Defect, Parts, Readable, check_unique, decimal, list_of, map_of, struct_of};

/// The property that determines the names of columns in files.
const MODE: &str = "delta.columnMapping.mode";

const ID: &str = "delta.columnMapping.id";
const PHYSICAL_NAME: &str = "delta.columnMapping.physicalName";

/// The feature by which a table may map names.
const FEATURE: &str = "columnMapping";

/// How the columns of a table are found in its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mapping {
    /// By the names of the table.
    None,
    /// By other names.
    Name,
    /// By ids.
    Id,
}

impl Mapping {
    /// Determines the mapping. The error is what is not supported.
    ///
    /// Spark accepts and keeps modes in any case.
    pub(super) fn of(metadata: &Metadata, protocol: &Protocol) -> Result<Self, String> {
        let mut modes =
            metadata.configuration.iter().filter(|(key, _)| key.eq_ignore_ascii_case(MODE)).map(|(_, value)| value);
        let mode = modes.next().and_then(Option::as_deref).unwrap_or("none");
        if modes.next().is_some() {
            return Err(format!("several properties {MODE}"));
        }
        let mapping = match mode.to_ascii_lowercase().as_str() {
            "none" => return Ok(Self::None),
            "name" => Self::Name,
            "id" => Self::Id,
            _ => return Err(format!("the column mapping mode {mode:?}")),
        };
        let features = protocol.reader_features.iter().flatten();
        let is_supported = match protocol.min_reader_version {
            3 => features.into_iter().any(|feature| feature == FEATURE),
            version => version == 2,
        };
        match is_supported {
            true => Ok(mapping),
            false => Err(format!("the column mapping mode {mode:?}, which its protocol does not have")),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Type {
    Primitive(String),
    Nested(Nested),
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Nested {
    Struct { fields: Vec<Column> },
    Array { element_type: Box<Type> },
    Map { key_type: Box<Type>, value_type: Box<Type> },
}

#[derive(Debug, Deserialize)]
struct Column {
    name: String,
    #[serde(rename = "type")]
    data_type: Type,
    #[serde(default)]
    metadata: Map<String, Value>,
}

/// Parses a schema. Returns the columns, and how they are called in files; those of partitions included.
///
/// Columns are nullable, whatever the table promises: nothing has checked the files. A column of a type that cannot be
/// read is marked, with `table` for messages.
///
/// The error is the defect, or what is not supported.
pub(super) fn parse(text: &str, mapping: Mapping, table: &str) -> Result<(Vec<FieldRef>, Vec<ColumnInFiles>), Defect> {
    let invalid = |error: serde_json::Error| Defect::Damaged(format!("its schema is not valid: {error}"));
    let Nested::Struct { fields } = serde_json::from_str(text).map_err(invalid)? else {
        return Err(Defect::Damaged("its schema is not a struct".to_owned()));
    };
    let (mut columns, mut in_files) = (Vec::new(), Vec::new());
    for column in fields.iter().filter(|column| !column.data_type.is_void()) {
        let (field, in_file) = column.parts(mapping, table)?;
        columns.push(field);
        in_files.push(in_file);
    }
    check_unique(&in_files, str::to_lowercase)?;
    Ok((columns, in_files))
}

impl Column {
    fn parts(&self, mapping: Mapping, table: &str) -> Result<(FieldRef, ColumnInFiles), Defect> {
        let (id, physical) = (self.metadata.get(ID), self.metadata.get(PHYSICAL_NAME));
        let (id, in_file) = match (mapping, id, physical) {
            (Mapping::None, None, None) => (None, &self.name),
            (Mapping::None, _, _) => {
                let feature = format!("another name or an id of column {:?} in files, but no mapping mode", self.name);
                return Err(Defect::Unsupported(feature));
            }
            (_, Some(Value::Number(id)), Some(Value::String(name))) => {
                let id = id.as_i64().and_then(|id| i32::try_from(id).ok());
                let invalid = || Defect::Damaged(format!("the id of column {:?} is not a number", self.name));
                (Some(id.ok_or_else(invalid)?), name)
            }
            _ => {
                let feature = format!("column mapping, but no name and id in files of column {:?}", self.name);
                return Err(Defect::Unsupported(feature));
            }
        };
        let id = id.filter(|_| mapping == Mapping::Id);
        let (field, parts) = match self.data_type.parts(mapping, table)? {
            (Ok(data_type), parts) => (Field::new(&self.name, data_type, true), parts),
            (Err(reason), parts) => (unreadable_field(&self.name, table, &reason), parts),
        };
        let (name, in_file) = (self.name.clone(), in_file.clone());
        Ok((Arc::new(field), ColumnInFiles { name, in_file, id, parts, ..ColumnInFiles::default() }))
    }
}

impl Type {
    /// Whether a column of this type has no values. Like Spark, the table is read without it.
    fn is_void(&self) -> bool {
        matches!(self, Self::Primitive(name) if name == "void")
    }

    fn parts(&self, mapping: Mapping, table: &str) -> Result<Parts, Defect> {
        match self {
            Self::Primitive(name) => Ok((primitive(name), Vec::new())),
            Self::Nested(Nested::Struct { fields }) => {
                let fields = fields.iter().filter(|column| !column.data_type.is_void());
                let fields = fields.map(|column| column.parts(mapping, table));
                let (data_type, parts) = struct_of(fields.collect::<Result<_, _>>()?);
                check_unique(&parts, str::to_lowercase)?;
                Ok((data_type, parts))
            }
            Self::Nested(Nested::Array { element_type }) => Ok(list_of(element_type.parts(mapping, table)?)),
            Self::Nested(Nested::Map { key_type, value_type }) => {
                Ok(map_of(key_type.parts(mapping, table)?, value_type.parts(mapping, table)?))
            }
        }
    }
}

fn primitive(name: &str) -> Readable {
    Ok(match name {
        "string" => DataType::Utf8,
        "long" => DataType::Int64,
        "integer" => DataType::Int32,
        "short" => DataType::Int16,
        "byte" => DataType::Int8,
        "float" => DataType::Float32,
        "double" => DataType::Float64,
        "boolean" => DataType::Boolean,
        "binary" => DataType::Binary,
        "date" => DataType::Date32,
        "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        "timestamp_ntz" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "decimal" => DataType::Decimal128(10, 0),
        _ => match decimal(name) {
            Some(decimal) => decimal,
            None if name == "variant" => return Err("a VARIANT".to_owned()),
            None => return Err(format!("the type {name:?}")),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(mode: &str) -> Metadata {
        let text = format!(
            r#"{{"format": {{"provider": "parquet"}}, "schemaString": "", "partitionColumns": [],
                "configuration": {{"delta.columnMapping.mode": "{mode}"}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn protocol(version: u32) -> Protocol {
        Protocol { min_reader_version: version, reader_features: None }
    }

    #[test]
    fn delta_mapping_modes_are_read_in_any_case_and_unknown_ones_refused() {
        for (mode, mapping) in [("none", Mapping::None), ("NAME", Mapping::Name), ("Id", Mapping::Id)] {
            assert_eq!(Mapping::of(&metadata(mode), &protocol(2)), Ok(mapping));
        }
        assert_eq!(Mapping::of(&metadata("fancy"), &protocol(2)).unwrap_err(), "the column mapping mode \"fancy\"");
        Mapping::of(&metadata("name"), &protocol(1)).expect_err("the protocol has no mapping");
        Mapping::of(&metadata("name"), &protocol(3)).expect_err("the protocol does not list the feature");
    }

    #[test]
    fn delta_columns_with_a_name_in_files_need_a_mapping_mode() {
        let text = r#"{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,
            "metadata":{"delta.columnMapping.id":1,"delta.columnMapping.physicalName":"col-1"}}]}"#;
        parse(text, Mapping::None, "t").expect_err("there is no mapping");
        let (_, columns) = parse(text, Mapping::Name, "t").unwrap();
        assert_eq!((columns[0].in_file.as_str(), columns[0].id), ("col-1", None));
        let (_, columns) = parse(text, Mapping::Id, "t").unwrap();
        assert_eq!(columns[0].id, Some(1));
        let plain = r#"{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{}}]}"#;
        parse(plain, Mapping::Id, "t").expect_err("the column has no id");
    }

    #[test]
    fn delta_columns_of_unknown_types_are_marked() {
        let text = r#"{"type":"struct","fields":[
            {"name":"v","type":"variant","nullable":true,"metadata":{}},
            {"name":"l","type":{"type":"array","elementType":"fancy","containsNull":true},"nullable":true,"metadata":{}},
            {"name":"d","type":"decimal(38,39)","nullable":true,"metadata":{}},
            {"name":"a","type":"decimal(9,2)","nullable":false,"metadata":{}}]}"#;
        let (fields, _) = parse(text, Mapping::None, "t").unwrap();
        let marks: Vec<_> = fields.iter().map(|field| tfr_files::unreadable(field)).collect();
        assert_eq!(marks, [Some("a VARIANT"), Some("the type \"fancy\""), Some("the type \"decimal(38,39)\""), None]);
        assert_eq!((fields[3].data_type(), fields[3].is_nullable()), (&DataType::Decimal128(9, 2), true));
    }
}
