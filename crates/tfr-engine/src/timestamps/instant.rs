//! The function `instant`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Decimal128Array};
use arrow::datatypes::{
    Decimal128Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow_schema::{DataType, TimeUnit};
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result, ScalarValue, plan_err};
use datafusion_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

/// Returns the nanoseconds since 1970-01-01T00:00:00Z of any timestamp, as a decimal: 64 bits do not cover the range
/// of all units.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Instant(Signature);

impl Default for Instant {
    fn default() -> Self {
        Self(Signature::any(1, Volatility::Immutable))
    }
}

/// The maximum of about 10^19 seconds has 28 digits in nanoseconds.
const INSTANT: DataType = DataType::Decimal128(28, 0);

impl ScalarUDFImpl for Instant {
    fn name(&self) -> &str {
        "instant"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [DataType::Timestamp(..)] => Ok(INSTANT),
            other => plan_err!("instant takes a timestamp, not {other:?}"),
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [time] = take_function_args(self.name(), args.args)?;
        Ok(match time {
            ColumnarValue::Array(array) => ColumnarValue::Array(instants(&array)?),
            ColumnarValue::Scalar(scalar) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&instants(&scalar.to_array()?)?, 0)?)
            }
        })
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(inputs.first().map_or(SortProperties::Unordered, |input| input.sort_properties))
    }
}

fn instants(times: &ArrayRef) -> Result<ArrayRef> {
    let DataType::Timestamp(unit, _) = times.data_type() else {
        return plan_err!("instant takes a timestamp, not {}", times.data_type());
    };
    let instants = match unit {
        TimeUnit::Second => scaled::<TimestampSecondType>(times, 1_000_000_000),
        TimeUnit::Millisecond => scaled::<TimestampMillisecondType>(times, 1_000_000),
        TimeUnit::Microsecond => scaled::<TimestampMicrosecondType>(times, 1_000),
        TimeUnit::Nanosecond => scaled::<TimestampNanosecondType>(times, 1),
    };
    Ok(Arc::new(instants.with_data_type(INSTANT)))
}

fn scaled<T: ArrowPrimitiveType<Native = i64>>(times: &dyn Array, nanoseconds: i128) -> Decimal128Array {
    times.as_primitive::<T>().unary::<_, Decimal128Type>(|time| i128::from(time) * nanoseconds)
}
