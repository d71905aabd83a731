//! Casts of decimals to doubles, rounded once.
//!
//! The engine divides the nearest double of the unscaled integer by a power of ten, which rounds twice if the integer
//! has more than 15 digits. The result could be the double next to the one that equals the decimal.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, PrimitiveArray};
use arrow::datatypes::{ArrowNativeType, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType};
use arrow_schema::DataType;
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::interval_arithmetic::Interval;
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

/// Digits that every double represents.
const EXACT_DIGITS: u8 = 15;

/// Whether the engine may round decimals of a type twice.
pub fn is_rounded_twice(data_type: &DataType) -> bool {
    match *data_type {
        DataType::Decimal64(precision, _) | DataType::Decimal128(precision, _) | DataType::Decimal256(precision, _) => {
            precision > EXACT_DIGITS
        }
        _ => false,
    }
}

/// `decimal_to_double(x)`: the nearest double.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct DecimalToDouble {
    signature: Signature,
}

impl DecimalToDouble {
    pub fn function() -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::new_from_impl(Self { signature: Signature::any(1, Volatility::Immutable) }))
    }
}

impl ScalarUDFImpl for DecimalToDouble {
    fn name(&self) -> &str {
        "decimal_to_double"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn evaluate_bounds(&self, _: &[&Interval]) -> Result<Interval> {
        Interval::make_unbounded(&DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = take_function_args(self.name(), args.args)?;
        Ok(match value {
            ColumnarValue::Array(values) => ColumnarValue::Array(to_doubles(&values)?),
            ColumnarValue::Scalar(value) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&to_doubles(&value.to_array()?)?, 0)?)
            }
        })
    }
}

fn to_doubles(values: &ArrayRef) -> Result<ArrayRef> {
    let doubles = match *values.data_type() {
        DataType::Decimal64(precision, scale) => nearest::<Decimal64Type>(values.as_primitive(), precision, scale),
        DataType::Decimal128(precision, scale) => nearest::<Decimal128Type>(values.as_primitive(), precision, scale),
        DataType::Decimal256(precision, scale) => nearest::<Decimal256Type>(values.as_primitive(), precision, scale),
        ref other => return exec_err!("decimal_to_double of {other}"),
    };
    Ok(Arc::new(doubles))
}

/// Divides integers and powers of ten that are doubles, whose quotient is rounded once. Reads the digits of others.
fn nearest<T: DecimalType>(values: &PrimitiveArray<T>, precision: u8, scale: i8) -> Float64Array {
    let power = (0..=22).contains(&scale).then(|| 10_f64.powi(i32::from(scale)));
    let nearest = |value: T::Native| {
        let unscaled = value.to_i64().filter(|unscaled| unscaled.unsigned_abs() <= 1 << 53);
        match (unscaled, power) {
            #[expect(clippy::cast_precision_loss, reason = "at most 2^53")]
            (Some(unscaled), Some(power)) => unscaled as f64 / power,
            _ => T::format_decimal(value, precision, scale).parse().unwrap_or(f64::NAN),
        }
    };
    values.unary(nearest)
}
