//! Converts a mapping to a schema of TensorFlow Metadata.

use std::collections::BTreeMap;

use arrow_schema::{DataType, TimeUnit};
use arrow_tfrecord::{Choice, FeatureKind, FeatureShape, Mapping, RecordType};
use tfr_proto::tensorflow::metadata::v0::feature::{DomainInfo, PresenceConstraints, ShapeType};
use tfr_proto::tensorflow::metadata::v0::fixed_shape::Dim;
use tfr_proto::tensorflow::metadata::v0::tensor_representation::{
    DenseTensor, Kind as Representation, RaggedTensor, VarLenSparseTensor,
};
use tfr_proto::tensorflow::metadata::v0::time_domain::{Format, IntegerTimeFormat};
use tfr_proto::tensorflow::metadata::v0::{
    Annotation, BoolDomain, Feature, FeaturePresence, FeatureType, FixedShape, IntDomain, Path, Schema, StringDomain,
    TensorRepresentation, TensorRepresentationGroup, TimeDomain, ValueCount,
};

use super::{MAX_WORDS, TEXT_TAG};
use crate::columns::{TableFeature, expect_records, is_text};
use crate::error::Result;
use crate::stats::{FeatureStatistics, Statistics, observed_features};

/// Returns a `schema.pbtxt` for the records of `mapping`, with features in the order of its columns. The
/// [module](crate::tfmd) documents its contents.
///
/// ```
/// use std::sync::Arc;
/// use arrow_schema::{DataType, Field, Schema};
/// use arrow_tfrecord::Mapping;
/// use tfrecord_sidecars::tfmd;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schema = Arc::new(Schema::new(vec![
///     Field::new("flag", DataType::Boolean, false),
///     Field::new_list("words", Field::new_list_field(DataType::Utf8, true), true),
/// ]));
/// let mapping = Mapping::try_new(&schema, &Default::default())?;
/// let text = tfmd::schema_to_pbtxt(&mapping)?;
/// assert!(text.contains("bool_domain {"));
/// assert_eq!(tfmd::schema_from_pbtxt(&text)?, *schema);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Fails on records that are not Examples.
pub fn schema_to_pbtxt(mapping: &Mapping) -> Result<String> {
    schema_to_pbtxt_of(mapping, None)
}

/// As [`schema_to_pbtxt`], with the observed presence, value counts and domains of the records.
///
/// # Errors
/// Fails on records that are not Examples.
pub fn schema_to_pbtxt_of(mapping: &Mapping, statistics: Option<&Statistics>) -> Result<String> {
    expect_records(mapping, &[RecordType::Example])?;
    let statistics = statistics.filter(|statistics| statistics.rows() > 0);
    let features = observed_features(mapping, statistics);
    let found = |feature: &TableFeature<'_>| statistics.and_then(|statistics| statistics.feature(feature.name()));
    let tensors: BTreeMap<_, _> =
        features.iter().map(|feature| (feature.name().to_owned(), representation(feature))).collect();
    let group = TensorRepresentationGroup { tensor_representation: tensors };
    super::print(&Schema {
        feature: features.iter().map(|feature| described(feature, found(feature))).collect(),
        // TFX reads the group without a name.
        tensor_representation_group: BTreeMap::from([(String::new(), group)]),
        ..Schema::default()
    })
}

fn described(feature: &TableFeature<'_>, found: Option<&FeatureStatistics>) -> Feature {
    let feature_type = match feature.kind() {
        FeatureKind::Bytes => FeatureType::Bytes,
        FeatureKind::Float => FeatureType::Float,
        FeatureKind::Int64 => FeatureType::Int,
    };
    let always = FeaturePresence { min_fraction: Some(1.0), min_count: Some(1) };
    let count = |least: i64, most| {
        let min = Some(if feature.may_be_empty() { 0 } else { least });
        ShapeType::ValueCount(ValueCount { min, max: most })
    };
    let shape = match (&feature.shape, feature.feature.shape) {
        (Some(shape), _) if !feature.may_be_absent() => ShapeType::Shape(fixed(shape)),
        // A shape requires a feature in every record.
        (_, FeatureShape::Scalar) => count(1, Some(1)),
        (_, FeatureShape::Fixed(len)) => {
            let len = i64::try_from(len).unwrap_or(i64::MAX);
            count(len, Some(len))
        }
        (_, FeatureShape::List) => match found.and_then(FeatureStatistics::num_values) {
            Some((least, most)) => {
                let bound = |count: u64| Some(i64::try_from(count).unwrap_or(i64::MAX));
                ShapeType::ValueCount(ValueCount { min: bound(least), max: bound(most) })
            }
            None => count(0, None),
        },
    };
    let text = holds_text(feature);
    let words = found.filter(|_| text).and_then(FeatureStatistics::words);
    let words = words.filter(|words| (1..=MAX_WORDS).contains(&words.len()));
    let words =
        words.map(|value| StringDomain { name: Some(feature.name().to_owned()), value, ..StringDomain::default() });
    let tag = (text && words.is_none()).then(|| Annotation { tag: vec![TEXT_TAG.to_owned()], ..Annotation::default() });
    Feature {
        name: Some(feature.name().to_owned()),
        r#type: Some(feature_type.into()),
        presence_constraints: (!feature.may_be_absent()).then_some(PresenceConstraints::Presence(always)),
        shape_type: Some(shape),
        domain_info: words.map(DomainInfo::StringDomain).or_else(|| domain(feature)),
        annotation: tag,
        ..Feature::default()
    }
}

fn fixed(shape: &[usize]) -> FixedShape {
    let size = |size: &usize| i64::try_from(*size).unwrap_or(i64::MAX);
    FixedShape { dim: shape.iter().map(|dim| Dim { size: Some(size(dim)), name: None }).collect() }
}

/// The tensor that TFX reads the feature as.
fn representation(feature: &TableFeature<'_>) -> TensorRepresentation {
    let column_name = Some(feature.name().to_owned());
    let kind = match &feature.shape {
        Some(shape) if !feature.may_be_absent() => {
            Representation::DenseTensor(DenseTensor { column_name, shape: Some(fixed(shape)), default_value: None })
        }
        Some(shape) if shape.is_empty() => Representation::VarlenSparseTensor(VarLenSparseTensor { column_name }),
        _ => Representation::RaggedTensor(RaggedTensor {
            feature_path: Some(Path { step: column_name.into_iter().collect() }),
            ..RaggedTensor::default()
        }),
    };
    TensorRepresentation { kind: Some(kind) }
}

fn holds_text(feature: &TableFeature<'_>) -> bool {
    feature.kind() == FeatureKind::Bytes
        && (feature.choice == Some(Choice::String) || feature.value_type().is_some_and(is_text))
}

/// The domain that the Arrow type implies.
fn domain(feature: &TableFeature<'_>) -> Option<DomainInfo> {
    let within = |min: i64, max: Option<i64>| {
        Some(DomainInfo::IntDomain(IntDomain { min: Some(min), max, ..IntDomain::default() }))
    };
    if feature.kind() != FeatureKind::Int64 {
        return None;
    }
    match (feature.value_type()?, feature.choice) {
        (DataType::Boolean, _) => Some(DomainInfo::BoolDomain(BoolDomain::default())),
        (DataType::Int8, _) => within(i8::MIN.into(), Some(i8::MAX.into())),
        (DataType::Int16, _) => within(i16::MIN.into(), Some(i16::MAX.into())),
        (DataType::Int32, _) => within(i32::MIN.into(), Some(i32::MAX.into())),
        (DataType::UInt8, _) => within(0, Some(u8::MAX.into())),
        (DataType::UInt16, _) => within(0, Some(u16::MAX.into())),
        (DataType::UInt32, _) => within(0, Some(u32::MAX.into())),
        (DataType::UInt64, None) => within(0, None),
        (data_type, choice) => {
            let format = Format::IntegerFormat(unix_time(data_type, choice)?.into());
            Some(DomainInfo::TimeDomain(TimeDomain { format: Some(format) }))
        }
    }
}

/// The unit of a point in time, as it is stored.
fn unix_time(data_type: &DataType, choice: Option<Choice>) -> Option<IntegerTimeFormat> {
    use IntegerTimeFormat as Unit;

    match (data_type, choice) {
        (DataType::Date32 | DataType::Date64 | DataType::Timestamp(..), Some(choice)) => match choice {
            Choice::Seconds => Some(Unit::UnixSeconds),
            Choice::Millis => Some(Unit::UnixMilliseconds),
            Choice::Micros => Some(Unit::UnixMicroseconds),
            _ => None,
        },
        (DataType::Date32, None) => Some(Unit::UnixDays),
        (DataType::Date64, None) => Some(Unit::UnixMilliseconds),
        (DataType::Timestamp(unit, _), None) => Some(match unit {
            TimeUnit::Second => Unit::UnixSeconds,
            TimeUnit::Millisecond => Unit::UnixMilliseconds,
            TimeUnit::Microsecond => Unit::UnixMicroseconds,
            TimeUnit::Nanosecond => Unit::UnixNanoseconds,
        }),
        _ => None,
    }
}
