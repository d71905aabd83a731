//! Values in the metadata of Iceberg tables: defaults of columns as JSON, and parts of partitions.

use arrow_schema::{DataType, TimeUnit};
use datafusion_common::ScalarValue;
use serde_json::Value;

use crate::table::values;

const MICROS_OF_DAY: i64 = 86_400_000_000;
const NANOS_OF_MICRO: i64 = 1000;

/// Parses the default of a column. `None` if it is not a value of the type, or columns of the type cannot have one.
pub(super) fn parse(json: &Value, data_type: &DataType) -> Option<ScalarValue> {
    let text = match (json, data_type) {
        (Value::Bool(value), DataType::Boolean) => return Some(ScalarValue::Boolean(Some(*value))),
        (Value::Number(number), DataType::Int32 | DataType::Int64 | DataType::Float32 | DataType::Float64) => {
            return values::parse(Some(&number.to_string()), data_type);
        }
        (Value::String(text), _) => text,
        _ => return None,
    };
    match data_type {
        DataType::Utf8 => Some(ScalarValue::Utf8(Some(text.clone()))),
        DataType::Binary => Some(ScalarValue::Binary(Some(bytes(text)?))),
        DataType::FixedSizeBinary(len) => {
            let bytes = bytes(&text.replace('-', ""))?;
            (bytes.len() == usize::try_from(*len).ok()?).then(|| ScalarValue::FixedSizeBinary(*len, Some(bytes)))
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            let time = values::parse(Some(&format!("1970-01-01 {text}")), &local())?;
            match time {
                ScalarValue::TimestampMicrosecond(micros, _) => Some(ScalarValue::Time64Microsecond(micros)),
                _ => None,
            }
        }
        DataType::Timestamp(_, None) => values::parse(Some(&text.replacen('T', " ", 1)), data_type),
        // An instant needs its zone.
        DataType::Timestamp(_, Some(_)) if values::lacks_zone(text) => None,
        DataType::Timestamp(_, Some(_)) | DataType::Date32 | DataType::Decimal128(..) if !text.is_empty() => {
            values::parse(Some(text), data_type)
        }
        _ => None,
    }
}

fn local() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

/// Parses hexadecimal digits.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|digit| u8::try_from(digit.to_digit(16)?).ok()).collect();
    let (pairs, []) = digits.as_deref()?.as_chunks::<2>() else { return None };
    Some(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

/// Returns a part of a partition as a value of its column, whose type may have been widened since. `None` if it is not
/// one.
pub(super) fn widened(value: &ScalarValue, data_type: &DataType) -> Option<ScalarValue> {
    use ScalarValue as S;
    if value.is_null() {
        return S::try_from(data_type).ok();
    }
    Some(match (value, data_type) {
        (S::Int32(Some(value)), DataType::Int64) => S::Int64(Some((*value).into())),
        (S::Float32(Some(value)), DataType::Float64) => S::Float64(Some((*value).into())),
        (S::Decimal128(Some(value), precision, scale), DataType::Decimal128(wider, same))
            if scale == same && precision <= wider =>
        {
            S::Decimal128(Some(*value), *wider, *same)
        }
        // Avro's own types of instants and local times are not those of the table.
        (S::TimestampMicrosecond(micros, _), DataType::Timestamp(TimeUnit::Microsecond, zone)) => {
            S::TimestampMicrosecond(*micros, zone.clone())
        }
        (S::TimestampNanosecond(nanos, _), DataType::Timestamp(TimeUnit::Nanosecond, zone)) => {
            S::TimestampNanosecond(*nanos, zone.clone())
        }
        (S::Date32(Some(days)), DataType::Timestamp(TimeUnit::Microsecond, None)) => {
            S::TimestampMicrosecond(Some(i64::from(*days) * MICROS_OF_DAY), None)
        }
        (S::Date32(Some(days)), DataType::Timestamp(TimeUnit::Nanosecond, None)) => {
            let micros = i64::from(*days) * MICROS_OF_DAY;
            S::TimestampNanosecond(Some(micros.checked_mul(NANOS_OF_MICRO)?), None)
        }
        (S::Binary(Some(bytes)), DataType::FixedSizeBinary(len)) if bytes.len() == usize::try_from(*len).ok()? => {
            S::FixedSizeBinary(*len, Some(bytes.clone()))
        }
        (S::FixedSizeBinary(_, Some(bytes)), DataType::Binary) => S::Binary(Some(bytes.clone())),
        (value, data_type) if value.data_type() == *data_type => value.clone(),
        _ => return None,
    })
}

/// A part of a partition by which partitions are compared, whatever the types in their manifests. `None` is null.
///
/// The error is the type of a value that no partition has.
pub(super) fn comparable(value: &ScalarValue) -> Result<Option<Vec<u8>>, DataType> {
    use ScalarValue as S;
    let number = |number: i128| Ok(Some(number.to_be_bytes().to_vec()));
    // All NaNs are one, and zeros with different signs are two, as by Iceberg.
    let float = |value: f64| Ok(Some(if value.is_nan() { f64::NAN } else { value }.to_be_bytes().to_vec()));
    if value.is_null() {
        return Ok(None);
    }
    match value {
        S::Boolean(Some(value)) => number((*value).into()),
        S::Int32(Some(value)) | S::Date32(Some(value)) => number((*value).into()),
        S::Int64(Some(value))
        | S::Time64Microsecond(Some(value))
        | S::TimestampMicrosecond(Some(value), _)
        | S::TimestampNanosecond(Some(value), _) => number((*value).into()),
        S::Float32(Some(value)) => float((*value).into()),
        S::Float64(Some(value)) => float(*value),
        S::Decimal128(Some(value), ..) => number(*value),
        S::Utf8(Some(text)) => Ok(Some(text.as_bytes().to_vec())),
        S::Binary(Some(bytes)) | S::FixedSizeBinary(_, Some(bytes)) => Ok(Some(bytes.clone())),
        other => Err(other.data_type()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn iceberg_defaults_are_values_of_their_types() {
        let micros = |micros, zone: Option<&str>| ScalarValue::TimestampMicrosecond(Some(micros), zone.map(Into::into));
        let instant = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        for (json, data_type, expected) in [
            (json!(true), DataType::Boolean, ScalarValue::Boolean(Some(true))),
            (json!(-7), DataType::Int32, ScalarValue::Int32(Some(-7))),
            (json!(0.1), DataType::Float32, ScalarValue::Float32(Some(0.1))),
            (json!("1.25"), DataType::Decimal128(9, 2), ScalarValue::Decimal128(Some(125), 9, 2)),
            (json!(""), DataType::Utf8, ScalarValue::Utf8(Some(String::new()))),
            (json!("00ff"), DataType::Binary, ScalarValue::Binary(Some(vec![0, 255]))),
            (json!("1970-01-02"), DataType::Date32, ScalarValue::Date32(Some(1))),
            (
                json!("00:00:01.5"),
                DataType::Time64(TimeUnit::Microsecond),
                ScalarValue::Time64Microsecond(Some(1_500_000)),
            ),
            (json!("1970-01-01T00:00:00.000001"), local(), micros(1, None)),
            (json!("1970-01-01T00:00:00.000001+00:00"), instant.clone(), micros(1, Some("UTC"))),
            (
                json!("1970-01-01T00:00:00.000000001"),
                DataType::Timestamp(TimeUnit::Nanosecond, None),
                ScalarValue::TimestampNanosecond(Some(1), None),
            ),
            (
                json!("00010203-0405-0607-0809-0a0b0c0d0e0f"),
                DataType::FixedSizeBinary(16),
                ScalarValue::FixedSizeBinary(16, Some((0..16).collect())),
            ),
        ] {
            assert_eq!(parse(&json, &data_type), Some(expected), "{json}");
        }
        for (json, data_type) in [
            (json!(7.5), DataType::Int64),
            (json!("7"), DataType::Int64),
            (json!(1), DataType::Boolean),
            (json!("1.255"), DataType::Decimal128(9, 2)),
            (json!(""), DataType::Date32),
            (json!("0ff"), DataType::Binary),
            (json!("1970-01-01 00:00:00"), instant),
            (json!({}), DataType::Utf8),
        ] {
            assert_eq!(parse(&json, &data_type), None, "{json}");
        }
    }

    #[test]
    fn iceberg_partitions_are_compared_by_their_values() {
        let equal = |left: ScalarValue, right: ScalarValue| comparable(&left) == comparable(&right);
        assert!(equal(ScalarValue::Int32(Some(5)), ScalarValue::Int64(Some(5))));
        assert!(equal(ScalarValue::Float32(Some(f32::NAN)), ScalarValue::Float64(Some(-f64::NAN))));
        assert!(!equal(ScalarValue::Float64(Some(0.0)), ScalarValue::Float64(Some(-0.0))));
        assert!(!equal(ScalarValue::Utf8(None), ScalarValue::Utf8(Some(String::new()))));
    }

    #[test]
    fn iceberg_partition_values_become_those_of_the_column() {
        let zoned = ScalarValue::TimestampMicrosecond(Some(5), Some("UTC".into()));
        assert_eq!(widened(&zoned, &local()), Some(ScalarValue::TimestampMicrosecond(Some(5), None)));
        assert_eq!(widened(&ScalarValue::Int32(Some(1)), &DataType::Int64), Some(ScalarValue::Int64(Some(1))));
        assert_eq!(widened(&ScalarValue::Int64(Some(1)), &DataType::Int32), None);
        assert_eq!(widened(&ScalarValue::Int32(None), &DataType::Utf8), Some(ScalarValue::Utf8(None)));
    }
}
