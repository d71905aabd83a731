//! Converts schemas of TensorFlow Metadata to Arrow schemas.

use std::collections::HashMap;

use arrow_schema::{DataType, Field, FieldRef, Schema, TimeUnit};
use tfr_proto::tensorflow::metadata::v0::feature::{DomainInfo, PresenceConstraints, ShapeType};
use tfr_proto::tensorflow::metadata::v0::tensor_representation::ragged_tensor::Partition;
use tfr_proto::tensorflow::metadata::v0::tensor_representation::ragged_tensor::partition::Kind as PartitionKind;
use tfr_proto::tensorflow::metadata::v0::tensor_representation::{Kind as Representation, RaggedTensor};
use tfr_proto::tensorflow::metadata::v0::{
    self, FeatureType, FixedShape, LifecycleStage, ValueCount, time_domain, time_of_day_domain,
};

use super::TEXT_TAG;
use crate::error::{ErrorKind, Result};

/// Reads a `schema.pbtxt` as an Arrow schema, with columns in the order of its features. The [module](crate::tfmd)
/// documents the conversion.
///
/// ```
/// use arrow_schema::DataType;
/// use tfrecord_sidecars::tfmd;
///
/// let schema = tfmd::schema_from_pbtxt(r#"
///     feature { name: "label" type: INT presence { min_fraction: 1.0 } shape {} }
///     feature { name: "words" type: BYTES string_domain { value: "yes" value: "no" } }
/// "#)?;
/// assert_eq!((schema.field(0).data_type(), schema.field(0).is_nullable()), (&DataType::Int64, false));
/// assert_eq!(schema.field(1).data_type().to_string(), "List(Utf8)");
/// # Ok::<(), tfrecord_sidecars::Error>(())
/// ```
///
/// # Errors
/// Fails on text that is not a valid schema, with line and column, or on an unsupported feature, by name.
pub fn schema_from_pbtxt(text: &str) -> Result<Schema> {
    let read = readable_from_pbtxt(text)?;
    match read.refused.into_iter().next() {
        Some((_, error)) => Err(error),
        None => Ok(read.schema),
    }
}

/// The supported and rejected features of a `schema.pbtxt`.
#[derive(Debug)]
pub struct ReadableSchema {
    /// The supported features, as columns.
    pub schema: Schema,
    /// The names of the rejected features in order, each with its error.
    pub refused: Vec<(String, crate::Error)>,
    /// The columns of numbers of labels, whose names are in other files.
    pub labelled: Vec<String>,
}

/// Reads the supported features of a `schema.pbtxt`, and reports the others, for example those without a type.
///
/// # Errors
/// Fails on text that is not a valid schema, with line and column; on a feature without a name; or on two different
/// features of one name.
pub fn readable_from_pbtxt(text: &str) -> Result<ReadableSchema> {
    let schema = super::parse(text)?;
    let representations = Representations::of(&schema);
    let mut fields: Vec<FieldRef> = Vec::with_capacity(schema.feature.len());
    let mut positions = HashMap::new();
    let mut unread: Vec<(String, crate::Error)> = Vec::new();
    for feature in &schema.feature {
        let read = FeatureReader { feature, schema: &schema, representations: &representations }.field();
        let field = match read {
            Ok(field) => FieldRef::new(field),
            Err(error) if !feature.name().is_empty() => {
                unread.push((feature.name().to_owned(), error));
                continue;
            }
            Err(error) => return Err(error),
        };
        match positions.get(feature.name()) {
            // Hand-written schemas may repeat a feature.
            Some(position) if fields.get(*position) == Some(&field) => {}
            Some(_) => return Err(refused(feature.name(), "two features of this name differ", "remove one of them")),
            None => {
                positions.insert(feature.name(), fields.len());
                fields.push(field);
            }
        }
    }
    Ok(ReadableSchema { schema: Schema::new(fields), refused: unread, labelled: Vec::new() })
}

fn refused(feature: &str, problem: impl Into<String>, hint: impl Into<String>) -> crate::Error {
    ErrorKind::Feature { feature: feature.to_owned(), problem: problem.into(), hint: hint.into() }.into()
}

/// The tensor representations of the schema, by the feature with their values.
struct Representations<'a> {
    dense: HashMap<&'a str, &'a FixedShape>,
    ragged: HashMap<&'a str, &'a RaggedTensor>,
}

impl<'a> Representations<'a> {
    fn of(schema: &'a v0::Schema) -> Self {
        let (mut dense, mut ragged) = (HashMap::new(), HashMap::new());
        // TFX reads the group without a name.
        if let Some(group) = schema.tensor_representation_group.get("") {
            for (tensor, representation) in &group.tensor_representation {
                match &representation.kind {
                    Some(Representation::DenseTensor(kind)) => {
                        if let Some(shape) = &kind.shape {
                            dense.insert(kind.column_name.as_deref().unwrap_or(tensor), shape);
                        }
                    }
                    Some(Representation::RaggedTensor(kind)) => {
                        let path = kind.feature_path.as_ref().map(|path| path.step.as_slice());
                        let column = path.and_then(<[String]>::last).unwrap_or(tensor);
                        ragged.insert(column.as_str(), kind);
                    }
                    Some(Representation::VarlenSparseTensor(_) | Representation::SparseTensor(_)) | None => {}
                }
            }
        }
        Self { dense, ragged }
    }
}

struct FeatureReader<'a> {
    feature: &'a v0::Feature,
    schema: &'a v0::Schema,
    representations: &'a Representations<'a>,
}

/// The number of values of a feature.
enum Count {
    One,
    Fixed(i32),
    Any,
}

impl FeatureReader<'_> {
    fn field(&self) -> Result<Field> {
        let name = self.feature.name();
        if name.is_empty() {
            return Err(refused(name, "it has no name", "name every feature of the schema"));
        }
        let value = self.value_type()?;
        let data_type = match self.count()? {
            Count::One => value,
            Count::Fixed(len) => DataType::new_fixed_size_list(value, len, true),
            Count::Any => DataType::new_list(value, true),
        };
        Ok(Field::new(name, data_type, !self.is_required()))
    }

    fn refused(&self, problem: impl Into<String>, hint: impl Into<String>) -> crate::Error {
        refused(self.feature.name(), problem, hint)
    }

    fn value_type(&self) -> Result<DataType> {
        let domain = self.feature.domain_info.as_ref();
        let stated = self.feature.r#type.unwrap_or_default();
        let feature_type = FeatureType::try_from(stated)
            .map_err(|_| self.refused(format!("type {stated} is unknown"), "state INT, FLOAT or BYTES"))?;
        match feature_type {
            FeatureType::TypeUnknown => match self.type_of_domain() {
                Some(FeatureType::Int) => Ok(int_type(domain)),
                Some(FeatureType::Float) => Ok(DataType::Float32),
                Some(FeatureType::Bytes) => Ok(self.bytes_type()),
                _ => Err(self.refused("it has no type", "state INT, FLOAT or BYTES")),
            },
            FeatureType::Int => Ok(int_type(domain)),
            FeatureType::Float => Ok(DataType::Float32),
            FeatureType::Bytes => Ok(self.bytes_type()),
            FeatureType::Struct => Err(self.refused(
                "type STRUCT is not read: its features are lists of a SequenceExample, or are in no record",
                "leave it out of the schema, and the other features are read",
            )),
        }
    }

    /// The type that a domain implies if none is specified.
    fn type_of_domain(&self) -> Option<FeatureType> {
        Some(match self.feature.domain_info.as_ref()? {
            DomainInfo::IntDomain(_) => FeatureType::Int,
            DomainInfo::FloatDomain(_) => FeatureType::Float,
            DomainInfo::BoolDomain(domain) if !says_text(domain) => FeatureType::Int,
            DomainInfo::BoolDomain(_)
            | DomainInfo::StringDomain(_)
            | DomainInfo::NaturalLanguageDomain(_)
            | DomainInfo::ImageDomain(_)
            | DomainInfo::AudioDomain(_)
            | DomainInfo::VideoDomain(_)
            | DomainInfo::ContentChunkDomain(_)
            | DomainInfo::MidDomain(_)
            | DomainInfo::UrlDomain(_) => FeatureType::Bytes,
            DomainInfo::TimeDomain(domain) => match domain.format.as_ref()? {
                time_domain::Format::StringFormat(_) => FeatureType::Bytes,
                time_domain::Format::IntegerFormat(_) => FeatureType::Int,
            },
            DomainInfo::TimeOfDayDomain(domain) => match domain.format.as_ref()? {
                time_of_day_domain::Format::StringFormat(_) => FeatureType::Bytes,
                time_of_day_domain::Format::IntegerFormat(_) => FeatureType::Int,
            },
            DomainInfo::Domain(name) => {
                let name = Some(name.as_str());
                if self.schema.string_domain.iter().any(|domain| domain.name.as_deref() == name) {
                    FeatureType::Bytes
                } else if self.schema.int_domain.iter().any(|domain| domain.name.as_deref() == name) {
                    FeatureType::Int
                } else if self.schema.float_domain.iter().any(|domain| domain.name.as_deref() == name) {
                    FeatureType::Float
                } else {
                    return None;
                }
            }
            DomainInfo::StructDomain(_) => return None,
        })
    }

    fn bytes_type(&self) -> DataType {
        let text = match &self.feature.domain_info {
            Some(
                DomainInfo::StringDomain(_)
                | DomainInfo::Domain(_)
                | DomainInfo::NaturalLanguageDomain(_)
                | DomainInfo::UrlDomain(_)
                | DomainInfo::MidDomain(_)
                | DomainInfo::TimeDomain(_)
                | DomainInfo::TimeOfDayDomain(_)
                | DomainInfo::BoolDomain(_),
            ) => true,
            _ => self.feature.annotation.iter().any(|annotation| annotation.tag.iter().any(|tag| tag == TEXT_TAG)),
        };
        if text { DataType::Utf8 } else { DataType::Binary }
    }

    fn count(&self) -> Result<Count> {
        let name = self.feature.name();
        let hint = "leave its tensor_representation and value_counts out, and its values are read as one list";
        if let Some(tensor) = self.representations.ragged.get(name)
            && !tensor.partition.is_empty()
            && !is_of_transform(name, &tensor.partition)
        {
            return Err(self.refused("a ragged tensor of more than one ragged dimension is not read", hint));
        }
        match &self.feature.shape_type {
            Some(ShapeType::Shape(shape)) => self.shape(shape),
            Some(ShapeType::ValueCount(count)) => Ok(of_value_count(count)),
            Some(ShapeType::ValueCounts(counts)) => match counts.value_count.as_slice() {
                [] => Ok(Count::Any),
                [count] => Ok(of_value_count(count)),
                levels => Err(self.refused(format!("lists in lists, {} deep, are not read", levels.len()), hint)),
            },
            None => self.representations.dense.get(name).map_or(Ok(Count::Any), |shape| self.shape(shape)),
        }
    }

    fn shape(&self, shape: &FixedShape) -> Result<Count> {
        if shape.dim.is_empty() {
            return Ok(Count::One);
        }
        // TensorFlow Data Validation infers this for a feature that always has one value.
        if matches!(shape.dim.as_slice(), [dim] if dim.size == Some(1)) {
            return Ok(Count::One);
        }
        // A dimension without a size, or of size -1, is unknown.
        let sizes: Option<Vec<i64>> = shape.dim.iter().map(|dim| dim.size.filter(|size| *size >= 0)).collect();
        let Some(sizes) = sizes else { return Ok(Count::Any) };
        let values = sizes.iter().try_fold(1_i64, |values, size| values.checked_mul(*size));
        match values.and_then(|values| i32::try_from(values).ok()) {
            Some(len) if len > 0 => Ok(Count::Fixed(len)),
            _ => Err(self.refused(
                format!("shape {sizes:?} is of no list: expected 1 to {} values", i32::MAX),
                "mend the shape, or leave it out",
            )),
        }
    }

    fn is_required(&self) -> bool {
        let feature = self.feature;
        let everywhere = feature.in_environment.is_empty() && feature.not_in_environment.is_empty();
        let validated = match feature.lifecycle_stage() {
            LifecycleStage::UnknownStage | LifecycleStage::Beta | LifecycleStage::Production => true,
            LifecycleStage::Planned
            | LifecycleStage::Alpha
            | LifecycleStage::Deprecated
            | LifecycleStage::DebugOnly
            | LifecycleStage::Disabled
            | LifecycleStage::ValidationDerived => false,
        };
        match &feature.presence_constraints {
            Some(PresenceConstraints::Presence(presence)) => {
                presence.min_fraction() >= 1.0 && everywhere && validated && !deprecated(feature)
            }
            _ => false,
        }
    }
}

/// Whether the features of a ragged tensor have the names of TensorFlow Transform: `c$ragged_values`,
/// `c$row_lengths_1`, `_2` and so on. Together they are one column.
fn is_of_transform(values: &str, partitions: &[Partition]) -> bool {
    let Some(name) = values.strip_suffix("$ragged_values") else { return false };
    partitions.iter().zip(1..).all(|(partition, level)| {
        let lengths = format!("{name}$row_lengths_{level}");
        partition.kind == Some(PartitionKind::RowLength(lengths))
    })
}

/// The older marker of deprecated features.
#[allow(deprecated, reason = "schemas of old have it")]
fn deprecated(feature: &v0::Feature) -> bool {
    feature.deprecated.unwrap_or_default()
}

fn of_value_count(count: &ValueCount) -> Count {
    match (count.min, count.max) {
        (Some(1), Some(1)) => Count::One,
        _ => Count::Any,
    }
}

fn says_text(domain: &v0::BoolDomain) -> bool {
    domain.true_value.is_some() || domain.false_value.is_some()
}

fn int_type(domain: Option<&DomainInfo>) -> DataType {
    use time_domain::{Format, IntegerTimeFormat as Unit};

    match domain {
        Some(DomainInfo::BoolDomain(_)) => DataType::Boolean,
        Some(DomainInfo::TimeDomain(v0::TimeDomain { format: Some(Format::IntegerFormat(unit)) })) => {
            let timestamp = |unit| DataType::Timestamp(unit, Some("UTC".into()));
            match Unit::try_from(*unit) {
                Ok(Unit::UnixDays) => DataType::Date32,
                Ok(Unit::UnixSeconds) => timestamp(TimeUnit::Second),
                Ok(Unit::UnixMilliseconds) => timestamp(TimeUnit::Millisecond),
                Ok(Unit::UnixMicroseconds) => timestamp(TimeUnit::Microsecond),
                Ok(Unit::UnixNanoseconds) => timestamp(TimeUnit::Nanosecond),
                Ok(Unit::FormatUnknown) | Err(_) => DataType::Int64,
            }
        }
        _ => DataType::Int64,
    }
}
