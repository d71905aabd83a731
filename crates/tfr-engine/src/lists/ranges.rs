//! `range` of dates, without the date at its end.
//!
//! The engine ends a step before the end: `range(DATE '1989-04-01', DATE '1993-03-01', INTERVAL '1 year')` lacked the year 1992.

use std::sync::Arc;

use arrow::array::{Array, AsArray, Date32Array};
use arrow::compute::cast;
use arrow::datatypes::{Date32Type, IntervalMonthDayNanoType};
use arrow_schema::DataType;
use datafusion::functions_nested::range::{gen_series_udf, range_udf};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};

use crate::corrected::{Corrected, Correction};

/// Returns `range`.
pub(crate) fn range_function() -> Arc<ScalarUDF> {
    Corrected::function(range_udf(), &DateRange)
}

#[derive(Debug)]
struct DateRange;

impl Correction for DateRange {
    fn invoke(&self, engine: &ScalarUDF, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        if let [_, stop, step] = args.args.as_mut_slice()
            && matches!(stop.data_type(), DataType::Date32 | DataType::Date64)
        {
            let is_scalar = matches!((&*stop, &*step), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
            let steps = step.to_array(rows)?;
            let steps = steps.as_primitive::<IntervalMonthDayNanoType>();
            let stops = cast(&stop.to_array(rows)?, &DataType::Date32)?;
            let stops = stops.as_primitive::<Date32Type>();
            let last: Date32Array = (0..rows)
                .map(|row| {
                    let (stop, step) = (stops.is_valid(row).then(|| stops.value(row))?, steps.value(row));
                    let is_back = step.months < 0 || step.days < 0;
                    Some(if is_back { stop.saturating_add(1) } else { stop.saturating_sub(1) })
                })
                .collect();
            *stop = match is_scalar && rows > 0 {
                true => ColumnarValue::Scalar(ScalarValue::try_from_array(&last, 0)?),
                false => ColumnarValue::Array(Arc::new(last)),
            };
            return gen_series_udf().invoke_with_args(args);
        }
        engine.invoke_with_args(args)
    }
}
