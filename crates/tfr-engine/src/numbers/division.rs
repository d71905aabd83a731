//! Quotients of decimals, with the scale of Spark's rules, rounded.
//!
//! The engine gives a quotient four digits more than the dividend has, and cuts the rest: `1.00 / 30000.00` was
//! 0.000033. Quotients of unsigned and signed integers are integers.

use std::sync::Arc;

use arrow::array::{Array, AsArray, Decimal128Array};
use arrow::compute::kernels::arity::try_binary;
use arrow::datatypes::Decimal128Type;
use arrow::error::ArrowError;
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef};
use datafusion_common::utils::take_function_args;
use datafusion_common::{DFSchema, DataFusionError, Result, ScalarValue, internal_err, plan_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, ExprSchemable as _, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, cast, lit,
};

use super::decimals::rounded_quotient;
use super::literals::literal;

/// The minimum scale of a quotient, if 38 digits leave room for it: the digits of a double. Spark's is 6, which cuts
/// `1 / 255.0` to 0.003922.
const LEAST_SCALE: i64 = 16;

/// The minimum scale of any quotient, as in Spark.
const LEAST_SCALE_OF_LARGE: i64 = 6;

/// Returns the quotient of two expressions if it is a decimal.
pub fn quotient(divide: &Arc<ScalarUDF>, left: &Expr, right: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let (Ok(left_type), Ok(right_type)) = (left.get_type(schema), right.get_type(schema)) else { return Ok(None) };
    let is_exact = |data_type: &DataType| data_type.is_decimal() || data_type.is_integer();
    if let Some(quotient) = integer_quotient((left, &left_type), (right, &right_type))? {
        return Ok(Some(quotient));
    }
    let has_decimal = left_type.is_decimal() || right_type.is_decimal();
    if !has_decimal || !is_exact(&left_type) || !is_exact(&right_type) {
        return Ok(None);
    }
    for data_type in [&left_type, &right_type] {
        if matches!(data_type, DataType::Decimal256(..)) {
            return plan_err!(
                "{left} / {right}: a quotient of decimals with more than 38 digits; CAST the operands AS DOUBLE or to \
                 DECIMAL(38, s)"
            );
        }
    }
    let (Some(dividend), Some(divisor)) = (operand(left, &left_type), operand(right, &right_type)) else {
        return Ok(None);
    };
    let args = vec![dividend, divisor];
    Ok(Some(Expr::ScalarFunction(ScalarFunction { func: Arc::clone(divide), args })))
}

/// Returns the quotient of a BIGINT UNSIGNED and a literal, which is an integer. Its quotient with any other signed integer
/// is refused. To the engine both were decimals with four digits after the point.
fn integer_quotient(left: (&Expr, &DataType), right: (&Expr, &DataType)) -> Result<Option<Expr>> {
    let unsigned = |(expr, data_type): (&Expr, &DataType)| match literal(expr) {
        _ if *data_type == DataType::UInt64 => Some(expr.clone()),
        Some(value) => value.cast_to(&DataType::UInt64).ok().filter(|value| !value.is_null()).map(lit),
        None => None,
    };
    if ![left, right].iter().any(|(_, data_type)| **data_type == DataType::UInt64)
        || ![left, right].iter().any(|(_, data_type)| data_type.is_signed_integer())
    {
        return Ok(None);
    }
    match (unsigned(left), unsigned(right)) {
        (Some(dividend), Some(divisor)) => Ok(Some(dividend / divisor)),
        _ => plan_err!(
            "{} / {}: a quotient of a BIGINT UNSIGNED and a signed integer; CAST both AS BIGINT, or AS DECIMAL(20, 0) for \
             digits after the point",
            left.0,
            right.0
        ),
    }
}

/// Returns an operand as a decimal without a negative scale, if it is a decimal or an integer.
fn operand(expr: &Expr, data_type: &DataType) -> Option<Expr> {
    let (precision, scale) = match *data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale) => match scale {
            ..0 => (precision.saturating_add(scale.unsigned_abs()).min(DECIMAL128_MAX_PRECISION), 0),
            _ => (precision, scale),
        },
        // A literal has the digits that are written.
        _ => match literal(expr) {
            Some(ScalarValue::Int64(Some(value))) => (value.unsigned_abs().checked_ilog10().unwrap_or(0) as u8 + 1, 0),
            _ => match data_type {
                DataType::Int8 | DataType::UInt8 => (3, 0),
                DataType::Int16 | DataType::UInt16 => (5, 0),
                DataType::Int32 | DataType::UInt32 => (10, 0),
                DataType::Int64 | DataType::UInt64 => (20, 0),
                _ => return None,
            },
        },
    };
    let decimal = DataType::Decimal128(precision, scale);
    Some(if *data_type == decimal { expr.clone() } else { cast(expr.clone(), decimal) })
}

/// Returns the precision and the scale of a quotient, by the rules of Spark but for [`LEAST_SCALE`].
fn quotient_type(dividend: (u8, i8), divisor: (u8, i8)) -> (u8, i8) {
    let most = i64::from(DECIMAL128_MAX_PRECISION);
    let ((precision, scale), (divisor_precision, divisor_scale)) = (dividend, divisor);
    let whole = i64::from(precision) - i64::from(scale) + i64::from(divisor_scale);
    let wanted = LEAST_SCALE.max(i64::from(scale) + i64::from(divisor_precision) + 1);
    let scale = wanted.min((most - whole).max(LEAST_SCALE_OF_LARGE));
    ((whole + scale).clamp(1, most) as u8, scale as i8)
}

/// `decimal_divide(dividend, divisor)`: a rounded quotient.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct DecimalDivision {
    signature: Signature,
}

impl DecimalDivision {
    pub fn function() -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::new_from_impl(Self { signature: Signature::any(2, Volatility::Immutable) }))
    }
}

impl ScalarUDFImpl for DecimalDivision {
    fn name(&self) -> &str {
        "decimal_divide"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("{}: return_field_from_args is called instead", self.name())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [dividend, divisor] = take_function_args(self.name(), args.arg_fields)?;
        match (dividend.data_type(), divisor.data_type()) {
            (&DataType::Decimal128(precision, scale), &DataType::Decimal128(divisor_precision, divisor_scale)) => {
                let (precision, scale) = quotient_type((precision, scale), (divisor_precision, divisor_scale));
                let nullable = dividend.is_nullable() || divisor.is_nullable();
                Ok(Arc::new(Field::new(self.name(), DataType::Decimal128(precision, scale), nullable)))
            }
            (other, divisor) => plan_err!("{} takes decimals, not {other} and {divisor}", self.name()),
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [dividend, divisor] = take_function_args(self.name(), args.args)?;
        let is_scalar = matches!((&dividend, &divisor), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let (dividend, divisor) = (dividend.into_array(rows)?, divisor.into_array(rows)?);
        let scale_of = |data_type: &DataType| match data_type {
            DataType::Decimal128(_, scale) => Ok(i32::from(*scale)),
            other => internal_err!("a quotient of {other}"),
        };
        let data_type = args.return_field.data_type();
        let shift = scale_of(data_type)? + scale_of(divisor.data_type())? - scale_of(dividend.data_type())?;
        let exponent = u32::try_from(shift)
            .map_err(|_| DataFusionError::Internal(format!("a quotient with {shift} digits more")))?;
        let &DataType::Decimal128(precision, scale) = data_type else {
            return internal_err!("a quotient of type {data_type}");
        };
        let largest = 10_u128.pow(u32::from(precision)) - 1;
        let quotients: Decimal128Array = try_binary(
            dividend.as_primitive::<Decimal128Type>(),
            divisor.as_primitive::<Decimal128Type>(),
            |dividend, divisor| {
                if divisor == 0 {
                    return Err(ArrowError::DivideByZero);
                }
                rounded_quotient(dividend, divisor, exponent)
                    .filter(|found| found.unsigned_abs() <= largest)
                    .ok_or_else(|| {
                        ArrowError::ComputeError(format!(
                            "quotient out of range: it has more digits than DECIMAL({precision}, {scale}); CAST an \
                             operand AS DOUBLE"
                        ))
                    })
            },
        )?;
        let quotients = quotients.with_data_type(data_type.clone());
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&quotients, 0)?),
            false => ColumnarValue::Array(Arc::new(quotients) as Arc<dyn Array>),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The types of `CAST(1 AS DECIMAL(p1, s1)) / CAST(1 AS DECIMAL(p2, s2))`. Those with another scale than 16 are
    /// Spark's.
    #[test]
    fn quotients_have_the_types_of_spark_or_more_digits() {
        for (dividend, divisor, expected) in [
            ((9, 2), (9, 2), (25, 16)),
            ((10, 2), (20, 2), (33, 23)),
            ((10, 0), (5, 2), (28, 16)),
            ((38, 4), (38, 4), (38, 6)),
            ((38, 10), (38, 10), (38, 6)),
            ((20, 0), (4, 1), (37, 16)),
            ((38, 38), (38, 0), (38, 38)),
        ] {
            assert_eq!(quotient_type(dividend, divisor), expected);
        }
    }
}
