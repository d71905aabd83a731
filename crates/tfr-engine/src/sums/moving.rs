//! Sums and averages of doubles over moving frames.

use arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::Float64Type;
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result, ScalarValue};

use super::ResultKind;
use crate::moving::Tally;

/// The sum of doubles, and their number.
#[derive(Debug, Clone, Copy)]
pub struct FloatSum {
    sum: f64,
    count: u64,
}

impl Tally for FloatSum {
    type Statistic = ResultKind;

    fn rows(values: &[ArrayRef]) -> Result<Vec<Option<Self>>> {
        let [values] = take_function_args("sum", values)?;
        let values = values.as_primitive::<Float64Type>().iter();
        Ok(values.map(|value| value.map(|sum| Self { sum, count: 1 })).collect())
    }

    fn merged(&self, other: &Self) -> Result<Self> {
        Ok(Self { sum: self.sum + other.sum, count: self.count + other.count })
    }

    #[expect(clippy::cast_precision_loss, reason = "fewer than 2^53 rows")]
    fn result(tally: Option<&Self>, kind: &ResultKind) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(tally.map(|tally| match kind {
            ResultKind::Sum => tally.sum,
            ResultKind::Average => tally.sum / tally.count as f64,
        })))
    }
}
