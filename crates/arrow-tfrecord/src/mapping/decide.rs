//! Conversions of single values, by type and choice.

use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};

use super::LossClass;
use crate::dtype::{self, TensorShape};
use crate::feature::FeatureKind;
use crate::options::Choice;
use crate::vocabulary::Ranks;

/// The conversion of one value of a column to one value of its feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// No feature.
    Nothing,
    Bool,
    /// An integer of up to 64 bits, or a type stored as one.
    Integer,
    /// Two's complement of a `UInt64`, or an error above `i64::MAX`.
    Unsigned {
        wrap: bool,
    },
    /// A date or time, converted to another unit.
    Rescaled(Rescale),
    Float16,
    Float32,
    /// To the nearest float32, or an error where that is infinite and the value is not.
    NarrowedFloat64,
    Float64Bits,
    /// To the rank in a vocabulary.
    Index(Arc<Ranks>),
    /// To a serialized tensor: of a number, or of all that is in a list.
    Tensor(TensorShape),
    /// To the float32 nearest to the decimal's value.
    DecimalFloat,
    DecimalUnscaled,
    Bytes,
    /// By Arrow's own cast to text.
    Text,
}

/// A change of time unit: exact where it multiplies, rounded down where it divides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rescale {
    Multiply(i64),
    Divide(i64),
}

/// A conversion and its description for users.
pub(super) struct Decision {
    pub(super) conversion: Conversion,
    pub(super) kind: FeatureKind,
    pub(super) class: LossClass,
    pub(super) form: Option<String>,
}

impl Decision {
    fn exact(conversion: Conversion, kind: FeatureKind) -> Self {
        Self { conversion, kind, class: LossClass::Exact, form: None }
    }

    fn encoded(conversion: Conversion, kind: FeatureKind, form: impl Into<String>) -> Self {
        Self { conversion, kind, class: LossClass::Encoded, form: Some(form.into()) }
    }

    fn narrowed(conversion: Conversion, kind: FeatureKind, form: impl Into<String>) -> Self {
        Self { conversion, kind, class: LossClass::Narrowed, form: Some(form.into()) }
    }
}

/// The default conversion of values of `data_type`.
pub(super) fn default(data_type: &DataType) -> Option<Decision> {
    use Conversion as C;
    use DataType as T;
    use FeatureKind::{Bytes, Float, Int64};

    Some(match data_type {
        T::Null => Decision::exact(C::Nothing, Bytes),
        T::Boolean => Decision::exact(C::Bool, Int64),
        T::Int8 | T::Int16 | T::Int32 | T::Int64 | T::UInt8 | T::UInt16 | T::UInt32 => {
            Decision::exact(C::Integer, Int64)
        }
        T::UInt64 => Decision::exact(C::Unsigned { wrap: false }, Int64),
        T::Float16 => Decision::exact(C::Float16, Float),
        T::Float32 => Decision::exact(C::Float32, Float),
        T::Float64 => Decision::narrowed(C::NarrowedFloat64, Float, "float32 of float64"),
        decimal if decimal.is_decimal() => {
            Decision::narrowed(C::DecimalFloat, Float, format!("float32 of {}", decimal_name(decimal)))
        }
        T::Utf8 | T::LargeUtf8 | T::Utf8View | T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => {
            Decision::exact(C::Bytes, Bytes)
        }
        temporal => {
            let (_, unit) = ticks_per_second(temporal)?;
            Decision::encoded(C::Integer, Int64, unit)
        }
    })
}

/// The conversion of values of `data_type` by `choice`. `None` if the type does not support it.
pub(super) fn chosen(data_type: &DataType, choice: Choice) -> Option<Decision> {
    use Conversion as C;
    use DataType as T;
    use FeatureKind::{Bytes, Int64};

    let is_float64 = *data_type == T::Float64;
    let is_interval = matches!(data_type, T::Interval(_));
    match choice {
        Choice::Wrap if *data_type == T::UInt64 => {
            Some(Decision::encoded(C::Unsigned { wrap: true }, Int64, "two's complement"))
        }
        Choice::Bits if is_float64 => Some(Decision::encoded(C::Float64Bits, Int64, "bits of float64")),
        Choice::Tensor if is_float64 => tensor(data_type, TensorShape::Lists),
        Choice::String if is_float64 => Some(Decision::encoded(C::Text, Bytes, "text of float64")),
        Choice::String if data_type.is_decimal() => {
            Some(Decision::encoded(C::Text, Bytes, format!("text of {}", decimal_name(data_type))))
        }
        Choice::String if data_type.is_temporal() && !is_interval => {
            Some(Decision::encoded(C::Text, Bytes, "ISO 8601 text"))
        }
        Choice::Index if data_type.is_string() => {
            Some(Decision::encoded(C::Index(Arc::default()), Int64, "rank in a vocabulary"))
        }
        Choice::String if matches!(data_type, T::Union(..)) => {
            Some(Decision::narrowed(C::Text, Bytes, "text of union, which is not read back"))
        }
        Choice::String if is_interval => Some(Decision::encoded(C::Text, Bytes, "text of interval")),
        Choice::Unscaled => match data_type {
            T::Decimal32(_, scale) | T::Decimal64(_, scale) | T::Decimal128(_, scale) | T::Decimal256(_, scale) => {
                Some(Decision::encoded(C::DecimalUnscaled, Int64, format!("unscaled, scale {scale}")))
            }
            _ => None,
        },
        Choice::Seconds => rescaled(data_type, 1, "seconds"),
        Choice::Millis => rescaled(data_type, 1_000, "milliseconds"),
        Choice::Micros => rescaled(data_type, 1_000_000, "microseconds"),
        _ => None,
    }
}

/// The conversion of tensors of `data_type`. `None` if TensorFlow has no such dtype.
pub(super) fn tensor(data_type: &DataType, shape: TensorShape) -> Option<Decision> {
    let form = format!("TensorProto of {}", dtype::dtype_name(dtype::dtype(data_type)?.into()));
    Some(Decision::encoded(Conversion::Tensor(shape), FeatureKind::Bytes, form))
}

/// The time unit's length as a fraction and its name: `(n, 1)` if n units make a second, `(1, n)` if a unit is n
/// seconds.
fn ticks_per_second(data_type: &DataType) -> Option<((i64, i64), &'static str)> {
    Some(match data_type {
        DataType::Date32 => ((1, 86_400), "days since 1970-01-01"),
        DataType::Date64 => ((1_000, 1), "milliseconds"),
        DataType::Time32(unit) | DataType::Time64(unit) | DataType::Timestamp(unit, _) | DataType::Duration(unit) => {
            match unit {
                TimeUnit::Second => ((1, 1), "seconds"),
                TimeUnit::Millisecond => ((1_000, 1), "milliseconds"),
                TimeUnit::Microsecond => ((1_000_000, 1), "microseconds"),
                TimeUnit::Nanosecond => ((1_000_000_000, 1), "nanoseconds"),
            }
        }
        _ => return None,
    })
}

fn rescaled(data_type: &DataType, target: i64, name: &str) -> Option<Decision> {
    let ((ticks, seconds), own) = ticks_per_second(data_type)?;
    let kind = FeatureKind::Int64;
    Some(if ticks <= target {
        let factor = target / ticks * seconds;
        if factor == 1 {
            Decision::encoded(Conversion::Integer, kind, name)
        } else {
            Decision::encoded(Conversion::Rescaled(Rescale::Multiply(factor)), kind, name)
        }
    } else {
        let form = format!("{name}, rounded down from {own}");
        Decision::narrowed(Conversion::Rescaled(Rescale::Divide(ticks / target)), kind, form)
    })
}

fn decimal_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => format!("decimal({precision},{scale})"),
        other => other.to_string(),
    }
}
