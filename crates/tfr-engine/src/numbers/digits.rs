//! [`DecimalInRange`]: decimals that have as many digits as their type.
//!
//! The engine stores a sum or product of 39 digits in a decimal of 38, and writes it without its last digit:
//! `99999999999999999999999999999999999999 + 1` was 10000000000000000000000000000000000000.

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type};
use arrow_schema::{
    DECIMAL32_MAX_PRECISION, DECIMAL64_MAX_PRECISION, DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType,
};
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result, exec_err, plan_err};
use datafusion_expr::interval_arithmetic::Interval;
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use crate::opaque;

/// `decimal_in_range(x)`: the decimal, or an error if it has more digits than its type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct DecimalInRange {
    signature: Signature,
}

impl DecimalInRange {
    pub fn function() -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::new_from_impl(Self { signature: Signature::any(1, Volatility::Immutable) }))
    }
}

/// Whether a decimal type has no wider one of its kind: a sum of two such decimals may not fit.
pub fn is_widest(data_type: &DataType) -> bool {
    match data_type {
        DataType::Decimal32(precision, _) => *precision == DECIMAL32_MAX_PRECISION,
        DataType::Decimal64(precision, _) => *precision == DECIMAL64_MAX_PRECISION,
        DataType::Decimal128(precision, _) => *precision == DECIMAL128_MAX_PRECISION,
        DataType::Decimal256(precision, _) => *precision == DECIMAL256_MAX_PRECISION,
        _ => false,
    }
}

/// Takes the call of [`DecimalInRange`] off an operand: of a chain of sums only the last one is checked.
pub fn unchecked(expr: Expr) -> (Expr, bool) {
    match expr {
        Expr::ScalarFunction(mut call) if call.func.inner().is::<DecimalInRange>() && call.args.len() == 1 => {
            (call.args.swap_remove(0), true)
        }
        other => (other, false),
    }
}

impl ScalarUDFImpl for DecimalInRange {
    fn name(&self) -> &str {
        "decimal_in_range"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [decimal] = take_function_args(self.name(), types)?;
        match decimal.is_decimal() {
            true => Ok(decimal.clone()),
            false => plan_err!("{} takes a decimal, not {decimal}", self.name()),
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        opaque::unbounded(inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [decimals] = take_function_args(self.name(), args.args)?;
        let array = decimals.to_array(1)?;
        let in_range = match *array.data_type() {
            DataType::Decimal32(precision, _) => {
                array.as_primitive::<Decimal32Type>().validate_decimal_precision(precision)
            }
            DataType::Decimal64(precision, _) => {
                array.as_primitive::<Decimal64Type>().validate_decimal_precision(precision)
            }
            DataType::Decimal128(precision, _) => {
                array.as_primitive::<Decimal128Type>().validate_decimal_precision(precision)
            }
            DataType::Decimal256(precision, _) => {
                array.as_primitive::<Decimal256Type>().validate_decimal_precision(precision)
            }
            ref other => return exec_err!("{} takes a decimal, not {other}", self.name()),
        };
        match in_range {
            Ok(()) => Ok(decimals),
            Err(_) => exec_err!(
                "decimal out of range: a result has more digits than {}; CAST an operand AS DOUBLE, or to a decimal \
                 with fewer digits after the point",
                array.data_type()
            ),
        }
    }
}
