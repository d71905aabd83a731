//! Exact sums of integers and decimals, and of their squares.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal256Array, UInt64Array};
use arrow::datatypes::{Decimal128Type, Decimal256Type, Int64Type, UInt64Type, i256};
use arrow_schema::DataType;
use datafusion_common::utils::take_function_args;
use datafusion_common::{DataFusionError, Result, ScalarValue, exec_err};

use super::Statistic;
use super::accumulators::Stored;
use crate::moving::Tally;

/// The type of sums in accumulator states.
pub const STATE: DataType = DataType::Decimal256(76, 0);

/// The number of rows, and the sums of their unscaled values and squares.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExactMoments {
    count: u64,
    sum: i256,
    squares: i256,
}

/// A statistic of decimals with a scale.
#[derive(Debug, Clone, Copy)]
pub struct Scaled {
    pub statistic: Statistic,
    pub scale: i8,
}

impl ExactMoments {
    fn of(value: i256) -> Result<Self> {
        Ok(Self { count: 1, sum: value, squares: value.checked_mul(value).ok_or_else(out_of_range)? })
    }

    pub fn state_types() -> [(&'static str, DataType); 3] {
        [("count", DataType::UInt64), ("sum", STATE), ("squares", STATE)]
    }

    /// Returns the sum of squared deviations, divided by `divisor`.
    #[expect(clippy::cast_precision_loss, reason = "the exact sum is rounded once")]
    fn variance(&self, divisor: u64, scale: i8) -> Result<f64> {
        let count = i256::from_i128(self.count.into());
        let deviations = count
            .checked_mul(self.squares)
            .zip(self.sum.checked_mul(self.sum))
            .and_then(|(squares, square)| squares.checked_sub(square))
            .ok_or_else(out_of_range)?;
        let rows = u128::from(self.count) * u128::from(divisor);
        let unit = 10_f64.powi(2 * i32::from(scale).abs());
        let variance = to_double(deviations);
        Ok(match scale {
            ..0 => variance / rows as f64 * unit,
            _ => variance / (rows as f64 * unit),
        })
    }
}

fn out_of_range() -> DataFusionError {
    DataFusionError::Execution(
        "the variance of numbers is out of range: their squares have more than 76 digits; CAST the argument AS DOUBLE"
            .to_owned(),
    )
}

/// Returns the double nearest to a number that is not negative.
#[expect(clippy::cast_precision_loss, reason = "the last bit stands for all below it, so it is rounded once")]
fn to_double(value: i256) -> f64 {
    let (low, high) = value.to_parts();
    let high = high.cast_unsigned();
    if high == 0 {
        return low as f64;
    }
    let shift = 128 - high.leading_zeros();
    let (top, rest) = match shift {
        128 => (high, low),
        _ => ((high << (128 - shift)) | (low >> shift), low << (128 - shift)),
    };
    (top | u128::from(rest != 0)) as f64 * 2_f64.powi(shift.cast_signed())
}

impl Tally for ExactMoments {
    type Statistic = Scaled;

    fn rows(values: &[ArrayRef]) -> Result<Vec<Option<Self>>> {
        let [values] = take_function_args("variance", values)?;
        let of = |value: Option<i256>| value.map(Self::of).transpose();
        match values.data_type() {
            DataType::Int64 => values
                .as_primitive::<Int64Type>()
                .iter()
                .map(|value| of(value.map(|value| i256::from_i128(value.into()))))
                .collect(),
            DataType::UInt64 => values
                .as_primitive::<UInt64Type>()
                .iter()
                .map(|value| of(value.map(|value| i256::from_i128(value.into()))))
                .collect(),
            DataType::Decimal128(..) => {
                values.as_primitive::<Decimal128Type>().iter().map(|value| of(value.map(i256::from_i128))).collect()
            }
            DataType::Decimal256(..) => values.as_primitive::<Decimal256Type>().iter().map(of).collect(),
            other => exec_err!("an exact variance of {other}"),
        }
    }

    fn merged(&self, other: &Self) -> Result<Self> {
        Ok(Self {
            count: self.count + other.count,
            sum: self.sum.checked_add(other.sum).ok_or_else(out_of_range)?,
            squares: self.squares.checked_add(other.squares).ok_or_else(out_of_range)?,
        })
    }

    fn result(tally: Option<&Self>, Scaled { statistic, scale }: &Scaled) -> Result<ScalarValue> {
        let Some(tally) = tally.filter(|tally| tally.count > 0) else { return Ok(ScalarValue::Float64(None)) };
        let divisor = match statistic {
            Statistic::VariancePop | Statistic::StddevPop => tally.count,
            Statistic::VarianceSamp | Statistic::StddevSamp if tally.count == 1 => {
                return Ok(ScalarValue::Float64(None));
            }
            Statistic::VarianceSamp | Statistic::StddevSamp => tally.count - 1,
            other => return exec_err!("{other:?} of exact sums"),
        };
        let variance = tally.variance(divisor, *scale)?;
        let is_root = matches!(statistic, Statistic::StddevPop | Statistic::StddevSamp);
        Ok(ScalarValue::Float64(Some(if is_root { variance.sqrt() } else { variance })))
    }
}

impl Stored for ExactMoments {
    fn to_state(tallies: &[Self]) -> Vec<ArrayRef> {
        let counts: UInt64Array = tallies.iter().map(|tally| tally.count).collect();
        vec![
            Arc::new(counts),
            decimals(tallies.iter().map(|tally| tally.sum)),
            decimals(tallies.iter().map(|tally| tally.squares)),
        ]
    }

    fn of_state(state: &[ArrayRef]) -> Result<Vec<Self>> {
        let [counts, sums, squares] = take_function_args("variance", state)?;
        let (sums, squares) = (sums.as_primitive::<Decimal256Type>(), squares.as_primitive::<Decimal256Type>());
        let counts = counts.as_primitive::<UInt64Type>();
        let tally = |row| Self { count: counts.value(row), sum: sums.value(row), squares: squares.value(row) };
        Ok((0..counts.len()).map(tally).collect())
    }

    type Key = i256;

    fn key(&self) -> i256 {
        self.sum
    }

    fn to_values(tallies: &[Self]) -> ArrayRef {
        decimals(tallies.iter().map(|tally| tally.sum))
    }
}

fn decimals(values: impl Iterator<Item = i256>) -> ArrayRef {
    Arc::new(values.map(Some).collect::<Decimal256Array>().with_data_type(STATE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_numbers_are_rounded_once() {
        for (value, expected) in [
            (i256::from_i128(3), 3.0),
            (i256::from_i128(i128::MAX), 2_f64.powi(127)),
            (i256::from_parts(0, 1), 2_f64.powi(128)),
            (i256::from_parts(1, 3 << 60), 3.0 * 2_f64.powi(188)),
            // Half a unit in the last place of 2^200, and a bit below it.
            (i256::from_parts(1, (1 << 72) | (1 << 19)), 2_f64.powi(200) + 2_f64.powi(148)),
            (i256::from_parts(0, (1 << 72) | (1 << 19)), 2_f64.powi(200)),
            (i256::MAX, 2_f64.powi(255)),
        ] {
            assert_eq!(to_double(value), expected, "{value}");
        }
    }
}
