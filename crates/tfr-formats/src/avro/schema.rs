//! The schema in a file's header: the encoding of its values, and their Arrow types.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, FieldRef, TimeUnit, UnionFields, UnionMode,
};
use serde_json::Value;

use crate::mapped::with_field_id;
use crate::names::MAX_COLUMNS;

/// The column of a file whose values are not records.
pub(super) const VALUE: &str = "value";

/// The type of an encoded value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum AvroType {
    Null,
    Boolean,
    /// An int of this Arrow type.
    Int(DataType),
    /// A long of this Arrow type.
    Long(DataType),
    Float,
    Double,
    Bytes,
    String,
    Fixed(usize),
    /// Twelve bytes: months, days and milliseconds.
    Duration,
    /// An unscaled number, of a fixed number of bytes or length-prefixed.
    Decimal {
        precision: u8,
        scale: i8,
        size: Option<usize>,
    },
    Enum(Arc<[String]>),
    Array(Box<AvroType>),
    Map(Box<AvroType>),
    Record(Vec<RecordField>),
    Union(Vec<AvroType>),
}

/// A field of a record.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RecordField {
    pub(super) name: String,
    /// The id by which a table finds it.
    pub(super) id: Option<i32>,
    pub(super) data_type: AvroType,
}

impl RecordField {
    /// Returns the field in Arrow.
    pub(super) fn field(&self) -> Field {
        with_field_id(self.data_type.field(&self.name), self.id)
    }
}

/// Whose attributes of a schema count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaDialect {
    /// Those of Avro.
    Avro,
    /// Those of Iceberg, too: ids of fields, and timestamps without a zone.
    Iceberg,
}

/// How the values of a union are represented.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Branches {
    /// Values of one type, or null.
    One(usize),
    /// Numbers of several types, which fit one type.
    Numbers(DataType),
    /// Only null.
    Null,
    /// A union.
    Many,
}

impl AvroType {
    /// Parses a schema.
    ///
    /// # Errors
    /// It is not a valid Avro schema, or has a record that contains itself. The text says what is wrong.
    pub(super) fn parse(json: &[u8], dialect: SchemaDialect) -> Result<Self, String> {
        let json: Value = serde_json::from_slice(json).map_err(|error| format!("it is not JSON: {error}"))?;
        Names { dialect, types: HashMap::new(), count: 0 }.parse(&json, "")
    }

    /// Returns the columns of a file.
    pub(super) fn columns(&self) -> Vec<RecordField> {
        match self {
            Self::Record(fields) => fields.clone(),
            value => vec![RecordField { name: VALUE.to_owned(), id: None, data_type: value.clone() }],
        }
    }

    pub(super) fn field(&self, name: &str) -> Field {
        Field::new(name, self.data_type(), self.is_nullable())
    }

    fn is_nullable(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Union(branches) => branches.iter().any(Self::is_nullable),
            _ => false,
        }
    }

    /// Returns the Arrow type of the values.
    pub(super) fn data_type(&self) -> DataType {
        match self {
            Self::Null => DataType::Null,
            Self::Boolean => DataType::Boolean,
            Self::Int(data_type) | Self::Long(data_type) => data_type.clone(),
            Self::Float => DataType::Float32,
            Self::Double => DataType::Float64,
            Self::Bytes => DataType::Binary,
            Self::String => DataType::Utf8,
            // Other formats, such as Parquet, do not support values of fixed size 0.
            Self::Fixed(0) => DataType::Binary,
            Self::Fixed(size) => DataType::FixedSizeBinary(i32::try_from(*size).unwrap_or(i32::MAX)),
            Self::Duration => DataType::Interval(arrow_schema::IntervalUnit::MonthDayNano),
            Self::Decimal { precision, scale, .. } if *precision <= DECIMAL128_MAX_PRECISION => {
                DataType::Decimal128(*precision, *scale)
            }
            Self::Decimal { precision, scale, .. } => DataType::Decimal256(*precision, *scale),
            Self::Enum(_) => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
            Self::Array(item) => DataType::List(Arc::new(item.field(Field::LIST_FIELD_DEFAULT_NAME))),
            Self::Map(value) => DataType::Map(Arc::new(entries(value)), false),
            Self::Record(fields) => DataType::Struct(fields.iter().map(|field| Arc::new(field.field())).collect()),
            Self::Union(branches) => match Branches::of(branches) {
                Branches::One(branch) => branches[branch].data_type(),
                Branches::Numbers(data_type) => data_type,
                Branches::Null => DataType::Null,
                Branches::Many => DataType::Union(union_fields(branches), UnionMode::Dense),
            },
        }
    }

    /// Returns the minimum number of bytes of a value.
    pub(super) fn min_len(&self) -> usize {
        match self {
            Self::Null => 0,
            Self::Float => 4,
            Self::Double => 8,
            Self::Duration => 12,
            Self::Fixed(size) | Self::Decimal { size: Some(size), .. } => *size,
            Self::Record(fields) => fields.iter().fold(0, |sum, field| sum.saturating_add(field.data_type.min_len())),
            _ => 1,
        }
    }

    /// Returns the name of the type as a union's branch.
    fn name(&self) -> String {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Int(DataType::Int32) => "int",
            Self::Long(DataType::Int64) => "long",
            Self::Float => "float",
            Self::Double => "double",
            Self::Bytes => "bytes",
            Self::String => "string",
            Self::Array(_) => "array",
            Self::Map(_) => "map",
            Self::Int(data_type) | Self::Long(data_type) => return data_type.to_string(),
            Self::Fixed(_) => "fixed",
            Self::Duration => "duration",
            Self::Decimal { .. } => "decimal",
            Self::Enum(_) => "enum",
            Self::Record(_) => "record",
            Self::Union(_) => "union",
        }
        .to_owned()
    }
}

/// Returns the entries field of a map with such values.
pub(super) fn entries(value: &AvroType) -> Field {
    let fields = [Field::new("key", DataType::Utf8, false), value.field("value")];
    Field::new("entries", DataType::Struct(fields.into_iter().collect()), false)
}

/// Returns the fields of a union, one per branch, numbered in order; a repeated name gets a number.
pub(super) fn union_fields(branches: &[AvroType]) -> UnionFields {
    let names: Vec<String> = branches.iter().map(AvroType::name).collect();
    let fields = branches.iter().enumerate().map(|(index, branch)| -> (i8, FieldRef) {
        let twice = names.iter().filter(|name| **name == names[index]).count() > 1;
        let name = if twice { format!("{}_{index}", names[index]) } else { names[index].clone() };
        // A union has no null buffer; only a null branch has nulls.
        (index as i8, Arc::new(Field::new(name, branch.data_type(), true)))
    });
    fields.collect()
}

impl Branches {
    pub(super) fn of(branches: &[AvroType]) -> Self {
        let values: Vec<_> = (0..branches.len()).filter(|branch| branches[*branch] != AvroType::Null).collect();
        match values.as_slice() {
            [] => return Self::Null,
            [one] => return Self::One(*one),
            _ => {}
        }
        let all = |of: fn(&AvroType) -> bool| values.iter().all(|branch| of(&branches[*branch]));
        let is_integer =
            |branch: &AvroType| matches!(branch, AvroType::Int(DataType::Int32) | AvroType::Long(DataType::Int64));
        // Every int fits a float64, but not every long.
        let is_float64 =
            |branch: &AvroType| matches!(branch, AvroType::Int(DataType::Int32) | AvroType::Float | AvroType::Double);
        if all(is_integer) {
            Self::Numbers(DataType::Int64)
        } else if all(is_float64) {
            Self::Numbers(DataType::Float64)
        } else {
            Self::Many
        }
    }
}

/// Named types.
struct Names {
    dialect: SchemaDialect,
    /// By full name; `None` while the type is being read.
    types: HashMap<String, Option<(AvroType, usize)>>,
    /// The number of types so far.
    count: usize,
}

impl Names {
    fn parse(&mut self, json: &Value, namespace: &str) -> Result<AvroType, String> {
        self.counted(1)?;
        match json {
            Value::String(name) => self.named(name, namespace),
            Value::Array(branches) => {
                if branches.len() > i8::MAX as usize {
                    return Err(format!("it has a union of {} types", branches.len()));
                }
                let branches = branches.iter().map(|branch| self.parse(branch, namespace)).collect::<Result<_, _>>()?;
                Ok(AvroType::Union(branches))
            }
            Value::Object(object) => match object.get("type") {
                Some(Value::String(kind)) => self.complex(kind, json, namespace),
                Some(inner) => self.parse(inner, namespace),
                None => Err(format!("it has an object without a type: {json:.200}")),
            },
            other => Err(format!("it has {other:.200} for a type")),
        }
    }

    fn counted(&mut self, more: usize) -> Result<(), String> {
        self.count = self.count.saturating_add(more);
        match self.count <= MAX_COLUMNS {
            true => Ok(()),
            false => Err(format!("it has more than {MAX_COLUMNS} columns")),
        }
    }

    /// Returns a primitive type, or a type that was defined before.
    fn named(&mut self, name: &str, namespace: &str) -> Result<AvroType, String> {
        if let Some(primitive) = primitive(name) {
            return Ok(primitive);
        }
        let full = full_name(name, namespace);
        let known = self.types.get(&full).or_else(|| self.types.get(name)).cloned();
        match known {
            Some(Some((known, size))) => {
                self.counted(size)?;
                Ok(known)
            }
            Some(None) => Err(format!("it has the record {name:?}, which contains itself")),
            None => Err(format!("it has the type {name:?}, which is not defined")),
        }
    }

    fn complex(&mut self, kind: &str, json: &Value, namespace: &str) -> Result<AvroType, String> {
        let missing = |key: &str| format!("it has a {kind} without {key}");
        match kind {
            "array" => {
                let item = json.get("items").ok_or_else(|| missing("items"))?;
                return Ok(AvroType::Array(Box::new(self.parse(item, namespace)?)));
            }
            "map" => {
                let value = json.get("values").ok_or_else(|| missing("values"))?;
                return Ok(AvroType::Map(Box::new(self.parse(value, namespace)?)));
            }
            "record" | "error" | "enum" | "fixed" => {}
            name => return logical(self.named(name, namespace)?, json, self.dialect),
        }
        let name = json.get("name").and_then(Value::as_str).ok_or_else(|| missing("a name"))?;
        let namespace = json.get("namespace").and_then(Value::as_str).unwrap_or(namespace);
        let full = full_name(name, namespace);
        let before = self.count;
        self.types.insert(full.clone(), None);
        let parsed = match kind {
            "enum" => {
                let symbols = json.get("symbols").and_then(Value::as_array).ok_or_else(|| missing("symbols"))?;
                let symbols = symbols.iter().map(|symbol| symbol.as_str().map(str::to_owned)).collect::<Option<_>>();
                AvroType::Enum(symbols.ok_or_else(|| missing("symbols"))?)
            }
            "fixed" => {
                let size = json.get("size").and_then(Value::as_u64).and_then(|size| i32::try_from(size).ok());
                let size = size.and_then(|size| usize::try_from(size).ok()).ok_or_else(|| missing("a size"))?;
                logical(AvroType::Fixed(size), json, self.dialect)?
            }
            _ => {
                // Names in a record resolve in the record's namespace.
                let namespace = full.rsplit_once('.').map_or("", |(namespace, _)| namespace).to_owned();
                let fields = json.get("fields").and_then(Value::as_array).ok_or_else(|| missing("fields"))?;
                let mut columns = Vec::with_capacity(fields.len());
                let mut seen = std::collections::HashSet::new();
                for field in fields {
                    let name =
                        field.get("name").and_then(Value::as_str).ok_or_else(|| missing("names of its fields"))?;
                    let data_type = field.get("type").ok_or_else(|| missing("types of its fields"))?;
                    if !seen.insert(name) {
                        return Err(format!("it has two fields named {name:?} in the record {full:?}"));
                    }
                    let data_type = match data_type {
                        // Some writers put the logical type next to the type instead of into it.
                        Value::String(_) => {
                            self.parse(data_type, &namespace).and_then(|found| logical(found, field, self.dialect))
                        }
                        _ => self.parse(data_type, &namespace),
                    };
                    let id = field.get("field-id").filter(|_| self.dialect == SchemaDialect::Iceberg).map(|id| {
                        let number = id.as_i64().and_then(|id| i32::try_from(id).ok());
                        number.ok_or_else(|| {
                            format!("its field {name:?} has the id {id}, which is not a number of 32 bits")
                        })
                    });
                    columns.push(RecordField { name: name.to_owned(), id: id.transpose()?, data_type: data_type? });
                }
                AvroType::Record(columns)
            }
        };
        self.types.insert(full, Some((parsed.clone(), self.count - before)));
        Ok(parsed)
    }
}

fn full_name(name: &str, namespace: &str) -> String {
    match name.contains('.') || namespace.is_empty() {
        true => name.trim_start_matches('.').to_owned(),
        false => format!("{}.{name}", namespace.trim_start_matches('.')),
    }
}

fn primitive(name: &str) -> Option<AvroType> {
    Some(match name {
        "null" => AvroType::Null,
        "boolean" => AvroType::Boolean,
        "int" => AvroType::Int(DataType::Int32),
        "long" => AvroType::Long(DataType::Int64),
        "float" => AvroType::Float,
        "double" => AvroType::Double,
        "bytes" => AvroType::Bytes,
        "string" => AvroType::String,
        _ => return None,
    })
}

/// Applies a `logicalType`. One that is unknown, or invalid for this type, is ignored.
fn logical(found: AvroType, json: &Value, dialect: SchemaDialect) -> Result<AvroType, String> {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond};
    let Some(logical) = json.get("logicalType").and_then(Value::as_str) else { return Ok(found) };
    let is_local =
        dialect == SchemaDialect::Iceberg && json.get("adjust-to-utc").and_then(Value::as_bool) != Some(true);
    let timestamp = |unit, is_local: bool| AvroType::Long(DataType::Timestamp(unit, (!is_local).then(|| "UTC".into())));
    Ok(match (logical, found) {
        ("date", AvroType::Int(_)) => AvroType::Int(DataType::Date32),
        ("time-millis", AvroType::Int(_)) => AvroType::Int(DataType::Time32(Millisecond)),
        ("time-micros", AvroType::Long(_)) => AvroType::Long(DataType::Time64(Microsecond)),
        ("timestamp-millis", AvroType::Long(_)) => timestamp(Millisecond, is_local),
        ("timestamp-micros", AvroType::Long(_)) => timestamp(Microsecond, is_local),
        ("timestamp-nanos", AvroType::Long(_)) => timestamp(Nanosecond, is_local),
        ("local-timestamp-millis", AvroType::Long(_)) => timestamp(Millisecond, true),
        ("local-timestamp-micros", AvroType::Long(_)) => timestamp(Microsecond, true),
        ("local-timestamp-nanos", AvroType::Long(_)) => timestamp(Nanosecond, true),
        ("duration", AvroType::Fixed(12)) => AvroType::Duration,
        ("decimal", AvroType::Bytes) => decimal(json, None)?,
        ("decimal", AvroType::Fixed(size)) => decimal(json, Some(size))?,
        (_, found) => found,
    })
}

/// Returns a decimal. One of more digits than Arrow supports, such as BigQuery's BIGNUMERIC of 77, has as many as Arrow
/// supports: a value with more is an error.
fn decimal(json: &Value, size: Option<usize>) -> Result<AvroType, String> {
    let number = |key: &str| match json.get(key) {
        Some(number) => number.as_i64().ok_or_else(|| format!("it has a decimal with the {key} {number:.50}")),
        None => Ok(0),
    };
    let (precision, scale) = (number("precision")?, number("scale")?);
    if precision < 1 || !(0..=precision).contains(&scale) {
        return Err(format!("it has a decimal of {precision} digits with {scale} of them behind the point"));
    }
    let precision = u8::try_from(precision).unwrap_or(u8::MAX).min(DECIMAL256_MAX_PRECISION);
    match i8::try_from(scale).ok().filter(|scale| scale.unsigned_abs() <= precision) {
        Some(scale) => Ok(AvroType::Decimal { precision, scale, size }),
        None => Err(format!(
            "it has a decimal with {scale} digits behind the point, more than the {DECIMAL256_MAX_PRECISION} digits \
             that are supported"
        )),
    }
}
